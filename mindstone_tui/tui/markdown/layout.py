"""Pieces into lines of cells, with selection that copies what was written.

Each piece is drawn once for a width and a style and remembered, so a growing answer costs only its
last block. A cell remembers which character of the text it shows; that is how Textual selects.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from mindstone_tui.tui.markdown.parse import Piece

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
        found = (p.piece.code for p in self._placed[1] if p.first_line == line)
        return next(found, None) or ""

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
            span = selection.get_span(y)
            if span is None:
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
        line = Strip(segments)
        drawn.append(line.extend_cell_length(width, style.rich_style))
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
    offset = style.meta.get("offset")
    if offset is None:
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
