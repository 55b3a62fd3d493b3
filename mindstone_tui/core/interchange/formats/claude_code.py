"""Claude Code: `~/.claude/projects/<project>/<session>.jsonl`.

A line per record; an answer is spread over several lines with one content block each, and tool
results arrive as user records. Side chains of sub-agents are left out of their parent's session;
a file that is a side chain itself is taken over as the session it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import Thinking
from mindstone_tui.core.interchange.formats.format import Format, Sample
from mindstone_tui.core.interchange.formats.parts import (
    joined,
    plain,
    records_of,
    tool_call,
    unknown,
)
from mindstone_tui.core.interchange.reading import mapping, moment, sequence, text
from mindstone_tui.core.interchange.records import Aside, Began, Broken, Gave, Record, Said, Titled

_COMMANDS = ("<command-name>", "<command-message>", "<local-command-", "<bash-", "Caveat: ")


def _recognises(sample: Sample) -> bool:
    return any(
        ("uuid" in each and "parentUuid" in each and "sessionId" in each)
        or (each.get("type") == "summary" and "leafUuid" in each)
        for each in sample.objects
    )


def _read(path: Path) -> Iterator[Record]:
    session: str | None = None
    side_chain = False
    for found in records_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        if session is None and "sessionId" in fields and "uuid" in fields:
            session = text(fields["sessionId"])
            side_chain = fields.get("isSidechain") is True
            yield Began(id=session, ts=moment(fields.get("timestamp")))
        if fields.get("isSidechain") is True and not side_chain:
            yield Aside(what="side chain of a sub-agent")
        else:
            yield from _records(number, fields)


def _records(number: int, fields: dict[str, Any]) -> Iterator[Record]:
    match fields.get("type"):
        case "user" if fields.get("isCompactSummary") is True:
            yield Aside(what="compact summary")
        case "user" if fields.get("isMeta") is True:
            yield Aside(what="meta")
        case "user":
            yield from _user(number, fields)
        case "assistant" if fields.get("isApiErrorMessage") is True:
            yield Aside(what="API error")
        case "assistant":
            yield _assistant(number, fields)
        case "summary":
            yield Titled(title=text(fields.get("summary")))
        case kind:
            yield unknown(kind)


def _user(number: int, fields: dict[str, Any]) -> Iterator[Record]:
    content = mapping(fields.get("message")).get("content")
    blocks = sequence(content)
    ts = moment(fields.get("timestamp"))
    rest = [block for block in blocks if mapping(block).get("type") != "tool_result"]
    for block in blocks:
        if mapping(block).get("type") == "tool_result":
            yield _result(number, block, fields, ts)
    said = plain(rest if blocks else content)
    if said is None:
        yield Broken(line=number, why="the content is neither text nor a list of blocks")
    elif said.startswith(_COMMANDS):
        yield Aside(what="command of the program")
    elif said:
        yield Said(line=number, role="user", text=said, id=text(fields.get("uuid")), ts=ts)


def _result(number: int, block: dict[str, Any], fields: dict[str, Any], ts: str) -> Gave:
    return Gave(
        line=number,
        call=text(block.get("tool_use_id")),
        text=plain(block.get("content")) or "",
        status="error" if block.get("is_error") is True else "ok",
        id=text(fields.get("uuid")),
        ts=ts,
    )


def _assistant(number: int, fields: dict[str, Any]) -> Record:
    message = mapping(fields.get("message"))
    content = message.get("content")
    pieces: list[str] = [content] if isinstance(content, str) else []
    calls: list[ToolCall] = []
    thinking: list[Thinking] = []
    for at, each in enumerate(sequence(content)):
        block = mapping(each)
        match block.get("type"):
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                spare = f"call-{number}-{at}"
                calls.append(
                    tool_call(block.get("id"), block.get("name"), block.get("input"), spare)
                )
            case "thinking" | "redacted_thinking":
                thinking.append(
                    Thinking(
                        text=text(block.get("thinking")),
                        signature=text(block.get("signature")),
                        redacted=text(block.get("data")),
                    )
                )
            case _:
                pieces.append(plain(block) or "")
    said = joined(pieces)
    if not (said or calls or thinking):
        return Aside(what="empty answer")
    return Said(
        line=number,
        role="assistant",
        text=said,
        id=text(fields.get("uuid")),
        ts=moment(fields.get("timestamp")),
        model=text(message.get("model")),
        calls=tuple(calls),
        thinking=tuple(thinking),
        finish=text(message.get("stop_reason")) or "stop",
        group=text(message.get("id")),
    )


CLAUDE_CODE = Format(name="claude-code", title="Claude Code", recognises=_recognises, read=_read)
