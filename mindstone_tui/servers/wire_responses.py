"""OpenAI's responses: read from a client, written back to it."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mindstone_tui.core.bounded_json import mapping, objects_in
from mindstone_tui.core.entries import Sampling, ToolCall
from mindstone_tui.core.errors import UsageError
from mindstone_tui.servers import wire, wire_chat

FORMAT: Final = "responses"


def read(told: dict[str, Any]) -> wire.ClientRequest:
    """A body of `/v1/responses`."""
    given = told.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list):
        raise UsageError("`input` is missing or wrong.", "Send a text or a list of items.")
    user, model, previous, instructions = wire.texts(
        told, "user", "model", "previous_response_id", "instructions"
    )
    system = (one for one in objects_in(items) if one.get("role") in ("system", "developer"))
    more = [wire.text_of(one.get("content")) for one in system]
    return wire.ClientRequest(
        format=FORMAT,
        model=model or "default",
        messages=wire.joined(_messages(items)),
        instructions="\n\n".join(text for text in (instructions, *more) if text),
        tools=wire.tools_of(told.get("tools")),
        stream=told.get("stream") is True,
        user=user,
        previous=previous,
        sampling=_sampling(told),
    )


def _sampling(told: dict[str, Any]) -> Sampling:
    return Sampling(
        max_tokens=wire.whole_number(told, "max_output_tokens", least=1),
        temperature=wire.number(told, "temperature"),
        top_p=wire.number(told, "top_p"),
        effort=next(wire.texts(mapping(told.get("reasoning")), "effort")),
        **wire.chosen_tool(told.get("tool_choice")),
        parallel_calls=wire.flag(told, "parallel_tool_calls"),
        output_format=_nested(mapping(mapping(told.get("text")).get("format"))),
    )


def _nested(form: dict[str, Any]) -> dict[str, object]:
    """The form of an answer as chat completions write it."""
    if (kind := form.get("type")) == "json_schema":
        inner = {name: value for name, value in form.items() if name != "type"}
        return {"type": kind, "json_schema": inner}
    return {"type": kind} if kind == "json_object" else {}


def _messages(items: list[Any]) -> Iterator[wire.ClientMessage]:
    for item in items:
        match item:
            case {"type": "function_call", "call_id": str(call), "name": str(name)}:
                yield _calling(call, name, item.get("arguments"))
            case {"type": "custom_tool_call", "call_id": str(call), "name": str(name)}:
                yield _calling(call, name, {"input": item.get("input")})
            case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(call)}:
                given = item.get("output")
                yield wire.ClientMessage(
                    role="tool", text=_output(given), call=call, pictures=wire.pictures_of(given)
                )
            case {"role": "user", "content": content}:
                yield wire.said_by("user", content)
            case {"role": "assistant", "content": content}:
                yield wire.ClientMessage(role="assistant", text=wire.text_of(content))
            case {"role": "system" | "developer"} | {"type": "reasoning"}:
                continue
            case {"type": str()}:
                continue
            case _:
                raise UsageError("An item of `input` is not known.", "Send messages and calls.")


def _calling(call: str, name: str, given: object) -> wire.ClientMessage:
    called = ToolCall(id=call, name=name, arguments=wire.arguments_of(given))
    return wire.ClientMessage(role="assistant", calls=(called,))


def _output(output: object) -> str:
    match output:
        case {"content": content}:
            return wire.text_of(content)
        case str() | list():
            return wire.text_of(output)
    return wire.arguments_of(output)


class ResponsesWire:
    """One response, item by item."""

    def __init__(self, reply: wire.Reply, *, previous: str = "") -> None:
        self._reply = reply
        self._previous = previous
        self._created = wire.now()
        self._number = 0
        self._message = f"msg_{reply.id.removeprefix('resp_')}"
        self._said = False

    def begin(self) -> Iterable[bytes]:
        """The response without output."""
        yield self._event("response.created", response=self._frame("in_progress"))
        yield self._event("response.in_progress", response=self._frame("in_progress"))

    def text(self, piece: str) -> Iterable[bytes]:
        """More of the answer."""
        if not self._said:
            self._said = True
            item = self._item("", "in_progress")
            yield self._event("response.output_item.added", output_index=0, item=item)
            yield self._event("response.content_part.added", **self._place(), part=_part(""))
        yield self._event("response.output_text.delta", **self._place(), delta=piece, logprobs=[])

    def thought(self, piece: str) -> Iterable[bytes]:
        """Reasoning is kept in history; this format takes it back only encrypted."""
        return ()

    def end(self, reply: wire.Reply) -> Iterable[bytes]:
        """What is said, the calls, and the whole response."""
        index = 0
        if self._said:
            text = reply.text
            done = {"text": text, "logprobs": []}
            yield self._event("response.output_text.done", **self._place(), **done)
            yield self._event("response.content_part.done", **self._place(), part=_part(text))
            item = self._item(text, "completed")
            yield self._event("response.output_item.done", output_index=0, item=item)
            index = 1
        for place, call in enumerate(reply.calls, index):
            yield from self._call(place, call)
        kind = "incomplete" if reply.ending == "length" else "completed"
        yield self._event(f"response.{kind}", response=self.whole(reply))

    def fail(self, fault: wire.Fault) -> Iterable[bytes]:
        """The response that failed."""
        error = {"code": wire_chat.code_of(fault) or "server_error", "message": fault.said}
        yield self._event("response.failed", response={**self._frame("failed"), "error": error})

    def whole(self, reply: wire.Reply) -> dict[str, Any]:
        """The response in one piece."""
        output: list[dict[str, Any]] = []
        if reply.text:
            output.append(self._item(reply.text, "completed"))
        output += [_call_item(call, call.arguments or "{}", "completed") for call in reply.calls]
        prompt, completion = wire.tokens_of(reply.usage)
        usage = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": reply.usage.cached or 0},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": reply.usage.reasoning or 0},
            "total_tokens": prompt + completion,
        }
        if reply.ending == "length":
            why = {"incomplete_details": {"reason": "max_output_tokens"}}
            return {**self._frame("incomplete"), **why, "output": output, "usage": usage}
        return {**self._frame("completed"), "output": output, "usage": usage}

    def _call(self, index: int, call: ToolCall) -> Iterator[bytes]:
        arguments = call.arguments or "{}"
        place = {"item_id": f"fc_{call.id}", "output_index": index}
        yield self._event(
            "response.output_item.added",
            output_index=index,
            item=_call_item(call, "", "in_progress"),
        )
        yield self._event("response.function_call_arguments.delta", **place, delta=arguments)
        yield self._event("response.function_call_arguments.done", **place, arguments=arguments)
        item = _call_item(call, arguments, "completed")
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _frame(self, status: str) -> dict[str, Any]:
        return {
            "id": self._reply.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._reply.model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "previous_response_id": self._previous or None,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
        }

    def _item(self, text: str, status: str) -> dict[str, Any]:
        return {
            "id": self._message,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [_part(text)] if status == "completed" else [],
        }

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._message, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        return wire.sse({"type": kind, "sequence_number": self._number - 1, **fields}, kind)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: ToolCall, arguments: str, status: str) -> dict[str, Any]:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
        "status": status,
    }
