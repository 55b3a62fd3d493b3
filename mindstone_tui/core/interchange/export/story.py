"""A transcript as a story: turns of messages, tool uses, and what happened to the window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mindstone_tui.core.entries import Line, Part, ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ToolReturned,
    UserMessage,
)
from mindstone_tui.core.entries.memory import RecalledPassage, RecallInjected
from mindstone_tui.core.interchange.export.markers import Marker, marker_of


class Spoken(Part):
    """Somebody's words."""

    seq: int
    ts: str
    who: str
    """The speaker's name, or the role where there is none."""
    role: str
    text: str
    model: str = ""
    thinking: str = ""
    unfinished: bool = False


class ToolUse(Part):
    """A call together with its result."""

    seq: int
    ts: str
    name: str
    arguments: str
    status: str
    text: str
    diff: str = ""


class Recalled(Part):
    """Passages that were brought back for this turn."""

    seq: int
    ts: str
    session: str
    """The session they were brought back into; they may come from others."""
    query: str
    passages: tuple[RecalledPassage, ...]


Scene = Spoken | ToolUse | Marker | Recalled


class Turn(Part):
    """One exchange and what happened around it."""

    number: int
    ts: str
    scenes: tuple[Scene, ...]

    @property
    def title(self) -> str:
        """The words it began with."""
        spoken = [scene.text for scene in self.scenes if isinstance(scene, Spoken)]
        return next((text for text in spoken if text), "")


def tell(lines: Iterable[Line]) -> Iterator[Turn]:
    """The story, a turn at a time; turns that hold nothing to tell are left out."""
    number, ts = 0, ""
    scenes: list[Scene] = []
    calls: dict[str, ToolCall] = {}
    for line in lines:
        if line.turn != number:
            scenes += _unanswered(calls, ts)
            if scenes:
                yield Turn(number=number, ts=ts, scenes=tuple(scenes))
            number, ts, scenes, calls = line.turn, line.ts, [], {}
        scenes += _scenes(line, calls)
    scenes += _unanswered(calls, ts)
    if scenes:
        yield Turn(number=number, ts=ts, scenes=tuple(scenes))


def _scenes(line: Line, calls: dict[str, ToolCall]) -> list[Scene]:
    match line.entry:
        case UserMessage(text=text, name=name):
            return [_spoken(line, "user", name or "user", text)]
        case AssistantMessage() as answer:
            calls |= {call.id: call for call in answer.calls}
            thought = "\n\n".join(each.text for each in answer.thinking if each.text)
            if not (answer.text or thought):
                return []
            who = answer.name or "assistant"
            return [_spoken(line, "assistant", who, answer.text, answer.model, thought)]
        case AssistantPartial(text=text, model=model):
            return [_spoken(line, "assistant", "assistant", text, model, unfinished=True)]
        case ToolReturned() as result:
            call = calls.pop(result.call, None)
            return [
                ToolUse(
                    seq=line.seq,
                    ts=line.ts,
                    name=result.name,
                    arguments=call.arguments if call else "",
                    status=result.status,
                    text=result.text,
                    diff=result.diff,
                )
            ]
        case RecallInjected(query=query, passages=passages):
            return [
                Recalled(
                    seq=line.seq,
                    ts=line.ts,
                    session=line.session,
                    query=query,
                    passages=passages,
                )
            ]
        case _:
            marker = marker_of(line)
            return [marker] if marker else []


def _spoken(
    line: Line,
    role: str,
    who: str,
    text: str,
    model: str = "",
    thinking: str = "",
    *,
    unfinished: bool = False,
) -> Spoken:
    return Spoken(
        seq=line.seq,
        ts=line.ts,
        who=who,
        role=role,
        text=text,
        model=model,
        thinking=thinking,
        unfinished=unfinished,
    )


def _unanswered(calls: dict[str, ToolCall], ts: str) -> list[Scene]:
    """Calls of a turn that was cut off before their results came."""
    return [
        ToolUse(seq=0, ts=ts, name=call.name, arguments=call.arguments, status="open", text="")
        for call in calls.values()
    ]
