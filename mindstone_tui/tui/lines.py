"""A line of the transcript in words: a headline for lists, the whole of it for reading."""

from __future__ import annotations

import msgspec

from mindstone_tui.core.entries import Line, Unknown, conversation, derived
from mindstone_tui.core.transcript.reader import Damaged
from mindstone_tui.tui.past import events_of
from mindstone_tui.tui.telling import tell


def headline(line: Line | Damaged) -> str:
    """What a line is about, in one; foreign text, to be made inert by whoever draws it."""
    if isinstance(line, Damaged):
        return f"cannot be read: {line.why}"
    match line.entry:
        case conversation.ToolCalled(shown=shown):
            return shown
        case conversation.ToolReturned(name=name, text=text, finding=finding):
            return f"{name}: {finding or text}"
        case conversation.AssistantMessage(text="", calls=calls):
            return "calls " + ", ".join(call.name for call in calls)
        case derived.RecallInjected(passages=passages):
            return f"{len(passages)} passages recalled"
        case _:
            return _text_of(line) or _told(line) or line.kind.replace("_", " ")


def _told(line: Line) -> str:
    for event in events_of(line):
        if told := tell(event):
            return told.what
    return ""


def _text_of(line: Line) -> str:
    if isinstance(line.entry, Unknown):
        return ""
    text = getattr(line.entry, "text", "")
    return text if isinstance(text, str) else ""


def whole(line: Line | Damaged) -> str:
    """Everything a line says; what is not text is shown as the JSON it is."""
    if isinstance(line, Damaged):
        return line.raw.decode("utf-8", "replace")
    if text := _text_of(line):
        return text
    fields = line.entry.fields if isinstance(line.entry, Unknown) else line.entry
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def contains(line: Line | Damaged, text: str) -> bool:
    """The text, in capitals or not, stands in what the line says."""
    wanted = text.casefold()
    return wanted in headline(line).casefold() or wanted in whole(line).casefold()
