"""Whatever is killed around a question, it is still there, and nothing is answered twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults import FULL
from tests.faults.conftest import Tell
from tests.faults.decision_kills import crew

KILLS = 100 if FULL else 2


def which(line: dict[str, Any]) -> tuple[int, str]:
    """The question that a line is about: a call may have the name of an earlier one."""
    return line["turn"], line["call"]


def test_a_question_outlives_any_surface_and_is_answered_once(
    home: Path, tmp_path: Path, tell: Tell
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with crew(home, work, seed=7) as around:
        for number in range(KILLS):
            what = around.try_one()
            if FULL:
                print(f"{number + 1:>3}  {what}", flush=True)
        around.verdict()
        asked, returned, answered = (
            Counter(map(which, around.lines(kind)))
            for kind in ("tool_asked", "tool_returned", "tool_answered")
        )
        decided = Counter(map(which, around.lines("tool_approved", "tool_refused")))
    lost = len(asked - returned)
    twice = sum(count > 1 for count in decided.values())
    found = f"{answered.total()} answers, {lost} lost, {twice} decided twice"
    tell("surfaces killed around a question", f"{KILLS} of nine", found)
    assert (len(asked) >= KILLS, lost, twice) == (True, 0, 0)
