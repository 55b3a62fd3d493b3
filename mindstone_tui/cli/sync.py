"""`mindstone sync`: sessions between machines, without a server."""

import contextlib
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import IO

import typer

from mindstone_tui.cli.options import JSON, places
from mindstone_tui.cli.output import Progress, hint, say, say_json
from mindstone_tui.core import paths, text
from mindstone_tui.core.errors import ExitCode, UsageError
from mindstone_tui.core.features.rules import brought_with
from mindstone_tui.core.shared.sync import Synced, SyncedStore, answer, remote_store, sync
from mindstone_tui.core.transcript.history_store import FileStore


def sync_sessions(
    where: str = typer.Argument(
        "", metavar="DIR|HOST", help="A folder, or a machine that ssh reaches."
    ),
    json: bool = JSON,
    serve: bool = typer.Option(
        False, "--serve", hidden=True, help="Answer another machine's sync."
    ),
) -> None:
    """Sync sessions with a folder, a stick or another machine.

    What one side lacks is appended there. What both sides went on with stands beside it as a fork.
    """
    here, done = FileStore(places()), Counter[str]()
    if serve:
        before = {each.transcript: each.transcript.stat().st_size for each in places().sessions()}
        answer(here, sys.stdin.buffer, sys.stdout.buffer)
        for each in places().sessions():
            if before.get(each.transcript) != each.transcript.stat().st_size:
                brought_with(places(), str(each.key))
        return
    with _other(where) as there, Progress("sessions", quiet=json) as bar:
        for one in sync(here, there, bar.at):
            done[one.state] += 1
            if json:
                say_json(one)
            elif one.state != "same":
                bar.clear()
                say(f"{one.session}  {_told(one)}")
            for rule in brought_with(places(), one.session) if one.state == "brought" else ():
                became = "was retired in it" if rule.retired else "came with it"
                hint(f"Rule {rule.number} {became}: {rule.words}")
    if not json:
        counted = [f"{text.plural(done[state], 'session')} {state}" for state in sorted(done)]
        hint(", ".join(counted) + "." if counted else "There are no sessions yet, here or there.")
    if done["failed"]:
        raise typer.Exit(ExitCode.FAILED)


@contextlib.contextmanager
def _other(where: str) -> Iterator[SyncedStore]:
    """The folder or the machine of that name."""
    folder = Path(where).expanduser()
    if where and folder.is_dir():
        if folder.resolve() in (each.resolve() for each in places().own):
            raise UsageError(f"{folder} is where these sessions are.", "Name another folder.")
        home = paths.Places.resolve({"MINDSTONE_HOME": str(folder.resolve())})
        store = FileStore(home, foreign=True)
        store.name = str(folder)
        yield store
        return
    if "/" in where or not where or where.startswith("-"):
        raise UsageError(
            f"There is no folder {where}." if where else "Nothing was named to sync with.",
            "Name a folder that is there, or a machine that ssh reaches.",
        )
    command = [paths.helper("ssh") or "", "--", where, "mindstone", "sync", "--serve"]
    try:
        line = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    except OSError as error:
        raise UsageError(f"ssh cannot be started: {error.strerror}.", "Install it.") from error
    with line:
        assert line.stdin is not None
        assert line.stdout is not None
        assert line.stderr is not None
        beside = threading.Thread(target=_tell, args=(line.stderr,), daemon=True)
        beside.start()
        try:
            yield remote_store(where, line.stdin, line.stdout)
        finally:
            line.stdin.close()
            beside.join()


def _tell(said: IO[bytes]) -> None:
    """What ssh and the machine say beside the answers: text from outside, as any."""
    for line in iter(partial(said.readline, 4096), b""):
        hint(line.decode("utf-8", "replace").rstrip("\r\n"))


def _told(one: Synced) -> str:
    lines = text.plural(one.lines, "line")
    match one.state:
        case "forked":
            return f"grew on both sides: theirs is {one.here} here, yours {one.there} there"
        case "failed":
            return one.why
        case _:
            return f"{lines} {one.state} {'here' if one.state == 'brought' else 'there'}"
