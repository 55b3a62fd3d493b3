"""Does what left the window still come back? A number, or the admission that nobody measured.

Probes are drawn from what left: names, paths, decisions, the user's rules. Each is asked of recall
the way a person would ask, and counts when its fact stands in what came back within the budget.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Literal

from mindstone_tui.core.context.extract import SourceMessage, facts_of, folded, holds
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.entries import Part
from mindstone_tui.core.errors import RecallError
from mindstone_tui.core.words import tokens_of

GATE: Final = 0.85
"""What a change of prompts or ranking must not fall below."""
PROBES: Final = 20
TOP: Final = 6
_SAYS_NOTHING: Final = re.compile(
    r"(?:a|an|and|are|as|at|be|but|by|do|for|from|have|i|if|in|is|it|its|me|my|not|of|on|or|our|so"
    r"|that|the|them|then|there|they|this|to|us|was|we|were|will|with|would|you|your)\Z",
    re.IGNORECASE,
)

ProbeKind = Literal["rule", "decision", "path", "identifier", "number"]


class FidelityProbe(Part):
    """A question whose answer left the window."""

    kind: ProbeKind
    query: str
    expected: str
    seq: int
    turn: int


class ProbeResult(Part):
    """A passage that recall brought back."""

    text: str
    seq: int = 0
    score: float = 0.0


Recall = Callable[[str, int], Awaitable[Sequence[ProbeResult]]]
"""`recall(query, k)`: best first; raises a `RecallError`."""


class Fidelity(Part, omit_defaults=False):
    """How much comes back; the score is None when nothing was measured."""

    score: float | None
    asked: int
    found: int
    missed: tuple[FidelityProbe, ...] = ()
    why: str = ""

    def sentence(self) -> str:
        """The number in words."""
        if self.score is None:
            return f"Fidelity is unmeasured: {self.why}."
        return f"Recall brought back {self.found} of {self.asked} probes ({self.score:.0%})."

    def passes(self, gate: float = GATE) -> bool:
        """Whether it was measured and is good enough."""
        return self.score is not None and self.score >= gate


def draw(passages: Sequence[SourceMessage], limit: int = PROBES) -> tuple[FidelityProbe, ...]:
    """Probes from what left, the same for the same passages: rules first, then spread evenly.

    Text that only a tool said is left out: nobody asked to keep it.
    """
    found: dict[str, FidelityProbe] = {}
    for passage in passages:
        if passage.speaker != "tool":
            for probe in _probes(passage):
                found.setdefault(folded(probe.expected), probe)
    probes = list(found.values())
    rules = [one for one in probes if one.kind == "rule"][:limit]
    rest = [one for one in probes if one.kind != "rule"]
    room = limit - len(rules)
    if len(rest) > room:
        rest = [rest[at * len(rest) // room] for at in range(room)] if room else []
    return (*rules, *rest)


def _probes(passage: SourceMessage) -> Iterator[FidelityProbe]:
    facts = facts_of([passage])

    def probe(kind: ProbeKind, query: str, expected: str) -> FidelityProbe:
        return FidelityProbe(
            kind=kind, query=query, expected=expected, seq=passage.seq, turn=passage.turn
        )

    for rule in facts.constraints:
        yield probe("rule", _words(rule), rule)
    for decision in facts.decisions:
        yield probe("decision", _words(decision), decision)
    for path in facts.paths[:3]:
        yield probe("path", f"What about {path}?", path)
    for name in facts.identifiers[:3]:
        yield probe("identifier", f"What about {name}?", name)


def _words(sentence: str, most: int = 8) -> str:
    """The first words of a sentence that say something."""
    words = tokens_of(sentence)
    return " ".join([word for word in words if not _SAYS_NOTHING.match(word)][:most]) or sentence


async def measure(
    probes: Sequence[FidelityProbe],
    recall: Recall,
    count: Count,
    *,
    k: int = TOP,
    budget: int = 2_000,
) -> Fidelity:
    """Ask recall for each probe; a fact counts when it stands within the top k and the budget."""
    if not probes:
        return Fidelity(score=None, asked=0, found=0, why="nothing left that could be asked for")
    missed: list[FidelityProbe] = []
    for probe in probes:
        try:
            passages = await recall(probe.query, k)
        except RecallError as error:
            return Fidelity(score=None, asked=0, found=0, why=error.what)
        if not _comes_back(probe, passages[:k], count, budget):
            missed.append(probe)
    found = len(probes) - len(missed)
    return Fidelity(score=found / len(probes), asked=len(probes), found=found, missed=tuple(missed))


def _comes_back(
    probe: FidelityProbe, passages: Sequence[ProbeResult], count: Count, budget: int
) -> bool:
    spent = 0
    expected = folded(probe.expected)
    for passage in passages:
        spent += count(passage.text)
        if spent > budget:
            return False
        if holds(folded(passage.text), expected):
            return True
    return False
