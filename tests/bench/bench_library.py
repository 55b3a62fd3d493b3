"""What a search over many sessions costs, and how that grows with their number.

    python tests/bench/bench_library.py                    30 and 300 made-up sessions
    MINDSTONE_BENCH=full python …                          3,000 more
    python tests/bench/bench_library.py FOLDER [DEJA]      a folder of Claude Code's files instead

The made-up ones are conversations about this project's own source, with tool results in them. Each
search is a new process, by words and with vectors as far as there are any; processor time of all
its processes, the median of five questions. With the path of deja-vu's program as a second argument
the same files are indexed and searched by it in the same run. A table first, then one line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.builders import say, transcript_in, use_tool

ROOT = Path(__file__).parents[2]
TURNS = 24
QUESTIONS = (
    "where is the transcript written",
    "which port does the page use",
    "approval of a shell command",
    "vectors of many languages",
    "what happens when the disk is full",
)


def main(argv: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        if argv:
            figures = _beside(base, Path(argv[0]), argv[1] if len(argv) > 1 else "")
        else:
            counts = (30, 300, *((3_000,) if os.environ.get("MINDSTONE_BENCH") == "full" else ()))
            figures = {str(count): _made_up(base / str(count), count) for count in counts}
    print(json.dumps({"bench": "library", **figures}))


def _made_up(home: Path, sessions: int) -> dict[str, float]:
    home.mkdir()
    chance = random.Random(sessions)
    files = [path.read_text().splitlines() for path in sorted(ROOT.glob("mindstone_tui/**/*.py"))]
    for at in range(sessions):
        transcript = transcript_in(home, f"made-{at}")
        for _ in range(TURNS):
            lines = chance.choice(files)
            first = chance.randrange(max(len(lines) - 12, 1))
            seen = "\n".join(lines[first : first + 12])
            if chance.random() < 0.5:
                use_tool(transcript, "read_file", seen, "I looked at it.")
            else:
                say(transcript, f"What does this do? {lines[first]}", seen)
        transcript.close()
    return _searched(f"{sessions} sessions", home)


def _searched(name: str, home: Path) -> dict[str, float]:
    """Processor seconds to take everything in, and for a search afterwards."""
    first = _cost(home, "search", QUESTIONS[0], "--json")
    each = [_cost(home, "search", question, "--json") for question in QUESTIONS]
    version = statistics.median(_cost(home, "--version") for _ in QUESTIONS)
    size = (home / "library.db").stat().st_size / 1e6
    told = {"first_s": first, "search_s": statistics.median(each), "version_s": version}
    print(
        f"{name:16} first {first:6.2f} s  search {told['search_s']:5.2f} s"
        f"  (--version {version:.2f} s)  library {size:.1f} MB"
    )
    return {**told, "library_mb": size}


def _beside(base: Path, folder: Path, deja: str) -> dict[str, dict[str, float]]:
    home = base / "home"
    home.mkdir()
    taken = _cost(home, "import", str(folder), "--no-wait")
    print(f"{'import':16} {taken:6.2f} s")
    figures = {"mindstone": {"import_s": taken, **_searched("mindstone", home)}}
    if deja:
        theirs = base / "deja"
        (theirs / ".claude").mkdir(parents=True)
        (theirs / ".claude" / "projects").symlink_to(folder)
        environ = {**os.environ, "HOME": str(theirs)}
        index = _run([deja, "index"], environ)
        each = [_run([deja, "search", "--json", *one.split()], environ) for one in QUESTIONS]
        figures["deja-vu"] = {"import_s": index, "search_s": statistics.median(each)}
        print(
            f"{'deja-vu':16} index {index:6.2f} s  search {figures['deja-vu']['search_s']:5.2f} s"
        )
    return figures


def _cost(home: Path, *words: str) -> float:
    settings = {"MINDSTONE_HOME": str(home), "MINDSTONE_RECALL__BACKGROUND": "false"}
    command = [sys.executable, "-m", "mindstone_tui", *words]
    return _run(command, {**os.environ, **settings, "PYTHONPATH": str(ROOT)})


def _run(command: Sequence[str], environ: dict[str, str]) -> float:
    """Processor seconds of a program and all that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.decode("utf-8", "replace"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:])
