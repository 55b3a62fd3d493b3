"""Attaching keeps what is there, says it once, and can be undone to the byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from mindstone_tui import hook
from mindstone_tui.core.errors import InterchangeError, UnknownName
from mindstone_tui.core.interchange.attach import (
    TARGETS,
    AttachCommand,
    AttachTarget,
    apply,
    forget,
    launcher_in,
    plan_attach,
    plan_detach,
    remember,
    settings_files,
    target_of,
    write_launcher,
)
from mindstone_tui.core.paths import Places

ROOT = Path(__file__).parents[3]
COMMAND = AttachCommand(("/opt/mindstone tools/mindstone",))
THEIRS = {
    "claude-code": {
        ".claude/settings.json": (
            '{\n  "model": "opus",\n  "hooks": {"Stop": [{"hooks": '
            '[{"type": "command", "command": "say done"}]}]}\n}'
        ),
        ".claude.json": '{"numStartups":3,"mcpServers":{"other":{"command":"x"}}}',
    },
    "codex": {
        ".codex/hooks.json": '{"hooks": {}}\n',
        ".codex/config.toml": 'model = "gpt"\n\n[mcp_servers.other]\ncommand = "x"\n',
    },
    "gemini-cli": {".gemini/settings.json": '{\n\t// mine\n\t"theme": "dark",\n}\n'},
}
EVERY = pytest.mark.parametrize("program", list(TARGETS.values()), ids=list(TARGETS))


def places(tmp_path: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(tmp_path / "ours")})


def settle(tmp_path: Path, files: dict[str, str]) -> dict[Path, bytes]:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {tmp_path / name: text.encode() for name, text in files.items()}


def attach(tmp_path: Path, program: AttachTarget, project: Path | None = None) -> int:
    changes = plan_attach(program, COMMAND, {"HOME": str(tmp_path)}, project)
    remember(places(tmp_path), program, changes, project)
    apply(changes)
    return sum(each.changes for each in changes)


def detach(tmp_path: Path, program: AttachTarget, project: Path | None = None) -> None:
    apply(plan_detach(places(tmp_path), program, {"HOME": str(tmp_path)}, project))
    forget(places(tmp_path), program, project)


@EVERY
def test_undoing_gives_back_every_byte(tmp_path: Path, program: AttachTarget) -> None:
    before = settle(tmp_path, THEIRS[program.name])
    assert attach(tmp_path, program) == len(before)
    assert all(path.read_bytes() != was for path, was in before.items())
    detach(tmp_path, program)
    assert {path: path.read_bytes() for path in before} == before


@EVERY
def test_files_that_were_not_there_are_gone_again(tmp_path: Path, program: AttachTarget) -> None:
    attach(tmp_path, program)
    files = set(settings_files(program, {"HOME": str(tmp_path)}, None).values())
    assert all(path.exists() for path in files)
    detach(tmp_path, program)
    assert not any(path.exists() for path in files)


@EVERY
def test_attaching_twice_changes_nothing_and_is_undone_once(
    tmp_path: Path, program: AttachTarget
) -> None:
    before = settle(tmp_path, THEIRS[program.name])
    attach(tmp_path, program)
    assert attach(tmp_path, program) == 0
    detach(tmp_path, program)
    assert {path: path.read_bytes() for path in before} == before


@EVERY
def test_after_a_change_by_somebody_else_only_our_lines_go(
    tmp_path: Path, program: AttachTarget
) -> None:
    before = settle(tmp_path, THEIRS[program.name])
    attach(tmp_path, program)
    for path in before:
        text = path.read_text()
        if path.suffix == ".toml":
            path.write_text(text.replace('"gpt"', '"gpt-6"') + "[tui]\nbell = true\n")
        else:
            path.write_text(text.replace("{", '{"new": [1, 2],', 1))
    detach(tmp_path, program)
    for path, was in before.items():
        now = path.read_text()
        assert "mindstone" not in now
        if path.suffix == ".toml":
            assert tomllib.loads(now) == {
                "model": "gpt-6",
                "mcp_servers": {"other": {"command": "x"}},
                "tui": {"bell": True},
            }
        elif "//" not in now:
            assert json.loads(now) == {"new": [1, 2], **json.loads(was)} or json.loads(was) == {
                "hooks": {}
            }


def test_a_moved_installation_replaces_its_own_lines(tmp_path: Path) -> None:
    program = target_of("claude-code")
    attach(tmp_path, program)
    moved = AttachCommand(("/elsewhere/mindstone",), "/srv/home")
    apply(plan_attach(program, moved, {"HOME": str(tmp_path)}))
    text = (tmp_path / ".claude/settings.json").read_text()
    assert "/opt" not in text
    assert text.count("/elsewhere/mindstone hook claude-code --home /srv/home") == 7
    servers = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]
    assert servers["mindstone"]["env"] == {"MINDSTONE_HOME": "/srv/home"}


def run(launcher: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(launcher), *words],
        input=b'{"hook_event_name": "Stop"}',
        stdout=subprocess.PIPE,
        env={"PATH": os.defpath},
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode()


def test_the_launcher_is_the_hook_and_finds_the_program_where_the_package_has_moved(
    tmp_path: Path,
) -> None:
    own = places(tmp_path)
    launcher = launcher_in(own, sys.executable)
    assert launcher is not None
    instead = tmp_path / "mindstone"
    instead.write_text('#!/bin/sh\necho instead "$@"\n')
    instead.chmod(0o755)
    command = AttachCommand((str(instead),), launcher=str(launcher))
    write_launcher(launcher, command, sys.executable, ROOT)
    # No resident is started by a moment that another hook saw just now.
    (own.state / "hook-started").touch()
    assert run(launcher, "codex") == (0, "")

    write_launcher(launcher, command, sys.executable, tmp_path / "gone")
    assert run(launcher, "codex") == (0, "instead hook codex\n")

    program = target_of("claude-code")
    changes = plan_attach(program, command, {"HOME": str(tmp_path)})
    remember(own, program, changes, None)
    apply(changes)
    text = (tmp_path / ".claude/settings.json").read_text()
    assert text.count(f"{launcher} claude-code") == 7
    assert plan_attach(program, COMMAND, {"HOME": str(tmp_path)})[0].changes
    apply(plan_detach(own, program, {"HOME": str(tmp_path)}))
    forget(own, program, None)
    assert not launcher.exists()
    assert not (tmp_path / ".claude/settings.json").exists()


class Installed:
    """An installation with a home, attached; parts of it can be taken away."""

    def __init__(self, folder: Path, *, launcher: bool) -> None:
        self.home = places(folder)
        self.home.state.mkdir(parents=True)
        self.environment = folder / "environment"
        self.package = self.environment / "lib"
        shutil.copytree(
            ROOT / "mindstone_tui", self.package / "mindstone_tui", ignore=_only_the_hook
        )
        self.python = self.environment / "bin" / "python"
        self.python.parent.mkdir()
        self.python.symlink_to(sys.executable)
        self.script = self.python.with_name("mindstone")
        self.script.write_text(f"#!{self.python}\nimport mindstone_tui.core.paths\n")
        self.script.chmod(0o755)
        path = launcher_in(self.home, str(self.python)) if launcher else None
        self.command = AttachCommand((str(self.script),), launcher=str(path) if path else "")
        if path is not None:
            write_launcher(path, self.command, str(self.python), self.package)

    def hook(self) -> tuple[int, bytes, bytes]:
        """Run the line that stands in the settings as programs run it."""
        done = subprocess.run(
            ["sh", "-c", self.command.hook("claude-code")],
            input=b'{"hook_event_name": "UserPromptSubmit", "prompt": "hi", "session_id": "s"}',
            capture_output=True,
            env={"PATH": os.defpath, "HOME": str(self.environment)},
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


def _only_the_hook(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name not in ("mindstone_tui", "hook.py", "__init__.py")]


def _uninstall(one: Installed) -> None:
    shutil.rmtree(one.package / "mindstone_tui")
    one.script.unlink()


def _break_the_package(one: Installed) -> None:
    (one.package / "mindstone_tui" / "hook.py").write_text("def main(words): raise SystemExit(3)")


def _forbid(one: Installed) -> None:
    for path in (one.script, Path(one.command.launcher or one.script)):
        path.chmod(0)


def _remove_everything(one: Installed) -> None:
    shutil.rmtree(one.environment)
    shutil.rmtree(one.home.data)


GONE: dict[str, Callable[[Installed], None]] = {
    "the package": _uninstall,
    "half of the package": _break_the_package,
    "the interpreter": lambda one: one.python.unlink(),
    "the environment": lambda one: shutil.rmtree(one.environment),
    "the home": lambda one: shutil.rmtree(one.home.data),
    "everything": _remove_everything,
    "the right to run it": _forbid,
}


@pytest.mark.parametrize("launcher", [True, False], ids=["launcher", "command"])
@pytest.mark.parametrize("gone", GONE)
def test_whatever_is_gone_a_hook_says_nothing_and_ends_well(
    tmp_path: Path, gone: str, *, launcher: bool
) -> None:
    installed = Installed(tmp_path / "it's-here", launcher=launcher)
    GONE[gone](installed)
    assert installed.hook() == (0, b"", b"")


def test_where_a_program_of_ours_would_not_run_the_hook_is_the_command_itself(
    tmp_path: Path,
) -> None:
    assert launcher_in(places(tmp_path), "/opt/my tools/python") is None
    assert launcher_in(places(tmp_path), f"/{'x' * 200}/python") is None


def test_a_project_gets_its_own_files(tmp_path: Path) -> None:
    program, project = target_of("claude-code"), tmp_path / "app"
    project.mkdir()
    attach(tmp_path, program, project)
    assert (project / ".claude/settings.local.json").exists()
    assert (project / ".mcp.json").exists()
    assert not (tmp_path / ".claude").exists()
    detach(tmp_path, program, project)
    assert not (project / ".mcp.json").exists()


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("claude-code", ".claude/settings.json", '{"hooks": '),
        ("claude-code", ".claude/settings.json", '{"hooks": []}'),
        ("claude-code", ".claude.json", "[]"),
        ("codex", ".codex/config.toml", "model = "),
        ("codex", ".codex/config.toml", 'mcp_servers = { a = { command = "x" } }\n'),
        ("gemini-cli", ".gemini/settings.json", "\xff not json"),
    ],
)
def test_a_broken_settings_file_is_named_and_nothing_is_touched(
    tmp_path: Path, name: str, file: str, text: str
) -> None:
    before = settle(tmp_path, {file: text})
    with pytest.raises(InterchangeError, match="Nothing was changed") as refused:
        attach(tmp_path, target_of(name))
    assert file in refused.value.what
    assert {path: path.read_bytes() for path in before} == before
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == list(before)


def test_when_the_second_file_cannot_be_written_the_first_is_put_back(tmp_path: Path) -> None:
    program = target_of("claude-code")
    before = settle(tmp_path, {".claude/settings.json": "{}\n"})
    changes = plan_attach(program, COMMAND, {"HOME": str(tmp_path)})
    blocked = [
        changes[0],
        type(changes[1])(path=Path("/proc/nowhere/x"), before=None, after=b"{}"),
    ]
    with pytest.raises(InterchangeError, match="Nothing was changed"):
        apply(blocked)
    assert {path: path.read_bytes() for path in before} == before


def test_a_link_to_settings_stays_a_link_and_its_mode_stays(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    settle(tmp_path, {"dotfiles/claude.json": "{}\n"})
    real.chmod(0o640)
    link = tmp_path / ".claude/settings.json"
    link.parent.mkdir()
    link.symlink_to(real)
    attach(tmp_path, target_of("claude-code"))
    assert link.is_symlink()
    assert "mindstone" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_an_unknown_program_is_answered_with_those_that_can_be() -> None:
    with pytest.raises(UnknownName, match="cannot be attached"):
        target_of("emacs")


def test_a_hook_waits_for_no_resident_on_a_full_disk(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert not hook._is_full(str(place))
        (place / "fill").write_bytes(bytes(900 << 10))
        assert hook._is_full(str(place))
        said = b'{"hook_event_name":"UserPromptSubmit","prompt":"hello"}'
        command = [sys.executable, "-m", "mindstone_tui", "hook", "codex", "--state", str(place)]
        environ = {**os.environ, "MINDSTONE_HOME": ""}
        done = subprocess.run(command, input=said, env=environ, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert [each.name for each in place.iterdir()] == ["fill"]
        (place / "fill").unlink()
        assert not hook._is_full(str(place))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        assert hook._is_full(str(place))
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
