"""`mindstone compare`: one session under several ways of making room."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
import typer

from mindstone_tui.cli.options import JsonOption, SampleOption, places, session_to_read
from mindstone_tui.cli.output import Progress, bar_chart, hint, line_chart, say, say_json, table
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.interchange.samples import sample_probes
from mindstone_tui.core.library.model_list import prices_of
from mindstone_tui.core.replay.compare import (
    MEASURES,
    MODES,
    Compared,
    Comparing,
    Comparison,
    Share,
    asking,
    compare,
    probes_of_sample,
    probes_of_session,
)
from mindstone_tui.core.replay.playback import SAMPLE_WINDOW, open_sample
from mindstone_tui.core.replay.rehearsal import SHIPPED_EMBEDDER, RehearsalOptions, by_meaning
from mindstone_tui.core.transcript import History

SessionArgument = Annotated[
    str, typer.Argument(help="Session; the default one if omitted.", metavar="[SESSION]")
]
SameSessionOption = Annotated[
    str, typer.Option("--session", "-s", metavar="KEY", help="The same as an option.")
]
VectorsOption = Annotated[
    bool,
    typer.Option("--vectors", help="Also search by meaning: more accurate, slower."),
]


@contextlib.contextmanager
def source_of(name: str, *, sample: bool) -> Iterator[History]:
    """The session that was named, for reading only, or the sample."""
    if sample and name:
        raise UsageError("Give a session or --sample, not both.")
    if sample:
        yield open_sample(places())
        return
    with History(places().session(session_to_read(name))) as history:
        yield history


def settings_for(*, sample: bool, flags: Mapping[str, object] | None = None) -> Settings:
    """The user's settings with some changed; the sample has its own window unless one is named.

    A window in the user's settings is meant for their model, and would leave the sample unfilled.
    """
    wanted = dict(flags or {})
    if sample:
        wanted.setdefault("context.window", SAMPLE_WINDOW)
    return load(places(), os.environ, flags=wanted).settings


def rehearsal_options(
    settings: Settings, bar: Progress | None, *, vectors: bool
) -> RehearsalOptions:
    """How to rehearse; only the model that ships with the program is asked for meaning."""
    if vectors and settings.recall.embedder != SHIPPED_EMBEDDER:
        hint("A rehearsal calls no model, so recall searches by words only.")
        vectors = False
    progress = None if bar is None else lambda done, total: bar.at(done, total)
    return by_meaning(progress) if vectors else RehearsalOptions(progress=progress)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("compare")(compare_modes)


def compare_modes(
    session: SessionArgument = "",
    named: SameSessionOption = "",
    sample: SampleOption = False,
    modes: Annotated[str, typer.Option(metavar="A,B,…", help="Modes to compare.")] = ",".join(
        MODES
    ),
    window: Annotated[
        int,
        typer.Option("--context-window", metavar="TOKENS", min=0, help="Context window to fill."),
    ] = 0,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Also let a model write summaries and judge answers.",
        ),
    ] = "",
    vectors: VectorsOption = False,
    json: JsonOption = False,
) -> None:
    """Compare what each context mode still remembers.

    One long session is held under several modes and asked for facts, sources, the user's
    corrections, what would wrongly be taken for true, and reasons. The questions are the same
    every time, and no model is called; --model lets one write the summaries and judge, too.
    """
    chosen = [mode.strip() for mode in modes.split(",") if mode.strip()]
    if unknown := [mode for mode in chosen if mode not in MODES]:
        raise UsageError(f"Unknown mode {unknown[0]}.", f"Use {', '.join(MODES)}.")
    flags: dict[str, object] = {"context.window": window} if window else {}
    settings = {
        mode: settings_for(sample=sample, flags={**flags, "context.mode": mode}) for mode in chosen
    }
    with (
        source_of(named or session, sample=sample) as history,
        Progress("lines", 0, quiet=json) as bar,
    ):
        probes = (
            probes_of_sample(history, sample_probes()) if sample else probes_of_session(history)
        )
        if not probes:
            raise UsageError(
                "This session has nothing to ask about.", "`compare --sample` shows an example."
            )
        own = next(iter(settings.values()))
        how = _comparing(own, bar, model, vectors=vectors)
        found = asyncio.run(compare(history, settings, probes, how))
    if json:
        say_json(found)
    else:
        _print(found)


def _comparing(settings: Settings, bar: Progress, model: str, *, vectors: bool) -> Comparing:
    options = rehearsal_options(settings, None, vectors=vectors)
    ask = None
    if model:
        ask = asking(model, settings.models, places(), os.environ)
        options = msgspec.structs.replace(options, ask=ask, model=model)
    return Comparing(
        options=options,
        price_of=prices_of(places(), settings, os.environ),
        judge=ask,
        progress=lambda mode, done, total: bar.at(done, total),
    )


def _print(found: Comparison) -> None:
    how = "words and meaning" if found.vectors else "words"
    say(
        f"{found.session} in a window of {found.window:,} tokens: {found.probes} probes, "
        f"recall by {how}",
        "bold",
    )
    rows = comparison_rows(found)
    heads = ["", *(one.mode for one in found.modes)]
    table(heads, rows, right=())
    say()
    say("█ in the window  ▒ by recall  · lost", "dim")
    for name, words in MEASURES:
        if name != "false":
            for one in found.modes:
                say(f"{words:22} {one.mode:15} {_bar(one, name)}")
    say()
    say("How full, turn by turn", "bold")
    for one in found.modes:
        say(f"{one.mode:15} {line_chart([each.utilization for each in one.outcome.moments])}")
    for one in found.modes:
        if one.judged is not None and one.judged.score is None:
            hint(f"{one.mode}: not judged, {one.judged.why}")


def comparison_rows(found: Comparison) -> list[list[str]]:
    """The table: a row a measure, a column a mode."""
    rows = [
        [words, *(_share(one.measures[name], name) for one in found.modes)]
        for name, words in MEASURES
    ]
    if any(one.judged for one in found.modes):
        rows.append(["judged by a model", *(_judged(one) for one in found.modes)])
    rows.append(["tokens sent", *(_millions(one.outcome.tokens_sent) for one in found.modes)])
    rows.append(["summaries", *(str(one.outcome.summaries) for one in found.modes)])
    return rows


def _share(share: Share, name: str) -> str:
    if name == "false":
        return f"{share.hits} of {share.asked}"
    return f"{share.hits} of {share.asked} ({share.in_window} in the window)"


def _judged(one: Compared) -> str:
    if one.judged is None or one.judged.score is None:
        return "–"
    return f"{one.judged.consistent} of {one.judged.judged}"


def _millions(tokens: int) -> str:
    return f"{tokens / 1_000_000:.2f} M" if tokens >= 1_000_000 else f"{tokens:,}"


def _bar(one: Compared, name: str) -> str:
    share = one.measures[name]
    return f"{bar_chart(share.hits, share.asked, share.in_window)} {share.hits}/{share.asked}"
