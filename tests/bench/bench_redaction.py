"""How well and how fast secrets are found: in samples, in real text, in hostile text.

    python tests/bench/bench_redaction.py [FOLDER…]     the standard library, and these folders
    MINDSTONE_BENCH=full python …                       the installed packages, too, and more of all

Each folder is one source of real text. Every hit is shown in its line, blacked out, for a person to
tell the true from the false. Then the share of generated secrets that were found, and how the
time grows with the length of texts made to be slow. A table first, then one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.redaction.formats import vendor_formats
from tests.core.redaction.specimens import SAMPLES, made, specimens, survives

LARGEST = 3_000_000
FULL = os.environ.get("MINDSTONE_BENCH") == "full"


def texts(folder: Path, *, python: bool | None = None) -> Iterator[str]:
    """The text files below a folder: all, only Python, or all but Python."""
    for path in sorted(folder.rglob("*")):
        if python is not None and (path.suffix == ".py") != python:
            continue
        if not path.is_file() or path.is_symlink() or path.stat().st_size > LARGEST:
            continue
        octets = path.read_bytes()
        if b"\0" not in octets[:4096]:
            yield octets.decode("utf-8", "replace")


def sources() -> Iterator[tuple[str, Iterator[str]]]:
    stdlib, packages = Path(sysconfig.get_paths()["stdlib"]), Path(sysconfig.get_paths()["purelib"])
    yield (
        "standard library",
        (text for path in sorted(stdlib.glob("*.py")) for text in [path.read_text()]),
    )
    if FULL:
        yield "packages, Python", texts(packages, python=True)
        yield "packages, other", texts(packages, python=False)
    for folder in map(Path, sys.argv[1:]):
        yield folder.name, texts(folder)


def real_text(redactor: Redactor, name: str, each: Iterator[str]) -> dict[str, object]:
    """Hits and speed over one source; every hit is shown in its line."""
    lines = hits = size = 0
    spent = 0.0
    for text in each:
        start = time.process_time()
        clean = redactor.redact(text)
        spent += time.process_time() - start
        lines += text.count("\n") + 1
        size += len(text.encode("utf-8", "surrogatepass"))
        hits += len(clean.found)
        shown = [line for line in clean.text.split("\n") if "[redacted:" in line]
        for line in shown if clean.found else ():
            print(f"  {line.strip()[:150]}")
    rate = hits / max(lines, 1) * 20_000
    speed = 1000 * spent / max(size / 1024, 1)
    print(
        f"{name:24} {lines:9} lines {hits:5} hits {rate:6.2f} per 20,000 {speed:.4f} ms/KB",
        flush=True,
    )
    return {"source": name, "lines": lines, "hits": hits, "per_20000": rate, "ms_per_kb": speed}


def recall(redactor: Redactor) -> dict[str, object]:
    """The share of generated secrets of which nothing survives."""
    tried = missed = 0
    for _, _, text, parts in specimens(again=20 if FULL else 2):
        shown = redactor.redact(text).text
        tried += 1
        missed += any(survives(part, shown) for part in parts)
    kinds = len({kind for kind, _ in SAMPLES})
    print(
        f"recall {1 - missed / tried:.4f} of {tried} secrets, {kinds} kinds, {len(SAMPLES)} forms"
    )
    return {"recall": 1 - missed / tried, "tried": tried, "kinds": kinds, "forms": len(SAMPLES)}


def hostile(redactor: Redactor) -> dict[str, object]:
    """How the time grows when a bait is repeated four times as often: four is linear."""
    baits = {anchor for rule in vendor_formats() for anchor in rule.anchors}
    for number, (_, template) in enumerate(SAMPLES):
        text = made(template, number)[0]
        baits |= {text, f"{text} ", text[: len(text) // 2]}
    size = 20_000 if FULL else 10_000
    grown: list[tuple[float, float, str]] = []
    for bait in sorted(baits)[:: 1 if FULL else 10]:
        times = size // len(bait) + 1
        short, long = _spent(redactor, bait * times), _spent(redactor, bait * 4 * times)
        grown.append((long / short, 1000 * long / (4 * times * len(bait) / 1024), bait))
    worst = sorted(grown, reverse=True)[:5]
    slowest = max(grown, key=lambda row: row[1])
    for ratio, speed, bait in (*worst, slowest):
        print(
            f"hostile: time times {ratio:4.1f} at length times 4, {speed:6.2f} ms/KB  {bait[:50]!r}"
        )
    return {"worst_ratio": worst[0][0], "slowest_ms_per_kb": slowest[1], "baits": len(grown)}


def _spent(redactor: Redactor, text: str) -> float:
    start = time.process_time()
    redactor.redact(text)
    return max(time.process_time() - start, 1e-5)


def main() -> None:
    redactor = Redactor()
    rows = [real_text(redactor, name, each) for name, each in sources()]
    figures = {"bench": "redaction", "real": rows, **recall(redactor), **hostile(redactor)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
