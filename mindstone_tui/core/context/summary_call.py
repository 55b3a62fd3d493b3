"""A side question to a model: asked within a time, and taken only when it is an answer.

Nothing here raises because a model failed. A reply comes back with what is wrong with it, and the
caller goes on without a model.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mindstone_tui.core.entries import Message, Part
from mindstone_tui.core.errors import ProviderError
from mindstone_tui.core.language.lists import pattern_beside
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import as_data, fresh_nonce

Ask = Callable[[str, Sequence[Message]], Awaitable[str]]
"""`ask(purpose, messages)`: the reply's text; raises a `ProviderError`, also for a cut answer."""

Count = Callable[[str], int]

_REFUSAL: Final = pattern_beside(__file__, "refusal", re.IGNORECASE)
_REFUSAL_LENGTH: Final = 600
_CUT: Final = pattern_of(r"(?:[,;:(\[{–—]|\b(?:and|or|the|a|an|of|to|with|because|that))\s*\Z")


class SummaryReply(Part):
    """What a model said, and why it cannot be used; an empty objection means that it can."""

    text: str
    objection: str = ""


async def ask_model(
    ask: Ask, purpose: str, messages: Sequence[Message], *, within: float
) -> SummaryReply:
    """One question; a late, failed, empty, refusing or cut answer comes back as an objection."""
    try:
        async with asyncio.timeout(within):
            text = (await ask(purpose, messages)).strip()
    except TimeoutError:
        return SummaryReply(text="", objection="no answer in time")
    except ProviderError as error:
        return SummaryReply(text="", objection=error.what)
    return SummaryReply(text=text, objection=objection_to(text))


def asked_about(text: str, prompt: str, *, origin: str, nonce: str = "") -> list[Message]:
    """A prompt, and behind it the text that it is about, as data."""
    data = as_data(text, origin=origin, nonce=nonce or fresh_nonce())
    return [{"role": "system", "content": prompt}, {"role": "user", "content": data}]


def objection_to(text: str) -> str:
    """Why a text is no answer, or nothing when it may be one."""
    if not text.strip():
        return "the answer is empty"
    if len(text) < _REFUSAL_LENGTH and _REFUSAL.match(text):
        return "the model refused"
    if text.count("```") % 2 or _CUT.search(text):
        return "the answer is cut off"
    return ""
