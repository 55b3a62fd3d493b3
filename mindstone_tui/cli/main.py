"""The frame around every verb: what it was called with, and how it ends.

Here, and only here, an error becomes words: what happened, what to do, an exit code. A traceback
goes to the log file, never to the terminal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer

from mindstone_tui import __version__
from mindstone_tui.cli.output import PIPE_CLOSED, complain, finish_output, say_exactly
from mindstone_tui.core.diagnostics import record
from mindstone_tui.core.disk import place_error
from mindstone_tui.core.errors import ExitCode, MindstoneError, UsageError
from mindstone_tui.core.paths import Places

FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "chat": ("chat",),
    "run": ("run",),
    "history": ("sessions", "log", "verify"),
    "context": ("context",),
    "recall": ("recall", "reindex", "search"),
    "continuity": ("task", "checkpoint", "handoff", "memory", "health"),
    "replay": ("replay",),
    "compare": ("compare",),
    "import_": ("import",),
    "export": ("export",),
    "models": ("models",),
    "config": ("config",),
    "doctor": ("doctor",),
}
"""Module in this package → the verbs it registers, in the order that help shows them."""

OPENING: Final = "chat"
"""The verb that `mindstone` alone stands for, once a family offers it."""


def register(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Add the verbs that these arguments may need."""
    named = _family_of(arguments)
    for family in [named] if named else FAMILIES:
        import_module(f"mindstone_tui.cli.{family}").register(app)


def known() -> frozenset[str]:
    """Every verb there is."""
    return frozenset(verb for verbs in FAMILIES.values() for verb in verbs)


def _family_of(arguments: Sequence[str]) -> str | None:
    """The family of the verb that comes first, if that much is certain."""
    first = next(iter(arguments), "")
    return next((family for family, verbs in FAMILIES.items() if first in verbs), None)


HELP: Final = """A terminal agent whose memory can be trusted.

The transcript is history, the prompt is a working set. Without a command the app opens, as
`mindstone chat` does; its options need no command either: mindstone --model NAME --session KEY."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; no error gets past this."""
    try:
        build(arguments)(args=_with_opening(arguments), prog_name="mindstone")
    except SystemExit as ending:
        code = _code_of(ending)
    except MindstoneError as error:
        code = _report(error)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        code = PIPE_CLOSED
    except OSError as error:
        code = _report(place_error(Path(error.filename or "A file"), error), error)
    except Exception as error:  # the outermost frame: a bug must end in a sentence, too
        code = _report_bug(error)
    else:
        code = ExitCode.DONE
    return finish_output(int(code))


def build(arguments: Sequence[str]) -> typer.Typer:
    """The Typer app with the verbs that these arguments may need."""
    app = typer.Typer(
        name="mindstone",
        help=HELP,
        add_completion=True,
        no_args_is_help=OPENING not in known(),
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    register(app, arguments)
    return app


def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if version:
        say_exactly(f"mindstone {__version__}\n")
        raise typer.Exit


def _with_opening(arguments: Sequence[str]) -> list[str]:
    """The arguments with the opening verb put in front where none is named.

    `mindstone --session work` means `mindstone chat --session work`.
    """
    words = list(arguments)
    frame_words = {"-h", "--help", "-V", "--version", "--install-completion", "--show-completion"}
    leads_nowhere = not words or (words[0].startswith("-") and words[0] not in frame_words)
    if leads_nowhere and OPENING in known():
        return [OPENING, *words]
    return words


def _code_of(ending: SystemExit) -> int:
    if ending.code is None:
        return ExitCode.DONE
    return ending.code if isinstance(ending.code, int) else ExitCode.FAILED


def _report(error: MindstoneError, cause: BaseException | None = None) -> int:
    complain(error.what, error.remedy)
    if not isinstance(error, UsageError):
        _log(cause or error)
    return error.exit_code


def _report_bug(error: Exception) -> int:
    where = _log(error)
    what = f"Unexpected error: {type(error).__name__}: {error}"
    complain(what, f"Details are in {where}." if where else "No log file could be written.")
    return ExitCode.FAILED


def _log(error: BaseException) -> Path | None:
    """Keep the traceback; the file that holds it, or None where there can be none."""
    with contextlib.suppress(MindstoneError):
        log = Places.resolve(os.environ).log
        return log if record(error, log, _without_secrets) else None
    return None


def _without_secrets(text: str) -> str:
    from mindstone_tui.core.redaction import Redactor, secrets_of

    return Redactor(secrets_of(os.environ)).redact(text).text


_PR_SET_DUMPABLE: Final = 4


def hide_own_memory() -> bool:
    """Forbid it, for as long as this process lives; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    return int(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)) == 0
