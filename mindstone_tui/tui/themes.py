"""Themes: one TOML file each, with what it leaves out filled from its base colours.

A theme that cannot be used is listed with the reason and never stops the app. The user's folder is
read again each time the list is shown, so an edited file counts at once.
"""

import contextlib
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from rich.color import Color as RichColor
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.color import Color, ColorParseError
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.filter import LineFilter
from textual.theme import Theme
from textual.widget import Widget

import mindstone_tui
from mindstone_tui.core.disk import read_regular

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
    if (max(colour.rgb) - min(colour.rgb)) / 255 < _GREY:
        return plain + Style(dim=abs(colour.brightness - ground.brightness) < _FAINT or None)
    name = next(name for edge, name in _HUES if colour.hsl.h * 360 < edge)
    return plain + Style(color=name)


def _told(colour: RichColor | None) -> bool:
    return colour is not None and not colour.is_default


BASE: Final = (
    *("primary", "secondary", "accent", "foreground", "background", "surface", "panel"),
    *("success", "warning", "error"),
)
OWN: Final[Mapping[str, Mapping[str, str]]] = {
    "zone": {"green": "success", "yellow": "accent", "orange": "warning", "red": "error"},
    "context": {"pinned": "accent", "recalled": "secondary", "pruned": "error", "you": "primary"},
    "code": {
        "keyword": "primary",
        "string": "success",
        "number": "warning",
        "name": "accent",
        "comment": "secondary",
    },
}
"""Our colours by family, each with the base colour that stands in for it."""

_DARK: Final = {"foreground": "#d8dee9", "background": "#15181d"}
_LIGHT: Final = {"foreground": "#23272e", "background": "#f7f6f3"}


class Unusable(msgspec.Struct, frozen=True):
    """A theme file that cannot be used, and why."""

    path: Path
    why: str


class Listed(msgspec.Struct, frozen=True):
    """What a look at the theme folders found."""

    themes: dict[str, Theme]
    unusable: list[Unusable]


def shipped() -> Path:
    """The folder of the themes that come with the program."""
    package = Path(mindstone_tui.__file__).parent
    installed = package / "themes"
    return installed if installed.is_dir() else package.parent / "themes"


def find(*folders: Path | None) -> Listed:
    """Every theme of these folders by name; a later folder may replace an earlier one's."""
    listed = Listed({}, [])
    for path in _files(folders):
        try:
            theme = load(path)
        except ThemeProblem as problem:
            listed.unusable.append(Unusable(path, str(problem)))
        else:
            listed.themes[theme.name] = theme
    return listed


def find_named(name: str, shipped: Path, own: Path | None) -> Listed:
    """A theme by its name, with as little reading as that takes; all themes if there is none.

    The user's files are all read, because any of them may bear the name; ours are named as their
    files are.
    """
    listed = find(own)
    if name not in listed.themes and name.isidentifier():
        with contextlib.suppress(ThemeProblem):
            listed.themes[name] = load(shipped / f"{name}.toml")
    return listed if name in listed.themes else find(shipped, own)


def why_not(name: str, found: Listed) -> str:
    """Why there is no such theme to use."""
    broken = next((one.why for one in found.unusable if one.path.stem == name), "")
    return f"The theme {name} cannot be used: {broken}." if broken else f"There is no theme {name}."


class ThemeProblem(ValueError):
    """Why a theme file cannot be used; names the key."""


def load(path: Path) -> Theme:
    """Read one theme file; raises `ThemeProblem`."""
    try:
        fields = tomllib.loads(read_regular(path).decode())
    except (OSError, ValueError, RecursionError) as error:  # a number like no other, too
        raise ThemeProblem(str(error)) from error
    return build(path.stem, fields)


def build(name: str, fields: dict[str, Any]) -> Theme:
    """A theme from its fields; whatever is missing follows from the colours that are there."""
    known = {*BASE, *OWN, "name", "dark", "variables"}
    if unknown := sorted(set(fields) - known):
        raise ThemeProblem(f"{unknown[0]}: no such key; there are {', '.join(sorted(known))}")
    dark = fields.get("dark", True)
    if not isinstance(dark, bool):
        raise ThemeProblem("dark: must be true or false")
    if "primary" not in fields:
        raise ThemeProblem("primary: is missing; it is the only colour a theme must have")
    base: dict[str, Any] = {key: _colour(key, fields[key]) for key in BASE if key in fields}
    for key, colour in (_DARK if dark else _LIGHT).items():
        base.setdefault(key, colour)
    base.setdefault("secondary", base["primary"])
    base.setdefault("accent", base["primary"])
    for key, meaning in (("success", "primary"), ("warning", "accent"), ("error", "accent")):
        base.setdefault(key, base[meaning])
    return Theme(
        name=str(fields.get("name", name)),
        dark=dark,
        variables={**_quiet(base), **_own(fields, base), **fields.get("variables", {})},
        **base,
    )


def _quiet(base: Mapping[str, str]) -> dict[str, str]:
    """Two steps from the text towards the ground, for what should not shout."""
    ground, text = Color.parse(base["background"]), Color.parse(base["foreground"])
    return {
        "muted": text.blend(ground, 0.32).hex,
        "faint": text.blend(ground, 0.52).hex,
        "line": text.blend(ground, 0.80).hex,
    }


def _own(fields: Mapping[str, Any], base: Mapping[str, str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for family, defaults in OWN.items():
        given = fields.get(family, {})
        if not isinstance(given, dict):
            raise ThemeProblem(f"{family}: must be a table")
        if unknown := sorted(set(given) - set(defaults)):
            raise ThemeProblem(f"{family}.{unknown[0]}: no such colour")
        for key, stand_in in defaults.items():
            colour = given.get(key, base[stand_in])
            variables[f"{family}-{key}"] = _colour(f"{family}.{key}", colour)
    return variables


def fallback_variables() -> dict[str, str]:
    """Our own variables for a theme that is not one of our files."""
    ours = {
        f"{family}-{key}": f"${stand_in}"
        for family, defaults in OWN.items()
        for key, stand_in in defaults.items()
    }
    return {"muted": "$secondary", "faint": "$secondary", "line": "$panel", **ours}


class ThemedStyles(Stylesheet):
    """A style sheet that is parsed once under the colours of each theme.

    Textual's own is parsed anew, all of it, whenever a colour changes: at every step through the
    list of themes.
    """

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._parse_cache = _parsed_under(_as_key(self._variables))

    def set_variables(self, variables: dict[str, str]) -> None:
        self._parse_cache = LRUCache(1)  # Textual empties what it finds here
        super().set_variables(variables)
        self._parse_cache = _parsed_under(_as_key(variables))

    def reparse(self) -> None:
        self._invalid_css = set()
        self.parse()


def parse_ahead(styles: Stylesheet, widget: Widget) -> None:
    """Parse a widget's own styles before one like it is shown, when somebody may be typing."""
    for where, css, order, scope in widget._get_default_css():
        styles._parse_rules(css, where, is_default_rules=True, tie_breaker=order, scope=scope)


def _as_key(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(variables.items()))


@lru_cache(maxsize=16)
def _parsed_under(_variables: tuple[tuple[str, str], ...]) -> LRUCache[Any, list[RuleSet]]:
    """What was parsed under these colours so far."""
    return LRUCache(1_024)


def _colour(key: str, value: object) -> str:
    try:
        Color.parse(str(value))
    except ColorParseError as error:
        raise ThemeProblem(f"{key}: {value!r} is not a colour") from error
    return str(value)


def _files(folders: Iterable[Path | None]) -> list[Path]:
    return [
        path
        for folder in folders
        if folder is not None and folder.is_dir()
        for path in sorted(folder.glob("*.toml"))
    ]
