"""A session in lines: as Markdown with tool calls folded, as data, and as an asciicast.

A recording (version 2) plays with asciinema, or on a page. The times are those of the conversation
with long waits cut short, so an afternoon plays in minutes. Text is sanitised; the only escape
codes in the recording are the colours written here.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Line, Unknown, conversation
from mindstone_tui.core.entries.line import FORMAT
from mindstone_tui.core.interchange.export import story
from mindstone_tui.core.recall.passages import epoch
from mindstone_tui.core.text import for_terminal, one_line
from mindstone_tui.core.transcript import Damaged


def markdown_pieces(source: story.StorySource) -> Iterator[str]:
    """The session, a turn at a time."""
    yield _head(story.overview(source))
    yield from map(_turn, story.turns_in(source))


def _head(session: story.Overview) -> str:
    facts = [f"- {', '.join(session.facts)}", f"- {session.began} to {session.ended}"]
    if session.models:
        facts.append("- " + ", ".join(one_line(model) for model in session.models))
    return f"# {_inline(session.session)}\n\n" + "\n".join(facts) + "\n"


def _turn(turn: story.Turn) -> str:
    title = f"Turn {turn.number}" if turn.number else "Before the first turn"
    return f"\n## {title} · {turn.ts}\n" + "".join(map(_scene, turn.scenes))


def _scene(scene: story.Scene) -> str:
    match scene:
        case story.Spoken():
            note = f"\n*({_inline(one_line(scene.note, 300))})*\n" if scene.note else ""
            if scene.role == "user":
                return f"\n**{_inline(scene.who)}**\n\n{_quoted(scene.text)}\n{note}"
            who = _inline(scene.who) + (f" ({_inline(scene.model)})" if scene.model else "")
            thought = _folded("thinking", scene.thinking) if scene.thinking else ""
            said = f"\n{scene.text}\n" if scene.text else ""
            return f"\n**{who}**\n{thought}{said}{note}"
        case story.ToolUse():
            summary = f"{scene.name} {scene.arguments}"
            status = "" if scene.status == "ok" else f" — {scene.status}"
            return _folded(one_line(summary, 160) + status, scene.text)
        case story.Recalled():
            found = "\n".join(
                f"- turn {each.turn}, {each.ts}, {_inline(each.speaker)}, "
                f"{''.join(f'{_inline(mark)}, ' for mark in each.marks)}score {each.score:.2f}: "
                f"{_inline(one_line(each.text, 200))}"
                for each in scene.passages
            )
            return f"\n> Recalled for “{_inline(one_line(scene.query))}”\n\n{found}\n"
        case story.Marker():
            details = "".join(f"> - {_inline(one_line(each, 300))}\n" for each in scene.details)
            return f"\n> **{_inline(one_line(scene.title, 300))}** (line {scene.seq})\n{details}"


def _folded(summary: str, body: str) -> str:
    """A details block; the fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    head = summary.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"\n<details><summary>{head}</summary>\n\n{fence}text\n{body}\n{fence}\n\n</details>\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _inline(text: str) -> str:
    """A word of somebody else inside our own line: no markup of its own."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", one_line(text, 400))


def json_pieces(source: story.StorySource) -> Iterator[str]:
    """One JSON object with all entries, whole, an entry a line.

    Each entry is as its line in the transcript is, but texts that stood in blobs are inside and
    `hash` still is the hash of the line as it was written.
    """
    yield f'{{"mindstone_session":1,"session":{_json(str(source.history.places.key))},"entries":['
    between = "\n"
    damaged: list[dict[str, Any]] = []
    for item in source.items():
        if isinstance(item, Damaged):
            damaged.append({"offset": item.offset, "why": item.why})
        else:
            yield between + _json(_entry(item) | source.marks(item))
            between = ",\n"
    yield f'\n],"damaged":{_json(damaged)}}}\n'


def _entry(line: Line) -> dict[str, Any]:
    own = line.entry.fields if isinstance(line.entry, Unknown) else msgspec.to_builtins(line.entry)

    def said(*names: str) -> dict[str, Any]:
        return {name: getattr(line, name) for name in names}

    place = said("seq", "id", "session", "ts", "turn", "role", "channel")
    return {"v": FORMAT, **place, **own, **said("kind", "parent", "prev", "hash")}


def message_pieces(source: story.StorySource) -> Iterator[str]:
    """A message a line, as `import --from messages` reads them."""
    for line in source.lines():
        if message := _message(line):
            yield _json(message | source.marks(line)) + "\n"


def _message(line: Line) -> dict[str, Any]:
    match line.entry:
        case conversation.UserMessage(text=text, name=name, source_id=source):
            own: dict[str, Any] = {"role": "user", "name": name, "content": text}
        case conversation.AssistantMessage(source_id=source) as answer:
            own = {
                "role": "assistant",
                "name": answer.name,
                "content": answer.text,
                "model": answer.model,
                "tool_calls": msgspec.to_builtins(answer.calls),
            }
        case conversation.AssistantPartial(text=text, model=model, source_id=source):
            own = {"role": "assistant", "content": text, "model": model}
        case conversation.ToolReturned(source_id=source) as result:
            own = {
                "role": "tool",
                "name": result.name,
                "content": result.text,
                "tool_call_id": result.call,
                "status": "" if result.status == "ok" else result.status,
            }
        case _:
            return {}
    kept = {key: value for key, value in own.items() if value or key in ("role", "content")}
    return {"id": source or line.id, **kept, "ts": line.ts}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


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
        "timestamp": int(epoch(session.began)),
        "title": session.session,
        "env": {"TERM": "xterm-256color"},
    }
    yield _json(header) + "\n"
    clock = 0.0
    before = session.began
    for turn in story.turns_in(source):
        for scene in turn.scenes:
            clock += min(max(epoch(scene.ts) - epoch(before), 0.2), _LONGEST_PAUSE)
            before = scene.ts
            colour, shown = _shown(scene)
            for line in shown.split("\n"):
                yield _json([round(clock, 3), "o", f"{colour}{line}{_RESET}\r\n"]) + "\n"
                clock += _LINE_TIME


def _shown(scene: story.Scene) -> tuple[str, str]:
    match scene:
        case story.Spoken():
            user, note = scene.role == "user", f"({one_line(scene.note, 300)})\n"
            text = f"{for_terminal(scene.text)}\n{note if scene.note else ''}"
            return (_COLOURS["user"], f"\n❯ {text}") if user else (_COLOURS["assistant"], text)
        case story.ToolUse():
            head = f"● {one_line(f'{scene.name} {scene.arguments}', _WIDTH - 4)}"
            return _COLOURS["tool"], "\n".join([head, *_excerpt(scene)])
        case story.Recalled():
            found = [
                f"  {', '.join((f'turn {each.turn}', *each.marks))}: {one_line(each.text, 80)}"
                for each in scene.passages
            ]
            return _COLOURS["recall"], "\n".join(["⟲ recalled", *found])
        case story.Marker():
            return _COLOURS["marker"], f"── {one_line(scene.title, _WIDTH - 4)}"


def _excerpt(scene: story.ToolUse) -> list[str]:
    lines = for_terminal(scene.text).split("\n")
    shown = [f"  {one_line(line, _WIDTH - 4)}" for line in lines[:_TOOL_LINES]]
    if len(lines) > _TOOL_LINES:
        shown.append(f"  … {len(lines) - _TOOL_LINES:,} more lines")
    return shown
