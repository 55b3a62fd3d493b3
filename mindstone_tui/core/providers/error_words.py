"""What a server says went wrong, wherever in its answer it says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mindstone_tui.core.bounded_json import read_object
from mindstone_tui.core.patterns import pattern_of

_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "server_overloaded": 529,
}
"""What an error in the middle of a stream would have been as a status."""
_LABEL: Final = r"\w+(?:Error|Exception|Timeout)"
_LABELS: Final = pattern_of(rf"^(?:litellm\.)?(?:{_LABEL}\s+)*{_LABEL}\s*[:-]\s*")
_ADVICE: Final = pattern_of(r"\.? Handle with `litellm\.\w+`\.?$")
_BYTES: Final = pattern_of(r"^b(['\"])(.*)\1$", re.DOTALL)


def plain_words(message: str) -> str:
    """A library's message without the names of its classes and the server's own wrapping."""
    text = _ADVICE.sub("", message.strip())
    while (shorter := _LABELS.sub("", text)) != text:
        text = shorter
    if found := _BYTES.match(text):
        text = found[2].replace("\\'", "'")
    told = read_object(text) if text.startswith("{") else None
    return (Words(told).message if told else "") or text


class Words:
    """What an error says, wherever a server puts it."""

    def __init__(self, told: object) -> None:
        error = _inner(told)
        self.message = _message(error)
        names = [_get(error, name) for name in ("type", "code", "status")]
        self.codes = " ".join(str(name) for name in names if isinstance(name, str | int))
        self.status = next((found for name in names if (found := _status(name))), None)


def _inner(told: object) -> object:
    """The error itself: `{"error": …}` around it is only a wrapping, so is a list of one."""
    for _ in range(3):
        if isinstance(told, list) and told:
            told = told[0]
        elif isinstance(told, Mapping) and isinstance(told.get("error"), Mapping | list | str):
            told = told["error"]
        else:
            break
    return told


def _message(error: object) -> str:
    if isinstance(error, str):
        return error
    found = [_get(error, name) for name in ("message", "detail", "msg", "error_message")]
    message = next((each for each in found if isinstance(each, str) and each), "")
    raw = _get(_get(error, "metadata"), "raw")
    return f"{message}: {raw}" if isinstance(raw, str) and raw else message


def _status(name: object) -> int | None:
    if isinstance(name, str):
        return _STATUS.get(name) or (_status(int(name)) if name.isdecimal() else None)
    return name if isinstance(name, int) and 400 <= name < 600 else None


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None
