"""The session picker, with a search through all sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mindstone_tui.core import numbers
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.text import plural
from mindstone_tui.tui import show
from mindstone_tui.tui.host import Library, SessionHit, SessionRow
from mindstone_tui.tui.prompt.completion import ranked
from mindstone_tui.tui.widgets.line_input import LineInput

SHORTEST = 3
"""Letters typed before the content of sessions is searched."""


class Picked(msgspec.Struct, frozen=True):
    """The chosen session, and a line in it if a search hit was chosen."""

    key: str
    seq: int | None = None


class SessionsScreen(ModalScreen[Picked]):
    """Type to filter by name and to search all messages."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Back", id="sessions.close"),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
    ]

    _list = query_one(OptionList)

    def __init__(self, library: Library, current: str, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._library = library
        self._current = current
        self._now = now
        self._rows: Sequence[SessionRow] = ()
        self._picks: list[Picked] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Content.styled("Sessions", "bold"), markup=False)
            yield LineInput(placeholder="filter by name or search all messages", compact=True)
            yield OptionList(markup=False)
            yield Static("", id="note", markup=False)

    def on_mount(self) -> None:
        self._look("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._look(event.value.strip())

    @work(exclusive=True, group="sessions")
    async def _look(self, typed: str) -> None:
        try:
            if not self._rows:
                self._rows = await self._library.sessions()
            self._show(typed, ())
            if len(typed) >= SHORTEST:
                self._say("searching…")
                self._show(typed, await self._library.search(typed))
        except MindstoneError as error:
            self._say(f"{error.what} {error.remedy}")

    def _say(self, text: str) -> None:
        self.query_one("#note", Static).update(show.text(text, "$muted"))

    def _show(self, typed: str, hits: Sequence[SessionHit]) -> None:
        names = {f"{row.key} {row.title}": row for row in self._rows}
        rows = [names[name] for name in ranked(typed, names)] if typed else list(self._rows)
        now = self._now()
        width = max((len(row.key) for row in rows), default=0)
        options = [Option(_session(row, row.key == self._current, now, width)) for row in rows]
        places = [_place(hit) for hit in hits]
        room = max((len(place) for place in places), default=0)
        options += [Option(_hit(hit, place, room)) for hit, place in zip(hits, places, strict=True)]
        self._picks = [Picked(row.key) for row in rows] + [Picked(h.key, h.seq) for h in hits]
        self._list.clear_options()
        self._list.add_options(options)
        if options:
            self._list.highlighted = 0
        self._say(_found(len(rows), len(hits), typed))

    def action_move(self, by: int) -> None:
        if by < 0:
            self._list.action_cursor_up()
        else:
            self._list.action_cursor_down()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        if self._list.highlighted is not None:
            self.dismiss(self._picks[self._list.highlighted])

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._picks[event.option_index])


def _found(sessions: int, places: int, typed: str) -> str:
    """How much was found, and which keys work."""
    if not sessions and not places:
        return "No session or message matches." if typed else "No sessions yet."
    named = [plural(sessions, "session")] if sessions or not typed else []
    named += [f"{plural(places, 'place')} found"] if typed else []
    how = "Enter reads it there" if not sessions else "Enter opens it"
    return " · ".join([*named, f"{how}, Esc goes back"])


def _session(row: SessionRow, current: bool, now: datetime, width: int) -> Content:
    try:
        when = numbers.ago(datetime.fromisoformat(row.changed), now)
    except ValueError:
        when = ""
    key = show.line(row.key, 34, "bold")
    return Content.assemble(
        ("● " if current else "  ", "$primary"),
        key,
        " " * max(0, min(width, 34) - key.cell_length),
        (f"{when:>12}{plural(row.turns, 'turn'):>11}  ", "$muted"),
        show.line(row.title, 120),
    )


def _place(hit: SessionHit) -> str:
    """Session, turn and date; what was said matters more than the whole of a long name."""
    name = show.line(hit.key.removeprefix("agent:"), 22).plain
    return f"{name:<22} turn {hit.turn:<4} {numbers.day(hit.ts):>11}"


def _hit(hit: SessionHit, place: str, width: int) -> Content:
    return Content.assemble(
        ("↺ ", "$context-recalled"),
        (f"{place:<{width}}  ", "$muted"),
        show.line(f"{hit.speaker}: {hit.text}", 160),
    )
