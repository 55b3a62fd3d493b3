"""The sentence of history that answers a question: found, never made up.

What was said is taken apart into sentences. The one that answers holds what was asked about, or
stands right after it, and has the shape of what was asked for: a number, a day, a file. Of several
the newest is in force, unless the question is after what was so before. Whether anything was said
about it at all is decided before anything is quoted. Everything here is pure.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.entries.marks import told
from mindstone_tui.core.language.intent import only_asks
from mindstone_tui.core.language.lists import expression, lists_in, pattern_beside
from mindstone_tui.core.language.replacement import plain, replaces
from mindstone_tui.core.language.sentences import parts_of, shortened
from mindstone_tui.core.language.words import plain_words, root, stopwords
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.recall import passages, ranking, speak
from mindstone_tui.core.recall.index import SearchResult

Near = Callable[[passages.Passage], Sequence[passages.Passage]]
"""A message with those around it, in order."""

_LISTS: Final = Path(__file__).with_suffix(".txt")
_LONGEST: Final = 150
"""Characters of an answer before its source."""
_SHAPES: Final = (
    *("hash", "colour", "time", "duration", "rate", "price", "number", "name", "file"),
    *("place", "person", "ban", "list", "reason"),
)
"""What can be asked for; of several the first counts."""
_REQUIRED: Final = frozenset(_SHAPES[:9])
"""Without these there is no answer; the others only speak for one."""
_VALUES: Final = frozenset({"colour", "time", "duration", "rate", "price", "number", "file"})
"""What changes: the newest one is in force."""
_STEPS: Final = (0.4, 1.0, 0.75, 0.55, 0.45)
"""Shares of a hit's score for the message before it, itself, and those after it."""
_OWN: Final = pattern_of(
    r"[(,]\s?line \d+†?(?:(?: of |;)[^)]+)?\)|\(memory/[\w-]+\.md\)"
    r"|\A(?:Nothing was said about that|I found nothing (?:about that in|that surely answers))\b"
)
"""What the guide says, with a source or for want of one."""
_ASKING: Final = pattern_beside(__file__, "asking", re.IGNORECASE | re.DOTALL)
_LONGEST_QUESTION: Final = 300
_APOSTROPHE: Final = pattern_of(r"['’]s?\b")
_PRONOUN: Final = pattern_beside(__file__, "pronoun", re.IGNORECASE)
_CONFIRMS: Final = pattern_beside(__file__, "confirms", re.IGNORECASE)
_NUMBERED: Final = pattern_of(r"(?<![\w.])v?(\d+(?:\.\d+)*)")
"""A number, or a version whole."""
_UNIT: Final = pattern_of(r"\d ?([a-z%]{1,8})\b", re.IGNORECASE)
_VALUE: Final = pattern_beside(__file__, "value", re.IGNORECASE)
_BETWEEN: Final = pattern_of(r"\b(\w+) or (\w+)\b")
_PAST: Final = pattern_of(r"\bwhen (?:did|was|were|had|have)\b", re.IGNORECASE)
_HEAD: Final = pattern_beside(__file__, "head", re.IGNORECASE)


def means(what: str, text: str) -> re.Match[str] | None:
    """Where a text fits one of the lists."""
    return expression(_LISTS, what).search(text)


def is_own(text: str) -> bool:
    """Whether a text is an answer that was given before: it is not its own source."""
    return _OWN.search(text) is not None


def asks(text: str) -> bool:
    """Whether a text only asks, with a question mark or without."""
    return only_asks(text) or (len(text) < _LONGEST_QUESTION and _ASKING.match(text) is not None)


def leans(text: str) -> bool:
    """Whether a text speaks of something that it does not name."""
    return re.search(r"\b(?:it|that|this|them|those)\b", text, re.IGNORECASE) is not None


def spoken(text: str) -> list[str]:
    """The words of a text; what belongs to Tobi is Tobi's."""
    return plain_words(_APOSTROPHE.sub("", text))


def telling(text: str) -> tuple[str, ...]:
    """What a text is about: its words without those that only ask."""
    words = [word for word in spoken(text) if word not in stopwords()]
    empty = _words("empty")
    kept = [word for word in words if word not in empty and (len(word) > 1 or word.isdigit())]
    return tuple(dict.fromkeys(kept or words))


def who(passage: passages.Passage) -> str:
    """Whose words they are, where they have a name."""
    unnamed = passage.speaker in ranking.UNNAMED or passage.role == "tool" or passage.seq < 0
    return "" if unnamed else f"{passage.speaker}: "


def brief(text: str, longest: int) -> str:
    """A text in one line of at most so many characters."""
    return shortened(" ".join(text.split()), longest)


def source(passage: passages.Passage, *, dated: bool = True, here: str = "") -> str:
    """Where it stands: its day and its line, with a mark if another program heard it.

    A line of another session than the one that asks `here` is told with that; a memory stands in
    its file.
    """
    if passage.seq < 0:
        return f"({passage.entry})"
    day = passages.spoken_date(passage.ts).rpartition(" ")[0] if dated else ""
    line = f"line {passage.seq}"
    line += f" of {passage.session}" if here not in ("", passage.session) else ""
    # What was replaced is told as what was so before.
    marks = told(passage.standing.stands, but=("superseded", "corrected"))
    line = "; ".join((line, *marks))
    return f"({day}, {line})" if day else f"({line})"


@cache
def _words(what: str) -> frozenset[str]:
    return frozenset(word for line in lists_in(_LISTS)[what] for word in line.split())


@cache
def words_like(word: str) -> frozenset[str]:
    """Other words for the same thing; the word may be a root already."""
    lines, meant = (line.split() for line in lists_in(_LISTS)["alike"]), {word, root(word)}
    return frozenset(each for line in lines if meant & {*map(root, line)} for each in line)


def _roots(text: str) -> frozenset[str]:
    return frozenset(map(root, spoken(text)))


def _pairs(text: str) -> frozenset[tuple[str, str]]:
    """Words that stand side by side, one of them telling."""
    words = spoken(text)
    return frozenset((root(a), root(b)) for a, b in pairwise(words) if not {a, b} <= stopwords())


def _holds(term: str, roots: Collection[str]) -> float:
    """1 where a word stands there, less where a word for the same thing does."""
    if term in roots or any(_begins_like(term, each) for each in roots):
        return 1.0
    return 0.6 if any(root(each) in roots for each in words_like(term)) else 0.0


def _begins_like(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    if not long.startswith(short):
        return False
    return len(long) - len(short) <= 4 if len(short) >= 4 else long == f"{short}s"


def _units(sentence: str) -> frozenset[str]:
    """What the values in a sentence are counted in."""
    return frozenset(found.lower() for found in _UNIT.findall(sentence))


class Remark(msgspec.Struct, frozen=True):
    """A message, how much speaks for it, and what stood before it."""

    passage: passages.Passage
    score: float
    before: str = ""
    """What was said right before it,"""
    asked: str = ""
    """the question that it answers,"""
    last: str = ""
    """and what its speaker said last."""

    @property
    def when(self) -> tuple[str, int]:
        """When it was said: what was taken over later stands later and was said earlier."""
        return self.passage.ts, self.passage.seq


def _gone_of(passage: passages.Passage) -> set[str]:
    """The sentences of a message that are on record as corrected, as they are compared."""
    return {plain(one) for words in passage.parts_replaced.values() for one in words}


class SpokenSentence(msgspec.Struct, frozen=True):
    """A sentence that may answer."""

    said: Remark
    text: str
    worth: float
    own: float
    """Share of what was asked about that it holds, or that the question before it held;"""
    held: float
    """with its message and what stood before it."""
    shaped: bool
    """Whether it has what was asked for."""

    @property
    def seq(self) -> int:
        """Where it stands."""
        return self.said.passage.seq

    @property
    def replaced_by(self) -> int:
        """The later line that replaces it, on record or by this search; 0 while it holds."""
        said, own = self.said.passage, plain(self.text)
        parts = said.parts_replaced.items()
        by = (line for line, words in parts if own in map(plain, words))
        return said.superseded or next(by, 0)

    @property
    def context(self) -> str:
        """Its message, with the question that this answers."""
        return f"{self.said.passage.text} {self.said.asked}"


class Wanted:
    """What a question asks for, and how much of it a text holds."""

    def __init__(self, question: str, rarity: Mapping[str, float], strength: float) -> None:
        """`rarity` is by word, 0 for one that nobody said; `strength` is recall's judgement."""
        words = telling(question)
        self.strength = strength
        self._question = question
        self._weights = {root(word): rarity.get(word, 1.0) or self._unheard(word) for word in words}
        self._total = sum(self._weights.values()) or 1.0
        unheard = [
            root(word) for word in words if not rarity.get(word, 1.0) and self._is_thing(word)
        ]
        either = _BETWEEN.search(question)
        if either is not None and len(set(unheard) & (two := {*map(root, either.groups())})) == 1:
            unheard = [term for term in unheard if term not in two]  # one of them was spoken of
        self.missing = sum(self._weights[term] for term in unheard) / self._total
        self.shape = next((each for each in _SHAPES if means(f"wants {each}", question)), "")
        self.at_first = means("at first", question) is not None
        self.before = self.at_first or means("before", question) is not None
        self.when = _PAST.search(question) is not None
        self.settles = self.shape in _VALUES or means("now", question) is not None
        self.pairs = _pairs(question)
        self.names = frozenset(spoken(question)) if means("wants person", question) else frozenset()
        found = _HEAD.search(question)
        heads = [root(word) for word in reversed(spoken(found[1]) if found else [])]
        self._head = next((each for each in heads if each in self._weights), "")

    def _unheard(self, word: str) -> float:
        """What a word is worth that nobody said: much for a thing, little for a verb."""
        return 5.5 if self._is_thing(word) else 1.0

    def _is_thing(self, word: str) -> bool:
        """Whether the question uses it as a noun, as far as the words before it show."""
        words = spoken(self._question)
        at = words.index(word)
        if at == 0 or words[at - 1] in _words("before nouns"):
            return True
        verb = not _words("before verbs").isdisjoint(words[:at]) or word.endswith(("ing", "ed"))
        return not verb

    def only_names(self, speakers: Collection[str]) -> bool:
        """Whether nothing is asked about but people who speak."""
        return set(self._weights) <= {root(word) for name in speakers for word in spoken(name)}

    def share(self, *texts: frozenset[str]) -> float:
        """How much of what was asked about some texts hold; the first counts most."""
        return (
            sum(
                weight
                * max(far * _holds(term, roots) for far, roots in zip(_FAR, texts, strict=False))
                for term, weight in self._weights.items()
            )
            / self._total
        )

    def fits(self, text: str) -> bool:
        """Whether a text has what was asked for, and not only what the question said itself."""
        if not self.shape or self.when:
            return True
        asked = " ".join(self._question.lower().split())
        found = expression(_LISTS, f"is {self.shape}").finditer(text)
        return any(each[0].lower() not in asked for each in found)

    def doubts(self, best: SpokenSentence) -> bool:
        """Whether the best sentence says nothing about what was asked."""
        passage = best.said.passage
        around = _roots(f"{passage.text} {best.said.before}")
        either = _BETWEEN.search(self._question)
        return (
            self.strength < _WEAK
            or best.held < _LEAST_HELD
            or self.missing > (_MISSING if self.strength < _SURE else _MISSING_THOUGH_SURE)
            or (self.shape in _REQUIRED and not best.shaped)
            or (self.strength < _VERY_SURE and bool(self._head) and not _holds(self._head, around))
            or (self.shape == "name" and self.share(_roots(passage.text)) < _LEAST_HELD)
            or (either is not None and around.isdisjoint(map(root, either.groups())))
        )


_FAR: Final = (1.0, 0.8, 0.6)
_WEAK: Final = 0.6
_SURE: Final = 1.3
_VERY_SURE: Final = 1.8
_LEAST_HELD: Final = 0.4
_MISSING: Final = 0.2
_MISSING_THOUGH_SURE: Final = 0.28
_NEAR: Final = 0.5
"""Share of what was asked about that makes a sentence worth showing though it is doubted."""
_CLOSE_BEHIND: Final = 0.4
_IN_ONE_THREAD: Final = 4
"""Turns within which a short yes answers what was said before it."""


class Extract(msgspec.Struct, frozen=True):
    """What history says to a question, with its source."""

    text: str = ""
    """A line, and one more where there is a rival; empty for nothing."""
    sure: bool = True
    """Whether it answers; else it only comes nearest to what was asked about."""


def answer(
    question: str, found: SearchResult, near: Near, rarity: Mapping[str, float], here: str = ""
) -> Extract:
    """The sentence that answers; where none surely does, the one that comes near."""
    others = found.judged.reason == speak.ABOUT_OTHERS
    wanted = Wanted(question, rarity, 1.0 if others else found.judged.strength)
    said = _around(found, near)
    if wanted.only_names({one.passage.speaker for one in said}):
        return Extract()
    every = sorted(_sentences(wanted, said), key=lambda one: -one.worth)
    ranked = [one for one in every if not asks(one.text)]
    # Invoice 19 is not a newer invoice 18: what bears another number is another thing.
    named = set(_NUMBERED.findall(question))
    bears = [one for one in ranked if _bears(named, _NUMBERED.findall(one.context))]
    ranked = bears if bears or any("." in each for each in named) else ranked
    # What a later line replaced answers only who asks for what was so before.
    holding = [one for one in ranked if wanted.before or not one.replaced_by]
    if not holding:
        return Extract(sure=False)
    best, tell = _in_force(wanted, holding), partial(phrase, here=here)
    if wanted.doubts(best):
        nearest = max(holding, key=lambda one: (not asks(one.text), one.own, one.worth))
        close = nearest.own >= _NEAR and not asks(nearest.text)
        return Extract(tell(nearest.said, nearest.text) if close else "", sure=False)
    lines = [tell(best.said, best.text, dated=wanted.when)]
    if wanted.before and (now := _holds_instead(best, ranked)):
        lines.append(f"Now: {tell(now.said, now.text)}")
    elif other := _rival(wanted, best, ranked):
        lines.append(f"{_relation(wanted, best, other)}: {tell(other.said, other.text)}")
    return Extract("\n".join(lines))


def _bears(named: Collection[str], figures: Sequence[str]) -> bool:
    """Whether every number stands there; 1.1 stands in 1.1.0."""
    return all(any(f"{each}.".startswith(f"{one}.") for each in figures) for one in named)


def _holds_instead(best: SpokenSentence, ranked: Sequence[SpokenSentence]) -> SpokenSentence | None:
    """What is so now, however often it was replaced since; None if that is not among the found."""
    found = {one.seq: one for one in reversed(ranked)}
    now: SpokenSentence | None = best
    while now is not None and now.replaced_by > now.seq:
        now = found.get(now.replaced_by)
    return None if now is best or now is None or now.replaced_by else now


def _rival(
    wanted: Wanted, best: SpokenSentence, ranked: Sequence[SpokenSentence]
) -> SpokenSentence | None:
    """The next best sentence of another message, if it says nearly as much and not the same."""
    value = _VALUE.findall(best.text)[:1] if wanted.shape in _VALUES else ()
    others = (
        one
        for one in ranked
        if one.seq != best.seq
        and one.replaced_by in (0, best.seq)
        and not asks(one.text)
        and not any(each in one.text for each in value)
    )
    other = next(others, None)
    close = other is not None and other.worth >= 0.7 * best.worth and other.shaped == best.shaped
    return other if close else None


def phrase(said: Remark, sentence: str, *, dated: bool = False, here: str = "") -> str:
    """Who said it, as much of it as a line takes, and where it stands."""
    passage = said.passage
    # A memory is named by the words that it holds.
    whole = _alike(passage, sentence) if passage.seq >= 0 else sentence
    text = _with_neighbours(whole, sentence)
    if said.last and _PRONOUN.match(sentence):
        text += f" (after “{brief(said.last, 70)}”)"
    day = passages.spoken_date(passage.ts).rpartition(" ")[0] if dated else ""
    place = source(passage, dated=not day, here=here)
    return f"{day}{': ' if day else ''}{who(passage)}{text} {place}"


def _alike(passage: passages.Passage, sentence: str) -> str:
    """What of a message holds as its sentence does: all that was corrected, or all that was not."""
    if not (gone := _gone_of(passage)):
        return passage.text
    corrected = plain(sentence) in gone
    return " ".join(one for one in parts_of(passage.text) if (plain(one) in gone) == corrected)


def _with_neighbours(text: str, sentence: str) -> str:
    """The message if it is short, else the sentence and what follows as far as it fits."""
    whole, kept = " ".join(text.split()), " ".join(sentence.split())
    if len(whole) <= _LONGEST:
        return whole
    at = whole.find(kept)
    for part in parts_of(whole[at + len(kept) :]) if at >= 0 else ():
        if len(kept) + len(part) >= _LONGEST:
            break
        kept = f"{kept} {part}"
    return shortened(kept, _LONGEST)


def _relation(wanted: Wanted, best: SpokenSentence, other: SpokenSentence) -> str:
    """`Before` for an older value of the same kind, unless that is what was asked for."""
    same = wanted.shape in _VALUES or not _units(best.text).isdisjoint(_units(other.text))
    values = set(_VALUE.findall(other.text))
    differs = bool(values) and values.isdisjoint(_VALUE.findall(best.text)[:1])
    older = (
        not wanted.before and other.said.when < best.said.when and replaces(best.text, other.text)
    )
    replaced = other.replaced_by and not wanted.before
    return "Before" if replaced or (older and same and differs) else "Also"


def _around(found: SearchResult, near: Near) -> list[Remark]:
    """The hits and the messages beside them, each once."""
    best: dict[str, Remark] = {}
    judged = {hit.passage.id: _as_judged(hit) for hit in found.hits}
    for hit in found.hits:
        around = [judged.get(one.id, one) for one in near(hit.passage)]
        at = next((at for at, one in enumerate(around) if one.id == hit.passage.id), -1)
        if at < 0 or any(is_own(one.text) for one in around[at : at + 2]):
            continue  # It was answered like this one: the same question, or its answer.
        eager = 1.0 if asks(hit.passage.text) else 0.75
        for here, share in enumerate(_STEPS, at - 1):
            if 0 <= here < len(around) and not is_own(around[here].text):
                one = _in_place(around, here, hit.score * share * (eager if here > at else 1.0))
                known = best.get(one.passage.id, one)
                best[one.passage.id] = one if one.score >= known.score else known
    return list(best.values())


def _as_judged(hit: ranking.Hit) -> passages.Passage:
    """What was found, with what this very search knows of it: not all of that is on record yet."""
    parts = json.dumps(hit.corrected) if hit.corrected else hit.passage.corrected
    by = hit.passage.superseded or hit.superseded_by or 0
    return msgspec.structs.replace(hit.passage, superseded=by, corrected=parts)


def _in_place(around: Sequence[passages.Passage], at: int, score: float) -> Remark:
    passage, earlier = around[at], around[:at]
    theirs = (one.text for one in reversed(earlier) if one.speaker == passage.speaker)
    return Remark(
        passage=passage,
        score=score,
        before=" ".join(one.text for one in earlier[-3:]),
        asked=earlier[-1].text if earlier and asks(earlier[-1].text) else "",
        last=next((text for text in theirs if not asks(text)), ""),
    )


def _sentences(wanted: Wanted, said: Sequence[Remark]) -> Iterator[SpokenSentence]:
    """Every sentence, with what speaks for it."""
    top = max((one.score for one in said), default=1.0) or 1.0
    order = sorted({one.when for one in said})
    newer = {when: at / len(order) for at, when in enumerate(order)}
    for one in said:
        passage = one.passage
        whole, before = _roots(f"{passage.text} {passage.speaker}"), _roots(one.before)
        asked = wanted.share(_roots(one.asked)) if one.asked else 0.0
        for at, text in enumerate(parts_of(passage.text) or (passage.text,)):
            if means("supposes", text):
                continue
            words = _roots(text)
            own = max(wanted.share(words), (0.6 if at else 0.85) * asked)
            held = max(wanted.share(words, whole, before), own)
            worth = 0.8 * (one.score / top + own + held) + (0.2 if at else 0.3) * asked
            worth += (-0.2 if wanted.before else 0.2) * newer[one.when]
            worth += 0.2 * min(len(wanted.pairs & _pairs(text)), 2)
            shaped = wanted.fits(text)
            worth += _manner(wanted, passage, text) + (0.5 if shaped else -0.5)
            yield SpokenSentence(one, text, worth, own, held, shaped)


def _manner(wanted: Wanted, passage: passages.Passage, text: str) -> float:
    """What speaks against a sentence by how it is said, and by whom."""
    return -(
        1.0 * asks(text)
        + 0.7 * (means("steps", text) is not None)
        + 0.3 * (means("proposes", text) is not None and not wanted.before)
        + 0.5 * (passage.role == "tool")
        + 0.5 * (not wanted.names.isdisjoint(spoken(passage.speaker)))
    )


def _in_force(wanted: Wanted, ranked: Sequence[SpokenSentence]) -> SpokenSentence:
    """The best sentence, or of those that say as much the newest, the one before it or the oldest.

    The question says which. The one before is on record, as what the one that holds replaced.
    """
    best = ranked[0]

    def rivals(one: SpokenSentence) -> bool:
        if asks(one.text) or one.shaped != best.shaped:
            return False
        turns = one.said.passage.turn - best.said.passage.turn
        if not wanted.before and one.said.when > best.said.when:
            if wanted.shape in _VALUES and turns <= _IN_ONE_THREAD and _CONFIRMS.match(one.text):
                return one.worth >= best.worth - 1.6 and one.held >= 0.4 * best.held
            if one.own >= 0.4 * best.own and not _units(one.text).isdisjoint(_units(best.text)):
                return one.worth >= best.worth - 1.0
        enough = 0.8 if wanted.before else 0.9
        return one.worth >= best.worth - _CLOSE_BEHIND and one.held >= enough * best.held

    if not (wanted.before or wanted.settles or _units(best.text)):
        return best
    same = [one for one in ranked if rivals(one)] or [best]
    if not wanted.before:
        return max(same, key=lambda one: one.said.when)
    hold = {one.seq for one in ranked if not one.replaced_by}
    gone = [one for one in same if one.replaced_by and not wanted.at_first]
    last = max(gone, key=lambda one: (one.replaced_by in hold, one.said.when), default=None)
    return last or min(same, key=lambda one: one.said.when)
