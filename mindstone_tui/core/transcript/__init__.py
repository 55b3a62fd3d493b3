"""The append-only transcript: append, read, follow, verify.

`Transcript` writes (see `writer` for the discipline), `History` reads, `verify` proves.
"""

from mindstone_tui.core.transcript.directory import SessionSummary, list_sessions, start_over
from mindstone_tui.core.transcript.encode import blackened_in
from mindstone_tui.core.transcript.follow import Follower
from mindstone_tui.core.transcript.reader import Damaged, Head, History
from mindstone_tui.core.transcript.verify import HeadAnchor, Problem, Verdict, verify
from mindstone_tui.core.transcript.writer import Transcript

__all__ = [
    "Damaged",
    "Follower",
    "Head",
    "HeadAnchor",
    "History",
    "Problem",
    "SessionSummary",
    "Transcript",
    "Verdict",
    "blackened_in",
    "list_sessions",
    "start_over",
    "verify",
]
