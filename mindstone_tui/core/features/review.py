"""Looking back over history for what is worth remembering: offered, and done by `/consolidate`."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from mindstone_tui.core import errors, events, text
from mindstone_tui.core.agent.memories import Memories, now
from mindstone_tui.core.entries import Line, Span
from mindstone_tui.core.entries.derived import SummaryDerived
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.features.handoffs import HandoffsFeature
from mindstone_tui.core.features.health import HealthFeature
from mindstone_tui.core.features.memory import MemoryFeature, is_worth_a_review, reviewed_through
from mindstone_tui.core.memory import notes as journal
from mindstone_tui.core.memory.proposals import write_index
from mindstone_tui.core.session import features, services

PROBED_LINES: Final = 2_000
"""Newest lines of history from which the questions come that recall is checked with."""


class ReviewFeature(features.Feature):
    """A review of history; it proposes, and decides nothing."""

    name = "the review of history"

    def __init__(self, session: services.SessionServices) -> None:
        super().__init__(session)
        self._used = False
        """Whether a turn was taken here."""

    async def after_turn(self, turn: features.EndedTurn) -> Sequence[events.AnyEvent]:
        """Look back when exchanges were summarised in this turn."""
        self._used = True
        entries = [each.entry for each in turn.lines]
        if not any(isinstance(each, SummaryDerived) and each.state for each in entries):
            return ()
        return announcements(*await self.session.features.get(MemoryFeature).look_back())

    async def close(self) -> None:
        """Look back at what was said; whoever comes next is told what was found."""
        if self._used and is_worth_a_review(self.context.transcript):
            with contextlib.suppress(errors.MindstoneError):
                await self.session.features.get(MemoryFeature).look_back()

    @features.command("consolidate", usage="[with model]", changes_window=True)
    async def consolidate(self, argument: str) -> AsyncIterator[features.Happening]:
        """Review history since the last time and propose what is worth remembering.

        It writes no memory by itself: `/memory` shows the proposals. Each piece that was read is
        recorded, so an interrupted review goes on there; a long history takes several runs.
        """
        memories = self.session.features.get(MemoryFeature).memories
        found = left_out = 0
        finished, began = True, self.context.transcript.head.seq
        async for piece in memories.consolidate(
            reviewed_through(self.context.transcript),
            self.session.modes.ask if argument == "with model" else None,
        ):
            found += len(piece.findings)
            left_out += piece.left_out
            finished = piece.finished
            so_far = f"{text.plural(found, 'finding')} so far."
            said = f"Reviewed {piece.share:.0%} up to #{piece.through}: {so_far}"
            yield events.Noticed(message=f"{said} {piece.objection}".rstrip())
        lines, told = await self._finish(memories, began)
        yield announcements(*lines)
        yield events.CommandPrinted(
            text="\n".join(outcome_in_words(found, left_out, told, finished=finished)),
            data={
                "findings": found,
                "proposals": [one.entry.proposal for one in memories.waiting],
                "left_out": left_out,
                "finished": finished,
                "checks": told,
            },
        )

    async def _finish(self, memories: Memories, began: int) -> tuple[list[Line], list[str]]:
        """Propose merges, check the index and recall, write a journal and a handoff.

        The journal has what was proposed since the line at which this began. What was checked is
        told in sentences.
        """
        lines = memories.propose_merges()
        told = [f"{text.plural(len(lines), 'memory file')} could be merged."] if lines else []
        lag = await self.session.recall.backfill()
        behind = f"{text.plural(lag, 'exchange')} could not be indexed."
        told.append(behind if lag else "The index is complete.")
        write_index(memories.agent)
        with self.context.transcript.history() as history:
            newest = Span(max(history.head.seq - PROBED_LINES, 0), history.head.seq)
        probed = await self.session.features.get(HealthFeature).health.probe([newest])
        told.append(probed.sentence())
        waiting = [one.body for one in memories.waiting if one.seq > began]
        journal.write_journal(
            memories.agent,
            str(memories.places.key),
            now(),
            [("Proposed", waiting), ("Checked", told)],
        )
        handoffs = self.session.features.get(HandoffsFeature).handoffs
        return [*lines, await handoffs.write("consolidation")], told


def outcome_in_words(
    found: int, left_out: int, checked: Sequence[str], *, finished: bool
) -> list[str]:
    """What a review came to, one sentence each."""
    proposed = (
        f"{text.plural(found, 'finding')} proposed. `/memory` shows them."
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
    return [proposed, *([sensitive] if left_out else []), *checked, *([] if finished else [more])]
