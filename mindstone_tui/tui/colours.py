"""Themes on terminals with few colours or none.

A terminal of 256 colours gets the nearest of them, greys included: what Textual would choose makes
navy of a dark grey. `NO_COLOR` leaves the terminal's own two colours, with bold, italic, reverse
and the like. A terminal of sixteen colours gets its own palette: the nearest hue for what has one,
faint text as dim. In both, what is chosen is drawn in reverse instead of on another ground.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from rich.color import Color as RichColor
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

Palette = Literal["full", "256", "sixteen", "none"]

_STEPS: Final = (0, 95, 135, 175, 215, 255)
_CUBE: Final = tuple((red, green, blue) for red in _STEPS for green in _STEPS for blue in _STEPS)
_RAMP: Final = tuple((level, level, level) for level in range(8, 248, 10))
FIRST_FIXED: Final = 16
"""Of 256 colours the first sixteen are what a person made of them; from here on they are known."""
FIXED: Final = (*_CUBE, *_RAMP)

_HUES: Final = (
    (20, "red"),
    (70, "yellow"),
    (165, "green"),
    (200, "cyan"),
    (260, "blue"),
    (340, "magenta"),
    (361, "red"),
)
"""Up to how many degrees a hue has which name."""
_GREY: Final = 0.18
_FAINT: Final = 0.42
_INVERTED: Final = 0.4
"""How much brighter or darker than what is around it a ground is that marks something."""
_OWN: Final = Style.from_color(RichColor.parse("default"), RichColor.parse("default"))


def palette_of(environ: Mapping[str, str]) -> Palette:
    """What a terminal can show, by its own account; an empty `NO_COLOR` says nothing."""
    if environ.get("NO_COLOR"):
        return "none"
    told = {name: value for name, value in environ.items() if name != "NO_COLOR"}
    system = Console(force_terminal=True, _environ=told).color_system
    return "full" if system == "truecolor" else "256" if system == "256" else "sixteen"


def filter_for(palette: Palette) -> LineFilter | None:
    """What every line goes through on its way to such a terminal."""
    if palette == "full":
        return None
    return ManyColours() if palette == "256" else FewColours(hues=palette == "sixteen")


class ManyColours(LineFilter):
    """Draws with the colours of a terminal that has 256."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, style and _in_256(style), control) for text, style, control in segments
        ]


@lru_cache(4_096)
def _in_256(style: Style) -> Style:
    fixed = [
        nearest(*colour.triplet) if colour is not None and colour.triplet is not None else None
        for colour in (style.color, style.bgcolor)
    ]
    return style + Style.from_color(*fixed)


@lru_cache(4_096)
def nearest(red: int, green: int, blue: int) -> RichColor:
    """The one of 256 colours that is least far from a colour."""

    def distance(number: int) -> int:
        there = FIXED[number]
        return (there[0] - red) ** 2 + (there[1] - green) ** 2 + (there[2] - blue) ** 2

    return RichColor.from_ansi(FIRST_FIXED + min(range(len(FIXED)), key=distance))


class FewColours(LineFilter):
    """Draws on the terminal's own ground: with its palette, or with its two colours alone."""

    def __init__(self, *, hues: bool) -> None:
        super().__init__()
        self._hues = hues

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, style and limited(style, background, self._hues), control)
            for text, style, control in segments
        ]


@lru_cache(4_096)
def limited(style: Style, around: Color, hues: bool) -> Style:
    """A style without colours, or with the nearest of sixteen; an inverted ground is reverse."""
    ground = Color.from_rich_color(style.bgcolor) if _told(style.bgcolor) else around
    inverted = abs(ground.brightness - around.brightness) > _INVERTED
    plain = style + _OWN + Style(reverse=inverted != bool(style.reverse))
    if not hues or inverted or not _told(style.color):
        return plain
    colour = Color.from_rich_color(style.color)
    spread = (max(colour.rgb) - min(colour.rgb)) / 255
    if spread < _GREY:
        faint = abs(colour.brightness - ground.brightness) < _FAINT
        return plain + Style(dim=faint or None)
    name = next(name for edge, name in _HUES if colour.hsl.h * 360 < edge)
    return plain + Style(color=name)


def _told(colour: RichColor | None) -> bool:
    return colour is not None and not colour.is_default
