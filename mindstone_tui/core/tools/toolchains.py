"""What a confined command may see of the machine and of the home folder: by name, nothing else.

Compilers, interpreters and package caches live at home, next to keys, tokens, wallets, histories
and other agents' credentials. So the home is empty inside, and only what `toolchains.json` names is
shown, read-only. Where a toolchain keeps credentials beside its programs, each folder is named.
So it is with `/etc`: a file that is hidden by something laid over it comes to light as soon as the
machine puts another in its place.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.patterns import pattern_of


class _Toolchains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables in `toolchains.json`."""

    at_home: dict[str, tuple[str, ...]]
    """Below the home, by language."""
    conda: tuple[str, ...]
    parts_of_conda: tuple[str, ...]
    parts_of_a_prefix: tuple[str, ...]
    """What belongs to programs in the folder beside it."""
    program_folders: tuple[str, ...]
    """What folders with programs are called."""
    system: tuple[str, ...]
    """Where an operating system keeps its programs."""
    settings: tuple[str, ...]
    """What is shown of `/etc`, as patterns: nothing where people keep passwords or keys."""
    offline: dict[str, str]
    """Tells package managers that there is no network: use what is there, or fail at once."""
    git_sections: tuple[str, ...]
    git_keys: tuple[str, ...]
    """Git's settings that hold no credential and run nothing."""


_KNOWN: Final = msgspec.json.decode(
    Path(__file__).with_suffix(".json").read_bytes(), type=_Toolchains
)
SYSTEM: Final = _KNOWN.system
OFFLINE: Final = _KNOWN.offline

_HEADING: Final = pattern_of(r"\s*\[\s*([A-Za-z0-9.-]+)\s*(\".*\")?\s*\]\s*(?:[#;].*)?\Z")
_SETTING: Final = pattern_of(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*([^\\\n]*)\Z")


def shown_at_home(home: Path, path: str, venv: str = "") -> tuple[Path, ...]:
    """The places below the home that a confined command may read, as far as they exist."""
    named = [home / name for names in _KNOWN.at_home.values() for name in names]
    named += [home / root / part for root in _KNOWN.conda for part in _KNOWN.parts_of_conda]
    named += [folder for folder in _programs(path) if home in folder.parents]
    named += [each for each in _environments(path, venv) if home in each.parents]
    return tuple(
        place for place in dict.fromkeys(named) if place.exists() and not _holds(place, home)
    )


def shown_elsewhere(home: Path, path: str, venv: str = "") -> tuple[Path, ...]:
    """Programs outside the home and the system: what `PATH` names, with its libraries."""
    found: list[Path] = [Path(sys.prefix), Path(sys.base_prefix), *_environments(path, venv)]
    for folder in _programs(path):
        if home in folder.parents:
            continue
        found.append(folder)
        if len(folder.parts) > 2:
            found += [folder.parent / part for part in _KNOWN.parts_of_a_prefix]
    return tuple(
        place
        for place in dict.fromkeys(found)
        if place.exists() and not _holds(place, home) and not _in_system(place)
    )


def _holds(place: Path, home: Path) -> bool:
    real = place.resolve()
    return len(real.parts) < 2 or real == home.resolve() or real in home.resolve().parents


def _in_system(place: Path) -> bool:
    return any(str(place) == root or str(place).startswith(f"{root}/") for root in SYSTEM)


def _programs(path: str) -> Iterator[Path]:
    """The folders of `PATH` that are called what such folders are called."""
    for part in path.split(":"):
        if part.startswith("/") and Path(part).name.casefold() in _KNOWN.program_folders:
            yield Path(part)


def _environments(path: str, venv: str) -> Iterator[Path]:
    """Virtual environments that are in use."""
    candidates = [folder.parent for folder in _programs(path)]
    if venv.startswith("/"):
        candidates.append(Path(venv))
    for each in candidates:
        if (each / "pyvenv.cfg").is_file():
            yield each


def shown_of_the_machine() -> tuple[Path, ...]:
    """The operating system's programs, and of its settings what programs cannot do without."""
    etc = Path("/etc")
    settings = [place for each in _KNOWN.settings for place in sorted(etc.glob(each))]
    return tuple(place for place in (*map(Path, SYSTEM), *settings) if place.exists())


def npm_registry(home: Path) -> dict[str, str]:
    """Where npm's cached packages came from, by which it finds them; never with a password."""
    try:
        lines = (home / ".npmrc").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        if found := re.match(r"\s*registry\s*=\s*(https?://[A-Za-z0-9.:/_-]+)\s*\Z", line):
            return {"npm_config_registry": found.group(1)}
    return {}


def clean_git_settings(home: Path) -> bytes:
    """Git's settings of this person, without credentials and without anything that is run."""
    kept: list[str] = []
    for source in (home / ".config" / "git" / "config", home / ".gitconfig"):
        try:
            text = source.read_text("utf-8", "replace")
        except OSError:
            continue
        section = ""
        for line in text.splitlines():
            if heading := _HEADING.match(line):
                section = "" if heading.group(2) else heading.group(1).casefold()
                continue
            setting = _SETTING.match(line) if section in _KNOWN.git_sections else None
            if setting and setting.group(1).casefold() in _KNOWN.git_keys:
                kept.append(f"[{section}]\n\t{setting.group(1)} = {setting.group(2).strip()}\n")
    return "".join(kept).encode()
