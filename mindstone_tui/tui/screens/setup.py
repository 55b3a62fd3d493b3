"""What a newcomer does once: enter a key, download a model, take in what other agents keep.

Nothing is sent and nothing begins before Enter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, ProgressBar, Static

from mindstone_tui.core import errors, numbers
from mindstone_tui.core.text import plural
from mindstone_tui.tui import host, show
from mindstone_tui.tui.widgets.approval import Gate
from mindstone_tui.tui.widgets.base import LineInput

if TYPE_CHECKING:
    from mindstone_tui.core.library.elsewhere import Elsewhere
    from mindstone_tui.core.library.model_list import Download

OWN_SERVER: Final = "a server of your own"
"""Stands among the providers for any OpenAI-compatible address."""


class KeyScreen(ModalScreen[str]):
    """Takes a key, stores it where only its owner can read it, and tries it at once."""

    BINDINGS = [
        Binding("escape", "dismiss", "Back", id="key.close"),
        Binding("up", "app.focus_previous", "Previous field", show=False),
        Binding("down", "app.focus_next", "Next field", show=False),
    ]

    def __init__(self, setup: host.Setup, provider: str, model: str) -> None:
        super().__init__()
        self._setup = setup
        self._provider = provider
        self._model = model
        self._own = provider == OWN_SERVER
        self._trying = False

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            title = "Add a server" if self._own else f"Add a key for {self._provider}"
            yield Static(Content.styled(title, "bold"), markup=False)
            if self._own:
                yield _label("Address")
                yield LineInput(placeholder="http://127.0.0.1:8000/v1", id="address", compact=True)
            yield _label("Key" + (" (empty if it needs none)" if self._own else ""))
            yield LineInput(placeholder="paste it here", password=True, id="key", compact=True)
            yield _label("Model")
            known = "empty takes the first one it has" if self._own else "provider/model"
            yield LineInput(self._model, placeholder=known, id="model", compact=True)
            how = _FIELDS if self._own else _AT_ONCE
            yield Static(Content.styled(f"{how} {_KEPT}", "$muted"), id="note", markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        """Enter tries what was entered, once nothing is missing; a server's fields come in turn."""
        event.stop()
        needed = ("address",) if self._own else ("key", "model")
        if event.input.id in needed and not event.value.strip():
            self._say("This field is needed.", "$warning")
        elif event.input.id == "address":
            self.query_one("#key").focus()
        elif event.input.id == "key" and self._own:
            self.query_one("#model").focus()
        elif empty := [each for each in needed if not self.query_one(f"#{each}", Input).value]:
            self.query_one(f"#{empty[0]}").focus()
        elif not self._trying:
            self._try()

    @work(exclusive=True, group="key")
    async def _try(self) -> None:
        self._trying = True
        model = self.query_one("#model", Input).value.strip()
        if self._own and model and "/" not in model:
            model = f"openai/{model}"
        self._say(f"Trying {model or 'it'} with one short request…")
        try:
            answered = await self._setup.add_key(
                "openai" if self._own else self._provider,
                self.query_one("#key", Input).value.strip(),
                model,
                self.query_one("#address", Input).value.strip() if self._own else "",
            )
        except errors.MindstoneError as error:
            self._say(f"{error.what} {error.remedy} Nothing was kept.", "$error")
            # A server that answers for no model by itself wants its name; else the key was wrong.
            self.query_one("#model" if not model else "#key").focus()
        else:
            self.dismiss(answered)
        finally:
            self._trying = False

    def _say(self, text: str, style: str = "$muted") -> None:
        self.query_one("#note", Static).update(show.text(text, style))


_FIELDS: Final = "Enter goes on to the next field; from the last one it tries the server."
_AT_ONCE: Final = "Enter tries it with one short request."
_KEPT: Final = (
    "The key is kept in a file that only you can read, and sent to this provider and nowhere else. "
    "Esc goes back."
)


def _label(text: str) -> Static:
    return Static(Content.styled(text, "$muted"), markup=False, classes="label")


Progress = Callable[[int, int], None]


class LongTask(msgspec.Struct, frozen=True, kw_only=True):
    """Something that takes a while, and what is said of it."""

    title: str
    about: str
    verb: str
    """What Enter does, and what is going on then: `downloads it`, `Downloading`."""
    doing: str
    total: int
    run: Callable[[Progress, Callable[[str], None]], Awaitable[str]]
    """Does it, telling how far it is and what a person should know; says what came of it."""


class LongTaskScreen(ModalScreen[str]):
    """Does something long, with its progress; what was stopped goes on from there the next time."""

    BINDINGS = [
        Binding("enter", "begin", "Begin", id="fetch.begin"),
        Binding("escape", "dismiss", "Back", id="fetch.close"),
    ]

    def __init__(self, task: LongTask, *, grace: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self._long = task
        self._gate = Gate(grace)
        self._clock = clock
        self._at_work = False

    def on_mount(self) -> None:
        self.call_after_refresh(lambda: self._gate.show(self._clock()))

    def compose(self) -> ComposeResult:
        task = self._long
        with Vertical(id="dialog"):
            yield Static(Content.styled(task.title, "bold"), markup=False)
            yield Static(Content.styled(task.about, "$muted"), markup=False)
            yield ProgressBar(total=task.total, show_eta=False, id="progress")
            yield Static(
                Content.styled(f"Enter {task.verb}. Esc goes back.", "$muted"),
                id="note",
                markup=False,
            )

    def action_begin(self) -> None:
        """Begin; not with the Enter that chose it and is still held down."""
        if not self._at_work and self._gate.is_open(self._clock()):
            self._begin()

    @work(exclusive=True, group="task")
    async def _begin(self) -> None:
        self._at_work = True
        self._say(f"{self._long.doing}… {_STOPS}")
        try:
            came_of_it = await self._long.run(self._progress, self._tell)
        except errors.MindstoneError as error:
            self._say(f"{error.what} {error.remedy} Enter tries again.", "$error")
        else:
            self.dismiss(came_of_it)
        finally:
            self._at_work = False

    def _progress(self, done: int, total: int) -> None:
        self.query_one(ProgressBar).update(progress=done, total=total)

    def _tell(self, sentence: str) -> None:
        self._say(f"{sentence} {_STOPS}")

    def _say(self, text: str, style: str = "$muted") -> None:
        self.query_one("#note", Static).update(show.text(text, style))


_STOPS: Final = "Esc stops; the next try continues."


def download(setup: host.Setup, model: Download) -> LongTask:
    """A model comes to this machine."""
    best = "The best model that fits this machine. " * (model == setup.download)
    return LongTask(
        title=f"Download {model.title} ({numbers.megabytes(model.bytes)})",
        about=f"{best}It runs here, without a network and for nothing, and needs about "
        f"{numbers.megabytes(model.memory)} of memory. It {model.skills}. Its hash is checked "
        "before it is used.",
        verb="downloads it",
        doing="Downloading",
        total=model.bytes,
        run=partial(setup.fetch, model.name),
    )


def take_in(setup: host.Setup, found: Sequence[Elsewhere]) -> LongTask:
    """What other programs keep here becomes history that can be searched and recalled."""
    lines = []
    for each in found:
        goes = f"; it deletes {each.going:,} of them soon" if each.going else ""
        count = plural(len(each.new), "session file")
        lines.append(f"{each.title}: {count}, {numbers.size(each.size)}{goes}")
    from mindstone_tui.core.library.elsewhere import seconds_by_words  # 30 ms

    seconds = numbers.seconds(seconds_by_words(sum(each.size for each in found)))
    return LongTask(
        title="Take in what other agents keep here",
        about="\n".join(lines) + f"\n\nAll of it is found by words after about {seconds}, by "
        "meaning later. The files are only read.",
        verb="takes it in",
        doing="Taking it in",
        total=sum(len(each.new) for each in found),
        run=lambda progress, _tell: setup.take_in(progress),
    )
