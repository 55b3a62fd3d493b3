"""A model that says what a file says: for tests, demos and recordings.

The file is JSONL, one reply a line, in order:

    {"text": "Let me look.", "tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
    {"text": "It says hello.", "usage": {"prompt": 812, "completion": 4}, "delay_ms": 300}
    {"for": "summary", "text": "They looked at a.txt."}
    {"error": "rate_limit"}
    {"loop": true}

`text` is streamed word by word, after `thinking` when there is some. `arguments` is an object; a
string is sent exactly as written, so that broken JSON can be played. `delay_ms` is how long the
whole reply takes. Without `usage` the figures are left unknown, and whoever asked uses its own
count. A line with `for` serves only calls with that purpose, which have a position of their own.
`{"loop": true}` as last line starts over. `finish` overrides the reason the answer ended.

`error` ends the reply: what the line has to say is streamed first (with `cut` only half of it),
then the error of that name is raised. An error is a reply taken, like any other; nothing is tried
again here. The names stand in `ERRORS`; any other text is the message of a plain `ProviderError`.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import bounded_json, disk, entries, errors, patterns
from mindstone_tui.core.providers import base
from mindstone_tui.core.providers.stream import usage_of

PREFIX: Final = "scripted/"
SCRIPT_REMEDY: Final = "Write scripted/FILE with a path that is right from the working folder."

ERRORS: Final[dict[str, Callable[[], errors.ProviderError]]] = {
    "timeout": lambda: errors.ProviderUnreachable(
        "The script's server did not answer in time.", failure="timeout"
    ),
    "unreachable": lambda: errors.ProviderUnreachable("The script's server cannot be reached."),
    "cut": lambda: errors.ProviderUnreachable("The script's stream broke off in the middle."),
    "rate_limit": lambda: errors.ProviderBusy(
        "The script says: too many requests.", retry_after=1.0
    ),
    "overloaded": lambda: errors.ProviderBusy("The script says: overloaded."),
    "server": lambda: errors.ProviderBusy("The script says: internal server error."),
    "context_length": lambda: errors.ContextTooLong("The script says: the prompt is too long."),
    "auth": lambda: errors.ProviderRefused("The script says: the key is wrong."),
    "refused": lambda: errors.ProviderRefused("The script says: refused."),
    "content": lambda: errors.ProviderRefused(
        "The script says: this content is not allowed.", failure="content"
    ),
    "nonsense": lambda: errors.ProviderNonsense("The script answered nonsense."),
}
"""What `error` may name, and what it becomes."""

_WORD: Final = patterns.pattern_of(r"\s*\S+|\s+\Z")


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool the script asks for."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""


class ScriptedReply(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"purpose": "for"}
):
    """One line of a script."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: dict[str, Any] | None = None
    delay_ms: float = 0.0
    error: str = ""
    finish: str = ""
    purpose: str = ""
    loop: bool = False


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file of replies."""

    replies: tuple[ScriptedReply, ...]
    loops: bool

    def reply(self, purpose: str, position: int) -> ScriptedReply | None:
        """The reply at a position among those for a purpose; None after the last."""
        own = [reply for reply in self.replies if reply.purpose == purpose]
        if self.loops and own:
            position %= len(own)
        return own[position] if position < len(own) else None


def read_script(path: Path) -> Script:
    """Read a script, or name the file and the line that is wrong."""
    try:
        raw = disk.read_regular(path, most=disk.LARGEST_BLOB)
    except OSError as error:
        raise errors.ProviderRefused(
            f"The script {path} cannot be read: {error.strerror}.", SCRIPT_REMEDY
        ) from error
    replies: list[ScriptedReply] = []
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        if replies and replies[-1].loop:
            raise _wrong(path, number, 'nothing may follow {"loop": true}')
        replies.append(_reply(path, number, line))
    loops = bool(replies) and replies[-1].loop
    return Script(replies=tuple(replies[:-1] if loops else replies), loops=loops)


def _reply(path: Path, number: int, line: bytes) -> ScriptedReply:
    try:
        return bounded_json.read_as(line, ScriptedReply)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _wrong(path, number, str(error)) from error


def _wrong(path: Path, number: int, why: str) -> errors.ProviderNonsense:
    return errors.ProviderNonsense(
        f"{path}, line {number}: {why}.",
        'Each line is one reply: {"text": "…"} and/or {"tool_calls": [{"name", "arguments"}]}.',
    )


class ScriptedProvider:
    """Says what a file says, from the position it is told."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = hashlib.sha256(str(path).encode("utf-8", "replace")).hexdigest()[:4]
        self._seen: tuple[tuple[int, int], Script] | None = None

    def info(self, model: str) -> base.ModelInfo:
        """A script knows no window; it costs nothing."""
        return base.ModelInfo(
            name=model,
            prompt_price=0.0,
            completion_price=0.0,
            cached_price=0.0,
            images=True,
            sounds=True,
            note=f"Replies are read from {self._path.name}; no model is asked.",
        )

    async def served_window(self, model: str) -> base.Window | None:
        """There is no server."""
        return None

    async def stream(self, request: entries.Request, options: base.Options) -> base.Streamed:
        """Say the reply at `options.position`."""
        if (reply := self._script().reply(options.purpose, options.position)) is None:
            purpose = f" for {options.purpose}" if options.purpose else ""
            raise errors.ScriptEnded(
                f"The script {self._path} has no reply{purpose} at position {options.position}.",
                'Add a line to it, or {"loop": true} as the last one.',
            )
        deltas = list(_deltas(reply, f"{self._mark}{options.purpose}_{options.position}"))
        if reply.error == "cut":
            deltas = deltas[: (len(deltas) + 1) // 2]
        pause = reply.delay_ms / 1000 / max(len(deltas), 1)
        for delta in deltas:
            await asyncio.sleep(pause)
            yield delta
        if reply.error:
            raise _error(reply.error)
        reason = reply.finish or ("tool_calls" if reply.tool_calls else "stop")
        yield base.Finished(reason=reason, usage=usage_of(reply.usage), model=request.model)

    async def close(self) -> None:
        """Nothing is held."""

    def _script(self) -> Script:
        """The script as it is on disk now, parsed again only when it changed."""
        try:
            status = self._path.stat()
        except OSError:
            return read_script(self._path)
        mark = (status.st_mtime_ns, status.st_size)
        if self._seen is None or self._seen[0] != mark:
            self._seen = (mark, read_script(self._path))
        return self._seen[1]


def _deltas(reply: ScriptedReply, mark: str) -> Iterator[base.Delta]:
    """Everything a reply says, in the pieces in which it is streamed."""
    yield from (base.ThinkingPart(text=word) for word in words(reply.thinking))
    yield from (base.TextPart(text=word) for word in words(reply.text))
    for index, call in enumerate(reply.tool_calls):
        call_id = call.id or f"call_{mark}_{index}"
        written = call.arguments
        arguments = written if isinstance(written, str) else msgspec.json.encode(written).decode()
        half = len(arguments) // 2
        yield base.CallDelta(index=index, id=call_id, name=call.name, arguments=arguments[:half])
        yield base.CallDelta(index=index, arguments=arguments[half:])


def words(text: str) -> list[str]:
    """The text in words that carry the blanks before them; joined they are the text again."""
    return _WORD.findall(text)


def _error(name: str) -> errors.ProviderError:
    make = ERRORS.get(name)
    return make() if make else errors.ProviderError(f"The script says: {name}")
