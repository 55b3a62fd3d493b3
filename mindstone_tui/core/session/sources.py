"""Reading a source whole: an entry of this session, of another that recall may look into, a memory.

Whatever a prompt points to can be read again by that pointer, so nothing there is hearsay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.entries import Line, Unknown
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.errors import NoSuchEntry, SessionNameError
from mindstone_tui.core.memory.files import read_shelf
from mindstone_tui.core.places import Places, SessionKey
from mindstone_tui.core.transcript import History

Refer = Callable[[str], Line]

_ELSEWHERE: Final = re.compile(r"(agent:[^\s#]+)\s*#(\d+)")
_MEMORY: Final = re.compile(r"(?:memory/)?([\w-]+\.md)")


class Source(msgspec.Struct, frozen=True):
    """A source's whole text and what it is."""

    text: str
    finding: str
    origin: str


class Sources:
    """Everything a pointer in a prompt can lead to."""

    def __init__(
        self,
        home: Places,
        key: SessionKey,
        settings: RecallSettings,
        refer: Refer,
        open_history: Callable[[], History],
    ) -> None:
        self._home = home
        self._key = key
        self._settings = settings
        self.refer = refer
        self._open_history = open_history

    def read(self, pointer: str) -> Source:
        """What a pointer names; raises `NoSuchEntry`."""
        pointer = pointer.strip()
        if memory := _MEMORY.fullmatch(pointer):
            return self._memory(memory[1])
        if elsewhere := _ELSEWHERE.fullmatch(pointer):
            return self._elsewhere(elsewhere[1], int(elsewhere[2]))
        line = self.refer(pointer)
        with self._open_history() as history:
            return _of_line(history, line, f"history #{line.seq}")

    def _memory(self, file: str) -> Source:
        for one in read_shelf(self._home.agent(self._key.agent)).live:
            if one.file == file:
                return Source(one.memory.body, f"memory: {one.memory.name}", f"memory/{file}")
        raise NoSuchEntry(f"There is no memory {file} in force.", "`/memory` lists them.")

    def _elsewhere(self, session: str, seq: int) -> Source:
        try:
            key = SessionKey.parse(session)
        except SessionNameError as error:
            raise NoSuchEntry(error.what, error.remedy) from error
        if key == self._key:
            return self.read(f"#{seq}")
        if not self._may_look_into(key) or not self._home.session(key).transcript.exists():
            raise NoSuchEntry(
                f"{key} is not open to this session.", "`recall.scope` says where recall looks."
            )
        with History(self._home.session(key)) as history:
            return _of_line(history, history.line(seq), f"history {key} #{seq}")

    def _may_look_into(self, key: SessionKey) -> bool:
        scope = self._settings.scope
        allowed = scope == "all" or (scope == "agent" and key.agent == self._key.agent)
        return allowed and str(key) not in self._settings.exclude


def _of_line(history: History, line: Line, origin: str) -> Source:
    finding = f"#{line.seq}, {line.kind} of turn {line.turn}"
    return Source(_whole_text(history, line), finding, origin)


def _whole_text(history: History, line: Line) -> str:
    """All that an entry says; for a cut tool result, the whole output."""
    entry = history.whole(line).entry
    if isinstance(entry, ToolReturned) and entry.full:
        return history.blob(entry.full).decode("utf-8", "replace")
    if isinstance(entry, Unknown):
        return line.raw.decode("utf-8", "replace")
    text = getattr(entry, "text", None)
    return text if isinstance(text, str) else line.raw.decode("utf-8", "replace")
