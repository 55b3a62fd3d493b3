"""Notes and memories: taken, proposed, decided by a person, and brought into prompts.

Sentences that sound like a rule or decision are offered, and kept where a person says so. Only
forms that leave no doubt are taken as settled. The rest is asked about, at most once a turn, and a
form that was asked about and not kept is not asked about again in the session. What is kept becomes
a note in the person's own words.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

import msgspec

from mindstone_tui.core import errors
from mindstone_tui.core.agent.context import TurnContext, recent_texts
from mindstone_tui.core.agent.memories import Memories, say_the_same, waiting_in
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.entries import Line, conversation, derived, provenance
from mindstone_tui.core.events import AnyEvent, CommandPrinted, Noticed
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.events.narrate_entry import surface_of
from mindstone_tui.core.features.rules import RulesFeature
from mindstone_tui.core.language.intent import is_for_a_task
from mindstone_tui.core.library.open_questions import check_mark, check_was_there, mark_in, mark_of
from mindstone_tui.core.memory import consolidation, files
from mindstone_tui.core.memory.proposals import Decision, ProposalDraft, ProposalState, diff
from mindstone_tui.core.recall.inject import queries
from mindstone_tui.core.session.features import EndedTurn, Feature, Happening, WrongUse, command
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.statements.recogniser import worth_asking_about
from mindstone_tui.core.text import one_line
from mindstone_tui.core.tools.base import Tool, ToolContext, ToolResult
from mindstone_tui.core.tools.history import (
    NoteArguments,
    RememberArguments,
    note_tool,
    remember_tool,
)
from mindstone_tui.core.transcript import Transcript

DECISIONS: Final[dict[str, Decision]] = {
    "approve": "approved",
    "approve!": "approved",
    "refuse": "refused",
    "undo": "undone",
}
WORTH_A_REVIEW: Final = 10
"""Messages of a person since the last review from which on one is made when they leave."""
LOOKED_BACK_AT: Final = 20_000
"""Tokens of history in a review that nobody asked for."""


class MemoryFeature(Feature):
    """What is worth keeping beyond the window and the session, by consent."""

    name = "memory"
    for_programs = True

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        agent = session.home.agent(session.key.agent)
        self.memories = Memories(self.context, agent, session.places, session.past)
        self.offers = Offers(self.context, self.memories)

    def tools(self) -> Sequence[Tool]:
        """Take a note, and propose to remember."""
        asks = self.context.permissions.asks
        return (note_tool(self._note), remember_tool(self._remember, self._diff, asks=asks))

    def standing(self) -> SystemPrompt:
        """What is always remembered, and the notes."""
        return SystemPrompt(*self.memories.head_sections())

    def heard(self, line: Line, text: str) -> Sequence[Line]:
        """Let go of what is corrected, propose what is asked to be remembered; else offer to keep
        what sounds settled."""
        if self.session.opening.channel == "delegate":
            return ()  # a program's words, whoever they sound like
        self.offers.lapse(line)
        gone = self._let_go(line, text)
        if proposed := self.memories.propose_said(line, text):
            return [*gone, *proposed]
        return [*gone, *self.offers.offer(line, text)]

    def _let_go(self, line: Line, text: str) -> Sequence[Line]:
        written = self.memories.let_go(line, text)
        if written:
            self.session.read_anew()
        return written

    async def bring(self, text: str, share: int, taken: int) -> derived.MemoryDigested | None:
        """The memories that bear on a message; none while recall is off."""
        recall = self.session.recall
        if not recall.on:
            return None
        room = min(self.context.settings.memory.digest_tokens, share // 3)
        for query in queries(text, recent_texts(self.context.window.fold)):
            likeness = await recall.likeness(query)
            found = self.memories.digest(likeness, room) if likeness else None
            if found is not None:
                return found
        return None

    async def after_turn(self, turn: EndedTurn) -> Sequence[AnyEvent]:
        """Let go of what was corrected meanwhile, count the memories that the answer leaned on."""
        told: list[AnyEvent] = []
        for line in turn.lines:
            if isinstance(line.entry, conversation.UserMessage):
                told += announcements(*self._let_go(line, line.entry.text))
        digested = (
            each.entry for each in turn.lines if isinstance(each.entry, derived.MemoryDigested)
        )
        if turn.answer and (found := next(digested, None)) is not None:
            with contextlib.suppress(errors.ContinuityError, errors.EntryNotSaved):
                self.memories.note_use(found, turn.question, turn.answer)
        return told

    def forget(self) -> None:
        """Read notes, proposals and offers anew."""
        self.memories.forget()
        self.offers.forget()

    async def look_back(self) -> list[Line]:
        """Propose what history since the last time has that should last; asks no model.

        What was proposed, as it stands in history.
        """
        if not self.context.settings.memory.propose:
            return []
        before = self.context.transcript.head.seq
        since = reviewed_through(self.context.transcript)
        async for _ in self.memories.consolidate(since, budget=LOOKED_BACK_AT):
            pass
        made = [one.seq for one in self.memories.waiting if one.seq > before]
        with self.context.transcript.history() as history:
            return [history.line(seq) for seq in made]

    def _waiting_elsewhere(self) -> dict[str, list[ProposalState]]:
        """What waits in the agent's other sessions; reads the end of each, so off the loop."""
        own, agent = self.session.key, self.memories.agent
        others = [one for one in self.session.home.sessions() if one.key.agent == own.agent]
        found = {str(one.key): waiting_in(agent, one) for one in others if one.key != own}
        return {key: waiting for key, waiting in sorted(found.items()) if waiting}

    async def _note(self, arguments: NoteArguments, context: ToolContext) -> ToolResult:
        """Write a note into the session's own history."""
        try:
            self.memories.take_note(arguments.section, arguments.text, arguments.importance)
        except errors.ContinuityError as error:
            raise errors.ToolError(error.what, error.remedy) from error
        return ToolResult(text="Noted.", finding=f"note in {arguments.section}")

    async def _remember(self, arguments: RememberArguments, context: ToolContext) -> ToolResult:
        """Propose a memory, and store it where a person agreed.

        Agreeing to this call, with its diff in front of them, is a person's agreement. Where
        nobody can be asked, the proposal waits for one.
        """
        draft, sources = self._drafted(arguments)
        try:
            line, made = self.memories.propose(draft, sources, by="model")
            if self.context.permissions.asks:
                self.memories.decide(made.entry.proposal, "approved", by="person")
                return ToolResult(text="Remembered.", finding=f"remembered: {arguments.title}")
        except errors.ContinuityError as error:
            raise errors.ToolError(error.what, error.remedy) from error
        for event in announcements(line):
            self.context.tell(event)
        text = f"Proposed as {made.entry.proposal}; a person decides with /memory."
        return ToolResult(text=text, finding=f"proposed: {arguments.title}")

    def _diff(self, arguments: RememberArguments) -> str:
        """What remembering would change, with what to be careful about before it."""
        draft, sources = self._drafted(arguments)
        try:
            made = self.memories.preview(draft, sources)
        except errors.ContinuityError as error:
            raise errors.ToolError(error.what, error.remedy) from error
        caution = f"CAUTION: this holds {', '.join(made.cautions)}\n" if made.cautions else ""
        return f"{caution}{made.diff}"

    def _drafted(self, arguments: RememberArguments) -> tuple[ProposalDraft, tuple[int, ...]]:
        try:
            source = self.session.sources.refer(arguments.source)
        except errors.NoSuchEntry as error:
            raise errors.ToolError(error.what, "Name the entry it comes from, as #42.") from None
        if provenance.is_imported(source):
            raise errors.ToolError(
                f"#{source.seq} was imported from another program: nothing is remembered from it.",
                "If it should be, ask the person to say so here, and name that message.",
            )
        draft = ProposalDraft(kind=arguments.kind, name=arguments.title, text=arguments.text)
        return draft, (source.seq,)

    @command("keep", usage="[yes | no [WHY]]", words=("yes", "no"))
    async def keep(self, argument: str) -> AsyncIterator[Happening]:
        """Keep what was just offered: a rule, a decision, something to remember. Or let it go.

        What is kept stands in every prompt of this session, in your words, or until the task is
        done for which it was said; a memory is kept for all. What is not kept is not asked about
        again in the same form.
        """
        word, _, rest = argument.partition(" ")
        keep, (mark, why) = word in ("", "yes"), mark_in(rest)
        if word not in ("", "yes", "no") or (keep and why):
            raise WrongUse(f"/keep does not know `{argument}`.")
        offered = self.offers.named(mark) if mark else self._shown()
        if offered is None and (proposed := self._just_proposed()) is not None:
            name, words = proposed.entry.proposal, proposed.body
            self.memories.decide(name, "approved" if keep else "refused", by="person", why=why)
            said = "Remembered for every session" if keep else "Not remembered"
            yield CommandPrinted(text=f"{said}: {words}")
            return
        offer = self.offers.answer(offered, keep=keep, why=why)
        if keep and _is_session_rule(offer):
            words = " ".join(offer.text.split())
            yield self.session.features.get(RulesFeature).settle(words, "session", offer.source)
            return
        until = "until this task is done" if is_for_a_task(offer.text) else "of this session"
        said = f"Kept, in every prompt {until}" if keep else "Not kept"
        yield CommandPrinted(text=f"{said}: {offer.text}")

    def _shown(self) -> int | None:
        """The offer that a bare word means; None where it can only mean a memory.

        Raises where its writer has not seen what it would decide.
        """
        read, look = self.context.read_through, "`/waiting` lists it."
        if (here := self.offers.put_here()) is not None:
            check_was_there(here, read, "Something else was offered", look)
        elif (proposed := self._just_proposed()) is not None:
            check_was_there(proposed.seq, read, "Another memory was proposed", look)
        else:
            for offer in self.offers.waiting.values():
                where = surface_of(offer.channel)[1]
                raise errors.NotAllowed(f"What is offered was shown by {where}, not here.", look)
        return here

    def _just_proposed(self) -> ProposalState | None:
        """The memory that was proposed in the newest turn, if it waits and was shown here."""
        newest, here = self.memories.waiting[-1:], self.context.transcript
        with here.history() as history:
            lines = [history.line(one.seq) for one in newest]
        put = [one for one in lines if one.turn == here.last_turn]
        return (
            newest[0]
            if any(self.context.window.put_here(one.seq, one.channel) for one in put)
            else None
        )

    @command(
        "memory",
        usage="[show NAME | add TEXT | approve ID | edit ID TEXT | refuse ID [WHY] "
        "| undo ID | helped NAME]",
        words=("show", "add", "approve", "edit", "refuse", "undo", "helped"),
    )
    async def memory(self, argument: str) -> AsyncIterator[Happening]:
        """Show what is remembered and proposed; decide about a proposal, or undo one.

        Nothing is remembered until a person says so. `approve! ID` approves knowing that it holds
        something sensitive; `edit ID TEXT` approves it in your own words; `helped NAME` counts that
        a memory kept a mistake from happening again.
        """
        memories = self.memories
        verb, _, rest = argument.partition(" ")
        rest = rest.strip()
        if verb in DECISIONS and rest:
            decision, (name, _, why) = DECISIONS[verb], rest.partition(" ")
            if why and decision != "refused":
                raise WrongUse(f"A reason goes with a refusal, and `{verb}` is none.")
            knowingly = verb == "approve!"
            memories.decide(name, decision, by="person", knowingly=knowingly, why=why.strip())
            yield CommandPrinted(text=f"{name} is {decision}.")
        elif verb == "edit" and len(rest.split(None, 1)) == 2:
            proposal, text = rest.split(None, 1)
            memories.edit(proposal, text)
            yield CommandPrinted(text=f"{proposal} is edited and remembered.")
        elif verb == "helped" and rest:
            name = memories.note_prevented(rest)
            yield CommandPrinted(text=f"Counted for {name}.")
        elif verb == "add" and (known := _proposals_of(memories, rest)):
            name = known[0].entry.proposal
            text = f"Proposed already, as {name}.\n/memory approve {name}"
            yield CommandPrinted(text=text, data={"proposal": name})
        elif verb == "add" and rest:
            line, made = memories.propose(
                ProposalDraft(kind="fact", name=rest[:60], text=rest),
                # The proposal's own line is what the person said.
                (self.context.transcript.head.seq + 1,),
                by="person",
            )
            yield announcements(line)
            name = made.entry.proposal
            caution = f"CAUTION: this holds {', '.join(made.cautions)}\n" if made.cautions else ""
            text = f"Proposed as {name}:\n{caution}{made.diff}\n/memory approve {name}"
            yield CommandPrinted(text=text, data={"proposal": name})
        elif verb in ("", "list", "show"):
            elsewhere = {} if rest else await asyncio.to_thread(self._waiting_elsewhere)
            yield _shelf(memories, rest, elsewhere)
        elif verb in (*DECISIONS, "edit", "add", "helped"):
            raise WrongUse(f"`{argument}` needs to know what.")
        else:
            raise WrongUse(f"/memory does not know `{argument}`.")


def _proposals_of(memories: Memories, text: str) -> list[ProposalState]:
    """Those that wait and say this already."""
    return [one for one in memories.waiting if say_the_same(one.body, text)]


def _shelf(
    memories: Memories, name: str, elsewhere: Mapping[str, Sequence[ProposalState]]
) -> CommandPrinted:
    shelf = memories.shelf()
    asked = name.removeprefix("memory/").casefold()
    chosen = [one for one in shelf.kept if asked in f"{one.memory.name}\n{one.file}".casefold()]
    rows = [
        f"{one.file:32} {one.memory.body if name else one.memory.name}{_doubt(one.memory)}"
        for one in chosen
    ]
    proposed = _each_once(shelf, {"": memories.waiting, **elsewhere})
    parts = ["\n".join(rows) or "Nothing is remembered."]
    if (waiting := [_proposed(one) for key, one in proposed if not key]) and not name:
        parts.append("Proposed, to be decided by you:\n" + "\n".join(waiting))
    if others := [_proposed(one, key) for key, one in proposed if key]:
        parts.append("Proposed in other sessions:\n" + "\n".join(others))
    return CommandPrinted(
        text="\n\n".join(parts),
        data={
            "memories": [msgspec.to_builtins(one.memory) for one in chosen],
            "proposals": [msgspec.to_builtins(one.entry) for key, one in proposed if not key],
            "elsewhere": [
                {"session": key, **msgspec.to_builtins(one.entry)} for key, one in proposed if key
            ],
        },
    )


def _doubt(memory: files.Memory) -> str:
    session, _, line = memory.doubted.rpartition("#")
    return f" (corrected in line {line} of {session}: decide)" if line else ""


def _each_once(
    shelf: files.Shelf, waiting: Mapping[str, Sequence[ProposalState]]
) -> list[tuple[str, ProposalState]]:
    """Proposals with their sessions, but those that say what is remembered, or another one says."""
    said = [one.memory.body for one in shelf.live]
    found: list[tuple[str, ProposalState]] = []
    for key, one in ((key, one) for key, each in waiting.items() for one in each):
        words = f"{one.entry.path}\n{one.body}" if one.entry.before else one.body
        # One that changes a memory says so itself; a fork proposes the same change.
        same = str.__eq__ if one.entry.before else consolidation.say_the_same
        if not any(same(words, known) for known in said):
            said.append(words)
            found.append((key, one))
    return found


def _proposed(one: ProposalState, session: str = "") -> str:
    """A proposal with its reason, where it comes from, and what it would change."""
    entry = one.entry
    lines = ", ".join(f"line {seq}" for seq in entry.sources) or f"line {one.seq}"
    source = f"from {session}, {lines}" if session else f"from {lines}"
    how = f"\nmindstone memory -s {session} approve {entry.proposal}" if session else ""
    why = entry.why or "no reason given"
    return f"{entry.proposal}: {entry.path} ({why}; {source})\n{diff(entry)}{how}"


def reviewed_through(transcript: Transcript) -> int:
    """How far history was reviewed already; -1 when it never was."""
    with transcript.history() as history:
        for line in history.newest(["consolidated"], history.head.seq + 1):
            if isinstance(line.entry, derived.Consolidated):
                return line.entry.through
    return -1


def is_worth_a_review(transcript: Transcript) -> bool:
    """Whether so much was said since the last review that one may find something."""
    since = reviewed_through(transcript)
    with transcript.history() as history:
        said = history.newest(["user_message"], history.head.seq - since)
        return sum(1 for _ in islice(said, WORTH_A_REVIEW)) == WORTH_A_REVIEW


class OfferMade(msgspec.Struct, frozen=True):
    """What was offered, and what the person said to it, if anything."""

    entry: derived.StandingInstructionOffered
    since: str
    channel: str
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
                case derived.StandingInstructionOffered(form=form) as entry if form:
                    found[line.seq] = OfferMade(entry, line.ts, line.channel)
                case derived.OfferAnswered(offer=seq, keep=keep) if seq in found:
                    found[seq] = msgspec.structs.replace(found[seq], keep=keep)
        return found

    def forget(self) -> None:
        """Another surface wrote: read them anew when they are needed."""
        self.__dict__.pop("made", None)

    @property
    def waiting(self) -> dict[int, OfferMade]:
        """What nobody has answered, on whichever surface it was offered."""
        return {seq: one for seq, one in self.made.items() if one.keep is None and one.entry.waits}

    def put_here(self) -> int | None:
        """The newest of them that was shown here."""
        shown = self._context.window.put_here
        here = [seq for seq, one in self.waiting.items() if shown(seq, one.channel)]
        return here[-1] if here else None

    def named(self, mark: str) -> int:
        """The one that a mark names; raises where that waits no longer."""
        named = {mark_of(str(seq), one.since): seq for seq, one in self.waiting.items()}
        now = mark if mark in named else next(iter(named), "none")
        check_mark(mark, now, "What is offered", "`mindstone waiting` lists it")
        return named[mark]

    def lapse(self, said: Line) -> None:
        """Whoever goes on where something was offered, without a word about it, lets it go."""
        while (seq := self.put_here()) is not None:
            self._record(seq, derived.OfferAnswered(offer=seq, keep=False), said.turn)
            words = one_line(self.made[seq].entry.text, 160)
            self._context.tell(Noticed(message=f"Not kept, as you went on: {words}"))

    def offer(self, asked: Line, text: str) -> Sequence[Line]:
        """Offer to keep a sentence of a message, if one sounds settled and may be asked about."""
        not_kept = {one.entry.form for one in self.made.values() if not one.keep}
        found = worth_asking_about(text, not_kept)
        if found is None or _said_before(self._context.window.fold, found.text, asked.seq):
            return ()
        entry = derived.StandingInstructionOffered(
            text=found.text, source=asked.seq, of_kind=found.kind, form=found.form, waits=True
        )
        line = self._context.window.record(entry, asked.turn)
        self.made[line.seq] = OfferMade(entry, line.ts, line.channel)
        return (line,)

    def answer(
        self, seq: int | None, *, keep: bool, why: str = ""
    ) -> derived.StandingInstructionOffered:
        """Keep what was offered, or not; what that was. A rule is left to whoever sets it."""
        if seq is None:
            raise errors.ContinuityError(
                "Nothing was offered here since the last message.",
                "`/waiting` lists what waits, `/rules` what was kept.",
            )
        entry = self.made[seq].entry
        hand = self._context.by_hand(self.made[seq].since)
        self._context.hand = (hand["how"], hand["seen"])  # of the rule that it sets, too
        words = " ".join(entry.text.split())
        not_kept = "" if keep else words
        answered = derived.OfferAnswered(offer=seq, keep=keep, words=not_kept, why=why, **hand)
        self._record(seq, answered, self._context.transcript.last_turn)
        if keep and not _is_session_rule(entry):
            filed = "decisions" if entry.of_kind == "decision" else "constraints"
            note = derived.NoteTaken(category=filed, text=words, importance="high", by="person")
            self._memories.keep_note(note)
        return entry

    def _record(self, seq: int, answered: derived.OfferAnswered, turn: int) -> None:
        self._context.window.record(answered, turn)
        self._memories.past.forget((), everything=True)
        self.made[seq] = msgspec.structs.replace(self.made[seq], keep=answered.keep)


def _is_session_rule(offer: derived.StandingInstructionOffered) -> bool:
    """Whether what is kept binds the session; what was said for a task is a note that ends so."""
    return offer.of_kind == "rule" and not is_for_a_task(offer.text)


def _said_before(fold: Fold, words: str, asked: int) -> bool:
    """Whether an earlier message of the window says this word for word already."""
    return any(
        words in line.entry.text
        for line in fold.lines.values()
        if isinstance(line.entry, conversation.UserMessage) and line.seq < asked
    )
