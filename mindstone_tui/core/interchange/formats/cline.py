"""Cline, Roo Code and Kilo Code: the folder of a task, `tasks/<id>/`.

`api_conversation_history.json` is what went to and came from the model; `ui_messages.json` beside
it has what the person saw, with dates, tokens and costs. The first is read, the second tells when
and how much; where only the second is left, it is read instead. Models without tools of their own
wrote their calls as tags into the text, and got results as text: both become calls and results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.interchange.formats.base import (
    NO_RESULT,
    About,
    Aside,
    Began,
    Broken,
    Format,
    Gave,
    Record,
    Said,
    Sample,
    Used,
)
from mindstone_tui.core.interchange.formats.blocks import MessageParts, pieces_of_blocks, tokens
from mindstone_tui.core.interchange.formats.cline_tags import (
    CLINE_TOOLS,
    calls_in,
    has_failed,
    sort_user_text,
    spoken,
)
from mindstone_tui.core.interchange.formats.parts import (
    array_of,
    document,
    document_of,
    plain,
    unknown,
)
from mindstone_tui.core.interchange.read_bytes import mapping, moment, sequence, text
from mindstone_tui.core.patterns import pattern_of

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


def _read(path: Path) -> Iterator[Record]:
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


def _item(path: Path) -> Iterator[Record]:
    """Where the task took place and whose it is, from the file that newer versions keep of it."""
    if not path.is_file():
        return
    found = document(path)
    if not isinstance(found, Broken):
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
        for found in array_of(path) if path else ():
            if isinstance(found, Broken):
                continue
            fields = found[1]
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


def _request(fields: dict[str, Any]) -> Used | None:
    """What one request took."""
    told = mapping(document_of(text(fields.get("text"))))
    usage = tokens(
        told.get("tokensIn"),
        told.get("tokensOut"),
        told.get("cacheReads"),
        told.get("cacheWrites"),
        cost=told.get("cost"),
    )
    return None if usage == Usage() else Used(usage=usage, model=_model(fields))


def _model(fields: dict[str, Any]) -> str:
    about = mapping(fields.get("modelInfo"))
    model, provider = text(about.get("modelId")), text(about.get("providerId"))
    return f"{provider}/{model}" if provider and model else model


def _history(path: Path, watched: _Watched) -> Iterator[Record]:
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
                if thought := text(fields.get("reasoning_content")):
                    pieces.think(thought)
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
                yield from _user(number, fields, pieces, ts, pending, spoken_calls)
                pending = []
            case _:
                yield Broken(line=number, why="a message without a known role")


def _place(content: object) -> str:
    """The folder that the program told the model it works in."""
    for each in sequence(content):
        found = _FOLDER.search(text(mapping(each).get("text"))[-_LONGEST_LOOK:])
        if found:
            return found[1]
    return ""


def _used(number: int, fields: dict[str, Any], watched: _Watched) -> Iterator[Record]:
    """What an answer took: from the shown messages, which know the price, else its own count."""
    if used := watched.used.get(number - 1):
        yield used
        return
    told = mapping(mapping(fields.get("metrics")).get("tokens"))
    cost = mapping(fields.get("metrics")).get("cost")
    usage = tokens(told.get("prompt"), told.get("completion"), told.get("cached"), cost=cost)
    if usage != Usage():
        yield Used(usage=usage, model=_model(fields))


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
    number: int,
    fields: dict[str, Any],
    pieces: MessageParts,
    ts: str,
    pending: list[str],
    spoken_calls: set[str],
) -> Iterator[Record]:
    """A message to the model: results, what the person says, and what the program adds."""
    words: list[str] = []
    for result in pieces.results:
        sorted_text = sort_user_text([result.text], is_result=True)
        words += sorted_text.words
        if result.call in spoken_calls:
            yield Aside(what="note of the program")
        else:
            yield Gave(
                line=number,
                call=result.call,
                text="\n\n".join(sorted_text.results),
                status=result.status,
                ts=ts,
                images=result.images,
            )
    content = fields.get("content")
    blocks = content if isinstance(content, list) else [content]
    rest = [plain([each]) or "" for each in blocks if mapping(each).get("type") != "tool_result"]
    found = sort_user_text(rest)
    words += found.words
    for each in found.results:
        if pending:
            status: ToolStatus = "error" if has_failed(each) else "ok"
            yield Gave(line=number, call=pending.pop(0), text=each, status=status, ts=ts)
        else:
            yield Aside(what="note of the program")
    for _ in range(found.left_out):
        yield Aside(what="note of the program")
    if said := "\n\n".join(filter(None, words)):
        yield Said(line=number, role="user", text=said, ts=ts)


def _shown(path: Path) -> Iterator[Record]:
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


class _Output:
    """A command that was run, until everything that it printed was shown."""

    def __init__(self) -> None:
        self._open: Gave | None = None
        self._printed: list[str] = []

    def open(
        self, number: int, fields: dict[str, Any], command: str, request: str
    ) -> Iterator[Record]:
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

    def close(self) -> Iterator[Record]:
        """What the command gave, if one is open."""
        if self._open is not None:
            printed = "\n".join(filter(None, self._printed))
            yield msgspec.structs.replace(self._open, text=printed or NO_RESULT)
        self._open = None
        self._printed = []


def _shown_answer(
    number: int, fields: dict[str, Any], kind: str, said: str, request: str
) -> Iterator[Record]:
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
            call = pieces.call(CLINE_TOOLS.get(name, name), rest)
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
