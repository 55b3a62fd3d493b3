"""What a value looks like: issued by a machine, chosen by a person, or no secret at all.

Words, identifiers, calls, paths, dates, versions and stand-ins are read as what they are: letters
follow one another as they do in words, digits stand in groups. In a random value they do not, and
the share of neighbours that no word has is its strangeness.
"""

from __future__ import annotations

import re

from mindstone_tui.core.patterns import pattern_of

__all__ = [
    "STRANGE",
    "is_example",
    "is_hex",
    "is_phrase",
    "is_reference",
    "is_stand_in",
    "is_uuid",
    "looks_chosen",
    "looks_issued",
    "strangeness",
    "words",
]

STRANGE = 0.42
"""Random values of sixteen characters or more lie above it in 98 of 100 cases; names lie below."""


def words(listed: str) -> frozenset[str]:
    """The words of a list that is written as a text."""
    return frozenset(listed.split())


_FOLLOWERS = {
    "a": "abcdfgiklmnprstuvwxy",
    "b": "abceilorsuy",
    "c": "acdehiklmorstu",
    "d": "abcdefilorstuy",
    "e": "abcdefgilmnopqrstvwxy",
    "f": "aefilorstu",
    "g": "aeghilnorsu",
    "h": "aeiortu",
    "i": "abcdefglmnoprstvxz",
    "j": "aeosu",
    "k": "eisu",
    "l": "acdeilopstuy",
    "m": "abeilmopstuy",
    "n": "acdefgiklnopstuv",
    "o": "abcdfgiklmnoprstuvwx",
    "p": "aehiloprstuy",
    "q": "u",
    "r": "acdefgiklmnoprstuvy",
    "s": "acefhiklmnoprstuwy",
    "t": "acdefhilmoprstuwy",
    "u": "abcdefgilmnprst",
    "v": "aeio",
    "w": "aehinors",
    "x": "ceiptx",
    "y": "npst",
    "z": "aei",
}
"""The letters that commonly follow a letter in words and names."""

_NATURAL = frozenset(first + second for first, after in _FOLLOWERS.items() for second in after)
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
    r"|v?\d+(?:[._-]\d+)+(?:[._+-]?[A-Za-z]{1,8}[._-]?\d*)?(?:[._+-].*)?\Z"  # a version
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


_PHRASE = pattern_of(r"[a-z]{3,12}(?:[ -][a-z]{3,12}){3,23}\Z")
_GRAMMAR = words(
    "the and for you your this that with from must not are was has have will can cannot should"
    " enter please password passphrase token secret key use using used new old value field which"
    " when where what who how its his her our their there here into than then them they been were"
    " any all one two per via required invalid missing wrong empty string"
)


def is_phrase(value: str) -> bool:
    """Four or more words that make no sentence: a passphrase."""
    return bool(_PHRASE.match(value)) and not _GRAMMAR.intersection(re.split("[ -]", value))
