"""Slash commands, a file per family: the same in the app and on the command line."""

from mindstone_tui.core.commands import app, context, continuity, recall, sessions, undo
from mindstone_tui.core.commands.registry import COMMANDS, Command, parse

__all__ = [
    "COMMANDS",
    "Command",
    "app",
    "context",
    "continuity",
    "parse",
    "recall",
    "sessions",
    "undo",
]
