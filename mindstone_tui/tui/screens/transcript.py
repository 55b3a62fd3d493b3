"""The transcript browser: reads only the lines that are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from mindstone_tui.core.entries import Line
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.transcript.reader import Damaged
from mindstone_tui.tui import show
from mindstone_tui.tui.from_entries import whole
from mindstone_tui.tui.host import Browse
from mindstone_tui.tui.widgets.line_input import LineInput
from mindstone_tui.tui.widgets.line_list import HEADER, LineList

_AROUND_TITLE = 8
_LEAST_NAME = 12
LONGEST_SHOWN = 40_000


class TranscriptScreen(Screen[None]):
    """The list above, the line under the cursor below."""

    AUTO_FOCUS = "LineList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", id="transcript.search"),
        Binding("n", "older", "Next match", id="transcript.older"),
        Binding("a", "filter", "All / messages", id="transcript.filter"),
        Binding("r", "restore", "Restore", id="transcript.restore"),
        Binding("p", "pin", "Pin", id="transcript.pin"),
        Binding("f", "fork", "Fork", id="transcript.fork"),
        Binding("o", "open", "Open session", id="transcript.open"),
        Binding("y", "copy", "Copy", id="transcript.copy"),
        Binding("escape,q", "close", "Back", id="transcript.close"),
    ]

    _lines = query_one(LineList)

    def __init__(
        self,
        browse: Browse,
        session: str,
        where: str = "",
        *,
        command: Callable[[str], None],
        open_session: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._browse = browse
        self._session = session
        self._where = where
        self._command = command
        """Runs a slash command in the session that is shown, opening it first if needed."""
        self._open_session = open_session
        """Opens that session at a line; None where it is open already."""
        self._line: Line | Damaged | None = None
        self._wanted = ""

    def compose(self) -> ComposeResult:
        yield Static(show.line(self._session, 120, "bold"), id="title", markup=False)
        yield Static(Content.styled(HEADER, "$faint"), id="columns", markup=False)
        yield LineList(self._browse)
        yield LineInput(placeholder="search; Enter goes to the newest match above", id="search")
        with VerticalScroll(id="reading"):
            yield Static("", id="whole", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#search").display = False
        self._begin()

    @work(group="transcript")
    async def _begin(self) -> None:
        """Go where the screen was opened: `turn 7`, a line's number, its id, or the newest."""
        try:
            place = await self._place()
            await self._lines.open(place)
            if self._where and place is not None and not self._where.startswith("turn "):
                await self._go_to(place)
            self._title()
        except MindstoneError as error:
            self.notify(f"{error.what} {error.remedy}", severity="error", markup=False)

    async def _place(self) -> int | None:
        where = self._where
        if where.startswith("turn "):
            return await self._browse.first_of(int(where.removeprefix("turn ")))
        if where.isdecimal():
            return int(where)
        return await self._browse.place_of(where) if where else None

    def on_resize(self) -> None:
        """The name gives way to what stands behind it."""
        self._title()

    def _title(self) -> None:
        """The session, and whether all of it is listed."""
        kept = "messages; a shows every line" if self._lines.only_messages else "every line"
        room = max(self.size.width - len(kept) - _AROUND_TITLE, _LEAST_NAME)
        name = show.line(self._session.removeprefix("agent:default:"), room, "bold")
        title = Content.assemble(name, (f"  {kept}", "$muted"))
        self.query_one("#title", Static).update(title)

    @work(exclusive=True, group="filter")
    async def action_filter(self) -> None:
        """Show messages alone, or every line."""
        await self._lines.show_messages(not self._lines.only_messages)
        self._title()

    @on(LineList.Highlighted)
    def _read(self, event: LineList.Highlighted) -> None:
        self._line = event.line
        text = Content("")
        if event.line is not None:
            shown = whole(event.line)
            text = show.text(shown[:LONGEST_SHOWN])
            if len(shown) > LONGEST_SHOWN:
                text += Content.styled("\n… the rest is in the transcript file", "$muted")
        self.query_one("#whole", Static).update(text)
        self.query_one("#reading").scroll_home(animate=False)

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.display = True
        search.focus()

    @on(Input.Submitted, "#search")
    def _search(self, event: Input.Submitted) -> None:
        self._wanted = event.value
        self.refresh_bindings()
        self._lines.focus()
        self._find(self._number + 1)

    def action_older(self) -> None:
        self._find(self._number)

    @property
    def _number(self) -> int:
        return self._lines.number_at(self._lines.cursor) or 0

    @work(exclusive=True, group="search")
    async def _find(self, before: int) -> None:
        if not self._wanted:
            return
        found = await self._browse.search(self._wanted, before)
        if found is None:
            self.notify("Nothing older matches.", markup=False)
        else:
            await self._go_to(found)
            self._title()

    async def _go_to(self, number: int) -> None:
        """Put the cursor on this very line; one that is no message shows among all the others."""
        await self._lines.go_to(number)
        if self._number != number:
            await self._lines.show_messages(False)
            await self._lines.go_to(number)

    def action_restore(self) -> None:
        self._do("restore")

    def action_pin(self) -> None:
        self._do("pin")

    def action_fork(self) -> None:
        if self._do("fork"):
            self.dismiss()

    def action_open(self) -> None:
        """Open the session that is shown, at this very line: there turns can be restored."""
        self.dismiss()
        if self._open_session is not None:
            self._open_session(str(self._number))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Turns can only be restored to the window of the open session."""
        if action in ("restore", "pin"):
            return self._open_session is None
        if action == "older":
            return bool(self._wanted)
        return self._open_session is not None if action == "open" else True

    def _do(self, verb: str) -> bool:
        """Run a command on the turn under the cursor, if there is one."""
        if not isinstance(self._line, Line) or not self._line.turn:
            self.notify("This line is not part of a turn.", timeout=2, markup=False)
            return False
        self._command(f"/{verb} turn {self._line.turn}")
        return True

    def action_copy(self) -> None:
        if self._line is not None:
            self.app.copy_to_clipboard(whole(self._line))
            self.notify("Copied", timeout=2, markup=False)

    def action_close(self) -> None:
        search = self.query_one("#search")
        if search.display and search.has_focus:
            search.display = False
            self._lines.focus()
        else:
            self.dismiss()
