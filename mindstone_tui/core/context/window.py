"""The window of an open session: it follows the transcript, and every change of it is an entry.

What shapes a prompt are functions over this state, in `plan`, `prune`, `trim`, `manual` and
`build_report`; each writes down what it decided before the request that it shapes.
"""

import contextlib
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from mindstone_tui.core.context import findings, policies, watch, window_view
from mindstone_tui.core.entries import Draft, Entry, Label, Line, ToolSchema
from mindstone_tui.core.entries.window import (
    InstructionsChanged,
    ModeChanged,
    ModelChanged,
    PolicyChanged,
    PromptPlanned,
    Receipt,
    Section,
    ToolsChanged,
)
from mindstone_tui.core.errors import EntryNotSaved
from mindstone_tui.core.transcript import Transcript, reader

T = TypeVar("T")
RoomMaker = Callable[["LiveWindow", window_view.Call], Awaitable[list[Line]]]


class LiveWindow(window_view.View, kw_only=True):
    """What the model sees next, kept by writing down every decision about it."""

    transcript: Transcript
    indexer: window_view.Indexer
    threads: bool = True
    """Whether what takes long is done off the loop."""
    blocked: set[tuple[int, str]] = set()
    """What was already said, per turn, about prunes that could not happen."""
    placeholders: findings.Placeholders = msgspec.field(default_factory=findings.Placeholders)
    open_steps: int = 0
    """Of the list of what is to be done: how much is still open."""
    room_maker: RoomMaker | None = None
    """How room is made where the session brings other means than the sliding window."""
    on_replaced: Callable[[str], None] = lambda what: None
    """Told when another history stands in this one's place."""
    on_saved: Callable[[int], None] = lambda entries: None
    """Told when so many entries are on disk after all."""
    _missed: list[Line] = []
    _others: set[int] = set()
    """Lines that others wrote since this was opened: what those offer was offered there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replacements = self.transcript.replacements

    def catch_up(self) -> None:
        """Take in what other surfaces appended."""
        self._meet_replacement()
        written = self.transcript
        if self.fold.head == written.head.seq and self.history.size == written.size:
            return  # the file ends where we ended it
        new = window_view.follow(self.fold, self.history)
        for line in new:
            self.watch.observe(line)
        self._missed += new

    def missed(self) -> list[Line]:
        """The lines of others that were taken in since somebody last asked for them."""
        missed, self._missed = self._missed, []
        self._others.update(line.seq for line in missed)
        return [self.history.whole(line) for line in missed]

    def put_here(self, seq: int, channel: str) -> bool:
        """Whether a line put something to a person here; two windows of one kind are two places."""
        return channel == self.transcript.channel and seq not in self._others

    def take(self, line: Line) -> None:
        """Take in one line of ours, and before it any that were missed; once is enough."""
        if line.seq > self.fold.head + 1:
            self.catch_up()  # which reads to the end of the file, and there ours stands by now
        if self._missed:
            self._missed = [each for each in self._missed if each.seq != line.seq]
        if line.seq > self.fold.head:
            self.fold.add(reader.with_blobs(line, self.history.places))
            self.watch.observe(line)

    def record(self, entry: Entry, turn: int | None = None) -> Line:
        """Write an entry and take it in; on disk when this returns.

        Without a turn it belongs to the one of the line before it, whoever wrote that.
        """
        return self.record_all([entry], turn)[0]

    def record_all(
        self,
        entries: Sequence[Entry],
        turn: int | None = None,
        holds: Callable[[], bool] | None = None,
    ) -> list[Line]:
        """Write several entries at once; if the disk refuses, all of them are kept for later.

        What was refused before is saved first and on its own, so that it is announced and taken in
        as ours, and not found later as if another surface had written it. Nothing is written where
        something does not hold of all that stands before it in the file.
        """
        with contextlib.suppress(EntryNotSaved):
            self.save()
        channel = self.transcript.channel
        lines = self.transcript.append_all(
            [Draft(entry=entry, turn=turn, channel=channel) for entry in entries],
            lambda seq: reader.readable(self.history, seq),
            holds,
        )
        self._meet_replacement()
        for line in lines:
            self.take(line)
        return lines

    def _meet_replacement(self) -> None:
        """Go on with a file that took the transcript's place, even if it is another history.

        What the old file held is still open here. It is copied before it is let go.
        """
        before, self._replacements = self._replacements, self.transcript.replacements
        if before == self._replacements:
            return
        if before.histories == self._replacements.histories:
            self.history.reopen()
            return
        ended = self.fold.head
        copy = self.transcript.places.lost / f"transcript-{ended}-{before.histories}.jsonl"
        self.history.keep_copy(copy)
        self.history.reopen()
        self._begin(window_view.open_fold(self.history))
        self._missed.clear()
        self.on_replaced(
            f"Another program put another history in the transcript's place: line {ended}, the "
            f"newest known, is not in it. The window was made anew; the old file is kept as {copy}."
        )

    def save(self) -> list[Line]:
        """Write what the disk refused before; raises `EntryNotSaved` if it still does."""
        lines = self.transcript.save()
        for line in lines:
            self.take(line)
        if lines:
            self.on_saved(len(lines))
        return lines

    def now(self) -> window_view.Call:
        """The next call as the session's own choices make it, with everything taken in."""
        self.catch_up()
        return self.call(window_view.SESSIONS_OWN)

    def expecting(
        self, sections: Sequence[Section], tools: Sequence[ToolSchema]
    ) -> window_view.View:
        """This window as its next request will carry it, to be looked at and not written to."""
        fold = self.fold.expecting(sections, tools)
        if fold is self.fold:
            return self
        view = copy.copy(self)
        vars(view).update(vars(self))  # a copy has only what is declared
        view.fold = fold
        view.forget_measure()
        return view

    def planned(self, call: window_view.Call) -> PromptPlanned | None:
        """The newest plan, if it is of this very call and nothing was written since."""
        line, plan = self.fold.plan, self.last_plan
        if line is None or plan is None or line.seq != self.fold.head or line.turn != call.turn:
            return None
        asked = (call.model, call.tail, call.images, call.sounds, call.room.window, call.room.label)
        was = (plan.model, plan.tail, plan.images, plan.sounds, plan.window, plan.window_label)
        return plan if asked == was else None

    def note_growth(self, call: window_view.Call) -> None:
        """Remember what each turn added before anything leaves: afterwards nobody could tell."""
        self.watch.carried = msgspec.structs.replace(self.watch.carried, growth=self.growth(call))

    def note_usage(self, line: Line) -> watch.UsageNote:
        """Learn from a provider's report: how far off we were, and whether it cut the prompt."""
        self.take(line)
        return self.watch.learn(line)

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Do what takes long while others go on."""
        if not self.threads:
            return work()
        import asyncio  # whoever awaits this has it, and those who only plan a window load it not

        return await asyncio.to_thread(work)

    async def ensure(self, units: Sequence[window_view.ExchangeLines]) -> Mapping[int, Receipt]:
        """Ask for receipts off the loop; lines that arrive meanwhile are taken in."""
        receipts = await self.off_loop(lambda: self.indexer.ensure(units))
        self.catch_up()
        return receipts

    async def count_ahead(self, call: window_view.Call, seq: int) -> None:
        """Count a long message off the loop, before anybody on it asks how large it is."""
        ledger = self.ledger(call.model)
        for placed in self.fold.placed(model=call.model, turn=call.turn):
            if placed.line.seq == seq:
                look = partial(ledger.message, placed, images=call.images, sounds=call.sounds)
                await self.off_loop(look)

    # What holds for all prompts from here on; nothing is written where it does already

    def set_model(
        self, model: str, *, window: int = 0, label: Label = "assumed", why: str = ""
    ) -> Line | None:
        """Let another model answer, or the same one for another reason or in another window."""
        now = self.fold.model_changed
        if now is not None and now.model == model:
            why = why or now.why
            if (now.window, now.window_label, now.why) == (window, label, why):
                return None
        state = self.fold.state
        changed = ModelChanged(model=model, state=state, window=window, window_label=label, why=why)
        return self.record(changed, self.fold.turn)

    def set_instructions(self, sections: Sequence[Section]) -> Line | None:
        """Change the standing part of the prompt."""
        if tuple(sections) == self.fold.sections:
            return None
        changed = InstructionsChanged(sections=tuple(sections), state=self.fold.state)
        return self.record(changed, self.fold.turn)

    def set_tools(self, tools: Sequence[ToolSchema]) -> Line | None:
        """Change the tools that requests carry."""
        if tuple(tools) == self.fold.tools:
            return None
        return self.record(ToolsChanged(tools=tuple(tools), state=self.fold.state), self.fold.turn)

    def set_mode(self, mode: str) -> Line | None:
        """Change how room is made."""
        if mode == self.mode:
            return None
        return self.record(ModeChanged(mode=mode, state=self.fold.state), self.fold.turn)

    def set_policy(self, policy: str) -> Line | None:
        """Change the order in which things leave; raises `UnknownName`."""
        if policies.known_policy(policy) == self.policy:
            return None
        return self.record(PolicyChanged(policy=policy, state=self.fold.state), self.fold.turn)
