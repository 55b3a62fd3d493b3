"""A message that is made of typed blocks: words, thoughts, calls and results.

Many programs keep what a model's API speaks: a list of blocks under `content`. Their readers share
this one reading of it, and the one way in which a message is put together from its pieces.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mindstone_tui.core.entries import ToolCall, Usage
from mindstone_tui.core.entries.conversation import Thinking, ToolStatus
from mindstone_tui.core.interchange.formats.base import Aside, Gave, Said
from mindstone_tui.core.interchange.formats.parts import joined, plain, tool_call
from mindstone_tui.core.interchange.pictures import Picture, pictures_in
from mindstone_tui.core.interchange.read_bytes import count, mapping, sequence, text


class BlockResult(msgspec.Struct, frozen=True):
    """What a tool gave, as a block of a message."""

    call: str
    text: str
    name: str = ""
    status: ToolStatus = "ok"
    images: tuple[Picture, ...] = ()


class MessageParts:
    """Gathers what one message is made of, in its order."""

    def __init__(self, number: int, name: str = "") -> None:
        """`name` tells it from other messages that stand on the same line."""
        self.number = number
        self._spare = f"call-{name or number}"
        self.texts: list[str] = []
        self.calls: list[ToolCall] = []
        self.thinking: list[Thinking] = []
        self.results: list[BlockResult] = []
        self.images: list[Picture] = []

    @property
    def said(self) -> str:
        """The words."""
        return joined(self.texts)

    @property
    def has_any(self) -> bool:
        """Whether there is anything but results."""
        return bool(self.said or self.calls or self.thinking)

    def think(self, thought: object, signature: object = "", redacted: object = "") -> None:
        """Add a thought; one that nobody can read is kept only if it can be sent back."""
        found = Thinking(text=text(thought), signature=text(signature), redacted=text(redacted))
        if found != Thinking(text=""):
            self.thinking.append(found)

    def call(self, name: object, arguments: object, call: object = "") -> ToolCall:
        """Add a call; the file's own id where it has one."""
        spare = f"{self._spare}-{len(self.calls)}"
        self.calls.append(tool_call(call, name, arguments, spare))
        return self.calls[-1]

    def record(
        self,
        role: Literal["user", "assistant"],
        *,
        id: str = "",  # noqa: A002 (the record's own name for it)
        ts: str = "",
        model: str = "",
        finish: str = "stop",
        group: str = "",
    ) -> Said | Aside:
        """The message; what holds nothing is counted as empty."""
        is_answer = role == "assistant"
        if not (self.said or (is_answer and (self.calls or self.thinking))):
            return Aside(what="empty answer" if is_answer else "empty message")
        return Said(
            line=self.number,
            role=role,
            text=self.said,
            id=id,
            ts=ts,
            model=model if is_answer else "",
            calls=tuple(self.calls) if is_answer else (),
            thinking=tuple(self.thinking) if is_answer else (),
            images=() if is_answer else tuple(self.images),
            finish=finish or "stop",
            group=group,
        )

    def given(self, ts: str, id: str = "") -> list[Gave]:  # noqa: A002 (the record's own name)
        """The results, as records."""
        return [
            Gave(
                line=self.number,
                call=each.call,
                text=each.text,
                name=each.name,
                status=each.status,
                id=id,
                ts=ts,
                images=each.images,
            )
            for each in self.results
        ]


def pieces_of_blocks(content: object, number: int) -> MessageParts | None:
    """The pieces of a content in the shape of Anthropic's API; None where it has no such shape."""
    pieces = MessageParts(number)
    if isinstance(content, str):
        pieces.texts.append(content)
        return pieces
    if not isinstance(content, list):
        return pieces if content is None else None
    for each in content:
        add_block(pieces, each)
    return pieces


def add_block(pieces: MessageParts, each: object) -> None:
    """Add one block in the shape of Anthropic's API, whatever it is."""
    block = mapping(each)
    match block.get("type"):
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            pieces.call(block.get("name"), block.get("input"), block.get("id"))
        case "tool_result":
            pieces.results.append(result_of(block))
        case "thinking" | "redacted_thinking":
            pieces.think(block.get("thinking"), block.get("signature"), block.get("data"))
        case "reasoning" | "thought":
            shown = plain(sequence(block.get("summary"))) or plain(block.get("content"))
            pieces.think(block.get("text") or block.get("thinking") or shown)
        case _:
            pieces.texts.append(plain([each]) or "")
            pieces.images += pictures_in(each)


def result_of(block: dict[str, Any]) -> BlockResult:
    """A `tool_result` block."""
    return BlockResult(
        call=text(block.get("tool_use_id")),
        text=plain(block.get("content")) or "",
        name=text(block.get("name")),
        status="error" if block.get("is_error") is True else "ok",
        images=pictures_in(block.get("content")),
    )


def money(value: object) -> float | None:
    """A cost that a file claims; None where it is no such number."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
    return float(value) if known and isinstance(value, int | float) else None


def tokens(
    fresh: object,
    output: object,
    read: object = None,
    written: object = None,
    *,
    reasoning: object = None,
    cost: object = None,
) -> Usage:
    """Counts of a program that tells what was read from and written to the cache apart."""
    counts = [count(each) for each in (fresh, read, written)]
    known = [each for each in counts if each is not None]
    return Usage(
        prompt=sum(known) if known else None,
        completion=count(output),
        cached=count(read),
        cache_written=count(written),
        reasoning=count(reasoning),
        cost=money(cost),
    )
