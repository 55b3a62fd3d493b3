"""`mindstone recall` and `mindstone reindex`: finding what was said, with scores and pointers."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Annotated

import typer

from mindstone_tui.cli import options
from mindstone_tui.cli.options import given, switch
from mindstone_tui.cli.output import IN_THE_BACKGROUND, Progress, hint, say, say_json, say_words
from mindstone_tui.core import entries, errors, paths
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.entries.provenance import MARK
from mindstone_tui.core.library import find, profile, projects, vectors
from mindstone_tui.core.library.search import SessionAnswer, SessionHit, search_everywhere
from mindstone_tui.core.library.work import Act, Subject
from mindstone_tui.core.numbers import local
from mindstone_tui.core.text import one_line, plural


def recall(
    query: str = typer.Argument("", help="Query."),
    session: str = options.SESSION,
    json: bool = options.JSON,
    k: int = given(10, "N", "How many hits.", "-n", "-k", min=1, max=1_000),
    scope: str = given("session", "SCOPE", "session, agent (with its log and journals) or all."),
    since: str = given("", "DATE", "Only entries since this date."),
    kind: list[str] | None = given(
        None, "KIND", "Only this entry kind, such as user_message; repeatable."
    ),
    explain: bool = switch("--explain", "Show the parts of each score."),
    batch: str = given("", "FILE", "File with one query per line; `-` for stdin."),
    auto: bool = switch("--auto", "Show what a turn would recall for the message, or why not."),
) -> None:
    """Search the transcript and memories.

    The k best are always shown; `abstained` says that a turn would not have used any of them.
    With --auto only what a turn would be given is shown, as if its window were empty.
    """
    if bool(query) == bool(batch):
        raise errors.UsageError(
            "Give one query, or a file of queries with --batch.", "mindstone recall --help"
        )
    if auto and (since or kind):
        raise errors.UsageError("--auto looks at everything.", "Leave --since and --kind out.")
    options.check_kinds(kind or (), {*entries.KINDS, *find.recallable_kinds()})
    home = options.places()
    settings = load(home, os.environ).settings
    key = options.session_to_read(session)
    if find.checked_scope(scope) != "session":
        options.fetch_news(elsewhere=True)
    with find.StoredRecall(home, key, settings, find.checked_scope(scope)) as stored:
        for line in _queries(query, batch):
            if auto:
                _show_auto(stored.ask_unasked(line), json=json, explain=explain)
                continue
            found = stored.ask(line, k, since=since, kinds=kind or ())
            say_json(found) if json else _print(found, explain=explain)


def reindex(
    session: str = options.SESSION,
    all_sessions: bool = switch("--all", "Every session."),
    json: bool = options.JSON,
    no_wait: bool = switch(
        "--no-wait", "Do not wait for the semantic index; it is built in the background."
    ),
) -> None:
    """Rebuild the recall index from the transcript. Nothing is lost."""
    home = options.places()
    settings = load(home, os.environ).settings
    if all_sessions:
        options.fetch_news()
        chosen = list(home.sessions())
    else:
        chosen = [home.session(options.session_to_read(session))]
    wait = not no_wait
    follows = False
    for each in chosen:
        try:
            with Progress(quiet=json) as bars:
                row = _index_anew(each, settings, bars, wait=wait)
        finally:
            follows = bool(vectors.follow(home, settings, os.environ, [each])) or follows
        wait = wait and not row.pending
        if row.failure:
            hint(row.failure)
        if json:
            say_json({"session": row.session, "passages": row.passages, "pending": row.pending})
        else:
            by_words = f", by words only so far: {row.pending:,}" if row.pending else ""
            say(f"{row.session}: {row.passages:,} passages{by_words}")
    if follows:
        hint(IN_THE_BACKGROUND)


def _index_anew(
    session: paths.SessionPlaces, settings: Settings, bars: Progress, *, wait: bool
) -> find.Indexed:
    """Words and, if told to wait for them, vectors; Ctrl+C leaves those to the worker."""
    try:
        return find.index_session(session, settings, bars, wait=wait, anew=True)
    except KeyboardInterrupt:
        if bars.part != "vectors" or not settings.recall.background:
            raise
    return find.index_session(session, settings, bars, wait=False)


def _queries(query: str, batch: str) -> Iterator[str]:
    if not batch:
        yield query
        return
    lines: Iterator[str]
    if batch == "-":
        lines = (line.decode("utf-8", "replace") for line in sys.stdin.buffer)
    else:
        try:
            lines = iter(Path(batch).read_text(encoding="utf-8", errors="replace").split("\n"))
        except OSError as error:
            raise errors.UsageError(
                f"{batch} cannot be read: {error.strerror}.", "Check the path."
            ) from error
    for line in lines:
        if text := line.strip():
            yield text


def _print(found: find.RecallAnswer, *, explain: bool) -> None:
    if not found.hits:
        say("No matches.")
    elif found.abstained:
        hint("No match is strong enough to be recalled by itself. The nearest:")
    _print_hits(found.hits, explain=explain)
    if found.failure:
        hint(found.failure)
    elif not found.vectors:
        hint("Searched by words only: the semantic index is not built yet.")


def _show_auto(found: find.AutoRecallAnswer, *, json: bool, explain: bool) -> None:
    if json:
        say_json(found)
    elif found.silent:
        say(f"Nothing is recalled. {found.silent}")
    else:
        _print_hits(found.injected, explain=explain)


def _print_hits(hits: Sequence[find.RecalledHit], *, explain: bool) -> None:
    for hit in hits:
        said = "".join(f"{hit.session} #{entry.seq}  turn {hit.turn}" for entry in hit.entries)
        mark = marks(hit)
        score = f"{hit.score:5.2f}  " if explain else ""
        say(f"{score}{said or hit.file}  {local(hit.ts)}  {hit.speaker or hit.role}{mark}", "bold")
        say_words(find.readable(hit), "       ")
        if explain:
            parts = "  ".join(f"{name} {value:+.2f}" for name, value in hit.parts.items() if value)
            say(f"       {parts}", "dim")


def search(
    context: typer.Context,
    phrase: Annotated[str, typer.Argument(help="Words or topic.")],
    json: bool = options.JSON,
    k: int = given(10, "N", "Number of exchanges to show.", "-n", "-k", min=1, max=500),
    program: str = options.PROGRAM,
    project: str = options.PROJECT,
    since: str = given("", "DATE", "Only what was said on this day or later."),
    until: str = given("", "DATE", "Only what was said on this day or earlier."),
    model: str = options.MODEL_FILTER,
    role: str = given("", "ROLE", "user, assistant or tool."),
    tool: str = given("", "NAME", "Only results of this tool."),
    file: str = given("", "TEXT", "Only where a file with this in its path is named."),
) -> None:
    """Search all sessions. Each match shows its session, turn and line."""
    if not phrase.strip():
        raise errors.UsageError("Nothing to search for.", 'For example: mindstone search "…"')
    home = options.places()
    chosen = options.session_filter(context)
    # Which program or project a session is of is known of those that are here.
    options.fetch_news(elsewhere=True, whole=chosen is not None and chosen.needs_profile)
    settings = load(home, os.environ).settings
    with Progress("sessions", quiet=json) as bars:
        found = search_everywhere(home, settings, phrase, k, chosen, bars.at)
    if json:
        say_json(found)
        return
    _print_found(found, phrase, filtered=chosen is not None)


def _print_found(found: SessionAnswer, phrase: str, *, filtered: bool) -> None:
    if not found.hits:
        say("No session matches." if found.sessions or filtered else "No sessions yet.")
    elif not any(hit.says for hit in found.hits):
        say(f"No exact match for “{one_line(phrase, 80)}”. Closest in meaning:")
    by_session: dict[str, list[SessionHit]] = {}
    for hit in found.hits:
        by_session.setdefault(hit.session, []).append(hit)
    for session, hits in by_session.items():
        source = next((hit.imported.origin for hit in hits if hit.imported), "")
        whose = "" if source or hits[0].program == profile.OWN else hits[0].program
        say_session(session, source, projects.whose_and_where(whose, hits[0].folder))
        for hit in hits:
            place = f"turn {hit.turn}  #{hit.seq}  {local(hit.ts)[:10]}"
            say(f"  {place}  {hit.speaker}{marks(hit, source)}", "bold")
            say_words(hit.excerpt, "    ")
            if hit.changed_since:
                say(f"    {plural(hit.changed_since, 'file')} this touched changed since.", "dim")
    if found.failure:
        hint(found.failure)
    for server in found.words_only:
        hint(f"Searched by words only on {server}: it has no pgvector.")
    if found.hits:
        best = found.hits[0]
        hint(f"To open it: mindstone chat -s {best.session} --at {best.seq}")
        hint(f"To continue from there: mindstone run -s {best.session} '/fork turn {best.turn}'")


def say_session(session: str, source: str, where: str) -> None:
    """Name a session, once above all that is told of it, and where it and its words come from."""
    say(session, "bold")
    name = source.rpartition(", ")[2]
    if session.endswith(f"-{PurePath(name).stem}"):
        source = source.removesuffix(f", {name}")
    if told := " · ".join(filter(None, (source, where))):
        say(f"  {told}", "dim")


def marks(hit: SessionHit | find.RecalledHit | Act | Subject, source: str = "") -> str:
    """What is to be known of a hit before it is believed; a source that was told is not named."""
    known = ((one, one.removeprefix(source) if source else one) for one in hit.marks)
    return "".join(f"  {one if one == rest else MARK + rest}" for one, rest in known)
