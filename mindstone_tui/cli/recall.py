"""`mindstone recall` and `mindstone reindex`: finding what was said, with scores and pointers."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from mindstone_tui.cli.options import JsonOption, SessionOption, check_kinds, places, session_key
from mindstone_tui.cli.output import Progress, hint, say, say_json
from mindstone_tui.core.config import load
from mindstone_tui.core.entries import KINDS
from mindstone_tui.core.errors import NoSuchSession, UsageError, VectorsUnavailable
from mindstone_tui.core.paths import Places, SessionPlaces
from mindstone_tui.core.recall.candidates import Filter
from mindstone_tui.core.recall.embedding import Embedder, open_embedder
from mindstone_tui.core.recall.index import (
    Found,
    RecallIndex,
    best_of,
    catch_up,
    reading,
    search_many,
)
from mindstone_tui.core.recall.passages import parse_time
from mindstone_tui.core.recall.ranking import Hit
from mindstone_tui.core.session.agent_files import Shelves, kinds_of_files
from mindstone_tui.core.session.search import search_everywhere
from mindstone_tui.core.text import inside, one_line
from mindstone_tui.core.transcript import History

_AT_ONCE = 64


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("recall")(recall)
    app.command("reindex")(reindex)
    app.command("search")(search)


def recall(
    query: Annotated[str, typer.Argument(help="Query.")] = "",
    session: SessionOption = "",
    json: JsonOption = False,
    k: Annotated[
        int, typer.Option("-k", metavar="N", min=1, max=1_000, help="How many hits.")
    ] = 10,
    scope: Annotated[
        str,
        typer.Option(metavar="SCOPE", help="session, agent (with its log and journals) or all."),
    ] = "session",
    since: Annotated[str, typer.Option(metavar="DATE", help="Only entries since this date.")] = "",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="Only this entry kind, such as user_message; repeatable."
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of each score.")] = (
        False
    ),
    batch: Annotated[
        str, typer.Option(metavar="FILE", help="File with one query per line; `-` for stdin.")
    ] = "",
) -> None:
    """Search the transcript and memories.

    The k best are always shown; `abstained` says that a turn would not have used any of them.
    """
    if bool(query) == bool(batch):
        raise UsageError(
            "Give one query, or a file of queries with --batch.", "mindstone recall --help"
        )
    if scope not in ("session", "agent", "all"):
        raise UsageError(f"Unknown scope {scope}.", "Use session, agent or all.")
    check_kinds(kind or (), {*KINDS, *kinds_of_files("all", memories=True)})
    home = places()
    embedder = open_embedder(load(home, os.environ).settings.recall.embedder)
    own = home.session(session_key(session))
    indexes = [_fresh(each, embedder) for each in _searched(home, own, scope)]
    allowed = Filter(since=_moment(since), kinds=frozenset(kind or ()))
    shelves = Shelves(home.agent(own.key.agent), embedder)
    files = (
        []
        if since
        else [each for each in kinds_of_files(scope, memories=True) if not kind or each in kind]
    )
    try:
        for line in _queries(query, batch):
            found = search_many(indexes, line, k, allowed=allowed)
            found = best_of(found, shelves.search(line, k, files, str(own.key)), k=k)
            if json:
                say_json(_as_json(found))
            else:
                _print(found, explain=explain)
    finally:
        shelves.close()
        for index in indexes:
            index.close()


def reindex(
    session: SessionOption = "",
    all_sessions: Annotated[bool, typer.Option("--all", help="Every session.")] = False,
    json: JsonOption = False,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait", help="Do not wait for the semantic index; it is built in the background."
        ),
    ] = False,
) -> None:
    """Rebuild the recall index from the transcript. Nothing is lost."""
    home = places()
    embedder = open_embedder(load(home, os.environ).settings.recall.embedder)
    chosen = list(home.sessions()) if all_sessions else [home.session(session_key(session))]
    for each in chosen:
        if not each.transcript.exists():
            raise NoSuchSession(each.key)
        index = RecallIndex.open(each.index, embedder)
        try:
            index.clear()
            passages = index_session(each, index, wait=not no_wait, quiet=json)
            row = {
                "session": str(each.key),
                "passages": passages,
                "pending": index.pending(),
            }
        finally:
            index.close()
        if json:
            say_json(row)
        else:
            say(f"{row['session']}: {passages:,} passages, {row['pending']:,} vectors pending")


def index_session(each: SessionPlaces, index: RecallIndex, *, wait: bool, quiet: bool) -> int:
    """Bring words, and vectors if told to wait for them, up to the end of the transcript."""
    with History(each) as history:
        last = history.head.seq
        with Progress("words", last + 1, quiet=quiet) as bar:
            catch_up(index, reading(history), lambda seq: bar.at(seq + 1))
    if wait:
        with Progress("vectors", index.pending(), quiet=quiet) as bar:
            try:
                while made := index.embed_pending(_AT_ONCE):
                    bar.step(made)
            except VectorsUnavailable as error:
                hint(error.sentence)
    return len(index)


def _searched(home: Places, own: SessionPlaces, scope: str) -> Iterator[SessionPlaces]:
    if scope == "session":
        yield own
        return
    excluded = set(load(home, os.environ).settings.recall.exclude) - {str(own.key)}
    for each in home.sessions():
        if str(each.key) not in excluded and (scope == "all" or each.key.agent == own.key.agent):
            yield each


def _fresh(each: SessionPlaces, embedder: Embedder) -> RecallIndex:
    """A session's index with all its words; vectors are taken as far as they are."""
    if not each.transcript.exists():
        raise NoSuchSession(each.key)
    index = RecallIndex.open(each.index, embedder)
    with History(each) as history:
        catch_up(index, reading(history))
    return index


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
            raise UsageError(
                f"{batch} cannot be read: {error.strerror}.", "Check the path."
            ) from error
    for line in lines:
        if text := line.strip():
            yield text


def _moment(text: str) -> float | None:
    if not text:
        return None
    moment = parse_time(text)
    if moment is None:
        raise UsageError(f"{text} is not a date.", "Write it as 2026-03-31.")
    return moment.timestamp()


def _as_json(found: Found) -> dict[str, Any]:
    return {
        "query": found.query,
        "hits": [_hit(hit) for hit in found.hits],
        "abstained": found.abstained,
        "vectors": found.vectors,
    }


def _hit(hit: Hit) -> dict[str, Any]:
    passage = hit.passage
    return {
        "score": round(hit.score, 4),
        "parts": {name: round(value, 4) for name, value in hit.parts.items()},
        "text": hit.text,
        "tokens": -(-len(hit.text) // 4),
        "session": passage.session,
        "turn": passage.turn,
        "ts": passage.ts,
        "role": passage.role,
        "speaker": passage.speaker,
        "kind": passage.kind,
        "supersedes": list(hit.supersedes),
        "entries": [
            {"id": passage.entry, "seq": passage.seq, "source_id": passage.source_id or None}
        ]
        if passage.seq >= 0
        else [],
        "file": None if passage.seq >= 0 else passage.entry,
    }


def _print(found: Found, *, explain: bool) -> None:
    if not found.hits:
        say("No matches.")
    for hit in found.hits:
        passage = hit.passage
        who = passage.speaker or passage.role
        said = f"{passage.session} #{passage.seq}  turn {passage.turn}"
        where = said if passage.seq >= 0 else passage.entry
        say(f"{hit.score:5.2f}  {where}  {passage.ts[:16]}  {who}", "bold")
        say(textwrap.indent(inside(hit.text).strip(), "       "))
        if explain:
            parts = "  ".join(f"{name} {value:+.2f}" for name, value in hit.parts.items() if value)
            say(f"       {parts}", "dim")
    if found.abstained and found.hits:
        hint("None of these is a strong enough match to be recalled automatically.")
    if not found.vectors:
        hint("Searched by words only: the semantic index is not built yet.")


def search(
    phrase: Annotated[str, typer.Argument(help="Words or topic.")],
    json: JsonOption = False,
    k: Annotated[
        int, typer.Option("-k", metavar="N", min=1, max=500, help="Number of exchanges to show.")
    ] = 10,
) -> None:
    """Search all sessions. Each match shows its session, turn and line."""
    if not phrase.strip():
        raise UsageError("Nothing to search for.", 'For example: mindstone search "…"')
    home = places()
    found = search_everywhere(home, load(home, os.environ).settings, phrase, k)
    if json:
        say_json(found)
        return
    if not found.hits:
        say("No session matches." if found.sessions else "No sessions yet.")
    elif not any(hit.says for hit in found.hits):
        say(f"No exact match for “{one_line(phrase, 80)}”. Closest in meaning:")
    for hit in found.hits:
        say(
            f"{hit.score:5.2f}  {hit.session}  turn {hit.turn}  #{hit.seq}  {hit.ts[:10]}  "
            f"{hit.speaker}",
            "bold",
        )
        say(f"       {hit.excerpt}")
    if found.hits:
        best = found.hits[0]
        hint(f"To open it: mindstone chat -s {best.session} --at {best.seq}")
        hint(f"To continue from there: mindstone run -s {best.session} '/fork turn {best.turn}'")
