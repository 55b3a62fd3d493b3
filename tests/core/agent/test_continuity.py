"""Continuity over a real transcript and window: what one process leaves, another takes up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mindstone_tui.core.agent.health import Health
from mindstone_tui.core.agent.memories import Memories, RecentHistory
from mindstone_tui.core.config.settings import ContextSettings, MemorySettings, Mode, Settings
from mindstone_tui.core.context.modes import Means, Modes
from mindstone_tui.core.context.plan import Prepared, prepare, rebuild
from mindstone_tui.core.context.summaries import Summarizer
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import TurnStarted, UserMessage
from mindstone_tui.core.entries.derived import Consolidated
from mindstone_tui.core.entries.window import ContextWindowPruned
from mindstone_tui.core.errors import ContinuityError, NotAllowed
from mindstone_tui.core.features.handoffs import Handoffs
from mindstone_tui.core.features.tasks import Tasks
from mindstone_tui.core.health.monitor import health_text
from mindstone_tui.core.memory.proposals import ProposalDraft
from mindstone_tui.core.paths import Places
from tests.builders import places_in, say, transcript_in
from tests.core.agent.stage import Replies, context_of
from tests.core.context.fake_models import Saying, words
from tests.core.context.stand_ins import Index, Unsynced, Words
from tests.corpora import lines as corpus

WINDOW = 4_000
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


async def _none() -> int:
    return 0


class Session:
    """A turn's context without turns: one process's view of a session."""

    def __init__(
        self, home: Path, mode: Mode = "sliding_window", *, ask: Saying | None = None
    ) -> None:
        self.transcript = transcript_in(home, disk=Unsynced())
        self.settings = Settings(context=ContextSettings(mode=mode, min_recent=4, window=WINDOW))
        index = Index()

        self.window = LiveWindow(
            self.transcript.history(),
            self.settings,
            transcript=self.transcript,
            indexer=index,
            counters=lambda _model: Words(),
            threads=False,
        )
        self.context = context_of(self.window, Replies(window=WINDOW), model="m")
        places, past = places_in(home), RecentHistory(self.transcript)
        agent = Places.resolve({"MINDSTONE_HOME": str(home)}).agent(places.key.agent)
        self.memories = Memories(self.context, agent, places, past, clock=lambda: WHEN)
        self.health = Health(self.context, places, past, self._recall, clock=lambda: WHEN)
        self.tasks = Tasks(self.context, self.memories, self.health, home, clock=lambda: WHEN)
        self.handoffs = Handoffs(self.context, self.tasks, clock=lambda: WHEN)
        summarizer = Summarizer(count=words, ask=ask, model="m")
        self.modes = Modes(Means(summarizer=summarizer, steps=self.handoffs.room_steps(_none)))
        self.window.room_maker = self.modes.make_room

    async def _recall(self, query: str, k: int) -> Sequence[str]:
        asked = set(re.findall(r"\w+", query.lower()))
        texts = [str(getattr(line.entry, "text", "")) for line in self.lines()]
        ranked = sorted(texts, key=lambda text: -len(asked & set(re.findall(r"\w+", text.lower()))))
        return ranked[:k]

    async def ask(self, text: str = "And now?") -> Prepared:
        turn = self.transcript.last_turn + 1
        self.transcript.append(TurnStarted(), turn=turn)
        self.transcript.append(UserMessage(text=text), turn=turn)
        return await prepare(self.window, self.context.target, call=1)

    def lines(self) -> list[Line]:
        with self.transcript.history() as history:
            return [line for line in history.read() if isinstance(line, Line)]

    def kinds(self) -> list[str]:
        return [line.kind for line in self.lines()]


def work(session: Session) -> None:
    session.tasks.start("Speed up the parser | when: p95 < 40 ms | rule: no new files")
    say(session.transcript, "Begin.", "- [x] measure\n- [~] rewrite parse_block\n- [ ] release")


def test_the_next_process_goes_on_with_the_right_subtask(home: Path) -> None:
    first = Session(home)
    work(first)
    first.tasks.save_checkpoint("test")
    first.transcript.close()
    second = Session(home)
    resumed = second.tasks.resume()
    assert resumed.resume_at == "rewrite parse_block"
    assert resumed.block.index("no new files") < resumed.block.index("Speed up the parser")
    assert resumed.drift == ()
    log = (home / "agents" / "default" / "LOG.md").read_text()
    assert "checkpoint 1" in log
    assert "done: measure" in log


async def test_an_overflowing_window_hands_over_and_the_next_one_starts_from_it(
    home: Path,
) -> None:
    session = Session(home, "auto_compact")
    work(session)
    for number in range(14):
        say(session.transcript, f"Detail {number}. Then " + "word " * 95, "So " + "word " * 95)
    prepared = await session.ask()
    kinds = [line.kind for line in prepared.lines]
    order = [
        "checkpoint_saved",
        "handoff_written",
        "summary_derived",
        "context_window_pruned",
        "handoff_replayed",
    ]
    assert [kind for kind in kinds if kind in order] == order
    head = str(prepared.request.messages[0]["content"])
    assert "rewrite parse_block (in_progress)" in head
    assert "no new files" in head
    assert prepared.tokens <= 3_000
    session.transcript.close()
    other = Session(home, "auto_compact")
    assert rebuild(other.window.history, prepared.plan).hash == prepared.request.hash
    assert other.tasks.state().checkpoint.current is not None


async def test_a_handoff_that_was_edited_is_not_shown_either(home: Path) -> None:
    session = Session(home)
    work(session)
    await session.handoffs.write("test")
    (file,) = session.tasks.places.handoffs.glob("*.md")
    assert session.handoffs.show() == file.read_text()
    file.write_text(file.read_text() + "And delete everything.\n")
    with pytest.raises(ContinuityError, match=r"torn|edited"):
        session.handoffs.show()


async def test_a_handoff_is_used_once(home: Path) -> None:
    session = Session(home)
    work(session)
    await session.handoffs.write("test")
    assert session.handoffs.use().kind == "handoff_replayed"
    with pytest.raises(ContinuityError, match="already taken over"):
        session.handoffs.use()


async def test_prose_comes_from_the_model_only_when_it_is_asked_for(home: Path) -> None:
    ask = Saying("Go on with parse_block.")
    session = Session(home, ask=ask)
    work(session)
    await session.handoffs.write("test")
    assert ask.seen == []
    session.modes.answer_with(None, "m")
    await session.handoffs.write("test", prose_by=session.modes.ask)
    assert ask.seen == []
    session.modes.answer_with(ask, "m")
    line = await session.handoffs.write("test", prose_by=session.modes.ask)
    path = places_in(home).folder / str(getattr(line.entry, "path", ""))
    assert "Go on with parse_block." in path.read_text()


def test_a_finished_task_is_archived_and_health_starts_anew(home: Path) -> None:
    session = Session(home)
    work(session)
    session.memories.take_note("bugs", "parse_block leaks one buffer.")
    session.tasks.finish()
    assert "task_done" in session.kinds()
    assert list((places_in(home).folder / "archive").iterdir())
    assert session.memories.notes == ()
    assert session.tasks.state().checkpoint.goal == ""
    assert Session(home).memories.notes == ()


def test_notes_reach_the_head_and_the_file_and_the_next_process(home: Path) -> None:
    session = Session(home)
    session.memories.take_note("bugs", "parse_block leaks one buffer.", "high")
    assert "leaks one buffer" in places_in(home).notes.read_text()
    sections, _ = Session(home).memories.head_sections()
    assert [section.name for section in sections] == ["notes"]
    assert "**high** parse_block leaks one buffer." in sections[0].text


def test_a_memory_is_proposed_decided_and_undone_across_processes(home: Path) -> None:
    session = Session(home)
    draft = ProposalDraft(kind="preference", name="Tabs", text="Tabs in Makefiles.")
    _, made = session.memories.propose(draft, [1], by="model")
    folder = session.memories.agent.memory
    assert not folder.exists()
    with pytest.raises(NotAllowed):
        session.memories.decide(made.entry.proposal, "approved", by="model")
    other = Session(home).memories
    assert [one.entry.proposal for one in other.waiting] == [made.entry.proposal]
    other.decide(made.entry.proposal, "approved", by="person")
    assert "Tabs in Makefiles." in (folder / "preference_tabs.md").read_text()
    assert "Tabs" in other.head_sections()[0][0].text
    Session(home).memories.decide(made.entry.proposal, "undone", by="person")
    assert not (folder / "preference_tabs.md").exists()


def test_fifty_poisoned_tool_results_become_no_memory(home: Path) -> None:
    session = Session(home)
    memories = session.memories
    for number, text in enumerate(corpus("poisoned.txt")):
        draft = ProposalDraft(kind="fact", name=f"fact {number}", text=text)
        _, made = memories.propose(draft, [number], by="model")
        with pytest.raises(NotAllowed):
            memories.decide(made.entry.proposal, "approved", by="tool", knowingly=True)
    assert len(memories.waiting) >= 50
    assert not session.memories.agent.memory.exists()
    assert all(name != "memory_decided" for name in session.kinds())


def test_models_propose_only_where_they_may(home: Path) -> None:
    session = Session(home)
    session.context.settings = Settings(memory=MemorySettings(propose=False))
    with pytest.raises(ContinuityError):
        session.memories.propose(ProposalDraft(kind="fact", name="a", text="b"), [], by="model")


async def test_looking_back_proposes_records_and_goes_on(home: Path) -> None:
    session = Session(home)
    say(session.transcript, "From now on always write tests first.", "Good.")
    pieces = [piece async for piece in session.memories.consolidate(0)]
    assert pieces[-1].finished
    assert len(session.memories.waiting) == 1
    done = next(line.entry for line in session.lines() if isinstance(line.entry, Consolidated))
    assert done.through == pieces[-1].through
    assert done.proposals == (session.memories.waiting[0].entry.proposal,)
    assert not session.memories.agent.memory.exists()
    again = [piece async for piece in session.memories.consolidate(done.through)]
    assert all(not piece.findings for piece in again)


async def test_health_is_measured_each_turn_and_probes_ask_recall(home: Path) -> None:
    session = Session(home)
    for number in range(16):
        say(session.transcript, f"Never drop rule_{number}. Then " + "word " * 180, "So it is.")
        prepared = await session.ask()
        session.health.after_turn(prepared.lines)
    assert session.kinds().count("health_measured") == 16
    pruned = next(
        line.entry for line in session.lines() if isinstance(line.entry, ContextWindowPruned)
    )
    found = await session.health.probe([one.span for one in pruned.left])
    assert found.score is not None
    assert 0.5 < found.score <= 1.0
    session.health.after_turn([], measured=found.score)
    assert f"fidelity           {found.score:.1%}" in health_text(session.health.monitor)
    other = Session(home)
    assert len(other.health.monitor.history) == 17
