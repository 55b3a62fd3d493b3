"""Our own: a `transcript.jsonl`, what `mindstone export -f json` wrote, or what could not be saved.

The conversation is taken over; decisions about the window belong to the session that made them and
are counted as left out. A message keeps the id it was imported with, else the id of its line.
"""

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple

from mindstone_tui.core.disk import read_blob
from mindstone_tui.core.entries import Entry, Line, Malformed, Unknown, conversation, decode_line
from mindstone_tui.core.entries.standings import CHANGES, Standings
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.errors import PlaceError
from mindstone_tui.core.transcript import encode, rescue

from ..read_bytes import Flaw, elements, lines, open_file
from .base import (
    Aside,
    Began,
    Broken,
    Format,
    Gave,
    Marked,
    Record,
    Records,
    Said,
    Sample,
    Stopped,
    Undid,
)

MARK: Final = b'{"mindstone_session":1,'
"""How a JSON export begins."""
_REWOUND: Final = b'"marks":["rewound by #'
"""In an export, which may lack what rewound a line; within a text no quote stands bare."""
_CHANGES: Final = tuple(f'"kind":"{kind}"'.encode() for kind in CHANGES)


def _recognises(sample: Sample) -> bool:
    if sample.start.startswith(MARK):
        return True
    first = sample.first
    return (first.get("kind") == "session_opened" and "hash" in first) or _is_rescued(first)


def _is_rescued(first: Mapping[str, object]) -> bool:
    """Whether a line is one that could not be saved: it has no place in any history."""
    return {"kind", "ts", "turn"} <= first.keys() and "hash" not in first and "seq" not in first


def _read(path: Path) -> Records:
    if path.name.startswith("unsaved-"):
        for number, (session, draft) in enumerate(rescue.read_rescued(path), 1):
            place = _Rescued(f"{session} {draft.ts} {number}", draft.ts, session, draft.entry.kind)
            yield _record(number, place, draft.entry)
        return
    standings = _standings(path)
    said: dict[int, str] = {}
    beside = path.parent / "blobs"
    with open_file(path) as stream:
        for number, raw in _raw_lines(stream):
            if isinstance(raw, Flaw):
                yield Broken(line=number, why=raw.why)
                continue
            try:
                line = decode_line(raw)
                if standings.rewinds.of(line) is not None or _REWOUND in raw:
                    own = getattr(line.entry, "source_id", "") or line.id
                    yield Aside(what="rewound", taken_back=own)
                    continue
                whole = encode.put_back(line, lambda digest: read_blob(beside, digest).decode())
                if isinstance(act := whole.entry, FilesRestored):
                    messages = tuple(said[turn] for turn in act.turns if turn in said)
                    yield Undid(act=act, ts=line.ts, messages=messages)
                    continue
                record = _record(number, line, whole.entry)
                yield record
                if not isinstance(record, Said | Gave):
                    continue
                said.setdefault(line.turn, record.id)
                if standings.replaced_by(line.seq):
                    yield Marked(message=record.id, words="superseded there")
                elif standings.corrected_by(line.seq):
                    yield Marked(message=record.id, words="corrected in part there")
            except (Malformed, PlaceError) as error:
                yield Broken(line=number, why=str(error))
            except RecursionError:
                yield Broken(line=number, why="nested too deeply")


def _standings(path: Path) -> Standings:
    """What became of a session's lines, by lines that stand behind them."""
    found = Standings()
    with open_file(path) as stream:
        for _, raw in _raw_lines(stream):
            if not isinstance(raw, Flaw) and any(kind in raw for kind in _CHANGES):
                with contextlib.suppress(Malformed, RecursionError):
                    found.take(decode_line(raw))
    return found


def _raw_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | Flaw]]:
    is_export = stream.read(len(MARK)) == MARK
    stream.seek(0)
    return elements(stream) if is_export else lines(stream)


class _Rescued(NamedTuple):
    """What is known of a line that has no place in a history."""

    id: str
    ts: str
    session: str
    kind: str


def _record(number: int, line: Line | _Rescued, entry: Entry | Unknown) -> Record:
    own = getattr(entry, "source_id", "") or line.id
    said = partial(Said, line=number, id=own, ts=line.ts)
    match entry:
        case conversation.UserMessage() as message:
            return said(role="user", text=message.text, name=message.name)
        case conversation.AssistantMessage() as message:
            return said(
                role="assistant",
                text=message.text,
                name=message.name,
                model=message.model,
                calls=message.calls,
                thinking=message.thinking,
                finish=message.finish,
            )
        case conversation.AssistantPartial(text=text, model=model):
            return said(role="assistant", text=text, model=model, cut_off=True)
        case conversation.TurnEnded(ending=ending) if ending != "done":
            return Stopped(ending=ending)
        case conversation.ToolReturned(call=call, text=text, name=name, status=status):
            return Gave(
                line=number, call=call, text=text, name=name, status=status, id=own, ts=line.ts
            )
        case _ if line.kind == "session_opened":
            return Began(id=line.session, ts=line.ts)
        case _:
            return Aside(what=line.kind)


MINDSTONE = Format(name="mindstone", title="MindStone", recognises=_recognises, read=_read)
