"""Who may do what: modes, rules, and the exact bytes that were agreed to.

`decide` is pure: a tool, what it will do, the mode and the rules give allow, ask or refuse, with
the reason. An `Approval` is made before anyone is asked; it holds the arguments as bytes, what is
shown of them, and their digest. `carry_out` runs nothing but those bytes, and only while they would
still do what was shown.
"""

import asyncio
import time
import unicodedata
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from mindstone_tui.core.bounded_json import read_as
from mindstone_tui.core.errors import NotAllowed, SandboxUnavailable, ToolError
from mindstone_tui.core.redaction import Finding, Redactor
from mindstone_tui.core.text import as_data
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult, digest_of, finding
from mindstone_tui.core.tools.sandbox import Sandbox
from mindstone_tui.core.tools.shell_rules import Rule, Verdict, covers
from mindstone_tui.core.tools.workspace import Standing

Mode = Literal["read-only", "ask", "auto-edit", "full-auto"]
MODES: Final[tuple[Mode, ...]] = ("read-only", "ask", "auto-edit", "full-auto")
Authority = Literal["person", "rule", "mode", "read-only tool", "client", "your rule", "hook"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a call may go ahead, and why."""

    verdict: Verdict
    reason: str
    by: Authority = "mode"
    rule: str = ""
    confined: bool = False
    """Runs inside the sandbox: no person looked at this command."""
    network: bool = False


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """One call exactly as it was shown."""

    call: str
    tool: str
    arguments: bytes
    digest: str
    """SHA-256 of the arguments."""
    shown: str
    """All of what will happen, every unusual character named."""
    title: str
    warnings: tuple[str, ...] = ()
    """What a person might overlook in it."""
    standing: Standing = "open"
    preview: Preview
    understood: tuple[str, ...] = ()
    """Which arguments came by other names."""


def prepare(tool: Tool, call: str, arguments: str, context: ToolContext) -> Approval:
    """Fix what a call will do, before it is judged; raises `ToolError` when it makes no sense."""
    try:
        given = read_as(arguments or "{}", dict[str, object])
    except msgspec.DecodeError as error:
        raise ToolError(f"The arguments are not JSON: {error}.", "Send one JSON object.") from None
    meant = tool.understand(given)
    preview = tool.preview(meant.arguments, context)
    exact_bytes = msgspec.json.encode(meant.arguments)
    runs = preview.git_runs and f"Git may run what this repository sets: {preview.git_runs}."
    return Approval(
        call=call,
        tool=tool.name,
        arguments=exact_bytes,
        digest=digest_of(exact_bytes),
        shown="\n".join(part for part in (preview.title, preview.body) if part),
        title=preview.title,
        warnings=tuple(
            each
            for each in (preview.caution, runs, *_overlooked(preview.command or preview.title))
            if each
        ),
        standing=preview.standing,
        preview=preview,
        understood=meant.notes,
    )


_ASKS: Final[dict[str, str]] = {
    "ask": "commands and changes are asked about (approvals = ask)",
    "auto-edit": "all but looking and editing is asked about (approvals = auto-edit)",
    "full-auto": "it cannot be confined (approvals = full-auto)",
}
"""Why a mode has a person asked."""


def decide(
    tool: Tool, preview: Preview, *, mode: Mode, rules: tuple[Rule, ...], sandboxed: bool
) -> Decision:
    """Allow, ask or refuse; refusals win over questions, and questions over permissions."""
    if tool.risk == "client":
        return Decision(verdict="allow", reason="it runs at the client", by="client")
    if tool.risk == "write" and preview.standing == "protected":
        return Decision(verdict="refuse", reason="this place is protected")
    if refusing := covers(rules, "refuse", tool.name, preview):
        return _ruled("refuse", refusing)
    if tool.risk == "read":
        if asking := covers(rules, "ask", tool.name, preview):
            return _ruled("ask", asking)
        return Decision(verdict="allow", reason="it only looks", by="read-only tool")
    if mode == "read-only":
        return Decision(verdict="refuse", reason="approvals = read-only")
    if tool.risk == "memory":
        return Decision(verdict="ask", reason="nothing is remembered without consent")
    if asking := covers(rules, "ask", tool.name, preview):
        return _ruled("ask", asking)
    if preview.standing != "open":
        return Decision(verdict="ask", reason="this file steers other programs")
    if allowing := covers(rules, "allow", tool.name, preview):
        if preview.git_runs and not sandboxed:
            why = f"git would run what this repository sets, unconfined: {preview.git_runs}"
            return Decision(verdict="ask", reason=why)
        return _ruled("allow", allowing, confined=tool.risk == "run" and sandboxed)
    return _by_mode(tool, mode, sandboxed)


def _by_mode(tool: Tool, mode: Mode, sandboxed: bool) -> Decision:
    if tool.risk == "write" and mode in ("auto-edit", "full-auto"):
        return Decision(verdict="allow", reason=f"approvals = {mode}")
    if mode == "full-auto" and tool.risk == "run":
        if not tool.confined:
            return Decision(verdict="ask", reason="it acts outside any sandbox")
        if not sandboxed:
            return Decision(verdict="ask", reason="nothing on this machine can confine it")
        return Decision(verdict="allow", reason="it is confined", confined=True)
    return Decision(verdict="ask", reason=_ASKS[mode])


def _ruled(verdict: Verdict, rules: tuple[Rule, ...], *, confined: bool = False) -> Decision:
    return Decision(
        verdict=verdict,
        reason="a rule says so",
        by="rule",
        rule="; ".join(dict.fromkeys(rule.text for rule in rules)),
        confined=confined,
        network=confined and all(rule.network for rule in rules),
    )


def under(decision: Decision, context: ToolContext, sandbox: Sandbox | None) -> ToolContext:
    """The context a call runs in: confined when nobody looked at it."""
    if decision.confined and sandbox is None:
        raise SandboxUnavailable("This call must be confined.", "Ask a person instead.")
    return msgspec.structs.replace(
        context,
        sandbox=sandbox if decision.confined else None,
        network=decision.network,
        unseen=decision.by != "person",
    )


def check_mode(mode: Mode, *, sandboxed: bool) -> None:
    """Refuse a mode this machine cannot keep safe."""
    if mode == "full-auto" and not sandboxed:
        raise SandboxUnavailable(
            "full-auto needs a sandbox, and nothing on this machine can confine a command.",
            "Install bubblewrap, or use auto-edit.",
        )


async def carry_out(
    tool: Tool, approval: Approval, context: ToolContext, *, redactor: Redactor, nonce: str
) -> tuple[ToolResult, tuple[Finding, ...]]:
    """Run exactly what was approved; the result is clean, delimited and never an exception."""
    started = time.monotonic()
    try:
        given, seen = _unchanged(tool, approval, context), approval.preview
        meant = (seen.root, seen.place) if seen.root else ()
        result = await tool.run(given, msgspec.structs.replace(context, meant=meant))
    except NotAllowed as error:
        result = _failed("refused", error)
    except ToolError as error:
        result = _failed("error", error)
    except OSError as error:
        result = _failed("error", ToolError(f"The system refused: {error}.", "Try another way."))
    elapsed = result.elapsed or time.monotonic() - started
    timed = msgspec.structs.replace(result, elapsed=elapsed)
    return await asyncio.to_thread(_clean, timed, redactor, nonce)


def _unchanged(tool: Tool, approval: Approval, context: ToolContext) -> Mapping[str, object]:
    """The approved arguments, if they are still those bytes and still do what was shown."""
    if tool.name != approval.tool or digest_of(approval.arguments) != approval.digest:
        raise NotAllowed("This is not the call that was approved.", "Ask again.")
    given = msgspec.json.decode(approval.arguments, type=dict[str, object])
    if tool.preview(given, context) != approval.preview:
        # Nobody declined: what was allowed is not there any more.
        raise ToolError("Not run: what it would do has changed since it was shown.", "Look again.")
    return given


def _failed(status: Literal["refused", "error"], error: ToolError) -> ToolResult:
    return ToolResult(text=error.sentence, status=status, finding=finding(error.what))


def _clean(
    result: ToolResult, redactor: Redactor, nonce: str
) -> tuple[ToolResult, tuple[Finding, ...]]:
    """Secrets out of every part of a result; foreign text delimited."""
    text, line, diff = (redactor.redact(it) for it in (result.text, result.finding, result.diff))
    full = redactor.redact((result.full or b"").decode("utf-8", "surrogateescape"))
    shown = as_data(text.text, origin=result.origin, nonce=nonce) if result.origin else text.text
    return (
        msgspec.structs.replace(
            result,
            text=shown,
            finding=line.text,
            diff=diff.text,
            full=None if result.full is None else full.text.encode("utf-8", "surrogateescape"),
        ),
        tuple(dict.fromkeys((*text.found, *diff.found, *full.found))),
    )


def _overlooked(text: str) -> list[str]:
    """Letters that look like others, and characters that cannot be seen."""
    if not (strange := dict.fromkeys(sign for sign in text if not sign.isascii())):
        return []
    named = [f"{sign!a} {unicodedata.name(sign, 'UNNAMED')}" for sign in list(strange)[:5]]
    more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
    return [f"Characters outside ASCII: {', '.join(named)}{more}."]
