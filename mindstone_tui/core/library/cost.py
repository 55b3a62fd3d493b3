"""What a session cost, turn by turn, and why: from what was recorded of each request.

Money is what the provider charged or the other program wrote down; where neither said anything,
it is about what the list of prices says. A cause is named where the record proves it. What a turn
cost beyond its causes was the price of its words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import errors, numbers, paths, transcript
from mindstone_tui.core.entries import Line, Usage, conversation, derived, store, window
from mindstone_tui.core.entries.base import added
from mindstone_tui.core.interchange import describe, import_session
from mindstone_tui.core.interchange.formats import base, format_of
from mindstone_tui.core.library.profile import SessionProfile, profile_of
from mindstone_tui.core.providers.cache_rules import SentPrompt, expect, rules_of
from mindstone_tui.core.providers.catalogue import PriceBook as PriceBook
from mindstone_tui.core.providers.catalogue import Prices, cost
from mindstone_tui.core.providers.catalogue import list_name as list_name
from mindstone_tui.core.recall.passages import epoch
from mindstone_tui.core.tokens import rough_count

_MISSED: Final = 0.1
"""The share of a prompt that must be read anew, or be gone, before anybody asks why."""
_LARGE: Final = 2_000
"""Tokens from which on a result is watched, and what is read anew matters."""
_LONG: Final = 10
"""Requests from which on a result was carried along."""
_SUMMED_UP: Final = "a summary took the place of exchanges"
_CHANGES: Final[Mapping[type, str]] = {
    window.InstructionsChanged: "the instructions changed",
    window.ToolsChanged: "the tools changed",
    window.ContextWindowPruned: "exchanges left the window",
    window.ToolResultsTrimmed: "results were shortened",
    window.HeadShortened: "the head was shortened",
    window.Rewound: "turns were rewound",
    window.Restored: "exchanges came back",
    derived.SummaryDerived: _SUMMED_UP,
}


class CostCause(msgspec.Struct, frozen=True):
    """Why a turn cost what it did, as far as it is recorded."""

    kind: str
    """`cache expired`, `cache broken`, `cache missed`, `compaction`, `carried`, `recall`, `retry`,
    `side request`, `sub agent` or `thinking`."""
    why: str
    tokens: int | None = None
    cost: float | None = None
    """The part of the turn's money that it explains; None where nobody can know."""


class TurnCost(msgspec.Struct, kw_only=True):
    """What one turn took; `turn` 0 is beside the turns, or where only the day is known."""

    turn: int = 0
    ts: str = ""
    requests: int = 0
    usage: Usage = Usage()
    listed: bool = False
    """Whether part of the money is by the list of prices, not as recorded."""
    unknown: bool = False
    """Whether the price of a request is not known."""
    causes: list[CostCause] = []

    def add(self, other: TurnCost) -> None:
        """Add another one."""
        self.ts = self.ts or other.ts
        self.requests += other.requests
        self.usage = added(self.usage, other.usage)
        self.listed, self.unknown = self.listed or other.listed, self.unknown or other.unknown
        for each in other.causes:
            self.because(each)

    def because(self, cause: CostCause) -> None:
        """Name a cause; the same one again is added to it."""
        for at, each in enumerate(self.causes):
            if (each.kind, each.why) == (cause.kind, cause.why):
                tokens = (each.tokens or 0) + (cause.tokens or 0) or None
                cost = (each.cost or 0) + (cause.cost or 0) or None
                self.causes[at] = CostCause(cause.kind, cause.why, tokens, cost)
                return
        self.causes.append(cause)


class SessionCost(msgspec.Struct):
    """A session's turns and their sum, in which causes of a kind are one."""

    session: str
    turns: list[TurnCost]
    total: TurnCost
    days_only: bool = False
    """The other program's file is gone: only what each day took is known."""
    cut_off: int = 0
    """Requests that came to no end, so that nobody knows what they cost."""


class _Carried(msgspec.Struct):
    """A result that stands in the prompts."""

    turn: int
    name: str
    tokens: int
    requests: int = 0
    cost: float = 0.0


class CostFold(msgspec.Struct, eq=False):
    """Takes a session in its order, and knows what each turn cost."""

    _book: PriceBook
    by_list: bool = False
    _turns: dict[int, TurnCost] = {}
    _last: dict[str, SentPrompt] = {}
    _hour: bool = False
    _changes: dict[str, int] = {}
    """What changed since the last request, and in which turn."""
    _recalled: dict[int, int] = {}
    _results: list[_Carried] = []
    _gone: int = 0
    """How many of them may no longer stand in the prompts."""
    sent: list[tuple[SentPrompt, Usage]] = []

    def turns(self) -> list[TurnCost]:
        """Every turn that took something, with its causes."""
        found = [each for each in self._results if each.requests >= _LONG]
        for each in sorted(found, key=lambda one: -one.tokens * one.requests)[:5]:
            size = f"a result of about {numbers.tokens(each.tokens)} tokens"
            why = f"{size} ({each.name}) carried along for {each.requests} requests"
            self._because(each.turn, "carried", why, each.tokens * each.requests, each.cost)
        return [self._turns[turn] for turn in sorted(self._turns)]

    def observe(self, line: Line) -> None:
        """One line of our own transcript."""
        entry, turn = line.entry, line.turn
        if change := _CHANGES.get(type(entry)):
            self._change(change, turn)
        match entry:
            case derived.RecallInjected(tokens=tokens):
                self._recalled[turn] = tokens
            case derived.DelegationEnded(tokens=tokens, cost=cost) if tokens:
                self._add(turn, line.ts, Usage(cost=cost), requests=0)
                self._because(turn, "sub agent", "a sub-agent worked", tokens, cost)
            case conversation.ToolReturned(name=name, text=text):
                self._results += _large(turn, name, text)
        if (report := conversation.usage_in(entry)) is None:
            return
        if report.retries:
            self._because(turn, "retry", f"retried {report.retries} ×, what that took is unknown")
        if report.purpose:
            kind = "compaction" if report.purpose == "summary" else "side request"
            self._add(turn, line.ts, report.usage)
            self._because(turn, kind, report.purpose, report.usage.prompt, report.usage.cost)
        else:
            at = epoch(line.ts)
            sent = SentPrompt(report.model, report.usage.prompt or 0, at - report.elapsed, at)
            self._request(turn, line.ts, sent, report.usage)

    def take(self, records: Iterable[base.Record], turn_of: Mapping[str, int]) -> None:
        """A whole conversation of another program, its turns as they were imported."""
        turn, began, at, counts = 0, "", "", describe.AnswerCounts()
        names: dict[str, str] = {}
        for record in records:
            match record:
                case base.Said(role="user", ts=ts):
                    turn = turn_of.get(record.id, turn + 1)
                    began, at = ts or began, ""
                case base.Said(ts=ts):
                    at = at or ts
                    names.update((call.id, call.name) for call in record.calls)
                case base.Gave(ts=ts, text=text):
                    began, at = ts or began, ""
                    self._results += _large(turn, record.name or names.get(record.call, "?"), text)
                case base.Aside(taken_back=name) if name in turn_of:
                    turn = turn_of[name]
                case base.Aside(what="compact summary"):
                    self._change(_SUMMED_UP, turn)
                case base.Used(model=model):
                    usage, is_new = counts.more(record)
                    sent = SentPrompt(model, usage.prompt or 0, epoch(began), epoch(at or began))
                    if is_new and (usage.prompt or usage.completion or usage.cost):
                        self._request(turn, at or began, sent, usage)
                    elif usage.completion:
                        self._add(turn, at, usage, self._book.missing(model, usage), requests=0)

    def day(self, day: str, model: str, usage: Usage) -> None:
        """What only a day's sum tells."""
        self._add(-len(self._turns) - 1, day, usage, self._book.missing(model, usage), requests=0)

    def _request(self, turn: int, ts: str, sent: SentPrompt, usage: Usage) -> None:
        """One request of the conversation: its money, and what it read anew."""
        prices = self._book.prices(sent.model, sent.prompt)
        by_list = cost(usage, prices) if self.by_list and usage.cost is None else None
        self._add(turn, ts, usage, by_list)
        self.sent.append((sent, usage))
        self._hour = self._hour or bool(usage.cache_hour)
        self._explain(turn, sent, usage, prices)
        thought, recalled = usage.reasoning or 0, self._recalled.get(turn, 0)
        money = thought * (prices.completion or 0), recalled * (prices.prompt or 0)
        if thought:
            self._because(turn, "thinking", "thinking", thought, money[0] or None)
        if recalled:
            self._because(turn, "recall", "recalled passages", recalled, money[1] or None)
        if (last := self._last.get(sent.model)) and sent.prompt < last.prompt * (1 - _MISSED):
            self._gone = len(self._results)
        for each in self._results[self._gone :]:
            each.requests += 1
            each.cost += each.tokens * ((usage.cached and prices.cached) or prices.prompt or 0)
        if sent.prompt:
            self._last[sent.model] = sent
        self._changes.clear()

    def _explain(self, turn: int, sent: SentPrompt, usage: Usage, prices: Prices) -> None:
        """Name why a prompt was not read from the cache, if it could have been."""
        rules, before = rules_of(sent.model, hour=self._hour), self._last.get(sent.model)
        if rules is None or before is None or usage.cached is None:
            return
        known = min(before.prompt, sent.prompt)
        missed = known - usage.cached - rules.behind
        if missed < max(_LARGE, known * _MISSED):
            return
        verdict = expect(rules, before, sent)[1]
        kind, why = "cache missed", "cache not read, and no cause is recorded"
        if self._changes:
            kind = "compaction" if _SUMMED_UP in self._changes else "cache broken"
            told = (f"{what}{f' in turn {at}' * (at < turn)}" for what, at in self._changes.items())
            why = f"cache broken: {', '.join(told)}"
        elif verdict == "shrank":
            kind, why = "cache broken", "cache broken: the prompt became shorter"
        elif verdict == "expired":
            pause = numbers.seconds(sent.began - before.at)
            kind, why = "cache expired", f"cache expired after a pause of {pause}"
        written = (usage.cache_hour and prices.cache_hour) or prices.cache_written
        dear = (usage.cache_written and written) or prices.prompt or 0.0
        more = missed * (dear - (prices.cached or dear)) or None
        self._because(turn, kind, why, missed, more)

    def _add(
        self, turn: int, ts: str, usage: Usage, by_list: float | None = None, requests: int = 1
    ) -> None:
        """Add a request to its turn, or what was summed up."""
        row = self._turns.setdefault(turn, TurnCost(turn=max(turn, 0)))
        row.listed = row.listed or by_list is not None
        row.unknown = row.unknown or (by_list is None and usage.cost is None)
        row.add(TurnCost(ts=ts, requests=requests, usage=added(usage, Usage(cost=by_list))))

    def _because(self, turn: int, *cause: Any) -> None:
        self._turns.setdefault(turn, TurnCost(turn=turn)).because(CostCause(*cause))

    def _change(self, what: str, turn: int) -> None:
        """The beginning of the prompt changed; which results still stand in it is not told."""
        self._changes[what] = turn
        self._gone = len(self._results)


def _large(turn: int, name: str, text: str) -> Iterator[_Carried]:
    """A result, if it is so large that it matters how long it is carried along."""
    if len(text) >= _LARGE and (tokens := rough_count(text)) >= _LARGE:
        yield _Carried(turn, name, tokens)


def cost_of(places: paths.SessionPlaces, book: PriceBook, since: str = "") -> SessionCost:
    """What a session cost since a day, by its transcript and by the file that it came from."""
    ours, theirs, days_only = _folded(places, book)
    turns = sorted((*theirs.turns(), *ours.turns()), key=lambda each: (each.turn, each.ts))
    shown = [each for each in turns if numbers.local(each.ts)[: len(since)] >= since]
    days = (profile_of(places) or SessionProfile()).days_between(since)
    cut_off = sum(day.cut_off for _, day in days)
    found = SessionCost(str(places.key), shown, TurnCost(), days_only, cut_off)
    for row in found.turns:
        kinds = [msgspec.structs.replace(it, why=it.kind) for it in row.causes]
        found.total.add(msgspec.structs.replace(row, causes=kinds))
    return found


def sent_in(places: paths.SessionPlaces, book: PriceBook) -> list[tuple[SentPrompt, Usage]]:
    """Every request of the conversation with what it took, in order."""
    ours, theirs, _ = _folded(places, book)
    return sorted((*theirs.sent, *ours.sent), key=lambda each: each[0].began)


def _folded(places: paths.SessionPlaces, book: PriceBook) -> tuple[CostFold, CostFold, bool]:
    """What we asked for, what the other program did, and whether only its days are known."""
    ours, theirs = CostFold(book), CostFold(book, by_list=True)
    described: store.SessionDescribed | None = None
    turn_of: dict[str, int] = {}
    with transcript.History(places) as history:
        opened = history.header.entry
        for line in history.read():
            # What a fork copied was paid for where it was said.
            if isinstance(line, Line) and not line.parent:
                ours.observe(line)
                if isinstance(line.entry, store.SessionDescribed):
                    described = line.entry
                elif isinstance(line.entry, conversation.UserMessage) and line.entry.source_id:
                    turn_of[line.entry.source_id] = line.turn
    if isinstance(opened, conversation.SessionOpened) and opened.folder:
        described = None  # taken into a session of ours: it is not what it was about
    used = described.used if described and not _take_file(theirs, described, turn_of) else ()
    for each in used:
        theirs.day(each.day, each.model, each.usage)
    return ours, theirs, bool(used)


def _take_file(fold: CostFold, described: store.SessionDescribed, turns: Mapping[str, int]) -> bool:
    """Read the other program's own file once more; False where it is gone."""
    path = Path(described.path)
    with contextlib.suppress(errors.MindstoneError, OSError):
        reader = format_of(path)
        for began, records in import_session.conversations(reader.read(path), many=reader.many):
            if not reader.many or began.id == described.conversation:
                fold.take(records, turns)
    return bool(fold.sent)
