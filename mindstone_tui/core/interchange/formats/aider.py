"""aider: `.aider.chat.history.md` in the project's folder.

One Markdown file for all chats of a project. A line `# aider chat started at …` begins a chat and
has its only date; lines of the person begin with `#### `, lines of the program with `> `, and both
end in two spaces, which tells them from headings and quotes in an answer. What the program says is
counted as left out, except the model, the tokens and the costs that it names.
"""

import hashlib
from pathlib import Path
from typing import Final

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.patterns import pattern_of

from ..read_bytes import moment, open_file, text_lines
from .base import About, Aside, Began, Format, Records, Said, Sample, Used
from .parts import TextRun

_STARTED: Final = pattern_of(r"# aider chat started at (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\s*$")
_SAMPLE: Final = pattern_of(rb"(?:^|\n)# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*\n")
_MODEL: Final = pattern_of(r"(?:Main model|Model|Models): (\S+) with ")
_TOKENS: Final = pattern_of(r"([\d.,]+)([kM]?) (sent|received|cache hit|cache write)\b")
_COST: Final = pattern_of(r"Cost: \$([\d.,]+) (?:message|request)")
_END: Final = "  "
_FACTORS: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_LONGEST_NUMBER: Final = 12


def _recognises(sample: Sample) -> bool:
    return _SAMPLE.search(sample.start) is not None


def _read(path: Path) -> Records:
    chat = _Chat(str(path.absolute().parent), _marked_chats(path))
    with open_file(path) as stream:
        for number, line in text_lines(stream):
            yield from chat.take(number, line)
    yield from chat.close()


def _marked_chats(path: Path) -> bytearray:
    """Whether the lines of each chat still end as the program wrote them.

    A formatter takes the spaces off; then every heading and quote of that rank counts as a mark.
    """
    marked = bytearray()
    balance = 0
    with open_file(path) as stream:
        for _, line in text_lines(stream):
            if _STARTED.match(line):
                marked.append(balance >= 0)
                balance = 0
            elif line.startswith("> "):
                balance += 1 if line.endswith(_END) else -1
    marked.append(balance >= 0)
    return marked


class _Chat:
    """Takes lines; hands over what they say as soon as it is whole."""

    def __init__(self, folder: str, marked: bytearray) -> None:
        self._folder = folder
        self._marked = marked
        self._number = 0
        self._ts = ""
        self._model = ""
        self._begun = ""
        """The date of a chat of which nothing was handed over, so that it has no name yet."""
        self._asked = TextRun()
        self._answer = TextRun()
        self._line = 0

    @property
    def _end(self) -> str:
        return _END if self._marked[self._number] else ""

    def take(self, number: int, line: str) -> Records:
        """One more line."""
        if started := _STARTED.match(line):
            yield from self.close()
            self._ts = moment(f"{started[1]}T{started[2]}")
            self._begun = f"{started[1]}-{started[2].replace(':', '-')}"
            self._model = ""
            self._number += 1
        elif line.startswith("####") and line.endswith(self._end) and line[4:5] in (" ", ""):
            yield from self._close_answer()
            self._line = self._line if self._asked else number
            self._asked.add(line[5:].removesuffix(self._end))
        elif line.startswith(">") and line.endswith(self._end) and line[1:2] in (" ", ""):
            yield from self._close_question()
            yield from self._close_answer()
            yield from self._note(line[2:].strip())
        elif line.strip() or self._answer:
            yield from self._close_question()
            self._line = self._line if self._answer else number
            self._answer.add(line)
        elif self._end or self._asked.starts_with("/"):
            yield from self._close_question()

    def close(self) -> Records:
        """What is not handed over yet."""
        yield from self._close_question()
        yield from self._close_answer()

    def _begin(self, first: str) -> Records:
        """The chat's beginning; its name is made of its date and the first that stands in it."""
        if self._begun:
            digest = hashlib.sha256(first.encode("utf-8", "surrogatepass")).hexdigest()
            yield Began(id=f"{self._begun}-{digest[:8]}", ts=self._ts)
            yield About(folder=self._folder)
            self._begun = ""

    def _close_question(self) -> Records:
        if not (asked := self._asked.take()):
            return
        yield from self._begin(asked)
        if asked.startswith("/") or asked == "<blank>":
            # A command that carries a question is followed by the question alone.
            yield Aside(what="command of the program")
        else:
            yield Said(line=self._line, role="user", text=asked, ts=self._ts)

    def _close_answer(self) -> Records:
        if said := self._answer.take():
            yield from self._begin(said)
            yield Said(line=self._line, role="assistant", text=said, ts=self._ts, model=self._model)

    def _note(self, said: str) -> Records:
        yield from self._begin(said)
        if found := _MODEL.match(said):
            self._model = found[1]
        if said.startswith("Tokens: ") and (usage := _usage(said)) != Usage():
            yield Used(usage=usage, model=self._model)
        else:
            yield Aside(what="note of the program")


def _usage(said: str) -> Usage:
    """Tokens as the program rounds them, and what they cost."""
    counts = {what: _number(number, unit) for number, unit, what in _TOKENS.findall(said)}
    cost = _COST.search(said)
    return Usage(
        prompt=counts.get("sent"),
        completion=counts.get("received"),
        cached=counts.get("cache hit"),
        cache_written=counts.get("cache write"),
        cost=_decimal(cost[1]) if cost else None,
    )


def _number(digits: str, unit: str) -> int | None:
    value = _decimal(digits)
    return None if value is None else round(value * _FACTORS[unit])


def _decimal(digits: str) -> float | None:
    try:
        return float(digits.replace(",", "")) if len(digits) <= _LONGEST_NUMBER else None
    except ValueError:
        return None


AIDER = Format(name="aider", title="aider", recognises=_recognises, read=_read, many=True)
