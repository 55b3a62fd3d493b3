"""OpenHands: a conversation's events, a file each in a folder, or a trajectory as one array.

Older versions write actions and observations, newer ones events of a `kind`; both name the call
that a result answers. Of a folder of events any file stands for all of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from mindstone_tui.core.patterns import pattern_of

from ..read_bytes import Fields, mapping, moment, sequence, text
from .base import About, Began, Broken, Format, Record, Records, Sample
from .parts import MessageParts, counted, joined, plain, result_of, unknown, used
from .sources import Numbered, array_of, beside, document, each_with

EVENT_FILE: Final = pattern_of(r"(?:event-)?(\d{1,9})(?:-[\w-]+)?\.json")
"""How the files of single events are called, in a folder `events`."""
_STATE: Final = "base_state.json"
"""What stands beside the folder `events`: the model, the folder, what was used."""
_NOTHING: Final = frozenset(
    {"null", "recall", "system", "change_agent_state", "agent_state_changed", "condensation"}
)


def _recognises(sample: Sample) -> bool:
    first = (sample.elements or sample.objects or ({},))[0]
    older = "source" in first and bool({"args", "extras", "cause"} & first.keys())
    newer = text(first.get("kind")).endswith("Event") and "source" in first
    return newer or (older and bool({"action", "observation"} & first.keys()))


def _read(path: Path) -> Records:
    is_event = path.parent.name == "events" and EVENT_FILE.fullmatch(path.name) is not None
    events = path.parent if is_event else None
    yield Began(id=events.parent.name if events else path.stem)
    about = beside(events.parent / _STATE) if events else {}
    yield About(folder=text(mapping(about.get("workspace")).get("working_dir")))
    talk = _Talk(text(mapping(mapping(about.get("agent")).get("llm")).get("model")))
    yield from each_with(_in_folder(events) if events else array_of(path), talk.take)
    for each in mapping(mapping(about.get("stats")).get("usage_to_metrics")).values():
        yield from _used(mapping(each), so_far=False)


def _in_folder(folder: Path) -> Iterator[Numbered | Broken]:
    named = ((EVENT_FILE.fullmatch(each.name), each) for each in folder.iterdir())
    for number, file in sorted((int(name[1]), file) for name, file in named if name):
        if isinstance(found := document(file), Broken):
            yield Broken(line=number, why=f"{file.name}: {found.why}")
        else:
            yield number, found


class _Talk:
    """Takes events in their order."""

    def __init__(self, model: str = "") -> None:
        self._model = model
        self._calls: dict[str, str] = {}
        """The call that an action made, by the action's id."""

    def take(self, number: int, fields: Fields) -> Records:
        """One more event."""
        if "kind" in fields:
            yield from _newer(number, fields, self._model)
        elif "action" in fields:
            yield from self._action(number, fields)
        elif "observation" in fields:
            yield self._observation(number, fields)
        else:
            yield unknown("event")
        yield from _used(mapping(fields.get("llm_metrics")))

    def _action(self, number: int, fields: Fields) -> Records:
        args, kind = mapping(fields.get("args")), text(fields.get("action"))
        made = mapping(fields.get("tool_call_metadata"))
        response = mapping(made.get("model_response"))
        pieces = MessageParts(number)
        name, ts = text(fields.get("id")), moment(fields.get("timestamp"))
        if kind in _NOTHING:
            yield unknown(kind)
            return
        if fields.get("source") == "user":
            pieces.texts.append(text(args.get("content")))
            yield pieces.record("user", ts=ts)
            return
        pieces.texts.append(text(args.get("thought")))
        if kind == "message":
            pieces.texts.append(text(args.get("content")))
        elif kind == "finish":
            pieces.texts.append(text(args.get("final_thought")))
        elif kind == "think":
            pieces.texts.clear()
            pieces.think(args.get("thought"))
        else:
            rest = {key: each for key, each in args.items() if key != "thought" and each}
            asked = _asked(response, text(made.get("tool_call_id")))
            function = text(made.get("function_name")) or kind
            self._calls[name] = pieces.call(function, asked or rest, made.get("tool_call_id")).id
        yield pieces.record("assistant", ts=ts, model=text(response.get("model")))

    def _observation(self, number: int, fields: Fields) -> Record:
        kind, cause = text(fields.get("observation")), text(fields.get("cause"))
        if kind in _NOTHING or cause not in self._calls:
            return unknown(kind)
        said, ts = text(fields.get("content")), moment(fields.get("timestamp"))
        failed = fields.get("success") is False or kind == "error"
        return result_of(number, self._calls[cause], None, said=said, failed=failed, ts=ts)


def _asked(response: Fields, call: str) -> str:
    """The arguments of a call as the model wrote them."""
    for choice in map(mapping, sequence(response.get("choices"))):
        for each in map(mapping, sequence(mapping(choice.get("message")).get("tool_calls"))):
            if text(each.get("id")) == call:
                return text(mapping(each.get("function")).get("arguments"))
    return ""


def _used(metrics: Fields, *, so_far: bool = True) -> Records:
    """Everything so far, or everything that a model was used for in one role."""
    told = mapping(metrics.get("accumulated_token_usage"))
    names = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")
    usage = counted(told, *names, cost=metrics.get("accumulated_cost"))
    return used(usage, told.get("model"), so_far=so_far)


def _newer(number: int, fields: Fields, model: str) -> Records:
    """An event of the newer kind, which does not say what model answered."""
    pieces = MessageParts(number)
    ts, source = moment(fields.get("timestamp")), text(fields.get("id"))
    match fields.get("kind"):
        case "MessageEvent":
            message = mapping(fields.get("llm_message"))
            pieces.texts.append(plain(message.get("content")) or "")
            pieces.think(message.get("reasoning_content"))
            is_person = message.get("role") == "user"
            role: Literal["user", "assistant"] = "user" if is_person else "assistant"
            yield pieces.record(role, id=source, ts=ts, model=model)
        case "ActionEvent":
            call = mapping(fields.get("tool_call"))
            pieces.texts.append(plain(fields.get("thought")) or "")
            pieces.think(fields.get("reasoning_content"))
            inner = mapping(call.get("function")) or call
            name = text(fields.get("tool_name")) or text(inner.get("name"))
            arguments = inner.get("arguments") or {
                key: each for key, each in mapping(fields.get("action")).items() if key != "kind"
            }
            pieces.call(name, arguments, fields.get("tool_call_id") or call.get("id"))
            group = text(fields.get("llm_response_id"))
            yield pieces.record("assistant", id=source, ts=ts, model=model, group=group)
        case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation":
            given = mapping(fields.get("observation"))
            said = plain(given.get("content")) or text(given.get("output"))
            error = text(fields.get("error"))
            failed, said = bool(error) or given.get("is_error") is True, joined((said, error))
            answered, named = fields.get("tool_call_id"), fields.get("tool_name")
            yield result_of(
                number, answered, None, said=said, name=named, failed=failed, id=source, ts=ts
            )
        case kind:
            yield unknown(kind)


OPENHANDS = Format(name="openhands", title="OpenHands", recognises=_recognises, read=_read)
