"""A session as one page that needs nothing else: no network, no server, no other file.

Everything foreign is escaped. The page's own style and script are the only ones its content
security policy lets run, named by their hashes; nothing may be fetched from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from mindstone_tui.core.entries.memory import RecalledPassage
from mindstone_tui.core.foreign import one_line
from mindstone_tui.core.interchange.export.markers import Marker
from mindstone_tui.core.interchange.export.overview import Overview, overview
from mindstone_tui.core.interchange.export.prose import escaped, prose
from mindstone_tui.core.interchange.export.source import Source
from mindstone_tui.core.interchange.export.story import (
    Recalled,
    Scene,
    Spoken,
    ToolUse,
    Turn,
    tell,
)
from mindstone_tui.core.interchange.export.timeline import timeline

_OPEN_LINES: Final = 12
"""Tool results up to this many lines are shown unfolded."""
_SIGNS: Final = {
    "context_window_pruned": "✂",
    "tool_results_trimmed": "⌿",
    "pinned": "⌖",
    "imported": "⤓",
    "zone_changed": "◔",
    "summary_derived": "∑",
}


def html_pieces(source: Source) -> Iterator[str]:
    """The page, a turn at a time."""
    page = files(__package__).joinpath("page")
    style = page.joinpath("page.css").read_text(encoding="utf-8")
    script = page.joinpath("page.js").read_text(encoding="utf-8")
    session = overview(source.session, source.lines())
    yield _head(session, style, script)
    for turn in tell(source.lines()):
        yield _turn(turn)
    yield f"</main>\n<script>{script}</script>\n</body>\n</html>\n"


def _head(session: Overview, style: str, script: str) -> str:
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    name = escaped(one_line(session.session, 200))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="MindStone">
<title>{name}</title>
<style>{style}</style>
</head>
<body>
<header>
<div class="title"><h1>{name}</h1><p>{_facts(session)}</p></div>
<form class="tools" role="search">
<input id="search" type="search" placeholder="Search (/)" aria-label="Search" autocomplete="off">
<output id="found" aria-live="polite"></output>
<button type="button" id="fold" title="Fold or unfold every tool result (f)">Fold</button>
<button type="button" id="theme" title="Light or dark (t)">Theme</button>
</form>
{timeline(session)}
</header>
<main>
"""


def _facts(session: Overview) -> str:
    facts = list(session.facts)
    if session.imported_from:
        facts.append(f"imported from {escaped(session.imported_from)}")
    facts += [escaped(one_line(model, 80)) for model in session.models[:4]]
    return f"{_time(session.began)} – {_time(session.ended)} · " + " · ".join(facts)


def _turn(turn: Turn) -> str:
    name = f"Turn {turn.number}" if turn.number else "Before the first turn"
    return (
        f'<details class="turn" id="turn-{turn.number}" open>'
        f'<summary><a href="#turn-{turn.number}">{name}</a> {_time(turn.ts)} '
        f'<span class="gist">{escaped(one_line(turn.title, 120))}</span></summary>\n'
        + "".join(map(_scene, turn.scenes))
        + "</details>\n"
    )


def _scene(scene: Scene) -> str:
    match scene:
        case Spoken():
            return _spoken(scene)
        case ToolUse():
            return _tool(scene)
        case Recalled():
            return _recalled(scene)
        case Marker():
            return _marker(scene)


def _spoken(scene: Spoken) -> str:
    model = (
        f' <span class="model">{escaped(one_line(scene.model, 80))}</span>' if scene.model else ""
    )
    thought = (
        f'<details class="thought"><summary>Thinking</summary><pre>{escaped(scene.thinking)}</pre>'
        "</details>"
        if scene.thinking
        else ""
    )
    cut = '<p class="cut">cut off here</p>' if scene.unfinished else ""
    return (
        f'<section class="said {scene.role}" id="s{scene.seq}">'
        f"<h2>{escaped(one_line(scene.who, 80))}{model} {_time(scene.ts)}</h2>"
        f'{thought}<div class="text">{prose(scene.text)}</div>{cut}</section>\n'
    )


def _tool(scene: ToolUse) -> str:
    """A tool use, folded when it is long; the newline after `<pre>` is eaten by the browser."""
    body = scene.diff or scene.text
    unfolded = " open" if body.count("\n") < _OPEN_LINES and len(body) < 2_000 else ""
    arguments = escaped(one_line(scene.arguments, 240))
    status = f' <span class="status">{escaped(scene.status)}</span>' if scene.status != "ok" else ""
    return (
        f'<details class="tool {escaped(scene.status)}" id="s{scene.seq}"{unfolded}>'
        f"<summary><b>{escaped(one_line(scene.name, 80))}</b> <code>{arguments}</code>{status}"
        f"</summary><pre>\n{escaped(body)}</pre></details>\n"
    )


def _recalled(scene: Recalled) -> str:
    cards = "".join(
        f"<li>{_pointer(each, scene.session)} {_time(each.ts)} "
        f"{escaped(one_line(each.speaker, 60))} · {each.score:.2f}"
        f"<blockquote>{escaped(each.text)}</blockquote></li>"
        for each in scene.passages
    )
    return (
        f'<details class="recall" id="s{scene.seq}"><summary>⟲ {len(scene.passages)} recalled for '
        f"“{escaped(one_line(scene.query, 120))}”</summary><ul>{cards}</ul></details>\n"
    )


def _pointer(passage: RecalledPassage, session: str) -> str:
    """The way to a passage: a link within this page, a name outside of it."""
    if passage.session == session:
        return f'<a href="#s{passage.seq}">turn {passage.turn}</a>'
    return f"{escaped(one_line(passage.session, 120))}, turn {passage.turn}"


def _marker(scene: Marker) -> str:
    sign = _SIGNS.get(scene.kind, "·")
    title = f"{sign} {escaped(one_line(scene.title, 400))}"
    kind = f'class="marker {escaped(scene.kind)}" id="s{scene.seq}"'
    if not scene.details:
        return f"<p {kind}>{title}</p>\n"
    details = "".join(f"<li>{escaped(detail)}</li>" for detail in scene.details)
    return f"<details {kind}><summary>{title}</summary><ul>{details}</ul></details>\n"


def _time(ts: str) -> str:
    shown = ts[:16].replace("T", " ")
    return f'<time datetime="{escaped(ts)}">{escaped(shown)}</time>'


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
