"""The same conversation under other settings, in memory, by the real planners."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.core.config import Settings
from mindstone_tui.core.entries import Draft, Line
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    PromptPlanned,
    ToolResultsTrimmed,
)
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.replay.in_memory import InMemoryTranscript
from mindstone_tui.core.replay.rehearsal import Rehearsal, rehearse
from mindstone_tui.core.replay.verify_requests import prove
from mindstone_tui.core.replay.what_if import outcome_of
from mindstone_tui.core.transcript import Damaged, History
from tests.builders import places_in
from tests.core.context.stage import with_context
from tests.core.replay.recorded import FAST, SMALL, WITHOUT_RECALL, recorded

MODES = ("sliding_window", "auto_compact", "cascade")


def said(history: History) -> list[tuple[int, str, str]]:
    return [
        (line.turn, line.id, line.entry.text)
        for line in history.read()
        if isinstance(line, Line)
        and isinstance(line.entry, UserMessage | AssistantMessage | ToolReturned)
    ]


def hashes(held: Rehearsal) -> list[str]:
    return [
        line.entry.prompt_hash
        for line in held.sketch.lines
        if isinstance(line.entry, PromptPlanned)
    ]


def kinds(held: Rehearsal) -> Counter[str]:
    return Counter(line.kind for line in held.sketch.lines)


def in_mode(mode: str) -> Settings:
    return with_context(min_recent=4, mode=mode, window=6_000)


@pytest.mark.parametrize("mode", MODES)
async def test_every_rehearsed_request_is_rebuilt_byte_for_byte(home: Path, mode: str) -> None:
    with recorded(home) as history:
        held = await rehearse(history, in_mode(mode), FAST)
    proof = prove(held.sketch.history())
    assert proof.requests == outcome_of(mode, held).requests > 20
    assert proof.matched == proof.requests
    assert kinds(held)["context_window_pruned"] > 0


def decisions(lines: Iterable[Line | Damaged]) -> list[tuple[int, str, object]]:
    """What was decided for each request; numbers of lines differ, and so do pointers to them."""
    made: list[tuple[int, str, object]] = []
    for line in lines:
        assert isinstance(line, Line)
        match line.entry:
            case ContextWindowPruned(left=left, trigger=trigger):
                made.append((line.turn, trigger, [(each.turn, each.tokens) for each in left]))
            case ToolResultsTrimmed(results=results, trigger=trigger):
                made.append((line.turn, trigger, [each.tokens_before for each in results]))
            case PromptPlanned(purpose=""):
                made.append((line.turn, line.kind, None))
    return made


async def test_under_the_same_settings_the_same_decisions_are_made(home: Path) -> None:
    with recorded(home) as history:
        held = await rehearse(history, WITHOUT_RECALL, FAST)
        made = decisions(history.read())
    assert {"ceiling", "pressure"} <= {kind for _, kind, _ in made}
    assert decisions(held.sketch.lines) == made


async def test_what_was_said_stays_and_decisions_are_made_anew(home: Path) -> None:
    with recorded(home) as history:
        before = said(history)
        held = await rehearse(history, SMALL, FAST)
        assert said(held.sketch.history()) == before
        copied = {line.id for line in history.read() if isinstance(line, Line)}
    assert not [
        line
        for line in held.sketch.lines
        if line.kind in ("prompt_planned", "context_window_pruned") and line.id in copied
    ]


async def test_the_same_history_and_settings_give_the_same_requests(home: Path) -> None:
    with recorded(home) as history:
        first = await rehearse(history, in_mode("auto_compact"), FAST)
        second = await rehearse(history, in_mode("auto_compact"), FAST)
    assert hashes(first) == hashes(second)
    assert first.resolved == second.resolved


async def test_a_smaller_window_prunes_more_and_sends_less(home: Path) -> None:
    with recorded(home) as history:
        wide = await rehearse(history, with_context(min_recent=4, window=64_000), FAST)
        narrow = await rehearse(history, with_context(min_recent=4, window=4_000), FAST)
    assert kinds(wide)["context_window_pruned"] == 0
    assert kinds(narrow)["context_window_pruned"] > 1
    sent = outcome_of("narrow", narrow)
    assert sent.tokens_sent < outcome_of("wide", wide).tokens_sent
    assert sent.peak <= 1.0


async def test_what_a_person_pinned_is_pinned_again(home: Path) -> None:
    with recorded(home) as history:
        held = await rehearse(history, with_context(min_recent=4, window=6_000), FAST)
    assert held.window.fold.state.pins == (2,)
    assert any(line.turn == 2 for line in held.window.fold.lines.values())


async def test_asked_for_settings_win_over_what_the_session_changed(home: Path) -> None:
    with recorded(home) as history:
        options = msgspec.structs.replace(FAST, fixed=frozenset({"context.policy"}))
        held = await rehearse(history, with_context(policy="hybrid"), options)
    assert held.window.policy == "hybrid"


async def test_a_rehearsal_writes_nothing(home: Path) -> None:
    with recorded(home) as history:
        before = _files(home)
        await rehearse(history, in_mode("auto_compact"), FAST)
    assert _files(home) == before


def _files(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}


async def test_a_later_name_is_found_in_the_window_or_by_recall(home: Path) -> None:
    with recorded(home) as history:
        wide = await rehearse(history, with_context(min_recent=4, window=64_000), FAST)
        narrow = await rehearse(history, with_context(min_recent=4, window=4_000), FAST)
    place = {
        name: next(
            one.place
            for one in held.resolved
            if one.reference.words == "server_port.toml" and one.reference.turn == 24
        )
        for name, held in (("wide", wide), ("narrow", narrow))
    }
    assert place["wide"] == "window"
    assert place["narrow"] in ("window", "recalled", "on request")


async def test_a_transcript_in_memory_answers_like_a_file(home: Path) -> None:
    with recorded(home) as history:
        held = await rehearse(history, SMALL, FAST)
    sketch = held.sketch.history()
    newest = next(iter(sketch.back()))
    assert isinstance(newest, Line)
    assert sketch.head.seq == newest.seq == len(held.sketch.lines) - 1
    assert sketch.find(newest.id) == sketch.line(newest.seq) == newest
    assert {line.turn for line in sketch.turn(3)} == {3}
    assert sketch.turn(99) == []
    with pytest.raises(NoSuchEntry):
        sketch.line(10_000)


def test_a_rehearsal_of_what_is_in_memory_itself_gives_no_id_twice(home: Path) -> None:
    places = places_in(home)
    sample = InMemoryTranscript(places, channel="import")
    sample.append_all(
        [Draft(entry=UserMessage(text=text), turn=1, channel="import") for text in ("one", "two")]
    )
    rehearsed = InMemoryTranscript(places)
    for line in sample.lines[1:]:
        rehearsed.copy(line)
    rehearsed.append_all([Draft(entry=UserMessage(text="three"), turn=2, channel="replay")])
    ids = [line.id for line in rehearsed.lines]
    assert len(set(ids)) == len(ids)
    assert not {line.id for line in sample.lines} & {rehearsed.lines[0].id, rehearsed.lines[-1].id}


async def test_whoever_waits_for_it_can_stop_it_at_the_next_line(home: Path) -> None:
    task = asyncio.current_task()
    assert task is not None
    seen: list[int] = []

    def progress(at: int, of: int) -> None:
        seen.append(at)
        if at == 3:
            task.cancel()

    with recorded(home) as history, pytest.raises(asyncio.CancelledError):
        await rehearse(history, SMALL, msgspec.structs.replace(FAST, progress=progress))
    assert seen == [1, 2, 3]
