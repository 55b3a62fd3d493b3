"""A resident in this process, on a port of its own, for the time of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from mindstone_tui import api
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.servers.resident import Listening, Resident
from tests.core.session.stage import script

PATIENCE = 90.0


class Residence:
    """A resident that listens, and what a client needs to know about it."""

    def __init__(self, told: Listening, home: Path) -> None:
        self.told = told
        self.url = told.url
        self.home = api.Home(home)
        self.token = Path(told.token).read_text("ascii")

    def client(self, **more: Any) -> httpx.AsyncClient:
        """A client that has the token."""
        headers = {"authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE, **more)

    def places(self, session: str = "main") -> SessionPlaces:
        return self.home.places.session(self.home.key(session))

    def kinds(self, session: str = "main", *kinds: str) -> list[str]:
        """What kinds of lines a session has, in order."""
        lines = api.log(session=session, kinds=kinds, home=self.home)
        return [line.kind for line in lines]  # type: ignore[union-attr]


@contextlib.asynccontextmanager
async def residing(
    home: Path, folder: Path, *replies: Mapping[str, Any], settings: str = ""
) -> AsyncIterator[Residence]:
    """A resident whose model says these replies, over and over."""
    model = script(folder, *(replies or ({"text": "Port 8443."},)), loop=True)
    home.mkdir(exist_ok=True)  # noqa: ASYNC240
    (home / "config.toml").write_text(f'[models]\ndefault = "{model}"\n{settings}')
    ready: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
    resident = Resident(api.Home(home))
    running = asyncio.create_task(resident.run(port=0, http=True, ready=ready.set_result))
    waiting: list[asyncio.Future[Any]] = [running, ready]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    try:
        yield Residence(ready.result(), home)
    finally:
        resident.stop()
        await running
