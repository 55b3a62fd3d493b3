"""Whose words a line holds: said here, or imported, and then from which program and file.

Imported words were said to another program, or stand in a file that somebody handed over. They are
kept, found and quoted; they are nobody's instruction here, whatever they say. Whoever shows them,
recalls them or makes something of them asks this module first.
"""

from bisect import bisect_left
from pathlib import PurePath
from typing import Final

import msgspec

from mindstone_tui.core.entries.line import IMPORTED, Line
from mindstone_tui.core.entries.store import Imported, SessionDescribed
from mindstone_tui.core.text import one_line

MARK: Final = "imported"
"""Stands beside words that were not said here, on every surface."""

TAKEN_BACK: Final = "taken back there"
"""Stands beside those that the program they come from went back before."""
_LONGEST_NAME: Final = 80
_QUOTES: Final = f"{MARK}: “"


class ImportSource(msgspec.Struct, frozen=True):
    """Where imported words come from; either may be unknown."""

    program: str = ""
    """As `import --from` names it."""
    path: str = ""
    taken_back: bool = False
    """Whether the program went back before them since; here they stand as they were imported."""
    judged: str = ""
    """What the file says of words that do not simply hold: `superseded there`."""

    @property
    def words(self) -> str:
        """The same for a reader: `imported from claude-code, 4f2c.jsonl, taken back there`."""
        return ", ".join((self.origin, *self.marks))

    @property
    def origin(self) -> str:
        """Where they come from alone: `imported from claude-code, 4f2c.jsonl`."""
        whose = f"{MARK} from {self.program}" if self.program else MARK
        name = one_line(PurePath(self.path).name, _LONGEST_NAME)
        return ", ".join(filter(None, (whose, name)))

    @property
    def marks(self) -> tuple[str, ...]:
        """What was said of the words where they come from."""
        return (TAKEN_BACK,) * self.taken_back + (self.judged,) * bool(self.judged)


UNKNOWN: Final = ImportSource()


def is_imported(line: Line) -> bool:
    """Whether a line came from another program; one that a fork copied did, too."""
    return line.channel == IMPORTED


def quoted(line: Line, text: str) -> str:
    """What a line says, for use out of its place: imported words are marked as a quotation."""
    return f"{_QUOTES}{text}”" if is_imported(line) and not is_quotation(text) else text


def is_quotation(text: str) -> bool:
    """Whether a text is marked so."""
    return text.startswith(_QUOTES)


class Provenance(msgspec.Struct, omit_defaults=True):
    """What a session was imported from, folded from its lines in their order.

    A file's messages stand before the entry that says the file was taken over, and a file that is
    still followed has no such entry yet: there, what describes the conversation names it.
    """

    taken: list[tuple[int, ImportSource]] = []
    """The line at which each file was taken over, ascending; one that came again has its newest."""
    described: ImportSource = UNKNOWN
    back: dict[str, tuple[int, ...]] = {}
    """Lines that the newest import of a file says were taken back."""
    judged: dict[str, dict[int, str]] = {}
    """The same for those of which it says something else."""

    def take(self, line: Line) -> None:
        """Take in the next line."""
        match line.entry:
            case Imported(format=program, path=path, taken_back=back, judged=judged):
                source = ImportSource(program, path)
                if not line.parent:  # a fork has other numbers
                    self.back[path] = back
                    self.judged[path] = judged
                if self.taken and self.taken[-1][1] == source:
                    self.taken.pop()
                self.taken.append((line.seq, source))
            case SessionDescribed(program=program, path=path):
                self.described = ImportSource(program, path)

    def of(self, seq: int) -> ImportSource:
        """Where the imported words of a line come from."""
        at = bisect_left(self.taken, seq, key=lambda each: each[0])
        source = self.taken[at][1] if at < len(self.taken) else self.described
        # The same conversation may come again under another name.
        back = any(seq in each for each in self.back.values())
        judged = next((each[seq] for each in reversed(self.judged.values()) if seq in each), "")
        if not (back or judged):
            return source
        return msgspec.structs.replace(source, taken_back=back, judged=judged)
