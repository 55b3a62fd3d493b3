"""One call of the model: a stream of deltas gathered into one answer, however they were cut up."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from typing import Final

import msgspec

from mindstone_tui.core import errors, events
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.context import plan, window_view
from mindstone_tui.core.entries import Entry, ToolCall, Usage, conversation
from mindstone_tui.core.providers import base

LONGEST_ARGUMENTS: Final = 4 << 20
"""Characters of tool arguments that are kept; a model that sends more has lost its way."""


class Gathering:
    """What a model has said so far in one call."""

    def __init__(self, turn: int, call: int, taken: Collection[str] = ()) -> None:
        self._turn = turn
        self._call = call
        self._taken = frozenset(taken)
        """Ids that earlier calls of this turn have: some models begin anew in every answer."""
        self._text: list[str] = []
        self._thinking: list[conversation.Thinking] = []
        self._open_thought: list[str] = []
        self._calls: dict[int, ToolCall] = {}
        self.began = time.monotonic()
        self.retries = 0
        self.finished = base.Finished(reason="stop")

    def take(self, delta: base.Delta | base.Retrying) -> None:
        """Add a piece in the order it came."""
        match delta:
            case base.Retrying():
                self.retries += 1
            case base.Finished():
                self.finished = delta
            case base.TextPart(text=text):
                self._text.append(text)
            case base.ThinkingPart():
                self._think(delta)
            case base.CallDelta():
                self._ask(delta)

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(self._text)

    @property
    def thinking(self) -> tuple[conversation.Thinking, ...]:
        """The reasoning, block by block."""
        rest = "".join(self._open_thought)
        return (
            (*self._thinking, conversation.Thinking(text=rest)) if rest else tuple(self._thinking)
        )

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, each with an id of its own even if the provider forgot or repeated it."""
        taken = set(self._taken)
        calls = []
        for index, call in sorted(self._calls.items()):
            if not call.name:
                continue
            own = call.id
            while not own or own in taken:
                own = f"call_{self._turn}_{self._call}_{index}_{len(taken)}"
            taken.add(own)
            calls.append(ToolCall(id=own, name=call.name, arguments=call.arguments or "{}"))
        return tuple(calls)

    def _think(self, delta: base.ThinkingPart) -> None:
        self._open_thought.append(delta.text)
        if delta.signature or delta.redacted:
            text = "".join(self._open_thought)
            self._thinking.append(
                conversation.Thinking(text=text, signature=delta.signature, redacted=delta.redacted)
            )
            self._open_thought.clear()

    def _ask(self, delta: base.CallDelta) -> None:
        before = self._calls.get(delta.index, ToolCall(id="", name="", arguments=""))
        room = LONGEST_ARGUMENTS - len(before.arguments)
        self._calls[delta.index] = ToolCall(
            id=before.id or delta.id,
            name=before.name or delta.name,
            arguments=before.arguments + delta.arguments[:room],
        )


class ModelCall(msgspec.Struct, dict=True, eq=False):
    """A request that is being answered."""

    _context: TurnContext
    _prepared: plan.Prepared
    _target: window_view.Target
    turn: int
    call: int
    taken: Collection[str]
    heard: bool = False
    """Something of the answer was passed on, so it cannot be asked for again."""
    _first: float = 0.0

    def __post_init__(self) -> None:
        self._gathering = Gathering(self.turn, self.call, self.taken)
        self._model = self._prepared.request.model

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools it asks for."""
        return self._gathering.calls

    async def stream(self) -> AsyncIterator[events.AnyEvent]:
        """The answer as it comes; a failure is on disk before it is raised."""
        options = self._context.options(self._prepared, self._target)
        answer = _closable(self._context.provider.stream(self._prepared.request, options))
        try:
            async with contextlib.aclosing(answer):
                async for delta in answer:
                    if (event := self._take(delta)) is not None:
                        yield event
        except (errors.ProviderError, asyncio.CancelledError) as error:
            # Failed or stopped in the middle: either way this reply was taken.
            self._count()
            self._context.window.record(self._failed(error), self.turn)
            raise
        self._count()

    def answer(self) -> tuple[conversation.AssistantMessage, conversation.AnswerUsage]:
        """The whole answer with what it took, which is also there by itself."""
        usage, by = self._usage()
        said = self._gathering
        report = conversation.AnswerUsage(
            call=self.call,
            usage=usage,
            by=by,
            served=said.finished.model if said.finished.model != self._model else "",
            elapsed=round(time.monotonic() - said.began, 3),
            first_token=round(self._first, 3),
            retries=said.retries,
            position=self._context.position,
        )
        message = conversation.AssistantMessage(
            text=said.text,
            model=self._model,
            calls=said.calls,
            thinking=said.thinking,
            finish=said.finished.reason,
            reported=report,
        )
        return message, report

    def _usage(self) -> tuple[Usage, str]:
        """What the provider counted, else our own count, and whose it is."""
        usage = self._gathering.finished.usage
        if usage.prompt is not None:
            return usage, "provider"
        said = self._gathering.text + "".join(call.arguments for call in self._gathering.calls)
        counted = self._context.count(said)
        return Usage(prompt=self._prepared.tokens, completion=counted, cost=usage.cost), "us"

    def partial(self, why: str) -> list[Entry]:
        """What was said before it broke off."""
        text = self._gathering.text
        return (
            [conversation.AssistantPartial(text=text, model=self._model, why=why)] if text else []
        )

    def remark(self) -> str:
        """What a person should know about how the answer ended; empty when nothing."""
        reason = self._gathering.finished.reason
        if reason == "length":
            return "The answer was cut off: it reached the longest length that was allowed."
        if reason == "repetition":
            return "The model began to repeat itself and was stopped."
        if reason == "content_filter":
            return "The provider's content filter cut the answer off."
        said = self._gathering.text or self._gathering.calls
        return "" if said else "The model answered with nothing."

    def _take(self, delta: base.Delta | base.Retrying) -> events.AnyEvent | None:
        self._gathering.take(delta)
        if isinstance(delta, base.TextPart | base.ThinkingPart | base.CallDelta):
            self.heard = True
            self._first = self._first or time.monotonic() - self._gathering.began
        match delta:
            case base.Retrying():
                return events.ModelRetried(
                    turn=self.turn, attempt=delta.attempt, wait=delta.wait, why=delta.why
                )
            case base.TextPart(text=text) if text:
                return events.TextDelta(turn=self.turn, text=text)
            case base.ThinkingPart(text=text) if text:
                return events.ThinkingDelta(turn=self.turn, text=text)
            case _:
                return None

    def _count(self) -> None:
        self._context.position += self._gathering.retries + 1

    def _failed(self, error: BaseException) -> conversation.ModelFailed:
        return conversation.ModelFailed(
            call=self.call,
            model=self._model,
            error=type(error).__name__
            if isinstance(error, errors.ProviderError)
            else conversation.STOPPED,
            why=str(error) or "The person interrupted.",
            retries=self._gathering.retries,
            position=self._context.position,
        )


async def _closable(stream: base.Streamed) -> AsyncGenerator[base.Delta | base.Retrying, None]:
    """The same stream, closed at once when nobody listens any more."""
    try:
        async for delta in stream:
            yield delta
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
