"""A store that is full lets the oldest turns go first, says so, and loses nothing to a crash."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from mindstone_tui.core.agent.undo import FileKeeper
from mindstone_tui.core.config.settings import UndoSettings
from mindstone_tui.core.entries.store import FilesLetGo
from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.tools.approvals import Approval
from mindstone_tui.core.tools.base import Preview
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.workspace import Workspace
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.steps import wanted
from tests.builders import transcript_in
from tests.core.undo.trees import picture
from tests.faults.crashing_disk import RecordingDisk, states_after
from tests.faults.file_keeper import put_back

LIMIT = 100_000
SIZE = 9_000


class Session:
    """A workspace whose turns rewrite files, with a small store."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.turn = 0
        self.pictures: list[dict[str, tuple[str, int, bytes]]] = []
        self.transcript = transcript_in(folder / "home")
        for number in range(3):
            (self.work / f"f{number}").write_bytes(b"%d first" % number * 1000)
        self.keeper = FileKeeper(
            self.transcript.places,
            Workspace((self.work,)),
            UndoSettings(store_bytes=LIMIT),
            history=self.transcript.history,
            record=lambda entry: self.transcript.append(entry, turn=self.turn),
        )

    async def change(self) -> None:
        """A turn that gives one file a content that nobody has seen."""
        self.turn += 1
        self.pictures.append(picture(self.work))
        watched = await self.keeper.before(SHELL, call(self.turn))
        (self.work / "f0").write_bytes(b"%04d" % self.turn * (SIZE // 4))
        await self.keeper.after(watched)

    @property
    def let_go(self) -> list[int]:
        with self.transcript.history() as history:
            entries = [line.entry for line in history.newest(("files_let_go",), 1 << 20)]
        return [each.through for each in reversed(entries) if isinstance(each, FilesLetGo)]


def call(number: int) -> Approval:
    return Approval(
        call=f"call-{number}",
        tool="shell",
        arguments=b"{}",
        digest="",
        shown="make",
        title="",
        preview=Preview(title="make", command="make"),
    )


async def test_the_oldest_turns_make_room_for_the_newest(tmp_path: Path) -> None:
    session = Session(tmp_path)
    for _ in range(40):
        await session.change()
    assert len(session.let_go) > 1
    assert session.let_go == sorted(set(session.let_go))
    through = session.let_go[-1]
    assert any(f"turn {through}" in said for said in session.keeper.take_trouble())
    files = session.transcript.places.files
    assert sum(path.stat().st_size for path in files.glob("objects*")) <= LIMIT * 1.2
    steps = session.keeper.steps()
    with pytest.raises(UndoError, match=r"undo\.store_bytes") as refused:
        wanted(steps, "undo", 40)
    kept = 40 - through
    assert f"/undo {kept}" in (refused.value.remedy or "")
    for turn in range(40, through, -1):
        put_back(session.keeper, "undo")
        assert picture(session.work) == session.pictures[turn - 1]
    with pytest.raises(UndoError, match=f"turn {through}"):
        put_back(session.keeper, "undo")
    for _ in range(kept):
        put_back(session.keeper, "redo")
    assert (session.work / "f0").read_bytes() == b"0040" * (SIZE // 4)


def test_a_power_cut_while_contents_are_let_go_costs_none_of_those_that_stay(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "files"
    old = ObjectStore(folder, limit=LIMIT)
    keep = {old.put(b"kept %d" % number * 300) for number in range(3)}
    old.put(b"let go" * 1000)
    old.save()
    initial = {f"files/{path.name}": path.read_bytes() for path in folder.iterdir()}
    disk = RecordingDisk(tmp_path)
    store = ObjectStore(folder, limit=LIMIT, disk=disk)
    store.refresh()
    store.let_go(keep)
    for count in range(len(disk.ops) + 1):
        for state in states_after(disk.ops, count, 3, initial):
            with tempfile.TemporaryDirectory() as base:
                state.lay_out(Path(base))
                left = ObjectStore(Path(base, "files"), limit=LIMIT)
                left.refresh()
                assert all(left.get(each) for each in keep), state.how
                left.tidy()
                left.let_go(keep)
                assert all(left.get(each) for each in keep), state.how


def test_another_process_reads_on_after_contents_were_let_go(tmp_path: Path) -> None:
    store, other = (ObjectStore(tmp_path / "files", limit=LIMIT) for _ in range(2))
    kept, gone = store.put(b"kept"), store.put(b"gone")
    store.save()
    other.refresh()
    store.let_go({kept})
    assert other.get(kept) == b"kept"
    with pytest.raises(UndoError, match="is not in"):
        other.get(gone)
