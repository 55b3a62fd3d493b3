"""What must not slip into memory unseen: secrets never, personal details only knowingly."""

from __future__ import annotations

import re
from typing import Final

from mindstone_tui.core.redaction import Redactor

_PERSONAL: Final = (
    ("an e-mail address", re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}\b")),
    (
        "a phone number",
        re.compile(r"(?<![\w.])\+?\d{1,3}[ .(-]{1,2}\d{2,4}(?:[ .)-]{1,2}\d{2,4}){2,3}\b"),
    ),
    ("an account number", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b")),
    ("a social security number", re.compile(r"\b\d{3}-\d{2}-\d{4}\b")),
    (
        "something about health",
        re.compile(
            r"\b(?:diagnos\w{1,6}|illness|disease|therapy|therapist|medication|pregnan\w{1,3}"
            r"|depress\w{1,4}|cancer|disabilit\w{1,3}|hiv)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "something about money",
        re.compile(r"\b(?:salary|my income|debts?|bank account|credit card|iban)\b", re.IGNORECASE),
    ),
    (
        "an identity document",
        re.compile(
            r"\b(?:passport|driver'?s licen[cs]e|date of birth|born on|ssn)\b", re.IGNORECASE
        ),
    ),
    (
        "a password",
        re.compile(r"\b(?:password|passphrase|pin code|api key|secret key)\b", re.IGNORECASE),
    ),
    (
        "someone's convictions",
        re.compile(
            r"\b(?:religio\w{1,4}|political (?:view|party)|votes? for"
            r"|sexual\w{0,6}|union member)\b",
            re.IGNORECASE,
        ),
    ),
)
_CARD: Final = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")


def cautions(text: str, redactor: Redactor | None = None) -> tuple[str, ...]:
    """Why a person should look twice before this is remembered; empty when nothing was noticed."""
    found = [label for label, pattern in _PERSONAL if pattern.search(text)]
    if any(_passes_luhn(match.group()) for match in _CARD.finditer(text)):
        found.append("a card number")
    if redactor is not None:
        secrets = {finding.kind for finding in redactor.redact(text).found}
        found += [f"a secret ({kind}), blacked out" for kind in sorted(secrets)]
    if "[redacted:" in text:
        found.append("a secret that was blacked out")
    return tuple(dict.fromkeys(found))


def _passes_luhn(written: str) -> bool:
    digits = [int(sign) for sign in written if sign.isdigit()]
    doubled = (d * 2 - 9 * (d > 4) if at % 2 else d for at, d in enumerate(reversed(digits)))
    return sum(doubled) % 10 == 0
