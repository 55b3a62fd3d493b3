"""What a person corrected is told nowhere as if it still held."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.session.stage import Stage, on_stage, script

FILL = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod " * 24


def prompt(stage: Stage) -> str:
    """The newest request, as it was sent."""
    return str(stage.requests()[-1])


@pytest.mark.parametrize("pinned", [False, True])
async def test_no_prompt_has_a_corrected_message_without_its_correction(
    home: Path, tmp_path: Path, pinned: bool
) -> None:
    model = script(tmp_path, {"text": f"Fine. {FILL}"}, loop=True)
    async with on_stage(home, model=model, context_window=8_000) as stage:
        if pinned:
            await stage.say("Hello, help me ship it.")
        await stage.say("The deploy host is harbour-1. Please help me ship it.")
        if pinned:
            await stage.run("/pin turn 2")
        await stage.say("No, the deploy host is harbour-2, not harbour-1.")
        turn = stage.lines()[-1].turn
        for number in range(14):
            await stage.say(f"Message number {number}. {FILL}")
        assert "harbour-1" in prompt(stage)
        assert "the deploy host is harbour-2" in prompt(stage)
        _, why = await stage.run(f"/why turn {turn}")
        assert "because it corrects what is shown" in why
