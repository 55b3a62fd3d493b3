"""Handing a piece of work to a sub-agent with a clean window and a transcript of its own.

Here it is planned, limited, bounded and linked; the session runs the child. Its report is kept
whole in the transcript. What the delegating model reads of it takes at most 2,000 tokens: all of
it, else its beginning with what is left out counted and pointed at. Nobody rewrites it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindstone_tui.core.config.settings import ToolSettings
from mindstone_tui.core.context.summaries import DELEGATED_RESULT
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.entries import Part
from mindstone_tui.core.entries.derived import Delegated, DelegationEnded
from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.paths import CHILD, SessionKey
from mindstone_tui.core.text import as_data, fresh_nonce

DESCRIPTION: Final = (
    "Hand a self-contained piece of work to a sub-agent with an empty window of its own. Use it "
    "for ten or more tool calls whose output you will not need again (search a large code base, "
    "read many files, compare many results) and an answer that fits on a page. Not for fewer than "
    "five calls, for work that depends on this conversation or on a person's decision, or when you "
    "need the raw output. Say in `task` what to find out and in what form to report."
)
READERS: Final = ("read", "list", "glob", "grep", "recall", "read_entry")
NEVER: Final = frozenset({"delegate", "remember", "note"})
"""Tools that a sub-agent is not offered: no agents of its own, no words in another's memory."""


_DEFAULTS: Final = ToolSettings()


class DelegationLimits(Part):
    """What a sub-agent may use up."""

    tokens: int = _DEFAULTS.delegate_tokens
    calls: int = _DEFAULTS.delegate_calls
    """Model calls."""
    result_tokens: int = DELEGATED_RESULT
    seconds: float = _DEFAULTS.delegate_timeout
    depth: int = 1
    """How deep sub-agents may stand below a person's session."""
    together: int = 2
    """Sub-agents at the same time."""


class Delegation(Part):
    """One piece of work that was handed over."""

    task: str
    context: str
    parent: str
    child: SessionKey
    call: str
    tools: tuple[str, ...]
    limits: DelegationLimits

    def entry(self) -> Delegated:
        """What the parent's transcript remembers."""
        return Delegated(task=self.task, child=str(self.child), call=self.call)

    def message(self, nonce: str = "") -> str:
        """The first and only message that the child gets."""
        parts = [
            "You were given one piece of work by another assistant. Nobody can answer questions.",
            f"The work:\n{self.task}",
            f"Report in at most {self.limits.result_tokens * 3 // 4} tokens: the answer first, "
            "then the findings with the paths, names and numbers they rest on, then what stayed "
            "open.",
        ]
        if self.context:
            data = as_data(
                self.context, origin="the delegating agent", nonce=nonce or fresh_nonce()
            )
            parts.insert(2, f"What you need to know:\n{data}")
        return "\n\n".join(parts)


class Spent(Part):
    """What a sub-agent has used so far."""

    tokens: int = 0
    calls: int = 0
    seconds: float = 0.0
    cost: float | None = None


class Brought(Part):
    """What a sub-agent brought back."""

    whole: str
    text: str
    """As much of it, from the beginning, as its room takes; whole lines."""
    tokens: int

    @property
    def left_out(self) -> str:
        """What is not shown, counted; empty when all of it is."""
        if self.text == self.whole:
            return ""
        lines, shown = len(self.whole.splitlines()), len(self.text.splitlines())
        if lines > 1:
            return f"{lines - shown:,} of {lines:,} lines"
        return f"{len(self.whole) - len(self.text):,} of {len(self.whole):,} characters"


def plan(
    task: str,
    context: str,
    *,
    parent: SessionKey,
    call: str,
    available: Sequence[str],
    wanted: Sequence[str] = READERS,
    limits: DelegationLimits | None = None,
    depth: int = 0,
    running: int = 0,
) -> Delegation:
    """A delegation within its limits; raises `ToolError` when there can be none."""
    bounds = limits or DelegationLimits()
    if not task.strip():
        raise ToolError("There is nothing to delegate.", "Say in `task` what is to be found out.")
    if depth >= bounds.depth:
        raise ToolError("A sub-agent has no sub-agents.", "Do the work here.")
    if running >= bounds.together:
        raise ToolError(f"{running} sub-agents are already at work.", "Wait for one of them.")
    tools = tuple(name for name in wanted if name in available and name not in NEVER)
    return Delegation(
        task=task.strip(),
        context=context.strip(),
        parent=str(parent),
        child=SessionKey(parent.agent, f"{parent.main}{CHILD}{call}"),
        call=call,
        tools=tools,
        limits=bounds,
    )


def exceeded(limits: DelegationLimits, spent: Spent) -> str:
    """Which limit a sub-agent has reached, in words; nothing while it may go on."""
    for used, most, what in (
        (spent.tokens, limits.tokens, "tokens"),
        (spent.calls, limits.calls, "model calls"),
        (spent.seconds, limits.seconds, "seconds"),
    ):
        if used >= most:
            return f"it used {used:g} of {most:g} {what}"
    return ""


def bring_back(text: str, limits: DelegationLimits, count: Count) -> Brought:
    """The report, and as much of it as its room takes."""
    tokens = count(text)
    if tokens <= limits.result_tokens:
        return Brought(whole=text, text=text, tokens=tokens)
    room = limits.result_tokens - _POINTER_ROOM
    lines = text.splitlines(keepends=True)
    cut = lines if len(lines) > 1 else text
    low, high = 0, len(cut)
    while low < high:  # halving finds what fits in a few counts
        middle = (low + high + 1) // 2
        if count("".join(cut[:middle])) <= room:
            low = middle
        else:
            high = middle - 1
    shown = "".join(cut[:low]).rstrip() or text[: room * 2]
    return Brought(whole=text, text=shown, tokens=count(shown))


_POINTER_ROOM: Final = 80
"""Tokens for the sentence that says where the rest is."""


def ended(delegation: Delegation, brought: Brought, ending: str, spent: Spent) -> DelegationEnded:
    """What the parent's transcript remembers of the end."""
    return DelegationEnded(
        child=str(delegation.child),
        ending=ending,
        text=brought.whole,
        tokens=spent.tokens,
        cost=spent.cost,
    )


def result_text(
    delegation: Delegation, brought: Brought, ending: str, spent: Spent, entry: str
) -> str:
    """What the delegating model reads as the tool's result; `entry` holds the whole report."""
    cost = "" if spent.cost is None else f", ${spent.cost:.4f}"
    head = (
        f"The sub-agent {delegation.child} ended ({ending}) after {spent.calls} calls and "
        f"{spent.tokens} tokens{cost}. Its whole history can be recalled from that session."
    )
    if not brought.text:
        return f"{head}\nIt brought nothing back."
    if not brought.left_out:
        return f"{head}\n\n{brought.text}"
    rest = f"[{brought.left_out} are not shown. The whole report is entry {entry}: read_entry.]"
    return f"{head}\n\n{brought.text}\n{rest}"
