"""`mindstone import`: take over sessions that other programs recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from mindstone_tui.cli.options import JsonOption, SampleOption, SessionOption, places
from mindstone_tui.cli.output import ProgressBars, complain, hint, say, say_json
from mindstone_tui.core.config import load
from mindstone_tui.core.errors import ExitCode, InterchangeError, NotASession, UsageError
from mindstone_tui.core.interchange.import_many import sources
from mindstone_tui.core.interchange.import_session import ImportReport
from mindstone_tui.core.interchange.samples import SAMPLE_SESSION, sample_file
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.session.take_over import Importer
from mindstone_tui.core.session.vectors import follow
from mindstone_tui.core.text import one_line, plural

_SHOWN: Final = 20
_NAMED: Final = 5


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("import")(import_)


def import_(
    path: Annotated[
        Path | None, typer.Argument(help="Session file of another program, or a folder.")
    ] = None,
    session: SessionOption = "",
    origin: Annotated[
        str, typer.Option("--from", metavar="FORMAT", help="File format; auto detects it.")
    ] = "auto",
    sample: SampleOption = False,
    json: JsonOption = False,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait", help="Do not wait for the semantic index; it is built in the background."
        ),
    ] = False,
) -> None:
    """Import sessions from other agents, to search and replay.

    Each conversation becomes a session of its own, named after the program and its id; with
    --session everything goes into that one. A second import of the same file adds nothing twice.
    """
    if (path is None) != sample:
        raise UsageError("Give a file or a folder, or --sample.", "mindstone import --help")
    if sample:
        path, origin, session = sample_file(), "messages", session or SAMPLE_SESSION
    assert path is not None
    files = sources(path)
    key = SessionKey.parse(session) if session else None
    home = places()
    settings = load(home, os.environ).settings
    with ProgressBars(quiet=json) as bars:
        importer = Importer(
            home,
            settings,
            os.environ,
            origin=origin,
            wait=not no_wait,
            progress=bars,
            on_busy=lambda busy: hint(f"Waiting: another MindStone is using {busy}."),
        )
        try:
            outcome = _take_all(importer, files, key, json=json)
        finally:
            follows = follow(home, settings, os.environ, home.sessions())
    if follows:
        hint(
            "The semantic index is built in the background; until then, recall finds the rest"
            " by words only."
        )
    if len(files) > 1 and not json:
        outcome.say()
    if not outcome.sessions_or_empty:
        raise typer.Exit(ExitCode.FAILED)


class _Outcome:
    """What came of many files."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.added = 0
        self.empty = 0
        self.no_sessions: list[Path] = []
        self.refused = 0

    @property
    def sessions_or_empty(self) -> bool:
        """Whether any file was what it should be; one of damaged records alone was not."""
        return bool(self.sessions or self.empty)

    def count(self, report: ImportReport) -> None:
        """Take in one conversation."""
        self.added += report.added
        self.empty += not report.session and not report.skipped_total
        self.sessions |= {report.session} - {""}

    def say(self) -> None:
        """The sum, after the last file."""
        added = plural(self.added, "message")
        say(f"{plural(len(self.sessions), 'session')}, {added} added")
        if self.empty:
            hint(f"{plural(self.empty, 'conversation')} without a message left out")
        if self.no_sessions:
            names = ", ".join(one_line(each.name, 60) for each in self.no_sessions[:_NAMED])
            more = len(self.no_sessions) - _NAMED
            rest = f" and {more:,} more" if more > 0 else ""
            hint(f"{plural(len(self.no_sessions), 'file')} without a session: {names}{rest}")
        if self.refused:
            hint(f"{plural(self.refused, 'file')} not read, for the reasons above")


def _take_all(
    importer: Importer, files: list[Path], key: SessionKey | None, *, json: bool
) -> _Outcome:
    """Import every file; among many, one that cannot be taken must not keep the others out."""
    outcome = _Outcome()
    for number, file in enumerate(files, 1):
        label = f"file {number:,}/{len(files):,}" if len(files) > 1 else "records"
        try:
            for report in importer.take(file, key, label):
                outcome.count(report)
                if json:
                    say_json(report)
                elif report.session or len(files) == 1:
                    _print(report)
        except NotASession as error:
            if len(files) == 1:
                raise
            outcome.no_sessions.append(file)
            if json:
                _say_refused(file, error)
        except InterchangeError as error:
            if len(files) == 1:
                raise
            outcome.refused += 1
            if json:
                _say_refused(file, error)
            elif outcome.refused <= _NAMED:
                complain(error.what, error.remedy)
    return outcome


def _say_refused(file: Path, error: InterchangeError) -> None:
    refused = {"session": "", "format": "", "added": 0, "already_there": 0, "path": str(file)}
    say_json({**refused, "refused": error.what, "remedy": error.remedy})


def _print(report: ImportReport) -> None:
    if report.session:
        say(
            f"{report.session}: {report.added:,} messages added, {report.already_there:,} were "
            f"there already ({report.format})"
        )
    else:
        say(f"{report.path} ({report.format}) has no message, and no session was made of it.")
    for skipped in report.skipped[:_SHOWN]:
        hint(f"line {skipped.line} skipped: {skipped.why}")
    if report.skipped_total > _SHOWN:
        hint(f"and {report.skipped_total - _SHOWN:,} more")
    if report.redacted:
        lines = ", ".join(map(str, report.redacted_lines[:_NAMED]))
        more = "" if len(report.redacted_lines) <= _NAMED else ", …"
        hint(
            f"{plural(report.redacted, 'secret')} blacked out (lines {lines}{more}): "
            f"`mindstone log --session {report.session} --redacted` shows where"
        )
    if report.left_out:
        names = ", ".join(f"{count:,} {what}" for what, count in report.left_out.items())
        hint(f"no part of the conversation: {names}")
