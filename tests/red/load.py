"""Many, slow and large requests to the resident, while somebody looks whether it is well.

How long a look took at most is told with each case; a look that fails makes it wrong.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cli.program import ROOT, mindstone
from tests.core.session.stage import script
from tests.red import Case, Tried

PATIENCE = 60.0
CLIENTS = 8


class Looks:
    """Somebody who asks every moment whether the resident is well."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self.host, self.port, self.token = host, port, token
        self.worst = 0.0
        self.wrong: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def ask(self, method: str, path: str, body: bytes = b"") -> int:
        line = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            line.request(method, path, body, {"authorization": f"Bearer {self.token}"})
            answer = line.getresponse()
            answer.read()
            return answer.status
        finally:
            line.close()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            begun = time.monotonic()
            try:
                status = self.ask("GET", "/health")
                self.wrong += [str(status)] if status != 200 else []
            except OSError as error:
                self.wrong.append(repr(error))
            self.worst = max(self.worst, time.monotonic() - begun)

    def told(self, name: str, allowed: int = 0) -> Case:
        """What came of a case; a look that was taken for a silent client may be asked again."""
        problem = "" if len(self.wrong) <= allowed else f"looks failed: {self.wrong[:5]}"
        case = Case(f"{name}; a look took {self.worst * 1_000:.0f} ms at most", problem)
        self.worst, self.wrong = 0.0, []
        return case


def _until_kept(home: Path, size: int) -> None:
    """Return once the session has the message whole, or nobody would wait any more."""
    over, there = time.monotonic() + PATIENCE, 0
    while there < size and time.monotonic() < over:
        files = (path for path in home.rglob("*") if path.is_file() and "x" in path.parts)
        there = sum(path.stat().st_size for path in files)


def load(tried: Tried) -> Iterator[Case]:
    """One resident, and each way to be a burden to it."""
    home = tried.folder("home")
    model = script(home, {"text": "Noted."}, loop=True)
    (home / "config.toml").write_text(f'[models]\ndefault = "{model}"\n')
    env = {"MINDSTONE_HOME": str(home)}
    mindstone("serve", "--background", "--port", "0", env=env, cwd=ROOT)
    told = json.loads(mindstone("serve", "--status", "--json", env=env, cwd=ROOT).stdout)
    host, _, port = told["url"].removeprefix("http://").partition(":")
    looks = Looks(host, int(port), Path(told["token"]).read_text("ascii"))
    try:
        count = tried.sized(100, 1_000)
        _be_silent(looks, count)
        yield looks.told(f"{count:,} half-sent headers", allowed=3)
        count = tried.sized(200, 100_000)
        _in_parallel(lambda: looks.ask("GET", "/v1/models"), count)
        yield looks.told(f"{count:,} tiny requests without pause")
        for size in (tried.sized(2, 30),):
            body = b'{"a":[' + b"{}," * (size * 300_000) + b"1]}"
            status = looks.ask("POST", "/v1/chat/completions", body)
            case = looks.told(f"a body of {len(body) >> 20} MB with millions of values")
            yield case if status == 400 else Case(case.name, f"answered with {status}")
        for size, wanted in ((1, 200),) if tried.small else ((4, 200), (30, 400)):
            said = "The quick brown fox jumps over 12 stones. " * (size * 25_000)
            sent = json.dumps({"session": "x", "text": said}).encode()
            status = looks.ask("POST", "/page/send", sent)
            if wanted == 200:  # look while it is cleaned and written down
                _until_kept(home, len(said))
            case = looks.told(f"a message of {len(said) >> 20} MB to the page")
            yield case if status == wanted else Case(case.name, f"answered with {status}")
    finally:
        looks.end()
        mindstone("serve", "--stop", env=env, cwd=ROOT)


def _be_silent(looks: Looks, count: int) -> None:
    silent = []
    for _ in range(count):
        silent.append(socket.create_connection((looks.host, looks.port), PATIENCE))
        silent[-1].sendall(b"GET /health HTTP/1.1\r\nHost: x")
    time.sleep(1.0)  # a second of looks while all of them are there
    for each in silent:
        each.close()


def _in_parallel(ask: Callable[[], object], count: int) -> None:
    def go_on() -> None:
        for _ in range(count // CLIENTS):
            ask()

    threads = [threading.Thread(target=go_on) for _ in range(CLIENTS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
