"""What an import writes is what the file says: compared with a second, independent reading."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.entries.base import added
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.interchange.formats import formats
from mindstone_tui.core.interchange.formats.base import NO_RESULT
from mindstone_tui.core.interchange.import_session import sources
from mindstone_tui.core.transcript import verify
from tests.builders import places_in, say, transcript_in, use_tool
from tests.core.interchange.formats import databases
from tests.core.interchange.formats.heard import LISTEN as NEWER
from tests.core.interchange.formats.heard import Heard, roo_code
from tests.core.interchange.formats.heard_newest import LISTEN as NEWEST
from tests.core.interchange.formats.heard_older import OLDER
from tests.core.interchange.helpers import FIXTURES, assert_sound, take_over, told

FILES = {
    "antigravity": "antigravity/brain/ag-1/.system_generated/logs/transcript.jsonl",
    "dsh": "dsh.jsonl",
    "grok": "grok/g1/chat_history.jsonl",
    "hermes": "hermes.jsonl",
    "kimi": "kimi/k1/wire.jsonl",
    "openclaw": "openclaw.jsonl",
    "prompt-history": "prompt-history.jsonl",
    "vscode-chat": "vscode-chat/chatSessions/vs-1.json",
    "aider": "aider/.aider.chat.history.md",
    "chatgpt": "chatgpt.json",
    "claude-code": "claude-code.jsonl",
    "codex": "codex.jsonl",
    "gemini-cli": "gemini-cli.json",
    "goose": "goose.json",
    "messages": "messages.jsonl",
    "opencode": "opencode.json",
    "pi": "pi.jsonl",
    "claude-ai": "claude-ai.json",
    "cline": "cline/1772355600000/api_conversation_history.json",
    "continue": "continue/cc000000-0000-4000-8000-000000000001.json",
    "copilot-cli": "copilot-cli.jsonl",
    "droid": "droid/d0000000-0000-4000-8000-000000000001.jsonl",
    "kiro": "kiro/a1b2.jsonl",
    "openhands": "openhands.json",
    "qwen-code": "qwen-code.jsonl",
    "roo-code": "roo-code/1772355600001/api_conversation_history.json",
    "specstory": "specstory/.specstory/history/2026-03-01_09-00-00Z-which-port.md",
}
BUILT: dict[str, Callable[[Path], Path]] = {
    "crush": lambda folder: databases.crush(folder / "tide" / ".crush" / "crush.db"),
    "cursor": lambda folder: databases.cursor(folder / "state.vscdb"),
    "kilo-code": lambda folder: _as_kilo(folder / "kilocode.kilo-code" / "tasks" / "1772355600001"),
    "mindstone": lambda folder: _own(folder / "elsewhere"),
    "zed": lambda folder: databases.zed(folder / "threads.db"),
}
LISTEN = {**NEWER, **OLDER, **NEWEST, "kilo-code": roo_code}
PROGRAMS = sorted({*FILES, *BUILT})


def _as_kilo(folder: Path) -> Path:
    """A task of Roo Code in the folder of Kilo Code, which keeps it in the same way."""
    shutil.copytree((FIXTURES / FILES["roo-code"]).parent, folder)
    return folder / "api_conversation_history.json"


def _own(home: Path) -> Path:
    """A session of ours, from another home."""
    with closing(transcript_in(home)) as transcript:
        use_tool(transcript, "Which port does the server use?", "port = 8080", "It uses 8080.")
        say(transcript, "No, from now on it is 9090.", "I will change it.")
    return transcript.places.transcript


def _source(program: str, tmp_path: Path) -> Path:
    if program == "zed" and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    return FIXTURES / FILES[program] if program in FILES else BUILT[program](tmp_path)


def _written(home: Path) -> list[Heard]:
    """The conversation as it stands in the transcript."""
    heard: list[Heard] = []
    for line in told(home):
        match line.entry:
            case UserMessage(text=text):
                heard.append(Heard("user", text, line.ts))
            case AssistantMessage(text=text, model=model, calls=calls, thinking=thinking):
                asked = tuple((each.name, each.arguments) for each in calls)
                thoughts = tuple(each.text for each in thinking)
                heard.append(Heard("assistant", text, line.ts, model, asked, thoughts))
            case ToolReturned(text=text) if text != NO_RESULT:
                heard.append(Heard("result", text, line.ts))
    return heard


def test_every_format_is_heard_twice() -> None:
    assert set(LISTEN) == set(PROGRAMS) == set(formats())


@pytest.mark.parametrize("program", PROGRAMS)
def test_texts_calls_results_order_dates_and_models_are_those_of_the_file(
    home: Path, tmp_path: Path, program: str
) -> None:
    source = _source(program, tmp_path)
    report = take_over(home, source)

    assert report.format == program
    assert report.skipped == ()
    expected = LISTEN[program](source)
    assert len(expected) >= 4
    assert _written(home) == expected
    assert_sound(home)
    again = take_over(home, source)
    assert (again.added, again.already_there) == (0, report.added)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("aider", {"models": ("example/large", "example/small")}),
        ("cline", {"folder": "/home/ada/tide", "conversation": "1772355600000"}),
        ("claude-ai", {"conversation": "ca000000-0000-4000-8000-000000000001"}),
        (
            "copilot-cli",
            {"title": "Finding the port", "folder": "/home/ada/tide", "branch": "main"},
        ),
        ("continue", {"title": "Finding the port", "folder": "/home/ada/tide"}),
        ("cursor", {"title": "Finding the port", "conversation": "k1"}),
        ("kiro", {"title": "Finding the port", "folder": "/home/ada/tide", "conversation": "a1b2"}),
        ("openhands", {"conversation": "openhands", "models": ("example/large",)}),
        ("crush", {"title": "Ports", "conversation": "s1"}),
        ("droid", {"title": "Finding the port", "folder": "/home/ada/tide"}),
        (
            "qwen-code",
            {"title": "Finding the port", "folder": "/home/ada/tide", "branch": "main"},
        ),
        (
            "roo-code",
            {"folder": "/home/ada/tide", "started_by": "agent:default:roo-code-1772355500000"},
        ),
    ],
)
def test_what_the_file_says_of_the_conversation_is_kept(
    home: Path, tmp_path: Path, program: str, expected: dict[str, object]
) -> None:
    described = take_over(home, _source(program, tmp_path)).described
    assert described is not None
    assert described.began.startswith("2026-03-01T09:00:0") or program == "droid"
    assert {name: getattr(described, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("program", "prompt", "completion", "cost"),
    [
        ("aider", 3_500, 233, 0.03),
        ("cline", 250, 11, 0.03),
        ("continue", 300, 20, None),
        ("kiro", 1_200, 30, None),
        ("crush", None, None, 0.25),
        ("cursor", 100, 20, None),
        ("openhands", 250, 25, 0.3),
        ("copilot-cli", 700, 50, None),
        ("droid", 160, 30, None),
        ("qwen-code", 500, 40, None),
        ("roo-code", 390, 18, 0.06),
    ],
)
def test_tokens_and_costs_are_counted_as_far_as_they_stand_in_it(
    home: Path,
    tmp_path: Path,
    program: str,
    prompt: int | None,
    completion: int | None,
    cost: float | None,
) -> None:
    described = take_over(home, _source(program, tmp_path)).described
    assert described is not None
    total = Usage()
    for each in described.used:
        total = added(total, each.usage)
    assert (total.prompt, total.completion) == (prompt, completion)
    assert total.cost == (None if cost is None else pytest.approx(cost))


def test_a_task_of_which_only_the_shown_messages_are_left_is_read_from_them(
    home: Path, tmp_path: Path
) -> None:
    whole = FIXTURES / FILES["cline"]
    alone = tmp_path / "1772355600000" / "ui_messages.json"
    alone.parent.mkdir()
    alone.write_bytes(whole.with_name("ui_messages.json").read_bytes())
    take_over(home, alone)
    assert [(each.role, each.text) for each in _written(home)] == [
        ("user", "Which port does the server use?"),
        ("assistant", "I will look."),
        ("result", "config.toml"),
        ("assistant", ""),
        ("result", "port = \n8080"),
        ("assistant", "It uses port 8080."),
        ("user", "No, from now on it is 9090."),
    ]
    assert_sound(home)


def test_a_formatted_history_of_aider_is_still_told_apart(home: Path, tmp_path: Path) -> None:
    text = (FIXTURES / FILES["aider"]).read_text()
    bare = "\n".join(line.rstrip() for line in text.splitlines())
    path = tmp_path / "history.md"
    path.write_text(bare)
    take_over(home, path)
    assert [each.text for each in _written(home) if each.role == "user"] == [
        "Which port does the server use?",
        "Where it stands",
        "No, from now on it is 9090.\n\nChange it everywhere.",
        "Thanks!",
    ]


def test_older_databases_of_cursor_hold_composers_and_chats(home: Path, tmp_path: Path) -> None:
    take_over(home, databases.older_cursor(tmp_path / "state.vscdb"))
    assert [(each.role, each.text) for each in _written(home)] == [
        ("user", "Add a port."),
        ("assistant", "Added."),
        ("user", "Why 8080?"),
        ("assistant", "By habit."),
    ]


def test_the_store_of_cursors_command_line_is_walked_from_its_root(
    home: Path, tmp_path: Path
) -> None:
    path = databases.cursor_store(tmp_path / "chats" / "p" / "7f" / "store.db")
    before = path.read_bytes()
    report = take_over(home, path)
    assert (report.format, report.skipped) == ("cursor", ())
    assert report.left_out == {"instructions of the program": 1}
    began = "2026-03-01T09:00:00.000Z"
    look = (("Read", '{"path":"config.toml"}'),)
    thought = ("The config will tell.",)
    assert _written(home) == [
        Heard("user", "Which port?", began),
        Heard("assistant", "I will look.", began, "example-large", look, thought),
        Heard("result", "port = 8080", began),
        Heard("assistant", "It uses port 8080.", began),
    ]
    assert report.described is not None
    assert (report.described.title, report.described.folder, report.described.conversation) == (
        "Finding the port",
        "/home/ada/my tide",
        "chat-7f",
    )
    assert_sound(home)
    assert take_over(home, path).added == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "data",
    [b"", b"\x0a", b"\x0a\xff\xff\xff", b"\xff" * 40, b"\x0b\x0c", b"\x0a\x20" + b"x" * 9],
)
def test_a_damaged_root_of_cursors_store_ends_and_is_named(
    home: Path, tmp_path: Path, data: bytes
) -> None:
    path = databases.cursor_store(tmp_path / "chats" / "p" / "7f" / "store.db")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        (about,) = connection.execute("SELECT value FROM meta").fetchone()
        root = json.loads(bytes.fromhex(about))["latestRootBlobId"]
        connection.execute("UPDATE blobs SET data = ? WHERE id = ?", (data, root))
    assert take_over(home, path).added == 0


def test_a_folder_of_events_is_one_conversation(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "conversations" / "7f" / "events"
    folder.mkdir(parents=True)
    told_by: list[dict[str, Any]] = [
        {"kind": "MessageEvent", "llm_message": {"role": "user", "content": "Which port?"}},
        {
            "kind": "ActionEvent",
            "thought": [{"type": "text", "text": "I will look."}],
            "tool_name": "terminal",
            "tool_call_id": "c1",
            "tool_call": {"id": "c1", "name": "terminal", "arguments": "{}"},
        },
        {
            "kind": "ObservationEvent",
            "tool_call_id": "c1",
            "observation": {"content": [{"type": "text", "text": "port = 8080"}]},
        },
    ]
    for number, event in enumerate(told_by):
        stamped = {"source": "agent", "timestamp": f"2026-03-01T09:00:0{number}", **event}
        (folder / f"event-{number:05}-ab.json").write_text(json.dumps(stamped))
    used = {"prompt_tokens": 120, "completion_tokens": 7, "model": "example/large"}
    spent = {"accumulated_cost": 0.5, "accumulated_token_usage": used}
    state = {
        "agent": {"llm": {"model": "example/large"}},
        "workspace": {"working_dir": "/home/ada/tide"},
        "stats": {"usage_to_metrics": {"agent": spent}},
    }
    (folder.parent / "base_state.json").write_text(json.dumps(state))
    first = folder / "event-00000-ab.json"
    assert sources(tmp_path) == [first]
    report = take_over(home, first)
    assert report.format == "openhands"
    assert [each.text for each in _written(home)] == ["Which port?", "I will look.", "port = 8080"]
    assert _written(home) == LISTEN["openhands"](first)
    about = report.described
    assert about is not None
    assert (about.folder, about.models) == ("/home/ada/tide", ("example/large",))
    assert [each.usage for each in about.used] == [Usage(prompt=120, completion=7, cost=0.5)]
    assert_sound(home)


def test_a_long_session_that_is_one_object_over_many_lines_is_known(
    home: Path, tmp_path: Path
) -> None:
    """The first message alone may be longer than what is looked at of other files."""
    whole = json.loads((FIXTURES / FILES["continue"]).read_text())
    whole["history"][0]["contextItems"][0]["content"] = "Port notes.\n" * 30_000
    path = tmp_path / "cc000000-0000-4000-8000-000000000001.json"
    path.write_text(json.dumps(whole, indent=1))
    assert take_over(home, path).format == "continue"


def test_a_session_of_continue_tells_its_model_its_folder_and_its_cost(
    home: Path, tmp_path: Path
) -> None:
    told_by: dict[str, object] = {
        "sessionId": "c1",
        "workspaceDirectory": "file:///c%3A/Users/ada/my%20tide",
        "history": [
            {"message": {"role": "user", "content": "Which port?"}, "contextItems": []},
            {
                "message": {
                    "role": "assistant",
                    "content": "8080.",
                    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "model": "example"},
                },
                "contextItems": [],
            },
        ],
    }
    path = tmp_path / "c1.json"
    path.write_text(json.dumps(told_by))
    about = take_over(home, path).described
    assert about is not None
    assert (about.folder, about.models) == ("c:/Users/ada/my tide", ("example",))
    assert [each.usage for each in about.used] == [Usage(prompt=9, completion=2)]

    told_by["usage"] = {"totalCost": 1.5, "promptTokens": 90, "completionTokens": 20}
    path.write_text(json.dumps(told_by))
    about = take_over(home, path).described
    assert about is not None
    assert [each.usage for each in about.used] == [Usage(prompt=90, completion=20, cost=1.5)]


PIXEL = base64.b64encode(
    bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
).decode()
"""The beginning of a picture, as far as anybody looks."""
_SOURCE = {"type": "image", "source": {"type": "base64", "data": PIXEL}}
_NUMBERS = {
    "kind": "image",
    "data": {"format": "png", "source": {"kind": "bytes", "data": [*base64.b64decode(PIXEL)]}},
}
_INLINE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
WITH_PICTURE: dict[str, dict[str, Any]] = {
    "claude-code": {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": "s1",
        "message": {"role": "user", "content": [{"type": "text", "text": "Look:"}, _SOURCE]},
    },
    "codex": {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look:"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
            ],
        },
    },
    "droid": {
        "type": "message",
        "message": {"role": "user", "content": [{"type": "text", "text": "Look:"}, _SOURCE]},
    },
    "kiro": {
        "kind": "Prompt",
        "data": {"content": [{"kind": "text", "data": "Look:"}, _NUMBERS]},
    },
    "qwen-code": {
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": "s1",
        "type": "user",
        "message": {"role": "user", "parts": [{"text": "Look:\n\n"}, _INLINE]},
    },
}


@pytest.mark.parametrize("program", WITH_PICTURE)
def test_a_picture_in_a_message_is_kept_as_a_blob(home: Path, tmp_path: Path, program: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(WITH_PICTURE[program]) + "\n")
    take_over(home, path, format=program)
    (message,) = [line.entry for line in told(home) if isinstance(line.entry, UserMessage)]
    assert message.text == "Look:\n\n[image]"
    (image,) = message.images
    assert (image.media_type, image.width, image.height) == ("image/png", 1, 1)
    blob = places_in(home).blobs / image.sha256[:2] / image.sha256
    blob = blob if blob.exists() else next(places_in(home).blobs.rglob(f"*{image.sha256}*"))
    assert base64.b64encode(blob.read_bytes()).decode() == PIXEL
    assert take_over(home, path, format=program).added == 0


_USED_CLAUDE = {"type": "tool_use", "id": "c1", "name": "Read", "input": {}}
_GAVE_CLAUDE = {
    "type": "tool_result",
    "tool_use_id": "c1",
    "content": [{"type": "text", "text": "seen"}, _SOURCE],
}
_USED_GEMINI = {"functionCall": {"id": "c1", "name": "Read", "args": {}}}
_GAVE_GEMINI = {"functionResponse": {"id": "c1", "name": "Read", "response": {"output": "seen"}}}
GIVEN_PICTURE: dict[str, list[dict[str, Any]]] = {
    "claude-code": [
        {
            "type": "assistant",
            "uuid": "a",
            "parentUuid": None,
            "message": {"role": "assistant", "content": [_USED_CLAUDE]},
        },
        {
            "type": "user",
            "uuid": "b",
            "parentUuid": "a",
            "message": {"role": "user", "content": [_GAVE_CLAUDE]},
        },
    ],
    "codex": [
        {
            "type": "response_item",
            "payload": {
                "type": "function_call",
                "call_id": "c1",
                "name": "Read",
                "arguments": "{}",
            },
        },
        {
            "type": "response_item",
            "payload": {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [
                    {"type": "input_text", "text": "seen"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
                ],
            },
        },
    ],
    "qwen-code": [
        {
            "uuid": "a",
            "parentUuid": None,
            "sessionId": "s",
            "type": "assistant",
            "message": {"role": "model", "parts": [_USED_GEMINI]},
        },
        {
            "uuid": "b",
            "parentUuid": "a",
            "sessionId": "s",
            "type": "tool_result",
            "message": {"role": "user", "parts": [_GAVE_GEMINI, _INLINE]},
        },
    ],
    "gemini-cli": [
        {"sessionId": "s", "projectHash": "p"},
        {
            "id": "a",
            "type": "gemini",
            "content": "",
            "toolCalls": [
                {
                    "id": "c1",
                    "name": "Read",
                    "args": {},
                    "status": "success",
                    "result": [_GAVE_GEMINI, _INLINE],
                }
            ],
        },
    ],
    "pi": [
        {
            "type": "message",
            "id": "a",
            "parentId": None,
            "message": {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": "c1", "name": "Read", "arguments": {}}],
            },
        },
        {
            "type": "message",
            "id": "b",
            "parentId": "a",
            "message": {
                "role": "toolResult",
                "toolCallId": "c1",
                "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                ],
            },
        },
    ],
    "kiro": [
        {
            "kind": "AssistantMessage",
            "data": {
                "content": [
                    {"kind": "toolUse", "data": {"toolUseId": "c1", "name": "read", "input": {}}}
                ]
            },
        },
        {
            "kind": "ToolResults",
            "data": {
                "content": [
                    {
                        "kind": "toolResult",
                        "data": {
                            "toolUseId": "c1",
                            "content": [{"kind": "text", "data": "seen"}, _NUMBERS],
                        },
                    }
                ]
            },
        },
    ],
}


@pytest.mark.parametrize("program", GIVEN_PICTURE)
def test_a_picture_that_a_tool_gave_is_kept_as_a_blob(
    home: Path, tmp_path: Path, program: str
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in GIVEN_PICTURE[program]))
    take_over(home, path, format=program)
    (result,) = [line.entry for line in told(home) if isinstance(line.entry, ToolReturned)]
    assert result.text == "seen\n\n[image]"
    (image,) = result.images
    assert (image.media_type, image.width, image.height) == ("image/png", 1, 1)
    assert verify(places_in(home)).ok
    next(places_in(home).blobs.rglob(f"*{image.sha256}*")).unlink()
    assert not verify(places_in(home)).ok
