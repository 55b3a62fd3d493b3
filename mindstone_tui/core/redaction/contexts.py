"""Secrets known by where they stand: in an address, a header, a login, a command, a private key."""

import re
from base64 import b64decode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction import values
from mindstone_tui.core.redaction.formats import Matches, Scan

# Addresses

_URL = pattern_of(
    r"://(?P<user>[^\s:/@\"'<>`?#]{0,100}):(?P<value>(?:(?!://)[^\s\"'<>`\\]){1,200})@(?=[\w\[.-])"
)
_PORT_AND_PATH = pattern_of(r"\d{1,5}[/?#,]")
_MANUAL = values.words("manual")
_TEMPLATE = pattern_of(r"[{}]|\$[\w(]|%[sdr(]|<|\*{2}")


def addresses(scan: Scan) -> Matches:
    """Passwords in addresses, whether "@" and "/" stand in them or not."""
    if "@" not in scan.low:
        return
    for place in scan.places("://"):
        match = _URL.match(scan.text, place)
        if match and _is_address_password(match["user"], match["value"]):
            yield "url-password", *match.span("value")


def _is_address_password(user: str, password: str) -> bool:
    """A port with a path, a template and the word "password" itself are none."""
    folded = password.lower()
    return not (
        len(password) < 4
        or folded in _MANUAL
        or folded == user.lower()
        or (len(password) < 6 and password.isalpha())
        or _PORT_AND_PATH.match(password)
        or _TEMPLATE.search(password)
        or values.is_stand_in(password)
    )


# Headers

_HEADER = pattern_of(
    r"authorization\\{0,3}[\"'`]?\]?[ \t]{0,4}[:=,][ \t]{0,4}[bf]?\\{0,3}[\"'`]?"
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9-]{1,20})[ \t]{1,4})?"
    r"(?:[A-Za-z]{1,12}=\\?\"?)?(?P<value>[A-Za-z0-9._~+/=:-]{6,})",
    re.IGNORECASE,
)


_USER_AND_PASSWORD = pattern_of(
    r"auth[A-Za-z]{0,12}[ \t]{0,2}[=(:]{1,2}[ \t]{0,2}[(\[]?\\?[\"'][^\"'\n]{1,60}[\"'],[ \t]{0,2}"
    r"\\?[\"'](?P<value>[^\"'\n\\]{4,100})\\?[\"']",
    re.IGNORECASE,
)


def headers(scan: Scan) -> Matches:
    """What an Authorization header carries, whatever its scheme, or is made of."""
    for place in scan.places("auth"):
        if not scan.low.startswith("orization", place + 4):
            match = _USER_AND_PASSWORD.match(scan.text, place)
            if match and values.looks_chosen(match["value"], 8):
                yield "authorization", *match.span("value")
            continue
        if (match := _HEADER.match(scan.text, place)) is None:
            continue
        value = match["value"]
        basic = (match["scheme"] or "").lower() == "basic"
        if (basic and _is_basic(value)) or values.looks_issued(value, 12) or values.is_uuid(value):
            yield "authorization", *match.span("value")


def _is_basic(value: str) -> bool:
    """Base64 of a user's name, a colon and a password."""
    try:
        plain = b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False
    return b":" in plain and plain.isascii() and plain.decode().isprintable()


# Logins

_NETRC = pattern_of(r"(?:.*\s)?login\s{1,8}\S{1,100}\s{1,8}\Z", re.DOTALL)
_NETRC_VALUE = pattern_of(r"password\s{1,8}(?P<value>[^\s\"'\\]{4,200})")
_CHANGED = pattern_of(
    r"(?:.*[\s\"'])?[^\s:\"'|]{1,60}:(?P<value>[^\s\"'|]{4,100})[\"']?\s{0,4}"
    r"\|\s{0,4}(?:sudo )?ch\Z"
)
_BEFORE_LOGIN = 120


def logins(scan: Scan) -> Matches:
    """Passwords in a file of logins, and those that are piped to where they are changed."""
    text, low = scan.text, scan.low
    for place in scan.places("pass"):
        first = max(place - _BEFORE_LOGIN, 0)
        if low.startswith("word", place + 4) and text[place - 1 : place].isspace():
            match = _NETRC_VALUE.match(text, place)
            if match and values.looks_chosen(match["value"]) and _NETRC.match(text, first, place):
                yield "netrc-password", *match.span("value")
        elif low.startswith("chpasswd", place - 2):
            match = _CHANGED.match(text, text.rfind("\n", first, place) + 1 or first, place)
            if match and values.looks_chosen(match["value"]):
                yield "command-password", *match.span("value")


# Places that a table tells

_LOOKS: dict[str, Callable[[str], bool]] = {
    "real": lambda value: not values.is_example(value),
    "any": lambda value: not values.is_stand_in(value),
    "chosen": lambda value: values.looks_chosen(value, 5),
    "strong": values.is_strong,
    "issued": values.looks_issued,
    "phrase": values.is_phrase,
}


class SecretPlace(NamedTuple):
    """A row of `places.tsv`: what finds the secret at a literal."""

    kind: str
    literal: str
    looks: Callable[[str], bool]
    pattern: re.Pattern[str]

    def find(self, scan: Scan) -> Matches:
        """Every secret at such a place."""
        for place in scan.places(self.literal):
            match = self.pattern.match(scan.text, place)
            if match and self.looks(match[match.lastgroup or 0]):
                yield self.kind, *match.span(match.lastgroup or 0)


@cache
def known_places() -> tuple[SecretPlace, ...]:
    """All rows."""
    rows = Path(__file__).with_name("places.tsv").read_text("utf-8").splitlines()
    told = [row.split("\t") for row in rows if not row.startswith("#")]
    return tuple(
        SecretPlace(kind, literal, _LOOKS[look], pattern_of(pattern, re.I))
        for kind, literal, look, pattern in told
    )


# Hashes of passwords

_HASH = pattern_of(
    r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}"
    r"|\$(?:1|5|6|7|y|gy|apr1|sha1|md5)\$[^\s:$\"'\\]{1,40}\$[./A-Za-z0-9$]{20,}"
    r"|\$[PHS]\$[./A-Za-z0-9]{28,}"
    r"|\$argon2(?:id|i|d)\$v=\d+\$[^\s$]{1,40}\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{16,}"
    r"|\$scrypt\$[^\s$]{1,40}\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{16,}"
    r"|\$pbkdf2[a-z0-9-]{0,10}\$[^\s$]{1,20}\$[A-Za-z0-9+/.]{8,}\$[A-Za-z0-9+/.]{16,}"
    r"|\$krb5\w{2,8}\$\S{40,4000}"
)
_FURTHER = pattern_of(
    r"\$[^\s$\"'\\]{0,60}(?:\$[A-Za-z0-9+/=._-]{20,200}(?::[A-Za-z0-9+/=]{20,60})?){1,2}"
)
_HASH_NAMES = "12567abgkmpsyPHS"
_HASH_ENDS = ("sha256", "sha512", "sha1", "scrypt", "argon2", "md5", "-256", ":1", "000")


def hashes(scan: Scan) -> Matches:
    """Hashes that can be tried against a list of passwords."""
    text, after = scan.text, 0
    place = text.find("$")
    while place >= 0:
        if place >= after and place + 20 < len(text):
            match = None
            if text[place + 1] in _HASH_NAMES:
                match = _HASH.match(text, place)
            if match is None and text[max(place - 6, 0) : place].endswith(_HASH_ENDS):
                match = _FURTHER.match(text, place)
            if match:
                after = match.end()
                yield "password-hash", *match.span()
        place = text.find("$", place + 1)


# Around long runs of letters and digits

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN_SIGNS = _LETTERS + "0123456789_-.~+/%"
_REST = pattern_of(r"[A-Za-z0-9_.~+/%=-]*+")
_REACH, _LONGEST_HEAD, _JWK = 70, 16, 600
_SIGNS = " \t\"'=:>}\\"
_SCHEMES, _NAMES = values.words("schemes"), values.words("value-names")
_PARAMETERS = values.words("parameters")
_VENDOR_SIZES = frozenset((32, 36, 37, 40, 42, 64))
_HASHERS = values.words("hashers")
_TELLING = pattern_of(r"key|token|auth|secret|api")
_VENDOR = pattern_of("|".join(sorted(values.words("vendors"))))


def beside_runs(scan: Scan) -> Matches:
    """Random values after a word that is telling only with such a value."""
    text, after = scan.text, 0
    for run, end in scan.runs:
        if run < after:
            continue
        sign = text[run - 1 : run]
        if not sign or (sign not in _TOKEN_SIGNS and (sign not in _SIGNS or text[run] == "/")):
            continue
        before = text[max(run - _REACH, 0) : run]
        head = before.rstrip(_TOKEN_SIGNS)
        start = run - len(before) + len(head)
        if run - start > _LONGEST_HEAD or head[-1:] not in _SIGNS or text[start] == "/":
            continue
        kind = _kind_beside(head, text[run:end])
        if kind == "jwk" and "kty" not in text[max(run - _JWK, 0) : end + _JWK]:
            continue
        if kind:
            rest = _REST.match(text, end)
            after = rest.end() if rest else end
            yield kind, start, after


def _kind_beside(before: str, run: str) -> str:
    """What a run is after these words: a credential of its scheme, of its vendor, or nothing."""
    said = before.rstrip(_SIGNS)
    signs = before[len(said) :]
    word = said[len(said.rstrip(_LETTERS)) :].lower()
    if (
        (word in _SCHEMES and signs.isspace())
        or (word in _NAMES and (":" in signs or "=" in signs))
        or (word in _PARAMETERS and signs == "=" and not said[: -len(word)].endswith("_"))
    ):
        return "authorization" if values.looks_issued(run) else ""
    if signs == "}" and word in _HASHERS:
        return "password-hash"
    if word == "d" and len(run) > 30 and signs[0] in '"\\':
        return "jwk" if values.looks_issued(run) else ""
    if len(run) in _VENDOR_SIZES:
        return _kind_of_sized(before, word, run)
    return ""


def _kind_of_sized(before: str, word: str, run: str) -> str:
    """What only a vendor's name, or a header's, makes of a value that has the length of a key."""
    line = before[before.rfind("\n") + 1 :].lower()
    if word == "response" and "digest" in line:
        return "authorization"
    if (
        _TELLING.search(line)
        and _VENDOR.search(line)
        and (values.looks_issued(run) or values.is_uuid(run))
    ):
        return "secret"
    return ""


# Commands: which option of which program takes a password

_ARGUMENT = r"(?:\\?[\"'])?(?P<value>[^\s\"'\\]{3,200})"
_USER = r"[\"']?[^\s:\"'=]{1,60}:"


_SECURED = pattern_of(
    r"securestring[ (](?:-string )?[ (]{0,2}\\?['\"](?P<value>[^'\"\n\\]{4,100})\\?['\"]\Z", re.I
)
_CANDIDATE = pattern_of(r" -(?:[puawbc]|-(?:user|proxy-user|auth))")


@cache
def _options() -> dict[str, list[tuple[re.Pattern[str], re.Pattern[str]]]]:
    """Programs and their options in `options.tsv`, by the letter of the option."""
    found: dict[str, list[tuple[re.Pattern[str], re.Pattern[str]]]] = {}
    for row in Path(__file__).with_name("options.tsv").read_text("utf-8").splitlines()[1:]:
        letter, option, programs = row.split("\t")
        named = re.compile(rf"(?:\b|\\[nt])(?:{programs})\b")
        taken = re.compile(option.replace("{user}", _USER) + _ARGUMENT)
        found.setdefault(letter, []).append((named, taken))
    return found


def command_passwords(scan: Scan) -> Matches:
    """Every password given to a program by an option that is known to take one."""
    for found in _CANDIDATE.finditer(scan.low):
        if span := _after_option(scan, found.start()):
            yield "command-password", *span


def _after_option(scan: Scan, place: int) -> tuple[int, int] | None:
    text = scan.text
    for program, option in _options().get(scan.low[place + 2], ()):
        match = option.match(text, place)
        if match and program.search(_command(text, place)) and _is_password(match["value"]):
            return match.span("value")
    if scan.low.startswith("asplaintext", place + 2):
        secured = _SECURED.search(text, max(place - 120, 0), place)
        if secured and values.looks_chosen(secured["value"], 5):
            return secured.span("value")
    return None


def _command(text: str, place: int) -> str:
    """The line up to here, or as much of it as a command needs."""
    begin = max(place - 240, 0)
    return text[max(text.rfind("\n", begin, place) + 1, begin) : place]


def _is_password(value: str) -> bool:
    """Whether an argument is neither a word, nor a variable, nor a stand-in."""
    word = value.islower() and value.isalpha()
    return not (word or value[0] in "-$<{/%*" or values.is_stand_in(value))


# Private keys that fill many lines: whole, a head without its tail, or a tail without its head

LONGEST_BLOCK = 20_000
"""No private key has more characters than this."""

_NAMED = r"[A-Za-z0-9 ]{0,40}(?:PRIVATE KEY(?: BLOCK)?|Static key V1)-----"
_HEAD, _TAIL = pattern_of(rf"-----BEGIN {_NAMED}"), pattern_of(rf"-----END {_NAMED}")
_BETWEEN = r"(?:\\{1,3}[nrt]|[\s\"'+,>|#*:→-]|\d(?=[\d\s:→|]))"
"""What may stand around the lines of a key: quotes, escaped line ends, line numbers, a diff."""
_BODY = pattern_of(
    rf"(?:{_BETWEEN}{{1,20}}[A-Z][A-Za-z-]{{2,20}}: [^\n\\]{{1,80}}){{0,6}}"
    rf"(?:{_BETWEEN}{{1,40}}[A-Za-z0-9+/=]{{24,}}+)+"
)
_LAST_LINE = pattern_of(rf"{_BETWEEN}{{1,40}}[A-Za-z0-9+/=]{{1,23}}(?![\w-])")
_TO_TAIL = pattern_of(rf"(?:{_BETWEEN}{{1,40}}[A-Za-z0-9+/=]{{1,23}})?{_BETWEEN}{{1,40}}-----END ")
_KEYED = pattern_of(r"[A-Za-z0-9+/]{40,}|(?:[A-Za-z0-9+/]{16,}\s{1,8}){2}")

_BREAK = pattern_of(r"\n|\\{1,3}n")
_AROUND = " \t\r\"'+,>|#*:→0123456789"
_MARGIN = r"\s{0,12}\d{0,5}[\s\"'+,>|#*:→]{0,12}"
_END_OF_LINE = r"[\s\"',+\\r]{0,12}\Z"
_SHORT_LINE = pattern_of(
    rf"{_MARGIN}([A-Za-z0-9+/]{{2,80}}={{0,2}}|=[A-Za-z0-9+/]{{4}}){_END_OF_LINE}"
)
_LONG_LINE = pattern_of(rf"{_MARGIN}([A-Za-z0-9+/]{{40,}}={{0,2}}){_END_OF_LINE}")
_LAST_RUN = pattern_of(rf"[A-Za-z0-9+/]{{16,80}}={{0,2}}{_END_OF_LINE}")
_PUTTY = pattern_of(
    r"private-lines:[ \t]{0,4}\d{1,4}(?:\\{1,3}[nr]|\s|\d(?=[\d\s])){1,16}"
    r"((?:[A-Za-z0-9+/=]{16,}+(?:\\{1,3}[nr]|\s|\d(?=[\d\s])){0,12})+)",
    re.IGNORECASE,
)


def private_keys(scan: Scan) -> Matches:
    """Every private key in a text, from its first line to its last that is there."""
    after = 0
    for place in scan.places("key"):
        if not scan.low.startswith(("private ", " static "), place - 8):
            continue
        if span := _around(scan.text, place, after):
            after = span[1]
            yield "private-key", *span


def putty_keys(scan: Scan) -> Matches:
    """The private lines of a key in PuTTY's format."""
    for place in scan.places("private-lines:"):
        if match := _PUTTY.match(scan.text, place):
            yield "putty-key", match.start(1), match.start(1) + len(match[1].rstrip())


def _around(text: str, place: int, after: int) -> tuple[int, int] | None:
    """The block to which a marker belongs."""
    if (dashes := text.rfind("-----", max(place - 60, after), place)) < 0:
        return None
    if head := _HEAD.match(text, dashes):
        return _from_head(text, head)
    if tail := _TAIL.match(text, dashes):
        return _to_tail(text, tail, after)
    return None


def _from_head(text: str, head: re.Match[str]) -> tuple[int, int] | None:
    """A key from its head on, to its tail or as far as there are lines of it."""
    limit = head.end() + LONGEST_BLOCK
    if (body := _BODY.match(text, head.end(), limit)) is None:
        return None
    if to_tail := _TO_TAIL.match(text, body.end(), limit + 200):
        tail = _TAIL.match(text, to_tail.end() - 9)
        return head.start(), tail.end() if tail else to_tail.end()
    last = _LAST_LINE.match(text, body.end(), limit)
    is_key = last and any(not sign.isalpha() for sign in last.group().lstrip())
    return head.start(), last.end() if last and is_key else body.end()


def _to_tail(text: str, tail: re.Match[str], after: int) -> tuple[int, int] | None:
    """The lines of a key whose head is not there."""
    first = max(tail.start() - LONGEST_BLOCK, text.rfind("-----", after, tail.start()) + 5, after)
    gaps = [(first, first), *(gap.span() for gap in _BREAK.finditer(text, first, tail.start()))]
    start, end = None, tail.start()
    for before, begin in reversed(gaps):
        line, end = text[begin:end], before
        if not line.strip(_AROUND):
            continue
        match = (_SHORT_LINE if start is None else _LONG_LINE).match(line)
        if match is None:
            if run := _LAST_RUN.search(line):
                start = begin + run.start()
            break
        start = begin + match.start(1)
    if start is None or not _KEYED.search(text, start, tail.start()):
        return None
    return start, tail.end()
