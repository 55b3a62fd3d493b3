"""Folders: list one, find paths below one by a pattern; links are named, never followed."""

from __future__ import annotations

import asyncio
import fnmatch
import os
import re
import stat
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from mindstone_tui.core.errors import NotAllowed, ToolError
from mindstone_tui.core.foreign import exact
from mindstone_tui.core.tools.files import Path_
from mindstone_tui.core.tools.tool import (
    Preview,
    Tool,
    ToolContext,
    ToolResult,
    bounded,
    declare,
    finding,
)

_MOST_NAMES: Final = 1_000
_MOST_VISITED: Final = 200_000


class ListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which folder."""

    path: Path_ = "."


async def _list(arguments: ListArguments, context: ToolContext) -> ToolResult:
    with context.workspace.reading(arguments.path) as (place, fd):
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            raise ToolError(f"{arguments.path} is a file.", "Read it instead.")
        with os.scandir(fd) as entries:
            found = sorted(entries, key=lambda entry: (not _is_folder(entry), entry.name))
        lines = [_described(entry) for entry in found[:_MOST_NAMES]]
    if len(found) > _MOST_NAMES:
        lines.append(f"[… {len(found) - _MOST_NAMES:,} more; use glob to narrow it down]")
    where = exact(arguments.path)
    return ToolResult(
        text="\n".join(lines) or f"{where} is empty.",
        finding=finding(f"{where}: {len(found):,} entries"),
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


async def _glob(arguments: GlobArguments, context: ToolContext) -> ToolResult:
    return await asyncio.to_thread(_glob_now, arguments, context)


def _glob_now(arguments: GlobArguments, context: ToolContext) -> ToolResult:
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
    text, full = bounded("\n".join(lines) or "Nothing matches.", context)
    summary = f"{exact(arguments.pattern)}: {len(found):,}{'' if complete else '+'} paths"
    return ToolResult(
        text=text, full=full, finding=finding(summary), origin=f"names below {place.path}"
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


FOLDER_TOOLS: Final[tuple[Tool, ...]] = (
    declare(
        "list",
        "List a folder.",
        "read",
        ListArguments,
        _list,
        lambda arguments, _: Preview(title=f"list {exact(arguments.path)}"),
    ),
    declare(
        "glob",
        "Find paths by a pattern; ** stands for any number of folders.",
        "read",
        GlobArguments,
        _glob,
        lambda arguments, _: Preview(title=f"glob {exact(arguments.pattern)}"),
    ),
)
