"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json`, `.jsonl` in newer versions.

A message carries its tool calls together with their results. In JSONL the newest message is written
again whenever its calls change, with notes about the session in between; the last writing counts,
and what was rewound is counted as left out. `/chat save` keeps `checkpoint-*.json`: the bare
contents of the model's API, without times.

Qwen Code, which comes from this program: `~/.qwen/projects/<project>/chats/<id>.jsonl`. A line a
record, each naming the one it follows; messages are the contents of the model's API. Older versions
wrote the files of Gemini CLI into a folder of their own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.entries.conversation import Thinking, ToolStatus
from mindstone_tui.core.patterns import pattern_of

from ..pictures import pictures_in
from ..read_bytes import Fields, as_json, mapping, moment, open_file, sequence, text
from . import parts, sources
from .base import About, Aside, Began, Broken, Format, Gave, Records, Sample, Titled, Used

_CONTEXT = (
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
)
_COMMAND = pattern_of(r"[/?](?:[a-z][\w:-]*)?(?:\s|$)")
_SUMMARY = ("<state_snapshot>", "<scratchpad>")
_THANKS = ("Got it. Thanks for the additional context!", "Got it. Thanks for the context!")


def pieces_of(content: object, number: int) -> parts.MessageParts | None:
    """The parts of a text, a part or a list of both; None when it is none of them."""
    if content is not None and not isinstance(content, str | dict | list):
        return None
    pieces = parts.MessageParts(number)
    said = ""
    for at, each in enumerate(content if isinstance(content, list) else [content]):
        part = {"text": each} if isinstance(each, str) else mapping(each)
        if call := mapping(part.get("functionCall")):
            own = text(call.get("id")) or f"call-{number}-{at}"
            pieces.call(call.get("name"), call.get("args"), own)
        elif response := mapping(part.get("functionResponse")):
            _add_result(pieces, response)
        elif part.get("thought") is True:
            pieces.thinking.append(Thinking(text=text(part.get("text"))))
        elif pieces.results and (media := _media(part)):
            # What a tool read stands behind its result.
            last = pieces.results[-1]
            shown, images = parts.joined((last.text, media)), (*last.images, *pictures_in(part))
            pieces.results[-1] = msgspec.structs.replace(last, text=shown, images=images)
        else:
            said += _words(part)
            pieces.images += pictures_in(part)
    pieces.texts.append(said)
    return pieces


def _add_result(pieces: parts.MessageParts, response: Fields) -> None:
    given = response.get("response")
    fields = mapping(given)
    inner = fields.get("output", fields.get("error", given))
    said = inner if isinstance(inner, str) else "" if inner is None else as_json(inner)
    beside = sequence(response.get("parts"))
    pieces.give(
        response.get("id"),
        parts.joined((said, *(_media(mapping(each)) for each in beside))),
        name=response.get("name"),
        status=parts.error_if("error" in fields and "output" not in fields),
        images=pictures_in(beside),
    )


def _words(part: Fields) -> str:
    """The text of a part; what cannot be text leaves its kind in brackets."""
    if isinstance(said := part.get("text"), str):
        return said
    if code := text(mapping(part.get("executableCode")).get("code")):
        return f"\n\n```\n{code}\n```\n\n"
    if output := text(mapping(part.get("codeExecutionResult")).get("output")):
        return f"\n\n{output}\n\n"
    return _media(part)


def _media(part: Fields) -> str:
    """The kind of what is no text, in brackets."""
    media = mapping(part.get("inlineData")) or mapping(part.get("fileData"))
    return f"[{text(media.get('mimeType')).split('/')[0] or 'file'}]" if media else ""


def not_said(said: str, role: str) -> str:
    """What a text is that only looks like a message of the person or the model; else empty."""
    start = said.lstrip()
    if role == "user" and start.startswith(_CONTEXT):
        return "context of the program"
    if role == "user" and start.startswith(_SUMMARY):
        return "summary of the program"
    if role == "user" and _COMMAND.match(start):
        return "command of the program"
    return "context of the program" if role != "user" and start.strip() in _THANKS else ""


_STATUS: dict[str, ToolStatus] = {"success": "ok", "error": "error", "cancelled": "interrupted"}
_CHECKPOINT = pattern_of(
    rb'\s*(?:\{\s*"history"\s*:\s*)?\[\s*\{\s*"(?:role"\s*:\s*"(?:user|model)"|parts"\s*:\s*\[)'
)


def _recognises(sample: Sample) -> bool:
    recorded = b'"projectHash"' in sample.start and b'"sessionId"' in sample.start
    return recorded or _is_checkpoint(sample.start)


def _is_checkpoint(start: bytes) -> bool:
    return _CHECKPOINT.match(start) is not None and b'"parts"' in start


def _read(path: Path) -> Records:
    with open_file(path) as stream:
        start = stream.read(1 << 14)
    return _read_checkpoint(path) if _is_checkpoint(start) else _read_recording(path)


def _read_recording(path: Path) -> Records:
    recording = _Recording(_rewound(path))
    held: sources.Numbered | None = None
    for found in _found(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        if not ("type" in fields and "id" in fields):
            if "messages" in mapping(fields.get("$set")):
                if held is not None:
                    yield from recording.take(*held)
                held = None
                yield from recording.replace(number, mapping(fields["$set"]))
            else:
                yield from _about(fields)
            continue
        if held is not None and held[1]["id"] != fields["id"]:
            yield from recording.take(*held)
        held = found
    if held is not None:
        yield from recording.take(*held)


def _found(path: Path) -> Iterator[sources.Numbered | Broken]:
    if sources.is_lines(path, "messages"):
        yield from sources.records_of(path)
        return
    session = sources.document(path)
    if isinstance(session, Broken):
        yield session
        return
    yield 0, {key: value for key, value in session.items() if key != "messages"}
    for number, message in enumerate(sequence(session.get("messages")), 1):
        if isinstance(message, dict):
            yield number, message
        else:
            yield Broken(line=number, why="a message that is not an object")


def _about(fields: Fields) -> Records:
    """What is said about the session as a whole."""
    if "projectHash" in fields:
        yield Began(id=text(fields.get("sessionId")), ts=moment(fields.get("startTime")))
    if (folders := sequence(fields.get("directories"))) and (folder := text(folders[0])):
        yield About(folder=folder)
    if summary := text(fields.get("summary") or mapping(fields.get("$set")).get("summary")):
        yield Titled(title=summary)
    if "projectHash" not in fields:
        yield parts.unknown(next(iter(fields), ""))


def _rewound(path: Path) -> set[str]:
    """The messages that a rewind took back."""
    if not sources.mentions(path, b'"$rewindTo"'):
        return set()
    said: dict[str, None] = {}
    gone: set[str] = set()
    for _, fields in sources.sound(_found(path)):
        back = fields.get("$rewindTo")
        if isinstance(back, str) and back in said:
            names = list(said)
            later = names[names.index(back) :]
            gone.update(later)
            said = dict.fromkeys(names[: -len(later)])
        elif "type" in fields and (name := text(fields.get("id"))):
            said[name] = None
    return gone


class _Recording(msgspec.Struct, eq=False):
    """Messages as they were first said: later rewritings mask results and drop what was said."""

    _rewound: set[str]
    _known: set[int] = set()
    _answered: set[int] = set()

    def take(self, number: int, fields: Fields) -> Records:
        """One message of the session."""
        self._known.add(hash(text(fields.get("id"))))
        if text(fields.get("id")) in self._rewound and fields.get("type") in ("user", "gemini"):
            yield Aside(what=parts.ANOTHER_BRANCH, taken_back=text(fields.get("id")))
            yield from _used(fields)  # it was paid for all the same
            return
        if (pieces := pieces_of(fields.get("content"), number)) is None:
            yield Broken(line=number, why="the content is neither text nor a list of parts")
            return
        ts = moment(fields.get("timestamp"))
        match fields.get("type"):
            case "user":
                yield from self._user(fields, pieces, ts)
            case "gemini":
                yield from self._answer(number, fields, pieces, ts)
            case kind:
                yield parts.unknown(kind)

    def replace(self, number: int, changes: Fields) -> Records:
        """The program cut its own history; what was said before stays, what is new is taken."""
        for each in sequence(changes.get("messages")):
            fields = mapping(each)
            if fields and hash(text(fields.get("id"))) not in self._known:
                yield from self.take(number, fields)
        yield Aside(what="history written again")

    def _user(self, fields: Fields, pieces: parts.MessageParts, ts: str) -> Records:
        for result in pieces.given(ts):
            if self._is_first(result.call):
                yield result
        if what := not_said(pieces.said, "user"):
            yield Aside(what=what)
        elif pieces.said or not pieces.results:
            yield pieces.record("user", id=text(fields.get("id")), ts=ts)

    def _answer(self, number: int, fields: Fields, pieces: parts.MessageParts, ts: str) -> Records:
        asked = [mapping(each) for each in sequence(fields.get("toolCalls"))]
        made = parts.MessageParts(number)
        calls = [made.call(each.get("name"), each.get("args"), each.get("id")) for each in asked]
        named = {call.id for call in calls}
        more = [
            call
            for call in pieces.calls
            if call.id not in named and hash(call.id) not in self._answered
        ]
        pieces.calls = [*calls, *more]
        pieces.thinking = [
            Thinking(text=parts.joined((text(each.get("subject")), text(each.get("description")))))
            for each in map(mapping, sequence(fields.get("thoughts")))
        ] or pieces.thinking
        if what := not_said(pieces.said, "gemini"):
            yield Aside(what=what)
            return
        model, source = text(fields.get("model")), text(fields.get("id"))
        yield pieces.record("assistant", id=source, ts=ts, model=model)
        if not pieces.has_any:
            return
        yield from _used(fields)
        for call, each in zip(calls, asked, strict=True):
            if (given := _given(each, call.id, number)) is not None:
                self._is_first(call.id)
                yield msgspec.structs.replace(
                    given,
                    name=call.name,
                    status=_STATUS.get(text(each.get("status")), "ok"),
                    ts=moment(each.get("timestamp")) or ts,
                )

    def _is_first(self, call: str) -> bool:
        """Whether this is the first result of a call; one without an id always is."""
        if not call:
            return True
        if hash(call) in self._answered:
            return False
        self._answered.add(hash(call))
        return True


def _used(fields: Fields) -> Records:
    """What an answer took."""
    if tokens := mapping(fields.get("tokens")):
        usage = parts.counted(tokens, "input", "output", "cached", "", "thoughts")
        yield Used(usage=usage, model=text(fields.get("model")), answer=text(fields.get("id")))


def _given(used: Fields, call: str, number: int) -> Gave | None:
    """The result of one call; a list may hold the results of its siblings as well."""
    nothing = Gave(line=number, call=call, text="")
    if used.get("result") is None:
        shown = used.get("resultDisplay")
        known = isinstance(shown, str) and used.get("status") in _STATUS
        return msgspec.structs.replace(nothing, text=text(shown)) if known else None
    if (pieces := pieces_of(used["result"], number)) is None:
        return nothing
    own = [each for each in pieces.results if each.call == call] or pieces.results
    return msgspec.structs.replace(
        nothing,
        text=parts.joined((*(each.text for each in own), pieces.said)),
        images=(*(image for each in own for image in each.images), *pieces.images),
    )


def _read_checkpoint(path: Path) -> Records:
    project = path.parent.name if path.parent.parent.name == "tmp" else ""
    yield Began(id=f"{project}-{path.stem}" if project else path.stem)
    yield from sources.each_with(sources.first_array_of(path), _content)


def _content(number: int, fields: Fields) -> Records:
    pieces = pieces_of(fields.get("parts"), number)
    role = fields.get("role")
    if pieces is None or role not in ("user", "model"):
        yield Broken(line=number, why="a content without a role or without parts")
        return
    yield from pieces.given("")
    if what := not_said(pieces.said, role):
        yield Aside(what=what)
    elif role == "user" and pieces.said:
        yield pieces.record("user")
    elif role == "model" and pieces.has_any:
        yield pieces.record("assistant")


GEMINI_CLI = Format(name="gemini-cli", title="Gemini CLI", recognises=_recognises, read=_read)


_KINDS: Final = ("user", "assistant", "tool_result", "system")
_PERSON: Final = ("", "mid_turn_user_message", "realtime_message", "at_command")
"""Kinds of user records that a person wrote."""
_COUNTS: Final = (
    *("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
    *("", "thoughtsTokenCount"),
)
_QWEN_STATUS: Final[dict[str, ToolStatus]] = {"error": "error", "cancelled": "interrupted"}


def _is_of_qwen(sample: Sample) -> bool:
    if ".qwen" in sample.path.parts and GEMINI_CLI.recognises(sample):
        return True
    return any(map(_is_qwen_record, sample.objects[:16]))


def _is_qwen_record(fields: Fields) -> bool:
    return (
        fields.get("type") in _KINDS
        and {"uuid", "sessionId"} <= fields.keys()
        and ("parts" in mapping(fields.get("message")) or "systemPayload" in fields)
    )


def _read_qwen(path: Path) -> Records:
    if (branches := _qwen_branches(path)) is None:
        yield from GEMINI_CLI.read(path)
        return
    begun = False
    for found in sources.records_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        if not begun and "sessionId" in fields:
            begun = True
            yield Began(id=text(fields["sessionId"]), ts=moment(fields.get("timestamp")))
            yield About(folder=text(fields.get("cwd")))
        if branch := text(fields.get("gitBranch")):
            yield About(branch=branch)
        if fields.get("type") != "system" and not branches.keeps(text(fields.get("uuid"))):
            yield Aside(what=parts.ANOTHER_BRANCH, taken_back=text(fields.get("uuid")))
        else:
            yield from _qwen_record(number, fields)


def _qwen_branches(path: Path) -> parts.Branches | None:
    """Which record follows which; None where the file has no such records."""
    branches = parts.Branches()
    seen = False
    for _, fields in sources.sound(sources.records_of(path)):
        if "parentUuid" not in fields:
            continue
        seen = seen or _is_qwen_record(fields)
        parent = fields["parentUuid"]
        branches.add(
            text(fields.get("uuid")),
            None if parent is None else text(parent),
            forks=fields.get("type") == "user",
            counts=fields.get("type") != "system",
        )
    return branches if seen else None


def _qwen_record(number: int, fields: Fields) -> Records:
    kind, subtype = text(fields.get("type")), text(fields.get("subtype"))
    if kind == "system":
        payload = mapping(fields.get("systemPayload"))
        if subtype == "custom_title":
            yield Titled(title=text(payload.get("customTitle")) or text(fields.get("title")))
        else:
            yield parts.unknown(subtype or kind)
        return
    if (pieces := pieces_of(mapping(fields.get("message")).get("parts"), number)) is None:
        yield Broken(line=number, why="the message has no parts")
        return
    ts, source = moment(fields.get("timestamp")), text(fields.get("uuid"))
    match kind:
        case "user" if subtype not in _PERSON:
            yield Aside(what=subtype)
        case "user":
            what = not_said(pieces.said, "user")
            yield Aside(what=what) if what else pieces.record("user", id=source, ts=ts)
        case "assistant":
            yield from _qwen_answer(fields, pieces, source, ts)
        case "tool_result":
            yield from _qwen_results(fields, pieces, source, ts)
        case _:
            yield parts.unknown(kind)


def _qwen_answer(fields: Fields, pieces: parts.MessageParts, source: str, ts: str) -> Records:
    model = text(fields.get("model"))
    yield pieces.record("assistant", id=source, ts=ts, model=model)
    yield from parts.used(
        parts.counted(mapping(fields.get("usageMetadata")), *_COUNTS), model, answer=source
    )


def _qwen_results(fields: Fields, pieces: parts.MessageParts, source: str, ts: str) -> Records:
    told = mapping(fields.get("toolCallResult"))
    status = _QWEN_STATUS.get(text(told.get("status")), "ok")
    # The response may have an id of its own; the record says which call it answers.
    only = text(told.get("callId")) if len(pieces.results) == 1 else ""
    for each in pieces.given(ts, source):
        ended = each.status if each.status == "error" else status
        yield msgspec.structs.replace(each, call=only or each.call, status=ended)


QWEN_CODE = Format(name="qwen-code", title="Qwen Code", recognises=_is_of_qwen, read=_read_qwen)
