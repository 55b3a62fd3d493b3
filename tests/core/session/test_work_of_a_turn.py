"""What one turn does, counted: its prompt is rendered once, and nothing is ranked twice."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from mindstone_tui.core.context import build_report, policies
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.context.messages import message_of
from mindstone_tui.core.recall import ranking
from tests.core.session.stage import on_stage, script

WORK = {
    Fold.request.__code__: "prompts rendered",
    ranking.rank.__code__: "passages ranked",
    policies.rank.__code__: "exchanges ranked",
    build_report.report.__code__: "reports",
    message_of.__code__: "messages made",
}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often each piece of work is done, on this thread and on those that begin meanwhile."""
    found: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in WORK:
            found[WORK[frame.f_code]] += 1

    before = sys.getprofile()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


async def test_a_turn_renders_its_prompt_once_and_ranks_each_place_once(
    home: Path, tmp_path: Path
) -> None:
    replies = [{"text": f"Crane {n} lifts {7 * n} tons of granite. " * 20} for n in range(8)]
    model = script(tmp_path, *replies, loop=True)
    async with on_stage(home, model=model, context_window=4_000) as stage:
        for number in range(7):
            await stage.say(f"Tell me about crane {number} and the granite of quarry {number}.")
        await stage.rest()
        # Threads that run already are not watched.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        with counted() as turn:
            await stage.say("What did crane 1 lift, and from which quarry?")
        await stage.rest()
        with counted() as again:
            stage.session._context.report()
    # Memories, this session and the agent's files are three places.
    assert (turn["prompts rendered"], turn["passages ranked"]) == (1, 3)
    # Before the answer and after it: each has another window to show.
    assert turn["exchanges ranked"] <= turn["reports"] == 2
    assert again == {"reports": 1}
