"""Build the one report from the one list of pieces."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context import budget, exchanges, prune, watch, window, window_view
from mindstone_tui.core.context import report as reports
from mindstone_tui.core.context.fold import Fold, Placed, holds
from mindstone_tui.core.context.measure import ComponentName, Measured, Piece
from mindstone_tui.core.context.messages import Key, said
from mindstone_tui.core.context.messages import head as head_of
from mindstone_tui.core.context.policies import text_of
from mindstone_tui.core.entries import Line, ToolSchema, base, conversation, derived
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.numbers import tokens
from mindstone_tui.core.text import as_written, one_line, plural
from mindstone_tui.core.tokens import Counter, counter_for
from mindstone_tui.core.transcript import History
from mindstone_tui.core.values import alike

_PREVIEW: Final = 80
_LOOKED_AT: Final = 20_000
"""Characters of an entry in which its first words are looked for."""
_STANDING: Final = {
    "tools": "tool schemas",
    "marker": "what is out of the window",
    "derived": "derived: loses against its originals",
    "recall": "recalled for this turn",
}
"""What the parts of a prompt are called that are nobody's message."""


def blocks(
    view: window_view.View,
    call: window_view.Call,
    measured: Measured,
    units: Sequence[exchanges.Exchange],
) -> tuple[reports.Block, ...]:
    """One block for each part of the prompt; their tokens add up to it."""
    by_turn = {unit.turn: unit for unit in units}
    scores = {scored.candidate.key: scored for scored in view.rank(exchanges.eligible(units))}
    state = view.fold.state

    def block(piece: Piece, size: int) -> reports.Block:
        if (line := piece.line) is None:
            return _standing_block(view.fold, call, piece, size)
        why = by_turn[line.turn].protected or exchanges.why_staying(line.seq, view.fold)
        scored = None if why else scores.get(line.turn)
        return reports.Block(
            entry=line.id,
            seq=line.seq,
            kind=line.kind,
            turn=line.turn,
            tokens=size,
            protected=bool(why),
            why=why or f"may leave: {view.policy}",
            role=line.role,
            preview=head_of(" ".join(_words_of(line)[: _PREVIEW * 4].split()), _PREVIEW),
            score=scored.score if scored else None,
            parts=scored.parts if scored else {},
            trimmed=line.seq in state.trimmed,
            pinned=line.turn in state.pins,
            age=max(call.turn - line.turn, 0),
        )

    return tuple(block(piece, size) for piece, size in measured.sized)


def _words_of(line: Line) -> str:
    """What tells an entry apart at a glance; a tool result by its finding."""
    entry = line.entry
    if isinstance(entry, conversation.ToolReturned) and entry.finding:
        return f"{entry.name}: {entry.finding}"
    return as_written(text_of(line)[:_LOOKED_AT])


def _standing_block(fold: Fold, call: window_view.Call, piece: Piece, size: int) -> reports.Block:
    """A part of the prompt that is no message: it stands for all turns, or passes with this one."""
    passing = piece.component == "memory_injection"
    match piece.name:
        case "tools":
            seq = fold.state.tools
        case "recall":
            seq = call.tail[-1] if call.tail else None
        case "marker":
            seq = fold.state.pruned
        case "derived":
            seq = list(fold.derived)[piece.key[-1]]
        case _:
            seq = fold.state.instructions
    source = fold.reference(seq) or fold.recalls.get(-1 if seq is None else seq)
    return reports.Block(
        entry=source.id if source else "",
        seq=-1 if seq is None else seq,
        kind=source.kind if source and piece.name == "derived" else piece.name,
        turn=call.turn if passing else 0,
        tokens=size,
        protected=True,
        why="passes with this turn" if passing else "standing part of the prompt",
        role="user" if passing else "system",
        preview=_STANDING.get(piece.name, piece.name.replace("_", " ")),
    )


def todo_lines(standing: Sequence[Section]) -> tuple[str, ...]:
    """The list of what is to be done, from the section that has it."""
    text = next((one.text for one in standing if one.name == "todo"), "")
    return tuple(text.splitlines()[1:])


def sections(view: window_view.View, measured: Measured) -> tuple[reports.SectionSize, ...]:
    """The parts of the system prompt, in its order."""
    sizes = [
        size
        for piece, size in measured.sized
        if piece.component == "system_prompt" and piece.name != "marker"
    ]
    shown = [section for section in view.fold.sections if section.text]
    return tuple(
        reports.SectionSize(
            name=section.name,
            tokens=size,
            source=section.source,
            raw_size=section.raw_size or len(section.text),
            injected_size=len(section.text),
        )
        for section, size in zip(shown, sizes, strict=True)
    )


def tools(
    view: window_view.View, call: window_view.Call, measured: Measured
) -> tuple[reports.SectionSize, ...]:
    """Tool schemas, the largest first."""
    ledger = view.ledger(call.model)
    written = [(tool.name, msgspec.json.encode(tool)) for tool in view.fold.tools]
    found = [
        reports.SectionSize(
            name=name,
            tokens=round(ledger.text(schema.decode()) * measured.factor),
            injected_size=len(schema),
        )
        for name, schema in written
    ]
    return tuple(sorted(found, key=lambda size: -size.tokens))


_LEFT_SHOWN: Final = 50


def report(
    live: window.LiveWindow,
    target: window_view.Target = window_view.SESSIONS_OWN,
    *,
    tail: Sequence[int] = (),
    call: int = 0,
    head: tuple[Sequence[Section], Sequence[ToolSchema]] | None = None,
) -> reports.ContextReport:
    """The one accounting; reading it changes nothing.

    `head` holds the instructions and tools of the next request, where they may not be recorded yet.
    """
    if not call:  # what others wrote since a plan is no part of its request
        live.catch_up()
    planned = live.call(target, tail)
    if head is not None and not call:
        return build(live.expecting(*head), planned, prices=target.prices)
    last = live.planned(planned) if call else None
    if last is None:
        return build(live, planned, prices=target.prices, number=call)
    # About the request that was just planned: it is known already how it begins and what its hash
    # is, and compared with itself all of it would be stable.
    found = build(live, planned, prices=target.prices, number=call, prompt_hash=last.prompt_hash)
    return msgspec.structs.replace(found, stable_prefix_tokens=last.stable_prefix)


def report_at(
    history: History,
    settings: Settings,
    plan_line: Line,
    counters: Callable[[str], Counter] = counter_for,
) -> reports.ContextReport:
    """The accounting of a request of the past, from the transcript alone."""
    view = window_view.PastView(history, settings, counters, plan_line=plan_line)
    plan = view.plan
    room = budget.Room(plan.window, plan.window_label, plan.reserve)
    call = alike(window_view.Call, plan, turn=plan_line.turn, room=room)
    found = build(view, call, number=plan.call, prompt_hash=plan.prompt_hash)
    return msgspec.structs.replace(found, stable_prefix_tokens=plan.stable_prefix)


def check_before_add(
    live: window.LiveWindow,
    component: ComponentName,
    tokens: int,
    target: window_view.Target = window_view.SESSIONS_OWN,
) -> budget.Admission:
    """Whether something may be added to the next prompt."""
    live.catch_up()
    call = live.call(target)
    used = budget.components(live.measure(call), call.room, live.settings.budget)
    return budget.check_before_add(component, tokens, used, call.room)


def build(
    view: window_view.View,
    call: window_view.Call,
    *,
    prices: window_view.PromptPrices = window_view.SESSIONS_OWN.prices,
    number: int = 0,
    prompt_hash: str = "",
) -> reports.ContextReport:
    """Everything there is to know about the next prompt; reading it changes nothing."""
    return _Account(view, call).report(prices, number, prompt_hash or view.prompt_hash(call))


class _Account:
    """The next prompt, measured once: whatever is reported about it is taken from here."""

    def __init__(self, view: window_view.View, call: window_view.Call) -> None:
        settings = view.settings
        self.view = view
        self.in_part = self._in_part()
        self.call = call
        self.room = call.room
        self.measured = view.measure(call)
        self.marks = view.marks(call)
        self.units = prune.units_of(view, call, self.measured, self.marks)
        self.shares = budget.components(self.measured, call.room, settings.budget)
        self.growth = view.growth(call)
        self.finished = watch.completed(self.growth, call.turn, ended=view.turn_ended)
        self.speed = budget.velocity(self.finished, settings.zones.velocity_turns)
        self.utilization = self.measured.total / call.room.usable
        self.pinned = sum(unit.tokens for unit in self.units if unit.protected == exchanges.PINNED)
        self.pin_budget = call.room.tokens(settings.context.pin_budget)
        movable = sum(unit.freed for unit in self.units if not unit.protected)
        self.fixed = self.measured.total - movable
        """What cannot leave: the standing parts, the tail, and protected exchanges."""

    def report(
        self, prices: window_view.PromptPrices, number: int, prompt_hash: str
    ) -> reports.ContextReport:
        view, call, room, total = self.view, self.call, self.room, self.measured.total
        return reports.ContextReport(
            session=str(view.history.places.key),
            model=call.model,
            window=reports.Tokens(tokens=room.window, label=room.label),
            reserve=room.reserve,
            usable=room.usable,
            prompt=self._prompt(),
            utilization=round(self.utilization, 4),
            raw_utilization=round(total / room.window, 4),
            zone=budget.zone_after(
                view.watch.carried.zone, self.utilization, room.window, view.settings.zones
            ),
            velocity=self.speed,
            velocity_class=budget.velocity_class(self.speed),
            turns_until_red=budget.turns_until(self.marks.red, total, self.speed),
            marks=self.marks,
            components=self.shares,
            blocks=blocks(view, call, self.measured, self.units),
            outside=self._outside(),
            prompt_hash=prompt_hash,
            stable_prefix_tokens=self._stable_prefix(),
            mode=view.mode,
            policy=view.policy,
            turn=call.turn,
            call=number,
            sections=sections(view, self.measured),
            todo=todo_lines(view.fold.sections),
            tools=tools(view, call, self.measured),
            burn=budget.burn(self.finished[-view.settings.zones.velocity_turns :], self.shares),
            pins=view.fold.state.pins,
            pin_tokens=self.pinned,
            pin_budget=self.pin_budget,
            protected_tokens=self.fixed,
            protected_by=self._held_by(),
            recall_tokens=self.measured.component("memory_injection"),
            recalled=sum(len(entry.passages) for entry in self._recalls()),
            cached_tokens=view.watch.anchor.cached if view.watch.anchor else None,
            cost=self._cost(),
            cost_unknown=view.watch.carried.cost_unknown,
            cost_delegated=round(view.watch.carried.delegated, 6),
            prune=_prune_cost(self.measured, self.marks, prices),
            warnings=tuple(self._warnings()),
            velocities=tuple(each.tokens for each in self.growth),
            windows=view.windows,
            left=view.fold.last_left[-_LEFT_SHOWN:][::-1],
            gone=self._gone(),
            scaled=budget.scaled(view.settings, room),
            acting=tuple(self._acting()),
        )

    def _prompt(self) -> reports.PromptNumbers:
        measured, error = self.measured, self.view.watch.error_percent
        return reports.PromptNumbers(
            tokens=measured.total, label=measured.label, error_percent=error
        )

    def _outside(self) -> reports.OutsideWindow:
        outside = self.view.fold.state.outside
        return reports.OutsideWindow(
            exchanges=outside.exchanges,
            in_part=min(len(self.in_part), outside.exchanges),
            tokens=outside.tokens,
            indexed=not outside.unindexed and not self.view.by_words(),
            unindexed=outside.unindexed,
            by_words=self.view.by_words(),
            rewound=sum(span.last - span.first + 1 for span in outside.rewound),
        )

    def _in_part(self) -> set[int]:
        """Turns of which only a message stays that the rest of its exchange left behind."""
        view, lines = self.view, self.view.fold.lines
        more = {line.turn for line in lines.values() if line.role != "user"}
        turns = {line.turn for line in lines.values()} - more
        left = {turn: view.spoken.get(turn) or self._spoken_in(turn) for turn in turns}
        view.spoken = {turn: seqs for turn, seqs in left.items() if turn < view.fold.turn}
        return {turn for turn, seqs in left.items() if not lines.keys() >= seqs}

    def _spoken_in(self, turn: int) -> frozenset[int]:
        return frozenset(line.seq for line in self.view.history.turn(turn) if said(line))

    def _gone(self) -> tuple[reports.GoneExchange, ...]:
        """The newest exchanges that are not in the window, with what each would cost again."""
        fold = self.view.fold
        here = {line.turn for line in fold.lines.values()} - self.in_part
        wanted = min(_LEFT_SHOWN, fold.state.outside.exchanges)
        known, model = self.view.gone, self.call.model
        rewound = fold.state.outside.rewound
        turns = (
            turn
            for turn in range(fold.turn, 0, -1)
            if turn not in here and not holds(rewound, turn)
        )
        # Only what is shown is kept: a long session would else remember everything that ever left.
        self.view.gone = {
            (turn, model): known.get((turn, model)) or self._look_at(turn)
            for turn in itertools.islice(turns, wanted)
        }
        return tuple(self.view.gone.values())

    def _look_at(self, turn: int) -> reports.GoneExchange:
        history, ledger = self.view.history, self.view.ledger(self.call.model)
        lines = [history.whole(line) for line in history.turn(turn)]
        said_then = [line for line in lines if said(line) is not None]
        raw = sum(ledger.message(Placed((line.seq, None, False), line)) for line in said_then)
        asked = next((line for line in said_then if line.role == "user"), None)
        return reports.GoneExchange(
            turn=turn,
            tokens=round(raw * self.measured.factor),
            words=one_line(_words_of(asked), _PREVIEW) if asked else "",
        )

    def _stable_prefix(self) -> int:
        now = window_view.keys_of(self.view.fold, self.call.model, self.call.turn)
        return stable_prefix(self.view, self.measured, now)

    def _recalls(self) -> list[derived.RecallInjected]:
        """What recall brought into this turn."""
        recalls = self.view.fold.recalls
        found = (recalls[seq].entry for seq in self.call.tail if seq in recalls)
        return [entry for entry in found if isinstance(entry, derived.RecallInjected)]

    def _acting(self) -> Iterator[str]:
        """What the shares that are full do about it, a few words each."""
        results = next(share for share in self.shares if share.name == "tool_results")
        if any(tool.name == base.MORE_TOOLS for tool in self.view.fold.tools):
            yield "tools: the least used come on demand"
        mark = max(results.hard, results.limit + prune.a_dozen(self.view, self.marks, self.growth))
        if results.tokens > mark:
            yield "results: pinned and newest stay whole"
        elif results.tokens > results.limit:
            full = mark > results.tokens + self.marks.ceiling - self.measured.total
            above = "the window is full" if full else f"above {tokens(mark)}"
            yield f"results: oldest shortened {'once ' if full else ''}{above}"
        if out := sum(entry.left_out for entry in self._recalls()):
            yield f"memory: {plural(out, 'weaker passage')} left out"

    def _cost(self) -> float | None:
        """Dollars as far as they are known; None when nothing is."""
        carried = self.view.watch.carried
        return None if carried.cost_unknown and not carried.spent else round(carried.spent, 6)

    def _hint(self, share: str) -> str:
        """What a person can do about a share that talking does not fill."""
        if share == "tool_definitions":
            return "; turn some off with `/tools off NAME`"
        if share == "tool_results":
            return "; `/prune results` shortens older ones now"
        if share == "message_history":
            found = ((size, one) for one, size in self.measured.sized if one.component == share)
            size, one = max(found, key=lambda pair: pair[0])
            if one.line is None or size <= self.measured.component("message_history") // 2:
                return ""
            return f"; the message of turn {one.line.turn} alone takes {size:,}"
        files = [one for one in self.view.fold.sections if one.source and one.source != "built in"]
        if share != "system_prompt" or not files:
            return ""
        largest = max(files, key=lambda section: len(section.text))
        return f"; {Path(largest.source).name} is the largest file in it, keep it short"

    def _held_by(self) -> str:
        """What most of the tokens that may not leave are, with what can be done about it."""
        held = {
            "the standing instructions: keep their files short": self.measured.component(
                "system_prompt"
            ),
            "tool definitions: turn some off with `/tools off NAME`": self.measured.component(
                "tool_definitions"
            ),
        }
        for unit in self.units:
            if said := _HELD.get(unit.protected):
                held[said] = held.get(said, 0) + unit.tokens
        return max(held, key=lambda said: held[said])

    def _warnings(self) -> Iterator[str]:
        room, state = self.room, self.view.fold.state
        if room.label == "assumed":
            yield f"Unknown context window; assuming {room.window:,} tokens. Set `context.window`."
        if room.reserve < budget.SMALLEST_RESERVE:
            yield f"The window is small: only {room.reserve:,} tokens for the answer."
        for share in self.shares:
            if share.tokens > share.hard:
                over, hint = share.tokens - share.limit, self._hint(share.name)
                name = share.name.replace("_", " ").capitalize()
                verb = "use" if share.name.endswith("s") else "uses"
                yield f"{name} {verb} {over:,} tokens more than budgeted{hint}."
        if self.pinned > self.pin_budget:
            yield f"Pins take {self.pinned:,} tokens; {self.pin_budget:,} are meant for them."
        if self.fixed > self.marks.floor:
            yield (
                f"{self.fixed:,} tokens cannot leave, so a prune cannot reach the floor; most of "
                f"it is {self._held_by()}."
            )
        if state.cut:
            cut = plural(len(state.cut), "message")
            yield f"{cut} shortened in the prompt; the transcript keeps the full text."
        if state.outside.unindexed:
            yield f"{plural(state.outside.unindexed, 'exchange')} left without an index entry."
        if self.view.ledger(self.call.model).counter.method == "characters":
            yield "Tokens are estimated from characters; the estimate errs high."


_HELD: Final = {
    exchanges.PINNED: "pinned: `/unpin` lets it go",
    exchanges.MARKED: "marked DO_NOT_EVICT, and stays",
    exchanges.TASK: "the first message, which is shortened once room is needed",
    exchanges.CORRECTS: "what corrects a message that is shown",
    exchanges.CURRENT: "this turn, and may leave after it",
    exchanges.RECENT: "the newest messages: a lower `context.min_recent` lets them leave",
}
"""Why exchanges may not leave, and what can be done about it."""


def stable_prefix(view: window_view.View, measured: Measured, now: Sequence[Key]) -> int:
    """Tokens at the front that are the same as in the request before."""
    before = view.sent_before()
    same = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        same += 1
    if same < 2:
        return 0
    kept = set(now[2:same])
    return sum(
        size
        for piece, size in measured.sized
        if piece.component != "memory_injection" and (piece.line is None or piece.key in kept)
    )


def _prune_cost(
    measured: Measured, marks: reports.Marks, prices: window_view.PromptPrices
) -> reports.PruneCost:
    """A prune makes the rest be read anew once; then every call is smaller.

    Where prompts cost nothing, or nobody knows what, there is nothing to weigh.
    """
    if not prices.prompt:
        return reports.PruneCost()
    cached = prices.prompt if prices.cached is None else prices.cached
    left = max(measured.total - marks.floor, 0)
    kept = measured.total - left
    return reports.PruneCost(
        once=round(kept * (prices.prompt - cached) / 1_000_000, 6),
        saves_per_turn=round(left * cached / 1_000_000, 6),
    )
