"""An entry as the message a model reads: chosen and joined from the entry's own words.

The shapes are those of OpenAI-style servers. They are part of the prompt's hash, so they change
only with the format version.
"""

import base64
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from mindstone_tui.core.bounded_json import read_arguments, read_as
from mindstone_tui.core.entries import Image, Line, Message
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    Thinking,
    ToolReturned,
    UserMessage,
)

Said = UserMessage | AssistantMessage | AssistantPartial | ToolReturned
"""The kinds that become messages; every other kind is bookkeeping."""

ReadBlob = Callable[[str], bytes]
Key = tuple[Any, ...]
"""Names the exact bytes of one message without holding them."""


def said(line: Line) -> Said | None:
    """The line's message, or None when the model never sees such a line.

    Empty answers and questions are left out: several providers refuse them.
    """
    entry = line.entry
    match entry:
        case UserMessage():
            return entry if entry.text or entry.images or entry.note else None
        case AssistantMessage():
            return entry if entry.text or entry.calls else None
        case AssistantPartial():
            return entry if entry.text else None
        case ToolReturned():
            return entry
        case _:
            return None


def message_of(
    entry: Said,
    *,
    text: str | None = None,
    blob: ReadBlob | None = None,
    thinking: bool = False,
    images: bool = True,
    sounds: bool = False,
) -> Message:
    """The message for an entry; `text` stands in for its own where it was trimmed or cut.

    Without `blob`, and where the model does not take them, pictures and sounds are only named.
    """
    match entry:
        case UserMessage():
            return _user(entry, text, blob, images=images, sounds=sounds)
        case ToolReturned():
            content = entry.text if text is None else text
            return {"role": "tool", "tool_call_id": entry.call, "content": content}
        case AssistantPartial():
            return {"role": "assistant", "content": entry.text if text is None else text}
        case AssistantMessage():
            return _assistant(entry, text, thinking)


def _user(
    entry: UserMessage, text: str | None, blob: ReadBlob | None, *, images: bool, sounds: bool
) -> Message:
    body = entry.text if text is None else text
    if entry.name:
        body = f"{entry.name}: {body}"
    if entry.note:
        body = f"{entry.note}\n\n{body}" if body or entry.images else entry.note
    if entry.after:
        body = f"{body}\n\n{entry.after}"
    if not entry.images:
        return {"role": "user", "content": body}
    shown = [each for each in entry.images if (sounds if each.is_sound else images)]
    if blob is None or not shown:
        return {"role": "user", "content": "\n".join((body, *map(_named, entry.images))).strip()}
    named = "\n".join((body, *(_named(each) for each in entry.images if each not in shown)))
    parts: list[dict[str, Any]] = [{"type": "text", "text": named}] if named else []
    parts += [_part(each, blob) for each in shown]
    return {"role": "user", "content": parts}


def _named(each: Image) -> str:
    """What a model that cannot take an attachment is told of it."""
    if each.is_sound:
        return f"[sound {each.name}, {each.seconds:.0f} seconds]"
    return f"[picture {each.name}, {each.width}×{each.height}]"


def _part(each: Image, blob: ReadBlob) -> dict[str, Any]:
    data = base64.b64encode(blob(each.sha256)).decode()
    if each.is_sound:
        form = "wav" if each.media_type == "audio/wav" else "mp3"
        return {"type": "input_audio", "input_audio": {"data": data, "format": form}}
    return {"type": "image_url", "image_url": {"url": f"data:{each.media_type};base64,{data}"}}


def _assistant(entry: AssistantMessage, text: str | None, thinking: bool) -> Message:
    message: Message = {"role": "assistant", "content": entry.text if text is None else text}
    if entry.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in entry.calls
        ]
    if thinking and (blocks := [_thought(block) for block in entry.thinking if _signed(block)]):
        message["thinking_blocks"] = blocks
    return message


def _signed(block: Thinking) -> bool:
    """Only reasoning that its provider can recognise may be sent back to it."""
    return bool(block.signature or block.redacted)


def _thought(block: Thinking) -> dict[str, Any]:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.redacted}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _arguments(arguments: str) -> str:
    """The arguments as received, or an empty object: one broken call must not poison a session."""
    return "{}" if read_arguments(arguments) is None else arguments


def argument_values(arguments: str) -> str:
    """What a call's arguments say, decoded: field names and escapes are nobody's words."""
    try:
        return "\n".join(_values(read_as(arguments, object)))
    except msgspec.DecodeError:
        return ""


def _values(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _values(each)
        case list():
            for each in value:
                yield from _values(each)
        case int() | float() if not isinstance(value, bool):
            yield str(value)


class Pairing(msgspec.Struct, frozen=True):
    """Calls and results brought together."""

    results: dict[int, list[Line]]
    """Assistant message → its results, in the order of its calls."""
    unpaired: tuple[int, ...]
    """Messages that cannot be sent: a call lacks its result, or a result its call."""
    why: str


def pair(lines: Iterable[Line]) -> Pairing:
    """Bring every result to the newest message of its turn that asked for it.

    Call ids are only unique within an answer for some models, so the turn and the order count too.
    """
    asked: dict[tuple[int, str], Line] = {}
    found: dict[int, dict[str, Line]] = {}
    orphans: list[int] = []
    asking: list[tuple[Line, AssistantMessage]] = []
    for line in lines:
        entry = line.entry
        if isinstance(entry, AssistantMessage) and entry.calls:
            asking.append((line, entry))
            found[line.seq] = {}
            asked.update({(line.turn, call.id): line for call in entry.calls})
        elif isinstance(entry, ToolReturned):
            owner = asked.get((line.turn, entry.call))
            if owner is None or entry.call in found[owner.seq]:
                orphans.append(line.seq)
            else:
                found[owner.seq][entry.call] = line
    results: dict[int, list[Line]] = {}
    dangling: list[int] = []
    for line, answer in asking:
        ids = list(dict.fromkeys(call.id for call in answer.calls))
        have = found[line.seq]
        if len(ids) == len(answer.calls) == len(have):
            results[line.seq] = [have[call] for call in ids]
        else:
            dangling += [line.seq, *(result.seq for result in have.values())]
    return Pairing(results, tuple(sorted(orphans + dangling)), _why(orphans, dangling))


def _why(orphans: Sequence[int], dangling: Sequence[int]) -> str:
    reasons = []
    if dangling:
        reasons.append("a tool call has no result")
    if orphans:
        reasons.append("a tool result has no call")
    return " and ".join(reasons)


def first_unpaired(messages: Sequence[Message]) -> str | None:
    """What is wrong with a request's calls and results, or None when every pair is whole."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"the result {message['tool_call_id']} has no call before it"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return f"the call {min(waiting)} has no result"
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return f"the call {min(waiting)} has no result" if waiting else None


Count = Callable[[str], int]

_JOINER: Final = "\u200d"
_TRIES: Final = 12
_LIKELY: Final = 0.97
"""Of the length that so many tokens have on average: what nearly always fits at the first try."""


def boundary(text: str, at: int) -> int:
    """The nearest place at or before `at` where no visible character is torn apart."""
    at = min(max(at, 0), len(text))
    while 0 < at < len(text) and _joined(text[at - 1], text[at]):
        at -= 1
    return at


def _joined(before: str, after: str) -> bool:
    """Whether two neighbours are one character for a reader."""
    return (
        after == _JOINER
        or before == _JOINER
        or bool(unicodedata.combining(after))
        or unicodedata.category(after) in ("Mn", "Me", "Mc")
        or 0x1F3FB <= ord(after) <= 0x1F3FF  # skin tones
        or (_is_flag(before) and _is_flag(after))
        or (before == "\r" and after == "\n")
    )


def _is_flag(character: str) -> bool:
    return 0x1F1E6 <= ord(character) <= 0x1F1FF


def head(text: str, length: int) -> str:
    """At most the first `length` characters."""
    return text[: boundary(text, length)]


def tail(text: str, length: int) -> str:
    """At most the last `length` characters."""
    at = len(text) - length
    if at <= 0:
        return text
    while at < len(text) and _joined(text[at - 1], text[at]):
        at += 1
    return text[at:]


def one_line(text: str, tokens: int, count: Count) -> str:
    """A text as one line of at most so many tokens."""
    line = " ".join(text.split())
    length = min(len(line), tokens * 8)
    for _ in range(_TRIES):
        shorter = head(line, length)
        said = shorter if len(shorter) == len(line) else shorter.rstrip() + "…"
        if count(said) <= tokens:
            return said
        length = min(length - 1, int(length * 0.8))
    return ""


def shorten(
    text: str, tokens: int, count: Count, note: Callable[[int], str], whole: int = 0
) -> str:
    """Beginning and end of a text in at most so many tokens, with a note of what is missing.

    `note` is told how many characters were taken out. Who knows how many tokens it has says so.
    """
    whole = whole or count(text)
    if whole <= tokens:
        return text
    room = max(tokens - count(note(len(text))) - 2, 0)
    length = int(len(text) * room / max(whole, 1) * _LIKELY)
    for _ in range(_TRIES):
        start, end = head(text, length * 2 // 3), tail(text, length // 3)
        said = f"{start}\n{note(len(text) - len(start) - len(end))}\n{end}"
        if length <= 0 or (counted := count(said)) <= tokens:
            return said.strip()
        length = int(length * min(0.85, _LIKELY * room / counted))
    return note(len(text))
