"""The session that every fault is tried on: short lines, long ones, blobs, NULs, batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mindstone_tui.core.entries import Draft, Entry, Line
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.transcript import History, Transcript


def entries(turns: int, *, huge: bool = True) -> Iterator[list[tuple[Entry, int]]]:
    """What is appended, step by step; a step of several entries is one write."""
    for turn in range(1, turns + 1):
        call = f"call_{turn}"
        yield [
            (TurnStarted(), turn),
            (UserMessage(text=f"question {turn} — ünï\u2028cödé " + "x" * 1_100), turn),
            (ToolCalled(call=call, name="read", shown="read x", digest="0" * 64), turn),
        ]
        yield [(ToolReturned(call=call, name="read", text=_result(turn, huge)), turn)]
        yield [(AssistantMessage(text=f"answer {turn} " + "y" * (turn * 37 % 900)), turn)]
        yield [(TurnEnded(ending="done"), turn)]


def _result(turn: int, huge: bool) -> str:
    if huge and turn % 10 == 3:
        return f"result {turn} " + "0123456789" * 120_000
    if turn % 10 == 5:
        return f"result {turn} \x00 binary \ud800"
    return f"result {turn} " + "z" * (turn * 613 % 7_000)


def told(transcript: Transcript, turns: int, *, huge: bool = True) -> Iterator[list[Line]]:
    """Append the story; each step is handed over when it is acknowledged."""
    for step in entries(turns, huge=huge):
        yield transcript.append_all(
            [Draft(entry=entry, turn=turn, channel="test") for entry, turn in step]
        )


def gist(line: Line) -> str:
    """What the line is about, the same before and after it was written."""
    return gist_of(line.entry, line.turn)


def gist_of(entry: object, turn: int) -> str:
    """Kind, turn and how its text begins."""
    text = getattr(entry, "text", "")
    return f"{type(entry).__name__}/{turn}/{text[:9]}"


def script(turns: int, *, huge: bool = True) -> list[str]:
    """The gist of every line the story writes, in order."""
    return [gist_of(entry, turn) for step in entries(turns, huge=huge) for entry, turn in step]


BOOKKEEPING = frozenset({"session_opened", "tail_recovered", "file_replaced"})


def lines_of(history: History) -> list[Line]:
    """Every line; a damaged one is a failure."""
    found = list(history.read())
    assert all(isinstance(item, Line) for item in found), "a line cannot be read"
    return [item for item in found if isinstance(item, Line)]


def gists(lines: list[Line], keep: Callable[[Line], bool] = lambda line: True) -> list[str]:
    """The story as it stands in the transcript."""
    return [gist(line) for line in lines if line.kind not in BOOKKEEPING and keep(line)]
