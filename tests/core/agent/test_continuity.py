"""Continuity over a real transcript and window: what one process leaves, another takes up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mindstone_tui.core.agent.continuity import Continuity
from mindstone_tui.core.config.settings import ContextSettings, MemorySettings, Mode, Settings
from mindstone_tui.core.context.plan import Prepared
from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.context.window_view import ExchangeLines
from mindstone_tui.core.context.working_set import WorkingSet
from mindstone_tui.core.entries import Entry, Line
from mindstone_tui.core.entries.conversation import TurnStarted, UserMessage
from mindstone_tui.core.entries.derived import Consolidated
from mindstone_tui.core.entries.window import ContextWindowPruned, Receipt
from mindstone_tui.core.errors import ContinuityError, NotAllowed
from mindstone_tui.core.health.fidelity import Found
from mindstone_tui.core.health.monitor import health_text
from mindstone_tui.core.memory.proposals import Draft
from mindstone_tui.core.paths import Places
from mindstone_tui.core.redaction import Redactor
from tests.builders import places_in, say, transcript_in
from tests.core.context.fake_models import Saying, words
from tests.core.context.stand_ins import Index, Unsynced, Words
from tests.corpora import lines as corpus

WINDOW = 4_000
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Session:
    """A desk without an agent: one process's view of a session."""

    def __init__(
        self, home: Path, mode: Mode = "sliding_window", *, ask: Saying | None = None
    ) -> None:
        self.transcript = transcript_in(home, disk=Unsynced())
        self.settings = Settings(context=ContextSettings(mode=mode, min_recent=4, window=WINDOW))
        self.redactor = Redactor()
        self.model = "m"
        index = Index()

        async def here(_ensure: object, units: Sequence[ExchangeLines]) -> Mapping[int, Receipt]:
            return index.ensure(units)

        self.working_set = WorkingSet.open(
            self.transcript,
            self.transcript.history(),
            self.settings,
            indexer=index,
            counters=lambda _model: Words(),
            off_loop=here,
        )
        self.continuity = Continuity(
            self,
            Places.resolve({"MINDSTONE_HOME": str(home)}),
            places_in(home),
            home,
            ask=ask,
            recall=self._recall,
            clock=lambda: WHEN,
        )

    async def _recall(self, query: str, k: int) -> Sequence[Found]:
        asked = set(query.lower().split())
        texts = [str(getattr(line.entry, "text", "")) for line in self.lines()]
        ranked = sorted(texts, key=lambda text: -len(asked & set(text.lower().split())))
        return [Found(text=text) for text in ranked[:k]]

    def record(self, entry: Entry, turn: int) -> Line:
        line = self.transcript.append(entry, turn=turn)
        self.working_set.take(line)
        return line

    def report(self) -> ContextReport:
        return self.working_set.report(model="m", window=WINDOW, label="measured")

    def count(self, text: str) -> int:
        return words(text)

    async def ask(self, text: str = "And now?") -> Prepared:
        turn = self.transcript.last_turn + 1
        self.transcript.append(TurnStarted(), turn=turn)
        self.transcript.append(UserMessage(text=text), turn=turn)
        return await self.working_set.prepare(call=1, window=WINDOW, label="measured", model="m")

    def lines(self) -> list[Line]:
        with self.transcript.history() as history:
            return [line for line in history.read() if isinstance(line, Line)]

    def kinds(self) -> list[str]:
        return [line.kind for line in self.lines()]


def work(session: Session) -> None:
    session.continuity.start_task("Speed up the parser | when: p95 < 40 ms | rule: no new files")
    say(session.transcript, "Begin.", "- [x] measure\n- [~] rewrite parse_block\n- [ ] release")


def test_the_next_process_goes_on_with_the_right_subtask(home: Path) -> None:
    first = Session(home)
    work(first)
    first.continuity.save_checkpoint("test")
    first.transcript.close()
    second = Session(home)
    resumed = second.continuity.resume()
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
    assert other.working_set.rebuild(prepared.plan).hash == prepared.request.hash
    assert other.continuity.standing().checkpoint.current is not None


async def test_a_handoff_is_used_once(home: Path) -> None:
    session = Session(home)
    work(session)
    await session.continuity.write_handoff("test")
    assert session.continuity.use_handoff().kind == "handoff_replayed"
    with pytest.raises(ContinuityError, match="already taken over"):
        session.continuity.use_handoff()


async def test_prose_comes_from_the_model_only_when_it_is_asked_for(home: Path) -> None:
    ask = Saying("Go on with parse_block.")
    session = Session(home, ask=ask)
    work(session)
    await session.continuity.write_handoff("test")
    assert ask.seen == []
    session.continuity.answer_with(None)
    await session.continuity.write_handoff("test", prose=True)
    assert ask.seen == []
    session.continuity.answer_with(ask)
    line = await session.continuity.write_handoff("test", prose=True)
    path = places_in(home).folder / str(getattr(line.entry, "path", ""))
    assert "Go on with parse_block." in path.read_text()


def test_a_finished_task_is_archived_and_health_starts_anew(home: Path) -> None:
    session = Session(home)
    work(session)
    session.continuity.memories.take_note("bugs", "parse_block leaks one buffer.")
    session.continuity.finish_task()
    assert "task_done" in session.kinds()
    assert list((places_in(home).folder / "archive").iterdir())
    assert session.continuity.memories.notes == ()
    assert session.continuity.standing().checkpoint.goal == ""
    assert Session(home).continuity.memories.notes == ()


def test_notes_reach_the_head_and_the_file_and_the_next_process(home: Path) -> None:
    session = Session(home)
    session.continuity.memories.take_note("bugs", "parse_block leaks one buffer.", "high")
    assert "leaks one buffer" in places_in(home).notes.read_text()
    sections, _ = Session(home).continuity.memories.head_sections()
    assert [section.name for section in sections] == ["notes"]
    assert "**high** parse_block leaks one buffer." in sections[0].text


def test_a_memory_is_proposed_decided_and_undone_across_processes(home: Path) -> None:
    session = Session(home)
    draft = Draft(kind="preference", name="Tabs", text="Tabs in Makefiles.")
    _, made = session.continuity.memories.propose(draft, [1], by="model")
    folder = session.continuity.agent.memory
    assert not folder.exists()
    with pytest.raises(NotAllowed):
        session.continuity.memories.decide(made.entry.proposal, "approved", by="model")
    other = Session(home).continuity.memories
    assert [one.entry.proposal for one in other.waiting] == [made.entry.proposal]
    other.decide(made.entry.proposal, "approved", by="person")
    assert "Tabs in Makefiles." in (folder / "preference_tabs.md").read_text()
    assert "Tabs" in other.head_sections()[0][0].text
    Session(home).continuity.memories.decide(made.entry.proposal, "undone", by="person")
    assert not (folder / "preference_tabs.md").exists()


def test_fifty_poisoned_tool_results_become_no_memory(home: Path) -> None:
    session = Session(home)
    memories = session.continuity.memories
    for number, text in enumerate(corpus("poisoned.txt")):
        draft = Draft(kind="fact", name=f"fact {number}", text=text)
        _, made = memories.propose(draft, [number], by="model")
        with pytest.raises(NotAllowed):
            memories.decide(made.entry.proposal, "approved", by="tool", knowingly=True)
    assert len(memories.waiting) >= 50
    assert not session.continuity.agent.memory.exists()
    assert all(name != "memory_decided" for name in session.kinds())


def test_models_propose_only_where_they_may(home: Path) -> None:
    session = Session(home)
    session.settings = Settings(memory=MemorySettings(propose=False))
    with pytest.raises(ContinuityError):
        session.continuity.memories.propose(Draft(kind="fact", name="a", text="b"), [], by="model")


async def test_looking_back_proposes_records_and_goes_on(home: Path) -> None:
    session = Session(home)
    say(session.transcript, "From now on always write tests first.", "Good.")
    pieces = [piece async for piece in session.continuity.memories.consolidate(0)]
    assert pieces[-1].finished
    assert len(session.continuity.memories.waiting) == 1
    done = next(line.entry for line in session.lines() if isinstance(line.entry, Consolidated))
    assert done.through == pieces[-1].through
    assert done.proposals == (session.continuity.memories.waiting[0].entry.proposal,)
    assert not session.continuity.agent.memory.exists()
    again = [piece async for piece in session.continuity.memories.consolidate(done.through)]
    assert all(not piece.findings for piece in again)


async def test_health_is_measured_each_turn_and_probes_ask_recall(home: Path) -> None:
    session = Session(home)
    for number in range(16):
        say(session.transcript, f"Never drop rule_{number}. Then " + "word " * 180, "So it is.")
        prepared = await session.ask()
        session.continuity.after_turn(prepared.lines)
    assert session.kinds().count("health_measured") == 16
    pruned = next(
        line.entry for line in session.lines() if isinstance(line.entry, ContextWindowPruned)
    )
    found = await session.continuity.probe(pruned)
    assert found.score is not None
    assert 0.5 < found.score <= 1.0
    session.continuity.after_turn([], measured=found.score)
    assert f"fidelity           {found.score:.1%}" in health_text(session.continuity.monitor)
    other = Session(home)
    assert len(other.continuity.monitor.history) == 17
