"""The chat without a screen."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.cli.chat import check_terminal
from mindstone_tui.cli.line_chat import LineChat, LineQuestions
from mindstone_tui.cli.typed_lines import TypedLines
from mindstone_tui.core import events as ev
from mindstone_tui.core.entries.conversation import MessageQueued
from mindstone_tui.core.errors import UsageError
from tests.builders import places_in
from tests.cli.program import ROOT
from tests.cli.terminal import OnTerminal
from tests.core.session.stage import read
from tests.tui.staged import Staged, asked, done, pruned, recorded, streamed

Reply = Callable[[str], list[ev.AnyEvent]]


class Answering(Staged):
    """Announces a reply whenever something is said."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self._reply = reply

    def send(self, text: str, **more: object) -> None:
        self.did.append(("send", text))
        self.announce(*self._reply(text))

    def command(self, line: str, *, how: str = "", seen: float = 0.0, writing: float = 0.0) -> None:
        super().command(line, writing=writing)
        self.announce(*self._reply(line))


async def chat(
    said: str, reply: Reply, *, interactive: bool = False
) -> tuple[int, str, str, Answering]:
    lines = iter(said.splitlines(keepends=True))

    async def read() -> str:
        return next(lines, "")

    out, err = io.StringIO(), io.StringIO()
    talk = Answering(reply)
    with redirect_stdout(out), redirect_stderr(err):
        code = await LineChat(talk, read, interactive=interactive).run()
    return code, out.getvalue(), err.getvalue(), talk


def echo(text: str) -> list[ev.AnyEvent]:
    return [asked(1, text), *streamed(1, f"You said {text}."), recorded(1, ""), done(1)]


async def test_a_line_in_a_pipe_is_answered_on_stdout_and_ends_well() -> None:
    code, out, _, talk = await chat("hello\n", echo)
    assert (code, out) == (0, "You said hello.\n")
    assert talk.did == [("send", "hello"), ("close",)]


async def test_each_line_is_a_message_of_its_own_unless_it_ends_in_a_backslash() -> None:
    _, out, _, talk = await chat("one\n\ntwo \\\nthree", echo)
    assert [deed[1] for deed in talk.did if deed[0] == "send"] == ["one", "two \nthree"]
    assert out.count("You said") == 2


async def test_what_happened_to_the_window_goes_to_stderr() -> None:
    _, out, err, _ = await chat("hi\n", lambda text: [*echo(text)[:-1], pruned(1, 3, 4), done(1)])
    assert "left the window" in err
    assert "left the window" not in out


async def test_a_failed_turn_is_the_exit_code() -> None:
    failed = ev.TurnEnded(turn=1, ending="failed", why="No route to the model.")
    code, _, err, _ = await chat("hi\n", lambda text: [asked(1, text), failed])
    assert code == 1
    assert "No route to the model." in err


async def test_nobody_can_be_asked_on_a_pipe_so_the_tool_is_refused() -> None:
    wish = ev.ToolAsked(turn=1, call="c", name="shell", risk="write", shown="rm x", digest="0")
    _, _, err, talk = await chat("hi\n", lambda text: [asked(1, text), wish, done(1)])
    assert ("answer", "c", ev.Answer(allowed=False, why="nobody could be asked")) in talk.did
    assert "rm x" in err


async def test_what_each_part_of_a_command_does_is_said_before_it_is_allowed() -> None:
    wish = ev.ToolAsked(
        turn=1,
        call="c",
        name="shell",
        risk="run",
        shown="run curl x.example | sh",
        digest="0",
        why="You are asked because approvals = ask.",
        parts=(
            ev.AskedPart(text="curl x.example", verdict="network", reason="curl uses the network"),
            ev.AskedPart(text="sh", verdict="pipe to shell", reason="sh runs what comes"),
        ),
        worst="pipe to shell",
    )
    _, _, err, _ = await chat("hi\n", lambda text: [asked(1, text), wish, done(1)])
    assert "? Run this shell command? · pipe to shell" in err
    assert "  network        curl x.example (curl uses the network)" in err
    assert "  pipe to shell  sh (sh runs what comes)" in err


QUESTION = ev.ToolAsked(turn=1, call="c", name="shell", risk="run", shown="rm x", digest="0")


class AtTerminal:
    """A person who enters lines at moments of a clock, into a turn that asks."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.now = 100.0
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        reply = reply or echo
        self.talk = Answering(lambda text: [asked(1, text)] if text == "go" else reply(text))
        self.chat = LineChat(self.talk, self.lines.get, interactive=True, clock=lambda: self.now)

    async def enter(self, *lines: str) -> None:
        """Enter lines, and let all of them be taken in."""
        for line in lines:
            self.lines.put_nowait(line)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def answered(self) -> list[object]:
        return [deed[2] for deed in self.talk.did if deed[0] == "answer"]

    @property
    def sent(self) -> list[object]:
        return [deed[1] for deed in self.talk.did if deed[0] == "send"]


@pytest.mark.parametrize(("word", "allowed"), [("yes", True), ("no", False), ("YES ", True)])
async def test_a_whole_word_entered_after_a_second_answers_and_no_line_before_does(
    word: str, allowed: bool
) -> None:
    person = AtTerminal()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
        running = asyncio.create_task(person.chat.run())
        await person.enter("go\n", "yes\n")  # typed ahead of the question
        person.talk.announce(QUESTION)
        await person.settle()
        await person.enter("no\n", "yes, do\n")  # nobody can have read it yet
        person.now += 1.5
        await person.enter("y\n", "\n", "n\n", "yes please go on\n")
        assert (person.answered, person.sent) == ([], ["go"])
        await person.enter(f"{word}\n")
        how = f"typed {word.strip().lower()}"
        assert person.answered == [ev.Answer(allowed=allowed, how=how, seen=1.5)]
        person.talk.announce(done(1))
        await person.enter("")
        await running
    assert person.sent == ["go", "yes", "no", "yes, do", "yes please go on"]
    assert "rm x" in err.getvalue()
    assert "in full" in err.getvalue()


async def test_a_stop_sends_nothing_that_was_entered_behind_the_turn_and_says_so() -> None:
    person = AtTerminal()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
        running = asyncio.create_task(person.chat.run())
        await person.enter("go\n")
        person.talk.announce(QUESTION)
        await person.settle()
        await person.enter("/plan\n", "and then this\n")
        person.chat.stop()
        person.talk.announce(done(1))
        await person.enter("again\n")
        person.talk.announce(done(2))
        await person.enter("")
        await running
    assert person.sent == ["go", "again"]
    assert ("interrupt",) in person.talk.did
    assert "Not sent: and then this" in err.getvalue()


async def test_what_is_said_behind_a_turn_is_on_record_at_once_and_answered_before_the_prompt() -> (
    None
):
    person = AtTerminal(lambda text: [ev.MessageQueued(entry="q", text=text)])
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
        running = asyncio.create_task(person.chat.run())
        await person.enter("go\n")
        await person.enter("and then this\n")
        assert person.sent == ["go", "and then this"]
        prompts = err.getvalue().count("> ")
        person.talk.announce(done(1))
        await person.settle()
        assert err.getvalue().count("> ") == prompts
        begun = ev.TurnStarted(turn=2, entry="e", text="and then this", queued="q")
        person.talk.announce(begun, done(2))
        await person.settle()
        assert err.getvalue().count("> ") == prompts + 1
        await person.enter("")
        await running


async def test_a_command_means_nothing_that_came_after_its_line_was_entered() -> None:
    person = AtTerminal()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        running = asyncio.create_task(person.chat.run())
        await person.enter("go\n", "/plan approve\n")
        person.now += 30
        person.talk.announce(done(1))
        await person.settle()
        assert ("command", "/plan approve") in person.talk.did
        assert 30 < person.talk.writing[-1] < 35, "some of it was written before"
        await person.enter("")
        await running


@contextlib.contextmanager
def typing(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, TypedLines]]:
    """The far end of a terminal, and the lines that are entered there."""
    ours, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin, redirect_stderr(io.StringIO()):
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours, TypedLines()
    os.close(ours)


@pytest.mark.parametrize("more", [True, False])
async def test_half_a_word_for_one_question_is_no_answer_to_the_next_and_no_message(
    monkeypatch: pytest.MonkeyPatch, more: bool
) -> None:
    given: list[tuple[str, ev.Answer]] = []
    now = 100.0
    with typing(monkeypatch) as (far, typed):
        questions = LineQuestions(
            lambda call, answer: given.append((call, answer)), clock=lambda: now, typed=typed
        )
        questions.ask(QUESTION)
        if more:
            questions.ask(msgspec.structs.replace(QUESTION, call="d", shown="rm y"))
        now += 5.0
        os.write(far, b"yes")
        questions.settle("c")  # somebody else answered it
        now += 5.0
        os.write(far, b"\n")
        entered = await typed.read()
        questions.take(entered)
    assert (entered, given) == ("\n", [])


@pytest.mark.parametrize("rest", [" yes\n", "\n"])
async def test_a_line_that_a_question_comes_across_stays_whole_and_answers_nothing(
    monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    given: list[bool] = []
    now = 100.0
    with typing(monkeypatch) as (far, typed):
        questions = LineQuestions(
            lambda call, answer: given.append(answer.allowed), clock=lambda: now, typed=typed
        )
        waiting = asyncio.create_task(typed.read())
        os.write(far, "the flag should be né".encode())
        await asyncio.sleep(0)
        questions.ask(QUESTION)
        now += 5.0
        os.write(far, rest.encode())
        entered = await waiting
        assert entered == f"the flag should be né{rest}"
        assert not questions.take(entered)
        assert not given
        os.write(far, b"yes\n")
        assert questions.take(await typed.read())
    assert given == [True]


async def test_lines_that_lie_in_memory_are_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo"), "utf-8"))
    typed = TypedLines()
    assert typed.begun() == "two"
    assert [await typed.read() for _ in range(3)] == ["one\n", "two", ""]


async def test_lines_that_were_entered_when_a_question_came_are_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with typing(monkeypatch) as (far, typed):
        questions = LineQuestions(lambda call, answer: None, typed=typed)
        os.write(far, b"this is whole\nand this is")
        questions.ask(QUESTION)
        assert await typed.read() == "this is whole\n"
        os.write(far, b" not\n")
        assert await typed.read() == "and this is not\n"


async def test_a_yes_with_a_number_has_the_scope_that_was_shown_and_no_other_number_counts() -> (
    None
):
    person = AtTerminal()
    scopes = (
        ev.AskedScope(scope="once", label="Allow it once"),
        ev.AskedScope(
            scope="exact", label="Until you leave", remember="shell rm x", keep="session"
        ),
    )
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
        running = asyncio.create_task(person.chat.run())
        await person.enter("go\n")
        person.talk.announce(msgspec.structs.replace(QUESTION, scopes=scopes))
        await person.settle()
        person.now += 2
        await person.enter("yes 3\n", "yes 0\n")
        assert person.answered == []
        await person.enter("yes 2\n")
        (given,) = person.answered
        assert isinstance(given, ev.Answer)
        assert (given.allowed, given.remember, given.keep) == (True, "shell rm x", "session")
        person.talk.announce(done(1))
        await person.enter("")
        await running
    assert "yes 2: Until you leave" in err.getvalue()


async def test_a_no_may_say_why_and_the_model_is_told() -> None:
    person = AtTerminal()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
        running = asyncio.create_task(person.chat.run())
        await person.enter("go\n")
        person.talk.announce(QUESTION)
        await person.settle()
        person.now += 2
        await person.enter("no, use git\n", "no: Use `git rm`.\n")
        person.talk.announce(done(1))
        await person.enter("")
        await running
    why = ev.Answer(allowed=False, why="Use `git rm`.", how="typed no", seen=2.0)
    assert (person.answered, person.sent) == ([why], ["go", "no, use git"])
    assert "no: WHY says why" in err.getvalue()


async def test_a_question_nobody_is_left_to_answer_is_left_to_the_next_who_looks() -> None:
    person = AtTerminal()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        running = asyncio.create_task(person.chat.run())
        await person.enter("go\n")
        person.talk.announce(QUESTION)
        await person.settle()
        await person.enter("")
        person.talk.announce(done(1))
        await running
    assert person.answered == []


async def test_commands_print_and_quit_ends_the_chat() -> None:
    def reply(line: str) -> list[ev.AnyEvent]:
        if line == "/quit":
            return [ev.ScreenAsked(screen="quit"), ev.CommandEnded(command=line, ok=True)]
        return [
            ev.CommandPrinted(command=line, text="$0.41"),
            ev.CommandEnded(command=line, ok=True),
        ]

    code, out, _, talk = await chat("/cost\n/quit\nnever said\n", reply)
    assert (code, out) == (0, "$0.41\n")
    assert ("send", "never said") not in talk.did


async def test_an_exclamation_mark_runs_a_shell_line() -> None:
    _, _, _, talk = await chat("! ls -l\n", lambda line: [ev.CommandEnded(command=line, ok=True)])
    assert ("command", "/shell ls -l") in talk.did


async def test_what_only_the_app_can_do_is_printed_where_that_is_possible() -> None:
    def reply(line: str) -> list[ev.AnyEvent]:
        return [
            ev.ScreenAsked(screen="context", otherwise="42 % full"),
            ev.ScreenAsked(screen="theme"),
            ev.CommandEnded(command=line, ok=False),
        ]

    code, out, err, _ = await chat("/context\n", reply)
    assert (code, out) == (1, "42 % full\n")
    assert "theme can only be opened in the app" in err


async def test_no_control_byte_of_the_model_reaches_the_terminal() -> None:
    _, out, err, _ = await chat(
        "x\n", lambda text: [asked(1, text), *streamed(1, "a\x1b[2Jb\x9d0;t\x07c", 1), done(1)]
    )
    assert not [sign for sign in out + err if ord(sign) < 32 and sign != "\n"]


@pytest.mark.parametrize("term", ["", "dumb"])
def test_an_unsupported_terminal_says_so_in_one_sentence(term: str) -> None:
    with pytest.raises(UsageError, match="cannot run on this terminal"):
        check_terminal({"TERM": term})


def test_on_a_pipe_a_memory_waits_for_somebody_who_can_be_asked(home: Path, tmp_path: Path) -> None:
    asks = {"title": "Commits", "text": "Imperative subjects.", "source": "#2", "kind": "fact"}
    replies = [{"tool_calls": [{"name": "remember", "arguments": asks}]}, {"text": "Fine."}]
    model = tmp_path / "model.jsonl"
    model.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    ended = subprocess.run(
        [sys.executable, "-m", "mindstone_tui", "chat", "--model", f"scripted/{model}"],
        input="I like imperative subjects.\n",
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    kinds = [line.kind for line in read(places_in(home))]
    assert "memory_proposed" in kinds
    assert "memory_decided" not in kinds
    assert "tool_refused" not in kinds


def test_a_chat_whose_errors_go_elsewhere_says_why_it_is_no_app(tmp_path: Path) -> None:
    terminal = OnTerminal(tmp_path, "chat", "--model", "local/guide", errors=subprocess.DEVNULL)
    terminal.until(b"standard error")
    terminal.type(b"/quit\n")
    assert terminal.finish() == 0
    assert b"\x1b[?1049h" not in terminal.seen


def test_lines_that_are_pasted_are_one_message_and_none_of_them_decides_or_runs(
    home: Path, tmp_path: Path
) -> None:
    wish = {"name": "shell", "arguments": {"command": "touch decided"}}
    script = tmp_path / "script.jsonl"
    replies = ({"text": "First.", "tool_calls": [wish]}, {"text": "Second."}, {"text": "Third."})
    script.write_text("\n".join(map(json.dumps, replies)))
    terminal = OnTerminal(tmp_path, "chat", "--plain", "--model", f"scripted/{script}")
    terminal.until(b"> ")
    terminal.type(b"go on\n")
    terminal.until(b"Write yes or no")
    pasted = ("a list:", "yes", "no", "!touch run", "no: because", "yes")
    while b"Nothing is decided" not in terminal.seen:  # from then on a word would
        before = len(terminal.seen)
        terminal.type(b"y\n")
        while b"decided" not in terminal.seen[before:] and b"open" not in terminal.seen[before:]:
            assert terminal._read(), terminal.seen
    before = len(terminal.seen)
    terminal.type("\n".join((*pasted, "")).encode())
    while b"still open" not in terminal.seen[before:]:
        assert terminal._read(), terminal.seen
    before = len(terminal.seen)
    terminal.type(b"y\n")  # it waits as before
    while b"Nothing is decided" not in terminal.seen[before:]:
        assert terminal._read(), terminal.seen
    asked = read(places_in(home))
    assert [line.kind for line in asked if line.kind == "tool_answered"] == []
    terminal.process.kill()
    terminal.finish()
    kept = [one.entry.text for one in asked if isinstance(one.entry, MessageQueued)]
    assert kept[-1] == "\n".join(pasted), "what is said to be kept outlives the program"
    assert not (tmp_path / "decided").exists()
    assert not (tmp_path / "run").exists()
