"""What the four wire formats of the gateway have in common: a request, and a reply in pieces.

A format reads a client's body into a `ClientRequest` and writes a `Reply` back, whole or as server-
sent events. Nothing here knows a session.
"""

import base64
import binascii
import hashlib
import itertools
import math
import time
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, Literal, TypedDict

import msgspec

from mindstone_tui.core import bounded_json, entries, values
from mindstone_tui.core.bounded_json import sequence
from mindstone_tui.core.errors import UsageError

Ending = Literal["stop", "calls", "length"]
NOTHING: Final[dict[str, Any]] = {"type": "object", "properties": {}}
"""The parameters of a tool that has none."""


class Picture(msgspec.Struct, metaclass=values.Value, frozen=True):
    """A picture or a sound as a client sends it."""

    data: bytes = b""
    url: str = ""
    """Where it lies, when its bytes did not come along."""

    @property
    def mark(self) -> str:
        """What tells it from any other."""
        return hashlib.sha256(self.data).hexdigest()


class ClientMessage(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """One message as a client holds it."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[entries.ToolCall, ...] = ()
    call: str = ""
    """The call that a tool's message answers."""
    failed: bool = False
    pictures: tuple[Picture, ...] = ()


class ClientRequest(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """What a client asks for, whichever format it speaks."""

    format: str
    model: str
    messages: tuple[ClientMessage, ...]
    instructions: str = ""
    tools: tuple[entries.ToolSchema, ...] = ()
    stream: bool = False
    user: str = ""
    conversation: str = ""
    """What a program put where the user is named, and which names its conversation."""
    previous: str = ""
    """The response that this one goes on from."""
    with_usage: bool = False
    sampling: entries.Sampling = entries.Sampling()


class Reply(msgspec.Struct, kw_only=True):
    """An answer as it stands when it is over."""

    id: str
    model: str
    text: str = ""
    thought: str = ""
    calls: tuple[entries.ToolCall, ...] = ()
    usage: entries.Usage = entries.Usage()
    ending: Ending = "stop"


STATUS_NAMES: Final = values.shipped(__file__, "status_names.json", dict[str, dict[int, str]])
"""What the formats call a status."""


class Fault(msgspec.Struct, metaclass=values.Value, frozen=True):
    """Why there is no answer, or no more of it: each format has its own names for that."""

    status: int
    said: str
    failure: str = ""
    """Which way the model failed, in one word; empty where it was not the model."""
    retry_after: float | None = None

    @property
    def kind(self) -> str:
        """The word that Anthropic has for the status; OpenAI's clients go by their `code`."""
        return STATUS_NAMES["anthropic"].get(
            self.status, "invalid_request_error" if self.status < 500 else "api_error"
        )

    @property
    def headers(self) -> dict[str, str]:
        """When to ask again, and where it is of no use whatever the status says."""
        told = {} if self.retry_after is None else {"retry-after": f"{math.ceil(self.retry_after)}"}
        if self.failure in ("", "quota", "refused", "content", "too_long"):
            told["x-should-retry"] = "false"
        return told


MOST_VALUES: Final = 200_000
"""Of one request; a conversation of a thousand turns with tools has a tenth of it."""


MOST_TOOLS: Final = 1_000
LONGEST_TOOLS: Final = 2_000_000
"""Bytes of what they all say of themselves."""
MOST_STOPS, LONGEST_STOPS = 64, 16_384
LONGEST_INSTRUCTIONS: Final = 1_000_000
LONGEST_MESSAGE: Final = 8_000_000
"""Characters of one message, twice what the largest window takes: more would hold up others."""


def few_enough(tools: object) -> list[Any]:
    """A client's list of tools, unless nobody could choose among so many."""
    found = sequence(tools)
    if len(found) > MOST_TOOLS:
        raise UsageError(f"A request may bring {MOST_TOOLS:,} tools.", "Offer fewer of them.")
    if len(msgspec.json.encode(found)) > LONGEST_TOOLS:
        raise UsageError(f"Tools may take {LONGEST_TOOLS:,} bytes.", "Describe them more briefly.")
    return found


def bounded(text: str, what: str = "A message", most: int = LONGEST_MESSAGE) -> str:
    """A message that is no longer than one may be."""
    if len(text) > most:
        raise UsageError(f"{what} may have {most:,} characters.", "Put the rest into a file.")
    return text


def decode(body: bytes) -> dict[str, Any]:
    """A body as an object; raises what a client can read."""
    if bounded_json.is_crowded(body, MOST_VALUES):
        raise UsageError(f"The body has more than {MOST_VALUES:,} values.", "Send less at a time.")
    try:
        told = bounded_json.read_as(body, object)
    except msgspec.DecodeError as error:
        raise UsageError(f"The body is not JSON: {error}.", "Send one object.") from None
    if not isinstance(told, dict):
        raise UsageError("The body is not an object.", "Send one object.")
    return told


def sse(data: object, event: str = "") -> bytes:
    """One server-sent event."""
    named = f"event: {event}\n".encode() if event else b""
    return named + b"data: " + msgspec.json.encode(data) + b"\n\n"


def now() -> int:
    """Seconds, as the formats date their replies."""
    return int(time.time())


def said_by(role: Literal["user", "tool"], content: object, **more: Any) -> ClientMessage:
    """A message from its content: the words and the pictures in it."""
    return ClientMessage(role=role, text=text_of(content), pictures=pictures_of(content), **more)


def text_of(content: object) -> str:
    """The words of a content: a text, or parts of which those that are text are joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n\n".join([piece for part in content if (piece := _piece(part))])


_PICTURES: Final = ("image", "image_url", "input_image", "input_audio")
_NO_WORDS: Final = (*_PICTURES, "tool_result", "tool_use")


def _piece(part: object) -> str:
    match part:
        case str(text) | {"text": str(text)} | {"refusal": str(text)}:
            return text
        case {"type": str(kind)} if kind in _NO_WORDS:
            return ""
        case {"content": content}:
            return text_of(content)
        case {"type": str(kind)}:
            return f"[{kind}]"
    return ""


def pictures_of(content: object) -> tuple[Picture, ...]:
    """The pictures and sounds of a content, whichever way a format writes them."""
    found = map(_picture, sequence(content))
    return tuple(picture for picture in found if picture is not None)


def _picture(part: object) -> Picture | None:
    match part:
        case {"type": "image_url" | "input_image", "image_url": str(url) | {"url": str(url)}}:
            head, comma, data = url.partition(",")
            if head.startswith("data:") and head.endswith(";base64") and comma:
                return Picture(_bytes_of(data))
            return Picture(url=url)
        case {"type": "image", "source": {"type": "base64", "data": str(data)}}:
            return Picture(_bytes_of(data))
        case {"type": "image", "source": {"url": str(url)}}:
            return Picture(url=url)
        case {"type": "input_audio", "input_audio": {"data": str(data)}}:
            return Picture(_bytes_of(data))
        case {"type": str(kind)} if kind in _PICTURES:
            raise UsageError("A picture has neither bytes nor an address.", "Send it as base64.")
    return None


def _bytes_of(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise UsageError("A picture is not base64.", "Send it again.") from None


def number(told: dict[str, Any], name: str) -> float | None:
    """A field that may be there, as a number."""
    if (value := told.get(name)) is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"`{name}` is not a number.", "See the format's reference.")
    return value


def whole_number(told: dict[str, Any], name: str, *, least: int | None = None) -> int | None:
    """A field that may be there, as a whole number."""
    value = number(told, name)
    if value is not None and (value != int(value) or (least is not None and value < least)):
        wanted = "a whole number" if least is None else f"a whole number from {least} on"
        raise UsageError(f"`{name}` is not {wanted}.", "See the format's reference.")
    return None if value is None else int(value)


def stops(told: dict[str, Any], name: str) -> tuple[str, ...]:
    """The texts before which an answer is to end."""
    value = told.get(name)
    given = [value] if isinstance(value, str) else value or []
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise UsageError(f"`{name}` is neither a text nor texts.", "See the format's reference.")
    if len(given) > MOST_STOPS or sum(map(len, given)) > LONGEST_STOPS:
        most = f"{MOST_STOPS} texts of {LONGEST_STOPS:,} characters in all"
        raise UsageError(f"`{name}` may hold {most}.", "Name fewer of them.")
    return tuple(given)


def flag(told: dict[str, Any], name: str) -> bool | None:
    """A field that may be there, as yes or no."""
    value = told.get(name)
    return value if isinstance(value, bool) else None


class ToolChoice(TypedDict, total=False):
    """Whether tools may, must not or must be used, as `Sampling` names it."""

    tool_choice: Literal["", "none", "required", "named"]
    tool: str


def chosen_tool(choice: object) -> ToolChoice:
    """A choice of tools in any of the formats."""
    match choice:
        case "none" | {"type": "none"}:
            return {"tool_choice": "none"}
        case "required" | {"type": "any"}:
            return {"tool_choice": "required"}
        case {"function": {"name": str(name)}} | {"type": "function" | "tool", "name": str(name)}:
            return {"tool_choice": "named", "tool": name}
    return {}


def tools_of(tools: object) -> tuple[entries.ToolSchema, ...]:
    """The tools that a client offers, as most formats declare them."""
    found: list[entries.ToolSchema] = []
    for tool in few_enough(tools):
        match tool:
            case {"type": "function", "function": {"name": str(name)} as told}:
                parameters = told.get("parameters") or NOTHING
            case {"name": str(name), "input_schema": dict(parameters)} as told:
                pass
            case {"type": "function", "name": str(name)} as told:
                parameters = told.get("parameters") or NOTHING
            case _:
                continue
        about = str(told.get("description") or "")
        found.append(entries.ToolSchema(name=name, description=about, parameters=parameters))
    return tuple(found)


def joined(messages: Iterable[ClientMessage]) -> tuple[ClientMessage, ...]:
    """Neighbours of one person as one message, and answers in two pieces as one answer."""
    told = (it for it in messages if it.text or it.calls or it.pictures or it.role == "tool")
    result: list[ClientMessage] = []
    for role, group in itertools.groupby(told, attrgetter("role")):
        pieces = tuple(group)
        if role == "tool":
            result.extend(pieces)
            continue
        text = "\n\n".join(each.text for each in pieces if each.text)
        calls = tuple(call for each in pieces for call in each.calls)
        pictures = tuple(picture for each in pieces for picture in each.pictures)
        result.append(msgspec.structs.replace(pieces[0], text=text, calls=calls, pictures=pictures))
    return tuple(result)


def arguments_of(value: object) -> str:
    """A call's arguments as JSON text."""
    return value if isinstance(value, str) else msgspec.json.encode(value or {}).decode()


def given_to(call: entries.ToolCall) -> Any:
    """A call's arguments as an object; what is no JSON counts as none."""
    try:
        return msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return {}


def required(told: dict[str, Any], name: str, kind: type) -> Any:
    """A field that must be there."""
    value = told.get(name)
    if not isinstance(value, kind):
        raise UsageError(f"`{name}` is missing or wrong.", "See the format's reference.")
    return value


def texts(told: dict[str, Any], *names: str) -> Iterator[str]:
    """Fields that may be there, as text."""
    return (bounded_json.words_in(told.get(name)) for name in names)


def tokens_of(usage: entries.Usage) -> tuple[int, int]:
    """Prompt and completion, 0 where nobody knows."""
    return usage.prompt or 0, usage.completion or 0


def rough_size(told: dict[str, Any], names: Iterable[str] = ()) -> int:
    """About how many tokens a body or its parts are, for clients that ask before they send."""
    return len(msgspec.json.encode([told.get(name) for name in names] or told)) // 4
