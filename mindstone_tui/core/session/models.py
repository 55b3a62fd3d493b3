"""The models of a session: those that could answer, the one that does, and who writes summaries."""

import time
from collections.abc import Mapping, Sequence

import msgspec

from mindstone_tui.core import errors, paths, transcript
from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context import prompts, summary_call
from mindstone_tui.core.entries import Message, Request, Usage
from mindstone_tui.core.entries.conversation import ModelFailed, SideRequestSent, UsageReported
from mindstone_tui.core.providers import base, guide, registry
from mindstone_tui.core.session.recover import position_in, positions_in


class SideCalls(msgspec.Struct, eq=False):
    """Asks one model, and remembers how many scripted replies each purpose took."""

    _context: TurnContext
    _model: str
    _provider: base.Provider
    _positions: dict[str, int]

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
        reply = Gathering(turn, 0)
        position = self._positions.get(purpose, 0)
        try:
            async for delta in self._provider.stream(request, self._options(purpose, position)):
                reply.take(delta)
        except errors.ProviderError as error:
            self._positions[purpose] = position + reply.retries + 1
            self._context.window.record(self._failed(purpose, reply, error), turn)
            raise
        self._positions[purpose] = position + reply.retries + 1
        self._context.window.record(self._reported(purpose, request, reply), turn)
        if reply.finished.reason == "length":
            raise errors.ProviderNonsense("The answer was cut off by its length.", "Ask for less.")
        return reply.text

    def _options(self, purpose: str, position: int) -> base.Options:
        models = self._context.settings.models
        return base.Options(
            max_tokens=self._context.side_output,
            timeout=models.timeout,
            retries=models.retries,
            purpose=purpose,
            position=position,
        )

    def _failed(self, purpose: str, reply: Gathering, error: errors.ProviderError) -> ModelFailed:
        return ModelFailed(
            call=0,
            model=self._model,
            error=type(error).__name__,
            why=error.what,
            retries=reply.retries,
            position=self._positions[purpose],
            purpose=purpose,
        )

    def _reported(self, purpose: str, request: Request, reply: Gathering) -> UsageReported:
        return UsageReported(
            call=0,
            model=self._model,
            usage=self._usage(reply.finished.usage, request, reply.text),
            by="us" if reply.finished.usage.prompt is None else "provider",
            elapsed=round(time.monotonic() - reply.began, 3),
            retries=reply.retries,
            position=self._positions[purpose],
            purpose=purpose,
        )

    def _usage(self, told: Usage, request: Request, text: str) -> Usage:
        if told.prompt is not None:
            return told
        asked = sum(self._context.count(str(each.get("content", ""))) for each in request.messages)
        return Usage(prompt=asked, completion=self._context.count(text), cost=told.cost)


class Models(msgspec.Struct, frozen=True):
    """Who may answer on this machine, by name."""

    settings: Settings
    home: paths.Places
    environ: Mapping[str, str]

    def provider(self, name: str) -> base.Provider:
        """Who speaks for a model."""
        settings = self.settings
        return registry.resolve(name, settings.models, self.home, self.environ, settings)

    def usable(self) -> list[base.ModelInfo]:
        """What can answer here without a server or a key."""
        return [
            self.provider(name).info(name)
            for name in registry.embedded_models(self.home, self.settings.models)
        ]


class SessionModels(msgspec.Struct, frozen=True, eq=False):
    """Who answers in one session, and who answers beside the conversation."""

    known: Models
    _context: TurnContext
    _history: transcript.History

    def take(self, name: str) -> base.Provider:
        """Let another model answer from here on; returns who answered before."""
        provider, before = self.known.provider(name), self._context.provider
        self._context.provider = provider
        self._context.model = name
        self._context.position = position_in(self._history, name)
        return before

    def aside(self, name: str) -> summary_call.Ask | None:
        """Who writes summaries: the configured model, else the session's own; the guide cannot."""
        name = self.known.settings.models.summary or name
        if name == guide.GUIDE:
            return None
        context = self._context
        provider = context.provider if name == context.model else self.known.provider(name)
        return SideCalls(context, name, provider, positions_in(self._history, name)).ask
