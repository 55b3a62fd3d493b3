"""Copilot CLI: `~/.copilot/session-state/<id>/events.jsonl`.

A line an event. An answer names its calls; each call's start and end are events of their own. What
sub-agents said is left out of their parent's session and counted, and so is what was rewound.
Tokens stand in the event that ends a session, per model.
"""

from pathlib import Path

from ..read_bytes import Fields, mapping, moment, sequence, text
from .base import About, Aside, Began, Format, Gave, Record, Records, Said, Sample, Titled
from .parts import ANOTHER_BRANCH, MessageParts, counted, plain, result_of, unknown, used
from .sources import each_with, mentions, records_of, sound

_SIDE_CHAIN = Aside(what="side chain of a sub-agent")


def _recognises(sample: Sample) -> bool:
    return any(
        each.get("type") == "session.start" and "sessionId" in mapping(each.get("data"))
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Records:
    return each_with(records_of(path), _Events(_rewound(path)).take)


def _rewound(path: Path) -> set[str]:
    """Names of events that were taken back."""
    gone: set[str] = set()
    if not mentions(path, b'"session.snapshot_rewind"'):
        return gone
    names: list[str] = []
    for _, fields in sound(records_of(path)):
        data = mapping(fields.get("data"))
        if fields.get("type") != "session.snapshot_rewind":
            names.append(text(fields.get("id")))
        elif isinstance(data.get("eventIds"), list):
            gone |= {text(each) for each in data["eventIds"]}
        elif (target := text(data.get("upToEventId"))) in names:
            gone |= set(names[names.index(target) :])
            del names[names.index(target) :]
    return gone - {""}


class _Events:
    """Takes events in their order, and remembers what later ones refer to."""

    def __init__(self, rewound: set[str]) -> None:
        self._rewound = rewound
        self._model = ""
        self._asked: set[str] = set()
        """Calls that an answer named."""
        self._tasks: set[str] = set()
        """Prompts that were given to sub-agents and not yet seen as their first message."""

    def take(self, number: int, fields: Fields) -> Records:
        """One more event."""
        kind, data = text(fields.get("type")), mapping(fields.get("data"))
        ts, source = moment(fields.get("timestamp")), text(fields.get("id"))
        is_message = kind.startswith(("user.message", "assistant.message", "tool.execution"))
        if source in self._rewound:
            if is_message:
                yield Aside(what=ANOTHER_BRANCH)
        elif is_message and (data.get("parentToolCallId") or fields.get("agentId")):
            yield _SIDE_CHAIN
        elif kind == "session.start":
            yield from self._start(data, ts)
        elif kind == "session.model_change":
            self._model = text(data.get("newModel")) or self._model
        elif kind == "session.title_changed":
            yield Titled(title=text(data.get("title")))
        elif kind == "user.message":
            yield self._question(number, data, ts, source)
        elif kind == "assistant.message":
            yield self._answer(number, data, ts, source)
        elif kind == "tool.execution_start":
            yield from self._call(number, data, ts)
        elif kind == "tool.execution_complete":
            yield _result(number, data, ts)
        elif kind == "session.shutdown":
            yield from _used(data)
        elif fields.get("ephemeral") is not True:
            yield unknown(kind)

    def _start(self, data: Fields, ts: str) -> Records:
        place = mapping(data.get("context"))
        self._model = text(data.get("selectedModel"))
        yield Began(id=text(data.get("sessionId")), ts=moment(data.get("startTime")) or ts)
        yield About(folder=text(place.get("cwd")), branch=text(place.get("branch")))

    def _question(self, number: int, data: Fields, ts: str, source: str) -> Record:
        if (said := text(data.get("content"))) in self._tasks:
            self._tasks.discard(said)
            return _SIDE_CHAIN
        if text(data.get("source")) not in ("", "user"):
            return Aside(what="message of the program")
        named = [mapping(each) for each in sequence(data.get("attachments"))]
        files = [text(each.get("displayName")) or text(each.get("path")) for each in named]
        pieces = MessageParts(number)
        pieces.texts += [said, *(f"[file: {each}]" for each in files if each)]
        return pieces.record("user", id=source, ts=ts)

    def _answer(self, number: int, data: Fields, ts: str, source: str) -> Record:
        pieces = MessageParts(number, said=text(data.get("content")))
        pieces.think(data.get("reasoningText"))
        for each in map(mapping, sequence(data.get("toolRequests"))):
            call = pieces.call(each.get("name"), each.get("arguments"), each.get("toolCallId"))
            self._asked.add(call.id)
            self._delegate(mapping(each.get("arguments")), call.name)
        model = text(data.get("model")) or self._model
        return pieces.record("assistant", id=source, ts=ts, model=model)

    def _call(self, number: int, data: Fields, ts: str) -> Records:
        """A call that no answer named."""
        if text(data.get("toolCallId")) in self._asked:
            return
        pieces = MessageParts(number)
        pieces.call(data.get("toolName"), data.get("arguments"), data.get("toolCallId"))
        self._delegate(mapping(data.get("arguments")), text(data.get("toolName")))
        found = pieces.record("assistant", ts=ts, model=text(data.get("model")) or self._model)
        if isinstance(found, Said):
            yield found

    def _delegate(self, arguments: Fields, tool: str) -> None:
        if tool == "task" and (prompt := text(arguments.get("prompt"))):
            self._tasks.add(prompt)


def _result(number: int, data: Fields, ts: str) -> Gave:
    """A result: a text, an object with a content, or an error."""
    result = data.get("result")
    given = result.get("content") if isinstance(result, dict) else result
    error = data.get("error")
    said = plain(given) or text(mapping(error).get("message")) or text(error)
    call, name, failed = data.get("toolCallId"), data.get("toolName"), data.get("success") is False
    return result_of(number, call, given, said=said, name=name, failed=failed, ts=ts)


def _used(data: Fields) -> Records:
    """What each model took since the session was begun or taken up again."""
    for model, metrics in mapping(data.get("modelMetrics")).items():
        names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
        yield from used(counted(mapping(mapping(metrics).get("usage")), *names), model)


COPILOT_CLI = Format(name="copilot-cli", title="Copilot CLI", recognises=_recognises, read=_read)
