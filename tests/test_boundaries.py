"""Layers: who may import whom, and what is not loaded unless it is needed."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mindstone_tui"
SCREENS = {"textual", "rich", "typer", "click", "litellm"}


def _packages() -> list[str]:
    """Every module and package directly inside the core."""
    return sorted(
        path.stem
        for path in (PACKAGE / "core").iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    )


def _loaded_by(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-1_000:]
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_no_package_of_the_core_loads_a_screen_or_a_provider() -> None:
    modules = [
        ".".join(("mindstone_tui", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in sorted((PACKAGE / "core").rglob("*.py"))
        if '__name__ == "__main__"' not in path.read_text("utf-8")
    ]
    assert len(modules) > 100
    names = [module.removesuffix(".__init__") for module in modules]
    loop = "import importlib\nfor name in {}:\n    importlib.import_module(name)"
    assert not _loaded_by(loop.format(names)) & SCREENS


def test_the_lowest_layer_loads_nothing_heavy() -> None:
    loaded = _loaded_by("import mindstone_tui.core.transcript, mindstone_tui.core.config")
    assert not loaded & (SCREENS | {"numpy", "onnxruntime", "apsw", "tiktoken", "pydantic"})


def test_the_app_is_drawn_before_recall_and_its_libraries_are_loaded() -> None:
    loaded = _loaded_by(
        """
import asyncio, sys
from pathlib import Path
from mindstone_tui.cli.app_host import host_for
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.paths import Places
from mindstone_tui.tui.app import MindstoneApp

async def never(key):
    await asyncio.Event().wait()

async def draw():
    home = Places(*[Path("nowhere")] * 3)
    around = host_for(home, Settings(), "agent:default:main", Path("nowhere"))
    async with MindstoneApp(never, around).run_test() as pilot:
        await pilot.pause()
        waits = {"mindstone_tui.core.events", "mindstone_tui.core.transcript"} & sys.modules.keys()
        assert not waits, waits

asyncio.run(draw())
"""
    )
    assert "textual" in loaded
    assert not loaded & {"numpy", "apsw", "tiktoken", "onnxruntime", "litellm", "mcp"}


def test_the_package_itself_loads_nothing() -> None:
    loaded = _loaded_by("import mindstone_tui")
    assert not loaded & {"msgspec", "typing_extensions", "platformdirs"}


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(ROOT)},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]


def test_every_package_of_the_core_is_named_in_the_contract() -> None:
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    layers = contract["importlinter:contract:layers"]["layers"]
    named = set(re.findall(r"mindstone_tui\.core\.(\w+)", layers))
    assert set(_packages()) <= named


def test_every_module_says_what_it_promises() -> None:
    silent = [
        str(path)
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.read_text("utf-8").lstrip().startswith(('"""', 'r"""'))
    ]
    assert not silent


def test_no_process_of_ours_takes_modules_from_the_folder_it_is_started_in() -> None:
    starts = [
        line.strip()
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"sys\.executable,.*\"-m\"", line)
    ]
    assert starts
    assert [line for line in starts if '"-P"' not in line] == []


def test_the_lock_is_hashed_and_names_no_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^[a-z0-9][\w.\-]*==", lock, re.MULTILINE)
    assert len(pins) > 50
    assert lock.count("--hash=sha256:") > 2 * len(pins)
    assert "://" not in lock
    for bad in ("litellm==1.82.7", "litellm==1.82.8"):
        assert bad not in lock


def test_nothing_installed_runs_at_every_start_of_python() -> None:
    """A `.pth` file with code is how a poisoned release once stole keys."""
    site = Path(next(path for path in sys.path if path.endswith("site-packages")))
    for file in site.glob("*.pth"):
        code = [line for line in file.read_text().splitlines() if line.startswith("import")]
        assert not code or file.name.startswith(("_virtualenv", "distutils-precedence")), file
