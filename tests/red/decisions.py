"""Hands that were not meant to decide, at a question that is open: nothing runs, and it stays."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import httpx

from tests.faults.decision_kills import SESSION, Browser, Crew, LineChat, crew
from tests.red import Case, Tried
from tests.red.apart import set_environment

Hand = Callable[[Crew, str], object]
PASTED = b"a list:\nyes\nno: because\n!echo x >> ran\nyes\n"


def decisions(tried: Tried) -> Iterator[Case]:
    """Every hand at an open question, then surfaces that are killed around one."""
    work = tried.folder("work")
    set_environment(tried.base / "home")
    with crew(tried.base / "home", work, seed=11) as around:
        around.gather()
        call = around.asked_by("the resident")
        for name, hand in tried.some(list(HANDS.items())):
            hand(around, call)
            yield Case(name, _problem(around, call))
        page = around.surface("the resident")
        page.answer(call, yes=False)
        around.finish(call)
        _post(page, {"session": SESSION, "call": call, "choice": "allow-0"})
        late = len(around.since(call, "tool_answered")) > 1
        yield Case("a click on a question that is over", "it was written" if late else "")
        for number in range(tried.sized(1, 30)):
            try:
                name, problem = around.try_one(), ""
            except AssertionError as error:
                name, problem = f"kill {number}", str(error)[:200]
            yield Case(name, problem)


def _problem(around: Crew, call: str) -> str:
    if around.since(call, "tool_answered", "tool_approved"):
        return "it decided"
    return "" if [each for each in around.waiting() if each.call == call] else "it is not listed"


def _piped(around: Crew, *words: str) -> None:
    page = around.surface("the resident")
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    page.command(*words, **given).communicate(b"yes\nyes\n", timeout=60)


def _post(page: object, told: dict[str, str], **headers: str) -> int:
    assert isinstance(page, Browser)
    return page.client.post("/page/answer", json=told, headers=headers).status_code


def _yes(around: Crew, call: str, **headers: str) -> None:
    told = {"session": SESSION, "call": call, "choice": "allow-0"}
    code = _post(around.surface("the resident"), told, **headers)
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
    body = {"session": SESSION, "call": call, "choice": "allow-0"}
    told = httpx.post(f"{page.url}/page/answer", json=body, timeout=60)
    assert told.status_code == 401, told.status_code


HANDS: dict[str, Hand] = {
    "a yes from a pipe": lambda around, call: _piped(around, "waiting", "answer", "1", "yes"),
    "a yes from `run`": lambda around, call: _piped(around, "run", "-q", "/answer yes"),
    "lines that are pasted into the line chat": _paste,
    "keys that are held down": _hold,
    "a click without the token": _strange,
    "a click from another site": lambda around, call: _yes(
        around, call, origin="https://evil.example"
    ),
    "a click on a call that never was": lambda around, call: _yes(around, f"{call}-not"),
}
