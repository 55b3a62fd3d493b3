"""Requests and gathered answers, so that a provider's test names only what it is about."""

from __future__ import annotations

import json
from typing import Any

from mindstone_tui.core.entries import Message, Part, Request, ToolCall, ToolSchema
from mindstone_tui.core.errors import ProviderError
from mindstone_tui.core.providers.base import (
    CallDelta,
    Finished,
    Options,
    Provider,
    Retrying,
    TextPart,
    ThinkingPart,
)


class Heard(Part):
    """A whole stream: what was said, and how it ended."""

    text: str = ""
    pieces: tuple[str, ...] = ()
    thinking: str = ""
    signatures: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    finished: Finished | None = None
    retries: tuple[Retrying, ...] = ()

    def arguments(self, at: int = 0) -> Any:
        """The parsed arguments of a call."""
        return json.loads(self.calls[at].arguments)


class Broken(Exception):
    """A stream that raised, with what was heard before."""

    def __init__(self, heard: Heard, error: ProviderError) -> None:
        super().__init__(str(error))
        self.heard = heard
        self.error = error


def user(text: str) -> Message:
    """A person's message."""
    return {"role": "user", "content": text}


def request(
    *messages: Message | str, model: str = "local/guide", tools: tuple[ToolSchema, ...] = ()
) -> Request:
    """A request of these messages; a plain string is a user's."""
    told = tuple(user(each) if isinstance(each, str) else each for each in messages)
    return Request(model=model, messages=told, tools=tools)


def tool(name: str, *required: str, **properties: dict[str, object]) -> ToolSchema:
    """A tool whose named parameters are strings unless said otherwise."""
    declared = {each: {"type": "string"} for each in required} | properties
    return ToolSchema(
        name=name,
        description=f"The {name} tool.",
        parameters={"type": "object", "properties": declared, "required": list(required)},
    )


PLAIN = Options(max_tokens=512)


async def hear(provider: Provider, asked: Request, options: Options = PLAIN) -> Heard:
    """Listen to the end; raises `Broken` with what was heard when the stream does."""
    pieces: list[str] = []
    thinking: list[ThinkingPart] = []
    calls: dict[int, ToolCall] = {}
    finished: list[Finished] = []
    retries: list[Retrying] = []

    def so_far() -> Heard:
        return Heard(
            text="".join(pieces),
            pieces=tuple(pieces),
            thinking="".join(each.text for each in thinking),
            signatures=tuple(each.signature for each in thinking if each.signature),
            calls=tuple(call for _, call in sorted(calls.items())),
            finished=finished[0] if finished else None,
            retries=tuple(retries),
        )

    try:
        async for delta in provider.stream(asked, options):
            assert not finished, "something was said after the end"
            match delta:
                case TextPart():
                    pieces.append(delta.text)
                case ThinkingPart():
                    thinking.append(delta)
                case CallDelta():
                    known = calls.get(delta.index, ToolCall(id="", name="", arguments=""))
                    calls[delta.index] = ToolCall(
                        id=known.id or delta.id,
                        name=known.name or delta.name,
                        arguments=known.arguments + delta.arguments,
                    )
                case Finished():
                    finished.append(delta)
                case Retrying():
                    assert not pieces, "a request was tried again after it had said something"
                    retries.append(delta)
    except ProviderError as error:
        raise Broken(so_far(), error) from error
    assert len(finished) == 1
    return so_far()
