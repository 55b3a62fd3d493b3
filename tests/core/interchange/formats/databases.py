"""Databases of other programs, made for a test: the schema that the program uses, a small story."""

from __future__ import annotations

import json
import sqlite3
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
    with sqlite3.connect(path) as connection:
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
