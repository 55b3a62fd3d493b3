"""The figures of a session that outlive its window: what it spent, how fast it grew, how far off
our counts were. They are carried from plan to plan, so that nobody reads history for them."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.context import budget, fold
from mindstone_tui.core.context.measure import Measured
from mindstone_tui.core.entries import Line, conversation, derived, window
from mindstone_tui.core.tokens import UNCALIBRATED, Calibration, detect_cut, error_percent

_CONTINUED: Final = 8
"""Turns that a plan adds to the growth of an earlier one, and plans on the way back to one that
lists all of them."""
_MOST_HOPS: Final = 2 * _CONTINUED


_AS_BEFORE: Final = ("cost_unknown", "delegated", "spiked", "windows", "shares")
"""What a plan carries that hardly ever changes."""


_NOTHING: Final = window.Carried()


class CarriedBy(msgspec.Struct, frozen=True):
    """All that a plan carries, and over how many others it was put together."""

    turn: int
    seq: int
    carried: window.Carried
    hops: int


def _all_of(carried: window.Carried, before: CarriedBy | None) -> window.Carried:
    """What a plan carries, with what it leaves to the one before."""
    if before is None:
        return msgspec.structs.replace(carried, base=None)
    known, own = before.carried, carried.growth
    kept = [each for each in known.growth if not own or each.turn < own[0].turn]
    same = {name: getattr(known, name) for name in _AS_BEFORE} if carried.same else {}
    growth = (*kept, *own)[-budget.KEPT_TURNS :]
    return msgspec.structs.replace(carried, base=None, same=False, growth=growth, **same)


class UsageNote(msgspec.Struct, frozen=True):
    """What a provider's report says about our own count."""

    error_percent: float | None = None
    cut: bool = False
    """The server counted so little that it must have dropped a part of the prompt."""
    sent: int = 0
    reported: int = 0


class Watch(msgspec.Struct, eq=False):
    """The figures of this session that outlive its window."""

    _calibration: Calibration
    _read: fold.ReadLines
    carried: window.Carried = msgspec.field(default_factory=window.Carried)
    anchor: window.Anchor | None = None
    answered: tuple[str, conversation.UsageReported] | None = None
    """The newest report on a request of the conversation, and when it came."""
    _plan: Line | None = None
    _continued: CarriedBy | None = None
    """What the next plan continues, unless a new turn begins with it."""
    _newest: CarriedBy | None = None
    """The newest plan, which a new turn continues."""
    _full: tuple[int, window.PromptPlanned] | None = None
    """The newest plan that says everything itself, and which line it is."""

    def start(self, plan: Line | None, after: Iterable[Line]) -> None:
        """Go on from the newest plan and the lines that follow it."""
        if plan is not None:
            self.observe(plan)
        for line in after:
            self.observe(line)

    def observe(self, line: Line) -> None:
        """Take in plans, reports, the start of a window or a task, the end of a sub-agent."""
        match line.entry:
            case window.PromptPlanned(purpose="") as plan:
                self._plan = line
                if plan.carried is not None:
                    self.carried = self._all_carried(line, plan.carried)
                    self.anchor = plan.carried.anchor
                self._know_full(line.seq, plan)
            case conversation.UsageReported() | conversation.AssistantMessage() as entry:
                if (report := conversation.usage_in(entry)) is not None:
                    self._spend(report.usage.cost)
                    self._anchor(line, report)
            case derived.DelegationEnded(tokens=tokens, cost=cost) if tokens:
                self._spend(cost, delegated=cost or 0.0)
            case window.ContextWindowPruned():
                self.carried = msgspec.structs.replace(
                    self.carried, windows=self.carried.windows + 1
                )
            case conversation.MessageCut():  # what was cut was never in the window
                growth = tuple(one for one in self.carried.growth if one.turn != line.turn)
                self.carried = msgspec.structs.replace(self.carried, growth=growth)
            case derived.TaskStarted() | derived.TaskDone():
                self._start_anew(line.turn + 1)

    # Most of a plan is as in the one before: it says what is new and names the one with the rest.

    def _all_carried(self, line: Line, carried: window.Carried) -> window.Carried:
        before = self._carried_by(carried.base)
        hops = before.hops + 1 if before is not None else 0
        self._newest = CarriedBy(line.turn, line.seq, _all_of(carried, before), hops)
        self._continued = before or self._newest
        return self._newest.carried

    def _carried_by(self, seq: int | None, most: int = _MOST_HOPS) -> CarriedBy | None:
        """All that a plan carries; None if it cannot be known."""
        for known in (self._newest, self._continued):
            if known is not None and known.seq == seq:
                return known
        for line in self._read(seq, seq) if seq is not None and most > 0 else ():
            if isinstance(line.entry, window.PromptPlanned) and (carried := line.entry.carried):
                before = self._carried_by(carried.base, most - 1)
                hops = before.hops + 1 if before is not None else 0
                return CarriedBy(line.turn, line.seq, _all_of(carried, before), hops)
        return None

    def to_carry(self, growth: tuple[window.Growth, ...], turn: int) -> window.Carried:
        """What the next plan carries, as far as an earlier one does not.

        Within a turn all plans continue the same one, so that no way back is longer than a few
        turns, however many requests they had.
        """
        whole = msgspec.structs.replace(self.carried, growth=growth, anchor=self.anchor)
        if self._newest is not None and self._newest.turn < turn:
            self._continued = self._newest
        if (before := self._continued) is None or before.hops >= _CONTINUED:
            return whole
        known = before.carried
        newest = known.growth[-1].turn if known.growth else 0
        own = tuple(each for each in growth if each.turn >= newest)
        listed = {each.turn: each for each in known.growth}
        if not 0 < len(own) <= min(_CONTINUED, len(growth) - 1) or not all(
            listed.get(each.turn) == each for each in growth if each.turn < newest
        ):
            return whole
        same = all(getattr(whole, name) == getattr(known, name) for name in _AS_BEFORE)
        left_out = {name: getattr(_NOTHING, name) for name in _AS_BEFORE} if same else {}
        return msgspec.structs.replace(whole, base=before.seq, growth=own, same=same, **left_out)

    def _know_full(self, seq: int, plan: window.PromptPlanned) -> None:
        if plan.measure is not None and plan.measure.components:
            self._full = (seq, plan)
        elif plan.like is not None and (self._full is None or self._full[0] != plan.like):
            found = [line.entry for line in self._read(plan.like, plan.like)]
            full = [entry for entry in found if isinstance(entry, window.PromptPlanned)]
            self._full = (plan.like, full[0]) if full else None

    def in_short(self, plan: window.PromptPlanned) -> window.PromptPlanned:
        """The plan, without what an earlier one says with the very same words."""
        if self._full is None or plan.measure is None or not plan.is_like(self._full[1]):
            return plan
        seq, full = self._full
        listed = full.measure.components if full.measure is not None else ()
        if [_limit(one) for one in listed] != [_limit(one) for one in plan.measure.components]:
            return plan
        measure = msgspec.structs.replace(plan.measure, components=(), limits=seq)
        return msgspec.structs.replace(plan, measure=measure, like=seq)

    def _start_anew(self, turn: int) -> None:
        """Forget how fast the window filled before a turn: another task has another tempo."""
        self._continued = self._newest = None
        self.carried = msgspec.structs.replace(
            self.carried, growth=(window.Growth(turn, 0, 0, 0),), spiked=0
        )

    def factor(self, model: str) -> float:
        """The correction for our own count."""
        # Learned on this machine for the model, else what this session last planned with: a replay
        # and a new process must measure as the one before them did.
        if (learned := self._calibration.factor(model)) is not None:
            return learned
        plan = self._planned
        return plan.correction if plan and plan.model == model else UNCALIBRATED

    def learn(self, line: Line) -> UsageNote:
        """Compare a report with what was planned, and learn from it."""
        report, plan = conversation.usage_in(line.entry), self._planned
        if report is None or plan is None or not self._answers(line, report):
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
    def _planned(self) -> window.PromptPlanned | None:
        entry = self._plan.entry if self._plan else None
        return entry if isinstance(entry, window.PromptPlanned) else None

    def _answers(self, line: Line, report: conversation.UsageReported) -> bool:
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
        # What does not change stays the very same object, and is left out of the next plan.
        changes: dict[str, float | bool] = {"cost_unknown": True} if cost is None else {}
        if cost:
            changes["spent"] = self.carried.spent + cost
        if delegated:
            changes["delegated"] = self.carried.delegated + delegated
        if changes:
            self.carried = msgspec.structs.replace(self.carried, **changes)

    def _anchor(self, line: Line, report: conversation.UsageReported) -> None:
        plan, reported = self._planned, report.usage.prompt
        if self._plan is None or plan is None or not reported or not self._answers(line, report):
            return
        self.answered = line.ts, report
        estimated = plan.measure.tokens if plan.measure else plan.raw_tokens
        if detect_cut(estimated, reported):
            self.anchor = None
            return
        self.anchor = window.Anchor(
            plan=self._plan.seq,
            at=plan.at,
            model=plan.model,
            raw=plan.raw_tokens,
            estimated=estimated,
            reported=reported,
            cached=report.usage.cached,
        )

    def growth(self, measured: Measured, factor: float) -> tuple[window.Growth, ...]:
        """What each of the last turns added; trimming and pruning later take nothing away.

        Sizes are our own counts by the learned factor: an anchor that comes or goes is no growth.
        """
        known = {growth.turn: growth for growth in self.carried.growth}
        oldest = min(known, default=0)
        for turn, now in added_by_turn(measured, factor).items():
            if turn >= oldest:
                known[turn] = _larger(known.get(turn), now)
        return tuple(sorted(known.values(), key=lambda growth: growth.turn)[-budget.KEPT_TURNS :])


def _limit(share: window.Component) -> tuple[str, int, int, int]:
    return share.name, share.limit, share.soft, share.hard


def added_by_turn(measured: Measured, factor: float) -> dict[int, window.Growth]:
    """How much of the window each turn is."""
    sums: dict[int, list[int]] = {}
    newest = recalled = 0
    for piece in measured.pieces:
        if piece.line is not None:
            newest = max(newest, piece.line.turn)
            is_result = isinstance(piece.line.entry, conversation.ToolReturned)
            sums.setdefault(piece.line.turn, [0, 0])[is_result] += piece.raw
        elif piece.component == "memory_injection":
            recalled += piece.raw
    return {
        turn: window.Growth(
            turn,
            round(messages * factor),
            round(results * factor),
            round(recalled * factor) if turn == newest else 0,
        )
        for turn, (messages, results) in sums.items()
    }


def _larger(before: window.Growth | None, now: window.Growth) -> window.Growth:
    if before is None:
        return now
    return window.Growth(
        now.turn,
        max(before.messages, now.messages),
        max(before.results, now.results),
        max(before.recalled, now.recalled),
    )


def completed(
    growth: Sequence[window.Growth], current: int, *, ended: bool
) -> Sequence[window.Growth]:
    """Turns whose growth is final."""
    return [turn for turn in growth if turn.turn < current or ended]
