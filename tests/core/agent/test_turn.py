"""One turn: its budgets, its standing context, what is offered and what is said about an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import ToolCalled, ToolReturned
from mindstone_tui.core.entries.derived import NoteTaken, StandingInstructionOffered
from mindstone_tui.core.entries.window import InstructionsChanged
from mindstone_tui.core.library.open_questions import waiting_in
from mindstone_tui.core.paths import Places
from tests.core.session.stage import calls, on_stage, script


def configure(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)


def write_identity(home: Path, text: str) -> None:
    folder = home / "agents" / "default"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "IDENTITY.md").write_text(text)


@pytest.mark.parametrize(
    ("limit", "word"), [("turn_tokens = 500", "turn_tokens"), ("turn_cost = 0.01", "turn_cost")]
)
async def test_a_turn_that_becomes_too_expensive_stops(
    home: Path, tmp_path: Path, limit: str, word: str
) -> None:
    configure(home, f"[models]\n{limit}\n")
    usage = {"prompt": 400, "completion": 200, "cost": 0.02}
    dear = calls(("list", {}), usage=usage)
    async with on_stage(home, model=script(tmp_path, dear, loop=True)) as stage:
        ended = await stage.say("spend")
    assert ended.ending == "failed"
    assert word in ended.why
    assert ended.calls == 1


async def test_instructions_are_recorded_when_they_change_and_only_then(
    home: Path, tmp_path: Path
) -> None:
    write_identity(home, "You are a careful gardener.")
    async with on_stage(home, model=script(tmp_path, {"text": "ok"}, loop=True)) as stage:
        await stage.say("hello")
        await stage.say("hello again")
        assert len(stage.entries(InstructionsChanged)) == 1
        write_identity(home, "You are a careless gardener.")
        await stage.say("and now?")
    assert len(stage.entries(InstructionsChanged)) == 2
    systems = [request[0]["content"] for request in stage.requests()]
    assert "careful gardener" in systems[0]
    assert systems[0] == systems[1]
    assert "careless gardener" in systems[2]


async def test_an_identity_that_is_too_long_is_cut_and_that_is_said_once(
    home: Path, tmp_path: Path
) -> None:
    write_identity(home, "I am very talkative.\n" * 4_000)
    async with on_stage(home, model=script(tmp_path, {"text": "ok"}, loop=True)) as stage:
        await stage.say("hello")
        await stage.say("again")
    said = [e for e in stage.all(events.AlertRaised) if "IDENTITY.md" in e.message]
    assert len(said) == 1
    assert len(stage.requests()[0][0]["content"]) < 20_000


async def test_what_sounds_like_a_rule_is_offered_kept_in_every_prompt_or_not_offered_again(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "ok"}, loop=True)) as stage:
        await stage.say("From now on, always answer in Norwegian.")
        await stage.run("/keep")
        await stage.say("We should sort the gauges by name.")
        await stage.run("/keep yes")
        await stage.say("Don't touch the vendored files.")
        everywhere = Places.resolve({"MINDSTONE_HOME": str(home)})
        [waits] = waiting_in(everywhere, stage.places)
        assert (waits.kind, waits.command(yes=False)) == ("offer", f"/keep no {waits.mark}")
        await stage.run("/keep no")
        await stage.say("Do not rename the gauges.")
        await stage.say("Comments must be complete sentences.")
        assert [one.kind for one in waiting_in(everywhere, stage.places)] == ["offer"]
        await stage.say("And what is the tide today?")
        assert not waiting_in(everywhere, stage.places), "whoever goes on has answered"
        ended, _ = await stage.run("/keep maybe")
        assert not ended.ok
    offered = [one.text for one in stage.entries(StandingInstructionOffered)]
    assert offered == [
        "From now on, always answer in Norwegian.",
        "We should sort the gauges by name.",
        "Don't touch the vendored files.",
        "Comments must be complete sentences.",
    ]
    [kept] = stage.entries(NoteTaken)
    assert (kept.text, kept.by) == (offered[1], "person")
    head = stage.requests()[-1][0]["content"]
    assert f"1. {offered[0]}" in head, "a rule is set as one"
    assert "Said by the person, who wants it kept:" in head
    assert head.count(offered[1]) == 1
    assert offered[2] not in head


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ({"text": "and then", "finish": "length"}, "cut off"),
        ({"text": "I", "finish": "content_filter"}, "filter"),
        ({"text": ""}, "nothing"),
    ],
)
async def test_an_answer_that_ends_strangely_is_remarked_on(
    home: Path, tmp_path: Path, reply: dict[str, str], word: str
) -> None:
    async with on_stage(home, model=script(tmp_path, reply, {"text": "Better."})) as stage:
        assert (await stage.say("go")).ending == "done"
        assert any(word in event.message for event in stage.all(events.Noticed))
        assert (await stage.say("again")).ending == "done"


@pytest.mark.parametrize("keep", ["session", "config"])
async def test_a_rule_kept_with_a_yes_is_not_asked_about_again(
    home: Path, tmp_path: Path, keep: Literal["session", "config"]
) -> None:
    wanted = calls(("write", {"path": "a.txt", "text": "y"}))
    model = script(tmp_path, wanted, {"text": "ok"}, loop=True)
    async with on_stage(home, model=model, asks=True) as stage:
        stage.session.send("write")
        asked = await stage.until(events.ToolAsked)
        assert asked.remember
        rule = asked.remember[0]
        stage.session.answer(asked.call, events.Answer(allowed=True, remember=rule, keep=keep))
        await stage.until(events.TurnEnded)
        (tmp_path / "a.txt").unlink()
        assert (await stage.say("again")).ending == "done"
        assert len(stage.all(events.ToolAsked)) == 1
    assert (tmp_path / "a.txt").read_text() == "y"
    (tmp_path / "a.txt").unlink()
    async with on_stage(home, model=model, asks=False) as stage:
        await stage.say("once more")
    assert (tmp_path / "a.txt").exists() == (keep == "config")


async def test_what_was_shown_is_what_runs(home: Path, tmp_path: Path) -> None:
    wanted = calls(("write", {"path": "a.txt", "text": "new"}))
    (tmp_path / "a.txt").write_text("old")
    async with on_stage(home, model=script(tmp_path, wanted, {"text": "ok"}), asks=True) as stage:
        stage.session.send("write")
        asked = await stage.until(events.ToolAsked)
        assert "new" in asked.diff
        (tmp_path / "a.txt").write_text("changed behind your back")
        stage.session.answer(asked.call, events.Answer(allowed=True))
        await stage.until(events.TurnEnded)
    assert stage.all(events.ToolEnded)[0].status == "error"
    assert (tmp_path / "a.txt").read_text() == "changed behind your back"


async def test_a_call_that_cannot_begin_says_which_file_it_was_for(
    home: Path, tmp_path: Path
) -> None:
    wanted = calls(
        ("edit", {"path": "src/gone.py", "old": "x", "new": "y"}),
        ("remember", {"title": "the port", "text": "5432"}),
    )
    async with on_stage(home, model=script(tmp_path, wanted, {"text": "ok"}), asks=True) as stage:
        await stage.say("go")
        edited, remembered = stage.all(events.ToolEnded)
        assert edited.shown == "edit src/gone.py"
        assert edited.finding.startswith("edit src/gone.py: ")
        assert remembered.shown == "remember the port"
    async with on_stage(home, model=script(tmp_path, {"text": "ok"}), asks=True) as stage:
        again = [entry.shown for entry in stage.entries(ToolReturned)]
        assert again == ["edit src/gone.py", "remember the port"]


async def test_arguments_by_other_names_are_recorded_as_they_were_understood(
    home: Path, tmp_path: Path
) -> None:
    wanted = calls(("write", {"file_path": "a.txt", "text": "y"}))
    model = script(tmp_path, wanted, {"text": "ok"})
    async with on_stage(home, model=model, approve="auto-edit") as stage:
        await stage.say("go")
        (called,) = stage.entries(ToolCalled)
    assert called.understood == ("file_path as path", "text as content")
    assert (tmp_path / "a.txt").read_text() == "y"


async def test_the_reason_of_a_refusal_reaches_the_model(home: Path, tmp_path: Path) -> None:
    wanted = calls(("shell", {"command": "rm -rf build && ls"}))
    async with on_stage(home, model=script(tmp_path, wanted, {"text": "ok"}), asks=True) as stage:
        stage.session.send("go")
        asked = await stage.until(events.ToolAsked)
        assert [part.verdict for part in asked.parts] == ["deletes", "reads"]
        assert asked.worst == "deletes"
        assert asked.scopes[0].scope == "once"
        why = "keep build, it took an hour"
        stage.session.answer(asked.call, events.Answer(allowed=False, why=why))
        await stage.until(events.TurnEnded)
    (ended,) = stage.all(events.ToolEnded)
    assert ended.status == "refused"
    assert why in ended.text
