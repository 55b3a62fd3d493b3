"""Attaching keeps what is there, says it once, and can be undone to the byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui import hook
from mindstone_tui.core.errors import InterchangeError, UnknownName, UsageError
from mindstone_tui.core.interchange.attach import (
    SettingsChange,
    apply,
    everything_attached,
    forget,
    is_attached,
    plan_attach,
    plan_detach,
    remember,
)
from mindstone_tui.core.interchange.attach_targets import (
    TARGETS,
    AttachCommand,
    AttachTarget,
    settings_files,
    target_of,
)
from mindstone_tui.core.interchange.launcher import launcher_in, write_launcher
from mindstone_tui.core.paths import Places
from mindstone_tui.core.rules.book import RuleBook, Scope, StandingRule
from mindstone_tui.core.rules.grammar import compile_rule

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
    "qwen-code": {".qwen/settings.json": '{"mcpServers": {"other": {"command": "x"}}}'},
    "opencode": {".config/opencode/opencode.json": '{\n  // mine\n  "model": "a/b",\n}\n'},
    "goose": {
        ".config/goose/config.yaml": "GOOSE_MODEL: x\nextensions:\n    developer:\n        "
        "enabled: true\n        type: builtin\n"
    },
    "cursor": {".cursor/mcp.json": '{"mcpServers":{"other":{"command":"x"}}}'},
    "copilot-cli": {".copilot/mcp-config.json": '{"mcpServers": {"other": {"command": "x"}}}'},
    "cline": {".cline/data/settings/cline_mcp_settings.json": '{"mcpServers": {"a": {}}}\n'},
    "pi": {".pi/agent/AGENTS.md": "Be brief.\n"},
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
    apply(places(tmp_path), changes)
    return sum(each.changes for each in changes)


def detach(tmp_path: Path, program: AttachTarget, project: Path | None = None) -> None:
    apply(
        places(tmp_path), plan_detach(places(tmp_path), program, {"HOME": str(tmp_path)}, project)
    )
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
        elif path.suffix in (".yaml", ".md"):
            path.write_text(f"{text}NEW: 1\n")
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
        elif path.suffix in (".yaml", ".md"):
            assert now == f"{was.decode()}NEW: 1\n"
        elif "//" not in now:
            assert json.loads(now) == {"new": [1, 2], **json.loads(was)} or json.loads(was) == {
                "hooks": {}
            }


def test_a_moved_installation_replaces_its_own_lines(tmp_path: Path) -> None:
    program = target_of("claude-code")
    attach(tmp_path, program)
    moved = AttachCommand(("/elsewhere/mindstone",), "/srv/home")
    apply(places(tmp_path), plan_attach(program, moved, {"HOME": str(tmp_path)}))
    text = (tmp_path / ".claude/settings.json").read_text()
    assert "/opt" not in text
    assert text.count("/elsewhere/mindstone hook claude-code --home /srv/home") == 8
    servers = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]
    assert servers["mindstone"]["env"] == {"MINDSTONE_HOME": "/srv/home"}


def everything(tmp_path: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@EVERY
def test_after_a_change_and_a_move_nothing_of_ours_is_left_either(
    tmp_path: Path, program: AttachTarget
) -> None:
    """What stood there in between holds our own older lines: those are nothing to go back to."""
    before = settle(tmp_path, THEIRS[program.name])
    attach(tmp_path, program)
    for path in before:
        path.write_text(path.read_text() + "\n")
    moved = plan_attach(program, AttachCommand(("/new/mindstone",)), {"HOME": str(tmp_path)})
    remember(places(tmp_path), program, moved, None)
    apply(places(tmp_path), moved)
    detach(tmp_path, program)
    assert not [path for path in before if "mindstone" in path.read_text()]


@pytest.mark.parametrize("lost", [True, False])
def test_a_file_of_our_own_goes_after_a_move_too_if_it_is_known_for_one(
    tmp_path: Path, lost: bool
) -> None:
    program = target_of("claude-code")
    attach(tmp_path, program)
    files = [tmp_path / ".claude.json", tmp_path / ".claude/settings.json"]
    for path in files:
        path.write_text(path.read_text() + "\n")
    if lost:
        (places(tmp_path).state / "attached.json").unlink()
    moved = plan_attach(program, AttachCommand(("/new/mindstone",)), {"HOME": str(tmp_path)})
    remember(places(tmp_path), program, moved, None)
    apply(places(tmp_path), moved)
    detach(tmp_path, program)
    assert [path.exists() and path.read_text().split() for path in files] == (
        [["{}"], ["{}"]] if lost else [False, False]
    )


@EVERY
def test_a_move_without_a_change_is_undone_to_the_first_byte(
    tmp_path: Path, program: AttachTarget
) -> None:
    before = settle(tmp_path, THEIRS[program.name])
    attach(tmp_path, program)
    moved = plan_attach(program, AttachCommand(("/new/mindstone",)), {"HOME": str(tmp_path)})
    assert all(each.changes for each in moved)
    remember(places(tmp_path), program, moved, None)
    apply(places(tmp_path), moved)
    detach(tmp_path, program)
    assert {path: path.read_bytes() for path in before} == before


def _as_folder(path: Path) -> None:
    path.mkdir(parents=True)


def _as_huge(path: Path) -> None:
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)


def _as_bytes(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"theme": "\xff"}')


def _below_a_file(path: Path) -> None:
    path.parent.write_text("")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_as_folder, "is no settings file"),
        (_as_huge, "is no settings file"),
        (_as_bytes, "is no text"),
        (_below_a_file, "is a file, but a folder is needed there"),
    ],
)
def test_what_cannot_be_settings_is_left_alone(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(tmp_path / ".gemini" / "settings.json")
    before = everything(tmp_path)
    for act in (attach, detach):
        with pytest.raises(InterchangeError, match=why):
            act(tmp_path, target_of("gemini-cli"))
    assert everything(tmp_path) == before


def test_what_somebody_else_writes_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    program = target_of("claude-code")
    settle(tmp_path, THEIRS["claude-code"])
    changes = plan_attach(program, COMMAND, {"HOME": str(tmp_path)})
    for path, text in ((tmp_path / ".claude.json", "{}"), (tmp_path / ".claude/settings.json", "")):
        was = path.read_bytes()
        path.write_text(text)
        now = everything(tmp_path)
        with pytest.raises(InterchangeError, match="changed by somebody else meanwhile"):
            apply(places(tmp_path), changes)
        assert everything(tmp_path) == now
        path.write_bytes(was)
    (tmp_path / ".claude.json").unlink()
    with pytest.raises(InterchangeError, match="meanwhile"):
        apply(places(tmp_path), changes)


def test_a_plan_that_breaks_off_leaves_no_file_that_was_not_there(tmp_path: Path) -> None:
    changes = plan_attach(target_of("claude-code"), COMMAND, {"HOME": str(tmp_path)})
    last = type(changes[0])(path=Path("/proc/nowhere/x"), before=None, after=b"{}")
    with pytest.raises(InterchangeError, match="/proc/nowhere/x cannot be written") as refused:
        apply(places(tmp_path), [*changes, last])
    assert refused.value.remedy
    assert everything(tmp_path) == {}


def test_new_files_are_for_nobody_else(tmp_path: Path) -> None:
    attach(tmp_path, target_of("codex"))
    config = tmp_path / ".codex/config.toml"
    assert config.stat().st_mode & 0o777 == 0o600
    assert config.parent.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in config.parent.iterdir()} == {"hooks.json", "config.toml"}


HOOK = COMMAND.hook("claude-code")
OURS = {"type": "command", "command": HOOK, "timeout": 5}
OTHER = {"type": "command", "command": "say done"}


@pytest.mark.parametrize(
    ("hooks", "left"),
    [
        ({"Stop": [{"hooks": [OURS]}]}, None),
        ({"Stop": [{"hooks": [OURS, OTHER]}]}, {"Stop": [{"hooks": [OTHER]}]}),
        ({"Stop": [{"hooks": [OTHER, OURS, OURS]}]}, {"Stop": [{"hooks": [OTHER]}]}),
        ({"Stop": [{"hooks": [OURS]}, {"hooks": [OTHER]}]}, {"Stop": [{"hooks": [OTHER]}]}),
        ({"Stop": [{"hooks": [OURS]}], "Other": []}, {"Other": []}),
        ({"Stop": [{"hooks": [OURS]}], "Mine": [{"hooks": []}]}, {"Mine": [{"hooks": []}]}),
        ({"Stop": [{"hooks": [OTHER]}]}, {"Stop": [{"hooks": [OTHER]}]}),
        ({"Stop": []}, {"Stop": []}),
        ({}, {}),
        ({"Stop": [{"matcher": "x"}, {"hooks": [{"type": "x"}]}]},
         {"Stop": [{"matcher": "x"}, {"hooks": [{"type": "x"}]}]}),
        ({"Stop": [{"hooks": [{"command": "mindstone hook codex"}]}]},
         {"Stop": [{"hooks": [{"command": "mindstone hook codex"}]}]}),
        ({"Stop": [{"hooks": [{"command": "stone hook claude-code"}]}]},
         {"Stop": [{"hooks": [{"command": "stone hook claude-code"}]}]}),
        ({"Stop": [{"hooks": [{"command": 7}]}]}, {"Stop": [{"hooks": [{"command": 7}]}]}),
        ({"Stop": [{"hooks": [{"command": "/x/mindstone hook claude-code"}]}]}, None),
    ],
)  # fmt: skip
def test_only_our_hooks_go_and_what_they_leave_empty(
    tmp_path: Path, hooks: dict[str, object], left: dict[str, object] | None
) -> None:
    """Without a memory of what was written, as after another home: by what stands there."""
    settle(tmp_path, {".claude/settings.json": json.dumps({"a": 1, "hooks": hooks})})
    detach(tmp_path, target_of("claude-code"))
    now = json.loads((tmp_path / ".claude/settings.json").read_text())
    assert now == ({"a": 1} if left is None else {"a": 1, "hooks": left})


@pytest.mark.parametrize(
    ("servers", "left"),
    [
        ({"mindstone": {"command": "x"}}, None),
        ({"mindstone": {"command": "x"}, "other": {}}, {"other": {}}),
        ({"other": {}}, {"other": {}}),
        ({}, {}),
    ],
)
def test_only_our_server_goes_and_what_it_leaves_empty(
    tmp_path: Path, servers: dict[str, object], left: dict[str, object] | None
) -> None:
    settle(tmp_path, {".claude.json": json.dumps({"a": 1, "mcpServers": servers})})
    detach(tmp_path, target_of("claude-code"))
    now = json.loads((tmp_path / ".claude.json").read_text())
    assert now == ({"a": 1} if left is None else {"a": 1, "mcpServers": left})


WORDY = AttachCommand(("/usr/bin/python3", "-m", '"mindstone\x7f'), "/srv/my home")


@pytest.mark.parametrize("text", ["", "a = 1", "a = 1\n", "a = 1\n\n", "[t]\na = 1\n"])
def test_a_server_stands_apart_in_toml_and_leaves_no_gap(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".codex/config.toml"
    settle(tmp_path, {".codex/config.toml": text})
    program = target_of("codex")
    apply(places(tmp_path), plan_attach(program, WORDY, {"HOME": str(tmp_path)}))
    written = path.read_text()
    assert written.startswith(text)
    assert ("\n\n[mcp_servers.mindstone]\n" in written) is bool(text)
    assert "\n\n\n" not in written
    server = tomllib.loads(written)["mcp_servers"]["mindstone"]
    assert server == WORDY.server(program)
    assert server == {
        "command": "/usr/bin/python3",
        "args": ["-m", '"mindstone\x7f', "mcp"],
        "env": {"MINDSTONE_HOME": "/srv/my home"},
    }
    assert not any(each.changes for each in plan_attach(program, WORDY, {"HOME": str(tmp_path)}))
    apply(places(tmp_path), plan_attach(program, COMMAND, {"HOME": str(tmp_path)}))
    assert tomllib.loads(path.read_text())["mcp_servers"]["mindstone"] == COMMAND.server(program)
    apply(places(tmp_path), plan_detach(places(tmp_path), program, {"HOME": str(tmp_path)}))
    assert path.read_text().rstrip("\n") == text.rstrip("\n")
    assert not path.read_text().endswith("\n\n") or text.endswith("\n\n")


def test_a_server_that_moved_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    settle(tmp_path, {".claude.json": '{"mcpServers": {"mindstone": {"command": "old"}}}'})
    program, environ = target_of("claude-code"), {"HOME": str(tmp_path)}
    apply(places(tmp_path), plan_attach(program, COMMAND, environ))
    servers = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]
    assert servers == {"mindstone": {"command": "/opt/mindstone tools/mindstone", "args": ["mcp"]}}
    assert not plan_attach(program, COMMAND, environ)[1].changes


def test_every_event_has_one_hook_with_its_timeout(tmp_path: Path) -> None:
    for program in (each for each in TARGETS.values() if each.hooks):
        attach(tmp_path, program)
        path = settings_files(program, {"HOME": str(tmp_path)}, None)["hooks"]
        hooks = json.loads(path.read_text())["hooks"]
        assert set(hooks) == set(program.events)
        for event, (group,) in hooks.items():
            (call,) = group["hooks"]
            usual = {"claude-code": 5, "codex": 3}.get(program.name, 5_000)
            refuses = event in ("PreToolUse", "BeforeTool")
            assert call["timeout"] == usual * (3 if refuses else 1)
            assert call["command"] == COMMAND.hook(program.name, event)


def test_each_program_is_given_a_tool_server_in_its_own_words(tmp_path: Path) -> None:
    command = AttachCommand(("/opt/mindstone",), "/srv/home")
    env = {"MINDSTONE_HOME": "/srv/home"}
    usual = {"command": "/opt/mindstone", "args": ["mcp"], "env": env}
    goose = {"enabled": True, "type": "stdio", "name": "mindstone", "cmd": "/opt/mindstone"}
    expected = {
        "opencode": {
            "type": "local",
            "command": ["/opt/mindstone", "mcp"],
            "enabled": True,
            "environment": env,
        },
        "goose": {**goose, "args": ["mcp"], "envs": env, "timeout": 60},
        "copilot-cli": {"type": "local", "tools": ["*"], **usual},
    }
    for program in TARGETS.values():
        assert command.server(program) == expected.get(program.name, usual)
    changes = plan_attach(target_of("goose"), command, {"HOME": str(tmp_path)})
    head, line = (changes[0].after or b"").decode().splitlines()
    assert head == "extensions:"
    assert json.loads(line.removeprefix("  mindstone: ")) == expected["goose"]
    guidance = plan_attach(target_of("pi"), command, {"HOME": str(tmp_path)})[0].after or b""
    assert b"env MINDSTONE_HOME=/srv/home /opt/mindstone recall --scope all" in guidance


def test_what_a_program_wrote_anew_in_its_own_way_is_taken_out_as_well(tmp_path: Path) -> None:
    goose = "extensions:\n  a:\n    enabled: true\n"
    file = tmp_path / ".config/goose/config.yaml"
    settle(tmp_path, {".config/goose/config.yaml": goose})
    attach(tmp_path, target_of("goose"))
    block = "  mindstone:\n    enabled: true\n    args:\n      - mcp\n  b:\n    enabled: true\n"
    file.write_text(f"{goose}{block}")
    detach(tmp_path, target_of("goose"))
    assert file.read_text() == f"{goose}  b:\n    enabled: true\n"


def test_a_line_of_yaml_stands_where_the_others_do_or_nowhere(tmp_path: Path) -> None:
    goose, file = target_of("goose"), tmp_path / ".config/goose/config.yaml"
    for text in ("extensions:\n# mine\n\n    a:\n        b: 1\n", "extensions:\nx: 1\n", "x: 1"):
        settle(tmp_path, {".config/goose/config.yaml": text})
        attach(tmp_path, goose)
        lines = file.read_text().splitlines()
        (ours,) = [line for line in lines if "mindstone:" in line]
        assert ours.startswith("    mindstone: {" if "    a:" in lines else "  mindstone: {")
        assert lines[lines.index(ours) - 1] == "extensions:"
        detach(tmp_path, goose)
        assert file.read_text() == text
    for text in ("extensions: {}\n", "extensions:\n  - type: builtin\n"):
        settle(tmp_path, {".config/goose/config.yaml": text})
        with pytest.raises(InterchangeError, match="leave no place"):
            attach(tmp_path, goose)


def test_where_a_program_has_no_settings_for_a_project_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no settings for a project"):
        attach(tmp_path, target_of("goose"), tmp_path)


def test_two_of_the_same_hook_become_one(tmp_path: Path) -> None:
    program = target_of("claude-code")
    attach(tmp_path, program)
    path = tmp_path / ".claude/settings.json"
    told = json.loads(path.read_text())
    whole = json.loads(path.read_text())
    told["hooks"]["Stop"] *= 2
    path.write_text(json.dumps(told))
    apply(places(tmp_path), plan_attach(program, COMMAND, {"HOME": str(tmp_path)}))
    assert json.loads(path.read_text()) == whole


@pytest.mark.parametrize(
    ("name", "environ", "project", "hooks", "servers"),
    [
        ("claude-code", {}, "", ".claude/settings.json", ".claude.json"),
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/c"}, "", "/c/settings.json", "/c/.claude.json"),
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/c"}, "/p",
         "/p/.claude/settings.local.json", "/p/.mcp.json"),
        ("codex", {}, "", ".codex/hooks.json", ".codex/config.toml"),
        ("codex", {"CODEX_HOME": "/c"}, "", "/c/hooks.json", "/c/config.toml"),
        ("codex", {"CODEX_HOME": "/c"}, "/p", "/p/.codex/hooks.json", "/p/.codex/config.toml"),
        ("gemini-cli", {}, "", ".gemini/settings.json", ".gemini/settings.json"),
        ("gemini-cli", {}, "/p", "/p/.gemini/settings.json", "/p/.gemini/settings.json"),
    ],
)  # fmt: skip
def test_each_program_keeps_its_settings_where_it_says(
    name: str, environ: dict[str, str], project: str, hooks: str, servers: str
) -> None:
    where = Path(project) if project else None
    found = settings_files(target_of(name), {"HOME": "/home/me", **environ}, where)
    assert found == {"hooks": Path("/home/me") / hooks, "servers": Path("/home/me") / servers}


def test_the_last_one_that_is_detached_takes_what_was_kept_with_it(tmp_path: Path) -> None:
    own = places(tmp_path)
    assert not is_attached(own)
    project = tmp_path / "app"
    project.mkdir()
    program = target_of("claude-code")
    attach(tmp_path, program)
    attach(tmp_path, program, project)
    kept = json.loads((own.state / "attached.json").read_text())
    assert set(kept["files"]) == {"claude-code", f"claude-code {project}"}
    launcher = own.state / "mindstone-hook"
    write_launcher(launcher, COMMAND.words, sys.executable, ROOT, tmp_path)
    assert launcher.stat().st_mode & 0o777 == 0o700
    detach(tmp_path, program, project)
    assert is_attached(own)
    assert launcher.exists()
    forget(own, target_of("codex"), None)
    assert is_attached(own), "that one was never attached"
    detach(tmp_path, program)
    assert not is_attached(own)
    assert not list(own.state.iterdir())


def test_what_is_kept_may_be_lost_or_spoiled(tmp_path: Path) -> None:
    """Then our lines are found by what they say."""
    program = target_of("gemini-cli")
    before = settle(tmp_path, THEIRS["gemini-cli"])
    attach(tmp_path, program)
    (places(tmp_path).state / "attached.json").write_text("{")
    detach(tmp_path, program)
    assert {path: path.read_bytes() for path in before} == before


def test_a_change_is_shown_around_its_lines_and_without_secrets(tmp_path: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(20)).encode()
    change = SettingsChange(
        path=tmp_path / "x", before=old, after=old.replace(b"line 9\n", b"secret\n")
    )
    shown = change.diff(lambda line: line.replace("secret", "•••"))
    assert shown[:2] == [f"--- {tmp_path}/x", f"+++ {tmp_path}/x"]
    assert shown[3:] == [" line 7", " line 8", "-line 9", "+•••", " line 10", " line 11"]
    gone = SettingsChange(path=tmp_path / "x", before=b"a\n", after=None)
    assert gone.diff()[-1] == "-a"
    assert gone.changes
    assert not SettingsChange(path=tmp_path / "x", before=None, after=None).changes


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
    launcher = launcher_in(own)
    assert launcher is not None
    instead = tmp_path / "mindstone"
    instead.write_text('#!/bin/sh\necho instead "$@"\n')
    instead.chmod(0o755)
    command = AttachCommand((str(instead),), launcher=str(launcher))
    write_launcher(launcher, command.words, sys.executable, ROOT, tmp_path)
    # No resident is started by a moment that another hook saw just now.
    (own.state / "hook-started").touch()
    assert run(launcher, "codex") == (0, "")

    write_launcher(launcher, command.words, sys.executable, tmp_path / "gone", own.data)
    assert run(launcher, "codex") == (0, "instead hook codex\n")

    program = target_of("claude-code")
    changes = plan_attach(program, command, {"HOME": str(tmp_path)})
    remember(own, program, changes, None)
    apply(places(tmp_path), changes)
    text = (tmp_path / ".claude/settings.json").read_text()
    assert text.count(f"{launcher} claude-code") == 9
    assert plan_attach(program, COMMAND, {"HOME": str(tmp_path)})[0].changes
    apply(places(tmp_path), plan_detach(own, program, {"HOME": str(tmp_path)}))
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
        path = launcher_in(self.home) if launcher else None
        self.command = AttachCommand((str(self.script),), launcher=str(path) if path else "")
        if path is not None:
            write_launcher(path, self.command.words, str(self.python), self.package, self.home.data)

    def hook(
        self, program: str = "claude-code", event: str = "", cwd: Path | None = None
    ) -> tuple[int, bytes, bytes]:
        """Run the line that stands in the settings as programs run it."""
        done = subprocess.run(
            ["sh", "-c", self.command.hook(program, event)],
            cwd=cwd,
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
    (installed.home.state / "hook-started").touch()  # no resident is to be started
    GONE[gone](installed)
    for program in ("claude-code", "codex", "claude-code", "codex"):
        assert installed.hook(program) == (0, b"", b"")
    log = installed.home.log
    if launcher and gone not in ("the home", "everything", "the right to run it"):
        first, second = log.read_text().splitlines()
        assert " hook claude-code: " in first
        assert " hook codex: " in second
        assert log.stat().st_mode & 0o777 == 0o600
    assert installed.home.data.exists() == (gone not in ("the home", "everything"))


def test_what_a_hook_cannot_write_is_a_line_in_the_log(
    tmp_path: Path,
) -> None:
    installed = Installed(tmp_path, launcher=True)
    stamp = installed.home.state / "hook-started"
    stamp.mkdir()  # so that it cannot be written, whoever runs this
    os.utime(stamp, (0, 0))
    assert installed.hook() == (0, b"", b"")
    assert "hook claude-code: IsADirectoryError" in installed.home.log.read_text()


def test_before_a_tool_nothing_is_loaded_where_no_rule_could_speak(tmp_path: Path) -> None:
    installed = Installed(tmp_path, launcher=True)
    installed.python.unlink()  # so that whoever loads anything leaves a line in the log
    installed.script.unlink()
    here, inside = tmp_path / "it's here", tmp_path / "it's here" / "src"
    inside.mkdir(parents=True)
    (tmp_path / "link").symlink_to(here)
    book = RuleBook(installed.home)

    def loads(cwd: Path) -> bool:
        installed.home.log.unlink(missing_ok=True)
        assert installed.hook(event="PreToolUse", cwd=cwd) == (0, b"", b"")
        return installed.home.log.exists()

    def rule(words: str, scope: Scope, folder: str = "") -> None:
        told = {"number": 0, "session": "s", "line": 1, "since": ""}
        check = compile_rule(words)
        rule = {**told, "words": words, "scope": scope, "folder": folder}
        new = msgspec.convert({**rule, "check": msgspec.to_builtins(check)}, StandingRule)
        book.add(lambda number: msgspec.structs.replace(new, number=number))

    assert not loads(here), "there are no rules"
    rule("Be concise", "everywhere")
    rule("Never force push", "session")
    rule("Never force push", "project", f"{here}")
    assert [loads(each) for each in (here, inside, tmp_path / "link")] == [True] * 3
    assert not loads(tmp_path)
    assert not loads(installed.environment)
    rules = installed.home.data / "rules.json"
    os.utime(rules, (2**31, 2**31))
    assert loads(tmp_path), "the list is older than the rules"
    rule("Never rebase", "everywhere")
    assert loads(tmp_path)
    for number in (3, 4):
        book.retire(number, "2026-11-18")
    assert not loads(here)


@pytest.mark.parametrize("gone", ["the package", "the environment"])
async def test_an_uninstalled_tool_server_is_one_without_tools(tmp_path: Path, gone: str) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    installed = Installed(tmp_path, launcher=True)
    GONE[gone](installed)
    server = installed.command.server(target_of("claude-code"))
    asked = StdioServerParameters(command=server["command"], args=server["args"])
    async with stdio_client(asked) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.send_ping()
        assert (await session.list_tools()).tools == []


def test_where_a_program_of_ours_would_not_run_the_hook_is_the_command_itself(
    tmp_path: Path,
) -> None:
    own = places(tmp_path)
    own.state.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(own.state)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert launcher_in(own) is None
    finally:
        subprocess.run(["umount", "-l", str(own.state)], check=False)
    assert launcher_in(own) is not None


COMMENTED = (
    '{\n  // mine\n  "model": "opus", // "//" and , ]\n  /* a\n  b */ "x": ["// no, }", 1,],\n}\n'
)


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_settings_that_the_program_would_not_read_are_not_called_attached(
    tmp_path: Path, name: str
) -> None:
    program = target_of(name)
    file = settings_files(program, {"HOME": str(tmp_path)}, None)["hooks"]
    settle(tmp_path, {str(file.relative_to(tmp_path)): COMMENTED})
    with pytest.raises(InterchangeError, match=f"line 2 .*{program.title} reads no settings") as no:
        attach(tmp_path, program)
    assert f"attach {name} --without-comments" in no.value.remedy
    assert file.read_text() == COMMENTED

    changes = plan_attach(program, COMMAND, {"HOME": str(tmp_path)}, without_comments=True)
    remember(places(tmp_path), program, changes, None)
    apply(places(tmp_path), changes)
    told = json.loads(file.read_text())
    assert told["model"] == "opus"
    assert told["x"] == ["// no, }", 1]
    assert set(told["hooks"]) == set(program.events)
    detach(tmp_path, program)
    assert file.read_text() == COMMENTED


def test_everything_is_undone_wherever_it_was_attached(tmp_path: Path) -> None:
    """Also where the variable that named a folder is no longer set, and in every project."""
    project, elsewhere, own = tmp_path / "app", tmp_path / "elsewhere", places(tmp_path)
    project.mkdir()
    claude, environ = target_of("claude-code"), {"HOME": str(tmp_path)}
    before = settle(tmp_path, {**THEIRS["codex"], ".gemini/settings.json": "{}"})
    attach(tmp_path, target_of("codex"))
    attach(tmp_path, claude, project)
    changes = plan_attach(claude, COMMAND, {**environ, "CLAUDE_CONFIG_DIR": str(elsewhere)})
    remember(own, claude, changes, None)
    apply(places(tmp_path), changes)
    for program, where in everything_attached(own):
        apply(places(tmp_path), plan_detach(own, program, environ, where))
        forget(own, program, where)
    assert {path: path.read_bytes() for path in before} == before
    left = [each for each in tmp_path.rglob("*") if each.is_file() and each not in before]
    assert left == []


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
        apply(places(tmp_path), blocked)
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


def test_a_program_may_be_called_by_the_command_that_starts_it() -> None:
    assert target_of("claude").name == "claude-code"
    assert target_of("codex").name == "codex"


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
        assert {each.name for each in place.iterdir()} == {"fill", "mindstone.log"}
        assert "hook codex: the disk is full" in (place / "mindstone.log").read_text()
        (place / "fill").unlink()
        assert not hook._is_full(str(place))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        assert hook._is_full(str(place))
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_the_next_command_removes_what_a_killed_attach_left_beside_the_settings(
    tmp_path: Path,
) -> None:
    settle(tmp_path, THEIRS["claude-code"])
    before = everything(tmp_path)
    killed = (
        "import os, signal, sys; from mindstone_tui.__main__ import main; real = os.replace\n"
        "os.replace = lambda old, new, **more: (\n"
        "    os.kill(os.getpid(), signal.SIGKILL) if '.claude' in str(new) else None\n"
        ") or real(old, new, **more)\n"
        "sys.argv = ['mindstone', 'attach', 'claude-code', '--yes']; main()"
    )
    environ = {"HOME": str(tmp_path), "MINDSTONE_HOME": str(tmp_path / "ours"), "PATH": os.defpath}

    def run(*words: str) -> int:
        done = subprocess.run(
            [sys.executable, *words], env=environ, cwd=tmp_path, capture_output=True, check=False
        )
        return done.returncode

    def left() -> set[Path]:
        found = {path for path in everything(tmp_path) if "ours" not in path.parts}
        return found - set(before)

    assert run("-c", killed) == -signal.SIGKILL
    assert len(left()) == 1
    assert run("-m", "mindstone_tui", "waiting") == 0
    assert not left()


@pytest.mark.parametrize(
    "moment",
    [
        b'{}},"method":"stop","params":{"said":{}',
        b'{"a":1}},"method":"stop","params":{"said":{"b":[]}',
        b'{"a":"\\\\"}},"method":"stop","params":{"b":{}',
        b'{}\n{"jsonrpc":"2.0","id":2,"method":"stop"}',
        b'{"a":"}',
        b"{" * 600_000 + b"}" * 600_000,
        b"[]",
        b"",
    ],
)
def test_a_moment_that_would_end_before_its_last_sign_is_not_passed_on(moment: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - it is told by its absence
        hook._said(moment, before=True)


@given(st.dictionaries(st.text(), st.recursive(st.text() | st.none(), st.lists), max_size=5))
def test_every_object_is_passed_on_as_one_line(moment: dict[str, object]) -> None:
    for written in (json.dumps(moment), json.dumps(moment, ensure_ascii=False, indent=1)):
        line = hook._said(written.encode("utf-8", "surrogatepass"), before=False)
        assert b"\n" not in line
        assert json.loads(line.decode("utf-8", "surrogatepass")) == moment
