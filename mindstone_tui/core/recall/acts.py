"""What tools did, as the library keeps it: commands with how they ended, files read and changed.

Passages say what was said; this says what was done, so that it can be asked for as what it is: the
command that failed, the one that worked, who touched a file.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import apsw
import msgspec

from mindstone_tui.core.entries import Line, ToolCall, conversation
from mindstone_tui.core.entries.actions import PATCHED, Action, ActionKind, done, kind_of
from mindstone_tui.core.entries.marks import by_a_line, imported, told
from mindstone_tui.core.entries.store import FilesChanged
from mindstone_tui.core.language.lists import pattern_beside
from mindstone_tui.core.patterns import pattern_of

_ALWAYS_BEFORE: Final = frozenset(
    ["sudo", "time", "env", "nice", "nohup", "timeout", "exec", "command", "stdbuf", "xargs"]
)
"""Words that stand before the program that is meant."""
_PIECE: Final = pattern_of(
    r"""(?P<redirect>\d*+[<>]+&?\s*[^\s;|&()]*)|(?P<join>[;|&()\n]+)"""
    r"""|(?P<word>(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\;|&<>()]|['"\\])+)""",
    re.DOTALL,
)
_GIVEN: Final = pattern_of(r"(?ms)<<-?\s*(['\"]?)(\w+)\1.*?(?:^\s*\2\b|\Z)|\\\n")
"""What a command is given in its own text, and where a line only goes on."""
_ASSIGNMENT: Final = pattern_of(r"(?s)[A-Za-z_]\w*=.*")
_NO_PROGRAM: Final = pattern_of(r"(?s)[A-Za-z_]\w*=.*|\d+[smh]?")
"""What stands between `env` or `timeout` and the program."""
_LONGEST_COMMAND: Final = 4_000
_LONGEST_LINE: Final = 1_000
_WORD: Final = pattern_of(r"[\w./+-]{1,100}")
_RAISED: Final = pattern_beside(__file__, "raised", re.IGNORECASE)
_VARIES: Final = pattern_beside(__file__, "varies", re.IGNORECASE)
"""What differs between two runs that met the same error: addresses, hashes, folders, numbers."""
_CODE: Final = pattern_beside(__file__, "code")
_ENDED: Final = pattern_of(r"(?:command |process )?exit(?:ed)?\b.{0,20}\bcode\b.*", re.IGNORECASE)
"""That something failed, and nothing of why."""
_SIGNATURE: Final = 160
_PROGRAMS: Final = 8


class TurnMarks(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the turn in which something was done, for every surface.

    What was done in a turn that was rewound stays done, unless files were put back, too.
    """

    rewound: int = 0
    """The line that took its turn back; 0 where none did."""
    undone: int = 0
    """The line in which a person took back what its turn had done to files; 0 where that stands."""
    left_alone: tuple[str, ...] = ()
    """Files of its turn that were left as they were then."""
    forks: Sequence[str] = ()
    """Forks in which its turn was not taken back."""
    imported: str = ""
    """Where it was done, in words, if another program did it; for those who ask the transcript."""

    @property
    def marks(self) -> list[str]:
        """The same in words."""
        rewound = by_a_line("rewound", self.rewound, self.forks)
        undone = by_a_line("undone", self.undone, self.left_alone)
        return told((*rewound, *undone, *imported(self.imported)))


class Act(TurnMarks, frozen=True, kw_only=True):
    """One thing that a tool did, and where that stands."""

    session: str
    seq: int
    """The line of its result."""
    turn: int
    ts: str
    kind: str
    """`command`, `read`, `change`, or `unsure`: changed by a call that was cut short, or since."""
    about: str
    """The command, or the path of the file."""
    ok: bool
    exit: int | None
    error: str

    @property
    def reason(self) -> str:
        """The line that says why it failed."""
        return named_in(self.error) or self.error.rstrip().rpartition("\n")[2]


_COLUMNS: Final = (
    "owners.name as session, seq, turn, ts, kind, about, ok, code as exit, error, rewound, undone,"
    " left_alone"
)
_FACTS: Final = len(_COLUMNS.split(", "))
_FROM: Final = "from acts join owners on number = acts.owner"


def calls_in(command: str) -> list[tuple[str, ...]]:
    """The simple commands of a command line, each as its words, without what they are given.

    A reading for questions, not for verdicts: whatever is no plain word stands there as written.
    """
    found: list[list[str]] = [[]]
    for piece in _PIECE.finditer(_GIVEN.sub("", command[:_LONGEST_COMMAND])):
        if piece["join"]:
            found.append([])
        elif piece["word"] and (found[-1] or not _ASSIGNMENT.fullmatch(piece["word"])):
            found[-1].append(piece["word"].replace("'", "").replace('"', ""))
    return [tuple(words) for words in found if words]


def programs_of(command: str) -> list[str]:
    """The programs that a command runs, by name: `make` and `tail` of `cd x && make | tail`."""
    found: dict[str, None] = {}
    for call in calls_in(command):
        words = list(call)
        while words and (words[0] in _ALWAYS_BEFORE or words[0].startswith("-")):
            words = [word for word in words[1:] if not _NO_PROGRAM.fullmatch(word)]
        if words and _WORD.fullmatch(words[0]) and (name := words[0].rpartition("/")[2]):
            found[name] = None
    return list(found)[:_PROGRAMS]


def signature_of(error: str) -> str:
    """The line that names an error, without what differs between two runs; empty for none."""
    told = _VARIES.sub("#", named_in(error)[:_LONGEST_LINE])
    return " ".join(told.casefold().split())[:_SIGNATURE]


def is_of_kind(error: str, other: str) -> bool:
    """Whether an output says every code that an error is named by: TS2551, ORA-00942, errno 13."""
    return _codes(named_in(error) or error) <= _codes(other)


def _codes(text: str) -> set[str]:
    return {found[found.lastgroup or 0].upper() for found in _CODE.finditer(text)}


def named_in(error: str) -> str:
    """The last line of an output that names an error; empty for none."""
    lines = (line.strip() for line in reversed(error.splitlines()))
    return next((one for one in lines if _RAISED.search(one) and not _ENDED.fullmatch(one)), "")


class Doings(msgspec.Struct, eq=False):
    """Collects what tools did from lines that come in order."""

    _asked: dict[str, ToolCall] = {}

    def take(self, line: Line) -> list[tuple[Action, str]]:
        """What is known with this line to have been done, each with the time.

        What a fork copied was done once, in the session that it comes from.
        """
        entry = line.entry
        if line.parent:
            return []
        if isinstance(entry, conversation.AssistantMessage):
            self._asked |= {call.id: call for call in entry.calls}
        elif isinstance(entry, conversation.ToolReturned) and entry.call in self._asked:
            found = done(self._asked.pop(entry.call), entry, line)
            known = [each for each in found if each.kind != "other"]
            return [(each, line.ts) for act in known for each in (act, *_patched_by(act))]
        elif isinstance(entry, FilesChanged) and (
            entry.recovered or kind_of(entry.name) != "change"
        ):
            paths = (one.path for one in entry.changes if not one.after.startswith("folder"))
            kind: ActionKind = "unsure" if entry.recovered else "change"
            of_it = partial(Action, kind=kind, name=entry.name, seq=line.seq, turn=line.turn)
            return [(of_it(about=path), line.ts) for path in paths]
        return []


def _patched_by(act: Action) -> Iterator[Action]:
    """The files that a command changed by a patch that stands in it."""
    for path in PATCHED.findall(act.about) if act.kind == "command" else ():
        yield msgspec.structs.replace(act, kind="change", about=path.strip())


def store(database: apsw.Connection, owner: int, acts: Iterable[tuple[Action, str]]) -> None:
    """Keep what is not there yet, inside the caller's transaction."""
    for act, ts in acts:
        failed = signature_of(act.error) if act.error else ""
        row = database.execute(
            "insert or ignore into acts (owner, seq, turn, ts, kind, about, ok, code, error,"
            " signature) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning row",
            (
                *(owner, act.seq, act.turn, ts, act.kind, act.about),
                *(act.ok, act.exit, act.error, failed),
            ),
        ).fetchone()
        if row is not None and act.kind == "command":
            database.executemany(
                "insert into act_programs values (?, ?)",
                [(name, row[0]) for name in programs_of(act.about)],
            )


class Done:
    """What can be asked about it, also of rewound turns: their words were taken back, not this."""

    def __init__(self, database: apsw.Connection, owners: Iterable[int]) -> None:
        self._database = database
        self._owners = json.dumps(sorted(owners))

    def failures(self, most: int) -> list[Act]:
        """What failed and said something, the newest first."""
        return self._select(f"error <> '' order by ts desc limit {most:d}", ())

    def like(self, error: str, most: int) -> list[Act]:
        """Failures with its signature and of its kind, the newest first."""
        found = self._select(
            f"signature = ? and signature <> '' order by ts desc limit {most:d}",
            (signature_of(error),),
        )
        return [act for act in found if is_of_kind(error, act.error)]

    def after(self, act: Act, most: int) -> list[Act]:
        """What was done after something in the same session, in order."""
        return self._select(
            f"owners.name = ? and seq > ? order by seq limit {most:d}", (act.session, act.seq)
        )

    def comes_back(self, act: Act) -> bool:
        """Whether the same error was met again later in its session."""
        found = self._select(
            "owners.name = ? and seq > ? and error <> '' and signature = ?"
            " and (signature <> '' or error = ?)",
            (act.session, act.seq, signature_of(act.error), act.error),
        )
        return any(is_of_kind(act.error, later.error) for later in found)

    def worked(self, program: str, most: int) -> list[tuple[Act, int]]:
        """Commands with a program that worked, the newest first, each with how often."""
        found = self._database.execute(
            f"select {_COLUMNS}, count(*), max(ts) {_FROM}"
            " where acts.row in (select act from act_programs where program = ?)"
            f" and ok and {self._whose} group by about order by max(ts) desc limit {most:d}",
            (program, self._owners),
        )
        return [(_act(row[:_FACTS]), int(row[_FACTS])) for row in found]

    def of_program(self, program: str, most: int) -> list[Act]:
        """Commands with a program, however they ended, the newest first."""
        return self._select(
            "acts.row in (select act from act_programs where program = ?)"
            f" order by ts desc, seq desc limit {most:d}",
            (program,),
        )

    def met_often(self, least: int, most: int) -> list[tuple[Act, int]]:
        """The newest example of each error that was met in so many sessions, most met first."""
        found = self._database.execute(
            f"select {_COLUMNS}, count(distinct acts.owner), max(ts) {_FROM}"
            f" where signature <> '' and {self._whose} group by signature"
            " having count(distinct acts.owner) >= ?"
            f" order by count(distinct acts.owner) desc, max(ts) desc limit {most:d}",
            (self._owners, least),
        )
        return [(_act(row[:_FACTS]), int(row[_FACTS])) for row in found]

    def touching(self, path: str, most: int) -> list[Act]:
        """What read or changed files whose path ends so, the newest first."""
        return self._select(
            "kind <> 'command' and ok and (about = ? or about like '%/' || ? escape '\\')"
            f" order by ts desc limit {most:d}",
            (path, path.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")),
        )

    def of_turn(self, session: str, turn: int) -> list[Act]:
        """What was done in one exchange, in order."""
        return self._select("owners.name = ? and turn = ? order by seq", (session, turn))

    @property
    def _whose(self) -> str:
        return "acts.owner in (select value from json_each(?))"

    def _select(self, where: str, values: Sequence[Any]) -> list[Act]:
        found = self._database.execute(
            f"select {_COLUMNS} {_FROM} where {self._whose} and {where}", (self._owners, *values)
        )
        return [_act(row) for row in found]


def _act(row: Sequence[Any]) -> Act:
    named = dict(zip((one.split()[-1] for one in _COLUMNS.split(", ")), row, strict=False))
    named["left_alone"] = json.loads(named["left_alone"])
    return msgspec.convert(named, Act, strict=False)  # a database knows no truth values
