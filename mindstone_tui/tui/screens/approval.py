"""Asks a person to approve a tool call. Declining is the default."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from mindstone_tui.core.events import Answer, AskedPart, AskedScope, ToolAsked
from mindstone_tui.core.events.narrate_entry import without_name
from mindstone_tui.core.text import exact
from mindstone_tui.tui import show
from mindstone_tui.tui.markdown.code import numbered
from mindstone_tui.tui.screens.dialog import DialogScreen
from mindstone_tui.tui.widgets.line_input import LineInput

_QUESTIONS: Final = {
    "run": "Run this {tool} command?",
    "write": "Allow {tool} to change this file?",
    "read": "Allow {tool} to read this?",
    "memory": "Remember this?",
}
"""What is asked, by the tool's risk."""
_HARMLESS: Final = ("reads",)
_USUAL: Final = ("reads", "writes", "unknown")
_WORST: Final = ("deletes", "force-push", "privilege", "pipe to shell", "outside the workspace")
_KEPT: Final[tuple[tuple[Literal["exact", "always"], str, Literal["session", "config"]], ...]] = (
    ("exact", "Allow for this session", "session"),
    ("always", "Allow always", "config"),
)


class ApprovalScreen(DialogScreen[Answer]):
    """Shows exactly what will run; keys meant for the prompt are not taken as an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,escape", "deny", "Decline", id="approval.deny"),
        Binding("r", "explain", "Decline and say why", id="approval.reason"),
        Binding("y", "allow(0)", "Allow once", id="approval.allow"),
        Binding("s", "allow(1)", "Allow for this session", id="approval.session"),
        Binding("ctrl+c", "stop", "Stop the turn", id="approval.stop"),
        Binding("up,left,shift+tab", "app.focus_previous", "Previous", show=False),
        Binding("down,right,tab", "app.focus_next", "Next", show=False),
    ]
    AUTO_FOCUS = "#deny"
    HIGHEST = 0.72

    def __init__(
        self,
        asked: ToolAsked,
        *,
        grace: float,
        clock: Callable[[], float] = time.monotonic,
        covers: Callable[[int], None] = lambda rows: None,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._stop = stop
        self._covers = covers
        """Told how many rows of the chat the box stands on, so that it can scroll above it."""
        self.asked = asked
        self._grace = grace
        self._clock = clock
        self._since = clock()

    def compose(self) -> ComposeResult:
        asked = self.asked
        with Vertical(id="dialog"):
            yield Static(self._question(), markup=False, id="question")
            if asked.why:
                yield Static(show.text(asked.why, "$muted"), markup=False, id="why")
            with VerticalScroll(id="exact"):
                yield from self._exact()
            with Vertical(id="buttons"):
                yield from self._buttons()
            yield LineInput(
                placeholder="Why not? The model is told. Enter declines, Esc goes back.",
                id="reason",
                compact=True,
            )

    def _question(self) -> Content:
        """What is asked; something worse than looking or writing is named and coloured."""
        asked = self.asked
        words = _QUESTIONS.get(asked.risk, "Allow {tool}?")
        question = words.format(tool=show.line(asked.name, 40).plain)
        parts: list[tuple[str, str]] = [("? ", "bold $accent"), (question, "bold")]
        if asked.worst and asked.worst not in _USUAL:
            parts.append((f"  {show.line(asked.worst, 40).plain}", f"bold {_colour(asked.worst)}"))
        return Content.assemble(*parts)

    def _exact(self) -> Iterator[Widget]:
        """What will happen, once: the path and the numbered change, or the command in parts."""
        asked = self.asked
        title, _, body = asked.shown.partition("\n")
        if asked.diff:
            path = without_name(title, asked.name)
            yield Static(show.judged(path, "bold"), markup=False, id="shown")
            yield Static(numbered(exact(asked.diff)), markup=False, id="diff")
            return
        # A command's title may be shortened; its body never is.
        said = body if body and asked.risk == "run" else asked.shown
        yield Static(show.judged(said), markup=False, id="shown")
        if asked.parts:
            yield Static(_parts(asked.parts), markup=False, id="parts")

    @property
    def scopes(self) -> tuple[AskedScope, ...]:
        """Every yes that is offered, once first."""
        if self.asked.scopes:
            return self.asked.scopes
        once = AskedScope(scope="once", label="Allow once")
        kept = [
            AskedScope(scope=scope, label=f"{said}: {rule}", remember=rule, keep=keep)
            for rule in self.asked.remember
            for scope, said, keep in _KEPT
        ]
        return (once, *kept)

    def _buttons(self) -> Iterator[Widget]:
        yield Button(Content("n  Decline"), id="deny", compact=True)
        yield Button(Content("r  Decline and say why"), id="explain", compact=True)
        for number, scope in enumerate(self.scopes):
            key = ("y", "s")[number] if number < 2 else " "
            label = Content.assemble(f"{key}  ", show.line(self._label(scope), 90))
            yield Button(label, id=f"allow-{number}", compact=True)

    def _label(self, scope: AskedScope) -> str:
        """What a button says; a rule about a file holds its path in parts."""
        if self.asked.risk != "write" or not scope.remember:
            return scope.label
        tool, *path = scope.remember.split()
        return scope.label.replace(scope.remember, f"{tool} {'/'.join(path)}")

    def on_mount(self) -> None:
        self.query_one("#reason").display = False
        super().on_mount()

    def _make_room(self) -> None:
        super()._make_room()
        self.call_after_refresh(lambda: self._covers(self.query_one("#dialog").outer_size.height))

    @property
    def _early(self) -> bool:
        """Nobody could have read the question yet."""
        return self._clock() - self._since < self._grace

    def on_key(self, event: events.Key) -> None:
        """Ignore keys typed before anyone could have read the question."""
        if self._early and event.key not in ("escape", "tab"):
            event.stop()
            event.prevent_default()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (self._early and action in ("allow", "deny", "explain"))

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if self._early:
            return
        kind, _, number = (event.button.id or "deny").partition("-")
        if kind == "deny":
            self.action_deny()
        elif kind == "explain":
            self.action_explain()
        else:
            self.action_allow(int(number))

    def action_deny(self) -> None:
        """Decline; while a reason is being written, go back to the buttons instead."""
        reason = self.query_one("#reason", Input)
        if reason.has_focus:
            reason.display = False
            self.query_one("#deny").focus()
            self.call_after_refresh(self._make_room)
        else:
            self.dismiss(Answer(allowed=False, why="declined by the user"))

    def action_explain(self) -> None:
        """Let a person write why; the model gets it with the refusal."""
        reason = self.query_one("#reason", Input)
        reason.display = True
        reason.focus()
        self.call_after_refresh(self._make_room)

    @on(Input.Submitted, "#reason")
    def _explained(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(Answer(allowed=False, why=event.value.strip() or "declined by the user"))

    def action_stop(self) -> None:
        """Stop the turn that asks, and the question with it; what is selected is copied instead."""
        if self.get_selected_text():
            self.action_copy_text()
        else:
            self._stop()

    def action_allow(self, number: int) -> None:
        """Say yes, as far as one of the scopes reaches."""
        if number < len(self.scopes):
            scope = self.scopes[number]
            self.dismiss(Answer(allowed=True, remember=scope.remember, keep=scope.keep))


def _colour(verdict: str) -> str:
    if verdict in _HARMLESS:
        return "$success"
    return "$error" if verdict in _WORST else "$warning"


def _parts(parts: Sequence[AskedPart]) -> Content:
    """Each part with what it does; the verdicts stand in one column."""
    width = max(len(part.verdict) for part in parts)
    rows = [
        Content.assemble(
            (f"{show.line(part.verdict, 24).plain:<{width}}  ", f"bold {_colour(part.verdict)}"),
            show.line(part.text, 200),
            (f"  {show.line(part.reason, 120).plain}", "$muted"),
        )
        for part in parts
    ]
    return Content("\n").join(rows)
