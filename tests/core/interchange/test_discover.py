"""Sessions of other programs are found by where they lie, and nothing else is taken for one."""

from __future__ import annotations

import os
from pathlib import Path

from mindstone_tui.core.interchange.discover import (
    find_programs,
    keeps_its_own,
    list_files,
    session_folders,
)


def put(path: Path, text: str = "{}\n", changed: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if changed:
        os.utime(path, (changed, changed))
    return path


def test_each_program_is_listed_with_its_files_sizes_and_the_newest(tmp_path: Path) -> None:
    put(tmp_path / ".claude/projects/-srv-app/a.jsonl", "12345", 1_000)
    put(tmp_path / ".claude/projects/-srv-app/a/subagents/agent-b.jsonl", "123", 3_000)
    put(tmp_path / ".codex/sessions/2026/11/15/rollout-1.jsonl", "12", 2_000)
    found = find_programs({"HOME": str(tmp_path)})
    assert [(each.program, len(each.files), each.size, each.newest) for each in found] == [
        ("claude-code", 2, 8, 3_000),
        ("codex", 1, 2, 2_000),
    ]
    assert [each.path.name for each in found[0].files] == ["agent-b.jsonl", "a.jsonl"]


def test_what_only_lies_beside_sessions_is_no_session(tmp_path: Path) -> None:
    put(tmp_path / ".claude/projects/-srv-app/memory/MEMORY.md")
    put(tmp_path / ".claude/settings.json")
    put(tmp_path / ".codex/history.jsonl")
    put(tmp_path / ".gemini/tmp/abc/logs.json")
    put(tmp_path / ".continue/sessions/sessions.json")
    put(tmp_path / ".kiro/sessions/cli/1.json")
    put(tmp_path / ".kiro/sessions/cli/1.jsonl", "")
    put(tmp_path / ".openhands/conversations/1/base_state.json")
    assert find_programs({"HOME": str(tmp_path)}) == []
    chat = put(tmp_path / ".gemini/tmp/abc/chats/session-1.json")
    assert [each.files[0].path for each in find_programs({"HOME": str(tmp_path)})] == [chat]


def test_programs_told_to_live_elsewhere_are_found_there(tmp_path: Path) -> None:
    file = put(tmp_path / "elsewhere/projects/x/1.jsonl")
    rollout = put(tmp_path / "cx/sessions/2026/1/1/rollout.jsonl")
    environ = {
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere"),
        "CODEX_HOME": str(tmp_path / "cx"),
    }
    found = {each.program: each.files[0].path for each in find_programs(environ)}
    assert found == {"claude-code": file, "codex": rollout}


def test_a_project_is_looked_at_only_when_it_is_named(tmp_path: Path) -> None:
    history = put(tmp_path / "app/.aider.chat.history.md")
    assert find_programs({"HOME": str(tmp_path)}) == []
    found = find_programs({"HOME": str(tmp_path)}, tmp_path / "app")
    assert [(each.program, each.files[0].path) for each in found] == [("aider", history)]


def test_links_are_not_followed_and_folders_that_cannot_be_read_are_empty(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/projects"
    folder.mkdir(parents=True)
    (folder / "loop").symlink_to(folder)
    (folder / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    claude = session_folders({"HOME": str(tmp_path)})[0]
    assert list_files(claude) == []
    (folder / "loop").unlink()
    folder.rename(tmp_path / "moved")
    folder.write_text("a file where a folder should be")
    assert list_files(claude) == []


def test_a_path_that_no_file_has_lies_nowhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in ("\0", "~", str(tmp_path / "loop")):
        assert not keeps_its_own({"HOME": str(tmp_path)}, "claude-code", Path(path))
