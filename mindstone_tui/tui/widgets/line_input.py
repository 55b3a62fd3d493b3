"""One line to type into; what is pasted into it is made harmless like any foreign text."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

from mindstone_tui.core.text import one_line
from mindstone_tui.tui.prompt.paste import with_newlines


class LineInput(Input):
    """An `Input` that no paste can make write control bytes, and that rests when nobody types."""

    def on_mount(self) -> None:
        self.cursor_blink = False

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.replace(one_line(with_newlines(event.text), 1_000), *self.selection)
