"""`mindstone files`: workspace files as a session's turns left them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mindstone_tui.cli.options import JsonOption, SessionOption, places, session_key
from mindstone_tui.cli.output import hint, say_json, table
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library.file_states import FileAt, FilesOfSession
from mindstone_tui.core.text import exact, plural


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("files")(files)


def files(
    path: Annotated[
        str,
        typer.Argument(
            metavar="[PATH]",
            help="Print this file as it was, or a content by its hash (sha256:3dee2f99); lists all "
            "files if omitted.",
        ),
    ] = "",
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="TURN", min=0, help="After this turn; 0 is before the first."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write all of them into a new folder instead."),
    ] = None,
    session: SessionOption = "",
    json: JsonOption = False,
) -> None:
    """Show files as they were after a turn.

    Only files that a turn touched are known. Nothing in the workspace is changed; `mindstone run
    "/undo"` does that.
    """
    where = places().session(session_key(session))
    if not where.folder.exists():
        raise where.missing()
    known = FilesOfSession(where)
    turn = known.last_turn if at is None else at
    if path and out is not None:
        raise UsageError("PATH and --out cannot be combined.", "Use one of them.")
    if path:
        sys.stdout.buffer.write(known.content(turn, path))
        sys.stdout.buffer.flush()
        return
    if out is not None:
        count, problems = known.write(turn, out.expanduser().absolute())
        for problem in problems:
            hint(problem)
        hint(f"{plural(count, 'path')} as they were after turn {turn} are in {out}.")
        return
    found = known.at(turn)
    if json:
        say_json({"turn": turn, "files": found})
    elif not found:
        hint("No turn of this session changed a file.")
    else:
        rows = [
            (_state(each), each.sha256[:12], f"{each.root}/{exact(each.path)}") for each in found
        ]
        table(("STATE", "SHA-256", "PATH"), rows)


def _state(each: FileAt) -> str:
    if each.kind in ("none", "unkept"):
        return {"none": "not there", "unkept": "not kept"}[each.kind]
    return each.kind if each.kind == "link" else f"{each.kind} {each.mode:o}"
