"""opencode: what `opencode export <session>` prints, one JSON object with all messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import Thinking
from mindstone_tui.core.interchange.formats.format import Format, Sample
from mindstone_tui.core.interchange.formats.parts import (
    document,
    joined,
    plain,
    tool_call,
    unknown,
)
from mindstone_tui.core.interchange.reading import as_json, mapping, moment, sequence, text
from mindstone_tui.core.interchange.records import Aside, Began, Broken, Gave, Record, Said, Titled


def _recognises(sample: Sample) -> bool:
    keys = (b'"info"', b'"messages"', b'"id"')
    return sample.start.lstrip()[:1] == b"{" and all(key in sample.start for key in keys)


def _read(path: Path) -> Iterator[Record]:
    session = document(path)
    if isinstance(session, Broken):
        yield session
        return
    info = mapping(session.get("info"))
    yield Began(id=text(info.get("id")), ts=moment(mapping(info.get("time")).get("created")))
    if title := text(info.get("title")):
        yield Titled(title=title)
    for number, message in enumerate(sequence(session.get("messages")), 1):
        yield from _message(number, mapping(message))


def _message(number: int, message: dict[str, Any]) -> Iterator[Record]:
    info = mapping(message.get("info"))
    parts = [mapping(each) for each in sequence(message.get("parts"))]
    ts = moment(mapping(info.get("time")).get("created"))
    match info.get("role"):
        case "user":
            said = joined(
                plain(each) or ""
                for each in parts
                if each.get("type") in ("text", "file") and each.get("synthetic") is not True
            )
            if said:
                yield Said(line=number, role="user", text=said, id=text(info.get("id")), ts=ts)
            else:
                yield Aside(what="message of the program")
        case "assistant":
            yield from _answer(number, info, parts, ts)
        case _:
            yield Broken(line=number, why="a message without a role")


def _answer(
    number: int, info: dict[str, Any], parts: list[dict[str, Any]], ts: str
) -> Iterator[Record]:
    """An answer is written in steps; a tool part belongs to the step it stands in."""
    model = text(info.get("modelID"))
    provider = text(info.get("providerID"))
    model = f"{provider}/{model}" if provider and model else model
    steps = list(_steps(parts))
    if not steps:
        yield Aside(what="empty answer")
    for at, step in enumerate(steps):
        calls = tuple(_call(f"call-{number}-{at}-{n}", each) for n, each in enumerate(step.tools))
        yield Said(
            line=number,
            role="assistant",
            text=joined(step.texts),
            id=text(info.get("id")) if at == 0 else text(step.id),
            ts=ts,
            model=model,
            calls=calls,
            thinking=tuple(Thinking(text=each) for each in step.thoughts),
        )
        for call, tool in zip(calls, step.tools, strict=True):
            yield from _result(number, call, tool, ts)
    for each in parts:
        if each.get("type") not in ("text", "reasoning", "tool", "step-start", "step-finish"):
            yield unknown(each.get("type"))


class _Step:
    """One request's worth of an answer."""

    def __init__(self) -> None:
        self.id: object = ""
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.tools: list[dict[str, Any]] = []

    @property
    def is_empty(self) -> bool:
        return not (self.texts or self.thoughts or self.tools)


def _steps(parts: list[dict[str, Any]]) -> Iterator[_Step]:
    step = _Step()
    for part in parts:
        match part.get("type"):
            case "step-start" if not step.is_empty:
                yield step
                step = _Step()
                continue
            case "text" if said := text(part.get("text")):
                step.texts.append(said)
            case "reasoning" if said := text(part.get("text")):
                step.thoughts.append(said)
            case "tool":
                step.tools.append(part)
            case _:
                continue
        step.id = step.id or part.get("id")
    if not step.is_empty:
        yield step


def _call(spare: str, part: dict[str, Any]) -> ToolCall:
    state = mapping(part.get("state"))
    return tool_call(part.get("callID"), part.get("tool"), state.get("input"), spare)


def _result(number: int, call: ToolCall, part: dict[str, Any], ts: str) -> Iterator[Record]:
    state = mapping(part.get("state"))
    done = moment(mapping(state.get("time")).get("end")) or ts
    match state.get("status"):
        case "completed":
            output = state.get("output")
            said = output if isinstance(output, str) else as_json(output)
            yield Gave(line=number, call=call.id, text=said, name=call.name, ts=done)
        case "error":
            said = text(state.get("error"))
            yield Gave(
                line=number, call=call.id, text=said, name=call.name, status="error", ts=done
            )
        case _:
            return


OPENCODE = Format(name="opencode", title="opencode", recognises=_recognises, read=_read)
