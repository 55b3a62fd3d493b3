"""What the chat page shows: events and lines as small values that a browser can draw.

Text that models wrote is rendered here, where nothing of it can become markup of its own; whatever
else the page gets is text, and drawn as text.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Line, conversation, derived, provenance
from mindstone_tui.core.entries.standings import CHANGES, Standings
from mindstone_tui.core.entries.window import Restored, Rewound
from mindstone_tui.core.events import from_entry, narrate, narrate_entry
from mindstone_tui.core.events.question import answer_to, explain
from mindstone_tui.core.interchange.export.html import prose
from mindstone_tui.core.library.open_questions import OpenQuestion, in_short
from mindstone_tui.core.text import as_written, inside, one_line
from mindstone_tui.core.values import picked

Item = dict[str, Any]
CHANNEL: Final = "web"
ANEW: Final[Item] = {"type": "anew"}
"""What counts of history has changed: the page is to be drawn again."""
_SHOWN: Final = 20_000
"""Characters of a tool's result on the page; history has all of it."""
_LONGEST_WHY: Final = 2_000
_LONGEST_SEEN: Final = 31_536_000.0
"""Seconds: no browser has had a question in view for longer than a year."""


def items_of(event: ev.AnyEvent) -> Iterator[Item]:
    """What one event of the page's own session adds to the page."""
    match event:
        case ev.TurnStarted(resumed=True):  # history showed what was asked
            return
        case ev.TurnStarted(text=text, turn=turn):
            marks = [provenance.MARK] if event.imported else []
            told = {"text": as_written(text), "turn": turn, "marks": marks}
            yield {"type": "user", "entry": event.entry, "queued": event.queued, **told}
        case ev.TextDelta(text=text) | ev.AnswerDrafted(text=text):
            yield {"type": "delta", "text": text}
        case ev.ThinkingDelta(text=text):
            yield {"type": "thought", "text": text}
        case ev.AnswerRecorded(text=text) if text:
            told = {"html": prose(text), "partial": event.partial}
            yield {"type": "answer", "entry": event.entry, **told}
        case ev.ToolAsked():
            yield question(event)
        case ev.ToolAnswered():
            yield answered(event)
        case ev.ToolStarted(call=call, name=name, shown=shown):
            yield tool(call, name, shown, "running")
        case ev.ToolOutput(call=call, text=text):
            yield {"type": "output", "call": call, "text": text[-_SHOWN:]}
        case ev.ToolEnded() as end:
            told = tool(end.call, end.name, end.shown, end.status)
            yield {**told, "text": inside(end.text)[:_SHOWN], "diff": end.diff[:_SHOWN]}
        case ev.RecallInjected(passages=passages):
            yield recall(passages)
        case ev.ContextReported(report=report):
            yield panel(report)
        case ev.MessageQueued(entry=queued, text=text):
            yield {"type": "queued", "queued": queued, "text": as_written(text)}
        case ev.MessageWithdrawn(entry=queued, text=text):
            yield {"type": "withdrawn", "queued": queued, "text": text}
        case ev.MessageSteered(queued=queued):
            yield {"type": "withdrawn", "queued": queued, "text": ""}
        case ev.CommandPrinted(text=text) if text:
            yield {"type": "printed", "text": text}
        case ev.ScreenAsked(otherwise=text) if text:
            yield {"type": "printed", "text": text}
        case ev.TurnEnded(ending=ending, why=why, remedy=remedy):
            yield {"type": "ended", "ending": ending, "why": f"{why} {remedy}".strip()}
        case ev.WindowChanged(kind=kind) if kind in CHANGES:
            yield ANEW
        case ev.FilesRestored():
            yield ANEW
        case ev.EntryAppeared() | ev.CommandEnded():
            return
        case _:
            line = narrate.aside(event)
            if line is not None and not narrate.is_bookkeeping(event):
                yield {"type": "note", "text": str(line), "tone": line.tone}


def items_of_line(line: Line, standings: Standings) -> Iterator[Item]:
    """What a line of history adds to the page, whoever wrote it, with how it stands."""
    told: Item = {"line": line.seq, "entry": line.id, "marks": standings.told(line, but=())}
    match line.entry:
        case conversation.UserMessage(text=text, queued=queued):
            said = {"text": as_written(text), "turn": line.turn, "channel": line.channel}
            yield {"type": "user", "queued": queued, **said, **told}
        case conversation.AssistantMessage(text=text, thinking=thinking):
            for each in thinking:
                if each.text:
                    yield {"type": "thought", "text": each.text}
            if text:
                yield {"type": "answer", "html": prose(text), **told}
        case conversation.AssistantPartial(text=text) if text:
            yield {"type": "answer", "html": prose(text), "partial": True, **told}
        case conversation.ToolCalled() | conversation.ToolAnswered():
            yield from _retold(line)
        case conversation.ToolReturned():
            yield from ({**item, "marks": told["marks"]} for item in _retold(line))
        case conversation.TurnEnded() | derived.RecallInjected() | Restored():
            yield from _retold(line)
        case Rewound() | derived.StatementSuperseded():
            yield from _retold(line)
        case conversation.MessageQueued() if line.channel == CHANNEL:
            yield from _retold(line)  # what waits elsewhere is taken back there
        case conversation.MessageWithdrawn():
            yield from _retold(line)
        case conversation.ToolAsked(call=call, name=name):
            yield {"type": "asked", "call": call, "name": name}
        case entry if decision := narrate_entry.decision_in(entry, line.channel):
            yield {"type": "note", "text": decision, "tone": "note", **told}


def _retold(line: Line) -> Iterator[Item]:
    return (item for event in from_entry.events_of(line) for item in items_of(event))


def tool(call: str, name: str, shown: str, state: str) -> Item:
    """A call of a tool and exactly what it is."""
    told = {"shown": shown, "state": state, "told": narrate.TOOL_WORDS[state]}
    return {"type": "tool", "call": call, "name": name, **told}


def question(asked: ev.ToolAsked) -> Item:
    """A question about a tool, with every answer there is."""
    told = explain(asked)
    options = [
        {"id": f"allow-{number}", "label": scope.label} for number, scope in enumerate(told.scopes)
    ]
    declines = [{"id": "deny", "label": told.no}]
    if asked.risk != "message":
        declines.append({"id": "why", "label": "Decline and say why"})
    return {
        "type": "ask",
        **picked(asked, "call name worst channel since folder"),
        **picked(told, "heading why diff shown=exact parts=rows"),
        "options": [*options, *declines],
    }


def answered(event: ev.ToolAnswered) -> Item:
    """How a question was decided, and where."""
    told = picked(event, "call allowed channel why asked")
    return {"type": "answered", **told, "text": str(narrate.describe(event)).lstrip("· ")}


def answer_of(asked: ev.ToolAsked, told: Item) -> ev.Answer:
    """The person's word; whatever is not a yes that was offered is a no."""
    (how, seen), choice = hand_of(told), str(told.get("choice", ""))
    why = one_line(str(told.get("why") or ""), _LONGEST_WHY)
    return answer_to(asked, choice, why=why, how=how or "button", seen=seen)


def hand_of(told: Item) -> tuple[str, float]:
    """What a person did, and for how long they had seen why, as the browser says it."""
    return one_line(str(told.get("how") or ""), 20), seconds(told.get("seen"))


def seconds(said: object) -> float:
    """A time that a browser names, if it is one."""
    return min(max(float(said), 0.0), _LONGEST_SEEN) if isinstance(said, int | float) else 0.0


def waiting(found: Sequence[OpenQuestion], now: datetime) -> Item:
    """What waits for a decision in any session, and how the very thing is put and decided there."""
    listed = [
        {
            "session": one.session,
            "text": one.sentence(now),
            "how": one.how(one.session),
            "ask": None if one.kind == "approval" else _put(one, now),
        }
        for one in found
    ]
    return {"short": in_short(found, now).replace("`", ""), "waiting": listed}


def _put(one: OpenQuestion, now: datetime) -> Item:
    """What is no question about a tool, as one with the commands that decide it."""
    commands = {"allow-0": one.command(yes=True), "deny": one.command(yes=False)}
    return {**question(one.as_asked(now)), "call": one.mark, "commands": commands}


def recall(passages: Any) -> Item:
    """What was brought back, each with the way to its source."""
    cards = [
        {
            **picked(one, "session line=seq date=ts speaker"),
            "text": one_line(inside(one.text), 400),
            "score": round(one.score, 2),
            "replaced": ", ".join(one.marks),
        }
        for one in passages
    ]
    return {"type": "recall", "cards": cards}


def panel(report: ev.ContextReport) -> Item:
    """The one accounting, as the panel shows it."""
    return {
        "type": "panel",
        **picked(report, "model zone usable"),
        **picked(report.prompt, "tokens label"),
        "window": report.window.tokens,
        "utilization": round(report.utilization, 4),
        "shares": [
            {"name": one.name.replace("_", " "), "tokens": one.tokens, "limit": one.limit}
            for one in report.components
        ],
        "outside": picked(report.outside, "count tokens rewound"),
        "left": [picked(one, "turn=name tokens why=reason") for one in report.left],
        "warnings": list(report.warnings),
    }
