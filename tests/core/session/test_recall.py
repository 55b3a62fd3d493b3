"""A long conversation in a small window: what left it is found again, with the right pointer."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.cli.main import run as run_verb
from mindstone_tui.core import events
from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.entries.conversation import ToolReturned, UserMessage
from mindstone_tui.core.entries.derived import (
    RecallUsed,
    StatementSuperseded,
    TaskDone,
    TaskStarted,
)
from mindstone_tui.core.entries.standings import Standings, superseded_in
from mindstone_tui.core.library.agent_files import AgentFilesIndex
from mindstone_tui.core.paths import Places
from mindstone_tui.core.recall.inject import Vacancy
from mindstone_tui.core.recall.speak import NOTHING_CLOSE, SHOWN_ALREADY
from mindstone_tui.core.session.recall import SessionRecall
from tests.builders import places_in, say, transcript_in
from tests.core.recall.talk import WordModel
from tests.core.session.stage import Stage, calls, on_stage, script
from tests.faults import sized

TURNS = sized(40, 60)
FACT = "The launch code of the Heron project is cobalt-4417-marigold."
QUESTION = "What is the launch code of the Heron project?"
TOPICS = ("sourdough starters", "alpine hiking", "violin strings", "tax returns", "beekeeping")


async def fill(stage: Stage, first: int, last: int) -> None:
    """Talk about other things."""
    for number in range(first, last):
        topic = TOPICS[number % len(TOPICS)]
        text = f"Note number {number} about {topic}: " + f"more on {topic}, " * 24
        assert (await stage.say(text)).ending == "done"


@pytest.mark.thorough
async def test_a_question_about_the_first_turn_is_answered_after_it_left(home: Path) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say(FACT)
        first = next(line for line in stage.lines() if isinstance(line.entry, UserMessage))
        ended, _ = await stage.run("/task start tell me about other things")
        assert ended.ok
        await fill(stage, 2, TURNS)
        gone = {left.turn for event in stage.all(events.WindowPruned) for left in event.left}
        assert 1 in gone
        assert len(gone) > TURNS // 2
        assert first.seq not in stage.session.services.context.window.fold.lines
        assert (await stage.say(QUESTION)).turn == TURNS
        assert stage.all(events.RecallInjected)[-1].passages[0].seq == first.seq
        shown = [each.report for each in stage.all(events.ContextReported) if each.report.call]
        assert shown[-1].recalled == len(stage.all(events.RecallInjected)[-1].passages)
        assert shown[-1].recall_tokens > 0
    answer = stage.all(events.AnswerRecorded)[-1].text
    assert "cobalt-4417-marigold" in answer
    assert answer.endswith(f"line {first.seq})")


async def test_a_task_that_is_over_binds_nobody_and_whoever_asks_is_told_its_end(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("Begin with the invoice table.")
        await stage.run("/task start Migrate billing | rule: never touch main.py")
        asked = "What is the rule about main.py?"
        recall = stage.session.services.recall

        async def marks() -> list[str]:
            found = await recall.search("never touch main.py", 8, "session")
            (hit,) = (hit for hit in found.hits if hit.text.startswith("Migrate billing\nnever"))
            return hit.marks

        async def brought() -> list[str]:
            vacancy = Vacancy(shown=(), recent=(), tokens=4_000, count=len)
            found = await recall.gather(asked, vacancy)
            return [one.speaker for one in found.passages] if found is not None else []

        assert await marks() == []
        assert "task" in await brought()
        await stage.run("/task start Paint the shed")
        await stage.run("/task done")
        begun = [one for one in stage.lines() if isinstance(one.entry, TaskStarted)]
        ends = [one for one in stage.lines() if isinstance(one.entry, TaskDone)]
        told, later = (f"done by #{one.seq}" for one in ends)
        assert await marks() == [told], "another one took its place"
        assert "task" not in await brought()
        standings = Standings(stage.lines())
        assert [each.words for one in begun for each in standings.of(one)] == [told, later]
    for verb in (["search"], ["recall", "-s", "main"]):
        assert run_verb([*verb, "never touch main.py"]) == 0
        assert told in capsys.readouterr().out.partition("never touch")[0], verb
    assert run_verb(["log", "-s", "main", "-k", "task_started"]) == 0
    assert later in capsys.readouterr().out


@pytest.mark.thorough
async def test_where_the_window_has_the_answer_recall_says_so_and_not_that_there_is_none(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say("hello")
        await stage.run("/task start tell me about other things")
        await fill(stage, 2, 30)
        assert stage.all(events.WindowPruned)
        await stage.say("How deep is the northern harbour basin?")
        _, printed = await stage.run("/why recall")
        assert printed.endswith(NOTHING_CLOSE)
        await stage.say(FACT)
        await stage.say(QUESTION)
        _, printed = await stage.run("/why recall")
        assert printed.endswith(SHOWN_ALREADY)


@pytest.mark.thorough
async def test_why_recall_kept_silent_stands_in_history_and_is_told(home: Path) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say(FACT)
        _, printed = await stage.run("/why recall")
        assert "all that it could is in the window" in printed
        await stage.run("/task start tell me about other things")
        await fill(stage, 2, 30)
        await stage.say("Which vaccine did the doctor of Ottilie recommend?")
        _, printed = await stage.run("/why recall")
        said, silent = stage.all(events.TurnStarted)[-1].turn, stage.session.services.recall.silent
        assert silent
        assert printed == f"Turn {said}: recall brought nothing back. {silent}"
        await stage.say(QUESTION)
        _, printed = await stage.run("/why recall")
        assert f"recall brought back #{recalled_last(stage)[0]}" in printed
        _, printed = await stage.run("/recall off")
        await stage.say(QUESTION)
        _, printed = await stage.run("/why recall")
        assert "switched off" in printed
    kept = [(line.turn, line.entry) for line in stage.lines()]
    assert silent in [
        one.silent for turn, one in kept if turn == said and isinstance(one, RecallUsed)
    ]


async def test_the_original_task_stays_and_is_named_with_its_line_all_the_same(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say(FACT)
        await fill(stage, 2, 14)
        await stage.say(QUESTION)
    answer = stage.all(events.AnswerRecorded)[-1].text
    assert "cobalt-4417-marigold" in answer
    assert answer.endswith("line 2)")


async def test_a_model_that_looks_does_not_find_its_own_question(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("The otter in the harbour is called Bartholomew.")
        await stage.say("recall otter Bartholomew")
        await stage.say("recall otter Bartholomew")
    result = stage.all(events.ToolEnded)[-1].text
    assert "called Bartholomew" in result
    assert "turn 3" not in result
    assert stage.all(events.AnswerRecorded)[-1].text.startswith("The otter in the harbour")


@pytest.mark.thorough
async def test_a_passage_of_an_older_turn_is_dropped_and_stays_out_when_the_session_opens_again(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say(FACT)
        await stage.run("/task start tell me about other things")
        await fill(stage, 2, 30)
        await stage.say(QUESTION)
        card = stage.all(events.RecallInjected)[-1].passages[0]
        await stage.say("recall beekeeping")  # another search: the card is not its hit any more
        ended, printed = await stage.run(f"/recall drop {card.entry} {card.session}")
        assert ended.ok
        assert printed == f"#{card.seq} is not recalled here any more."
        await stage.say(QUESTION)
        assert card.seq not in recalled_last(stage)
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say(QUESTION)
        assert card.seq not in recalled_last(stage)
        ended, printed = await stage.run("/recall drop 01ARZ3NDEKTSV4RRFFQ69G5FAV")
        assert not ended.ok
        assert "There is no entry 01ARZ3NDEKTSV4RRFFQ69G5FAV" in printed


def recalled_last(stage: Stage) -> list[int]:
    """The lines that came back for the newest turn."""
    turn = stage.all(events.TurnStarted)[-1].turn
    came = [event for event in stage.all(events.RecallInjected) if event.turn == turn]
    return [passage.seq for event in came for passage in event.passages]


async def test_a_result_that_was_trimmed_comes_back_when_it_is_asked_for(home: Path) -> None:
    (home.parent / "heron.txt").write_text(f"{FACT}\n" + "The crew sleeps.\n" * 90)
    others = [f"part{number}.txt" for number in range(6)]
    for name in others:
        (home.parent / name).write_text(f"Nothing to see in {name}.\n" * 60)
    replies = [
        each
        for name in ("heron.txt", *others)
        for each in (calls(("read", {"path": name})), {"text": "Read."})
    ]
    model = script(home.parent, *replies, {"text": "It is cobalt."})
    async with on_stage(home, model=model, context_window=32_000) as stage:
        for name in ("heron.txt", *others):
            await stage.say(f"Please read the next file, {name}.")
        result = next(line for line in stage.lines() if isinstance(line.entry, ToolReturned))
        ended, _ = await stage.run("/prune results")
        assert ended.ok
        fold = stage.session.services.context.window.fold
        assert result.seq in fold.state.trimmed
        await stage.say(QUESTION)
        assert result.seq in recalled_last(stage)


async def test_what_was_corrected_says_so_while_the_correction_stands_in_the_window(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say("Build me a tide table.")
        await stage.say("The Heron server listens on port 8765.")
        await stage.say("Port clash: 8765 is taken by the old system. Use 8790.")
        old, new = [line for line in stage.lines() if isinstance(line.entry, UserMessage)][1:]
        ended, _ = await stage.run("/prune turn 2")
        assert ended.ok
        await stage.say("On which port does the Heron server listen?")
        (injected,) = stage.all(events.RecallInjected)
        found = next(each for each in injected.passages if each.seq == old.seq)
        assert found.superseded_by == new.seq


async def test_a_verdict_that_recall_gave_is_written_once_and_kept_with_the_passage(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say("Build me a tide table.")
        await stage.say("The Heron server listens on port 8765.")
        await stage.say("Port clash: 8765 is taken by the old system. Use 8790.")
        old, new = [line for line in stage.lines() if isinstance(line.entry, UserMessage)][1:]
        await stage.say("What about the tides?")
        for asked in ("/prune turn 2", "/prune turn 3"):
            assert (await stage.run(asked))[0].ok
        for _ in range(2):
            await stage.say("Is 8765 taken by the old system? Which port for the Heron server?")
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say("And is 8765 taken by the old system for the Heron server?")
        verdicts = [one for line in stage.lines() for one in superseded_in(line).items()]
        told = [line for line in stage.lines() if isinstance(line.entry, StatementSuperseded)]
        assert (old.seq, new.seq) in verdicts
        assert len(told) == len({(one.entry.statement, one.entry.by) for one in told})  # type: ignore[union-attr]
        found = stage.session.services.recall.index.search("Heron server port 8765", 30).hits
        assert {hit.passage.superseded for hit in found if hit.passage.seq == old.seq} == {new.seq}


async def test_a_note_that_was_corrected_is_judged_once(home: Path) -> None:
    model = script(home.parent, {"text": "Understood."}, {"loop": True})
    async with on_stage(home, model=model) as stage:
        await stage.say("Remember that the staging port is 8080.")
        await stage.say("No, the staging port is 9090, not 8080.")
        await stage.say("Thanks.")
        judged = [one for line in stage.lines() for one in superseded_in(line).items()]
        assert judged
        assert len(judged) == len(set(judged))


async def test_a_turn_embeds_its_question_once_however_many_places_it_looks_at(home: Path) -> None:
    for key in ("agent:default:main", "agent:default:other"):
        say(transcript_in(home, key), "The heron nests in the reeds.", "Noted.")
    homes = Places.resolve({"MINDSTONE_HOME": str(home)})
    agent = homes.agent("default")
    agent.log.write_text(
        "# Log\n\n## 1 May · agent:default:third\nThe heron nests in the reeds again.\n"
    )
    model = WordModel()
    for key in ("agent:default:main", "agent:default:other"):
        made = SessionRecall(
            homes, places_in(home, key), RecallSettings(), model, AgentFilesIndex(agent, model)
        )
        made.keep_up()
        made.embed_within(60)
        made.close()
    files = AgentFilesIndex(agent, model)
    recall = SessionRecall(homes, places_in(home), RecallSettings(scope="agent"), model, files)
    question = "Where is the heron that nests in the reeds?"
    try:
        await recall.likeness(question)
        injected = await recall.gather(
            question, Vacancy(shown=(), recent=(), tokens=1_000, count=len)
        )
        await recall.search(question, 5, "agent", memories=True)
    finally:
        recall.close()
    assert model.seen.count(question) == 1
    assert injected is not None
    sources = {passage.session for passage in injected.passages}
    assert sources >= {"agent:default:main", "agent:default:other", agent.agent}


async def test_an_answer_is_about_the_thing_that_was_asked_for_and_holds(home: Path) -> None:
    model = script(home.parent, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        recall = stage.session.services.recall
        for said in (
            "The invoice 18 was paid on Monday.",
            "The invoice 19 was paid on Friday.",
            "The release day is Thursday.",
        ):
            await stage.say(said)
        assert "Thursday" in (await recall.answer("When is the release day?", ())).text
        await stage.run("/rewind turn 2")
        paid = (await recall.answer("When was invoice 18 paid?", ())).text
        assert "Monday" in paid
        assert "Before" not in paid
        for asked in ("When is the release day?", "What did we do today?"):
            assert "Thursday" not in (await recall.answer(asked, ())).text, asked
