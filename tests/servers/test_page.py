"""The chat page in a real browser: what a person sees, types and clicks, and what cannot happen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import socket
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

import mindstone_tui
from mindstone_tui import api
from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import (
    AssistantPartial,
    MessageQueued,
    MessageWithdrawn,
    ToolAnswered,
    ToolAsked,
    ToolRefused,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import BY_CORRECTION, MemoryDecided, StatementSuperseded
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.entries.store import SessionDescribed
from mindstone_tui.core.entries.window import Rewound, WindowState
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.servers.page_items import ANEW, items_of, items_of_line
from tests import builders
from tests.cli.program import ROOT, mindstone_here
from tests.core.interchange.export.browser import Browser, chromium, find_chromium
from tests.core.session.stage import calls, check_history
from tests.servers.residence import PATIENCE, Residence, residing

PROGRAM = find_chromium()
HOSTILE = (
    "Here **it** is: <script>document.title='owned'</script>"
    "<img src=x onerror=\"document.title='owned'\"> [click](javascript:document.title='owned')\n\n"
    "```python\nport = 8443\n```\n<svg onload=\"document.title='owned'\"></svg>"
)


def seen(browser: Browser, selector: str = "#talk") -> str:
    return str(browser.run(f"document.querySelector('{selector}').innerText"))


def open_page(browser: Browser, served: Residence) -> None:
    browser.open(f"{served.url}/#token={served.token}")
    browser.until("document.querySelector('#panel .big') !== null")


@pytest.mark.thorough
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_who_listens_on_the_port_of_a_server_that_ended_is_told_no_token(
    home: Path, tmp_path: Path
) -> None:
    def heard(port: int) -> bytes:
        """What the open page sends to a stranger, who refuses it all."""
        said = b""
        with socket.create_server(("127.0.0.1", port)) as stranger:
            while said.count(b" HTTP/1.1") < 4:
                line, _ = stranger.accept()
                with line:
                    said += line.recv(1 << 16)
                    line.sendall(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
        return said

    assert PROGRAM is not None
    with chromium(PROGRAM, tmp_path / "profile") as browser:
        async with residing(home, tmp_path) as served:
            await asyncio.to_thread(open_page, browser, served)
            port = int(served.url.rpartition(":")[2])
        said = await asyncio.to_thread(heard, port)
    assert served.token.encode() not in said


def say(browser: Browser, text: str) -> None:
    browser.run("document.getElementById('text').focus()")
    browser.type(text, enter=True)


ESCAPE = """document.activeElement.dispatchEvent(
    new KeyboardEvent("keydown", { key: "Escape", bubbles: true }))"""
FITS = """Array.from(document.querySelectorAll("header > :not([hidden]), .ask, .ask button, #text"))
    .every((one) => one.getBoundingClientRect().right <= innerWidth)
    && document.querySelector(".ask").offsetWidth > 0.8 * Math.min(innerWidth, 800)
    && document.querySelector("#query").offsetWidth > 200"""
QUEUED = "Array.from(document.querySelectorAll('.queued')).map((one) => one.innerText).join()"
HOLD_THE_CLOCK = (
    "{ const real = setTimeout;"
    " window.setTimeout = (work, ms) => ms === 1000 ? (window.second = work, 0) : real(work, ms); }"
)


def decides_nothing(browser: Browser) -> None:
    """Do what a person does who writes on while a question opens; it stays open."""
    assert browser.run("document.activeElement.id") == "text", "the focus was taken away"
    browser.type("half a word")
    assert browser.run("document.getElementById('text').value") == "half a word"
    buttons = "Array.from(document.querySelectorAll('.ask button'))"
    assert browser.run(f"{buttons}.every((one) => one.disabled)"), "nobody can have read it yet"
    browser.run(f"{buttons}.forEach((one) => one.click()); second()")
    browser.enter(held=True)
    assert browser.run("document.getElementById('text').value") == "half a word", "it was sent"
    browser.run("document.querySelector('.ask button').focus()")
    browser.enter(held=True)
    assert browser.run("document.querySelector('.ask[data-in-view]') !== null"), (
        "a held key decided"
    )


def waits(browser: Browser, text: str) -> None:
    browser.until(f"document.querySelector('#talk').innerText.includes({text!r})")


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_a_conversation_in_the_browser_beside_the_app(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = calls(("write", {"path": "note.txt", "content": "a stone remembers\n"}), text=HOSTILE)
    replies = (wanted, {"text": "It is written."}, {"text": "From the terminal."})

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            assert browser.run("location.hash") == "", "the token stays in the address"
            browser.run(HOLD_THE_CLOCK)
            say(browser, "write it down")
            browser.until("document.querySelector('.ask[data-in-view]') !== null")
            asked = seen(browser, ".ask")
            assert "Allow write to change this file?" in asked
            assert "Allow write on note.txt, until you leave" in asked
            assert "+a stone remembers" in asked
            assert browser.run("document.querySelector('.answer strong').textContent") == "it"
            decides_nothing(browser)
            browser.run("document.querySelector('.ask button').click()")
            waits(browser, "It is written.")
            browser.until("document.getElementById('stop').hidden")
            assert browser.run("document.querySelector('.ask') === null"), "an answered question"
            assert "write: Allowed on the page with key, " in seen(browser)
            below = "document.querySelector('.tool').nextElementSibling.textContent"
            assert browser.run(below).startswith("write: Allowed"), "it stands under its call"
            assert "<script>document.title" in seen(browser)
            assert browser.run("document.querySelectorAll('#talk script, #talk img').length") == 0
            links = "Array.from(document.querySelectorAll('#talk a')).map((a) => a.protocol)"
            assert "javascript:" not in browser.run(links)
            assert "of" in seen(browser, "#panel .big")
            assert "message history" in seen(browser, "#panel")
            asyncio.run(in_the_terminal())
            waits(browser, "said in the terminal")
            waits(browser, "From the terminal.")
            assert "via python" in seen(browser)
            browser.run("document.getElementById('query').focus()")
            browser.type("a stone remembers", enter=True)
            browser.until("document.querySelector('#found .card') !== null")
            assert "agent:default:main · line " in seen(browser, "#found")
            browser.run("document.querySelector('#found .card').click()")
            browser.until("document.querySelector('.shown') !== null")
            browser.run("document.getElementById('found').close()")
            for width, phone in ((1280, False), (390, True)):
                browser.size(width, 844, phone=phone)
                wide = "document.documentElement.scrollWidth <= innerWidth"
                assert browser.run(wide), f"the page is wider than {width}"
                assert browser.run("document.getElementById('text').offsetWidth > 150")
            assert browser.run("document.title") == "agent:default:main · MindStone"
            assert not browser.complaints
            assert all(url.startswith(served.url) for url in browser.requests)

    async def in_the_terminal() -> None:
        async with mindstone_tui.open(session="main", home=home) as app:
            async for _ in app.ask("said in the terminal"):
                pass

    async with residing(home, tmp_path, *replies) as served:
        await asyncio.to_thread(drive, served)
        check_history(served.places())
        (line,) = api.log(session="main", kinds=("tool_answered",), home=served.home)
        assert isinstance(line, Line)
        assert isinstance(line.entry, ToolAnswered)
        assert (line.channel, line.entry.how, line.entry.seen > 0) == ("web", "key", True)
    assert await asyncio.to_thread((tmp_path / "note.txt").exists)


@pytest.mark.thorough
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_each_call_has_a_place_of_its_own_where_a_model_names_all_of_them_alike(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"this is {name}\n")
    wishes = [("read", "a.txt"), ("read", "b.txt"), ("write", "c.txt"), ("read", "a.txt")]
    first, second, third, fourth = (
        {"text": "", "tool_calls": [{"id": "call_1", "name": name, "arguments": given}]}
        for name, path in wishes
        for given in [{"path": path} | ({"content": "c"} if name == "write" else {})]
    )
    replies = (first, second, third, {"text": "One."}, fourth, {"text": "Two."})

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.run(HOLD_THE_CLOCK)
            say(browser, "look and write")
            browser.until("document.querySelector('.ask[data-in-view]') !== null")
            assert "buttons work in a second" in seen(browser, ".ask")
            browser.run("second(); document.querySelector('[data-choice=deny]').click()")
            waits(browser, "One.")
            say(browser, "look again")
            waits(browser, "Two.")
            cards = "Array.from(document.querySelectorAll('.tool'))"
            told = (
                "[one.querySelector('.what').innerText.split(' ').pop(), one.dataset.state].join()"
            )
            drawn = browser.run(f"{cards}.map((one) => {told})")
            assert drawn == ["a.txt,ok", "b.txt,ok", "c.txt,refused", "a.txt,ok"]
            held = f"{cards}[1].querySelector('.result').textContent"
            assert "this is b.txt" in browser.run(held)

    async with residing(home, tmp_path, *replies) as served:
        await asyncio.to_thread(drive, served)


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_what_is_said_before_the_page_listens_is_drawn_as_well(
    home: Path, tmp_path: Path
) -> None:
    slow = (
        "{ const real = fetch; window.fetch = async (path, more) => { if (path.includes('events'))"
        " await new Promise((go) => { window.go = go; }); return real(path, more); }; }"
    )

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.run(f"{slow} open('main')")
            browser.until("typeof window.go === 'function'")
            say(browser, "which port?")
            browser.run("fetch('/page/sessions').then(() => go())")
            waits(browser, "Port 8443.")
            assert "which port?" in seen(browser)

    async with residing(home, tmp_path) as served:
        await asyncio.to_thread(drive, served)


@pytest.mark.thorough
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_the_page_explains_a_command_once_and_declines_it_with_a_reason(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.run(HOLD_THE_CLOCK)
            browser.run("document.getElementById('found').showModal()")
            browser.run("begun.then(() => call('/page/send', { session, text: 'clean up' }))")
            browser.until("document.querySelector('.ask') !== null")
            browser.run("let n = 0; (function next() { n += 1; requestAnimationFrame(next); })()")
            browser.until("n > 5")
            assert browser.run("document.querySelector('.ask[data-in-view]') === null"), "covered"
            browser.run("document.getElementById('found').close()")
            browser.until("document.querySelector('.ask[data-in-view]') !== null")
            asked = seen(browser, ".ask")
            assert "Run this shell command? · deletes" in asked
            assert asked.count("mkdir -p out && rm -rf build") == 1
            assert "deletes  rm -rf build (" in asked
            assert "commands and changes are asked about" in asked
            assert browser.run("document.title").startswith("? "), "another tab would not tell"
            browser.run("second()")
            browser.run("document.querySelector('[data-choice=why]').click()")
            browser.until("document.activeElement.tagName === 'INPUT'")
            browser.type("use git clean instead", enter=True)
            waits(browser, "All is well.")
            assert "with enter" in seen(browser)
            waits(browser, "Approvals of this turn: 1 declined (/why turn 1)")
            assert browser.run("document.title") == "agent:default:main · MindStone"

    wish = calls(("shell", {"command": "mkdir -p out && rm -rf build"}))
    async with residing(home, tmp_path, wish, {"text": "All is well."}) as served:
        await asyncio.to_thread(drive, served)
        (line,) = api.log(session="main", kinds=("tool_refused",), home=served.home)
        assert "use git clean instead" in str(line)


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_the_page_lists_what_waits_in_any_session_and_follows_the_browser_in_the_dark(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            shown = "document.documentElement.dataset.theme"
            for scheme in ("light", "dark", "light"):
                browser.prefer(scheme)
                browser.until(f"{shown} === '{scheme}'")
            browser.run("for (let n = 0; n < 3; n++) document.getElementById('theme').click()")
            browser.prefer("dark")
            assert browser.run(shown) == "contrast", "a person chose it"
            browser.run("document.getElementById('waiting').click()")
            assert "1 decision waits for you, asked just now" in seen(browser, "#found")
            assert "/memory approve " in seen(browser, "#found")
            browser.run("document.querySelector('#found .card').click()")
            browser.until("document.title.includes('agent:default:other')")
            browser.until("document.querySelector('.ask[data-in-view]') !== null")
            assert "The staging port is 8790." in seen(browser, ".ask")
            assert browser.run("document.getElementById('text').value") == ""
            browser.until("!document.querySelector('[data-choice=deny]').disabled")
            browser.run("document.querySelector('[data-choice=deny]').click()")
            waits(browser, "is refused.")

    async with residing(home, tmp_path) as served:
        async with mindstone_tui.open(session="other", home=home) as app:
            async for _ in app.ask("/memory add The staging port is 8790."):
                pass
        await asyncio.to_thread(drive, served)


async def test_the_page_has_a_policy_and_nothing_on_it_needs_another_host(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, served.client() as client:
        for path in ("/", "/page.js", "/page.css", "/icon.svg"):
            answer = await client.get(path, headers={"authorization": ""})
            assert answer.status_code == 200
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.text.count("http") == answer.text.count("http://www.w3.org/2000/svg")
            assert "set-cookie" not in answer.headers
        for path in (
            "/page/sessions",
            "/page/history",
            "/page/events",
            "/page/search?query=x",
            "/page/around",
        ):
            assert (await client.get(path, headers={"authorization": ""})).status_code == 401
        assert (await client.post("/page/send", json={"text": " "})).status_code == 400
        late = await client.post("/page/answer", json={"call": "c9", "choice": "allow-0"})
        assert late.status_code == 400
        assert "no longer open" in late.json()["error"]["message"]


async def test_a_session_goes_on_from_the_page_in_the_folder_where_it_was_begun(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    async with residing(home, tmp_path, REMOVES) as served, served.client() as client:
        async with mindstone_tui.open(session="main", home=home, cwd=work) as app:
            async for _ in app.ask("/title Cleaning"):
                pass
        async with asked_on_the_page(served):
            (line,) = api.log(session="main", kinds=("tool_asked",), home=served.home)
            assert isinstance(line, Line)
            assert isinstance(line.entry, ToolAsked)
            assert line.entry.folder == str(work)
        async with mindstone_tui.open(session="lost", home=home, cwd=work) as app:
            async for _ in app.ask("/title Lost"):
                pass
        work.rmdir()
        told = await client.post("/page/send", json={"session": "lost", "text": "go on"})
        assert told.status_code == 400
        assert f"works in {work}, which is not there" in told.json()["error"]["message"]


async def test_a_search_on_the_page_takes_filters_among_its_words(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, served.client() as client:
        transcript = builders.transcript_in(home, "agent:default:foreign")
        builders.say(transcript, "which port does staging use?", "Staging uses port 8443.")
        transcript.append(SessionDescribed(program="codex", title="Ports", folder="/work/api"))
        transcript.close()

        async def found(typed: str) -> tuple[list[str], list[str]]:
            told = (await client.get("/page/search", params={"query": typed})).json()
            return (
                [one["session"] for one in told["sessions"]],
                [hit["session"] for hit in told["hits"]],
            )

        key = "agent:default:foreign"
        assert await found("staging port") == ([], [key])
        assert await found("program:codex project:api") == ([key], [])
        assert await found("program:codex staging port role:user") == ([key], [key])
        assert await found("program:claude staging port") == ([], [])
        with contextlib.closing(builders.transcript_in(home, key)) as transcript:
            transcript.append(StatementSuperseded(statement=3, by=9), turn=1)
        told = (await client.get("/page/search", params={"query": "staging 8443"})).json()
        replaced = {hit["line"]: hit["replaced"] for hit in told["hits"]}
        assert replaced[3] == "superseded by #9"
        wrong = await client.get("/page/search", params={"query": "since:someday port"})
        assert wrong.status_code == 400
        assert "someday is not a date" in wrong.json()["error"]["message"]


async def test_the_page_marks_what_was_rewound_and_what_was_cut_off(
    home: Path, tmp_path: Path
) -> None:
    with contextlib.closing(builders.transcript_in(home)) as transcript:
        builders.say(transcript, "first", "kept")
        builders.say(transcript, "second", "taken back")
        state = WindowState(through=transcript.head.seq)
        by = transcript.append(Rewound(to_turn=1, state=state)).seq
        transcript.append(TurnStarted(), turn=3)
        transcript.append(UserMessage(text=" third\u200d "), turn=3)
        transcript.append(AssistantPartial(text="cut", model="test", why="killed"), turn=3)
    async with residing(home, tmp_path) as served, served.client() as client:
        told = (await client.get("/page/history", params={"session": "main"})).json()["items"]
    stands = {
        one.get("text") or one["html"].strip(): one["marks"] for one in told if "marks" in one
    }
    assert stands == {
        "first": [],
        "<p>kept</p>": [],
        "second": [f"rewound by #{by}"],
        "<p>taken back</p>": [f"rewound by #{by}"],
        " third\u200d ": [],
        "<p>cut</p>": ["interrupted"],
    }


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_a_decision_that_was_rewound_is_drawn_as_rewound(home: Path, tmp_path: Path) -> None:
    with contextlib.closing(builders.transcript_in(home)) as transcript:
        builders.say(transcript, "first", "kept")
        turn = builders.say(transcript, "second", "taken back")
        refused = MemoryDecided(proposal="m1", decision="refused", by=f"{BY_CORRECTION}1")
        transcript.append(refused, turn=turn)
        state = WindowState(through=transcript.head.seq)
        by = transcript.append(Rewound(to_turn=1, state=state)).seq

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.until("document.querySelector('.note.rewound') !== null")
            assert f"rewound by #{by}" in browser.run(
                "document.querySelector('.note.rewound').textContent"
            )

    async with residing(home, tmp_path) as served:
        await asyncio.to_thread(drive, served)


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_what_is_found_says_how_it_stands_and_when_it_was_said_where_the_reader_is(
    home: Path, tmp_path: Path
) -> None:
    with contextlib.closing(builders.transcript_in(home, "agent:default:old")) as transcript:
        builders.say(transcript, "which port does staging use?", "Staging uses port 8443.")
        builders.say(transcript, "No, staging uses port 8444, not 8443.", "Noted.")
        transcript.append(StatementSuperseded(statement=3, by=6), turn=2)
        with transcript.history() as history:
            said = datetime.fromisoformat(history.line(3).ts)
    there = said.astimezone(ZoneInfo("Pacific/Auckland"))

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.move("Pacific/Auckland")
            browser.run("search('staging 8443')")
            card = "Array.from(document.querySelectorAll('#found .card')).find((one) =>"
            card += " one.innerText.includes('line 3'))"
            for shown in (card, "document.querySelector('#found .quoted.shown')"):
                browser.until(f"!!{shown}")
                told = browser.run(f"{shown}.innerText")
                assert "superseded by #6" in told
                assert f"{there:%Y-%m-%d %H:%M}" in told
                browser.run(f"{shown}.click()")

    async with residing(home, tmp_path) as served:
        await asyncio.to_thread(drive, served)


async def test_a_page_is_drawn_again_when_something_that_it_shows_is_superseded(
    home: Path,
) -> None:
    with contextlib.closing(builders.transcript_in(home)) as transcript:
        builders.say(transcript, "The API port is 8765.", "Noted.")
        line = transcript.append(StatementSuperseded(statement=2, by=9), turn=1)
    assert list(items_of_line(line, Standings())) == [ANEW], "written by another surface"
    (event,) = announcements(line)
    assert list(items_of(event)) == [ANEW], "or by this one"


class AtTerminal:
    """`mindstone run` in another process, while a turn of the page waits."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.errors = ""

    async def __aenter__(self) -> AtTerminal:
        command = [sys.executable, "-m", "mindstone_tui", "run", *self._words]
        self.process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def told(self, words: str) -> str:
        """The line on stderr with these words, once it is there."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while line := (await self.process.stderr.readline()).decode():
                self.errors += line
                if words in line:
                    return line
        raise AssertionError(f"never said {words!r}, but {self.errors}")

    async def ends(self) -> tuple[int, str]:
        async with asyncio.timeout(PATIENCE):
            out, rest = await self.process.communicate()
        self.errors += rest.decode()
        return self.process.returncode or 0, out.decode()


@contextlib.asynccontextmanager
async def asked_on_the_page(served: Residence) -> AsyncIterator[None]:
    """A turn of the page that waits for an answer, with a browser that looks for as long."""
    watch = "/page/events?session=main"
    async with served.client() as client, client.stream("GET", watch) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        sent = await client.post("/page/send", json={"session": "main", "text": "clean up"})
        assert sent.status_code == 200
        async for line in lines:
            if line.startswith("data: ") and json.loads(line[6:])["type"] == "ask":
                break
        yield


REMOVES = calls(("shell", {"command": "rm -rf build"}), text="I will clean up.")


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["a command", "a flag", "no waiting"])
async def test_a_question_on_a_closed_page_is_named_to_who_waits_and_can_be_declined(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    named = "The page asked just now whether to run `rm -rf build`, and waits for an answer"
    replies = (REMOVES, {"text": "All is well."})
    async with residing(home, tmp_path, *replies) as served:
        async with asked_on_the_page(served):
            async with AtTerminal("-q", "hello", "--no-wait") as refused:
                await refused.told(named)
                assert (await refused.ends())[0] == 1
            async with AtTerminal("-q", "/answer yes") as forward:
                assert (await forward.ends())[0] != 0, "a yes from where nobody saw the question"
            if how == "no waiting":
                return
            flag = ("--decline",) if how == "a flag" else ()
            run = await AtTerminal("-q", "hello", *flag).__aenter__()
            line = await run.told(named)
            assert '`mindstone run -s main "/answer no #' in line
            assert "any more" not in line
        if how == "a command":
            await run.told("nobody looks at it there any more")
            async with AtTerminal("-q", "/answer no not today") as answer:
                code, out = await answer.ends()
                assert (code, "Declined: rm -rf build" in out) == (0, True)
        code, out = await run.ends()
        assert (code, out.strip()) == (0, "All is well."), run.errors
        lines = api.log(session="main", kinds=("tool_refused",), home=served.home)
        why = "not today" if how == "a command" else ""
        (refused_call,) = (line.entry for line in lines if isinstance(line, Line))
        assert isinstance(refused_call, ToolRefused)
        assert (refused_call.by, refused_call.why) == ("person", why)
        kinds = ("tool_asked", "tool_answered")
        wish, given = api.log(session="main", kinds=kinds, home=served.home)
        assert isinstance(wish, Line)
        assert isinstance(given, Line)
        assert isinstance(given.entry, ToolAnswered)
        assert (given.entry.asked, bool(given.entry.how)) == (wish.ts, True)
        check_history(served.places())


@pytest.mark.thorough
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_the_page_counts_what_the_app_decides_once_and_keeps_no_question_that_is_over(
    home: Path, tmp_path: Path
) -> None:
    wish = {"id": "call_1", "name": "shell"}
    first = {"tool_calls": [{**wish, "arguments": {"command": "rm -rf build"}}]}
    other = {"tool_calls": [{**wish, "arguments": {"command": "rm -rf src"}}]}

    def drive(served: Residence, app: Driven) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.run(HOLD_THE_CLOCK)
            app.say("clean up")
            browser.until("document.querySelector('.ask[data-in-view]') !== null")
            browser.run("second(); window.late = document.querySelector('[data-choice=allow-0]')")
            app.decline()
            waits(browser, "Approvals of this turn: 1 declined (/why turn 1)")
            app.say("clean up more")
            browser.until("document.querySelector('.ask[data-in-view]') !== null")
            assert "rm -rf src" in seen(browser, ".ask")
            browser.run("late.click()")
            waits(browser, "That question is no longer open.")
            assert "rm -rf src" in seen(browser, ".ask")
            browser.run("second(); document.querySelector('[data-choice=why]').click()")
            browser.type("not on a ")
            app.decline()
            waits(browser, "Approvals of this turn: 1 declined (/why turn 2)")
            browser.type("Friday", enter=True)  # that Enter was meant to decline
            assert browser.run("document.getElementById('text').value") == "not on a Friday"
            assert "not on a Friday" not in seen(browser), "it was sent"

    replies = (first, {"text": "Well."}, other, {"text": "Well."})
    async with residing(home, tmp_path, *replies) as served:
        talk = await api.connect("main", home=served.home, cwd=tmp_path, channel="tui", asks=True)
        app = Driven(talk, asyncio.get_running_loop())
        await asyncio.to_thread(drive, served, app)
        await app.close()
        given = api.log(session="main", kinds=("tool_answered",), home=served.home)
        assert [line.channel for line in given if isinstance(line, Line)] == ["tui", "tui"]


class Driven:
    """A session that another thread uses as a person does."""

    def __init__(self, talk: api.Conversation, loop: asyncio.AbstractEventLoop) -> None:
        self._talk = talk
        self._loop = loop
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._listener = loop.create_task(self._listen())

    async def _listen(self) -> None:
        async for event in self._talk.events():
            if isinstance(event, ev.ToolAsked):
                self._asked.put(event.call)

    def say(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self._talk.send, text)

    def until_asked(self) -> None:
        self._asked.put(self._asked.get(timeout=PATIENCE))

    def decline(self) -> None:
        call = self._asked.get(timeout=PATIENCE)
        self._loop.call_soon_threadsafe(self._talk.answer, call, ev.Answer(allowed=False))

    async def close(self) -> None:
        await self._talk.close()
        await self._listener


async def test_what_the_page_asks_while_a_message_of_the_app_waits_is_answered_in_the_app(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    late = {**REMOVES, "delay_ms": 1_500}
    async with residing(home, tmp_path, late, {"text": "All is well."}) as served:
        app = await api.connect("main", home=served.home, channel="tui", asks=True)
        async with served.client() as client, asyncio.timeout(PATIENCE):
            await client.post("/page/send", json={"session": "main", "text": "clean up"})
            queued, answered = False, False
            async for event in app.events():
                match event:
                    case ev.EntryAppeared(role="user") if not queued:
                        app.send("mine, after that")
                        queued = True
                    case ev.ToolAsked(call=call, channel=channel):
                        assert (queued, channel) == (True, "web")
                        app.answer(call, ev.Answer(allowed=False))
                        answered = True
                    case ev.TurnStarted():
                        break
            assert answered
            await app.close()


async def test_what_is_written_between_history_and_the_stream_is_told_once(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with residing(home, tmp_path, {"text": "Noted."}, {"text": "Well."}) as served:
        app = await api.connect("main", home=served.home, channel="tui")
        async with served.client() as client, asyncio.timeout(PATIENCE):
            told = (await client.get("/page/history", params={"session": "main"})).json()
            app.send("said in between")
            await app.settled()
            after = {"session": "main", "after": told["head"]}
            seen: list[dict[str, Any]] = []
            async with client.stream("GET", "/page/events", params=after) as stream:
                async for line in stream.aiter_lines():
                    item = json.loads(line.removeprefix("data: ")) if line[:5] == "data:" else {}
                    seen += [item] if item.get("entry") else []
                    if item.get("type") == "ended":
                        break
            drawn = {item["entry"]: item["type"] for item in seen}
            assert list(drawn.values()) == ["user", "answer"]
            await app.close()


@pytest.mark.thorough
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_the_page_keeps_what_was_decided_and_written_and_gives_queued_words_back(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.run(HOLD_THE_CLOCK)
            say(browser, "clean up")
            browser.until("document.querySelector('.ask[data-in-view]') !== null")
            for wide, high in ((780, 600), (900, 700), (390, 844)):
                browser.size(wide, high)
                assert browser.run(FITS), f"it does not fit {wide} pixels"
            for text in ("and then?", "and last?"):
                say(browser, text)
                waits(browser, f"Queued: {text}")
            text = "document.getElementById('text').value"
            browser.run("document.querySelectorAll('.queued button')[1].click()")
            browser.until(f"{text} === 'and last?' && !{QUEUED}.includes('and last?')")
            browser.run(
                f"{text} = ''; second(); document.querySelector('[data-choice=why]').click()"
            )
            browser.type("use git clean")
            browser.run(ESCAPE)
            browser.run("document.querySelector('[data-choice=why]').click()")
            browser.until("document.activeElement.value === 'use git clean'")
            browser.enter()
            waits(browser, "Next.")
            assert "and then?" not in browser.run(QUEUED), "it has its turn"
            assert browser.run("document.querySelector('.tool .state').textContent") == "declined"
            told = "shell: Declined on the page with enter"
            assert told in seen(browser)
            browser.run("window.before = true; location.reload()")
            browser.until("!window.before && document.querySelector('#talk .answer') !== null")
            waits(browser, "Next.")
            assert seen(browser).count(told) == 1
            assert "(use git clean)" in seen(browser)

    wish = calls(("shell", {"command": "rm -rf build"}))
    replies = (wish, {"text": "All is well."}, {"text": "Next."})
    async with residing(home, tmp_path, *replies) as served:
        await asyncio.to_thread(drive, served)


SENT = """{ const real = window.fetch; window.sent = []; window.refuse = false;
    window.fetch = (where, given) => {
        if (!String(where).includes("/page/send")) return real(where, given);
        sent.push(JSON.parse(given.body).writing);
        return window.refuse ? Promise.reject(new Error("gone")) : real(where, given);
    }; }"""


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_the_page_says_since_when_a_command_was_written_however_it_came_there(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.run(SENT)
            later = "{ const now = Date.now; Date.now = () => now() + 60000; } refuse = %s; 0"
            browser.run("document.getElementById('text').focus()")
            browser.type(" /cont")
            browser.run(later % "true")
            browser.type("ext", enter=True)
            browser.until("sent.length === 1")
            browser.until("document.getElementById('text').value === ' /context'")
            browser.run(later % "false")
            browser.enter()
            browser.until("sent.length === 2")
            assert [60 <= one < 180 for one in browser.run("sent.map(Math.floor)")] == [True] * 2
            assert browser.run("sent[1] >= 120")
            browser.type("/status", enter=True)
            browser.until("sent.length === 3")
            assert browser.run("sent[2] < 60"), "that was begun anew"

    async with residing(home, tmp_path, {"text": "All is well."}) as served:
        await asyncio.to_thread(drive, served)


AXE = ROOT / ".counterparts" / "node_modules" / "axe-core" / "axe.min.js"
JUDGED = """axe.run().then((said) => { window.judged = said.violations.map((one) =>
    `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`); })"""


def broken(browser: Browser) -> list[str]:
    """What keeps people from using the page as it is, in either colours."""
    found = []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.until(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
        browser.run("delete window.judged")
        browser.run(f"{JUDGED}; 0")
        browser.until("window.judged !== undefined")
        found += [f"{scheme}: {one}" for one in browser.run("window.judged")]
    return found


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not fetched: make counterparts")
async def test_a_screen_reader_and_a_keyboard_meet_nothing_that_axe_objects_to(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = calls(("write", {"path": "note.txt", "content": "a stone remembers\n"}), text=HOSTILE)
    page = tmp_path / "page.html"

    def drive(served: Residence) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.run(AXE.read_text())
            browser.size(1280, 844)
            assert broken(browser) == []
            say(browser, "write it down")
            browser.until("document.querySelector('.ask[data-in-view]') !== null")
            browser.until("!document.querySelector('.ask button').disabled")
            for width, phone in ((1280, False), (780, False), (390, True)):
                browser.size(width, 844, phone=phone)
                assert broken(browser) == []
            browser.run("document.querySelector('.ask button').click()")
            waits(browser, "It is written.")
            browser.run("document.getElementById('query').focus()")
            browser.type("a stone remembers", enter=True)
            browser.until("document.querySelector('#found .card') !== null")
            assert broken(browser) == []
            browser.run("document.getElementById('found').close()")
            assert broken(browser) == []

    async with residing(home, tmp_path, wanted, {"text": "It is written."}) as served:
        await asyncio.to_thread(drive, served)
        exported = await asyncio.to_thread(mindstone_here, "export", "-f", "html", "-o", str(page))
        assert exported.returncode == 0, exported.stderr
    with chromium(PROGRAM or "", tmp_path / "other profile") as browser:
        browser.open(page.as_uri())
        browser.run(AXE.read_text())
        for width, phone in ((1280, False), (390, True)):
            browser.size(width, 844, phone=phone)
            assert broken(browser) == []


def test_the_page_lets_go_of_what_another_surface_took_back() -> None:
    for channel, drawn in (("web", 1), ("tui", 0)):
        queued = msgspec.structs.replace(
            builders.line_of(MessageQueued(text="later")), channel=channel
        )
        assert len(list(items_of_line(queued, Standings()))) == drawn, "what waits there is theirs"
        back = msgspec.structs.replace(
            builders.line_of(MessageWithdrawn(queued="q")), channel=channel
        )
        assert [one["type"] for one in items_of_line(back, Standings())] == ["withdrawn"]


async def test_words_that_were_never_sent_are_told_to_the_first_who_looks(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    transcript = builders.transcript_in(home)
    builders.say(transcript, "which port?", "Port 8443.")
    transcript.append(MessageQueued(text="queued before the stop"))
    transcript.close()
    async with residing(home, tmp_path) as served, served.client() as client:
        heard: list[str] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await client.get("/page/history", params={"session": "main"})
                where = {"session": "main", "after": "1000"}
                async with client.stream("GET", "/page/events", params=where) as stream:
                    async for line in stream.aiter_lines():
                        heard.append(line)
                        if "queued before the stop" in line:
                            break
        assert any("queued before the stop" in line for line in heard), heard


async def test_what_a_browser_gave_up_is_not_done_when_it_arrives_later(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, served.client() as client:

        async def post(path: str, **told: str) -> bool:
            reply = await client.post(f"/page/{path}", json={"session": "main", **told})
            assert reply.status_code == 200
            return bool(reply.json()["done"])

        assert await post("became", instead="a") is False
        await post("send", text="given up", once="a")
        await post("send", text="/name kept", once="b")
        await post("send", text="/name changed", once="b")
        assert await post("became", instead="b"), "it was done"
        assert await post("became", instead="a") is False
        await post("send", text="the only one", once="c")
        async with asyncio.timeout(PATIENCE):
            while "turn_ended" not in served.kinds():  # noqa: ASYNC110
                await asyncio.sleep(0)
        lines = api.log(session="main", kinds=("user_message",), home=served.home)
        said = [line.entry for line in lines if isinstance(line, Line)]
        assert [one.text for one in said if isinstance(one, UserMessage)] == ["the only one"]


async def test_what_came_of_an_undo_on_the_page_is_told_in_the_app_that_answered_it(
    home: Path, tmp_path: Path
) -> None:
    wish = calls(("write", {"path": "note.txt", "content": "x\n"}))
    async with residing(home, tmp_path, wish, {"text": "Well."}) as served:
        app = await api.connect("main", home=served.home, cwd=tmp_path, channel="tui", asks=True)
        async with served.client() as client, asyncio.timeout(PATIENCE):
            app.send("write it down")
            ended, told = False, ""
            async for event in app.events():
                match event:
                    case ev.ToolAsked(call=call):
                        app.answer(call, ev.Answer(allowed=True))
                    case ev.TurnEnded():
                        with (tmp_path / "note.txt").open("a") as note:
                            note.write("mine\n")
                        undo = {"session": "main", "text": "/undo"}
                        assert (await client.post("/page/send", json=undo)).status_code == 200
                    case ev.ToolEnded(name="undo", status=status):
                        ended = status == "ok"
                    case ev.EntryAppeared(kind="files_restored", text=told):
                        break
            assert ended, "its question stands there for ever"
            assert "Changes of turn 1 taken back: 1 file" in told
            history = (await client.get("/page/history?session=main")).json()["items"]
            assert told in [item.get("text") for item in history]
            await app.close()
