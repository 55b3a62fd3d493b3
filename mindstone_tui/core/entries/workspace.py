"""What happened to files in the workspace: changed by a tool, put back by a person."""

from __future__ import annotations

from typing import ClassVar, Literal

from mindstone_tui.core.entries.base import Entry, Part


class FileChange(Part):
    """One path before and after.

    A state is empty where nothing was, else `file 644 HASH`, `link HASH` (of its target),
    `folder 755`, or `unkept …` where the content was too large to be kept.
    """

    path: str
    before: str = ""
    after: str = ""


class FilesChanged(Entry):
    """Files were changed by one call; their contents before and after are kept beside this file."""

    carries_text: ClassVar[bool] = True

    call: str
    name: str
    root: str
    """The folder that the paths are relative to."""
    total: int
    changes: tuple[FileChange, ...]
    """The first of them."""
    manifest: str
    """SHA-256 of the whole list, which is kept with the contents."""
    unkept: int = 0
    """Changes that cannot be undone: a content was too large, or the store was full."""
    recovered: bool = False
    """Found after the program had stopped during the call."""


class FilesRestored(Entry):
    """A person took back what turns had done to files, or did it again."""

    carries_text: ClassVar[bool] = True

    direction: Literal["undo", "redo"]
    turns: tuple[int, ...]
    root: str
    total: int
    changes: tuple[FileChange, ...]
    manifest: str
    token: str
    """Names this one act, so that a crash does not record it twice."""
    left: tuple[str, ...] = ()
    """Paths that stayed as they were, with the reason."""


class FilesLetGo(Entry):
    """The states of files around the oldest turns are not kept any longer."""

    through: int
    """The last turn whose changes can no longer be taken back."""
    limit: int
    """Bytes that a session may keep, which made it necessary."""
