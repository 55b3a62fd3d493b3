"""`mindstone import`: take over sessions that other programs recorded."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from mindstone_tui.cli.compare import SampleOption
from mindstone_tui.cli.options import JsonOption, SessionOption, places
from mindstone_tui.cli.output import Progress, complain, hint, say, say_json
from mindstone_tui.cli.recall import index_session
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.disk import ensure_folder
from mindstone_tui.core.errors import ExitCode, InterchangeError, NotASession, UsageError
from mindstone_tui.core.interchange.import_many import import_each, sources
from mindstone_tui.core.interchange.import_session import ImportReport, import_file
from mindstone_tui.core.interchange.samples import SAMPLE_SESSION, sample_file
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.recall.embedding import Embedder, open_embedder
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.redaction import Redactor, secrets_of
from mindstone_tui.core.session.import_window import plan_imported_window
from mindstone_tui.core.session.session import Lease
from mindstone_tui.core.text import one_line, plural
from mindstone_tui.core.transcript import Transcript

_SHOWN: Final = 20
_NAMED: Final = 5
_CHUNK: Final = 1 << 20


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
    importing = _Importing(places(), origin, json=json, wait=not no_wait)
    files = sources(path)
    key = SessionKey.parse(session) if session else None
    outcome = _take_all(importing, files, key, json=json)
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
        """Whether any file was what it should be."""
        return bool(self.sessions or self.empty)

    def count(self, report: ImportReport) -> None:
        """Take in one conversation."""
        self.added += report.added
        self.empty += not report.session
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
    importing: _Importing, files: list[Path], key: SessionKey | None, *, json: bool
) -> _Outcome:
    """Import every file; among many, one that cannot be taken must not keep the others out."""
    outcome = _Outcome()
    for number, file in enumerate(files, 1):
        label = f"file {number:,}/{len(files):,}" if len(files) > 1 else "records"
        try:
            for report in importing.take(file, key, label):
                outcome.count(report)
                if json:
                    say_json(report)
                elif report.session or len(files) == 1:
                    _print(report)
        except NotASession:
            if len(files) == 1:
                raise
            outcome.no_sessions.append(file)
        except InterchangeError as error:
            if len(files) == 1:
                raise
            outcome.refused += 1
            if outcome.refused <= _NAMED:
                complain(error.what, error.remedy)
    return outcome


class _Importing:
    """Takes files over, one session at a time: written, indexed and settled under its lease."""

    def __init__(self, home: Places, origin: str, *, json: bool, wait: bool) -> None:
        self._home = home
        self._origin = origin
        self._quiet = json
        self._wait = wait
        self._settings: Settings = load(home, os.environ).settings
        self._embedder: Embedder = open_embedder(self._settings.recall.embedder)
        self._redactor = Redactor(secrets_of(os.environ))
        self._lease: Lease | None = None

    def take(self, file: Path, key: SessionKey | None, label: str) -> Iterator[ImportReport]:
        """Import one file, into one session or one a conversation."""
        with Progress(label, _lines_in(file), quiet=self._quiet) as bar:
            reports = self._into(file, key, bar) if key else self._each(file, bar)
            try:
                for report in reports:
                    if report.session:
                        self._finish(self._home.session(SessionKey.parse(report.session)), report)
                    yield report
                    self._give_back()
            finally:
                self._give_back()

    def _each(self, file: Path, bar: Progress) -> Iterator[ImportReport]:
        return import_each(
            file,
            self._open,
            format=self._origin,
            clean=self._clean,
            progress=lambda read, added: bar.at(read),
        )

    def _into(self, file: Path, key: SessionKey, bar: Progress) -> Iterator[ImportReport]:
        with contextlib.closing(self._open(key)) as transcript:
            yield import_file(
                file,
                transcript,
                format=self._origin,
                clean=self._clean,
                progress=lambda read, added: bar.at(read),
            )

    def _open(self, key: SessionKey) -> Transcript:
        """The session to write to, with the right to do so; others wait, and so do we."""
        own = self._home.session(key)
        ensure_folder(own.folder)
        self._lease = Lease(own)
        busy = f"Waiting: another MindStone is using {key}."
        asyncio.run(self._lease.take(wait=True, on_wait=lambda: hint(busy)))
        return Transcript(own, clean=self._clean, channel="import")

    def _finish(self, own: SessionPlaces, report: ImportReport) -> None:
        """Make it findable, then say which part of it is in the window."""
        index = RecallIndex.open(own.index, self._embedder)
        try:
            index_session(own, index, wait=self._wait, quiet=self._quiet)
            if report.added:
                plan_imported_window(own, self._settings, index)
        finally:
            index.close()

    def _give_back(self) -> None:
        if self._lease is not None:
            self._lease.give_back()
            self._lease = None

    def _clean(self, text: str) -> str:
        return self._redactor.redact(text).text


def _lines_in(file: Path) -> int:
    """How many records to expect, for the bar; 0 where a file is one value."""
    if file.suffix != ".jsonl":
        return 0
    try:
        with file.open("rb") as stream:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(_CHUNK), b""))
    except OSError:
        return 0  # whoever reads it in earnest says why it cannot be read


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
    if report.left_out:
        names = ", ".join(f"{count:,} {what}" for what, count in report.left_out.items())
        hint(f"no part of the conversation: {names}")
