"""Decisions about the window and the session, in words for a reader."""

from __future__ import annotations

from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.conversation import TurnEnded
from mindstone_tui.core.entries.memory import SummaryDerived
from mindstone_tui.core.entries.pressure import AlertRaised, ZoneChanged
from mindstone_tui.core.entries.store import Imported
from mindstone_tui.core.entries.window import (
    ContextPruneBlocked,
    ContextWindowPruned,
    ModelChanged,
    Pinned,
    Restored,
    Rewound,
    ToolResultsTrimmed,
    Unpinned,
)


class Marker(Part):
    """Something that happened to the window or the session, in one line and a few more."""

    seq: int
    ts: str
    kind: str
    title: str
    details: tuple[str, ...] = ()


def marker_of(line: Line) -> Marker | None:
    """What a person should see of a decision; None for pure bookkeeping."""
    match line.entry:
        case ContextWindowPruned() as pruned:
            return pruned_marker(line, pruned)
        case ContextPruneBlocked(why=why, detail=detail):
            return _mark(line, f"Nothing could leave the window: {why}", detail)
        case ToolResultsTrimmed(results=results, tokens_before=before, tokens_after=after):
            title = f"{count(len(results), 'tool result')} became placeholders"
            return _mark(line, f"{title} ({before:,} → {after:,} tokens)")
        case Pinned(pinned_turn=turn, why=why):
            return _mark(line, f"Turn {turn} was pinned", why)
        case Unpinned(pinned_turn=turn):
            return _mark(line, f"Turn {turn} was unpinned")
        case Restored(turns=turns):
            listed = ", ".join(map(str, turns))
            return _mark(line, f"Back in the window: turn {listed}")
        case Rewound(to_turn=turn):
            return _mark(line, f"Rewound to turn {turn}; what came later stays in history")
        case ZoneChanged(before=before, after=after, utilization=share):
            return _mark(line, f"Zone {before} → {after} at {share:.0%}")
        case SummaryDerived(strategy=strategy, text=text, model=model):
            return _mark(line, f"Derived summary ({strategy}, by {model})", text)
        case ModelChanged(model=model, why=why):
            return _mark(line, f"Model: {model}", why)
        case AlertRaised(level=level, message=message, remedy=remedy):
            return _mark(line, f"{level}: {message}", remedy)
        case Imported(format=name, added=added, skipped=skipped):
            details = [f"line {each.line}: {each.why}" for each in skipped]
            return _mark(line, f"Imported from {name}: {count(added, 'message')}", *details)
        case TurnEnded(ending=ending, why=why) if ending != "done":
            return _mark(
                line, f"The turn was {ending}" if ending != "failed" else "The turn failed", why
            )
        case _:
            return None


def pruned_marker(line: Line, pruned: ContextWindowPruned) -> Marker:
    """Which exchanges left, and the proof that each can be found again."""
    title = f"{count(sum(each.exchanges for each in pruned.left), 'exchange')} left the window"
    sizes = f"{pruned.tokens_before:,} → {pruned.tokens_after:,} tokens"
    details = [
        f"turn {each.name}: {each.tokens:,} tokens, {each.reason}"
        + (f", {count(each.receipt.passages, 'passage')} read back" if each.receipt else "")
        for each in pruned.left
    ]
    return _mark(line, f"{title} ({sizes}; {pruned.policy}, {pruned.trigger})", *details)


def _mark(line: Line, title: str, *details: str) -> Marker:
    shown = tuple(detail for detail in details if detail)
    return Marker(seq=line.seq, ts=line.ts, kind=line.kind, title=title, details=shown)


def count(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
