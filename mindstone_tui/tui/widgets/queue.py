"""Queued messages, each of which can be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mindstone_tui.tui import show

if TYPE_CHECKING:
    from mindstone_tui.core import events as ev


class Queued(Static):
    """One queued message; click to take it back."""

    class TakenBack(Message):
        """A queued message is wanted back."""

        def __init__(self, entry: str) -> None:
            super().__init__()
            self.entry = entry

    def __init__(self, event: ev.MessageQueued) -> None:
        self.entry, self.text = event.entry, event.text
        super().__init__(markup=False, classes="queued")

    def render(self) -> Content:
        hint = "  ↑ to edit"
        room = max(self.size.width - len(hint) - 2, 8)
        return Content.assemble(
            ("» ", "$accent"),
            show.line(self.text, 4 * room).truncate(room, ellipsis=True),
            (hint, "$faint"),
        )

    def on_click(self) -> None:
        self.post_message(self.TakenBack(self.entry))


class Waiting(Vertical):
    """The queue, oldest first; no higher than what is in it."""

    DEFAULT_CSS = """
    Waiting { width: 1fr; height: auto; max-height: 6; overflow-y: auto; }
    """

    async def show(self, event: ev.AnyEvent) -> None:
        """Keep up with the queue."""
        from mindstone_tui.core import events as ev  # not for the first picture

        match event:
            case ev.MessageQueued():
                await self.mount(Queued(event))
            case (
                ev.MessageWithdrawn(entry=entry)
                | ev.MessageSteered(queued=entry)
                | ev.TurnStarted(queued=entry)
            ):
                await self._leave(entry)

    async def _leave(self, entry: str) -> None:
        """A message is no longer waiting: it was taken back, or its turn has come."""
        for queued in self.messages:
            if queued.entry == entry:
                await queued.remove()

    @property
    def messages(self) -> list[Queued]:
        """What waits."""
        return list(self.query(Queued))
