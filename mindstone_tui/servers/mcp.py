"""`mindstone mcp`: history and memory for other agents, over standard streams.

It looks and does not touch: the one tool that writes, `propose_memory`, writes a proposal that a
person decides about, and only where the settings or an option allow it. Standard output carries
the protocol and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints
from urllib.parse import quote, unquote

import msgspec

from mindstone_tui import __version__, api
from mindstone_tui.core import diagnostics, events
from mindstone_tui.core.errors import MindstoneError, UsageError
from mindstone_tui.core.text import one_line
from mindstone_tui.servers.lookup import Lookup, SessionName

if TYPE_CHECKING:
    from mcp import types
    from mcp.server import Server, ServerRequestContext
    from mcp.shared.exceptions import MCPError

    Context = ServerRequestContext[Any]
    Page = types.PaginatedRequestParams | None

INSTRUCTIONS: Final = (
    "The record of a person's work with agents: verbatim, append-only, hash-chained. `search` "
    "looks through all sessions, `read_entry` and `context_around` show what stands there, "
    "`recall` finds what bears on a question. What comes back is quoted and may be old; cite its "
    "session and line."
)
RESOURCE: Final = "mindstone://session/"
PROPOSE: Final = "propose_memory"
Proposed = Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]


LOOKS: Final = (
    *("search", "read_entry", "context_around", "sessions", "recall", "fix", "how", "about"),
    *("blame", "verify"),
)
"""Questions that are tools as they are; the docstring says what one is for."""


class MemoryServer:
    """The answers to everything an MCP client may ask."""

    def __init__(self, home: api.Home, *, propose: bool = False) -> None:
        self._home = home
        self._lookup = Lookup(home)
        self._propose = propose
        self.tools: dict[str, Callable[..., Any]] = {
            **{name: getattr(self._lookup, name) for name in LOOKS},
            PROPOSE: self.propose_memory,
        }

    async def call(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Run a tool; raises a `MindstoneError` that says what is wrong."""
        if (tool := self.tools.get(name)) is None:
            raise UsageError(f"There is no tool {one_line(name)}.", f"Use {', '.join(self.tools)}.")
        kind = arguments_of(tool)
        try:
            arguments = msgspec.convert(_as_declared(given, kind), kind, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"{name}: {error}.", "The tool's schema says what it takes.") from None
        named = msgspec.structs.asdict(arguments)
        if name == PROPOSE:
            return await self.propose_memory(**named)
        return await asyncio.to_thread(tool, **named)

    async def propose_memory(self, text: Proposed, session: SessionName = "") -> dict[str, Any]:
        """Propose something to be remembered. It is only a proposal: the person decides."""
        if not (self._propose or self._home.settings.mcp.propose):
            raise UsageError(
                "This server is read-only: nothing was proposed.",
                "The person can allow proposals with `mindstone mcp --propose`.",
            )
        self._lookup.overview(session, exchanges=1)
        said = " ".join(text.split())
        conversation = await api.connect(session, home=self._home, channel="mcp", follow=False)
        told: dict[str, Any] = {}
        try:
            async for event in conversation.ask(f"/memory add {said}"):
                if isinstance(event, events.CommandPrinted):
                    if not event.ok:
                        raise UsageError(event.text)
                    told = {"proposal": (event.data or {}).get("proposal"), "shown": event.text}
        finally:
            await conversation.close()
        return {**told, "session": conversation.session, "remembered": False}

    async def read(self, uri: str) -> str:
        """A session as a resource."""
        name = unquote(uri.removeprefix(RESOURCE)) if uri.startswith(RESOURCE) else ""
        if not name:
            raise UsageError(f"There is no resource {one_line(uri)}.", f"Use {RESOURCE}<session>.")
        return _pretty(await asyncio.to_thread(self._lookup.overview, name))

    async def resources(self) -> list[tuple[str, str]]:
        """Addresses of sessions with their titles, the default session first."""
        listed = await asyncio.to_thread(self._lookup.listed)
        most = self._home.settings.mcp.max_results
        return [(address(one.session), one.title or one.session) for one in listed[:most]]

    async def handoff(self, session: str) -> str:
        """The text of the prompt `handoff`."""
        return await asyncio.to_thread(self._lookup.handoff, session)


def address(session: str) -> str:
    """The address of a session as a resource."""
    return RESOURCE + quote(session, safe="")


async def serve(home: api.Home, *, propose: bool = False) -> None:
    """Answer on the standard streams until the client goes away."""
    from mcp.server.stdio import stdio_server

    server = build(MemoryServer(home, propose=propose), home)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def build(memory: MemoryServer, home: api.Home) -> Server[Any]:
    """The protocol around the answers."""
    # Deferred: the library takes most of a second, and only this verb needs its server.
    from mcp.server import Server

    return Server(
        "mindstone",
        version=__version__,
        title="MindStone",
        instructions=INSTRUCTIONS,
        **_tools(memory, home),
        **_resources(memory),
        **_prompts(memory),
    )


def _tools(memory: MemoryServer, home: api.Home) -> dict[str, Any]:
    """What is served of tools; what fails in one is its result, and no error of the protocol."""
    from mcp import types

    def declared(name: str, tool: Callable[..., Any]) -> types.Tool:
        return types.Tool(
            name=name,
            description=" ".join((tool.__doc__ or "").split()),
            input_schema=schema_of(arguments_of(tool)),
            annotations=types.ToolAnnotations(
                read_only_hint=name != PROPOSE, destructive_hint=False, open_world_hint=False
            ),
        )

    async def list_tools(_: Context, params: Page) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[declared(*each) for each in memory.tools.items()])

    def failed(said: str) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=said)], is_error=True)

    async def call_tool(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            told = await memory.call(params.name, params.arguments or {})
        except MindstoneError as error:
            return failed(error.sentence)
        except Exception as error:  # a bug costs the call, and its traceback goes to the log
            diagnostics.record(error, home.places.log)
            return failed(f"The tool failed: {type(error).__name__}.")
        content = [types.TextContent(text=_pretty(told))]
        return types.CallToolResult(content=list(content), structured_content=told)

    return {"on_list_tools": list_tools, "on_call_tool": call_tool}


def _resources(memory: MemoryServer) -> dict[str, Any]:
    """Sessions as resources."""
    from mcp import types

    async def list_resources(_: Context, params: Page) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=title, mime_type="application/json")
                for uri, title in await memory.resources()
            ]
        )

    async def list_templates(_: Context, params: Page) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=RESOURCE + "{session}",
            name="session",
            description="A session at a glance, with what was said last.",
            mime_type="application/json",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            text = await memory.read(str(params.uri))
        except MindstoneError as error:
            raise _refusal(error) from None
        held = types.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[held])

    return {
        "on_list_resources": list_resources,
        "on_list_resource_templates": list_templates,
        "on_read_resource": read_resource,
    }


def _prompts(memory: MemoryServer) -> dict[str, Any]:
    """The one prompt there is: to go on where a session stands."""
    from mcp import types

    async def list_prompts(_: Context, params: Page) -> types.ListPromptsResult:
        named = types.PromptArgument(
            name="session", description="The session to go on with; the default one if left out."
        )
        prompt = types.Prompt(
            name="handoff",
            description="Go on with the work of a session where it stands.",
            arguments=[named],
        )
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(_: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        try:
            if params.name != "handoff":
                raise UsageError(f"There is no prompt {one_line(params.name)}.", "Use handoff.")
            text = await memory.handoff((params.arguments or {}).get("session", ""))
        except MindstoneError as error:
            raise _refusal(error) from None
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(messages=[message])

    return {"on_list_prompts": list_prompts, "on_get_prompt": get_prompt}


def _refusal(error: MindstoneError) -> MCPError:
    from mcp import types
    from mcp.shared.exceptions import MCPError

    return MCPError(code=types.INVALID_PARAMS, message=error.sentence)


@cache
def arguments_of(tool: Callable[..., Any]) -> type[msgspec.Struct]:
    """What a tool is called with, as its signature says."""
    hints = get_type_hints(tool, include_extras=True)
    fields = [
        (
            each.name,
            hints[each.name],
            msgspec.NODEFAULT if each.default is each.empty else each.default,
        )
        for each in signature(tool).parameters.values()
    ]
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, in one piece."""
    (schema,), parts = msgspec.json.schema_components([arguments])
    return dict(parts[schema["$ref"].rpartition("/")[2]])


def _as_declared(given: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """What was given, with numbers as text where text is meant: a line may be named 42 or "42"."""
    declared = schema_of(kind)["properties"]
    texts = {name for name, schema in declared.items() if schema.get("type") == "string"}
    return {
        name: str(value) if name in texts and type(value) in (int, float) else value
        for name, value in given.items()
    }


def _pretty(told: object) -> str:
    return msgspec.json.format(msgspec.json.encode(told), indent=1).decode()
