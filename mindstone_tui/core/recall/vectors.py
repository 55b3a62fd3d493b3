"""All vectors of an index in memory, small enough to scan on every question.

Up to some tens of thousands of passages the numbers themselves are kept and compared exactly.
Above that only their signs are: the nearest by sign are chosen in milliseconds, their numbers are
then read from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindstone_tui.core.recall.embedding import Floats, signs

EXACT_UP_TO: Final = 20_000
SHORTLIST: Final = 400
"""How many of the nearest by sign are looked at again."""
_BLOCK: Final = 1 << 16
_SAMPLE: Final = 512

Rows = NDArray[np.int64]
ReadFloats = Callable[[Sequence[int]], dict[int, bytes]]


class VectorView:
    """Vectors by passage row; grows as they are stored."""

    def __init__(self, dims: int, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self._dims = dims
        self._exact_up_to = exact_up_to
        self._rows: Rows = np.empty(0, np.int64)
        self._order: Rows = np.empty(0, np.int64)
        self._signs: NDArray[np.uint64] = np.empty((0, -(-dims // 64)), np.uint64)
        self._floats: Floats | None = np.empty((0, dims), np.float32)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Sequence[int], packed: Sequence[bytes], read: ReadFloats) -> None:
        """Take in vectors that were stored since; `read` gives numbers while they are kept."""
        if not rows:
            return
        width = self._signs.shape[1] * 8
        block = np.frombuffer(b"".join(bits.ljust(width, b"\0") for bits in packed), np.uint64)
        self._rows = np.concatenate((self._rows, np.array(rows, np.int64)))
        self._order = np.argsort(self._rows, kind="stable")
        self._signs = np.concatenate((self._signs, block.reshape(len(rows), -1)))
        if self._floats is not None and len(self._rows) <= self._exact_up_to:
            floats = read(rows)
            fresh = np.frombuffer(b"".join(floats[row] for row in rows), np.float32)
            self._floats = np.concatenate((self._floats, fresh.reshape(len(rows), -1)))
        else:
            self._floats = None

    def nearest(
        self, asked: Floats, count: int, allowed: Rows | None, read: ReadFloats
    ) -> tuple[dict[int, float], float]:
        """The nearest rows with their cosines, and the mean cosine of the whole collection."""
        if not len(self):
            return {}, 0.0
        places = np.arange(len(self)) if allowed is None else self._places(allowed)
        if self._floats is not None:
            cosines = self._floats @ asked
            best = places[_highest(cosines[places], count)]
            return self._named(best, cosines[best]), float(cosines.mean())
        background = np.linspace(0, len(self) - 1, min(_SAMPLE, len(self))).astype(np.intp)
        mean = float(self._estimates(asked, background).mean())
        near = places[_highest(-self._distances(asked, places), SHORTLIST)]
        estimates = self._estimates(asked, near)
        best = near[_highest(estimates, count)]
        stored = read([int(row) for row in self._rows[best]])
        exact = {row: float(np.frombuffer(raw, np.float32) @ asked) for row, raw in stored.items()}
        return exact, mean

    def cosines(self, asked: Floats, rows: Sequence[int]) -> dict[int, float]:
        """Cosines of the rows that have a vector; estimates where only signs are kept."""
        places = self._places(np.array(rows, np.int64))
        if not len(places):
            return {}
        if self._floats is not None:
            return self._named(places, self._floats[places] @ asked)
        return self._named(places, self._estimates(asked, places))

    def _places(self, rows: Rows) -> NDArray[np.intp]:
        """Where rows stand in memory; those without a vector are left out."""
        if not len(self) or not len(rows):
            return np.empty(0, np.intp)
        at = np.searchsorted(self._rows, rows, sorter=self._order)
        places = self._order[np.minimum(at, len(self) - 1)]
        return np.asarray(places[self._rows[places] == rows], np.intp)

    def _named(self, places: NDArray[np.intp], values: Floats) -> dict[int, float]:
        return dict(zip(self._rows[places].tolist(), values.tolist(), strict=True))

    def _distances(self, asked: Floats, places: NDArray[np.intp]) -> NDArray[np.int16]:
        width = self._signs.shape[1] * 8
        wanted = np.frombuffer(signs(asked[None, :]).tobytes().ljust(width, b"\0"), np.uint64)
        kept = self._signs if len(places) == len(self) else self._signs[places]
        found = np.empty(len(kept), np.int16)
        for start in range(0, len(kept), _BLOCK):
            block = np.bitwise_count(kept[start : start + _BLOCK] ^ wanted)
            found[start : start + _BLOCK] = block.sum(axis=1, dtype=np.int16)
        return found

    def _estimates(self, asked: Floats, places: NDArray[np.intp]) -> Floats:
        packed = np.ascontiguousarray(self._signs[places]).view(np.uint8)
        rows = np.unpackbits(packed, axis=1, bitorder="little")[:, : self._dims]
        products = 2 * (rows.astype(np.float32) @ asked) - asked.sum()
        return np.asarray(products / np.sqrt(self._dims * 2 / np.pi), np.float32)


def _highest(values: NDArray[np.float32] | NDArray[np.int16], count: int) -> NDArray[np.intp]:
    """Places of the highest values, best first."""
    if len(values) > count:
        chosen = np.argpartition(-values, count - 1)[:count]
    else:
        chosen = np.arange(len(values))
    return np.asarray(chosen[np.argsort(-values[chosen], kind="stable")], np.intp)
