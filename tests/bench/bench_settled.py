"""How well what people settle is recognised, on sentences that they said to other agents.

    python -m tests.bench.bench_settled [open|sealed]

Precision counts what at least one of two readers took for a rule, decision, correction, preference
or wish to be remembered; recall counts what both did. The sealed half is for the final figure.
"""

from __future__ import annotations

import json
import sys

from mindstone_tui.core.statements.recogniser import recognise
from mindstone_tui.core.statements.statement import Utterance
from tests.corpora import lines

SETTLES = frozenset({"rule", "decision", "correction", "preference", "memory"})


def main() -> None:
    half = sys.argv[1] if len(sys.argv) > 1 else "open"
    said = [json.loads(line) for line in lines(f"settled/{half}.jsonl")]
    found = [recognise(Utterance(speaker="user", text=one["text"], line=0)) for one in said]
    settling = [[one for one in each if one.kind in SETTLES] for each in found]
    readers = [[one[reader] != "none" for reader in ("first", "second")] for one in said]
    agree = sum(first == second for first, second in readers)
    people = len({one["person"] for one in said})
    print(
        f"{half}: {len(said)} sentences of {people} people, "
        f"readers agree on {100 * agree / len(said):.1f} %"
    )
    for name, taken in (
        ("asserted", [any(one.sure for one in each) for each in settling]),
        ("asserted or offered", [bool(each) for each in settling]),
    ):
        right = sum(each and any(by) for each, by in zip(taken, readers, strict=True))
        both = sum(each and all(by) for each, by in zip(taken, readers, strict=True))
        print(
            f"{name}: {sum(taken)}, precision {right / max(sum(taken), 1):.2f}, "
            f"recall {both / max(sum(map(all, readers)), 1):.2f}"
        )


if __name__ == "__main__":
    main()
