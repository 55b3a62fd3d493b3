"""Names and ids of tool calls that every provider takes, made from whatever a model wrote.

A model can call a tool `../shell rm` and give the call ten kilobytes as its id. Sent back as they
came, such words end every later request with an error. The rules are pure, so a name that was made
valid once stays as it is, and a call and its result keep the same id.
"""

import hashlib
import re
from typing import Any, Final

from mindstone_tui.core.entries import Message
from mindstone_tui.core.patterns import pattern_of

LONGEST_NAME: Final = 64
LONGEST_ID: Final = 8_192
"""Gemini's calls carry a signature in their id, some kilobytes long."""
STRICT_ID: Final = pattern_of(r"[A-Za-z0-9_-]{1,40}")
"""What the wire formats have in common."""
NINE: Final = pattern_of(r"[A-Za-z0-9]{9}")
"""What Mistral asks for."""
_ODD: Final = pattern_of(r"[^A-Za-z0-9_-]+")
PLAIN_ID: Final = pattern_of(rf"[\x21-\x7e]{{1,{LONGEST_ID}}}")


def valid_name(name: str) -> str:
    """A tool's name in letters, digits, `_` and `-`; every valid name is itself."""
    return _ODD.sub("_", name)[:LONGEST_NAME]


def plain_id(call_id: str) -> str:
    """An id that is one printable word, else nothing: whoever gathers the answer then makes one."""
    return call_id if PLAIN_ID.fullmatch(call_id) else ""


def valid_id(call_id: str, allowed: re.Pattern[str] = STRICT_ID) -> str:
    """The id itself where it is allowed, else a short one that is always the same for it."""
    if allowed.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:9] if allowed is NINE else f"call_{digest[:24]}"


def with_valid_calls(message: Message, allowed: re.Pattern[str] = STRICT_ID) -> Message:
    """The message with names and ids that can be sent; unchanged where they can."""
    fit = dict(message)
    if calls := fit.get("tool_calls"):
        fit["tool_calls"] = [_valid_call(call, allowed) for call in calls]
    if "tool_call_id" in fit:
        fit["tool_call_id"] = valid_id(str(fit["tool_call_id"]), allowed)
    return fit


def _valid_call(call: dict[str, Any], allowed: re.Pattern[str]) -> dict[str, Any]:
    function = call["function"]
    return {
        **call,
        "id": valid_id(str(call["id"]), allowed),
        "function": {**function, "name": valid_name(str(function["name"])) or "_"},
    }
