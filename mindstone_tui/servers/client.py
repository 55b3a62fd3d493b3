"""Which program asks, in which of its conversations and where it works, by what it sends.

Programs that name themselves get a session for each of their conversations. A library or a tool
that sends bytes for anybody is nobody: what it asks goes where requests without a name go.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from mindstone_tui.core import errors, patterns, values
from mindstone_tui.core.paths import is_folder
from mindstone_tui.core.text import EXAMPLES_END, is_programs, without_reminders
from mindstone_tui.servers.wire import ClientRequest, decode, texts

_PROGRAMS: Final = values.shipped(__file__, "user_agents.json", dict[str, str])
"""How a user agent begins, and whom it stands for."""
_CONVERSATION: Final = (
    *("x-claude-code-session-id", "thread-id", "session-id", "conversation_id", "session_id"),
    *("x-opencode-session", "x-conversation-id", "x-session-id", "x-session-affinity"),
)
"""Headers in which programs name a conversation, the most telling first."""
_FOLDER: Final = patterns.pattern_of(
    r"<cwd>([^<\n]+)</cwd>"
    r"|(?:working directory|working in the directory|current directory)[ \t]*:[ \t]*`?([^\n`]+)"
    r"|Workspace Directories:\*\*\n[ \t]*- ([^\n]+)",
    re.IGNORECASE,
)
_AIDER: Final = patterns.pattern_of(
    r"Act as an expert (?:software developer|code analyst|architect engineer)\b"
    r".*(?:supplied code|SEARCH/REPLACE|editor engineer)",
    re.DOTALL,
)
"""How aider begins its instructions; the library that it sends them with names itself only."""
_LOOKED_AT: Final = 200_000
"""Characters in which a program's folder is looked for."""


class Client(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """Who asks."""

    program: str = ""
    conversation: str = ""
    """What it calls the conversation; empty if it does not say."""
    folder: str = ""
    """Where it works; empty if it does not say, or nothing is there."""

    def session(self, root: str) -> str:
        """A name for the session of this conversation, which begins with `root`; else empty."""
        if not self.program and not self.conversation:
            return ""
        told = f"{self.folder}\0{self.conversation or root}"
        own = hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:12]
        return f"{self.program or 'client'}-{own}"


NOBODY: Final = Client()


def client_of(headers: Mapping[str, str], asked: ClientRequest, folder: str = "") -> Client:
    """Who sent a request; the `folder` that a header names wins over what is found in it."""
    agent = headers.get("user-agent", "").lower()
    program = next((name for begin, name in _PROGRAMS.items() if agent.startswith(begin)), "")
    if not program and _AIDER.match(asked.instructions):
        program = "aider"
    named = (headers.get(header, "") for header in _CONVERSATION)
    conversation = next((value for value in named if value), "") or _in_user(asked.conversation)
    if not program and not conversation:
        return Client(folder=folder)
    conversation = conversation or _begun_in(asked)
    return Client(program=program, conversation=conversation, folder=folder or _folder_in(asked))


def _begun_in(asked: ClientRequest) -> str:
    """The first words of a person, without white space, in a conversation that has no name."""
    said = [message.text for message in asked.messages if message.role == "user"]
    examples = [at for at, text in enumerate(said) if text.startswith(EXAMPLES_END)]
    own = said[examples[-1] + 1 :] if examples else said
    first = next((text for text in own if not is_programs(text)), "")
    return "".join(without_reminders(first).split())


def _in_user(user: str) -> str:
    """The session that Anthropic's clients put into the id of their user."""
    if user.startswith("{"):
        try:
            return next(texts(decode(user.encode("utf-8", "replace")), "session_id"))
        except errors.UsageError:
            return ""
    return user.partition("_session_")[2] if user.startswith("user_") else ""


def _folder_in(asked: ClientRequest) -> str:
    first = [message.text for message in asked.messages[:2] if message.role == "user"]
    for text in (*first, asked.instructions):
        for found in _FOLDER.finditer(text[:_LOOKED_AT]):
            path = str(next(filter(None, found.groups()))).strip()
            if path.startswith("/") and is_folder(path):
                return path
    return ""
