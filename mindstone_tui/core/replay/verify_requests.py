"""Proof that every request ever sent can be rebuilt, byte for byte."""

from collections.abc import Iterator
from typing import Any

import msgspec

from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.context.plan import plans_of_turn, rebuild
from mindstone_tui.core.context.window_view import reader
from mindstone_tui.core.entries import Line, Request, conversation, window
from mindstone_tui.core.errors import MindstoneError, NoSuchEntry
from mindstone_tui.core.transcript import Damaged, History
from mindstone_tui.core.transcript.reader import with_blobs


class Mismatch(msgspec.Struct, frozen=True):
    """A request that could not be rebuilt as it was sent."""

    turn: int
    call: int
    seq: int
    hash: str
    recorded_hash: str
    why: str = ""


class Proof(msgspec.Struct, frozen=True):
    """How many requests of a session were rebuilt."""

    requests: int
    matched: int
    mismatched: tuple[Mismatch, ...]
    damaged: int = 0
    """Lines that could not be read; `verify` names them."""


class Rebuilt(msgspec.Struct, frozen=True):
    """One request of the past, and whether it is the one that was sent."""

    turn: int
    call: int
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    hash: str
    recorded_hash: str | None
    matches: bool | None
    model: str = ""
    tokens: int = 0


class SentRequest(msgspec.Struct, frozen=True):
    """A recorded request as the lines before it give it; None, and why, where they cannot."""

    line: Line
    request: Request | None
    why: str = ""

    @property
    def hash(self) -> str:
        return self.request.hash if self.request else ""


def requests_of(history: History) -> Iterator[SentRequest | Damaged]:
    """Every request of the session, rebuilt in one pass, and every line that cannot be read."""
    fold = Fold(reader(history))
    for item in history.read():
        if isinstance(item, Damaged):
            yield item
            continue
        line = with_blobs(item, history.places)
        if isinstance(line.entry, window.PromptPlanned):
            yield _planned(history, fold, line)
        elif isinstance(line.entry, conversation.SideRequestSent):
            side = line.entry
            yield SentRequest(line, Request(model=side.model, messages=side.messages))
        fold.add(line)


def prove(history: History) -> Proof:
    """Rebuild every request of the session and compare it with its recorded hash."""
    requests = matched = damaged = 0
    wrong: list[Mismatch] = []
    for sent in requests_of(history):
        if isinstance(sent, Damaged):
            damaged += 1
            continue
        entry = sent.line.entry
        assert isinstance(entry, window.PromptPlanned | conversation.SideRequestSent)
        requests += 1
        if (found := sent.hash) == entry.prompt_hash:
            matched += 1
        else:
            turn, seq, call = sent.line.turn, sent.line.seq, _call_of(sent.line)
            wrong.append(Mismatch(turn, call, seq, found, entry.prompt_hash, sent.why))
    return Proof(requests, matched, tuple(wrong), damaged)


def rebuilt_calls(history: History, turn: int, call: int | None = None) -> Iterator[Rebuilt]:
    """The requests of one turn; a turn that was imported never sent one."""
    if not (lines := history.turn(turn)):
        raise NoSuchEntry(f"There is no turn {turn}.", "`mindstone log --tail 5` shows the newest.")
    if not (plans := plans_of_turn(history, turn)):
        yield _unsent(history, turn, lines)
        return
    chosen = [line for line in plans if call is None or _call_of(line) == call]
    if not chosen:
        raise NoSuchEntry(
            f"Turn {turn} has no call {call}.", f"It has {len(plans)}; leave out --call for all."
        )
    for line in chosen:
        plan = line.entry
        assert isinstance(plan, window.PromptPlanned)
        yield _rebuilt(rebuild(history, line), turn, plan.call, plan)


def _call_of(line: Line) -> int:
    return line.entry.call if isinstance(line.entry, window.PromptPlanned) else 0


def _planned(history: History, fold: Fold, line: Line) -> SentRequest:
    try:
        return SentRequest(line, rebuild(history, line, fold))
    except MindstoneError as error:
        return SentRequest(line, None, error.what)


def _unsent(history: History, turn: int, lines: list[Line]) -> Rebuilt:
    """An imported turn as the request it would have been."""
    fold = Fold(reader(history))
    for line in lines:
        fold.add(history.whole(line))
    return _rebuilt(fold.request("", turn=turn), turn, 1, None)


def _rebuilt(request: Request, turn: int, call: int, plan: window.PromptPlanned | None) -> Rebuilt:
    found = request.hash
    return Rebuilt(
        turn=turn,
        call=call,
        messages=list(request.messages),
        tools=[msgspec.to_builtins(tool) for tool in request.tools],
        hash=found,
        recorded_hash=plan.prompt_hash if plan else None,
        matches=found == plan.prompt_hash if plan else None,
        model=request.model,
        tokens=plan.measure.tokens if plan and plan.measure else 0,
    )
