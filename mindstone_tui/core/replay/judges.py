"""A model that is asked about a comparison, and about nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context.asking import Ask
from mindstone_tui.core.entries import Message, Request
from mindstone_tui.core.errors import ProviderNonsense
from mindstone_tui.core.providers.protocol import Finished, Options, Provider, Retrying

LONGEST: Final = 4_096
"""Tokens that one answer may take."""


def asking(provider: Provider, model: str, settings: ModelSettings) -> Ask:
    """Ask a model directly; nothing of it is recorded, because no session is open."""
    taken: Counter[str] = Counter()

    async def ask(purpose: str, messages: Sequence[Message]) -> str:
        options = Options(
            max_tokens=LONGEST,
            timeout=settings.timeout,
            retries=settings.retries,
            purpose=purpose,
            position=taken[purpose],
        )
        taken[purpose] += 1
        gathering = Gathering(0, 0)
        reason = ""
        async for delta in provider.stream(Request(model=model, messages=tuple(messages)), options):
            if isinstance(delta, Finished):
                reason = delta.reason
            elif not isinstance(delta, Retrying):
                gathering.take(delta)
        if reason == "length":
            raise ProviderNonsense("The answer was cut off by its length.", "Ask for less.")
        return gathering.text

    return ask
