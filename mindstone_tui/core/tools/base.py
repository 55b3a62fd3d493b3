"""A tool as data: its name, its schema, its risk, what it will do and how it does it.

Arguments are declared once, as a msgspec struct: the schema the model reads, the check of what it
sends and the type the code works with are the same declaration.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec

from mindstone_tui.core.entries import ToolSchema
from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.text import one_line
from mindstone_tui.core.tools.sandbox import Sandbox
from mindstone_tui.core.tools.workspace import Standing, Workspace

Risk = Literal["read", "write", "run", "memory"]
"""`read` looks, `write` changes files, `run` starts programs, `memory` changes memories."""


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one call may take."""

    shown: int = 32 * 1024
    """Bytes of output the model sees: the first half of them and the last."""
    kept: int = 8 * 1024 * 1024
    """Bytes of output kept beside the transcript when it is more than is shown."""
    output: int = 64 * 1024 * 1024
    """Bytes after which a command is stopped."""
    seconds: float = 120.0


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool may use while it runs; handed in, never fetched from the air."""

    workspace: Workspace
    call: str = ""
    """Id of the call, by which a cut result is read on."""
    environ: Mapping[str, str] = {}
    passed: tuple[str, ...] = ()
    """Names of variables that commands get beside the harmless ones."""
    limits: ToolLimits = ToolLimits()
    sandbox: Sandbox | None = None
    """Confines the commands of this call; None when a person let it run as it is."""
    network: bool = False
    """Whether a confined command may use the network."""
    stop: asyncio.Event | None = None
    """Set when the person interrupts."""
    progress: Callable[[bytes], None] | None = None
    """Told of output while a command runs."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly what a call will do, for the one who must agree."""

    title: str
    """One line: the tool and what it touches."""
    body: str = ""
    """All of it: the command, or the diff."""
    standing: Standing = "open"
    """How guarded the place is that would change."""
    place: tuple[str, ...] = ()
    """The parts of the path that would change, below its root."""
    command: str = ""
    """The shell command to judge, when there is one."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back."""

    text: str
    status: ToolStatus = "ok"
    finding: str = ""
    """One deterministic line that can stand for the whole result."""
    full: bytes | None = None
    """The whole output, when `text` is only its head and tail."""
    diff: str = ""
    elapsed: float = 0.0
    origin: str = ""
    """Where foreign text came from; empty when the text is our own."""


Runner = Callable[[Mapping[str, object], ToolContext], Awaitable[ToolResult]]
Previewer = Callable[[Mapping[str, object], ToolContext], Preview]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """Something the agent can do."""

    name: str
    description: str
    parameters: dict[str, object]
    risk: Risk
    run: Runner
    preview: Previewer
    confined: bool = True
    """Whether its effects stay where a sandbox or the workspace keeps them."""

    @property
    def schema(self) -> ToolSchema:
        """What the model is told."""
        return ToolSchema(name=self.name, description=self.description, parameters=self.parameters)


Arguments = TypeVar("Arguments", bound=msgspec.Struct)


def declare(
    name: str,
    description: str,
    risk: Risk,
    arguments: type[Arguments],
    run: Callable[[Arguments, ToolContext], Awaitable[ToolResult]],
    preview: Callable[[Arguments, ToolContext], Preview],
) -> Tool:
    """A tool from one arguments type and two functions that take it."""

    async def checked_run(given: Mapping[str, object], context: ToolContext) -> ToolResult:
        return await run(checked(arguments, given), context)

    def checked_preview(given: Mapping[str, object], context: ToolContext) -> Preview:
        return preview(checked(arguments, given), context)

    return Tool(
        name=name,
        description=description,
        parameters=parameters_of(arguments),
        risk=risk,
        run=checked_run,
        preview=checked_preview,
    )


_UNSAID: Final = frozenset({"title", "minLength", "maxLength"})


def parameters_of(arguments: type[msgspec.Struct]) -> dict[str, object]:
    """The JSON schema of an arguments type, as short as a model can do with.

    It stands in every prompt. Limits of length are checked when a call comes; no model needs them.
    """
    _, components = msgspec.json.schema_components([arguments])
    schema: dict[str, Any] = components[arguments.__name__]
    properties = {
        name: {key: value for key, value in field.items() if key not in _UNSAID}
        for name, field in schema["properties"].items()
    }
    return {"type": "object", "properties": properties, "required": schema["required"]}


def checked(arguments: type[Arguments], given: Mapping[str, object]) -> Arguments:
    """The arguments as their type, or what is wrong with them in words a model can act on."""
    try:
        return msgspec.convert(dict(given), arguments)
    except msgspec.ValidationError as error:
        raise ToolError(
            f"The arguments are wrong: {error}.", "Send them as the schema says."
        ) from None


def finding(text: str) -> str:
    """A result in one line short enough for a placeholder: some fifty tokens in any script."""
    line = one_line(text, 100)
    while len(line.encode("utf-8", "replace")) > 150:
        line = line[:-2] + "…"
    return line


def decoded(data: bytes) -> str:
    """Bytes as text that can be stored and sent: invalid ones and NULs become visible signs."""
    return data.decode("utf-8", "replace").replace("\0", "␀")


def bounded(
    text: str, context: ToolContext, *, size: int | None = None
) -> tuple[str, bytes | None]:
    """The head and tail of a long text, and its whole as bytes when something was left out.

    `size` is how long the output really was when the text is already less than all of it.
    """
    data = text.encode("utf-8", "replace")
    total = max(size or 0, len(data))
    limit = context.limits.shown
    if total <= limit:
        return text, None
    head = data[: limit // 2].decode("utf-8", "ignore")
    tail = data[-(limit // 2) :].decode("utf-8", "ignore")
    left_out = total - len(head.encode()) - len(tail.encode())
    note = f"[… {left_out:,} of {total:,} bytes left out; {how_to_read_on(context)} …]"
    return f"{head}\n{note}\n{tail}", data[: context.limits.kept]


def how_to_read_on(context: ToolContext) -> str:
    """Where the rest of a cut result is."""
    return f'read_entry {{"entry": "{context.call}", "offset": …}} shows the rest'


def digest_of(data: bytes) -> str:
    """SHA-256, hex."""
    return hashlib.sha256(data).hexdigest()
