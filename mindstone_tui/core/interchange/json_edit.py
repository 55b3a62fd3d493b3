"""Changing a few members of somebody else's JSON file without touching a byte of the rest.

Comments and trailing commas are understood, because several programs allow them in their settings.
A text that is no JSON is refused, never repaired.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from mindstone_tui.core import errors, patterns

_SPACE: Final = patterns.pattern_of(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TEXT: Final = patterns.pattern_of(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD: Final = patterns.pattern_of(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_BLOCK: Final = r"/\*(?:[^*]|\*(?!/))*\*/"
_EXTRA: Final = patterns.pattern_of(
    rf'"(?:[^"\\\x00-\x1f]|\\.)*"|(?P<extra>^[ \t]*//[^\n]*\n|[ \t]*//[^\r\n]*|[ \t]*{_BLOCK}'
    rf"|,(?=(?:[ \t\r\n]|//[^\n]*\n|{_BLOCK})*[}}\]]))",
    re.MULTILINE,
)
_DEEPEST: Final = 100
_WIDEST: Final = 240
"""Characters of a value that is put on one line."""


class JsonNode(msgspec.Struct):
    """One value and where it stands."""

    start: int
    end: int
    value: Any = None
    """Of a text, number or word."""
    members: list[JsonMember] | None = None
    """Of an object."""
    items: list[JsonNode] | None = None
    """Of an array."""

    def get(self, key: str) -> JsonNode | None:
        """The value of a member; the last one counts, as it does for everybody else."""
        found = [each for each in self.members or () if each.key == key]
        return found[-1].node if found else None


class JsonMember(msgspec.Struct):
    """One member of an object, from the beginning of its key."""

    key: str
    start: int
    node: JsonNode


def parse(text: str) -> JsonNode:
    """The one value of a text; raises `InterchangeError` when it is no JSON."""
    reader = _Reader(text)
    node = reader.value(reader.after_space(0), 0)
    if reader.after_space(node.end) != len(text):
        raise _broken(text, reader.after_space(node.end))
    return node


def plain(node: JsonNode) -> Any:
    """The value as Python has it."""
    if node.members is not None:
        return {each.key: plain(each.node) for each in node.members}
    if node.items is not None:
        return [plain(each) for each in node.items]
    return node.value


def line_with_extras(text: str) -> int:
    """The first line with a comment or a trailing comma, which strict readers refuse; 0 if none."""
    found = next((each for each in _EXTRA.finditer(text) if each["extra"]), None)
    return 1 + text.count("\n", 0, found.start()) if found is not None else 0


def without_extras(text: str) -> str:
    """The text as a strict reader takes it: the same, without comments and trailing commas."""
    return _EXTRA.sub(lambda found: "" if found["extra"] else found[0], text)


def with_member(text: str, way: tuple[str, ...], key: str, value: object) -> str:
    """The text with a member put into the object at the end of a way, which is made if need be."""
    node, missing = _reached(parse(text), way)
    if node.members is None:
        raise errors.InterchangeError(f"`{'.'.join(way)}` is no object there.", "Correct it first.")
    for name in reversed(missing):
        key, value = name, {key: value}
    return _inserted(text, node, f"{json.dumps(key)}: ", value, [e.node for e in node.members])


def with_item(text: str, way: tuple[str, ...], value: object) -> str:
    """The text with an item added to the array at the end of a way, which is made if need be."""
    node, missing = _reached(parse(text), way)
    if missing:
        return with_member(text, way[:-1], way[-1], [value])
    if node.items is None:
        raise errors.InterchangeError(f"`{'.'.join(way)}` is no list there.", "Correct it first.")
    return _inserted(text, node, "", value, node.items)


def without(text: str, way: tuple[str | int, ...]) -> str:
    """The text without one member or item, and without the comma that parted it."""
    node = parse(text)
    for step in way[:-1]:
        node = _child(node, step)
    if isinstance(way[-1], int):
        spans = [(each.start, each.end) for each in node.items or ()]
        at = way[-1]
    else:
        spans = [(each.start, each.node.end) for each in node.members or ()]
        at = max(n for n, each in enumerate(node.members or ()) if each.key == way[-1])
    start, end = spans[at]
    if at > 0:
        start = spans[at - 1][1]
    elif len(spans) > 1:
        end = spans[1][0]
    else:
        start, end = node.start + 1, node.end - 1
    return text[:start] + text[end:]


def _reached(node: JsonNode, way: tuple[str, ...]) -> tuple[JsonNode, tuple[str, ...]]:
    """How far a way leads, and what is missing of it."""
    for at, step in enumerate(way):
        if (found := node.get(step)) is None:
            return node, way[at:]
        node = found
    return node, ()


def _child(node: JsonNode, step: str | int) -> JsonNode:
    found = (node.items or [])[step] if isinstance(step, int) else node.get(step)
    assert found is not None
    return found


def _inserted(text: str, node: JsonNode, lead: str, value: object, before: list[JsonNode]) -> str:
    """A value put behind the last one, laid out as its neighbours are."""
    outer = _indent_of(text, node.start)
    step = _step_of(text)
    shown = json.dumps(value, ensure_ascii=False)
    on_one_line = "\n" not in text[node.start : node.end]
    if before and on_one_line and node.end - node.start + len(shown) <= _WIDEST:
        return f"{text[: before[-1].end]}, {lead}{shown}{text[before[-1].end :]}"
    has_line = bool(before) and not on_one_line
    inner = _indent_of(text, before[-1].start) if has_line else outer + step
    if len(shown) > _WIDEST:
        shown = json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{inner}")
    if before:
        at = before[-1].end
        return f"{text[:at]},\n{inner}{lead}{shown}{text[at:]}"
    return f"{text[: node.start + 1]}\n{inner}{lead}{shown}\n{outer}{text[node.end - 1 :]}"


def _indent_of(text: str, at: int) -> str:
    """The blanks at the beginning of a line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _step_of(text: str) -> str:
    """By how much the file indents."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else "  "


class _Reader(msgspec.Struct, eq=False):
    """Walks through a text."""

    _text: str

    def after_space(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> JsonNode:
        if depth > _DEEPEST:
            raise _broken(self._text, at)
        if (sign := self._text[at : at + 1]) == "{":
            return self._object(at, depth)
        if sign == "[":
            return self._array(at, depth)
        found = _TEXT.match(self._text, at) or _WORD.match(self._text, at)
        if found is None:
            raise _broken(self._text, at)
        try:
            return JsonNode(at, found.end(), value=json.loads(found[0]))
        except ValueError:
            raise _broken(self._text, at) from None

    def _object(self, start: int, depth: int) -> JsonNode:
        members: list[JsonMember] = []
        at = self.after_space(start + 1)
        while self._text[at : at + 1] != "}":
            if not _TEXT.match(self._text, at):
                raise _broken(self._text, at)
            key = self.value(at, depth + 1)
            colon = self.after_space(key.end)
            if self._text[colon : colon + 1] != ":":
                raise _broken(self._text, colon)
            node = self.value(self.after_space(colon + 1), depth + 1)
            members.append(JsonMember(key.value, at, node))
            at = self._next(node.end, "}")
        return JsonNode(start, at + 1, members=members)

    def _array(self, start: int, depth: int) -> JsonNode:
        items: list[JsonNode] = []
        at = self.after_space(start + 1)
        while self._text[at : at + 1] != "]":
            items.append(self.value(at, depth + 1))
            at = self._next(items[-1].end, "]")
        return JsonNode(start, at + 1, items=items)

    def _next(self, end: int, closing: str) -> int:
        """Where the next one begins, or the closing bracket stands."""
        at = self.after_space(end)
        if (sign := self._text[at : at + 1]) == ",":
            return self.after_space(at + 1)
        if sign != closing:
            raise _broken(self._text, at)
        return at


def _broken(text: str, at: int) -> errors.InterchangeError:
    line = text.count("\n", 0, at) + 1
    return errors.InterchangeError(f"it is no JSON from line {line} on", "Correct it first.")
