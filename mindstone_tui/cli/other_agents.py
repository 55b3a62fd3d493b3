"""`mindstone attach`: hooks and tools in another program's own settings."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

import mindstone_tui
from mindstone_tui.cli.interchange import offer_history
from mindstone_tui.cli.options import JSON, given, places, switch
from mindstone_tui.cli.output import complain, flush_output, hint, prompt, say, say_json
from mindstone_tui.core.config import load
from mindstone_tui.core.config.load import store
from mindstone_tui.core.errors import InterchangeError, MindstoneError, UsageError
from mindstone_tui.core.interchange import attach as attachment
from mindstone_tui.core.interchange import attach_targets, discover
from mindstone_tui.core.interchange.launcher import (
    check_content,
    check_place,
    launcher_in,
    write_launcher,
)
from mindstone_tui.core.library import profile, raw_copy
from mindstone_tui.core.library import watch as folders
from mindstone_tui.core.library.resume_command import ResumeCommand, find_session, resume_command
from mindstone_tui.core.paths import Places, SessionKey, from_home
from mindstone_tui.core.redaction import Redactor, secrets_of
from mindstone_tui.core.text import plural


class _Plan(NamedTuple):
    """What is to change for one program."""

    target: attach_targets.AttachTarget
    project: Path | None
    changes: list[attachment.SettingsChange]


def attach(
    program: str = typer.Argument("", metavar="PROGRAM", help=", ".join(attach_targets.TARGETS)),
    every: bool = switch("--all", "Every program that is found here, with one question."),
    undo: bool = switch("--undo", "Remove what MindStone added."),
    project: bool = switch("--project", "Only for the folder you are in."),
    without_comments: bool = switch(
        "--without-comments",
        "Take comments out of settings that the program does not read with them.",
    ),
    keep_raw: bool = switch(
        "--keep-raw", "Keep the program's files as they are, too, to give them back."
    ),
    yes: bool = switch("--yes", "Write without asking.", "-y"),
    json: bool = JSON,
) -> None:
    """Record another agent's sessions, and give its prompts recall.

    Writes hooks and a tool server into the program's own settings, after showing what changes.
    Nothing else in them is touched, and --undo gives back what was there.
    """
    if bool(program) == every:
        raise UsageError("Name one program, or --all.", "For example: mindstone attach claude-code")
    home, folder = places(), Path.cwd() if project else None
    command = _command(home)
    if command.launcher and not undo:
        check_place(Path(command.launcher))
        check_content(Path(command.launcher))
    chosen = (
        _found(home, folder, undo=undo) if every else [(attach_targets.target_of(program), folder)]
    )
    plans, problems = _planned(
        home, chosen, None if undo else command, without_comments=without_comments
    )
    if problems and not every:
        raise problems[0]
    for name in attachment.without_rules(home) if not (undo or json) else ():
        hint(f"{name} was attached before rules could hold there: attaching it again adds that.")
    written = any(it.changes for it in plans) and _may_write(plans, undo=undo, yes=yes, json=json)
    for plan in plans:
        if undo:
            _take_out(home, plan, written=written)
        elif written or not plan.changes:
            _put_in(home, plan, command)
    if not undo and (keep_raw or (written and not (yes or json) and _wants_raw())):
        store(home, "attach.keep_raw", "true")
    _tell(plans, every=every, undo=undo, written=written, json=json)
    for problem in problems:
        complain(problem.what, problem.remedy)
    if problems:
        raise typer.Exit(1)


def _found(
    home: Places, folder: Path | None, *, undo: bool
) -> list[tuple[attach_targets.AttachTarget, Path | None]]:
    """The programs that `--all` means: those that are here, or whatever may have been attached."""
    if undo:
        return attachment.everything_attached(home)
    here = [
        each
        for each in attach_targets.TARGETS.values()
        if attach_targets.is_here(each, os.environ) and (folder is None or each.project)
    ]
    if not here:
        names = ", ".join(attach_targets.TARGETS)
        raise UsageError("No program was found that could be attached.", f"These could: {names}.")
    return [(each, folder) for each in here]


def _planned(
    home: Places,
    chosen: Sequence[tuple[attach_targets.AttachTarget, Path | None]],
    command: attach_targets.AttachCommand | None,
    *,
    without_comments: bool,
) -> tuple[list[_Plan], list[MindstoneError]]:
    """What would change for each, without a command to undo it; and what cannot be changed."""
    plans: list[_Plan] = []
    problems: list[MindstoneError] = []
    for target, where in chosen:
        try:
            if command is None:
                changes = attachment.plan_detach(home, target, os.environ, where)
            else:
                changes = attachment.plan_attach(
                    target, command, os.environ, where, without_comments=without_comments
                )
            plans.append(_Plan(target, where, [each for each in changes if each.changes]))
        except InterchangeError as error:
            problems.append(error)
    return plans, problems


def _put_in(home: Places, plan: _Plan, command: attach_targets.AttachCommand) -> None:
    if command.launcher:
        package = Path(mindstone_tui.__file__).absolute().parents[1]
        write_launcher(Path(command.launcher), command.words, sys.executable, package, home.data)
    if plan.changes:
        attachment.remember(home, plan.target, plan.changes, plan.project)
        folders.begin(home, os.environ)
        attachment.apply(home, plan.changes)


def _take_out(home: Places, plan: _Plan, *, written: bool) -> None:
    if written:
        attachment.apply(home, plan.changes)
    if written or not plan.changes:
        attachment.forget(home, plan.target, plan.project)
    if not attachment.is_attached(home):
        folders.end_watching(home)


def _tell(plans: Sequence[_Plan], *, every: bool, undo: bool, written: bool, json: bool) -> None:
    if json:
        told = [_told(plan, undo=undo, written=written and bool(plan.changes)) for plan in plans]
        say_json(told if every else told[0])
        return
    for plan in plans:
        target = plan.target
        if plan.changes and written:
            _say_written(plan, undo=undo)
            if not undo:
                offer_history(target.name, target.title)
        elif not plan.changes and not (every and undo):
            say(f"{target.title} is {'not attached' if undo else 'attached already'}.")
    if every and undo and not any(plan.changes for plan in plans):
        say("No program is attached.")


def _command(home: Places) -> attach_targets.AttachCommand:
    """How this installation is called from elsewhere, whatever folder that is."""
    script = Path(sys.executable).with_name("mindstone")
    # -P: no module that lies in the folder of a project is ever taken for one of ours.
    words = (str(script),) if script.exists() else (sys.executable, "-P", "-m", "mindstone_tui")
    named = os.environ.get("MINDSTONE_HOME", "")
    launcher = launcher_in(home)
    return attach_targets.AttachCommand(
        words,
        str(from_home(named).absolute()) if named else "",
        str(launcher) if launcher is not None else "",
    )


def _may_write(plans: Sequence[_Plan], *, undo: bool, yes: bool, json: bool) -> bool:
    """Show what would change, and ask; without a terminal only --yes is a yes."""
    wanted = [plan for plan in plans if plan.changes]
    if not json:
        for each in (change for plan in wanted for change in plan.changes):
            for line in each.diff(_clean()):
                say(line, {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], ""))
    if yes:
        return True
    if json:
        return False
    if not sys.stdin.isatty():
        raise UsageError(
            "Nothing was written: there is no terminal to ask on.", "Add --yes to write it."
        )
    titles = ", ".join(dict.fromkeys(plan.target.title for plan in wanted))
    prompt(f"{'Remove these lines from' if undo else 'Write this to'} {titles}? [y/N] ")
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    say("Nothing was written.")
    return False


def _wants_raw() -> bool:
    """Ask whether the other programs' files are kept as they are, and say what that means."""
    hint("A session file that is deleted can be given back if its raw bytes are kept as well.")
    hint("They hold what is blacked out here, secrets included, as the file does; they stay here.")
    prompt("Keep raw copies beside the sessions? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say_written(plan: _Plan, *, undo: bool) -> None:
    target = plan.target
    names = ", ".join(str(each.path) for each in plan.changes)
    say(f"{target.title} is {'detached' if undo else 'attached'}: {names}.")
    if undo:
        return
    if shutil.which(target.binary) is None:
        hint(f"`{target.binary}` is not on the PATH; its settings are ready for when it is.")
    if target.note:
        hint(target.note)
    here = " --project" if plan.project is not None else ""
    hint(f"`mindstone attach {target.name}{here} --undo` takes it back.")


def _told(plan: _Plan, *, undo: bool, written: bool) -> dict[str, object]:
    return {
        "program": plan.target.name,
        "undo": undo,
        "written": written,
        "on_path": shutil.which(plan.target.binary) is not None,
        "files": [{"path": str(each.path), "diff": each.diff(_clean())} for each in plan.changes],
        "note": plan.target.note,
    }


def _clean() -> Callable[[str], str]:
    redactor = Redactor(secrets_of(os.environ))
    return lambda text: redactor.redact(text).text


_TICK: Final = 0.25


def watch(
    once: Path | None = given(None, "FILE", "Import one file as it is now, then exit.", "--once"),
    json: bool = JSON,
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
        programs = discover.find_programs(os.environ)
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
    if (taken := following.take(file.absolute(), settled=True)) is not None:
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
    run: bool = switch("--run", "Run the command, in its folder."),
    give_back: bool = switch("--give-back", "First write its file where it was, if it is gone."),
    json: bool = JSON,
) -> None:
    """Resume a session in the program it comes from.

    That program's own command is printed for a shell, with the folder that it belongs to; nothing
    is started without --run.
    """
    found = find_session(name, profile.list_described(places(), profile.SessionFilter()))
    command = resume_command(found, shutil.which)
    if give_back:
        copy = raw_copy.RawCopy(places().session(SessionKey.parse(found.session)))
        hint(f"Its file is at {copy.give_back()}, byte for byte as it was kept.")
        if copy.source is not None and copy.source.full:
            hint("The end is missing: the copy had reached attach.raw_bytes.")
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
    if (program := shutil.which(command.command[0])) is None:
        raise UsageError(
            f"{command.command[0]} is not on the PATH.", f"Install it, then: {command.line}"
        )
    if command.folder:
        try:
            os.chdir(command.folder)
        except OSError as error:
            raise UsageError(
                f"{command.folder} cannot be entered: {error.strerror}.",
                f"Start it where the project is now: {shlex.join(command.command)}",
            ) from error
    flush_output()
    os.execv(program, list(command.command))
