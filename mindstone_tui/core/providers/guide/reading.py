"""What a request holds, as the guide needs it: the question, the results, what may be quoted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Message, Part, Request

_BLOCK: Final = re.compile(
    r'<data-(?P<nonce>[0-9a-z]{8,64}) origin="(?P<origin>[^"]*)">\n?'
    r"(?P<text>.*?)\n?</data-(?P=nonce)>",
    re.DOTALL,
)
HERE: Final = "earlier in this window"
_PARAGRAPHS: Final = re.compile(r"\n\s*\n")
_POINTER: Final = re.compile(r"(?m)^\[(?P<pointer>[^\]\n]*·[^\]\n]*)\][ \t]*\n?")
"""The line above a recalled passage: where it stands, in facts divided by points."""
_WORD: Final = re.compile(r"[^\W_]{2,}")
_ENDINGS: Final = ("ingly", "edly", "ing", "ies", "ed", "es", "ly", "s")
_LONGEST_QUESTION: Final = 300
_COMMON_WORDS: Final = (
    "a about again all also an and any are as at be been before but by can could did do does "
    "done earlier for from get give had has have he her him his how i if in into is it its "
    "just know let like may me mentioned more my no not of on or our out please recall "
    "remember said say she should show so some such tell than that the their them then there "
    "these they thing this those to told too us was we were what when where which who whom "
    "whose why will with would you your "
)
_COMMON: Final = frozenset(_COMMON_WORDS.split())


class Passage(Part):
    """Something that was said, and where it stands."""

    text: str
    pointer: str = ""


class Result(Part):
    """What a tool gave back in this exchange."""

    name: str
    arguments: dict[str, Any]
    text: str


class Situation(Part):
    """One request, read."""

    question: str
    results: tuple[Result, ...] = ()
    recalled: tuple[Passage, ...] = ()
    earlier: tuple[Passage, ...] = ()
    """What people and tools said before in the window, newest first; no questions."""


def read(request: Request) -> Situation:
    """Find the question, what tools answered to it, and what may be quoted."""
    messages = list(request.messages)
    recalled: list[Passage] = []
    while len(messages) > 1 and is_context(messages[-1]):
        recalled += passages(text_of(messages.pop()))
    asked = max((at for at, each in enumerate(messages) if each["role"] == "user"), default=-1)
    question = text_of(messages[asked]) if asked >= 0 else ""
    return Situation(
        question=question.strip(),
        results=tuple(_results(messages[asked + 1 :])),
        recalled=tuple(recalled),
        earlier=tuple(_earlier(messages[: max(asked, 0)])),
    )


def text_of(message: Message) -> str:
    """A message's text, with pictures left out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def passages(text: str) -> list[Passage]:
    """The quotable pieces of a labelled block, or of a tool's plain answer."""
    blocks = [(block["text"], block["origin"]) for block in _BLOCK.finditer(text)]
    return [
        passage for inside, origin in blocks or [(text, "")] for passage in _pieces(inside, origin)
    ]


def unwrapped(text: str) -> str:
    """A tool's answer without the delimiters around it."""
    return _BLOCK.sub(lambda block: block["text"], text)


def terms(text: str) -> frozenset[str]:
    """The words that carry meaning, without their endings."""
    return frozenset(_stem(word) for word in _WORD.findall(text.lower()) if word not in _COMMON)


def overlap(wanted: frozenset[str], text: str) -> float:
    """How much of what is wanted stands in a text: 0 to 1."""
    return len(wanted & terms(text)) / len(wanted) if wanted else 0.0


def is_asking(text: str) -> bool:
    """Whether a passage only asks: an earlier question is not an answer to a later one."""
    return text.rstrip().endswith("?") and len(text) < _LONGEST_QUESTION


def is_context(message: Message) -> bool:
    """Whether a message is a block of labelled data, and nobody's own words."""
    return message["role"] == "user" and _BLOCK.search(text_of(message)) is not None


def _pieces(text: str, origin: str) -> Iterator[Passage]:
    """Passages under pointers of their own; without any, paragraphs under the block's."""
    before, *pointed = _POINTER.split(text)
    for paragraph in _PARAGRAPHS.split(before):
        if paragraph.strip():
            yield Passage(text=paragraph.strip(), pointer=origin)
    for pointer, body in zip(pointed[::2], pointed[1::2], strict=True):
        if body.strip():
            yield Passage(text=body.strip(), pointer=pointer.strip())


def _results(messages: list[Message]) -> Iterator[Result]:
    asked: dict[str, dict[str, Any]] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            asked[call["id"]] = call["function"]
        if message["role"] == "tool":
            function = asked.get(message.get("tool_call_id", ""), {})
            yield Result(
                name=str(function.get("name", "tool")),
                arguments=_arguments(str(function.get("arguments", ""))),
                text=text_of(message),
            )


def _arguments(written: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(written, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def _earlier(messages: list[Message]) -> Iterator[Passage]:
    for message in reversed(messages):
        text = text_of(message).strip()
        if message["role"] == "user" and text and not is_asking(text) and not is_context(message):
            yield Passage(text=text, pointer=HERE)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word
