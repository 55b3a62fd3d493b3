"""Notes and memories as a session uses them: taken, proposed, and decided by a person."""

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import msgspec

from mindstone_tui.core import errors, paths, patterns
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.context import summary_call, window_view
from mindstone_tui.core.context.extract import folded
from mindstone_tui.core.entries import Entry, Line, derived, standings, window
from mindstone_tui.core.events.narrate_entry import decided
from mindstone_tui.core.language.replacement import could_replace, meant_by, replaces
from mindstone_tui.core.language.sentences import parts_of
from mindstone_tui.core.language.words import plain_words, stopwords, tokens_of
from mindstone_tui.core.memory import consolidation, files, notes, proposals
from mindstone_tui.core.memory.notes import Note
from mindstone_tui.core.memory.proposals import (
    Decision,
    Proposal,
    ProposalDraft,
    ProposalState,
    credit,
)
from mindstone_tui.core.rules.book import retired_in
from mindstone_tui.core.statements.recogniser import recognise
from mindstone_tui.core.statements.statement import Utterance
from mindstone_tui.core.text import as_data, fresh_nonce, one_line
from mindstone_tui.core.transcript import History, Transcript, reader

LOOKED_BACK: Final = 20_000
"""Lines from the end of history in which measures, notes and open proposals are looked for."""
_KEPT: Final = (
    *(window.HealthMeasured, derived.SummaryJudged, derived.NoteTaken, derived.StatementSuperseded),
    *(derived.MemoryProposed, derived.MemoryDecided, derived.StandingInstructionOffered),
    *(derived.OfferAnswered, derived.TaskStarted, derived.TaskDone, derived.TodoChanged),
    *(derived.PlanChanged, window.AlertRaised, window.Rewound, window.Restored),
)
"""Kinds of lines that measures, notes, proposals and the task are made from."""


class RecentHistory:
    """What measures, notes, proposals and the task are made from, read when first needed."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    @cached_property
    def lines(self) -> list[Line]:
        """Lines of those kinds from the end of history that hold, newest first.

        A rewind takes back no memory that a person decided about, so its proposal holds as well.
        """
        held = {
            line.seq for line in self._read if proposals.holds(line, self._rewinds, self._decisions)
        }
        found = (line.entry for line in self._read if line.seq in held)
        decided = {entry.proposal for entry in found if isinstance(entry, derived.MemoryDecided)}
        return [
            line
            for line in self._read
            if line.seq in held
            or (isinstance(line.entry, derived.MemoryProposed) and line.entry.proposal in decided)
        ]

    @property
    def was_rewound(self) -> bool:
        """Whether what the newest prompts said may have been taken back since."""
        return bool(self._rewinds)

    @cached_property
    def _decisions(self) -> frozenset[int]:
        decided = (line for line in self._read if isinstance(line.entry, derived.MemoryDecided))
        return frozenset(line.seq for line in decided)

    @cached_property
    def _rewinds(self) -> standings.Rewinds:
        return standings.Rewinds(self._read)

    @cached_property
    def _read(self) -> list[Line]:
        with self._transcript.history() as history:
            kinds = [str(kind.__struct_config__.tag) for kind in _KEPT]
            found = list(history.newest(kinds, LOOKED_BACK))
            if any(isinstance(line.entry, window.Rewound) for line in found):
                # What was rewound may hide something older, and no prompt can be asked for it.
                found = list(history.newest(kinds, history.head.seq + 1))
            return found

    def forget(self, lines: Iterable[Line], *, everything: bool = False) -> bool:
        """Read anew if another surface wrote lines of these kinds; whether it did."""
        changed = everything or any(isinstance(line.entry, _KEPT) for line in lines)
        if changed:
            for known in ("lines", "_rewinds", "_decisions", "_read"):
                self.__dict__.pop(known, None)
        return changed


def waiting_in(agent: paths.AgentPlaces, places: paths.SessionPlaces) -> list[ProposalState]:
    """Proposals of a session on disk that wait: nobody has decided about them, one still can, and
    no rewind took them back."""
    kinds = ("memory_proposed", "memory_decided", "statement_superseded", "rewound", "restored")
    with contextlib.suppress(errors.MindstoneError), History(places) as history:
        return proposals.waiting_among(agent, list(history.newest(kinds, LOOKED_BACK)))
    return []


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """A moment as files and entries write it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


_TO_REMEMBER: Final = patterns.pattern_of(
    r"(?<!\W)\W*(?:(?:please|and|so|also|always|just) ){0,8}"
    r"(?:remember|memori[sz]e|keep in mind|note|don['’]t forget|make a note)\b"
    r"(?: that| of| this)?[\s,:]*",
    re.IGNORECASE,
)


def say_the_same(*texts: str) -> bool:
    """Whether two texts say one thing, though one of them asks for it to be remembered."""
    return consolidation.say_the_same(*(_TO_REMEMBER.sub("", one) for one in texts))


_NAME_LENGTH: Final = 60
_ASKED_FOR: Final = "you asked for it to be remembered"
DIGEST: Final = "From approved memory, for this message:"
_ECHOED: Final = 2
"""Telling words of a memory, not in the question, that make an answer one that leaned on it."""


def telling_words(text: str) -> set[str]:
    """Words that are long enough to say something."""
    return set(plain_words(text, shortest=5))


class Memories(msgspec.Struct, dict=True, eq=False):
    """What one session notes, and what it may ask a person to remember."""

    _context: TurnContext
    agent: paths.AgentPlaces
    places: paths.SessionPlaces
    past: RecentHistory
    clock: Callable[[], datetime] = now
    cited: set[str] = set()
    """Memories that answers leaned on since the log was written."""
    prevented: set[str] = set()

    @cached_property
    def notes(self) -> tuple[notes.Note, ...]:
        """The notes of the task, oldest first."""
        return notes.recent_notes(self.past.lines)

    @cached_property
    def proposals(self) -> dict[str, ProposalState]:
        """What was proposed lately, by name."""
        return proposals.proposals_of(reversed(self.past.lines))

    def forget(self) -> None:
        """Another surface wrote: what is known from history is read anew when it is needed."""
        for name in ("notes", "proposals"):
            self.__dict__.pop(name, None)
        self.cited.clear()
        self.prevented.clear()
        self.shelf()
        if self.places.notes.exists():  # it is read by people, and tells what holds
            notes.write(self.places, self.notes)

    @property
    def waiting(self) -> tuple[ProposalState, ...]:
        """Proposals that nobody has decided about, and that can be decided."""
        return tuple(proposals.waiting(self.agent, self.proposals.values(), self.past.lines))

    def take_note(
        self, category: str, text: str, importance: str = "normal", *, by: str = "model"
    ) -> Line:
        """Write a note that stands alone, and bring the notes file up to date."""
        return self.keep_note(notes.take(category, text, importance, by=by))

    def keep_note(self, note: derived.NoteTaken) -> Line:
        """Write a note down; one that says the same as an older one takes its place."""
        line = self._write(note)
        known = {note.text: note for note in self.notes}
        taken = notes.notes_of([line])
        self.notes = (*(n for t, n in known.items() if t != taken[0].text), *taken)
        notes.write(self.places, self.notes)
        return line

    def let_go(self, line: Line, text: str) -> list[Line]:
        """Note what a person's words make hold no more, among notes, proposals and memories.

        A memory is the person's: it is marked, and its change is proposed. What was written; said
        once more, the same words change nothing.
        """
        kept = files.read_shelf(self.agent).kept
        every = self.proposals.values()
        made = {one.entry.path for one in every if line.seq in one.entry.sources}
        waiting = [one for one in self.waiting if line.seq not in one.entry.sources]
        noted = [one for one in self.notes if one.seq < line.seq]
        known = [*(one.text for one in noted), *(one.body for one in waiting)]
        known += (one.memory.body for one in kept)
        if not known or not could_replace(text):
            return []
        gone = {known[at] for at in meant_by(text, known)}
        written = self._drop([one for one in noted if one.text in gone], line.seq)
        refused = [one for one in waiting if one.body in gone]
        by = f"{derived.BY_CORRECTION}{line.seq}"
        for one in refused:
            no = derived.MemoryDecided(proposal=one.entry.proposal, decision="refused", by=by)
            written.append(self._write(msgspec.structs.replace(no, words=one.body)))
        changed = {one.entry.path: one.body for one in refused if one.corrects}
        for file, memory in ((each.file, each.memory) for each in kept):
            old = changed.get(f"memory/{file}", memory.body)
            if old in gone and f"memory/{file}" not in made:
                said = next(
                    (part for part in parts_of(text) if replaces(part, old)), text[: notes.LONGEST]
                )
                stays = (row for row in old.split("\n") if not replaces(said, row))
                name, body = one_line(said, _NAME_LENGTH), "\n".join([*stays, said.strip()])
                draft = ProposalDraft(kind=memory.kind, name=name, text=body, file=file)
                with contextlib.suppress(errors.ContinuityError):
                    why = f"corrected in line {line.seq}"
                    written.append(self.propose(draft, (line.seq,), by=by, why=why)[0])
        return written

    def _drop(self, gone: Sequence[Note], by: int) -> list[Line]:
        """Let notes go, because of what a line says."""
        if gone:
            self.notes = tuple(one for one in self.notes if one not in gone)
            notes.write(self.places, self.notes)
        verdicts = (derived.StatementSuperseded(statement=one.seq, by=by) for one in gone)
        return [self._write(one) for one in verdicts]

    def shelf(self) -> files.Shelf:
        """The agent's memories; a waiting correction of this session marks the one it changes.

        Whoever else marked it before, or took that back, does not decide what holds here.
        """
        own = f"{self.places.key}#"
        waiting = [one.entry for one in self.waiting if one.corrects]
        doubts = {one.path: f"{own}{one.sources[-1]}" for one in waiting}
        shelf = files.read_shelf(self.agent)
        for one in shelf.memories:
            mark, known = doubts.get(f"memory/{one.file}", ""), one.memory.doubted
            if mark != known and (not known or known.startswith(own)):
                proposals.doubt(self.agent, one.file, mark)
                shelf = files.read_shelf(self.agent)
        return shelf

    def head_sections(self) -> tuple[tuple[window.Section, ...], tuple[str, ...]]:
        """What memory and notes add to the head of the prompt, and what does not fit."""
        shelf, context = self.shelf(), self._context
        settings, share = context.settings.memory, context.share("system_prompt", context.target)
        rooms = msgspec.structs.replace(
            settings,
            notes_tokens=min(settings.notes_tokens, share),
            digest_tokens=min(settings.digest_tokens, share // 2),
        )
        # What became a memory is told as one, and changes with it, in whichever session.
        kept = [one.body for one in self.proposals.values() if one.decision == "approved"]
        told = tuple(one for one in self.notes if not any(one.text in body for body in kept))
        return files.head_sections(shelf, told, rooms, context.count)

    def digest(self, likeness: Mapping[str, float], room: int) -> derived.MemoryDigested | None:
        """The memories that bear on a turn, as the block for the end of its prompts."""
        nonce = fresh_nonce()
        count = self._context.count
        inside = room - count(as_data("", origin="memory", nonce=nonce)) - count(DIGEST)
        found = files.digest(self.shelf(), likeness, max(inside, 0), count, self.clock())
        if not found.text:
            return None
        text = f"{DIGEST}\n{as_data(found.text, origin='memory', nonce=nonce)}"
        return derived.MemoryDigested(
            text=text, files=found.files, left_out=found.left_out, tokens=count(text), share=room
        )

    def note_use(
        self, digested: derived.MemoryDigested, question: str, answer: str
    ) -> tuple[str, ...]:
        """Count the memories that an answer leaned on; their words are not touched."""
        used = []
        asked = telling_words(question)
        said = telling_words(answer)
        for one in files.read_shelf(self.agent).live:
            shared = (telling_words(f"{one.memory.name} {one.memory.body}") & said) - asked
            if one.file in digested.files and (one.file in answer or len(shared) >= _ECHOED):
                credit(self.agent, one.file, now=stamp(self.clock()))
                used.append(one.file)
        self.cited.update(used)
        return tuple(used)

    def note_prevented(self, name: str) -> str:
        """A person says that a memory kept a mistake from happening again."""
        live = files.read_shelf(self.agent).live
        known = {one.memory.name.casefold(): one for one in live} | {one.file: one for one in live}
        if (found := known.get(name.casefold())) is None:
            raise errors.ContinuityError(f"There is no memory {name}.", "/memory lists them.")
        credit(self.agent, found.file, now=stamp(self.clock()), prevented=True)
        self.prevented.add(found.file)
        return found.memory.name

    def preview(self, draft: ProposalDraft, sources: Sequence[int]) -> Proposal:
        """What a proposal would change, without proposing it."""
        return self._made(draft, sources, by="model", why="")

    def _made(self, draft: ProposalDraft, sources: Sequence[int], *, by: str, why: str) -> Proposal:
        return proposals.propose(
            self.agent,
            draft,
            proposal=self._next_name,
            sources=sources,
            session=str(self.places.key),
            by=by,
            created=self._moment() if by == "model" else stamp(self.clock()),
            why=why,
            redactor=self._context.redactor,
        )

    @property
    def _next_name(self) -> str:
        return f"m{self._context.transcript.head.seq + 1}"

    def propose(
        self, draft: ProposalDraft, sources: Sequence[int], *, by: str, why: str = ""
    ) -> tuple[Line, Proposal]:
        """Propose a memory; it is on disk as a proposal, and nowhere else."""
        if by == "model" and not self._context.settings.memory.propose:
            raise errors.ContinuityError(
                "Models may not propose memories here.", "memory.propose switches it on."
            )
        made = self._made(draft, sources, by=by, why=why)
        return self._put(made), made

    def _put(self, made: Proposal) -> Line:
        """Write a proposal down and wait for a decision about it."""
        line = self._write(made.entry)
        self.proposals[made.entry.proposal] = ProposalState(
            entry=made.entry, seq=line.seq, since=line.ts
        )
        return line

    def propose_said(self, asked: Line, text: str) -> list[Line]:
        """Note what a person asks to be remembered, and propose it, in their words.

        What is remembered or proposed already is not proposed again.
        """
        lines: list[Line] = []
        for one in recognise(Utterance(speaker="user", text=text, line=asked.seq)):
            if one.kind != "memory":
                continue
            words = " ".join(one.words.split())
            name = _TO_REMEMBER.sub("", words).strip(" .!:") or words
            if stopwords().issuperset(tokens_of(name.lower())):
                continue  # "remember it" says nothing by itself
            with contextlib.suppress(errors.ToolError):
                lines.append(self.take_note("learnings", name, by="person"))
            if not self.knows(words):
                draft = ProposalDraft(kind="fact", name=one_line(name, _NAME_LENGTH), text=words)
                with contextlib.suppress(errors.ContinuityError):
                    lines.append(self.propose(draft, (asked.seq,), by="person", why=_ASKED_FOR)[0])
        return lines

    def knows(self, text: str) -> bool:
        """Whether a memory says this, or a person was asked about it here, whatever they said."""
        remembered = (one.memory.body for one in files.read_shelf(self.agent).live)
        answers = (line.entry for line in self.past.lines)
        not_kept = (one.words for one in answers if isinstance(one, derived.OfferAnswered))
        known = (*remembered, *(one.body for one in self.proposals.values()), *not_kept)
        return any(say_the_same(text, one) for one in known)

    def _moment(self) -> str:
        """When the question of this turn was asked.

        Not the present second: what a person is shown, and agrees to a while later, must be what is
        written then.
        """
        fold = self._context.window.fold
        asked = (line.ts for line in fold.lines.values() if line.turn == fold.turn)
        began = next(asked, "")
        return f"{began[:19]}Z" if began else stamp(self.clock())

    def decide(
        self,
        proposal: str,
        decision: Decision,
        *,
        by: str,
        after: str = "",
        knowingly: bool = False,
        why: str = "",
    ) -> Line:
        """Record a person's word, then do what it says."""
        standing = self.proposals.get(proposal)
        if standing is None:
            raise errors.ContinuityError(
                f"There is no proposal {proposal}.", "/memory lists what is proposed."
            )
        self._check_undecided(standing, decision)
        entry = proposals.decide(
            self.agent, standing, decision, by=by, after=after, knowingly=knowingly
        )
        hand = self._context.by_hand(standing.since)
        known = msgspec.structs.replace(standing, decision=decision, after=entry.after)
        words = (standing if decision == "undone" else known).body
        old = standing.body if decision == "edited" else ""
        line = self._write(
            msgspec.structs.replace(entry, words=words, instead=old, why=why, **hand)
        )
        self._check_undecided(standing, decision, before=line.seq)
        proposals.apply(self.agent, standing.entry, entry)
        self.proposals[proposal] = known
        self.shelf()
        if decision != "approved":
            asked = [n for n in self.notes if (n.by, n.category) == ("person", "learnings")]
            self._drop([note for note in asked if note.text in standing.body], line.seq)
        return line

    def _check_undecided(
        self, standing: ProposalState, decision: Decision, before: int | None = None
    ) -> None:
        """Raise where somebody decided elsewhere meanwhile: that came first, and counts."""
        if decision == "undone":
            return
        with self._context.transcript.history() as history:
            newest = history.newest(("memory_decided",), history.head.seq - standing.seq + 1)
            earlier = [line for line in newest if before is None or line.seq < before]
        for line in earlier:
            match line.entry:
                case derived.MemoryDecided(proposal=name, by=proposals.PERSON) as given:
                    if name == standing.entry.proposal:
                        where = decided(line.channel, given.how, given.seen)
                        raise errors.ContinuityError(
                            f"The proposal {name} was already {given.decision}, {where}.",
                            "Nothing was changed by this.",
                        )

    async def consolidate(
        self, since: int, ask: summary_call.Ask | None = None, budget: int = consolidation.BUDGET
    ) -> AsyncIterator[consolidation.Review]:
        """Review history after `since`; each piece is recorded before the next is read."""
        shelf = files.read_shelf(self.agent)
        corrected = [one.entry.sources for one in self.proposals.values() if one.corrects]
        with self._context.transcript.history() as history:
            read = window_view.reader(history)
            head, judged = history.head.seq, reader.standings_of(history)
            until, rewinds = retired_in(history), judged.rewinds
            reviewer = consolidation.Reviewer(
                count=self._context.count, judged=judged, ask=ask, budget=budget
            )

            def counting(first: int) -> Iterator[Line]:
                # What a fork took along is reviewed where it was said.
                lines = (line for line in read(first, head) if not line.parent)
                own = (line for line in lines if line.seq not in rewinds.there)
                return (line for line in own if rewinds.of(line) is None)

            async for piece in consolidation.review(counting, since, head, shelf, reviewer):
                made = [
                    self.propose(
                        ProposalDraft(kind=one.kind, name=one.name, text=one.text),
                        one.sources,
                        by=one.by,
                        why="found while looking back",
                    )[1].entry.proposal
                    for one in piece.findings
                    if not self.knows(one.text)
                    and not until.get(folded(one.text))
                    and not (one.kind == "lesson" and one.sources[-1:] in corrected)
                ]
                self._write(
                    derived.Consolidated(
                        through=piece.through, proposals=tuple(made), tokens=piece.tokens
                    )
                )
                yield piece

    def propose_merges(self) -> list[Line]:
        """Propose one file for memories that say the same, and a shorter one for what repeats."""
        waiting = {one.entry.path for one in self.waiting}
        lines = []
        for merge in consolidation.merges(files.read_shelf(self.agent), self._context.count):
            path = f"memory/{merge.files[0]}"
            if path in waiting:
                continue
            made = proposals.propose_text(
                self.agent,
                path,
                merge.text,
                proposal=self._next_name,
                sources=files.parse(merge.text).sources,
                by="consolidation",
                why=merge.why,
            )
            lines.append(self._put(made))
        return lines

    def edit(self, proposal: str, text: str) -> Line:
        """Approve a proposal with other words; what else is known about it stays."""
        standing = self.proposals.get(proposal)
        after = standing.entry.after if standing is not None else ""
        if after and standing is not None and standing.entry.path.startswith("memory/"):
            old = files.parse(after)
            quoted = " " in old.name and old.name.rstrip("…").casefold() in old.body.casefold()
            name = one_line(text, _NAME_LENGTH) if quoted else old.name
            text = files.render(msgspec.structs.replace(old, name=name, body=text))
        return self.decide(proposal, "edited", by="person", after=text)

    def _write(self, entry: Entry) -> Line:
        return self._context.window.record(entry, self._context.transcript.last_turn)
