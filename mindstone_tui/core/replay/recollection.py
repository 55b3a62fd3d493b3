"""Recall while a session is rehearsed: it knows what was said until then, and nothing later.

It ranks, abstains and fills its share as a live session does, from an index in memory. The same
history gives the same passages, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.context.indexing import ExchangeLines
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.memory import RecallInjected
from mindstone_tui.core.entries.window import Receipt
from mindstone_tui.core.recall.auto import queries
from mindstone_tui.core.recall.chunks import passages_of
from mindstone_tui.core.recall.embedding import Embedder
from mindstone_tui.core.recall.gathering import DERIVED, Filter
from mindstone_tui.core.recall.index import Found
from mindstone_tui.core.recall.injecting import Vacancy, inject
from mindstone_tui.core.recall.passing import PassingIndex
from mindstone_tui.core.recall.tables import Mark
from mindstone_tui.core.session.remembering import LOOKED_AT

ASKED_FOR: Final = 6
"""Hits that a model sees when it asks for something itself."""
_AT_ONCE: Final = 64


class Recollection:
    """What a rehearsed session can find again."""

    def __init__(self, settings: RecallSettings, embedder: Embedder | None = None) -> None:
        self.on = settings.auto
        self._most = settings.max_passages
        self._has_vectors = embedder is not None
        self._index = PassingIndex(embedder)

    def learn(self, lines: Sequence[Line]) -> None:
        """Take a finished exchange in, with its meaning where there is a model for it."""
        if lines:
            self._index.add(passages_of(lines), Mark(lines[-1].seq, lines[-1].hash))
            while self._has_vectors and self._index.embed_pending(_AT_ONCE):
                pass

    def ensure(self, turns: Sequence[ExchangeLines]) -> Mapping[int, Receipt]:
        """Index exchanges and read them back, as the law wants it before anything leaves."""
        receipts: dict[int, Receipt] = {}
        for exchange in turns:
            found = self._index.ensure(passages_of(exchange.lines))
            receipt = found[0] if found else Receipt(turn=exchange.turn, passages=0)
            if not self._has_vectors:
                receipt = msgspec.structs.replace(receipt, vectors="")
            receipts[exchange.turn] = receipt
        return receipts

    def gather(self, text: str, vacancy: Vacancy) -> RecallInjected | None:
        """What would be brought back for a message; None when nothing is good enough."""
        if not self.on:
            return None
        found: Found | None = None
        for query in queries(text, vacancy.recent):
            found = self.search(query, LOOKED_AT, vacancy.shown)
            if not found.abstained:
                break
        if found is None:
            return None
        nonce = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        return inject(text, found, found.hits, vacancy, most=self._most, nonce=nonce)

    def search(self, query: str, k: int = ASKED_FOR, window: Collection[int] = ()) -> Found:
        """The k best hits outside the window."""
        allowed = Filter(exclude=frozenset(window), without=DERIVED)
        return self._index.search(query, k, allowed=allowed)

    def close(self) -> None:
        """Forget everything."""
        self._index.close()
