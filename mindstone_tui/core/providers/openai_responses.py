"""OpenAI's responses, which some of its models speak only.

Nothing is left behind at the server (`store` is off): the transcript is the history, and each
request carries all that it needs.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mindstone_tui.core.bounded_json import mapping, objects_in, words_in
from mindstone_tui.core.entries import Message, Request, ToolSchema
from mindstone_tui.core.providers import base, dialect, http, litellm, openai_chat, tool_names
from mindstone_tui.core.providers.address import Address

PREFIX: Final = "responses/"
"""Before a model's name it asks for this format, as it does for litellm."""
_SHORTEST: Final = 16
"""The smallest limit that the server takes."""
_TEXT: Final = ("response.output_text.delta", "response.refusal.delta")
_THOUGHT: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS: Final = ("response.completed", "response.incomplete")


def call(request: Request, options: base.Options, address: Address) -> http.HttpCall:
    """The request in this format."""
    system, rest = dialect.system_and_rest(litellm.messages_for(request, options, address.model))
    body = {
        "model": dialect.wire_name(address).removeprefix(PREFIX),
        "instructions": "\n\n".join(dialect.text_of(each) for each in system) or None,
        "input": [
            item for message in rest for item in _items(tool_names.with_valid_calls(message))
        ],
        **openai_chat.limits(options, address, "max_output_tokens"),
        "reasoning": {"effort": options.effort} if options.effort else None,
        "stream": True,
        "store": False,
        "tools": [_tool(tool) for tool in request.tools] or None,
        **_tool_wishes(request, options),
        "text": _form(options.sampling.output_format),
    }
    body["max_output_tokens"] = max(options.max_tokens, _SHORTEST)
    base_url = (address.base_url or openai_chat.HOSTS["openai"].base_url).rstrip("/")
    return http.HttpCall(
        url=f"{base_url.removesuffix('/responses')}/responses",
        headers=openai_chat.bearer(address),
        body=dialect.encoded(body),
    )


def _tool_wishes(request: Request, options: base.Options) -> dict[str, Any]:
    asked = dialect.tool_wishes(request, options)
    if options.sampling.tool_choice == "named" and asked:
        asked["tool_choice"] = {"type": "function", "name": options.sampling.tool}
    return asked


def _form(output_format: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form of the answer: what chat completions nest stands flat here."""
    if not output_format:
        return None
    flat = mapping(output_format.get("json_schema"))
    return {"format": {"type": output_format.get("type"), **flat}}


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _items(message: Message) -> Iterator[dict[str, Any]]:
    """A message as the items of an input: what was said, then what was asked for."""
    if (role := message["role"]) == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": dialect.text_of(message),
        }
        return
    if content := [_part(part, role) for part in dialect.parts_of(message)]:
        yield {"type": "message", "role": role, "content": content}
    for asked in message.get("tool_calls") or ():
        function = asked["function"]
        yield {
            "type": "function_call",
            "call_id": asked["id"],
            "name": function["name"],
            "arguments": function["arguments"],
        }


def _part(part: Mapping[str, Any], role: str) -> dict[str, Any]:
    if url := dialect.image_of(part):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": kind, "text": part.get("text", "")}


class ResponsesInterpreter(dialect.Interpreter):
    """Items open, grow and close; the last event has the usage."""

    def __init__(self) -> None:
        self._spoken: set[object] = set()
        """Items of which something was heard: their end says nothing new."""

    def chunks(self, event: dialect.Event) -> Iterator[dialect.Chunk]:
        """What an event adds."""
        kind, place, delta = event.get("type"), event.get("output_index"), event.get("delta")
        if kind in _TEXT:
            yield self._heard(place, dialect.chunk_of({"content": delta}))
        elif kind in _THOUGHT:
            yield self._heard(place, dialect.chunk_of({"reasoning_content": delta}))
        elif kind == "response.function_call_arguments.delta":
            self._spoken.add((place, "arguments"))
            yield dialect.call_fragment(place, arguments=delta)
        elif kind == "response.output_item.added":
            yield from self._opened(place, event.get("item"))
        elif kind == "response.output_item.done":
            yield from self._closed(place, event.get("item"))
        elif kind in _ENDS:
            yield from self._ended(event.get("response"))
        elif kind == "response.created":
            yield dialect.chunk_of()

    def _heard(self, place: object, chunk: dialect.Chunk) -> dialect.Chunk:
        self._spoken.add(place)
        return chunk

    def _opened(self, place: object, item: object) -> Iterator[dialect.Chunk]:
        if isinstance(item, Mapping) and item.get("type") == "function_call":
            own, name = item.get("call_id"), item.get("name")
            yield self._heard(place, dialect.call_fragment(place, call_id=own, name=name))

    def _closed(self, place: object, item: object) -> Iterator[dialect.Chunk]:
        """Some servers send an item only when it is whole."""
        if not isinstance(item, Mapping):
            return
        if item.get("type") == "function_call":
            if place not in self._spoken:
                yield from self._opened(place, item)
            if (place, "arguments") not in self._spoken:
                self._spoken.add((place, "arguments"))
                yield dialect.call_fragment(place, arguments=item.get("arguments"))
            return
        if place in self._spoken:
            return
        text = "".join(
            words_in(part.get("text")) or words_in(part.get("refusal"))
            for part in objects_in(item.get("content") or item.get("summary"))
        )
        name = "reasoning_content" if item.get("type") == "reasoning" else "content"
        if text:
            yield self._heard(place, dialect.chunk_of({name: text}))

    def _ended(self, response: object) -> Iterator[dialect.Chunk]:
        said = mapping(response)
        for place, item in enumerate(objects_in(said.get("output"))):
            yield from self._closed(place, item)
        reason = words_in(mapping(said.get("incomplete_details")).get("reason"))
        self.complete = self.over = True
        finish = {"": "stop", "max_output_tokens": "length"}.get(reason, reason)
        yield dialect.chunk_of(finish=finish, usage=said.get("usage"), model=said.get("model"))


DIALECT: Final = dialect.Dialect(call=call, interpreter=ResponsesInterpreter)
