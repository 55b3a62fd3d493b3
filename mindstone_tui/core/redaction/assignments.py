"""Values that stand beside a telling name: in settings, code, headers, markup, commands and prose.

The name alone blackens nothing. It says what kind of secret to expect, the way it is written says
where its value begins and ends, and the value must look the part.
"""

import re
from typing import NamedTuple

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.redaction import formats, values

WORDS = ("pass", "pw", "secret", "token", "key", "auth", "mnemonic")
"""What a telling name has in it; anything else about the name is read where one of these stands."""

_NAME_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_LONGEST_NAME, _LONGEST_JUDGED, _LONGEST_QUOTED, _LONGEST_LINE = 48, 256, 600, 240

_NAME_END = pattern_of(
    r"([A-Za-z0-9_-]{0,40}+)(\\{0,3}[\"'`]|\*\*)?\]?(?:\[\d{0,5}\]| \[[\w*]{1,24}\])?([ \t]{0,8}+)"
)
"""The rest of a name, the quote that closes it, what a prompt offers, and the space after it."""

_TO_VALUE = (
    r"(?P<space>[ \t]{0,8}+)(?:(?P<open>[brfuBRFU@$]{0,2}\\{0,3}[\"'`])|(?=[A-Za-z_.:/-]{0,80}"
    r"(?:[^A-Za-z_.:/\s\"'`<>\\;,(){}\[\]-]|(?<=[a-z])[A-Z]{2}|(?<=[A-Z]{3})[a-z])))"
)
"""To a quoted value, or to a bare one that is more than plain words."""
_SIGN = pattern_of(r"(?:=>|:=|\?=|={1,3}|:(?!:))" + _TO_VALUE)
_TYPED = pattern_of(
    r":[ \t]{0,2}[&A-Za-z_][\w<>&|\[\]'. ]{0,30}=(?=[ \t]{0,2}\\{0,3}[\"'])" + _TO_VALUE
)
_PAIR = pattern_of(r"[\s,+\d/>\\nrt]{0,60}+<?[\"']?value\\{0,3}[\"']?[ \t]{0,4}[:=>]" + _TO_VALUE)
_PROSE = pattern_of(r"(?:is|was|to):?(?=[ \t])" + _TO_VALUE)
_BLANK, _NEXT = pattern_of(_TO_VALUE), pattern_of(r"[,(>]" + _TO_VALUE)

_WAYS: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "=": (("=", _SIGN),),
    ":": (("typed", _TYPED), (":", _SIGN)),
    "?": (("=", _SIGN),),
    ",": (("pair", _PAIR), (",", _NEXT)),
    ">": (("pair", _PAIR), (">", _NEXT)),
    "(": (("(", _NEXT),),
    "i": (("is", _PROSE),),
    "w": (("is", _PROSE),),
    "t": (("is", _PROSE),),
    **dict.fromkeys("v\n\r\\/", (("pair", _PAIR),)),
}
"""How a value may follow a name, by the sign after the name."""

_NO_NAME = frozenset("),.;]}+&|%!~^<{@#$")
"""What follows a word that is used, not given a value."""
_NO_NAME_OR_LETTER = _NO_NAME | frozenset("abcdefghijklmnopqrstuvwxyz")
"""The same after a word that means something else when it goes on: "keyboard", "author"."""
_SIGNS = "=:?,>(\n\r\\/"

_BARE = pattern_of(rf"[^\s\"'`<>\\;,(){{}}\[\]]{{4,{_LONGEST_JUDGED}}}+")
_REST = pattern_of(r"[^\s\"'`<>\\;,(){}\[\]]*+")
_WORDS_BEFORE = pattern_of(r"(?<![^\s\"'`([{<>=:,;*|])(?:[A-Za-z]{1,16} ){1,2}\Z")
"""One or two words, as in "the public key" or "API key"."""
_PARAMETER = pattern_of(r"&[\w.-]{1,40}=")
_MOST_EQUALS = 4
"""More of them make a chain of assignments, which no password is."""
_IDENTIFIER = pattern_of(r"[A-Za-z_]\w*\Z")
_MIXED = pattern_of(r"[A-Za-z]+[0-9!@#$%^&*]+[A-Za-z0-9]")
_PUBLIC = pattern_of(r"M[CFGHI][A-Za-z0-9]{2}|[A-Za-z0-9+/]{43}=\Z|AAAA[BCE]3Nza|sha\d")
"""How public keys and digests begin, or all they are."""
_OWNER = pattern_of(r"\A\d{10,25}-(?=[A-Za-z0-9]{20,}\Z)")
"""Whose token it is, before the token."""
_CALLED, _ENDED = ("(", "[", "{"), ("", "\n", "\r", '"', "\\")
_APART = (*_ENDED, " ", "\t", "&", "'", ";")


class _Place(NamedTuple):
    """A value beside a name, and how it is written."""

    text: str
    word: int
    name: str
    promise: values.Promise
    before: str
    """What stands before the name."""
    way: str
    closed: bool
    """The name is quoted."""
    gap: bool
    """There is space around the sign."""
    quote: str
    start: int


def assigned(scan: formats.Scan, word: str) -> formats.Matches:
    """Every secret assigned to a name in which this word stands."""
    text, size, after = scan.text, len(word), 0
    ends = _NO_NAME if word in ("pass", "pw") else _NO_NAME_OR_LETTER
    for place in scan.places(word):
        if place < after or text[place + size : place + size + 1] in ends:
            continue
        if span := _value_of(text, place, place + size):
            after = span[1]
            yield "secret", *span


def _value_of(text: str, word: int, end_of_word: int) -> tuple[int, int] | None:
    """The secret that is assigned to the name around this word, if there is one."""
    if (named := _NAME_END.match(text, end_of_word)) is None:
        return None
    way, head = _way(text, named.end(), spaced=bool(named[3]))
    if head is None:
        return None
    name, before = _name(text, word, named.end(1))
    if (promise := values.promise_of(name)) is values.Promise.NOTHING:
        return None
    gap = bool(named[3] or head["space"])
    quote = (head["open"] or "").lstrip("brfuBRFU@$")
    place = _Place(text, word, name, promise, before, way, bool(named[2]), gap, quote, head.end())
    return _quoted(place) if quote else _unquoted(place)


def _way(text: str, after: int, *, spaced: bool) -> tuple[str, re.Match[str] | None]:
    """How a value follows a name that ends here."""
    sign = text[after : after + 1]
    for way, pattern in _WAYS.get(sign, ()):
        if head := pattern.match(text, after):
            return way, head
    return " ", _BLANK.match(text, after) if spaced and sign not in _SIGNS else None


def _name(text: str, place: int, end: int) -> tuple[str, str]:
    """The name that ends here with the plain words before it, and the sign before all that."""
    before = text[max(place - _LONGEST_NAME, 0) : place]
    start = len(before.rstrip(_NAME_SIGNS))
    if before[start - 1 : start] == "\\" and before[start : start + 1] in ("n", "r", "t"):
        start += 1
    name = before[start:] + text[place:end]
    if before[start - 1 : start] == " " and (words := _WORDS_BEFORE.search(before, 0, start)):
        return words.group() + name, before[words.start() - 1 : words.start()]
    return name, before[start - 1 : start]


def _quoted(place: _Place) -> tuple[int, int] | None:
    """A quoted secret beside its name."""
    if (end := _closing(place.text, place.start, place.quote)) < 0:
        return _unquoted(place)
    if not place.closed and not place.gap and _closes_a_string(place):
        return None
    return (place.start, end) if _is_literal(place, place.text[place.start : end]) else None


def _closing(text: str, start: int, quote: str) -> int:
    """Where a quoted value ends on its line, or -1."""
    limit = min(start + _LONGEST_QUOTED, len(text))
    end = text.find(quote, start, limit)
    while len(quote) == 1 and end > start and text[end - 1] == "\\" and text[end - 2] != "\\":
        end = text.find(quote, end + 1, limit)
    return -1 if end > start and text.find("\n", start, end) >= 0 else end


def _closes_a_string(place: _Place) -> bool:
    """Whether the quote that seems to open the value ends a text like "Password:"."""
    quote = place.quote[-1]
    if place.before == quote:
        return True
    begin = place.text.rfind("\n", max(place.word - _LONGEST_LINE, 0), place.word) + 1
    if not begin and place.word >= _LONGEST_LINE:
        return False
    seen = place.text.count(place.quote, begin, place.word)
    if len(place.quote) == 1:
        seen -= place.text.count(f"\\{quote}", begin, place.word)
    return seen % 2 == 1


def _is_literal(place: _Place, value: str) -> bool:
    """Whether a quoted value is the secret that its name promises."""
    if len(value) < 4 or (place.way == "," and not place.closed):
        return False
    assigned_to = place.way in ("=", ":", "typed")
    if " " in value:
        return place.promise >= values.Promise.SECRET and assigned_to and _is_spaced(value)
    if assigned_to or place.way in ("pair", ">"):
        return _fits(place, value)
    if place.promise is values.Promise.PASSWORD and not _is_verb(place):
        constant = place.way == "," and values.is_constant(place.name)
        return _fits(place, value) if place.way == " " or constant else values.is_strong(value)
    return place.promise >= values.Promise.TOKEN and values.looks_issued(value, 12)


def _is_verb(place: _Place) -> bool:
    """Whether "pass" says what to do or how a test went."""
    word = place.name.rpartition(" ")[2]
    return word in ("PASS", "Pass") or (word == "pass" and place.way not in ("=", ":"))


def _is_spaced(value: str) -> bool:
    """A passphrase rather than a sentence about one."""
    parts = value.split(" ") if len(value) <= 100 else ()
    return values.is_phrase(value) or any(
        values.looks_chosen(part) and _MIXED.match(part) for part in parts
    )


def _fits(place: _Place, value: str) -> bool:
    """Whether a literal looks like what its name promises."""
    value = _OWNER.sub("", value.removeprefix("base64:"), count=1)
    match place.promise:
        case values.Promise.PASSWORD:
            return (
                values.looks_issued(value, 8)
                or values.looks_chosen(value)
                or values.is_uuid(value)
                or values.is_phrase(value)
            )
        case values.Promise.SECRET:
            chosen = values.strangeness(value) >= 0.35 and values.looks_chosen(value, 8)
            return chosen or values.looks_issued(value, 10) or values.is_uuid(value)
        case values.Promise.TOKEN:
            return values.looks_issued(value, 12) or (
                values.is_uuid(value) and values.is_firm(place.name)
            )
        case _:
            random = values.looks_issued(value, 20) and values.strangeness(value) >= 0.55
            open_to_all = values.is_hex(value.rpartition("-")[2]) or _PUBLIC.match(value)
            return random and (values.is_constant(place.name) or not open_to_all)


def _unquoted(place: _Place) -> tuple[int, int] | None:
    """A secret without quotes beside its name."""
    text, start = place.text, place.start
    if (bare := _BARE.match(text, start)) is None or place.way in (",", "(", "typed"):
        return None
    value = bare.group().rstrip(".:")
    if parameter := _PARAMETER.search(value):
        value = value[: parameter.start()]
    if value.count("=") > _MOST_EQUALS:
        return None
    end = start + len(value)
    if not _is_bare(place, value, text[end : end + 2]):
        return None
    if len(bare.group()) == _LONGEST_JUDGED and (rest := _REST.match(text, bare.end())):
        end = rest.end()
    return start, end


def _is_bare(place: _Place, value: str, follower: str) -> bool:
    """Whether a value without quotes is a secret rather than code."""
    if len(value) < 6 or follower == "::" or follower[:1] in _CALLED:
        return False
    if value[0] in "?-+|&=!*" and values.strangeness(value) < values.STRANGE:
        return False
    a_part = place.way == ":" == place.before  # one of the many of a resource's name
    if a_part or (place.gap and _is_verb(place)):
        return False
    option = place.name.rpartition(" ")[2].startswith("-")
    if place.way == "is" or (place.way == " " and not option):
        strong = place.promise is values.Promise.PASSWORD and values.is_strong(value.rstrip("!?"))
        return strong or (place.promise >= values.Promise.TOKEN and values.looks_issued(value, 12))
    if place.promise < values.Promise.PASSWORD:
        return len(value) >= 12 and _fits(place, value)
    if not values.looks_chosen(value):
        return values.is_uuid(value)
    code = _IDENTIFIER.match(value) and not (len(value) >= 9 and values.strangeness(value) >= 0.6)
    return not code or option or _is_setting(place, follower[:1])


def _is_setting(place: _Place, follower: str) -> bool:
    """Whether name and value stand as in a file of settings, not as in code."""
    if place.way in ("pair", ">"):
        return True
    if follower in (")", ",") and place.way == "=" and values.is_constant(place.name):
        return True
    if follower == ")":
        return _is_aside(place.text, place.word)
    if place.way == ":":
        return follower in _ENDED or follower == " "
    if place.gap:
        return follower in _ENDED and _begins_line(place.text, place.word)
    return follower in _APART


def _is_aside(text: str, place: int) -> bool:
    """Whether a bracket that opened before this place belongs to a sentence, not to a call."""
    bracket = text.rfind("(", max(place - _LONGEST_NAME, 0), place)
    return bracket == 0 or (bracket > 0 and text[bracket - 1].isspace())


def _begins_line(text: str, place: int) -> bool:
    before = text[max(place - _LONGEST_NAME, 0) : place]
    line = before[before.rfind("\n") + 1 :]
    return not line or not line[0].isspace()
