"""Secrets of every kind are found, wherever they stand."""

from __future__ import annotations

from collections import Counter

from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.redaction.formats import vendor_formats
from tests.core.redaction.specimens import SAMPLES, made, specimens, survives
from tests.corpora import FULL


def test_ninety_eight_of_a_hundred_secrets_are_blacked_out_in_every_kind_of_place() -> None:
    redactor = Redactor()
    tried: Counter[str] = Counter()
    missed: dict[str, list[str]] = {}
    for kind, place, text, parts in specimens(again=20 if FULL else 1):
        tried[place] += 1
        shown = redactor.redact(text).text
        if any(survives(part, shown) for part in parts):
            missed.setdefault(place, []).append(kind)
    assert len({kind for kind, _ in SAMPLES}) >= 150
    for place, cases in tried.items():
        assert len(missed.get(place, [])) <= 0.02 * cases, (place, missed[place])


def test_no_kind_of_secret_passes_as_a_rule() -> None:
    redactor = Redactor()
    for kind, template in SAMPLES:
        leaks = 0
        for seed in range(10):
            text, parts = made(template, seed)
            shown = redactor.redact(text).text
            leaks += any(survives(part, shown) for part in parts)
        assert leaks <= 2, (kind, template)


def test_every_format_of_a_vendor_has_a_sample() -> None:
    found = set()
    for number, (_, template) in enumerate(SAMPLES):
        found |= {each.kind for each in Redactor().redact(made(template, number)[0]).found}
    assert {rule.kind for rule in vendor_formats()} - found == set()
