"""The table of keys: what each setting is called, what it holds and what it is for.

It is read from the declarations in `settings`, so a setting is written down in one place only.
"""

import ast
import difflib
import functools
import inspect
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mindstone_tui.core.config import settings as declarations
from mindstone_tui.core.config.settings import Settings, SettingsSection
from mindstone_tui.core.errors import ConfigError


def with_value(text: str, name: str, value: object) -> str:
    """The text of a file with `section.key` set to a value; everything else stays as it is."""
    import tomlkit  # 20 ms, for the few commands that write settings
    from tomlkit.exceptions import TOMLKitError

    section, _, field = name.partition(".")
    expected: dict[str, Any] = tomllib.loads(text)
    expected.setdefault(section, {})[field] = tomllib.loads(f"x = {toml_value(value)}")["x"]
    try:
        document = tomlkit.parse(text)
        within = document.setdefault(section, tomlkit.table())
        if isinstance(value, Mapping) and value and all(map(_is_table, value.values())):
            _set_tables(within, field, value)
        else:
            within[field] = _item(value)
        changed = tomlkit.dumps(document)
        if tomllib.loads(changed) == expected:
            return changed
    except (TOMLKitError, ValueError):
        pass  # the file is TOML, as was just seen, but not such as can be edited
    raise ConfigError(
        f"{section}.{field} is written in a way that cannot be changed safely.",
        "Change it in an editor; `mindstone config path` names the file.",
    )


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping | SettingsSection)


def _set_tables(within: Any, field: str, tables: Mapping[str, object]) -> None:
    """Write tables by name below a field as people write them, `[section.field.name]` each.

    One that says the same already stays as it is, with its comments.
    """
    from tomlkit import table
    from tomlkit.items import Table

    if not isinstance(within.get(field), Table):
        within[field] = table(is_super_table=True)
    for name in [name for name in within[field] if name not in tables]:
        del within[field][name]
    for name, value in tables.items():
        wanted = _item(value)
        if (known := within[field].get(name)) is None or known.unwrap() != wanted.unwrap():
            within[field][name] = table()
            within[field][name].update(wanted)


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    return str(_item(value).as_string())


def _item(value: object) -> Any:
    from tomlkit import inline_table, item

    match value:
        case None:
            return item("")
        case float() if value.is_integer() and abs(value) < 2**53:
            return item(int(value))
        case list() | tuple():
            made = item([])
            for each in value:
                made.append(_item(each))
            return made
        case Mapping():
            table = inline_table()
            for key, each in value.items():
                table[str(key)] = _item(each)
            return table
        case bool() | int() | float() | str():
            return item(value)
        case SettingsSection():  # what is as always need not be written down
            usual, fields = type(value)(), {}
            for name in value.__struct_fields__:
                if (own := getattr(value, name)) != getattr(usual, name):
                    fields[name] = own
            return _item(fields)
        case _:
            return _item(msgspec.to_builtins(value))


class SettingKey(msgspec.Struct, frozen=True):
    """One setting."""

    name: str
    """As in `context.ceiling`."""
    type: Any
    default: Any
    declared: str
    """Where it is declared: `ContextSettings.ceiling`."""
    declared_type: Any = None
    """The type with its range."""

    @property
    def text(self) -> str:
        """What it does, in a sentence."""
        return _field_texts().get(self.declared, "")

    @property
    def wants(self) -> str:
        """The type in words that a person would use."""
        return in_words(self.type)

    @property
    def range(self) -> tuple[float, float] | None:
        """From where to where a number may go, where that is declared."""
        for part in (self.declared_type, *typing.get_args(self.declared_type)):
            meta = next((m for m in getattr(part, "__metadata__", ()) if m.ge is not None), None)
            if meta is not None:
                return meta.ge, meta.le
        return None


def all_keys() -> dict[str, SettingKey]:
    """Every setting by name, in the order in which they are declared."""
    return {name: key_named(name) for name in all_names()}


def all_names() -> Iterator[str]:
    """The name of every setting, in that order."""
    whole = Settings()
    for section in whole.__struct_fields__:
        yield from (f"{section}.{field}" for field in getattr(whole, section).__struct_fields__)


@functools.cache
def _keys_of(section: str) -> dict[str, SettingKey]:
    """The settings of one section: to read all takes 10 ms, and a command is given one or two."""
    if section not in Settings.__struct_fields__:
        return {}
    values = getattr(Settings(), section)
    kind = type(values)
    whole = typing.get_type_hints(kind, include_extras=True)
    found: dict[str, SettingKey] = {}
    for field, hint in typing.get_type_hints(kind).items():
        name, shown = f"{section}.{field}", f"{kind.__name__}.{field}"
        found[name] = SettingKey(name, hint, getattr(values, field), shown, whole[field])
    return found


def sections() -> dict[str, str]:
    """What each section is for."""
    kinds = typing.get_type_hints(Settings)
    return {name: inspect.getdoc(kind) or "" for name, kind in kinds.items()}


def key_named(name: str, where: str = "") -> SettingKey:
    """The setting with this name, or an error that knows a better spelling."""
    if key := _keys_of(name.partition(".")[0]).get(name):
        return key
    at = f"{where}: there" if where else "There"
    near = nearest(name, all_names())
    hint = f"Did you mean {near}? " if near else ""
    raise ConfigError(f"{at} is no setting {name}.", f"{hint}`mindstone config show` lists all.")


def nearest(name: str, names: Iterable[str]) -> str:
    """The existing name that was probably meant; empty when nothing is like it."""
    choices = list(names)
    if close := difflib.get_close_matches(name, choices, 1, 0.6):
        return close[0]
    last = name.rpartition(".")[2]
    if same := [choice for choice in choices if choice.rpartition(".")[2] == last]:
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


def in_words(hint: Any) -> str:
    """A type in words that a person would use."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(inside)
    if origin is tuple:
        return "a list of " + ("texts" if inside[0] is str else "numbers")
    if origin is dict:
        return "a table of texts" if inside[1] is str else "a table"
    if inside:
        return " or ".join(in_words(part) for part in inside if part is not type(None))
    if isinstance(hint, type) and issubclass(hint, SettingsSection):
        return "a table"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[hint]
