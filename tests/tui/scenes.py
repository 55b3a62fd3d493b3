"""Moments of a conversation worth looking at: the same for snapshots and for pictures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import OptionList

from mindstone_tui.core import events as ev
from mindstone_tui.core.config.glossary import glossary
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.report import GoneExchange, OutsideWindow
from mindstone_tui.core.library.elsewhere import Elsewhere
from mindstone_tui.core.library.model_list import Download
from mindstone_tui.core.values import Value
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.host import ModelChoice
from mindstone_tui.tui.widgets.welcome import Welcome
from tests.tui.shelf import Shelf
from tests.tui.staged import (
    Staged,
    around,
    asked,
    passage,
    pruned,
    recalled,
    recorded,
    reported,
    said,
    settle,
    staged,
    streamed,
    tool,
    until,
)

ANSWER = """We keep **one file per session** and never rewrite it:

1. A torn line costs at most itself.
2. `jq` can read it.
3. It can be *replayed*, byte for byte.

```python
def append(self, entry: Entry) -> Entry:
    os.write(self._fd, encode(entry))  # one write
    return entry
```

| mark | what happens |
|---|---|
| trim 75 | older tool results become a placeholder |
| ceiling 92 | whole exchanges leave, oldest first |
"""
DIFF = """--- a/journal.py
+++ b/journal.py
@@ -10,4 +10,4 @@
 def append(self, line):
-    self.file.write(line)
-    self.file.flush()
+    os.write(self.fd, line)
+    os.fdatasync(self.fd)
"""
OUTSIDE = OutsideWindow(exchanges=14, tokens=48_200, indexed=True)
REQUESTS = {
    3: "Set up the project with uv and pytest",
    4: "Why does the lock file differ on the server?",
    5: "Read the style guide and follow it",
    6: "The harbour wants its reports at six",
    7: "Make the parser accept centimetres",
    11: "Rename ingest to poll everywhere",
}
GONE = tuple(
    GoneExchange(turn=turn, tokens=1_840 + 97 * turn, words=words)
    for turn, words in sorted(REQUESTS.items(), reverse=True)
)
WORK: list[ev.AnyEvent] = [
    asked(31, "Fix the journal so that it uses one write."),
    recalled(31, passage(), passage("Never sync twice for one line; once is enough.", 12)),
    ev.ThinkingDelta(turn=31, text="I should look at the file first. " * 12),
    *tool(31, "c1", "read", "read mindstone/journal.py", "…", finding="journal.py, 380 lines"),
    *tool(
        31, "c2", "edit", "edit mindstone/journal.py", "ok", diff=DIFF, finding="2 lines changed"
    ),
    *tool(
        31,
        "c3",
        "shell",
        "shell: pytest -q tests/test_journal.py",
        "2 failed",
        status="error",
        finding="2 failed, 41 passed",
        elapsed=12.4,
    ),
]
STORE = said(30, "How do we store the transcript, and why that way?", ANSWER)
WISH = ev.ToolAsked(
    turn=31,
    call="c4",
    name="edit",
    risk="write",
    shown=f"edit mindstone/journal.py\n{DIFF}",
    digest="0" * 64,
    diff=DIFF,
    why="The folder is not on your list of places to edit.",
    scopes=(
        ev.AskedScope(scope="once", label="Allow once"),
        ev.AskedScope(scope="exact", label="Allow edit on journal.py, until you leave"),
        ev.AskedScope(scope="edits", label="Allow every edit here, until you leave"),
    ),
)


RUN = ev.ToolAsked(
    turn=31,
    call="c5",
    name="shell",
    risk="run",
    shown="run rm -rf build && git push --force\nrm -rf build && git push --force",
    digest="0" * 64,
    why="Approvals: ask.",
    worst="force-push",
    parts=(
        ev.AskedPart(text="rm -rf build", verdict="deletes", reason="removes build"),
        ev.AskedPart(
            text="git push --force", verdict="force-push", reason="rewrites a branch elsewhere"
        ),
    ),
    scopes=(ev.AskedScope(scope="once", label="Allow once"),),
)


class Scene(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What happened, and the keys that lead to the picture."""

    events: tuple[ev.AnyEvent, ...]
    keys: tuple[str, ...] = ()
    models: bool = False
    rows: int = 0
    """Rows that a list on the screen has in the end."""


SCENES: dict[str, Scene] = {
    "empty": Scene(events=(reported("green", 0.05),), models=True),
    "streaming": Scene(
        events=(
            *STORE,
            *WORK,
            *streamed(31, "Two tests still fail: the rollback path *writes* twice. I will"),
            ev.MessageQueued(entry="m1", text="and add a line to the changelog"),
            reported("yellow", 0.61),
        )
    ),
    "approval": Scene(events=(*STORE, *WORK, WISH, reported("yellow", 0.61))),
    "orange": Scene(
        events=(
            *STORE,
            asked(31, "Go on."),
            ev.ZoneChanged(turn=31, before="yellow", after="orange", utilization=0.78),
            ev.CheckpointSaved(turn=31, version=4, path="checkpoint.json"),
            recorded(31, "The rollback path is next."),
            reported("orange", 0.78, outside=OUTSIDE, gone=GONE),
        )
    ),
    "red": Scene(
        events=(
            *STORE,
            asked(31, "Go on."),
            ev.ZoneChanged(turn=31, before="orange", after="red", utilization=0.96),
            ev.PruneBlocked(turn=31, entry="b", why="protected", detail="Pins take 41 % of it."),
            ev.AlertRaised(
                turn=31,
                level="critical",
                metric="protected",
                message="Protection leaves no room to prune.",
                remedy="/unpin 4",
            ),
            reported("red", 0.96, outside=OUTSIDE, gone=GONE),
        )
    ),
    "pruned": Scene(
        events=(
            *STORE,
            asked(31, "Go on."),
            pruned(31, 3, 4, 5, 6, 7, 11),
            recorded(31, "The rollback path is next."),
            reported("yellow", 0.7, outside=OUTSIDE, gone=GONE),
        )
    ),
    "inspector": Scene(
        events=(*STORE, pruned(30, 3, 4, 5), reported("orange", 0.81, outside=OUTSIDE, gone=GONE)),
        keys=("f2", "down", "down", "down", "down", "space"),
    ),
    "picker": Scene(events=(*STORE, reported()), keys=("f3",), rows=3),
    "error": Scene(
        events=(
            asked(30, "Go on."),
            *streamed(30, "I was about to"),
            recorded(30, "I was about to", partial=True),
            ev.TurnEnded(turn=30, ending="interrupted"),
            asked(31, "Again, please."),
            ev.ModelRetried(turn=31, attempt=2, wait=4, why="529 overloaded"),
            ev.TurnEnded(
                turn=31,
                ending="failed",
                why="The provider refused the key.",
                remedy="Set ANTHROPIC_API_KEY, or /model local/guide.",
            ),
            ev.NotSaved(what="No space left on device", remedy="Free some space.", unsaved=3),
            reported("green", 0.3),
        )
    ),
    "commands": Scene(events=(*STORE, reported()), keys=("slash", "c", "o")),
    "words": Scene(events=(*STORE, reported()), keys=("question_mark",)),
    "overlay": Scene(
        events=(*STORE, reported("yellow", 0.7, outside=OUTSIDE, gone=GONE)), keys=("ctrl+b",)
    ),
    "key": Scene(events=(reported("green", 0.05),), models=True, keys=("f9", "enter")),
    "run": Scene(events=(*STORE, *WORK, RUN, reported("yellow", 0.61))),
    "help": Scene(events=(*STORE, reported()), keys=("f1",)),
}


class Newcomer:
    """A `Setup` for somebody who has nothing yet."""

    providers = (("anthropic", "anthropic/claude-sonnet-4-5"), ("openai", "openai/gpt-4o"))
    download = Download(
        name="local/qwen-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct",
        bytes=1_117_320_768,
        memory=1_734_761_280,
        licence="Apache 2.0",
        skills="answers from what it recalls and uses tools",
        sources=(),
        window=32_768,
    )

    def downloadable(self, name: str) -> Download:
        return self.download

    def fetched(self) -> bool:
        return False

    async def add_key(self, provider: str, secret: str, model: str, base_url: str) -> str:
        return model

    async def fetch(
        self, name: str, progress: Callable[[int, int], None], tell: Callable[[str], None]
    ) -> str:
        return "local/qwen-coder-1.5b"

    async def elsewhere(self) -> Sequence[Elsewhere]:
        return ()

    async def take_in(self, progress: Callable[[int, int], None]) -> str:
        return ""

    async def sample(self) -> str:
        return "agent:sample:tidewatch"


async def found() -> list[ModelChoice]:
    """Models a first run might find."""
    return [
        ModelChoice(name="ollama/qwen3:8b", note="Ollama on this machine", window=40_960),
        ModelChoice(
            name="anthropic/claude-sonnet-4-5",
            note="ANTHROPIC_API_KEY is set",
            window=200_000,
        ),
    ]


def play(
    name: str, theme: str, home: Path
) -> tuple[MindstoneApp, Callable[[Pilot[Any]], Awaitable[None]]]:
    """An app on a scene, and what brings it there."""
    scene = SCENES[name]
    given = msgspec.structs.replace(
        around(theme=theme),
        library=Shelf(home),
        models=found if scene.models else None,
        setup=Newcomer() if scene.models else None,
        glossary=glossary(Settings()),
    )
    app, talk = staged(*scene.events, given=given)
    return app, lambda pilot: _arrive(pilot, app, talk, scene)


async def _arrive(pilot: Pilot[Any], app: MindstoneApp, talk: Staged, scene: Scene) -> None:
    await settle(pilot, talk)
    if scene.models:
        steps = app.screen.query_one(Welcome).steps
        await until(pilot, lambda: len(app.screen.query_one(Welcome).steps) > 3 or not steps)
    for key in scene.keys:
        await pilot.press(key)
        if len(key) > 1:  # it may open what the next one is meant for
            await _at_rest(pilot, app)
    if scene.rows:
        await until(
            pilot,
            lambda: any(one.option_count == scene.rows for one in app.screen.query(OptionList)),
        )
    await _at_rest(pilot, app)


_STILL = 10
"""Frames in a row that must look alike."""


async def _at_rest(pilot: Pilot[Any], app: MindstoneApp) -> None:
    """Wait until nothing moves: what an event opens is laid out some frames later."""
    await pilot.wait_for_scheduled_animations()
    seen: list[Any] = []
    while len(seen) < _STILL or any(each != seen[-1] for each in seen[-_STILL:]):
        await pilot.pause()
        seen.append(
            [
                (widget.scroll_offset, widget.virtual_size, widget.size)
                for screen in app.screen_stack
                for widget in screen.walk_children(Widget)
                if widget.is_scrollable
            ]
        )
