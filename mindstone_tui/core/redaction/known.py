"""Secrets that are known by their value: our own keys, and what the environment calls a secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, unquote, urlsplit

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction.scan import LEAST_RUN, Scan

__all__ = ["KnownValues", "password_in", "secrets_of", "without_password"]

_SHORTEST = 8
_SECRET_NAME = pattern_of(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?|AUTH|DSN|PAT|COOKIE)"
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
    shown = _USER_INFO.sub(r"\1:***@", url)
    return _PASSWORD_OPTION.sub(r"\1***", shown)


class KnownValues:
    """Exact values, each as it is and as it commonly travels."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.spellings = tuple(_spellings(known))
        self.kinds = frozenset(kind for kind, _ in self.spellings)
        self._sought = [
            (kind, value, max(map(len, _RUN.findall(value)), default=0))
            for kind, value in self.spellings
        ]

    def matches(self, scan: Scan) -> Iterator[tuple[str, int, int]]:
        """Where they stand; a value with a longer run than the text has is not looked for."""
        text = scan.text
        for kind, value, run in self._sought:
            if run > scan.longest_run:
                continue
            start = text.find(value)
            while start >= 0:
                yield kind, start, start + len(value)
                start = text.find(value, start + 1)

    def open_from(self, text: str) -> int:
        """Where one of them begins that the end of the text cuts off, or the text's length."""
        first = len(text)
        for _, value in self.spellings:
            start = text.find(value[:1], max(len(text) - len(value) + 1, 0), first)
            while start >= 0:
                if value.startswith(text[start:]):
                    first = start
                    break
                start = text.find(value[:1], start + 1, first)
        return first


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
