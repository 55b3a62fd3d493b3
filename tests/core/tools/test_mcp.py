from __future__ import annotations

import asyncio
import gzip
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest

from mindstone_tui.core.config.settings import McpServerSettings
from mindstone_tui.core.errors import ConfigError, ToolError
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.tools.approvals import carry_out, decide, prepare
from mindstone_tui.core.tools.base import ToolContext, ToolLimits, ToolResult
from mindstone_tui.core.tools.mcp import McpServer, Offer, unusable
from mindstone_tui.core.tools.workspace import Workspace

SERVERS = Path(__file__).parent / "servers"
ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "OPENAI_API_KEY": "sk-never-passed-on",
}
Start = Callable[..., McpServer]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Servers that are closed again, whatever they did."""
    started: list[McpServer] = []

    def begin(*command: str, url: str = "", seconds: float = 30) -> McpServer:
        settings = McpServerSettings(
            command=(sys.executable, *command) if command else (), url=url, timeout=seconds
        )
        started.append(McpServer("here", settings, environ=ENVIRON, cwd=tmp_path))
        return started[-1]

    yield begin
    for server in started:
        await server.close()


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(workspace=Workspace((tmp_path,)), call="c1", limits=ToolLimits(seconds=20))


async def use(offer: Offer, name: str, arguments: str, context: ToolContext) -> ToolResult:
    (tool,) = (tool for tool in offer.tools if tool.name == f"here__{name}")
    approval = prepare(tool, "c1", arguments, context)
    result, _ = await carry_out(
        tool, approval, context, redactor=Redactor(), nonce="0f1e2d3c4b5a6978"
    )
    return result


async def test_a_real_server_is_used_end_to_end_over_its_standard_streams(
    start: Start, context: ToolContext
) -> None:
    offer = await start(str(SERVERS / "honest.py")).offer({})
    assert [tool.name for tool in offer.tools] == ["here__add", "here__environment", "here__shout"]
    result = await use(offer, "add", '{"first": 2, "second": 40}', context)
    assert result.status == "ok"
    assert "\n42\n" in result.text
    assert 'origin="tool add of the server here"' in result.text
    wrong = await use(offer, "add", '{"first": "many"}', context)
    assert wrong.status == "error"


@pytest.mark.thorough
async def test_a_server_sees_no_keys_and_writes_no_control_bytes(
    start: Start, context: ToolContext
) -> None:
    offer = await start(str(SERVERS / "honest.py")).offer({})
    assert "OPENAI_API_KEY" not in (await use(offer, "environment", "{}", context)).text
    long = await use(offer, "shout", '{"length": 20000}', context)
    assert "\x1b" not in long.text
    assert len(long.text) < 40_000
    assert long.full is not None


@pytest.mark.thorough
async def test_the_tools_of_a_server_always_ask_unless_a_rule_allows_them(start: Start) -> None:
    offer = await start(str(SERVERS / "honest.py")).offer({})
    tool = offer.tools[0]
    preview = prepare(tool, "c", "{}", ToolContext(workspace=Workspace((SERVERS,)))).preview
    for mode in ("ask", "auto-edit", "full-auto"):
        assert decide(tool, preview, mode=mode, rules=(), sandboxed=True).verdict == "ask"
    assert decide(tool, preview, mode="read-only", rules=(), sandboxed=True).verdict == "refuse"


@pytest.mark.parametrize(("manner", "name"), [("changes", "look"), ("grows", "extra")])
async def test_a_tool_that_is_not_what_it_was_is_withheld_and_shown(
    start: Start, tmp_path: Path, manner: str, name: str
) -> None:
    state = str(tmp_path / "state")
    first = await start(str(SERVERS / "liar.py"), manner, state).offer({})
    assert first.withheld == ()
    second = await start(str(SERVERS / "liar.py"), manner, state).offer(first.pins)
    (change,) = second.withheld
    assert change.tool == name
    assert change.diff.startswith("--- pinned\n+++ now")
    assert name not in [tool.name.removeprefix("here__") for tool in second.tools]
    accepted = {**second.pins, change.tool: change.pin}
    assert not (await start(str(SERVERS / "liar.py"), manner, state).offer(accepted)).withheld


@pytest.mark.parametrize(("manner", "refused"), [("names", 5), ("schemas", 1)])
async def test_names_and_schemas_that_cannot_be_trusted_are_left_out(
    start: Start, tmp_path: Path, manner: str, refused: int
) -> None:
    offer = await start(str(SERVERS / "liar.py"), manner, str(tmp_path / "state")).offer({})
    assert [tool.name for tool in offer.tools] == ["here__look"]
    assert len(offer.ignored) == refused
    assert not any("\x1b" in why for why in offer.ignored)


@pytest.mark.parametrize(
    ("manner", "status"),
    [("crashes", "error"), ("hangs", "timeout"), ("floods", "error"), ("nonsense", "error")],
)
async def test_a_misbehaving_server_costs_the_call_and_works_again_afterwards(
    start: Start, tmp_path: Path, context: ToolContext, manner: str, status: str
) -> None:
    server = start(str(SERVERS / "liar.py"), manner, str(tmp_path / "state"), seconds=1.5)
    offer = await server.offer({})
    for _ in range(2):
        result = await use(offer, "look", "{}", context)
        assert result.status == status
        assert len(result.text) < 1000
    assert (await server.offer(offer.pins)).tools


async def test_a_server_that_changes_between_two_calls_is_not_called(
    start: Start, tmp_path: Path, context: ToolContext
) -> None:
    server = start(str(SERVERS / "liar.py"), "changes", str(tmp_path / "state"))
    offer = await server.offer({})
    await server.close()
    result = await use(offer, "look", "{}", context)
    assert result.status == "error"
    assert "no longer what it was" in result.text


async def test_nothing_a_server_started_outlives_it(
    start: Start, tmp_path: Path, context: ToolContext
) -> None:
    server = start(str(SERVERS / "liar.py"), "orphans", str(tmp_path / "state"))
    offer = await server.offer({})
    assert (await use(offer, "look", "{}", context)).status == "ok"
    orphan = int((tmp_path / "state").read_text())
    assert psutil.pid_exists(orphan)
    await server.close()
    assert not psutil.pid_exists(orphan)


async def test_a_server_that_is_not_there_is_reported_with_what_it_said(start: Start) -> None:
    with pytest.raises(ToolError, match="No such file"):
        await start(str(SERVERS / "missing.py")).offer({})


@pytest.fixture
def port() -> Iterator[int]:
    """The honest server behind HTTP on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, str(SERVERS / "honest.py"), str(number)], stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    for line in process.stderr:
        if b"running on" in line:
            break
    yield number
    process.kill()
    process.stderr.close()
    process.wait()


@pytest.mark.thorough
async def test_a_server_is_used_over_http(start: Start, port: int, context: ToolContext) -> None:
    offer = await start(url=f"http://127.0.0.1:{port}/mcp").offer({})
    assert "42" in (await use(offer, "add", '{"first": 2, "second": 40}', context)).text


async def test_an_answer_over_http_without_an_end_costs_the_call(start: Start) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n"
        writer.write(head + b"connection: close\r\n\r\n" + gzip.compress(bytes(1 << 24)))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(flood, "127.0.0.1", 0) as listener:
        address = listener.sockets[0].getsockname()
        with pytest.raises(ToolError, match="longer than"):
            await start(url=f"http://127.0.0.1:{address[1]}/mcp").offer({})


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for name, settings in (
        ("a b", McpServerSettings(command=("x",))),
        ("a__b", McpServerSettings(command=("x",))),
        ("a", McpServerSettings()),
        ("a", McpServerSettings(command=("x",), url="https://x")),
        ("a", McpServerSettings(url="file:///etc/passwd")),
    ):
        with pytest.raises(ConfigError):
            McpServer(name, settings, environ={}, cwd=tmp_path)


def test_a_schema_that_is_nested_too_deeply_is_left_out() -> None:
    schema: dict[str, object] = {"type": "object"}
    assert unusable("fine", schema, {}) == ""
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema}}
    assert "deep" in unusable("deep", schema, {})
