"""How values are declared in this house: frozen, equal by content, named arguments only."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.StructMeta):
    """Tells type checkers what msgspec already enforces on such a struct."""
