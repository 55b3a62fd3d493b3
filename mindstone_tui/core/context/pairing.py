"""Which result belongs to which call, and what must not be sent because its half is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from mindstone_tui.core.entries import Line, Message
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned


class Pairing(msgspec.Struct, frozen=True):
    """Calls and results brought together."""

    results: dict[int, list[Line]]
    """Assistant message → its results, in the order of its calls."""
    unpaired: tuple[int, ...]
    """Messages that cannot be sent: a call lacks its result, or a result its call."""
    why: str


def pair(lines: Iterable[Line]) -> Pairing:
    """Bring every result to the newest message of its turn that asked for it.

    Call ids are only unique within an answer for some models, so the turn and the order count too.
    """
    asked: dict[tuple[int, str], Line] = {}
    found: dict[int, dict[str, Line]] = {}
    orphans: list[int] = []
    asking: list[tuple[Line, AssistantMessage]] = []
    for line in lines:
        entry = line.entry
        if isinstance(entry, AssistantMessage) and entry.calls:
            asking.append((line, entry))
            found[line.seq] = {}
            asked.update({(line.turn, call.id): line for call in entry.calls})
        elif isinstance(entry, ToolReturned):
            owner = asked.get((line.turn, entry.call))
            if owner is None or entry.call in found[owner.seq]:
                orphans.append(line.seq)
            else:
                found[owner.seq][entry.call] = line
    results: dict[int, list[Line]] = {}
    dangling: list[int] = []
    for line, answer in asking:
        ids = list(dict.fromkeys(call.id for call in answer.calls))
        have = found[line.seq]
        if len(ids) == len(answer.calls) == len(have):
            results[line.seq] = [have[call] for call in ids]
        else:
            dangling += [line.seq, *(result.seq for result in have.values())]
    return Pairing(results, tuple(sorted(orphans + dangling)), _why(orphans, dangling))


def _why(orphans: Sequence[int], dangling: Sequence[int]) -> str:
    reasons = []
    if dangling:
        reasons.append("a tool call has no result")
    if orphans:
        reasons.append("a tool result has no call")
    return " and ".join(reasons)


def first_unpaired(messages: Sequence[Message]) -> str | None:
    """What is wrong with a request's calls and results, or None when every pair is whole."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"the result {message['tool_call_id']} has no call before it"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return f"the call {min(waiting)} has no result"
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return f"the call {min(waiting)} has no result" if waiting else None
