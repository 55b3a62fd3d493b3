"""Everything that reads foreign bytes, fed with damaged, mixed and nested ones.

`make fuzz MINUTES=60` goes on for so many minutes of processor time, with new seeds each round, so
that a busy machine gets no less of it. What fails is kept under `tests/corpora/found/TARGET/` by
its digest, and tried again by the suite for ever. A target may refuse with an error of ours and
nothing else, and may not take longer than `PATIENCE`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.red import Case, Tried
from tests.red.targets import TARGETS, Target

FOUND = Path(__file__).parents[1] / "corpora" / "found"
PATIENCE = 10.0
"""Seconds of processor time; anything near it is a case of its own."""

_ODD = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x1b[2J", "\u202e\u2028".encode()),
    *(
        b"[" * 3_000,
        b'{"a":' * 3_000,
        b"(" * 400,
        b"`" * 300,
        b"> " * 300,
        b"- " * 300,
        b"$(" * 200,
    ),
    *(
        b"9" * 5_000,
        b"-1",
        b"1e999",
        b"NaN",
        b"null",
        b"true",
        b'""',
        b"{}",
        b"[]",
        b"0x",
        b"\\u0000",
    ),
    *(
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\t",
        b";",
        b"&&",
        b"|",
        b"<<E\n",
        b"'",
        b'"',
        b"\\",
        b"*",
        b"~",
        b"#",
    ),
    *(
        b"data: ",
        b"event: error\n",
        b"data: [DONE]\n\n",
        b'"error":',
        b'"index":-1,',
        b'"index":1e9,',
    ),
)
_edits = st.lists(
    st.tuples(
        st.sampled_from(("cut", "put", "drop", "twice", "flip", "splice", "much")),
        st.floats(0, 1),
        st.integers(1, 60),
        st.sampled_from(_ODD) | st.binary(min_size=1, max_size=12),
    ),
    max_size=8,
)


def damaged(data: bytes, edits: list[tuple[str, float, int, bytes]], other: bytes) -> bytes:
    """A seed after some edits; bounded, whatever they are."""
    for how, where, length, odd in edits:
        at = int(where * len(data))
        match how:
            case "cut":
                data = data[:at]
            case "put":
                data = data[:at] + odd + data[at:]
            case "drop":
                data = data[:at] + data[at + length :]
            case "twice":
                data = data[: at + length] + data[at:]
            case "flip" if data:
                at = min(at, len(data) - 1)
                data = data[:at] + bytes([data[at] ^ (1 << length % 8)]) + data[at + 1 :]
            case "splice":
                data = data[:at] + other[int(where * len(other)) :][: length * 8]
            case "much":
                data = data[:at] + odd * (length * 4) + data[at:]
    return data[:200_000]


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Bytes as this target might meet them."""
    seeds = st.sampled_from(target.seeds)
    return st.builds(damaged, seeds, _edits, seeds) | st.binary(max_size=80)


def failure(target: Target, data: bytes) -> str:
    """What is wrong with how the target takes these bytes; empty when nothing is."""
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        try:
            target.feed(data, Path(folder))
        except (Exception, RecursionError) as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
    took = time.process_time() - began
    return f"took {took:.1f} s" if took > PATIENCE else ""


def attack(target: Target, seed: int, examples: int) -> bytes | None:
    """The smallest input found that fails, or None."""
    worst: list[bytes] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @given(inputs(target))
    def tried(data: bytes) -> None:
        if failure(target, data):
            worst.append(data)
            raise AssertionError

    with contextlib.suppress(AssertionError, hypothesis.errors.Flaky):
        tried()
    return min(worst, key=len) if worst else None


def keep(target: Target, data: bytes) -> Path:
    """Store what was found where the suite looks for it."""
    path = FOUND / target.name / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def found() -> Iterator[tuple[Target, Path]]:
    """Everything that failed once."""
    by_name = {target.name: target for target in TARGETS}
    for path in sorted(FOUND.glob("*/*")):
        yield by_name[path.parent.name], path


def fuzz(tried: Tried) -> Iterator[Case]:
    """What failed once, then every target for a while."""
    for target, path in () if tried.small else found():  # the suite has a test for each of them
        yield Case(f"{target.name}, found before: {path.name}", failure(target, path.read_bytes()))
    for target in TARGETS:
        worst = attack(target, seed=1, examples=tried.sized(8, 400))
        problem = "" if worst is None else f"{worst[:80]!r}: {failure(target, worst)}"
        yield Case(target.name, problem)


def main() -> int:
    """Go on for so many minutes of processor time; 1 when anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.red.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="of processor time")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    names = [each.name for each in TARGETS]
    parser.add_argument("--only", default="", choices=names, help="one target", metavar="TARGET")
    chosen = parser.parse_args()
    over = chosen.minutes * 60
    seed, wrong = chosen.seed, 0
    targets = [each for each in TARGETS if chosen.only in ("", each.name)]
    while time.process_time() < over:
        for target in targets:
            if time.process_time() >= over:
                break
            worst = attack(target, seed, 300)
            if worst is not None:
                wrong += 1
                print(
                    f"FOUND {target.name}: {failure(target, worst)}: {keep(target, worst)}",
                    flush=True,
                )
        seed += 1
        print(
            f"seed {seed}, {sum(each.fed for each in targets)} inputs, {wrong} found,"
            f" {time.process_time() / 60:.1f} minutes",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
