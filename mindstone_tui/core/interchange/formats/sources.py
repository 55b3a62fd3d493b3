"""Where a session's records come from: JSON lines, one JSON value, a database, an archive.

Every source is walked one record at a time, because such files reach gigabytes, and what is damaged
comes as a record that says so. A database of another program is read without touching it: opened
read-only, and where no writer has left a log beside it as immutable too, so that not even a lock
file appears in the other program's folder. What a chat service hands out on request is an archive,
or the `conversations*.json` in it: an array of conversations.

A small file can stand for rows and bytes without end. So what a database would compute is not read,
and what it tells, or an archive unpacks to, is bounded by the size of the file.
"""

import contextlib
import io
import os
import sqlite3
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

from mindstone_tui.core import disk, patterns

from .. import read_bytes
from .base import Broken, Records, Sample

_CHUNK: Final = 1 << 20
_LOOK: Final = 4_096
_END: Final = 8 << 20
_ARRAY: Final = patterns.pattern_of(rb"(?:\xef\xbb\xbf)?\s*\[")
_MAGIC: Final = b"SQLite format 3\x00"
_BUSY: Final = 5.0
_PATIENCE: Final = 5.0
"""Seconds of work that a database may take before its next row, and as many for each 64 MB."""
_STEPS: Final = 1_000
_TEXT: Final = (str, bytes)
_TOLD: Final = 4
"""A database may tell so many times its size: some rows are read once more for each session."""
_RATIO: Final = 300
"""An archive may hold so many times its size; chats pack to a tenth, endless zeros to a 250th."""
_ZIP: Final = b"PK\x03\x04"
_LONGEST_LIST: Final = 4 << 20
"""Bytes of an archive's list of members: some ten thousand files."""
_MEMBER: Final = patterns.pattern_of(r"(?:^|/)conversations[^/]*\.json$")
_PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_SAMPLE: Final = 1 << 18
_UNREADABLE: Final = (
    *(OSError, EOFError, RuntimeError, ValueError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error),
)

Numbered = tuple[int, read_bytes.Fields]
"""An object and its place in the file."""


def records_of(path: Path) -> Iterator[Numbered | Broken]:
    """The objects of a JSONL file; damaged lines as records that say so."""
    with read_bytes.open_file(path) as stream:
        yield from _told_apart(read_bytes.objects(stream))


def array_of(path: Path) -> Iterator[Numbered | Broken]:
    """The objects of a file that is one JSON array; damaged ones as records that say so."""
    if not is_array(path):
        yield Broken(line=1, why="not a JSON array")
        return
    yield from first_array_of(path)


def first_array_of(path: Path) -> Iterator[Numbered | Broken]:
    """The same for a file that is one, or an object that begins with one."""
    with read_bytes.open_file(path) as stream:
        yield from _told_apart(
            (number, read_bytes.decode_object(raw)) for number, raw in read_bytes.elements(stream)
        )


def _told_apart(
    found: Iterable[tuple[int, read_bytes.Fields | read_bytes.Flaw]],
) -> Iterator[Numbered | Broken]:
    for number, it in found:
        yield (Broken(line=number, why=it.why) if isinstance(it, read_bytes.Flaw) else (number, it))


def each_with(
    found: Iterable[Numbered | Broken], read: Callable[[int, read_bytes.Fields], Records]
) -> Records:
    """What a reader makes of every object; damaged ones as they are."""
    for each in found:
        if isinstance(each, Broken):
            yield each
        else:
            yield from read(*each)


def sound(found: Iterable[Numbered | Broken]) -> Iterator[Numbered]:
    """The objects that are not damaged, for a first look that says nothing."""
    return (each for each in found if not isinstance(each, Broken))


def is_array(path: Path) -> bool:
    """Whether a file is one JSON array."""
    with read_bytes.open_file(path) as stream:
        return _ARRAY.match(stream.read(_LOOK)) is not None


def mentions(path: Path, what: bytes) -> bool:
    """Whether these bytes stand anywhere in a file."""
    with read_bytes.open_file(path) as stream:
        before = b""
        while chunk := stream.read(_CHUNK):
            if what in before + chunk:
                return True
            before = chunk[-len(what) :]
    return False


def newest_with(path: Path, *marks: bytes) -> list[read_bytes.Fields]:
    """The objects with one of these marks among the lines at the end of a file."""
    with read_bytes.open_file(path) as stream:
        stream.seek(max(stream.seek(0, os.SEEK_END) - _END, 0))
        marked = [raw for raw in stream.read().split(b"\n") if any(one in raw for one in marks)]
    return [each for raw in marked if isinstance(each := read_bytes.decode_object(raw), dict)]


def is_lines(path: Path, *bodies: str) -> bool:
    """Whether a file is JSONL, not one object that has its messages under one of these."""
    with read_bytes.open_file(path) as stream:
        _, first = next(read_bytes.objects(stream), (0, read_bytes.Flaw("empty")))
    return isinstance(first, dict) and first.keys().isdisjoint(bodies)


def document(path: Path) -> read_bytes.Fields | Broken:
    """A file that is one JSON object."""
    with read_bytes.open_file(path) as stream:
        found = read_bytes.decode_object(read_bytes.whole(stream))
    return Broken(line=1, why=found.why) if isinstance(found, read_bytes.Flaw) else found


def beside(path: Path) -> read_bytes.Fields:
    """The object in a file that stands beside a session; empty where it is missing or damaged."""
    found = document(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def document_of(raw: str) -> Any:
    """A text that is one JSON value, or a `Flaw`."""
    return read_bytes.decode(raw.encode("utf-8", "surrogatepass"))


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database."""
    try:
        with os.fdopen(disk.open_regular(path), "rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def has_columns(sample: Sample, table: str, *names: str) -> bool:
    """Whether the file is a database that has a table with all these columns."""
    if not sample.start.startswith(_MAGIC):
        return False
    try:
        with connected(sample.path) as connection:
            return set(names) <= {it["name"] for it in rows(connection, _COLUMNS, (table,))}
    except sqlite3.Error:
        return False


@contextlib.contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """An open database that cannot be changed."""
    bound = _Bound(stored_size(path))
    alone = bound.size == path.stat().st_size
    place = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if alone else ''}"
    connection = sqlite3.connect(place, uri=True, timeout=_BUSY)
    try:
        longest = min(read_bytes.LONGEST_RECORD, max(bound.size, _CHUNK))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
        connection.set_progress_handler(bound.is_over, _STEPS)
        connection.row_factory = bound.row
        connection.set_authorizer(_stored_only(connection))
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield connection
    finally:
        connection.close()


def stored_size(path: Path) -> int:
    """How large a database is, with what a writer has only logged so far."""
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def _stored_only(connection: sqlite3.Connection) -> Callable[..., int]:
    """Says what a query may do: read what is stored, and change nothing.

    A column that would be computed is empty. Indexes for searching are not looked at: they may
    want a module that this machine does not have.
    """
    with contextlib.closing(connection.execute(_COMPUTED)) as found:
        computed = {tuple(row) for row in found}

    def judge(action: int, table: str | None, column: str | None, _: object, view: object) -> int:
        is_look = action in _LOOKS or (action == sqlite3.SQLITE_PRAGMA and table == "table_xinfo")
        if not is_look or view is not None:
            return sqlite3.SQLITE_DENY
        is_computed = (str(table).lower(), column) in computed
        return sqlite3.SQLITE_IGNORE if is_computed else sqlite3.SQLITE_OK

    return judge


_LOOKS: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
_COLUMNS: Final = """SELECT i.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS i
    WHERE m.type = 'table' AND m.name = ?"""
_COMPUTED: Final = """SELECT lower(m.name), i.name
    FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS i
    WHERE m.type = 'table' AND m.rootpage > 0 AND i.hidden = 2"""
"""Columns whose values nobody stored: one call of a function there can go on for an hour."""


class _Bound:
    """How much a database may tell, and how long it may take for it.

    Its pages may be tied in circles, so that few bytes are rows without end; and rows that are
    never told, because they are sorted or left out first, take time.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._left = size * _TOLD + _CHUNK
        self._patience = _PATIENCE * (1 + size / read_bytes.LONGEST_RECORD)
        self._since: float | None = None

    def row(self, cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> sqlite3.Row:
        """A row by its names, counted."""
        self._left -= sum([len(it) if isinstance(it, _TEXT) else 1 for it in values])
        if self._left < 0:
            raise sqlite3.DataError("it tells far more than it can hold")
        self._since = None
        return sqlite3.Row(cursor, values)

    def is_over(self) -> bool:
        """Whether it has worked too long since the last row."""
        now = time.thread_time()
        self._since = now if self._since is None else self._since
        return now - self._since > self._patience


def guarded(read: Callable[[Path], Records]) -> Callable[[Path], Records]:
    """A reader of a database; a record says so where it can be read no further."""

    def reader(path: Path) -> Records:
        try:
            yield from read(path)
        except sqlite3.Error as error:
            yield Broken(line=1, why=f"the database cannot be read: {error}")

    return reader


def rows(
    connection: sqlite3.Connection, query: str, values: Sequence[str] = ()
) -> Iterator[read_bytes.Fields]:
    """Rows by column name, one at a time."""
    for row in connection.execute(query, values):
        yield dict(zip(row.keys(), tuple(row), strict=True))


def json_in(value: object) -> Any:
    """A column that holds JSON; a `Flaw` where it does not."""
    return document_of(value) if isinstance(value, str) else read_bytes.Flaw("not a text")


def start_of_export(sample: Sample) -> bytes:
    """How the conversations begin; nothing where a file is no such export."""
    start = sample.start
    if start.startswith(_ZIP):
        start = _start_in_archive(sample.path)
    return start if start.lstrip()[:1] in (b"[", b"{") else b""


class _Packed(io.BufferedReader):
    """An archive, refused before a list of members is read that is longer than exports have."""

    is_listed = False

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.is_listed and (size or 0) > _LONGEST_LIST:
            raise zipfile.BadZipFile("it lists far more files than an export has")
        return super().read(size)


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with _Packed(os.fdopen(disk.open_regular(path), "rb", 0)) as file, zipfile.ZipFile(file) as it:
        file.is_listed = True
        yield it


def _start_in_archive(path: Path) -> bytes:
    try:
        with _archive(path) as archive:
            for member in _members(archive):
                with archive.open(member) as stream:
                    return stream.read(_SAMPLE)
    except _UNREADABLE:
        pass
    return b""


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The conversations in it; what is packed in a way that chat services do not use is not one."""
    found = (it for it in archive.infolist() if _MEMBER.search(it.filename))
    return sorted((it for it in found if it.compress_type in _PACKED), key=lambda it: it.filename)


def exported(path: Path) -> Iterator[Numbered | Broken]:
    """Every conversation, numbered within its file."""
    with read_bytes.open_file(path) as stream:
        if stream.read(len(_ZIP)) != _ZIP:
            stream.seek(0)
            yield from _conversations(stream)
            return
    try:
        with _archive(path) as archive:
            if not (members := _members(archive)):
                yield Broken(line=1, why="an archive without conversations.json")
            left = most_unpacked(path.stat().st_size, _RATIO)
            for member in members:
                if (left := left - member.file_size) < 0:
                    yield Broken(line=1, why="the archive unpacks to far more than chats do")
                    return
                yield from _from_member(archive, member)
    except _UNREADABLE as error:
        yield Broken(line=1, why=f"the archive cannot be read: {error}")


def most_unpacked(size: int, ratio: int) -> int:
    """How many bytes may come out of what is packed in a file of this size, all of it together."""
    return read_bytes.LONGEST_RECORD + size * ratio


def _from_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[Numbered | Broken]:
    try:
        with archive.open(member) as stream:
            yield from _conversations(stream)
    except _UNREADABLE as error:
        yield Broken(line=1, why=f"{member.filename} in the archive cannot be read: {error}")


def _conversations(stream: IO[bytes]) -> Iterator[Numbered | Broken]:
    start = stream.read(64)
    stream.seek(0)
    is_one = start.lstrip()[:1] == b"{"
    raws = [(1, read_bytes.whole(stream))] if is_one else read_bytes.elements(stream)
    return _told_apart((number, read_bytes.decode_object(raw)) for number, raw in raws)
