"""One turn as a stream of events, exactly as the design of the turn says:

receive, append, load standing context, fold, measure, make room, recall, record the plan, send,
append the answer. Everything from the fold to sending repeats before every model call. However it
goes, the turn ends once, and every call that was made has a result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final, TypeVar

from mindstone_tui.core import events
from mindstone_tui.core.agent.context import Desk
from mindstone_tui.core.agent.model_call import Asking
from mindstone_tui.core.agent.run_tools import LoopWatch, interrupted, use_tools
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context.messages import said
from mindstone_tui.core.context.plan import Prepared
from mindstone_tui.core.entries import Line, ToolCall, Usage
from mindstone_tui.core.entries.conversation import (
    ToolReturned,
    TurnEnded,
    TurnEnding,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import StandingInstructionOffered
from mindstone_tui.core.errors import (
    Bug,
    ContextTooLong,
    DoesNotFit,
    MindstoneError,
    NotSaved,
)
from mindstone_tui.core.events.from_entry import announcements, tool_ended
from mindstone_tui.core.recall.standing_instructions import recognise_standing_instruction

Number = TypeVar("Number", int, float)


def added(left: Usage, right: Usage) -> Usage:
    """Both together; what neither knows stays unknown."""
    return Usage(
        prompt=_sum(left.prompt, right.prompt),
        completion=_sum(left.completion, right.completion),
        cached=_sum(left.cached, right.cached),
        cache_written=_sum(left.cache_written, right.cache_written),
        reasoning=_sum(left.reasoning, right.reasoning),
        cost=_sum(left.cost, right.cost),
    )


def check_budget(spent: Usage, limits: ModelSettings) -> None:
    """Stop a turn that has become more expensive than it may be."""
    tokens = (spent.prompt or 0) + (spent.completion or 0)
    cost = spent.cost or 0.0
    if limits.turn_tokens and tokens > limits.turn_tokens:
        raise MindstoneError(
            f"This turn used {tokens:,} tokens; models.turn_tokens allows {limits.turn_tokens:,}.",
            "Say `continue` to go on, or raise the limit.",
        )
    if limits.turn_cost and cost > limits.turn_cost:
        raise MindstoneError(
            f"This turn cost ${cost:.2f}; models.turn_cost allows ${limits.turn_cost:.2f}.",
            "Say `continue` to go on, or raise the limit.",
        )


def _sum(left: Number | None, right: Number | None) -> Number | None:
    if left is None or right is None:
        return left if right is None else right
    return left + right


MOST_SHRINKS: Final = 2
"""How often a request is made smaller because its provider calls it too long."""


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
    except asyncio.CancelledError as cancelled:
        # Swallowed on purpose: interrupting a turn ends the turn, not the session's task.
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        ending, why = "interrupted", str(cancelled) or "The person interrupted."
    except NotSaved as error:
        why, remedy = error.what, error.remedy
        yield events.NotSaved(what=why, remedy=remedy, unsaved=len(desk.transcript.unsaved))
    except MindstoneError as error:
        why, remedy = error.what, error.remedy
    except Exception as error:  # a bug ends the turn as any failure does, and not the session
        desk.report_bug(error)
        why, remedy = Bug(error).what, Bug(error).remedy
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
        self._asking: Asking | None = None
        self._asked: tuple[ToolCall, ...] = ()
        self._call_ids: set[str] = set()
        self._prepared: Prepared | None = None

    async def run(self, said: UserMessage, origin: str) -> AsyncIterator[events.AnyEvent]:
        """Everything between the two ends of the turn."""
        desk, turn = self._desk, self._turn
        _, asked = desk.record_all([TurnStarted(origin=origin), said], turn)
        text = asked.entry.text if isinstance(asked.entry, UserMessage) else said.text
        yield events.TurnStarted(turn=turn, entry=asked.id, text=text, queued=said.queued)
        for notice in await desk.surroundings.make_ready():
            yield notice
        await desk.learn_window()
        lines = desk.load_standing_context(turn)
        rule = recognise_standing_instruction(text)
        if rule is not None and not desk.said_before(rule.text, asked.seq):
            offer = StandingInstructionOffered(text=rule.text, source=asked.seq)
            lines.append(desk.record(offer, turn))
        for event in announcements(*lines):
            yield event
        for event in announcements(*await desk.make_room()):
            yield event
        async for event in self._recall(text):
            yield event
        for _ in range(desk.settings.tools.max_rounds):
            async for event in self._ask():
                yield event
            if not self._asked:
                return
            check_budget(self._spent, desk.settings.models)
            self._tools += len(self._asked)
            async for event in use_tools(desk, turn, self._asked, self._watch):
                yield event
            self._asked = ()
            for event in self._steer():
                yield event
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
        partial = self._asking.partial(why) if self._asking is not None else []
        answered = desk.answered_calls(turn)
        open_calls = [call for call in self._asked if call.id not in answered]
        ended = TurnEnded(
            ending=ending,
            why=why,
            remedy=remedy,
            calls=self._calls,
            tools=self._tools,
            usage=self._spent,
        )
        results = [interrupted(call, why or "The turn ended.") for call in open_calls]
        try:
            lines = desk.record_all([*partial, *results, ended], turn)
            for line in lines[:-1]:
                yield self._closed(line)
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
        for find in (self._desk.digest, self._desk.recall):
            found = await find(text)
            if found is None:
                continue
            line = self._desk.record(found, self._turn)
            self._tail = (*self._tail, line.seq)
            for event in announcements(line):
                yield event

    async def _ask(self) -> AsyncIterator[events.AnyEvent]:
        """One model call; tried again, with less, when the provider says it is too long."""
        refusal: ContextTooLong | None = None
        for _ in range(MOST_SHRINKS + 1):
            try:
                async for event in self._ask_once():
                    yield event
                return
            except ContextTooLong as error:
                if self._prepared is None or (self._asking is not None and self._asking.heard):
                    raise
                refusal = refusal or error
                self._desk.shrink(self._prepared)
            except DoesNotFit:
                if refusal is None:
                    raise
                break
        self._desk.forget_window()
        if refusal is not None:
            raise refusal

    async def _ask_once(self) -> AsyncIterator[events.AnyEvent]:
        desk, turn = self._desk, self._turn
        self._calls += 1
        prepared = self._prepared = await desk.prepare(self._calls, self._tail)
        for event in announcements(*prepared.lines):
            yield event
        yield events.ContextReported(report=desk.report(call=self._calls, tail=self._tail))
        yield events.ModelCalled(
            turn=turn,
            call=self._calls,
            model=prepared.request.model,
            prompt_hash=prepared.request.hash,
            tokens=prepared.tokens,
        )
        asking = Asking(desk, prepared, turn=turn, call=self._calls, taken=self._call_ids)
        self._asking = asking
        async for event in asking.stream():
            yield event
        self._asking = None
        self._asked = asking.calls
        self._call_ids.update(call.id for call in asking.calls)
        for event in self._keep(asking):
            yield event

    def _keep(self, asking: Asking) -> Iterator[events.AnyEvent]:
        """Write the answer down, and what it took."""
        desk, turn = self._desk, self._turn
        message, report = asking.answer()
        said, reported = desk.record_all([message, report], turn)
        self._spent = added(self._spent, report.usage)
        yield events.AnswerRecorded(
            turn=turn, entry=said.id, text=_text_of(desk.whole(said)), calls=len(message.calls)
        )
        if remark := asking.remark():
            yield events.Noticed(message=remark, level="warning")
        yield from announcements(*desk.note_usage(reported))
        yield events.UsageReported(
            turn=turn, call=report.call, model=report.model, usage=report.usage
        )

    def _closed(self, line: Line) -> events.AnyEvent:
        """The event for something that the end of the turn wrote down."""
        line = self._desk.whole(line)
        if isinstance(line.entry, ToolReturned):
            return tool_ended(line, line.entry)
        return events.AnswerRecorded(
            turn=self._turn, entry=line.id, text=_text_of(line), calls=0, partial=True
        )

    def _steer(self) -> Iterator[events.AnyEvent]:
        """Put what the person added meanwhile in front of the next model call."""
        for waiting in self._desk.take_steering():
            line = self._desk.record(waiting, self._turn)
            yield events.MessageSteered(
                turn=self._turn,
                entry=line.id,
                queued=waiting.queued,
                text=_text_of(self._desk.whole(line)),
            )


def _text_of(line: Line) -> str:
    """What a message says, as it was recorded."""
    entry = said(line)
    return entry.text if entry is not None else ""
