from __future__ import annotations

import random
import re
import string
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.redaction import Redactor, secrets_of
from mindstone_tui.core.redaction.formats import FORMATS
from tests.corpora import FULL, lines

ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "U": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "d": string.digits,
    "b": string.ascii_letters + string.digits + "+/",
}
CONTEXTS = {
    "alone": "{}",
    "in prose": "Here it is: {} and please keep it safe.\n",
    "in JSON": '{{"note": "first line\\n{}", "n": 1}}',
    "in a log line": "2026-01-02 03:04:05 DEBUG http.client: sent ({}) in 12 ms",
    "in a diff": "@@ -1,2 +1,2 @@\n-old\n+{}\n",
}
SAMPLES = [line.split("\t") for line in lines("secrets.tsv")]


def made(template: str, seed: int) -> tuple[str, list[str]]:
    """A value of this format, and the random parts that must not survive."""
    dice = random.Random(seed)
    parts: list[str] = []

    def fill(hole: re.Match[str]) -> str:
        part = "".join(dice.choices(ALPHABETS[hole[1]], k=int(hole[2])))
        if hole[1] != "d":  # a number names an account; it opens nothing
            parts.append(part)
        return part

    value = re.sub(r"\{([AhUlwdb])(\d+)\}", fill, template.replace("\\n", "\n"))
    return value, [part for part in parts if len(part) >= 12]


def everywhere() -> Iterator[tuple[str, str, str, list[str]]]:
    for number, (kind, template) in enumerate(SAMPLES):
        for place, context in CONTEXTS.items():
            for again in range(10 if FULL else 1):
                value, parts = made(template, number * 1000 + again)
                if place == "in JSON":
                    value = value.replace('"', '\\"').replace("\n", "\\n")
                yield kind, place, context.format(value), parts


def test_secrets_of_every_known_format_are_blacked_out_wherever_they_stand() -> None:
    redactor = Redactor()
    cases = list(everywhere())
    missed = [
        (kind, place)
        for kind, place, text, parts in cases
        if any(part in redactor.redact(text).text for part in parts)
    ]
    assert len({template for _, template in SAMPLES}) >= 60
    assert len(missed) <= 0.02 * len(cases), missed


def test_every_format_has_a_sample_or_stands_beside_its_vendors_name() -> None:
    sampled = {kind for kind, _ in SAMPLES}
    assert {rule.kind for rule in FORMATS if not rule.folded} - sampled <= {
        "putty-key",
        "azure-sas",
        "frameio-token",
    }


def test_source_code_is_left_alone() -> None:
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    source = [
        line
        for path in sorted(stdlib.glob("*.py"))
        for line in path.read_text(encoding="utf-8").split("\n")
        if line.strip()
    ]
    picked = random.Random(7).sample(source, 10_000)
    redactor = Redactor()
    touched = [line for line in picked if redactor.redact(line).found]
    assert len(touched) <= 100, touched


def test_known_values_go_first_whatever_they_look_like_and_however_they_travel() -> None:
    redactor = Redactor({"MY_KEY": 'plain"words only'})
    told = redactor.redact(
        'plain"words only, plain\\"words only, plain%22words%20only, cGxhaW4id29yZHMgb25seQ=='
    )
    assert [finding.kind for finding in told.found] == ["MY_KEY"] * 4
    assert "words" not in told.text


def test_the_placeholder_keeps_the_kind_and_a_fingerprint_and_nothing_else() -> None:
    secret, parts = made("ghp_{A36}", 1)
    once = Redactor().redact(f"a {secret} b {secret}")
    first, second = once.found
    assert first == second
    assert re.fullmatch(r"a (\[redacted:github-token:[0-9a-f]{4}\]) b \1", once.text)
    assert not any(part[:4] in once.text for part in parts)


def test_a_false_positive_is_allowed_by_its_label_or_by_its_text() -> None:
    secret, _ = made("ghp_{A36}", 2)
    label = Redactor().redact(secret).found[0].label
    assert Redactor(allow=[label]).redact(secret).text == secret
    assert Redactor(allow=[secret]).redact(secret).text == secret
    other, _ = made("ghp_{A36}", 3)
    assert Redactor(allow=[label]).redact(other).text != other


def test_a_secret_dressed_as_a_placeholder_is_still_a_secret() -> None:
    secret, parts = made("dop_v1_{h64}", 4)
    assert parts[0] not in Redactor().redact(f"[redacted:{secret}:abcd]").text


def test_a_very_long_secret_leaves_no_tail() -> None:
    value, _ = made("{A2000}", 6)
    assert Redactor().redact(f'client_secret = "{value}" # end').text.endswith('" # end')
    assert value[-20:] not in Redactor().redact(f"API_TOKEN={value}").text


def test_overlapping_secrets_leave_no_fragment() -> None:
    secret, parts = made("ghp_{A36}", 5)
    text = Redactor({"HALF": secret[:20]}).redact(f"postgres://u:{secret}@host").text
    assert secret[20:] not in text
    assert parts[0][-8:] not in text


FRAGMENTS = st.sampled_from(
    [made(template, number)[0] for number, (_, template) in enumerate(SAMPLES)]
    + [
        "password=",
        "token: ",
        "[redacted:",
        "]",
        "://a:",
        "@",
        "\\n",
        "-----BEGIN ",
        "İ",
        "\x00",
        "key",
    ]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=12)), max_size=12).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    redactor = Redactor({"A": "abcdefgh", "B": "redacted", "C": "password"})
    once = redactor.redact(text).text
    assert redactor.redact(once).text == once


@pytest.mark.parametrize(
    "bait",
    [
        *(
            "-----BEGIN PRIVATE KEY-----",
            "eyJ",
            "sk-ant-",
            "://a:b",
            "password=",
            "key=a1bZ9",
            "SG.",
            "+" * 8,
        ),
        *("authorization: ", "secret ", "MTA", "heroku ", "[redacted:secret:", "a.", "key-", "\\n"),
    ],
)
def test_hostile_repetition_does_not_blow_up(bait: str) -> None:
    # With a quadratic pattern this would take hours, so finishing at all is the proof.
    text = bait * (2_000_000 // len(bait) if FULL else 200_000 // len(bait))
    assert Redactor().redact(text).text


def test_only_secret_looking_variables_count_as_known() -> None:
    environ = {
        "OPENAI_API_KEY": "a-long-enough-value",
        "DATABASE_PASSWORD": "correct horse",
        "SSH_AUTH_SOCK": "/run/user/1000/ssh",
        "GITHUB_TOKEN": "x" * 40,
        "KEYBOARD": "de-latin1-nodead",
        "HOME": "/home/someone",
        "TOKEN_LIMIT": "100000000",
        "MY_SECRET": "short",
        "MONKEY": "not a secret name",
    }
    assert set(secrets_of(environ)) == {"OPENAI_API_KEY", "DATABASE_PASSWORD", "GITHUB_TOKEN"}
