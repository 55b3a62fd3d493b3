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
    r"(?:accept|adapt|add|adhere|adjust|adopt|align|allow|analy[sz]e|annotate|answer|append"
    r"|apply|ask|assign|assume|attach|audit|avoid|balance|block|bring|build|bump|bundle|bypass"
    r"|cache|calculate|call|cast|change|check|choose|clarify|classify|clean|clear|close"
    r"|collect|combine|commit|compare|compile|compress|concatenate|configure|confirm|connect"
    r"|consolidate|consult|continue|convert|copy|create|crop|customi[sz]e|cut|debug"
    r"|declare|decouple|default|define|delete|deploy|describe|design|detect|develop|disable"
    r"|discard|discuss|display|document|downgrade|download|draw|drop|duplicate|edit|email|embed"
    r"|emit|enable|encode|encrypt|enforce|escape|evaluate|examine|exclude|execute|expand|explain"
    r"|export|expose|extend|extract|fetch|fill|filter|finali[sz]e|finish|fix|flag|flatten"
    r"|focus|fold|follow|force|format|forward|gather|generate|get|give|group|guarantee|handle"
    r"|hardcode|hide|highlight|host|identify|ignore|implement|import|improve|include"
    r"|increase|indent|index|inform|initiali[sz]e|inject|inline|insert|inspect|install|integrate"
    r"|introduce|investigate|invoke|iterate|join|keep|kill|label|launch|leave|limit|link|lint"
    r"|list|load|log|lower|maintain|make|mark|match|measure|mention|merge|migrate|minimi[sz]e"
    r"|mix|mock|modify|monitor|mount|move|name|normali[sz]e|notify|obey|offer|open|optimi[sz]e"
    r"|order|organi[sz]e|output|overwrite|pack|parse|pass|paste|pause|perform|persist|pick|pin"
    r"|ping|place|plan|populate|position|post|prefer|prefix|prepare|preserve|prevent|print"
    r"|prioriti[sz]e|process|propose|protect|provide|publish|pull|purge|push|put|query"
    r"|quote|raise|read|rebase|rebuild|recheck|reconsider|record|recreate|redact|redeploy"
    r"|redesign|redirect|redo|reduce|refactor|refer|reference|reflect|refresh|regenerate"
    r"|register|reinstall|reject|release|reload|rely|remove|rename|render|reorder|repeat|replace"
    r"|reply|report|request|require|research|reset|resolve|respect|respond|restart|restore"
    r"|restrict|retain|rethink|retrieve|retry|return|reuse|revert|review|rewrite|rotate|round"
    r"|route|run|save|say|scale|scan|schedule|search|select|send|separate|serve|set|ship|shorten"
    r"|show|shrink|sign|simplify|skip|solve|sort|spawn|specify|spell|split|squash|squeeze|stage"
    r"|standardi[sz]e|start|state|stay|stick|stop|store|strip|structure|submit|substitute"
    r"|summari[sz]e|support|suppress|surround|swap|switch|sync|tag|take|talk|target|tell"
    r"|test|throw|tidy|tighten|toggle|touch|track|transform|translate|treat|trigger|trim|trust"
    r"|try|turn|tweak|type|unify|update|upgrade|upload|use|utili[sz]e|validate|verify|visit|wait"
    r"|warn|watch|wrap|write)"
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
