"""What a cue is: a pattern, the kind it speaks for, and the words without which it cannot fit.

Patterns run over lower-case text, begin with a literal or a short choice, and never nest
repetitions, so their cost is linear in the sentence.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mindstone_tui.core.statements.statement import StatementKind
from mindstone_tui.core.values import Value

AT: Final = (
    r"(?:\A|[,;:(] *|\.{2,} *|… *|[–—-] +|\b(?:and|but|so|then|also|just|please|instead|now|simply|again|i\.?e\.?,?) )"
)
"""Where a clause may begin: with the sentence, after a break, or after a word that joins."""

VERB: Final = (
    r"(?:accept|add|adopt|allow|answer|append|apply|ask|assign|assume|avoid|block|build|cache|call|change"
    r"|check|choose|clean|clear|close|collect|combine|commit|compare|compile|confirm|convert|copy|create"
    r"|cut|debug|declare|default|define|delete|deploy|disable|discuss|display|document|download|draw|drop"
    r"|edit|email|emit|enable|enforce|escape|exclude|explain|export|expose|extract|fetch|fill|filter|finish"
    r"|fix|fold|follow|force|format|generate|get|give|group|handle|hardcode|hide|highlight|ignore|implement"
    r"|import|include|increase|indent|index|inject|insert|install|invoke|keep|label|launch|leave|limit|link"
    r"|list|load|log|make|mark|match|merge|migrate|mock|modify|mount|move|name|notify|offer|open|order"
    r"|output|overwrite|pack|parse|pass|pause|pick|place|plan|post|prefix|prefer|preserve|prevent|print"
    r"|process|protect|provide|publish|pull|push|put|quote|raise|read|rebase|record|redirect|redact|reduce|refactor"
    r"|refer|refresh|reject|release|reload|rely|remove|rename|render|repeat|replace|reply|report|request"
    r"|require|reset|resolve|respect|respond|restart|restore|restrict|return|reuse|revert|review|rewrite"
    r"|round|route|run|save|say|scale|search|select|send|separate|serve|set|ship|show|sign|simplify|skip"
    r"|sort|split|squash|stage|start|state|stay|stick|stop|store|strip|submit|support|surround|switch|sync"
    r"|tag|take|talk|target|touch|concatenate|rely|mix|bypass|expose|introduce|duplicate|squeeze|spawn|bundle|lint|pin|ping|cast|reorder|reuse|rebuild|redo|spell|trigger|upgrade|downgrade|tell|test|throw|track|translate|treat|trim|trust|try|turn|type|update|upload"
    r"|use|validate|verify|wait|warn|watch|wrap|write)"
)
"""What people tell a program to do."""


class Cue(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A pattern, the kind it speaks for, and the words of which one must be there."""

    kind: StatementKind
    words: frozenset[str]
    pattern: re.Pattern[str]
    anywhere: bool = False
    """Read the sentence as it was said, not only its core."""
    lasting: bool = False
    forbids: bool = False
    imperative: bool = False
    """Counts only where nobody has been named who does it: "we start it but don't wait"."""


def cue(
    kind: StatementKind,
    words: str,
    *patterns: str,
    anywhere: bool = False,
    lasting: bool = False,
    forbids: bool = False,
    imperative: bool = False,
) -> Cue:
    """A cue for a kind, looked at when one of the words stands in the sentence."""
    return Cue(
        kind=kind,
        words=frozenset(words.split()),
        pattern=re.compile("|".join(patterns)),
        anywhere=anywhere,
        lasting=lasting,
        forbids=forbids,
        imperative=imperative,
    )
