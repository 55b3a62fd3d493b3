"""Recall: what is brought back for a message, what the model may look up, and `/recall`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final

import msgspec

from mindstone_tui.core import entries, errors, patterns, tokens
from mindstone_tui.core.agent.context import vacancy_beside
from mindstone_tui.core.entries import conversation, derived, standings
from mindstone_tui.core.events import AnyEvent, CommandPrinted, Noticed
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.language.replacement import asserted, meant_by, replaced_in, says_more
from mindstone_tui.core.language.sentences import parts_of
from mindstone_tui.core.library.at_action import AtAction
from mindstone_tui.core.recall import inject, passages, ranking
from mindstone_tui.core.session.features import EndedTurn, Feature, WrongUse, command
from mindstone_tui.core.session.recall import Verdicts, may_correct
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import one_line, plural
from mindstone_tui.core.tools.base import Tool, ToolContext, ToolResult, bounded
from mindstone_tui.core.tools.history import (
    ANSWER,
    NEAREST,
    NO_MATCH,
    ReadEntryArguments,
    RecallArguments,
    read_entry_tool,
    recall_tool,
)
from mindstone_tui.core.transcript.reader import rewinds_of

_DELIMITERS: Final = 48
"""Tokens around recalled passages that say whose words they are."""

_SHOWN: Final = 8
_READ_FOR_VERDICTS: Final = 2_000
"""The newest lines, among which a verdict may not be written down yet."""
_JUDGED_AT_ONCE: Final = 8
"""Corrections that are looked into after one turn, the newest first; more wait for the next."""
_SOURCE: Final = patterns.pattern_of(r"(?:[0-9A-HJKMNP-TV-Z]{26}|[\w/.-]+\.md)(?: \S+)?")
"""A line's id or a file's name, and whose it is."""


_NOT_ASKED: Final = (
    "The message asks for nothing that history could answer, or all that it could is in the window."
)


class RecallFeature(Feature):
    """Finding what was said before."""

    name = "recall"
    failed = ""
    """What went wrong with it by the end of the newest turn."""

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self._at_action = AtAction(
            session.home, session.opening.environ, self.context.settings.recall.exclude
        )
        self._looked = False
        self._heard = 0
        self._unjudged: dict[int, int] = {}
        """Corrections that nobody looked into, each with its turn."""
        if self.context.settings.recall.at_action:
            self.context.hooks.memory = self._known_of

    async def before_turn(self) -> Sequence[str]:
        """Look again which sessions the project has, once something is done in this turn."""
        self._looked = False
        return ()

    def _known_of(self, call: entries.ToolCall, result: ToolResult | None) -> str:
        """What other sessions of the project know of a call; whatever fails, the call goes on."""
        with contextlib.suppress(errors.MindstoneError, OSError):
            if not self._looked:
                self._at_action.get_ready(self.session.cwd, read=False)
                self._looked = True
            if result is None:
                return self._at_action.before(call, self.session.cwd, self.session.key)
            returned = conversation.ToolReturned(
                call=call.id, name=call.name, text=result.text, status=result.status
            )
            return self._at_action.after(call, returned, self.session.cwd, self.session.key)
        return ""

    async def close(self) -> None:
        """Give the library back."""
        self._at_action.close()

    def tools(self) -> Sequence[Tool]:
        """Search history, and read an entry of it whole."""
        return (recall_tool(self._recall), read_entry_tool(self._read_entry))

    async def bring(self, text: str, share: int, taken: int) -> derived.RecallInjected | None:
        """The passages worth bringing back for a message; None when nothing is good enough."""
        room = max(int(share / tokens.UNCALIBRATED) - _DELIMITERS - taken, 0)
        vacancy = vacancy_beside(self.context.window.fold, room, self.context.count)
        # What was noted of a message is no answer to it.
        after = self.context.transcript.head.seq + 1
        turn = range(max((one.seq for one in vacancy.said), default=after), after)
        history = self.session.history
        restored = [*history.newest(("files_restored",), history.head.seq + 1)]
        undone = standings.Undone(reversed(restored))
        said = [one for one in vacancy.said if not undone.whole(one.turn)]
        vacancy = msgspec.structs.replace(vacancy, shown={*vacancy.shown, *turn}, said=said)
        return await self.session.recall.gather(text, vacancy)

    async def after_turn(self, turn: EndedTurn) -> Sequence[AnyEvent]:
        """Index the exchange, learn which recalled passages were used."""
        recall, history = self.session.recall, self.session.history
        with contextlib.suppress(errors.RecallError):
            await asyncio.to_thread(recall.keep_up)
        recalled = next(
            (each for each in turn.lines if isinstance(each.entry, derived.RecallInjected)), None
        )
        injected = history.whole(recalled).entry if recalled is not None else None
        if isinstance(injected, derived.RecallInjected) and turn.answer:
            with contextlib.suppress(errors.RecallError):
                used = await asyncio.to_thread(
                    recall.note_use, injected, injected.query, turn.answer
                )
                if used.used:
                    self.context.window.record(used)
        if recalled is None and recall.silent:
            self.context.window.record(derived.RecallUsed(silent=recall.silent))
        await self._look_again()
        judged = await self.judge()
        if news := recall.news():
            judged.append(Noticed(message=news, level="warning"))
        self.failed, recall.failure = recall.failure, ""
        if not self.failed:
            return judged
        return (*judged, Noticed(message=f"Recall does not work: {self.failed}", level="warning"))

    async def judge(self) -> list[AnyEvent]:
        """Write down what was corrected and by what, as far as nobody did: due when a turn has
        ended, when turns came back or went, and before anything is told of what holds."""
        with contextlib.suppress(errors.RecallError):
            await asyncio.to_thread(self.session.recall.keep_up)
        if verdicts := await self._verdicts():
            lines = [self.context.window.record(verdict) for verdict in verdicts]
            self.session.read_anew()
            return announcements(*lines)
        return []

    async def _verdicts(self) -> list[derived.StatementSuperseded]:
        """What holds no longer and nobody wrote down: a person said so, or a recall judged it."""
        recall, history = self.session.recall, self.session.history
        rewinds = rewinds_of(history)

        def said(kind: str) -> set[tuple[int, int]]:
            newest = history.newest((kind,), _READ_FOR_VERDICTS)
            return {pair for each in newest for pair in standings.superseded_in(each).items()}

        recalled = {
            (seq, by)
            for seq, by in said("recall_injected")
            if by > history.head.seq - _READ_FOR_VERDICTS
            and rewinds.of_place(by, history.line(by).turn) is None
        }
        # Another feature may have judged the same already: a note that was corrected is let go.
        recorded = said("statement_superseded")
        await self._hear({by for _, by in recorded})
        known = {by for _, by in recalled - recorded}
        heard = sorted(seq for seq, at in self._unjudged.items() if not rewinds.of_place(seq, at))
        told = [history.line(seq) for seq in sorted({*heard[-_JUDGED_AT_ONCE:], *known})]
        for line in told:
            self._unjudged.pop(line.seq, None)
        whole = [history.whole(line) for line in told]
        corrected = await asyncio.to_thread(recall.corrected_in, whole, known)
        corrected |= self._rules_in(whole)
        return recall.verdicts(recorded, recalled, corrected)

    def _rules_in(self, told: Collection[entries.Line]) -> Verdicts:
        """What people say instead of an instruction that they had set for this session."""
        found: Verdicts = {}
        if not told:
            return found
        history = self.session.history
        rules = [
            (line.seq, line.entry.words)
            for line in history.newest(("rule_set",), _READ_FOR_VERDICTS)
            if isinstance(line.entry, derived.RuleSet) and not line.parent
            if line.entry.scope == "session" and not line.entry.checked
        ]
        for line in told:
            text = getattr(line.entry, "text", "")
            for at in meant_by(text, [words for _, words in rules]):
                seq, words = rules[at]
                if seq < line.seq:
                    gone = replaced_in(text, words)
                    found[seq, line.seq] = derived.StatementSuperseded(
                        statement=seq, by=line.seq, words=gone, partly=says_more(words, gone)
                    )
        return found

    async def _look_again(self) -> None:
        """Search for what was replaced and the newest answer says again: it is judged with that."""
        history = self.session.history
        answer = next(history.newest(("assistant_message",), _READ_FOR_VERDICTS), None)
        said = {asserted(one) for one in parts_of(getattr(answer and answer.entry, "text", ""))}
        for each in history.newest(("statement_superseded",), _READ_FOR_VERDICTS) if said else ():
            for one in getattr(each.entry, "words", ()):
                if asserted(one) in said:
                    await self.session.recall.search(one, inject.CONSIDERED, "session")
                    return

    async def _hear(self, judged: Collection[int]) -> None:
        """Take note of what people corrected since, in turns that were cut short, too.

        Whatever was taken or given back since may change what any of them corrects.
        """
        history = self.session.history
        new = history.head.seq - self._heard
        if any(True for _ in history.newest(standings.REWINDS, new)):
            new, judged = history.head.seq, ()
        said = [
            line
            for line in history.newest(("user_message",), min(new, _READ_FOR_VERDICTS))
            if line.channel != entries.IMPORTED and line.seq not in judged
        ]
        self._heard = history.head.seq
        # Off the loop: one of them may be megabytes.
        corrections = await asyncio.to_thread(lambda: list(filter(_corrects, said)))
        self._unjudged |= {line.seq: line.turn for line in corrections}

    async def _recall(self, arguments: RecallArguments, context: ToolContext) -> ToolResult:
        """Search what was said before this turn: its own question is not an answer."""
        fold = self.context.window.fold
        asking = [seq for seq, line in fold.lines.items() if line.turn == fold.turn]
        found = await self.session.recall.search(
            arguments.query,
            arguments.limit,
            self.context.settings.recall.scope,
            exclude=asking,
            pinned=fold.state.pins,
            memories=True,
        )
        if not found.hits:
            return ToolResult(text=NO_MATCH, finding="nothing found")
        said = await self.session.recall.answer(arguments.query, asking)
        rendered = (inject.render(hit, whole=True) for hit in found.hits)
        answer = (f"{ANSWER if said.sure else NEAREST}{said.text}",) if said.text else ()
        text, full = bounded("\n\n".join((*answer, *rendered)), context)
        return ToolResult(
            text=text,
            full=full,
            finding=f"{plural(len(found.hits), 'passage')}, best {found.hits[0].passage.pointer}",
            origin="recall",
        )

    async def _read_entry(self, arguments: ReadEntryArguments, context: ToolContext) -> ToolResult:
        """Read one entry or memory whole, from an offset on."""
        try:
            source = self.session.sources.read(arguments.entry)
        except errors.NoSuchEntry as error:
            raise errors.ToolError(
                error.what, "Use a number as #42, an id that recall gave, or a memory's file."
            ) from None
        text, full = bounded(source.text[arguments.offset :], context)
        return ToolResult(text=text, full=full, finding=source.finding, origin=source.origin)

    @command(
        "recall",
        usage="QUERY | why N | drop N | drop ENTRY [SESSION] | on | off",
        words=("why", "drop"),
    )
    async def search(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Search history; explain or drop a hit; switch automatic recall on or off."""
        word, _, rest = argument.partition(" ")
        if not argument:
            raise WrongUse("What should be found?")
        if word == "why" and rest.strip().isdecimal():
            yield _why(_hit(self.session, int(rest)))
        elif word == "drop" and rest.strip().isdecimal():
            yield _drop(self.session, _Source.of(_hit(self.session, int(rest)).passage))
        elif word == "drop" and _SOURCE.fullmatch(rest.strip()):
            yield _drop(self.session, _source(self.session, *rest.split()))
        elif argument in ("on", "off"):
            self.session.recall.switch(on=argument == "on")
            yield CommandPrinted(text=f"Automatic recall is {argument}.")
        else:
            found = await self.session.recall.search(
                argument,
                _SHOWN,
                self.context.settings.recall.scope,
                pinned=self.context.window.fold.state.pins,
                memories=True,
            )
            yield CommandPrinted(
                text="\n".join(_row(at, hit) for at, hit in enumerate(found.hits, 1)) or NO_MATCH,
            )


def _corrects(line: entries.Line) -> bool:
    return any(map(may_correct, passages.passages_of([line])))


class _Source(msgspec.Struct, frozen=True):
    """Where a passage stands, and how to call that."""

    session: str
    entry: str
    name: str

    @staticmethod
    def of(passage: passages.Passage) -> _Source:
        name = f"#{passage.seq}" if passage.seq >= 0 else passage.entry
        return _Source(passage.session, passage.entry, name)


def _source(services: SessionServices, entry: str, session: str = "") -> _Source:
    """The source of a passage that was recalled at any time; raises `NoSuchEntry`.

    What stands elsewhere is taken at its word: a pointer to nothing keeps nothing out.
    """
    found = services.recall.last
    for hit in found.hits if found is not None else ():
        if hit.passage.entry == entry and session in ("", hit.passage.session):
            return _Source.of(hit.passage)
    if session in ("", str(services.key)):
        line = services.refer(entry)
        return _Source(str(services.key), line.id, f"#{line.seq}")
    return _Source(session, entry, f"{entry} of {session}")


def _why(hit: ranking.Hit) -> CommandPrinted:
    parts = "\n".join(f"  {name:14} {value:+.3f}" for name, value in hit.parts.items())
    text = f"{hit.score:.3f} for {hit.passage.pointer}, made of\n{parts}"
    return CommandPrinted(text=text, data={"parts": dict(hit.parts)})


def _drop(services: SessionServices, source: _Source) -> CommandPrinted:
    entry = derived.RecallDropped(from_session=source.session, entry=source.entry)
    services.context.window.record(entry, services.context.transcript.last_turn)
    services.recall.drop(source.session, source.entry)
    return CommandPrinted(text=f"{source.name} is not recalled here any more.")


def _row(number: int, hit: ranking.Hit) -> str:
    passage = hit.passage
    facts = (passage.pointer, passage.ts[:10], passage.speaker or passage.role)
    where = ", ".join(filter(None, (*facts, *inject.marks_of(hit))))
    return f"{number:>2}. {hit.score:.2f}  {where}\n    {one_line(hit.text, 200)}"


def _hit(services: SessionServices, number: int) -> ranking.Hit:
    found = services.recall.last
    if found is None or not 1 <= number <= len(found.hits):
        raise WrongUse(f"The last search has no hit {number}.")
    return found.hits[number - 1]


def why_recalled(services: SessionServices) -> CommandPrinted:
    """What recall brought back for the newest message, or why it kept silent."""
    turn = services.context.window.fold.turn
    silent, brought = services.recall.silent, ""
    with services.context.transcript.history() as history:
        for line in history.newest(["recall_injected", "recall_used"], history.head.seq + 1):
            if line.turn != turn:
                break
            if isinstance(line.entry, derived.RecallInjected):
                brought = ", ".join(
                    f"#{one.seq}" if one.seq >= 0 else one.entry for one in line.entry.passages
                )
            elif isinstance(line.entry, derived.RecallUsed):
                silent = silent or line.entry.silent
    if brought:
        text = f"Turn {turn}: recall brought back {brought}. /recall why ID explains one."
        return CommandPrinted(text=text, data={"silent": ""})
    silent = silent or (_NOT_ASKED if services.recall.on else "Automatic recall is switched off.")
    text = f"Turn {turn}: recall brought nothing back. {silent}"
    return CommandPrinted(text=text, data={"silent": silent})
