"""What the resident does for attached programs: takes their sessions over, and answers their hooks.

A hook is answered within moments or not at all. Whatever takes longer goes on here after the hook
has left; nothing here calls a model, and nothing that fails reaches the other program.
"""

import asyncio
import contextlib
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from mindstone_tui import api
from mindstone_tui.core import diagnostics, disk, entries, errors, transcript
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.features.rules import record_firing, ruling_on
from mindstone_tui.core.interchange.attach_targets import BEFORE_A_TOOL, TARGETS
from mindstone_tui.core.interchange.import_session import key_of
from mindstone_tui.core.interchange.launcher import LAUNCHER, check_content, marker_in
from mindstone_tui.core.library import at_action, compactions, project_recall, take_over, watch
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.servers.peer import Handler

T = TypeVar("T")
_TICK: Final = 0.25
_MANY_FILES: Final = 4_096
_ENDED: Final = "session_end"
_WORTH_A_HANDOFF: Final = 3
"""Turns of a session that ends for which a handoff is written."""

Moment = Literal["start", "prompt", "before", "tool", "compact", "stop", "end"]
MOMENTS: Final[Mapping[str, Moment]] = {
    "SessionStart": "start",
    **dict.fromkeys(("UserPromptSubmit", "BeforeAgent"), "prompt"),
    **dict.fromkeys(BEFORE_A_TOOL, "before"),
    **dict.fromkeys(("PostToolUse", "PostToolUseFailure", "AfterTool"), "tool"),
    **dict.fromkeys(("PreCompact", "PreCompress"), "compact"),
    **dict.fromkeys(("Stop", "SubagentStop", "AfterAgent"), "stop"),
    "SessionEnd": "end",
}
"""What a hook's event means, whatever the program calls it."""


class HookCall(msgspec.Struct, kw_only=True):
    """What a program says to a hook; anything may be missing."""

    program: str = ""
    event: str = msgspec.field(default="", name="hook_event_name")
    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    prompt: str = ""
    source: str = ""
    trigger: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    tool_input: str = ""
    """The arguments of a call, as JSON."""
    tool_response: str = ""
    """What a call gave back, as text."""
    error: str = ""
    """What it said instead, where the program knows that it failed."""

    @property
    def tool(self) -> entries.ToolCall:
        """The call that is about to run, or has."""
        return entries.ToolCall(id=self.tool_use_id, name=self.tool_name, arguments=self.tool_input)

    @property
    def file(self) -> Path | None:
        """The program's own session file, if it named one."""
        path = Path(self.transcript_path)
        return path if self.transcript_path and path.is_absolute() else None

    @property
    def key(self) -> SessionKey | None:
        """The session of ours that the program's is taken into."""
        return key_of(self.program, self.session_id, "default") if self.session_id else None


def call_of(params: dict[str, Any]) -> HookCall:
    """A moment as its hook passed it on, with what is no text left out."""
    given = dict(params.get("said") or {})
    fields = {name: value for name, value in given.items() if isinstance(value, str)}
    fields["tool_input"] = msgspec.json.encode(given.get("tool_input")).decode()
    if isinstance(response := given.get("tool_response"), dict):
        texts = (response.get(name) for name in ("stdout", "stderr", "output", "error"))
        fields["tool_response"] = "\n".join(each for each in texts if isinstance(each, str))
    return msgspec.convert({**fields, "program": str(params.get("program", ""))}, HookCall)


def _given(call: HookCall, context: str) -> dict[str, Any]:
    """What the program reads from its hook, in the form that all of them share."""
    if not context:
        return {}
    return {"hookSpecificOutput": {"hookEventName": call.event, "additionalContext": context}}


def _refusal(call: HookCall, verdict: str, why: str) -> dict[str, Any]:
    """That a rule speaks against a call, in the form that the program obeys."""
    known, why = TARGETS.get(call.program), f"A rule that the person set: {why}"
    if verdict == "ask" and not (known and known.asks):
        verdict = "deny"
        why += " Nobody can be asked from here: stop, and let the person do it or lift the rule."
    if call.event == "BeforeTool":
        return {"decision": verdict, "reason": why}
    said = {"hookEventName": call.event, "permissionDecision": verdict}
    return {"hookSpecificOutput": {**said, "permissionDecisionReason": why}}


def alone() -> None:
    """Answer a hook before a tool where no resident can: what the rules say, and nothing else."""
    given = msgspec.json.decode(sys.stdin.buffer.read())
    call, places = call_of({"program": sys.argv[1], "said": given}), Places.resolve(os.environ)
    own = places.session(key_of(call.program, call.session_id, "default"))
    said = ruling_on(places, call.tool, Path(call.cwd), lambda: own)
    if said.rule is not None:
        record_firing(said, call.tool, own, places.log, take_over.Cleaner(os.environ))
    told = _refusal(call, said.verdict, said.why) if said.rule else {}
    sys.stdout.buffer.write(msgspec.json.encode(told))


class Attached:
    """Follows the programs' files and answers their hooks."""

    def __init__(self, home: api.Home) -> None:
        self.last_asked = time.monotonic()
        """When a hook last said something, by the process's clock."""
        self._home = home
        _allow_many_files()
        settings = self._home.settings
        self._watch = watch.FolderWatch(home.places, settings, home.environ)
        self._recall = project_recall.ProjectRecall(home.places, settings, home.environ)
        self._clean = take_over.Cleaner(home.environ)
        self._marker = marker_in(home.places)
        self._at_action = at_action.AtAction(home.places, home.environ, settings.recall.exclude)
        self._refused = ""
        # One at a time: two looks at one file would wait for each other anyway.
        self._taking = ThreadPoolExecutor(1, "attached")
        self._compactions = compactions.Compactions(home.places, self._clean, self._taking.submit)
        self._asking = ThreadPoolExecutor(1, "attached-recall")
        self._going_on: set[asyncio.Task[object]] = set()

    def methods(self) -> dict[str, Handler]:
        """What hooks may ask."""
        return {"hook": self._hook}

    async def run(self) -> None:
        """Follow files until cancelled; folders only if somebody wanted it and nobody else does."""
        # Beside the questions, not before them: until it is done, words alone answer.
        self._go_on(asyncio.to_thread(self._recall.warm_up))
        places = self._home.places
        with contextlib.ExitStack() as held:
            follows = False
            while True:
                if not watch.is_wanted(places):
                    held.close()
                    follows = False
                elif not follows and self._home.settings.attach.watch:
                    if follows := held.enter_context(watch.only_watch(places)):
                        await self._in(self._taking, self._watch.begin)
                    else:
                        held.close()
                try:
                    await self._in(self._taking, partial(self._watch.step, folders=follows))
                except Exception as error:  # a bug must not end the recording of everything else
                    diagnostics.record(error, places.log)
                await asyncio.sleep(_TICK)

    async def done(self) -> None:
        """Wait for whatever goes on after its hook has left."""
        await asyncio.gather(*self._going_on, return_exceptions=True)

    async def close(self) -> None:
        """Remember what was taken."""
        for task in self._going_on:
            task.cancel()
        await self._in(self._taking, self._watch.keep)
        self._taking.shutdown()
        self._asking.shutdown()
        self._recall.close()
        self._at_action.close()

    def _launcher_is_ours(self) -> bool:
        """Whether nobody changed what calls us; what somebody did is told in the log, once."""
        places = self._home.places
        try:
            check_content(places.state / LAUNCHER)
        except errors.MindstoneError as error:
            if self._refused != error.sentence:
                self._refused = error.sentence
                diagnostics.note(error.sentence, places.log)
            return False
        return True

    async def _hook(self, params: dict[str, Any]) -> dict[str, Any]:
        self.last_asked = time.monotonic()
        if not self._launcher_is_ours():
            return {}
        call = call_of(params)
        match MOMENTS.get(call.event):
            case "prompt":
                self._get_ready_to_act(call)
                self._take(call, settled=False)
                return _given(call, await self._in(self._asking, partial(self._for_prompt, call)))
            case "start":
                self._get_ready_to_act(call)
                offered = await self._in(self._asking, partial(self._offer, call))
                self._go_on(self._in(self._asking, partial(self._recall.get_ready, Path(call.cwd))))
                return _given(call, offered)
            case "before":
                return await self._before(call)
            case "tool":
                self._take(call, settled=True)
                return _given(call, await self._at_moment(self._after, call))
            case "stop":
                self._take(call, settled=True)
            case "compact":
                self._take(call, settled=True)
                await self._in(self._taking, partial(self._hand_over, call, compactions.BEFORE))
                self._go_on(self._in(self._taking, partial(self._announce, call)))
            case "end":
                self._go_on(self._in(self._taking, partial(self._end, call)))
        return {}

    async def _before(self, call: HookCall) -> dict[str, Any]:
        """A refusal where a rule speaks against a call, else what is known of what it is about.

        It is let through whatever fails here.
        """
        asked, places = call.tool, self._home.places
        own = places.session(key_of(call.program, call.session_id, "default"))
        try:
            mirror = partial(self._caught_up, own, call)
            said = await asyncio.to_thread(ruling_on, places, asked, Path(call.cwd), mirror)
        except Exception as error:  # not checked is better than a program that cannot go on
            diagnostics.record(error, places.log)
            return {}
        if said.rule is None:
            # Gemini CLI reads no context before a tool.
            reads = call.event != "BeforeTool"
            return _given(call, await self._at_moment(self._known_before, call)) if reads else {}
        self._take(call, settled=False)
        fired = partial(record_firing, said, asked, own, places.log, self._clean)
        self._go_on(self._in(self._taking, fired))
        return _refusal(call, said.verdict, said.why)

    async def _at_moment(self, ask: Callable[[HookCall, SessionKey], str], call: HookCall) -> str:
        """What earlier sessions know of an act; whatever fails, the act goes on."""
        if call.key is None or not self._marker.exists():
            return ""
        try:
            return await asyncio.to_thread(ask, call, call.key)
        except Exception as error:  # nothing said is better than a program that cannot go on
            diagnostics.record(error, self._home.places.log)
            return ""

    def _known_before(self, call: HookCall, own: SessionKey) -> str:
        return self._at_action.before(call.tool, Path(call.cwd), own)

    def _after(self, call: HookCall, own: SessionKey) -> str:
        result = ToolReturned(
            call=call.tool_use_id,
            name=call.tool_name,
            text=call.error or call.tool_response,
            status="error" if call.error else "ok",
        )
        known = call.program != "codex"
        return self._at_action.after(call.tool, result, Path(call.cwd), own, ends_known=known)

    def _get_ready_to_act(self, call: HookCall) -> None:
        """A turn begins: read what it may be told, and let hooks know whether it may be."""
        if not self._home.settings.attach.at_action:
            self._marker.unlink(missing_ok=True)
            return
        with contextlib.suppress(OSError, errors.MindstoneError):
            if not self._marker.exists():
                disk.replace_file(self._marker, b"")
        self._go_on(asyncio.to_thread(self._at_action.get_ready, Path(call.cwd)))

    def _caught_up(self, own: SessionPlaces, call: HookCall) -> SessionPlaces:
        """The session that mirrors a program's, with all that was done there so far."""
        if call.file is not None:
            take = partial(self._watch.take, call.file, settled=True, folder=call.cwd)
            self._taking.submit(take).result()
        return own

    def _for_prompt(self, call: HookCall) -> str:
        lost = self._lost(call)
        stands = self._compactions.in_window(self._places(call.key)) if call.key else ()
        found = self._recall.for_prompt(call.prompt, Path(call.cwd), call.key, stands)
        return "\n\n".join(filter(None, (lost, found)))

    def _announce(self, call: HookCall) -> None:
        if call.key is not None:
            by_hand = call.trigger == "manual"
            self._compactions.announce(self._places(call.key), Path(call.cwd), by_hand=by_hand)

    def _lost(self, call: HookCall) -> str:
        """What the program's own compaction lost."""
        if call.key is None or not self._home.settings.attach.handoff:
            return ""
        own, starts = self._places(call.key), call.source == "compact"
        tokens = self._home.settings.attach.handoff_tokens
        return self._compactions.lost(own, Path(call.cwd), call.file, tokens, starts=starts)

    def _offer(self, call: HookCall) -> str:
        """A new session is offered the handoff before it; one that was compacted, what it lost."""
        if not self._home.settings.attach.handoff or call.source == "resume":
            return ""
        if call.source == "compact":
            return self._lost(call)
        tokens = self._home.settings.attach.handoff_tokens
        newest = self._recall.newest_session(Path(call.cwd), besides=call.key)
        return project_recall.offer(newest, tokens) if newest is not None else ""

    def _hand_over(self, call: HookCall, trigger: str) -> None:
        if call.key is not None:
            project_recall.hand_over(
                self._home.places, call.key, Path(call.cwd), self._clean, trigger
            )

    def _end(self, call: HookCall) -> None:
        if call.file is not None:
            self._watch.end(call.file)
        if call.key is not None and self._turns(call.key) >= _WORTH_A_HANDOFF:
            self._hand_over(call, _ENDED)

    def _turns(self, key: SessionKey) -> int:
        with (
            contextlib.suppress(errors.MindstoneError, OSError),
            transcript.History(self._places(key)) as history,
        ):
            return next((line.turn for line in history.back() if isinstance(line, entries.Line)), 0)
        return 0

    def _places(self, key: SessionKey) -> SessionPlaces:
        return self._home.places.session(key)

    def _take(self, call: HookCall, *, settled: bool) -> None:
        if call.file is not None:
            work = partial(self._watch.take, call.file, settled=settled, folder=call.cwd)
            self._go_on(self._in(self._taking, work))

    def _go_on(self, work: Any) -> None:
        """Let something go on after its hook has left."""
        task: asyncio.Task[object] = asyncio.ensure_future(work)
        self._going_on.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._going_on.discard(task)
        if not task.cancelled():
            task.exception()  # whatever it was, the next look at the file tries again

    def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(pool, work)


def _allow_many_files() -> None:
    """Let this process have as many files open as its user may: each session's index is three."""
    low, high = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if high == resource.RLIM_INFINITY else min(_MANY_FILES, high)
    if low < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, high))
