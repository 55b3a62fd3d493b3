"""What tools did, whatever name a program gives them: files read and changed, commands run.

A session may come from another program whose editor is called `str_replace` and whose shell is
called `exec_command`. The names stand here, once.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from mindstone_tui.core import bounded_json, entries
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import unfenced

ActionKind = Literal["change", "read", "command", "other", "unsure"]
"""`unsure`: changed by a call that was cut short, or since."""
StepStatus = Literal["planned", "in_progress", "done"]

_CHANGES: Final = frozenset([
    "write", "edit", "multiedit", "multi_edit", "create", "create_file", "write_file",
    "write_to_file", "edit_file", "update_file", "insert", "replace", "replace_in_file",
    "str_replace", "str_replace_editor", "search_replace", "str_replace_based_edit_tool",
    "apply_patch", "patch", "apply_diff", "notebookedit", "delete_file",
])  # fmt: skip
_READS: Final = frozenset(
    ["read", "read_file", "view", "open_file", "cat", "notebookread", "readfile"]
)
_COMMANDS: Final = frozenset([
    "shell", "bash", "sh", "exec", "exec_command", "execute", "execute_command", "run",
    "run_command", "run_shell_command", "local_shell", "shell_command", "run_terminal_cmd",
    "terminal", "powershell", "monitor",
])  # fmt: skip
_PLANS: Final = frozenset(
    ["todowrite", "todo_write", "write_todos", "update_plan", "manage_todo_list", "updateplan"]
)
"""Tools of other programs whose arguments are the whole list of what is to be done."""
_PLAN_FIELDS: Final = ["todos", "plan", "todolist", "todo_list", "items"]
_STEP_FIELDS: Final = ["content", "step", "title", "task", "text", "description"]
_STEP_STATUS: Final[dict[str, StepStatus]] = {
    "completed": "done", "complete": "done", "done": "done",
    "in_progress": "in_progress", "in-progress": "in_progress", "active": "in_progress",
    "pending": "planned", "planned": "planned", "not-started": "planned", "todo": "planned",
}  # fmt: skip
_LONGEST_STEP: Final = 300
_REPLACED: Final = frozenset(["old_string", "oldText", "old_str", "old_text", "oldString"])
"""What an edit takes away; what it puts there says more."""
_SEARCHES: Final = pattern_of(
    r"(?:cd \S+ && )?(?:grep|rg|egrep|ack|diff|cmp|which|pgrep|test|git grep)\b[^;&\n]*\Z"
)
"""Commands that end with 1 when they found nothing, which is an answer and no failure."""
_PATH_FIELDS: Final = [
    "path", "file_path", "filePath", "file", "filename", "target_file", "absolute_path",
    "notebook_path",
]  # fmt: skip
_COMMAND_FIELDS: Final = ["command", "cmd", "script", "commands"]
PATCHED: Final = pattern_of(r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.{1,400})$")
_EXIT: Final = pattern_of(
    r"\b(?:exit(?:ed)?(?: with)?(?: code| status)|return ?code|exit_code\"?)[ :=]+(-?\d{1,3})\b",
    re.IGNORECASE,
)
_RAISED: Final = pattern_of(
    r"\b\w{0,60}(?:Error|Exception)\b\s?:|\b(?:error|fatal|panic|FAILED|Traceback|npm ERR!)\b"
)
_SAYS_IT_FAILED: Final = pattern_of(
    r"^(?:\S{1,200}: )?(?:error(?:\[\w+\])?:|fatal:|npm (?:ERR!|error\b)"
    r"|Traceback \(most|FAILED\b|panic:)|\): error [A-Z]{2}\d|^E {3}\w+Error\b",
    re.MULTILINE,
)
"""An output that says so itself, where a pipe has swallowed the exit code."""
_LOOKED_AT: Final = 600
"""Characters at each end of an output in which its exit code is looked for."""
_LONGEST_PATH: Final = 1_000
ERROR_SHOWN: Final = 1_200
"""Characters of an error that are carried along whole."""


class Action(entries.Part):
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
    if bare.startswith("mcp_"):  # and a server's name, which may have such lines itself
        known = (_CHANGES | _READS | _COMMANDS) & {
            bare[at + 1 :] for at in range(4, len(bare)) if bare[at] == "_"
        }
        bare = max(known, key=len, default=bare)
    if bare in _CHANGES:
        return "change"
    if bare in _COMMANDS:
        return "command"
    return "read" if bare in _READS else "other"


def plan_in(call: entries.ToolCall) -> tuple[tuple[str, StepStatus], ...]:
    """The steps that a call writes down as what is to be done, each with how far it is."""
    if call.name.lower().rpartition(".")[2].rpartition("__")[2].replace("-", "_") not in _PLANS:
        return ()
    fields = bounded_json.read_arguments(call.arguments) or {}
    listed = next((one for name in _PLAN_FIELDS if isinstance(one := fields.get(name), list)), [])
    found: list[tuple[str, StepStatus]] = []
    for step in listed:
        if not isinstance(step, dict):
            continue
        titles = (one for name in _STEP_FIELDS if isinstance(one := step.get(name), str))
        title = " ".join(next(titles, "").split())[:_LONGEST_STEP]
        status = _STEP_STATUS.get(str(step.get("status", "pending")).lower())
        if title and status is not None:
            found.append((title, status))
    return tuple(found)


def told(call: entries.ToolCall) -> str:
    """The arguments of a call without what it replaces, as JSON; a plan by how long it is."""
    if steps := plan_in(call):
        return msgspec.json.encode(f"a plan of {len(steps)} steps").decode()
    fields = bounded_json.read_arguments(call.arguments) if kind_of(call.name) == "change" else None
    if not fields or not fields.keys() & _REPLACED:
        return call.arguments
    kept = {name: value for name, value in fields.items() if name not in _REPLACED}
    return msgspec.json.encode(kept).decode()


def targets_of(call: entries.ToolCall) -> tuple[str, ...]:
    """The command that a call runs, or the files that it names."""
    fields = bounded_json.read_arguments(call.arguments) or {}
    if kind_of(call.name) == "command":
        return tuple(_command(fields))[:1]
    named = [fields[field] for field in _PATH_FIELDS if isinstance(fields.get(field), str)]
    found = named[:1] or PATCHED.findall("\n".join(_texts(fields)))
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


def actions_of(lines: Iterable[entries.Line]) -> tuple[Action, ...]:
    """Every call that has a result, in the order of the results."""
    asked: dict[str, entries.ToolCall] = {}
    found: list[Action] = []
    for line in lines:
        if isinstance(entry := line.entry, AssistantMessage):
            asked |= {call.id: call for call in entry.calls}
        elif isinstance(entry, ToolReturned) and entry.call in asked:
            found += done(asked.pop(entry.call), entry, line)
    return tuple(found)


def done(call: entries.ToolCall, result: ToolReturned, line: entries.Line) -> Iterator[Action]:
    """What a call did, as its result tells it: something for each file that it names."""
    kind = kind_of(call.name)
    code = exit_code(result) if kind == "command" else None
    for about in targets_of(call):
        failed = _has_failed(kind, about, result)
        yield Action(
            kind=kind,
            name=call.name,
            about=about,
            seq=line.seq,
            turn=line.turn,
            ok=not failed and result.status in ("ok", "error"),
            exit=code,
            error=error_in(result.text) if failed else "",
        )


def failure_of(call: entries.ToolCall, result: ToolReturned) -> str:
    """What a call says that failed; empty where nothing did."""
    kind = kind_of(call.name)
    failed = any(_has_failed(kind, about, result) for about in targets_of(call))
    return error_in(result.text) if failed else ""


def _has_failed(kind: ActionKind, about: str, result: ToolReturned) -> bool:
    code = exit_code(result) if kind == "command" else None
    says_so = kind == "command" and bool(_SAYS_IT_FAILED.search(result.text))
    if code == 1 and not says_so and _SEARCHES.match(about):
        return False
    silent = code is None and result.status == "ok"
    return code not in (None, 0) or result.status == "error" or (silent and says_so)


def exit_code(result: ToolReturned) -> int | None:
    """How a command ended, as its output tells it; None when it does not."""
    text = result.text
    ends = text if len(text) <= 2 * _LOOKED_AT else text[:_LOOKED_AT] + text[-_LOOKED_AT:]
    found = _EXIT.findall(ends)
    return int(found[-1]) if found else None


def error_in(text: str) -> str:
    """What an output says of its failure: whole where it is short, else the lines that name it."""
    said = unfenced(text).strip()
    if len(said) <= ERROR_SHOWN:
        return said
    lines = said.splitlines()
    named = [number for number, line in enumerate(lines) if _RAISED.search(line)]
    if not named:
        return "…" + said[1 - ERROR_SHOWN :]
    wanted = sorted({near for at in named for near in range(at, min(at + 3, len(lines)))})
    kept: list[str] = []
    size = 0
    for number in wanted:
        size += len(lines[number]) + 1
        if size > ERROR_SHOWN:
            kept.append("…")
            break
        kept.append(lines[number])
    return "\n".join(kept) if len(kept) > 1 else said[: ERROR_SHOWN - 1] + "…"
