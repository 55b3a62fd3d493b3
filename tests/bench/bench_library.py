"""What a search over many sessions costs, and how that grows with their number.

    python tests/bench/bench_library.py                    30 and 300 made-up sessions
    MINDSTONE_BENCH=full python …                          3,000 more, and a million passages
    python tests/bench/bench_library.py FOLDER [DEJA]      a folder of Claude Code's files instead

The made-up ones are conversations about this project's own source, with tool results in them. Each
search is a new process, by words and with vectors as far as there are any; processor time of all
its processes, the median of five questions. Inside one process, with a vector for every passage,
all sessions are asked, and one of them alone: nineteen of twenty within so many milliseconds of
processor time, and of how many times that with a tenth of the sessions. With the path of deja-vu's
program as a second argument the same files are indexed and searched by it in the same run; an
import is told by the clock, too, for both use all cores. A table first, then one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

# As in the program: numpy's threads wait by spinning, which spoils every figure on busy cores.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from mindstone_tui.core.library.all_sessions import AllSessions
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.recall.candidates import Filter
from mindstone_tui.core.recall.embedding import Encoded, Floats
from mindstone_tui.core.recall.index import Asked, Inquiry, RecallIndex
from mindstone_tui.core.recall.store import IndexMark
from tests.bench.bench_recall import passage
from tests.builders import say, transcript_in, use_tool

ROOT = Path(__file__).parents[2]
TURNS = 24
PASSAGES = 333
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
            figures |= {f"inside {row['sessions']}": row for row in _inside(base, counts)}
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


def _inside(base: Path, counts: Sequence[int]) -> list[dict[str, float]]:
    """All sessions asked in one process, and one of them alone, the larger against the smaller."""
    rows: list[dict[str, float]] = []
    texts = list(_texts())
    for count in counts:
        home = base / f"inside-{count}"
        home.mkdir()
        places = Places.resolve({"MINDSTONE_HOME": str(home)})
        keys = [SessionKey("default", f"made-{at}") for at in range(count)]
        model = MadeUpModel()
        for at, key in enumerate(keys):
            with contextlib.closing(RecallIndex(places.library, model, str(key))) as index:
                said = [
                    passage(number, texts[(at * PASSAGES + number * 7) % len(texts)], str(key))
                    for number in range(PASSAGES)
                ]
                for first in range(0, PASSAGES, 256):
                    batch = said[first : first + 256]
                    index.add(batch, IndexMark(batch[-1].seq, ""))
                while index.embed_pending(1000):
                    pass
        one = RecallIndex(places.library, model, str(keys[0]))
        everybody = AllSessions(places, model)
        with contextlib.closing(one), contextlib.closing(everybody):
            alone = _p95(partial(one.search, k=10), model)
            all_ = _p95(partial(_ask_all, everybody, keys), model)
        before = rows[-1] if rows else {"all_ms": all_, "one_ms": alone}
        row = {"sessions": count, "passages": count * PASSAGES, "all_ms": all_, "one_ms": alone}
        row |= {"all_ratio": all_ / before["all_ms"], "one_ratio": alone / before["one_ms"]}
        rows.append(row)
        print(
            f"{count:5} sessions, {count * PASSAGES:9,} passages: all {all_:6.1f} ms"
            f" ({row['all_ratio']:.2f} ×)  one {alone:6.1f} ms ({row['one_ratio']:.2f} ×)"
            f"  library {places.library.stat().st_size / 1e6:.0f} MB",
            flush=True,
        )
    return rows


def _texts() -> Iterator[str]:
    """Passages of some forty real words: this project's source and Python's."""
    folders = (ROOT / "mindstone_tui", ROOT / "docs", Path(os.__file__).parent)
    for path in (path for each in folders for path in sorted(each.rglob("*.[pm][yd]"))):
        words = path.read_text(encoding="utf-8", errors="replace").split()
        yield from (" ".join(words[at : at + 40]) for at in range(0, len(words), 40))


class MadeUpModel:
    """Every word has one of a few thousand random vectors; a passage is the mean of its words."""

    name = "made-up"
    dims = 384

    def __init__(self) -> None:
        self._vectors = np.random.default_rng(1).standard_normal((4_096, self.dims), np.float32)

    def embed(self, texts: Sequence[str]) -> Floats:
        return np.stack([self.encode(text).vector for text in texts])

    def encode(self, text: str) -> Encoded:
        words = tuple(text.lower().split()[:64]) or ("nothing",)
        rows = self._vectors[[zlib.crc32(word.encode()) % 4_096 for word in words]]
        mean = rows.mean(axis=0)
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return Encoded(mean / np.linalg.norm(mean), words, unit)


def _ask_all(everybody: AllSessions, keys: list[SessionKey], _: str, *, asked: Asked) -> object:
    return everybody.search(Inquiry(asked, 30, Filter()), keys)


def _p95(ask: Callable[..., object], model: MadeUpModel) -> float:
    """Milliseconds of processor time that nineteen of twenty questions stay within."""
    spent: list[float] = []
    for question in QUESTIONS * 8:
        asked = Asked(model, question)
        assert asked.encoded is not None
        start = time.thread_time()
        ask(question, asked=asked)
        spent.append(1000 * (time.thread_time() - start))
    return float(np.quantile(spent[len(QUESTIONS) :], 0.95))


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
    start = time.perf_counter()
    taken = _cost(home, "import", str(folder), "--no-wait")
    wall = time.perf_counter() - start
    print(f"{'import':16} {taken:6.2f} s, {wall:.2f} s by the clock")
    ours = {"import_s": taken, "import_wall_s": wall, **_searched("mindstone", home)}
    figures = {"mindstone": ours}
    if deja:
        theirs = base / "deja"
        (theirs / ".claude").mkdir(parents=True)
        # It follows no links, and would index nothing.
        shutil.copytree(folder, theirs / ".claude" / "projects")
        environ = {**os.environ, "HOME": str(theirs)}
        start = time.perf_counter()
        index = _run([deja, "index"], environ)
        wall = time.perf_counter() - start
        each = [_run([deja, "search", "--json", *one.split()], environ) for one in QUESTIONS]
        search = statistics.median(each)
        figures["deja-vu"] = {"import_s": index, "import_wall_s": wall, "search_s": search}
        print(
            f"{'deja-vu':16} index {index:6.2f} s, {wall:.2f} s by the clock"
            f"  search {search:5.2f} s"
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
