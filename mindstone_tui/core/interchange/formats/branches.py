"""Which records of a file are its conversation, where going back and trying again made a tree.

Programs append to one file and link each record to the one it follows. Whoever goes back and says
something else leaves a branch behind: it stays in the file, and the conversation is the way to the
last record. A file is read twice for this: once for its links, once for its words.
"""

from __future__ import annotations

from array import array
from typing import Final

_NOBODY: Final = -1


class Branches:
    """The links of one file, told in its order; afterwards, what is on the way to the last record.

    A record follows only what stands before it, so no links can form a circle. One that names an
    unknown record follows the one before it in the file: nothing is left out unless a fork shows
    that it was.
    """

    def __init__(self) -> None:
        self._limb_of: dict[int, int] = {}
        self._parents = array("q")
        self._last = _NOBODY
        self._leaf = _NOBODY
        self._kept: bytearray | None = None

    def add(
        self, name: str, parent: str | None, *, forks: bool = True, counts: bool = True
    ) -> None:
        """One more record; `forks` where a person can go back to, `counts` if it can be the last.

        A record that does not fork belongs to the one it follows, however the file spreads them.
        A parent of None is a new beginning.
        """
        before = _NOBODY if parent is None else self._limb_of.get(hash(parent), self._last)
        if forks or before == _NOBODY:
            self._parents.append(before)
            before = len(self._parents) - 1
        self._limb_of[hash(name)] = self._last = before
        if counts:
            self._leaf = before

    def __contains__(self, name: str) -> bool:
        """Whether a record of this name is in the file."""
        return hash(name) in self._limb_of

    def keeps(self, name: str) -> bool:
        """Whether a record is part of the conversation; one without a known name always is."""
        if self._kept is None:
            self._kept = self._way_to_the_leaf()
        limb = self._limb_of.get(hash(name))
        return limb is None or self._leaf == _NOBODY or bool(self._kept[limb])

    def _way_to_the_leaf(self) -> bytearray:
        kept = bytearray(len(self._parents))
        limb = self._leaf
        while limb != _NOBODY:
            kept[limb] = 1
            limb = self._parents[limb]
        return kept
