"""A session as one page that needs nothing else: no network, no server, no other file.

Everything foreign is escaped. The page's own style and script are the only ones its content
security policy lets run, named by their hashes; nothing may be fetched from anywhere.
"""

import base64
import hashlib
import html
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from mindstone_tui.core.entries import ZONES
from mindstone_tui.core.entries.derived import RecalledPassage
from mindstone_tui.core.interchange.export import story
from mindstone_tui.core.text import for_page, one_line, plural

_LONGEST: Final = 200_000
"""Longer texts are shown as they are: nobody reads them as prose."""
_MOST_SIGNS: Final = 10_000
"""The same for texts with more of one sign: the parser looks for the other end of each."""


def escaped(text: str) -> str:
    """Foreign text for a page: harmless, and visible where it tries to hide."""
    return html.escape(for_page(text), quote=True)


def prose(text: str) -> str:
    """Markdown as HTML."""
    if len(text) > _LONGEST or any(text.count(sign) > _MOST_SIGNS for sign in "[*_|`~<!"):
        return f"<pre>{escaped(text)}</pre>"
    return str(_parser().render(for_page(text)))


class _Renderer(RendererHTML):
    """Renders what a page without network and without inline styles can show."""

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """The picture's name in place of the picture."""
        token = tokens[idx]
        alt = html.escape(token.content, quote=True)
        source = html.escape(str(token.attrs.get("src", "")), quote=True)
        return f'<span class="picture">[{alt or "picture"}: {source}]</span>'

    def th_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A cell whose alignment is a class: the page allows no inline style."""
        token = tokens[idx]
        found = re.search(r"left|right|center", str(token.attrs.get("style", "")))
        return f'<{token.tag} class="{found.group()}">' if found else f"<{token.tag}>"

    td_open = th_open


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt(
        "commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer
    ).enable(["table", "strikethrough"])

    def link_open(tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        href = html.escape(str(tokens[idx].attrs.get("href", "")), quote=True)
        return f'<a href="{href}" rel="noreferrer noopener" target="_blank">'

    parser.add_render_rule("link_open", lambda _self, *given: link_open(*given))
    return parser


_BARS: Final = 400
_WIDTH: Final = 1_000
_HEIGHT: Final = 100
_NOTCH: Final = 18
_APART: Final = 13.0
_WIDEST_BAR: Final = 40.0


def timeline(session: story.Overview) -> str:
    """An SVG of bars in the colours of their zones, with a notch for every prune."""
    if not session.points:
        return '<p class="no-timeline">No requests were recorded in this session.</p>'
    bars = _bars(session.points)
    width = min(_WIDTH / len(bars), _WIDEST_BAR)
    drawn = "".join(_bar(at * width, width, point) for at, point in enumerate(bars))
    places = spread([_place(seq, bars) * width for seq, _ in session.prunes])
    notches = "".join(
        f'<a href="#s{seq}"><path class="prune" d="M{x - 6:.2f} -{_NOTCH} h12 l-6 {_NOTCH} z">'
        f"<title>{escaped(title)}</title></path></a>"
        for x, (seq, title) in zip(places, session.prunes, strict=True)
    )
    peak = max(point.utilization for point in session.points)
    words = (
        f"Context: {plural(len(session.points), 'request')}, fullest {peak:.0%}, "
        f"{plural(len(session.prunes), 'prune')}"
    )
    key = " ".join(f'<span class="key {zone}">{zone}</span>' for zone in ZONES)
    return (
        f'<figure class="timeline"><svg viewBox="0 -{_NOTCH} {_WIDTH} {_HEIGHT + _NOTCH}" '
        f'role="group" preserveAspectRatio="none" aria-label="{escaped(words)}">'
        f'<line class="full" x1="0" y1="0" x2="{_WIDTH}" y2="0"/>{drawn}{notches}</svg>'
        f"<figcaption>{escaped(words)} {key}</figcaption></figure>"
    )


def _bars(points: list[story.Point]) -> list[story.Point]:
    """At most so many: of those that share a bar, the fullest is shown."""
    if len(points) <= _BARS:
        return points
    edges = [at * len(points) // _BARS for at in range(_BARS + 1)]
    return [
        max(points[first:last], key=lambda point: point.utilization)
        for first, last in itertools.pairwise(edges)
    ]


def _bar(x: float, width: float, point: story.Point) -> str:
    height = round(min(max(point.utilization, 0.0), 1.0) * _HEIGHT, 1)
    title = f"turn {point.turn}: {point.tokens:,} tokens, {point.utilization:.0%}, {point.zone}"
    return (
        f'<a href="#turn-{point.turn}"><rect class="{point.zone}" x="{x:.2f}" '
        f'y="{_HEIGHT - height:.1f}" width="{max(width - 0.4, 0.6):.2f}" height="{height}">'
        f"<title>{title}</title></rect></a>"
    )


def _place(seq: int, bars: list[story.Point]) -> int:
    """The bar before which a prune happened."""
    return sum(1 for point in bars if point.seq < seq)


def spread(wanted: list[float]) -> list[float]:
    """Places as near to the wanted ones, which ascend, as leaves each of them to be counted."""
    if not wanted:
        return []
    first, last = 6.0, _WIDTH - 6.0
    apart = min(_APART, (last - first) / max(len(wanted) - 1, 1))
    places: list[float] = []
    for x in wanted:
        places.append(max(x, places[-1] + apart if places else first))
    end = last
    for at in range(len(places) - 1, -1, -1):
        places[at] = min(places[at], end)
        end = places[at] - apart
    return places


_OPEN_LINES: Final = 12
"""Tool results up to this many lines are shown unfolded."""


def html_pieces(source: story.StorySource) -> Iterator[str]:
    """The page, a turn at a time."""
    session = story.overview(source)
    numbers = source.numbers(source.lines()) if source.numbers is not None else ""
    yield page_start(
        one_line(session.session, 200),
        _facts(session),
        timeline(session),
        more_style="stats.css" if numbers else "",
    )
    yield _story(story.outcomes(source)) + numbers
    yield from map(_turn, story.turns_in(source))
    yield page_end()


def _resource(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def page_start(title: str, facts: str, figure: str, *, more_style: str = "") -> str:
    """A page up to its main part; `facts` and `figure` are HTML, the title is not."""
    style = _resource("page.css") + (_resource(more_style) if more_style else "")
    policy = (
        f"default-src 'none'; script-src '{_hash(_resource('page.js'))}'; "
        f"style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    )
    return _resource("start.html").format(
        policy=policy, name=escaped(title), style=style, facts=facts, figure=figure
    )


def page_end() -> str:
    """What follows the main part of a page."""
    return f"</main>\n<script>{_resource('page.js')}</script>\n</body>\n</html>\n"


def _facts(session: story.Overview) -> str:
    facts = list(session.facts)
    if session.imported_from:
        facts.append(f"imported from {escaped(session.imported_from)}")
    facts += [escaped(one_line(model, 80)) for model in session.models[:4]]
    return f"{_time(session.began)} – {_time(session.ended)} · " + " · ".join(facts)


_SHOWN: Final = 8
"""What came of a session, of each kind; the rest is folded."""
_PLACES: Final = 6


def _story(found: story.Outcomes) -> str:
    """What came of the session, each linked to where it comes from; empty if nothing did."""
    parts = []
    for name, every in found.items():
        paths = [os.path.dirname(path) for path in every if name == "Files"]  # noqa: PTH120 - theirs
        is_whole = bool(paths) and all(path.startswith("/") for path in paths)
        folder = os.path.commonpath(paths) if is_whole else "/"
        where = f" in <code>{escaped(folder)}</code>" if folder != "/" else ""
        rows = [_outcome(each.removeprefix(f"{folder}/"), every[each], name) for each in every]
        more = "".join(rows[_SHOWN:])
        rest = f"<details><summary>{len(rows) - _SHOWN} more</summary><ul>{more}</ul></details>"
        if rows:
            shown = f"<ul>{''.join(rows[:_SHOWN])}</ul>{rest if more else ''}"
            parts.append(f"<section><h2>{name}{where}</h2>{shown}</section>\n")
    return f'<div class="story" id="story">\n{"".join(parts)}</div>\n' if parts else ""


def _outcome(words: str, places: list[tuple[int, int]], kind: str) -> str:
    by_turn = {turn: seq for seq, turn in reversed(places)}
    links = [f'<a href="#s{seq}">turn {turn}</a>' for turn, seq in sorted(by_turn.items())]
    more = f" and {len(links) - _PLACES} more" if len(links) > _PLACES else ""
    shown = f"<code>{escaped(words)}</code>" if kind in ("Commits", "Files") else escaped(words)
    return f"<li>{shown} <span>{', '.join(links[:_PLACES])}{more}</span></li>"


def _turn(turn: story.Turn) -> str:
    name = f"Turn {turn.number}" if turn.number else "Before the first turn"
    return (
        f'<details class="turn" id="turn-{turn.number}" open>'
        f"<summary><b>{name}</b> {_time(turn.ts)} "
        f'<span class="gist">{escaped(one_line(turn.title, 120))}</span></summary>\n'
        f'<a class="here" href="#turn-{turn.number}" aria-label="Link to {name.lower()}">#</a>\n'
        + "".join(map(_scene, turn.scenes))
        + "</details>\n"
    )


def _scene(scene: story.Scene) -> str:
    match scene:
        case story.Spoken():
            return _spoken(scene)
        case story.ToolUse():
            return _tool(scene)
        case story.Recalled():
            return _recalled(scene)
        case story.Marker():
            return _marker(scene)


def _spoken(scene: story.Spoken) -> str:
    model = (
        f' <span class="model">{escaped(one_line(scene.model, 80))}</span>' if scene.model else ""
    )
    thought = (
        f'<details class="thought"><summary>Thinking</summary><pre>{escaped(scene.thinking)}</pre>'
        "</details>"
        if scene.thinking
        else ""
    )
    note = f'<p class="cut">{escaped(one_line(scene.note, 300))}</p>' if scene.note else ""
    return (
        f'<section class="said {scene.role}" id="s{scene.seq}">'
        f"<h2>{escaped(one_line(scene.who, 80))}{model} {_time(scene.ts)}</h2>"
        f'{thought}<div class="text">{prose(scene.text)}</div>{note}</section>\n'
    )


def _tool(scene: story.ToolUse) -> str:
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


def _recalled(scene: story.Recalled) -> str:
    cards = "".join(
        f"<li>{_pointer(each, scene.session)} {_time(each.ts)} "
        f"{escaped(one_line(each.speaker, 60))} · {each.score:.2f}"
        f"{escaped(''.join(f' · {one_line(mark, 200)}' for mark in each.marks))}"
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


def _marker(scene: story.Marker) -> str:
    title = f"{scene.sign} {escaped(one_line(scene.title, 400))}"
    kind = f'class="marker {escaped(scene.kind)}" id="s{scene.seq}"'
    if not scene.details:
        return f"<p {kind}>{title}</p>\n"
    details = "".join(f"<li>{escaped(detail)}</li>" for detail in scene.details)
    return f"<details {kind}><summary>{title}</summary><ul>{details}</ul></details>\n"


def _time(ts: str) -> str:
    return f'<time datetime="{escaped(ts)}">{escaped(ts[:16].replace("T", " "))} UTC</time>'


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
