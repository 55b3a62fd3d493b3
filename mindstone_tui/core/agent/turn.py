"""One turn as a stream of events, exactly as the design of the turn says:

receive, append, load standing context, fold, measure, make room, recall, record the plan, send,
append the answer. Everything from the fold to sending repeats before every model call. However it
goes, the turn ends once, and every call that was made has a result.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from mindstone_tui.core import events
from mindstone_tui.core.agent.announce import announced
from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.agent.desk import Desk
from mindstone_tui.core.agent.hands import interrupt_unanswered, use_tools
from mindstone_tui.core.agent.loops import LoopWatch
from mindstone_tui.core.entries import ToolCall, Usage
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ModelFailed,
    TurnEnded,
    TurnEnding,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from mindstone_tui.core.entries.memory import StandingInstructionOffered
from mindstone_tui.core.errors import (
    ContextTooLong,
    MindstoneError,
    NotSaved,
    ProviderError,
)
from mindstone_tui.core.providers.protocol import Delta, Finished, Retrying, TextDelta
from mindstone_tui.core.providers.protocol import ThinkingDelta as ThinkingPiece


async def take_turn(
    desk: Desk, said: UserMessage, origin: str = "message"
) -> AsyncIterator[events.AnyEvent]:
    """Take one turn; the last event is its one `TurnEnded`."""
    turn = _Turn(desk, desk.transcript.last_turn + 1)
    ending: TurnEnding = "failed"
    why = remedy = ""
    try:
        async for event in turn.run(said, origin):
            yield event
        ending = "done"
    except asyncio.CancelledError:
        # Swallowed on purpose: interrupting a turn ends the turn, not the session's task.
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        ending, why = "interrupted", "The person interrupted."
    except NotSaved as error:
        why, remedy = error.what, error.remedy
        yield events.NotSaved(what=why, remedy=remedy, unsaved=len(desk.transcript.unsaved))
    except MindstoneError as error:
        why, remedy = error.what, error.remedy
    except Exception as error:  # a bug ends the turn as any failure does, and not the session
        desk.report_bug(error)
        why = f"Something went wrong that should not: {type(error).__name__}."
        remedy = "The log file has the details; history is whole."
    async for event in turn.finish(ending, why, remedy):
        yield event


class _Turn:
    """The state of one turn while it runs."""

    def __init__(self, desk: Desk, number: int) -> None:
        self._desk = desk
        self._turn = number
        self._started = time.monotonic()
        self._calls = 0
        self._tools = 0
        self._spent = Usage()
        self._tail: tuple[int, ...] = ()
        self._watch = LoopWatch()
        self._gathering: Gathering | None = None
        self._asked: tuple[ToolCall, ...] = ()

    async def run(self, said: UserMessage, origin: str) -> AsyncIterator[events.AnyEvent]:
        """Everything between the two ends of the turn."""
        desk, turn = self._desk, self._turn
        desk.record(TurnStarted(origin=origin), turn)
        line = desk.record(said, turn)
        text = line.entry.text if isinstance(line.entry, UserMessage) else said.text
        yield events.TurnStarted(turn=turn, entry=line.id, text=text)
        for line in desk.load_standing_context(turn):
            if (event := announced(line)) is not None:
                yield event
        if (rule := desk.recognise(text)) is not None:
            offer = StandingInstructionOffered(text=rule, source=line.seq)
            offered = announced(desk.record(offer, turn))
            if offered is not None:
                yield offered
        for line in await desk.make_room():
            if (event := announced(line)) is not None:
                yield event
        async for event in self._recall(text):
            yield event
        for _ in range(desk.settings.tools.max_rounds):
            async for event in self._ask():
                yield event
            if not self._asked:
                return
            self._check_budget()
            self._tools += len(self._asked)
            async for event in use_tools(desk, turn, self._asked, self._watch):
                yield event
            self._asked = ()
            self._steer()
        raise MindstoneError(
            f"Stopped after {desk.settings.tools.max_rounds} model calls in one turn.",
            "Say `continue` to go on, or raise tools.max_rounds.",
        )

    async def finish(
        self, ending: TurnEnding, why: str, remedy: str
    ) -> AsyncIterator[events.AnyEvent]:
        """Close whatever is open, write the end, and announce it."""
        desk, turn = self._desk, self._turn
        desk.questions.abandon()
        try:
            async for event in self._keep_partial(why):
                yield event
            interrupt_unanswered(desk, turn, self._asked, why or "The turn ended.")
            desk.record(
                TurnEnded(
                    ending=ending,
                    why=why,
                    remedy=remedy,
                    calls=self._calls,
                    tools=self._tools,
                    usage=self._spent,
                ),
                turn,
            )
            yield events.ContextReported(report=desk.report())
        except NotSaved as error:
            ending, why, remedy = "failed", error.what, error.remedy
            unsaved = len(desk.transcript.unsaved)
            yield events.NotSaved(what=why, remedy=remedy, unsaved=unsaved)
        yield events.TurnEnded(
            turn=turn,
            ending=ending,
            why=why,
            remedy=remedy,
            calls=self._calls,
            tools=self._tools,
            usage=self._spent,
            elapsed=round(time.monotonic() - self._started, 3),
        )

    async def _recall(self, text: str) -> AsyncIterator[events.AnyEvent]:
        found = await self._desk.recaller.gather(text)
        if found is None:
            return
        line = self._desk.record(found, self._turn)
        self._tail = (line.seq,)
        if (event := announced(line)) is not None:
            yield event

    async def _ask(self) -> AsyncIterator[events.AnyEvent]:
        """One model call; tried a second time, with less, when the provider says it is too long."""
        for last_try in (False, True):
            try:
                async for event in self._ask_once(shrink=last_try):
                    yield event
                return
            except ContextTooLong:
                if last_try or self._gathering is not None:
                    raise

    async def _ask_once(self, *, shrink: bool) -> AsyncIterator[events.AnyEvent]:
        desk, turn = self._desk, self._turn
        self._calls += 1
        prepared = await desk.prepare(self._calls, self._tail, shrink=shrink)
        for line in prepared.lines:
            if (event := announced(line)) is not None:
                yield event
        yield events.ContextReported(report=desk.report())
        yield events.ModelCalled(
            turn=turn,
            call=self._calls,
            model=prepared.request.model,
            prompt_hash=prepared.request.hash,
            tokens=prepared.tokens,
        )
        gathering = Gathering(turn, self._calls)
        options = desk.options(prepared)
        finished: Finished | None = None
        retries = 0
        began = time.monotonic()
        first = 0.0
        try:
            async with contextlib.aclosing(
                _closable(desk.provider.stream(prepared.request, options))
            ) as stream:
                async for delta in stream:
                    if isinstance(delta, Retrying):
                        retries += 1
                        yield events.ModelRetried(
                            turn=turn, attempt=delta.attempt, wait=delta.wait, why=delta.why
                        )
                    elif isinstance(delta, Finished):
                        finished = delta
                    else:
                        first = first or time.monotonic() - began
                        self._gathering = gathering
                        gathering.take(delta)
                        if isinstance(delta, TextDelta) and delta.text:
                            yield events.TextDelta(turn=turn, text=delta.text)
                        elif isinstance(delta, ThinkingPiece) and delta.text:
                            yield events.ThinkingDelta(turn=turn, text=delta.text)
        except ProviderError as error:
            desk.position += retries + 1
            desk.record(
                ModelFailed(
                    call=self._calls,
                    model=prepared.request.model,
                    error=type(error).__name__,
                    why=error.what,
                    retries=retries,
                    position=desk.position,
                ),
                turn,
            )
            raise
        desk.position += retries + 1
        if finished is None:
            finished = Finished(reason="stop")
        async for event in self._keep(gathering, finished, prepared.request.model):
            yield event
        usage, by = desk.usage_of(finished, prepared, gathering)
        self._spend(usage)
        reported = desk.record(
            UsageReported(
                call=self._calls,
                model=prepared.request.model,
                usage=usage,
                by=by,
                served=finished.model if finished.model != prepared.request.model else "",
                elapsed=round(time.monotonic() - began, 3),
                first_token=round(first, 3),
                retries=retries,
                position=desk.position,
            ),
            turn,
        )
        for line in desk.note_usage(reported):
            if (event := announced(line)) is not None:
                yield event
        yield events.UsageReported(
            turn=turn, call=self._calls, model=prepared.request.model, usage=usage
        )

    async def _keep(
        self, gathering: Gathering, finished: Finished, model: str
    ) -> AsyncIterator[events.AnyEvent]:
        """Write the answer down."""
        line = self._desk.record(
            AssistantMessage(
                text=gathering.text,
                model=model,
                calls=gathering.calls,
                thinking=gathering.thinking,
                finish=finished.reason,
            ),
            self._turn,
        )
        self._gathering = None
        self._asked = gathering.calls
        yield events.AnswerRecorded(
            turn=self._turn, entry=line.id, text=gathering.text, calls=len(gathering.calls)
        )

    async def _keep_partial(self, why: str) -> AsyncIterator[events.AnyEvent]:
        """Keep what was streamed before the turn broke off."""
        gathering, self._gathering = self._gathering, None
        if gathering is None or not gathering.text:
            return
        line = self._desk.record(
            AssistantPartial(text=gathering.text, model=self._desk.info.name, why=why), self._turn
        )
        yield events.AnswerRecorded(
            turn=self._turn, entry=line.id, text=gathering.text, calls=0, partial=True
        )

    def _steer(self) -> None:
        """Put what the person added meanwhile in front of the next model call."""
        for waiting in self._desk.take_steering():
            self._desk.record(waiting, self._turn)

    def _spend(self, usage: Usage) -> None:
        self._spent = Usage(
            prompt=_sum(self._spent.prompt, usage.prompt),
            completion=_sum(self._spent.completion, usage.completion),
            cached=_sum(self._spent.cached, usage.cached),
            cache_written=_sum(self._spent.cache_written, usage.cache_written),
            reasoning=_sum(self._spent.reasoning, usage.reasoning),
            cost=_sum(self._spent.cost, usage.cost),
        )

    def _check_budget(self) -> None:
        """Stop a turn that has become more expensive than it may be."""
        limits = self._desk.settings.models
        tokens = (self._spent.prompt or 0) + (self._spent.completion or 0)
        if limits.turn_tokens and tokens > limits.turn_tokens:
            raise MindstoneError(
                f"This turn used {tokens:,} tokens; models.turn_tokens allows "
                f"{limits.turn_tokens:,}.",
                "Say `continue` to go on, or raise the limit.",
            )
        if limits.turn_cost and (self._spent.cost or 0.0) > limits.turn_cost:
            raise MindstoneError(
                f"This turn cost ${self._spent.cost:.2f}; models.turn_cost allows "
                f"${limits.turn_cost:.2f}.",
                "Say `continue` to go on, or raise the limit.",
            )


async def _closable(
    stream: AsyncIterator[Delta | Retrying],
) -> AsyncGenerator[Delta | Retrying, None]:
    """The same stream, closed at once when nobody listens any more."""
    try:
        async for delta in stream:
            yield delta
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


Number = TypeVar("Number", int, float)


def _sum(left: Number | None, right: Number | None) -> Number | None:
    if left is None or right is None:
        return left if right is None else right
    return left + right
