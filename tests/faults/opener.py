"""A program that opens the default session, appends one line, and says what a user would be told.

Run as `python -m tests.faults.opener HOME`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.transcript import Transcript
from tests.builders import places_in


def main(home: Path) -> int:
    """0 when the line is on disk, else the error's own exit code."""
    try:
        Transcript(places_in(home)).append(UserMessage(text="hello" * 20_000), turn=1)
    except MindstoneError as error:
        print(error.what)
        print(error.remedy)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
