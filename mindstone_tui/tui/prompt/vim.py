"""The vim keys people have in their fingers: motions, `d` and `c` with them, lines, undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.widgets import TextArea
from textual.widgets.text_area import Location

from mindstone_tui.core.patterns import pattern_of

_WORD: Final = pattern_of(r"\w+|[^\w\s]+")


def _next_word(area: TextArea) -> Location:
    """The start of the next word, on this line or at the beginning of the next."""
    row, column = area.cursor_location
    line = area.document[row]
    found = (word.start() for word in _WORD.finditer(line) if word.start() > column)
    if (start := next(found, None)) is not None:
        return row, start
    last = row + 1 >= area.document.line_count
    return (row, len(line)) if last else (row + 1, 0)


def _word_end(area: TextArea) -> Location:
    """The end of this word, or of the next one."""
    row, column = area.cursor_location
    line = area.document[row]
    ends = (word.end() for word in _WORD.finditer(line) if word.end() > column)
    return row, next(ends, len(line))


_MOTIONS: Final[dict[str, Callable[[TextArea], Location]]] = {
    "h": TextArea.get_cursor_left_location,
    "l": TextArea.get_cursor_right_location,
    "j": TextArea.get_cursor_down_location,
    "k": TextArea.get_cursor_up_location,
    "w": _next_word,
    "e": _word_end,
    "b": TextArea.get_cursor_word_left_location,
    "0": lambda area: (area.cursor_location[0], 0),
    "^": lambda area: area.get_cursor_line_start_location(smart_home=True),
    "$": TextArea.get_cursor_line_end_location,
    "G": lambda area: area.document.end,
}


class Vim:
    """Normal and insert mode over a text area."""

    def __init__(self, area: TextArea) -> None:
        self._area = area
        self.normal = False
        self._pending = ""
        self._yanked = ""

    def key(self, key: str, character: str | None) -> bool:
        """Handle a key; False leaves it to the prompt."""
        if not self.normal:
            if key == "escape":
                self.normal = True
                return True
            return False
        if key in ("escape", "enter") or character is None or not character.isprintable():
            self._pending = ""
            return False
        self._command(character)
        return True

    def _command(self, sign: str) -> None:
        pending, self._pending = self._pending, ""
        if pending == "g":
            if sign == "g":
                self._area.move_cursor((0, 0))
        elif pending in ("d", "c", "y"):
            self._operate(pending, sign)
        elif sign in _MOTIONS:
            self._area.move_cursor(_MOTIONS[sign](self._area))
        elif sign in ("d", "c", "y", "g"):
            self._pending = sign
        else:
            self._act(sign)

    def _operate(self, operator: str, sign: str) -> None:
        area = self._area
        row, _ = area.cursor_location
        if sign == operator:
            start, end = (row, 0), (row, len(area.document[row]))
            if operator == "d" and row + 1 < area.document.line_count:
                end = (row + 1, 0)
        elif sign in _MOTIONS:
            # As in vim, changing a word leaves the blank behind it alone.
            motion = "e" if operator == "c" and sign == "w" else sign
            start, end = sorted((area.cursor_location, _MOTIONS[motion](area)))
        else:
            return
        self._yanked = area.get_text_range(start, end)
        if operator != "y":
            area.delete(start, end)
        self.normal = operator != "c"

    def _act(self, sign: str) -> None:
        area = self._area
        row, column = area.cursor_location
        match sign:
            case "i":
                self.normal = False
            case "a":
                area.move_cursor(area.get_cursor_right_location())
                self.normal = False
            case "I":
                area.move_cursor(area.get_cursor_line_start_location(smart_home=True))
                self.normal = False
            case "A":
                area.move_cursor(area.get_cursor_line_end_location())
                self.normal = False
            case "o" | "O":
                at = (row, len(area.document[row])) if sign == "o" else (row, 0)
                area.insert("\n", at)
                area.move_cursor((row + 1, 0) if sign == "o" else (row, 0))
                self.normal = False
            case "x":
                area.action_delete_right()
            case "D" | "C":
                area.delete((row, column), area.get_cursor_line_end_location())
                self.normal = sign == "D"
            case "p":
                area.insert(self._yanked)
            case "u":
                area.action_undo()
