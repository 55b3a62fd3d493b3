"""`mindstone attach`: hooks and tools in another program's own settings."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

import mindstone_tui
from mindstone_tui.cli.interchange import offer_history
from mindstone_tui.cli.options import JsonOption, places
from mindstone_tui.cli.output import flush_output, hint, prompt, say, say_json
from mindstone_tui.core.config import load
from mindstone_tui.core.errors import InterchangeError, UsageError
from mindstone_tui.core.interchange import attach as attachment
from mindstone_tui.core.interchange.discover import find_programs
from mindstone_tui.core.interchange.launcher import check_content, check_place
from mindstone_tui.core.library import watch as folders
from mindstone_tui.core.library.profile import SessionFilter, list_described
from mindstone_tui.core.library.resume_command import ResumeCommand, find_session, resume_command
from mindstone_tui.core.paths import Places, from_home
from mindstone_tui.core.redaction import Redactor, secrets_of
from mindstone_tui.core.text import plural


def attach(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help=", ".join(attachment.TARGETS))],
    undo: Annotated[bool, typer.Option("--undo", help="Remove what MindStone added.")] = False,
    project: Annotated[
        bool, typer.Option("--project", help="Only for the folder you are in.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
    json: JsonOption = False,
) -> None:
    """Record another agent's sessions, and give its prompts recall.

    Writes hooks and a tool server into the program's own settings, after showing what changes.
    Nothing else in them is touched, and --undo gives back what was there.
    """
    target = attachment.target_of(program)
    home = places()
    folder = Path.cwd() if project else None
    command = _command(home)
    if command.launcher and not undo:
        check_place(Path(command.launcher))
        check_content(Path(command.launcher))
    if undo:
        changes = attachment.plan_detach(home, target, os.environ, folder)
    else:
        changes = attachment.plan_attach(target, command, os.environ, folder)
    wanted = [each for each in changes if each.changes]
    written = bool(wanted) and _may_write(target, wanted, undo=undo, yes=yes, json=json)
    if not undo and (written or not wanted):
        _write_launcher(command)
    if written and not undo:
        attachment.remember(home, target, wanted, folder)
        folders.begin(home, os.environ)
    if written:
        attachment.apply(wanted)
    if undo and (written or not wanted):
        attachment.forget(home, target, folder)
        if not attachment.is_attached(home):
            folders.end_watching(home)
    if json:
        say_json(_told(target, wanted, undo=undo, written=written))
    elif not wanted:
        say(_nothing_to_do(target, undo=undo))
    elif written:
        _say_written(target, wanted, undo=undo, project=project)
        if not undo:
            offer_history(target.name, target.title)


def _command(home: Places) -> attachment.AttachCommand:
    """How this installation is called from elsewhere, whatever folder that is."""
    script = Path(sys.executable).with_name("mindstone")
    # -P: no module that lies in the folder of a project is ever taken for one of ours.
    words = (str(script),) if script.exists() else (sys.executable, "-P", "-m", "mindstone_tui")
    named = os.environ.get("MINDSTONE_HOME", "")
    launcher = attachment.launcher_in(home, sys.executable)
    return attachment.AttachCommand(
        words,
        str(from_home(named).absolute()) if named else "",
        str(launcher) if launcher is not None else "",
    )


def _write_launcher(command: attachment.AttachCommand) -> None:
    if command.launcher:
        package = Path(mindstone_tui.__file__).absolute().parents[1]
        attachment.write_launcher(Path(command.launcher), command, sys.executable, package)


def _may_write(
    target: attachment.AttachTarget,
    wanted: Sequence[attachment.SettingsChange],
    *,
    undo: bool,
    yes: bool,
    json: bool,
) -> bool:
    """Show what would change, and ask; without a terminal only --yes is a yes."""
    if not json:
        clean = Redactor(secrets_of(os.environ)).redact
        for each in wanted:
            for line in each.diff(lambda text: clean(text).text):
                style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
                say(line, style)
    if yes:
        return True
    if json:
        return False
    if not sys.stdin.isatty():
        raise UsageError(
            "Nothing was written: there is no terminal to ask on.", "Add --yes to write it."
        )
    prompt(f"{'Remove these lines from' if undo else 'Write this to'} {target.title}? [y/N] ")
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    say("Nothing was written.")
    return False


def _say_written(
    target: attachment.AttachTarget,
    wanted: Sequence[attachment.SettingsChange],
    *,
    undo: bool,
    project: bool,
) -> None:
    names = ", ".join(str(each.path) for each in wanted)
    if undo:
        say(f"{target.title} is detached: {names}.")
        return
    say(f"{target.title} is attached: {names}.")
    if shutil.which(target.binary) is None:
        hint(f"`{target.binary}` is not on the PATH; its settings are ready for when it is.")
    if target.note:
        hint(target.note)
    here = " --project" if project else ""
    hint(f"`mindstone attach {target.name}{here} --undo` takes it back.")


def _nothing_to_do(target: attachment.AttachTarget, *, undo: bool) -> str:
    return f"{target.title} is not attached." if undo else f"{target.title} is attached already."


def _told(
    target: attachment.AttachTarget,
    wanted: Sequence[attachment.SettingsChange],
    *,
    undo: bool,
    written: bool,
) -> dict[str, object]:
    clean = Redactor(secrets_of(os.environ)).redact
    return {
        "program": target.name,
        "undo": undo,
        "written": written,
        "on_path": shutil.which(target.binary) is not None,
        "files": [
            {"path": str(each.path), "diff": each.diff(lambda text: clean(text).text)}
            for each in wanted
        ],
        "note": target.note,
    }


_TICK: Final = 0.25


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
        _once(folders.FolderWatch(home, settings, os.environ), once, json=json)
        return
    with folders.only_watch(home) as free:
        if not free:
            say("Another MindStone is already watching these folders.")
            return
        folders.begin(home, os.environ)
        programs = find_programs(os.environ)
        if not json:
            for each in programs:
                hint(f"{each.program}: {each.folder} ({plural(len(each.files), 'file')})")
            if not programs:
                hint("No sessions of other programs found yet; new ones will be picked up.")
        following = folders.FolderWatch(home, settings, os.environ)
        try:
            while True:
                for taken in following.step():
                    _say(taken, json=json)
                time.sleep(_TICK)
        finally:
            following.keep()


def _once(following: folders.FolderWatch, file: Path, *, json: bool) -> None:
    if not file.exists():
        raise InterchangeError(f"There is no file {file}.", "Check the path.")
    taken = following.take(file.absolute(), settled=True)
    if taken is not None:
        _say(taken, json=json)


def _say(taken: folders.TakenMessages, *, json: bool) -> None:
    if json:
        say_json({"session": taken.session, "added": taken.added, "path": str(taken.file)})
    else:
        say(f"{taken.session}: {plural(taken.added, 'message')}")


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
