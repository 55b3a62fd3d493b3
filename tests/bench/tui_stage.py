"""Run by the benchmark on a terminal of its own: `python -m tests.bench.tui_stage SCENE [WITH]`.

Scenes: `empty` (a Textual app with one line), `app` (ours), `stream` (ours, while an answer arrives
at WITH tokens a second), `open` (ours, on the session in the folder WITH).
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path


def empty() -> None:
    from textual.app import App, ComposeResult
    from textual.widgets import Static

    class Empty(App[None]):
        def compose(self) -> ComposeResult:
            yield Static("Message, / for commands")

    Empty().run()


def ours(scene: str, given: str) -> None:
    from mindstone_tui.__main__ import collect_less_often

    collect_less_often()
    from mindstone_tui.core.config.settings import TuiSettings
    from mindstone_tui.tui.app import MindstoneApp
    from mindstone_tui.tui.host import AppHost

    async def open_conversation(key: str) -> object:
        from tests.tui.shelf import Shelf  # after the first paint, like the real thing
        from tests.tui.staged import Staged, asked, ready, reported

        del Shelf
        turns = 1 if scene == "open" else 0
        talk = Staged([ready(turns), reported()])
        if scene == "stream":
            talk.announce(asked(1, "go"))
            talk.streaming = asyncio.create_task(stream(talk, int(given)))  # type: ignore[attr-defined]
        return talk

    library = None
    if scene == "open":
        from tests.tui.shelf import Shelf

        library = Shelf(Path(given))
    around = AppHost(settings=TuiSettings(), library=library)
    MindstoneApp(open_conversation, around).run()  # type: ignore[arg-type]


ANSWER = (
    "stone remembers what was said, and the prompt is only what it needs to see of it next. "
    "Nothing leaves the file; whole exchanges leave the window once they can be found again.\n\n"
    "- an item of a list\n- another with `code` in it\n\n"
)


async def stream(talk: object, rate: int) -> None:
    from mindstone_tui.core.events import TextDelta

    words = re.findall(r"\S+\s*", ANSWER)
    start = asyncio.get_running_loop().time()
    for number in range(100_000):
        talk.announce(TextDelta(turn=1, text=words[number % len(words)]))  # type: ignore[attr-defined]
        due = start + (number + 1) / rate
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))


if __name__ == "__main__":
    if sys.argv[1] == "empty":
        empty()
    else:
        ours(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
