from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.errors import NotAllowed
from mindstone_tui.core.tools import landlock, seccomp
from mindstone_tui.core.tools.base import ToolContext, ToolLimits, ToolResult
from mindstone_tui.core.tools.sandbox import (
    Bubblewrap,
    Confined,
    Landlock,
    Sandbox,
    for_everybody,
    unconfined,
)
from mindstone_tui.core.tools.sandbox_probe import find, probe
from mindstone_tui.core.tools.shell import SHELL, Bounds, run
from mindstone_tui.core.tools.workspace import Workspace
from tests.corpora import FULL, lines
from tests.faults import sampled

BWRAP = shutil.which("bwrap")
needs_bwrap = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")
needs_landlock = pytest.mark.skipif(not landlock.usable(), reason="this kernel has no Landlock")
PATH = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
OLD = 100_000_000
"""Nanoseconds after which no clock of a file system takes a change for a later one."""
ESCAPES = lines("sandbox_escapes.txt")


class Scene:
    """A workspace with something worth reaching all around it, and eyes on all of it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.work = base / "work"
        self.out = base / "out"
        self.secret = base / "hidden" / "secret-key"
        self.home = base / "home"
        for folder in (".git/hooks", ".vscode", "sub/.git", "open"):
            (self.work / folder).mkdir(parents=True)
        (self.work / ".git" / "config").write_text("[core]\n")
        (self.work / "sub" / ".git" / "config").write_text("[core]\n")
        for place in (self.out, self.secret.parent, self.home):
            place.mkdir()
        (self.out / "victim").write_text("untouched")
        (self.base / "victim").write_text("untouched")
        self.secret.write_text("TOPSECRET")
        (self.home / ".bashrc").write_text("")
        self.heard: list[bytes] = []
        self.signals: list[int] = []
        self.before = self.guarded()
        self.own = self.set_for_us()

    @staticmethod
    def set_for_us() -> tuple[object, ...]:
        """What can be set for this process from elsewhere."""
        limits = [resource.getrlimit(each) for each in range(16)]
        return (*limits, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))

    def guarded(self) -> dict[str, tuple[int, int, int, int, bytes]]:
        """Everything that must stay as it is: names, modes, owners, times and content."""
        places = [self.base / "victim", self.out, self.home, self.work / "sub" / ".git"]
        places += [self.work / name for name in (".git", ".vscode", ".mindstone")]
        found: dict[str, tuple[int, int, int, int, bytes]] = {}
        for place in places:
            for path in (place, *(sorted(place.rglob("*")) if place.is_dir() else ())):
                if path.exists() or path.is_symlink():
                    info = path.lstat()
                    content = path.read_bytes() if path.is_file() else b""
                    owner = (info.st_uid, info.st_gid)
                    found[str(path)] = (info.st_mode, *owner, info.st_mtime_ns, content)
        return found

    def escaped(self) -> str:
        """What got out, if anything did."""
        now = self.guarded()
        folders = {name for name, seen in now.items() if seen[0] & 0o040000}
        changed = [
            name
            for name in {**now, **self.before}
            # A folder's time moves when a placeholder beside it comes and goes.
            if now.get(name) != self.before.get(name)
            and not (name in folders and now[name][:3] == self.before.get(name, (0, 0, 0))[:3])
        ]
        leaked = [
            str(path)
            for path in self.work.rglob("*")
            if path.is_file() and not path.is_symlink() and b"TOPSECRET" in path.read_bytes()
        ]
        elsewhere = [
            place
            for place in ("/tmp/mindstone-escape-test", "/dev/shm/mindstone-escape-test")
            if os.path.lexists(place)
        ]
        lent = [
            str(path)
            for path in self.work.rglob("*")
            if not path.is_symlink() and lends_rights(path) and "shared" not in path.parts
        ]
        net = [*lent, *map(str, self.work.rglob("net"))]
        net += [] if self.set_for_us() == self.own else ["limits"]
        return " ".join(map(str, [*changed, *leaked, *elsewhere, *net, *self.heard, *self.signals]))

    @contextlib.contextmanager
    def listening(self) -> Iterator[dict[str, str]]:
        """Sockets and a signal handler outside, and the variables that name them."""

        with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix, _abstract() as hidden:
            tcp.bind(("127.0.0.1", 0))
            port = tcp.getsockname()[1]
            unix.bind(str(self.base / "socket"))
            hidden.bind(f"\0mindstone-test-{port}")
            for each in (tcp, unix, hidden):
                each.listen()
                each.setblocking(False)
            old = signal.signal(signal.SIGUSR1, lambda number, _: self.signals.append(number))
            try:
                yield {
                    "W": str(self.work),
                    "OUT": str(self.out),
                    "SECRET": str(self.secret),
                    "PORT": str(port),
                    "SOCK": str(self.base / "socket"),
                    "HOSTPID": str(os.getpid()),
                    "PYTHON": os.path.realpath(sys.executable),
                }
                for each in (tcp, unix, hidden):
                    with contextlib.suppress(BlockingIOError):
                        each.accept()[0].close()
                        self.heard.append(b"connected")
            finally:
                signal.signal(signal.SIGUSR1, old)


def lends_rights(path: Path) -> bool:
    """Whether using this file gives rights that its user does not have."""
    with contextlib.suppress(OSError):
        os.getxattr(path, "security.capability")
        return True
    return bool(path.stat().st_mode & 0o6000) or path.is_char_device() or path.is_block_device()


def _abstract() -> socket.socket:
    return socket.socket(socket.AF_UNIX)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def attempt(scene: Scene, sandbox: Sandbox, command: str, seconds: float = 8) -> ToolResult:
    context = ToolContext(
        workspace=Workspace((scene.work,)),
        sandbox=sandbox,
        environ={"PATH": PATH, "HOME": str(scene.home)},
        limits=ToolLimits(seconds=seconds),
    )
    return await SHELL.run({"command": command}, context)


def script(told: dict[str, str], attempts: list[str]) -> str:
    """Several attempts in one run, each on its own so that none stops the next."""
    setting = "".join(f"export {name}='{value}'\n" for name, value in told.items())
    return setting + "\n".join(
        f"(cd $W; timeout 5 bash -c {_quoted(each)}) >/dev/null 2>&1 </dev/null"
        for each in attempts
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


async def escapes_of(scene: Scene, sandbox: Sandbox, attempts: list[str]) -> str:
    with scene.listening() as told:
        result = await attempt(scene, sandbox, script(told, attempts), seconds=120)
    return scene.escaped() + result.text.partition("[taken off")[2]


def in_groups(attempts: list[str]) -> list[list[str]]:
    """One attempt a run in the full sweep; a few together otherwise."""
    size = 1 if FULL else 12
    return [attempts[at : at + size] for at in range(0, len(attempts), size)]


@needs_bwrap
@pytest.mark.parametrize(
    "attempts", sampled(in_groups(ESCAPES), 3), ids=lambda attempts: attempts[0][:40]
)
async def test_no_attempt_gets_out_of_bubblewrap(scene: Scene, attempts: list[str]) -> None:
    sandbox = Bubblewrap(Path(BWRAP or ""), scene.home, hidden=(scene.secret.parent,))
    assert len(ESCAPES) >= 60
    assert await escapes_of(scene, sandbox, attempts) == ""


# Older kernels let signals pass.
BEYOND_LANDLOCK = ("kill ",) if landlock.abi() < 6 else ("no such attempt",)
KNOWN_TO_LANDLOCK = [each for each in ESCAPES if not each.startswith(BEYOND_LANDLOCK)]


@needs_landlock
@pytest.mark.parametrize(
    "attempts", sampled(in_groups(KNOWN_TO_LANDLOCK), 3), ids=lambda attempts: attempts[0][:40]
)
async def test_no_attempt_gets_out_of_landlock(scene: Scene, attempts: list[str]) -> None:
    sandbox = Landlock(scene.home, hidden=(scene.secret.parent,), path=PATH)
    assert await escapes_of(scene, sandbox, attempts) == ""


@needs_landlock
async def test_a_link_that_is_swapped_in_before_landlock_looks_gives_no_right(scene: Scene) -> None:
    (scene.work / "sub" / "victim").touch()  # taken apart, for there is a repository beside it
    command = ("sh", "-c", f"echo owned > {scene.out / 'victim'}")
    place = Workspace((scene.work,))
    confined = Landlock(scene.home).confine(command, place, cwd=scene.work, network=False)
    (scene.work / "sub").rename(scene.base / "before")
    (scene.work / "sub").symlink_to(scene.out)
    bounds = Bounds(seconds=20, kept=1024, tail=1024, output=1024)
    await run(confined, cwd=scene.work, environ={"PATH": PATH}, bounds=bounds)
    assert (scene.out / "victim").read_text() == "untouched"


@needs_bwrap
async def test_the_sweep_would_notice_an_escape(scene: Scene) -> None:
    open_air = [each for each in ESCAPES if each.startswith(("echo owned > $OUT", "cat $SECRET"))]
    context = ToolContext(
        workspace=Workspace((scene.work,)), environ={"PATH": PATH}, limits=ToolLimits(seconds=20)
    )
    with scene.listening() as told:
        await SHELL.run({"command": script(told, open_air)}, context)
    assert str(scene.out / "a") in scene.escaped()
    assert str(scene.work / "leak") in scene.escaped()


def confinements(scene: Scene) -> list[Sandbox]:
    found: list[Sandbox] = []
    if BWRAP:
        found.append(Bubblewrap(Path(BWRAP), scene.home, path=PATH))
    if landlock.usable():
        found.append(Landlock(scene.home, path=PATH))
    return found


async def test_ordinary_work_goes_on_inside(scene: Scene) -> None:
    (scene.work / "existing").write_text("old")
    for sandbox in confinements(scene):
        result = await attempt(
            scene,
            sandbox,
            "echo new > existing && mkdir -p open/a && echo x > open/a/b && ls /usr > open/c",
        )
        assert result.status == "ok", result.text
        assert (scene.work / "existing").read_text() == "new\n"


async def test_what_may_be_written_may_be_marked_as_well(scene: Scene) -> None:
    (scene.work / "top").write_text("#!/bin/sh\n")
    for sandbox in confinements(scene):
        result = await attempt(
            scene,
            sandbox,
            "set -e; chmod 750 top; cd open; rm -rf *; echo x > a; chmod 604 ./a; cp -p a b;"
            " touch -d 2001-02-03T00:00Z a; ln -s a l; touch -h -d 2002-02-03T00:00Z l;"
            " chown -h $(id -u):$(id -g) l; chmod 601 l; install -m 711 a c; tar cf t a b l c;"
            f" mkdir d; tar xpf t -C d; nice -n 5 {INTERPRETER} -c 'import os;"
            ' os.utime(os.open("b", 0), (5, 6)); os.fchmod(os.open("c", 0), 0o700);'
            ' os.chmod("/proc/self/fd/%d" % os.open("c", os.O_PATH), 0o710);'
            ' os.chown("c", -1, os.getgid())\'; touch a b/ 2>/dev/null || touch a',
            seconds=20,
        )
        assert result.status == "ok", result.text
        work = scene.work / "open"
        modes = {name: (work / name).stat().st_mode & 0o777 for name in ("a", "b", "c", "d/a")}
        assert modes == {"a": 0o601, "b": 0o604, "c": 0o710, "d/a": 0o601}
        assert (scene.work / "top").stat().st_mode & 0o777 == 0o750
        assert (work / "b").stat().st_mtime == 6
        assert (work / "d" / "a").stat().st_mtime == 981158400
        assert (work / "d" / "l").lstat().st_mtime == 1012694400


PERMISSIONS = {
    # machine, convention: (where the flags stand, if any, and where the permissions): calls
    ("x86_64", 0xC000003E): {
        (0, 1): (90, 91, 85, 133),
        (0, 2): (268, 452, 259),
        (1, 2): (2,),
        (2, 3): (257,),
    },
    ("x86_64", 0x40000003): {
        (0, 1): (15, 94, 8, 14),
        (0, 2): (306, 452, 297),
        (1, 2): (5,),
        (2, 3): (295,),
    },
    ("aarch64", 0xC00000B7): {(0, 1): (52,), (0, 2): (53, 452, 33), (2, 3): (56,)},
}
DEVICES = {0xC000003E: {133: 1, 259: 2}, 0x40000003: {14: 1, 297: 2}, 0xC00000B7: {33: 2}}
FAILS = 0x00050000
INTERPRETER = os.path.realpath(sys.executable)


def judged(code: bytes, architecture: int, call: int, arguments: dict[int, int]) -> int:
    """What the kernel answers to a call: the few instructions that a filter here is made of."""
    steps = list(struct.iter_unpack("HBBI", code))
    words = {0: call, 4: architecture, **{16 + 8 * at: each for at, each in arguments.items()}}
    value, at = 0, 0
    while True:
        what, so, not_so, told = steps[at]
        at += 1
        match what:
            case 0x20:
                value = words.get(told, 0)
            case 0x54:
                value &= told
            case 0x06:
                return int(told)
            case _:
                holds = {0x15: value == told, 0x35: value >= told, 0x45: bool(value & told)}[what]
                at += so if holds else not_so


@given(mode=st.integers(0, 0o7777), creates=st.sampled_from((0, 0o100, 0o20200000)))
def test_a_filter_refuses_permissions_that_lend_rights_and_no_others_on_every_machine(
    mode: int, creates: int
) -> None:
    for (machine, architecture), calls in PERMISSIONS.items():
        code = seccomp.program(sockets=True, machine=machine)
        for (flags, place), named in calls.items():
            asked = {place: mode, **({flags: creates} if flags else {})}
            refused = {judged(code, architecture, call, asked) == FAILS | 1 for call in named}
            assert refused == {bool(mode & 0o6000 and (creates or not flags))}, (machine, named)
        for call, place in DEVICES[architecture].items():
            kinds = {
                kind: judged(code, architecture, call, {place: kind | 0o644}) == FAILS | 1
                for kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
            }
            assert [kind for kind, refused in kinds.items() if refused] == [
                stat.S_IFCHR,
                stat.S_IFBLK,
            ]


@pytest.mark.parametrize(
    ("sockets", "local", "refused"),
    [(True, True, set()), (True, False, {1, 17, 38, 40}), (False, False, {1, 2, 10, 17, 38, 40})],
)
def test_a_filter_refuses_sockets_by_their_family_on_every_machine(
    sockets: bool, local: bool, refused: set[int]
) -> None:
    made = {0xC000003E: 41, 0x40000003: 359, 0xC00000B7: 198}
    for machine, architecture in PERMISSIONS:
        code = seccomp.program(sockets=sockets, local=local, machine=machine)
        answers = {
            each: judged(code, architecture, made[architecture], {0: each})
            for each in (1, 2, 10, 17, 38, 40)  # local, internet, raw, the kernel's, a hypervisor's
        }
        assert {each for each, told in answers.items() if told == FAILS | 1} == refused


def test_of_the_machines_settings_only_what_everybody_may_read_is_shown(tmp_path: Path) -> None:
    for name in ("ssl/certs/ca.pem", "ssl/haproxy.pem", "fonts/a.conf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(0o644)
    (tmp_path / "ssl/haproxy.pem").chmod(0o600)
    assert for_everybody(tmp_path / "ssl") == [tmp_path / "ssl/certs"]
    assert for_everybody(tmp_path / "fonts") == [tmp_path / "fonts"]
    assert for_everybody(tmp_path / "ssl/haproxy.pem") == []


async def test_memory_that_other_programs_share_is_out_of_reach(scene: Scene) -> None:
    program = scene.work / "open" / "share.py"
    program.write_text(
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "made = libc.shmget(int(open('open/key').read()), 4096, 0o600)\n"
        "print('reached' if made >= 0 else 'refused')\n"
    )
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x4D530000 | os.getpid() & 0xFFFF
    (scene.work / "open" / "key").write_text(str(key))
    made = libc.shmget(key, 4096, 0o1600)
    try:
        for sandbox in confinements(scene):
            result = await attempt(scene, sandbox, f"{INTERPRETER} -S open/share.py")
            assert "refused" in result.text, sandbox.name
    finally:
        libc.shmctl(made, 0, None)


async def test_a_program_that_listens_in_the_workspace_cannot_be_asked_to_act(scene: Scene) -> None:
    (scene.work / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(scene.work / "run" / "control"))
        server.listen()
        asks = "import socket; socket.socket(socket.AF_UNIX).connect('run/control')"
        for sandbox in confinements(scene):
            result = await attempt(scene, sandbox, f'{INTERPRETER} -S -c "{asks}"')
            assert result.status == "error", sandbox.name
            assert "PermissionError" in result.text


async def test_a_folder_that_hands_its_group_down_stays_one(scene: Scene) -> None:
    shared = scene.work / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    for sandbox in confinements(scene):
        name = f"shared/{sandbox.name}"
        result = await attempt(scene, sandbox, f"mkdir {name} && echo x > {name}/file")
        assert (result.status, "taken off" in result.text) == ("ok", False), result.text
        assert [path.stat().st_mode & 0o2000 for path in (shared, scene.work / name)] == [
            0o2000
        ] * 2


class NoFilter:
    """A confinement on a machine whose calls no filter knows."""

    name = "no filter"

    def confine(
        self, command: tuple[str, ...], workspace: Workspace, *, cwd: Path, network: bool
    ) -> Confined:
        return Confined(command=command, roots=workspace.roots)


async def test_what_lends_rights_is_taken_off_when_the_command_ends_and_the_result_says_so(
    scene: Scene,
) -> None:
    before = {"kept": 0o4755, "rewritten": 0o4755, "shared": 0o2775}
    (scene.work / "shared").mkdir()
    for name, mode in before.items():
        if name != "shared":
            (scene.work / name).write_text("old")
        (scene.work / name).chmod(mode)
    while (scene.work / "shared").stat().st_ctime_ns > time.time_ns() - OLD:
        pass
    made = (
        "cp /bin/sh a; chmod 4755 a; cp /bin/sh b; chmod 2711 b; mkdir c; cp a c; chmod 4700 c/a;"
        "mkdir shared/d; cp /bin/sh shared/e; chmod 6111 shared/e; ln -s a f;"
        "rm rewritten; cp /bin/sh rewritten; chmod 4755 rewritten; mknod g c 1 3; true"
    )
    result = await attempt(scene, NoFilter(), made)
    told = result.text.partition("capabilities of ")[2].partition(". A confined")[0].split(", ")
    device = {"g"} if os.geteuid() == 0 else set()
    assert set(told) == {"a", "b", "c/a", "shared/e", "rewritten"} | device, result.text
    modes = {
        name: (scene.work / name).stat().st_mode & 0o7777
        for name in ("a", "b", "c/a", "kept", "rewritten", "shared", "shared/d", "shared/e")
    }
    assert {name for name, mode in modes.items() if mode & 0o6000} == {"kept", "shared", "shared/d"}
    assert modes["b"] == 0o711
    assert not (scene.work / "g").exists()


async def test_a_refusal_is_explained_whichever_sandbox_refused(scene: Scene) -> None:
    for sandbox in confinements(scene):
        result = await attempt(scene, sandbox, f"cat {scene.out}/victim")
        assert (result.status, "it is confined" in result.text) == ("error", True), result.text


async def test_placeholders_are_gone_afterwards(scene: Scene) -> None:
    for sandbox in confinements(scene):
        await attempt(scene, sandbox, "ls -a")
        assert not (scene.work / ".mindstone").exists()


@needs_bwrap
async def test_the_whole_tree_inside_dies_with_its_time(scene: Scene) -> None:
    sandbox = Bubblewrap(Path(BWRAP or ""), scene.home)
    told = "(setsid sh -c 'trap \"\" TERM; sleep 2; echo owned > open/late' &) ; sleep 60"
    result = await attempt(scene, sandbox, told, seconds=0.5)
    assert result.status == "timeout"
    again = await attempt(scene, sandbox, "ps ax | grep -c '[s]leep'")
    assert again.text.startswith("0")


@pytest.mark.parametrize("place", ["top", "folder/deep"])
async def test_a_hidden_place_inside_the_workspace_is_out_of_reach(
    scene: Scene, place: str
) -> None:
    own = scene.work / place
    own.mkdir(parents=True)
    (own / "token").write_text("TOPSECRET")
    (own.parent / "beside").write_text("plain")
    for sandbox in confinements(scene):
        inside = msgspec.structs.replace(sandbox, hidden=(own, own / "token"))  # type: ignore[type-var]
        result = await attempt(
            scene,
            inside,
            f"cat {own.parent}/beside; ls {own.parent}; echo new > {own.parent}/beside;"
            f" cat {own}/token; echo x > {own}/hooks.json; echo x >> {own}/token;"
            f" chmod 777 {own}/token; mv {own} open/away",
        )
        assert "plain" in result.text, result.text
        assert "beside" in result.text, result.text
        assert "TOPSECRET" not in result.text
        assert (own.parent / "beside").read_text() == "new\n"
        (own.parent / "beside").write_text("plain")
        assert [each.name for each in own.iterdir()] == ["token"]
        assert (own / "token").read_text() == "TOPSECRET"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give its rights away")
def test_a_folder_of_path_that_may_not_be_looked_at_is_skipped() -> None:
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o711)
        for name in ("closed/bin", "open/bin"):
            Path(base, name).mkdir(parents=True)
        Path(base, "closed").chmod(0o700)
        asked = f"Path('/nonexistent'), '{base}/closed/bin:{base}/open/bin', '{base}/closed'"
        done = subprocess.run(
            [
                *(sys.executable, "-c"),
                "import os; from pathlib import Path; from mindstone_tui.core.tools import sandbox;"
                f" os.setgid(65534); os.setuid(65534); print(*sandbox.shown_elsewhere({asked}))",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "open/bin" in done.stdout, done.stderr
    assert "closed" not in done.stdout


async def test_code_that_this_program_runs_itself_cannot_be_changed_from_inside(
    scene: Scene,
) -> None:
    installed = scene.work / "tools" / "env" / "site"
    installed.mkdir(parents=True)
    (installed / "run.py").write_text("ours")
    workspace = Workspace((scene.work,), code=(installed,))
    assert workspace.standing(workspace.locate("tools/env/new.pth")) == "sensitive"
    tries = (
        "cat tools/env/site/run.py; echo x > tools/env/site/new.pth; rm tools/env/site/run.py;"
        " mv tools away; mkdir -p tools/env/site; echo x > tools/env/site/run.py; echo y > beside"
    )
    for sandbox in confinements(scene):
        context = ToolContext(workspace=workspace, sandbox=sandbox, environ={"PATH": PATH})
        assert "ours" in (await SHELL.run({"command": tries}, context)).text
        assert [each.read_text() for each in installed.iterdir()] == ["ours"]
        for code in (scene.work, scene.base):
            inside = Workspace((scene.work,), code=(code,))
            with pytest.raises(NotAllowed, match="installed"):
                sandbox.confine(("true",), inside, cwd=scene.work, network=False)
        (scene.work / "env").symlink_to(installed)
        if sandbox.name == "bubblewrap":  # Landlock gives no right on a link
            linked = Workspace((scene.work,), code=(scene.work / "env",))
            with pytest.raises(NotAllowed, match="symbolic link"):
                sandbox.confine(("true",), linked, cwd=scene.work, network=False)
        (scene.work / "env").unlink()


def test_a_workspace_as_wide_as_home_is_refused(scene: Scene) -> None:
    for sandbox in confinements(scene):
        for root in (scene.home, scene.base):
            with pytest.raises(NotAllowed, match="wide"):
                sandbox.confine(("true",), Workspace((root,)), cwd=root, network=False)


@needs_bwrap
def test_a_linked_repository_cannot_be_protected_and_is_refused(scene: Scene) -> None:
    shutil.rmtree(scene.work / ".git")
    (scene.work / ".git").symlink_to(scene.out)
    with pytest.raises(NotAllowed, match="symbolic link"):
        Bubblewrap(Path(BWRAP or ""), scene.home).confine(
            ("true",), Workspace((scene.work,)), cwd=scene.work, network=False
        )


async def test_the_probe_tries_for_real_and_says_what_holds(scene: Scene) -> None:
    environ = {"PATH": PATH, "HOME": str(scene.home)}
    for sandbox in confinements(scene):
        told = await probe(environ, sandbox)
        assert told.working, told
        assert "there is no network" in told.holds
        assert "nothing outside the workspace can be written" in told.holds


@needs_bwrap
@needs_landlock
async def test_what_does_not_work_gives_way_to_what_does(scene: Scene, tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no namespaces here; exit 1\n")
    broken.chmod(0o755)
    environ = {"PATH": f"{broken.parent}:{PATH}", "HOME": str(scene.home)}
    sandbox, told = await find(environ)
    assert sandbox is not None
    assert (sandbox.name, told.working) == ("landlock", True)
    whole, _ = await find({"PATH": PATH, "HOME": str(scene.home)})
    assert whole is not None
    assert whole.name == "bubblewrap"


async def test_the_probe_does_not_believe_a_sandbox_that_confines_nothing() -> None:
    class Pretender:
        name = "pretender"

        def confine(
            self, command: tuple[str, ...], workspace: Workspace, *, cwd: Path, network: bool
        ) -> Confined:
            return unconfined(command)

    told = await probe({"PATH": PATH, "HOME": "/nonexistent"}, Pretender())
    assert not told.working
    assert "not so: there is no network" in told.does_not_hold


SECRETS = (
    *(".env", ".netrc", ".npmrc", ".pypirc", ".bash_history", ".zsh_history", ".psql_history"),
    *(".ssh/id_ed25519", ".gnupg/x", ".aws/credentials", ".azure/x", ".kube/config", ".docker/x"),
    *(".config/gh/hosts.yml", ".config/gcloud/x", ".config/op/x", ".claude/.credentials.json"),
    *(".codex/auth.json", ".gemini/oauth_creds.json", ".config/opencode/x", ".ethereum/keystore/k"),
    *(".bitcoin/wallet.dat", ".config/solana/id.json", ".electrum/w", ".cargo/credentials.toml"),
    *(".cargo/config.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties"),
    *(".local/share/uv/credentials/c", ".local/share/keyrings/k", ".config/pip/pip.conf"),
    *(".terraform.d/credentials.tfrc.json", ".mozilla/x", ".config/chromium/x", "notes.txt"),
    *(".git-credentials", ".config/git/credentials", ".local/state/x", "other-project/.env"),
)
GIT_SETTINGS = """
[user]
    name = A Person
    email = person@example.org
[credential]
    helper = store --file TOPSECRET
[url "https://TOPSECRET@example.org/"]
    insteadOf = https://example.org/
[http]
    extraHeader = Authorization: TOPSECRET
[core]
    sshCommand = ssh -i TOPSECRET
    autocrlf = input
"""


async def test_of_the_home_only_toolchains_can_be_read(scene: Scene) -> None:
    for name in SECRETS:
        (scene.home / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.home / name).write_text("TOPSECRET\n")
    (scene.home / ".gitconfig").write_text(GIT_SETTINGS)
    for name in (".cargo/bin/tool", ".local/bin/uvtool", "go/bin/gotool"):
        (scene.home / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.home / name).write_text("#!/bin/sh\necho found $0\n")
        (scene.home / name).chmod(0o755)
    (scene.home / ".cargo/registry").mkdir()
    (scene.home / ".cargo/registry/crate").write_text("a crate\n")
    before = scene.guarded()
    for sandbox in confinements(scene):
        result = await attempt(
            scene,
            sandbox,
            f"for name in {' '.join(SECRETS)}; do cat ~/$name; done 2>/dev/null; cat ~/.gitconfig;"
            " grep -rs TOPSECRET ~ /proc/*/environ; cat ~/.cargo/registry/crate; ~/.cargo/bin/tool;"
            " ~/.local/bin/uvtool; ~/go/bin/gotool; git config --global --list",
        )
        assert "TOPSECRET" not in result.text, (sandbox.name, result.text)
        for word in ("a crate", "bin/tool", "bin/uvtool", "bin/gotool", "user.name=A Person"):
            assert word in result.text, (sandbox.name, word)
        assert "core.autocrlf=input" in result.text
        again = await attempt(
            scene, sandbox, "echo x > ~/.cargo/bin/tool; echo x > ~/.profile; true"
        )
        assert again.status == "ok"
    assert scene.guarded() == before


async def test_compilers_have_somewhere_to_put_what_they_need(scene: Scene) -> None:
    told = "t=$(mktemp -d) && echo x > $t/a && cat $t/a && touch ${TMPDIR}/b && echo $TMPDIR"
    for sandbox in confinements(scene):
        result = await attempt(scene, sandbox, told)
        assert result.status == "ok", (sandbox.name, result.text)
        assert not is_there(f"{result.text.splitlines()[1]}/b")


def is_there(path: str) -> bool:
    return os.path.lexists(path)


@needs_bwrap
def test_nothing_that_is_shown_holds_the_home_or_anything_but_toolchains_in_it(
    scene: Scene,
) -> None:
    for name in (*SECRETS, ".cargo/bin/tool", ".pyenv/versions/x"):
        (scene.home / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.home / name).write_text("x")
    path = f"{scene.home}:{scene.home}/.config:{scene.home}/.ssh:{PATH}"
    sandbox = Bubblewrap(Path(BWRAP or ""), scene.home, path=path)
    words = sandbox.confine(
        ("true",), Workspace((scene.work,)), cwd=scene.work, network=True
    ).command
    shown = {
        Path(words[at + 1]) for at, word in enumerate(words) if word in ("--ro-bind", "--bind")
    }
    for name in SECRETS:
        secret = scene.home / name
        assert not shown & {secret, *secret.parents}, name
    assert {scene.home / ".cargo/bin", scene.home / ".pyenv"} <= shown
