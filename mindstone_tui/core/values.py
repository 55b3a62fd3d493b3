"""How values are declared in this house: frozen, equal by content, named arguments only."""

from pathlib import Path
from typing import TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.StructMeta):
    """Tells type checkers what msgspec already enforces on such a struct."""


def shipped(module: str, name: str, kind: type[T]) -> T:
    """The table in a JSON file that stands beside a module."""
    return msgspec.json.decode(Path(module).with_name(name).read_bytes(), type=kind)
