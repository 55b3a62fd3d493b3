"""Anthropic's messages: instructions apart, roles in turn, content in blocks."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mindstone_tui.core import bounded_json, entries
from mindstone_tui.core.bounded_json import mapping, words_in
from mindstone_tui.core.providers import base, dialect, http, litellm, tool_names
from mindstone_tui.core.providers.address import Address

_ADDRESS: Final = "https://api.anthropic.com"
_VERSION: Final = "2023-06-01"
_OPENING: Final = "(The conversation goes on.)"
"""The person's part where a conversation would begin with an answer, which is not allowed."""
_THOUGHT: Final = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 24_576}
"""Tokens of thinking by effort."""
_LEAST_THOUGHT: Final = 1_024
"""What this format asks for at least."""
_FINISH: Final = {"model_context_window_exceeded": "length", "pause_turn": "stop"}
_COUNTED: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def call(request: entries.Request, options: base.Options, address: Address) -> http.HttpCall:
    """The request in this format."""
    system, rest = dialect.system_and_rest(litellm.messages_for(request, options, address.model))
    thinking = _thinking(options)
    body = {
        "model": dialect.wire_name(address),
        "system": [block for message in system for block in _said(message)] or None,
        "messages": in_turn(tool_names.with_valid_calls(message) for message in rest),
        "max_tokens": options.max_tokens,
        "temperature": None if thinking else options.temperature,
        "top_p": None if thinking else options.sampling.top_p,
        "top_k": None if thinking else options.sampling.top_k,
        "stop_sequences": options.sampling.stop or None,
        "output_config": _form(options.sampling.output_format),
        "thinking": thinking,
        "stream": True,
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        or None,
        "tool_choice": _choice(request, options),
    }
    base_url = (address.base_url or _ADDRESS).rstrip("/")
    for end in ("/messages", "/v1"):
        base_url = base_url.removesuffix(end)
    headers = {"anthropic-version": _VERSION}
    if address.key:
        headers["x-api-key"] = address.key.secret
    return http.HttpCall(url=f"{base_url}/v1/messages", headers=headers, body=dialect.encoded(body))


def _choice(request: entries.Request, options: base.Options) -> dict[str, Any] | None:
    """Whether tools may, must or must not be used, where somebody asked for that."""
    asked = options.sampling
    if not request.tools or (not asked.tool_choice and asked.parallel_calls is None):
        return None
    kinds = {"": "auto", "none": "none", "required": "any", "named": "tool"}
    choice: dict[str, Any] = {"type": kinds[asked.tool_choice]}
    if asked.tool_choice == "named":
        choice["name"] = asked.tool
    if asked.parallel_calls is not None and asked.tool_choice != "none":
        choice["disable_parallel_tool_use"] = not asked.parallel_calls
    return choice


def _form(output_format: Mapping[str, Any]) -> dict[str, Any] | None:
    schema = dialect.schema_of(output_format)
    return {"format": {"type": "json_schema", "schema": schema}} if schema else None


def _thinking(options: base.Options) -> dict[str, Any] | None:
    """Room to think before the answer; none where the answer has hardly room itself."""
    if options.effort is None:
        return None
    room = min(_THOUGHT[options.effort], options.max_tokens // 2)
    return {"type": "enabled", "budget_tokens": room} if room >= _LEAST_THOUGHT else None


def in_turn(messages: Iterable[entries.Message]) -> list[entries.Message]:
    """The conversation with person and model in turn, the person first, and nothing empty."""
    told: list[entries.Message] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        if not (blocks := list(_blocks(message))):
            continue
        if told and told[-1]["role"] == role:
            told[-1]["content"] += blocks
        else:
            told.append({"role": role, "content": blocks})
    if told and told[0]["role"] == "assistant":
        told.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
    return told


def _blocks(message: entries.Message) -> Iterator[dict[str, Any]]:
    if message["role"] == "tool":
        yield _result(message)
        return
    yield from message.get("thinking_blocks") or ()
    yield from _said(message)
    for asked in message.get("tool_calls") or ():
        function = asked["function"]
        yield {
            "type": "tool_use",
            "id": asked["id"],
            "name": function["name"],
            "input": bounded_json.read_object(function["arguments"]) or {},
        }


def _result(message: entries.Message) -> dict[str, Any]:
    result = {
        "type": "tool_result",
        "tool_use_id": message["tool_call_id"],
        "content": dialect.text_of(message),
    }
    mark = message.get("cache_control")
    return result if mark is None else {**result, "cache_control": mark}


def _said(message: entries.Message) -> Iterator[dict[str, Any]]:
    """Texts and pictures, with their marks."""
    for part in dialect.parts_of(message):
        if not (url := dialect.image_of(part)):
            yield dict(part)
            continue
        held = dialect.inline_image(url)
        source = (
            {"type": "base64", "media_type": held[0], "data": held[1]}
            if held
            else {"type": "url", "url": url}
        )
        mark = {name: part[name] for name in ("cache_control",) if name in part}
        yield {"type": "image", "source": source, **mark}


class MessagesInterpreter(dialect.Interpreter):
    """Blocks open, grow and close; usage comes in two halves."""

    def __init__(self) -> None:
        self._usage: dict[str, int] = {}
        self._inputs: dict[object, Mapping[str, Any]] = {}
        """Arguments that came whole when a call was opened, and not in pieces."""

    def chunks(self, event: dialect.Event) -> Iterator[dialect.Chunk]:
        """What an event adds."""
        match event.get("type"):
            case "message_start":
                message = mapping(event.get("message"))
                self._count(message.get("usage"))
                yield dialect.chunk_of(model=message.get("model"))
            case "content_block_start":
                yield from self._opened(event.get("index"), mapping(event.get("content_block")))
            case "content_block_delta":
                yield from self._grown(event.get("index"), mapping(event.get("delta")))
            case "content_block_stop":
                if whole := self._inputs.pop(event.get("index"), None):
                    arguments = dialect.json_text(whole)
                    yield dialect.call_fragment(event.get("index"), arguments=arguments)
            case "message_delta":
                self._count(event.get("usage"))
                reason = words_in(mapping(event.get("delta")).get("stop_reason"))
                self.complete = self.complete or bool(reason)
                yield dialect.chunk_of(finish=_FINISH.get(reason, reason), usage=self._counted())
            case "message_stop":
                self.over = True

    def _opened(self, index: object, block: Mapping[str, Any]) -> Iterator[dialect.Chunk]:
        match block.get("type"):
            case "text":
                yield dialect.chunk_of({"content": block.get("text")})
            case "thinking" | "redacted_thinking":
                yield dialect.chunk_of({"thinking_blocks": [dict(block)]})
            case "tool_use":
                self._inputs[index] = mapping(block.get("input"))
                yield dialect.call_fragment(index, call_id=block.get("id"), name=block.get("name"))

    def _grown(self, index: object, delta: Mapping[str, Any]) -> Iterator[dialect.Chunk]:
        match delta.get("type"):
            case "text_delta":
                yield dialect.chunk_of({"content": delta.get("text")})
            case "thinking_delta" | "signature_delta":
                yield dialect.chunk_of({"thinking_blocks": [dict(delta)]})
            case "input_json_delta":
                self._inputs.pop(index, None)
                yield dialect.call_fragment(index, arguments=delta.get("partial_json"))

    def _count(self, usage: object) -> None:
        counted = {name: it for name, it in mapping(usage).items() if _is_count(it)}
        self._usage.update(counted)

    def _counted(self) -> dict[str, int]:
        """What the prompt took is told in three parts; elsewhere it is one number."""
        prompt = sum(self._usage.get(name, 0) for name in _COUNTED)
        known = "input_tokens" in self._usage
        return {**self._usage, "prompt_tokens": prompt} if known else self._usage


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


DIALECT: Final = dialect.Dialect(call=call, interpreter=MessagesInterpreter)
