"""Files of a few kilobytes that stand for rows and bytes without end."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import struct
import subprocess
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from mindstone_tui.core.errors import InterchangeError
from mindstone_tui.core.interchange.formats.base import Broken
from mindstone_tui.core.interchange.formats.sources import exported
from tests.core.interchange.helpers import take_over

_WITHOUT_END = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
_SESSION = (
    "CREATE TABLE sessions (id, working_dir, created_at)",
    "INSERT INTO sessions VALUES ('s', '/w', 1)",
)
_MESSAGES = "id, message_id, session_id, role, created_timestamp, content_json"
_HI = '[{"type":"text","text":"hi"}]'


def _database(path: Path, *said: str) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA page_size = 4096")
        for each in said:
            made.execute(each)
        made.commit()
    return path


def _read(home: Path, path: Path) -> list[str]:
    """What is said of records that could not be read."""
    return [each.why for each in take_over(home, path).skipped]


@pytest.mark.parametrize("endless", ["sessions", "messages"])
def test_rows_that_a_view_would_compute_are_not_read(tmp_path: Path, endless: str) -> None:
    rows = {
        "sessions": "i AS id, '/w' AS working_dir, i AS created_at FROM n",
        "messages": "i AS id, i AS message_id, 's' AS session_id, 'user' AS role, "
        f"i AS created_timestamp, '{_HI}' AS content_json FROM n",
    }
    stored = {"sessions": (f"CREATE TABLE messages ({_MESSAGES})",), "messages": _SESSION}
    path = _database(
        tmp_path / "sessions.db",
        *stored[endless],
        f"CREATE VIEW {endless} AS {_WITHOUT_END}{rows[endless]}",
    )
    if endless == "messages":  # and a view is not taken for what the program stored
        with pytest.raises(InterchangeError, match="not a session"):
            _read(tmp_path, path)
    else:
        assert "not authorized" in _read(tmp_path, path)[0]


def test_a_column_that_a_function_would_compute_is_empty(tmp_path: Path) -> None:
    computed = f"metadata_json AS (printf('%.*c', 1000, 'x')), content_json AS ('{_HI}')"
    path = _database(
        tmp_path / "sessions.db",
        *_SESSION,
        f"CREATE TABLE messages ({_MESSAGES.removesuffix(', content_json')}, {computed})",
        "INSERT INTO messages VALUES (1, 'm', 's', 'user', 1)",
    )
    assert _read(tmp_path, path) == ["a message without content"]


def test_what_is_stored_beside_computed_columns_and_unknown_modules_is_read(
    tmp_path: Path,
) -> None:
    path = _database(
        tmp_path / "sessions.db",
        *_SESSION,
        f"CREATE TABLE messages ({_MESSAGES}, more AS (json_extract(content_json, '$[0].text')))",
        f"INSERT INTO messages VALUES (1, 'm', 's', 'user', 1, '{_HI}')",
        "PRAGMA writable_schema = ON",
        "INSERT INTO sqlite_master VALUES"
        " ('table', 'near', 'near', 0, 'CREATE VIRTUAL TABLE near USING vec0(e float[4])')",
    )
    report = take_over(tmp_path, path)
    assert (report.added, report.skipped) == (1, ())


def _knotted(path: Path, table: str, depth: int) -> Path:
    """The table's one page becomes what pages of pages lead to, four hundred times each."""
    with closing(sqlite3.connect(path)) as made:
        found = made.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        root = found.fetchone()[0]
    data = bytearray(path.read_bytes())
    pages = len(data) // 4096
    data += data[(root - 1) * 4096 : root * 4096]
    for level in range(depth):
        child = pages + 1 + level
        page = bytearray(4096)
        struct.pack_into(">BHHHBI", page, 0, 5, 0, 400, 2096, 0, child)
        for cell in range(400):
            struct.pack_into(">H", page, 12 + 2 * cell, 2096 + 5 * cell)
            struct.pack_into(">IB", page, 2096 + 5 * cell, child, 1)
        data += page
    data[(root - 1) * 4096 : root * 4096] = data[-4096:]
    struct.pack_into(">I", data, 28, len(data) // 4096)
    path.write_bytes(data)
    return path


@pytest.mark.thorough
def test_rows_in_pages_tied_in_circles_end(tmp_path: Path) -> None:
    path = _database(
        tmp_path / "data.db",
        "CREATE TABLE conversations (key, value)",
        "CREATE TABLE conversations_v2 (key, value, conversation_id)",
        "INSERT INTO conversations VALUES ('t', '{}')",
    )
    assert "far more than it can hold" in _read(tmp_path, _knotted(path, "conversations", 8))[-1]


@pytest.mark.thorough
def test_rows_that_are_sorted_for_ever_end(tmp_path: Path) -> None:
    path = _database(
        tmp_path / "threads.db",
        "CREATE TABLE threads (id, summary, data_type, data, updated_at)",
        "INSERT INTO threads VALUES ('t', 's', 'json', '{}', 1)",
    )
    assert "interrupted" in _read(tmp_path, _knotted(path, "threads", 8))[-1]


def test_a_message_that_is_named_again_and_again_is_not_told_as_often(tmp_path: Path) -> None:
    headers = [{"bubbleId": "b", "type": 1}] * 2_000
    composer = json.dumps({"composerId": "a", "fullConversationHeadersOnly": headers})
    bubble = json.dumps({"type": 1, "text": "x" * 10_000, "bubbleId": "b"})
    path = _database(
        tmp_path / "state.vscdb",
        "CREATE TABLE ItemTable (key, value)",
        "CREATE TABLE cursorDiskKV (key PRIMARY KEY, value)",
        f"INSERT INTO cursorDiskKV VALUES ('composerData:a', '{composer}')",
        f"INSERT INTO cursorDiskKV VALUES ('bubbleId:a:b', '{bubble}')",
    )
    assert "far more than it can hold" in _read(tmp_path, path)[-1]


def test_a_database_that_cannot_be_looked_into_is_no_session(tmp_path: Path) -> None:
    path = _database(
        tmp_path / "state.vscdb",
        "CREATE TABLE ItemTable (key, value)",
        f"INSERT INTO ItemTable VALUES ('{'k' * 9_000}', 'v')",
    )
    data = path.read_bytes()
    path.write_bytes(data[:-8192] + b"\xff" * 8192)
    with pytest.raises(InterchangeError, match="not a session"):
        take_over(tmp_path, path)


def _archive(path: Path, how: int, members: int, size: int) -> Path:
    one = {"mapping": {"a": {"message": {"author": {"role": "user"}}}}, "current_node": "a"}
    with zipfile.ZipFile(path, "w", how) as made:
        for number in range(members):
            made.writestr(f"conversations-{number}.json", json.dumps([one]) + " " * size)
    return path


def test_an_archive_that_unpacks_to_a_thousand_times_its_size_is_not_read(tmp_path: Path) -> None:
    path = _archive(tmp_path / "export.zip", zipfile.ZIP_DEFLATED, 6, 20_000_000)
    assert "far more than chats do" in _read(tmp_path, path)[-1]


def test_a_list_of_files_that_no_export_has_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as made:
        for number in range(80):
            made.writestr(f"{number}{'x' * 60_000}", b"")
        made.writestr("conversations.json", b"[]")
    (found,) = exported(path)
    assert isinstance(found, Broken)
    assert "far more files than an export has" in found.why


@pytest.mark.parametrize("how", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_packed_as_no_service_packs_is_no_session(tmp_path: Path, how: int) -> None:
    path = _archive(tmp_path / "export.zip", how, 1, 0)
    data = bytearray(path.read_bytes())
    data[70:80] = b"\xff" * 10
    path.write_bytes(data)
    with pytest.raises(InterchangeError, match="not a session"):
        take_over(tmp_path, path)


@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")
def test_threads_that_unpack_to_thousands_of_times_their_size_end(tmp_path: Path) -> None:
    thread = json.dumps({"messages": [], "more": " " * 40_000_000}).encode()
    packed = subprocess.run(["zstd", "-qc"], input=thread, capture_output=True, check=True).stdout
    path = _database(
        tmp_path / "threads.db", "CREATE TABLE threads (id, summary, data_type, data, updated_at)"
    )
    with closing(sqlite3.connect(path)) as made:
        rows = [(f"t{number}", "s", "zstd", packed, number) for number in range(4)]
        made.executemany("INSERT INTO threads VALUES (?, ?, ?, ?, ?)", rows)
        made.commit()
    assert "far more than threads do" in _read(tmp_path, path)[-1]


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")
@pytest.mark.parametrize("logged", [True, False])
def test_threads_in_which_one_log_was_read_again_and_again_are_read(
    tmp_path: Path, *, logged: bool
) -> None:
    took = random.Random(1).randrange
    log = "".join(f"request {n} was answered in {took(9_000)} ms\n" for n in range(4_000))
    told = [{"User": {"content": [{"Text": log}]}}] * 60
    thread = json.dumps({"messages": [], "more": told}).encode()
    packed = subprocess.run(["zstd", "-qc"], input=thread, capture_output=True, check=True).stdout
    assert 100 < len(thread) / len(packed) < 600
    path = tmp_path / "threads.db"
    with closing(sqlite3.connect(path)) as made:
        if logged:
            made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE threads (id, summary, data_type, data, updated_at)")
        rows = [(f"t{number}", "s", "zstd", packed, number) for number in range(16)]
        made.executemany("INSERT INTO threads VALUES (?, ?, ?, ?, ?)", rows)
        made.commit()
        assert _read(tmp_path, path) == []
