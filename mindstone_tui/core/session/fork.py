"""A fork: another session that begins with this one's window and points back to its history.

Any turn will do. One that left the window long ago begins with the window of its own day, so what
search found can be taken up again where it was said.
"""

import contextlib
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

import msgspec

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.config.settings import HistorySettings
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.context.messages import said
from mindstone_tui.core.context.plan import plans_of_turn
from mindstone_tui.core.context.prune import marker_text
from mindstone_tui.core.context.window_view import fold_at, reader
from mindstone_tui.core.disk import REAL
from mindstone_tui.core.entries import Draft, Line, Unknown, conversation, derived, standings
from mindstone_tui.core.entries.line import hash_matches
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.entries.window import (
    Forked,
    ModelChanged,
    Outside,
    Restored,
    Rewound,
    WindowState,
)
from mindstone_tui.core.errors import DamagedTranscript, MindstoneError, NoSuchEntry
from mindstone_tui.core.memory.notes import recent_notes
from mindstone_tui.core.memory.proposals import proposals_of
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.tokens import rough_count
from mindstone_tui.core.transcript import History, Transcript, history_store
from mindstone_tui.core.transcript.reader import copies_in, rewinds_of

_AT: Final = "@"
_BEFORE_COPIES: Final = 2
"""Lines of a fork before the first that it copies: where it comes from, and its model."""
_WORK: Final = (derived.TaskStarted, derived.TodoChanged, derived.PlanChanged)
_AROUND: Final = (
    *(derived.NoteTaken, derived.StatementSuperseded, derived.OfferAnswered, Rewound, Restored),
    *(derived.MemoryProposed, derived.MemoryDecided),
)
_SINCE: Final = (FilesRestored, derived.JobEnded)
"""What came of turns that a fork has, until it was made."""
_SHOWN_OF_HASH: Final = 12


def fork_session(
    context: TurnContext,
    history: History,
    child: SessionPlaces,
    turn: int | None,
    upstream: history_store.HistoryStore | None = None,
    *,
    noted: bool = True,
) -> None:
    """Copy the window up to a turn into a new session; each line names the one it came from.

    Only the window is copied, so a fork costs the window and not the history; what lies before it
    stays in the parent, which the header names with its exact place. With an `upstream` the fork
    is kept there, too. Unless it is `noted`, nothing is written to the parent.
    """
    newest = context.transcript.last_turn
    last = newest if turn is None else turn
    gone = (rewinds := rewinds_of(history)).of_turn
    found = _lines_of(history, last, None if turn is None else gone(last))
    if not found:
        raise NoSuchEntry(
            f"There is no turn {last} to begin from.", f"The newest is turn {newest}."
        )
    now = context.window.fold
    if turn is None:  # as it is now: the newest turn itself may have been rewound
        lines, outside = list(now.lines.values()), now.state.outside
    else:
        lines, outside = _window_after(history, now, found, room=context.report().usable)
    lines = [line for line in lines if line.seq not in rewinds.there]
    point = conversation.ForkPoint(
        session=found[-1].session, seq=found[-1].seq, hash=found[-1].hash
    )
    # A fork is there whole or not at all: nothing would say later that half of it is missing. Where
    # a server keeps it, that cannot be had.
    made = child if upstream is not None else _aside(child)
    forked = Transcript(
        made,
        clean=context.transcript.clean,
        channel=context.transcript.channel,
        forked_from=point,
        upstream=upstream,
        folder=_folder_of(history) or str(context.tool_context("").workspace.cwd),
    )
    try:
        for digest in _kept_beside(lines):
            forked.keep_blob(history.blob(digest))
        taken = (*lines, *_story_of(history, lines), *_work_under_way(history, lines, point.seq))
        taken += (*_files_put_back(history, lines, point.seq), *_jobs_ended(history, lines))
        every = _with_verdicts(history, sorted(taken, key=lambda line: line.seq))
        shown = {line.turn for line in lines}
        left = context.files.left_by(lambda n: n > last or (n not in shown and gone(n) is not None))
        model = _same_model(context, forked.channel, outside, shown, left)
        forked.append_all([model, *_copies(every)])
    finally:
        forked.close()
    if made is not child:
        REAL.replace(made.folder, child.folder)
        REAL.sync_folder(child.folder.parent)
    if noted:
        context.window.record(Forked(child=str(child.key), at=found[-1].seq), None)


def _require_as_written(lines: Iterable[Line], key: SessionKey) -> None:
    """Refuse what was altered: a copy gets a hash of its own, and would pass for what was said."""
    bad = next((line.seq for line in lines if not hash_matches(line.raw, line.hash)), None)
    if bad is not None:
        raise DamagedTranscript(
            f"Line {bad} is not as it was written, and a fork would pass it on as what was said.",
            f"`mindstone verify -s {key}` says more; a fork of a turn before it has none of it.",
        )


def _lines_of(history: History, turn: int, rewound: int | None) -> list[Line]:
    """The lines of a turn, up to the one that took it back."""
    found = history.turn(turn) if turn > 0 else []
    return [line for line in found if rewound is None or line.seq < rewound]


def _folder_of(history: History) -> str:
    """Where a session was begun: its forks belong there, too."""
    opened = history.header.entry
    return opened.folder if isinstance(opened, conversation.SessionOpened) else ""


def _files_put_back(history: History, window: Sequence[Line], through: int) -> list[Line]:
    """What a person did to files of these turns, until now, or of any since the newest message.

    The model has not heard of the latter yet. A turn that is not there is none that it changed.
    """
    said = [line.seq for line in window if isinstance(line.entry, conversation.UserMessage)]
    since, turns = max(said, default=0), {line.turn for line in window}
    found = []
    for line in history.newest(("files_restored",), history.head.seq + 1):
        if isinstance(entry := line.entry, FilesRestored):
            here = entry.turns if since < line.seq <= through else turns & {*entry.turns}
            if here:
                entry = msgspec.structs.replace(entry, turns=tuple(sorted(here)))
                found.append(msgspec.structs.replace(line, entry=entry))
    return found


def _origin(history: History, home: Places) -> tuple[conversation.ForkPoint, SessionPlaces] | None:
    """Where a session was forked; None where it was not, or not from one on this machine."""
    opened = history.header.entry
    if isinstance(opened, conversation.SessionOpened) and (point := opened.forked_from):
        where = home.session(SessionKey.parse(point.session))
        return (point, where) if where.transcript.exists() else None
    return None


def fetch_origin(history: History, home: Places, settings: HistorySettings) -> None:
    """Bring what a fork comes from up to date: on another machine it may have gone on."""
    if (origin := _origin(history, home)) is not None:
        from mindstone_tui.core.shared.copies import catch_up  # 102 ms

        catch_up(home, settings, [origin[1].key])


def take_in_put_back(context: TurnContext, history: History, home: Places) -> int:
    """Write down what was taken back since, or done again, where a fork comes from, of what its
    turns did to files: the files are the same for both. How many lines it were."""
    found = _put_back_since(history, list(copies_in(history)), home)
    known = {line.parent for line in history.newest(("files_restored",), history.head.seq + 1)}
    turn = context.transcript.last_turn
    drafts = [
        Draft(entry=one.entry, turn=turn, channel=one.channel, parent=one.id)
        for one in sorted(found, key=lambda line: line.ts)
        if known.isdisjoint((one.id, one.parent)) and isinstance(one.entry, FilesRestored)
    ]
    return len(context.transcript.append_all(drafts)) if drafts else 0


def _put_back_since(history: History, window: Sequence[Line], home: Places) -> list[Line]:
    """What was done to files of these turns in the session that a fork comes from, and where that
    one comes from: it may lie idle and not have heard of it."""
    if not window or (origin := _origin(history, home)) is None:
        return []
    point, where = origin
    with contextlib.suppress(MindstoneError, OSError), History(where) as theirs:
        if theirs.line(point.seq).hash != point.hash:  # another history of that name
            return []
        since = any(True for _ in theirs.newest(("files_restored",), theirs.head.seq - point.seq))
        found = _files_put_back(theirs, window, 0) if since else []
        # Later turns there only have the numbers of turns in the session before.
        older = {line.turn for line in copies_in(theirs)}
        earlier = _put_back_since(theirs, [one for one in window if one.turn in older], home)
        heard = {one.parent for one in found}
        return [*found, *(one for one in earlier if one.id not in heard)]
    return []


def _jobs_ended(history: History, window: Sequence[Line]) -> Iterator[Line]:
    """How jobs ended, until now, that these turns began: their results say that they run."""
    turns = {line.turn for line in window}
    begun: set[int] = set()
    ends = history.newest(("job_started", "job_ended"), history.head.seq)
    for line in reversed(list(ends)):
        match line.entry:
            case derived.JobStarted(job=job):
                begun = begun | {job} if line.turn in turns else begun - {job}
            case derived.JobEnded(job=job) if job in begun or (line.parent and line.turn in turns):
                begun.discard(job)
                yield line


def _with_verdicts(history: History, lines: Sequence[Line]) -> list[Line]:
    """The lines, none of them altered, and what was judged of two: that one replaces the other."""
    _require_as_written(lines, history.places.key)
    kept = {line.seq: line for line in lines if not isinstance(line.entry, Unknown)}
    for line in history.newest(("statement_superseded",), history.head.seq):
        match line.entry:
            case derived.StatementSuperseded(statement=old, by=new) if {old, new} <= kept.keys():
                kept[line.seq] = line
    return [kept[seq] for seq in sorted(kept)]


def _copies(lines: Sequence[Line]) -> Iterator[Draft]:
    """Lines of the parent as the fork writes them: each names the one it came from.

    A verdict is the fork's own, and so is the change of a memory that follows from one: they name
    lines by their numbers, which are others there, and stand in the turn of the correction: the one
    in which they were made may not be in the fork. What was answered before is no proposal or offer
    of the fork's.
    """
    turns = {line.seq: line.turn for line in lines}
    last = max((one.turn for one in lines if not isinstance(one.entry, _SINCE)), default=0)

    def turn_of(line: Line) -> int:
        match line.entry:
            case derived.StatementSuperseded(by=by) | derived.MemoryProposed(sources=(*_, by)):
                return turns[by]
            case FilesRestored() | derived.JobEnded():  # in a later turn than the fork has, perhaps
                return min(line.turn, last)
        return line.turn

    ordered = sorted(lines, key=turn_of)
    placed = {line.seq: at for at, line in enumerate(ordered, _BEFORE_COPIES)}
    for line in ordered:
        assert not isinstance(line.entry, Unknown)
        entry, parent = conversation.without_usage(line.entry), line.id
        if isinstance(entry, derived.StatementSuperseded):
            old, new = placed[entry.statement], placed[entry.by]
            entry, parent = msgspec.structs.replace(entry, statement=old, by=new), ""
        elif isinstance(entry, derived.MemoryProposed):
            made, by, parent = f"m{placed[line.seq]}", placed[entry.sources[-1]], ""
            why, who = f"corrected in line {by}", f"{derived.BY_CORRECTION}{by}"
            entry = msgspec.structs.replace(entry, proposal=made, sources=(by,), by=who, why=why)
        elif isinstance(entry, derived.MemoryDecided):
            entry = msgspec.structs.replace(entry, proposal=f"{line.session} {entry.proposal}")
        elif isinstance(entry, derived.OfferAnswered):
            entry = msgspec.structs.replace(entry, offer=0)
        turn, came = turn_of(line), parent or None
        yield Draft(entry=entry, turn=turn, channel=line.channel, ts=line.ts, parent=came)


def _aside(child: SessionPlaces) -> SessionPlaces:
    """Where a session is made before it has its name; what was cut off there earlier goes."""
    folder = child.folder.with_name(f".forking-{child.folder.name}")
    shutil.rmtree(folder, ignore_errors=True)
    return SessionPlaces(child.key, folder, child.library)


def offline_name(main: str, parent: str) -> str:
    """What the fork of a session is called that goes on while its server is away."""
    return f"{main}{_AT}{parent[:_SHOWN_OF_HASH]}"


def is_offline_fork(places: SessionPlaces) -> bool:
    """Whether a session began as such a fork: its name and its header must say the same."""
    main, at, _ = places.key.main.rpartition(_AT)
    if not at:
        return False
    with History(places) as history:
        entry = history.header.entry
    parent = entry.forked_from if isinstance(entry, conversation.SessionOpened) else None
    return parent is not None and places.key.main == offline_name(main, parent.hash)


def leaves_a_copy(own: SessionPlaces) -> bool:
    """Whether there is something to go on from; the empty file of what never began is removed."""
    try:
        if own.transcript.stat().st_size > 0:
            return True
        own.transcript.unlink()
        own.folder.rmdir()
    except OSError:
        pass  # there is no such file, or the folder holds something else
    return False


def while_away(own: SessionPlaces, waits: str = "") -> str:
    """What can be done about a session that could not be opened without its server."""
    if own.transcript.exists():
        return (
            f"Nothing was begun. {waits}`mindstone log`, `recall` and `replay` read the copy here; "
            'with history.offline = "fork" work goes on in a fork.'
        )
    return (
        "Nothing was begun, and this machine has no copy of the session. Open one that `mindstone "
        "sessions` lists, or begin one in files with MINDSTONE_HISTORY__URL= before the command; "
        "`mindstone history push` puts it on the server later."
    )


def push_forks(home: Places, history: HistorySettings) -> list[str]:
    """Put the forks on their server that went on while it was away; which these are."""
    done: list[str] = []
    for own in home.sessions():
        if _AT in own.key.main and not own.server.exists() and history.address_for(own.key):
            with contextlib.suppress(MindstoneError, OSError):  # the next opening tries again
                if is_offline_fork(own) and push_fork(own, home, history):
                    done.append(str(own.key))
    return done


def push_fork(places: SessionPlaces, home: Places, history: HistorySettings) -> bool:
    """Put a fork on the server that it could not be put on when it began; False if it is there."""
    from mindstone_tui.core.shared.copies import open_store, push  # psycopg: 0.15 s

    store = open_store(history, places.key)
    if store is None:
        return False
    with contextlib.closing(store):
        known = store.find(places.key)
        head = push(home, store, places.key, lambda done, total: None)
    return known is None or known.head != head


def _same_model(
    context: TurnContext, channel: str, outside: Outside, shown: Collection[int], left: str
) -> Draft:
    """The fork answers with the model of the session it came from, which keeps what is outside.

    What turns `left` that are not in the fork is told with that.
    """
    target = context.target
    tools = {tool.name for tool in context.window.fold.tools}
    # What was rewound there is nowhere here.
    state = WindowState(through=0, outside=msgspec.structs.replace(outside, rewound=()))
    marker = marker_text(outside, shown, tools, "the parent session's")
    entry = ModelChanged(
        model=target.model,
        state=state,
        window=target.window,
        window_label=target.label,
        marker="\n".join(filter(None, (marker if context.settings.context.marker else "", left))),
    )
    return Draft(entry=entry, turn=0, channel=channel)


def _story_of(history: History, window: Sequence[Line]) -> list[Line]:
    """No part of a window, but of the story: where turns begin and end, and what was called.

    Without its end a turn would be taken for one that was interrupted.
    """
    shown = {
        line.entry.call for line in window if isinstance(line.entry, conversation.ToolReturned)
    }
    found: list[Line] = []
    for turn in sorted({line.turn for line in window}):
        for line in history.turn(turn):
            match line.entry:
                case conversation.TurnStarted() | conversation.TurnEnded():
                    found.append(line)
                case conversation.ToolCalled(call=call) if call in shown:
                    found.append(history.whole(line))
                case _:
                    pass
    return found


def _work_under_way(history: History, window: Sequence[Line], through: int) -> list[Line]:
    """What the head of the prompts said at a line: the task, its list and plan, and the notes.

    A note that something in the window corrected comes along: the fork may take that back. So does
    what that would change in a memory: the correction stands in the fork as well.
    """
    kinds = {kind.__struct_config__.tag: kind for kind in (*_WORK, derived.TaskDone, *_AROUND)}
    newest = history.newest([str(tag) for tag in kinds], history.head.seq + 1)
    known = [line for line in newest if line.seq <= through]
    rewinds = standings.Rewinds(known)
    # A verdict goes with the turn in which it was made: what it let go holds again.
    judged = [line for line in known if isinstance(line.entry, derived.StatementSuperseded)]
    gone = {line.seq for line in judged if rewinds.of_place(line.seq, line.turn) is not None}
    held = [line for line in known if line.seq not in gone and rewinds.of(line) is None]
    noted = {note.seq for note in recent_notes(held)}
    shown = {line.seq for line in window}
    verdicts = (pair for line in judged for pair in standings.superseded_in(line).items())
    noted |= {seq for seq, by in verdicts if by in shown}
    changes = [one for one in proposals_of(reversed(held)).values() if one.corrects]
    due = {one.seq for one in changes if not one.decision and one.entry.sources[-1] in shown}
    found = [
        history.whole(line)
        for line in held
        if line.seq in (noted if isinstance(line.entry, derived.NoteTaken) else due)
    ]
    running = list(takewhile(lambda line: not isinstance(line.entry, derived.TaskDone), held))
    first = min(shown, default=0)
    found += [line for line in held if line.seq > first and _is_a_no(line)]
    for kind in _WORK:
        found += [line for line in running if isinstance(line.entry, kind)][:1]
    return found


def _is_a_no(line: Line) -> bool:
    """Whether a person did not want words of the window kept, or not as they were."""
    entry = line.entry
    changed = isinstance(entry, derived.MemoryDecided) and entry.decision != "approved"
    return changed or (isinstance(entry, derived.OfferAnswered) and bool(entry.words))


def _window_after(
    history: History, now: Fold, found: Sequence[Line], *, room: int
) -> tuple[list[Line], Outside]:
    """The window after the lines of a turn: what is left of it now, or else as it stood then."""
    turn = found[-1].turn
    if any(line.turn == turn for line in now.lines.values()):
        return [line for line in now.lines.values() if line.turn <= turn], now.state.outside
    plans = plans_of_turn(history, turn)
    if not plans:
        return _back_from(history, found[-1], room)
    fold = fold_at(history, plans[-1])
    for line in found:
        if line.seq > fold.head:
            fold.add(history.whole(line))
    return list(fold.lines.values()), fold.state.outside


def _back_from(history: History, last: Line, room: int) -> tuple[list[Line], Outside]:
    """Whole exchanges up to a line whose turn never had a window planned, as many as fit."""
    fold = Fold(reader(history))
    taken: list[Line] = []
    left = tokens = 0
    for number in range(last.turn, 0, -1):
        found = (line for line in history.turn(number) if line.seq <= last.seq)
        exchange = [history.whole(line) for line in found]
        messages = [message for line in exchange if (message := said(line)) is not None]
        size = sum(rough_count(message.text) for message in messages)
        room -= size
        if left or (taken and room < 0):
            left, tokens = left + 1, tokens + size
        else:
            taken[:0] = exchange
    for line in taken:
        fold.add(line)
    return list(fold.lines.values()), Outside(exchanges=left, tokens=tokens)


def _kept_beside(lines: list[Line]) -> Iterator[str]:
    """Names of files that lines refer to: pictures, and the whole of a cut result."""
    for line in lines:
        match line.entry:
            case conversation.UserMessage(images=images):
                yield from (image.sha256 for image in images)
            case conversation.ToolReturned(full=full, images=images):
                yield from (image.sha256 for image in images)
                if full:
                    yield full
            case _:
                pass
