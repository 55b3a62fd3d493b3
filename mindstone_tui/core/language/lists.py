"""Word lists and expressions, read from text files when they are first asked for, and once.

A line in brackets opens a list; each line below it is one entry. `#` begins a line of comment, and
blank lines do not count. The lines of an expression are read as one; `(?&name)` in it stands for
another list of its file.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

from mindstone_tui.core.patterns import pattern_of

_HOME: Final = Path(__file__).with_name("data")
_REFERENCE: Final = pattern_of(r"\(\?&([a-z ]+)\)")


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
    return re.compile(_written(path, name), re.IGNORECASE)


def pattern_beside(module: str, name: str, flags: int = 0) -> re.Pattern[str]:
    """An expression in the text file beside a module, as a constant of that module."""
    return pattern_of(lambda: _written(Path(module).with_suffix(".txt"), name), flags)


def _written(path: Path, name: str) -> str:
    """An expression as its file has it, with what it refers to put in."""
    lists = lists_in(path)
    return _REFERENCE.sub(lambda found: "".join(lists[found[1]]), "".join(lists[name]))


@cache
def lists_of(name: str) -> dict[str, list[str]]:
    """The lists that ship under this name: `english`, `small_words`, `phrases`, `languages`."""
    return lists_in(_HOME / f"{name}.txt")


@cache
def english(name: str) -> frozenset[str]:
    """An English word list as a set."""
    return frozenset(lists_of("english")[name])


@cache
def verb() -> str:
    """An expression for what people tell a program to do."""
    return f"(?:{'|'.join(lists_of('english')['verbs'])})"
