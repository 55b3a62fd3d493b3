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
from mindstone_tui.core.context.asking import Count
from mindstone_tui.core.context.indexing import ExchangeLines
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.memory import RecallInjected
from mindstone_tui.core.entries.window import Receipt
from mindstone_tui.core.foreign import as_data
from mindstone_tui.core.recall.auto import auto_query, fill, is_trivial
from mindstone_tui.core.recall.chunks import passages_of
from mindstone_tui.core.recall.embedding import Embedder
from mindstone_tui.core.recall.gathering import Filter
from mindstone_tui.core.recall.index import Found
from mindstone_tui.core.recall.passing import PassingIndex
from mindstone_tui.core.recall.tables import Mark
from mindstone_tui.core.session.remembering import LOOKED_AT, recalled

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

    def gather(
        self,
        text: str,
        *,
        window: Collection[int],
        recent: Sequence[str],
        room: int,
        count: Count,
    ) -> RecallInjected | None:
        """What would be brought back for a message; None when nothing is good enough."""
        if not self.on or is_trivial(text):
            return None
        found = self.search(text, LOOKED_AT, window)
        leaning = auto_query(text, recent)
        if found.abstained and leaning != text:
            found = self.search(leaning, LOOKED_AT, window)
        nonce = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        left = room - count(as_data("", origin="recall", nonce=nonce))
        chosen = [] if found.abstained else fill(found.hits, left, count, vectors=found.vectors)
        chosen = chosen[: self._most]
        if not chosen:
            return None
        block = as_data("\n\n".join(each.text for each in chosen), origin="recall", nonce=nonce)
        return RecallInjected(
            query=text,
            passages=tuple(recalled(each) for each in chosen),
            text=block,
            tokens=count(block),
            share=room,
            nonce=nonce,
            vectors=found.vectors,
        )

    def search(self, query: str, k: int = ASKED_FOR, window: Collection[int] = ()) -> Found:
        """The k best hits outside the window."""
        return self._index.search(query, k, allowed=Filter(exclude=frozenset(window)))

    def close(self) -> None:
        """Forget everything."""
        self._index.close()
