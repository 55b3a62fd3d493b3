"""What the working set costs, and whether that stays flat as history grows.

    python tests/bench/bench_window.py            1,000 to 100,000 entries
    MINDSTONE_BENCH=full python …                 up to 1,000,000

First the hysteresis of a 400-turn session at 32K: how many prunes there are, how many the gap
between ceiling and floor predicts, and how many requests extend the one before byte for byte. Then
opening, planning, counting and reporting at 128K beside histories of growing length, each in
CPU time and as a ratio to the shortest. The disk is not synced and the index is made up: both are
measured elsewhere. A table first, then one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from mindstone_tui.core.config import Settings
from mindstone_tui.core.context import build_report
from mindstone_tui.core.context.budget import room_for
from mindstone_tui.core.context.plan import prepare
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import ExchangeLines
from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Draft, Line, Message, Usage
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    InstructionsChanged,
    ModelChanged,
    PromptPlanned,
    Receipt,
    Section,
    WindowState,
)
from mindstone_tui.core.library.take_over import initial_prune
from mindstone_tui.core.tokens import counter_for
from mindstone_tui.core.transcript import Transcript
from tests.builders import places_in

T = TypeVar("T")

MODEL = "openai/gpt-4o"
WINDOW = 128_000
TURNS = 40
BATCH = 2_000
WORDS = [f"{a}{b}" for a in ("ston", "riv", "clou", "gra", "moun") for b in ("e", "er", "d", "in")]


class Unsynced(Disk):
    """A disk that is believed at once."""

    def sync(self, fd: int) -> None:
        """Nothing."""

    def sync_folder(self, folder: Path) -> None:
        """Nothing."""


class MadeUpIndex:
    """Says yes at once."""

    def ensure(self, turns: Sequence[ExchangeLines]) -> Mapping[int, Receipt]:
        return {each.turn: Receipt(turn=each.turn, passages=1) for each in turns}


def text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def open_set(transcript: Transcript) -> LiveWindow:
    return LiveWindow(
        transcript.history(),
        Settings(),
        transcript=transcript,
        indexer=MadeUpIndex(),
        threads=False,
    )


def take_turn(
    transcript: Transcript, window: LiveWindow, chance: random.Random
) -> tuple[tuple[Message, ...], Line, float]:
    """One plain turn; the request's messages, its plan, and the seconds of our own work."""
    turn = transcript.last_turn + 1
    started = time.process_time()
    window.take(transcript.append(TurnStarted(), turn=turn))
    window.take(transcript.append(UserMessage(text=text(chance, 80)), turn=turn))
    prepared = run(prepare(window, call=1))
    plan = prepared.plan.entry
    assert isinstance(plan, PromptPlanned)
    answer = AssistantMessage(text=text(chance, 160), model=MODEL)
    window.take(transcript.append(answer, turn=turn))
    usage = Usage(prompt=plan.raw_tokens)
    window.note_usage(transcript.append(UsageReported(call=1, model=MODEL, usage=usage), turn=turn))
    window.take(transcript.append(TurnEnded(ending="done"), turn=turn))
    return prepared.request.messages, prepared.plan, time.process_time() - started


def run(work: Coroutine[Any, Any, T]) -> T:
    """Finish a coroutine that waits for nobody."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("it waited for something")


def hysteresis(folder: Path) -> dict[str, float]:
    """A 400-turn session at 32K."""
    chance = random.Random(7)
    transcript = Transcript(places_in(folder), disk=Unsynced(), channel="bench")
    window = open_set(transcript)
    window.set_model(MODEL, window=32_768, label="measured")
    window.set_instructions([Section(name="identity", text="You are a stone.")])
    extended = 0
    before: tuple[Message, ...] = ()
    planned: list[Line] = []
    for _ in range(400):
        messages, plan, _ = take_turn(transcript, window, chance)
        extended += messages[: len(before)] == before
        before = messages
        planned.append(plan)
    prunes = [
        line.entry
        for line in transcript.history().read()
        if isinstance(line, Line) and isinstance(line.entry, ContextWindowPruned)
    ]
    usable = room_for(32_768, "measured", Settings().budget).usable
    growth = statistics.mean(
        each.tokens
        for line in planned[-1:]
        if isinstance(line.entry, PromptPlanned) and line.entry.carried
        for each in line.entry.carried.growth[:-1]
    )
    # A prune starts with the turn that passes the ceiling and ends with the one that passes the
    # floor: half an exchange too many at either end.
    predicted = 1 + (400 - usable * 0.92 / growth) / ((usable * 0.22 + growth) / growth)
    bytes_of_prunes = sum(len(msgspec.json.encode(prune)) for prune in prunes)
    return {
        "turns": 400,
        "prunes": len(prunes),
        "predicted": round(predicted, 1),
        "extended": extended,
        "changed": 400 - extended,
        "prune_bytes": bytes_of_prunes,
    }


def filled(folder: Path, entries: int) -> Transcript:
    """A session of so many entries, settled into a 128K window."""
    chance = random.Random(entries)
    transcript = Transcript(places_in(folder), disk=Unsynced(), channel="import")
    texts = [text(chance, 150) for _ in range(200)]
    for start in range(0, entries, BATCH):
        transcript.append_all(list(drafts(start, min(start + BATCH, entries), texts)))
    history = transcript.history()
    state = standing(transcript)
    entry = initial_prune(
        (line for line in history.back() if isinstance(line, Line)),
        counter=counter_for(MODEL),
        room=room_for(WINDOW, "measured", Settings().budget),
        settings=Settings(),
        receipt=Receipt(turn=1, passages=entries),
        outside_tokens=lambda last: entries * 100,
        task=history.line(1),
        state=state,
    )
    if entry is not None:
        transcript.append(entry)
    return transcript


def standing(transcript: Transcript) -> WindowState:
    """A state that names model and instructions, without folding an import that was not pruned."""
    empty = WindowState(through=transcript.head.seq)
    model = transcript.append(
        ModelChanged(model=MODEL, state=empty, window=WINDOW, window_label="measured")
    )
    sections = (Section(name="identity", text="You are a stone. " * 60),)
    head = transcript.append(InstructionsChanged(sections=sections, state=empty))
    return WindowState(through=head.seq, model=model.seq, instructions=head.seq)


def drafts(first: int, last: int, texts: Sequence[str]) -> Iterator[Draft]:
    for number in range(first, last):
        body = f"{number} {texts[number % len(texts)]}"
        entry = UserMessage(text=body) if number % 2 == 0 else AssistantMessage(text=body)
        yield Draft(entry=entry, turn=1 + number // 2, channel="import")


def measured(folder: Path, entries: int) -> dict[str, float]:
    """Opening, a turn's own work, counting and a report, in milliseconds."""
    transcript = filled(folder, entries)
    process = psutil.Process()
    memory = process.memory_info().rss
    opens = []
    for _ in range(3):
        started = time.process_time()
        window = open_set(transcript)
        opens.append(time.process_time() - started)
    started = time.process_time()
    build_report.report(window)
    counting = time.process_time() - started
    chance = random.Random(3)
    turns = sorted(take_turn(transcript, window, chance)[2] for _ in range(TURNS))
    started = time.process_time()
    report = build_report.report(window)
    reporting = time.process_time() - started
    return {
        "entries": entries,
        "megabytes": round(transcript.places.transcript.stat().st_size / 1e6, 1),
        "open_ms": min(opens) * 1e3,
        "first_count_ms": counting * 1e3,
        "turn_p50_ms": turns[len(turns) // 2] * 1e3,
        "turn_p95_ms": turns[math.ceil(len(turns) * 0.95) - 1] * 1e3,
        "report_ms": reporting * 1e3,
        "prompt_tokens": report.prompt.tokens,
        "rss_mb": (process.memory_info().rss - memory) / 1e6,
    }


def main() -> None:
    asyncio.run(counter_for(MODEL).ready())  # as a session does; nothing else here needs a loop
    full = os.environ.get("MINDSTONE_BENCH") == "full"
    counter_for(MODEL).text("load the vocabulary before anything is timed")
    sizes = [1_000, 10_000, 100_000] + ([1_000_000] if full else [])
    with tempfile.TemporaryDirectory() as folder:
        steady = hysteresis(Path(folder))
    print(
        f"400 turns at 32K: {steady['prunes']} prunes, {steady['predicted']} predicted by "
        f"ceiling and floor; {steady['extended']} of 400 requests extend the one before, "
        f"{steady['changed']} follow a prune; {steady['prune_bytes']:,} bytes of prune entries"
    )
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(Path(folder), size))
    names = [name for name in rows[0] if name.endswith("_ms")]
    print(f"\n{'entries':>10} {'MB':>7} {'RSS +MB':>8} " + " ".join(f"{n:>16}" for n in names))
    for row in rows:
        cells = " ".join(f"{row[n]:8.1f} {row[n] / rows[0][n]:6.2f}×" for n in names)
        print(f"{row['entries']:>10,} {row['megabytes']:>7} {row['rss_mb']:>8.1f} {cells}")
    print(json.dumps({"bench": "window", "hysteresis": steady, "rows": rows}))


if __name__ == "__main__":
    main()
