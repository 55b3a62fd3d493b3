"""Private keys that fill many lines: whole, a head without its tail, or a tail without its head."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction.scan import Scan

__all__ = ["LONGEST_BLOCK", "open_block", "private_keys", "putty_keys"]

LONGEST_BLOCK = 20_000
"""No private key has more characters than this."""

_NAMED = r"[A-Za-z0-9 ]{0,40}(?:PRIVATE KEY(?: BLOCK)?|Static key V1)-----"
_HEAD, _TAIL = pattern_of(rf"-----BEGIN {_NAMED}"), pattern_of(rf"-----END {_NAMED}")
_BETWEEN = r"(?:\\{1,3}[nrt]|[\s\"'+,>|#*:→-]|\d(?=[\d\s:→|]))"
"""What may stand around the lines of a key: quotes, escaped line ends, line numbers, a diff."""
_BODY = pattern_of(
    rf"(?:{_BETWEEN}{{1,20}}[A-Z][A-Za-z-]{{2,20}}: [^\n\\]{{1,80}}){{0,6}}"
    rf"(?:{_BETWEEN}{{1,40}}[A-Za-z0-9+/=]{{24,}}+)+"
)
_LAST_LINE = pattern_of(rf"{_BETWEEN}{{1,40}}[A-Za-z0-9+/=]{{1,23}}(?![\w-])")
_TO_TAIL = pattern_of(rf"(?:{_BETWEEN}{{1,40}}[A-Za-z0-9+/=]{{1,23}})?{_BETWEEN}{{1,40}}-----END ")
_KEYED = pattern_of(r"[A-Za-z0-9+/]{40,}|(?:[A-Za-z0-9+/]{16,}\s{1,8}){2}")

_BREAK = pattern_of(r"\n|\\{1,3}n")
_AROUND = " \t\r\"'+,>|#*:→0123456789"
_MARGIN = r"\s{0,12}\d{0,5}[\s\"'+,>|#*:→]{0,12}"
_END_OF_LINE = r"[\s\"',+\\r]{0,12}\Z"
_SHORT_LINE = pattern_of(
    rf"{_MARGIN}([A-Za-z0-9+/]{{2,80}}={{0,2}}|=[A-Za-z0-9+/]{{4}}){_END_OF_LINE}"
)
_LONG_LINE = pattern_of(rf"{_MARGIN}([A-Za-z0-9+/]{{40,}}={{0,2}}){_END_OF_LINE}")
_LAST_RUN = pattern_of(rf"[A-Za-z0-9+/]{{16,80}}={{0,2}}{_END_OF_LINE}")
_UNFINISHED = pattern_of(rf"[A-Za-z0-9+/=]{{0,80}}{_END_OF_LINE}")
_HEADER = pattern_of(rf"{_MARGIN}[A-Z][A-Za-z-]{{2,20}}: .{{1,80}}\Z")
_PUTTY = pattern_of(
    r"private-lines:[ \t]{0,4}\d{1,4}(?:\\{1,3}[nr]|\s|\d(?=[\d\s])){1,16}"
    r"((?:[A-Za-z0-9+/=]{16,}+(?:\\{1,3}[nr]|\s|\d(?=[\d\s])){0,12})+)",
    re.IGNORECASE,
)


def private_keys(scan: Scan) -> Iterator[tuple[str, int, int]]:
    """Every private key in a text, from its first line to its last that is there."""
    after = 0
    for place in scan.places("key"):
        if not scan.low.startswith(("private ", " static "), place - 8):
            continue
        if span := _around(scan.text, place, after):
            after = span[1]
            yield "private-key", *span


def putty_keys(scan: Scan) -> Iterator[tuple[str, int, int]]:
    """The private lines of a key in PuTTY's format."""
    for place in scan.places("private-lines:"):
        if match := _PUTTY.match(scan.text, place):
            yield "putty-key", match.start(1), match.start(1) + len(match[1].rstrip())


def _around(text: str, place: int, after: int) -> tuple[int, int] | None:
    """The block to which a marker belongs."""
    dashes = text.rfind("-----", max(place - 60, after), place)
    if dashes < 0:
        return None
    if head := _HEAD.match(text, dashes):
        return _from_head(text, head)
    if tail := _TAIL.match(text, dashes):
        return _to_tail(text, tail, after)
    return None


def _from_head(text: str, head: re.Match[str]) -> tuple[int, int] | None:
    """A key from its head on, to its tail or as far as there are lines of it."""
    limit = head.end() + LONGEST_BLOCK
    body = _BODY.match(text, head.end(), limit)
    if body is None:
        return None
    if to_tail := _TO_TAIL.match(text, body.end(), limit + 200):
        tail = _TAIL.match(text, to_tail.end() - 9)
        return head.start(), tail.end() if tail else to_tail.end()
    last = _LAST_LINE.match(text, body.end(), limit)
    is_key = last and any(not sign.isalpha() for sign in last.group().lstrip())
    return head.start(), last.end() if last and is_key else body.end()


def _to_tail(text: str, tail: re.Match[str], after: int) -> tuple[int, int] | None:
    """The lines of a key whose head is not there."""
    first = max(tail.start() - LONGEST_BLOCK, text.rfind("-----", after, tail.start()) + 5, after)
    gaps = [(first, first), *(gap.span() for gap in _BREAK.finditer(text, first, tail.start()))]
    start, end = None, tail.start()
    for before, begin in reversed(gaps):
        line, end = text[begin:end], before
        if not line.strip(_AROUND):
            continue
        match = (_SHORT_LINE if start is None else _LONG_LINE).match(line)
        if match is None:
            if run := _LAST_RUN.search(line):
                start = begin + run.start()
            break
        start = begin + match.start(1)
    if start is None or not _KEYED.search(text, start, tail.start()):
        return None
    return start, tail.end()


def open_block(text: str) -> int:
    """Where a key begins that may go on, or the length of the text."""
    first = max(len(text) - LONGEST_BLOCK, 0)
    return min(_open_head(text, first), _open_lines(text, first))


def _open_head(text: str, first: int) -> int:
    """Where a key begins whose tail has not come yet."""
    head = max(text.rfind("-----BEGIN ", first), text.lower().rfind("private-lines:", first))
    if head < 0 or _TAIL.search(text, head):
        return len(text)
    begin = text.find("\n", head) + 1
    while 0 < begin <= (end := text.rfind("\n")):
        stop = text.find("\n", begin, end + 1)
        line = text[begin:stop]
        if line.strip(_AROUND) and not (_SHORT_LINE.match(line) or _HEADER.match(line)):
            return len(text)
        begin = stop + 1
    return head


def _open_lines(text: str, first: int) -> int:
    """Where lines begin that could be the end of a key, should its tail follow."""
    end = text.rfind("\n", first)
    unfinished = text[end + 1 :].lstrip(_AROUND)
    if end < 0 or not ("-----END ".startswith(unfinished[:9]) or _UNFINISHED.match(unfinished)):
        return len(text)
    start = len(text)
    pattern = _SHORT_LINE
    while end > first:
        begin = text.rfind("\n", first, end) + 1
        line = text[begin:end]
        if line.strip(_AROUND):
            match = pattern.match(line)
            if match is None:
                if run := _LAST_RUN.search(line):
                    start = begin + run.start()
                break
            start = begin
            pattern = _LONG_LINE
        end = begin - 1
    return start if _KEYED.search(text, start) or start == len(text) else len(text)
