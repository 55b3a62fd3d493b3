"""Eighty columns by twenty-four rows: what must be read or pressed is in view."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Button, Static

from mindstone_tui.core import events as ev
from mindstone_tui.core.library.profile import ListedSession, SessionFilter
from mindstone_tui.core.library.search import SessionHit
from mindstone_tui.core.session.features import known_commands
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.host import CommandHelp
from mindstone_tui.tui.screens.help import HelpScreen
from mindstone_tui.tui.screens.sessions import SessionsScreen
from mindstone_tui.tui.widgets.approval import Approval
from tests.tui.scenes import DIFF, WISH
from tests.tui.shelf import Shelf
from tests.tui.staged import around, asked, reported, settle, staged, streamed, until

SIZE = (80, 24)
REGISTERED = tuple(
    CommandHelp(name=one.name, usage=one.usage, help=one.help, choices=one.words)
    for one in known_commands().values()
)


def shown(app: MindstoneApp) -> list[str]:
    """The rows of the screen."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


class Nothing(Shelf):
    """A library with no session at all, or one that nobody said anything in."""

    async def sessions(self, wanted: SessionFilter | None = None) -> Sequence[ListedSession]:
        return []

    async def search(self, text: str, wanted: SessionFilter | None = None) -> Sequence[SessionHit]:
        return []


@pytest.mark.parametrize("size", [(60, 16), SIZE, (160, 50)])
async def test_every_answer_is_in_view_however_long_the_diff_is(size: tuple[int, int]) -> None:
    wish = msgspec.structs.replace(WISH, turn=1, diff=DIFF * 30)
    app, _ = staged(asked(1, "go"), wish)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: any("PgDn reads on" in row for row in shown(app)))
        rows = shown(app)
        for button in app.screen.query(Button):
            assert any(str(button.label) in row for row in rows)
        await until(pilot, lambda: bool(app.screen.query_one(Approval).is_open))
        await pilot.press("tab", "pagedown")
        await until(pilot, lambda: app.screen.query_one("#exact").scroll_y > 0)
        assert app.chat.input_area.decision is not None


async def test_a_session_is_listed_with_more_than_its_name(home: Path) -> None:
    given = msgspec.structs.replace(around(), library=Shelf(home))
    app, talk = staged(given=given)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, talk)
        await pilot.press("f3")
        await until(pilot, lambda: any("112 turns  Make the landing" in row for row in shown(app)))


@pytest.mark.parametrize(
    ("typed", "told"),
    [("", "No sessions yet."), ("zebra", "No session or message matches.")],
)
async def test_an_empty_list_says_why(home: Path, typed: str, told: str) -> None:
    app, talk = staged(given=msgspec.structs.replace(around(), library=Nothing(home)))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, talk)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        await pilot.press(*typed)
        await until(pilot, lambda: str(app.screen.query_one("#note", Static).render()) == told)


async def test_an_inspector_without_a_measure_says_when_there_will_be_one() -> None:
    app, talk = staged()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, talk)
        await pilot.press("f2")
        await until(pilot, lambda: any("measured when you send" in row for row in shown(app)))
        assert not any("tokens" in row for row in shown(app))


async def test_help_keeps_its_columns() -> None:
    app, talk = staged(given=msgspec.structs.replace(around(), commands=lambda: REGISTERED))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, talk)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await until(pilot, lambda: "/prune" in str(app.screen.query_one("#help").render()))
        text = str(app.screen.query_one("#help").render())
        commands = text.split("Commands\n")[1].split("\n\n")[0].split("\n")
        assert all(line.startswith(("  /", " " * 26)) for line in commands)
        width = app.screen.query_one("#help").size.width
        assert max(map(len, commands)) <= width


async def test_commands_are_offered_one_a_row() -> None:
    app, talk = staged(given=msgspec.structs.replace(around(), commands=lambda: REGISTERED))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, talk)
        await pilot.press("slash")
        await pilot.pause()
        completions = app.chat.input_area.completions
        assert completions.virtual_size.height == completions.option_count


async def test_a_long_queued_message_keeps_the_way_to_take_it_back_in_view() -> None:
    app, talk = staged(
        asked(1, "go"), *streamed(1, "well"), ev.MessageQueued(entry="q", text="and then " * 60)
    )
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, talk)
        await until(pilot, lambda: any("… " in row and "↑ to edit" in row for row in shown(app)))


@pytest.mark.thorough
async def test_a_terminal_may_be_absurdly_small_and_grow_again() -> None:
    app, talk = staged(asked(1, "go"), *streamed(1, "well " * 30), reported())
    async with app.run_test(size=(1, 1)) as pilot:
        await settle(pilot, talk)
        for size in ((1, 1), (8, 4), (20, 6), (30, 10), (48, 24), (60, 16)):
            await pilot.resize_terminal(*size)
            for key in ("f2", "f3", "f1", "ctrl+p"):
                await pilot.press(key)
                await pilot.pause()
                await pilot.press("escape")
        await pilot.resize_terminal(*SIZE)
        await until(pilot, lambda: any("well well" in row for row in shown(app)))
