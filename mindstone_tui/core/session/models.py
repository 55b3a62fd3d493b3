"""The models of a session: those that could answer, the one that does, and who writes summaries."""

from __future__ import annotations

from collections.abc import Mapping

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.side_calls import SideCalls
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.summary_call import Ask
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers.base import ModelInfo, Provider
from mindstone_tui.core.providers.guide import GUIDE
from mindstone_tui.core.providers.registry import embedded_models, resolve
from mindstone_tui.core.session.recover import position_in, positions_in
from mindstone_tui.core.transcript import History


class Models:
    """Who may answer on this machine, by name."""

    def __init__(self, settings: Settings, home: Places, environ: Mapping[str, str]) -> None:
        self.settings = settings.models
        self._all = settings
        self._home = home
        self._environ = environ

    def provider(self, name: str) -> Provider:
        """Who speaks for a model."""
        return resolve(name, self.settings, self._home, self._environ, self._all)

    def usable(self) -> list[ModelInfo]:
        """What can answer here without a server or a key."""
        return [
            self.provider(name).info(name) for name in embedded_models(self._home, self.settings)
        ]


class SessionModels:
    """Who answers in one session, and who answers beside the conversation."""

    def __init__(self, context: TurnContext, history: History, models: Models) -> None:
        self._context = context
        self._history = history
        self._models = models

    def usable(self) -> list[ModelInfo]:
        """What can answer now."""
        return self._models.usable()

    def take(self, name: str) -> Provider:
        """Let another model answer from here on; returns who answered before."""
        provider, before = self._models.provider(name), self._context.provider
        self._context.provider = provider
        self._context.model = name
        self._context.position = position_in(self._history, name)
        return before

    def aside(self, name: str) -> Ask | None:
        """Who writes summaries: the configured model, else the session's own; the guide cannot."""
        name = self._models.settings.summary or name
        if name == GUIDE:
            return None
        context = self._context
        provider = context.provider if name == context.model else self._models.provider(name)
        return SideCalls(context, name, provider, positions_in(self._history, name)).ask
