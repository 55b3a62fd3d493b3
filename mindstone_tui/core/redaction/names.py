"""What the name of a value promises: a password, a token, a key, or nothing secret at all.

The last words of a name decide. "authoredDate", "keyboard", "token_count" and "publicKey" name no
secret although a telling word is in each of them; "DB_PASSWORD_PROD" and "x-api-key" do.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction.values import words

__all__ = ["Promise", "is_constant", "is_firm", "promise_of"]


class Promise(IntEnum):
    """How much a name says about its value."""

    NOTHING = 0
    KEY = 1
    """Perhaps: object keys, cache keys and cryptographic keys share the word."""
    TOKEN = 2
    """Issued by a machine: long and random."""
    SECRET = 3
    """Issued or chosen: random, or at least no plain word."""
    PASSWORD = 4
    """Chosen by a person: possibly short."""


_WORD = pattern_of(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PASSWORDS = words("password passwd passphrase passcode passwort pwd pass psw pw psk mnemonic")
_TOKENS = words("token tokens pat jwt bearer apikey apitoken authtoken cookie sid")
_CREDENTIALS = words("credential credentials creds auth authorization")

_ENDINGS = (
    ("password", Promise.PASSWORD),
    ("passwd", Promise.PASSWORD),
    ("passphrase", Promise.PASSWORD),
    ("passcode", Promise.PASSWORD),
    ("storepass", Promise.PASSWORD),
    ("keypass", Promise.PASSWORD),
    ("pwd", Promise.PASSWORD),
    ("pw", Promise.PASSWORD),
    ("secret", Promise.SECRET),
    ("secretkey", Promise.SECRET),
    ("privatekey", Promise.SECRET),
    ("sharedkey", Promise.SECRET),
    ("accesskey", Promise.TOKEN),
    ("accountkey", Promise.TOKEN),
    ("apikey", Promise.TOKEN),
    ("authkey", Promise.TOKEN),
    ("token", Promise.TOKEN),
)
"""Words written together, as in `dbpassword` or `authtoken`."""

_KEYS = {
    Promise.SECRET: words(
        "secret private priv preshared shared encryption encrypt decryption decrypt signing sign"
        " master hmac aes fernet wallet deployer jwt cookie session validation machine webhook"
    ),
    Promise.TOKEN: words(
        "api access account auth authentication authorization service server admin app application"
        " client consumer license licence storage deploy deployment integration ingest ingestion"
        " write subscription sas unlock join registration tunnel connection functions"
        " instrumentation rest live prod production"
    ),
}
"""What stands before "key" where it opens something."""

_OPEN_KEYS = words(
    "public pub host primary foreign cache sort partition map dict index object row column hash"
    " search lookup group socket config setting settings registry i18n translation message"
    " verify verification verifying publishable site react query route context"
)
"""What stands before "key" where anybody may know it."""

_OPEN_TOKENS = words(
    "next page continuation change client sync cancel cancellation pagination starting last"
    " start end previous prev current cursor resume stream lexer parser syntax special stop eos bos"
    " pad unk mask sep cls max min num total input output prompt completion image text word css"
    " design idempotency request operation marker scroll sequence lock pool injection di"
)
"""What stands before "token" where it is a place in a list or a piece of a text."""

_OWNERS = words(
    "db database user mysql pg postgres root admin smtp mail email ftp ssh sudo become http proxy"
    " redis rabbit rabbitmq amqp mqtt ldap bind key store login auth wifi vpn rpc api my master"
    " server sql mongo jenkins docker registry git keystore truststore ansible passin passout"
)
"""Who has a "pass"; with any other word before it, it is a verb."""

_FIRM = words("api access auth secret private bearer refresh personal bot apikey")

_ADDED = words(
    "value val string str text plain plaintext raw b64 base64 hex encoded prod production dev"
    " development test testing staging stage live sandbox local old new current previous backup"
    " primary secondary default main root admin data env var enc base"
)
"""What may follow a telling word without changing what it says."""


def _parts(name: str) -> list[str]:
    """The words of a name in lower case, however they are joined."""
    return [word.lower() for word in _WORD.findall(name)]


@lru_cache(maxsize=4096)
def promise_of(name: str) -> Promise:
    """What a value of this name is likely to be."""
    parts = _parts(name)
    while parts and (parts[-1] in _ADDED or parts[-1].isdigit()):
        if len(parts) == 1:
            return Promise.NOTHING
        parts.pop()
    if not parts or "public" in parts[-3:]:
        return Promise.NOTHING
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last in ("key", "keys"):
        return _key(before)
    if last in _PASSWORDS:
        return _password(last, before, name)
    if last in _TOKENS:
        return Promise.NOTHING if before in _OPEN_TOKENS else Promise.TOKEN
    if last in _CREDENTIALS:
        return Promise.TOKEN
    for ending, promise in _ENDINGS:
        if last.endswith(ending):
            return promise
    return Promise.NOTHING


def is_firm(name: str) -> bool:
    """Whether even a value that could be any identifier is a secret under this name."""
    parts = _parts(name)
    return is_constant(name) or not _FIRM.isdisjoint(parts[-3:])


def is_constant(name: str) -> bool:
    """Whether a name is written as variables of the environment are."""
    return name.rpartition(" ")[2].isupper()


def _key(before: str) -> Promise:
    if before in _OPEN_KEYS:
        return Promise.NOTHING
    for promise, qualifiers in _KEYS.items():
        if before in qualifiers:
            return promise
    return Promise.KEY


def _password(last: str, before: str, name: str) -> Promise:
    """A password, unless "pass" is a verb in it."""
    short = last in ("pw", "pass") and before
    if short and before not in _OWNERS and not is_constant(name):
        return Promise.NOTHING
    return Promise.PASSWORD
