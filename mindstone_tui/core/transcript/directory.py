"""What sessions there are, from the end of each transcript alone.

Thousands of sessions are listed without reading one of them whole: size, turns and the last thing
said all stand in a transcript's last few lines.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors, paths, patterns
from mindstone_tui.core.entries import Entry, Line, conversation, decode_line, provenance, standings
from mindstone_tui.core.entries.line import MAX_LINE, Malformed
from mindstone_tui.core.entries.window import InstructionsChanged
from mindstone_tui.core.language.replacement import left_of
from mindstone_tui.core.text import as_written, one_line
from mindstone_tui.core.transcript import encode, reader

_PLACE: Final = patterns.pattern_of(r"You work in (.{1,1000}) on \w+\.\Z")
_LATELY: Final = 30
"""Sessions in which earlier messages are looked for."""
_LOOKED_BACK: Final = 1_500
"""Lines of each."""
_MOST_SAID: Final = 200
"""Messages of all of them."""
_FIRST_LOOK: Final = 8 << 10
_LONGEST_LOOK: Final = 512 << 10
_SHOWN: Final = 400
_FIRST_REQUEST: Final = 64 << 10
_PUT_BEFORE: Final = patterns.pattern_of(
    r"\A\s*(?:<(system-reminder|command-[a-z]+|local-command-[a-z]+)>.*?</\1>\s*)+", re.DOTALL
)
_COMMAND: Final = patterns.pattern_of(r"\s*(?:/[a-z][\w:-]*(?:\s|\Z)|\Z)")
"""Bytes at the beginning in which the first request is looked for."""
LONGEST_TITLE: Final = 120
_REPLACES: Final = (b"statement_superseded", b"rewound")
_TOLD_BY: Final = frozenset(kind.encode() for kind in standings.CHANGES)


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One session at a glance."""

    session: str
    agent: str
    main: str
    size: int
    """Bytes of the transcript."""
    entries: int = 0
    turns: int = 0
    updated: str
    """When its newest line was written."""
    role: str = ""
    """Who spoke last: user or assistant; empty when nothing was said yet."""
    text: str = ""
    """How the last thing said begins."""
    marks: Sequence[str] = ()
    """How it stands,"""
    said: str = ""
    """and when that was said, by its speaker's clock."""
    title: str = ""
    """The name that a person gave it, else how its first request begins."""
    readable: bool
    """False when the end of the transcript cannot be read; `verify` says why."""


def list_sessions(places: paths.Places) -> list[SessionSummary]:
    """Every session, the one written to last first."""
    found = [summary for session in places.sessions() if (summary := _summarise(session))]
    return sorted(found, key=lambda summary: summary.updated, reverse=True)


def lately_used(home: paths.Places, newest: int = 0) -> list[paths.SessionPlaces]:
    """The sessions that people talk in, the one written to last first, or so many of them."""
    used: dict[paths.SessionPlaces, int] = {}
    for each in home.sessions():
        if paths.CHILD not in each.key.main:
            with contextlib.suppress(OSError):
                used[each] = each.transcript.stat().st_mtime_ns
    return sorted(used, key=lambda each: used[each], reverse=True)[: newest or None]


def place_of(entry: object) -> str:
    """The folder that a session works in, where an entry tells."""
    sections = entry.sections if isinstance(entry, InstructionsChanged) else ()
    told = [each.text for each in sections if each.name == "environment"]
    found = _PLACE.match(told[0]) if told else None
    return found[1] if found else ""


def said_in(home: paths.Places, folder: str, own: paths.SessionKey) -> list[str]:
    """What a person said lately in the sessions of a folder, oldest first; in their own last."""
    said: list[tuple[bool, str, str]] = []
    for places in lately_used(home, _LATELY):
        with contextlib.suppress(errors.MindstoneError, OSError), reader.History(places) as history:
            lines = list(history.newest(("user_message", "instructions_changed"), _LOOKED_BACK))
            if places.key == own or folder in {place_of(line.entry) for line in lines}:
                said += [
                    (places.key == own, line.ts, as_written(line.entry.text))
                    for line in lines
                    if isinstance(line.entry, conversation.UserMessage)
                    and not (line.parent or provenance.is_imported(line))
                ]
    return [text for _, _, text in sorted(said)[-_MOST_SAID:]]


def start_over(places: paths.SessionPlaces) -> Path:
    """Set aside what is left of a session whose transcript is gone; the folder it went to.

    Nothing is deleted, and a transcript that holds anything is never moved.
    """
    if not places.derived:
        raise errors.NoSuchSession(places.key)
    if os.path.lexists(places.transcript) and places.transcript.lstat().st_size:
        raise errors.UsageError(
            f"{places.key} has a transcript, and that is never set aside.",
            f"`mindstone verify --session {places.key}` says how it is.",
        )
    aside = places.lost / encode.timestamp(datetime.now(UTC)).replace(":", "")
    disk.ensure_folder(aside)
    try:
        for path in sorted(places.folder.iterdir()):
            if path not in (places.lost, places.lease, places.next_lease):
                path.rename(aside / path.name)
    except OSError as error:
        raise disk.place_error(aside, error) from error
    return aside


def _summarise(places: paths.SessionPlaces) -> SessionSummary | None:
    """One session's summary; None when it vanished meanwhile."""
    try:
        fd = disk.open_regular(places.transcript, follow=False)
    except FileNotFoundError:
        return None
    except OSError:
        return _unreadable(places, 0, "")
    try:
        status = os.fstat(fd)
        newest, spoken, marks = _look_back(fd, status.st_size)
        title = _title_of(places, fd)
    except OSError:
        return _unreadable(places, 0, "")
    finally:
        os.close(fd)
    if newest is None:
        touched = encode.timestamp(datetime.fromtimestamp(status.st_mtime, UTC))
        return _unreadable(places, status.st_size, touched)
    return SessionSummary(
        session=str(places.key),
        agent=places.key.agent,
        main=places.key.main,
        size=status.st_size,
        entries=newest.seq + 1,
        turns=newest.turn,
        updated=encode.written_at(newest.id) or newest.ts,
        role=spoken.role if spoken else "",
        said=spoken.ts if spoken else "",
        text=_text_of(spoken.entry)[:_SHOWN] if spoken and isinstance(spoken.entry, Entry) else "",
        marks=marks,
        readable=True,
        title=title,
    )


def _title_of(places: paths.SessionPlaces, fd: int) -> str:
    """What a person called it, else its first request, if that stands near its beginning.

    What was rewound or replaced is none, as far as what did so stands there or near the end.
    """
    with contextlib.suppress(OSError):
        if named := one_line(
            disk.read_regular(places.title).decode("utf-8", "replace"), LONGEST_TITLE
        ):
            return named
    first = copied = fork = ""
    begins = _beginning(fd)
    lines = list(_lines_back(begins, from_start=True))[::-1]
    lines += _changes_behind(fd, begins.rfind(b"\n") + 1)
    judged = standings.Standings(lines)
    for line in standings.not_rewound(lines) or lines:
        match line.entry:
            case conversation.SessionOpened(forked_from=conversation.ForkPoint(session=parent)):
                fork = f"fork of {parent.removeprefix('agent:default:')}: "
            case conversation.UserMessage(text=text):
                passed_over = (fork and line.parent) or judged.replaced_by(line.seq)
                gone = [one for part in judged.corrected_by(line.seq).values() for one in part]
                if (asked := _request_in(left_of(text, gone))) and not passed_over:
                    return one_line(fork + asked, LONGEST_TITLE)
                first, copied = first or text, copied or asked
    return one_line((fork + (copied or first)).removesuffix(": "), LONGEST_TITLE)


def _beginning(fd: int) -> bytes:
    """The first lines, with all of a message that begins among them."""
    head = os.pread(fd, _FIRST_REQUEST, 0)
    if reader.named_kind(head[head.rfind(b"\n") + 1 :]) == b"user_message":
        rest = os.pread(fd, MAX_LINE, len(head))
        head += rest[: rest.find(b"\n") + 1]
    return head


def _changes_behind(fd: int, begins: int) -> list[Line]:
    """What changed how lines stand, between the first lines and the end, as far as that is near."""
    start = max(begins, os.fstat(fd).st_size - _LONGEST_LOOK)
    end = os.pread(fd, _LONGEST_LOOK, start)
    if not any(b'"kind":"%s"' % kind in end for kind in _REPLACES):
        return []
    kept = (one for one in end.split(b"\n") if reader.named_kind(one) in _TOLD_BY)
    return list(_lines_back(b"\n".join(kept) + b"\n", from_start=True))[::-1]


def _request_in(said: str) -> str:
    """What a person asked in a message, without what programs put before it; no mere command."""
    asked = _PUT_BEFORE.sub("", said)
    return "" if _COMMAND.match(asked) else asked.strip()


def _unreadable(places: paths.SessionPlaces, size: int, updated: str) -> SessionSummary:
    return SessionSummary(
        session=str(places.key),
        agent=places.key.agent,
        main=places.key.main,
        size=size,
        updated=updated,
        readable=False,
    )


def _look_back(fd: int, size: int) -> tuple[Line | None, Line | None, list[str]]:
    """The newest line, and the newest in force in which somebody spoke, if it is near enough, with
    how that stands."""
    look = _FIRST_LOOK
    while True:
        start = max(0, size - look)
        newest, spoken, marks = None, None, list[str]()
        changes: list[Line] = []
        for line in _lines_back(os.pread(fd, size - start, start), start == 0):
            newest = newest or line
            judged = standings.Standings(reversed(changes))
            if _text_of(line.entry) and judged.rewinds.of(line) is None:
                spoken, marks = line, judged.told(line)
                break
            changes += [line] if line.kind in standings.CHANGES else []
        if spoken or start == 0 or look >= _LONGEST_LOOK:
            return newest, spoken, marks
        look *= 8


def _lines_back(tail: bytes, from_start: bool) -> Iterator[Line]:
    for piece in reversed(tail.split(b"\n")[0 if from_start else 1 : -1]):
        try:
            yield decode_line(piece)
        except Malformed:
            continue


def _text_of(entry: object) -> str:
    match entry:
        case (
            conversation.UserMessage(text=text)
            | conversation.AssistantMessage(text=text)
            | conversation.AssistantPartial(text=text)
        ):
            return text
        case _:
            return ""
