"""Nine surfaces around one question, and any of them gone at any moment: it is answered once.

Everything is a process or a connection of its own. A turn asks before it runs something; then the
others look, wait and answer, and one of them is killed or closes its connection. What must hold is
read from the transcript and from what ran.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from mindstone_tui.core.library.open_questions import OpenQuestion, WaitingRoom
from mindstone_tui.core.paths import Places, SessionPlaces
from mindstone_tui.core.transcript import verify
from tests.builders import places_in
from tests.cli.forked import ROOT, begin
from tests.cli.terminal import OnTerminal
from tests.core.session.stage import check_history, script

PATIENCE = 90.0
SESSION = "agent:default:main"


def wait_for(holds: Callable[[], Any], what: str) -> Any:
    """What it gives, once that is anything."""
    pause, end = threading.Event(), time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, f"never: {what}"
        pause.wait(0.02)
    return found


def lines_in(places: SessionPlaces, *kinds: str) -> list[dict[str, Any]]:
    """The whole lines of some kinds; the last may be half written."""
    whole, _, _ = places.transcript.read_bytes().rpartition(b"\n")
    return [line for line in map(json.loads, whole.splitlines()) if line["kind"] in kinds]


class Surface:
    """Something at which a person may sit: it shows a question, and may answer it."""

    answers = True
    asks = True
    channel = ""
    process: subprocess.Popen[bytes] | None = None

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self.environ = {**os.environ, "PYTHONPATH": str(ROOT), "MINDSTONE_HOME": str(home)}

    def start(self) -> None:
        """Be there; returns once it is."""

    def command(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        return begin(*words, env=self.environ, cwd=self.folder, **more)

    def ask(self) -> None:
        """Begin a turn, which asks."""

    def answer(self, call: str, *, yes: bool) -> None:
        """Give an answer; nothing when it comes too late."""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()


class Terminal(Surface):
    """A program on a terminal of its own, whose output somebody reads."""

    words: tuple[str, ...] = ()
    begun = b""

    def start(self) -> None:
        self.terminal = OnTerminal(self.folder, *self.words)
        self.process = self.terminal.process
        threading.Thread(target=self._watch, args=(self.terminal,), daemon=True).start()
        if self.begun:
            wait_for(lambda: self.begun in self.terminal.seen, f"{self.words} on its terminal")

    @staticmethod
    def _watch(terminal: OnTerminal) -> None:
        while terminal._read() or terminal.process.poll() is None:
            continue
        terminal.close()  # here: nobody else reads, who would read another's in its place

    def word(self, yes: bool) -> None:
        """Write a word once a word would count, unless that is over first."""
        seen = len(self.terminal.seen)
        while b"Nothing is decided" not in self.terminal.seen[seen:]:
            before = len(self.terminal.seen)
            self.terminal.type(b"y\n")
            if not self.says(before, b"decided", b"still open", b"> ", b"waiting`"):
                return
        self.terminal.type(b"yes\n" if yes else b"no\n")

    def says(self, since: int, *signs: bytes) -> bool:
        """Wait until it says one of these; False when it is gone first."""

        def said() -> str:
            if not self.alive:
                return "gone"
            return "said" if any(each in self.terminal.seen[since:] for each in signs) else ""

        return bool(wait_for(said, f"an answer of {self.words}") == "said")


class App(Terminal):
    words, begun, answers, channel = ("chat",), b"script.jsonl", False, "tui"

    def ask(self) -> None:
        self.terminal.type(b"go\r")


class LineChat(Terminal):
    words, begun, answers, channel = ("chat", "--plain"), b"> ", False, "cli"

    def ask(self) -> None:
        self.terminal.type(b"go\n")


class Waiting(Terminal):
    """`mindstone waiting answer 1 yes`, begun once something waits."""

    asks = False

    def start(self) -> None:
        self.words = ("waiting", "answer", "1", "yes")
        self.terminal = OnTerminal(None, *self.words)
        self.process = self.terminal.process
        threading.Thread(target=self._watch, args=(self.terminal,), daemon=True).start()

    def answer(self, call: str, *, yes: bool) -> None:
        if wait_for(lambda: not self.alive or b"Write yes" in self.terminal.seen, "it asks"):
            with contextlib.suppress(OSError):
                self.word(yes)


class Run(Surface):
    """`mindstone run -q`, which waits for its turn."""

    asks = answers = False

    def start(self) -> None:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        self.process = self.command("run", "-q", "next", **quiet, stderr=subprocess.DEVNULL)


class Editor(Surface):
    """`mindstone acp` with an editor's end."""

    channel = "acp"

    def start(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = self.command("acp", **pipes, stderr=subprocess.DEVNULL)
        self.asked: dict[str, int] = {}
        self.since: dict[str, float] = {}
        self.done: set[int] = set()
        self._number = 0
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()
        self._call("initialize", {"protocolVersion": 1})
        where = {"sessionId": SESSION, "cwd": str(self.folder), "mcpServers": []}
        number = self._call("session/resume", where)
        wait_for(lambda: number in self.done, "the editor opens the session")

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            if told.get("method") == "session/request_permission":
                call = told["params"]["toolCall"]["toolCallId"]
                self.asked[call] = told["id"]
                self.since[call] = time.monotonic()
            elif "method" not in told:
                self.done.add(told["id"])

    def _call(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        return self._number

    def _write(self, told: dict[str, Any]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **told}).encode() + b"\n")
            self.process.stdin.flush()

    def ask(self) -> None:
        words = [{"type": "text", "text": "go"}]
        self._call("session/prompt", {"sessionId": SESSION, "prompt": words})

    def answer(self, call: str, *, yes: bool) -> None:
        if wait_for(lambda: not self.alive or call in self.asked, "the editor is asked"):
            outcome = {"outcome": "selected", "optionId": "allow-0" if yes else "deny"}
            if call in self.asked:  # nobody answers what they cannot have read
                wait_for(lambda: time.monotonic() - self.since[call] > 1.1, "a second")
                self._write({"id": self.asked[call], "result": {"outcome": outcome}})


class Browser(Surface):
    """The page: a stream from the resident, and requests to it."""

    channel = "web"

    def start(self) -> None:
        self.process = self.command(
            "serve", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.process.stdout is not None
        self.url, _, token = self.process.stdout.readline().decode().strip().partition("/#token=")
        self.client = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE
        )
        self.client.get("/page/history", params={"session": SESSION}).raise_for_status()
        self.look()

    def look(self) -> None:
        """Open the page, and read what comes until it is closed."""
        self.closed = threading.Event()
        threading.Thread(target=self._read, args=(self.closed,), daemon=True).start()

    def _read(self, closed: threading.Event) -> None:
        with (
            contextlib.suppress(httpx.HTTPError),
            self.client.stream("GET", "/page/events", params={"session": SESSION}) as stream,
        ):
            for _ in stream.iter_raw():
                if closed.is_set():
                    return

    def ask(self) -> None:
        with contextlib.suppress(httpx.HTTPError):
            self.client.post("/page/send", json={"session": SESSION, "text": "go"})

    def answer(self, call: str, *, yes: bool) -> None:
        asked = lines_in(places_in(self.home), "tool_asked")[-1]
        told = {"session": SESSION, "call": call, "since": asked["ts"], "how": "click"}
        with contextlib.suppress(httpx.HTTPError):
            choice = "allow-0" if yes else "deny"
            self.client.post("/page/answer", json={**told, "choice": choice, "seen": 2.0})


class Tab(Surface):
    """A second browser on the same page: its connection ends, and the resident goes on."""

    asks = answers = False

    def __init__(self, browser: Browser) -> None:
        super().__init__(browser.home, browser.folder)
        self._browser = browser
        self._stream: contextlib.ExitStack | None = None

    def start(self) -> None:
        self._stream = contextlib.ExitStack()
        with contextlib.suppress(httpx.HTTPError):
            opened = self._browser.client.stream("GET", "/page/events?session=" + SESSION)
            self._stream.enter_context(opened)

    @property
    def alive(self) -> bool:
        return self._stream is not None

    def kill(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class Client(Surface):
    """A program that has its answers over HTTP, with our tools: its connection is all there is."""

    answers = False
    alive = False
    channel = "gateway"

    def __init__(self, browser: Browser) -> None:
        super().__init__(browser.home, browser.folder)
        self._browser = browser
        self._open: list[http.client.HTTPConnection] = []
        self.told: list[bytes] = []
        """Every line of every reply."""

    def start(self) -> None:
        self.alive = True

    def ask(self) -> None:
        connection = http.client.HTTPConnection(self._browser.url.removeprefix("http://"))
        self._open.append(connection)
        named = {"x-mindstone-session": SESSION, "x-mindstone-folder": str(self.folder)}
        headers = {"authorization": self._browser.client.headers["authorization"], **named}
        asked = {"stream": True, "messages": [{"role": "user", "content": "go"}]}
        with contextlib.suppress(OSError):
            connection.request(
                "POST",
                "/v1/chat/completions",
                json.dumps({"model": "default", **asked}),
                {**headers, "x-mindstone-tools": "on", "content-type": "application/json"},
            )
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: http.client.HTTPConnection) -> None:
        with (
            contextlib.closing(connection),
            contextlib.suppress(OSError, http.client.HTTPException, ValueError),
        ):
            self.told += connection.getresponse()

    def kill(self) -> None:
        for connection in self._open:
            with contextlib.suppress(OSError):
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)
        self._open.clear()
        self.alive = False


class Crew:
    """All of them, kept going from one kill to the next."""

    def __init__(self, home: Path, folder: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self.places = places_in(home)
        self._room = WaitingRoom(Places.resolve({"MINDSTONE_HOME": str(home)}))
        self._ran = folder / "ran"
        self._turn = 0
        """The turn of the newest question."""
        self.trying = ""
        browser = Browser(home, folder)
        self._stay: dict[str, Surface] = {
            "the app": App(home, folder),
            "the line chat": LineChat(home, folder),
            "an editor": Editor(home, folder),
            "the resident": browser,
            "a browser": Tab(browser),
            "a client of the gateway": Client(browser),
        }
        self._come: dict[str, Surface] = {
            "`run -q`": Run(home, folder),
            "another `run -q`": Run(home, folder),
            "`waiting answer`": Waiting(home, folder),
        }
        self._every = {**self._stay, **self._come}

    def close(self) -> None:
        for each in self._every.values():
            each.kill()

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        """The lines of some kinds so far."""
        return lines_in(self.places, *kinds)

    def waiting(self) -> list[OpenQuestion]:
        return [each for each in self._room.look() if each.kind == "approval"]

    def try_one(self) -> str:
        """Kill one of them around one question; what was killed, and when."""
        chance = self._chance
        self.gather()
        asker = chance.choice([name for name, each in self._stay.items() if each.asks])
        call = self.asked_by(asker)
        for each in self._come.values():
            each.start()
        victim = chance.choice([*self._every, asker])
        moment = chance.choice(("before", "during", "after"))
        others = [n for n, e in self._every.items() if e.answers and n != victim]
        giving_one = chance.choice(others)
        giver = self._every[giving_one]
        yes = chance.random() < 0.5
        gone = victim == asker
        word = "yes" if yes else "no"
        self.trying = f"{asker} asks, {victim} is killed {moment} a {word} by {giving_one}"
        if moment == "before":
            self._every[victim].kill()
            self._still_there(call, gone)
            self._answer(giver, call, yes)
        else:
            giving = threading.Thread(target=self._answer, args=(giver, call, yes))
            giving.start()
            if moment == "after":
                wait_for(lambda: self._settled(call) or not giving.is_alive(), "it is answered")
            else:
                threading.Event().wait(chance.uniform(0.0, 0.3))
            self._every[victim].kill()
            giving.join()
        self.finish(call)
        return self.trying

    def gather(self) -> None:
        """Have those there that stay."""
        for each in self._stay.values():
            if not each.alive:
                each.start()

    def surface(self, name: str) -> Surface:
        return self._every[name]

    def asked_by(self, name: str) -> str:
        """The call that a turn of this surface asks about; other turns may have to end first."""
        surface, editor = self._stay[name], self._stay["an editor"]
        assert isinstance(editor, Editor)
        for _ in range(6):
            editor.asked.clear()
            before = self._ended(surface.channel)
            surface.ask()
            wait_for(partial(self._more, surface, before), f"a turn of {name} that asks or ends")
            if found := self._asked_on(surface):
                self._turn = found[-1].turn
                return found[-1].call
        raise AssertionError("no turn asked anything")

    def _asked_on(self, surface: Surface) -> list[OpenQuestion]:
        """What a surface asks; what others ask, for whom a message was left, is declined."""
        found = [each for each in self.waiting() if not each.gone]
        for each in found:
            if each.channel != surface.channel:
                self._decline(each.call)
        return [each for each in found if each.channel == surface.channel]

    def _decline(self, call: str) -> None:
        editor, browser = self._stay["an editor"], self._stay["the resident"]
        self._answer(browser if browser.alive else editor, call, False)

    def _ended(self, channel: str) -> int:
        """How many turns of a surface are over; those of others, which come first, do not count."""
        return sum(line["channel"] == channel for line in self.lines("turn_ended"))

    def _more(self, surface: Surface, before: int) -> bool:
        return bool(self._asked_on(surface)) or self._ended(surface.channel) > before

    def _answer(self, giver: Surface, call: str, yes: bool) -> None:
        with contextlib.suppress(OSError):
            giver.answer(call, yes=yes)

    def since(self, call: str, *kinds: str) -> list[dict[str, Any]]:
        """Lines about the newest question; the name of its call may have been another's before."""
        return [
            line
            for line in self.lines(*kinds)
            if line["call"] == call and line["turn"] == self._turn
        ]

    def _settled(self, call: str) -> bool:
        return bool(self.since(call, "tool_answered", "tool_returned"))

    def _still_there(self, call: str, gone: bool) -> None:
        """A question outlives whoever is killed: listed, or taken up by who waited for its turn."""
        listed = [each for each in self.waiting() if each.turn == self._turn]
        assert listed or (gone and self._settled(call)), "the question is gone"
        assert not self.since(call, "tool_approved"), "it ran without an answer"

    def finish(self, call: str) -> None:
        """Have the turn end, by an answer or by whoever comes next, and look at what is there."""

        def is_over() -> bool:
            if self.since(call, "tool_returned"):
                return True
            waits, comes = self.waiting(), self._come["`run -q`"]
            left = any(each.turn == self._turn and each.gone for each in waits)
            answered = not waits and not all(each.alive for each in self._stay.values())
            if (left or answered) and not comes.alive:  # whoever asked may be gone
                comes.start()
            for each in waits:
                if not each.gone:
                    self._decline(each.call)
            return False

        wait_for(is_over, "the call has a result")
        for each in self._come.values():
            each.kill()
        self.check(call)

    def check(self, call: str) -> None:
        """One question, at most one decision, one result; what ran was allowed."""
        of_call = self.since(call, *_KINDS)
        count = {kind: sum(line["kind"] == kind for line in of_call) for kind in _KINDS}
        assert (count["tool_asked"], count["tool_returned"]) == (1, 1), count
        assert count["tool_approved"] + count["tool_refused"] <= 1, count
        answers = [line for line in of_call if line["kind"] == "tool_answered"]
        if count["tool_approved"]:
            assert answers[0]["allowed"], "the first answer was no"
        elif answers and count["tool_refused"]:
            assert not answers[0]["allowed"], "the first answer was yes"
        allowed = [line for line in self.lines("tool_approved") if line["by"] == "person"]
        ran = self._ran.read_text().count("x") if self._ran.exists() else 0
        assert ran <= len(allowed), f"ran {ran} times, allowed {len(allowed)} times"

    def verdict(self) -> None:
        """The history is whole: one chain, every turn with one end, every request rebuilt."""
        assert verify(self.places).ok
        check_history(self.places)


_KINDS = ("tool_asked", "tool_answered", "tool_approved", "tool_refused", "tool_returned")


@contextlib.contextmanager
def crew(home: Path, folder: Path, seed: int) -> Iterator[Crew]:
    """Nine surfaces in one session of their own; `MINDSTONE_HOME` names their home already."""
    # Some models give every call the same name.
    wish = {"id": "call_1", "name": "shell", "arguments": {"command": "echo x >> ran"}}
    replies = ({"text": "Well.", "tool_calls": [wish]}, {"text": "Done."})
    model = script(folder, *replies, loop=True)
    home.mkdir(exist_ok=True)
    config = f'[models]\ndefault = "{model}"\n[recall]\nbackground = false\n'
    (home / "config.toml").write_text(config)
    first = Run(home, folder)
    first.start()
    wait_for(lambda: not first.alive, "the first turn is over")
    around = Crew(home, folder, seed)
    try:
        yield around
    finally:
        around.close()
