"""`mindstone export`: a session as a page, a document, data or a recording."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from mindstone_tui.cli.options import SessionOption, places, session_to_read
from mindstone_tui.cli.output import hint, say_exactly
from mindstone_tui.core.disk import replace_file
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.interchange.export import EXPORTERS, export
from mindstone_tui.core.library.stats import session_numbers
from mindstone_tui.core.redaction import Redactor, secrets_of
from mindstone_tui.core.text import for_terminal
from mindstone_tui.core.transcript import History

_ALSO: Final = {"markdown": "md", "htm": "html"}
"""Other names that people try."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("export")(export_session)


def export_session(
    name: Annotated[
        str, typer.Argument(help="Session; the default one if omitted.", metavar="[SESSION]")
    ] = "",
    session: SessionOption = "",
    format_: Annotated[
        str,
        typer.Option("--format", "-f", metavar="FORMAT", help="html, md, json, messages or cast."),
    ] = "md",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output file; stdout if omitted."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Scan for secrets again and redact them.")
    ] = False,
) -> None:
    """Export a session as HTML, Markdown, JSON or a recording.

    The same session always gives the same bytes. A page also holds the session's numbers, as
    `mindstone stats` counts them for all sessions.
    """
    format_ = _ALSO.get(format_, format_)
    if format_ not in EXPORTERS:
        raise UsageError(f"Unknown format {format_}.", f"Use {', '.join(EXPORTERS)}.")
    redactor = Redactor(secrets_of(os.environ))
    clean = (lambda text: redactor.redact(text).text) if redact else None
    with History(places().session(session_to_read(session or name))) as history:
        pieces = export(history, format_, clean=clean, numbers=session_numbers)
        if output is None:
            for piece in pieces:
                say_exactly(for_terminal(piece) if sys.stdout.isatty() else piece)
            return
        replace_file(output.absolute(), "".join(pieces).encode())
    hint(f"Written to {output}.")
