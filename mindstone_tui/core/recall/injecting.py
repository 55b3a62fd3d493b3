"""Recalled passages on their way into a prompt: as many as fit, with their sources."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from mindstone_tui.core.entries.memory import RecalledPassage, RecallInjected
from mindstone_tui.core.foreign import as_data
from mindstone_tui.core.recall.auto import Counter, Injected, fill
from mindstone_tui.core.recall.index import Found
from mindstone_tui.core.recall.ranking import Hit


class Vacancy(msgspec.Struct, frozen=True, kw_only=True):
    """The place in one prompt that recalled passages may take."""

    shown: Collection[int]
    """Lines that the prompt has already."""
    recent: Sequence[str]
    """What was said last, for questions that lean on it."""
    tokens: int
    count: Counter


def inject(
    text: str, found: Found, hits: Sequence[Hit], vacancy: Vacancy, *, most: int, nonce: str
) -> RecallInjected | None:
    """The best of the hits as one block for the prompt; None when none is good enough or fits."""
    room = vacancy.tokens - vacancy.count(as_data("", origin="recall", nonce=nonce))
    chosen = [] if found.abstained else fill(hits, room, vacancy.count, vectors=found.vectors)
    chosen = chosen[:most]
    if not chosen:
        return None
    block = as_data("\n\n".join(each.text for each in chosen), origin="recall", nonce=nonce)
    return RecallInjected(
        query=text,
        passages=tuple(_recalled(each) for each in chosen),
        text=block,
        tokens=vacancy.count(block),
        share=vacancy.tokens,
        nonce=nonce,
        vectors=found.vectors,
    )


def _recalled(chosen: Injected) -> RecalledPassage:
    """A chosen hit as the transcript remembers it."""
    passage = chosen.hit.passage
    return RecalledPassage(
        session=passage.session,
        entry=passage.entry,
        seq=passage.seq,
        turn=passage.turn,
        ts=passage.ts,
        speaker=passage.speaker,
        score=round(chosen.hit.score, 4),
        tokens=chosen.tokens,
        text=chosen.hit.text,
        parts={name: round(value, 4) for name, value in chosen.hit.parts.items()},
        supersedes=chosen.hit.supersedes,
    )
