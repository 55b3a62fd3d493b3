"""The right to take a turn in one session: on this machine, and across machines.

On one machine the kernel keeps it: a crash leaves nothing behind. Across machines the server keeps
it for some seconds, and it is renewed while a turn runs. A machine that stops answering loses it,
and whatever it still tries to write is refused.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.disk import ensure_folder, read_regular, take_lock
from mindstone_tui.core.errors import EntryNotSaved, HistoryAway, MindstoneError, SessionBusy
from mindstone_tui.core.paths import SessionKey, SessionPlaces
from mindstone_tui.core.transcript import Transcript
from mindstone_tui.core.transcript.encode import Clean
from mindstone_tui.core.transcript.history_store import Grant, HistoryStore

_LOOK_AGAIN: Final = 0.05
_ASK_AGAIN: Final = 0.25
"""Seconds between two looks at a lease that the server keeps."""
_BEATS: Final = 3
"""How often a lease is renewed before it would run out."""


class Holder(msgspec.Struct, frozen=True):
    """Who has the lease of a session on this machine."""

    channel: str
    unattended: bool = False
    """Nobody looks at its surface."""


class Lease:
    """The right to take a turn in one session."""

    pause = _LOOK_AGAIN

    def __init__(self, places: SessionPlaces) -> None:
        self._places = places
        self._fd: int | None = None
        self._next: int | None = None
        """The place of the one who has it next: who has just had it cannot have it again first."""

    @property
    def key(self) -> SessionKey:
        """Which session it is for."""
        return self._places.key

    @property
    def held(self) -> bool:
        """Whether this process has it."""
        return self._fd is not None

    @property
    def grant(self) -> Grant | None:
        """What the server gave, while this process has it; None on one machine."""
        return None

    def try_take(self) -> bool:
        """Take it if nobody has it."""
        return self._try_take(stay=False)

    def _try_take(self, *, stay: bool) -> bool:
        """Take it if nobody has it and nobody else is next; else `stay` the next, if that is us."""
        if self._fd is not None:
            return True
        if self._next is None:
            self._next = take_lock(self._places.next_lease)
        if self._next is not None:
            self._fd = take_lock(self._places.lease)
        if not stay or self._fd is not None:
            self._step_back()
        return self._fd is not None

    def _step_back(self) -> None:
        if self._next is not None:
            os.close(self._next)
            self._next = None

    async def take(self, *, wait: bool, on_wait: Callable[[], None]) -> None:
        """Take it, waiting for the other surface if need be; `on_wait` is told once."""
        import asyncio  # takes long to load, and most who import this module never wait

        told = False
        try:
            while not self._try_take(stay=wait):
                if not wait:
                    raise SessionBusy(
                        f"Another program is taking a turn in {self._places.key}.",
                        "Try again when that turn is over.",
                    )
                if not told:
                    on_wait()
                    told = True
                await asyncio.sleep(self.pause)
        finally:
            self._step_back()

    def note(self, holder: Holder) -> None:
        """Write down who has it, for those who wait; nothing while this process has not."""
        if self._fd is not None:
            with contextlib.suppress(OSError):  # those who wait are told less
                os.ftruncate(self._fd, os.pwrite(self._fd, msgspec.json.encode(holder), 0))

    @property
    def holder(self) -> Holder | None:
        """Who has it, as far as was written down."""
        with contextlib.suppress(OSError, MindstoneError, msgspec.MsgspecError):
            return msgspec.json.decode(read_regular(self._places.lease), type=Holder)
        return None

    def give_back(self) -> None:
        """Let others have it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def close(self) -> None:
        """Let others have it, and never take it again."""
        self.give_back()


@contextlib.contextmanager
def only_one(folder: Path, name: str) -> Iterator[bool]:
    """True while a lock in a home's own folder is ours, False while another has it."""
    ensure_folder(folder)
    fd = take_lock(folder / name)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)


class SharedLease(Lease):
    """The same across machines: this machine's own, and the server's."""

    pause = _ASK_AGAIN

    def __init__(
        self, places: SessionPlaces, transcript: Transcript, store: HistoryStore, seconds: float
    ) -> None:
        super().__init__(places)
        import socket  # as above

        self._transcript = transcript
        self._store = store
        self._seconds = seconds
        self._holder = f"{socket.gethostname()} {os.getpid()} {os.urandom(4).hex()}"
        self._grant: Grant | None = None
        self._lost = False
        self._done = threading.Event()
        self.on_lost: Callable[[], object] = lambda: None
        """Told, from another thread, when another machine took over while this one had it."""

    @property
    def held(self) -> bool:
        """Whether this process has it, as far as it knows."""
        return super().held and not self._lost

    @property
    def grant(self) -> Grant | None:
        """What the server gave, as far as this process knows."""
        return self._grant

    def close(self) -> None:
        """The same, and end the connection."""
        self.give_back()
        self._store.close()

    def _try_take(self, *, stay: bool) -> bool:
        """The same here, and then at the server."""
        if self._grant is not None:
            return True
        if not super()._try_take(stay=stay):
            return False
        try:
            grant = self._store.take(self._places.key, self._holder, self._seconds)
        except HistoryAway as error:
            super().give_back()
            raise EntryNotSaved(
                f"NOT SAVED: {error.what}", "Nothing was begun; send it again when it is back."
            ) from error
        if grant is None:
            super().give_back()
            return False
        self._grant, self._lost = grant, False
        self._transcript.hold(grant)
        self._done = threading.Event()
        threading.Thread(
            target=self._renew, args=(grant, self._done), name="lease", daemon=True
        ).start()
        return True

    def give_back(self) -> None:
        """Let others have it; if the server cannot be told, it runs out by itself."""
        grant, self._grant = self._grant, None
        if grant is not None:
            self._done.set()
            self._transcript.hold(None)
            with contextlib.suppress(MindstoneError):
                self._store.give_back(self._places.key, grant)
        super().give_back()

    def _renew(self, grant: Grant, done: threading.Event) -> None:
        while not done.wait(self._seconds / _BEATS):
            # A server that is away is no reason to stop: the next line that is written says so.
            with contextlib.suppress(HistoryAway):
                if not self._store.renew(self._places.key, grant) and not done.is_set():
                    self._lost = True
                    self.on_lost()
                    return


@contextlib.contextmanager
def appending(own: SessionPlaces, clean: Clean) -> Iterator[Transcript | None]:
    """A session to write to on behalf of a hook; None where it is not there, or somebody's turn."""
    lease = Lease(own)
    if not own.transcript.exists() or not lease.try_take():
        yield None
        return
    try:
        with contextlib.closing(Transcript(own, clean=clean, channel="hook")) as transcript:
            yield transcript
    finally:
        lease.give_back()
