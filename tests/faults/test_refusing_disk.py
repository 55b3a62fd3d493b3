"""A disk that refuses: it is said at once, nothing later claims to be saved, nothing is lost."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Draft
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.errors import EntryNotSaved, MindstoneError
from mindstone_tui.core.transcript import Transcript, verify
from tests.builders import Counting, Ticking, places_in, transcript_in
from tests.faults import FULL, sized
from tests.faults.conftest import Tell
from tests.faults.story import entries, gists, lines_of, script

TURNS = sized(4, 6)
CALLS = ("open", "write", "sync", "truncate", "replace", "sync_folder", "make_folder")


class RefusingDisk(Disk):
    """Refuses the Nth call of one kind, once or from then on, until it is mended."""

    def __init__(self, call: str, number: int, code: int, lasting: bool, short: int = 0) -> None:
        self._call, self._left, self._code = call, number, code
        self._lasting, self._short = lasting, short
        self.refused = 0
        self.mended = False

    def _ask(self, call: str) -> None:
        if self.mended or call != self._call:
            return
        self._left -= 1
        if self._left == 0 or (self._left < 0 and self._lasting):
            self.refused += 1
            raise OSError(self._code, os.strerror(self._code))

    def open(self, path: Path, flags: int) -> int:
        self._ask("open")
        return super().open(path, flags)

    def write(self, fd: int, data: bytes) -> int:
        try:
            self._ask("write")
        except OSError:
            if self._short:
                return super().write(fd, data[: self._short])
            raise
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._ask("sync")
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._ask("truncate")
        super().truncate(fd, size)

    def replace(self, source: Path, target: Path) -> None:
        self._ask("replace")
        super().replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        self._ask("sync_folder")
        super().sync_folder(folder)

    def make_folder(self, folder: Path) -> None:
        self._ask("make_folder")
        super().make_folder(folder)


def _cases() -> Iterator[tuple[str, int, bool, int]]:
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
    for code in codes if FULL else (errno.ENOSPC, errno.EIO):
        for lasting in (False, True):
            for call in CALLS:
                yield call, code, lasting, 0
            for short in (1, 100, 400):
                yield "write", code, lasting, short


@pytest.mark.thorough
def test_whatever_is_refused_is_reported_and_on_disk_once_the_disk_is_mended(
    tmp_path: Path, tell: Tell
) -> None:
    tried = 0
    for call, code, lasting, short in _cases():
        for number in range(1, 10_000, sized(3, 1)):
            home = tmp_path / f"{call}-{code}-{lasting}-{short}-{number}"
            disk = RefusingDisk(call, number, code, lasting, short)
            _tell_story(home, disk, (call, errno.errorcode[code], lasting, short, number))
            if not disk.refused:
                break
            tried += 1
    assert tried >= sized(50, 500)
    tell("ENOSPC, EDQUOT, EIO, EFBIG, once and lasting", f"{tried:,}", "all said, all saved later")


def _tell_story(home: Path, disk: RefusingDisk, how: object) -> None:
    transcript = _opened(home, disk)
    for step in entries(TURNS, huge=False):
        drafts = [Draft(entry=entry, turn=turn, channel="test") for entry, turn in step]
        waiting = len(transcript.unsaved)
        try:
            lines = transcript.append_all(drafts)
        except EntryNotSaved:
            assert len(transcript.unsaved) >= len(drafts), how
            assert transcript.unsaved[-1].entry == drafts[-1].entry, how
            _assert_nothing_unsaved_is_visible(transcript, disk, how)
        else:
            assert not transcript.unsaved, how
            on_disk = transcript.places.transcript.read_bytes()
            assert all(line.raw + b"\n" in on_disk for line in lines), how
            assert len(lines) == len(drafts), (how, waiting)
    assert disk.mended or bool(transcript.unsaved) <= bool(disk.refused), how
    disk.mended = True
    transcript.save()
    assert not transcript.unsaved
    verdict = verify(transcript.places)
    assert verdict.ok, (how, verdict.problems[:2])
    with transcript.history() as history:
        assert gists(lines_of(history)) == script(TURNS, huge=False), how
    transcript.close()


def _assert_nothing_unsaved_is_visible(
    transcript: Transcript, disk: RefusingDisk, how: object
) -> None:
    """A reader sees no more than what was acknowledged, unless even taking back was refused."""
    if disk._call == "truncate" or disk._lasting:
        return
    with transcript.history() as history:
        found = gists(lines_of(history))
    assert len(found) + len(transcript.unsaved) <= len(script(TURNS, huge=False)), how


def _opened(home: Path, disk: RefusingDisk) -> Transcript:
    def attempt() -> Transcript:
        return Transcript(
            places_in(home), disk=disk, clock=Ticking(), entropy=Counting(), channel="test"
        )

    try:
        return attempt()
    except MindstoneError:
        disk.mended = True
        return attempt()


@pytest.mark.parametrize("call", ["write", "sync"])
def test_of_an_append_in_many_writes_each_entry_is_on_disk_or_unsaved_and_none_is_both(
    tmp_path: Path, call: str
) -> None:
    said = [f"{number} " + "x" * (number * 331 % 900) for number in range(24)]
    drafts = [Draft(entry=UserMessage(text=text), turn=1, channel="test") for text in said]
    refused = 0
    for number in range(2, 10_000):
        disk = RefusingDisk(call, number, errno.ENOSPC, lasting=True)
        transcript = Transcript(places_in(tmp_path / str(number)), disk=disk)
        transcript.longest_write = 4 << 10
        try:
            assert len(transcript.append_all(drafts)) == len(drafts)
        except EntryNotSaved:
            refused += 1
        waiting = [draft.entry.text for draft in transcript.unsaved]  # type: ignore[attr-defined]
        assert _texts(transcript) + waiting == said
        disk.mended = True
        transcript.append(UserMessage(text="after it"), turn=1)
        assert _texts(transcript) == [*said, "after it"]
        assert verify(transcript.places).ok
        transcript.close()
        if not disk.refused:
            break
    assert refused >= 8, "it was one write, so nothing is proven"


def _texts(transcript: Transcript) -> list[str]:
    with transcript.history() as history:
        lines = lines_of(history)
    return [line.entry.text for line in lines if isinstance(line.entry, UserMessage)]


def test_a_refused_entry_can_be_rescued_to_another_place(home: Path, tmp_path: Path) -> None:
    disk = RefusingDisk("write", 2, errno.ENOSPC, lasting=True)
    transcript = transcript_in(home, disk=disk)
    with pytest.raises(EntryNotSaved, match="NOT SAVED") as refusal:
        transcript.append(UserMessage(text="do not lose me"), turn=1)
    assert refusal.value.remedy
    rescued = transcript.rescue(tmp_path / "elsewhere")
    assert rescued is not None
    assert b"do not lose me" in rescued.read_bytes()
    assert rescued.stat().st_mode & 0o777 == 0o600


def test_an_entry_that_can_never_fit_does_not_block_those_after_it(home: Path) -> None:
    transcript = transcript_in(home)
    monster = UserMessage(text="x", images=tuple([_image()] * 12_000))
    with pytest.raises(MindstoneError, match="does not fit"):
        transcript.append(monster, turn=1)
    assert not transcript.unsaved
    transcript.append(UserMessage(text="next"), turn=1)
    assert verify(transcript.places).ok


def _image() -> Any:
    from mindstone_tui.core.entries import Image

    return Image(sha256="0" * 64, media_type="image/png", width=1, height=1)


def test_a_true_short_write_is_taken_back(
    home: Path, file_size_limit: Callable[[int], None]
) -> None:
    transcript = transcript_in(home)
    transcript.append(UserMessage(text="small"), turn=1)
    before = transcript.places.transcript.read_bytes()
    file_size_limit(len(before) + 900)
    with pytest.raises(EntryNotSaved):
        transcript.append(UserMessage(text="y" * 5_000), turn=1)
    assert transcript.places.transcript.read_bytes() == before
    file_size_limit(resource.RLIM_INFINITY)
    transcript.append(UserMessage(text="after"), turn=1)
    texts = [getattr(line.entry, "text", "")[:5] for line in lines_of(transcript.history())]
    assert texts[-3:] == ["small", "yyyyy", "after"]
