"""What exporters read: lines with their whole texts, cleaned, as often as they like."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from mindstone_tui.core.entries import Line, Unknown
from mindstone_tui.core.errors import PlaceError
from mindstone_tui.core.transcript import Damaged, History
from mindstone_tui.core.transcript.drafting import Clean


class Source:
    """A session's history on its way out."""

    def __init__(self, history: History, clean: Clean | None = None) -> None:
        self._history = history
        self._clean = clean
        self.session = str(history.places.key)

    def items(self) -> Iterator[Line | Damaged]:
        """Every line, in order; what cannot be read stands in its place."""
        for item in self._history.read():
            yield item if isinstance(item, Damaged) else self._ready(item)

    def lines(self) -> Iterator[Line]:
        """Every line that can be read."""
        return (item for item in self.items() if isinstance(item, Line))

    def _ready(self, line: Line) -> Line:
        # The excerpt in the line stands for a blob that is gone; `verify` names it.
        with contextlib.suppress(PlaceError):
            line = self._history.whole(line)
        return line if self._clean is None else _cleaned(line, self._clean)


def _cleaned(line: Line, clean: Clean) -> Line:
    """The line with every text in it cleaned."""
    if isinstance(line.entry, Unknown):
        fields = _mapped(line.entry.fields, clean)
        return msgspec.structs.replace(line, entry=Unknown(kind=line.entry.kind, fields=fields))
    before = msgspec.to_builtins(line.entry)
    after = _mapped(before, clean)
    if after == before:
        return line
    return msgspec.structs.replace(line, entry=msgspec.convert(after, type(line.entry)))


def _mapped(value: Any, clean: Clean) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _mapped(inner, clean) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(inner, clean) for inner in value]
    return value
