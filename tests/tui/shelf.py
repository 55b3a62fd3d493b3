"""Sessions on disk behind the protocols the app reads them through."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mindstone_tui.core.disk import Disk
from mindstone_tui.core.library.open_questions import OpenQuestion
from mindstone_tui.core.library.profile import ListedSession, SessionFilter
from mindstone_tui.core.library.search import SessionHit
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript.directory import said_in
from mindstone_tui.core.transcript.reader import History
from mindstone_tui.tui.from_entries import HistoryBrowse
from tests.builders import places_in, say, transcript_in, use_tool
from tests.tui.staged import SESSION


def listed(session: str, title: str, used: str, turns: int = 0, **more: Any) -> ListedSession:
    """A session in a list."""
    known: dict[str, Any] = {
        "agent": "",
        "main": "",
        "size": 0,
        "entries": 0,
        "updated": used,
        "role": "",
    }
    return ListedSession(
        session=session,
        title=title,
        used=used,
        turns=turns,
        text="",
        readable=True,
        **known,
        **more,
    )


class Shelf:
    """A `Library` over the transcripts of a throw-away home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[str] = []
        self.wanted: list[SessionFilter | None] = []
        self.waits = ""
        self.open: list[OpenQuestion] = []
        self.kept: dict[str, str] = {}

    async def sessions(self, wanted: SessionFilter | None = None) -> Sequence[ListedSession]:
        self.wanted.append(wanted)
        rows = [
            listed(
                SESSION,
                "How do we store things?",
                used="2026-01-05T09:12:00+00:00",
                turns=34,
            ),
            listed(
                "agent:default:website",
                "Make the landing page load faster",
                program="codex",
                folder="/work/api",
                models=("gpt-5",),
                tokens=1_200_000,
                used="2026-01-04T18:00:00+00:00",
                turns=112,
            ),
            listed(
                "agent:research:papers",
                "[bold]Compare[/bold] eviction policies",
                used="2025-12-28T08:00:00+00:00",
                turns=9,
            ),
        ]
        return [row for row in rows if wanted is None or row.program == "codex"]

    async def search(self, text: str, wanted: SessionFilter | None = None) -> Sequence[SessionHit]:
        self.asked.append(text)
        self.wanted.append(wanted)
        return [
            SessionHit(
                session="agent:default:website",
                score=1.0,
                seq=3,
                turn=1,
                ts="2026-01-04T18:00:00+00:00",
                speaker="you",
                excerpt=f"what we said about {text}",
                program="codex",
                folder="/work/api",
            )
        ]

    def browse(self, key: str) -> HistoryBrowse:
        return HistoryBrowse(History(places_in(self.home, key)))

    async def said(self, key: str, folder: Path) -> Sequence[str]:
        home = Places.resolve({"MINDSTONE_HOME": str(self.home)})
        return said_in(home, str(folder), SessionKey.parse(key))

    async def waiting_in(self, key: str) -> Sequence[OpenQuestion]:
        return self.open

    async def waiting(self) -> str:
        return self.waits

    def unsent(self, key: str, text: str | None = None) -> str:
        before = self.kept.get(key, "")
        if text is not None:
            self.kept[key] = text
        return before


class Hasty(Disk):
    """A disk that does not wait: these sessions need not survive a power cut."""

    def sync(self, fd: int) -> None:
        return


def fill(home: Path, exchanges: int, key: str = SESSION) -> None:
    """Write a session with so many exchanges; every fourth uses a tool."""
    with closing(transcript_in(home, key, disk=Hasty())) as transcript:
        for number in range(1, exchanges + 1):
            if number % 4 == 0:
                use_tool(transcript, f"Question {number}", f"result {number}", f"Answer {number}")
            else:
                say(transcript, f"Question {number}", f"Answer **{number}**, in a sentence or two.")
