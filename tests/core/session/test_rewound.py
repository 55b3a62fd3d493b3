"""What was rewound is gone from everything that counts, and marked where it is still shown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mindstone_tui.cli.main import run
from mindstone_tui.core import events
from mindstone_tui.core.entries.derived import (
    MemoryDecided,
    RecallInjected,
    StatementSuperseded,
    TaskDone,
)
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.entries.window import Rewound
from mindstone_tui.core.events.narrate import describe_line
from mindstone_tui.core.features.memory import MemoryFeature
from mindstone_tui.core.interchange.export import export
from mindstone_tui.core.interchange.formats import format_of
from mindstone_tui.core.interchange.formats.base import Said
from mindstone_tui.core.library.stats import stats_of
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript import History
from mindstone_tui.tui.from_entries import exchanges_in
from tests.core.session.stage import Stage, calls, on_stage, script

CHILD = SessionKey.parse("agent:default:child")
SECRET = "the zanzibar ferry leaves from pier ninety"
ASKED = "from which pier does the zanzibar ferry leave?"


def prompt(stage: Stage) -> str:
    """The newest request, as it was sent."""
    return str(stage.requests()[-1])


async def test_nothing_of_rewound_turns_is_in_a_prompt(home: Path, tmp_path: Path) -> None:
    todo = calls(("todo", {"items": [{"title": "Caulk the seams", "status": "planned"}]}))
    model = script(tmp_path, {"text": "Noted."}, todo, *[{"text": "Noted."}] * 9)
    async with on_stage(home, model=model) as stage:
        await stage.say("we talk about boats")
        await stage.say("keep a list of it")
        await stage.run("/task start Paint the boathouse | rule: only green paint")
        await stage.say("begin with it")
        await stage.run("/notes decisions The mast is made of larch.")
        await stage.run("/checkpoint")
        await stage.run("/checkpoint resume")
        await stage.say(f"remember that {SECRET}")
        held = ("Caulk", "boathouse", "larch", "zanzibar")
        assert [word for word in held if word in prompt(stage)] == list(held)
        assert stage.session.services.features.get(MemoryFeature).memories.waiting
        await stage.run("/rewind turn 1")
        assert not stage.session.services.features.get(MemoryFeature).memories.waiting
        _, shown = await stage.run("/task show")
        _, listed = await stage.run("/todo")
        await stage.say("what was it about?")
        said = prompt(stage) + shown + listed
        assert "we talk about boats" in said
        assert not [w for w in ("Caulk", "boathouse", "green", "larch", "zanzibar") if w in said]
        ended, why = await stage.run("/checkpoint resume")
        assert not ended.ok
        assert "rewound" in why
    async with on_stage(home, model=model) as again:
        await again.say("and what else?")
        assert not [w for w in ("Caulk", "boathouse", "larch", "zanzibar") if w in prompt(again)]


async def test_what_was_rewound_counts_again_once_it_is_restored(
    home: Path, tmp_path: Path
) -> None:
    todo = calls(("todo", {"items": [{"title": "Caulk the seams", "status": "planned"}]}))
    model = script(tmp_path, {"text": "Noted."}, todo, *[{"text": "Noted."}] * 9)
    async with on_stage(home, model=model) as stage:
        await stage.say("we talk about boats")
        await stage.say("keep a list of it")
        await stage.run("/rewind turn 1")
        await stage.run("/restore turn 2")
        await stage.say("what is on the list?")
        assert "Caulk the seams" in prompt(stage)


async def test_recall_leaves_out_what_was_rewound_in_forks_as_well(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("we talk about boats")
        await stage.say(SECRET)
        await stage.say("and about the weather")
        await stage.run("/fork before")
        await stage.run("/rewind turn 1")
        await stage.run("/fork child")
        await stage.say(ASKED)
        found = await stage.session.services.recall.search(ASKED, 5, "session")
        assert not [hit for hit in found.hits if "ninety" in hit.text]
        assert not stage.entries(RecallInjected)
        assert "ninety" not in prompt(stage)
    async with on_stage(home, key=CHILD, model=model) as fork:
        await fork.say(ASKED)
        assert "we talk about boats" in prompt(fork)
        assert "ninety" not in prompt(fork)
    # A fork that was made before went on from what was rewound elsewhere later.
    async with on_stage(home, key=SessionKey.parse("agent:default:before"), model=model) as fork:
        await fork.say(ASKED)
        assert "ninety" in prompt(fork)


async def test_the_log_says_by_which_line_a_turn_was_rewound(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.say("first")
        await stage.say("second")
        await stage.run("/rewind turn 1")
        by = next(line.seq for line in stage.lines() if line.kind == "rewound")
        raw = {line.seq: line.raw.decode() for line in stage.lines()}
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["log", "-k", "user_message"]) == 0
    first, second = [row for row in capsys.readouterr().out.splitlines() if row.startswith("#")]
    assert "rewound" not in first
    assert f"rewound by #{by}" in second
    assert await asyncio.to_thread(run, ["log", "--json"]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    gone = {row["kind"] for row in rows if {"what": "rewound", "by": by} in row.get("standing", ())}
    assert {"user_message", "assistant_message", "turn_ended"} <= gone
    for row in rows:
        row.pop("standing", None)
        assert row == json.loads(raw[row["seq"]])


async def test_export_marks_rewound_turns_and_search_and_reviews_pass_them_over(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.say("we talk about boats")
        await stage.say(f"Remember for good: {SECRET}.")
        await stage.run("/rewind turn 1")
        _, reviewed = await stage.run("/consolidate")
        assert "ninety" not in reviewed
    capsys.readouterr()
    for form in ("markdown", "html"):
        assert await asyncio.to_thread(run, ["export", "-f", form]) == 0
        told = capsys.readouterr().out
        assert "ninety" in told
        assert told.count("This turn was rewound") == 1
    for asked in (["search", "zanzibar"], ["search", "zanzibar", "--tool", "none"]):
        await asyncio.to_thread(run, asked)
        assert "ninety" not in capsys.readouterr().out


async def test_an_export_says_what_the_model_was_told_before_the_persons_words(
    home: Path, tmp_path: Path
) -> None:
    replies = (calls(("write", {"path": "a.txt", "content": "x"})), {"text": "Done."})
    model = script(tmp_path, *replies, {"text": "Yes."})
    async with on_stage(home, model=model, approve="full-auto") as stage:
        await stage.say("Write it.")
        await stage.run("/rewind turn 0")
        await stage.say("Is it there?")
    with History(stage.places) as history:
        for form in ("md", "html"):
            told = "".join(export(history, form))
            assert told.count("the model was told: ") == 1
            assert "You do not see turn 1 any more" in told


async def test_the_screen_marks_rewound_turns_of_a_session_that_is_opened_again(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        for text in ("first", "second", "third"):
            await stage.say(text)
        await stage.run("/rewind turn 2")
        await stage.say("fourth")
        lines = stage.lines()
    marked = {
        exchange.turn
        for exchange in exchanges_in(lines, lines)
        if any("was rewound" in getattr(event, "message", "") for event in exchange.events)
    }
    assert marked == {3}


async def test_turns_that_were_rewound_are_counted_apart_until_they_are_restored(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        for text in ("one", "two", "three"):
            await stage.say(text)
        await stage.run("/rewind turn 1")
        await stage.say("four")
        places = Places.resolve({"MINDSTONE_HOME": str(home)})
        total = stats_of(places).total
        assert (total.turns, total.rewound) == (4, 2)
        assert "4 turns (2 rewound)" in "".join(export(History(stage.places), "md"))
        await stage.run("/restore turn 2")
        assert stats_of(places).total.rewound == 1


async def test_an_export_marks_what_was_rewound_and_is_taken_in_without_it(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("The mast is twelve metres.")
        await stage.say("The hull is green.")
        await stage.run("/rewind turn 1")
        await stage.say("The hull is blue.")
        await stage.run("/restore turn 2")
        _, why = await stage.run("/why turn 2")
        assert "was rewound" not in why
        await stage.run("/rewind turn 1")
    with History(stage.places) as history:
        messages = [json.loads(line) for line in "".join(export(history, "messages")).splitlines()]
        whole = "".join(export(history, "json"))
    marks = {each["content"]: each.get("marks", []) for each in messages if each["role"] == "user"}
    assert marks["The mast is twelve metres."] == []
    assert marks["The hull is blue."][0].startswith("rewound by #")
    (file := tmp_path / "session.json").write_text(whole)
    taken = [one.text for one in format_of(file).read(file) if isinstance(one, Said)]
    assert "The mast is twelve metres." in taken
    assert "The hull is blue." not in taken


async def test_a_verdict_that_is_taken_back_and_brought_back_counts_again_everywhere(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def found() -> int | None:
        capsys.readouterr()
        asked = ["search", "how much does the cistern hold in litres", "--json"]
        assert await asyncio.to_thread(run, asked) == 0
        hits = json.loads(capsys.readouterr().out)["hits"]
        verdicts: list[int | None] = [
            hit["superseded_by"] for hit in hits if hit["excerpt"].endswith("holds 40 litres.")
        ]
        return verdicts[0]

    model = script(tmp_path, {"text": "Noted."}, loop=True)
    asked = "How many litres does the cistern hold?"
    async with on_stage(home, model=model) as stage:
        await stage.say("we talk about the house")
        await stage.say("The cistern holds 40 litres.")
        await stage.say("The sky is clear tonight.")
        await stage.say("No, the cistern holds 55 litres, not 40 litres.")
        await stage.say("Good evening.")
        await stage.run("/prune 9")
        await stage.say(asked)
        said = [line for line in stage.lines() if line.kind == "user_message"]
        old, new = said[1].seq, said[3].seq
        await stage.run("/rewind turn 3")
        await stage.say("and now?")
        assert await found() is None
        await stage.run("/restore turn 4")
        await stage.say("and again?")
        assert await found() == new
        _, shown = await stage.run(f"/recall {asked}")
        assert f"superseded by #{new}" in shown
        _, why = await stage.run("/rewind turn 5")
        assert "Turn 5 was itself rewound" in why
        read = stage.session.services.sources.read(f"#{old}")
        assert read.origin == f"history #{old}, superseded by #{new}"


async def test_a_task_whose_end_is_restored_ended_once(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.say("we talk about boats")
        await stage.run("/task start Paint the boathouse")
        await stage.say("begin with it")
        await stage.run("/task done")
        await stage.run("/rewind turn 1")
        assert (await stage.run("/task done"))[0].ok
        ended = [line for line in stage.lines() if isinstance(line.entry, TaskDone)]
        assert [Standings(stage.lines()).of(one)[:1] for one in ended[1:]] == [()]
        await stage.run("/restore turn 2")
        await stage.say("we talk about gulls")
        await stage.run("/task done")
        ended = [line for line in stage.lines() if isinstance(line.entry, TaskDone)]
        told = [[one.words for one in Standings(stage.lines()).of(line)] for line in ended]
        assert told == [[], [mark := f"done by #{ended[0].seq}"], []]
    for verb in ("recall", "search"):
        assert run([verb, "boathouse"]) == 0
        assert f"task done  {mark}" in capsys.readouterr().out


async def test_a_checkpoint_of_a_task_that_is_done_says_so(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.run("/task start Paint the boathouse")
        await stage.say("begin with it")
        await stage.run("/checkpoint")
        _, shown = await stage.run("/checkpoint show")
        assert "goes on from checkpoint" in shown
        await stage.run("/task done")
        _, shown = await stage.run("/checkpoint show")
        assert shown.startswith("The task of checkpoint")
        assert "is done. It reached this." in shown
        assert "goes on" not in shown


async def test_a_fork_hears_no_verdict_of_a_line_that_it_never_had_and_keeps_the_ones_it_had(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)

    async def verdict(stage: Stage, asked: str, old: str) -> int | None:
        found = await stage.session.services.recall.search(asked, 9, "session")
        return next(hit.superseded_by for hit in found.hits if hit.text == old)

    async with on_stage(home, model=model) as parent:
        window = parent.session.services.context.window

        async def corrected(old: str, new: str) -> int:
            await parent.say(new)
            seqs = {getattr(line.entry, "text", ""): line.seq for line in parent.lines()}
            window.record(StatementSuperseded(statement=seqs[old], by=seqs[new]))
            return seqs[new]

        await parent.say("we talk about the workshop")
        await parent.say("The kiln reaches 900 degrees.")
        await parent.say("The lamp needs 14 volts.")
        newer = await corrected("The lamp needs 14 volts.", "The lamp was rewired to need 17.")
        await parent.say("Good evening.")
        await parent.run("/prune 9")
        await parent.run(f"/fork {CHILD}")
        await parent.run("/rewind turn 3")
        await corrected("The kiln reaches 900 degrees.", "The kiln was rebuilt to reach 1100.")
        assert await verdict(parent, "kiln degrees", "The kiln reaches 900 degrees.") is not None
        assert await verdict(parent, "lamp volts", "The lamp needs 14 volts.") is None
    async with on_stage(home, key=CHILD, model=model) as fork:
        assert await verdict(fork, "kiln degrees", "The kiln reaches 900 degrees.") is None
        assert await verdict(fork, "lamp volts", "The lamp needs 14 volts.") == newer


@pytest.mark.parametrize("line", ["/undo 1", "/rewind turn 1"])
async def test_nothing_is_taken_back_later_that_was_meant_while_a_turn_ran(
    home: Path, tmp_path: Path, line: str
) -> None:
    model = script(tmp_path, {"text": "Noted."}, {"text": "a b c", "delay_ms": 200})
    async with on_stage(home, model=model) as stage:
        await stage.say("first")
        stage.session.send("second")
        await stage.until(events.TextDelta, lambda event: event.turn == 2)
        ended, said = await stage.run(line)
        assert not ended.ok
        assert "A turn is running" in said
        await stage.idle()
        assert stage.entries(Rewound) == []
        assert (await stage.run("/rewind turn 1"))[0].ok


async def test_turns_after_a_rewind_count_and_a_rewound_one_is_no_place_to_go_back_to(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("one")
        await stage.say("two")
        await stage.run("/rewind turn 1")
        await stage.say("three")
        await stage.say("four")
        ended, told = await stage.run("/rewind turn 2")
        assert (ended.ok, "itself rewound, by #" in told) == (False, True)
        ended, told = await stage.run("/rewind turn 3")
        assert ended.ok, told
        assert [Standings(stage.lines()).took_back(turn) for turn in range(1, 5)] == [
            *(False, True),
            *(False, True),
        ]


async def test_what_a_person_corrects_is_marked_when_it_is_said_whatever_is_asked_later(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "ok"}, loop=True)
    async with on_stage(home, model=model) as stage:
        old = "The vault code is 99887 for the blue door in the east hall beside the fountain."
        await stage.say(old)
        await stage.say("remember that my dentist is Dr Quillfeather")
        memories = stage.session.services.features.get(MemoryFeature).memories
        assert (len(memories.notes), len(memories.waiting)) == (1, 1)
        await stage.say("No, the vault code is 11223, not 99887.")
        await stage.say("No, my dentist is Dr Marrowby, not Dr Quillfeather.")
        judged = [one.statement for one in stage.entries(StatementSuperseded)]
        (said,) = [
            line.seq for line in stage.lines() if old in str(line.raw) and line.role == "user"
        ]
        assert said in judged
        _, found = await stage.run("/recall blue door east hall fountain")
        assert f"superseded by #{by_words(stage, '11223, not')}" in found
        assert (memories.notes, memories.waiting) == ((), ()), "the note, and what was proposed"
        assert "Quillfeather" not in stage.places.notes.read_text()
        (refused,) = [line for line in stage.lines() if isinstance(line.entry, MemoryDecided)]
        asked = by_words(stage, "Marrowby, not")
        told = describe_line(refused).text
        assert told.endswith(f"refused by the correction in line {asked}"), "nobody refused it"
        await stage.say("and now?")
        assert "Your notes" not in prompt(stage)
        await stage.run("/rewind turn 3")
        assert len(memories.notes) == 1, "the correction is taken back"
        assert len(memories.waiting) == 1, "and what it refused waits again"
        assert "Quillfeather" in stage.places.notes.read_text()
        await stage.run("/rewind turn 1")
        assert "Quillfeather" not in stage.places.notes.read_text()


def by_words(stage: Stage, words: str) -> int:
    """The line of a person's message."""
    (found,) = [x.seq for x in stage.lines() if x.kind == "user_message" and words in str(x.raw)]
    return found


async def test_the_screen_says_of_a_turn_that_what_was_said_in_it_was_replaced(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        for text in ("The API port is 8765.", "No, the API port is 8790, not 8765."):
            await stage.say(text)
            await stage.rest()
        old, new = [each.seq for each in stage.lines() if each.kind == "user_message"]
        judged = stage.lines()
        await stage.run("/rewind turn 1")
        back = stage.lines()
    for lines, replaced in ((judged, {1}), (back, set())):
        told = {
            exchange.turn
            for exchange in exchanges_in(lines, lines)
            if f"What was said in it holds no longer: #{new} replaces it." in exchange.notes
        }
        assert told == replaced, (old, new)
