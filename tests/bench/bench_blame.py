"""What it takes to tell the origin of every line of a file of 5,000 lines after 200 turns.

    python tests/bench/bench_blame.py

A session of its own writes the file and then changes three lines of it in each turn, with `edit` or
with a command, through the real tools. `mindstone blame` is then a new process each time: its
processor time and the time by the clock, the least of seven, beside those of `mindstone --version`,
which loads nothing. Last, the work alone, inside one process. A table, then one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from mindstone_tui.core.library.blame import KeptFiles
from mindstone_tui.core.paths import Places
from tests.core.session.stage import calls, on_stage, script

LINES, TURNS, RUNS = 5_000, 200, 7


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        (base / "work").mkdir()
        asyncio.run(_play(base))
        environ = {**os.environ, "MINDSTONE_HOME": str(base / "home")}
        figures: dict[str, float] = {}
        for name, words in (("blame", ["blame", "file.py", "--json"]), ("version", ["--version"])):
            taken = [_run(words, base / "work", environ) for _ in range(RUNS)]
            figures[f"{name}_cpu"] = min(cpu for cpu, _ in taken)
            figures[f"{name}_clock"] = min(clock for _, clock in taken)
        figures["inside_cpu"] = min(_inside(base) for _ in range(RUNS))
    for name, seconds in figures.items():
        print(f"{name:<14} {seconds:6.3f} s")
    print(json.dumps({"bench": "blame", "lines": LINES, "turns": TURNS, **figures}))


def _replies() -> Iterator[Any]:
    chance = random.Random(5)
    lines = [f"value_{at} = other({at})  # line {at}" for at in range(LINES)]
    each = "s/.*/value_& = other(&)  # line &/"
    yield calls(("shell", {"command": f"seq 0 {LINES - 1} | sed '{each}' > file.py"}))
    yield {"text": "done"}
    for turn in range(1, TURNS):
        at = chance.randrange(LINES - 5)
        old = "\n".join(lines[at : at + 3])
        lines[at : at + 3] = [f"changed_{turn}_{each} = {at}" for each in range(3)]
        new = "\n".join(lines[at : at + 3])
        edit = ("edit", {"path": "file.py", "old_string": old, "new_string": new})
        sed = "".join(f"{at + each + 1}s/.*/{lines[at + each]}/;" for each in range(3))
        command = ("shell", {"command": f"sed -i '{sed}' file.py"})
        yield calls(command if turn % 5 == 0 else edit)
        yield {"text": "done"}


async def _play(base: Path) -> None:
    model = script(base, *_replies())
    more: dict[str, Any] = {"cwd": base / "work", "model": model, "approve": "full-auto"}
    async with on_stage(base / "home", **more) as stage:
        for _ in range(TURNS):
            assert (await stage.say("Go on with it.")).ending == "done"


def _run(words: list[str], work: Path, environ: dict[str, str]) -> tuple[float, float]:
    before, began = os.times(), time.perf_counter()
    program = [sys.executable, "-m", "mindstone_tui", *words]
    done = subprocess.run(program, cwd=work, env=environ, capture_output=True, check=True)
    clock, after = time.perf_counter() - began, os.times()
    if words[0] == "blame":
        found = json.loads(done.stdout)
        assert len(found) == LINES
        assert {each["origin"] for each in found} == {"turn"}
        assert len({each["turn"] for each in found}) > TURNS // 2
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system, clock


def _inside(base: Path) -> float:
    began = time.process_time()
    home = Places.resolve({"MINDSTONE_HOME": str(base / "home")})
    KeptFiles(home, base / "work", {}).blame(base / "work" / "file.py")
    return time.process_time() - began


if __name__ == "__main__":
    main()
