"""Databases of other programs, made for a test: the schema that the program uses, a small story."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

_NINE = 1_772_355_600


def _part(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def crush(path: Path) -> Path:
    """`.crush/crush.db` with a session, one that it started, and a summary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    call = _part("tool_call", id="c1", name="view", input='{"file_path":"config.toml"}')
    lost = _part("tool_call", id="c2", name="edit", input='{"file_path":"config.toml"}')
    result = _part("tool_result", tool_call_id="c1", name="", content="port = 8080", is_error=False)
    look = [
        _part("reasoning", thinking="The config will tell.", signature=""),
        _part("text", text="I will look."),
        call,
        _part("finish", reason="tool_use", time=_NINE + 2),
    ]
    messages: list[tuple[str, str, str, list[dict[str, Any]], int]] = [
        ("m1", "s1", "user", [_part("text", text="Which port does the server use?")], 0),
        ("m2", "s1", "assistant", look, 2),
        ("m3", "s1", "tool", [result], 3),
        ("m4", "s1", "assistant", [_part("text", text="It uses port 8080.")], 3),
        ("m5", "s1", "assistant", [_part("text", text="A summary.")], 4),
        ("m6", "s1", "user", [_part("text", text="No, from now on it is 9090.")], 5),
        ("m7", "s1", "assistant", [_part("text", text="I will change it."), lost], 6),
        ("m8", "s2", "user", [_part("text", text="Look for ports.")], 7),
        ("m9", "s2", "assistant", [_part("text", text="There is one.")], 8),
    ]
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            """
            CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT,
                message_count INTEGER, prompt_tokens INTEGER, completion_tokens INTEGER, cost REAL,
                updated_at INTEGER, created_at INTEGER, summary_message_id TEXT);
            CREATE TABLE files (id TEXT PRIMARY KEY, session_id TEXT, path TEXT, content TEXT);
            CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT,
                model TEXT, created_at INTEGER, updated_at INTEGER, finished_at INTEGER,
                provider TEXT);
            """
        )
        connection.executemany(
            "INSERT INTO sessions VALUES (?, ?, ?, 0, 900, 9, ?, ?, ?, ?)",
            [
                ("s1", None, "Finding the port", 0.25, _NINE + 6, _NINE, "m5"),
                ("s2", "s1", "Ports", 0.0, _NINE + 8, _NINE + 7, None),
            ],
        )
        connection.executemany(
            "INSERT INTO messages VALUES (?, ?, ?, ?, 'example-large', ?, 0, 0, 'example')",
            [
                (name, session, role, json.dumps(parts), _NINE + second)
                for name, session, role, parts, second in messages
            ],
        )
    return path


def cursor(path: Path) -> Path:
    """The editor's `state.vscdb`: one conversation, and one that nobody said anything in."""
    look = {"name": "read_file", "rawArgs": '{"target_file":"config.toml"}', "toolCallId": "c1"}
    bubbles: list[dict[str, Any]] = [
        {"type": 1, "text": "Which port does the server use?"},
        {
            "type": 2,
            "text": "I will look.",
            "createdAt": "2026-03-01T09:00:02.000Z",
            "thinking": {"text": "The config will tell.", "signature": ""},
            "toolFormerData": {**look, "status": "completed", "result": "port = 8080"},
        },
        {
            "type": 2,
            "text": "It uses port 8080.",
            "tokenCount": {"inputTokens": 100, "outputTokens": 20},
        },
        {"type": 1, "text": "No, from now on it is 9090.", "createdAt": "2026-03-01T09:00:07Z"},
        {
            "type": 2,
            "text": "I will change it.",
            "toolFormerData": {"name": "edit", "rawArgs": "{}", "status": "loading"},
        },
    ]
    composer = {
        "composerId": "k1",
        "name": "Finding the port",
        "createdAt": _NINE * 1000,
        "modelConfig": {"modelName": "example-large"},
        "fullConversationHeadersOnly": [
            {"bubbleId": f"b{number}", "type": bubble["type"]}
            for number, bubble in enumerate(bubbles)
        ],
    }
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for table in ("ItemTable", "cursorDiskKV"):
            connection.execute(f"CREATE TABLE {table} (key TEXT UNIQUE, value BLOB)")
        rows = [("composerData:k1", composer)]
        rows += [(f"bubbleId:k1:b{number}", bubble) for number, bubble in enumerate(bubbles)]
        connection.executemany(
            "INSERT INTO cursorDiskKV VALUES (?, ?)",
            [(key, json.dumps(value).encode()) for key, value in rows],
        )
    return path


def older_cursor(path: Path) -> Path:
    """A project's `state.vscdb` of 2024: a composer and a chat, each as one value."""
    composers = {
        "allComposers": [
            {
                "composerId": "k2",
                "createdAt": _NINE * 1000,
                "conversation": [
                    {"type": 1, "bubbleId": "x1", "text": "Add a port."},
                    {"type": 2, "bubbleId": "x2", "text": "Added."},
                ],
            },
            {"composerId": "k3", "conversation": []},
        ]
    }
    chats = {
        "tabs": [
            {
                "tabId": "k4",
                "chatTitle": "Ports",
                "lastSendTime": _NINE * 1000,
                "bubbles": [
                    {"type": "user", "id": "y1", "text": "Why 8080?"},
                    {"type": "ai", "id": "y2", "rawText": "By habit.", "modelType": "example"},
                ],
            }
        ]
    }
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB)")
        connection.executemany(
            "INSERT INTO ItemTable VALUES (?, ?)",
            [
                ("composer.composerData", json.dumps(composers)),
                ("workbench.panel.aichat.view.aichat.chatdata", json.dumps(chats)),
            ],
        )
    return path


def cursor_store(path: Path) -> Path:
    """`store.db` of Cursor's command line: a root, a list below it, and the messages."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be careful."},
        {
            "role": "user",
            "content": [
                {
                    "type": "text",
                    "text": "<user_info>x</user_info>\n<user_query>\nWhich port?\n</user_query>",
                }
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "The config will tell."},
                {"type": "text", "text": "I will look."},
                {
                    "type": "tool-call",
                    "toolCallId": "c1",
                    "toolName": "Read",
                    "args": {"path": "config.toml"},
                },
            ],
            "providerOptions": {"cursor": {"modelName": "example-large"}},
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "Read",
                    "result": "port = 8080",
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "It uses port 8080."}]},
    ]
    path.parent.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")

        def keep(data: bytes) -> bytes:
            digest = hashlib.sha256(data).digest()
            connection.execute("INSERT INTO blobs VALUES (?, ?)", (digest.hex(), data))
            return digest

        kept = [keep(json.dumps(each).encode()) for each in messages]
        inner = keep(b"".join(b"\x0a\x20" + each for each in kept[1:3]))
        folder = b"file:///home/ada/my%20tide"
        listed = b"".join(b"\x0a\x20" + each for each in (kept[0], inner, *kept[3:]))
        root = keep(listed + b"\x10\x07\x4a" + bytes([len(folder)]) + folder)
        about = {
            "agentId": "7f",
            "latestRootBlobId": root.hex(),
            "name": "Finding the port",
            "createdAt": _NINE * 1000,
        }
        value = json.dumps(about).encode().hex()
        connection.execute("INSERT INTO meta VALUES ('0', ?)", (value,))
    return path


_ASKED = "Which port does the server use?"
_ANSWERED = "It uses port 8080."


def hermes(path: Path) -> Path:
    """`state.db` with what was compacted, what was rewound and a summary for the model."""
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"p":1}'}}
    rows: list[tuple[str, str, str | None, str | None, int, int, int]] = [
        ("user", _ASKED, None, None, 0, 1, 0),
        ("assistant", "I will look.", None, json.dumps([call]), 0, 1, 0),
        ("tool", "port = 8080", "c1", None, 0, 1, 0),
        ("user", "A summary of what was said.", None, None, 1, 0, 1),
        ("assistant", _ANSWERED, None, None, 1, 0, 0),
        ("user", "Forget that.", None, None, 0, 0, 0),
        ("user", "No, from now on it is 9090.", None, None, 1, 0, 0),
    ]
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.executescript(
            """
            CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT,
                parent_session_id TEXT, started_at REAL NOT NULL, input_tokens INTEGER,
                output_tokens INTEGER, cwd TEXT, git_branch TEXT, estimated_cost_usd REAL,
                title TEXT);
            CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
                role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT,
                tool_name TEXT, timestamp REAL NOT NULL, reasoning TEXT,
                _compressed_summary INTEGER NOT NULL DEFAULT 0, active INTEGER NOT NULL DEFAULT 1,
                compacted INTEGER NOT NULL DEFAULT 0);
            """
        )
        told = ("h1", "cli", "example/large", _NINE, 120, 30, "/home/ada/tide", "main", 0.5)
        base.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, 'Finding the port')",
            told,
        )
        for number, (role, said, answers, calls, active, compacted, summary) in enumerate(rows):
            base.execute(
                "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls,"
                " timestamp, active, compacted, _compressed_summary)"
                " VALUES ('h1', ?, ?, ?, ?, ?, ?, ?, ?)",
                (role, said, answers, calls, _NINE + number, active, compacted, summary),
            )
    return path


def zed(path: Path) -> Path:
    """`threads.db` with one thread as Zed packs it."""
    use = {"id": "t1", "name": "read_file", "input": {"path": "config.toml"}, "raw_input": "{}"}
    given = {
        "tool_use_id": "t1",
        "tool_name": "read_file",
        "is_error": False,
        "content": [{"Text": "port = 8080"}],
        "output": None,
    }
    look = [
        {"Thinking": {"text": "The config will tell.", "signature": None}},
        {"Text": "I will look."},
        {"ToolUse": use},
    ]
    messages = [
        {"User": {"id": "u1", "content": [{"Text": _ASKED}]}},
        {"Agent": {"content": look, "tool_results": {"t1": given}, "reasoning_details": None}},
        {"Agent": {"content": [{"Text": _ANSWERED}], "tool_results": {}}},
        "Resume",
        {"User": {"id": "u2", "content": [{"Text": "No, from now on it is 9090."}]}},
    ]
    thread = {
        "version": "0.3.0",
        "title": "Finding the port",
        "messages": messages,
        "updated_at": "2026-03-01T09:00:09Z",
        "cumulative_token_usage": {"input_tokens": 100, "output_tokens": 20},
        "model": {"provider": "example", "model": "large"},
    }
    packed = subprocess.run(
        ["zstd", "-qc"], input=json.dumps(thread).encode(), capture_output=True, check=True
    ).stdout
    _threads(path, [("z1", "zstd", packed)])
    return path


def older_zed(path: Path) -> Path:
    """`threads.db` with a thread of Zed's first agent, as it was."""
    messages = [
        {"id": 1, "role": "user", "segments": [{"type": "text", "text": _ASKED}]},
        {
            "id": 2,
            "role": "assistant",
            "segments": [{"type": "thinking", "text": "Well."}, {"type": "text", "text": "Look."}],
            "tool_uses": [{"id": "t1", "name": "read_file", "input": {"path": "a"}}],
            "tool_results": [{"tool_use_id": "t1", "is_error": True, "content": "no such file"}],
        },
        {"id": 3, "role": "system", "segments": []},
    ]
    thread = {"version": "0.2.0", "summary": "Ports", "messages": messages}
    _threads(path, [("z0", "json", json.dumps(thread).encode())])
    return path


def _threads(path: Path, rows: list[tuple[str, str, bytes]]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT NOT NULL, updated_at TEXT NOT"
            " NULL, data_type TEXT NOT NULL, data BLOB NOT NULL, parent_id TEXT, folder_paths TEXT,"
            " folder_paths_order TEXT, created_at TEXT)"
        )
        base.executemany(
            "INSERT INTO threads VALUES (?, 'Finding the port', '2026-03-01T09:00:09+00:00', ?, ?,"
            " NULL, '/home/ada/tide', '0', '2026-03-01T09:00:00+00:00')",
            rows,
        )


def kiro(path: Path, saved: Path) -> Path:
    """`data.sqlite3` of Kiro's command line: a conversation in both tables, and an older one."""
    value = json.loads(saved.read_text())
    pairs = [{"user": user, "assistant": answer} for user, answer in value["history"]]
    pairs[0]["user"]["timestamp"] = "2026-03-01T09:00:01Z"
    newer = json.dumps({**value, "history": pairs})
    older = json.dumps({**value, "conversation_id": "ks-0"})
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.executescript(
            "CREATE TABLE conversations (key TEXT PRIMARY KEY, value TEXT);"
            "CREATE TABLE conversations_v2 (key TEXT NOT NULL, conversation_id TEXT NOT NULL,"
            " value TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,"
            " PRIMARY KEY (key, conversation_id));"
        )
        base.execute("INSERT INTO conversations VALUES ('/home/ada/tide', ?)", (newer,))
        base.execute("INSERT INTO conversations VALUES ('/home/ada/elsewhere', ?)", (older,))
        base.execute(
            "INSERT INTO conversations_v2 VALUES ('/home/ada/tide', 'ks-1', ?, ?, ?)",
            (newer, _NINE * 1000, _NINE * 1000),
        )
    return path
