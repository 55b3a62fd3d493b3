"""What the wire formats have in common: their parts, and how a server says that something failed.

A dialect turns a request into a call and each event of the answer into chunks of the OpenAI form,
which one translator reads for all of them.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mindstone_tui.core.bounded_json import mapping, read_object, words_in
from mindstone_tui.core.entries import Message, Part, Request
from mindstone_tui.core.providers import base, errors, http
from mindstone_tui.core.providers.address import Address

Event = Mapping[str, Any]
Chunk = dict[str, Any]


class Interpreter(abc.ABC):
    """Understands one answer, event by event."""

    complete = False
    """The server said that the answer is over; usage may still follow."""
    over = False
    """Nothing that matters follows."""

    @abc.abstractmethod
    def chunks(self, event: Event) -> Iterator[Chunk]:
        """What an event says, in chunks of the OpenAI form."""


class Dialect(Part):
    """One wire format."""

    call: Callable[[Request, base.Options, Address], http.HttpCall]
    interpreter: Callable[[], Interpreter]
    reader: Callable[[], http.Reader] = http.EventStream


def chunk_of(delta: Mapping[str, Any] | None = None, *, finish: str = "", **fields: Any) -> Chunk:
    """A chunk that says one thing."""
    return {"choices": [{"delta": delta or {}, "finish_reason": finish or None}], **fields}


def call_fragment(
    index: object, *, call_id: object = "", name: object = "", arguments: object = ""
) -> Chunk:
    """A chunk with a piece of a tool call; one whose place is no number belongs to the first."""
    place, function = index if isinstance(index, int) else 0, {"name": name, "arguments": arguments}
    return chunk_of({"tool_calls": [{"index": place, "id": call_id, "function": function}]})


def encoded(body: Mapping[str, Any]) -> bytes:
    """A request's body; what is None is left out."""
    return msgspec.json.encode({name: value for name, value in body.items() if value is not None})


def wishes(options: base.Options) -> dict[str, Any]:
    """What a program asks of an answer, in the words of chat completions; None where nothing."""
    asked = options.sampling
    return {
        "top_p": asked.top_p,
        "seed": asked.seed,
        "presence_penalty": asked.presence_penalty,
        "frequency_penalty": asked.frequency_penalty,
        "stop": asked.stop or None,
        "response_format": asked.output_format or None,
    }


def function_tools(request: Request) -> list[dict[str, Any]] | None:
    """The tools as chat completions have them; None where there are none."""
    tools = [{"type": "function", "function": msgspec.to_builtins(each)} for each in request.tools]
    return tools or None


def tool_wishes(request: Request, options: base.Options) -> dict[str, Any]:
    """The same for the choice of tools, where there are any to choose from."""
    asked = options.sampling
    if not request.tools:
        return {}
    named = {"type": "function", "function": {"name": asked.tool}}
    choice = named if asked.tool_choice == "named" else asked.tool_choice or None
    return {"tool_choice": choice, "parallel_tool_calls": asked.parallel_calls}


def schema_of(output_format: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that an answer must have; empty when any JSON will do, or any text."""
    return mapping(mapping(output_format.get("json_schema")).get("schema"))


def json_text(value: object) -> str:
    """A value as the text that it would have been; nothing is an object without fields."""
    return msgspec.json.encode({} if value is None else value).decode()


def wire_name(address: Address) -> str:
    """The model's name without the provider's, as its server knows it."""
    return address.model.partition("/")[2]


def system_and_rest(messages: Iterable[Message]) -> tuple[list[Message], list[Message]]:
    """Instructions, which some formats want apart, and the conversation."""
    told = list(messages)
    system = [message for message in told if message["role"] == "system"]
    return system, [message for message in told if message["role"] != "system"]


def parts_of(message: Message) -> list[dict[str, Any]]:
    """A message's content as parts, without texts that say nothing."""
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    return [part for part in parts if part.get("type") != "text" or part.get("text", "").strip()]


def text_of(message: Message) -> str:
    """A message's content as one text."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or () if part.get("type") == "text")


def image_of(part: Mapping[str, Any]) -> str:
    """The address of a picture, usually one that holds its bytes; empty when a part is none."""
    image = part.get("image_url")
    return words_in(image.get("url") if isinstance(image, Mapping) else image)


def inline_image(url: str) -> tuple[str, str] | None:
    """Media type and base64 of a picture that its address holds; None when it lies elsewhere."""
    kind, comma, data = url.removeprefix("data:").partition(",")
    if not url.startswith("data:") or not comma or not kind.endswith(";base64"):
        return None
    return kind.removesuffix(";base64"), data


# -- failures -------------------------------------------------------------------------------------


def failure_of_status(answer: http.HttpAnswer, body: bytes) -> errors.Failure:
    """An answer that is an error by its status, and the beginning of its page."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    told = read_object(text)
    words = errors.Words(told) if told is not None else None
    return errors.Failure(
        kind="BadStatus",
        message=(words.message if words and words.message else text)[: errors.LONGEST_WORDS],
        causes=f"{answer.reason} {words.codes if words else ''}"[: errors.LONGEST_WORDS],
        status=answer.status,
        headers=answer.headers,
    )


def failure_in(event: Event) -> errors.Failure | None:
    """The error that an event of a stream is; None when it is none."""
    if not (told := event.get("error")) and event.get("type") == "error":
        told = event
    if not told and event.get("type") == "response.failed":
        told = mapping(event.get("response")).get("error") or "it failed"
    if not told:
        return None
    words = errors.Words(told)
    return errors.Failure(
        kind="StreamError",
        message=words.message[: errors.LONGEST_WORDS],
        causes=words.codes[: errors.LONGEST_WORDS],
        status=words.status,
    )
