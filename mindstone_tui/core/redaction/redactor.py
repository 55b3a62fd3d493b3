"""The redactor: every net over a text, overlaps joined, until nothing is left to take out.

It also takes text that arrives in pieces, and blacks it out as if it had come at once: what could
still become a secret is held back until the text goes on. And it looks for secrets that are known
by their value: our own keys, and what the environment calls a secret.
"""

import base64
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from urllib.parse import quote, unquote, urlsplit

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction import PLACEHOLDER, Finding, Redacted, contexts, fingerprint
from mindstone_tui.core.redaction.assignments import WORDS, assigned
from mindstone_tui.core.redaction.formats import LEAST_RUN, Formats, Matches, Scan, vendor_formats

Span = tuple[int, int, str]
"""Start, end and kind of a secret."""

_VENDORS = Formats(vendor_formats())
_OWN_KINDS = frozenset(
    (
        *(rule.kind for rule in vendor_formats()),
        *("authorization", "command-password", "jwk", "netrc-password", "password-hash"),
        *("private-key", "putty-key", "secret", "slack-webhook", "url-password", "webhook"),
    )
)
_NETS: tuple[tuple[str, Callable[[Scan], Matches]], ...] = (
    ("key", contexts.private_keys),
    ("private-lines:", contexts.putty_keys),
    ("://", contexts.addresses),
    ("auth", contexts.headers),
    ("pass", contexts.logins),
    *((place.literal, place.find) for place in contexts.known_places()),
    ("$", contexts.hashes),
    (" -", contexts.command_passwords),
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
        self.found: set[str] = set()
        """Labels of what it blacked out itself; a label that it only met was quoted."""

    def redact(self, text: str) -> Redacted:
        """The text without its secrets."""
        if not (spans := self.secrets(text)):
            return Redacted(text, ())
        done = blacked_out(text, spans)
        self.found |= {each.label for each in done.found}
        return done

    def secrets(self, text: str) -> list[Span]:
        """Where the secrets of a text stand, in order and apart from one another."""
        taken: list[Span] = []
        shown = text
        # Blacking out one secret can bare the edge of its neighbour: look again until none is left.
        for _ in range(_MOST_PASSES):
            if not (spans := self._spans(shown)):
                break
            taken = _merged(text, taken, spans)
            shown = blacked_out(text, taken).text
        return taken

    def _spans(self, text: str) -> list[Span]:
        """What to black out, in order, overlaps joined under the surest kind."""
        if not (found := self._matches(text)):
            return []
        raw = [(at, end, rank, kind) for rank, (kind, at, end) in enumerate(found) if end > at]
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
        if present := [literal for literal in _LITERALS if literal in low]:
            for literal, net in _NETS:
                if literal in present:
                    found += net(scan)
        if scan.runs:
            found += contexts.beside_runs(scan)
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


# Values that are known

_SHORTEST = 8
_SECRET_NAME = pattern_of(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?|AUTH|AUTHORIZATION|DSN|PAT|COOKIE)"
    r"(?:$|_(?!URL$|URI$|HOST$|PATH$|FILE$|DIR$|SOCK$|NAME$|TYPE$|ENDPOINT$))|APIKEY",
    re.IGNORECASE,
)
_HARMLESS_VALUE = pattern_of(r"(?:true|false|none|null|yes|no|\d{1,12}|/[\w./-]*|~/.*)\Z", re.I)
_USER_INFO = pattern_of(r"(://[^:/?#]*):[^/]*@")
_PASSWORD_OPTION = pattern_of(r"((?:password|passfile|sslpassword)=)[^&]*", re.IGNORECASE)
_RUN = pattern_of(rf"[A-Za-z0-9_-]{{{LEAST_RUN},}}")


def secrets_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names say that their values are secret, and passwords in addresses."""
    named = {
        name: value
        for name, value in environ.items()
        if len(value) >= _SHORTEST
        and name not in ("PWD", "OLDPWD")
        and _SECRET_NAME.search(name)
        and not _HARMLESS_VALUE.match(value)
    }
    inside = {name: password_in(value) for name, value in environ.items() if "://" in value}
    return {**named, **{name: value for name, value in inside.items() if value}}


def password_in(url: str) -> str:
    """The password in an address; empty where there is none, or one too short to look for."""
    try:
        password = unquote(urlsplit(url).password or "")
    except ValueError:
        return ""
    return password if len(password) >= _SHORTEST else ""


def without_password(url: str) -> str:
    """An address that can be shown: whatever stands between the user's name and the host is gone.

    An option of the query that is called password is blackened, too.
    """
    return _PASSWORD_OPTION.sub(r"\1***", _USER_INFO.sub(r"\1:***@", url))


class KnownValues:
    """Exact values, each as it is and as it commonly travels."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.spellings = tuple(_spellings(known))
        self.kinds = frozenset(kind for kind, _ in self.spellings)
        self._sought = [
            (kind, value, max(map(len, _RUN.findall(value)), default=0))
            for kind, value in self.spellings
        ]

    def matches(self, scan: Scan) -> Matches:
        """Where they stand; a value with a longer run than the text has is not looked for."""
        text = scan.text
        for kind, value, run in self._sought:
            if run > scan.longest_run:
                continue
            start = text.find(value)
            while start >= 0:
                yield kind, start, start + len(value)
                start = text.find(value, start + 1)


def _spellings(known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each value in all its spellings, longest first."""
    spelled: dict[str, str] = {}
    for name, value in known.items():
        if len(value) < _SHORTEST:
            continue
        kind = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64] or "known"
        octets = value.encode("utf-8", "surrogatepass")
        coded = base64.b64encode(octets).decode().rstrip("=")
        escaped = msgspec.json.encode(value.encode("utf-8", "replace").decode()).decode()[1:-1]
        for spelling in (value, escaped, quote(octets, safe=""), coded, octets.hex()):
            spelled.setdefault(spelling, kind)
    for spelling in sorted(spelled, key=lambda each: (-len(each), each)):
        yield spelled[spelling], spelling
