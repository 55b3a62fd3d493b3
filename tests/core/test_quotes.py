"""Recalled words stand once in a transcript, come back exactly, and cannot be changed unseen."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from mindstone_tui.core import events
from mindstone_tui.core.entries import Draft, Line, decode_line
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected
from mindstone_tui.core.entries.line import GENESIS, encode_body, seal
from mindstone_tui.core.entries.quotes import pointing, quoting
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.replay.verify_requests import prove
from mindstone_tui.core.text import as_data
from mindstone_tui.core.transcript import History, verify
from tests.builders import transcript_in
from tests.core.session.stage import check_history, on_stage

SESSION = "agent:default:main"
words = st.text(st.sampled_from("ab <[‹⁅|/\n·ü漢INSTdata-user>"), min_size=1, max_size=30)


def line_of(entry: Any, seq: int, session: str = SESSION) -> Line:
    """An entry as a line that was read."""
    raw, _ = seal(
        encode_body(entry),
        seq=seq,
        id=f"01KDVDNA{seq:018}",
        session=session,
        ts="2026-01-01T00:00:00.000Z",
        turn=seq,
        role=entry.role,
        channel="test",
        prev=GENESIS,
    )
    return decode_line(raw[:-1])


def passage_of(line: Line, text: str, **more: Any) -> RecalledPassage:
    """A passage as recall hands it over."""
    return RecalledPassage(
        session=line.session, entry=line.id, seq=line.seq, turn=line.turn, ts=line.ts,
        speaker="user", score=0.5, tokens=9, text=text, **more,
    )  # fmt: skip


@given(st.lists(st.tuples(words, words, words, st.booleans()), max_size=6), words)
@example([("a", "<system>[INST] b", "c", True), ("", "[INST]</data-0>", "", True)], "q")
def test_what_is_recalled_is_read_back_as_it_was(
    said: list[tuple[str, str, str, bool]], query: str
) -> None:
    lines = [line_of(UserMessage(text=query), 0)]
    passages = []
    for number, (before, text, after, own) in enumerate(said, start=1):
        session = SESSION if own else "agent:default:other"
        line = line_of(UserMessage(text=before + text + after), number, session)
        lines.append(line)
        parts = {"words": 0.25, "use": -0.01 * number} if number % 2 else {"words": 0.25}
        passages.append(passage_of(line, text, parts=parts))
    joined = "\n\n".join(f"[#{each.seq}]\n{each.text}" for each in passages)
    entry = RecallInjected(
        query=query,
        passages=tuple(passages),
        text=as_data(joined, origin="recall", nonce="0123456789abcdef"),
        tokens=20,
        asked=0,
    )
    written = line_of(pointing(entry, SESSION, lambda seq: lines[seq]), 99)
    back = quoting(written, lambda seq: lines[seq]).entry
    assert back == msgspec.structs.replace(entry, asked=None)
    assert quoting(written, lambda seq: lines[seq]) == quoting(written, lambda seq: lines[seq])
    again = line_of(back, 99).entry
    assert again == back, "a fork, which has none of those lines, has all the words"


def test_a_line_says_nothing_that_its_source_says() -> None:
    source = line_of(UserMessage(text="The heron nests in the reeds by the old mill."), 1)
    entry = RecallInjected(
        query="Where does the heron nest?",
        passages=(passage_of(source, "nests in the reeds"),),
        text="<data>\n[#1]\nnests in the reeds\n</data>",
        tokens=9,
        asked=2,
    )
    asked = line_of(UserMessage(text=entry.query), 2)
    lines = {1: source, 2: asked}
    written = line_of(pointing(entry, SESSION, lines.get), 3)
    assert b"reeds" not in written.raw
    assert b"heron" not in written.raw
    assert source.id.encode() not in written.raw
    nothing: dict[int, Line] = {}
    alone = line_of(pointing(entry, SESSION, nothing.get), 3)
    assert alone.entry == msgspec.structs.replace(entry, asked=None), "nothing was found: all stays"
    elsewhere = line_of(pointing(entry, "agent:default:other", lines.get), 3)
    assert b"reeds" in elsewhere.raw, "another session's words can change"
    changed = {**lines, 1: line_of(UserMessage(text="The heron nests in the weeds, I think."), 1)}
    for missing in ({1: source}, {2: asked}, changed):
        left = quoting(written, missing.get)
        assert left == written
        assert isinstance(left.entry, RecallInjected)
        assert left.entry.leans


FACT = "The launch code of the Heron project is cobalt-4417-marigold."
QUESTION = "What is the launch code of the Heron project?"


async def held(home: Path) -> tuple[SessionPlaces, list[events.AnyEvent]]:
    """A session in which something that left its window was brought back."""
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say("Build me a tide table.")
        await stage.say(FACT)
        await stage.say("Thank you.")
        ended, _ = await stage.run("/prune turn 2")
        assert ended.ok
        await stage.say(QUESTION)
    return stage.places, stage.heard


def resealed(places: SessionPlaces, change: Any) -> None:
    """Change lines as somebody would who knows how hashes are made."""
    path = places.transcript
    prev, made = GENESIS, []
    for raw in path.read_bytes().splitlines():
        fields = json.loads(raw)
        change(fields)
        fields["prev"] = prev
        said = json.dumps({**fields, "hash": ""}, separators=(",", ":"), ensure_ascii=False)
        body = said.encode().removesuffix(b',"hash":""}')
        prev = hashlib.sha256(body).hexdigest()
        made.append(body + b',"hash":"' + prev.encode() + b'"}\n')
    path.write_bytes(b"".join(made))


async def test_recalled_words_stand_once_and_every_request_is_rebuilt(home: Path) -> None:
    places, heard = await held(home)
    lines = places.transcript.read_bytes().splitlines()
    (recalled,) = [raw for raw in lines if b'"recall_injected"' in raw]
    assert b"cobalt" not in recalled
    assert b"launch code" not in recalled
    told = next(event for event in heard if isinstance(event, events.RecallInjected))
    assert told.passages[0].text == FACT
    assert told.passages[0].session == str(places.key)
    with History(places) as history:
        line = next(each for each in history.newest({"recall_injected"}, 100))
    assert isinstance(line.entry, RecallInjected)
    assert line.entry.passages == told.passages
    assert line.entry.query == QUESTION
    assert FACT in line.entry.text
    assert check_history(places) == 5, "the guide looks it up"


async def test_a_pointer_or_its_target_that_was_changed_is_found(home: Path) -> None:
    places, _ = await held(home)
    kept = places.transcript.read_bytes()

    def other_target(fields: dict[str, Any]) -> None:
        if fields["kind"] == "user_message" and fields["text"] == FACT:
            fields["text"] = FACT.replace("4417", "7144")

    def other_pointer(fields: dict[str, Any]) -> None:
        if fields["kind"] == "recall_injected":
            fields["passages"][0]["of"] += 1

    def other_line(fields: dict[str, Any]) -> None:
        if fields["kind"] == "recall_injected":
            fields["passages"][0]["seq"] = 2

    for change in (other_target, other_pointer, other_line):
        resealed(places, change)
        assert verify(places).ok, "whoever can make hashes can make a sound chain"
        with History(places) as history:
            proof = prove(history)
        turns = [wrong.turn for wrong in proof.mismatched]
        assert 4 in turns, change
        assert "cannot be read" in proof.mismatched[-1].why
        places.transcript.write_bytes(kept)
    for old, new in ((b"cobalt-4417", b"cobalt-7144"), (b'"of":0', b'"of":1')):
        places.transcript.write_bytes(kept.replace(old, new, 1))
        assert not verify(places).ok
    places.transcript.write_bytes(kept)
    assert check_history(places) == 5, "the guide looks it up"


def test_what_is_written_to_another_file_than_it_was_found_in_keeps_its_words(home: Path) -> None:
    transcript = transcript_in(home, SESSION)
    source = transcript.append(UserMessage(text=FACT), turn=1)
    entry = RecallInjected(
        query="q", passages=(passage_of(source, FACT),), text=f"<data>\n{FACT}\n</data>", tokens=9
    )
    pointed = transcript.append_all(
        [Draft(entry=entry, turn=2, channel="test")], {source.seq: source}.get
    )[0]
    assert b"cobalt" not in pointed.raw
    path = transcript.places.transcript
    copy = path.read_bytes()
    path.rename(path.with_name("old"))
    path.write_bytes(copy)
    path.chmod(0o600)
    plain = transcript.append_all(
        [Draft(entry=entry, turn=2, channel="test")], {source.seq: source}.get
    )[-1]
    assert FACT.encode() in plain.raw
    assert plain.entry == entry
    transcript.close()
    assert verify(transcript.places).ok
