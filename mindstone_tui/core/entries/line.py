"""One line of the transcript: the envelope around an entry, and its codec.

A line is a JSON object in UTF-8 that ends in a newline, with these keys in this order:

    v        format version, 1
    seq      0 for the header, then contiguous
    id       ULID; ascending within a session
    session  canonical key, `agent:<agentId>:<mainKey>`
    ts       when it happened, UTC, ISO 8601; imports keep the original time
    turn     the turn it belongs to, from 1; 0 before the first
    role     user, assistant, tool, system or event
    channel  the surface that wrote it: tui, cli, run, api, import …
    kind     what happened; see `KINDS`
    …        the kind's own fields
    blobs    (only if needed) fields whose text was moved to a file, by path
    altered  (only if needed) fields that held NULs or lone surrogates; originals as blobs
    batch    (only if needed) number of the first line that one write put on disk with this one
    parent   null, or in a fork the id of the line it was copied from
    prev     hash of the line before; 64 zeros in the header
    hash     SHA-256, in hex, of this line's bytes before `,"hash"`

What a newer version wrote is kept because the bytes are: a `Line` remembers them as `raw`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries.base import Blob, Entry, Part, Place, Role, ToolSchema

FORMAT: Final = 1
GENESIS: Final = "0" * 64
MAX_LINE: Final = 1 << 20
"""No line is longer; larger bodies are moved to blobs first."""

_SEAL: Final = len(b',"hash":""}') + 64
"""Bytes from `,"hash"` to the end of the object."""

IMPORTED: Final = "import"
"""The channel of lines that came from another program."""


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a kind, or of a format, that this version does not know."""

    kind: str
    fields: dict[str, Any]


class _Placed(msgspec.Struct, frozen=True, kw_only=True):
    seq: Place
    id: str
    session: str
    ts: str
    turn: Place
    role: Role
    channel: str
    prev: str
    hash: str
    parent: str | None = None
    blobs: Mapping[str, Blob] = {}


class Line(_Placed, frozen=True, kw_only=True):
    """An entry with its place in history."""

    entry: Entry | Unknown
    raw: bytes
    """The line's own bytes, without the newline."""

    @property
    def kind(self) -> str:
        """The entry's kind, known or not."""
        return self.entry.kind

    @property
    def intact(self) -> bool:
        """Whether its bytes have the hash that it carries; one that stands in no file has none."""
        return not self.raw or hash_matches(self.raw, self.hash)


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An entry on its way to disk: everything but its place in the chain."""

    entry: Entry
    turn: int | None
    """None for the turn of the line before it, whoever writes that."""
    channel: str
    ts: str = ""
    """Empty for "now"."""
    parent: str | None = None


class _Envelope(_Placed, frozen=True, kw_only=True):
    v: int
    kind: str


RESERVED: Final = frozenset(_Envelope.__struct_fields__) | {"altered", "batch"}
"""Names no entry may use for a field of its own."""

_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def encode_body(entry: Entry) -> bytes:
    """The entry's own part of a line: `"kind":"…",…` without braces."""
    return msgspec.json.encode(entry.as_written())[1:-1]


def seal(
    body: bytes,
    *,
    seq: int,
    id: str,  # noqa: A002 (the field's own name)
    session: str,
    ts: str,
    turn: int,
    role: Role,
    channel: str,
    prev: str,
    parent: str | None = None,
    extra: bytes = b"",
) -> tuple[bytes, str]:
    """A whole line, newline included, and its hash."""
    head = msgspec.json.encode(
        {
            "v": FORMAT,
            "seq": seq,
            "id": id,
            "session": session,
            "ts": ts,
            "turn": turn,
            "role": role,
            "channel": channel,
        }
    )
    tail = msgspec.json.encode({"parent": parent, "prev": prev})
    said = b"".join((head[:-1], b",", body, extra, b",", tail[1:-1]))
    digest = hashlib.sha256(said).hexdigest()
    return b"".join((said, b',"hash":"', digest.encode(), b'"}\n')), digest


class Malformed(ValueError):
    """Bytes that are not a line of a transcript; the message says in which way."""


def decode(raw: bytes, decoders: Mapping[str, msgspec.json.Decoder[Entry] | None]) -> Line:
    """Read one line, without its newline; raises `Malformed`. The hash is not checked here."""
    try:
        envelope = _decode_envelope(raw)
        decoder = decoders[envelope.kind] if envelope.v == FORMAT else None
        entry: Entry | Unknown
        if decoder is None:
            entry = Unknown(kind=envelope.kind, fields=_own_fields(raw))
        else:
            entry = decoder.decode(raw)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error
    return Line(
        seq=envelope.seq,
        id=envelope.id,
        session=envelope.session,
        ts=envelope.ts,
        turn=envelope.turn,
        role=envelope.role,
        channel=envelope.channel,
        entry=entry,
        parent=envelope.parent,
        prev=envelope.prev,
        hash=envelope.hash,
        blobs=envelope.blobs,
        raw=raw,
    )


def hash_matches(raw: bytes, claimed: str) -> bool:
    """Whether the line's bytes before `,"hash"` have the hash that it claims."""
    said, rest = raw[:-_SEAL], raw[-_SEAL:]
    return rest.startswith(b',"hash":"') and hashlib.sha256(said).hexdigest() == claimed


def _own_fields(raw: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(raw)
    return {key: value for key, value in fields.items() if key not in RESERVED}


Message = dict[str, Any]
"""A chat message: `role`, `content`, and for tools `tool_calls` or `tool_call_id`."""


class Request(Part):
    """All that shapes an answer: the model's name, the messages, the tools."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()

    @property
    def hash(self) -> str:
        """SHA-256, in hex, of compact UTF-8 JSON with sorted keys of the three fields."""
        return request_hash(self.model, map(encode_message, self.messages), self.tools)


def encode_message(message: Message) -> bytes:
    """A message as it stands in what a request's hash is made of."""
    return msgspec.json.encode(message, order="sorted")


def request_hash(model: str, messages: Iterable[bytes], tools: Sequence[ToolSchema]) -> str:
    """The hash of a request whose messages were encoded already, each on its own."""
    body = b'{"messages":[%b],"model":%b,"tools":%b}' % (
        b",".join(messages),
        msgspec.json.encode(model),
        msgspec.json.encode([msgspec.to_builtins(tool) for tool in tools], order="sorted"),
    )
    return hashlib.sha256(body).hexdigest()
