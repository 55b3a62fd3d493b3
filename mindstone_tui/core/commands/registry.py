"""Slash commands by name: declared once, with their help, and found again by what was typed."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from mindstone_tui.core.errors import UnknownName, UsageError
from mindstone_tui.core.events import AnyEvent

if TYPE_CHECKING:
    from mindstone_tui.core.session.services import SessionServices


Handler = Callable[["SessionServices", str], AsyncIterator[AnyEvent]]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command as everybody sees it."""

    name: str
    help: str
    handler: Handler
    usage: str = ""
    details: str = ""
    changes_window: bool = False
    """Waits until no turn is running, because the running one plans with the window."""
    words: tuple[str, ...] = ()
    """Completions for its argument."""
    looks: tuple[str, ...] = ()
    """First words with which it only looks, and waits for nothing."""

    @property
    def synopsis(self) -> str:
        """`/name usage`."""
        return f"/{self.name} {self.usage}".rstrip()


COMMANDS: Final[dict[str, Command]] = {}


def command(
    name: str,
    *,
    usage: str = "",
    changes_window: bool = False,
    words: tuple[str, ...] = (),
    looks: tuple[str, ...] = (),
) -> Callable[[Handler], Handler]:
    """Register a slash command; the first line of its docstring is its help."""

    def register(handler: Handler) -> Handler:
        if name in COMMANDS or not handler.__doc__:
            raise ValueError(f"/{name} needs a docstring and a name of its own")
        summary, _, details = inspect.cleandoc(handler.__doc__).partition("\n")
        COMMANDS[name] = Command(
            name=name,
            help=summary,
            handler=handler,
            usage=usage,
            details=details.strip(),
            changes_window=changes_window,
            words=words,
            looks=looks,
        )
        return handler

    return register


def parse(line: str) -> tuple[Command, str]:
    """The command of a line and its argument; an unknown one suggests the nearest."""
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    found = COMMANDS.get(name.lower())
    if found is None:
        raise unknown(name)
    return found, argument.strip()


def unknown(name: str, own: Iterable[str] = ()) -> UnknownName:
    """That there is no such command, and which one may be meant; `own` are a person's."""
    near = difflib.get_close_matches(name.lower(), (*own, *COMMANDS), n=1, cutoff=0.5)
    hint = f"Did you mean /{near[0]}?" if near else "/help lists every command."
    return UnknownName(f"There is no command /{name}.", hint)


def wrong_use(name: str, why: str) -> UsageError:
    """A clear word on how a command is used."""
    return UsageError(why, f"Usage: {COMMANDS[name].synopsis}")
