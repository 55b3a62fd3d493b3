"""Every kind of entry survives the way to disk and back, today and in ten years."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.entries import (
    KINDS,
    Entry,
    Line,
    Malformed,
    Request,
    Span,
    ToolSchema,
    Unknown,
    decode_line,
    spans_of,
)
from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected
from mindstone_tui.core.entries.line import GENESIS, RESERVED, encode_body, hash_matches, seal
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.paths import SessionKey, SessionPlaces
from mindstone_tui.core.transcript import History, verify
from tests.core.specimens import GOLDEN, specimens


def _line(body: bytes, **more: object) -> bytes:
    fields: dict[str, object] = {
        "seq": 3,
        "id": "01KDVDNA000000000000000002",
        "session": "agent:default:main",
        "ts": "2026-01-01T00:00:00.000Z",
        "turn": 2,
        "role": "event",
        "channel": "test",
        "prev": GENESIS,
    }
    raw, _ = seal(body, **{**fields, **more})  # type: ignore[arg-type]
    return raw[:-1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_specimen_of_each_kind_is_read_back_equal(kind: str) -> None:
    entry = specimens()[kind]
    line = decode_line(_line(encode_body(entry)))
    read = line.entry
    if isinstance(read, PromptPlanned) and isinstance(entry, PromptPlanned):
        read = read.completed(entry)  # it leaves to another plan what is the same there
    assert read == entry
    assert line.kind == kind
    assert hash_matches(line.raw, line.hash)


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_has_a_field_that_the_envelope_has(kind: str) -> None:
    assert not set(KINDS[kind].__struct_fields__) & RESERVED


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_and_field_is_explained_or_plain(kind: str) -> None:
    assert KINDS[kind].__doc__


def test_the_role_user_belongs_to_user_messages_alone() -> None:
    assert [kind for kind, entry in KINDS.items() if entry.role == "user"] == ["user_message"]


def test_window_changes_carry_the_whole_state() -> None:
    carrying = {kind for kind, entry in KINDS.items() if "state" in entry.__struct_fields__}
    assert {"context_window_pruned", "window_carried"} < carrying
    assert "user_message" not in carrying


def test_the_golden_transcript_still_reads_as_it_was_written() -> None:
    """Its lines are never changed: if this fails, the program changed, not history."""
    lines = [decode_line(raw) for raw in GOLDEN.read_bytes().split(b"\n")[:-1]]
    assert [line.seq for line in lines] == list(range(len(lines)))
    missing = set(KINDS) - {line.kind for line in lines}
    assert not missing, f"add {missing} to the golden transcript: python -m tests.core.specimens"
    for line in lines:
        assert hash_matches(line.raw, line.hash)
        if line.kind in KINDS and isinstance(line.entry, Entry):
            body = msgspec.json.decode(msgspec.json.encode(line.entry))
            stored = json.loads(line.raw)
            assert body == {key: value for key, value in stored.items() if key in body}


def test_the_golden_transcript_holds_a_kind_and_fields_from_the_future() -> None:
    lines = [decode_line(raw) for raw in GOLDEN.read_bytes().split(b"\n")[:-1]]
    (future,) = [line for line in lines if line.kind == "telepathy_received"]
    assert isinstance(future.entry, Unknown)
    assert future.entry.fields == {"thought": "…", "strength": 11}
    (fancier,) = [line for line in lines if b"invented_later" in line.raw]
    assert fancier.kind == "user_message"
    assert json.loads(fancier.raw)["invented_later"] == {"a": [1]}


def test_the_golden_transcript_verifies_in_its_place(home: Path) -> None:
    folder = home / "agents" / "default" / "sessions" / "golden"
    folder.mkdir(parents=True)
    (folder / "transcript.jsonl").write_bytes(GOLDEN.read_bytes())
    places = SessionPlaces(SessionKey("default", "golden"), folder, folder / "library.db")
    verdict = verify(places)
    assert {problem.kind for problem in verdict.problems} <= {"blob"}
    with History(places) as history:
        assert all(isinstance(item, Line) for item in history.read())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1, max_size=12), json_values, max_size=5))
def test_unknown_kinds_keep_all_their_fields(fields: dict[str, object]) -> None:
    own = {key: value for key, value in fields.items() if key not in RESERVED}
    body = msgspec.json.encode({"kind": "from_the_future", **own})[1:-1]
    raw = _line(body)
    line = decode_line(raw)
    assert isinstance(line.entry, Unknown)
    assert line.entry.fields == own
    assert line.raw == raw


@given(st.binary(max_size=400))
def test_any_bytes_are_a_line_or_malformed_and_nothing_else(raw: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert decode_line(raw).raw == raw


@given(st.data())
def test_a_line_with_any_change_is_malformed_or_has_another_hash(data: st.DataObject) -> None:
    raw = bytearray(_line(encode_body(specimens()["user_message"])))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        line = decode_line(bytes(raw))
    except Malformed:
        return
    assert not hash_matches(line.raw, line.hash)


@given(st.lists(st.integers(0, 60), unique=True).map(sorted))
def test_spans_hold_exactly_the_numbers_they_were_made_of(seqs: list[int]) -> None:
    spans = spans_of(seqs)
    assert [seq for seq in range(61) if any(seq in span for span in spans)] == seqs
    assert all(before.last + 1 < after.first for before, after in itertools.pairwise(spans))
    assert spans == tuple(Span(span.first, span.last) for span in spans)


def test_a_requests_hash_is_that_of_sorted_compact_json() -> None:
    request = Request(
        model="local/guide",
        messages=({"role": "user", "content": "ü"},),
        tools=(ToolSchema(name="read", description="Read.", parameters={"type": "object"}),),
    )
    body = {
        "model": "local/guide",
        "messages": [{"content": "ü", "role": "user"}],
        "tools": [{"description": "Read.", "name": "read", "parameters": {"type": "object"}}],
    }
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert request.hash == hashlib.sha256(text.encode()).hexdigest()


def test_a_recalled_text_stands_once_in_its_line_and_is_read_back_whole() -> None:
    passages = tuple(
        RecalledPassage(
            session="s", entry=f"e{n}", seq=n, turn=1, ts="", speaker="user", score=0.5, tokens=9,
            text=text,
        )
        for n, text in enumerate(["unmistakable “ü” words", "words", "not in the block"])
    )  # fmt: skip
    entry = RecallInjected(
        query="q", passages=passages, text="<data>\nunmistakable “ü” words\n</data>", tokens=20
    )
    body = encode_body(entry)
    assert body.count(b"unmistakable") == 1
    decoded = msgspec.json.decode(b"{" + body + b"}", type=RecallInjected)
    assert decoded == entry
    assert [passage.text for passage in decoded.passages] == [one.text for one in passages]
