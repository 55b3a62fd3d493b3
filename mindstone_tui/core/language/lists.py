"""Word lists, read from text files when they are first asked for, and once.

A line in brackets opens a list; each line below it is one entry. `#` begins a line of comment, and
blank lines do not count.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

_HOME: Final = Path(__file__).with_name("data")


def lists_in(path: Path) -> dict[str, list[str]]:
    """The lists of a file by their names, in order."""
    found: dict[str, list[str]] = {}
    entries: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            entries = found.setdefault(line[1:-1], [])
        else:
            entries.append(line)
    return found


@cache
def expression(path: Path, name: str) -> re.Pattern[str]:
    """The lines of a list as one regular expression, in which capitals do not matter."""
    return re.compile("".join(lists_in(path)[name]), re.IGNORECASE)


@cache
def lists_of(name: str) -> dict[str, list[str]]:
    """The lists that ship under this name: `english`, `small_words`, `phrases`."""
    return lists_in(_HOME / f"{name}.txt")


@cache
def english(name: str) -> frozenset[str]:
    """An English word list as a set."""
    return frozenset(lists_of("english")[name])


@cache
def verb() -> str:
    """An expression for what people tell a program to do."""
    return f"(?:{'|'.join(lists_of('english')['verbs'])})"
