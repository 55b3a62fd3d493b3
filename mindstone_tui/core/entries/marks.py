"""How something that was said or done stands, as one value, and the words for it.

Whoever tells of the past tells this with it: an entry has it from `standings`, which folds it from
the lines; a passage, an act or a hit has the same from what the library stored of that fold.
"""

from collections.abc import Collection, Iterable
from typing import Final, Literal

import msgspec

from mindstone_tui.core.text import one_line

What = Literal[
    "rewound", "superseded", "corrected", "undone", "done", "interrupted", "unsent", "queued",
    "copied", "elsewhere", "imported", "derived", "redacted", "altered",
]  # fmt: skip
Corrected = dict[int, tuple[str, ...]]
"""The sentences of a text that hold no longer, by the line that replaces them."""
OF_ITSELF: Final = ("copied", "derived", "redacted")
"""What is to be known of a line, and not whether it may be believed."""
OF_ITS_TURN: Final = ("rewound", "undone", "imported", *OF_ITSELF)
"""What is not said of a message where it stands above its turn."""
HERE: Final = "this session"
"""Where what replaces a passage stands, if that was said before a fork."""


class Standing(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing to know about an entry before it is used; an entry in force may have some, too."""

    what: What
    by: int | None = None
    """The line that made it so."""
    source: str = ""
    """Where it comes from: the session of a copy, the program and the file of an import; where the
    line that made it so stands, if that is another session."""
    part: tuple[str, ...] = ()
    """The sentences that were corrected, where the rest holds; the files that were left alone; the
    forks in which a turn stands; what was said of imported words where they come from."""

    @property
    def words(self) -> str:
        """The same for a reader: `rewound by #57`, `copied from agent:main:work`."""
        return self.said("#")

    def said(self, sign: str, *, short: bool = False) -> str:
        """The same with another sign before the number of a line; `short` names no file."""
        by = "" if self.by is None else f" by {sign}{self.by}"
        parts = one_line(", ".join(self.part), 200)
        match self.what:
            case "imported":
                return (not short and self.source) or ", ".join(("imported", *self.part))
            case "copied":
                return f"copied from {self.source}" if self.source else "copied"
            case "altered":
                return "not as it was written"
            case "elsewhere":
                return "said elsewhere, as a client told it"
            case "undone":
                return f"changes to files taken back{by}" + (f", all but {parts}" if parts else "")
            case "rewound":
                return f"rewound{by}" + (f", standing in {parts}" if parts else "")
        by += f" of {self.source}" if self.source else ""
        if self.what == "corrected":
            return f"corrected in part{by}: “{one_line(' '.join(self.part), 200)}”"
        return f"{self.what}{by}"


def told(
    stands: Iterable[Standing],
    *,
    sign: str = "#",
    but: Collection[What] = OF_ITSELF,
    short: bool = False,
) -> list[str]:
    """What is said beside something wherever it is told of, but for what is said there anyway.

    `short` is for where there is little room: it leaves out which file words were imported from.
    """
    return [one.said(sign, short=short) for one in stands if one.what not in but]


def replaced(by: int | None, corrected: Corrected, where: str = "") -> tuple[Standing, ...]:
    """How something stands that another line replaces, or some sentences of it."""
    if by is not None:
        return (Standing("superseded", by, where),)
    return tuple(Standing("corrected", one, where, part) for one, part in corrected.items())


def by_a_line(what: What, by: int | None, part: Collection[str] = ()) -> tuple[Standing, ...]:
    """How something stands that a line may have changed; nothing where none did."""
    return (Standing(what, by, part=tuple(part)),) if by else ()


def imported(source: str, since: Collection[str] = ()) -> tuple[Standing, ...]:
    """How something stands that may come from elsewhere, with what was said of it there."""
    return (Standing("imported", source=source, part=tuple(since)),) if source else ()
