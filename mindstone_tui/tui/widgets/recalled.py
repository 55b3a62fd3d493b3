"""Recalled passages as cards with their source, score, and a key to drop them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mindstone_tui.core import events as ev
from mindstone_tui.core import numbers
from mindstone_tui.core.entries.derived import RecalledPassage
from mindstone_tui.core.events.narrate import describe
from mindstone_tui.tui import show


class Card(Static, can_focus=True):
    """One passage; Enter opens its source, `x` drops it, space shows all of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open source", id="recall.open"),
        Binding("x,delete", "drop", "Drop passage", id="recall.drop"),
        Binding("space", "unfold", "Whole text", id="recall.unfold"),
    ]

    class Opened(Message):
        """The source of a passage is wanted."""

        def __init__(self, passage: RecalledPassage) -> None:
            super().__init__()
            self.passage = passage

    class Dropped(Message):
        """A passage is not wanted."""

        def __init__(self, passage: RecalledPassage) -> None:
            super().__init__()
            self.passage = passage

    def __init__(self, passage: RecalledPassage) -> None:
        self.passage = passage
        self._whole = False
        super().__init__(self._drawn(), markup=False, classes="card")

    def _drawn(self) -> Content:
        passage = self.passage
        place = [passage.session.removeprefix("agent:"), f"turn {passage.turn}", f"#{passage.seq}"]
        if passage.seq < 0:  # a section of a file, which has no turn
            place = [passage.entry]
        where = [passage.speaker, *place, numbers.day(passage.ts)]
        where.append(passage.imported)
        if passage.superseded_by is not None:
            where.append(f"corrected by #{passage.superseded_by}")
        where.append(f"score {passage.score:.2f}")
        said = " · ".join(show.line(part, 40).plain for part in where if part)
        head = Content.styled(said, "$context-recalled")
        text = show.text(passage.text) if self._whole else show.line(passage.text, 160)
        return Content("\n").join([head, text])

    def action_open(self) -> None:
        if self.passage.seq < 0:
            self.action_unfold()
        else:
            self.post_message(self.Opened(self.passage))

    def action_drop(self) -> None:
        if self.has_class("-dropped"):
            return
        self.add_class("-dropped")
        self.post_message(self.Dropped(self.passage))

    def action_unfold(self) -> None:
        self._whole = not self._whole
        self.update(self._drawn())

    def on_click(self) -> None:
        self.action_unfold()


class Recalled(Vertical):
    """Everything that came back for one turn."""

    def __init__(self, event: ev.RecallInjected) -> None:
        super().__init__(classes="recalled")
        self._event = event

    def compose(self) -> ComposeResult:
        line = describe(self._event)
        yield Static(Content.styled(f"{line.sign} {line.text}", "$muted"), markup=False)
        for passage in self._event.passages:
            yield Card(passage)
