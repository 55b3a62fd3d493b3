"""`mindstone acp`: an agent for editors that speak the Agent Client Protocol, on standard streams.

Every session of this home can be opened here while it is open elsewhere; what other surfaces do
appears as it is written. Standard output carries the protocol and nothing else.
"""

import asyncio
import base64
import binascii
import contextlib
import os
import re
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from mindstone_tui import __version__, api
from mindstone_tui.core import diagnostics, entries, patterns, signals, transcript
from mindstone_tui.core import events as ev
from mindstone_tui.core.bounded_json import objects_in, sequence
from mindstone_tui.core.config.settings import McpServerSettings
from mindstone_tui.core.errors import MindstoneError, UsageError
from mindstone_tui.core.events.question import A_LETTER
from mindstone_tui.core.paths import SessionKey, can_be, free_name, project_of
from mindstone_tui.core.session.features import known_commands
from mindstone_tui.core.text import FILE, as_data, fresh_nonce, one_line
from mindstone_tui.servers import acp_updates as show
from mindstone_tui.servers.lookup import Lookup
from mindstone_tui.servers.peer import LONGEST, Handler, Peer, PeerError, PeerGone

VERSION: Final = 1
"""Of the protocol."""
_TITLES: Final = {
    "model": ("Model", "model"),
    "approve": ("Approvals", "mode"),
    "mode": ("How room is made", None),
    "policy": ("What leaves first", None),
}
_PUT: Final = 3
"""How often a question is put that is answered before anybody can have read it."""
_PLAIN: Final = patterns.pattern_of(r"[^a-z0-9]+")


class OpenSession:
    """One session that the editor has open: its events become updates, in order."""

    clock = staticmethod(time.monotonic)

    def __init__(self, conversation: api.Conversation, peer: Peer) -> None:
        self.conversation = conversation
        self._peer = peer
        self._turns: deque[asyncio.Future[ev.TurnEnded | ev.CommandEnded]] = deque()
        self._commands: list[tuple[str, asyncio.Future[ev.TurnEnded | ev.CommandEnded]]] = []
        self._outputs: dict[str, str] = {}
        self._known: set[str] = set()
        """Calls of tools that the editor has seen begin."""
        self._drafted = ""
        """What was shown of an answer of another surface before it was recorded."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        """Questions that the editor shows, by call."""
        self._offering: set[asyncio.Task[None]] = set()
        self._resumed = 0
        """The turn that was left waiting elsewhere and goes on here."""
        self._planned: tuple[tuple[str, str], ...] = ()
        self._listener = asyncio.create_task(self._listen())

    @property
    def name(self) -> str:
        """The session's full name, which is its id here."""
        return self.conversation.session

    async def take(
        self, text: str, pictures: list[entries.Image]
    ) -> ev.TurnEnded | ev.CommandEnded:
        """A message or a slash command, to its end."""
        done: asyncio.Future[ev.TurnEnded | ev.CommandEnded] = (
            asyncio.get_running_loop().create_future()
        )
        line = text.rstrip()
        if line.startswith("/") and "\n" not in line and not pictures:
            self._commands.append((line, done))
            self.conversation.command(line, writing=len(line) * A_LETTER)
        else:
            self.conversation.send(text, images=pictures)
            self._turns.append(done)
        return await done

    async def update(self, told: show.Update) -> None:
        """Show the editor something."""
        await self._peer.tell("session/update", {"sessionId": self.name, "update": told})

    async def close(self) -> None:
        """Close the session, and hear it out."""
        for task in (*self._asking.values(), *self._offering):
            task.cancel()
        await self.conversation.close()
        await self._listener

    async def _listen(self) -> None:
        async for event in self.conversation.events():
            for told in self._updates(event):
                await self.update(told)
            match event:
                case ev.ToolAsked(call=call):
                    self._asking[call] = asyncio.create_task(self._ask(event))
                case ev.ToolAnswered(call=call) | ev.ToolEnded(call=call) if call in self._asking:
                    # A click that comes later is for no other question, whatever that is called.
                    self._asking.pop(call).cancel()
                case ev.TurnStarted(resumed=True, turn=turn):
                    self._resumed = turn
                case ev.MessageWithdrawn(text=text) if text and self._turns:  # the newest first
                    self._turns.pop().set_result(ev.TurnEnded(turn=0, ending="interrupted"))
                case ev.TurnEnded(turn=turn) if turn and turn == self._resumed:
                    await self.show_plan()  # no prompt of the editor began it
                case ev.EntryAppeared(kind="turn_ended"):
                    await self.show_plan()
                case ev.TurnEnded() | ev.CommandEnded():
                    await self.show_plan()
                    self._settle(event)

    def _settle(self, event: ev.TurnEnded | ev.CommandEnded) -> None:
        """Hand an end to whoever waits for it: turns in their order, commands by their words."""
        done = None
        if isinstance(event, ev.TurnEnded):
            done = self._turns.popleft() if self._turns else None
        else:
            for waiting in self._commands:
                if waiting[0] == event.command:
                    self._commands.remove(waiting)
                    done = waiting[1]
                    break
        if done is not None and not done.done():
            done.set_result(event)

    def _updates(self, event: ev.AnyEvent) -> list[show.Update]:
        match event:
            case ev.TextDelta(text=text):
                return [show.said_by_agent(text)]
            case ev.ThinkingDelta(text=text):
                return [show.thought(text)]
            case ev.ToolAsked(call=call, name=name, shown=shown):
                return self._begin(call, name, shown, "pending")
            case ev.ToolStarted(call=call, name=name, shown=shown):
                return self._begin(call, name, shown, "in_progress")
            case ev.ToolOutput(call=call, text=text):
                self._outputs[call] = self._outputs.get(call, "") + text
                return [show.tool_output(call, self._outputs[call])]
            case ev.ToolEnded(call=call, name=name, shown=shown) as end:
                self._outputs.pop(call, None)
                begun = [] if call in self._known else self._begin(call, name, shown, "pending")
                return [*begun, show.tool_ends(call, end.status, end.text, end.diff, end.elapsed)]
            case ev.EntryAppeared(kind="user_message", text=text) if text:
                return [show.said_by_person(text)]
            case ev.AnswerDrafted(text=text):
                self._drafted += text
                return [show.said_by_agent(text)]
            case ev.EntryAppeared(role="assistant", text=text):
                drafted, self._drafted = self._drafted, ""
                rest = text.removeprefix(drafted)
                return [show.said_by_agent(rest)] if rest else []
            case ev.ContextReported(report=report):
                return [show.usage(report)]
            case ev.CommandPrinted(text=text) | ev.ScreenAsked(otherwise=text):
                return [show.said_by_agent(text + "\n")] if text else []
            case _:
                told = show.noted(event)
                return [told] if told is not None else []

    def _begin(self, call: str, name: str, shown: str, status: str) -> list[show.Update]:
        if call in self._known:
            return [{"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status}]
        self._known.add(call)
        return [show.tool_begins(call, name, shown, status)]

    async def _ask(self, asked: ev.ToolAsked) -> None:
        """Put a question to the person at the editor; the first answer on disk holds.

        One that came before anybody can have read it is asked for again. An editor that its person
        lets answer by itself does so each time; that counts for its own turns, and for no other's.
        """
        params = {"sessionId": self.name, **show.question(asked)}
        for _ in range(_PUT):
            began = self.clock()
            try:
                told = await self._peer.ask("session/request_permission", params)
            except PeerGone:  # nobody has decided anything: another surface asks
                return
            except PeerError as error:
                told = error.what
            answer = show.answer_of(asked, told, self.clock() - began)
            if answer.how != show.UNREAD:
                break
        if answer.how == show.CHOSEN or not asked.channel:
            self.conversation.answer(asked.call, answer)
        elif answer.how == show.UNREAD:
            told = "That was answered faster than anybody reads: it waits where it was asked."
            await self.update(show.thought(f"{told}\n"))

    async def show_plan(self) -> None:
        """Tell the editor what is to be done, where it does not know."""
        planned: tuple[tuple[str, str], ...] = ()
        with contextlib.suppress(MindstoneError):
            planned = await asyncio.to_thread(self.conversation.plan)
        if planned != self._planned:
            self._planned = planned
            await self.update(show.plan(planned))


class EditorAgent:
    """The agent's side of the protocol: every method an editor may call."""

    def __init__(self, home: api.Home) -> None:
        self._home = home
        self._lookup = Lookup(home)
        self._open: dict[str, OpenSession] = {}
        self._peer: Peer | None = None
        self.report_bug: Callable[[BaseException], object] = partial(
            diagnostics.record, log=home.places.log
        )

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one editor until it closes its end."""
        self._peer = Peer(reader, writer, self.handlers(), report_bug=self.report_bug)
        try:
            await self._peer.listen()
        finally:
            for session in tuple(self._open.values()):
                await session.close()

    def handlers(self) -> dict[str, Handler]:
        """Methods by name."""
        return {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/set_config_option": self._set_option,
        }

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        # There is one version, and an editor that wants another disconnects.
        return {
            "protocolVersion": VERSION,
            "agentInfo": {"name": "mindstone", "title": "MindStone", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "authMethods": [],
        }

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        cwd = _folder(params)
        settings = self._home.settings
        return await self._connect(settings.acp.session or self._free_name(cwd), cwd, params)

    async def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        session = await self._existing(params)
        told = await self._connect(session, _folder(params), params)
        # The whole of it, a line at a time: what is shown was written, however long it is.
        opened = self._open[told.pop("sessionId")]
        with transcript.History(self._home.places.session(SessionKey.parse(session))) as history:
            standings = transcript.standings_of(history)
            for item in history.read():
                if isinstance(item, entries.Line):
                    for update in show.replayed(history.whole(item), standings):
                        await opened.update(update)
        await opened.show_plan()
        return told

    async def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        told = await self._connect(await self._existing(params), _folder(params), params)
        del told["sessionId"]
        return told

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        listed = await asyncio.to_thread(self._lookup.listed)
        start = int(params.get("cursor") or 0)
        page = self._home.settings.acp.page
        if params.get("cwd"):
            project = str(project_of(_folder(params).resolve()))
            listed = [one for one in listed if one.project == project]
        shown = [
            {
                "sessionId": one.session,
                "cwd": one.folder or str(Path.cwd()),
                "title": one.title or one.session,
                "updatedAt": one.updated,
            }
            for one in listed[start : start + page]
        ]
        more = {"nextCursor": str(start + page)} if start + page < len(listed) else {}
        return {"sessions": shown, **more}

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        del self._open[session.name]
        await session.close()
        return {}

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        text, pictures = _read_prompt(params.get("prompt"), session.conversation)
        if not text.strip() and not pictures:
            raise UsageError("The prompt is empty.", "Say something.")
        ended = await session.take(text, pictures)
        match ended:
            case ev.CommandEnded():
                return {"stopReason": "end_turn"}
            case ev.TurnEnded(ending="interrupted"):
                return {"stopReason": "cancelled"}
            case ev.TurnEnded(ending="failed", why=why, remedy=remedy):
                if "model calls in one turn" in why:
                    return {"stopReason": "max_turn_requests"}
                raise MindstoneError(why, remedy)
        return {"stopReason": "end_turn", "_meta": {"mindstone": {"turn": ended.turn}}}

    async def _cancel(self, params: dict[str, Any]) -> None:
        self._session(params).conversation.interrupt(
            "The person stopped it in the editor.", how="stop in the editor"
        )

    async def _set_option(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        name, value = str(params.get("configId")), str(params.get("value"))
        known = {choice.name: choice for choice in session.conversation.choices()}
        if name not in known or (name != "model" and value not in known[name].known):
            raise UsageError(f"There is no option {name} = {value}.", "See configOptions.")
        ended = await session.take(f"/{name} {value}", [])
        if isinstance(ended, ev.CommandEnded) and not ended.ok:
            raise UsageError(f"{name} could not be set to {value}.", "The conversation says why.")
        return {"configOptions": _options(session.conversation)}

    async def _connect(self, name: str, cwd: Path, params: dict[str, Any]) -> dict[str, Any]:
        """Open a session, or take the one that is open, and tell the editor about it."""
        if (key := str(self._home.key(name))) not in self._open:
            assert self._peer is not None
            servers = dict(_servers(params.get("mcpServers")))
            conversation = await api.connect(
                key, home=self._home, cwd=cwd, channel="acp", asks=True, servers=servers
            )
            self._open[key] = OpenSession(conversation, self._peer)
        session = self._open[key]
        asyncio.get_running_loop().call_soon(self._offer_commands, session)
        return {"sessionId": session.name, "configOptions": _options(session.conversation)}

    def _offer_commands(self, session: OpenSession) -> None:
        """Tell the editor which slash commands there are, after the answer that names the id."""
        commands = [
            {
                "name": command.name,
                "description": command.help,
                **({"input": {"hint": command.usage}} if command.usage else {}),
            }
            for command in known_commands().values()
        ]
        told = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        task = asyncio.create_task(session.update(told))
        session._offering.add(task)
        task.add_done_callback(session._offering.discard)

    async def _existing(self, params: dict[str, Any]) -> str:
        key = SessionKey.parse(str(params.get("sessionId", "")))
        places = self._home.places.session(key)
        if not places.transcript.exists():
            raise UsageError(places.missing().sentence)
        return str(key)

    def _session(self, params: dict[str, Any]) -> OpenSession:
        if (name := str(params.get("sessionId", ""))) not in self._open:
            raise UsageError(f"The session {name} is not open.", "Load or resume it first.")
        return self._open[name]

    def _free_name(self, cwd: Path) -> str:
        """A name that nobody has yet, after the folder."""
        taken = {each.key.main for each in self._home.places.sessions()} | {
            SessionKey.parse(name).main for name in self._open
        }
        return free_name(_PLAIN.sub("-", cwd.name.lower()).strip("-") or "editor", taken)


async def serve(home: api.Home) -> None:
    """Be the agent of the editor that started this program."""
    _expect_pipes()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    # Streams of their own: whoever ends the program still flushes the standard ones.
    said = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    heard = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), said)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, heard)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    serving = asyncio.create_task(EditorAgent(home).run(reader, writer))

    def stop() -> None:
        serving.cancel()

    signals.on_ending(stop)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _expect_pipes() -> None:
    """Refuse streams that cannot be waited on: a file is always ready, and so is its end."""
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        mode = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()):
            raise UsageError(
                f"Standard {name} is neither a pipe nor a terminal.",
                "An editor starts `mindstone acp` and talks with it through pipes.",
            )


def _options(conversation: api.Conversation) -> list[dict[str, Any]]:
    return [
        {
            "type": "select",
            "id": choice.name,
            "name": _TITLES[choice.name][0],
            **({"category": _TITLES[choice.name][1]} if _TITLES[choice.name][1] else {}),
            "currentValue": choice.now,
            "options": [
                {"value": value, "name": value, "description": about}
                for value, about in choice.known.items()
            ],
        }
        for choice in conversation.choices()
    ]


def _folder(params: dict[str, Any]) -> Path:
    named = params.get("cwd")
    if not isinstance(named, str) or not can_be(named) or not Path(named).is_absolute():
        raise UsageError("cwd must be an absolute path.", "Name the folder to work in.")
    return Path(named)


def _servers(named: object) -> Iterator[tuple[str, McpServerSettings]]:
    """The tool servers that an editor has; what they offer asks as every server's tools do."""
    for server in sequence(named):
        match server:
            case {"name": str(name), "command": str(command)}:
                arguments = [str(each) for each in server.get("args") or ()]
                given = _pairs(server.get("env"))
                yield (
                    _server_name(name),
                    McpServerSettings(command=(command, *arguments), env=given),
                )
            case {"type": "http", "name": str(name), "url": str(url)}:
                given = _pairs(server.get("headers"))
                yield _server_name(name), McpServerSettings(url=url, headers=given)
            case _:
                raise UsageError(
                    "A tool server is neither a command nor an address for HTTP.",
                    "Name one of these in the editor's settings.",
                )


def _server_name(name: str) -> str:
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", name)).strip("-_")[:40] or "editor"


def _pairs(listed: object) -> dict[str, str]:
    return {
        str(each["name"]): str(each["value"])
        for each in objects_in(listed)
        if "name" in each and "value" in each
    }


def _read_prompt(blocks: object, conversation: api.Conversation) -> tuple[str, list[entries.Image]]:
    """The words and pictures of a prompt, each part on lines of its own.

    What is linked is named and what is embedded is data, so that neither is taken for a command.
    """
    parts: list[str] = []
    pictures: list[entries.Image] = []
    for number, block in enumerate(sequence(blocks)):
        match block:
            case {"type": "text", "text": str(text)}:
                parts.append(text)
            case {"type": "image", "data": str(data)}:
                pictures.append(conversation.keep(_decoded(data), f"picture-{number}"))
            case {"type": "resource_link", "uri": str(uri)}:
                parts.append(f"[linked: {one_line(uri.removeprefix('file://'), 2_000)}]")
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                origin = f"{FILE}{one_line(uri.removeprefix('file://'), 160)}"
                parts.append(f"\n{as_data(text, origin=origin, nonce=fresh_nonce())}\n")
            case _:
                raise UsageError(
                    "The prompt holds something that cannot be used here.", "Use text."
                )
    return "\n".join(parts), pictures


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise UsageError("A picture of the prompt is not base64.", "Attach it again.") from error
