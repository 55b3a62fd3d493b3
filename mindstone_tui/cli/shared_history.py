"""`mindstone history`: sessions between this machine and a PostgreSQL server."""

import contextlib
import os
from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from mindstone_tui.cli import options, output
from mindstone_tui.core.config import edit, load, store
from mindstone_tui.core.config.settings import HistorySettings
from mindstone_tui.core.errors import ExitCode, MindstoneError, UsageError
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.shared import postgres, schema
from mindstone_tui.core.shared.copies import SessionState, compare, open_address, pull, push
from mindstone_tui.core.text import plural

SESSIONS = typer.Argument(
    None, metavar="[SESSION]...", help="Sessions; the default one if omitted."
)
ALL = options.switch("--all", "All sessions.")
SERVER = options.given("", "URL", "Server; the one in history.url if omitted.", "--url")


history_app = typer.Typer(
    help="Keep sessions on a server, for more than one machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@history_app.command("status")
def status(
    sessions: list[str] | None = typer.Argument(
        None, metavar="[SESSION]...", help="Sessions; all if omitted."
    ),
    url: str = SERVER,
    json: bool = options.JSON,
) -> None:
    """Compare the sessions here with those on the server. Copies nothing."""
    asked = [SessionKey.parse(each) for each in sessions or ()]
    with _server(url) as server:
        found = compare(options.places(), server, asked)
        name = server.name
    there = {each.session for each in found}
    for key in asked:
        if str(key) not in there:
            raise options.places().session(key).missing()
    if json:
        output.say_json({"server": name, "sessions": found})
        return
    if not found:
        output.hint(f"{name} answers; there are no sessions yet, here or there.")
        return
    output.table(
        ("SESSION", "COPY HERE", "LINES HERE", "THERE", "IN USE BY"), [_row(it) for it in found]
    )
    output.hint(f"{name} answers.")


@history_app.command("push")
def push_sessions(
    sessions: list[str] | None = SESSIONS,
    every: bool = ALL,
    url: str = SERVER,
    json: bool = options.JSON,
) -> None:
    """Copy sessions to the server. Goes on where it was broken off; changes nothing here."""
    with _server(url) as server:
        states = compare(options.places(), server, [] if every else _named(sessions))
        wanted = [SessionKey.parse(one.session) for one in states if one.here is not None]
        if not every:
            wanted = _named(sessions)
        _copy(server, wanted, "push", json=json)


@history_app.command("pull")
def pull_sessions(
    sessions: list[str] | None = SESSIONS,
    every: bool = ALL,
    again: bool = options.switch(
        "--again", "Move the local copy aside first and fetch everything again."
    ),
    url: str = SERVER,
    json: bool = options.JSON,
) -> None:
    """Copy sessions from the server. Every line is verified as it arrives."""
    if every and again:
        raise UsageError("--again sets a copy aside; name the session.")
    with _server(url) as server:
        wanted = [each.key for each in server.sessions()] if every else _named(sessions)
        _copy(server, wanted, "pull", again=again, json=json)


@history_app.command("move")
def move(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Session to move.")],
    to: Annotated[
        str, typer.Option("--to", metavar="server|files", help="Where it is kept from now on.")
    ],
    url: str = SERVER,
) -> None:
    """Move one session to the server, or back to files.

    Nothing is deleted on either side.
    """
    if to not in ("server", "files"):
        raise UsageError(f"{to} is no place for a session.", "Use --to server or --to files.")
    key = options.session_key(session)
    with _server(url) as server:
        _copy(server, [key], "push" if to == "server" else "pull")
        if _settings().address_for(key) and to == "server" and not url:
            return
    known = dict(_settings().sessions)
    known[str(key)] = (url or _settings().url) if to == "server" else ""
    file = store(options.places(), "history.sessions", edit.toml_value(known))
    output.hint(f"{key} is kept {'on the server' if to == 'server' else 'in files'} now ({file}).")


@history_app.command("index")
def index_sessions(
    sessions: list[str] | None = SESSIONS, every: bool = ALL, json: bool = options.JSON
) -> None:
    """Make what sessions here say searchable on the server.

    Adds what is missing. Machines with history.search = server do so by themselves after a turn.
    """
    from mindstone_tui.core.library.shared_search import publish_session  # 18 ms

    home, settings = options.places(), load(options.places(), os.environ).settings
    named = [home.session(key) for key in _named(sessions)]
    wanted = [each for each in home.sessions() if each.server.exists()] if every else named
    options.fetch_news([each.key for each in wanted])
    words_only = False
    for each in wanted:
        if (done := publish_session(each, settings)) is None:
            raise UsageError(
                f"{each.key} is not kept on a server.", "Set history.url, or push it first."
            )
        if json:
            output.say_json(done)
            continue
        by_meaning = f", {done.vectors:,} with a vector" if done.meaning else ""
        output.say(f"{each.key}  {plural(done.passages, 'passage')} added{by_meaning}")
        words_only = words_only or not done.meaning
    if words_only:
        output.hint("Search there works by words only: the server has no pgvector.")
    if not wanted:
        output.hint("There are no sessions here that a server keeps.")


@history_app.command("schema")
def print_schema(
    role: str = options.given("", "ROLE", "Also grant this role what it needs.", "--role"),
) -> None:
    """Print the SQL that makes the tables, for `psql`. May be run again; it only adds."""
    output.say_exactly(schema.as_script(role))


def _settings() -> HistorySettings:
    return load(options.places(), os.environ).settings.history


@contextlib.contextmanager
def _server(url: str) -> Iterator[postgres.PostgresStore]:
    history = _settings()
    address = url or history.url or next(filter(None, history.sessions.values()), "")
    if not address:
        raise UsageError(
            "No history server is set.",
            "Set one: mindstone config set history.url postgresql://user@host/database",
        )
    with contextlib.closing(open_address(history, address)) as server:
        yield server


def _named(sessions: list[str] | None) -> list[SessionKey]:
    return [SessionKey.parse(each) for each in sessions or ()] or [options.session_key("")]


def _row(one: SessionState) -> tuple[str, ...]:
    here = f"{one.here.seq + 1:,}" if one.here else "–"
    there = f"{one.there.seq + 1:,}" if one.there else "–"
    return one.session, one.state, here, there, one.holder.split(" ")[0]


def _copy(
    server: postgres.PostgresStore,
    keys: list[SessionKey],
    direction: Literal["push", "pull"],
    *,
    again: bool = False,
    json: bool = False,
) -> None:
    """Copy one after the other; one that cannot be copied does not stop the others."""
    from mindstone_tui.core.library.shared_search import publish_quietly  # 18 ms

    failed = False
    for key in keys:
        try:
            head = (
                push(options.places(), server, key, lambda done, all_: None)
                if direction == "push"
                else pull(options.places(), server, key, again=again)
            )
            publish_quietly(
                options.places().session(key), load(options.places(), os.environ).settings
            )
        except MindstoneError as error:
            if len(keys) == 1:
                raise
            failed = True
            output.hint(error.sentence)
            continue
        if json:
            output.say_json({"session": str(key), "seq": head.seq, "hash": head.hash})
        else:
            lines = plural(head.seq + 1, "line")
            output.say(f"{key}  {lines}, head {head.seq}:{head.hash[:16]}… here and there")
    if not keys:
        output.hint("There are no sessions to copy.")
    if failed:
        raise typer.Exit(ExitCode.FAILED)
