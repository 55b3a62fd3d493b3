"""An entry as the message a model reads: chosen and joined from the entry's own words.

The shapes are those of OpenAI-style servers. They are part of the prompt's hash, so they change
only with the format version.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from mindstone_tui.core.entries import Image, Line, Message, ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    Thinking,
    ToolReturned,
    UserMessage,
)

Said = UserMessage | AssistantMessage | AssistantPartial | ToolReturned
"""The kinds that become messages; every other kind is bookkeeping."""

ReadBlob = Callable[[str], bytes]
Key = tuple[Any, ...]
"""Names the exact bytes of one message without holding them."""


def said(line: Line) -> Said | None:
    """The line's message, or None when the model never sees such a line.

    Empty answers and questions are left out: several providers refuse them.
    """
    entry = line.entry
    match entry:
        case UserMessage():
            return entry if entry.text or entry.images else None
        case AssistantMessage():
            return entry if entry.text or entry.calls else None
        case AssistantPartial():
            return entry if entry.text else None
        case ToolReturned():
            return entry
        case _:
            return None


def message_of(
    entry: Said, *, text: str | None = None, blob: ReadBlob | None = None, thinking: bool = False
) -> Message:
    """The message for an entry; `text` stands in for its own where it was trimmed or cut.

    Without `blob`, pictures are named instead of shown.
    """
    match entry:
        case UserMessage():
            return _user(entry, text, blob)
        case ToolReturned():
            content = entry.text if text is None else text
            return {"role": "tool", "tool_call_id": entry.call, "content": content}
        case AssistantPartial():
            return {"role": "assistant", "content": entry.text if text is None else text}
        case AssistantMessage():
            return _assistant(entry, text, thinking)


def _user(entry: UserMessage, text: str | None, blob: ReadBlob | None) -> Message:
    body = entry.text if text is None else text
    if entry.name:
        body = f"{entry.name}: {body}"
    if not entry.images:
        return {"role": "user", "content": body}
    if blob is None:
        named = (f"[picture {image.name}, {image.width}×{image.height}]" for image in entry.images)
        return {"role": "user", "content": "\n".join((body, *named)).strip()}
    parts: list[dict[str, Any]] = [{"type": "text", "text": body}] if body else []
    parts += [_picture(image, blob) for image in entry.images]
    return {"role": "user", "content": parts}


def _picture(image: Image, blob: ReadBlob) -> dict[str, Any]:
    data = base64.b64encode(blob(image.sha256)).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}}


def _assistant(entry: AssistantMessage, text: str | None, thinking: bool) -> Message:
    message: Message = {"role": "assistant", "content": entry.text if text is None else text}
    if entry.calls:
        message["tool_calls"] = [_call(call) for call in entry.calls]
    if thinking and (blocks := [_thought(block) for block in entry.thinking if _signed(block)]):
        message["thinking_blocks"] = blocks
    return message


def _signed(block: Thinking) -> bool:
    """Only reasoning that its provider can recognise may be sent back to it."""
    return bool(block.signature or block.redacted)


def _thought(block: Thinking) -> dict[str, Any]:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.redacted}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": _arguments(call.arguments)},
    }


def _arguments(arguments: str) -> str:
    """The arguments as received, or an empty object: one broken call must not poison a session."""
    try:
        return arguments if isinstance(msgspec.json.decode(arguments), dict) else "{}"
    except (msgspec.DecodeError, UnicodeEncodeError):
        return "{}"
