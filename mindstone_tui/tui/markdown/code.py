"""Code with colours that follow the theme, and without them where colouring would cost too much."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from textual.content import Content, Span

from mindstone_tui.core.patterns import pattern_of

LONGEST_WHILE_STREAMING: Final = 8_000
LONGEST: Final = 50_000
"""Characters; longer code is shown plain."""

_STYLES: Final = {
    "Comment": "italic $code-comment",
    "Keyword": "$code-keyword",
    "Literal.String": "$code-string",
    "Literal.Number": "$code-number",
    "Name.Function": "$code-name",
    "Name.Class": "bold $code-name",
    "Name.Decorator": "$code-name",
    "Name.Tag": "$code-keyword",
    "Name.Builtin": "$code-keyword",
    "Operator.Word": "$code-keyword",
    "Generic.Inserted": "$success",
    "Generic.Deleted": "$error",
    "Generic.Subheading": "$primary",
    "Generic.Heading": "bold",
}


def highlighted(code: str, language: str, *, whole: bool = True) -> Content:
    """The code, coloured if the language is known and it is not too long."""
    if not language or len(code) > (LONGEST if whole else LONGEST_WHILE_STREAMING):
        return Content(code)
    return _coloured(code, language.lower())


@lru_cache(maxsize=64)
def _coloured(code: str, language: str) -> Content:
    # Pygments takes a while to import; most conversations begin without code.
    lexers = import_module("pygments.lexers")
    if language not in _languages(lexers):
        return Content(code)
    lexer = lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    spans: list[Span] = []
    at = 0
    for kind, text in lexer.get_tokens(code):
        if style := _style_of(kind):
            spans.append(Span(at, at + len(text), style))
        at += len(text)
    return Content(code, spans=spans)


@cache
def _languages(lexers: ModuleType) -> frozenset[str]:
    return frozenset(alias for _, aliases, _, _ in lexers.get_all_lexers() for alias in aliases)


def _style_of(kind: Any) -> str:
    while kind:
        if style := _STYLES.get(".".join(kind)):
            return style
        kind = kind.parent
    return ""


def diffed(diff: str) -> Content:
    """A unified diff: what comes green, what goes red, where it is blue."""
    spans: list[Span] = []
    at = 0
    for line in diff.splitlines(keepends=True):
        style = ""
        if line.startswith(("+++", "---")):
            style = "bold"
        elif line.startswith("+"):
            style = "$success"
        elif line.startswith("-"):
            style = "$error"
        elif line.startswith("@@"):
            style = "$primary"
        if style:
            spans.append(Span(at, at + len(line.rstrip("\n")), style))
        at += len(line)
    return Content(diff, spans=spans)


_HUNK: Final = pattern_of(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def numbered(diff: str) -> Content:
    """A unified diff with the numbers of its lines in front; the names of the files are left out.

    A line that goes has its old number, every other one its new number.
    """
    rows: list[Content] = []
    old = new = 0
    for line, drawn in zip(diff.splitlines(), diffed(diff).split("\n"), strict=False):
        if line.startswith(("+++", "---")) and not (old or new):
            continue
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
            if rows:
                rows.append(Content.styled("   ⋮", "$faint"))
            continue
        number = old if line.startswith("-") else new
        rows.append(Content.assemble((f"{number:>5} " if old or new else "", "$faint"), drawn))
        old += not line.startswith("+")
        new += not line.startswith("-")
    return Content("\n").join(rows)
