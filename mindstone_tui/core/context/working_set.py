"""The working set of a session: a thin shell around the fold.

Everything that shapes a prompt goes through here and is written down before the request that it
shapes. `prepare` runs before every model call: it repairs, trims, prunes, and records the plan with
its hash; only then is there a request to send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context import budget, build_report, manual
from mindstone_tui.core.context.build_report import UNKNOWN_PRICES, Prices
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.context.manual import Reason, why
from mindstone_tui.core.context.measure import ComponentName
from mindstone_tui.core.context.plan import Prepared, rebuild, record_plan
from mindstone_tui.core.context.policies import Similarity, known_policy, word_similarity
from mindstone_tui.core.context.prune import Pruned, make_room
from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.context.trim import refuse_if_hopeless
from mindstone_tui.core.context.window import LiveWindow, OffLoop
from mindstone_tui.core.context.window_view import (
    Call,
    Indexer,
    PastView,
    UsageNote,
)
from mindstone_tui.core.entries import Entry, Label, Line, Request, Span, ToolSchema
from mindstone_tui.core.entries.window import (
    InstructionsChanged,
    ModeChanged,
    ModelChanged,
    PolicyChanged,
    Section,
    ToolsChanged,
    WindowState,
)
from mindstone_tui.core.tokens import Calibration, Counter, counter_for
from mindstone_tui.core.transcript import History, Transcript

RoomMaker = Callable[[LiveWindow, Call], Awaitable[list[Line]]]


class WorkingSet:
    """What the model sees next, kept by writing down every decision about it."""

    def __init__(self, live: LiveWindow) -> None:
        self._live = live
        self.room_maker: RoomMaker = make_room
        """How room is made: by the sliding window, unless the session brings other means."""

    @classmethod
    def open(
        cls,
        transcript: Transcript,
        history: History,
        settings: Settings,
        *,
        indexer: Indexer,
        counters: Callable[[str], Counter] = counter_for,
        calibration: Calibration | None = None,
        similar: Similarity = word_similarity,
        off_loop: OffLoop = asyncio.to_thread,
    ) -> WorkingSet:
        """Read back to the newest window change, and no further."""
        return cls(
            LiveWindow(
                transcript,
                history,
                settings,
                indexer=indexer,
                counters=counters,
                calibration=calibration,
                similar=similar,
                off_loop=off_loop,
            )
        )

    @property
    def fold(self) -> Fold:
        """The window itself; look, do not touch."""
        return self._live.fold

    @property
    def model(self) -> str:
        """The session's model; empty before one was chosen."""
        return self._live.fold.model

    @property
    def policy(self) -> str:
        """In which order things leave."""
        return self._live.policy

    @property
    def mode(self) -> str:
        """How room is made."""
        return self._live.mode

    @property
    def spans(self) -> tuple[Span, ...]:
        """The runs of history that are in the window now."""
        return self._live.fold.state.spans

    def in_window(self, seq: int) -> bool:
        """Whether the model sees this message anyway."""
        return seq in self._live.fold.lines

    def take(self, line: Line) -> None:
        """Take in a line, own or another surface's; missed ones are read first."""
        self._live.take(line)

    def catch_up(self) -> list[Line]:
        """Take in what others appended; every line of theirs since the last time."""
        self._live.catch_up()
        return self._live.missed()

    def set_model(
        self, model: str, *, window: int = 0, label: Label = "assumed", why: str = ""
    ) -> Line | None:
        """Let another model answer; nothing is written when it does already."""
        now = self._live.fold.model_changed
        if now is not None and (now.model, now.window, now.window_label) == (model, window, label):
            return None
        return self._change(
            lambda state: ModelChanged(
                model=model, state=state, window=window, window_label=label, why=why
            )
        )

    def set_instructions(self, sections: Sequence[Section]) -> Line | None:
        """Change the standing part of the prompt, if it differs."""
        if tuple(sections) == self._live.fold.sections:
            return None
        return self._change(
            lambda state: InstructionsChanged(sections=tuple(sections), state=state)
        )

    def set_tools(self, tools: Sequence[ToolSchema]) -> Line | None:
        """Change the tools that requests carry, if they differ."""
        if tuple(tools) == self._live.fold.tools:
            return None
        return self._change(lambda state: ToolsChanged(tools=tuple(tools), state=state))

    def set_mode(self, mode: str) -> Line | None:
        """Change how room is made."""
        if mode == self.mode:
            return None
        return self._change(lambda state: ModeChanged(mode=mode, state=state))

    def set_policy(self, policy: str) -> Line | None:
        """Change the order in which things leave; raises `UnknownName`."""
        if known_policy(policy) == self.policy:
            return None
        return self._change(lambda state: PolicyChanged(policy=policy, state=state))

    async def make_room(
        self,
        *,
        model: str = "",
        tail: Sequence[int] = (),
        window: int = 0,
        label: Label = "assumed",
        expected: int = 0,
        images: bool = True,
    ) -> list[Line]:
        """Trim and prune as the marks say, with `expected` tokens of recall still to come."""
        self._live.catch_up()
        call = self._call(model, tail, window, label, images, expected)
        await self._live.ledger(call.model).counter.ready()
        self._live.note_growth(call)
        refuse_if_hopeless(self._live, call)
        return await self.room_maker(self._live, call)

    async def prepare(
        self,
        *,
        call: int,
        tail: Sequence[int] = (),
        window: int = 0,
        label: Label = "assumed",
        model: str = "",
        images: bool = True,
        max_output: int = 0,
    ) -> Prepared:
        """Make room, write the plan down, and only then hand the request out."""
        self._live.catch_up()
        planned = self._call(model, tail, window, label, images)
        await self._live.ledger(planned.model).counter.ready()
        self._live.note_growth(planned)
        refuse_if_hopeless(self._live, planned)
        lines = await self.room_maker(self._live, planned)
        return record_plan(self._live, planned, call, lines, max_output)

    async def make_room_by(self, maker: RoomMaker) -> list[Line]:
        """Make room now in a way of its own: a compaction that was asked for."""
        call = self._now()
        await self._live.ledger(call.model).counter.ready()
        return await maker(self._live, call)

    def note_usage(self, line: Line) -> UsageNote:
        """Learn from a provider's report: how far off we were, and whether it cut the prompt."""
        self._live.take(line)
        return self._live.watch.learn(line)

    def report(
        self,
        *,
        tail: Sequence[int] = (),
        window: int = 0,
        label: Label = "assumed",
        model: str = "",
        call: int = 0,
        images: bool = True,
        prices: Prices = UNKNOWN_PRICES,
    ) -> ContextReport:
        """The one accounting; reading it changes nothing."""
        self._live.catch_up()
        planned = self._call(model, tail, window, label, images)
        report = build_report.build(self._live, planned, prices=prices, number=call)
        last = self._live.last_plan
        if last is None or not call or last.prompt_hash != report.prompt_hash:
            return report
        # About the request that was just planned: compared with itself all of it would be stable.
        return msgspec.structs.replace(report, stable_prefix_tokens=last.stable_prefix)

    def report_at(self, plan_line: Line) -> ContextReport:
        """The accounting of a request of the past."""
        return report_at(self._live.history, self._live.settings, plan_line)

    def rebuild(self, plan_line: Line) -> Request:
        """A request of the past, from the transcript alone."""
        return rebuild(self._live.history, plan_line)

    async def prune(
        self,
        *,
        count: int | None = None,
        to_percent: float | None = None,
        turns: Sequence[int] | None = None,
    ) -> Pruned:
        """Let exchanges leave by hand: a number of them, down to a fullness, or by turn."""
        call = self._now()
        await self._live.ledger(call.model).counter.ready()
        self._live.note_growth(call)
        return await manual.prune_by_hand(
            self._live, call, count=count, to_percent=to_percent, turns=turns
        )

    async def trim(self) -> list[Line]:
        """Turn older tool results into placeholders by hand."""
        call = self._now()
        await self._live.ledger(call.model).counter.ready()
        return manual.trim_by_hand(self._live, call)

    def pin(self, turn: int, why: str = "") -> list[Line]:
        """Keep an exchange in the window; one that left is brought back first."""
        return manual.pin(self._live, self._now(), turn, why)

    def unpin(self, turn: int) -> Line:
        """Let a pinned exchange leave again when its time comes."""
        return manual.unpin(self._live, turn)

    def restore(self, turns: Sequence[int]) -> list[Line]:
        """Bring exchanges back to their place; raises `DoesNotFit` when there is no room."""
        return manual.restore(self._live, self._now(), turns)

    async def rewind(self, to_turn: int) -> Line:
        """Go on from an earlier turn; what came later stays in history."""
        return await manual.rewind(self._live, self._now(), to_turn)

    def why(self, seq: int) -> Reason:
        """Why an entry is in the window, or since when and why it is not."""
        return why(self._live, self._now(), seq)

    def check_before_add(
        self,
        component: ComponentName,
        tokens: int,
        *,
        model: str = "",
        window: int = 0,
        label: Label = "assumed",
    ) -> budget.Admission:
        """Whether something may be added to the next prompt."""
        self._live.catch_up()
        call = self._call(model, (), window, label, images=True)
        used = budget.components(self._live.measure(call), call.room, self._live.settings.budget)
        return budget.check_before_add(component, tokens, used, call.room)

    def share(self, component: ComponentName) -> int:
        """The tokens that are meant for one component."""
        return budget.limit_of(component, self._now().room, self._live.settings.budget)

    def _now(self) -> Call:
        self._live.catch_up()
        return self._call("", (), 0, "assumed", images=True)

    def _change(self, entry: Callable[[WindowState], Entry]) -> Line:
        return self._live.append(entry(self._live.fold.state))

    def _call(
        self,
        model: str,
        tail: Sequence[int],
        window: int,
        label: Label,
        images: bool,
        expected: int = 0,
    ) -> Call:
        last = self._live.last_plan
        return Call(
            model=model or self.model or (last.model if last else ""),
            turn=self._live.fold.turn,
            room=self._live.room(window, label),
            tail=tuple(tail),
            images=images,
            expected=expected,
        )


def report_at(
    history: History,
    settings: Settings,
    plan_line: Line,
    counters: Callable[[str], Counter] = counter_for,
) -> ContextReport:
    """The accounting of a request of the past, from the transcript alone."""
    view = PastView(history, settings, plan_line, counters)
    plan = view.plan
    room = budget.Room(plan.window, plan.window_label, plan.reserve)
    call = Call(
        model=plan.model, turn=plan_line.turn, room=room, tail=plan.tail, images=plan.images
    )
    report = build_report.build(view, call, number=plan.call)
    return msgspec.structs.replace(
        report, prompt_hash=plan.prompt_hash, stable_prefix_tokens=plan.stable_prefix
    )
