"""A power cut at any moment costs nothing that was acknowledged and invents nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindstone_tui.core.transcript import Transcript, verify
from mindstone_tui.core.transcript.file import LONGEST_WRITE
from tests.builders import Counting, Ticking, places_in
from tests.faults import sized
from tests.faults.conftest import Tell
from tests.faults.crashing_disk import Op, RecordingDisk, State, states_after
from tests.faults.story import gists, lines_of, script, told

TURNS = sized(6, 9)
TRANSCRIPT = "agents/default/sessions/main/transcript.jsonl"


class Recorded:
    """The operations of a story, and what was acknowledged after each of them."""

    def __init__(self, root: Path, longest_write: int = LONGEST_WRITE) -> None:
        self.disk = RecordingDisk(root)
        transcript = Transcript(
            places_in(root),
            disk=self.disk,
            clock=Ticking(),
            entropy=Counting(),
            channel="test",
        )
        transcript.longest_write = longest_write
        self.acknowledged: list[tuple[int, bytes]] = []
        path = transcript.places.transcript
        self._note(path)
        for _ in told(transcript, TURNS, huge=False):
            self._note(path)
        transcript.close()

    def _note(self, path: Path) -> None:
        self.acknowledged.append((len(self.disk.ops), path.read_bytes()))

    def sure_after(self, count: int) -> bytes:
        """The bytes that were acknowledged by the time of an operation."""
        return max(
            (content for at, content in self.acknowledged if at <= count), key=len, default=b""
        )

    @property
    def ops(self) -> list[Op]:
        return self.disk.ops


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, because a hundred thousand disks are laid out in it."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder)


@pytest.mark.thorough
@pytest.mark.parametrize("longest_write", [LONGEST_WRITE, 2 << 10], ids=["one write", "several"])
def test_every_state_a_power_cut_can_leave_keeps_what_was_acknowledged(
    memory: Path, tell: Tell, longest_write: int
) -> None:
    root = memory / "recorded"
    root.mkdir()
    recorded = Recorded(root, longest_write)
    expected = script(TURNS, huge=False)
    goal, cuts = sized(500, 100_000), sized(6, 4_000)
    tried = 0
    for count in range(len(recorded.ops) + 1):
        sure = recorded.sure_after(count)
        for state in states_after(recorded.ops, count, cuts):
            home = memory / "after"
            state.lay_out(home)
            _check(home, sure, expected, f"after operation {count}: {state.how}")
            shutil.rmtree(home, ignore_errors=True)
            tried += 1
    assert tried >= goal
    tell("power cut: states enumerated and recovered", f"{tried:,}", "0 acknowledged lines lost")


def test_a_power_cut_during_recovery_is_recovered_from(memory: Path, tell: Tell) -> None:
    root = memory / "recorded"
    root.mkdir()
    whole = Recorded(root).acknowledged[-1][1]
    others = {
        str(file.relative_to(root)): file.read_bytes()
        for file in root.rglob("*")
        if file.is_file() and file.name != "transcript.jsonl"
    }
    expected = script(TURNS, huge=False)
    last = whole.rindex(b"\n", 0, -1) + 1
    tried = 0
    for torn in (whole[:-9], whole[:last] + b'{"v":1,', whole[:last] + bytes(700), whole[:-1]):
        again = memory / "again"
        initial = State({**others, TRANSCRIPT: torn}, "torn")
        initial.lay_out(again)
        disk = RecordingDisk(again)
        Transcript(
            places_in(again), disk=disk, clock=Ticking(), entropy=Counting(), channel="test"
        ).close()
        shutil.rmtree(again)
        for count in range(len(disk.ops) + 1):
            for state in states_after(disk.ops, count, sized(10, 500), initial.files):
                home = memory / "after"
                state.lay_out(home)
                _check(home, whole[:last], expected, f"after operation {count}: {state.how}")
                shutil.rmtree(home, ignore_errors=True)
                tried += 1
    assert tried >= sized(100, 2_000)
    tell("power cut during recovery", f"{tried:,}", "0 acknowledged lines lost")


def _check(home: Path, sure: bytes, expected: list[str], how: str) -> None:
    found = home / TRANSCRIPT
    before = found.read_bytes() if found.exists() else b""
    transcript = Transcript(places_in(home), clock=Ticking(), entropy=Counting(), channel="test")
    after = transcript.places.transcript.read_bytes()
    assert after.startswith(sure), f"acknowledged lines are gone {how}"
    verdict = verify(transcript.places)
    assert verdict.ok, f"{verdict.problems[:2]} {how}"
    with transcript.history() as history:
        story = gists(lines_of(history))
    assert story == expected[: len(story)], f"something was invented {how}"
    common = len(_common_start(before, after))
    if common < len(before):
        copies = [copy.read_bytes() for copy in transcript.places.torn.iterdir()]
        assert before[common:] in copies or any(before.endswith(copy) for copy in copies), (
            f"a fragment was not kept {how}"
        )
    transcript.close()


def _common_start(one: bytes, other: bytes) -> bytes:
    """The whole lines that both begin with."""
    if other.startswith(one):
        return one
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if other.startswith(one[:middle]) else (low, middle - 1)
    return one[: one.rfind(b"\n", 0, low) + 1]
