"""Secrets known by where they stand: in an address, a header, a login, a hash, a webhook."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction.scan import Scan
from mindstone_tui.core.redaction.values import (
    is_example,
    is_stand_in,
    is_uuid,
    looks_chosen,
    looks_issued,
    words,
)

__all__ = [
    "Matches",
    "addresses",
    "beside_runs",
    "hashes",
    "headers",
    "logins",
    "sql_logins",
    "webhooks",
]

Matches = Iterator[tuple[str, int, int]]
"""Kind, start and end of each secret."""


# Addresses

_URL = pattern_of(
    r"://(?P<user>[^\s:/@\"'<>`?#]{0,100}):(?P<value>(?:(?!://)[^\s\"'<>`\\]){1,200})@(?=[\w\[.-])"
)
_PORT_AND_PATH = pattern_of(r"\d{1,5}[/?#,]")
_COMMON = words(
    "password passwd pass pwd pw secret test user username admin root guest postgres mysql foo bar"
    " baz token key changeit changeme example mypassword mypass mysecretpassword mysecret"
    " yourpassword apikey auth"
)
"""Words that stand in for a password in every manual."""
_TEMPLATE = pattern_of(r"[{}]|\$[\w(]|%[sdr(]|<|\*{2}")
_WEBHOOK = pattern_of(
    r"hooks\.slack\.com/[a-z]{4,12}/(?P<a>[A-Za-z0-9+/]{30,})"
    r"|hooks/\d{15,22}/(?P<b>[A-Za-z0-9_-]{60,})"
    r"|hook(?:b2)?/(?P<c>[0-9a-f-]{36}@[0-9a-f-]{36}/\w{1,40}/[0-9a-f]{32}/[\w-]{36,})"
    r"|hooks/catch/\d{4,}/(?P<d>[A-Za-z0-9]{5,20})"
    r"|hook/(?P<e>[0-9a-f]{8}-[0-9a-f-]{27})"
    r"|hook/send\?key=(?P<f>[0-9a-f-]{36})"
    r"|hooks/(?P<g>[a-z0-9]{26})(?!\w)",
    re.IGNORECASE,
)


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
        or folded in _COMMON
        or folded == user.lower()
        or (len(password) < 6 and password.isalpha())
        or _PORT_AND_PATH.match(password)
        or _TEMPLATE.search(password)
        or is_stand_in(password)
    )


def webhooks(scan: Scan) -> Matches:
    """Addresses to which whoever knows them may write."""
    for place in scan.places("hook"):
        match = _WEBHOOK.match(scan.text, place)
        if match and not is_example(match.group()):
            group = match.lastgroup or ""
            yield ("slack-webhook" if group == "a" else "webhook"), *match.span(group)


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
            if match and looks_chosen(match["value"], 8):
                yield "authorization", *match.span("value")
            continue
        match = _HEADER.match(scan.text, place)
        if match is None:
            continue
        value = match["value"]
        basic = (match["scheme"] or "").lower() == "basic"
        if (basic and _is_basic(value)) or looks_issued(value, 12) or is_uuid(value):
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
_SQL = pattern_of(
    r"identified by (?:password )?\\?['\"](?P<value>[^'\"\n\\]{4,200})", re.IGNORECASE
)
_BEFORE_LOGIN = 120


def logins(scan: Scan) -> Matches:
    """Passwords in a file of logins, and those that are piped to where they are changed."""
    text, low = scan.text, scan.low
    for place in scan.places("pass"):
        first = max(place - _BEFORE_LOGIN, 0)
        if low.startswith("word", place + 4) and text[place - 1 : place].isspace():
            match = _NETRC_VALUE.match(text, place)
            if match and looks_chosen(match["value"]) and _NETRC.match(text, first, place):
                yield "netrc-password", *match.span("value")
        elif low.startswith("chpasswd", place - 2):
            match = _CHANGED.match(text, text.rfind("\n", first, place) + 1 or first, place)
            if match and looks_chosen(match["value"]):
                yield "command-password", *match.span("value")


def sql_logins(scan: Scan) -> Matches:
    """Passwords of database users."""
    for place in scan.places("identified by"):
        match = _SQL.match(scan.text, place)
        if match and looks_chosen(match["value"], 5):
            yield "secret", *match.span("value")


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
_SCHEMES = words("bearer basic ssws splunk negotiate apikey token")
_NAMES = words("pat jwt psk hmac sas webhook credential credentials cred creds")
_PARAMETERS = words("sessionid sessid phpsessid jsessionid sid session sig signature")
_VENDOR_SIZES = frozenset((32, 36, 37, 40, 42, 64))
_HASHERS = words("sha ssha md smd")
_TELLING = pattern_of(r"key|token|auth|secret|api")
_VENDOR = pattern_of(
    r"algolia|asana|assemblyai|cloudflare|codecov|cohere|datadog|deepgram|fastly|heroku|hetzner"
    r"|linode|mistral|okta|opsgenie|pagerduty|postmark|rollbar|snyk|together|travis|vercel|vultr"
    r"|wandb|zendesk"
)


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
        or (word in _PARAMETERS and signs == "=")
    ):
        return "authorization" if looks_issued(run) else ""
    if signs == "}" and word in _HASHERS:
        return "password-hash"
    if word == "d" and len(run) > 30 and signs[0] in '"\\':
        return "jwk" if looks_issued(run) else ""
    if len(run) in _VENDOR_SIZES:
        return _kind_of_sized(before, word, run)
    return ""


def _kind_of_sized(before: str, word: str, run: str) -> str:
    """What only a vendor's name, or a header's, makes of a value that has the length of a key."""
    line = before[before.rfind("\n") + 1 :].lower()
    if word == "response" and "digest" in line:
        return "authorization"
    if _TELLING.search(line) and _VENDOR.search(line) and (looks_issued(run) or is_uuid(run)):
        return "secret"
    return ""
