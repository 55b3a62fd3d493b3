"""`mindstone watch`: follow the session folders of other programs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from mindstone_tui.cli.options import JsonOption, places
from mindstone_tui.cli.output import hint, say, say_json
from mindstone_tui.core.config import load
from mindstone_tui.core.errors import InterchangeError
from mindstone_tui.core.interchange.discover import find_programs
from mindstone_tui.core.library.watch import FolderWatch, TakenMessages, begin, only_watch
from mindstone_tui.core.text import plural

_TICK: Final = 0.25


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("watch")(watch)


def watch(
    once: Annotated[
        Path | None,
        typer.Option("--once", metavar="FILE", help="Import one file as it is now, then exit."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Follow the sessions of other programs as they are written.

    What is written from now on is imported, message by message; `mindstone import` brings in what
    is there already. Ctrl+C ends it; the next watch goes on where this one stopped.
    """
    home = places()
    settings = load(home, os.environ).settings
    if once is not None:
        _once(FolderWatch(home, settings, os.environ), once, json=json)
        return
    with only_watch(home) as free:
        if not free:
            say("Another MindStone is already watching these folders.")
            return
        begin(home, os.environ)
        programs = find_programs(os.environ)
        if not json:
            for each in programs:
                hint(f"{each.program}: {each.folder} ({plural(len(each.files), 'file')})")
            if not programs:
                hint("No sessions of other programs found yet; new ones will be picked up.")
        following = FolderWatch(home, settings, os.environ)
        try:
            while True:
                for taken in following.step():
                    _say(taken, json=json)
                time.sleep(_TICK)
        finally:
            following.keep()


def _once(following: FolderWatch, file: Path, *, json: bool) -> None:
    if not file.exists():
        raise InterchangeError(f"There is no file {file}.", "Check the path.")
    taken = following.take(file.absolute(), settled=True)
    if taken is not None:
        _say(taken, json=json)


def _say(taken: TakenMessages, *, json: bool) -> None:
    if json:
        say_json({"session": taken.session, "added": taken.added, "path": str(taken.file)})
    else:
        say(f"{taken.session}: {plural(taken.added, 'message')}")
