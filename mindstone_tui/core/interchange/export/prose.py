"""Markdown of models as safe HTML: no raw markup, no pictures fetched, no styles inline."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from mindstone_tui.core.foreign import for_terminal

_LONGEST: Final = 200_000
"""Longer texts are shown as they are: nobody reads them as prose."""


def escaped(text: str) -> str:
    """Foreign text for a page: harmless, and visible where it tries to hide."""
    return html.escape(for_terminal(text), quote=True)


def prose(text: str) -> str:
    """Markdown as HTML."""
    if len(text) > _LONGEST:
        return f"<pre>{escaped(text)}</pre>"
    return str(_parser().render(for_terminal(text)))


class _Renderer(RendererHTML):
    """Renders what a page without network and without inline styles can show."""

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """The picture's name in place of the picture."""
        token = tokens[idx]
        alt = html.escape(token.content, quote=True)
        source = html.escape(str(token.attrs.get("src", "")), quote=True)
        return f'<span class="picture">[{alt or "picture"}: {source}]</span>'

    def th_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A cell whose alignment is a class: the page allows no inline style."""
        return self._cell(tokens[idx])

    def td_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A cell whose alignment is a class: the page allows no inline style."""
        return self._cell(tokens[idx])

    @staticmethod
    def _cell(token: Token) -> str:
        found = re.search(r"left|right|center", str(token.attrs.get("style", "")))
        return f'<{token.tag} class="{found.group()}">' if found else f"<{token.tag}>"


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt(
        "commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer
    ).enable(["table", "strikethrough"])

    def link_open(tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        href = html.escape(str(tokens[idx].attrs.get("href", "")), quote=True)
        return f'<a href="{href}" rel="noreferrer noopener" target="_blank">'

    parser.add_render_rule("link_open", lambda _self, *given: link_open(*given))
    return parser
