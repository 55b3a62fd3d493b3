"""What is written into the library for one owner and read back from it, statement by statement.

Every method is one step inside the caller's lock. A passage is there or not there as a whole: its
row and its words are inserted in one transaction, and its receipt is read from the words.

Of the index that a session had to itself, before there was a library, the vectors are taken over.
Words come from the transcript, as ever. A vector takes a hundred times as long to make, and belongs
to a text: where the same text stands in the library, it gets the vector that was made for it. The
old file is read and left alone.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from mindstone_tui.core.entries import Line, actions, standings, window
from mindstone_tui.core.entries.store import FilesRestored, Imported
from mindstone_tui.core.recall import acts
from mindstone_tui.core.recall.library_file import EVERYBODY, load_vectors, span_of, writing
from mindstone_tui.core.recall.passages import CHUNKING, Passage, epoch, indexed_words

AT_ONCE: Final = 256
"""Passages that are stored or taken out in one transaction: others want to write, too."""
_MERGED: Final = "insert into words (words, rank) values ('merge', 32)"
"""A few pages of words, 6 ms at most, with all that is stored: so nobody ever waits for many, and
whoever looks for a word need not look in the hundreds of pieces that sessions were stored in."""
SITTING_GAP: Final = 3600.0
"""Seconds of silence after which people have left and come back."""

PENDING, STORED, FAILED, UNWANTED, NOT_READ = range(5)
"""What `passages.vector` says, and `passages.other` of the vector for many languages; that one is
`NOT_READ` until somebody who can make such vectors has looked at the language of the text."""

_Row = tuple[int, bytes, int, int]
"""What is known of a stored passage: its row, its hash, and its two vectors."""
_NOT_THERE: Final[_Row] = (0, b"", PENDING, PENDING)

PASSAGE_COLUMNS: Final = (
    "id, session, seq, entry, turn, ts, role, speaker, kind, text, source_id, piece, pieces, "
    "form, about, imported, superseded, corrected, rewound, undone, left_alone"
)

_FIELDS: Final = tuple(PASSAGE_COLUMNS.split(", "))
_STORED: Final = f"row, owner, hash, at, sitting, vector, other, {PASSAGE_COLUMNS}"
_INSERT_PASSAGE: Final = (
    f"insert into passages ({_STORED}) values ({', '.join('?' for _ in _STORED.split(', '))})"
)

_STANDING: Final = (
    "from verdicts as v where v.owner = passages.owner and v.seq = passages.seq and not exists "
    "(select 1 from passages as n where n.owner = v.owner and n.seq = v.later and (n.rewound > 0 or"
    " n.undone > 0 and n.left_alone = '[]' and n.kind = 'user_message'"
    " and passages.kind != 'user_message')) and not exists (select 1 from facts as f,"
    " json_each(f.value) as gone where f.owner = v.owner and f.name like 'back %'"
    " and gone.value = v.later)"
)
"""The verdicts on a passage whose own lines were not taken back, as `Standings.replaces` says."""


_UNDONE: Final = "undone = :by, left_alone = :paths"
_SOME_AGAIN: Final = (
    "left_alone = (select json_group_array(distinct value) from"
    " (select value from json_each(left_alone) union all select value from json_each(:paths)))"
)
"""What taking whole turns back does, or doing them again; and doing some of their files again."""
_OF_TURN: Final = "where owner = :owner and seq < :line and turn = :turn"
_TELLS: Final = f" and kind in {tuple(sorted(standings.DID))}"
"""Of these, what tells of changes to files."""
_LEFT_ALONE: Final = (
    "undone > 0 and exists (select 1 from json_each(left_alone)"
    " where substr('/' || about, -length(value) - 1) = '/' || value)"
)
"""What was done to a file that was left as it was: it stands."""


class IndexMark(msgspec.Struct, frozen=True):
    """How far into the transcript the index has come; -1 for not at all."""

    seq: int = -1
    hash: str = ""


class Meaning(msgspec.Struct, frozen=True):
    """A passage's vector as it is stored: a byte for each number, and the signs of its tokens.

    Bytes take a quarter of the room and move a cosine by two thousandths at most, which is far
    below what tells passages apart.
    """

    numbers: bytes
    tokens: bytes

    @property
    def signs(self) -> bytes:
        """The signs of the numbers, eight a byte."""
        from mindstone_tui.core.recall.vector_view import signs_of  # numpy: 0.1 s

        return signs_of(self.numbers)


class Tables:
    """The statements of one owner."""

    def __init__(self, database: apsw.Connection, owner: int) -> None:
        self._database = database
        self.owner = owner
        self._span = span_of(owner)

    def store(
        self,
        passages: Sequence[Passage],
        mark: IndexMark | None,
        rewinds: Sequence[Line] = (),
        done: Sequence[tuple[actions.Action, str]] = (),
        *,
        alone: bool = False,
    ) -> None:
        """Add what is not there yet, change what `rewinds` and verdicts do, and move the mark, all
        at once, but that of many passages most are there before.

        With `alone`, whatever else was there goes.
        """
        while len(passages) > AT_ONCE and not alone:
            self.store(passages[:AT_ONCE], None)
            passages = passages[AT_ONCE:]
        # All words before any is stored: others may write meanwhile, and either alone keeps the
        # processor's caches to itself. A turn that searched has stored most of its own before.
        known = self._between(passages)
        words = {one.id: indexed_words(one) for one in passages if not _is_there(one, known)}
        with writing(self._database):
            if alone:
                self._keep({passage.id for passage in passages})
            self._store_new(passages, words)
            acts.store(self._database, self.owner, done)
            for line in rewinds:
                self._rewind(line)
            if mark is not None:
                self.remember(seq=str(mark.seq), hash=mark.hash, chunking=CHUNKING)
            if passages:
                self._database.execute(_MERGED)

    def receipt(self, passages: Sequence[Passage], *, languages: bool = False) -> window.Receipt:
        """What the index itself says about the passages of one exchange.

        With `languages`, a vector for many languages that is still to be made counts as missing.
        """
        digest = hashlib.sha256()
        found = 0
        states = set()
        known = self._between(passages)
        for passage in passages:
            content = passage.content_hash
            row, stored, vector, other = known.get(passage.id, _NOT_THERE)
            # By its own row: many passages may say the same, and each would find all of them.
            if stored != content or not self._is_indexed(content, row):
                continue
            found += 1
            digest.update(content)
            states.add(PENDING if languages and other in (PENDING, NOT_READ) else vector)
        return window.Receipt(
            turn=passages[0].turn if passages else 0,
            passages=found,
            digest=digest.hexdigest() if found else "",
            vectors="failed" if FAILED in states else "pending" if PENDING in states else "stored",
        )

    def _is_indexed(self, content: bytes, row: int) -> bool:
        found = self._database.execute(
            "select 1 from words where words match ? and rowid = ?",
            (f'hash : "{_hash_word(content)}"', row),
        )
        return found.fetchone() is not None

    def after(self, seq: int, most: int) -> list[tuple[int, Passage]]:
        """Passages of whole lines after a number, in order, about as many; each with its sitting.

        The last line that is given is given with all its passages.
        """
        found = self._database.execute(
            f"select sitting, vector, {PASSAGE_COLUMNS} from passages"
            " where owner = ?4 and seq > ?1 and seq <= coalesce((select seq from passages"
            " where owner = ?4 and seq > ?1 order by seq, piece limit 1 offset ?2), ?3)"
            " order by seq, piece",
            (seq, most, 2**62, self.owner),
        )
        return [
            (sitting, msgspec.structs.replace(passage_from(columns), meaning=vector != UNWANTED))
            for sitting, vector, *columns in found
        ]

    def fact(self, name: str, owner: int | None = None) -> str:
        """Something remembered about the owner, or about the whole file; empty when it is not."""
        row = self._database.execute(
            "select value from facts where owner = ? and name = ?",
            (self.owner if owner is None else owner, name),
        ).fetchone()
        return str(row[0]) if row else ""

    def remember(self, **facts: str) -> None:
        """Store facts about the owner, inside the transaction that makes them true."""
        self._remember(self.owner, facts)

    def known_owners(self, fact: str) -> dict[str, tuple[int, str]]:
        """By the name of each owner, its number and one fact about it."""
        found = self._database.execute(
            "select owners.name, number, coalesce(value, '') from owners"
            " left join facts on facts.owner = number and facts.name = ?",
            (fact,),
        )
        return {name: (number, value) for name, number, value in found}

    def note(self, **facts: str) -> None:
        """Store facts about the owner in a transaction of their own."""
        with writing(self._database):
            self.remember(**facts)

    def remember_everywhere(self, **facts: str) -> None:
        """The same for the whole file."""
        self._remember(EVERYBODY, facts)

    def _remember(self, owner: int, facts: dict[str, str]) -> None:
        self._database.executemany(
            "insert or replace into facts values (?, ?, ?)",
            [(owner, name, value) for name, value in facts.items()],
        )

    def start_over(self) -> None:
        """Take out what the owner has, but for the usage log, a part at a time."""
        with writing(self._database):
            self._database.execute(
                "delete from act_programs where act in (select row from acts where owner = ?)",
                (self.owner,),
            )
            for table in ("signs", "language_signs", "acts", "verdicts"):
                self._database.execute(f"delete from {table} where owner = ?", (self.owner,))
        some = "select row from passages where row between ? and ? limit ?"
        while rows := list(self._database.execute(some, (*self._span, AT_ONCE))):
            with writing(self._database):
                for (row,) in rows:
                    self._remove(row)
        with writing(self._database):
            self._database.execute("delete from facts where owner = ?", (self.owner,))
            self.remember_everywhere(generation=os.urandom(8).hex())

    def _undo(self, table: str, seq: int, turn: int, act: FilesRestored) -> None:
        """What taking changes to files back, or doing them again, does to those of a turn."""
        whole = act.whole(turn)
        by, paths = act.then(seq, turn, 0, ())
        named: dict[str, int | str] = {"by": by, "line": seq, "turn": turn, "owner": self.owner}
        named["paths"] = json.dumps(paths)
        tells = _TELLS if table == "passages" else ""
        change = f"update {table} set {_UNDONE if whole else _SOME_AGAIN} {_OF_TURN}{tells}"
        self._database.execute(change, named)
        if table == "acts":
            stands = f"update acts set undone = 0 {_OF_TURN} and {_LEFT_ALONE}"
            self._database.execute(stands, named)

    def _rewind(self, line: Line) -> None:
        """What a line does to the standing of passages before it; once more changes nothing.

        The newest verdict counts whose own line is not taken back.
        """
        said, part = standings.superseded_in(line), getattr(line.entry, "part", ())
        self._database.executemany(
            "insert or replace into verdicts values (?, ?, ?, ?)",
            [(self.owner, seq, by, json.dumps(part) if part else "") for seq, by in said.items()],
        )
        for table in ("passages", "acts"):
            match line.entry:
                case FilesRestored(turns=turns) as act:
                    for turn in turns:
                        self._undo(table, line.seq, turn, act)
                case window.Rewound(to_turn=turn, state=state):
                    self._database.execute(
                        f"update {table} set rewound = ?1 where owner = ?4 and turn > ?2"
                        " and seq <= ?3 and (rewound = 0 or rewound > ?1)",
                        (line.seq, turn, min(state.through, line.seq), self.owner),
                    )
                case window.Restored(turns=turns):
                    self._database.execute(
                        f"update {table} set rewound = 0 where owner = ?3 and seq < ?1"
                        " and rewound < ?1 and turn in (select value from json_each(?2))",
                        (line.seq, json.dumps(turns), self.owner),
                    )
        if isinstance(line.entry, Imported) and not line.parent:
            back = json.dumps(line.entry.taken_back)
            self._remember(self.owner, {f"back {line.entry.path}": back})
        if said or line.kind in (*standings.TAKES_BACK, "imported"):
            self._database.execute(
                f"update passages set superseded = coalesce((select max(later) {_STANDING}"
                " and words = ''), 0), corrected = (select json_group_object(later, json(words))"
                f" {_STANDING} and words != '')"
                " where owner = ?1 and seq in (select seq from verdicts where owner = ?1)",
                (self.owner,),
            )

    # Vectors

    def adopt_model(self, name: str, dims: int) -> None:
        """Make this the library's model; vectors of another are thrown away, not compared."""
        known = self.fact("model", EVERYBODY), self.fact("dims", EVERYBODY)
        if known == (name, str(dims)):
            return
        with writing(self._database):
            for table in ("signs", "numbers", "tokens", "embedded"):
                self._database.execute(f"delete from {table}")
            self._database.execute(
                "update passages set vector = ? where vector in (?, ?)", (PENDING, STORED, FAILED)
            )
            self.remember_everywhere(model=name, dims=str(dims), generation=os.urandom(8).hex())

    def try_failed_again(self) -> None:
        """Let texts whose vector could not be made wait for it once more."""
        failed = "where owner = ? and vector = 2"
        if self._database.execute(f"select 1 from passages {failed}", (self.owner,)).fetchone():
            with writing(self._database):
                self._database.execute(f"update passages set vector = 0 {failed}", (self.owner,))

    def pending(self, *, languages: bool = False) -> int:
        """How many passages wait for a vector."""
        statement = count_waiting(languages=languages)
        row = self._database.execute(statement, {"owner": self.owner}).fetchone()
        return int(row[0]) if row else 0

    def waits(self, first: int, last: int, *, languages: bool = False) -> bool:
        """Whether a passage of these lines has no vector yet."""
        found = self._database.execute(
            f"select 1 from passages where owner = ? and {_lacks(languages=languages)}"
            " and seq between ? and ? limit 1",
            (self.owner, first, last),
        )
        return found.fetchone() is not None

    def waiting(self, limit: int, window_from: int) -> list[tuple[int, Passage]]:
        """The next passages to embed: those in the window first, each group oldest first."""
        found = self._database.execute(
            f"select row, {PASSAGE_COLUMNS} from passages where owner = ? and vector = 0"
            " order by seq < ?, seq, piece limit ?",
            (self.owner, window_from, limit),
        )
        return [(row, passage_from(columns)) for row, *columns in found]

    def known_meaning(self, passage: Passage) -> Meaning | None:
        """The vector of the same text, whosever it is, so that none is embedded twice."""
        found = self._database.execute(
            f"select numbers, signs, {PASSAGE_COLUMNS} from embedded"
            " join passages using (row) join numbers using (row) join tokens using (row)"
            " where content = ?",
            (passage.embedded_hash,),
        ).fetchone()
        # Rows of files that changed are given to others.
        if found is None or passage_from(found[2:]).embedded_text != passage.embedded_text:
            return None
        return Meaning(found[0], found[1])

    def own_meaning(self, passage: Passage) -> Meaning | None:
        """The vector that is stored for a passage of the owner."""
        found = self._database.execute(
            "select numbers, signs from passages join numbers using (row) join tokens using (row)"
            " where owner = ? and seq = ? and piece = ? and hash = ?",
            (self.owner, passage.seq, passage.piece, passage.content_hash),
        ).fetchone()
        return None if found is None else Meaning(*found)

    def store_meaning(
        self, made: Sequence[tuple[int, Meaning | None]], texts: Mapping[int, int] | None = None
    ) -> None:
        """Store vectors in one transaction, by rows; None marks a text that has none.

        `texts` are the hashes of what they were made from.
        """
        with writing(self._database):
            for row, meaning in made:
                still = self._database.execute(
                    "update passages set vector = ? where row = ? and vector = ? returning row",
                    (FAILED if meaning is None else STORED, row, PENDING),
                ).fetchone()
                if still is not None and meaning is not None:
                    self._store_vector(row, meaning)
                    if texts is not None:
                        how = "insert or replace into embedded values (?, ?)"
                        self._database.execute(how, (texts[row], row))

    def count_uses(self, used: Sequence[str], unused: Sequence[str]) -> None:
        """Add to the usage log."""
        rows = [(entry, 1, 1) for entry in used] + [(entry, 1, 0) for entry in unused]
        with writing(self._database):
            self._database.executemany(
                "insert into uses values (?, ?, ?) on conflict do update"
                " set injected = injected + excluded.injected, used = used + excluded.used",
                rows,
            )

    def _store_new(self, passages: Sequence[Passage], words: Mapping[str, str]) -> None:
        """Add what is not there yet with its words by id, each table written in one go."""
        if not passages:
            return
        known = self._between(passages)
        fresh: dict[str, Passage] = {}
        for passage in passages:
            if _is_there(passage, known):
                continue
            if passage.id in known:
                self._remove(known.pop(passage.id)[0])
            fresh[passage.id] = passage
        row, sitting, latest = self._newest()
        first = self._span.first
        rows: list[tuple[Any, ...]] = []
        cut: list[tuple[int, str, str]] = []
        for passage in fresh.values():
            at, content = epoch(passage.ts), passage.content_hash
            if row > first:
                sitting += abs(at - latest) > SITTING_GAP
            row, latest = row + 1, at
            vector, other = (PENDING, NOT_READ) if passage.meaning else (UNWANTED, UNWANTED)
            columns = msgspec.structs.astuple(passage)[: len(_FIELDS)]
            rows.append((row, self.owner, content, at, sitting, vector, other, *columns))
            body = words.get(passage.id) or indexed_words(passage)
            cut.append((row, body, _hash_word(content)))
        self._database.executemany(_INSERT_PASSAGE, rows)
        self._count(len(rows))
        self._database.executemany("insert into words (rowid, body, hash) values (?, ?, ?)", cut)

    def _between(self, passages: Sequence[Passage]) -> dict[str, _Row]:
        """What is there of the lines, or of the part of one, that these passages come from.

        By id: the row, the hash and what is known of the two vectors.
        """
        places = [(passage.seq, passage.piece) for passage in passages] or [(0, 0)]
        found = self._database.execute(
            "select id, row, hash, vector, other from passages"
            " where owner = ? and (seq, piece) between (?, ?) and (?, ?)",
            (self.owner, *min(places), *max(places)),
        )
        return {name: (row, content, vector, other) for name, row, content, vector, other in found}

    def _newest(self) -> tuple[int, int, float]:
        """Row, sitting and moment of the newest passage; where there is none, the row before all.

        A new sitting begins after an hour of silence.
        """
        found = self._database.execute(
            "select row, sitting, at from passages where row between ? and ?"
            " order by row desc limit 1",
            self._span,
        ).fetchone()
        return (self._span.first, 0, 0.0) if found is None else found

    def _count(self, more: int) -> None:
        self._database.execute(
            "update owners set passages = passages + ? where number = ?", (more, self.owner)
        )

    def _keep(self, ids: Collection[str]) -> None:
        known: list[tuple[int, str]] = list(
            self._database.execute(
                "select row, id from passages where row between ? and ?", self._span
            )
        )
        for row in [row for row, name in known if name not in ids]:
            self._remove(row)

    def _remove(self, row: int) -> None:
        """Take one passage out; only files that changed or went come to this, never history."""
        self._database.execute("delete from words where rowid = ?", (row,))
        for table in ("signs", "language_signs"):
            self._database.execute(
                f"delete from {table} where owner = ? and row = ?", (self.owner, row)
            )
        for table in ("numbers", "tokens", "language_numbers", "passages"):
            self._database.execute(f"delete from {table} where row = ?", (row,))
        self._count(-1)

    def _store_vector(self, row: int, meaning: Meaning) -> None:
        self._database.execute("insert into numbers values (?, ?)", (row, meaning.numbers))
        self._database.execute(
            "insert into signs (owner, row, bits) values (?, ?, ?)",
            (self.owner, row, meaning.signs),
        )
        self._database.execute("insert into tokens values (?, ?)", (row, meaning.tokens))


def _is_there(passage: Passage, known: Mapping[str, _Row]) -> bool:
    return known.get(passage.id, _NOT_THERE)[1] == passage.content_hash


def count_waiting(*, languages: bool) -> str:
    """The statement that counts passages which wait for a vector, those for many languages too."""
    return "select count(*) from passages where owner = :owner and " + _lacks(languages=languages)


def waiting_owners(*, languages: bool, most: int) -> str:
    """The statement that counts them by the names of their owners, in the first `most` of all."""
    lacking = f"select owner from passages where {_lacks(languages=languages)} limit {most:d}"
    return f"select name, count(*) from ({lacking}) join owners on number = owner group by number"


def _lacks(*, languages: bool) -> str:
    return "(vector = 0 or other = 0 or other = 4)" if languages else "vector = 0"


def passage_from(columns: Sequence[Any]) -> Passage:
    """A passage from its columns, in the order of `PASSAGE_COLUMNS`."""
    # What we wrote ourselves; checking it would take four times as long.
    *said, imported, superseded, corrected, rewound, undone, left_alone = columns
    return Passage(*said, bool(imported), superseded, corrected, rewound, undone, left_alone)  # type: ignore[call-arg]


def _hash_word(content: bytes) -> str:
    """A content hash as a word no stemmer touches: digits alone."""
    return str(int.from_bytes(content))


def take_over(database: apsw.Connection, tables: Tables, earlier: Path, model: str) -> None:
    """Give waiting passages the vectors that an earlier index has for their texts."""
    flags = apsw.SQLITE_OPEN_READONLY
    reading = contextlib.suppress(apsw.Error)
    with reading, contextlib.closing(apsw.Connection(str(earlier), flags=flags)) as old:
        load_vectors(old)
        known = old.execute("select value from facts where name = 'model'").fetchone()
        if known is not None and known[0] == model:
            some = (
                "select row, hash from passages where owner = ? and vector = 0 order by seq, piece"
            )
            waiting = list(database.execute(some, (tables.owner,)))
            for at in range(0, len(waiting), AT_ONCE):
                found = [
                    (row, meaning)
                    for row, content in waiting[at : at + AT_ONCE]
                    if (meaning := _meaning(old, content)) is not None
                ]
                tables.store_meaning(found)
        uses = old.execute("select entry, injected, used from uses").fetchall()
        with writing(database):
            database.executemany("insert or ignore into uses values (?, ?, ?)", uses)


def _meaning(old: apsw.Connection, content: bytes) -> Meaning | None:
    import numpy as np

    from mindstone_tui.core.recall.vector_view import as_bytes  # numpy: 0.1 s

    found = old.execute(
        "select passages.row, signs from passages join tokens on tokens.row = passages.row"
        " where hash = ? and vector = ? limit 1",
        (content, STORED),
    ).fetchone()
    if found is None:
        return None
    row, tokens = found
    numbers = old.execute("select embedding from vectors where rowid = ?", (row,)).fetchone()
    if numbers is None:
        return None
    return Meaning(as_bytes(np.frombuffer(numbers[0], np.float32)), tokens)
