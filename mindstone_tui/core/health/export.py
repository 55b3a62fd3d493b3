"""Metrics for other programs: Prometheus text and OTLP-shaped JSON; no port is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from mindstone_tui.core.disk import REAL, Disk, replace_file
from mindstone_tui.core.health.alerts import Alert
from mindstone_tui.core.health.metrics import Snapshot

_METRICS: Final = (
    ("utilization", "mindstone_context_utilization_ratio", "1", "Prompt against usable room."),
    ("eviction_rate", "mindstone_evictions_per_turn", "1", "Exchanges that left in the turn."),
    (
        "compression_ratio",
        "mindstone_compression_ratio",
        "1",
        "Tokens before and after shortening in the turn.",
    ),
    ("burn_rate", "mindstone_burn_tokens_per_turn", "{token}", "Tokens the turn added."),
    ("fidelity", "mindstone_recall_fidelity_ratio", "1", "Probes that recall brings back."),
    ("tool_bloat", "mindstone_tool_result_ratio", "1", "Tool results in the prompt."),
    ("index_lag", "mindstone_index_lag_exchanges", "1", "Exchanges that are not indexed yet."),
    ("protected", "mindstone_protected_ratio", "1", "Usable room that may not leave."),
    ("window", "mindstone_window_number", "1", "Windows that the session had so far."),
)
_ALERT: Final = "mindstone_alert_active"


def prometheus(
    snapshots: Iterable[tuple[str, Snapshot]], alerts: Iterable[tuple[str, Alert]] = ()
) -> str:
    """The newest snapshot of each session as Prometheus text; what is unmeasured is absent.

    Each alert that is active now is a sample of value 1, so that a rule can fire on it.
    """
    pairs = list(snapshots)
    lines: list[str] = []
    for field, name, _, meaning in _METRICS:
        samples = [(session, value) for session, value in _values(pairs, field)]
        if samples:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines += [
                f'{name}{{session="{_label(session)}"}} {_number(value)}'
                for session, value in samples
            ]
    active = [
        f'{_ALERT}{{session="{_label(session)}",metric="{_label(alert.metric)}",'
        f'level="{alert.level}"}} 1'
        for session, alert in alerts
    ]
    if active:
        lines += [f"# HELP {_ALERT} Alerts that are active now.", f"# TYPE {_ALERT} gauge", *active]
    return "\n".join([*lines, ""]) if lines else ""


def _values(pairs: Iterable[tuple[str, Snapshot]], field: str) -> Iterator[tuple[str, float]]:
    for session, snapshot in pairs:
        value = getattr(snapshot.measured, field)
        if value is not None:
            yield session, float(value)


def _label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return repr(int(value)) if value.is_integer() else repr(round(value, 6))


def write_textfile(path: Path, text: str, disk: Disk = REAL) -> None:
    """Replace the file that a node exporter collects; it never reads half of one."""
    replace_file(path, text.encode(), disk)


def otlp(
    session: str, snapshots: Iterable[Snapshot], *, times: Iterable[int], version: str
) -> dict[str, Any]:
    """Snapshots as an OTLP/JSON metrics request; `times` are Unix nanoseconds, one for each."""
    pairs = list(zip(snapshots, times, strict=True))
    metrics = []
    for field, name, unit, meaning in _METRICS:
        points = [
            {"timeUnixNano": str(time), "asDouble": float(value)}
            for snapshot, time in pairs
            if (value := getattr(snapshot.measured, field)) is not None
        ]
        if points:
            metrics.append(
                {
                    "name": name,
                    "unit": unit,
                    "description": meaning,
                    "gauge": {"dataPoints": points},
                }
            )
    return {
        "resourceMetrics": [
            {
                "resource": {
                    "attributes": [
                        _attribute("service.name", "mindstone"),
                        _attribute("service.version", version),
                        _attribute("session.id", session),
                    ]
                },
                "scopeMetrics": [
                    {"scope": {"name": "mindstone_tui.core.health"}, "metrics": metrics}
                ],
            }
        ]
    }


def nanoseconds(snapshot: Snapshot) -> int:
    """When a snapshot was taken, in Unix nanoseconds; 0 when nobody wrote it down."""
    try:
        moment = datetime.fromisoformat(snapshot.at)
    except ValueError:
        return 0
    return int(moment.timestamp() * 1_000) * 1_000_000


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}
