"""What a message is made of: words, thoughts, calls and results, in the order of its file.

Many programs keep what a model's API speaks: a text, or a list of typed blocks under `content`.
Their readers share this one reading of it, and the one way in which a message is put together from
its pieces.
"""

from __future__ import annotations

import base64
import contextlib
from array import array
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal

import msgspec

from mindstone_tui.core.entries import ToolCall, Usage
from mindstone_tui.core.entries.conversation import Thinking, ToolStatus
from mindstone_tui.core.patterns import pattern_of

from ..pictures import Picture, pictures_in
from ..read_bytes import LONGEST_RECORD, Fields, as_json, count, mapping, sequence, text
from .base import Aside, Gave, Record, Said, Titled, Used

_OPENING: Final = pattern_of(r"<([A-Za-z][A-Za-z_-]{2,40})>")

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use", "toolCall", "tool-call")
_RESULTS: Final = ("tool_result", "tool-result")

ANOTHER_BRANCH: Final = "message on another branch"
"""How messages are counted that were left behind by going back."""


def plain(content: object) -> str | None:
    """The text of a message's content; None when it is neither text nor a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict) and content.keys() & {"text", "type"}:
        return _part(content)
    if not isinstance(content, list):
        return None
    return "\n\n".join(filter(None, map(_part, content)))


def _part(part: object) -> str:
    """One part as text; what cannot be text leaves its name in brackets."""
    if isinstance(part, str):
        return part
    fields = mapping(part)
    said = fields.get("text", mapping(fields.get("resource")).get("text"))
    if isinstance(said, str):
        return said
    kind = text(fields.get("type")) or text(fields.get("content_type"))
    name = kind.removeprefix("input_").removesuffix("_asset_pointer")
    meant = text(fields.get("tool_name"))
    return f"[{name}: {meant}]" if name and meant else f"[{name}]" if name else ""


def tool_call(call: object, name: object, arguments: object, spare: str) -> ToolCall:
    """A call from untrusted pieces; `spare` is its id where the file gives none."""
    return ToolCall(
        id=text(call) or spare,
        name=text(name) or "tool",
        arguments=as_json({} if arguments is None else arguments),
    )


def unknown(kind: object) -> Record:
    """A record of a kind that is not part of the conversation."""
    return Aside(what=text(kind) or "unnamed record")


def joined(pieces: Iterable[str]) -> str:
    """Texts as one, with a blank line between."""
    return "\n\n".join(piece for piece in pieces if piece)


def cut_tags(said: str, names: Collection[str]) -> tuple[str, list[tuple[str, str]]]:
    """A text without what stands in these tags, and the name and inside of each, in order."""
    kept: list[str] = []
    found: list[tuple[str, str]] = []
    # A tag that is not closed once is not closed later either: nothing is searched for twice.
    unclosed: set[str] = set()
    start = at = 0
    while (opening := _OPENING.search(said, at)) is not None:
        name, at = opening[1], opening.end()
        if name not in names or name in unclosed:
            continue
        if (end := said.find(f"</{name}>", at)) < 0:
            unclosed.add(name)
            continue
        kept.append(said[start : opening.start()].strip())
        found.append((name, said[at:end]))
        start = at = end + len(name) + 3
    if not found:
        return said, found
    return joined([*kept, said[start:].strip()]), found


class TextRun(msgspec.Struct, eq=False):
    """Lines of a text that belong together; what goes beyond the longest record is not held."""

    _lines: list[str] = []
    _size: int = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, line: str) -> None:
        """One more line."""
        self._size += len(line) + 1
        if self._size <= LONGEST_RECORD:
            self._lines.append(line)

    def starts_with(self, sign: str) -> bool:
        """Whether the first line does."""
        return bool(self._lines) and self._lines[0].startswith(sign)

    def take(self) -> str:
        """The text without blank lines around it; afterwards there is none."""
        said = "\n".join(self._lines).strip()
        if self._size > LONGEST_RECORD:
            said = f"{said}\n\n[longer than {LONGEST_RECORD >> 20} MB]"
        self._lines, self._size = [], 0
        return said


_NOBODY: Final = -1


class Branches(msgspec.Struct, eq=False):
    """The links of one file, told in its order; afterwards, what is on the way to the last record.

    A record follows only what stands before it, so no links can form a circle. One that names an
    unknown record follows the one before it in the file: nothing is left out unless a fork shows
    that it was.
    """

    _limb_of: dict[int, int] = {}
    _parents: array[int] = msgspec.field(default_factory=lambda: array("q"))
    _last: int = _NOBODY
    _leaf: int = _NOBODY
    _kept: bytearray | None = None

    def add(
        self, name: str, parent: str | None, *, forks: bool = True, counts: bool = True
    ) -> None:
        """One more record; `forks` where a person can go back to, `counts` if it can be the last.

        A record that does not fork belongs to the one it follows, however the file spreads them.
        A parent of None is a new beginning.
        """
        before = _NOBODY if parent is None else self._limb_of.get(hash(parent), self._last)
        if forks or before == _NOBODY:
            self._parents.append(before)
            before = len(self._parents) - 1
        self._limb_of[hash(name)] = self._last = before
        if counts:
            self._leaf = before

    def __contains__(self, name: str) -> bool:
        """Whether a record of this name is in the file."""
        return hash(name) in self._limb_of

    def keeps(self, name: str) -> bool:
        """Whether a record is part of the conversation; one without a known name always is."""
        if self._kept is None:
            self._kept = self._way_to_the_leaf()
        limb = self._limb_of.get(hash(name))
        return limb is None or self._leaf == _NOBODY or bool(self._kept[limb])

    def _way_to_the_leaf(self) -> bytearray:
        kept = bytearray(len(self._parents))
        limb = self._leaf
        while limb != _NOBODY:
            kept[limb] = 1
            limb = self._parents[limb]
        return kept


class MessageParts:
    """Gathers what one message is made of, in its order."""

    def __init__(self, number: int, name: str = "", *, said: str = "") -> None:
        """`name` tells it from other messages that stand on the same line."""
        self.number = number
        self._spare = f"call-{name or number}"
        self.texts = [said] if said else []
        self.calls: list[ToolCall] = []
        self.thinking: list[Thinking] = []
        self.results: list[Gave] = []
        self.images: list[Picture] = []
        self.finish = ""
        self.others: list[Record] = []

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
        self.calls.append(tool_call(call, name, arguments, f"{self._spare}-{len(self.calls)}"))
        return self.calls[-1]

    def attach(self, kind: str, data: str, picture: object = None) -> None:
        """Add a file: a text as itself, else the word for what it is; a picture as one, too."""
        self.images += [Picture(data=data)] if kind.startswith("image/") else pictures_in(picture)
        if kind.startswith("text/"):
            with contextlib.suppress(ValueError):
                self.texts.append(base64.b64decode(data).decode("utf-8", "replace"))
                return
        self.texts.append(f"[{kind.split('/')[0] or 'image'}]")

    def give(
        self,
        call: object,
        given: str,
        *,
        name: object = "",
        status: ToolStatus = "ok",
        images: tuple[Picture, ...] = (),
    ) -> None:
        """Add what a tool gave."""
        call, name = text(call), text(name)
        self.results.append(
            Gave(line=self.number, call=call, text=given, name=name, status=status, images=images)
        )

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
        return [msgspec.structs.replace(each, id=id, ts=ts) for each in self.results]


def pieces_of_blocks(content: object, number: int) -> MessageParts | None:
    """The pieces of a content in the shape of Anthropic's API; None where it has no such shape."""
    if content is None or isinstance(content, str):
        return MessageParts(number, said=content or "")
    if not isinstance(content, list):
        return None
    pieces = MessageParts(number)
    for each in content:
        add_block(pieces, each)
    return pieces


def add_block(pieces: MessageParts, each: object) -> None:
    """Add one block in the shape of Anthropic's API, whatever it is."""
    block = mapping(each)
    match block.get("type"):
        case kind if kind in _CALLS:
            add_calls(pieces, [block])
        case kind if kind in _RESULTS:
            content = block.get("content")
            pieces.give(
                first_of(block, "tool_use_id", "toolCallId"),
                plain(content) or "",
                name=block.get("name"),
                status=error_if(True in (block.get("is_error"), block.get("isError"))),
                images=pictures_in(content),
            )
        case "thinking" | "redacted_thinking":
            signature = first_of(block, "signature", "thinkingSignature")
            pieces.think(block.get("thinking"), signature, block.get("data"))
        case "reasoning" | "thought" | "think":
            shown = plain(sequence(block.get("summary"))) or plain(block.get("content"))
            pieces.think(first_of(block, "text", "thinking", "think") or shown)
        case _:
            pieces.texts.append(plain([each]) or "")
            pieces.images += pictures_in(each)


def add_calls(pieces: MessageParts, calls: object) -> None:
    """Add calls as APIs list them: flat, or with what is asked for under `function`."""
    for each in map(mapping, sequence(calls)):
        own = mapping(each.get("function")) or each
        asked = first_of(own, "input", "arguments", "args")
        pieces.call(first_of(own, "name", "toolName"), asked, first_of(each, "id", "toolCallId"))


def first_of(fields: Fields, *names: str) -> object:
    """What stands under the first of these names that has anything."""
    return next((fields[name] for name in names if fields.get(name)), None)


def result_of(
    number: int,
    call: object,
    content: object,
    *,
    said: str | None = None,
    name: object = "",
    failed: bool = False,
    id: str = "",  # noqa: A002 (the record's own name for it)
    ts: str = "",
) -> Gave:
    """What a tool gave, from untrusted pieces; `said` where its words are not the content's own."""
    words = (plain(content) or "") if said is None else said
    call, name, images, status = text(call), text(name), pictures_in(content), error_if(failed)
    return Gave(
        line=number, call=call, text=words, name=name, status=status, id=id, ts=ts, images=images
    )


def error_if(failed: bool) -> ToolStatus:
    """How a call ended of which a file says no more than whether it failed."""
    return "error" if failed else "ok"


def money(value: object) -> float | None:
    """A cost that a file claims; None where it is no such number."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
    return float(value) if known and isinstance(value, int | float) else None


def counted(told: Fields, *names: str, apart: bool = False, cost: object = None) -> Usage:
    """What a program counted, by its names for it, in the order in which `Usage` has the fields.

    `apart` where its count of the prompt leaves out what was read from and written to the cache.
    """
    found = {
        field: count(told.get(name))
        for field, name in zip(Usage.__struct_fields__, names, strict=False)
    }
    if apart:
        pieces = [found.get(field) for field in ("prompt", "cached", "cache_written")]
        known = [each for each in pieces if each is not None]
        found["prompt"] = sum(known) if known else None
    return Usage(**found, cost=money(cost))


def titled(title: object) -> Iterator[Titled]:
    """The title of a conversation, if it has one."""
    if found := text(title):
        yield Titled(title=found)


def used(
    usage: Usage, model: object = "", *, answer: object = "", so_far: bool = False
) -> Iterator[Used]:
    """What was counted, if anything was."""
    if usage != Usage():
        yield Used(usage=usage, model=text(model), answer=text(answer), so_far=so_far)


def model_of(fields: Fields, model: str = "model", provider: str = "provider") -> str:
    """A model with its provider before it, where both are named."""
    name, maker = text(fields.get(model)), text(fields.get(provider))
    return f"{maker}/{name}" if maker and name else name
