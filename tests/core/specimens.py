"""One specimen of every kind of entry, built from its declaration alone.

Every field gets a value that is not its default, so a field that gets lost is noticed. Run as
`python -m tests.core.specimens`, it appends kinds that are new to the golden transcript, whose
lines are never changed.
"""

from __future__ import annotations

import functools
import types
import typing
from pathlib import Path
from typing import Any

import msgspec

from mindstone_tui.core.entries import KINDS, Entry, decode_line
from mindstone_tui.core.entries.line import encode_body, seal
from mindstone_tui.core.transcript.encode import decode_ulid, encode_ulid

GOLDEN = Path(__file__).parents[1] / "fixtures" / "transcripts" / "v1.jsonl"


@functools.cache
def specimens() -> dict[str, Entry]:
    """A specimen of each kind, by name."""
    return {name: specimen(kind) for name, kind in KINDS.items()}


def specimen(kind: type[Any]) -> Any:
    """A value of a struct type with every field filled."""
    hints = typing.get_type_hints(kind)
    fields = {name: _value(hints[name], name) for name in kind.__struct_fields__}
    if kind.__struct_config__.array_like:
        return kind(*fields.values())
    return kind(**fields)


def _value(hint: Any, name: str) -> Any:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _value(next(part for part in inside if part is not type(None)), name)
    if origin is typing.Literal:
        return inside[-1]
    if origin is list:
        return [_value(inside[0], name)]
    if origin is tuple and inside[-1] is not ...:
        return tuple(_value(part, name) for part in inside)
    if origin is tuple:
        return (_value(inside[0], name),)
    if origin is dict:
        return {_value(inside[0], name): _value(inside[1], name)}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return specimen(hint)
    simple: dict[Any, Any] = {
        str: f"{name} “ü\u2028漢”\n",
        int: 7,
        float: 0.5,
        bool: False,
        Path: Path("folder/file"),
        object: {"type": "object"},
        Any: {"type": "object"},
    }
    return simple[hint]


def complete_golden() -> None:
    """Append a specimen of each kind that the golden transcript does not hold yet."""
    lines = [decode_line(raw) for raw in GOLDEN.read_bytes().split(b"\n")[:-1]]
    last = lines[-1]
    seq, id_, digest = last.seq, last.id, last.hash
    with GOLDEN.open("ab") as file:
        for kind in KINDS.keys() - {line.kind for line in lines}:
            seq, id_ = seq + 1, encode_ulid(decode_ulid(id_) + 1)
            entry = specimen(KINDS[kind])
            raw, digest = seal(
                encode_body(entry),
                seq=seq,
                id=id_,
                session=last.session,
                ts=last.ts,
                turn=last.turn,
                role=entry.role,
                channel=last.channel,
                prev=digest,
            )
            file.write(raw)


if __name__ == "__main__":
    complete_golden()
