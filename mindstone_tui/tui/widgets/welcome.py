"""The welcome screen: who answers, what to do first, and other models that are there."""

from collections.abc import Sequence
from typing import Final

import msgspec
from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mindstone_tui.core import events as ev
from mindstone_tui.core import numbers
from mindstone_tui.core.text import plural
from mindstone_tui.tui import host, show
from mindstone_tui.tui.widgets.base import Rows

STONE = "  ▄▄████▄▄\n▄██████████▄\n▀██████████▀"
GUIDE: Final = "local/guide"
_MOST_MODELS: Final = 6
_HINTS: Final = (
    ("/", "commands"),
    ("@", "files"),
    ("?", "every word on this screen"),
    ("F1", "help"),
)


class Step(msgspec.Struct, frozen=True):
    """Something to begin with."""

    screen: str
    """What the app opens for it."""
    argument: str
    key: str
    name: str
    note: str = ""


def first_steps(setup: host.Setup | None, model: str) -> list[Step]:
    """What is worth offering: everything while only the guide answers, else something to see."""
    if setup is None:
        return []
    steps = [Step("sample", "", "F7", "Try the sample session", "ask nine days of work a question")]
    if model == GUIDE:
        steps.append(Step("key", "", "F9", "Add an API key", "kept on this machine, tried at once"))
    if model == GUIDE and not setup.fetched():
        size = numbers.megabytes(setup.download.bytes)
        steps.append(Step("fetch", "", "F10", "Download a model", f"{size}, runs offline, free"))
    return steps


class Welcome(Vertical):
    """Shown until the first message."""

    class Chosen(Message):
        """A first step, or another model, was chosen."""

        def __init__(self, step: Step) -> None:
            super().__init__()
            self.step = step

    def __init__(self, ready: ev.SessionReady, setup: host.Setup | None = None) -> None:
        super().__init__(id="welcome")
        self._ready = ready
        self._setup = setup
        self.steps = first_steps(setup, ready.model)

    def compose(self) -> ComposeResult:
        yield Static(Content.styled(STONE, "$secondary"), markup=False, id="stone")
        yield Static(
            Content.assemble(
                ("MindStone", "bold"),
                ("  remembers everything, and shows what the model sees", "$muted"),
            ),
            markup=False,
        )
        yield Static(
            Content.assemble(
                "Now answering: ",
                show.line(self._ready.model, 60, "bold $primary"),
                ". ",
                show.text(self._ready.note, "$muted"),
            ),
            markup=False,
        )
        yield Static("", markup=False, id="choose")
        yield Rows(markup=False, id="steps")
        hints = [
            Content.assemble((key, "bold $accent"), (f" {what}", "$muted")) for key, what in _HINTS
        ]
        yield Static(Content("   ").join(hints), markup=False)

    def on_mount(self) -> None:
        self._draw()
        self.look_elsewhere()

    @work(group="elsewhere", exit_on_error=False)
    async def look_elsewhere(self) -> None:
        """Offer first what other agents keep on this machine, as long as it is not taken in."""
        found = await self._setup.elsewhere() if self._setup is not None else ()
        self.steps = [step for step in self.steps if step.screen != "elsewhere"]
        if found:
            told = ", ".join(f"{plural(len(each.new), 'file')} of {each.title}" for each in found)
            self.steps.insert(0, Step("elsewhere", "", "", "Take in past sessions", told))
        self._draw()

    def offer(self, found: Sequence[host.ModelChoice]) -> None:
        """List the models that could answer instead; none is used until it is chosen."""
        others = [
            choice
            for choice in found
            if choice.usable and choice.name != self._ready.model and not choice.unnamed
        ]
        self.steps = [step for step in self.steps if step.screen != "switch"]
        self.steps += [
            Step("switch", choice.name, "", f"Switch to {choice.name}", _about(choice))
            for choice in others[:_MOST_MODELS]
        ]
        self._draw()

    def _draw(self) -> None:
        options = self.query_one(OptionList)
        options.display = bool(self.steps)
        options.clear_options()
        width = max((len(step.name) for step in self.steps), default=0)
        options.add_options([Option(_drawn(step, min(width, 24))) for step in self.steps])
        options.highlighted = 0 if self.steps else None
        said = "Write a message, press a key, or choose with Tab and Enter."
        choose = self.query_one("#choose", Static)
        choose.update(Content.styled(said if self.steps else "", "$muted"))
        choose.display = bool(self.steps)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Chosen(self.steps[event.option_index]))


def _about(choice: host.ModelChoice) -> str:
    window = f"{numbers.tokens(choice.window)} window · " if choice.window else ""
    return f"{window}{choice.note}"


def _drawn(step: Step, width: int) -> Content:
    return Content.assemble(
        (f"{step.key:<4}", "bold $accent"),
        show.line(step.name, 44, "bold"),
        " " * (max(0, width - len(step.name)) + 2),
        show.line(step.note, 100, "$muted"),
    )
