"""kill -9 at every phase of a turn with tools: the next process goes on with a valid request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from mindstone_tui.core.entries.conversation import (
    AssistantPartial,
    ToolReturned,
    TurnEnded,
    UserMessage,
)
from mindstone_tui.core.features.working_set import BROKE_OFF
from tests.core.session.stage import check_history, on_stage, read, script
from tests.faults import sized
from tests.faults.conftest import Tell
from tests.faults.turn_taker import TICKS

ROOT = Path(__file__).parents[2]


def take_turns(base: Path, *points: int) -> dict[str, str]:
    """Run the program; how it ended at each point."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.turn_taker", str(base), *map(str, points)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


async def test_a_kill_at_any_phase_of_a_turn_leaves_a_session_that_goes_on(
    tmp_path: Path, tell: Tell
) -> None:
    assert take_turns(tmp_path, 0) == {"0": "0"}
    count, inside_a_tool = json.loads((tmp_path / "0" / "points").read_bytes())
    assert (tmp_path / "0" / TICKS).read_text() == ".."
    spread = range(1, count + 1, max(1, count // sized(5, count)))
    chosen = sorted({*spread, inside_a_tool[0]})
    ended = take_turns(tmp_path, *chosen)
    assert set(ended.values()) == {"killed"}
    begun = sum([await _resumes(tmp_path / str(point), point) for point in chosen])
    assert begun, "no kill came while a tool ran"
    tell(
        "kill -9 in a turn with tools", f"{len(chosen)} of {count}", "next request valid each time"
    )


async def _resumes(folder: Path, point: int) -> bool:
    """Open the session again and go on; whether a tool had begun and not ended."""
    ticks = _ticks(folder)
    after = script(folder, {"text": "I see."}, loop=True)
    async with on_stage(folder / "home", model=after) as stage:
        before = {line.id for line in stage.lines()}
        ended = await stage.say("go on")
        assert ended.ending == "done", (point, ended.why)
    assert _ticks(folder) == ticks, f"{point}: a tool was run again"
    check_history(stage.places)
    lines = read(stage.places)
    assert len([line for line in lines if isinstance(line.entry, TurnEnded)]) == lines[-1].turn
    asked = [line.entry.text for line in lines if isinstance(line.entry, UserMessage)]
    assert asked[0] == "hello"
    assert asked[-1] == "go on"
    results = [
        line.entry
        for line in lines
        if isinstance(line.entry, ToolReturned) and line.id not in before
    ]
    assert all(result.status == "interrupted" for result in results)
    request = stage.requests()[-1]
    broken = any(isinstance(line.entry, AssistantPartial) for line in lines)
    said = f"{BROKE_OFF}\n\ngo on" if broken else "go on"
    assert request[-1] == {"role": "user", "content": said}
    return any("while this ran" in result.text for result in results)


def _ticks(folder: Path) -> int:
    path = folder / TICKS
    return path.stat().st_size if path.exists() else 0
