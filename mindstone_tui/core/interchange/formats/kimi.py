"""Kimi: `wire.jsonl` of a session, of Kimi CLI (`~/.kimi`) and of Kimi Code (`~/.kimi-code`).

Both write what happened, a line an event: a prompt, parts of an answer, calls and what they gave.
What a step said is one message. `context.jsonl` beside it is what the model still sees, and is not
read. Sub-agents are sessions of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..read_bytes import Fields, mapping, moment, text
from .base import About, Began, Broken, Format, Records, Sample
from .parts import (
    MessageParts,
    add_block,
    add_calls,
    counted,
    first_of,
    plain,
    result_of,
    titled,
    unknown,
    used,
)
from .sources import beside, records_of

_COUNTS: Final = ("input_other", "output", "input_cache_read", "input_cache_creation")
_NEWER_COUNTS: Final = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")
_STATE: Final = "state.json"
_KEPT: Final = ("turn.prompt", "turn.steer", "context.append_loop_event", "config.update")


def _recognises(sample: Sample) -> bool:
    first = sample.objects[0] if sample.objects else {}
    if first.get("type") == "metadata" and "protocol_version" in first:
        return True
    return any(
        "payload" in mapping(each.get("message")) or each.get("type") in _KEPT[2:3]
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Records:
    agent = path.absolute().parent
    is_newer = agent.parent.name == "agents"
    home = agent.parent.parent if is_newer else agent
    about = beside(home / _STATE)
    is_child = is_newer and agent.name != "main"
    name = f"{home.name}-{agent.name}" if is_child else home.name
    yield Began(id=name, ts=moment(first_of(about, "createdAt", "created_at")))
    yield from titled(first_of(about, "title", "custom_title"))
    yield About(folder=text(about.get("workDir")), parent=home.name if is_child else "")
    wire = _Wire()
    for found in records_of(path):
        if isinstance(found, Broken):
            yield found
        else:
            yield from wire.take(*found)
    yield from wire.flush()


class _Wire:
    """Takes events in their order, and gathers what one step says."""

    def __init__(self) -> None:
        self._step = MessageParts(0)
        self._ts = ""
        self._model = ""

    def take(self, number: int, fields: Fields) -> Records:
        """One more event, in the form of either program."""
        ts = moment(first_of(fields, "time", "timestamp", "created_at"))
        inner = mapping(fields.get("message"))
        if "payload" in inner:
            yield from self._older(number, text(inner.get("type")), mapping(inner["payload"]), ts)
        elif fields.get("type") == "config.update":
            self._model = text(fields.get("modelAlias")) or self._model
            yield About(folder=text(fields.get("cwd")))
        elif fields.get("type") in _KEPT[:2]:
            yield from self._prompt(number, fields.get("input"), ts)
        elif fields.get("type") == "context.append_loop_event":
            yield from self._event(number, mapping(fields.get("event")), ts)
        elif fields.get("type") != "metadata":
            yield unknown(fields.get("type"))

    def flush(self) -> Records:
        """What the step said, which is over."""
        step, self._step = self._step, MessageParts(0)
        if step.has_any:
            yield step.record("assistant", ts=self._ts, model=self._model)

    def _older(self, number: int, kind: str, payload: Fields, ts: str) -> Records:
        match kind:
            case "TurnBegin" | "SteerInput":
                yield from self._prompt(number, payload.get("user_input"), ts)
            case "StepBegin" | "TurnEnd":
                yield from self.flush()
            case "ContentPart":
                self._say(number, payload, ts)
            case "ToolCall":
                add_calls(self._at(number, ts), [payload])
            case "ToolResult":
                yield from self._result(
                    number, payload.get("tool_call_id"), mapping(payload.get("return_value")), ts
                )
            case "StatusUpdate" if mapping(payload.get("token_usage")):
                yield from self._used(mapping(payload["token_usage"]), payload.get("message_id"))
            case _:
                yield unknown(kind)

    def _event(self, number: int, event: Fields, ts: str) -> Records:
        match event.get("type"):
            case "step.begin":
                yield from self.flush()
            case "content.part":
                self._say(number, mapping(event.get("part")), ts)
            case "tool.call":
                call = {**event, "id": event.get("toolCallId")}
                add_calls(self._at(number, ts), [call])
            case "tool.result":
                result = mapping(event.get("result"))
                yield from self._result(number, event.get("toolCallId"), result, ts)
            case "step.end":
                self._model = text(event.get("model")) or self._model
                yield from self.flush()
                yield from self._used(mapping(event.get("usage")), event.get("uuid"))
            case kind:
                yield unknown(kind)

    def _prompt(self, number: int, content: object, ts: str) -> Records:
        yield from self.flush()
        pieces = MessageParts(number)
        for each in content if isinstance(content, list) else [plain(content)]:
            add_block(pieces, each)
        yield pieces.record("user", ts=ts)

    def _at(self, number: int, ts: str) -> MessageParts:
        """The step, which begins here if nothing was said in it."""
        if not self._step.has_any:
            self._step, self._ts = MessageParts(number), ts
        return self._step

    def _say(self, number: int, part: Fields, ts: str) -> None:
        step = self._at(number, ts)
        if part.get("type") == "text" and step.texts and not step.calls:
            step.texts[-1] += text(part.get("text"))
        else:
            add_block(step, part)

    def _result(self, number: int, call: object, given: Fields, ts: str) -> Records:
        yield from self.flush()
        said = plain(given.get("output")) or text(given.get("message"))
        failed = True in (given.get("is_error"), given.get("isError"))
        yield result_of(number, call, given.get("output"), said=said, failed=failed, ts=ts)

    def _used(self, told: Fields, answer: object) -> Records:
        names = _COUNTS if "input_other" in told else _NEWER_COUNTS
        return used(counted(told, *names, apart=True), self._model, answer=answer)


KIMI = Format(name="kimi", title="Kimi", recognises=_recognises, read=_read)
