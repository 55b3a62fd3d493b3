"""Navigation: what each name used by a key or a slash command opens."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType
from textual.keys import Keys

from mindstone_tui.core import numbers, text
from mindstone_tui.core.errors import MindstoneError, UnknownName, UsageError
from mindstone_tui.tui import terminal
from mindstone_tui.tui.host import ModelChoice, Setup
from mindstone_tui.tui.screens.chat import ChatScreen
from mindstone_tui.tui.screens.help import HelpScreen, WordsScreen
from mindstone_tui.tui.screens.inspector import Blocks, InspectorScreen
from mindstone_tui.tui.screens.sessions import Choice, ChooseScreen, Picked, SessionsScreen
from mindstone_tui.tui.screens.setup import (
    OWN_SERVER,
    KeyScreen,
    LongTask,
    LongTaskScreen,
    download,
    take_in,
)
from mindstone_tui.tui.screens.transcript import LineList, TranscriptScreen
from mindstone_tui.tui.widgets import approval, context_panel, exchange
from mindstone_tui.tui.widgets.base import FoldTitle
from mindstone_tui.tui.widgets.prompt import TYPED, Prompt, origin_of

if TYPE_CHECKING:
    from mindstone_tui.core.library.open_questions import OpenQuestion
    from mindstone_tui.tui.app import MindstoneApp


_PALETTE = Binding("ctrl+p", "command_palette", "Command palette", id="app.palette")
_MODIFIERS = ("ctrl", "shift", "alt", "meta", "super", "hyper")
_NAMED_KEYS = frozenset(key.value.rpartition("+")[2] for key in Keys)


def _problem(name: str, keys: str, known: Collection[str]) -> str:
    """Why a line of `[tui.keys]` has no effect; empty if it has one."""
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else "F1 shows the names."
        return f"tui.keys: there is no key named {name}; {hint}"
    for key in keys.split(","):
        *modifiers, base = key.strip().split("+")
        odd = [each for each in modifiers if each not in _MODIFIERS]
        if odd or not (len(base) == 1 or base in _NAMED_KEYS):
            return f"tui.keys: {name} = {key.strip()!r} is not a key; write f9, ctrl+b or alt+x."
    return ""


SAMPLE_QUESTION = "which port does the API use?"
"""What the sample session is asked first; its answer was corrected on the way."""


class Navigator:
    """Opens screens and runs the actions that only the app can do."""

    def __init__(self, app: MindstoneApp) -> None:
        self._app = app
        self._listed: dict[str, ModelChoice] = {}
        """Models of the last list."""

    async def open(self, name: str, argument: str = "") -> None:
        """Open what a name stands for, with the method `_to_NAME`; raises `UnknownName`."""
        route: Callable[[str], Awaitable[None]] | None = getattr(self, f"_to_{name}", None)
        if route is None:
            known = [each[4:] for each in vars(type(self)) if each.startswith("_to_")]
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
            raise UnknownName(f"The app has no screen named {name}.", hint)
        await route(argument.strip())

    @property
    def _chat(self) -> ChatScreen:
        return self._app.chat

    # screens

    async def _to_context(self, argument: str) -> None:
        chat = self._chat
        screen = InspectorScreen(
            chat.panel.report,
            command=chat.command,
            open_line=lambda where: chat.action_want("transcript", where),
        )
        await self._app.push_screen(screen)
        screen.watch(chat.panel, "report", screen.measured, init=False)

    async def _to_transcript(self, argument: str) -> None:
        """`turn 7`, a line's number or id, in this session or (named first) in another."""
        if (library := self._app.host.library) is None:
            raise UsageError("There is no transcript to browse here.")
        here = self._chat.status.session
        first, _, rest = argument.partition(" ")
        session, where = (first, rest) if first.startswith("agent:") else (here, argument)
        elsewhere = session != here

        def command(line: str) -> None:
            if elsewhere:
                self._app.run_worker(self._chat.switch(session, then=line), group="switch")
            else:
                self._chat.command(line)

        def open_session(at: str) -> None:
            self._app.run_worker(self._chat.switch(session, look_at=at), group="switch")

        await self._app.push_screen(
            TranscriptScreen(
                library.browse(session),
                session,
                where,
                command=command,
                open_session=open_session if elsewhere else None,
            )
        )

    async def _to_replay(self, turn: str) -> None:
        """This session as a recording, from a turn on or from its beginning."""
        if (recordings := self._app.host.recordings) is None:
            raise UsageError("Replay is not available here.")
        session, number = self._chat.status.session, int(turn) if turn.isdecimal() else 0
        # Playing a recording needs rooms that a live chat has not loaded when it first draws.
        from mindstone_tui.tui.screens.replay import ReplayScreen

        await self._app.push_screen(ReplayScreen(lambda: recordings(session, number)))

    async def _to_sessions(self, project: str) -> None:
        """All sessions; those of a project where the app itself offers them."""
        if (library := self._app.host.library) is None:
            raise UsageError("There are no other sessions here.")

        async def picked(choice: Picked | None) -> None:
            if choice is None:
                return
            if choice.typed:
                origin = TYPED if len(choice.typed) == 1 else origin_of(choice.typed)  # or a paste
                self._chat.input_area.prompt.write(choice.typed, origin)
            elif choice.seq is not None:
                await self._to_transcript(f"{choice.key} {choice.seq}")
            elif choice.key != self._chat.status.session:
                await self._to_session(choice.key)

        here, host = self._chat.status.session, self._app.host
        await self._app.push_screen(SessionsScreen(library, here, host, project), picked)

    async def _to_session(self, argument: str) -> None:
        """Leave this session and open another; a model after its key answers there if it is new."""
        key, _, model = argument.partition(" ")
        await self._chat.switch(key, model=model)

    async def _to_open(self, argument: str) -> None:
        """Open a session that was just begun from this one, and say so."""
        before = self._chat.status.session
        await self._to_session(argument)
        key = argument.partition(" ")[0]
        self._app.notify(f"You are in {key} now. {before} stays as it is.", timeout=8)

    async def _to_model(self, argument: str) -> None:
        if self._app.host.models is None:
            raise UsageError("No other model is configured.", "/model NAME switches by name.")
        current = self._chat.status.model
        found = await self._app.host.models()
        self._listed = {choice.name: choice for choice in found}
        choices = [
            Choice(
                choice.name,
                f"{numbers.tokens(choice.window)} · {choice.note}"
                if choice.window
                else choice.note,
                choice.name == current,
            )
            for choice in found
            if choice.usable or self._app.host.setup is not None
        ]
        self._choose("Choose a model", choices, self._take_model)

    _to_models = _to_model

    def _take_model(self, name: str) -> None:
        """Switch to a model; one that needs a key, a download or a name first gets it."""
        model, provider = self._listed[name], name.partition("/")[0]
        if not model.usable and provider == "local":
            self._download(name)
        elif not model.usable:
            self._ask_for_key(provider, "" if model.unnamed else name)
        elif model.unnamed:
            self._chat.input_area.prompt.write(f"/model {provider}/", TYPED)
        else:
            self._chat.command(f"/model {name}")

    # first steps

    async def _to_sample(self, argument: str) -> None:
        """Open the sample session, with a question that recall can answer."""
        self._app.notify("Importing the sample session…", timeout=20)
        self._app.run_worker(self._open_sample(self._setup()), group="switch", exit_on_error=False)

    async def _open_sample(self, setup: Setup) -> None:
        try:
            key = await setup.sample()
        except MindstoneError as error:
            self._app.notify(error.sentence, severity="error")
            return
        self._app.clear_notifications()
        await self._chat.switch(key)
        self._chat.input_area.prompt.write(SAMPLE_QUESTION)
        self._chat.input_area.prompt.select_all()  # whoever types asks something else

    async def _to_key(self, provider: str) -> None:
        """Ask for a key, of the provider that is named or of one that is chosen first."""
        setup = self._setup()
        if provider:
            self._ask_for_key(provider, dict(setup.providers).get(provider, ""))
            return
        choices = [Choice(name, model) for name, model in setup.providers]
        choices.append(
            Choice(OWN_SERVER, "any address that speaks like OpenAI: vLLM, LM Studio, …")
        )
        self._choose(
            "Add an API key for which provider?",
            choices,
            lambda name: self._ask_for_key(name, dict(setup.providers).get(name, "")),
        )

    def _ask_for_key(self, provider: str, model: str) -> None:
        self._app.push_screen(KeyScreen(self._setup(), provider, model), self._use_new_model)

    async def _use_new_model(self, model: str | None) -> None:
        """Use what a key was just added for; opened anew, the session knows the new settings."""
        if model:
            await self._chat.switch(self._chat.status.session, then=f"/model {model}")

    async def _to_fetch(self, argument: str) -> None:
        self._download(self._setup().download.name)

    def _download(self, name: str) -> None:
        def fetched(name: str | None) -> None:
            if name:
                self._chat.command(f"/model {name}")

        setup = self._setup()
        self._do_at_length(download(setup, setup.downloadable(name)), fetched)

    def _do_at_length(self, task: LongTask, then: Callable[[str | None], None]) -> None:
        host = self._app.host
        screen = LongTaskScreen(task, grace=host.decision_grace, clock=host.clock)
        self._app.push_screen(screen, then)

    async def _to_elsewhere(self, argument: str) -> None:
        """What other programs keep on this machine, to be taken in."""
        from mindstone_tui.tui.widgets.welcome import Welcome  # 4 ms

        setup = self._setup()
        if not (found := await setup.elsewhere()):
            raise UsageError(
                "Nothing new of other agents was found on this machine.",
                "`mindstone import FILE-OR-FOLDER` takes in what lies in another place.",
            )

        def taken(said: str | None) -> None:
            if said:
                self._app.notify(said, timeout=10, markup=False)
                for welcome in self._chat.query(Welcome):
                    welcome.look_elsewhere()

        self._do_at_length(take_in(setup, found), taken)

    def _setup(self) -> Setup:
        if self._app.host.setup is None:
            raise UsageError("This is not available here.", "`mindstone models` lists models.")
        return self._app.host.setup

    async def _to_memory(self, argument: str) -> None:
        """Go to what is asked already; else ask about what was proposed here."""
        chat, host = self._chat, self._app.host
        if chat.input_area.decision is not None:
            chat.input_area.step_in(time.monotonic())
            return
        waits: Sequence[OpenQuestion] = ()
        if chat.proposals:
            name = chat.proposals[0].proposal
            asked = approval.about_memory(chat.proposals[0])
            words = {True: f"/memory approve {name}", False: f"/memory refuse {name}"}
        else:
            waits = await self._waiting()
            if not waits or chat.input_area.decision is not None:
                self._app.notify("Nothing that was proposed waits here. /waiting lists the rest.")
                return
            asked = waits[-1].as_asked(datetime.now(UTC))
            words = {yes: waits[-1].command(yes=yes) for yes in (True, False)}

        def decided(choice: str) -> None:
            allowed = put.answer(choice).allowed
            if choice != "later":
                chat.proposals = [one for one in chat.proposals if one.proposal != asked.call]
                why = f" {put.why}" if put.why and not allowed else ""
                chat.command(f"{words[allowed]}{why}", how=put.key, seen=put.seen)

        async def still_waits() -> bool:
            return waits[-1].key in [one.key for one in await self._waiting()]

        put = approval.Proposed(asked, grace=host.decision_grace, clock=host.clock)
        put.still_waits = still_waits if waits else None
        chat.input_area.decide(put, decided)

    async def _waiting(self) -> Sequence[OpenQuestion]:
        library, here = self._app.host.library, self._chat.status.session
        return await library.waiting_in(here) if library and here else ()

    async def _to_theme(self, argument: str) -> None:
        found = self._app.list_themes()
        if argument in found.themes:
            self._set_theme(argument)
            return
        broken = "\n".join(f"{one.path.name}: {one.why}" for one in found.unusable)
        choices = [
            Choice(name, "dark" if theme.dark else "light", name == self._app.theme)
            for name, theme in sorted(found.themes.items())
        ]
        self._choose("Theme", choices, self._set_theme, broken)

    def _set_theme(self, name: str) -> None:
        self._app.theme = name
        if name != self._app.host.settings.theme:
            keeps = f"Until MindStone ends: `mindstone config set tui.theme {name}` keeps it."
            self._app.notify(keeps, markup=False)

    def _choose(
        self,
        title: str,
        choices: list[Choice],
        take: Callable[[str], None],
        note: str = "",
        grace: float = -1.0,
    ) -> None:
        self._app.push_screen(
            ChooseScreen(title, choices, note, grace=grace, clock=self._app.host.clock),
            lambda name: take(name) if name else None,
        )

    def _families(self) -> tuple[tuple[str, Iterable[BindingType]], ...]:
        from mindstone_tui.tui.screens.replay import ReplayScreen  # 38 ms

        return (
            ("In the chat", ChatScreen.BINDINGS),
            ("In the prompt", Prompt.BINDINGS),
            ("On a folded line", [*FoldTitle.BINDINGS, *exchange.Rest.BINDINGS]),
            ("On a recalled passage", exchange.Card.BINDINGS),
            ("In the list of pruned exchanges", context_panel.LeftLog.BINDINGS),
            ("In the inspector", [*InspectorScreen.BINDINGS, *Blocks.BINDINGS]),
            ("In the transcript", [*TranscriptScreen.BINDINGS, *LineList.BINDINGS]),
            ("In a recording", ReplayScreen.BINDINGS),
            ("In a question, after Tab or F6", approval.Decision.BINDINGS),
            ("When a tool needs approval", approval.Approval.BINDINGS),
            ("When something is proposed", approval.Proposed.BINDINGS),
            ("Everywhere", [*type(self._app).BINDINGS, _PALETTE]),
        )

    async def _to_help(self, argument: str) -> None:
        host = self._app.host
        screen = HelpScreen(self._families(), host.settings.keys, host.commands())
        await self._app.push_screen(screen)

    def key_problems(self, keys: Mapping[str, str]) -> list[str]:
        """What is wrong with the user's own keys: names of nothing, keys that do not exist."""
        known = {
            binding.id
            for _, bindings in self._families()
            for binding in bindings
            if isinstance(binding, Binding) and binding.id
        }
        return [problem for name, key in keys.items() if (problem := _problem(name, key, known))]

    async def _to_words(self, argument: str) -> None:
        await self._app.push_screen(WordsScreen(self._app.host.glossary))

    # actions

    async def _to_copy(self, what: str) -> None:
        """The last answer, the n-th last one, the last `code`, or `all`."""
        said = [one for one in self._chat.conversation.feed.exchanges if one.answer]
        if what == "all":
            self._app.copied(self._chat.conversation.text)
        elif what == "code":
            codes = [code for view in self._chat.conversation.views for code in view.codes]
            if not codes:
                raise UsageError("There is no code block to copy.")
            self._app.copied(codes[-1])
        else:
            number = int(what) if what.isdecimal() and what != "0" else 1
            if number > len(said):
                raise UsageError("There is no answer to copy.")
            self._app.copied(said[-number].answer)

    async def _to_editor(self, argument: str) -> None:
        prompt = self._chat.input_area.prompt
        command = terminal.editor_command(self._app.host.settings.editor, os.environ)
        text = await terminal.edit(self._app, prompt.text, command)
        prompt.write(text, TYPED if prompt.is_command else origin_of(text))

    async def _to_scrollback(self, argument: str) -> None:
        await terminal.show_plain(self._app, self._chat.conversation.text)

    async def _to_panel(self, argument: str) -> None:
        self._chat.action_panel()

    async def _to_rewind(self, argument: str) -> None:
        """Go back to before an earlier message, which is then in the prompt again."""
        from mindstone_tui.core.entries.standings import REWOUND  # 8 ms

        said = {
            f"turn {one.turn}": one
            for one in reversed(self._chat.conversation.feed.exchanges)
            if one.turn and one.question and REWOUND not in one.notes
        }

        clock = self._app.host.clock
        opened = clock()

        def take(name: str) -> None:
            writing = clock() - opened  # it means nothing that came while the list was open
            line = f"/rewind before turn {said[name].turn}"
            self._chat.input_area.to_write[line] = said[name].question
            self._chat.command(line, how="picked in the list", seen=writing, writing=writing)

        if not said:
            raise UsageError("There is no earlier message to go back to.")
        choices = [Choice(name, text.one_line(one.question, 200)) for name, one in said.items()]
        # The Enter behind quick Escapes, which were to stop a turn, goes back to nothing.
        grace = self._app.host.decision_grace
        self._choose("Go back to before which message?", choices, take, grace=grace)

    async def _to_quit(self, argument: str) -> None:
        await self._app.action_quit()
