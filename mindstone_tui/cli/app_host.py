"""The app's host: commands, sessions, models and themes of this user."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, overload

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.directory import list_sessions
from mindstone_tui.tui.colours import palette_of
from mindstone_tui.tui.history import HistoryBrowse
from mindstone_tui.tui.host import (
    AppHost,
    Browse,
    CommandHelp,
    ModelChoice,
    SessionHit,
    SessionRow,
)

if TYPE_CHECKING:
    from mindstone_tui.core.replay.playback import Replay


def host_for(
    home: Places, settings: Settings, session: str, folder: Path, *, at: str = ""
) -> AppHost:
    """The host for the app: settings, commands, sessions, models and themes."""
    return AppHost(
        settings=settings.tui,
        commands=SlashCommands(),
        library=HomeLibrary(home, settings),
        models=lambda: _models(home, settings),
        recordings=lambda key, turn: _recording(home, settings, key, turn),
        user_themes=home.themes,
        palette=palette_of(os.environ),
        folder=folder,
        session=session,
        at=at,
    )


class SlashCommands(Sequence[CommandHelp]):
    """The slash commands for completion and help, read when they are first looked at.

    The rooms that they act on take as long to load as the rest of the app; its first picture does
    not wait for them.
    """

    @cached_property
    def _all(self) -> tuple[CommandHelp, ...]:
        from mindstone_tui.core.commands import COMMANDS

        return tuple(
            CommandHelp(name=each.name, usage=each.usage, help=each.help, choices=each.words)
            for each in COMMANDS.values()
        )

    @overload
    def __getitem__(self, at: int) -> CommandHelp: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[CommandHelp]: ...
    def __getitem__(self, at: int | slice) -> CommandHelp | Sequence[CommandHelp]:
        return self._all[at]

    def __len__(self) -> int:
        return len(self._all)


class HomeLibrary:
    """All sessions under one home."""

    def __init__(self, home: Places, settings: Settings) -> None:
        self._home = home
        self._settings = settings

    async def sessions(self) -> Sequence[SessionRow]:
        """Every session, newest first."""
        found = await asyncio.to_thread(list_sessions, self._home)
        return [
            SessionRow(
                key=each.session,
                title=each.text,
                changed=each.updated,
                turns=each.turns,
                size=each.size,
            )
            for each in found
        ]

    async def search(self, text: str) -> Sequence[SessionHit]:
        """The best places in all sessions, by words and by meaning."""
        from mindstone_tui.core.session.search import search_everywhere

        found = await asyncio.to_thread(search_everywhere, self._home, self._settings, text, 30)
        return [
            SessionHit(
                key=hit.session,
                seq=hit.seq,
                turn=hit.turn,
                ts=hit.ts,
                speaker=hit.speaker,
                text=hit.excerpt,
                score=hit.score,
            )
            for hit in found.hits
        ]

    def browse(self, key: str) -> Browse:
        """One session's history."""
        return HistoryBrowse(History(self._home.session(SessionKey.parse(key))))


async def _recording(home: Places, settings: Settings, key: str, turn: int) -> Replay:
    """A session to be played again; one that sent nothing is rehearsed first."""
    from mindstone_tui.core.replay.playback import Replay, playable

    history, note = await playable(History(home.session(SessionKey.parse(key))), settings)
    # A long session takes a moment to be looked through.
    replay = await asyncio.to_thread(lambda: Replay(history, settings, note=note))
    if turn:
        replay.go_to_turn(turn)
    return replay


async def _models(home: Places, settings: Settings) -> Sequence[ModelChoice]:
    """What can answer now: embedded, configured, and found on this machine."""
    from mindstone_tui.core.session.model_list import list_models

    return [
        ModelChoice(name=each.name, note=each.why, window=each.window or 0, found=not each.default)
        for each in await list_models(home, settings, os.environ)
        if each.usable
    ]
