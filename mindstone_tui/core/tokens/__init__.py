"""How large a text is for a model: counted offline, corrected by what providers report.

`TokenCounter` counts, `Calibration` learns, `detect_cut` notices a server that dropped part of a
prompt. No number in here needs the network. The vocabulary is the one closest to the model's own,
looked up in a file that ships with the package. Where an import or a rehearsal counts megabyte upon
megabyte, tiktoken loads the same vocabulary from litellm's folder: that pays only there, because it
holds up every thread for half a second. Where no vocabulary can be had the count comes from
characters and errs high; `method` says which it was.
"""

from __future__ import annotations

import functools
import json
import math
import mmap
import os
import re
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from mindstone_tui.core.disk import read_stored, replace_file
from mindstone_tui.core.entries import Message, ToolSchema
from mindstone_tui.core.errors import EntryNotSaved, PlaceError
from mindstone_tui.core.lockdown import litellm_folder
from mindstone_tui.core.patterns import pattern_of

if TYPE_CHECKING:
    import tiktoken

LONGEST_PIECE: Final = 1_000
"""Bytes of one unbroken run that are merged at once; more would be slow."""
_STRETCH: Final = 240
"""Bytes in which a longer run is counted: at most one token in fifty too many."""
_NO_RANK: Final = 1 << 32
_HEAD: Final = struct.Struct("<4sIII")
_MAGIC: Final = b"BPE1"
_PART: Final = 50_000
_JOINT: Final = pattern_of(r"[A-Za-z](?=[\n -&(-@\[-`{-~])|[0-9](?=[\n -/:-~])|[!-~](?= )")
"""Where one token ends and another begins in every vocabulary."""
_REMEMBERED: Final = 20_000
"""Pieces whose count is kept: most of a text is words that were met before."""
_RANKS: Final = 50_000
"""Ranks of neighbours that are kept."""
_MANY: Final = 24_000
"""Bytes of new pieces from which all ranks are laid out, in 0.1 s: looking them up takes more."""
_BEYOND: Final = pattern_of("[^\\x00-\\x7f§«°±·»×÷‐-‧‰-⁞←-⏿─-❵➔-➿]")
"""What is neither ASCII nor a mark that no alphabet, number or space has."""
_CLASS: Final = pattern_of(r"\[|\]|\\(?:p\{(\w+)\}|([sS])|.)")
_PLAIN: Final = {"L": "A-Za-z", "Lu": "A-Z", "Ll": "a-z", "N": "0-9", "s": " \\t\\n\\x0b\\f\\r"}
"""What is left of a class of characters when there is nothing beyond."""

_RankOf = Callable[[bytes, int], int]
"""Gives a token's number, or what it is given for none."""


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
        self._known: dict[str | bytes, int] = {}
        self._look_up = functools.lru_cache(_RANKS)(self.rank)

    def count(self, text: str) -> int:
        """Tokens in a text; half a character counts as the sign that stands for any."""
        if not text.isascii():
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        known, total, new = self._known, 0, 0
        rank: _RankOf = self._look_up
        plain = text.isascii() or not _BEYOND.search(text)
        # Of a text in other signs, what is new at the beginning goes on being new.
        many = _MANY if plain or len(text.encode()) - len(text) < _MANY else _MANY // 16
        split = self._split_plain if plain else self._split_any
        for part in _parts(text):
            for piece in split(part):
                if (size := known.get(piece)) is None:
                    raw = piece.encode()
                    if new < many <= (new := new + len(raw)):
                        rank = self._all_ranks().get
                    size = _sized(raw, rank, known)
                    if len(known) >= _REMEMBERED:
                        known.clear()
                    known[piece] = size
                total += size
        return total

    def _all_ranks(self) -> dict[bytes, int]:
        """Every token with its number: 40 MB, which is why nobody keeps it."""
        ends = self._ends.tolist()
        tokens = self._bytes[self._first : self._first + ends[-1]]
        return {tokens[start:end]: rank for rank, (start, end) in enumerate(pairwise(ends))}

    @functools.cached_property
    def _split_any(self) -> Callable[[str], list[str]]:
        """The splitter for all alphabets, whose tables take longer to load than a turn counts."""
        import regex  # type: ignore[import-untyped]

        findall: Callable[[str], list[str]] = regex.compile(self._pattern).findall
        return findall

    def rank(self, token: bytes, none: int) -> int:
        """A token's number, or `none` when it is none."""
        slot = zlib.crc32(token) & self._mask
        while found := int(self._slots[slot]):
            start = self._first + self._ends[found - 1]
            if self._bytes[start : self._first + self._ends[found]] == token:
                return found - 1
            slot = (slot + 1) & self._mask
        return none


def _sized(raw: bytes, rank: _RankOf, known: dict[str | bytes, int]) -> int:
    """How many tokens a piece is; a very long one in stretches: rows of one sign repeat them."""
    if len(raw) <= LONGEST_PIECE:
        return _merged(raw, rank)
    total = 0
    for at in range(0, len(raw), _STRETCH):
        stretch = raw[at : at + _STRETCH]
        if (size := known.get(stretch)) is None:
            size = known[stretch] = _merged(stretch, rank)
        total += size
    return total


def _merged(piece: bytes, rank: _RankOf) -> int:
    """How many tokens are left when no two neighbours make one any more."""
    if rank(piece, _NO_RANK) != _NO_RANK:
        return 1
    edges = list(range(len(piece) + 1))
    ranks = [rank(piece[at : at + 2], _NO_RANK) for at in range(len(piece) - 1)]
    while len(ranks) > 1 and (lowest := min(ranks)) != _NO_RANK:
        at = ranks.index(lowest)
        del edges[at + 1], ranks[at]
        if at:
            ranks[at - 1] = rank(piece[edges[at - 1] : edges[at + 1]], _NO_RANK)
        if at < len(ranks):
            ranks[at] = rank(piece[edges[at] : edges[at + 2]], _NO_RANK)
    return len(edges) - 1


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


_DENSE: Final = pattern_of(r"[A-Za-z0-9+/=_-]{24,}")
"""Runs without a gap: base64, hashes, minified code. Vocabularies know no such words."""
_STRANGE: Final = pattern_of(r"[^\s0-9]{24,}")
"""Longer than words, signs or script without a gap: what was never met takes longest to count."""
_WORD: Final = pattern_of(r"[A-Za-z]+")
_DIGIT: Final = pattern_of(r"[0-9]")
_SIGN: Final = pattern_of(r"[!-/:-@\[-`{-~]|\n\s*")
_BEYOND_ASCII: Final = pattern_of(r"[^\x00-\x7f]")

DENSE_CHARS_PER_TOKEN: Final = 1.3
CHARS_PER_TOKEN: Final = 5
"""Letters that one token of a plain word covers; a shorter word is a token of its own."""
DIGITS_PER_TOKEN: Final = 1.5
NEAR_TOKENS: Final = 0.9
"""Tokens for a letter of the European alphabets beyond ASCII."""
WIDE_TOKENS: Final = 1.7
"""Tokens for a character of any other script."""
ASTRAL_TOKENS: Final = 4.0
"""Tokens for one emoji or other character beyond the first plane."""
CHARACTERS_IN_TWO_TOKENS: Final = 7
"""Of code, of what tools print and of prose alike, within a tenth."""
OCTET_TOKENS: Final = 0.3
"""Tokens for one octet of a character beyond ASCII."""
_LAST_EUROPEAN: Final = 0x052F


def rough_count(text: str) -> int:
    """Tokens in a text, estimated from its characters."""
    dense = sum(len(run) for run in _DENSE.findall(text))
    rest = _DENSE.sub(" ", text)
    words = sum(math.ceil(len(word) / CHARS_PER_TOKEN) for word in _WORD.findall(rest))
    digits = len(_DIGIT.findall(rest))
    signs = len(_SIGN.findall(rest))
    beyond = sum(_worth(ord(character)) for character in _BEYOND_ASCII.findall(rest))
    count = dense / DENSE_CHARS_PER_TOKEN + words + digits / DIGITS_PER_TOKEN + signs + beyond
    return max(math.ceil(count), math.ceil(len(text) / 16))


def quick_count(text: str) -> int:
    """Tokens in a text, estimated from its length alone: for histories of any size."""
    size = len(text) * 2 // CHARACTERS_IN_TWO_TOKENS + 1
    if text.isascii():
        return size
    plain = len(text.encode("ascii", "ignore"))
    octets = len(text.encode("utf-8", "surrogatepass"))
    return plain * 2 // CHARACTERS_IN_TWO_TOKENS + math.ceil((octets - plain) * OCTET_TOKENS) + 1


def _worth(code: int) -> float:
    if code <= _LAST_EUROPEAN:
        return NEAR_TOKENS
    return WIDE_TOKENS if code <= 0xFFFF else ASTRAL_TOKENS


MESSAGE_OVERHEAD: Final = 4
"""The role and the marks around one message."""
REPLY_OVERHEAD: Final = 3
"""The marks that begin the answer; counted once a request."""
CALL_OVERHEAD: Final = 8
"""Id and framing of one tool call."""
SCHEMA_OVERHEAD: Final = 8
TOOLS_OVERHEAD: Final = 16
UNKNOWN_IMAGE: Final = 1_600
SOUND_SECOND: Final = 32
"""Tokens of a second of sound, in the dearer of the common ways to charge for it."""
"""A picture whose size nobody knows."""

CHARACTERS: Final = "characters"
_BULK: Final = 20_000_000
"""Characters, within `_AT_ONCE`, from which loading a vocabulary pays; no message has as many."""
_MOST_EFFORT: Final = 2_500_000
"""Plain characters that may be counted of one text, or what takes as long: of more, every second
stretch or fewer is. So nothing that is sent takes longer than a second, nor is 3 % off."""
_SAMPLE: Final = 1_000
"""Characters of such a stretch."""
_DENSE_EFFORT: Final = 10
"""How many times as long a character takes in a run without a gap,"""
_STRANGE_EFFORT: Final = 100
"""in one without a digit as well,"""
_RARE_EFFORT: Final = 20
"""and in a word of another alphabet that was not met before."""
_FEW: Final = 8
"""Signs of a run that repeats itself: what was counted of it once is known."""
_AT_ONCE: Final = 60.0
"""Seconds. A chat of any length never counts so much in them; an import or a rehearsal does."""
VOCABULARIES: Final = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}
_SCHEMAS: Final = 512
"""Tool schemas whose size is remembered: every request asks for all of them."""
_OLDER: Final = ("gpt-4-", "gpt-4", "gpt-3.5", "claude", "llama", "mistral", "mixtral", "smollm")
_NEWER: Final = ("gpt-4o", "gpt-4.1", "gpt-4.5")
_loading: Final = threading.Lock()


class Counter(Protocol):
    """Someone who knows how large things are for one model."""

    @property
    def method(self) -> str:
        """The vocabulary, or `characters`."""
        ...

    def text(self, text: str) -> int:
        """Tokens in a text."""
        ...

    def message(self, message: Message) -> int:
        """Tokens of one chat message, its overhead included."""
        ...

    def tools(self, tools: Sequence[ToolSchema]) -> int:
        """Tokens of the tool schemas that a request carries."""
        ...

    def image(self, width: int, height: int) -> int:
        """Tokens of a picture."""
        ...

    async def ready(self) -> None:
        """Load what counting needs, off the loop."""
        ...


def encoding_for(model: str) -> str:
    """The vocabulary nearest to a model's own, by its family."""
    name = model.rsplit("/", 1)[-1].lower()
    if name.startswith(_NEWER):
        return "o200k_base"
    return "cl100k_base" if name.startswith(_OLDER) else "o200k_base"


def _effort(text: str) -> int:
    """What counting a text costs, in plain characters; no vocabulary knows what has no gaps."""
    effort = len(text)
    for part in _parts(text) if effort >= _PART else ():
        effort += _DENSE_EFFORT * sum(map(len, _DENSE.findall(part)))
        strange = (run for run in _STRANGE.findall(part) if len(set(run)) > _FEW)
        effort += _STRANGE_EFFORT * sum(map(len, strange))
        rare = (word for word in {*part.split()} if not word.isascii())
        effort += _RARE_EFFORT * sum(map(len, rare))
    return effort


class TokenCounter:
    """Counts for one model's family; made cheaply, loaded on first use."""

    def __init__(self, model: str) -> None:
        self.encoding = encoding_for(model)
        self._counted = 0
        self._since = 0.0
        self._asked = False
        self._longest = ("", 0)
        """A long text that was counted last: whoever shortens one asks for it several times."""
        self._schema = functools.lru_cache(_SCHEMAS)(self.text)

    @property
    def method(self) -> str:
        """The vocabulary, or `characters` when it cannot be had."""
        return CHARACTERS if open_vocabulary(self.encoding) is None else self.encoding

    async def ready(self) -> None:
        """Open the vocabulary off the loop."""
        if not self._asked:
            import asyncio  # runs already if anybody comes here, and takes long to load

            await asyncio.to_thread(lambda: self.method)
            self._asked = True

    def text(self, text: str) -> int:
        """Tokens in a text; special tokens that it spells out are text like any other."""
        if len(text) < _PART:
            return self._text(text)
        if text != self._longest[0]:
            self._longest = text, self._text(text)
        return self._longest[1]

    def _text(self, text: str) -> int:
        if (every := _effort(text) // _MOST_EFFORT) < 2:
            return self._exact(text)
        stretches = range(0, len(text), every * _SAMPLE)
        sample = "".join(text[at : at + _SAMPLE] for at in stretches)
        return round(self._exact(sample) * len(text) / len(sample))

    def _exact(self, text: str) -> int:
        if self._is_bulk(len(text)) and (encoder := load_encoding(self.encoding)) is not None:
            return sum(len(encoder.encode_ordinary(part)) for part in _parts(text))
        vocabulary = open_vocabulary(self.encoding)
        return rough_count(text) if vocabulary is None else vocabulary.count(text)

    def _is_bulk(self, more: int) -> bool:
        """Whether so much was counted of late that a loaded vocabulary is worth its megabytes."""
        now = time.monotonic()
        if now - self._since > _AT_ONCE:
            self._since, self._counted = now, 0
        self._counted += more
        return self._counted >= _BULK

    def message(self, message: Message) -> int:
        """Tokens of one chat message: content, calls, reasoning and overhead."""
        total = MESSAGE_OVERHEAD + self._content(message.get("content"))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            total += CALL_OVERHEAD + self.text(function["name"]) + self.text(function["arguments"])
        for block in message.get("thinking_blocks") or ():
            total += self.text(str(block.get("thinking", "")))
        return total

    def tools(self, tools: Sequence[ToolSchema]) -> int:
        """Tokens of the tool schemas, as compact JSON."""
        if not tools:
            return 0
        return TOOLS_OVERHEAD + sum(
            SCHEMA_OVERHEAD + self._schema(msgspec.json.encode(tool).decode()) for tool in tools
        )

    def image(self, width: int, height: int) -> int:
        """Tokens of a picture: the dearer of the two common ways to charge for one."""
        if width <= 0 or height <= 0:
            return UNKNOWN_IMAGE
        return max(_by_tiles(width, height), _by_area(width, height))

    def _content(self, content: Any) -> int:
        if content is None:
            return 0
        if isinstance(content, str):
            return self.text(content)
        return sum(
            self.text(part["text"]) if part.get("type") == "text" else UNKNOWN_IMAGE
            for part in content
        )


class LengthCounter(TokenCounter):
    """Estimates from lengths, at the speed of memory: where a tenth more or less is no matter."""

    def __init__(self) -> None:
        super().__init__("")

    @property
    def method(self) -> str:
        """Nothing is counted."""
        return CHARACTERS

    def text(self, text: str) -> int:
        """About as many tokens as a text of this length has."""
        return quick_count(text)


@functools.cache
def _by_name(encoding: str, model: str) -> TokenCounter:
    return TokenCounter(model)


def counter_for(model: str) -> TokenCounter:
    """The counter for a model; models with one vocabulary share one."""
    encoding = encoding_for(model)
    return _by_name(encoding, "gpt-4" if encoding == "cl100k_base" else "gpt-4o")


@functools.cache
def load_encoding(name: str) -> tiktoken.Encoding | None:
    """The vocabulary from litellm's folder, or None: the network is never asked."""
    package = litellm_folder()
    folder = package / "litellm_core_utils" / "tokenizers" if package else None
    if folder is None or not (folder / VOCABULARIES[name]).is_file():
        return None
    with _loading:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        try:
            import tiktoken  # 0.5 s with its vocabulary

            return tiktoken.get_encoding(name)
        except (ImportError, OSError, ValueError):
            return None


def _parts(text: str) -> Iterator[str]:
    """Long texts cut at joints, or anywhere where there is none: that may add one token.

    Splitting one takes the whole interpreter; other threads have their turn between two.
    """
    start = 0
    while len(text) - start > 2 * _PART:
        joint = _JOINT.search(text, start + _PART, start + 2 * _PART)
        end = joint.end() if joint else start + 2 * _PART
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def _by_tiles(width: int, height: int) -> int:
    """Scaled into 2,048 squared, the short side to 768, then 170 for each tile of 512."""
    scale = min(1.0, 2_048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _by_area(width: int, height: int) -> int:
    """One for each 750 pixels after scaling the long side to 1,568."""
    scale = min(1.0, 1_568 / max(width, height))
    return math.ceil(width * scale * height * scale / 750)


UNCALIBRATED: Final = 1.05
"""Applied to a count nobody has checked yet."""
_KEPT: Final = 15
_SMALLEST: Final = 200
"""Prompts below this size say more about overhead than about the vocabulary."""
_PLAUSIBLE: Final = (0.4, 3.0)
_CUT_SHARE: Final = 0.6
_CUT_TOKENS: Final = 512


class _File(msgspec.Struct):
    ratios: dict[str, list[float]] = {}


class Calibration:
    """Ratios of reported to counted prompt tokens, per model, kept in a small file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        kept = read_stored(path, _File) if path is not None else None
        self._ratios = kept.ratios if kept is not None else {}

    def factor(self, model: str) -> float | None:
        """The learned correction, or None before the first report."""
        if not (ratios := self._ratios.get(model)):
            return None
        from statistics import median  # 5 ms

        return round(median(ratios), 4)

    def learn(self, model: str, counted: int, reported: int) -> bool:
        """Take in one report; False when it teaches nothing about the vocabulary."""
        if counted < _SMALLEST or not _PLAUSIBLE[0] <= reported / counted <= _PLAUSIBLE[1]:
            return False
        before = self.factor(model)
        self._ratios[model] = [*self._ratios.get(model, ()), reported / counted][-_KEPT:]
        after = self.factor(model)
        if before is None or after is None or abs(after - before) > 0.005:
            self._save()
        return True

    def _save(self) -> None:
        if self._path is None:
            return
        rounded = {name: [round(r, 4) for r in kept] for name, kept in self._ratios.items()}
        try:
            replace_file(self._path, msgspec.json.encode(_File(ratios=rounded)))
        except (EntryNotSaved, PlaceError):
            # A cache that cannot be written costs the next process its head start, nothing else.
            return


def detect_cut(sent: int, reported: int) -> bool:
    """Whether a server counted so much less than was sent that it must have dropped a part."""
    return reported < sent * _CUT_SHARE and sent - reported > _CUT_TOKENS


def error_percent(estimated: int, reported: int) -> float | None:
    """How far an estimate was off, in percent of what the provider reported."""
    return round((estimated - reported) / reported * 100, 2) if reported > 0 else None
