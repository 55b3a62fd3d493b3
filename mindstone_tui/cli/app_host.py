"""The app's host: commands, sessions, models and themes of this user."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mindstone_tui.core import bounded_json, disk, errors
from mindstone_tui.core.config.glossary import glossary
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.text import plural
from mindstone_tui.core.values import alike
from mindstone_tui.tui import host, themes

if TYPE_CHECKING:
    from mindstone_tui.core.library.elsewhere import Elsewhere
    from mindstone_tui.core.library.model_list import Availability, Download
    from mindstone_tui.core.library.open_questions import OpenQuestion, WaitingRoom
    from mindstone_tui.core.library.profile import ListedSession, SessionFilter
    from mindstone_tui.core.library.search import SessionHit
    from mindstone_tui.core.replay.playback import Replay


class _Unsynced(disk.Disk):
    """For what need not outlive a power cut: syncing it would hold up the transcript."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


def host_for(
    home: Places, settings: Settings, session: str, folder: Path, *, at: str = "", offers: str = ""
) -> host.AppHost:
    """The host for the app: settings, commands, sessions, models and themes."""
    return host.AppHost(
        settings=settings.tui,
        commands=cache(lambda: _slash_commands(home, folder)),
        library=HomeLibrary(home, settings),
        models=lambda: _models(home, settings),
        setup=HomeSetup(home, settings),
        glossary=glossary(settings),
        recordings=lambda key, turn: _recording(home, settings, key, turn),
        user_themes=home.themes,
        palette=themes.palette_of(os.environ),
        folder=folder,
        elsewhere="" if folder.resolve() == Path.cwd() else folder.name,
        session=session,
        at=at,
        offers=offers,
    )


def _slash_commands(home: Places, folder: Path) -> Sequence[host.CommandHelp]:
    """The slash commands for completion and help.

    The rooms that they act on take as long to load as the rest of the app.
    """
    from mindstone_tui.core.features.prompt_files import commands_in  # 138 ms
    from mindstone_tui.core.session.features import known_commands  # 42 ms

    return (
        *(alike(host.CommandHelp, each, choices=each.words) for each in known_commands().values()),
        *(
            host.CommandHelp(name=each.name, usage=each.hint, help=each.description)
            for each in commands_in(home, folder).values()
        ),
    )


class HomeLibrary:
    """All sessions under one home."""

    def __init__(self, home: Places, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        self._room: WaitingRoom | None = None

    async def sessions(self, wanted: SessionFilter | None = None) -> Sequence[ListedSession]:
        """Every session that is meant, newest first."""
        from mindstone_tui.core.library.profile import list_described  # 14 ms

        await asyncio.to_thread(self._fetch_news)
        return await asyncio.to_thread(list_described, self._home, wanted)

    async def search(self, text: str, wanted: SessionFilter | None = None) -> Sequence[SessionHit]:
        """The best places in all sessions, by words and by meaning."""
        from mindstone_tui.core.library.search import search_everywhere  # 37 ms

        await asyncio.to_thread(self._fetch_news, elsewhere=True)
        found = await asyncio.to_thread(
            search_everywhere, self._home, self._settings, text, 30, wanted
        )
        return found.hits

    def _fetch_news(self, key: str = "", *, elsewhere: bool = False) -> None:
        """Bring copies of shared histories up to date; a server that is away changes nothing."""
        history = self._settings.history
        if history.url or history.sessions:
            from mindstone_tui.core.shared.copies import catch_up  # 130 ms

            keys = [SessionKey.parse(key)] if key else None
            catch_up(self._home, history, keys, elsewhere=elsewhere)

    def browse(self, key: str) -> host.Browse:
        """One session's history."""
        from mindstone_tui.core.transcript import History  # 13 ms
        from mindstone_tui.tui.from_entries import HistoryBrowse  # 20 ms

        self._fetch_news(key)
        return HistoryBrowse(History(self._home.session(SessionKey.parse(key))))

    async def said(self, key: str, folder: Path) -> Sequence[str]:
        """What a person said lately in the sessions of a folder, oldest first; in this one last."""
        from mindstone_tui.core.transcript.directory import said_in  # 12 ms

        return await asyncio.to_thread(said_in, self._home, str(folder), SessionKey.parse(key))

    async def waiting(self) -> str:
        """What waits for a decision in any session, in one line."""
        from mindstone_tui.core.library.open_questions import LATELY, WaitingRoom, in_short  # 25 ms

        if self._room is None:
            self._room = WaitingRoom(self._home)
        return in_short(await asyncio.to_thread(self._room.look, LATELY), datetime.now(UTC))

    async def waiting_in(self, key: str) -> Sequence[OpenQuestion]:
        """What waits in one session and no turn asks about, oldest first."""
        from mindstone_tui.core.library.open_questions import waiting_in  # 25 ms

        places = self._home.session(SessionKey.parse(key))
        found = await asyncio.to_thread(waiting_in, self._home, places)
        return [one for one in found if one.kind != "approval"]

    def unsent(self, key: str, text: str | None = None) -> str:
        """What was written in a session and not sent; another text takes its place.

        Each program keeps its own, and takes up what one left that has ended.
        """
        folder = self._home.session(SessionKey.parse(key)).folder
        own = folder / f"unsent.{os.getpid()}"
        with contextlib.suppress(errors.MindstoneError, OSError):
            if text:
                from mindstone_tui.core.redaction import Redactor  # only who writes needs it

                disk.replace_file(own, Redactor().redact(text).text.encode(), _Unsynced())
            elif text is not None:
                own.unlink(missing_ok=True)
            else:
                for path in sorted(folder.glob("unsent*")):
                    if path == own or not disk.is_running(int(path.suffix[1:] or 1 << 30)):
                        path.replace(own)
                        return disk.read_regular(own).decode("utf-8", "replace")
        return ""


class HomeSetup:
    """Keys, a model to download and the sample session of one home."""

    def __init__(self, home: Places, settings: Settings) -> None:
        self._home = home
        self._settings = settings

    @cached_property
    def providers(self) -> Sequence[tuple[str, str]]:
        """Providers that take a key, each with a model to begin with."""
        from mindstone_tui.core.library.model_list import key_providers  # 138 ms

        return key_providers()

    @cached_property
    def download(self) -> Download:
        """The best model that fits this machine; the smallest where none does."""
        from mindstone_tui.core.library.model_list import catalogue  # 138 ms

        found = catalogue(self._home, self._settings.models)
        return next((each for each in found if each.window), found[-1])

    def downloadable(self, name: str) -> Download:
        """The model of this name, as it would be on this machine."""
        from mindstone_tui.core.library.model_list import catalogue  # 138 ms

        found = catalogue(self._home, self._settings.models)
        return next((each for each in found if each.name == name), self.download)

    def fetched(self) -> bool:
        """Whether the best model is on this machine."""
        from mindstone_tui.core.library.model_list import fetched  # 138 ms

        return fetched(self._home, self.download.name)[1] is not None

    async def add_key(self, provider: str, secret: str, model: str, base_url: str) -> str:
        """Store a key and try it; returns the model that answered."""
        from mindstone_tui.core.library.model_list import NewKey, add_key  # 138 ms

        new = NewKey(provider=provider, secret=secret, model=model, base_url=base_url)
        return await add_key(self._home, os.environ, new)

    async def fetch(
        self, name: str, progress: Callable[[int, int], None], tell: Callable[[str], None]
    ) -> str:
        """Download a model; returns its name."""
        from mindstone_tui.core.library.model_list import fetch_model  # 138 ms

        await fetch_model(self._home, os.environ, name, progress, tell)
        return name

    async def elsewhere(self) -> Sequence[Elsewhere]:
        """What other programs keep here that is new, the ones whose sessions can be read."""
        from mindstone_tui.core.library.elsewhere import elsewhere  # 30 ms

        found = await asyncio.to_thread(elsewhere, self._home, os.environ, Path.cwd())
        return [each for each in found if each.new and each.is_read]

    async def take_in(self, progress: Callable[[int, int], None]) -> str:
        """Take all of it in, in a process of its own: the app stays quick, and stopping is safe."""
        total, taken, added = sum(len(each.new) for each in await self.elsewhere()), set[str](), 0
        command = ["-P", "-m", "mindstone_tui", "import", "--yes", "--no-wait", "--json"]
        nothing = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            stdin=nothing,
            stdout=asyncio.subprocess.PIPE,
            stderr=nothing,
            limit=1 << 24,
        )
        try:
            assert process.stdout is not None
            done = 0
            async for line in process.stdout:
                told = bounded_json.read_object(line.decode()) or {}
                taken.add(str(told.get("session", "")))
                added += int(told.get("added", 0))
                progress(done := min(done + 1, total), total)
            await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
        if process.returncode:
            raise errors.InterchangeError(
                f"It ended before all of it was taken in (exit code {process.returncode}).",
                "`mindstone import` in a terminal says why.",
            )
        sessions = plural(len(taken - {""}), "session")
        return f"{sessions}, {plural(added, 'message')} taken in. F3 searches all of it."

    async def sample(self) -> str:
        """Import the sample session, if it is not here yet; returns its key."""
        return await asyncio.to_thread(self._import_sample)

    def _import_sample(self) -> str:
        from mindstone_tui.core.interchange.samples import SAMPLE_SESSION, sample_file  # 27 ms
        from mindstone_tui.core.library.take_over import Importer  # 73 ms

        importer = Importer(self._home, self._settings, os.environ, origin="messages")
        for _ in importer.take(sample_file(), SessionKey.parse(SAMPLE_SESSION), "records"):
            continue
        return SAMPLE_SESSION


async def _recording(home: Places, settings: Settings, key: str, turn: int) -> Replay:
    """A session to be played again; one that sent nothing is rehearsed first."""
    from mindstone_tui.core.replay.playback import Replay, playable  # 60 ms
    from mindstone_tui.core.transcript import History  # 13 ms

    history, note = await playable(History(home.session(SessionKey.parse(key))), settings)
    # A long session takes a moment to be looked through.
    replay = await asyncio.to_thread(lambda: Replay(history, settings, note=note))
    if turn:
        replay.go_to_turn(turn)
    return replay


async def _models(home: Places, settings: Settings) -> Sequence[host.ModelChoice]:
    """What can answer: embedded, configured and found on this machine; then what needs a key."""
    from mindstone_tui.core.library.model_list import list_models  # 138 ms

    found = [
        host.ModelChoice(
            name=each.name, note=_needs(each), window=each.window or 0, usable=each.usable
        )
        for each in await list_models(home, settings, os.environ)
    ]
    named = {each.name.partition("/")[0] for each in found if each.usable and not each.unnamed}
    # A provider's own row says nothing new beside a model of it.
    shown = [each for each in found if not each.unnamed or each.name.partition("/")[0] not in named]
    return sorted(shown, key=lambda each: not each.usable)


def _needs(model: Availability) -> str:
    """What a model is, or what Enter would do to get it."""
    if model.usable:
        return model.why
    if model.local:
        return "Enter downloads it"
    return "no key; Enter adds one" if model.why.startswith("no key") else model.why
