"""The front door: a session in a few lines of Python, and the four ways to look at one.

Every surface of ours comes in here, and so may any other program:

    async with mindstone_tui.open(session="main", model="local/guide") as conversation:
        async for event in conversation.ask("Which port did we settle on?"):
            ...

`recall`, `context`, `log` and `verify` open nothing for writing and take no turn.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.errors import MindstoneError, UsageError
from mindstone_tui.core.events import (
    Answer,
    AnyEvent,
    Attachment,
    CommandEnded,
    SessionClosed,
    TurnEnded,
)
from mindstone_tui.core.paths import Places, SessionKey, from_home, session_named
from mindstone_tui.core.transcript import Damaged, History, Verdict
from mindstone_tui.core.transcript import verify as verify_transcript

if TYPE_CHECKING:
    from mindstone_tui.core.config.settings import McpServerSettings
    from mindstone_tui.core.entries import Image, Line
    from mindstone_tui.core.entries.conversation import ClientMatched
    from mindstone_tui.core.events import ContextReport
    from mindstone_tui.core.library.find import RecallAnswer
    from mindstone_tui.core.session.inbox import SentMessage
    from mindstone_tui.core.session.options import ForeignExchange, Guest, Opening
    from mindstone_tui.core.session.services import SessionChoice
    from mindstone_tui.core.session.session import Session


class Home:
    """Where one user's files are, and which session is meant when none is named.

    In a `folder`, the last one of its project; without one, that of the user's own folder.
    """

    def __init__(
        self,
        home: Path | str | None = None,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        known = dict(os.environ if environ is None else environ)
        if home is not None:
            known["MINDSTONE_HOME"] = str(from_home(home).absolute())
        self.environ = known
        self.places = Places.resolve(known)
        self._folder = folder

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return load(self.places, self.environ).settings

    def key(self, session: str, folder: Path | None = None) -> SessionKey:
        """The session of that name, else the one that is meant in the folder."""
        if named := session or self.settings.session.default:
            return session_named(self.places, named)
        from mindstone_tui.core.library.projects import session_in  # 30 ms

        return session_in(self.places, folder or self._folder or from_home("~"))

    def fetch_news(self, key: SessionKey, *, everything: bool = False) -> None:
        """Bring the copy of a shared history up to date, if it is one and its server answers."""
        history = self.settings.history
        if history.url or history.sessions:
            from mindstone_tui.core.shared.copies import catch_up  # psycopg: 0.15 s

            catch_up(self.places, history, None if everything else [key], elsewhere=everything)


class Conversation:
    """An open session: ask it something, tell it something, look something up in it.

    There is one stream of events and one reader: `ask` reads it until the turn is over, `events`
    reads it until the session is closed. Use one of them at a time.
    """

    def __init__(self, session: Session, home: Home, opening: Opening) -> None:
        self._session = session
        self._home = home
        self._opening = opening
        self._stranded: list[SentMessage] = []
        """Messages that wait for the fork in which they are said."""
        self._leaving: asyncio.Task[None] | None = None
        self._closing = False
        self._listen()

    @property
    def _key(self) -> SessionKey:
        return self._session.services.key

    @property
    def session(self) -> str:
        """The session's full name."""
        return str(self._key)

    async def ask(
        self, text: str, *, attachments: Sequence[Attachment] = ()
    ) -> AsyncIterator[AnyEvent]:
        """Take one turn, or run one slash command, and pass on its events until it is over."""
        if text.startswith("/") and "\n" not in text:
            self.command(text)
        else:
            self.send(text, attachments=attachments)
        async for event in self.events():
            yield event
            if isinstance(event, TurnEnded | CommandEnded):
                return

    def recall(self, query: str, count: int = 10, *, scope: str = "session") -> RecallAnswer:
        """The best passages of history and memory, with their source."""
        return recall(query, count, session=self.session, scope=scope, home=self._home)

    def context(self, *, turn: int = 0) -> ContextReport:
        """What the model sees next, or saw in a turn of the past, in numbers."""
        return context(session=self.session, turn=turn, home=self._home)

    def log(
        self, *, kinds: Collection[str] = (), turn: int | None = None
    ) -> Iterator[Line | Damaged]:
        """The transcript's lines, oldest first."""
        return log(session=self.session, kinds=kinds, turn=turn, home=self._home)

    def verify(self) -> Verdict:
        """Whether the transcript is what was written."""
        return verify(session=self.session, home=self._home)

    def choices(self) -> tuple[SessionChoice, ...]:
        """What may be chosen for this session (`/model`, `/approve`, …), and what is in force."""
        from mindstone_tui.core.session.services import choices_of  # with all it needs: 0.15 s

        return choices_of(self._session.services)

    def plan(self) -> tuple[tuple[str, str], ...]:
        """The task's pieces, each with `planned`, `in_progress` or `done`."""
        from mindstone_tui.core.features.tasks import TasksFeature  # with all it needs: 0.15 s

        checkpoint = self._session.services.features.get(TasksFeature).tasks.state().checkpoint
        return tuple((one.title, one.status) for one in checkpoint.subtasks)

    async def events(self) -> AsyncIterator[AnyEvent]:
        """Everything that happens, in order, until the session is closed.

        If the server that keeps it goes away and the settings want a fork then, the fork's events
        follow, beginning with its `SessionReady`.
        """
        while True:
            session = self._session
            async for event in session.events():
                if isinstance(event, SessionClosed) and session is not self._session:
                    break
                yield event
            else:
                return

    def send(
        self,
        text: str,
        *,
        attachments: Sequence[Attachment] = (),
        images: Sequence[Image] = (),
        steer: bool = False,
        before: Sequence[ForeignExchange] = (),
        matched: ClientMatched | None = None,
        added: tuple[str, str] = ("", ""),
    ) -> None:
        """Say something; while a turn runs it is queued, or steers that turn when told to.

        `images` are kept already. `before` took place elsewhere and is written down first;
        `matched` says how that was known.
        """
        self._session.send(
            text,
            attachments=attachments,
            images=images,
            steer=steer,
            before=before,
            matched=matched,
            added=added,
        )

    def keep(self, data: bytes, name: str) -> Image:
        """Keep a picture or a sound for a message to show; raises when it is neither."""
        return self._session.keep(data, _recognised(data, name))

    def check_taken(self, data: bytes, name: str) -> None:
        """Raise when the model that answers cannot be shown this picture or sound."""
        seen = _recognised(data, name)
        if self._session.not_taken([seen]):
            what = "sounds" if seen.is_sound else "pictures"
            model = self._session.services.context.info.name
            raise UsageError(
                f"{model} does not take {what}.", "Name a model that does, or say it in words."
            )

    def command(self, line: str, *, how: str = "", seen: float = 0.0, writing: float = 0.0) -> None:
        """Run a slash command; one that decides says by which key, and how long it was seen.

        `writing` says for how many seconds it was being written: it means nothing that came since.
        """
        self._session.command(line, how=how, seen=seen, writing=writing)

    def answer(self, call: str, answer: Answer) -> None:
        """Answer a `ToolAsked`."""
        self._session.answer(call, answer)

    def withdraw(self, entry: str) -> None:
        """Take a queued message back."""
        self._session.withdraw(entry)

    def interrupt(self, why: str = "", *, how: str = "") -> None:
        """Stop the running turn, or the one elsewhere that asks; what was streamed is kept.

        `how` is a person's key or click: with it, what they queued goes back to them.
        """
        self._session.stop(why, how)

    def attend(self, somebody: bool) -> None:
        """Say whether anybody looks; a program that waits for your turn is told."""
        self._session.attend(somebody)

    @property
    def busy(self) -> bool:
        """Whether a turn runs, here or on another surface."""
        return self._session.busy

    async def settled(self) -> None:
        """Wait until nothing runs and nothing waits."""
        await self._session.settled()

    async def close(self) -> None:
        """Finish, and end the stream; vectors that are missing are left to a worker."""
        from mindstone_tui.core.library.profile import profile_of  # 2 ms
        from mindstone_tui.core.library.vectors import follow  # together 30 ms

        self._closing = True
        if self._leaving is not None:
            await self._leaving
        await self._session.close()
        places, environ = self._home.places, self._home.environ
        settings = self._session.services.context.settings
        own = places.session(self._key)
        await asyncio.to_thread(profile_of, own)  # for lists, which must be quick
        await asyncio.to_thread(follow, places, settings, environ, [own])

    def _listen(self) -> None:
        """Hear when the server goes away, if this is to go on in a fork then."""
        services = self._session.services
        if services.store is not None and services.context.settings.history.offline == "fork":
            self._session.on_away = self._on_away

    def _on_away(self, said: SentMessage | None) -> None:
        # Who takes one turn and ends forks when the next one begins.
        if self._closing or (said is None and not self._opening.follow):
            return
        if said is not None:
            self._stranded.append(said)
        if self._leaving is None or self._leaving.done():
            self._leaving = asyncio.create_task(self._leave(), name="fork")

    async def _leave(self) -> None:
        """Open the session again, which makes the fork, and say there what had no turn here."""
        from mindstone_tui.core.session.build import open_session  # with all it needs: 0.15 s

        old = self._session
        try:
            opened = await open_session(self._opening)
        except MindstoneError as error:
            for said in self._take_stranded():
                old.hand_back(said, error)
            return
        self._session = opened
        self._listen()
        for said in self._take_stranded():
            opened.take_on(said, old)
        await old.close()

    def _take_stranded(self) -> list[SentMessage]:
        waiting, self._stranded = self._stranded, []
        return waiting


def warm_up() -> None:
    """Load what the first message needs, beside the loop: it would hold up whoever else asks."""
    from mindstone_tui.core.entries import make_decoders  # 40 ms
    from mindstone_tui.core.redaction import Redactor  # 20 ms
    from mindstone_tui.core.session import build  # 0.1 s
    from mindstone_tui.core.statements import cues, recogniser  # 0.1 s of expressions

    del build
    make_decoders()
    for cue in cues.all_cues():
        recogniser.kind_of_sentence(cue.example)
    Redactor().redact("a-name_1234567890/with.many-parts+and=more")


class Wishes(TypedDict, total=False):
    """How a session is opened, where it is not to be as the settings and the session have it."""

    model: str
    profile: str
    approve: str
    context_window: int
    max_rounds: int
    asks: bool
    """Somebody answers `ToolAsked`; without that, a tool that needs an approval is declined."""
    wait: bool
    """Wait while another program takes a turn in the session (the default), or refuse then."""
    follow: bool
    """Announce what other programs write to it; the default."""
    guest: Guest
    """A program that brings its own tools."""
    servers: Mapping[str, McpServerSettings]
    """Started beside those of the settings."""


async def connect(
    session: str = "",
    *,
    home: Home | Path | str | None = None,
    cwd: Path | str | None = None,
    channel: str = "python",
    **wishes: Unpack[Wishes],
) -> Conversation:
    """Open or begin a session; whoever calls this closes it. `open` closes it by itself."""
    # Deferred: a program that only looks at a session does not wait for what a turn needs.
    from mindstone_tui.core.session.build import open_session
    from mindstone_tui.core.session.options import Opening

    here = _home(home)
    folder = _folder(cwd)
    wishes.setdefault("asks", False)
    opening = Opening(
        key=here.key(session, folder if cwd or not isinstance(home, Home) else None),
        places=here.places,
        environ=here.environ,
        cwd=folder,
        channel=channel,
        apart=channel == "tui",
        **wishes,
    )
    return Conversation(await open_session(opening), here, opening)


@asynccontextmanager
async def open_conversation(
    session: str = "",
    *,
    home: Home | Path | str | None = None,
    cwd: Path | str | None = None,
    **wishes: Unpack[Wishes],
) -> AsyncIterator[Conversation]:
    """A session for as long as the block lasts; `mindstone_tui.open` is this."""
    wishes["follow"] = False
    conversation = await connect(session, home=home, cwd=cwd, **wishes)
    try:
        yield conversation
    finally:
        await conversation.close()


def recall(
    query: str,
    count: int = 10,
    *,
    session: str = "",
    scope: str = "session",
    since: str = "",
    kinds: Collection[str] = (),
    home: Home | Path | str | None = None,
) -> RecallAnswer:
    """The best passages of history and memory, best first, each with its source.

    `scope` is `session`, `agent` (all sessions of that agent, with its log and journals) or `all`.
    """
    from mindstone_tui.core.library.find import StoredRecall, checked_scope  # 40 ms

    if not query.strip():
        raise UsageError("There is nothing to look for.", "Say what to recall.")
    here = _home(home)
    settings = here.settings
    here.fetch_news(here.key(session), everything=checked_scope(scope) != "session")
    with StoredRecall(here.places, here.key(session), settings, checked_scope(scope)) as stored:
        return stored.ask(query, count, since=since, kinds=kinds)


def context(
    *,
    session: str = "",
    turn: int = 0,
    call: int = 0,
    model: str = "",
    context_window: int = 0,
    profile: str = "",
    home: Home | Path | str | None = None,
) -> ContextReport:
    """The context window in numbers: of the next request, or of a turn's in the past."""
    from mindstone_tui.core.library.read_only import Look, look_at  # 50 ms

    here = _home(home)
    here.fetch_news(here.key(session))
    return look_at(
        Look(
            key=here.key(session),
            places=here.places,
            environ=here.environ,
            turn=turn,
            call=call,
            model=model,
            context_window=context_window,
            profile=profile,
        )
    )


def log(
    *,
    session: str = "",
    kinds: Collection[str] = (),
    turn: int | None = None,
    newest_first: bool = False,
    home: Home | Path | str | None = None,
) -> Iterator[Line | Damaged]:
    """A transcript's lines, of these kinds and this turn; a damaged line is always among them."""
    here = _home(home)
    here.fetch_news(here.key(session))
    places = here.places.session(here.key(session))
    if not places.folder.exists():
        raise places.missing()
    with History(places) as history:
        for item in history.back() if newest_first else history.read():
            if isinstance(item, Damaged) or (
                (not kinds or item.kind in kinds) and turn in (None, item.turn)
            ):
                yield item


def verify(*, session: str = "", home: Home | Path | str | None = None) -> Verdict:
    """Whether every line of a transcript is what was written; the verdict says where it is not."""
    here = _home(home)
    here.fetch_news(here.key(session))
    return verify_transcript(here.places.session(here.key(session)))


def _recognised(data: bytes, name: str) -> Image:
    from mindstone_tui.core.session.attachments import recognise  # 15 ms

    if (seen := recognise(data, name)) is None:
        raise UsageError(
            f"{name} is no picture or sound that models take.", "Send PNG, JPEG, GIF, WebP, WAV …"
        )
    return seen


def _home(home: Home | Path | str | None) -> Home:
    return home if isinstance(home, Home) else Home(home, folder=Path.cwd())


def _folder(named: Path | str | None) -> Path:
    folder = from_home(named or Path.cwd()).absolute()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", "Name one that exists.")
    return folder
