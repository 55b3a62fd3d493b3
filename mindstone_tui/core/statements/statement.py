"""What a person settled, as values: who said it, where it stands, what it is about."""

from typing import Final, Literal

import msgspec

from mindstone_tui.core.language.content import Content
from mindstone_tui.core.values import Value

Speaker = Literal["user", "assistant", "tool"]
StatementKind = Literal[
    "rule", "correction", "memory", "preference", "decision", "question", "commitment"
]

KINDS: Final[tuple[StatementKind, ...]] = (
    *("rule", "correction", "memory", "preference", "decision", "question", "commitment"),
)
"""In the order in which they are kept when room is short."""
NEVER_DROPPED: Final = frozenset({"rule", "correction", "memory"})
"""What a person would have to say a second time."""


class Pointer(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A sentence's place in history: the line of its message, and where in it it begins."""

    line: int
    start: int = 0


class Utterance(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A message as it was said."""

    speaker: Speaker
    text: str
    line: int
    turn: int = 0
    imported: bool = False
    """Said to another program: it settles nothing here."""


class Statement(Content, omit_defaults=True):
    """One sentence that settles something, or says that something is still open."""

    kind: StatementKind
    words: str
    """The sentence word for word."""
    at: Pointer
    turn: int = 0
    speaker: Speaker = "user"
    reason: str = ""
    """Why, as it was said."""
    forbids: bool = False
    permits: bool = False
    """It takes a prohibition back."""
    lasting: bool = False
    """Meant beyond the work at hand: always, never, from now on, every."""
    sure: bool = True
    """Said in a form that leaves no doubt, or confirmed by the person; the rest is only offered."""
    form: str = ""
    """The example of the cue that it fits."""
    old: str = ""
    """What a correction corrects, word for word, where that was found."""
    corrects: Pointer | None = None
    """Where that stands."""
    supersedes: tuple[Pointer, ...] = ()
    """Statements that no longer hold since this was said."""

    @property
    def line(self) -> int:
        """The line of history that it stands in."""
        return self.at.line

    @property
    def is_of_task(self) -> bool:
        """Whether a task was begun with it."""
        return self.at.start < 0
