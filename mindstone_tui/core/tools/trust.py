"""What a project may tell the agent: nothing, until its folder was trusted once.

`AGENTS.md`, `CLAUDE.md` and the Markdown files in `.mindstone` are instructions from whoever wrote
the repository; so are its hooks, commands and skills. They are read as bytes, inside the workspace;
they cannot set an endpoint, a key or a tool. Trust is given to their exact content, and to that of
the project's files which a hook, a command or a skill names: when a byte changes, it is asked for
again, and until then nothing of it is used.

Before a path is listed or read, it is looked at: what stands there, how large, since when. As long
as every path that was looked at has the same stamp, the value that was read is handed out again,
the very same bytes, so a file that changed can be noticed late but never be taken for the old one.
Nothing is remembered of a way that leads through a link, or of a file so young that another change
could bear the same time.
"""

import contextlib
import hashlib
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

import msgspec

from mindstone_tui.core import bounded_json, disk, errors, patterns
from mindstone_tui.core.text import for_terminal
from mindstone_tui.core.tools.workspace import Workspace

T = TypeVar("T")
Seen = tuple[int, int, int, int, int, int]
"""Device, inode, mode, size, and the times of the last change of content and of anything."""

_YOUNG: Final = 2_000_000_000
"""Nanoseconds in which a file system may give two changes the same time."""


class Looking:
    """The paths below a root on which something that is read depends."""

    def __init__(self, root: os.PathLike[str], clock: Callable[[], int] = time.time_ns) -> None:
        self._root = os.fspath(root)
        self._since = clock() - _YOUNG
        self._seen: dict[str, Seen | None] = {}

    def at(self, path: str) -> bool:
        """Note what stands at a path below the root, and on the way there; whether anything does.

        To be called before the path is listed or read.
        """
        whole = f"{self._root}/{path}"
        if whole not in self._seen:
            if above := path.rpartition("/")[0]:
                self.at(above)
            self._seen[whole] = _seen_at(whole)
        return self._seen[whole] is not None

    def holds(self) -> bool:
        """Whether everything is still as it was seen."""
        return all(_seen_at(path) == seen for path, seen in self._seen.items())

    def can_be_relied_on(self) -> bool:
        """Whether a change of what was read would show."""
        there = [seen for seen in self._seen.values() if seen is not None]
        return not any(
            stat.S_ISLNK(mode) or max(content, anything) >= self._since
            for _, _, mode, _, content, anything in there
        )


class Remembered(msgspec.Struct, Generic[T], eq=False):
    """A value that is read from files below a root, and read again when one of them changed."""

    _root: os.PathLike[str]
    _read: Callable[[Looking], T]
    _clock: Callable[[], int] = time.time_ns
    _kept: tuple[Looking, T] | None = None

    def get(self) -> T:
        """The value as the files say it now."""
        if self._kept is not None and self._kept[0].holds():
            return self._kept[1]
        looking = Looking(self._root, self._clock)
        value = self._read(looking)
        self._kept = (looking, value) if looking.can_be_relied_on() else None
        return value


def _seen_at(path: str) -> Seen | None:
    try:
        it = os.lstat(path)
    except (OSError, ValueError):
        return None
    return it.st_dev, it.st_ino, it.st_mode, it.st_size, it.st_mtime_ns, it.st_ctime_ns


State = Literal["none", "untrusted", "changed", "trusted"]
"""`none`: the project says nothing; `changed`: it was trusted, and says something else now."""

Kind = Literal["instructions", "hooks", "command", "skill", "used"]
"""`used`: what a hook, a command or a skill names, so that it may run or read it."""

FILES: Final = ("AGENTS.md", "CLAUDE.md")
_FOLDER: Final = ".mindstone"
_HOOKS: Final = ".mindstone/hooks.json"
_COMMANDS: Final = (".mindstone/commands", ".claude/commands")
_SKILLS: Final = (".mindstone/skills", ".claude/skills")
_MOST_READ: Final = 1024 * 1024
_MOST_TOGETHER: Final = 16 * _MOST_READ
_LONGEST_HOOKS: Final = 32 * 1024
"""Bytes of hooks that are split as a shell would, sign by sign."""
_MOST_FILES: Final = 32
_MOST_NAMED: Final = 1_000
"""Words of a file that may be the names of others."""
_MOST_LOOKED_FOR: Final = 5_000
"""Paths that these may be, in all the folders that a hook may enter."""
_WORD: Final = patterns.pattern_of(r"[^\s\"'`;|&()<>=,\\]+")
_PROJECT: Final = patterns.pattern_of(
    r"\A(?:\$\{?(?:(?:CLAUDE|MINDSTONE)_PROJECT_DIR|PWD)\}?/|~\+/|@|!)"
)
_HERE: Final = patterns.pattern_of(r"\A(?:\./+)+")
_QUOTES: Final = patterns.pattern_of(r"""["'\\]""")
_MOST_FOLDERS: Final = 128
"""Folders with commands that are listed."""
DEEPEST: Final = 3
"""Folders in each other below the one with commands."""


class InstructionFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of instructions, and how much of it reaches the prompt."""

    path: str
    """Relative to the project."""
    raw_size: int
    """Bytes in the file."""
    text: str
    """What is injected once the folder is trusted; what is shown when trust is asked for."""
    kind: Kind = "instructions"
    data: bytes = b""
    """The exact bytes, of what is no instruction."""

    @property
    def injected_size(self) -> int:
        """Bytes that reach the prompt."""
        return len(self.text.encode())


class ProjectInstructions(msgspec.Struct, frozen=True, kw_only=True):
    """What a project wants to say, and whether it may."""

    folder: Path
    state: State
    digest: str = ""
    files: tuple[InstructionFile, ...] = ()
    problems: tuple[str, ...] = ()
    """Files that are there and were not read, with the reason."""

    @property
    def in_force(self) -> tuple[InstructionFile, ...]:
        """The files whose text goes into the prompt."""
        return self.trusted("instructions")

    def trusted(self, kind: Kind) -> tuple[InstructionFile, ...]:
        """The files of a kind, if they may be used."""
        return self.of(kind) if self.state == "trusted" else ()

    def of(self, kind: Kind) -> tuple[InstructionFile, ...]:
        """The files of a kind, trusted or not."""
        return tuple(each for each in self.files if each.kind == kind)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a project wants to say, whoever trusts it."""

    files: tuple[InstructionFile, ...]
    digest: str
    problems: tuple[str, ...]


def read_told(workspace: Workspace, looking: Looking, *, limit: int = 32 * 1024) -> Told:
    """Read all that a project wants to say; every path that this depends on is looked at."""
    hashed = hashlib.sha256()
    files: list[InstructionFile] = []
    problems: list[str] = []
    room, left = limit, _MOST_TOGETHER
    todo = _candidates(workspace, looking)
    known = {name for name, _ in todo}
    for name, kind in todo:  # grows: what a file names comes after all of them
        try:
            data = workspace.read_whole(name, max(min(_MOST_READ, left), 0))
        except errors.ToolError as error:
            if kind == "used":  # too large to be read: any change of it shows in its times
                stamp = _seen_at(os.path.realpath(workspace.cwd / name))
                hashed.update(f"{name}\0{stamp}".encode("utf-8", "surrogateescape"))
            else:
                problems.append(error.what)
            continue
        left -= len(data)
        if kind in ("hooks", "command", "skill"):
            if (named := _named(name, data, workspace, looking, every=kind == "hooks")) is None:
                problems.append(f"{name} names too many files to watch them all.")
                continue
            todo += [(each, "used") for each in named if each not in known]
            known.update(named)
            left -= 1024 * len(named)  # so many take long, too
        hashed.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
        text = for_terminal(data.decode("utf-8", "replace"))
        if kind == "instructions":
            text = _cut(text, room)
            room -= len(text.encode())
        files.append(
            InstructionFile(
                path=for_terminal(name),
                raw_size=len(data),
                text=text,
                kind=kind,
                data=b"" if kind == "instructions" else data,
            )
        )
    return Told(files=tuple(files), digest=hashed.hexdigest(), problems=tuple(problems))


def judged(told: Told, folder: Path, trusted: str | None) -> ProjectInstructions:
    """What a project wants to say, and whether it may: only with the digest that is trusted."""
    if not told.files:
        return ProjectInstructions(folder=folder, state="none", problems=told.problems)
    return ProjectInstructions(
        folder=folder,
        state=_state(told.digest, trusted),
        digest=told.digest,
        files=told.files,
        problems=told.problems,
    )


def _state(digest: str, trusted: str | None) -> State:
    if trusted is None:
        return "untrusted"
    return "trusted" if trusted == digest else "changed"


def _candidates(workspace: Workspace, looking: Looking) -> list[tuple[str, Kind]]:
    """The files that a project may speak with and that are there, in a fixed order."""
    found: list[tuple[str, Kind]] = [(name, "instructions") for name in FILES if looking.at(name)]
    inside = [name for name in _names(workspace, _FOLDER, looking) if name.endswith(".md")]
    found += [(f"{_FOLDER}/{name}", "instructions") for name in inside[:_MOST_FILES]]
    if looking.at(_HOOKS):
        found.append((_HOOKS, "hooks"))
    for folder in _COMMANDS:
        found += [(path, "command") for path in _below(workspace, folder, looking)]
    for folder in _SKILLS:
        for name in _names(workspace, folder, looking)[:_MOST_FILES]:
            if looking.at(f"{folder}/{name}/SKILL.md"):
                found.append((f"{folder}/{name}/SKILL.md", "skill"))
    for name, _ in found:
        looking.at(name)
    return found


def _named(
    name: str, data: bytes, workspace: Workspace, looking: Looking, *, every: bool
) -> list[str] | None:
    """The files of the project that a file names; None where it may name too many.

    In prose only a word with a dot or a slash in it counts, unless `every` does: then it is JSON,
    and words are read as a shell would read them, in whichever folder it could have gone to.
    """
    if every and len(data) > _LONGEST_HOOKS:
        return None
    said = _shell_words(data) if every else _WORD.findall(data.decode(errors="replace"))
    telling = [word for word in dict.fromkeys(said) if every or "/" in word or "." in word]
    if len(telling) > _MOST_NAMED:
        return None
    words = dict.fromkeys(
        form
        for word in telling
        for form in _forms(word, f"{workspace.cwd}/")
        if form not in ("", ".") and os.path.normpath(form)[:2] != ".."
        if every or "/" in form or "." in form
    )
    folders = [name.rpartition("/")[0]]
    if every:
        entered = [""]
        for _ in range(DEEPEST):  # into one, and from there into the next
            if len(words) * len(entered) > _MOST_LOOKED_FOR:
                return None
            ways = [f"{one}/{two}".lstrip("/") for one in entered for two in words]
            entered = [way for way in ways if looking.at(way) and (workspace.cwd / way).is_dir()]
            folders += entered
        words |= dict.fromkeys([f"{word}/__main__.py" for word in words])
        if any(word.endswith("make") for word in words):
            words |= dict.fromkeys(("GNUmakefile", "makefile", "Makefile"))
    if len(words) * len(folders) > _MOST_LOOKED_FOR:
        return None
    paths = (path for word in words for path in (word, *(f"{each}/{word}" for each in folders)))
    return [path for path in paths if looking.at(path) and (workspace.cwd / path).is_file()]


def _forms(word: str, root: str) -> Iterator[str]:
    """A word as the path that it may be, from the project on."""
    for one in (word, _PROJECT.sub("", word)):
        path = _HERE.sub("", one.removeprefix(root)).strip("/:")
        yield from (path, path.rstrip("."))


def _shell_words(data: bytes) -> Iterator[str]:
    """Every word of every string in a JSON file, as a shell splits it, and more finely."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(ValueError):
        text = "\n".join(_strings(bounded_json.read_json(data)))
    for line in text.splitlines():
        yield from _WORD.findall(line)
        yield from _WORD.findall(_QUOTES.sub("", line))
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        with contextlib.suppress(ValueError):  # it is cut off where a quotation does not end
            yield from lexer


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from (said for each in (*value, *value.values()) for said in _strings(each))
        case list():
            yield from (said for each in value for said in _strings(each))


def _below(workspace: Workspace, folder: str, looking: Looking) -> list[str]:
    """The Markdown files in a folder and in those below it, as many as are read."""
    found: list[str] = []
    listed = 0

    def visit(folder: str, depth: int) -> None:
        nonlocal listed
        listed += 1
        for name in _names(workspace, folder, looking)[: _MOST_FILES * 2]:
            if len(found) >= _MOST_FILES or listed > _MOST_FOLDERS:
                return
            path = f"{folder}/{name}"
            if name.endswith(".md"):
                found.append(path)
            elif depth and not name.startswith("."):
                visit(path, depth - 1)

    visit(folder, DEEPEST)
    return found


def _names(workspace: Workspace, folder: str, looking: Looking) -> list[str]:
    """What is in a folder of the project; nothing where there is none."""
    if not looking.at(folder):
        return []
    try:
        with workspace.reading(folder) as (_, fd):
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                with os.scandir(fd) as entries:
                    return sorted(entry.name for entry in entries)
    except errors.ToolError:
        pass
    return []


def _cut(text: str, room: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= room:
        return text
    kept = data[: max(room, 0)].decode("utf-8", "ignore")
    return f"{kept}\n[… cut here: {len(data) - len(kept.encode()):,} more bytes in the file]"


class TrustFile:
    """Which folders were trusted, with which content; a file of ours, outside every project."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def digest(self, folder: Path) -> str | None:
        """The content this folder was trusted with."""
        return self._read().get(str(folder.resolve()))

    def trust(self, folder: Path, digest: str) -> None:
        """Remember that this content of this folder may instruct the agent."""
        self._write({**self._read(), str(folder.resolve()): digest})

    def forget(self, folder: Path) -> None:
        """Trust it no longer."""
        kept = {place: it for place, it in self._read().items() if place != str(folder.resolve())}
        self._write(kept)

    def _read(self) -> dict[str, str]:
        try:
            return bounded_json.read_as(disk.read_regular(self._path), dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise errors.PlaceError(
                f"{self._path} cannot be read: {error}.",
                "Delete it; trust is then asked for again.",
            ) from None

    def _write(self, folders: dict[str, str]) -> None:
        disk.replace_file(self._path, msgspec.json.format(msgspec.json.encode(folders)) + b"\n")
