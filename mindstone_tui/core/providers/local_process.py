"""The child process that runs a model: started when needed, asked, stopped in mid-answer, ended.

A stop is asked for first, because a process that stays keeps its model loaded and its prompt
cached; one that does not hear it soon is killed. When the process dies, `ChildDied` says so and the
next request starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.disk import REAL, ensure_folder
from mindstone_tui.core.entries import Part
from mindstone_tui.core.errors import ProviderUnreachable
from mindstone_tui.core.signals import let_go

CHILD: Final = (sys.executable, "-P", str(Path(__file__).with_name("local_child.py")))
_LOADING: Final = 180.0
_LONGEST_LINE: Final = 1 << 20
_STOP_PATIENCE: Final = 15.0
"""Seconds in which a child must have heard that nobody listens any more.

A slow processor needs ten for a batch of a prompt; after a kill all of it would be read again.
"""
_KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")


class ChildDied(ProviderUnreachable):
    """The process ended before the answer did."""


class Start(Part):
    """How a child is started."""

    weights: Path
    window: int
    threads: int
    log: Path
    command: tuple[str, ...] = CHILD


class ModelProcess:
    """One child at a time, which answers one request at a time."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.window = 0
        """Tokens of context that the running child has; 0 while none runs."""
        self.memory = 0
        """The most bytes that the child has taken so far."""
        self._environ = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
        self._child: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._heard: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._number = 0
        self._idle = asyncio.Event()
        self._log: Path | None = None

    async def ask(
        self, start: Start, body: Mapping[str, Any], patience: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The chunks of an answer; leaving early stops the child's work, not the child."""
        await self._started(start)
        self._number += 1
        self._heard = asyncio.Queue()
        self._idle.clear()
        complete = False
        try:
            await self._send({"id": self._number, "body": body}, patience)
            while "done" not in (message := await self._next(patience)):
                if "error" in message:
                    raise self.failed(str(message["error"]))
                yield message.get("chunk") or {}
            complete = True
        finally:
            if not complete:
                self._stop_answer()

    async def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        reader, self._reader = self._reader, None
        watcher, self._watcher = self._watcher, None
        self.window = 0
        for task in (watcher, reader):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        if child.stdin is not None:
            child.stdin.close()
        # Pipes first: waiting for the child also waits for whoever else holds an end of them.
        let_go(child)
        await asyncio.shield(child.wait())

    def failed(self, why: str, kind: type[ProviderUnreachable] = ProviderUnreachable) -> Exception:
        """What went wrong, with where more is told."""
        return kind(f"The local model failed: {why}.", f"Its log is {self._log}; ask again.")

    async def _started(self, start: Start) -> None:
        """A child with its model loaded, which is not busy with an answer nobody wants."""
        if self._watcher is not None:
            await asyncio.wait((self._watcher,))
            self._watcher = None
        if self._child is not None and self._child.returncode is None:
            return
        await self.close()
        self._log = start.log
        ensure_folder(start.log.parent)
        log = REAL.open(start.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self._child = await asyncio.create_subprocess_exec(
                *start.command,
                str(start.weights),
                str(start.window),
                str(start.threads),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environ,
                start_new_session=True,
                limit=_LONGEST_LINE,
            )
        except OSError as error:
            raise self.failed(f"it cannot be started: {error}") from error
        finally:
            os.close(log)
        self._heard = asyncio.Queue()
        self._reader = asyncio.ensure_future(self._read(self._child))
        try:
            first = await self._next(_LOADING)
            if "ready" not in first:
                raise self.failed(str(first.get("error", "it did not start")))
        except BaseException:
            await self.close()
            raise
        self.window = int(first.get("window") or start.window)

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        """Sort what the child says: what belongs to an answer nobody waits for is dropped."""
        assert child.stdout is not None
        try:
            while line := await child.stdout.readline():
                message = msgspec.json.decode(line, type=dict[str, Any])
                number = message.get("id", self._number)
                self.memory = int(message.get("memory") or self.memory)
                if "done" in message and number == self._number:
                    self._idle.set()
                if number == self._number:
                    self._heard.put_nowait(message)
        except (msgspec.MsgspecError, ValueError, OSError):
            with contextlib.suppress(ProcessLookupError):
                child.kill()  # what it says makes no sense any more
        await child.wait()
        self._idle.set()
        self._heard.put_nowait(None)

    async def _next(self, patience: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(patience):
                message = await self._heard.get()
        except TimeoutError as error:
            raise self.failed("no answer in time") from error
        if message is None:
            raise self.failed("its process ended", ChildDied)
        return message

    async def _send(self, message: dict[str, Any], patience: float) -> None:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        try:
            async with asyncio.timeout(patience):
                child.stdin.write(msgspec.json.encode(message) + b"\n")
                await child.stdin.drain()
        except (OSError, TimeoutError) as error:
            raise self.failed("its process does not listen", ChildDied) from error

    def _stop_answer(self) -> None:
        """Tell the child that nobody listens any more; kill it if it does not hear."""
        child = self._child
        if child is None or child.returncode is not None or child.stdin is None:
            return
        with contextlib.suppress(OSError, RuntimeError):
            child.stdin.write(msgspec.json.encode({"stop": self._number}) + b"\n")
        self._watcher = asyncio.ensure_future(self._watch(child))

    async def _watch(self, child: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(_STOP_PATIENCE):
                await self._idle.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
