"""The append-only transcript: append, read, follow, verify.

`Transcript` writes (see `journal` for the discipline), `History` reads, `verify` proves.
"""

from mindstone_tui.core.transcript.follower import Follower
from mindstone_tui.core.transcript.history import Damaged, Head, History
from mindstone_tui.core.transcript.journal import Transcript
from mindstone_tui.core.transcript.listing import SessionSummary, list_sessions
from mindstone_tui.core.transcript.verification import Anchor, Problem, Verdict, verify

__all__ = [
    "Anchor",
    "Damaged",
    "Follower",
    "Head",
    "History",
    "Problem",
    "SessionSummary",
    "Transcript",
    "Verdict",
    "list_sessions",
    "verify",
]
