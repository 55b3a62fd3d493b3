"""Reads a small model's answer while it grows: text as it comes, or a tool call once it is whole.

With tools, a model answers with one JSON object under a grammar: {"tool":"answer","text":"…"}, or
{"tool":"read","path":"…"}. The answer's text is passed on as it comes, as if it were plain.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mindstone_tui.core.bounded_json import read_arguments
from mindstone_tui.core.patterns import pattern_of

_ANSWER: Final = pattern_of(r'\s*\{\s*"tool"\s*:\s*"answer"\s*,\s*"text"\s*:\s*"')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LONGEST_LOOP: Final = 400
_ENOUGH_LOOPED: Final = 96
"""Characters that a loop must fill before it counts: a short one has to turn often."""
_FEWEST_TURNS: Final = 3
_DRAWN: Final = 600
"""Characters that a loop without letters or digits must fill: rules and tables are drawn so."""


class AnswerReader:
    """Turns the JSON of an answer into its text; what is no answer is kept for its end."""

    def __init__(self) -> None:
        self.raw = ""
        """Everything the model said, as it said it."""
        self._at = 0
        """How much of it was turned into text."""
        self._inside = False
        self._ended = False

    def feed(self, piece: str) -> str:
        """More of the answer's text; empty while it is not clear that it is one."""
        self.raw += piece
        if self._ended:
            return ""
        if not self._inside:
            begun = _ANSWER.match(self.raw)
            if begun is None:
                return ""
            self._inside, self._at = True, begun.end()
        return self._decode()

    @property
    def is_answer(self) -> bool:
        """Whether the model answers, instead of asking for a tool."""
        return self._inside

    def call(self) -> tuple[str, str] | None:
        """The tool it asks for and its arguments as JSON; None when it does not."""
        if self._inside:
            return None
        asked = read_arguments(self.raw)
        if not asked or not isinstance(name := asked.pop("tool", None), str):
            return None
        return name, msgspec.json.encode(asked).decode()

    def _decode(self) -> str:
        """Unescape what can be; an escape that is cut waits for its rest."""
        text: list[str] = []
        raw, at = self.raw, self._at
        while at < len(raw):
            sign = raw[at]
            if sign == '"':
                self._ended = True
                break
            if sign != "\\":
                text.append(sign)
                at += 1
                continue
            length = _escape_length(raw, at)
            if at + length > len(raw):
                break
            text.append(_unescaped(raw[at : at + length]))
            at += length
        self._at = at
        return "".join(text)


def _escape_length(raw: str, at: int) -> int:
    """How many characters an escape takes: a pair of surrogates is one character."""
    if raw[at + 1 : at + 2] != "u":
        return 2
    code = raw[at + 2 : at + 6].lower()
    is_first_half = len(code) == 4 and "d800" <= code <= "dbff"
    return 12 if is_first_half else 6


def _unescaped(escape: str) -> str:
    if escape[1] != "u":
        return _ESCAPES.get(escape[1], escape[1])
    try:
        return msgspec.json.decode(f'"{escape}"'.encode(), type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "\N{REPLACEMENT CHARACTER}"


class RepetitionWatch:
    """Notices when a text has begun to turn in a circle."""

    def __init__(self) -> None:
        self._tail = ""

    def feed(self, piece: str) -> bool:
        """Whether the text, with this at its end, repeats itself."""
        self._tail = (self._tail + piece)[-_LONGEST_LOOP * (_FEWEST_TURNS + 1) :]
        return is_loop(self._tail)


def is_loop(text: str) -> bool:
    """Whether a text ends with the same words again and again."""
    if not text:
        return False
    last_word = next((at for at in range(len(text) - 1, -1, -1) if text[at].isalnum()), -1)
    at = len(text) - 1
    while (at := text.rfind(text[-1], max(0, len(text) - _LONGEST_LOOP - 1), at)) >= 0:
        unit = text[at + 1 :]
        needed = _ENOUGH_LOOPED if last_word > at else _DRAWN
        turns = max(_FEWEST_TURNS, -(-needed // len(unit)))
        if len(unit) * turns <= len(text) and text.endswith(unit * turns):
            return True
    return False
