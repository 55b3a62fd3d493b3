"""How values are declared in this house: frozen, equal by content, named arguments only."""

from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import msgspec

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.StructMeta):
    """Tells type checkers what msgspec already enforces on such a struct."""


def shared(kind: type[msgspec.Struct], source: object) -> dict[str, Any]:
    """What another value has of the fields of a kind, by their names."""
    return {name: getattr(source, name) for name in kind.__struct_fields__}


def alike(kind: type[S], source: object, /, **own: Any) -> S:
    """A value of a kind: what is given, and what another value has under the same names."""
    names = (name for name in kind.__struct_fields__ if name not in own and hasattr(source, name))
    return kind(**{name: getattr(source, name) for name in names}, **own)


def picked(source: object, names: str) -> dict[str, Any]:
    """Some fields of a value for a program, in this order: `session line=seq`; `=` renames one."""
    pairs = (name.partition("=") for name in names.split())
    return {name: getattr(source, field or name) for name, _, field in pairs}


def shipped(module: str, name: str, kind: type[T]) -> T:
    """The table in a JSON file that stands beside a module."""
    return msgspec.json.decode(Path(module).with_name(name).read_bytes(), type=kind)
