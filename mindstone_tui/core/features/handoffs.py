"""Handoffs and what is written down before room is made: `/handoff` and `/compact`."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime
from typing import Final

import msgspec

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.memories import now, stamp
from mindstone_tui.core.context import plan, policies, summary_call, window_view
from mindstone_tui.core.context.cascade import HANDOFF_SHARE, Apply, Effect, StepName
from mindstone_tui.core.context.modes import NOTHING_TO_GAIN
from mindstone_tui.core.entries import Line, derived
from mindstone_tui.core.entries.standings import TAKES_BACK, not_rewound
from mindstone_tui.core.errors import ContinuityError, EntryNotSaved, NotAllowed
from mindstone_tui.core.events import AnyEvent, CommandPrinted, from_entry
from mindstone_tui.core.features.recall import RecallFeature
from mindstone_tui.core.features.tasks import Tasks, TasksFeature
from mindstone_tui.core.handoff import handoff, handoff_store
from mindstone_tui.core.handoff.resume import changed_since
from mindstone_tui.core.rules.book import RuleBook
from mindstone_tui.core.session import features, services
from mindstone_tui.core.text import as_data, fresh_nonce
from mindstone_tui.core.transcript.reader import standings_of

_SAID: Final = frozenset({"user_message", "assistant_message", "tool_returned"})
_LOOKED_BACK: Final = 10_000

_SINCE: Final = "corrected since"
_CHANGE: Final = (
    *("statement_superseded", "todo_changed", "task_started", "task_done"),
    *TAKES_BACK,
)


class Handoffs(msgspec.Struct, eq=False):
    """What one window of a session leaves to the next."""

    _context: TurnContext
    _tasks: Tasks
    clock: Callable[[], datetime] = now

    async def write(self, trigger: str, *, prose_by: summary_call.Ask | None = None) -> Line:
        """Write a handoff of the window as it is; prose is a model's, and marked."""
        context = self._context
        lines = self._tasks.window_lines()
        checkpoint = self._tasks.state().checkpoint
        environment = self._tasks.environment(lines)
        budget = context.window.call(context.target).room.usable * HANDOFF_SHARE // 100
        with context.transcript.history() as history:
            judged = standings_of(history)
        left = context.files.left_by(judged.took_back)

        def compose(text: str = "") -> handoff.Letter:
            return handoff.compose(
                checkpoint,
                lines,
                environment,
                judged=judged,
                written=stamp(self.clock()),
                trigger=trigger,
                count=context.count,
                budget=min(handoff.BUDGET, budget),
                prose=text,
                model=context.model,
                left=left,
            )

        written = compose()
        if prose_by is not None and (text := await handoff.prose(prose_by, written)):
            written = compose(text)
        entry = handoff_store.write(self._tasks.places, written)
        return context.window.record(entry, context.transcript.last_turn)

    def use(self) -> Line:
        """Take the newest handoff over into the head of the prompt, once."""
        context = self._context
        with context.transcript.history() as history:
            taken = handoff_store.take_over_newest(self._tasks.places, history, context.count)
        entry = taken.entry(context.window.fold.state)
        return context.window.record(entry, context.transcript.last_turn)

    def tell_changes(self) -> None:
        """Say below what stands in the head which of its lines and steps are others by now."""
        window = self._context.window
        replayed = window.fold.reference(window.fold.state.handoff)
        if replayed is None or not isinstance(taken := replayed.entry, derived.HandoffReplayed):
            return
        with self._context.transcript.history() as history:
            if not list(history.newest(_CHANGE, history.head.seq - replayed.seq)):
                return
        before, told, _ = taken.text.partition(f' origin="{_SINCE}">\n')
        text = before.rpartition("\n")[0] if told else before
        steps = changed_since(text, self._tasks.state().checkpoint)
        with self._context.transcript.history() as history:
            rows = "\n".join([*handoff_store.changed_in(text, history, replayed.seq, -1), *steps])
        if rows not in taken.text or (told and not rows):
            data = f"\n{as_data(rows, origin=_SINCE, nonce=fresh_nonce())}" if rows else ""
            entry = derived.HandoffReplayed(
                sha256=taken.sha256, text=text + data, state=window.fold.state
            )
            window.record(entry, self._context.transcript.last_turn)

    def show(self) -> str:
        """The newest handoff, if it still is what was written, and what of it holds no longer."""
        with self._context.transcript.history() as history:
            return handoff_store.show_newest(self._tasks.places, history)

    def _is_newest(self, kind: str, others: Collection[str]) -> bool:
        """Whether an entry of this kind came last among others."""
        with self._context.transcript.history() as history:
            newest = next(iter(history.newest({kind, *others}, _LOOKED_BACK)), None)
        return newest is not None and newest.kind == kind

    def _stands(self) -> bool:
        """Whether the newest handoff stands in the prompt already."""
        return self._is_newest("handoff_replayed", {"handoff_written"})

    def _to_come(self) -> int:
        """Tokens of the newest handoff, unless it stands in the prompt already."""
        return 0 if self._stands() else self._context.count(self.show())

    def room_steps(self, backfill: Callable[[], Awaitable[int]]) -> dict[StepName, Apply]:
        """The steps from outside the window; a refusal is no accident of the turn."""
        context = self._context

        async def save(_excess: int) -> Effect:
            state = await asyncio.to_thread(self._tasks.state)  # whoever types does not wait
            if not state.checkpoint.goal.strip():
                return Effect(why="there is no task whose state could be saved")
            written = await asyncio.to_thread(self._tasks.write_if_new, "window", state)
            return Effect(lines=(self._tasks.note(written),) if written else ())

        async def hand_over(_excess: int) -> Effect:
            # A state is handed over once: not again while nothing was said since.
            if self._is_newest("handoff_written", _SAID):
                return Effect(why="the newest handoff says the same", adds=self._to_come())
            line = await self.write("window")
            return Effect(lines=(line,), adds=self._to_come())

        async def take_over(_excess: int) -> Effect:
            return Effect() if self._stands() else Effect(lines=(self.use(),))

        async def check_backfill(_excess: int) -> Effect:
            entry = derived.BackfillChecked(unindexed=await backfill())
            try:
                line = context.window.record(entry, context.transcript.last_turn)
            except EntryNotSaved as error:
                return Effect(why=error.what)
            return Effect(lines=(line,))

        return {
            "checkpoint": _tried(save),
            "handoff": _tried(hand_over),
            "handoff_replay": _tried(take_over),
            "backfill": check_backfill,
        }


def _tried(step: Apply) -> Apply:
    async def apply(excess: int) -> Effect:
        try:
            return await step(excess)
        except (ContinuityError, EntryNotSaved) as error:
            return Effect(held=False, why=error.what)

    return apply


class HandoffsFeature(features.Feature):
    """What one window leaves to the next."""

    name = "handoffs"

    def __init__(self, session: services.SessionServices) -> None:
        super().__init__(session)
        self.handoffs = Handoffs(self.context, session.features.get(TasksFeature).tasks)

    def room_steps(self) -> Mapping[StepName, Apply]:
        """Save, hand over and take over before exchanges leave; check that all is indexed."""
        return self.handoffs.room_steps(self.session.recall.backfill)

    async def before_turn(self) -> Sequence[str]:
        """Tell in the head what a command changed of what stands there."""
        self.handoffs.tell_changes()
        return ()

    async def after_turn(self, turn: features.EndedTurn) -> Sequence[AnyEvent]:
        """Write down what the compactions of a turn left of what must not be lost.

        What was corrected in it and stands in the head, handed over or resumed, is told there.
        """
        self._certified(turn.lines)
        self.handoffs.tell_changes()
        return ()

    def _certified(self, lines: Iterable[Line]) -> list[Line]:
        """The certificate of a compaction among these lines: what the prompt still says of it.

        An exchange leaves only after it was read back, so that recall finds whatever it does not.
        """
        if not any(
            isinstance(one.entry, derived.SummaryDerived) and one.entry.state for one in lines
        ):
            return []
        from mindstone_tui.core.library import compactions  # 8 ms, and only for this

        context, fold = self.context, self.context.window.fold
        rules = RuleBook(self.session.home).standing(str(self.session.cwd), str(self.session.key))
        with context.transcript.history() as history:
            first = max(history.head.seq - compactions.LISTED, 0)
            said = not_rewound(window_view.reader(history)(first, history.head.seq))
        precious = compactions.precious_in(said, {one.number: one.words for one in rules})
        shown = fold.placed(model=context.model, turn=fold.turn)
        texts = [one.text or policies.text_of(one.line) for one in shown]
        carried = "\n".join([fold.head_text(), *texts])
        entry, _ = compactions.certify("mindstone", precious, carried, 0)
        return [context.window.record(entry, context.transcript.last_turn)]

    @features.command("compact", changes_window=True)
    async def compact(self, argument: str) -> AsyncIterator[features.Happening]:
        """Summarise older exchanges now.

        The task is checkpointed and a handoff written first; the originals stay in history,
        indexed.
        """
        before = self.context.report().prompt.tokens
        fired = await self.context.hooks.before_compact("manual")
        for notice in fired.notices:
            yield notice
        if fired.blocked is not None:
            raise NotAllowed(f"A hook stopped this: {fired.blocked}", "`/hooks` lists them.")
        await self.session.features.get(RecallFeature).judge()
        lines = await plan.make_room_by(self.context.window, self.session.modes.compact)
        certified = self._certified(lines)
        yield from_entry.announcements(*lines)
        outcome = self.session.modes.last_chain
        if any(line.kind == "summary_derived" for line in lines):
            after = self.context.report().prompt.tokens
            sizes = f"the prompt has {after:,} tokens, before {before:,}"
            taken = outcome.taken if outcome is not None else ()
            whys = [step.effect.why for step in taken if step.effect.why]
            said = "".join(f" {why[:1].upper()}{why[1:]}." for why in whys)
            kept = [
                f"\nOf what must not be lost: {one.entry.sentence}."
                for one in certified
                if isinstance(one.entry, derived.CompactionCertified)
            ]
            text = f"Older exchanges are summarised: {sizes}.{said}{''.join(kept)}"
            yield CommandPrinted(text=text, data={"tokens_before": before, "tokens_after": after})
            return
        why = outcome.why if outcome is not None and outcome.why else ""
        only_recent = not why or "nothing but the newest" in why
        if NOTHING_TO_GAIN in why:
            text = (
                f"Nothing to gain: {NOTHING_TO_GAIN}. The window stays as it is, {before:,} tokens."
            )
        elif only_recent:
            text = "Nothing to compact: only recent exchanges are left."
        else:
            text = f"Nothing was compacted: {why}."
        ok = only_recent or NOTHING_TO_GAIN in why
        yield CommandPrinted(text=text, ok=ok)

    @features.command(
        "handoff",
        usage="[write|show|use] [prose]",
        changes_window=True,
        words=("write", "show", "use"),
        looks=("show",),
    )
    async def handoff(self, argument: str) -> AsyncIterator[features.Happening]:
        """Write a handoff for the next window, show the newest, or use it (once)."""
        verb, _, how = argument.partition(" ")
        if verb in ("", "write"):
            await self.session.features.get(RecallFeature).judge()
            line = await self.handoffs.write(
                "asked", prose_by=self.session.modes.ask if how.strip() == "prose" else None
            )
            yield from_entry.announcements(line)
            assert isinstance(line.entry, derived.HandoffWritten)
            path = line.entry.path
            text = f"Written to {self.session.places.folder / path}."
            yield CommandPrinted(text=text, data={"path": path}, repeats=True)
        elif verb == "show":
            yield CommandPrinted(text=self.handoffs.show())
        elif verb == "use":
            self.handoffs.use()
            yield CommandPrinted(text="The handoff is in the prompt now.")
        else:
            raise features.WrongUse(f"/handoff does not know `{argument}`.")
