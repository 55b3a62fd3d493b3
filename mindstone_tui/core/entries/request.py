"""A request to a model, and the hash that proves two of them equal.

Messages have the shape that OpenAI-style servers read; every other provider is reached through a
translation of it. The shape is part of the hash, so it changes only with the format version.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from mindstone_tui.core.entries.base import Part, ToolSchema

Message = dict[str, Any]
"""A chat message: `role`, `content`, and for tools `tool_calls` or `tool_call_id`."""


class Request(Part):
    """All that shapes an answer: the model's name, the messages, the tools."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()

    @property
    def hash(self) -> str:
        """SHA-256, in hex, of compact UTF-8 JSON with sorted keys of the three fields."""
        body = {
            "model": self.model,
            "messages": list(self.messages),
            "tools": [msgspec.to_builtins(tool) for tool in self.tools],
        }
        return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()
