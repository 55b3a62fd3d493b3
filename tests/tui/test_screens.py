"""Approvals, proposals, pickers, the transcript, help and what the app can do by name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Button, Input, OptionList, ProgressBar, Static

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.store import FileChange, FilesChanged
from mindstone_tui.core.errors import ProviderRefused
from mindstone_tui.core.events import Answer
from mindstone_tui.core.interchange.discover import ProgramFiles, SessionFile
from mindstone_tui.core.library.elsewhere import Elsewhere
from mindstone_tui.core.library.model_list import Download
from mindstone_tui.core.library.open_questions import OpenQuestion
from mindstone_tui.core.library.profile import ListedSession, SessionFilter
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.host import AppHost, ModelChoice
from mindstone_tui.tui.screens.chat import ChatScreen
from mindstone_tui.tui.screens.help import HelpScreen
from mindstone_tui.tui.screens.sessions import ChooseScreen, SessionsScreen
from mindstone_tui.tui.screens.setup import KeyScreen, LongTaskScreen
from mindstone_tui.tui.screens.transcript import LineList, TranscriptScreen
from mindstone_tui.tui.widgets.approval import Approval, Proposed
from mindstone_tui.tui.widgets.welcome import Welcome
from tests.builders import transcript_in, use_tool
from tests.tui.shelf import Shelf, fill
from tests.tui.staged import (
    COMMANDS,
    SESSION,
    Staged,
    around,
    asked,
    drawn,
    escape_again,
    ready,
    said,
    settle,
    staged,
    streamed,
    tool,
    until,
)

WISH = ev.ToolAsked(
    turn=1,
    call="c",
    name="shell",
    risk="write",
    shown="git push\u202e origin",
    digest="0",
    diff="--- a\n+++ b\n-[old]\n+[/new]",
    scopes=(
        ev.AskedScope(scope="once", label="Allow once"),
        ev.AskedScope(
            scope="prefix", label="Allow git push", remember="shell:git push", keep="session"
        ),
        ev.AskedScope(
            scope="always", label="Always git push", remember="shell:git push", keep="config"
        ),
    ),
)


CHANGE = "--- a/tests/a.py\n+++ b/tests/a.py\n@@ -7,2 +7,2 @@\n x\n-old\n+new"
REFUSED = Answer(allowed=False, why="declined by the user")
ANSWERS = (
    (("enter",), REFUSED),
    (("n",), REFUSED),
    (("y",), Answer(allowed=True)),
    (
        ("s",),
        Answer(allowed=True, remember="shell:git push", keep="session", granted="git push"),
    ),
    (("r", *"use git", "enter"), Answer(allowed=False, why="use git")),
    (("r", "escape", "n"), REFUSED),
    (("down", "down", "enter"), Answer(allowed=True)),
    (
        ("down", "down", "down", "down", "enter"),
        Answer(allowed=True, remember="shell:git push", keep="config", granted="Always git push"),
    ),
)


def asked_in(app: MindstoneApp) -> str:
    """The call that is asked about, once it can be answered."""
    approval = app.chat.input_area.decision
    return approval.asked.call if isinstance(approval, Approval) and approval.is_open else ""


async def test_an_approval_needs_a_deliberate_key_and_refuses_by_default() -> None:
    app, talk = staged(asked(1, "go"))
    async with app.run_test() as pilot:
        for number, (keys, answer) in enumerate(ANSWERS):
            talk.announce(msgspec.structs.replace(WISH, call=f"c{number}"))
            await until(pilot, lambda: bool(asked_in(app)))
            await pilot.press("tab" if number % 2 else "f6", *keys)
            await until(pilot, lambda: app.chat.input_area.decision is None and bool(talk.did))
            ((deed, call, given),) = talk.did
            assert isinstance(given, Answer)
            assert (deed, call, given.how) == ("answer", f"c{number}", keys[-1])
            assert msgspec.structs.replace(given, how="", seen=0.0) == answer, keys
            assert app.focused is app.chat.input_area.prompt
            assert app.chat.input_area.prompt.text == ""
            talk.did.clear()


TOO_LARGE = ev.ToolAsked(
    turn=1,
    call="m",
    name="message",
    risk="message",
    shown="message of 2,000 lines, 54,593 tokens\nfirst\n…\nlast",
    digest="",
    scopes=tuple(
        ev.AskedScope(scope="once", label=f"way {way}", remember=way) for way in ("", "b", "c")
    ),
)


@pytest.mark.parametrize(
    ("keys", "allowed", "way"),
    [("n", False, ""), ("y", True, ""), ("s", True, "b"), ("r down down down enter", True, "c")],
)
async def test_a_message_that_is_too_large_is_decided_on_like_anything_else(
    keys: str, allowed: bool, way: str
) -> None:
    app, talk = staged(asked(1, "row\n" * 2_000), TOO_LARGE)
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(asked_in(app)))
        buttons = [str(each.label) for each in app.chat.input_area.query(Button)]
        assert "Do not send it" in buttons[0]
        assert [label.split()[-1] for label in buttons[1:]] == ["way", "b", "c"]
        await pilot.press(*"yes", "tab", *keys.split())
        await until(pilot, lambda: bool(talk.did))
        ((_, call, given),) = talk.did
        assert isinstance(given, Answer)
        assert (call, given.allowed, given.remember) == ("m", allowed, way)
        assert app.chat.input_area.prompt.text == "yes"


async def test_a_long_message_is_read_until_its_request_leaves() -> None:
    app, talk = staged(asked(1, "row\n" * 1_999))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.status.doing.startswith("reading 2,000 lines"))
        talk.announce(ev.ModelCalled(turn=1, call=1, model="m", prompt_hash="", tokens=9))
        await until(pilot, lambda: app.chat.status.doing.startswith("sent"))


async def test_once_a_tool_has_ended_the_model_is_waited_for() -> None:
    """A small model on a slow machine may think for minutes about what a tool found."""
    app, talk = staged(asked(1, "go"))
    async with app.run_test() as pilot:
        started, ended = tool(1, "c", "read", "a.txt", "port = 80")
        talk.announce(started)
        await until(pilot, lambda: app.chat.status.doing.startswith("running read"))
        talk.announce(ended)
        await until(pilot, lambda: app.chat.status.doing.startswith("sent"))


@pytest.mark.parametrize("keys", [("tab", "ctrl+c"), ("escape",)])
async def test_a_turn_that_asks_can_be_stopped_instead(keys: tuple[str, ...]) -> None:
    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(asked_in(app)))
        await until(pilot, lambda: app.chat.status.doing.endswith("esc twice stops"))
        await pilot.press(*keys)
        if keys == ("escape",):
            await escape_again(pilot)
        await until(pilot, lambda: talk.did == [("interrupt",)])


async def test_a_turn_that_is_taken_up_at_its_question_says_that_it_waits() -> None:
    """The question is shown first, then the turn that goes on with it."""
    app, talk = staged(WISH, asked(1, "go"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(asked_in(app) and app.chat.running))
        assert app.chat.status.doing.startswith("waits for your answer")
        talk.announce(ev.ModelCalled(turn=1, call=1, model="m", prompt_hash="", tokens=9))
        await pilot.pause()
        assert app.chat.status.doing.startswith("waits for your answer")


async def test_an_approval_shows_exactly_what_would_run() -> None:
    app, _ = staged(asked(1, "go"), WISH)
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(asked_in(app)))
        assert "git push⟦U+202E⟧ origin" in str(app.screen.query_one("#shown", Static).render())
        assert "+[/new]" in str(app.screen.query_one("#diff", Static).render())


@pytest.mark.parametrize("columns", [60, 80, 120, 160])
async def test_how_far_a_yes_reaches_is_read_to_its_end_however_long_its_name(
    columns: int,
) -> None:
    label = f"Allow write on {'/'.join(['packages'] * 11)}, always (kept in your settings)"
    wide = ev.AskedScope(scope="always", label=label, remember="write x", keep="config")
    wish = msgspec.structs.replace(WISH, scopes=(*WISH.scopes, wide))
    app, _ = staged(asked(1, "go"), wish)
    async with app.run_test(size=(columns, 40)) as pilot:
        await until(pilot, lambda: bool(asked_in(app)))
        await until(pilot, lambda: "(kept in your settings)" in " ".join(drawn(app).split()))


async def test_an_approval_shows_a_change_once_with_its_path_and_line_numbers() -> None:
    wish = msgspec.structs.replace(
        WISH,
        name="edit",
        shown=f"edit tests/a.py\n{CHANGE}",
        diff=CHANGE,
    )
    app, _ = staged(asked(1, "go"), wish)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "Allow edit to change this file?" in drawn(app))
        text = drawn(app)
        assert text.count("+new") == 1
        assert "8 -old" in text
        assert "8 +new" in text


async def test_an_approval_lists_each_part_of_a_command_and_names_the_worst() -> None:
    wish = msgspec.structs.replace(
        WISH,
        risk="run",
        diff="",
        shown="run ls && rm -rf build\nls && rm -rf build",
        worst="deletes",
        parts=(
            ev.AskedPart(text="ls", verdict="reads", reason="lists files"),
            ev.AskedPart(text="rm -rf build", verdict="deletes", reason="removes build"),
        ),
        scopes=(
            ev.AskedScope(scope="once", label="Allow once"),
            ev.AskedScope(scope="prefix", label="ls *, in this session", remember="shell ls *"),
        ),
    )
    app, _ = staged(asked(1, "go"), wish)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "ls *, in this session" in drawn(app))
        rows = drawn(app).splitlines()
        rows = rows[next(at for at, row in enumerate(rows) if "Run this shell" in row) :]
        assert sum("ls && rm -rf build" in row for row in rows) == 1
        assert any("Run this shell command?  deletes" in row for row in rows)
        assert any("deletes  rm -rf build  removes build" in row for row in rows)
        assert any("s  ls *, in this session" in row for row in rows)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_chat_is_read_above_the_question(size: tuple[int, int]) -> None:
    app, _ = staged(
        *said(1, "first", "One.\n\n" * 30),
        asked(2, "please push"),
        *streamed(2, "I will push now."),
        msgspec.structs.replace(WISH, turn=2),
    )
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: bool(asked_in(app)))

        def seen() -> bool:
            rows = drawn(app).splitlines()
            box = next(at for at, row in enumerate(rows) if "Allow shell" in row)
            return any("I will push now." in row for row in rows[:box])

        await until(pilot, seen)


async def test_a_question_goes_away_when_the_turn_ends_without_an_answer() -> None:
    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(asked_in(app)))
        talk.announce(ev.TurnEnded(turn=1, ending="interrupted"))
        await until(pilot, lambda: app.chat.input_area.decision is None)
        assert talk.did == []


PROPOSAL = ev.MemoryProposed(
    proposal="m1",
    path="memory/style.md",
    before="- short\n",
    after="- short\n- never twice\n",
    why="Said twice.",
    sources=(4, 9),
)


@pytest.mark.parametrize(
    ("key", "command"),
    [("y", "/memory approve m1"), ("n", "/memory refuse m1"), ("escape", ""), ("enter", "")],
)
async def test_a_memory_is_shown_as_a_diff_and_nothing_happens_without_a_decision(
    key: str, command: str
) -> None:
    app, talk = staged(asked(1, "go"), PROPOSAL)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert app.chat.input_area.decision is None
        await pilot.press("f6")
        await until(
            pilot,
            lambda: (
                isinstance(app.chat.input_area.decision, Proposed)
                and app.chat.input_area.decision.is_open
            ),
        )
        assert "+- never twice" in str(app.screen.query_one("#diff", Static).render())
        await pilot.press("f6", key)
        await until(pilot, lambda: app.chat.input_area.decision is None)
        assert talk.did == ([("command", command, key)] if command else [])


async def test_a_memory_that_is_decided_on_another_surface_is_not_offered_any_more() -> None:
    app, talk = staged(asked(1, "go"), PROPOSAL, msgspec.structs.replace(PROPOSAL, proposal="m2"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.chat.input_area.decision, Proposed))
        talk.announce(
            ev.EntryAppeared(
                entry="e",
                seq=9,
                kind="memory_decided",
                role="event",
                channel="web",
                turn=1,
                text="Memory m1 refused, on the page with click (“The port is 8790.”)",
                proposal="m1",
            )
        )
        await until(pilot, lambda: app.chat.input_area.decision is None)
        assert [one.proposal for one in app.chat.proposals] == ["m2"]
        await until(pilot, lambda: "Memory m1 refused, on the page" in drawn(app))


def on_shelf(home: Path, **more: object) -> tuple[AppHost, Shelf]:
    shelf = Shelf(home)
    given = msgspec.structs.replace(around(), library=shelf, **more)
    return given, shelf


PLAN = OpenQuestion(
    session="main",
    turn=1,
    kind="plan",
    call="plan",
    digest="d1",
    name="plan",
    shown="Paint\n1. blue",
    channel="tui",
    since="2026-11-18T10:00:00Z",
)


@pytest.mark.parametrize(
    ("left", "open_"),
    [
        ([], False),
        ([msgspec.structs.replace(PLAN, since="2026-11-18T11:00:00Z")], False),
        ([PLAN], True),
    ],
)
async def test_a_plan_that_was_refused_on_another_surface_is_not_asked_about_any_more(
    home: Path, left: list[OpenQuestion], open_: bool
) -> None:
    given, shelf = on_shelf(home)
    shelf.open = [PLAN]
    app, talk = staged(given=given)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.chat.input_area.decision, Proposed))
        shelf.open = left
        talk.announce(
            ev.EntryAppeared(
                entry="e",
                seq=9,
                kind="plan_changed",
                role="event",
                channel="web",
                turn=1,
                text="No.",
            )
        )
        await settle(pilot, talk)
        for looking in [one for one in app.workers if one.group == "asked"]:
            await looking.wait()
        assert (app.chat.input_area.decision is not None) is open_


async def test_the_picker_filters_names_and_searches_what_was_said(home: Path) -> None:
    given, shelf = on_shelf(home)
    app, talk = staged(given=given)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        rows = app.screen.query_one(OptionList)
        await until(pilot, lambda: rows.option_count == 3)
        await pilot.press(*"web")
        await until(pilot, lambda: shelf.asked == ["web"] and rows.option_count == 2)
        assert "  website " in str(rows.get_option_at_index(0).prompt)


async def test_the_picker_keeps_its_columns_apart_however_much_was_rewound(home: Path) -> None:
    class Rewound(Shelf):
        async def sessions(self, wanted: SessionFilter | None = None) -> Sequence[ListedSession]:
            first, *rest = await super().sessions(wanted)
            return [msgspec.structs.replace(first, turns=120, rewound=3), *rest]

    app, talk = staged(given=msgspec.structs.replace(around(), library=Rewound(home)))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        rows = app.screen.query_one(OptionList)
        await until(pilot, lambda: rows.option_count == 3)
        shown = [str(rows.get_option_at_index(at).prompt) for at in range(3)]
    assert "  120 turns (3 rewound)  How do we" in shown[0]
    ends = {line.index(" turns") + len(" turns") for line in shown[1:]}
    assert ends == {shown[0].index("  How do we")}


async def test_the_picker_takes_filters_among_its_words(home: Path) -> None:
    given, shelf = on_shelf(home)
    app, talk = staged(given=given)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        field = app.screen.query_one(Input)
        note = app.screen.query_one("#note", Static)
        field.value = "program:codex since:2026-01-01 port"
        wanted = SessionFilter(program="codex", since="2026-01-01")
        await until(pilot, lambda: shelf.wanted[-2:] == [wanted, wanted])
        assert shelf.asked == ["port"]
        facts = app.screen.query_one("#facts", Static)
        await until(pilot, lambda: "codex · api · (not here)" in str(facts.render()))
        assert "what we said about port" in str(facts.render())
        field.value = "since:2026-13"
        await until(pilot, lambda: "2026-13 is not a date" in str(note.render()))


async def test_picking_a_session_closes_this_one_and_opens_the_other(home: Path) -> None:
    opened: list[Staged] = []

    async def open_conversation(key: str) -> ev.Conversation:
        talk = Staged([msgspec.structs.replace(ready(), session=key or "agent:default:main")])
        opened.append(talk)
        return talk

    given, _ = on_shelf(home)
    app = MindstoneApp(open_conversation, given)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: bool(opened) and opened[0].settled)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        await until(pilot, lambda: app.screen.query_one(OptionList).option_count == 3)
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(opened) == 2 and opened[1].settled)
        assert ("close",) in opened[0].did
        assert app.chat.status.session == "agent:default:website"


async def test_what_is_typed_while_a_list_comes_up_by_itself_lands_in_the_prompt(
    home: Path,
) -> None:
    given, _ = on_shelf(home, offers="/work/api", decision_grace=1.0, clock=lambda: 5.0)
    app, talk = staged(given=given)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        await pilot.press("h", "i")
        await until(pilot, lambda: app.screen is app.chat)
        assert app.chat.input_area.prompt.text == "hi"
        assert talk.did == []


@pytest.mark.thorough
async def test_the_transcript_finds_any_line_and_reads_only_what_it_shows(home: Path) -> None:
    fill(home, 300)
    given, _ = on_shelf(home)
    app, talk = staged(*said(301, "now", "yes"), given=given)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(app.screen, TranscriptScreen))
        lines = app.screen.query_one(LineList)
        await until(pilot, lambda: (lines.number_at(lines.cursor) or 0) > 1_000)
        assert len(lines._pages) <= 4
        await pilot.press("slash", *"question 17", "enter")
        await until(pilot, lambda: (lines.number_at(lines.cursor) or 9_999) < 900)
        assert "Question 17" in str(app.screen.query_one("#whole", Static).render())
        await pilot.press("n")
        older = lines.cursor
        await pilot.press("home")
        await until(pilot, lambda: lines.cursor == 0)
        assert older > 0
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))


async def test_the_transcript_lists_messages_and_by_a_key_every_line(home: Path) -> None:
    fill(home, 12)
    given, _ = on_shelf(home)
    app, talk = staged(*said(13, "now", "yes"), given=given)
    async with app.run_test(size=(120, 50)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(app.screen, TranscriptScreen))
        lines = app.screen.query_one(LineList)
        await until(pilot, lambda: lines.rows > 0)
        kinds = {
            line.kind for row in range(lines.rows) if isinstance(line := lines.line_at(row), Line)
        }
        assert kinds == {"user_message", "assistant_message", "tool_returned"}
        rows = [strip.text for strip in app.screen._compositor.render_strips()]
        assert any("line  when" in row for row in rows)
        assert sum("20" in row[10:14] and "-" in row[10:20] for row in rows) == 1, "the day once"
        here = lines.number_at(lines.cursor)
        few = lines.rows
        await pilot.press("a")
        await until(pilot, lambda: lines.rows > few)
        assert lines.cursor == here
        await pilot.press("a")
        await until(pilot, lambda: lines.rows == few)
        assert lines.number_at(lines.cursor) == here


async def test_a_turn_in_the_transcript_can_be_restored_and_pinned(home: Path) -> None:
    fill(home, 5)
    given, _ = on_shelf(home)
    app, talk = staged(ev.ScreenAsked(screen="transcript", argument="turn 3"), given=given)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TranscriptScreen))
        await until(pilot, lambda: bool(str(app.screen.query_one("#whole", Static).render())))
        await pilot.press("r", "p")
        await until(pilot, lambda: len(talk.did) == 2)
        assert talk.did == [("command", "/restore turn 3"), ("command", "/pin turn 3")]


async def test_a_turn_of_the_open_session_begins_a_fork(home: Path) -> None:
    fill(home, 5)
    given, _ = on_shelf(home)
    app, talk = staged(given=msgspec.structs.replace(given, at="turn 3"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TranscriptScreen))
        await until(pilot, lambda: bool(str(app.screen.query_one("#whole", Static).render())))
        await pilot.press("o", "f")
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        assert talk.did == [("command", "/fork turn 3")]


async def test_a_turn_of_another_session_is_forked_after_that_one_was_opened(home: Path) -> None:
    other = "agent:default:website"
    fill(home, 1)
    fill(home, 3, other)
    given, _ = on_shelf(home)
    talks = [
        Staged([ready(), ev.ScreenAsked(screen="transcript", argument=f"{other} turn 2")]),
        Staged([msgspec.structs.replace(ready(), session=other)]),
    ]
    opened: list[str] = []

    async def open_conversation(key: str) -> ev.Conversation:
        opened.append(key)
        return talks[len(opened) - 1]

    app = MindstoneApp(open_conversation, given)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TranscriptScreen))
        await until(pilot, lambda: bool(str(app.screen.query_one("#whole", Static).render())))
        await pilot.press("r", "p", "f")
        await until(pilot, lambda: bool(talks[1].did))
        assert opened[-1] == other
        assert talks[0].did == [("close",)]
        assert talks[1].did == [("command", "/fork turn 2")]


async def found() -> list[ModelChoice]:
    return [
        ModelChoice(name="ollama/qwen3", note="on this machine", window=40_960),
        ModelChoice(name="local/guide"),
    ]


async def test_other_models_are_offered_and_taken_only_when_chosen() -> None:
    async def some() -> list[ModelChoice]:
        closed = ModelChoice(name="openai/gpt", note="no key", usable=False)
        return [ModelChoice(name="local/guide"), *await found(), closed]

    app, talk = staged(given=msgspec.structs.replace(around(), models=some))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        welcome = app.screen.query_one(Welcome)
        await until(pilot, lambda: len(welcome.steps) == 1)
        assert welcome.steps[0].argument == "ollama/qwen3", "neither itself nor one without a key"
        assert talk.did == []
        await pilot.press("tab")
        await until(pilot, lambda: app.focused is welcome.query_one(OptionList))
        await pilot.press("enter")
        await until(pilot, lambda: talk.did == [("command", "/model ollama/qwen3")])


class FirstSteps:
    """A `Setup` that remembers what it was told."""

    providers = (("anthropic", "anthropic/claude-sonnet-4-5"), ("azure", ""))
    download = Download(
        name="local/qwen-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct",
        bytes=1_117_320_768,
        memory=1_734_761_280,
        licence="Apache 2.0",
        skills="answers from what it recalls and uses tools",
        sources=(),
        window=32_768,
    )

    def __init__(self) -> None:
        self.did: list[tuple[str, ...]] = []
        self.refuses = ""
        self.progress: list[Callable[[int, int], None]] = []
        self.complete = asyncio.Event()
        self.lies_here: list[Elsewhere] = []

    def downloadable(self, name: str) -> Download:
        return self.download

    def fetched(self) -> bool:
        return False

    async def add_key(self, provider: str, secret: str, model: str, base_url: str) -> str:
        self.did.append((provider, secret, model, base_url))
        if self.refuses:
            raise ProviderRefused(self.refuses, "Copy it again.")
        return model or "openai/first"

    async def fetch(
        self, name: str, progress: Callable[[int, int], None], tell: Callable[[str], None]
    ) -> str:
        self.progress.append(progress)
        progress(self.download.bytes // 2, self.download.bytes)
        tell("It comes from somewhere else.")
        await self.complete.wait()
        return "local/qwen-coder-1.5b"

    async def elsewhere(self) -> Sequence[Elsewhere]:
        return self.lies_here

    async def take_in(self, progress: Callable[[int, int], None]) -> str:
        self.progress.append(progress)
        progress(1, 2)
        await self.complete.wait()
        self.lies_here.clear()
        return "2 sessions, 12 messages taken in."

    async def sample(self) -> str:
        return "agent:sample:tidewatch"


def newcomer() -> tuple[MindstoneApp, Staged, FirstSteps]:
    setup = FirstSteps()
    app, talk = staged(given=msgspec.structs.replace(around(), setup=setup))
    return app, talk, setup


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_newcomer_is_offered_three_things_by_one_key_each(size: tuple[int, int]) -> None:
    app, talk, _ = newcomer()
    async with app.run_test(size=size) as pilot:
        await settle(pilot, talk)
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        for step in ("F7  Try the sample session", "F9  Add an API key", "F10 Download a model"):
            assert step in text
        await pilot.press("w")
        assert app.chat.input_area.prompt.text == "w", "a letter begins a message"


async def test_the_sample_session_opens_with_a_question_that_typing_replaces() -> None:
    opened: list[str] = []
    setup = FirstSteps()

    async def open_conversation(key: str) -> ev.Conversation:
        opened.append(key)
        return Staged([ready(turns=0)])

    app = MindstoneApp(open_conversation, msgspec.structs.replace(around(), setup=setup))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.talk is not None)
        await pilot.press("f7")
        await until(pilot, lambda: opened[-1:] == ["agent:sample:tidewatch"])
        await until(pilot, lambda: "port" in app.chat.input_area.prompt.text)
        await pilot.press("w", "h", "y")
        assert app.chat.input_area.prompt.text == "why"


async def test_a_key_is_entered_unseen_tried_at_once_and_used() -> None:
    app, talk, setup = newcomer()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f9")
        await until(pilot, lambda: isinstance(app.screen, ChooseScreen))
        await pilot.press(*"anth", "enter")
        await until(pilot, lambda: isinstance(app.screen, KeyScreen))
        setup.refuses = "The provider refused the key."
        app.screen.query_one("#key").focus()
        await pilot.press(*"sk-secret", "enter")
        await until(pilot, lambda: bool(setup.did))
        await pilot.pause()
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "refused the key. Copy it again." in text
        assert "sk-secret" not in text
        assert setup.did == [("anthropic", "sk-secret", "anthropic/claude-sonnet-4-5", "")]
        setup.refuses = ""
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        await until(pilot, lambda: ("close",) in talk.did)


async def test_a_server_of_ones_own_needs_its_address_alone() -> None:
    app, talk, setup = newcomer()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f9")
        await until(pilot, lambda: isinstance(app.screen, ChooseScreen))
        await pilot.press(*"server", "enter")
        await until(pilot, lambda: isinstance(app.screen, KeyScreen))
        await pilot.press("enter")
        assert setup.did == []
        setup.refuses = "It does not say which models it has."
        await pilot.press(*"http://127.0.0.1:9", "enter", "enter", "enter")
        await until(pilot, lambda: setup.did == [("openai", "", "", "http://127.0.0.1:9")])
        # What is missing is the model's name: it can be typed at once, and not into the key.
        await until(pilot, lambda: app.focused is app.screen.query_one("#model"))
        setup.refuses = ""
        await pilot.press(*"m1", "enter")
        own = ("openai", "", "openai/m1", "http://127.0.0.1:9")
        await until(pilot, lambda: setup.did[-1] == own)


async def test_a_model_is_downloaded_in_view_and_then_used() -> None:
    app, talk, setup = newcomer()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("f10")
        await until(pilot, lambda: isinstance(app.screen, LongTaskScreen))
        assert not setup.progress, "nothing is fetched before Enter"
        await pilot.press("enter")
        await until(pilot, lambda: bool(setup.progress))
        await until(pilot, lambda: app.screen.query_one(ProgressBar).percentage == 0.5)
        note = app.screen.query_one("#note", Static)
        await until(pilot, lambda: "from somewhere else. Esc stops" in str(note.render()))
        setup.complete.set()
        await until(pilot, lambda: talk.did == [("command", "/model local/qwen-coder-1.5b")])


def kept(program: str, *ages: int) -> Elsewhere:
    """What a program keeps on this machine, by how many days old each file is."""
    now = time.time()
    files = tuple(
        SessionFile(Path(f"/home/ada/{program}/{at}.jsonl"), 2_000_000, now - 86_400 * age)
        for at, age in enumerate(ages)
    )
    there = ProgramFiles(program=program, folder=Path(f"/home/ada/{program}"), files=files)
    return Elsewhere(there, files, 30 if program == "claude-code" else 0)


async def test_what_other_agents_keep_here_is_offered_first_and_taken_in_in_view() -> None:
    app, talk, setup = newcomer()
    setup.lies_here = [kept("claude-code", 1, 26), kept("codex", 3)]
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot, talk)
        await until(pilot, lambda: "Take in past sessions" in drawn(app))
        steps = app.screen.query_one(Welcome).steps
        assert (steps[0].screen, steps[0].note) == (
            "elsewhere",
            "2 files of Claude Code, 1 file of Codex CLI",
        )
        await pilot.press("tab", "enter")
        await until(pilot, lambda: isinstance(app.screen, LongTaskScreen))
        await until(pilot, lambda: "Codex CLI: 1 session file, 2.0 MB" in drawn(app))
        assert "Claude Code: 2 session files, 4.0 MB; it deletes 1 of them soon" in drawn(app)
        assert not setup.progress, "nothing is read before Enter"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.query_one(ProgressBar).percentage == 0.5)
        setup.complete.set()
        await until(pilot, lambda: "12 messages taken in" in drawn(app))
        await until(pilot, lambda: "Take in past sessions" not in drawn(app))


async def test_the_model_picker_switches_by_command() -> None:
    app, talk = staged(given=msgspec.structs.replace(around(), models=found))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, ChooseScreen))
        await pilot.press(*"qw", "enter")
        await until(pilot, lambda: talk.did == [("command", "/model ollama/qwen3")])


async def test_help_is_made_from_the_bindings_and_the_registry() -> None:
    given = msgspec.structs.replace(
        around(), settings=msgspec.structs.replace(around().settings, keys={"chat.panel": "f9"})
    )
    app, talk = staged(given=given)
    async with app.run_test(size=(120, 60)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        text = "\n".join(str(each.render()) for each in app.screen.query(Static))
        for command in COMMANDS:
            assert f"/{command.name}" in text
            assert command.help in text
        panel = next(line for line in text.splitlines() if "chat.panel" in line)
        assert "F9" in panel


def _chosen(rows: OptionList) -> str:
    """What stands in the highlighted row."""
    option = rows.highlighted_option
    return "" if option is None else str(option.prompt)


async def test_the_palette_finds_commands_and_types_those_that_need_more() -> None:
    app, talk = staged()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"/restore")
        found = app.screen.query_one(OptionList)
        await until(pilot, lambda: "/restore" in _chosen(found))
        await pilot.press("enter")
        await until(pilot, lambda: app.chat.input_area.prompt.text == "/restore ")


async def test_the_app_can_be_asked_for_things_by_name_and_suggests_the_nearest() -> None:
    app, talk = staged(*said(1, "q", "first"), *said(2, "q", "```py\nx\n```"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await app.navigator.open("copy")
        assert app.clipboard == "```py\nx\n```"
        await app.navigator.open("copy", "2")
        assert app.clipboard == "first"
        await app.navigator.open("copy", "code")
        assert app.clipboard == "x"
        await app.navigator.open("copy", "all")
        assert app.clipboard == "> q\n\nfirst\n\n> q\n\n```py\nx\n```"
        talk.announce(ev.ScreenAsked(screen="contex"))
        await settle(pilot, talk)
        await until(pilot, lambda: len(app._notifications) > 0)
        assert any("context" in note.message for note in app._notifications)


async def test_code_is_copied_by_a_click_on_its_corner_and_text_by_selecting_it() -> None:
    text = "Look:\n\n```py\nx = 1\n```"
    app, talk = staged(asked(1, "q"), *streamed(1, text))
    async with app.run_test(size=(60, 20)) as pilot:
        await settle(pilot, talk)
        prose = app.screen.query_one("Prose")
        row = prose.region.y + 2
        corner = next(
            x for x in range(prose.region.right) if "copy" in app.screen.get_style_at(x, row).meta
        )
        await pilot.click(offset=(corner, row))
        await until(pilot, lambda: app.clipboard == "x = 1")
        start = (prose.content_region.x, prose.region.y)
        await pilot.mouse_down(offset=start)
        await pilot.hover(offset=(start[0] + 4, start[1]))
        await pilot.mouse_up(offset=(start[0] + 4, start[1]))
        await until(pilot, lambda: app.clipboard.startswith("Look"))


async def test_a_long_turn_rings_only_while_nobody_looks() -> None:
    app, talk = staged(given=around(notify_after=0.0))
    rung: list[str] = []
    app.bell = lambda: rung.append("bell")  # type: ignore[method-assign]
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        talk.announce(*said(1, "q", "a"))
        await settle(pilot, talk)
        assert rung == []
        app.app_focus = False
        talk.announce(*said(2, "q", "a"))
        await settle(pilot, talk)
        await until(pilot, lambda: rung == ["bell"])


async def test_an_approval_that_waits_rings_only_while_nobody_looks() -> None:
    app, talk = staged(given=around(notify_after=1_000.0))
    rung: list[str] = []
    app.bell = lambda: rung.append("bell")  # type: ignore[method-assign]
    question = ev.ToolAsked(
        turn=1, call="c1", name="shell", risk="run", shown="run make", digest="d"
    )
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        app.app_focus = False
        talk.announce(ev.TurnStarted(turn=1, entry="e", text="q"), question)
        await until(pilot, lambda: rung == ["bell"])


async def test_the_file_that_a_call_changed_is_blamed_from_its_line(home: Path) -> None:
    fill(home, 1)
    transcript = transcript_in(home, SESSION)
    turn = use_tool(transcript, "Write it.", "written", "Done.")
    change = FileChange(path="src/a b.py", after=f"file 644 {'0' * 64}")
    entry = FilesChanged(
        call=f"call_{turn}",
        name="write",
        root="/srv",
        total=1,
        changes=(change,),
        manifest="0" * 64,
    )
    transcript.append(entry, turn=turn)
    transcript.close()
    given, _ = on_shelf(home)
    app, talk = staged(ev.ScreenAsked(screen="transcript", argument=f"turn {turn}"), given=given)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TranscriptScreen))
        await until(pilot, lambda: bool(str(app.screen.query_one("#whole", Static).render())))
        await pilot.press("b")
        await pilot.pause()
        assert talk.did == [], "a question changes no file"
        lines = app.screen.query_one(LineList)
        await until(pilot, lambda: isinstance(lines.line_at(lines.cursor), Line))
        while getattr(lines.line_at(lines.cursor), "kind", "") != "tool_returned":
            await pilot.press("down")
        await pilot.press("b")
        await until(pilot, lambda: bool(talk.did))
        assert talk.did == [("command", "/blame /srv/src/a b.py")]
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))


@pytest.mark.parametrize("width", [80, 120])
async def test_the_app_names_the_folder_it_works_in_where_the_person_started_in_another(
    width: int,
) -> None:
    host = msgspec.structs.replace(around(), elsewhere="api")
    app, talk = staged(given=host)
    async with app.run_test(size=(width, 24)) as pilot:
        await until(pilot, lambda: talk.settled and " in api" in drawn(app))
