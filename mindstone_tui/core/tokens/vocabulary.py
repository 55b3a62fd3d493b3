"""Exact token counts without loading a vocabulary: tokens are looked up in a mapped file.

Half a second and eighty megabytes is what loading costs, and a turn looks up a few thousand words.
Here only the pages that are touched are read. For megabytes at once a loaded vocabulary is faster,
and for some texts this one answers None; the caller then asks tiktoken, whose counts are the same.
"""

from __future__ import annotations

import functools
import json
import mmap
import re
import struct
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mindstone_tui.core.patterns import pattern_of

LONGEST_PIECE: Final = 1_000
"""Bytes of one unbroken run that are merged here; what is longer would be slow."""
_NO_RANK: Final = 1 << 32
_HEAD: Final = struct.Struct("<4sIII")
_MAGIC: Final = b"BPE1"
_REMEMBERED: Final = 20_000
"""Pieces whose count is kept: most of a text is words that were met before."""
_BEYOND: Final = pattern_of("[^\\x00-\\x7f§«°±·»×÷‐-‧‰-⁞←-⏿─-❵➔-➿]")
"""What is neither ASCII nor a mark that no alphabet, number or space has."""
_CLASS: Final = pattern_of(r"\[|\]|\\(?:p\{(\w+)\}|([sS])|.)")
_PLAIN: Final = {"L": "A-Za-z", "Lu": "A-Z", "Ll": "a-z", "N": "0-9", "s": " \\t\\n\\x0b\\f\\r"}
"""What is left of a class of characters when there is nothing beyond."""


class Vocabulary:
    """One byte-pair vocabulary, mapped from its file."""

    def __init__(self, path: Path) -> None:
        if find_spec("regex") is None:  # loaded late, but it must be there
            raise ImportError("The package regex is missing.")
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, pattern, tokens, slots = _HEAD.unpack_from(self._bytes)
        if magic != _MAGIC:
            raise ValueError(f"{path.name} is not a vocabulary.")
        numbers = memoryview(self._bytes)
        at = _HEAD.size + pattern
        self._slots = numbers[at : at + 4 * slots].cast("I")
        at += 4 * slots
        self._ends = numbers[at : at + 4 * (tokens + 1)].cast("I")
        self._first = at + 4 * (tokens + 1)
        self._mask = slots - 1
        self._pattern: str = json.loads(self._bytes[_HEAD.size : _HEAD.size + pattern])["pattern"]
        self._split_plain = re.compile(plain(self._pattern)).findall
        self._known: dict[str, int] = {}
        self._plain: set[str] = set()

    def count(self, text: str) -> int | None:
        """Tokens in a text; None when it has to be counted elsewhere."""
        if not (text.isascii() or self._is_plain(text)):
            return None
        known, total = self._known, 0
        for piece in (self._split_any if _BEYOND.search(text) else self._split_plain)(text):
            size = known.get(piece)
            if size is None:
                raw = piece.encode()
                if len(raw) > LONGEST_PIECE:
                    return None
                size = self._tokens(raw)
                if len(known) >= _REMEMBERED:
                    known.clear()
                known[piece] = size
            total += size
        return total

    @functools.cached_property
    def _split_any(self) -> Callable[[str], list[str]]:
        """The splitter for all alphabets, whose tables take longer to load than a turn counts."""
        import regex  # type: ignore[import-untyped]

        findall: Callable[[str], list[str]] = regex.compile(self._pattern).findall
        return findall

    def rank(self, token: bytes) -> int | None:
        """A token's number, if it is one."""
        slot = zlib.crc32(token) & self._mask
        while found := int(self._slots[slot]):
            start = self._first + self._ends[found - 1]
            if self._bytes[start : self._first + self._ends[found]] == token:
                return found - 1
            slot = (slot + 1) & self._mask
        return None

    def _tokens(self, piece: bytes) -> int:
        """How many tokens are left when no two neighbours make one any more."""
        if self.rank(piece) is not None:
            return 1
        edges = list(range(len(piece) + 1))
        ranks = [self._rank_or_none(piece[at : at + 2]) for at in range(len(piece) - 1)]
        while ranks and (lowest := min(ranks)) != _NO_RANK:
            at = ranks.index(lowest)
            del edges[at + 1], ranks[at]
            if at:
                ranks[at - 1] = self._rank_or_none(piece[edges[at - 1] : edges[at + 1]])
            if at < len(ranks):
                ranks[at] = self._rank_or_none(piece[edges[at] : edges[at + 2]])
        return len(edges) - 1

    def _rank_or_none(self, token: bytes) -> int:
        rank = self.rank(token)
        return _NO_RANK if rank is None else rank

    def _is_plain(self, text: str) -> bool:
        """Whether every character has been in Unicode long enough to be classed alike everywhere.

        Half a surrogate pair is no text and is left to tiktoken as well.
        """
        fresh = set(text) - self._plain
        if any(unicodedata.category(character) in ("Cn", "Cs") for character in fresh):
            return False
        self._plain |= fresh
        return True


@functools.cache
def open_vocabulary(name: str) -> Vocabulary | None:
    """A vocabulary that ships with the package; None when it, or its splitter, cannot be had."""
    try:
        return Vocabulary(Path(__file__).with_name("vocabularies") / f"{name}.bpe")
    except (ImportError, OSError, ValueError):
        return None


def plain(pattern: str) -> str:
    """A splitter in the words of Python's `re`, right for texts with nothing `_BEYOND` in them."""
    inside = False

    def part(found: re.Match[str]) -> str:
        nonlocal inside
        if found[0] in "[]":
            inside = found[0] == "["
            return found[0]
        name = found[1] or found[2]
        if name is None:
            return found[0]
        letters = _PLAIN.get(name.lower() if name == "S" else name, "")
        return letters if inside else f"[^{letters}]" if name == "S" else f"[{letters}]"

    return _CLASS.sub(part, pattern)


def written(pattern: str, ranks: Mapping[bytes, int]) -> bytes:
    """A vocabulary as a file: splitter, hash table of numbers, ends of tokens, tokens."""
    tokens: Sequence[bytes] = sorted(ranks, key=ranks.__getitem__)
    if [ranks[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError("The ranks have gaps.")
    slots = [0] * (1 << (len(tokens) * 5 // 4).bit_length())
    ends = [0]
    for number, token in enumerate(tokens, start=1):
        slot = zlib.crc32(token) & (len(slots) - 1)
        while slots[slot]:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = number
        ends.append(ends[-1] + len(token))
    said = json.dumps({"pattern": pattern}).encode()
    said += b" " * (-len(said) % 4)
    head = _HEAD.pack(_MAGIC, len(said), len(tokens), len(slots))
    numbers = struct.pack(f"<{len(slots)}I{len(ends)}I", *slots, *ends)
    return head + said + numbers + b"".join(tokens)
