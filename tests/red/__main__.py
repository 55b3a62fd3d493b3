"""`python -m tests.red [ROOM…]`: every case on a line of its own, then the verdict."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from tests.red import Case, Room, Tried

ROOMS = (
    *("kills", "servers", "crowd", "damage", "compositions", "decisions", "secrets"),
    *("signals", "environments", "machine", "frames", "load", "fuzz", "soak"),
)
"""Each is a module here with a function of the same name."""
APART = frozenset({"soak"})
"""Takes so long that it runs only when it is named."""


def room_named(name: str) -> Room:
    """The function that tries everything in a room."""
    room: Room = getattr(import_module(f"tests.red.{name}"), name)
    return room


def main() -> int:
    """1 when anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.red", description=__doc__)
    parser.add_argument(
        "rooms", nargs="*", choices=[*ROOMS, []], metavar="ROOM", help=", ".join(ROOMS)
    )
    parser.add_argument("--small", action="store_true", help="a small part of each")
    parser.add_argument("--every", type=int, default=1, help="one case in so many", metavar="N")
    chosen = parser.parse_args()
    # What `nohup` or a shell's `&` ignores, every program that is started here would, too.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tried: list[Case] = []
    for name in chosen.rooms or [each for each in ROOMS if each not in APART]:
        with tempfile.TemporaryDirectory(prefix=f"red-{name}-") as base:
            for case in room_named(name)(
                Tried(base=Path(base), small=chosen.small, every=chosen.every)
            ):
                tried.append(case)
                print(_line(name, case), flush=True)
    wrong = [case for case in tried if case.problem]
    skipped = sum(bool(case.skipped) for case in tried)
    print(f"\n{len(tried)} cases: {len(tried) - len(wrong) - skipped} held", end="")
    print(f", {skipped} could not be tried here" if skipped else "", end="")
    print(f", {len(wrong)} did not." if wrong else ".", "RED" if wrong else "GREEN")
    return 1 if wrong else 0


def _line(room: str, case: Case) -> str:
    if case.skipped:
        return f"skip  {room}: {case.name} ({case.skipped})"
    return (
        f"RED   {room}: {case.name}: {case.problem}"
        if case.problem
        else f"ok    {room}: {case.name}"
    )


if __name__ == "__main__":
    sys.exit(main())
