"""How recall grows with history: index rates, query times, memory and disk, beside two yardsticks.

    python tests/bench/bench_recall.py            1,000 to 100,000 passages
    MINDSTONE_BENCH=full python …                 up to 1,000,000

The text and the vectors are made up (Zipf words, one random vector a word, a passage the mean of
its words), so that a million passages are ready in minutes; the embedded model is measured apart.
Beside our own search stand a plain OR in FTS5 on the same words and a brute-force scan in numpy on
the same vectors. Times exclude embedding the question. A table first, then one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

# As in the program: numpy's threads wait by spinning, which spoils every figure on busy cores.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import psutil

from mindstone_tui.core.language.words import query_terms, quoted
from mindstone_tui.core.recall.embedding import EmbeddedModel, Encoded, Floats
from mindstone_tui.core.recall.index import Asked, RecallIndex
from mindstone_tui.core.recall.library_file import open_library
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.store import IndexMark

VOCABULARY = 50_000
WORDS_A_PASSAGE = 25
QUESTIONS = 60
DIMS = 384
SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()  # noqa: SIM905


class MadeUpModel:
    """Every word has a random vector; a passage is the mean of its words."""

    name = "made-up"
    dims = DIMS

    def __init__(self) -> None:
        vectors = np.random.default_rng(1).standard_normal((VOCABULARY, DIMS), np.float32)
        self._vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self._place = {word: at for at, word in enumerate(VOCABULARY_WORDS)}

    def embed(self, texts: Sequence[str]) -> Floats:
        return np.stack([self.encode(text).vector for text in texts])

    def encode(self, text: str) -> Encoded:
        words = tuple(word for word in text.split() if word in self._place)
        rows = self._vectors[[self._place[word] for word in words]]
        mean = rows.mean(axis=0)
        return Encoded(mean / np.linalg.norm(mean), words, rows)


def _word(number: int) -> str:
    letters = []
    for _ in range(4):
        number, rest = divmod(number, len(SYLLABLES))
        letters.append(SYLLABLES[rest])
    return "".join(letters)


VOCABULARY_WORDS = [_word(number) for number in range(VOCABULARY)]


def texts(count: int) -> list[str]:
    """Passages whose words follow Zipf's law."""
    shares = 1 / (np.arange(VOCABULARY) + 10.0)
    picked = np.random.default_rng(2).choice(
        VOCABULARY, size=(count, WORDS_A_PASSAGE), p=shares / shares.sum()
    )
    return [" ".join(VOCABULARY_WORDS[word] for word in row) for row in picked]


def passage(number: int, text: str, session: str = "agent:bench:main") -> Passage:
    return Passage(
        id=f"{number}#0",
        session=session,
        seq=number,
        entry=str(number),
        turn=number // 2,
        ts=f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        role="user" if number % 2 else "assistant",
        speaker="user" if number % 2 else "assistant",
        kind="user_message",
        text=text,
    )


def questions(kept: list[str]) -> list[str]:
    """Five words of a passage each: some rare, some common."""
    random = np.random.default_rng(3)
    chosen = random.choice(len(kept), QUESTIONS)
    return [" ".join(random.choice(kept[at].split(), 5, replace=False)) for at in chosen]


def timed(work: Callable[[str], object], asked: Sequence[str]) -> tuple[float, float, float]:
    """p50 and p95 in milliseconds, and p95 of processor time, after a few questions to warm up.

    On a machine with other work only the processor time says something about the program.
    """
    spent: list[tuple[float, float]] = []
    for question in [*asked[:5], *asked]:
        start, used = time.perf_counter(), time.thread_time()
        work(question)
        spent.append((time.perf_counter() - start, time.thread_time() - used))
    wall, processor = 1000 * np.array(spent[5:]).T
    return (
        float(np.median(wall)),
        float(np.quantile(wall, 0.95)),
        float(np.quantile(processor, 0.95)),
    )


def measure(count: int, folder: Path) -> dict[str, float]:
    """One size, from an empty file."""
    kept = texts(count)
    model = MadeUpModel()
    path = folder / f"{count}.db"
    index = RecallIndex.open(path, model)
    start = time.perf_counter()
    for first in range(0, count, 256):
        batch = [passage(at, kept[at]) for at in range(first, min(first + 256, count))]
        index.add(batch, IndexMark(batch[-1].seq, ""))
    words = time.perf_counter() - start
    start = time.perf_counter()
    while index.embed_pending(1000):
        pass
    vectors = time.perf_counter() - start
    asked = questions(kept)
    meant = {question: Asked(model, question) for question in asked}
    for ready in meant.values():
        assert ready.encoded is not None
    before = psutil.Process().memory_info().rss
    ours = timed(lambda question: index.search(question, 10, asked=meant[question]), asked)
    grown = psutil.Process().memory_info().rss - before
    start = time.perf_counter()
    live = 50
    for at in range(count, count + live):
        index.ensure([passage(at, kept[at % count])])
    ensured = (time.perf_counter() - start) / live
    index.close()
    return {
        "passages": count,
        "words_per_s": count / words,
        "vectors_per_s": count / vectors,
        "live_ms": 1000 * ensured,
        "p50_ms": ours[0],
        "p95_ms": ours[1],
        "cpu_p95_ms": ours[2],
        **yardsticks(path, kept, model, asked),
        "rss_mb": grown / 1e6,
        "disk_mb": path.stat().st_size / 1e6,
    }


def yardsticks(
    path: Path, kept: list[str], model: MadeUpModel, asked: list[str]
) -> dict[str, float]:
    """A plain OR in FTS5, and every vector compared in numpy."""
    database = open_library(path).database
    statement = "select rowid from words where words match ? order by rank limit 10"
    plain = timed(
        lambda text: database.execute(statement, (quoted(query_terms(text)),)).fetchall(), asked
    )
    database.close()
    matrix = np.stack([model.encode(text).vector for text in kept])
    meant = {question: model.encode(question).vector for question in asked}

    def scan(question: str) -> object:
        cosines = matrix @ meant[question]
        return np.argpartition(-cosines, 10)[:10]

    brute = timed(scan, asked)
    return {"fts5_cpu_p95": plain[2], "numpy_cpu_p95": brute[2]}


def embedded_model() -> dict[str, float]:
    """The shipped model: loading, one question, short and long texts."""
    model = EmbeddedModel()
    start = time.perf_counter()
    model.encode("warm")
    loaded = time.perf_counter() - start
    short = "We moved the deployment to Thursday because the office is empty on Fridays."
    long = " ".join([short] * 12)
    rates = {}
    for name, text in (("short", short), ("long", long)):
        start = time.perf_counter()
        for _ in range(20):
            model.encode(text)
        rates[name] = 20 / (time.perf_counter() - start)
    return {"load_s": loaded, "short_per_s": rates["short"], "long_per_s": rates["long"]}


def main() -> None:
    sizes = [1_000, 10_000, 100_000]
    if os.environ.get("MINDSTONE_BENCH") == "full":
        sizes.append(1_000_000)
    if len(sys.argv) > 1:
        sizes = [int(size) for size in sys.argv[1:]]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            rows.append(measure(size, Path(folder)))
            if len(rows) == 1:
                print(" ".join(f"{name:>13}" for name in rows[0]))
            print(" ".join(f"{value:13.1f}" for value in rows[-1].values()), flush=True)
    model = embedded_model()
    print("embedded model:", " ".join(f"{name} {value:.2f}" for name, value in model.items()))
    print(json.dumps({"bench": "recall", "sizes": rows, "model": model}))


if __name__ == "__main__":
    main()
