"""Auto recall before a turn, in pure steps: whether to ask, what for, what fits, how it reads."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected, Replacement
from mindstone_tui.core.language import intent, lists, words
from mindstone_tui.core.recall import index, speak
from mindstone_tui.core.recall.passages import Passage, passages_of, spoken_date
from mindstone_tui.core.recall.ranking import Hit, mark_corrected
from mindstone_tui.core.text import as_data, one_line
from mindstone_tui.core.values import alike, shared

Counter = Callable[[str], int]

CONSIDERED: Final = 24
"""Passages that a turn looks at before it chooses."""
NO_ROOM: Final = "What was found does not fit into the room for it."
NOTHING_NEW: Final = "History holds only the same question."

_CONTEXT: Final = 400
_FEW_TERMS: Final = 3
_READ: Final = 4_000
"""Characters at each end of a long message that say what it is about."""
RAISED: Final = (0.4, 0.6, 0.8)
"""Shares of the best score that passages need, in turn, while more is found than fits."""
_LONGEST_ABOUT: Final = 40
"""Characters of a tool's call in the heading of its result."""

_AND_ASKS: Final = lists.pattern_beside(__file__, "and asks", re.IGNORECASE)
_REFERS_BACK: Final = lists.pattern_beside(__file__, "refers back", re.IGNORECASE)


class Injected(msgspec.Struct, frozen=True):
    """A hit as it will be shown to the model, and what it costs."""

    hit: Hit
    text: str
    tokens: int


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What is brought back for a message, or why nothing is."""

    injected: tuple[Injected, ...] = ()
    silent: str = ""
    vectors: bool = False
    """False when only words were searched."""
    left_out: int = 0
    """Passages that would have been good enough if memory's share had room for all."""


class Vacancy(msgspec.Struct, frozen=True, kw_only=True):
    """The place in one prompt that recalled passages may take."""

    shown: Collection[int]
    """Lines that the prompt has already."""
    recent: Sequence[str]
    """What was said last, for questions that lean on it."""
    said: Sequence[Line] = ()
    """What people said that the prompt has already: it may correct what is found."""
    tokens: int
    count: Counter


def in_short(message: str) -> str:
    """What recall reads of a message: all of it, or how a long one begins and how it ends.

    Who pastes a whole log says before it or after it what it is about.
    """
    return message if len(message) <= 2 * _READ else f"{message[:_READ]}\n{message[-_READ:]}"


def queries(message: str, recent: Sequence[str]) -> tuple[str, ...]:
    """What to ask with until something is found: the message alone, then with what it leans on.

    The words around a message help when it says "that error again" and bury it when it is short
    but clear. Nothing is asked for a message that history could not answer.
    """
    message = in_short(message)
    if intent.intent_of(message) == "nothing":
        return ()
    return tuple(dict.fromkeys((message, *questions_in(message), auto_query(message, recent))))


def questions_in(message: str) -> tuple[str, ...]:
    """The questions of a message that asks two things at once, each by itself; else none."""
    if len(message) > _CONTEXT:
        return ()
    parts = [part.strip(" ,.?!") for part in _AND_ASKS.split(message)]
    asking = [f"{part}?" for part in parts if {*words.query_terms(part)} - words.stopwords()]
    return tuple(asking) if len(asking) == 2 else ()


def auto_query(message: str, exchange: Sequence[str] = ()) -> str:
    """What to look for: the message, with the latest words said when it leans on them."""
    leans = len(words.query_terms(message)) <= _FEW_TERMS or (
        len(message) < 120 and _REFERS_BACK.search(message)
    )
    if not leans or not exchange:
        return message
    context = " ".join(text.strip()[-_CONTEXT:] for text in exchange[-2:])
    return f"{message}\n{context}"


def choose(
    message: str,
    answers: Sequence[index.SearchResult],
    room: int,
    count: Counter,
    *,
    most: int,
    session: str = "",
    said: Iterable[Line] = (),
) -> Choice:
    """The best hits of those answers that have something to say, as many as fit.

    Where none has, a standing instruction that applies to the message comes back all the same.
    What was `said` is in the prompt already; a hit that it corrects says so.
    """
    if not answers:
        return Choice(silent=speak.ASKS_NOTHING)
    message = in_short(message)
    answers = [
        msgspec.structs.replace(each, hits=tuple(hit for hit in each.hits if not _is_over(hit)))
        for each in answers
    ]
    reasons = [speak.silence(message, each.hits, each.judged) for each in answers]
    spoken = [each for each, reason in zip(answers, reasons, strict=True) if not reason]
    if not spoken:
        rules = [hit for each in answers for hit in speak.rules_that_apply(message, each.hits)]
        # Without what replaces it, it would only say what holds no more.
        rules = [one for one in mark_corrected(rules, passages_of(said)) if not one.superseded_by]
        applying = tuple(fill(rules, room, count, session)[:most])
        silent = "" if applying else reasons[0]
        return Choice(injected=applying, silent=silent, vectors=answers[0].vectors)
    found = index.best_of(*spoken, k=sum(len(each.hits) for each in spoken))
    worth = mark_corrected(speak.worth_injecting(message, found.hits), passages_of(said))
    best = raise_threshold(worth[:most], room, lambda hit: count(render(hit, session)))
    chosen = fill(best, room, count, session)
    silent = "" if chosen else NO_ROOM if worth else NOTHING_NEW
    return Choice(
        injected=tuple(chosen),
        silent=silent,
        vectors=found.vectors,
        left_out=len(worth[:most]) - len(chosen),
    )


def _is_over(hit: Hit) -> bool:
    """Whether it began a task that has ended, or ended one that had: neither binds any more."""
    return bool(hit.done_by or (hit.passage.kind == "task_started" and hit.superseded_by))


def raise_threshold(hits: Sequence[Hit], room: int, size: Callable[[Hit], int]) -> list[Hit]:
    """The hits that are asked for: more of the best score the more their share is overdrawn.

    What is over its share gives way from the weak end, instead of letting a faint but short
    passage slip in where a better one did not fit. A correction stays with what it corrects.
    """
    sizes = [size(hit) for hit in hits]
    top = max((hit.score for hit in hits), default=0.0)
    kept = list(range(len(hits)))
    for share in RAISED:
        if sum(sizes[at] for at in kept) <= room:
            break
        kept = [at for at in kept if hits[at].score >= share * top or hits[at].supersedes]
    return [hits[at] for at in kept]


def fill(hits: Sequence[Hit], room: int, count: Counter, session: str = "") -> list[Injected]:
    """The hits that fit into the room, best first; none is cut to fit."""
    chosen: list[Injected] = []
    left = room
    for hit in hits:
        text = render(hit, session)
        if (tokens := count(text)) <= left:
            chosen.append(Injected(hit, text, tokens))
            left -= tokens
    return chosen


def render(hit: Hit, session: str = "", *, whole: bool = False) -> str:
    """One recalled passage under a short heading: where it stands, its date and its speaker.

    A line of another session than the one given is named with its session, and imported words with
    their program and file. Whoever asked gets the heading whole, with turn and score.
    """
    passage = hit.passage
    where = f"#{passage.seq}" if passage.seq >= 0 else passage.entry
    if passage.seq >= 0 and passage.session != session:
        where = f"{passage.session} {where}"
    turn = f"turn {passage.turn}" if whole and passage.seq >= 0 else ""
    facts = [where, turn, spoken_date(passage.ts), _speaker(passage), *marks_of(hit)]
    if whole:
        facts.append(f"score {hit.score:.2f}")
    return f"[{' · '.join(fact for fact in facts if fact)}]\n{hit.text}"


def marks_of(hit: Hit) -> list[str]:
    """What is to be known of a passage before it is believed, and what it replaces."""
    older = ", ".join(f"#{seq}" for seq in hit.supersedes)
    return [*hit.marks, *([f"newer than {older}"] if older else [])]


def _speaker(passage: Passage) -> str:
    if passage.seq < 0 or not passage.about:
        return passage.speaker
    about = passage.about
    while about.startswith(f"{passage.speaker} "):  # a call is known by its tool's name, too
        about = about[len(passage.speaker) + 1 :]
    return f"{passage.speaker} ({one_line(about, _LONGEST_ABOUT)})"


def inject(text: str, choice: Choice, vacancy: Vacancy, nonce: str) -> RecallInjected | None:
    """What was chosen as one block for the prompt; None for silence."""
    if not choice.injected:
        return None
    block = as_data(
        "\n\n".join(each.text for each in choice.injected), origin="recall", nonce=nonce
    )
    return RecallInjected(
        query=text,
        passages=tuple(_recalled(each) for each in choice.injected),
        text=block,
        tokens=vacancy.count(block),
        share=vacancy.tokens,
        nonce=nonce,
        vectors=choice.vectors,
        left_out=choice.left_out,
    )


def room_in(vacancy: Vacancy, nonce: str) -> int:
    """Tokens for passages, once the block around them is paid."""
    return vacancy.tokens - vacancy.count(as_data("", origin="recall", nonce=nonce))


def _recalled(chosen: Injected) -> RecalledPassage:
    """A chosen hit as the transcript remembers it."""
    passage, known = chosen.hit.passage, shared(Replacement, chosen.hit)
    source = chosen.hit.imported
    known["imported"] = source.words if source is not None else ""
    return alike(
        RecalledPassage,
        passage,
        score=round(chosen.hit.score, 4),
        tokens=chosen.tokens,
        text=chosen.hit.text,
        parts={name: kept for name, value in chosen.hit.parts.items() if (kept := round(value, 2))},
        **known,
    )
