"""One honest line for everything that happens to the window, the session or the turn.

The chat, the panel and the line mode all tell it in the same words. A `Told` carries foreign text
as it came; whoever draws it makes it inert.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mindstone_tui.core import events as ev
from mindstone_tui.core.text import plural
from mindstone_tui.core.values import Value
from mindstone_tui.tui import show

Tone = Literal["quiet", "window", "good", "warning", "error"]


_STANDING: Final = ("system_prompt", "tool_definitions")
"""Shares that do not grow by talking; the panel and `/budget` show them."""


class Told(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A line: a sign, what happened, and what can be done about it."""

    sign: str
    what: str
    hint: str = ""
    tone: Tone = "quiet"


def tell(event: ev.AnyEvent) -> Told | None:
    """The line for an event; None for those that have a picture of their own."""
    return _of_window(event) or _of_continuity(event) or _of_session(event)


def _shrunk(before: int, after: int) -> str:
    return f"{show.tokens(before)} → {show.tokens(after)} tokens"


def turns_of(event: ev.WindowPruned) -> str:
    """The exchanges that left, as runs: `3–14, 17`."""
    runs: list[list[int]] = []
    for turn in sorted(turn for left in event.left for turn in left.turns):
        if runs and runs[-1][1] + 1 == turn:
            runs[-1][1] = turn
        else:
            runs.append([turn, turn])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)


def _of_window(event: ev.AnyEvent) -> Told | None:
    match event:
        case ev.WindowPruned():
            count = plural(sum(left.exchanges for left in event.left), "exchange")
            return Told(
                sign="↥",
                what=f"{count} left the window: turn {turns_of(event)} · "
                f"{_shrunk(event.tokens_before, event.tokens_after)}",
                hint="indexed · /restore brings one back",
                tone="window",
            )
        case ev.PruneBlocked():
            return Told(
                sign="!",
                what=f"Nothing more may leave the window: {event.why}. {event.detail}".rstrip(),
                hint="/context shows what is protected",
                tone="warning",
            )
        case ev.ResultsTrimmed():
            count = plural(len(event.results), "tool result")
            shrunk = _shrunk(event.tokens_before, event.tokens_after)
            return Told(
                sign="✂",
                what=f"{count} shortened in the prompt · {shrunk} · whole in history",
                tone="window",
            )
        case ev.WindowChanged():
            detail = f" · {event.detail}" if event.detail else ""
            return Told(sign="◆", what=event.kind.replace("_", " ") + detail, tone="window")
        case ev.SummaryDerived():
            by = "without a model" if event.fallback else f"by {event.model}"
            return Told(
                sign="≈",
                what=f"Summary derived {by} ({event.strategy.replace('_', ' ')}) · "
                f"{_shrunk(event.tokens_before, event.tokens_after)} · the originals stay",
                tone="window",
            )
        case ev.ZoneChanged():
            return Told(
                sign="●",
                what=f"{event.before} → {event.after} · {show.percent(event.utilization)} full",
                tone="warning" if event.after in ("orange", "red") else "quiet",
            )
        case ev.ShareCrossed() if event.component not in _STANDING:
            name = event.component.replace("_", " ")
            word = {"hard": "over its share", "soft": "near its share", "free": "within its share"}
            used = f"{show.tokens(event.tokens)} of {show.tokens(event.limit)} tokens"
            return Told(sign="▪", what=f"{name} {word[event.after]} · {used}", hint="/budget")
        case ev.VelocitySpiked():
            return Told(
                sign="↗",
                what=f"The prompt grew by {show.tokens(event.tokens)} tokens at once; "
                f"{show.tokens(round(event.baseline))} is usual",
                tone="warning",
            )
        case ev.AlertRaised():
            return Told(
                sign="!",
                what=event.message,
                hint=event.remedy,
                tone="error" if event.level == "critical" else "warning",
            )
    return None


def _of_continuity(event: ev.AnyEvent) -> Told | None:
    match event:
        case ev.CheckpointSaved():
            return Told(sign="⚑", what=f"Checkpoint {event.version} saved", hint=event.path)
        case ev.HandoffWritten():
            return Told(sign="⚑", what="Handoff written", hint=event.path)
        case ev.DelegationEnded():
            return Told(
                sign="⑂",
                what=f"Sub-agent {event.child}: {event.ending} · "
                f"{show.tokens(event.tokens)} tokens · {show.dollars(event.cost)}",
            )
        case ev.InstructionOffered():
            return Told(
                sign="☆",
                what=f"This sounds like a lasting rule: {event.text}",
                hint=f"/pin turn {event.turn} keeps it in view",
            )
        case ev.MemoryProposed():
            return Told(
                sign="☆",
                what=f"A memory is proposed: {event.path}",
                hint="F6 or /memory decides; nothing is stored before",
            )
        case ev.MessageWithdrawn():
            return Told(sign="↩", what="Queued message taken back")
        case ev.ModelRetried():
            wait = show.seconds(event.wait)
            return Told(
                sign="↻", what=f"Try {event.attempt} in {wait}: {event.why}", tone="warning"
            )
        case ev.ModelChanged():
            return Told(sign="◇", what=f"{event.model} answers from here on", hint=event.note)
    return None


def _of_session(event: ev.AnyEvent) -> Told | None:
    match event:
        case ev.NotSaved():
            return Told(sign="✗", what=f"NOT SAVED: {event.what}", hint=event.remedy, tone="error")
        case ev.SavedAgain():
            count = plural(event.entries, "entry", "entries")
            return Told(sign="✓", what=f"Everything is on disk again ({count})", tone="good")
        case ev.Noticed():
            tones: dict[str, Tone] = {"info": "quiet", "warning": "warning", "error": "error"}
            return Told(sign="·", what=event.message, tone=tones[event.level])
        case ev.TurnEnded(ending="interrupted"):
            return Told(
                sign="■", what="Interrupted", hint="what was said so far is kept", tone="warning"
            )
        case ev.TurnEnded(ending="failed"):
            return Told(
                sign="✗", what=event.why or "The turn failed", hint=event.remedy, tone="error"
            )
    return None
