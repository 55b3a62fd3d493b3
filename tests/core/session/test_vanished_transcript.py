"""A transcript that goes away while it is open: what was typed comes back, and stands in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.events.narrate import aside
from tests.core.session.stage import Stage, check_history, on_stage, script


def files(stage: Stage) -> list[str]:
    """The rescue files."""
    folder = stage.session.services.home.state / "rescued"
    return [str(path) for path in folder.glob("*.jsonl")]


def rescued(stage: Stage) -> str:
    """Everything that stands in them."""
    return "".join(Path(path).read_text() for path in files(stage))


def said(stage: Stage, after: int) -> list[str]:
    """What a person was shown since then."""
    lines = (aside(event) for event in stage.heard[after:])
    return [line.text for line in lines if line is not None]


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("harm", [Path.unlink, cut])
async def test_what_was_typed_comes_back_and_is_in_a_file(
    home: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    model = script(tmp_path, {"text": "yes"}, loop=True)
    async with on_stage(home, model=model, follow=False) as stage:
        await stage.say("first")
        here = len(stage.heard)
        before = stage.places.transcript.read_bytes()
        harm(stage.places.transcript)
        for words in ("do not lose me", "nor me, sk-proj-" + "a1B2" * 12):
            assert (await stage.say(words)).ending == "failed"
        returned = stage.all(events.MessageReturned)
        assert [event.text[:14] for event in returned] == ["do not lose me", "nor me, sk-pro"]
        assert {event.path for event in returned} == set(files(stage))
        assert "do not lose me" in rescued(stage)
        assert "nor me" in rescued(stage)
        assert "a1B2a1B2" not in rescued(stage)
        loud = [text for text in said(stage, here) if "NOT SAVED" in text]
        assert [text.count("NOT SAVED") for text in loud] == [1]
        await stage.session.close()
        stage.places.transcript.write_bytes(before)
    assert "What could not be saved is in" in stage.all(events.Noticed)[-1].message
    assert "do not lose me" in rescued(stage)


async def test_a_transcript_that_is_put_back_goes_on_and_the_file_is_taken_away(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "yes"}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("first")
        aside_ = stage.places.folder / "away"
        stage.places.transcript.rename(aside_)
        await stage.say("second")
        assert "second" in rescued(stage)
        aside_.rename(stage.places.transcript)
        assert (await stage.say("second")).ending == "done"
        assert rescued(stage) == ""
    assert [entry.text for entry in stage.entries(UserMessage)] == ["first", "second"]
    check_history(stage.places)
