"""A session for readers elsewhere: a page, a text, data, messages, a recording.

Every exporter is a generator of text and a pure function of the transcript: the same input gives
the same bytes, nothing is written and nothing is fetched.
"""

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Final

from mindstone_tui.core import errors, transcript
from mindstone_tui.core.interchange.export import html, markdown
from mindstone_tui.core.interchange.export.story import Numbers, StorySource
from mindstone_tui.core.transcript.encode import Clean

Exporter = Callable[[StorySource], Iterator[str]]

EXPORTERS: Final = MappingProxyType[str, Exporter](
    {
        "html": html.html_pieces,
        "md": markdown.markdown_pieces,
        "json": markdown.json_pieces,
        "messages": markdown.message_pieces,
        "cast": markdown.cast_pieces,
    }
)
"""Every export format by name."""


def export(
    history: transcript.History,
    format: str,  # noqa: A002 (the option's own name)
    *,
    clean: Clean | None = None,
    numbers: Numbers | None = None,
    turns: range | None = None,
) -> Iterator[str]:
    """A session in another format, piece by piece; `clean` blacks out what must not leave.

    A page also holds what `numbers` makes of the session's lines. With `turns`, only those.
    """
    if format not in EXPORTERS:
        raise errors.UnknownName(
            f"There is no export format {format!r}.", f"There are: {', '.join(EXPORTERS)}."
        )
    return EXPORTERS[format](StorySource(history, clean, numbers, turns))


__all__ = ["EXPORTERS", "Exporter", "StorySource", "export"]
