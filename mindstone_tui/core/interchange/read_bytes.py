"""Bytes of foreign files as values: in bounded memory, and without trusting any of them.

Everything here is total: a line of any length, any bytes, any nesting and any type gives either a
value or a `Flaw` that says what is wrong with it.
"""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from mindstone_tui.core import bounded_json, disk, errors
from mindstone_tui.core.bounded_json import mapping as mapping
from mindstone_tui.core.bounded_json import sequence as sequence
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.transcript.encode import timestamp

Fields = dict[str, Any]
"""A JSON object of a foreign file."""
LONGEST_RECORD: Final = 64 << 20
"""A longer line or object is not read into memory."""
BOM: Final = b"\xef\xbb\xbf"
_CHUNK: Final = 1 << 18
_LARGEST_ID: Final = 1 << 64
_SECONDS: Final = pattern_of(r"\d{9,16}(?:\.\d{1,9})?")
_MOMENT: Final = pattern_of(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
"""A time that is written as lines carry it."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Flaw(msgspec.Struct, frozen=True):
    """Why some bytes are not a value."""

    why: str


def open_file(path: Path) -> IO[bytes]:
    """The file, for reading; raises `InterchangeError` when it is no file."""
    if path.is_dir():
        raise errors.InterchangeError(
            f"{path} is a folder, but one file is needed here.", "Name a file in it."
        )
    try:
        return os.fdopen(disk.open_regular(path), "rb", _CHUNK)
    except FileNotFoundError as error:
        raise errors.InterchangeError(f"There is no file {path}.", "Check the path.") from error
    except OSError as error:
        raise errors.InterchangeError(
            f"{path} cannot be read: {error.strerror}.", "Check its permissions."
        ) from error


def lines(stream: IO[bytes], longest: int = LONGEST_RECORD) -> Iterator[tuple[int, bytes | Flaw]]:
    """Numbered lines, from 1, without their ends; blank ones are left out."""
    number = 0
    while raw := stream.readline(longest + 1):
        number += 1
        if len(raw) > longest and not raw.endswith(b"\n"):
            while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
                pass
            yield number, Flaw(f"longer than {longest >> 20} MB")
        elif stripped := raw.strip():
            yield number, stripped
        elif peek := getattr(stream, "peek", None):  # a file may be full of empty lines
            while blank := len(ahead := peek(_CHUNK)) - len(ahead.lstrip(b"\r\n")):
                number += stream.read(blank).count(b"\n")


def text_lines(stream: IO[bytes], longest: int = LONGEST_RECORD) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text, from 1, without their ends; a far too long one in pieces."""
    number = 1
    while raw := stream.readline(longest):
        yield number, raw.rstrip(b"\r\n").decode("utf-8", "replace")
        number += raw.endswith(b"\n")


def whole(stream: IO[bytes], longest: int = LONGEST_RECORD) -> bytes | Flaw:
    """A file that is one value."""
    raw = stream.read(longest + 1)
    return Flaw(f"larger than {longest >> 20} MB") if len(raw) > longest else raw


def objects(stream: IO[bytes]) -> Iterator[tuple[int, Fields | Flaw]]:
    """The numbered lines of a JSONL file, each as an object."""
    yield from ((number, decode_object(raw)) for number, raw in lines(stream))


def decode(raw: bytes) -> Any:
    """Any JSON value, or a `Flaw`."""
    if bounded_json.is_too_deep(raw):
        return Flaw("nested too deeply")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        strict = str(error)
    # Other programs write lone surrogates and numbers without bound; both can be read.
    try:
        return json.loads(raw)
    except ValueError:
        return Flaw(f"not JSON: {strict}")


def decode_object(raw: bytes | Flaw) -> Fields | Flaw:
    """A JSON object, or a `Flaw`, which may have been one already."""
    if isinstance(raw, Flaw):
        return raw
    value = decode(raw.removeprefix(BOM))
    if isinstance(value, dict | Flaw):
        return value
    return Flaw(f"a JSON {_json_name(value)} where an object is needed")


def text(value: object) -> str:
    """A text, or nothing where the value is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID:
        return str(value)
    return ""


def as_json(value: object) -> str:
    """A decoded value as compact JSON again; a text that is JSON already stays as it is."""
    if isinstance(value, str):
        return value
    try:
        return _compact(value)
    except RecursionError:
        return '"[nested too deeply]"'


def moment(value: object) -> str:
    """A time as lines carry it, from ISO 8601 or seconds, milli- or microseconds; else empty."""
    if isinstance(value, str):
        return _moment_of_text(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LARGEST_ID:
        seconds = value / (1e6 if value >= 1e14 else 1e3 if value >= 1e11 else 1)
        if seconds < 1e11:
            return timestamp(_EPOCH + timedelta(seconds=seconds))
    return ""


def count(value: object) -> int | None:
    """A number of things that a file claims; None where it is no such number."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_ID
    return value if isinstance(value, int) and is_count else None


def _moment_of_text(value: str) -> str:
    if _SECONDS.fullmatch(value):
        return moment(float(value))
    try:
        parsed = datetime.fromisoformat(value)
        if _MOMENT.fullmatch(value):
            return value
        return timestamp(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return ""


def _json_name(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


_TEXT: Final = pattern_of(rb'["\\]')
_INSIDE: Final = pattern_of(rb'["\[\]{}]')
_BETWEEN: Final = pattern_of(rb'["\[\]{},]')


def elements(
    stream: IO[bytes], longest: int = LONGEST_RECORD
) -> Iterator[tuple[int, bytes | Flaw]]:
    """Numbered elements, from 1, of the array that starts at the stream's next `[`.

    What is not closed when the file ends, or is longer than it may be, is a `Flaw`.
    """
    if not _skip_to_array(stream):
        yield 1, Flaw("no JSON array")
        return
    splitter = _Splitter(longest)
    number = 0
    while chunk := stream.read(_CHUNK):
        for found in splitter.feed(chunk):
            number += 1
            yield number, found
        if splitter.is_over:
            return
    yield number + 1, Flaw("the file ends within the array")


def _skip_to_array(stream: IO[bytes]) -> bool:
    """Read up to and with the next `[`; whatever stands before it is not looked at."""
    while byte := stream.read(1):
        if byte == b"[":
            return True
    return False


class _Splitter(msgspec.Struct, eq=False):
    """Follows brackets and strings, and cuts at the commas between elements."""

    _longest: int
    is_over: bool = False
    _pieces: list[bytes] = []
    _size: int = 0
    _depth: int = 1
    _in_text: bool = False
    _escaped: bool = False

    def feed(self, chunk: bytes) -> Iterator[bytes | Flaw]:
        """Take in more bytes; hand over the elements that they complete."""
        start = at = 0
        while at < len(chunk) and not self.is_over:
            if self._in_text:
                at = self._leave_text(chunk, at)
                continue
            found = (_BETWEEN if self._depth == 1 else _INSIDE).search(chunk, at)
            if found is None:
                break
            at = found.end()
            if (sign := found.group()) == b'"':
                self._in_text = True
            elif sign in b"[{":
                self._depth += 1
            elif sign in b"]}":
                self._depth -= 1
            if self._depth == 0 or sign == b",":
                self.is_over = self._depth == 0
                self._keep(chunk[start : at - 1])
                start = at
                if (element := self._cut()) != b"":
                    yield element
        if not self.is_over:
            self._keep(chunk[start:])

    def _leave_text(self, chunk: bytes, at: int) -> int:
        """Where the text goes on being text no longer, or the end of the chunk."""
        if self._escaped:
            self._escaped = False
            return at + 1
        if (found := _TEXT.search(chunk, at)) is None:
            return len(chunk)
        if found.group() == b'"':
            self._in_text = False
        else:
            self._escaped = True
        return found.end()

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        self._pieces.append(piece) if self._size <= self._longest else self._pieces.clear()

    def _cut(self) -> bytes | Flaw:
        size, self._size = self._size, 0
        whole = b"".join(self._pieces).strip()
        self._pieces.clear()
        return whole if size <= self._longest else Flaw(f"longer than {self._longest >> 20} MB")
