"""How a credential that announces itself is found: one look over a text, then the formats.

Most texts hold no secret, so the look decides the speed. The text becomes bytes, one for each
character and each in its place, and only what runs at the speed of memory is done to all of them:
literals are found, and stretches of twenty or more letters and digits. Patterns are tried at these
places alone.

A format has anchors, the literals it begins with, and a pattern that is tried only where an anchor
stands at the edge of a word. Open-ended runs are over one class of characters, at the end or up to
a literal outside that class, so a hostile text cannot slow a pattern down.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction.values import STRANGE, is_example, strangeness

Matches = Iterator[tuple[str, int, int]]
"""Kind, start and end of each secret."""

LEAST_RUN = 20
"""No format has a shorter unbroken stretch."""

_SMALL, _CAPITAL = b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SNAKE, _CAMEL = _SMALL + b"_-+/", _SMALL + _CAPITAL + b"+/"
_MANY_CAPITALS = 6
_RUN_SIGNS = _SNAKE + _CAPITAL + b"0123456789"
_SHADE = bytes(120 if sign in _RUN_SIGNS else 32 for sign in range(256))
_LONG, _GAP = b"x" * LEAST_RUN, b" "


class Scan:
    """A text, and what one look over all of it shows."""

    def __init__(self, text: str) -> None:
        self.text = text
        octets = text.encode("latin-1", "replace")
        self.low = octets.lower().decode("latin-1")
        """The text in lower case, each sign in its place; "?" for those beyond Latin."""
        self.runs = _runs(octets) if len(octets) >= LEAST_RUN else []
        self._places: dict[str, list[int]] = {}

    def places(self, literal: str) -> list[int]:
        """Where a literal, given in lower case, stands in any case."""
        if literal not in self._places:
            self._places[literal] = places = []
            find = self.low.find
            place = find(literal)
            while place >= 0:
                places.append(place)
                place = find(literal, place + 1)
        return self._places[literal]

    @property
    def longest_run(self) -> int:
        """The length of the longest of the runs; 0 where there is none."""
        return max((end - start for start, end in self.runs), default=0)


def _runs(octets: bytes) -> list[tuple[int, int]]:
    """Every longest stretch of letters, digits and "_-+/" that could hold a token.

    Names and paths are left out: without a digit, a token has many capitals and a joint, or
    nothing but capitals.
    """
    found = []
    find = octets.translate(_SHADE).find
    start = find(_LONG)
    while start >= 0:
        if (end := find(_GAP, start + LEAST_RUN)) < 0:
            end = len(octets)
        run = octets[start:end]
        telling = run.translate(None, _SNAKE)
        if telling and (
            not telling.isalpha()
            or (len(telling) >= _MANY_CAPITALS and run.translate(None, _CAMEL))
            or telling == run
        ):
            found.append((start, end))
        start = find(_LONG, end)
    return found


# Formats


class SecretFormat(msgspec.Struct, frozen=True):
    """One kind of credential and how to recognise it."""

    kind: str
    anchors: tuple[str, ...]
    pattern: str
    """Its first group, or the whole match, is the secret. Compiled when it is first tried."""
    lead: int = 0
    """How many characters of the match stand before the anchor."""
    loose: bool = False
    """What stands before the anchor may be part of something longer."""
    random: bool = False
    """Too little announces it: the rest must look random, too."""
    strict: bool = False
    """Its letters could stand in base64 by chance: no "+" or "/" may touch it."""


@cache
def vendor_formats() -> tuple[SecretFormat, ...]:
    """Every format in `vendors.tsv`, the surest first."""
    text = (Path(__file__).parent / "vendors.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line and line[0] != "#")
    return tuple(_format(*row) for row in rows)


def _format(kind: str, how: str, anchors: str, pattern: str) -> SecretFormat:
    literals = tuple(anchors.split(" "))
    pattern = pattern.replace("{uuid}", _UUID)
    way, _, lead = how.partition(" ")
    if not lead:
        pattern = f"(?:{'|'.join(map(re.escape, literals))}){pattern}"
    if way == "apart":
        pattern += "(?![A-Za-z0-9+/])"
    return SecretFormat(
        kind,
        literals,
        pattern,
        lead=int(lead or 0),
        loose=way == "loose",
        random=way == "random",
        strict=way == "apart",
    )


_UUID = "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_Tree = dict[str, "_Tree"]
_LOOK_BACK = 48
"""How far before a long run of letters and digits the beginning of its token is looked for."""
_JOINTS = ".$:~!=|"
"""What may stand inside a token and is no part of a run."""
_LEAST_INNER = 35
"""An anchor inside a run without joints makes a token of at least so many characters."""
_TOKEN_SIGNS = _JOINTS + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/"
_GLUE = pattern_of(r"\\[nrt]|\\u00[0-9a-f]{2}|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]{0,8}m")
"""Escaped line ends, percent codes and colours are no part of the word after them."""
_ESCAPES = "\\%[;"
_APART = ("", "\n", " ", "\t", "\r", "/", ":", "=")


class Formats:
    """Many formats, found in one pass over the long runs of a text."""

    def __init__(self, rules: Iterable[SecretFormat]) -> None:
        self._by_anchor = [(anchor, rule) for rule in rules for anchor in rule.anchors]
        self._beginning = sorted((a for a, rule in self._by_anchor if not rule.lead), key=len)
        self._announced: dict[str, list[tuple[str, SecretFormat]]] = {}

    @cached_property
    def _first(self) -> re.Pattern[str]:
        return re.compile(f"(?<![A-Za-z0-9])(?:{_any_of(self._beginning)})")

    @cached_property
    def _inner(self) -> re.Pattern[str]:
        return re.compile(_any_of(anchor for anchor, rule in self._by_anchor if rule.lead))

    def matches(self, scan: Scan) -> Matches:
        """Every (kind, start, end) whose anchor stands in a run or shortly before it."""
        text, after = scan.text, 0
        for run, last in scan.runs:
            first = run
            if (before := text[first - 1 : first]) and before in _JOINTS:
                head = text[max(first - _LOOK_BACK, after) : first]
                first -= len(head) - len(head.rstrip(_TOKEN_SIGNS))
                before = text[first - 1 : first]
            if before and before in _ESCAPES and (matched := self._match_glued(text, first)):
                after = matched[2]
                yield matched
            joined = first < run or last - run >= _LEAST_INNER or text[last : last + 1] in _JOINTS
            for anchors in (self._first, self._inner) if joined else (self._first,):
                found = anchors.search(text, max(first, after), last)
                while found:
                    begin = found.start() + 1
                    if matched := self._match(text, found.start(), found.group()):
                        begin = after = matched[2]
                        yield matched
                    found = anchors.search(text, begin, last)

    def _match_glued(self, text: str, first: int) -> tuple[str, int, int] | None:
        """The format right after an escape that ends in this run."""
        start = text.rfind("\x1b", max(first - 9, 0), first)
        glue = _GLUE.match(text, first - 1 if start < 0 else start)
        if glue is None:
            return None
        place = glue.end()
        anchor = next((each for each in self._beginning if text.startswith(each, place)), "")
        return self._match(text, place, anchor) if anchor else None

    def _match(self, text: str, place: int, shortest: str) -> tuple[str, int, int] | None:
        for anchor, rule in self._announced_by(shortest):
            start = place - rule.lead
            if start < 0 or not text.startswith(anchor, place):
                continue
            if rule.strict and not _stands_apart(text, start):
                continue
            if rule.lead and not rule.loose and _continues(text, start):
                continue
            match = _compiled(rule.pattern).match(text, start)
            if match is None or is_example(match.group()):
                continue
            if not rule.random or strangeness(match.group()) >= STRANGE:
                return rule.kind, *match.span(match.lastindex or 0)
        return None

    def _announced_by(self, shortest: str) -> list[tuple[str, SecretFormat]]:
        if shortest not in self._announced:
            self._announced[shortest] = [it for it in self._by_anchor if it[0].startswith(shortest)]
        return self._announced[shortest]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _continues(text: str, start: int) -> bool:
    """Whether a word that began before goes on here."""
    before = text[max(start - 2, 0) : start]
    return before[-1:].isalnum() and before not in ("\\n", "\\r", "\\t")


def _any_of(anchors: Iterable[str]) -> str:
    """A pattern for the shortest of these anchors that stands at a place."""
    tree: _Tree = {}
    for anchor in anchors:
        node = tree
        for sign in anchor:
            node = node.setdefault(sign, {})
        node[""] = {}
    return _alternatives(tree)


def _alternatives(node: _Tree) -> str:
    """A pattern for the shortest anchors in this branch."""
    if "" in node:
        return ""
    branches = [re.escape(sign) + _alternatives(below) for sign, below in sorted(node.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _stands_apart(text: str, start: int) -> bool:
    """Whether what is before is no base64."""
    return (
        start == 0 or text[start - 1] not in "+/_-" or text[max(start - 2, 0) : start - 1] in _APART
    )
