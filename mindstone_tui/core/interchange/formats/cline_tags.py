"""The tags that Cline and its kin write into texts, as calls, results and words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from mindstone_tui.core.bounded_json import read_arguments
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.interchange.formats.parts import cut_tags
from mindstone_tui.core.interchange.read_bytes import as_json, sequence, text
from mindstone_tui.core.patterns import pattern_of

_NAMES: Final = frozenset(
    [
        "access_mcp_resource",
        "apply_diff",
        "ask_followup_question",
        "attempt_completion",
        "browser_action",
        "codebase_search",
        "condense",
        "delete_file",
        "edit_file",
        "execute_command",
        "fetch_instructions",
        "generate_explanation",
        "insert_content",
        "list_code_definition_names",
        "list_files",
        "load_mcp_documentation",
        "new_rule",
        "new_task",
        "plan_mode_respond",
        "read_file",
        "replace_in_file",
        "report_bug",
        "run_slash_command",
        "search_and_replace",
        "search_files",
        "switch_mode",
        "update_todo_list",
        "use_mcp_tool",
        "use_skill",
        "web_fetch",
        "write_to_file",
    ]
)
CLINE_TOOLS: Final = {
    "appliedDiff": "apply_diff",
    "editedExistingFile": "replace_in_file",
    "listCodeDefinitionNames": "list_code_definition_names",
    "listFilesRecursive": "list_files",
    "listFilesTopLevel": "list_files",
    "newFileCreated": "write_to_file",
    "readFile": "read_file",
    "searchFiles": "search_files",
}
"""Tools as the shown messages name them, by the names that the model uses."""
_SPEAKING: Final = {
    "attempt_completion": "result",
    "ask_followup_question": "question",
    "plan_mode_respond": "response",
    "plan_mode_response": "response",
}
"""Calls that only say something to the person, and where they say it."""
_OPENING: Final = pattern_of(r"<([a-z_]{3,40})>")
_RESULT: Final = pattern_of(r"\[([a-z_]+)(?:[^\]\n]{0,2000}(?:\][^\]\n]{0,200}){0,9})?\] Result:")
_WORDS: Final = ("task", "feedback", "user_message", "answer", "user_feedback")
_NOTES: Final = (
    "<environment_details>",
    "<explicit_instructions",
    "# task_progress ",
    "# TODO LIST ",
    "[TASK RESUMPTION]",
    "[ERROR] ",
    "[NOTE] ",
    "(The user did not provide a new message",
)


class UserText(NamedTuple):
    """The texts of one message to the model, told apart."""

    words: list[str]
    """What the person said."""
    results: list[str]
    """What tools gave."""
    left_out: int
    """How many notes of the program."""


def calls_in(said: str) -> tuple[str, list[tuple[str, dict[str, str]]]]:
    """The words of an answer without the calls that stand in it, and the calls."""
    words, found = cut_tags(said, _NAMES)
    return words, [(name, _parameters(inside)) for name, inside in found]


def _parameters(inside: str) -> dict[str, str]:
    """`<name>value</name>` one after the other; a value may hold tags of its own."""
    found: dict[str, str] = {}
    at = 0
    while (opening := _OPENING.search(inside, at)) is not None:
        name = opening[1]
        closing = f"</{name}>"
        whole = name in ("content", "diff", "arguments", "args", "result")
        end = inside.rfind(closing) if whole else inside.find(closing, opening.end())
        if end < opening.end():
            break
        found[name] = inside[opening.end() : end].strip("\n")
        at = end + len(closing)
    return found


def spoken(call: ToolCall) -> str | None:
    """What a call says to the person; None where it does something."""
    if call.name not in _SPEAKING:
        return None
    arguments = read_arguments(call.arguments) or {}
    words = text(arguments.get(_SPEAKING[call.name]))
    options = arguments.get("options") or arguments.get("follow_up")
    listed = "\n".join(f"- {text(each) or as_json(each)}" for each in sequence(options))
    return "\n\n".join(filter(None, (words, listed or text(options))))


def sort_user_text(texts: Iterable[str], *, is_result: bool = False) -> UserText:
    """Which texts the person wrote, which are results, and which the program added."""
    words: list[str] = []
    results: list[str] = []
    left_out = 0
    for each in texts:
        body = each.strip()
        if body.startswith(_NOTES):
            left_out += 1
            continue
        heading = _RESULT.match(body)
        rest, said = cut_tags(body[heading.end() :] if heading else body, _WORDS)
        rest = rest.strip()
        words += [inside.strip() for _, inside in said]
        if heading:
            results.append(rest)
            is_result = True
        elif said:
            left_out += bool(rest) and not is_result
            if is_result and rest:
                _append(results, rest)
        elif is_result:
            _append(results, rest)
        elif rest:
            words.append(rest)
    return UserText(words, results, left_out)


def _append(results: list[str], more: str) -> None:
    if results:
        results[-1] = "\n\n".join(filter(None, (results[-1], more)))
    else:
        results.append(more)


def has_failed(result: str) -> bool:
    """Whether a result is the program's word for a failure."""
    return result.startswith(("The tool execution failed", "Error executing", "<error>"))
