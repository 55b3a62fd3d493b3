"""Only what a hand typed runs in the shell: pasted text stays a message whatever is done to it."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.keys import _character_to_key

from mindstone_tui.core import events as ev
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.host import CommandHelp
from tests.tui.staged import COMMANDS, around, asked, in_view, settle, staged, until
from tests.tui.test_decisions import WISH
from tests.tui.test_prompt import Refusing, paste, prompt_of

WAYS = {
    "at once": (),
    "cleared, and recalled": ("ctrl+c", "up"),
    "cleared, recalled, and again": ("ctrl+c", "up", "ctrl+c", "up"),
    "through the history and back": ("up", "down"),
    "deleted, and undone": ("ctrl+u", "ctrl+z"),
    "undone, and done again": ("ctrl+z", "ctrl+y"),
    "written behind a letter that goes again": ("home", "a", "backspace"),
    "written behind a blank": ("home", "space"),
    "cut out, and put back": ("shift+home", "ctrl+x", "ctrl+v"),
}


def shell(app: MindstoneApp) -> bool:
    """Whether the prompt looks as if its text would run."""
    return app.chat.input_area.prompt.has_class("-shell")


@pytest.mark.parametrize("pasted", ["!rm -rf x", "/shell rm -rf x", "/SHELL rm -rf x"])
async def test_what_is_pasted_never_runs(pasted: str) -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        for way, keys in WAYS.items():
            talk.did.clear()
            await pilot.press(*"hi", "enter")
            await until(pilot, lambda: len(talk.did) == 1)
            await paste(pilot, app, pasted)
            await pilot.press(*keys)
            assert prompt_of(app).strip() == pasted, way
            assert not shell(app)
            await pilot.press("enter")
            await until(pilot, lambda: len(talk.did) == 2)
            assert [did[0] for did in talk.did] == ["send", "send"]
            await pilot.press("up", "enter")
            await until(pilot, lambda: len(talk.did) == 3)
            assert talk.did[2] == talk.did[1], way


@pytest.mark.parametrize(
    ("pasted", "keys"),
    [
        ("x!rm -rf x", ("home", "delete")),
        ("/x !rm -rf x", ("home", *["delete"] * 3)),
        ("x/shell rm -rf x", ("home", "delete")),
        ("!rm -rf x\n" * 9, ("ctrl+o",)),
        ("/shell rm -rf x\n" * 9, ("ctrl+o",)),
        ("!", tuple("ls")),
        ("/sh", ("tab", *"ls")),
    ],
    ids=[
        "uncovered",
        "uncovered in a command",
        "uncovered name",
        "folded",
        "folded name",
        "sign",
        "half",
    ],
)
async def test_a_beginning_that_nobody_typed_never_runs(pasted: str, keys: tuple[str, ...]) -> None:
    commands = (*COMMANDS, CommandHelp(name="shell", usage="COMMAND"))
    app, talk = staged(given=msgspec.structs.replace(around(), commands=lambda: commands))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await paste(pilot, app, pasted)
        await pilot.press(*keys)
        assert prompt_of(app).startswith(("!", "/shell "))
        assert not shell(app)
        await pilot.press("enter")
        await until(pilot, lambda: bool(talk.did))
        assert talk.did[0][0] == "send"


@pytest.mark.parametrize("typed", ["!ls", "/shell ls"])
async def test_what_is_typed_still_runs(typed: str) -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        for way in list(WAYS)[:-1]:
            talk.did.clear()
            await pilot.press(*"hi", "enter")
            await pilot.press(*typed, *WAYS[way], "enter")
            await until(pilot, lambda: len(talk.did) == 2)
            assert talk.did[1] == ("command", "/shell ls"), way
            await pilot.press("up", "enter")
            await until(pilot, lambda: len(talk.did) == 3)
            assert talk.did[2] == ("command", "/shell ls"), way


async def test_the_same_words_pasted_and_typed_stay_what_they_were() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await paste(pilot, app, "!make")
        await pilot.press("enter", *"!make", "enter", "up", "enter", "up", "up", "up", "enter")
        await until(pilot, lambda: len(talk.did) == 4)
        assert [did[0] for did in talk.did] == ["send", "command", "command", "send"]


async def test_a_completed_command_runs_as_what_was_typed_of_it() -> None:
    commands = (*COMMANDS, CommandHelp(name="shell", usage="COMMAND"))
    app, talk = staged(given=msgspec.structs.replace(around(), commands=lambda: commands))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"/sh", "tab", *"ls", "enter")
        await until(pilot, lambda: talk.did == [("command", "/shell ls")])


@pytest.mark.parametrize("pasted", ["!rm -rf x", "/shell rm -rf x"])
async def test_a_pasted_reason_whose_question_went_never_runs(pasted: str) -> None:
    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press("tab", "r")
        app.post_message(events.Paste(pasted))
        await pilot.pause()
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
        await until(pilot, lambda: prompt_of(app) == pasted)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: talk.did == [("send", pasted, (), False)])


async def test_a_pasted_message_that_was_refused_never_runs() -> None:
    app, talk = staged()
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        app.chat.talk = refusing = Refusing()
        await paste(pilot, app, "!cat @a.bin")
        await pilot.press("enter")
        await until(pilot, lambda: bool(app._notifications))
        app.chat.talk = talk
        await pilot.press("enter")
        await until(pilot, lambda: talk.did == [("send", "!cat @a.bin", (), False)])
        assert refusing.did == []


class Headless(MindstoneApp):
    """Has no terminal to hand over to an editor, and none is needed for this one."""

    def suspend(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


@pytest.mark.parametrize(("typed", "did"), [("", "send"), ("!", "command")])
async def test_what_an_editor_leaves_runs_only_if_it_was_a_command_before(
    typed: str, did: str, tmp_path: Path
) -> None:
    script = tmp_path / "editor"
    script.write_text("#!/bin/sh\necho '!ls' > \"$1\"\n")
    script.chmod(0o700)
    _, talk = staged()

    async def open_conversation(key: str) -> ev.Conversation:
        return talk

    app = Headless(open_conversation, around(editor=shlex.quote(str(script))))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*typed)
        app.chat.action_want("editor")
        await until(pilot, lambda: prompt_of(app) == "!ls")
        await pilot.press("enter")
        await until(pilot, lambda: bool(talk.did))
        assert talk.did[0][0] == did


async def test_each_command_of_a_burst_is_timed_from_its_own_first_letter() -> None:
    now = [100.0]
    app, talk = staged(given=msgspec.structs.replace(around(), clock=lambda: now[0]))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press(*"/keep ye")
        now[0] += 60
        for key in ("s", "enter", *"/keep no", "enter"):
            name = _character_to_key(key) if len(key) == 1 else key
            app.post_message(events.Key(name, key if len(key) == 1 else None))
        await until(pilot, lambda: len(talk.did) == 2)
        assert [did[1] for did in talk.did] == ["/keep yes", "/keep no"]
        assert [round(one) for one in talk.writing] == [60, 0]
