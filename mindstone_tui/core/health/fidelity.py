"""Does what left the window still come back? A number, or the admission that nobody measured.

Probes are drawn from what left: what people settled, what came of the work and what is open, the
files it was about. Each is asked the way a person would ask, and counts when its fact stands in
what came back within the budget.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Literal

from mindstone_tui.core.context import extract
from mindstone_tui.core.context.digest import outcomes_in
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.entries import Part
from mindstone_tui.core.errors import RecallError
from mindstone_tui.core.health.probe_questions import question_about, question_of_request
from mindstone_tui.core.language.intent import is_small_talk
from mindstone_tui.core.language.sentences import prose
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements import StatementKind

GATE: Final = 0.85
"""What a change of prompts or ranking must not fall below."""
PROBES: Final = 20
TOP: Final = 6
_NAME: Final = pattern_of(r"[A-Za-z_][\w.-]{4,80}(?:\(\))?")
_DISTINCT: Final = pattern_of(r"[a-z0-9][A-Z]|_|[a-zA-Z]\d|[A-Z]-\d")
"""A name that nobody takes for a plain word."""
_FILE: Final = pattern_of(r"(?:[^/]+/){2,}[^/]+|.*\.\w{1,5}")
_MACHINES: Final = pattern_of(
    r"https?:|\A/(?:home|tmp|var|usr|opt|nix|proc)/(?:runner|node|root)?|node_modules|/Caches/"
    r"|\.cache"
    r"|\A[0-9a-f]{7,}\Z|[0-9a-f]{10,}|@\d|[0-9a-f]{8}-[0-9a-f]{4}|\Av?\d+(?:\.\d+)+\Z|\A__|_next"
    r"|-lock\."
)
"""Addresses, hashes, versions and folders of programs: no person asks for them."""
_AT_HOME: Final = pattern_of(r"\A(?:~|/(?:Users|home)/[^/]+|[A-Za-z]:\\Users\\[^\\]+)[/\\]")
_LONGEST_NAMED: Final = 300
"""Characters of a sentence in which a name is talked about; a longer one is a list or a paste."""
_LONGEST_TALK: Final = 1_500
_SPOKEN: Final = 4
"""Words of a sentence in which a name is talked about."""
_NAMES_SHARE: Final = 3
"""One question in so many may be after a name, where there is anything else to ask."""
_MENTIONED: Final = 2
"""Turns in which a model must have used a name before it is asked for."""

ProbeKind = Literal["rule", "correction", "decision", "open", "state", "path", "identifier"]
_KINDS: Final[dict[StatementKind, ProbeKind]] = {
    "rule": "rule",
    "preference": "rule",
    "memory": "rule",
    "correction": "correction",
    "decision": "decision",
    "question": "open",
    "commitment": "open",
}


class FidelityProbe(Part):
    """A question whose answer left the window."""

    kind: ProbeKind
    query: str
    expected: str
    seq: int
    turn: int


Recall = Callable[[str, int], Awaitable[Sequence[str]]]
"""`recall(query, k)`: the passages that it brings back, best first; raises a `RecallError`."""


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


def draw(
    passages: Sequence[extract.SourceMessage], limit: int = PROBES
) -> tuple[FidelityProbe, ...]:
    """Probes from what left, the same for the same passages: rules first, then spread evenly.

    Text that only a tool said is left out: nobody asked to keep it.
    """
    talk = [one for one in passages if one.speaker != "tool"]
    found: dict[str, FidelityProbe] = {}
    for probe in (*_settled(talk), *_state(talk), *_names(talk)):
        found.setdefault(extract.folded(probe.expected), probe)
    asked: dict[str, FidelityProbe] = {}
    for probe in found.values():
        asked.setdefault(extract.folded(probe.query), probe)
    probes = list(asked.values())
    rules = [one for one in probes if one.kind in ("rule", "correction")][:limit]
    rest = sorted(
        (one for one in probes if one.kind not in ("rule", "correction")), key=lambda one: one.seq
    )
    room = limit - len(rules)
    told = [one for one in rest if one.kind not in ("path", "identifier")]
    named = [one for one in rest if one.kind in ("path", "identifier")]
    chosen = _spread(told, max(room - min(len(named), limit // _NAMES_SHARE), 0))
    chosen += _spread(named, min(room - len(chosen), limit // _NAMES_SHARE if told else room))
    return (*rules, *sorted(chosen, key=lambda one: one.seq))


def _spread(probes: list[FidelityProbe], room: int) -> list[FidelityProbe]:
    """At most so many, evenly from all of them."""
    if len(probes) <= room:
        return probes
    return [probes[at * len(probes) // room] for at in range(room)] if room > 0 else []


def _settled(talk: Sequence[extract.SourceMessage]) -> Iterator[FidelityProbe]:
    """What stands, asked for by what it is about."""
    for one in extract.settled_in(talk).standing:
        if one.kind == "commitment" and one.speaker != "user":
            continue  # a model says what it does next all the time
        question = question_about(one)
        if question:
            yield FidelityProbe(
                kind=_KINDS[one.kind],
                query=question,
                expected=one.words,
                seq=one.line,
                turn=one.turn,
            )


def _state(talk: Sequence[extract.SourceMessage]) -> Iterator[FidelityProbe]:
    """What was done about a request, and what is still on a list."""
    request: extract.SourceMessage | None = None
    for one in talk:
        if one.speaker == "user":
            request = None if is_small_talk(one.text) else one
            continue
        for box in extract.unchecked(one.words)[:1]:
            yield FidelityProbe(
                kind="state",
                query="What is still to be done?",
                expected=box,
                seq=one.seq,
                turn=one.turn,
            )
        done = outcomes_in(one.words)
        if request is not None and done and not done[-1].endswith("…"):
            asked = next((each.text for each in prose(request.text)), "")
            if question := question_of_request(asked):
                yield FidelityProbe(
                    kind="state", query=question, expected=done[-1], seq=one.seq, turn=one.turn
                )


def _names(talk: Sequence[extract.SourceMessage]) -> Iterator[FidelityProbe]:
    """Files and names that people used more than once; plain words and fragments are none."""
    used: dict[str, list[extract.SourceMessage]] = {}
    for one in talk:
        for kind, name in _talked_about(one.words):
            wanted = (
                _FILE.fullmatch(name)
                if kind == "path"
                else _NAME.fullmatch(name) and _DISTINCT.search(name)
            )
            if wanted and kind != "number" and not _MACHINES.search(name):
                used.setdefault(_AT_HOME.sub("", name), []).append(one)
    alike: set[str] = set()
    for name, where in used.items():
        pattern = _DIGITS.sub("#", name.rpartition("/")[2])
        if pattern in alike or not _is_known(name, where):
            continue
        alike.add(pattern)  # of mod-16.zip, mod-28.zip and so on, one is enough
        short = name if name.count("/") <= 1 else "/".join(name.rsplit("/", 2)[1:])
        yield FidelityProbe(
            kind="path" if "/" in name or "." in name else "identifier",
            query=f"What did we do with {short}?",
            expected=short,
            seq=where[0].seq,
            turn=where[0].turn,
        )


def _is_known(name: str, where: Sequence[extract.SourceMessage]) -> bool:
    """Whether the person used a name; a file is known, too, that came up again in a later turn."""
    if any(one.speaker == "user" for one in where):
        return True
    return ("/" in name or "." in name) and len({one.turn for one in where}) >= _MENTIONED


def _talked_about(text: str) -> Iterator[tuple[str, str]]:
    """Names in the sentences that somebody said about them, and not in lists and pastes."""
    for sentence in prose(text) if len(text) <= _LONGEST_TALK else ():
        said = sentence.text
        if len(said) <= _LONGEST_NAMED and len(_WORDS.findall(said)) >= _SPOKEN:
            yield from extract.names_in(said)


_DIGITS: Final = pattern_of(r"\d+")
_WORDS: Final = pattern_of(r"(?<![\w./-])[A-Za-z']{2,}(?![\w./-])")


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


def _comes_back(probe: FidelityProbe, passages: Sequence[str], count: Count, budget: int) -> bool:
    spent = 0
    expected = extract.folded(probe.expected)
    for passage in passages:
        spent += count(passage)
        if spent > budget:
            return False
        if extract.holds(extract.folded(passage), expected):
            return True
    return False
