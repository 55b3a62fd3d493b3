"""The window as a pure fold of the transcript: entries in, the next request out.

The same lines give the same request, whether they are folded one by one as they arrive or all at
once by another process. Nothing is rendered or counted here: placeholders, shortened texts, the
marker and the recalled block were written down as entries before the request that shows them, and
the fold only chooses and joins.

A request is, in this order:

- one system message: the sections of the standing instructions, then the handoff, the summaries
  and the marker that says what is out of the window;
- the messages of the window in the order of the transcript, except that results follow the call
  they answer. Pinned exchanges keep their place, which is right behind the head once everything
  older has left;
- the tail: one user-role message with what was recalled for this turn. It stands at the very end,
  behind complete results and never between a call and its result, in every request of the turn,
  and in none of the next turn. Up to the tail, each request extends the one before.

Two user messages may stand next to each other (the task, an interrupted question, the tail);
providers that want strict alternation join them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from mindstone_tui.core.context.messages import Key, Pairing, ReadBlob, Said, message_of, pair, said
from mindstone_tui.core.entries import Line, Message, Request, Span, ToolSchema, Unknown, window
from mindstone_tui.core.entries.conversation import AssistantMessage, MessageCut, UserMessage
from mindstone_tui.core.entries.derived import (
    HandoffReplayed,
    HookRun,
    MemoryDigested,
    RecallInjected,
    SummaryDerived,
    TaskDone,
    TaskStarted,
)
from mindstone_tui.core.entries.quotes import quoting
from mindstone_tui.core.entries.standings import superseded_in
from mindstone_tui.core.errors import DamagedTranscript

_NAMED_BY: Final[dict[type[object], str]] = {
    window.ModelChanged: "model",
    window.InstructionsChanged: "instructions",
    window.ToolsChanged: "tools",
    window.ModeChanged: "mode",
    window.PolicyChanged: "policy",
    HandoffReplayed: "handoff",
    TaskStarted: "task",
    TaskDone: "task",
}
"""Entries that hold until the next of their kind, and the reference by which a state names them."""
_SINGLE_REFERENCES: Final = ("pruned", "plan", *dict.fromkeys(_NAMED_BY.values()))

_PASSING: Final = (RecallInjected, MemoryDigested, HookRun)
"""What stands at the end of one turn's prompts."""


class PromptHead:
    """The lines that a window state names, and what they say."""

    def __init__(self) -> None:
        self._state = window.WindowState(through=-1)
        self._references: dict[int, Line] = {}
        self._expected: tuple[tuple[window.Section, ...], tuple[ToolSchema, ...]] | None = None
        """What the next turn will record as instructions and tools, where that differs."""

    @property
    def model(self) -> str:
        """The session's model; empty before one was chosen."""
        entry = self._named(self._state.model)
        return entry.model if isinstance(entry, window.ModelChanged) else ""

    @property
    def model_changed(self) -> window.ModelChanged | None:
        """The entry that chose the session's model."""
        entry = self._named(self._state.model)
        return entry if isinstance(entry, window.ModelChanged) else None

    @property
    def sections(self) -> tuple[window.Section, ...]:
        """The standing part of the prompt."""
        if self._expected is not None:
            return self._expected[0]
        entry = self._named(self._state.instructions)
        return entry.sections if isinstance(entry, window.InstructionsChanged) else ()

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        """The tool schemas that requests carry."""
        if self._expected is not None:
            return self._expected[1]
        entry = self._named(self._state.tools)
        return entry.tools if isinstance(entry, window.ToolsChanged) else ()

    @property
    def mode(self) -> str | None:
        """How room is made, where the session says so itself."""
        entry = self._named(self._state.mode)
        return entry.mode if isinstance(entry, window.ModeChanged) else None

    @property
    def policy(self) -> str | None:
        """In which order things leave, where the session says so itself."""
        entry = self._named(self._state.policy)
        return entry.policy if isinstance(entry, window.PolicyChanged) else None

    @property
    def plan(self) -> Line | None:
        """The newest planned request of the conversation."""
        return None if self._state.plan is None else self._references.get(self._state.plan)

    @property
    def last_left(self) -> tuple[window.Left, ...]:
        """What left the window with the newest prune, oldest turn first."""
        entry = self._named(self._state.pruned)
        return entry.left if isinstance(entry, window.ContextWindowPruned) else ()

    @property
    def marker(self) -> str:
        """The line that tells the model what is out of its window."""
        entry = self._named(self._state.pruned)
        kinds = window.ContextWindowPruned | window.Restored | window.Rewound | window.ModelChanged
        return entry.marker if isinstance(entry, kinds) else ""

    @property
    def derived(self) -> dict[int, str]:
        """The handoff and the summaries that stand in the head, by the lines that have them."""
        named = (self._state.handoff, *self._state.summaries)
        found = ((seq, self._named(seq)) for seq in named if seq is not None)
        kinds = HandoffReplayed | SummaryDerived
        return {seq: entry.text for seq, entry in found if isinstance(entry, kinds)}

    def reference(self, seq: int | None) -> Line | None:
        """A line that the head or the tail of the prompt stands on, by its number."""
        return None if seq is None else self._references.get(seq)

    def head_text(self) -> str:
        """The system message."""
        parts = (*(section.text for section in self.sections), *self.derived.values(), self.marker)
        return "\n\n".join(part for part in parts if part)

    def head_key(self) -> Key:
        """Names the exact bytes of the head and of the tools."""
        state = self._state
        return (
            "head",
            state.instructions,
            state.tools,
            state.handoff,
            state.summaries,
            self.marker,
            *(("expected",) if self._expected is not None else ()),
        )

    def _named(self, seq: int | None) -> object:
        if seq is None:
            return None
        if seq not in self._references:
            raise missing(seq)
        return self._references[seq].entry


def references_of(state: window.WindowState) -> Iterator[int]:
    """Every line that a state names."""
    yield from (seq for name in _SINGLE_REFERENCES if (seq := getattr(state, name)) is not None)
    yield from dict.fromkeys((*state.trimmed.values(), *state.cut.values(), *state.summaries))


def missing(seq: int) -> DamagedTranscript:
    """The error for a line that the window needs and nobody can read."""
    return DamagedTranscript(
        f"Line {seq}, which the window is built from, cannot be read.",
        "Run `mindstone verify`, and restore the file from a backup.",
    )


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same numbers as the fewest runs, ascending."""
    result: list[Span] = []
    for span in sorted(spans):
        if span.last < span.first:
            continue
        if result and span.first <= result[-1].last + 1:
            result[-1] = Span(result[-1].first, max(result[-1].last, span.last))
        else:
            result.append(span)
    return tuple(result)


def without(spans: Iterable[Span], removed: Iterable[Span]) -> tuple[Span, ...]:
    """The numbers of `spans` that are in none of `removed`."""
    gone = merged(removed)
    result: list[Span] = []
    for span in merged(spans):
        first = span.first
        for hole in gone:
            if hole.last < first:
                continue
            if hole.first > span.last:
                break
            if hole.first > first:
                result.append(Span(first, hole.first - 1))
            first = hole.last + 1
        if first <= span.last:
            result.append(Span(first, span.last))
    return tuple(result)


def within(spans: Iterable[Span], allowed: Iterable[Span]) -> tuple[Span, ...]:
    """The numbers that are in both."""
    kept = merged(spans)
    return without(kept, without(kept, allowed))


def holds(spans: Iterable[Span], seq: int) -> bool:
    """Whether one of the runs has this number."""
    return any(seq in span for span in spans)


def single(seqs: Iterable[int]) -> tuple[Span, ...]:
    """Numbers in any order as runs."""
    return merged(Span(seq, seq) for seq in seqs)


ReadLines = Callable[[int, int], Iterable[Line]]
"""Lines `first` to `last`, both included, with their texts whole."""


class Placed(msgspec.Struct, frozen=True):
    """One message of a request, and where its words stand."""

    key: Key
    line: Line
    text: str | None = None
    """What stands in for the entry's own text."""
    thinking: bool = False

    @property
    def entry(self) -> Said:
        """What is said in it."""
        entry = said(self.line)
        assert entry is not None
        return entry

    def message(
        self, blob: ReadBlob | None = None, *, images: bool = True, sounds: bool = False
    ) -> Message:
        """It as it is sent; without `blob` pictures are named, not shown."""
        shown = partial(message_of, self.entry, text=self.text, thinking=self.thinking)
        return shown(blob=blob, images=images, sounds=sounds)


def state_of(line: Line) -> window.WindowState | None:
    """The fold's state that a window change carries; None for every other line."""
    if isinstance(line.entry, Unknown):
        return None
    state = getattr(line.entry, "state", None)
    return state if isinstance(state, window.WindowState) else None


class Fold(PromptHead):
    """What the model sees next, kept up to date line by line."""

    def __init__(self, read: ReadLines) -> None:
        super().__init__()
        self._read = read
        self.head = -1
        """The newest line that was folded in."""
        self.at = -1
        """The newest window change."""
        self.turn = 0
        self.lines: dict[int, Line] = {}
        """The window's messages, by sequence number, ascending."""
        self.recalls: dict[int, Line] = {}
        """Recalled blocks of the turns in the window."""
        self._turns: dict[int, tuple[Span, ...]] = {}
        self._pairing: Pairing | None = None
        self._snapshot: window.WindowState | None = None

    @classmethod
    def from_state(cls, change: Line, read: ReadLines) -> Fold:
        """The fold right after a window change, from that line and what its state names."""
        fold = cls(read)
        fold.add(change)
        return fold

    def add(self, line: Line) -> None:
        """Take in the next line; lines that were taken before change nothing."""
        if line.seq <= self.head:
            return
        if (state := state_of(line)) is None:
            self._take(line)
        else:
            self._rebase(state)
            # What arrived between the decision and its record stays in force.
            for between in self._read(state.through + 1, line.seq - 1):
                self._take(between)
            self._take(line)
            self.at = line.seq
        self.head = line.seq
        self.turn = line.turn
        self._snapshot = None

    def expecting(self, sections: Sequence[window.Section], tools: Sequence[ToolSchema]) -> Fold:
        """The same window under the instructions and tools that its next turn will record.

        A copy to look at: before a session's first turn, and after a change of the model or the
        files, nothing of this is written yet, and still it is what the next request will carry.
        """
        if tuple(sections) == self.sections and tuple(tools) == self.tools:
            return self
        fold = copy.copy(self)
        fold._expected = (tuple(sections), tuple(tools))
        return fold

    @property
    def state(self) -> window.WindowState:
        """All that another process needs to go on from here."""
        if self._snapshot is None:
            self._snapshot = self._less(())
        return self._snapshot

    @property
    def pairing(self) -> Pairing:
        """Calls and results of the window, brought together."""
        if self._pairing is None:
            self._pairing = pair(self.lines.values())
        return self._pairing

    @property
    def task(self) -> int | None:
        """The user message that states the original task, if it is in the window."""
        return self._state.task if self._state.task in self.lines else None

    @property
    def staying(self) -> frozenset[int]:
        """Messages that stay when the rest of their exchange leaves: the one that states the
        task, and the newest that correct a message which stands in the window."""
        pairs = {pair for pair in self._state.corrected if {*pair} <= self.lines.keys()}
        newest = [
            by
            for old, by in pairs
            if not any((old, newer) in pairs for one, newer in pairs if one == by)
        ]
        return frozenset(newest if self.task is None else (self.task, *newest))

    @property
    def shown(self) -> frozenset[int]:
        """Messages whose own words stand in the prompt: what was trimmed or cut is out of it.

        A message of the running turn counts as shown even when it was cut: it is what is asked.
        """
        state = self._state
        return frozenset(
            seq
            for seq, line in self.lines.items()
            if seq not in state.trimmed and (seq not in state.cut or line.turn == self.turn)
        )

    def placed(self, *, model: str, turn: int) -> Iterator[Placed]:
        """The window's messages in the order in which they are sent."""
        results = self.pairing.results
        followed = {line.seq for lines in results.values() for line in lines}
        for seq, line in self.lines.items():
            if seq in followed:
                continue
            yield self._place(line, model, turn)
            for result in results.get(seq, ()):
                yield self._place(result, model, turn)

    def request(
        self,
        model: str,
        *,
        turn: int | None = None,
        tail: tuple[int, ...] = (),
        blob: ReadBlob | None = None,
        images: bool = True,
        sounds: bool = False,
    ) -> Request:
        """The request as it stands now; without `blob` pictures are named, not shown."""
        turn = self.turn if turn is None else turn
        messages: list[Message] = []
        if text := self.head_text():
            messages.append({"role": "system", "content": text})
        for item in self.placed(model=model, turn=turn):
            messages.append(item.message(blob, images=images, sounds=sounds))
        if passing := self.tail_text(tail):
            messages.append({"role": "user", "content": passing})
        return Request(model=model, messages=tuple(messages), tools=self.tools)

    def tail_text(self, tail: Iterable[int]) -> str:
        """What was recalled and remembered for this turn, as one block."""
        found = (self.recalled(seq).entry for seq in tail)
        return "\n\n".join(one.text for one in found if isinstance(one, _PASSING) and one.text)

    def recalled(self, seq: int) -> Line:
        """What was recalled and remembered, as the model sees it; raises `DamagedTranscript`."""
        line = self.recalls.get(seq) or self._line(seq)
        # Only blocks that are sent are put together: most in a window are in no request any more.
        line = line and quoting(line, self._line)
        if line is None or not isinstance(line.entry, _PASSING) or line.entry.leans:
            raise missing(seq)
        if seq in self.recalls:
            self.recalls[seq] = line
        return line

    def spans_of_turns(self, turns: Iterable[int]) -> tuple[Span, ...]:
        """Where the lines of some turns stand, as far as they are in the window."""
        return merged(span for turn in turns for span in self._turns.get(turn, ()))

    def without_turns(self, turns: Iterable[int]) -> window.WindowState:
        """The state after exchanges left, without the messages that stay."""
        return self._less(without(self.spans_of_turns(turns), single(self.staying)))

    def without_lines(self, seqs: Collection[int]) -> window.WindowState:
        """The state after single messages were left out, and what stands in the head for more."""
        state = self._less(single(seqs))
        named = {name: None for name in ("task", "handoff") if getattr(state, name) in seqs}
        summaries = tuple(seq for seq in state.summaries if seq not in seqs)
        return msgspec.structs.replace(state, summaries=summaries, **named)

    def _less(self, gone: tuple[Span, ...]) -> window.WindowState:
        """The state without some lines; turns that have no message left go altogether."""
        turns = {self.turn} | {
            line.turn for seq, line in self.lines.items() if not holds(gone, seq)
        }
        held = merged(span for turn in turns for span in self._turns.get(turn, ()))
        spans = without(held, gone) if gone else held
        state = self._state
        return msgspec.structs.replace(
            state,
            through=self.head,
            spans=spans,
            trimmed={seq: by for seq, by in state.trimmed.items() if self._keeps(seq, gone)},
            cut={seq: by for seq, by in state.cut.items() if self._keeps(seq, gone)},
            corrected=tuple(
                pair for pair in state.corrected if all(self._keeps(seq, gone) for seq in pair)
            ),
        )

    def _keeps(self, seq: int, gone: tuple[Span, ...]) -> bool:
        return seq in self.lines and not holds(gone, seq)

    def _place(self, line: Line, model: str, turn: int) -> Placed:
        by = self._state.trimmed.get(line.seq, self._state.cut.get(line.seq))
        entry = line.entry
        thinking = (
            isinstance(entry, AssistantMessage)
            and bool(entry.thinking)
            and line.turn == turn
            and entry.model == model
        )
        text = None if by is None else self._stand_in(by, line.seq)
        return Placed((line.seq, by, thinking), line, text, thinking)

    def _stand_in(self, by: int, seq: int) -> str | None:
        """The text that was written down to stand in for a message."""
        match self._named(by):
            case window.ToolResultsTrimmed() as trimmed:
                return next((t.placeholder for t in trimmed.results if t.result == seq), None)
            case MessageCut() as cut:
                return cut.text
            case SummaryDerived() as summary:
                return summary.text
            case _:
                return None

    def _line(self, seq: int) -> Line | None:
        return self.lines.get(seq) or next(iter(self._read(seq, seq)), None)

    def _rebase(self, state: window.WindowState) -> None:
        """Keep what a state holds, fetch what it brings back, forget the rest."""
        allowed = merged((*state.spans, Span(state.through + 1, max(self.head, state.through + 1))))
        self._pairing = None
        self._turns = {
            turn: kept for turn, spans in self._turns.items() if (kept := within(spans, allowed))
        }
        self.lines = {s: line for s, line in self.lines.items() if holds(allowed, s)}
        self.recalls = {s: line for s, line in self.recalls.items() if holds(allowed, s)}
        known = merged(span for spans in self._turns.values() for span in spans)
        for span in without(state.spans, known):
            for line in self._read(span.first, span.last):
                self._hold(line)
        self.lines = dict(sorted(self.lines.items()))
        self._state = state
        self._references = {seq: self._reference(seq) for seq in references_of(state)}

    def _reference(self, seq: int) -> Line:
        line = self._references.get(seq) or self._line(seq)
        if line is None:
            raise missing(seq)
        return line

    def _hold(self, line: Line) -> None:
        """Keep a line that is in the window."""
        before = self._turns.get(line.turn, ())
        self._turns[line.turn] = merged((*before, Span(line.seq, line.seq)))
        if said(line) is not None:
            self.lines[line.seq] = line
            self._pairing = None
        elif isinstance(line.entry, _PASSING):
            self.recalls[line.seq] = line

    def _take(self, line: Line) -> None:
        """What one line does to the window; doing it twice changes nothing."""
        self._hold(line)
        state = self._state
        if judged := [pair for pair in superseded_in(line).items() if {*pair} <= self.lines.keys()]:
            corrected = tuple(sorted({*state.corrected, *judged}))
            self._state = state = msgspec.structs.replace(state, corrected=corrected)
        match line.entry:
            case UserMessage():
                waiting = state.task is None or isinstance(self._named(state.task), TaskStarted)
                if waiting:
                    self._point(line, task=line.seq)
            case window.PromptPlanned() as plan:
                if not plan.purpose:
                    self._point(line, plan=line.seq)
            case MessageCut() as cut:
                self._point(line, cut={**state.cut, cut.target: line.seq})
            case window.ToolResultsTrimmed() as trim:
                added = {trimmed.result: line.seq for trimmed in trim.results}
                self._point(line, trimmed={**state.trimmed, **added})
            case window.ContextWindowPruned() as pruned:
                turns = {left.turn for left in pruned.left}
                kept = pruned.state.spans
                self._drop(
                    lambda old: old.turn in turns and not holds(kept, old.seq), pruned.state.through
                )
                self._point(line, pruned=line.seq)
            case window.Restored() as restored:
                self._bring_back(restored.state, restored.turns)
                corrected = tuple(sorted({*state.corrected, *restored.state.corrected}))
                self._point(line, pruned=line.seq, corrected=corrected)
            case window.Rewound() as rewound:
                self._drop(lambda old: old.turn > rewound.to_turn, rewound.state.through)
                self._bring_back(rewound.state, rewound.returned)
                if rewound.marker:
                    self._point(line, pruned=line.seq)
            case window.WindowRepaired() as repaired:
                self._drop(lambda old: old.seq in repaired.seqs, line.seq)
            case window.Pinned() as pinned:
                pins = tuple(sorted({*state.pins, pinned.pinned_turn}))
                self._point(line, pins=pins)
            case window.Unpinned() as unpinned:
                pins = tuple(turn for turn in state.pins if turn != unpinned.pinned_turn)
                self._point(line, pins=pins)
            case SummaryDerived() as summary if summary.state is not None:
                self._point(line, summaries=tuple(sorted({*self._state.summaries, line.seq})))
            case window.ModelChanged() as changed if changed.marker:
                self._point(line, model=line.seq, pruned=line.seq)
            case entry if name := _NAMED_BY.get(type(entry)):
                self._point(line, **{name: line.seq})

    def _point(self, line: Line, **changes: Any) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)
        self._references[line.seq] = line

    def _bring_back(self, state: window.WindowState, turns: Collection[int]) -> None:
        """Hold exchanges again that another change may have left out meanwhile."""
        known = merged(span for spans in self._turns.values() for span in spans)
        for span in without(state.spans, known) if turns else ():
            for old in self._read(span.first, span.last):
                if old.turn in turns:
                    self._hold(old)
        self.lines = dict(sorted(self.lines.items()))

    def _drop(self, leaves: Callable[[Line], bool], through: int) -> None:
        """Leave messages out, as far as the decision knew of them; the task's own stays."""
        gone = [
            line.seq
            for line in self.lines.values()
            if line.seq <= through and leaves(line) and line.seq != self._state.task
        ]
        for seq in gone:
            del self.lines[seq]
        if gone:
            self._pairing = None
            removed = single(gone)
            self._turns = {
                turn: kept
                for turn, spans in self._turns.items()
                if (kept := without(spans, removed))
            }
