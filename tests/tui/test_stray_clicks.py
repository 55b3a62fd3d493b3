"""A click or a key that was meant for something else decides nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mindstone_tui.core import events as ev
from mindstone_tui.tui.app import MindstoneApp
from tests.tui.staged import Staged, around, asked, staged, until
from tests.tui.test_decisions import GRACE, WISH, in_view

STRAY: list[dict[str, Any]] = [
    {"button": 2},
    {"button": 3},
    {"meta": True},
    {"control": True},
    {"shift": True},
]


def timed(now: list[float], *happened: ev.AnyEvent) -> tuple[MindstoneApp, Staged]:
    """An app whose clock stands where it is set."""
    host = msgspec.structs.replace(around(), decision_grace=GRACE, clock=lambda: now[0])
    return staged(*happened, given=host)


@pytest.mark.parametrize("how", STRAY)
async def test_only_a_plain_left_click_answers(how: dict[str, Any]) -> None:
    now = [100.0]
    app, talk = timed(now, asked(1, "go"), WISH)
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += GRACE + 0.1
        await pilot.click("#allow-0", **how)
        now[0] += GRACE
        await pilot.press("y")
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "y"), "it led into the question"
        await pilot.click("#allow-0")
        await until(pilot, lambda: [one[0] for one in talk.did] == ["answer"])
