"""A session's window as it can be looked at: folded, measured, and changed by nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.budget import Room, resolve_window, room_for
from mindstone_tui.core.context.eviction import Similarity, word_similarity
from mindstone_tui.core.context.measure import (
    Ledger,
    Measured,
    Piece,
    corrected,
    pieces,
    scaled,
)
from mindstone_tui.core.context.messages import Key, ReadBlob
from mindstone_tui.core.context.watch import Watch
from mindstone_tui.core.context.window import Fold, ReadLines, state_of
from mindstone_tui.core.disk import read_blob
from mindstone_tui.core.entries import Label, Line
from mindstone_tui.core.entries.conversation import AssistantMessage
from mindstone_tui.core.entries.window import Anchor, Growth, PromptPlanned
from mindstone_tui.core.tokens import Calibration, Counter, counter_for
from mindstone_tui.core.transcript import History

_LOOKED_AHEAD: Final = 64
"""Lines behind the newest plan that are searched for its usage when a session is opened."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """The model call that is being planned."""

    model: str
    turn: int
    room: Room
    tail: tuple[int, ...] = ()
    images: bool = True
    expected: int = 0
    """Tokens that recall may still add in this turn."""


def reader(history: History) -> ReadLines:
    """Lines of a history with their texts whole; damaged ones are passed over."""

    def read(first: int, last: int) -> Sequence[Line]:
        if last < first:
            return ()
        return [history.whole(item) for item in history.read(first, last) if isinstance(item, Line)]

    return read


def open_fold(history: History) -> Fold:
    """The fold as it stands now: back to the newest window change, and no further."""
    read = reader(history)
    fold = Fold(read)
    for item in history.back():
        if isinstance(item, Line) and state_of(item) is not None:
            fold = Fold.from_state(history.whole(item), read)
            break
    follow(fold, history)
    return fold


def follow(fold: Fold, history: History) -> list[Line]:
    """Take in whatever was appended since, by whomever."""
    new = []
    for item in history.read(fold.head + 1):
        if isinstance(item, Line):
            line = history.whole(item)
            fold.add(line)
            new.append(line)
    return new


def fold_at(history: History, plan_line: Line) -> Fold:
    """The fold as it was when a request was planned, from the transcript alone."""
    plan = plan_line.entry
    assert isinstance(plan, PromptPlanned)
    read = reader(history)
    fold = Fold(read)
    if plan.at >= 0:
        fold = Fold.from_state(history.whole(history.line(plan.at)), read)
    for line in read(fold.head + 1, plan.through):
        fold.add(line)
    return fold


def keys_of(fold: Fold, model: str, turn: int) -> list[Key]:
    """Names of a request's messages up to its tail: the model, the head, then the window."""
    placed = fold.placed(model=model, turn=turn)
    return [("model", model), fold.head_key(), *(item.key for item in placed)]


class View:
    """A transcript's window, folded and measured."""

    def __init__(
        self,
        history: History,
        settings: Settings,
        *,
        fold: Fold | None = None,
        counters: Callable[[str], Counter] = counter_for,
        calibration: Calibration | None = None,
        similar: Similarity = word_similarity,
    ) -> None:
        self.history = history
        self.settings = settings
        self.similar = similar
        self._counters = counters
        self._ledgers: dict[int, Ledger] = {}
        self.watch = Watch(calibration or Calibration())
        self.fold = open_fold(history) if fold is None else fold
        plan = self.fold.plan
        after = reader(history)(plan.seq + 1, plan.seq + _LOOKED_AHEAD) if plan else ()
        self.watch.start(plan, after)
        self.sent: list[Key] | None = None
        """Names of the messages of the newest planned request, in order."""
        self._measured: tuple[tuple[Call, int, Anchor | None, float], Measured] | None = None

    def ledger(self, model: str) -> Ledger:
        """The counts for a model's vocabulary."""
        counter = self._counters(model)
        return self._ledgers.setdefault(id(counter), Ledger(counter))

    def measure(self, call: Call) -> Measured:
        """The prompt of a call as it stands now."""
        anchor = self.watch.anchor
        if anchor is not None and anchor.model != call.model:
            anchor = None
        key = (call, self.fold.head, anchor, self.watch.factor(call.model))
        if self._measured is None or self._measured[0] != key:
            found = self._pieces(call)
            self._measured = (key, corrected(found, anchor, key[-1], at=self.fold.at))
        return self._measured[1]

    def growth(self, call: Call) -> tuple[Growth, ...]:
        """What each of the last turns added to the window."""
        return self.watch.growth(self.measure(call), self.watch.factor(call.model))

    def _pieces(self, call: Call) -> list[Piece]:
        return pieces(
            self.fold,
            self.ledger(call.model),
            model=call.model,
            turn=call.turn,
            tail=call.tail,
            images=call.images,
        )

    def room(self, window: int = 0, label: Label = "assumed") -> Room:
        """The window that counts: the one given, the settings', the model's own, or assumed."""
        chosen = self.fold.model_changed
        if window <= 0:
            window, label = resolve_window(self.settings.context.window)
            if label == "assumed" and chosen is not None and chosen.window > 0:
                window, label = chosen.window, chosen.window_label
            elif label == "assumed" and (last := self.last_plan) is not None:
                window, label = last.window, last.window_label
        return room_for(window, label, self.settings.budget)

    @property
    def last_plan(self) -> PromptPlanned | None:
        """The newest planned request: what the session used last, where nothing was chosen."""
        entry = self.fold.plan.entry if self.fold.plan else None
        return entry if isinstance(entry, PromptPlanned) else None

    @property
    def policy(self) -> str:
        """In which order things leave."""
        return self.fold.policy or self.settings.context.policy

    @property
    def mode(self) -> str:
        """How room is made."""
        return self.fold.mode or self.settings.context.mode

    @property
    def windows(self) -> int:
        """Windows that the session had so far."""
        return self.watch.carried.windows

    @property
    def turn_ended(self) -> bool:
        """Whether the newest exchange has its answer."""
        newest = next(reversed(self.fold.lines.values()), None)
        return newest is not None and (
            isinstance(newest.entry, AssistantMessage) and not newest.entry.calls
        )

    def blob(self) -> ReadBlob:
        """Reads attachments."""
        folder = self.history.places.blobs
        return lambda digest: read_blob(folder, digest)

    def sent_before(self) -> list[Key]:
        """Names of the messages of the newest planned request, model first."""
        if self.sent is None:
            plan = self.fold.plan
            self.sent = []
            if plan is not None and isinstance(plan.entry, PromptPlanned):
                self.sent = keys_of(fold_at(self.history, plan), plan.entry.model, plan.turn)
        return self.sent


class PastView(View):
    """The window as it was when a request was planned, with the figures of that day."""

    def __init__(
        self,
        history: History,
        settings: Settings,
        plan_line: Line,
        counters: Callable[[str], Counter] = counter_for,
    ) -> None:
        plan = plan_line.entry
        assert isinstance(plan, PromptPlanned)
        super().__init__(history, settings, fold=fold_at(history, plan_line), counters=counters)
        self.plan = plan
        self._plan_seq = plan_line.seq
        self.watch = Watch(Calibration())
        self.watch.start(
            plan_line, reader(history)(plan_line.seq + 1, plan_line.seq + _LOOKED_AHEAD)
        )
        self.sent = []

    @property
    def windows(self) -> int:
        """Windows up to this request; what was looked up after it does not count."""
        return self.plan.carried.windows if self.plan.carried else 1

    def measure(self, call: Call) -> Measured:
        """The recorded size; measured when the provider has reported on this very request."""
        found = self._pieces(call)
        anchor = self.watch.anchor
        if anchor is not None and anchor.plan == self._plan_seq:
            return scaled(found, 1.0, "measured", anchor.reported)
        recorded = self.plan.measure
        label: Label = recorded.label if recorded else "estimated"
        return scaled(found, self.plan.correction, label, recorded.tokens if recorded else None)
