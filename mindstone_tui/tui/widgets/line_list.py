"""A list of any length: rows are read when they come into view, a page at a time."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar, Final

from rich.segment import Segment
from textual import events, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions

from mindstone_tui.core.entries import Line
from mindstone_tui.core.events.narrate import describe_line
from mindstone_tui.core.transcript.reader import Damaged
from mindstone_tui.tui import show
from mindstone_tui.tui.host import Browse

PAGE: Final = 100
KEPT: Final = 40
"""Pages that are remembered."""


class LineList(ScrollView, can_focus=True):
    """The lines of a session, one a row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="lines.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="lines.down"),
        Binding("pageup", "leap(-1)", "Page up", show=False, id="lines.page-up"),
        Binding("pagedown", "leap(1)", "Page down", show=False, id="lines.page-down"),
        Binding("home,g", "go(0)", "Oldest", show=False, id="lines.oldest"),
        Binding("end,G", "go(-1)", "Newest", show=False, id="lines.newest"),
        Binding("enter", "choose", "Open", show=False, id="lines.open"),
    ]

    DEFAULT_CSS = """
    LineList { overflow-x: hidden; overflow-y: scroll; }
    """

    cursor = reactive(0, init=False)

    class Highlighted(Message):
        """Another row has the cursor."""

        def __init__(self, line: Line | Damaged | None) -> None:
            super().__init__()
            self.line = line

    def __init__(self, browse: Browse) -> None:
        super().__init__()
        self._browse = browse
        self._length = 0
        self._pages: OrderedDict[int, list[Line | Damaged]] = OrderedDict()
        self._wanted: set[int] = set()

    async def open(self, at: int | None) -> None:
        """Find out how long the list is and go to a row, or to the newest."""
        self._length = await self._browse.length()
        self.virtual_size = Size(0, self._length)
        await self.go_to(self._length - 1 if at is None else at)

    async def go_to(self, at: int) -> None:
        """Put the cursor on a row, with what is around it already read."""
        at = max(0, min(at, self._length - 1))
        await self._read(at // PAGE)
        self.set_reactive(LineList.cursor, -1)
        self.cursor = at

    def line_at(self, at: int) -> Line | Damaged | None:
        """A row that was read, or None."""
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
        if self.cursor // PAGE == page:
            self.post_message(self.Highlighted(self.line_at(self.cursor)))

    # drawing

    def render_line(self, y: int) -> Strip:
        row = y + int(self.scroll_offset.y)
        width = self.size.width
        if row >= self._length:
            return Strip.blank(width, self.rich_style)
        style = self.visual_style
        if row == self.cursor:
            ground = "on $panel" if self.has_focus else "on $surface"
            style = style + self._get_style("on $foreground" if self.app.no_color else ground)
        line = self.line_at(row)
        if line is None:
            self._want(row // PAGE)
            return Strip([Segment(f"{row:>8}  …", style.rich_style)]).adjust_cell_length(
                width, style.rich_style
            )
        return self._drawn(line, row, width, style)

    def _want(self, page: int) -> None:
        if page not in self._wanted:
            self._wanted.add(page)
            self._fetch(page)

    def _drawn(self, line: Line | Damaged, row: int, width: int, style: Style) -> Strip:
        content = row_of(line, row, width)
        strips = content.render_strips(
            width, 1, style, RenderOptions(self._get_style, {"text_wrap": "nowrap"})
        )
        return strips[0].adjust_cell_length(width, style.rich_style)

    # moving

    def watch_cursor(self, at: int) -> None:
        self.scroll_to_region(Region(0, at, 1, 1), animate=False, force=True)
        self.post_message(self.Highlighted(self.line_at(at)))
        self.refresh()

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(self._length - 1, self.cursor + by))

    def action_leap(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 1))

    def action_go(self, to: int) -> None:
        self.cursor = max(0, self._length - 1) if to < 0 else to

    def action_choose(self) -> None:
        self.post_message(self.Highlighted(self.line_at(self.cursor)))

    def on_click(self, event: events.Click) -> None:
        self.cursor = max(0, min(self._length - 1, event.y + int(self.scroll_offset.y)))


_COLOURS = {"user": "$context-you", "assistant": "$foreground", "tool": "$success"}


def row_of(line: Line | Damaged, row: int, width: int) -> Content:
    """A line of the transcript as one row."""
    text = describe_line(line).text
    if isinstance(line, Damaged):
        return Content.assemble((f"{row:>8}  ", "$muted"), (text, "$error"))
    when = line.ts[:16].replace("T", " ")
    return Content.assemble(
        (f"{line.seq:>8}  {when}  {line.turn:>5}  ", "$muted"),
        (f"{line.role:<10}", _COLOURS.get(line.role, "$faint")),
        show.line(text, max(width, 40)),
    )
