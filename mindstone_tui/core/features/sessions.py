"""Commands about the session itself: status, model, tools, approvals, other sessions."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors, transcript
from mindstone_tui.core.entries.standings import turns_in_words
from mindstone_tui.core.events import AnyEvent, CommandPrinted, ModelChanged, Noticed, ScreenAsked
from mindstone_tui.core.events.report_text import budget_data, headline
from mindstone_tui.core.features.health import HealthFeature
from mindstone_tui.core.library import profile, projects
from mindstone_tui.core.paths import CHILD, SessionKey, free_name, project_of
from mindstone_tui.core.session.features import EndedTurn, Feature, WrongUse, command
from mindstone_tui.core.session.fork import fork_session
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import one_line, plural
from mindstone_tui.core.transcript import directory, history_store
from mindstone_tui.core.values import picked

STATUS: Final[dict[str, str]] = {
    "green": "healthy",
    "yellow": "preparing",
    "orange": "active",
    "red": "emergency",
}
"""What a zone means for the window."""
_NAMED: Final = 3
"""Other sessions of a project that are named when one is opened."""


class SessionsFeature(Feature):
    """This session and the others: its state, its model, its name, its forks."""

    name = "sessions"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self._blackened: set[str] = set()
        """Secrets that were told of already."""

    def left_open(self) -> Sequence[str]:
        """That the project has other sessions, where they are not all in sight."""
        held = projects.sessions_held_in(self.session.home, project_of(self.session.cwd.resolve()))
        names = [places.key.main for places in held if places.key != self.session.key]
        shown = names if len(names) <= _NAMED else [*names[:_NAMED], "…"]
        others = f"{plural(len(names), 'other session')}: {', '.join(shown)}"
        told = [f"This project has {others}. /sessions lists them."] if names else []
        return [*told, *self._deleted_soon()]

    def _deleted_soon(self) -> Sequence[str]:
        """Which sessions of other programs are deleted by them soon, and in no history yet."""
        # Together 30 ms, and only who opens the app waits for it, in a thread.
        from mindstone_tui.core.interchange.discover import SOON
        from mindstone_tui.core.library.elsewhere import elsewhere

        return [
            f"{each.title} deletes {plural(each.going, 'session')} of its own within "
            f"{SOON} days: `mindstone import` keeps what was said in them."
            for each in elsewhere(self.session.home, self.session.opening.environ)
            if each.going
        ]

    async def after_turn(self, turn: EndedTurn) -> Sequence[AnyEvent]:
        """Say what this turn blacked out for the first time, and where; a quotation is none."""
        new = self.context.redactor.found - self._blackened
        where: dict[str, int] = {}
        for line in turn.lines if new else ():
            for place in transcript.blackened_in(line.entry):
                if place.label in new:
                    where.setdefault(place.label, line.seq)
        self._blackened |= where.keys()
        if not where:
            return ()
        listed = ", ".join(f"{label} in #{seq}" for label, seq in where.items())
        told = (
            f"{plural(len(where), 'secret')} blacked out in this turn: {listed}. "
            "`mindstone log --redacted` shows where."
        )
        return (Noticed(message=told, level="warning"),)

    @command("status")
    async def status(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Show the model, how full the window is, and how long the history is."""
        context = self.context
        head, report, ready = context.transcript.head, context.report(), self.session.ready()
        said = turns_in_words(ready.turns, ready.rewound, ready.before)
        yield CommandPrinted(
            text="\n".join(
                [
                    *headline(report),
                    context.info.note or f"{context.info.name} answers.",
                    f"history: {head.seq + 1:,} entries, {said}, head {head.hash[:12]}",
                    f"window {report.windows:,} of this session: {STATUS[report.zone]}; "
                    f"{report.mode}, {report.policy}",
                    f"approvals: {context.permissions.mode}; "
                    f"recall: {'on' if self.session.recall.on else 'off'}; "
                    f"folder: {self.session.cwd}",
                ]
            ),
            data={
                "session": str(self.session.key),
                "model": context.info.name,
                "window_status": STATUS[report.zone],
                **picked(report, "zone windows"),
                "turn": ready.turns,
                **picked(report, "utilization mode policy"),
                "entries": head.seq + 1,
                "head": {"seq": head.seq, "hash": head.hash},
                "budget": budget_data(report),
                "alerts": [
                    msgspec.to_builtins(one)
                    for one in self.session.features.get(HealthFeature).health.monitor.alerts
                ],
            },
        )

    @command("model", usage="[NAME]", changes_window=True)
    async def model(self, argument: str) -> AsyncIterator[AnyEvent]:
        """List models, or switch to another one from here on."""
        if not argument:
            rows = [
                f"{'*' if info.name == self.context.info.name else ' '} {info.name:32} {info.note}"
                for info in self.session.models.known.usable()
            ]
            yield ScreenAsked(screen="models", otherwise="\n".join(rows))
            return
        info = await self.session.switch_model(argument)
        yield ModelChanged(model=info.name, note=info.note)
        text = f"Now using {info.name}. {info.note}"
        yield CommandPrinted(text=text, repeats=True)

    @command("sessions")
    async def sessions(self, argument: str) -> AsyncIterator[AnyEvent]:
        """List all sessions, newest first, those of this project before others."""
        own, project = str(self.session.key), str(project_of(self.session.cwd.resolve()))
        every = await asyncio.to_thread(self._every)
        rows = [
            f"{'*' if each.session == own else ' '} {each.session:40} "
            f"{plural(each.turns, 'turn'):>11}  {each.title}".rstrip()
            for each in sorted(every, key=lambda one: one.project != project)
        ]
        yield ScreenAsked(screen="sessions", otherwise="\n".join(rows) or "There are no sessions.")

    @command("title", usage="[TEXT]", changes_window=True)
    async def title(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Name this session for the lists; without a text, go back to its first request."""
        named = self._set_title(argument)
        own = "The title is its first request that holds."
        text = f"This session is called “{named}” now." if named else own
        yield CommandPrinted(text=text)

    @command("new", usage="[NAME]")
    async def new(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Go to a new session with the same model; this one stays as it is."""
        key = SessionKey.parse(f"agent:{self.session.key.agent}:{argument or self._free_name()}")
        model = self.context.model
        keeps = "" if self._exists(key) else f" {model}"
        otherwise = f"Open it with --session {key}{f' --model {model}' if keeps else ''}."
        yield ScreenAsked(screen="open", argument=f"{key}{keeps}", otherwise=otherwise)

    @command("fork", usage="[NAME] [turn N]", changes_window=True)
    async def fork(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Start another session from here or from an earlier turn, with the same model."""
        name, _, turn = argument.partition("turn")
        number = turn.strip()
        if number and not number.isdecimal():
            raise WrongUse(f"`{number}` is not a turn.")
        key = self._fork(name.strip() or self._free_name(), int(number) if number else None)
        text = f"{key} begins here. This session stays as it is."
        yield ScreenAsked(screen="open", argument=str(key), otherwise=text)

    @command("cost")
    async def cost(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Show what this session has cost so far, as far as prices are known."""
        report = self.context.report()
        known = "unknown" if report.cost is None else f"${report.cost:.4f}"
        delegated = report.cost_delegated
        passed_on = f", ${delegated:.4f} of it delegated to sub-agents" if delegated else ""
        more = ", and some models have no known price" if report.cost_unknown else ""
        cached = report.cached_tokens
        share = (
            ""
            if not cached or not report.prompt.tokens
            else f"; {cached / report.prompt.tokens:.0%} of the last prompt came from the cache"
        )
        yield CommandPrinted(text=f"Cost so far: {known}{passed_on}{more}{share}.")

    def _every(self) -> Sequence[profile.ListedSession]:
        """All sessions but those of sub-agents, the one used last first."""
        every = profile.list_described(self.session.home)
        return [one for one in every if CHILD not in one.main and not one.started_by]

    def _set_title(self, text: str) -> str:
        """Give the session a title for lists; an empty one goes back to its first request."""
        title = one_line(self.context.redactor.redact(text).text, directory.LONGEST_TITLE)
        disk.replace_file(self.session.places.title, title.encode())
        return title

    def _free_name(self) -> str:
        """A name for a new session of this agent that nobody has yet."""
        known = [each.key for each in self.session.home.sessions()]
        if self.session.store is not None:
            known += [each.key for each in self.session.store.sessions()]
        taken = {key.main for key in known if key.agent == self.session.key.agent}
        return free_name(self.session.key.main, taken, first=2)

    def _exists(self, key: SessionKey) -> bool:
        """Whether there is such a session already."""
        if self.session.home.session(key).transcript.exists():
            return True
        store = self._store_of(key)
        if store is None:
            return False
        with contextlib.closing(store):
            return store.find(key) is not None

    def _fork(self, name: str, turn: int | None) -> SessionKey:
        """Start another session from a turn of this one."""
        key = SessionKey.parse(
            name if name.startswith("agent:") else f"agent:{self.session.key.agent}:{name}"
        )
        if self._exists(key):
            raise errors.UsageError(f"There is a session {key} already.", "Choose another name.")
        child = self.session.home.session(key)
        fork_session(self.context, self.session.history, child, turn, self._store_of(key))
        profile.profile_of(child)  # so that lists know it before anybody says something there
        return key

    def _store_of(self, key: SessionKey) -> history_store.HistoryStore | None:
        """The server that keeps another session, to be closed after use; None for files."""
        if not self.context.settings.history.address_for(key):
            return None
        from mindstone_tui.core.shared.copies import open_store  # 99 ms

        return open_store(self.context.settings.history, key)
