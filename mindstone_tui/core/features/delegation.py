"""Running a sub-agent: a session of its own with a clean window, few tools and hard limits."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

from mindstone_tui.core import events
from mindstone_tui.core.agent.turn import take_turn
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.errors import RecallError
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.handoff import delegation
from mindstone_tui.core.paths import CHILD
from mindstone_tui.core.session.build import assemble
from mindstone_tui.core.session.features import Feature
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.tools.base import Tool, ToolContext, ToolResult
from mindstone_tui.core.tools.history import DelegateArguments, delegate_tool


class DelegationFeature(Feature):
    """The sub-agents of one session; at most two work at a time."""

    name = "sub-agents"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        tools = self.context.settings.tools
        self._limits = delegation.DelegationLimits(
            tokens=tools.delegate_tokens,
            calls=tools.delegate_calls,
            seconds=tools.delegate_timeout,
        )
        self._running = 0

    def tools(self) -> Sequence[Tool]:
        """Give a task to a sub-agent."""
        return (delegate_tool(self.run, delegation.DESCRIPTION),)

    async def run(self, arguments: DelegateArguments, context: ToolContext) -> ToolResult:
        """Give the task to a sub-agent and bring its report back, bounded."""
        plan = delegation.plan(
            arguments.task,
            arguments.context,
            parent=self.session.key,
            call=context.call,
            available=tuple(self.context.tools),
            limits=self._limits,
            depth=self.session.key.main.count(CHILD),
            running=self._running,
        )
        turn = self.context.transcript.last_turn
        self.context.window.record(plan.entry(), turn)
        self._running += 1
        try:
            text, ending, spent = await self._work(plan)
        except asyncio.CancelledError:
            nothing = delegation.Brought(whole="", text="", tokens=0)
            never = delegation.ended(plan, nothing, "interrupted", delegation.Spent())
            self.context.window.record(never, turn)
            raise
        finally:
            self._running -= 1
        brought = delegation.bring_back(text, plan.limits, self.context.count)
        line = self.context.window.record(delegation.ended(plan, brought, ending, spent), turn)
        for event in announcements(line):
            self.context.tell(event)
        return ToolResult(
            text=delegation.result_text(plan, brought, ending, spent, line.id),
            status="ok" if ending == "done" else "error",
            finding=f"sub-agent {ending}, {spent.calls} calls, {spent.tokens:,} tokens"
            + ("" if spent.cost is None else f", ${spent.cost:.4f}"),
            origin=f"sub-agent {plan.child}",
        )

    async def _work(self, plan: delegation.Delegation) -> tuple[str, str, delegation.Spent]:
        """The child's last answer, how it ended, and what it used."""
        services = await self._open(plan)
        began = time.monotonic()
        spent = delegation.Spent()
        answer, ending, over = "", "failed", ""
        said = UserMessage(text=plan.message())
        try:
            async with asyncio.timeout(plan.limits.seconds) as limit:
                async for event in take_turn(services.context, said, "delegated"):
                    match event:
                        case events.AnswerRecorded(text=text) if text:
                            answer = text
                        case events.UsageReported(usage=usage):
                            spent = delegation.Spent(
                                tokens=spent.tokens + (usage.prompt or 0) + (usage.completion or 0),
                                calls=spent.calls + 1,
                                seconds=round(time.monotonic() - began, 3),
                                cost=_added(spent.cost, usage.cost),
                            )
                            if not over and (over := delegation.exceeded(plan.limits, spent)):
                                _stop(f"Stopped: {over}.")
                        case events.TurnEnded(ending="done"):
                            ending = "done"
                        case events.TurnEnded(ending=how, why=why):
                            ending = f"stopped: {over}" if over else f"{how}: {why}"
                        case _:
                            pass
            if limit.expired():
                ending = f"stopped: it took longer than {plan.limits.seconds:g} seconds"
        finally:
            await _close(services)
        return answer, ending, spent

    def _assemble(self, plan: delegation.Delegation) -> SessionServices:
        opening = self.session.opening.for_child(
            plan.child,
            model=self.context.model,
            offered=plan.tools,
            calls=plan.limits.calls,
        )
        return assemble(opening)

    async def _open(self, plan: delegation.Delegation) -> SessionServices:
        """Assemble the child off the loop; whoever stops waiting for it leaves nothing open."""
        opening = asyncio.create_task(asyncio.to_thread(self._assemble, plan))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            await _close(await opening)
            raise


async def _close(services: SessionServices) -> None:
    """Make a child's history searchable, and give its files back."""
    with contextlib.suppress(RecallError):
        await asyncio.to_thread(services.recall.keep_up)
    await services.close()
    services.context.transcript.close()


def _stop(why: str) -> None:
    """Interrupt the child's turn, which then ends as any interrupted turn does."""
    if (task := asyncio.current_task()) is not None:
        task.cancel(why)


def _added(before: float | None, more: float | None) -> float | None:
    return more if before is None else before if more is None else before + more
