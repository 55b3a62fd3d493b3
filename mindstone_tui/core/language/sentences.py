"""A text as sentences, wherever it comes from: chat, Markdown, notes, other scripts.

Nothing is reworded and nothing gets lost: `pieces` cut the text without a gap, and every sentence
is a slice of its piece. A code block stays whole, a list item begins a new sentence, a line that
was only wrapped does not. Full stops inside file names, addresses, numbers and abbreviations end
nothing. Each text is read once, from left to right.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal

import msgspec

from mindstone_tui.core.language.lists import english
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.values import Value

Form = Literal["prose", "item", "heading", "quote", "table", "code"]

_LINE: Final = pattern_of(r"[^\n\r\u2028\u2029]*(?:\r\n?|[\n\u2028\u2029]|\Z)")
_FENCE: Final = pattern_of(r"[ \t]{0,12}(`{3,}|~{3,})([^\n]*)")
_MARKER: Final = pattern_of(
    r"(?P<quote>[ \t]*(?:>[ \t]?)+)"
    r"|(?P<heading>[ \t]{0,3}#{1,6}[ \t]+)"
    r"|(?P<item>[ \t]*(?:[-*+•‣◦–—][ \t]+|\(?\d{1,3}[.)][ \t]+|[a-zA-Z]\)[ \t]+)"
    r"(?:\[[ xX~>-]\][ \t]+)?|[ \t]*\[[ xX]\][ \t]+)"
    r"|(?P<table>[ \t]*\|(?=.*\|\s*\Z))"
)
_CLOSERS: Final = "\"'”’»›)]}*_`」』）】"
_STOP: Final = pattern_of(
    rf"(?:[.!?…‽⁇⁈⁉]+[{re.escape(_CLOSERS)}]*(?=\s|\Z))"
    rf"|(?:[。！？｡．؟۔।॥።፧։།។៕။܀᙮]+[{re.escape(_CLOSERS)}]*)"
)
_CODE_SPAN: Final = pattern_of(r"(`{1,64}+)(?!`)[^\n]{1,400}?(?<!`)\1(?!`)")
_WORD_BEFORE: Final = pattern_of(r"[^\W\d_](?:[.\w-]{0,14}\w)?\Z")
_WRAPPED_FROM: Final = 50
"""Shorter lines are lines of their own: nobody's editor wraps there."""


class Sentence(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A sentence, list item, heading, table row or whole code block, with its place in the text."""

    text: str
    """A slice of the text, without the marker of a list item, heading or quote before it."""
    start: int
    form: Form = "prose"

    @property
    def end(self) -> int:
        """Where the slice ends."""
        return self.start + len(self.text)


class _Block(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """Lines that belong together, and where the words of their first line begin."""

    start: int
    end: int
    words: int
    form: Form


@lru_cache(maxsize=8)  # whoever reads a message asks many things about the same few texts
def sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text in order; what holds no word at all is left out."""
    return tuple(
        Sentence(text=text[words : words + length], start=words, form=form)
        for _, _, words, length, form in _cut(text)
        if length
    )


def prose(text: str) -> tuple[Sentence, ...]:
    """The sentences that somebody said, without code blocks, tables and quoted lines."""
    return tuple(one for one in sentences(text) if one.form in ("prose", "item", "heading"))


def parts_of(text: str) -> tuple[str, ...]:
    """The sentences of a text, and the single lines of its code and tables, trimmed."""
    found: list[str] = []
    for one in sentences(text):
        lines = one.text.splitlines() if one.form == "code" else [one.text]
        found += [line.strip() for line in lines if any(map(str.isalnum, line))]
    return tuple(found)


def pieces(text: str) -> tuple[str, ...]:
    """The text cut after every sentence: joined, they are the text again."""
    return tuple(text[start:end] for start, end, *_ in _cut(text))


def shortened(sentence: str, longest: int) -> str:
    """A sentence of at most `longest` characters; where it was cut, a sign says so."""
    return sentence if len(sentence) <= longest else sentence[: max(longest - 1, 0)] + "…"


def _cut(text: str) -> Iterator[tuple[int, int, int, int, Form]]:
    """Each piece as start, end, and where its words begin and how long they are."""
    for block in _blocks(text):
        at = block.start
        for end in (*_stops(text, block), block.end):
            if end <= at:
                continue
            words = max(at, block.words) if at == block.start else at
            said = text[words:end]
            bare = said.strip()
            lead = len(said) - len(said.lstrip())
            length = len(bare) if any(map(str.isalnum, bare)) else 0
            yield at, end, words + lead, length, block.form
            at = end


def _blocks(text: str) -> Iterator[_Block]:
    """Code blocks, and runs of lines in which a sentence may go on over the end of a line."""
    fence = ""
    opened: _Block | None = None
    last = ""
    for found in _LINE.finditer(text):
        line, start, end = found[0], found.start(), found.end()
        if not line:
            break
        if fence and opened is not None:
            opened = msgspec.structs.replace(opened, end=end)
            if _closes(line, fence):
                yield opened
                fence, opened = "", None
            continue
        if opening := _opening(line):
            if opened is not None:
                yield opened
            fence, opened = opening, _Block(start=start, end=end, words=start, form="code")
            continue
        form, marker = _form(line)
        if opened is not None and form == "prose" and not marker and _wraps(last, line):
            opened = msgspec.structs.replace(opened, end=end)
        else:
            if opened is not None:
                yield opened
            opened = _Block(start=start, end=end, words=start + marker, form=form)
        last = line
    if opened is not None:
        yield opened


def _opening(line: str) -> str:
    """The fence that a line opens, if it does; an inline span of code is none."""
    found = _FENCE.match(line)
    return found[1] if found and "`" not in found[2] else ""


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and not bare.strip(fence[0])


def _form(line: str) -> tuple[Form, int]:
    """What kind of line it is, and how long its marker."""
    if (found := _MARKER.match(line)) is None:
        return "prose", 0
    match found.lastgroup:
        case "quote":
            return "quote", found.end()
        case "heading":
            return "heading", found.end()
        case "table":
            return "table", found.end()
    return "item", found.end()


def _wraps(line: str, following: str) -> bool:
    """Whether a sentence goes on from one line to the next."""
    bare, rest = line.rstrip(), following.lstrip()
    return (
        len(bare) >= _WRAPPED_FROM
        and rest[:1].islower()
        and bare[-1] not in ".!?:;…。！？|"
        and not bare.endswith(("```", "---"))
    )


def _stops(text: str, block: _Block) -> Iterator[int]:
    """Where sentences end within a block; the white space after one belongs to it."""
    if block.form in ("code", "table"):
        return
    line = text[block.start : block.end]
    spans = [found.span() for found in _CODE_SPAN.finditer(line)] if "`" in line else []
    at = 0
    for found in _STOP.finditer(line, max(block.words - block.start, 0)):
        while at < len(spans) and spans[at][1] <= found.start():
            at += 1
        inside = at < len(spans) and spans[at][0] < found.start() < spans[at][1] - 1
        if not inside and _ends(line, found):
            yield block.start + _after_blanks(line, found.end())


def _after_blanks(line: str, at: int) -> int:
    while at < len(line) and line[at].isspace():
        at += 1
    return at


def _ends(line: str, stop: re.Match[str]) -> bool:
    """Whether a stop ends a sentence, by what stands on both sides of it."""
    signs = stop[0]
    first = signs[0]
    after = _after_blanks(line, stop.end())
    following = line[after : after + 1]
    if first not in ".!?…‽⁇⁈⁉":
        return not (first == "．" and following.isdigit())
    if not following:
        return True
    bare = signs.rstrip(_CLOSERS)
    if following.islower() and (bare in ("..", "...", "…") or (bare != signs and first != ".")):
        return False  # a pause, or something exclaimed in quotes or brackets
    if bare != ".":
        return True
    before = line[max(0, stop.start() - 16) : stop.start()]
    if not before or before[-1].isspace():
        return False
    word = _WORD_BEFORE.search(before)
    return word is None or not _abbreviates(word[0].lower(), line[after : after + 12].split()[0])


def _abbreviates(word: str, following: str) -> bool:
    """Whether a full stop after this word only shortens it; `following` is the next word."""
    if word in english("may end"):
        return following[0].isdigit() if word == "no" else following[0].islower()
    if word in english("abbreviations"):
        return True
    # An initial stands before a name; before anything else a lone letter ended something.
    initial = len(word) == 1 and word != "i" and following[:1].isupper()
    return initial and following not in english("openers")
