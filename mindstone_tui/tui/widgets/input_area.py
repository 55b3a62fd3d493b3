"""The input area: what is to be decided, queued messages, completions and the prompt."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from mindstone_tui.tui import show
from mindstone_tui.tui.host import AppHost
from mindstone_tui.tui.prompt.completion import (
    Completion,
    Offer,
    complete,
    names_below,
    wants_files,
)
from mindstone_tui.tui.prompt.paste import Pastes
from mindstone_tui.tui.widgets.prompt import Begun, Prompt

if TYPE_CHECKING:
    from mindstone_tui.core import events as ev
    from mindstone_tui.tui.widgets.approval import Decision


_AGAIN: Final = {"enter": "Enter sends what stands here now.", "escape": "Esc stops the turn now."}
"""What the same key does next, once it was taken for one meant for a question."""
_ELSEWHERE: Final = "That question is over: nothing was decided here or sent."


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
                for queued in self.messages:
                    if queued.entry == entry:
                        await queued.remove()

    @property
    def messages(self) -> list[Queued]:
        """What waits."""
        return list(self.query(Queued))


_LEAVING: Final = 3.0
"""Seconds within which Ctrl+C clears the prompt, stops a turn, and leaves."""
_SURE: Final = 4.0
"""Seconds within which a second Escape stops a turn that waits for an answer."""
HELD = 0.6
"""Seconds within which a key that is held down repeats."""
LABEL = 34
"""Columns for the completion itself when it has a description."""


class Completions(OptionList, can_focus=False):
    """The list of completions, shown while there are any."""

    def __init__(self) -> None:
        super().__init__(id="completions", markup=False)
        self.completion: Completion | None = None

    def offer(self, completion: Completion | None) -> None:
        """Show other offers, or none."""
        if completion == self.completion:
            return
        self.completion = completion
        self.clear_options()
        self.set_class(completion is not None, "-open")
        if completion is not None:
            width = min(LABEL, max(len(offer.label) for offer in completion.offers))
            self.add_options([Option(_drawn(offer, width)) for offer in completion.offers])
            self.highlighted = 0

    def fits(self, offer: Offer) -> bool:
        """Whether the whole description stands in the list."""
        offers = self.completion.offers if self.completion else ()
        label = min(LABEL, max((len(each.label) for each in offers), default=0))
        return label + 2 + len(offer.help) <= self.scrollable_content_region.width - 2

    @property
    def chosen(self) -> Offer | None:
        """The offer under the highlight."""
        if self.completion is None or self.highlighted is None:
            return None
        return self.completion.offers[self.highlighted]


def _drawn(offer: Offer, width: int) -> Content:
    label = show.line(offer.label, LABEL if offer.help else 160)
    gap = " " * max(2, width - label.cell_length + 2)
    return label + Content(gap) + show.line(offer.help, 100, "$muted")


def named(line: str, begun: Begun) -> str:
    """A command; a typed answer with the mark of what could be read when it was begun."""
    asked = getattr(begun.decision, "asked", None)
    if not (asked and (given := re.fullmatch(r"(/answer (?:yes|no))( [^#].*)?", line))):
        return line
    from mindstone_tui.core.library.open_questions import mark_of  # 20 ms

    return f"{given[1]} {mark_of(asked.call, asked.since)}{given[2] or ''}"


class InputArea(Vertical):
    """Keeps the list of completions in step with the prompt."""

    prompt = query_one(Prompt)
    waiting = query_one(Waiting)

    def __init__(self, host: AppHost) -> None:
        super().__init__(id="input-area")
        self._host = host
        self._cleared = ("", 0.0)
        """What was written and cleared last, and when."""
        self._files: list[str] = []
        self._listing = False
        self.decision: Decision | None = None
        """What is to be decided, if anything is."""
        self._decided: Callable[[str], None] = lambda choice: None
        self._torn = ""
        """Why the next Enter sends nothing: what it ends was begun as something else."""
        self._refused = 0.0
        """When a key was to lead into a decision, and did not."""
        self.to_write: dict[str, str] = {}
        """What the prompt is to hold once a command has done its work."""
        self._held = ("", 0.0)
        """The key that answered or left a decision and may still be held down; when last seen."""
        self._led_out = 0.0
        """When the key was pressed that led out of a decision into the prompt."""

    def compose(self) -> ComposeResult:
        yield Waiting()
        yield Prompt(Pastes(self._host.folder), self._begin, vim=self._host.settings.vim)

    def on_mount(self) -> None:
        self.call_after_refresh(lambda: self.completions)

    @property
    def completions(self) -> Completions:
        """The list; made when it is first wanted, or else right after the first picture."""
        for made in self.query(Completions):
            return made
        made = Completions()
        self.mount(made, Static(id="completion-help", markup=False), before=self.prompt)
        return made

    async def show_queue(self, event: ev.AnyEvent) -> None:
        """Keep up with what waits to be sent, or decided."""
        from mindstone_tui.core import events as ev  # not for the first picture

        await self.waiting.show(event)
        self.prompt.queued = bool(self.waiting.messages)
        waits = self.decision.still_waits if self.decision is not None else None
        if self.decision is not None and waits and isinstance(event, ev.EntryAppeared):
            self._look_again(self.decision, waits)

    @work(group="asked", exclusive=True, exit_on_error=False)
    async def _look_again(self, shown: Decision, waits: Callable[[], Awaitable[bool]]) -> None:
        """Ask no longer what was decided on another surface."""
        if not await waits() and shown is self.decision:
            self.withdraw(shown)

    @on(Prompt.Broken)
    def _clear(self, event: Prompt.Broken) -> None:
        if event.cleared:
            self._cleared = event.cleared, self._host.clock()

    @property
    def unsent(self) -> str:
        """What stands in the prompt, or was cleared by the first of the keys that leave."""
        words, when = self._cleared
        just_now = words if self._host.clock() - when < _LEAVING else ""
        return self.prompt.unfolded or just_now

    @on(TextArea.Changed)
    def _write_beside(self) -> None:
        # Who writes on, or anew once nothing is asked, knows where they are.
        if self._torn == _ELSEWHERE or (not self.prompt.text and self.decision is None):
            self._torn = ""
        elif self.decision is not None and self.prompt.text:
            self.decision.gate.write(self._host.clock())
        if self.decision is not None:
            self.decision.gate.half_written = bool(self.prompt.text)

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _follow(self) -> None:
        prompt = self.prompt
        row, column = prompt.cursor_location
        line = prompt.document[row]
        if wants_files(line, column) and not self._listing:
            self._list_files()
        completion = self._completion(line, row, column)
        if completion and completion.offers[0].insert.strip() == line[completion.start : column]:
            completion = None
        prompt.completing = completion is not None
        prompt.set_class(prompt.is_command and prompt.text.lstrip()[0] == "!", "-shell")
        if completion is not None:
            self.completions.offer(completion)
        else:
            self._hide()

    def _begin(self, pressed: float) -> Begun:
        """The first letter of a text was pressed at a moment, which may be a while ago."""
        asked = self.decision
        if asked and pressed != self._led_out and not asked.was_open(pressed):
            asked = None
        return Begun(self._host.clock() - max(0.0, time.monotonic() - pressed), asked)

    def _completion(self, line: str, row: int, column: int) -> Completion | None:
        # Loading all commands takes a while; nobody waits for it who types no command.
        commands = self._host.commands() if line.startswith("/") else ()
        return complete(line, column, first_line=row == 0, commands=commands, files=self._files)

    @work(exclusive=True, group="files")
    async def _list_files(self) -> None:
        self._listing = True
        try:
            self._files = await asyncio.to_thread(names_below, self._host.folder)
        finally:
            self._listing = False
        row, column = self.prompt.cursor_location
        if wants_files(line := self.prompt.document[row], column):
            completion = self._completion(line, row, column)
            self.prompt.completing = completion is not None
            self.completions.offer(completion)

    @on(Prompt.Navigated)
    def _navigate(self, event: Prompt.Navigated) -> None:
        event.stop()
        match event.key:
            case "up":
                self.completions.action_cursor_up()
            case "down":
                self.completions.action_cursor_down()
            case "escape":
                self.close()
                self._escape_once()
            case "enter" | "tab":
                self._accept(send=event.key == "enter")

    @on(OptionList.OptionHighlighted)
    def _explain(self) -> None:
        """Say in full what the highlighted completion takes and does."""
        offer = self.completions.chosen
        told = self.query_one("#completion-help", Static)
        told.display = offer is not None and bool(offer.detail)
        if offer is not None:
            usage, _, rest = offer.detail.partition("\n")
            body = " ".join(rest.split())
            said = [show.line(usage, 200, "$accent")]
            if body != offer.help or not self.completions.fits(offer):
                said.append(show.text(body, "$muted"))
            told.update(Content("\n").join(said))

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._accept(send=False)

    def _accept(self, *, send: bool) -> None:
        """Put the chosen offer into the prompt; Enter on a whole command sends it as well."""
        offer, completion = self.completions.chosen, self.completions.completion
        self.close()
        if offer is None or completion is None:
            if send:  # the list was still open when the key was pressed, and is gone by now
                self.prompt.call_next(self.prompt.action_send)
            return
        row, column = self.prompt.cursor_location
        typed = self.prompt.document[row][completion.start : column]
        self.prompt.complete(offer.insert, (row, completion.start))
        if send and offer.insert.strip() == typed.strip():
            self.prompt.call_next(self.prompt.action_send)

    def close(self) -> None:
        """Hide the completions until something else is typed."""
        self.prompt.completing = False
        self._hide()

    def _hide(self) -> None:
        self.completions.offer(None)
        self.query_one("#completion-help").display = False

    # decisions

    def decide(self, decision: Decision, then: Callable[[str], None]) -> None:
        """Ask something above the prompt; what was asked before gives way, undecided."""
        if self.decision is not None:
            self.withdraw(self.decision)
        self.decision, self._decided = decision, then
        decision.gate.half_written = bool(self.prompt.text)
        self.mount(decision, before=0)

    def withdraw(self, decision: Decision, *, here: bool = False) -> None:
        """Ask it no longer, and say so to whoever was about to answer, unless it was answered here;
        a reason that was half written is not torn, but goes on below."""
        if decision.is_entered:
            self.screen.set_focus(self.prompt)
            self._torn = _ELSEWHERE
            if not here:
                self.notify(_ELSEWHERE)
        if any(each.has_focus for each in decision.query(Input)):
            self._torn = "That question is over: nothing is sent."
        if words := "".join(each.value for each in decision.query(Input)):
            self.prompt.move_cursor(self.prompt.document.end)
            self.prompt.insert(f"\n{words}" if self.prompt.text else words)
        self.decision = None
        decision.remove()

    # Named as Textual looks for them: what says this is not there at first.

    def on_decision_decided(self, event: Decision.Decided) -> None:
        event.stop()
        if event.decision is self.decision:
            if event.key == "enter":
                self._held = (event.key, event.time)
            self.withdraw(event.decision, here=True)
            self._torn = ""  # the reason was sent here, whole
            self._decided(event.choice)

    def step_in(self, pressed: float, *, alone: bool = True) -> None:
        """Go to what is asked; where that is refused, what is typed next may be an answer."""
        if self.decision is None or (alone and self.decision.enter(pressed)):
            return
        self.decision.too_early()
        self._torn = "The step into the question came too early: nothing is decided or sent."
        self._refused = pressed

    def write_after(self, command: str, *, ok: bool) -> None:
        """A command ended: what was to stand in the prompt then does, if it did its work."""
        text = self.to_write.pop(command, "")
        if ok and text:
            self.prompt.write(text)
            self._held = ("enter", time.monotonic())  # a second one was not meant for this

    def on_decision_left(self, event: Decision.Left) -> None:
        event.stop()
        self.screen.set_focus(self.prompt)

    def escapes(self) -> bool:
        """Whether an Escape goes on to stop the turn.

        Nothing is in a hurry while something is asked, and Escape means "back" in many places: then
        only a second one does, and not one that comes at once.
        """
        asked, now = self.decision, self._host.clock()
        if asked is None or (asked.is_open and now - asked.escaped < _SURE):
            return True
        if not asked.is_open:  # it was pressed for something else
            asked.too_early()
            return False
        asked.escaped, self._held = now, ("escape", time.monotonic())
        self.notify(
            "Nothing runs while this waits. Esc again, a moment later, stops the turn.",
            timeout=_SURE,
        )
        return False

    def _escape_once(self) -> None:
        """An Escape closed something; a second one was to close it, too, and stops nothing."""
        self._held = ("escape", time.monotonic())
        if self.decision is not None:
            self.decision.gate.begin_anew(self._host.clock())

    async def meet(self, event: events.Key | events.Paste) -> bool:
        """Let an open decision say whose a key is; whether it is used up.

        It is asked before the key goes anywhere, so that text reaches the prompt in order.
        """
        key = event.key if isinstance(event, events.Key) else ""
        held = bool(key) and key == self._held[0] and event.time - self._held[1] < HELD
        inside = self.decision is not None and self.decision.is_entered
        # The key that answered or led out is still held down: it must not send or stop anything.
        self._held = (key, event.time) if held or (inside and key == "escape") else ("", 0.0)
        if held:
            return True
        if key == "escape" and not inside and (over := self.screen.query("#panel.-over")):
            over.remove_class("-over")
            self._escape_once()
            return True
        if self.decision is not None and inside:
            if (whose := await self.decision.meet(event)) == "prompt":
                self.screen.set_focus(self.prompt)
                if (letter := self.decision.give_back()) is not None:
                    self.prompt.type(letter)
                self._led_out = event.time
                self.decision.gate.begin_anew(self._host.clock())  # an Escape now means "back"
                if self.decision.was_early:
                    self._torn = "The first letter came too early: nothing is decided or sent."
            return whose in ("answer", "nobody")
        if self._torn and (key == "enter" or (key == "escape" and self.decision is None)):
            self.notify(f"{self._torn} {_AGAIN[key]}")
            self._torn = ""
            return True
        if key in ("up", "down") and event.time - self._refused < _LEAVING:
            return True  # they were to choose among the answers
        if key == "tab" and self.decision is not None and self.screen.focused is not self.prompt:
            self.step_in(event.time)
            return True
        return False
