"""Claude Code: `~/.claude/projects/<project>/<session>.jsonl`.

A line per record; an answer is spread over several lines with one content block each, and tool
results arrive as user records. Records name the one they follow: after a rewind the last branch is
the conversation. Side chains of sub-agents are left out of their parent's session; a file that is
a side chain itself (`subagents/agent-*.jsonl`) is taken over as a session of its own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..pictures import pictures_in
from ..read_bytes import count, decode_object, lines, mapping, moment, open_file, sequence, text
from . import parts
from .base import (
    About,
    Aside,
    Began,
    Broken,
    Format,
    Gave,
    Record,
    Said,
    Sample,
    Stopped,
    Titled,
    Used,
)
from .sources import newest_with, records_of

_LEFT_OUT = Aside(what="command of the program")
_READABLE = ("title", "url", "text", "stdout", "stderr", "error_code")
"""Fields with words in what tools at the provider give back."""
_TAGS = ("command-name", "command-args", "bash-input", "bash-stdout", "bash-stderr")
_OUTPUTS = ("<local-command-", "Caveat: ")


def _tags(said: str) -> dict[str, str]:
    """What stands in each tag."""
    return dict(parts.cut_tags(said, _TAGS)[1])


class Commands(msgspec.Struct, eq=False):
    """Holds a command back until the next record says what it was."""

    _held: Said | None = None

    def sort(self, record: Record, fields: dict[str, Any]) -> Iterator[Record]:
        """The record as it belongs into the conversation, after the command before it."""
        match record:
            case Said(role="assistant"):
                yield from self._was_said()
                yield record
            case Said(text=said) if said.startswith(("<command-name>", "<command-message>")):
                yield from self.close()
                tags = _tags(said)
                call = f"{tags.get('command-name', '')} {tags.get('command-args', '')}".strip()
                self._held = msgspec.structs.replace(record, text=call or said)
            case Said(text=said) if said.startswith("<bash-input>"):
                yield from self.close()
                line = _tags(said).get("bash-input", "")
                self._held = msgspec.structs.replace(record, text=f"!{line}")
            case Said(text=said) if said.startswith(("<bash-stdout>", "<bash-stderr>")):
                yield from self._gave(record)
            case Said(text=said) if said.startswith(_OUTPUTS):
                yield from self.close()
                yield _LEFT_OUT
            case Said():
                yield from self.close()
                yield record
            case Aside(what="meta") if not _is_caveat(fields):
                yield from self._was_said()
                yield record
            case _:
                yield record

    def close(self) -> Iterator[Record]:
        """What is still held was for the program; a `!` line was not."""
        held, self._held = self._held, None
        if held is not None:
            yield held if held.text.startswith("!") else _LEFT_OUT

    def _was_said(self) -> Iterator[Record]:
        held, self._held = self._held, None
        if held is not None:
            yield held

    def _gave(self, output: Said) -> Iterator[Record]:
        """The output of the `!` line that is held, with it as one message."""
        held, self._held = self._held, None
        if held is None or not held.text.startswith("!"):
            yield from () if held is None else (_LEFT_OUT,)
            yield _LEFT_OUT
            return
        tags = _tags(output.text)
        outputs = (tags.get("bash-stdout", ""), tags.get("bash-stderr", ""))
        yield msgspec.structs.replace(held, text=parts.joined((held.text, *outputs)))


def _is_caveat(fields: dict[str, Any]) -> bool:
    """Whether a record only warns of the commands after it."""
    said = parts.plain(mapping(fields.get("message")).get("content")) or ""
    return said.startswith(("Caveat: ", "<local-command-caveat>"))


_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
"""Records that name the session, the weightiest last."""
_ABOUT_SESSION = frozenset({"queue-operation", "file-history-snapshot", *_TITLES})
_NO_MODEL = "<synthetic>"
_COUNTS = [
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
]
_INTERRUPTED = "[Request interrupted by user"
_NOTICE = "<task-notification>"


def _recognises(sample: Sample) -> bool:
    return any(
        ("uuid" in each and "parentUuid" in each and "sessionId" in each)
        or (each.get("type") == "summary" and "leafUuid" in each)
        or (each.get("type") == "file-history-snapshot" and "messageId" in each)
        or (text(each.get("type")) in _ABOUT_SESSION and "sessionId" in each)
        for each in sample.objects
    )


def _read(path: Path) -> Iterator[Record]:
    links = _Links(path)
    yield Began(id=links.session, ts=links.ts)
    yield About(folder=links.folder, branch=links.branch, parent=links.parent)
    commands = Commands()
    weight = -1
    for found in records_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        name = text(fields.get("uuid"))
        if (kind := text(fields.get("type"))) in _TITLES:
            title, heavier = _titled(kind, fields, links.branches)
            if title and heavier >= weight:
                weight = heavier
                yield Titled(title=title)
        elif fields.get("isSidechain") is True and not links.is_side_chain:
            yield Aside(what="side chain of a sub-agent")
        elif not links.branches.keeps(name) and kind in ("user", "assistant"):
            yield Aside(what=parts.ANOTHER_BRANCH, taken_back=name)
            # It was paid for all the same.
            yield from (one for one in _records(number, fields) if isinstance(one, Used))
        else:
            for record in _records(number, fields):
                yield from commands.sort(record, fields)
    yield from commands.close()


class _Block(msgspec.Struct):
    """As much of a block as tells whether a person said it."""

    type: Any = None
    content_type: Any = None
    text: Any = None


class _Message(msgspec.Struct):
    content: str | list[_Block] | None = None


class _Linked(msgspec.Struct):
    """As much of a record as tells what it follows; most of a line is what tools gave."""

    type: Any = None
    uuid: Any = msgspec.UNSET
    sessionId: Any = msgspec.UNSET
    parentUuid: Any = None
    logicalParentUuid: Any = None
    timestamp: Any = None
    agentId: Any = None
    cwd: Any = None
    gitBranch: Any = None
    isSidechain: Any = None
    isMeta: Any = None
    isCompactSummary: Any = None
    message: _Message | None = None


def _linked(path: Path) -> Iterator[dict[str, Any]]:
    """What a first reading wants of each record; damaged ones are left out."""
    decoder = msgspec.json.Decoder(_Linked)
    with open_file(path) as stream:
        for _, raw in lines(stream):
            try:
                yield msgspec.to_builtins(decoder.decode(raw)) if isinstance(raw, bytes) else {}
            except (ValueError, RecursionError):
                # Not as expected, or not JSON to this decoder: the patient one decides.
                found = decode_object(raw)
                yield found if isinstance(found, dict) else {}


class _Links:
    """What a first reading tells: whose file it is, and which record follows which."""

    def __init__(self, path: Path) -> None:
        self.session = self.ts = self.folder = self.branch = self.parent = ""
        self.is_side_chain = True
        self.branches = parts.Branches()
        agent = ""
        for fields in _linked(path):
            if not ("sessionId" in fields and "uuid" in fields):
                continue
            if not self.session:
                self.session = text(fields["sessionId"])
                self.ts = moment(fields.get("timestamp"))
                agent = text(fields.get("agentId")) or path.stem
            self.folder = self.folder or text(fields.get("cwd"))
            self.branch = text(fields.get("gitBranch")) or self.branch
            self.is_side_chain = self.is_side_chain and fields.get("isSidechain") is True
            if fields.get("isSidechain") is not True or self.is_side_chain:
                self._follow(fields)
        self.is_side_chain = self.is_side_chain and bool(self.session)
        if self.is_side_chain:
            self.parent, self.session = self.session, f"{self.session}-{agent}"

    def _follow(self, fields: dict[str, Any]) -> None:
        self.branches.add(
            text(fields["uuid"]),
            text(fields.get("parentUuid") or fields.get("logicalParentUuid")),
            forks=_is_prompt(fields),
            counts=fields.get("type") in ("user", "assistant"),
        )


def _is_prompt(fields: dict[str, Any]) -> bool:
    """Whether a person said it: only to such a record one can rewind."""
    if fields.get("type") != "user" or any(
        fields.get(flag) is True for flag in ("isMeta", "isCompactSummary")
    ):
        return False
    content = mapping(fields.get("message")).get("content")
    return not any(mapping(each).get("type") == "tool_result" for each in sequence(content)) and (
        not (parts.plain(content) or "").startswith((_INTERRUPTED, _NOTICE))
    )


def _titled(kind: str, fields: dict[str, Any], branches: parts.Branches) -> tuple[str, int]:
    """A title and its weight; summaries of other sessions stand in a file as well."""
    own = kind != "summary" or text(fields.get("leafUuid")) in branches
    return text(fields.get(_TITLES[kind])), 1 + list(_TITLES).index(kind) if own else 0


def _records(number: int, fields: dict[str, Any]) -> Iterator[Record]:
    match fields.get("type"):
        case "user" if fields.get("isCompactSummary") is True:
            yield Aside(what="compact summary")
        case "user" if fields.get("isMeta") is True:
            yield Aside(what="meta")
        case "user":
            yield from _user(number, fields)
        case "assistant" if fields.get("isApiErrorMessage") is True:
            yield Aside(what="API error")
        case "assistant" if mapping(fields.get("message")).get("model") == _NO_MODEL:
            yield Aside(what="answer that the program made up")
        case "assistant":
            yield from _assistant(number, fields)
            yield from _used(mapping(fields.get("message")))
        case "attachment":
            yield _attachment(number, fields)
        case kind:
            yield parts.unknown(kind)


def _used(message: dict[str, Any]) -> Iterator[Record]:
    """What an answer took; the file repeats it with every line that the answer is spread over."""
    if usage := mapping(message.get("usage")):
        took = parts.counted({"input_tokens": 0, **usage}, *_COUNTS, apart=True)
        hour = count(mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
        model, answer = text(message.get("model")), text(message.get("id"))
        yield Used(usage=msgspec.structs.replace(took, cache_hour=hour), model=model, answer=answer)


def _user(number: int, fields: dict[str, Any]) -> Iterator[Record]:
    content = mapping(fields.get("message")).get("content")
    blocks = sequence(content)
    ts = moment(fields.get("timestamp"))
    results = [each for each in blocks if mapping(each).get("type") == "tool_result"]
    rest = [each for each in blocks if mapping(each).get("type") != "tool_result"]
    yield from (_result(number, block, fields, ts) for block in results)
    if (said := parts.plain(rest if blocks else content)) is None:
        yield Broken(line=number, why="the content is neither text nor a list of blocks")
    elif said.startswith(_INTERRUPTED):
        yield Stopped()
    elif said.startswith(_NOTICE):
        yield Aside(what="notice of a task")
    elif said:
        source = text(fields.get("uuid"))
        yield Said(line=number, role="user", text=said, id=source, ts=ts, images=pictures_in(rest))
    elif not results:
        yield Aside(what="empty message")


def _attachment(number: int, fields: dict[str, Any]) -> Record:
    """What goes along with a message; a prompt typed while the model worked is one, too."""
    attachment = mapping(fields.get("attachment"))
    kind = text(attachment.get("type"))
    said = parts.plain(attachment.get("prompt")) if kind == "queued_command" else ""
    if not said or said.startswith(_NOTICE) or not _is_by_a_person(attachment):
        return Aside(what=f"attachment: {kind}" if kind else "attachment")
    source, ts = text(fields.get("uuid")), moment(fields.get("timestamp"))
    return Said(line=number, role="user", text=said, id=source, ts=ts)


def _is_by_a_person(queued: dict[str, Any]) -> bool:
    """Whether a queued prompt was typed, not sent by a task or another agent."""
    origin = mapping(queued.get("origin")).get("kind")
    return origin in (None, "human") and queued.get("commandMode") in (None, "prompt")


def _result(number: int, block: dict[str, Any], fields: dict[str, Any], ts: str) -> Gave:
    call, failed, source = block.get("tool_use_id"), block.get("is_error"), text(fields.get("uuid"))
    given = block.get("content")
    return parts.result_of(number, call, given, failed=failed is True, id=source, ts=ts)


def _assistant(number: int, fields: dict[str, Any]) -> Iterator[Record]:
    message = mapping(fields.get("message"))
    content, ts = message.get("content"), moment(fields.get("timestamp"))
    results = [mapping(each) for each in sequence(content) if _is_from_the_provider(each)]
    if results:
        content = [each for each in sequence(content) if not _is_from_the_provider(each)]
    pieces = parts.pieces_of_blocks(content, number) or parts.MessageParts(number)
    if pieces.has_any or not results:
        yield pieces.record(
            "assistant",
            id=text(fields.get("uuid")),
            ts=ts,
            model=text(message.get("model")),
            finish=text(message.get("stop_reason")),
            group=text(message.get("id")),
        )
    for block in results:
        given = block.get("content")
        words = [_words(each) for each in (given if isinstance(given, list) else [given])]
        yield msgspec.structs.replace(
            _result(number, block, fields, ts), text="\n\n".join(filter(None, words))
        )


def _is_from_the_provider(block: object) -> bool:
    """Whether a block is what a tool that runs at the provider gave back, within an answer."""
    found = mapping(block)
    return text(found.get("type")).endswith("_tool_result") and bool(text(found.get("tool_use_id")))


def _words(part: object) -> str:
    """What can be read in a result of such a tool, of which each kind has a shape of its own."""
    found = mapping(part)
    said = "\n".join(filter(None, (text(found.get(key)) for key in _READABLE)))
    return said or parts.plain([part]) or ""


def _goes_on(path: Path) -> tuple[str, str]:
    """The newest summary, and the messages that the program says it kept beside it."""
    if not (summaries := newest_with(path, b'"isCompactSummary":true')):
        return "", ""
    named: list[bytes] = []
    for border in newest_with(path, b'"compact_boundary"')[-1:]:
        beside = mapping(mapping(border.get("compactMetadata")).get("preservedMessages"))
        named = [f'"uuid":"{text(each)}"'.encode() for each in sequence(beside.get("uuids"))]
    whole = (summaries[-1], *newest_with(path, *named))
    said = [parts.plain(mapping(each.get("message")).get("content")) or "" for each in whole]
    return moment(summaries[-1].get("timestamp")), "\n\n".join(said)


CLAUDE_CODE = Format(
    name="claude-code", title="Claude Code", recognises=_recognises, read=_read, goes_on=_goes_on
)
