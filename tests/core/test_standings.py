"""The standing of entries: folded from lines alone, and changed only by lines that refer back."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.entries import KINDS, Entry, Line, decode_line, standings
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ForkPoint,
    MessageQueued,
    MessageWithdrawn,
    SessionOpened,
    ToolAnswered,
    ToolAsked,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import (
    StatementSuperseded,
    SummaryDerived,
    TaskDone,
    TaskStarted,
    TodoChanged,
)
from mindstone_tui.core.entries.line import encode_body, seal
from mindstone_tui.core.entries.marks import Standing
from mindstone_tui.core.entries.standings import (
    Rewinds,
    Standings,
    Undone,
    not_rewound,
    still_open,
    turns_in_words,
)
from mindstone_tui.core.entries.store import FilesRestored, Imported
from mindstone_tui.core.entries.window import ModelChanged, Restored, Rewound, WindowState

SESSION = "agent:default:main"


def line(seq: int, turn: int, entry: Entry, channel: str = "tui", parent: str = "") -> Line:
    """A line as it would be read back."""
    raw, _ = seal(
        encode_body(entry),
        seq=seq,
        id=f"01{seq:024d}",
        session=SESSION,
        ts="2026-03-01T10:00:00.000Z",
        turn=turn,
        role=entry.role,
        channel=channel,
        parent=parent or None,
        prev="0" * 64,
    )
    return decode_line(raw.rstrip(b"\n"))


@st.composite
def histories(draw: st.DrawFn) -> list[Line]:
    """Turns, lists, rewinds and restores in any order."""
    lines: list[Line] = []
    turn = 0
    for seq in range(draw(st.integers(1, 40))):
        what = draw(st.sampled_from(["ask", "answer", "list", "model", "rewind", "restore"]))
        state = WindowState(through=seq - 1)
        entry: Entry
        match what:
            case "rewind":
                entry = Rewound(to_turn=draw(st.integers(0, turn)), state=state)
            case "restore":
                back = draw(st.sets(st.integers(0, turn), max_size=3))
                entry = Restored(turns=tuple(sorted(back)), state=state)
            case "ask":
                turn += 1
                entry = UserMessage(text=f"question {seq}")
            case "list":
                entry = TodoChanged(items=())
            case "model":
                entry = ModelChanged(model="guide", state=state)
            case _:
                entry = AssistantMessage(text=f"answer {seq}")
        lines.append(line(seq, turn, entry))
    return lines


def plainly_rewound(lines: list[Line], at: Line) -> int | None:
    """The same question, answered by reading on from the line."""
    by: int | None = None
    for later in lines[at.seq + 1 :]:
        match later.entry:
            case Rewound(to_turn=turn) if by is None and at.turn > turn:
                by = later.seq
            case Restored(turns=turns) if at.turn in turns:
                by = None
    return by if isinstance(at.entry, UserMessage | AssistantMessage | TodoChanged) else None


def test_what_decides_by_the_kinds_of_lines_names_kinds_that_there_are() -> None:
    named = standings.GOES_BACK | standings.CHANGES | standings.TAKES_BACK
    assert named <= KINDS.keys()
    assert len(named) == 36


@given(histories())
def test_a_line_is_rewound_exactly_from_the_rewind_to_the_restore(lines: list[Line]) -> None:
    standings = Standings(lines)
    for each in lines:
        by = plainly_rewound(lines, each)
        rewound = () if by is None else (Standing("rewound", by),)
        assert standings.of(each) == rewound


@given(histories())
def test_a_turn_counts_again_once_all_that_took_it_back_was_restored(lines: list[Line]) -> None:
    known: set[int] = set()
    gone: set[int] = set()
    again: set[int] = set()
    for each in lines:
        known.add(each.turn)
        match each.entry:
            case Rewound(to_turn=turn):
                gone |= {one for one in known if one > turn}
            case Restored(turns=turns):
                again |= gone & set(turns)
                gone -= set(turns)
    told = Standings(lines)
    assert {turn for turn in known if told.took_back(turn)} == gone
    assert {turn for turn in known if told.notes(turn)} == gone
    assert {turn for turn in known if told.rewinds.gave_back(turn)} == again - gone


@given(histories(), st.data())
def test_a_standing_changes_only_with_a_line_that_refers_back(
    lines: list[Line], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(lines)))
    before, after = Standings(lines[:cut]), Standings(lines)
    if not any(isinstance(each.entry, Rewound | Restored) for each in lines[cut:]):
        assert [before.of(each) for each in lines[:cut]] == [after.of(each) for each in lines[:cut]]


@given(histories(), st.data())
def test_the_end_of_a_history_alone_tells_what_of_it_was_rewound(
    lines: list[Line], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(lines)))
    whole = Rewinds(lines)
    kept = [each for each in lines[cut:] if whole.of(each) is None]
    assert not_rewound(lines[cut:]) == kept
    assert not_rewound(reversed(lines[cut:])) == kept[::-1]


def test_every_standing_is_told_with_the_line_or_the_place_it_comes_from() -> None:
    opened = SessionOpened(
        agent="default",
        main="main",
        program="test",
        salt="s",
        forked_from=ForkPoint(session="agent:default:older", seq=9, hash="0" * 64),
    )
    file = Imported(format="claude-code", path="/x/4f2c.jsonl", sha256="", added=1, already_there=0)
    lines = [
        line(0, 0, opened),
        line(1, 1, UserMessage(text="taken along"), parent="01" + "9" * 24),
        line(2, 1, UserMessage(text="told elsewhere"), channel="import"),
        line(3, 1, file),
        line(4, 2, UserMessage(text="my key is [redacted:github-token:1f3a]")),
        line(5, 2, MessageQueued(text="wait")),
        line(6, 2, MessageQueued(text="lost")),
        line(7, 2, MessageQueued(text="taken back")),
        line(8, 2, MessageWithdrawn(queued=f"01{7:024d}")),
        line(9, 2, AssistantPartial(text="as far as it")),
        line(10, 3, UserMessage(text="wait", queued=f"01{5:024d}")),
        line(11, 4, UserMessage(text="something new")),
        line(12, 4, MessageQueued(text="and then")),
    ]
    standings = Standings(lines)
    assert [" ".join(one.words for one in standings.of(each)) for each in lines] == [
        "",
        "copied from agent:default:older",
        "imported from claude-code, 4f2c.jsonl",
        "",
        "redacted",
        "superseded by #10",
        "unsent by #11",
        "unsent by #8",
        "",
        "interrupted",
        "",
        "",
        "queued",
    ]


def test_a_turn_that_a_client_told_of_was_said_elsewhere() -> None:
    lines = [
        line(0, 1, TurnStarted(origin="adopted")),
        line(1, 1, UserMessage(text="said there")),
        line(2, 1, TurnEnded(ending="done")),
        line(3, 2, TurnStarted()),
        line(4, 2, UserMessage(text="said here")),
    ]
    told = [[one.words for one in Standings(lines).of(each)] for each in lines]
    assert told == [[], ["said elsewhere, as a client told it"], [], [], []]


def test_a_sentence_that_was_corrected_is_told_with_the_line_that_holds() -> None:
    assert "#7" in Standing("corrected", 7, part=("The port is 80.",)).words


def test_a_message_that_was_left_behind_and_sent_later_was_sent() -> None:
    lines = [
        line(0, 1, MessageQueued(text="wait")),
        line(1, 2, UserMessage(text="something else")),
        line(2, 3, UserMessage(text="wait", queued=f"01{0:024d}")),
    ]
    told = [[one.words for one in Standings(lines[:at]).of(lines[0])] for at in (1, 2, 3)]
    assert told == [["queued"], ["unsent by #1"], ["superseded by #2"]]


def test_a_task_is_over_once_it_is_done_or_another_takes_its_place() -> None:
    lines = [
        line(0, 1, TaskStarted(title="a")),
        line(1, 2, TaskDone(title="a")),
        line(2, 3, TaskStarted(title="b")),
        line(3, 4, TaskStarted(title="c")),
    ]
    told = [[one.words for one in Standings(lines).of(each)] for each in lines]
    assert told == [["done by #1"], [], ["superseded by #3"], []]
    gone = line(4, 4, Rewound(to_turn=3, state=WindowState(through=3)))
    assert Standings([*lines, gone]).of(lines[2]) == (), "what took its place was taken back"
    more = [gone_of(4, 2), line(5, 2, TaskStarted(title="d"))]
    words = [one.words for one in Standings([*lines, *more]).of(lines[2])]
    assert words == ["rewound by #4"], "what was taken back is nothing that another replaces"
    twice = [*lines[:2], gone_of(2, 1), line(3, 3, TaskDone(title="a"))]
    assert [one.words for one in Standings(twice).of(lines[0])] == ["done by #3"]
    back = line(4, 3, Restored(turns=(2,), state=WindowState(through=3)))
    assert [one.words for one in Standings([*twice, back]).of(twice[3])] == ["done by #1"]
    alone = [line(0, 1, TaskDone(title="a")), line(1, 2, TaskDone(title="a"))]
    assert Standings(alone).task_over(0) is None, "where it began is not known"


def gone_of(seq: int, to_turn: int) -> Line:
    """A rewind of all that was said behind a turn."""
    return line(seq, to_turn + 1, Rewound(to_turn=to_turn, state=WindowState(through=seq - 1)))


def test_a_question_is_open_until_it_is_answered_or_its_turn_goes_on() -> None:
    def asked(seq: int, call: str) -> Line:
        return line(seq, 1, ToolAsked(call=call, name="x", risk="", shown="", digest=""))

    def given(call: str, since: str = "") -> Line:
        return line(4, 1, ToolAnswered(call=call, allowed=True, asked=since))

    two = [asked(0, "a"), asked(1, "b")]
    assert still_open(two) == two
    assert still_open([*two, given("a")]) == two[1:]
    assert still_open([*two, given("a", two[0].ts)]) == two[1:]
    assert still_open([*two, given("a", "2026-02-01T10:00:00.000Z")]) == two
    assert still_open([given("a"), *two]) == two, "it was given before"
    assert still_open([*two, line(4, 1, ToolReturned(call="b", name="x", text=""))]) == two[:1]
    assert still_open([*two, line(4, 1, TurnEnded(ending="done"))]) == []


def test_turns_are_counted_without_those_of_before_the_fork() -> None:
    told = [turns_in_words(12, 0), turns_in_words(1, 1), turns_in_words(42, 2, 30)]
    assert told == [
        "12 turns",
        "1 turn (1 rewound)",
        "12 turns (2 rewound) since the fork, 30 before it",
    ]


def test_what_a_rewound_correction_replaced_holds_again_and_a_copy_replaces_nothing() -> None:
    said = [
        line(0, 1, UserMessage(text="the port is 8443")),
        line(1, 2, UserMessage(text="no, the port is 9000")),
        line(2, 3, StatementSuperseded(statement=0, by=1)),
    ]
    assert [one.words for one in Standings(said).of(said[0])] == ["superseded by #1"]
    gone = line(3, 3, Rewound(to_turn=1, state=WindowState(through=2)))
    assert Standings([*said, gone]).of(said[0]) == ()
    verdict = Standings([*said, gone]).of(said[2])
    assert verdict == (Standing("rewound", 3),), "the verdict goes with the correction"
    again = line(4, 3, Restored(turns=(2,), state=WindowState(through=3)))
    assert Standings([*said, gone, again]).of(said[0]) != ()
    assert Standings([*said, gone, again]).of(said[2]) == ()
    newer = [
        line(3, 4, UserMessage(text="no, the port is 9443, not 8443")),
        line(4, 4, StatementSuperseded(statement=0, by=3)),
    ]
    assert [one.words for one in Standings([*said, *newer]).of(said[0])] == ["superseded by #3"]
    back = line(5, 4, Rewound(to_turn=3, state=WindowState(through=4)))
    told = Standings([*said, *newer, back]).of(said[0])
    assert [one.words for one in told] == ["superseded by #1"], "the verdict before it holds"
    copied = msgspec.structs.replace(said[2], parent="01" + "9" * 24)
    assert Standings([*said[:2], copied]).of(said[0]) == ()


def test_what_was_told_of_files_that_were_put_back_holds_again_and_what_was_said_stays_said() -> (
    None
):
    act: dict[str, Any] = {"turns": (2,), "total": 1, "changes": ()}
    act |= {"root": "", "manifest": "", "token": ""}
    said = [
        line(0, 1, UserMessage(text="The port is 7001. Write it down.")),
        line(1, 1, AssistantMessage(text="cfg.ini says 7001.")),
        line(2, 2, UserMessage(text="Correction: the port is 7002, not 7001.")),
        line(3, 2, AssistantMessage(text="cfg.ini says 7002.")),
        line(4, 2, StatementSuperseded(statement=0, by=2)),
        line(5, 2, StatementSuperseded(statement=1, by=2)),
        line(6, 2, FilesRestored(direction="undo", **act)),
        line(7, 3, UserMessage(text="well")),
        line(8, 3, StatementSuperseded(statement=1, by=2)),
        line(9, 3, FilesRestored(direction="redo", **act)),
    ]
    told = [[one.words for one in Standings(said[:at]).of(said[1])] for at in (6, 7, 9, 10)]
    assert told == [["superseded by #2"], [], [], ["superseded by #2"]]
    assert [one.words for one in Standings(said[:9]).of(said[0])] == ["superseded by #2"]
    known = Standings(said[:7])
    undone = {each.seq: one.by for each in said for one in known.of(each) if one.what == "undone"}
    assert undone == {2: 6, 3: 6}, "no other line tells of what the turn did"
    assert known.undone.of_place(7, 2) is None, "it was said when all was taken back"
    partly = Undone([line(6, 2, FilesRestored(direction="undo", left=("a.ini: newer",), **act))])
    assert [partly.of_file(3, 2, path) for path in ("/w/a.ini", "/w/b.ini")] == [None, 6]
    fork = Undone([line(6, 1, FilesRestored(direction="undo", **act))])
    assert fork.of_turn(2) is None, "a fork has turns of its own by the numbers that it left out"


def test_a_summary_of_nothing_that_was_taken_back_holds() -> None:
    told = [
        line(
            seq,
            7,
            SummaryDerived(
                strategy="notes", sources=(), text="x", tokens_before=9, tokens_after=1, model="m"
            ),
        )
        for seq in (3, 4)
    ]
    gone = line(9, 8, Rewound(to_turn=5, state=WindowState(through=8, summaries=(3,))))
    standings = Standings([*told, gone])
    assert [[one.what for one in standings.of(each)] for each in told] == [
        ["derived"],
        ["rewound", "derived"],
    ]


def test_many_restores_and_corrections_are_folded_in_one_pass() -> None:
    state = WindowState(through=1)
    lines = [line(1, 1, UserMessage(text="We use npm."))]
    for seq in range(2, 8_002, 4):
        said = (f"sentence {seq}",)
        lines += [
            line(seq, 1, UserMessage(text="No, yarn.")),
            line(seq + 1, 1, StatementSuperseded(statement=1, by=seq, words=said, partly=True)),
            line(seq + 2, 1, Rewound(to_turn=1, state=state)),
            line(seq + 3, 1, Restored(turns=tuple(range(seq, seq + 300)), state=state)),
        ]
    assert len(Standings(lines).corrected_by(1)) == 2_000


def test_files_that_were_taken_over_are_folded_in_one_pass() -> None:
    lines = [
        line(seq, 1, Imported(path=f"{seq}", format="x", sha256="", added=0, already_there=0))
        for seq in range(1, 40_000)
    ]
    assert Standings(lines).source_of(1).marks == ()
