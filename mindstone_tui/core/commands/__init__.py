"""Slash commands, a file per family: the same in the app and on the command line."""

from mindstone_tui.core.commands import app, context, continuity, plans, recall, sessions, undo
from mindstone_tui.core.commands.registry import COMMANDS, Command, parse, unknown

__all__ = [
    "COMMANDS",
    "Command",
    "app",
    "context",
    "continuity",
    "parse",
    "plans",
    "recall",
    "sessions",
    "undo",
    "unknown",
]
