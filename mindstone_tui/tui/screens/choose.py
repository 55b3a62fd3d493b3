"""Choose one of a few things by typing a part of its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mindstone_tui.tui import show
from mindstone_tui.tui.prompt.completion import ranked
from mindstone_tui.tui.widgets.line_input import LineInput


class Choice(msgspec.Struct, frozen=True):
    """Something that can be chosen."""

    name: str
    note: str = ""
    current: bool = False


class ChooseScreen(ModalScreen[str]):
    """A filter and a list; Enter chooses, Escape cancels."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Back", id="choose.close"),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
    ]

    _list = query_one(OptionList)

    def __init__(self, title: str, choices: Sequence[Choice], note: str = "") -> None:
        super().__init__()
        self._title = title
        self._note = note
        self._choices = list(choices)
        self._shown: list[Choice] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Content.styled(self._title, "bold"), markup=False)
            yield LineInput(placeholder="type to filter", compact=True)
            yield OptionList(markup=False)
            if self._note:
                yield Static(show.text(self._note, "$warning"), markup=False, id="note")

    def on_mount(self) -> None:
        self._filter("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._filter(event.value)

    def _filter(self, typed: str) -> None:
        by_name = {choice.name: choice for choice in self._choices}
        self._shown = [by_name[name] for name in ranked(typed, by_name)]
        width = max((len(choice.name) for choice in self._shown), default=0)
        self._list.clear_options()
        self._list.add_options([Option(_drawn(choice, width)) for choice in self._shown])
        if self._shown:
            current = [at for at, choice in enumerate(self._shown) if choice.current]
            self._list.highlighted = current[0] if current and not typed else 0

    def action_move(self, by: int) -> None:
        if by < 0:
            self._list.action_cursor_up()
        else:
            self._list.action_cursor_down()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        if self._list.highlighted is not None:
            self.dismiss(self._shown[self._list.highlighted].name)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._shown[event.option_index].name)


def _drawn(choice: Choice, width: int) -> Content:
    name = show.line(choice.name, 60, "bold" if choice.current else "")
    gap = " " * (max(2, min(width, 60) - name.cell_length + 2))
    mark = Content.styled("● " if choice.current else "  ", "$primary")
    return Content("").join([mark, name, Content(gap), show.line(choice.note, 100, "$muted")])
