"""What a checkpoint says after which lines: each kind of line by itself, and what gives way."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from mindstone_tui.core.entries import Entry, Line, ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ToolReturned,
    UserMessage,
)
from mindstone_tui.core.entries.derived import (
    MemoryDecided,
    NoteTaken,
    StatementSuperseded,
    SummaryDerived,
    TaskDone,
    TaskStarted,
    TodoChanged,
    TodoItem,
)
from mindstone_tui.core.entries.line import IMPORTED
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.handoff.checkpoint import (
    Checkpoint,
    FinishedCommand,
    HeadMark,
    Sourced,
    Subtask,
    advance,
    encoded,
    fitted,
    fresh,
    validate,
)
from mindstone_tui.core.handoff.environment import Environment, FileState, file_state
from mindstone_tui.core.handoff.handoff import next_step
from tests.builders import line_of

PLAN = "Port the theme selector to the new palette."


def lines(entries: Iterable[Entry], *, channel: str = "test") -> list[Line]:
    """One line for each entry; each request begins a turn."""
    turns = itertools.count(1)
    turn, found = 0, []
    for seq, entry in enumerate(entries):
        turn = next(turns) if isinstance(entry, UserMessage) else turn
        line = line_of(entry, seq, turn=turn)
        found.append(msgspec.structs.replace(line, channel=channel, hash=f"h{seq}"))
    return found


def after(*entries: Entry, channel: str = "test") -> Checkpoint:
    return advance(fresh("main"), lines(entries, channel=channel))


def texts(found: Iterable[Sourced]) -> list[str]:
    return [one.text for one in found]


def user(text: str) -> UserMessage:
    return UserMessage(text=text)


def model(text: str, *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage(text=text, calls=calls)


def note(category: str, text: str) -> NoteTaken:
    return NoteTaken(category=category, text=text)


def ran(number: int, command: str, output: str, name: str = "bash") -> tuple[Entry, Entry]:
    call = ToolCall(
        id=f"c{number}",
        name=name,
        arguments=msgspec.json.encode({"command": command, "path": command}).decode(),
    )
    return model("", call), ToolReturned(call=f"c{number}", name=name, text=output)


@pytest.mark.parametrize(
    ("row", "title", "status"),
    [
        ("- [ ] write it", "write it", "planned"),
        ("* [x] write   it", "write it", "done"),
        ("1. [X] write it", "write it", "done"),
        ("12) [~] write it", "write it", "in_progress"),
        ("  [>] write it", "write it", "in_progress"),
        ("- [-] write it", "write it", "in_progress"),
        ("- [ ] write it (doing)", "write it", "in_progress"),
        ("- [ ] write it (in progress).", "write it", "in_progress"),
        ("- [x] write it (doing)", "write it (doing)", "done"),
        ("todo: write it", "write it", "planned"),
        ("Planned: write it", "write it", "planned"),
        ("next: write it (now)", "write it", "in_progress"),
        ("doing: write it", "write it", "in_progress"),
        ("In progress : write it", "write it", "in_progress"),
        ("done: write it", "write it", "done"),
        ("completed: write it", "write it", "done"),
    ],
)
def test_a_step_is_noted_in_whatever_form_people_tick_it_off(
    row: str, title: str, status: str
) -> None:
    noted = after(note("task_progress", f"So far:\n{row}"))
    assert [(one.title, one.status, one.seq) for one in noted.subtasks] == [(title, status, 0)]
    assert noted.progress == ()
    said = after(user("Go on with it."), model(row)).subtasks
    assert [one.title for one in said] == ([title] if "[" in row else []), "words only in notes"


def test_a_step_that_is_named_again_keeps_its_place_and_changes_its_state() -> None:
    first = "- [ ] one\n- [ ] two\n- [ ] three"
    state = after(user("Go."), model(first), note("task_progress", "done: Two"))
    assert [(one.title, one.status, one.seq) for one in state.subtasks] == [
        ("one", "planned", 1),
        ("Two", "done", 2),
        ("three", "planned", 1),
    ]
    assert state.current is not None
    assert state.current.title == "one"
    assert [one.title for one in state.of("done")] == ["Two"]


def test_a_list_that_is_written_whole_replaces_all_but_what_is_done() -> None:
    todo = TodoChanged(items=(TodoItem(title="four"), TodoItem(title="two", status="in_progress")))
    state = after(user("Go."), model("- [x] one\n- [ ] two\n- [ ] three"), todo)
    assert [(one.title, one.status) for one in state.subtasks] == [
        ("one", "done"),
        ("four", "planned"),
        ("two", "in_progress"),
    ]
    steps = '{"todos": [{"content": "five", "status": "in_progress"}]}'
    planned = model("", ToolCall(id="c", name="TodoWrite", arguments=steps))
    other = model("", ToolCall(id="c", name="bash", arguments="{}"))
    before = (user("Go."), model("- [x] one\n- [ ] two"))
    assert [one.title for one in after(*before, planned).subtasks] == ["one", "five"]
    assert [one.title for one in after(*before, other).subtasks] == ["one", "two"]
    assert [one.title for one in after(*before, TodoChanged(items=())).subtasks] == ["one"]


def test_the_last_one_in_progress_is_where_to_go_on() -> None:
    state = after(
        note("task_progress", "doing: one"),
        note("task_progress", "doing: two"),
        note("task_progress", "todo: three"),
    )
    assert state.current is not None
    assert state.current.title == "two"
    assert after().current is None
    assert after(note("task_progress", "done: one")).current is None


def test_notes_are_kept_by_what_they_are_about_each_once_and_the_newest() -> None:
    state = after(
        note("learnings", "It caches."),
        note("learnings", "it  caches."),
        note("bugs", "Empty input fails."),
        note("bugs", "Long input fails."),
        note("bugs", "Resolved: empty input fails."),
        note("task_progress", "p95 is at 55 ms."),
        note("constraints", "Never touch the lexer."),
        note("constraints", "never touch the lexer."),
        note("decisions", "Keep SQLite."),
        note("anything", "else"),
    )
    assert [(one.text, one.seq) for one in state.learnings] == [("It caches.", 0)]
    assert texts(state.issues) == ["Long input fails."]
    assert texts(state.progress) == ["p95 is at 55 ms."]
    assert [(one.text, one.kind) for one in state.constraints] == [
        ("Never touch the lexer.", "rule")
    ]
    assert [(one.text, one.kind) for one in state.decisions] == [("Keep SQLite.", "decision")]
    many = after(*(note("learnings", f"Fact {number}.") for number in range(70)))
    assert texts(many.learnings) == [f"Fact {number}." for number in range(10, 70)]


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        ("All is done. Next, I write the docs.", ["Next, I write the docs."]),
        ("It works. The tests are still missing here.", ["The tests are still missing here."]),
        ("It works. Shall I write the docs?", ["Shall I write the docs?"]),
        ("It works now. Which palette do you mean?", ["Which palette do you mean?"]),
        ("Which palette do you mean? It works for all of them.", []),
        ("It works. Which one?", []),
        ("# Next steps: write all the docs\n\nIt works for all of them.", []),
        ("The next step is this one:\n\nIt works for all of them.", []),
        ("**The next step is the docs.**", ["**The next step is the docs.**"]),
        ("Next: docs.", []),
        (
            " ".join(f"The next step is number {word}." for word in "abcdefg"),
            [f"The next step is number {word}." for word in "cdefg"],
        ),
        ("The next step is this. The next step is this.", ["The next step is this."]),
        (
            f"The next step is {'long ' * 100}here.",
            [f"The next step is {'long ' * 100}"[:399] + "…"],
        ),
    ],
)
def test_what_comes_next_is_what_the_newest_answer_says(answer: str, steps: list[str]) -> None:
    state = after(user(PLAN), model(answer))
    assert texts(state.next_steps) == steps
    assert state.asked is None
    later = after(user(PLAN), model(answer), user("Draw the chart of the gauges."))
    assert later.next_steps == ()
    assert later.asked == Sourced(text="Draw the chart of the gauges.", seq=2, turn=2)


def test_who_has_only_called_a_tool_or_said_nothing_has_not_answered() -> None:
    for unanswered in (
        model("Let me look.", ToolCall(id="c", name="x", arguments="{}")),
        model(" "),
    ):
        state = after(user(PLAN), unanswered)
        assert state.asked is not None
    cut = after(user(PLAN), AssistantPartial(text=f"{'so ' * 200}it  ends"))
    assert cut.asked is not None
    assert texts(cut.next_steps) == ["(cut off) …" + f"{'so ' * 200}it ends"[-400:]]
    assert after(user(PLAN), AssistantPartial(text=" ")).next_steps == ()


@pytest.mark.parametrize(
    ("said", "waits"),
    [
        *((one, one) for one in ("yes, do it", "try again", "commit this", "deploy", "fix it")),
        *((one, None) for one in ("hello there", "Thanks! Good night.")),
    ],
)
def test_a_short_request_waits_until_it_is_answered(said: str, waits: str | None) -> None:
    work = model("Let me look.", ToolCall(id="c", name="x", arguments="{}"))
    state = after(user(PLAN), model("Fine."), user(said), work)
    assert (state.asked and state.asked.text, state.goal) == (waits, PLAN)
    assert after(user(PLAN), user(said)).asked == after(user(PLAN)).asked, "that still waits"
    assert after(user(PLAN), user(said), model("Done.")).asked is None


def test_a_topic_says_while_what_it_did_to_files_is_taken_back() -> None:
    act: dict[str, Any] = {"turns": (1,), "total": 1, "changes": (), "root": "", "token": ""}
    undo, redo = (FilesRestored(direction=way, manifest="", **act) for way in ("undo", "redo"))
    rest = FilesRestored(direction="undo", manifest="", left=("a.py: newer",), **act)
    back = "(changes to files taken back by line {})"
    for acts, mark in (
        ([undo], back.format(2)),
        ([undo, redo], ""),
        ([undo, redo, undo], back.format(4)),
        ([undo, rest], "(changes to files taken back by line 3, all but a.py)"),
    ):
        assert after(user(PLAN), model("Fine."), *acts).goal == f"{PLAN} {mark}".strip()
    other = "Draw the chart of every river gauge upstream."
    assert after(user(PLAN), model("Fine."), undo, user(other)).goal == other


LONG = "Please draw " + "every single gauge of the river again and " * 20


@pytest.mark.parametrize(
    ("said", "goal", "turn"),
    [
        (("hello",), "hello", 1),
        (("hello", "thanks!"), "hello", 1),
        (("hello", "Draw the chart."), "Draw the chart.", 2),
        ((PLAN,), PLAN, 1),
        ((PLAN, "thanks!"), PLAN, 1),
        ((PLAN, "Draw the chart."), PLAN, 1),
        ((PLAN, "Draw the river gauge chart."), "Draw the river gauge chart.", 2),
        (
            (PLAN, "Draw the chart of every river gauge upstream."),
            "Draw the chart of every river gauge upstream.",
            2,
        ),
        ((PLAN, "I'll send you the schema of the gauges tomorrow."), PLAN, 1),
        ((PLAN, "git log --oneline --graph --all --decorate"), PLAN, 1),
        (
            ("We still have to decide which pilots get the beta.", "Draw the chart."),
            "Draw the chart.",
            2,
        ),
        ((LONG,), LONG[:399] + "…", 1),
        (("  ",), "", 0),
    ],
)
def test_the_topic_is_the_last_request_that_says_enough(
    said: tuple[str, ...], goal: str, turn: int
) -> None:
    state = after(*map(user, said))
    assert (state.goal, state.goal_turn) == (goal, turn)


def test_an_imported_topic_is_a_quotation_and_gives_way_to_what_is_said_here() -> None:
    state = after(user(PLAN), channel=IMPORTED)
    assert state.goal != PLAN
    assert PLAN in state.goal
    here = [msgspec.structs.replace(one, seq=9) for one in lines([user("Draw the chart.")])]
    assert advance(state, here).goal == "Draw the chart."


def test_old_steps_leave_with_their_topic() -> None:
    plan = (user(PLAN), model("- [ ] one"))
    other = user("Draw the chart of every river gauge upstream.")
    near = after(*plan, *(model("Fine.") for _ in range(59)), other)
    far = after(*plan, *(model("Fine.") for _ in range(60)), other)
    assert [len(state.subtasks) for state in (near, far)] == [1, 0]


def test_a_task_that_is_started_begins_anew_and_one_that_is_done_leaves_what_was_settled() -> None:
    before = msgspec.structs.replace(
        after(user("Never push to main."), model("- [ ] one")),
        window=3,
        version=7,
        environment=Environment(cwd="/work"),
    )
    rules = ("Never touch the lexer.", "never touch  the lexer.", "Keep it short.")
    begun = TaskStarted(title="x" * 2_100, criteria=("fast",), constraints=rules)
    started = advance(before, [line_of(begun, 9), line_of(user(PLAN), 10, turn=2)])
    assert (started.window, started.version, started.environment.cwd) == (3, 7, "/work")
    assert (started.goal, started.goal_turn, started.criteria) == ("x" * 2_000, 0, ("fast",))
    assert started.subtasks == ()
    own = ["Never touch the lexer.", "Keep it short."]
    assert texts(started.constraints) == ["Never push to main.", *own]
    noted = advance(started, [line_of(note("bugs", "It fails."), 11)])
    over = advance(noted, [line_of(TaskDone(title="x"), 12)])
    assert (over.goal, over.criteria, over.issues, over.asked) == ("", (), (), None)
    assert texts(over.constraints) == ["Never push to main."]  # the task's own end with it
    assert (noted.issues != (), noted.asked is not None) == (True, True)
    other = advance(started, [line_of(TaskStarted(title="y"), 11)])
    assert texts(other.constraints) == ["Never push to main."], "one that takes its place ends it"


def test_what_a_person_does_not_want_kept_goes_and_a_rule_of_the_same_words_stays() -> None:
    said = "Remember that the port is 80. Never push to main."
    assert texts(after(user(said)).binding) == said.replace(". ", ".|").split("|")

    def left(words: str, decision: Literal["approved", "refused", "undone"]) -> list[str]:
        decided = MemoryDecided(proposal="p", decision=decision, by="person", words=words)
        return texts(after(user(said), decided).binding)

    for decision in ("refused", "undone"):
        assert left("Remember that the port is 80.", decision) == ["Never push to main."]
        assert len(left("Never push to main.", decision)) == 2
    assert len(left("Remember that the port is 80.", "approved")) == 2


def test_of_a_message_that_was_corrected_the_other_sentences_stand() -> None:
    said = user("Let's use port 8080. Let's go with SQLite.")
    judged = StatementSuperseded(statement=0, by=1, words=("Let's use port 8080.",))
    assert texts(after(said, judged).decisions) == ["Let's go with SQLite."]
    whole = StatementSuperseded(statement=0, by=1)
    assert texts(after(said, whole).decisions) == []


def test_only_what_an_answer_asks_last_comes_next() -> None:
    answer = model("The tests are green now. Was the port taken there once? Shall I merge it?")
    assert texts(after(user(PLAN), answer).next_steps) == ["Shall I merge it?"]


def test_a_correction_that_history_records_is_no_longer_doubtful() -> None:
    said = (user("The staging port is 8080."), user("I was wrong, the port is 9090."))
    assert texts(after(*said).doubtful) == ["I was wrong, the port is 9090."]
    judged = after(*said, StatementSuperseded(statement=0, by=1))
    assert texts(judged.binding) == ["I was wrong, the port is 9090."]
    assert not judged.doubtful


def test_the_newest_summary_is_pointed_at_and_the_head_is_the_newest_line() -> None:
    summary = SummaryDerived(
        strategy="notes", sources=(), text="x", tokens_before=1, tokens_after=1, model="m"
    )
    state = after(user(PLAN), summary, model("Fine."))
    assert state.summary == 1
    assert state.head == HeadMark(seq=2, hash="h2")
    assert advance(state, lines([user(PLAN), summary, model("Fine.")])) is state


def test_commands_are_kept_with_their_newest_end_and_errors_until_they_are_mended() -> None:
    state = after(
        *ran(1, "make a", "[exit code 2]\nboom"),
        *ran(2, "make b", "[exit code 0]"),
        *ran(3, "make a", "[exit code 3]\nboom"),
        *ran(4, "src/a.py", "x", name="read_file"),
        *ran(5, "src/b.py", "Error: no such file", name="edit_file"),
    )
    assert [(one.text, one.seq, one.exit, one.ok) for one in state.commands] == [
        ("make b", 3, 0, True),
        ("make a", 5, 3, False),
    ]
    assert [(one.kind, one.seq) for one in state.errors] == [("make a", 5)]
    assert state.errors[0].text.startswith("make a: ")


def test_what_failed_in_another_program_is_nobodys_next_step_here() -> None:
    failed = ran(1, "make a", "[exit code 2]\nboom")
    assert "mend it" in next_step(after(*failed))[0]
    state = after(*failed, channel=IMPORTED)
    assert state.errors
    assert "mend it" not in next_step(state)[0]


def test_only_the_last_commands_and_errors_stay_and_a_long_one_is_cut() -> None:
    many = [one for number in range(12) for one in ran(number, f"make {number}", "[exit code 1]")]
    state = after(*many)
    assert [one.text for one in state.commands] == [f"make {number}" for number in range(4, 12)]
    assert [one.kind for one in state.errors] == [f"make {number}" for number in range(9, 12)]
    (long,) = after(*ran(1, "make " + "x" * 300, "[exit code 0]")).commands
    assert len(long.text) == 160
    assert long.text.endswith("…")


def test_what_was_done_before_the_head_is_not_noted_again() -> None:
    written = lines([*ran(1, "make a", "[exit code 1]"), *ran(2, "make b", "[exit code 0]")])
    for cut in range(1, 4):
        half = advance(fresh("main"), written[:cut])
        cleared = msgspec.structs.replace(half, commands=(), errors=())
        later = advance(cleared, written)
        assert [one.text for one in later.commands] == ["make a", "make b"][(cut >= 2) :]


def test_going_on_from_any_line_gives_the_same_as_reading_all() -> None:
    """Corrections too, which name what they correct, and statements that retire others."""
    entries = [
        model("Hello."),
        user("Use Postgres. Staging Postgres listens on 5432."),
        model("Fine."),
        user("No, that's wrong: staging Postgres listens on 5433."),
        model("We decided to keep it. I'll add the docs later."),
        user("We still have to decide which queue to use."),
        *ran(1, "make a", "[exit code 1]\nE   boom"),
        user("Postgres is rejected; use SQLite because it has no server."),
        note("task_progress", "doing: the schema"),
        user("Remember that the demo is on Thursday."),
    ]
    every = lines(entries)
    whole = advance(fresh("main"), every)
    assert {one.kind for one in whole.constraints} == {"correction", "memory"}
    assert whole.constraints[0].old_seq == 1
    assert whole.constraints[0].old
    assert len(whole.decisions) == 1
    for cut in range(len(every)):
        assert advance(advance(fresh("main"), every[:cut]), every) == whole


GOOD: dict[str, Any] = {
    "session": "main",
    "goal": PLAN,
    "version": 1,
    "head": HeadMark(seq=0, hash="h"),
    "subtasks": (Subtask(title="a", status="in_progress"), Subtask(title="b", status="planned")),
}


@pytest.mark.parametrize(
    ("changes", "errors", "warnings"),
    [
        ({}, [], []),
        ({"format": 2}, ["its format is 2, not 1"], []),
        ({"goal": " "}, ["it has no goal"], []),
        ({"window": 0}, ["its window number is below 1"], []),
        ({"version": 0}, ["its version is below 1"], []),
        ({"head": HeadMark(seq=-1, hash="h")}, ["it names no head of history"], []),
        ({"head": HeadMark(seq=0, hash="")}, ["it names no head of history"], []),
        ({"subtasks": ()}, [], ["it names no subtasks"]),
        (
            {"subtasks": (Subtask(title="b", status="planned"),)},
            [],
            ["work remains and nothing is in progress"],
        ),
        ({"subtasks": (Subtask(title="b", status="done"),)}, [], []),
        (
            {"subtasks": tuple(Subtask(title=one, status="in_progress") for one in "ab")},
            [],
            ["2 subtasks are in progress at once"],
        ),
    ],
)
def test_a_checkpoint_says_what_is_wrong_with_it(
    changes: dict[str, Any], errors: list[str], warnings: list[str]
) -> None:
    found = validate(Checkpoint(**{**GOOD, **changes}))
    assert (list(found.errors), list(found.warnings)) == (errors, warnings)
    assert found.valid is not bool(errors)


def _sourced(count: int) -> tuple[Sourced, ...]:
    return tuple(Sourced(text=f"{'words ' * 9}{number}", seq=number) for number in range(count))


FULL = Checkpoint(
    **GOOD,
    constraints=_sourced(4),
    decisions=_sourced(12),
    questions=_sourced(9),
    commitments=_sourced(9),
    next_steps=_sourced(5),
    commands=tuple(FinishedCommand(text=f"make {n}", seq=n, turn=1) for n in range(8)),
    errors=_sourced(3),
    issues=_sourced(4),
    learnings=_sourced(9),
    progress=_sourced(9),
    environment=Environment(files=tuple(FileState(path=f"src/{n}.py") for n in range(20))),
)
GIVES_WAY = [
    ("files", 10),
    ("files", 5),
    ("files", 3),
    ("progress", 0),
    ("learnings", 3),
    ("commands", 4),
    ("commitments", 5),
    ("decisions", 8),
    ("errors", 1),
    ("next_steps", 2),
    ("questions", 5),
    ("decisions", 3),
    ("commitments", 0),
    ("commands", 0),
]


def test_what_is_too_much_gives_way_in_a_fixed_order_and_no_more_than_must() -> None:
    """The newest of each stay, and what was left out can be looked up."""
    state = FULL
    sizes = {field: len(getattr(state, field)) for field, _ in GIVES_WAY if field != "files"}
    sizes["files"] = 20
    for field, least in GIVES_WAY:
        assert fitted(state, len(encoded(state))) == state
        smaller = fitted(FULL, len(encoded(state)) - 1)
        sizes[field] = least
        found = {
            name: len(smaller.environment.files if name == "files" else getattr(smaller, name))
            for name in sizes
        }
        assert found == sizes
        state = smaller
    assert state.environment.files == FULL.environment.files[-3:]
    assert state.decisions == FULL.decisions[-3:]
    assert (state.constraints, state.issues) == (FULL.constraints, FULL.issues)
    assert state.left_out == (
        "9 progress: lines 1, 2, 3, 4, 5, 6, 7, 8",
        "6 learnings: lines 0, 1, 2, 3, 4, 5",
        "2 errors: lines 0, 1",
        "3 next steps: lines 0, 1, 2",
        "4 questions: lines 0, 1, 2, 3",
        "5 decisions: lines 4, 5, 6, 7, 8",
        "5 commitments: lines 4, 5, 6, 7, 8",
        "4 commands: lines 4, 5, 6, 7",
    )
    assert fitted(state, 0) == state


def test_of_finished_steps_the_last_ten_stay_at_the_very_least() -> None:
    steps = tuple(
        Subtask(title=f"{number}", status="done" if number % 2 else "planned")
        for number in range(30)
    )
    full = Checkpoint(**{**GOOD, "subtasks": steps})
    small = fitted(full, 100)
    assert [one.title for one in small.of("done")] == [f"{number}" for number in range(11, 31, 2)]
    assert small.of("planned") == full.of("planned")
    assert small.left_out == ("5 finished subtasks",)
    assert fitted(full, 100_000) == full
    ten = msgspec.structs.replace(full, subtasks=small.subtasks)
    assert fitted(ten, 100) == ten


@pytest.mark.parametrize("status", ["refused", "interrupted"])
def test_a_command_whose_end_nobody_knows_neither_worked_nor_failed(status: str) -> None:
    called, returned = ran(1, "git push --force", "Declined.")
    assert isinstance(returned, ToolReturned)
    cut = msgspec.structs.replace(returned, status=status)
    checkpoint = after(user("Push it."), called, cut)
    assert (checkpoint.commands, checkpoint.errors) == ((), ())


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "/proc/kmsg"])
def test_a_file_that_nobody_can_read_to_its_end_counts_as_missing(
    tmp_path: Path, name: str
) -> None:
    assert file_state(tmp_path, name) == FileState(path=name)
