"""Questions to a model beside the conversation: summaries, judging, prose.

Each is recorded whole before it is sent, so that replay can prove it like any other request, and
counted like any other. It has no tools and a system prompt of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.agent.desk import Desk
from mindstone_tui.core.context import prompts
from mindstone_tui.core.entries import Message, Request, Usage
from mindstone_tui.core.entries.conversation import ModelFailed, SideRequestSent, UsageReported
from mindstone_tui.core.errors import ProviderError, ProviderNonsense
from mindstone_tui.core.providers.protocol import Finished, Options, Provider, Retrying


class SideCalls:
    """Asks one model, and remembers how many scripted replies each purpose took."""

    def __init__(
        self, desk: Desk, model: str, provider: Provider, positions: dict[str, int]
    ) -> None:
        self._desk = desk
        self._model = model
        self._provider = provider
        self._positions = positions

    async def ask(self, purpose: str, messages: Sequence[Message]) -> str:
        """The reply's text; raises a `ProviderError`, also when the answer was cut by length."""
        desk, turn = self._desk, self._desk.transcript.last_turn
        request = Request(model=self._model, messages=tuple(messages))
        sent = SideRequestSent(
            purpose=purpose,
            model=self._model,
            messages=request.messages,
            prompt_hash=request.hash,
            prompt=prompts.used_in(str(messages[0].get("content", ""))) if messages else "",
        )
        desk.record(sent, turn)
        position = self._positions.get(purpose, 0)
        options = Options(
            max_tokens=desk.side_output,
            timeout=desk.settings.models.timeout,
            retries=desk.settings.models.retries,
            purpose=purpose,
            position=position,
        )
        gathering = Gathering(turn, 0)
        finished: Finished | None = None
        retries = 0
        began = time.monotonic()
        try:
            async for delta in self._provider.stream(request, options):
                if isinstance(delta, Retrying):
                    retries += 1
                elif isinstance(delta, Finished):
                    finished = delta
                else:
                    gathering.take(delta)
        except ProviderError as error:
            self._positions[purpose] = position + retries + 1
            desk.record(
                ModelFailed(
                    call=0,
                    model=self._model,
                    error=type(error).__name__,
                    why=error.what,
                    retries=retries,
                    position=self._positions[purpose],
                    purpose=purpose,
                ),
                turn,
            )
            raise
        self._positions[purpose] = position + retries + 1
        desk.record(
            UsageReported(
                call=0,
                model=self._model,
                usage=self._usage(finished, request, gathering.text),
                by="provider" if finished and finished.usage.prompt is not None else "us",
                elapsed=round(time.monotonic() - began, 3),
                retries=retries,
                position=self._positions[purpose],
                purpose=purpose,
            ),
            turn,
        )
        if finished is not None and finished.reason == "length":
            raise ProviderNonsense("The answer was cut off by its length.", "Ask for less.")
        return gathering.text

    def _usage(self, finished: Finished | None, request: Request, text: str) -> Usage:
        if finished is not None and finished.usage.prompt is not None:
            return finished.usage
        asked = sum(self._desk.count(str(each.get("content", ""))) for each in request.messages)
        return Usage(
            prompt=asked,
            completion=self._desk.count(text),
            cost=finished.usage.cost if finished else None,
        )
