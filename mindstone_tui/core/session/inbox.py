"""What a session was asked and has not done yet, in order."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from mindstone_tui.core.commands.registry import Command
from mindstone_tui.core.entries import Image
from mindstone_tui.core.entries.conversation import UserMessage


class Said(msgspec.Struct, frozen=True):
    """A message on its way to a turn."""

    text: str
    images: tuple[Image, ...] = ()
    queued: str = ""
    """Id of the entry it waits in, once it had to wait."""

    @property
    def message(self) -> UserMessage:
        """What its turn writes down."""
        return UserMessage(text=self.text, images=self.images, queued=self.queued)


class Asked(msgspec.Struct, frozen=True):
    """A command on its way to be run."""

    command: Command
    line: str
    argument: str


class Inbox:
    """First come, first served; `idle` is set while nothing waits and nothing is done."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()
        self.idle.set()
        self.serving = False
        self._waiting: deque[Said | Asked] = deque()
        self._knock = asyncio.Event()

    def put(self, item: Said | Asked, *, first: bool = False) -> None:
        """Ask for something, after everything else or before it."""
        self.idle.clear()
        if first:
            self._waiting.appendleft(item)
        else:
            self._waiting.append(item)
        self._knock.set()

    async def take(self) -> Said | Asked:
        """The next thing to do; `done` must follow."""
        while not self._waiting:
            self._knock.clear()
            await self._knock.wait()
        self.serving = True
        return self._waiting.popleft()

    def done(self) -> bool:
        """What was taken is done; whether there is nothing else."""
        self.serving = False
        if not self._waiting:
            self.idle.set()
        return not self._waiting

    def take_back(self, queued: str) -> bool:
        """Remove a queued message; False when it does not wait any more."""
        for item in self._waiting:
            if isinstance(item, Said) and item.queued == queued:
                self._waiting.remove(item)
                return True
        return False

    def empty(self) -> list[Said | Asked]:
        """Take everything out."""
        items = list(self._waiting)
        self._waiting.clear()
        if not self.serving:
            self.idle.set()
        return items
