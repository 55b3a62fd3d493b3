"""What the transcript remembers.

An entry is one line of JSONL. Entries are values: frozen, comparable, and complete enough that
folding them from the top rebuilds the session. Their names are past tense and never change.
The envelope around an entry is documented field by field in `line`; the kinds stand in the files
beside it, a family each, with a docstring per kind and field.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import msgspec

from mindstone_tui.core.entries import conversation, derived, line, store, window
from mindstone_tui.core.entries.base import (
    ZONES,
    Blob,
    Entry,
    Image,
    Label,
    Part,
    Role,
    Sampling,
    Span,
    ToolCall,
    ToolSchema,
    Usage,
    Zone,
    spans_of,
)
from mindstone_tui.core.entries.line import (
    IMPORTED,
    Draft,
    Line,
    Malformed,
    Message,
    Request,
    Unknown,
)

__all__ = [
    "IMPORTED",
    "KINDS",
    "WINDOW_CHANGES",
    "ZONES",
    "Blob",
    "Draft",
    "Entry",
    "Image",
    "Label",
    "Line",
    "Malformed",
    "Message",
    "Part",
    "Request",
    "Role",
    "Sampling",
    "Span",
    "ToolCall",
    "ToolSchema",
    "Unknown",
    "Usage",
    "Zone",
    "decode_line",
    "spans_of",
]

KINDS: Final = MappingProxyType(
    {
        str(kind.__struct_config__.tag): kind
        for family in (conversation, window, derived, store)
        for kind in vars(family).values()
        if isinstance(kind, type) and issubclass(kind, Entry) and kind is not Entry
    }
)
"""Every kind this version writes, by name."""

WINDOW_CHANGES: Final = frozenset(
    name for name, kind in KINDS.items() if "state" in kind.__struct_fields__
)
"""Kinds that carry a `WindowState`."""


class _Decoders(dict[str, "msgspec.json.Decoder[Entry] | None"]):
    """A decoder for each kind, made when the first line of it is read; None for unknown kinds.

    To make them all would take a fifth of the time in which a command starts.
    """

    def __missing__(self, name: str) -> msgspec.json.Decoder[Entry] | None:
        if name not in KINDS:
            return None
        self[name] = made = msgspec.json.Decoder(KINDS[name])
        return made


_DECODERS: Final = _Decoders()


def decode_line(raw: bytes) -> Line:
    """Read one line of a transcript, without its newline; raises `Malformed`."""
    return line.decode(raw, _DECODERS)
