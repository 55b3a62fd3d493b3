"""Files to import, and what they look like afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mindstone_tui.core.entries import Line
from mindstone_tui.core.interchange.import_session import ImportReport, import_file
from mindstone_tui.core.transcript import verify
from tests.builders import places_in, transcript_in

FIXTURES = Path(__file__).parents[2] / "fixtures" / "imports"
STORED = "opencode-storage/session/p1/ses_0000000002.json"
SESSIONS = [path.name for path in sorted(FIXTURES.iterdir()) if path.suffix in (".json", ".jsonl")]
"""Every session that is one file."""
NESTED = [
    "antigravity/brain/ag-1/.system_generated/logs/transcript.jsonl",
    "grok/g1/chat_history.jsonl",
    "kimi/k1/wire.jsonl",
    "kimi/wd_tide_0123456789ab/session_k2/agents/main/wire.jsonl",
    "vscode-chat/chatSessions/vs-1.json",
    "vscode-chat/chatSessions/vs-2.jsonl",
    "cline/1772355600000/api_conversation_history.json",
    "continue/cc000000-0000-4000-8000-000000000001.json",
    "kiro/a1b2.jsonl",
    "droid/d0000000-0000-4000-8000-000000000001.jsonl",
    "roo-code/1772355600001/api_conversation_history.json",
]
"""Sessions of which other files in their folder tell more."""


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    """A JSONL file."""
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    return path


def take_over(home: Path, path: Path, **options: Any) -> ImportReport:
    """Import a file into the default session of a home."""
    transcript = transcript_in(home)
    try:
        return import_file(path, transcript, **options)
    finally:
        transcript.close()


def told(home: Path) -> list[Line]:
    """Every line of the default session after its header."""
    transcript = transcript_in(home)
    with transcript.history() as history:
        found = [each for each in history.read(1) if isinstance(each, Line)]
        lines = [history.whole(each) for each in found]
    transcript.close()
    return lines


def outline(home: Path) -> list[tuple[int, str, str]]:
    """Turn, kind and text of every message, without the bookkeeping."""
    wanted = {"user_message", "assistant_message", "tool_returned"}
    return [
        (line.turn, line.kind, getattr(line.entry, "text", ""))
        for line in told(home)
        if line.kind in wanted
    ]


def assert_sound(home: Path) -> None:
    """The chain holds, every turn ends once, and every call has exactly one result in its turn."""
    assert verify(places_in(home)).ok
    started: list[int] = []
    ended: list[int] = []
    open_calls: dict[str, int] = {}
    for line in told(home):
        match line.kind:
            case "turn_started":
                started.append(line.turn)
                assert not open_calls
            case "turn_ended":
                ended.append(line.turn)
                assert not open_calls, open_calls
            case "assistant_message":
                assert not open_calls, open_calls
                open_calls = {call.id: line.turn for call in getattr(line.entry, "calls", ())}
            case "tool_returned":
                assert open_calls.pop(getattr(line.entry, "call", "")) == line.turn
    assert started == ended == sorted(set(started))
