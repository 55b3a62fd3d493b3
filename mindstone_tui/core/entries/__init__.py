"""What the transcript remembers.

An entry is one line of JSONL. Entries are values: frozen, comparable, and complete enough that
folding them from the top rebuilds the session. Their names are past tense and never change.
The envelope around an entry is documented field by field in `line`; the kinds stand in the files
beside it, a family each, with a docstring per kind and field.
"""

from types import MappingProxyType
from typing import Final

import msgspec

from mindstone_tui.core.entries import conversation, derived, line, store, window
from mindstone_tui.core.entries.base import ZONES as ZONES
from mindstone_tui.core.entries.base import Blob as Blob
from mindstone_tui.core.entries.base import Entry as Entry
from mindstone_tui.core.entries.base import Image as Image
from mindstone_tui.core.entries.base import Label as Label
from mindstone_tui.core.entries.base import Part as Part
from mindstone_tui.core.entries.base import Role as Role
from mindstone_tui.core.entries.base import Sampling as Sampling
from mindstone_tui.core.entries.base import Span as Span
from mindstone_tui.core.entries.base import ToolCall as ToolCall
from mindstone_tui.core.entries.base import ToolSchema as ToolSchema
from mindstone_tui.core.entries.base import Usage as Usage
from mindstone_tui.core.entries.base import Zone as Zone
from mindstone_tui.core.entries.base import spans_of as spans_of
from mindstone_tui.core.entries.line import IMPORTED as IMPORTED
from mindstone_tui.core.entries.line import Draft as Draft
from mindstone_tui.core.entries.line import Line as Line
from mindstone_tui.core.entries.line import Malformed as Malformed
from mindstone_tui.core.entries.line import Message as Message
from mindstone_tui.core.entries.line import Request as Request
from mindstone_tui.core.entries.line import Unknown as Unknown

KINDS: Final = MappingProxyType(
    {
        str(kind.__struct_config__.tag): kind
        for family in (conversation, window, derived, store)
        for kind in vars(family).values()
        if isinstance(kind, type) and issubclass(kind, Entry) and family.__name__ == kind.__module__
    }
)
"""Every kind this version writes, by name."""


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


def make_decoders() -> None:
    """Make what reads each kind now, where the first of it must hold up nobody."""
    _DECODERS.update((name, msgspec.json.Decoder(kind)) for name, kind in KINDS.items())


def decode_line(raw: bytes) -> Line:
    """Read one line of a transcript, without its newline; raises `Malformed`."""
    return line.decode(raw, _DECODERS)
