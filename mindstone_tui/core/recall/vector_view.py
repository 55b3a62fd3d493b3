"""Vectors of a part of the library: which passages are nearest to a question.

Signs are compared in memory, where a million take some thirty milliseconds; the cosines of those
that come near are sqlite-vec's, from the stored numbers. Imported only when there are vectors to
compare, because it loads numpy; see `import_numpy_on_one_thread`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import apsw
import numpy as np

from mindstone_tui.core.recall.closeness import signs
from mindstone_tui.core.recall.embedding import Floats
from mindstone_tui.core.recall.library_file import owner_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Places = NDArray[np.intp]

SHORTLIST: Final = 300
"""How many of the nearest by sign have their cosine worked out."""
_SURELY: Final = 8
"""How many times as many are looked at when only most of the signs were compared."""
_COUNTED: Final = 16_384
_BACKGROUND: Final = 256
_BLOCK: Final = 1 << 17
_LOADED_AT_ONCE: Final = 20_000
_LARGEST: Final = 127


def as_bytes(vector: Floats) -> bytes:
    """A vector with a byte for each number; its length does not count."""
    largest = max(float(np.abs(vector).max(initial=0.0)), 1e-12)
    return bytes(np.rint(vector * (_LARGEST / largest)).astype(np.int8).tobytes())


def as_floats(numbers: bytes) -> Floats:
    """A stored vector, of length one."""
    vector = np.frombuffer(numbers, np.int8).astype(np.float32)
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def signs_of(numbers: bytes) -> bytes:
    """The signs of a stored vector, eight a byte."""
    return signs(np.frombuffer(numbers, np.int8).astype(np.float32)[None, :]).tobytes()


class VectorView:
    """Vectors of one kind by passage row, of one owner or all; grows as they are stored."""

    def __init__(
        self, database: apsw.Connection, dims: int, owner: int | None = None, kind: str = ""
    ) -> None:
        self._database = database
        self._dims = dims
        self._owner = owner
        self._signs_in, self._numbers_in = f"{kind}signs", f"{kind}numbers"
        self._last_place = 0
        self._width = -(-dims // 64)
        self._count = 0
        self._rows: Rows = np.empty(0, np.int64)
        # One line of memory for each 64 numbers: scanning those is four times faster.
        self._signs: NDArray[np.uint64] = np.empty((self._width, 0), np.uint64)
        self._order: Places | None = None
        self._ordinary: Floats | None = None
        """The mean of some vectors' signs: what any question is compared with to know what is
        usual."""

    def __len__(self) -> int:
        return self._count

    def refresh(self) -> None:
        """Take in the signs that were stored since the last look."""
        whose = "" if self._owner is None else f"owner = {self._owner:d} and "
        fresh = self._database.execute(
            f"select place, row, bits from {self._signs_in} where {whose}place > ? order by place",
            (self._last_place,),
        )
        while block := list(islice(fresh, _LOADED_AT_ONCE)):
            places, rows, bits = zip(*block, strict=True)
            self._add(rows, bits)
            self._last_place = places[-1]

    def nearest(
        self,
        asked: Floats,
        count: int,
        rows: Collection[int] | None = None,
        owners: Collection[int] | None = None,
    ) -> tuple[dict[int, float], float]:
        """The nearest rows with their cosines, best first, and the collection's mean cosine."""
        places = None if rows is None else self._places(sorted(rows))
        if owners is not None:
            whose = owner_of_each(
                self._rows[: self._count] if places is None else self._rows[places]
            )
            meant = np.zeros(int(whose.max(initial=0)) + 1, np.bool_)
            meant[[each for each in owners if each < len(meant)]] = True
            kept = meant[whose]
            if places is not None:
                places = places[kept]
            elif not kept.all():  # looking at everybody's costs half as much
                places = np.flatnonzero(kept)
        if not self._count or (places is not None and not len(places)):
            return {}, 0.0
        near = self._nearest_by_sign(asked, max(SHORTLIST, 2 * count), places)
        cosines = self.cosines(asked, self._rows[near].tolist())
        best = sorted(cosines, key=cosines.__getitem__, reverse=True)[:count]
        if self._count <= len(near):
            mean = sum(cosines.values()) / max(len(cosines), 1)
        else:
            mean = self._usual(asked)
        return {row: cosines[row] for row in best}, mean

    def cosines(self, asked: Floats, rows: Sequence[int]) -> dict[int, float]:
        """Cosines of the rows that have a vector."""
        found = self._database.execute(
            "select row, 1 - vec_distance_cosine(vec_int8(numbers), vec_int8(?))"
            f" from {self._numbers_in} where row in (select value from json_each(?))",
            (as_bytes(asked), json.dumps(list(rows))),
        )
        return dict(found)

    def vectors(self, rows: Sequence[int]) -> dict[int, Floats]:
        """The vectors themselves."""
        found = self._database.execute(
            f"select row, numbers from {self._numbers_in}"
            " where row in (select value from json_each(?))",
            (json.dumps(list(rows)),),
        )
        return {row: as_floats(numbers) for row, numbers in found}

    def spread(self, count: int) -> list[int]:
        """So many rows, evenly spread over all that have a vector."""
        places = np.linspace(0, self._count - 1, min(count, self._count)).astype(np.intp)
        return [int(row) for row in self._rows[places]]

    def _usual(self, asked: Floats) -> float:
        """The mean cosine, as far as the signs of some tell it."""
        if self._ordinary is None:
            spread = np.linspace(0, self._count - 1, min(_BACKGROUND, self._count))
            self._ordinary = self._bits(spread.astype(np.intp)).mean(axis=0)
        # A product with ±1 is twice the product with 0 and 1, less the plain sum.
        product = 2 * float(self._ordinary @ asked) - float(asked.sum())
        return product / float(np.sqrt(self._dims * 2 / np.pi))

    def _add(self, rows: Sequence[int], packed: Sequence[bytes]) -> None:
        first, self._count = self._count, self._count + len(rows)
        self._reserve()
        joined = b"".join(bits.ljust(8 * self._width, b"\0") for bits in packed)
        self._signs[:, first : self._count] = (
            np.frombuffer(joined, np.uint64).reshape(len(rows), -1).T
        )
        self._rows[first : self._count] = rows
        self._order = self._ordinary = None

    def _reserve(self) -> None:
        """Room for what is counted; doubling keeps growth cheap."""
        if self._count > len(self._rows):
            room = max(self._count, 2 * len(self._rows), 1024)
            rows, packed = self._rows, self._signs
            self._rows = np.zeros(room, np.int64)
            self._rows[: len(rows)] = rows
            self._signs = np.zeros((self._width, room), np.uint64)
            self._signs[:, : packed.shape[1]] = packed

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
        return near[np.argsort(whole, kind="stable")[:count]]

    def _bits(self, places: Places) -> Floats:
        """Signs as 0 and 1."""
        packed = np.ascontiguousarray(self._signs[:, places].T).view(np.uint8)
        return np.unpackbits(packed, axis=1, bitorder="little")[:, : self._dims].astype(np.float32)


def owner_of_each(rows: Rows) -> Rows:
    """Whose rows these are."""
    return np.asarray(owner_of(rows), np.int64)  # type: ignore[arg-type]


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
