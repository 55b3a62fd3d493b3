"""The prompt: several lines, history, completion, folded pastes, vim keys; Enter sends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import TextArea
from textual.widgets.text_area import Document, Edit, EditResult, Location

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import is_editable
from mindstone_tui.tui.prompt.paste import Pastes
from mindstone_tui.tui.terminal import KeyAmong, LastingDriver
from mindstone_tui.tui.widgets.base import PacedScreen

if TYPE_CHECKING:
    from mindstone_tui.core.events import Attachment
    from mindstone_tui.tui.widgets.approval import Decision


TYPED: Final = "t"
"""Where a character came from: a key that was pressed for it. It may begin any command."""
COPIED: Final = "c"
"""A line that was pasted and begins with `/`. It may begin a command, but none for the shell."""
SAID: Final = "s"
"""Anywhere else: another paste, an earlier message, a draft. It begins a message."""
_WORD: Final = pattern_of(r"\w+|[^\w\s]+")
_SIGN: Final = pattern_of(r"\S")


def _next_word(area: TextArea) -> Location:
    """The start of the next word, on this line or at the beginning of the next."""
    row, column = area.cursor_location
    line = area.document[row]
    found = (word.start() for word in _WORD.finditer(line) if word.start() > column)
    if (start := next(found, None)) is not None:
        return row, start
    return (row, len(line)) if row + 1 >= area.document.line_count else (row + 1, 0)


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

_APART: Final = 0.005
"""Seconds between two keys that a hand presses; what comes faster is a paste without its marks."""
_FRAME: Final = 1 / 60
"""Seconds; what changes more often, as by a key that is held down, is drawn with the next frame."""


def origin_of(pasted: str) -> str:
    """Where a text came from that nobody typed: a command that was copied is one line."""
    text = pasted.strip()
    return COPIED if text.startswith("/") and "\n" not in text else SAID


class Begun(NamedTuple):
    """When the first letter of a text was written, and what could be decided then."""

    at: float
    decision: Decision | None


@dataclass
class _Traced(Edit):
    """An edit that keeps the origins in step with the text, also when it is undone or redone."""

    origin: str = SAID
    _replaced: str = ""

    def do(self, text_area: TextArea, record_selection: bool = True) -> EditResult:
        assert isinstance(text_area, Prompt)
        new = _SIGN.sub(self.origin, self.text)
        self._replaced = text_area.origins.replace_range(self.top, self.bottom, new).replaced_text
        return super().do(text_area, record_selection)

    def undo(self, text_area: TextArea) -> EditResult:
        assert isinstance(text_area, Prompt)
        assert self._edit_result is not None
        text_area.origins.replace_range(self.top, self._edit_result.end_location, self._replaced)
        return super().undo(text_area)


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
                area.insert("\n", (row, len(area.document[row])) if sign == "o" else (row, 0))
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


class Prompt(TextArea):
    """The text of the next message."""

    BINDINGS = [
        Binding("enter", "send", "Send", id="prompt.send", show=False),
        # Many terminals send Alt+Enter as plain Enter.
        Binding(
            "alt+enter,ctrl+s", "steer", "Send into the running turn", id="prompt.steer", show=False
        ),
        Binding("shift+enter,ctrl+j", "newline", "New line", id="prompt.newline", show=False),
        Binding("ctrl+o", "unfold", "Open folded paste", id="prompt.unfold", show=False),
        Binding("up", "up", "Earlier, in any session here", id="prompt.earlier", show=False),
        Binding("down", "down", "Later message", id="prompt.later", show=False),
        Binding("tab", "accept", "Accept completion", id="prompt.accept", show=False),
        Binding("ctrl+c", "break", "Clear or stop; twice: quit", id="prompt.break", show=False),
        Binding("ctrl+d", "leave", "Quit if empty", id="prompt.leave", show=False),
    ]

    vim_normal = reactive(False)

    @dataclass
    class Submitted(Message):
        """A message, a command or a shell line was sent."""

        text: str
        begun: Begun
        attachments: tuple[Attachment, ...] = ()
        steer: bool = False
        literal: bool = False
        """It is a message, however it begins: its beginning was pasted or said before."""

    @dataclass
    class Navigated(Message):
        """A key that belongs to the list of completions while it is open."""

        key: str

    @dataclass
    class Broken(Message):
        """Ctrl+C with nothing to copy; what it cleared is kept."""

        cleared: str = ""

    class Left(Message):
        """Ctrl+D in an empty prompt."""

    class Asked(Message):
        """A question mark in an empty prompt: what do these words mean?"""

    @dataclass
    class Tabbed(Message):
        """Tab with nothing to complete."""

        pressed: float
        apart: bool
        """Whether no other key came along with it."""

    class TakeBack(Message):
        """The newest queued message is wanted back."""

    def __init__(self, pastes: Pastes, begin: Callable[[float], Begun], *, vim: bool) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            highlight_cursor_line=False,
            placeholder=Content("Message, / for commands, @ for files, ! for the shell"),
        )
        # A cursor that blinks keeps the machine awake.
        self.cursor_blink = False
        self._pastes = pastes
        self._vim = Vim(self) if vim else None
        self._begin = begin
        self._begun = begin(time.monotonic())
        self.origins = Document("")
        """The text, with where it came from in the place of each character."""
        self._said: list[tuple[str, str]] = []
        """Earlier texts and their origins, which are not known of those from before this run."""
        self._at = 0
        self._draft = ("", "")
        self.completing = False
        """The list of completions is open and has the arrow keys, Tab and Enter."""
        self._drawn, self._keyed = 0.0, False
        self.pressed = self._before = 0.0
        """When the key was pressed that it acts on, and the one before it."""
        self.queued = False
        """Messages wait that could be taken back."""

    def update_node_styles(self, animate: bool = True) -> None:
        """Style it anew; not while it is still being made, which Textual would do as well."""
        if self.is_attached:
            super().update_node_styles(animate=animate)

    def _check_refresh(self) -> None:
        """Draw what a key changed at once: a frame may have the whole screen to lay out first."""
        app, now = self.app, time.monotonic()
        if self._keyed and self._repaint_required and not self._layout_required:
            screen, self._keyed = self.screen, False
            drawable = screen is app.screen and not app._batch_count
            if drawable and isinstance(screen, PacedScreen) and now - self._drawn > _FRAME:
                self._drawn, self._repaint_required = now, False
                screen.draw_first(self)
        super()._check_refresh()

    @property
    def unfolded(self) -> str:
        """All that is written, pastes in full."""
        return self._pastes.unfold(self.text).strip()

    @property
    def is_command(self) -> bool:
        """Whether it is no message: what runs in the shell begins with a sign that was typed."""
        text, origin = self.text.lstrip(), self.origins.text.lstrip()[:1]
        to_shell = text[:1] == "!" or text[1:].lower().split()[:1] == ["shell"]
        return text[:1] in ("!", "/") and (origin == TYPED or (origin == COPIED and not to_shell))

    def _remember(self) -> None:
        """Add what is written to the history that the arrow keys walk through."""
        written = (self.text, self.origins.text)
        if self.text.strip() and self._said[-1:] != [written]:
            self._said.append(written)
        self._at = len(self._said)

    def remember_older(self, texts: Sequence[str]) -> None:
        """Put earlier messages, oldest first, before those of this run."""
        self._said[:0] = [(text, "") for text in texts]
        self._at = len(self._said)

    def edit(self, edit: Edit) -> EditResult:
        """Change the text; what is not known to be typed counts as pasted."""
        if not isinstance(edit, _Traced):
            keeps, origin = edit.maintain_selection_offset, origin_of(edit.text)
            edit = _Traced(edit.text, edit.from_location, edit.to_location, keeps, origin)
        if not self.text:
            self._begun = self._begin(self.pressed if edit.origin == TYPED else time.monotonic())
        return super().edit(edit)

    def type(self, key: events.Key) -> None:
        """Write the sign of a key over what is selected."""
        self.pressed, sign = key.time, key.character or ""
        pasted = isinstance(key, KeyAmong) and key.pasted
        self.edit(_Traced(sign, *self.selection, False, origin_of(sign) if pasted else TYPED))

    def complete(self, text: str, start: Location) -> None:
        """Replace what is before the cursor; it came from where the whole text did."""
        origin = self.origins.text.lstrip()[:1] or SAID
        self.edit(_Traced(text, start, self.cursor_location, False, origin))

    def write(self, text: str, origin: str = SAID) -> None:
        """Replace what stands in the prompt."""
        self.text, self.origins = "", Document("")
        self.write_before(text, origin)
        self.history.clear()

    def write_before(self, text: str, origin: str = SAID) -> None:
        """Put a message back that was sent, above what was written since."""
        shown = self._pastes.shown(text)
        shown = self._pastes.fold(text) if shown is None else shown
        below = "\n" if shown and self.text else ""
        self.edit(_Traced(shown + below, (0, 0), (0, 0), True, origin))
        self.move_cursor(self.document.end)

    # sending

    def action_send(self) -> None:
        if self.completing:
            self.post_message(self.Navigated("enter"))
            return
        row, column = self.cursor_location
        if self.document[row][:column].endswith("\\"):
            self.replace("\n", (row, column - 1), (row, column))
            return
        self._submit(steer=False)

    def action_steer(self) -> None:
        self._submit(steer=True)

    def _submit(self, *, steer: bool) -> None:
        text = self._pastes.unfold(self.text)
        if not text.strip():
            return
        # A sign stands for what was pasted: only what is written in the prompt itself commands.
        is_command = self.is_command
        text = text.strip() if is_command else text
        # A command or a shell line takes a path as it stands.
        found = [] if is_command else self._pastes.files_in(self.text)
        from mindstone_tui.core.events import Attachment  # not for the first picture

        files = tuple(Attachment(path=path) for path in found)
        self._remember()
        self.clear()
        self.post_message(self.Submitted(text, self._begun, files, steer, not is_command))

    def action_break(self) -> None:
        """Copy what is selected, else clear what is written, else let the chat decide."""
        if self.selected_text:
            self.action_copy()
        else:
            unsent = self.unfolded
            self._remember()
            self.clear()
            self.post_message(self.Broken(unsent))

    def action_leave(self) -> None:
        self.action_delete_right() if self.text else self.post_message(self.Left())

    def action_newline(self) -> None:
        self.insert("\n")

    # history and completion

    def action_up(self) -> None:
        if self.completing:
            self.post_message(self.Navigated("up"))
        elif self.cursor_location[0] > 0:
            self.action_cursor_up()
        elif self.queued and not self.text:
            self.post_message(self.TakeBack())
        elif self._at > 0:
            self._walk(self._at - 1)

    def action_down(self) -> None:
        if self.completing:
            self.post_message(self.Navigated("down"))
        elif self.cursor_location[0] < self.document.line_count - 1:
            self.action_cursor_down()
        elif self._at < len(self._said):
            self._walk(self._at + 1)

    def _walk(self, to: int) -> None:
        if self._at == len(self._said):
            self._draft = (self.text, self.origins.text)
        self._at = to
        text, origins = self._draft if to == len(self._said) else self._said[to]
        self.write(text)
        self.origins = Document(origins or self.origins.text)

    def action_accept(self) -> None:
        if self.completing:
            self.post_message(self.Navigated("tab"))
        else:
            apart = self.pressed - self._before >= _APART
            self.post_message(self.Tabbed(self.pressed, apart))

    def action_unfold(self) -> None:
        """Replace a folded paste with its text."""
        row, column = self.cursor_location
        if found := self._pastes.sign_at(self.document[row], column):
            start, end, text = found
            self.replace(text, (row, start), (row, end))

    # keys

    async def _on_key(self, event: events.Key) -> None:
        self._keyed = True
        if isinstance(driver := self.app._driver, LastingDriver):
            driver.typed = 0.0  # drawn before anything else has its turn
        self._before, self.pressed = self.pressed, event.time
        if event.key == "escape" and self.completing:
            self.post_message(self.Navigated("escape"))
            event.stop()
            event.prevent_default()
            return
        if event.character == "?" and not self.text:
            self.post_message(self.Asked())
            event.stop()
            event.prevent_default()
            return
        if self._vim is not None and self._vim.key(event.key, event.character):
            event.stop()
            event.prevent_default()
            self.vim_normal = self._vim.normal
            return
        if _is_written(event) and not self.read_only:
            event.stop()
            event.prevent_default()
            self.type(event)
        else:
            await self._act_in_order(event)

    async def _act_in_order(self, event: events.Key) -> None:
        """Run what a key is bound to here and now.

        Textual lets such a key climb to the app first; letters typed meanwhile would overtake it.
        """
        bound = self.screen.active_bindings.get(event.key)
        if bound is not None and bound.node is self:
            event.stop()
            await self.run_action(bound.binding.action)
        if bound is not None or event.key.startswith("alt+"):
            # TextArea's own handler would come next, and insert a line for Enter.
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = self._pastes.fold(event.text)
        self.move_cursor(self.replace(text, *self.selection).end_location)


def _is_written(key: events.Key) -> bool:
    """Whether a key is a sign; Textual takes a joiner of letters and a wide blank for none.

    With Alt a letter has its character, too, but is not meant to be written.
    """
    sign = key.character
    if sign is None or key.key.startswith("alt+"):
        return False
    return sign.isprintable() or (not sign.isascii() and is_editable(sign))
