"""Asks a person to approve a tool call. The step into it leads to declining."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mindstone_tui.core.events import Answer, AskedPart, AskedScope, MemoryProposed, ToolAsked
from mindstone_tui.core.events.narrate_entry import without_name
from mindstone_tui.core.text import exact
from mindstone_tui.tui import show
from mindstone_tui.tui.markdown.code import diffed, numbered
from mindstone_tui.tui.widgets.decision import Decision, button
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


class Approval(Decision):
    """Shows exactly what will run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "choose('deny')", "Decline", id="approval.deny"),
        Binding("r", "choose('explain')", "Decline and say why", id="approval.reason"),
        Binding("y", "choose('allow-0')", "Allow once", id="approval.allow"),
        Binding("s", "choose('allow-1')", "Allow for this session", id="approval.session"),
        Binding("ctrl+c", "stop", "Stop the turn", id="approval.stop"),
    ]
    FIRST = "deny"

    class Stopped(Message):
        """The turn that asks is to be stopped."""

    def __init__(self, asked: ToolAsked, *, grace: float, clock: Callable[[], float]) -> None:
        super().__init__(grace=grace, clock=clock)
        self.asked = asked
        self._why = ""

    def content(self) -> ComposeResult:
        yield Static(self._question(), markup=False, id="question")
        if self.asked.why:
            yield Static(show.text(self.asked.why, "$muted"), markup=False, id="why")
        with VerticalScroll(id="exact", can_focus=False):
            yield from self._exact()

    def fields(self) -> ComposeResult:
        reason = LineInput(
            placeholder="Why not? The model is told. Enter declines, Esc goes back.",
            id="reason",
            compact=True,
        )
        reason.display = False
        yield reason

    def _question(self) -> Content:
        """What is asked; something worse than looking or writing is named and coloured."""
        asked = self.asked
        words = _QUESTIONS.get(asked.risk, "Allow {tool}?")
        question = words.format(tool=show.line(asked.name, 40).plain)
        parts: list[tuple[str, str]] = [("? ", "bold $accent"), (question, "bold")]
        if asked.worst and asked.worst not in _USUAL:
            parts.append((f"  {show.line(asked.worst, 40).plain}", f"bold {_colour(asked.worst)}"))
        if asked.channel:
            parts.append((f"  asked on {show.line(asked.channel, 20).plain}", "$muted"))
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

    def answers(self) -> ComposeResult:
        yield button("n", Content("Decline"), "deny")
        yield button("r", Content("Decline and say why"), "explain")
        for number, scope in enumerate(self.scopes):
            key = ("y", "s")[number] if number < 2 else ""
            yield button(key, show.line(self._label(scope), 90), f"allow-{number}")

    def _label(self, scope: AskedScope) -> str:
        """What a button says; a rule about a file holds its path in parts."""
        if self.asked.risk != "write" or not scope.remember:
            return scope.label
        tool, *path = scope.remember.split()
        return scope.label.replace(scope.remember, f"{tool} {'/'.join(path)}")

    def choose(self, choice: str) -> None:
        """Decide; who wants to say why writes that first."""
        if choice == "explain":
            self._show_reason(True)
        elif self.query(f"#{choice}"):  # a key may stand for a yes that is not offered
            super().choose(choice)

    def answer(self, choice: str) -> Answer:
        """What a choice says to the turn that asks."""
        if choice == "deny":
            return Answer(allowed=False, why=self._why or "declined by the user")
        scope = self.scopes[int(choice.removeprefix("allow-"))]
        return Answer(allowed=True, remember=scope.remember, keep=scope.keep)

    def _show_reason(self, shown: bool) -> None:
        reason = self.query_one("#reason")
        reason.display = shown
        (reason if shown else self.query_one("#deny")).focus()
        self.call_after_refresh(self.make_room)

    def action_back(self) -> None:
        """Out of the reason to the answers; out of those to the prompt."""
        if self.query_one("#reason").display:
            self._show_reason(False)
        else:
            super().action_back()

    @on(Input.Submitted, "#reason")
    def _explained(self, event: Input.Submitted) -> None:
        event.stop()
        self._why = event.value.strip()
        self._key = "enter"
        super().choose("deny")

    def action_stop(self) -> None:
        """Stop the turn that asks, and the question with it; what is selected is copied instead."""
        if self.screen.get_selected_text():
            self.screen.action_copy_text()
        else:
            self.post_message(self.Stopped())


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


class MemoryReview(Decision):
    """Nothing is stored without `approve`; `later` leaves it undecided."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "choose('approve')", "Approve", id="memory.approve"),
        Binding("r", "choose('refuse')", "Refuse", id="memory.refuse"),
        Binding("l", "choose('later')", "Later", id="memory.later"),
    ]
    FIRST = "later"

    def __init__(
        self, proposal: MemoryProposed, *, grace: float, clock: Callable[[], float]
    ) -> None:
        super().__init__(grace=grace, clock=clock)
        self.proposal = proposal

    def content(self) -> ComposeResult:
        proposal = self.proposal
        sources = ", ".join(f"#{seq}" for seq in proposal.sources)
        yield Static(
            Content.assemble(
                ("☆ ", "bold $accent"),
                ("Remember this?  ", "bold"),
                show.line(proposal.path, 80, "$muted"),
            ),
            markup=False,
            id="question",
        )
        why = [show.text(proposal.why, "$muted"), Content.styled(f"from {sources}", "$faint")]
        yield Static(Content("\n").join(why), markup=False, id="why")
        with VerticalScroll(id="exact", can_focus=False):
            yield Static(difference(proposal), markup=False, id="diff")

    def answers(self) -> ComposeResult:
        yield button("l", Content("Later"), "later")
        yield button("a", Content("Approve"), "approve")
        yield button("r", Content("Refuse"), "refuse")

    def action_back(self) -> None:
        self.choose("later")


def difference(proposal: MemoryProposed) -> Content:
    """What changes in the memory's file, line by line."""
    lines = difflib.unified_diff(
        exact(proposal.before).splitlines(), exact(proposal.after).splitlines(), lineterm="", n=3
    )
    return diffed("\n".join(list(lines)[2:]))
