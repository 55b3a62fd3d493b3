"""Cline, Roo Code and Kilo Code: the folder of a task, `tasks/<id>/`.

`api_conversation_history.json` is what went to and came from the model; `ui_messages.json` beside
it has what the person saw, with dates, tokens and costs. The first is read, the second tells when
and how much; where only the second is left, it is read instead. Models without tools of their own
wrote their calls as tags into the text, and got results as text: both become calls and results.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mindstone_tui.core import bounded_json, entries
from mindstone_tui.core.language.lists import lists_in
from mindstone_tui.core.patterns import pattern_of

from ..read_bytes import Fields, as_json, mapping, moment, sequence, text
from .base import NO_RESULT, About, Aside, Began, Broken, Format, Gave, Records, Said, Sample, Used
from .parts import (
    MessageParts,
    counted,
    cut_tags,
    error_if,
    model_of,
    pieces_of_blocks,
    plain,
    unknown,
    used,
)
from .sources import array_of, beside, document_of, sound

_LISTS: Final = lists_in(Path(__file__).with_name("cline.txt"))
_NAMES: Final = frozenset(" ".join(_LISTS["tools"]).split())
_SHOWN_TOOLS: Final = dict(line.split() for line in _LISTS["shown"])
_SPEAKING: Final = {
    "attempt_completion": "result",
    "ask_followup_question": "question",
    "plan_mode_respond": "response",
    "plan_mode_response": "response",
}
"""Calls that only say something to the person, and where they say it."""
_OPENING: Final = pattern_of(r"<([a-z_]{3,40})>")
_RESULT: Final = pattern_of(r"\[([a-z_]+)(?:[^\]\n]{0,2000}(?:\][^\]\n]{0,200}){0,9})?\] Result:")
_WORDS: Final = ("task", "feedback", "user_message", "answer", "user_feedback")
_NOTES: Final = tuple(line[1:-1] for line in _LISTS["notes"])


class UserText(NamedTuple):
    """The texts of one message to the model, told apart."""

    words: list[str]
    """What the person said."""
    results: list[str]
    """What tools gave."""
    left_out: int
    """How many notes of the program."""


def calls_in(said: str) -> tuple[str, list[tuple[str, dict[str, str]]]]:
    """The words of an answer without the calls that stand in it, and the calls."""
    words, found = cut_tags(said, _NAMES)
    return words, [(name, _parameters(inside)) for name, inside in found]


def _parameters(inside: str) -> dict[str, str]:
    """`<name>value</name>` one after the other; a value may hold tags of its own."""
    found: dict[str, str] = {}
    at = 0
    while (opening := _OPENING.search(inside, at)) is not None:
        name = opening[1]
        closing = f"</{name}>"
        whole = name in ("content", "diff", "arguments", "args", "result")
        end = inside.rfind(closing) if whole else inside.find(closing, opening.end())
        if end < opening.end():
            break
        found[name] = inside[opening.end() : end].strip("\n")
        at = end + len(closing)
    return found


def spoken(call: entries.ToolCall) -> str | None:
    """What a call says to the person; None where it does something."""
    if call.name not in _SPEAKING:
        return None
    arguments = bounded_json.read_arguments(call.arguments) or {}
    words = text(arguments.get(_SPEAKING[call.name]))
    options = arguments.get("options") or arguments.get("follow_up")
    listed = "\n".join(f"- {text(each) or as_json(each)}" for each in sequence(options))
    return "\n\n".join(filter(None, (words, listed or text(options))))


def sort_user_text(texts: Iterable[str], *, is_result: bool = False) -> UserText:
    """Which texts the person wrote, which are results, and which the program added."""
    words: list[str] = []
    results: list[str] = []
    left_out = 0
    for each in texts:
        body = each.strip()
        if body.startswith(_NOTES):
            left_out += 1
            continue
        heading = _RESULT.match(body)
        rest, said = cut_tags(body[heading.end() :] if heading else body, _WORDS)
        rest = rest.strip()
        words += [inside.strip() for _, inside in said]
        if heading:
            results.append(rest)
            is_result = True
        elif said:
            left_out += bool(rest) and not is_result
            if is_result and rest:
                _append(results, rest)
        elif is_result:
            _append(results, rest)
        elif rest:
            words.append(rest)
    return UserText(words, results, left_out)


def _append(results: list[str], more: str) -> None:
    if results:
        results[-1] = "\n\n".join(filter(None, (results[-1], more)))
    else:
        results.append(more)


def has_failed(result: str) -> bool:
    """Whether a result is the program's word for a failure."""
    return result.startswith(("The tool execution failed", "Error executing", "<error>"))


_HISTORY: Final = "api_conversation_history.json"
_SHOWN: Final = "ui_messages.json"
_ITEM: Final = "history_item.json"
_FOLDER: Final = pattern_of(r"# Current (?:Working|Workspace) Directory \(([^)\n]{1,1000})\) Files")
_LONGEST_LOOK: Final = 200_000
_PERSON: Final = ("task", "user_feedback", "user_feedback_diff")
"""Shown messages of the person."""
_APPROVED: Final = "REQ_APP"
"""What some versions put behind a command that needed a yes."""


def _is_task(sample: Sample) -> bool:
    first = sample.elements[0] if sample.elements else {}
    if sample.path.name.endswith(_HISTORY):
        return "role" in first
    return text(first.get("type")) in ("say", "ask") and text(first["type"]) in first


def _is_of(sample: Sample, *folders: str) -> bool:
    return any(each in sample.path.parts for each in folders) and _is_task(sample)


def _read(path: Path) -> Records:
    beside = path.with_name(_HISTORY)
    if path.name == _SHOWN and beside.is_file():
        path = beside
    is_task = path.name in (_HISTORY, _SHOWN)
    name = path.parent.name if is_task else path.stem
    yield Began(id=name, ts=moment(int(name)) if re.fullmatch(r"\d{12,14}", name) else "")
    yield from _item(path.with_name(_ITEM))
    if path.name.endswith(_SHOWN) or _is_shown(path):
        yield from _shown(path)
        return
    shown = path.with_name(_SHOWN)
    yield from _history(path, _Watched(shown if is_task and shown.is_file() else None))


def _is_shown(path: Path) -> bool:
    first = next(array_of(path), None)
    return isinstance(first, tuple) and first[1].get("type") in ("say", "ask")


def _item(path: Path) -> Records:
    """Where the task took place and whose it is, from the file that newer versions keep of it."""
    if found := beside(path):
        yield About(
            folder=text(found.get("workspace")) or text(found.get("cwdOnTaskInitialization")),
            parent=text(found.get("parentTaskId")),
        )


class _Watched:
    """What the shown messages know of each message of the history: when it came, what it took."""

    def __init__(self, path: Path | None) -> None:
        self.dates: dict[int, str] = {}
        self.used: dict[int, Used] = {}
        asked = 0
        for _, fields in sound(array_of(path)) if path else ():
            at = fields.get("conversationHistoryIndex")
            ts = moment(fields.get("ts"))
            if isinstance(at, int):
                self.dates.setdefault(at + 1, ts)
            if fields.get("say") == "api_req_started":
                # A request sends the person's message, and its answer is the one after it.
                place = at + 2 if isinstance(at, int) else 2 * asked + 1
                asked += 1
                self.dates.setdefault(place - 1, ts)
                self.dates.setdefault(place, ts)
                if used := _request(fields):
                    self.used[place] = used


def _request(fields: Fields) -> Used | None:
    """What one request took."""
    told = mapping(document_of(text(fields.get("text"))))
    names = ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
    usage = counted(told, *names, apart=True, cost=told.get("cost"))
    return next(used(usage, _model(fields)), None)


def _model(fields: Fields) -> str:
    return model_of(mapping(fields.get("modelInfo")), "modelId", "providerId")


def _history(path: Path, watched: _Watched) -> Records:
    pending: list[str] = []
    spoken_calls: set[str] = set()
    folder = False
    for found in array_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        ts = moment(fields.get("ts")) or watched.dates.get(number - 1, "")
        pieces = pieces_of_blocks(fields.get("content"), number)
        match fields.get("role"):
            case _ if pieces is None:
                yield Broken(line=number, why="the content is neither text nor a list of blocks")
            case "assistant":
                pieces.think(fields.get("reasoning_content"))
                _answer(pieces, spoken_calls)
                pending = [each.id for each in pieces.calls]
                yield pieces.record("assistant", ts=ts, model=_model(fields))
                yield from _used(number, fields, watched)
            case "user" if fields.get("isSummary") is True:
                yield Aside(what="summary of the program")
            case "user":
                if not folder and (place := _place(fields.get("content"))):
                    folder = True
                    yield About(folder=place)
                yield from _user(fields, pieces, ts, pending, spoken_calls)
                pending = []
            case _:
                yield Broken(line=number, why="a message without a known role")


def _place(content: object) -> str:
    """The folder that the program told the model it works in."""
    for each in sequence(content):
        if found := _FOLDER.search(text(mapping(each).get("text"))[-_LONGEST_LOOK:]):
            return found[1]
    return ""


def _used(number: int, fields: Fields, watched: _Watched) -> Records:
    """What an answer took: from the shown messages, which know the price, else its own count."""
    if known := watched.used.get(number - 1):
        yield known
        return
    metrics = mapping(fields.get("metrics"))
    told, cost = mapping(metrics.get("tokens")), metrics.get("cost")
    usage = counted(told, "prompt", "completion", "cached", apart=True, cost=cost)
    yield from used(usage, _model(fields))


def _answer(pieces: MessageParts, spoken_calls: set[str]) -> None:
    """Calls that stand as tags in the text become calls; those that only speak, words."""
    if not pieces.calls:
        words, found = calls_in(pieces.said)
        pieces.texts[:] = [words]
        for name, arguments in found:
            pieces.call(name, arguments)
    for call in list(pieces.calls):
        if (said := spoken(call)) is not None:
            pieces.calls.remove(call)
            pieces.texts.append(said)
            spoken_calls.add(call.id)


def _user(
    fields: Fields, pieces: MessageParts, ts: str, pending: list[str], spoken_calls: set[str]
) -> Records:
    """A message to the model: results, what the person says, and what the program adds."""
    words: list[str] = []
    for result in pieces.results:
        sorted_text = sort_user_text([result.text], is_result=True)
        words += sorted_text.words
        if result.call in spoken_calls:
            yield Aside(what="note of the program")
        else:
            given = "\n\n".join(sorted_text.results)
            yield msgspec.structs.replace(result, text=given, name="", ts=ts)
    content = fields.get("content")
    blocks = content if isinstance(content, list) else [content]
    rest = [plain([each]) or "" for each in blocks if mapping(each).get("type") != "tool_result"]
    found = sort_user_text(rest)
    words += found.words
    for each in found.results:
        if pending:
            status = error_if(has_failed(each))
            call = pending.pop(0)
            yield Gave(line=pieces.number, call=call, text=each, status=status, ts=ts)
        else:
            yield Aside(what="note of the program")
    yield from (Aside(what="note of the program") for _ in range(found.left_out))
    if said := "\n\n".join(filter(None, words)):
        yield Said(line=pieces.number, role="user", text=said, ts=ts)


def _shown(path: Path) -> Records:
    """The conversation as the person saw it."""
    held = _Output()
    first = True
    request = ""
    for found in array_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        said = text(fields.get("text"))
        kind = text(fields.get(text(fields.get("type"))))
        if held.takes(kind, said):
            continue
        yield from held.close()
        if fields.get("partial") is True:
            yield Aside(what="unfinished message")
        elif kind in _PERSON or (first and kind == "text"):
            first = False
            ts = moment(fields.get("ts"))
            yield Said(line=number, role="user", text=said, ts=ts) if said else unknown(kind)
        elif kind == "command":
            yield from held.open(number, fields, said, request)
        else:
            request = str(number) if kind == "api_req_started" else request
            yield from _shown_answer(number, fields, kind, said, request)
    yield from held.close()


class _Output(msgspec.Struct, eq=False):
    """A command that was run, until everything that it printed was shown."""

    _open: Gave | None = None
    _printed: list[str] = []

    def open(self, number: int, fields: Fields, command: str, request: str) -> Records:
        """A command begins."""
        ts = moment(fields.get("ts"))
        pieces = MessageParts(number)
        call = pieces.call("execute_command", {"command": command.removesuffix(_APPROVED)})
        yield pieces.record("assistant", ts=ts, model=_model(fields), group=request)
        self._open = Gave(line=number, call=call.id, text=NO_RESULT, name=call.name, ts=ts)

    def takes(self, kind: str, said: str) -> bool:
        """Whether a record is output of the command that is open."""
        if self._open is None or kind not in ("command_output", "checkpoint_created"):
            return False
        self._printed.append(said)
        return True

    def close(self) -> Records:
        """What the command gave, if one is open."""
        if self._open is not None:
            printed = "\n".join(filter(None, self._printed))
            yield msgspec.structs.replace(self._open, text=printed or NO_RESULT)
        self._open = None
        self._printed = []


def _shown_answer(number: int, fields: Fields, kind: str, said: str, request: str) -> Records:
    ts = moment(fields.get("ts"))
    pieces = MessageParts(number)
    match kind:
        case "text" | "completion_result" | "followup" | "plan_mode_respond":
            told = mapping(document_of(said))
            pieces.texts.append(text(told.get("question") or told.get("response")) or said)
            yield pieces.record("assistant", ts=ts, model=_model(fields), group=request)
        case "reasoning":
            pieces.think(said)
            yield pieces.record("assistant", ts=ts, model=_model(fields), group=request)
        case "tool" | "use_mcp_server":
            told = mapping(document_of(said))
            name = text(told.get("tool")) or text(told.get("toolName")) or kind
            rest = {key: each for key, each in told.items() if key not in ("tool", "content")}
            call = pieces.call(_SHOWN_TOOLS.get(name, name), rest)
            yield pieces.record("assistant", ts=ts, model=_model(fields), group=request)
            # Of a file that was read, only its path is shown.
            given = "" if name == "readFile" else text(told.get("content"))
            yield Gave(line=number, call=call.id, text=given or NO_RESULT, name=call.name, ts=ts)
        case "api_req_started" if used := _request(fields):
            yield used
        case _:
            yield unknown(kind)


CLINE = Format(name="cline", title="Cline", recognises=_is_task, read=_read)
ROO_CODE = Format(
    name="roo-code",
    title="Roo Code",
    recognises=lambda sample: _is_of(sample, "rooveterinaryinc.roo-cline", "roo-code"),
    read=_read,
)
KILO_CODE = Format(
    name="kilo-code",
    title="Kilo Code",
    recognises=lambda sample: _is_of(sample, "kilocode.kilo-code", "kilocode"),
    read=_read,
)
