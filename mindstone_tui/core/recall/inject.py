"""Auto recall before a turn, in pure steps: whether to ask, what for, what fits, how it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected
from mindstone_tui.core.recall.index import SearchResult
from mindstone_tui.core.recall.passages import Passage, spoken_date
from mindstone_tui.core.recall.ranking import Hit, worth_injecting
from mindstone_tui.core.recall.words import STOPWORDS, query_terms, words_of
from mindstone_tui.core.text import as_data

Counter = Callable[[str], int]

_CONTEXT: Final = 400
_FEW_TERMS: Final = 3

_TRIVIAL: Final = frozenset(
    re.findall(
        r"\w+",
        """
        ok okay k kk thanks thank thx ty cheers yes yeah yep yup sure no nope nah please go ahead on
        continue proceed next done great good nice cool perfect awesome fine right correct exactly
        hi hello hey bye morning evening night lgtm do it that you so much very well alright got i
        see makes sense again stop wait hmm oh ah wow looks sounds
        """,
    )
)
_REFERS_BACK: Final = re.compile(
    r"\b(?:that|this|those|these|it|its|them|they|same|again|earlier|before|previous(?:ly)?|above"
    r"|the (?:error|bug|file|issue|problem|one|other|first|second|last))\b",
    re.IGNORECASE,
)


class Injected(msgspec.Struct, frozen=True):
    """A hit as it will be shown to the model, and what it costs."""

    hit: Hit
    text: str
    tokens: int


def is_trivial(message: str) -> bool:
    """Whether a message asks for nothing that history could answer: a command, thanks, go on."""
    text = message.strip()
    if not text or text[0] in "/!":
        return True
    words = [word for word in words_of(text) if not re.fullmatch(r"u[0-9a-f]{4,5}", word)]
    return len(words) <= 8 and all(word in _TRIVIAL or word in STOPWORDS for word in words)


def queries(message: str, recent: Sequence[str]) -> tuple[str, ...]:
    """What to ask with until something is found: the message alone, then with what it leans on.

    The words around a message help when it says "that error again" and bury it when it is short
    but clear. Nothing is asked for a message that history could not answer.
    """
    if is_trivial(message):
        return ()
    return tuple(dict.fromkeys((message, auto_query(message, recent))))


def auto_query(message: str, exchange: Sequence[str] = ()) -> str:
    """What to look for: the message, with the latest words said when it leans on them."""
    leans = len(query_terms(message)) <= _FEW_TERMS or (
        len(message) < 120 and _REFERS_BACK.search(message)
    )
    if not leans or not exchange:
        return message
    context = " ".join(text.strip()[-_CONTEXT:] for text in exchange[-2:])
    return f"{message}\n{context}"


def fill(hits: Sequence[Hit], room: int, count: Counter, *, vectors: bool = True) -> list[Injected]:
    """The hits worth injecting that fit into the room, best first; none is cut to fit."""
    chosen: list[Injected] = []
    left = room
    for hit in worth_injecting(hits, vectors=vectors):
        text = render(hit)
        tokens = count(text)
        if tokens <= left:
            chosen.append(Injected(hit, text, tokens))
            left -= tokens
    return chosen


def render(hit: Hit) -> str:
    """One recalled passage with its pointer, date, speaker and score, on lines of its own."""
    passage = hit.passage
    said = passage.seq >= 0
    where = (f"{passage.session} #{passage.seq}", f"turn {passage.turn}") if said else ()
    facts = [*(where or (passage.entry,)), spoken_date(passage.ts), _speaker(passage)]
    if hit.supersedes:
        facts.append("newer than " + ", ".join(f"#{seq}" for seq in hit.supersedes))
    facts.append(f"score {hit.score:.2f}")
    return f"[{' · '.join(fact for fact in facts if fact)}]\n{hit.text}"


def _speaker(passage: Passage) -> str:
    about = "" if passage.about == passage.entry else passage.about
    return f"{passage.speaker} ({about})" if about else passage.speaker


class Vacancy(msgspec.Struct, frozen=True, kw_only=True):
    """The place in one prompt that recalled passages may take."""

    shown: Collection[int]
    """Lines that the prompt has already."""
    recent: Sequence[str]
    """What was said last, for questions that lean on it."""
    tokens: int
    count: Counter


def inject(
    text: str, found: SearchResult, hits: Sequence[Hit], vacancy: Vacancy, *, most: int, nonce: str
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
