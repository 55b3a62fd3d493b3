"""JSON that somebody else wrote, bounded in depth before it is read.

Depth is counted, not caught: what a recursion limit catches depends on how deep the program stands
at that moment, and the same text must always mean the same.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

DEEPEST: Final = 128
"""Levels of nesting; real answers and arguments have fewer than ten."""
_SIGNS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|[\[\]{}]', re.DOTALL)


def read_json(text: bytes | str) -> Any:
    """The value that a text stands for; ValueError when it stands for none, or is too deep."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if is_too_deep(data):
        raise ValueError("JSON that is nested too deeply")
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        # Half a character as an escape is legal JSON, and servers do cut there; msgspec refuses it.
        return json.loads(data.decode("utf-8", "strict"))


def read_object(text: bytes | str) -> dict[str, Any] | None:
    """The object that a text stands for; None when it stands for anything else."""
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def is_too_deep(data: bytes, deepest: int = DEEPEST) -> bool:
    """Whether brackets outside of strings are nested deeper than anything real."""
    if data.count(b"{") + data.count(b"[") <= deepest:
        return False
    depth = 0
    for found in _SIGNS.finditer(data):
        sign = found[0]
        if sign in (b"{", b"["):
            depth += 1
            if depth > deepest:
                return True
        elif sign in (b"}", b"]"):
            depth -= 1
    return False
