"""What must not be lost when a text gets shorter, found without a model.

What people settled comes from the one recogniser; names, paths, numbers and errors are taken as
they stand in the text. Every pattern runs in time linear in the text. The same facts audit
summaries, fill handoffs and become the probes that measure whether recall still finds what left.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from mindstone_tui.core.context.messages import argument_values
from mindstone_tui.core.entries import Line, Part, Span, conversation, spans_of, standings
from mindstone_tui.core.entries.actions import Action, actions_of, told
from mindstone_tui.core.entries.marks import OF_ITSELF
from mindstone_tui.core.entries.provenance import MARK, is_imported
from mindstone_tui.core.language.lists import pattern_beside
from mindstone_tui.core.language.sentences import sentences, shortened
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements.register import Register, advance
from mindstone_tui.core.statements.statement import Speaker, Utterance
from mindstone_tui.core.text import one_line, unfenced

_CALL_SHOWN: Final = 400
_APPROVAL_SHOWN: Final = 160
_ONCE: Final = 3
"""Permissions for a single call that are carried on, the newest ones."""
_DECLINED: Final = "declined by the user"
"""What stands where a person gave no reason."""
LONGEST_SENTENCE: Final = 400
"""An item longer than this is cut there, with a sign."""


class SourceMessage(Part):
    """One message or tool result, whole, with its place in history."""

    seq: int
    turn: int
    speaker: Speaker
    text: str
    entry: str = ""
    name: str = ""
    """The tool's name."""
    finding: str = ""
    """The deterministic line that stands for a tool result."""
    said: str | None = None
    """What was said, where the text also tells which tools were called."""
    action: Action | None = None
    """What the tool did, and how it ended."""
    imported: bool = False
    """Said to another program: a quotation, which settles nothing."""
    mark: str = ""
    """What else is to be known of it: that it was cut off, or what replaced it."""

    @property
    def place(self) -> str:
        """Where it stands, for whoever reads it out of its place: `turn 3, imported`."""
        return ", ".join(filter(None, (f"turn {self.turn}", MARK * self.imported, self.mark)))

    @property
    def words(self) -> str:
        """What somebody said here."""
        return self.text if self.said is None else self.said


Passages = Sequence[SourceMessage]
"""What was said, in order."""


def passages_of(lines: Iterable[Line], judged: standings.Standings) -> tuple[SourceMessage, ...]:
    """What was said and what tools gave back; bookkeeping and derived entries are no material.

    What replaced it is told by the standings of the whole history: a verdict may stand anywhere.
    """
    read = list(lines)
    done = {action.seq: action for action in actions_of(read)}
    every = (_passage(line, done.get(line.seq), judged) for line in read)
    return tuple(one for one in every if one is not None)


def _passage(
    line: Line, action: Action | None, judged: standings.Standings
) -> SourceMessage | None:
    marks = [*judged.source_of(line.seq).marks]
    marks += judged.told(line, sign="line ", but=("imported", *OF_ITSELF))
    spoken = partial(
        SourceMessage,
        seq=line.seq,
        turn=line.turn,
        entry=line.id,
        imported=is_imported(line),
        mark=", ".join(marks),
    )
    match line.entry:
        case conversation.UserMessage(text=text):
            return spoken(speaker="user", text=text)
        case conversation.AssistantMessage(text=text, calls=calls):
            asked = [
                f"[called {call.name} {shortened(argument_values(told(call)), _CALL_SHOWN)}]"
                for call in calls
            ]
            whole = "\n".join(filter(None, [text, *asked]))
            own = "" if line.entry.only_quotes else text
            return spoken(speaker="assistant", text=whole, said=own if own != whole else None)
        case conversation.AssistantPartial(text=text):
            return spoken(speaker="assistant", text=text)
        case conversation.ToolReturned(text=text, name=name, finding=finding):
            return spoken(
                speaker="tool", text=unfenced(text), name=name, finding=finding, action=action
            )
    return None


_ANSWERS: Final = (conversation.ToolApproved, conversation.ToolRefused, conversation.ToolReturned)


def approvals_of(lines: Iterable[Line]) -> tuple[str, ...]:
    """What a person allowed, for good or the newest times for once, refused, or left unanswered."""
    asked: dict[str, str] = {}
    waits: dict[str, str] = {}
    found: list[str] = []
    once: list[str] = []
    for line in lines:
        match line.entry:
            case conversation.ToolCalled(call=call, name=name, shown=shown, approved=approved):
                asked[call] = _as_asked(name, shown)
                if not approved:
                    waits[call] = f"{asked[call]} is not answered yet"
            case conversation.ToolApproved(rule=rule, remember=remember, by=by) if (
                rule and remember
            ):
                found.append(f"{rule} is allowed ({remember}, said by {by})")
            case conversation.ToolApproved(call=call, by="person"):
                once.append(f"{asked.get(call, call)} was allowed once (turn {line.turn})")
            case conversation.ToolRefused(call=call, by="person", why=why):
                because = "" if why in ("", _DECLINED) else f": {one_line(why, _APPROVAL_SHOWN)}"
                found.append(f"{asked.get(call, call)} was refused (turn {line.turn}){because}")
        if isinstance(line.entry, _ANSWERS):
            waits.pop(line.entry.call, None)
    return tuple(dict.fromkeys((*found, *once[-_ONCE:], *waits.values())))


def _as_asked(name: str, shown: str) -> str:
    """A call in one line; what its first line says in words is said again by the command itself."""
    lines = [one for one in shown.splitlines() if one.strip()]
    said = lines[-1] if len(lines) > 1 and lines[-1].strip() in lines[0] else shown
    return one_line(f"{name} {said}", _APPROVAL_SHOWN)


def as_text(passages: Iterable[SourceMessage]) -> str:
    """The passages as a model reads them, each under its turn and speaker."""
    return "\n\n".join(
        f"[{passage.place} · {passage.name or passage.speaker}]\n{passage.text}"
        for passage in passages
    )


def spans_over(passages: Passages) -> tuple[Span, ...]:
    """Which lines of history these are."""
    return spans_of(sorted({passage.seq for passage in passages}))


def settled_in(passages: Iterable[SourceMessage], before: Register | None = None) -> Register:
    """What people settled and left open in the passages, after what stood before them."""
    spoken = (
        Utterance(
            speaker=one.speaker, text=one.words, line=one.seq, turn=one.turn, imported=one.imported
        )
        for one in passages
        if one.speaker != "tool"
    )
    return advance(before or Register(), spoken)


_URL: Final = pattern_of(r"https?://[^\s<>()\"'`]{3,200}")
_PATH: Final = pattern_beside(__file__, "path")
_IDENTIFIER: Final = pattern_beside(__file__, "identifier")
_QUOTED_CODE: Final = pattern_of(r"`([^`\n]{2,80})`")
_NUMBER: Final = pattern_beside(__file__, "number")
_UNCHECKED: Final = pattern_of(r"^\s{0,12}(?:[-*]|\d{1,3}[.)])?\s{0,3}\[ \]\s+(\S.{0,300})", re.M)
_ERROR: Final = pattern_beside(__file__, "error", re.IGNORECASE)
BINDING: Final = ("rule", "correction", "memory", "preference")
"""Kinds that hold beyond the moment in which they were said."""
OPEN: Final = ("question", "commitment")


class Facts(Part):
    """What stands in a text, each as it stands there, in order of first appearance."""

    constraints: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class ExtractLimits(Part):
    """How many facts of a kind count, most used first; None for all of them."""

    decisions: int | None = None
    errors: int | None = None
    paths: int | None = None
    identifiers: int | None = None
    numbers: int | None = None


EVERYTHING: Final = ExtractLimits()
SURVIVORS: Final = ExtractLimits(errors=0, paths=12, identifiers=16, numbers=10)
"""What a summary is held to: all that was settled or left open, and the names used most."""


def is_error(sentence: str) -> bool:
    """Whether a sentence reports that something went wrong."""
    return bool(_ERROR.search(sentence))


def facts_of(passages: Passages, limits: ExtractLimits = EVERYTHING) -> Facts:
    """Everything that counts in the passages; names are ranked by use.

    What a tool gave back binds nobody, and its names count only where somebody used them: a file
    listing is full of names that nobody will miss.
    """
    settled = settled_in(passages)
    names = _ranked_names(passages)
    errors = (
        shortened(one.text, LONGEST_SENTENCE)
        for passage in passages
        if limits.errors != 0
        for one in sentences(passage.words)
        if one.form != "code" and is_error(one.text)
    )
    return Facts(
        constraints=tuple(one.words for one in settled.of(*BINDING)),
        open_items=_unique([*(one.words for one in settled.of(*OPEN)), *boxes_of(passages)]),
        decisions=tuple(one.words for one in settled.of("decision"))[: limits.decisions],
        errors=_unique(errors)[: limits.errors],
        paths=names["path"][: limits.paths],
        identifiers=names["identifier"][: limits.identifiers],
        numbers=names["number"][: limits.numbers],
    )


def boxes_of(passages: Iterable[SourceMessage]) -> list[str]:
    """What somebody here wrote down as still to be done."""
    talk = (one for one in passages if one.speaker != "tool" and not one.imported)
    return [box for one in talk for box in unchecked(one.words)]


def unchecked(text: str) -> list[str]:
    """Items of a list whose boxes are empty."""
    return [" ".join(found.split()) for found in _UNCHECKED.findall(text)]


def missing(facts: Facts, text: str) -> tuple[str, ...]:
    """Which facts do not stand in a text, whatever its case and its spaces."""
    haystack = folded(text)
    groups = (
        *(facts.constraints, facts.open_items, facts.paths, facts.identifiers, facts.numbers),
        *(facts.decisions, facts.errors),
    )
    return tuple(fact for group in groups for fact in group if not holds(haystack, folded(fact)))


def holds(haystack: str, needle: str) -> bool:
    """Whether a folded text contains a folded fact as a whole: 24 does not stand in 2024."""
    at = haystack.find(needle)
    while at >= 0:
        before, after = haystack[at - 1 : at], haystack[at + len(needle) : at + len(needle) + 1]
        if not (before.isalnum() and needle[:1].isalnum()) and not (
            after.isalnum() and needle[-1:].isalnum()
        ):
            return True
        at = haystack.find(needle, at + 1)
    return False


_TELLING_NUMBER: Final = 3
"""Digits of a number that only a model said before anybody would miss it."""


def _ranked_names(passages: Passages) -> dict[str, tuple[str, ...]]:
    """Names by kind: what the user said and what came up often stands first."""
    weights: dict[str, Counter[str]] = {
        "path": Counter(),
        "identifier": Counter(),
        "number": Counter(),
    }
    for passage in [one for one in passages if one.speaker != "tool"] or passages:
        weight = {"user": 4, "assistant": 2, "tool": 1}[passage.speaker]
        for kind, name in names_in(passage.text):
            counted = kind == "number" and len(name) < _TELLING_NUMBER and name.isdigit()
            if not counted or passage.speaker == "user":
                weights[kind][name] += weight
    return {kind: tuple(name for name, _ in found.most_common()) for kind, found in weights.items()}


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Each name with its kind; what is part of a path is not counted again."""
    rest = text
    for pattern in (_URL, _PATH):
        for match in pattern.finditer(rest):
            name = match.group().rstrip(".,;:")
            if len(name) > 3 and not name.replace("/", "").isdigit():
                yield "path", name
        rest = pattern.sub(" ", rest)
    for match in _QUOTED_CODE.finditer(rest):
        yield "identifier", match.group(1).strip()
    rest = _QUOTED_CODE.sub(" ", rest)
    for match in _IDENTIFIER.finditer(rest):
        yield "identifier", match.group()
    rest = _IDENTIFIER.sub(" ", rest)
    for match in _NUMBER.finditer(rest):
        if len(number := match.group().strip()) > 1:
            yield "number", number


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def folded(text: str) -> str:
    """The text for comparing: case and spacing do not count."""
    return " ".join(text.casefold().split())


def first_sentence(text: str, limit: int) -> str:
    """The beginning of a text as one line."""
    first = next(iter(sentences(text)), None)
    return shortened(" ".join(first.text.split()), limit) if first else ""
