"""Handoffs and what is written down before room is made: `/handoff` and `/compact`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from mindstone_tui.core.agent.handoffs import Handoffs
from mindstone_tui.core.context.cascade import Apply, StepName
from mindstone_tui.core.context.modes import NOTHING_TO_GAIN
from mindstone_tui.core.context.plan import make_room_by
from mindstone_tui.core.entries.derived import HandoffWritten
from mindstone_tui.core.errors import NotAllowed
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.features.tasks import TasksFeature
from mindstone_tui.core.session.features import Feature, WrongUse, command
from mindstone_tui.core.session.services import SessionServices


class HandoffsFeature(Feature):
    """What one window leaves to the next."""

    name = "handoffs"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self.handoffs = Handoffs(self.context, session.features.get(TasksFeature).tasks)

    def room_steps(self) -> Mapping[StepName, Apply]:
        """Save, hand over and take over before exchanges leave; check that all is indexed."""
        return self.handoffs.room_steps(self.session.recall.backfill)

    @command("compact", changes_window=True)
    async def compact(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Summarise older exchanges now.

        The task is checkpointed and a handoff written first; the originals stay in history,
        indexed.
        """
        del argument
        before = self.context.report().prompt.tokens
        fired = await self.context.hooks.before_compact("manual")
        for notice in fired.notices:
            yield notice
        if fired.blocked is not None:
            raise NotAllowed(f"A hook stopped this: {fired.blocked}", "`/hooks` lists them.")
        lines = await make_room_by(self.context.window, self.session.modes.compact)
        for event in announcements(*lines):
            yield event
        if any(line.kind == "summary_derived" for line in lines):
            after = self.context.report().prompt.tokens
            sizes = f"the prompt has {after:,} tokens, before {before:,}"
            text = f"Older exchanges are summarised: {sizes}."
            yield CommandPrinted(
                command="compact", text=text, data={"tokens_before": before, "tokens_after": after}
            )
            return
        outcome = self.session.modes.last_chain
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
        yield CommandPrinted(command="compact", text=text, ok=ok)

    @command(
        "handoff",
        usage="[write|show|use] [prose]",
        changes_window=True,
        words=("write", "show", "use"),
        looks=("show",),
    )
    async def handoff(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Write a handoff for the next window, show the newest, or load it (once)."""
        verb, _, how = argument.partition(" ")
        if verb in ("", "write"):
            line = await self.handoffs.write(
                "asked", prose_by=self.session.modes.ask if how.strip() == "prose" else None
            )
            for event in announcements(line):
                yield event
            assert isinstance(line.entry, HandoffWritten)
            path = line.entry.path
            text = f"Written to {path}."
            yield CommandPrinted(command="handoff", text=text, data={"path": path}, repeats=True)
        elif verb == "show":
            yield CommandPrinted(command="handoff", text=self.handoffs.newest())
        elif verb == "use":
            self.handoffs.use()
            yield CommandPrinted(command="handoff", text="The handoff is in the prompt now.")
        else:
            raise WrongUse(f"/handoff does not know `{argument}`.")
