"""Broken lines on every line that programs talk over: each is answered, and the line lives on."""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import IO, Any, Protocol

from tests.cli.forked import ROOT, begin
from tests.cli.program import mindstone
from tests.red import Case, Tried

PATIENCE = 60.0
FRAMES = {
    "no JSON": b"hello",
    "bad UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
    "bad UTF-8 alone": b"\xff\x80",
    "half a character as an escape": b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    "a NUL": b"\0{}",
    "half an object": b'{"jsonrpc":"2.0","id":1,',
    "a list": b"[1, 2]",
    "an empty list": b"[]",
    "a number": b"7",
    "null": b"null",
    "nested beyond anything real": b"[" * 50_000,
    "nested beyond anything real, closed": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "an unknown method": b'{"jsonrpc":"2.0","id":7,"method":"none/such"}',
    "a method that is no text": b'{"jsonrpc":"2.0","id":8,"method":[1]}',
    "no method": b'{"jsonrpc":"2.0","id":9}',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":99,"result":{}}',
    "an answer whose id is an object": b'{"jsonrpc":"2.0","id":{},"result":{}}',
    "params that are a list": b'{"jsonrpc":"2.0","id":10,"method":"session/list","params":[1]}',
    "params of other kinds": b'{"jsonrpc":"2.0","id":11,"method":"session/prompt",'
    b'"params":{"sessionId":{"a":1},"prompt":"x","cursor":"y"}}',
    "a number beyond all numbers": b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b"}",
    "a byte order mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":12,"method":"x"}',
    "a carriage return": b'{"jsonrpc":"2.0",\r"id":13,"method":"x"}\r',
    "a line of spaces": b" " * 10_000,
}
SILENT = frozenset(
    {
        *("an answer to nothing", "an answer whose id is an object", "a line of spaces"),
        *("no method", "a byte order mark"),
    }
)
"""What needs no answer: only an answer that nobody waits for, or nothing at all."""
HUGE = {"a line that is too long": b'{"a":"' + b"x" * (70 << 20) + b'"}'}


class Spoken(Protocol):
    """A line to a program."""

    def send(self, data: bytes) -> None: ...
    def receive(self) -> bytes: ...


class Piped:
    """A program's standard streams."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        self.process = begin(
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=ROOT,
            bufsize=0,
        )

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) or 0 :]

    def receive(self) -> bytes:
        out: IO[bytes] = self.process.stdout  # type: ignore[assignment]
        return _ready(out.fileno()) and os.read(out.fileno(), 1 << 20)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class Connected:
    """The resident's socket."""

    def __init__(self, path: str) -> None:
        self.line = socket.socket(socket.AF_UNIX)
        self.line.connect(path)

    def send(self, data: bytes) -> None:
        self.line.sendall(data)

    def receive(self) -> bytes:
        return _ready(self.line.fileno()) and self.line.recv(1 << 20)


def _ready(number: int) -> bytes:
    """Something true once there is something to be read."""
    with selectors.DefaultSelector() as selector:
        selector.register(number, selectors.EVENT_READ)
        return b"ready" if selector.select(PATIENCE) else b""


def frames(tried: Tried) -> Iterator[Case]:
    """Editors, agents that ask over MCP, and local programs."""
    home = tried.folder("home")
    env = {**os.environ, "MINDSTONE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    hello = {"protocolVersion": 1, "clientCapabilities": {}}
    agent = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "red", "version": "1"},
    }
    editor = Piped("acp", env=env)
    try:
        yield from _answered("acp", editor, "initialize", hello, {**FRAMES, **HUGE})
    finally:
        editor.close()
    asking = Piped("mcp", env=env)
    try:
        yield from _answered("mcp", asking, "initialize", agent, FRAMES)
    finally:
        asking.close()
    begun = mindstone("serve", "--background", "--socket-only", env=env, cwd=ROOT)
    try:
        status = json.loads(mindstone("serve", "--status", "--json", env=env, cwd=ROOT).stdout)
        line = Connected(status["socket"])
        yield from _answered("the resident's socket", line, "status", {}, {**FRAMES, **HUGE})
        line.line.close()
    except (OSError, ValueError) as error:
        yield Case("the resident's socket", f"{error}: {begun.stderr}")
    finally:
        mindstone("serve", "--stop", env=env, cwd=ROOT)


def _answered(
    who: str, line: Spoken, method: str, params: dict[str, Any], sent: dict[str, bytes]
) -> Iterator[Case]:
    """Each frame, then an ordinary request, which must be answered whatever came before."""
    for number, (name, frame) in enumerate(sent.items(), 1_000):
        ordinary = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        heard, problem = bytearray(), ""
        try:
            line.send(frame + b"\n" + json.dumps(ordinary).encode() + b"\n")
            until = time.monotonic() + PATIENCE
            while not _has(heard, number):
                piece = line.receive() if time.monotonic() < until else b""
                if not piece:
                    problem = "the next request was not answered"
                    break
                heard += piece
        except OSError as error:
            problem = f"the line is dead: {error}"
        if not problem and who != "mcp" and name not in SILENT and b'"error"' not in heard:
            problem = "nobody was told that something was wrong"
        yield Case(f"{who}: {name}", problem)
        if problem:
            return


def _has(heard: bytearray, number: int) -> bool:
    """Whether an answer with this id is among what was heard."""
    return any(
        json.loads(each).get("id") == number for each in heard.split(b"\n") if each.endswith(b"}")
    )
