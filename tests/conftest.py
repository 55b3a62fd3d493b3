"""Every test runs in a home of its own; none can see the developer's."""

from __future__ import annotations

import gc
import itertools
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from textual import _wait

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads wait by spinning

hypothesis.settings.register_profile(
    "house",
    deadline=None,
    print_blob=True,
    # The same commit gets the same verdict; the long runs look where nobody has looked yet.
    derandomize=os.environ.get("MINDSTONE_FAULTS") != "1",
    max_examples=10_000 if os.environ.get("MINDSTONE_FAULTS") == "1" else 30,
)
hypothesis.settings.load_profile("house")
# The suite starts some two hundred programs; without bytecode each would compile this one anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["TZ"] = "UTC"  # people read local time
time.tzset()
os.environ.pop("PYTHONUNBUFFERED", None)  # it hides what a program leaves unwritten in a pipe
# What `nohup` or a shell's `&` ignores, every program that the suite starts would ignore, too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
# Textual's pilot takes an app as idle that has used nearly no processor for so long. It looks twice
# after every key: with its own 20 ms, most of what a test of the app takes would be that.
_wait.SLEEP_GRANULARITY = 1 / 200
_wait.SLEEP_IDLE = _wait.SLEEP_GRANULARITY / 20
gc.disable()  # until every test is imported: nothing of that is ever let go


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the tests of a file to one worker: what they load and build is made once, not thrice."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if file in LONG_AND_APART else TOGETHER.get(file, file)

    config.option.loadscopereorder = True  # large files first, so that no worker ends with one
    return ByFile(config, log)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a case by the beginning of its text: some are a megabyte, and a failure prints them."""
    return f"{val[:60]}…" if isinstance(val, str) and len(val) > 100 else None


LONG_AND_APART = frozenset(
    {
        "tests/red/test_red.py",
        "tests/tui/test_decisions.py",
        "tests/faults/test_homes.py",
        "tests/tui/test_snapshots.py",
        "tests/cli/test_replay.py",
        "tests/cli/test_run.py",
        "tests/cli/test_private_files.py",
    }
)
"""Files whose tests take long and share nothing: any worker may take any of them."""
TOGETHER = dict.fromkeys(
    (
        "tests/core/providers/test_direct.py",
        "tests/core/providers/test_litellm.py",
        "tests/core/providers/test_litellm_faults.py",
        "tests/core/features/test_delegate.py",
        "tests/core/features/test_health.py",
        "tests/servers/test_gateway.py",
        "tests/servers/test_gateway_wishes.py",
    ),
    "litellm",
) | dict.fromkeys(
    (
        "tests/core/shared/test_copies.py",
        "tests/core/shared/test_search.py",
        "tests/core/shared/test_sessions.py",
        "tests/core/shared/test_stores.py",
    ),
    "database",
)
"""Files that need the same thing that takes seconds: litellm and openai, or a database server."""


_NUMBERS = itertools.count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder of the test's own; pytest's reads the names of all others to number this one."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A throw-away home; `$HOME` and `MINDSTONE_HOME` point into it."""
    folder = tmp_path / "home"
    monkeypatch.setenv("MINDSTONE_HOME", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    # Where the suite was started is nobody's project.
    monkeypatch.setenv("MINDSTONE_SESSION__DEFAULT", "agent:default:main")
    monkeypatch.setenv("MINDSTONE_RECALL__BACKGROUND", "false")  # no process outlives a test
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def hostile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, a project whose modules are called like ours; one that runs says so."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in ("apsw", "mindstone_tui", "msgspec", "numpy"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n1 / 0\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def file_size_limit() -> Iterator[Callable[[int], None]]:
    """Let files grow to so many bytes and no further: a true short write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)
