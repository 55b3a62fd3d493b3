"""When recall speaks without being asked: does the message ask, and was the answer found?

Silence is the rule. A message must ask for something or refer to it; what was found must hold more
of what was asked for than chance does, the more so the less was asked; and it must be about the
person that the question is about. Everything here is pure.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.language.intent import intent_of, only_asks
from mindstone_tui.core.language.lists import english, pattern_beside
from mindstone_tui.core.language.sentences import parts_of
from mindstone_tui.core.language.words import query_terms, root, words_of
from mindstone_tui.core.recall import thresholds as tuned
from mindstone_tui.core.recall.candidates import Gathered
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.question import Question, read_question
from mindstone_tui.core.recall.ranking import Candidate, Hit, evidence_for, named_speakers
from mindstone_tui.core.statements.recogniser import recognise_standing_instruction

ASKS_NOTHING: Final = "The message asks for nothing that history could answer."
NAMES_NOTHING: Final = "The message gives an instruction without naming anything said before."
NOTHING_THERE: Final = "Nothing was said yet that is not in the window."
NOTHING_CLOSE: Final = "Nothing in history is close enough to the message."
SHOWN_ALREADY: Final = "What history holds that is close to the message stands in the window."
ABOUT_OTHERS: Final = "What history holds on this is about somebody else."


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Whether something found is worth bringing back."""

    strength: float
    """The best evidence in floors: from 1 on it is good enough for a question."""
    reason: str = ""
    """Why it is not good enough, in a sentence."""


# What a message names

_READ: Final = 4_000
"""Characters in which names are looked for: a message that is longer has named its matter."""
_SPECIFIC: Final = pattern_beside(__file__, "specific")


def specifics(message: str, names: Iterable[str] = ()) -> frozenset[str]:
    """What a message names: identifiers, files, quotations, names; in lower case."""
    found = (each[0].strip('`"“”').lower() for each in _SPECIFIC.finditer(message[:_READ]))
    return frozenset((*found, *names))


# Whether what was found answers it


def judge(
    question: Question,
    gathered: Gathered,
    hits: Sequence[Hit],
    *,
    vectors: bool,
    weights: tuned.Weights = tuned.DEFAULT,
) -> Judgement:
    """How good the best hit is for the question, or why none is."""
    if not hits:
        reason = NOTHING_CLOSE if gathered.passages > gathered.hidden else NOTHING_THERE
        return Judgement(strength=0.0, reason=reason)
    persons = _Persons(question, gathered.candidates)
    if persons.about_others(gathered.candidates, weights):
        return Judgement(strength=0.0, reason=ABOUT_OTHERS)
    others = {item.passage.id for item in gathered.candidates if item.other is not None}
    missing = tuned.NEVER_MENTIONED if gathered.unknown else 0.0
    ours: list[float] = []
    theirs = [0.0]
    for hit in (hit for hit in hits[: tuned.LOOKED_AT] if persons.fits(hit.passage)):
        value = persons.share(hit.passage) * (_strength(hit) - missing)
        if hit.passage.id in others:
            theirs.append(value / other_floor(gathered.passages))
        else:
            ours.append(value * (tuned.ASKED_THE_MODEL if _asks_the_model(hit.passage) else 1.0))
    enough = 1.0 if persons.named else asked_of(gathered.passages)
    strength = max(_in_floors(ours, vectors=vectors) / enough, *theirs)
    strength *= gathered.asked / (gathered.asked + tuned.DOUBT)
    if gathered.matched is not None:
        unmet = gathered.matched.missing(hit.passage.id for hit in hits[: tuned.LOOKED_AT])
        strength *= 1 - tuned.MISSING_WORDS * unmet
    if question.of_the_world and not question.names:
        strength *= tuned.OF_THE_WORLD
    if strength >= 1:
        return Judgement(strength=strength)
    named = ", ".join(gathered.unknown)
    reason = f"History never mentions {named}." if named else NOTHING_CLOSE
    return Judgement(strength=max(strength, 0.0), reason=reason)


def asked_of(passages: int) -> float:
    """The share of a floor that is enough in a history of so many passages."""
    more = math.log(max(passages, tuned.FEW) / tuned.FEW)
    return min(1.0, tuned.IN_FEW + tuned.WITH_MORE * more)


def other_floor(passages: int) -> float:
    """What evidence across languages must reach in a history of so many passages."""
    shorter = math.log(tuned.LONG / max(min(passages, tuned.LONG), 1))
    return tuned.OTHER_FLOOR * max(tuned.LOWEST, 1 - tuned.SHORTER * shorter)


def silence(message: str, hits: Sequence[Hit], judged: Judgement) -> str:
    """Why nothing is brought back for a message; empty when something is."""
    match intent_of(message):
        case "nothing":
            return ASKS_NOTHING
        case "asks":
            return judged.reason
        case "tells":
            wanted = specifics(message, read_question(message).names)
            texts = [hit.text.lower() for hit in hits[: tuned.LOOKED_AT]]
            if not any(name in text for name in wanted for text in texts):
                return NAMES_NOTHING
            return "" if judged.strength >= tuned.TELLING else judged.reason or NOTHING_CLOSE


def worth_injecting(message: str, hits: Sequence[Hit]) -> list[Hit]:
    """The hits that come near the best of them; a question that was asked before answers none."""
    best = max((hit.score for hit in hits), default=0.0)
    asked = frozenset(query_terms(message))

    def near(hit: Hit) -> bool:
        share = tuned.FAR_BELOW if evidence(hit) >= tuned.OWN_EVIDENCE else tuned.BESIDE_THE_BEST
        return hit.score >= share * best

    return [hit for hit in hits if near(hit) and not _repeats(hit.text, asked)]


def rules_that_apply(message: str, hits: Sequence[Hit]) -> list[Hit]:
    """Standing instructions among the hits that are about what a message wants done.

    Who says "push the fix to main" asks for nothing, and yet wants to hear of "never push to main".
    """
    wanted = {root(term) for term in query_terms(message)}
    return [hit for hit in hits if hit.parts.get("rule") and _applies(hit.text, wanted)]


def _applies(text: str, wanted: Collection[str]) -> bool:
    rule = recognise_standing_instruction(text)
    if rule is None:
        return False
    about = {root(term) for term in query_terms(rule.text) if term not in english("of every rule")}
    shared = len(about.intersection(wanted))
    return shared >= tuned.RULE_SHARES and shared >= tuned.RULE_SHARE * min(len(about), len(wanted))


def evidence(hit: Hit) -> float:
    """What speaks for a hit in its own text."""
    return sum(hit.parts.get(name, 0.0) for name in ("words", "meaning", "closeness"))


def _asks_the_model(passage: Passage) -> bool:
    return passage.speaker == "user" and only_asks(passage.text)


def _in_floors(strengths: Sequence[float], *, vectors: bool) -> float:
    """How good hits are: the best by itself, or tempered by the two that come next."""
    if not strengths:
        return 0.0
    best = sorted(strengths, reverse=True)[: tuned.TOGETHER]
    if not vectors:
        return best[0] / tuned.WORDS_FLOOR
    together = (1 - tuned.TOGETHER_SHARE) * best[0] + tuned.TOGETHER_SHARE * sum(
        best
    ) / tuned.TOGETHER
    return max(together / tuned.FLOOR, best[0] / tuned.ALONE)


def _strength(hit: Hit) -> float:
    around = tuned.FROM_NEIGHBOURS * hit.parts.get("neighbours", 0.0)
    return evidence(hit) + around + hit.parts.get("asks", 0.0) + hit.parts.get("time", 0.0)


def _repeats(text: str, asked: frozenset[str]) -> bool:
    return only_asks(text) and asked.issuperset(query_terms(text))


# Whom a passage is about

_ONESELF: Final = frozenset({"i", "me", "my", "mine", "myself", "im", "ive"})
_OTHERS: Final = frozenset({"you", "your", "yours", "youve", "we", "our", "ours", "us"})
_WANTS_ADVICE: Final = frozenset({"should", "can", "could", "would", "might", "suggest", "advise"})
"""Who asks so wants to hear what the model thinks of it."""
_FIRST_PERSON: Final = pattern_beside(__file__, "first person", re.IGNORECASE)
_SECOND_PERSON: Final = pattern_beside(__file__, "second person", re.IGNORECASE)


class _Persons:
    """Who is asked about, where a question names one of those who speak and not the others."""

    def __init__(self, question: Question, candidates: Iterable[Candidate]) -> None:
        said = [item.passage for item in candidates if item.passage.role in ("user", "assistant")]
        speakers = {passage.speaker for passage in said}
        named = named_speakers(question, said)
        self.named = named if named != speakers else set()
        """Those of several speakers whom the question calls by name."""
        self._two = len(speakers) == 2
        self._of_oneself = not (
            question.words.isdisjoint(_ONESELF)
            or question.words & (_OTHERS | _WANTS_ADVICE)
            or self.named
        )
        spoken = {word for name in speakers for word in words_of(name)}
        self._roots = tuple(root(term) for term in question.terms if term not in spoken)
        self._known: dict[str, int] = {}

    def fits(self, passage: Passage) -> bool:
        """Whether a passage may be about the person asked about."""
        return not self.named or passage.role == "tool" or self._about(passage) >= 0

    def share(self, passage: Passage) -> float:
        """How much of a passage's evidence counts for the person who asks."""
        return tuned.OF_THE_MODEL if self._of_oneself and passage.role == "assistant" else 1.0

    def about_others(self, candidates: Sequence[Candidate], weights: tuned.Weights) -> bool:
        """Whether the strongest passages are about somebody who was not asked about."""
        if not self.named:
            return False
        strongest = sorted(candidates, key=lambda item: -evidence_for(item, weights))[
            : tuned.COMPARED
        ]
        ours = theirs = 0.0
        for item in strongest:
            about, value = self._about(item.passage), evidence_for(item, weights)
            ours = max(ours, value) if about >= 0 else ours
            theirs = max(theirs, value) if about <= 0 else theirs
        return ours < theirs - tuned.SOMEBODY_ELSE

    def _about(self, passage: Passage) -> int:
        """1 for the person asked about, -1 for another, 0 where it may be either."""
        if passage.id not in self._known:
            self._known[passage.id] = self._read(passage)
        return self._known[passage.id]

    def _read(self, passage: Passage) -> int:
        own = 1 if passage.speaker in self.named else -1
        direction = _direction(passage.text, self._roots)
        if direction < 0 and not self._two:
            return 0  # Whom of several does it address?
        return own * direction


def _direction(text: str, roots: tuple[str, ...]) -> int:
    """1 where the part of a text that matters speaks of its speaker, -1 of whom it addresses.

    Who asks "do you play an instrument?" says nothing of themselves: the other one will.
    """
    parts = [
        (part, sum(word.startswith(roots) for word in words_of(part))) for part in parts_of(text)
    ]
    most = max((shared for _, shared in parts), default=0)
    turned = {_addresses(part) for part, shared in parts if shared == most}
    if turned == {True}:
        return -1
    return 1 if turned != {True, False} or not most else 0


def _addresses(sentence: str) -> bool:
    if only_asks(sentence):
        return True
    return bool(_SECOND_PERSON.search(sentence)) and not _FIRST_PERSON.search(sentence)
