"""The arguments that a model wrote for a tool: one JSON object, of bounded depth.

A parser gives up on deep nesting where its stack ends, and that depends on who called it: what a
short stack still reads, a deeper one does not. So depth is counted in the text, before it is
parsed, and a live turn and its replay agree about every argument ever written.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

DEEPEST: Final = 100
"""Objects and lists within each other; no tool asks for a tenth of it."""

_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{\]}]', re.DOTALL)


def too_deep(written: str, limit: int = DEEPEST) -> bool:
    """Whether lists and objects stand within each other deeper than the limit."""
    if written.count("[") + written.count("{") <= limit:
        return False
    depth = 0
    for token in _TOKEN.finditer(written):
        match written[token.start()]:
            case "[" | "{":
                depth += 1
                if depth > limit:
                    return True
            case "]" | "}":
                depth -= 1
    return False


def read_arguments(written: str) -> dict[str, Any] | None:
    """The arguments as an object, or None when they are none or nested too deeply."""
    if too_deep(written):
        return None
    try:
        return msgspec.json.decode(written, type=dict[str, Any])
    except ValueError:  # what msgspec and the codec raise
        return None
