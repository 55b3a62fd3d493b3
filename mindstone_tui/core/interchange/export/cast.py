"""A session as an asciicast (version 2): play it with asciinema, or on a page.

The times are those of the conversation with long waits cut short, so an afternoon plays in minutes.
Text is sanitised; the only escape codes in the recording are the colours written here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from mindstone_tui.core.interchange.export import story
from mindstone_tui.core.text import for_terminal, one_line

_WIDTH: Final = 100
_HEIGHT: Final = 32
_LONGEST_PAUSE: Final = 1.5
_LINE_TIME: Final = 0.04
_TOOL_LINES: Final = 10
_RESET: Final = "\x1b[0m"
_COLOURS: Final = {
    "user": "\x1b[1;36m",
    "assistant": "\x1b[0m",
    "tool": "\x1b[2m",
    "marker": "\x1b[33m",
    "recall": "\x1b[35m",
}


def cast_pieces(source: story.StorySource) -> Iterator[str]:
    """The header, then a line an event."""
    session = story.overview(source)
    header = {
        "version": 2,
        "width": _WIDTH,
        "height": _HEIGHT,
        "timestamp": int(_seconds(session.began)),
        "title": session.session,
        "env": {"TERM": "xterm-256color"},
    }
    yield _json(header)
    clock = 0.0
    before = session.began
    for turn in source.turns():
        for scene in turn.scenes:
            clock += min(max(_seconds(scene.ts) - _seconds(before), 0.2), _LONGEST_PAUSE)
            before = scene.ts
            colour, shown = _shown(scene)
            for line in shown.split("\n"):
                yield _json([round(clock, 3), "o", f"{colour}{line}{_RESET}\r\n"])
                clock += _LINE_TIME


def _shown(scene: story.Scene) -> tuple[str, str]:
    match scene:
        case story.Spoken(role="user"):
            return _COLOURS["user"], f"\n❯ {for_terminal(scene.text)}\n"
        case story.Spoken():
            return _COLOURS["assistant"], f"{for_terminal(scene.text)}\n"
        case story.ToolUse():
            head = f"● {one_line(f'{scene.name} {scene.arguments}', _WIDTH - 4)}"
            return _COLOURS["tool"], "\n".join([head, *_excerpt(scene)])
        case story.Recalled():
            found = [f"  turn {each.turn}: {one_line(each.text, 80)}" for each in scene.passages]
            return _COLOURS["recall"], "\n".join(["⟲ recalled", *found])
        case story.Marker():
            return _COLOURS["marker"], f"── {one_line(scene.title, _WIDTH - 4)}"


def _excerpt(scene: story.ToolUse) -> list[str]:
    lines = for_terminal(scene.text).split("\n")
    shown = [f"  {one_line(line, _WIDTH - 4)}" for line in lines[:_TOOL_LINES]]
    if len(lines) > _TOOL_LINES:
        shown.append(f"  … {len(lines) - _TOOL_LINES:,} more lines")
    return shown


def _seconds(ts: str) -> float:
    try:
        return datetime.fromisoformat(ts).timestamp()
    except ValueError:
        return 0.0


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode() + "\n"
