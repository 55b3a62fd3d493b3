"""The append-only transcript: append, read, follow, verify.

`Transcript` writes (see `writer` for the discipline), `History` reads, `verify` proves.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mindstone_tui.core.transcript.reader import Damaged, Head, History, standings_of
from mindstone_tui.core.transcript.verify import HeadAnchor, Problem, Verdict, verify

if TYPE_CHECKING:
    from mindstone_tui.core.transcript.directory import SessionSummary, list_sessions, start_over
    from mindstone_tui.core.transcript.encode import blackened_in
    from mindstone_tui.core.transcript.follow import Follower
    from mindstone_tui.core.transcript.writer import Transcript

_HOMES = {
    **dict.fromkeys(("SessionSummary", "list_sessions", "start_over"), "directory"),
    "blackened_in": "encode",
    "Follower": "follow",
    "Transcript": "writer",
}
"""Loaded when first asked for: the first picture, and whoever only reads, wait for no writer."""

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
    "standings_of",
    "start_over",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
