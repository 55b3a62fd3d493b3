"""What a running turn has said so far, for whoever looks on, and for history if it is cut off.

A small file beside the transcript: a line for each piece of an answer, written before anybody is
shown it, never synced, gone with the turn. Whatever is in it is in the transcript a moment later;
if the program is killed before that, whoever comes next takes it from here (`session/recover.py`).
A word that still grows is held back until it is whole, so that a secret is recognised before any of
it is written; held back from every screen as well, so that nothing was ever shown that history does
not have.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, entries, errors, events, patterns, transcript, values
from mindstone_tui.core.entries.conversation import TurnEnded, TurnStarted, usage_in
from mindstone_tui.core.library.lease import Lease
from mindstone_tui.core.text import one_line, plural

EVERY: Final = 0.1
"""Seconds between two looks at the file, and between two times that it is written."""
_SHORT: Final = 16_000
"""Characters up to which each new word is written at once; a longer answer is written now and then,
as it is searched for secrets whole each time: the more of it there is, the less often."""
_LONG: Final = 500_000
_ANY_CALL: Final = 1 << 30
_WHOLE: Final = patterns.pattern_of(r"[^!-\x7f\x00-\x08\x0e-\x1b]")
"""Behind one of these, no secret goes on."""


_BEHIND: Final = (
    "“{}” was queued behind the running turn. It is sent after it by the program that has it; "
    "if that one has ended, it stands in your prompt when you next open this session."
)


class AnswerSoFar(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """An answer as far as it has come, or in the file a piece of it."""

    turn: int
    call: int
    text: str
    at: int = 0
    """Where in the answer the piece begins."""


class DraftWriter(msgspec.Struct, eq=False):
    """Keeps the file for the turns of one session; whatever fails, the turn goes on."""

    _path: Path
    _clean: Callable[[str], str]
    _clock: Callable[[], float] = time.monotonic
    _turn: int = 0
    _call: int = 0
    _text: str = ""
    _whole: int = 0
    """How far the text consists of whole words."""
    _shown: int = 0
    """How far it was passed on."""
    _due: float = 0.0
    _written: bool = False
    _file: str = ""
    """What the file says of this call's answer."""

    def pass_on(self, event: events.AnyEvent) -> tuple[events.AnyEvent, ...]:
        """Take an event of the session's own turn in; returns what may be shown by now."""
        match event:
            case events.TurnStarted():
                self._written = True  # one that was killed may have left its own
                self.clear()
            case events.ModelCalled(turn=turn, call=call):
                self._turn, self._call, self._text = turn, call, ""
                self._whole = self._shown = 0
                self._due, self._file = 0.0, ""
            case events.TextDelta(text=text):
                before = len(self._text)
                self._text += text
                ends = (found.end() for found in _WHOLE.finditer(text))
                self._whole = max((before + end for end in ends), default=self._whole)
                if self._whole == self._shown or (before >= _SHORT and self._clock() < self._due):
                    return ()
                self._write()
                return self._rest(self._whole)
            case events.AnswerRecorded() | events.NotSaved():  # history has it, or cannot have it
                return (*self._rest(len(self._text)), event)
            case events.TurnEnded():
                self.clear()
                return (*self._rest(len(self._text)), event)
        return (event,)

    def _rest(self, end: int) -> tuple[events.AnyEvent, ...]:
        """What was not passed on yet of the text up to a place."""
        piece, self._shown = self._text[self._shown : end], end
        return (events.TextDelta(turn=self._turn, text=piece),) if piece else ()

    def clear(self) -> None:
        """Take the file away, if there is one of ours."""
        if self._written:
            self._written = False
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._due = self._clock() + EVERY * (1 + len(self._text) // _LONG)
        text = self._clean(self._text[: self._whole])
        # A secret may be recognised only when more of it is there: then nothing of it may stay.
        at = len(self._file) if self._file and text.startswith(self._file) else 0
        piece = AnswerSoFar(turn=self._turn, call=self._call, text=text[at:], at=at)
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        self._file = ""  # where this fails, the next time writes all of it
        with contextlib.suppress(OSError):
            how = os.O_APPEND if at else os.O_TRUNC
            fd = disk.REAL.open(self._path if at else fresh, os.O_WRONLY | os.O_CREAT | how)
            try:
                disk.write_all(fd, msgspec.json.encode(piece) + b"\n")
            finally:
                os.close(fd)
            if not at:
                fresh.replace(self._path)
            self._written, self._file = True, text


def read_draft(path: Path) -> AnswerSoFar | None:
    """What a file says of an answer; None when there is none, or nobody can read it.

    A last line that is not whole was never shown to anybody.
    """
    found: AnswerSoFar | None = None
    try:
        for raw in disk.read_regular(path).splitlines():
            piece = msgspec.json.decode(raw, type=AnswerSoFar)
            before = found.text[: piece.at] if found is not None else ""
            if len(before) < piece.at:
                return found
            found = msgspec.structs.replace(piece, text=before + piece.text, at=0)
    except (OSError, msgspec.MsgspecError):
        pass
    return found


def not_in_history(history: transcript.History) -> str:
    """One sentence about an answer that no line has yet: it arrives, or the program was killed."""
    if (arrived := read_draft(history.places.draft)) is None:
        return ""
    for line in history.turn(arrived.turn):
        if isinstance(line.entry, TurnEnded) or call_in(line) >= arrived.call:
            return ""
    return (
        f"{plural(len(arrived.text), 'character')} of an answer in turn {arrived.turn} "
        "are not in history yet: it still arrives, or it was cut off and the next start keeps it."
    )


def call_in(line: entries.Line) -> int:
    """Which call of its turn a line is the answer of; 0 if it is none."""
    report = usage_in(line.entry)
    return report.call if report is not None and not report.purpose else 0


class DraftReader:
    """What is new in the file, each piece once, and nothing that history has already."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = ""
        self._of = (0, 0)
        self._over = (0, 0)
        """The call whose answer is in history: nothing of it, or before it, is news."""
        self._stamp = (0, 0, 0)

    def settle(self, turn: int, call: int) -> None:
        """The answer of this call is in history."""
        self._over = max(self._over, (turn, call))

    def news(self) -> events.AnswerDrafted | None:
        """More of the answer; None when there is nothing to tell."""
        if (found := disk.status_of(self._path)) is None:
            return None
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if stamp == self._stamp or (draft := read_draft(self._path)) is None:
            return None
        self._stamp = stamp
        if (draft.turn, draft.call) <= self._over:
            return None
        if (draft.turn, draft.call) != self._of:
            self._of, self._seen = (draft.turn, draft.call), ""
        if not draft.text.startswith(self._seen) or draft.text == self._seen:
            return None  # something in it was blacked out since: the record will say it whole
        piece, self._seen = draft.text[len(self._seen) :], draft.text
        return events.AnswerDrafted(turn=draft.turn, text=piece)


class Onlooker:
    """Passes on what another surface's answer has come to, as it comes."""

    def __init__(self, path: Path, emit: Callable[[events.AnyEvent], None]) -> None:
        self._drafts = DraftReader(path)
        self._emit = emit
        self.running = asyncio.Event()
        """Set while another surface takes a turn."""

    def take_a_turn(self, lease: Lease, catch_up: Callable[[], None]) -> bool:
        """Whether one runs on another surface, and that one is still there."""
        if lease.held or not self.running.is_set():
            return False
        with contextlib.suppress(errors.MindstoneError):
            catch_up()
        if not lease.try_take():
            return self.running.is_set()
        lease.give_back()
        return False

    def begin(self, turn: int) -> None:
        """A turn runs elsewhere; what is left of an earlier one is no news."""
        self._drafts.settle(turn - 1, _ANY_CALL)
        self.running.set()

    def join(self, history: transcript.History, turn: int, waits: Mapping[str, str]) -> None:
        """A turn may run elsewhere, some of whose answers are in history already.

        What waits behind it is somebody else's, or that of a program that has ended: nobody can
        say which before the turn is over, so it is said that it waits.
        """
        for queued in waits.values():
            told = _BEHIND.format(one_line(queued, 80))
            self._emit(events.Noticed(message=told, level="info"))
        self.begin(turn)
        for line in history.turn(turn):
            self.hear(line)

    def hear(self, line: entries.Line) -> None:
        """Know from a line of others whether a turn runs, and what of it is in history."""
        match line.entry:
            case TurnStarted():
                self.begin(line.turn)
            case TurnEnded():
                self.running.clear()
            case _ if call := call_in(line):
                self._drafts.settle(line.turn, call)

    async def watch(self, may_tell: Callable[[], bool]) -> None:
        """Look again and again while a turn runs elsewhere, until this is cancelled."""
        while True:
            await self.running.wait()
            if may_tell() and (news := self._drafts.news()) is not None:
                self._emit(news)
            await asyncio.sleep(EVERY)
