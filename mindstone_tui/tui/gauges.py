"""A `ContextReport` as bars, ticks and sentences: pure functions from numbers to `Content`.

The zone is always written as a word; colour only repeats it.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from mindstone_tui.core import numbers
from mindstone_tui.core.entries.window import Component
from mindstone_tui.core.events import ContextReport
from mindstone_tui.core.text import plural
from mindstone_tui.tui import show

NAMES = {
    "system_prompt": "system",
    "tool_definitions": "tools",
    "message_history": "history",
    "tool_results": "results",
    "memory_injection": "memory",
    "output_reserve": "reserve",
}
_STEPS = "▁▂▃▄▅▆▇█"
_FULL, _EMPTY = "━", "─"


def zone(report: ContextReport) -> Content:
    """`orange`, in its colour."""
    return Content.styled(f"● {report.zone}", f"bold $zone-{report.zone}")


def fullness(report: ContextReport, width: int) -> Content:
    """The bar, and below it a letter for each mark."""
    cells = max(width, 1)
    filled = min(cells, round(report.utilization * cells))
    if report.prompt.tokens and not filled:
        filled = 1
    bar = Content.assemble(
        (_FULL * filled, f"$zone-{report.zone}"),
        (_EMPTY * (cells - filled), "$line"),
    )
    return Content("\n").join([bar, _ticks(report, cells)])


def marks(report: ContextReport) -> Content:
    """What the letters below the bar mean."""
    shares = " · ".join(f"{name} {share * 100:.0f}" for _, name, share in _marks(report))
    return Content.styled(f"{shares} %", "$faint")


def _marks(report: ContextReport) -> list[tuple[str, str, float]]:
    usable = max(report.usable, 1)
    return [
        ("f", "floor", report.marks.floor / usable),
        ("t", "trim", report.marks.trim / usable),
        ("c", "ceiling", report.marks.ceiling / usable),
    ]


def _ticks(report: ContextReport, cells: int) -> Content:
    row = [" "] * cells
    for sign, _, share in _marks(report):
        at = min(cells - 1, max(0, round(share * cells) - 1))
        row[at] = sign
    return Content.styled("".join(row).rstrip(), "$muted")


def size(report: ContextReport) -> Content:
    """`94.2k of 122.9k tokens · 77 % · anchored`."""
    return Content.assemble(
        (numbers.tokens(report.prompt.tokens), "bold"),
        f" of {numbers.tokens(report.usable)} tokens · {numbers.percent(report.utilization)} ",
        (report.prompt.label, "$muted"),
    )


def room(report: ContextReport) -> Content:
    """The window behind the usable room, how it is known, and how good the last estimate was."""
    window = f"window {numbers.tokens(report.window.tokens)}"
    if report.window.label != "measured":
        window += f" {report.window.label}"
    parts = [window, f"reserve {numbers.tokens(report.reserve)}"]
    if report.prompt.error_percent is not None:
        parts.append(f"±{abs(report.prompt.error_percent):.0f} %")
    return Content.styled(" · ".join(parts), "$muted")


def budget(components: Sequence[Component], width: int) -> Content:
    """One line per share: name, bar with its soft mark, tokens."""
    return Content("\n").join(_share(component, width) for component in components)


def _share(component: Component, width: int) -> Content:
    name = NAMES.get(component.name, component.name)[:8].ljust(8)
    figures = f"{numbers.tokens(component.tokens)}/{numbers.tokens(component.hard)}".rjust(12)
    cells = max(width - len(name) - len(figures) - 2, 4)
    hard = max(component.hard, 1)
    filled = min(cells, round(component.tokens / hard * cells))
    if component.tokens and not filled:
        filled = 1
    reserved = component.name == "output_reserve"
    soft = -1 if reserved else min(cells - 1, round(component.soft / hard * cells))
    colour = "$secondary" if reserved else "$primary"
    if component.tokens > component.hard:
        colour = "$error"
    elif component.tokens > component.soft and not reserved:
        colour = "$warning"
    bar = []
    for at in range(cells):
        if at == soft:
            bar.append(("┃" if at < filled else "╎", colour if at < filled else "$muted"))
        else:
            bar.append(
                (_FULL, colour) if at < filled else (_EMPTY, "$line"),
            )
    return Content.assemble((name, "$muted"), " ", *bar, " ", (figures, "$muted"))


def spark(velocities: Sequence[int], width: int) -> str:
    """Growth per turn as a row of blocks, the newest right."""
    shown = [max(velocity, 0) for velocity in velocities[-width:]]
    top = max(shown, default=0)
    if not top:
        return _STEPS[0] * len(shown)
    last = len(_STEPS) - 1
    return "".join(_STEPS[round(velocity / top * last)] for velocity in shown)


def pace(report: ContextReport, width: int) -> Content:
    """How fast the window fills, and how many turns are left before red."""
    lines = []
    if report.velocities:
        lines.append(Content.styled(spark(report.velocities, width), "$primary"))
    speed = f"{numbers.tokens(round(report.velocity))} tokens a turn · {report.velocity_class}"
    lines.append(Content.styled(speed, "$muted"))
    if report.turns_until_red is not None and report.zone != "red":
        turns = max(0, round(report.turns_until_red))
        alarming = turns < 3
        lines.append(
            Content.styled(
                f"red in about {plural(turns, 'turn')}",
                "$warning" if alarming else "$muted",
            )
        )
    return Content("\n").join(lines)


def money(report: ContextReport) -> Content:
    """What was spent, and how much of the last prompt came from the cache."""
    parts = [numbers.dollars(report.cost, unknown=report.cost_unknown) + " spent"]
    if report.cached_tokens is not None and report.prompt.tokens:
        share = min(1.0, report.cached_tokens / report.prompt.tokens)
        parts.append(f"{numbers.percent(share)} cached")
    if report.prune.once is not None:
        parts.append(f"a prune costs {numbers.dollars(report.prune.once)}")
    return Content.styled(" · ".join(parts), "$muted")


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
        (numbers.dollars(report.cost, unknown=report.cost_unknown), "$muted"),
    )
