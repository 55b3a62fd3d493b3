"""What the app is given by the program around it, as small protocols and values.

The app owns no store, no turn and no policy: it draws a `Conversation` and reads old lines through
`Browse`. Everything here may be missing; the app then offers less.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from mindstone_tui.core.config.glossary import Term
from mindstone_tui.core.config.settings import TuiSettings
from mindstone_tui.core.values import Value
from mindstone_tui.tui.themes import Palette

if TYPE_CHECKING:
    from mindstone_tui.core.entries import Line
    from mindstone_tui.core.entries.standings import Standings
    from mindstone_tui.core.events import Conversation
    from mindstone_tui.core.library.elsewhere import Elsewhere
    from mindstone_tui.core.library.model_list import Download
    from mindstone_tui.core.library.open_questions import OpenQuestion
    from mindstone_tui.core.library.profile import ListedSession, SessionFilter
    from mindstone_tui.core.library.search import SessionHit
    from mindstone_tui.core.replay.playback import Replay
    from mindstone_tui.core.transcript.reader import Damaged


OpenConversation: TypeAlias = "Callable[[str], Awaitable[Conversation]]"
"""Open a session by its key; an empty key is the one the program was started on."""


class Browse(Protocol):
    """A session's history, page by page; nothing here reads more than it is asked for."""

    async def length(self) -> int:
        """How many lines there are now."""

    async def lines(self, first: int, count: int) -> Sequence[Line | Damaged]:
        """At most `count` lines, from number `first` on."""

    async def standings(self) -> Standings:
        """What counts of all these lines."""

    async def search(self, text: str, before: int) -> int | None:
        """The newest line before number `before` that contains the text, ignoring case."""

    async def place_of(self, entry: str) -> int | None:
        """The number of the line with this id."""

    async def first_of(self, turn: int) -> int | None:
        """The number of a turn's first line."""


class CommandHelp(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A slash command as the registry declares it."""

    name: str
    usage: str = ""
    help: str = ""
    details: str = ""
    """What there is to know beyond the one line of help."""
    choices: tuple[str, ...] = ()
    """Words that may follow, for completion."""


class Library(Protocol):
    """All sessions of this user."""

    async def sessions(self, wanted: SessionFilter | None = None) -> Sequence[ListedSession]:
        """Every session that is meant, newest first."""

    async def search(self, text: str, wanted: SessionFilter | None = None) -> Sequence[SessionHit]:
        """The best places in all sessions, among the lines that are meant."""

    def browse(self, key: str) -> Browse:
        """One session's history."""

    async def said(self, key: str, folder: Path) -> Sequence[str]:
        """What a person said lately in the sessions of a folder, oldest first; in this one last."""

    async def waiting(self) -> str:
        """What waits for a decision in any session, in one line; empty where nothing does."""

    async def waiting_in(self, key: str) -> Sequence[OpenQuestion]:
        """What waits in one session and no turn asks about, oldest first."""

    def unsent(self, key: str, text: str | None = None) -> str:
        """What was written in a session and not sent; another text takes its place."""


class ModelChoice(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A model that could answer."""

    name: str
    note: str = ""
    """Where it was found, or what it is."""
    window: int = 0
    usable: bool = True
    """It can answer now; otherwise the note says what it needs."""

    @property
    def unnamed(self) -> bool:
        """Stands for any model of a provider, whose name is still to be written."""
        return self.name.endswith("/…")


class Setup(Protocol):
    """What a newcomer may want first: a key, a model of their own, something to look at."""

    @property
    def providers(self) -> Sequence[tuple[str, str]]:
        """Providers that take a key, each with a model to begin with."""

    @property
    def download(self) -> Download:
        """The best model that fits this machine."""

    def downloadable(self, name: str) -> Download:
        """The model of this name that could be downloaded."""

    def fetched(self) -> bool:
        """Whether the best model is on this machine."""

    async def add_key(self, provider: str, secret: str, model: str, base_url: str) -> str:
        """Store a key and try it; returns the model that answered, or raises with the reason."""

    async def fetch(
        self, name: str, progress: Callable[[int, int], None], tell: Callable[[str], None]
    ) -> str:
        """Download a model; returns its name. What is here already is not fetched again.

        `tell` gets what a person should know meanwhile, in a sentence.
        """

    async def elsewhere(self) -> Sequence[Elsewhere]:
        """What other programs keep on this machine and no history here has yet."""

    async def take_in(self, progress: Callable[[int, int], None]) -> str:
        """Take all of that in, telling how many files of how many are done; says how it went."""

    async def sample(self) -> str:
        """Import the sample session, if it is not here yet; returns its key."""


def _now() -> datetime:
    return datetime.now(UTC)


class AppHost(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """Everything the app is given apart from its conversation."""

    settings: TuiSettings = TuiSettings()
    commands: Callable[[], Sequence[CommandHelp]] = tuple
    """The slash commands; first asked for when they are looked at."""
    library: Library | None = None
    models: Callable[[], Awaitable[Sequence[ModelChoice]]] | None = None
    """Looks for models, servers and keys; called after the first paint."""
    setup: Setup | None = None
    glossary: Sequence[Term] = ()
    """What the words on the screen mean."""
    recordings: Callable[[str, int], Awaitable[Replay]] | None = None
    """Opens a session as a recording, at a turn or (0) at its beginning."""
    user_themes: Path | None = None
    palette: Palette = "full"
    """How many colours the terminal has."""
    folder: Path = Path()
    """Where `@` completion looks for files."""
    elsewhere: str = ""
    """That folder, where it is another than the one in which the person started."""
    session: str = ""
    at: str = ""
    """A place in history to show first: `turn 7`, a line's number or its id."""
    offers: str = ""
    """A project that has several sessions, while nobody said which of them is meant."""
    decision_grace: float = 1.0
    """Seconds in which nothing answers a question that has just come into view."""
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _now
