"""Hooks in a session: run at their moment, written down, and heard where they may be."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mindstone_tui.core import bounded_json, errors, events, paths, redaction
from mindstone_tui.core.agent.permissions import Permissions
from mindstone_tui.core.context import window, window_view
from mindstone_tui.core.entries import Entry, Line, ToolCall
from mindstone_tui.core.entries.actions import kind_of
from mindstone_tui.core.entries.derived import HookRun
from mindstone_tui.core.text import as_data, exact, fresh_nonce, one_line
from mindstone_tui.core.tools.base import ToolContext, ToolResult
from mindstone_tui.core.tools.hooks import FoundHooks, Hook, HookEvent, HookVerdict, run_hook
from mindstone_tui.core.tools.sandbox import why_refused

_ADDING: frozenset[HookEvent] = frozenset(
    {"UserPromptSubmit", "PreToolUse", "PostToolUse", "AfterRecall"}
)
"""Events whose hooks may add to the prompts of the running turn."""

Memory = Callable[[ToolCall, ToolResult | None], str]
"""What is known of a call, before it runs or with its result; empty for nothing, never raises."""


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """What the hooks of one event came to."""

    lines: tuple[Line, ...] = ()
    tail: tuple[int, ...] = ()
    """Lines whose text joins the prompts of this turn."""
    blocked: str | None = None
    """Why things must not go on; None when they may."""
    asks: str | None = None
    """Why a person has to decide; None when nobody asked for that."""
    context: str = ""
    """What was added, in all."""

    @property
    def notices(self) -> list[events.Noticed]:
        """What a person should read."""
        return notices_of(self.lines)


def notices_of(lines: Sequence[Line]) -> list[events.Noticed]:
    """What a person should read of the hooks among some lines."""
    found = []
    for entry in (line.entry for line in lines):
        if not isinstance(entry, HookRun):
            continue
        named = f"Hook {entry.event} ({one_line(entry.command, 60)})"
        if entry.status in ("failed", "timeout"):
            text = f"{named} failed and changed nothing: {one_line(entry.why, 300)}"
            found.append(events.Noticed(message=text, level="warning"))
        if entry.said:
            found.append(events.Noticed(message=f"{named}: {one_line(entry.said, 300)}"))
    return found


class Hooks(msgspec.Struct, eq=False):
    """The hooks that hold for a session now."""

    load: Callable[[], FoundHooks]
    record: Callable[[Entry, int | None], Line]
    places: paths.SessionPlaces
    permissions: Permissions
    tool_context: Callable[[str], ToolContext]
    redactor: redaction.Redactor
    seconds: float
    network: bool
    all: tuple[Hook, ...] = ()
    """Every hook that would be run."""
    problems: tuple[str, ...] = ()
    """What is wrong with their files, in sentences."""
    started: str = ""
    """What hooks said at the start of the session, for the head of its prompts."""
    _began: bool = False
    memory: Memory | None = None
    """Asked about each call, if earlier sessions may speak at the point of action."""

    def refresh(self) -> None:
        """Read the files again: one may have changed, or a project been trusted."""
        self.all, self.problems = self.load()

    def wanted(self, event: HookEvent, tool: str = "") -> list[Hook]:
        """The hooks of an event; for a tool, those that fit it."""
        return [hook for hook in self.all if hook.event == event and (not tool or hook.fits(tool))]

    async def begin(self, *, resumed: bool, turn: int | None) -> Fired:
        """The start of a session, once; what its hooks say stands in the head from here on."""
        if self._began:
            return Fired()
        self._began = True
        fired = await self.fire(
            "SessionStart", {"source": "resume" if resumed else "startup"}, turn=turn
        )
        self.started = fired.context
        return fired

    async def before_tool(self, name: str, arguments: str, call: str, turn: int) -> Fired:
        """Whether hooks let a call go on."""
        told = self._of_tool(name, arguments, call)
        fired = await self.fire("PreToolUse", told, tool=name, turn=turn)
        asked = ToolCall(id=call, name=name, arguments=arguments)
        return fired if fired.blocked else await self._remembering(fired, asked, None, turn)

    async def after_tool(
        self, name: str, arguments: str, call: str, turn: int, result: ToolResult
    ) -> Fired:
        """What hooks say to a call's result; one that blocks says so to the model."""
        fired = Fired()
        if self.wanted("PostToolUse", name):
            response = {"status": result.status, "text": result.text, "diff": result.diff}
            told = {**self._of_tool(name, arguments, call), "tool_response": response}
            fired = await self.fire("PostToolUse", told, tool=name, turn=turn)
        asked = ToolCall(id=call, name=name, arguments=arguments)
        return await self._remembering(fired, asked, result, turn)

    async def _remembering(
        self, fired: Fired, call: ToolCall, result: ToolResult | None, turn: int
    ) -> Fired:
        """What earlier sessions know of a call, beside what hooks said; its result if it has one.

        It is an entry like a hook's, as data: nobody's words to the model.
        """
        if self.memory is None or kind_of(call.name) not in ("change", "command"):
            return fired
        text = await asyncio.to_thread(self.memory, call, result)
        if not text:
            return fired
        event = "PreToolUse" if result is None else "PostToolUse"
        entry = HookRun(event=event, command="memory", source="mindstone", text=text)
        line = self.record(entry, turn)
        return msgspec.structs.replace(
            fired, lines=(*fired.lines, line), tail=(*fired.tail, line.seq)
        )

    async def before_compact(self, trigger: str, turn: int | None = None) -> Fired:
        """Exchanges are about to leave or to be summarised."""
        told = {"trigger": trigger, "custom_instructions": ""}
        return await self.fire("PreCompact", told, turn=turn)

    async def end(self, seconds: float) -> Fired:
        """The session is about to be closed."""
        if not self._began:
            return Fired()
        return await self.fire("SessionEnd", {"reason": "close"}, seconds=seconds)

    def _of_tool(self, name: str, arguments: str, call: str) -> dict[str, object]:
        given = dict(bounded_json.read_arguments(arguments) or {})
        if isinstance((path := given.get("path")), str) and "file_path" not in given:
            given["file_path"] = str(self.tool_context(call).workspace.cwd / path)
        return {"tool_name": name, "tool_input": given, "tool_use_id": call}

    async def fire(
        self,
        event: HookEvent,
        told: Mapping[str, object],
        *,
        tool: str = "",
        turn: int | None = None,
        seconds: float = 0.0,
    ) -> Fired:
        """Run the hooks of an event in order until one blocks; each run is an entry."""
        lines: list[Line] = []
        contexts: list[str] = []
        asks: str | None = None
        blocked: str | None = None
        for hook in self.wanted(event, tool):
            entry, verdict = await self._run(hook, told, seconds or self.seconds)
            lines.append(self.record(entry, turn))
            if verdict.context:
                contexts.append(verdict.context)
            if verdict.asks:
                asks = verdict.why or "a hook wants you to decide"
            if verdict.status == "blocked":
                blocked = verdict.why
                break
        tail = [line.seq for line in lines if isinstance(line.entry, HookRun) and line.entry.text]
        return Fired(
            lines=tuple(lines),
            tail=tuple(tail) if event in (*_ADDING, "Stop") else (),
            blocked=blocked,
            asks=asks,
            context="\n\n".join(contexts),
        )

    async def _run(
        self, hook: Hook, told: Mapping[str, object], seconds: float
    ) -> tuple[HookRun, HookVerdict]:
        context = self.tool_context(f"hook {hook.event}")
        elapsed, code = 0.0, 0
        try:
            sandbox = await self.permissions.find_sandbox()
            confined = hook.source == "project" or self.permissions.mode == "full-auto"
            if confined and sandbox is None:
                verdict = HookVerdict(
                    status="failed", why="nothing on this machine can confine a project's hook"
                )
            else:
                held = msgspec.structs.replace(
                    context, sandbox=sandbox if confined else None, network=self.network
                )
                given = await asyncio.to_thread(self._told, hook, told)
                finished, verdict = await run_hook(hook, given, held, seconds)
                elapsed, code = finished.elapsed, finished.code
                if confined and verdict.status in ("failed", "blocked"):
                    refused = why_refused(verdict.why)
                    why = f"{verdict.why} ({refused})" if refused else verdict.why
                    verdict = msgspec.structs.replace(verdict, why=why)
        except (errors.MindstoneError, OSError) as error:
            verdict = HookVerdict(status="failed", why=str(error))
        entry = HookRun(
            event=hook.event,
            command=hook.command,
            source=hook.source,
            status=verdict.status,
            code=code,
            why=verdict.why,
            text=self._block(hook, verdict),
            said=verdict.said,
            elapsed=round(elapsed, 3),
        )
        return entry, verdict

    def _told(self, hook: Hook, told: Mapping[str, object]) -> dict[str, object]:
        """What a hook is given, without secrets."""
        given = {
            "session_id": str(self.places.key),
            "transcript_path": str(self.places.transcript),
            "cwd": str(self.tool_context("hook").workspace.cwd),
            "hook_event_name": hook.event,
            "permission_mode": self.permissions.mode,
            **told,
        }
        if not self.redactor.redact(msgspec.json.encode(given).decode()).found:
            return given
        return {key: self._without_secrets(key, each) for key, each in given.items()}

    def _without_secrets(self, key: str, value: object) -> object:
        """The same with each text by itself: a guard must see all that is not secret."""
        match value:
            case str():
                text = self.redactor.redact(msgspec.json.encode({key: value}).decode()).text
                with contextlib.suppress(
                    msgspec.DecodeError, KeyError
                ):  # by the name before it, too
                    return msgspec.json.decode(text, type=dict[str, str])[key]
                return self.redactor.redact(value).text
            case dict():
                return {str(name): self._without_secrets(name, it) for name, it in value.items()}
            case list():
                return [self._without_secrets(key, each) for each in value]
        return value

    def _block(self, hook: Hook, verdict: HookVerdict) -> str:
        """What the model reads of it: a person's own hook by name, a project's as data."""
        text = verdict.context
        if verdict.status == "blocked" and hook.event in ("PostToolUse", "Stop"):
            text = "\n".join(filter(None, [text, verdict.why]))
        if not text:
            return ""
        clean = self.redactor.redact(text).text
        if hook.source == "project":
            return as_data(clean, origin=f"hook {hook.event}", nonce=fresh_nonce())
        return f"[From the user's hook {hook.event}]\n{clean}"


class AlertHooks:
    """Runs the hooks for alerts beside everything else, and sees them to their end."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._running: set[asyncio.Task[Fired]] = set()

    def hear(self, event: events.AnyEvent) -> None:
        """Run hooks if this is an alert."""
        if not isinstance(event, events.AlertRaised) or not self._hooks.wanted("Alert"):
            return
        told = {name: getattr(event, name) for name in ("level", "metric", "message", "remedy")}
        task = asyncio.create_task(self._fire(told), name="alert hooks")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _fire(self, told: Mapping[str, object]) -> Fired:
        try:
            return await self._hooks.fire("Alert", told)
        except errors.EntryNotSaved:  # the disk's own alarm is louder
            return Fired()

    async def close(self) -> None:
        """Wait for those that run."""
        await asyncio.gather(*self._running, return_exceptions=True)


def announced_first(hooks: Hooks, make_room: window.RoomMaker) -> window.RoomMaker:
    """Room is made as before, but hooks hear of it first, and one may put it off for a while.

    Beyond the emergency mark it is not put off: the next request would not fit.
    """

    async def maker(live: window.LiveWindow, call: window_view.Call) -> list[Line]:
        if not hooks.wanted("PreCompact"):
            return await make_room(live, call)
        settings = live.settings
        full = 100 * live.measure(call).total / max(call.room.usable, 1)
        mark = settings.cascade.evict if live.mode == "cascade" else settings.context.ceiling
        if full < mark:
            return await make_room(live, call)
        fired = await hooks.before_compact("auto", call.turn)
        if fired.blocked is not None and full < settings.context.emergency:
            return list(fired.lines)
        return [*fired.lines, *await make_room(live, call)]

    return maker


def shown(hooks: Sequence[Hook]) -> str:
    """Hooks with their exact commands, for a person who must agree to them."""
    return "\n".join(
        f"{hook.event}{f' [{exact(hook.matcher)}]' if hook.matcher else ''} ({hook.source}): "
        f"{exact(hook.command)}"
        for hook in hooks
    )
