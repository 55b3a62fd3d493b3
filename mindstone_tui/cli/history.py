"""Verbs about history: `sessions` lists, `log` reads and follows, `verify` proves."""

import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import typer

from mindstone_tui.cli import options, output
from mindstone_tui.cli.options import given, switch
from mindstone_tui.core import entries, errors, numbers, paths, transcript
from mindstone_tui.core.entries.base import ByHand
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ToolAnswered,
    UserMessage,
)
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.library import file_states, lineage, profile, projects
from mindstone_tui.core.session.draft import not_in_history
from mindstone_tui.core.text import exact, one_line, plural

Wanted = Callable[[transcript.Item], bool]
"""Tells whether a line is to be shown."""

_NONE_MATCH: Final = "No session matches."
_WIDE: Final = 100
"""Columns from which on a list names program and size, too."""
_LONGEST_NAME: Final = 24
"""Characters of a session's name in a list on a terminal."""
_LOOK_AGAIN: Final = 0.2
"""Seconds between two looks at a file that is followed."""


def sessions(
    context: typer.Context,
    json: bool = options.JSON,
    limit: int = given(0, "N", "Show at most N; 0 for all.", "--limit", "-n", min=0),
    sub_agents: bool = switch("--sub-agents", "Show sub-agents behind their session."),
    long: bool = switch(
        "--long", "Also show program, folder, branch, models, dates, tokens and cost.", "-l"
    ),
    program: str = options.PROGRAM,
    project: str = options.PROJECT,
    since: str = options.SINCE,
    until: str = options.UNTIL,
    model: str = options.MODEL_FILTER,
    role: str = options.ROLE_FILTER,
    tool: str = options.TOOL_FILTER,
    file: str = options.FILE_FILTER,
    fresh: str = given(
        "",
        "KEY",
        "If KEY's transcript is missing: move its other files aside and start it anew.",
        "--start-over",
    ),
) -> None:
    """List sessions by project, the one used last first. Sub-agent sessions are only counted.

    The filters may be combined; a session of another program keeps that program's own dates.
    """
    if fresh:
        aside = transcript.start_over(options.places().session(options.session_key(fresh)))
        output.hint(f"The other files are now in {aside}. The next message starts a new history.")
        return
    options.fetch_news()
    wanted = options.session_filter(context)
    asked = wanted or (profile.SessionFilter() if long else None)
    every = profile.list_described(options.places(), asked, options.price_book() if asked else None)
    if wanted is None:
        for one in options.only_elsewhere():  # of which no more is known here
            every.append(profile.ListedSession(**msgspec.structs.asdict(one), used=one.updated))
        every.sort(key=lambda one: one.used, reverse=True)
    summaries = [one for one in every if json or sub_agents or not _is_sub_agent(one)]
    shown = summaries[:limit] if limit else summaries
    if sub_agents and not json:
        shown = projects.folded(shown)
    if json:
        output.say_json({"sessions": shown})
    elif not summaries:
        _say_that_there_are_none(program, filtered=wanted is not None)
    else:
        _list(shown, long=long)
    if (hidden := len(every) - len(summaries)) and summaries and not json:
        output.hint(f"{hidden} sub-agent sessions are hidden; --sub-agents shows them.")


def _say_that_there_are_none(program: str, *, filtered: bool) -> None:
    output.hint(_NONE_MATCH if filtered else "No sessions yet. Run `mindstone` to start one.")
    if program and (known := {one.program for one in profile.list_described(options.places())}):
        output.hint(f"Programs whose sessions are here: {', '.join(sorted(known))}.")


def _list(shown: Sequence[profile.ListedSession], *, long: bool) -> None:
    """A table of them, under the projects they belong to."""
    headings: dict[int, str] = {}
    ordered: list[profile.ListedSession] = []
    for project, found in projects.by_project(shown):
        headings[len(ordered)] = project
        ordered += found
    rows = [
        (
            summary.session,
            numbers.local(summary.used),
            str(summary.turns) + (f" ({summary.rewound} rewound)" if summary.rewound else ""),
            numbers.size(summary.size),
            ("↳ " if summary.started_by else "") + one_line(summary.title or summary.text, 200)
            if summary.readable
            else f"unreadable: mindstone verify -s {summary.session}",
        )
        for summary in ordered
    ]
    below = [profile.facts_of(one) for one in ordered] if long else ()
    if not sys.stdout.isatty():  # what programs read stays as it was
        names = ("SESSION", "LAST USED", "TURNS", "SIZE", "TITLE")
        output.table(names, rows, right=(2, 3), below=below, above=headings)
        return
    now, wide = datetime.now().astimezone(), shutil.get_terminal_size().columns >= _WIDE
    seen = [
        (
            *(_short(one.session), row[-1], _ago(one.used, now), str(one.turns - one.rewound)),
            *((one.program, numbers.size(one.size)) if wide else ()),
        )
        for one, row in zip(ordered, rows, strict=True)
    ]
    output.table(
        ("SESSION", "TITLE", "USED", "TURNS", *(("PROGRAM", "SIZE") if wide else ())),
        seen,
        right=(3, 5),
        below=below,
        above=headings,
        gives_way=(1,),
        styles={0: "cyan", **dict.fromkeys(range(2, 6), "dim")},
    )


def _ago(stamp: str, now: datetime) -> str:
    """How long ago something was; a date where that is no short answer."""
    try:
        then = datetime.fromisoformat(stamp)
        return numbers.ago(then, now) if (now - then).days < 7 else f"{then.astimezone():%d %b %Y}"
    except (ValueError, OverflowError):
        return stamp


def _short(session: str) -> str:
    """A session's name as `-s` takes it: without the usual agent, a long one by its beginning."""
    name = session.removeprefix("agent:default:")
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}{paths.CUT_SHORT}"


def _is_sub_agent(session: profile.ListedSession) -> bool:
    """Whether another session started it: here, or in the program that it comes from."""
    return paths.CHILD in session.main or bool(session.started_by)


def log(
    session: str = options.SESSION,
    tail: int | None = given(None, "N", "Only the last N lines.", "--tail", "-n", min=0),
    kind: list[str] | None = given(
        None, "KIND", "Only entries of this kind; repeatable.", "--kind", "-k"
    ),
    turn: int | None = given(None, "N", "Only this turn.", "--turn", "-t", min=0),
    redacted: bool = switch("--redacted", "Only where something was blacked out, and what."),
    follow: bool = switch("--follow", "Keep printing new lines as they appear.", "-f"),
    json: bool = options.JSON,
) -> None:
    """Read a session's transcript, oldest line first.

    `-k context_window_pruned -k tool_results_trimmed` is the record of what left the window: each
    with its score, its parts and its reason.
    """
    where = options.places().session(options.session_to_read(session))
    wanted = _wanted(kind or (), turn)
    if redacted:
        _print_redacted(where, wanted, json)
        return
    with _open(where) as history:
        newest = history.head.seq
        if tail is None:
            items: Iterable[transcript.Item] = filter(wanted, history.read())
        else:
            items = reversed(list(islice(filter(wanted, history.back()), tail)))
        standings = transcript.standings_of(history)
        damaged = sum(_print(item, standings, json) for item in items)
        arriving = not_in_history(history)
    if arriving and not follow:
        output.hint(arriving)
    if damaged:
        output.hint(f"{damaged} damaged line(s): run `mindstone verify --session {where.key}`.")
    if follow:
        output.flush_output()
        _follow(where, newest, wanted, standings, json)


def _print_redacted(where: paths.SessionPlaces, wanted: Wanted, json: bool) -> None:
    """Every place that was blacked out: its line, its kind, and the text around it."""
    found = 0
    with _open(where) as history:
        for item in filter(wanted, history.read()):
            if not isinstance(item, entries.Line):
                continue
            for place in transcript.blackened_in(history.whole(item).entry):
                found += 1
                if json:
                    output.say_json(
                        {"seq": item.seq, "turn": item.turn, **msgspec.to_builtins(place)}
                    )
                else:
                    output.say(f"#{item.seq}  turn {item.turn}  {item.kind}  {place.label}", "bold")
                    output.say(f"    {place.line}: {one_line(place.shown, _REDACTED_SHOWN)}")
    if not found and not json:
        output.say("Nothing was blacked out.")


_REDACTED_SHOWN: Final = 160


def _wanted(kinds: Collection[str], turn: int | None) -> Wanted:
    """Which lines are shown; a damaged one always is."""
    options.check_kinds(kinds, entries.KINDS)
    return lambda item: (
        not isinstance(item, entries.Line)
        or ((not kinds or item.kind in kinds) and (turn is None or item.turn == turn))
    )


def verify_sessions(
    session: str = options.SESSION,
    all_sessions: bool = switch("--all", "Verify all sessions."),
    anchor: str = given("", "SEQ:HASH", "A head you noted earlier, to verify against.", "--anchor"),
    json: bool = options.JSON,
) -> None:
    """Verify that a transcript was not altered. Exits with 1 if it was."""
    if all_sessions:
        options.fetch_news()
        chosen = sorted(options.places().sessions(), key=lambda found: found.key)
    else:
        chosen = [options.places().session(options.session_to_read(session))]
        if not json and not chosen[0].folder.exists():
            raise chosen[0].missing()
    expected = _anchor(anchor)
    sound = True
    for where in chosen:
        verdict = transcript.verify(where, expected)
        sound = sound and verdict.ok
        output.say_json(verdict) if json else _print_verdict(verdict)
    if not chosen:
        output.hint("No sessions yet; nothing to verify.")
    if not sound:
        raise typer.Exit(errors.ExitCode.FAILED)


def _open(where: paths.SessionPlaces) -> transcript.History:
    if not where.folder.exists():
        raise where.missing()
    return transcript.History(where)


def _follow(
    where: paths.SessionPlaces, after: int, wanted: Wanted, standings: Standings, json: bool
) -> NoReturn:
    """Print lines as they appear, until interrupted."""
    follower = transcript.Follower(where, after)
    feed = options.feed_of(where)
    try:
        while True:
            for item in follower.poll():
                if isinstance(item, entries.Line):
                    standings.take(item)
                if wanted(item):
                    _print(item, standings, json)
            output.flush_output()
            time.sleep(_LOOK_AGAIN)
    finally:
        follower.close()
        if feed is not None:
            feed.stop()


def _print(item: transcript.Item, standings: Standings, json: bool) -> int:
    """Print one line; 1 if it was a damaged one."""
    from mindstone_tui.core.events.narrate import describe_line  # deferred: only `log` reads it

    if isinstance(item, transcript.Damaged):
        if json:
            output.say_json(
                {"damaged": {"offset": item.offset, "why": item.why, "size": len(item.raw)}}
            )
        else:
            output.say(f"  ?  {describe_line(item).text}", "red")
        return 1
    if json:
        standing = standings.of(item)
        # Behind the hash: what the line says of itself stays byte for byte.
        known = f',"standing":{msgspec.json.encode(standing).decode()}}}' if standing else "}"
        output.say_raw_json(item.raw.decode()[:-1] + known)
        return 0
    marks = standings.told(item, but=())
    heading = "  ".join([f"#{item.seq}", f"turn {item.turn}", item.kind, *marks])
    match item.entry:
        case UserMessage(text=text) | AssistantMessage(text=text) | AssistantPartial(text=text):
            colour = "bold cyan" if item.role == "user" else "bold"
            output.say(f"{heading}  {numbers.local(item.ts)}", colour)
            calls = item.entry.calls if isinstance(item.entry, AssistantMessage) else ()
            wanted = [f"→ {call.name} {call.arguments}" for call in calls]
            if isinstance(item.entry, UserMessage) and item.entry.note:
                output.say(f"the model was told: {item.entry.note}", "dim")
            output.say_words("\n".join([*([text] if text else []), *wanted]))
            output.say()
        case _:
            line = describe_line(item)
            # The reason that was given for a decision is part of it.
            decides = line.detail and isinstance(item.entry, ByHand | ToolAnswered)
            decides = decides and item.kind != "files_restored"  # whose detail is a way back
            told = f"{heading}  {line.text}" + (f" ({line.detail})" if decides else "")
            output.say("\n    ".join(output.in_lines(told, 4)), "dim")
            for each in line.more:
                output.say(f"    {one_line(each, 160)}", "dim")
    return 0


def _print_verdict(verdict: transcript.Verdict) -> None:
    head = verdict.head
    if verdict.ok and head is not None:
        mark = output.styled("ok", "green")
        say_line = f"{plural(verdict.entries, 'line')}, head {head.seq}:{head.hash[:16]}…"
        output.say_exactly(f"{mark}  ")
        output.say(f"{verdict.session}  {say_line}")
        return
    output.say(f"DAMAGED  {verdict.session}  {verdict.entries:,} readable lines", "red")
    for problem in verdict.problems:
        where = f"line {problem.line}, offset {problem.offset}"
        output.say(f"    {where}: {problem.kind}: {problem.detail}")


def _anchor(text: str) -> transcript.HeadAnchor | None:
    if not text:
        return None
    seq, _, digest = text.partition(":")
    if not seq.isdecimal() or len(digest) != 64:
        raise errors.UsageError(
            f"{text!r} is not an anchor.",
            "Use SEQ:HASH, as in the head that `verify --json` prints.",
        )
    return transcript.HeadAnchor(int(seq), digest)


def files(
    path: str = typer.Argument(
        "",
        metavar="[PATH]",
        help="Print this file as it was, or a content by its hash (sha256:3dee2f99); lists all "
        "files if omitted.",
    ),
    at: int | None = given(
        None,
        "TURN",
        "After this turn, 0 is before the first; after the last if omitted.",
        "--at",
        min=0,
    ),
    out: Path | None = given(None, "FOLDER", "Write all of them into a new folder instead."),
    session: str = options.SESSION,
    json: bool = options.JSON,
) -> None:
    """Show files as turns left them, by now or after one of them.

    Only files that a turn touched are known. Nothing in the workspace is changed; `mindstone run
    "/undo"` does that.
    """
    where = options.places().session(options.session_key(session, begun=True))
    if not where.folder.exists():
        raise where.missing()
    known = file_states.FilesOfSession(where)
    if path and out is not None:
        raise errors.UsageError("PATH and --out cannot be combined.", "Use one of them.")
    if path:
        sys.stdout.buffer.write(known.content(at, path))
        sys.stdout.buffer.flush()
        return
    if out is not None:
        count, problems = known.write(at, paths.from_home(out).absolute())
        for problem in problems:
            output.hint(problem)
        when = "turns left them" if at is None else f"they were after turn {at}"
        output.hint(f"{plural(count, 'path')} as {when} are in {out}.")
        return
    found = known.at(at)
    if json:
        output.say_json({"turn": known.last_turn if at is None else at, "files": found})
    elif found:
        rows = [(_state(it), it.sha256[:12], f"{it.root}/{exact(it.path)}") for it in found]
        output.table(("STATE", "SHA-256", "PATH"), rows)
        if away := sum(not it.kept for it in found):
            output.hint(f"{plural(away, 'file')} by the transcript alone: {file_states.NOT_KEPT}.")
        if others := known.changed_since() if at is None else ():
            output.hint(f"Changed by somebody else since: {exact(', '.join(others))}.")
    past = lineage.ancestors(options.places(), where)
    past = [one for one in past if file_states.FilesOfSession(one.places, one.at).story.steps]
    for key in (one.places.key for one in past):
        output.hint(f"Before the fork, turns of {key} changed files: mindstone files -s {key}")
    if not found and not past and not json:
        output.hint("No turn of this session changed a file.")


def _state(each: file_states.FileAt) -> str:
    if each.kind in ("none", "unkept"):
        return {"none": "not there", "unkept": "not kept"}[each.kind]
    return each.kind if each.kind == "link" else f"{each.kind} {each.mode:o}"
