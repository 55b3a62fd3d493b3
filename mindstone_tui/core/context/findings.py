"""What a tool result found, in one line: all that the prompt keeps of it once it is trimmed.

The call stands in front of it and says what was asked, so a finding only says what came of it: the
hits and where they are, the error, how a command ended, which names a file defines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mindstone_tui.core.context.extract import is_error
from mindstone_tui.core.context.messages import Count, one_line
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.patterns import pattern_of

_READ: Final = 40_000
"""Characters at each end of a result that are looked at."""
_MOST_NAMES: Final = 12
_LINE: Final = 160
_MOST_KEPT: Final = 2_000
"""Placeholders that are kept in mind."""

_HIT: Final = pattern_of(r"([^\s:][^:\n]{0,200}):(\d{1,7}):")
_ENDED: Final = pattern_of(
    r"\[?(exit (?:code|status)[ :]+(-?\d{1,3})|stopped: [^\]\n]{1,80})\]?\s*$", re.IGNORECASE
)
_DEFINED: Final = pattern_of(
    r"^(?P<indent>[ \t]{0,8})(?:(?:export|default|pub|public|private|static|async|abstract)[ \t]+)*"
    r"(?:def|class|function|func|fn|struct|enum|trait|interface|type|module)[ \t]+"
    r"(?:\([^)\n]{0,80}\)[ \t]*)?(?P<name>[A-Za-z_$][\w$]{0,80})",
    re.MULTILINE,
)
_RAISED: Final = pattern_of(r"\b\w{0,60}(?:Error|Exception)\b: ?\S")


def finding_of(result: ToolReturned, room: int, count: Count) -> str:
    """What came of a call, as one line of at most so many tokens."""
    text = result.text
    if len(text) > 2 * _READ:
        text = f"{text[:_READ]}\n{text[-_READ:]}"
    lines = [line for line in text.splitlines() if line.strip()]
    if hits := _hits(lines):
        return _listed(f"{_counted(len(lines), hits)}:", hits, room, count)
    if ended := _ENDED.search(lines[-1]) if lines else None:
        wrong = "" if ended[2] == "0" else _error(lines[:-1])
        parts = [wrong, ended[1], *(f"last line: {line}" for line in lines[-2:-1] if line != wrong)]
        return one_line("; ".join(_bounded(part) for part in parts if part), room, count)
    names = _names(text)
    if len(names) > 1 and result.status == "ok":
        return _listed("defines", names, room, count)
    return one_line(_bounded(_error(lines)) or result.finding or text[:_READ], room, count)


def placeholder(line: Line, count: Callable[[str], int], most: int) -> str:
    """What stands in the prompt for a result: what it found, and how to get it back."""
    entry = line.entry
    assert isinstance(entry, ToolReturned)
    back = f"Not shown; read_entry #{line.seq} shows it.]"
    finding = finding_of(entry, max(most - count(f"[. {back}"), 0), count)
    if not finding:
        return f"[{back}"
    stop = "" if finding.endswith((".", "!", "?", "…")) else "."
    return f"[{finding}{stop} {back}"


class Placeholders:
    """Placeholders that were made before, with their sizes.

    Once results take more than their share, every request asks what trimming them would free; most
    of those results were looked at for the request before.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, int], tuple[str, int]] = {}

    def of(
        self, line: Line, model: str, count: Callable[[str], int], longest: int
    ) -> tuple[str, int]:
        """What stands for a result, and how many tokens that takes for a model."""
        key = (line.hash, model, longest)
        if key not in self._made:
            if len(self._made) >= _MOST_KEPT:
                self._made.clear()
            text = placeholder(line, count, longest)
            self._made[key] = (text, count(text))
        return self._made[key]


def _bounded(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def _hits(lines: Sequence[str]) -> list[str]:
    """Places that a search names, if most lines are hits."""
    found = [hit for line in lines if (hit := _HIT.match(line))]
    if len(found) * 2 <= len(lines):
        return []
    places: dict[str, list[str]] = {}
    for hit in found:
        places.setdefault(hit[1], []).append(hit[2])
    return [f"{path}:{','.join(numbers[:4])}" for path, numbers in places.items()]


def _counted(hits: int, places: Sequence[str]) -> str:
    files = f" in {len(places):,} files" if len(places) > 1 else ""
    return f"{hits:,} hit{'' if hits == 1 else 's'}{files}"


def _error(lines: Sequence[str]) -> str:
    """The line that says what went wrong; what was raised says more than that something was."""
    wrong = [line for line in lines if is_error(line)]
    raised = [line for line in wrong if _RAISED.search(line)]
    return next(iter(raised or wrong), "")


def _names(text: str) -> list[str]:
    """Names that a source defines, the outer ones first."""
    found = [(len(match["indent"]) > 0, match["name"]) for match in _DEFINED.finditer(text)]
    return list(dict.fromkeys(name for _, name in sorted(found, key=lambda one: one[0])))


def _listed(what: str, names: Iterable[str], room: int, count: Count) -> str:
    """As many of the names as there is room for; how many are not named is said."""
    every = list(names)
    for shown in range(min(len(every), _MOST_NAMES), 0, -1):
        more = f" and {len(every) - shown:,} more" if shown < len(every) else ""
        said = f"{what} {', '.join(every[:shown])}{more}"
        if count(said) <= room:
            return said
    return one_line(f"{what} {every[0]}", room, count)
