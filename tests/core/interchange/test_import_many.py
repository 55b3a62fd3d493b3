"""A folder, or a file of many conversations, becomes a session a conversation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mindstone_tui.core.errors import InterchangeError
from mindstone_tui.core.interchange.import_session import import_each, sources
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.transcript import Transcript
from tests.builders import transcript_in
from tests.core.interchange.helpers import FIXTURES


def test_each_conversation_of_an_export_becomes_its_own_session(home: Path) -> None:
    opened: list[str] = []

    def open_session(key: SessionKey) -> Transcript:
        opened.append(str(key))
        return transcript_in(home, str(key))

    reports = list(import_each(FIXTURES / "chatgpt.json", open_session, agent="ada"))

    assert [report.title for report in reports] == ["Finding the port", "Another talk"]
    assert [report.session for report in reports] == opened
    assert opened[0] == "agent:ada:chatgpt-c0000000-0000-4000-8000-000000000001"
    assert [report.added for report in reports] == [7, 2]
    again = list(import_each(FIXTURES / "chatgpt.json", open_session, agent="ada"))
    assert [report.added for report in again] == [0, 0]


@pytest.mark.parametrize(
    ("name", "main"),
    [
        ("claude-code.jsonl", "claude-code-5c1d7c1e-0000-4000-8000-000000000001"),
        ("codex.jsonl", "codex-019a0000-0000-7000-8000-000000000001"),
        ("pi.jsonl", "pi-0d0d0d0d-0000-4000-8000-000000000001"),
        ("gemini-cli.json", "gemini-cli-7e7e7e7e-0000-4000-8000-000000000001"),
        ("opencode.json", "opencode-ses_0000000001"),
        ("goose.json", "goose-20260301_1"),
        ("messages.jsonl", "messages-messages"),
    ],
)
def test_a_session_is_named_after_the_conversation(home: Path, name: str, main: str) -> None:
    def open_session(key: SessionKey) -> Transcript:
        return transcript_in(home, str(key))

    (report,) = import_each(FIXTURES / name, open_session)
    assert report.session == f"agent:default:{main}"
    assert report.added > 0


def test_a_folder_gives_its_session_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    shutil.copy(FIXTURES / "pi.jsonl", tmp_path / "deep" / "b.jsonl")
    shutil.copy(FIXTURES / "goose.json", tmp_path / "a.json")
    (tmp_path / "notes.txt").write_text("not a session")
    assert [path.name for path in sources(tmp_path)] == ["a.json", "b.jsonl"]
    assert sources(tmp_path / "a.json") == [tmp_path / "a.json"]


def test_a_folder_without_sessions_says_so(tmp_path: Path) -> None:
    with pytest.raises(InterchangeError, match="no session file"):
        sources(tmp_path)


def test_files_that_only_tell_more_of_a_session_are_not_sessions_of_their_own(
    tmp_path: Path,
) -> None:
    for name in ("cline", "roo-code", "droid", "aider"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
    (tmp_path / "README.md").write_text("# Not a session\n")
    found = [path.relative_to(tmp_path).as_posix() for path in sources(tmp_path)]
    assert found == [
        "aider/.aider.chat.history.md",
        "cline/1772355600000/api_conversation_history.json",
        "droid/d0000000-0000-4000-8000-000000000001.jsonl",
        "roo-code/1772355600001/api_conversation_history.json",
        "roo-code/1772355600001/history_item.json",
    ]
