"""Which turns the lines of a git commit come from: by the hashes of its files, then line by line.

Git is asked for what it keeps; no filter, hook or program that a repository names is run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import asdict

from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library.blame import KeptFiles, LineOrigin, is_text, told
from mindstone_tui.core.undo.origin import added, lines_of

_GIT: Final = (
    "git",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=",
    "-c",
    "core.hooksPath=/dev/null",
)
_RAW: Final = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules")
STAGED: Final = "--cached"
"""Stands for the commit that would be made now."""


class CommitLine(LineOrigin, frozen=True):
    """A line that a commit added."""

    commit: str
    path: str


def git(folder: Path, *arguments: str, given: str = "") -> bytes:
    """What git says; raises a `UsageError` with its words where it refuses."""
    command, environ = [*_GIT, "-C", str(folder), *arguments], {**os.environ, "TZ": "UTC"}
    try:
        done = subprocess.run(command, input=given.encode(), capture_output=True, env=environ)
    except FileNotFoundError:
        raise UsageError("git, which knows commits, is not on this machine.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").partition("\n")[0]
        raise UsageError(f"git says: {said.removeprefix('fatal: ')}.")
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
        found = fold.once(f"{top}/{path}", contents[new], late)
        every = told(found)
        for at in added(lines_of(contents.get(old, b"")), found.lines):
            yield CommitLine(**asdict(every[at]), commit=commit, path=path)
