"""How well the rules of the cache tell what sessions cost: `python -m tests.cache_figures FOLDER`.

Every file below the folder that a reader knows is taken as one session. For each, the money by
what was recorded is set beside the money by sizes and times alone.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.interchange.formats import format_of
from mindstone_tui.core.library.cost import CostFold
from mindstone_tui.core.providers.cache_rules import OPENAI, SentPrompt, expect, rules_of
from mindstone_tui.core.providers.catalogue import PriceBook, cost


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


def main() -> None:
    book = PriceBook()
    found: list[float] = []
    for folder in map(Path, sys.argv[1:]):
        for path in sorted(folder.rglob("*.jsonl")):
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
