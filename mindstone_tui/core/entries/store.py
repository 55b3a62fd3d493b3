"""What happened to the file itself."""

from typing import Final, Literal

from mindstone_tui.core.entries.base import ByHand, Entry, Part, TextEntry, Usage

NOBODY_KNOWS: Final = "changed by a call that was cut short or since, nobody knows"


class FileChange(Part):
    """One path before and after.

    A state is empty where nothing was, else `file 644 HASH`, `link HASH` (of its target),
    `folder 755`, or `unkept …` where the content was too large to be kept.
    """

    path: str
    before: str = ""
    after: str = ""


class ChangesOfCall(Part, kw_only=True):
    """What one call did to files."""

    call: str
    name: str
    total: int
    changes: tuple[FileChange, ...]
    """The first of them."""
    unkept: int = 0
    """Changes that cannot be undone: a content was too large, or the store was full."""
    recovered: bool = False
    """Found after the program had stopped during the call: changed by it or since, nobody knows."""


class FilesChanged(TextEntry, ChangesOfCall):
    """Files were changed by one call; their contents before and after are kept beside this file."""

    root: str
    """The folder that the paths are relative to."""
    manifest: str
    """SHA-256 of the whole list, which is kept with the contents."""


class ChangesTakenBack(ByHand, kw_only=True):
    """What turns had done to files, and is undone or done again."""

    direction: Literal["undo", "redo"]
    turns: tuple[int, ...]
    total: int
    changes: tuple[FileChange, ...]
    left: tuple[str, ...] = ()
    """Paths that stayed as they were, with the reason."""

    @property
    def left_paths(self) -> tuple[str, ...]:
        """The same without it."""
        return tuple(one.partition(": ")[0] for one in self.left)


class FilesRestored(TextEntry, ChangesTakenBack, kw_only=True):
    """A person took back what turns had done to files, or did it again."""

    left_of: dict[int, tuple[str, ...]] = {}
    """Of several turns, what each had changed of the paths that stayed; not there is a turn of
    which all did. In older lines, everything is of each."""

    root: str
    manifest: str
    token: str
    """Names this one act, so that a crash does not record it twice."""

    def left_in(self, turn: int) -> tuple[str, ...]:
        """The paths that stayed as a turn had left them."""
        return self.left_of.get(turn, self.left_paths) if self.left_of else self.left_paths

    def whole(self, turn: int) -> bool:
        """Whether a turn stands otherwise by it: a file was put back, or all are as they were."""
        any_back = self.direction == "undo" and self.total > 0
        return turn in (self.left_of or self.turns) and (any_back or not self.left_in(turn))

    def then(
        self, seq: int, turn: int, by: int, left: tuple[str, ...]
    ) -> tuple[int, tuple[str, ...]]:
        """Once line `seq` says this: what took back what one of its turns did, 0 for nothing, and
        the files that this left alone, or that were done again since."""
        if self.whole(turn):
            return (seq, self.left_in(turn)) if self.direction == "undo" else (0, ())
        again = () if self.left_of and turn not in self.left_of else self.changes
        return by, tuple(dict.fromkeys((*left, *(one.path for one in again))))


class FilesLetGo(Entry):
    """The states of files around the oldest turns are not kept any longer."""

    through: int
    """The last turn whose changes can no longer be taken back."""
    limit: int
    """Bytes that a session may keep, which made it necessary."""


class TailRecovered(Entry):
    """A torn last line was copied aside and cut off before the next line was written."""

    offset: int
    length: int
    sha256: str
    copy: str
    """Name of the copy in the `torn` folder."""


class FileReplaced(Entry):
    """Another program had put a different file in the transcript's place."""

    inode_before: int
    inode_after: int


class Skipped(Part):
    """A record of an imported file that could not be taken over."""

    line: int
    why: str


class Imported(Entry):
    """A file of another program was taken over into this session."""

    path: str
    format: str
    sha256: str
    added: int
    already_there: int
    skipped: tuple[Skipped, ...] = ()
    redacted: int = 0
    """Secrets that were blacked out on the way."""
    taken_back: tuple[int, ...] = ()
    """Lines of earlier imports that the program went back before since: no part of its session."""
    judged: dict[int, str] = {}
    """Imported lines that do not simply hold, each with what the file says of it."""


class UsedOn(Part):
    """What one model was used for on one day."""

    day: str
    """As 2026-03-31; empty where the file does not say when."""
    model: str
    usage: Usage


class SessionDescribed(Entry):
    """What the file of another program says of the conversation as a whole."""

    program: str
    title: str = ""
    folder: str = ""
    """The project's folder on the machine where it was recorded."""
    branch: str = ""
    started_by: str = ""
    """The session that started this one as its sub-agent."""
    conversation: str = ""
    """Its id in that program, which its own resume command takes."""
    began: str = ""
    ended: str = ""
    models: tuple[str, ...] = ()
    used: tuple[UsedOn, ...] = ()
    path: str = ""
    """The file that says so."""
    believed: bool = False
    """The folder is this machine's project of that name: the file lay where the program keeps its
    own sessions here, or a person said so. Anybody can write a folder into a file."""


class TrustAsked(Entry):
    """A folder has something to tell the model, and nobody has trusted it as it is."""

    folder: str
    digest: str
    """Of the exact content that would be trusted."""
    files: dict[str, str]
    """Each with its size in bytes."""


class ProjectTrusted(TextEntry, ByHand, kw_only=True):
    """A person allowed this folder's instruction files to be read, or refused that."""

    folder: str
    files: dict[str, str]
    refused: bool = False
    why: str = ""


OWN_SHELL: Final = "/shell "
"""How the line of a command begins that a person ran in the shell."""


class CommandRun(TextEntry):
    """A slash command was used; its output is not part of any prompt."""

    command: str
    output: str = ""
    ok: bool = True
