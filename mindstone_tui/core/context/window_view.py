"""A session's window as it can be looked at: folded, measured, and changed by nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.budget import KEPT_TURNS, Room, resolve_window, room_for
from mindstone_tui.core.context.exchanges import Exchange, candidates_of, question
from mindstone_tui.core.context.fold import Fold, ReadLines, state_of
from mindstone_tui.core.context.measure import (
    Measured,
    Piece,
    TokenCache,
    corrected,
    pieces,
    scaled,
)
from mindstone_tui.core.context.messages import Key, ReadBlob, message_of, said
from mindstone_tui.core.context.policies import (
    EvictionCandidate,
    Scored,
    Similarity,
    rank,
    text_of,
    word_similarity,
)
from mindstone_tui.core.disk import read_blob
from mindstone_tui.core.entries import Label, Line
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolReturned,
    UsageReported,
    UserMessage,
)
from mindstone_tui.core.entries.derived import DelegationEnded, TaskDone, TaskStarted
from mindstone_tui.core.entries.line import encode_message, request_hash
from mindstone_tui.core.entries.window import (
    Anchor,
    Carried,
    ContextWindowPruned,
    Growth,
    PromptPlanned,
    Receipt,
)
from mindstone_tui.core.tokens import (
    UNCALIBRATED,
    Calibration,
    Counter,
    counter_for,
    detect_cut,
    error_percent,
)
from mindstone_tui.core.transcript import History


class UsageNote(msgspec.Struct, frozen=True):
    """What a provider's report says about our own count."""

    error_percent: float | None = None
    cut: bool = False
    """The server counted so little that it must have dropped a part of the prompt."""
    sent: int = 0
    reported: int = 0


class Watch:
    """The figures of this session that outlive its window."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self.carried = Carried()
        self.anchor: Anchor | None = None
        self._plan: Line | None = None

    def start(self, plan: Line | None, after: Iterable[Line]) -> None:
        """Go on from the newest plan and the lines that follow it."""
        if plan is not None:
            self.observe(plan)
        for line in after:
            self.observe(line)

    def observe(self, line: Line) -> None:
        """Take in plans, reports, the start of a window or a task, the end of a sub-agent."""
        match line.entry:
            case PromptPlanned(purpose="") as plan:
                self._plan = line
                if plan.carried is not None:
                    self.carried = plan.carried
                    self.anchor = plan.carried.anchor
            case UsageReported() as report:
                self._spend(report.usage.cost)
                self._anchor(line, report)
            case DelegationEnded(tokens=tokens, cost=cost) if tokens:
                self._spend(cost, delegated=cost or 0.0)
            case ContextWindowPruned():
                self.carried = msgspec.structs.replace(
                    self.carried, windows=self.carried.windows + 1
                )
            case TaskStarted() | TaskDone():
                self._start_anew(line.turn + 1)

    def _start_anew(self, turn: int) -> None:
        """Forget how fast the window filled before a turn: another task has another tempo."""
        self.carried = msgspec.structs.replace(
            self.carried, growth=(Growth(turn, 0, 0, 0),), spiked=0
        )

    def factor(self, model: str) -> float:
        """The correction for our own count."""
        # Learned on this machine for the model, else what this session last planned with: a replay
        # and a new process must measure as the one before them did.
        learned = self._calibration.factor(model)
        if learned is not None:
            return learned
        plan = self._planned
        return plan.correction if plan and plan.model == model else UNCALIBRATED

    def learn(self, line: Line) -> UsageNote:
        """Compare a report with what was planned, and learn from it."""
        report, plan = line.entry, self._planned
        if not isinstance(report, UsageReported) or plan is None or not self._answers(line, report):
            return UsageNote()
        reported = report.usage.prompt or 0
        estimated = plan.measure.tokens if plan.measure else plan.raw_tokens
        cut = reported > 0 and detect_cut(estimated, reported)
        if reported > 0 and not cut:
            self._calibration.learn(plan.model, plan.raw_tokens, reported)
        return UsageNote(error_percent(estimated, reported), cut, estimated, reported)

    @property
    def error_percent(self) -> float | None:
        """How far the last estimate was off."""
        if self.anchor is None:
            return None
        return error_percent(self.anchor.estimated, self.anchor.reported)

    @property
    def _planned(self) -> PromptPlanned | None:
        entry = self._plan.entry if self._plan else None
        return entry if isinstance(entry, PromptPlanned) else None

    def _answers(self, line: Line, report: UsageReported) -> bool:
        """Whether a report is about the newest plan."""
        plan = self._planned
        return (
            self._plan is not None
            and plan is not None
            and self._plan.turn == line.turn
            and plan.call == report.call
            and report.by == "provider"
        )

    def _spend(self, cost: float | None, delegated: float = 0.0) -> None:
        self.carried = msgspec.structs.replace(
            self.carried,
            spent=self.carried.spent + (cost or 0.0),
            cost_unknown=self.carried.cost_unknown or cost is None,
            delegated=self.carried.delegated + delegated,
        )

    def _anchor(self, line: Line, report: UsageReported) -> None:
        plan, reported = self._planned, report.usage.prompt
        if self._plan is None or plan is None or not reported or not self._answers(line, report):
            return
        estimated = plan.measure.tokens if plan.measure else plan.raw_tokens
        if detect_cut(estimated, reported):
            self.anchor = None
            return
        self.anchor = Anchor(
            plan=self._plan.seq,
            at=plan.at,
            model=plan.model,
            raw=plan.raw_tokens,
            estimated=estimated,
            reported=reported,
            cached=report.usage.cached,
        )

    def growth(self, measured: Measured, factor: float) -> tuple[Growth, ...]:
        """What each of the last turns added; trimming and pruning later take nothing away.

        Sizes are our own counts by the learned factor: an anchor that comes or goes is no growth.
        """
        known = {growth.turn: growth for growth in self.carried.growth}
        oldest = min(known, default=0)
        for turn, now in added_by_turn(measured, factor).items():
            if turn >= oldest:
                known[turn] = _larger(known.get(turn), now)
        return tuple(sorted(known.values(), key=lambda growth: growth.turn)[-KEPT_TURNS:])


def added_by_turn(measured: Measured, factor: float) -> dict[int, Growth]:
    """How much of the window each turn is."""
    sums: dict[int, list[int]] = {}
    newest = recalled = 0
    for piece in measured.pieces:
        if piece.line is not None:
            newest = max(newest, piece.line.turn)
            is_result = isinstance(piece.line.entry, ToolReturned)
            sums.setdefault(piece.line.turn, [0, 0])[is_result] += piece.raw
        elif piece.component == "memory_injection":
            recalled += piece.raw
    return {
        turn: Growth(
            turn,
            round(messages * factor),
            round(results * factor),
            round(recalled * factor) if turn == newest else 0,
        )
        for turn, (messages, results) in sums.items()
    }


def _larger(before: Growth | None, now: Growth) -> Growth:
    if before is None:
        return now
    return Growth(
        now.turn,
        max(before.messages, now.messages),
        max(before.results, now.results),
        max(before.recalled, now.recalled),
    )


def completed(growth: Sequence[Growth], current: int, *, ended: bool) -> Sequence[Growth]:
    """Turns whose growth is final."""
    return [turn for turn in growth if turn.turn < current or ended]


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
        self._ledgers: dict[int, TokenCache] = {}
        self.watch = Watch(calibration or Calibration())
        self.fold = open_fold(history) if fold is None else fold
        plan = self.fold.plan
        after = reader(history)(plan.seq + 1, plan.seq + _LOOKED_AHEAD) if plan else ()
        self.watch.start(plan, after)
        self.sent: list[Key] | None = None
        """Names of the messages of the newest planned request, in order."""
        self._measured: tuple[tuple[Call, int, Anchor | None, float], Measured] | None = None
        self._ranked: tuple[tuple[str, list[EvictionCandidate], int, str], list[Scored]] | None = (
            None
        )
        self._encoded: dict[Key, bytes] = {}

    def ledger(self, model: str) -> TokenCache:
        """The counts for a model's vocabulary."""
        counter = self._counters(model)
        return self._ledgers.setdefault(id(counter), TokenCache(counter))

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

    def rank(self, units: Iterable[Exchange], policy: str = "") -> list[Scored]:
        """Exchanges in the order in which they leave.

        The order is kept until anything in it could differ: what is drawn between two prunes is
        drawn from the same ranking.
        """
        policy = policy or self.policy
        fold = self.fold
        key = (policy, candidates_of(fold, units, policy), fold.turn, question(fold))
        if self._ranked is None or self._ranked[0] != key:
            named, candidates, now, query = key
            how = self.settings.eviction
            order = rank(named, candidates, now=now, query=query, similar=self.similar, how=how)
            self._ranked = (key, order)
        return self._ranked[1]

    def prompt_hash(self, call: Call) -> str:
        """The hash of a call's request as it stands now, without rendering what it shares.

        Entries never change, so each message is encoded once for as long as it is in the window;
        only pictures are too large to be kept.
        """
        blob = self.blob() if call.images else None
        before, self._encoded = self._encoded, {}
        parts = []
        if text := self.fold.head_text():
            parts.append(encode_message({"role": "system", "content": text}))
        for placed in self.fold.placed(model=call.model, turn=call.turn):
            entry = said(placed.line) if placed.line else None
            assert entry is not None
            encoded = before.get(placed.key)
            if encoded is None:
                message = message_of(entry, text=placed.text, blob=blob, thinking=placed.thinking)
                encoded = encode_message(message)
            if not (isinstance(entry, UserMessage) and entry.images):
                self._encoded[placed.key] = encoded
            parts.append(encoded)
        if passing := self.fold.tail_text(call.tail):
            parts.append(encode_message({"role": "user", "content": passing}))
        return request_hash(call.model, parts, self.fold.tools)

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

    def call(self, target: Target, tail: Sequence[int] = (), expected: int = 0) -> Call:
        """The next model call for a target, with what recall brought or may still bring."""
        last = self.last_plan
        return Call(
            model=target.model or self.fold.model or (last.model if last else ""),
            turn=self.fold.turn,
            room=self.room(target.window, target.label),
            tail=tuple(tail),
            images=target.images,
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


class ExchangeLines(msgspec.Struct, frozen=True):
    """One exchange as it stands in history."""

    turn: int
    lines: tuple[Line, ...]

    @property
    def has_text(self) -> bool:
        """Whether there is anything to find."""
        return any(text_of(line).strip() for line in self.lines)


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
