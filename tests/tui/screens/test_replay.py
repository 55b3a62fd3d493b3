"""The replay screen: drawn like a live session, with hands on the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from mindstone_tui.core.context.build_report import report_at
from mindstone_tui.core.replay.playback import Replay
from mindstone_tui.core.transcript import History
from mindstone_tui.tui.app import ReplayApp
from mindstone_tui.tui.screens.replay import ReplayScreen
from mindstone_tui.tui.widgets.context_panel import LeftLog
from mindstone_tui.tui.widgets.exchange import ExchangeView
from tests.core.replay.recorded import SMALL, recorded
from tests.tui.staged import around, asked, settle, staged, until


class Theatre:
    """The screen, its recording, and a pilot."""

    def __init__(self, app: ReplayApp, pilot: Pilot[int], history: History) -> None:
        self.app = app
        self.pilot = pilot
        self.history = history

    @property
    def screen(self) -> ReplayScreen:
        return self.app.recording

    @property
    def replay(self) -> Replay:
        assert self.screen.replay is not None
        return self.screen.replay

    async def press(self, *keys: str, then: Callable[[], bool]) -> None:
        await self.pilot.press(*keys)
        await until(self.pilot, then)

    @property
    def shown_turns(self) -> list[int]:
        return [view.exchange.turn for view in self.screen.query(ExchangeView)]


@asynccontextmanager
async def theatre(home: Path, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Theatre]:
    with recorded(home) as history:

        async def open_replay() -> Replay:
            return Replay(history, SMALL, speed=0.0, playing=False)

        app = ReplayApp(open_replay, around())
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.recording.timeline.position is not None)
            yield Theatre(app, pilot, history)


async def test_ctrl_c_says_how_to_leave_a_recording(home: Path) -> None:
    async with theatre(home) as show:
        await show.press("ctrl+c", then=lambda: bool(show.app._notifications))
        (told,) = show.app._notifications
        assert told.message == "Esc goes back. Ctrl+Q leaves."


async def test_a_prune_is_jumped_to_and_the_panel_shows_that_moment(home: Path) -> None:
    async with theatre(home) as show:
        await show.press("p", then=lambda: show.screen.panel.report is not None)
        prune = show.replay.survey.after(0, "prune")
        assert prune is not None
        await until(show.pilot, lambda: show.replay.position.turn == prune.turn)
        call = show.replay.survey.after(prune.seq, "call")
        assert call is not None
        expected = report_at(show.history, SMALL, show.history.line(call.seq))
        await until(show.pilot, lambda: show.screen.panel.report == expected)
        assert show.screen.panel.query_one(LeftLog).entries
        assert prune.turn in show.shown_turns


async def test_steps_go_forwards_and_back(home: Path) -> None:
    async with theatre(home) as show:
        await show.press("j", then=lambda: show.replay.position.turn == 1)
        await show.press("j", then=lambda: show.replay.position.turn == 2)
        await until(show.pilot, lambda: show.shown_turns[-1:] == [2])
        await show.press("right", then=lambda: show.replay.position.turn == 3)
        await show.pilot.press("k")  # to the beginning of this turn
        await show.press("k", then=lambda: show.replay.position.turn == 2)
        assert not show.replay.position.playing


@pytest.mark.thorough
async def test_space_plays_to_the_end_and_signs_are_drawn(home: Path) -> None:
    async with theatre(home, size=(100, 30)) as show:
        await show.press("space", then=lambda: show.replay.position.at_end)
        picture = show.screen.timeline.render().plain
        assert "turn 24 of 24" in picture
        assert "▾" in picture
        assert "█" in picture


@pytest.mark.thorough
async def test_a_turn_is_asked_for_and_words_are_found_spaces_and_all(home: Path) -> None:
    async with theatre(home, size=(80, 24)) as show:
        await show.press("g", "1", "5", "enter", then=lambda: show.replay.position.turn == 15)
        await show.pilot.press("slash", *"never", "space", *"8765")
        assert show.screen.query_one("#where", Input).value == "never 8765"
        await show.press("enter", then=lambda: show.replay.position.turn == 1)
        await until(show.pilot, lambda: show.shown_turns[-1:] == [1])


async def test_speed_goes_up_and_down(home: Path) -> None:
    async with theatre(home) as show:
        show.replay.set_speed(1.0)
        await show.press("plus", then=lambda: show.replay.position.speed == 2.0)
        await show.press("minus", "minus", then=lambda: show.replay.position.speed == 0.5)
        assert "0.5×" in show.screen.timeline.render().plain


async def test_a_click_on_the_timeline_goes_there(home: Path) -> None:
    async with theatre(home) as show:
        await show.pilot.click("#timeline", offset=(10, 2))
        await until(show.pilot, lambda: show.replay.position.turn > 3)


@pytest.mark.thorough
async def test_what_left_can_be_visited(home: Path) -> None:
    async with theatre(home) as show:
        await show.press("p", then=lambda: bool(show.screen.panel.query_one(LeftLog).entries))
        log = show.screen.panel.query_one(LeftLog)
        turn = log.entries[-1].turn
        show.screen.set_focus(log)
        log.highlighted = len(log.entries) - 1
        await show.press("enter", then=lambda: show.replay.position.turn == turn)
        await until(show.pilot, lambda: bool(show.shown_turns))
        assert show.shown_turns[-1] == turn


async def test_leaving_leaves_the_app(home: Path) -> None:
    async with theatre(home) as show:
        await show.pilot.press("q")
        await until(show.pilot, lambda: not show.app.is_running or show.app.return_value == 0)


async def test_the_chat_opens_its_own_recording(home: Path) -> None:
    with recorded(home) as history:
        opened: list[tuple[str, int]] = []

        async def recordings(key: str, turn: int) -> Replay:
            opened.append((key, turn))
            return Replay(history, SMALL, speed=0.0, playing=False)

        app, talk = staged(
            asked(1, "hello"), given=msgspec.structs.replace(around(), recordings=recordings)
        )
        async with app.run_test(size=(100, 30)) as pilot:
            await settle(pilot, talk)
            await app.navigator.open("replay", "7")
            await until(pilot, lambda: isinstance(app.screen, ReplayScreen) and bool(opened))
            assert opened == [("agent:default:main", 7)]
            await pilot.press("q")
            await until(pilot, lambda: app.screen is app.chat)
