"""Sentences that sound like a rule or decision: offered, and kept where a person says so.

Only forms that leave no doubt are taken as settled. The rest is asked about, at most once a turn,
and a form that was asked about and not kept is not asked about again in the session. What is kept
becomes a note in the person's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.memories import Memories
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import NoteTaken, OfferAnswered, StandingInstructionOffered
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.statements.recogniser import worth_asking_about


class OfferMade(msgspec.Struct, frozen=True):
    """What was offered, and what the person said to it, if anything."""

    entry: StandingInstructionOffered
    since: str
    turn: int
    keep: bool | None = None


class Offers:
    """What one session offers to keep."""

    def __init__(self, context: TurnContext, memories: Memories) -> None:
        self._context = context
        self._memories = memories

    @cached_property
    def made(self) -> dict[int, OfferMade]:
        """What was offered lately, by its line."""
        found: dict[int, OfferMade] = {}
        for line in reversed(self._memories.past.lines):
            match line.entry:
                case StandingInstructionOffered(form=form) as entry if form:
                    found[line.seq] = OfferMade(entry, line.ts, line.turn)
                case OfferAnswered(offer=seq, keep=keep) if seq in found:
                    found[seq] = msgspec.structs.replace(found[seq], keep=keep)
        return found

    def forget(self) -> None:
        """Another surface wrote: read them anew when they are needed."""
        self.__dict__.pop("made", None)

    @property
    def waiting(self) -> int | None:
        """The offer that nobody has answered; whoever went on without a word about it has."""
        turn = self._context.transcript.last_turn
        here = [seq for seq, one in self.made.items() if one.keep is None and one.turn == turn]
        return here[-1] if here else None

    def offer(self, asked: Line, text: str) -> Sequence[Line]:
        """Offer to keep a sentence of a message, if one sounds settled and may be asked about."""
        not_kept = {one.entry.form for one in self.made.values() if not one.keep}
        found = worth_asking_about(text, not_kept)
        if found is None or _said_before(self._context.window.fold, found.text, asked.seq):
            return ()
        entry = StandingInstructionOffered(
            text=found.text, source=asked.seq, of_kind=found.kind, form=found.form
        )
        line = self._context.window.record(entry, asked.turn)
        self.made[line.seq] = OfferMade(entry, line.ts, line.turn)
        return (line,)

    def answer(self, *, keep: bool) -> StandingInstructionOffered:
        """Keep what was offered last, or not; what that was. A rule is left to whoever sets it."""
        if (seq := self.waiting) is None:
            raise ContinuityError("Nothing waits to be kept or decided.", "/rules shows what was.")
        entry = self.made[seq].entry
        hand = self._context.by_hand(self.made[seq].since)
        answered = OfferAnswered(offer=seq, keep=keep, **hand)
        self._context.window.record(answered, self._context.transcript.last_turn)
        self.made[seq] = msgspec.structs.replace(self.made[seq], keep=keep)
        if keep and entry.of_kind != "rule":
            filed = "decisions" if entry.of_kind == "decision" else "constraints"
            words = " ".join(entry.text.split())
            note = NoteTaken(category=filed, text=words, importance="high", by="person")
            self._memories.keep_note(note)
        return entry


def _said_before(fold: Fold, words: str, asked: int) -> bool:
    """Whether an earlier message of the window says this word for word already."""
    return any(
        words in line.entry.text
        for line in fold.lines.values()
        if isinstance(line.entry, UserMessage) and line.seq < asked
    )
