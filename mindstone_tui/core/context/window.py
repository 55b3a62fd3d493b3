"""The window of an open session: the view of it that follows its transcript and writes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.policies import Similarity, word_similarity
from mindstone_tui.core.context.window_view import (
    Call,
    ExchangeLines,
    Indexer,
    View,
    follow,
)
from mindstone_tui.core.entries import Entry, Line
from mindstone_tui.core.entries.window import (
    Receipt,
)
from mindstone_tui.core.tokens import Calibration, Counter, counter_for
from mindstone_tui.core.transcript import History, Transcript

Ensure = Callable[[Sequence[ExchangeLines]], Mapping[int, Receipt]]
OffLoop = Callable[[Ensure, Sequence[ExchangeLines]], Awaitable[Mapping[int, Receipt]]]


class LiveWindow(View):
    """A window that follows its transcript and writes its changes there."""

    def __init__(
        self,
        transcript: Transcript,
        history: History,
        settings: Settings,
        *,
        indexer: Indexer,
        counters: Callable[[str], Counter] = counter_for,
        calibration: Calibration | None = None,
        similar: Similarity = word_similarity,
        off_loop: OffLoop = asyncio.to_thread,
    ) -> None:
        super().__init__(
            history, settings, counters=counters, calibration=calibration, similar=similar
        )
        self.transcript = transcript
        self._indexer = indexer
        self._off_loop = off_loop
        self._missed: list[Line] = []
        self.blocked: set[tuple[int, str]] = set()
        """What was already said, per turn, about prunes that could not happen."""

    def catch_up(self) -> None:
        """Take in what other surfaces appended."""
        new = follow(self.fold, self.history)
        for line in new:
            self.watch.observe(line)
        self._missed += new

    def missed(self) -> list[Line]:
        """The lines of others that were taken in since somebody last asked for them."""
        missed, self._missed = self._missed, []
        return missed

    def take(self, line: Line) -> None:
        """Take in one line, and before it any that were missed; once is enough."""
        if line.seq > self.fold.head + 1:
            self.catch_up()
        if line.seq > self.fold.head:
            self.fold.add(self.history.whole(line))
            self.watch.observe(line)

    def append(self, entry: Entry, turn: int | None = None) -> Line:
        """Write an entry and take it in."""
        line = self.transcript.append(entry, turn=self.fold.turn if turn is None else turn)
        self.take(line)
        return line

    def note_growth(self, call: Call) -> None:
        """Remember what each turn added before anything leaves: afterwards nobody could tell."""
        self.watch.carried = msgspec.structs.replace(self.watch.carried, growth=self.growth(call))

    async def ensure(self, units: Sequence[ExchangeLines]) -> Mapping[int, Receipt]:
        """Ask for receipts off the loop; lines that arrive meanwhile are taken in."""
        receipts = await self._off_loop(self._indexer.ensure, units)
        self.catch_up()
        return receipts
