"""`python -m tests.smoke [RUN…]`: all of them, or those that are named."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.smoke.runs import RUNS
from tests.smoke.show import Failed


def main(names: list[str]) -> int:
    """Run them one after the other, each in a home of its own."""
    if unknown := [name for name in names if name not in RUNS]:
        print(f"There is no run {unknown[0]}; there are {', '.join(RUNS)}.", file=sys.stderr)
        return 2
    for name in names or RUNS:
        with tempfile.TemporaryDirectory(prefix="mindstone-smoke-") as folder:
            home = Path(folder) / "home"
            os.environ["MINDSTONE_HOME"] = str(home)
            try:
                RUNS[name](home)
            except Failed as failed:
                print(f"\n{name}: {failed}", file=sys.stderr)
                return 1
    print("\nAll of it holds.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
