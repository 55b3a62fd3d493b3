"""Three short questions to a model on this machine: what it says, how fast, how much memory."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries import Request, ToolSchema
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers.base import CallDelta, Finished, Options, Provider, TextPart
from mindstone_tui.core.providers.local_models import find
from mindstone_tui.core.providers.local_provider import LocalProvider
from mindstone_tui.core.values import Value

_HEAD: Final = (
    "You are MindStone, an assistant in a terminal. Answer in one short sentence. "
    "If the notes do not say it, answer: I don't know."
)
_NOTES: Final = (
    '<data-0000000000000000 origin="recall">\n[try #1 · turn 1]\nThe staging database listens on '
    "port 5544 and is restored every Monday.\n</data-0000000000000000>"
)
_READ: Final = ToolSchema(
    name="read",
    description="Read a text file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
)
_PROMPTS: Final = (
    ("a plain question", "What is the capital of France?", ""),
    ("an answer from a note", "Which port does the staging database use?", _NOTES),
    ("a tool", "Show me what is in the file docs/setup.md.", ""),
)
_LONGEST: Final = 64
_ONE_PIECE: Final = 0.05
"""Seconds between the first word and the end of what came at once."""


class Tried(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One question and how it was answered."""

    about: str
    question: str
    answer: str
    """What it said, or the tool that it asked for."""
    prompt_tokens: int
    cached_tokens: int
    answer_tokens: int
    first_token: float
    """Seconds until its first word."""
    seconds: float
    tokens_per_second: float
    """Of the answer, after its first word; 0 for what was said in one piece."""
    memory: int
    """The most bytes of memory that its process had taken by then."""


async def try_model(
    home: Places, settings: ModelSettings, name: str, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[Tried]:
    """Ask the three questions, one after the other."""
    model = find(name)
    provider = LocalProvider(model, home, settings, environ)
    try:
        for about, question, notes in _PROMPTS:
            messages = [{"role": "system", "content": _HEAD}, {"role": "user", "content": question}]
            messages += [{"role": "user", "content": notes}] if notes else []
            asked = Request(model=model.full_name, messages=tuple(messages), tools=(_READ,))
            yield await _tried(provider, asked, settings, about, question)
    finally:
        await provider.close()


async def _tried(
    provider: LocalProvider, asked: Request, settings: ModelSettings, about: str, question: str
) -> Tried:
    heard = await hear(provider, asked, Options(max_tokens=_LONGEST, timeout=settings.timeout))
    usage = heard.finished.usage
    return Tried(
        about=about,
        question=question,
        answer=heard.call or heard.said,
        prompt_tokens=usage.prompt or 0,
        cached_tokens=usage.cached or 0,
        answer_tokens=usage.completion or 0,
        first_token=round(heard.first, 2),
        seconds=round(heard.seconds, 2),
        tokens_per_second=round(heard.speed, 1),
        memory=provider.process.memory,
    )


class TimedAnswer(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One answer, and how long it took."""

    said: str
    call: str
    """The tool that it asked for, with its arguments."""
    finished: Finished
    first: float
    """Seconds until something was said."""
    seconds: float

    @property
    def speed(self) -> float:
        """Tokens a second after the first word; 0 for what was said in one piece.

        A call is, and so is a short answer from notes, which is checked before it is passed on.
        """
        rest = self.seconds - self.first
        spoken = (self.finished.usage.completion or 0) - 1
        return spoken / rest if rest > _ONE_PIECE and spoken > 0 else 0.0


async def hear(provider: Provider, asked: Request, options: Options) -> TimedAnswer:
    """Ask, and look at the clock."""
    said, call, first = "", "", 0.0
    finished = Finished(reason="stop")
    began = time.monotonic()
    async for delta in provider.stream(asked, options):
        match delta:
            case TextPart():
                said += delta.text
                first = first or time.monotonic() - began
            case CallDelta():
                call = f"{delta.name} {delta.arguments}"
            case Finished():
                finished = delta
    took = time.monotonic() - began
    return TimedAnswer(said=said, call=call, finished=finished, first=first or took, seconds=took)
