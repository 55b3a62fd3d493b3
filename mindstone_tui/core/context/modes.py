"""The steps by which a live window gets shorter, each recorded before the request it shapes.

A summary is written down before anything it stands for leaves, and what leaves has its receipt
like any other exchange: a failed summary, or an index that cannot be read back, removes nothing.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core import entries, errors, transcript, values
from mindstone_tui.core.context import budget, cascade, digest, extract, prune, summaries, trim
from mindstone_tui.core.context.exchanges import RECENT, Exchange, eligible
from mindstone_tui.core.context.report import Marks
from mindstone_tui.core.context.summary_call import Ask
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import Call, ExchangeLines, proven, reader
from mindstone_tui.core.entries.derived import CheckpointSaved, SummaryDerived, SummaryJudged
from mindstone_tui.core.entries.window import Trimmed

SUMMARIES: Final = 20
"""Percent of the usable room that summaries may take; the oldest then make place."""
CARRIED: Final = 5
"""Percent of the usable room for rules of summaries that made place."""
NOTHING_TO_GAIN: Final = "a summary and its handoff would take as much room as they free"
_MARKER: Final = 60
"""Tokens of the line that says what is out of the window, and of joints."""
SHORTENED: Final = 4
"""Tool results that one cascade has a model shorten; the others are trimmed."""


class CompactionSteps:
    """The window while one call is being planned, and the steps that it can take itself."""

    def __init__(self, live: LiveWindow, call: Call, summarizer: summaries.Summarizer) -> None:
        self.live = live
        self.call = call
        self.usable = max(call.room.usable, 1)
        self.lines: list[entries.Line] = []
        self.beside: int | None = None
        """Tokens that come into the head beside a summary; None unless it is asked for by hand."""
        self.marks: Marks = live.marks(call)
        self.plan = cascade.cascade_plan(live.settings.cascade, live.settings.context.emergency)
        self.count = live.ledger(call.model).counter.text
        self.summarizer = msgspec.structs.replace(
            summarizer, count=self.count, short_result=live.settings.cascade.result_tokens
        )

    def tokens(self) -> int:
        """How large the next prompt would be."""
        total = self.live.measure(self.call).total
        return budget.pressing(total, self.call.expected, self.call.room)

    def fullness(self) -> float:
        """How full the next prompt would be, against the usable room."""
        return self.tokens() / self.usable

    def steps(self) -> dict[cascade.StepName, cascade.Apply]:
        """The steps that the window itself can take."""
        return {
            "tool_results": self._trim_results,
            "evict": self._evict,
            "progressive": self._condense,
            "compaction": self._compact,
            "delegate": self._delegate,
        }

    def units(self) -> list[Exchange]:
        """The window's exchanges; all recent ones are held, since later steps can shorten them."""
        whole = msgspec.structs.replace(self.marks, floor=self.usable)
        return prune.units_of(self.live, self.call, self.live.measure(self.call), whole)

    async def _trim_results(self, _excess: int) -> cascade.Effect:
        """Let every larger result that was answered give way to its finding; nobody is asked."""
        self.lines += prune.trim_results(self.live, self.call, self.marks, "cascade")
        return cascade.Effect(strategy="finding")

    async def _summarise_results(self, excess: int) -> int:
        """Have the results that are still whole shortened by a model; how many requests it took."""
        measured = self.live.measure(self.call)
        state = self.live.fold.state
        found = trim.trimmable(
            measured, trimmed=state.trimmed, spared={*state.pins, self.call.turn}, keep=0
        )
        taken: list[Trimmed] = []
        calls = 0
        for line, size in sorted(found, key=lambda one: -one[1])[:SHORTENED]:
            if trim.freed_by(taken) >= excess:
                break
            material = summaries.Material(passages=self._passages([line]))
            outcome = await summaries.summarise("tool_result_summary", material, self.summarizer)
            calls += outcome.calls
            if isinstance(outcome, summaries.Summary):
                self.lines.append(self.live.record(outcome.entry(), self.call.turn))
                taken.append(_trimmed(line, size, outcome, measured.factor))
        if not taken:
            return calls
        taken.sort(key=lambda one: one.result)
        self.lines += prune.record_trimmed(self.live, self.call, measured, taken, "cascade")
        return calls

    async def _evict(self, excess: int) -> cascade.Effect:
        target, units = self.live.measure(self.call).total - excess, eligible(self.units())
        pruned = await prune.prune_ranked(self.live, self.call, units, target, "cascade")
        self.lines += pruned.lines
        why = "" if pruned.left else "nothing may leave"
        return cascade.Effect(held=bool(pruned.left), why=why, strategy=self.live.policy)

    async def _condense(self, excess: int) -> cascade.Effect:
        """Condense by age, the oldest first, until enough is freed: summaries that grew old are
        made again from their originals, then exchanges, after results that are still whole."""
        goal = self.fullness() - excess / self.usable
        effects = [await self._age_summaries()]
        if self.summarizer.ask is not None and self.fullness() > goal:
            calls = await self._summarise_results(excess)
            effects.append(cascade.Effect(held=False, calls=calls, idle=not calls))
        may = {unit.turn: unit for unit in self.units() if unit.protected in ("", RECENT)}
        groups = cascade.by_level(sorted(may), self.call.turn, self.live.settings.cascade.ages)
        for level in sorted(groups, reverse=True):
            if self.fullness() <= goal:
                break
            units = [may[turn] for turn in groups[level]]
            effects.append(await self._replace("progressive", units, level))
        measured = [effect.fidelity for effect in effects if effect.fidelity is not None]
        return cascade.Effect(
            held=any(effect.held for effect in effects),
            why="; ".join(dict.fromkeys(effect.why for effect in effects if effect.why)),
            strategy="progressive",
            idle=all(effect.idle for effect in effects),
            calls=sum(effect.calls for effect in effects),
            fidelity=round(sum(measured) / len(measured), 4) if measured else None,
        )

    async def _age_summaries(self) -> cascade.Effect:
        """Make condensed exchanges shorter once they are old enough, from their originals."""
        read = reader(self.live.history)
        done: list[summaries.Summary] = []
        for seq in self.live.fold.state.summaries:
            (line,) = read(seq, seq)
            old = line.entry
            if not isinstance(old, SummaryDerived) or old.strategy != "progressive":
                continue
            lines = [one for span in old.sources for one in read(span.first, span.last)]
            newest = max((one.turn for one in lines), default=self.call.turn)
            level = summaries.level_of(self.call.turn - newest, self.live.settings.cascade.ages)
            if level <= old.level:
                continue
            rules, permissions = digest.rules_in(old.text)
            material = summaries.Material(
                passages=self._passages(lines), approvals=permissions, rules=rules, level=level
            )
            outcome = await summaries.summarise("progressive", material, self.summarizer)
            if isinstance(outcome, summaries.Summary) and outcome.tokens_after < old.tokens_after:
                self.live.catch_up()
                state = self.live.fold.state
                staying = tuple(each for each in state.summaries if each != seq)
                entry = outcome.entry(msgspec.structs.replace(state, summaries=staying))
                self.lines.append(self.live.record(entry, self.call.turn))
                done.append(outcome)
        calls = sum(each.calls for each in done)
        return cascade.Effect(held=bool(done), calls=calls, idle=not done)

    async def _compact(self, _excess: int) -> cascade.Effect:
        """Let a summary stand for everything but the newest exchanges and what is protected."""
        units = self.units()
        fixed = self.live.measure(self.call).total - sum(unit.tokens for unit in units)
        poor = self._judged_poor()
        keep = cascade.kept_recent(
            self.live.settings.context.keep_recent_tokens,
            self.usable,
            self.marks.floor - fixed,
            times=2 if poor else 1,
        )
        turns = set(cascade.to_compact(units, keep))
        chosen = [unit for unit in units if unit.turn in turns]
        if not chosen:
            return cascade.Effect(
                held=False, why="there is nothing but the newest exchanges", idle=True
            )
        effect = await self._replace("conversation_compaction", chosen, 0)
        return msgspec.structs.replace(effect, why="; ".join(filter(None, (effect.why, poor))))

    def _judged_poor(self) -> str:
        """Why more is to be kept verbatim: a model found too little in the summary before."""
        for line in self.live.history.newest(["summary_judged"], _LOOKED_BACK):
            entry = line.entry
            if isinstance(entry, SummaryJudged) and entry.score is not None:
                kept = f"the summary before kept {entry.score:.0%}, so more stays as it is"
                stood = self.live.fold.state.summaries[-1:] == (entry.summary,)
                return kept if stood and not entry.passes else ""
        return ""

    async def _delegate(self, _excess: int) -> cascade.Effect:
        """Give everything but the current exchange to a reader with a clean window of its own."""
        rest = [unit for unit in self.units() if unit.protected in ("", RECENT)]
        rest = [unit for unit in rest if unit.turn != self.call.turn]
        if not rest:
            return cascade.Effect(
                held=False, why="there is nothing but the current exchange", idle=True
            )
        return await self._replace("sub_agent", rest, 0)

    async def _replace(self, name: str, units: Sequence[Exchange], level: int) -> cascade.Effect:
        """Write a summary of exchanges that can be found again, then let them leave."""
        staying = self._summaries_that_stay()
        pressed = self.beside is None and self.fullness() < self.plan.emergency
        least = self.call.room.tokens(prune.WORTH_IT) if pressed else 0
        if self._gain(units, staying, "") <= least:
            return cascade.Effect(held=False, why=NOTHING_TO_GAIN, idle=True)
        asked = [ExchangeLines(unit.turn, unit.lines) for unit in units]
        try:
            receipts = await self.live.ensure(asked)
        except errors.RecallError as error:
            return cascade.Effect(held=False, why=error.what)
        found = {each.turn: receipt for each in asked if (receipt := proven(each, receipts))}
        leaving = [unit for unit in units if unit.turn in found]
        if not leaving:
            return cascade.Effect(held=False, why="none of it can be found again yet")
        material = self._material(leaving, level, staying)
        outcome = await summaries.summarise(name, material, self.summarizer)
        if not isinstance(outcome, summaries.Summary):
            return cascade.Effect(held=False, why=outcome.why, strategy=name, calls=outcome.calls)
        if name == "sub_agent":  # a report for a tool elsewhere; here it stands for its originals
            outcome = self._as_stand_in(outcome, leaving)
        self.live.catch_up()
        if self._gain(leaving, staying, outcome.text) <= 0:
            return cascade.Effect(
                held=False, why=NOTHING_TO_GAIN, strategy=name, calls=outcome.calls
            )
        before = self.live.measure(self.call).total
        gone = tuple(
            prune.departure(unit, None, found[unit.turn], f"{prune.IN_A_SUMMARY} ({name})")
            for unit in leaving
            if unit.turn not in self.live.fold.state.pins
        )
        entry = outcome.entry(msgspec.structs.replace(self.live.fold.state, summaries=staying))
        self.lines.append(self.live.record(entry, self.call.turn))
        self.lines.append(prune.leave(self.live, self.call, gone, before, self.live.mode))
        said = self._passages(line for unit in leaving for line in unit.lines)
        return cascade.Effect(
            why=outcome.why,
            strategy=name,
            calls=outcome.calls,
            fidelity=_kept_share(said, entry.text),
        )

    def _gain(self, leaving: Sequence[Exchange], staying: Collection[int], text: str) -> int:
        """How much shorter the prompt gets by a summary in place of exchanges.

        Before and after are held against each other as they will be shown.
        """
        beside = self.beside or 0
        measured, fold = self.live.measure(self.call), self.live.fold
        gone = {
            line.seq
            for unit in leaving
            if unit.turn not in fold.state.pins
            for line in unit.lines
            if line.seq not in unit.stays
        }
        raw = sum(
            piece.raw
            for piece in measured.pieces
            if piece.line is None or piece.line.seq not in gone
        )
        for seq, derived in fold.derived.items():
            replaced = beside > 0 if seq == fold.state.handoff else seq not in staying
            raw -= self.count(derived) + 1 if replaced else 0
        raw += self.count(text) + _MARKER + beside
        return measured.total - round(raw * self.live.watch.factor(self.call.model))

    def _as_stand_in(
        self, report: summaries.Summary, units: Sequence[Exchange]
    ) -> summaries.Summary:
        lines = sorted((line for unit in units for line in unit.lines), key=lambda line: line.seq)
        text = summaries.labelled(report.text, self._passages(lines), self.summarizer.nonce())
        return msgspec.structs.replace(report, text=text, tokens_after=self.count(text))

    def _passages(self, lines: Iterable[entries.Line]) -> tuple[extract.SourceMessage, ...]:
        return extract.passages_of(lines, transcript.standings_of(self.live.history))

    def _material(
        self, units: Sequence[Exchange], level: int, staying: Collection[int]
    ) -> summaries.Material:
        """The originals of exchanges, and the rules of summaries that make place."""
        read = reader(self.live.history)
        lines = [line for unit in units for line in unit.lines]
        around = [line for unit in units for line in read(unit.span.first, unit.span.last)]
        carried = [
            digest.rules_in(line.entry.text)
            for seq in self.live.fold.state.summaries
            if seq not in staying
            for line in read(seq, seq)
            if isinstance(line.entry, SummaryDerived)
        ]
        permissions = [said for _, group in carried for said in group]
        return summaries.Material(
            passages=self._passages(sorted(lines, key=lambda line: line.seq)),
            approvals=tuple(dict.fromkeys((*permissions, *extract.approvals_of(around)))),
            rules=self._newest_rules(said for group, _ in carried for said in group),
            level=level,
        )

    def _newest_rules(self, rules: Iterable[str]) -> tuple[str, ...]:
        """What is carried on: rules and corrections always, the rest as far as its room goes."""
        every = list(dict.fromkeys(rules))
        room = self.usable * CARRIED // 100
        room -= sum(self.count(said) for said in every if said.startswith(digest.NEVER_LEFT_OUT))
        kept: list[str] = []
        for said in reversed(every):
            if not said.startswith(digest.NEVER_LEFT_OUT):
                room -= self.count(said)
                if room < 0:
                    continue
            kept.append(said)
        return tuple(reversed(kept))

    def _summaries_that_stay(self) -> tuple[int, ...]:
        """The newest summaries that leave a third of their room to the one that comes."""
        room = self.usable * SUMMARIES * 2 // 300
        read = reader(self.live.history)
        staying: list[int] = []
        for seq in reversed(self.live.fold.state.summaries):
            room -= sum(
                self.count(line.entry.text)
                for line in read(seq, seq)
                if isinstance(line.entry, SummaryDerived)
            )
            if room < 0:
                break
            staying.append(seq)
        return tuple(sorted(staying))


def _kept_share(originals: extract.Passages, text: str) -> float | None:
    """How much of what must survive stands in a text; None when the originals had nothing."""
    facts = extract.facts_of(originals, extract.SURVIVORS)
    wanted = sum(len(getattr(facts, name)) for name in extract.Facts.__struct_fields__)
    return round(1 - len(extract.missing(facts, text)) / wanted, 4) if wanted else None


def _trimmed(line: entries.Line, size: int, outcome: summaries.Summary, factor: float) -> Trimmed:
    return Trimmed(
        result=line.seq,
        placeholder=outcome.text,
        tokens_before=size,
        tokens_after=round((outcome.tokens_after + 4) * factor),
        reason="shortened from the original",
    )


_NEW_WINDOW: Final[tuple[cascade.StepName, ...]] = ("checkpoint", "handoff", "handoff_replay")
_WRITTEN_DOWN: Final[tuple[cascade.StepName, ...]] = ("checkpoint", "handoff")
_REARMING: Final = frozenset({"context_window_pruned", "tool_results_trimmed", "summary_derived"})
_LOOKED_BACK: Final = 10_000
"""Lines among which a checkpoint of this pressure is looked for."""


class Means(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """What a mode needs from outside the window."""

    summarizer: summaries.Summarizer
    """Its counter is replaced by the call's own."""
    steps: Mapping[cascade.StepName, cascade.Apply] = {}
    """`checkpoint`, `handoff`, `handoff_replay`, `backfill` and `delegate`, as far as there are."""
    ended: Callable[[cascade.StepOutcome], Awaitable[None]] | None = None
    """Told how a cascade or a chain went."""


class Modes(msgspec.Struct, eq=False):
    """Makes room as the session's mode says, and has a checkpoint saved at its mark."""

    means: Means
    last: cascade.StepOutcome | None = None
    """The newest cascade: what cannot help is not tried again at once."""
    last_chain: cascade.StepOutcome | None = None
    """How the newest compaction by hand went, link by link."""
    _anew: int = -1
    """The turn in which the window last began anew."""

    @property
    def ask(self) -> Ask | None:
        """Who writes summaries and prose now; None when no model may."""
        return self.means.summarizer.ask

    def answer_with(self, ask: Ask | None, model: str) -> None:
        """Let another model write summaries and prose, or none."""
        summarizer = msgspec.structs.replace(self.means.summarizer, ask=ask, model=model)
        self.means = msgspec.structs.replace(self.means, summarizer=summarizer)

    async def make_room(self, live: LiveWindow, call: Call) -> list[entries.Line]:
        """Bring the next prompt under its marks; the lines that were written are returned."""
        room = CompactionSteps(live, call, self.means.summarizer)
        if live.mode != "sliding_window":
            room.lines += prune.trim_over_share(live, call, prune.tempo_of(live, call).dozen)
        if live.mode == "cascade":
            await self._cascade(room)
        elif live.mode == "auto_compact":
            await self._auto_compact(room)
        else:
            await self._checkpoint(room)
            room.lines += await prune.make_room(live, call)
        if live.mode != "sliding_window" and room.fullness() >= room.plan.emergency:
            room.lines += await prune.make_room(live, call)
            if live.mode == "cascade" and room.fullness() >= live.settings.cascade.overflow / 100:
                await self._new_window(room)
        return room.lines

    async def _new_window(self, room: CompactionSteps) -> None:
        """Go on in a new window: the task's state and a handoff are written, then the rest goes.

        Not where what must stay leaves hardly any room for a handoff, and once a turn at most.
        """
        live, call = room.live, room.call
        units = [unit for unit in room.units() if unit.protected in ("", RECENT)]
        stays = live.measure(call).total - sum(unit.freed for unit in units)
        if (
            stays + call.room.tokens(cascade.HANDOFF_SHARE / 2) > room.usable
            or call.turn == self._anew
        ):
            return
        self._anew = call.turn
        outside = self._outside(room)
        for step in _NEW_WINDOW:
            if step in outside and not (await outside[step](0)).held:
                return
        pruned = await prune.prune_ranked(live, call, units, 0, "new window")
        room.lines += pruned.lines
        if room.fullness() >= room.plan.emergency:  # the handoff itself may be what does not fit
            room.lines += await prune.make_room(live, call)

    async def compact(self, live: LiveWindow, call: Call) -> list[entries.Line]:
        """Compact now, whatever the mode and the marks say: the same chain, asked for by hand.

        Unlike under pressure, a window that would not get smaller stays as it is.
        """
        room = CompactionSteps(live, call, self.means.summarizer)
        room.lines += prune.repair(live, call.turn)
        room.beside = 0
        outside = self._outside(room)
        if hand_over := outside.get("handoff"):

            async def weighed(excess: int) -> cascade.Effect:
                effect = await hand_over(excess)
                room.beside = effect.adds
                return effect

            outside["handoff"] = weighed
        self.last_chain = await cascade.run_auto_compact(
            {**outside, **room.steps()}, room.fullness, room.usable, room.plan
        )
        return room.lines

    async def _checkpoint(self, room: CompactionSteps) -> None:
        """Have the task's state written down, once, before anything can leave.

        A handoff is for a window that begins anew; a window that slides never does.
        """
        if room.tokens() < room.marks.checkpoint or not _armed(room.live.history):
            return
        slides = room.live.mode == "sliding_window"
        for step in _WRITTEN_DOWN[:1] if slides else _WRITTEN_DOWN:
            if apply := self.means.steps.get(step):
                room.lines += (await apply(0)).lines

    async def _cascade(self, room: CompactionSteps) -> None:
        await self._checkpoint(room)
        room.lines += prune.repair(room.live, room.call.turn)
        if not cascade.cascade_due(room.fullness(), self.last, room.plan):
            return
        self.last = await cascade.run_cascade(
            {**room.steps(), **self._outside(room)},
            room.fullness,
            room.usable,
            room.plan,
            model_allowed=self.means.summarizer.ask is not None,
        )
        await self._tell(room, self.last)

    async def _auto_compact(self, room: CompactionSteps) -> None:
        room.lines += prune.repair(room.live, room.call.turn)
        if room.tokens() < room.marks.ceiling:
            await self._checkpoint(room)
            return
        outcome = await cascade.run_auto_compact(
            {**self._outside(room), **room.steps()}, room.fullness, room.usable, room.plan
        )
        await self._tell(room, outcome)

    def _outside(self, room: CompactionSteps) -> dict[cascade.StepName, cascade.Apply]:
        """The steps from outside the window, with what they write collected."""

        def collecting(apply: cascade.Apply) -> cascade.Apply:
            async def applied(excess: int) -> cascade.Effect:
                effect = await apply(excess)
                room.lines += effect.lines
                return effect

            return applied

        return {name: collecting(apply) for name, apply in self.means.steps.items()}

    async def _tell(self, room: CompactionSteps, outcome: cascade.StepOutcome) -> None:
        """Write each step down, and say how all of them went."""
        taken = [step.entry(outcome.mode, room.usable) for step in outcome.taken]
        room.lines += room.live.record_all(taken, room.call.turn) if taken else []
        if self.means.ended is not None:
            await self.means.ended(outcome)


def _armed(history: transcript.History) -> bool:
    """The checkpoint mark fires once, whoever asks, until something left or was shortened."""
    for line in history.newest(_REARMING | {"checkpoint_saved"}, _LOOKED_BACK):
        if not isinstance(line.entry, CheckpointSaved):
            return True
        if line.entry.trigger == "window":
            return False
    return True
