"""How well what people settle is recognised, on sentences that they said to other agents.

    python -m tests.bench.bench_settled [open|sealed]

Precision counts what at least one of two readers took for a rule, decision, correction, preference
or wish to be remembered; recall counts what both did. The sealed half is for the final figure.
"""

from __future__ import annotations

import json
import sys

from mindstone_tui.core.statements import kind_of_sentence
from tests.corpora import lines

SETTLES = frozenset({"rule", "decision", "correction", "preference", "memory"})


def main() -> None:
    half = sys.argv[1] if len(sys.argv) > 1 else "open"
    said = [json.loads(line) for line in lines(f"settled/{half}.jsonl")]
    taken = [kind_of_sentence(one["text"]) in SETTLES for one in said]
    readers = [[one[reader] != "none" for reader in ("first", "second")] for one in said]
    right = sum(found and any(each) for found, each in zip(taken, readers, strict=True))
    found = sum(known and all(each) for known, each in zip(taken, readers, strict=True))
    both = sum(map(all, readers))
    agree = sum(first == second for first, second in readers)
    print(
        f"{half}: {len(said)} sentences of {len({one['person'] for one in said})} people, "
        f"readers agree on {100 * agree / len(said):.1f} %; {sum(taken)} taken, "
        f"precision {right / max(sum(taken), 1):.2f}, recall {found / max(both, 1):.2f}"
    )


if __name__ == "__main__":
    main()
