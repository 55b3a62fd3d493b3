"""Whatever is killed around a question, it is still there, and nothing is answered twice."""

from __future__ import annotations

from pathlib import Path

from tests.faults import FULL
from tests.faults.conftest import Tell
from tests.faults.decision_kills import crew

KILLS = 100 if FULL else 2


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
        decided = len(around.lines("tool_answered"))
    tell("surfaces killed around a question", f"{KILLS} of nine", f"0 lost, {decided} answers")
