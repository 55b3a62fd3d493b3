"""The redactor: every net over a text, overlaps joined, until nothing is left to take out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from mindstone_tui.core.redaction.assignments import WORDS, assigned
from mindstone_tui.core.redaction.blocks import private_keys, putty_keys
from mindstone_tui.core.redaction.commands import command_passwords
from mindstone_tui.core.redaction.contexts import (
    Matches,
    addresses,
    beside_runs,
    hashes,
    headers,
    logins,
    sql_logins,
    webhooks,
)
from mindstone_tui.core.redaction.findings import PLACEHOLDER, Finding, Redacted, fingerprint
from mindstone_tui.core.redaction.formats import Formats
from mindstone_tui.core.redaction.known import KnownValues
from mindstone_tui.core.redaction.scan import Scan
from mindstone_tui.core.redaction.vendors import FORMATS

__all__ = ["Redactor", "Span", "blacked_out"]

Span = tuple[int, int, str]
"""Start, end and kind of a secret."""

_VENDORS = Formats(FORMATS)
_OWN_KINDS = frozenset(
    (
        *(rule.kind for rule in FORMATS),
        *("authorization", "command-password", "jwk", "netrc-password", "password-hash"),
        *("private-key", "putty-key", "secret", "slack-webhook", "url-password", "webhook"),
    )
)
_NETS: tuple[tuple[str, Callable[[Scan], Matches]], ...] = (
    ("key", private_keys),
    ("private-lines:", putty_keys),
    ("://", addresses),
    ("://", webhooks),
    ("auth", headers),
    ("pass", logins),
    ("identified by", sql_logins),
    ("$", hashes),
    (" -", command_passwords),
    *((word, partial(assigned, word=word)) for word in WORDS),
)
"""What finds secrets, and the literal without which it finds none; the surest first."""

_LITERALS = tuple(dict.fromkeys(literal for literal, _ in _NETS))
_MOST_PASSES = 6


class Redactor:
    """Blacks out secrets; the same text always gives the same result."""

    def __init__(self, known: Mapping[str, str] | None = None, allow: Collection[str] = ()) -> None:
        self._allow = frozenset(allow)
        self.known = KnownValues(known or {})
        self._kinds = _OWN_KINDS | self.known.kinds

    def redact(self, text: str) -> Redacted:
        """The text without its secrets."""
        spans = self.secrets(text)
        return blacked_out(text, spans) if spans else Redacted(text, ())

    def secrets(self, text: str) -> list[Span]:
        """Where the secrets of a text stand, in order and apart from one another."""
        taken: list[Span] = []
        shown = text
        # Blacking out one secret can bare the edge of its neighbour: look again until none is left.
        for _ in range(_MOST_PASSES):
            spans = self._spans(shown)
            if not spans:
                break
            taken = _merged(text, taken, spans)
            shown = blacked_out(text, taken).text
        return taken

    def _spans(self, text: str) -> list[Span]:
        """What to black out, in order, overlaps joined under the surest kind."""
        found = self._matches(text)
        if not found:
            return []
        raw = [
            (start, end, rank, kind) for rank, (kind, start, end) in enumerate(found) if end > start
        ]
        marked = _Stretches(
            mark.span() for mark in PLACEHOLDER.finditer(text) if mark.group(1) in self._kinds
        )
        joined: list[tuple[int, int, int, str]] = []
        for start, end, rank, kind in sorted(raw):
            if marked.touch(start, end):
                continue
            value = text[start:end]
            if value in self._allow or f"{kind}:{fingerprint(value)}" in self._allow:
                continue
            if joined and start < joined[-1][1]:
                before = joined[-1]
                surest = min((before[2], before[3]), (rank, kind))
                joined[-1] = (before[0], max(before[1], end), *surest)
            else:
                joined.append((start, end, rank, kind))
        return [(start, end, kind) for start, end, _, kind in joined]

    def _matches(self, text: str) -> list[tuple[str, int, int]]:
        """Every (kind, start, end), surest kinds first."""
        scan = Scan(text)
        found = [*self.known.matches(scan)] if self.known.spellings else []
        if scan.runs:
            found += _VENDORS.matches(scan)
        low = scan.low
        present = [literal for literal in _LITERALS if literal in low]
        if present:
            for literal, net in _NETS:
                if literal in present:
                    found += net(scan)
        if scan.runs:
            found += beside_runs(scan)
        return found


def blacked_out(text: str, spans: Iterable[Span]) -> Redacted:
    """The text with a placeholder for each of these spans."""
    found: list[Finding] = []
    pieces: list[str] = []
    last, line = 0, 1
    for start, end, kind in spans:
        line += text.count("\n", last, start)
        found.append(Finding(kind, fingerprint(text[start:end]), line))
        line += text.count("\n", start, end)
        pieces += [text[last:start], found[-1].placeholder]
        last = end
    return Redacted("".join([*pieces, text[last:]]), tuple(found))


def _merged(text: str, taken: list[Span], spans: list[Span]) -> list[Span]:
    """What was taken before, and what was seen since in the text that showed placeholders."""
    moved: list[Span] = []
    ahead = 0  # by how much a place in the shown text is beyond the same place in the given one
    rest = iter(taken)
    before = next(rest, None)
    for start, end, kind in spans:
        while before and before[0] + ahead < start:
            placeholder = Finding(before[2], fingerprint(text[before[0] : before[1]])).placeholder
            ahead += len(placeholder) - (before[1] - before[0])
            before = next(rest, None)
        moved.append((start - ahead, end - ahead, kind))
    return sorted([*taken, *moved])


class _Stretches:
    """Disjoint stretches of a text, in order."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = list(spans)

    def touch(self, start: int, end: int) -> bool:
        """Whether one of them shares a character with this stretch."""
        at = bisect_left(self._spans, end, key=lambda span: span[0])
        return at > 0 and self._spans[at - 1][1] > start
