"""Signing in to a remote tool server: once in a browser, then by what is kept."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from mindstone_tui.core.config.settings import McpServerSettings
from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.tools.mcp import McpServer
from mindstone_tui.core.tools.sign_in import TokenFile, sign_in
from tests.cli.program import ROOT

if TYPE_CHECKING:
    from tests.core.tools.guarded_server import GuardedServer


@pytest.fixture
async def guarded() -> AsyncIterator[GuardedServer]:
    from tests.core.tools.guarded_server import served

    async with served() as app:
        yield app


def browser(address: str, opened: list[asyncio.Task[httpx.Response]]) -> None:
    """Open an address, as a person would who says yes."""
    assert urlsplit(address).path == "/at/authorization"

    async def look() -> httpx.Response:
        async with httpx.AsyncClient(follow_redirects=True) as client:
            return await client.get(address)

    opened.append(asyncio.ensure_future(look()))


@pytest.mark.thorough
async def test_who_signed_in_once_is_let_in_until_the_server_forgets(
    guarded: GuardedServer, tmp_path: Path
) -> None:
    url, kept = f"{guarded.base}/mcp", tmp_path / "tokens" / "door.json"
    server = McpServer(
        "door", McpServerSettings(url=url), environ={}, cwd=tmp_path, tokens=kept.parent
    )
    with pytest.raises(ToolError, match="mindstone tools login door"):
        await server.offer({})
    opened: list[asyncio.Task[httpx.Response]] = []
    assert await sign_in(url, kept, lambda address: browser(address, opened))
    assert "close this page" in (await opened[0]).text
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [tool.name for tool in (await server.offer({})).tools] == ["door__open_door"]
    await server.close()
    elsewhere = McpServerSettings(url=f"{guarded.base}/./mcp")
    other = McpServer("door", elsewhere, environ={}, cwd=tmp_path, tokens=kept.parent)
    with pytest.raises(ToolError, match="mindstone tools login door"):
        await other.offer({})  # what one address gave is shown to no other
    await other.close()
    guarded.token = "third"
    TokenFile(kept).keep("until", 1.0)  # as if hours had passed
    assert (await server.offer({})).tools, "it is renewed without a browser"
    await server.close()
    guarded.renews, guarded.token = False, "second"
    with pytest.raises(ToolError, match="mindstone tools login door"):
        await server.offer({})
    await server.close()


async def test_a_person_who_says_no_has_signed_in_nowhere(
    guarded: GuardedServer, tmp_path: Path
) -> None:
    guarded.allows = False
    kept, opened = tmp_path / "door.json", list[asyncio.Task[httpx.Response]]()
    with pytest.raises(ToolError, match="access_denied"):
        await sign_in(f"{guarded.base}/mcp", kept, lambda address: browser(address, opened))
    await opened[0]
    assert "access_token" not in (kept.read_text() if kept.exists() else "")


async def test_an_answer_without_an_end_is_not_read_to_it(
    guarded: GuardedServer, tmp_path: Path
) -> None:
    guarded.is_endless = True
    with pytest.raises(ToolError, match="longer than 8,388,608 bytes"):
        await sign_in(f"{guarded.base}/mcp", tmp_path / "door.json", pytest.fail)


@pytest.mark.thorough
async def test_the_command_shows_the_address_and_waits_for_the_answer(
    guarded: GuardedServer, tmp_path: Path
) -> None:
    command = (sys.executable, "-P", "-m", "mindstone_tui", "tools")
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "MINDSTONE_HOME": str(tmp_path / "home")}

    async def run(*words: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, *words, env=environ, cwd=tmp_path, stdout=pipe, stderr=pipe
        )

    assert await (await run("add", "door", "--url", f"{guarded.base}/mcp")).wait() == 0
    login = await run("login", "door")
    assert login.stdout is not None
    opened: list[asyncio.Task[httpx.Response]] = []
    browser((await login.stdout.readline()).decode().strip(), opened)
    _, told = await login.communicate()
    assert (login.returncode, b"Signed in to door." in told) == (0, True), told
    assert (await opened[0]).status_code == 200
    listed, _ = await (await run("test", "door", "--json")).communicate()
    assert [tool["name"] for tool in json.loads(listed)["tools"]] == ["door__open_door"]
