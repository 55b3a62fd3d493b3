"""One long session under several ways of making room: what is still known, and can be shown.

Five questions are put to each: are facts still there, can they be traced to their source, did the
user's corrections survive, would something outdated or never said be taken for true, and can it be
explained why. The probes are deterministic; a model, where one is given, is asked on top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.asking import Ask
from mindstone_tui.core.context.budget import ASSUMED_WINDOW
from mindstone_tui.core.context.material import as_text, passages_of
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.health.fidelity import draw
from mindstone_tui.core.health.judging import Judged, judge
from mindstone_tui.core.interchange.samples import Probe as SampleProbe
from mindstone_tui.core.replay.evidence import Piece, brought_back, says, speaks_of, standing
from mindstone_tui.core.replay.rehearsal import Rehearsal, rehearse
from mindstone_tui.core.replay.staging import Options
from mindstone_tui.core.replay.whatif import Outcome, PriceOf, no_prices, outcome_of
from mindstone_tui.core.transcript import History

Family = Literal["fact", "correction", "why", "never said"]

MODES: Final = ("sliding_window", "auto_compact", "cascade")
PROBES: Final = 40
_JUDGED_CHARS: Final = 60_000

MEASURES: Final = (
    ("facts", "factual retention"),
    ("traceable", "source traceability"),
    ("corrections", "user corrections kept"),
    ("false", "hallucinated continuity"),
    ("why", "can explain why"),
)
"""Name in the report → what people read. Of `false`, less is better."""


class Probe(Part):
    """A question whose answer history knows, or does not."""

    family: Family
    question: str
    expects: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    turns: frozenset[int] = frozenset()
    """Where it was said."""


class Answered(Part, omit_defaults=False):
    """What one mode can say to one probe."""

    family: Family
    question: str
    known: bool
    where: str = ""
    """`window`, `summary` or `recall`."""
    traceable: bool = False
    misled: bool = False
    """Something outdated stands there alone, or something is offered for what was never said."""


class Share(Part, omit_defaults=False):
    """So many out of so many."""

    hits: int
    asked: int
    in_window: int = 0
    """Of the hits: those that need no recall."""

    @property
    def score(self) -> float | None:
        """From 0 to 1; None when nothing was asked."""
        return self.hits / self.asked if self.asked else None


class Compared(Part, omit_defaults=False):
    """How one mode did."""

    mode: str
    measures: dict[str, Share]
    outcome: Outcome
    answers: tuple[Answered, ...]
    judged: Judged | None = None


class Comparison(Part, omit_defaults=False):
    """The same session under every mode."""

    session: str
    window: int
    probes: int
    vectors: bool
    modes: tuple[Compared, ...]


class Comparing(msgspec.Struct, frozen=True, kw_only=True):
    """How a comparison is held."""

    options: Options
    price_of: PriceOf = no_prices
    judge: Ask | None = None
    progress: Callable[[str, int, int], None] | None = None
    """Hears (mode, lines done, lines in all)."""


async def compare(
    source: History,
    settings: Mapping[str, Settings],
    probes: Sequence[Probe],
    comparing: Comparing,
) -> Comparison:
    """Rehearse the session in each mode and put every probe to what is left of it."""
    done = []
    for mode, own in settings.items():
        done.append(await _in_mode(mode, source, own, probes, comparing))
    window = next(iter(settings.values())).context.window
    return Comparison(
        session=str(source.places.key),
        window=window or ASSUMED_WINDOW,
        probes=len(probes),
        vectors=comparing.options.embedder is not None,
        modes=tuple(done),
    )


async def _in_mode(
    mode: str, source: History, settings: Settings, probes: Sequence[Probe], how: Comparing
) -> Compared:
    tell = how.progress
    options = msgspec.structs.replace(
        how.options,
        fixed=frozenset({"context.mode"}),
        progress=None if tell is None else lambda at, of: tell(mode, at, of),
    )
    held = await rehearse(source, settings, options)
    room = int((settings.context.window or ASSUMED_WINDOW) * settings.budget.memory_injection / 100)
    count = options.counters(options.model).text
    here = standing(held)
    answers = tuple(
        answer(probe, here, brought_back(held, probe.question, room, count)) for probe in probes
    )
    judged = await _judge(how.judge, held, here) if how.judge is not None else None
    held.recollection.close()
    return Compared(
        mode=mode,
        measures=_measures(answers),
        outcome=outcome_of(mode, held, how.price_of),
        answers=answers,
        judged=judged,
    )


def answer(probe: Probe, here: Sequence[Piece], back: Sequence[Piece]) -> Answered:
    """What the window and recall together know about a probe."""
    if probe.family == "never said":
        return Answered(
            family=probe.family, question=probe.question, known=False, misled=bool(back)
        )
    pieces = [*here, *back]
    knowing = [piece for piece in pieces if _knows(piece, probe)]
    best = next((piece for piece in knowing if piece.turn in probe.turns), None)
    shown = best or next(iter(knowing), None)
    outdated = any(
        says(piece, (wrong,)) and speaks_of(piece, probe.question)
        for piece in pieces
        for wrong in probe.outdated
    )
    return Answered(
        family=probe.family,
        question=probe.question,
        known=shown is not None,
        where=shown.where if shown else "",
        traceable=best is not None,
        misled=outdated and shown is None,
    )


def _knows(piece: Piece, probe: Probe) -> bool:
    """Whether a piece holds the answer: where it was said, or wherever it is spoken of."""
    if not says(piece, probe.expects):
        return False
    return piece.turn in probe.turns or speaks_of(piece, probe.question)


def _measures(answers: Sequence[Answered]) -> dict[str, Share]:
    said = [one for one in answers if one.family != "never said"]
    doubtful = [one for one in answers if one.family in ("correction", "never said")]

    def share(among: Sequence[Answered], hit: Callable[[Answered], bool]) -> Share:
        hits = [one for one in among if hit(one)]
        inside = sum(one.where in ("window", "summary") for one in hits)
        return Share(hits=len(hits), asked=len(among), in_window=inside)

    def of(family: Family) -> list[Answered]:
        return [one for one in answers if one.family == family]

    return {
        "facts": share(of("fact"), lambda one: one.known),
        "traceable": share(said, lambda one: one.traceable),
        "corrections": share(of("correction"), lambda one: one.known),
        "false": share(doubtful, lambda one: one.misled),
        "why": share(of("why"), lambda one: one.known and one.traceable),
    }


async def _judge(ask: Ask, held: Rehearsal, here: Sequence[Piece]) -> Judged:
    """Let a model compare what history answers with what the window answers."""
    lines = [line for line in held.sketch.lines if line.role in ("user", "assistant")]
    original = as_text(passages_of(lines))[-_JUDGED_CHARS:]
    left = "\n\n".join(piece.text for piece in here if not piece.tool)[-_JUDGED_CHARS:]
    return await judge(ask, original, left)


def probes_of_sample(source: History, probes: Sequence[SampleProbe]) -> tuple[Probe, ...]:
    """The sample's own questions, with the turns in which they were answered."""
    turns = {
        name: line.turn
        for line in source.read()
        if isinstance(line, Line) and (name := getattr(line.entry, "source_id", ""))
    }
    return tuple(
        Probe(
            family=one.family,
            question=one.question,
            expects=one.expects,
            outdated=one.outdated,
            turns=frozenset(turns[name] for name in one.sources if name in turns),
        )
        for one in probes
    )


def probes_of_session(source: History, limit: int = PROBES) -> tuple[Probe, ...]:
    """Questions drawn from any session: its rules, decisions and names.

    A rule that the user gave counts as a correction, a decision as a reason: those are what a
    conversation turns on. What was outdated by it cannot be known without a model.
    """
    lines = [source.whole(one) for one in source.read() if isinstance(one, Line)]
    families: dict[str, Family] = {"rule": "correction", "decision": "why"}
    return tuple(
        Probe(
            family=families.get(one.kind, "fact"),
            question=one.query,
            expects=(one.expected,),
            turns=frozenset({one.turn}),
        )
        for one in draw(passages_of(lines), limit)
    )
