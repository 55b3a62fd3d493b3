"""The app on a recording instead of a live session."""

from __future__ import annotations

from textual.screen import Screen

from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events import Conversation
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.ports import Surroundings
from mindstone_tui.tui.screens.replay import OpenReplay, ReplayScreen


async def _no_conversation(_key: str) -> Conversation:
    raise UsageError("A recording has no live session.", "`mindstone` opens one.")


class ReplayApp(MindstoneApp):
    """Only the recording; leaving it leaves the app."""

    def __init__(self, open_replay: OpenReplay, around: Surroundings) -> None:
        self.recording = ReplayScreen(open_replay, panel=around.settings.panel)
        super().__init__(_no_conversation, around)

    def get_default_screen(self) -> Screen[None]:
        return self.recording

    async def action_quit(self) -> None:
        if self.recording.replay is not None:
            await self.recording.replay.close()
        self.exit(0)
