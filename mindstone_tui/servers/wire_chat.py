"""OpenAI's chat completions: read from a client, written back to it."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mindstone_tui.core.bounded_json import mapping, sequence
from mindstone_tui.core.entries import Sampling, ToolCall
from mindstone_tui.core.errors import UsageError
from mindstone_tui.servers import wire

FORMAT: Final = "chat.completions"
_FINISH: Final = {"stop": "stop", "calls": "tool_calls", "length": "length"}


def read(told: dict[str, Any]) -> wire.ClientRequest:
    """A body of `/v1/chat/completions`."""
    messages = wire.required(told, "messages", list)
    user, model = wire.texts(told, "user", "model")
    return wire.ClientRequest(
        format=FORMAT,
        model=model or "default",
        messages=wire.joined(_messages(messages)),
        instructions="\n\n".join(_instructions(messages)),
        tools=wire.tools_of(told.get("tools")),
        stream=told.get("stream") is True,
        user=user,
        with_usage=mapping(told.get("stream_options")).get("include_usage") is True,
        sampling=_sampling(told),
    )


def _sampling(told: dict[str, Any]) -> Sampling:
    if (wire.whole_number(told, "n") or 1) > 1:
        raise UsageError("There is one answer to a message here.", "Ask with `n` = 1.")
    longest = wire.whole_number(told, "max_completion_tokens", least=1)
    form = mapping(told.get("response_format"))
    return Sampling(
        max_tokens=longest or wire.whole_number(told, "max_tokens", least=1),
        temperature=wire.number(told, "temperature"),
        top_p=wire.number(told, "top_p"),
        top_k=wire.whole_number(told, "top_k"),
        seed=wire.whole_number(told, "seed"),
        presence_penalty=wire.number(told, "presence_penalty"),
        frequency_penalty=wire.number(told, "frequency_penalty"),
        stop=wire.stops(told, "stop"),
        effort=next(wire.texts(told, "reasoning_effort")),
        **wire.chosen_tool(told.get("tool_choice")),
        parallel_calls=wire.flag(told, "parallel_tool_calls"),
        output_format=form if form.get("type") in ("json_object", "json_schema") else {},
    )


def _instructions(messages: list[Any]) -> Iterator[str]:
    for message in messages:
        match message:
            case {"role": "system" | "developer", "content": content}:
                yield wire.text_of(content)


def _messages(messages: list[Any]) -> Iterator[wire.ClientMessage]:
    for message in messages:
        match message:
            case {"role": "user", "content": content}:
                yield wire.said_by("user", content)
            case {"role": "assistant"}:
                calls = tuple(_calls(message.get("tool_calls")))
                yield wire.ClientMessage(
                    role="assistant", text=wire.text_of(message.get("content")), calls=calls
                )
            case {"role": "tool", "tool_call_id": str(call)}:
                yield wire.said_by("tool", message.get("content"), call=call)
            case {"role": "system" | "developer"}:
                continue
            case _:
                raise UsageError("A message has no role that is known.", "Use user, assistant …")


def _calls(calls: object) -> Iterator[ToolCall]:
    for call in sequence(calls):
        match call:
            case {"id": str(own), "function": {"name": str(name)}}:
                arguments = wire.arguments_of(call["function"].get("arguments"))
                yield ToolCall(id=own, name=name, arguments=arguments)


class ChatWire:
    """One reply of chat completions."""

    def __init__(self, reply: wire.Reply, *, with_usage: bool = False) -> None:
        self._reply = reply
        self._with_usage = with_usage
        self._created = wire.now()

    def begin(self) -> Iterable[bytes]:
        """The role."""
        yield self._chunk({"role": "assistant", "content": ""})

    def text(self, piece: str) -> Iterable[bytes]:
        """More of the answer."""
        yield self._chunk({"content": piece})

    def thought(self, piece: str) -> Iterable[bytes]:
        """More of the reasoning, as servers that have it name it."""
        yield self._chunk({"reasoning_content": piece})

    def end(self, reply: wire.Reply) -> Iterable[bytes]:
        """The calls, the reason, the figures if they were asked for, and the end."""
        for index, call in enumerate(reply.calls):
            yield self._chunk({"tool_calls": [{"index": index, **_call(call)}]})
        yield self._chunk({}, _FINISH[reply.ending])
        if self._with_usage:
            yield wire.sse({**self._frame(), "choices": [], "usage": _usage(reply)})
        yield b"data: [DONE]\n\n"

    def fail(self, fault: wire.Fault) -> Iterable[bytes]:
        """An error in the stream, and its end."""
        yield wire.sse(error_body(fault))
        yield b"data: [DONE]\n\n"

    def whole(self, reply: wire.Reply) -> dict[str, Any]:
        """The completion in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.thought:
            message["reasoning_content"] = reply.thought
        if reply.calls:
            message["tool_calls"] = [_call(call) for call in reply.calls]
        choice = {"index": 0, "message": message, "finish_reason": _FINISH[reply.ending]}
        return {
            **self._frame(),
            "object": "chat.completion",
            "choices": [{**choice, "logprobs": None}],
            "usage": _usage(reply),
        }

    def _frame(self) -> dict[str, Any]:
        return {
            "id": self._reply.id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._reply.model,
        }

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return wire.sse({**self._frame(), "choices": [choice]})


_CODES: Final = {
    "too_long": "context_length_exceeded",
    "content": "content_filter",
    "quota": "insufficient_quota",
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
}


def code_of(fault: wire.Fault) -> str | None:
    """The word by which programs know what to do."""
    return _CODES.get(fault.failure) or _CODES.get(fault.status) if fault.failure else None


def error_body(fault: wire.Fault) -> dict[str, Any]:
    """An error as OpenAI writes it, for both of its formats."""
    about = {"param": None, "code": code_of(fault)}
    return {"error": {"message": fault.said, "type": fault.kind, **about}}


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _usage(reply: wire.Reply) -> dict[str, Any]:
    prompt, completion = wire.tokens_of(reply.usage)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": reply.usage.cached or 0},
    }
