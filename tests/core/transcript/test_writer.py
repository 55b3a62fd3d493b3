"""The transcript against a plain list: whatever happens, what was acknowledged stands in order."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mindstone_tui.core.entries import Draft
from mindstone_tui.core.entries.conversation import ToolReturned, UserMessage
from mindstone_tui.core.transcript import Follower, Transcript, verify
from mindstone_tui.core.transcript.file import LONGEST_WRITE
from tests.builders import places_in
from tests.faults import sized
from tests.faults.story import lines_of


class TranscriptModel(RuleBasedStateMachine):
    """Two writers, a follower, crashes, lost caches, replaced files."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.said: list[str] = []
        self.followed: list[str] = []
        self.writers = [self._open(0), self._open(1)]
        self.follower = Follower(places_in(self.home))

    def _open(self, who: int) -> Transcript:
        """The second writer needs several writes for what the first one has room for in one."""
        opened = Transcript(places_in(self.home), channel="test")
        opened.longest_write = (LONGEST_WRITE, 3 << 10)[who]
        return opened

    @rule(who=st.integers(0, 1), text=st.text(max_size=300))
    def append(self, who: int, text: str) -> None:
        line = self.writers[who].append(UserMessage(text=text), turn=1)
        self.said.append(line.hash)

    @rule(who=st.integers(0, 1), texts=st.lists(st.text(max_size=50), max_size=9))
    def append_several(self, who: int, texts: list[str]) -> None:
        drafts = [Draft(entry=UserMessage(text=text), turn=1, channel="test") for text in texts]
        lines = self.writers[who].append_all(drafts)
        assert len(lines) == len(texts)
        self.said += [line.hash for line in lines]

    @rule(who=st.integers(0, 1))
    def append_a_huge_one(self, who: int) -> None:
        entry = ToolReturned(call="c", name="read", text="0123456789" * 110_000)
        self.said.append(self.writers[who].append(entry, turn=1).hash)

    @rule(who=st.integers(0, 1))
    def reopen(self, who: int) -> None:
        self.writers[who].close()
        self.writers[who] = self._open(who)

    @rule(who=st.integers(0, 1), torn=st.binary(min_size=1, max_size=60))
    def crash(self, who: int, torn: bytes) -> None:
        """A writer dies in the middle of a line."""
        with places_in(self.home).transcript.open("ab") as file:
            file.write(b'{"v":1,' + torn.replace(b"\n", b""))
        self.writers[who].close()
        self.writers[who] = self._open(who)

    @rule()
    def lose_the_offsets(self) -> None:
        places_in(self.home).offsets.unlink(missing_ok=True)

    @rule(junk=st.binary(max_size=40))
    def spoil_the_offsets(self, junk: bytes) -> None:
        places_in(self.home).offsets.write_bytes(junk)

    @rule()
    def replace_the_file(self) -> None:
        """A backup tool puts a copy in its place."""
        path = places_in(self.home).transcript
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        os.replace(copy, path)  # noqa: PTH105 (the call that such tools make)

    @rule()
    def follow(self) -> None:
        self.followed += [line.hash for line in self.follower.poll() if hasattr(line, "hash")]

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def look_one_up(self, data: st.DataObject) -> None:
        with self.writers[0].history() as history:
            lines = lines_of(history)
            wanted = data.draw(st.sampled_from(lines))
            assert history.line(wanted.seq) == wanted
            assert history.find(wanted.id) == wanted
            assert list(history.back())[::-1] == lines

    @invariant()
    def what_was_acknowledged_stands_in_order(self) -> None:
        with self.writers[0].history() as history:
            lines = lines_of(history)
        hashes = [line.hash for line in lines]
        known = set(self.said)
        assert [digest for digest in hashes if digest in known] == self.said
        assert [line.seq for line in lines] == list(range(len(lines)))

    def teardown(self) -> None:
        self.follow()
        for writer in self.writers:
            writer.close()
        last = self._open(0)
        verdict = verify(last.places)
        assert verdict.ok, verdict.problems
        known = set(self.said)
        assert [digest for digest in self.followed if digest in known] == self.said
        last.close()
        self.follower.close()
        shutil.rmtree(self.home)


TranscriptModel.TestCase.settings = settings(
    max_examples=sized(15, 400), stateful_step_count=sized(20, 50), deadline=None
)
TestTranscriptModel = TranscriptModel.TestCase
