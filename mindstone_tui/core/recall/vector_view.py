"""The vectors of one index in memory: which passages are nearest to a question.

Imported only when there are vectors to compare, because it loads numpy; see
`import_numpy_on_one_thread`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from mindstone_tui.core.recall.closeness import signs
from mindstone_tui.core.recall.embedding import Floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Places = NDArray[np.intp]

COMPARED_UP_TO: Final = 20_000
"""Vectors whose numbers are all kept and compared, a byte each: eight megabytes at most."""
SHORTLIST: Final = 400
"""How many of the nearest by sign are looked at again."""
RESCORED: Final = 24
"""How many of those have their numbers read from the store."""
_SURELY: Final = 8
"""How many times as many are looked at when only most of the signs were compared."""
_COUNTED: Final = 16_384
_BACKGROUND: Final = 256
_BLOCK: Final = 1 << 17
_AT_ONCE: Final = 1_024
"""Rows whose numbers are made whole at a time: what stays in the processor's cache."""
_LARGEST: Final = 127

ReadFloats = Callable[[Sequence[int]], dict[int, bytes]]


class VectorView:
    """Vectors by passage row; grows as they are stored.

    A vector's numbers are kept as bytes with one scale a vector: that takes a quarter of the memory
    and moves a cosine by two thousandths at most, which is far below what tells passages apart.
    """

    def __init__(self, dims: int, *, compared_up_to: int = COMPARED_UP_TO) -> None:
        self._dims = dims
        self._compared_up_to = compared_up_to
        self._width = -(-dims // 64)
        self._count = 0
        self._rows: Rows = np.empty(0, np.int64)
        # One line of memory for each 64 numbers: scanning those is four times faster.
        self._signs: NDArray[np.uint64] = np.empty((self._width, 0), np.uint64)
        self._numbers: NDArray[np.int8] | None = np.empty((0, dims), np.int8)
        self._scales: Floats = np.empty(0, np.float32)
        self._order: Places | None = None
        self._ordinary: Floats | None = None
        """The mean of some vectors' signs: what any question is compared with to know what is
        usual."""

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Sequence[int], packed: Sequence[bytes], read: ReadFloats) -> None:
        """Take in vectors that were stored since; `read` gives numbers while they are kept."""
        if not rows:
            return
        first, self._count = self._count, self._count + len(rows)
        if self._count > self._compared_up_to:
            self._numbers, self._scales = None, np.empty(0, np.float32)
        self._reserve()
        joined = b"".join(bits.ljust(8 * self._width, b"\0") for bits in packed)
        self._signs[:, first : self._count] = (
            np.frombuffer(joined, np.uint64).reshape(len(rows), -1).T
        )
        self._rows[first : self._count] = rows
        self._order = self._ordinary = None
        if self._numbers is not None:
            numbers = read(rows)
            fresh = np.frombuffer(b"".join(numbers[row] for row in rows), np.float32)
            fresh = fresh.reshape(len(rows), -1)
            scales = np.maximum(np.abs(fresh).max(axis=1), np.float32(1e-12)) / _LARGEST
            self._numbers[first : self._count] = np.rint(fresh / scales[:, None])
            self._scales[first : self._count] = scales

    def nearest(
        self, asked: Floats, count: int, allowed: Collection[int] | None, read: ReadFloats
    ) -> tuple[dict[int, float], float]:
        """The nearest rows with their cosines, best first, and the collection's mean cosine."""
        places = None if allowed is None else self._places(sorted(allowed))
        if not self._count or (places is not None and not len(places)):
            return {}, 0.0
        if self._numbers is not None:
            cosines = self._compared(asked)
            among = np.arange(self._count) if places is None else places
            best = among[_highest(cosines[among], count)]
            return self._named(best, cosines[best]), float(cosines.mean())
        if self._ordinary is None:
            spread = np.linspace(0, self._count - 1, min(_BACKGROUND, self._count))
            self._ordinary = self._bits(spread.astype(np.intp)).mean(axis=0, keepdims=True)
        mean = float(self._cosines_of(self._ordinary, asked)[0])
        near = self._nearest_by_sign(asked, max(SHORTLIST, 2 * count), places)
        estimates = self._estimates(asked, near)
        order = _highest(estimates, count)
        found = self._named(near[order], estimates[order])
        for row, numbers in read(list(found)[:RESCORED]).items():
            found[row] = float(np.frombuffer(numbers, np.float32) @ asked)
        return dict(sorted(found.items(), key=lambda item: -item[1])), mean

    def cosines(self, asked: Floats, rows: Sequence[int]) -> dict[int, float]:
        """Cosines of the rows that have a vector; estimates where only signs are kept."""
        places = self._places(rows)
        if not len(places):
            return {}
        if self._numbers is not None:
            whole = self._numbers[places].astype(np.float32)
            return self._named(places, (whole @ asked) * self._scales[places])
        return self._named(places, self._estimates(asked, places))

    def spread(self, count: int) -> list[int]:
        """So many rows, evenly spread over all that have a vector."""
        places = np.linspace(0, self._count - 1, min(count, self._count)).astype(np.intp)
        return [int(row) for row in self._rows[places]]

    def _compared(self, asked: Floats) -> Floats:
        """The cosine of every vector."""
        assert self._numbers is not None
        cosines = np.empty(self._count, np.float32)
        for start in range(0, self._count, _AT_ONCE):
            end = min(start + _AT_ONCE, self._count)
            cosines[start:end] = self._numbers[start:end].astype(np.float32) @ asked
        return np.asarray(cosines * self._scales[: self._count], np.float32)

    def _reserve(self) -> None:
        """Room for what is counted; doubling keeps growth cheap."""
        if self._count > len(self._rows):
            room = max(self._count, 2 * len(self._rows), 1024)
            rows, packed = self._rows, self._signs
            self._rows = np.zeros(room, np.int64)
            self._rows[: len(rows)] = rows
            self._signs = np.zeros((self._width, room), np.uint64)
            self._signs[:, : packed.shape[1]] = packed
            if self._numbers is not None:
                numbers, scales = self._numbers, self._scales
                room = min(room, self._compared_up_to)
                self._numbers = np.zeros((room, self._dims), np.int8)
                self._numbers[: len(numbers)] = numbers
                self._scales = np.zeros(room, np.float32)
                self._scales[: len(scales)] = scales

    def _places(self, wanted: Sequence[int]) -> Places:
        """Where rows stand in memory; those without a vector are left out."""
        if not self._count or not wanted:
            return np.empty(0, np.intp)
        rows = np.array(wanted, np.int64)
        kept = self._rows[: self._count]
        if self._order is None:
            self._order = np.argsort(kept, kind="stable")
        at = np.searchsorted(kept, rows, sorter=self._order)
        places = self._order[np.minimum(at, self._count - 1)]
        return np.asarray(places[kept[places] == rows], np.intp)

    def _named(self, places: Places, values: Floats) -> dict[int, float]:
        return dict(zip(self._rows[places].tolist(), values.tolist(), strict=True))

    def _nearest_by_sign(self, asked: Floats, count: int, places: Places | None) -> Places:
        """Places whose signs differ least: by most of the signs first, and the best of them by all.

        Two thirds of the signs tell those that may be near from the rest as well as all do.
        """
        packed = signs(asked[None, :]).tobytes().ljust(8 * self._width, b"\0")
        wanted = np.frombuffer(packed, np.uint64)
        most = -(-2 * self._width // 3)
        differing = np.zeros(self._count, np.int16)
        for start in range(0, self._count, _BLOCK):
            end = min(start + _BLOCK, self._count)
            for line, word in zip(self._signs[:most], wanted[:most], strict=True):
                differing[start:end] += np.bitwise_count(line[start:end] ^ word)
        if places is None:
            near = lowest(differing, _SURELY * count)
        else:
            near = places[lowest(differing[places], _SURELY * count)]
        whole = differing[near]
        for line, word in zip(self._signs[most:], wanted[most:], strict=True):
            whole += np.bitwise_count(line[near] ^ word)
        return near[lowest(whole, count)]

    def _estimates(self, asked: Floats, places: Places) -> Floats:
        """Cosines as far as signs tell them: right on average, off by a few hundredths."""
        return self._cosines_of(self._bits(places), asked)

    def _bits(self, places: Places) -> Floats:
        """Signs as 0 and 1."""
        packed = np.ascontiguousarray(self._signs[:, places].T).view(np.uint8)
        return np.unpackbits(packed, axis=1, bitorder="little")[:, : self._dims].astype(np.float32)

    def _cosines_of(self, bits: Floats, asked: Floats) -> Floats:
        # A product with ±1 is twice the product with 0 and 1, less the plain sum.
        products = 2 * (bits @ asked) - asked.sum()
        return np.asarray(products / np.sqrt(self._dims * 2 / np.pi), np.float32)


def lowest(values: NDArray[np.int16], count: int) -> Places:
    """Places of at least so many of the lowest values, if there are that many, in no order.

    A histogram finds the bound without sorting, and one of some values finds it nearly as well.
    """
    step = max(len(values) // _COUNTED, 1)
    reached = step * np.bincount(values[::step]).cumsum()
    bound = int(np.searchsorted(reached, min(count, len(values))))
    near = np.flatnonzero(values <= bound)
    while len(near) < min(count, len(values)):
        bound += 1
        near = np.flatnonzero(values <= bound)
    return near


def _highest(values: Floats, count: int) -> Places:
    """Places of the highest values, best first."""
    if len(values) > count:
        chosen = np.argpartition(-values, count - 1)[:count]
    else:
        chosen = np.arange(len(values))
    return np.asarray(chosen[np.argsort(-values[chosen], kind="stable")], np.intp)
