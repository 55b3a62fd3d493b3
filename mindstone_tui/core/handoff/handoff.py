"""A handoff: what the next window must know, verbatim and without a model.

It is a Markdown file. Its front matter names the session, the lines it covers, the hash of the
last of them, and a SHA-256 over everything else in the file. Prose by a model may stand at the
end, marked as such; the record above it wins.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context import prompts
from mindstone_tui.core.context.extract import SourceMessage, approvals_of, facts_of, passages_of
from mindstone_tui.core.context.summary_call import Ask, Count, ask_model
from mindstone_tui.core.entries import Line, Part, Span
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.handoff.checkpoint import Checkpoint, Sourced, is_subtask
from mindstone_tui.core.handoff.environment import Environment, files_touched
from mindstone_tui.core.text import as_data, fresh_nonce

FORMAT: Final = 1
TAIL_MESSAGES: Final = 16
"""Messages at the end that are carried verbatim."""
SHOWN: Final = 1_200
"""Characters of one message at most; where it is cut, its turn says where the rest stands."""
BUDGET: Final = 4_000
"""Tokens that a handoff should take; fewer and shorter messages get it there, never fewer rules."""
END: Final = "<!-- end of handoff -->"
MAX_BYTES: Final = 1 << 20

_HEADER: Final = re.compile(r"---\n(.*?)\n---\n(.*)\Z", re.DOTALL)
_REMEDY: Final = "Write a new one with /handoff; history has everything that it was made from."


class _Extent(Part):
    """How much of the conversation is quoted."""

    shown: int
    requests: int
    tail: int
    decisions: int


_EXTENTS: Final = (
    _Extent(shown=SHOWN, requests=12, tail=TAIL_MESSAGES, decisions=20),
    _Extent(shown=SHOWN // 2, requests=12, tail=TAIL_MESSAGES, decisions=20),
    _Extent(shown=SHOWN // 4, requests=8, tail=8, decisions=10),
    _Extent(shown=SHOWN // 8, requests=4, tail=4, decisions=5),
    _Extent(shown=SHOWN // 12, requests=2, tail=2, decisions=3),
)


class Letter(Part):
    """A handoff with what proves it."""

    session: str
    covers: Span
    head: str
    written: str
    trigger: str
    body: str
    sha256: str = ""
    format: int = FORMAT


def compose(
    checkpoint: Checkpoint,
    lines: Sequence[Line],
    environment: Environment,
    *,
    written: str,
    trigger: str,
    count: Count,
    budget: int = BUDGET,
    prose: str = "",
    model: str = "",
) -> Letter:
    """A handoff from the state of the task and the newest lines, the last of which is its head."""
    if not lines:
        raise ContinuityError("There is nothing to hand over yet.", "Say something first.")
    body = ""
    for extent in _EXTENTS:
        parts = _parts(checkpoint, lines, environment, extent)
        body = "\n\n".join(f"## {title}\n" + "\n".join(items) for title, items in parts if items)
        if count(body) <= budget:
            break
    if prose:
        note = f"Written by {model or 'a model'} from the record above, which wins."
        body = f"{body}\n\n## In other words\n_{note}_\n\n{prose}"
    letter = Letter(
        session=checkpoint.session,
        covers=Span(lines[0].seq, lines[-1].seq),
        head=lines[-1].hash,
        written=written,
        trigger=trigger,
        body=body,
    )
    return msgspec.structs.replace(letter, sha256=digest(letter))


def _parts(
    checkpoint: Checkpoint, lines: Sequence[Line], environment: Environment, extent: _Extent
) -> tuple[tuple[str, list[str]], ...]:
    passages = passages_of(lines)
    asked = [one for one in passages if one.speaker == "user"][-extent.requests :]
    open_items = facts_of(passages[-extent.tail :]).open_items
    current = checkpoint.current
    return (
        ("Rules", _said(checkpoint.constraints)),
        ("Permissions", [f"- {one}" for one in approvals_of(lines)]),
        ("Goal", [checkpoint.goal] if checkpoint.goal else []),
        ("Done when", [f"- {one}" for one in checkpoint.criteria]),
        ("Requests, word for word", [f"- {_quoted(one, extent.shown)}" for one in asked]),
        ("Next step", [f"- {current.title} ({current.status})"] if current else []),
        (
            "Open work",
            [
                *(f"- {one.title}" for one in checkpoint.subtasks if one.status != "done"),
                *(f"- {item}" for item in open_items if not is_subtask(item)),
            ],
        ),
        ("Open issues", _said(checkpoint.issues)),
        ("Decisions", _said(checkpoint.decisions[-extent.decisions :])),
        ("Learned", _said(checkpoint.learnings[-extent.decisions :])),
        ("Already done", [f"- {one.title}" for one in checkpoint.of("done")[-extent.requests :]]),
        (
            "Files touched",
            [
                f"- {file.path} ({'changed' if file.changed else 'read'}, turn {file.turn})"
                for file in files_touched(lines)[-40:]
            ],
        ),
        ("Git", _git(environment)),
        (
            "Last exchanges, word for word",
            [_quoted(one, extent.shown) for one in passages[-extent.tail :]],
        ),
    )


def _git(environment: Environment) -> list[str]:
    if not environment.branch and not environment.commit:
        return []
    where = f"- branch {environment.branch or '(detached)'} at {environment.commit[:12]}"
    return [where, *(f"- {change}" for change in environment.changes)]


def _said(items: Iterable[Sourced]) -> list[str]:
    return [f"- {one.text} [turn {one.turn}, line {one.seq}]" for one in items]


def _quoted(passage: SourceMessage, shown: int) -> str:
    """A message as it was, or its start; a tool result is named by its finding."""
    text = passage.finding if passage.speaker == "tool" and passage.finding else passage.text
    cut = text if len(text) <= shown else f"{text[:shown]}… [{len(text) - shown} more characters]"
    return f"**{passage.name or passage.speaker}** [turn {passage.turn}, line {passage.seq}] {cut}"


async def prose(
    ask: Ask, letter: Letter, *, within: float = ModelSettings().aside_timeout, tokens: int = 400
) -> str:
    """A model's letter about the record, or nothing when what it said cannot be used."""
    reply = await ask_model(
        ask,
        "handoff",
        [
            {"role": "system", "content": prompts.load("handoff").fill(target=tokens)},
            {
                "role": "user",
                "content": as_data(letter.body, origin="handoff", nonce=fresh_nonce()),
            },
        ],
        within=within,
    )
    return "" if reply.objection else reply.text


def digest(letter: Letter) -> str:
    """SHA-256 over everything in a handoff but itself."""
    bare = msgspec.structs.replace(letter, sha256="")
    return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()


def render(letter: Letter) -> str:
    """The file's text."""
    fields = (
        f"handoff: {letter.format}",
        f"session: {_plain(letter.session)}",
        f"covers: {letter.covers.first}-{letter.covers.last}",
        f"head: {letter.head}",
        f"written: {letter.written}",
        f"trigger: {_plain(letter.trigger)}",
        f"sha256: {letter.sha256}",
    )
    return "\n".join(["---", *fields, "---", letter.body, END, ""])


def _plain(value: str) -> str:
    return (
        value if value.isprintable() and value[:1] != '"' else msgspec.json.encode(value).decode()
    )


def _read(value: str) -> str:
    try:
        return msgspec.json.decode(value, type=str) if value[:1] == '"' else value
    except msgspec.DecodeError:
        return value


def parse(text: str) -> Letter:
    """Read a handoff's text; torn and edited ones are refused."""
    if not text.endswith(f"\n{END}\n"):
        raise refused("torn", "its end is missing")
    match = _HEADER.match(text)
    if match is None:
        raise refused("torn", "it has no front matter")
    fields = dict(line.split(": ", 1) for line in match[1].split("\n") if ": " in line)
    first, _, last = fields.get("covers", "").partition("-")
    if not (first.isdecimal() and last.isdecimal() and fields.get("handoff", "").isdecimal()):
        raise refused("edited", "its front matter is not as it was written")
    if int(fields["handoff"]) > FORMAT:
        raise refused("foreign", "a newer version of this program wrote it")
    letter = Letter(
        session=_read(fields.get("session", "")),
        covers=Span(int(first), int(last)),
        head=fields.get("head", ""),
        written=fields.get("written", ""),
        trigger=_read(fields.get("trigger", "")),
        body=match[2].removesuffix(f"\n{END}\n"),
        sha256=fields.get("sha256", ""),
    )
    if digest(letter) != letter.sha256:
        raise refused("edited", "its content does not have the hash that it names")
    return letter


def refused(word: str, why: str) -> ContinuityError:
    """A handoff that is not used, and why."""
    return ContinuityError(f"The handoff is {word}: {why}.", _REMEDY)
