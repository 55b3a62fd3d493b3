"""What every event is."""

from __future__ import annotations

import msgspec

from mindstone_tui.core.entries.base import kind_of
from mindstone_tui.core.values import Value


class Event(
    msgspec.Struct,
    metaclass=Value,
    frozen=True,
    kw_only=True,
    tag_field="event",
    tag=kind_of,
):
    """Something a client may show."""

    @property
    def tag(self) -> str:
        """The event's name as programs see it."""
        return str(self.__struct_config__.tag)
