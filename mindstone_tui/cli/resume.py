"""`mindstone resume`: go on with a session in the program that it comes from."""

from __future__ import annotations

import os
import shutil
from typing import Annotated

import typer

from mindstone_tui.cli.options import JsonOption, places
from mindstone_tui.cli.output import flush_output, hint, say, say_json
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library.filters import SessionFilter
from mindstone_tui.core.library.profile import list_described
from mindstone_tui.core.library.resume_command import ResumeCommand, find_session, resume_command


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("resume")(resume)


def resume(
    name: Annotated[
        str,
        typer.Argument(
            help="Session, part of its name, or its id in that program.", metavar="SESSION"
        ),
    ],
    run: Annotated[bool, typer.Option("--run", help="Run the command, in its folder.")] = False,
    json: JsonOption = False,
) -> None:
    """Resume a session in the program it comes from.

    That program's own command is printed for a shell, with the folder that it belongs to; nothing
    is started without --run.
    """
    found = find_session(name, list_described(places(), SessionFilter()))
    command = resume_command(found, shutil.which)
    if json:
        say_json(command)
        return
    if run:
        _run(command)
    say(command.line)
    if not command.installed:
        hint(f"{command.command[0]} is not on the PATH of this shell.")
    if command.folder and not command.folder_exists:
        hint(f"There is no folder {command.folder} on this machine.")


def _run(command: ResumeCommand) -> None:
    """Become the other program."""
    program = shutil.which(command.command[0])
    if program is None:
        raise UsageError(
            f"{command.command[0]} is not on the PATH.", f"Install it, then: {command.line}"
        )
    if command.folder:
        try:
            os.chdir(command.folder)
        except OSError as error:
            raise UsageError(
                f"{command.folder} cannot be entered: {error.strerror}.",
                f"Start it where the project is now: {' '.join(command.command)}",
            ) from error
    flush_output()
    os.execv(program, list(command.command))
