"""What replay and compare share: which session, which settings, what a prompt costs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from mindstone_tui.cli.options import places, session_key
from mindstone_tui.cli.output import hint
from mindstone_tui.cli.progress import Progress
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.errors import MindstoneError, UsageError
from mindstone_tui.core.providers.registry import resolve
from mindstone_tui.core.recall.embedding import open_embedder
from mindstone_tui.core.recall.index import EmbedsOnce
from mindstone_tui.core.replay.playback import SAMPLE_WINDOW, open_sample
from mindstone_tui.core.replay.rehearsal import RehearsalOptions
from mindstone_tui.core.replay.what_if import PriceOf, Prices
from mindstone_tui.core.transcript import History

SessionArgument = Annotated[
    str, typer.Argument(help="Which session; the default one if left out.", metavar="[SESSION]")
]
SameSessionOption = Annotated[
    str, typer.Option("--session", "-s", metavar="KEY", help="The same, as an option.")
]
SampleOption = Annotated[
    bool, typer.Option("--sample", help="The session that ships with the program.")
]
VectorsOption = Annotated[
    bool,
    typer.Option("--vectors", help="Let recall search by meaning, too: truer, and slower."),
]
SHIPPED_EMBEDDER = "minilm"


@contextlib.contextmanager
def source_of(name: str, *, sample: bool) -> Iterator[History]:
    """The session that was named, for reading only, or the sample."""
    if sample and name:
        raise UsageError("Name a session or ask for the sample, not both.")
    if sample:
        yield open_sample(places())
        return
    with History(places().session(session_key(name))) as history:
        yield history


def settings_for(*, sample: bool, flags: Mapping[str, object] | None = None) -> Settings:
    """The user's settings with some changed; the sample is given a window that fills."""
    wanted = dict(flags or {})
    found = load(places(), os.environ, flags=wanted).settings
    if sample and not found.context.window:
        wanted["context.window"] = SAMPLE_WINDOW
        found = load(places(), os.environ, flags=wanted).settings
    return found


def rehearsal_options(
    settings: Settings, bar: Progress | None, *, vectors: bool
) -> RehearsalOptions:
    """How to rehearse; only the model that ships with the program is asked for meaning."""
    if vectors and settings.recall.embedder != SHIPPED_EMBEDDER:
        hint("A rehearsal asks nobody: recall searches by words alone.")
        vectors = False
    embedder = open_embedder(SHIPPED_EMBEDDER) if vectors else None
    return RehearsalOptions(
        embedder=EmbedsOnce(embedder) if embedder is not None else None,
        progress=None if bar is None else lambda done, total: bar.at(done, total),
    )


def prices(settings: Settings) -> PriceOf:
    """What prompts cost with each model, as far as anybody knows without asking."""
    known: dict[str, Prices] = {}

    def look_up(model: str) -> Prices:
        try:
            info = resolve(model, settings.models, places(), os.environ).info(model)
        except MindstoneError:
            return Prices()
        return Prices(prompt=info.prompt_price, cached=info.cached_price)

    def price_of(model: str) -> Prices:
        if model not in known:
            known[model] = look_up(model)
        return known[model]

    return price_of
