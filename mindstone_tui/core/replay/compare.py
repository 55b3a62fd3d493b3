"""One long session under several ways of making room: what is still known, and can be shown.

Five questions are put to each: are facts still there, can they be traced to their source, did the
user's corrections survive, would something outdated or never said be taken for true, and can it be
explained why. The probes are deterministic; a model, where one is given, is asked on top.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import msgspec

from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.config.settings import ModelSettings, Settings
from mindstone_tui.core.context.budget import ASSUMED_WINDOW
from mindstone_tui.core.context.extract import as_text, folded, holds, passages_of
from mindstone_tui.core.context.policies import text_of
from mindstone_tui.core.context.summary_call import Ask, Count
from mindstone_tui.core.entries import Line, Message, Part, Request, conversation, standings
from mindstone_tui.core.errors import ProviderNonsense
from mindstone_tui.core.health.fidelity import Judged, draw, judge
from mindstone_tui.core.interchange.samples import SampleProbe
from mindstone_tui.core.language import sentences, words
from mindstone_tui.core.paths import Places
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.providers import base, registry
from mindstone_tui.core.recall.inject import Vacancy
from mindstone_tui.core.replay import rehearsal, what_if
from mindstone_tui.core.transcript import History
from mindstone_tui.core.values import alike

Where = Literal["window", "summary", "recall"]

_TURN: Final = pattern_of(r"\bturn (\d{1,9})\b")
_SHARED: Final = 2
"""Words of a question that a text must share to speak of the same thing."""


class AnswerPiece(Part):
    """Something the model reads."""

    where: Where
    text: str
    turn: int = 0
    """The turn whose words these are; 0 when nobody can say."""
    tool: bool = False


def standing(held: rehearsal.Rehearsal) -> tuple[AnswerPiece, ...]:
    """What the window shows at the end: its messages as sent, and what was derived."""
    fold = held.window.fold
    pieces = [
        AnswerPiece(
            where="window",
            text=item.text if item.text is not None else text_of(item.line),
            turn=item.line.turn,
            tool=isinstance(item.line.entry, conversation.ToolReturned),
        )
        for item in fold.placed(model=fold.model or rehearsal.UNNAMED, turn=fold.turn)
    ]
    return (*pieces, *(piece for text in fold.derived.values() for piece in _derived(text)))


def _derived(text: str) -> list[AnswerPiece]:
    """A summary line by line: each may say which turn it was made from."""
    lines = [line for block in text.splitlines() for line in sentences.parts_of(block)] or [text]
    found = []
    for line in lines:
        named = _TURN.findall(line)
        found.append(AnswerPiece(where="summary", text=line, turn=int(named[-1]) if named else 0))
    return found


def brought_back(
    held: rehearsal.Rehearsal, question: str, room: int, count: Count
) -> tuple[AnswerPiece, ...]:
    """What recall would add for a question, within its share."""
    vacancy = Vacancy(shown=held.window.fold.shown, recent=(), tokens=room, count=count)
    if (injected := held.recollection.gather(question, vacancy)) is None:
        return ()
    return tuple(
        AnswerPiece(where="recall", text=each.text, turn=each.turn) for each in injected.passages
    )


def says(piece: AnswerPiece, wanted: Sequence[str]) -> bool:
    """Whether a text holds all of the words, as whole words."""
    text = folded(piece.text)
    return bool(wanted) and all(holds(text, folded(each)) for each in wanted)


def speaks_of(piece: AnswerPiece, question: str) -> bool:
    """Whether a text is about what is asked; a tool's output never counts as having said so."""
    if piece.tool:
        return False
    asked = {_stem(term) for term in words.query_terms(question)}
    shared = asked & {_stem(word) for word in words.words_of(piece.text)}
    return len(shared) >= min(_SHARED, len(asked))


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("s") else word


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


class ComparisonProbe(Part):
    """A question whose answer history knows, or does not."""

    family: Family
    question: str
    expects: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    turns: frozenset[int] = frozenset()
    """Where it was said."""


class ProbeAnswer(Part, omit_defaults=False):
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
    outcome: what_if.WhatIfOutcome
    answers: tuple[ProbeAnswer, ...]
    judged: Judged | None = None


class Comparison(Part, omit_defaults=False):
    """The same session under every mode."""

    session: str
    window: int
    probes: int
    vectors: bool
    modes: tuple[Compared, ...]

    @property
    def measured(self) -> list[tuple[str, str]]:
        """The measures for which the session has anything to ask about."""
        asked = {name for one in self.modes for name, share in one.measures.items() if share.asked}
        return [each for each in MEASURES if each[0] in asked]


class Comparing(msgspec.Struct, frozen=True, kw_only=True):
    """How a comparison is held."""

    options: rehearsal.RehearsalOptions
    price_of: what_if.PriceOf = what_if.no_prices
    judge: Ask | None = None
    progress: Callable[[str, int, int], None] | None = None
    """Hears (mode, lines done, lines in all)."""


async def compare(
    source: History,
    settings: Mapping[str, Settings],
    probes: Sequence[ComparisonProbe],
    comparing: Comparing,
) -> Comparison:
    """Rehearse the session in each mode and put every probe to what is left of it."""
    tell, done = comparing.progress, []
    for mode, own in settings.items():
        options = msgspec.structs.replace(
            comparing.options,
            fixed=frozenset({"context.mode"}),
            counting=True,
            progress=None if tell is None else partial(tell, mode),
        )
        held = await rehearsal.rehearse(source, own, options)
        room = int((own.context.window or ASSUMED_WINDOW) * own.budget.memory_injection / 100)
        count, here = options.counters(options.model).text, standing(held)
        answers = tuple(
            answer(probe, here, brought_back(held, probe.question, room, count)) for probe in probes
        )
        judged = await _judge(comparing.judge, held, here) if comparing.judge is not None else None
        held.recollection.close()
        done.append(
            Compared(
                mode=mode,
                measures=_measures(answers),
                outcome=what_if.outcome_of(mode, held, comparing.price_of),
                answers=answers,
                judged=judged,
            )
        )
    return Comparison(
        session=str(source.places.key),
        window=next(iter(settings.values())).context.window or ASSUMED_WINDOW,
        probes=len(probes),
        vectors=comparing.options.embedder is not None,
        modes=tuple(done),
    )


def answer(
    probe: ComparisonProbe, here: Sequence[AnswerPiece], back: Sequence[AnswerPiece]
) -> ProbeAnswer:
    """What the window and recall together know about a probe."""
    if probe.family == "never said":
        return ProbeAnswer(
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
    return ProbeAnswer(
        family=probe.family,
        question=probe.question,
        known=shown is not None,
        where=shown.where if shown else "",
        traceable=best is not None,
        misled=outdated and shown is None,
    )


def _knows(piece: AnswerPiece, probe: ComparisonProbe) -> bool:
    """Whether a piece holds the answer: where it was said, or wherever it is spoken of."""
    if not says(piece, probe.expects):
        return False
    return piece.turn in probe.turns or speaks_of(piece, probe.question)


def _measures(answers: Sequence[ProbeAnswer]) -> dict[str, Share]:
    said = [one for one in answers if one.family != "never said"]
    doubtful = [one for one in answers if one.family in ("correction", "never said")]

    def share(among: Sequence[ProbeAnswer], hit: Callable[[ProbeAnswer], bool]) -> Share:
        hits = [one for one in among if hit(one)]
        inside = sum(one.where in ("window", "summary") for one in hits)
        return Share(hits=len(hits), asked=len(among), in_window=inside)

    def of(family: Family) -> list[ProbeAnswer]:
        return [one for one in answers if one.family == family]

    return {
        "facts": share(of("fact"), lambda one: one.known),
        "traceable": share(said, lambda one: one.traceable),
        "corrections": share(of("correction"), lambda one: one.known),
        "false": share(doubtful, lambda one: one.misled),
        "why": share(of("why"), lambda one: one.known and one.traceable),
    }


async def _judge(ask: Ask, held: rehearsal.Rehearsal, here: Sequence[AnswerPiece]) -> Judged:
    """Let a model compare what history answers with what the window answers."""
    lines = [line for line in held.sketch.lines if line.role in ("user", "assistant")]
    left = "\n\n".join(piece.text for piece in here if not piece.tool)[-_JUDGED_CHARS:]
    said = as_text(passages_of(lines, standings.Standings(held.sketch.lines)))
    return await judge(ask, said[-_JUDGED_CHARS:], left)


def probes_of_sample(source: History, probes: Sequence[SampleProbe]) -> tuple[ComparisonProbe, ...]:
    """The sample's own questions, with the turns in which they were answered."""
    turns = {
        name: line.turn
        for line in source.read()
        if isinstance(line, Line) and (name := getattr(line.entry, "source_id", ""))
    }
    return tuple(
        alike(ComparisonProbe, one, turns=frozenset(map(turns.get, one.sources)) - {None})
        for one in probes
    )


def probes_of_session(source: History) -> tuple[ComparisonProbe, ...]:
    """Questions drawn from any session: what was settled, what came of it, what it was about.

    A decision counts as a reason; what corrects nothing, were it a rule, is a fact to be kept.
    """
    lines = [source.whole(one) for one in source.read() if isinstance(one, Line)]
    said = passages_of(standings.not_rewound(lines), standings.Standings(lines))
    families: dict[str, Family] = {"correction": "correction", "decision": "why"}
    return tuple(
        ComparisonProbe(
            family=families.get(one.kind, "fact"),
            question=one.query,
            expects=(one.expected,),
            turns=frozenset({one.turn}),
        )
        for one in draw(said, PROBES)
    )


LONGEST: Final = 4_096
"""Tokens that one answer may take."""


def asking(model: str, settings: ModelSettings, home: Places, environ: Mapping[str, str]) -> Ask:
    """Ask a model directly; nothing of it is recorded, because no session is open."""
    provider = registry.resolve(model, settings, home, environ)
    taken: Counter[str] = Counter()

    async def ask(purpose: str, messages: Sequence[Message]) -> str:
        options = base.Options(
            max_tokens=LONGEST,
            timeout=settings.timeout,
            retries=settings.retries,
            purpose=purpose,
            position=taken[purpose],
        )
        taken[purpose] += 1
        gathering = Gathering(0, 0)
        async for delta in provider.stream(Request(model=model, messages=tuple(messages)), options):
            gathering.take(delta)
        if gathering.finished.reason == "length":
            raise ProviderNonsense("The answer was cut off by its length.", "Ask for less.")
        return gathering.text

    return ask
