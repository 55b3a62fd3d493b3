"""ChatGPT: `conversations.json` from a data export.

An array of conversations, read one at a time because such files reach gigabytes. Each is a tree of
messages; the branch that ends at `current_node` is the conversation, and messages on other branches
are counted as left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindstone_tui.core.interchange.elements import elements
from mindstone_tui.core.interchange.formats.format import Format, Sample
from mindstone_tui.core.interchange.formats.parts import plain, tool_call
from mindstone_tui.core.interchange.reading import (
    Flaw,
    decode_object,
    mapping,
    moment,
    open_file,
    sequence,
    text,
    whole,
)
from mindstone_tui.core.interchange.records import Aside, Began, Broken, Gave, Record, Said, Titled


def _recognises(sample: Sample) -> bool:
    keys = (b'"mapping"', b'"author"')
    return sample.start.lstrip()[:1] in (b"[", b"{") and all(key in sample.start for key in keys)


def _read(path: Path) -> Iterator[Record]:
    with open_file(path) as stream:
        if stream.read(64).lstrip()[:1] == b"{":
            stream.seek(0)
            yield from _decoded(1, whole(stream))
            return
        stream.seek(0)
        for number, raw in elements(stream):
            yield from _decoded(number, raw)


def _decoded(number: int, raw: bytes | Flaw) -> Iterator[Record]:
    found = raw if isinstance(raw, Flaw) else decode_object(raw)
    if isinstance(found, Flaw):
        yield Broken(line=number, why=found.why)
    else:
        yield from _conversation(number, found)


def _conversation(number: int, fields: dict[str, Any]) -> Iterator[Record]:
    yield Began(
        id=text(fields.get("conversation_id")) or text(fields.get("id")),
        ts=moment(fields.get("create_time")),
    )
    if title := text(fields.get("title")):
        yield Titled(title=title)
    nodes = mapping(fields.get("mapping"))
    path, circle = _branch(nodes, fields.get("current_node"))
    if circle:
        yield Broken(line=number, why="the messages of this conversation form a circle")
    for node in path:
        message = mapping(nodes[node]).get("message")
        if isinstance(message, dict):
            yield _message(number, node, message)
    taken = set(path)
    for node, each in nodes.items():
        if node not in taken and isinstance(mapping(each).get("message"), dict):
            yield Aside(what="message on another branch")


def _branch(nodes: dict[str, Any], leaf: object) -> tuple[list[str], bool]:
    """The way from the root to a leaf, and whether it ran in a circle."""
    at: object = leaf if isinstance(leaf, str) and leaf in nodes else _newest_leaf(nodes)
    way: list[str] = []
    seen: set[str] = set()
    while isinstance(at, str) and at in nodes:
        if at in seen:
            return way[::-1], True
        seen.add(at)
        way.append(at)
        at = mapping(nodes[at]).get("parent")
    return way[::-1], False


def _newest_leaf(nodes: dict[str, Any]) -> str:
    """The last message that nothing follows."""
    leaves = [name for name, each in nodes.items() if not sequence(mapping(each).get("children"))]
    return leaves[-1] if leaves else next(iter(nodes), "")


def _message(number: int, node: str, message: dict[str, Any]) -> Record:
    content = mapping(message.get("content"))
    said = plain(content.get("parts")) or text(content.get("text")) or text(content.get("result"))
    source = text(message.get("id")) or node
    ts = moment(message.get("create_time"))
    metadata = mapping(message.get("metadata"))
    author = mapping(message.get("author"))
    if metadata.get("is_visually_hidden_from_conversation") is True or not said:
        return Aside(what="hidden or empty message")
    match author.get("role"):
        case "user":
            return Said(line=number, role="user", text=said, id=source, ts=ts)
        case "assistant":
            recipient = text(message.get("recipient"))
            asks = recipient not in ("", "all")
            call = tool_call(f"call-{source}", recipient, said, "")
            return Said(
                line=number,
                role="assistant",
                text="" if asks else said,
                id=source,
                ts=ts,
                model=text(metadata.get("model_slug")),
                calls=(call,) if asks else (),
            )
        case "tool":
            name = text(author.get("name"))
            return Gave(line=number, call="", text=said, name=name, id=source, ts=ts)
        case role:
            return Aside(what=f"{text(role) or 'nameless'} message")


CHATGPT = Format(
    name="chatgpt", title="ChatGPT export", recognises=_recognises, read=_read, many=True
)
