"""Themes: complete, legible, and a broken one only costs itself."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.widgets import Button

from mindstone_tui.core import events as ev
from mindstone_tui.tui import terminal, themes
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.host import AppHost
from mindstone_tui.tui.screens.sessions import ChooseScreen
from mindstone_tui.tui.themes import FIXED, Palette, nearest, palette_of
from tests.tui.scenes import WISH
from tests.tui.shelf import Shelf
from tests.tui.staged import Staged, around, ready, reported, said, settle, staged, until

FIRST_FIXED = 16
"""Of a terminal's 256 colours, the first that no theme of its own changes."""

SHIPPED = themes.find(themes.shipped())


def contrast(one: Color, other: Color) -> float:
    """WCAG 2 contrast ratio."""

    def luminance(colour: Color) -> float:
        parts = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in colour.normalized
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_dark_light_high_contrast_and_colour_blind_themes_are_shipped() -> None:
    assert SHIPPED.unusable == []
    assert {"basalt", "chalk", "obsidian", "lapis"} <= set(SHIPPED.themes)
    assert len(SHIPPED.themes) >= 5
    assert {theme.dark for theme in SHIPPED.themes.values()} == {True, False}


@pytest.mark.parametrize("name", sorted(SHIPPED.themes))
def test_what_is_written_can_be_read(name: str) -> None:
    theme = SHIPPED.themes[name]
    assert theme.background
    assert theme.foreground
    ground = Color.parse(theme.background)
    assert contrast(Color.parse(theme.foreground), ground) >= 7
    assert contrast(Color.parse(theme.variables["muted"]), ground) >= 4.5
    assert contrast(Color.parse(theme.variables["faint"]), ground) >= 2.5
    for zone in ("green", "yellow", "orange", "red"):
        assert contrast(Color.parse(theme.variables[f"zone-{zone}"]), ground) >= 3


def test_the_zones_of_the_colour_blind_theme_differ_in_lightness() -> None:
    variables = SHIPPED.themes["lapis"].variables
    light = [
        Color.parse(variables[f"zone-{zone}"]).brightness for zone in ("yellow", "orange", "red")
    ]
    assert light == sorted(light, reverse=True)
    assert light[0] - light[-1] > 0.2


def test_a_theme_by_its_name_is_the_one_that_a_look_at_all_of_them_finds(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("name = 'chalk'\nprimary = '#ff8800'")
    (tmp_path / "moss.toml").write_text("primary = 'blurple'")
    for own in (None, tmp_path):
        everything = themes.find(themes.shipped(), own)
        for name in (*everything.themes, "moss", "../basalt", "no such theme", ""):
            found = themes.find_named(name, themes.shipped(), own)
            assert found.themes.get(name) == everything.themes.get(name)
            assert themes.why_not(name, found) == themes.why_not(name, everything)


def test_one_colour_is_enough_for_a_theme() -> None:
    theme = themes.build("mine", {"primary": "#ff8800"})
    assert theme.name == "mine"
    assert theme.variables["zone-red"] == "#ff8800"
    assert theme.variables["muted"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name = 'x'", "primary: is missing"),
        ("primary = 'blurple'", "primary: 'blurple' is not a colour"),
        ("primary = '#fff'\n[zone]\nred = 'nope'", "zone.red: 'nope' is not a colour"),
        ("primary = '#fff'\n[zone]\npink = '#fff'", "zone.pink: no such colour"),
        ("primary = '#fff'\nprimray = '#fff'", "primray: no such key"),
        ("primary = '#fff'\ndark = 'yes'", "dark: must be true or false"),
        ("primary = ", "Invalid value"),
    ],
)
def test_a_broken_theme_is_named_with_its_reason(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "broken.toml").write_text(text)
    (tmp_path / "good.toml").write_text("primary = '#abcdef'")
    found = themes.find(tmp_path)
    assert list(found.themes) == ["good"]
    assert [one.path.name for one in found.unusable] == ["broken.toml"]
    assert why in found.unusable[0].why


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "There is no theme mine."), ("primary = 'nope'", "mine cannot be used: primary: ")],
)
async def test_a_theme_that_is_set_and_cannot_be_used_is_said_with_the_way_out(
    tmp_path: Path, text: str | None, why: str
) -> None:
    if text is not None:
        (tmp_path / "mine.toml").write_text(text)
    app, talk = staged(given=msgspec.structs.replace(around(theme="mine"), user_themes=tmp_path))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        assert app.theme == "basalt"
        (notice,) = app._notifications
        assert why in notice.message
        assert "/theme" in notice.message


async def test_a_theme_saved_while_the_app_runs_is_in_the_list(tmp_path: Path) -> None:
    app, talk = staged(given=msgspec.structs.replace(around(), user_themes=tmp_path))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        (tmp_path / "fresh.toml").write_text("primary = '#abcdef'")
        (tmp_path / "broken.toml").write_text("primary = 'nope'")
        await pilot.press("f8")
        await until(pilot, lambda: isinstance(app.screen, ChooseScreen))
        note = str(app.screen.query_one("#note").render())
        assert "broken.toml: primary: 'nope' is not a colour" in note
        await pilot.press(*"fresh", "enter")
        await until(pilot, lambda: app.theme == "fresh")
        (notice,) = app._notifications
        assert "`mindstone config set tui.theme fresh` keeps it" in notice.message


@pytest.mark.parametrize("name", sorted(SHIPPED.themes))
async def test_every_theme_can_be_drawn(name: str) -> None:
    app, talk = staged(
        *said(1, "q", "`a` **b**\n\n```py\nx\n```"), reported(), given=around(theme=name)
    )
    async with app.run_test(size=(110, 30)) as pilot:
        await settle(pilot, talk)
        assert app.theme == name
        assert app.export_screenshot()


def test_a_terminal_says_how_many_colours_it_has() -> None:
    assert palette_of({"TERM": "xterm-256color"}) == "256"
    assert palette_of({"TERM": "xterm", "COLORTERM": "truecolor"}) == "full"
    assert palette_of({"TERM": "linux"}) == "sixteen"
    assert palette_of({"TERM": "xterm-256color", "NO_COLOR": "1"}) == "none"
    assert palette_of({"TERM": "xterm-256color", "NO_COLOR": ""}) == "256"


def drawn(app: MindstoneApp) -> list[Segment]:
    """Everything on the screen as it goes to the terminal."""
    return [part for strip in app.screen._compositor.render_strips() for part in strip]


def colours_of(parts: list[Segment]) -> set[str]:
    """The names of the colours in which something is drawn, or on which."""
    styles = [part.style for part in parts if part.style is not None]
    both = [colour for style in styles for colour in (style.color, style.bgcolor)]
    return {colour.name for colour in both if colour is not None}


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_of_256_colours_none_is_nearer_than_the_one_that_is_taken(
    wanted: tuple[int, int, int],
) -> None:
    number = nearest(*wanted).number
    assert number is not None
    taken = math.dist(FIXED[number - FIRST_FIXED], wanted)
    assert taken == min(math.dist(each, wanted) for each in FIXED)
    assert nearest(*wanted).get_truecolor() == FIXED[number - FIRST_FIXED]


def with_palette(palette: Palette, theme: str) -> AppHost:
    return msgspec.structs.replace(around(theme=theme), palette=palette, library=Shelf(Path()))


@pytest.mark.parametrize("theme", ["basalt", "chalk"])
async def test_no_color_draws_in_the_terminals_own_two_colours(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    events = (*said(1, "q", "**a** `b`"), reported("red", 0.95))
    app, talk = staged(*events, given=with_palette("none", theme))
    async with app.run_test(size=(110, 30)) as pilot:
        await settle(pilot, talk)
        assert colours_of(drawn(app)) == {"default"}
        assert any(part.style and part.style.bold and "red" in part.text for part in drawn(app))


@pytest.mark.parametrize("theme", ["basalt", "chalk"])
async def test_256_colours_are_fixed_ones_and_a_grey_stays_grey(theme: str) -> None:
    app, talk = staged(*said(1, "q", "**a** `b`"), reported(), given=with_palette("256", theme))
    async with app.run_test(size=(110, 30)) as pilot:
        await settle(pilot, talk)
        parts = drawn(app)
        assert not [name for name in colours_of(parts) if name.startswith("#")]
        numbers = {part.style.bgcolor.number for part in parts if part.style and part.style.bgcolor}
        assert all(number is not None for number in numbers)
        grounds = [FIXED[number - FIRST_FIXED] for number in numbers if number is not None]
        assert all(max(ground) - min(ground) < 60 for ground in grounds), grounds


@pytest.mark.parametrize("theme", ["basalt", "chalk"])
async def test_sixteen_colours_are_the_terminals_own_on_its_own_ground(theme: str) -> None:
    events = (*said(1, "q", "**a** `b`"), reported("red", 0.95))
    app, talk = staged(*events, given=with_palette("sixteen", theme))
    async with app.run_test(size=(110, 30)) as pilot:
        await settle(pilot, talk)
        parts = drawn(app)
        assert colours_of(parts) <= {"default", "red", "green", "yellow", "blue", "cyan", "magenta"}
        zone = next(part for part in parts if part.text.endswith("● red"))
        assert zone.style is not None
        assert zone.style.color is not None
        assert zone.style.color.name == "red"
        grounds = {part.style.bgcolor.name for part in parts if part.style and part.style.bgcolor}
        assert grounds == {"default"}


@pytest.mark.thorough
@pytest.mark.parametrize("theme", ["basalt", "chalk"])
@pytest.mark.parametrize("palette", ["none", "sixteen"])
async def test_what_is_chosen_is_reversed_where_grounds_cannot_differ(
    palette: Palette, theme: str
) -> None:
    app, talk = staged(*said(1, "q", "a"), reported(), given=with_palette(palette, theme))

    def reversed_text() -> str:
        return "".join(p.text for p in drawn(app) if p.style and p.style.reverse)

    async with app.run_test(size=(110, 30)) as pilot:
        await settle(pilot, talk)
        await pilot.press(*"xyz", "shift+left", "shift+left")
        await until(pilot, lambda: "yz" in reversed_text())
        await pilot.press("f2", "down")
        await until(pilot, lambda: "What the entry 1 begins" in reversed_text())
        await pilot.press("escape", "f3")
        await until(pilot, lambda: "How do we store" in reversed_text())
        await pilot.press("escape")
        talk.announce(WISH)
        await until(pilot, lambda: "to answer" in "".join(piece.text for piece in drawn(app)))
        await pilot.press("tab")
        await until(pilot, lambda: "Decline" in reversed_text())
        assert "Allow" not in reversed_text()


def test_copying_asks_the_terminal_and_tmux_around_it() -> None:
    assert terminal.sequences("hi", {}) == "\x1b]52;c;aGk=\x07"
    inside = terminal.sequences("hi", {"TMUX": "/tmp/tmux"})
    assert inside == "\x1b]52;c;aGk=\x07\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"


def test_the_system_clipboard_is_used_on_a_desktop_and_not_over_ssh() -> None:
    def which(name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("wl-copy", "xclip") else None

    assert terminal.program({"WAYLAND_DISPLAY": "w"}, which) == ("/usr/bin/wl-copy",)
    assert terminal.program({"DISPLAY": ":0"}, which)[0] == "/usr/bin/xclip"
    assert terminal.program({"DISPLAY": ":0", "SSH_CONNECTION": "1"}, which) == ()
    assert terminal.program({}, which) == ()


def test_a_clipboard_program_that_fails_is_no_problem() -> None:
    terminal.hand_over("x", ("/nonexistent/program",))
    terminal.hand_over("x", ("false",))


def test_the_editor_comes_from_the_setting_then_the_environment() -> None:
    assert terminal.editor_command("code --wait", {"EDITOR": "nano"}) == ["code", "--wait"]
    assert terminal.editor_command("", {"VISUAL": "emacs", "EDITOR": "nano"}) == ["emacs"]
    assert terminal.editor_command("", {}) == ["vi"]


def test_a_style_sheet_is_parsed_once_under_each_theme() -> None:
    def sheet(colour: str) -> themes.ThemedStyles:
        made = themes.ThemedStyles(variables={"primary": colour})
        made.add_source("Label { color: $primary; }", read_from=("once.tcss", ""))
        return made

    red, again, blue = sheet("red"), sheet("red"), sheet("blue")
    assert red.rules[0] is again.rules[0]
    assert blue.rules[0].styles.color == Color.parse("blue")
    red.set_variables({"primary": "blue"})
    red.reparse()
    assert red.rules[0] is blue.rules[0]
    red.set_variables({"primary": "red"})
    red.reparse()
    assert red.rules[0] is again.rules[0]
    assert again.rules[0].styles.color == Color.parse("red")


@pytest.mark.parametrize("palette", ["full", "none"])
async def test_nothing_in_the_first_picture_waits_for_the_rest_of_the_styles(
    palette: Palette,
) -> None:
    given = msgspec.structs.replace(around(), palette=palette)
    seen: list[dict[str, object]] = []

    def styles() -> dict[str, object]:
        return {
            f"{node!r} {part}": dict(each.get_rules())
            for node in app.screen.walk_children(with_self=True)
            for part, each in {"": node.styles.base, **node._component_styles}.items()
        }

    async def open_conversation(key: str) -> ev.Conversation:
        seen.append(styles())
        app.stylesheet.update(app.screen)
        seen.append(styles())
        return Staged([ready()])

    app = MindstoneApp(open_conversation, given)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(seen) == 2)
    first, whole = seen
    assert len(first) > 20
    assert first == whole


async def test_what_was_parsed_ahead_is_there_when_the_first_of_its_kind_is_shown() -> None:
    app = App[None]()
    async with app.run_test():
        app.stylesheet = themes.ThemedStyles(variables=app.get_css_variables())
        parsed = app.stylesheet._parse_cache
        themes.parse_ahead(app.stylesheet, Button("ready"))
        known = set(parsed.keys())
        await app.mount(Button("first"))
        assert {key for key in parsed.keys() if "Button.DEFAULT_CSS" in key[1]} <= known  # noqa: SIM118
