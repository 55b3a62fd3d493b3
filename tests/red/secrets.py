"""Secrets both ways: each kind is blacked out before it is written, and what is none stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mindstone_tui.core.redaction import Redactor
from tests.core.redaction.specimens import INNOCENT, PLACES, SAMPLES, made
from tests.red import Case, Tried

LEAST = 0.98
"""Of all kinds of secrets, in every place where they are met."""


def secrets(tried: Tried) -> Iterator[Case]:
    """Every kind of credential in every place, then every innocent line."""
    redactor = Redactor()
    step = tried.sized(9, 1)
    seen: Counter[bool] = Counter()
    for number, (kind, template) in list(enumerate(SAMPLES))[::step]:
        missed = []
        for place, put in PLACES.items():
            text, parts = made(template, number)
            after = redactor.redact(put(text)).text
            gone = not any(part in after for part in parts)
            seen[gone] += 1
            if not gone:
                missed.append(place)
        yield Case(f"hidden: {kind} {template[:50]}" + (f" (not in {missed})" if missed else ""))
    share = seen[True] / seen.total()
    yield Case(
        f"{share:.2%} of {seen.total()} secrets are hidden",
        "" if share >= LEAST else f"fewer than {LEAST:.0%}",
    )
    for number, template in list(enumerate(INNOCENT))[::step]:
        text, _ = made(template, number)
        changed = [p for p, put in PLACES.items() if redactor.redact(put(text)).text != put(text)]
        yield Case(f"left alone: {template[:60]}", f"blacked out in {changed}" if changed else "")
