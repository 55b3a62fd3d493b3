"""Where each line of a file comes from, over every session that worked in its folder.

Only bytes decide: those that undo kept around calls, and those of edits that others recorded
exactly. Times put the calls of several sessions in order and prove nothing; where two calls ran at
once and both may have written a file, neither is named. A file that a person renamed is another
file.

Other programs recorded their edits exactly: what was replaced by what, without the file around.
What a command of theirs did to a file is not among them; nobody recorded it.

The lines of a git commit are told by the hashes of its files, then line by line. Git is asked for
what it keeps; no filter, hook or program that a repository names is run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import asdict, astuple

from mindstone_tui.core import bounded_json, disk, errors, paths, patterns, transcript
from mindstone_tui.core.entries import (
    ToolCall,
    actions,
    conversation,
    derived,
    provenance,
    standings,
)
from mindstone_tui.core.entries.marks import told
from mindstone_tui.core.library import lineage
from mindstone_tui.core.library.profile import OWN, current_profile
from mindstone_tui.core.library.projects import ProjectSessions
from mindstone_tui.core.numbers import local
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces, project_of
from mindstone_tui.core.text import one_line
from mindstone_tui.core.transcript import reader
from mindstone_tui.core.undo import changes, objects, origin, scan, steps

_KINDS: Final = (*steps.KINDS, "assistant_message", "tool_called", "job_started", "job_ended")
_NAMED: Final = frozenset({"write", "edit"})
"""Tools that write the one file they name; after all others the whole folder is compared."""


class LineOrigin(msgspec.Struct, frozen=True):
    """A line of a file, and which turn made it."""

    line: int
    text: str
    origin: str
    """`turn`, `before` a turn first touched the file, or `unknown`."""
    turn: int | None
    session: str | None
    seq: int | None
    """The line of the transcript that records what the call did."""
    standing: tuple[str, ...] = ()
    """What became of the turn's words: `rewound`, `imported`. What it did stays done."""


L = TypeVar("L", bound=LineOrigin)


class _Call(NamedTuple):
    """What one call did to files, or a person who took it back."""

    ts: str
    session: str
    seq: int
    began: str
    step: steps.FileStep
    paths: dict[str, changes.PathChange]
    edit: tuple[bytes, bytes]
    """What it was asked to replace by what, if that is what it was asked for."""

    @property
    def maker(self) -> origin.Origin:
        """As the origin of a line."""
        return origin.Origin("turn", self.step.turn, self.session, self.seq)

    @property
    def is_wide(self) -> bool:
        """Whether it may have seen what others did meanwhile."""
        return self.step.restored is None and getattr(self.step.entry, "name", "") not in _NAMED

    def stays(self, path: str) -> bool:
        """Whether there was something at a path afterwards."""
        return self.paths[path].after is not None

    def source(self, path: str) -> str:
        """The path at which the content of a new file stood before the call; "" if it is new."""
        made = _side(self.paths[path].after)
        if self.paths[path].before is not None or not made:
            return ""
        left = [
            at for at, it in self.paths.items() if it.after is None and _side(it.before) == made
        ]
        return left[0] if len(left) == 1 else ""


class _Asked(NamedTuple):
    """When a turn began, what it was asked for, and how that stands; empty where it is unread."""

    ts: str
    words: str
    standing: tuple[str, ...]


class KeptFiles:
    """What all sessions of a home know of the files of one project."""

    def __init__(self, home: Places, place: Path, environ: Mapping[str, str]) -> None:
        self.project = project_of(place)
        self._home = home
        self._stores: list[objects.ObjectStore] = []
        self._contents: dict[str, bytes] = {}
        """Contents that no store keeps, by their hashes."""
        self._calls: list[_Call] = []
        self._asked: dict[tuple[str, int], _Asked] = {}
        self._standings: dict[str, standings.Standings] = {}
        self._jobs: list[list[str]] = []
        """When commands in the background began and ended."""
        self._unwatched: list[str] = []
        """When commands ran around which the files were not kept: there were too many, say."""
        for each in home.sessions():
            if each.files.is_dir():
                self._take(each)
        self._calls.sort(key=lambda call: call[:3])
        self._held = [each for each, _ in ProjectSessions(home, environ).of(self.project)]

    def _take(self, places: SessionPlaces) -> None:
        store = objects.ObjectStore(places.files, limit=0)
        store.refresh()
        with transcript.History(places) as history:
            lines = [line for line in history.newest(_KINDS, 1 << 40) if not line.parent][::-1]
            opened = history.header.entry
        folder = opened.folder if isinstance(opened, conversation.SessionOpened) else ""
        self._stores.append(store)
        elsewhere = not folder or not self._concerns(Path(folder))
        watched = elsewhere or any(map(self._concerns, _watched_in(places)))
        began: dict[str, str] = {}
        edits: dict[str, tuple[bytes, bytes]] = {}
        jobs: dict[int, list[str]] = {}
        for line in lines:
            match line.entry:
                case conversation.AssistantMessage(calls=calls):
                    edits |= {call.id: _edit(call) for call in calls if call.name == "edit"}
                case conversation.ToolCalled(call=call, name=name):
                    began[call] = line.ts
                    if not watched and actions.kind_of(name) == "command":
                        self._unwatched.append(line.ts)
                case derived.JobStarted(job=job):
                    jobs[job] = [line.ts, "~"]  # later than any time
                case derived.JobEnded(job=job) if job in jobs:
                    jobs[job][1] = line.ts
        self._jobs += jobs.values()
        for step in steps.read_steps(lines, store).steps:
            root, call = Path(step.root), getattr(step.entry, "call", "")
            if self._concerns(root):
                paths = {f"{root}/{each.path}": each for each in step.known_changes}
                more = (began.get(call, step.ts), step, paths, edits.get(call, (b"", b"")))
                self._calls.append(_Call(step.ts, str(places.key), step.seq, *more))

    def _concerns(self, root: Path) -> bool:
        """Whether a workspace has files of this project."""
        return self.project in (root, *root.parents) or root in self.project.parents

    def blame(self, file: Path) -> list[LineOrigin]:
        """The lines of a file as it is now."""
        if not file.is_file():
            what = f"{file} is a folder." if file.is_dir() else f"There is no file {file}."
            raise errors.UsageError(what, "Name a file as it is now.")
        if not self._held and not any(Path(it.step.root) in file.parents for it in self._calls):
            what = f"{file} is in no workspace that this history knows."
            raise errors.UsageError(what, "`mindstone sessions` lists those that it knows.")
        data = disk.read_regular(file, most=disk.LARGEST_BLOB)
        if not is_text(data):
            raise errors.UsageError(f"{file} is not text, so it has no lines.")
        digest = hashlib.sha256(data).hexdigest()
        self._contents[digest] = data
        fold = self.follow({str(file)}, ends={str(file): data})
        fold.found(str(file), digest)
        return self.told(fold.now(str(file)))

    def told(self, found: origin.Traced) -> list[LineOrigin]:
        """Lines with their origins, as they are handed out."""
        texts = [line.removesuffix(b"\n").decode("utf-8", "replace") for line in found.lines]
        return [self._told(at, text, found.origins[at - 1]) for at, text in enumerate(texts, 1)]

    def _told(self, at: int, text: str, made: origin.Origin) -> LineOrigin:
        known = self._of(made.session, made.turn).standing if made.session and made.turn else ()
        return LineOrigin(at, text, *made, known)

    def words(self, line: LineOrigin, longest: int = 79) -> str:
        """An origin for a reader: `main, turn 3, 2026-03-31: Read the dates`."""
        if not line.session or line.turn is None:
            return line.origin
        asked = self._of(line.session, line.turn)
        short = one_line(line.session.removeprefix("agent:default:"), 24)
        when = ", ".join([local(asked.ts)[:10], *asked.standing])
        return one_line(f"{short}, turn {line.turn}, {when}: {asked.words}", longest)

    def _of(self, session: str, turn: int) -> _Asked:
        if (place := (session, turn)) not in self._asked:
            self._asked[place] = self._look_up(session, turn)
        return self._asked[place]

    def _look_up(self, session: str, turn: int) -> _Asked:
        places = self._home.session(SessionKey.parse(session))
        with contextlib.suppress(errors.MindstoneError), transcript.History(places) as history:
            if session not in self._standings:
                self._standings[session] = reader.standings_of(history)
            for line in map(history.whole, history.turn(turn)):
                if isinstance(line.entry, conversation.UserMessage):
                    stands = self._standings[session].of(line)
                    marks = told(lineage.with_forks(self._home, line, stands))
                    return _Asked(line.ts, line.entry.text, tuple(marks))
        return _Asked("", "", ())

    def since(self, second: str) -> set[origin.Origin]:
        """What calls made in a second or after it: git keeps no finer times."""
        return {call.maker for call in self._calls if call.ts[:19] >= second}

    def follow(
        self, wanted: set[str], until: str = "~", ends: Mapping[str, bytes] | None = None
    ) -> origin.OriginFold:
        """Follow these files, and what they were called before, through all calls until then."""
        for call in reversed(self._calls):
            wanted |= {call.source(path) for path in wanted & call.paths.keys()}
        fold = origin.OriginFold(self._read)
        seen: set[str] = set()
        acts: list[_Call | RecordedEdit] = [*self._calls, *self._edits(wanted, ends or {})]
        acts = sorted((each for each in acts if each.ts[:19] <= until), key=lambda act: act[:3])
        for act in acts:
            if isinstance(act, RecordedEdit):
                maker = origin.Origin("turn", act.turn, act.session, act.seq)
                fold.edited(act.path, act.apply, maker, new=act.created)
                seen.add(act.path)
                continue
            # What goes away comes first: its lines may go on elsewhere.
            for path in sorted(wanted & act.paths.keys(), key=act.stays):
                self._fold(fold, act, path, is_first=path not in seen)
                seen.add(path)
        return fold

    def _edits(self, wanted: set[str], ends: Mapping[str, bytes]) -> Iterator[RecordedEdit]:
        """What other programs did to these files, as far as they recorded it exactly."""
        found: list[RecordedEdit] = []
        names = [Path(path).name.encode() for path in wanted if path]
        for places in self._held:
            if (profile := current_profile(places)) is None or profile.program == OWN:
                continue
            raw = places.transcript.read_bytes()
            if any(name in raw for name in names):
                with transcript.History(places) as history:
                    found += recorded_edits(history, profile.folder)
        ours = {path for call in self._calls for path in call.paths}
        for path in wanted:
            edits = sorted((each for each in found if each.path == path), key=lambda it: it[:3])
            is_open = bool(edits) and edits[0].whole is None and path in ends and path not in ours
            yield from fitting(edits, ends[path]) if is_open else edits

    def _fold(self, fold: origin.OriginFold, call: _Call, path: str, *, is_first: bool) -> None:
        before, after = _side(call.paths[path].before), _side(call.paths[path].after)
        if is_first and before:
            base = origin.UNKNOWN if self._may_be_lost(call, path) else origin.BEFORE
            fold.first(path, before, base, self._left_behind)
        if call.step.restored is not None:
            fold.restored(path, after)
        elif call.step.unsure or self._is_shared(call, path):
            fold.found(path, after)
        else:
            beside = origin.Beside(call.source(path), lambda: self._gone(call, path), call.edit)
            fold.called(path, before, after, call.maker, beside)

    @cached_property
    def _left_behind(self) -> frozenset[bytes]:
        """Lines of files that people took away since a call: some may be in other files now."""
        last = {path: _side(it.after) for call in self._calls for path, it in call.paths.items()}
        gone = [digest for path, digest in last.items() if digest and not paths.is_file(path)]
        return frozenset(line for each in gone for line in origin.lines_of(self._read(each) or b""))

    def _may_be_lost(self, call: _Call, path: str) -> bool:
        """Whether a call that touched the file earlier is not known, or no longer as a whole."""
        if scan.leaves_out(Path(call.step.root), path.removeprefix(f"{call.step.root}/")):
            return True
        if any(ts < call.began for ts in self._unwatched):
            return True
        for entry in (each.step.entry for each in self._calls if each.step.lost and each < call):
            named = {f"{entry.root}/{one.path}" for one in entry.changes}
            if path in named or entry.total > len(named):
                return True
        return False

    def _is_shared(self, call: _Call, path: str) -> bool:
        """Whether somebody else's call, or a job, ran at the same time and may have done it."""
        others = [it for it in self._calls if it.session != call.session and path in it.paths]
        spans = [*self._jobs, *([it.began, it.ts] for it in others if it.step.restored is None)]
        return call.is_wide and any(it[0] <= call.ts and call.began <= it[1] for it in spans)

    def _gone(self, call: _Call, path: str) -> set[bytes]:
        """Lines that went away from other files in the same call."""
        found: set[bytes] = set()
        for at, each in call.paths.items():
            if at != path and (old := self._read(_side(each.before) or "")):
                found |= origin.gone(old, self._read(_side(each.after) or "") or b"")
        return found

    def _read(self, digest: str) -> bytes | None:
        for store in self._stores:
            if digest in store:
                with contextlib.suppress(errors.UndoError):
                    return store.get(digest)
        return self._contents.get(digest)


def _watched_in(places: SessionPlaces) -> list[Path]:
    """The folders that a session knows whole, by what its commands leave in them."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        stored = disk.read_regular(places.files / objects.TREES)
        return list(map(Path, msgspec.msgpack.decode(stored, type=dict[str, msgspec.Raw])))
    return []


def runs(lines: Iterable[L]) -> list[list[L]]:
    """Lines that follow each other and have one origin, together."""
    same = groupby(enumerate(lines), lambda it: (it[1].line - it[0], *astuple(it[1])[2:]))
    return [[line for _, line in group] for _, group in same]


def _edit(call: ToolCall) -> tuple[bytes, bytes]:
    fields = bounded_json.read_arguments(call.arguments) or {}
    old, new = (str(fields.get(name, "")) for name in ("old_string", "new_string"))
    return old.encode(errors="replace"), new.encode(errors="replace")


def is_text(data: bytes) -> bool:
    """Whether a content has lines."""
    return b"\0" not in data[:8_192]


def _side(node: scan.Node | None) -> str | None:
    """The hash of a file; None for no file, "" for what has no content that is kept."""
    if node is None:
        return None
    return node.digest if node.kind == "file" else ""


_TELLING: Final = 20
"""Signs, blanks apart, by which what an edit wrote is known again."""
_CREATED: Final = "File created successfully"
"""How Claude Code begins what it says of a file that was not there before."""
_PATCH: Final = "*** Begin Patch"
_FILES: Final = patterns.pattern_of(r"(?m)^\*\*\* (Add|Update|Delete|End)\b(?: File: )?(.*)\n?")
_HUNKS: Final = patterns.pattern_of(r"(?m)^@@.*\n")
_Pieces = tuple[tuple[bytes, bytes], ...]


class RecordedEdit(NamedTuple):
    """One call's edit of one file."""

    ts: str
    session: str
    seq: int
    turn: int
    path: str
    pieces: _Pieces = ()
    """What was replaced, and by what, each in one place."""
    whole: bytes | None = None
    """The file as it was written, where it was written whole."""
    created: bool = False
    """Whether there was no such file."""

    def apply(self, data: bytes | None, *, back: bool = False) -> bytes | None:
        """The content afterwards, or before; None where it cannot have been this one."""
        pieces = [piece[::-1] for piece in reversed(self.pieces)] if back else self.pieces
        if self.whole is not None or data is None:
            return self.whole
        for old, new in pieces:
            if not old or not 0 <= data.find(old) == data.rfind(old):
                return None
            data = data.replace(old, new)
        return data if pieces else None


def fitting(edits: Sequence[RecordedEdit], data: bytes) -> list[RecordedEdit]:
    """Edits of a file of which only its end is known: those whose words stand in it as written."""
    found: list[RecordedEdit] = []
    for each in reversed(edits):
        short = any(len(b"".join(new.split())) < _TELLING for _, new in each.pieces)
        before = None if short or each.whole is not None else each.apply(data, back=True)
        if before is not None and each.apply(before) == data:
            found.insert(0, each)
            data = before
    return [found[0]._replace(whole=data), *found] if found else []


def recorded_edits(history: transcript.History, folder: str) -> Iterator[RecordedEdit]:
    """The edits of a session that was imported, oldest first."""
    asked: dict[str, ToolCall] = {}
    for line in list(history.newest(("assistant_message", "tool_returned"), 1 << 40))[::-1]:
        match line.entry:
            case conversation.AssistantMessage(calls=calls) if (
                provenance.is_imported(line) and not line.parent
            ):
                asked |= {call.id: call for call in calls if actions.kind_of(call.name) == "change"}
            case conversation.ToolReturned(call=call, status="ok", text=text) if call in asked:
                place = (line.ts, line.session, line.seq, line.turn)
                for path, pieces, whole, is_new in _edits(asked.pop(call), text):
                    at = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 - their names
                    yield RecordedEdit(*place, at, pieces, whole, is_new)


def _edits(call: ToolCall, said: str) -> Iterator[tuple[str, _Pieces, bytes | None, bool]]:
    """The files that a call changed: what was replaced, or what was written, in a new file."""
    fields = bounded_json.read_arguments(call.arguments) or {}
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    patch = next((one for one in (*texts.values(), call.arguments) if _PATCH in one), "")
    parts = _FILES.split(patch)[1:]
    for act, path, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        sides = [(_of_side(it, " -"), _of_side(it, " +")) for it in _HUNKS.split(body) if it]
        if act == "Add":
            yield path, (), b"".join(new for _, new in sides), True
        elif act != "End":
            yield path, () if "*** Move to" in body else tuple(sides), None, False
    for path in () if patch else actions.targets_of(call)[:1]:
        match texts:
            case {"content": whole} | {"file_text": whole}:
                yield path, (), whole.encode(), said.startswith(_CREATED)
            case {"old_string": old, "new_string": new} if not fields.get("replace_all"):
                yield path, ((old.encode(), new.encode()),), None, False
            case _:  # something happened to it that is not recorded exactly
                yield path, (), None, False


def _of_side(hunk: str, signs: str) -> bytes:
    rows = (row or " " for row in hunk.removesuffix("\n").split("\n"))
    return "".join(f"{row[1:]}\n" for row in rows if row[0] in signs).encode()


_GIT: Final = (*("--no-optional-locks", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"),)
_RAW: Final = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules")
STAGED: Final = "--cached"
"""Stands for the commit that would be made now."""


class CommitLine(LineOrigin, frozen=True, kw_only=True):
    """A line that a commit added."""

    commit: str
    path: str


def git(folder: Path, *arguments: str, given: str = "") -> bytes:
    """What git says; raises a `UsageError` with its words where it refuses."""
    program = paths.program("git", os.environ.get("PATH"), folder)
    if program is None:
        raise errors.UsageError("git, which knows commits, is not on this machine.")
    command = [program, *_GIT, "-C", str(folder), *arguments]
    # What a repository lacks is not fetched: its settings name the program for that.
    environ = {**os.environ, "TZ": "UTC", "GIT_ALLOW_PROTOCOL": "none"}
    done = subprocess.run(command, input=given.encode(), capture_output=True, env=environ)
    if done.returncode:
        said = done.stderr.decode(errors="replace").partition("\n")[0]
        raise errors.UsageError(f"git says: {said.removeprefix('fatal: ')}.")
    return done.stdout


def commits_named(folder: Path, named: str) -> list[list[str]]:
    """The commits that a name or a range stands for, oldest first.

    Each with the seconds in which it was made and, before it was amended or rebased, written.
    """
    how = ("--no-show-signature", "--format=%H %cd %ad", "--date=format-local:%Y-%m-%dT%H:%M:%S")
    walk = "--reverse" if ".." in named else "--no-walk"
    said = git(folder, "log", walk, *how, "--end-of-options", named, "--")
    return [row.split() for row in said.decode().splitlines()]


def lines_added(kept: KeptFiles, commit: str, made: str, written: str) -> Iterator[CommitLine]:
    """The lines that a commit added to its first parent, each with its origin."""
    top = Path(git(kept.project, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    diff = ("diff-tree", *_RAW, "-m", "--first-parent", "--root", "--no-commit-id", commit)
    said = git(top, *(("diff-index", *_RAW, STAGED, "HEAD") if commit == STAGED else diff), "--")
    words = said.decode("utf-8", "surrogateescape").split("\0")
    named = zip(words[1::2], words[::2], strict=False)
    rows = [(path, *row.split(" ")[2:4]) for path, row in named]
    blobs = {sha for _, *sides in rows for sha in sides if sha.strip("0")}
    contents = {sha: git(top, "cat-file", "blob", sha) for sha in blobs}
    rows = [row for row in rows if is_text(contents.get(row[2], b"\0"))]
    fold = kept.follow({f"{top}/{path}" for path, _, _ in rows}, made)
    late = kept.since(written)
    for path, old, new in rows:
        every = kept.told(fold.once(f"{top}/{path}", contents[new], late))
        for at in _added(top, old, new) if old in contents else range(len(every)):
            yield CommitLine(**asdict(every[at]), commit=commit, path=path)


def _added(folder: Path, old: str, new: str) -> Iterator[int]:
    """Which lines of a content git calls added, from 0."""
    said = git(folder, "diff", "-U0", "--no-color", "--no-ext-diff", "--no-textconv", old, new)
    for found in re.finditer(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", said, re.MULTILINE):
        first, count = int(found[1]) - 1, int(found[2] or 1)
        yield from range(first, first + count)
