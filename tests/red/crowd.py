"""A crowd of processes in one session: all of them talk, some are killed, and one chain remains."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.transcript import verify
from tests.builders import places_in
from tests.cli.forked import ROOT, begin
from tests.core.session.stage import check_history, read
from tests.red import Case, Tried
from tests.red.apart import PATIENCE, run_apart


def crowd(tried: Tried) -> Iterator[Case]:
    """So many `mindstone run` at once; every third is killed at some moment."""
    base, many = tried.folder("crowd"), tried.sized(3, 30)
    home = base / "home"
    home.mkdir()
    (home / "config.toml").write_text("[recall]\nbackground = false\n")
    script = base / "script.jsonl"
    script.write_text(json.dumps({"text": "Heard. " * 40}) + '\n{"loop":true}\n')
    running = [_start(base, script, number) for number in range(many)]
    dice = random.Random(7)
    killed = set(range(2, many, 3))
    over = time.monotonic() + PATIENCE * 3
    for number in killed:
        time.sleep(dice.random() / 2)
        running[number].kill()
    for number, process in enumerate(running):
        try:
            _, complaint = process.communicate(timeout=max(1.0, over - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            yield Case(f"process {number} of {many}", "it hung")
            continue
        if number not in killed:
            problem = f"ended with {process.returncode}: {complaint.decode()[-200:]}"
            yield Case(f"process {number} of {many}", problem if process.returncode else "")
    yield from _left_behind(base, many, killed)


def _start(base: Path, script: Path, number: int) -> subprocess.Popen[bytes]:
    arguments = ("run", f"word {number} of the crowd", "--model", f"scripted/{script}")
    return begin(
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=base,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HOME": str(base),
            "MINDSTONE_HOME": str(base / "home"),
        },
    )


def _left_behind(base: Path, many: int, killed: set[int]) -> Iterator[Case]:
    places = places_in(base / "home")
    verdict = verify(places)
    yield Case("one chain", "" if verdict.ok else str(verdict.problems[:2]))
    asked = [line.entry.text for line in read(places) if isinstance(line.entry, UserMessage)]
    wanted = {f"word {number} of the crowd" for number in range(many) if number not in killed}
    lost = wanted - set(asked)
    yield Case(f"{len(wanted)} words, each once", f"lost {sorted(lost)[:3]}" if lost else "")
    (talked,) = run_apart(
        base / "home", base, [("run", "go on", "--model", f"scripted/{base / 'script.jsonl'}")]
    )
    yield Case("and it goes on", talked.problem or (talked.err[:200] if talked.code else ""))
    try:
        problem = "" if check_history(places) else "no request can be rebuilt"
    except AssertionError as error:
        problem = str(error)
    yield Case("every turn is whole, every request rebuilt", problem)
