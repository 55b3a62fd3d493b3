"""What can be found and read again: originals, memories in force, and nothing that was undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.entries.derived import MemoryDigested, MemoryProposed, RecallInjected
from mindstone_tui.core.entries.window import ContextWindowPruned
from mindstone_tui.core.features.memory import MemoryFeature
from mindstone_tui.core.library.agent_files import AgentFilesIndex
from mindstone_tui.core.memory.files import read_shelf
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.recall.embedding import open_embedder
from tests.core.session.stage import KEY, Stage, calls, on_stage, script
from tests.faults import FULL

LONG = "The keeper counts the waves and writes every number down. " * 40


def settle(home: Path, text: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(text)


async def remember(stage: Stage, text: str) -> str:
    """Add a memory as a person does; its proposal is returned."""
    await stage.run(f"/memory add {text}")
    proposal = (
        stage.session.services.features.get(MemoryFeature).memories.waiting[-1].entry.proposal
    )
    ended, _ = await stage.run(f"/memory approve {proposal}")
    assert ended.ok
    return proposal


async def test_a_memory_that_was_undone_comes_back_by_no_way(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("Let us begin with something else.")
        undone = await remember(stage, "The deploy window is Tuesday 14:00.")
        await stage.run(f"/memory undo {undone}")
        await remember(stage, "The deploy window is Wednesday 15:00.")
        await stage.say("When is the deploy window?")
        _, printed = await stage.run("/recall when is the deploy window")
        brought = [
            *(one.text for one in stage.entries(RecallInjected)),
            *(one.text for one in stage.entries(MemoryDigested)),
        ]
    assert "Wednesday" in "\n".join(brought)
    assert "Tuesday" not in "\n".join(brought)
    assert "Wednesday" in printed
    assert "Tuesday 14:00" not in printed


async def test_a_short_question_finds_its_memory_whatever_was_said_before_it(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": LONG}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("Tell me about the lighthouse and its keeper.")
        await remember(stage, "The deploy window is Wednesday 15:00.")
        await stage.say("When is the deploy window?")
        (digested,) = stage.entries(MemoryDigested)
    assert "Wednesday" in digested.text


async def test_a_memory_is_read_whole_by_its_file(home: Path, tmp_path: Path) -> None:
    text = f"The deploy window is Wednesday 15:00. {LONG}"
    async with on_stage(home, model=script(tmp_path, {"text": "Fine."})) as stage:
        await remember(stage, text)
        agent = stage.session.services.home.agent(KEY.agent)
        (one,) = read_shelf(agent).live
    wanted = [("read_entry", {"entry": file}) for file in (f"memory/{one.file}", "fact_nothing.md")]
    model = script(tmp_path, {"text": "Fine."}, calls(*wanted), {"text": "Read."})
    async with on_stage(home, model=model) as stage:
        await stage.say("Begin.")
        await stage.say("Read it.")
        read, missing = stage.entries(ToolReturned)
    assert LONG.strip() in read.text
    assert missing.status == "error"
    assert "no memory fact_nothing.md" in missing.text


async def test_an_entry_of_another_session_is_read_only_where_recall_may_look(
    home: Path, tmp_path: Path
) -> None:
    other = SessionKey.parse("agent:default:other")
    async with on_stage(home, model=script(tmp_path, {"text": "Fine."}), key=other) as stage:
        await stage.say("The vault opens with the word marzipan.")
        (seq,) = [line.seq for line in stage.lines() if line.role == "user"]
    wanted = calls(("read_entry", {"entry": f"{other} #{seq}"}))
    model = script(tmp_path, wanted, {"text": "Read."}, loop=True)
    heard = []
    for scope in ("session", "agent"):
        settle(home, f'[recall]\nscope = "{scope}"\nauto = false\n')
        async with on_stage(home, model=model) as stage:
            await stage.say("Read it.")
            heard.append(stage.entries(ToolReturned)[-1])
    assert [one.status for one in heard] == ["error", "ok"]
    assert "marzipan" not in heard[0].text
    assert "marzipan" in heard[1].text


@pytest.mark.skipif(not FULL, reason="`make faults` waits for twelve turns and their vectors")
async def test_a_summary_in_the_head_is_not_recalled_besides(home: Path, tmp_path: Path) -> None:
    settle(home, '[context]\nmode = "auto_compact"\nmin_recent = 2\n')
    model = script(tmp_path, {"text": LONG}, loop=True)
    async with on_stage(home, model=model, context_window=8_000, embedder=open_embedder) as stage:
        for turn in range(12):
            await stage.say(f"Message {turn}: what about the keeper and topic number {turn}?")
        recalled = stage.entries(RecallInjected)
        kinds = {line.seq: line.kind for line in stage.lines()}
    brought = {kinds[one.seq] for each in recalled for one in each.passages}
    assert brought
    assert brought <= {"user_message", "assistant_message"}


@pytest.mark.thorough
async def test_a_handoff_is_found_by_those_who_ask_and_never_brought_back(
    home: Path, tmp_path: Path
) -> None:
    settle(home, '[context]\nmode = "auto_compact"\nmin_recent = 2\n')
    model = script(tmp_path, {"text": LONG}, loop=True)
    async with on_stage(home, model=model, context_window=8_000) as stage:
        for turn in range(12):
            await stage.say(f"Message {turn}: what about the keeper and topic number {turn}?")
        asked = await stage.session.services.recall.search(
            "requests word for word, next step", 40, "session", memories=True
        )
        kinds = {line.seq: line.kind for line in stage.lines()}
        recalled = {
            kinds[one.seq] for each in stage.entries(RecallInjected) for one in each.passages
        }
    assert "handoff_replayed" in {hit.passage.kind for hit in asked.hits}
    assert "handoff_replayed" not in recalled


async def test_a_review_indexes_what_the_index_has_lost(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    async with on_stage(home, model=model) as stage:
        for word in ("marzipan", "nougat", "praline"):
            await stage.say(f"The vault opens with the word {word}.")
    for file in stage.places.folder.glob("index.db*"):
        file.unlink()
    async with on_stage(home, model=model) as stage:
        ended, said = await stage.run("/consolidate")
        found = await stage.session.services.recall.search(
            "which word opens the vault", 5, "session", memories=True
        )
    assert ended.ok
    assert "The index is complete." in said
    assert len(found.hits) >= 3


async def test_a_memory_that_a_person_adds_points_to_their_own_words(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Fine."})) as stage:
        await stage.say("Hello.")
        _, said = await stage.run("/memory add My password is hunter2.")
        lines = {line.seq: line for line in stage.lines()}
        proposal = next(line for line in lines.values() if line.kind == "memory_proposed")
        ended, refusal = await stage.run(f"/memory approve m{proposal.seq}")
    assert isinstance(proposal.entry, MemoryProposed)
    (source,) = proposal.entry.sources
    assert "hunter2" in lines[source].raw.decode()
    assert "CAUTION: this holds a password" in said
    assert not ended.ok
    assert f"approve! m{proposal.seq}" in refusal


@pytest.mark.thorough
async def test_with_recall_on_pruning_begins_at_the_ceiling_and_not_before(
    home: Path, tmp_path: Path
) -> None:
    settle(home, "[context]\nmin_recent = 2\n")
    model = script(tmp_path, {"text": "The keeper counts the waves. " * 20}, loop=True)
    async with on_stage(home, model=model, context_window=8_000) as stage:
        while len(stage.all(events.WindowPruned)) < 2:
            await stage.say("What does the keeper do?")
        first, second = stage.entries(ContextWindowPruned)
        report = stage.session.services.context.report()
    for pruned in (first, second):
        assert pruned.trigger == "ceiling"
        assert pruned.tokens_before > 0.9 * report.usable
        assert pruned.tokens_after <= report.marks.floor


def test_the_titles_that_the_program_writes_are_nobodys_words(home: Path) -> None:
    agent = Places.resolve({"MINDSTONE_HOME": str(home)}).agent("default")
    agent.log.parent.mkdir(parents=True, exist_ok=True)
    agent.log.write_text("# Log\n\n## 1 May · agent:default:main\n### What happened\n- It began.\n")
    index = AgentFilesIndex(agent, None).sync()
    assert index is not None
    assert len(index) == 0
