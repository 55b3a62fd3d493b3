"""`mindstone acp`, driven by the protocol's own Python client and by acpx."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import mindstone_tui
from mindstone_tui import api
from mindstone_tui.core import events
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ToolAnswered
from mindstone_tui.core.errors import UsageError
from mindstone_tui.servers.acp import _servers
from mindstone_tui.servers.acp_updates import CHOSEN, UNREAD, diffs
from tests.core.session.stage import calls, check_history, script
from tests.test_exact_words import asked_in

acp: Any = None
schema: Any = None

ROOT = Path(__file__).parents[2]
AGENT = [sys.executable, "-m", "mindstone_tui", "acp"]
PATIENCE = 90.0


@pytest.fixture(autouse=True)
def protocol() -> None:
    """The protocol's library, a second of import that only whoever runs these tests should pay."""
    global acp, schema
    acp = pytest.importorskip("acp", reason="agent-client-protocol is not installed")
    schema = pytest.importorskip("acp.schema")


class Editor:
    """An editor's side: everything it was shown, and what it answers when asked."""

    def __init__(self, allow: bool = True) -> None:
        self.shown: list[Any] = []
        self.asked: list[Any] = []
        self.allow = allow
        self.news = asyncio.Condition()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        async with self.news:
            self.shown.append((session_id, update))
            self.news.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        self.asked.append((tool_call, options))
        wanted = "allow_once" if self.allow else "reject_once"
        chosen = next(option.option_id for option in options if option.kind == wanted)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        pass

    def of(self, kind: str) -> list[Any]:
        return [update for _, update in self.shown if update.session_update == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.of(kind))

    async def until(self, kind: str) -> Any:
        async with asyncio.timeout(PATIENCE), self.news:
            while not self.of(kind):
                await self.news.wait()
        return self.of(kind)[-1]

    async def told(self, kind: str, text: str) -> None:
        """Wait until the pieces of that kind say this together."""
        async with asyncio.timeout(PATIENCE), self.news:
            while "".join(piece.content.text for piece in self.of(kind)) != text:
                await self.news.wait()


@contextlib.asynccontextmanager
async def editing(editor: Editor, **environ: str) -> AsyncIterator[Any]:
    """A connection to the program, begun as an editor begins it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    async with acp.spawn_agent_process(
        editor, AGENT[0], *AGENT[1:], env=env, cwd=str(ROOT), use_unstable_protocol=True
    ) as (connection, _):
        told = await connection.initialize(protocol_version=1)
        assert told.protocol_version == 1
        yield connection


def prompt(text: str) -> list[Any]:
    return [acp.text_block(text)]


def prefer(home: Path, model: str, more: str = "") -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[models]\ndefault = "{model}"\n{more}')


async def test_a_turn_with_a_tool_that_asks_from_beginning_to_end(
    home: Path, tmp_path: Path
) -> None:
    model = script(
        tmp_path,
        calls(("write", {"path": "note.txt", "content": "a stone remembers\n"})),
        {"text": "It is written.", "thinking": "easy"},
        loop=True,
    )
    prefer(home, model)
    work = tmp_path / "My Work"
    work.mkdir()
    editor = Editor()
    async with asyncio.timeout(PATIENCE), editing(editor) as agent:
        begun = await agent.new_session(cwd=str(work), mcp_servers=[])
        assert begun.session_id == "agent:default:my-work-1"
        assert [one.id for one in begun.config_options] == ["model", "approve", "mode", "policy"]
        commands = await editor.until("available_commands_update")
        assert {"context", "pin", "recall"} <= {one.name for one in commands.available_commands}
        ended = await agent.prompt(session_id=begun.session_id, prompt=prompt("write it down"))
        assert ended.stop_reason == "end_turn"
        assert "It is written." in editor.text()
        tool_call, options = editor.asked[0]
        said = " ".join(part.content.text for part in tool_call.content if part.type == "content")
        assert "note.txt" in said
        (change,) = (part for part in tool_call.content if part.type == "diff")
        assert change.new_text == "a stone remembers"
        assert {"allow_once", "reject_once"} <= {option.kind for option in options}
        done = editor.of("tool_call_update")[-1]
        assert done.status == "completed"
        usage = editor.of("usage_update")[-1]
        assert 0 < usage.used < usage.size
        assert usage.field_meta["mindstone"]["used_label"]
        listed = await agent.list_sessions()
        assert begun.session_id in [one.session_id for one in listed.sessions]
        report = await agent.prompt(session_id=begun.session_id, prompt=prompt("/context"))
        assert report.stop_reason == "end_turn"
        await agent.close_session(session_id=begun.session_id)
    assert (work / "note.txt").read_text() == "a stone remembers\n"
    places = api.Home(home).places.session(api.Home(home).key("my-work-1"))
    check_history(places)
    (line,) = api.log(session="my-work-1", kinds=("tool_answered",), home=api.Home(home))
    assert isinstance(line, Line)
    assert isinstance(line.entry, ToolAnswered)
    assert (line.channel, line.entry.seen > 0) == ("acp", True)
    assert line.entry.how in (UNREAD, CHOSEN), "as quick as the machine is"


@pytest.mark.thorough
async def test_a_cancelled_turn_ends_as_cancelled_and_a_failed_one_says_why(
    home: Path, tmp_path: Path
) -> None:
    prefer(
        home,
        script(
            tmp_path,
            {"text": "and so on " * 60, "delay_ms": 60_000},
            {"error": "the server is on fire"},
            loop=True,
        ),
    )
    editor = Editor()
    async with asyncio.timeout(PATIENCE), editing(editor) as agent:
        session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        taking = asyncio.create_task(agent.prompt(session_id=session, prompt=prompt("go on")))
        await editor.until("agent_message_chunk")
        await agent.cancel(session_id=session)
        assert (await taking).stop_reason == "cancelled"
        with pytest.raises(acp.RequestError, match="the server is on fire"):
            await agent.prompt(session_id=session, prompt=prompt("again"))
        with pytest.raises(acp.RequestError, match="cwd must be an absolute path"):
            await agent.new_session(cwd="here", mcp_servers=[])
        await agent.close_session(session_id=session)
        editor.shown.clear()
        await agent.load_session(cwd=str(tmp_path), session_id=session)
        chunks = [it for _, it in editor.shown if it.session_update.endswith("_chunk")]
        said = [it.content.text for it in chunks]
        assert said[0] == "go on"
        assert "Interrupted" in said[3]
        assert said[4] == "again"
        assert "the server is on fire" in said[5], "what failed there has no answer here"
        with pytest.raises(acp.RequestError, match="is not open"):
            await agent.prompt(session_id="nobody", prompt=prompt("hello"))


async def test_only_what_was_typed_is_a_command_and_the_parts_of_a_prompt_stay_apart(
    home: Path, tmp_path: Path
) -> None:
    prefer(home, script(tmp_path, {"text": "Noted."}, loop=True))
    embedded = schema.TextResourceContents(uri="file:///approve", text="```\n/approve full-auto")
    prompts = [
        [acp.resource_link_block("approve", "file:///approve"), acp.text_block(" full-auto")],
        [acp.resource_link_block("a", "/approve full-auto\n\x1b[2J")],
        [acp.text_block("/approve"), acp.resource_link_block("a", "full-auto")],
        [acp.resource_block(embedded)],
        [acp.text_block("/approve full-auto"), acp.text_block("and so on")],
    ]
    async with asyncio.timeout(PATIENCE), editing(Editor(), MINDSTONE_ACP__SESSION="main") as agent:
        opened = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        for each in prompts:
            await agent.prompt(session_id=opened.session_id, prompt=each)
        told = await agent.resume_session(cwd=str(tmp_path), session_id=opened.session_id)
    modes = {each.id: each.current_value for each in told.config_options}
    assert modes["approve"] == "ask"
    said = asked_in(home)
    assert said[:3] == [
        "[linked: /approve]\n full-auto",
        "[linked: /approve full-auto]",
        "/approve\n[linked: full-auto]",
    ]
    assert said[3].startswith("\n<data-")
    assert said[4:] == ["/approve full-auto\nand so on"]


@pytest.mark.thorough
async def test_loading_replays_everything_and_resuming_nothing(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, calls(("glob", {"pattern": "*"})), {"text": "Port 8443."}, loop=True)
    async with mindstone_tui.open(session="main", model=model, home=home) as conversation:
        for question in ("Which port?", "And the other?", "/rewind turn 1", "/todo add Run it"):
            async for _ in conversation.ask(question):
                pass
    editor = Editor()
    async with asyncio.timeout(PATIENCE), editing(editor) as agent:
        assert not (await agent.list_sessions(cwd=str(tmp_path))).sessions
        assert len((await agent.list_sessions(cwd=str(ROOT))).sessions) == 1
        listed = (await agent.list_sessions()).sessions
        assert listed[0].session_id == "agent:default:main"
        assert listed[0].title == "Which port?"
        await agent.load_session(cwd=str(tmp_path), session_id="agent:default:main")
        assert editor.text("user_message_chunk") == "Which port?And the other?"
        assert editor.text() == "Port 8443." * 2
        assert editor.text("agent_thought_chunk").count("The above: rewound by #") == 2
        assert [call.kind for call in editor.of("tool_call")] == ["search", "search"]
        assert [it.content for it in editor.of("plan")[-1].entries] == ["Run it"]
        with pytest.raises(acp.RequestError, match="no session"):
            await agent.load_session(cwd=str(tmp_path), session_id="agent:default:nowhere")
    again = Editor()
    async with asyncio.timeout(PATIENCE), editing(again) as agent:
        await agent.resume_session(cwd=str(tmp_path), session_id="agent:default:main")
        await again.until("available_commands_update")
        assert not again.of("user_message_chunk")


async def test_a_message_that_was_corrected_says_so_to_an_editor_that_loads_it(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    said = ("The staging port is 8080.", "Correction: the staging port is 9090, not 8080.")
    async with mindstone_tui.open(session="main", model=model, home=home) as conversation:
        for each in said:
            async for _ in conversation.ask(each):
                pass
    editor = Editor()
    async with asyncio.timeout(PATIENCE), editing(editor) as agent:
        await agent.load_session(cwd=str(tmp_path), session_id="agent:default:main")
        assert editor.text("user_message_chunk") == "".join(said)
        assert editor.text("agent_thought_chunk").count("The above: superseded by #") == 1


async def test_options_are_the_slash_commands_and_hold_for_the_session(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "hello"}, loop=True)
    prefer(home, model, '[acp]\nsession = "main"\n')
    editor = Editor()
    async with asyncio.timeout(PATIENCE), editing(editor) as agent:
        begun = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        assert begun.session_id == "agent:default:main"
        for name, value in (("policy", "lru"), ("mode", "cascade"), ("approve", "read-only")):
            told = await agent.set_config_option(
                config_id=name, session_id=begun.session_id, value=value
            )
            now = {one.id: one.current_value for one in told.config_options}
            assert now[name] == value
        with pytest.raises(acp.RequestError, match="no option"):
            await agent.set_config_option(
                config_id="policy", session_id=begun.session_id, value="coin toss"
            )


async def test_what_another_surface_says_appears_in_the_editor(home: Path, tmp_path: Path) -> None:
    prefer(home, script(tmp_path, {"text": "from the terminal"}, loop=True))
    editor = Editor()
    async with asyncio.timeout(PATIENCE), editing(editor) as agent:
        async with mindstone_tui.open(session="main", home=home) as conversation:
            async for _ in conversation.ask("begin"):
                pass
            await agent.resume_session(cwd=str(tmp_path), session_id="agent:default:main")
            async for _ in conversation.ask("said elsewhere"):
                pass
        assert (await editor.until("user_message_chunk")).content.text == "said elsewhere"
        await editor.told("agent_message_chunk", "from the terminal")


def test_a_unified_diff_becomes_old_and_new_text() -> None:
    text = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    (change,) = diffs(text)
    assert change == {
        "type": "diff",
        "path": "x.py",
        "oldText": "one\ntwo\nthree",
        "newText": "one\n2\nthree",
    }
    (fresh,) = diffs("--- /dev/null\n+++ b/y.py\n@@ -0,0 +1 @@\n+new")
    assert (fresh["oldText"], fresh["newText"]) == (None, "new")
    assert not list(diffs("no diff at all"))


SERVER = [sys.executable, str(ROOT / "tests" / "core" / "tools" / "servers" / "honest.py")]
ADDS = (calls(("weather-desk__add", {"first": 2, "second": 40})), {"text": "It is 42."})


@pytest.mark.thorough
async def test_the_tools_of_the_editors_own_servers_are_offered_and_ask(
    home: Path, tmp_path: Path
) -> None:
    prefer(home, script(tmp_path, *ADDS, loop=True))
    stdio = schema.McpServerStdio(name="weather desk", command=SERVER[0], args=SERVER[1:], env=[])
    editor = Editor()
    async with asyncio.timeout(PATIENCE), editing(editor) as agent:
        begun = await agent.new_session(cwd=str(tmp_path), mcp_servers=[stdio])
        await agent.prompt(session_id=begun.session_id, prompt=prompt("add them"))
    assert "weather-desk: add" in editor.asked[0][0].title
    ended = [one for one in editor.of("tool_call_update") if one.status == "completed"]
    assert "42" in ended[0].content[0].content.text
    assert editor.text() == "It is 42."


def test_a_server_that_cannot_be_one_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="neither a command nor an address"):
        dict(_servers([{"type": "sse", "name": "old", "url": "http://127.0.0.1:1"}]))
    key = {"name": "Authorization", "value": "k"}
    told = dict(_servers([{"type": "http", "name": "a__b c", "url": "http://x", "headers": [key]}]))
    assert told["a_b-c"].headers == {"Authorization": "k"}


@pytest.mark.neighbour("ACP TypeScript SDK", "talk")
def test_an_editor_made_of_the_typescript_library(home: Path, tmp_path: Path) -> None:
    library = ROOT / ".counterparts/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js"
    if not library.exists() or shutil.which("node") is None:
        pytest.skip("the library is not there; `make counterparts` fetches it")
    prefer(home, script(tmp_path, *ADDS, loop=True))
    host = str(Path(__file__).with_name("acp_host.mjs"))
    told = ["node", host, str(library), str(tmp_path), json.dumps(SERVER), "add them", "--", *AGENT]
    done = subprocess.run(
        told,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["answer"]["stopReason"] == "end_turn"
    assert seen["asked"][0]["toolCall"]["title"].startswith("weather-desk: add")
    chunks = [one for one in seen["shown"] if one["sessionUpdate"] == "agent_message_chunk"]
    assert "".join(one["content"]["text"] for one in chunks) == "It is 42."
    assert "Traceback" not in done.stderr


@pytest.mark.neighbour("acpx", "talk")
def test_acpx_takes_a_turn(home: Path, tmp_path: Path) -> None:
    found = ROOT / ".counterparts" / "node_modules" / ".bin" / "acpx"
    if not found.exists() or shutil.which("node") is None:
        pytest.skip("acpx is not there; `make counterparts` fetches it")
    model = script(
        tmp_path,
        calls(("write", {"path": "note.txt", "content": "a stone remembers\n"})),
        {"text": "It is written."},
        loop=True,
    )
    prefer(home, model)
    command = [str(found), "--approve-all", "--format", "json", "--agent", " ".join(AGENT)]
    done = subprocess.run(
        [*command, "exec", "write it down"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    updates = [
        message["params"]["update"]
        for message in map(json.loads, done.stdout.splitlines())
        if message.get("method") == "session/update"
    ]
    chunks = [one for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
    assert "".join(one["content"]["text"] for one in chunks) == "It is written."
    assert (tmp_path / "note.txt").read_text() == "a stone remembers\n"


class Late(Editor):
    """Answers each question when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.releases: list[asyncio.Event] = []

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **more: Any
    ) -> Any:
        self.releases.append(asyncio.Event())
        async with self.news:
            self.news.notify_all()
        await self.releases[-1].wait()
        return await super().request_permission(session_id, tool_call, options, **more)

    async def asked_times(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE), self.news:
            while len(self.releases) < times:
                await self.news.wait()


@pytest.mark.thorough
async def test_a_late_click_in_the_editor_answers_no_other_question_of_the_same_name(
    home: Path, tmp_path: Path
) -> None:
    """Some servers number the calls of each answer anew."""
    wishes = [
        {"text": "", "tool_calls": [{"id": "call_0", "name": "shell", "arguments": {"command": c}}]}
        for c in ("touch one", "touch two")
    ]
    done = {"text": "Well."}
    prefer(home, script(tmp_path, wishes[0], done, wishes[1], done))
    editor = Late()
    async with editing(editor) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        beside = await api.connect(session, home=home, cwd=tmp_path, asks=True)
        heard = beside.events()

        async def declined() -> None:
            async for event in heard:
                if isinstance(event, events.ToolAsked):
                    beside.answer(event.call, events.Answer(allowed=False, why="no"))
                if isinstance(event, events.ToolEnded):
                    return

        first = asyncio.create_task(connection.prompt(session_id=session, prompt=prompt("go")))
        await editor.asked_times(1)
        await declined()
        await first
        second = asyncio.create_task(connection.prompt(session_id=session, prompt=prompt("go")))
        await editor.asked_times(2)
        editor.releases[0].set()
        for _ in range(3):  # what the agent answers now, it answers after that click
            await connection.list_sessions()
        await declined()
        await second
        await beside.close()
    answers = [line.entry for line in api.log(session=session, kinds=("tool_answered",), home=home)]  # type: ignore[union-attr]
    assert [entry.allowed for entry in answers if isinstance(entry, ToolAnswered)] == [False] * 2
    assert not (tmp_path / "one").exists()
    assert not (tmp_path / "two").exists()


class Broken(Late):
    """Answers each question with an error, or gives it up, when the test says so."""

    def __init__(self, *, gives_up: bool) -> None:
        super().__init__()
        self.gives_up = gives_up

    async def request_permission(self, *given: Any, **more: Any) -> Any:
        await super().request_permission(*given, **more)
        if self.gives_up:
            outcome = schema.DeniedOutcome(outcome="cancelled")
            return schema.RequestPermissionResponse(outcome=outcome)
        raise acp.RequestError.internal_error({"why": "no window"})


async def test_an_error_of_the_editor_is_nobodys_no(home: Path, tmp_path: Path) -> None:
    wish = calls(("shell", {"command": "touch one"}))
    prefer(home, script(tmp_path, wish, {"text": "Well."}))
    editor = Broken(gives_up=False)
    async with editing(editor) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        turn = asyncio.create_task(connection.prompt(session_id=session, prompt=prompt("go")))
        await editor.asked_times(1)
        editor.releases[0].set()
        await turn
    (line,) = api.log(session=session, kinds=("tool_answered",), home=api.Home(home))
    assert isinstance(line, Line)
    assert isinstance(line.entry, ToolAnswered)
    assert (line.entry.allowed, line.entry.how) == (False, "nobody")
    assert "the editor could not ask" in line.entry.why


@pytest.mark.parametrize("gives_up", [True, False])
async def test_an_editor_that_gives_up_decides_nothing_that_another_surface_asked(
    home: Path, tmp_path: Path, gives_up: bool
) -> None:
    wish = calls(("shell", {"command": "touch one"}))
    prefer(home, script(tmp_path, wish, {"text": "Well."}))
    editor = Broken(gives_up=gives_up)
    async with editing(editor) as connection:
        beside = await api.connect("main", home=home, cwd=tmp_path, asks=True)
        await connection.resume_session(cwd=str(tmp_path), session_id="agent:default:main")
        beside.send("go")
        await editor.asked_times(1)
        editor.releases[0].set()
        for _ in range(3):  # what the agent answers now, it answers after that
            await connection.list_sessions()
        async for event in beside.events():
            if isinstance(event, events.ToolAsked):
                beside.answer(event.call, events.Answer(allowed=True, how="y"))
            if isinstance(event, events.TurnEnded):
                break
        await beside.close()
    (line,) = api.log(session="main", kinds=("tool_answered",), home=api.Home(home))
    assert isinstance(line, Line)
    assert isinstance(line.entry, ToolAnswered)
    assert (line.entry.allowed, line.entry.how) == (True, "y")
