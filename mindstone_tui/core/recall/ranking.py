"""Which passages answer a question best, and why. Pure: candidates in, hits out.

Three signals are added on fixed scales, so that scores compare between questions and between
indexes: words (BM25 as a share of what the question could earn, which backs off by itself when only
common words match), meaning (cosine above the collection's mean) and closeness word by word.
Around a strong short message its neighbours gain, because an answer rarely repeats its question.
Small weights follow; each part of a score is kept under its name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.words import Question, only_asks, query_terms, tells_time, words_of


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """How much each part of a score counts; about 1.0 is a strong hit."""

    words: float = 0.33
    meaning: float = 0.42
    closeness: float = 1.4
    neighbour: float = 0.35
    second_neighbour: float = 0.15
    speaker: float = 0.1
    person: float = 0.05
    asks: float = -0.1
    time: float = 0.1
    pin: float = 0.1
    correction: float = 0.02
    use: float = 0.02
    age: float = 0.005
    kinds: float = 1.0


DEFAULT: Final = Weights()
KINDS: Final = MappingProxyType(
    {
        "memory": 0.1,
        "note_taken": 0.05,
        "handoff_replayed": -0.3,
        "log": -0.1,
        "journal": -0.1,
        "tool_returned": -0.08,
    }
)
"""What a passage gains or loses by what it is: derived text loses against what it came from."""
SHORT: Final = 400
"""Characters: only messages shorter than this give to and take from their neighbours."""
LOOKED_AT: Final = 60
"""How many of the strongest are weighed by what they say and what they are."""
ARRANGED: Final = 12
"""How many of the first hits are compared with each other."""
NEAR_DUPLICATE: Final = 0.85
SAME_SUBJECT: Final = 0.5
"""Share of all words of two messages that both have, from which they state the same fact."""
CORRECTED_SUBJECT: Final = 0.4
"""The same for a message that says it corrects something, of the shorter one's words."""
AS_STRONG: Final = 0.6
"""A newer statement replaces an older one only if it answers the question nearly as well."""

_CORRECTION: Final = re.compile(
    r"^(?:no|nope|wait|sorry|correction|scratch that|update)\b[\s,.:;—-]"
    r"|\b(?:actually|instead|from now on|no longer|not anymore|i meant|i was wrong|not \w+ anymore"
    r"|has changed|have changed|changed (?:it |that )?to|switch(?:ed)? to|moved to|rather than)\b"
)
_VALUE: Final = re.compile(r"\d")


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A passage with the evidence for it."""

    row: int
    sitting: int
    passage: Passage
    words: float = 0.0
    """BM25 divided by the rarity of all that was asked for."""
    meaning: float = 0.0
    """Cosine, less the collection's mean."""
    closeness: float = 0.0
    """Word by word, less the collection's mean."""
    injected: int = 0
    used: int = 0
    recency: float = 0.0
    """0 for the oldest passage of the index, 1 for the newest."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that was found, the score it got, and the parts that add up to it."""

    passage: Passage
    score: float
    parts: dict[str, float]
    text: str
    """What is shown: the passage, or the part of it that matches best."""
    supersedes: tuple[int, ...] = ()
    """Sequence numbers of older statements, also found, that this one replaces."""


def rank(
    question: Question,
    candidates: Sequence[Candidate],
    *,
    count: int,
    pinned_turns: Collection[int] = (),
    weights: Weights = DEFAULT,
) -> list[Hit]:
    """The best hits, one a message, best first."""
    by_row = {item.row: item for item in candidates}
    own = {item.row: sum(_own(item, weights).values()) for item in candidates}
    gains = {item.row: _from_neighbours(item, by_row, own, weights) for item in candidates}
    strongest = sorted(candidates, key=lambda item: -own[item.row] - gains[item.row])
    hits: dict[str, Hit] = {}
    for item in strongest[: max(2 * count, LOOKED_AT)]:
        parts = {
            **_own(item, weights),
            "neighbours": gains[item.row],
            **_cues(question, item, pinned_turns, weights),
        }
        kept = {name: round(value, 4) for name, value in parts.items() if abs(value) >= 5e-5}
        score = round(sum(kept.values()), 4)
        known = hits.get(item.passage.entry)
        if known is None or score > known.score:
            hits[item.passage.entry] = Hit(
                passage=item.passage, score=score, parts=kept, text=item.passage.text
            )
    ordered = sorted(hits.values(), key=lambda hit: (-hit.score, -hit.passage.seq))[:count]
    return arrange(ordered[:ARRANGED]) + ordered[ARRANGED:]


def arrange(hits: Sequence[Hit]) -> list[Hit]:
    """Newest statement of a changed fact first and marked; near-duplicates further down."""
    subjects = {hit.passage.id: frozenset(query_terms(hit.passage.text)) for hit in hits}
    return _spread_duplicates(_newest_first(hits, subjects), subjects)


def is_correction(text: str) -> bool:
    """Whether a message sounds like it changes something said before."""
    return bool(_CORRECTION.search(text[:400].lower()))


def _own(item: Candidate, weights: Weights) -> dict[str, float]:
    return {
        "words": weights.words * item.words,
        "meaning": weights.meaning * item.meaning,
        "closeness": weights.closeness * item.closeness,
    }


def _from_neighbours(
    item: Candidate,
    by_row: Mapping[int, Candidate],
    own: Mapping[int, float],
    weights: Weights,
) -> float:
    if not _is_short(item):
        return 0.0
    gain = 0.0
    for distance, share in ((1, weights.neighbour), (2, weights.second_neighbour)):
        for row in (item.row - distance, item.row + distance):
            other = by_row.get(row)
            if other and other.sitting == item.sitting and _is_short(other):
                gain += share * max(0.0, own[row])
    return gain


def _is_short(item: Candidate) -> bool:
    """Whether it is a short message of a conversation; a tool's output answers nobody."""
    passage = item.passage
    return passage.pieces == 1 and len(passage.text) < SHORT and passage.role != "tool"


def _cues(
    question: Question, item: Candidate, pinned_turns: Collection[int], weights: Weights
) -> dict[str, float]:
    passage = item.passage
    named = not question.words.isdisjoint(words_of(passage.speaker))
    return {
        "speaker": weights.speaker if named else 0.0,
        "person": weights.person if passage.role in question.roles else 0.0,
        "asks": weights.asks if only_asks(passage.text) else 0.0,
        "time": weights.time if question.wants_time and tells_time(passage.text) else 0.0,
        "kind": weights.kinds * KINDS.get(passage.kind, 0.0),
        "pin": weights.pin if passage.turn in pinned_turns else 0.0,
        "correction": weights.correction if is_correction(passage.text) else 0.0,
        "use": weights.use * (2 * math.log1p(item.used) - math.log1p(item.injected)),
        "age": weights.age * item.recency,
    }


def _newest_first(hits: Sequence[Hit], subjects: Mapping[str, frozenset[str]]) -> list[Hit]:
    """Put a newer statement before the older ones it replaces."""
    ordered = list(hits)
    for newer in sorted(hits, key=lambda hit: hit.passage.seq):
        replaced = [hit.passage.seq for hit in hits if _replaces(newer, hit, subjects)]
        if not replaced:
            continue
        at = ordered.index(newer)
        first = next(i for i, hit in enumerate(ordered) if hit.passage.seq in replaced)
        ordered.insert(min(at, first), ordered.pop(at))
        ordered[min(at, first)] = msgspec.structs.replace(newer, supersedes=tuple(sorted(replaced)))
    return ordered


def _replaces(newer: Hit, older: Hit, subjects: Mapping[str, frozenset[str]]) -> bool:
    """Whether the newer one states the same fact anew; only people change facts by saying so."""
    new, old = newer.passage, older.passage
    if (
        new.seq <= old.seq
        or new.speaker != old.speaker
        or new.speaker == "assistant"
        or new.role == "tool"
        or newer.score < AS_STRONG * older.score
        or only_asks(new.text)
    ):
        return False
    ours, theirs = subjects[new.id], subjects[old.id]
    shared = len(ours & theirs)
    if not shared or ours == theirs:
        return False
    if is_correction(new.text):
        return shared >= CORRECTED_SUBJECT * min(len(ours), len(theirs))
    changed = any(_VALUE.search(word) for word in ours ^ theirs)
    return changed and shared >= SAME_SUBJECT * len(ours | theirs)


def _spread_duplicates(hits: Sequence[Hit], subjects: Mapping[str, frozenset[str]]) -> list[Hit]:
    """Of several hits that say the same, the first stays and the others go to the end."""
    kept: list[Hit] = []
    repeated: list[Hit] = []
    for hit in hits:
        ours = subjects[hit.passage.id]
        twin = any(_alike(ours, subjects[other.passage.id]) for other in kept)
        (repeated if twin else kept).append(hit)
    return kept + repeated


def _alike(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    together = len(ours | theirs)
    return together > 3 and len(ours & theirs) / together >= NEAR_DUPLICATE


FLOOR: Final = 0.65
"""With vectors. It lets pass about one in a hundred questions on unrelated things, one in six that
other people asked about their own lives, and four in five that have an answer."""
WORDS_FLOOR: Final = 0.16
"""On words alone: about half of all that was asked for, weighed by rarity."""
BESIDE_THE_BEST: Final = 0.45
"""Once something is good enough, hits with this share of the best score may come along."""


def evidence(hit: Hit) -> float:
    """What speaks for a hit in its own text."""
    return sum(hit.parts.get(name, 0.0) for name in ("words", "meaning", "closeness"))


def good_enough(hits: Sequence[Hit], *, vectors: bool) -> bool:
    """Whether anything found is worth injecting without being asked for."""
    floor = FLOOR if vectors else WORDS_FLOOR
    return any(evidence(hit) >= floor for hit in hits[:5])


def worth_injecting(hits: Sequence[Hit], *, vectors: bool) -> list[Hit]:
    """None below the floor; else the hits that come near the best of them."""
    if not good_enough(hits, vectors=vectors):
        return []
    best = max(hit.score for hit in hits)
    return [hit for hit in hits if hit.score >= BESIDE_THE_BEST * best]
