"""What a cue is: patterns, the kind they speak for, and the words without which they cannot fit.

Patterns run over lower-case text of bounded length and never nest repetitions, so their cost is
linear in the sentence. They are told apart by where they may fit, because most of them can only
stand at the beginning of a sentence or of a clause and need not be looked for anywhere else.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from mindstone_tui.core.statements.statement import StatementKind
from mindstone_tui.core.values import Value

VERB: Final = (
    r"(?:accept|add|adopt|allow|answer|append|apply|ask|assign|assume|avoid|block|build|bundle|bypass"
    r"|cache|call|cast|change|check|choose|clean|clear|close|collect|combine|commit|compare|compile"
    r"|concatenate|confirm|convert|copy|create|cut|debug|declare|default|define|delete|deploy|disable"
    r"|discuss|display|document|downgrade|download|draw|drop|duplicate|edit|email|emit|enable|enforce"
    r"|escape|exclude|explain|export|expose|extract|fetch|fill|filter|finish|fix|fold|follow|force"
    r"|format|generate|get|give|group|handle|hardcode|hide|highlight|ignore|implement|import|include"
    r"|increase|indent|index|inject|insert|install|introduce|invoke|keep|label|launch|leave|limit|link"
    r"|lint|list|load|log|make|mark|match|merge|migrate|mix|mock|modify|mount|move|name|notify|offer"
    r"|open|order|organi[sz]e|output|overwrite|pack|parse|pass|pause|pick|pin|ping|place|plan|post|prefer|prefix"
    r"|preserve|prevent|print|process|protect|provide|publish|pull|push|put|quote|raise|read|rebase"
    r"|rebuild|record|redact|redirect|redo|reduce|refactor|refer|refresh|reject|release|reload|rely"
    r"|remove|rename|render|reorder|repeat|replace|reply|report|request|require|reset|resolve|respect"
    r"|respond|restart|restore|restrict|return|reuse|revert|review|rewrite|round|route|run|save|say"
    r"|scale|search|select|send|separate|serve|set|ship|show|sign|simplify|skip|sort|spawn|spell|split"
    r"|squash|squeeze|stage|start|state|stay|stick|stop|store|strip|structure|submit|substitute|support|surround"
    r"|switch|sync"
    r"|tag|take|talk|target|tell|test|throw|touch|track|translate|treat|trigger|trim|trust|try|turn"
    r"|type|update|upgrade|upload|use|validate|verify|wait|warn|watch|wrap|write)"
)
"""What people tell a program to do."""


class Cue(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """Words that give a kind away."""

    kind: StatementKind
    example: str
    """A sentence that it is made for."""
    words: frozenset[str]
    """One of them stands in every sentence that it fits."""
    starts: str = ""
    clauses: str = ""
    withins: str = ""
    anywhere: bool = False
    """Read the sentence as it was said, not only its core."""
    lasting: bool = False
    forbids: bool = False
    permits: bool = False
    imperative: bool = False
    """Counts only where nobody has been named who does it: "we start it but don't wait"."""

    @property
    def start(self) -> re.Pattern[str] | None:
        """Fits where the sentence begins."""
        return _compiled(self.starts)

    @property
    def clause(self) -> re.Pattern[str] | None:
        """Fits where a clause begins."""
        return _compiled(self.clauses)

    @property
    def within(self) -> re.Pattern[str] | None:
        """Fits anywhere."""
        return _compiled(self.withins)


def cue(
    kind: StatementKind,
    example: str,
    words: str,
    *,
    start: Sequence[str] = (),
    clause: Sequence[str] = (),
    within: Sequence[str] = (),
    anywhere: bool = False,
    lasting: bool = False,
    forbids: bool = False,
    permits: bool = False,
    imperative: bool = False,
) -> Cue:
    """A cue for a kind, looked at when one of the words stands in the sentence."""
    return Cue(
        kind=kind,
        example=example,
        words=frozenset(words.split()),
        starts="|".join(start),
        clauses="|".join(clause),
        withins="|".join(within),
        anywhere=anywhere,
        lasting=lasting,
        forbids=forbids,
        permits=permits,
        imperative=imperative,
    )


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Compiled when first looked for: most programs that import this recognise nothing."""
    return re.compile(pattern) if pattern else None
