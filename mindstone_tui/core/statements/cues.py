"""Which cues a sentence fits, strongest first.

A cue is looked at only when one of its words stands in the sentence, so an everyday sentence
costs next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mindstone_tui.core.statements.binding_cues import MEMORY, PREFERENCE, RULE
from mindstone_tui.core.statements.choice_cues import CORRECTION, DECISION
from mindstone_tui.core.statements.clause import Clause
from mindstone_tui.core.statements.cue import Cue
from mindstone_tui.core.statements.open_cues import COMMITMENT, QUESTION

ORDER: Final = (MEMORY, CORRECTION, QUESTION, PREFERENCE, COMMITMENT, RULE, DECISION)
"""Which kind wins when several cues speak: the narrower before the wider."""

_SUBJECT: Final = re.compile(r"\b(?:i|we|they|he|she|you)\b")


_INFINITIVE: Final = re.compile(r"\b(?:easy|hard|able|trying|want|used|going) to \w+")
_SUBJECT_BEFORE: Final = re.compile(r"\b(?:i|we|they|he|she|you|to|it|who|that) \Z")


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
        cue = found[rank]
        text = clause.whole if cue.anywhere else clause.core
        match = cue.pattern.search(text) if text else None
        if match and not (cue.imperative and _has_subject(text, match)):
            yield cue


def _has_subject(text: str, match: re.Match[str]) -> bool:
    """Whether a clause that goes on with "and", "but" or "just" tells what somebody does."""
    at = match.start()
    if text.startswith(("and ", "but ", "so "), at):
        return bool(_SUBJECT.search(text, 0, at) or _INFINITIVE.search(text, 0, at))
    return bool(_SUBJECT_BEFORE.search(text[max(0, at - 12) : at]))
