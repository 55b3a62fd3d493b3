"""How well the rules of the cache tell what sessions cost: `python -m tests.cache_figures FOLDER`.

Every file below the folder that a reader knows is taken as one session. For each, the money by
what was recorded is set beside the money by sizes and times alone.

With `--what-if` each is imported instead, and `mindstone cost --what-if` asked: is what was paid
in the range that is told for the window as it is set, and for one so large that nothing leaves it?
`--most N` takes so many sessions of each folder inside FOLDER, chosen by their names' hashes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import tempfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.interchange.formats import format_of
from mindstone_tui.core.library.cost import CostFold
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers.cache_rules import OPENAI, SentPrompt, expect, rules_of
from mindstone_tui.core.providers.catalogue import PriceBook, cost
from tests.cli.program import mindstone_here


def predict(requests: Iterable[tuple[SentPrompt, Usage]]) -> list[Usage]:
    """What each request would have read and written by the rules; the rest of it as it was.

    Only the first request's own report is used, for what others had left in the cache, and
    whether a program asks for an hour. A model without known rules is taken as it was.
    """
    found: list[Usage] = []
    last: dict[str, SentPrompt] = {}
    shared: int | None = None
    known = list(requests)
    hour = any(usage.cache_hour for _, usage in known)
    for sent, usage in known:
        shared = (usage.cached or 0) if shared is None else shared
        if rules := rules_of(sent.model, hour=hour):
            read, _ = expect(rules, last.get(sent.model), sent, shared)
            written = 0 if rules is OPENAI else sent.prompt - read
            usage = Usage(
                prompt=sent.prompt,
                completion=usage.completion,
                cached=read,
                cache_written=written,
                cache_hour=written if hour else None,
            )
        last[sent.model] = sent
        found.append(usage)
    return found


def difference(path: Path, book: PriceBook, fewest: int = 3) -> float | None:
    """The money by the rules over the money as recorded, less one; None where it is not known."""
    fold = CostFold(book)
    fold.take(format_of(path).read(path), {})
    if len(fold.sent) < fewest or any(usage.cached is None for _, usage in fold.sent):
        return None
    totals = [0.0, 0.0]
    for (sent, was), told in zip(fold.sent, predict(fold.sent), strict=True):
        for at, usage in enumerate((was, told)):
            if (money := cost(usage, book.prices(sent.model, sent.prompt))) is None:
                return None
            totals[at] += money
    return totals[1] / totals[0] - 1 if totals[0] else None


def sessions_below(folder: Path, most: int) -> Iterator[Path]:
    """The files of sessions, at most so many of each folder inside, in an order of chance."""
    groups: dict[Path, list[Path]] = {}
    for path in folder.rglob("*.jsonl"):
        groups.setdefault(folder / path.relative_to(folder).parts[0], []).append(path)
    for _, paths in sorted(groups.items()):
        yield from sorted(paths, key=lambda it: sha256(it.name.encode()).digest())[: most or None]


class Told(NamedTuple):
    """What a session cost, and between what that is said to lie."""

    recorded: float
    as_set: tuple[float, float]
    whole: tuple[float, float]
    """In a window that nothing leaves."""
    alike: bool
    """Whether the other program sent what such a window sends: no thinking of earlier turns, which
    ours leaves out and others may not, and no prompt that became shorter on the way."""

    def off(self, told: tuple[float, float]) -> float:
        """How far a range is from what was recorded; 0 inside of it."""
        return max(told[0] / self.recorded - 1, 1 - told[1] / self.recorded, 0.0)


def what_if(path: Path) -> Told | None:
    """Import one session into a home of its own, and ask what it would have cost."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["MINDSTONE_HOME"] = home
        (Path(home) / "config.toml").write_text("[recall]\nbackground = false\n")
        if mindstone_here("import", str(path), "--no-wait").returncode:
            return None
        places = next(iter(Places.resolve(os.environ).sessions()), None)
        asked = ("--what-if", "window=100000000,max_tokens=0", "--json")
        done = mindstone_here("cost", str(places.key), *asked) if places else None
    if done is None or done.returncode:
        return None
    found = json.loads(done.stdout)
    if found["requests"] < 3 or not found["recorded"]:
        return None
    as_set, whole = ((each["low"], each["high"]) for each in found["outcomes"])
    fold = CostFold(PriceBook())
    fold.take(format_of(path).read(path), {})
    grew = all(before.prompt * 0.9 <= it.prompt for (before, _), (it, _) in pairwise(fold.sent))
    thought = re.search(rb'"type": ?"thinking"', path.read_bytes())
    return Told(found["recorded"], as_set, whole, grew and not thought)


def say_ranges(paths: Iterable[Path]) -> None:
    found: list[Told] = []
    for path in paths:
        if told := what_if(path):
            found.append(told)
            ranges = " ".join(f"{low:9.4f} to {high:9.4f}" for low, high in told[1:3])
            print(f"{told.off(told.whole):6.1%} {told.recorded:9.4f}  {ranges}  {path}", flush=True)
    for name, offs in (
        ("as set", [each.off(each.as_set) for each in found]),
        ("where nothing leaves", [each.off(each.whole) for each in found]),
        ("of these, where it never did", [each.off(each.whole) for each in found if each.alike]),
    ):
        inside, near = sum(not each for each in offs), sum(each <= 0.06 for each in offs)
        print(f"{name}: {inside} of {len(offs)} enclosed, {near} of them or missed by at most 6 %")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--what-if", action="store_true")
    parser.add_argument("--most", type=int, default=0, help="sessions of each folder inside")
    given = parser.parse_args()
    paths = [path for folder in given.folders for path in sessions_below(folder, given.most)]
    if given.what_if:
        say_ranges(paths)
        return
    book = PriceBook()
    found: list[float] = []
    for path in paths:
        try:
            told = difference(path, book)
        except MindstoneError:
            continue
        if told is not None:
            found.append(abs(told))
    low, middle, high = statistics.quantiles(found, n=4)
    within = sum(each <= 0.05 for each in found)
    print(f"{len(found)} sessions: off by {middle:.1%} in the median ({low:.1%} to {high:.1%}),")
    print(f"{within} of them by at most 5 %")


if __name__ == "__main__":
    main()
