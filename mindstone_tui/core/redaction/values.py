"""What a value looks like, and what the name beside it promises.

A value is issued by a machine, chosen by a person, or no secret at all. Words, identifiers, calls,
paths, dates, versions and stand-ins are read as what they are: letters follow one another as they
do in words, digits stand in groups. In a random value they do not, and the share of neighbours that
no word has is its strangeness.

Of a name, the last words decide. "authoredDate", "keyboard", "token_count" and "publicKey" name no
secret although a telling word is in each of them; "DB_PASSWORD_PROD" and "x-api-key" do.
"""

import re
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

from mindstone_tui.core.language.lists import lists_in
from mindstone_tui.core.patterns import pattern_of

STRANGE = 0.42
"""Random values of sixteen characters or more lie above it in 98 of 100 cases; names lie below."""


_LISTS = lists_in(Path(__file__).with_name("words.txt"))


def words(name: str) -> frozenset[str]:
    """The words of a list, by its name in `words.txt`."""
    return frozenset(" ".join(_LISTS[name]).split())


_NATURAL = frozenset(row[0] + second for row in words("followers") for second in row[1:])
_PIECE = pattern_of(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_JUDGED = 64
"""Characters that are looked at: a longer value is no less random for its end."""


def strangeness(value: str) -> float:
    """The share of characters that stand where no word or number would have them."""
    total = natural = 0
    for piece in _PIECE.findall(value[:_JUDGED]):
        size = len(piece)
        total += size
        if piece[0] <= "9":
            natural += size - 1
            continue
        folded = piece.lower()
        fitting = 0
        for at in range(size - 1):
            if folded[at : at + 2] in _NATURAL:
                fitting += 1
        natural += fitting + (size > 2 and fitting == size - 1)
    return 1 - natural / total if total else 0.0


_HEX = pattern_of(r"(?:0x)?(?:[0-9a-f]{16,}|[0-9A-F]{16,})\Z")
_UUID = pattern_of(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z", re.IGNORECASE)
_LETTER, _DIGIT = pattern_of(r"[A-Za-z]"), pattern_of(r"[0-9]")
_LOWER, _UPPER = pattern_of(r"[a-z]"), pattern_of(r"[A-Z]")

_STAND_IN = pattern_of(
    r"example|placeholder|change[_-]?(?:me|it|this|in)|your[_-]|^your|-here$|_here$|x{4,}|\*{3,}"
    r"|\.{3}|…|dummy|insert|replace|todo|redacted|not[_-]?(?:set|used|real|needed|required)"
    r"|fake|sample|foo_?bar|^foo|mysecret|my[_-]|lorem|^[<\[{]|>$|\{\{|\}\}|0{6,}|1234567|abcdef"
    r"|secret[_-]?(?:key|here)?\d*$|pass(?:word|wd|phrase)?[_-]?\d{0,4}$|^(?:test|user|admin|root)\d*$"
)
_NUMBERS = pattern_of(
    r"\d{4}-\d\d?-\d\d?(?:[T _].*)?\Z"  # a date
    r"|[~^<>=]{0,2}v?\d+(?:[._-]\d+)+(?:[._+-]?[A-Za-z]{1,8}[._-]?\d*)?(?:[._+-].*)?\Z"  # a version
    r"|[\d.,:/+%-]+[A-Za-z%]{0,4}\Z"  # a number, perhaps with its unit
)
_LEAD = pattern_of(
    r"[=?#),;}]|\$[\w({]|%[sdr(%{]|%\w+%\Z|@[\w-]+\Z|//|--?[a-z]|(?:\.{1,2}|~)/|[A-Za-z]:\\|\\x"
    r"|[a-z][a-z0-9+.-]{1,20}://|(?:arn|data|env|file|kms|md5|object|op|sha\d{1,3}|ssm|urn|vault):"
    r"|\w+\(.*\)|.*&[a-z]{2,5};"
)
"""A variable, a template, an option, an address, a call: something that leads to a value."""
_CODE = pattern_of(
    r"[&@*!~]?[A-Za-z_]\w*(?:(?:\.|->|::|\?\.|\\)[A-Za-z_$]\w*)*\Z"  # a name, or names joined
    r"|[A-Za-z_]+(?:\??\.\w+)*[!?]\Z"
    r"|[A-Za-z_$][\w$]{0,40}(?:\??\.[A-Za-z_$][\w$]*)*(?:[!=]=|\?\?|&&|\|\||[=+](?!=*\Z)|\?[.\w\"'])"
    r"|/[\w.@/-]*\Z|[A-Za-z]+[_/:](?:[A-Za-z]+[_/:])*[A-Za-z]+\Z"
)
"""A name, an expression or a path, unless its letters follow one another as in no word."""
_ALGORITHM = pattern_of(
    r"(?:hmac|sha|aes|rsa|ecdsa|ed|curve|secp|rs|es|hs|md|utf|base|prime|chacha|argon|pbkdf|blake"
    r"|oauth|http|tls|ssl|win|linux|arm|amd|int|uint|float)[-_]?\d{1,5}(?:[-_/]\w{0,12}){0,3}\Z",
    re.IGNORECASE,
)
_EXAMPLE = pattern_of(r"example|x{6,}|\*{3}|\.{3}|your[_-]|placeholder|[_-]here\Z", re.IGNORECASE)


def is_example(value: str) -> bool:
    """A credential of a known format that a manual shows instead of a real one."""
    return bool(_EXAMPLE.search(value))


def is_hex(value: str) -> bool:
    """Hexadecimal, long enough for a key or a hash."""
    return bool(_HEX.match(value))


def is_uuid(value: str) -> bool:
    """An identifier that anybody may make and nearly always may know."""
    return len(value) == 36 and bool(_UUID.match(value))


def is_stand_in(value: str) -> bool:
    """Written where a secret will be, or in an example."""
    return bool(_STAND_IN.search(value[:_JUDGED].lower())) or len(set(value)) < 4


def is_reference(value: str) -> bool:
    """A path, a date, a variable: something that leads to a value or is a plain one."""
    return bool(_LEAD.match(value) or _NUMBERS.match(value))


def looks_issued(value: str, least: int = 16) -> bool:
    """Random as a machine makes it."""
    if len(value) < least:
        return False
    if not _DIGIT.search(value):
        return _is_jumbled(value)
    if is_hex(value):
        return bool(_LETTER.search(value)) and len(set(value)) > 6
    return (
        bool(_LETTER.search(value))
        and strangeness(value) >= STRANGE
        and not is_reference(value)
        and not is_uuid(value)
        and not is_stand_in(value)
    )


def _is_jumbled(value: str) -> bool:
    """Capital and small letters without order."""
    mixed = _LOWER.search(value) and _UPPER.search(value)
    return bool(mixed) and strangeness(value) >= 0.5 and not is_stand_in(value)


_SYMBOL = pattern_of(r"[!@#$%^&*?~]")
_PLAIN_NAME = pattern_of(r"[A-Za-z_]\w*\Z")
_CONSTANT = pattern_of(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z")


def looks_chosen(value: str, least: int = 6) -> bool:
    """What a person takes for a password: letters with digits or signs, and no plain word."""
    if len(value) < least or not _LETTER.search(value):
        return False
    if not (_DIGIT.search(value) or _SYMBOL.search(value)):
        return len(value) >= 10 and _is_jumbled(value)
    if is_reference(value) or _ALGORITHM.match(value):
        return False
    code = _CONSTANT.match(value) or (_CODE.match(value) and not _PLAIN_NAME.match(value))
    if code and strangeness(value) < STRANGE:
        return False
    return not is_stand_in(value)


def is_strong(value: str) -> bool:
    """A password that could be nothing else even in a sentence."""
    return looks_chosen(value, 8) and all(sort.search(value) for sort in (_LOWER, _UPPER, _DIGIT))


_PHRASE = pattern_of(r"[a-z]{3,12}(?:[ -][a-z]{3,12}){3,23}\Z")
_GRAMMAR = words("grammar")


def is_phrase(value: str) -> bool:
    """Four or more words that make no sentence: a passphrase."""
    return bool(_PHRASE.match(value)) and not _GRAMMAR.intersection(re.split("[ -]", value))


# What a name promises


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


_ENDINGS = (
    (tuple(words("password-endings")), Promise.PASSWORD),
    (tuple(words("secret-endings")), Promise.SECRET),
    (tuple(words("token-endings")), Promise.TOKEN),
)
_KEYS = ((words("secret-keys"), Promise.SECRET), (words("token-keys"), Promise.TOKEN))
_PASSWORDS, _TOKENS, _CREDENTIALS = words("passwords"), words("tokens"), words("credentials")
_OPEN_KEYS, _OPEN_TOKENS, _OWNERS = words("open-keys"), words("open-tokens"), words("owners")
_ADDED, _FIRM = words("added"), words("firm")


def _parts(name: str) -> list[str]:
    """The words of a name in lower case, however they are joined."""
    return [word.lower() for word in _PIECE.findall(name)]


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
    for endings, promise in _ENDINGS:
        if last.endswith(endings):
            return promise
    return Promise.NOTHING


def is_firm(name: str) -> bool:
    """Whether even a value that could be any identifier is a secret under this name."""
    return is_constant(name) or not _FIRM.isdisjoint(_parts(name)[-3:])


def is_constant(name: str) -> bool:
    """Whether a name is written as variables of the environment are."""
    return name.rpartition(" ")[2].isupper()


def _key(before: str) -> Promise:
    if before in _OPEN_KEYS:
        return Promise.NOTHING
    return next((promise for qualifiers, promise in _KEYS if before in qualifiers), Promise.KEY)


def _password(last: str, before: str, name: str) -> Promise:
    """A password, unless "pass" is a verb in it."""
    if last in ("pw", "pass") and before and before not in _OWNERS and not is_constant(name):
        return Promise.NOTHING
    return Promise.PASSWORD
