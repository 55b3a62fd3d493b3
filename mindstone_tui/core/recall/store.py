"""What is written into the index and read back from it, statement by statement.

Every method here is one step inside the caller's lock. A passage is there or not there as a whole:
its row and its words are inserted in one transaction, and its receipt is read from the words.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from mindstone_tui.core.disk import REAL
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import Receipt, Restored, Rewound
from mindstone_tui.core.errors import IndexUnavailable
from mindstone_tui.core.recall.passages import Passage, epoch, indexed_words

BUSY_MILLISECONDS: Final = 10_000
TOKENIZER: Final = ("porter", "unicode61", "remove_diacritics", "0", "categories", "L* N* Co M*")
"""Only stems: words were folded and cut before they came here."""
_TOKENIZE: Final = " ".join(f"'{word}'" for word in TOKENIZER)

MIGRATIONS: Final = (
    f"""
    create table facts (name text primary key, value) without rowid;
    create table passages (
        row integer primary key,
        id text not null unique,
        hash blob not null,
        session text not null,
        seq integer not null,
        entry text not null,
        turn integer not null,
        ts text not null,
        at real not null,
        role text not null,
        speaker text not null,
        kind text not null,
        text text not null,
        source_id text not null,
        piece integer not null,
        pieces integer not null,
        form text not null,
        about text not null,
        sitting integer not null,
        vector integer not null
    );
    create index passages_by_seq on passages (seq, piece);
    create index passages_by_turn on passages (turn);
    create index passages_by_hash on passages (hash);
    create index passages_without_vector on passages (seq) where vector = 0;
    create index passages_that_failed on passages (seq) where vector = 2;
    create virtual table words using fts5 (
        body, hash, content='', contentless_delete=1, tokenize="{_TOKENIZE}"
    );
    create virtual table vocabulary using fts5vocab (words, row);
    create table signs (place integer primary key, row integer not null unique, bits blob not null);
    create table tokens (row integer primary key, signs blob not null);
    create table uses (
        entry text primary key, injected integer not null, used integer not null
    ) without rowid;
    """,
    """
    alter table passages add column other integer not null default 4;
    update passages set other = 3 where vector = 3;
    create index passages_of_other_languages on passages (seq) where other = 0;
    create index passages_of_unread_language on passages (seq) where other = 4;
    create table language_signs (
        place integer primary key, row integer not null unique, bits blob not null
    );
    create table language_vectors (row integer primary key, numbers blob not null);
    """,
    """
    alter table passages add column imported integer not null default 0;
    """,
    """
    alter table passages add column rewound integer not null default 0;
    create index passages_rewound on passages (rewound) where rewound > 0;
    """,
)
"""Each step is applied once; `user_version` counts them and changes in the same transaction."""

DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)


class Opened(NamedTuple):
    """A database ready for use."""

    database: apsw.Connection
    vectors: bool
    """Whether sqlite-vec could be loaded."""
    damaged: Path | None
    """Where the file that stood there before went, if it could not be trusted."""


def open_store(path: Path) -> Opened:
    """Open or create the file; a damaged one is put aside first.

    Only what opening touches is looked at: damage further in shows when it is met.
    """
    try:
        try:
            return Opened(*_open(path), None)
        except DAMAGED:
            aside = put_aside(path)
            return Opened(*_open(path), aside)
    except (apsw.Error, OSError) as error:
        raise unavailable(path, error) from error


def put_aside(path: Path) -> Path:
    """Rename a damaged index, with its journal files, so that it can be looked at later."""
    aside = path.with_name(f"{path.name}.damaged-{secrets.token_hex(4)}")
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


@contextlib.contextmanager
def writing(database: apsw.Connection) -> Iterator[None]:
    """One transaction that holds the write lock from its start; all of it, or nothing."""
    database.execute("begin immediate")
    try:
        yield
    except BaseException:
        with contextlib.suppress(apsw.Error):
            database.execute("rollback")
        raise
    database.execute("commit")


def unavailable(path: Path, error: Exception) -> IndexUnavailable:
    """Say why the index cannot be used."""
    return IndexUnavailable(
        f"The recall index {path.name} cannot be used: {error}.",
        "Free space or make the folder writable; `mindstone reindex` builds the index anew.",
    )


def _open(path: Path) -> tuple[apsw.Connection, bool]:
    # SQLite would create the file with the umask's mode.
    REAL.close(REAL.open(path, os.O_RDWR | os.O_CREAT))
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        database.set_busy_timeout(BUSY_MILLISECONDS)
        database.execute("pragma journal_mode = wal").fetchall()
        database.execute("pragma synchronous = normal").fetchall()
        # The kernel keeps what was read anyway; a larger cache here only holds it twice.
        database.execute("pragma cache_size = -2000").fetchall()
        _migrate(database)
        return database, _load_vectors(database)
    except BaseException:
        database.close(True)
        raise


def open_in_memory() -> tuple[apsw.Connection, bool]:
    """A database that touches no file and is gone when it is closed; whether it has vectors."""
    database = apsw.Connection(":memory:")
    database.execute("pragma temp_store = memory").fetchall()
    _migrate(database)
    return database, _load_vectors(database)


def _migrate(database: apsw.Connection) -> None:
    if _version(database) == len(MIGRATIONS):
        return
    with writing(database):
        version = _version(database)
        if version > len(MIGRATIONS):
            raise IndexUnavailable(
                "The recall index was made by a newer version of this program.",
                "Update the program, or move index.db away: it is rebuilt from the transcript.",
            )
        for step in MIGRATIONS[version:]:
            database.execute(step).fetchall()
        database.execute(f"pragma user_version = {len(MIGRATIONS)}").fetchall()


def _version(database: apsw.Connection) -> int:
    version = database.pragma("user_version")
    assert isinstance(version, int)
    return version


def _load_vectors(database: apsw.Connection) -> bool:
    """Add sqlite-vec to this connection; without it words still work."""
    try:
        database.enable_load_extension(True)
        database.load_extension(_vector_extension())
    except (apsw.Error, ModuleNotFoundError):
        return False
    finally:
        database.enable_load_extension(False)
    return True


@cache
def _vector_extension() -> str:
    """Where sqlite-vec's library lies; its Python package is not imported, for it loads numpy."""
    found = find_spec("sqlite_vec")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("sqlite_vec")
    return str(Path(found.origin).with_name("vec0"))


SITTING_GAP: Final = 3600.0
"""Seconds of silence after which people have left and come back."""

PENDING, STORED, FAILED, UNWANTED, NOT_READ = range(5)
"""What `passages.vector` says, and `passages.other` of the vector for many languages; that one is
`NOT_READ` until somebody who can make such vectors has looked at the language of the text."""

_NOT_THERE: Final = (0, b"", PENDING, PENDING)

PASSAGE_COLUMNS: Final = (
    "id, session, seq, entry, turn, ts, role, speaker, kind, text, source_id, piece, pieces, "
    "form, about, imported, rewound"
)

_FIELDS: Final = tuple(PASSAGE_COLUMNS.split(", "))
_STORED: Final = f"row, hash, at, sitting, vector, other, {PASSAGE_COLUMNS}"
_INSERT_PASSAGE: Final = (
    f"insert into passages ({_STORED}) values ({', '.join('?' for _ in _STORED.split(', '))})"
)


class IndexMark(msgspec.Struct, frozen=True):
    """How far into the transcript the index has come; -1 for not at all."""

    seq: int = -1
    hash: str = ""


class Meaning(msgspec.Struct, frozen=True):
    """A passage's vector as it is stored: numbers, their signs, and its tokens' signs."""

    numbers: bytes
    signs: bytes
    tokens: bytes


class Tables:
    """The statements of one open index."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database

    def store(
        self,
        passages: Sequence[Passage],
        mark: IndexMark | None,
        rewinds: Sequence[Line] = (),
        *,
        alone: bool = False,
    ) -> None:
        """Add what is not there yet, take back what `rewinds` do, and move the mark, all at once.

        With `alone`, whatever else was there goes.
        """
        with writing(self._database):
            if alone:
                self._keep({passage.id for passage in passages})
            self._store_new(passages)
            for line in rewinds:
                self._rewind(line)
            if mark is not None:
                self.remember(seq=str(mark.seq), hash=mark.hash)

    def receipt(self, passages: Sequence[Passage], *, languages: bool = False) -> Receipt:
        """What the index itself says about the passages of one exchange.

        With `languages`, a vector for many languages that is still to be made counts as missing.
        """
        digest = hashlib.sha256()
        found = 0
        states = set()
        known = self._between(passages) if passages else {}
        for passage in passages:
            content = passage.content_hash
            row, stored, vector, other = known.get(passage.id, _NOT_THERE)
            # By its own row: many passages may say the same, and each would find all of them.
            if stored != content or not self._is_indexed(content, row):
                continue
            found += 1
            digest.update(content)
            states.add(PENDING if languages and other in (PENDING, NOT_READ) else vector)
        vectors = "failed" if FAILED in states else "pending" if PENDING in states else "stored"
        return Receipt(
            turn=passages[0].turn if passages else 0,
            passages=found,
            digest=digest.hexdigest() if found else "",
            vectors=vectors,
        )

    def _is_indexed(self, content: bytes, row: int) -> bool:
        found = self._database.execute(
            "select 1 from words where words match ? and rowid = ?",
            (f'hash : "{_hash_word(content)}"', row),
        )
        return found.fetchone() is not None

    def exchange(self, turn: int) -> tuple[Passage, ...]:
        """All passages of one exchange, in order."""
        found = self._database.execute(
            f"select {PASSAGE_COLUMNS} from passages where turn = ? order by seq, piece", (turn,)
        )
        return tuple(passage_from(columns) for columns in found)

    def after(self, seq: int, most: int) -> list[tuple[int, Passage]]:
        """Passages of whole lines after a number, in order, about as many; each with its sitting.

        The last line that is given is given with all its passages.
        """
        found = self._database.execute(
            f"select sitting, vector, {PASSAGE_COLUMNS} from passages where seq > ?1 and seq <="
            " coalesce((select seq from passages where seq > ?1 order by seq, piece limit 1"
            " offset ?2), ?3) order by seq, piece",
            (seq, most, 2**62),
        )
        return [
            (sitting, msgspec.structs.replace(passage_from(columns), meaning=vector != UNWANTED))
            for sitting, vector, *columns in found
        ]

    def fact(self, name: str) -> str:
        """Something remembered about the index itself; empty when it is not."""
        row = self._database.execute("select value from facts where name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def remember(self, **facts: str) -> None:
        """Store facts, inside the transaction that makes them true."""
        self._database.executemany("insert or replace into facts values (?, ?)", facts.items())

    def start_over(self, chunking: str) -> None:
        """Empty everything but the usage log, in one transaction."""
        with writing(self._database):
            self._drop_vectors()
            self._database.execute("delete from facts")
            facts = {"chunking": chunking, "imported": "known", "rewound": "known"}
            self.remember(generation=secrets.token_hex(8), **facts)
            for table in ("language_signs", "language_vectors", "passages"):
                self._database.execute(f"delete from {table}")
            self._database.execute("insert into words(words) values ('delete-all')")

    def reword(self, wording: str) -> None:
        """Cut into words anew what an older program cut differently; vectors stay.

        That is text with other letters than English has, and words with an apostrophe inside.
        """
        if self.fact("wording") == wording:
            return
        with writing(self._database):
            stored = self._all()
            for row, passage in stored:
                text = passage.indexed_text
                if not text.isascii() or "'" in text:
                    self._database.execute("delete from words where rowid = ?", (row,))
                    self._store_words([(row, passage, passage.content_hash)])
            self.remember(wording=wording)

    def mark_imported(self, lines: Callable[[], Iterable[int]]) -> None:
        """Learn which lines were imported, once, in an index that was made before it was kept."""
        if self.fact("imported"):
            return
        with writing(self._database):
            self._database.executemany(
                "update passages set imported = 1 where seq = ?", ((seq,) for seq in lines())
            )
            self.remember(imported="known")

    def mark_rewound(self, ever: Callable[[], bool]) -> None:
        """Have lines read once more if any was ever rewound, before this was kept here."""
        if not self.fact("rewound"):
            with writing(self._database):
                self.remember(rewound="known", **({"seq": "-1", "hash": ""} if ever() else {}))

    def _rewind(self, line: Line) -> None:
        """What a rewind or a restore does to the passages before it; once more changes nothing."""
        match line.entry:
            case Rewound(to_turn=turn, state=state):
                self._database.execute(
                    "update passages set rewound = ?1 where turn > ?2 and seq <= ?3"
                    " and (rewound = 0 or rewound > ?1)",
                    (line.seq, turn, min(state.through, line.seq)),
                )
            case Restored(turns=turns):
                self._database.execute(
                    "update passages set rewound = 0 where seq < ?1 and rewound < ?1"
                    " and turn in (select value from json_each(?2))",
                    (line.seq, json.dumps(turns)),
                )

    # Vectors

    def adopt_model(self, name: str, dims: int) -> None:
        """Make this the index's model; vectors of another one are thrown away, not compared."""
        if self.fact("model") == name and self.fact("dims") == str(dims):
            return
        with writing(self._database):
            self._drop_vectors()
            # A vector is found by reading its chunk from the beginning: small ones are quick.
            self._database.execute(
                f"create virtual table vectors using vec0"
                f"(embedding float[{dims}] distance_metric=cosine, chunk_size=16)"
            )
            self._database.execute(
                "update passages set vector = ? where vector in (?, ?)", (PENDING, STORED, FAILED)
            )
            self.remember(model=name, dims=str(dims), generation=secrets.token_hex(8))

    def try_failed_again(self) -> None:
        """Let texts whose vector could not be made wait for it once more."""
        failed = self._database.execute("select 1 from passages where vector = 2 limit 1")
        if failed.fetchone() is not None:
            with writing(self._database):
                self._database.execute("update passages set vector = 0 where vector = 2")

    def pending(self, *, languages: bool = False) -> int:
        """How many passages wait for a vector."""
        row = self._database.execute(count_waiting(languages=languages)).fetchone()
        return int(row[0]) if row else 0

    def waits(self, first: int, last: int, *, languages: bool = False) -> bool:
        """Whether a passage of these lines has no vector yet."""
        found = self._database.execute(
            f"select 1 from passages where {_lacks(languages=languages)}"
            " and seq between ? and ? limit 1",
            (first, last),
        )
        return found.fetchone() is not None

    def waiting(self, limit: int, window_from: int) -> list[tuple[int, Passage]]:
        """The next passages to embed: those in the window first, each group oldest first."""
        found = self._database.execute(
            f"select row, {PASSAGE_COLUMNS} from passages where vector = 0"
            " order by seq < ?, seq, piece limit ?",
            (window_from, limit),
        )
        return [(row, passage_from(columns)) for row, *columns in found]

    def known_meaning(self, content: bytes) -> Meaning | None:
        """The vector of an identical text, so that none is embedded twice."""
        row = self._database.execute(
            "select row from passages where hash = ? and vector = ? limit 1", (content, STORED)
        ).fetchone()
        if row is None:
            return None
        (numbers,) = self._one("select embedding from vectors where rowid = ?", row[0])
        (bits,) = self._one("select bits from signs where row = ?", row[0])
        (tokens,) = self._one("select signs from tokens where row = ?", row[0])
        return Meaning(numbers, bits, tokens)

    def store_meaning(self, made: Sequence[tuple[int, Meaning | None]]) -> None:
        """Store vectors in one transaction; None marks a text that has none."""
        with writing(self._database):
            for row, meaning in made:
                still = self._database.execute(
                    "select 1 from passages where row = ? and vector = ?", (row, PENDING)
                ).fetchone()
                if still is None:
                    continue
                state = FAILED if meaning is None else STORED
                self._database.execute("update passages set vector = ? where row = ?", (state, row))
                if meaning is not None:
                    self._store_vector(row, meaning)

    def count_uses(self, used: Sequence[str], unused: Sequence[str]) -> None:
        """Add to the usage log."""
        rows = [(entry, 1, 1) for entry in used] + [(entry, 1, 0) for entry in unused]
        with writing(self._database):
            self._database.executemany(
                "insert into uses values (?, ?, ?) on conflict do update"
                " set injected = injected + excluded.injected, used = used + excluded.used",
                rows,
            )

    def _store_new(self, passages: Sequence[Passage]) -> None:
        """Add what is not there yet, each text read once and each table written in one go."""
        if not passages:
            return
        known = self._between(passages)
        fresh: dict[str, tuple[Passage, bytes]] = {}
        for passage in passages:
            content = passage.content_hash
            before = known.get(passage.id)
            if before is not None and before[1] == content:
                continue
            if before is not None:
                self._remove(before[0])
                del known[passage.id]
            fresh[passage.id] = (passage, content)
        row, sitting, latest = self._newest()
        rows: list[tuple[Any, ...]] = []
        texts: list[tuple[int, Passage, bytes]] = []
        for passage, content in fresh.values():
            at = epoch(passage.ts)
            if row:
                sitting += abs(at - latest) > SITTING_GAP
            row, latest = row + 1, at
            vector, other = (PENDING, NOT_READ) if passage.meaning else (UNWANTED, UNWANTED)
            columns = msgspec.structs.astuple(passage)[: len(_FIELDS)]
            rows.append((row, content, at, sitting, vector, other, *columns))
            texts.append((row, passage, content))
        self._database.executemany(_INSERT_PASSAGE, rows)
        self._store_words(texts)

    def _store_words(self, rows: Iterable[tuple[int, Passage, bytes]]) -> None:
        # All words before any is stored: either alone keeps the processor's caches to itself.
        cut = [(row, indexed_words(passage), _hash_word(content)) for row, passage, content in rows]
        self._database.executemany("insert into words (rowid, body, hash) values (?, ?, ?)", cut)

    def _between(self, passages: Sequence[Passage]) -> dict[str, tuple[int, bytes, int, int]]:
        """What is there of the lines that these passages come from.

        By id: the row, the hash and what is known of the two vectors.
        """
        lines = [passage.seq for passage in passages]
        found = self._database.execute(
            "select id, row, hash, vector, other from passages where seq between ? and ?",
            (min(lines), max(lines)),
        )
        return {name: (row, content, vector, other) for name, row, content, vector, other in found}

    def _newest(self) -> tuple[int, int, float]:
        """Row, sitting and moment of the newest passage; row 0 where there is none.

        A new sitting begins after an hour of silence.
        """
        found = self._database.execute(
            "select row, sitting, at from passages order by row desc limit 1"
        ).fetchone()
        return (0, 0, 0.0) if found is None else found

    def _all(self) -> list[tuple[int, Passage]]:
        found = self._database.execute(f"select row, {PASSAGE_COLUMNS} from passages")
        return [(row, passage_from(columns)) for row, *columns in found]

    def _keep(self, ids: Collection[str]) -> None:
        known: list[tuple[int, str]] = list(self._database.execute("select row, id from passages"))
        for row in [row for row, name in known if name not in ids]:
            self._remove(row)

    def _remove(self, row: int) -> None:
        """Take one passage out; only files that changed or went come to this, never history."""
        self._database.execute("delete from words where rowid = ?", (row,))
        if self.fact("model"):
            self._database.execute("delete from vectors where rowid = ?", (row,))
        for table in ("signs", "tokens", "language_signs", "language_vectors", "passages"):
            self._database.execute(f"delete from {table} where row = ?", (row,))

    def _store_vector(self, row: int, meaning: Meaning) -> None:
        self._database.execute(
            "insert into vectors (rowid, embedding) values (?, ?)", (row, meaning.numbers)
        )
        self._database.execute("insert into signs (row, bits) values (?, ?)", (row, meaning.signs))
        self._database.execute("insert into tokens values (?, ?)", (row, meaning.tokens))

    def _drop_vectors(self) -> None:
        self._database.execute("drop table if exists vectors")
        self._database.execute("delete from signs")
        self._database.execute("delete from tokens")

    def _one(self, statement: str, row: int) -> tuple[bytes, ...]:
        found = self._database.execute(statement, (row,)).fetchone()
        assert found is not None
        return tuple(bytes(column) for column in found)


def count_waiting(*, languages: bool) -> str:
    """The statement that counts passages which wait for a vector, those for many languages too."""
    return f"select count(*) from passages where {_lacks(languages=languages)}"


def _lacks(*, languages: bool) -> str:
    return "(vector = 0 or other = 0 or other = 4)" if languages else "vector = 0"


def passage_from(columns: Sequence[Any]) -> Passage:
    """A passage from its columns, in the order of `PASSAGE_COLUMNS`."""
    # What we wrote ourselves; checking it would take four times as long.
    *said, imported, rewound = columns
    return Passage(*said, imported=bool(imported), rewound=rewound)  # type: ignore[misc]


def _hash_word(content: bytes) -> str:
    """A content hash as a word no stemmer touches: digits alone."""
    return str(int.from_bytes(content))
