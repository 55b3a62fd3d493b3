"""`mindstone import`: take over sessions that other programs recorded."""

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from mindstone_tui.cli import options
from mindstone_tui.cli.options import given, switch
from mindstone_tui.cli.output import (
    IN_THE_BACKGROUND,
    Progress,
    complain,
    flush_output,
    hint,
    prompt,
    say,
    say_json,
    say_piece,
    table,
)
from mindstone_tui.core import disk, errors, numbers, paths, redaction, transcript
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.interchange import discover, import_session, samples
from mindstone_tui.core.interchange.export import EXPORTERS, export
from mindstone_tui.core.library import find, stats, vectors
from mindstone_tui.core.library.elsewhere import (
    Elsewhere,
    ImportedFiles,
    elsewhere,
    seconds_by_words,
)
from mindstone_tui.core.library.take_over import Importer
from mindstone_tui.core.session.draft import not_in_history
from mindstone_tui.core.text import one_line, plural
from mindstone_tui.core.transcript.encode import timestamp

_SHOWN: Final = 20
_NAMED: Final = 5
_RECORDS: Final = "records"


def import_(
    path: Path | None = typer.Argument(None, help="Session file of another program, or a folder."),
    session: str = options.SESSION,
    origin: str = given("auto", "FORMAT", "File format; auto detects it.", "--from"),
    project: Path | None = given(
        None, "FOLDER", "The project it belongs to, whatever folder the file names."
    ),
    sample: bool = options.SAMPLE,
    json: bool = options.JSON,
    yes: bool = switch("--yes", "Without a path: import what is found without asking.", "-y"),
    no_wait: bool = switch(
        "--no-wait", "Do not wait for the semantic index; it is built in the background."
    ),
) -> None:
    """Import sessions from other agents, to search and replay.

    Each conversation becomes a session of its own, named after the program and its id; with
    --session everything goes into that one. A second import of the same file adds nothing twice.

    Without a path, it lists what other programs have on this machine and asks. Files that
    have not changed since the last import are skipped.
    """
    if path is not None and sample:
        raise errors.UsageError("Give a file or a folder, or --sample.", "mindstone import --help")
    if path is None and not sample:
        if session or project or origin != "auto":
            raise errors.UsageError(
                "--session, --project and --from need a path.", "mindstone import FILE-OR-FOLDER"
            )
        _import_found(json=json, yes=yes, wait=not no_wait)
        return
    if sample:
        path, origin, session = samples.sample_file(), "messages", session or samples.SAMPLE_SESSION
    assert path is not None
    files = import_session.sources(path)
    key = paths.SessionKey.parse(session) if session else None
    with (
        Progress(quiet=json) as bars,
        _importing(origin, not no_wait, bars, bars, _existing(project)) as importer,
    ):
        outcome = _take_all(importer, files, key, json=json)
    if len(files) > 1 and not json:
        outcome.say()
    if not (outcome.sessions or outcome.empty):  # damaged records alone are no session
        raise typer.Exit(errors.ExitCode.FAILED)


def _existing(project: Path | None) -> str:
    """The folder that a person says a conversation belongs to."""
    if project is None:
        return ""
    if not project.is_dir():
        raise errors.UsageError(
            f"{project} is not a folder.", "Name the project's folder on this machine."
        )
    return str(project.resolve())


@contextlib.contextmanager
def _importing(
    origin: str, wait: bool, progress: find.Progress, bars: Progress, project: str = ""
) -> Iterator[Importer]:
    """An importer; afterwards what it wrote is made findable by meaning."""
    home = options.places()
    settings = load(home, os.environ).settings
    importer = Importer(
        home,
        settings,
        os.environ,
        origin=origin,
        project=project,
        progress=progress,
        on_busy=lambda busy: hint(f"Waiting: another MindStone is using {busy}."),
    )
    try:
        yield importer
        if wait:
            _make_vectors(importer.taken, settings, bars)
    except KeyboardInterrupt:
        hint("Stopped. What was taken over is kept; the same command goes on from there.")
        raise
    finally:
        follows = vectors.follow(home, settings, os.environ, home.sessions())
    if follows:
        hint(IN_THE_BACKGROUND)


def _make_vectors(sessions: list[paths.SessionPlaces], settings: Settings, bars: Progress) -> None:
    """Make what was imported findable by meaning; whoever is in a hurry leaves it to the worker."""
    if sessions and settings.recall.background:
        bars.remark("Making the semantic index; Ctrl+C leaves the rest to the background.")
    try:
        for each in sessions:
            find.index_session(each, settings, bars, wait=True)
    except KeyboardInterrupt:
        if not settings.recall.background:
            hint("Stopped; `mindstone reindex` makes the rest of the semantic index.")


def _import_found(*, json: bool, yes: bool, wait: bool) -> None:
    """List what other programs keep on this machine, ask, and take it over."""
    offers = elsewhere(options.places(), os.environ, Path.cwd())
    if json and not yes:
        say_json({"programs": [_as_json(offer) for offer in offers]})
        return
    if not offers:
        raise errors.InterchangeError(
            "No sessions of other programs were found on this machine.",
            "If you have some elsewhere: mindstone import FILE-OR-FOLDER",
        )
    if not json:
        table(
            ("PROGRAM", "FILES", "NEW", "SIZE", "NEWEST", "FOLDER"),
            [_row(offer) for offer in offers],
            right=(1, 2, 3),
        )
    chosen = [offer for offer in offers if offer.new and offer.is_read]
    if not chosen:
        hint("All of it was imported before.")
        return
    if not yes and not (chosen := _asked(chosen)):
        return
    _take_found(chosen, json=json, wait=wait)


def offer_history(program: str, title: str) -> None:
    """Offer to take in what a program that was just attached keeps already."""
    found = elsewhere(options.places(), os.environ, Path.cwd())
    offers = [offer for offer in found if offer.found.program == program and offer.new]
    if not (count := sum(len(offer.new) for offer in offers)):
        return
    size = sum(offer.size for offer in offers)
    hint(
        f"{plural(count, 'session file')} of {title} {'lies' if count == 1 else 'lie'} here "
        f"already, {numbers.size(size)}: about {numbers.seconds(seconds_by_words(size))} by words, "
        "vectors follow behind."
    )
    if days := offers[0].days:
        close = sum(offer.going for offer in offers)
        going = f"; within {discover.SOON} days that meets {close:,} of these" if close else ""
        hint(f"{title} deletes its own sessions after {days} days{going}.")
    if not sys.stdin.isatty():
        hint("`mindstone import` takes them in.")
        return
    prompt("Take them in now? [y/N] ")
    if sys.stdin.readline().strip().casefold() in ("y", "yes"):
        _take_found(offers, json=False, wait=False)
    else:
        hint("`mindstone import` takes them in later.")


def _row(offer: Elsewhere) -> tuple[str, ...]:
    """A line of the table."""
    newest = datetime.fromtimestamp(offer.found.newest).strftime("%Y-%m-%d %H:%M")
    new = f"{len(offer.new):,}" if offer.is_read else "not read"
    files, size = f"{len(offer.found.files):,}", numbers.size(offer.found.size)
    return offer.found.program, files, new, size, newest, str(offer.found.folder)


def _as_json(offer: Elsewhere) -> dict[str, object]:
    """The same for programs."""
    return {
        "program": offer.found.program,
        "folder": str(offer.found.folder),
        "files": len(offer.found.files),
        "new": len(offer.new),
        "size": offer.found.size,
        "newest": timestamp(datetime.fromtimestamp(offer.found.newest, UTC)),
        "read": offer.is_read,
    }


def _asked(offers: list[Elsewhere]) -> list[Elsewhere]:
    """Which of these the person wants."""
    if not sys.stdin.isatty():
        hint("Nothing was imported. `mindstone import --yes` takes over all that is new.")
        return []
    prompt("Import all that is new? [y/N, or names of programs] ")
    if (answer := sys.stdin.readline().replace(",", " ").casefold().split()) in (["y"], ["yes"]):
        return offers
    return [offer for offer in offers if offer.found.program in answer]


def _take_found(offers: list[Elsewhere], *, json: bool, wait: bool) -> None:
    """Take over what is new; each file that is done is written down."""
    done = ImportedFiles(options.places())
    files = [file for offer in offers for file in offer.new]
    outcome = _Outcome()
    total, passed = max(sum(file.size for file in files), 1), 0

    def progress(part: str, _done: int, _total: int) -> None:
        """One bar over all files, in bytes."""
        if part == _RECORDS:
            bars(plural(len(files), "file"), passed, total)

    with (
        Progress(quiet=json) as bars,
        _importing("auto", wait, progress, bars) as importer,
        importer.side_by_side([file.path for file in files]),
    ):
        for file in files:
            if _took_one(importer, file.path, None, outcome, json=json, quiet=True):
                done.add(file)
            passed += file.size
            progress(_RECORDS, 0, 0)
    if not json:
        outcome.say()


class _Outcome:
    """What came of many files."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.added = 0
        self.empty = 0
        self.no_sessions: list[Path] = []
        self.refused = 0

    def count(self, report: import_session.ImportReport) -> None:
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
    importer: Importer, files: list[Path], key: paths.SessionKey | None, *, json: bool
) -> _Outcome:
    """Import every file; among many, one that cannot be taken must not keep the others out."""
    outcome = _Outcome()
    with importer.side_by_side(() if key else files):
        for number, file in enumerate(files, 1):
            label = f"file {number:,}/{len(files):,}" if len(files) > 1 else _RECORDS
            _took_one(importer, file, key, outcome, json=json, label=label, alone=len(files) == 1)
    return outcome


def _took_one(
    importer: Importer,
    file: Path,
    key: paths.SessionKey | None,
    outcome: _Outcome,
    *,
    json: bool,
    label: str = _RECORDS,
    alone: bool = False,
    quiet: bool = False,
) -> bool:
    """Import one file and say what came of it; whether it could be read."""
    try:
        for report in importer.take(file, key, label):
            outcome.count(report)
            if json:
                say_json(report)
            elif (report.session or alone) and not quiet:
                _print(report)
    except errors.NotASession as error:
        if alone:
            raise
        outcome.no_sessions.append(file)
        if json:
            _say_refused(file, error)
    except errors.InterchangeError as error:
        if alone:
            raise
        outcome.refused += 1
        if json:
            _say_refused(file, error)
        elif outcome.refused <= _NAMED:
            complain(error.what, error.remedy)
        return False
    return True


def _say_refused(file: Path, error: errors.InterchangeError) -> None:
    refused = {"session": "", "format": "", "added": 0, "already_there": 0, "path": str(file)}
    say_json({**refused, "refused": error.what, "remedy": error.remedy})


def _print(report: import_session.ImportReport) -> None:
    if report.session:
        say(
            f"{report.session}: {plural(report.added, 'message')} added, "
            f"{report.already_there:,} known already ({report.format})"
        )
    else:
        say(f"{report.path} ({report.format}) has no message, and no session was made of it.")
    flush_output()  # the next file may take long
    about = report.described
    if about is not None and about.folder and not about.believed and paths.is_folder(about.folder):
        folder = one_line(about.folder, 200)
        hint(
            f"It counts for no project: only the file says that it is from {folder}. "
            f"If it is: mindstone import {shlex.quote(report.path)} --project {folder}"
        )
    for skipped in report.skipped[:_SHOWN]:
        hint(f"line {skipped.line} skipped: {skipped.why}")
    if report.skipped_total > _SHOWN:
        hint(f"and {report.skipped_total - _SHOWN:,} more")
    if report.redacted:
        named = len(report.redacted_lines)
        lines = ", ".join(map(str, report.redacted_lines[:_NAMED]))
        more = "" if named <= _NAMED else ", …"
        hint(
            f"{plural(report.redacted, 'secret')} blacked out "
            f"({'line' if named == 1 else 'lines'} {lines}{more}): "
            f"`mindstone log --session {report.session} --redacted` shows where"
        )
    if report.left_out:
        names = ", ".join(f"{count:,} × {what}" for what, count in report.left_out.items())
        hint(f"no part of the conversation: {names}")


_ALSO: Final = {"markdown": "md", "htm": "html"}
"""Other names that people try."""


def export_session(
    name: str = typer.Argument(
        "", help="Session; the default one if omitted.", metavar="[SESSION]"
    ),
    session: str = options.SESSION,
    format_: str = given("md", "FORMAT", "html, md, json, messages or cast.", "--format", "-f"),
    output: Path | None = given(None, "FILE", "Output file; stdout if omitted.", "--output", "-o"),
    redact: bool = switch("--redact", "Scan for secrets again and redact them."),
    turns: str = given("", "A-B", "Only these turns; 7 for one.", "--turns"),
) -> None:
    """Export a session as HTML, Markdown, JSON or a recording.

    The same session always gives the same bytes. A page begins with what was asked, decided and
    corrected and which commits and files came of it, and holds the session's numbers; it is
    scanned for secrets again in any case.
    """
    format_ = _ALSO.get(format_, format_)
    if format_ not in EXPORTERS:
        raise errors.UsageError(f"Unknown format {format_}.", f"Use {', '.join(EXPORTERS)}.")
    redactor = redaction.Redactor(redaction.secrets_of(os.environ))
    # A page is made to be shown to others.
    clean = (lambda text: redactor.redact(text).text) if redact or format_ == "html" else None
    with transcript.History(
        options.places().session(options.session_to_read(session or name))
    ) as history:
        wanted = _turns(turns, history) if turns else None
        if arriving := not_in_history(history):
            hint(arriving)
        pieces = export(history, format_, clean=clean, numbers=stats.session_numbers, turns=wanted)
        if output is None:
            for piece in pieces:
                say_piece(piece, exact=True)
            return
        disk.replace_file(output.absolute(), "".join(pieces).encode())
    hint(f"Written to {output}.")


def _turns(named: str, history: transcript.History) -> range:
    """Which turns are meant; raises where the session has none of them."""
    first, dash, last = named.partition("-")
    started = history.newest(("turn_started", "user_message"), history.head.seq + 1)
    newest = next((line.turn for line in started), 0)
    if not (first.strip().isdecimal() and (not dash or last.strip().isdecimal())):
        raise errors.UsageError(
            f"{one_line(named, 40)} names no turns.", "For example: --turns 3-9"
        )
    wanted = range(int(first), int(last if dash else first) + 1)
    if not wanted:
        raise errors.UsageError(f"{named} runs backwards.", f"Write --turns {last}-{first}.")
    if not set(wanted[:1]) & set(range(1, newest + 1)):
        known = f"There are 1 to {newest}." if newest else "It has none yet."
        raise errors.UsageError(f"The session has no turn {one_line(first, 20)}.", known)
    if wanted[-1] > newest:
        hint(f"The session ends with turn {newest}.")
    return wanted
