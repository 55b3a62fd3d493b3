"""`mindstone blame`: which turn made each line of a file, or of a commit."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import Final

import typer

from mindstone_tui.cli import options
from mindstone_tui.cli.options import given, switch
from mindstone_tui.cli.output import hint, say_json, table
from mindstone_tui.core import errors, paths
from mindstone_tui.core.library.blame import (
    STAGED,
    KeptFiles,
    commits_named,
    git,
    lines_added,
    runs,
)

NOTES: Final = "refs/notes/mindstone"


def blame(
    file: str = typer.Argument("", metavar="[FILE]", help="A file as it is now."),
    commit: str = given("", "REV", "What a commit added instead, or a range: A..B."),
    notes: bool = switch("--notes", f"Keep it in git notes, too: {NOTES}."),
    trailer: str = given("", "MESSAGE", "Name the turns of staged lines in a message."),
    json: bool = options.JSON,
) -> None:
    """Show which turn made each line of a file.

    `mindstone blame src/app.py` prints the file. Above each run of lines stands where it comes
    from: the session, the turn, its day and what was asked for. `before` was there when a turn
    first touched the file; `unknown` was changed by hand, or cannot be proven.

    It is told by the bytes that undo kept around every call, and by the edits that other programs
    recorded exactly, never by a guess. `mindstone replay SESSION --turn N --prompt` shows what the
    model saw when it made a line, `mindstone log -s SESSION` what was said.

    --notes goes with --commit; --trailer is for a prepare-commit-msg hook, see docs/blame.md.
    """
    place = paths.from_home(Path(file or ".")).resolve()
    kept = KeptFiles(options.places(), place.parent if file else place, os.environ)
    if trailer:
        _add_trailers(kept, Path(trailer).absolute())
    elif commit:
        _blame_commits(kept, commit, notes=notes, json=json)
    elif file:
        _blame_file(kept, place, json=json)
    else:
        raise errors.UsageError("No file is named.", "For example: mindstone blame src/app.py")


def _blame_file(kept: KeptFiles, file: Path, *, json: bool) -> None:
    found = kept.blame(file)
    if json:
        say_json(found)
        return
    turns = groupby(found, lambda each: (each.origin, each.session, each.turn))
    heads = {each.line - 1: kept.words(each) for each in [next(group) for _, group in turns]}
    rows = [(str(each.line), each.text.expandtabs()) for each in found]
    table(("LINE", "TEXT"), rows, right=(0,), above=heads)
    if last := [each for each in found if each.session]:
        shown = max(last, key=lambda each: each.seq or 0)
        hint(f"What the model saw: mindstone replay {shown.session} --turn {shown.turn} --prompt")


def _add_trailers(kept: KeptFiles, message: Path) -> None:
    made = {(each.session, each.turn): 0 for each in lines_added(kept, STAGED, "~", "~")}
    said = [f"--trailer=Made-in: {session} turn {turn}" for session, turn in made if session]
    git(kept.project, "interpret-trailers", "--in-place", *said, str(message))


def _blame_commits(kept: KeptFiles, named: str, *, notes: bool, json: bool) -> None:
    commits = commits_named(kept.project, named)
    found = {sha: list(lines_added(kept, sha, *when)) for sha, *when in commits}
    if json:
        say_json([each for lines in found.values() for each in lines])
    for sha, lines in found.items():
        spans = [(f"{run[0].path}:{run[0].line}-{run[-1].line}", run[0]) for run in runs(lines)]
        rows = [(span, kept.words(first)) for span, first in spans]
        if notes:
            given = "\n".join("  ".join(row) for row in rows)
            git(kept.project, "notes", f"--ref={NOTES}", "add", "-f", "-F", "-", sha, given=given)
        if not json:
            table((sha[:12], "FROM"), rows)
