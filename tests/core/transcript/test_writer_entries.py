"""What a writer writes, keeps when it cannot, and hands in again: each promise by itself."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Draft, Entry, Line
from mindstone_tui.core.entries.conversation import ForkPoint, ToolReturned, UserMessage
from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.errors import (
    EntryNotSaved,
    HistoryAway,
    LeaseLost,
    MindstoneError,
    UsageError,
)
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript import Transcript, verify
from mindstone_tui.core.transcript.history_store import FileStore, Grant
from mindstone_tui.core.transcript.reader import Head, readable
from tests.builders import Counting, Ticking, places_in

KEY = SessionKey.parse("main")


def opened(home: Path, **more: Any) -> Transcript:
    given: dict[str, Any] = {"clock": Ticking(), "entropy": Counting(), "channel": "test", **more}
    return Transcript(places_in(home), **given)


def drafts(*texts: str, turn: int | None = 1) -> list[Draft]:
    return [Draft(entry=UserMessage(text=text), turn=turn, channel="test") for text in texts]


def lines_in(transcript: Transcript) -> list[Line]:
    with transcript.history() as history:
        return [line for line in history.read() if isinstance(line, Line)]


def said(transcript: Transcript) -> list[str]:
    return [one.entry.text for one in lines_in(transcript) if isinstance(one.entry, UserMessage)]


class FickleDisk(Disk):
    """Refuses calls of some kinds while it is told to, and counts what was written."""

    def __init__(self) -> None:
        self.refuses: set[str] = set()
        self.writes: list[bytes] = []
        self.syncs = 0

    def _ask(self, call: str) -> None:
        if call in self.refuses:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, fd: int, data: bytes) -> int:
        self._ask("write")
        self.writes.append(data)
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._ask("sync")
        self.syncs += 1
        super().sync(fd)

    def open(self, path: Path, flags: int) -> int:
        if flags & os.O_WRONLY:
            self._ask("new file")
        return super().open(path, flags)


def test_a_new_session_begins_with_a_header_that_says_what_it_is(home: Path) -> None:
    fork = ForkPoint(session="agent:default:other", seq=3, hash="0" * 64)
    transcript = opened(home, forked_from=fork)
    (header,) = lines_in(transcript)
    entry: Any = header.entry
    assert (header.seq, header.turn, header.session) == (0, 0, "agent:default:main")
    assert (entry.agent, entry.main, entry.forked_from) == ("default", "main", fork)
    assert entry.program.startswith("mindstone ")
    assert len(bytes.fromhex(entry.salt)) == 16
    assert transcript.head == Head(0, header.hash)
    assert transcript.size == transcript.places.transcript.stat().st_size
    again = opened(home)
    assert [line.kind for line in lines_in(again)] == ["session_opened"]


def test_each_line_says_where_it_stands_and_what_it_follows(home: Path) -> None:
    transcript = opened(home)
    first = transcript.append(UserMessage(text="one"), turn=3, parent="p")
    second = transcript.append(
        ToolReturned(call="c", name="x", text="two"), ts="2020-02-02T00:00:00Z"
    )
    several = transcript.append_all(drafts("three", "four", turn=None))
    lines = [first, second, *several]
    assert lines == lines_in(transcript)[1:]
    assert [line.seq for line in lines] == [1, 2, 3, 4]
    assert [line.turn for line in lines] == [3, 3, 3, 3]
    assert [line.role for line in lines] == ["user", "tool", "user", "user"]
    assert [line.prev for line in lines[1:]] == [line.hash for line in lines[:-1]]
    assert (first.parent, second.parent) == ("p", None)
    assert second.ts == "2020-02-02T00:00:00Z" != first.ts
    assert len({line.id for line in lines}) == 4
    assert [line.id for line in lines] == sorted(line.id for line in lines)
    assert {line.channel for line in lines} == {"test"}
    batches = [msgspec.json.decode(line.raw).get("batch") for line in lines]
    assert batches == [None, None, 3, 3], "what was written at once says with what"
    assert (transcript.last_turn, transcript.head) == (3, Head(4, lines[-1].hash))
    assert transcript.size == transcript.places.transcript.stat().st_size
    assert verify(transcript.places).ok


@pytest.mark.parametrize(("longest", "writes"), [(1 << 20, 1), (3 << 10, 3), (1, 6)])
def test_several_lines_take_as_few_writes_and_syncs_as_may_be(
    home: Path, longest: int, writes: int
) -> None:
    """A line counts with a kilobyte for what stands around it."""
    disk = FickleDisk()
    transcript = opened(home, disk=disk)
    transcript.longest_write = longest
    disk.writes.clear()
    disk.syncs = 0
    transcript.append_all(drafts(*"abcdef"))
    assert (len(disk.writes), disk.syncs) == (writes, writes)
    assert said(transcript) == [*"abcdef"]
    long = transcript.append_all(drafts("x" * 5_000, "y"))
    assert len(long) == 2
    assert len(disk.writes) == writes + (1 if writes == 1 else 2)


@pytest.mark.parametrize("call", ["write", "sync"])
def test_what_the_disk_refuses_is_kept_and_written_before_anything_later(
    home: Path, call: str
) -> None:
    disk = FickleDisk()
    transcript = opened(home, disk=disk)
    transcript.append(UserMessage(text="before"), turn=1)
    head, size = transcript.head, transcript.size
    disk.refuses = {call}
    for number, text in enumerate(("one", "two"), 1):
        with pytest.raises(EntryNotSaved, match="NOT SAVED"):
            transcript.append(UserMessage(text=text), turn=4 + number)
        assert len(transcript.unsaved) == number
        assert transcript.last_turn == 4 + number
    assert [draft.entry for draft in transcript.unsaved] == [
        UserMessage(text="one"),
        UserMessage(text="two"),
    ]
    assert (transcript.head, transcript.size) == (head, size)
    disk.refuses = set()
    line = transcript.append(UserMessage(text="three"), turn=7)
    assert line.entry == UserMessage(text="three")
    assert transcript.unsaved == ()
    assert said(transcript) == ["before", "one", "two", "three"]
    assert [one.turn for one in lines_in(transcript)] == [0, 1, 5, 6, 7]
    assert transcript.save() == []
    assert verify(transcript.places).ok


def test_of_several_writes_those_that_were_done_are_not_done_again(home: Path) -> None:
    disk = FickleDisk()
    transcript = opened(home, disk=disk)
    transcript.longest_write = 1
    written = disk.write

    def twice(fd: int, data: bytes) -> int:
        if b'"text":"c"' in data:
            disk.refuses = {"write"}
        return written(fd, data)

    disk.write = twice  # type: ignore[method-assign]
    with pytest.raises(EntryNotSaved):
        transcript.append_all(drafts(*"abcd"))
    assert [draft.entry.text for draft in transcript.unsaved] == ["c", "d"]  # type: ignore[attr-defined]
    disk.write = written  # type: ignore[method-assign]
    disk.refuses = set()
    assert [line.entry.text for line in transcript.save()] == ["c", "d"]  # type: ignore[union-attr]
    assert said(transcript) == [*"abcd"]


def test_a_disk_without_room_for_a_blob_refuses_the_line_that_would_name_it(home: Path) -> None:
    disk = FickleDisk()
    transcript = opened(home, disk=disk)
    disk.refuses = {"new file"}
    with pytest.raises(EntryNotSaved):
        transcript.append(UserMessage(text="long " * 300_000), turn=1)
    assert len(transcript.unsaved) == 1
    assert len(lines_in(transcript)) == 1
    disk.refuses = set()
    (line,) = transcript.save()
    assert line.blobs
    assert verify(transcript.places).ok


def test_an_entry_that_never_fits_stands_in_nobodys_way(home: Path) -> None:
    transcript = opened(home)
    with pytest.raises(MindstoneError):
        transcript.append_all([*drafts("a"), Draft(entry=_endless(), turn=1, channel="test")])
    assert [draft.entry for draft in transcript.unsaved] == [UserMessage(text="a")]
    transcript.append(UserMessage(text="b"), turn=1)
    assert said(transcript) == ["a", "b"]


def _endless() -> Entry:
    return RecallInjected(passages=(), text="", tokens=0, elapsed=float("inf"))


def test_what_is_unsaved_is_rescued_to_one_file_until_it_is_saved(
    home: Path, tmp_path: Path
) -> None:
    disk = FickleDisk()
    transcript = opened(home, disk=disk, clean=lambda text: text.replace("secret", "•••"))
    assert transcript.clean("a secret") == "a •••"
    folder = tmp_path / "rescued"
    folder.mkdir()
    assert transcript.rescue(folder) is None
    disk.refuses = {"write"}
    with pytest.raises(EntryNotSaved):
        transcript.append(UserMessage(text="a secret"), turn=4)
    path = transcript.rescue(folder, [UserMessage(text="never taken in")])
    assert path is not None
    assert path.name.startswith("unsaved-20260101T")
    told = [msgspec.json.decode(raw) for raw in path.read_bytes().splitlines()]
    assert [(one["kind"], one["turn"], one["text"]) for one in told] == [
        ("user_message", 4, "a •••"),
        ("user_message", None, "never taken in"),
    ]
    assert all(one["ts"].startswith("2026-01-01T") for one in told)
    disk.refuses = set()
    transcript.save()
    assert transcript.rescue(folder) is None
    assert list(folder.iterdir()) == []
    only = transcript.rescue(folder, [UserMessage(text="x" * 2_000_000)])
    assert only is not None
    assert len(list((folder / "blobs").iterdir())) == 1


@pytest.mark.parametrize("call", ["write", "sync", "new file"])
def test_a_disk_that_refuses_the_header_is_told_of_and_looked_at_again(
    home: Path, call: str
) -> None:
    disk = FickleDisk()
    disk.refuses = {call}
    if call != "new file":
        with pytest.raises(EntryNotSaved, match="NOT SAVED"):
            opened(home, disk=disk)
    disk.refuses = set()
    transcript = opened(home, disk=disk)
    transcript.append(UserMessage(text="a"), turn=1)
    with transcript.places.transcript.open("ab") as file:
        file.write(b"torn")
    disk.refuses = {call}
    with pytest.raises(EntryNotSaved, match="NOT SAVED"):
        transcript.look()
    disk.refuses = set()
    transcript.look()
    transcript.append(UserMessage(text="b"), turn=1)
    assert said(transcript) == ["a", "b"]
    assert verify(transcript.places).ok


def test_a_session_that_is_only_opened_is_not_made(home: Path) -> None:
    with pytest.raises(MindstoneError):
        opened(home, create=False)
    assert not places_in(home).folder.exists()


def replace_the_file(transcript: Transcript) -> None:
    path = transcript.places.transcript
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


PLAN = PromptPlanned(call=1, at=-1, through=1, spans=(), model="m", window=9_000, reserve=7)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_line_leans_on_others_only_in_the_file_in_which_they_stand(
    home: Path, replaced: bool
) -> None:
    transcript = opened(home)
    words = "the boat lies in the harbour of Bergen"
    source = transcript.append(UserMessage(text=words), turn=1)
    full = transcript.append(PLAN, turn=1)
    passage = RecalledPassage(
        seq=source.seq,
        turn=1,
        score=1.0,
        tokens=9,
        session=source.session,
        entry=source.id,
        ts=source.ts,
        speaker="user",
        text=words,
    )
    recalled = RecallInjected(passages=(passage,), text=f"<{words}>", tokens=9)
    lean = msgspec.structs.replace(PLAN, call=2, like=full.seq)
    if replaced:
        replace_the_file(transcript)
    with transcript.history() as history:
        lines = transcript.append_all(
            [Draft(entry=entry, turn=2, channel="test") for entry in (*_plain(), recalled, lean)],
            lambda seq: readable(history, seq),
        )
    _, quoted, planned = lines
    assert (words.encode() in quoted.raw) is replaced
    assert isinstance(quoted.entry, RecallInjected)
    assert quoted.entry.leans is not replaced
    assert (b'"model":"m"' in planned.raw) is replaced
    assert isinstance(planned.entry, PromptPlanned)
    assert planned.entry.model == "m", "it is told whole in any case"
    assert planned.entry.like == (None if replaced else full.seq)
    with transcript.history() as history:
        whole = history.whole(history.line(quoted.seq)).entry
        assert isinstance(whole, RecallInjected)
        assert whole.text == f"<{words}>"
    kinds = [line.kind for line in lines_in(transcript)]
    assert ("file_replaced" in kinds) is replaced
    assert verify(transcript.places).ok


def _plain() -> tuple[Entry, ...]:
    return (UserMessage(text="nothing to lean on"),)


def test_what_another_writer_wrote_is_learned_by_looking(home: Path) -> None:
    one, other = opened(home), opened(home)
    line = one.append(UserMessage(text="a"), turn=5)
    assert other.head.seq == 0
    other.look()
    assert (other.head, other.last_turn) == (Head(line.seq, line.hash), 5)


class Server(FileStore):
    """A history elsewhere; its connection breaks before or behind what it is asked to keep."""

    name = "elsewhere"

    def __init__(self, folder: Path) -> None:
        super().__init__(Places.resolve({"MINDSTONE_HOME": str(folder)}))
        self.breaks = ""
        self.reads = 0
        self.closed = False
        self.grants: list[Grant | None] = []
        self.before: Callable[[], object] = lambda: None

    def read(self, key: SessionKey, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        self.reads += 1
        if self.breaks == "away":
            raise HistoryAway("elsewhere does not answer.")
        return iter([]) if self.find(key) is None else super().read(key, first, last)

    def append(
        self, key: SessionKey, lines: Sequence[bytes], after: Head, grant: Grant | None = None
    ) -> None:
        self.before()
        self.grants.append(grant)
        if self.breaks in ("away", "before"):
            raise HistoryAway("elsewhere does not answer.")
        if self.breaks == "lease":
            raise LeaseLost("NOT SAVED: another machine took over.")
        super().append(key, lines, after, grant)
        if self.breaks == "behind":
            self.breaks = "away"
            raise HistoryAway("elsewhere does not answer.")
        if self.breaks == "behind, once":
            self.breaks = ""
            raise HistoryAway("elsewhere does not answer.")

    def keep_blob(self, key: SessionKey, data: bytes) -> str:
        if self.breaks == "away":
            raise HistoryAway("elsewhere does not answer.")
        return super().keep_blob(key, data)

    def close(self) -> None:
        self.closed = True
        super().close()


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path / "server")


def kept(server: Server) -> list[str]:
    """What was said, as the server has it."""
    server.breaks = ""
    told = [msgspec.json.decode(raw) for raw in server.read(KEY)]
    return [one["text"] for one in told if one["kind"] == "user_message"]


@pytest.mark.parametrize("breaks", ["away", "behind", "behind, once"])
@pytest.mark.parametrize("count", [1, 3])
def test_wherever_the_connection_breaks_a_line_is_kept_once(
    home: Path, server: Server, breaks: str, count: int
) -> None:
    transcript = opened(home, upstream=server)
    transcript.append(UserMessage(text="first"), turn=1)
    texts = [f"{number}" for number in range(count)]
    server.breaks = breaks
    if breaks == "behind, once":
        lines = transcript.append_all(drafts(*texts))
        assert len(lines) == count
    else:
        with pytest.raises(EntryNotSaved, match="NOT SAVED: elsewhere does not answer") as refused:
            transcript.append_all(drafts(*texts))
        assert refused.value.remedy
        assert len(transcript.unsaved) == count
        with pytest.raises(EntryNotSaved, match="NOT SAVED: elsewhere"):
            transcript.look()
        transcript.look(fetch=False)
    server.breaks = ""
    line = transcript.append(UserMessage(text="last"), turn=2)
    assert isinstance(line.entry, UserMessage)
    assert line.entry.text == "last"
    assert transcript.unsaved == ()
    assert kept(server) == said(transcript) == ["first", *texts, "last"]
    assert verify(transcript.places).ok


def test_what_others_wrote_in_between_comes_first(
    home: Path, tmp_path: Path, server: Server
) -> None:
    transcript = opened(home, upstream=server)
    other = opened(tmp_path / "other home", upstream=Server(tmp_path / "server"))
    others = iter(["x", "y"])

    def write() -> None:
        if (text := next(others, None)) is not None:
            other.append(UserMessage(text=text), turn=1)

    server.before = write
    transcript.append_all(drafts("a", "b"))
    assert kept(server) == said(transcript) == ["x", "y", "a", "b"]
    other.append(UserMessage(text="z"), turn=9)
    asked = server.reads
    transcript.look(fetch=False)
    assert (server.reads, transcript.last_turn) == (asked, 1)
    transcript.look()
    assert transcript.last_turn == 9
    assert said(transcript) == said(other)


def test_two_machines_that_begin_a_session_at_once_share_one_header(
    home: Path, tmp_path: Path, server: Server
) -> None:
    begun: list[Transcript] = []

    def begin() -> None:
        if not begun:
            begun.append(opened(tmp_path / "other home", upstream=Server(tmp_path / "server")))

    server.before = begin
    transcript = opened(home, upstream=server)
    assert [line.hash for line in lines_in(transcript)] == [
        line.hash for line in lines_in(begun[0])
    ]


def test_what_belongs_to_a_turn_that_was_taken_over_is_never_written(
    home: Path, tmp_path: Path, server: Server
) -> None:
    transcript = opened(home, upstream=server)
    grant = Grant(holder="me", epoch=1, seconds=9)
    transcript.hold(grant)
    server.breaks = "lease"
    with pytest.raises(LeaseLost):
        transcript.append_all(drafts("a", "b"))
    assert server.grants[-1] == grant
    transcript.hold(None)
    assert transcript.unsaved == ()
    server.breaks = ""
    transcript.append(UserMessage(text="c"), turn=2)
    assert server.grants[-1] is None
    assert kept(server) == ["c"]
    path = transcript.rescue(tmp_path)
    assert path is not None
    told = [msgspec.json.decode(raw)["text"] for raw in path.read_bytes().splitlines()]
    assert told == ["a", "b"]


def test_a_blob_is_kept_here_and_there_before_a_line_names_it(home: Path, server: Server) -> None:
    transcript = opened(home, upstream=server)
    blob = transcript.keep_blob(b"bytes")
    assert blob.size == 5
    assert server.blob(KEY, blob.sha256) == b"bytes"
    server.breaks = "away"
    with pytest.raises(EntryNotSaved, match="NOT SAVED: elsewhere"):
        transcript.keep_blob(b"others")


def test_a_history_that_cannot_be_opened_is_let_go_of(home: Path, server: Server) -> None:
    opened(home).append(UserMessage(text="only here"), turn=1)
    with pytest.raises(UsageError, match="not at all"):
        opened(home, upstream=server)
    assert server.closed
    other = Server(home / "other")
    transcript = opened(home / "copy", upstream=other)
    assert not other.closed
    transcript.close()
    assert other.closed
