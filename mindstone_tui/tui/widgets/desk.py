"""The lower edge of the chat: what waits, what could be completed, and the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.getters import query_one
from textual.widgets import OptionList, TextArea

from mindstone_tui.tui.ports import CommandHelp
from mindstone_tui.tui.prompt.completing import complete, wants_files
from mindstone_tui.tui.prompt.files import names_below
from mindstone_tui.tui.prompt.pasting import Pastes
from mindstone_tui.tui.widgets.completions import Completions
from mindstone_tui.tui.widgets.prompt import Prompt
from mindstone_tui.tui.widgets.waiting import Waiting


class Desk(Vertical):
    """Keeps the list of completions in step with the prompt."""

    prompt = query_one(Prompt)
    completions = query_one(Completions)
    waiting = query_one(Waiting)

    def __init__(self, commands: Sequence[CommandHelp], folder: Path, *, vim: bool) -> None:
        super().__init__(id="desk")
        self._commands = commands
        self._folder = folder
        self._vim = vim
        self._files: list[str] = []
        self._listing = False

    def compose(self) -> ComposeResult:
        yield Waiting()
        yield Completions()
        yield Prompt(Pastes(self._folder), vim=self._vim)

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _follow(self) -> None:
        prompt = self.prompt
        row, column = prompt.cursor_location
        line = prompt.document[row]
        if wants_files(line, column) and not self._listing:
            self._list_files()
        completion = complete(
            line, column, first_line=row == 0, commands=self._commands, files=self._files
        )
        if completion and completion.offers[0].insert.strip() == line[completion.start : column]:
            completion = None
        self._offer_if_new(completion is not None, line)
        if prompt.completing:
            self.completions.offer(completion)

    def _offer_if_new(self, anything: bool, line: str) -> None:
        self.prompt.completing = anything
        self.prompt.set_class(line.startswith("!"), "-shell")
        if not anything:
            self.completions.offer(None)

    @work(exclusive=True, group="files")
    async def _list_files(self) -> None:
        self._listing = True
        try:
            self._files = await asyncio.to_thread(names_below, self._folder)
        finally:
            self._listing = False
        row, column = self.prompt.cursor_location
        line = self.prompt.document[row]
        if wants_files(line, column):
            completion = complete(
                line, column, first_line=row == 0, commands=self._commands, files=self._files
            )
            self.prompt.completing = completion is not None
            self.completions.offer(completion)

    @on(Prompt.Navigated)
    def _navigate(self, event: Prompt.Navigated) -> None:
        event.stop()
        match event.key:
            case "up":
                self.completions.action_cursor_up()
            case "down":
                self.completions.action_cursor_down()
            case "escape":
                self.close()
            case "enter" | "tab":
                self._accept(send=event.key == "enter")

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._accept(send=False)

    def _accept(self, *, send: bool) -> None:
        """Put the chosen offer into the prompt; Enter on a whole command sends it as well."""
        offer, completion = self.completions.chosen, self.completions.completion
        self.close()
        if offer is None or completion is None:
            return
        row, column = self.prompt.cursor_location
        typed = self.prompt.document[row][completion.start : column]
        self.prompt.replace(offer.insert, (row, completion.start), (row, column))
        self.prompt.move_cursor((row, completion.start + len(offer.insert)))
        if send and offer.insert.strip() == typed.strip():
            self.prompt.action_send()

    def close(self) -> None:
        """Hide the completions until something else is typed."""
        self.prompt.completing = False
        self.completions.offer(None)
