"""Searches files with Python's own regular expressions; started as a program, killed when slow."""

import fnmatch
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

_LARGEST = 16 * 1024 * 1024
_LONGEST = 400


def main(asked: dict[str, Any]) -> int:
    """Print `file:line:text` for each hit; 0 for hits, 1 for none, 2 for a bad pattern."""
    try:
        pattern = re.compile(asked["pattern"], re.IGNORECASE if asked["ignore_case"] else 0)
    except re.error as error:
        print(error, file=sys.stderr)
        return 2
    found = False
    for path in _files(asked["target"], asked["glob"], set(asked["left_out"])):
        for line in _hits(path, pattern, asked["context"]):
            found = True
            sys.stdout.write(line + "\n")
    return 0 if found else 1


def _files(target: str, glob: str, left_out: set[str]) -> Iterator[str]:
    if target != ".":
        yield target
        return
    for folder, names, files in os.walk("."):
        names[:] = sorted(
            name
            for name in names
            if not name.startswith(".") and f"{folder}/{name}"[2:] not in left_out
        )
        for name in sorted(files):
            path = os.path.join(folder, name)  # noqa: PTH118 (speed over a whole tree)
            if not name.startswith(".") and (not glob or _fits(path[2:], name, glob)):
                yield path


def _fits(path: str, name: str, glob: str) -> bool:
    return fnmatch.fnmatch(path if "/" in glob else name, glob)


def _hits(path: str, pattern: re.Pattern[str], context: int) -> Iterator[str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(fd, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST or b"\0" in data[:8192]:
        return
    lines = data.decode("utf-8", "replace").split("\n")
    hits = [number for number, line in enumerate(lines) if pattern.search(line)]
    shown = {near for hit in hits for near in range(hit - context, hit + context + 1)}
    marked = set(hits)
    for number in sorted(shown & set(range(len(lines)))):
        sign = ":" if number in marked else "-"
        yield f"{path}{sign}{number + 1}{sign}{lines[number][:_LONGEST]}"


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(main(json.loads(sys.argv[1])))
