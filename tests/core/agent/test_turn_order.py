"""A turn step by step, with a provider that says what it is told: what is on disk, and when."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from threading import current_thread, main_thread

from mindstone_tui.core import events
from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import ContextSettings
from mindstone_tui.core.context.fold import Fold, ReadLines
from mindstone_tui.core.context.messages import ReadBlob
from mindstone_tui.core.context.window_view import follow, reader
from mindstone_tui.core.entries import Request
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.errors import ContextTooLong, ProviderUnreachable
from mindstone_tui.core.providers.base import Retrying, TextPart
from tests.core.agent.stage import (
    Replies,
    Reply,
    calling,
    context_of,
    heard,
    kinds,
    permissions,
    saying,
    tool,
    window_in,
)
from tests.core.context.stage import Quarter


def in_order(wanted: Iterable[str], found: Iterable[str]) -> bool:
    """Whether all of these occur, one after the other."""
    rest = iter(found)
    return all(kind in rest for kind in wanted)


async def test_everything_is_on_disk_before_it_is_sent(home: Path) -> None:
    provider = Replies(calling("look"), saying("It is a stone."))
    context = context_of(window_in(home), provider, tool())
    told = await heard(context, "What is it?")
    wanted = (
        "turn_started user_message instructions_changed tools_changed prompt_planned "
        "assistant_message tool_called tool_returned prompt_planned assistant_message turn_ended"
    )
    assert in_order(wanted.split(), kinds(context))
    assert [request.hash for request in provider.requests] == [
        event.prompt_hash for event in told if isinstance(event, events.ModelCalled)
    ]
    ended = told[-1]
    assert isinstance(ended, events.TurnEnded)
    assert (ended.ending, ended.calls, ended.tools) == ("done", 2, 1)


async def test_a_failed_call_is_on_disk_with_what_was_said_before_it_broke(home: Path) -> None:
    broken = ProviderUnreachable("The server hung up.", "Try again.")
    reply: Reply = [Retrying(attempt=1, wait=0.0, why="busy"), TextPart(text="It is"), broken]
    context = context_of(window_in(home), Replies(reply))
    told = await heard(context, "What is it?")
    assert in_order(
        ("prompt_planned", "model_failed", "assistant_partial", "turn_ended"), kinds(context)
    )
    ended = told[-1]
    assert isinstance(ended, events.TurnEnded)
    assert (ended.ending, ended.why) == ("failed", "The server hung up.")


async def test_a_prompt_that_is_called_too_long_is_planned_again_for_less(home: Path) -> None:
    too_long = ContextTooLong("Too long.", "Say less.")
    provider = Replies([too_long], saying("Yes."))
    context = context_of(window_in(home), provider)
    told = await heard(context, "word " * 400)
    assert isinstance(told[-1], events.TurnEnded)
    assert told[-1].ending == "done"
    assert len(provider.requests) == 2
    assert context.target.window < 8_000


async def test_a_call_that_is_refused_has_a_result_and_the_turn_goes_on(home: Path) -> None:
    provider = Replies(calling("write", "unknown"), saying("Then not."))
    refusing = permissions("read-only")
    context = context_of(window_in(home), provider, tool("write", "write"), allowed=refusing)
    told = await heard(context, "Write it.")
    results = [
        line.entry
        for line in context.window.fold.lines.values()
        if isinstance(line.entry, ToolReturned)
    ]
    assert [result.status for result in results] == ["refused", "error"]
    assert isinstance(told[-1], events.TurnEnded)
    assert told[-1].ending == "done"


async def test_the_same_call_is_not_run_for_ever(home: Path) -> None:
    rounds = [calling("look") for _ in range(4)]
    context = context_of(window_in(home), Replies(*rounds, saying("Enough.")), tool())
    await heard(context, "Look.")
    found = kinds(context)
    assert (found.count("tool_called"), found.count("tool_returned")) == (4, 4)
    assert "tool_refused" in found


class CountedFold(Fold):
    """Counts the prompts that are rendered from it."""

    def __init__(self, read: ReadLines) -> None:
        super().__init__(read)
        self.rendered = 0

    def request(
        self,
        model: str,
        *,
        turn: int | None = None,
        tail: tuple[int, ...] = (),
        blob: ReadBlob | None = None,
        images: bool = True,
        sounds: bool = False,
    ) -> Request:
        self.rendered += 1
        return super().request(model, turn=turn, tail=tail, blob=blob, images=images, sounds=sounds)


async def test_a_turn_renders_its_prompt_once_and_compares_each_exchange_once(home: Path) -> None:
    compared = itertools.count()
    settings = Settings(context=ContextSettings(policy="hybrid", min_recent=1))

    def similar(one: str, other: str) -> float:
        next(compared)
        return 0.5

    window = window_in(home, settings, similar)
    context = context_of(window, Replies(*(saying(f"Answer {n}.") for n in range(8))))
    for number in range(7):
        await heard(context, f"Question {number}?")
    window.fold = fold = CountedFold(reader(window.history))
    follow(fold, window.history)
    before = next(compared)
    told = await heard(context, "And now?")
    reports = [event.report for event in told if isinstance(event, events.ContextReported)]
    scored = [block for block in reports[-1].blocks if block.score is not None]
    assert len(reports) == 2
    assert fold.rendered == 1
    assert scored
    assert next(compared) - before - 1 <= len({block.turn for block in scored})
    after = window.call(context.target)
    again = fold.request(after.model, turn=after.turn)
    assert reports[-1].prompt_hash == again.hash


LONG = 10_000


class OnThreads(Quarter):
    """Remembers where a long text was counted first; whoever asks again has the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.on_loop: dict[int, bool] = {}

    def text(self, text: str) -> int:
        if len(text) > LONG:
            self.on_loop.setdefault(len(text), current_thread() is main_thread())
        return super().text(text)


async def test_a_message_that_is_cut_is_counted_and_cut_beside_the_loop(home: Path) -> None:
    """Others are served by the same loop, and wait for whatever is done on it."""
    window = window_in(home)
    counter, window.threads = OnThreads(), True
    window.counters = lambda model: counter
    said = "A line of a long log.\n" * 100_000
    nobody = permissions(asks=False)
    await heard(context_of(window, Replies(saying("Read.")), allowed=nobody), said)
    assert len(counter.on_loop) >= 2  # the whole, and what stands for it
    assert not any(counter.on_loop.values())
