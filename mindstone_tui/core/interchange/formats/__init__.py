"""The session formats of other programs: one file each, found by name or by content."""

from __future__ import annotations

from mindstone_tui.core.interchange.formats.detection import FORMATS, format_of
from mindstone_tui.core.interchange.formats.format import Format

__all__ = ["FORMATS", "Format", "format_of"]
