"""Google's generateContent: read from a client, written back to it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from mindstone_tui.core import entries, errors
from mindstone_tui.core.bounded_json import mapping, objects_in
from mindstone_tui.servers import wire

FORMAT: Final = "gemini"
PATH: Final = "/v1beta/models/"
_STOP: Final = {"stop": "STOP", "calls": "STOP", "length": "MAX_TOKENS"}
_CHOICES: Final = {"NONE": "none", "ANY": "required"}


def reader(called: str) -> partial[wire.ClientRequest]:
    """What reads a body that was sent to `MODEL:METHOD`."""
    model, _, method = called.rpartition(":")
    if method not in ("generateContent", "streamGenerateContent"):
        raise errors.UsageError(f"There is no method {method}.", "Use generateContent.")
    return partial(read, model, stream=method == "streamGenerateContent")


def read(model: str, told: dict[str, Any], *, stream: bool) -> wire.ClientRequest:
    """A body of `generateContent`."""
    return wire.ClientRequest(
        format=FORMAT,
        model=model or "default",
        messages=wire.joined(_messages(wire.required(told, "contents", list))),
        instructions=_said(_parts(told.get("systemInstruction"))),
        tools=tuple(_tools(told.get("tools"))),
        stream=stream,
        sampling=_sampling(told),
    )


def _sampling(told: dict[str, Any]) -> entries.Sampling:
    given = mapping(told.get("generationConfig"))
    schema = given.get("responseJsonSchema") or _plain(given.get("responseSchema"))
    inner = {"name": "answer", "schema": schema, "strict": False}
    match told.get("toolConfig"):
        case {"functionCallingConfig": {"mode": str(mode)}} if mode in _CHOICES:
            choice = wire.chosen_tool(_CHOICES[mode])
        case _:
            choice = {}
    return entries.Sampling(
        max_tokens=wire.whole_number(given, "maxOutputTokens", least=1),
        temperature=wire.number(given, "temperature"),
        top_p=wire.number(given, "topP"),
        top_k=wire.whole_number(given, "topK"),
        stop=wire.stops(given, "stopSequences"),
        **choice,
        output_format={"type": "json_schema", "json_schema": inner} if schema else {},
    )


def _parts(content: object) -> list[dict[str, Any]]:
    return objects_in(mapping(content).get("parts"))


def _said(parts: Iterable[dict[str, Any]]) -> str:
    """The words of a content: its reasoning is no part of that."""
    return wire.text_of([part for part in parts if "text" in part and not part.get("thought")])


def _messages(contents: list[Any]) -> Iterator[wire.ClientMessage]:
    # A call has no id of its own here: the nth answer of a tool belongs to its nth call.
    made, heard = Counter[str](), Counter[str]()
    for content in contents:
        parts = _parts(content)
        if not isinstance(content, dict) or content.get("role", "user") not in ("user", "model"):
            raise errors.UsageError("A content has no role that is known.", "Use user or model.")
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if content.get("role") == "model":
            known = tuple(_call(call, made) for call in calls)
            yield wire.ClientMessage(role="assistant", text=_said(parts), calls=known)
            continue
        for part in parts:
            match part:
                case {"functionResponse": {"name": str(name)} as result}:
                    given = result.get("response")
                    output = given.get("output") if isinstance(given, dict) else given
                    yield wire.ClientMessage(
                        role="tool",
                        text=output if isinstance(output, str) else wire.arguments_of(given),
                        call=_named(result, name, heard),
                        failed="error" in mapping(given),
                    )
        yield wire.ClientMessage(role="user", text=_said(parts), pictures=_pictures(parts))


def _call(told: Any, made: Counter[str]) -> entries.ToolCall:
    name = mapping(told).get("name")
    if not isinstance(name, str):
        raise errors.UsageError("A call has no name.", "See the format's reference.")
    arguments = wire.arguments_of(told.get("args"))
    return entries.ToolCall(id=_named(told, name, made), name=name, arguments=arguments)


def _named(told: dict[str, Any], name: str, counted: Counter[str]) -> str:
    counted[name] += 1
    own = told.get("id")
    return own if isinstance(own, str) and own else f"{name}-{counted[name]}"


def _pictures(parts: Iterable[dict[str, Any]]) -> tuple[wire.Picture, ...]:
    found = (part.get("inlineData") for part in parts)
    sources = ({"type": "base64", **data} for data in found if isinstance(data, dict))
    return wire.pictures_of([{"type": "image", "source": source} for source in sources])


def _tools(tools: object) -> Iterator[entries.ToolSchema]:
    for group in objects_in(tools):
        for tool in wire.few_enough(group.get("functionDeclarations")):
            match tool:
                case {"name": str(name)}:
                    schema = tool.get("parametersJsonSchema") or _plain(tool.get("parameters"))
                    about = str(tool.get("description") or "")
                    yield entries.ToolSchema(
                        name=name, description=about, parameters=schema or wire.NOTHING
                    )


def _plain(schema: Any) -> Any:
    """A schema with its types in small letters, as everybody else writes them."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: each.lower() if name == "type" and isinstance(each, str) else _plain(each)
        for name, each in schema.items()
    }


class GeminiWire(msgspec.Struct, eq=False):
    """One reply of generateContent, piece by piece."""

    _reply: wire.Reply

    def begin(self) -> Iterable[bytes]:
        """Nothing: the first piece begins it."""
        return ()

    def text(self, piece: str) -> Iterable[bytes]:
        """More of the answer."""
        yield wire.sse(self._frame([{"text": piece}]))

    def thought(self, piece: str) -> Iterable[bytes]:
        """More of the reasoning."""
        yield wire.sse(self._frame([{"text": piece, "thought": True}]))

    def end(self, reply: wire.Reply) -> Iterable[bytes]:
        """The calls, the reason and the figures."""
        yield wire.sse(self._ended(reply, _called(reply)))

    def fail(self, fault: wire.Fault) -> Iterable[bytes]:
        """An error in the stream."""
        yield wire.sse(error_body(fault))

    def whole(self, reply: wire.Reply) -> dict[str, Any]:
        """The reply in one piece."""
        return self._ended(
            reply, [*([{"text": reply.text}] if reply.text else []), *_called(reply)]
        )

    def _ended(self, reply: wire.Reply, parts: list[dict[str, Any]]) -> dict[str, Any]:
        prompt, completion = wire.tokens_of(reply.usage)
        told = self._frame(parts or [{"text": ""}])
        told["candidates"][0]["finishReason"] = _STOP[reply.ending]
        told["usageMetadata"] = {
            "promptTokenCount": prompt,
            "candidatesTokenCount": completion,
            "totalTokenCount": prompt + completion,
            "cachedContentTokenCount": reply.usage.cached or 0,
        }
        return told

    def _frame(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
            "modelVersion": self._reply.model,
            "responseId": self._reply.id,
        }


def _called(reply: wire.Reply) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": wire.given_to(call)}}
        for call in reply.calls
    ]


def error_body(fault: wire.Fault) -> dict[str, Any]:
    """An error as Google writes it."""
    usual = "INTERNAL" if fault.status >= 500 else "INVALID_ARGUMENT"
    status = wire.STATUS_NAMES["gemini"].get(fault.status, usual)
    return {"error": {"code": fault.status, "message": fault.said, "status": status}}
