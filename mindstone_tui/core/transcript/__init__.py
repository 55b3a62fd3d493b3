"""The append-only transcript: append, read, follow, verify.

`Transcript` writes (see `writer` for the discipline), `History` reads, `verify` proves.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mindstone_tui.core.transcript.reader import Damaged as Damaged
from mindstone_tui.core.transcript.reader import Head as Head
from mindstone_tui.core.transcript.reader import History as History
from mindstone_tui.core.transcript.reader import Item as Item
from mindstone_tui.core.transcript.reader import standings_of as standings_of
from mindstone_tui.core.transcript.verify import HeadAnchor as HeadAnchor
from mindstone_tui.core.transcript.verify import Problem as Problem
from mindstone_tui.core.transcript.verify import Verdict as Verdict
from mindstone_tui.core.transcript.verify import verify as verify

if TYPE_CHECKING:
    from mindstone_tui.core.transcript.directory import SessionSummary as SessionSummary
    from mindstone_tui.core.transcript.directory import list_sessions as list_sessions
    from mindstone_tui.core.transcript.directory import start_over as start_over
    from mindstone_tui.core.transcript.encode import blackened_in as blackened_in
    from mindstone_tui.core.transcript.follow import Follower as Follower
    from mindstone_tui.core.transcript.writer import Transcript as Transcript

_HOMES = {
    **dict.fromkeys(("SessionSummary", "list_sessions", "start_over"), "directory"),
    "blackened_in": "encode",
    "Follower": "follow",
    "Transcript": "writer",
}
"""Loaded when first asked for: the first picture, and whoever only reads, wait for no writer."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
