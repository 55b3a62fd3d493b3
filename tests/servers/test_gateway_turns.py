"""Which session and which turn a client's request becomes, asked without a server in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui import api
from mindstone_tui.core.entries import Line, ToolSchema
from mindstone_tui.servers.gateway import Gateway, Run
from mindstone_tui.servers.wire import ClientMessage, ClientRequest, Reply
from tests.core.session.stage import check_history, script

PATIENCE = 60.0
LOOK = ToolSchema(name="look", description="", parameters={"type": "object", "properties": {}})
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x02\0\0\0"
    b"\x12\x16\xf1\x4d\0\0\0\0IEND\xaeB`\x82"
)


def talk(*texts: str) -> tuple[ClientMessage, ...]:
    """A conversation in which a person begins and both take turns."""
    return tuple(
        ClientMessage(role="assistant" if number % 2 else "user", text=text)
        for number, text in enumerate(texts)
    )


class Desk:
    """A gateway, and a client that reads each reply to its end."""

    def __init__(self, home: Path) -> None:
        self.home = api.Home(home)
        self.gateway = Gateway(self.home)
        self.pieces: list[tuple[str, str]] = []

    async def ask(
        self,
        *messages: ClientMessage,
        session: str = "",
        own_tools: bool = False,
        **more: Any,
    ) -> tuple[Run, Reply]:
        asked = ClientRequest(
            **{"format": "chat", "model": "default", "messages": messages, **more}
        )
        async with asyncio.timeout(PATIENCE):
            run = await self.gateway.take(asked, session=session, own_tools=own_tools)
            return run, await self.hear(run)

    async def hear(self, run: Run) -> Reply:
        reply = Reply(id="", model="")
        async with asyncio.timeout(PATIENCE):
            self.pieces = [piece async for piece in self.gateway.pieces(run, reply)]
        return reply

    def entries(self, kind: str, session: str = "main") -> list[Any]:
        found = api.log(session=session, kinds=[kind], home=self.home)
        return [line.entry for line in found if isinstance(line, Line)]

    def asked(self, session: str = "main") -> list[str]:
        return [entry.text for entry in self.entries("user_message", session)]

    def sessions(self) -> dict[str, list[str]]:
        """What was asked in each session."""
        return {each.key.main: self.asked(str(each.key)) for each in self.home.places.sessions()}

    async def other(self, text: str, session: str = "main") -> None:
        """Let another surface say something."""
        async with api.open_conversation(session, home=self.home) as conversation:
            async for _ in conversation.ask(text):
                pass


@contextlib.asynccontextmanager
async def sitting(
    home: Path, *replies: Mapping[str, Any], settings: str = ""
) -> AsyncIterator[Desk]:
    """A gateway whose model says these replies, over and over."""
    home.mkdir(exist_ok=True)  # noqa: ASYNC240
    model = script(home.parent, *(replies or ({"text": "Aye."},)), loop=True)
    written = f'[models]\ndefault = "{model}"\n[recall]\nauto = false\n{settings}'
    (home / "config.toml").write_text(written)
    desk = Desk(home)
    try:
        yield desk
        for each in desk.home.places.sessions():
            check_history(each)
    finally:
        await desk.gateway.close()


@pytest.mark.parametrize(
    ("past", "known"),
    [
        (("one", "Aye."), True),
        (("one", "Aye.", "two", "Aye."), True),
        (("one", "No."), False),
        (("one", "Aye.", "three", "Aye."), False),
        (("one", "Aye.", "two", "Aye.", "three", "Aye."), False),
        (("zero", "Aye.", "one", "Aye."), False),
    ],
)
async def test_only_who_knows_nothing_but_what_was_said_here_goes_on_in_the_default_session(
    home: Path, past: tuple[str, ...], known: bool
) -> None:
    """A stranger who began with the same words must not be let into a conversation of others."""
    async with sitting(home) as desk:
        await desk.ask(*talk("one"))
        await desk.ask(*talk("one", "Aye.", "two"))
        run, reply = await desk.ask(*talk(*past, "and now?"))
        assert reply.text == "Aye."
        own = desk.asked(run.room.conversation.session)
        if known:
            assert own[-1:] == ["and now?"] == desk.asked()[-1:]
        else:
            assert "api-" in run.room.conversation.session
            assert own == [*past[::2], "and now?"]
            assert desk.asked() == ["one", "two"]
