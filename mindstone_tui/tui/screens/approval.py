"""Asks a person to approve a tool call. Deny is the default."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from mindstone_tui.core.events import Answer, ToolAsked
from mindstone_tui.core.text import exact
from mindstone_tui.tui import show
from mindstone_tui.tui.markdown.code import diffed
from mindstone_tui.tui.screens.dialog import DialogScreen


class ApprovalScreen(DialogScreen[Answer]):
    """Shows exactly what will run; keys meant for the prompt are not taken as an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,escape", "deny", "Deny", id="approval.deny"),
        Binding("y", "allow", "Allow once", id="approval.allow"),
        Binding("s", "remember", "Allow for this session", id="approval.session"),
        Binding("up,left,shift+tab", "app.focus_previous", "Previous", show=False),
        Binding("down,right,tab", "app.focus_next", "Next", show=False),
    ]
    AUTO_FOCUS = "#deny"

    def __init__(
        self, asked: ToolAsked, *, grace: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.asked = asked
        self._grace = grace
        self._clock = clock
        self._since = clock()

    def compose(self) -> ComposeResult:
        asked = self.asked
        with Vertical(id="dialog"):
            yield Static(
                Content.assemble(
                    ("? ", "bold $accent"),
                    show.line(asked.name, 40, "bold"),
                    (" needs your approval", ""),
                    (f"  risk: {show.line(asked.risk, 30).plain}", "$muted"),
                ),
                markup=False,
            )
            if asked.why:
                yield Static(show.text(asked.why, "$muted"), markup=False, id="why")
            with VerticalScroll(id="exact"):
                yield Static(show.judged(asked.shown), markup=False, id="shown")
                if asked.diff:
                    yield Static(diffed(exact(asked.diff)), markup=False, id="diff")
            with Vertical(id="buttons"):
                yield Button(Content("n  Deny"), id="deny", compact=True)
                yield Button(Content("y  Allow once"), id="allow", compact=True)
                for number, rule in enumerate(asked.remember):
                    label = show.line(rule, 40)
                    key = "s" if number == 0 else " "
                    yield Button(
                        Content.assemble(key, "  Allow for this session: ", label),
                        id=f"session-{number}",
                        compact=True,
                    )
                    yield Button(
                        Content.assemble("   Allow always: ", label),
                        id=f"config-{number}",
                        compact=True,
                    )

    def on_key(self, event: events.Key) -> None:
        """Ignore keys typed before anyone could have read the question."""
        if self._clock() - self._since < self._grace and event.key not in ("escape", "tab"):
            event.stop()
            event.prevent_default()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        early = self._clock() - self._since < self._grace
        return not (early and action in ("allow", "remember", "deny"))

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if self._clock() - self._since < self._grace:
            return
        kind, _, number = (event.button.id or "deny").partition("-")
        if kind == "deny":
            self.action_deny()
        elif kind == "allow":
            self.action_allow()
        else:
            rule = self.asked.remember[int(number)]
            self.dismiss(
                Answer(
                    allowed=True,
                    remember=rule,
                    keep="session" if kind == "session" else "config",
                )
            )

    def action_deny(self) -> None:
        self.dismiss(Answer(allowed=False, why="declined by the user"))

    def action_allow(self) -> None:
        self.dismiss(Answer(allowed=True))

    def action_remember(self) -> None:
        if self.asked.remember:
            rule = self.asked.remember[0]
            self.dismiss(Answer(allowed=True, remember=rule, keep="session"))
