"""Codex CLI: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

Lines are `{"timestamp", "type", "payload"}`; the conversation is in the `response_item` ones, each
an item of the Responses API. Early versions wrote the items bare; both are read. Instructions and
environment that the program puts into user messages are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindstone_tui.core.entries.conversation import Thinking
from mindstone_tui.core.interchange.formats.format import Format, Sample
from mindstone_tui.core.interchange.formats.parts import (
    joined,
    plain,
    records_of,
    tool_call,
    unknown,
)
from mindstone_tui.core.interchange.reading import (
    Flaw,
    as_json,
    decode_object,
    mapping,
    moment,
    sequence,
    text,
)
from mindstone_tui.core.interchange.records import Aside, Began, Broken, Gave, Record, Said

_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
)
_ITEMS = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "web_search_call",
    }
)


def _recognises(sample: Sample) -> bool:
    return any(
        each.get("type") in ("session_meta", "response_item", "event_msg") and "payload" in each
        for each in sample.objects
    ) or _is_bare(sample)


def _is_bare(sample: Sample) -> bool:
    first = sample.objects[0] if sample.objects else {}
    later = sample.objects[1:]
    return {"id", "timestamp", "instructions"} <= first.keys() or (
        any(each.get("record_type") == "state" for each in later)
        and any(text(each.get("type")) in _ITEMS for each in later)
    )


def _read(path: Path) -> Iterator[Record]:
    model = ""
    for found in records_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        payload = mapping(fields.get("payload"))
        ts = moment(fields.get("timestamp"))
        match fields.get("type"):
            case "session_meta":
                yield Began(id=text(payload.get("id")), ts=ts)
            case "turn_context":
                model = text(payload.get("model")) or model
            case "response_item":
                yield from _item(number, payload, ts, model)
            case str() as kind if kind in _ITEMS:
                yield from _item(number, fields, ts, model)
            case None if "instructions" in fields:
                yield Began(id=text(fields.get("id")), ts=ts)
            case kind:
                yield unknown(kind or fields.get("record_type"))


def _item(number: int, item: dict[str, Any], ts: str, model: str) -> Iterator[Record]:
    match item.get("type"):
        case "message":
            yield _message(number, item, ts, model)
        case "reasoning":
            yield _reasoning(number, item, ts, model)
        case "function_call" | "custom_tool_call" | "local_shell_call":
            yield _called(number, item, ts, model)
        case "function_call_output" | "custom_tool_call_output":
            yield _returned(number, item, ts)
        case kind:
            yield unknown(kind)


def _message(number: int, item: dict[str, Any], ts: str, model: str) -> Record:
    said = plain(item.get("content"))
    if said is None:
        return Broken(line=number, why="the content is neither text nor a list of parts")
    match item.get("role"):
        case "user" if said.lstrip().startswith(_INJECTED):
            return Aside(what="instructions of the program")
        case "user":
            return Said(line=number, role="user", text=said, id=text(item.get("id")), ts=ts)
        case "assistant":
            return Said(
                line=number,
                role="assistant",
                text=said,
                id=text(item.get("id")),
                ts=ts,
                model=model,
            )
        case role:
            return Aside(what=f"{text(role) or 'nameless'} message")


def _reasoning(number: int, item: dict[str, Any], ts: str, model: str) -> Record:
    """Reasoning stands before what it led to; a summary that can be read is kept with it."""
    thought = joined(plain(each) or "" for each in sequence(item.get("summary")))
    if not thought:
        return Aside(what="sealed reasoning")
    return Said(
        line=number,
        role="assistant",
        text="",
        ts=ts,
        model=model,
        thinking=(Thinking(text=thought),),
    )


def _called(number: int, item: dict[str, Any], ts: str, model: str) -> Said:
    arguments = item.get("arguments", item.get("input", item.get("action")))
    name = item.get("name") or ("shell" if item.get("type") == "local_shell_call" else "")
    call = tool_call(item.get("call_id") or item.get("id"), name, arguments, f"call-{number}")
    return Said(line=number, role="assistant", text="", ts=ts, model=model, calls=(call,))


def _returned(number: int, item: dict[str, Any], ts: str) -> Gave:
    """A result; shells wrap theirs in JSON with an exit code."""
    output = item.get("output")
    failed = mapping(output).get("success") is False
    if isinstance(output, dict):
        output = output.get("content", output.get("output"))
    if isinstance(output, str) and output.startswith('{"output":'):
        inner = decode_object(output.encode("utf-8", "surrogatepass"))
        if not isinstance(inner, Flaw):
            output = inner.get("output")
            failed = mapping(inner.get("metadata")).get("exit_code") not in (0, None)
    said = plain(output)
    return Gave(
        line=number,
        call=text(item.get("call_id")),
        text=as_json(output) if said is None else said,
        status="error" if failed else "ok",
        ts=ts,
    )


CODEX = Format(name="codex", title="Codex CLI", recognises=_recognises, read=_read)
