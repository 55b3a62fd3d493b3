"""Anthropic's messages: read from a client, written back to it."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from mindstone_tui.core.bounded_json import mapping, objects_in, sequence
from mindstone_tui.core.entries import Sampling, ToolCall
from mindstone_tui.core.errors import UsageError
from mindstone_tui.servers import wire

FORMAT: Final = "messages"
_STOP: Final = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens"}


def read(told: dict[str, Any]) -> wire.ClientRequest:
    """A body of `/v1/messages`."""
    messages = wire.required(told, "messages", list)
    (model,) = wire.texts(told, "model")
    (user,) = wire.texts(mapping(told.get("metadata")), "user_id")
    # Programs name themselves here by one id for each of their own sessions.
    own = user.startswith(("user_", "{"))
    system = (one for one in objects_in(messages) if one.get("role") == "system")
    more = [wire.text_of(one.get("content")) for one in system]
    return wire.ClientRequest(
        format=FORMAT,
        model=model or "default",
        messages=wire.joined(_messages(messages)),
        instructions="\n\n".join(filter(None, (wire.text_of(told.get("system")), *more))),
        tools=wire.tools_of(told.get("tools")),
        stream=told.get("stream") is True,
        user="" if own else user,
        conversation=user if own else "",
        sampling=_sampling(told),
    )


def _sampling(told: dict[str, Any]) -> Sampling:
    choice, given = told.get("tool_choice"), mapping(told.get("output_config"))
    alone = wire.flag(mapping(choice), "disable_parallel_tool_use")
    schema = mapping(given.get("format")).get("schema")
    inner = {"name": "answer", "schema": schema, "strict": True}
    return Sampling(
        max_tokens=wire.whole_number(told, "max_tokens", least=1),
        temperature=wire.number(told, "temperature"),
        top_p=wire.number(told, "top_p"),
        top_k=wire.whole_number(told, "top_k"),
        stop=wire.stops(told, "stop_sequences"),
        effort=next(wire.texts(given, "effort")),
        **wire.chosen_tool(choice),
        parallel_calls=None if alone is None else not alone,
        output_format={"type": "json_schema", "json_schema": inner} if schema else {},
    )


def _messages(messages: list[Any]) -> Iterator[wire.ClientMessage]:
    for message in messages:
        match message:
            case {"role": "user", "content": content}:
                for block in sequence(content):
                    match block:
                        case {"type": "tool_result", "tool_use_id": str(call)}:
                            failed = block.get("is_error") is True
                            yield wire.said_by(
                                "tool", block.get("content"), call=call, failed=failed
                            )
                yield wire.said_by("user", content)
            case {"role": "assistant", "content": content}:
                calls = tuple(_calls(content))
                yield wire.ClientMessage(role="assistant", text=_spoken(content), calls=calls)
            case {"role": "system"}:
                continue
            case _:
                raise UsageError("A message has no role that is known.", "Use user or assistant.")


def _spoken(content: object) -> str:
    """What the assistant said: its reasoning is no part of that."""
    if not isinstance(content, list):
        return wire.text_of(content)
    return wire.text_of([it for it in objects_in(content) if it.get("type") == "text"])


def _calls(content: object) -> Iterator[ToolCall]:
    for block in sequence(content):
        match block:
            case {"type": "tool_use", "id": str(own), "name": str(name)}:
                yield ToolCall(id=own, name=name, arguments=wire.arguments_of(block.get("input")))


class MessagesWire(msgspec.Struct, eq=False):
    """One reply of messages, block by block."""

    _reply: wire.Reply
    _index: int = -1
    _open: str = ""
    """The kind of block that is open."""

    def begin(self) -> Iterable[bytes]:
        """The message without content."""
        empty: dict[str, Any] = {"content": [], "stop_reason": None, "usage": _usage(self._reply)}
        yield self._event("message_start", message={**self._frame(), **empty})

    def text(self, piece: str) -> Iterable[bytes]:
        """More of the answer."""
        yield from self._block("text", {"type": "text", "text": ""})
        yield self._delta({"type": "text_delta", "text": piece})

    def thought(self, piece: str) -> Iterable[bytes]:
        """More of the reasoning."""
        yield from self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        yield self._delta({"type": "thinking_delta", "thinking": piece})

    def end(self, reply: wire.Reply) -> Iterable[bytes]:
        """The calls, the reason and the figures, and the end."""
        for call in reply.calls:
            yield from self._close()
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            yield from self._block("tool_use", block)
            yield self._delta({"type": "input_json_delta", "partial_json": call.arguments or "{}"})
        yield from self._close()
        ended = {"stop_reason": _STOP[reply.ending], "stop_sequence": None}
        yield self._event("message_delta", delta=ended, usage=_usage(reply))
        yield self._event("message_stop")

    def fail(self, fault: wire.Fault) -> Iterable[bytes]:
        """An error in the stream."""
        yield wire.sse(error_body(fault), "error")

    def whole(self, reply: wire.Reply) -> dict[str, Any]:
        """The message in one piece."""
        content: list[dict[str, Any]] = []
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        for call in reply.calls:
            used = {"type": "tool_use", "id": call.id, "name": call.name}
            content.append({**used, "input": wire.given_to(call)})
        return {
            **self._frame(),
            "content": content,
            "stop_reason": _STOP[reply.ending],
            "usage": _usage(reply),
        }

    def _frame(self) -> dict[str, Any]:
        return {
            "id": self._reply.id,
            "type": "message",
            "role": "assistant",
            "model": self._reply.model,
            "stop_sequence": None,
        }

    def _block(self, kind: str, block: dict[str, Any]) -> Iterator[bytes]:
        if self._open != kind:
            yield from self._close()
            self._index += 1
            self._open = kind
            yield self._event("content_block_start", index=self._index, content_block=block)

    def _close(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield self._event("content_block_stop", index=self._index)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return self._event("content_block_delta", index=self._index, delta=delta)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return wire.sse({"type": kind, **fields}, kind)


_TOO_LONG: Final = "prompt is too long"
"""What programs look for, to make room and ask again."""


def error_body(fault: wire.Fault) -> dict[str, Any]:
    """An error as Anthropic writes it."""
    said = fault.said
    if fault.failure == "too_long" and _TOO_LONG not in said.lower():
        said = f"{_TOO_LONG}: {said}"
    return {"type": "error", "error": {"type": fault.kind, "message": said}}


def _usage(reply: wire.Reply) -> dict[str, Any]:
    prompt, completion = wire.tokens_of(reply.usage)
    cached = reply.usage.cached or 0
    return {
        "input_tokens": max(prompt - cached, 0),
        "output_tokens": completion,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": reply.usage.cache_written or 0,
    }
