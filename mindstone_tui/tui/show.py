"""Foreign text as Textual content, made harmless first."""

from textual.content import Content

from mindstone_tui.core.text import as_exact, for_terminal, one_line


def text(foreign: str, style: str = "") -> Content:
    """The whole text, made harmless."""
    return Content.styled(for_terminal(foreign), style)


def line(foreign: str, limit: int = 120, style: str = "") -> Content:
    """Its beginning on a single line."""
    return Content.styled(one_line(foreign, limit), style)


def judged(foreign: str, style: str = "") -> Content:
    """The text with everything unusual named, for someone who has to approve it."""
    return Content.styled(as_exact(foreign), style)
