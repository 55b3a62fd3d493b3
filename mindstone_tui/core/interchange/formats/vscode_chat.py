"""VS Code's chat, with Copilot: `chatSessions/<id>.jsonl` of a workspace, and `Chat: Export Chat`.

One object with a request a prompt; newer versions write it as a log of its changes. What Copilot's
agent did stands twice: as the editor showed it, and as rounds of calls with what came back. The
rounds are taken where there are any.
"""

from pathlib import Path
from typing import Any, Final

from ..read_bytes import Fields, count, mapping, moment, sequence, text
from .base import About, Aside, Began, Broken, Format, Records, Sample
from .continue_dev import folder_of
from .parts import MessageParts, add_calls, counted, first_of, joined, plain, titled, used
from .sources import beside, document, is_lines, records_of, sound

_DEEPEST: Final = 64
"""Levels of an output that are looked into."""


def _recognises(sample: Sample) -> bool:
    first = sample.first
    session = mapping(first.get("v")) if first.get("kind") == 0 else first
    named = {"responderUsername", "initialLocation", "creationDate"} & session.keys()
    return isinstance(session.get("requests"), list) and bool(named)


def _read(path: Path) -> Records:
    session = _replayed(path) if is_lines(path, "requests") else document(path)
    if isinstance(session, Broken):
        yield session
        return
    yield Began(id=text(session.get("sessionId")) or path.stem, ts=_began(session))
    yield from titled(session.get("customTitle"))
    place = text(session.get("workingDirectory"))
    about = beside(path.absolute().parent.parent / "workspace.json")
    yield About(folder=folder_of(place or text(about.get("folder"))))
    for number, each in enumerate(sequence(session.get("requests")), 1):
        if isinstance(each, dict):
            yield from _request(number, each)
        else:
            yield Broken(line=number, why="a request that is no object")


def _began(session: Fields) -> str:
    first = next(iter(sequence(session.get("requests"))), None)
    return moment(session.get("creationDate")) or moment(mapping(first).get("timestamp"))


def _replayed(path: Path) -> Fields:
    """What a log of changes makes of the object that it begins with."""
    state: Any = {}
    for _, change in sound(records_of(path)):
        if change.get("kind") == 0:
            state = mapping(change.get("v"))
            continue
        place: Any = state
        *way, last = sequence(change.get("k")) or [""]
        for step in way:
            place = _at(place, step)
        match change.get("kind"), place:
            case 2, dict() | list():
                grown = sequence(_at(place, last))[: count(change.get("i"))]
                _put(place, last, [*grown, *sequence(change.get("v"))])
            case 1 | 3, dict() | list():
                _put(place, last, change.get("v"))
    return mapping(state)


def _at(place: Any, step: Any) -> Any:
    if isinstance(place, list):
        return place[step] if isinstance(step, int) and 0 <= step < len(place) else None
    return mapping(place).get(step) if isinstance(step, str) else None


def _put(place: Any, step: Any, value: object) -> None:
    there = range(len(place)) if isinstance(place, list) else (step,)
    if isinstance(step, int if isinstance(place, list) else str) and step in there:
        place[step] = value


def _request(number: int, fields: Fields) -> Records:
    pieces = MessageParts(number, said=plain(fields.get("message")) or "")
    ts, source = moment(fields.get("timestamp")), text(fields.get("requestId"))
    if fields.get("isSystemInitiated") is True:
        yield Aside(what="message of the program")
    else:
        yield pieces.record("user", id=source, ts=ts)
    result = mapping(fields.get("result"))
    told = mapping(result.get("metadata"))
    model = text(fields.get("modelId"))
    rounds = [mapping(each) for each in sequence(told.get("toolCallRounds"))]
    if any(each.get("response") or each.get("toolCalls") for each in rounds):
        yield from _rounds(number, rounds, mapping(told.get("toolCallResults")), ts, model)
    else:
        yield from _shown(number, sequence(fields.get("response")), ts, model)
    for each, name in ((told, "outputTokens"), (mapping(result.get("usage")), "completionTokens")):
        yield from used(counted(each, "promptTokens", name), model, answer=source)


def _rounds(number: int, rounds: list[Fields], given: Fields, ts: str, model: str) -> Records:
    """What the model said and called, and what came back, as Copilot keeps it."""
    for at, each in enumerate(rounds):
        pieces = MessageParts(number, f"{number}-{at}")
        pieces.texts.append(text(each.get("response")).strip())
        thought = mapping(each.get("thinking")).get("text")
        pieces.think(plain(thought) if isinstance(thought, list) else thought)
        add_calls(pieces, each.get("toolCalls"))
        when = moment(each.get("timestamp")) or ts
        yield pieces.record("assistant", id=text(each.get("id")), ts=when, model=model)
        for call in pieces.calls:
            if call.id in given:
                output = sequence(mapping(given[call.id]).get("content"))
                said = "".join(_words(mapping(part).get("value")) for part in output)
                pieces.give(call.id, said.strip(), name=call.name)
        yield from pieces.given(when)


def _words(node: object, depth: int = 0) -> str:
    """The text of an output: itself, or the leaves of what a prompt was built from."""
    if isinstance(node, str):
        return node
    fields = mapping(node)
    inside = [fields["node"]] if "node" in fields else sequence(fields.get("children"))
    if depth > _DEEPEST:
        return ""
    before = "\n" if fields.get("lineBreakBefore") is True else ""
    return before + text(fields.get("text")) + "".join(_words(it, depth + 1) for it in inside)


def _shown(number: int, parts: list[Any], ts: str, model: str) -> Records:
    """The answer as the editor showed it."""
    pieces = MessageParts(number, f"{number}-0")
    run: list[str] = []
    for at, part in enumerate(map(mapping, parts), 1):
        if (kind := text(part.get("kind"))) == "toolInvocationSerialized":
            pieces.texts.append("".join(run).strip())
            run = []
            _add_shown(pieces, part)
        elif kind in ("", "markdownContent", "inlineReference", "thinking"):
            if pieces.calls:
                yield pieces.record("assistant", ts=ts, model=model)
                yield from pieces.given(ts)
                pieces = MessageParts(number, f"{number}-{at}")
            value = part.get("value") or mapping(part.get("content")).get("value")
            if kind == "thinking":
                pieces.think(plain(value))
            else:
                run.append(text(value) or _referred(part))
    pieces.texts.append("".join(run).strip())
    yield pieces.record("assistant", ts=ts, model=model)
    yield from pieces.given(ts)


def _referred(part: Fields) -> str:
    """A file that stands within a sentence, by its name."""
    place = mapping(part.get("inlineReference"))
    named = first_of(place, "path", "fsPath") or mapping(place.get("uri")).get("path")
    return f"`{Path(text(named)).name}`" if named else text(part.get("name"))


def _add_shown(pieces: MessageParts, part: Fields) -> None:
    """A call and its result, as far as the editor shows them."""
    data, details = mapping(part.get("toolSpecificData")), mapping(part.get("resultDetails"))
    command = first_of(mapping(data.get("commandLine")), "userEdited", "toolEdited", "original")
    done = first_of(part, "pastTenseMessage", "invocationMessage")
    shown = text(mapping(done).get("value")) or text(done)
    asked: Fields = {"command": command} if command else {"shown": shown}
    call = pieces.call(part.get("toolId"), details.get("input") or asked, part.get("toolCallId"))
    output = [mapping(each) for each in sequence(details.get("output"))]
    said = joined(text(each.get("value")) for each in output if each.get("isText") is not False)
    said = said or text(mapping(data.get("terminalCommandOutput")).get("text"))
    if said or part.get("isComplete") is True:
        code = mapping(data.get("terminalCommandState")).get("exitCode")
        failed = details.get("isError") is True or bool(count(code))
        pieces.give(call.id, said, name=call.name, status="error" if failed else "ok")


VSCODE_CHAT = Format(
    name="vscode-chat", title="VS Code Copilot Chat", recognises=_recognises, read=_read
)
