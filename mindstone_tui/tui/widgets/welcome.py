"""The welcome screen: the current model, other models, and how to begin."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mindstone_tui.core import events as ev
from mindstone_tui.core import numbers
from mindstone_tui.tui import show
from mindstone_tui.tui.host import ModelChoice

STONE = "  ▄▄████▄▄\n▄██████████▄\n▀██████████▀"
_FIRST_STEPS = (
    ("/", "commands and help"),
    ("@", "mention a file"),
    ("F2", "inspect the context window"),
    ("F1", "all keys"),
)

_NOTHING_ELSE = (
    "No API key and no local model server found. `mindstone models` lists models and what each "
    "needs; `mindstone models add smollm2` downloads a small one that runs on this machine."
)
"""Only the built-in guide is left; an installed small model would have been used."""


class Welcome(Vertical):
    """Shown until the first message."""

    class Chosen(Message):
        """Another model was chosen."""

        def __init__(self, model: str) -> None:
            super().__init__()
            self.model = model

    def __init__(self, ready: ev.SessionReady) -> None:
        super().__init__(id="welcome")
        self._ready = ready
        self._found: list[ModelChoice] = []

    def compose(self) -> ComposeResult:
        yield Static(Content.styled(STONE, "$secondary"), markup=False, id="stone")
        yield Static(
            Content.assemble(
                ("MindStone\n", "bold"),
                ("The transcript is history. The prompt is a working set.", "$muted"),
            ),
            markup=False,
        )
        yield Static(
            Content.assemble(
                "Using ",
                show.line(self._ready.model, 60, "bold $primary"),
                ". ",
                show.text(self._ready.note, "$muted"),
            ),
            markup=False,
        )
        steps = [
            Content.assemble((key.ljust(4), "bold $accent"), (what, "$muted"))
            for key, what in _FIRST_STEPS
        ]
        yield Static(Content("\n").join(steps), markup=False)

    async def offer(self, found: Sequence[ModelChoice]) -> None:
        """List other available models; none is used until it is chosen."""
        self._found = [choice for choice in found if choice.found][:9]
        if not self._found:
            said = Content.styled(_NOTHING_ELSE, "$muted")
            await self.mount(Static(said, markup=False, id="nothing-else"))
            return
        await self.mount(
            Static(
                Content.styled(
                    "Other models: Tab selects, Enter switches. Nothing is sent yet.",
                    "$muted",
                ),
                markup=False,
            ),
            OptionList(*(Option(_drawn(choice)) for choice in self._found), markup=False),
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Chosen(self._found[event.option_index].name))


def _drawn(choice: ModelChoice) -> Content:
    window = f"  {numbers.tokens(choice.window)} window" if choice.window else ""
    return Content.assemble(
        show.line(choice.name, 50, "bold"),
        (window, "$muted"),
        "  ",
        show.line(choice.note, 80, "$muted"),
    )
