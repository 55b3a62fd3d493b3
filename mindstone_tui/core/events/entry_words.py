"""The words for entries that no event stands for: what was noted, decided and kept in order."""

from __future__ import annotations

from mindstone_tui.core.entries import (
    Entry,
    Unknown,
    conversation,
    derived,
    store,
    window,
)
from mindstone_tui.core.numbers import percent, tokens
from mindstone_tui.core.text import one_line, plural


def words_of(entry: Entry | Unknown) -> tuple[str, str] | None:
    """What happened and a detail; None for an entry that has an event."""
    return _of_talk(entry) or _of_record(entry)


def _of_talk(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case conversation.SessionOpened(agent=agent, main=main, forked_from=fork):
            return f"Session {agent}:{main} opened", f"forked from {fork.session}" if fork else ""
        case conversation.TurnStarted(origin=origin):
            return "Turn started", origin
        case conversation.ClientMatched(format=name, known=known, adopted=adopted, action=action):
            text = f"Matched with what a client sent ({name}): {action}"
            return text, f"{plural(known, 'message')} known, {adopted} taken over"
        case conversation.ToolAsked(name=name, shown=shown):
            return f"Approval asked for: {name}: {one_line(shown, 160)}", ""
        case conversation.ToolAnswered(allowed=allowed, why=why):
            return "Answered: yes" if allowed else "Answered: no", why
        case conversation.ToolApproved(by="person", remember=remember):
            return "You approved this", f"remembered for this {remember}" if remember else ""
        case conversation.ToolApproved(by=by, rule=rule):
            return f"Approved by {by}", rule
        case conversation.ToolRefused(by="person", why=why):
            return "You declined this", "" if "by the user" in why else why
        case conversation.ToolRefused(by=by, why=why):
            return f"Declined by {by}", why
        case conversation.SideRequestSent(purpose=purpose, model=model):
            return f"Side request to {model}: {purpose}", ""
        case window.PromptPlanned(purpose=purpose, model=model) if purpose:
            return f"Side request to {model}: {purpose}", ""
        case conversation.MessageCut(target=target, tokens_before=before, tokens_after=after):
            text = f"Message at line {target} shortened · {tokens(before)} → {tokens(after)} tokens"
            return text, "full text kept in the transcript"
        case window.RoomStepTaken(step=step, tokens_before=before, tokens_after=after) as taken:
            named = f"{step.replace('_', ' ')} ({taken.strategy})" if taken.strategy else step
            kept = "" if taken.fidelity is None else f"; {taken.fidelity:.0%} of the facts kept"
            cost = plural(taken.calls, "model call")
            text = f"Room made by {named} · {tokens(before)} → {tokens(after)} tokens"
            return text, f"{cost}{kept}{'; ' if taken.why else ''}{taken.why}"
        case derived.Delegated(task=task, child=child):
            return f"Delegated to {child}: {task}", ""
        case derived.TaskStarted(title=title):
            return f"Task started: {title}", ""
        case derived.TaskDone(title=title, summary=summary):
            return f"Task done: {title}", summary
        case derived.NoteTaken(category=category, text=text):
            return f"Note ({category}): {text}", ""
        case derived.MemoryDigested(files=files):
            return f"From approved memory: {', '.join(files)}", ""
        case derived.MemoryDecided(proposal=proposal, decision=decision, by=by):
            return f"Memory {proposal} {decision}", f"by {by}"
    return None


def _of_record(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case derived.RecallDropped(entry=source, from_session=session):
            return f"Recalled passage dropped: {source}", session
        case derived.RecallUsed(used=used, unused=unused):
            total = plural(len(used) + len(unused), "recalled passage")
            return f"The answer used {len(used)} of {total}", ""
        case derived.HandoffReplayed():
            return "Handoff loaded", ""
        case derived.BackfillChecked(unindexed=waiting):
            return f"{plural(waiting, 'exchange')} waiting to be indexed", ""
        case derived.Consolidated(through=through, proposals=proposals):
            found = plural(len(proposals), "memory proposed", "memories proposed")
            return f"History reviewed up to line {through} · {found}", ""
        case window.Forked(child=child, at=at):
            return f"Forked to {child} at line {at}", ""
        case window.InstructionsChanged(sections=sections):
            return f"System prompt set · {plural(len(sections), 'section')}", ""
        case window.ToolsChanged(tools=tools):
            return f"{plural(len(tools), 'tool')} offered to the model", ""
        case window.WindowCarried():
            return "Window state saved", ""
        case window.HealthMeasured(utilization=share):
            return f"Health measured · {percent(share)} full", ""
        case store.TailRecovered(length=length, copy=copy):
            return f"An incomplete last line ({length} bytes) was moved aside", copy
        case store.FileReplaced():
            return "Another program replaced the transcript file", ""
        case store.ProjectTrusted(folder=folder):
            return f"Folder trusted: {folder}", ""
    return None
