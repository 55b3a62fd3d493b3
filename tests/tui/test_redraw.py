"""What is sent to the terminal while an answer grows: enough, and not much more."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from rich.console import RenderableType
from textual import events
from textual._compositor import CompositorUpdate
from textual.pilot import Pilot
from textual.screen import Screen

from mindstone_tui.core import events as ev
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.widgets.conversation import ConversationView
from mindstone_tui.tui.widgets.welcome import Welcome
from tests.tui.screen_model import ScreenModel
from tests.tui.staged import (
    Staged,
    around,
    asked,
    done,
    ready,
    recorded,
    reported,
    settle,
    until,
)

SIZE = (120, 40)
ANSWER = """A **stone** remembers what was said, and the prompt is only what it needs to see of it.

- one item with `code` in it
- another, long enough that it has to be broken at the end of the line and goes on below

```python
def append(self, entry):
    return entry
```

| mark | what happens |
|---|---|
| trim | results become a placeholder |
"""


class Watched(MindstoneApp):
    """The app on a screen model that counts what each update prints."""

    def __init__(self, talk: Staged) -> None:
        async def open_conversation(key: str) -> ev.Conversation:
            return talk

        super().__init__(open_conversation, around())
        self.model = ScreenModel(*SIZE)
        self.frames: list[int] = []

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count:
            before = self.model.printed
            self.model.feed(renderable.render_segments(self.console))
            self.frames.append(self.model.printed - before)
        super()._display(screen, renderable)

    @property
    def whole(self) -> str:
        """The screen as it would be if everything were drawn afresh."""
        strips = self.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in strips)


async def test_a_word_that_fits_its_line_redraws_little_more_than_that_line() -> None:
    talk = Staged([ready(), asked(1, "go"), reported()])
    app = Watched(talk)
    async with app.run_test(size=SIZE) as pilot:
        for number in range(60):
            talk.announce(ev.TextDelta(turn=1, text=f"line {number}\n\n"))
        talk.announce(ev.TextDelta(turn=1, text="first"))
        await until(pilot, lambda: "first" in app.model.text)
        await settle(pilot, talk)
        app.frames.clear()
        talk.announce(ev.TextDelta(turn=1, text=" second"))
        await until(pilot, lambda: "first second" in app.model.text)
        assert sum(app.frames) <= 2 * SIZE[0]


async def test_a_letter_is_drawn_before_all_else_that_waits_to_be_drawn() -> None:
    talk = Staged([ready(), asked(1, "go"), reported()])
    app = Watched(talk)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, talk)
        await pilot.press("x")
        await settle(pilot, talk)
        app.frames.clear()
        app.chat.refresh(layout=True)
        prompt = app.chat.input_area.prompt
        await prompt._on_key(events.Key("y", "y"))
        prompt._check_refresh()  # as its idle loop does; no frame came meanwhile
        assert "xy" in app.model.text
        assert len(app.frames) == 1
        assert app.frames[0] <= 2 * SIZE[0]
        await until(pilot, lambda: len(app.frames) > 1)
        await settle(pilot, talk)
        assert app.model.text == app.whole


TICK = 200
"""Bytes: seconds that go on are a small picture of their own, whatever else is drawn."""


async def test_a_new_line_is_drawn_with_its_scroll_bar_in_one_picture() -> None:
    talk = Staged([ready(), asked(1, "go"), reported()])
    app = Watched(talk)
    async with app.run_test(size=SIZE) as pilot:
        for number in range(60):
            talk.announce(ev.TextDelta(turn=1, text=f"line {number}\n\n"))
        await until(pilot, lambda: "line 59" in app.model.text)
        await settle(pilot, talk)
        app.frames.clear()
        talk.announce(ev.TextDelta(turn=1, text="last"))
        await until(pilot, lambda: "last" in app.model.text)
        await settle(pilot, talk)
        drawn = [size for size in app.frames if size > TICK]
        assert len(drawn) == 1
        assert app.model.text == app.whole


async def test_the_scroll_bar_stands_at_the_end_while_the_end_is_followed() -> None:
    talk = Staged([ready(), asked(1, "go"), reported()])
    app = Watched(talk)
    async with app.run_test(size=SIZE) as pilot:
        for number in range(60):
            talk.announce(ev.TextDelta(turn=1, text=f"line {number}\n\n"))
        await until(pilot, lambda: "line 59" in app.model.text)
        talk.announce(ev.MessageQueued(entry="m1", text="and one that waits above the prompt"))
        await settle(pilot, talk)
        conversation = app.screen.query_one(ConversationView)
        drawn = app.whole
        conversation.vertical_scrollbar.refresh()
        await pilot.pause()
        assert conversation.scroll_y == conversation.max_scroll_y > 0
        assert app.whole == drawn


@pytest.mark.parametrize("size", [7, 40])
async def test_drawing_only_what_differs_shows_what_drawing_all_of_it_would(size: int) -> None:
    talk = Staged([ready(), asked(1, "go"), reported()])
    app = Watched(talk)
    text = ANSWER * 3
    async with app.run_test(size=SIZE) as pilot:
        for at in range(0, len(text), size):
            talk.announce(ev.TextDelta(turn=1, text=text[at : at + size]))
            if at // size % 9 == 0:
                await settle(pilot, talk)
                await until(pilot, lambda: app.model.text == app.whole)
        await settle(pilot, talk)
        await until(pilot, lambda: app.model.text == app.whole)
        assert "results become a placeholder" in app.model.text


QUOTED = """This was said before:

> Written: one paragraph each, with `make check` as the only command for developers.
> — agent:default:main #605 · turn 76 · 6 February 2026 · assistant · score 0.63

> The port 8790, the poll timeout of 8 seconds, the busy timeout of 4,000 ms.
> — agent:default:main #539 · turn 67 · 6 February 2026 · assistant · score 0.68

> Port clash: 8765 is taken on the harbour machine by the old system. Use 8790.
> — agent:default:main #264 · turn 32 · 3 February 2026 · Mara · score 0.87"""


@pytest.mark.parametrize("seed", range(2))
async def test_the_first_answer_is_whole_after_a_switch_of_models_and_resizes(seed: int) -> None:
    dice = random.Random(seed)
    talk = Staged([ready(turns=0), reported()])
    app = Watched(talk)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot, talk)
        assert app.screen.query(Welcome)
        talk.announce(ev.ModelChanged(model="local/guide", note=""), asked(1, "which port?"))
        size = dice.choice((3, 11))
        pieces = [QUOTED[at : at + size] for at in range(0, len(QUOTED), size)]
        resized = set(dice.sample(range(len(pieces)), 3))
        for at, piece in enumerate(pieces):
            talk.announce(ev.TextDelta(turn=1, text=piece))
            if at in resized:
                await _resize(app, pilot, dice.choice(((80, 24), (120, 40), (100, 30), (70, 40))))
        talk.announce(recorded(1, QUOTED), done(1, elapsed=2.0), reported())
        await _resize(app, pilot, SIZE)
        await settle(pilot, talk)
        await until(pilot, lambda: app.model.text == app.whole)
        for part in ("make check", "poll timeout", "Use 8790.", "0.87", "2.0 s"):
            assert part in app.whole
        assert not app.screen.query(Welcome)


async def _resize(app: Watched, pilot: Pilot[int], size: tuple[int, int]) -> None:
    app.model = ScreenModel(*size)
    await pilot.resize_terminal(*size)


@pytest.mark.parametrize(("wished", "drawn"), [({}, 240), ({"TEXTUAL_FPS": "30"}, 30)])
def test_a_key_waits_for_one_of_240_pictures_unless_the_user_wishes_otherwise(
    wished: dict[str, str], drawn: int
) -> None:
    told = "import mindstone_tui.tui.app, textual.constants as it; print(it.MAX_FPS)"
    environ = {key: value for key, value in os.environ.items() if key != "TEXTUAL_FPS"}
    done = subprocess.run(
        [sys.executable, "-c", told], env=environ | wished, capture_output=True, check=True
    )
    assert int(done.stdout) == drawn
