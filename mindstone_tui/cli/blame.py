"""`mindstone blame`: which turn made each line of a file, or of a commit."""

import os
import re
from itertools import groupby
from pathlib import Path
from typing import Final

import typer

from mindstone_tui.cli import options
from mindstone_tui.cli.options import given, switch
from mindstone_tui.cli.output import hint, say_json, table
from mindstone_tui.core import errors, paths, text
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
    lines: str = given("", "N[-M]", "Only these lines.", "--lines", "-L"),
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
    model saw when it made a line, `mindstone log -s SESSION` what was said, `mindstone files FILE
    --at N` the file as turn N left it.

    `-L 7` or `FILE:7` asks about one line. --notes goes with --commit. In every commit message:
    `echo 'exec mindstone blame --trailer "$1"' > .git/hooks/prepare-commit-msg`, made executable;
    without that file there are none.
    """
    if not lines and not Path(file).exists() and (meant := re.fullmatch(r"(.+):([\d-]+)", file)):
        file, lines = meant[1], meant[2]
    place = Path(os.path.realpath(paths.from_home(Path(file or "."))))
    if notes and not commit:
        raise errors.UsageError("--notes goes with --commit.", "For example: --commit HEAD --notes")
    kept = KeptFiles(options.places(), place.parent if file else place, os.environ)
    if trailer:
        _add_trailers(kept, Path(trailer).absolute())
    elif commit:
        _blame_commits(kept, commit, place if file else None, notes=notes, json=json)
    elif file:
        _blame_file(kept, place, _chosen(lines), json=json)
    else:
        raise errors.UsageError("No file is named.", "For example: mindstone blame src/app.py")


def _chosen(lines: str) -> range | None:
    """The lines that are meant; None for all."""
    if not lines:
        return None
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", lines)
    if found is None or not 0 < int(found[1]) <= int(found[2] or found[1]):
        raise errors.UsageError(f"`{lines}` names no lines.", "Write one, 7, or some, 7-12.")
    return range(int(found[1]), int(found[2] or found[1]) + 1)


def _blame_file(kept: KeptFiles, file: Path, chosen: range | None, *, json: bool) -> None:
    every = kept.blame(file)
    found = [each for each in every if chosen is None or each.line in chosen]
    if chosen is not None and not found:
        raise errors.UsageError(f"{file.name} has {text.plural(len(every), 'line')}.")
    if json:
        say_json(found)
        return
    turns = groupby(found, lambda each: (each.origin, each.session, each.turn))
    firsts = [next(group) for _, group in turns]
    longest = 79 if chosen is None else 2_000
    heads = {found.index(each): kept.words(each, longest) for each in firsts}
    rows = [(str(each.line), each.text.expandtabs()) for each in found]
    table(("LINE", "TEXT"), rows, right=(0,), above=heads)
    if made := [each for each in firsts if each.session]:
        one = made[0]
        which = one.turn if len({(each.session, each.turn) for each in made}) == 1 else "N"
        hint(f"What the model saw: mindstone replay {one.session} --turn {which} --prompt")


def _add_trailers(kept: KeptFiles, message: Path) -> None:
    made = {(each.session, each.turn): 0 for each in lines_added(kept, STAGED, "~", "~")}
    said = [f"--trailer=Made-in: {session} turn {turn}" for session, turn in made if session]
    if said:
        # Without the repository: its settings may name programs that make trailers.
        alone = ("--git-dir=/dev/null", "interpret-trailers", "--in-place")
        git(kept.project, *alone, *said, str(message))


def _blame_commits(
    kept: KeptFiles, named: str, file: Path | None, *, notes: bool, json: bool
) -> None:
    commits = commits_named(kept.project, named)
    top = Path(git(kept.project, "rev-parse", "--show-toplevel").decode().rstrip("\n")).resolve()
    found = {
        sha: [one for one in lines_added(kept, sha, *when) if file in (None, top / one.path)]
        for sha, *when in commits
    }
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
