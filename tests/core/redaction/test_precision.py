"""What is no secret stays as it is: code, dates, names, hashes, public keys, pictures."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.redaction.values import Promise, promise_of, strangeness
from tests.core.redaction.specimens import INNOCENT, PLACES, made
from tests.corpora import FULL

STRANGE = 0.42


@pytest.mark.parametrize("place", PLACES)
def test_innocent_lines_pass_untouched_wherever_they_stand(place: str) -> None:
    redactor = Redactor()
    for number, template in enumerate(INNOCENT):
        for seed in range(20 if FULL else 2):
            text = PLACES[place](made(template, number * 1000 + seed)[0])
            assert redactor.redact(text).text == text


def test_the_standard_library_has_less_than_one_false_hit_in_twenty_thousand_lines() -> None:
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    packages = ["*.py", "asyncio/*.py", "email/*.py", "http/*.py", "json/*.py", "urllib/*.py"]
    sources = [path for pattern in packages for path in sorted(stdlib.glob(pattern))]
    redactor = Redactor()
    count, touched = 0, []
    for path in sources:
        text = path.read_text(encoding="utf-8")
        count += text.count("\n")
        touched += [(path.name, finding) for finding in redactor.redact(text).found]
    assert count > 100_000
    assert len(touched) <= count / 20_000, touched


def test_a_long_picture_and_a_long_lock_pass_untouched() -> None:
    picture, _ = made("data:image/png;base64,iVBORw0KGgo{b60000}", 1)
    lock = "\n".join(
        made('{name = "a", hash = "sha256:{h64}"}, # {u}', seed)[0] for seed in range(500)
    )
    certificate, _ = made("-----BEGIN CERTIFICATE-----\\n" + "{b64}\\n" * 200, 2)
    for text in (picture, lock, certificate):
        assert Redactor().redact(text).found == ()


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("authoredDate", Promise.NOTHING),
        ("keyboard", Promise.NOTHING),
        ("monkey", Promise.NOTHING),
        ("publicKey", Promise.NOTHING),
        ("token_count", Promise.NOTHING),
        ("nextPageToken", Promise.NOTHING),
        ("tokenUrl", Promise.NOTHING),
        ("compass", Promise.NOTHING),
        ("should_pass", Promise.NOTHING),
        ("secretName", Promise.NOTHING),
        ("key", Promise.KEY),
        ("signing_key", Promise.SECRET),
        ("clientSecret", Promise.SECRET),
        ("x-api-key", Promise.TOKEN),
        ("NGROK_AUTHTOKEN", Promise.TOKEN),
        ("MY_SERVICE_PAT", Promise.TOKEN),
        ("dbpassword", Promise.PASSWORD),
        ("DB_PASSWORD_PROD", Promise.PASSWORD),
        ("smtp_pass", Promise.PASSWORD),
    ],
)
def test_the_last_words_of_a_name_say_what_it_holds(name: str, promise: Promise) -> None:
    assert promise_of(name) is promise


@pytest.mark.parametrize(
    "named",
    [
        "vpn_config_migration_v1_complete",
        "generateEd25519Keypair",
        "OAuth2PasswordBearer",
        "SOCKS5_CUSTOM_AUTH_END",
        "openssl_aes128_set_encrypt_key",
        "test_utf8_with_surrogates_3",
    ],
)
def test_names_are_less_strange_than_random_values(named: str) -> None:
    assert strangeness(named) < STRANGE
    assert strangeness(made("{A32}", 1)[0]) > STRANGE
    assert strangeness(made("{l32}", 2)[0]) > STRANGE
