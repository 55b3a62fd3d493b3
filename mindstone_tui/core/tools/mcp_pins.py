"""What a server's tool was when it was first seen, and whether it still is that."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mindstone_tui.core.foreign import exact, for_terminal

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")
_LONGEST_DESCRIPTION: Final = 1_000
_LARGEST_SCHEMA: Final = 16 * 1024
_MOST_TOOLS: Final = 128


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is not what it was when it was first seen."""

    tool: str
    diff: str
    pin: str
    """Its new declaration, to be pinned when the person accepts it."""


def declaration(description: str, parameters: Any) -> str:
    """A tool's declaration as one canonical text, free of anything hidden."""
    text = for_terminal(description)[:_LONGEST_DESCRIPTION]
    told = {"description": text, "parameters": parameters}
    return msgspec.json.encode(told, order="deterministic").decode()


def unusable(name: str, schema: Any, declared: Mapping[str, str]) -> str:
    """Why a tool cannot be offered; empty when it can."""
    if not NAME.match(name):
        return "its name has other characters than letters, digits, _ and -"
    if name in declared:
        return "its name is taken"
    if len(declared) >= _MOST_TOOLS:
        return "there are too many tools"
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError):
        return "its schema is not JSON"
    if size > _LARGEST_SCHEMA or not isinstance(schema, dict) or schema.get("type") != "object":
        return "its schema is too large or not an object's"
    return ""


def difference(old: str, new: str) -> str:
    """What changed between two declarations, line by line."""
    before, after = (_lines(text) for text in (old, new))
    return exact("\n".join(difflib.unified_diff(before, after, "pinned", "now", lineterm="")))


def _lines(pin: str) -> list[str]:
    return msgspec.json.format(pin.encode(), indent=2).decode().split("\n") if pin else []
