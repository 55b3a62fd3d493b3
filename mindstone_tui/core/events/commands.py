"""Slash commands: what they print, how they end, what only a surface can do for them."""

from __future__ import annotations

from mindstone_tui.core.events.base import Event


class CommandPrinted(Event):
    """A slash command's output; it is part of no prompt."""

    command: str
    text: str
    ok: bool = True
    data: dict[str, object] | None = None
    """The same for programs, where the command has more than text to say."""


class CommandEnded(Event):
    """A slash command is done; exactly one for each that was given."""

    command: str
    ok: bool
    exit_code: int = 0
    """What a verb of the command line returns for it."""


class ScreenAsked(Event):
    """A slash command wants something only a surface can do: open a screen, copy, quit."""

    screen: str
    argument: str = ""
    otherwise: str = ""
    """What a surface prints that cannot do it."""


CommandEvent = CommandPrinted | CommandEnded | ScreenAsked
