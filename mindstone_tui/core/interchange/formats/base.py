"""A session of another program, as the readers of foreign formats hand it over.

A reader turns a file into a stream of these values, in the file's own order, and decides nothing
else: exchanges, pairs, turns and duplicates are the importer's business.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core.entries import Part, ToolCall, Usage
from mindstone_tui.core.entries.conversation import Thinking, ToolStatus, TurnEnding
from mindstone_tui.core.entries.store import FilesRestored

from ..pictures import Picture
from ..read_bytes import Fields

NO_RESULT: Final = "The imported session holds no result of this call."
"""What stands where a call's result should be."""


class Began(Part):
    """A conversation starts here; files of some programs hold many."""

    id: str = ""
    ts: str = ""


class Titled(Part):
    """What the conversation is called."""

    title: str


class About(Part):
    """What the file says of the conversation as a whole; what a later one leaves empty stays."""

    folder: str = ""
    """The folder it was about."""
    branch: str = ""
    """The branch that was checked out there."""
    parent: str = ""
    """Id of the conversation that started this one, as a sub-agent of it."""


class Used(Part):
    """Tokens and money of one answer, or of everything so far."""

    usage: Usage
    model: str = ""
    answer: str = ""
    """Which answer; a file that repeats the count of one answer is counted once."""
    so_far: bool = False
    """A sum that replaces what was counted before."""


class _Message(Part):
    """What somebody said or a tool gave, and where it stands in the file."""

    line: int
    text: str
    id: str = ""
    name: str = ""
    ts: str = ""
    images: tuple[Picture, ...] = ()


class Said(_Message, kw_only=True):
    """Somebody said something, and perhaps asked for tools."""

    role: Literal["user", "assistant"]
    model: str = ""
    calls: tuple[ToolCall, ...] = ()
    thinking: tuple[Thinking, ...] = ()
    finish: str = "stop"
    group: str = ""
    """Pieces of one answer that the file spreads over several records have the same."""
    cut_off: bool = False
    """An answer that did not come to its end."""
    stands_in: bool = False
    """The file has no such message; it carries the call of a result that nobody asked for."""


class Gave(_Message, kw_only=True):
    """A tool gave something back."""

    call: str
    """Id of the call it answers; empty where the format does not say."""
    status: ToolStatus = "ok"


class Stopped(Part):
    """The exchange that is under way did not come to its end."""

    ending: TurnEnding = "interrupted"


class Broken(Part):
    """A record that cannot be taken over, and why."""

    line: int
    why: str


class Aside(Part):
    """A record that is known and not part of the conversation; it is counted by its name."""

    what: str
    taken_back: str = ""
    """The id of a message that the program went back before."""


class Undid(Part):
    """What exchanges did to files was taken back, or done again."""

    act: FilesRestored
    ts: str
    messages: tuple[str, ...]
    """The id of a message of each exchange."""


class Marked(Part):
    """A message does not simply hold, says its file."""

    message: str
    """Its id."""
    words: str


Record = Began | Titled | About | Used | Said | Gave | Stopped | Broken | Aside | Undid | Marked
Records = Iterator[Record]


class Sample(msgspec.Struct, frozen=True):
    """The beginning of a file, enough to tell whose it is."""

    path: Path
    start: bytes
    objects: tuple[Fields, ...] = ()
    """The first lines that are JSON objects, or the one object that the file is."""
    elements: tuple[Fields, ...] = ()
    """The first objects of the array that the file is."""

    @property
    def first(self) -> Fields:
        """The first object; empty where there is none."""
        return next(iter(self.objects), {})


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One program's way to keep a session."""

    name: str
    title: str
    recognises: Callable[[Sample], bool]
    read: Callable[[Path], Records]
    many: bool = False
    """Whether one file holds many conversations."""
    goes_on: Callable[[Path], tuple[str, str]] | None = None
    """When a file was last compacted, and all that its program went on with; empty if never."""
