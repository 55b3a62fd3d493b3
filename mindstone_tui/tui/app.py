"""The app: themes, keys, clipboard and screens around one conversation.

`MindstoneApp` is built by the command line and by tests alike. It draws first; the conversation is
opened after that.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual import events, on, work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from mindstone_tui.tui import clipboard, numbers, themes
from mindstone_tui.tui.ports import OpenConversation, Surroundings
from mindstone_tui.tui.screens.chat import ChatScreen
from mindstone_tui.tui.widgets.prose import Prose


class MindstoneApp(App[int]):
    """MindStone in a terminal."""

    TITLE = "MindStone"
    CSS_PATH = Path(__file__).parent / "mindstone.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", priority=True, show=False, id="app.quit"),
    ]

    def __init__(self, open_conversation: OpenConversation, around: Surroundings) -> None:
        self._open_conversation = open_conversation
        self.around = around
        super().__init__()
        self.themes_found = themes.find(themes.shipped(), around.user_themes)
        for theme in self.themes_found.themes.values():
            self.register_theme(theme)
        wanted = around.settings.theme
        self.theme = wanted if wanted in self.available_themes else "basalt"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.fallback_variables()

    def get_default_screen(self) -> Screen[None]:
        return ChatScreen(self._open_conversation, self.around)

    def on_mount(self) -> None:
        self.set_keymap(self.around.settings.keys)

    # copying

    def copy_to_clipboard(self, text: str) -> None:
        self._clipboard = text
        if self._driver is not None:
            self._driver.write(clipboard.sequences(text, os.environ))
        if command := clipboard.program(os.environ):
            self._hand_over(text, command)

    @work(thread=True, group="clipboard")
    def _hand_over(self, text: str, command: tuple[str, ...]) -> None:
        clipboard.hand_over(text, command)

    @on(events.TextSelected)
    def _copy_selection(self) -> None:
        if text := self.screen.get_selected_text():
            self._copied(text)

    @on(Prose.CodeClicked)
    def _copy_code(self, event: Prose.CodeClicked) -> None:
        self._copied(event.code)

    def _copied(self, text: str) -> None:
        self.copy_to_clipboard(text)
        count = numbers.plural(len(text), "character")
        self.notify(f"Copied {count}", timeout=2, markup=False)
