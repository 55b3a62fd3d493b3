"""Whatever an entry holds becomes a line that every reader can read, or is refused before."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.entries import Blob, ToolCall, ToolSchema
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.store import Imported, ProjectTrusted
from mindstone_tui.core.entries.window import AlertRaised, ToolsChanged, VelocitySpiked, WindowState
from mindstone_tui.core.errors import TranscriptError
from mindstone_tui.core.transcript import verify
from mindstone_tui.core.transcript.encode import next_ids, prepare, written_at
from tests.builders import transcript_in

MAX_LINE = 1_048_576


def test_file_names_that_are_no_text_are_written_visibly(home: Path) -> None:
    transcript = transcript_in(home)
    name = b"caf\xe9.jsonl".decode("utf-8", "surrogateescape")
    transcript.append(Imported(path=name, format="auto", sha256="0" * 64, added=1, already_there=0))
    transcript.append(ProjectTrusted(folder=name, files={name: "0" * 64}))
    assert verify(transcript.places).ok
    assert "caf\ufffd.jsonl" in transcript.places.transcript.read_text()


def test_a_number_that_no_reader_could_read_is_refused_and_blocks_nothing(home: Path) -> None:
    transcript = transcript_in(home)
    before = transcript.places.transcript.read_bytes()
    with pytest.raises(TranscriptError, match="could not be read back"):
        transcript.append(VelocitySpiked(tokens=1, baseline=float("nan"), ratio=1.0))
    assert transcript.places.transcript.read_bytes() == before
    assert not transcript.unsaved
    transcript.append(AlertRaised(level="info", metric="x", message="fine"))
    assert verify(transcript.places).ok


def test_long_texts_deep_inside_tables_with_dots_and_tildes_come_back(home: Path) -> None:
    transcript = transcript_in(home)
    huge = "0123456789" * 150_000
    parameters: dict[str, object] = {"a.b~c": {"~1": [huge]}, "plain": "short"}
    tools = (ToolSchema(name="t", description="d", parameters=parameters),)
    line = transcript.append(ToolsChanged(tools=tools, state=WindowState(through=0)))
    assert len(line.raw) < 5_000
    whole = transcript.history().whole(line).entry
    assert isinstance(whole, ToolsChanged)
    assert whole.tools[0].parameters == parameters


def test_several_long_texts_are_moved_until_the_line_is_short(home: Path) -> None:
    transcript = transcript_in(home)
    entry = AssistantMessage(
        text="t" * 900_000,
        calls=tuple(ToolCall(id=str(n), name="x", arguments="a" * 400_000) for n in range(4)),
    )
    line = transcript.append(entry)
    assert len(line.raw) <= MAX_LINE
    assert transcript.history().whole(line).entry == entry


def test_secrets_are_gone_before_a_blob_or_a_line_is_written(home: Path) -> None:
    kept: list[bytes] = []

    def keep(data: bytes) -> Blob:
        kept.append(data)
        return Blob(sha256="0" * 64, size=len(data))

    text = "the key is hunter2 \x00 " + "x" * 2_000_000
    body = prepare(UserMessage(text=text), lambda text: text.replace("hunter2", "***"), keep)
    assert kept
    assert all(b"hunter2" not in data for data in [*kept, body.fields, body.extra])


@given(st.text(st.characters(), max_size=200))
def test_any_text_survives_or_is_kept_as_it_came(text: str) -> None:
    kept: list[bytes] = []

    def keep(data: bytes) -> Blob:
        kept.append(data)
        return Blob(sha256="0" * 64, size=len(data))

    body = prepare(UserMessage(text=text), str, keep)
    if kept:
        assert kept == [text.encode("utf-8", "surrogatepass")]
        assert b'"altered":{"text":' in body.extra
    else:
        assert body.extra == b""
    assert b"\\u0000" not in body.fields
    assert b"\n" not in body.fields


@pytest.mark.parametrize("year", [1, 1960, 2026, 2399, 9999])
def test_every_year_has_an_id_that_tells_a_date(year: int) -> None:
    first, later = islice(next_ids(datetime(year, 6, 1, tzinfo=UTC), ""), 2)
    second = next(next_ids(datetime(1960, 1, 1, tzinfo=UTC), later))
    assert first < second
    assert written_at(first)[:4] == str(max(year, 1970))
    assert written_at("Z" * 26).startswith("9999")
