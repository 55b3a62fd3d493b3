"""Find secrets and black them out before anything is written.

Four nets, from sure to unsure: the exact values of keys we know (our own, and what the environment
calls a secret), the published formats of vendors' credentials, places where only a secret stands
(an address, a header, a command, a private key), and values that look random or chosen beside a
name like "password". A placeholder keeps the kind and a four-digit fingerprint, so the same secret
is recognisably the same everywhere and nothing else of it remains:

    [redacted:github-token:1f3a]

A name alone blackens nothing: code, dates, paths, identifiers, hashes, public keys and stand-ins
pass. Every finding has its kind and its line, to be counted and reported. A false positive is
allowed by its label (`github-token:1f3a`) or by the text itself. The work is linear in the text.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from mindstone_tui.core.patterns import pattern_of

if TYPE_CHECKING:
    from mindstone_tui.core.redaction.redactor import Redactor as Redactor
    from mindstone_tui.core.redaction.redactor import password_in as password_in
    from mindstone_tui.core.redaction.redactor import secrets_of as secrets_of
    from mindstone_tui.core.redaction.redactor import without_password as without_password

_LOADED_LATER = ("Redactor", "password_in", "secrets_of", "without_password")
"""Loaded when first asked for: whoever only reads a transcript looks for no secret."""


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.redactor"), name)


PLACEHOLDER = pattern_of(r"\[redacted:([A-Za-z0-9_.-]{1,64}):[0-9a-f]{4}\]")


class Finding(msgspec.Struct, frozen=True):
    """One secret that was blacked out: what it was and where it stood, never what it said."""

    kind: str
    fingerprint: str
    line: int = 1
    """The line of the text that was given, counted from one, on which the secret began."""

    @property
    def label(self) -> str:
        """How a person names it to allow it."""
        return f"{self.kind}:{self.fingerprint}"

    @property
    def placeholder(self) -> str:
        """What stands in its place."""
        return f"[redacted:{self.label}]"


class Redacted(msgspec.Struct, frozen=True):
    """A text that may be written, and what was taken out of it."""

    text: str
    found: tuple[Finding, ...] = ()


class Blackened(msgspec.Struct, frozen=True):
    """A place in a text that was blacked out."""

    label: str
    """By which a person allows it: `github-token:1f3a`."""
    line: int
    shown: str
    """The line of the text it stands in."""


def blackened(text: str) -> tuple[Blackened, ...]:
    """Every place of a text that was blacked out, with its line."""
    if "[redacted:" not in text:
        return ()
    return tuple(
        Blackened(
            label=found[0].removeprefix("[redacted:").removesuffix("]"), line=number, shown=line
        )
        for number, line in enumerate(text.splitlines(), 1)
        for found in PLACEHOLDER.finditer(line)
    )


def fingerprint(value: str) -> str:
    """Four digits by which the same secret is recognisably the same everywhere."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:4]


def told(found: Iterable[Finding]) -> str:
    """The findings in a few words, for a report: "3 secrets blacked out (lines 4, 7-9)"."""
    lines = [finding.line for finding in found]
    if not lines:
        return ""
    secrets = "1 secret" if len(lines) == 1 else f"{len(lines)} secrets"
    where = "line" if len(set(lines)) == 1 else "lines"
    return f"{secrets} blacked out ({where} {', '.join(_ranges(sorted(set(lines))))})"


def _ranges(lines: list[int]) -> Iterator[str]:
    """Neighbouring lines joined, so that a long list stays short."""
    first = last = lines[0]
    for line in [*lines[1:], 0]:
        if line == last + 1:
            last = line
            continue
        yield str(first) if first == last else f"{first}-{last}"
        first = last = line
