"""What attached programs call is ours, and lies where nobody else can replace it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui import api
from mindstone_tui.core.disk import open_to_changes
from mindstone_tui.core.interchange.launcher import LAUNCHER
from mindstone_tui.servers.attached import Attached
from tests.cli.program import mindstone_here

BITS = st.sampled_from((0o700, 0o750, 0o755, 0o770, 0o775, 0o702, 0o777, 0o1777, 0o1770))


@given(modes=st.lists(BITS, min_size=1, max_size=4))
def test_a_place_is_safe_if_nobody_else_may_write_on_the_way_to_it(
    tmp_path_factory: pytest.TempPathFactory, modes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("way")
    for number, mode in enumerate(modes):
        folder = folder / str(number)
        folder.mkdir()
        folder.chmod(mode)
    unsafe = [mode for mode in modes if mode & 0o022 and not mode & 0o1000]
    commands = open_to_changes(folder / LAUNCHER)
    assert len(commands) == len(unsafe)
    for command in commands:
        subprocess.run(command, shell=True, check=True)
    assert open_to_changes(folder / LAUNCHER) == []


def test_a_link_is_as_safe_as_the_place_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "inner")
    assert open_to_changes(tmp_path / "link" / LAUNCHER) == []
    (tmp_path / "real").chmod(0o777)
    assert open_to_changes(tmp_path / "link" / LAUNCHER) == [f"chmod go-w {tmp_path}/real"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_unsafe(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(0o755)
    os.chown(tmp_path / "theirs", 12_345, -1)
    assert open_to_changes(tmp_path / "theirs" / LAUNCHER) == [
        f"sudo chown 0 {tmp_path}/theirs",
    ]


def test_nothing_is_attached_where_others_could_replace_the_launcher(
    home: Path, tmp_path: Path
) -> None:
    (home / "state").mkdir(parents=True)
    (home / "state").chmod(0o775)
    refused = mindstone_here("attach", "claude-code", "--yes")
    assert refused.returncode != 0
    assert f"chmod go-w {home}/state" in refused.stderr
    assert not (tmp_path / ".claude").exists()
    assert not (home / "state" / LAUNCHER).exists()
    (home / "state").chmod(0o755)
    assert mindstone_here("attach", "claude-code", "--yes").returncode == 0


def outcome_of_launcher() -> dict[str, str]:
    told = json.loads(mindstone_here("doctor", "--json").stdout)
    return next(check for check in told["checks"] if check["id"] == "launcher")


async def answer_to_a_hook(home: Path, folder: Path) -> object:
    attached = Attached(api.Home(home, {"HOME": str(folder)}))
    said = {"hook_event_name": "SessionStart", "session_id": "x", "cwd": str(folder)}
    answer = await attached.methods()["hook"]({"program": "claude-code", "said": said})
    await attached.close()
    return answer


def test_a_launcher_that_somebody_changed_is_refused_and_told(home: Path, tmp_path: Path) -> None:
    assert mindstone_here("attach", "claude-code", "--yes").returncode == 0
    launcher = home / "state" / LAUNCHER
    assert outcome_of_launcher()["outcome"] == "pass"
    launcher.write_text("#!/bin/sh\ntouch pwned\n")
    found = outcome_of_launcher()
    assert (found["outcome"], str(launcher) in found["detail"]) == ("fail", True)
    again = mindstone_here("attach", "claude-code", "--yes")
    assert again.returncode != 0
    assert "somebody changed it" in again.stderr
    assert launcher.read_text().endswith("pwned\n"), "it is kept for whoever looks at it"
    assert asyncio.run(answer_to_a_hook(home, tmp_path)) == {}
    assert "somebody changed it" in (home / "state" / "mindstone.log").read_text()
    launcher.unlink()
    assert mindstone_here("attach", "claude-code", "--yes").returncode == 0
    assert outcome_of_launcher()["outcome"] == "pass"


def test_an_attachment_from_before_rules_could_hold_is_told_and_renewed(
    home: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / ".claude/settings.json"
    theirs.parent.mkdir()
    theirs.write_text('{"model": "opus"}')
    assert mindstone_here("attach", "claude-code", "--yes").returncode == 0
    whole = json.loads(theirs.read_text())
    del whole["hooks"]["PreToolUse"]
    theirs.write_text(json.dumps(whole))
    told = json.loads(mindstone_here("doctor", "--json").stdout)
    [found] = [check for check in told["checks"] if check["id"] == "attached.rules"]
    assert (found["outcome"], found["remedy"]) == ("warn", "mindstone attach claude-code")
    again = mindstone_here("attach", "claude-code", "--yes")
    assert "before rules could hold there" in again.stderr + again.stdout
    assert "PreToolUse" in json.loads(theirs.read_text())["hooks"]
    assert "attached.rules" not in mindstone_here("doctor", "--json").stdout
    assert "attached already" in mindstone_here("attach", "claude-code", "--yes").stdout
    assert mindstone_here("attach", "claude-code", "--undo", "--yes").returncode == 0
    assert json.loads(theirs.read_text()) == {"model": "opus"}
