"""Sessions on disk behind the protocols the app reads them through."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from mindstone_tui.core.disk import Disk
from mindstone_tui.core.library.filters import SessionFilter
from mindstone_tui.core.transcript.reader import History
from mindstone_tui.tui.from_entries import HistoryBrowse
from mindstone_tui.tui.host import SessionHit, SessionRow
from tests.builders import places_in, say, transcript_in, use_tool
from tests.tui.staged import SESSION


class Shelf:
    """A `Library` over the transcripts of a throw-away home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[str] = []
        self.wanted: list[SessionFilter | None] = []

    async def sessions(self, wanted: SessionFilter | None = None) -> Sequence[SessionRow]:
        self.wanted.append(wanted)
        rows = [
            SessionRow(
                key=SESSION,
                title="How do we store things?",
                changed="2026-01-05T09:12:00+00:00",
                turns=34,
            ),
            SessionRow(
                key="agent:default:website",
                title="Make the landing page load faster",
                facts="codex · /work/api · gpt-5 · 1.2M tokens",
                changed="2026-01-04T18:00:00+00:00",
                turns=112,
            ),
            SessionRow(
                key="agent:research:papers",
                title="[bold]Compare[/bold] eviction policies",
                changed="2025-12-28T08:00:00+00:00",
                turns=9,
            ),
        ]
        return [row for row in rows if wanted is None or row.facts]

    async def search(self, text: str, wanted: SessionFilter | None = None) -> Sequence[SessionHit]:
        self.asked.append(text)
        self.wanted.append(wanted)
        return [
            SessionHit(
                key="agent:default:website",
                seq=3,
                turn=1,
                ts="2026-01-04T18:00:00+00:00",
                speaker="you",
                text=f"what we said about {text}",
                facts="codex · /work/api",
            )
        ]

    def browse(self, key: str) -> HistoryBrowse:
        return HistoryBrowse(History(places_in(self.home, key)))


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
