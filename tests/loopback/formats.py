"""The wire formats as the loopback server speaks them: the same answer, told in four ways."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tests.loopback.server import (
    DONE,
    USAGE,
    Act,
    asked,
    chunk,
    error,
    event,
    head,
    sends,
)

Event = dict[str, Any]
CallParts = tuple[str, str, str]
"""Id, name and arguments."""


class WireFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of server talks. An answer is: opening, words or calls, ending, afterwards."""

    name: str
    model: str
    provider: str
    path: str
    kind: str = "text/event-stream"
    opening: tuple[Event, ...]
    word: Callable[[str], Event]
    thought: Callable[[str], Event]
    calls: Callable[[Sequence[CallParts]], list[Event]]
    ending: Callable[[str], list[Event]]
    """What completes an answer; takes `stop`, `length`, `content_filter` or `tool_calls`."""
    afterwards: tuple[Event, ...] = ()
    last: bytes = b""
    frame: Callable[[Event], bytes]
    error: Callable[[str, str], Any]
    """The body of an error: a message, and its kind."""
    failure: Callable[[str, str], Event]
    """The same in the middle of a stream."""

    def __str__(self) -> str:
        return self.name

    def body(self, events: Iterable[Event]) -> bytes:
        """Events as bytes."""
        return b"".join(self.frame(each) for each in events)

    def head(self, **headers: str) -> bytes:
        """The start of a response."""
        return head(kind=self.kind, **headers)

    def whole(self, *middle: Event, finish: str = "stop") -> bytes:
        """A complete answer around these events."""
        events = [*self.opening, *middle, *self.ending(finish), *self.afterwards]
        return self.body(events) + self.last

    def spoken(self, text: str, finish: str = "stop", size: int = 6) -> bytes:
        """A complete answer with a text, in pieces."""
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        return self.whole(*(self.word(piece) for piece in pieces), finish=finish)

    def says(self, text: str, finish: str = "stop") -> Act:
        """A normal answer."""
        return sends(self.head() + self.spoken(text, finish))

    def asks(self, *calls: CallParts) -> Act:
        """An answer that asks for tools."""
        return sends(self.head() + self.whole(*self.calls(calls), finish="tool_calls"))


def named(payload: Event) -> bytes:
    """A server-sent event with its type before it."""
    return f"event: {payload['type']}\n".encode() + event(payload)


def line(payload: Event) -> bytes:
    """One object a line."""
    return json.dumps(payload).encode() + b"\n"


CHAT = WireFormat(
    name="chat",
    model="openai/m",
    provider="openai",
    path="/v1/chat/completions",
    opening=(chunk({"role": "assistant", "content": ""}),),
    word=lambda text: chunk({"content": text}),
    thought=lambda text: chunk({"reasoning_content": text}),
    calls=lambda calls: asked(*calls)[1:-1],
    ending=lambda finish: [chunk(finish=finish)],
    afterwards=({**chunk(), "choices": [], "usage": USAGE},),
    last=DONE,
    frame=event,
    error=error,
    failure=error,
)


# -- OpenAI's responses ---------------------------------------------------------------------------

_RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "model": "served-model"}
_RESPONSE |= {"output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
_TEXT = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "sequence_number": 2}


def _function_calls(calls: Sequence[CallParts]) -> list[Event]:
    events: list[Event] = []
    for at, (call_id, name, arguments) in enumerate(calls, start=1):
        place = {"output_index": at, "sequence_number": at}
        item = {"type": "function_call", "id": f"fc_{at}", "call_id": call_id, "name": name}
        opened = {**item, "arguments": "", "status": "in_progress"}
        closed = {**item, "arguments": arguments, "status": "completed"}
        events.append({"type": "response.output_item.added", "item": opened, **place})
        events += [
            {
                "type": "response.function_call_arguments.delta",
                "item_id": f"fc_{at}",
                "delta": arguments[cut : cut + 5],
                **place,
            }
            for cut in range(0, len(arguments), 5)
        ]
        events.append({"type": "response.output_item.done", "item": closed, **place})
    return events


def _response_ended(finish: str) -> list[Event]:
    why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 105,
    }
    state = "incomplete" if why else "completed"
    details = {"reason": why} if why else None
    response = {**_RESPONSE, "status": state, "incomplete_details": details, "usage": usage}
    return [{"type": f"response.{state}", "response": response, "sequence_number": 9}]


RESPONSES = WireFormat(
    name="responses",
    model="openai/gpt-5-codex",
    provider="openai",
    path="/v1/responses",
    opening=(
        {
            "type": "response.created",
            "response": {**_RESPONSE, "status": "in_progress"},
            "sequence_number": 0,
        },
    ),
    word=lambda text: {"type": "response.output_text.delta", "delta": text, **_TEXT},
    thought=lambda text: {
        "type": "response.reasoning_summary_text.delta",
        "delta": text,
        "item_id": "rs_1",
        "output_index": 0,
        "summary_index": 0,
        "sequence_number": 1,
    },
    calls=_function_calls,
    ending=_response_ended,
    frame=named,
    error=error,
    failure=lambda message, kind: {
        "type": "error",
        "code": kind,
        "message": message,
        "param": None,
        "sequence_number": 3,
    },
)


# -- Anthropic's messages -------------------------------------------------------------------------


def _block(index: int, block: Event, *deltas: Event) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _tool_uses(calls: Sequence[CallParts]) -> list[Event]:
    return [
        event
        for at, (call_id, name, arguments) in enumerate(calls, start=2)
        for event in _block(
            at,
            {"type": "tool_use", "id": call_id, "name": name, "input": {}},
            *(
                {"type": "input_json_delta", "partial_json": arguments[cut : cut + 5]}
                for cut in range(0, len(arguments), 5)
            ),
        )
    ]


def _message_ended(finish: str) -> list[Event]:
    names = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
    reason = {"stop_reason": names.get(finish, "refusal"), "stop_sequence": None}
    return [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def anthropic_error(message: str, kind: str = "invalid_request_error") -> Event:
    """Anthropic's form of an error."""
    return {"type": "error", "error": {"type": kind, "message": message}}


MESSAGES = WireFormat(
    name="messages",
    model="anthropic/claude-sonnet-4-5",
    provider="anthropic",
    path="/v1/messages",
    opening=(
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": "served-model",
                "usage": {
                    "input_tokens": 31,
                    "cache_read_input_tokens": 64,
                    "cache_creation_input_tokens": 5,
                    "output_tokens": 1,
                },
            },
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {"type": "ping"},
    ),
    word=lambda text: {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
    },
    thought=lambda text: {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "thinking_delta", "thinking": text},
    },
    calls=_tool_uses,
    ending=_message_ended,
    frame=named,
    error=anthropic_error,
    failure=anthropic_error,
)


# -- Ollama's chat --------------------------------------------------------------------------------


def _told(**message: Any) -> Event:
    said = {"role": "assistant", "content": "", **message}
    return {"model": "served-model", "created_at": "2025-01-01", "message": said, "done": False}


def _objects(calls: Sequence[CallParts]) -> list[Event]:
    return [
        _told(tool_calls=[{"function": {"name": name, "arguments": json.loads(arguments)}}])
        for _, name, arguments in calls
    ]


def _line_ended(finish: str) -> list[Event]:
    reason = "length" if finish == "length" else "stop"
    counts = {"prompt_eval_count": 100, "eval_count": 5}
    return [{**_told(), "done": True, "done_reason": reason, **counts}]


OLLAMA = WireFormat(
    name="ollama",
    model="ollama_chat/llama3.1",
    provider="ollama",
    path="/api/chat",
    kind="application/x-ndjson",
    opening=(_told(),),
    word=lambda text: _told(content=text),
    thought=lambda text: _told(thinking=text),
    calls=_objects,
    ending=_line_ended,
    frame=line,
    error=lambda message, _: {"error": message},
    failure=lambda message, _: {"error": message},
)

FORMATS = (CHAT, RESPONSES, MESSAGES, OLLAMA)
