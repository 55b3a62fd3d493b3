"""A transcript as a story of turns, tool uses and what happened to the window; and in numbers."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property, partial
from itertools import chain, groupby
from typing import Any, Final

import msgspec

from mindstone_tui.core import errors, patterns, transcript
from mindstone_tui.core.context.extract import folded
from mindstone_tui.core.entries import Line, Part, ToolCall, Unknown, Zone, conversation, window
from mindstone_tui.core.entries.actions import Action, actions_of, kind_of
from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected
from mindstone_tui.core.entries.marks import OF_ITS_TURN, What
from mindstone_tui.core.entries.provenance import is_imported, quoted
from mindstone_tui.core.entries.standings import REWOUND, Standings, turns_in_words
from mindstone_tui.core.entries.store import Imported
from mindstone_tui.core.events.narrate import describe_line
from mindstone_tui.core.language import intent, replacement, sentences
from mindstone_tui.core.rules.book import retired_in
from mindstone_tui.core.statements.recogniser import recognise
from mindstone_tui.core.statements.statement import Utterance
from mindstone_tui.core.text import as_written, inside, plural
from mindstone_tui.core.transcript import encode, reader


class Marker(Part):
    """Something that happened to the window or the session, in one line and a few more."""

    seq: int
    ts: str
    kind: str
    sign: str
    title: str
    details: tuple[str, ...] = ()


_MARKED: Final = frozenset(
    {"context_window_pruned", "context_prune_blocked", "tool_results_trimmed", "zone_changed"}
    | {"pinned", "unpinned", "restored", "rewound", "imported", "turn_ended"}
    | {"summary_derived", "model_changed", "alert_raised"}
)
"""Kinds that a reader elsewhere should see; the rest is bookkeeping."""


def marker_of(line: Line) -> Marker | None:
    """What a person should see of a decision; None for pure bookkeeping."""
    done = isinstance(line.entry, conversation.TurnEnded) and line.entry.ending == "done"
    if done or line.kind not in _MARKED:
        return None
    told = describe_line(line)
    more = tuple(filter(None, (told.detail, *told.more)))
    return Marker(
        seq=line.seq, ts=line.ts, kind=line.kind, sign=told.sign, title=told.text, details=more
    )


class Spoken(Part):
    """Somebody's words."""

    seq: int
    ts: str
    who: str
    """The speaker's name, or the role where there is none."""
    text: str
    role: str = "assistant"
    model: str = ""
    thinking: str = ""
    note: str = ""
    """What is to be known of it: that it was cut off, or what replaces it."""


class ToolUse(Part):
    """A call together with its result."""

    seq: int
    ts: str
    name: str
    arguments: str
    status: str
    text: str
    diff: str = ""


class Recalled(Part):
    """Passages that were brought back for this turn."""

    seq: int
    ts: str
    session: str
    """The session they were brought back into; they may come from others."""
    query: str = ""
    passages: tuple[RecalledPassage, ...] = ()


Scene = Spoken | ToolUse | Marker | Recalled


class Turn(Part):
    """One exchange and what happened around it."""

    number: int
    ts: str
    scenes: tuple[Scene, ...]

    @property
    def title(self) -> str:
        """The words it began with."""
        spoken = [scene.text for scene in self.scenes if isinstance(scene, Spoken)]
        return next((text for text in spoken if text), "")


_IMPORTED: Final = "Imported: said to another program"


def turns_in(source: "StorySource") -> Iterator[Turn]:
    """The story, a turn at a time; turns that hold nothing to tell are left out.

    One that was rewound says so before anything else, and a message that was corrected with it.
    """
    rewinds = source.standings.rewinds
    for number, lines in groupby(source.lines(), key=lambda line: line.turn):
        first = next(lines)
        mark, calls = partial(Marker, ts=first.ts), dict[str, ToolCall]()
        scenes: list[Scene] = []
        if is_imported(first):
            scenes.append(mark(seq=first.seq, kind="imported", sign="⇥", title=_IMPORTED))
        if (by := rewinds.of_place(first.seq, number)) is not None:
            scenes.append(mark(seq=by, kind="rewound", sign="↶", title=REWOUND.rstrip(".")))
        if (by := source.standings.undone.of_turn(number)) is not None:
            undone = source.standings.notes(number)[-1].rstrip(".")
            scenes.append(mark(seq=by, kind="undone", sign="↶", title=undone))
        for line in chain((first,), lines):
            scenes += _scenes(line, calls, "; ".join(source.beside(line)))
        if scenes := [*scenes, *_unanswered(calls, first.ts)]:
            yield Turn(number=number, ts=first.ts, scenes=tuple(scenes))


def _scenes(line: Line, calls: dict[str, ToolCall], note: str) -> list[Scene]:
    said = partial(Spoken, seq=line.seq, ts=line.ts, note=note)
    match line.entry:
        case conversation.UserMessage(text=text, name=name, note=before):
            told = f"the model was told: {before}" if before else ""
            note = "; ".join(filter(None, (note, told)))
            return [said(role="user", who=name or "user", text=as_written(text), note=note)]
        case conversation.AssistantMessage() as answer:
            calls |= {call.id: call for call in answer.calls}
            thought = "\n\n".join(each.text for each in answer.thinking if each.text)
            if not (answer.text or thought):
                return []
            spoken = said(who=answer.name or "assistant", text=answer.text, model=answer.model)
            return [msgspec.structs.replace(spoken, thinking=thought)]
        case conversation.AssistantPartial(text=text, model=model):
            return [said(who="assistant", text=text, model=model, note=note)]
        case conversation.ToolReturned() as result:
            call = calls.pop(result.call, None)
            return [
                ToolUse(
                    seq=line.seq,
                    ts=line.ts,
                    name=result.name,
                    arguments=call.arguments if call else "",
                    status=result.status,
                    text=inside(result.text),
                    diff=result.diff,
                )
            ]
        case RecallInjected(query=query, passages=passages):
            where = Recalled(seq=line.seq, ts=line.ts, session=line.session)
            return [msgspec.structs.replace(where, query=query, passages=passages)]
        case _:
            marker = marker_of(line)
            return [marker] if marker else []


def _unanswered(calls: dict[str, ToolCall], ts: str) -> list[Scene]:
    """Calls of a turn that was cut off before their results came."""
    return [
        ToolUse(seq=0, ts=ts, name=call.name, arguments=call.arguments, status="open", text="")
        for call in calls.values()
    ]


Numbers = Callable[[Iterable[Line]], str]
"""A session in numbers, as a part of a page."""


class StorySource(msgspec.Struct, dict=True, eq=False):
    """A session's history on its way out."""

    history: transcript.History
    _clean: encode.Clean | None = None
    numbers: Numbers | None = None
    _turns: range | None = None

    def items(self) -> Iterator[Line | transcript.Damaged]:
        """Every line of the wanted turns, in order; what cannot be read stands in its place."""
        for item in self.history.read():
            if isinstance(item, transcript.Damaged):
                yield item
            elif self._turns is None or not item.seq or item.turn in self._turns:
                yield self._ready(item)

    def lines(self) -> Iterator[Line]:
        """Every line that can be read."""
        return (item for item in self.items() if isinstance(item, Line))

    @cached_property
    def standings(self) -> Standings:
        return reader.standings_of(self.history)

    def stands(self, line: Line, but: Collection[What] = ()) -> list[str]:
        """How a line stands, in words."""
        known = self.standings.told(line, but=but)
        return known if self._clean is None else [self._clean(words) for words in known]

    def beside(self, line: Line) -> list[str]:
        """The same below a heading that says how its turn stands."""
        there = self.standings.source_of(line.seq).marks
        return [*there, *self.stands(line, OF_ITS_TURN)]

    def marks(self, line: Line) -> dict[str, Any]:
        """The same as a field, where there is anything to say."""
        words = self.stands(line)
        return {"marks": words} if words else {}

    def _ready(self, line: Line) -> Line:
        # The excerpt in the line stands for a blob that is gone; `verify` names it.
        with contextlib.suppress(errors.PlaceError):
            line = self.history.whole(line)
        return line if self._clean is None else _cleaned(line, self._clean)


def _cleaned(line: Line, clean: encode.Clean) -> Line:
    """The line with every text in it cleaned."""
    if isinstance(line.entry, Unknown):
        fields = _mapped(line.entry.fields, clean)
        return msgspec.structs.replace(line, entry=Unknown(kind=line.entry.kind, fields=fields))
    before = msgspec.to_builtins(line.entry)
    if (after := _mapped(before, clean)) == before:
        return line
    return msgspec.structs.replace(line, entry=msgspec.convert(after, type(line.entry)))


def _mapped(value: Any, clean: encode.Clean) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _mapped(inner, clean) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(inner, clean) for inner in value]
    return value


# -- what came of it ------------------------------------------------------------------------------

_COMMITTED: Final = patterns.pattern_of(r"(?m)^\[[^\]\n]{1,200}\b([0-9a-f]{7,40})\] (.{1,200})$")
"""What git says when it has made a commit."""
_ASKED: Final = 200
_SETTLED: Final = {"decision": "Decided", "rule": "Decided", "preference": "Decided"} | {
    "correction": "Corrected"
}


Outcomes = dict[str, dict[str, list[tuple[int, int]]]]
"""By kind, then by words: the lines and turns that it comes from."""


def outcomes(source: StorySource) -> Outcomes:
    """What was asked, decided and corrected, and which commits and files came of it.

    Everything is quoted from its line. What was rewound, corrected, retired or taken back, and
    what failed, came to nothing; what another program heard is quoted as such.
    """
    kinds = ("Asked", "Decided", "Corrected", "Commits", "Files")
    found: Outcomes = {name: {} for name in kinds}

    def add(kind: str, words: str, line: Line | Action, stands: Collection[str] = ()) -> None:
        words = sentences.shortened(" ".join(words.split()), _ASKED)
        words += f" ({'; '.join(stands)})" if stands else ""
        found[kind].setdefault(words, []).append((line.seq, line.turn))

    standings, until = source.standings, retired_in(source.history)
    rewinds = standings.rewinds
    every = (one for one in source.lines() if one.seq not in rewinds.there)
    lines = [line for line in every if rewinds.of(line) is None]
    every_by = (
        [standings.replaced_by(line.seq), *standings.corrected_by(line.seq)] for line in lines
    )
    correcting = {by for those in every_by for by in those}
    for line in lines:
        match line.entry:
            case conversation.UserMessage(text=text):
                words = as_written(text)
                if not intent.is_small_talk(words):
                    add("Asked", quoted(line, words), line, source.beside(line))
                if standings.replaced_by(line.seq) is not None:
                    continue
                gone = {one for part in standings.corrected_by(line.seq).values() for one in part}
                settled = recognise(Utterance(speaker="user", text=words, line=line.seq))
                if line.seq in correcting and all(one.kind != "correction" for one in settled):
                    add("Corrected", quoted(line, words), line)
                for each in settled:
                    holds = not gone or replacement.says_more(each.words, gone)
                    name = _SETTLED.get(each.kind) if holds else None
                    retired = line.ts < until.get(folded(each.words), "")
                    if name and (each.sure or name == "Corrected") and not retired:
                        add(name, quoted(line, each.words), line)
            case conversation.ToolReturned(name=name, text=text) if kind_of(name) == "command":
                for commit, subject in _COMMITTED.findall(inside(text)):
                    add("Commits", f"{commit} {subject}", line)
    foreign = {line.seq for line in lines if is_imported(line)}
    for done in actions_of(lines):
        undone = standings.undone.of_file(done.seq, done.turn, done.about) is not None
        if done.kind == "change" and done.ok and not undone:
            add("Files", done.about + (" (imported)" if done.seq in foreign else ""), done)
    return found


# -- a session in numbers -------------------------------------------------------------------------


class Point(Part):
    """How full the window was when a request was sent."""

    turn: int
    seq: int
    tokens: int
    utilization: float
    zone: Zone


class Overview(msgspec.Struct):
    """The whole session in numbers, counted line by line."""

    session: str
    standings: Standings
    began: str = ""
    ended: str = ""
    spoken: dict[int, int] = {}
    """Where each turn was said; a fork has copied only some."""
    before: int = 0
    """The last turn that a fork took along."""
    messages: int = 0
    tools: int = 0
    damaged: int = 0
    models: list[str] = []
    points: list[Point] = []
    prunes: list[tuple[int, str]] = []
    """Line and title of every prune."""
    imported_from: str = ""
    zone: Zone = "green"

    @property
    def facts(self) -> tuple[str, ...]:
        """How much there is of everything, in words."""
        counted = [(self.messages, "message"), (self.tools, "tool result")]
        others = [(len(self.prunes), "prune"), (self.damaged, "unreadable line")]
        counted += [each for each in others if each[0]]
        rest = (plural(number, noun) for number, noun in counted)
        own = {turn: seq for turn, seq in self.spoken.items() if turn > self.before}
        gone = [turn for turn, seq in own.items() if self.standings.rewinds.of_place(seq, turn)]
        return turns_in_words(len(own) + self.before, len(gone), self.before), *rest

    def take(self, line: Line) -> None:
        """Count one line."""
        if line.parent:
            self.before = max(self.before, line.turn)
        if isinstance(
            line.entry,
            conversation.UserMessage | conversation.AssistantMessage | conversation.ToolReturned,
        ):
            self.began = min(self.began or line.ts, line.ts)
            self.ended = max(self.ended, line.ts)
        match line.entry:
            case conversation.UserMessage():
                self.spoken[line.turn] = line.seq
                self.messages += 1
            case conversation.AssistantMessage(model=model):
                self.messages += 1
                if model and model not in self.models:
                    self.models.append(model)
            case conversation.ToolReturned():
                self.tools += 1
            case window.ZoneChanged(after=after):
                self.zone = after
            case Imported(format=name):
                self.imported_from = name
            case window.PromptPlanned(measure=window.Measure() as measure, purpose=""):
                point = Point(
                    turn=line.turn,
                    seq=line.seq,
                    tokens=measure.tokens,
                    utilization=measure.utilization,
                    zone=self.zone,
                )
                self.points.append(point)
            case window.ContextWindowPruned():
                self.prunes.append((line.seq, describe_line(line).text))


def overview(source: StorySource) -> Overview:
    """Everything that can be said about a session before it is told."""
    seen = Overview(str(source.history.places.key), source.standings)
    for item in source.items():
        if isinstance(item, Line):
            seen.take(item)
        else:
            seen.damaged += 1
    return seen
