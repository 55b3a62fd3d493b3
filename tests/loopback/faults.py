"""Every way in which a model's server can go wrong, as acts for the loopback server.

A fault says how a request that meets it must end: with an answer (`ends` is None) or with one kind
of error; what text must have been heard; and how often the server may be asked when one retry is
allowed.
"""

from __future__ import annotations

import asyncio
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
from tests.loopback.server import (
    DONE,
    Act,
    Call,
    Write,
    asked,
    chunk,
    chunked,
    error,
    event,
    fails,
    hangs,
    head,
    says,
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


def every_fault() -> Iterator[Fault]:
    """All of them; most are variations that were met in the wild."""
    yield from _statuses()
    yield from _too_long()
    yield from _broken_transport()
    yield from _strange_streams()
    yield from _strange_calls()


def _status(line: str, ends: type[ProviderError], calls: int, **headers: str) -> Fault:
    return Fault(
        name=f"status {line} {' '.join(headers.values())}".strip(),
        acts=(fails(line, error("the server says no"), **headers),),
        ends=ends,
        calls=calls,
    )


def _statuses() -> Iterator[Fault]:
    for line in ("400 Bad Request", "401 Unauthorized", "402 Payment Required", "403 Forbidden"):
        yield _status(line, ProviderRefused, 1)
    yield _status("404 Not Found", ProviderRefused, 1)
    yield _status("408 Request Timeout", ProviderUnreachable, 2)
    yield _status("409 Conflict", ProviderRefused, 1)
    yield _status("413 Payload Too Large", ContextTooLong, 1)
    yield _status("418 I'm a teapot", ProviderRefused, 1)
    yield _status("422 Unprocessable Entity", ProviderRefused, 2)
    yield _status("429 Too Many Requests", ProviderBusy, 2)
    yield _status("429 Too Many Requests", ProviderBusy, 2, Retry_After="1")
    yield _status("429 Too Many Requests", ProviderBusy, 1, Retry_After="3600")
    yield _status("429 Too Many Requests", ProviderBusy, 2, Retry_After="soon, maybe")
    yield _status(
        "429 Too Many Requests", ProviderBusy, 2, Retry_After="Thu, 01 Jan 1970 00:00:00 GMT"
    )
    for line in (
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Unavailable",
        "529 Overloaded",
    ):
        yield _status(line, ProviderBusy, 2)
    yield _status("504 Gateway Timeout", ProviderUnreachable, 2)
    page = b"<html><body><h1>502 Bad Gateway</h1>nginx</body></html>"
    yield Fault(
        name="an error page",
        acts=(sends(head("502 Bad Gateway", "text/html") + page),),
        ends=ProviderBusy,
        calls=2,
    )
    yield Fault(
        name="a redirect to itself",
        acts=(sends(head("302 Found", Location="/v1/chat/completions")),),
        ends=ProviderError,
        calls=0,
    )
    yield Fault(
        name="no quota left",
        acts=(fails("429 X", error("You exceeded your current quota", "insufficient_quota")),),
        ends=ProviderRefused,
    )
    yield Fault(
        name="content refused",
        acts=(fails("400 X", error("flagged by our content policy", code="content_filter")),),
        ends=ProviderRefused,
    )
    yield Fault(
        name="busy, then well",
        acts=(fails("503 X", error("later")), says("There you are.")),
        text="There you are.",
        calls=2,
    )


def _too_long() -> Iterator[Fault]:
    said = {
        "OpenAI": "This model's maximum context length is 8192 tokens. However, your messages "
        "resulted in 9001 tokens.",
        "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
        "Anthropic with room": "input length and `max_tokens` exceed context limit: 190000 + 64000",
        "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed "
        "(1048576).",
        "Mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with "
        "32768 maximum context length",
        "Cohere": "too many tokens: total number of tokens in the prompt exceeds the limit",
        "llama.cpp": "request (9031 tokens) exceeds the available context size (8192 tokens), try "
        "increasing it",
        "Groq": "Please reduce the length of the messages or completion.",
        "Bedrock": "Input is too long for requested model.",
        "xAI": "This model's maximum prompt length is 131072 but the request contains 140000.",
    }
    for vendor, message in said.items():
        yield Fault(
            name=f"too long, says {vendor}",
            acts=(fails("400 Bad Request", error(message)),),
            ends=ContextTooLong,
        )


def _drips() -> Act:
    async def act(call: Call, write: Write) -> None:
        await write(head())
        while True:
            await write(b": still here\n\n")
            await asyncio.sleep(0.05)

    return act


def _slowly(data: bytes) -> Act:
    """Byte by byte, but steadily: this must succeed."""

    async def act(call: Call, write: Write) -> None:
        await write(head())
        for at in range(0, len(data), 7):
            await write(data[at : at + 7])
            await asyncio.sleep(0)

    return act


def _broken_transport() -> Iterator[Fault]:
    lost, whole = ProviderUnreachable, stream_of(spoken("Hello there, my friend."))
    opened = head() + event(chunk({"role": "assistant", "content": ""}))
    yield Fault(name="hangs up at once", acts=(sends(b""),), ends=lost, calls=2)
    yield Fault(name="not HTTP", acts=(sends(b"\x00\x01 what?\r\n\r\n"),), ends=lost, calls=2)
    yield Fault(name="half a header", acts=(sends(b"HTTP/1.1 200 O"),), ends=lost, calls=2)
    yield Fault(name="never answers", acts=(hangs(),), ends=lost, calls=-1, patience=0.4)
    yield Fault(name="never says a word", acts=(hangs(head()),), ends=lost, calls=-1, patience=0.4)
    yield Fault(
        name="opens and falls silent", acts=(hangs(opened),), ends=lost, calls=-1, patience=0.4
    )
    spoke = opened + event(chunk({"content": "Hel"}))
    yield Fault(
        name="falls silent in a word", acts=(hangs(spoke),), ends=lost, text="Hel", patience=1.0
    )
    yield Fault(name="drips comments for ever", acts=(_drips(),), ends=lost, calls=-1, patience=0.4)
    yield Fault(name="slow but steady", acts=(_slowly(whole),), text="Hello there, my friend.")
    yield Fault(name="cut in a word", acts=(sends(spoke),), ends=lost, text="Hel")
    torn = sends(spoke + event(chunk({"content": "lo"}))[:-9])
    yield Fault(name="cut in an event", acts=(torn,), ends=lost, text="Hel")
    yield Fault(name="cut in a chunk", acts=(chunked(whole, cut=20),), ends=lost, calls=2)
    yield Fault(
        name="less than promised",
        acts=(sends(head(Content_Length="99999") + whole[:400]),),
        ends=lost,
        calls=-1,
        text="Hello",
    )
    yield Fault(
        name="lost after the last word, before the usage",
        acts=(sends(head() + stream_of(spoken("Hello."), usage=None, done=False)),),
        text="Hello.",
    )
    yield Fault(
        name="silent after the last word",
        acts=(hangs(head() + stream_of(spoken("Hello."), usage=None, done=False)),),
        text="Hello.",
        patience=1.0,
    )
    yield Fault(
        name="cut at first, well at last",
        acts=(sends(opened), says("Here now.")),
        text="Here now.",
        calls=2,
    )
    yield Fault(name="proper HTTP chunks", acts=(chunked(whole),), text="Hello there, my friend.")
    yield Fault(
        name="packed, it says, but is not",
        acts=(sends(head(Content_Encoding="gzip") + whole),),
        ends=ProviderError,
        calls=2,
    )


def _strange_streams() -> Iterator[Fault]:
    nonsense = ProviderNonsense
    page = sends(head(kind="text/html") + b"<html>Please log in</html>")
    yield Fault(name="a login page", acts=(page,), ends=nonsense, calls=2)
    yield Fault(name="nothing at all", acts=(sends(head()),), ends=nonsense, calls=2)
    yield Fault(name="only the end", acts=(sends(head() + DONE),), ends=nonsense, calls=2)
    whole = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "index": 0}]}
    unstreamed = sends(head(kind="application/json") + json.dumps(whole).encode())
    yield Fault(name="not a stream", acts=(unstreamed,), ends=nonsense, calls=2)
    spoke = head() + event(chunk({"content": "Hel"}))
    yield Fault(
        name="an event that is not JSON",
        acts=(sends(spoke + b"data: {oops\n\n" + DONE),),
        ends=ProviderError,
        text="Hel",
    )
    yield Fault(
        name="bytes that are not text",
        acts=(sends(spoke + b"data: \xff\xfe\x80\n\n" + DONE),),
        ends=ProviderError,
        text="Hel",
    )
    yield Fault(
        name="an error instead of a stream",
        acts=(sends(head() + event(error("overloaded", "overloaded_error"))),),
        ends=ProviderError,
        calls=-1,
    )
    yield Fault(
        name="an error in the stream",
        acts=(sends(spoke + event(error("the engine died", "server_error")) + DONE),),
        ends=ProviderError,
        text="Hel",
    )
    yield Fault(
        name="no reason to finish",
        acts=(streams(spoken("Hello.")[:-1], usage=None),),
        ends=ProviderUnreachable,
        text="Hello.",
    )
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
    yield Fault(name="windows line ends", acts=(_crlf("Hello."),), text="Hello.")
    yield Fault(name="NULs in the text", acts=(says("a\x00b"),), text="a\x00b")
    yield Fault(name="escape codes in the text", acts=(says("\x1b[31mred"),), text="\x1b[31mred")
    halves = [chunk({"content": "\ud83d"}), chunk({"content": "\ude00!"}), chunk(finish="stop")]
    yield Fault(name="half a character at a time", acts=(streams(halves),), text="😀!")
    lone = [chunk({"content": "a\ud83d"}), chunk({"content": "b"}), chunk(finish="stop")]
    yield Fault(name="half a character", acts=(streams(lone),), text="a�b")
    long = "x" * (2 << 20)
    yield Fault(
        name="a gigantic line",
        acts=(streams([chunk({"content": long}), chunk(finish="stop")]),),
        text=long,
    )
    yield Fault(
        name="the same chunk 300 times",
        acts=(streams([*[chunk({"content": "ha ha"})] * 300, chunk(finish="stop")]),),
        text="ha ha" * 300,
    )
    for reason in ("length", "content_filter", "something new"):
        said = [chunk({"content": "Hi"}), chunk(finish=reason)]
        yield Fault(name=f"finish {reason}", acts=(streams(said),), text="Hi")
    for name, usage in {
        "negative": {"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6},
        "missing": {},
        "absurd": {"prompt_tokens": 10**30, "completion_tokens": 1, "total_tokens": 1},
    }.items():
        yield Fault(name=f"{name} usage", acts=(streams(spoken("Hi."), usage=usage),), text="Hi.")


def _crlf(text: str) -> Act:
    return sends(head() + stream_of(spoken(text)).replace(b"\n\n", b"\r\n\r\n"))


def _call(index: int | None, **fields: Any) -> dict[str, Any]:
    number = {} if index is None else {"index": index}
    return chunk({"tool_calls": [{**number, **fields}]})


def _strange_calls() -> Iterator[Fault]:
    end = chunk(finish="tool_calls")
    first = _call(0, id="a", type="function", function={"name": "read", "arguments": '{"pa'})
    rest = _call(0, function={"arguments": 'th":"x"}'})
    several = {
        "two at once": (asked(("a", "read", '{"path":"x"}'), ("b", "read", '{"path":"y"}')), 2),
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
        "200 calls": (asked(*((f"c{n}", "read", "{}") for n in range(200))), 200),
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
