"""What does not fit: one oversized message is shortened, anything else is refused in a sentence."""

from collections.abc import Container, Sequence
from functools import partial
from typing import Final

from mindstone_tui.core.context import measure, messages, report, window
from mindstone_tui.core.context.exchanges import CURRENT, PINNED, TASK, exchanges
from mindstone_tui.core.context.window_view import Call
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage, MessageCut, ToolReturned
from mindstone_tui.core.entries.window import Trimmed
from mindstone_tui.core.errors import DoesNotFit
from mindstone_tui.core.tokens import MESSAGE_OVERHEAD


def trimmable(
    measured: measure.Measured, *, trimmed: Container[int], spared: Container[int], keep: int
) -> list[tuple[Line, int]]:
    """Results that a later model call already answered, oldest first.

    The newest few are not among them, nor those of spared turns: pinned ones and, as long as it
    fits, the running one.
    """
    found: list[tuple[Line, int]] = []
    answered = -1
    for piece, size in measured.sized:
        if piece.line is None:
            continue
        if isinstance(piece.line.entry, AssistantMessage):
            answered = max(answered, piece.line.seq)
        elif isinstance(piece.line.entry, ToolReturned):
            found.append((piece.line, size))
    return [
        (line, size)
        for line, size in found[: max(len(found) - keep, 0)]
        if line.seq < answered and line.seq not in trimmed and line.turn not in spared
    ]


def freed_by(taken: Sequence[Trimmed]) -> int:
    """Tokens that these placeholders save."""
    return sum(each.tokens_before - each.tokens_after for each in taken)


SMALLEST_CUT: Final = 128
"""Tokens below which no message is shortened."""
TASK_SHARE: Final = 10.0
"""Percent of the usable room that the original task may keep once its turn is over."""


async def cut_oversized(live: window.LiveWindow, call: Call, marks: report.Marks) -> list[Line]:
    """Shorten what is too large for any window: messages of the current exchange, and the task."""
    measured = live.measure(call)
    if measured.total <= marks.emergency:
        return []
    state = live.fold.state
    sizes = {
        piece.line.seq: size
        for piece, size in measured.sized
        if piece.line is not None
        and piece.line.seq not in state.trimmed
        and (piece.line.turn == call.turn or piece.line.seq == live.fold.task)
    }
    cap = _cap(list(sizes.values()), measured.total - marks.ceiling)
    if cap is None:
        return []
    lines = []
    for seq, size in sizes.items():
        if size > cap:
            line = live.fold.lines[seq]
            lines += await _cut_one(live, call, line, size, cap, measured.factor)
    return lines


async def cut_task(live: window.LiveWindow, call: Call) -> list[Line]:
    """Keep an oversized original task from holding the window for ever.

    It never leaves, so when room is needed and its turn is over, it is shortened to its share.
    """
    task = live.fold.task
    if task is None or live.fold.lines[task].turn == call.turn:
        return []
    if live.fold.lines[task].turn in live.fold.state.pins:
        return []
    cap = max(call.room.tokens(TASK_SHARE), SMALLEST_CUT)
    measured = live.measure(call)
    size = next(
        size for piece, size in measured.sized if piece.line is not None and piece.line.seq == task
    )
    if size <= cap:
        return []
    return await _cut_one(live, call, live.fold.lines[task], size, cap, measured.factor)


def _cap(sizes: Sequence[int], excess: int) -> int | None:
    """The largest size that frees `excess` when every larger message is cut down to it."""
    low, high = SMALLEST_CUT, max(sizes, default=0)
    if high <= low:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(size - middle, 0) for size in sizes) >= excess:
            low = middle
        else:
            high = middle - 1
    return low


async def _cut_one(
    live: window.LiveWindow, call: Call, line: Line, size: int, cap: int, factor: float
) -> list[Line]:
    message = messages.said(line)
    if message is None or not message.text:
        return []
    count = live.ledger(call.model).counter.text
    what = "result" if isinstance(message, ToolReturned) else "message"

    def note(missing: int) -> str:
        return (
            f"[… {missing:,} characters of this {what} are left out: it is larger than the "
            f"window allows. All of it is entry {line.id}; read_entry shows it in parts. …]"
        )

    most = max(int(cap / factor) - 12, 16)
    # What was cut before is cut from the whole again, whose size is not the one that is shown.
    whole = 0 if line.seq in live.fold.state.cut else round(size / factor)
    cut = partial(messages.shorten, message.text, most, count, note, whole)
    shorter = await live.off_loop(cut)
    if await _size(live, call, shorter, factor) >= size:
        return []
    return [await stand_in(live, call, line, size, shorter)]


async def _size(live: window.LiveWindow, call: Call, text: str, factor: float) -> int:
    tokens = await live.off_loop(partial(live.ledger(call.model).counter.text, text))
    return round((tokens + MESSAGE_OVERHEAD) * factor)


async def stand_in(live: window.LiveWindow, call: Call, line: Line, size: int, text: str) -> Line:
    """Let a text stand in prompts for a message of this size, which history keeps whole."""
    after = await _size(live, call, text, live.measure(call).factor)
    entry = MessageCut(target=line.seq, text=text, tokens_before=size, tokens_after=after)
    return live.record(entry, call.turn)


def refuse_if_hopeless(live: window.LiveWindow, call: Call) -> None:
    """Refuse before anything leaves where no prompt of this session could fit.

    A window that does not hold even what stands in every prompt would cost all the exchanges
    in it, and be refused all the same.
    """
    measured = live.measure(call)
    derived = sum(size for piece, size in measured.sized if piece.name == "derived")
    instructions = measured.component("system_prompt") - derived
    tools = measured.component("tool_definitions")
    if instructions + tools > call.room.usable:
        raise DoesNotFit(
            f"What stands in every prompt needs {instructions + tools:,} tokens (instructions "
            f"{instructions:,}, tool definitions {tools:,}), but the window of "
            f"{call.room.window:,} leaves {call.room.usable:,}.",
            "Choose a model with a larger window.",
        )


def refuse_if_over(live: window.LiveWindow, call: Call) -> None:
    """Refuse in one clear sentence instead of letting a server cut the prompt."""
    measured = live.measure(call)
    usable = call.room.usable
    if measured.total <= usable:
        return
    units = exchanges(measured, live.fold.staying)
    pins = sum(unit.tokens for unit in units if unit.turn in live.fold.state.pins)
    free = (u.freed for u in units if u.turn != call.turn and u.turn not in live.fold.state.pins)
    stuck = sum(free)
    held = {
        PINNED + " exchanges": pins,
        CURRENT: sum(unit.tokens for unit in units if unit.turn == call.turn),
        TASK: sum(u.tokens - u.freed for u in units if u.turn != call.turn),
        "exchanges that could not be indexed": stuck,
        "instructions": measured.component("system_prompt"),
        "tool definitions": measured.component("tool_definitions"),
    }
    largest = ", ".join(
        f"{name} {tokens:,}"
        for name, tokens in sorted(held.items(), key=lambda item: -item[1])
        if tokens
    )
    remedy = "Choose a model with a larger window."
    if stuck > measured.total - usable:
        remedy = "Repair the index with `mindstone reindex`; nothing leaves before it is indexed."
    elif pins > measured.total - usable:
        remedy = "Unpin something with /unpin, or choose a model with a larger window."
    raise DoesNotFit(
        f"The prompt needs {measured.total:,} tokens, but the window of {call.room.window:,} "
        f"leaves {usable:,} ({largest}).",
        remedy,
    )
