"""Models are offered once, to those who have none; a removed default leaves the guide."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindstone_tui.core.config import load
from mindstone_tui.core.config.load import store
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library.model_list import (
    Download,
    catalogue,
    fetched,
    offered,
    refuse_offer,
    remove_model,
)
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers.local_models import find, free_memory, path_of

SMOLLM2 = find("smollm2")


@pytest.fixture
def places(home: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(home)})


def offer(places: Places, **environ: str) -> Download | None:
    store(places, "models.local_memory_left", "0")
    return offered(places, load(places, environ).settings, environ)


def install(places: Places) -> Path:
    path = path_of(places, SMOLLM2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, SMOLLM2.size)
    return path


def test_somebody_without_a_model_is_offered_the_best_that_fits_until_a_no(places: Places) -> None:
    fitting = [each for each in catalogue(places, load(places, {}).settings.models) if each.window]
    if not fitting:
        pytest.skip("this machine has no memory left for any model")
    best = offer(places)
    assert best is not None
    assert best.name == fitting[0].name
    refuse_offer(places)
    assert offer(places) is None


def test_whoever_has_a_model_or_a_key_is_not_asked(places: Places) -> None:
    assert offer(places, OPENAI_API_KEY="sk-1") is None
    store(places, "models.default", "ollama/qwen3")
    assert offer(places) is None
    store(places, "models.default", "")
    install(places)
    assert offer(places) is None


def test_a_removed_default_leaves_the_guide(places: Places) -> None:
    path = install(places)
    store(places, "models.default", "local/smollm2")
    assert fetched(places, "smollm2") == ("local/smollm2", path)
    assert remove_model(places, {}, "smollm2") == (SMOLLM2.size, True)
    assert load(places, {}).settings.models.default == ""
    assert not path.exists()
    with pytest.raises(UsageError, match="not on this machine"):
        remove_model(places, {}, "smollm2")


def test_what_a_container_may_use_counts(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    4000 kB\n")
    assert free_memory(meminfo, tmp_path / "none") == 4_096_000
    for name, text in (("max", "3000000"), ("current", "2000000"), ("stat", "inactive_file 500")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert free_memory(meminfo, tmp_path) == 1_000_500
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(meminfo, tmp_path) == 4_096_000
    assert free_memory(tmp_path / "none", tmp_path / "none") > 0
