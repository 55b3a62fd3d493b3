"""Changing one key of a TOML file and nothing else: comments, order and spelling stay.

The edit is made on the text, then proved: both texts are parsed, and they must differ in exactly
that key. A file that is written in a way this cannot follow is refused, not rewritten.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mindstone_tui.core.errors import ConfigError

_HEADER: Final = re.compile(r"\s*\[\s*([A-Za-z0-9_.-]+)\s*\]\s*(?:#.*)?$")
_ANY_HEADER: Final = re.compile(r"\s*\[")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def with_value(text: str, name: str, value: object) -> str:
    """The text of a file with `section.key` set to a value."""
    section, _, field = name.partition(".")
    lines = text.splitlines(keepends=True)
    written = f"{field} = {toml_value(value)}"
    first, last = _extent(lines, section)
    if first is None:
        gap = "\n" if text.strip() else ""
        end = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{end}{gap}[{section}]\n{written}\n"
    else:
        at = _line_of(lines, field, first, last)
        if at is None:
            while last > first and not lines[last - 1].strip():
                last -= 1
            end = "" if lines[last - 1].endswith("\n") else "\n"
            lines.insert(last, f"{end}{written}\n")
        else:
            lines[at] = _replaced(lines[at], written)
        changed = "".join(lines)
    _prove(text, changed, section, field, value)
    return changed


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
        case int():
            return str(value)
        case str():
            return _quoted(value)
        case list() | tuple():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case Mapping():
            inside = ", ".join(f"{_name(key)} = {toml_value(item)}" for key, item in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case None:
            return '""'
        case _:
            return toml_value(msgspec.to_builtins(value))


def _name(key: object) -> str:
    text = str(key)
    return text if _BARE.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _extent(lines: list[str], section: str) -> tuple[int | None, int]:
    """The lines below a section's header, up to the next header."""
    first = None
    for at, line in enumerate(lines):
        if first is not None and _ANY_HEADER.match(line):
            return first, at
        if (header := _HEADER.match(line)) and header[1] == section:
            first = at + 1
    return first, len(lines)


def _line_of(lines: list[str], field: str, first: int, last: int) -> int | None:
    pattern = re.compile(rf'\s*(?:{re.escape(field)}|"{re.escape(field)}")\s*=')
    return next((at for at in range(first, last) if pattern.match(lines[at])), None)


def _replaced(line: str, written: str) -> str:
    """The line with its value replaced and the comment behind it kept."""
    indent = line[: len(line) - len(line.lstrip())]
    comment = re.search(r"""(?:[^"'#]|"(?:[^"\\]|\\.)*"|'[^']*')*?(\s*#.*)$""", line.rstrip("\n"))
    return f"{indent}{written}{comment[1] if comment else ''}\n"


def _prove(before: str, after: str, section: str, field: str, value: object) -> None:
    expected: dict[str, Any] = tomllib.loads(before)
    expected.setdefault(section, {})[field] = tomllib.loads(f"value = {toml_value(value)}")["value"]
    try:
        found: dict[str, Any] | None = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        found = None
    if found != expected:
        raise ConfigError(
            f"{section}.{field} is written in a way that cannot be changed safely.",
            "Change it in an editor; `mindstone config path` names the file.",
        )
