"""Files that several processes take over come out as if one had done it, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.errors import InterchangeError, TranscriptError
from mindstone_tui.core.interchange.import_session import ImportReport, sources
from mindstone_tui.core.library.side_by_side import SideBySide, in_groups
from mindstone_tui.core.library.take_over import Importer
from mindstone_tui.core.paths import Places, SessionKey
from tests.cli.program import ROOT, mindstone
from tests.core.interchange.helpers import FIXTURES, write_lines

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

OF_THIS_IMPORT = {"id", "ts", "hash", "prev", "salt", "parent", "receipt"}
"""What is made anew whenever a line is written, or follows from it."""
LARGE = 1 << 20


def _taken(home: Path, folder: Path, processes: int) -> list[object]:
    """What an importer says of each file of a folder, in order."""
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    importer = Importer(places, Settings(), {"SOME_TOKEN": "hunter2hunter2"})
    told: list[object] = []
    files = sources(folder)
    with importer.side_by_side(files, processes):
        for file in files:
            try:
                told += [_plain(report) for report in importer.take(file, None, "")]
            except InterchangeError as error:
                told.append((type(error), error.what, error.remedy))
    return [*told, [str(each.key) for each in importer.taken]]


def _plain(report: ImportReport) -> tuple[object, ...]:
    return (report.session, report.added, report.already_there, report.redacted, report.left_out)


def _lines(home: Path) -> dict[str, list[dict[str, Any]]]:
    """What every transcript says, without what belongs to one writing of it."""
    return {
        path.parent.name: [
            {name: value for name, value in line.items() if name not in OF_THIS_IMPORT}
            for line in _without_receipts(path)
        ]
        for path in home.rglob("transcript.jsonl")
    }


def _without_receipts(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for left in line.get("left", ()):
            left.pop("receipt", None)
    return lines


def _found(home: Path) -> dict[str, list[tuple[object, ...]]]:
    """What the library has of each session, wherever in the file it stands."""
    database = apsw.Connection(str(home / "library.db"), flags=apsw.SQLITE_OPEN_READWRITE)
    database.execute("create virtual table temp.terms using fts5vocab(main, words, instance)")
    found: dict[str, list[tuple[object, ...]]] = {}
    for name, *columns in database.execute(
        "select name, row & 0xffffff, hash, seq, turn, role, speaker, text, about, sitting,"
        " imported from passages join owners on number = owner order by row"
    ):
        found.setdefault(name, []).append(tuple(columns))
    for name, *columns in database.execute(
        "select name, term, doc & 0xffffff, offset from terms join owners on number = doc >> 24"
        " order by name, term, doc, offset"
    ):
        found[name].append(tuple(columns))
    database.close()
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sessions of several programs; two files of one session, a secret, and one that is none."""
    made = tmp_path / "sessions"
    shutil.copytree(FIXTURES, made)
    whole = (FIXTURES / "claude-code.jsonl").read_text().splitlines(keepends=True)
    (made / "a-part.jsonl").write_text("".join(whole[: len(whole) // 2]))
    (made / "no-session.json").write_text('{"nothing": "of ours"}')
    said = [{"role": "user", "content": f"the key is hunter2hunter2, {at}"} for at in range(9)]
    write_lines(made / "secret.jsonl", said)
    return made


def test_several_processes_write_what_one_would(tmp_path: Path, folder: Path) -> None:
    one, three = tmp_path / "one", tmp_path / "three"
    assert _taken(three, folder, 3) == _taken(one, folder, 0)
    assert _lines(three) == _lines(one)
    assert len(_lines(one)) > 9
    assert _found(three) == _found(one)
    assert "hunter2" not in "".join(path.read_text() for path in three.rglob("transcript.jsonl"))


def test_files_of_one_session_stay_together_and_in_order(folder: Path) -> None:
    groups = in_groups(sources(folder), "auto")
    (shared,) = [group for group in groups if folder / "a-part.jsonl" in group]
    assert shared[:2] == [folder / "a-part.jsonl", folder / "claude-code.jsonl"]
    assert [folder / "secret.jsonl"] in groups


def test_a_process_that_is_killed_ends_the_import_with_a_sentence(tmp_path: Path) -> None:
    def die(file: Path) -> list[ImportReport]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    others = SideBySide(die, [[tmp_path / "a"], [tmp_path / "b"]], 2)
    try:
        with pytest.raises(TranscriptError, match="ended from outside"):
            others.taken(tmp_path / "b")
    finally:
        others.close()


@pytest.mark.thorough
def test_ctrl_c_leaves_whole_sessions_that_the_next_import_completes(
    home: Path, tmp_path: Path
) -> None:
    made = tmp_path / "sessions"
    made.mkdir()
    for name, size in (("a", 1), ("b", LARGE), ("c", LARGE), ("d", LARGE), ("e", LARGE)):
        said = [
            {"role": "user", "content": f"{name}{at} " + "plain words " * 60} for at in range(9)
        ]
        write_lines(made / f"{name}.jsonl", said * max(size // 8_000, 1))
    command = [sys.executable, "-m", "mindstone_tui", "import", str(made), "--no-wait"]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert "9 messages added" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in complaint
    assert "the same command goes on from there" in complaint
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert mindstone("import", str(made), "--no-wait").returncode == 0
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    for name in "bcde":
        lines = places.session(SessionKey("default", f"messages-{name}")).transcript.read_text()
        assert lines.count('"kind":"user_message"') == 9 * (LARGE // 8_000)
