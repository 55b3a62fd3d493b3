"""Themes: complete, legible, and a broken one only costs itself."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from textual.color import Color

from mindstone_tui.tui import clipboard, outside, themes
from mindstone_tui.tui.screens.choose import ChooseScreen
from tests.tui.staged import around, reported, said, settle, staged, until

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


@pytest.mark.parametrize("name", sorted(SHIPPED.themes))
async def test_every_theme_can_be_drawn(name: str) -> None:
    app, talk = staged(
        *said(1, "q", "`a` **b**\n\n```py\nx\n```"), reported(), given=around(theme=name)
    )
    async with app.run_test(size=(110, 30)) as pilot:
        await settle(pilot, talk)
        assert app.theme == name
        assert app.export_screenshot()


async def test_no_color_draws_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, talk = staged(*said(1, "q", "**a**"), reported("red", 0.95))
    async with app.run_test(size=(110, 30)) as pilot:
        await settle(pilot, talk)
        colours = {
            (part.red, part.green, part.blue)
            for strip in app.screen._compositor.render_strips()
            for segment in strip.apply_filter(app._filters[-1], app.screen.background_colors[1])
            if segment.style is not None and segment.style.color is not None
            for part in [segment.style.color.get_truecolor()]
        }
        assert all(max(colour) - min(colour) <= 1 for colour in colours)


def test_copying_asks_the_terminal_and_tmux_around_it() -> None:
    assert clipboard.sequences("hi", {}) == "\x1b]52;c;aGk=\x07"
    inside = clipboard.sequences("hi", {"TMUX": "/tmp/tmux"})
    assert inside == "\x1b]52;c;aGk=\x07\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"


def test_the_system_clipboard_is_used_on_a_desktop_and_not_over_ssh() -> None:
    def which(name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("wl-copy", "xclip") else None

    assert clipboard.program({"WAYLAND_DISPLAY": "w"}, which) == ("wl-copy",)
    assert clipboard.program({"DISPLAY": ":0"}, which)[0] == "xclip"
    assert clipboard.program({"DISPLAY": ":0", "SSH_CONNECTION": "1"}, which) == ()
    assert clipboard.program({}, which) == ()


def test_a_clipboard_program_that_fails_is_no_problem() -> None:
    clipboard.hand_over("x", ("/nonexistent/program",))
    clipboard.hand_over("x", ("false",))


def test_the_editor_comes_from_the_setting_then_the_environment() -> None:
    assert outside.editor_command("code --wait", {"EDITOR": "nano"}) == ["code", "--wait"]
    assert outside.editor_command("", {"VISUAL": "emacs", "EDITOR": "nano"}) == ["emacs"]
    assert outside.editor_command("", {}) == ["vi"]
