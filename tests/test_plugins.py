"""Plug-ins through the real command: the examples of the documentation, built and installed.

An environment of its own is made for them: the plug-in's wheel, MindStone, and nothing of the
folder one stands in.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

from mindstone_tui.core.plugins import plugins_in

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "plugins.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python (\S+) (\w+) = (\w+):(\w+)\n(.*?)```", PAGE, re.DOTALL)
PROJECT = re.findall(r"```toml pyproject.toml\n(.*?)```", PAGE, re.DOTALL)[0]


class Place(NamedTuple):
    """A fresh environment with plug-ins."""

    python: Path
    site: Path
    folder: Path

    def mindstone(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The real command, as it is installed there."""
        return subprocess.run(
            [self.python, "-m", "mindstone_tui", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "MINDSTONE_HOME": str(self.folder / "home"),
                "MINDSTONE_RECALL__BACKGROUND": "false",
            },
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An environment with MindStone and every example of the page."""
    folder = tmp_path_factory.mktemp("plugins")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    site = Path(
        sysconfig.get_path("purelib", vars={"base": str(folder / "env")}, scheme="posix_prefix")
    )
    # MindStone with what it needs, without installing 140 packages anew.
    known = [str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (site / "mindstone.pth").write_text("".join(f"{each}\n" for each in dict.fromkeys(known)))
    for group, entry, module, name, code in EXAMPLES:
        source = folder / module
        source.mkdir()
        (source / f"{module}.py").write_text(code)
        filled = PROJECT.replace("NAME", module.replace("_", "-")).replace("GROUP", group)
        filled = filled.replace("ENTRY", entry).replace("MODULE", module).replace("OBJECT", name)
        (source / "pyproject.toml").write_text(filled)
        built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(built, cwd=source, check=True, capture_output=True)
    wheels = [str(path) for path in folder.glob("*.whl")]
    into = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
    subprocess.run([*into, "--no-index", *wheels], check=True, capture_output=True)
    return Place(python, site, folder)


def test_the_page_has_one_example_for_each_door() -> None:
    groups = [each[0] for each in EXAMPLES]
    assert groups == ["mindstone.formats", "mindstone.features", "mindstone.providers"]
    assert max(len(each[4].splitlines()) for each in EXAMPLES) <= 45


@pytest.mark.thorough
def test_what_is_installed_is_listed_with_its_package(place: Place) -> None:
    listed = json.loads(place.mindstone("plugins", "--json").stdout)["plugins"]
    assert {(each["name"], each["brings"], each["state"]) for each in listed} == {
        ("radio", "formats", "in use"),
        ("dice", "features", "in use"),
        ("echo", "providers", "in use"),
    }
    assert {each["version"] for each in listed} == {"0.1.0"}
    assert "radio-log 0.1.0" in place.mindstone("plugins").stdout


def test_a_format_of_a_plugin_is_recognised_and_read(place: Place) -> None:
    log = place.folder / "monday.log"
    log.write_text(
        "2026-11-02T09:14:00Z ada: Which port?\n2026-11-02T09:14:05Z radio: 8790.\nnoise\n"
    )
    done = place.mindstone("import", "--json", str(log))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["format"] == "radio"
    assert told["skipped"] == [{"line": 3, "why": "this is no line of a log"}]


def test_a_command_and_a_tool_of_a_plugin_work(place: Place) -> None:
    rolled = place.mindstone("run", "/roll 1")
    assert rolled.stdout.strip() == "1", rolled.stderr
    assert "Usage: /roll [SIDES]" in place.mindstone("run", "/roll many").stderr
    script = place.folder / "script.jsonl"
    script.write_text(
        '{"tool_calls": [{"name": "roll", "arguments": {"sides": 1}}]}\n{"text": "Rolled."}\n'
    )
    ran = place.mindstone("run", "--json", "--reports", "--model", f"scripted/{script}", "Roll.")
    heard = [json.loads(row) for row in ran.stdout.splitlines()]
    (ended,) = [row for row in heard if row["event"] == "tool_ended"]
    assert (ended["status"], ended["text"]) == ("ok", "1")
    reports = [row["report"] for row in heard if row["event"] == "context_reported"]
    assert reports[-1]["beside"] == ["1 dice rolled"]


def test_a_provider_of_a_plugin_answers(place: Place) -> None:
    said = place.mindstone("run", "-q", "--model", "echo/any", "Hello there")
    assert said.stdout.strip() == "Hello there", said.stderr


@pytest.mark.thorough
def test_a_plugin_that_cannot_be_loaded_is_named_and_nothing_else_suffers(place: Place) -> None:
    (place.site / "bad.py").write_text("raise RuntimeError('not today')\n")
    info = place.site / "bad-2.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(
        "[mindstone.features]\nbad = bad:Bad\n[mindstone.providers]\nbad = bad:BAD\n"
        "[mindstone.formats]\nbad = json:loads\n"
    )
    try:
        told = place.mindstone("run", "--model", "echo/any", "Hello there")
        assert told.returncode == 0
        why = (
            "The plug-in bad of bad 2.0 is left out: it cannot be loaded (RuntimeError: not today)."
        )
        assert told.stderr.count(why) == 1
        asked = place.mindstone("run", "--model", "bad/any", "Hello")
        assert (asked.returncode, why in asked.stderr) == (2, True)
        listed = json.loads(place.mindstone("plugins", "--json").stdout)["plugins"]
        assert [each["state"] for each in listed].count("left out") == 3
        checks = json.loads(place.mindstone("doctor", "--json").stdout)["checks"]
        (check,) = [each for each in checks if each["id"] == "plugins"]
        assert check["outcome"] == "warn"
    finally:
        (info / "entry_points.txt").unlink()
        info.rmdir()


def test_the_folder_one_stands_in_brings_no_plugin(place: Place) -> None:
    info = place.folder / "evil-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[mindstone.features]\nevil = evil:Evil\n")
    (place.folder / "evil.py").write_text("open('ran', 'w')\n")
    assert [each.name for each in plugins_in(place.folder)] == ["evil"]
    assert "evil" not in place.mindstone("plugins", "--json").stdout
    assert not (place.folder / "ran").exists()
