"""`mindstone mcp`, asked by the client of the protocol's own library and by its inspector."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mindstone_tui
from mindstone_tui import api
from mindstone_tui.core.entries import Line
from mindstone_tui.servers.mcp import MemoryServer, address, build
from tests.core.session.stage import script

if TYPE_CHECKING:  # a second of import, which only whoever runs these tests should pay
    from mcp import Client

ROOT = Path(__file__).parents[2]
SERVER = [sys.executable, "-m", "mindstone_tui", "mcp"]
TOOLS = {
    "search",
    "read_entry",
    "context_around",
    "sessions",
    "recall",
    "fix",
    "how",
    "about",
    "blame",
    "verify",
    "propose_memory",
}


@pytest.fixture
async def talked(home: Path, tmp_path: Path) -> Path:
    """Two sessions in which something was said."""
    model = script(tmp_path, {"text": "Noted: 8443."}, loop=True)
    for session, text in (("main", "Staging listens on port 8443."), ("other", "Tea, not coffee.")):
        async with mindstone_tui.open(session=session, model=model, home=home) as conversation:
            async for _ in conversation.ask(text):
                pass
    return home


def asked(home: Path, *, propose: bool = False) -> Client:
    """A client of a server in this process."""
    from mcp import Client

    place = api.Home(home)
    return Client(build(MemoryServer(place, propose=propose), place))


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert json.loads(answer.content[0].text) == answer.structured_content  # type: ignore[union-attr]
    return dict(answer.structured_content)


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return str(answer.content[0].text)  # type: ignore[union-attr]


def files(home: Path) -> dict[str, bytes]:
    """Everything that is history or memory, as it lies there."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and (path.suffix in {".jsonl", ".md", ".toml"})
    }


ERRORS = sys.__stderr__ or sys.stderr
"""The client would take what stood there when its module was imported: maybe a capture."""


async def test_the_program_answers_a_real_client_on_its_standard_streams(talked: Path) -> None:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=SERVER[0], args=SERVER[1:], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    async with Client(stdio_client(server, errlog=ERRORS)) as client:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed} == TOOLS
        found = await told(client, "search", query="which port is staging on")
        best = found["hits"][0]
        assert "8443" in best["text"]
        line = await told(client, "read_entry", session=best["session"], entry=str(best["line"]))
        assert line["text"] == "Staging listens on port 8443."
        assert line["hash"] == best["hash"]


async def test_every_hit_says_where_it_stands_and_can_be_checked(talked: Path) -> None:
    async with asked(talked) as client:
        for tool in ("search", "recall"):
            assert (await told(client, tool, query=8443))["hits"]
            hits = (await told(client, tool, query="staging port 8443"))["hits"]
            assert hits
            for hit in hits:
                assert hit["session"].startswith("agent:default:")
                assert hit["date"].startswith("20")
                line = await told(client, "read_entry", session=hit["session"], entry=hit["line"])
                assert (line["hash"], line["date"]) == (hit["hash"], hit["date"])


async def test_search_covers_all_sessions_and_can_be_narrowed(talked: Path) -> None:
    async with asked(talked) as client:
        everywhere = await told(client, "search", query="tea or coffee")
        assert everywhere["hits"][0]["session"] == "agent:default:other"
        one = await told(client, "search", query="tea or coffee", session="main")
        assert {hit["session"] for hit in one["hits"]} <= {"agent:default:main"}
        said = await told(client, "search", query="8443", role="user")
        assert {hit["role"] for hit in said["hits"]} == {"user"}
        assert not (await told(client, "search", query="8443", until="2001-01-01"))["hits"]
        assert not (await told(client, "search", query="8443", since="2999-01-01"))["hits"]


async def test_a_long_text_is_read_in_parts_and_nothing_is_missing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDSTONE_MCP__MAX_CHARS", "1000")
    text = " ".join(f"word{number}" for number in range(900))
    model = script(tmp_path, {"text": "Read."})
    async with mindstone_tui.open(model=model, home=home) as conversation:
        async for _ in conversation.ask(text):
            pass
        (line,) = (each.seq for each in conversation.log(kinds=["user_message"]))  # type: ignore[union-attr]
    read, offset = "", 0
    async with asked(home) as client:
        while True:
            part = await told(client, "read_entry", session="main", entry=str(line), offset=offset)
            assert len(part["text"]) <= 1000
            read += part["text"]
            if "next_offset" not in part:
                break
            offset = part["next_offset"]
        around = await told(client, "context_around", session="main", entry=f"#{line}")
    assert read == text
    assert sum(len(each["text"]) for each in around["lines"]) <= 1000


async def test_sessions_are_listed_with_the_default_one_first(talked: Path) -> None:
    async with asked(talked) as client:
        listed = (await told(client, "sessions"))["sessions"]
        assert [one["session"] for one in listed] == ["agent:default:main", "agent:default:other"]
        page = await told(client, "sessions", limit=1)
        assert (len(page["sessions"]), page["total"], page["next_offset"]) == (1, 2, 1)
        addresses = [str(one.uri) for one in (await client.list_resources()).resources]
        assert addresses == [address("agent:default:main"), address("agent:default:other")]
        held = (await client.read_resource(addresses[1])).contents[0]
        assert "Tea, not coffee." in held.text  # type: ignore[union-attr]


async def test_a_handoff_is_a_prompt_that_names_its_lines(talked: Path) -> None:
    from mcp.shared.exceptions import MCPError

    async with asked(talked) as client:
        (prompt,) = (await client.list_prompts()).prompts
        message = (await client.get_prompt(prompt.name, {"session": "main"})).messages[0]
        assert "Staging listens on port 8443." in message.content.text  # type: ignore[union-attr]
        assert "agent:default:main line " in message.content.text  # type: ignore[union-attr]
        assert "task" not in message.content.text  # type: ignore[union-attr]
        async with mindstone_tui.open(session="main", home=talked) as conversation:
            start = ("/task start Old one", "/task start Ship it | rule: no soy")
            for text in (*start, "/rules add Never force push"):
                async for _ in conversation.ask(text):
                    pass
        message = (await client.get_prompt(prompt.name, {"session": "main"})).messages[0]
        held = "The task under way:\nShip it\nRules that bind:\n- no soy"
        assert held in message.content.text  # type: ignore[union-attr]
        bound = "The person set these rules:\n- Never force push\n\n"
        assert bound in message.content.text  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="no session agent:default:nowhere"):
            await client.get_prompt(prompt.name, {"session": "nowhere"})


async def test_what_was_rewound_is_handed_on_to_nobody_and_read_with_that_word(
    talked: Path,
) -> None:
    async with mindstone_tui.open(session="main", home=talked) as conversation:
        for text in ("Forget the port.", "/rewind turn 1"):
            async for _ in conversation.ask(text):
                pass
    async with asked(talked) as client:
        message = (await client.get_prompt("handoff", {"session": "main"})).messages[0]
        assert "Staging listens" in message.content.text  # type: ignore[union-attr]
        assert "Forget the port." not in message.content.text  # type: ignore[union-attr]
        (line,) = (
            line.seq
            for line in api.log(session="main", kinds=["user_message"], turn=2, home=talked)
            if isinstance(line, Line)
        )
        read = await told(client, "read_entry", session="main", entry=f"#{line}")
        assert read["standing"][0].startswith("rewound by #")
        around = await told(client, "context_around", session="main", entry=f"#{line}")
        stands = {one["text"]: one.get("standing", []) for one in around["lines"]}
        assert stands["Staging listens on port 8443."] == []
        assert stands["Forget the port."] == read["standing"]


async def test_nothing_is_written_by_default_whatever_is_asked(talked: Path) -> None:
    before = files(talked)
    async with asked(talked) as client:
        await told(client, "search", query="8443")
        await told(client, "recall", query="8443")
        assert (await told(client, "verify"))["ok"]
        assert "read-only" in await refusal(client, "propose_memory", text="Staging is on 8443.")
        assert "no session" in await refusal(client, "read_entry", session="nowhere", entry="1")
        assert "no line 999" in await refusal(client, "read_entry", session="main", entry="999")
        assert "unknown field" in await refusal(client, "search", querry="8443")
        assert "no tool" in await refusal(client, "format_disk")
        assert "is not a date" in await refusal(client, "search", query="8443", since="soon")
    assert files(talked) == before


async def test_a_proposal_is_no_memory_until_a_person_says_so(talked: Path) -> None:
    async with asked(talked, propose=True) as client:
        made = await told(client, "propose_memory", text="Staging is on 8443.")
        assert made["proposal"]
        assert made["remembered"] is False
        assert "no session" in await refusal(
            client, "propose_memory", text="x", session="never-begun"
        )
    assert not list((talked / "agents" / "default").glob("memory/*.md"))
    kinds = [line.kind for line in api.log(home=talked, kinds=["memory_proposed"])]  # type: ignore[union-attr]
    assert kinds == ["memory_proposed"]
    assert not (talked / "agents/default/sessions/never-begun").exists()


async def test_a_line_that_was_altered_is_reported(talked: Path) -> None:
    transcript = talked / "agents/default/sessions/main/transcript.jsonl"
    transcript.write_bytes(transcript.read_bytes().replace(b"port 8443", b"port 8444", 1))
    async with asked(talked) as client:
        assert not (await told(client, "verify"))["ok"]


def inspector() -> list[str]:
    """The protocol's inspector, where `make counterparts` brought it."""
    found = ROOT / ".counterparts" / "node_modules" / ".bin" / "mcp-inspector"
    if not found.exists() or shutil.which("node") is None:
        pytest.skip("the MCP inspector is not there; `make counterparts` fetches it")
    return [str(found), "--cli", "--connect-timeout", "90000"]


@pytest.mark.neighbour("MCP inspector", "talk")
@pytest.mark.usefixtures("talked")
def test_the_inspector_lists_the_tools_and_calls_one() -> None:
    names = {"PYTHONPATH": str(ROOT), "MINDSTONE_HOME": os.environ["MINDSTONE_HOME"]}
    given = [word for name, value in names.items() for word in ("-e", f"{name}={value}")]

    def ask(*method: str) -> Any:
        done = subprocess.run(
            [*inspector(), *given, *SERVER, *method], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert {tool["name"] for tool in ask("--method", "tools/list")["tools"]} == TOOLS
    arguments = ("--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=8443")
    assert "8443" in ask(*arguments)["content"][0]["text"]
