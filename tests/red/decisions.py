"""Hands that were not meant to decide, at a question that is open: nothing runs, and it stays."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import httpx

from tests.builders import places_in
from tests.core.session.stage import script
from tests.faults.decision_kills import (
    SESSION,
    Browser,
    Crew,
    LineChat,
    Waiting,
    crew,
    lines_in,
    wait_for,
)
from tests.red import Case, Tried
from tests.red.apart import set_environment

Hand = Callable[[Crew, str], object]
PASTED = b"a list:\nyes\nno: because\n!echo x >> ran\nyes\n"


def decisions(tried: Tried) -> Iterator[Case]:
    """Every hand at an open question, then surfaces that are killed around one."""
    work = tried.folder("work")
    set_environment(tried.base / "home")
    os.environ["MINDSTONE_SESSION__DEFAULT"] = SESSION  # not one of each folder
    with crew(tried.base / "home", work, seed=11) as around:
        around.gather()
        call = around.asked_by("the resident")
        _type(around, b"y\ty\r")
        yield Case("letters typed into an opening", _problem(around, call))
        for name, hand in tried.some(list(HANDS.items())):
            hand(around, call)
            yield Case(name, _problem(around, call))
        page, over = around.surface("the resident"), _click(around, call)
        page.answer(call, yes=False)
        around.finish(call)
        _post(page, over)
        late = len(around.since(call, "tool_answered")) > 1
        yield Case("a click on a question that is over", "it was written" if late else "")
        call = around.asked_by("the resident")
        again = "" if call == over["call"] and _post(page, over) == 400 else "it was taken"
        problem = again or _problem(around, call)
        yield Case("a click that was meant for an earlier question of the same call", problem)
        page.answer(call, yes=False)
        around.finish(call)
        for number in range(tried.sized(1, 30)):
            try:
                name, problem = around.try_one(), ""
            except AssertionError as error:
                name, problem = f"{around.trying} ({number})", str(error)[:200]
            yield Case(name, problem)
    yield Case("a yes to a change of a file that is another by now", _changed(tried))


def _changed(tried: Tried) -> str:
    """Take up an edit that was asked about, after somebody else wrote to its file."""
    home, work = tried.base / "other", tried.folder("other-work")
    set_environment(home)
    home.mkdir(exist_ok=True)
    edit = {"name": "edit", "arguments": {"path": "a.txt", "old": "old", "new": "new"}}
    model = script(work, {"text": "", "tool_calls": [edit]}, {"text": "Done."}, loop=True)
    (home / "config.toml").write_text(f'[models]\ndefault = "{model}"\n')
    (work / "a.txt").write_text("an old line\n")
    chat, answer, places = LineChat(home, work), Waiting(home, work), places_in(home)
    try:
        chat.start()
        chat.ask()
        wait_for(lambda: places.transcript.exists() and lines_in(places, "tool_asked"), "it asks")
        chat.kill()
        (work / "a.txt").write_text("an old line, and one more\n")
        answer.start()
        answer.answer("", yes=True)
        wait_for(lambda: lines_in(places, "tool_returned", "turn_ended"), "it is over")
    finally:
        chat.kill()
        answer.kill()
    if lines_in(places, "tool_approved") or "new" in (work / "a.txt").read_text():
        return "it was changed"
    return ""


def _problem(around: Crew, call: str) -> str:
    if around.since(call, "tool_answered", "tool_approved"):
        return "it decided"
    return "" if [each for each in around.waiting() if each.call == call] else "it is not listed"


def _piped(around: Crew, *words: str) -> None:
    page = around.surface("the resident")
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    page.command(*words, **given).communicate(b"yes\nyes\n", timeout=60)


def _click(around: Crew, call: str) -> dict[str, str]:
    """What the page says when somebody clicks on the newest question."""
    since = around.lines("tool_asked")[-1]["ts"]
    return {"session": SESSION, "call": call, "since": since, "choice": "allow-0"}


def _type(around: Crew, keys: bytes) -> None:
    around.surface("the app").terminal.type(keys)  # type: ignore[attr-defined]


def _post(page: object, told: dict[str, str], **headers: str) -> int:
    assert isinstance(page, Browser)
    return page.client.post("/page/answer", json=told, headers=headers).status_code


def _yes(around: Crew, call: str, **headers: str) -> None:
    code = _post(around.surface("the resident"), _click(around, call), **headers)
    assert code in (400, 401, 403, 404), code


def _paste(around: Crew, call: str) -> None:
    chat = around.surface("the line chat")
    assert isinstance(chat, LineChat)
    before = len(chat.terminal.seen)
    chat.terminal.type(PASTED)
    chat.says(before, b"still open")


def _hold(around: Crew, call: str) -> None:
    """Keys that are held down, in the app and in lines."""
    for name, keys in (
        ("the app", b"y" * 60),
        ("the app", b"n" * 60),
        ("the line chat", b"\n" * 5),
    ):
        terminal = around.surface(name).terminal  # type: ignore[attr-defined]
        terminal.type(keys)


def _strange(around: Crew, call: str) -> None:
    page = around.surface("the resident")
    assert isinstance(page, Browser)
    told = httpx.post(f"{page.url}/page/answer", json=_click(around, call), timeout=60)
    assert told.status_code == 401, told.status_code


HANDS: dict[str, Hand] = {
    "a yes from a pipe": lambda around, call: _piped(around, "waiting", "answer", "1", "yes"),
    "a yes from `run`": lambda around, call: _piped(around, "run", "-q", "/answer yes"),
    "lines that are pasted into the line chat": _paste,
    "a yes that is pasted into the app": lambda around, call: _type(
        around, b"\x1b[200~yes\ty\n\x1b[201~"
    ),
    "keys that are held down": _hold,
    "a click without the token": _strange,
    "a click from another site": lambda around, call: _yes(
        around, call, origin="https://evil.example"
    ),
    "a click on a call that never was": lambda around, call: _yes(around, f"{call}-not"),
}
