"""The process that makes vectors after the command that left them unmade.

One for each home: it holds a lock, works on all cores but is as unimportant as a process can be,
has none of the caller's streams, and ends by itself a few seconds after there is nothing left to
do, or when its home is gone. How far it is stands in a file beside the lock.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, signals
from mindstone_tui.core.config import load
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.errors import MindstoneError, VectorsUnavailable
from mindstone_tui.core.library import agent_files, vectors
from mindstone_tui.core.library.profile import OWN, stored_profile
from mindstone_tui.core.paths import Places, SessionPlaces
from mindstone_tui.core.recall.embedding import Embedder, open_embedder
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.transcript.encode import timestamp

_AT_ONCE: Final = 8
_LINGERS: Final = 3.0
"""Seconds that a worker waits for more: whoever comes meanwhile need not start another."""
_LOOKS_EVERY: Final = 0.5
_LEAST_PRIORITY: Final = 19
_FIRST_FILE: Final = 3
_MOST_FILES: Final = 1_024


def work(
    home: Places,
    settings: Settings,
    embedder: Embedder | None = None,
    lingers: float = _LINGERS,
    ends: Callable[[], bool] = lambda: False,
) -> int:
    """Make every vector that is missing in a home; how many were made.

    Returns at once when another worker has the home, and after a few vectors when `ends` says so.
    """
    if not home.data.exists():  # whoever removed a home does not want it back
        return 0
    with vectors.locked(home) as mine:
        if not mine:
            return 0
        embedder = embedder or open_embedder(settings.recall.embedder)
        worker = _Worker(home, settings, embedder, ends)
        try:
            worker.run(lingers)
        finally:
            with contextlib.suppress(OSError):
                vectors.progress_file(home).unlink()
        return worker.made


class _Worker:
    def __init__(
        self, home: Places, settings: Settings, embedder: Embedder | None, ends: Callable[[], bool]
    ) -> None:
        self._home = home
        self._ends = ends
        self._settings = settings
        self._embedder = embedder
        self._lock = _identity(vectors.lock_file(home))
        self._threads = ThreadPoolExecutor(signals.usable_cores())
        self.made = 0

    def run(self, lingers: float) -> None:
        """Until nothing came for a while, or the home is gone."""
        idle_since = time.monotonic()
        while self._there() and time.monotonic() - idle_since < lingers:
            try:
                if self._round():
                    idle_since = time.monotonic()
                    continue
            except VectorsUnavailable:
                return
            time.sleep(_LOOKS_EVERY)

    def _round(self) -> int:
        """Go through all sessions and agents once; how many vectors were made."""
        before = self.made
        waiting = vectors.pending_everywhere(self._home)
        sessions = [each for each in self._home.sessions() if str(each.key) in waiting]
        for each in sorted(sessions, key=_last_said, reverse=True):
            if self._there():
                try:
                    self._session(each)
                    self._publish(each)
                except VectorsUnavailable:
                    raise
                except (MindstoneError, OSError):  # one broken index is not the others' matter
                    continue
        for agent in {each.key.agent for each in self._home.sessions()}:
            files = agent_files.AgentFilesIndex(self._home.agent(agent), self._embedder)
            with contextlib.closing(files):
                while self._there() and files.embed_some(_AT_ONCE):
                    self.made += 1
        return self.made - before

    def _session(self, session: SessionPlaces) -> None:
        with contextlib.closing(RecallIndex.of(session, self._embedder)) as index:
            left = index.pending()
            while self._there() and self._some(index):
                left, before = index.pending(), left
                self.made += max(before - left, 0)
                self._tell(str(session.key), left)

    def _publish(self, session: SessionPlaces) -> None:
        if self._settings.history.search == "server":
            from mindstone_tui.core.library.shared_search import publish_quietly  # 104 ms

            publish_quietly(session, self._settings)

    def _some(self, index: RecallIndex) -> int:
        """A few vectors; a text that the model cannot take costs only itself."""
        before = index.pending()
        try:
            return index.embed_pending(_AT_ONCE * signals.usable_cores(), through=self._threads.map)
        except VectorsUnavailable:
            if index.pending() == before:
                raise
            return before - index.pending()

    def _there(self) -> bool:
        """Whether to go on: the home is still the one that was locked, and nothing ends this."""
        found = _identity(vectors.lock_file(self._home))
        return found is not None and found == self._lock and not self._ends()

    def _tell(self, session: str, pending: int) -> None:
        told = vectors.VectorProgress(
            running=True, pid=os.getpid(), made=self.made, pending=pending, session=session
        )
        with contextlib.suppress(OSError):
            disk.replace_file(vectors.progress_file(self._home), msgspec.json.encode(told))


def _last_said(session: SessionPlaces) -> str:
    """When something was said in a session last: the newest are asked about first."""
    profile = stored_profile(session)
    if profile is not None and profile.program != OWN:  # its file is as old as the import
        return profile.ended
    found = disk.status_of(session.transcript)
    return timestamp(datetime.fromtimestamp(found.st_mtime, UTC)) if found else ""


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file stands at a path; None for none."""
    found = disk.status_of(path)
    return (found.st_dev, found.st_ino) if found else None


def main() -> None:
    """The worker's own process."""
    os.closerange(_FIRST_FILE, _MOST_FILES)  # whatever a caller left open for its children
    config, data, state = (Path(each) for each in sys.argv[1:4])
    os.chdir("/")
    os.nice(_LEAST_PRIORITY)
    signals.return_freed_memory()
    home = Places(config=config, data=data, state=state)
    with contextlib.suppress(MindstoneError):
        work(home, load(home, os.environ).settings)


if __name__ == "__main__":
    main()
