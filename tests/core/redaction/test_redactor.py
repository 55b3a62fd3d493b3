"""What the redactor promises whatever the secret: order, lines, sameness, an end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.redaction import Finding, Redactor, secrets_of, told
from tests.core.redaction.specimens import INNOCENT, SAMPLES, made
from tests.corpora import FULL


def test_known_values_go_first_whatever_they_look_like_and_however_they_travel() -> None:
    redactor = Redactor({"MY_KEY": 'plain"words only'})
    clean = redactor.redact(
        'plain"words only, plain\\"words only, plain%22words%20only, cGxhaW4id29yZHMgb25seQ=='
    )
    assert [finding.kind for finding in clean.found] == ["MY_KEY"] * 4
    assert "words" not in clean.text


def test_known_values_are_found_in_texts_with_and_without_long_words() -> None:
    secret, _ = made("{A40}", 9)
    redactor = Redactor({"LONG": secret, "SHORT": "tiny-one"})
    assert redactor.redact(f"a {secret} b").text.startswith("a [redacted:LONG:")
    assert redactor.redact(secret.encode().hex()).text.startswith("[redacted:LONG:")
    assert redactor.redact("no long word, tiny-one").text.startswith(
        "no long word, [redacted:SHORT:"
    )


def test_the_placeholder_keeps_the_kind_and_a_fingerprint_and_nothing_else() -> None:
    secret, parts = made("ghp_{A36}", 1)
    once = Redactor().redact(f"a {secret} b {secret}")
    first, second = once.found
    assert first == second
    assert re.fullmatch(r"a (\[redacted:github-token:[0-9a-f]{4}\]) b \1", once.text)
    assert not any(part[:4] in once.text for part in parts)


def test_every_finding_has_the_line_on_which_the_secret_began() -> None:
    pem, _ = made("-----BEGIN PRIVATE KEY-----\\n{b64}\\n{b64}\\n-----END PRIVATE KEY-----", 1)
    token, _ = made("ghp_{A36}", 2)
    password, _ = made("password={p12}", 3)
    text = f"one\n{token}\nthree\n{pem}\neight\nnine {token} {password}\n"
    found = Redactor().redact(text).found
    assert [(finding.kind, finding.line) for finding in found] == [
        ("github-token", 2),
        ("private-key", 4),
        ("github-token", 9),
        ("secret", 9),
    ]


def test_a_secret_that_another_one_bared_is_counted_on_its_own_line() -> None:
    token, _ = made("ghp_{A36}", 2)
    redactor = Redactor({"K": "knownvalue"})
    clean = redactor.redact(f"knownvalue\nknown\nknownvalue{token}\n")
    assert [(finding.kind, finding.line) for finding in clean.found] == [
        ("K", 1),
        ("K", 3),
        ("github-token", 3),
    ]


def test_findings_are_told_in_a_few_words() -> None:
    found = [Finding("secret", "abcd", line) for line in (9, 3, 8, 7, 3)]
    assert told([]) == ""
    assert told(found[:1]) == "1 secret blacked out (line 9)"
    assert told(found) == "5 secrets blacked out (lines 3, 7-9)"


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


def test_a_placeholder_of_an_older_version_is_left_alone() -> None:
    text = "password=[redacted:secret:1f3a] key: [redacted:cohere-key:00ff]\n"
    assert Redactor().redact(text).text == text


def test_a_very_long_secret_leaves_no_tail() -> None:
    value, _ = made("{A2000}", 6)
    assert Redactor().redact(f'client_secret = "{value}" # end').text.endswith('" # end')
    assert value[-20:] not in Redactor().redact(f"API_TOKEN={value}").text


def test_overlapping_secrets_leave_no_fragment() -> None:
    secret, parts = made("ghp_{A36}", 5)
    text = Redactor({"HALF": secret[:20]}).redact(f"postgres://u:{secret}@host").text
    assert secret[20:] not in text
    assert parts[0][-8:] not in text


def test_many_secrets_in_one_environment_are_all_found_at_once() -> None:
    names = [template for _, template in SAMPLES if re.match(r"[A-Z0-9_]+=[^ ]*\Z", template)]
    dump = "\n".join(made(template, seed)[0] for seed, template in enumerate(names))
    found = Redactor().redact(dump).found
    assert len(names) > 40
    assert len({finding.line for finding in found}) >= 0.98 * len(names)


FRAGMENTS = st.sampled_from(
    [made(template, number)[0] for number, (_, template) in enumerate(SAMPLES)]
    + [made(template, number)[0] for number, template in enumerate(INNOCENT)]
    + ["password=", "token: ", "[redacted:", "]", "://a:", "@", "\\n", "-----BEGIN ", "İ", "\x00"]
    + ["key", "pass", " ", "\n", '"', "'", "Authorization: ", " -p", "curl ", "$2", "value: "]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=12)), max_size=12).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    redactor = Redactor({"A": "abcdefgh", "B": "redacted", "C": "password"})
    once = redactor.redact(text).text
    assert redactor.redact(once) == redactor.redact(once)
    assert redactor.redact(once).text == once


BAITS = [
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----BEGIN ", "A" * 64 + "\n"),
    *("eyJ", "-eyJ", "sk-ant-", "SG.", "MTA", "+" * 8, "a.", "\\n", "[redacted:secret:", "key-"),
    *("://a:b", "://a:b@", "authorization: ", "heroku ", "login a password ", "$6$a$", "sha256$"),
    *("password=", "password='", 'key="', "key=a1bZ9", "secret ", "token is ", "key,\n", "KEY="),
    *(" mysql -p", " curl -u a:b", "x|chpasswd ", "cio" + "a1" * 16, "ghp_" + "a1" * 18 + " "),
    *("private-lines: 3 ", "DB_PASSWORD=EQ3A", "password=[redacted:secret:abcd]", "\ud800", "→"),
]


@pytest.mark.parametrize("bait", BAITS)
def test_hostile_repetition_does_not_blow_up(bait: str) -> None:
    # With a quadratic pattern this would take hours, so finishing at all is the proof.
    text = bait * ((1_000_000 if FULL else 40_000) // len(bait))
    assert Redactor({"K": "abcdefgh"}).redact(text).text


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
        "PWD": "/home/someone/my project",
        "OLDPWD": "/home/someone/my other project",
    }
    assert set(secrets_of(environ)) == {"OPENAI_API_KEY", "DATABASE_PASSWORD", "GITHUB_TOKEN"}
