"""The fold by itself, on lines in memory: what each does to the window, and that it is pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.context.fold import Fold, merged, references_of, state_of, within, without
from mindstone_tui.core.entries import Entry, Image, Line, Span, ToolCall, ToolSchema
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    MessageCut,
    Thinking,
    ToolReturned,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import (
    HandoffReplayed,
    HookRun,
    MemoryDigested,
    RecallInjected,
    StatementSuperseded,
    SummaryDerived,
    TaskDone,
    TaskStarted,
)
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    InstructionsChanged,
    Left,
    ModeChanged,
    ModelChanged,
    Pinned,
    PolicyChanged,
    PromptPlanned,
    Restored,
    Rewound,
    Section,
    ToolResultsTrimmed,
    ToolsChanged,
    Trimmed,
    Unpinned,
    WindowCarried,
    WindowRepaired,
    WindowState,
)
from mindstone_tui.core.errors import DamagedTranscript
from tests.builders import line_of

LOOK = ToolSchema(name="look", description="", parameters={"type": "object"})


class Film:
    """Lines as they are written, and the fold that takes each in."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.turn = 0
        self.fold = Fold(self.read)

    def read(self, first: int, last: int) -> list[Line]:
        return [line for line in self.lines if first <= line.seq <= last]

    def add(self, entry: Entry) -> int:
        line = line_of(entry, len(self.lines), turn=self.turn)
        self.lines.append(line)
        self.fold.add(line)
        return line.seq

    def change(
        self, kind: Callable[..., Entry], state: WindowState | None = None, **more: Any
    ) -> int:
        return self.add(kind(state=state or self.fold.state, **more))

    def ask(self, text: str) -> int:
        self.turn += 1
        self.add(TurnStarted())
        return self.add(UserMessage(text=text))

    def chat(self, name: str) -> None:
        self.ask(f"ask {name}")
        self.answer(name)

    def answer(self, name: str) -> int:
        return self.add(AssistantMessage(text=f"answer {name}", model="m"))

    def use(self, name: str) -> int:
        """A call, and its result, whose line is told."""
        call = ToolCall(id=f"c{len(self.lines)}", name="look", arguments="{}")
        self.add(AssistantMessage(text="", model="m", calls=(call,)))
        return self.add(ToolReturned(call=call.id, name="look", text=f"result {name}"))

    def prune(self, *turns: int, marker: str = "") -> int:
        left = tuple(
            Left(turn=turn, span=Span(0, 0), tokens=1, score=0.0, reason="oldest") for turn in turns
        )
        return self.change(
            ContextWindowPruned,
            self.fold.without_turns(turns),
            left=left,
            tokens_before=2,
            tokens_after=1,
            policy="fifo",
            trigger="manual",
            marker=marker,
        )

    def trim(self, *results: int) -> int:
        trimmed = tuple(
            Trimmed(result=seq, placeholder=f"[result {seq}]", tokens_before=2, tokens_after=1)
            for seq in results
        )
        return self.change(
            ToolResultsTrimmed, results=trimmed, tokens_before=2, tokens_after=1, policy="fifo"
        )

    def rewind(self, turn: int) -> int:
        later = [number for number in self.fold._turns if number > turn]
        return self.change(Rewound, self.fold.without_turns(later), to_turn=turn)

    def restore(self, *turns: int, marker: str = "") -> int:
        lines = [line.seq for line in self.lines if line.turn in turns]
        state = self.fold.state
        spans = merged((*state.spans, *(Span(seq, seq) for seq in lines)))
        state = msgspec.structs.replace(state, spans=spans)
        return self.change(Restored, state, turns=turns, marker=marker)

    def texts(self, **more: Any) -> list[str]:
        return [str(message["content"]) for message in self.fold.request("m", **more).messages]

    def check(self) -> None:
        """Whoever comes later, and begins at whichever change, sees the same."""
        tail = tuple(seq for seq in self.fold.recalls)
        for change in self.lines:
            if state_of(change) is None:
                continue
            other = Fold.from_state(change, self.read)
            for line in (self.lines[0], *self.lines[change.seq :]):
                other.add(line)
            assert other.state == self.fold.state
            assert other.lines == self.fold.lines
            assert list(other.lines) == sorted(other.lines)
            assert (other.head, other.at, other.turn) == (
                *(self.fold.head, self.fold.at, self.fold.turn),
            )
            assert other.request("m", tail=tail) == self.fold.request("m", tail=tail)
            assert set(other._references) >= set(references_of(other.state))


def test_a_new_window_is_empty_and_knows_nothing() -> None:
    fold = Film().fold
    assert (fold.head, fold.at, fold.turn, fold.lines) == (-1, -1, 0, {})
    assert (fold.model, fold.model_changed, fold.mode, fold.policy) == ("", None, None, None)
    assert (fold.sections, fold.tools, fold.plan, fold.last_left) == ((), (), None, ())
    assert (fold.marker, fold.derived, fold.task, fold.shown) == ("", {}, None, frozenset())
    assert fold.state == WindowState(through=-1)
    assert fold.request("m").messages == ()


def test_what_was_chosen_holds_until_the_next_choice() -> None:
    film = Film()
    film.change(ModelChanged, model="one")
    film.change(ModeChanged, mode="sliding")
    film.change(PolicyChanged, policy="lru")
    film.change(InstructionsChanged, sections=(Section(name="a", text="Be brief."),))
    film.change(ToolsChanged, tools=(LOOK,))
    film.chat("a")
    fold = film.fold
    assert (fold.model, fold.mode, fold.policy) == ("one", "sliding", "lru")
    assert fold.model_changed == film.lines[0].entry
    assert (fold.sections[0].text, fold.tools) == ("Be brief.", (LOOK,))
    last = film.change(ModelChanged, model="two")
    film.change(InstructionsChanged, sections=())
    film.change(ToolsChanged, tools=())
    assert (fold.model, fold.sections, fold.tools, fold.state.model) == ("two", (), (), last)
    film.check()


def test_the_head_has_instructions_handoff_summaries_and_the_marker_in_this_order() -> None:
    film = Film()
    sections = (
        Section(name="a", text="Rules."),
        Section(name="b", text=""),
        Section(name="c", text="You."),
    )
    film.change(InstructionsChanged, sections=sections)
    film.chat("a")
    film.chat("b")
    film.prune(1, marker="One is out.")
    handoff = film.change(HandoffReplayed, sha256="0", text="Handoff.")
    summed: dict[str, Any] = {"sources": (), "tokens_before": 2, "tokens_after": 1, "model": "m"}
    first = film.change(SummaryDerived, strategy="notes", text="First.", **summed)
    beside = film.add(SummaryDerived(strategy="notes", text="Beside.", **summed))
    second = film.change(SummaryDerived, strategy="notes", text="Second.", **summed)
    assert film.fold.head_text() == "Rules.\n\nYou.\n\nHandoff.\n\nFirst.\n\nSecond.\n\nOne is out."
    assert film.fold.derived == {handoff: "Handoff.", first: "First.", second: "Second."}
    assert film.fold.state.summaries == (first, second)
    assert film.texts()[0] == film.fold.head_text()
    assert [message["role"] for message in film.fold.request("m").messages][:2] == [
        *("system", "user")
    ]
    assert film.fold.reference(beside) is None
    assert film.fold.reference(None) is None
    assert film.fold.reference(first) == film.lines[first]
    film.check()


def test_the_name_of_a_head_changes_with_its_bytes_and_only_then() -> None:
    film = Film()
    film.change(InstructionsChanged, sections=(Section(name="a", text="Rules."),))
    film.chat("a")
    film.chat("b")
    key = film.fold.head_key()
    film.chat("c")
    film.change(Pinned, pinned_turn=2)
    assert film.fold.head_key() == key
    keys = {key}
    film.prune(1, marker="One is out.")
    keys.add(film.fold.head_key())
    film.change(ToolsChanged, tools=(LOOK,))
    keys.add(film.fold.head_key())
    film.change(HandoffReplayed, sha256="0", text="Handoff.")
    keys.add(film.fold.head_key())
    expected = film.fold.expecting((), ()).head_key()
    assert expected[:-1] == film.fold.head_key()
    assert len({*keys, expected}) == 5


def test_what_the_next_turn_will_record_can_be_looked_at_before() -> None:
    film = Film()
    film.change(InstructionsChanged, sections=(Section(name="a", text="Rules."),))
    film.chat("a")
    fold = film.fold
    assert fold.expecting(fold.sections, fold.tools) is fold
    other = (Section(name="b", text="Others."),)
    expected = fold.expecting(other, (LOOK,))
    assert (expected.sections, expected.tools) == (other, (LOOK,))
    assert expected.request("m").messages[0]["content"] == "Others."
    assert expected.lines == fold.lines
    assert (fold.sections[0].text, fold.tools) == ("Rules.", ())
    assert fold.expecting(fold.sections, (LOOK,)).tools == (LOOK,)
    assert fold.expecting(other, ()).sections == other


def test_exchanges_leave_whole_and_the_task_stays() -> None:
    film = Film()
    for name in "abcd":
        film.chat(name)
    film.prune(1, 3, marker="Two are out.")
    assert film.texts() == ["Two are out.", "ask a", "ask b", "answer b", "ask d", "answer d"]
    assert [left.turn for left in film.fold.last_left] == [1, 3]
    assert film.fold.task == 1
    assert film.fold.spans_of_turns([1, 2, 3]) == (Span(1, 1), Span(3, 5))
    film.check()
    film.restore(3, marker="One is out.")
    assert film.texts() == [
        *("One is out.", "ask a", "ask b", "answer b", "ask c", "answer c", "ask d", "answer d")
    ]
    assert film.fold.last_left == ()
    film.check()
    film.rewind(2)
    film.chat("e")
    assert film.texts() == ["One is out.", "ask a", "ask b", "answer b", "ask e", "answer e"]
    film.check()


def test_what_corrects_a_message_stays_as_long_as_that_message() -> None:
    film = Film()
    for name in "abcde":
        film.chat(name)
    said = [seq for seq, line in film.fold.lines.items() if line.kind == "user_message"]
    film.add(StatementSuperseded(statement=said[0], by=said[2]))
    film.add(StatementSuperseded(statement=said[1], by=said[3]))
    film.add(StatementSuperseded(statement=said[2], by=said[3]))
    assert film.fold.staying == {said[0], said[2], said[3]}
    film.prune(1, 2, 3, 4)
    assert film.texts() == ["ask a", "ask c", "ask d", "ask e", "answer e"]
    film.check()
    film.chat("f")
    film.prune(4)
    assert film.fold.staying == {said[0], said[2], said[3]}, "c stands, and d corrects it"
    film.rewind(3)
    assert film.fold.staying == {said[0], said[2]}
    film.check()


def test_what_arrives_while_a_change_is_decided_stays() -> None:
    film = Film()
    for name in "abc":
        film.chat(name)
    decided = film.fold.without_turns([2])
    late = film.ask("late")
    result = film.use("late")
    film.change(
        ContextWindowPruned,
        decided,
        left=(Left(turn=2, span=Span(0, 0), tokens=1, score=0.0, reason="x"),),
        tokens_before=2,
        tokens_after=1,
        policy="fifo",
        trigger="manual",
    )
    assert {late, result} <= set(film.fold.lines)
    assert "ask b" not in film.texts()
    film.check()


def test_two_changes_that_were_decided_at_once_both_hold() -> None:
    """Each was made from a window that did not know of the other."""
    film = Film()
    for name in "abcd":
        film.chat(name)
    result = film.use("d")
    film.answer("d2")
    before = film.fold.state
    film.change(Pinned, before, pinned_turn=4)
    film.change(
        ToolResultsTrimmed,
        before,
        results=(Trimmed(result=result, placeholder="[out]", tokens_before=2, tokens_after=1),),
        tokens_before=2,
        tokens_after=1,
        policy="fifo",
    )
    film.change(PolicyChanged, before, policy="lru")
    assert film.fold.state.pins == (4,)
    assert "[out]" in film.texts()
    assert film.fold.policy == "lru"
    film.check()


CHANGES: dict[str, Callable[[Film], object]] = {
    "prune": lambda film: film.prune(2, marker="out"),
    "restore": lambda film: film.restore(1, marker="back"),
    "rewind": lambda film: film.rewind(3),
    "repair": lambda film: film.change(
        WindowRepaired, film.fold.without_lines([13]), why="x", seqs=(13,)
    ),
    "trim": lambda film: film.trim(12),
    "cut": lambda film: film.add(MessageCut(target=8, text="cut", tokens_before=2, tokens_after=1)),
    "pin": lambda film: film.change(Pinned, pinned_turn=3),
    "unpin": lambda film: film.change(Unpinned, pinned_turn=4),
    "model": lambda film: film.change(ModelChanged, model="other"),
    "summary": lambda film: film.change(
        SummaryDerived,
        strategy="notes",
        text="Summary.",
        sources=(),
        tokens_before=2,
        tokens_after=1,
        model="m",
    ),
    "task": lambda film: film.add(TaskStarted(title="t")),
    "chat": lambda film: film.chat("late"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_holds_though_the_next_was_decided_without_knowing_of_it(change: str) -> None:
    film = Film()
    film.ask("first")
    film.answer("first")
    for name in "bc":
        film.chat(name)
    film.ask("d")
    film.use("d")
    film.answer("d")
    film.prune(1)
    film.change(Pinned, pinned_turn=4)
    before, old = film.fold.state, film.texts()
    CHANGES[change](film)
    texts, state = film.texts(), film.fold.state
    assert (texts, state.pins, state.model, state.task) != (
        *(old, before.pins, before.model, before.task),
    )
    film.change(PolicyChanged, before, policy="lru")
    assert film.texts() == texts
    assert (film.fold.state.pins, film.fold.state.model) == (state.pins, state.model)
    assert film.fold.state.task == state.task
    assert film.fold.policy == "lru"
    film.check()


def test_pictures_are_shown_where_their_bytes_are_at_hand_and_wanted() -> None:
    film = Film()
    film.turn = 1
    picture = Image(sha256="0" * 64, media_type="image/png", width=2, height=3)
    film.add(UserMessage(text="this", images=(picture,)))
    asked: list[str] = []

    def blob(digest: str) -> bytes:
        asked.append(digest)
        return b"bytes"

    assert "base64" in str(film.fold.request("m", blob=blob).messages)
    assert asked == ["0" * 64]
    assert "base64" not in str(film.fold.request("m", blob=blob, images=False).messages)
    assert "base64" not in str(film.fold.request("m").messages)


def test_pins_come_and_go_one_by_one() -> None:
    film = Film()
    for name in "abc":
        film.chat(name)
    film.change(Pinned, pinned_turn=3)
    film.change(Pinned, pinned_turn=1)
    film.change(Pinned, pinned_turn=3)
    assert list(film.fold.state.pins) == [1, 3]
    film.change(Unpinned, pinned_turn=1)
    film.change(Unpinned, pinned_turn=2)
    assert list(film.fold.state.pins) == [3]
    film.check()


def test_stand_ins_are_sent_in_the_place_of_words_and_tell_so() -> None:
    film = Film()
    film.ask("a")
    first, second = film.use("one"), film.use("two")
    film.answer("a")
    film.trim(first)
    assert film.texts() == ["a", "", f"[result {first}]", "", "result two", "answer a"]
    assert first not in film.fold.shown
    assert second in film.fold.shown
    asked = film.ask("long")
    cut = film.add(MessageCut(target=asked, text="short", tokens_before=9, tokens_after=1))
    assert film.texts()[-1] == "short"
    assert asked in film.fold.shown, "it is what is asked"
    placed = {one.line.seq: one for one in film.fold.placed(model="m", turn=2)}
    assert placed[asked].key == (asked, cut, False)
    assert placed[second].key == (second, None, False)
    assert (placed[asked].text, placed[second].text) == ("short", None)
    film.chat("b")
    assert asked not in film.fold.shown
    film.prune(2)
    assert film.fold.state.cut == {}
    assert list(film.fold.state.trimmed) == [first]
    film.check()


def test_results_follow_their_call_whatever_came_between() -> None:
    film = Film()
    film.ask("a")
    calls = tuple(ToolCall(id=name, name="look", arguments="{}") for name in ("x", "y"))
    film.add(AssistantMessage(text="", model="m", calls=calls))
    film.add(ToolReturned(call="y", name="look", text="ry"))
    film.add(UserMessage(text="steered"))
    film.add(ToolReturned(call="x", name="look", text="rx"))
    assert sorted(film.texts()[2:4]) == ["rx", "ry"]
    assert film.texts()[-1] == "steered"


def test_thinking_is_sent_within_its_turn_and_to_its_own_model() -> None:
    film = Film()
    film.ask("a")
    seq = film.add(
        AssistantMessage(text="x", model="m", thinking=(Thinking(text="hm", signature="s"),))
    )
    plain = film.answer("a")

    def thinks(model: str, turn: int) -> list[int]:
        placed = film.fold.placed(model=model, turn=turn)
        return [one.line.seq for one in placed if one.thinking]

    assert thinks("m", 1) == [seq]
    assert thinks("m", 2) == thinks("other", 1) == []
    assert plain > seq
    assert "thinking_blocks" in film.fold.request("m").messages[1]
    assert "thinking_blocks" not in film.fold.request("m", turn=2).messages[1]


def test_what_passes_stands_at_the_end_as_one_block_and_only_where_it_is_named() -> None:
    film = Film()
    film.ask("a")
    recalled = film.add(RecallInjected(passages=(), text="Recalled.", tokens=2))
    digest = film.add(MemoryDigested(text="Remembered.", files=()))
    silent = film.add(HookRun(event="Stop", command="x", source="user"))
    tail = (recalled, silent, digest)
    assert film.fold.tail_text(tail) == "Recalled.\n\nRemembered."
    assert film.texts() == ["a"]
    assert film.texts(tail=tail) == ["a", "Recalled.\n\nRemembered."]
    assert set(film.fold.recalls) == {recalled, digest, silent}
    film.answer("a")
    film.chat("b")
    film.prune(1)
    assert film.fold.recalls == {}
    assert film.texts(tail=(recalled,))[-1] == "Recalled.", "history still has it"
    assert film.fold.recalls == {}
    for wrong in (0, 1, 999):
        with pytest.raises(DamagedTranscript, match=f"Line {wrong}, which"):
            film.fold.recalled(wrong)
    film.check()


def test_a_task_holds_its_first_message_until_it_is_done() -> None:
    film = Film()
    film.chat("a")
    film.chat("b")
    begun = film.add(TaskStarted(title="t"))
    assert [film.fold.state.task, film.fold.task] == [begun, None]
    film.chat("c")
    first = film.fold.task
    assert first is not None
    assert film.lines[first].entry == UserMessage(text="ask c")
    film.chat("d")
    film.prune(1, 3)
    assert film.texts() == ["ask b", "answer b", "ask c", "ask d", "answer d"]
    done = film.add(TaskDone(title="t"))
    assert [film.fold.state.task, film.fold.task] == [done, None]
    film.chat("e")
    assert film.fold.task is None
    film.check()


def test_only_the_newest_plan_of_the_conversation_counts() -> None:
    film = Film()
    film.ask("a")
    plan = PromptPlanned(call=1, at=-1, through=1, spans=())
    first = film.add(plan)
    film.add(msgspec.structs.replace(plan, purpose="summary"))
    assert film.fold.plan is not None
    assert film.fold.plan.seq == first
    last = film.add(plan)
    assert (film.fold.plan.seq, film.fold.state.plan) == (last, last)


def test_single_messages_are_left_out_for_good() -> None:
    film = Film()
    film.ask("a")
    call = film.add(
        AssistantMessage(text="", model="m", calls=(ToolCall(id="x", name="x", arguments="{}"),))
    )
    film.change(WindowRepaired, film.fold.without_lines([call]), why="no result", seqs=(call,))
    film.answer("a")
    assert film.texts() == ["a", "answer a"]
    film.check()


def test_a_line_that_was_taken_in_changes_nothing_again() -> None:
    film = Film()
    film.chat("a")
    film.change(PolicyChanged, policy="lru")
    film.chat("b")
    state, lines = film.fold.state, dict(film.fold.lines)
    for line in film.lines:
        film.fold.add(line)
    assert (film.fold.state, film.fold.lines) == (state, lines)
    assert film.fold.state is film.fold.state
    assert film.fold.pairing is film.fold.pairing


def test_a_line_that_the_window_needs_and_nobody_can_read_is_named() -> None:
    film = Film()
    film.chat("a")
    film.change(PolicyChanged, policy="lru")
    film.change(WindowCarried)
    gone = [line for line in film.lines if line.kind != "policy_changed"]
    with pytest.raises(DamagedTranscript, match="Line 3, which the window is built from") as said:
        Fold.from_state(film.lines[-1], lambda a, b: [one for one in gone if a <= one.seq <= b])
    assert "verify" in said.value.remedy


ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("chat", "chat", "use", "use", "prune", "prune", "restore", "rewind", "trim"),
                *("pin", "unpin", "cut", "carry", "late", "task", "done", "recall", "summary"),
                "correct",
            ]
        ),
        st.integers(0, 9),
    ),
    max_size=24,
)


def _act(film: Film, what: str, number: int) -> None:
    """One thing that may happen to a session, as far as it can."""
    turns = sorted(film.fold._turns)
    turn = turns[number % len(turns)] if turns else 0
    results = [seq for seq, line in film.fold.lines.items() if line.kind == "tool_returned"]
    match what:
        case "use":
            film.ask(f"use {number}")
            film.use(f"{number}")
        case "prune" if len(turns) > 1 and turn != film.turn:
            film.prune(turn, marker=f"out {number}")
        case "restore" if film.turn > 1:
            film.restore(1 + number % film.turn)
        case "rewind" if turn:
            film.rewind(turn)
        case "trim" if results:
            film.trim(results[number % len(results)])
        case "pin" if turn:
            film.change(Pinned, pinned_turn=turn)
        case "unpin":
            film.change(Unpinned, pinned_turn=turn)
        case "cut" if film.fold.lines:
            target = [*film.fold.lines][number % len(film.fold.lines)]
            film.add(MessageCut(target=target, text="cut", tokens_before=2, tokens_after=1))
        case "carry":
            film.change(WindowCarried)
        case "late" if turns:
            decided = film.fold.state
            film.chat(f"late {number}")
            film.change(Pinned, decided, pinned_turn=turn)
        case "correct" if len(said := [*film.fold.lines]) > 1:
            film.add(StatementSuperseded(statement=said[number % (len(said) - 1)], by=said[-1]))
        case "task":
            film.add(TaskStarted(title="t"))
        case "done":
            film.add(TaskDone(title="t"))
        case "recall" if film.turn:
            film.add(RecallInjected(passages=(), text=f"recalled {number}", tokens=1))
        case "summary":
            film.change(
                SummaryDerived,
                strategy="notes",
                text=f"summary {number}",
                sources=(),
                tokens_before=2,
                tokens_after=1,
                model="m",
            )
        case _:
            film.chat(f"{number}")


@given(ACTS)
def test_whoever_begins_at_whichever_change_sees_the_same_window(
    acts: list[tuple[str, int]],
) -> None:
    film = Film()
    for what, number in acts:
        _act(film, what, number)
    film.change(WindowCarried)
    film.check()


numbers = st.sets(st.integers(0, 12))


def _runs(found: Iterable[int]) -> tuple[Span, ...]:
    return tuple(Span(number, number) for number in found)


@given(numbers, numbers)
def test_runs_are_sets_of_numbers_as_few_as_can_be(ours: set[int], theirs: set[int]) -> None:
    def numbers_in(spans: tuple[Span, ...]) -> set[int]:
        assert all(span.first <= span.last for span in spans)
        assert all(one.last + 1 < other.first for one, other in pairwise(spans))
        return {number for span in spans for number in range(span.first, span.last + 1)}

    assert numbers_in(merged(_runs(ours))) == ours
    assert numbers_in(without(_runs(ours), _runs(theirs))) == ours - theirs
    assert numbers_in(within(_runs(ours), _runs(theirs))) == ours & theirs
    assert merged([Span(5, 2), Span(1, 4), Span(2, 3)]) == (Span(1, 4),)
