"""Files of other programs taken over side by side, each by one of as many processes as can run.

Every file is written by one process as if there were no other, and the library lets in one writer
at a time. What came of them is told in their order, whoever was done first. Files of one session
go to the same process one after the other: each adds what those before it lack.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final, NamedTuple

from mindstone_tui.core import errors, paths, signals
from mindstone_tui.core.interchange.formats import format_of
from mindstone_tui.core.interchange.formats.base import Began
from mindstone_tui.core.interchange.import_session import ImportReport, conversations, key_for

LEAST: Final = 2 << 20
"""Bytes below which one process is done before others have begun."""

Take = Callable[[Path], Iterable[ImportReport]]


class TakenFile(NamedTuple):
    """What came of one file: its conversations, and what went wrong after them."""

    file: Path
    reports: list[ImportReport]
    error: Exception | None


class SideBySide:
    """Processes that take over files, until it is closed."""

    def __init__(self, take: Take, groups: Sequence[Sequence[Path]], processes: int) -> None:
        self._left = iter(groups)
        self.files = sum(map(len, groups))
        self.done = 0
        self._taken: dict[Path, TakenFile] = {}
        # A fork knows all that is loaded here, and nobody else's code is looked for.
        context = get_context("fork")
        self._processes = []
        self._pipes: list[Connection] = []
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(processes):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(take, theirs), daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
                self._pipes.append(ours)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for pipe in self._pipes:
            self._give(pipe)

    def taken(self, file: Path) -> TakenFile:
        """What came of a file, once it is done; files are asked for once each."""
        while file not in self._taken:
            for pipe in wait(self._pipes):
                assert isinstance(pipe, Connection)
                self._hear(pipe)
        return self._taken.pop(file)

    def close(self) -> None:
        """End the processes, wherever they are: what they wrote is whole lines."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def _hear(self, pipe: Connection) -> None:
        try:
            taken: TakenFile | None = pipe.recv()
        except (EOFError, OSError) as error:
            raise errors.TranscriptError(
                "A process that took over files was ended from outside.",
                "What it wrote is kept; the same command goes on from there.",
            ) from error
        if taken is None:
            self._give(pipe)
        else:
            self.done += 1
            self._taken[taken.file] = taken

    def _give(self, pipe: Connection) -> None:
        with contextlib.suppress(OSError):  # whoever is gone is missed when it is listened to
            pipe.send(next(self._left, ()))


def _work(take: Take, pipe: Connection) -> None:
    """Take over what is given, in a process of its own, which ends when nobody listens."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with contextlib.suppress(EOFError, OSError):  # nobody is left to be told
        while True:
            for file in (files := pipe.recv()):
                pipe.send(_take_one(take, file))
            if files:
                pipe.send(None)


def _take_one(take: Take, file: Path) -> TakenFile:
    reports: list[ImportReport] = []
    try:
        reports.extend(take(file))
    except Exception as error:  # raised again where it is asked for
        return TakenFile(file, reports, error)
    return TakenFile(file, reports, None)


def in_groups(files: Sequence[Path], origin: str) -> list[list[Path]]:
    """Files that must come one after the other, together; the rest each alone."""
    groups: dict[paths.SessionKey | Path | None, list[Path]] = {}
    for file in files:
        groups.setdefault(_session_of(file, origin), []).append(file)
    return list(groups.values())


def worth_it(files: Sequence[Path]) -> int:
    """How many processes these files are worth; 0 for none beside this one."""
    try:
        size = sum(file.stat().st_size for file in files)
    except OSError:
        return 0
    # A fork has only the thread that made it, and whatever lock another holds stays held.
    alone = threading.active_count() == 1 and hasattr(os, "fork")
    cores = signals.usable_cores()
    # One more than can run: each waits for the disk after every batch.
    return min(cores + 1, len(files)) if alone and cores > 1 and size >= LEAST else 0


def _session_of(file: Path, origin: str) -> paths.SessionKey | Path | None:
    """The session that a file's beginning names; None where a file may hold several."""
    try:
        reader = format_of(file, origin)
        if reader.many:
            return None
        began, _ = next(conversations(reader.read(file), many=False), (Began(), iter(())))
        return key_for(reader, file, began, "default")
    except (errors.InterchangeError, OSError):
        return file
