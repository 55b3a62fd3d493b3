"""The one place in the app where a person decides something: beside a prompt that stays in use.

A decision opens above the prompt and takes nothing from it: what is typed before it could be read,
or for something else, is written there. It is answered by a deliberate step: into it first, then
one key. Whoever is told of the answer is told the key. The step into an approval leads to
declining.
"""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from mindstone_tui.core.events import Answer, AskedPart, AskedScope, MemoryProposed, ToolAsked
from mindstone_tui.core.events.question import GRACE, answer_to, explain
from mindstone_tui.core.text import exact
from mindstone_tui.tui import show
from mindstone_tui.tui.markdown.parse import numbered
from mindstone_tui.tui.terminal import KeyAmong
from mindstone_tui.tui.widgets.base import LineInput, only_plain

_SETTLE: Final = 0.25
"""Share of that time around an answer: what comes sooner after the step in was typed with it, and
a letter that another one follows sooner was the beginning of a word."""
_WRITING: Final = 0.5
"""Share of it after a letter of a message: a Tab that comes sooner belongs to those words."""
_HALF_WRITTEN: Final = 0.75
"""Share of it for which a letter must stay alone while a message is half written."""
_DRAG: Final = 2.0
"""Cells that a hand moves in a click."""
_CHAT: Final = 6
"""One row of so many stays with the conversation, as long as the content has a few."""
_LEAST: Final = 3
"""Rows of content that stay visible however small the terminal is."""
_OUTSIDE: Final = (
    "Tab or F6 to answer",
    "then PgDn reads on",
    "what you type goes into your message",
)
_INSIDE: Final = (
    "One key answers",
    "PgDn reads on",
    "↑ ↓ and Enter, too",
    "Esc back to your message",
)
_REASON: Final = "Enter declines with this reason. Esc goes back to the answers."
_ALONE: Final = "Answering … A letter that follows takes it back, Enter confirms."
_QUICK: Final = "That began like a word: not sent. Enter declines with this reason."
_EARLY: Final = "Too early: nothing is decided. Read it, then press Tab and one key."


Whose = Literal["answer", "nobody", "focused", "prompt"]
"""Whose a key is: an answer, nobody's, that of whatever has the focus, or text for the prompt."""


class Gate:
    """Whether a key that was pressed at a moment may answer a question. Knows no clock."""

    def __init__(self, grace: float = GRACE) -> None:
        self._grace = grace
        self._shown: float | None = None
        self._noticed = 0.0
        self._written = -math.inf
        self._entered: float | None = None
        self.half_written = False
        """A message stands beside it that was not sent."""

    def show(self, at: float) -> None:
        """It came into view; whatever was known before is void."""
        self._shown = at
        self.begin_anew(at)

    def begin_anew(self, at: float) -> None:
        """It stayed in view, but whoever writes may not have noticed it so far."""
        self._noticed, self._entered = at, None

    def hide(self) -> None:
        """It is out of view, or answered: nothing answers it any more."""
        self._shown = self._entered = None

    def seen(self, at: float) -> float:
        """Seconds for which it has been in view."""
        return at - self._shown if self._shown is not None else 0.0

    def is_open(self, at: float) -> bool:
        """Whether somebody who acts now can have read it."""
        return self._shown is not None and at - self._noticed >= self._grace

    def write(self, at: float) -> None:
        """A message is being written beside it."""
        self._written = at

    def enter(self, at: float) -> bool:
        """Step into it; False while that is too early, or in the midst of words."""
        if self.is_open(at) and max(0.0, at - self._written) >= self._grace * _WRITING:
            self._entered = at
            return True
        return False

    def leave(self) -> None:
        """Step out again."""
        self._entered = None

    @property
    def alone(self) -> float:
        """Seconds for which a letter must stay alone to be an answer."""
        share = _HALF_WRITTEN if self.half_written else _SETTLE
        return max(0.0, self._grace * share)

    def whose(self, at: float, *, answers: bool, printable: bool) -> Whose:
        """Whose a key is while the focus is in here, and whether it is one that answers.

        One that comes along with the step in was not meant as an answer: it is text, or nothing.
        """
        settled = self._entered is not None and at - self._entered >= self._grace * _SETTLE
        if answers and settled:
            return "answer"
        if printable:
            return "prompt"
        return "nobody" if answers else "focused"


class Decision(Vertical):
    """Asks one thing. Its answers are buttons and bindings with the action `choose`."""

    BINDINGS = [
        Binding("up,left,shift+tab", "step(-1)", "Previous", show=False),
        Binding("down,right,tab", "step(1)", "Next", show=False),
        Binding("pagedown", "read(1)", "Read on", priority=True, show=False, id="judge.on"),
        Binding("pageup", "read(-1)", "Read back", priority=True, show=False, id="judge.back"),
        Binding("escape", "back", "Back to the message", show=False, id="judge.leave"),
    ]
    FIRST: ClassVar[str] = ""
    """The button that a step into it leads to: the one that does least."""

    class Decided(Message):
        """A person decided: what, and by which key (or `click`)."""

        def __init__(self, decision: Decision, choice: str, key: str) -> None:
            super().__init__()
            self.decision = decision
            self.choice = choice
            self.key = key

    class Left(Message):
        """The focus is wanted back where it came from."""

    def __init__(self, *, grace: float, clock: Callable[[], float]) -> None:
        super().__init__(classes="decision")
        self._clock = clock
        self.gate = Gate(grace)
        self.was_early = False
        self.escaped = -math.inf
        """When an Escape was pressed beside it."""
        self._letter: events.Key | None = None
        self._alone: Timer | None = None
        """A letter that answers unless another one follows, and when that is known."""
        self._field = 0.0
        """When the key was pressed that leads to a field, and nothing is written there yet."""
        self.was_quick = False
        """A word may have begun with that key: its Enter was not meant for here."""
        self.still_waits: Callable[[], Awaitable[bool]] | None = None
        """Whether nobody decided it on another surface meanwhile, where no event says so."""
        self.key, self.seen = "click", 0.0
        """By what a person decided, and for how many seconds it had been in view."""

    def content(self) -> ComposeResult:
        """What is asked, with `#exact` in it, which shrinks before anything else does."""
        raise NotImplementedError

    def answers(self) -> ComposeResult:
        """A button for each answer."""
        raise NotImplementedError

    def fields(self) -> ComposeResult:
        """What else can be written here."""
        yield from ()

    def compose(self) -> ComposeResult:
        yield from self.content()
        with Vertical(id="buttons"):
            yield from self.answers()
        yield from self.fields()
        yield Static(markup=False, id="how")

    def on_mount(self) -> None:
        self.call_after_refresh(self._make_room)
        # The click that leads to the terminal was not meant for what stands there.
        self.watch(self.app, "app_focus", self.come_into_view)

    def come_into_view(self) -> None:
        """Begin anew to count how long it has been in view, once it is drawn."""
        self.gate.hide()
        self.call_after_refresh(lambda: self.gate.show(self._clock()))

    def on_resize(self) -> None:
        self.call_after_refresh(self._make_room)

    def _make_room(self) -> None:
        """Leave room for the prompt and some of the conversation; the answers stay in view."""
        if not self.is_attached or len(self.query("#exact, #how")) < 2:
            return  # it is being taken away, part by part
        exact, screen = self.query_one("#exact"), self.screen
        beside = [
            each for each in screen.query("#working, #prompt, Waiting, StatusLine") if each.display
        ]
        own = [each for each in self.children if each is not exact and each.display]
        taken = sum(each.outer_size.height + each.styles.margin.height for each in (*beside, *own))
        free = screen.size.height - taken - self.styles.gutter.height
        room = max(_LEAST, free - screen.size.height // _CHAT)
        exact.styles.max_height = room
        self._say_how(more=exact.virtual_size.height > room)

    def _say_how(self, *, more: bool) -> None:
        """Which keys answer, or lead there; which one reads on, where there is more to read."""
        words = (_EARLY,) if self.was_early else _INSIDE if self.has_class("-entered") else _OUTSIDE
        if any(each.display for each in self.query("#reason")):
            words = (_QUICK if self.was_quick else _REASON,)
        told = [each for each in words if more or "PgDn" not in each]
        self.query_one("#how", Static).update(" · ".join(told))

    # whose a key is

    def _moment(self, pressed: float) -> float:
        """When a key was really pressed, which may be long before it is looked at."""
        return self._clock() - max(0.0, time.monotonic() - pressed)

    @property
    def is_open(self) -> bool:
        """Whether somebody who acts now can have read it."""
        return self.gate.is_open(self._clock())

    def was_open(self, pressed: float) -> bool:
        """Whether somebody who pressed a key then can have read it."""
        return self.gate.is_open(self._moment(pressed))

    @property
    def is_entered(self) -> bool:
        """Whether the focus is in it."""
        focused = self.screen.focused
        return focused is not None and self in focused.ancestors

    def enter(self, pressed: float) -> bool:
        """Step into it with a key, unless that was pressed before it could be read."""
        if entered := self.gate.enter(self._moment(pressed)):
            self.was_early = False
            self._focus(self.query_one(f"#{self.FIRST}"))
        else:
            self.too_early()
        return entered

    def too_early(self) -> None:
        """Say what became of a key or a click that came too soon, and what to press now."""
        self.was_early = True
        self._make_room()

    async def meet(self, event: events.Key | events.Paste) -> Whose:
        """Take a key or a paste that came while the focus is in here, or say whose it is."""
        if not isinstance(self.screen.focused, Button):  # a field for a reason
            return self._write(event)
        if self._letter is not None and (whose := await self._follow(self._letter, event)):
            return whose
        if isinstance(event, events.Paste):
            return "prompt"
        bound = self.screen.active_bindings.get(event.key)
        action = bound.binding.action if bound is not None and bound.node is self else ""
        answers = action.startswith("choose") or event.key == "enter"
        if action and not answers:
            await self.run_action(action)
            return "nobody"
        if answers and isinstance(event, KeyAmong):
            self.too_early()
            return "prompt" if event.is_printable else "nobody"
        at = self._moment(event.time)
        whose = self.gate.whose(at, answers=answers, printable=event.is_printable)
        if whose == "answer" and "explain" in action:  # decides nothing, and is written on at once
            self._field, self.was_quick = event.time, False
            await self._choose(event.key, action)
        elif whose == "answer" and event.is_printable and self.gate.alone:
            self._letter = event
            self.query_one("#how", Static).update(_ALONE)
            self._alone = self.set_timer(self.gate.alone, partial(self._choose, event.key, action))
        elif whose == "answer":
            await self._choose(event.key, action or f"choose('{self.screen.focused.id}')")
        elif answers:
            self.too_early()
        return whose

    def _write(self, event: events.Key | events.Paste) -> Whose:
        """Take a key that came while a field for a reason has the focus, or leave it to that."""
        if not isinstance(event, events.Key):
            return "focused"
        if event.key == "escape":
            self.action_back()  # at once: what comes next is no longer written there
            return "nobody"
        if event.key == "enter" and (self.was_quick or isinstance(event, KeyAmong)):
            self._make_room()
            self.was_quick = False
            return "nobody"
        self.was_quick = self.was_quick or event.time - self._field < self.gate.alone
        self._field = 0.0
        return "focused"

    async def _choose(self, key: str, action: str) -> None:
        """Take a key as an answer."""
        self.key, self._letter = key, None
        await self.run_action(action)

    async def _follow(self, letter: events.Key, event: events.Key | events.Paste) -> Whose | None:
        """Something came right behind a letter: a word is being written, or it is confirmed."""
        assert self._alone is not None
        key = event.key if isinstance(event, events.Key) else ""
        if key == letter.key:  # it is held down
            self._alone.reset()
            return "answer"
        self._alone.stop()
        if key == "enter" and not isinstance(event, KeyAmong):
            bound = self.screen.active_bindings[letter.key]
            await self._choose(letter.key, bound.binding.action)
            return "answer"
        if isinstance(event, events.Key) and not event.is_printable:
            self._letter = None
            self._make_room()
            return None
        self.too_early()
        return "prompt"

    def give_back(self) -> events.Key | None:
        """The letter that was no answer, and is text."""
        letter, self._letter = self._letter, None
        return letter

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The focus came in; however it did, it goes back when that is too early."""
        if not self.is_open and isinstance(event.widget, Button):
            self.post_message(self.Left())
            return
        if not self.has_class("-entered"):
            self.gate.enter(self._clock())
            self.add_class("-entered")
            self._make_room()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        if not self.is_entered:
            self.gate.leave()
            if self._alone is not None:
                self._alone.stop()  # who went away from a letter takes it back
            self._letter = None
            self.remove_class("-entered")
            self._make_room()

    # what a person does

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        """A click; keys never come this way."""
        event.stop()
        if self.was_open(event.time):
            self.key = "click"
            self.action_choose(event.button.id or "")
        else:
            self.gate.begin_anew(self._clock())  # or clicks that go on and on would decide at last
            self.too_early()

    def action_choose(self, choice: str) -> None:
        """Decide, once."""
        if self.is_open:
            self.seen = self.gate.seen(self._clock())
            self.gate.hide()
            self.post_message(self.Decided(self, choice, self.key))

    def action_step(self, by: int) -> None:
        buttons: list[Widget] = list(self.query(Button))
        focused = self.screen.focused
        at = buttons.index(focused) if focused in buttons else 0
        self._focus(buttons[(at + by) % len(buttons)])

    def action_read(self, direction: int) -> None:
        exact = self.query_one("#exact")
        if direction > 0:
            exact.scroll_page_down(animate=False)
        else:
            exact.scroll_page_up(animate=False)

    def action_back(self) -> None:
        """Back to the prompt; whatever comes with that key is no answer any more."""
        self.gate.leave()
        self.post_message(self.Left())

    def _focus(self, widget: Widget) -> None:
        """Give it the focus at once: the next key may be here already, and is meant for it."""
        self.screen.set_focus(widget)


class _Answer(Button):
    FOCUS_ON_CLICK = False  # what is typed after any other click is no answer either
    _pressed_at = Offset()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed_at = event.screen_offset

    def on_click(self, event: events.Click) -> None:
        """Take a plain click; who draws the mouse along the words wants to mark them."""
        if self._pressed_at.get_distance_to(event.screen_offset) > _DRAG:
            event.stop()
            event.prevent_default()
        only_plain(self, event)


def button(key: str, label: Content, choice: str) -> Button:
    """An answer, with the key that gives it."""
    return _Answer(Content.assemble(f"{key or ' '}  ", label), id=choice, compact=True)


_HARMLESS: Final = ("reads",)
_WORST: Final = ("deletes", "force-push", "privilege", "pipe to shell", "outside the workspace")


class Approval(Decision):
    """Shows exactly what will run."""

    BINDINGS = [
        Binding("n", "choose('deny')", "Decline", id="approval.deny"),
        Binding("r", "choose('explain')", "Decline and say why", id="approval.reason"),
        Binding("y", "choose('allow-0')", "Allow once", id="approval.allow"),
        Binding("s", "choose('allow-1')", "Allow until you leave", id="approval.session"),
        Binding("ctrl+c", "stop", "Stop the turn", id="approval.stop"),
    ]
    FIRST = "deny"

    class Stopped(Message):
        """The turn that asks is to be stopped."""

    def __init__(self, asked: ToolAsked, *, grace: float, clock: Callable[[], float]) -> None:
        super().__init__(grace=grace, clock=clock)
        self.asked = asked
        self.told = explain(asked)
        self.why = ""

    def content(self) -> ComposeResult:
        yield Static(self._question(), markup=False, id="question")
        if self.told.why:
            yield Static(show.text(self.told.why, "$muted"), markup=False, id="why")
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
        told = self.told
        parts: list[tuple[str, str]] = [("? ", "bold $accent"), (told.question, "bold")]
        if told.worst:
            parts.append((f"  {told.worst}", f"bold {_colour(told.worst)}"))
        parts += [(f"  {each}", "$muted") for each in (told.where, told.size) if each]
        return Content.assemble(*parts)

    def _exact(self) -> Iterator[Widget]:
        """What will happen, once: the path and the numbered change, or the command in parts."""
        told = self.told
        style = "bold" if told.diff else ""
        yield Static(show.judged(told.exact, style), markup=False, id="shown")
        if told.diff:
            yield Static(numbered(told.diff), markup=False, id="diff")
        elif told.parts:
            yield Static(_parts(told.parts), markup=False, id="parts")

    def answers(self) -> ComposeResult:
        yield button("n", Content(self.told.no), "deny")
        if self.asked.risk != "message":
            yield button("r", Content("Decline and say why"), "explain")
        for number, scope in enumerate(self.told.scopes):
            yield button("ys"[number : number + 1], show.line(scope.label, 200), f"allow-{number}")

    def action_choose(self, choice: str) -> None:
        """Decide; who wants to say why writes that first."""
        if not self.query(f"#{choice}"):  # a key may stand for what is not offered
            return
        self._show_reason(True) if choice == "explain" else super().action_choose(choice)

    def answer(self, choice: str) -> Answer:
        """What a choice says to the turn that asks."""
        why = self.why or "declined by the user"
        return answer_to(self.asked, choice, why=why, how=self.key, seen=self.seen)

    def _show_reason(self, shown: bool) -> None:
        reason = self.query_one("#reason")
        reason.display = shown
        self._focus(reason if shown else self.query_one("#deny"))
        if not shown:  # what comes with the step back was written as the reason
            self.gate.enter(self._clock())
        self.call_after_refresh(self._make_room)

    def action_back(self) -> None:
        """Out of the reason to the answers; out of those to the prompt."""
        self._show_reason(False) if self.query_one("#reason").display else super().action_back()

    @on(Input.Submitted, "#reason")
    def _explained(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.is_open:
            return
        self.why, event.input.value = event.value.strip(), ""
        self.key = "enter"
        super().action_choose("deny")

    def action_stop(self) -> None:
        """Stop the turn that asks, and the question with it; what is selected is copied instead."""
        if self.screen.get_selected_text():
            self.screen.action_copy_text()
        else:
            self.post_message(self.Stopped())


class Proposed(Approval):
    """Something that no turn waits for; `later` leaves it as it is."""

    BINDINGS = [Binding("l", "choose('later')", "Later", id="proposed.later")]
    FIRST = "later"

    def answers(self) -> ComposeResult:
        yield button("l", Content("Later"), "later")
        yield from super().answers()

    def action_back(self) -> None:
        super().action_back() if self.query_one("#reason").display else self.action_choose("later")


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


def about_memory(proposal: MemoryProposed) -> ToolAsked:
    """A proposed memory as a question: what would change in its file, line by line."""
    before, after = exact(proposal.before).splitlines(), exact(proposal.after).splitlines()
    changed = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    sources = ", ".join(f"#{seq}" for seq in proposal.sources)
    return ToolAsked(
        turn=0,
        call=proposal.proposal,
        name="memory",
        risk="memory",
        shown=proposal.path,
        digest="",
        diff="\n".join(changed),
        why=f"{proposal.why[:1].upper()}{proposal.why[1:].rstrip('.')}. From {sources}.",
        scopes=(AskedScope(scope="once", label="Remember it"),),
    )
