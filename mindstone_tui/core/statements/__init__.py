"""What people settled: rules, corrections, requests to remember, preferences, decisions.

Everything that keeps what was said asks here, so that a checkpoint, a letter, a note, an audit
and a pin never disagree about what a rule is. `sentences` cuts a text, `recognise` reads one
message, and a `Register` holds what stands and what was superseded. No model is asked, nothing
is reworded, and the same history gives the same answer.
"""

from __future__ import annotations

from mindstone_tui.core.statements.clause import read
from mindstone_tui.core.statements.content import content_words
from mindstone_tui.core.statements.recogniser import (
    is_small_talk,
    kind_of_sentence,
    recognise,
    restate,
)
from mindstone_tui.core.statements.register import (
    Register,
    advance,
    keep,
    replaces,
    settle,
    successor,
)
from mindstone_tui.core.statements.splitter import (
    Sentence,
    parts_of,
    pieces,
    prose,
    sentences,
    shortened,
)
from mindstone_tui.core.statements.statement import (
    KINDS,
    NEVER_DROPPED,
    Pointer,
    Speaker,
    Statement,
    StatementKind,
    Utterance,
)

__all__ = [
    "KINDS",
    "NEVER_DROPPED",
    "Pointer",
    "Register",
    "Sentence",
    "Speaker",
    "Statement",
    "StatementKind",
    "Utterance",
    "advance",
    "content_words",
    "is_small_talk",
    "keep",
    "kind_of_sentence",
    "parts_of",
    "pieces",
    "prose",
    "read",
    "recognise",
    "replaces",
    "restate",
    "sentences",
    "settle",
    "shortened",
    "successor",
]
