"""Tables that fit: columns give way from the widest on, and cells wrap instead of being cut."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

_BETWEEN = "  "
_NARROWEST_COLUMN = 3


def table(rows: Sequence[Sequence[Content]], width: int) -> Content:
    """Rows of cells, the header first, as lines of at most `width` cells where that is possible."""
    if not rows:
        return Content("")
    columns = max(len(row) for row in rows)
    full = [[*row, *[Content("")] * (columns - len(row))] for row in rows]
    widths = fitted([max(row[c].cell_length for row in full) for c in range(columns)], width)
    lines: list[Content] = []
    for number, row in enumerate(full):
        lines += _row(
            [cell.stylize_before("bold") if number == 0 else cell for cell in row], widths
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


def _row(cells: Sequence[Content], widths: Sequence[int]) -> list[Content]:
    wrapped = [
        [line.rstrip() for line in cell.wrap(width)] or [Content("")]
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for at in range(max(map(len, wrapped))):
        parts = [
            (column[at] if at < len(column) else Content("")).extend_right(
                max(0, width - (column[at].cell_length if at < len(column) else 0))
            )
            for column, width in zip(wrapped, widths, strict=True)
        ]
        lines.append(Content(_BETWEEN).join(parts).rstrip())
    return lines
