"""A question about a tool as every surface explains it, and the answer to a choice of it.

The app, the line chat, the page and editors choose only layout and colour.
"""

from typing import Final

import msgspec

from mindstone_tui.core import events, values
from mindstone_tui.core.events.narrate_entry import surface_of, without_name
from mindstone_tui.core.text import as_exact, one_line, plural

GRACE: Final = 1.0
"""Seconds for which a question must have been in view before anything answers it."""
A_LETTER: Final = 0.1
"""Seconds that somebody quick needs for a letter, where only the end of a line is known."""
_QUESTIONS: Final = {
    "run": "Run this {tool} command?",
    "write": "Allow {tool} to change this file?",
    "read": "Allow {tool} to read this?",
    "memory": "Remember this?",
    "message": "This message is larger than the window. How should it be sent?",
    "plan": "Let this plan begin?",
    "offer": "Keep this?",
    "trust": "Let this folder tell the model what to do?",
}
"""What is asked, by the tool's risk."""
_USUAL: Final = ("reads", "writes", "unknown")
_FEW: Final = 20
"""Lines that anybody sees to be few."""

_ONCE: Final = events.AskedScope(scope="once", label="Allow once")


class Explanation(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """All that a person decides by."""

    question: str
    worst: str
    """The worst that it does, where that is more than looking or writing."""
    where: str
    """The surface that asks, where it is another one."""
    why: str
    """Why it is asked at all, and what to mind."""
    exact: str
    """What will happen, once: a command in full, or the path that is changed; every unusual
    character is named, as in `diff`."""
    diff: str
    parts: tuple[events.AskedPart, ...]
    """What each part of a command does."""
    scopes: tuple[events.AskedScope, ...]
    """How far each yes would reach, and where it would be kept, in plain words."""
    no: str = "Decline"

    @property
    def heading(self) -> str:
        """The question in one row, with the worst of it and who asks."""
        return " · ".join(filter(None, (self.question, self.worst, self.where, self.size)))

    @property
    def size(self) -> str:
        """How many lines there are to read, where they are many."""
        lines = f"{self.exact}\n{self.diff}".strip().count("\n") + 1
        return plural(lines, "line") if lines > _FEW else ""

    @property
    def rows(self) -> list[str]:
        """Each part with what it does, the verdicts in one column."""
        width = max((len(part.verdict) for part in self.parts), default=0)
        return [
            f"{part.verdict:<{width}}  {as_exact(part.text)} ({one_line(part.reason)})"
            for part in self.parts
        ]


def explain(asked: events.ToolAsked) -> Explanation:
    """What a question is about, in words that every surface can show."""
    words = _QUESTIONS.get(asked.risk, "Allow {tool}?")
    title, _, body = asked.shown.partition("\n")
    if asked.diff:
        said = without_name(title, asked.name)
    elif asked.risk == "run":  # the title may be shortened, the body never is
        said = body or without_name(title, asked.name)
    else:
        said = asked.shown
    where = f"asked by {surface_of(asked.channel)[1]}" if asked.channel else ""
    if asked.helper:
        where = f"asked by the helper '{one_line(asked.helper, 40)}'"
    return Explanation(
        question=words.format(tool=one_line(asked.name, 40)),
        worst="" if asked.worst in _USUAL else one_line(asked.worst, 40),
        where=where,
        why=one_line(asked.why, 400),
        exact=as_exact(said),
        diff=as_exact(asked.diff),
        parts=asked.parts if asked.risk == "run" else (),
        scopes=scopes_of(asked),
        no="Do not send it" if asked.risk == "message" else "Decline",
    )


def scopes_of(asked: events.ToolAsked) -> tuple[events.AskedScope, ...]:
    """Every yes that is offered, once first."""
    return asked.scopes or (_ONCE,)


def answer_to(
    asked: events.ToolAsked, choice: str, *, why: str = "", how: str = "", seen: float = 0.0
) -> events.Answer:
    """A person's word: `allow-N` is the yes of that number, and whatever was not offered a no."""
    no = events.Answer(allowed=False, why=why, how=how, seen=round(seen, 3), asked=asked.since)
    for number, scope in enumerate(scopes_of(asked)):
        if choice == f"allow-{number}":
            wide = scope.label.removeprefix("Allow ") if scope.keep else ""
            return msgspec.structs.replace(
                no, allowed=True, remember=scope.remember, keep=scope.keep, granted=wide, why=""
            )
    return no
