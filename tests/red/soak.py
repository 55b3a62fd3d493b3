"""Thousands of turns in one session through a real server, with tools, prunes and faults.

Nothing may grow but history, and nothing that was said may be lost: every question stands in the
transcript once, every whole answer with it, and the chain and the requests can be verified.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.replay.verify_requests import prove
from mindstone_tui.core.session.build import open_session
from mindstone_tui.core.session.session import Session
from mindstone_tui.core.transcript import History, verify
from tests.core.recall.talk import WordModel
from tests.core.session.stage import PATIENCE, opening, read
from tests.loopback.server import (
    Act,
    Loopback,
    asked,
    error,
    event,
    fails,
    head,
    says,
    sends,
    serving_apart,
    spoken,
    streams,
)
from tests.red import Case, Tried

MEGABYTE = 1 << 20
MOST_GROWTH = 20.0
"""Megabytes that a process may hold more, at any time or at the end, than after the warm-up."""
_WARM = 30
"""Turns after which everything that is loaded on demand is there."""
COMMANDS = {7: "/prune 1", 19: "/checkpoint", 31: "/prune results", 43: "/status", 57: "/handoff"}
"""What else happens, every so many turns."""


class Footprint(msgspec.Struct, frozen=True):
    """What a process holds."""

    megabytes: float
    files: int
    threads: int


def footprint() -> Footprint:
    """What this process holds now, without its garbage."""
    gc.collect()
    process = psutil.Process()
    return Footprint(process.memory_info().rss / MEGABYTE, process.num_fds(), process.num_threads())


def acts_of(number: int) -> tuple[list[Act], bool]:
    """What the server does in a turn, and whether its answer must come through."""
    answer = says(answer_of(number))
    match number % 12:
        case 0 | 3 | 6:
            call = (f"call_{number}", "read", '{"path":"a.txt"}')
            return [streams(asked(call)), answer], True
        case 1:
            return [fails("503 Unavailable", error("later"), Retry_After="0"), answer], True
        case 4:
            torn = head() + b"".join(event(each) for each in spoken(answer_of(number))[:2])
            return [sends(torn)], False
        case 5:
            return [fails("400 Bad Request", error("no"))], False
        case 8:
            deep = '{"path":' + "[" * 1_500 + "]" * 1_500 + "}"
            return [streams(asked((f"call_{number}", "read", deep))), answer], True
        case 10 if number % 60 == 10:
            return [sends(head() + b"data: {nonsense\n\n"), answer], True
        case _:
            return [answer], True


def question_of(number: int) -> str:
    """What is asked in a turn."""
    return f"question {number} about the matter at hand"


def answer_of(number: int) -> str:
    """What is answered in a turn."""
    return f"Answer {number}. " * 20


class Soaked:
    """A session that is talked to, and what must be found afterwards."""

    def __init__(self, session: Session, server: Loopback) -> None:
        self.session = session
        self.server = server
        self.answered: list[int] = []
        self.failed = 0
        self._events = session.events()

    async def turn(self, number: int) -> None:
        """Ask once, and run the commands that are due."""
        acts, comes = acts_of(number)
        self.server.play(*acts)
        self.session.send(question_of(number))
        ended = await self._until(events.TurnEnded)
        assert isinstance(ended, events.TurnEnded)
        if ended.ending == "done":
            self.answered.append(number)
        else:
            assert not comes, f"turn {number}: {ended.why}"
            self.failed += 1
        for every, line in COMMANDS.items():
            if number % every == 0:
                self.session.command(line)
                await self._until(events.CommandEnded)

    async def _until(self, kind: type[events.Event]) -> events.AnyEvent:
        async with asyncio.timeout(PATIENCE):
            async for heard in self._events:
                if isinstance(heard, kind):
                    return heard
        raise AssertionError("the session ended")


def soak(tried: Tried) -> Iterator[Case]:
    """All turns, then what they left behind."""
    turns = int(os.environ.get("MINDSTONE_SOAK") or tried.sized(16, 10_000))
    base = tried.folder("soak")
    with serving_apart() as server:
        before, after, soaked = asyncio.run(_talk(base, server, turns))
    grown = after.megabytes - before.megabytes
    yield Case(
        f"{turns} turns, {soaked.failed} of them failed:"
        f" {before.megabytes:.0f} MB {grown:+.1f} at most",
        "" if grown <= MOST_GROWTH else f"grew by {grown:.1f} MB",
    )
    for what in ("files", "threads"):
        first, last = getattr(before, what), getattr(after, what)
        yield Case(f"open {what}: {first}, then {last}", "" if last <= first + 4 else "grew")
    yield from _nothing_lost(base / "home", turns, soaked)


async def _talk(base: Path, server: Loopback, turns: int) -> tuple[Footprint, Footprint, Soaked]:
    home = base / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[models]\nbase_url = "{server.base_url}"\n[recall]\nbackground = false\n'
    )
    (base / "a.txt").write_text("one line\n" * 50)
    words = WordModel()
    session = await open_session(
        opening(home, model="openai/m", context_window=8_000, embedder=lambda name: words)
    )
    soaked = Soaked(session, server)
    before, began, most = footprint(), time.process_time(), 0.0
    warm = min(_WARM, turns // 2)
    for number in range(1, turns + 1):
        await soaked.turn(number)
        words.seen.clear()  # The stand-in's own; it would hold every text.
        if number == warm or number % 250 == 0:
            held, took = footprint(), time.process_time() - began
            before = held if number == warm else before
            most = held.megabytes if number == warm else max(most, held.megabytes)
            print(
                f"      {number} turns, {held.megabytes:.1f} MB, {held.files} files,"
                f" {held.threads} threads, {took / number * 1000:.0f} ms a turn",
                flush=True,
            )
    after = footprint()
    # The machine may take back pages of files for a while; the most that was held is what counts.
    after = msgspec.structs.replace(after, megabytes=max(after.megabytes, most))
    await session.close()
    return before, after, soaked


def _nothing_lost(home: Path, turns: int, soaked: Soaked) -> Iterator[Case]:
    places = opening(home).places.session(opening(home).key)
    verdict = verify(places)
    yield Case("the chain verifies", "" if verdict.ok else str(verdict.problems[:3]))
    lines = read(places)
    questions = [line.entry.text for line in lines if isinstance(line.entry, UserMessage)]
    wanted = [question_of(number) for number in range(1, turns + 1)]
    yield Case(
        f"{turns} questions stand in it, once each, in order",
        "" if questions == wanted else f"{len(questions)} are there",
    )
    answers = {line.entry.text for line in lines if isinstance(line.entry, AssistantMessage)}
    lost = [number for number in soaked.answered if answer_of(number) not in answers]
    yield Case(
        f"{len(soaked.answered)} whole answers stand in it", f"lost: {lost[:5]}" if lost else ""
    )
    with History(places) as history:
        proof = prove(history)
    yield Case(
        f"{proof.matched} of {proof.requests} requests rebuilt as they were sent",
        "" if proof.matched == proof.requests else str(proof.mismatched[:2]),
    )
