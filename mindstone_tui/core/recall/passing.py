"""An index for one question: in memory, without a file, gone when it is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from mindstone_tui.core.recall.embedding import Embedder, Encoded, Floats
from mindstone_tui.core.recall.gathering import Gatherer
from mindstone_tui.core.recall.index import CHUNKING, RecallIndex, encode
from mindstone_tui.core.recall.store import open_in_memory
from mindstone_tui.core.recall.tables import Tables

T = TypeVar("T")

_NOWHERE: Final = Path(":memory:")


class PassingIndex(RecallIndex):
    """Ranks as a session's own index does, over what it was told since it was made."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        super().__init__(_NOWHERE, embedder)

    def _start(self) -> None:
        self._database, self._can_vectors = open_in_memory()
        self._tables = Tables(self._database)
        self._gatherer = Gatherer(self._database, None)
        self._tables.start_over(CHUNKING)

    def _guarded(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()


class EmbedsOnce:
    """An embedder that never reads the same text twice: several indexes of one history share it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Encoded] = {}

    @property
    def name(self) -> str:
        """The model's own name: its vectors are the same."""
        return self._embedder.name

    @property
    def dims(self) -> int:
        """As many numbers as the model's."""
        return self._embedder.dims

    def embed(self, texts: Sequence[str]) -> Floats:
        """One unit vector a text."""
        rows = [self.encode(text).vector for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.dims), np.float32)

    def encode(self, text: str) -> Encoded:
        """The text's meaning, from memory where it was asked for before."""
        if text not in self._known:
            self._known[text] = encode(self._embedder, text)
        return self._known[text]
