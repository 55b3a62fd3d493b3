"""Cues: words that give a kind of statement away, and which of them a sentence fits.

They stand in `cues.txt`. Their expressions run over lower-case text of bounded length and never
nest repetitions, so their cost is linear in the sentence. They are told apart by where they may
fit, because most of them can only stand at the beginning of a sentence or of a clause; and a cue is
looked at only when one of its words stands in the sentence, so an everyday sentence costs next to
nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, cast

import msgspec

from mindstone_tui.core.language.clause import Clause
from mindstone_tui.core.language.lists import lists_in, verb
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements.statement import StatementKind
from mindstone_tui.core.values import Value

_FILE: Final = Path(__file__).with_name("cues.txt")
_NAMED: Final = pattern_of(r"<([a-z ]+)>")
_SUBJECT: Final = pattern_of(
    r"(?<!can )(?<!could )(?<!would )(?<!will )\b(?:i|we|they|he|she|you)\b"
    r"|\b(?:easy|hard|able|trying|want|used|going) to \w+"
)
_SUBJECT_BEFORE: Final = pattern_of(r"\b(?:i|we|they|he|she|you|to|it|who|that) \Z")
_JOINED: Final = ("and ", "but ", "so ")


class Cue(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """Words that give a kind away."""

    kind: StatementKind
    example: str
    """A sentence that it is made for."""
    words: frozenset[str]
    """One of them stands in every sentence that it fits."""
    start: re.Pattern[str] | None
    """Fits where the sentence begins."""
    clause: re.Pattern[str] | None
    """Fits where a clause begins."""
    within: re.Pattern[str] | None
    """Fits anywhere."""
    anywhere: bool = False
    """Read the sentence as it was said, not only its core."""
    lasting: bool = False
    forbids: bool = False
    permits: bool = False
    sure: bool = False
    """Leaves no doubt: what it fits is taken as settled, and the rest is only offered."""
    imperative: bool = False
    """Counts only where nobody has been named who does it: "we start it but don't wait"."""


@cache
def all_cues() -> tuple[Cue, ...]:
    """Every cue, strongest first: the narrower kinds before the wider."""
    cues = lists_in(_FILE)
    named = dict(line.split(": ", 1) for line in cues.pop("expressions")) | {"verb": verb()}
    return tuple(_cue(example, lines, named) for example, lines in cues.items())


def _cue(example: str, lines: Sequence[str], named: Mapping[str, str]) -> Cue:
    """One cue as it stands in the file: its kind and flags, its words, its expressions."""
    kind, *flags = lines[0].split()
    parts: dict[str, list[str]] = {"words": [], "start": [], "clause": [], "within": []}
    for line in lines[1:]:
        part, _, text = line.partition(": ")
        parts[part].append(_NAMED.sub(lambda name: named[name[1]], text))

    def expression(part: str) -> re.Pattern[str] | None:
        # Compiled when first looked for: most messages meet few of the cues.
        return pattern_of("|".join(parts[part])) if parts[part] else None

    return Cue(
        kind=cast("StatementKind", kind),
        example=example,
        words=frozenset(parts["words"][0].split()),
        start=expression("start"),
        clause=expression("clause"),
        within=expression("within"),
        anywhere="anywhere" in flags,
        lasting="lasting" in flags,
        forbids="forbids" in flags,
        permits="permits" in flags,
        sure="sure" in flags,
        imperative="imperative" in flags,
    )


@cache
def _by_word() -> dict[str, tuple[tuple[int, Cue], ...]]:
    by_word: dict[str, tuple[tuple[int, Cue], ...]] = {}
    for rank, cue in enumerate(all_cues()):
        for word in cue.words:
            by_word[word] = (*by_word.get(word, ()), (rank, cue))
    return by_word


def cues_in(clause: Clause) -> Iterator[Cue]:
    """The cues that fit, strongest first."""
    by_word = _by_word()
    found: dict[int, Cue] = {}
    for word in clause.words & by_word.keys():
        found.update(by_word[word])
    for rank in sorted(found):
        if _fits(found[rank], clause):
            yield found[rank]


def _fits(cue: Cue, clause: Clause) -> bool:
    text = clause.whole if cue.anywhere else clause.core
    if not text:
        return False
    if cue.start is not None and cue.start.match(text):
        return True
    if cue.clause is not None and any(
        cue.clause.match(clause.core, at) and not (cue.imperative and _told(clause.core, joined))
        for joined, at in clause.starts
    ):
        return True
    if cue.within is None:
        return False
    match = cue.within.search(text)
    return bool(match) and not (cue.imperative and match and _told(text, match.start()))


def _told(text: str, at: int) -> bool:
    """Whether what begins there tells what somebody does: "we start it but don't wait"."""
    if text.startswith(_JOINED, at):
        return bool(_SUBJECT.search(text, 0, at))
    return bool(_SUBJECT_BEFORE.search(text, max(0, at - 12), at))
