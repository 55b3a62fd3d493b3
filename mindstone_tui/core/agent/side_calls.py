"""Questions to a model beside the conversation: summaries, judging, prose.

Each is recorded whole before it is sent, so that replay can prove it like any other request, and
counted like any other. It has no tools and a system prompt of its own.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.context import prompts
from mindstone_tui.core.entries import Message, Request, Usage
from mindstone_tui.core.entries.conversation import ModelFailed, SideRequestSent, UsageReported
from mindstone_tui.core.errors import ProviderError, ProviderNonsense
from mindstone_tui.core.providers.base import Delta, Finished, Options, Provider, Retrying


class _Reply:
    """What came back so far, and how often it was tried."""

    def __init__(self, turn: int) -> None:
        self.gathering = Gathering(turn, 0)
        self.finished: Finished | None = None
        self.retries = 0
        self.began = time.monotonic()

    async def take_in(self, stream: AsyncIterator[Delta | Retrying]) -> None:
        """Hear the reply to its end."""
        async for delta in stream:
            if isinstance(delta, Retrying):
                self.retries += 1
            elif isinstance(delta, Finished):
                self.finished = delta
            else:
                self.gathering.take(delta)


class SideCalls:
    """Asks one model, and remembers how many scripted replies each purpose took."""

    def __init__(
        self, context: TurnContext, model: str, provider: Provider, positions: dict[str, int]
    ) -> None:
        self._context = context
        self._model = model
        self._provider = provider
        self._positions = positions

    async def ask(self, purpose: str, messages: Sequence[Message]) -> str:
        """The reply's text; raises a `ProviderError`, also when the answer was cut by length."""
        request = Request(model=self._model, messages=tuple(messages))
        turn = self._context.transcript.last_turn
        self._context.window.record(
            SideRequestSent(
                purpose=purpose,
                model=self._model,
                messages=request.messages,
                prompt_hash=request.hash,
                prompt=prompts.used_in(str(messages[0].get("content", ""))) if messages else "",
            ),
            turn,
        )
        reply = _Reply(turn)
        position = self._positions.get(purpose, 0)
        try:
            await reply.take_in(self._provider.stream(request, self._options(purpose, position)))
        except ProviderError as error:
            self._positions[purpose] = position + reply.retries + 1
            self._context.window.record(self._failed(purpose, reply, error), turn)
            raise
        self._positions[purpose] = position + reply.retries + 1
        self._context.window.record(self._reported(purpose, request, reply), turn)
        if reply.finished is not None and reply.finished.reason == "length":
            raise ProviderNonsense("The answer was cut off by its length.", "Ask for less.")
        return reply.gathering.text

    def _options(self, purpose: str, position: int) -> Options:
        models = self._context.settings.models
        return Options(
            max_tokens=self._context.side_output,
            timeout=models.timeout,
            retries=models.retries,
            purpose=purpose,
            position=position,
        )

    def _failed(self, purpose: str, reply: _Reply, error: ProviderError) -> ModelFailed:
        return ModelFailed(
            call=0,
            model=self._model,
            error=type(error).__name__,
            why=error.what,
            retries=reply.retries,
            position=self._positions[purpose],
            purpose=purpose,
        )

    def _reported(self, purpose: str, request: Request, reply: _Reply) -> UsageReported:
        finished = reply.finished
        return UsageReported(
            call=0,
            model=self._model,
            usage=self._usage(finished, request, reply.gathering.text),
            by="provider" if finished and finished.usage.prompt is not None else "us",
            elapsed=round(time.monotonic() - reply.began, 3),
            retries=reply.retries,
            position=self._positions[purpose],
            purpose=purpose,
        )

    def _usage(self, finished: Finished | None, request: Request, text: str) -> Usage:
        if finished is not None and finished.usage.prompt is not None:
            return finished.usage
        asked = sum(self._context.count(str(each.get("content", ""))) for each in request.messages)
        return Usage(
            prompt=asked,
            completion=self._context.count(text),
            cost=finished.usage.cost if finished else None,
        )
