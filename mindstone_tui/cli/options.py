"""Options that several verbs share, so that they are spelled and explained once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer

from mindstone_tui.core import errors, paths

if TYPE_CHECKING:
    from mindstone_tui.core.config.settings import HistorySettings
    from mindstone_tui.core.library.cost import PriceBook
    from mindstone_tui.core.library.profile import SessionFilter
    from mindstone_tui.core.shared.copies import Feed
    from mindstone_tui.core.transcript import SessionSummary

_SETS_HISTORY: Final = ("MINDSTONE_HISTORY__", "MINDSTONE_PROFILE")
"""Variables that may say where histories are shared; a profile may, too."""


def _sessions_like(incomplete: str) -> list[str]:
    """The names of sessions that a shell may complete."""
    names = (places.key.main for places in paths.Places.resolve(os.environ).sessions())
    return sorted({name for name in names if name.startswith(incomplete)})


def _models_like(incomplete: str) -> list[str]:
    """The names of models that answer here, as a shell may complete them."""
    from mindstone_tui.core.config import load  # together 0.1 s, and only a shell waits for them
    from mindstone_tui.core.library.model_list import list_models

    home = paths.Places.resolve(os.environ)
    found = asyncio.run(list_models(home, load(home, os.environ).settings, os.environ))
    return [one.name for one in found if one.usable and one.name.startswith(incomplete)]


def switch(name: str, means: str, *short: str) -> Any:
    """A parameter that is on when its option is given, which has no opposite."""
    return typer.Option(False, name, *short, help=means)


def given(unless: Any, value: str, means: str, *names: str, **limits: Any) -> Any:
    """A parameter that is what its option says, `unless` it is left out.

    The option is called like the parameter unless it is named.
    """
    return typer.Option(unless, *names, metavar=value, help=means, **limits)


_NAMED = "Session: agent:<agentId>:<mainKey>, or a thread name; else the project's last."
SESSION = given("", "KEY", _NAMED, "--session", "-s", autocompletion=_sessions_like)
JSON = switch("--json", "Print JSON for programs.")
SAMPLE = switch("--sample", "Use the bundled sample session.")
PROFILE = given("", "NAME", "Settings profile.", "--profile")
MODEL = given(
    "", "NAME", "Model to use for this command.", "--model", "-m", autocompletion=_models_like
)
WINDOW = given(
    0, "TOKENS", "The model's context window; 0 uses the known size.", "--context-window", min=0
)

FOLDER = given(None, "FOLDER", "Folder for the tools; the current one by default.")

PROGRAM = given("", "NAME", "Only sessions of this program: codex, claude, …", "--program")
PROJECT = given("", "TEXT", "Only sessions in a folder whose path contains this.", "--project")
SINCE = given("", "DATE", "Only sessions used on this day or later.", "--since")
UNTIL = given("", "DATE", "Only sessions begun on this day or earlier.", "--until")
MODEL_FILTER = given(
    "", "TEXT", "Only sessions that used a model with this in its name.", "--model"
)
ROLE_FILTER = given("", "ROLE", "Only where the user, assistant or tool said something.", "--role")
TOOL_FILTER = given("", "NAME", "Only where this tool was called.", "--tool")
FILE_FILTER = given("", "TEXT", "Only where a file with this in its path was named.", "--file")


def places() -> paths.Places:
    """Where this user's files live; what a killed program left beside others' goes first."""
    found = paths.Places.resolve(os.environ)
    if (note := paths.written_beside(found)).exists():
        from mindstone_tui.core.disk import sweep_beside  # 5 ms

        sweep_beside(note)
    return found


def price_book() -> PriceBook:
    """What models cost, as this user says or the list does."""
    from mindstone_tui.core.config import load  # 14 ms
    from mindstone_tui.core.library.cost import PriceBook  # 20 ms

    return PriceBook(load(places(), os.environ).settings.models)


def working_folder(named: Path | None) -> Path:
    """The folder the tools work in."""
    folder = paths.from_home(named or Path.cwd()).absolute()
    if not folder.is_dir():
        raise errors.UsageError(f"{folder} is not a folder.", "Pass an existing folder with --cwd.")
    return folder


def session_key(
    option: str, folder: Path | None = None, *, begun: bool = False
) -> paths.SessionKey:
    """The session that was named, else the one that is meant in the folder."""
    if option:
        return paths.session_named(places(), option, begun=begun)
    from mindstone_tui.api import Home  # 53 ms

    return Home().key("", folder or Path.cwd())


def session_filter(context: typer.Context) -> SessionFilter | None:
    """What the options of this command ask for; None where they ask for nothing.

    An option is a filter if it is named as one.
    """
    from mindstone_tui.core.library.profile import SessionFilter, checked  # 20 ms

    given = {name: context.params.get(name, "") for name in SessionFilter.__struct_fields__}
    return checked(SessionFilter(**given)) if any(given.values()) else None


def session_to_read(option: str) -> paths.SessionKey:
    """The same for a command that reads it: what other machines wrote is fetched first."""
    asked = session_key(option)
    fetch_news([asked])  # the whole name may be one that only the server knows
    if (key := session_key(option, begun=True)) != asked:
        fetch_news([key])
    return key


def _shared_history() -> HistorySettings | None:
    """How histories are shared; None if no setting speaks of it, which is found out quickly.

    Reading all settings takes longer than listing a hundred sessions.
    """
    from mindstone_tui.core.disk import read_regular  # 5 ms

    where = places()
    try:
        written = read_regular(where.config_file)
    except OSError:
        written = b""
    named = any(name.startswith(_SETS_HISTORY) for name in os.environ)
    if b"history" not in written and not named:
        return None
    from mindstone_tui.core.config import load  # 14 ms

    return load(where, os.environ).settings.history


def fetch_news(
    keys: Collection[paths.SessionKey] | None = None,
    *,
    elsewhere: bool = False,
    whole: bool = False,
) -> None:
    """Bring the copies of these sessions up to date, or of all; with `elsewhere` get them all.

    What the database can search is left there, unless the `whole` of it is wanted here.

    Does nothing where histories are in files alone. A server that is away is reported, and what
    is on this machine is read.
    """
    history = _shared_history()
    if history is None or (not history.url and not history.sessions):
        return
    from mindstone_tui.cli.output import hint  # 6 ms
    from mindstone_tui.core.shared.copies import catch_up  # 162 ms

    wanted = msgspec.structs.replace(history, search="fetch") if whole else history
    for told in catch_up(places(), wanted, keys, elsewhere=elsewhere):
        hint(told)


def feed_of(where: paths.SessionPlaces) -> Feed | None:
    """Begin to bring what other machines write into a copy; None where there is no server."""
    if (history := _shared_history()) is None or not history.address_for(where.key):
        return None
    from mindstone_tui.core.shared.copies import Feed, open_store  # 162 ms

    if (store := open_store(history, where.key)) is None:
        return None
    feed = Feed(where, store)
    feed.start()
    return feed


def only_elsewhere() -> list[SessionSummary]:
    """Sessions that are on the server and were never opened here; none if it is away."""
    if (history := _shared_history()) is None or not history.url:
        return []
    from mindstone_tui.core.shared.copies import only_there  # 162 ms

    return only_there(places(), history)


def check_kinds(kinds: Collection[str], known: Collection[str]) -> None:
    """Refuse a kind of line that does not exist, with the nearest one that does."""
    from mindstone_tui.core.config.edit import nearest  # 15 ms

    for kind in kinds:
        if kind not in known:
            near = nearest(kind, known)
            raise errors.UsageError(
                f"Unknown entry kind {kind!r}.",
                f"{f'Did you mean {near}? ' if near else ''}There are: {', '.join(sorted(known))}.",
            )
