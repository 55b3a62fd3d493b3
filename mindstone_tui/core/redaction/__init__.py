"""Find secrets and black them out before anything is written.

Three nets, from sure to unsure: the exact values of keys we know (our own, and what the environment
calls a secret), the published formats of vendors' credentials, and random-looking values that stand
right beside a word like "password". A placeholder keeps the kind and a four-digit fingerprint, so
the same secret is recognisably the same everywhere and nothing else of it remains:

    [redacted:github-token:1f3a]

A false positive is allowed by that label (`github-token:1f3a`) or by the text itself. Every pattern
runs in time linear in the text, and most never run: a rule is tried only where its anchor occurs.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import string
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import quote

import msgspec

from mindstone_tui.core.redaction.formats import FORMATS, SecretFormat

__all__ = ["Finding", "Redacted", "Redactor", "secrets_of"]

_SHORTEST_KNOWN = 8
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?|AUTH|DSN|PAT|COOKIE)"
    r"(?:$|_(?!URL$|URI$|HOST$|PATH$|FILE$|DIR$|SOCK$|NAME$|TYPE$|ENDPOINT$))|APIKEY",
    re.IGNORECASE,
)
_HARMLESS_VALUE = re.compile(r"(?:true|false|none|null|yes|no|\d{1,12}|/[\w./-]*|~/.*)\Z", re.I)
_ESCAPE_BEFORE = re.compile(r"(?:\\[nrt]|%[0-9A-Fa-f]{2})\Z")
_PLACEHOLDER = re.compile(r"\[redacted:([A-Za-z0-9_.-]{1,64}):[0-9a-f]{4}\]")


class Finding(msgspec.Struct, frozen=True):
    """One secret that was blacked out: what it was, never what it said."""

    kind: str
    fingerprint: str

    @property
    def label(self) -> str:
        """How a person names it to allow it."""
        return f"{self.kind}:{self.fingerprint}"


class Redacted(msgspec.Struct, frozen=True):
    """A text that may be written, and what was taken out of it."""

    text: str
    found: tuple[Finding, ...] = ()


class Redactor:
    """Blacks out secrets; the same text always gives the same result."""

    def __init__(self, known: Mapping[str, str] | None = None, allow: Collection[str] = ()) -> None:
        self._allow = frozenset(allow)
        self._known = tuple(_spellings(known or {}))
        self._kinds = frozenset(
            [*(rule.kind for rule in FORMATS), *(kind for kind, _ in self._known), _BESIDE]
        )

    def redact(self, text: str) -> Redacted:
        """The text without its secrets."""
        found: list[Finding] = []
        # Blacking out one secret can bare the edge of its neighbour: go on until nothing is left.
        while spans := self._spans(text):
            pieces: list[str] = []
            last = 0
            for start, end, kind in spans:
                finding = Finding(kind, _fingerprint(text[start:end]))
                found.append(finding)
                pieces += [text[last:start], f"[redacted:{finding.label}]"]
                last = end
            text = "".join([*pieces, text[last:]])
        return Redacted(text, tuple(found))

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        """What to black out, in order, overlaps joined under the surest kind."""
        raw = [
            (start, end, rank, kind)
            for rank, (kind, start, end) in enumerate(self._matches(text))
            if end > start
        ]
        if not raw:
            return []
        blacked = _Spans(
            mark.span() for mark in _PLACEHOLDER.finditer(text) if mark.group(1) in self._kinds
        )
        joined: list[tuple[int, int, int, str]] = []
        for start, end, rank, kind in sorted(raw):
            if blacked.touch(start, end):
                continue
            value = text[start:end]
            if value in self._allow or f"{kind}:{_fingerprint(value)}" in self._allow:
                continue
            if joined and start < joined[-1][1]:
                before = joined[-1]
                surest = min((before[2], before[3]), (rank, kind))
                joined[-1] = (before[0], max(before[1], end), *surest)
            else:
                joined.append((start, end, rank, kind))
        return [(start, end, kind) for start, end, _, kind in joined]

    def _matches(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Every (kind, start, end), surest kinds first."""
        for kind, value in self._known:
            for start in _places(value, text):
                yield kind, start, start + len(value)
        yield from _by_format(_EXACT, text, text)
        folded = _folded(text)
        yield from _by_format(_FOLDED, text, folded)
        for word in _WORDS:
            yield from _beside(word, text, folded)


class _Spans:
    """Disjoint stretches of a text, in order."""

    def __init__(self, spans: Iterator[tuple[int, int]]) -> None:
        self._spans = list(spans)

    def touch(self, start: int, end: int) -> bool:
        """Whether one of them shares a character with this stretch."""
        at = bisect_left(self._spans, end, key=lambda span: span[0])
        return at > 0 and self._spans[at - 1][1] > start


def secrets_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names say that their values are secret."""
    return {
        name: value
        for name, value in environ.items()
        if len(value) >= _SHORTEST_KNOWN
        and _SECRET_NAME.search(name)
        and not _HARMLESS_VALUE.match(value)
    }


def _spellings(known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each known value as it is and as it commonly travels, longest first."""
    spelled: dict[str, str] = {}
    for name, value in known.items():
        if len(value) < _SHORTEST_KNOWN:
            continue
        kind = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64] or "known"
        octets = value.encode("utf-8", "surrogatepass")
        coded = base64.b64encode(octets).decode().rstrip("=")
        escaped = msgspec.json.encode(value.encode("utf-8", "replace").decode()).decode()[1:-1]
        for spelling in (value, escaped, quote(octets, safe=""), coded, octets.hex()):
            spelled.setdefault(spelling, kind)
    for spelling in sorted(spelled, key=lambda each: (-len(each), each)):
        yield spelled[spelling], spelling


def _fingerprint(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:4]


class _Anchors:
    """The literals at which formats are tried, found in one pass over a text."""

    def __init__(self, rules: Iterable[SecretFormat]) -> None:
        self._by_anchor = [(anchor, rule) for rule in rules for anchor in rule.anchors]
        tree: _Tree = {}
        for anchor, _ in self._by_anchor:
            node = tree
            for sign in anchor:
                node = node.setdefault(sign, {})
            node[""] = {}
        self._pattern = re.compile(_alternatives(tree))
        self._rules: dict[str, list[tuple[str, SecretFormat]]] = {}

    def places(self, text: str) -> Iterator[tuple[int, SecretFormat]]:
        """Every place where an anchor stands, with the format it announces."""
        found = self._pattern.search(text)
        while found:
            place, shortest = found.start(), found.group()
            for anchor, rule in self._announced_by(shortest):
                if text.startswith(anchor, place):
                    yield place, rule
            found = self._pattern.search(text, place + 1)

    def _announced_by(self, shortest: str) -> list[tuple[str, SecretFormat]]:
        if shortest not in self._rules:
            self._rules[shortest] = [
                pair for pair in self._by_anchor if pair[0].startswith(shortest)
            ]
        return self._rules[shortest]


_Tree = dict[str, "_Tree"]


def _alternatives(node: _Tree) -> str:
    """A pattern for the shortest anchors in this branch."""
    if "" in node:
        return ""
    branches = [re.escape(sign) + _alternatives(below) for sign, below in sorted(node.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


_EXACT = _Anchors(rule for rule in FORMATS if not rule.folded)
_FOLDED = _Anchors(rule for rule in FORMATS if rule.folded)
_LOWER = {ord(sign): sign.lower() for sign in string.ascii_uppercase}


def _folded(text: str) -> str:
    """The text in lower case, each character in its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_LOWER)


def _places(literal: str, text: str) -> Iterator[int]:
    start = text.find(literal)
    while start >= 0:
        yield start
        start = text.find(literal, start + 1)


def _by_format(anchors: _Anchors, text: str, searched: str) -> Iterator[tuple[str, int, int]]:
    """Where formats occur; a word that merely contains their first letters does not count."""
    after: dict[str, int] = {}
    for place, rule in anchors.places(searched):
        start = place - rule.lead
        if start < after.get(rule.kind, 0) or (rule.edged and not _begins_a_word(text, start)):
            continue
        if match := rule.pattern.match(text, start):
            after[rule.kind] = match.end()
            yield rule.kind, *match.span(match.lastindex or 0)


def _begins_a_word(text: str, start: int) -> bool:
    """An escaped line end or a percent code is not part of the word after it."""
    before = text[max(start - 3, 0) : start]
    return not before or not before[-1].isalnum() or bool(_ESCAPE_BEFORE.search(before))


_BESIDE = "secret"
_WORDS = ("key", "token", "secret", "passw", "pwd", "passphrase", "credential", "auth")
_ASSIGNED = re.compile(
    r"[\w.\-]{0,40}+(?:\\?[\"'])?\]?[ \t]{0,8}+(?P<sign>=>|:=|={1,2}|:|,|[ \t])[ \t]{0,8}+"
    r"(?P<open>\\?[\"'`]?)(?P<value>[^\s\"'`<>{}()\[\],;\\]{6,256}+)",
    re.ASCII,
)
_REST = re.compile(r"[^\s\"'`<>{}()\[\],;\\]*+")
_NOT_RANDOM = re.compile(
    r"(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*\Z"  # a dotted name
    r"|[A-Za-z]+(?:[_-][A-Za-z]+)*\Z"  # words
    r"|(?:https?:)?//|[./~$%&*@]|0x[0-9a-f]+\Z|[\d.:/+-]+\Z",
    re.IGNORECASE | re.ASCII,
)
_STAND_IN = re.compile(r"example|placeholder|changeme|your[_-]|xxxx|\*\*\*|\.\.\.", re.I)


def _beside(word: str, text: str, folded: str) -> Iterator[tuple[str, int, int]]:
    """Values that look random, assigned to a name that says secret."""
    after = 0
    for place in _places(word, folded):
        match = _ASSIGNED.match(text, place + len(word)) if place >= after else None
        if match is None:
            continue
        value = match["value"]
        if not _is_secretive(value, quoted=bool(match["open"]), sign=match["sign"].strip()):
            continue
        if not (_NOT_RANDOM.match(value) or _STAND_IN.search(value)):
            rest = _REST.match(text, match.end())
            after = rest.end() if rest else match.end()
            yield _BESIDE, match.start("value"), after


_DIGIT, _LETTER = re.compile(r"[0-9]"), re.compile(r"[A-Za-z]")


def _is_secretive(value: str, *, quoted: bool, sign: str) -> bool:
    """Whether a value beside a telling word is random enough to be the secret itself."""
    if not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    if not sign or sign == ",":
        return len(value) >= 20 and _entropy(value) >= 3.7
    if len(value) >= 16:
        return _entropy(value) >= 3.0
    return quoted and len(value) >= 8 and _entropy(value) >= 2.5


def _entropy(value: str) -> float:
    """Shannon's bits per character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())
