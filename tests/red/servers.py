"""Every fault of a model's server, met by a real chat: a process that is typed at in lines.

After each fault the same chat must still answer, with a request that a server would accept.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from mindstone_tui.core.context.messages import first_unpaired
from mindstone_tui.core.entries.conversation import AssistantMessage
from mindstone_tui.core.transcript import verify
from tests.builders import places_in
from tests.cli.forked import ROOT, begin
from tests.core.session.stage import read
from tests.loopback.faults import Fault, every_fault
from tests.loopback.formats import FORMATS, WireFormat
from tests.loopback.server import Loopback, head, serving_apart
from tests.red import Case, Tried

PATIENCE = 180.0
LEAST_PATIENCE = 3.0
"""Seconds of silence that are borne, so that a good answer comes in time on a busy machine."""
LOOKED_AT = ("/v1/models", "/props", "/api/ps", "/api/show", "/api/v0/models", "/api/tags")
"""Where a server is asked how large its window is; that is no part of a turn."""
TURN_ENDED = b'"kind":"turn_ended"'


class LineChat:
    """A chat in lines that is asked through a pipe."""

    def __init__(self, folder: Path, wire: WireFormat, server: Loopback, patience: float) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        address = server.base_url if wire.path.startswith("/v1/") else server.base_url[:-3]
        if wire.provider == "anthropic":
            address = server.base_url.removesuffix("/v1")
        (self.home / "config.toml").write_text(
            f'[models]\nbase_url = "{address}"\nretries = 1\ntimeout = {patience}\n'
            "[recall]\nauto = false\nbackground = false\n"
        )
        self._log = (folder / "log").open("wb")
        arguments = ("chat", "--model", wire.model, "--cwd", str(folder))
        self._process = begin(
            *arguments,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "HOME": str(folder),
                "MINDSTONE_HOME": str(self.home),
                "OPENAI_API_KEY": "k-nothing",
                "ANTHROPIC_API_KEY": "k-nothing",
                "ANTHROPIC_BASE_URL": address,  # `models.base_url` is not for it
            },
        )
        self._ended = 0

    def say(self, text: str) -> bool:
        """Type a line; whether its turn came to an end."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        over = time.monotonic() + PATIENCE
        while time.monotonic() < over and self._process.poll() is None:
            if self._turns() > self._ended:
                self._ended = self._turns()
                return True
            time.sleep(0.02)
        return False

    def _turns(self) -> int:
        path = places_in(self.home).transcript
        return path.read_bytes().count(TURN_ENDED) if path.exists() else 0

    @property
    def last_answer(self) -> str:
        """The newest answer that is on disk."""
        lines = read(places_in(self.home))
        answers = [line.entry.text for line in lines if isinstance(line.entry, AssistantMessage)]
        return answers[-1] if answers else ""

    def close(self) -> str:
        """Say goodbye; what was wrong with how it ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "it did not end"
        finally:
            self._log.close()
        told = Path(self._log.name).read_bytes()
        return "a traceback" if b"Traceback (most recent call last)" in told else ""


def servers(tried: Tried) -> Iterator[Case]:
    """Each wire format with each of its faults; a chat for those that want the same patience."""
    for wire in FORMATS:
        faults = sorted(tried.some(list(every_fault(wire))), key=lambda fault: fault.patience)
        if tried.small:
            faults = faults[30::60] if wire is FORMATS[0] else []
        for patience, group in itertools.groupby(faults, lambda fault: fault.patience):
            with serving_apart() as server:
                server.asides = dict.fromkeys(LOOKED_AT, head("404 Not Found", "text/plain"))
                folder = tried.folder(f"{wire}-{patience:g}")
                chat = LineChat(folder, wire, server, max(patience, LEAST_PATIENCE))
                for fault in group:
                    yield Case(f"{wire}, {fault.name}", _met(chat, wire, server, fault))
                problem = chat.close()
                verdict = verify(places_in(chat.home))
                problem = problem or ("" if verdict.ok else str(verdict.problems[:2]))
                yield Case(f"{wire}, the chat ends well and its chain is whole", problem)


def _met(chat: LineChat, wire: WireFormat, server: Loopback, fault: Fault) -> str:
    thanks = [wire.says("Thank you.")] if fault.tools and fault.ends is None else []
    server.play(*fault.acts, *thanks)
    if not chat.say("hello"):
        return "the turn did not end"
    server.play(wire.says("All is well."))
    if not chat.say("are you well?"):
        return "the next turn did not end"
    if chat.last_answer != "All is well.":
        return f"the next answer is {chat.last_answer[:60]!r}"
    if len(server.calls) != 1:
        return f"the next turn took {len(server.calls)} requests"
    unpaired = first_unpaired(server.calls[0].body.get("messages", []))
    return f"the next request is not valid: {unpaired}" if unpaired else ""
