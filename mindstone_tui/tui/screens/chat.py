"""The chat: draws every event in order and passes on what a person does."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import Worker

from mindstone_tui.core import errors, numbers
from mindstone_tui.tui import show
from mindstone_tui.tui.host import AppHost, OpenConversation
from mindstone_tui.tui.widgets.base import PacedScreen
from mindstone_tui.tui.widgets.context_panel import ContextPanel, LeftLog, StatusLine
from mindstone_tui.tui.widgets.conversation import ConversationView
from mindstone_tui.tui.widgets.input_area import InputArea, Queued, named
from mindstone_tui.tui.widgets.prompt import SAID, TYPED, Prompt

if TYPE_CHECKING:
    from mindstone_tui.core import events as ev
    from mindstone_tui.tui.widgets.exchange import Card
    from mindstone_tui.tui.widgets.welcome import Welcome


@dataclass
class ScreenWanted(Message):
    """A request to open a screen or run an app action, by its slash command's name."""

    screen: str
    argument: str = ""


@dataclass
class TurnFinished(Message):
    """A turn is over, after so many seconds."""

    ended: ev.TurnEnded
    elapsed: float


class ApprovalWaits(Message):
    """A turn stands still until somebody answers."""


_NOT_OPEN: Final = "No session is open. Ctrl+Q leaves."
_COVERED: Final = "A question in the chat waits for your answer. Esc goes back to it."
_STOPPING: Final = "Stopping the turn. Ctrl+C again leaves instead, and the question waits."
_NEXT: Final = "The next turn just began, with what was queued. The same key again stops it."
_TWICE: Final = 1.0  # seconds within which a key counts as pressed twice
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LONG_LINES: Final = 100  # of a message, from which on it is said that they are being read


class TalkScreen(PacedScreen):
    """A conversation on the left, live or recorded, and its context window on the right."""

    HORIZONTAL_BREAKPOINTS = [  # Textual declares it without ClassVar
        (0, "-narrow"),
        (100, "-normal"),
        (150, "-wide"),
    ]

    conversation = query_one(ConversationView)
    panel = query_one(ContextPanel)
    status = query_one(StatusLine)

    async def show_problem(self, error: errors.MindstoneError) -> None:
        """Say why there is nothing to show."""
        from mindstone_tui.core import events as ev  # not for the first picture

        await self.conversation.show(
            ev.TurnEnded(turn=0, ending="failed", why=error.what, remedy=error.remedy)
        )

    def action_panel(self) -> None:
        self.panel.toggle_class("-over" if self.has_class("-narrow") else "-off")


class ChatScreen(TalkScreen):
    """The chat: the prompt stands below the conversation."""

    AUTO_FOCUS = "#prompt"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]
    BINDINGS = [
        Binding("escape", "interrupt", "Stop; twice: go back", id="chat.interrupt"),
        Binding("ctrl+b", "panel", "Context panel", id="chat.panel"),
        Binding("pageup", "page(-1)", "Scroll up", priority=True, show=False, id="chat.up"),
        Binding("pagedown", "page(1)", "Scroll down", priority=True, show=False, id="chat.down"),
        Binding("ctrl+end", "newest", "Newest", priority=True, show=False, id="chat.end"),
        Binding("f1", "want('help')", "Help", id="chat.help"),
        Binding("f2", "want('context')", "Inspect the context window", id="chat.context"),
        Binding("f3,ctrl+r", "want('sessions')", "Sessions and search", id="chat.sessions"),
        Binding("f4", "want('transcript')", "Transcript", id="chat.transcript"),
        Binding("f5", "want('model')", "Model", id="chat.model"),
        Binding("f6", "want('memory')", "Answer, decide, or keep", priority=True, id="chat.memory"),
        Binding("f7", "want('sample')", "Sample session", priority=True, id="chat.sample"),
        Binding("f8", "want('theme')", "Theme", id="chat.theme"),
        Binding("f9", "want('key')", "Add an API key", id="chat.key"),
        Binding("f10", "want('fetch')", "Download a model", id="chat.fetch"),
        Binding("ctrl+g", "want('editor')", "External editor", id="chat.editor"),
        Binding("ctrl+l", "want('scrollback')", "Plain scrollback", id="chat.scrollback"),
        Binding("alt+c", "want('copy')", "Copy the last answer", id="chat.copy"),
        Binding("alt+k", "want('copy', 'code')", "Copy the last code block", id="chat.copy-code"),
    ]

    input_area = query_one(InputArea)

    def __init__(self, open_conversation: OpenConversation, host: AppHost) -> None:
        super().__init__(classes=self._classes_here())
        self._open = open_conversation
        self.host = host
        self.talk: ev.Conversation | None = None
        self.opened = False
        """A session was opened, and can be come back to."""
        self._shown: ev.Conversation | None = None
        """What the screen shows the beginning of."""
        self.running = 0
        """The turn that runs, or 0."""
        self._since = self._waits = self._escaped = self._broke = 0.0
        """When something began; and when Esc, and Ctrl+C, last had nothing else to do."""
        self.parting: list[str] | None = None  # what is noticed while the session closes
        self._ticking: Timer | None = None
        self._stopping: Timer | None = None  # unless Ctrl+C is pressed again
        self._asked: list[ev.ToolAsked] = []
        self.proposals: list[ev.MemoryProposed] = []
        """Proposed memories waiting for a decision."""
        self._at_work: set[str] = set()  # the calls that run
        self._early: dict[str, Prompt.Submitted] = {}
        """What was sent before the session was open, in order; it waits in the queue."""
        self._following: Worker[None] | None = None
        self._first = ("sessions", host.offers) if host.offers else ("transcript", host.at)
        self._then = self._keep_model = self._doing = self._followed = ""

    def _classes_here(self) -> str:
        """The classes that this terminal's size asks for: known now, nothing is styled twice."""
        width, height = shutil.get_terminal_size()
        of_width = self._get_breakpoint_classes(width, self.HORIZONTAL_BREAKPOINTS)
        of_height = self._get_breakpoint_classes(height, self.VERTICAL_BREAKPOINTS)
        return " ".join(sorted(of_width | of_height))

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Nothing is styled twice: at first, everything has just been."""
        event.refresh_styles = self._following is not None
        if self._following is not None and (asked := self.input_area.decision) is not None:
            asked.come_into_view()
            self.app.clear_notifications()

    def on_screen_suspend(self) -> None:
        """What is asked is covered: that is said for as long as it is."""
        if self._asked:
            self.notify(_COVERED, timeout=86_400)

    def compose(self) -> ComposeResult:
        with Horizontal(id="main"):
            with Vertical(id="left"):
                yield ConversationView(id="conversation")
                yield Static("", id="working", markup=False)
                yield InputArea(self.host)
            yield ContextPanel(id="panel")
        yield StatusLine(self.host.elsewhere)

    def on_mount(self) -> None:
        self.panel.set_class(not self.host.settings.panel, "-off")
        # The first paint comes before anything that takes time.
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        self._following = self._follow()

    @work(group="session", exit_on_error=False)
    async def _follow(self) -> None:
        """Open the session, then draw every event in order until it closes."""
        try:
            self.talk = await self._open(self.host.session)
        except errors.MindstoneError as error:
            await self.show_problem(error)
            prompt = self.input_area.prompt  # nothing can be said here, and the last line says so
            prompt.write("\n".join(each.text for each in self._early.values()))
            prompt.read_only, prompt.placeholder = True, Content(_NOT_OPEN)
            self.status.model, self.status.doing = "not open", ""
            return
        async for event in self.talk.events():
            await self.show(event)

    async def show(self, event: ev.AnyEvent) -> None:
        """Draw one event everywhere it belongs."""
        from mindstone_tui.core import events as ev  # not for the first picture

        match event:
            case ev.SessionReady():
                await self._ready(event)
            case ev.ContextReported(report=report):
                self.panel.report = self.status.report = report
            case ev.TurnStarted():
                self._begin(event)
            case ev.TurnEnded():
                self._end(event)
            case ev.ToolAsked():
                self._ask(event)
            case ev.ToolAnswered() | ev.ToolStarted() | ev.ToolEnded():
                self._answered(event)
            case ev.ScreenAsked():
                self.action_want(event.screen, event.argument)
            case ev.TextDelta():
                self._say_doing("answering")
                await self.conversation.show(event)
                return  # hundreds of these come in a second, and nothing else shows them
            case ev.ModelCalled():
                self._say_doing("sent")
            case ev.ThinkingDelta():
                self._say_doing("thinking")
            case ev.ModelChanged(model=model):
                self.status.model = model
            case ev.MessageReturned(text=text) | ev.MessageWithdrawn(text=text) if text:
                self.input_area.prompt.write_before(text)
            case ev.Noticed(message=message) if self.parting is not None:
                self.parting.append(message)
            case ev.MemoryProposed():
                self.proposals.append(event)
            case ev.CommandPrinted(text=text) if self.app.screen is not self:
                self.notify(text, timeout=6)  # who is on another screen does not see the chat
            case ev.CommandEnded(ok=ok, command=command):
                self.status.doing = self.status.doing if self.running else ""
                self.input_area.write_after(command, ok=ok)
                if ok and command.startswith("/memory"):
                    self._offer_no_more(command.split())
            case ev.EntryAppeared(proposal=proposal) if proposal:
                self._offer_no_more([proposal])
        await self.conversation.show(event)
        await self.input_area.show_queue(event)
        self.panel.show(event)

    def _offer_no_more(self, decided: list[str]) -> None:
        """Memories were decided, here by a command or on another surface."""
        self.proposals = [one for one in self.proposals if one.proposal not in decided]
        for call in decided:
            self._withdraw_question(call)

    async def _ready(self, event: ev.SessionReady) -> None:
        self.status.session, self.status.model = event.session, event.model
        self.opened = True
        if self._shown is self.talk:  # it goes on in a fork, and what it begins with is shown
            return
        self._shown = self.talk
        self.call_later(self._send_early)
        library = self.host.library
        self.conversation.past = (lambda: library.browse(event.session)) if library else None
        if event.turns and library is not None:
            await self.conversation.open(library.browse(event.session))
        elif not event.turns:
            from mindstone_tui.tui.widgets.welcome import Welcome  # 4 ms

            await self.conversation.place(welcome := Welcome(event, self.host.setup))
            self._look_for_models(welcome)
        at_work = self._first[0] == "sessions" and (self._early or self.input_area.prompt.text)
        if self._first[1] and not at_work:
            self.action_want(*self._first)
        self._first = ("", "")
        model, then, self._keep_model, self._then = self._keep_model, self._then, "", ""
        if model and not event.turns and model != event.model:
            self.command(f"/model {model}")
        if then:
            self.command(then)

    @work(group="models", exit_on_error=False)
    async def _look_for_models(self, welcome: Welcome) -> None:
        if self.host.models is not None:
            found = await self.host.models()
            if welcome.is_attached:
                welcome.offer(found)

    def _wait_in_line(self, event: Prompt.Submitted) -> None:
        """Hold what was sent too early, in view, until the session is open."""
        from mindstone_tui.core import events as ev  # 1 ms

        entry = f"early {len(self._early)}"
        self._early[entry] = event
        self.status.doing = "will be sent when the session is open"
        self._show_queue(ev.MessageQueued(entry=entry, text=event.text))

    @work(group="queue", exit_on_error=False)
    async def _show_queue(self, event: ev.MessageQueued | ev.MessageWithdrawn) -> None:
        await self.input_area.show_queue(event)

    def _send_early(self) -> None:
        from mindstone_tui.core import events as ev  # 1 ms

        early, self._early, self.status.doing = self._early, {}, self._doing
        for entry, event in early.items():
            self._show_queue(ev.MessageWithdrawn(entry=entry))
            self._submitted(event)

    # the turn

    def _begin(self, event: ev.TurnStarted) -> None:
        self.running, self._doing, self._followed = event.turn, "", event.queued
        self._since = self.host.clock()
        self.query("#welcome").remove()
        self._keep_time(True)
        lines = event.text.count("\n") + 1
        self._say_doing(f"reading {lines:,} lines" if lines >= LONG_LINES else "sent")

    def _end(self, event: ev.TurnEnded) -> None:
        self.running = 0
        self._keep_time(False)
        self._asked, self._at_work = [], set()
        self._withdraw_question("")
        self.post_message(TurnFinished(event, self.host.clock() - self._since))

    def _keep_time(self, running: bool) -> None:
        """Show that a turn runs; a mark on the screen would have every message styled anew."""
        self.query("#working, #prompt").set_class(running, "-running")
        if running and self._ticking is None:
            self._ticking = self.set_interval(1, self._tick)
        elif not running:
            if self._ticking is not None:
                self._ticking.stop()
            self._ticking, self._doing, self.status.doing = None, "", ""

    def _say_doing(self, what: str) -> None:
        before, self._doing = self._doing, "waits for your answer" if self._asked else what
        if self._doing != before:
            self._tick()

    def _tick(self) -> None:
        if self.running or self._asked:
            seconds = int(self.host.clock() - (self._waits if self._asked else self._since))
            elapsed = numbers.seconds(float(seconds)).replace(".0", "")
            how = "Tab answers, Esc twice stops" if self._asked else "Esc stops"
            self.status.doing = f"{self._doing} · {elapsed} · {how.lower()}"
            sent = self._doing == "sent"
            what = f"waiting for {self.status.model or 'the model'}" if sent else self._doing
            said = f"{_SPINNER[seconds % len(_SPINNER)]} {what} · {elapsed} · {how}"
            self.query_one("#working", Static).update(show.line(said, 120, "$accent"))

    # approvals

    def _ask(self, event: ev.ToolAsked) -> None:
        self._asked.append(event)
        if len(self._asked) == 1:
            self._put_question()
            self._keep_time(True)
        self._say_doing("")
        self.post_message(ApprovalWaits())

    def _put_question(self) -> None:
        from mindstone_tui.tui.widgets.approval import Approval  # not for the first picture

        asked = self._asked[0]
        self._waits = self.host.clock() - (numbers.age(asked.since) if asked.since else 0.0)
        approval = Approval(asked, grace=self.host.decision_grace, clock=self.host.clock)

        def answered(choice: str) -> None:
            if self._stopping is not None:  # whoever answers after Ctrl+C stops nothing
                self._stopping.stop()
                self._stopping, self._broke = None, 0.0
            if asked in self._asked and self.talk is not None:
                self._asked.remove(asked)
                self.talk.answer(asked.call, approval.answer(choice))
            if self._asked:
                self._put_question()

        self.input_area.decide(approval, answered)
        if self.app.screen is not self:
            self.on_screen_suspend()

    def _answered(self, event: ev.ToolAnswered | ev.ToolStarted | ev.ToolEnded) -> None:
        from mindstone_tui.core.events import ToolEnded, ToolStarted  # 3 ms

        self._asked = [asked for asked in self._asked if asked.call != event.call]
        self._withdraw_question(event.call)
        if not (self.running or self._asked):  # another surface's turn goes on there
            self._keep_time(False)
        elif isinstance(event, ToolStarted):
            self._at_work.add(event.call)
            self._say_doing(f"running {event.name}")
        elif isinstance(event, ToolEnded):
            self._at_work.discard(event.call)
            if self.running and not self._at_work:
                self._say_doing("sent")  # the result goes to the model, which may take its time

    def _withdraw_question(self, call: str) -> None:
        """The question was answered elsewhere; an empty call means whichever is open."""
        from mindstone_tui.tui.widgets.approval import Approval  # 7 ms

        shown = self.input_area.decision
        if isinstance(shown, Approval) and (not call or shown.asked.call == call):
            self.input_area.withdraw(shown)
            if self._asked:
                self._put_question()
            elif self.app.screen is not self:
                self.app.clear_notifications()

    def on_approval_stopped(self) -> None:  # named as Textual looks for it, as below
        self.set_focus(self.input_area.prompt)
        self._break()

    # what a person does

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        if self.talk is None or self._early:
            self._wait_in_line(event)
            return
        self.conversation.anchor()
        if event.text.startswith("!") and not event.literal:
            self.talk.command(f"/shell {event.text[1:].strip()}")
        elif event.text.startswith("/") and not event.literal:
            self.command(named(event.text, event.begun), writing=self.host.clock() - event.begun.at)
        else:
            self._send(event)

    def _send(self, event: Prompt.Submitted) -> None:
        """Send a message; with an attachment that cannot be used it goes back to the prompt."""
        assert self.talk is not None
        try:
            self.talk.send(event.text, attachments=event.attachments, steer=event.steer)
        except errors.UsageError as error:
            self.input_area.prompt.write(event.text)
            self.notify(f"{error.what} {error.remedy}", severity="error", timeout=10)

    @on(Prompt.TakeBack)
    @on(Queued.TakenBack)
    def _take_back(self, event: Message) -> None:
        """Have the one that was clicked, or the newest, in the prompt again."""
        clicked = event.entry if isinstance(event, Queued.TakenBack) else ""
        found = [one for one in self.input_area.waiting.messages if clicked in ("", one.entry)]
        for one in found[-1:]:
            early = self._early.get(one.entry)
            origin = SAID if early is None or early.literal else TYPED
            self.input_area.prompt.write_before(one.text, origin)
            self._withdraw(one.entry)

    def _withdraw(self, entry: str) -> None:
        if entry in self._early:
            from mindstone_tui.core.events import MessageWithdrawn  # 3 ms

            del self._early[entry]
            self._show_queue(MessageWithdrawn(entry=entry))
        elif self.talk is not None:
            self.talk.withdraw(entry)

    # Named as Textual looks for them: the widgets that say this are not there at first.

    def on_card_dropped(self, event: Card.Dropped) -> None:
        self.command(f"/recall drop {event.passage.entry} {event.passage.session}")

    def on_card_opened(self, event: Card.Opened) -> None:
        self.action_want("transcript", f"{event.passage.session} {event.passage.seq}")

    def on_welcome_chosen(self, event: Welcome.Chosen) -> None:
        if event.step.screen == "switch":
            self.command(f"/model {event.step.argument}")
            self.set_focus(self.input_area.prompt)
        else:
            self.action_want(event.step.screen, event.step.argument)

    @on(LeftLog.Wanted)
    def _left_wanted(self, event: LeftLog.Wanted) -> None:
        if event.deed == "open":
            self.action_want("transcript", f"turn {event.turn}")
        else:
            self.command(f"/restore turn {event.turn}")
            if event.deed == "pin":
                self.command(f"/pin turn {event.turn}")

    @on(Prompt.Tabbed)
    def _tabbed(self, event: Prompt.Tabbed) -> None:
        """Tab goes to what is asked or offered first, else to the next thing on the screen."""
        if self.input_area.decision is not None:
            # Among other keys that were read in one go it may be part of a paste.
            alone = event.apart and event.pressed == self.input_area.prompt.pressed
            self.input_area.step_in(event.pressed, alone=alone)
            return
        if not event.apart:
            return
        steps = self.query("#welcome #steps")
        if not (steps and steps.first().display):
            self.focus_next()
        else:
            self.set_focus(steps.first())

    def command(self, line: str, **given: Any) -> None:
        """Run a slash command, as `Conversation.command` takes it."""
        if self.talk is not None:
            if not self.running:  # some take a while, and a turn has a line of its own
                self.status.doing = f"running {line.split(maxsplit=1)[0]}"
            self.talk.command(line, **given)

    def action_want(self, screen: str, argument: str = "") -> None:
        self.post_message(ScreenWanted(screen, argument))

    def action_interrupt(self) -> None:
        if not self.input_area.escapes() or self._stop_turn("Esc"):
            return
        prompt, now = self.input_area.prompt, self.host.clock()
        self.set_focus(prompt)
        again = self._escaped > 0.0 and now - self._escaped < _TWICE and self.is_current
        if twice := again and not prompt.text:
            self.action_want("rewind")
        self._escaped = 0.0 if prompt.text or twice else now

    def _stop_turn(self, how: str = "Ctrl+C") -> bool:
        """Stop the running turn, unless it just followed another; whether there is one."""
        if not (self.running or self._asked) or self.talk is None:
            return False
        if self._followed and self.host.clock() - self._since < self.host.decision_grace:
            self.notify(_NEXT)
        else:
            self.talk.interrupt(how=how)
        return True

    @on(Prompt.Broken)
    def _broken(self, event: Prompt.Broken) -> None:
        if event.cleared:
            works = self.running and not self._asked  # then the second one stops it
            self._broke = 0.0 if works else self.host.clock()
        else:
            self._break()

    def _break(self) -> None:
        """Once: the turn is stopped. Twice quickly: leave, and what is asked waits."""
        before, self._broke = self._broke, self.host.clock()
        if before and self._broke - before < _TWICE:
            if self._stopping is not None:
                self._stopping.stop()
            self.action_want("quit")
        elif self._asked:
            self._stopping = self.set_timer(_TWICE, self._stop_turn)
            self.notify(_STOPPING, timeout=_TWICE)
        elif not self._stop_turn():
            self.notify("Press Ctrl+C again, or Ctrl+D, to leave.", timeout=2, markup=False)

    @on(Prompt.Asked)
    @on(Prompt.Left)
    def _want(self, event: Message) -> None:
        self.action_want("quit" if isinstance(event, Prompt.Left) else "words")

    def action_page(self, direction: int) -> None:
        self.conversation.turn_page(direction)

    async def action_newest(self) -> None:
        await self.conversation.action_newest()

    async def on_key(self, event: events.Key) -> None:
        """Typing goes to the prompt, wherever the focus is.

        What the prompt itself takes never comes here. Of a burst, the first letter moves the focus
        and the others still come from where it was: Enter among them must not wait for the app's
        own turn, or letters behind it would be sent with it.
        """
        prompt = self.input_area.prompt
        bound = self.active_bindings.get(event.key)
        if bound is not None and bound.node is prompt:
            event.stop()
            await prompt.run_action(bound.binding.action)
        if bound is not None or event.key.startswith("alt+"):
            return
        if event.is_printable and event.character and not prompt.read_only:
            event.stop()
            self.set_focus(prompt)
            prompt.type(event)

    async def close(self) -> None:
        """Finish the session."""
        if self.talk is not None:
            waits = [one.text for one in self.input_area.waiting.messages]
            self.parting = [f"Queued, and in the prompt at the next start: {one}" for one in waits]
            await self.talk.close()
            if self._following is not None:
                await self._following.wait()

    async def switch(self, key: str, *, then: str = "", model: str = "", look_at: str = "") -> None:
        """Leave this session and open another on a fresh screen; a command may follow.

        A model that is named answers there unless the session has one of its own. With a line to
        look at, the transcript is opened there.
        """
        await self.close()
        self.talk = self.parting = None
        self.host = msgspec.structs.replace(self.host, session=key)
        self._then, self._keep_model, self._first = then, model, ("transcript", look_at)
        self._asked.clear()
        await self.recompose()
        self.on_mount()
        self.set_focus(self.input_area.prompt)
