"""An entry made ready to be written: redacted, valid Unicode, and short enough for a line.

What had to be taken out of the line is stored beside it first, so a line never names a blob that
is not there: long texts as they are, and texts with NULs or lone surrogates as they came.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from mindstone_tui.core import errors, redaction
from mindstone_tui.core.entries import Blob, Entry, base, line

Clean = Callable[[str], str]
Keep = Callable[[bytes], Blob]
Point = Callable[[Entry], Entry]

ENVELOPE_ROOM: Final = 8_192
"""Left free in a line for its envelope, a long session key included."""
_SHORTEST_SPILL: Final = 512
_EXCERPT: Final = 120
_NUL: Final = "\x00"


class Body(msgspec.Struct, frozen=True):
    """The entry's own bytes of a line, and the optional keys that follow them."""

    fields: bytes
    extra: bytes = b""


def prepare(entry: Entry, clean: Clean, keep: Keep, point: Point | None = None) -> Body:
    """Make an entry's bytes; blobs that the line will name are on disk when this returns.

    `point` may leave out what other lines of the session say; it sees the entry as it is written.
    """
    if isinstance(entry, base.TextEntry):
        return _prepare_text(entry, clean, keep, point)
    try:
        body = line.encode_body(entry)
    except UnicodeEncodeError:
        # File names may hold bytes that are no text; they reach us as lone surrogates.
        return _prepare_text(entry, str, keep)
    return Body(body) if len(body) <= line.MAX_LINE - ENVELOPE_ROOM else _spill(entry, {}, keep)


def _prepare_text(entry: Entry, clean: Clean, keep: Keep, point: Point | None = None) -> Body:
    fields = msgspec.to_builtins(entry)
    if _may_stay(fields, clean):
        return _spill(point(entry) if point is not None else entry, {}, keep)
    fields = _with_visible_keys(fields)
    changed = False
    altered: dict[str, Blob] = {}
    for path, text in list(_texts(fields)):
        cleaned = clean(text)
        if (shown := visible(cleaned)) != cleaned:
            altered[path] = keep(cleaned.encode("utf-8", "surrogatepass"))
        if shown != text:
            _put(fields, path, shown)
            changed = True
    if changed:
        entry = msgspec.convert(fields, type(entry))
    return _spill(point(entry) if point is not None else entry, altered, keep)


def _may_stay(fields: dict[str, Any], clean: Clean) -> bool:
    """Whether every text of an entry, and every key of its tables, is written as it is."""
    rest = [value for key, value in fields.items() if key != "kind"]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            if visible(clean(value)) != value:
                return False
        elif isinstance(value, dict):
            if any(visible(key) != key for key in value if isinstance(key, str)):
                return False
            rest += value.values()
        elif isinstance(value, list | tuple):
            rest += value
    return True


def _with_visible_keys(value: Any) -> Any:
    """The same value with every key of every table as valid text."""
    if isinstance(value, dict):
        return {
            visible(key) if isinstance(key, str) else key: _with_visible_keys(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_visible_keys(inner) for inner in value]
    return value


def _spill(entry: Entry, altered: dict[str, Blob], keep: Keep) -> Body:
    """Move the longest texts to blobs until the line is short enough."""
    room = line.MAX_LINE - ENVELOPE_ROOM
    body = line.encode_body(entry)
    spilled: dict[str, Blob] = {}
    if len(body) > room:
        fields = msgspec.to_builtins(entry)
        for path, text in sorted(_texts(fields), key=lambda found: -len(found[1])):
            if len(body) <= room or len(text) < _SHORTEST_SPILL:
                break
            spilled[path] = keep(text.encode())
            _put(fields, path, _excerpt(text))
            body = line.encode_body(msgspec.convert(fields, type(entry)))
        if len(body) > room:
            raise errors.TranscriptError(
                f"A {entry.kind} entry of {len(body):,} bytes does not fit into a line.",
                "This is a bug in the program; nothing was written.",
            )
    extra = {key: value for key, value in (("blobs", spilled), ("altered", altered)) if value}
    return Body(body, b"," + msgspec.json.encode(extra)[1:-1] if extra else b"")


def blackened_in(entry: Entry | line.Unknown) -> tuple[redaction.Blackened, ...]:
    """Every place of an entry that was blacked out when it was written."""
    if not isinstance(entry, base.TextEntry):
        return ()
    fields = msgspec.to_builtins(entry)
    return tuple(place for _, text in _texts(fields) for place in redaction.blackened(text))


def restore(fields: dict[str, Any], blobs: Mapping[str, Blob], read: Callable[[str], str]) -> None:
    """Put texts that were moved to blobs back into an entry's fields."""
    for path, blob in blobs.items():
        _put(fields, path, read(blob.sha256))


def put_back(of: line.Line, read: Callable[[str], str]) -> line.Line:
    """The same line with the texts that were moved to blobs put back, and nothing else."""
    if not of.blobs or isinstance(of.entry, line.Unknown):
        return of
    fields: dict[str, Any] = msgspec.to_builtins(of.entry)
    restore(fields, of.blobs, read)
    return msgspec.structs.replace(of, entry=msgspec.convert(fields, type(of.entry)))


def visible(text: str) -> str:
    """The same text with NULs and lone surrogates as signs that every reader survives."""
    if _NUL in text:
        text = text.replace(_NUL, "\u2400")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _excerpt(text: str) -> str:
    left = len(text) - 2 * _EXCERPT
    return f"{text[:_EXCERPT]} … [{left:,} characters in a blob] … {text[-_EXCERPT:]}"


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text inside a value, with its path: `calls.0.arguments`."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if path or key != "kind":
                step = _escaped(str(key))
                yield from _texts(inner, f"{path}.{step}" if path else step)
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _texts(inner, f"{path}.{at}")


def _escaped(key: str) -> str:
    """A key as one step of a path: a dot inside it is `~1`, as in JSON pointers."""
    return key.replace("~", "~0").replace(".", "~1")


def _put(fields: dict[str, Any], path: str, text: str) -> None:
    """Replace the text at a path; sequences on the way become lists."""
    *way, last = (step.replace("~1", ".").replace("~0", "~") for step in path.split("."))
    holder: Any = fields
    for step in way:
        key = int(step) if isinstance(holder, list) else step
        inner = holder[key]
        if isinstance(inner, tuple):
            inner = list(inner)
            holder[key] = inner
        holder = inner
    holder[int(last) if isinstance(holder, list) else last] = text


Clock = Callable[[], datetime]
Entropy = Callable[[int], bytes]

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES: Final = frozenset(_ALPHABET)
_PAIRS: Final = [high + low for high in _ALPHABET for low in _ALPHABET]
_AS_DIGITS: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_LENGTH: Final = 26
_LAST_MOMENT: Final = 253_402_300_799_999
"""Milliseconds at the end of the year 9999, the last that a date can name."""


def utc_now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, as lines carry it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def next_ids(moment: datetime, last: str, entropy: Entropy = os.urandom) -> Iterator[str]:
    """ULIDs for one moment, each after the other, and all after `last`; the clock may go back."""
    # A clock that was never set may say 1969, and there is no id for the time before 1970.
    fresh = (max(int(moment.timestamp() * 1000), 0) << 80) | int.from_bytes(entropy(10))
    first = max(fresh, decode_ulid(last) + 1) if last else fresh
    head = ""
    for value in itertools.count(first):
        if not head or not value & 1023:
            head = encode_ulid(value)[:-2]
        yield head + _PAIRS[value & 1023]


def encode_ulid(value: int) -> str:
    """A 128-bit number as 26 characters of Crockford's base 32."""
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in range(10 * 12, -1, -10)])


def decode_ulid(text: str) -> int:
    """The number behind a ULID; 0 for anything that is none."""
    if len(text) != _LENGTH or not _VALUES.issuperset(text):
        return 0
    return int(text.translate(_AS_DIGITS), 32)


def written_at(id: str) -> str:  # noqa: A002 (the field's own name)
    """When a line with this id was written; empty for anything that is no ULID."""
    if not (value := decode_ulid(id)):
        return ""
    return timestamp(datetime.fromtimestamp(min(value >> 80, _LAST_MOMENT) / 1000, UTC))
