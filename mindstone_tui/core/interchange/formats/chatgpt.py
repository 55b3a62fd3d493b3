"""ChatGPT: a data export, as the `.zip` that is downloaded or its `conversations*.json`.

Each conversation is a tree of messages; the branch that ends at `current_node` is what was said,
and messages on other branches are counted as left out.
"""

from pathlib import Path
from typing import Final

from mindstone_tui.core.entries.conversation import Thinking

from ..read_bytes import Fields, mapping, moment, sequence, text
from .base import Aside, Began, Broken, Format, Record, Records, Said, Sample
from .parts import ANOTHER_BRANCH, joined, plain, result_of, titled, tool_call
from .sources import each_with, exported, start_of_export

_LEFT_OUT: Final = {
    "user_editable_context": "instructions of the person",
    "model_editable_context": "memory of the program",
    "reasoning_recap": "recap of the thinking",
}
"""Kinds of content that are no part of what was said."""


def _recognises(sample: Sample) -> bool:
    start = start_of_export(sample)
    return b'"mapping"' in start and b'"author"' in start


def _read(path: Path) -> Records:
    yield from each_with(exported(path), _conversation)


def _conversation(number: int, fields: Fields) -> Records:
    yield Began(
        id=text(fields.get("conversation_id")) or text(fields.get("id")),
        ts=moment(fields.get("create_time")),
    )
    yield from titled(fields.get("title"))
    nodes = mapping(fields.get("mapping"))
    path, circle = _branch(nodes, fields.get("current_node"))
    if circle:
        yield Broken(line=number, why="the messages of this conversation form a circle")
    for node in path:
        if isinstance(message := mapping(nodes[node]).get("message"), dict):
            yield _message(number, node, message)
    taken = set(path)
    for node, each in nodes.items():
        if node not in taken and isinstance(mapping(each).get("message"), dict):
            yield Aside(what=ANOTHER_BRANCH)


def _branch(nodes: Fields, leaf: object) -> tuple[list[str], bool]:
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


def _newest_leaf(nodes: Fields) -> str:
    """The last message that nothing follows."""
    leaves = [name for name, each in nodes.items() if not sequence(mapping(each).get("children"))]
    return leaves[-1] if leaves else next(iter(nodes), "")


def _message(number: int, node: str, message: Fields) -> Record:
    content = mapping(message.get("content"))
    source = text(message.get("id")) or node
    ts = moment(message.get("create_time"))
    metadata = mapping(message.get("metadata"))
    author = mapping(message.get("author"))
    said = _words(content)
    if thoughts := _thoughts(content):
        return Said(line=number, role="assistant", text="", ts=ts, thinking=thoughts)
    if metadata.get("is_visually_hidden_from_conversation") is True or not said:
        return Aside(what="hidden or empty message")
    if what := _LEFT_OUT.get(text(content.get("content_type"))):
        return Aside(what=what)
    match author.get("role"):
        case "user":
            return Said(line=number, role="user", text=said, id=source, ts=ts)
        case "assistant":
            recipient = text(message.get("recipient"))
            asks = recipient not in ("", "all")
            return Said(
                line=number,
                role="assistant",
                text="" if asks else said,
                id=source,
                ts=ts,
                model=text(metadata.get("model_slug")),
                calls=(tool_call(f"call-{source}", recipient, said, ""),) if asks else (),
            )
        case "tool":
            name, failed = author.get("name"), content.get("content_type") == "system_error"
            return result_of(
                number, "", None, said=said, name=name, failed=failed, id=source, ts=ts
            )
        case role:
            return Aside(what=f"{text(role) or 'nameless'} message")


def _words(content: Fields) -> str:
    """The text of a message, whichever of its fields the kind of content uses."""
    return plain(content.get("parts")) or next(
        (said for name in ("text", "result", "content") if (said := text(content.get(name)))), ""
    )


def _thoughts(content: Fields) -> tuple[Thinking, ...]:
    """What a reasoning model showed of its thinking; it stands before the answer it led to."""
    return tuple(
        Thinking(text=thought)
        for each in map(mapping, sequence(content.get("thoughts")))
        if (thought := joined((text(each.get("summary")), text(each.get("content")))))
    )


CHATGPT = Format(
    name="chatgpt", title="ChatGPT export", recognises=_recognises, read=_read, many=True
)
