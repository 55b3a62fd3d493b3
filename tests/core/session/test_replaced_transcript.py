"""Another file in the transcript's place: the same history goes on, another one is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.paths import SessionPlaces
from tests.core.session.stage import Stage, check_history, on_stage, script


def keep(places: SessionPlaces) -> Path:
    copy = places.folder.parent / "copy"
    shutil.copy(places.transcript, copy)
    return copy


def warnings(stage: Stage) -> list[str]:
    return [
        each.message for each in stage.all(events.Noticed) if "in the transcript's" in each.message
    ]


async def test_an_older_copy_is_said_and_the_window_is_folded_from_it(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, *({"text": f"Answer {n}."} for n in range(9)), loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("first")
        await stage.run("/prune")
        copy = keep(stage.places)
        await stage.say("second")
        await stage.run("/prune")
        lost = stage.places.transcript.read_bytes()
        copy.replace(stage.places.transcript)
        stage.heard.clear()  # there will be a second turn 2
        assert (await stage.say("third")).ending == "done"
        (said,) = warnings(stage)
        (kept,) = stage.places.lost.iterdir()
        assert str(kept) in said
        assert kept.read_bytes() == lost
        sent = str(stage.requests()[-1])
        assert "first" in sent
        assert "third" in sent
        assert "second" not in sent
        assert [entry.text for entry in stage.entries(UserMessage)] == ["first", "third"]
        await stage.say("fourth")
        assert len(warnings(stage)) == 1
    assert "file_replaced" in [line.kind for line in stage.lines()]
    check_history(stage.places)


async def test_the_same_history_in_another_file_goes_on_without_a_word(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, *({"text": f"Answer {n}."} for n in range(9)), loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("first")
        await stage.run("/prune")
        keep(stage.places).replace(stage.places.transcript)
        assert (await stage.say("second")).ending == "done"
        assert "first" in str(stage.requests()[-1])
        assert not warnings(stage)
        assert not stage.places.lost.exists()
    check_history(stage.places)


async def test_a_running_turn_does_not_go_on_in_another_history(home: Path, tmp_path: Path) -> None:
    slow = {"text": "one two three four five", "delay_ms": 400}
    model = script(tmp_path, {"text": "yes"}, slow, {"text": "again"}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("first")
        copy = keep(stage.places)
        sound = copy.read_bytes()
        stage.session.send("second")
        await stage.until(events.TextDelta, lambda event: event.turn == 2)
        copy.replace(stage.places.transcript)
        ended = await stage.until(events.TurnEnded, lambda event: event.turn == 2)
        assert ended.ending in ("interrupted", "done")
        assert len(warnings(stage)) == 1
        stage.heard.clear()
        assert (await stage.say("third")).ending == "done"
        assert "second" not in str(stage.requests()[-1])
        await stage.session.close()
        stage.places.transcript.write_bytes(sound)  # here the second turn has an end alone


@pytest.mark.parametrize("longer", [False, True])
async def test_another_history_written_over_it_is_noticed_by_its_hash(
    home: Path, tmp_path: Path, longer: bool
) -> None:
    model = script(tmp_path, *({"text": f"Answer {n}."} for n in range(9)), loop=True)
    async with on_stage(tmp_path / "other", model=model) as other:
        for words in ("elsewhere", "and more", "and on")[: 3 if longer else 1]:
            await other.say(words)
    async with on_stage(home, model=model) as stage:
        await stage.say("first")
        if not longer:
            await stage.say("second")
        await stage.run("/prune")
        stage.places.transcript.write_bytes(other.places.transcript.read_bytes())
        ended = await stage.say("third")
        if longer:
            assert ended.ending == "done"
            assert len(warnings(stage)) == 1
            assert "elsewhere" in str(stage.requests()[-1])
        else:
            assert "cut" in ended.why
            await stage.session.close()
            shutil.copy(other.places.transcript, stage.places.transcript)


async def test_who_opens_a_session_hears_that_a_line_was_altered(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("The roof code is 5822.")
        assert stage.session.services.left_open() == []
        path = stage.places.transcript
    path.write_bytes(path.read_bytes().replace(b"code is 5822", b"code is 5823"))
    async with on_stage(home, model=model) as stage:
        (told,) = stage.session.services.left_open()
        path.write_bytes(path.read_bytes().replace(b"code is 5823", b"code is 5822"))
    assert told.startswith("1 line is not as it was written, first line ")
