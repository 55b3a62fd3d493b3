"""Ollama's own chat: one JSON object a line, arguments as objects, the window in each request."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mindstone_tui.core import bounded_json, entries
from mindstone_tui.core.bounded_json import mapping, objects_in, words_in
from mindstone_tui.core.providers import base, dialect
from mindstone_tui.core.providers.address import Address
from mindstone_tui.core.providers.http import HttpCall, JsonLines
from mindstone_tui.core.providers.litellm import messages_for
from mindstone_tui.core.providers.openai_chat import bearer
from mindstone_tui.core.providers.tool_names import with_valid_calls

_OPENED: Final = "<think>"
_CLOSED: Final = "</think>"


def call(request: entries.Request, options: base.Options, address: Address) -> HttpCall:
    """The request in this format."""
    sampling = {
        "num_predict": options.max_tokens,
        "temperature": options.temperature,
        "num_ctx": options.window or None,
        "top_k": options.sampling.top_k,
        **dialect.wishes(options),
    }
    del sampling["response_format"]
    form = options.sampling.output_format
    told = [with_valid_calls(each) for each in messages_for(request, options, address.model)]
    names = {
        asked["id"]: asked["function"]["name"]
        for message in told
        for asked in message.get("tool_calls") or ()
    }
    body = {
        "model": dialect.wire_name(address),
        "messages": [_fit(message, names) for message in told],
        "options": {name: value for name, value in sampling.items() if value is not None},
        "format": dialect.schema_of(form) or ("json" if form else None),
        "stream": True,
        "think": "low" if options.effort == "minimal" else options.effort,
        "tools": dialect.function_tools(request),
    }
    base_url = address.base_url.rstrip("/").removesuffix("/api/chat").removesuffix("/v1")
    return HttpCall(url=f"{base_url}/api/chat", headers=bearer(address), body=dialect.encoded(body))


def _fit(message: entries.Message, names: Mapping[str, str]) -> entries.Message:
    fit: entries.Message = {"role": message["role"], "content": dialect.text_of(message)}
    found = (dialect.inline_image(dialect.image_of(part)) for part in dialect.parts_of(message))
    if images := [held[1] for held in found if held]:
        fit["images"] = images
    if asked := message.get("tool_calls"):
        fit["tool_calls"] = [
            {
                "function": {
                    "name": each["function"]["name"],
                    "arguments": bounded_json.read_object(each["function"]["arguments"]) or {},
                }
            }
            for each in asked
        ]
    if message["role"] == "tool":
        fit["tool_name"] = names.get(message["tool_call_id"], "")
        fit["tool_call_id"] = message["tool_call_id"]
    return fit


class OllamaInterpreter(dialect.Interpreter):
    """Every line is a piece; the last one says so and has the usage."""

    def __init__(self) -> None:
        self._calls = 0
        self._thoughts = Thoughts()

    def chunks(self, event: dialect.Event) -> Iterator[dialect.Chunk]:
        """What a line adds."""
        message, done = event.get("message"), event.get("done") is True
        if not isinstance(message, Mapping):
            return
        self.complete = self.over = self.complete or done
        said, thought = self._thoughts.parted(words_in(message.get("content")), last=done)
        thought = words_in(message.get("thinking")) + thought
        yield dialect.chunk_of(
            {"content": said, "reasoning_content": thought}, model=event.get("model")
        )
        yield from map(self._asked, objects_in(message.get("tool_calls")))
        if done:
            usage = {
                "prompt_tokens": event.get("prompt_eval_count"),
                "completion_tokens": event.get("eval_count"),
            }
            finish = words_in(event.get("done_reason")) or "stop"
            yield dialect.chunk_of(finish=finish, usage=usage, model=event.get("model"))

    def _asked(self, asked: Mapping[str, Any]) -> dialect.Chunk:
        """A call comes whole; each has a number of its own, whatever the server counts."""
        given = mapping(asked.get("function"))
        arguments = given.get("arguments")
        self._calls += 1
        return dialect.call_fragment(
            self._calls - 1,
            call_id=asked.get("id"),
            name=given.get("name"),
            arguments=arguments if isinstance(arguments, str) else dialect.json_text(arguments),
        )


class Thoughts:
    """Parts a text that begins with thoughts between tags, which older models write as they are."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "before"

    def parted(self, text: str, *, last: bool = False) -> tuple[str, str]:
        """What was said and what was thought; half a tag is held back until it is clear."""
        text, self._held = self._held + text, ""
        if self._state == "before":
            bare = text.lstrip()
            if not last and len(bare) < len(_OPENED) and _OPENED.startswith(bare):
                self._held = text
                return "", ""
            self._state = "thinking" if bare.startswith(_OPENED) else "after"
            text = bare.removeprefix(_OPENED) if self._state == "thinking" else text
        if self._state == "after":
            return text, ""
        thought, closed, said = text.partition(_CLOSED)
        if closed:
            self._state = "after"
            return said.lstrip("\n"), thought
        kept = 0 if last else _overlap(thought, _CLOSED)
        self._held = thought[len(thought) - kept :]
        return "", thought[: len(thought) - kept]


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of a text may begin a tag."""
    return next((n for n in range(len(tag) - 1, 0, -1) if text.endswith(tag[:n])), 0)


DIALECT: Final = dialect.Dialect(call=call, interpreter=OllamaInterpreter, reader=JsonLines)
