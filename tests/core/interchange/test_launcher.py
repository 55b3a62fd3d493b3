"""What attached programs call is ours, and lies where nobody else can replace it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui import api
from mindstone_tui.core.disk import open_to_changes
from mindstone_tui.core.interchange.launcher import LAUNCHER, write_launcher
from mindstone_tui.core.rules.book import RULES
from mindstone_tui.servers.attached import Attached
from tests.cli.program import ROOT, mindstone_here
from tests.servers.test_attached import listen

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


@pytest.mark.thorough
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


PERL = shutil.which("perl", path=os.defpath)
MOMENT = {"hook_event_name": "PostToolUse", "session_id": "s", "cwd": "/", "tool_name": "Bash"}


class Launched:
    """A launcher in a home, which a resident of the test may answer in."""

    def __init__(self, home: Path, *, perl: bool = True) -> None:
        self.state = home / "state"
        self.path = self.state / LAUNCHER
        self.state.mkdir(parents=True, exist_ok=True)
        # Stands for Python, and tells that it was asked after all, and with what.
        self.python = home / "python"
        self.python.write_text("#!/bin/sh\necho by python:\ncat\n")
        self.python.chmod(0o755)
        write_launcher(self.path, [str(home / "none")], str(self.python), ROOT, home)
        if not perl:
            text = self.path.read_text()
            self.path.write_text(text.replace(f"perl={PERL}", "perl=/nowhere/perl"))

    def says(self, said: bytes, *words: str) -> tuple[int, bytes, bytes]:
        done = subprocess.run(
            [self.path, *(words or ("claude-code",))],
            input=said,
            capture_output=True,
            env={"PATH": os.defpath, "PERL5OPT": "-Mnonsense"},
            timeout=30,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(PERL is None or sys.platform != "linux", reason="needs perl, on Linux")
def test_the_launcher_itself_asks_a_resident_that_listens(tmp_path: Path) -> None:
    context = {"hookEventName": "PostToolUse", "additionalContext": 'earlier "}" …'}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"hookSpecificOutput": context}}
    heard = listen(tmp_path, lambda call: msgspec.json.encode(answer) + b"\n")
    said = {**MOMENT, "tool_input": {"command": 'echo "\\" ] {" é'}, "more": "x" * 200_000}
    code, out, errors = Launched(tmp_path).says(json.dumps(said, indent=1).encode() + b"\r\n")
    assert (code, errors) == (0, b"")
    assert json.loads(out) == {"hookSpecificOutput": context}
    assert heard == [{"program": "claude-code", "said": said}]


@pytest.mark.skipif(PERL is None or sys.platform != "linux", reason="needs perl, on Linux")
def test_the_launcher_asks_in_the_home_that_it_is_told(tmp_path: Path) -> None:
    heard = listen(tmp_path / "named", lambda call: b'{"result":{"decision":"ok"}}\n')
    launched = Launched(tmp_path / "own")
    said, home = json.dumps(MOMENT).encode(), str(tmp_path / "named")
    assert launched.says(said, "codex", "--home", home) == (0, b'{"decision":"ok"}\n', b"")
    assert [each["program"] for each in heard] == ["codex"]


@pytest.mark.skipif(PERL is None or sys.platform != "linux", reason="needs perl, on Linux")
@pytest.mark.parametrize("answer", [b"no json\n", b'{"error": {}}\n', b'{"result": 7}\n'])
def test_the_launcher_prints_nothing_of_an_answer_that_is_none(
    tmp_path: Path, answer: bytes
) -> None:
    listen(tmp_path, lambda call: answer)
    assert Launched(tmp_path).says(json.dumps(MOMENT).encode()) == (0, b"", b"")


HOSTILE = [
    *(b"", b"{", b"[]", b"\xff", b'{"a":1}}', b'{"a":1},"method":"stop"', b'{"a":"}'),
    *(b'{"a":1}{"b":2}', b'{"a":"\\"}', b'"}{"', b"{]}[", b'{"a":' + b"[" * 300_000),
]


@pytest.mark.parametrize("said", HOSTILE)
def test_the_launcher_sends_nothing_that_is_not_one_object(tmp_path: Path, said: bytes) -> None:
    heard = listen(tmp_path, lambda call: b'{"result": {"decision": "block"}}\n')
    code, out, errors = Launched(tmp_path).says(said)
    assert (code, errors) == (0, b"")
    assert out == b"by python:\n" + said
    assert heard == []


@pytest.mark.parametrize("why", ["nobody", "gone", "no perl", "rules"])
def test_the_launcher_leaves_to_python_what_it_cannot_do(tmp_path: Path, why: str) -> None:
    if why in ("no perl", "rules"):
        listen(tmp_path, lambda call: b"")
    launched = Launched(tmp_path, perl=why != "no perl")
    if why == "gone":
        (launched.state / "serve.json").write_text('{"socket":"/nowhere/at/all"}')
    if why == "rules":
        (tmp_path / RULES).write_text("{}")
    words = ("claude-code", "before") if why == "rules" else ("claude-code",)
    said = json.dumps(MOMENT).encode()
    assert launched.says(said, *words) == (0, b"by python:\n" + said, b"")
