"""A program that appends to a session that others write to as well.

Run as `python -m tests.faults.appender HOME NUMBER COUNT LONGEST`; `COUNT` 0 goes on for ever.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.transcript import Transcript
from tests.builders import places_in


def main(home: Path, number: int, count: int, longest: int) -> None:
    """Append lines from ten bytes to `longest`, each naming its writer and its place."""
    chance = random.Random(number)
    transcript = Transcript(places_in(home), channel=f"writer-{number}")
    for at in range(count) if count else itertools.count():
        size = int(10 * (longest / 10) ** chance.random())
        transcript.append(UserMessage(text=f"{number}:{at}:" + "x" * size), turn=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(argument) for argument in sys.argv[2:5]))
