"""In which order things leave: six policies, one meaning of score.

A score of 1 keeps, 0 leaves first. Every policy returns the parts its score was made of, so that
`/why` can show them. Policies only order; what is protected was decided before, by structure.
"""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, get_args

import msgspec

from mindstone_tui.core import errors, patterns, text_cache
from mindstone_tui.core.config.settings import EvictionSettings, Policy
from mindstone_tui.core.context.messages import argument_values
from mindstone_tui.core.entries import Line, conversation
from mindstone_tui.core.language.words import plain_words

Source = Literal["user", "assistant", "tool_result"]
Similarity = Callable[[str, str], float]
"""How alike two texts are, from 0 to 1. Words alone unless somebody passes in something better."""

_DEFAULTS: Final = EvictionSettings()
_COMPARED: Final = 2_000
"""Characters of a text that are compared; enough to tell duplicates, cheap enough for all pairs."""
_NEIGHBOURS: Final = 200
_BITS: Final = 4_093
"""Enough that hardly two of a text's words share one."""


class EvictionCandidate(msgspec.Struct, frozen=True):
    """Something that may leave: an exchange, or one tool result."""

    key: int
    """Its turn, or the tool result's sequence number."""
    turn: int
    tokens: int
    text: str
    weights: Mapping[str, int]
    """Tokens by source."""
    referenced: int
    """The last turn that referred to it; its own turn at first."""
    references: int = 0
    important: bool = False
    """The person marked it in their own words."""


class Scored(msgspec.Struct, frozen=True):
    """A candidate with its worth."""

    candidate: EvictionCandidate
    score: float
    parts: dict[str, float]
    reason: str


class Scene(msgspec.Struct, frozen=True):
    """What a policy may look at besides the candidate itself."""

    now: int
    query: str
    similar: Similarity
    duplicates: Mapping[int, float]
    """How much of a candidate a newer one repeats, by key."""
    how: EvictionSettings = _DEFAULTS


def decay(age: float, half_life: float) -> float:
    """1 for what is new, a half after one half-life."""
    return float(0.5 ** (max(age, 0) / half_life))


def word_similarity(one: str, other: str) -> float:
    """The share of the shorter text's words that the other has too."""
    first, second = _words(one[:_COMPARED]), _words(other[:_COMPARED])
    smaller = min(len(first), len(second))
    return len(first & second) / smaller if smaller else 0.0


def _cosine(first: tuple[int, float], second: tuple[int, float]) -> float:
    """How alike two texts are as a whole: the cosine of the sets of their words."""
    lengths = first[1] * second[1]
    return (first[0] & second[0]).bit_count() / lengths if lengths else 0.0


@text_cache.remembers(1_024)
def _signature(text: str) -> tuple[int, float]:
    """A text's words as bits of one number, and its length: quick to compare with many others."""
    bits = 0
    for word in plain_words(text, shortest=3):
        bits |= 1 << zlib.crc32(word.encode()) % _BITS
    return bits, math.sqrt(bits.bit_count())


@text_cache.remembers(512)
def _words(text: str) -> frozenset[str]:
    return frozenset(plain_words(text, shortest=3))


def _mean(worth: Mapping[str, float], weights: Mapping[str, int]) -> float:
    total = sum(weights.values())
    if not total:
        return 0.0
    return sum(worth[source] * tokens for source, tokens in weights.items()) / total


def fifo(candidate: EvictionCandidate, scene: Scene) -> dict[str, float]:
    """Oldest first."""
    return {"recency": decay(scene.now - candidate.turn, scene.how.fifo_half_life)}


def lru(candidate: EvictionCandidate, scene: Scene) -> dict[str, float]:
    """What nobody referred to for the longest time first."""
    return {"referenced": decay(scene.now - candidate.referenced, scene.how.lru_half_life)}


def priority(candidate: EvictionCandidate, scene: Scene) -> dict[str, float]:
    """A weighing of age, likeness to the question, source, use and the person's own marks."""
    how = scene.how
    return _weighed(
        {**_DEFAULTS.priority, **how.priority},
        recency=decay(scene.now - candidate.turn, how.priority_half_life),
        semantic=scene.similar(candidate.text, scene.query) if scene.query else 0.0,
        source=_mean({**_DEFAULTS.worth, **how.worth}, candidate.weights),
        reuse=_reuse(candidate, scene),
        explicit=float(candidate.important),
    )


def semantic_merge(candidate: EvictionCandidate, scene: Scene) -> dict[str, float]:
    """What a newer unit repeats first, then oldest first; the newest of the duplicates stays."""
    repeated = scene.duplicates.get(candidate.key, 0.0) > scene.how.duplicate
    recency = decay(scene.now - candidate.turn, scene.how.fifo_half_life)
    return {"unique": 0.0 if repeated else 0.5, "recency": 0.5 * recency}


def type_based(candidate: EvictionCandidate, scene: Scene) -> dict[str, float]:
    """Each source has its turns to live: tool results few, what people said many."""
    age = max(scene.now - candidate.turn, 0)
    living = {**_DEFAULTS.turns_to_live, **scene.how.turns_to_live}
    worth = {source: max(0.0, 1 - age / turns) for source, turns in living.items()}
    return {"time_to_live": _mean(worth, candidate.weights)}


def hybrid(candidate: EvictionCandidate, scene: Scene) -> dict[str, float]:
    """All of the above, weighed; repetition counts against keeping."""
    return _weighed(
        {**_DEFAULTS.hybrid, **scene.how.hybrid},
        recency=decay(scene.now - candidate.turn, scene.how.fifo_half_life),
        priority=sum(priority(candidate, scene).values()),
        time_to_live=sum(type_based(candidate, scene).values()),
        references=_reuse(candidate, scene),
        unique=1 - scene.duplicates.get(candidate.key, 0.0),
    )


def _weighed(weights: Mapping[str, float], **parts: float) -> dict[str, float]:
    return {name: weights[name] * part for name, part in parts.items()}


def _reuse(candidate: EvictionCandidate, scene: Scene) -> float:
    return min(candidate.references / scene.how.references, 1.0)


POLICIES: Final[Mapping[str, Callable[[EvictionCandidate, Scene], dict[str, float]]]] = {
    each.__name__: each for each in (fifo, lru, priority, semantic_merge, type_based, hybrid)
}


_REASONS: Final[Mapping[str, str]] = {
    "fifo": "oldest",
    "lru": "least recently referred to",
    "priority": "lowest priority",
    "semantic_merge": "repeated by a newer one, or oldest",
    "type_based": "outlived its kind's turns",
    "hybrid": "lowest overall worth",
}
NEEDS_DUPLICATES: Final = frozenset({"semantic_merge", "hybrid"})
NEEDS_REFERENCES: Final = frozenset({"lru", "priority", "hybrid"})


def known_policy(name: str) -> Policy:
    """The policy of that name; raises `UnknownName`."""
    for policy in get_args(Policy):
        if name == policy:
            return policy  # type: ignore[no-any-return]
    raise errors.UnknownName(
        f"There is no eviction policy {name!r}.", f"The policies are {', '.join(POLICIES)}."
    )


def rank(
    policy: str,
    candidates: Sequence[EvictionCandidate],
    *,
    now: int,
    query: str = "",
    similar: Similarity = word_similarity,
    how: EvictionSettings = _DEFAULTS,
    staying: Sequence[tuple[int, str]] = (),
) -> list[Scored]:
    """Candidates with their scores, the one that leaves first in front; ties go to the older.

    `similar` compares a candidate with the question; repetition is a matter of whole texts, and
    what repeats may be among the `staying`: turn and words of what is no candidate.
    """
    duplicates: Mapping[int, float] = {}
    if known_policy(policy) in NEEDS_DUPLICATES:
        duplicates = repeated_by_newer(candidates, staying)
    scene = Scene(now, query, similar, duplicates, how)
    scored = []
    for candidate in candidates:
        parts = {
            name: round(float(part), 4) for name, part in POLICIES[policy](candidate, scene).items()
        }
        score = round(min(max(sum(parts.values()), 0.0), 1.0), 4)
        scored.append(Scored(candidate, score, parts, _REASONS[policy]))
    return sorted(scored, key=lambda each: (each.score, each.candidate.turn, each.candidate.key))


def repeated_by_newer(
    candidates: Sequence[EvictionCandidate], staying: Sequence[tuple[int, str]] = ()
) -> dict[int, float]:
    """For each candidate, how much the most similar newer one, or one that stays, repeats it."""
    ordered = sorted(candidates, key=lambda each: (each.turn, each.key))
    signatures = [_signature(each.text[:_COMPARED]) for each in ordered]
    others = [(turn, _signature(text[:_COMPARED])) for turn, text in staying[-_NEIGHBOURS:]]
    return {
        older.key: max(
            (
                *(
                    _cosine(signatures[at], one)
                    for one in signatures[at + 1 : at + 1 + _NEIGHBOURS]
                ),
                *(_cosine(signatures[at], one) for turn, one in others if turn > older.turn),
            ),
            default=0.0,
        )
        for at, older in enumerate(ordered)
    }


def text_of(line: Line) -> str:
    """The words of a message, its calls included."""
    match line.entry:
        case conversation.AssistantMessage(text=text, calls=calls):
            asked = (f"{call.name} {argument_values(call.arguments)}" for call in calls)
            return " ".join((text, *asked))
        case (
            conversation.UserMessage(text=text)
            | conversation.AssistantPartial(text=text)
            | conversation.ToolReturned(text=text)
        ):
            return text
        case _:
            return ""


def source_of(line: Line) -> Source:
    """Who a message came from."""
    match line.entry:
        case conversation.UserMessage():
            return "user"
        case conversation.ToolReturned():
            return "tool_result"
        case _:
            return "assistant"


_MARK: Final = patterns.pattern_of(r"\b(?:DO_NOT_EVICT|IMPORTANT)\b")


_STAYS: Final = patterns.pattern_of(r"\bDO_NOT_EVICT\b")


def marked_to_stay(lines: Iterable[Line]) -> bool:
    """Whether the person wrote that this may not leave."""
    # Looking for the word first is a hundred times faster, and long messages are looked at often.
    return any(
        isinstance(line.entry, conversation.UserMessage)
        and "DO_NOT_EVICT" in line.entry.text
        and _STAYS.search(line.entry.text)
        for line in lines
    )


def marked_important(lines: Iterable[Line]) -> bool:
    """Whether the person wrote so; in anybody else's text the words are only words."""
    return any(
        isinstance(line.entry, conversation.UserMessage)
        and ("DO_NOT_EVICT" in line.entry.text or "IMPORTANT" in line.entry.text)
        and _MARK.search(line.entry.text)
        for line in lines
    )
