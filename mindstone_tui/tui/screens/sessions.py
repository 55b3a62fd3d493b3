"""The session picker, with a search through all sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mindstone_tui.core import errors, numbers
from mindstone_tui.core.entries import standings
from mindstone_tui.core.library import profile as profiles
from mindstone_tui.core.library import projects
from mindstone_tui.core.library.projects import shown_folder
from mindstone_tui.core.text import plural
from mindstone_tui.tui import show
from mindstone_tui.tui.host import AppHost, Library
from mindstone_tui.tui.prompt.completion import ranked
from mindstone_tui.tui.widgets.approval import Gate
from mindstone_tui.tui.widgets.base import LineInput, Rows

if TYPE_CHECKING:
    from mindstone_tui.core.library.search import SessionHit

PickT = TypeVar("PickT")


class PickScreen(ModalScreen[PickT]):
    """A filter and a list; Enter chooses, Escape cancels."""

    AUTO_FOCUS = "Input"
    BINDINGS = [
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
    ]

    _list = query_one(OptionList)

    def picked(self, at: int) -> PickT:
        """What a row of the list stands for."""
        raise NotImplementedError

    def action_move(self, by: int) -> None:
        self._list.action_cursor_up() if by < 0 else self._list.action_cursor_down()

    def is_read(self) -> bool:
        """Whether somebody who picks now can have read the list."""
        return True

    @on(Input.Submitted)
    def _submitted(self) -> None:
        if self._list.highlighted is not None and self.is_read():
            self.dismiss(self.picked(self._list.highlighted))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        if self.is_read():
            self.dismiss(self.picked(event.option_index))


class Choice(msgspec.Struct, frozen=True):
    """Something that can be chosen."""

    name: str
    note: str = ""
    current: bool = False


class ChooseScreen(PickScreen[str]):
    """One of a few names; with a grace, each list must have been in view for so long."""

    BINDINGS = [Binding("escape", "dismiss", "Back", id="choose.close")]

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        note: str = "",
        *,
        grace: float,
        clock: Callable[[], float],
    ) -> None:
        super().__init__()
        self._gate = Gate(grace)
        self._clock = clock
        self._title = title
        self._note = note
        self._choices = list(choices)
        self._shown: list[Choice] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Content.styled(self._title, "bold"), markup=False)
            yield LineInput(placeholder="type to filter", compact=True)
            yield Rows(markup=False)
            if self._note:
                yield Static(show.text(self._note, "$warning"), markup=False, id="note")

    def on_mount(self) -> None:
        self._filter("")
        self.watch(self.app, "app_focus", self._come_into_view)

    def _come_into_view(self) -> None:
        self._gate.hide()
        self.call_after_refresh(lambda: self._gate.show(self._clock()))

    def is_read(self) -> bool:
        return self._gate.is_open(self._clock())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._filter(event.value)
        self._come_into_view()

    def _filter(self, typed: str) -> None:
        by_name = {choice.name: choice for choice in self._choices}
        self._shown = [by_name[name] for name in ranked(typed, by_name)]
        self._shown += [
            choice
            for choice in self._choices
            if typed.lower() in choice.note.lower() and choice not in self._shown
        ]
        width = max((len(choice.name) for choice in self._shown), default=0)
        self._list.clear_options()
        self._list.add_options([Option(_drawn(choice, width)) for choice in self._shown])
        if self._shown:
            current = [at for at, choice in enumerate(self._shown) if choice.current]
            self._list.highlighted = current[0] if current and not typed else 0

    def picked(self, at: int) -> str:
        return self._shown[at].name


def _drawn(choice: Choice, width: int) -> Content:
    name = show.line(choice.name, 60, "bold" if choice.current else "")
    gap = " " * (max(2, min(width, 60) - name.cell_length + 2))
    mark = Content.styled("● " if choice.current else "  ", "$primary")
    return Content("").join([mark, name, Content(gap), show.line(choice.note, 100, "$muted")])


SHORTEST = 3
"""Letters typed before the content of sessions is searched."""
LIST_SHARE = 0.45
"""How much of the screen's height the list takes at most."""
FACTS = 400
"""Letters of what is told of a session."""
LONGEST_NAME = 24
"""Letters of a session's name: its title tells more."""
SHORT_NAME = 12
"""The same where what was said would else have no room,"""
WIDE = 100
"""which it has on a terminal of so many columns."""


class Picked(msgspec.Struct, frozen=True):
    """The chosen session, and a line in it if a search hit was chosen."""

    key: str
    seq: int | None = None
    typed: str = ""
    """What was meant for the prompt: it was typed while the list came up by itself."""


class SessionsScreen(PickScreen[Picked]):
    """Type to filter by name and to search all messages; `program:codex` narrows both.

    Of a project that is named only its own sessions are listed until something is typed.
    """

    BINDINGS = [Binding("escape", "dismiss", "Back", id="sessions.close")]

    def __init__(self, library: Library, current: str, host: AppHost, project: str = "") -> None:
        super().__init__()
        self._library = library
        self._current = current
        self._host = host
        self._project = project
        self._settles = host.clock() + host.decision_grace if project else 0.0
        self._rows: Sequence[profiles.ListedSession] = ()
        self._meant: profiles.SessionFilter | None = None
        """The filter that the rows went through."""
        self._picks: list[Picked] = []
        self._facts: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            where = f" of {shown_folder(self._project)}" if self._project else ""
            yield Static(show.text(f"Sessions{where}", "bold"), markup=False)
            yield LineInput(placeholder=f"name, words, or {profiles.EXAMPLE} …", compact=True)
            yield Rows(markup=False)
            yield Static("", id="facts", markup=False)
            yield Static("", id="note", markup=False)

    def on_mount(self) -> None:
        self._look("")

    def on_resize(self) -> None:
        """Leave room below the list for what is told of it."""
        self._list.styles.max_height = max(int(self.size.height * LIST_SHARE), 1)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if self._host.clock() < self._settles:
            self.dismiss(Picked(self._current, typed=event.value))
        else:
            self._look(event.value.strip())

    @work(exclusive=True, group="sessions")
    async def _look(self, typed: str) -> None:
        try:
            asked = profiles.read_typed(typed)
            if not self._rows or asked.wanted != self._meant:
                self._rows = await self._library.sessions(asked.wanted)
                self._meant = asked.wanted
            self._show(asked, ())
            if len(asked.words) >= SHORTEST:
                self._say("searching…")
                self._show(asked, await self._library.search(asked.words, asked.wanted))
        except errors.MindstoneError as error:
            self._say(f"{error.what} {error.remedy}")

    def _say(self, text: str) -> None:
        self.query_one("#note", Static).update(show.text(text, "$muted"))

    def _show(self, asked: profiles.TypedSearch, hits: Sequence[SessionHit]) -> None:
        names = {f"{row.session} {row.title}": row for row in self._rows}
        found = ranked(asked.words, names) if asked.words else names
        rows = [names[name] for name in found]
        if self._project and not asked.words and asked.wanted is None:
            rows = [row for row in rows if row.project == self._project]
        now = self._host.now()
        width = min(max((len(_name(row)) for row in rows), default=0), LONGEST_NAME)
        turns = [standings.turns_in_words(row.turns, row.rewound) for row in rows]
        counted = max((len(each) for each in turns), default=0)
        options = [
            Option(_session(row, row.session == self._current, now, width, f"{told:>{counted}}"))
            for row, told in zip(rows, turns, strict=True)
        ]
        room = LONGEST_NAME if self.size.width >= WIDE else SHORT_NAME
        width = min(max((len(_of_hit(hit)) for hit in hits), default=0), room)
        options += [Option(_hit(hit, width)) for hit in hits]
        self._picks = [Picked(each.session) for each in rows]
        self._picks += [Picked(each.session, each.seq) for each in hits]
        self._facts = [profiles.facts_of(each) for each in rows]
        self._facts += [
            f"{it.excerpt} · {it.session} · {projects.whose_and_where(it.program, it.folder)}"
            for it in hits
        ]
        self._list.clear_options()
        self._list.add_options(options)
        if options:
            own = [at for at, row in enumerate(rows) if row.session == self._current]
            self._list.highlighted = own[0] if own and self._project and not asked.words else 0
        else:
            self._tell_facts("")
        self._say(_found(len(rows), len(hits), asked))

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        # The list may have changed since.
        at = event.option_index
        self._tell_facts(self._facts[at] if at < len(self._facts) else "")

    def _tell_facts(self, facts: str) -> None:
        """Whose session the highlighted one is, where it took place, and what it took."""
        self.query_one("#facts", Static).update(show.line(facts, FACTS, "$muted"))

    def picked(self, at: int) -> Picked:
        return self._picks[at]


def _found(sessions: int, places: int, asked: profiles.TypedSearch) -> str:
    """How much was found, and which keys work."""
    narrowed = bool(asked.words or asked.wanted)
    if not sessions and not places:
        return "No session or message matches." if narrowed else "No sessions yet."
    named = [plural(sessions, "session")] if sessions or not asked.words else []
    named += [f"{plural(places, 'place')} found"] if asked.words else []
    how = "Enter opens it" if sessions else "Enter reads it there"
    return " · ".join([*named, f"{how}, Esc goes back"])


def _session(
    row: profiles.ListedSession, current: bool, now: datetime, width: int, turns: str
) -> Content:
    try:
        when = numbers.ago(datetime.fromisoformat(row.used), now)
    except ValueError:
        when = ""
    name = show.line(_name(row), width, "bold")
    return Content.assemble(
        ("● " if current else "  ", "$primary"),
        name,
        " " * max(0, width - name.cell_length),
        (f"{when:>12}  {turns}  ", "$muted"),
        show.line(row.title, 120),
    )


def _name(row: profiles.ListedSession) -> str:
    """What `-s` takes: of a session of another agent, more than its own name."""
    return row.session.removeprefix("agent:default:")


def _of_hit(hit: SessionHit) -> str:
    return hit.session.removeprefix("agent:").removeprefix("default:")


def _hit(hit: SessionHit, width: int) -> Content:
    # What was said matters more than the whole of a long name.
    speaker = ", ".join((hit.speaker, *hit.short_marks))
    name = show.line(_of_hit(hit), width).plain
    return Content.assemble(
        ("↺ ", "$context-recalled"),
        (f"{name:<{width}} turn {hit.turn:<4} {numbers.day(hit.ts):>11}  ", "$muted"),
        show.line(f"{speaker}: {hit.excerpt}", 160),
    )
