"""`mindstone context`: the window in numbers, now or at any turn of the past."""

import os
from typing import Final

import typer

from mindstone_tui.cli import options, output
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events.report_text import context_detail, context_list
from mindstone_tui.core.library import read_only, vectors


def context(
    what: str = typer.Argument(
        "list", metavar="[list|detail]", help="What to show: list or detail."
    ),
    session: str = options.SESSION,
    json: bool = options.JSON,
    turn: int | None = options.given(None, "N", "As of this turn.", min=1),
    call: int | None = options.given(None, "N", "A model call of that turn.", min=1),
    model: str = options.MODEL,
    context_window: int = options.WINDOW,
    profile: str = options.PROFILE,
) -> None:
    """Show what the model sees next, and what has left its window.

    Read-only: for the model that answered last, in the window it had, unless you name another;
    plan, rules, memory and files stand as the last turn recorded them.
    """
    if what not in ("list", "detail"):
        raise UsageError(f"Unknown view {what}.", "Use list or detail.")
    report = read_only.look_at(
        read_only.Look(
            key=options.session_to_read(session),
            places=options.places(),
            environ=dict(os.environ),
            turn=turn or 0,
            call=call or 0,
            model=model,
            context_window=context_window,
            profile=profile,
        )
    )
    if json:
        output.say_json(report)
        return
    for line in (context_detail if what == "detail" else context_list)(report).split("\n"):
        output.say(line, _colour(line))
    if (worker := vectors.progress_of(options.places())).running:
        output.say(f"Vectors are being made in the background; {worker.made:,} so far.")


_COLOURS: Final = {"GREEN": "green", "YELLOW": "yellow", "ORANGE": "yellow", "RED": "red"}


def _colour(line: str) -> str:
    """The colour of a line by what it says: the zone, what is over its share or near it."""
    if zone := _COLOURS.get(line.partition(" ")[0]):
        return zone
    if line.endswith(" over"):
        return "red"
    return "yellow" if line.endswith(" near") or line.startswith("!") else ""
