"""A home with everything in it, made by using the program."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.builders import places_in
from tests.red.apart import run_apart

SAID = "remember that the harbour light is green"
"""The first thing said in it; nothing may lose it."""


def furnished(base: Path) -> Path:
    """A home whose every kind of file is there: history, derived, settings, keys, trust."""
    home = base / "home"
    home.mkdir(parents=True)
    (base / "a.txt").write_text("some lines\n" * 200)
    script = base / "script.jsonl"
    call = {"text": "", "tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
    long = {"text": "It is green. " * 600}
    replies = [call, {"text": "I will."}, long, *[{"text": f"Answer {n}."} for n in range(40)]]
    script.write_text("".join(json.dumps(each) + "\n" for each in replies))
    model = f"scripted/{script}"
    (home / "config.toml").write_text("[recall]\nbackground = false\n[context]\nceiling = 80\n")
    keys = home / "keys.toml"
    keys.write_text('openai = "sk-nothing-real"\n')
    keys.chmod(0o600)
    (home / "themes").mkdir()
    (home / "themes" / "mine.toml").write_text('primary = "#112233"\n')
    (home / "profiles").mkdir()
    (home / "profiles" / "own.toml").write_text("[context]\nceiling = 75\n")
    agent = home / "agents" / "default"
    agent.mkdir(parents=True)
    (agent / "IDENTITY.md").write_text("You are calm.\n")
    (agent / "USER.md").write_text("She likes short answers.\n")
    (agent / "memory").mkdir()
    (agent / "memory" / "fact-port.md").write_text(
        "---\nname: port\nkind: fact\ncreated: 2026-01-01T00:00:00Z\n---\nThe port is 8080.\n"
    )
    ran = run_apart(
        home,
        base,
        [
            ("run", SAID, "--model", model),
            ("run", "and the buoy?", "--model", model),
            ("task", "start", "paint the buoy"),
            ("checkpoint", "save"),
            ("handoff", "write"),
            ("recall", "harbour"),
        ],
    )
    assert not [each.problem for each in ran if each.problem], ran
    state = home / "state"
    state.mkdir(exist_ok=True)
    for name, value in (("trust.json", {str(base): "x"}), ("tool-pins.json", {})):
        if not (state / name).exists():
            (state / name).write_text(json.dumps(value))
    (places_in(home).title).write_text("The harbour\n")
    return home


def files_of(home: Path) -> list[Path]:
    """Every file of a home, relative to it; locks hold nothing."""
    return sorted(
        path.relative_to(home)
        for path in home.rglob("*")
        if path.is_file() and path.suffix not in (".lock", ".pyc")
    )


def copied(home: Path, to: Path) -> Path:
    """The same home elsewhere, for one case."""
    shutil.copytree(home, to / "home", symlinks=True)
    shutil.copy(home.parent / "a.txt", to / "a.txt")
    shutil.copy(home.parent / "script.jsonl", to / "script.jsonl")
    return to / "home"
