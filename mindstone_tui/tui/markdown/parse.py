"""Markdown into pieces: what stands on each line, and what stands in front of it.

Nothing is thrown away. HTML, entities and link definitions are text like any other, because a model
that writes `<T>` or `[1]: notes` means just that; a link shows where it leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from textual.content import Content, Span
from textual.style import Style

from mindstone_tui.core import patterns, values
from mindstone_tui.core.text import for_terminal

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


LONGEST_WHILE_STREAMING: Final = 8_000
LONGEST: Final = 50_000
"""Characters; longer code is shown plain."""

_STYLES: Final = values.shipped(__file__, "code_styles.json", dict[str, str])


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


_HUNK: Final = patterns.pattern_of(r"@@ -([0-9]{1,9})(?:,\d+)? \+([0-9]{1,9})(?:,\d+)? @@")


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


BULLETS = ("•", "◦", "▪")
_LONGEST_LIST = 999
MOST_BRACKETS = 4_000
"""Opening brackets in a text; with more of them no link is looked for, because each one costs a
search for its end, and the screen stands still meanwhile."""


class Piece(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True, eq=False):
    """Lines that are drawn alike."""

    content: Content
    first: str = ""
    """Stands before the first line."""
    rest: str = ""
    """Stands before every other line, wrapped ones too."""
    gap: bool = True
    """An empty line comes before."""
    code: str | None = None
    """The code of a block, for copying."""
    language: str = ""
    table: tuple[tuple[Content, ...], ...] = ()
    """Rows of cells, the header first."""
    aligned: tuple[str, ...] = ()
    """How each column of the table is set."""
    rule: bool = False
    """A line across."""


class _Indent(msgspec.Struct):
    first: str
    rest: str
    used: bool = False


@cache
def parser(*, links: bool = True) -> MarkdownIt:
    """CommonMark with tables and strikethrough, and without anything that hides text."""
    # It takes a tenth of the start, and nothing needs it before the first answer.
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    markdown.disable(["reference", "html_block", "html_inline", "entity"])
    return markdown if links else markdown.disable(["link", "image"])


def parse(source: str, *, streaming: bool = False) -> tuple[list[Piece], int]:
    """The pieces of a text, and the line at which its last block begins.

    While a text grows, only that last block can still change.
    """
    tokens = parser(links=source.count("[") <= MOST_BRACKETS).parse(source)
    last_line = next((t.map[0] for t in reversed(tokens) if t.map and t.level == 0), 0)
    return list(_Walk(streaming).over(tokens)), last_line


class _Walk(msgspec.Struct, eq=False):
    """One pass over the tokens of a text."""

    _streaming: bool
    _indents: list[_Indent] = []
    _lists: list[tuple[str, int]] = []
    _gap: bool = True

    def over(self, tokens: Sequence[Token]) -> Iterator[Piece]:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            match token.type:
                case "bullet_list_open" | "ordered_list_open":
                    self._gap = not self._lists
                    self._lists.append((token.type, int(str(token.attrGet("start") or 1))))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                    self._gap = not self._lists
                case "list_item_open":
                    self._indents.append(self._item())
                case "blockquote_open":
                    self._indents.append(_Indent("▎ ", "▎ "))
                case "list_item_close" | "blockquote_close":
                    if not self._indents[-1].used:
                        yield self._piece(Content(""), tight=True)
                    self._indents.pop()
                case "inline":
                    yield self._inline(token, tokens[at - 1])
                case "fence" | "code_block":
                    yield self._code(token)
                case "hr":
                    yield self._piece(Content(""), rule=True)
                case "table_open":
                    end = next(n for n in range(at, len(tokens)) if tokens[n].type == "table_close")
                    rows = tokens[at:end]
                    yield self._piece(Content(""), table=_rows(rows), aligned=_alignment(rows))
                    at = end
            at += 1

    def _item(self) -> _Indent:
        kind, number = self._lists[-1]
        if kind == "ordered_list_open":
            self._lists[-1] = (kind, number + 1)
            sign = f"{number}. "
            if number > _LONGEST_LIST:  # a number that ends a sentence, such as "8790."
                return _Indent(sign, "")
        else:
            sign = BULLETS[min(len(self._lists), len(BULLETS)) - 1] + " "
        return _Indent(sign, " " * len(sign))

    def _piece(self, content: Content, *, tight: bool = False, **fields: object) -> Piece:
        first = "".join(i.rest if i.used else i.first for i in self._indents)
        rest = "".join(i.rest for i in self._indents)
        for indent in self._indents:
            indent.used = True
        gap = self._gap or not tight
        self._gap = False
        return msgspec.structs.replace(
            Piece(content=content, first=first, rest=rest, gap=gap), **fields
        )

    def _inline(self, token: Token, opening: Token) -> Piece:
        content = inline(token.children or [])
        if opening.type == "heading_open":
            style = "bold $primary" if opening.tag in ("h1", "h2") else "bold"
            self._gap = True
            return self._piece(content.stylize_before(style))
        if self._lists and self._indents and not self._indents[-1].used:
            content = _with_box(content)
        return self._piece(content, tight=opening.hidden)

    def _code(self, token: Token) -> Piece:
        code = token.content.removesuffix("\n")
        language = for_terminal(token.info).split()[0] if token.info.split() else ""
        drawn = highlighted(code, language, whole=not self._streaming)
        return self._piece(drawn, code=code, language=language)


_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


def _with_box(content: Content) -> Content:
    """An item that begins with `[x]` or `[ ]` has a box instead."""
    box = _BOXES.get(content.plain[:4])
    return Content(box) + content[4:] if box else content


def _rows(tokens: Sequence[Token]) -> tuple[tuple[Content, ...], ...]:
    rows: list[list[Content]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(inline(token.children or []))
    return tuple(map(tuple, rows))


def _alignment(tokens: Sequence[Token]) -> tuple[str, ...]:
    """How each column is set: `left`, `center` or `right`."""
    heads = [token for token in tokens if token.type == "th_open"]
    styles = (str(token.attrGet("style") or "") for token in heads)
    return tuple(style.removeprefix("text-align:") or "left" for style in styles)


_OPENERS = {"strong_open": "bold", "em_open": "italic", "s_open": "strike"}


def inline(tokens: Sequence[Token]) -> Content:
    """Text with its emphasis, code and links."""
    text: list[str] = []
    spans: list[Span] = []
    opened: list[tuple[int, str | Style, str]] = []
    length = 0

    def add(piece: str, style: str = "") -> None:
        nonlocal length
        text.append(piece)
        if style:
            spans.append(Span(length, length + len(piece), style))
        length += len(piece)

    for token in tokens:
        match token.type:
            case "text":
                add(token.content)
            case "softbreak" | "hardbreak":
                add("\n")
            case "code_inline":
                add(token.content, "$code-name on $panel")
            case "strong_open" | "em_open" | "s_open":
                opened.append((length, _OPENERS[token.type], ""))
            case "link_open":
                href = for_terminal(str(token.attrGet("href") or ""))
                opened.append((length, Style.from_meta({"href": href}), href))
            case "image":
                where = for_terminal(str(token.attrGet("src") or ""))
                add(f"[image {token.content}: {where}]", "$muted")
            case "strong_close" | "em_close" | "s_close" | "link_close":
                start, style, href = opened.pop()
                spans.append(Span(start, length, style))
                if token.type == "link_close":
                    spans.append(Span(start, length, "underline $primary"))
                    if "".join(text)[start:] != href:
                        add(f" ({href})", "$muted")
            case _:
                add(token.content)
    return Content("".join(text), spans=spans)
