"""`mindstone sync HOST` over a real ssh to a real sshd on loopback, cut wherever it may be cut."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import ROOT
from tests.core.shared.test_sync import (
    Machine,
    check_that_nothing_was_overwritten,
    grown_apart,
    met,
)
from tests.faults import sized

SSHD = shutil.which("sshd", path=f"{os.defpath}:/usr/sbin:/usr/local/sbin")
SSH = shutil.which("ssh")
CUTTER = Path(__file__).with_name("line_cutter.py")
SEPARATE = Path("/run/sshd")
"""Where an sshd that runs as root keeps its helpers, which its service makes as it starts."""
NO_CUT = 1 << 40

pytestmark = [
    pytest.mark.skipif(not (SSHD and SSH), reason="sshd or ssh is not installed"),
    pytest.mark.skipif(
        os.geteuid() == 0 and not SEPARATE.is_dir() and not os.access(SEPARATE.parent, os.W_OK),
        reason=f"{SEPARATE} is missing, and sshd as root needs it",
    ),
]


class Server:
    """An sshd of our own: its key, its port, and who may come in."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        for name in ("host", "user"):
            key = folder / name
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
            subprocess.run(words, check=True)
        (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.counted = folder / "counted"
        self.home = folder / "home"
        self._write_programs()
        words = [SSHD or "sshd", "-D", "-E", str(folder / "log"), "-f", str(self._configured())]
        self.line = subprocess.Popen(words)

    def _write_programs(self) -> None:
        """`mindstone` there, and `ssh` here with a configuration of its own."""
        for place, words in (
            ("there", f'exec {sys.executable} -P -m mindstone_tui "$@"'),
            ("here", f'exec {SSH} -F {self.folder / "client"} "$@"'),
        ):
            name = "mindstone" if place == "there" else "ssh"
            program = self.folder / place / name
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\n{words}\n")
            program.chmod(0o755)

    def _configured(self) -> Path:
        config = self.folder / "server"
        path = f"{self.folder / 'there'}:{os.defpath}"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder / 'host'}\n"
            f"AuthorizedKeysFile {self.folder / 'authorized'}\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\nPrintMotd no\n"
            f"SetEnv PATH={path} MINDSTONE_HOME={self.home} PYTHONPATH={ROOT}\n"
        )
        return config

    def cut_after(self, most: int) -> None:
        """From now on, the line breaks after so many bytes."""
        cutter = f"{sys.executable} {CUTTER} {self.port} {most} {self.counted}"
        (self.folder / "client").write_text(
            f"Host b.example\nHostName 127.0.0.1\nPort {self.port}\nUser {getpass.getuser()}\n"
            f"IdentityFile {self.folder / 'user'}\nIdentitiesOnly yes\nBatchMode yes\n"
            f"StrictHostKeyChecking no\nUserKnownHostsFile {self.folder / 'known'}\n"
            f"LogLevel ERROR\nProxyCommand {cutter}\n"
        )

    def sync(self, here: Machine) -> subprocess.CompletedProcess[str]:
        """Run the verb on one machine, against the other behind ssh."""
        path = f"{self.folder / 'here'}:{os.defpath}"
        environ = {"MINDSTONE_HOME": str(here.folder), "PATH": path, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-P", "-m", "mindstone_tui", "sync", "b.example"]
        return subprocess.run(
            command, env=environ, capture_output=True, text=True, check=False, timeout=120
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A real sshd that listens."""
    made = os.geteuid() == 0 and not SEPARATE.is_dir()
    if made:
        SEPARATE.mkdir(mode=0o755)
    found = Server(tmp_path / "sshd")
    try:
        deadline = time.monotonic() + 20
        while found.line.poll() is None and time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", found.port)) == 0:
                    break
        yield found
    finally:
        found.line.terminate()
        found.line.wait()
        if made:
            SEPARATE.rmdir()


def test_two_machines_hold_the_same_after_a_sync_over_ssh(server: Server, tmp_path: Path) -> None:
    a, b = grown_apart(tmp_path)
    b.folder.rename(server.home)
    there = Machine(server.home)
    before = a.bytes(), there.bytes()
    server.cut_after(NO_CUT)

    done = server.sync(a)
    assert done.returncode == 0, done.stderr + (server.folder / "log").read_text()
    assert "agent:default:main  grew on both sides" in done.stdout
    assert a.holds() == there.holds() == {*a.said, *b.said}
    check_that_nothing_was_overwritten(a, before[0])
    check_that_nothing_was_overwritten(there, before[1])
    assert "same" in server.sync(a).stderr


@pytest.mark.thorough
def test_an_ssh_line_that_is_cut_anywhere_loses_nothing(server: Server, tmp_path: Path) -> None:
    times = sized(4, 50)
    whole = 0
    broken = 0
    for number in range(-1, times):
        a, b = grown_apart(tmp_path / str(number))
        b.folder.rename(server.home)
        there = Machine(server.home)
        before = a.bytes(), there.bytes()
        # The first is not cut, and tells how many bytes there are; a tenth is ssh's own greeting.
        server.cut_after(NO_CUT if number < 0 else int(whole * (number + 1) / (times + 1)))
        done = server.sync(a)
        assert "Traceback" not in done.stderr
        if number < 0:
            assert done.returncode == 0, done.stderr
            whole = int(server.counted.read_text())  # counted before ssh had them
        elif done.returncode:
            broken += 1
        check_that_nothing_was_overwritten(a, before[0])
        check_that_nothing_was_overwritten(there, before[1])
        met(a.store(), there.store())
        assert a.holds() == there.holds() == {*a.said, *b.said}
        shutil.rmtree(server.home)
        shutil.rmtree(tmp_path / str(number))
    assert broken >= times * 3 // 4, f"{broken} of {times} were cut"
