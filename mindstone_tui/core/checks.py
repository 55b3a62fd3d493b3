"""What a check of this installation says, and what it may look at.

A room offers checks as functions `(CheckEnvironment) -> Iterable[Check]`; `mindstone doctor` lists
them. A check looks and reports; it repairs nothing, and it probes rather than assumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from mindstone_tui.core.config import Settings
from mindstone_tui.core.paths import Places, SessionKey

Outcome = Literal["pass", "warn", "fail"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    id: str
    """Stable, as in `disk.space`: programs rely on it."""
    outcome: Outcome
    detail: str
    """What was found, in a sentence."""
    remedy: str = ""
    """What to do about it; empty when it passed."""


class CheckEnvironment(msgspec.Struct, frozen=True):
    """All that a check may look at."""

    places: Places
    environ: Mapping[str, str]
    settings: Settings
    session: SessionKey
