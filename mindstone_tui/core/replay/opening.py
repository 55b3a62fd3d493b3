"""Recordings to play: a session as it was, or, where nothing was ever sent, as it would have been.

An imported session has no requests of its own, and neither has the sample. Their windows are
rehearsed in memory, and the recording says so.
"""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.interchange.samples import SAMPLE_SESSION, import_sample
from mindstone_tui.core.places import Places, SessionKey
from mindstone_tui.core.replay.rehearsal import AS_IT_IS, rehearse
from mindstone_tui.core.replay.sketch import Sketch
from mindstone_tui.core.replay.staging import Options
from mindstone_tui.core.transcript import History

SAMPLE_WINDOW: Final = 16_384
"""A window in which the sample has to make room several times."""
REHEARSED: Final = (
    "No request of this session was recorded here: its window is rehearsed under your settings."
)


def open_sample(home: Places) -> History:
    """The sample session, in memory."""
    sketch = Sketch(home.session(SessionKey.parse(SAMPLE_SESSION)), channel="import")
    import_sample(sketch)
    return sketch.history()


def has_requests(history: History) -> bool:
    """Whether a request was ever planned in this session."""
    return any(isinstance(item, Line) and _is_request(item) for item in history.read())


def _is_request(line: Line) -> bool:
    return isinstance(line.entry, PromptPlanned) and not line.entry.purpose


async def playable(
    history: History, settings: Settings, options: Options = AS_IT_IS
) -> tuple[History, str]:
    """The session to play, and a word about it where it is a rehearsal."""
    if has_requests(history):
        return history, ""
    held = await rehearse(history, settings, options)
    held.recollection.close()
    return held.history(), REHEARSED
