"""How a request is put to a small model: few words, one form, nothing that it could write wrongly.

What was recalled stands as short numbered notes before the question. Tools are a few lines of text
and a schema that its reply must follow; earlier replies are shown in the same form, so that the
prompt of the next turn begins exactly as this one ended and need not be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from mindstone_tui.core.bounded_json import read_arguments
from mindstone_tui.core.entries import Message, Request, ToolSchema
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.dialect import wishes
from mindstone_tui.core.providers.guide.provider import is_context, passages, text_of, unwrapped
from mindstone_tui.core.providers.local_models import LocalModel

TOOLS: Final = ("read", "list", "grep", "write", "edit", "shell", "recall")
"""What a small model is offered: more names than these only confuse it."""
_LONGEST_NOTE: Final = 1_200
_LONGEST_RESULT: Final = 6_000
_PLAIN: Final = "You are a helpful assistant. Answer briefly."
_PARAMETERS: Final = {
    "read": ("path",),
    "list": ("path",),
    "grep": ("pattern", "path"),
    "write": ("path", "content"),
    "edit": ("path", "old_string", "new_string"),
    "shell": ("command",),
    "recall": ("query",),
}
"""What of a tool's arguments is shown; the others have defaults that serve."""
_ABOUT: Final = {
    "read": "show what is in a file",
    "list": "show which files are in a folder",
    "grep": "find a text inside files",
    "write": "make a new file with this content",
    "edit": "replace a text inside a file by another",
    "shell": "run a command: tests, git, programs",
    "recall": "search earlier conversations",
}
_FORM: Final = """\
Reply with one JSON object.
To answer: {"answer":"..."}
To use a tool first: {"tool":"NAME","arguments":{...}}

Tools:
"""
_WHEN: Final = """

Use a tool when the user asks about files, folders, code or commands, or wants something done. \
Answer when the notes or the conversation hold what is asked, and when it needs no tool. \
When a result is there, answer from it."""


def body_of(request: Request, options: Options, model: LocalModel) -> dict[str, Any]:
    """The request as the model's process takes it, with the schema that the reply must follow."""
    tools = offered(request.tools) if model.tools and not options.purpose else []
    messages = _conversation(request, model, as_json=bool(tools))
    if not messages or messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": _PLAIN})
    if tools:
        head = messages[0]["content"]
        messages[0] = {"role": "system", "content": f"{head}\n\n{tool_text(tools)}"}
    body: dict[str, Any] = {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "max_tokens": min(options.max_tokens, model.max_output),
        "temperature": 0.0 if options.temperature is None else options.temperature,
        **{name: value for name, value in wishes(options).items() if value is not None},
        "repeat_penalty": 1.0 if model.tools else 1.1,
        "cache_prompt": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    if tools:
        shape = {"name": "reply", "strict": True, "schema": reply_schema(tools)}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    return body


def offered(tools: Iterable[ToolSchema]) -> list[ToolSchema]:
    """The tools that a small model is shown, in our own order."""
    known = {tool.name: tool for tool in tools}
    return [known[name] for name in TOOLS if name in known]


def tool_text(tools: Sequence[ToolSchema]) -> str:
    """The tools in a line each, and when to use one."""
    lines = [
        f"{tool.name}({', '.join(_PARAMETERS[tool.name])}): {_ABOUT[tool.name]}" for tool in tools
    ]
    return _FORM + "\n".join(lines) + _WHEN


def reply_schema(tools: Sequence[ToolSchema]) -> dict[str, Any]:
    """What a reply may be: an answer, or one of the tools with exactly its arguments."""
    choices = [_object({"answer": {"type": "string"}})]
    for tool in tools:
        arguments = {name: {"type": "string"} for name in _PARAMETERS[tool.name]}
        choices.append(_object({"tool": {"const": tool.name}, "arguments": _object(arguments)}))
    return {"anyOf": choices}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _conversation(request: Request, model: LocalModel, *, as_json: bool) -> list[Message]:
    messages: list[Message] = []
    called: dict[str, str] = {}
    for message in request.messages:
        if is_context(message) and messages and messages[-1]["role"] == "user":
            messages[-1] = _with_notes(messages[-1], text_of(message), model.notes)
            continue
        for call in message.get("tool_calls") or ():
            called[call["id"]] = _call_text(call["function"])
        messages.append(_rendered(message, called, as_json=as_json))
    return messages


def _rendered(message: Message, called: dict[str, str], *, as_json: bool) -> Message:
    text = text_of(message)
    if message["role"] == "tool":
        about = called.get(message.get("tool_call_id", ""), "the tool")
        result = unwrapped(text)[:_LONGEST_RESULT]
        return {"role": "user", "content": f"Result of {about}:\n{result}"}
    if message["role"] != "assistant" or not as_json:
        return {"role": message["role"], "content": text}
    calls = message.get("tool_calls") or ()
    if calls:
        return {"role": "assistant", "content": called[calls[0]["id"]]}
    return {"role": "assistant", "content": msgspec.json.encode({"answer": text}).decode()}


def _call_text(function: dict[str, Any]) -> str:
    """A call as the model itself would write it."""
    name = str(function.get("name", ""))
    arguments = read_arguments(str(function.get("arguments", ""))) or {}
    shown = {key: value for key, value in arguments.items() if key in _PARAMETERS.get(name, ())}
    return msgspec.json.encode({"tool": name, "arguments": shown or arguments}).decode()


def _with_notes(question: Message, block: str, most: int) -> Message:
    """The question behind what was recalled for it, the best note nearest to it."""
    notes = [passage.text[:_LONGEST_NOTE] for passage in passages(block)[:most]]
    if not notes:
        return question
    shown = "\n".join(f"- {' '.join(note.split())}" for note in notes)
    return {
        "role": "user",
        "content": f"Notes from earlier conversations:\n{shown}\n\n{question['content']}",
    }
