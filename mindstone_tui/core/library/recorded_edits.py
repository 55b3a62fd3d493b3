"""Edits that other programs recorded exactly: what was replaced by what, without the file around.

What a command of theirs did to a file is not among them; nobody recorded it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mindstone_tui.core.bounded_json import read_arguments
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.actions import kind_of, targets_of
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.transcript import History

_TELLING: Final = 20
"""Signs, blanks apart, by which what an edit wrote is known again."""
_CREATED: Final = "File created successfully"
"""How Claude Code begins what it says of a file that was not there before."""
_PATCH: Final = "*** Begin Patch"
_FILES: Final = pattern_of(r"(?m)^\*\*\* (Add|Update|Delete|End)\b(?: File: )?(.*)\n?")
_HUNKS: Final = pattern_of(r"(?m)^@@.*\n")
_Pieces = tuple[tuple[bytes, bytes], ...]


class RecordedEdit(NamedTuple):
    """One call's edit of one file."""

    ts: str
    session: str
    seq: int
    turn: int
    path: str
    pieces: _Pieces = ()
    """What was replaced, and by what, each in one place."""
    whole: bytes | None = None
    """The file as it was written, where it was written whole."""
    created: bool = False
    """Whether there was no such file."""

    def apply(self, data: bytes | None, *, back: bool = False) -> bytes | None:
        """The content afterwards, or before; None where it cannot have been this one."""
        pieces = [piece[::-1] for piece in reversed(self.pieces)] if back else self.pieces
        if self.whole is not None or data is None:
            return self.whole
        for old, new in pieces:
            if not old or not 0 <= data.find(old) == data.rfind(old):
                return None
            data = data.replace(old, new)
        return data if pieces else None


def fitting(edits: Sequence[RecordedEdit], data: bytes) -> list[RecordedEdit]:
    """Edits of a file of which only its end is known: those whose words stand in it as written."""
    found: list[RecordedEdit] = []
    for each in reversed(edits):
        short = any(len(b"".join(new.split())) < _TELLING for _, new in each.pieces)
        before = None if short or each.whole is not None else each.apply(data, back=True)
        if before is not None and each.apply(before) == data:
            found.insert(0, each)
            data = before
    return [found[0]._replace(whole=data), *found] if found else []


def recorded_edits(history: History, folder: str) -> Iterator[RecordedEdit]:
    """The edits of a session that was imported, oldest first."""
    asked: dict[str, ToolCall] = {}
    for line in list(history.newest(("assistant_message", "tool_returned"), 1 << 40))[::-1]:
        match line.entry:
            case AssistantMessage(calls=calls) if is_imported(line) and not line.parent:
                asked |= {call.id: call for call in calls if kind_of(call.name) == "change"}
            case ToolReturned(call=call, status="ok", text=text) if call in asked:
                place = (line.ts, line.session, line.seq, line.turn)
                for path, pieces, whole, is_new in _edits(asked.pop(call), text):
                    at = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 - their names
                    yield RecordedEdit(*place, at, pieces, whole, is_new)


def _edits(call: ToolCall, said: str) -> Iterator[tuple[str, _Pieces, bytes | None, bool]]:
    """The files that a call changed: what was replaced, or what was written, in a new file."""
    fields = read_arguments(call.arguments) or {}
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    patch = next((one for one in (*texts.values(), call.arguments) if _PATCH in one), "")
    parts = _FILES.split(patch)[1:]
    for act, path, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        sides = [(_side(hunk, " -"), _side(hunk, " +")) for hunk in _HUNKS.split(body) if hunk]
        if act == "Add":
            yield path, (), b"".join(new for _, new in sides), True
        elif act != "End":
            yield path, () if "*** Move to" in body else tuple(sides), None, False
    for path in () if patch else targets_of(call)[:1]:
        match texts:
            case {"content": whole} | {"file_text": whole}:
                yield path, (), whole.encode(), said.startswith(_CREATED)
            case {"old_string": old, "new_string": new} if not fields.get("replace_all"):
                yield path, ((old.encode(), new.encode()),), None, False
            case _:  # something happened to it that is not recorded exactly
                yield path, (), None, False


def _side(hunk: str, signs: str) -> bytes:
    rows = (row or " " for row in hunk.removesuffix("\n").split("\n"))
    return "".join(f"{row[1:]}\n" for row in rows if row[0] in signs).encode()
