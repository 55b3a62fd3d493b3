"""What the formats share: content that is a text or a list of typed parts."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.interchange.formats.base import Aside, Broken, Record
from mindstone_tui.core.interchange.read_bytes import (
    LONGEST_RECORD,
    Flaw,
    as_json,
    decode,
    decode_object,
    elements,
    mapping,
    objects,
    open_file,
    text,
    whole,
)
from mindstone_tui.core.patterns import pattern_of

_CHUNK: Final = 1 << 20
_LOOK: Final = 4_096
_OPENING: Final = pattern_of(r"<([a-z][a-z_-]{2,40})>")
_ARRAY: Final = pattern_of(rb"(?:\xef\xbb\xbf)?\s*\[")
Numbered = tuple[int, dict[str, Any]]

ANOTHER_BRANCH: Final = "message on another branch"
"""How messages are counted that were left behind by going back."""


def records_of(path: Path) -> Iterator[Numbered | Broken]:
    """The objects of a JSONL file; damaged lines as records that say so."""
    with open_file(path) as stream:
        for number, found in objects(stream):
            yield Broken(line=number, why=found.why) if isinstance(found, Flaw) else (number, found)


def array_of(path: Path) -> Iterator[Numbered | Broken]:
    """The objects of a file that is one JSON array; damaged ones as records that say so."""
    if not is_array(path):
        yield Broken(line=1, why="not a JSON array")
        return
    with open_file(path) as stream:
        for number, raw in elements(stream):
            found = decode_object(raw) if isinstance(raw, bytes) else raw
            yield Broken(line=number, why=found.why) if isinstance(found, Flaw) else (number, found)


def each_with(
    found: Iterable[Numbered | Broken], read: Callable[[int, dict[str, Any]], Iterator[Record]]
) -> Iterator[Record]:
    """What a reader makes of every object; damaged ones as they are."""
    for each in found:
        if isinstance(each, Broken):
            yield each
        else:
            yield from read(*each)


def is_array(path: Path) -> bool:
    """Whether a file is one JSON array."""
    with open_file(path) as stream:
        return _ARRAY.match(stream.read(_LOOK)) is not None


def mentions(path: Path, what: bytes) -> bool:
    """Whether these bytes stand anywhere in a file."""
    with open_file(path) as stream:
        before = b""
        while chunk := stream.read(_CHUNK):
            if what in before + chunk:
                return True
            before = chunk[-len(what) :]
    return False


def is_lines(path: Path, body: str) -> bool:
    """Whether a file is JSONL, not one object that has its messages under `body`."""
    with open_file(path) as stream:
        _, first = next(objects(stream), (0, Flaw("empty")))
    return isinstance(first, dict) and body not in first


def document(path: Path) -> dict[str, Any] | Broken:
    """A file that is one JSON object."""
    with open_file(path) as stream:
        return _document(stream)


def beside(path: Path) -> dict[str, Any]:
    """The object in a file that stands beside a session; empty where it is missing or damaged."""
    found = document(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _document(stream: IO[bytes]) -> dict[str, Any] | Broken:
    raw = whole(stream)
    found = decode_object(raw)
    return Broken(line=1, why=found.why) if isinstance(found, Flaw) else found


def document_of(raw: str) -> Any:
    """A text that is one JSON value, or a `Flaw`."""
    return decode(raw.encode("utf-8", "surrogatepass"))


def plain(content: object) -> str | None:
    """The text of a message's content; None when it is neither text nor a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict) and content.keys() & {"text", "type"}:
        return _part(content)
    if not isinstance(content, list):
        return None
    return "\n\n".join(filter(None, map(_part, content)))


def _part(part: object) -> str:
    """One part as text; what cannot be text leaves its name in brackets."""
    if isinstance(part, str):
        return part
    fields = mapping(part)
    if isinstance(said := fields.get("text"), str):
        return said
    kind = text(fields.get("type")) or text(fields.get("content_type"))
    name = kind.removeprefix("input_").removesuffix("_asset_pointer")
    meant = text(fields.get("tool_name"))
    return f"[{name}: {meant}]" if name and meant else f"[{name}]" if name else ""


def tool_call(call: object, name: object, arguments: object, spare: str) -> ToolCall:
    """A call from untrusted pieces; `spare` is its id where the file gives none."""
    return ToolCall(
        id=text(call) or spare,
        name=text(name) or "tool",
        arguments=as_json({} if arguments is None else arguments),
    )


def unknown(kind: object) -> Record:
    """A record of a kind that is not part of the conversation."""
    return Aside(what=text(kind) or "unnamed record")


def joined(pieces: Iterable[str]) -> str:
    """Texts as one, with a blank line between."""
    return "\n\n".join(piece for piece in pieces if piece)


def cut_tags(said: str, names: Collection[str]) -> tuple[str, list[tuple[str, str]]]:
    """A text without what stands in these tags, and the name and inside of each, in order."""
    kept: list[str] = []
    found: list[tuple[str, str]] = []
    # A tag that is not closed once is not closed later either: nothing is searched for twice.
    unclosed: set[str] = set()
    start = at = 0
    while (opening := _OPENING.search(said, at)) is not None:
        name, at = opening[1], opening.end()
        if name not in names or name in unclosed:
            continue
        end = said.find(f"</{name}>", at)
        if end < 0:
            unclosed.add(name)
            continue
        kept.append(said[start : opening.start()].strip())
        found.append((name, said[at:end]))
        start = at = end + len(name) + 3
    if not found:
        return said, found
    return joined([*kept, said[start:].strip()]), found


class TextRun:
    """Lines of a text that belong together; what goes beyond the longest record is not held."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, line: str) -> None:
        """One more line."""
        self._size += len(line) + 1
        if self._size <= LONGEST_RECORD:
            self._lines.append(line)

    def starts_with(self, sign: str) -> bool:
        """Whether the first line does."""
        return bool(self._lines) and self._lines[0].startswith(sign)

    def take(self) -> str:
        """The text without blank lines around it; afterwards there is none."""
        said = "\n".join(self._lines).strip()
        if self._size > LONGEST_RECORD:
            said = f"{said}\n\n[longer than {LONGEST_RECORD >> 20} MB]"
        self._lines, self._size = [], 0
        return said


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
