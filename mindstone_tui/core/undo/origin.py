"""Which call made each line of a file, proven by the bytes before and after every call.

A content that is known by its hash has an origin for each of its lines, and a change carries them
over to the next content. What a call finds must be what the last one left, by hash; what happened
in between is nobody's call, and every line that it brought is `unknown`.

What a change did to lines is only as sure as their alignment. Of two contents there may be many
longest alignments: when a second `}` follows a first, either may be the new one. So not one of them
is taken but what all of them agree on. In the grid of both contents these alignments lie between
two outermost paths; where the two meet, all meet, and only between two such places can they differ.

- A line keeps its origin if every alignment keeps it, and from lines of one origin only.
- A line is a call's if no alignment keeps it and no equal line can have gone away in that call, in
  any of its files: a line that only moved was made by whoever made it, not by who moved it.
- A line that says so much that nobody writes it twice by chance, and stands once in both contents,
  is the same line wherever it stands now.
- Everything else is `unknown`: a short line that moved, one of equal lines that could be either.

Lines are equal byte for byte, their ends included. One that is taken away and written again in the
same place is the same line: no byte tells the two apart. `before` is what a file held when a call
first touched it.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from operator import eq
from typing import Final, Literal, NamedTuple

_NEAR: Final = 8
"""Lines around a change that are compared first; more where they repeat."""
_MOST_COMPARED: Final = 400_000_000
"""Pairs of lines up to which alignments are looked at; beyond that no line is carried over."""
_TELLING: Final = 20
"""Signs, blanks apart, by which a line is known again where it moved to."""
_Met = tuple[int, int, int]
"""A point of the grid of two contents, and how many lines are kept up to it."""


class Origin(NamedTuple):
    """Where a line comes from; turn, session and line of the transcript if a call made it."""

    what: Literal["turn", "before", "unknown"]
    turn: int | None = None
    session: str | None = None
    seq: int | None = None


BEFORE: Final = Origin("before")
UNKNOWN: Final = Origin("unknown")


class Traced(NamedTuple):
    """A content by its lines, and where each comes from."""

    lines: list[bytes]
    origins: list[Origin]


class Beside(NamedTuple):
    """What is known of a call beside the bytes of one path."""

    source: str = ""
    """Where the content of a new file stood before the call."""
    gone: Callable[[], Collection[bytes]] = frozenset
    """Finds out which lines went away from other files."""
    edit: tuple[bytes, bytes] = b"", b""
    """What it was asked to replace, and by what."""


NOTHING: Final = Traced([], [])


def lines_of(data: bytes) -> list[bytes]:
    """The lines, each with its end."""
    return io.BytesIO(data).readlines()


def gone(before: bytes, after: bytes) -> set[bytes]:
    """Lines of which there are fewer than before."""
    return set(Counter(lines_of(before)) - Counter(lines_of(after)))


def carried(old: Traced, new: list[bytes], maker: Origin, moved: Collection[bytes] = ()) -> Traced:
    """The origins of a content's lines after a change; `moved` may have come from elsewhere."""
    top = _alike(old.lines, new)
    if top == len(old.lines) == len(new):
        return old
    end = _alike(reversed(old.lines[top:]), reversed(new[top:]))
    reach = _NEAR
    while True:
        start, stop = max(0, top - reach), max(0, end - reach)
        left, right = old.lines[start : len(old.lines) - stop], new[start : len(new) - stop]
        if len(left) * len(right) > _MOST_COMPARED:
            return Traced(new, [UNKNOWN] * len(new))
        met = _meeting(left, right)
        # Where all alignments meet inside of what is equal, they are one from there on.
        above = not start or any(i == j and 0 < i <= top - start for i, j, _ in met)
        n, m = len(left), len(right)
        below = not stop or any(n - i == m - j and 0 < n - i <= end - stop for i, j, _ in met)
        if above and below:
            break
        reach *= 4
    within = Traced(left, old.origins[start : len(old.origins) - stop])
    middle = _between(within, right, met, maker, moved)
    if UNKNOWN in middle:
        middle = _found_again(within, right, middle, moved)
    return Traced(new, [*old.origins[:start], *middle, *old.origins[len(old.origins) - stop :]])


def _found_again(
    old: Traced, new: list[bytes], told: list[Origin], moved: Collection[bytes]
) -> list[Origin]:
    """The origins with those of lines that stand elsewhere now, each of which there is one of."""
    before, after = Counter(old.lines), Counter(new)
    by_line = dict(zip(old.lines, old.origins, strict=True))
    return [
        by_line[line]
        if origin is UNKNOWN
        and before[line] == after[line] == 1
        and line not in moved
        and len(b"".join(line.split())) >= _TELLING
        else origin
        for line, origin in zip(new, told, strict=True)
    ]


def _between(
    old: Traced, new: list[bytes], met: Sequence[_Met], maker: Origin, moved: Collection[bytes]
) -> list[Origin]:
    found: list[Origin | None] = []
    away = set(moved)
    for (i0, j0, kept0), (i1, j1, kept1) in pairwise(met):
        kept = kept1 - kept0
        if kept < i1 - i0:
            away.update(old.lines[i0:i1])
        for line in new[j0:j1]:
            could = {old.origins[i] for i in range(i0, i1) if old.lines[i] == line} if kept else ()
            sure = len(could) == 1 and kept == j1 - j0
            found.append(None if not could else next(iter(could)) if sure else UNKNOWN)
    made = (UNKNOWN if line in away else maker for line in new)
    return [origin or other for origin, other in zip(found, made, strict=True)]


def _alike(left: Iterable[bytes], right: Iterable[bytes]) -> int:
    """How many lines are the same from the first on."""
    return sum(takewhile(bool, map(eq, left, right)))


def _meeting(left: list[bytes], right: list[bytes]) -> list[_Met]:
    """The points that all longest alignments pass.

    A row of the table of common lengths is one number, whose bit is unset where a column adds one.
    """
    places: dict[bytes, int] = {}
    for at, line in enumerate(right):
        places[line] = places.get(line, 0) | 1 << at
    whole = (1 << len(right)) - 1
    rows = [whole]
    for line in left:
        hits = rows[-1] & places.get(line, 0)
        rows.append(((rows[-1] + hits) | (rows[-1] - hits)) & whole)
    highest = set(_path(left, right, rows, upwards=True))
    return [each for each in _path(left, right, rows, upwards=False) if each in highest][::-1]


def _path(
    left: list[bytes], right: list[bytes], rows: Sequence[int], *, upwards: bool
) -> Iterator[_Met]:
    """The outermost longest alignment on one side, from its end."""
    i, j = len(left), len(right)
    kept = j - rows[i].bit_count()
    yield i, j, kept
    while i or j:
        if upwards:
            free = i > 0 and j - (rows[i - 1] & ((1 << j) - 1)).bit_count() == kept
        else:
            free = j > 0 and rows[i] >> (j - 1) & 1 == 1
        if not free and i and j and left[i - 1] == right[j - 1]:
            i, j, kept = i - 1, j - 1, kept - 1
        elif free == upwards:
            i -= 1
        else:
            j -= 1
        yield i, j, kept


class OriginFold:
    """Follows files from one kept content to the next, in the order in which calls ended."""

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = lru_cache(4)(read)
        """A content by its hash; None where it is not kept. What a call leaves, the next finds."""
        self._now: dict[str, tuple[str, Traced]] = {}
        self._known: dict[str, dict[str, Traced]] = {}
        self._undone: dict[str, dict[str, Traced]] = {}
        """What was taken back: whoever makes the same again by hand is not that call."""

    def first(self, path: str, digest: str, base: Origin, strays: Collection[bytes]) -> None:
        """Take a file as a call first found it; what may have strayed into it is nobody's."""
        lines = lines_of(self._read(digest) or b"")
        origins = [UNKNOWN if line in strays else base for line in lines]
        self._settle(path, digest if lines else "", Traced(lines, origins))

    def found(self, path: str, digest: str | None) -> bool:
        """Take a path as it stands, whoever made it so; whether its content is known.

        None stands for no file, "" for one that was not kept.
        """
        known, last = self._now.get(path, ("", NOTHING))
        if not digest or digest == known:
            self._now[path] = ("", NOTHING) if digest is None else (digest, last)
            return digest != ""
        told = self._known.get(path, {}).get(digest)
        if told is None and (data := self._read(digest)) is not None:
            told = carried(last, lines_of(data), UNKNOWN)
        if told is None:
            self._now[path] = "", last
            return False
        self._settle(path, digest, told)
        return True

    def restored(self, path: str, digest: str | None) -> None:
        """Take a path as it was put back; what came after that content holds no longer."""
        known, undone = self._known.get(path, {}), self._undone.setdefault(path, {})
        state = known.get(digest or "") or undone.get(digest or "")
        if digest not in undone:
            every = list(known)
            for key in every[every.index(digest) + 1 if digest in known else 0 :]:
                undone[key] = known.pop(key)
        self._settle(path, digest, state) if digest and state else self.found(path, digest)

    def called(
        self, path: str, before: str | None, after: str | None, maker: Origin, call: Beside
    ) -> None:
        """Take what one call did to a path."""
        proven = self.found(path, before)
        same = self._known.get(call.source, {}).get(after or "")
        if same is not None and after:
            self._settle(path, after, same)
        elif proven and after and (data := self._read(after)) is not None:
            old, by = self._now[path][1]
            top, end, middle = _around(self._read(before or "") or b"", data, *call.edit)
            edge = len(old) - end
            within = Traced(old[top:edge], by[top:edge])
            inner = carried(within, lines_of(middle), maker, call.gone())
            new = [*old[:top], *inner.lines, *old[edge:]]
            self._settle(path, after, Traced(new, [*by[:top], *inner.origins, *by[edge:]]))
        else:
            self.found(path, after)

    def edited(
        self, path: str, change: Callable[[bytes | None], bytes | None], maker: Origin, *, new: bool
    ) -> None:
        """Take an edit that is recorded without the file; None where it does not fit.

        Of a file that was not known, only one that is `new` is the maker's.
        """
        digest, last = self._now.get(path, ("", NOTHING))
        if (data := change(b"".join(last.lines) if digest else None)) is None:
            self.found(path, "")
        else:
            traced = carried(last, lines_of(data), maker if digest or new else UNKNOWN)
            self._settle(path, hashlib.sha256(data).hexdigest(), traced)

    def now(self, path: str) -> Traced:
        """What a path holds at the end."""
        return self._now.get(path, ("", NOTHING))[1]

    def once(self, path: str, data: bytes, late: Collection[Origin]) -> Traced:
        """A content that stood at a path, or that a person made of the last one there.

        Of one that is not known, nothing that is `late` counts.
        """
        found = self._known.get(path, {}).get(hashlib.sha256(data).hexdigest())
        if found is None:
            lines, origins = carried(self.now(path), lines_of(data), UNKNOWN)
            found = Traced(lines, [UNKNOWN if each in late else each for each in origins])
        return found

    def _settle(self, path: str, digest: str, told: Traced) -> None:
        self._now[path] = digest, told
        known = self._known.setdefault(path, {})
        known[digest] = _agreed(known[digest], told) if digest in known else told


def _around(before: bytes, after: bytes, old: bytes, new: bytes) -> tuple[int, int, bytes]:
    """How many lines an edit left alone above and below, and what stands between them now.

    Only if just this edit explains the change: else all of it stands between them.
    """
    at = before.rfind(old) if old else -1
    top, end = before[: max(at, 0)], before[at + len(old) :]
    if at < 0 or before.find(old) != at or top + new + end != after:
        return 0, 0, after
    begins = old.endswith(b"\n") and (new or top or old).endswith(b"\n")
    below = end if begins else end.partition(b"\n")[2]
    middle = after[top.rfind(b"\n") + 1 : len(after) - len(below)]
    return top.count(b"\n"), below.count(b"\n") + (below[-1:] not in (b"", b"\n")), middle


def _agreed(one: Traced, other: Traced) -> Traced:
    """Two stories of the same content: what both say."""
    pairs = zip(one.origins, other.origins, strict=True)
    return Traced(one.lines, [left if left == right else UNKNOWN for left, right in pairs])
