"""The context report in words, for a terminal of eighty columns."""

from typing import Final

from mindstone_tui.core.context.report import Block, Burn, ContextReport, SectionSize
from mindstone_tui.core.entries.window import Component
from mindstone_tui.core.numbers import tokens
from mindstone_tui.core.text import one_line, plural
from mindstone_tui.core.values import picked

BAR = 30


def context_list(report: ContextReport) -> str:
    """The window at a glance."""
    return "\n".join(
        [
            *headline(report),
            "",
            *(_component(part) for part in report.components),
            *report.acting,
            "",
            *_outside(report),
            *(f"! {warning}" for warning in report.warnings),
        ]
    )


def context_detail(report: ContextReport) -> str:
    """Everything that is in the next prompt, entry by entry."""
    tools = [f"  {each.name:24} {each.tokens:>8,}" for each in report.tools[:10]]
    if (more := len(report.tools) - 10) > 0:
        tools.append(f"  and {more} more")
    return "\n".join(
        [
            context_list(report),
            *_titled("System prompt", [_section(each) for each in report.sections]),
            *_titled("Largest tool schemas", tools),
            *_titled("History and tool results", _contributions(report)),
            *_titled("In the window", [_block(block) for block in report.blocks]),
            "",
            f"prompt hash    {report.prompt_hash}",
            f"stable prefix  {report.stable_prefix_tokens:,} tokens",
        ]
    )


_BURN: Final = "per_turn turns_left burn=level"


def budget_data(report: ContextReport) -> dict[str, object]:
    """The shares of the window for programs: each by itself, then the whole."""
    burning = {each.component: each for each in report.burn}
    shares = [
        {
            **picked(part, "name used=tokens limit"),
            "remaining": part.limit - part.tokens,
            "utilization": round(part.tokens / part.limit, 4) if part.limit else 0.0,
            "soft": part.tokens > part.soft,
            "hard": part.tokens > part.hard,
            "acts_at": part.hard,
            **(picked(burn, _BURN) if (burn := burning.get(part.name)) else {}),
        }
        for part in report.components
    ]
    return {
        "components": shares,
        "total_used": report.prompt.tokens,
        **picked(report, "total_limit=usable total_utilization=utilization burn_rate=velocity"),
        "turns_until_exhausted": exhausted_in(report),
    }


def exhausted_in(report: ContextReport) -> float | None:
    """Turns until the usable room is full at this speed; None when it does not fill."""
    if report.velocity <= 0:
        return None
    return round(max(report.usable - report.prompt.tokens, 0) / report.velocity, 1)


def budget_text(report: ContextReport) -> str:
    """The shares, the whole, and how fast each fills."""
    rows = [_component(part) for part in report.components]
    left = exhausted_in(report)
    when = "" if left is None else f"; full in about {_turns(left)} if nothing leaves"
    total = f"{report.prompt.tokens:,} of {report.usable:,} tokens, {report.utilization:.1%}{when}"
    burn = [
        f"{each.component.replace('_', ' '):17} {each.per_turn:>+9,.0f} a turn{_lasts(each)}"
        for each in report.burn
        if each.per_turn
    ]
    return "\n".join([*rows, *report.acting, "", f"together          {total}", *burn])


def _lasts(burn: Burn) -> str:
    if burn.turns_left is None:
        return ", gone with the turn"
    if burn.component == "tool_results":
        soon = round(burn.turns_left) < 1
        when = "with the next" if soon else f"in about {_turns(burn.turns_left)}"
        return f", oldest shortened {when}"
    if not burn.turns_left:
        return f", its share is full ({burn.level})"
    return f", {_turns(burn.turns_left)} left ({burn.level})"


def _turns(number: float) -> str:
    return plural(round(number), "turn")


def _section(section: SectionSize) -> str:
    """A part of the system prompt; of a file, how much it has and how much of it is sent."""
    size = f"{section.injected_size:,} characters"
    if section.raw_size != section.injected_size:
        size = f"{section.raw_size:,} → {size}"
    return f"  {section.name:14} {section.tokens:>8,}  {size}  {section.source}".rstrip()


def _contributions(report: ContextReport) -> list[str]:
    """What people, the model and tools take of the window, and the largest tool results."""
    rows = []
    for role, name in (("user", "user"), ("assistant", "assistant"), ("tool", "tool results")):
        if sizes := [block.tokens for block in report.blocks if _speaks(block, role)]:
            rows.append(f"  {name:14} {sum(sizes):>8,}  in {plural(len(sizes), 'message')}")
    results = [block for block in report.blocks if _speaks(block, "tool")]
    for block in sorted(results, key=lambda block: -block.tokens)[:3]:
        rows.append(f"    #{block.seq:<11} {block.tokens:>8,}  {one_line(block.preview, 44)}")
    return rows


def _speaks(block: Block, role: str) -> bool:
    return block.role == role and block.kind != "recall"


def headline(report: ContextReport) -> list[str]:
    """Zone, fullness and size."""
    known = "set by hand" if report.window.label == "set" else report.window.label
    window = f"{report.window.tokens:,} ({known})"
    error = report.prompt.error_percent
    off = "" if error is None else f"; the last estimate was off by {error:+.1f} %"
    if not report.sections:
        off = "; instructions and tools are counted with the first request here"
    return [
        f"{report.session} · {report.model} · window {window}",
        *([report.scaled] if report.scaled else []),
        f"{report.zone.upper():7}{_bar(report)} "
        f"{report.utilization:.1%} of {report.usable:,} usable",
        f"prompt {report.prompt.tokens:,} tokens ({report.prompt.label}){off}",
        f"reserve {report.reserve:,}; {report.raw_utilization:.1%} of the whole window is used",
        _speed(report),
    ]


def _bar(report: ContextReport) -> str:
    """A fullness bar with its marks: ▏ floor, ┊ trim, │ ceiling."""
    cells = ["█" if at < round(report.utilization * BAR) else "░" for at in range(BAR)]
    for mark, sign in ((report.marks.floor, "▏"), (report.marks.ceiling, "│")):
        at = min(BAR - 1, round(BAR * mark / report.usable)) if report.usable else 0
        cells[at] = sign
    return "".join(cells)


def _speed(report: ContextReport) -> str:
    if (red := report.turns_until_red) is None:
        left = "red is not in sight"
    elif red >= 1:
        left = f"red in about {_turns(red)}"
    else:
        left = "red in less than a turn" if red else "red already"
    return f"growth {report.velocity:+,.0f} tokens a turn ({report.velocity_class}); {left}"


def _component(part: Component) -> str:
    share = part.tokens / part.limit if part.limit else 0.0
    cells = min(20, round(20 * share))
    flag = " over" if part.tokens > part.limit else " near" if part.tokens > part.soft else ""
    name = part.name.replace("_", " ")
    bar = "█" * cells + "░" * (20 - cells)
    return f"{name:17} {bar} {part.tokens:>8,} of {part.limit:>8,} {share:>5.0%}{flag}"


def _outside(report: ContextReport) -> list[str]:
    outside = report.outside
    told = "Nothing has left the window."
    if outside.exchanges:
        about = f"about {tokens(outside.tokens)} tokens, {outside.state}."
        told = f"Out of the window: {outside.count}, {about}"
    return [told, *([f"Rewound: {plural(outside.rewound, 'turn')}."] if outside.rewound else [])]


def _titled(title: str, rows: list[str]) -> list[str]:
    return ["", title, *rows] if rows else []


def _block(block: Block) -> str:
    signs = ("P" if block.pinned else " ") + ("t" if block.trimmed else " ")
    kept = "kept" if block.protected else "    "
    return (
        f"  #{block.seq:<7} turn {block.turn:<5} {block.role:9} {block.tokens:>7,} {signs} {kept} "
        f"{one_line(block.preview or block.why, 28)}"
    )
