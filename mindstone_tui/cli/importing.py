"""`mindstone import`: take over sessions that other programs recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from mindstone_tui.cli.options import JsonOption, SessionOption, places, session_key
from mindstone_tui.cli.output import hint, say, say_json
from mindstone_tui.cli.progress import Progress
from mindstone_tui.cli.recalling import index_session
from mindstone_tui.core.config import load
from mindstone_tui.core.interchange.importing import ImportReport, import_file
from mindstone_tui.core.recall.embedding import open_embedder
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.redaction import Redactor, secrets_of
from mindstone_tui.core.session.settling import settle
from mindstone_tui.core.transcript import Transcript


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("import")(import_)


def import_(
    file: Annotated[Path, typer.Argument(help="What another program recorded.")],
    session: SessionOption = "",
    origin: Annotated[
        str, typer.Option("--from", metavar="FORMAT", help="Its format; auto looks at the content.")
    ] = "auto",
    json: JsonOption = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Leave the vectors to the background.")
    ] = False,
) -> None:
    """Take over a recorded conversation: searchable, inspectable, replayable like our own.

    A second import of the same file adds nothing twice.
    """
    home = places()
    own = home.session(session_key(session))
    redactor = Redactor(secrets_of(os.environ))

    def clean(text: str) -> str:
        return redactor.redact(text).text

    transcript = Transcript(own, clean=clean, channel="import")
    try:
        with Progress("messages", 0, quiet=json) as bar:
            report = import_file(
                file,
                transcript,
                format=origin,
                clean=clean,
                progress=lambda read, added: bar.at(read),
            )
    finally:
        transcript.close()
    settings = load(home, os.environ).settings
    index = RecallIndex.open(own.index, open_embedder(settings.recall.embedder))
    try:
        index_session(own, index, wait=not no_wait, quiet=json)
        if report.added:
            settle(own, settings, index)
    finally:
        index.close()
    if json:
        say_json(report)
    else:
        _print(report)


def _print(report: ImportReport) -> None:
    say(
        f"{report.session}: {report.added:,} messages added, {report.already_there:,} were there "
        f"already ({report.format})"
    )
    for skipped in report.skipped[:20]:
        hint(f"line {skipped.line} skipped: {skipped.why}")
    if report.skipped_total > 20:
        hint(f"and {report.skipped_total - 20:,} more")
