"""Modes on a real window: the summary first, then what it stands for; failures remove nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import CascadeSettings, ContextSettings, Mode
from mindstone_tui.core.context import manual
from mindstone_tui.core.context.cascade import CASCADE, Effect, StepName, StepOutcome
from mindstone_tui.core.context.modes import Means, Modes
from mindstone_tui.core.context.plan import Prepared, prepare, rebuild
from mindstone_tui.core.context.summaries import Summarizer
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import Target
from mindstone_tui.core.entries import Line, Message, Span
from mindstone_tui.core.entries.conversation import AssistantMessage, TurnStarted, UserMessage
from mindstone_tui.core.entries.derived import CheckpointSaved, SummaryDerived
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    Pinned,
    RoomStepTaken,
    ToolResultsTrimmed,
)
from mindstone_tui.core.errors import ProviderUnreachable
from tests.builders import say, transcript_in, use_tool
from tests.core.context.fake_models import Saying, words
from tests.core.context.stand_ins import Index, Unsynced, Words

WINDOW = 4_000
TARGET = Target(model="m", window=WINDOW, label="measured")


class Stage:
    """A session in some mode, with what a test wants to happen outside the window."""

    def __init__(
        self, home: Path, mode: Mode, ask: Saying | None = None, min_recent: int = 4
    ) -> None:
        self.transcript = transcript_in(home, disk=Unsynced())
        self.index = Index()
        self.settings = Settings(
            context=ContextSettings(mode=mode, min_recent=min_recent, window=WINDOW)
        )
        self.window = self.open()
        self.steps: list[str] = []
        self.failing: frozenset[str] = frozenset()
        self.outcomes: list[StepOutcome] = []
        names: tuple[StepName, ...] = (
            "checkpoint",
            "handoff",
            "handoff_replay",
            "backfill",
            "delegate",
        )
        self.modes = Modes(
            Means(
                summarizer=Summarizer(count=words, ask=ask, model="test/model"),
                steps={name: self._step(name) for name in names},
                ended=self._note,
            )
        )
        self.window.room_maker = self.modes.make_room

    def open(self) -> LiveWindow:
        return LiveWindow(
            self.transcript.history(),
            self.settings,
            transcript=self.transcript,
            indexer=self.index,
            counters=lambda _model: Words(),
            threads=False,
        )

    def _step(self, name: StepName):  # type: ignore[no-untyped-def]
        async def apply(_tokens: int) -> Effect:
            self.steps.append(name)
            held = name not in self.failing
            if held and name == "checkpoint":
                saved = CheckpointSaved(version=1, path="p", sha256="", trigger="window")
                self.transcript.append(saved)
            return Effect(held=held)

        return apply

    async def _note(self, outcome: StepOutcome) -> None:
        self.outcomes.append(outcome)

    async def ask(self, text: str = "And now?") -> Prepared:
        turn = self.transcript.last_turn + 1
        self.transcript.append(TurnStarted(), turn=turn)
        self.transcript.append(UserMessage(text=text), turn=turn)
        return await prepare(self.window, TARGET, call=1)

    def kinds(self, prepared: Prepared) -> list[str]:
        return [line.kind for line in prepared.lines]

    def history(self) -> list[Line]:
        with self.transcript.history() as history:
            return [line for line in history.read() if isinstance(line, Line)]


def talk(stage: Stage, turns: int, size: int) -> None:
    for number in range(turns):
        say(
            stage.transcript,
            f"Never break rule_{number}. Then " + "question " * size,
            f"Answer {number}. So " + "answer " * size,
        )


def text_of(prepared: Prepared) -> str:
    return "\n".join(str(message["content"]) for message in prepared.request.messages)


async def test_compaction_keeps_rules_and_recent_exchanges_and_everything_in_history(
    home: Path,
) -> None:
    stage = Stage(home, "auto_compact")
    talk(stage, 14, 95)
    before = len(stage.history())
    prepared = await stage.ask()
    assert stage.steps == ["checkpoint", "handoff", "handoff_replay", "backfill"]
    kinds = stage.kinds(prepared)
    assert kinds.index("summary_derived") < kinds.index("context_window_pruned")
    sent = text_of(prepared)
    for number in range(14):
        assert f"Never break rule_{number}." in sent
    assert "Answer 13." in sent.split("</data-")[-1]
    assert prepared.tokens < WINDOW * 0.75 * 0.6
    assert [line.seq for line in stage.history()] == list(range(len(stage.history())))
    assert len(stage.history()) > before
    (outcome,) = stage.outcomes
    assert outcome.fits
    pruned = next(line.entry for line in prepared.lines if line.kind == "context_window_pruned")
    assert isinstance(pruned, ContextWindowPruned)
    assert all(left.receipt is not None for left in pruned.left)
    assert pruned.trigger == "auto_compact"


async def test_a_compacted_window_is_rebuilt_by_another_process(home: Path) -> None:
    stage = Stage(home, "auto_compact")
    talk(stage, 14, 95)
    prepared = await stage.ask()
    other = stage.open()
    assert rebuild(other.history, prepared.plan).hash == prepared.request.hash


async def talk_on(stage: Stage, turns: int, size: int = 40) -> None:
    """Turns that are planned and answered, so that a rewind knows how the window stood."""
    for _ in range(turns):
        turn = stage.transcript.last_turn + 1
        await stage.ask(f"Question {turn}. " + "question " * size)
        answer = AssistantMessage(text=f"Answer {turn}. " + "answer " * size, model="m")
        stage.transcript.append(answer, turn=turn)


async def compact(stage: Stage) -> tuple[int, ...]:
    await stage.modes.compact(stage.window, stage.window.now())
    return stage.window.fold.state.summaries


def shown(stage: Stage) -> list[int]:
    """The turns whose answers stand in the window."""
    stage.window.catch_up()
    held = stage.window.fold.lines.values()
    return [line.turn for line in held if isinstance(line.entry, AssistantMessage)]


async def test_a_rewind_behind_a_compaction_brings_back_what_the_summary_stood_for(
    home: Path,
) -> None:
    stage = Stage(home, "auto_compact")
    await talk_on(stage, 18)
    assert await compact(stage)
    assert 5 not in shown(stage)
    (second,) = [line.seq for line in stage.history() if line.turn == 2 and line.role == "user"]
    assert manual.why(stage.window, second).why.endswith("index first.")
    await manual.rewind(stage.window, 5)
    state = stage.window.fold.state
    assert (shown(stage), state.summaries) == ([1, 2, 3, 4, 5], ())
    assert (state.outside.exchanges, state.outside.tokens, stage.window.fold.marker) == (0, 0, "")
    prepared = await stage.ask()
    other = stage.open()
    assert other.fold.state == stage.window.fold.state
    assert rebuild(other.history, prepared.plan).hash == prepared.request.hash


async def test_what_has_no_room_when_its_summary_is_rewound_is_told_as_outside(home: Path) -> None:
    stage = Stage(home, "auto_compact")
    await talk_on(stage, 18)
    await compact(stage)
    smaller = msgspec.structs.replace(stage.settings.context, window=450)
    stage.settings = msgspec.structs.replace(stage.settings, context=smaller)
    stage.window = stage.open()
    await manual.rewind(stage.window, 5)
    assert shown(stage) == [4, 5]
    assert stage.window.fold.state.outside.exchanges == 3
    assert "[3 earlier exchanges" in stage.window.fold.marker
    (second,) = [line.seq for line in stage.history() if line.turn == 2 and line.role == "user"]
    assert "which is in the prompt no longer" in manual.why(stage.window, second).why


async def test_a_summary_that_a_rewound_one_had_replaced_stands_again(home: Path) -> None:
    stage = Stage(home, "auto_compact")
    await talk_on(stage, 18)
    first = await compact(stage)
    await talk_on(stage, 1)
    before = shown(stage)
    await talk_on(stage, 1)
    assert shown(stage) == [*before, 20]
    (line,) = [line for line in stage.history() if line.seq in first]
    assert isinstance(line.entry, SummaryDerived)
    newest = max(stage.window.fold.lines)
    replacing = msgspec.structs.replace(
        line.entry,
        sources=(Span(newest, newest),),
        state=msgspec.structs.replace(stage.window.fold.state, summaries=()),
    )
    stage.window.record(replacing, 20)
    assert stage.window.fold.state.summaries not in ((), first)
    await manual.rewind(stage.window, 19)
    assert (stage.window.fold.state.summaries, shown(stage)) == (first, before)


@pytest.mark.parametrize(
    ("mode", "written"),
    [
        ("auto_compact", ["checkpoint", "handoff"]),
        # A window that slides never begins anew: nobody would take a handoff over.
        ("sliding_window", ["checkpoint"]),
    ],
)
async def test_at_the_checkpoint_mark_what_the_mode_uses_is_written_once(
    home: Path, mode: Mode, written: list[str]
) -> None:
    stage = Stage(home, mode)
    talk(stage, 13, 90)
    prepared = await stage.ask()
    assert 0.85 <= prepared.tokens / 3_000 < 0.92
    assert stage.steps == written
    assert "summary_derived" not in stage.kinds(prepared)
    await stage.ask()
    assert stage.steps == written
    talk(stage, 4, 90)
    await stage.ask()
    talk(stage, 8, 90)
    await stage.ask()
    assert stage.steps.count("checkpoint") > 1


@pytest.mark.parametrize("failing", ["checkpoint", "handoff"])
async def test_nothing_is_compacted_that_was_not_written_down_first(
    home: Path, failing: str
) -> None:
    stage = Stage(home, "auto_compact")
    stage.failing = frozenset({failing})
    talk(stage, 14, 94)
    prepared = await stage.ask()
    assert "summary_derived" not in stage.kinds(prepared)
    assert f"{failing} failed" in stage.outcomes[0].why


MODELS: dict[str, Saying] = {
    "empty": Saying(""),
    "refusing": Saying("I'm sorry, I cannot do that."),
    "unreachable": Saying(ProviderUnreachable("The connection broke.")),
    "timeout": Saying(TimeoutError()),
    "truncated": Saying("Goal: the rules, because"),
    "wrong JSON": Saying('{"summary": '),
}


@pytest.mark.parametrize("mode", ["auto_compact", "cascade"])
@pytest.mark.parametrize("ask", MODELS.values(), ids=MODELS)
async def test_a_failing_model_leaves_a_valid_window_and_a_whole_history(
    home: Path, mode: Mode, ask: Saying
) -> None:
    stage = Stage(home, mode, ask, min_recent=100)
    talk(stage, 14, 85)
    use_tool(stage.transcript, "read it", "result " * 30, "done")
    prepared = await stage.ask()
    assert prepared.tokens <= 3_000
    for number in range(14):
        assert f"Never break rule_{number}." in text_of(prepared)
    summaries = [line.entry for line in prepared.lines if isinstance(line.entry, SummaryDerived)]
    assert summaries
    assert all(summary.fallback and summary.model == "deterministic" for summary in summaries)
    assert rebuild(stage.open().history, prepared.plan).hash == prepared.request.hash


@pytest.mark.parametrize("mode", ["auto_compact", "cascade"])
async def test_what_cannot_be_found_again_is_not_summarised_away(home: Path, mode: Mode) -> None:
    stage = Stage(home, mode)
    stage.index.broken = True
    talk(stage, 14, 94)
    prepared = await stage.ask()
    assert "context_window_pruned" not in stage.kinds(prepared)
    assert "summary_derived" not in stage.kinds(prepared)
    assert text_of(prepared).count("question") > 1_300


async def test_larger_results_give_way_to_their_findings_before_anybody_is_asked(
    home: Path,
) -> None:
    answer = Saying("- Found: the value is in src/io.py.")
    stage = Stage(home, "cascade", answer)
    for number in range(8):
        text = f"def load_{number}():\n def merge_{number}():\n" + "data " * (
            550 if number < 4 else 90
        )
        use_tool(stage.transcript, f"read {number}", text, "done")
    prepared = await stage.ask()
    (outcome,) = stage.outcomes
    assert [taken.step for taken in outcome.taken] == ["tool_results"]
    assert outcome.ended <= 0.60
    assert "context_window_pruned" not in stage.kinds(prepared)
    assert "defines load_0, merge_0" in text_of(prepared)
    assert not answer.seen
    (step,) = [line.entry for line in prepared.lines if isinstance(line.entry, RoomStepTaken)]
    assert (step.step, step.strategy, step.calls) == ("tool_results", "finding", 0)
    assert step.tokens_before - step.tokens_after > 4 * 500


async def test_free_steps_go_down_to_the_target_and_not_only_below_their_mark(home: Path) -> None:
    answer = Saying("- Found: the value is in src/io.py.")
    stage = Stage(home, "cascade", answer)
    talk(stage, 14, 90)
    await stage.ask()
    assert stage.outcomes[0].ended <= 0.60
    assert not answer.seen


async def test_a_long_result_that_nothing_else_moved_is_shortened_by_the_model(home: Path) -> None:
    stage = Stage(home, "cascade", Saying("- Found: the value is in src/io.py."), min_recent=100)
    talk(stage, 6, 90)
    use_tool(stage.transcript, "read big", "result src/io.py " + "data " * 1_600, "done")
    prepared = await stage.ask()
    trimmed = [line.entry for line in prepared.lines if isinstance(line.entry, ToolResultsTrimmed)]
    placeholder = trimmed[0].results[0].placeholder
    assert "the value is in src/io.py" in placeholder
    assert "read_entry shows it" in placeholder
    assert placeholder in text_of(prepared)
    steps = [line.entry for line in prepared.lines if isinstance(line.entry, RoomStepTaken)]
    assert steps[-1].step == "progressive"
    assert all(step.tokens_after != step.tokens_before for step in steps)
    assert steps[-1].calls >= 1


async def test_no_summary_is_written_where_it_would_free_hardly_anything(home: Path) -> None:
    answer = Saying("- Found: nothing.")
    stage = Stage(home, "cascade", answer, min_recent=100)
    say(stage.transcript, "Hello there", "Hello " + "again " * 40)
    prepared = await stage.ask("word " * 2_600)
    assert 0.85 < stage.outcomes[0].ended == stage.outcomes[0].started < 0.95
    assert not answer.seen
    assert "summary_derived" not in stage.kinds(prepared)
    assert "room_step_taken" not in stage.kinds(prepared)


async def test_a_condensed_exchange_that_grew_old_is_made_again_from_its_originals(
    home: Path,
) -> None:
    stage = Stage(home, "cascade", min_recent=100)
    talk(stage, 5, 260)
    await stage.ask()
    (first,) = [line.entry for line in stage.history() if isinstance(line.entry, SummaryDerived)]
    for _ in range(3):
        talk(stage, 7, 130)
        await stage.ask()
    every = [line.entry for line in stage.history() if isinstance(line.entry, SummaryDerived)]
    again = [one for one in every if one.sources == first.sources and one.level > first.level]
    assert again
    assert {one.tokens_before for one in again} == {first.tokens_before}
    assert all(one.tokens_after < first.tokens_after for one in again)


async def test_a_window_that_stays_full_after_an_emergency_begins_anew_with_a_handoff(
    home: Path,
) -> None:
    stage = Stage(home, "cascade", min_recent=100)
    stage.settings = msgspec.structs.replace(
        stage.settings, cascade=CascadeSettings(overflow=20.0, target=60.0)
    )
    stage.window = stage.open()
    stage.window.room_maker = stage.modes.make_room
    talk(stage, 3, 90)
    prepared = await stage.ask("And now? " + "please " * 2_750)
    assert stage.steps[-3:] == ["checkpoint", "handoff", "handoff_replay"]
    assert "Answer 0." not in text_of(prepared)
    assert "please please" in text_of(prepared)


async def test_the_full_cascade_takes_its_steps_in_order_and_ends(home: Path) -> None:
    stage = Stage(home, "cascade", Saying(""), min_recent=100)
    talk(stage, 14, 100)
    await stage.ask()
    taken = stage.outcomes[0].taken
    steps = [one.step for one in taken]
    assert steps == [stage.step for stage in CASCADE if stage.step in steps]
    assert "tool_results" not in steps  # there are none: what changes nothing is no step
    assert all(one.after < one.before for one in taken)
    assert stage.outcomes[0].ended <= 0.75


async def test_a_cascade_that_cannot_help_is_not_repeated_for_every_call(home: Path) -> None:
    stage = Stage(home, "cascade")
    stage.index.broken = True
    talk(stage, 12, 97)
    await stage.ask()
    assert len(stage.outcomes) == 1
    await prepare(stage.window, TARGET, call=2)
    assert len(stage.outcomes) == 1


async def test_summaries_make_place_for_newer_ones_and_their_rules_go_on(home: Path) -> None:
    stage = Stage(home, "auto_compact")
    for round_number in range(5):
        for number in range(14):
            say(
                stage.transcript,
                f"Never break law_{round_number}_{number}. Then " + "question " * 90,
                "So " + "answer " * 90,
            )
        prepared = await stage.ask()
    sent = text_of(prepared)
    assert "Never break law_0_0." in sent
    assert "Never break law_4_13." in sent
    state = stage.window.fold.state
    assert 1 <= len(state.summaries) < len(stage.outcomes)
    assert prepared.tokens <= 3_000


async def test_a_pin_set_while_a_model_writes_is_respected(home: Path) -> None:
    stage = Stage(home, "auto_compact")
    talk(stage, 14, 95)
    waiting = asyncio.Event()

    async def slow(_purpose: str, _messages: Sequence[Message]) -> str:
        if not waiting.is_set():
            waiting.set()
            state = stage.window.fold.state
            stage.transcript.append(Pinned(pinned_turn=2, state=state), turn=15)
        return ""

    means = msgspec.structs.replace(
        stage.modes.means, summarizer=Summarizer(count=words, ask=slow, model="m")
    )
    stage.modes.means = means
    prepared = await stage.ask()
    assert "Answer 1." in text_of(prepared).split("</data-")[-1]


async def test_the_sliding_window_asks_no_model(home: Path) -> None:
    ask = Saying("anything")
    stage = Stage(home, "sliding_window", ask)
    talk(stage, 14, 97)
    prepared = await stage.ask()
    assert "context_window_pruned" in stage.kinds(prepared)
    assert ask.seen == []
    assert stage.steps == ["checkpoint"]
