"""The command with which the program that a session comes from goes on with it itself."""

import re
import shlex
from collections.abc import Callable
from typing import Final

import msgspec

from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.interchange.formats import formats
from mindstone_tui.core.library.profile import OWN, ListedSession
from mindstone_tui.core.paths import is_folder
from mindstone_tui.core.values import alike, shipped

_ID: Final = "{id}"
_NAMES: Final = r"[0-9A-Za-z][0-9A-Za-z._:-]{0,199}"
RESUME_COMMANDS: Final = shipped(__file__, "resume_command.json", dict[str, tuple[str, ...]])
"""Words of each program's own command; what is left out has none that takes a session."""


class ResumeCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How to go on with a session in the program that it comes from."""

    session: str
    program: str
    conversation: str
    """Its id there."""
    command: tuple[str, ...]
    folder: str
    """Where the program expects to be started; empty if nobody wrote that down."""
    folder_exists: bool
    installed: bool
    """Whether the program is on the PATH."""

    @property
    def line(self) -> str:
        """What to type into a shell."""
        typed = shlex.join(self.command)
        return f"cd {shlex.quote(self.folder)} && {typed}" if self.folder else typed


def resume_command(session: ListedSession, which: Callable[[str], str | None]) -> ResumeCommand:
    """The command for one session; raises a `UsageError` where its program has none."""
    words = RESUME_COMMANDS.get(session.program)
    name = session.session if session.program == OWN else session.conversation
    # A name of another shape would be an option of that program, and the file could choose it.
    if words is None or (_ID in words and not re.fullmatch(_NAMES, name)):
        title = (
            formats()[session.program].title if session.program in formats() else session.program
        )
        raise UsageError(
            f"{title} has no command that resumes this session.",
            f"Go on with it here: mindstone chat --session {session.session}",
        )
    command = tuple(name if word == _ID else word for word in words)
    return alike(
        ResumeCommand,
        session,
        command=command,
        folder_exists=is_folder(session.folder),
        installed=which(command[0]) is not None,
    )


def find_session(name: str, sessions: list[ListedSession]) -> ListedSession:
    """The one session that a name means: its key, the end of it, or its id in the other program."""
    whole = [each for each in sessions if name in (each.session, each.main, each.conversation)]
    part = [it for it in sessions if name and (name in it.main or it.conversation.startswith(name))]
    found = whole or part
    if not found:
        raise UsageError(
            f"There is no session {name}.", "mindstone sessions --sub-agents lists all."
        )
    if len(found) > 1:
        names = ", ".join(each.session for each in found[:5])
        raise UsageError(f"{name} may be any of {len(found):,} sessions.", f"Name one: {names}")
    return found[0]
