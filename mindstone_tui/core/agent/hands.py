"""Running the tools a model asked for: intent, permission and result, each on disk in its turn."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.desk import Desk, Judged
from mindstone_tui.core.agent.loops import LoopWatch
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import (
    ToolApproved,
    ToolCalled,
    ToolRefused,
    ToolReturned,
    ToolStatus,
)
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.foreign import as_data, fresh_nonce, one_line
from mindstone_tui.core.tools.tool import Tool, ToolContext, ToolResult

MOST_CALLS = 64
"""Calls of one answer that are run; the rest get a result that says so."""


async def use_tools(
    desk: Desk, turn: int, calls: tuple[ToolCall, ...], watch: LoopWatch
) -> AsyncIterator[events.AnyEvent]:
    """Run each call in order; when this ends, every one of them has a result on disk."""
    for number, call in enumerate(calls):
        if number >= MOST_CALLS:
            why = f"Only the first {MOST_CALLS} calls of one answer are run."
            yield _returned(desk, turn, call, _failed(why))
            continue
        async for event in _use(desk, turn, call, watch):
            yield event


def interrupt_unanswered(desk: Desk, turn: int, calls: tuple[ToolCall, ...], why: str) -> None:
    """Give every call that has no result one that says it was interrupted."""
    answered = desk.working_set.answered_calls(turn)
    for call in calls:
        if call.id not in answered:
            result = ToolResult(text=why, status="interrupted", finding="interrupted")
            _record(desk, turn, call, result)


async def _use(
    desk: Desk, turn: int, call: ToolCall, watch: LoopWatch
) -> AsyncIterator[events.AnyEvent]:
    tool = desk.tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(desk.tools)) or "none"
        yield _returned(desk, turn, call, _failed(f"There is no tool {call.name}; known: {known}."))
        return
    try:
        arguments = _arguments(call)
        judged = desk.gate.judge(tool, arguments, desk.tool_context(call.id))
    except MindstoneError as error:
        yield _returned(desk, turn, call, _failed(f"{error.what} {error.remedy}".strip()))
        return
    desk.record(
        ToolCalled(
            call=call.id,
            name=tool.name,
            shown=judged.shown,
            digest=judged.digest,
            risk=tool.risk,
        ),
        turn,
    )
    if (circle := watch.why_not(call)) is not None:
        yield _refused(desk, turn, call, "loop detection", f"Not run again: {circle}.")
        return
    async for event in _permit(desk, turn, call, tool, judged):
        yield event
    if call.id in desk.working_set.answered_calls(turn):
        return
    yield events.ToolStarted(turn=turn, call=call.id, name=tool.name, shown=judged.shown)
    outcome: list[ToolResult] = []
    async for event in _run(turn, call, tool, arguments, judged.context, outcome):
        yield event
    watch.note(call, outcome[0].text)
    yield _returned(desk, turn, call, outcome[0])


async def _permit(
    desk: Desk, turn: int, call: ToolCall, tool: Tool, judged: Judged
) -> AsyncIterator[events.AnyEvent]:
    """Write down who allowed or refused the call; a refusal is also its result."""
    if judged.verdict == "refuse":
        yield _refused(desk, turn, call, "policy", judged.reason)
        return
    if judged.verdict == "allow":
        approved = ToolApproved(
            call=call.id, digest=judged.digest, by="rule", rule=judged.reason
        )
        desk.record(approved, turn)
        return
    waiting = desk.questions.ask(call.id)
    yield events.ToolAsked(
        turn=turn,
        call=call.id,
        name=tool.name,
        risk=tool.risk,
        shown=judged.shown,
        digest=judged.digest,
        diff=judged.diff,
        why=judged.reason,
        remember=judged.rules,
    )
    answer = await waiting
    if not answer.allowed:
        yield _refused(desk, turn, call, "person", answer.why or "The person said no.")
        return
    desk.gate.remember(answer)
    desk.record(
        ToolApproved(
            call=call.id,
            digest=judged.digest,
            by="person",
            rule=answer.remember,
            remember=answer.keep,
        ),
        turn,
    )


async def _run(
    turn: int,
    call: ToolCall,
    tool: Tool,
    arguments: dict[str, object],
    context: ToolContext,
    outcome: list[ToolResult],
) -> AsyncIterator[events.AnyEvent]:
    """Run the tool and hand its output on while it runs."""
    pieces: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def progress(data: bytes) -> None:
        loop.call_soon_threadsafe(pieces.put_nowait, data.decode("utf-8", "replace"))

    async def work() -> None:
        try:
            outcome.append(
                await tool.run(arguments, msgspec.structs.replace(context, progress=progress))
            )
        except MindstoneError as error:
            outcome.append(_failed(f"{error.what} {error.remedy}".strip()))
        finally:
            pieces.put_nowait(None)

    task = asyncio.create_task(work(), name=f"tool {tool.name}")
    try:
        while (piece := await pieces.get()) is not None:
            yield events.ToolOutput(turn=turn, call=call.id, text=piece)
        await task
    finally:
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _arguments(call: ToolCall) -> dict[str, object]:
    """The arguments as an object; raises with words a model can act on."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError as error:
        raise MindstoneError(
            f"The arguments of {call.name} are not valid JSON: {error}.", "Send them again."
        ) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise MindstoneError(
            f"The arguments of {call.name} must be a JSON object.", "Send them again."
        )
    return arguments


def _failed(why: str, status: ToolStatus = "error") -> ToolResult:
    return ToolResult(text=why, status=status, finding=one_line(why, 160))


def _refused(
    desk: Desk, turn: int, call: ToolCall, by: str, why: str
) -> events.ToolEnded:
    desk.record(ToolRefused(call=call.id, by=by, why=why), turn)
    return _returned(desk, turn, call, _failed(f"Refused by {by}: {why}", "refused"))


def _returned(desk: Desk, turn: int, call: ToolCall, result: ToolResult) -> events.ToolEnded:
    line_id = _record(desk, turn, call, result)
    return events.ToolEnded(
        turn=turn,
        call=call.id,
        name=call.name,
        entry=line_id,
        status=result.status,
        text=result.text,
        finding=result.finding,
        diff=result.diff,
        elapsed=result.elapsed,
    )


def _record(desk: Desk, turn: int, call: ToolCall, result: ToolResult) -> str:
    """Write a result as the model will see it: foreign text delimited as data."""
    text = result.text
    if result.origin:
        text = as_data(text, origin=result.origin, nonce=fresh_nonce())
    full = desk.transcript.keep_blob(result.full) if result.full is not None else None
    line = desk.record(
        ToolReturned(
            call=call.id,
            name=call.name,
            text=text,
            status=result.status,
            finding=result.finding,
            elapsed=round(result.elapsed, 3),
            full=full.sha256 if full else "",
            full_size=full.size if full else 0,
            diff=result.diff,
        ),
        turn,
    )
    return line.id


def digest_of(arguments: dict[str, object]) -> str:
    """The fingerprint of exactly these arguments."""
    return hashlib.sha256(msgspec.json.encode(arguments, order="sorted")).hexdigest()
