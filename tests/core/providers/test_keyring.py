"""Keys in a real keyring: GNOME's, on a message bus of the test's own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAMS = ("dbus-run-session", "gnome-keyring-daemon")
STORY = """
import sys
from pathlib import Path
import secretstorage
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.providers.address import find_key
from mindstone_tui.core.providers.key_store import store_key

path = Path(sys.argv[1])
print(store_key(path, "anthropic", "sk-ant-in-the-keyring").place)
print("sk-ant" in path.read_text())
print(find_key("anthropic", {}, path).secret)
store_key(path, "openai", "sk-soon-gone")
store_key(path, "openai", "")
print(find_key("openai", {}, path))
secretstorage.get_default_collection(secretstorage.dbus_init()).lock()
try:
    find_key("anthropic", {}, path)
except MindstoneError as error:
    print(error.sentence)
print(store_key(path, "mistral", "sk-while-locked").place)
print(find_key("mistral", {}, path).secret)
"""


def test_a_key_is_stored_used_removed_and_missed_when_the_keyring_is_locked(tmp_path: Path) -> None:
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    for module in ("keyring", "secretstorage"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the Python package {module} is not installed")
    unlock = "printf secret | gnome-keyring-daemon --unlock --components=secrets >/dev/null"
    done = subprocess.run(
        [
            *("dbus-run-session", "--", "sh", "-c", f'{unlock} && "$@"', "sh"),
            *(sys.executable, "-c", STORY, str(tmp_path / "keys.toml")),
        ],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
            "XDG_RUNTIME_DIR": str(tmp_path),
            "XDG_DATA_HOME": str(tmp_path / "data"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed" in done.stderr and not done.stdout:
        pytest.skip("no message bus or keyring can be started here")
    said = done.stdout.splitlines()
    assert said[:4] == ["the system's keyring", "False", "sk-ant-in-the-keyring", "None"], done
    assert said[4].startswith("The key for anthropic is in the system's keyring, which does not")
    assert said[5:] == [str(tmp_path / "keys.toml"), "sk-while-locked"]
