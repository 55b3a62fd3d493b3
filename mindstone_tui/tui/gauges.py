"""A `ContextReport` as bars, marks and sentences: pure functions from numbers to `Content`.

The zone is always written as a word; colour only repeats it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from mindstone_tui.core import numbers
from mindstone_tui.core.text import plural
from mindstone_tui.tui import show

if TYPE_CHECKING:
    from mindstone_tui.core.entries.window import Component
    from mindstone_tui.core.events import ContextReport

NAMES = {
    "system_prompt": "system",
    "tool_definitions": "tools",
    "message_history": "history",
    "tool_results": "results",
    "memory_injection": "memory",
    "output_reserve": "answer",
}
_FIXED = ("system_prompt", "tool_definitions")
"""Shares that talking does not fill; being nearly full is how they are, and no warning."""
_STEPS = "▁▂▃▄▅▆▇█"
_FULL, _EMPTY = "━", "─"


def zone(report: ContextReport) -> Content:
    """`orange`, in its colour."""
    return Content.styled(f"● {report.zone}", f"bold $zone-{report.zone}")


def fullness(report: ContextReport, width: int) -> Content:
    """The bar with its marks on it, and below it what happens at each."""
    cells = max(width, 1)
    filled = min(cells, round(report.utilization * cells))
    if report.prompt.tokens and not filled:
        filled = 1
    at = {_column(share, cells): sign for sign, _, share in _marks(report)}
    colour = f"$zone-{report.zone}"
    bar = [
        (at.get(cell, _FULL), colour)
        if cell < filled
        else (at[cell], "$foreground")
        if cell in at
        else (_EMPTY, "$line")
        for cell in range(cells)
    ]
    return Content("\n").join([Content.assemble(*bar), _labels(report, cells)])


def _marks(report: ContextReport) -> list[tuple[str, str, float]]:
    """The marks that act: sign, name and share of the usable room."""
    usable = max(report.usable, 1)
    return [
        ("╎", "trim", report.marks.trim / usable),
        ("┃", "prune", report.marks.ceiling / usable),
    ]


def _column(share: float, cells: int) -> int:
    return min(cells - 1, max(0, round(share * cells) - 1))


def _labels(report: ContextReport, cells: int) -> Content:
    """`trim 75  prune 92`, each as near below its mark as there is room."""
    row, end = "", cells
    for _, name, share in reversed(_marks(report)):
        label = f"{name} {share * 100:.0f}"
        if (start := min(max(0, _column(share, cells) - len(label) // 2), end - len(label))) < 0:
            break
        row = label + " " * (end - start - len(label)) + row
        end = start - 1
        row = " " * min(1, max(end, 0)) + row if end > 0 else row
    return Content.styled((" " * max(0, cells - len(row)) + row).rstrip(), "$muted")


def size(report: ContextReport) -> Content:
    """`77 % · 94.2k of 122k tokens anchored`."""
    return Content.assemble(
        (numbers.percent(report.utilization), "bold"),
        f" · {numbers.tokens(report.prompt.tokens)} of {numbers.tokens(report.usable)} tokens ",
        (report.prompt.label, "$muted"),
    )


def room(report: ContextReport) -> Content:
    """The window behind the usable room, how it is known, and where its marks are scaled."""
    window = f"window {numbers.tokens(report.window.tokens)}"
    if report.window.label != "measured":
        known = "set by hand" if report.window.label == "set" else report.window.label
        window += f" ({known})"
    said = f"{window}, answer keeps {numbers.tokens(report.reserve)}"
    return Content.styled(f"{said}\n{report.scaled}" if report.scaled else said, "$muted")


def budget(report: ContextReport, width: int) -> Content:
    """One line per share: name, bar, tokens; below them what a full one does about it."""
    rows = [_share(component, width) for component in report.components]
    acting = [Content.styled(words, "$muted") for words in report.acting]
    return Content("\n").join([*rows, *acting])


def _share(component: Component, width: int) -> Content:
    name = NAMES.get(component.name, component.name)[:8].ljust(8)
    if component.name == "output_reserve":
        free = f"{numbers.tokens(component.limit)} kept free"
        return Content.assemble(
            (name, "$muted"), " ", (free.rjust(width - len(name) - 1), "$muted")
        )
    figures = f"{numbers.tokens(component.tokens)} of {numbers.tokens(component.limit)}".rjust(14)
    cells = max(width - len(name) - len(figures) - 2, 4)
    hard = max(component.hard, 1)
    filled = min(cells, round(component.tokens / hard * cells))
    if component.tokens and not filled:
        filled = 1
    colour = "$primary"
    if component.tokens > component.hard:
        colour = "$error"
    elif component.tokens > component.soft and component.name not in _FIXED:
        colour = "$warning"
    # The bar is full where the share acts; a share that acts later than it ends has a mark on it.
    bar = _FULL * filled + _EMPTY * (cells - filled)
    if component.hard > component.limit:
        end = _column(component.limit / hard, cells)
        bar = f"{bar[:end]}╎{bar[end + 1 :]}"
    return Content.assemble(
        (name, "$muted"),
        " ",
        (bar[:filled], colour),
        (bar[filled:], "$line"),
        " ",
        (figures, "$muted"),
    )


def spark(velocities: Sequence[int], width: int) -> str:
    """Growth per turn as a row of blocks, the newest right."""
    shown = [max(velocity, 0) for velocity in velocities[-width:]]
    if not (top := max(shown, default=0)):
        return _STEPS[0] * len(shown)
    last = len(_STEPS) - 1
    return "".join(_STEPS[round(velocity / top * last)] for velocity in shown)


def growth(report: ContextReport, width: int) -> Content:
    """How fast the window fills, in words, with the last turns as a row of blocks."""
    lines = []
    if report.velocities:
        so_far = report.velocities[-max(report.turn, 1) :]
        lines.append(Content.styled(spark(so_far, width), "$primary"))
    speed = round(report.velocity)
    if not report.velocities:
        lines.append(Content.styled("no turn yet", "$muted"))
    elif speed <= 0:
        lines.append(Content.styled("the window is not growing", "$muted"))
    else:
        turns = (report.marks.ceiling - report.prompt.tokens) / speed
        when = f"prunes in about {plural(round(turns), 'turn')}" if turns >= 1 else "prunes next"
        said = f"+{numbers.tokens(speed)} tokens a turn\n{when}"
        lines.append(Content.styled(said, "$warning" if turns < _SOON else "$muted"))
    return Content("\n").join(lines)


_SOON = 3
"""Turns before a prune from which on the panel says so in a warning's colour."""
_FREE = ("local/", "scripted/")


def money(report: ContextReport) -> Content:
    """What was spent, and how much of the last prompt came from the cache."""
    spent = _spent(report)
    parts = ["cost unknown" if spent == _UNKNOWN else f"{spent} spent"]
    if report.cached_tokens is not None and report.prompt.tokens:
        share = min(1.0, report.cached_tokens / report.prompt.tokens)
        parts.append(f"{numbers.percent(share)} cached")
    if report.prune.once is not None:
        parts.append(f"a prune costs {numbers.dollars(report.prune.once)}")
    return Content.styled(" · ".join(parts), "$muted")


_WARNED = 120
"""Seconds before a cache expires from which on the panel says so."""


def expiring(report: ContextReport | None, now: float) -> str:
    """That the provider is about to forget the prompt, and about what that costs; else empty."""
    pause = report.pause if report else None
    if pause is None or not 0 < (left := pause.ends - now) <= _WARNED:
        return ""
    return f"cache expires in {left:.0f} s: about ${pause.cost:.2f}"


_UNKNOWN = numbers.dollars(None)


def _spent(report: ContextReport) -> str:
    """What was spent; a sum of nothing is only believed of models that cost nothing."""
    known = report.cost or (report.cost == 0 and report.model.startswith(_FREE))
    if not known and report.turn:
        return _UNKNOWN
    return numbers.dollars(report.cost, unknown=report.cost_unknown)


def status(report: ContextReport, *, wide: bool, model: int = 40) -> Content:
    """The part of the status line that is never left out; a model's name takes so many columns."""
    figures = (
        f"{numbers.tokens(report.prompt.tokens)}/{numbers.tokens(report.usable)}"
        if wide
        else numbers.tokens(report.prompt.tokens)
    )
    return Content.assemble(
        zone(report),
        f" {numbers.percent(report.utilization)}",
        ("  ", ""),
        f"{figures} ",
        (report.prompt.label, "$muted"),
        ("  ", ""),
        show.line(report.model if wide else report.model.rsplit("/", 1)[-1], model),
        ("  ", ""),
        (_spent(report), "$muted"),
        ("  plan mode" if any(one.name == "plan" for one in report.sections) else "", "$accent"),
    )
