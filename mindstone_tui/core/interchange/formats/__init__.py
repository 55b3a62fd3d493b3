"""The session formats of other programs: one file each, found by name or by content."""

from __future__ import annotations

from .base import Format
from .detect import door, format_of, formats

__all__ = ["Format", "door", "format_of", "formats"]
