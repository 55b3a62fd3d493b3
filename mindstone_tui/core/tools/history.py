"""Tools whose work is done in other rooms: recall, read_entry, note, remember, delegate.

This file declares what the model may ask for; the session hands in who answers. A note stays in the
session's own history, so it needs no permission. A memory outlives the session: the proposal is
shown as a diff, and agreeing to the call is agreeing to the memory. A delegate acts through tools
of its own, under the same approvals.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal

import msgspec

from mindstone_tui.core.text import exact, one_line
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult, declare

ANSWER: Final = "Answer: "
"""How recall begins where one line of history answers; the passages follow after a blank line."""
NEAREST: Final = "Nearest: "
"""How it begins where none surely does, and one holds much of what was asked about."""
NO_MATCH: Final = "Nothing in history matches."
"""The whole of it where nothing was found. (The guide reads these, too.)"""

NoteSection = Literal["task_progress", "decisions", "bugs", "constraints", "learnings", "misc"]
MemoryKind = Literal[
    "preference", "decision", "lesson", "procedure", "fact", "project", "reference"
]


class RecallArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for in history."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=20, description="Most passages.")] = 5


class ReadEntryArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which entry, from where."""

    entry: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=200,
            description="An entry's id or number, a call's id, or a memory's file.",
        ),
    ]
    offset: Annotated[int, msgspec.Meta(ge=0, description="First byte of the whole text.")] = 0


class NoteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something worth keeping in view during this task."""

    section: NoteSection
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
    importance: Literal["critical", "high", "normal"] = "normal"


class RememberArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something worth knowing in later sessions."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=8_000)]
    source: Annotated[
        str, msgspec.Meta(min_length=1, max_length=200, description="The entry it comes from.")
    ]
    kind: MemoryKind = "fact"


class DelegateArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task for a helper with a fresh window."""

    task: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    context: Annotated[
        str, msgspec.Meta(max_length=20_000, description="Facts it needs; it sees nothing else.")
    ] = ""


def recall_tool(recall: Callable[[RecallArguments, ToolContext], Awaitable[ToolResult]]) -> Tool:
    """Search in what was said and done before."""
    return declare(
        "recall",
        "Search earlier parts of this and other sessions, by meaning and by words.",
        "read",
        RecallArguments,
        recall,
        lambda arguments, _: Preview(title=f"recall {exact(one_line(arguments.query, 200))}"),
    )


def read_entry_tool(
    read_entry: Callable[[ReadEntryArguments, ToolContext], Awaitable[ToolResult]],
) -> Tool:
    """Read one entry of history, or on in a result that was cut."""
    return declare(
        "read_entry",
        "Read one entry of history in full, or read on in a result that was cut.",
        "read",
        ReadEntryArguments,
        read_entry,
        lambda arguments, _: Preview(title=f"read entry {exact(arguments.entry)}"),
    )


def note_tool(note: Callable[[NoteArguments, ToolContext], Awaitable[ToolResult]]) -> Tool:
    """Write a note into the session's own history."""
    return declare(
        "note",
        "Note progress, a decision, a bug, a constraint or a learning for this session.",
        "read",
        NoteArguments,
        note,
        lambda arguments, _: Preview(
            title=f"note in {arguments.section}", body=exact(arguments.text)
        ),
    )


def remember_tool(
    remember: Callable[[RememberArguments, ToolContext], Awaitable[ToolResult]],
    diff: Callable[[RememberArguments], str],
    *,
    asks: bool = True,
) -> Tool:
    """Propose a memory; the person sees it as a diff and decides.

    Where nobody can be asked the call only proposes, which needs no permission.
    """
    return declare(
        "remember",
        "Propose something to be remembered in later sessions; the person decides.",
        "memory" if asks else "read",
        RememberArguments,
        remember,
        lambda arguments, _: Preview(
            title=f"remember {exact(arguments.title)}", body=exact(diff(arguments))
        ),
    )


def delegate_tool(
    delegate: Callable[[DelegateArguments, ToolContext], Awaitable[ToolResult]],
    description: str = "Give a self-contained task to a helper with a fresh window.",
) -> Tool:
    """Give a task to a helper and get its report."""
    return declare(
        "delegate",
        description,
        "read",
        DelegateArguments,
        delegate,
        lambda arguments, _: Preview(
            title="delegate a task", body=exact(f"{arguments.task}\n{arguments.context}".strip())
        ),
    )


class TodoArgument(msgspec.Struct, frozen=True):
    """One thing to do, also as other agents write it."""

    title: Annotated[str, msgspec.Meta(max_length=300)] = ""
    status: Literal["planned", "in_progress", "done", "pending", "completed"] = "planned"
    content: Annotated[str, msgspec.Meta(max_length=300)] = ""


class TodoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole list."""

    items: Annotated[
        tuple[TodoArgument, ...], msgspec.Meta(max_length=50, description="All of it, in order.")
    ]


def todo_tool(write: Callable[[TodoArguments, ToolContext], Awaitable[ToolResult]]) -> Tool:
    """Keep the list of what is to be done."""
    tool = declare(
        "todo",
        "Write the list of what is to be done, whole; one item in_progress at a time.",
        "read",
        TodoArguments,
        write,
        lambda arguments, _: Preview(title=f"todo {len(arguments.items)} items"),
    )
    item = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "status": {"enum": ["planned", "in_progress", "done"]},
        },
        "required": ["title", "status"],
    }
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": item}},
        "required": ["items"],
    }
    return msgspec.structs.replace(tool, parameters=parameters)
