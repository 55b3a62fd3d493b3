"""Every way in which a model's server can go wrong, as acts for the loopback server.

A fault says how a request that meets it must end: with an answer (`ends` is None) or with one kind
of error; what text must have been heard; and how often the server may be asked when one retry is
allowed. Most can happen in every wire format; some only where chunks of OpenAI's form are spoken.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from mindstone_tui.core.errors import (
    ContextTooLong,
    ProviderBusy,
    ProviderError,
    ProviderNonsense,
    ProviderRefused,
    ProviderUnreachable,
)
from tests.corpora import lines
from tests.faults import sized
from tests.loopback.formats import CHAT, MESSAGES, OLLAMA, RESPONSES, WireFormat
from tests.loopback.server import (
    DONE,
    Act,
    Call,
    Write,
    asked,
    chunk,
    chunked,
    event,
    fails,
    hangs,
    head,
    sends,
    spoken,
    stream_of,
    streams,
)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What a server does, and how it must end."""

    name: str
    acts: tuple[Act, ...]
    ends: type[ProviderError] | None = None
    text: str = ""
    calls: int = 1
    """Requests the server sees when one retry is allowed; -1: one or two, 0: any number."""
    tools: int = 0
    """Tool calls that must have arrived."""
    patience: float = 20.0
    """Seconds after which the server counts as silent."""
    own_words: bool = False
    """The error quotes whoever reads the wire, so each way has its own words for it."""
    beyond_litellm: str = ""
    """Why litellm cannot be held to it; empty where it can."""


def every_fault(wire: WireFormat = CHAT) -> Iterator[Fault]:
    """All of them; most are variations that were met in the wild."""
    yield from _statuses(wire)
    yield from _too_long(wire)
    yield from _broken_transport(wire)
    yield from _strange_streams(wire)
    yield from _strange_ends(wire)
    yield from _without_bounds(wire)
    if wire is CHAT:
        yield from _strange_chunks()
        yield from _strange_calls()


def _status(
    wire: WireFormat, line: str, ends: type[ProviderError], calls: int, **headers: str
) -> Fault:
    return Fault(
        name=f"status {line} {' '.join(headers.values())}".strip(),
        acts=(fails(line, wire.error("the server says no", "some_error"), **headers),),
        ends=ends,
        calls=calls,
        own_words=line.startswith("422"),
        beyond_litellm="it makes another status of it" if (wire, line) in _CHANGED else "",
    )


_CHANGED = ((MESSAGES, "413 Payload Too Large"), (MESSAGES, "529 Overloaded"))


def _statuses(wire: WireFormat) -> Iterator[Fault]:
    for line in ("400 Bad Request", "401 Unauthorized", "402 Payment Required", "403 Forbidden"):
        yield _status(wire, line, ProviderRefused, 1)
    yield _status(wire, "404 Not Found", ProviderRefused, 1)
    yield _status(wire, "408 Request Timeout", ProviderUnreachable, 2)
    yield _status(wire, "409 Conflict", ProviderRefused, 1)
    yield _status(wire, "413 Payload Too Large", ContextTooLong, 1)
    yield _status(wire, "418 I'm a teapot", ProviderRefused, 1)
    yield _status(wire, "422 Unprocessable Entity", ProviderRefused, -1)
    busy = "429 Too Many Requests"
    yield _status(wire, busy, ProviderBusy, 2)
    yield _status(wire, busy, ProviderBusy, 2, Retry_After="1")
    yield _status(wire, busy, ProviderBusy, 1, Retry_After="3600")
    yield _status(wire, busy, ProviderBusy, 2, Retry_After="soon, maybe")
    yield _status(wire, busy, ProviderBusy, 2, Retry_After="Thu, 01 Jan 1970 00:00:00 GMT")
    for line in (
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Unavailable",
        "529 Overloaded",
    ):
        yield _status(wire, line, ProviderBusy, 2)
    yield _status(wire, "504 Gateway Timeout", ProviderUnreachable, 2)
    page = b"<html><body><h1>502 Bad Gateway</h1>nginx</body></html>"
    yield Fault(
        name="an error page",
        acts=(sends(head("502 Bad Gateway", "text/html") + page),),
        ends=ProviderBusy,
        calls=2,
    )
    yield Fault(
        name="a redirect to itself",
        acts=(sends(head("302 Found", Location=wire.path)),),
        ends=ProviderError,
        calls=0,
        own_words=True,
    )
    yield Fault(
        name="no quota left",
        acts=(fails("429 X", wire.error("You exceeded your current quota", "insufficient_quota")),),
        ends=ProviderRefused,
    )
    yield Fault(
        name="content refused",
        acts=(fails("400 X", wire.error("flagged by our content policy", "content_filter")),),
        ends=ProviderRefused,
    )
    yield Fault(
        name="busy, then well",
        acts=(fails("503 X", wire.error("later", "x")), wire.says("There you are.")),
        text="There you are.",
        calls=2,
    )


def _too_long(wire: WireFormat) -> Iterator[Fault]:
    said = {row.split("\t")[0]: row.split("\t")[1] for row in lines("too_long.tsv")}
    for vendor, message in said.items():
        yield Fault(
            name=f"too long, says {vendor}",
            acts=(fails("400 Bad Request", wire.error(message, "invalid_request_error")),),
            ends=ContextTooLong,
        )
    yield Fault(
        name="too long, says DeepInfra with a 500",
        acts=(fails("500 X", wire.error(said["DeepInfra"], "x")),),
        ends=ContextTooLong,
    )


def repeats(start: bytes, piece: bytes, pause: float | None) -> Act:
    """The same for ever; without a pause as fast as the line takes it."""

    async def act(call: Call, write: Write) -> None:
        await write(start)
        while True:
            await write(piece)
            await asyncio.sleep(pause or 0)

    return act


def _slowly(start: bytes, data: bytes) -> Act:
    """Byte by byte, but steadily: this must succeed."""

    async def act(call: Call, write: Write) -> None:
        await write(start)
        for at in range(0, len(data), 7):
            await write(data[at : at + 7])
            await asyncio.sleep(0)

    return act


def _broken_transport(wire: WireFormat) -> Iterator[Fault]:
    lost, whole = ProviderUnreachable, wire.spoken("Hello there, my friend.")
    opened = wire.head() + wire.body(wire.opening)
    spoke = opened + wire.body([wire.word("Hel")])
    over = opened + wire.body([wire.word("Hello."), *wire.ending("stop")])
    idle = b"\n" if wire is OLLAMA else b": still here\n\n"
    yield Fault(name="hangs up at once", acts=(sends(b""),), ends=lost, calls=2, own_words=True)
    yield Fault(
        name="not HTTP",
        acts=(sends(b"\x00\x01 what?\r\n\r\n"),),
        ends=lost,
        calls=2,
        own_words=True,
    )
    yield Fault(
        name="half a header",
        acts=(sends(b"HTTP/1.1 200 O"),),
        ends=lost,
        calls=2,
        own_words=True,
    )
    yield Fault(name="never answers", acts=(hangs(),), ends=lost, calls=-1, patience=0.4)
    yield Fault(
        name="never says a word", acts=(hangs(wire.head()),), ends=lost, calls=-1, patience=0.4
    )
    yield Fault(
        name="opens and falls silent", acts=(hangs(opened),), ends=lost, calls=-1, patience=0.4
    )
    yield Fault(
        name="falls silent in a word", acts=(hangs(spoke),), ends=lost, text="Hel", patience=1.0
    )
    yield Fault(
        name="drips signs of life for ever",
        acts=(repeats(wire.head(), idle, 0.05),),
        ends=lost,
        calls=-1,
        patience=0.4,
    )
    yield Fault(
        name="slow but steady",
        acts=(_slowly(wire.head(), whole),),
        text="Hello there, my friend.",
    )
    own = wire is RESPONSES  # litellm has an error of its own for this
    yield Fault(name="cut in a word", acts=(sends(spoke),), ends=lost, text="Hel", own_words=own)
    torn = sends(spoke + wire.body([wire.word("lo")])[:-9])
    yield Fault(name="cut in an event", acts=(torn,), ends=lost, text="Hel", own_words=own)
    yield Fault(
        name="cut in a chunk",
        acts=(chunked(whole, cut=20, kind=wire.kind),),
        ends=lost,
        calls=2,
        own_words=True,
    )
    promised = wire.head(Content_Length="99999") + wire.body([*wire.opening, wire.word("Hello")])
    yield Fault(
        name="less than promised",
        acts=(sends(promised),),
        ends=lost,
        calls=-1,
        text="Hello",
        own_words=True,
    )
    yield Fault(name="lost after the last word", acts=(sends(over),), text="Hello.")
    yield Fault(name="silent after the last word", acts=(hangs(over),), text="Hello.", patience=1.0)
    yield Fault(
        name="drips after the last word",
        acts=(repeats(over, idle, 0.05),),
        text="Hello.",
        patience=0.5,
        beyond_litellm="comments keep it waiting",
    )
    yield Fault(
        name="cut at first, well at last",
        acts=(sends(opened), wire.says("Here now.")),
        text="Here now.",
        calls=2,
    )
    yield Fault(
        name="proper HTTP chunks",
        acts=(chunked(whole, kind=wire.kind),),
        text="Hello there, my friend.",
    )
    yield Fault(
        name="packed, it says, but is not",
        acts=(sends(wire.head(Content_Encoding="gzip") + whole),),
        ends=ProviderError,
        calls=2,
        own_words=True,
    )
    yield Fault(
        name="packed",
        acts=(sends(wire.head(Content_Encoding="gzip") + gzip.compress(whole)),),
        text="Hello there, my friend.",
    )


def _strange_streams(wire: WireFormat) -> Iterator[Fault]:
    nonsense, own = ProviderNonsense, wire is RESPONSES
    lost = "it takes that for a broken connection" if own else ""
    page = sends(head(kind="text/html") + b"<html>Please log in</html>")
    empty = sends(wire.head())
    yield Fault(name="a login page", acts=(page,), ends=nonsense, calls=2, beyond_litellm=lost)
    yield Fault(name="nothing at all", acts=(empty,), ends=nonsense, calls=2, beyond_litellm=lost)
    spoke = wire.head() + wire.body([*wire.opening, wire.word("Hel")])
    broken = b"{oops\n" if wire is OLLAMA else b"data: {oops\n\n"
    yield Fault(
        name="an event that is not JSON",
        acts=(sends(spoke + broken + wire.last),),
        ends=ProviderError,
        text="Hel",
        own_words=True,
    )
    yield Fault(
        name="bytes that are not text",
        acts=(sends(spoke + broken.replace(b"oops", b"\xff\xfe\x80") + wire.last),),
        ends=ProviderError,
        text="Hel",
        own_words=True,
    )
    yield Fault(
        name="an error instead of a stream",
        acts=(sends(wire.head() + wire.body([wire.failure("overloaded", "overloaded_error")])),),
        ends=ProviderError,
        calls=-1,
        own_words=True,
    )
    yield Fault(
        name="an error in the stream",
        acts=(sends(spoke + wire.body([wire.failure("it died", "server_error")]) + wire.last),),
        ends=ProviderError,
        text="Hel",
        own_words=True,
    )
    yield Fault(
        name="no reason to finish",
        acts=(sends(spoke + wire.last),),
        ends=ProviderUnreachable,
        text="Hel",
        own_words=own,
    )


def _strange_ends(wire: WireFormat) -> Iterator[Fault]:
    whole = wire.spoken("Hello.")
    ends = whole.replace(b"\n", b"\r\n")
    yield Fault(name="windows line ends", acts=(sends(wire.head() + ends),), text="Hello.")
    yield Fault(
        name="old line ends",
        acts=(sends(wire.head() + whole.replace(b"\n", b"\r")),),
        text="Hello.",
        beyond_litellm="its reader knows other line ends only",
    )
    yield Fault(
        name="a byte order mark",
        acts=(sends(wire.head() + b"\xef\xbb\xbf" + whole),),
        text="Hello.",
        beyond_litellm="the first event is lost or refused",
    )
    yield Fault(name="NULs in the text", acts=(wire.says("a\x00b"),), text="a\x00b")
    yield Fault(
        name="escape codes in the text", acts=(wire.says("\x1b[31mred"),), text="\x1b[31mred"
    )
    halves = wire.whole(wire.word("\ud83d"), wire.word("\ude00!"))
    yield Fault(name="half a character at a time", acts=(sends(wire.head() + halves),), text="😀!")
    lone = wire.whole(wire.word("a\ud83d"), wire.word("b"))
    yield Fault(name="half a character", acts=(sends(wire.head() + lone),), text="a�b")
    long = "x" * sized(200_000, 2 << 20)
    yield Fault(
        name="a gigantic line", acts=(sends(wire.head() + wire.whole(wire.word(long))),), text=long
    )
    yield Fault(
        name="the same 300 times",
        acts=(sends(wire.head() + wire.whole(*[wire.word("ha ha")] * 300)),),
        text="ha ha" * 300,
    )
    for reason in ("length", "content_filter"):
        yield Fault(name=f"finish {reason}", acts=(wire.says("Hi", reason),), text="Hi")
    calls = [(f"c{at}", "read", f'{{"path":"{at}"}}') for at in range(200)]
    yield Fault(name="200 calls", acts=(wire.asks(*calls),), tools=200)


def _without_bounds(wire: WireFormat) -> Iterator[Fault]:
    """What would take all memory or all time of whoever listens without limits."""
    reason = "it reads without limits"
    lost = ProviderUnreachable
    bomb = gzip.compress(b"\n" * (8 << 20))
    yield Fault(
        name="a bomb of gzip",
        acts=(sends(wire.head(Content_Encoding="gzip") + bomb),),
        ends=ProviderNonsense,
        calls=2,
        beyond_litellm=reason,
    )
    idle = b"\n" * 4096 if wire is OLLAMA else b": still here\n\n" * 512
    yield Fault(
        name="a flood of signs of life",
        acts=(repeats(wire.head(), idle, None),),
        ends=lost,
        calls=-1,
        patience=0.4,
        beyond_litellm=reason,
    )
    silent = wire.body([wire.word("")])
    yield Fault(
        name="empty events for ever",
        acts=(repeats(wire.head() + wire.body(wire.opening), silent, 0.02),),
        ends=lost,
        calls=-1,
        patience=0.4,
        beyond_litellm="an empty event counts as a word",
    )
    yield Fault(
        name="a line without an end",
        acts=(repeats(wire.head(), b"x" * (1 << 20), None),),
        ends=ProviderNonsense,
        calls=2,
        beyond_litellm=reason,
    )
    yield Fault(
        name="a header without an end",
        acts=(repeats(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n" * 64, None),),
        ends=lost,
        calls=2,
        own_words=True,
        beyond_litellm=reason,
    )
    yield Fault(
        name="a header byte by byte",
        acts=(repeats(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"y", 0.05),),
        ends=lost,
        calls=-1,
        patience=0.4,
    )
    page = b"<p>exceeded maximum of your input tokens, context limits and such</p>" * 30_000
    yield Fault(
        name="an error page of two megabytes",
        acts=(sends(head("403 Forbidden", "text/html") + page),),
        ends=ProviderRefused,
        beyond_litellm="it looks through the whole page for half a minute",
    )
    yield Fault(
        name="an error page that never ends",
        acts=(hangs(head("403 Forbidden", "text/html") + b"<p>no</p>"),),
        ends=ProviderRefused,
        patience=0.5,
        beyond_litellm="it waits for the rest of the page",
    )
    deep = b"[" * 200_000
    framed = deep + b"\n" if wire is OLLAMA else b"data: " + deep + b"\n\n"
    spoke = wire.head() + wire.body([*wire.opening, wire.word("Hel")])
    yield Fault(
        name="an event nested without end",
        acts=(sends(spoke + framed + wire.last),),
        ends=ProviderError,
        text="Hel",
        own_words=True,
    )


def _strange_chunks() -> Iterator[Fault]:
    yield Fault(name="only the end", acts=(sends(head() + DONE),), ends=ProviderNonsense, calls=2)
    whole = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "index": 0}]}
    unstreamed = sends(head(kind="application/json") + json.dumps(whole).encode())
    yield Fault(name="not a stream", acts=(unstreamed,), ends=ProviderNonsense, calls=2)
    odd = {
        "empty choices": [{**chunk(), "choices": []}],
        "null content": [chunk({"content": None})],
        "null delta": [
            {**chunk(), "choices": [{"index": 0, "delta": None, "finish_reason": None}]}
        ],
        "empty content": [chunk({"content": ""})] * 5,
        "null choices": [{**chunk(), "choices": None}],
        "unknown fields": [chunk({"mood": {"sunny": [1, 2]}}, weather="fine")],
        "no model and no id": [{"choices": [{"index": 0, "delta": {"content": ""}}]}],
    }
    for name, chunks in odd.items():
        yield Fault(
            name=f"a chunk with {name}",
            acts=(streams([*chunks, *spoken("Hello."), *chunks]),),
            text="Hello.",
        )
    yield Fault(
        name="the end twice", acts=(streams([*spoken("Hi."), chunk(finish="stop")]),), text="Hi."
    )
    said = [chunk({"content": "Hi"}), chunk(finish="something new")]
    yield Fault(name="finish something new", acts=(streams(said),), text="Hi")
    for name, usage in {
        "negative": {"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6},
        "missing": {},
        "absurd": {"prompt_tokens": 10**30, "completion_tokens": 1, "total_tokens": 1},
    }.items():
        yield Fault(name=f"{name} usage", acts=(streams(spoken("Hi."), usage=usage),), text="Hi.")
    yield Fault(
        name="an error that says it is an answer",
        acts=(sends(head(kind="application/json") + json.dumps(_WRONG).encode()),),
        ends=ProviderRefused,
        beyond_litellm="it does not look",
    )


_WRONG = {"error": {"message": "no such key", "type": "authentication_error"}}


def _call(index: int | None, **fields: Any) -> dict[str, Any]:
    number = {} if index is None else {"index": index}
    return chunk({"tool_calls": [{**number, **fields}]})


def _strange_calls() -> Iterator[Fault]:
    end = chunk(finish="tool_calls")
    first = _call(0, id="a", type="function", function={"name": "read", "arguments": '{"pa'})
    rest = _call(0, function={"arguments": 'th":"x"}'})
    several = {
        "two at once": (asked(("a", "read", '{"path":"x"}'), ("b", "read", '{"path":"y"}')), 2),
        "two with one id": (asked(("a", "read", '{"path":"x"}'), ("a", "list", "{}")), 2),
        "a header twice": (
            [first, _call(0, id="a", function={"name": "read", "arguments": ""}), rest, end],
            1,
        ),
        "null arguments": (
            [_call(0, id="a", function={"name": "list", "arguments": None}), end],
            1,
        ),
        "no arguments": ([_call(0, id="a", type="function", function={"name": "list"}), end], 1),
        "broken arguments": (asked(("a", "read", '{"path": "x')), 1),
        "arguments that are a list": (asked(("a", "read", "[1]")), 1),
        "huge arguments": (
            [
                _call(
                    0,
                    id="a",
                    function={"name": "write", "arguments": '{"content":"' + "x" * (1 << 20)},
                ),
                _call(0, function={"arguments": '"}'}),
                end,
            ],
            1,
        ),
        "an unknown tool": (asked(("a", "teleport", "{}")), 1),
        "every call numbered 0": (
            [
                _call(0, id="a", type="function", function={"name": "read", "arguments": "{}"}),
                _call(0, id="b", type="function", function={"name": "read", "arguments": "{}"}),
                end,
            ],
            2,
        ),
        "the finish says stop": (asked(("a", "read", "{}"), finish="stop"), 1),
        "arguments before the header": (
            [
                _call(0, function={"arguments": '{"path":'}),
                _call(0, id="a", function={"name": "read", "arguments": '"x"}'}),
                end,
            ],
            1,
        ),
        "empty fragments": ([first, _call(0, function={"arguments": ""}), rest, end], 1),
    }
    for name, (chunks, count) in several.items():
        yield Fault(name=f"calls: {name}", acts=(streams(chunks),), tools=count)
    torn = sends(head() + event(first) + event(rest))
    yield Fault(name="calls: cut before the end", acts=(torn,), ends=ProviderUnreachable, tools=1)
    lost = sends(head() + stream_of(spoken("Hello."), usage=None, done=False))
    yield Fault(name="lost before the usage", acts=(lost,), text="Hello.")
