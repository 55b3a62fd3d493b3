"""How full the window was, request by request, as a small chart of its own."""

from __future__ import annotations

import itertools
from typing import Final

from mindstone_tui.core.entries import ZONES
from mindstone_tui.core.interchange.export.markers import count
from mindstone_tui.core.interchange.export.overview import Overview, Point
from mindstone_tui.core.interchange.export.prose import escaped

_BARS: Final = 400
_WIDTH: Final = 1_000
_HEIGHT: Final = 100
_NOTCH: Final = 18
_WIDEST_BAR: Final = 40.0


def timeline(session: Overview) -> str:
    """An SVG of bars in the colours of their zones, with a notch for every prune."""
    if not session.points:
        return '<p class="no-timeline">No requests were recorded in this session.</p>'
    bars = _bars(session.points)
    width = min(_WIDTH / len(bars), _WIDEST_BAR)
    drawn = "".join(_bar(at * width, width, point) for at, point in enumerate(bars))
    notches = "".join(
        _notch(_place(seq, bars) * width, seq, title) for _, seq, title in session.prunes
    )
    peak = max(point.utilization for point in session.points)
    words = (
        f"Context: {count(len(session.points), 'request')}, fullest {peak:.0%}, "
        f"{count(len(session.prunes), 'prune')}"
    )
    key = " ".join(f'<span class="key {zone}">{zone}</span>' for zone in ZONES)
    return (
        f'<figure class="timeline"><svg viewBox="0 -{_NOTCH} {_WIDTH} {_HEIGHT + _NOTCH}" '
        f'role="img" preserveAspectRatio="none" aria-label="{escaped(words)}">'
        f'<line class="full" x1="0" y1="0" x2="{_WIDTH}" y2="0"/>{drawn}{notches}</svg>'
        f"<figcaption>{escaped(words)} {key}</figcaption></figure>"
    )


def _bars(points: tuple[Point, ...]) -> list[Point]:
    """At most so many: of those that share a bar, the fullest is shown."""
    if len(points) <= _BARS:
        return list(points)
    edges = [at * len(points) // _BARS for at in range(_BARS + 1)]
    return [
        max(points[first:last], key=lambda point: point.utilization)
        for first, last in itertools.pairwise(edges)
    ]


def _bar(x: float, width: float, point: Point) -> str:
    height = round(min(max(point.utilization, 0.0), 1.0) * _HEIGHT, 1)
    title = f"turn {point.turn}: {point.tokens:,} tokens, {point.utilization:.0%}, {point.zone}"
    return (
        f'<a href="#turn-{point.turn}"><rect class="{point.zone}" x="{x:.2f}" '
        f'y="{_HEIGHT - height:.1f}" width="{max(width - 0.4, 0.6):.2f}" height="{height}">'
        f"<title>{title}</title></rect></a>"
    )


def _place(seq: int, bars: list[Point]) -> int:
    """The bar before which a prune happened."""
    return sum(1 for point in bars if point.seq < seq)


def _notch(x: float, seq: int, title: str) -> str:
    x = min(max(x, 6.0), _WIDTH - 6.0)
    return (
        f'<a href="#s{seq}"><path class="prune" d="M{x - 6:.2f} -{_NOTCH} h12 l-6 {_NOTCH} z">'
        f"<title>{escaped(title)}</title></path></a>"
    )
