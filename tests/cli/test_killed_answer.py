"""A program that is killed while an answer comes: what was shown of it is in history, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mindstone_tui.core.entries.conversation import AssistantPartial, TurnEnded
from mindstone_tui.core.paths import Places
from tests.core.session.stage import KEY, check_history, on_stage, read, script
from tests.faults import FULL

WORDS = [f"word{number}" for number in range(60)]
POINTS = 100 if FULL else 12


def shown_until(command: list[str], home: Path, words: int) -> str:
    """What a program printed by the time that it was killed, after so many words."""
    environ = {**os.environ, "MINDSTONE_HOME": str(home)}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        seen = b""
        while len(seen.split()) < words and (piece := os.read(process.stdout.fileno(), 65_536)):
            seen += piece
        process.kill()
        return (seen + process.stdout.read()).decode()


@pytest.mark.parametrize("part", range(3))
async def test_words_that_were_shown_before_a_kill_are_in_history_once(
    home: Path, tmp_path: Path, part: int
) -> None:
    model = script(tmp_path, {"text": " ".join(WORDS), "delay_ms": 4}, loop=True)
    command = [sys.executable, "-m", "mindstone_tui", "run", "--model", model, "tell me"]
    places = Places.resolve({"MINDSTONE_HOME": str(home)}).session(KEY)
    shown: list[str] = []
    for point in range(part, POINTS, 3):
        after = 2 + point * (len(WORDS) - 6) // POINTS
        shown.append(shown_until(command, home, after))
    async with on_stage(home, model=model, follow=True):
        pass
    partial = [line.entry for line in read(places) if isinstance(line.entry, AssistantPartial)]
    endings = [line.entry for line in read(places) if isinstance(line.entry, TurnEnded)]
    assert len(partial) == len(shown)
    assert [each.ending for each in endings] == ["interrupted"] * len(shown)
    for seen, kept in zip(shown, partial, strict=True):
        whole = seen[: seen.rfind(" ") + 1]
        assert whole
        assert kept.text.startswith(whole)
        assert " ".join(WORDS).startswith(kept.text)
    async with on_stage(home, model=model, follow=True):
        pass
    again = [line for line in read(places) if isinstance(line.entry, AssistantPartial)]
    assert len(again) == len(partial)
    check_history(places)
