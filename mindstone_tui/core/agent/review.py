"""The end of a review of history: what could be merged, what was checked, a journal, a handoff."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.handoffs import Handoffs
from mindstone_tui.core.agent.health import Health
from mindstone_tui.core.agent.memories import Memories, now
from mindstone_tui.core.entries import Line, Span
from mindstone_tui.core.entries.derived import Consolidated
from mindstone_tui.core.memory import journal
from mindstone_tui.core.memory.proposals import write_index
from mindstone_tui.core.text import plural
from mindstone_tui.core.transcript import Transcript

PROBED_LINES: Final = 2_000
"""Newest lines of history from which the questions come that recall is checked with."""


def reviewed_through(transcript: Transcript) -> int:
    """How far history was reviewed already; -1 when it never was."""
    with transcript.history() as history:
        for line in history.newest(["consolidated"], history.head.seq + 1):
            if isinstance(line.entry, Consolidated):
                return line.entry.through
    return -1


WORTH_A_REVIEW: Final = 10
"""Messages of a person since the last review from which on one is offered."""


def offer_review(transcript: Transcript) -> str:
    """Why now is a fitting moment to look back; empty when there is little to look at."""
    since = reviewed_through(transcript)
    with transcript.history() as history:
        said = sum(
            line.seq > since for line in history.newest(["user_message"], history.head.seq - since)
        )
    if said < WORTH_A_REVIEW:
        return ""
    return (
        f"{plural(said, 'message')} were not reviewed yet: /consolidate proposes what is worth "
        "remembering."
    )


async def finish_review(
    context: TurnContext,
    memories: Memories,
    health: Health,
    handoffs: Handoffs,
    backfill: Callable[[], Awaitable[int]],
    *,
    clock: Callable[[], datetime] = now,
) -> tuple[list[Line], list[str]]:
    """Propose merges, check the index and recall, write a journal and a handoff.

    What was checked is told in sentences.
    """
    lines = memories.propose_merges()
    told = [f"{plural(len(lines), 'memory file')} could be merged."] if lines else []
    lag = await backfill()
    behind = f"{plural(lag, 'exchange')} could not be indexed."
    told.append(behind if lag else "The index is complete.")
    write_index(memories.agent)
    with context.transcript.history() as history:
        newest = Span(max(history.head.seq - PROBED_LINES, 0), history.head.seq)
    probed = await health.probe([newest])
    told.append(probed.sentence())
    waiting = [f"{one.entry.proposal}: {one.entry.path}" for one in memories.waiting]
    journal.write_journal(
        memories.agent,
        str(memories.places.key),
        clock(),
        [("Proposed", waiting), ("Checked", told)],
    )
    return [*lines, await handoffs.write("consolidation")], told


def outcome_in_words(
    found: int, left_out: int, checked: Sequence[str], *, finished: bool
) -> list[str]:
    """What a review came to, one sentence each."""
    proposed = (
        f"{plural(found, 'finding')} proposed. `/memory` shows them."
        if found
        else "Nothing new is worth proposing."
    )
    holds = (
        "holds something sensitive and was"
        if left_out == 1
        else "hold something sensitive and were"
    )
    sensitive = f"{left_out} {holds} not proposed."
    more = "There is more history: /consolidate goes on with it."
    return [
        proposed,
        *([sensitive] if left_out else []),
        *checked,
        *([] if finished else [more]),
    ]
