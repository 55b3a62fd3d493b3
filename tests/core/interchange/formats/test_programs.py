"""What is particular to each program: branches, commands, stores, and results in many shapes."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolReturned,
    TurnEnded,
    UserMessage,
)
from mindstone_tui.core.entries.store import SessionDescribed
from mindstone_tui.core.errors import InterchangeError, NotASession
from mindstone_tui.core.interchange.formats import format_of
from mindstone_tui.core.interchange.formats.base import NO_RESULT
from mindstone_tui.core.interchange.formats.claude_code import CLAUDE_CODE
from mindstone_tui.core.interchange.import_session import (
    ImportReport,
    import_each,
    import_so_far,
    sources,
)
from mindstone_tui.core.interchange.write_entries import ImportedBefore
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.transcript import Transcript
from tests.builders import transcript_in
from tests.core.interchange.helpers import (
    FIXTURES,
    STORED,
    assert_sound,
    outline,
    take_over,
    told,
    write_lines,
)

ASKED = "Which port does the server use?"
ANSWERED = "It uses port 8080."
CORRECTED = "No, from now on it is 9090."


def said(home: Path) -> list[str]:
    """What people and models said, without the calls."""
    entries = [line.entry for line in told(home)]
    spoken = [each for each in entries if isinstance(each, UserMessage | AssistantMessage)]
    return [each.text for each in spoken if each.text]


def given(home: Path) -> list[tuple[str, str]]:
    """What tools gave, and whether they failed."""
    entries = [line.entry for line in told(home)]
    return [(each.text, each.status) for each in entries if isinstance(each, ToolReturned)]


def each_of(home: Path, path: Path) -> list[ImportReport]:
    """Import every conversation of a file into a session of its own."""

    def open_session(key: SessionKey) -> Transcript:
        return transcript_in(home, str(key))

    return list(import_each(path, open_session))


# Claude Code


def test_claude_code_the_branch_of_the_last_message_is_the_conversation(home: Path) -> None:
    report = take_over(home, FIXTURES / "claude-code-rewound.jsonl")
    assert said(home) == [
        ASKED,
        "I will look.",
        ANSWERED,
        "/port to 9090",
        "I will change it.",
        "And keep a copy.",
        "!git status\n\nnothing to commit",
    ]
    assert report.left_out == {
        "API error": 1,
        "attachment: todo_reminder": 1,
        "command of the program": 2,
        "compact summary": 1,
        "file-history-snapshot": 1,
        "message on another branch": 2,
        "meta": 1,
        "queue-operation": 2,
        "system": 1,
    }
    assert report.title == "The port"
    assert_sound(home)


def test_claude_code_parallel_results_are_no_branches(home: Path) -> None:
    take_over(home, FIXTURES / "claude-code-rewound.jsonl")
    assert given(home)[:2] == [("port = 8080\n\n[image]", "ok"), ("config.toml", "ok")]


def test_claude_code_a_record_that_follows_nothing_known_goes_on(
    home: Path, tmp_path: Path
) -> None:
    def record(name: str, parent: str | None, text: str) -> dict[str, Any]:
        about = {"uuid": name, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
        return {**about, "type": "user", "message": {"role": "user", "content": text}}

    records = [record("a", None, "one"), record("b", "lost", "two"), record("c", None, "three")]
    take_over(home, write_lines(tmp_path / "gaps.jsonl", records))
    assert said(home) == ["one", "two", "three"]


@pytest.mark.parametrize("looked", ["once", "before it was stopped"])
def test_claude_code_what_a_person_interrupted_is_no_finished_turn(
    home: Path, tmp_path: Path, looked: str
) -> None:
    def record(name: str, parent: str | None, who: str, text: str) -> dict[str, Any]:
        about = {"uuid": name, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
        content = [{"type": "text", "text": text}]
        return {**about, "type": who, "message": {"role": who, "content": content}}

    records = [
        *(record("a", None, "user", "one"), record("b", "a", "assistant", "The harbour")),
        record("c", "b", "user", "[Request interrupted by user]"),
        *(record("d", "c", "user", "two"), record("e", "d", "assistant", "Fine.")),
    ]
    transcript = transcript_in(home)
    if looked != "once":
        path = write_lines(tmp_path / "early.jsonl", records[:2])
        import_so_far(CLAUDE_CODE.read(path), transcript, ImportedBefore(transcript))
    transcript.close()
    take_over(home, write_lines(tmp_path / "stopped.jsonl", records))
    assert [one.entry.ending for one in told(home) if isinstance(one.entry, TurnEnded)] == [
        "interrupted",
        "done",
    ]
    assert said(home) == ["one", "The harbour", "two", "Fine."]


@pytest.mark.parametrize(
    "content",
    [
        "two",
        ["two"],
        [{"type": "text", "text": "two"}, {"type": "text", "text": 7}],
        {"type": "text", "text": "two"},
        "half \ud83d a sign",
    ],
)
def test_claude_code_a_prompt_of_any_shape_is_rewound(
    home: Path, tmp_path: Path, content: object
) -> None:
    def record(name: str, parent: str | None, said: object) -> dict[str, Any]:
        about = {"uuid": name, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
        return {**about, "type": "user", "message": {"role": "user", "content": said}}

    records = [record("a", None, "one"), record("b", "a", content), record("c", "a", "three")]
    report = take_over(home, write_lines(tmp_path / "rewound.jsonl", records))
    assert said(home) == ["one", "three"]
    assert report.left_out == {"message on another branch": 1}


def test_claude_code_a_sub_agent_is_a_session_of_its_own(home: Path) -> None:
    (main,) = each_of(home, FIXTURES / "claude-code.jsonl")
    (agent,) = each_of(home, FIXTURES / "claude-code-subagents" / "agent-a1b2c3d.jsonl")
    assert agent.session == f"{main.session}-a1b2c3d"
    assert agent.added == 2


def test_claude_code_only_what_a_person_typed_is_a_prompt(home: Path, tmp_path: Path) -> None:
    def queued(name: str, prompt: Any, **more: Any) -> dict[str, Any]:
        about = {"uuid": name, "parentUuid": "a", "sessionId": "s", "type": "attachment"}
        return {**about, "attachment": {"type": "queued_command", "prompt": prompt, **more}}

    notice = "<task-notification>\n<task-id>1</task-id>\n</task-notification>"
    records = [
        {
            "uuid": "a",
            "parentUuid": None,
            "sessionId": "s",
            "type": "user",
            "message": {"role": "user", "content": notice},
        },
        queued("b", "typed", commandMode="prompt", origin={"kind": "human"}),
        queued("c", [{"type": "text", "text": "typed in parts"}]),
        queued("d", "from another agent", commandMode="prompt", origin={"kind": "peer"}),
        queued("e", notice, commandMode="task-notification"),
        queued("f", notice),
    ]
    report = take_over(home, write_lines(tmp_path / "queued.jsonl", records))
    assert said(home) == ["typed", "typed in parts"]
    assert report.left_out == {"attachment: queued_command": 3, "notice of a task": 1}


def test_claude_code_a_first_line_with_an_image_is_recognised(home: Path, tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 600_000}}
    first = {
        "parentUuid": None,
        "isSidechain": False,
        "sessionId": "s",
        "type": "user",
        "message": {"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]},
        "uuid": "a",
    }
    take_over(home, write_lines(tmp_path / "image.jsonl", [first]))
    assert said(home) == ["[image]\n\nWhat is it?"]


# Codex CLI


def test_codex_turns_that_were_rolled_back_are_counted(home: Path) -> None:
    report = take_over(home, FIXTURES / "codex-newer.jsonl")
    assert said(home) == [
        f"{ASKED}\n\n[image]",
        "I will look.",
        ANSWERED,
        "!git status\n\nnothing to commit",
        CORRECTED,
        "The config is writable.",
        "I will change it.",
    ]
    assert report.left_out == {
        "compacted": 1,
        "event_msg": 3,
        "instructions of the program": 3,
        "message on another branch": 2,
        "world_state": 1,
    }
    assert_sound(home)


def test_codex_results_come_as_texts_lists_and_with_exit_codes(home: Path) -> None:
    take_over(home, FIXTURES / "codex-newer.jsonl")
    assert given(home) == [
        ("port = 8080", "ok"),
        (NO_RESULT, "ok"),
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\n", "error"),
        (NO_RESULT, "interrupted"),
    ]


def test_codex_a_fork_is_named_after_itself_and_not_after_its_origin(home: Path) -> None:
    (report,) = each_of(home, FIXTURES / "codex-newer.jsonl")
    assert report.session == "agent:default:codex-019a0000-0000-7000-8000-000000000003"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("plain", ("plain", "ok")),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image"}], ("a\n\n[image]", "ok")),
        ([{"type": "tool_reference", "tool_name": "Fetch"}], ("[tool_reference: Fetch]", "ok")),
        ({"content": "no", "success": False}, ("no", "error")),
        ('{"output":"x","metadata":{"exit_code":2}}', ("x", "error")),
        ("Wall time: 1.0 seconds\nProcess exited with code 3\nOutput:\nx", None),
        ("Exit code: 0\nWall time: 1 seconds\nOutput:\nx", None),
        ({"nested": 1}, ("", "ok")),
    ],
)
def test_codex_every_shape_of_a_result_is_read(
    home: Path, tmp_path: Path, output: Any, expected: tuple[str, str] | None
) -> None:
    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-03-01T09:00:00Z", "type": "response_item", "payload": payload}

    records = [
        item(type="function_call", name="shell", arguments="{}", call_id="c"),
        item(type="function_call_output", call_id="c", output=output),
    ]
    take_over(home, write_lines(tmp_path / "rollout.jsonl", records))
    failed = "code 3" in str(output)
    assert given(home) == [expected or (output, "error" if failed else "ok")]


def test_a_compressed_file_is_refused_with_how_to_unpack_it(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "rollout-1.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    with pytest.raises(InterchangeError, match="compressed") as caught:
        take_over(home, path)
    assert "zstd -d" in caught.value.remedy


# Gemini CLI


def test_gemini_what_was_rewound_or_written_again_is_counted(home: Path) -> None:
    report = take_over(home, FIXTURES / "gemini-cli-rewound.jsonl")
    assert said(home) == [ASKED, "I will look.", ANSWERED, CORRECTED, "I will change it."]
    assert given(home) == [
        ("port = 8080", "ok"),
        ("no such folder", "error"),
        (NO_RESULT, "interrupted"),
    ]
    assert report.left_out["message on another branch"] == 2
    assert report.left_out["summary of the program"] == 1
    assert_sound(home)


@pytest.mark.parametrize("bare", [False, True])
def test_gemini_a_saved_chat_is_read_in_both_forms(home: Path, tmp_path: Path, bare: bool) -> None:
    chat = json.loads((FIXTURES / "gemini-cli-checkpoint.json").read_text())
    folder = tmp_path / "tmp" / "0f0f"
    folder.mkdir(parents=True)
    path = folder / "checkpoint-port.json"
    path.write_text(json.dumps(chat["history"] if bare else chat, indent=2))
    (report,) = each_of(home, path)
    assert report.session == "agent:default:gemini-cli-0f0f-checkpoint-port"
    assert (report.added, report.left_out) == (4, {"context of the program": 2})


def test_gemini_a_message_that_begins_with_a_path_is_no_command(home: Path, tmp_path: Path) -> None:
    about = {"sessionId": "s", "projectHash": "p", "startTime": "2026-03-01T09:00:00Z"}
    records = [about] + [
        {"id": f"m{n}", "type": "user", "content": text, "timestamp": "2026-03-01T09:00:00Z"}
        for n, text in enumerate(["/etc/hosts is wrong", "/stats", "/chat save x", "? ", "what?"])
    ]
    report = take_over(home, write_lines(tmp_path / "s.jsonl", records))
    assert said(home) == ["/etc/hosts is wrong", "what?"]
    assert report.left_out == {"command of the program": 3}


# opencode


def test_opencode_a_stored_session_is_found_with_its_messages(home: Path) -> None:
    report = take_over(home, FIXTURES / STORED)
    assert said(home) == [f"{ASKED}\n\n[file: notes.txt]", "I will look.", ANSWERED]
    assert given(home) == [("port = 8080\n\n[file: plan.png]", "ok"), ("it failed", "error")]
    assert report.left_out == {
        "message of the program": 1,
        "message on another branch": 1,
        "summary of the program": 1,
    }


def test_opencode_the_oldest_storage_has_all_under_session(home: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "storage" / "session", FIXTURES / "opencode-storage"
    (old / "info").mkdir(parents=True)
    shutil.copy(FIXTURES / STORED, old / "info")
    shutil.copytree(new / "message", old / "message")
    shutil.copytree(new / "part", old / "part" / "ses_0000000002")
    (path,) = sources(tmp_path)
    assert take_over(home, path).added == 5


def test_opencode_a_damaged_piece_is_named_and_the_rest_is_taken(
    home: Path, tmp_path: Path
) -> None:
    shutil.copytree(FIXTURES / "opencode-storage", tmp_path / "storage")
    (tmp_path / "storage" / "part" / "msg_s2" / "prt_b5.json").write_text("{")
    (tmp_path / "storage" / "message" / "ses_0000000002" / "msg_s4.json").write_text("[]")
    (path,) = [each for each in sources(tmp_path) if "session/p1" in str(each)]
    report = take_over(home, path)
    assert report.added == 4
    assert [each.why.split(":")[0] for each in report.skipped] == ["prt_b5.json", "msg_s4.json"]


def _opencode_database(path: Path) -> Path:
    export = json.loads((FIXTURES / "opencode.json").read_text())
    info = export["info"]
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.executescript(
            "CREATE TABLE session (id TEXT, title TEXT, time_created INTEGER, revert TEXT);"
            "CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);"
            "CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);"
        )
        base.execute(
            "INSERT INTO session VALUES (?, ?, ?, NULL)",
            (info["id"], info["title"], info["time"]["created"]),
        )
        base.execute("INSERT INTO session VALUES ('ses_2', 'Nothing said', 1, 'null')")
        for message in export["messages"]:
            about = message["info"]
            base.execute(
                "INSERT INTO message VALUES (?, ?, ?, ?)",
                (about.pop("id"), info["id"], about["time"]["created"], json.dumps(about)),
            )
            name = f"msg_{export['messages'].index(message) + 1}"
            for at, part in enumerate(message["parts"]):
                part.pop("id")
                base.execute(
                    "INSERT INTO part VALUES (?, ?, ?, ?)",
                    (f"prt_{at:03}", name, info["id"], json.dumps(part)),
                )
    base.close()
    return path


def test_opencode_its_database_gives_what_its_export_gives(home: Path, tmp_path: Path) -> None:
    path = _opencode_database(tmp_path / "opencode.db")
    before = path.read_bytes()
    empty, full = each_of(home, path)
    assert (empty.session, empty.title) == ("", "Nothing said")
    assert (full.session, full.added) == ("agent:default:opencode-ses_0000000001", 6)
    take_over(tmp_path / "a", path)
    take_over(tmp_path / "b", FIXTURES / "opencode.json")
    assert said(tmp_path / "a") == said(tmp_path / "b")
    assert given(tmp_path / "a") == given(tmp_path / "b")
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.glob("opencode.db*")} == {"opencode.db"}


# goose


def _goose_database(path: Path, *, wal: bool = False) -> sqlite3.Connection:
    export = json.loads((FIXTURES / "goose.json").read_text())
    base = sqlite3.connect(path)
    if wal:
        base.execute("PRAGMA journal_mode = WAL")
    base.executescript(
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, description TEXT,"
        " working_dir TEXT, created_at TIMESTAMP);"
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT,"
        " role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);"
    )
    for name in ("20260301_1", "20260301_2"):
        base.execute(
            "INSERT INTO sessions VALUES (?, 'Finding the port', '', '/', '2026-03-01 08:59:58')",
            (name,),
        )
        for each in export["conversation"]:
            content = json.dumps(each["content"])
            values = (f"{name}-{each['id']}", name, each["role"], content, each["created"])
            base.execute(
                "INSERT INTO messages (message_id, session_id, role, content_json,"
                " created_timestamp, metadata_json) VALUES (?, ?, ?, ?, ?, '{}')",
                values,
            )
    base.execute(
        "INSERT INTO messages VALUES (900, 'sum', '20260301_2', 'user', ?, 1772355700, ?)",
        (
            json.dumps([{"type": "text", "text": "They looked for a port."}]),
            json.dumps({"userVisible": False, "agentVisible": True}),
        ),
    )
    base.execute(
        "INSERT INTO messages VALUES (901, 'x', '20260301_2', 'user', '{', 1772355701, '')"
    )
    base.commit()
    return base


@pytest.mark.parametrize("wal", [False, True])
def test_goose_its_database_holds_every_session(home: Path, tmp_path: Path, wal: bool) -> None:
    path = tmp_path / "sessions.db"
    base = _goose_database(path, wal=wal)
    if not wal:
        base.close()
    first, second = each_of(home, path)
    base.close()
    assert first.session == "agent:default:goose-20260301_1"
    assert (first.added, second.added) == (6, 6)
    assert second.left_out["message for the model alone"] == 1
    assert [each.why for each in second.skipped] == ["a message without content"]
    assert [report.added for report in each_of(home, path)] == [0, 0]


def test_goose_older_files_have_little_or_nothing_about_the_session(
    home: Path, tmp_path: Path
) -> None:
    lines = (FIXTURES / "goose.jsonl").read_text().splitlines()
    bare = tmp_path / "20240101_120000.jsonl"
    bare.write_text("\n".join(lines[1:]))
    headed = tmp_path / "20240101_130000.jsonl"
    about = {"description": "A port", "id": "20240101_130000", "extension_data": {}}
    headed.write_text("\n".join([json.dumps(about), *lines[1:]]))
    for path in (bare, headed):
        assert format_of(path).name == "goose"
        (report,) = each_of(home, path)
        assert (report.session, report.added) == (f"agent:default:goose-{path.stem}", 4)


# pi


def test_pi_the_branch_of_the_last_entry_is_the_conversation(home: Path) -> None:
    report = take_over(home, FIXTURES / "pi-branched.jsonl")
    assert said(home) == [
        f"{ASKED}\n\n[image]",
        "I will look.",
        ANSWERED,
        "!git status\n\nnothing to commit",
        CORRECTED,
        "I will change it.",
    ]
    assert report.left_out == {
        "branch_summary": 1,
        "custom": 1,
        "custom_message": 1,
        "label": 1,
        "message on another branch": 3,
    }


def test_pi_a_file_without_names_is_taken_as_it_stands(home: Path, tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"type": "session", "id": "s", "timestamp": "2025-11-20T09:00:00Z", "cwd": "/"},
        {"type": "message", "message": {"role": "user", "content": "one"}},
        {"type": "message", "message": {"role": "user", "content": "two"}},
    ]
    take_over(home, write_lines(tmp_path / "v1.jsonl", records))
    assert said(home) == ["one", "two"]


# ChatGPT


def test_chatgpt_thoughts_go_with_the_answer_they_led_to(home: Path) -> None:
    report = take_over(home, FIXTURES / "chatgpt-thinking.json")
    answers = [line.entry for line in told(home) if isinstance(line.entry, AssistantMessage)]
    assert (answers[0].text, answers[0].source_id) == ("I will look.", "t3")
    assert "The config will tell." in answers[0].thinking[0].text
    assert given(home) == [("port = 8080", "ok"), ("Error: no such page", "error")]
    assert report.left_out == {"hidden or empty message": 1, "recap of the thinking": 1}


def _zipped(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return path


def test_chatgpt_the_downloaded_archive_is_read_as_it_is(home: Path, tmp_path: Path) -> None:
    files = {
        "user.json": b"{}",
        "export/conversations-000.json": (FIXTURES / "chatgpt.json").read_bytes(),
        "export/conversations-001.json": (FIXTURES / "chatgpt-thinking.json").read_bytes(),
    }
    reports = each_of(home, _zipped(tmp_path / "export.zip", **files))
    assert [report.added for report in reports] == [7, 2, 7]


def test_chatgpt_a_damaged_archive_gives_what_can_be_read(home: Path, tmp_path: Path) -> None:
    raw = json.dumps(json.loads((FIXTURES / "chatgpt.json").read_bytes()) * 200).encode()
    path = _zipped(tmp_path / "export.zip", **{"conversations.json": raw})
    bytes_ = bytearray(path.read_bytes())
    bytes_[len(bytes_) // 2 : len(bytes_) // 2 + 40] = bytes(40)
    path.write_bytes(bytes_)
    report = take_over(home, path)
    assert report.added >= 7
    assert report.skipped_total >= 1


def test_an_archive_of_something_else_is_no_session(home: Path, tmp_path: Path) -> None:
    with pytest.raises(NotASession):
        take_over(home, _zipped(tmp_path / "photos.zip", **{"a.json": b"[]"}))
    assert take_over(home, tmp_path / "photos.zip", format="chatgpt").skipped_total == 1


@pytest.mark.parametrize("name", ["goose", "opencode"])
def test_a_damaged_database_is_survived(home: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "sessions.db"
    if name == "goose":
        _goose_database(path).close()
    else:
        _opencode_database(path)
    raw = path.read_bytes()
    for cut in (100, 3_000, len(raw) // 2):
        path.write_bytes(raw[:cut] + b"\xff" * 64 + raw[cut + 64 :])
        take_over(tmp_path / f"home-{cut}", path, format=name)
        path.write_bytes(raw[:cut])
        take_over(tmp_path / f"short-{cut}", path, format=name)
        assert_sound(tmp_path / f"short-{cut}")


def described(home: Path) -> SessionDescribed:
    """What the newest import said of the conversation as a whole."""
    found = [line.entry for line in told(home)]
    return [each for each in found if isinstance(each, SessionDescribed)][-1]


def test_codex_a_head_that_is_written_again_tears_no_question_from_its_answer(
    home: Path, tmp_path: Path
) -> None:
    head = {
        "type": "session_meta",
        "timestamp": "2026-03-01T09:00:00Z",
        "payload": {"id": "s1", "cwd": "/work/app", "git": {"branch": "main"}},
    }

    def item(role: str, text: str) -> dict[str, Any]:
        content = [{"type": "input_text", "text": text}]
        payload = {"type": "message", "role": role, "content": content}
        return {"type": "response_item", "timestamp": head["timestamp"], "payload": payload}

    path = write_lines(
        tmp_path / "rollout.jsonl",
        [
            head,
            item("user", ASKED),
            head,
            item("assistant", ANSWERED),
            item("user", CORRECTED),
            head,
            item("assistant", "Noted."),
        ],
    )
    report = take_over(home, path)
    assert report.last_turn == 2
    assert [(turn, kind) for turn, kind, _ in outline(home)] == [
        (1, "user_message"),
        (1, "assistant_message"),
        (2, "user_message"),
        (2, "assistant_message"),
    ]
    about = described(home)
    assert (about.folder, about.branch, about.conversation) == ("/work/app", "main", "s1")


def test_codex_the_first_versions_are_as_old_as_their_first_line_says(
    home: Path, tmp_path: Path
) -> None:
    message = {"type": "message", "role": "user", "content": ASKED}
    dated = {"id": "s1", "timestamp": "2025-05-07T17:24:21.000Z", "instructions": ""}
    take_over(home, write_lines(tmp_path / "old.jsonl", [dated, message]))
    said_at = [line.ts for line in told(home) if line.kind == "user_message"]
    assert said_at == ["2025-05-07T17:24:21.000Z"]


def test_codex_a_file_without_dates_is_as_old_as_its_name_says(home: Path, tmp_path: Path) -> None:
    message = {"type": "message", "role": "user", "content": ASKED}
    state = {"record_type": "state"}
    path = write_lines(tmp_path / "rollout-2025-05-07T17-24-21-s1.jsonl", [state, message])
    take_over(home, path, format="codex")
    said_at = [line.ts for line in told(home) if line.kind == "user_message"]
    assert said_at == ["2025-05-07T17:24:21.000Z"]


def test_codex_its_running_total_is_counted_once_and_by_day(home: Path, tmp_path: Path) -> None:
    def total(tokens: int) -> dict[str, Any]:
        usage = {"input_tokens": tokens, "output_tokens": tokens // 10}
        payload = {"type": "token_count", "info": {"total_token_usage": usage}}
        return {"type": "event_msg", "timestamp": "2026-03-01T09:00:00Z", "payload": payload}

    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASKED}]}
    path = write_lines(
        tmp_path / "rollout.jsonl",
        [
            {"type": "session_meta", "payload": {"id": "s1"}},
            {"type": "turn_context", "payload": {"model": "gpt-5"}},
            {"type": "response_item", "timestamp": "2026-03-01T09:00:00Z", "payload": said},
            total(100),
            total(100),
            total(250),
        ],
    )
    take_over(home, path)
    (used,) = described(home).used
    assert (used.day, used.model) == ("2026-03-01", "gpt-5")
    assert (used.usage.prompt, used.usage.completion) == (250, 25)


def test_claude_code_an_answer_over_many_lines_is_counted_once(home: Path, tmp_path: Path) -> None:
    def line(number: int, text: str, tokens: int, model: str = "claude-x") -> dict[str, Any]:
        return {
            "type": "assistant",
            "uuid": f"a{number}",
            "parentUuid": "u1",
            "sessionId": "s1",
            "cwd": "/work/app",
            "gitBranch": "fix",
            "timestamp": "2026-03-01T09:00:01Z",
            "message": {
                "id": "m1" if model == "claude-x" else f"m{number}",
                "model": model,
                "content": [{"type": "text", "text": text}],
                "usage": {
                    "input_tokens": 5,
                    "cache_read_input_tokens": 95,
                    "output_tokens": tokens,
                },
            },
        }

    asked = {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": "s1",
        "message": {"role": "user", "content": ASKED},
    }
    path = write_lines(
        tmp_path / "s1.jsonl",
        [asked, line(1, "It uses", 2), line(2, "port 8080.", 6), line(3, "Oops", 1, "<synthetic>")],
    )
    report = take_over(home, path)
    about = described(home)
    (used,) = about.used
    assert (used.usage.prompt, used.usage.completion, used.usage.cached) == (100, 6, 95)
    assert (about.models, about.folder, about.branch) == (("claude-x",), "/work/app", "fix")
    assert report.left_out["answer that the program made up"] == 1


def test_claude_code_a_sub_agent_names_the_session_that_started_it(home: Path) -> None:
    folder = FIXTURES / "claude-code-subagents"
    path = next(each for each in sorted(folder.rglob("*.jsonl")) if "agent" in each.name)
    take_over(home, path)
    assert described(home).started_by.startswith("agent:default:claude-code-")


def test_opencode_parts_that_share_an_id_stay_apart(home: Path, tmp_path: Path) -> None:
    def tool(output: str) -> dict[str, Any]:
        state = {"status": "completed", "input": {}, "output": output}
        return {"id": "p1", "type": "tool", "tool": "bash", "callID": "same", "state": state}

    thought = {"id": "p1", "type": "reasoning", "text": "First this."}
    session = {
        "info": {"id": "ses_1", "title": "Ids", "directory": "/work/app"},
        "messages": [
            {"info": {"id": "m1", "role": "user"}, "parts": [{"type": "text", "text": ASKED}]},
            {
                "info": {"id": "m2", "role": "assistant", "tokens": {"input": 7, "output": 3}},
                "parts": [
                    thought,
                    tool("one"),
                    tool("two"),
                    {"type": "step-start"},
                    {**thought, "text": "Then that."},
                    {"type": "step-start"},
                    {**thought, "text": "And now this."},
                ],
            },
        ],
    }
    path = tmp_path / "session.json"
    path.write_text(json.dumps(session))
    take_over(home, path)
    entries = [line.entry for line in told(home)]
    results = [each for each in entries if isinstance(each, ToolReturned)]
    assert [(each.text, each.status) for each in results] == [("one", "ok"), ("two", "ok")]
    thoughts = [
        part.text
        for each in entries
        if isinstance(each, AssistantMessage)
        for part in each.thinking
    ]
    assert thoughts == ["First this.", "Then that.", "And now this."]
    assert_sound(home)


def test_messages_in_one_array_are_read_and_a_foreign_file_makes_no_session(
    home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "talk.json"
    talk = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": ANSWERED}]
    path.write_text(json.dumps(talk))
    assert format_of(path).name == "messages"
    take_over(home, path)
    assert said(home) == [ASKED, ANSWERED]


def test_importing_again_says_nothing_new_of_the_conversation(home: Path) -> None:
    take_over(home, FIXTURES / "codex.jsonl")
    before = len(told(home))
    take_over(home, FIXTURES / "codex.jsonl")
    assert len(told(home)) == before


def test_a_tool_of_copilot_that_printed_nothing_has_answered(home: Path, tmp_path: Path) -> None:
    """Also where the object of its result has other fields."""
    lines = (FIXTURES / "copilot-cli.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    ended = next(each["data"] for each in records if each["type"] == "tool.execution_complete")
    ended["result"] = {"content": "", "detailedContent": "none"}

    report = take_over(home, write_lines(tmp_path / "events.jsonl", records))

    assert report.skipped == ()
    assert given(home)[0] == ("", "ok")


def test_a_message_of_goose_that_says_nothing_is_no_damage(home: Path, tmp_path: Path) -> None:
    records = [
        {"working_dir": "/home/ada/server", "message_count": 2},
        {"role": "user", "created": 1772355600, "content": [{"type": "text", "text": ASKED}]},
        {"role": "assistant", "created": 1772355605, "content": []},
    ]

    report = take_over(home, write_lines(tmp_path / "goose.jsonl", records))

    assert report.skipped == ()
    assert report.left_out == {"empty answer": 1}
