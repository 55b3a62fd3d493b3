"""Whatever the umask, nothing of ours could ever be opened by anybody else."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from mindstone_tui.cli.main import VERBS
from tests.cli.program import ROOT
from tests.core.session.stage import calls, script
from tests.faults import FULL
from tests.strace import only

STRACE = shutil.which("strace")
ONLY_IN_FULL = pytest.mark.skipif(not FULL, reason="`make faults` tries the other umasks, too")
_BIRTHS = "/^(umask|open|openat|creat|mkdir|mkdirat|mknod|mknodat|socket|fchmod|bind)$"
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MODE = re.compile(r"[ (](0[0-7]*)[), ]")
LINES = """\
config show
config set tui.theme basalt
tools add mine --env KEY=secret -- true
tools remove mine
run --model MODEL --approve full-auto work
run --model local/guide hello
run --model local/guide "/title first"
chat --plain --model local/guide < said
sessions
stats
cost
log
verify
files
blame open/note
context
recall pelican
search pelican
fix pelican
how ls
about pelican
waiting
reindex
task start "write a test"
checkpoint save
handoff write
memory add "the pelican is pink"
memory consolidate
rules add "Never force push"
task done
health
replay --all --check
compare --sample
history schema
sync .
import claude.jsonl
resume claude
export --output LATER
attach claude-code --yes
attach claude-code --yes
serve --background --socket-only
serve --status
hook claude-code < moment
serve --stop
attach claude-code --undo --yes
watch --once claude.jsonl
acp < /dev/null
mcp < /dev/null
models list
models key openai < key
doctor
plugins
"""


READ_ONLY = frozenset(
    {
        "stats",
        "cost",
        "verify",
        "files",
        "context",
        "fix",
        "how",
        "about",
        "blame",
        "health",
        "replay",
        "compare",
    }
)
"""Verbs that make no file, which are left to the long run."""

SEVERAL = """
import contextlib, io, shlex, sys
from mindstone_tui.cli.main import run
for line in sys.argv[1].splitlines():
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = run(shlex.split(line))
    code and print(f"{line}: {err.getvalue()}")
"""


def test_every_verb_is_tried() -> None:
    assert {line.split()[0] for line in LINES.splitlines()} - {"hook"} == set(VERBS)


def separate_places(base: Path) -> dict[str, str]:
    """The system's own places, each elsewhere and none made yet."""
    names = ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR")
    return {f"XDG_{name}": str(base / "deep" / name / "inside") for name in names}


def one_home(base: Path) -> dict[str, str]:
    return {"MINDSTONE_HOME": str(base / "deep" / "home")}


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder whose name is so short that a socket may lie in it."""
    with tempfile.TemporaryDirectory(prefix="m", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def work(base: Path) -> Path:
    """A project that others may look into, and what the lines of a run need."""
    folder = base / "work"
    folder.mkdir()
    (folder / "open").mkdir()
    shutil.copy(ROOT / "tests/fixtures/imports/claude-code.jsonl", folder / "claude.jsonl")
    (folder / "said").write_text("hello\n")
    (folder / "key").write_text("sk-test-1234567890abcdef1234567890abcdef\n")
    moment = {"hook_event_name": "UserPromptSubmit", "session_id": "x", "prompt": "the pelican"}
    (folder / "moment").write_text(json.dumps({**moment, "cwd": str(folder)}))
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("umask", "places"),
    [
        pytest.param(0o000, separate_places, id="umask 000"),
        pytest.param(0o002, one_home, id="umask 002", marks=ONLY_IN_FULL),
        pytest.param(0o077, separate_places, id="umask 077", marks=ONLY_IN_FULL),
    ],
)
def test_nothing_of_ours_is_ever_open_to_others(
    base: Path, work: Path, umask: int, places: Callable[[Path], dict[str, str]]
) -> None:
    (base / "tmp").mkdir(0o700)
    trace = base / "trace"
    environ = {**clean(), **places(base), "TMPDIR": str(base / "tmp"), "HOME": str(base)}
    said = run_all(base, work, environ, umask, trace)
    bare = [str(path) for path in ours(base) if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    assert (bare, said) == ([], "")
    if STRACE:
        # What lies deeper in the place for passing files lies in a folder that is ours alone.
        private = re.compile(rf"{base}/(?:deep|tmp/mindstone[^/]*$)")
        born = [birth for birth in births(trace, umask) if private.match(birth[0])]
        assert len(born) > 50
        assert [birth for birth in born if birth[1] & 0o077] == []


def clean() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "MINDSTONE_", "CLAUDE_"))
    } | {"PYTHONPATH": str(ROOT)}


def run_all(base: Path, work: Path, environ: Mapping[str, str], umask: int, trace: Path) -> str:
    """Run every line in turn; says which failed."""
    model = script(
        base,
        calls(
            ("shell", {"command": "echo x > open/file"}),
            ("write", {"path": "open/note", "content": "x"}),
            ("background", {"command": "echo later"}),
        ),
        {"text": "done"},
        loop=True,
    )
    later = base / "deep" / "exported" / "session.md"
    told = LINES.replace("MODEL", model).replace("LATER", str(later)).splitlines()
    lines = [line for line in told if FULL or line.split()[0] not in READ_ONLY]
    groups = ["\n".join(group) for _, group in itertools.groupby(lines, lambda line: "<" in line)]
    steps = "".join(_steps(group) for group in groups)
    watched = ["strace", *only(_BIRTHS), "-o", str(trace)] if STRACE else []
    done = subprocess.run(
        [*watched, "sh", "-c", steps],
        env=environ,
        cwd=work,
        umask=umask,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


def _steps(group: str) -> str:
    """A line with an input of its own, or several lines in one process: that is much quicker."""
    if "<" not in group:
        return f"{sys.executable} -c {shlex.quote(SEVERAL)} {shlex.quote(group)}\n"
    one = f"{sys.executable} -m mindstone_tui"
    return "".join(
        f"cat {given} | {{ {one} {line} || echo FAILED {line}; }} 2>&1 | cat >out\n"
        "grep -q FAILED out && cat out\n"
        for line, given in (each.split(" < ") for each in group.splitlines())
    )


def ours(base: Path) -> Iterator[Path]:
    yield base / "deep"
    yield from (base / "deep").rglob("*")


def births(trace: Path, umask: int) -> Iterator[tuple[str, int]]:
    """Every name that a call made, with the permissions it was born with."""
    umasks: dict[str, int] = {}
    sockets: dict[str, int] = {}
    known: set[str] = set()
    for line in trace.read_text(errors="replace").splitlines():
        who, _, call = line.partition(" ")
        name = call.strip().partition("(")[0]
        places, modes = _PLACE.findall(call), _MODE.findall(call)
        if name == "umask" and modes:
            umasks[who] = int(modes[0], 8)
        elif name == "socket":
            sockets.pop(call.rpartition("= ")[2].strip(), None)
        elif name == "fchmod" and modes:
            sockets[call.partition("(")[2].partition(",")[0]] = int(modes[0], 8)
        elif name == "bind" and "AF_UNIX" in call and places:
            own = sockets.get(call.partition("(")[2].partition(",")[0], 0o777)
            yield places[0], own & ~umasks.get(who, umask)
        elif name.startswith("open") and "O_CREAT" not in call and "O_TMPFILE" not in call:
            continue
        elif places and modes and " = -1" not in call and places[0] not in known:
            known.add(places[0])
            yield places[0], int(modes[-1], 8) & ~umasks.get(who, umask)
