"""What an editor is shown: events and lines of history as updates of the Agent Client Protocol.

Pure functions. Nothing is left out that a person decides by: a question carries exactly what will
run, and every number its label.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from mindstone_tui.core import events as ev
from mindstone_tui.core.bounded_json import mapping
from mindstone_tui.core.entries import Line, conversation
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.events.from_entry import events_of
from mindstone_tui.core.events.narrate import aside
from mindstone_tui.core.events.question import GRACE, answer_to, explain
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import as_written, inside, one_line
from mindstone_tui.core.values import picked

Update = dict[str, Any]

KINDS: Final = {
    **dict.fromkeys(("read", "read_entry", "list"), "read"),
    **dict.fromkeys(("write", "edit"), "edit"),
    **dict.fromkeys(("grep", "glob", "find", "recall"), "search"),
    "shell": "execute",
    "note": "think",
}
"""What our tools do, in the protocol's words; any other is `other`."""
STATUS: Final = {"ok": "completed"}
_PLAN: Final = {"planned": "pending", "in_progress": "in_progress", "done": "completed"}
_HUNK: Final = pattern_of(r"^@@ .*@@", re.MULTILINE)
_SHOWN: Final = 30_000
"""Characters of a tool's output that are sent while and after it runs."""


def text_chunk(kind: str, text: str) -> Update:
    """A piece of what somebody says or thinks."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def said_by_person(text: str) -> Update:
    """What a person said, here or on another surface."""
    return text_chunk("user_message_chunk", text)


def said_by_agent(text: str) -> Update:
    """More of the answer."""
    return text_chunk("agent_message_chunk", text)


def thought(text: str) -> Update:
    """More of the reasoning."""
    return text_chunk("agent_thought_chunk", text)


def tool_begins(call: str, name: str, shown: str, status: str) -> Update:
    """A call of a tool, and exactly what it is."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": call,
        "title": one_line(shown or name, 200),
        "kind": KINDS.get(name, "other"),
        "status": status,
        "content": [_text(shown)] if shown else [],
        "rawInput": {"tool": name, "shown": shown},
    }


def tool_output(call: str, output: str) -> Update:
    """What a tool printed so far."""
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call,
        "status": "in_progress",
        "content": [_text(output[-_SHOWN:])],
    }


def tool_ends(call: str, status: str, text: str, diff: str, elapsed: float) -> Update:
    """A result, with the change it made."""
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call,
        "status": STATUS.get(status, "failed"),
        "content": [*diffs(diff), *([_text(inside(text)[:_SHOWN])] if text else [])],
        "rawOutput": {"status": status, "elapsed": elapsed},
    }


def diffs(text: str) -> Iterator[dict[str, Any]]:
    """A unified diff as the protocol has it: old and new text of each hunk, and the path."""
    path = ""
    old: list[str] = []
    new: list[str] = []

    def taken() -> Iterator[dict[str, Any]]:
        if path and (old or new):
            was = "\n".join(old) if old else None
            yield {"type": "diff", "path": path, "oldText": was, "newText": "\n".join(new)}

    for line in text.splitlines():
        if line.startswith("--- "):
            continue
        if line.startswith("+++ "):
            yield from taken()
            path, old, new = line[4:].removeprefix("b/").strip(), [], []
        elif _HUNK.match(line):
            yield from taken()
            old, new = [], []
        elif line.startswith("-"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith(" "):
            old.append(line[1:])
            new.append(line[1:])
    yield from taken()


def question(asked: ev.ToolAsked) -> dict[str, Any]:
    """A request for permission: exactly what runs, and every yes there is."""
    told = explain(asked)
    pieces = (told.heading, told.exact, "\n".join(told.rows), told.why)
    return {
        "toolCall": {
            "toolCallId": asked.call,
            "title": one_line(asked.shown.partition("\n")[0] or asked.name, 200),
            "kind": KINDS.get(asked.name, "other"),
            "status": "pending",
            "content": [_text("\n\n".join(filter(None, pieces))), *diffs(asked.diff)],
            "rawInput": {"tool": asked.name, "shown": asked.shown, "digest": asked.digest},
        },
        "options": [
            *(
                {
                    "optionId": f"allow-{number}",
                    "name": scope.label,
                    "kind": "allow_once" if scope.scope == "once" else "allow_always",
                }
                for number, scope in enumerate(told.scopes)
            ),
            {"optionId": "deny", "name": told.no, "kind": "reject_once"},
        ],
    }


CHOSEN: Final = "a choice"
"""How an editor answers: with a click, a key or by a rule of its person's, nobody can know."""
UNREAD: Final = "an answer faster than anybody reads"
_LEAST: Final = 0.001
"""Seconds: a record without any would not say how quick it was."""


def answer_of(asked: ev.ToolAsked, told: Any, seen: float) -> ev.Answer:
    """The person's word, from what the editor told; whatever is not a clear yes is a no.

    What has no outcome, an error say, is nobody's word. A yes that nobody can have read counts
    once, however far it would reach.
    """
    outcome = mapping(told).get("outcome")
    if not isinstance(outcome, dict):
        why = f"the editor could not ask: {one_line(str(told), 200)}"
        return ev.Answer(allowed=False, why=why, how=conversation.NOBODY, asked=asked.since)
    chosen = str(outcome.get("optionId", ""))
    why = "" if chosen == "deny" else "cancelled in the editor"
    how = "" if not chosen else CHOSEN if seen >= GRACE else UNREAD
    answer = answer_to(asked, chosen, why=why, how=how, seen=max(seen, _LEAST))
    if how == UNREAD:
        return msgspec.structs.replace(answer, remember="", keep="", granted="")
    return answer


def usage(report: ev.ContextReport) -> Update:
    """The one accounting: tokens of the next prompt, the window, and how each is known."""
    told: Update = {
        "sessionUpdate": "usage_update",
        "used": report.prompt.tokens,
        "size": report.window.tokens or report.usable,
        "_meta": {
            "mindstone": {
                "used_label": report.prompt.label,
                "size_label": report.window.label,
                **picked(report, "zone usable model"),
            }
        },
    }
    if report.cost is not None and not report.cost_unknown:
        told["cost"] = {"amount": report.cost, "currency": "USD"}
    return told


def plan(pieces: Sequence[tuple[str, str]]) -> Update:
    """The task's pieces as a plan."""
    entries = [
        {"content": title, "priority": "medium", "status": _PLAN.get(status, "pending")}
        for title, status in pieces
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def replayed(line: Line, standings: Standings) -> Iterator[Update]:
    """What an editor is shown of one line when it loads a session, with how the line stands."""
    said = list(_said(line))
    stands = standings.told(line)
    if stands and isinstance(line.entry, conversation.ToolReturned):
        said[0]["content"].append(_text(f"({', '.join(stands)})"))
    yield from said
    if said and stands and line.role in ("user", "assistant"):
        yield thought(f"The above: {', '.join(stands)}.\n")


def _said(line: Line) -> Iterator[Update]:
    match line.entry:
        case conversation.UserMessage(text=text, images=images):
            named = "".join(f"\n[picture {image.name}]" for image in images)
            yield said_by_person(as_written(text) + named)
        case conversation.AssistantMessage(text=text, thinking=thinking):
            for each in thinking:
                if each.text:
                    yield thought(each.text)
            if text:
                yield said_by_agent(text)
        case conversation.AssistantPartial(text=text) if text:
            yield said_by_agent(text)
        case conversation.ToolCalled(call=call, name=name, shown=shown):
            yield tool_begins(call, name, shown, "in_progress")
        case conversation.ToolReturned() as gave:
            yield tool_ends(gave.call, gave.status, gave.text, gave.diff, gave.elapsed)
        case conversation.TurnEnded():
            yield from filter(None, map(noted, events_of(line)))


def noted(event: ev.AnyEvent) -> Update | None:
    """What stands beside the conversation elsewhere, as a thought: recall, what left, alerts."""
    if isinstance(event, ev.RecallInjected):
        named = ", ".join(
            f"{one.session} line {one.seq}" if one.seq >= 0 else one.entry for one in event.passages
        )
        return thought(f"Recalled: {named}\n")
    line = aside(event)
    return thought(f"{line}\n") if line is not None else None


def _text(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}
