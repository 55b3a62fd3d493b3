"""A provider's failure in our words: what happened, and what to do.

Decided from the kind of error, the status and the message alone, so that it can be tested with
recorded ones. The provider's own words are quoted, on one line, bounded, and without the key.
"""

import re
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import bounded_json, entries, errors, patterns
from mindstone_tui.core.language.lists import expression, lists_in
from mindstone_tui.core.providers.stream import field

_LISTS: Final = Path(__file__).with_suffix(".txt")
_LABEL: Final = r"\w+(?:Error|Exception|Timeout)"
_LABELS: Final = patterns.pattern_of(rf"^(?:litellm\.)?(?:{_LABEL}\s+)*{_LABEL}\s*[:-]\s*")
_ADVICE: Final = patterns.pattern_of(r"\.? Handle with `litellm\.\w+`\.?$")
_BYTES: Final = patterns.pattern_of(r"^b(['\"])(.*)\1$", re.DOTALL)


def plain_words(message: str) -> str:
    """A library's message without the names of its classes and the server's own wrapping."""
    text = _ADVICE.sub("", message.strip())
    while (shorter := _LABELS.sub("", text)) != text:
        text = shorter
    if found := _BYTES.match(text):
        text = found[2].replace("\\'", "'")
    told = bounded_json.read_object(text) if text.startswith("{") else None
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
        return _statuses().get(name) or (_status(int(name)) if name.isdecimal() else None)
    return name if isinstance(name, int) and 400 <= name < 600 else None


@cache
def _statuses() -> dict[str, int]:
    """What an error in the middle of a stream would have been as a status."""
    named = (line.split() for line in lists_in(_LISTS)["statuses"])
    return {name: int(status) for name, status in named}


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


_SECRET: Final = patterns.pattern_of(r"\b(?:sk|pk|key|gsk|xai|AIza)[-_A-Za-z0-9*]{8,}")

LONGEST_WORDS: Final = 4_000
"""Characters of an error that are looked at."""
LOST: Final = frozenset(
    {"APIConnectionError", "APITimeoutError", "TimeoutError", "Timeout", "SocketTimeoutError"}
    | {"ReadError", "ReadTimeout", "ConnectError", "ConnectTimeout", "RemoteProtocolError"}
    | {"ClientPayloadError", "ClientConnectorError", "ServerDisconnectedError", "ClientOSError"}
    | {"TransferEncodingError", "BadHttpMessage", "BadStatusLine", "ConnectionResetError"}
)
"""Errors of a connection: no server answered, whatever status the library makes up for them."""


class Failure(entries.Part):
    """What is known about a failed request."""

    kind: str
    """The class of the error, as the library names it."""
    message: str = ""
    causes: str = ""
    """What the errors behind it say."""
    status: int | None = None
    headers: dict[str, str] = {}


def _says(what: str, text: str) -> bool:
    return expression(_LISTS, what).search(text) is not None


def translate(
    failure: Failure, *, model: str, where: str, secret: str = ""
) -> errors.ProviderError:
    """The error a person is shown; what is wrong stands at the beginning of a long message."""
    failure = msgspec.structs.replace(
        failure, message=failure.message[:LONGEST_WORDS], causes=failure.causes[:LONGEST_WORDS]
    )
    told = _Teller(failure, quoted(failure.message, secret), model, where)
    for decide in (_by_message, _by_status, _by_kind):
        if (error := decide(told)) is not None:
            error.status = failure.status or 0
            return error
    return told("unexpected", errors.ProviderNonsense)


def quoted(message: str, secret: str = "") -> str:
    """Foreign words on one line, bounded, with keys blacked out."""
    text = message.replace(secret, "•••") if secret else message
    text = _SECRET.sub("•••", " ".join(plain_words(text).split()))
    text = text.strip(" .-:") or "no reason given"
    return f"“{text if len(text) <= 240 else text[:240].rstrip() + '…'}”"


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds the server asks to wait, as a number or as a date; None when it does not say."""
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    if milliseconds := _number(lowered.get("retry-after-ms", "")):
        return milliseconds / 1000
    told = lowered.get("retry-after", "")
    if (seconds := _number(told)) is not None:
        return seconds
    import email.utils  # drags half of the standard library in, for a header that few servers send

    try:
        moment = email.utils.parsedate_to_datetime(told).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(moment - (time.time() if now is None else now), 0.0)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


class _Teller:
    """Puts a failure into the sentences of `failures.txt`: what happened, then what to do."""

    def __init__(self, failure: Failure, said: str, model: str, where: str) -> None:
        self.failure = failure
        self.text = f"{failure.message} {failure.causes}"
        self._facts = {"said": said, "model": model, "where": where, "status": failure.status}

    def __call__(
        self,
        name: str,
        kind: type[errors.ProviderError] = errors.ProviderRefused,
        failure: str = "",
    ) -> errors.ProviderError:
        what, remedy = (each.format(**self._facts) for each in _sentences()[name])
        return kind(what, remedy, failure=failure)

    def busy(self, name: str, wait: float | None = None) -> errors.ProviderBusy:
        what = _sentences()[name][0].format(**self._facts)
        remedy = f"Try again in {wait:.0f} s." if wait else "Try again in a moment."
        return errors.ProviderBusy(what, remedy, retry_after=wait)


@cache
def _sentences() -> dict[str, list[str]]:
    return lists_in(Path(__file__).with_name("failures.txt"))


def _by_message(told: _Teller) -> errors.ProviderError | None:
    failure, status = told.failure, told.failure.status
    client_fault = status is None or status in (400, 413, 422, 500)
    too_long = failure.kind == "ContextWindowExceededError"
    if too_long or (client_fault and _says("too long", told.text)):
        return told("prompt too long", errors.ContextTooLong)
    if _says("quota", told.text):
        return told("no quota", failure="quota")
    refused = failure.kind == "ContentPolicyViolationError"
    if refused or (client_fault and _says("content", told.text)):
        return told("content refused", failure="content")
    return None


def _by_status(told: _Teller) -> errors.ProviderError | None:
    wait = retry_after(told.failure.headers)
    match told.failure.status:
        case 401:
            return told("wrong key")
        case 402 | 403:
            return told("not permitted")
        case 404:
            return told("unknown model")
        case 413:
            return told("request too large", errors.ContextTooLong)
        case 408 | 504 | 524:
            return told("too slow", errors.ProviderUnreachable, "timeout")
        case 429:
            return told.busy("limited", wait)
        case 500 | 502 | 503 | 529:
            return told.busy("in trouble", wait)
        case status if status is not None and 400 <= status < 500:
            return told("request refused")
    return None


def _by_kind(told: _Teller) -> errors.ProviderError | None:
    kind, status = told.failure.kind, told.failure.status
    if _says("name", told.text):
        return told("unknown name", errors.ProviderUnreachable)
    if _says("no server", told.text) or kind == "ConnectTimeout":
        return told("no server", errors.ProviderUnreachable)
    if _says("encryption", told.text):
        return told("not secure", errors.ProviderUnreachable)
    if "Timeout" in kind or _says("slow", told.text):
        return told("too slow", errors.ProviderUnreachable, "timeout")
    if kind in LOST:
        return told("broken off", errors.ProviderUnreachable)
    return told.busy("in trouble") if status is not None and status >= 500 else None


def failure_of(error: BaseException) -> Failure:
    """The parts of a foreign error that decide what it means."""
    inner = field(error, "original_exception")
    if type(error).__name__ == "MidStreamFallbackError" and isinstance(inner, Exception):
        return failure_of(inner)
    chain = _chain(error)
    names = [type(link).__name__ for link in chain]
    status = field(error, "status_code")
    response = field(error, "response")
    headers = field(error, "litellm_response_headers") or field(response, "headers")
    return Failure(
        kind=next((name for name in names if name in LOST), names[0]),
        message=str(error),
        causes=" ".join(str(link) for link in chain[1:]),
        status=status if isinstance(status, int) and not LOST.intersection(names) else None,
        headers={str(name): str(value) for name, value in headers.items()}
        if isinstance(headers, Mapping)
        else {},
    )


def _chain(error: BaseException, depth: int = 8) -> list[BaseException]:
    """An error and its causes; the real reason is often the innermost."""
    cause = error.__cause__ or error.__context__
    return [error, *(_chain(cause, depth - 1) if cause is not None and depth else ())]
