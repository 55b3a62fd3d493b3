"""Every error a user may be shown, as one tree.

Each error says what happened and what to do about it, in one sentence each. A surface prints
`str(error)`, then `error.remedy`, and exits with `error.exit_code`; the traceback goes to the log.

    MindstoneError
    ├── UsageError                 the command or its arguments make no sense (exit 2)
    │   ├── ConfigError            a setting has a wrong name, type or value
    │   ├── SessionNameError       a session key that cannot be one
    │   └── UnknownName            a command, model, policy, theme … that does not exist
    ├── PlaceError                 a folder or file is not usable as it is
    │   └── NoSuchSession          a session that nobody began
    │       └── HistoryMissing     … or whose transcript is gone while other files are left
    ├── TranscriptError
    │   ├── EntryNotSaved          the disk refused; nothing after it claims to be saved
    │   │   └── LeaseLost          … or another machine has taken over the session
    │   ├── HistoryAway            the server that keeps history does not answer
    │   ├── Overtaken              somebody else wrote after the line that was thought the newest
    │   ├── SessionBusy            another process holds the lock or takes a turn
    │   ├── DamagedTranscript      lines that cannot be trusted stand in the way
    │   └── NoSuchEntry            nothing in history has that id, seq or turn
    ├── WindowError
    │   ├── DoesNotFit             what must be sent is larger than the model's window
    │   └── UnpairedRequest        a tool call without its result, or the reverse
    ├── RecallError
    │   ├── IndexUnavailable       the index cannot be opened, read or written
    │   └── VectorsUnavailable     meaning cannot be searched; words still can
    ├── ProviderError              the model's side failed
    │   ├── ProviderUnreachable    no connection, or it broke
    │   ├── ProviderRefused        key, permission, quota or content refused
    │   ├── ProviderBusy           overloaded or rate limited; trying again later may work
    │   ├── ContextTooLong         the provider says the prompt is larger than its window
    │   ├── ProviderNonsense       an answer that does not follow the protocol
    │   └── ScriptEnded            a scripted model has no reply left
    ├── ToolError                  a tool could not do what was asked
    │   ├── NotAllowed             policy, sandbox or the person said no
    │   └── SandboxUnavailable     nothing on this machine can confine a command
    ├── ContinuityError            a checkpoint, handoff or memory is stale, edited or foreign
    ├── UndoError                  files cannot be put back as asked
    ├── InterchangeError           a file to import or export is not what it should be
    ├── Bug                        a mistake of this program's own; the log file has its traceback
    └── Interrupted                the person stopped it (exit 130)
"""

import enum
from collections.abc import Sequence
from typing import Final

CLIENT_GONE: Final = "The client went away."
"""Why a turn of the gateway stops whose client may ask for it again."""


class ExitCode(enum.IntEnum):
    """What every verb of the command line returns."""

    DONE = 0
    FAILED = 1
    WRONG_USE = 2
    DECLINED = 3
    """A turn is done, and something that the model wanted to do was not allowed."""
    INTERRUPTED = 130


class MindstoneError(Exception):
    """Something a person can be told: what happened, and what to do about it."""

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    @property
    def sentence(self) -> str:
        """Both in one text, for places that have no room for two."""
        return f"{self.what} {self.remedy}".strip()


class UsageError(MindstoneError):
    """The command or its arguments make no sense."""

    exit_code = ExitCode.WRONG_USE


class ConfigError(UsageError):
    """A setting has a wrong name, type or value."""


class SessionNameError(UsageError):
    """A session key that cannot be one."""


class UnknownName(UsageError):
    """A command, model, policy, theme or the like that does not exist."""


class PlaceError(MindstoneError):
    """A folder or file is not usable as it is."""


class NoSuchSession(PlaceError):
    """A session that nobody began."""

    def __init__(self, key: object, alike: Sequence[str] = ()) -> None:
        meant = f"Did you mean {' or '.join(alike)}? " if alike else ""
        super().__init__(
            f"There is no session {key}.",
            f"{meant}`mindstone sessions` lists those that exist, -s chooses one.",
        )


class HistoryMissing(NoSuchSession):
    """A session's transcript is gone, and what was made from it is still there."""

    def __init__(self, key: object, left: Sequence[str]) -> None:
        MindstoneError.__init__(
            self,
            f"The transcript of {key} is missing, but there is still its {', its '.join(left)}.",
            "Put transcript.jsonl back from a backup. To begin again without it: "
            f"`mindstone sessions --start-over {key}`, which sets the rest aside.",
        )


class TranscriptError(MindstoneError):
    """Something is wrong with a session's history."""


class EntryNotSaved(TranscriptError):
    """The disk refused; nothing after it claims to be saved."""


class LeaseLost(EntryNotSaved):
    """Another machine has taken over; what was to be written belongs to nobody's turn."""


class HistoryAway(TranscriptError):
    """The server that keeps history does not answer, or broke off."""


class Overtaken(TranscriptError):
    """Somebody else wrote after the line that was thought to be the newest."""


class SessionBusy(TranscriptError):
    """Another process holds the lock or takes a turn."""


class DamagedTranscript(TranscriptError):
    """Lines that cannot be trusted stand in the way."""


class NoSuchEntry(TranscriptError):
    """Nothing in history has that id, seq or turn."""


class WindowError(MindstoneError):
    """The working set cannot be made into a request."""


class DoesNotFit(WindowError):
    """What must be sent is larger than the model's window."""


class UnpairedRequest(WindowError):
    """A tool call without its result, or the reverse."""


class RecallError(MindstoneError):
    """Finding what was said before is not possible as asked."""


class IndexUnavailable(RecallError):
    """The index cannot be opened, read or written."""


class VectorsUnavailable(RecallError):
    """Meaning cannot be searched; words still can."""


class VectorsInterrupted(VectorsUnavailable):
    """Somebody who goes away did not wait for a vector; its text is as good as any."""


class ProviderError(MindstoneError):
    """The model's side failed."""

    retryable: bool = False
    failure: str = "failed"
    """Which way, in one word that does not change; a kind of error may have several."""

    def __init__(
        self, what: str, remedy: str = "", *, retry_after: float | None = None, failure: str = ""
    ) -> None:
        super().__init__(what, remedy)
        self.retry_after = retry_after
        self.failure = failure or self.failure
        self.status = 0
        """What its server answered; 0 where it did not, or where nobody knows."""


class ProviderUnreachable(ProviderError):
    """No connection, or it broke."""

    retryable = True
    failure = "unreachable"


class ProviderRefused(ProviderError):
    """Key, permission, quota or content refused."""

    failure = "refused"


class ProviderBusy(ProviderError):
    """Overloaded or rate limited; trying again later may work."""

    retryable = True
    failure = "busy"


class ContextTooLong(ProviderError):
    """The provider says the prompt is larger than its window."""

    failure = "too_long"


class ProviderNonsense(ProviderError):
    """An answer that does not follow the protocol."""

    retryable = True
    failure = "nonsense"


class ScriptEnded(ProviderError):
    """A scripted model has no reply left."""


class ToolError(MindstoneError):
    """A tool could not do what was asked."""


class NotAllowed(ToolError):
    """Policy, sandbox or the person said no."""


class SandboxUnavailable(ToolError):
    """Nothing on this machine can confine a command."""


class ContinuityError(MindstoneError):
    """A checkpoint, handoff or memory is stale, edited or foreign."""


class UndoError(MindstoneError):
    """Files cannot be looked at or put back as asked."""


class InterchangeError(MindstoneError):
    """A file to import or export is not what it should be."""


class NotASession(InterchangeError):
    """A file is none that a conversation is kept in."""


class Bug(MindstoneError):
    """A mistake of this program's own; whoever meets it has put its traceback into the log."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"Something went wrong that should not: {type(error).__name__}.",
            "The log file has the details; history is whole.",
        )


class Interrupted(MindstoneError):
    """The person stopped it."""

    exit_code = ExitCode.INTERRUPTED


class HandedOn(Interrupted):
    """Its surface closed while the turn waited for an answer: history has the turn as waiting."""
