"""Programs that a person set up to run at certain moments, in the shape other agents know.

A file `hooks.json` has for each event a list of matchers, each with its commands. A hook gets one
JSON object on standard input. Exit code 0 lets things go on, and what it prints may be a JSON
object with `additionalContext`, a decision and a reason; 2 blocks, and standard error says why;
anything else is a failure that is shown and changes nothing. A hook can only make things stricter:
what it calls allowed is still decided by the rules.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from mindstone_tui.core.bounded_json import mapping, objects_in, read_as, sequence
from mindstone_tui.core.text import exact, one_line
from mindstone_tui.core.tools import base, shell

HookEvent = Literal[
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreCompact", "Stop",
    "SessionEnd", "AfterRecall", "Alert",
]  # fmt: skip
EVENTS: Final[tuple[HookEvent, ...]] = get_args(HookEvent)
_SPEAKING: Final = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events whose hooks add what they print, without any JSON around it."""
_OTHER_NAMES: Final = base.OTHER_NAMES["tools"]
"""What other agents call our tools; a matcher may use either name."""
MOST_HOOKS: Final = 64
_KEPT: Final = 1 << 20
_FLOOD: Final = 8 << 20
"""Bytes after which a hook is stopped."""
LONGEST_CONTEXT: Final = 16_384
_LONGEST_REASON: Final = 2_000


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One command for one event."""

    event: HookEvent
    command: str
    source: Literal["user", "project"]
    matcher: str = ""
    seconds: float = 0.0
    """Its own time limit; 0 takes the setting."""

    def fits(self, tool: str) -> bool:
        """Whether it is meant for a tool, by our name or the one that other agents use."""
        if self.matcher in ("", "*"):
            return True
        names = (tool, *_OTHER_NAMES.get(tool, [f"mcp__{tool}"] if "__" in tool else ()))
        try:
            pattern = re.compile(self.matcher)
        except re.error:
            return self.matcher in names
        return any(map(pattern.fullmatch, names))


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook's run means."""

    status: Literal["ok", "blocked", "failed", "timeout"] = "ok"
    why: str = ""
    context: str = ""
    """For the model."""
    said: str = ""
    """For the person."""
    asks: bool = False
    """It wants a person to decide."""


FoundHooks = tuple[tuple[Hook, ...], tuple[str, ...]]
"""Hooks, and what is wrong with their files, in sentences."""


def read_hooks(data: bytes, source: Literal["user", "project"], where: str) -> FoundHooks:
    """The hooks of a file, and what is wrong with it in sentences; a wrong part is left out."""
    try:
        told = read_as(data, object)
    except msgspec.DecodeError as error:
        return (), (f"{where} is not JSON: {error}.",)
    events = mapping(told).get("hooks")
    if not isinstance(events, dict):
        return (), (f'{where} has no "hooks" object.',)
    hooks: list[Hook] = []
    problems: list[str] = []
    for name, matchers in events.items():
        if (event := next((known for known in EVENTS if known == name), None)) is None:
            problems.append(f"{where}: there is no event {one_line(str(name), 60)}.")
            continue
        for matcher in sequence(matchers):
            if not (found := _of_matcher(matcher, event, source)):
                problems.append(f"{where}: a matcher of {event} has no command.")
            hooks += found
    if len(hooks) > MOST_HOOKS:
        problems.append(f"{where}: only the first {MOST_HOOKS} hooks count.")
    return tuple(hooks[:MOST_HOOKS]), tuple(problems[:10])


def _of_matcher(
    matcher: object, event: HookEvent, source: Literal["user", "project"]
) -> list[Hook]:
    fields = mapping(matcher)
    return [
        Hook(
            event=event,
            command=each["command"],
            source=source,
            matcher=str(fields.get("matcher") or ""),
            seconds=_seconds(each.get("timeout")),
        )
        for each in objects_in(fields.get("hooks"))
        if each.get("type", "command") == "command"
        and isinstance(each.get("command"), str)
        and each["command"].strip()
        and "\0" not in each["command"]
    ]


def _seconds(given: object) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    return float(given) if number and isinstance(given, int | float) and 0 < given <= 3_600 else 0.0


async def run_hook(
    hook: Hook, told: Mapping[str, object], context: base.ToolContext, seconds: float
) -> tuple[shell.CommandFinished, HookVerdict]:
    """Run a hook to its end, confined where the context says so; its whole tree ends with it."""
    cwd = context.workspace.cwd
    environ = shell.clean_environment(context.environ, context.passed)
    limit = min(hook.seconds or seconds, 3_600.0)
    finished = await shell.run(
        shell.in_bash(hook.command, context),
        cwd=cwd,
        environ={**environ, "MINDSTONE_PROJECT_DIR": str(cwd), "CLAUDE_PROJECT_DIR": str(cwd)},
        bounds=shell.Bounds(seconds=limit, kept=_KEPT, tail=1024, output=_FLOOD),
        stop=context.stop,
        given=msgspec.json.encode(told),
        watched=context.workspace.roots if hook.source == "project" else (),
    )
    verdict = verdict_of(hook, finished, limit)
    said = f"{verdict.said}{shell.told_of(finished)}".strip()
    return finished, msgspec.structs.replace(verdict, said=said)


def verdict_of(hook: Hook, finished: shell.CommandFinished, seconds: float) -> HookVerdict:
    """What a run means: its exit code first, then what it printed, if that makes sense."""
    if finished.ending == "timeout":
        return HookVerdict(status="timeout", why=f"it took longer than {seconds:g} seconds")
    if finished.ending == "flooded":
        return HookVerdict(status="failed", why=f"it printed more than {_FLOOD:,} bytes")
    if finished.ending == "interrupted":
        return HookVerdict(status="failed", why="interrupted")
    errors = _words(base.decoded(finished.errors))
    if finished.code == 2:
        return HookVerdict(status="blocked", why=errors or "it gave no reason")
    if finished.code != 0:
        said = f": {errors}" if errors else ""
        return HookVerdict(status="failed", why=f"exit code {finished.code}{said}")
    return _printed(hook, base.decoded(finished.kept))


class _Specific(msgspec.Struct):
    additionalContext: str = ""
    permissionDecision: str = ""
    permissionDecisionReason: str = ""


class _Printed(msgspec.Struct):
    decision: str = ""
    reason: str = ""
    systemMessage: str = ""
    stopReason: str = ""
    additionalContext: str = ""
    hookSpecificOutput: _Specific = msgspec.field(default_factory=_Specific)
    continue_: bool = msgspec.field(default=True, name="continue")


def _printed(hook: Hook, text: str) -> HookVerdict:
    stripped = text.strip()
    if not stripped.startswith("{"):
        return HookVerdict(context=_context(stripped) if hook.event in _SPEAKING else "")
    try:
        told = msgspec.json.decode(stripped, type=_Printed)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as error:
        return HookVerdict(status="failed", why=f"what it printed cannot be read: {error}")
    specific = told.hookSpecificOutput
    context = _context(specific.additionalContext or told.additionalContext)
    said = _words(told.systemMessage)
    if not told.continue_:
        return HookVerdict(status="blocked", why=_words(told.stopReason or told.reason), said=said)
    if told.decision in ("block", "deny") or specific.permissionDecision == "deny":
        why = specific.permissionDecisionReason or told.reason
        return HookVerdict(
            status="blocked", why=_words(why) or "it gave no reason", said=said, context=context
        )
    asks = specific.permissionDecision == "ask"
    why = _words(specific.permissionDecisionReason) if asks else ""
    return HookVerdict(context=context, said=said, asks=asks, why=why)


def _context(text: str) -> str:
    if len(text) <= LONGEST_CONTEXT:
        return text
    return f"{text[:LONGEST_CONTEXT]}\n[… {len(text) - LONGEST_CONTEXT:,} more characters left out]"


def _words(text: str) -> str:
    return exact(text.strip()[:_LONGEST_REASON])
