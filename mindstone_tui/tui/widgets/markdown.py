"""An answer: Markdown that grows while it is streamed and is parsed whole when it is done.

Each piece is drawn once for a width and a style and remembered, so a growing answer costs only its
last block. A cell remembers which character of the text it shows; that is how Textual selects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Offset, Region
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from mindstone_tui.core.text import for_terminal
from mindstone_tui.tui.markdown.parse import Piece, parse
from mindstone_tui.tui.widgets.base import GrowsQuietly

_BETWEEN = "  "
_NARROWEST_COLUMN = 3
LONGEST_TABLE = 20_000
"""Characters up to which a table has columns; beyond, wrapping every cell would take seconds."""


def table(rows: Sequence[Sequence[Content]], width: int, aligned: Sequence[str] = ()) -> Content:
    """Rows of cells, the header first, as lines of at most `width` cells where that is possible."""
    if sum(len(cell.plain) for row in rows for cell in row) > LONGEST_TABLE:
        return Content("\n").join(Content(_BETWEEN).join(row) for row in rows)
    if not rows:
        return Content("")
    columns = max(len(row) for row in rows)
    full = [[*row, *[Content("")] * (columns - len(row))] for row in rows]
    sides = [*aligned, *["left"] * columns][:columns]
    widths = fitted([max(row[c].cell_length for row in full) for c in range(columns)], width)
    lines: list[Content] = []
    for number, row in enumerate(full):
        lines += _row(
            [cell.stylize_before("bold") if number == 0 else cell for cell in row], widths, sides
        )
        if number == 0:
            lines.append(Content.styled(_BETWEEN.join("─" * w for w in widths), "$faint"))
    return Content("\n").join(lines)


def fitted(natural: Sequence[int], room: int) -> list[int]:
    """Column widths that fit into the room, taking from the widest first."""
    widths = [max(width, 1) for width in natural]
    excess = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - room
    while excess > 0 and max(widths) > _NARROWEST_COLUMN:
        widest = max(widths)
        at = widths.index(widest)
        second = max([w for w in widths if w < widest], default=_NARROWEST_COLUMN)
        give = max(1, min(excess, widest - max(second, _NARROWEST_COLUMN)))
        widths[at] -= give
        excess -= give
    return widths


def _row(cells: Sequence[Content], widths: Sequence[int], sides: Sequence[str]) -> list[Content]:
    wrapped = [
        [line.rstrip() for line in cell.wrap(width)] or [Content("")]
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for at in range(max(map(len, wrapped))):
        parts = [
            _set(column[at] if at < len(column) else Content(""), width, side)
            for column, width, side in zip(wrapped, widths, sides, strict=True)
        ]
        lines.append(Content(_BETWEEN).join(parts).rstrip())
    return lines


def _set(cell: Content, width: int, side: str) -> Content:
    """A cell's line on its side of the column."""
    room = max(0, width - cell.cell_length)
    before = {"right": room, "center": room // 2}.get(side, 0)
    return Content(" " * before).append(cell).extend_right(room - before)


COPY = "copy"
_NARROWEST = 8


class _Placed(msgspec.Struct, eq=False):
    """A piece at a certain width."""

    piece: Piece
    content: Content
    first_line: int
    """The number of its first line among all lines of the text."""
    lines: int
    rows: int
    """How high it is, without the empty line before it."""
    drawn: tuple[Style, list[Strip]] | None = None
    """Its rows, in the style they were last drawn in."""


class Drawing(Visual):
    """A parsed text, ready to be drawn at any width."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._placed: tuple[int, list[_Placed]] = (-1, [])
        self.lines: list[Strip] = []
        """What was drawn last."""

    def with_pieces(self, pieces: Sequence[Piece]) -> Drawing:
        """A drawing of other pieces that goes on using what was drawn for the shared ones."""
        drawing = Drawing(pieces)
        width, placed = self._placed
        pairs = zip(placed, pieces, strict=False)
        differing = (at for at, (one, piece) in enumerate(pairs) if one.piece is not piece)
        shared = next(differing, min(len(placed), len(pieces)))
        drawing._placed = (width, placed[:shared])
        return drawing

    def _place(self, width: int) -> list[_Placed]:
        if self._placed[0] != width:
            self._placed = (width, [])
        placed = self._placed[1]
        line = placed[-1].first_line + placed[-1].lines if placed else 0
        for piece in self._pieces[len(placed) :]:
            room = max(width - len(piece.rest), _NARROWEST)
            content = _at_width(piece, room)
            lines = content.plain.count("\n") + 1
            boxed = piece.code is not None
            rows = boxed + content.get_height({}, room - 2 * boxed)
            placed.append(_Placed(piece, content, line, lines, rows))
            line += lines
        return placed

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        strips: list[Strip] = []
        for at, placed in enumerate(self._place(width)):
            if placed.piece.gap and at:
                strips.append(Strip.blank(width, style.rich_style))
            strips += self._draw(placed, width, style, options)
        self.lines = strips if height is None else strips[:height]
        return self.lines

    def _draw(
        self, placed: _Placed, width: int, style: Style, options: RenderOptions
    ) -> list[Strip]:
        selection = _within(options.selection, placed)
        if selection is None and placed.drawn is not None and placed.drawn[0] == style:
            return placed.drawn[1]
        strips = _draw(placed, width, style, _Options.of(options, selection))
        if selection is None:
            placed.drawn = (style, strips)
        return strips

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return sum(
            placed.rows + (1 if placed.piece.gap and at else 0)
            for at, placed in enumerate(self._place(width))
        )

    @property
    def codes(self) -> list[str]:
        """Every code block, in order."""
        return [piece.code for piece in self._pieces if piece.code is not None]

    def code_at(self, line: int) -> str:
        """The code block that begins at a line of the text."""
        return next((p.piece.code for p in self._placed[1] if p.first_line == line), None) or ""

    def selected(self, selection: Selection) -> str:
        """The text under a selection, with bullets and quote signs where a line is whole."""
        lines: list[str] = []
        starts: list[str] = []
        for placed in self._placed[1]:
            own = placed.content.plain.split("\n")
            lines += own
            starts += [placed.piece.first] + [placed.piece.rest] * (len(own) - 1)
        out = []
        for y, line in enumerate(lines):
            if (span := selection.get_span(y)) is None:
                continue
            start, end = span
            text = line[start:] if end == -1 else line[start:end]
            out.append((starts[y] if start == 0 else "") + text)
        return "\n".join(out)


class _Options:
    """Render options without the widget's own wrapping rules."""

    @staticmethod
    def of(options: RenderOptions, selection: Selection | None) -> RenderOptions:
        return RenderOptions(
            options.get_style,
            {},
            selection,
            options.selection_style if selection is not None else None,
            options.post_style,
        )


def _at_width(piece: Piece, room: int) -> Content:
    if piece.table:
        return table(piece.table, room, piece.aligned)
    if piece.rule:
        return Content.styled("─" * min(room, 40), "$faint")
    return piece.content


def _draw(placed: _Placed, width: int, style: Style, options: RenderOptions) -> list[Strip]:
    piece = placed.piece
    room = max(width - len(piece.rest), _NARROWEST)
    if piece.code is not None:
        strips = _boxed(placed, room, style, options)
    else:
        strips = placed.content.render_strips(room, None, style, options)
    quiet = options.get_style("$muted")
    drawn = []
    for at, strip in enumerate(strips):
        start = piece.first if at == 0 else piece.rest
        segments = [_moved(segment, placed.first_line) for segment in strip]
        if start:
            segments.insert(0, Segment(start, (style + quiet).rich_style))
        drawn.append(Strip(segments).extend_cell_length(width, style.rich_style))
    return drawn


def _boxed(placed: _Placed, room: int, style: Style, options: RenderOptions) -> list[Strip]:
    """Code on a ground of its own, below a line with its language and a place to copy it."""
    ground = style + options.get_style("on $surface")
    edge = Segment(" ", ground.rich_style)
    label = (ground + options.get_style("$faint")).rich_style
    button = label + RichStyle.from_meta({"copy": placed.first_line})
    language = placed.piece.language[: max(room - 2 - len(COPY), 0)]
    title = Segment(language.ljust(room - 2 - len(COPY)), label)
    return [
        Strip([edge, title, Segment(COPY, button), edge]),
        *(
            Strip([edge, *strip.extend_cell_length(room - 2, ground.rich_style), edge])
            for strip in placed.content.render_strips(room - 2, None, ground, options)
        ),
    ]


def _moved(segment: Segment, lines: int) -> Segment:
    """The same cell, counted from the first line of the whole text."""
    style = segment.style
    if lines == 0 or style is None or not style._meta:
        return segment
    if (offset := style.meta.get("offset")) is None:
        return segment
    x, y = offset
    return Segment(segment.text, style + RichStyle.from_meta({"offset": (x, y + lines)}))


def _within(selection: Selection | None, placed: _Placed) -> Selection | None:
    """The part of a selection that lies in a piece, counted from the piece's first line."""
    if selection is None:
        return None
    first, last = placed.first_line, placed.first_line + placed.lines - 1
    start, end = selection
    if (start is not None and start.y > last) or (end is not None and end.y < first):
        return None
    return Selection(
        None if start is None or start.y < first else Offset(start.x, start.y - first),
        None if end is None or end.y > last else Offset(end.x, end.y - first),
    )


FRAME: Final = 1 / 30
"""Seconds in which streamed pieces are gathered before they are drawn."""


class Prose(GrowsQuietly):
    """Markdown in one widget.

    Pieces that arrive together are drawn together; only the last block is parsed again, and only
    lines that differ are sent to the terminal as long as their number stays the same.
    """

    DEFAULT_CSS = """
    Prose { width: 1fr; height: auto; }
    """

    @dataclass
    class CodeClicked(Message):
        """A code block is to be copied."""

        code: str

    @dataclass
    class LinkClicked(Message):
        """A link was clicked."""

        href: str

    def __init__(self, text: str = "", *, finished: bool = True, classes: str = "") -> None:
        super().__init__(classes=classes)
        self._written: list[str] = [text]
        self._unsettled: list[str] = [text]
        """The end of it, which is parsed again while it grows."""
        self._finished = finished
        self._settled: list[Piece] = []
        self._drawing = self._shown = Drawing([])
        self._stale = True
        self._growing = False
        # Links are ours; Textual need not look for its own in every line.
        self.set_reactive(Prose.auto_links, False)

    @property
    def source(self) -> str:
        """The text as it came, made harmless."""
        return for_terminal("".join(self._written))

    @property
    def codes(self) -> list[str]:
        """Every code block, oldest first."""
        self._parse()
        return self._drawing.codes

    def write(self, text: str) -> None:
        """Add what was streamed."""
        self._written.append(text)
        self._unsettled.append(text)
        self._stale = True
        if not self.is_mounted:
            self.refresh(layout=True)
        elif not self._growing:
            self._growing = True
            self.set_timer(FRAME, self._grow)

    def _grow(self) -> None:
        """Draw the lines that differ; lay everything out again when there are more or fewer."""
        self._growing = False
        self._parse()
        width, height = self.size
        before, now = self._shown.lines, self._drawing
        if self.text_selection is not None or now.get_height({}, width) != height:
            self.refresh(layout=True)
            return
        fresh = now.render_strips(
            width, height, self.visual_style, RenderOptions(self._get_style, {})
        )
        differing = [at for at, line in enumerate(fresh) if line not in before[at : at + 1]]
        if differing:
            first, last = differing[0], differing[-1]
            self.refresh(Region(0, first, width, last + 1 - first))

    def finish(self, text: str) -> None:
        """Show the whole text as it was recorded, parsed from its beginning."""
        if not self._finished or "".join(self._written) != text:
            self._written = [text]
            self._finished = True
            self._settled, self._unsettled = [], []
            self._changed()

    def _changed(self) -> None:
        self._stale = True
        self.refresh(layout=True)

    def _parse(self) -> None:
        """Parse what can still have changed: all of it at the end, else only the last block."""
        if not self._stale:
            return
        if self._finished:
            pieces, _ = parse(self.source)
        else:
            # No sign that is made harmless goes on in the next line, so lines may be cut first.
            lines = "".join(self._unsettled).split("\n")
            fresh, last_line = parse(for_terminal("\n".join(lines)), streaming=True)
            # A line that still grows may yet turn out to belong to the block before it.
            if 0 < last_line < len(lines) - 1:
                self._settled += parse(for_terminal("\n".join(lines[:last_line])))[0]
                lines = lines[last_line:]
                fresh, _ = parse(for_terminal("\n".join(lines)), streaming=True)
            self._unsettled = ["\n".join(lines)]
            pieces = [*self._settled, *fresh]
        self._drawing = self._drawing.with_pieces(pieces)
        self._stale = False

    def render(self) -> Visual:
        self._parse()
        self._shown = self._drawing
        return self._drawing

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return self._drawing.selected(selection), "\n"

    def on_click(self, event: events.Click) -> None:
        meta = event.style.meta
        if "href" in meta:
            self.post_message(self.LinkClicked(meta["href"]))
            event.stop()
        elif "copy" in meta:
            self.post_message(self.CodeClicked(self._drawing.code_at(meta["copy"])))
            event.stop()
