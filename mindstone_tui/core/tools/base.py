"""A tool as data: its name, its schema, its risk, what it will do and how it does it.

Arguments are declared once, as a msgspec struct: the schema the model reads, the check of what it
sends and the type the code works with are the same declaration.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec

from mindstone_tui.core import bounded_json, errors, values
from mindstone_tui.core.config.settings import ToolSettings
from mindstone_tui.core.entries import ToolSchema
from mindstone_tui.core.entries.conversation import Returned
from mindstone_tui.core.text import exact, one_line
from mindstone_tui.core.tools.sandbox import Sandbox
from mindstone_tui.core.tools.verdicts import CommandPart
from mindstone_tui.core.tools.workspace import Standing, Workspace

Risk = Literal["read", "write", "run", "memory", "network", "client"]
"""`read` looks, `write` changes files, `run` starts programs, `memory` changes memories, `network`
reads from a host of the internet; a `client` runs its tools itself, and they do nothing here."""


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one call may take."""

    shown: int = 32 * 1024
    """Bytes of output the model sees: the first half of them and the last."""
    kept: int = 8 * 1024 * 1024
    """Bytes of output kept beside the transcript when it is more than is shown."""
    output: int = 64 * 1024 * 1024
    """Bytes after which a command is stopped."""
    seconds: float = ToolSettings().shell_timeout


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
    unseen: bool = False
    """No person looked at this call: what it plants for other programs is taken back."""
    meant: tuple[object, ...] = ()
    """Root and parts of the file that may be changed: nothing else is, wherever links lead now."""
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
    root: str = ""
    """The root below which a file would change."""
    place: tuple[str, ...] = ()
    """The parts of the path that would change, below its root."""
    host: str = ""
    """The host that would be asked."""
    command: str = ""
    """The shell command to judge, when there is one."""
    parts: tuple[CommandPart, ...] = ()
    """What each part of it does."""
    caution: str = ""
    """A sentence that whoever agrees has to read beside it."""
    git_runs: str = ""
    """The settings of a repository by which git would run programs of its choice."""


class ToolResult(Returned):
    """What a tool gave back, as it came."""

    full: bytes | None = None
    """The whole output, when `text` is only its head and tail."""
    origin: str = ""
    """Where foreign text came from; empty when the text is our own."""


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments by the names a tool knows."""

    arguments: dict[str, object]
    notes: tuple[str, ...] = ()
    """What was taken for what, such as "text as content"."""


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
    understand: Callable[[Mapping[str, object]], Understood] = lambda given: Understood(
        arguments=dict(given)
    )
    """The arguments by the names of the schema, whatever names they came with."""

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
    preview: Callable[[Arguments, ToolContext], Preview] | None = None,
) -> Tool:
    """A tool from one arguments type and two functions that take it.

    Without a preview of its own, whoever is asked sees its name and its arguments as they are.
    """

    fields = tuple(field.encode_name for field in msgspec.structs.fields(arguments))

    def understand(given: Mapping[str, object]) -> Understood:
        return understood(fields, given)

    async def checked_run(given: Mapping[str, object], context: ToolContext) -> ToolResult:
        return await run(checked(arguments, understand(given).arguments), context)

    def checked_preview(given: Mapping[str, object], context: ToolContext) -> Preview:
        meant = checked(arguments, understand(given).arguments)
        if preview is not None:
            return preview(meant, context)
        return Preview(title=f"{name} {exact(msgspec.json.encode(meant).decode())}")

    return Tool(
        name=name,
        description=description,
        parameters=parameters_of(arguments),
        risk=risk,
        run=checked_run,
        preview=checked_preview,
        understand=understand,
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


OTHER_NAMES: Final = values.shipped(__file__, "other_names.json", dict[str, dict[str, list[str]]])
"""What models and agents know from elsewhere, by what it is called here: arguments and tools."""
_SMALL_TALK: Final = frozenset({"description", "explanation", "thought", "reasoning"})
"""What models add to say why they call a tool; it changes nothing."""


def understood(fields: tuple[str, ...], given: Mapping[str, object]) -> Understood:
    """Arguments by the names in `fields`; what is neither known nor meant is left as it came."""
    arguments = {name: value for name, value in given.items() if name in fields}
    strange = {name: value for name, value in given.items() if name not in fields}
    notes: list[str] = []
    for field in fields:
        known = OTHER_NAMES["arguments"].get(field, ())
        other = next((name for name in known if name in strange), "")
        if other and field not in arguments:
            arguments[field] = strange.pop(other)
            notes.append(f"{other} as {field}")
    for name in sorted(_SMALL_TALK & strange.keys()):
        del strange[name]
        notes.append(f"{name} left out")
    return Understood(arguments={**arguments, **strange}, notes=tuple(notes))


def checked(arguments: type[Arguments], given: Mapping[str, object]) -> Arguments:
    """The arguments as their type, or what is wrong with them in words a model can act on."""
    try:
        return msgspec.convert(dict(given), arguments)
    except msgspec.ValidationError as error:
        fields = msgspec.structs.fields(arguments)
        needed = ", ".join(field.encode_name for field in fields if field.required)
        others = ", ".join(field.encode_name for field in fields if not field.required)
        expected = "; ".join(
            part
            for part in (needed and f"needed: {needed}", others and f"may be left out: {others}")
            if part
        )
        raise errors.ToolError(
            f"The arguments are wrong: {error}.", f"Expected are: {expected or 'none'}."
        ) from None


_SUBJECTS: Final = ("path", "title", "command", "pattern", "query", "entry", "section", "task")


def subject_of(tool: Tool, arguments: str) -> str:
    """A call that could not be prepared, in one line: the tool and what it was meant for."""
    try:
        given = bounded_json.read_as(arguments or "{}", dict[str, object])
    except msgspec.DecodeError:
        return tool.name
    meant = tool.understand(given).arguments
    subject = next((meant[name] for name in _SUBJECTS if isinstance(meant.get(name), str)), "")
    return one_line(f"{tool.name} {exact(str(subject))}", 120).strip()


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
