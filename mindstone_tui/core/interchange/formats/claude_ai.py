"""Claude.ai: a data export, as the archive that is downloaded or its `conversations.json`.

Each conversation has its messages in order, with blocks in the shape of Anthropic's API; calls and
their results stand in one answer, which becomes a step a result. Where a message was edited, the
branch that ends at the last message is the conversation. Models and tokens are not in the export.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..read_bytes import Fields, mapping, moment, sequence, text
from .base import Aside, Began, Broken, Format, Records, Sample
from .parts import ANOTHER_BRANCH, Branches, MessageParts, add_block, joined, titled
from .sources import each_with, exported, start_of_export

_NOTHING: Final = ("token_budget",)
"""Blocks of an answer that nobody said."""
_ROOT: Final = "00000000-0000-4000-8000-000000000000"


def _recognises(sample: Sample) -> bool:
    return b'"chat_messages"' in start_of_export(sample)


def _read(path: Path) -> Records:
    yield from each_with(exported(path), _conversation)


def _conversation(number: int, fields: Fields) -> Records:
    yield Began(id=text(fields.get("uuid")), ts=moment(fields.get("created_at")))
    yield from titled(fields.get("name"))
    messages = [mapping(each) for each in sequence(fields.get("chat_messages"))]
    branches = Branches()
    for each in messages:
        if parent := text(each.get("parent_message_uuid")):
            branches.add(text(each.get("uuid")), None if parent == _ROOT else parent)
    for each in messages:
        if branches.keeps(text(each.get("uuid"))):
            yield from _message(number, each)
        else:
            yield Aside(what=ANOTHER_BRANCH, taken_back=text(each.get("uuid")))


def _message(number: int, fields: Fields) -> Records:
    source, ts = text(fields.get("uuid")), moment(fields.get("created_at"))
    blocks = sequence(fields.get("content"))
    match fields.get("sender"):
        case "human":
            pieces = MessageParts(number)
            for each in blocks:
                add_block(pieces, each)
            pieces.texts[:] = [pieces.said or text(fields.get("text")), *_attached(fields)]
            yield pieces.record("user", id=source, ts=ts)
        case "assistant":
            yield from _answer(number, blocks or [fields.get("text")], source, ts)
        case _:
            yield Broken(line=number, why="a message without a known sender")


def _attached(fields: Fields) -> Iterator[str]:
    """The texts of files that came with a message, and the names of those without.

    The second list names the first one's files again.
    """
    named = set()
    for each in map(mapping, sequence(fields.get("attachments"))):
        name = text(each.get("file_name")) or "file"
        named.add(name)
        yield joined((f"[file: {name}]", text(each.get("extracted_content"))))
    for each in map(mapping, sequence(fields.get("files"))):
        if (name := text(each.get("file_name")) or "file") not in named:
            yield f"[file: {name}]"


def _answer(number: int, blocks: list[Any], source: str, ts: str) -> Records:
    """An answer in steps: what stands behind a result was said after it."""
    step = 0
    pieces = MessageParts(number, source)
    for each in blocks:
        if mapping(each).get("type") in _NOTHING:
            continue
        add_block(pieces, each)
        if pieces.results:
            step += 1
            if pieces.has_any:
                yield pieces.record("assistant", id=_numbered(source, step), ts=ts)
            yield from pieces.given(ts)
            pieces = MessageParts(number, f"{source}-{step}")
    if pieces.has_any or not step:
        yield pieces.record("assistant", id=_numbered(source, step + 1), ts=ts)


def _numbered(source: str, step: int) -> str:
    return f"{source}#{step}" if source and step > 1 else source


CLAUDE_AI = Format(
    name="claude-ai", title="Claude.ai export", recognises=_recognises, read=_read, many=True
)
