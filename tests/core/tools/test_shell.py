from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mindstone_tui.core.tools.base import ToolContext, ToolLimits, ToolResult
from mindstone_tui.core.tools.process_tree import ProcessTree
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.workspace import Workspace
from tests.corpora import FULL

MEGABYTE = 1024 * 1024
ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "OPENAI_API_KEY": "sk-never",
    "LD_PRELOAD": "/x.so",
    "GIT_CONFIG_COUNT": "7",
}


def context(place: Path, **changes: object) -> ToolContext:
    return ToolContext(
        workspace=Workspace((place,)),
        call="c7",
        **{"environ": ENVIRON, "limits": ToolLimits(seconds=10), **changes},  # type: ignore[arg-type]
    )


async def shell(place: Path, command: str, **changes: object) -> ToolResult:
    return await SHELL.run({"command": command}, context(place, **changes))


def alive(marker: str) -> list[psutil.Process]:
    """Processes that carry the marker in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if any(marker in word for word in words) and process.info["status"] != "zombie":
            found.append(process)
    return found


@pytest.fixture
def marker() -> str:
    """A number of seconds to sleep that nobody else uses."""
    return f"98{secrets.randbelow(10**9)}"


async def test_output_and_exit_code_come_back_in_order(tmp_path: Path) -> None:
    result = await shell(tmp_path, "echo one; echo two >&2; echo three; exit 7")
    assert result.text == "one\ntwo\nthree\n[exit code 7]"
    assert result.status == "error"
    assert result.finding == "exit code 7, 14 bytes; last: three"


async def test_the_command_has_no_terminal_no_input_and_none_of_our_keys(tmp_path: Path) -> None:
    result = await shell(tmp_path, "tty; cat; (echo x > /dev/tty) 2>&1; env")
    assert "not a tty" in result.text
    assert "No such device or address" in result.text
    for name in ("OPENAI_API_KEY", "LD_PRELOAD", "GIT_CONFIG_COUNT=7"):
        assert name not in result.text


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_no_shell_of_the_project_runs_a_command(tmp_path: Path) -> None:
    fake = tmp_path / ".venv" / "bin" / "bash"
    fake.parent.mkdir(parents=True)
    fake.write_text("#!/bin/sh\necho owned\n")
    fake.chmod(0o755)
    environ = {**ENVIRON, "PATH": f"{fake.parent}:{ENVIRON['PATH']}"}
    result = await shell(tmp_path, "echo mine", environ=environ)
    assert result.text.startswith("mine")


async def test_git_obeys_no_repository_that_another_one_brings_as_files(tmp_path: Path) -> None:
    place = tmp_path / "docs" / "fixture"
    for folder in ("objects", "refs/heads"):
        (place / folder).mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    (place / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"
        '\tfsmonitor = "touch ran; echo"\n'
    )
    result = await shell(tmp_path, "cd docs/fixture && git status")
    assert result.status == "error"
    assert not (place / "ran").exists()


@pytest.mark.parametrize(
    "command",
    [
        "yes",
        "cat /dev/urandom",
        f"head -c {100 if FULL else 20}M /dev/zero | tr '\\0' x",
        f"head -c {100 if FULL else 20}M /dev/zero",
        "while :; do printf '\\033[2J\\033]0;x\\007'; done",
    ],
)
async def test_hostile_output_costs_bounded_memory_and_shows_head_and_tail(
    tmp_path: Path, command: str
) -> None:
    limits = ToolLimits(seconds=30, output=(64 if FULL else 8) * MEGABYTE, kept=2 * MEGABYTE)
    before = psutil.Process().memory_info().rss
    result = await shell(tmp_path, command, limits=limits)
    assert psutil.Process().memory_info().rss - before < 64 * MEGABYTE
    assert len(result.text.encode()) < 4 * limits.shown
    assert result.full is not None
    assert len(result.full) == 2 * MEGABYTE
    assert 'read_entry {"entry": "c7"' in result.text
    assert "\x1b" not in result.text
    assert "\0" not in result.text


STUBBORN = {
    "a child that ignores SIGTERM": "trap '' TERM HUP INT; sleep {}; sleep {}",
    "a double fork in a new session": "(setsid sh -c 'trap \"\" TERM; sleep {}' &); sleep {}",
    "many orphans": "for i in 1 2 3 4 5 6 7 8; do (setsid sleep {} &); done; sleep {}",
    "a daemon without streams": "(setsid sleep {} </dev/null >/dev/null 2>&1 &); sleep {}",
    "children that come back": "while :; do sleep {} & wait; done & disown; sleep {}",
}


@pytest.mark.parametrize("command", STUBBORN.values(), ids=STUBBORN.keys())
async def test_the_whole_tree_is_gone_when_the_time_is_up(
    tmp_path: Path, command: str, marker: str
) -> None:
    started = time.monotonic()
    result = await shell(tmp_path, command.replace("{}", marker), limits=ToolLimits(seconds=0.4))
    assert result.status == "timeout"
    assert alive(marker) == []
    assert result.elapsed <= time.monotonic() - started


async def test_a_command_that_printed_nothing_has_no_last_words(tmp_path: Path) -> None:
    assert (await shell(tmp_path, "true")).finding == "exit code 0, 0 bytes"
    assert (await shell(tmp_path, "echo done")).finding == "exit code 0, 5 bytes; last: done"


async def test_nothing_outlives_a_command_that_ends_by_itself(tmp_path: Path, marker: str) -> None:
    result = await shell(tmp_path, f"sleep {marker} & (setsid sleep {marker} &); echo done")
    assert result.text == "done\n[exit code 0]"
    assert alive(marker) == []


async def test_an_interrupt_keeps_what_was_printed(tmp_path: Path, marker: str) -> None:
    stop = asyncio.Event()
    result = await shell(
        tmp_path, f"echo started; sleep {marker}", stop=stop, progress=lambda _: stop.set()
    )
    assert result.status == "interrupted"
    assert result.text == "started\n[stopped: interrupted]"
    assert alive(marker) == []


async def test_a_cancelled_call_leaves_nothing_behind(tmp_path: Path, marker: str) -> None:
    running = asyncio.Event()
    task = asyncio.create_task(
        shell(tmp_path, f"echo x; sleep {marker}", progress=lambda _: running.set())
    )
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(marker) == []


def test_when_the_program_itself_is_killed_its_commands_die_too(
    tmp_path: Path, marker: str
) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from tests.core.tools.test_shell import shell\n"
        "asyncio.run(shell(Path(sys.argv[1]), sys.argv[2],"
        " progress=lambda _: print('up', flush=True)))"
    )
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            program,
            str(tmp_path),
            f"echo x; (setsid sleep {marker} &); sleep {marker}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        doomed = alive(marker)
        process.kill()
    _, survivors = psutil.wait_procs(doomed, timeout=5)
    assert doomed
    assert survivors == []


async def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    result = await shell(tmp_path, "exec >&- 2>&-; sleep 0.2; touch made; exit 4")
    assert "exit code 4" in result.text
    assert (tmp_path / "made").exists()


async def test_a_missing_program_is_an_exit_code_not_a_crash(tmp_path: Path) -> None:
    assert "exit code 127" in (await shell(tmp_path, "no-such-program-here")).text


HOSTILE = {
    "kills its supervisor": "os.kill(boss, 9)",
    "stops its supervisor": "os.kill(boss, 19)",
    "kills every ancestor it finds below us": "climb(9)",
    "stops every ancestor it finds below us": "climb(19)",
    "kills its supervisor from a new session": "os.setsid(); os.kill(boss, 9)",
}
FOLLOW_UP = {
    "sleeps on": "",
    "forks twice": "\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)",
    "ignores signals": "\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n"
    "  except (OSError, ValueError): pass",
}
SCRIPT = """
import os, signal, sys
boss = os.getppid()
def parent_of(pid):
    try: return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    except OSError: return 0
def climb(number):
    above, pid = [], os.getppid()
    while pid not in (0, 1, int(sys.argv[2])):
        above.append(pid); pid = parent_of(pid)
    for each in reversed(above):
        try: os.kill(each, number)
        except OSError: pass
print("began", flush=True)
if os.fork(): signal.pause()
try:
    HOSTILE
except OSError: pass
FOLLOW
os.execve("/bin/sleep", ["sleep", sys.argv[1]], ENVIRON)
"""


@pytest.fixture(params=["with bubblewrap", "without"])
def held(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """An environment in which namespaces can be had, and one in which they cannot."""
    if request.param == "with bubblewrap":
        return ENVIRON
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "sleep"):
        (tools / name).symlink_to(f"/bin/{name}")
    return {**ENVIRON, "PATH": str(tools)}


@pytest.mark.parametrize(
    ("hostile", "follow"),
    [
        ("kills its supervisor", "sleeps on"),
        ("kills its supervisor", "ignores signals"),
        ("stops its supervisor", "forks twice"),
        ("kills every ancestor it finds below us", "forks twice"),
        ("stops every ancestor it finds below us", "forks twice"),
        ("kills its supervisor from a new session", "ignores signals"),
    ],
)
async def test_no_child_outlives_its_call_whatever_it_does_to_its_supervisor(
    tmp_path: Path, marker: str, held: dict[str, str], hostile: str, follow: str
) -> None:
    program = SCRIPT.replace("HOSTILE", HOSTILE[hostile]).replace("FOLLOW", FOLLOW_UP[follow])
    (tmp_path / "evil.py").write_text(program.replace("ENVIRON", "os.environ"))
    command = f"{sys.executable} -S evil.py {marker} {os.getpid()}"
    await shell(tmp_path, command, environ=held, limits=ToolLimits(seconds=0.5))
    assert alive(marker) == []


def _groups_can_be_made() -> bool:
    tree = ProcessTree()
    tree.end()
    return tree.group is not None


in_control_groups = pytest.mark.skipif(
    not _groups_can_be_made(), reason="no control group may be made here"
)


@in_control_groups
async def test_a_child_that_wipes_its_environment_is_found_in_its_control_group(
    tmp_path: Path, marker: str
) -> None:
    program = SCRIPT.replace("HOSTILE", "climb(9)").replace("FOLLOW", FOLLOW_UP["forks twice"])
    (tmp_path / "evil.py").write_text(program.replace("ENVIRON", "{}"))
    command = f"ps >/dev/null; {sys.executable} -S evil.py {marker} {os.getpid()}"
    await shell(tmp_path, command, limits=ToolLimits(seconds=0.5))
    assert alive(marker) == []


@in_control_groups
def test_a_fresh_control_group_is_not_swept_by_another_command() -> None:
    waiting, left = ProcessTree().group, ProcessTree().group
    assert waiting is not None
    assert left is not None
    os.utime(left, (0, 0))
    ProcessTree().end()
    assert waiting.exists()
    assert not left.exists()
    waiting.rmdir()


def test_the_mark_alone_finds_who_was_left_behind(marker: str) -> None:
    tree = ProcessTree()
    if tree.group is not None:
        tree.group.rmdir()
        tree.group = None
    with subprocess.Popen(["sleep", marker], env=tree.environ, start_new_session=True) as left:
        assert alive(marker)
        tree.end()
        assert left.wait() == -9


async def test_a_command_that_means_other_processes_still_finds_them(tmp_path: Path) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "60")
    result = await shell(tmp_path, f"kill {other.pid}")
    assert result.status == "ok", result.text
    assert await other.wait() == -15
