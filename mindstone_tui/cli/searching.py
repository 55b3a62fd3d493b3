"""`mindstone search`: every session, own and imported, at the exact exchange."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mindstone_tui.cli.options import JsonOption, places
from mindstone_tui.cli.output import hint, say, say_json
from mindstone_tui.core.config import load
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.session.search import search_everywhere
from mindstone_tui.core.text import one_line


def register_search(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("search")(search)


def search(
    phrase: Annotated[str, typer.Argument(help="What was said, or about what.")],
    json: JsonOption = False,
    k: Annotated[
        int, typer.Option("-k", metavar="N", min=1, max=500, help="How many exchanges.")
    ] = 10,
) -> None:
    """Search all sessions. Each hit names its session, turn and line."""
    if not phrase.strip():
        raise UsageError("There is nothing to look for.", 'Write it: mindstone search "…"')
    home = places()
    found = search_everywhere(home, load(home, os.environ).settings, phrase, k)
    if json:
        say_json(found)
        return
    if not found.hits:
        say("Nothing in any session fits." if found.sessions else "There are no sessions yet.")
    elif not any(hit.says for hit in found.hits):
        say(f"Nobody said “{one_line(phrase, 80)}”. Nearest in meaning:")
    for hit in found.hits:
        say(
            f"{hit.score:5.2f}  {hit.session}  turn {hit.turn}  #{hit.seq}  {hit.ts[:10]}  "
            f"{hit.speaker}",
            "bold",
        )
        say(f"       {hit.excerpt}")
    if found.hits:
        best = found.hits[0]
        hint(f"Open it there: mindstone chat -s {best.session} --at {best.seq}")
        hint(f"Go on from there: mindstone run -s {best.session} '/fork turn {best.turn}'")
