"""A fork: another session that begins with this one's window and points back to its history."""

from __future__ import annotations

from mindstone_tui.core.agent.desk import Desk
from mindstone_tui.core.entries import Draft, Unknown
from mindstone_tui.core.entries.conversation import ForkPoint
from mindstone_tui.core.entries.window import Forked
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.places import SessionPlaces
from mindstone_tui.core.transcript import History, Transcript


def fork_session(desk: Desk, history: History, child: SessionPlaces, turn: int | None) -> None:
    """Copy the window up to a turn into a new session; each line names the one it came from.

    Only the window is copied, so a fork costs the window and not the history; what lies before it
    stays in the parent, which the header names with its exact place.
    """
    last = desk.transcript.last_turn if turn is None else turn
    lines = [line for line in desk.working_set.fold.lines.values() if line.turn <= last]
    if not lines or last > desk.transcript.last_turn:
        raise NoSuchEntry(
            f"Turn {last} is not in the window, so nothing can begin there.",
            "`/restore turn N` brings it back first.",
        )
    newest = history.turn(last)[-1]
    point = ForkPoint(session=newest.session, seq=newest.seq, hash=newest.hash)
    forked = Transcript(
        child, clean=desk.transcript.clean, channel=desk.transcript.channel, forked_from=point
    )
    try:
        forked.append_all(
            [
                Draft(
                    entry=entry,
                    turn=line.turn,
                    channel=line.channel,
                    ts=line.ts,
                    parent=line.id,
                )
                for line in lines
                if not isinstance(entry := history.whole(line).entry, Unknown)
            ]
        )
    finally:
        forked.close()
    desk.record(Forked(child=str(child.key), at=newest.seq), None)
