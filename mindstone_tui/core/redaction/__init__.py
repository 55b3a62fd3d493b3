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

import importlib
from typing import TYPE_CHECKING, Any

from mindstone_tui.core.redaction.findings import Blackened, Finding, Redacted, blackened, told

if TYPE_CHECKING:
    from mindstone_tui.core.redaction.known import password_in, secrets_of, without_password
    from mindstone_tui.core.redaction.pieces import RedactedPieces
    from mindstone_tui.core.redaction.redactor import Redactor

_HOMES = {
    "RedactedPieces": "pieces",
    "Redactor": "redactor",
    "password_in": "known",
    "secrets_of": "known",
    "without_password": "known",
}
"""Loaded when first asked for: whoever only reads a transcript looks for no secret."""

__all__ = [
    "Blackened",
    "Finding",
    "Redacted",
    "RedactedPieces",
    "Redactor",
    "blackened",
    "password_in",
    "secrets_of",
    "told",
    "without_password",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
