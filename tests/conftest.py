"""Every test runs in a home of its own; none can see the developer's."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import hypothesis
import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads wait by spinning

hypothesis.settings.register_profile(
    "house",
    deadline=None,
    print_blob=True,
    max_examples=10_000 if os.environ.get("MINDSTONE_FAULTS") == "1" else 60,
)
hypothesis.settings.load_profile("house")
# The suite starts some two hundred programs; without bytecode each would compile this one anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
gc.disable()  # until every test is imported: nothing of that is ever let go


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A throw-away home; `$HOME` and `MINDSTONE_HOME` point into it."""
    folder = tmp_path / "home"
    monkeypatch.setenv("MINDSTONE_HOME", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MINDSTONE_RECALL__BACKGROUND", "false")  # no process outlives a test
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder
