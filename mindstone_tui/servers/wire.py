"""What the three wire formats of the gateway have in common: a request, and a reply in pieces.

A format reads a client's body into a `ClientRequest` and writes a `Reply` back, whole or as server-
sent events. Nothing here knows a session.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

import msgspec

from mindstone_tui.core.entries import ToolCall, ToolSchema, Usage
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.values import Value

Ending = Literal["stop", "calls", "length"]


class ClientMessage(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One message as a client holds it."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    """The call that a tool's message answers."""
    failed: bool = False


class ClientRequest(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What a client asks for, whichever format it speaks."""

    format: str
    model: str
    messages: tuple[ClientMessage, ...]
    instructions: str = ""
    tools: tuple[ToolSchema, ...] = ()
    stream: bool = False
    user: str = ""
    previous: str = ""
    """The response that this one goes on from."""
    with_usage: bool = False


class Reply(msgspec.Struct, kw_only=True):
    """An answer as it stands when it is over."""

    id: str
    model: str
    text: str = ""
    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    ending: Ending = "stop"


class Wire(Protocol):
    """How one reply is written in one format."""

    def begin(self) -> Iterable[bytes]:
        """What goes out first."""
        ...

    def text(self, piece: str) -> Iterable[bytes]:
        """More of the answer."""
        ...

    def thought(self, piece: str) -> Iterable[bytes]:
        """More of the reasoning."""
        ...

    def end(self, reply: Reply) -> Iterable[bytes]:
        """The calls, the figures and the end."""
        ...

    def fail(self, said: str) -> Iterable[bytes]:
        """The end of a reply that broke off."""
        ...

    def whole(self, reply: Reply) -> dict[str, Any]:
        """The same in one piece."""
        ...


def decode(body: bytes) -> dict[str, Any]:
    """A body as an object; raises what a client can read."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
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


def text_of(content: object) -> str:
    """The words of a content: a text, or parts of which those that are text are joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    pieces = [piece for part in content if (piece := _piece(part))]
    return "\n\n".join(pieces)


def _piece(part: object) -> str:
    match part:
        case str():
            return part
        case {"text": str(text)}:
            return text
        case {"refusal": str(text)}:
            return text
        case {"type": "image" | "image_url" | "input_image"}:
            return "[picture]"
        case {"type": "tool_result" | "tool_use"}:
            return ""
        case {"content": content}:
            return text_of(content)
        case {"type": str(kind)}:
            return f"[{kind}]"
    return ""


def joined(messages: Iterable[ClientMessage]) -> tuple[ClientMessage, ...]:
    """Neighbours of one person as one message, and answers in two pieces as one answer."""
    result: list[ClientMessage] = []
    for message in messages:
        last = result[-1] if result else None
        if last is not None and last.role == message.role and message.role != "tool":
            text = "\n\n".join(text for text in (last.text, message.text) if text)
            calls = (*last.calls, *message.calls)
            result[-1] = msgspec.structs.replace(last, text=text, calls=calls)
        elif message.text or message.calls or message.role == "tool":
            result.append(message)
    return tuple(result)


def arguments_of(value: object) -> str:
    """A call's arguments as JSON text."""
    return value if isinstance(value, str) else msgspec.json.encode(value or {}).decode()


def required(told: dict[str, Any], name: str, kind: type) -> Any:
    """A field that must be there."""
    value = told.get(name)
    if not isinstance(value, kind):
        raise UsageError(f"`{name}` is missing or wrong.", "See the format's reference.")
    return value


def texts(told: dict[str, Any], *names: str) -> Iterator[str]:
    """Fields that may be there, as text."""
    for name in names:
        value = told.get(name)
        yield value if isinstance(value, str) else ""


def tokens_of(usage: Usage) -> tuple[int, int]:
    """Prompt and completion, 0 where nobody knows."""
    return usage.prompt or 0, usage.completion or 0
