"""Which cues a sentence fits, strongest first.

A cue is looked at only when one of its words stands in the sentence, so an everyday sentence
costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements.choice_cues import CORRECTION, DECISION
from mindstone_tui.core.statements.clause import Clause
from mindstone_tui.core.statements.cue import Cue
from mindstone_tui.core.statements.open_cues import COMMITMENT, QUESTION
from mindstone_tui.core.statements.rule_cues import RULE
from mindstone_tui.core.statements.wish_cues import MEMORY, PREFERENCE

ORDER: Final = (MEMORY, CORRECTION, QUESTION, PREFERENCE, COMMITMENT, RULE, DECISION)
"""Which kind wins when several cues speak: the narrower before the wider."""

_SUBJECT: Final = pattern_of(
    r"(?<!can )(?<!could )(?<!would )(?<!will )\b(?:i|we|they|he|she|you)\b"
    r"|\b(?:easy|hard|able|trying|want|used|going) to \w+"
)
_SUBJECT_BEFORE: Final = pattern_of(r"\b(?:i|we|they|he|she|you|to|it|who|that) \Z")
_JOINED: Final = ("and ", "but ", "so ")


def _index(cues: Iterable[Cue]) -> dict[str, tuple[tuple[int, Cue], ...]]:
    by_word: dict[str, list[tuple[int, Cue]]] = {}
    for rank, cue in enumerate(cues):
        for word in cue.words:
            by_word.setdefault(word, []).append((rank, cue))
    return {word: tuple(found) for word, found in by_word.items()}


_BY_WORD: Final = _index(cue for group in ORDER for cue in group)


def cues_in(clause: Clause) -> Iterator[Cue]:
    """The cues that fit, strongest first."""
    found: dict[int, Cue] = {}
    for word in clause.words & _BY_WORD.keys():
        found.update(_BY_WORD[word])
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
