"""What tools did, whatever name a program gives them: files read and changed, commands run.

A session may come from another program whose editor is called `str_replace` and whose shell is
called `exec_command`. The names stand here, once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from mindstone_tui.core.bounded_json import read_arguments
from mindstone_tui.core.entries import Line, Part, ToolCall
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned
from mindstone_tui.core.text import unfenced

ActionKind = Literal["change", "read", "command", "other"]

_CHANGES: Final = frozenset(
    [
        "write",
        "edit",
        "multiedit",
        "multi_edit",
        "create",
        "create_file",
        "write_file",
        "write_to_file",
        "edit_file",
        "update_file",
        "insert",
        "replace",
        "replace_in_file",
        "str_replace",
        "str_replace_editor",
        "search_replace",
        "str_replace_based_edit_tool",
        "apply_patch",
        "patch",
        "apply_diff",
        "notebookedit",
        "delete_file",
    ]
)
_READS: Final = frozenset(
    ["read", "read_file", "view", "open_file", "cat", "notebookread", "readfile"]
)
_COMMANDS: Final = frozenset(
    [
        "shell",
        "bash",
        "sh",
        "exec",
        "exec_command",
        "execute",
        "execute_command",
        "run",
        "run_command",
        "run_shell_command",
        "local_shell",
        "shell_command",
        "run_terminal_cmd",
        "terminal",
        "powershell",
    ]
)
_PATH_FIELDS: Final = [
    "path",
    "file_path",
    "filePath",
    "file",
    "filename",
    "target_file",
    "absolute_path",
    "notebook_path",
]
_COMMAND_FIELDS: Final = ["command", "cmd", "script", "commands"]
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,400})$", re.MULTILINE)
_EXIT: Final = re.compile(
    r"\b(?:exit(?:ed)?(?: with)?(?: code| status)|return ?code|exit_code\"?)[ :=]+(-?\d{1,3})\b",
    re.IGNORECASE,
)
_RAISED: Final = re.compile(
    r"\b\w{0,60}(?:Error|Exception)\b\s?:|\b(?:error|fatal|panic|FAILED|Traceback)\b"
)
_LOOKED_AT: Final = 600
"""Characters at each end of an output in which its exit code is looked for."""
_LONGEST_PATH: Final = 1_000
ERROR_SHOWN: Final = 1_200
"""Characters of an error that are carried along whole."""


class Action(Part):
    """One tool call with what came of it."""

    kind: ActionKind
    name: str
    about: str
    """The command, or the path of the file."""
    seq: int
    """The line of its result."""
    turn: int
    ok: bool = True
    exit: int | None = None
    """The exit code of a command, where it is told."""
    error: str = ""
    """What a failed call said."""


def kind_of(name: str) -> ActionKind:
    """What a tool of this name does."""
    bare = name.lower().rpartition(".")[2].rpartition("__")[2].replace("-", "_")
    if bare in _CHANGES:
        return "change"
    if bare in _COMMANDS:
        return "command"
    return "read" if bare in _READS else "other"


def targets_of(call: ToolCall) -> tuple[str, ...]:
    """The command that a call runs, or the files that it names."""
    fields = read_arguments(call.arguments) or {}
    if kind_of(call.name) == "command":
        return tuple(_command(fields))[:1]
    named = [fields[field] for field in _PATH_FIELDS if isinstance(fields.get(field), str)]
    found = named[:1] or _PATCHED.findall("\n".join(_texts(fields)))
    return tuple(one for one in found if one and len(one) < _LONGEST_PATH and "\n" not in one)


def _command(fields: Mapping[str, object]) -> Iterator[str]:
    for field in _COMMAND_FIELDS:
        match fields.get(field):
            case str() as text if text.strip():
                yield text.strip()
            case list() as words:
                said = [str(word) for word in words]
                wrapped = len(said) == 3 and said[1] in ("-c", "-lc")
                yield said[2] if wrapped else " ".join(said)


def _texts(fields: Mapping[str, object]) -> list[str]:
    return [value for value in fields.values() if isinstance(value, str)]


def actions_of(lines: Iterable[Line]) -> tuple[Action, ...]:
    """Every call that has a result, in the order of the results."""
    asked: dict[str, ToolCall] = {}
    found: list[Action] = []
    for line in lines:
        entry = line.entry
        if isinstance(entry, AssistantMessage):
            asked |= {call.id: call for call in entry.calls}
        elif isinstance(entry, ToolReturned) and entry.call in asked:
            found += _done(asked.pop(entry.call), entry, line)
    return tuple(found)


def _done(call: ToolCall, result: ToolReturned, line: Line) -> Iterator[Action]:
    kind = kind_of(call.name)
    code = exit_code(result) if kind == "command" else None
    ok = result.status == "ok" and code in (None, 0)
    for about in targets_of(call):
        yield Action(
            kind=kind,
            name=call.name,
            about=about,
            seq=line.seq,
            turn=line.turn,
            ok=ok,
            exit=code,
            error="" if ok else error_in(result.text),
        )


def exit_code(result: ToolReturned) -> int | None:
    """How a command ended, as its output tells it; None when it does not."""
    text = result.text
    ends = text if len(text) <= 2 * _LOOKED_AT else text[:_LOOKED_AT] + text[-_LOOKED_AT:]
    found = _EXIT.findall(ends)
    return int(found[-1]) if found else None


def error_in(text: str) -> str:
    """What an output says of its failure, whole where it is short: from the first line that
    names an error to the end."""
    said = unfenced(text).strip()
    if len(said) <= ERROR_SHOWN:
        return said
    if (named := _RAISED.search(said)) is not None:
        start = said.rfind("\n", 0, named.start()) + 1
        if len(said) - start <= ERROR_SHOWN:
            return said[start:]
        if named.start() > len(said) - 2 * ERROR_SHOWN:
            return said[start : start + ERROR_SHOWN - 1] + "…"
    return "…" + said[1 - ERROR_SHOWN :]
