"""Files that other programs obey: a shell that enters the folder, git, an editor, a build server.

Writing one is asked about under every mode. `steers` says so of a path. A program that ran without
anyone looking can plant such a file without naming it, so `ControlFiles` looks before and after:
what came up in between is taken back, and the model is told to propose it with `write`.
"""

import contextlib
import errno
import fnmatch
import functools
import json
import os
import re
import stat
import subprocess
import unicodedata
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core import bounded_json, paths
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import one_line

PROTECTED: Final = frozenset({".git", ".mindstone", ".hg", ".svn", ".ssh", ".gnupg"})
"""Folders that no tool writes to."""

_ROWS: Final = [
    (line[0] if line[0] in "!=+" else "", line.lstrip("!=+").partition("\t")[0].split())
    for line in Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
_NAMES, _INERT, _SETTINGS, _DEPENDENCIES = (
    frozenset(name for mark, names in _ROWS if mark == sign for name in names)
    for sign in ("", "!", "=", "+")
)
_PATTERNS: Final = pattern_of("|".join(fnmatch.translate(each) for each in _NAMES if "*" in each))
_PLAIN: Final = pattern_of("|".join(map(fnmatch.translate, _SETTINGS)))
"""What a repository may set without steering anyone."""
_MOST_KEPT: Final = 8 << 20
"""Bytes of a file that can be put back; a package manager in one file has five million."""
_MOST_LINKS: Final = 40
_MOST_SETTINGS: Final = 2 << 20
"""Bytes of git's settings that are looked through."""
_PER_WORD: Final = 200
"""Bytes that a file of them counts for beside its own, and a word in it that may be a path."""
_MOST_LOOKED_AT: Final = 50_000
_WORD: Final = pattern_of(r"[^\s'\";|&()<>!]+")
_RUN_BY_GIT: Final = (
    r"^(core\.(fsmonitor|hookspath|sshcommand|editor|askpass|gitproxy|alternaterefscommand)"
    r"|filter\..*\.(clean|smudge|process)|diff\.(external|.*\.(textconv|command))|merge\..*\.driver"
    r"|gpg\.(.*\.)?(program|defaultkeycommand)|(trailer|hook|tar|alias|(diff|merge)tool)\..*"
    r"|credential\.(.*\.)?helper|remote\..*\.(uploadpack|receivepack|vcs)|protocol\..*"
    r"|interactive\.difffilter|sequence\.editor|submodule\..*\.update)$"
)
_SWITCHES: Final = ("", "true", "false", "yes", "no", "on", "off", "0", "1")
"""Values that name no program: git's own watcher is switched by them."""
_RUN_BY_LOOKING: Final = "hooks/post-index-change"
"""What git runs when it only looks: it notes in its index what it saw."""
_GIT_SECONDS: Final = 5.0
_MOST_FOLDERS: Final = 64
_UNREADABLE: Final = "settings that cannot be read"
_RUN_BY_VALUE: Final = pattern_of(r"!|[\w+.-]*::")
"""A command, or the name of a program that is to reach a remote."""
_GIT_SETTINGS: Final = ("config", "config.worktree")
_OBEYED_BY_GIT: Final = (*_GIT_SETTINGS, "commondir", "hooks")
_COMMANDS: Final = ("scripts", "lint-staged", "simple-git-hooks", "husky", "gitHooks", "pre-commit")
"""What `package.json` has run, by npm or by a commit."""
_ITEM: Final = pattern_of(
    r"""[ \t\r\n]++|[#;][^\n]*+"""
    r"""|\[(?P<section>[a-z0-9.-]+)(?:[ \t]+"(?P<sub>(?:[^"\\\n]|\\.)*+)")?\]"""
    r"""|(?P<key>[a-z][a-z0-9-]*+)[ \t]*+"""
    r"""(?:=(?P<value>(?:"(?:[^"\\\n]|\\.)*+"|\\.|[^"\\\n#;])*+))?(?=[#;\n]|\Z)""",
    re.DOTALL | re.IGNORECASE | re.ASCII,
)
"""A piece of a repository's settings, read as git does: a heading and a key may share a line."""


@functools.lru_cache(1 << 16)
def plain_name(name: str) -> str:
    """A name as a lenient file system might compare it."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in folded if unicodedata.category(sign) != "Cf").rstrip(". ")


def steers(parts: tuple[str, ...]) -> bool:
    """Whether another program would obey what is written to this path, without being asked."""
    names = tuple(map(plain_name, parts))
    in_repository = any(name.endswith(".git") for name in names[:-1])
    return in_repository or any(_is_control(names[: at + 1]) for at in range(len(names)))


def _is_control(names: tuple[str, ...]) -> bool:
    """Whether the last name is one that others obey, in the folders before it."""
    if any("/".join(names[-count:]) in _NAMES for count in (1, 2, 3)):
        return True
    return bool(_PATTERNS.match(names[-1])) and names[-1] not in _INERT


def short(path: Path, roots: tuple[Path, ...]) -> str:
    """A path as it is told: from the root on that it lies in."""
    root = next((root for root in roots if root in path.parents), Path("/"))
    return str(path.relative_to(root))


def obeyed_below(root: Path) -> Iterator[Path]:
    """What others are led to from below a folder: by links that they obey, and by git's settings.

    A folder that holds very much is looked into only so far, from the top down.
    """
    todo, room = deque([root]), _MOST_LOOKED_AT
    while todo and room > 0:
        folder = todo.popleft()
        above, entries = folder.relative_to(root).parts, _listed(folder)
        room -= len(entries)
        for entry in entries:
            if entry.is_symlink():
                if steers((*above, entry.name)):
                    yield Path(os.path.realpath(entry.path))
            elif entry.is_dir() and _kind_of((plain_name(entry.name),)) != "foreign":
                todo.append(Path(entry.path))
    yield from _named_by_git(root)


def _named_by_git(root: Path, further: Iterable[Path] = ()) -> Iterator[Path]:
    """What git's settings in a folder name: hooks, more settings, programs; itself, if too much."""
    top = next((each for each in (root, *root.parents) if os.path.lexists(each / ".git")), root)
    repository = _led_to(top / ".git")
    places = {repository, _led_to(repository / "commondir")}
    todo = [*further, *(place / name for place in places for name in _GIT_SETTINGS)]
    todo += [Path.home() / name for name in (".gitconfig", ".config/git/config")]
    known: set[Path] = set()
    room = _MOST_SETTINGS
    while todo:
        path = todo.pop()
        content = None if path in known else _bytes_of(Path(os.path.realpath(path)))
        known.add(path)
        own = path.parent.parent if path.parent.name == ".git" else top
        room -= _PER_WORD + len(content or b"")
        for key, value in _read_settings(content or b"" if room > 0 else b""):
            includes = key.startswith("include") and key.endswith(".path")
            whole = includes or key == "core.hookspath"
            words = [value] if whole else _WORD.findall(value)
            room -= _PER_WORD * len(words)
            for word in words if room > 0 else ():
                base = path.parent if includes else own
                place = Path(os.path.normpath(base / os.path.expanduser(word)))  # noqa: PTH111
                todo += [place] if includes else []
                if whole or place.is_file() or ("/" in word and not place.exists()):
                    yield from (place, Path(os.path.realpath(place)))
        if room <= 0:
            yield root
            return


def _read_settings(content: bytes) -> Iterator[tuple[str, str]]:
    """What a configuration sets that may make git run something, as far as git reads on."""
    with contextlib.suppress(ValueError):
        for key, value, _ in git_settings(os.fsdecode(content).removeprefix("\ufeff")):
            if key and not is_plain_setting(key, value):
                yield key, value


def changes_scripts(name: str, before: bytes | None, after: bytes) -> bool:
    """Whether a change of `package.json` adds or changes a command that is run from there."""
    if plain_name(name) != "package.json":
        return False
    return _commands(after) not in ({}, _commands(before or b"{}"))


def _commands(data: bytes) -> dict[str, object] | None:
    """The commands in a `package.json`; None when it cannot be read."""
    if (told := bounded_json.read_object(data)) is None:
        return None
    fetched = ["packageManager"] if "/" in str(told.get("packageManager")) else []
    return {name: told[name] for name in (*_COMMANDS, *fetched) if told.get(name)}


class _Seen(msgspec.Struct, frozen=True):
    """A file as it was."""

    acts: bytes | None
    """What others obey in it; None where that is nothing."""
    mode: int = 0
    content: bytes | None = None
    """To put it back: its bytes, or where it leads; None when there is too much of it."""


_Kind = Literal["own", "foreign", "control"]
"""Of a folder: judged by names; only its repositories are judged; all in it is obeyed."""
_Home = tuple[int, str]
"""The folder that somebody would enter, by its inode, and the way from there to a file."""


class ControlFiles:
    """The control files below some folders, as they were at one moment."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        self._roots = roots
        self._shut: set[Path] = set()
        """Folders that could not be listed at first."""
        self._ended = False
        self._too_deep: set[Path] = set()
        homes = dict(self._found((root, "own") for root in roots))
        settings = [each for each in homes if _is_settings(each)]
        ways = {each for root in roots for each in _named_by_git(root, settings)}
        homes |= dict(self._found((each, "control") for each in self._inside(ways)))
        links = (each for each in homes if stat.S_ISLNK(_seen(each).mode) and each.name != ".git")
        self._linked = self._inside(ways.union(*map(_way_of, links)))
        homes |= dict(self._found((each, "control") for each in self._linked))
        self._before = {path: _seen(path) for path in homes}
        self._homes = {home: path for path, home in homes.items()}

    def _inside(self, places: Iterable[Path]) -> list[Path]:
        return [each for each in places if any(root in each.parents for root in self._roots)]

    def take_back(self, *, undo: bool = True) -> tuple[str, ...]:
        """Undo what came up or changed since; says what it was, by path.

        What went along with the folder that it lies in was moved by that folder's owner. Without
        `undo` it only says.
        """
        self._ended = True
        undone: list[str] = []
        starts: list[tuple[Path, _Kind]] = [(root, "own") for root in self._roots]
        for path, home in self._found([*starts, *((each, "control") for each in self._linked)]):
            old = self._homes.get(home, path)
            before = self._before.get(path if os.path.lexists(old) else old)
            seen = _seen(path)
            if seen.acts is None or (before and seen.acts == before.acts):
                continue
            failed = undo and not _put_back(path, seen, before)
            part = "the commands in " if plain_name(path.name) == "package.json" else ""
            undone.append(
                part + short(path, self._roots) + " (which could not be put back)" * failed
            )
        deep = (
            f"{short(each, self._roots)[:80]}… (too deep to look into)" for each in self._too_deep
        )
        return (*sorted(undone), *deep)

    def _found(self, starts: Iterable[tuple[Path, _Kind]]) -> Iterator[tuple[Path, _Home]]:
        """Every file below some folders that others may obey."""
        todo = [(path, kind, (0, str(path))) for path, kind in starts]
        while todo:
            folder, kind, home = todo.pop()
            try:
                info = folder.lstat()
            except OSError as error:
                if self._ended and error.errno == errno.ENAMETOOLONG:
                    self._too_deep.add(folder)
                continue
            if not stat.S_ISDIR(info.st_mode):
                yield folder, home
                continue
            entries = self._entries(folder)
            single = [".git"]
            if kind == "own":
                home = (info.st_ino, "")
                single.append("package.json")
            obeyed = _OBEYED_BY_GIT if _is_repository(each.name for each in entries) else ()
            above = tuple(map(plain_name, folder.parts[-2:]))
            for entry in entries:
                name, way = plain_name(entry.name), (home[0], f"{home[1]}/{entry.name}")
                inner = _kind_of((*above, name)) if kind == "own" else kind
                if name in obeyed:
                    inner = "control"
                if entry.is_dir(follow_symlinks=False):
                    todo.append((Path(entry.path), inner, way))
                elif name in single or (inner == "control" and not name.endswith(".sample")):
                    yield Path(entry.path), way

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """What is in a folder; one that was shut meanwhile is opened to see it."""
        if not os.access(folder, os.R_OK | os.X_OK):
            if not self._ended:
                self._shut.add(folder)
            elif folder not in self._shut:
                with contextlib.suppress(OSError):
                    folder.chmod(stat.S_IRWXU)
        return _listed(folder)


def _kind_of(names: tuple[str, ...]) -> _Kind:
    if _is_control(names):
        return "control"
    return "foreign" if names[-1] in _DEPENDENCIES or names[-1] == ".git" else "own"


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _way_of(link: Path) -> Iterator[Path]:
    """The links that decide where a link leads, and what it leads to."""
    todo = [link]
    for _ in range(_MOST_LINKS):
        path = todo.pop() if todo else Path("/")
        for each in (path, *path.parents):
            with contextlib.suppress(OSError):  # it is no link
                todo.append(Path(os.path.normpath(each.parent / each.readlink())))
                yield each
    yield Path(os.path.realpath(link))


def in_repository(root: Path, parts: tuple[str, ...]) -> bool:
    """Whether git takes a folder above a path for a repository, or would once it is written."""
    above = [_listed(root.joinpath(*parts[:at])) for at in range(len(parts))]
    return any(
        _is_repository([name, *(entry.name for entry in entries)])
        for name, entries in zip(parts, above, strict=True)
    )


def _is_repository(inside: Iterable[str]) -> bool:
    """Whether git takes a folder with this in it for a repository, whatever it is called."""
    names = set(map(plain_name, inside))
    return names >= {"objects", "refs"} or names >= {"head", "commondir"}


def _runs_something(repository: Path) -> bool:
    """Whether git would run anything for whoever enters a repository."""
    return any(
        _seen(each).acts is not None
        for place in {repository, _led_to(repository / "commondir")}
        for each in (*map(place.joinpath, _GIT_SETTINGS), *map(Path, _listed(place / "hooks")))
        if not each.name.endswith(".sample")
    )


def _led_to(pointer: Path) -> Path:
    """The repository that a `.git` or a `commondir` stands for, or the folder that it is."""
    real = Path(os.path.realpath(pointer))
    if (content := _bytes_of(real)) is None:
        return real
    text = os.fsdecode(content).removeprefix("gitdir:").removeprefix(" ")
    return Path(os.path.realpath(pointer.parent / text.partition("\0")[0].rstrip("\r\n")))


def _seen(path: Path) -> _Seen:
    """A file as it is now; where none is, nothing acts."""
    try:
        info = path.lstat()
    except OSError:
        return _Seen(None)
    name, content = plain_name(path.name), _bytes_of(path)
    acts: bytes | None = content
    if content is None:
        acts = f"{info.st_ino} {info.st_ctime_ns}".encode()
    if name in (".git", "commondir"):
        odd = b"\0" in (content or b"")  # who reads it decides where it ends
        acts = acts if odd or _runs_something(_led_to(path)) else None
    elif stat.S_ISLNK(info.st_mode):
        acts = b"-> " + (content or b"")
    elif content is not None and name == "package.json":
        if (commands := _commands(content)) is not None:
            acts = json.dumps(commands, sort_keys=True).encode() if commands else None
    elif content is not None and _is_settings(path):
        acts = _settings(path, content)[0] or None
    return _Seen(acts, info.st_mode, content)


def _bytes_of(path: Path) -> bytes | None:
    """What a small regular file holds, or where a link leads; None for anything else."""
    with contextlib.suppress(OSError):
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            return os.fsencode(path.readlink())
        if stat.S_ISREG(info.st_mode) and info.st_size <= _MOST_KEPT:
            return path.read_bytes()
    return None


def _is_settings(path: Path) -> bool:
    """Whether git takes a file for the settings of a repository."""
    beside = (each.name for each in _listed(path.parent))
    return plain_name(path.name) in _GIT_SETTINGS and _is_repository(beside)


def git_settings(text: str) -> Iterator[tuple[str, str, str]]:
    """What a configuration sets, as git reads it: key, value, and the text that says so.

    What stands between is given with an empty key; ValueError where git would not read on.
    """
    section, at = "", 0
    while at < len(text):
        if (item := _ITEM.match(text, at)) is None:
            raise ValueError("no settings")
        if item["section"]:
            section = f"{item['section']}.{item['sub']}" if item["sub"] else item["section"]
        key = f"{section}.{item['key']}".lower() if item["key"] else ""
        value = (item["value"] or "").replace('"', "").replace("\\\n", "").strip()
        yield key, value, item[0]
        at = item.end()


def is_plain_setting(key: str, value: str) -> bool:
    """Whether a setting of git holds no credential, and makes it run nothing."""
    return bool(_PLAIN.match(key)) and not _RUN_BY_VALUE.match(value)


def _settings(path: Path, content: bytes) -> tuple[bytes, bytes]:
    """A repository's settings: those that may steer somebody, and all the others."""
    text = os.fsdecode(content).removeprefix("\ufeff").replace("\r\n", "\n")
    steering, others = "", ""
    try:
        for key, value, said in git_settings(text):
            if not key or is_plain_setting(key, value) or _is_own_place(path.parent, key, value):
                others += said
            else:
                steering += f"{key} {said}\n"
    except ValueError:
        return content, b""
    return os.fsencode(steering), os.fsencode(others)


def _is_own_place(repository: Path, key: str, value: str) -> bool:
    """Whether it says where a submodule lies, and that is in the repository which has it."""
    if key != "core.worktree" or len(value) > os.pathconf("/", "PC_PATH_MAX"):
        return False
    tops = (each.parent for each in repository.parents if each.name == ".git")
    return next(tops, repository) in Path(os.path.realpath(repository / value)).parents


def _put_back(path: Path, seen: _Seen, before: _Seen | None) -> bool:
    """Undo a file's change, as far as others obey it; False where that cannot be done.

    What a program wrote beside its commands or its steering settings stays.
    """
    content = before.content if before else None
    if before is not None and content is None:
        return False
    written = seen.content or b""
    if plain_name(path.name) == "package.json" and (told := bounded_json.read_object(written)):
        now, earlier = _commands(written) or {}, _commands(content or b"") or {}
        kept = {name: told[name] for name in told if name not in now or name in earlier}
        text = json.dumps(kept | earlier, indent=2, ensure_ascii=False) + "\n"
        content = text.encode("utf-8", "backslashreplace")  # half a character stays an escape
    elif before is None and _is_settings(path):
        content = _settings(path, written)[1]
    fresh = path.with_name(f".{path.name[:80]}.{os.urandom(6).hex()}")
    try:
        if content is None:
            path.unlink()
            return True
        if before is not None and stat.S_ISLNK(before.mode):
            fresh.symlink_to(os.fsdecode(content))
        else:
            with fresh.open("xb") as file:  # nobody can have put a link there
                file.write(content)
            fresh.chmod(stat.S_IMODE((before or seen).mode))
        fresh.replace(path)
    except OSError:
        return False
    return True


def git_says(git: str, folder: Path, *words: str, **environ: str) -> list[str]:
    """What git answers, in parts; it fetches nothing, and asks no program what changed."""
    ran = subprocess.run(
        (git, "-C", str(folder), "-c", "core.fsmonitor=false", *words),
        capture_output=True,
        timeout=_GIT_SECONDS,
        env={**os.environ, "GIT_ALLOW_PROTOCOL": "none", **environ},
    )
    return os.fsdecode(ran.stdout).split("\0")


def programs_set(words: Collection[tuple[str, ...]], folder: Path) -> str:
    """The settings by which git would run programs, where git is among commands.

    Those that a person has for every repository are not among them. Git only tells its settings
    and files here, which runs nothing, in each repository that a word or a submodule leads to.
    """
    git = paths.program("git", os.environ.get("PATH"), folder)
    named = [word.rpartition("=")[2] for each in words for word in each]
    if git is None or not any(Path(word).name == "git" for word in named):
        return ""
    places = {folder}
    for word in named:
        into = [here / word for here in places if os.path.isdir(here / word)]  # noqa: PTH112
        places |= {Path(to(each)) for each in into for to in (os.path.realpath, os.path.normpath)}
        if len(places) > _MOST_FOLDERS:
            return _UNREADABLE
    found: dict[str, None] = {}
    todo = list(dict.fromkeys(map(_top_of, places)))
    for top in todo:  # grows
        if len(todo) > _MOST_FOLDERS:
            return _UNREADABLE
        try:
            told = git_says(git, top, "config", "-z", "--show-scope", "--get-regexp", _RUN_BY_GIT)
            files = git_says(git, top, "ls-files", "-z", "--stage")
            hook = git_says(git, top, "rev-parse", "--git-path", _RUN_BY_LOOKING)[0].rstrip("\n")
        except (OSError, subprocess.SubprocessError, ValueError):
            return _UNREADABLE
        for scope, setting in zip(told[::2], told[1::2], strict=False):
            name, _, value = setting.partition("\n")
            quiet = value.casefold() in _SWITCHES or is_plain_setting(name, value)
            if scope in ("local", "worktree") and not quiet:
                found[name] = None
        if hook and os.path.lexists(top / hook):
            found[_RUN_BY_LOOKING] = None
        inner = (top / each.partition("\t")[2] for each in files if each[:6] == "160000")
        todo += [each for each in inner if os.path.lexists(each / ".git") and each not in todo]
    return one_line(", ".join(found))


def _top_of(place: Path) -> Path:
    return next((at for at in (place, *place.parents) if os.path.lexists(at / ".git")), place)
