"""How full the window is, how fast it fills, and what was noticed about it."""

from __future__ import annotations

from typing import Literal

from mindstone_tui.core.entries.base import Entry, ShareLevel, Zone

AlertLevel = Literal["info", "warning", "critical"]


class ZoneChanged(Entry):
    """The window crossed an edge between two zones."""

    before: Zone
    after: Zone
    utilization: float
    tokens: int
    usable: int


class VelocitySpiked(Entry):
    """The prompt grew far faster than it usually does; the next call is planned anew."""

    tokens: int
    baseline: float
    ratio: float


class ShareCrossed(Entry):
    """A share of the window crossed its soft or its hard mark, upwards or back."""

    component: str
    before: ShareLevel
    after: ShareLevel
    tokens: int
    limit: int


class AlertRaised(Entry):
    """Something that planning could not solve by itself."""

    level: AlertLevel
    metric: str
    message: str
    value: float | None = None
    remedy: str = ""


class HealthMeasured(Entry):
    """The six metrics after a turn; None where nothing could be measured."""

    utilization: float
    eviction_rate: float
    compression_ratio: float | None
    burn_rate: float
    fidelity: float | None
    tool_bloat: float
    index_lag: int = 0
    protected: float = 0.0
    window: int = 0
    """The how-manieth window of the session; 0 where nobody counted."""
