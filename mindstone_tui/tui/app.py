"""The app: themes, keys, clipboard and screens around one conversation.

`MindstoneApp` is built by the command line and by tests alike. It draws first; the conversation is
opened after that.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on, work
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.command import CommandInput
from textual.content import Content
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import Monochrome, NoColor
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import Worker

from mindstone_tui.core import errors, signals
from mindstone_tui.core.text import for_terminal, one_line, plural
from mindstone_tui.tui import terminal, themes
from mindstone_tui.tui.host import AppHost, CommandHelp, OpenConversation
from mindstone_tui.tui.prompt.paste import with_newlines
from mindstone_tui.tui.screens.chat import ApprovalWaits, ChatScreen, ScreenWanted, TurnFinished
from mindstone_tui.tui.widgets.base import LineInput
from mindstone_tui.tui.widgets.context_panel import ContextPanel, StatusLine
from mindstone_tui.tui.widgets.input_area import InputArea
from mindstone_tui.tui.widgets.prompt import TYPED, Prompt

if TYPE_CHECKING:
    from textual.types import CSSPathType

    from mindstone_tui.core.events import Conversation
    from mindstone_tui.tui.navigation import Navigator
    from mindstone_tui.tui.screens.replay import OpenReplay
    from mindstone_tui.tui.widgets.markdown import Prose


_HERE: Final = Path(__file__).parent
_FIRST: Final = _HERE / "chat.tcss"
_REST: Final = _HERE / "mindstone.tcss"
_KEEP_AGAIN: Final = 0.1
"""Seconds between two times that what is written in the prompt is put on disk: it takes 5 ms."""
_LOOK_AGAIN: Final = 5.0
"""Seconds between two looks at what waits for a decision elsewhere."""


class MindstoneApp(App[int]):
    """MindStone in a terminal."""

    TITLE = "MindStone"
    CSS_PATH: ClassVar[CSSPathType | None] = _FIRST
    BINDINGS = [Binding("ctrl+q", "quit", "Quit", priority=True, show=False, id="app.quit")]

    def __init__(self, open_conversation: OpenConversation, host: AppHost) -> None:
        self.host = host
        super().__init__()
        self._limit_colours()
        self._open_conversation = open_conversation
        self.chat = ChatScreen(self._open_styled, host)
        self._left = ""
        """The session that was on the screen when the app was left."""
        self.leaves_open = False
        """Something was to be decided there."""
        self.unsent = ""
        """What was written there and not sent."""
        self._keeping: Worker[None] | None = None
        self._ending: Worker[None] | None = None
        wanted = host.settings.theme
        found = self._offer(themes.find_named(wanted, themes.shipped(), host.user_themes))
        usable = wanted in self.available_themes
        instead = "Using basalt instead; /theme lists all themes."
        self._theme_refused = "" if usable else f"{themes.why_not(wanted, found)} {instead}"
        self.theme = wanted if usable else "basalt"
        self.stylesheet = themes.ThemedStyles(variables=self.get_css_variables())
        self._sheet_is_fresh = True

    def _limit_colours(self) -> None:
        """Use only the terminal's colours; Textual alone would draw greys for `NO_COLOR`."""
        palette = self.host.palette
        self.no_color = palette in ("sixteen", "none")
        kept = [each for each in self._filters if not isinstance(each, Monochrome | NoColor)]
        limit = themes.filter_for(palette)
        self._filters = [*kept, limit] if limit is not None else kept

    @cached_property
    def navigator(self) -> Navigator:
        """Opens the other screens; loaded on first use, so that the first paint is quick."""
        from mindstone_tui.tui.navigation import Navigator  # 35 ms

        self._read_styles()
        return Navigator(self)

    def _read_styles(self) -> None:
        """Read the styles that the first paint did not wait for: nothing in it has any of them."""
        if not self.stylesheet.has_source(str(_REST)):
            self.stylesheet.read(_REST)
            self.stylesheet.parse()
            for screen in self.screen_stack[1:]:  # somebody was quicker
                self.stylesheet.update(screen)

    async def _open_styled(self, key: str) -> Conversation:
        self._read_styles()
        opened = await self._open_conversation(key)
        self._take_up(key or self.host.session)
        return opened

    @work(group="take up", exit_on_error=False)
    async def _take_up(self, key: str) -> None:
        """Put back what was not sent, and let the arrows walk through the project's messages."""
        library, prompt = self.host.library, self.chat.input_area.prompt
        if library is None:
            return
        if not prompt.text and (unsent := library.unsent(key)):
            prompt.write(unsent)  # nobody knows any more what of it was pasted
        prompt.remember_older(await library.said(key, self.host.folder))
        await self._look_for_waiting()
        await asyncio.to_thread(_warm_up)
        from mindstone_tui.tui.widgets.approval import button  # loaded already

        for part in (LineInput(), button("", Content(""), "allow-0")):  # what a question is made of
            themes.parse_ahead(self.stylesheet, part)

    def action_help_quit(self) -> None:
        """Ctrl+C, wherever the focus is in the chat: what it is in the prompt."""
        if self.screen is self.chat:
            self.chat.input_area.prompt.action_break()
        else:
            self.notify("Esc goes back. Ctrl+Q leaves.")

    async def _look_for_waiting(self) -> None:
        """Have the panel say what waits for a decision in any session."""
        if self.host.library is not None and self.chat.opened:
            told = await self.host.library.waiting()
            for panel in self.chat.query(ContextPanel):
                panel.waiting = told

    def watch_cache(self) -> None:
        """Have the panel say what a pause is about to cost, if that is wanted and it is one."""
        idle = self.host.settings.cache_warning and not self.chat.running
        for panel in self.chat.query(ContextPanel):
            panel.tell_time(self.host.now().timestamp() if idle else 0)

    def list_themes(self) -> themes.Listed:
        """Read the theme files again."""
        return self._offer(themes.find(themes.shipped(), self.host.user_themes))

    def _offer(self, found: themes.Listed) -> themes.Listed:
        for theme in found.themes.values():
            self.register_theme(theme)
        return found

    def refresh_css(self, animate: bool = True) -> None:
        """Read the style sheet again; not at the start, when it is about to be read anyway."""
        if self._sheet_is_fresh:
            self._sheet_is_fresh = False
            for screen in self.screen_stack:
                screen._css_update_count = self._css_update_count
            return
        super().refresh_css(animate=animate)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.fallback_variables()

    def get_default_screen(self) -> Screen[None]:
        return self.chat

    def on_mount(self) -> None:
        signals.on_ending(self._end)
        if os.isatty(0):
            self.set_interval(_LOOK_AGAIN, self._leave_with_terminal)
        if self.host.library is not None:
            self.set_interval(_LOOK_AGAIN, self._look_for_waiting)
        self.set_interval(1, self.watch_cache, pause=not self.host.settings.cache_warning)
        self.set_keymap(self.host.settings.keys)
        if self._theme_refused:
            self.notify(self._theme_refused, severity="warning", timeout=12, markup=False)
        if self.host.settings.keys:
            self.call_after_refresh(self._check_keys)

    def _leave_with_terminal(self) -> None:
        """End as with a closed window: a program above us, such as make, may keep the signal."""
        if not os.isatty(0):
            self._end()

    def _check_keys(self) -> None:
        """Say which of the user's own keys can never work, and why."""
        for problem in self.navigator.key_problems(self.host.settings.keys):
            self.notify(problem, severity="warning", timeout=12, markup=False)

    async def action_quit(self) -> None:
        asked = getattr(self.chat.input_area.decision, "asked", None)
        self.leaves_open = self.chat.opened and asked is not None and asked.risk != "message"
        await self.chat.close()
        if self._keeping is not None:  # or it would write an older text over ours
            await self._keeping.wait()
        self._left = self._session_here()
        self.unsent = "".join(area.unsent for area in self.chat.query(InputArea))
        if self._left and self.host.library is not None:
            self.host.library.unsent(self._left, self.unsent)
        self.exit(0)

    @on(Prompt.Changed, "#prompt")
    def _written(self) -> None:
        """Have what is written kept at once, so that it outlives a program that is killed."""
        if self._keeping is None and self.host.library is not None:
            self._keeping = self._keep_written(self.host.library.unsent)

    @work(group="keep", exit_on_error=False)
    async def _keep_written(self, keep: Callable[[str, str], str]) -> None:
        """Write down what is new, one text after the other."""
        kept = None
        while (here := self._session_here()) and (text := self.chat.input_area.unsent) != kept:
            await asyncio.to_thread(keep, here, text)
            kept = text
            await asyncio.sleep(_KEEP_AGAIN)
        self._keeping = None

    def _session_here(self) -> str:
        """The session on the screen; empty once the screen is gone."""
        return next((status.session for status in self.chat.query(StatusLine)), "")

    @property
    def resume_name(self) -> str:
        """What `mindstone -s` takes to come back here; empty where nothing was opened."""
        here = self._session_here() or self._left or self.chat.host.session
        return here.removeprefix("agent:default:") if self.chat.opened else ""

    def _end(self) -> None:
        """Somebody ends the process, or closed the terminal: leave as a person would.

        A terminal that is closed sends two signals: leaving that is under way goes on, as a session
        whose closing is broken off never ends.
        """
        if self._ending is None or self._ending.is_finished:
            self._ending = self.run_worker(self.action_quit(), exit_on_error=False)

    def get_driver_class(self) -> type[Driver]:
        found = super().get_driver_class()
        return terminal.LastingDriver if found is LinuxDriver else found

    # what the chat asks for

    @on(ScreenWanted)
    async def _open(self, event: ScreenWanted) -> None:
        event.stop()
        try:
            await self.navigator.open(event.screen, event.argument)
        except errors.MindstoneError as error:
            self.notify(f"{error.what} {error.remedy}", severity="error", markup=False)

    @on(TurnFinished)
    def _finished(self, event: TurnFinished) -> None:
        """Notify someone who looked away that a long turn is over."""
        event.stop()
        if event.elapsed >= self.host.settings.notify_after:
            self._call_back(f"turn {event.ended.ending}")
        self.call_later(self._look_for_waiting)

    @on(ApprovalWaits)
    def _waits(self, event: ApprovalWaits) -> None:
        """Notify someone who looked away that nothing goes on without them."""
        event.stop()
        self._call_back("approval needed")

    def _call_back(self, why: str) -> None:
        """Call whoever looks elsewhere, in the way that the settings name."""
        settings = self.host.settings
        if self.app_focus:
            return
        if settings.notify == "bell":
            self.bell()
        elif settings.notify == "osc9" and self._driver is not None:
            self._driver.write(f"\x1b]9;MindStone: {why}\x07")

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a short message; text it quotes is made harmless and never read as markup."""
        super().notify(
            for_terminal(message),
            title=for_terminal(title),
            severity=severity,
            timeout=timeout,
            markup=False,
        )

    # copying

    def copy_to_clipboard(self, text: str) -> None:
        self._clipboard = text
        if self._driver is not None:
            self._driver.write(terminal.sequences(text, os.environ))
        if command := terminal.program(os.environ):
            self._hand_over(text, command)

    @work(thread=True, group="clipboard")
    def _hand_over(self, text: str, command: tuple[str, ...]) -> None:
        terminal.hand_over(text, command)

    @on(events.TextSelected)
    def _copy_selection(self) -> None:
        if text := self.screen.get_selected_text():
            self.copied(text)

    # Named as Textual looks for them: no answer is there to be clicked at first.

    def on_prose_code_clicked(self, event: Prose.CodeClicked) -> None:
        self.copied(event.code)

    def on_prose_link_clicked(self, event: Prose.LinkClicked) -> None:
        # Opening an address that a model wrote is a person's own step.
        self.copied(event.href)

    def copied(self, text: str) -> None:
        """Copy the text and confirm it."""
        self.copy_to_clipboard(text)
        count = plural(len(text), "character")
        self.notify(f"Copied {count}", timeout=2, markup=False)

    # keys

    async def on_event(self, event: events.Event) -> None:
        """Ask what is to be decided whose a key is, before anybody has it.

        The palette's input is Textual's own: what is pasted into it is made harmless here.
        """
        if (
            isinstance(event, events.Key | events.Paste)
            and not event.is_forwarded
            and self.screen is self.chat
            and self.chat.query("InputArea")  # there is none before the first picture
            and await self.chat.input_area.meet(event)
        ):
            return
        if isinstance(event, events.Paste) and isinstance(self.focused, CommandInput):
            event.text = one_line(with_newlines(event.text), 1_000)
        await super().on_event(event)

    # the palette

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every slash command and every screen, by name."""
        from mindstone_tui.tui.screens.help import key_name  # the first picture does not need it

        for binding in ChatScreen.BINDINGS:
            if isinstance(binding, Binding) and binding.action.startswith("want("):
                name, argument = _wanted(binding.action)
                yield SystemCommand(
                    binding.description,
                    f"Key: {key_name(binding.key)}",
                    lambda name=name, argument=argument: self.post_message(
                        ScreenWanted(name, argument)
                    ),
                )
        for command in self.host.commands():
            yield SystemCommand(
                f"/{command.name}",
                one_line(command.help, 120).replace("[", "("),
                lambda command=command: self._type_or_run(command),
            )

    def _type_or_run(self, command: CommandHelp) -> None:
        """Run a command that needs nothing more; put any other into the prompt."""
        if command.usage:
            self.chat.input_area.prompt.write(f"/{command.name} ", TYPED)
            self.chat.set_focus(self.chat.input_area.prompt)
        else:
            self.chat.command(f"/{command.name}")


def _wanted(action: str) -> tuple[str, str]:
    """`want('copy', 'code')` → `copy`, `code`."""
    words = [word.strip(" '") for word in action.removeprefix("want(").rstrip(")").split(",")]
    return words[0], words[1] if len(words) > 1 else ""


def _warm_up() -> None:
    """Load what the first message needs before it is written: it would hold up who types on."""
    from mindstone_tui.api import warm_up  # 0.1 s
    from mindstone_tui.tui.markdown.parse import parse  # with its parser 70 ms
    from mindstone_tui.tui.widgets import approval, exchange  # 40 ms

    del approval, exchange
    parse("**first**")
    warm_up()
    gc.freeze()  # all of this stays: looking through it for garbage would hold up keys for 50 ms
    gc.set_threshold(10_000, 5, 100)  # often and little, for the same reason


async def _no_conversation(_key: str) -> Conversation:
    raise errors.UsageError("A recording has no live session.", "`mindstone` opens one.")


class ReplayApp(MindstoneApp):
    """Shows one recording; leaving it quits the app."""

    CSS_PATH: ClassVar[CSSPathType | None] = [_FIRST, _REST]

    def __init__(self, open_replay: OpenReplay, host: AppHost) -> None:
        # Playing a recording needs libraries that a live chat must not wait for.
        from mindstone_tui.tui.screens.replay import ReplayScreen

        self.recording = ReplayScreen(open_replay, panel=host.settings.panel)
        super().__init__(_no_conversation, host)

    def get_default_screen(self) -> Screen[None]:
        return self.recording

    async def action_quit(self) -> None:
        if self.recording.replay is not None:
            await self.recording.replay.close()
        self.exit(0)
