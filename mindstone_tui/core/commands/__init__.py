"""Slash commands, a file per family: the same in the app and on the command line."""

from mindstone_tui.core.commands import continuity, records, remembering, sessions, surface, window
from mindstone_tui.core.commands.registry import COMMANDS, Command, parse

__all__ = [
    "COMMANDS",
    "Command",
    "continuity",
    "parse",
    "records",
    "remembering",
    "sessions",
    "surface",
    "window",
]
