"""What could stand at the cursor: slash commands and their words, and files after an `@`."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import patterns, text
from mindstone_tui.tui.host import CommandHelp

MOST = 50
_WORD_BEFORE = patterns.pattern_of(r"(?:^|\s)(@\S*)$")


USUAL: Final = (
    *("help", "model", "context", "recall", "sessions", "new", "title", "pin", "restore"),
    *("prune", "compact", "memory", "task", "fork", "rewind", "replay", "export", "tools"),
    *("approve", "key", "status", "budget", "cost", "why", "notes", "policy", "mode"),
)
"""Commands in the order in which people reach for them; the rest follows by name."""


def by_use(commands: Iterable[CommandHelp]) -> list[CommandHelp]:
    """Commands, the most used first."""
    place = {name: at for at, name in enumerate(USUAL)}
    return sorted(commands, key=lambda one: (place.get(one.name, len(USUAL)), one.name))


class Offer(msgspec.Struct, frozen=True):
    """One completion."""

    insert: str
    label: str
    help: str = ""
    detail: str = ""
    """What it takes and does, in full, for the one that is highlighted."""


class Completion(msgspec.Struct, frozen=True):
    """Offers for the text from column `start` to the cursor."""

    start: int
    offers: tuple[Offer, ...]


def wants_files(line: str, column: int) -> bool:
    """The cursor is in a word that begins with `@`."""
    return _WORD_BEFORE.search(line[:column]) is not None


def complete(
    line: str,
    column: int,
    *,
    first_line: bool,
    commands: Sequence[CommandHelp],
    files: Sequence[str],
) -> Completion | None:
    """Offers for a place in the prompt, best first; None when there is nothing to offer."""
    before = line[:column]
    if first_line and before.startswith("/"):
        return _command(before, commands)
    if found := _WORD_BEFORE.search(before):
        word = found.group(1)
        offers = tuple(Offer(f"@{_quoted(name)} ", name) for name in ranked(word[1:], files)[:MOST])
        return Completion(column - len(word), offers) if offers else None
    return None


def _command(before: str, commands: Sequence[CommandHelp]) -> Completion | None:
    name, space, rest = before[1:].partition(" ")
    if not space:
        by_name = {command.name: command for command in by_use(commands)}
        offers = tuple(_offered_command(by_name[n]) for n in ranked(name, by_name))
        return Completion(0, offers) if offers else None
    command = next((one for one in commands if one.name == name), None)
    if command is None or " " in rest:
        return None
    offers = tuple(Offer(f"{word} ", word) for word in ranked(rest, command.choices)[:MOST])
    return Completion(len(before) - len(rest), offers) if offers else None


def _offered_command(command: CommandHelp) -> Offer:
    usage = f"/{command.name} {command.usage}".rstrip()
    detail = "\n".join(part for part in (usage, command.help, command.details) if part)
    return Offer(f"/{command.name} ", f"/{command.name}", command.help, detail)


def ranked(typed: str, names: Iterable[str]) -> list[str]:
    """Names that contain the typed letters in order: prefixes first, then runs, then the rest."""
    if not (letters := typed.lower()):
        return list(names)
    scattered = re.compile(".*?".join(map(re.escape, letters)))
    scored: list[tuple[int, int, str]] = []
    for name in names:
        low = name.lower()
        if low.startswith(letters) or low.rsplit("/", 1)[-1].startswith(letters):
            rank = 0
        elif letters in low:
            rank = 1
        elif scattered.search(low):
            rank = 2
        else:
            continue
        scored.append((rank, len(name), name))
    return [name for _, _, name in sorted(scored)]


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


MOST_FILES: Final = 20_000
CLUTTER: Final = frozenset(
    {"node_modules", "__pycache__", "target", "dist", "build", "venv", "site-packages"}
)


def names_below(folder: Path, most: int = MOST_FILES) -> list[str]:
    """Relative names, folders before what is in them, shallow before deep."""
    found: list[str] = []
    level = [""]
    while level and len(found) < most:
        deeper: list[str] = []
        for below in level:
            for entry in _entries(folder / below):
                name = f"{below}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    deeper.append(f"{name}/")
                    found.append(f"{name}/")
                else:
                    found.append(name)
                if len(found) >= most:
                    return found
        level = deeper
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (entry for entry in entries if _offered(entry.name)), key=lambda entry: entry.name
            )
    except OSError:
        return []


def _offered(name: str) -> bool:
    usual = not name.startswith(".") and name not in CLUTTER
    return usual and "\n" not in name and text.for_terminal(name) == name
