"""`config` and `doctor` as a user and as a program see them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindstone_tui.cli import doctor
from mindstone_tui.cli.main import run
from mindstone_tui.core.config import all_keys
from mindstone_tui.core.doctor.home import file_system_of
from tests.builders import places_in, say, transcript_in

Capture = pytest.CaptureFixture[str]


def test_show_says_where_each_value_comes_from(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDSTONE_CONTEXT__FLOOR", "50")
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


def test_doctor_passes_on_a_sound_installation(home: Path, capsys: Capture) -> None:
    say(transcript_in(home), "question", "answer")
    assert run(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ids = [check["id"] for check in told["checks"]]
    assert told["ok"] is True
    assert len(ids) == len(set(ids))
    assert {"config", "places.data", "permissions", "disk.space", "session", "sqlite"} <= set(ids)
    assert {"sqlite.vectors", "tokenizer", "embedder", "model", "sandbox", "index"} <= set(ids)
    assert all(check["outcome"] in ("pass", "warn", "fail") for check in told["checks"])
    assert all(check["remedy"] for check in told["checks"] if check["outcome"] != "pass")


def test_doctor_names_what_is_wrong_and_a_remedy(home: Path, capsys: Capture) -> None:
    say(transcript_in(home), "question", "answer")
    places = places_in(home)
    places.transcript.chmod(0o644)
    places.index.write_bytes(b"this is no database" * 100)
    lines = places.transcript.read_bytes().splitlines(keepends=True)
    places.transcript.write_bytes(b"".join([lines[0], *lines[2:]]))
    (home / "config.toml").write_text("[context]\nceiling = 300\n")
    assert run(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    outcomes = {check["id"]: check["outcome"] for check in told["checks"]}
    assert outcomes["config"] == "fail"
    assert outcomes["permissions"] == "warn"
    remedies = {check["id"]: check["remedy"] for check in told["checks"]}
    assert str(places.transcript) in remedies["permissions"]
    assert outcomes["session"] == "fail"
    assert outcomes["index"] == "warn"
    assert run(["doctor"]) == 1
    assert "mindstone verify" in capsys.readouterr().out


def test_a_home_that_is_a_file_is_said_in_words(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "file"))
    assert run(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "is a file, but a folder is needed there" in said
    assert "mindstone_tui." not in said


def test_a_package_adds_its_checks_with_one_line() -> None:
    assert all(":" in room for room in doctor.ROOMS)


def test_a_network_file_system_is_recognised(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/x /home/me/net nfs4 rw 0 0\n"
        "tmpfs /home/me/with\\040blank tmpfs rw 0 0\n"
    )
    assert file_system_of(Path("/home/me/net/mindstone"), mounts) == "nfs4"
    assert file_system_of(Path("/home/me/network"), mounts) == "ext4"
    assert file_system_of(Path("/home/me/with blank/x"), mounts) == "tmpfs"
    assert file_system_of(Path("/"), tmp_path / "missing") == ""
