"""What stands before the model when it is asked something: originals, summaries, what came back.

A piece of evidence says where it stands and, if it does, which turn its words come from: that is
the difference between knowing something and being able to show it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from mindstone_tui.core.context.asking import Count
from mindstone_tui.core.context.eviction import text_of
from mindstone_tui.core.context.facts import folded, holds, sentences
from mindstone_tui.core.entries import Part
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.recall.injecting import Vacancy
from mindstone_tui.core.recall.words import query_terms, words_of
from mindstone_tui.core.replay.rehearsal import Rehearsal
from mindstone_tui.core.replay.staging import UNNAMED

Where = Literal["window", "summary", "recall"]

_TURN: Final = re.compile(r"\bturn (\d{1,9})\b")
_SHARED: Final = 2
"""Words of a question that a text must share to speak of the same thing."""


class Piece(Part):
    """Something the model reads."""

    where: Where
    text: str
    turn: int = 0
    """The turn whose words these are; 0 when nobody can say."""
    tool: bool = False


def standing(held: Rehearsal) -> tuple[Piece, ...]:
    """What the window shows at the end: its messages as sent, and what was derived."""
    fold = held.working_set.fold
    pieces = [
        Piece(
            where="window",
            text=item.text if item.text is not None else text_of(item.line),
            turn=item.line.turn,
            tool=isinstance(item.line.entry, ToolReturned),
        )
        for item in fold.placed(model=fold.model or UNNAMED, turn=fold.turn)
        if item.line is not None
    ]
    return (*pieces, *(piece for text in fold.derived for piece in _derived(text)))


def _derived(text: str) -> list[Piece]:
    """A summary line by line: each may say which turn it was made from."""
    lines = [line for block in text.splitlines() for line in sentences(block)] or [text]
    found = []
    for line in lines:
        named = _TURN.findall(line)
        found.append(Piece(where="summary", text=line, turn=int(named[-1]) if named else 0))
    return found


def brought_back(held: Rehearsal, question: str, room: int, count: Count) -> tuple[Piece, ...]:
    """What recall would add for a question, within its share."""
    shown = held.working_set.fold.lines.keys()
    vacancy = Vacancy(shown=shown, recent=(), tokens=room, count=count)
    injected = held.recollection.gather(question, vacancy)
    if injected is None:
        return ()
    return tuple(
        Piece(where="recall", text=each.text, turn=each.turn) for each in injected.passages
    )


def says(piece: Piece, wanted: Sequence[str]) -> bool:
    """Whether a text holds all of the words, as whole words."""
    text = folded(piece.text)
    return bool(wanted) and all(holds(text, folded(each)) for each in wanted)


def speaks_of(piece: Piece, question: str) -> bool:
    """Whether a text is about what is asked; a tool's output never counts as having said so."""
    if piece.tool:
        return False
    asked = {_stem(term) for term in query_terms(question)}
    shared = asked & {_stem(word) for word in words_of(piece.text)}
    return len(shared) >= min(_SHARED, len(asked))


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("s") else word
