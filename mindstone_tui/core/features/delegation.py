"""Running a sub-agent: a session of its own with a clean window, few tools and hard limits."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.run_tools import ask_beside
from mindstone_tui.core.agent.turn import take_turn
from mindstone_tui.core.config.settings import ToolSettings
from mindstone_tui.core.context import summaries, summary_call
from mindstone_tui.core.entries import Part
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import Delegated, DelegationEnded
from mindstone_tui.core.errors import RecallError, ToolError
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.paths import CHILD, SessionKey
from mindstone_tui.core.session import build, features
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import as_data, fresh_nonce, one_line
from mindstone_tui.core.tools.base import Tool, ToolContext, ToolResult
from mindstone_tui.core.tools.history import DelegateArguments, delegate_tool

DESCRIPTION: Final = (
    "Hand a self-contained piece of work to a sub-agent with an empty window of its own. Use it "
    "for ten or more tool calls whose output you will not need again (search a large code base, "
    "read many files, compare many results) and an answer that fits on a page. Not for fewer than "
    "five calls, for work that depends on this conversation or on a person's decision, or when you "
    "need the raw output. Say in `task` what to find out and in what form to report."
)
DELEGATING: Final = "delegating agent"
"""Who speaks to a sub-agent, wherever its session is read: no person."""
READERS: Final = ("read", "list", "glob", "grep", "recall", "read_entry")
NEVER: Final = frozenset({"delegate", "remember", "note"})
"""Tools that a sub-agent is not offered: no agents of its own, no words in another's memory."""


_DEFAULTS: Final = ToolSettings()


class DelegationLimits(Part):
    """What a sub-agent may use up."""

    tokens: int = _DEFAULTS.delegate_tokens
    calls: int = _DEFAULTS.delegate_calls
    """Model calls."""
    result_tokens: int = summaries.DELEGATED_RESULT
    seconds: float = _DEFAULTS.delegate_timeout
    depth: int = 1
    """How deep sub-agents may stand below a person's session."""
    together: int = 2
    """Sub-agents at the same time."""


class Delegation(Part):
    """One piece of work that was handed over."""

    task: str
    context: str
    parent: str
    child: SessionKey
    call: str
    tools: tuple[str, ...]
    limits: DelegationLimits

    def entry(self) -> Delegated:
        """What the parent's transcript remembers."""
        return Delegated(task=self.task, child=str(self.child), call=self.call)

    def message(self, nonce: str = "") -> str:
        """The first and only message that the child gets."""
        parts = [
            "You were given one piece of work by another assistant. Nobody can answer questions.",
            f"The work:\n{self.task}",
            f"Report in at most {self.limits.result_tokens * 3 // 4} tokens: the answer first, "
            "then the findings with the paths, names and numbers they rest on, then what stayed "
            "open.",
        ]
        if self.context:
            data = as_data(
                self.context, origin="the delegating agent", nonce=nonce or fresh_nonce()
            )
            parts.insert(2, f"What you need to know:\n{data}")
        return "\n\n".join(parts)


class Spent(Part):
    """What a sub-agent has used so far."""

    tokens: int = 0
    calls: int = 0
    seconds: float = 0.0
    cost: float | None = None


class Brought(Part):
    """What a sub-agent brought back."""

    whole: str
    text: str
    """As much of it, from the beginning, as its room takes; whole lines."""
    tokens: int

    @property
    def left_out(self) -> str:
        """What is not shown, counted; empty when all of it is."""
        if self.text == self.whole:
            return ""
        lines, shown = len(self.whole.splitlines()), len(self.text.splitlines())
        if lines > 1:
            return f"{lines - shown:,} of {lines:,} lines"
        return f"{len(self.whole) - len(self.text):,} of {len(self.whole):,} characters"


def plan(
    task: str,
    context: str,
    *,
    parent: SessionKey,
    call: str,
    available: Sequence[str],
    wanted: Sequence[str] = READERS,
    limits: DelegationLimits | None = None,
    depth: int = 0,
    running: int = 0,
) -> Delegation:
    """A delegation within its limits; raises `ToolError` when there can be none."""
    bounds = limits or DelegationLimits()
    if not task.strip():
        raise ToolError("There is nothing to delegate.", "Say in `task` what is to be found out.")
    if depth >= bounds.depth:
        raise ToolError("A sub-agent has no sub-agents.", "Do the work here.")
    if running >= bounds.together:
        raise ToolError(f"{running} sub-agents are already at work.", "Wait for one of them.")
    return Delegation(
        task=task.strip(),
        context=context.strip(),
        parent=str(parent),
        child=SessionKey(parent.agent, f"{parent.main}{CHILD}{call}"),
        call=call,
        tools=tuple(name for name in wanted if name in available and name not in NEVER),
        limits=bounds,
    )


def exceeded(limits: DelegationLimits, spent: Spent) -> str:
    """Which limit a sub-agent has reached, in words; nothing while it may go on."""
    for used, most, what in (
        (spent.tokens, limits.tokens, "tokens"),
        (spent.calls, limits.calls, "model calls"),
        (spent.seconds, limits.seconds, "seconds"),
    ):
        if used >= most:
            return f"it used {used:g} of {most:g} {what}"
    return ""


def bring_back(text: str, limits: DelegationLimits, count: summary_call.Count) -> Brought:
    """The report, and as much of it as its room takes."""
    if (tokens := count(text)) <= limits.result_tokens:
        return Brought(whole=text, text=text, tokens=tokens)
    room = limits.result_tokens - _POINTER_ROOM
    lines = text.splitlines(keepends=True)
    cut = lines if len(lines) > 1 else text
    low, high = 0, len(cut)
    while low < high:  # halving finds what fits in a few counts
        middle = (low + high + 1) // 2
        if count("".join(cut[:middle])) <= room:
            low = middle
        else:
            high = middle - 1
    shown = "".join(cut[:low]).rstrip() or text[: room * 2]
    return Brought(whole=text, text=shown, tokens=count(shown))


_POINTER_ROOM: Final = 80
"""Tokens for the sentence that says where the rest is."""


def ended(delegation: Delegation, brought: Brought, ending: str, spent: Spent) -> DelegationEnded:
    """What the parent's transcript remembers of the end."""
    return DelegationEnded(
        child=str(delegation.child),
        ending=ending,
        text=brought.whole,
        tokens=spent.tokens,
        cost=spent.cost,
    )


def result_text(
    delegation: Delegation, brought: Brought, ending: str, spent: Spent, entry: str
) -> str:
    """What the delegating model reads as the tool's result; `entry` holds the whole report."""
    cost = "" if spent.cost is None else f", ${spent.cost:.4f}"
    head = (
        f"The sub-agent {delegation.child} ended ({ending}) after {spent.calls} calls and "
        f"{spent.tokens} tokens{cost}. Its whole history can be recalled from that session."
    )
    if not brought.text:
        return f"{head}\nIt brought nothing back."
    if not brought.left_out:
        return f"{head}\n\n{brought.text}"
    rest = f"[{brought.left_out} are not shown. The whole report is entry {entry}: read_entry.]"
    return f"{head}\n\n{brought.text}\n{rest}"


class DelegationFeature(features.Feature):
    """The sub-agents of one session; at most two work at a time."""

    name = "sub-agents"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        tools = self.context.settings.tools
        self._limits = DelegationLimits(
            tokens=tools.delegate_tokens, calls=tools.delegate_calls, seconds=tools.delegate_timeout
        )
        self._running = 0

    def tools(self) -> Sequence[Tool]:
        """Give a task to a sub-agent."""
        return (delegate_tool(self.run, DESCRIPTION),)

    async def run(self, arguments: DelegateArguments, context: ToolContext) -> ToolResult:
        """Give the task to a sub-agent and bring its report back, bounded."""
        work = plan(
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
        self.context.window.record(work.entry(), turn)
        self._running += 1
        try:
            text, ending, spent = await self._work(work)
        except asyncio.CancelledError:
            never = ended(work, Brought(whole="", text="", tokens=0), "interrupted", Spent())
            self.context.window.record(never, turn)
            raise
        finally:
            self._running -= 1
        brought = bring_back(text, work.limits, self.context.count)
        line = self.context.window.record(ended(work, brought, ending, spent), turn)
        for event in announcements(line):
            self.context.tell(event)
        return ToolResult(
            text=result_text(work, brought, ending, spent, line.id),
            status="ok" if ending == "done" else "error",
            finding=f"sub-agent {ending}, {spent.calls} calls, {spent.tokens:,} tokens"
            + ("" if spent.cost is None else f", ${spent.cost:.4f}"),
            origin=f"sub-agent {work.child}",
        )

    async def _work(self, work: Delegation) -> tuple[str, str, Spent]:
        """The child's last answer, how it ended, and what it used."""
        services = await self._open(work)
        began = time.monotonic()
        spent = Spent()
        answer, ending, over = "", "failed", ""
        said = UserMessage(text=work.message(), name=DELEGATING)

        def tell(event: events.AnyEvent) -> None:
            nonlocal answer, ending, over, spent
            match event:
                case events.AnswerRecorded(text=text) if text:
                    answer = text
                case events.UsageReported(usage=usage):
                    spent = Spent(
                        tokens=spent.tokens + (usage.prompt or 0) + (usage.completion or 0),
                        calls=spent.calls + 1,
                        seconds=round(time.monotonic() - began, 3),
                        cost=_added(spent.cost, usage.cost),
                    )
                    if not over and (over := exceeded(work.limits, spent)):
                        _stop(f"Stopped: {over}.")
                case events.TurnEnded(ending="done"):
                    ending = "done"
                case events.TurnEnded(ending=how, why=why):
                    ending = f"stopped: {over}" if over else f"{how}: {why}"

        try:
            async with asyncio.timeout(work.limits.seconds) as limit:
                services.context.ask_through = partial(self._ask, work, limit)
                await take_turn(services.context, said, tell, "delegated")
            if limit.expired():
                ending = f"stopped: it took longer than {work.limits.seconds:g} seconds"
        finally:
            await _close(services)
        return answer, ending, spent

    async def _ask(
        self, work: Delegation, limit: asyncio.Timeout, question: events.ToolAsked
    ) -> events.Answer:
        """Put a sub-agent's question where its parent's are put; a person may take their time."""
        clock = asyncio.get_running_loop().time
        left = (limit.when() or clock()) - clock()
        limit.reschedule(None)
        call = f"{work.call}/{question.call}"
        asked = msgspec.structs.replace(question, call=call, helper=one_line(work.task, 60))
        answer = await ask_beside(self.context, asked, "sub-agent")
        limit.reschedule(clock() + left)
        return answer

    def _assemble(self, work: Delegation) -> SessionServices:
        opening = self.session.opening.for_child(
            work.child, model=self.context.model, offered=work.tools, calls=work.limits.calls
        )
        return build.assemble(opening)

    async def _open(self, work: Delegation) -> SessionServices:
        """Assemble the child off the loop; whoever stops waiting for it leaves nothing open."""
        opening = asyncio.create_task(asyncio.to_thread(self._assemble, work))
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
