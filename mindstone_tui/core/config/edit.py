"""The table of keys: what each setting is called, what it holds and what it is for.

It is read from the declarations in `settings`, so a setting is written down in one place only.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import json
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mindstone_tui.core.config import settings as declarations
from mindstone_tui.core.config.settings import Settings, SettingsSection
from mindstone_tui.core.errors import ConfigError
from mindstone_tui.core.patterns import pattern_of

_HEADER: Final = pattern_of(r"\s*\[\s*([A-Za-z0-9_.-]+)\s*\]\s*(?:#.*)?$")
_ANY_HEADER: Final = pattern_of(r"\s*\[")
_BARE: Final = pattern_of(r"[A-Za-z0-9_-]+")


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


NEVER_OFF: Final = (
    (
        pattern_of(
            r"transcript|history\.|retention|retain|cleanup|expire|record(ing|ed)?\b|save\b"
        ),
        "Nothing leaves history: the transcript is always written and never cleaned up.",
    ),
    (
        pattern_of(
            r"(index|vectori[sz]|embed)(ed|ing|e)?_?(before|first|on)|require_index|unindexed"
            r"|read_?back|index\."
        ),
        "Indexed, read back, then pruned: nothing leaves the window before it can be found again.",
    ),
)
"""Switches that people may ask for and that do not exist, each with the law that forbids it."""


class SettingKey(msgspec.Struct, frozen=True):
    """One setting."""

    name: str
    """As in `context.ceiling`."""
    type: Any
    default: Any
    declared: str
    """Where it is declared: `ContextSettings.ceiling`."""

    @property
    def text(self) -> str:
        """What it does, in a sentence."""
        return _field_texts().get(self.declared, "")

    @property
    def wants(self) -> str:
        """The type in words that a person would use."""
        return _in_words(self.type)


@functools.cache
def all_keys() -> dict[str, SettingKey]:
    """Every setting by name, in the order in which they are declared."""
    found: dict[str, SettingKey] = {}
    for section, kind in typing.get_type_hints(Settings).items():
        for field, hint in typing.get_type_hints(kind).items():
            name = f"{section}.{field}"
            default = getattr(getattr(Settings(), section), field)
            found[name] = SettingKey(name, hint, default, f"{kind.__name__}.{field}")
    return found


def sections() -> dict[str, str]:
    """What each section is for."""
    kinds = typing.get_type_hints(Settings)
    return {name: inspect.getdoc(kind) or "" for name, kind in kinds.items()}


def key_named(name: str, where: str = "") -> SettingKey:
    """The setting with this name, or an error that knows a better spelling."""
    if key := all_keys().get(name):
        return key
    at = f"{where}: there" if where else "There"
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    for pattern, law in NEVER_OFF:
        if pattern.search(plain):
            raise ConfigError(
                f"{at} is no setting {name}, and there will be none. {law}",
                "Remove it. `mindstone config show` lists what can be set.",
            )
    near = nearest(name, all_keys())
    hint = f"Did you mean {near}? " if near else ""
    raise ConfigError(f"{at} is no setting {name}.", f"{hint}`mindstone config show` lists all.")


def nearest(name: str, names: Iterable[str]) -> str:
    """The existing name that was probably meant; empty when nothing is like it."""
    choices = list(names)
    if close := difflib.get_close_matches(name, choices, 1, 0.6):
        return close[0]
    last = name.rpartition(".")[2]
    same = [choice for choice in choices if choice.rpartition(".")[2] == last]
    if same:
        return same[0]
    tails = {choice.rpartition(".")[2]: choice for choice in choices}
    close = difflib.get_close_matches(last, tails, 1, 0.75)
    return tails[close[0]] if close else ""


@functools.cache
def _field_texts() -> dict[str, str]:
    """The text below each field: `ContextSettings.ceiling` → what it does."""
    texts: dict[str, str] = {}
    for kind in ast.parse(inspect.getsource(declarations)).body:
        if not isinstance(kind, ast.ClassDef):
            continue
        for field, below in zip(kind.body, kind.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[f"{kind.name}.{name}"] = " ".join(text.split())
    return texts


def _in_words(hint: Any) -> str:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(inside)
    if origin is tuple:
        return "a list of " + ("texts" if inside[0] is str else "numbers")
    if origin is dict:
        return "a table"
    if inside:
        return " or ".join(_in_words(part) for part in inside if part is not type(None))
    if isinstance(hint, type) and issubclass(hint, SettingsSection):
        return "a table"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[hint]
