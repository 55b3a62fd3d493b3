"""A question in an editor: what came before anybody could have read it is no person's word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from mindstone_tui import api
from mindstone_tui.core import events as ev
from mindstone_tui.core.events.question import GRACE
from mindstone_tui.servers.acp import OpenSession
from mindstone_tui.servers.acp_updates import CHOSEN, UNREAD
from mindstone_tui.servers.peer import Peer

MAKE = ev.ToolAsked(
    turn=1,
    call="c",
    name="shell",
    risk="run",
    shown="run make",
    digest="d",
    scopes=(
        ev.AskedScope(scope="once", label="Allow once"),
        ev.AskedScope(scope="exact", label="Allow make", remember="shell make", keep="config"),
    ),
)


class Editor:
    """Answers each request after so many seconds of its own clock, the last again and again."""

    def __init__(self, choice: str, *waits: float) -> None:
        self.now = 100.0
        self.choice = choice
        self.waits = list(waits)
        self.asked = 0
        self.told: list[str] = []

    async def ask(self, method: str, params: Any) -> Any:
        self.now += self.waits[min(self.asked, len(self.waits) - 1)]
        self.asked += 1
        return {"outcome": {"outcome": "selected", "optionId": self.choice}}

    async def tell(self, method: str, params: Any) -> None:
        self.told.append(str(params))


class Talk:
    """Asks one thing."""

    session = "agent:default:main"

    def __init__(self, asked: ev.ToolAsked) -> None:
        self.asked = asked
        self.given: list[ev.Answer] = []
        self.put, self.over = asyncio.Event(), asyncio.Event()

    async def events(self) -> AsyncIterator[ev.AnyEvent]:
        yield self.asked
        self.put.set()
        await self.over.wait()

    def answer(self, call: str, answer: ev.Answer) -> None:
        self.given.append(answer)

    def command(self, line: str, *, writing: float) -> None:
        self.writing = writing

    def plan(self) -> tuple[()]:
        return ()

    async def close(self) -> None:
        self.over.set()


async def put(editor: Editor, asked: ev.ToolAsked) -> list[ev.Answer]:
    """What became of a question that the editor was asked."""
    talk = Talk(asked)
    session = OpenSession(cast(api.Conversation, talk), cast(Peer, editor))
    session.clock = lambda: editor.now
    await talk.put.wait()
    await session._asking["c"]
    await session.close()
    return talk.given


async def test_a_command_in_an_editor_means_nothing_that_came_while_it_was_written() -> None:
    talk = Talk(MAKE)
    session = OpenSession(cast(api.Conversation, talk), cast(Peer, Editor("deny", 2.0)))
    taking = asyncio.create_task(session.take("/plan approve", []))
    await talk.put.wait()
    assert talk.writing == pytest.approx(1.3)
    taking.cancel()
    await session.close()


@pytest.mark.parametrize("waits", [(GRACE,), (0.3, 4.0), (0.02, 0.15, 2.0)])
async def test_an_answer_counts_once_it_can_have_been_read(waits: tuple[float, ...]) -> None:
    editor = Editor("allow-1", *waits)
    (answer,) = await put(editor, MAKE)
    assert (answer.allowed, answer.how, answer.keep) == (True, CHOSEN, "config")
    assert (editor.asked, answer.seen) == (len(waits), waits[-1])


@pytest.mark.parametrize(("wait", "seen"), [(0.02, 0.02), (0.0001, 0.001)])
async def test_an_editor_that_answers_by_itself_counts_once_and_is_recorded_as_that(
    wait: float, seen: float
) -> None:
    (answer,) = await put(Editor("allow-1", wait), MAKE)
    assert (answer.allowed, answer.how, answer.seen) == (True, UNREAD, seen)
    assert (answer.keep, answer.remember, answer.granted) == ("", "", "")


@pytest.mark.parametrize("choice", ["allow-0", "deny"])
async def test_an_editor_answers_no_question_of_another_surface_by_itself(choice: str) -> None:
    from_app = msgspec.structs.replace(MAKE, channel="tui")
    editor = Editor(choice, 0.02)
    assert not await put(editor, from_app)
    assert "faster than anybody reads" in editor.told[-1]
    (answer,) = await put(Editor(choice, 2.0), from_app)
    assert answer.allowed is (choice == "allow-0")
