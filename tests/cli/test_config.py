"""`config` as a user and as a program see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindstone_tui.cli.main import run
from mindstone_tui.core.config import all_keys

Capture = pytest.CaptureFixture[str]


def test_show_says_where_each_value_comes_from(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDSTONE_CONTEXT__FLOOR", "50")
    monkeypatch.delenv("MINDSTONE_SESSION__DEFAULT")
    assert run(["config", "set", "context.ceiling", "80"]) == 0
    assert run(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["settings"]
    assert set(shown) == set(all_keys())
    assert shown["context.ceiling"] == {
        "value": 80.0,
        "source": "user",
        "where": str(home / "config.toml"),
    }
    assert shown["context.floor"]["source"] == "environment"
    assert run(["config", "show", "--changed"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "[context]"


def test_explain_says_what_a_key_does(capsys: Capture) -> None:
    assert run(["config", "explain", "context.ceiling"]) == 0
    assert "Fullness at which exchanges leave." in capsys.readouterr().out
    assert run(["config", "explain", "context.celing"]) == 2
    assert "context.ceiling" in capsys.readouterr().err
    assert run(["config", "explain", "zones", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["settings"]) == 7


def test_path_and_profiles_are_printed(home: Path, capsys: Capture) -> None:
    assert run(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{home / 'config.toml'}\n"
    assert run(["config", "profiles", "--json"]) == 0
    names = [item["name"] for item in json.loads(capsys.readouterr().out)["profiles"]]
    assert names == ["classic", "code-review", "default", "research", "support"]


def test_setting_a_key_in_a_file_that_is_not_toml_names_the_line(
    home: Path, capsys: Capture
) -> None:
    home.mkdir()
    (home / "config.toml").write_text("this is [not toml")
    assert run(["config", "set", "context.ceiling", "90"]) == 2
    said = capsys.readouterr().err
    assert "config.toml is not TOML: " in said
    assert "line 1" in said
    assert (home / "config.toml").read_text() == "this is [not toml"


def test_edit_needs_an_editor_and_checks_what_it_left(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    assert run(["config", "edit"]) == 2
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "[context]\nceiling = 300" > "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    assert run(["config", "edit"]) == 2
    assert "out of range" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "wrong", "why", "right"),
    [
        ("models.base_url", "3", "'3' is not an address", ["http://127.0.0.1:9/v1"]),
        (
            "models.default",
            "nosuch/xx",
            "There is no provider called nosuch.",
            ["openai/gpt-4o", "local/guide", "mine"],
        ),
        ("tui.theme", "nosuch", "There is no theme nosuch.", ["moss", "nord"]),
    ],
)
def test_what_could_not_be_used_is_not_stored(
    key: str, wrong: str, why: str, right: list[str], home: Path, capsys: Capture
) -> None:
    assert run(["config", "set", key, wrong]) != 0
    assert why in capsys.readouterr().err
    assert not (home / "config.toml").exists()
    for written in right:
        assert run(["config", "set", key, written]) == 0
        assert run(["config", "set", key, f'"{written}"']) == 0
