"""A request as litellm is to be called with it.

The request itself is recorded and hashed as it is; here it only gets what a provider's interface
demands: arguments that parse, reasoning only where it is understood, marks for the prompt cache.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Message, Request
from mindstone_tui.core.providers.addresses import Address
from mindstone_tui.core.providers.protocol import Options

NO_KEY: Final = "none"
"""Sent where a server wants no key: litellm insists on some text."""
_MOST_MARKS: Final = 4
TOLD_ITS_WINDOW: Final = ("ollama", "ollama_chat")
"""Servers that load a model with the window that a request names, else with a small one."""
_CACHE: Final = {"type": "ephemeral"}
_THINKING_FIELDS: Final = ("thinking_blocks", "reasoning_content")


def call_of(request: Request, options: Options, address: Address) -> dict[str, Any]:
    """The keyword arguments of one call."""
    call: dict[str, Any] = {
        "model": address.model,
        "messages": messages_for(request, options, address.model),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": options.max_tokens,
        "timeout": options.timeout,
        "num_retries": 0,
        "max_retries": 0,
        "api_key": address.key.secret if address.key else None,
        "api_base": address.base_url or None,
        "temperature": options.temperature,
        "tools": [_tool(tool) for tool in request.tools] or None,
    }
    if address.key is None and address.base_url:
        call["api_key"] = NO_KEY
    if address.provider in TOLD_ITS_WINDOW and options.window:
        call["num_ctx"] = options.window
    return {name: value for name, value in call.items() if value is not None}


def messages_for(request: Request, options: Options, model: str) -> list[Message]:
    """The messages, fit for this model."""
    keeps_thinking = understands_marks(model)
    fit = [_fit(message, keeps_thinking) for message in request.messages]
    if keeps_thinking:
        for mark in options.cache_marks[-_MOST_MARKS:]:
            if 0 <= mark < len(fit):
                fit[mark] = _marked(fit[mark])
    return fit


def understands_marks(model: str) -> bool:
    """Whether a model wants to be told where to cache, and takes its own reasoning back."""
    return "claude" in model.lower() or model.startswith("anthropic/")


def _tool(tool: Any) -> dict[str, Any]:
    return {"type": "function", "function": msgspec.to_builtins(tool)}


def _fit(message: Message, keeps_thinking: bool) -> Message:
    dropped = () if keeps_thinking else _THINKING_FIELDS
    fit = {name: value for name, value in message.items() if name not in dropped}
    if calls := fit.get("tool_calls"):
        fit["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _parsable(call["function"])}}
            for call in calls
        ]
    return fit


def _parsable(function: dict[str, Any]) -> str:
    """Arguments as written where they are an object; else an object that shows what was written."""
    written = str(function.get("arguments", ""))
    try:
        msgspec.json.decode(written, type=dict[str, Any])
    except msgspec.MsgspecError:
        return msgspec.json.encode({"unreadable_arguments": written[:2_000]}).decode()
    return written


def _marked(message: Message) -> Message:
    """The message with a mark at its end; an empty one cannot carry it."""
    content = message.get("content")
    if message["role"] == "tool":
        return {**message, "cache_control": _CACHE}
    if isinstance(content, str) and content:
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        return message
    return {**message, "content": [*content[:-1], {**content[-1], "cache_control": _CACHE}]}
