"""What is particular to the programs that others are mistaken for, and to their second forms."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from mindstone_tui.core.entries.store import SessionDescribed
from mindstone_tui.core.errors import NotASession
from mindstone_tui.core.interchange.discover import find_programs
from mindstone_tui.core.interchange.formats import format_of
from mindstone_tui.core.interchange.formats.base import Broken, Gave, Said, Used
from tests.core.interchange.formats import databases
from tests.core.interchange.formats.heard_newest import hermes
from tests.core.interchange.formats.test_programs import (
    ANSWERED,
    ASKED,
    CORRECTED,
    each_of,
    given,
    said,
)
from tests.core.interchange.helpers import FIXTURES, assert_sound, take_over, told, write_lines

needs_zstd = pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")


def described(home: Path) -> SessionDescribed:
    """What an import wrote of the conversation as a whole."""
    (found,) = (line.entry for line in told(home) if isinstance(line.entry, SessionDescribed))
    return found


def test_vscode_a_log_of_changes_says_what_the_export_says() -> None:
    one, log = (
        FIXTURES / "vscode-chat/chatSessions" / name for name in ("vs-1.json", "vs-2.jsonl")
    )
    reader = format_of(log)
    assert reader.name == format_of(one).name == "vscode-chat"
    assert list(reader.read(log))[1:] == list(reader.read(one))[1:]


def test_vscode_a_change_of_what_is_not_there_changes_nothing(home: Path, tmp_path: Path) -> None:
    begin = {"requests": [{"message": {"text": ASKED}, "response": []}], "initialLocation": "panel"}
    changes = [
        {"kind": 0, "v": begin},
        {"kind": 1, "k": ["requests", 10**12, "message"], "v": 1},
        {"kind": 2, "k": ["requests", "0", "response"], "v": [{"value": "no"}]},
        {"kind": 2, "k": [], "v": ["no"]},
        {"kind": 1, "k": [None, {}], "v": 1},
        {"kind": 2, "k": ["requests", 0, "response"], "i": -1, "v": [{"value": ANSWERED}]},
    ]
    take_over(home, write_lines(tmp_path / "log.jsonl", changes))
    assert said(home) == [ASKED, ANSWERED]


def test_vscode_tells_the_folder_of_its_workspace(home: Path) -> None:
    take_over(home, FIXTURES / "vscode-chat/chatSessions/vs-2.jsonl")
    about = described(home)
    assert (about.title, about.folder) == ("Finding the port", "/home/ada/tide")
    assert given(home)[-1] == ("sed: permission denied", "error")
    assert_sound(home)


def test_kimi_code_puts_a_step_together_and_tells_it_once(home: Path) -> None:
    path = FIXTURES / "kimi/wd_tide_0123456789ab/session_k2/agents/main/wire.jsonl"
    report = take_over(home, path)
    assert said(home) == [ASKED, "I will look.", ANSWERED]
    assert given(home) == [("port = 8080", "ok")]
    assert report.left_out == {"message of the program": 1}
    about = described(home)
    assert (about.folder, about.models) == ("/home/ada/tide", ("kimi-code/large",))
    (used,) = (each for each in format_of(path).read(path) if isinstance(each, Used))
    assert (used.usage.prompt, used.usage.completion, used.usage.cached) == (140, 20, 40)


def test_kimi_a_sub_agent_is_a_session_of_its_own(home: Path, tmp_path: Path) -> None:
    main = FIXTURES / "kimi/wd_tide_0123456789ab/session_k2"
    copy = tmp_path / "session_k2"
    shutil.copytree(main, copy)
    shutil.copytree(copy / "agents/main", copy / "agents/worker-1")
    (agent,) = each_of(home, copy / "agents/worker-1/wire.jsonl")
    assert agent.session == "agent:default:kimi-session_k2-worker-1"


def test_hermes_is_not_taken_for_goose(home: Path, tmp_path: Path) -> None:
    path = databases.hermes(tmp_path / "state.db")
    report = take_over(home, path)
    assert report.format == "hermes"
    assert said(home) == [each.text for each in hermes(path) if each.role != "result"]
    assert report.left_out == {"message for the model alone": 1, "message on another branch": 1}
    about = described(home)
    assert (about.folder, about.branch, about.title) == (
        "/home/ada/tide",
        "main",
        "Finding the port",
    )
    assert_sound(home)


def test_hermes_keeps_a_session_as_one_object_too(home: Path) -> None:
    report = take_over(home, FIXTURES / "hermes-session.json")
    assert report.format == "hermes"
    assert said(home) == [ASKED, "I will look.", ANSWERED]
    assert described(home).conversation == "20260301_090000_h2"


def test_dsh_is_not_taken_for_pi(home: Path) -> None:
    report = take_over(home, FIXTURES / "dsh.jsonl")
    assert report.format == "dsh"
    assert report.left_out["message of the program"] == 1


@pytest.mark.parametrize("folder", [".openclaw", ".clawdbot"])
def test_a_session_of_pi_in_the_folder_of_openclaw_is_openclaws(
    tmp_path: Path, folder: str
) -> None:
    path = tmp_path / folder / "agents/main/sessions/a1.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / "pi.jsonl", path)
    assert format_of(path).name == "openclaw"
    assert format_of(FIXTURES / "pi.jsonl").name == "pi"


def test_openclaw_an_answer_that_went_to_a_messenger_is_told_once(home: Path) -> None:
    report = take_over(home, FIXTURES / "openclaw.jsonl")
    assert said(home).count(ANSWERED) == 1
    assert report.left_out["copy of what was delivered"] == 1


def test_kiro_a_saved_conversation_is_read(home: Path) -> None:
    report = take_over(home, FIXTURES / "kiro-saved.json")
    assert report.format == "kiro"
    told_in_order = [ASKED, "I will look.", ANSWERED, CORRECTED, "I will change it."]
    assert said(home) == [*told_in_order, "Leave it.", "It stays."]
    assert [status for _, status in given(home)] == ["ok", "error"]
    assert described(home).folder == "/home/ada/tide"
    assert_sound(home)


def test_kiro_the_database_tells_each_conversation_once(home: Path, tmp_path: Path) -> None:
    path = databases.kiro(tmp_path / "data.sqlite3", FIXTURES / "kiro-saved.json")
    reports = each_of(home, path)
    assert [each.session for each in reports] == [
        "agent:default:kiro-ks-1",
        "agent:default:kiro-ks-0",
    ]
    assert {each.added for each in reports} == {9}


def test_zed_reads_threads_of_its_first_agent(home: Path, tmp_path: Path) -> None:
    report = take_over(home, databases.older_zed(tmp_path / "threads.db"))
    assert said(home) == [ASKED, "Look."]
    assert given(home) == [("no such file", "error")]
    assert report.left_out == {"system message": 1}


@needs_zstd
def test_zed_says_what_is_missing_where_a_thread_cannot_be_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = databases.zed(tmp_path / "threads.db")
    reader = format_of(path)
    assert [each for each in reader.read(path) if isinstance(each, Gave)]
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute("UPDATE threads SET data = substr(data, 1, 40)")
    (damaged,) = (each for each in reader.read(path) if isinstance(each, Broken))
    assert damaged.why
    monkeypatch.setenv("PATH", str(tmp_path))
    (told_of,) = (each for each in reader.read(path) if isinstance(each, Broken))
    assert "Zed" in told_of.why or "unpacked" in told_of.why


def test_prompts_of_codex_are_read_by_their_sessions(tmp_path: Path) -> None:
    lines = [
        {"session_id": name, "ts": 1_772_355_600 + at, "text": f"{name} {at}"}
        for at, name in enumerate(["a", "b", "a"])
    ]
    path = write_lines(tmp_path / "history.jsonl", lines)
    reader = format_of(path)
    assert [each.text for each in reader.read(path) if isinstance(each, Said)] == [
        *("a 0", "a 2"),
        "b 1",
    ]


def test_a_grok_file_of_the_older_version_is_read(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "chat_history.jsonl"
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    write_lines(
        path,
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": ASKED},
            {"role": "assistant", "content": "Look.", "tool_calls": [call], "model_id": "large"},
            {"role": "tool", "content": "port = 8080", "tool_call_id": "c1"},
        ],
    )
    assert take_over(home, path).format == "grok"
    assert (said(home), given(home)) == ([ASKED, "Look."], [("port = 8080", "ok")])


def test_what_only_its_program_can_read_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / ".gemini/antigravity/conversations/a1.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x0a\x10\x00\x93sealed")
    with pytest.raises(NotASession, match="Antigravity"):
        format_of(path)


def test_their_folders_are_found(tmp_path: Path) -> None:
    wanted = {
        "antigravity": ".gemini/antigravity-cli/brain/a1/.system_generated/logs/transcript.jsonl",
        "dsh": ".dsh/sessions/--tide--/d1/session.v4.jsonl",
        "grok": ".grok/sessions/%2Ftide/g1/chat_history.jsonl",
        "hermes": ".hermes/state.db",
        "kimi": ".kimi/sessions/0a/k1/wire.jsonl",
        "openclaw": ".openclaw/agents/main/sessions/a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d.jsonl",
        "vscode-chat": ".config/Code/User/workspaceStorage/w1/chatSessions/v1.jsonl",
        "zed": ".local/share/zed/threads/threads.db",
    }
    skipped = "a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d.checkpoint.11111111-2222-4333-8444.jsonl"
    for way in (*wanted.values(), f".openclaw/agents/main/sessions/{skipped}"):
        (tmp_path / way).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / way).write_text("{}")
    found = find_programs({"HOME": str(tmp_path)})
    assert {each.program: [it.path for it in each.files] for each in found} == {
        program: [tmp_path / way] for program, way in wanted.items()
    }
