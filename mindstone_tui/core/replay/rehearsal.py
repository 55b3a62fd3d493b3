"""The same conversation under other settings: what was said stays, every decision is made anew.

Messages, tools and what a person did to the window are taken from history; plans, trims, prunes,
summaries, recall and handoffs are not: the real planners make them again, in memory. No model is
asked, no tool runs and nothing is written.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.working_set import WorkingSet
from mindstone_tui.core.entries import Line
from mindstone_tui.core.replay.recollection import Recollection
from mindstone_tui.core.replay.references import references_in
from mindstone_tui.core.replay.sketch import Sketch
from mindstone_tui.core.replay.staging import Call, Options, Resolved, Stage
from mindstone_tui.core.transcript import History


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it; `sketch` holds the whole session as it would have been."""

    sketch: Sketch
    working_set: WorkingSet
    recollection: Recollection
    settings: Settings
    calls: tuple[Call, ...]
    resolved: tuple[Resolved, ...]
    refused: tuple[str, ...] = ()
    """Requests that could not have been sent, and why."""
    undone: tuple[str, ...] = ()
    """What a person did to the window that makes no sense in this one, and why."""

    def history(self) -> History:
        """A reader of the session as it would have been."""
        return self.sketch.history()


AS_IT_IS: Final = Options()


async def rehearse(source: History, settings: Settings, options: Options = AS_IT_IS) -> Rehearsal:
    """Hold the conversation once more under these settings."""
    lines = [source.whole(item) for item in source.read() if isinstance(item, Line)]
    stage = Stage(source, settings, options, references_in(lines))
    for at, line in enumerate(lines):
        await stage.take(line)
        if options.progress is not None:
            options.progress(at + 1, len(lines))
    stage.learn()
    return Rehearsal(
        sketch=stage.sketch,
        working_set=stage.working_set,
        recollection=stage.recollection,
        settings=settings,
        calls=tuple(stage.calls),
        resolved=tuple(stage.resolved),
        refused=tuple(stage.refused),
        undone=tuple(stage.undone),
    )
