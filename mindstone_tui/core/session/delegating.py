"""Running a sub-agent: a session of its own with a clean window, few tools and hard limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from mindstone_tui.core import events
from mindstone_tui.core.agent.desk import Desk
from mindstone_tui.core.agent.turn import take_turn
from mindstone_tui.core.context.scribe import Scribe
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.handoff import delegation
from mindstone_tui.core.places import SessionKey
from mindstone_tui.core.session.bench import SessionBench
from mindstone_tui.core.tools.rooms import DelegateArguments
from mindstone_tui.core.tools.tool import ToolContext, ToolResult

OpenChild = Callable[[SessionKey, tuple[str, ...], int], "tuple[Desk, SessionBench]"]
"""Assemble a session for a child: its key, the tools it is offered, its model calls."""


class Delegations:
    """The sub-agents of one session; at most two work at a time."""

    def __init__(self, desk: Desk, key: SessionKey, open_child: OpenChild, scribe: Scribe) -> None:
        self._desk = desk
        self._key = key
        self._open_child = open_child
        self._scribe = scribe
        self._running = 0

    async def run(self, arguments: DelegateArguments, context: ToolContext) -> ToolResult:
        """Give the task to a sub-agent and bring its report back, bounded."""
        plan = delegation.plan(
            arguments.task,
            arguments.context,
            parent=self._key,
            call=context.call,
            available=tuple(self._desk.tools),
            depth=self._key.main.count("~"),
            running=self._running,
        )
        turn = self._desk.transcript.last_turn
        self._desk.record(plan.entry(), turn)
        self._running += 1
        try:
            text, ending, spent = await self._work(plan)
        finally:
            self._running -= 1
        brought = await delegation.bring_back(text, plan.limits, self._scribe)
        self._desk.record(delegation.ended(plan, brought, ending, spent), turn)
        return ToolResult(
            text=delegation.result_text(plan, brought, ending, spent),
            status="ok" if ending == "done" else "error",
            finding=f"sub-agent {ending}, {spent.calls} calls, {spent.tokens:,} tokens",
            origin=f"sub-agent {plan.child}",
        )

    async def _work(self, plan: delegation.Delegation) -> tuple[str, str, delegation.Spent]:
        """The child's last answer, how it ended, and what it used."""
        desk, bench = await asyncio.to_thread(
            self._open_child, plan.child, plan.tools, plan.limits.calls
        )
        began = time.monotonic()
        spent = delegation.Spent()
        answer, ending = "", "failed"
        said = UserMessage(text=plan.message())
        try:
            async with asyncio.timeout(plan.limits.seconds):
                async for event in take_turn(desk, said, "delegated"):
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
                            if why := delegation.exceeded(plan.limits, spent):
                                ending = f"stopped: {why}"
                                break
                        case events.TurnEnded(ending=how, why=why):
                            ending = how if how == "done" else f"{how}: {why}"
                        case _:
                            pass
        except TimeoutError:
            ending = f"stopped: it took longer than {plan.limits.seconds:g} seconds"
        finally:
            await bench.close()
            desk.transcript.close()
        return answer, ending, spent


def _added(before: float | None, more: float | None) -> float | None:
    return more if before is None else before if more is None else before + more
