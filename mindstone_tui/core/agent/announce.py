"""Lines on disk as the events that announce them."""

from __future__ import annotations

from mindstone_tui.core import events
from mindstone_tui.core.entries import Line, memory, pressure, window


def announced(line: Line) -> events.AnyEvent | None:
    """The event for a decision about the window, recall or pressure; None if it has none."""
    entry, turn = line.entry, line.turn
    match entry:
        case window.ContextWindowPruned():
            return events.WindowPruned(
                turn=turn,
                entry=line.id,
                left=entry.left,
                tokens_before=entry.tokens_before,
                tokens_after=entry.tokens_after,
                policy=entry.policy,
                trigger=entry.trigger,
            )
        case window.ToolResultsTrimmed():
            return events.ResultsTrimmed(
                turn=turn,
                entry=line.id,
                results=entry.results,
                tokens_before=entry.tokens_before,
                tokens_after=entry.tokens_after,
            )
        case window.ContextPruneBlocked():
            return events.PruneBlocked(turn=turn, entry=line.id, why=entry.why, detail=entry.detail)
        case memory.RecallInjected():
            return events.RecallInjected(
                turn=turn,
                entry=line.id,
                query=entry.query,
                passages=entry.passages,
                tokens=entry.tokens,
            )
        case memory.SummaryDerived():
            return events.SummaryDerived(
                turn=turn,
                entry=line.id,
                strategy=entry.strategy,
                tokens_before=entry.tokens_before,
                tokens_after=entry.tokens_after,
                model=entry.model,
                fallback=entry.fallback,
            )
        case memory.StandingInstructionOffered():
            return events.InstructionOffered(turn=turn, entry=line.id, text=entry.text)
        case memory.MemoryProposed():
            return events.MemoryProposed(
                proposal=entry.proposal,
                path=entry.path,
                before=entry.before,
                after=entry.after,
                why=entry.why,
                sources=entry.sources,
            )
        case memory.DelegationEnded():
            return events.DelegationEnded(
                turn=turn,
                child=entry.child,
                ending=entry.ending,
                tokens=entry.tokens,
                cost=entry.cost,
            )
        case memory.CheckpointSaved():
            return events.CheckpointSaved(turn=turn, version=entry.version, path=entry.path)
        case memory.HandoffWritten():
            return events.HandoffWritten(turn=turn, path=entry.path)
        case pressure.ZoneChanged():
            return events.ZoneChanged(
                turn=turn,
                before=entry.before,
                after=entry.after,
                utilization=entry.utilization,
            )
        case pressure.ShareCrossed():
            return events.ShareCrossed(
                turn=turn,
                component=entry.component,
                before=entry.before,
                after=entry.after,
                tokens=entry.tokens,
                limit=entry.limit,
            )
        case pressure.VelocitySpiked():
            return events.VelocitySpiked(turn=turn, tokens=entry.tokens, baseline=entry.baseline)
        case pressure.AlertRaised():
            return events.AlertRaised(
                turn=turn,
                level=entry.level,
                metric=entry.metric,
                message=entry.message,
                remedy=entry.remedy,
            )
        case _:
            return _window_change(line)


def _window_change(line: Line) -> events.WindowChanged | None:
    match line.entry:
        case window.Pinned(pinned_turn=turn):
            detail = f"turn {turn} is pinned"
        case window.Unpinned(pinned_turn=turn):
            detail = f"turn {turn} may leave again"
        case window.Restored(turns=turns):
            detail = f"back in the window: turns {', '.join(map(str, turns))}"
        case window.Rewound(to_turn=turn):
            detail = f"the conversation goes on after turn {turn}"
        case window.WindowRepaired(why=why):
            detail = why
        case window.HeadShortened(summaries=summaries, handoff=handoff):
            gone = [f"{len(summaries)} summaries"] if summaries else []
            gone += ["the handoff"] if handoff is not None else []
            detail = f"{' and '.join(gone)} left the prompt for want of room; history has them"
        case window.ModeChanged(mode=mode):
            detail = f"mode {mode}"
        case window.PolicyChanged(policy=policy):
            detail = f"policy {policy}"
        case _:
            return None
    return events.WindowChanged(turn=line.turn, entry=line.id, kind=line.kind, detail=detail)
