"""Odd surroundings: locales, terminals, limits, clocks, closed streams, homes, another user.

Whatever they are, a command works or says in a sentence why it cannot, and history stays whole.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from mindstone_tui.core.transcript import verify
from tests.builders import places_in, say, transcript_in
from tests.cli.program import ROOT
from tests.red import Case, Tried
from tests.red.apart import PATIENCE, Ran


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What is odd about where the program runs."""

    env: Mapping[str, str | None] = {}
    """Variables that are set, or gone when None."""
    inside: Sequence[str] = ()
    """A program that starts ours."""
    before: Callable[[], None] | None = None
    """What the child does to itself first."""
    works: bool = True
    """Whether a turn must succeed there."""


def _limited(what: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (most, most))


def _closed(*numbers: int) -> Callable[[], None]:
    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


def _masked() -> None:
    os.umask(0o777)


SURROUNDINGS: dict[str, Surroundings] = {
    "as usual": Surroundings(),
    "LANG=C": Surroundings(env={"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}),
    "LC_ALL=POSIX and ASCII streams": Surroundings(
        env={"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ),
    "a locale that does not exist": Surroundings(env={"LC_ALL": "xx_YY.UTF-99"}),
    "no TERM": Surroundings(env={"TERM": None}),
    "TERM=dumb": Surroundings(env={"TERM": "dumb"}),
    "one column": Surroundings(env={"COLUMNS": "1", "LINES": "1"}),
    "a negative width": Surroundings(env={"COLUMNS": "-5"}),
    "NO_COLOR and FORCE_COLOR": Surroundings(env={"NO_COLOR": "1", "FORCE_COLOR": "1"}),
    "no PATH": Surroundings(env={"PATH": ""}),
    "no HOME": Surroundings(env={"HOME": None}),
    "a HOME that is not there": Surroundings(env={"HOME": "/nowhere/at/all"}),
    "no TMPDIR there": Surroundings(env={"TMPDIR": "/nowhere/at/all"}),
    "a large environment": Surroundings(env={f"X{n}": "x" * 1_000 for n in range(500)}),
    "a secret in the environment": Surroundings(env={"MY_API_KEY": "correct-horse-battery"}),
    "an odd time zone": Surroundings(env={"TZ": "Nowhere/Atlantis"}),
    "a proxy that is not there": Surroundings(env={"HTTPS_PROXY": "http://127.0.0.1:9"}),
    "hash seed and warnings": Surroundings(env={"PYTHONHASHSEED": "7", "PYTHONWARNINGS": "error"}),
    "the year 2399": Surroundings(inside=("faketime", "2399-06-01 12:00:00")),
    "the year 2037": Surroundings(inside=("faketime", "2037-12-31 23:59:59")),
    "the year 1970": Surroundings(inside=("faketime", "1970-01-01 00:00:01")),
    "a clock that jumps back": Surroundings(inside=("faketime", "-f", "-3650d")),
    "umask 777": Surroundings(before=_masked),
    "no stdin": Surroundings(before=_closed(0)),
    "no stderr": Surroundings(before=_closed(2)),
    "no stream at all": Surroundings(before=_closed(0, 1, 2), works=False),
    "few open files": Surroundings(before=_limited(resource.RLIMIT_NOFILE, 24), works=False),
    "small files only": Surroundings(before=_limited(resource.RLIMIT_FSIZE, 4_000), works=False),
    "little memory": Surroundings(before=_limited(resource.RLIMIT_AS, 220 << 20), works=False),
    "no core, no locks": Surroundings(before=_limited(resource.RLIMIT_MEMLOCK, 0)),
    "another user, without rights": Surroundings(inside=("runuser", "-u", "nobody", "--")),
    "a read-only home": Surroundings(inside=("bwrap", "--ro-bind", "/", "/"), works=False),
    "no network at all": Surroundings(inside=("bwrap", "--dev-bind", "/", "/", "--unshare-net")),
    "no /proc": Surroundings(inside=("bwrap", "--dev-bind", "/", "/", "--tmpfs", "/proc")),
    "no /dev but null": Surroundings(inside=("bwrap", "--bind", "/", "/", "--tmpfs", "/dev/shm")),
}
HOMES = {
    "a relative home": "home",
    "a home with spaces and a newline": "ho me\nüñ",
    "a home with a long name": "/".join(["x" * 200] * 4),
    "a home below a file": "a.txt/home",
    "a home that is a link": "link",
}


def environments(tried: Tried) -> Iterator[Case]:
    """Each of the surroundings, then each odd home."""
    names = tried.some(list(SURROUNDINGS)[:: tried.sized(16, 1)])
    for number, name in enumerate(names):
        yield _tried(tried.folder(f"s{number}"), name, SURROUNDINGS[name])
    for number, (name, home) in enumerate(list(HOMES.items())[:: tried.sized(3, 1)]):
        folder = tried.folder(f"h{number}")
        (folder / "elsewhere").mkdir()
        (folder / "link").symlink_to("elsewhere")
        (folder / "a.txt").write_text("a file\n")
        problems = [ran.problem for ran in _commands(folder, home, Surroundings()) if ran.problem]
        yield Case(name, "; ".join(problems))


def _tried(folder: Path, name: str, odd: Surroundings) -> Case:
    if odd.inside and shutil.which(odd.inside[0]) is None:
        return Case(name, skipped=f"{odd.inside[0]} is not installed")
    if odd.inside[:1] == ("runuser",) and os.geteuid() != 0:
        return Case(name, skipped="only root may become somebody else")
    home = folder / "home"
    transcript = transcript_in(home)
    say(transcript, "hello", "the stone is blue")
    transcript.close()
    if odd.inside[:1] == ("runuser",):
        _give_away(folder)
    problems = []
    for ran in _commands(folder, str(home), odd):
        problems += [ran.problem] if ran.problem else []
        if odd.works and ran.code:
            problems.append(f"`{ran.name}` ended with {ran.code}: {(ran.err or ran.out)[-200:]}")
    if not verify(places_in(home)).ok:
        problems.append("the chain is broken")
    return Case(name, "; ".join(problems))


def _give_away(folder: Path) -> None:
    """Let everybody pass to this folder, which then belongs to nobody."""
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, "nobody")
    for parent in folder.parents:
        if parent.owner() == "root" and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
            if parent == Path(parent.anchor):
                break


def _commands(folder: Path, home: str, odd: Surroundings) -> Iterator[Ran]:
    script = folder / "script.jsonl"
    script.write_text(json.dumps({"text": "It is blue."}) + '\n{"loop":true}\n')
    script.chmod(0o644)
    for arguments in (
        ("run", "which colour?", "--model", f"scripted/{script}"),
        ("log",),
        ("recall", "stone"),
        ("sessions",),
    ):
        yield _run(folder, home, odd, arguments)


def _run(folder: Path, home: str, odd: Surroundings, arguments: tuple[str, ...]) -> Ran:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "MINDSTONE_HOME": home,
        "MINDSTONE_RECALL__BACKGROUND": "false",
    }
    for name, value in odd.env.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    try:
        done = subprocess.run(
            [*odd.inside, sys.executable, "-m", "mindstone_tui", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
            env=env,
            preexec_fn=odd.before,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(arguments, -1, "", "")
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    silent = odd.before is not None and not out and not err
    return Ran(arguments, done.returncode, out, "closed" if silent else err)
