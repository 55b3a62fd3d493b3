"""The transcript browser: rows are read when they come into view, a page at a time."""

import bisect
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from rich.segment import Segment
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions
from textual.widgets import Footer, Input, Static

from mindstone_tui.core.entries import Line, standings, store
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.events.narrate import describe_line
from mindstone_tui.core.numbers import local
from mindstone_tui.core.transcript.reader import Damaged, Item
from mindstone_tui.tui import from_entries, host, show
from mindstone_tui.tui.widgets.base import LineInput

PAGE: Final = 100
KEPT: Final = 40
"""Pages that are remembered."""


class LineList(ScrollView, can_focus=True):
    """The lines of a session, one a row."""

    BINDINGS = [
        Binding("up,k", "move(-1)", "Up", show=False, id="lines.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="lines.down"),
        Binding("pageup", "leap(-1)", "Page up", show=False, id="lines.page-up"),
        Binding("pagedown", "leap(1)", "Page down", show=False, id="lines.page-down"),
        Binding("home,g", "go(0)", "Oldest", show=False, id="lines.oldest"),
        Binding("end,G", "go(-1)", "Newest", show=False, id="lines.newest"),
        Binding("enter", "choose", "Open", show=False, id="lines.open"),
    ]

    cursor = reactive(0, init=False)

    class Highlighted(Message):
        """Another row has the cursor."""

        def __init__(self, line: Item | None) -> None:
            super().__init__()
            self.line = line

    def __init__(self, browse: host.Browse) -> None:
        super().__init__()
        self._browse = browse
        self._length = 0
        self._standings = standings.Standings()
        self._pages: OrderedDict[int, list[Item]] = OrderedDict()
        self._wanted: set[int] = set()
        self.only_messages = True
        """Show what was said and what tools gave back, and leave out the bookkeeping."""
        self._chosen: list[int] = []
        """Numbers of the lines that are shown while only some are, ascending."""
        self._unread = 0
        """Lines before the chosen ones that nobody looked at yet."""

    async def open(self, at: int | None) -> None:
        """Find out how long the list is and go to a line, or to the newest."""
        self._length = await self._browse.length()
        self._standings = await self._browse.standings()
        await self.go_to(self._length - 1 if at is None else at)

    async def go_to(self, number: int) -> None:
        """Put the cursor on a line, with what is around it already read.

        While only messages are shown it is the line itself if it is one, else the next that is.
        """
        number = max(0, min(number, self._length - 1))
        if self.only_messages:
            await self._choose_around(number)
        else:
            await self._read(number // PAGE)
        self.virtual_size = Size(0, self.rows)
        self.set_reactive(LineList.cursor, -1)
        self.cursor = self._row_of(number)

    async def show_messages(self, only: bool) -> None:
        """Show messages alone, or every line, and stay where the cursor is."""
        at = self.number_at(self.cursor)
        self.only_messages = only
        await self.go_to(self._length - 1 if at is None else at)

    @property
    def rows(self) -> int:
        """How many rows there are now; while only messages are shown, older ones may follow."""
        return len(self._chosen) if self.only_messages else self._length

    def number_at(self, row: int) -> int | None:
        """The number of the line that a row shows."""
        if not self.only_messages:
            return row if 0 <= row < self._length else None
        return self._chosen[row] if 0 <= row < len(self._chosen) else None

    def _row_of(self, number: int) -> int:
        if not self.only_messages:
            return number
        return max(0, min(bisect.bisect_left(self._chosen, number), len(self._chosen) - 1))

    async def _choose_around(self, number: int) -> None:
        """Look through as many lines as it takes to have a page of messages up to this one."""
        if not self._chosen:
            self._unread = self._length
        while self._unread and (
            self._unread > number or bisect.bisect_right(self._chosen, number) < PAGE
        ):
            await self._choose_older()

    async def _choose_older(self) -> None:
        page = (self._unread - 1) // PAGE
        await self._read(page)
        lines = self._pages[page][: self._unread - page * PAGE]
        self._chosen[:0] = [page * PAGE + at for at, line in enumerate(lines) if _is_message(line)]
        self._unread = page * PAGE

    def standing_of(self, line: Item) -> str:
        """What is to be known about a line before it is believed."""
        known = self._standings.of(line) if isinstance(line, Line) else ()
        return " · ".join(each.words for each in known)

    def line_at(self, row: int) -> Item | None:
        """A row that was read, or None."""
        if (at := self.number_at(row)) is None:
            return None
        page = self._pages.get(at // PAGE)
        return page[at % PAGE] if page and at % PAGE < len(page) else None

    async def _read(self, page: int) -> None:
        if page not in self._pages and page * PAGE < self._length:
            self._pages[page] = list(await self._browse.lines(page * PAGE, PAGE))
            while len(self._pages) > KEPT:
                self._pages.popitem(last=False)

    @work(group="pages")
    async def _fetch(self, page: int) -> None:
        await self._read(page)
        self._wanted.discard(page)
        self.refresh()
        if (at := self.number_at(self.cursor)) is not None and at // PAGE == page:
            self.post_message(self.Highlighted(self.line_at(self.cursor)))

    @work(exclusive=True, group="older")
    async def _reach_up(self) -> None:
        """Show older messages above; the cursor stays on its line."""
        at = self.number_at(self.cursor)
        before = len(self._chosen)
        while self._unread and len(self._chosen) < before + PAGE:
            await self._choose_older()
        self.virtual_size = Size(0, self.rows)
        if at is not None:
            self.cursor = self._row_of(at)

    # drawing

    def render_line(self, y: int) -> Strip:
        row = y + int(self.scroll_offset.y)
        width = self.size.width
        if row >= self.rows:
            return Strip.blank(width, self.rich_style)
        style = self.visual_style
        if row == self.cursor:
            ground = "on $panel" if self.has_focus else "on $surface"
            style = style + self._get_style("on $foreground" if self.app.no_color else ground)
        line = self.line_at(row)
        number = self.number_at(row) or 0
        if line is None:
            self._want(number // PAGE)
            return Strip([Segment(f"{number:>8}  …", style.rich_style)]).adjust_cell_length(
                width, style.rich_style
            )
        return self._drawn(line, number, width, style, self._new_day(row, line))

    def _new_day(self, row: int, line: Item) -> bool:
        """Whether a row is the first of its day, or the first in view."""
        above = self.line_at(row - 1) if row > int(self.scroll_offset.y) else None
        if isinstance(above, Line) and isinstance(line, Line):
            return local(above.ts)[:10] != local(line.ts)[:10]
        return True

    def _want(self, page: int) -> None:
        if page not in self._wanted:
            self._wanted.add(page)
            self._fetch(page)

    def _drawn(self, line: Item, number: int, width: int, style: Style, dated: bool) -> Strip:
        content = row_of(line, number, width, self.standing_of(line), dated=dated)
        strips = content.render_strips(
            width, 1, style, RenderOptions(self._get_style, {"text_wrap": "nowrap"})
        )
        return strips[0].adjust_cell_length(width, style.rich_style)

    # moving

    def watch_cursor(self, at: int) -> None:
        self.scroll_to_region(Region(0, at, 1, 1), animate=False, force=True)
        self.post_message(self.Highlighted(self.line_at(at)))
        self.refresh()
        if self.only_messages and self._unread and at < PAGE // 4:
            self._reach_up()

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(self.rows - 1, self.cursor + by))

    def action_leap(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 1))

    def action_go(self, to: int) -> None:
        if to < 0:
            self.cursor = max(0, self.rows - 1)
        elif self.only_messages and self._unread:
            self._go_to_oldest()
        else:
            self.cursor = to

    @work(exclusive=True, group="older")
    async def _go_to_oldest(self) -> None:
        while self._unread:
            await self._choose_older()
        self.virtual_size = Size(0, self.rows)
        self.cursor = 0

    def action_choose(self) -> None:
        self.post_message(self.Highlighted(self.line_at(self.cursor)))

    def on_click(self, event: events.Click) -> None:
        self.cursor = max(0, min(self.rows - 1, event.y + int(self.scroll_offset.y)))


_COLOURS = {"user": "$context-you", "assistant": "$foreground", "tool": "$success"}
_MESSAGES: Final = frozenset(
    ["user_message", "assistant_message", "assistant_partial", "tool_returned"]
)
HEADER: Final = f"{'line':>8}  {'when':<16}  {'turn':>5}  {'who':<10}what"


def _is_message(line: Item) -> bool:
    """Whether somebody said it or a tool gave it back; a damaged line is never left out."""
    return isinstance(line, Damaged) or line.kind in _MESSAGES


def row_of(line: Item, row: int, width: int, standing: str = "", *, dated: bool = True) -> Content:
    """A line of the transcript as one row; the day stands only where it is new."""
    text = describe_line(line).text
    if isinstance(line, Damaged):
        return Content.assemble((f"{row:>8}  ", "$muted"), (text, "$error"))
    when = local(line.ts)
    when = when if dated else f"{'':<10}{when[10:]}"
    return Content.assemble(
        (f"{line.seq:>8}  {when}  {line.turn:>5}  ", "$muted"),
        (f"{line.role:<10}", _COLOURS.get(line.role, "$faint")),
        show.line(standing, _LONGEST_STANDING, "$warning"),
        "  " if standing else "",
        show.line(text, max(width, 40)),
    )


_LONGEST_STANDING: Final = 60
_AROUND_TITLE = 8
_LEAST_NAME = 12
_BESIDE: Final = 12
"""Lines around a call's result in which what it changed is written down."""
LONGEST_SHOWN = 40_000


class TranscriptScreen(Screen[None]):
    """The list above, the line under the cursor below."""

    AUTO_FOCUS = "LineList"
    BINDINGS = [
        Binding("slash", "search", "Search", id="transcript.search"),
        Binding("n", "older", "Next match", id="transcript.older"),
        Binding("a", "filter", "All / messages", id="transcript.filter"),
        Binding("r", "restore", "Restore", id="transcript.restore"),
        Binding("p", "pin", "Pin", id="transcript.pin"),
        Binding("f", "fork", "Fork", id="transcript.fork"),
        Binding("b", "blame", "Blame file", id="transcript.blame"),
        Binding("o", "open", "Open session", id="transcript.open"),
        Binding("y", "copy", "Copy", id="transcript.copy"),
        Binding("escape,q", "close", "Back", id="transcript.close"),
    ]

    _lines = query_one(LineList)

    def __init__(
        self,
        browse: host.Browse,
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
        self._line: Item | None = None
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
        self.query_one("#title", Static).update(Content.assemble(name, (f"  {kept}", "$muted")))

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
            shown = from_entries.whole(event.line)
            text = show.text(shown[:LONGEST_SHOWN])
            if standing := self._lines.standing_of(event.line):
                text = Content.assemble(show.line(standing, 200, "$warning"), "\n", text)
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
        if (found := await self._browse.search(self._wanted, before)) is None:
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

    @work(exclusive=True, group="blame")
    async def action_blame(self) -> None:
        """Say which turn made each line of the file that the call under the cursor changed."""
        call = getattr(self._line.entry, "call", "") if isinstance(self._line, Line) else ""
        around = await self._browse.lines(max(self._number - _BESIDE, 0), 2 * _BESIDE + 1)
        for line in around if call else ():
            entry = line.entry if isinstance(line, Line) else None
            if isinstance(entry, store.FilesChanged) and entry.call == call and entry.changes:
                self._command(f"/blame {entry.root}/{entry.changes[0].path}")
                self.dismiss()
                return
        self.notify("This line changed no file that is kept.", timeout=2, markup=False)

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
            self.app.copy_to_clipboard(from_entries.whole(self._line))
            self.notify("Copied", timeout=2, markup=False)

    def action_close(self) -> None:
        search = self.query_one("#search")
        if search.display and search.has_focus:
            search.display = False
            self._lines.focus()
        else:
            self.dismiss()
