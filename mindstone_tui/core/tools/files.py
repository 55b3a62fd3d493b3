"""Files: read, write, edit and search, inside the workspace and nowhere else."""

import asyncio
import difflib
import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from mindstone_tui.core import paths
from mindstone_tui.core.errors import NotAllowed, ToolError
from mindstone_tui.core.text import exact
from mindstone_tui.core.tools import base, control_files, sandbox, shell, verdicts, workspace

MOST_EDITED: Final = 16 * 1024 * 1024
_MOST_SCANNED: Final = 64 * 1024 * 1024
_LONGEST_LINE: Final = 2_000
_SNIFFED: Final = 8_192

Path_ = Annotated[str, msgspec.Meta(description="In the workspace.")]


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of which file."""

    path: Path_
    first: Annotated[int, msgspec.Meta(ge=1, description="First line, from 1.")] = 1
    lines: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many lines.")] = 1_000


async def _read(arguments: ReadArguments, context: base.ToolContext) -> base.ToolResult:
    return await asyncio.to_thread(_read_now, arguments, context)


def _read_now(arguments: ReadArguments, context: base.ToolContext) -> base.ToolResult:
    with context.workspace.reading(arguments.path) as (place, fd):
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            raise ToolError(f"{arguments.path} is a folder.", "List it instead.")
        with os.fdopen(os.dup(fd), "rb") as file:
            start = file.read(_SNIFFED)
            if b"\0" in start:
                return _binary(place, start, info.st_size)
            file.seek(0)
            wanted, seen, more = _some_lines(file, arguments, context.limits.shown)
    name = exact(arguments.path)
    if not wanted:
        text = f"{name} is empty." if not seen else f"{name} has only {seen:,} lines."
        return base.ToolResult(text=text, finding=base.finding(text))
    last = arguments.first + len(wanted) - 1
    rest = f"; go on with first={last + 1}" if more else ""
    heading = f"{name}, lines {arguments.first}-{last}{rest}"
    return base.ToolResult(
        text=f"[{heading}]\n" + base.decoded(b"".join(wanted)),
        finding=base.finding(
            f"{name}: {info.st_size:,} bytes, lines {arguments.first}-{last} read"
        ),
        origin=f"file {place.path}",
    )


def _some_lines(
    file: Iterator[bytes], arguments: ReadArguments, room: int
) -> tuple[list[bytes], int, bool]:
    """The wanted lines as far as there is room, how many were seen, and whether more follow."""
    wanted: list[bytes] = []
    number = scanned = 0
    for number, line in enumerate(file, 1):
        scanned += len(line)
        if number < arguments.first:
            if scanned > _MOST_SCANNED:
                raise ToolError("That line is too far into the file.", "Use grep to find it.")
            continue
        if len(wanted) >= arguments.lines or (wanted and room <= 0):
            return wanted, number, True
        cut = _cut(line)
        wanted.append(cut)
        room -= len(cut)
    return wanted, number, False


def _cut(line: bytes) -> bytes:
    if len(line) <= _LONGEST_LINE:
        return line
    more = len(line) - _LONGEST_LINE
    return line[:_LONGEST_LINE] + f" [… {more:,} more bytes in this line]\n".encode()


def _binary(place: workspace.Place, start: bytes, size: int) -> base.ToolResult:
    kind = "an image" if start.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8")) else "binary"
    text = f"{exact(str(place.path))} is {kind}, {size:,} bytes; it begins {start[:32].hex(' ')}."
    return base.ToolResult(text=text, finding=base.finding(text))


class WriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole new file."""

    path: Path_
    content: Annotated[str, msgspec.Meta(description="All of it.")]


class EditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One passage replaced by another."""

    path: Path_
    old_string: Annotated[
        str, msgspec.Meta(min_length=1, description="Exact text that occurs once in the file.")
    ]
    new_string: Annotated[str, msgspec.Meta(description="What stands there instead.")]


class _Change(msgspec.Struct, frozen=True):
    """A file before and after."""

    place: workspace.Place
    before: bytes | None
    after: bytes

    @property
    def diff(self) -> str:
        """The change, line by line, as a person may judge it."""
        old = base.decoded(self.before or b"").splitlines(keepends=True)
        new = base.decoded(self.after).splitlines(keepends=True)
        name = "/".join(self.place.parts)
        source = "/dev/null" if self.before is None else f"a/{name}"
        lines = [
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(old, new, source, f"b/{name}")
        ]
        return exact("".join(lines).rstrip("\n"))


def _written(arguments: WriteArguments, context: base.ToolContext) -> _Change:
    place = context.workspace.locate(arguments.path)
    try:
        before: bytes | None = context.workspace.read_whole(arguments.path, MOST_EDITED)
    except NotAllowed:
        raise
    except ToolError:
        if place.path.exists():
            raise
        before = None
    return _Change(place, before, _encoded(arguments.content))


def _edited(arguments: EditArguments, context: base.ToolContext) -> _Change:
    before = context.workspace.read_whole(arguments.path, MOST_EDITED)
    place = context.workspace.locate(arguments.path)
    old, new = _encoded(arguments.old_string), _encoded(arguments.new_string)
    if before.count(old) == 0 and b"\r\n" in before:
        old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    if (found := before.count(old)) != 1:
        occurs = "does not occur" if not found else f"occurs {found} times"
        raise ToolError(
            f"The text to replace {occurs} in {arguments.path}.",
            "Read the file again and send a passage that occurs exactly once.",
        )
    if old == new:
        raise ToolError("The new text is the same as the old.", "Send what should change.")
    return _Change(place, before, before.replace(old, new))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError("The text has a lone surrogate in it.", "Send valid Unicode.") from None


def _preview(verb: str, change: _Change, context: base.ToolContext) -> base.Preview:
    standing = context.workspace.standing(change.place)
    scripts = control_files.changes_scripts(change.place.path.name, change.before, change.after)
    if standing == "open" and scripts:
        standing = "sensitive"
    does = "creates a file" if change.before is None else "changes a file"
    obeyed = "; other programs obey what is in it" if standing == "sensitive" else ""
    part = verdicts.CommandPart(
        text=f"{verb} {'/'.join(change.place.parts)}",
        verdict="writes",
        reason=does + obeyed,
        steers=bool(obeyed),
    )
    return base.Preview(
        title=f"{verb} {exact(context.workspace.shown(change.place.path))}",
        body=change.diff or "(no change)",
        standing=standing,
        root=str(change.place.root),
        place=change.place.parts,
        parts=(part,),
    )


async def _write(arguments: WriteArguments, context: base.ToolContext) -> base.ToolResult:
    return await asyncio.to_thread(_apply, _written(arguments, context), arguments.path, context)


async def _edit(arguments: EditArguments, context: base.ToolContext) -> base.ToolResult:
    return await asyncio.to_thread(_apply, _edited(arguments, context), arguments.path, context)


def _apply(change: _Change, path: str, context: base.ToolContext) -> base.ToolResult:
    """Put the change in place, unless the file is no longer what the change was made from."""
    if change.before is not None and (
        context.workspace.read_whole(path, MOST_EDITED) != change.before
    ):
        raise ToolError(f"{path} changed in the meantime.", "Read it again.")
    place = context.workspace.replace(path, change.after, context.meant)
    diff = change.diff
    added = sum(line.startswith("+") and not line.startswith("+++") for line in diff.split("\n"))
    removed = sum(line.startswith("-") and not line.startswith("---") for line in diff.split("\n"))
    verb = "Created" if change.before is None else "Changed"
    name = exact(context.workspace.shown(place.path))
    text = f"{verb} {name}: +{added} −{removed} lines, {len(change.after):,} bytes."
    return base.ToolResult(
        text=text,
        finding=base.finding(f"{text} sha256 {base.digest_of(change.after)[:12]}"),
        diff=diff,
    )


FILE_TOOLS: Final[tuple[base.Tool, ...]] = (
    base.declare(
        "read",
        "Read a text file, or a range of its lines.",
        "read",
        ReadArguments,
        _read,
        lambda arguments, context: base.Preview(
            title=f"read {exact(context.workspace.shown(arguments.path))}"
        ),
    ),
    base.declare(
        "write",
        "Create a file or replace its whole content.",
        "write",
        WriteArguments,
        _write,
        lambda arguments, context: _preview("write", _written(arguments, context), context),
    ),
    base.declare(
        "edit",
        "Replace one exact passage of a file; it must occur exactly once.",
        "write",
        EditArguments,
        _edit,
        lambda arguments, context: _preview("edit", _edited(arguments, context), context),
    ),
)


_MOST_NAMES: Final = 1_000
_MOST_VISITED: Final = 200_000


class ListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which folder."""

    path: Path_ = "."


async def _list(arguments: ListArguments, context: base.ToolContext) -> base.ToolResult:
    with context.workspace.reading(arguments.path) as (place, fd):
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            raise ToolError(f"{arguments.path} is a file.", "Read it instead.")
        with os.scandir(fd) as entries:
            found = sorted(entries, key=lambda entry: (not _is_folder(entry), entry.name))
        lines = [_described(entry) for entry in found[:_MOST_NAMES]]
    if len(found) > _MOST_NAMES:
        lines.append(f"[… {len(found) - _MOST_NAMES:,} more; use glob to narrow it down]")
    where = exact(arguments.path)
    return base.ToolResult(
        text="\n".join(lines) or f"{where} is empty.",
        finding=base.finding(f"{where}: {len(found):,} entries"),
        origin=f"folder {place.path}",
    )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _described(entry: os.DirEntry[str]) -> str:
    name = exact(entry.name)
    if entry.is_symlink():
        return f"{name} (link)"
    if _is_folder(entry):
        return f"{name}/"
    try:
        return f"{name} ({entry.stat(follow_symlinks=False).st_size:,} bytes)"
    except OSError:
        return name


class GlobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern for paths."""

    pattern: Annotated[
        str, msgspec.Meta(min_length=1, max_length=400, description="Such as src/**/*.py")
    ]
    path: Path_ = "."


async def _glob(arguments: GlobArguments, context: base.ToolContext) -> base.ToolResult:
    return await asyncio.to_thread(_glob_now, arguments, context)


def _glob_now(arguments: GlobArguments, context: base.ToolContext) -> base.ToolResult:
    steps = [_step(part) for part in arguments.pattern.split("/") if part not in ("", ".")]
    if any(part == ".." for part in arguments.pattern.split("/")):
        raise NotAllowed("A pattern cannot lead upwards.", "Start from another folder with `path`.")
    found: list[str] = []
    visited = 0
    with context.workspace.reading(arguments.path) as (place, fd):
        for visited, path in enumerate(_below(fd), 1):
            if _matches(path.split("/"), steps):
                found.append(path)
            if visited >= _MOST_VISITED or len(found) > _MOST_NAMES:
                break
    complete = visited < _MOST_VISITED and len(found) <= _MOST_NAMES
    lines = [exact(path) for path in sorted(found)[:_MOST_NAMES]]
    if not complete:
        lines.append("[… there may be more; narrow the pattern or the path]")
    text, full = base.bounded("\n".join(lines) or "Nothing matches.", context)
    summary = f"{exact(arguments.pattern)}: {len(found):,}{'' if complete else '+'} paths"
    return base.ToolResult(
        text=text, full=full, finding=base.finding(summary), origin=f"names below {place.path}"
    )


def _below(folder: int, prefix: str = "", depth: int = 0) -> Iterator[str]:
    """Every path under an open folder, links not followed, repositories' insides left out."""
    with os.scandir(folder) as entries:
        names = sorted((entry.name, _is_folder(entry)) for entry in entries)
    for name, is_folder in names:
        yield prefix + name
        if not is_folder or name == ".git" or depth > 60:
            continue
        try:
            inside = os.open(
                name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder
            )
        except OSError:
            continue
        try:
            yield from _below(inside, f"{prefix}{name}/", depth + 1)
        finally:
            os.close(inside)


def _step(part: str) -> re.Pattern[str] | None:
    """One part of a pattern; None stands for any number of folders."""
    return None if part == "**" else re.compile(fnmatch.translate(part))


def _matches(parts: list[str], steps: list[re.Pattern[str] | None]) -> bool:
    """Whether a path fits a pattern, in time proportional to one times the other."""
    reached = {0}
    for step in steps:
        if step is None:
            reached = {at for start in reached for at in range(start, len(parts) + 1)}
        else:
            reached = {at + 1 for at in reached if at < len(parts) and step.match(parts[at])}
        if not reached:
            return False
    return len(parts) in reached


FOLDER_TOOLS: Final[tuple[base.Tool, ...]] = (
    base.declare(
        "list",
        "List a folder.",
        "read",
        ListArguments,
        _list,
        lambda arguments, context: base.Preview(
            title=f"list {exact(context.workspace.shown(arguments.path))}"
        ),
    ),
    base.declare(
        "glob",
        "Find paths by a pattern; ** stands for any number of folders.",
        "read",
        GlobArguments,
        _glob,
        lambda arguments, _: base.Preview(title=f"glob {exact(arguments.pattern)}"),
    ),
)


# -- search: ripgrep where there is one, else a slower search in a child that can be killed -------
#
# A pattern comes from the model, so it never runs inside this process: one regular expression can
# take longer than the universe, and Python cannot stop it.

_PLAIN_SEARCH: Final = Path(__file__).with_name("plain_search.py")
_SECONDS: Final = 20.0


class GrepArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for, and where."""

    pattern: Annotated[
        str, msgspec.Meta(min_length=1, max_length=2_000, description="A regular expression.")
    ]
    path: Path_ = "."
    glob: Annotated[str, msgspec.Meta(description="Only in files like this, such as *.py")] = ""
    ignore_case: bool = False
    context: Annotated[int, msgspec.Meta(ge=0, le=10, description="Lines around each hit.")] = 0


async def _grep(arguments: GrepArguments, context: base.ToolContext) -> base.ToolResult:
    place = context.workspace.locate(arguments.path)
    with context.workspace.reading(arguments.path):  # refuses what may not be read
        finished = await shell.run(
            sandbox.reading_only(_command(arguments, place.path, context), context.workspace),
            cwd=place.path if place.path.is_dir() else place.path.parent,
            environ=shell.clean_environment(context.environ),
            bounds=shell.Bounds(
                seconds=min(_SECONDS, context.limits.seconds),
                kept=context.limits.kept,
                tail=context.limits.shown,
                output=context.limits.kept,
            ),
            stop=context.stop,
            given=b"",
        )
    return _told(arguments, finished, context, str(place.path))


def _command(arguments: GrepArguments, path: Path, context: base.ToolContext) -> tuple[str, ...]:
    target = "." if path.is_dir() else path.name
    roots = context.workspace.roots
    if (ripgrep := paths.program("rg", context.environ.get("PATH"), *roots)) is None:
        asked = {
            **msgspec.to_builtins(arguments),
            "target": target,
            "left_out": _ours(path, context),
        }
        return (sys.executable, "-I", "-S", str(_PLAIN_SEARCH), json.dumps(asked))
    return (
        ripgrep,
        *("--no-config", "--line-number", "--with-filename", "--no-heading", "--color=never"),
        "--no-messages",
        *("--max-columns=400", "--max-columns-preview", "--sort=path", "--max-filesize=16M"),
        *("--context", str(arguments.context)),
        *(("--ignore-case",) if arguments.ignore_case else ()),
        *(("--glob", arguments.glob) if arguments.glob else ()),
        *(word for ours in _ours(path, context) for word in ("--glob", f"!/{_literal(ours)}")),
        *("--regexp", arguments.pattern, "--", target),
    )


def _ours(path: Path, context: base.ToolContext) -> list[str]:
    """MindStone's own folders below a path, which are nobody's to search."""
    protected = context.workspace.protected
    return [str(ours.relative_to(path)) for ours in protected if path in ours.parents]


def _literal(path: str) -> str:
    return re.sub(r"([*?\[\]{}!\\])", r"[\1]", path)


def _told(
    arguments: GrepArguments, finished: shell.CommandFinished, context: base.ToolContext, where: str
) -> base.ToolResult:
    pattern = exact(arguments.pattern)
    output = base.decoded(finished.kept)
    partly = finished.ending == "exited" and finished.code == 2 and not finished.errors
    if finished.ending == "exited" and finished.code not in (0, 1) and not partly:
        said = base.decoded(finished.errors).strip()[:500]
        raise ToolError(f"The search failed: {said}", "Correct the pattern.")
    if finished.ending == "exited" and not output:
        text = f"Nothing matches {pattern}{' in what can be read' * partly}."
        return base.ToolResult(text=text, finding=base.finding(text), elapsed=finished.elapsed)
    hits = sum(1 for line in output.split("\n") if line)
    text, full = base.bounded(output, context, size=finished.size)
    why = {"timeout": "time ran out", "flooded": "too many hits", "interrupted": "interrupted"}
    note = f"\n[… stopped: {why[finished.ending]}]" if finished.ending in why else ""
    note = "\n[… and some files cannot be read]" if partly else note
    return base.ToolResult(
        text=text + note,
        status=finished.ending if finished.ending in ("timeout", "interrupted") else "ok",
        full=full,
        finding=base.finding(f"{pattern}: {hits:,} lines{' and more' if note else ''}"),
        elapsed=finished.elapsed,
        origin=f"search in {where}",
    )


GREP: Final[base.Tool] = base.declare(
    "grep",
    "Search file contents with a regular expression.",
    "read",
    GrepArguments,
    _grep,
    lambda arguments, context: base.Preview(
        title=f"grep {exact(arguments.pattern)} in {exact(context.workspace.shown(arguments.path))}"
    ),
)
