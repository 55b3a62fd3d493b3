"""A session's window as it can be looked at: folded, measured, and changed by nobody."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context import messages, policies, report, watch
from mindstone_tui.core.context.budget import Room, marks, room_for
from mindstone_tui.core.context.exchanges import Exchange, candidates_of, question, staying_texts
from mindstone_tui.core.context.fold import Fold, ReadLines, holds, state_of
from mindstone_tui.core.context.measure import (
    Measured,
    Piece,
    TokenCache,
    corrected,
    pieces,
    scaled,
)
from mindstone_tui.core.disk import read_blob
from mindstone_tui.core.entries import Label, Line, conversation
from mindstone_tui.core.entries.line import encode_message, request_hash
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.entries.standings import Rewinds
from mindstone_tui.core.entries.window import Anchor, Growth, ModelChanged, PromptPlanned, Receipt
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.tokens import Calibration, Counter, counter_for
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.reader import readable, with_blobs

_LOOKED_AHEAD: Final = 64
"""Lines behind the newest plan that are searched for its usage when a session is opened."""


class PromptPrices(msgspec.Struct, frozen=True):
    """Dollars per million prompt tokens; None where nobody knows."""

    prompt: float | None = None
    cached: float | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a prompt is made for; what it leaves open, the session's own choices fill in."""

    model: str = ""
    window: int = 0
    label: Label = "assumed"
    images: bool = True
    """Whether the model is shown pictures, or only told their names."""
    sounds: bool = False
    """The same for sounds."""
    max_output: int = 0
    prices: PromptPrices = PromptPrices()


SESSIONS_OWN: Final = Target()
"""The model and the window that the session used last."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """The model call that is being planned."""

    model: str
    turn: int
    room: Room
    tail: tuple[int, ...] = ()
    images: bool = True
    sounds: bool = False
    expected: int = 0
    """Tokens that recall may still add in this turn."""


def reader(history: History) -> ReadLines:
    """Lines of a history with their texts; damaged ones are passed over.

    What a recalled block quotes is left to whoever needs it: hardly a block of a window is sent.
    """

    def read(first: int, last: int) -> Sequence[Line]:
        if last < first:
            return ()
        if first == last:
            line = readable(history, first)
            return [] if line is None else [line]
        found = history.read(first, last)
        return [with_blobs(item, history.places) for item in found if isinstance(item, Line)]

    return read


def open_fold(history: History) -> Fold:
    """The fold as it stands now: back to the newest window change, and no further."""
    read = reader(history)
    fold = Fold(read)
    for item in history.back():
        if isinstance(item, Line) and state_of(item) is not None:
            fold = Fold.from_state(with_blobs(item, history.places), read)
            break
    follow(fold, history)
    return fold


def follow(fold: Fold, history: History) -> list[Line]:
    """Take in whatever was appended since, by whomever."""
    new = []
    for item in history.read(fold.head + 1):
        if isinstance(item, Line):
            line = with_blobs(item, history.places)
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
        fold = Fold.from_state(with_blobs(history.line(plan.at), history.places), read)
    for line in read(fold.head + 1, plan.through):
        fold.add(line)
    return fold


def keys_of(fold: Fold, model: str, turn: int) -> list[messages.Key]:
    """Names of a request's messages up to its tail: the model, the head, then the window."""
    placed = fold.placed(model=model, turn=turn)
    return [("model", model), fold.head_key(), *(item.key for item in placed)]


class View(msgspec.Struct, dict=True, eq=False):
    """A transcript's window, folded and measured."""

    history: History
    settings: Settings
    counters: Callable[[str], Counter] = counter_for
    calibration: Calibration = msgspec.field(default_factory=Calibration)
    similar: policies.Similarity = policies.word_similarity
    by_words: Callable[[], int] = lambda: 0
    """How many passages of this session are found by words only so far."""
    _ledgers: dict[int, TokenCache] = {}

    def __post_init__(self) -> None:
        self._begin(open_fold(self.history))

    def _begin(self, fold: Fold) -> None:
        """Know a window and nothing that was measured of another."""
        self.fold = fold
        self.watch = watch.Watch(self.calibration, reader(self.history))
        plan = fold.plan
        after = reader(self.history)(plan.seq + 1, plan.seq + _LOOKED_AHEAD) if plan else ()
        self.watch.start(plan, after)
        self.sent: list[messages.Key] | None = None
        """Names of the messages of the newest planned request, in order."""
        self._measured: tuple[tuple[Call, int, Anchor | None, float], Measured] | None = None
        self._grown: tuple[Measured, tuple[Growth, ...], float, tuple[Growth, ...]] | None = None
        self._ranked: (
            tuple[tuple[str, list[policies.EvictionCandidate], int, str], list[policies.Scored]]
            | None
        ) = None
        self._encoded: dict[messages.Key, bytes] = {}
        self._imports, self._imports_through = list[Line](), -1
        self.gone: dict[tuple[int, str], report.GoneExchange] = {}
        """The exchanges outside the window that are shown, by turn and model; none changes."""
        self.spoken: dict[int, frozenset[int]] = {}
        """What was said in earlier turns of which the window holds a person's words alone."""

    @property
    def taken_back_there(self) -> tuple[int, ...]:
        """Lines of the window that the program they were imported from went back before, and what
        was derived before that."""
        fold, known = self.fold, self._imports
        if not (fold.derived or any(map(is_imported, fold.lines.values()))):
            return ()
        head = self.history.head.seq
        new = self.history.newest(("imported",), head - self._imports_through)
        known += reversed(list(new))
        self._imports_through = head
        gone = Rewinds(known).there
        for seq in fold.derived:
            then = Rewinds(line for line in known if line.seq < seq).there
            gone |= {seq} if any(one < seq for one in gone - then) else set()
        return tuple(
            seq for seq in sorted(gone) if seq in fold.derived or holds(fold.state.spans, seq)
        )

    def forget_measure(self) -> None:
        """Measure anew: what stands in the window is not what stood in it."""
        self._measured = None
        self._ranked = None
        self._encoded = {}

    def ledger(self, model: str) -> TokenCache:
        """The counts for a model's vocabulary."""
        counter = self.counters(model)
        return self._ledgers.setdefault(id(counter), TokenCache(counter))

    def measure(self, call: Call) -> Measured:
        """The prompt of a call as it stands now."""
        anchor = self.watch.anchor
        if anchor is not None and anchor.model != call.model:
            anchor = None
        key = (call, self.fold.head, anchor, self.watch.factor(call.model))
        if self._measured is None or self._measured[0] != key:
            self._measured = (key, corrected(self._pieces(call), anchor, key[-1], at=self.fold.at))
        return self._measured[1]

    def marks(self, call: Call) -> report.Marks:
        """Where things happen in the room of a call."""
        return marks(call.room, self.settings.context, self.settings.zones)

    def growth(self, call: Call) -> tuple[Growth, ...]:
        """What each of the last turns added to the window."""
        measured, known = self.measure(call), self.watch.carried.growth
        factor = self.watch.factor(call.model)
        kept = self._grown
        if kept is None or kept[0] is not measured or kept[1] is not known or kept[2] != factor:
            kept = self._grown = (measured, known, factor, self.watch.growth(measured, factor))
        return kept[3]

    def rank(self, units: Iterable[Exchange], policy: str = "") -> list[policies.Scored]:
        """Exchanges in the order in which they leave.

        The order is kept until anything in it could differ: what is drawn between two prunes is
        drawn from the same ranking.
        """
        policy = policy or self.policy
        fold = self.fold
        key = (policy, candidates_of(fold, units, policy), fold.turn, question(fold))
        if self._ranked is None or self._ranked[0] != key:
            named, candidates, now, query = key
            order = policies.rank(
                named,
                candidates,
                now=now,
                query=query,
                similar=self.similar,
                how=self.settings.eviction,
                staying=staying_texts(fold, candidates, named),
            )
            self._ranked = (key, order)
        return self._ranked[1]

    def prompt_hash(self, call: Call) -> str:
        """The hash of a call's request as it stands now, without rendering what it shares.

        Entries never change, so each message is encoded once for as long as it is in the window;
        only pictures are too large to be kept.
        """
        blob = self.blob() if call.images or call.sounds else None
        before, self._encoded = self._encoded, {}
        parts = []
        if text := self.fold.head_text():
            parts.append(encode_message({"role": "system", "content": text}))
        for placed in self.fold.placed(model=call.model, turn=call.turn):
            if (encoded := before.get(placed.key)) is None:
                message = placed.message(blob, images=call.images, sounds=call.sounds)
                encoded = encode_message(message)
            entry = placed.line.entry
            if not (isinstance(entry, conversation.UserMessage) and entry.images):
                self._encoded[placed.key] = encoded
            parts.append(encoded)
        if passing := self.fold.tail_text(call.tail):
            parts.append(encode_message({"role": "user", "content": passing}))
        return request_hash(call.model, parts, self.fold.tools)

    def _pieces(self, call: Call) -> list[Piece]:
        return pieces(self.fold, self.ledger(call.model), call)

    def room(self, window: int = 0, label: Label = "assumed") -> Room:
        """The window that counts: the one given, the settings', the model's own, or assumed."""
        chosen = self.fold.model_changed
        if window <= 0:
            window, label = self.settings.context.window, "set"
            if window <= 0 and chosen is not None and chosen.window > 0:
                window, label = chosen.window, chosen.window_label
            elif window <= 0 and (last := self._plan_for(chosen)) is not None:
                window, label = last.window, last.window_label
        return room_for(window, label, self.settings.budget, self.settings.context.max_tokens)

    def _plan_for(self, chosen: ModelChanged | None) -> PromptPlanned | None:
        """The last plan of the model in use: one model's window says nothing about another's."""
        last = self.last_plan
        other = last is not None and chosen is not None and chosen.model != last.model
        return None if other else last

    def call(self, target: Target, tail: Sequence[int] = (), expected: int = 0) -> Call:
        """The next model call for a target, with what recall brought or may still bring."""
        last = self.last_plan
        return Call(
            model=target.model or self.fold.model or (last.model if last else ""),
            turn=self.fold.turn,
            room=self.room(target.window, target.label),
            tail=tuple(tail),
            images=target.images,
            sounds=target.sounds,
            expected=expected,
        )

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
            isinstance(newest.entry, conversation.AssistantMessage) and not newest.entry.calls
        )

    def blob(self) -> messages.ReadBlob:
        """Reads attachments."""
        folder = self.history.places.blobs
        return lambda digest: read_blob(folder, digest)

    def sent_before(self) -> list[messages.Key]:
        """Names of the messages of the newest planned request, model first."""
        if self.sent is None:
            plan = self.fold.plan
            self.sent = []
            if plan is not None and isinstance(plan.entry, PromptPlanned):
                with contextlib.suppress(NoSuchEntry):  # the window's line is damaged
                    self.sent = keys_of(fold_at(self.history, plan), plan.entry.model, plan.turn)
        return self.sent


class PastView(View, kw_only=True):
    """The window as it was when a request was planned, with the figures of that day."""

    plan_line: Line

    def __post_init__(self) -> None:
        plan = self.plan_line.entry
        assert isinstance(plan, PromptPlanned)
        self._begin(fold_at(self.history, self.plan_line))
        self.plan = plan
        self.watch = watch.Watch(Calibration(), reader(self.history))
        self.watch.start(self.plan_line, ())
        self._windows = self.watch.carried.windows
        first = self.plan_line.seq + 1
        for line in reader(self.history)(first, self.plan_line.seq + _LOOKED_AHEAD):
            self.watch.observe(line)
        self.sent = []

    @property
    def windows(self) -> int:
        """Windows up to this request; what was looked up after it does not count."""
        return self._windows

    def measure(self, call: Call) -> Measured:
        """The recorded size; measured when the provider has reported on this very request."""
        found = self._pieces(call)
        anchor = self.watch.anchor
        if anchor is not None and anchor.plan == self.plan_line.seq:
            return scaled(found, 1.0, "measured", anchor.reported)
        recorded = self.plan.measure
        label: Label = recorded.label if recorded else "estimated"
        measured = scaled(found, self.plan.correction, label)
        if recorded is None or measured.total == recorded.tokens:
            return measured  # rounded piece by piece as it was then
        return scaled(found, self.plan.correction, label, recorded.tokens)


class ExchangeLines(msgspec.Struct, frozen=True):
    """One exchange as it stands in history."""

    turn: int
    lines: tuple[Line, ...]

    @property
    def has_text(self) -> bool:
        """Whether there is anything to find."""
        return any(policies.text_of(line).strip() for line in self.lines)


class Indexer(Protocol):
    """Makes exchanges findable and proves it by reading them back."""

    def ensure(self, turns: Sequence[ExchangeLines]) -> Mapping[int, Receipt]:
        """A receipt for each exchange that was read back; raises `RecallError` when none can be.

        An exchange without a receipt could not be indexed and stays in the window.
        """
        ...


def proven(exchange: ExchangeLines, receipts: Mapping[int, Receipt]) -> Receipt | None:
    """The exchange's receipt, if it proves anything."""
    receipt = receipts.get(exchange.turn)
    if receipt is None or receipt.turn != exchange.turn:
        return None
    return receipt if receipt.passages > 0 or not exchange.has_text else None
