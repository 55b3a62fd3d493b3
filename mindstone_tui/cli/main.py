"""The frame around every verb: what it was called with, and how it ends.

Here, and only here, an error becomes words: what happened, what to do, an exit code. A traceback
goes to the log file, never to the terminal.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import typer
import typer.core
from click import HelpFormatter

from mindstone_tui import __version__
from mindstone_tui.cli.output import PIPE_CLOSED, complain, finish_output, say_exactly
from mindstone_tui.core.errors import ExitCode, MindstoneError, UsageError

_ROWS: Final = Path(__file__).with_name("verbs.txt").read_text("utf-8").splitlines()
VERBS: Final = {verb: (at, line) for verb, at, line in (row.split(maxsplit=2) for row in _ROWS)}
"""Verb → where it stands beside this module, and its line in the list of commands (`verbs.txt`).

The line is repeated there so that the list is printed without loading a single verb; it is the
first sentence of the verb's own help.
"""

FAMILIES: Final = {
    "Every day": "chat run sessions search recall log memory rules waiting doctor",
    "History": "import export verify files blame replay compare stats cost history sync reindex",
    "Work": "task checkpoint handoff context health fix how about",
    "Other agents": "attach watch resume mcp acp serve",
    "Care": "models config tools plugins",
}
"""The verbs as `mindstone --help` lists them, those of every day first."""

OPENING: Final = "chat"
"""The verb that `mindstone` alone stands for."""


def register(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Add the verbs that these arguments may need: the one they name, else a list of all."""
    if (first := next(iter(_completed() or arguments), "")) in VERBS:
        _load(first, app)
    else:
        for verb, (_, line) in VERBS.items():
            app.command(verb, help=line)(_never_called)


def _without_a_folder(error: OSError) -> MindstoneError | None:
    """The error for a deleted working folder, which the system does not name; else None."""
    if error.filename is None and isinstance(error, FileNotFoundError):
        try:
            Path.cwd()
        except FileNotFoundError:
            return UsageError("The folder you are in was deleted.", "Change to another: cd")
    return None


def _completed() -> list[str]:
    """What was typed so far in a shell that completes, which is in no argument."""
    if "_MINDSTONE_COMPLETE" not in os.environ:
        return []
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    return typed.split()[1:] or [""]


def _load(verb: str, app: typer.Typer) -> None:
    module, _, name = VERBS[verb][0].partition(":")
    found = getattr(import_module(f"mindstone_tui.cli.{module}"), name)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=verb)
    else:
        app.command(verb)(found)


def _never_called() -> None:
    """Stands for a verb in the list of commands."""


HELP: Final = """A terminal agent whose memory can be trusted.

The transcript is history, the prompt is a working set. Without a command the app opens, as
`mindstone chat` does; its options need no command either: mindstone --model NAME --session KEY."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; no error gets past this."""
    try:
        words = _with_opening(_without_colour(arguments))
        build(words)(args=words, prog_name="mindstone")
    except SystemExit as ending:
        code = _code_of(ending)
    except MindstoneError as error:
        code = _report(error)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        code = PIPE_CLOSED
    except OSError as error:
        from mindstone_tui.core.disk import place_error  # 1 ms

        place = place_error(Path(error.filename or "A file"), error)
        code = _report(_without_a_folder(error) or place, error)
    except Exception as error:  # the outermost frame: a bug must end in a sentence, too
        code = _report_bug(error)
    else:
        code = ExitCode.DONE
    return finish_output(int(code))


class _InFamilies(typer.core.TyperGroup):
    """Lists its verbs by what they are for."""

    def format_commands(self, ctx: typer.Context, formatter: HelpFormatter) -> None:  # type: ignore[override]
        for family, verbs in FAMILIES.items():
            with formatter.section(family):
                formatter.write_dl([(verb, VERBS[verb][1]) for verb in verbs.split()])


def build(arguments: Sequence[str]) -> typer.Typer:
    """The Typer app with the verbs that these arguments may need."""
    app = typer.Typer(
        name="mindstone",
        cls=_InFamilies,
        help=HELP,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    register(app, arguments)
    return app


def _root(
    version: bool = typer.Option(
        False, "--version", "-V", is_eager=True, help="Print the version and exit."
    ),
    no_color: bool = typer.Option(
        False, "--no-color", help="Print without colour, as NO_COLOR=1 does."
    ),
) -> None:
    # `run` has taken --no-color out, wherever it stood.
    if version:
        say_exactly(f"mindstone {__version__} ({Path(__file__).parents[1]})\n")
        raise typer.Exit


def _with_opening(arguments: Sequence[str]) -> list[str]:
    """The arguments with the opening verb put in front where none is named.

    `mindstone --session work` means `mindstone chat --session work`.
    """
    words = list(arguments)
    frame_words = {"-h", "--help", "-V", "--version", "--install-completion", "--show-completion"}
    leads_nowhere = not words or (words[0].startswith("-") and words[0] not in frame_words)
    return [OPENING, *words] if leads_nowhere else words


def _without_colour(arguments: Sequence[str]) -> list[str]:
    """The arguments without `--no-color`, which may stand anywhere before a `--`, once it holds."""
    words = list(arguments)
    options = words[: words.index("--")] if "--" in words else words
    if "--no-color" in options:
        os.environ["NO_COLOR"] = "1"
        words.remove("--no-color")
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
    # Deferred: only what goes wrong needs these.
    from mindstone_tui.core.diagnostics import record
    from mindstone_tui.core.paths import Places

    with contextlib.suppress(MindstoneError):
        log = Places.resolve(os.environ).log
        return log if record(error, log) else None
    return None


_PR_SET_DUMPABLE: Final = 4


def hide_own_memory() -> bool:
    """Keep other programs from reading this process's memory; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    return int(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)) == 0
