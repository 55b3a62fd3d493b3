"""The parts of a Gemini message: words, thoughts, calls, results and media in one list."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import Thinking
from mindstone_tui.core.interchange.formats.parts import tool_call
from mindstone_tui.core.interchange.reading import as_json, mapping, text

_CONTEXT = (
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
)
_COMMAND = re.compile(r"[/?](?:[a-z][\w:-]*)?(?:\s|$)")
_SUMMARY = ("<state_snapshot>", "<scratchpad>")
_THANKS = ("Got it. Thanks for the additional context!", "Got it. Thanks for the context!")


class Result(msgspec.Struct, frozen=True):
    """What a function gave back."""

    call: str
    name: str
    text: str
    failed: bool


class Pieces(msgspec.Struct, frozen=True):
    """A list of parts, sorted by what they are."""

    said: str
    thinking: tuple[Thinking, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[Result, ...] = ()


def pieces_of(content: object, number: int) -> Pieces | None:
    """The parts of a text, a part or a list of both; None when it is none of them."""
    if content is not None and not isinstance(content, str | dict | list):
        return None
    said: list[str] = []
    thinking: list[Thinking] = []
    calls: list[ToolCall] = []
    results: list[Result] = []
    listed = content if isinstance(content, list) else [content]
    for at, each in enumerate(listed):
        part = {"text": each} if isinstance(each, str) else mapping(each)
        if call := mapping(part.get("functionCall")):
            spare = f"call-{number}-{at}"
            calls.append(tool_call(call.get("id"), call.get("name"), call.get("args"), spare))
        elif response := mapping(part.get("functionResponse")):
            results.append(_result(response))
        elif part.get("thought") is True:
            thinking.append(Thinking(text=text(part.get("text"))))
        else:
            said.append(_words(part))
    return Pieces("".join(said), tuple(thinking), tuple(calls), tuple(results))


def _result(response: dict[str, Any]) -> Result:
    given = response.get("response")
    fields = mapping(given)
    inner = fields.get("output", fields.get("error", given))
    return Result(
        call=text(response.get("id")),
        name=text(response.get("name")),
        text=inner if isinstance(inner, str) else "" if inner is None else as_json(inner),
        failed="error" in fields and "output" not in fields,
    )


def _words(part: dict[str, Any]) -> str:
    """The text of a part; what cannot be text leaves its kind in brackets."""
    if isinstance(said := part.get("text"), str):
        return said
    if code := text(mapping(part.get("executableCode")).get("code")):
        return f"\n\n```\n{code}\n```\n\n"
    if output := text(mapping(part.get("codeExecutionResult")).get("output")):
        return f"\n\n{output}\n\n"
    media = mapping(part.get("inlineData")) or mapping(part.get("fileData"))
    return f"[{text(media.get('mimeType')).split('/')[0] or 'file'}]" if media else ""


def not_said(said: str, role: str) -> str:
    """What a text is that only looks like a message of the person or the model; else empty."""
    start = said.lstrip()
    if role == "user" and start.startswith(_CONTEXT):
        return "context of the program"
    if role == "user" and start.startswith(_SUMMARY):
        return "summary of the program"
    if role == "user" and _COMMAND.match(start):
        return "command of the program"
    return "context of the program" if role != "user" and start.strip() in _THANKS else ""
