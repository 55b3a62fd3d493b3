"""What people settled: rules, corrections, requests to remember, preferences, decisions.

Everything that keeps what was said asks here, so that a checkpoint, a letter, a note, an audit
and a pin never disagree about what a rule is. `recognise` reads one message, and a `Register`
holds what stands and what was superseded. No model is asked, nothing is reworded, and the same
history gives the same answer.
"""

from __future__ import annotations

from mindstone_tui.core.statements.recogniser import (
    StandingInstruction,
    kind_of_sentence,
    recognise,
    recognise_standing_instruction,
    restate,
    worth_asking_about,
)
from mindstone_tui.core.statements.register import (
    Register,
    advance,
    keep,
    replaces,
    settle,
    successor,
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
    "Speaker",
    "StandingInstruction",
    "Statement",
    "StatementKind",
    "Utterance",
    "advance",
    "keep",
    "kind_of_sentence",
    "recognise",
    "recognise_standing_instruction",
    "replaces",
    "restate",
    "settle",
    "successor",
    "worth_asking_about",
]
