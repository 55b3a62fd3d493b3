"""Which passages answer a question best, and why. Pure: candidates in, hits out.

Three signals are added on fixed scales, so that scores compare between questions and between
indexes: words (BM25 as a share of what the question could earn, which backs off by itself when only
common words match), meaning (cosine above the collection's mean) and closeness word by word.
Around a strong message its short neighbours gain, because an answer rarely repeats its question,
and a request is often shorter than what was said about it. Small weights follow; each part of a
score is kept under its name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.recall.passages import Passage, parse_time
from mindstone_tui.core.recall.question import Question, only_asks, tells_time
from mindstone_tui.core.recall.standing_instructions import recognise_standing_instruction
from mindstone_tui.core.statements import parts_of
from mindstone_tui.core.text_cache import remembers
from mindstone_tui.core.words import STOPWORDS, query_terms, words_of


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """How much each part of a score counts; about 1.0 is a strong hit."""

    words: float = 0.35
    words_alone: float = 1.0
    """For a passage that has no vector yet: its words speak for all three."""
    meaning: float = 0.45
    closeness: float = 1.3
    other_words: float = 0.5
    other_meaning: float = 2.0
    """The same two where question or passage is not English: another model compares them."""
    neighbour: float = 0.3
    answer: float = 0.25
    """What a neighbour gives beside that when it asked, and this is what came after."""
    second_neighbour: float = 0.18
    long_neighbour: float = 0.4
    """The share that a long message gives of this: it speaks of much else."""
    sitting: float = 0.25
    """Of the best in the same sitting."""
    speaker: float = 0.4
    person: float = 0.2
    asks: float = -0.1
    time: float = 0.1
    date: float = 0.15
    pieces: float = -0.08
    """For each time that a message's pieces are e times as many: the best of many is often good
    by chance."""
    rule: float = 0.14
    pin: float = 0.1
    correction: float = 0.05
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
"""Characters: only messages shorter than this take from their neighbours."""
SHORT_QUESTION: Final = 120
"""Characters from which on a message that ends in a question usually tells something, too."""
LOOKED_AT: Final = 80
"""How many of the strongest are weighed by what they say."""
ARRANGED: Final = 12
"""How many of the first hits are compared with each other."""
NEAR_DUPLICATE: Final = 0.85
SAME_SUBJECT: Final = 0.5
"""Share of all words of two messages that both have, from which they state the same fact."""
CORRECTED_SUBJECT: Final = 0.4
"""The share of the words of a correcting sentence that a statement has which it corrects."""
CORRECTED_VALUE: Final = 0.3
"""The same where each has a number that the other has not."""
AS_STRONG: Final = 0.6
"""A newer statement replaces an older one only if it answers the question nearly as well."""

_CORRECTION: Final = pattern_of(
    # "No problem" and "sorry to hear that" correct nothing.
    r"^(?:no|nope|wait|sorry|hm+|oh)\s*[,.:;!—-]|^(?:correction|scratch that|update)\b[\s,.:;—-]"
    r"|^(?:\w+[,.!]? )?actually[ ,](?!-)|\b(?:is|are|was|were|it['’]s|that['’]s) actually\b"
    r"|\b(?:instead of|from now on|no longer|not anymore|i meant|i was wrong|not \w+ anymore"
    r"|has changed|have changed|changed (?:it |that )?to|switched to|moved to|rather than)\b"
)
_CORRECTS_WITHIN: Final = 400
"""Characters of a message within which it says that it corrects something."""
_SAYS_WHAT: Final = 3
"""Words from which on a correcting sentence says itself what it is about."""
_OF_EVERY_CORRECTION: Final = frozenset(
    ("wrong", "correct", "correction", "update", "actually", "mistake", "sorry", "meant", "wait")
)
_CORRECTS: Final = ("no", "wait", "sorry", "correction", "scratch that", "update", "hm", "oh")
_CORRECTING: Final = (
    "actually",
    "instead of",
    "from now on",
    "no longer",
    "anymore",
    "i meant",
    "i was wrong",
    "changed",
    "switched to",
    "moved to",
    "rather than",
)
"""How a correction begins, and what stands in one: looked for first, since that costs little."""
_VALUE: Final = pattern_of(r"\d")
_NO_LONGER: Final = pattern_of(
    r"\b(?:not|no longer|instead of|rather than)\s+(?:(?:on|in|at|to|port|the)\s+){0,2}(\S*\d\S*)",
    re.IGNORECASE,
)
_GIVEN_UP: Final = pattern_of(
    r"(?<!\S)(\S*\d{3}\S*)\s+(?:is|was|are|were)\s+(?:(?:already|now|also|no longer)\s+)?"
    r"(?:taken|occupied|in use|blocked|gone|dead|wrong|broken|retired|deprecated|reserved)\b"
    r".*?\b(?:use|take|make it|go with|switch to|try|move to)\s+(?:port\s+)?\S*\d",
    re.IGNORECASE | re.DOTALL,
)
"""A value that is said to be of no use, and another in its place."""
_NAME: Final = pattern_of(r"\b[A-Z][a-z]\w+")
_MODEL: Final = "assistant"
"""How the model is called where it has no name."""
_SOUNDS_LASTING: Final = (
    "always",
    "never",
    " ever ",
    "prefer",
    "from now on",
    "from here on",
    "going forward",
    "future",
    "henceforth",
    "rest of",
    "every time",
    "whenever",
    "circumstances",
    "call me",
    "address me",
    "my name is",
    "want you",
    "expect you",
    "remember",
    "keep in mind",
    "forget",
    "stop",
    "by default",
    "rule",
    "convention",
    "policy",
    "as of",
    "important",
    "do_not_evict",
)
"""One look that spares most messages the closer one for a standing instruction."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A passage with the evidence for it."""

    row: int
    sitting: int
    passage: Passage
    words: float = 0.0
    """BM25 divided by the rarity of all that was asked for."""
    by_words: bool = False
    """Whether words are all that could be compared."""
    meaning: float = 0.0
    """Cosine, less the collection's mean."""
    closeness: float = 0.0
    """Word by word, less the collection's mean."""
    other: float | None = None
    """Cosine by the model for many languages, less its mean, where that one was asked."""
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
    superseded_by: int | None = None
    """The newer statement, also found, that replaces this one."""


class _Message(msgspec.Struct):
    """A message as far as its pieces are among the candidates."""

    first: int
    """The row of its first piece, whether it is here or not."""
    last: int
    sitting: int
    gives: float
    """The share of its evidence that neighbours may have."""
    best: float = 0.0
    asks: bool = False


def rank(
    question: Question,
    candidates: Sequence[Candidate],
    *,
    count: int,
    pinned_turns: Collection[int] = (),
    weights: Weights = DEFAULT,
) -> list[Hit]:
    """The best hits, one a message, best first."""
    around = _Surroundings(question, candidates, pinned_turns, weights)
    strongest = sorted(candidates, key=lambda item: -around.rough(item))
    hits: dict[str, Hit] = {}
    for item in strongest[: max(2 * count, LOOKED_AT)]:
        parts = {
            **_signals(item, weights),
            **around.gains(item),
            **_cues(question, item.passage, weights),
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


def mark_corrected(hits: Sequence[Hit], standing: Iterable[Passage]) -> list[Hit]:
    """Mark what a later statement replaces that was no candidate, as it stands in the window.

    How well that one answers the question is not known, so it must share more with what it
    corrects, unless it names the value that no longer holds.
    """
    later = [
        (one, frozenset(query_terms(one.text)))
        for one in standing
        if one.role == "user" and (_VALUE.search(one.text) or is_correction(one.text))
    ]
    marked = []
    for hit in hits:
        old, theirs = hit.passage, frozenset(query_terms(hit.passage.text))
        by = [
            one.seq
            for one, ours in later
            if one.session == old.session
            and _may_replace(one, old)
            and not only_asks(old.text)
            and _restates(one, old, ours, theirs, SAME_SUBJECT)
        ]
        known = hit.superseded_by
        newest = max([*by, known] if known is not None else by, default=None)
        marked.append(msgspec.structs.replace(hit, superseded_by=newest))
    return marked


def is_correction(text: str) -> bool:
    """Whether a message sounds like it changes something said before."""
    said = text[:_CORRECTS_WITHIN].lower()
    if not said.startswith(_CORRECTS) and not any(word in said for word in _CORRECTING):
        return False
    return bool(_CORRECTION.search(said))


def evidence_for(item: Candidate, weights: Weights = DEFAULT) -> float:
    """What speaks for a candidate in its own text."""
    if item.other is not None:
        return weights.other_words * item.words + weights.other_meaning * item.other
    words = weights.words_alone if item.by_words else weights.words
    return words * item.words + weights.meaning * item.meaning + weights.closeness * item.closeness


def _signals(item: Candidate, weights: Weights) -> dict[str, float]:
    if item.other is not None:
        return {
            "words": weights.other_words * item.words,
            "meaning": weights.other_meaning * item.other,
        }
    return {
        "words": (weights.words_alone if item.by_words else weights.words) * item.words,
        "meaning": weights.meaning * item.meaning,
        "closeness": weights.closeness * item.closeness,
    }


class _Surroundings:
    """What a passage gains by where it stands, who said it and what it is; its text is not read."""

    def __init__(
        self,
        question: Question,
        candidates: Sequence[Candidate],
        pinned_turns: Collection[int],
        weights: Weights,
    ) -> None:
        self._question = question
        self._pinned_turns = pinned_turns
        self._weights = weights
        self._own = {item.row: evidence_for(item, weights) for item in candidates}
        self._known: dict[int, tuple[float, float, float, float, float]] = {}
        self._by_first = {each.first: each for each in self._messages(candidates)}
        self._by_last = {each.last: each for each in self._by_first.values()}
        self._sittings: dict[int, float] = {}
        for item in candidates:
            best = self._sittings.get(item.sitting, 0.0)
            self._sittings[item.sitting] = max(best, self._own[item.row])
        speakers = {item.passage.speaker for item in candidates if item.passage.role != "tool"}
        self._named = {name for name in speakers if not question.words.isdisjoint(words_of(name))}

    def rough(self, item: Candidate) -> float:
        """A score by everything that costs little to look at."""
        return self._own[item.row] + sum(self._large(item))

    def gains(self, item: Candidate) -> dict[str, float]:
        """All of it, by name."""
        passage, weights = item.passage, self._weights
        neighbours, sitting, speaker, person, pieces = self._large(item)
        return {
            "neighbours": neighbours,
            "sitting": sitting,
            "speaker": speaker,
            "person": person,
            "pieces": pieces,
            "date": weights.date if _is_dated(self._question, passage.ts) else 0.0,
            "kind": weights.kinds * KINDS.get(passage.kind, 0.0),
            "pin": weights.pin if passage.turn in self._pinned_turns else 0.0,
            "use": weights.use * (2 * math.log1p(item.used) - math.log1p(item.injected)),
            "age": weights.age * item.recency,
        }

    def _large(self, item: Candidate) -> tuple[float, float, float, float, float]:
        known = self._known.get(item.row)
        if known is None:
            passage, weights = item.passage, self._weights
            known = self._known[item.row] = (
                self._from_neighbours(item) if _is_short(passage) else 0.0,
                weights.sitting * self._sittings[item.sitting],
                weights.speaker if passage.speaker in self._named else 0.0,
                weights.person if passage.role in self._question.roles else 0.0,
                weights.pieces * math.log(passage.pieces) if passage.pieces > 1 else 0.0,
            )
        return known

    def _messages(self, candidates: Iterable[Candidate]) -> list[_Message]:
        known: dict[int, _Message] = {}
        for item in candidates:
            passage = item.passage
            first = item.row - passage.piece
            message = known.get(first)
            if message is None:
                gives = 1.0 if _is_short(passage) else self._weights.long_neighbour
                gives = 0.0 if passage.role == "tool" else gives
                last = first + passage.pieces - 1
                message = known[first] = _Message(first, last, item.sitting, gives)
            message.best = max(message.best, self._own[item.row])
            if item.row == message.last:
                message.asks = only_asks(passage.text)
        return list(known.values())

    def _from_neighbours(self, item: Candidate) -> float:
        """What a short message takes from the best pieces of the messages around it."""
        weights, gain = self._weights, 0.0
        before, after = self._by_last.get(item.row - 1), self._by_first.get(item.row + 1)
        if before is not None:
            share = weights.neighbour + (weights.answer if before.asks else 0.0)
            gain += _given(before, item, share)
            second = self._by_last.get(before.first - 1)
            gain += _given(second, item, weights.second_neighbour)
        if after is not None:
            gain += _given(after, item, weights.neighbour)
            second = self._by_first.get(after.last + 1)
            gain += _given(second, item, weights.second_neighbour)
        return gain


def _given(message: _Message | None, item: Candidate, share: float) -> float:
    if message is None or message.sitting != item.sitting:
        return 0.0
    return share * message.gives * message.best


def _is_short(passage: Passage) -> bool:
    """Whether it is a short message of a conversation; a tool's output answers nobody."""
    return passage.pieces == 1 and len(passage.text) < SHORT and passage.role != "tool"


def _is_dated(question: Question, ts: str) -> bool:
    """Whether it was said in the month and year that the question names."""
    if not (question.month or question.year):
        return False
    moment = parse_time(ts)
    return (
        moment is not None
        and question.month in (0, moment.month)
        and question.year in (0, moment.year)
    )


def _cues(question: Question, passage: Passage, weights: Weights) -> dict[str, float]:
    """By what a passage says; each of these reads its text."""
    text = passage.text
    asks = len(text) <= SHORT_QUESTION and only_asks(text)
    rules = passage.role == "user" and _is_rule(text)
    return {
        "asks": weights.asks if asks else 0.0,
        "time": weights.time if question.wants_time and tells_time(text) else 0.0,
        "correction": weights.correction if is_correction(text) else 0.0,
        "rule": weights.rule if rules else 0.0,
    }


@remembers(4_096)  # The closer look takes milliseconds, and history does not change.
def _is_rule(text: str) -> bool:
    lowered = text.lower()
    if not any(words in lowered for words in _SOUNDS_LASTING):
        return False
    return recognise_standing_instruction(text) is not None


def _newest_first(hits: Sequence[Hit], subjects: Mapping[str, frozenset[str]]) -> list[Hit]:
    """Put a newer statement before the older ones it replaces, and mark both."""
    ordered = list(hits)
    for newer in sorted(hits, key=lambda hit: hit.passage.seq):
        replaced = {hit.passage.seq for hit in hits if _replaces(newer, hit, subjects)}
        if not replaced:
            continue
        at = _place(ordered, {newer.passage.seq})
        first = min(at, _place(ordered, replaced))
        moved = ordered.pop(at)
        ordered.insert(first, msgspec.structs.replace(moved, supersedes=tuple(sorted(replaced))))
        ordered = [
            msgspec.structs.replace(hit, superseded_by=newer.passage.seq)
            if hit.passage.seq in replaced
            else hit
            for hit in ordered
        ]
    return ordered


def _place(hits: Sequence[Hit], seqs: Collection[int]) -> int:
    return next(at for at, hit in enumerate(hits) if hit.passage.seq in seqs)


def _replaces(newer: Hit, older: Hit, subjects: Mapping[str, frozenset[str]]) -> bool:
    """Whether the newer one states the same fact anew.

    Only people change facts by saying so: what they said themselves, and what the model made of it.
    """
    new, old = newer.passage, older.passage
    if newer.score < AS_STRONG * older.score or not _may_replace(new, old):
        return False
    return _restates(new, old, subjects[new.id], subjects[old.id])


def _may_replace(new: Passage, old: Passage) -> bool:
    return not (
        new.seq <= old.seq
        or old.speaker not in (new.speaker, _MODEL)
        or new.speaker == _MODEL
        or "tool" in (new.role, old.role)
        or only_asks(new.text)
    )


def _restates(
    new: Passage, old: Passage, ours: frozenset[str], theirs: frozenset[str], least: float = 0.0
) -> bool:
    """Whether a message says anew what an older one said; `least` is the share of the words of a
    correcting sentence that the older one must have, where that is more than usual."""
    if ours.isdisjoint(theirs) or ours == theirs:
        return False
    if not _values(_GIVEN_UP, new.text).isdisjoint(theirs):
        return True
    only_ours, only_theirs = ours - theirs, theirs - ours
    both_valued = all(any(map(_VALUE.search, words)) for words in (only_ours, only_theirs))
    if is_correction(new.text):
        return _corrects(new, old, theirs, both_valued=both_valued, least=least)
    # Said again in the same words, with another value; other words on both sides are about others.
    other_words = [
        any(not _VALUE.search(word) for word in each) for each in (only_ours, only_theirs)
    ]
    valued = any(map(_VALUE.search, only_ours | only_theirs))
    shared = len(ours & theirs)
    return valued and not all(other_words) and shared >= SAME_SUBJECT * len(ours | theirs)


def _corrects(
    new: Passage, old: Passage, theirs: frozenset[str], *, both_valued: bool, least: float
) -> bool:
    """Whether a message that corrects something corrects this.

    What counts are the words of its correcting sentence: in a long message other sentences speak of
    other things. Of what the model made of a statement only another value is corrected.
    """
    named = _means(new.text, old.text, theirs, by_name=both_valued)
    if named is False or (old.speaker == _MODEL and not both_valued and named is None):
        return False
    ours = _correcting_words(new.text, and_next=both_valued)
    enough = CORRECTED_VALUE if both_valued else CORRECTED_SUBJECT
    if not named:
        enough = max(enough, least)
    return len(ours & theirs) >= max(1.0, enough * len(ours))


def _correcting_words(text: str, *, and_next: bool) -> frozenset[str]:
    """What the sentence that corrects is about.

    It may say no more than that something is wrong: then the next one says what, if that has a
    value. Who answers "no" and says thanks for something corrects nothing.
    """
    parts = parts_of(text[:_CORRECTS_WITHIN])
    at = next((at for at, part in enumerate(parts) if _CORRECTION.search(part.lower())), 0)
    words: frozenset[str] = frozenset()
    for part in parts[at : at + 2 if and_next else at + 1]:
        if len(words) < _SAYS_WHAT:
            words |= frozenset(query_terms(part)) - _OF_EVERY_CORRECTION
    return words


def _means(new: str, old: str, said: Collection[str], *, by_name: bool) -> bool | None:
    """Whether a correction means an older statement; None where nothing tells.

    Who says which value no longer holds means a statement with that value. And where two numbers
    differ, names tell whose they are.
    """
    if outdated := _values(_NO_LONGER, new):
        return not outdated.isdisjoint(said)
    ours, theirs = (_capitalised(text) for text in (new, old))
    strangers = by_name and ours and theirs and ours.isdisjoint(theirs)
    return False if strangers else None


def _values(pattern: re.Pattern[str], text: str) -> set[str]:
    return {word for found in pattern.findall(text) for word in query_terms(found)}


def _capitalised(text: str) -> set[str]:
    return {word.lower() for word in _NAME.findall(text)} - STOPWORDS


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
