"""Writing a message: lines, history, completion, pastes, vim keys."""

from __future__ import annotations

import os
import pty
import select
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from mindstone_tui.core import events as ev
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events import Attachment
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript.directory import said_in
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.host import CommandHelp
from mindstone_tui.tui.prompt.completion import complete, names_below, ranked
from mindstone_tui.tui.prompt.paste import Pastes
from mindstone_tui.tui.terminal import PasteParser, typed_ahead
from mindstone_tui.tui.widgets.base import FoldTitle
from tests.core.session.stage import on_stage, script
from tests.tui.shelf import Shelf
from tests.tui.staged import (
    COMMANDS,
    SESSION,
    Staged,
    around,
    asked,
    done,
    drawn,
    said,
    settle,
    staged,
    tool,
    until,
)


def prompt_of(app: MindstoneApp) -> str:
    return app.chat.input_area.prompt.text


async def paste(pilot: Pilot[int], app: MindstoneApp, text: str) -> None:
    app.chat.input_area.prompt.post_message(events.Paste(text))
    await pilot.pause()


async def test_new_lines_come_from_their_own_keys_and_from_a_backslash() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("a", "ctrl+j", "b", "backslash", "enter", "c")
        assert prompt_of(app) == "a\nb\nc"
        await pilot.press("enter")
        await pilot.pause()
        assert talk.did == [("send", "a\nb\nc", (), False)]


async def test_keys_that_arrive_at_once_are_taken_in_their_order() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        keys = [*"ab", "ctrl+j", "c", "x", "backspace", "d", "enter", *"next"]
        for key in keys:  # as a terminal sends what was typed ahead: nobody waits in between
            character = key if len(key) == 1 else {"enter": "\r", "ctrl+j": "\n"}.get(key)
            app.post_message(events.Key(key, character))
        await until(pilot, lambda: prompt_of(app) == "next" and bool(talk.did))
        assert talk.did == [("send", "ab\ncd", (), False)]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_an_escape_within_a_paste_makes_no_keys_of_it(size: int) -> None:
    said = "\x1b[200~a \x1b[31mred\x1b[0m\r!rm -rf x\r\x1b\x1bOP\x1b[201~b\x1b[200~\x1b[201~c\r"
    parser = PasteParser()
    heard = [
        event for at in range(0, len(said), size) for event in parser.feed(said[at : at + size])
    ]
    pasted = [event.text for event in heard if isinstance(event, events.Paste)]
    keys = [event.key for event in heard if isinstance(event, events.Key)]
    assert pasted[0] == "a red\r!rm -rf x\rOP"
    assert keys == ["b", "c", "enter"]


def test_what_is_pasted_is_taken_whole_and_not_letter_by_letter() -> None:
    seen: list[object] = []

    class Watched(PasteParser):
        def debug_log(self, *args: object) -> None:
            seen.extend(args)

    text = "2026-01-01 the stone\x00 rolls on\r" * 30_000
    said, parser = f"\x1b[200~{text}\x1b[201~", Watched()
    heard = [
        event for at in range(0, len(said), 4096) for event in parser.feed(said[at : at + 4096])
    ]
    assert [event.text for event in heard if isinstance(event, events.Paste)] == [
        text.replace("\x00", "")
    ]
    assert len(seen) < 100  # it would be a million, and nothing else runs meanwhile


async def test_a_burst_of_letters_typed_on_a_row_arrives_whole() -> None:
    app, talk = staged(*said(1, "q", "the answer"), *tool(1, "c", "read", "read a", "text"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        app.screen.query_one(FoldTitle).focus()
        await pilot.pause()
        for letter in "wellthen":
            app.post_message(events.Key(letter, letter))
        await until(pilot, lambda: prompt_of(app) == "wellthen")


async def test_a_letter_with_alt_is_a_key_and_not_a_letter() -> None:
    app, talk = staged(*said(1, "q", "the answer"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        for key in ("alt+c", "alt+y"):  # terminals send the letter along
            app.post_message(events.Key(key, key[-1]))
        await until(pilot, lambda: app.clipboard == "the answer")
        assert prompt_of(app) == ""


async def test_lines_pasted_as_terminals_paste_them_stay_lines() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await paste(pilot, app, "one\rtwo\r\nthree\nfour")
        assert prompt_of(app) == "one\ntwo\nthree\nfour"
        await pilot.press("ctrl+c")
        await paste(pilot, app, "\r".join(map(str, range(240))))
        assert prompt_of(app) == "[pasted 240 lines #1]"


async def test_the_arrows_walk_through_what_was_said_and_back_to_the_draft() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"one", "enter", *"two", "enter", *"draft")
        await pilot.press("up")
        assert prompt_of(app) == "two"
        await pilot.press("up", "up")
        assert prompt_of(app) == "one"
        await pilot.press("down", "down")
        assert prompt_of(app) == "draft"


async def test_undo_brings_back_what_was_there() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"keep this", "ctrl+u")
        assert prompt_of(app) == ""
        await pilot.press("ctrl+z")
        assert prompt_of(app) == "keep this"


async def test_wide_characters_are_written_and_deleted_whole() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await paste(pilot, app, "石は覚えている 🪨")
        await pilot.press("backspace")
        assert prompt_of(app) == "石は覚えている "
        await pilot.press("enter")
        assert talk.did == [("send", "石は覚えている ", (), False)]


async def test_a_long_paste_is_a_sign_that_is_sent_in_full_and_can_be_opened() -> None:
    text = "\n".join(f"line {n}" for n in range(240))
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"see ")
        await paste(pilot, app, text)
        assert prompt_of(app) == "see [pasted 240 lines #1]"
        await pilot.press("enter")
        assert talk.did == [("send", f"see {text}", (), False)]
        await paste(pilot, app, text)
        await pilot.press("ctrl+o")
        assert prompt_of(app) == text


async def test_a_short_paste_is_itself_without_control_bytes() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await paste(pilot, app, "a\x1b[2Jb\x07")
        assert not [sign for sign in prompt_of(app) if ord(sign) < 32]


@pytest.mark.parametrize("ending", ["\r", "\r\n", "\n"])
async def test_a_paste_keeps_its_lines_however_the_terminal_ends_them(ending: str) -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await paste(pilot, app, ending.join("abc"))
        assert prompt_of(app) == "a\nb\nc"
        await pilot.press("enter")
        await paste(pilot, app, ending.join(["x"] * 240))
        assert prompt_of(app) == "[pasted 240 lines #1]"
        await pilot.press("enter")
        sent = [done[1] for done in talk.did]
        assert sent == ["a\nb\nc", "\n".join(["x"] * 240)]


async def test_a_picture_dropped_on_the_terminal_goes_with_the_message(tmp_path: Path) -> None:
    picture = tmp_path / "a picture.png"
    picture.write_bytes(b"\x89PNG")
    app, talk = staged(given=around(tmp_path))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await paste(pilot, app, f"'{picture}'")
        assert prompt_of(app) == "[image a picture.png #1]"
        await pilot.press("enter")
        assert talk.did == [("send", "[image a picture.png #1]", ("a picture.png",), False)]


async def test_slash_completes_commands_and_their_words() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("slash", "c", "o", "n")
        assert app.chat.input_area.completions.has_class("-open")
        await pilot.press("tab")
        assert prompt_of(app) == "/context "
        await pilot.press("ctrl+u", *"/theme ch", "enter")
        assert prompt_of(app) == "/theme chalk "
        await pilot.press("enter")
        await pilot.pause()
        assert talk.did == [("command", "/theme chalk")]


async def test_the_menu_puts_usual_commands_first_and_explains_the_chosen_one() -> None:
    commands = (
        CommandHelp(name="zebra", help="Rare."),
        CommandHelp(name="pin", usage="[ID | turn N]", help="Keep an exchange.", details="Until…"),
        CommandHelp(name="help", help="List commands."),
    )
    app, talk = staged(given=msgspec.structs.replace(around(), commands=lambda: commands))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("slash")
        await pilot.pause()
        offers = app.chat.input_area.completions.completion
        assert offers is not None
        assert [offer.label for offer in offers.offers] == ["/help", "/pin", "/zebra"]
        await pilot.press("down")
        await pilot.pause()
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "/pin [ID | turn N]" in text
        assert "Keep an exchange. Until…" in text


async def test_a_whole_command_is_sent_by_the_first_enter() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"/quit", "enter")
        await pilot.pause()
        assert talk.did == [("command", "/quit")]


async def test_escape_closes_the_completions_and_does_not_interrupt() -> None:
    app, talk = staged(asked(1, "go"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("slash", "escape")
        await pilot.pause()
        assert not app.chat.input_area.completions.has_class("-open")
        assert talk.did == []


@pytest.mark.parametrize("typed", ["/context", "/quit", "/restore turn 7"])
async def test_a_command_typed_at_once_is_sent_by_the_first_enter(typed: str) -> None:
    """The list of completions lags behind quick fingers, and must not swallow their Enter."""
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*typed[:3])
        await until(pilot, lambda: app.chat.input_area.completions.has_class("-open"))
        for letter in typed[3:]:
            app.post_message(events.Key({" ": "space"}.get(letter, letter), letter))
        app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: bool(talk.did))
        assert talk.did == [("command", typed)]


async def test_an_at_sign_completes_files(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "journal.py").touch()
    (tmp_path / "notes.md").touch()
    app, talk = staged(given=around(tmp_path))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"read @jour")
        await until(pilot, lambda: app.chat.input_area.completions.has_class("-open"))
        await pilot.press("tab")
        assert prompt_of(app) == "read @src/journal.py "


async def test_ctrl_c_clears_then_stops() -> None:
    app, talk = staged(asked(1, "go"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"oops", "ctrl+c")
        assert prompt_of(app) == ""
        assert talk.did == []
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert talk.did == [("interrupt",)]


async def test_ctrl_c_twice_quickly_leaves_and_what_is_unsent_is_kept() -> None:
    now = [100.0]
    host = msgspec.structs.replace(around(), clock=lambda: now[0])
    app, talk = staged(given=host)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("ctrl+c")
        now[0] += 5  # too late to be the second of two
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.is_running
        assert any("Ctrl+C again" in one.message for one in app._notifications)
        now[0] += 5
        await pilot.press(*"half a thought", "ctrl+c")
        now[0] += 0.5
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)
    assert app.unsent == "half a thought"


async def test_escape_twice_in_an_empty_prompt_picks_a_message_to_go_back_to() -> None:
    now = [100.0]
    host = msgspec.structs.replace(around(), clock=lambda: now[0])
    said_there = ev.EntryAppeared(
        entry="e", seq=9, kind="user_message", role="user", channel="web", turn=2, text="second"
    )
    app, talk = staged(
        asked(1, "first"), done(1), said_there, asked(3, "third"), done(3), given=host
    )
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"some", "escape", "escape")
        assert (app.screen, prompt_of(app)) == (app.chat, "some"), "the prompt is not empty"
        await pilot.press("ctrl+c", "escape")
        now[0] += 5
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.chat, "that was not quick"
        for _ in range(2):  # held down: one picker, and what is left over counts as one key
            app.post_message(events.Key("escape", "\x1b"))
        await until(pilot, lambda: app.screen is not app.chat and "third" in drawn(app))
        assert len(app.screen_stack) == 2
        now[0] += 40
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.screen is app.chat)
        line = "/rewind before turn 2"
        assert talk.did == [("command", line, "picked in the list")]
        assert talk.writing == [40], "it means no turn that came while the list was open"
        assert prompt_of(app) == "", "nothing was gone back to so far"
        talk.announce(ev.CommandEnded(command=line, ok=True))
        await until(pilot, lambda: prompt_of(app) == "second")
        await pilot.press("enter")
        assert len(talk.did) == 1, "a second Enter was meant for the list"
        app.chat.input_area.to_write[line] = "third"
        talk.announce(ev.CommandEnded(command=line, ok=False))
        await settle(pilot, talk)
        assert prompt_of(app) == "second"


async def test_ctrl_c_means_the_same_wherever_the_focus_is() -> None:
    app, talk = staged(asked(1, "go"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        app.screen.set_focus(app.chat.conversation)
        await pilot.press("ctrl+c")
        assert talk.did[-1][0] == "interrupt"


async def test_a_message_can_steer_the_running_turn() -> None:
    app, talk = staged(asked(1, "go"))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"left", "alt+enter")
        await pilot.pause()
        assert talk.did == [("send", "left", (), True)]


VIM = (
    ("0dw", "one two", "two"),
    ("0x", "abc", "bc"),
    ("dd", "one\ntwo", "one\n"),
    ("ggdd", "one\ntwo", "two"),
    ("0D", "abc", ""),
    ("0ciX", "abc", "abc"),
    ("0iX", "abc", "Xabc"),
    ("AX", "abc", "abcX"),
    ("bcwX", "one two", "one X"),
    ("0xu", "abc", "abc"),
    ("0dwp", "one two", "one two"),
    ("oX", "abc", "abc\nX"),
    ("OX", "abc", "X\nabc"),
)
"""Keys in normal mode, with what stands in the prompt before and after them."""


async def test_vim_keys() -> None:
    app, talk = staged(given=around(vim=True))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        for keys, before, after in VIM:
            prompt = app.chat.input_area.prompt
            prompt.clear()
            prompt.write(before)
            await pilot.press("escape", *keys)
            assert prompt_of(app) == after, keys
            await pilot.press("i", "escape", "i")  # the next begins in insert mode again


async def test_vim_sends_from_normal_mode() -> None:
    app, talk = staged(given=around(vim=True))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"go", "escape", "enter")
        await pilot.pause()
        assert ("send", "go", (), False) in talk.did


def test_names_are_ranked_prefix_first_then_runs_then_letters_in_order() -> None:
    names = ["scratch", "context", "compact", "a/cost.py", "x"]
    assert ranked("co", names) == ["compact", "context", "a/cost.py"]
    assert ranked("cat", names)[0] == "compact"
    assert ranked("", names) == names


def test_nothing_is_offered_inside_plain_words() -> None:
    assert complete("a/b", 3, first_line=True, commands=COMMANDS, files=["b"]) is None
    assert complete("mail me@x", 9, first_line=True, commands=COMMANDS, files=["x"]) is None
    assert complete("/pin", 4, first_line=False, commands=COMMANDS, files=[]) is None


def test_a_file_with_a_blank_in_its_name_is_quoted() -> None:
    found = complete("@my", 3, first_line=True, commands=[CommandHelp(name="x")], files=["my file"])
    assert found is not None
    assert found.offers[0].insert == '@"my file" '


def test_file_names_leave_out_clutter_and_stay_bounded(tmp_path: Path) -> None:
    for name in ("a.py", ".hidden", "node_modules/x.js", "src/b.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert names_below(tmp_path) == ["a.py", "src/", "src/b.py"]
    assert len(names_below(tmp_path, most=2)) == 2


def test_a_sign_typed_by_hand_is_only_text(tmp_path: Path) -> None:
    assert Pastes(tmp_path).unfold("[pasted 3 lines #1]") == "[pasted 3 lines #1]"


def test_staged_conversations_fulfil_the_contract() -> None:
    from mindstone_tui.core.events import Conversation

    talk: Conversation = Staged()
    assert talk is not None


def test_files_go_with_a_message_by_name_or_dropped(tmp_path: Path) -> None:
    for name in ("a.wav", "b.png", "c d.txt"):
        (tmp_path / name).write_bytes(b"x")
    pastes = Pastes(tmp_path)
    sound = pastes.fold(f"'{tmp_path}/a.wav'")
    assert sound == "[sound a.wav #1]"
    dropped = pastes.fold(f"file://{tmp_path}/b.png")
    assert pastes.fold(str(tmp_path / "c d.txt")) == str(tmp_path / "c d.txt"), "a path is a path"
    said = f'{sound} {dropped} @b.png @"c d.txt" @gone.txt mail@example.org'
    names = [path.name for path in pastes.files_in(said)]
    assert names == ["a.wav", "b.png", "b.png", "c d.txt"]


class Refusing(Staged):
    """A conversation that takes no attachment."""

    def send(
        self, text: str, *, attachments: Sequence[Attachment] = (), steer: bool = False
    ) -> None:
        raise UsageError("a.bin is neither text nor a picture.", "Attach text.")


async def test_a_message_whose_attachment_is_refused_goes_back_to_the_prompt() -> None:
    app, _ = staged()
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.talk is not None)
        app.chat.talk = Refusing()
        app.chat.input_area.prompt.write("look at @a.bin")
        await pilot.press("enter")
        await until(pilot, lambda: app.chat.input_area.prompt.text == "look at @a.bin")
        assert any("neither text" in each.message for each in app._notifications)


def test_enter_typed_before_the_app_owns_the_terminal_is_enter() -> None:
    keyboard, own = pty.openpty()
    try:
        os.write(keyboard, "grüße\rzwei\r".encode() + b"\x1b[18~half")
        select.select([own], [], [], 10)
        assert typed_ahead(own) == "grüße\rzwei\r\x1b[18~half"
        os.write(keyboard, b"\nnow\r")
        select.select([own], [], [], 10)
        assert typed_ahead(own) == "\nnow\r"  # from here on Ctrl+J is Ctrl+J again
    finally:
        os.close(keyboard)
        os.close(own)


async def test_enter_within_a_burst_sends_what_was_typed_before_it() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        app.chat.set_focus(None)
        for key in (*"one", "enter", *"two", "enter"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: len(talk.did) == 2)
        assert [did[1] for did in talk.did] == ["one", "two"]


@pytest.mark.parametrize(
    ("pasted", "typed", "did"),
    [
        ("!rm -rf x", "", ("send", "!rm -rf x", (), False)),
        ("  !rm -rf x\nand more", "", ("send", "  !rm -rf x\nand more", (), False)),
        ("!rm -rf x\n" * 9, "", ("send", "!rm -rf x\n" * 9, (), False)),
        (
            "/usr/lib: not found\nat line 3",
            "",
            ("send", "/usr/lib: not found\nat line 3", (), False),
        ),
        ("/plan approve", "", ("command", "/plan approve")),
        ("ls -l", "!", ("command", "/shell ls -l")),
        ("yes", "", ("send", "yes", (), False)),
    ],
)
async def test_only_a_typed_exclamation_mark_runs_something(
    pasted: str, typed: str, did: tuple[object, ...]
) -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*typed)
        await paste(pilot, app, pasted)
        assert app.chat.input_area.prompt.has_class("-shell") == bool(typed)
        await pilot.press("enter")
        await until(pilot, lambda: bool(talk.did))
        assert talk.did == [did]


async def test_a_message_like_a_command_is_one_again_when_it_is_taken_up() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await paste(pilot, app, "!make")
        await pilot.press("enter", "up", "enter")
        await until(pilot, lambda: len(talk.did) == 2)
        assert talk.did == [("send", "!make", (), False)] * 2
        await pilot.press("up", "ctrl+a", "delete", "!", "enter")  # the mark is typed now
        await until(pilot, lambda: len(talk.did) == 3)
        assert talk.did[2] == ("command", "/shell make")


async def test_what_was_not_sent_is_in_the_prompt_at_the_next_start(home: Path) -> None:
    shelf = Shelf(home)
    host = msgspec.structs.replace(around(), library=shelf, session=SESSION, clock=lambda: 100.0)
    app, talk = staged(given=host)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"half a thought", "ctrl+c", "ctrl+c")
        await until(pilot, lambda: bool(shelf.kept))
    assert shelf.kept == {SESSION: "half a thought"}
    again, talk = staged(given=host)
    async with again.run_test() as pilot:
        await until(pilot, lambda: prompt_of(again) == "half a thought")
        await pilot.press("enter")
        await until(pilot, lambda: ("send", "half a thought", (), False) in talk.did)
        await until(pilot, lambda: shelf.kept == {SESSION: ""})


async def test_what_is_taken_up_again_is_never_a_command(home: Path) -> None:
    shelf = Shelf(home)
    shelf.kept[SESSION] = "!rm -rf build"
    host = msgspec.structs.replace(around(), library=shelf, session=SESSION)
    app, talk = staged(given=host)
    async with app.run_test() as pilot:
        await until(pilot, lambda: prompt_of(app) == "!rm -rf build")
        await pilot.press("enter")
        await until(pilot, lambda: talk.did == [("send", "!rm -rf build", (), False)])


async def test_what_is_written_is_kept_while_it_is_written(home: Path) -> None:
    shelf = Shelf(home)
    host = msgspec.structs.replace(around(), library=shelf, session=SESSION)
    app, talk = staged(given=host)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"half a thought")
        await until(pilot, lambda: shelf.kept == {SESSION: "half a thought"})
        await pilot.press("enter")
        await until(pilot, lambda: shelf.kept == {SESSION: ""})


async def test_what_was_cleared_long_before_leaving_does_not_come_back(home: Path) -> None:
    shelf, now = Shelf(home), [100.0]
    host = msgspec.structs.replace(around(), library=shelf, session=SESSION, clock=lambda: now[0])
    app, talk = staged(given=host)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"never mind", "ctrl+c")
        now[0] += 5
        await pilot.press("ctrl+d")
        await until(pilot, lambda: not app.is_running)
    assert (app.unsent, shelf.kept) == ("", {SESSION: ""})


async def test_the_arrows_reach_what_was_said_in_other_sessions_of_the_folder(
    home: Path, tmp_path: Path
) -> None:
    model, folders = script(tmp_path, {"text": "Well."}, loop=True), ("api", "web")
    for folder in folders:
        (tmp_path / folder).mkdir()
    said = (("one", "api", "first of api"), ("two", "web", "of web"), ("three", "api", "of api"))
    for name, folder, text in said:
        key = SessionKey("default", name)
        async with on_stage(home, key=key, model=model, cwd=tmp_path / folder) as stage:
            await stage.say(text)
    home_places = Places.resolve({"MINDSTONE_HOME": str(home)})
    here = str(tmp_path / "api")
    assert said_in(home_places, here, SessionKey("default", "one")) == ["of api", "first of api"]
    host = msgspec.structs.replace(
        around(tmp_path / "api"), library=Shelf(home), session="agent:default:new"
    )
    app, talk = staged(given=host)
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await until(pilot, lambda: len(app.chat.input_area.prompt._said) == 2)
        await pilot.press("up", "up")
        assert prompt_of(app) == "first of api"
