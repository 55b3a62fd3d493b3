"""Every event and every recorded line in words: the one place that writes them.

The app, the command line, replay, exports and `log` all show these words and choose only colour
and layout. A line is harmless on a terminal: one row, no control characters.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Entry, Line, Unknown, base, derived, window
from mindstone_tui.core.entries.conversation import NOBODY
from mindstone_tui.core.entries.standings import turns_in_words
from mindstone_tui.core.events import narrate_entry
from mindstone_tui.core.events.from_entry import events_of
from mindstone_tui.core.events.narrate_entry import (
    EventLine,
    Tone,
    always,
    call_line,
    decided,
    of_entry,
)
from mindstone_tui.core.numbers import days, dollars, percent, seconds, tokens
from mindstone_tui.core.text import as_written, one_line, plural
from mindstone_tui.core.transcript import Damaged

LONGEST: Final = 400
"""Characters of one line; whoever has less room cuts further."""
_FIXED_SHARES: Final = ("system_prompt", "tool_definitions")
"""Shares that do not grow with the conversation; the panel and `/budget` show them."""
_NOT_SAVED: Final = "NOT SAVED"
_SHARE_LEVELS: Final = {
    "hard": "over their share",
    "soft": "near their share",
    "free": "within their share",
}
_BLOCKED: Final = {
    "protected": "everything left is protected",
    "unindexed": "the rest is not indexed yet",
    "index unavailable": "the index is unavailable",
}
_TOOL_SIGNS: Final = {"ok": "✓", "refused": "⊘", "interrupted": "■"}
TOOL_WORDS: Final = {
    "asked": "approval needed",
    "running": "running",
    "ok": "done",
    "error": "failed",
    "refused": "declined",
    "interrupted": "interrupted",
    "timeout": "timed out",
}
"""How a call stands, in one word for every surface."""
_LEVELS: Final[dict[str, Tone]] = {
    "info": "note",
    "warning": "warning",
    "error": "error",
    "critical": "error",
}


def aside(event: ev.AnyEvent) -> EventLine | None:
    """The line to show beside the conversation; None if the event is shown in another form."""
    match event:
        case ev.ShareCrossed(component=component) if component in _FIXED_SHARES:
            return None
        case ev.TurnEnded(ending="done") | ev.RecallInjected() | ev.ContextReported():
            return None
        case ev.AlertsCleared():
            return None
        case ev.EntryAppeared(role="event", text=text) if text:  # decided elsewhere
            return describe(event)
        case ev.SessionReady() | ev.SessionClosed() | ev.EntryAppeared() | ev.AnswerDrafted():
            return None
        case ev.TurnEnded() | ev.ModelRetried() | ev.MessageWithdrawn() | ev.DelegationEnded():
            return describe(event)
        case ev.FilesChanged() | ev.ToolAnswered():
            return describe(event)
        case _:
            shown = isinstance(event, ev.TurnEvent | ev.ToolEvent | ev.CommandEvent)
            return None if shown else describe(event)


_BOOKKEEPING: Final = (
    *(ev.ResultsTrimmed, ev.WindowPruned, ev.SummaryDerived, ev.ZoneChanged, ev.ShareCrossed),
    *(ev.VelocitySpiked, ev.CheckpointSaved, ev.HandoffWritten, ev.FilesChanged, ev.ToolAnswered),
)


def _share_level(event: ev.ShareCrossed) -> str:
    """How full the share is, in words; results may take more than theirs before they act."""
    if event.tokens <= event.limit:
        return _SHARE_LEVELS[event.after]
    return "fewer, still over their share" if event.after == "free" else _SHARE_LEVELS["hard"]


def is_bookkeeping(event: ev.AnyEvent) -> bool:
    """Whether an event is the program's own housekeeping, which nobody has to act on."""
    calm = isinstance(event, ev.AlertRaised) and event.level != "critical"
    unsure = isinstance(event, ev.FilesChanged) and event.recovered
    return calm or (isinstance(event, _BOOKKEEPING) and not unsure)


def in_brief(events: Iterable[ev.AnyEvent], since: str = "") -> list[str]:
    """Pieces of bookkeeping, each in a few words; of what only stands somewhere, where it stands.

    A window that went yellow, red and yellow again is yellow now. `since` says what became of files
    that were changed.
    """
    told: dict[tuple[object, ...], str] = {}
    answers: list[ev.ToolAnswered] = []
    changed: list[ev.FilesChanged] = []
    for event in events:
        answers += [event] if isinstance(event, ev.ToolAnswered) else []
        changed += [event] if isinstance(event, ev.FilesChanged) else []
        words = _counted(answers) if answers[-1:] == [event] else _brief(event)
        words = _changed(changed, since or _CAN_GO_BACK) if changed[-1:] == [event] else words
        match event:
            case ev.ZoneChanged() | ev.ToolAnswered() | ev.FilesChanged():
                topic: tuple[object, ...] = (type(event),)
            case ev.ShareCrossed(component=component):
                topic = (type(event), component)
            case _:
                topic = (words,)
        told.pop(topic, None)
        told[topic] = words
    return list(told.values())


def _counted(answers: Sequence[ev.ToolAnswered]) -> str:
    """All decisions of a turn in a few words, and what tells each of them."""
    yes = sum(each.allowed for each in answers)
    counted = ((yes, "allowed"), (len(answers) - yes, "declined"))
    told = ", ".join(f"{count} {word}" for count, word in counted if count)
    return f"{told} (/why turn {answers[-1].turn})"


_CAN_GO_BACK: Final = "/undo takes it back"


def _changed(changes: Sequence[ev.FilesChanged], since: str) -> str:
    """What a turn changed, each file once."""
    if len(changes) == 1:
        return f"{narrate_entry.how_many(changes[0])} changed, {since}"
    named = {
        one.path for each in changes for one in each.changes if not narrate_entry.is_folder(one)
    }
    count = len(named) + sum(each.total - len(each.changes) for each in changes)
    return f"{plural(count, 'file')} changed, {since}"


def _brief(event: ev.AnyEvent) -> str:
    """A piece of bookkeeping in two or three words, to stand beside others."""
    match event:
        case ev.WindowPruned(left=left):
            return _left(left)
        case ev.ShareCrossed(component=component):
            return f"{component.replace('_', ' ')} {_share_level(event)}"
        case _:
            return (always("in brief", event.tag, event) or describe(event)).text


def describe(event: ev.AnyEvent, since: str = "") -> EventLine:
    """Any event in words; `since` says what became of files that were changed."""
    told = _worded(event)
    if since and isinstance(event, ev.FilesChanged):
        told = msgspec.structs.replace(told, detail=since)
    return _tidy(told, event.tag)


def describe_line(line: Line | Damaged) -> EventLine:
    """Any line of a transcript in words: its event's, or its own where it has no event."""
    if isinstance(line, Line) and (own := of_entry(line.entry, line.channel)) is not None:
        return _tidy(own, line.kind)
    main = next(event for event in events_of(line) if not isinstance(event, ev.ThinkingDelta))
    told = describe(main)
    if isinstance(line, Line) and line.parent and isinstance(main, ev.FilesRestored):
        told = msgspec.structs.replace(told, detail="")  # a fork keeps no files to do it with
    if isinstance(line, Line) and isinstance(line.entry, base.ByHand) and line.entry.how:
        hand = decided(line.channel, line.entry.how, line.entry.seen)
        told = msgspec.structs.replace(told, text=f"{told.text}, {hand}")
    extra = _particulars(line.entry) if isinstance(line, Line) else ()
    return msgspec.structs.replace(told, more=(*told.more, *filter(None, extra)))


def _tidy(line: EventLine, name: str) -> EventLine:
    """One harmless row, never empty."""
    text = one_line(line.text, LONGEST) or name.replace("_", " ")
    return msgspec.structs.replace(line, text=text, detail=one_line(line.detail, LONGEST))


def turn_cost(event: ev.TurnEnded) -> str:
    """What a turn took: time, tool calls, tokens, money; empty if nothing was measured."""
    parts = []
    if event.elapsed:
        parts.append(seconds(event.elapsed))
    if event.tools:
        parts.append(plural(event.tools, "tool call"))
    if event.usage.completion is not None:
        parts.append(f"{tokens(event.usage.completion)} tokens out")
    if event.usage.cost is not None:
        parts.append(dollars(event.usage.cost))
    return " · ".join(parts)


def _worded(event: ev.AnyEvent) -> EventLine:
    if isinstance(event, ev.TurnEvent):
        return _of_turn(event)
    if isinstance(event, ev.ToolEvent):
        return _of_tool(event)
    if isinstance(event, ev.WindowEvent):
        return _of_window(event)
    if isinstance(event, ev.SessionEvent):
        return _of_session(event)
    return _of_memory_or_command(event)


def _as_always(event: ev.AnyEvent) -> EventLine:
    line = always("events", event.tag, event)
    assert line is not None, f"words.json has no words for {event.tag}"
    return line


def _of_turn(event: ev.TurnEvent) -> EventLine:
    match event:
        case ev.TurnStarted(resumed=True, turn=turn):
            return EventLine(text=f"Turn {turn} goes on.")
        case ev.TurnStarted(text=text):
            return EventLine(sign="❯", text=as_written(text))
        case ev.AnswerRecorded(text=text, calls=calls, partial=partial):
            said = text or (f"Calls {plural(calls, 'tool')}" if calls else "Empty answer")
            return EventLine(sign="●", text=said, detail="cut off here" if partial else "")
        case ev.UsageReported(model=model, usage=usage):
            known = [
                f"{tokens(count)} tokens {way}"
                for count, way in ((usage.prompt, "in"), (usage.completion, "out"))
                if count is not None
            ]
            return EventLine(text=" · ".join([f"Usage of {model}", *known]))
        case ev.MessageWithdrawn(text=text) if text:
            told = f"This was never sent, and is not going to be by itself: {one_line(text, 300)}"
            return EventLine(sign="↩", text=told, tone="warning")
        case ev.TurnEnded(ending="done"):
            return EventLine(sign="✓", text="Turn finished", detail=turn_cost(event), tone="good")
        case ev.TurnEnded(turn=turn, ending="interrupted", why=why, remedy=remedy):
            text = narrate_entry.cut_short(event)
            kept = remedy or ("what was said so far is kept" if turn else "no turn had begun")
            more = (why,) if why else ()
            return EventLine(sign="■", text=text, detail=kept, tone="warning", more=more)
        case ev.TurnEnded(why=why) if why.startswith(_NOT_SAVED):
            # `NotSaved` came before it and said why.
            return EventLine(sign="✗", text="The turn failed", tone="error")
        case ev.TurnEnded(remedy=remedy):
            text = narrate_entry.cut_short(event)
            return EventLine(sign="✗", text=text, detail=remedy, tone="error")
        case _:
            return _as_always(event)


def _of_tool(event: ev.ToolEvent) -> EventLine:
    match event:
        case ev.ToolAsked(name=name, shown=shown):
            return EventLine(sign="?", text=f"Approval needed: {call_line(name, shown)}")
        case ev.ToolAnswered(how=how, why=why) if how == NOBODY:
            return EventLine(text=f"Not answered, and not run: {why}")
        case ev.ToolAnswered(allowed=allowed, why=why, how=how, seen=seen, granted=wide):
            where = decided(event.channel, how, seen)
            text = f"{'Allowed' if allowed else 'Declined'} {where}{f': {wide}' if wide else ''}"
            return EventLine(text=text, detail="" if "by the user" in why else why)
        case ev.ToolStarted(name=name, shown=shown):
            return EventLine(sign="→", text=call_line(name, shown))
        case ev.ToolEnded(name=name, status=status, finding=finding, text=text):
            tone: Tone = "good" if status == "ok" else "warning"
            found = one_line(finding or text, 160) or TOOL_WORDS[status]
            return EventLine(sign=_TOOL_SIGNS.get(status, "✗"), text=f"{name}: {found}", tone=tone)
        case ev.FilesChanged(name=name, unkept=unkept, recovered=unsure):
            lost = f"; {unkept} cannot be undone" if unkept else ""
            who = f"{name}, which was cut short, or by somebody since" if unsure else name
            return EventLine(
                sign="✎",
                text=f"{narrate_entry.how_many(event)} changed by {who}: {_paths(event)}",
                detail=f"/undo {'asks about each' if unsure else 'takes it back'}{lost}",
                tone="warning" if unkept else "note",
            )
        case ev.FilesRestored():
            return narrate_entry.taken_back(event)
        case _:
            return _as_always(event)


def _paths(event: ev.FilesChanged) -> str:
    """The first few paths of a change."""
    known = [each.path for each in narrate_entry.named_in(event)]
    return ", ".join([*known[:3], *(["…"] if max(len(known), event.total - 50) > 3 else [])])


def recalled_from(passages: Sequence[derived.RecalledPassage]) -> str:
    """`3 passages from 3–9 February`: how many, and from which days."""
    count = plural(len(passages), "passage")
    when = days(*sorted(each.ts for each in passages if each.ts))
    return f"{count} from {when}" if when else count


def _of_window(event: ev.WindowEvent) -> EventLine:
    match event:
        case ev.RecallInjected(passages=passages, tokens=used, left_out=more):
            count = plural(len(passages), "passage")
            full = f" · {more} weaker left out, memory's share is full" if more else ""
            return EventLine(
                sign="↺",
                text=f"{count} recalled · {tokens(used)} tokens{full}",
                detail=_sources(passages),
            )
        case ev.WindowPruned():
            return _pruned(event)
        case ev.PruneBlocked(why=why, detail=detail):
            return EventLine(
                sign="!",
                text=f"Could not free enough of the window: {_BLOCKED.get(why, why)}",
                detail=f"{detail} /context shows what is protected".strip(),
                tone="warning",
            )
        case ev.ResultsTrimmed(results=results):
            count = plural(len(results), "tool result")
            return EventLine(
                sign="✂",
                text=f"{count} shortened in the prompt · {_shrunk(event)}",
                detail="full text kept in the transcript",
                more=tuple(f"line {one.result}: {one.reason}" for one in results if one.reason),
            )
        case ev.WindowChanged(kind=kind, detail=detail):
            text = detail[:1].upper() + detail[1:] if detail else kind.replace("_", " ")
            return EventLine(sign="◆", text=text)
        case ev.SummaryDerived(fallback=fallback, model=model, strategy=strategy):
            by = "without a model" if fallback else f"by {model}"
            return EventLine(
                sign="≈",
                text=f"Summary derived {by} ({strategy.replace('_', ' ')}) · {_shrunk(event)}",
                detail="the originals stay in the transcript",
            )
        case ev.ContextReported(report=report):
            room = f"{tokens(report.prompt.tokens)} of {tokens(report.usable)} tokens"
            return EventLine(text=f"Context window {percent(report.utilization)} full · {room}")
        case _:
            return _of_pressure(event)


Pressure = ev.ZoneChanged | ev.ShareCrossed | ev.VelocitySpiked | ev.AlertRaised | ev.AlertsCleared


def _of_pressure(event: Pressure) -> EventLine:
    match event:
        case ev.ZoneChanged(before=before, after=after, utilization=share):
            relief = base.ZONES.index(after) < base.ZONES.index(before)
            worse = after in ("orange", "red") and not relief
            return EventLine(
                sign="✓" if relief else "●",
                text=f"Context window {before} → {after} · {percent(share)} full",
                tone="good" if relief else "warning" if worse else "note",
            )
        case ev.ShareCrossed(component=component, after=after, tokens=used, limit=limit):
            name = component.replace("_", " ").capitalize()
            fits = after == "free" and used <= limit
            return EventLine(
                sign="✓" if fits else "▪",
                text=f"{name} {'back ' if fits else ''}{_share_level(event)} · "
                f"{tokens(used)} of {tokens(limit)} tokens",
                detail="" if fits else "/budget",
                tone="good" if fits else "note",
            )
        case ev.AlertRaised(level=level, message=message, remedy=remedy):
            good = level == "info" and not remedy  # what is over needs no remedy
            return EventLine(
                sign="✓" if good else "·" if level == "info" else "!",
                text=message,
                detail=remedy,
                tone="good" if good else _LEVELS[level],
            )
        case _:
            return _as_always(event)


_BY_THEMSELVES: Final = ("ceiling", "velocity", "spike", "emergency", "manual", "import")
"""What makes exchanges leave without anything in their place."""


def _pruned(event: ev.WindowPruned) -> EventLine:
    named = narrate_entry.turn_names(left.turns for left in event.left)
    # What an import left out of the window was not counted, but estimated from its length.
    about = "about " if event.trigger == "import" else ""
    each = [
        f"turn {left.name}: {about}{left.tokens:,} tokens, {left.reason}, score {left.score:.2f}"
        + (f", {plural(left.receipt.passages, 'passage')} read back" if left.receipt else "")
        for left in event.left
    ]
    # Where a summary takes their place, the figure would leave that out.
    size = f" · {about}{_shrunk(event)}" if event.trigger in _BY_THEMSELVES else ""
    return EventLine(
        sign="↥",
        text=f"{_left(event.left)}: {named}{size}",
        detail="still searchable; /restore brings one back",
        more=(f"policy {event.policy}, trigger {event.trigger}", *each),
    )


def _left(left: Sequence[window.Left]) -> str:
    """How many exchanges left, and of how many some words are still shown."""
    part = len([each for each in left if each.kept])
    whole = sum(each.exchanges for each in left) - part
    if not whole:
        return f"{plural(part, 'exchange')} left the window in part"
    return f"{plural(whole, 'exchange')} left the window{f', and {part} in part' if part else ''}"


def _shrunk(event: ev.WindowPruned | ev.ResultsTrimmed | ev.SummaryDerived) -> str:
    return f"{tokens(event.tokens_before)} → {tokens(event.tokens_after)} tokens"


def _sources(passages: Iterable[derived.RecalledPassage]) -> str:
    """Where passages come from: turns, and files, which have none."""
    found = list(passages)
    turns = [each.turn for each in found if each.seq >= 0]
    files = {each.entry: None for each in found if each.seq < 0}
    return ", ".join([*([narrate_entry.turn_names(turns)] if turns else []), *files])


def _of_memory_or_command(event: ev.MemoryEvent | ev.CommandEvent) -> EventLine:
    match event:
        case ev.MemoryProposed(after=after, why=why):
            caution = one_line(why.partition("CAUTION: ")[2], 120)
            words = one_line(after.rpartition("\n---\n")[2], 160)
            return EventLine(
                sign="☆",
                text=f"Remember this? {words}" + (f" ({caution})" if caution else ""),
                detail="/keep (F6 asks in the app) keeps it for every session, /keep no does not",
            )
        case ev.CommandPrinted(command=command, text=text, ok=ok):
            said = f"{command}: {text}" if text else command
            return EventLine(sign="/", text=said, tone="note" if ok else "error")
        case ev.CommandEnded(command=command, ok=ok):
            end = "done" if ok else "failed"
            return EventLine(sign="/", text=f"{command}: {end}", tone="note" if ok else "error")
        case ev.ScreenAsked(screen=screen, otherwise=otherwise):
            return EventLine(text=otherwise or f"{screen} can only be opened in the app")
        case _:
            return _as_always(event)


def _of_session(event: ev.SessionEvent) -> EventLine:
    match event:
        case ev.SessionReady():
            said = turns_in_words(event.turns, event.rewound, event.before)
            return EventLine(text=f"{event.session} · {said}", detail=event.note)
        case ev.EntryAppeared(role="event", text=text) if text:
            return EventLine(text=text)
        case ev.EntryAppeared(kind=kind, channel=channel, text=text):
            what = f"{kind.replace('_', ' ').capitalize()} via {channel}"
            return EventLine(text=f"{what}: {text}" if text else what)
        case ev.NotSaved(what=what, remedy=remedy):
            text = what if what.startswith(_NOT_SAVED) else f"{_NOT_SAVED}: {what}"
            return EventLine(sign="✗", text=text, detail=remedy, tone="error")
        case ev.MessageReturned(text=text, path=path):
            kept = f"kept in {path}" if path else "copy it before you leave"
            return EventLine(sign="↩", text=f"Not sent: {text}", detail=kept, tone="error")
        case ev.Noticed(message=message, level=level):
            return EventLine(text=message, tone=_LEVELS[level])
        case _:
            return _as_always(event)


def _particulars(entry: Entry | Unknown) -> tuple[str, ...]:
    """What an entry says beyond its event."""
    match entry:
        case derived.SummaryDerived(text=text):
            return (text,)
        case window.Pinned(why=why):
            return (why,)
        case _:
            return ()
