"""Tools take their arguments by the names that models know, and say which they took for which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.tools.approvals import prepare
from mindstone_tui.core.tools.base import Tool, ToolContext, subject_of
from mindstone_tui.core.tools.files import FILE_TOOLS, FOLDER_TOOLS, GREP
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.workspace import Workspace

READ, WRITE, EDIT = FILE_TOOLS
LIST, GLOB = FOLDER_TOOLS


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return ToolContext(workspace=Workspace((tmp_path,)), call="c1")


def test_the_schemas_use_the_names_that_models_know() -> None:
    required = {tool.name: tool.parameters["required"] for tool in (*FILE_TOOLS, SHELL, GREP, GLOB)}
    assert required == {
        "read": ["path"],
        "write": ["path", "content"],
        "edit": ["path", "old_string", "new_string"],
        "shell": ["command"],
        "grep": ["pattern"],
        "glob": ["pattern"],
    }


@pytest.mark.parametrize(
    ("tool", "known", "other"),
    [
        (WRITE, {"path": "b", "content": "x"}, {"path": "b", "text": "x"}),
        (WRITE, {"path": "b", "content": "x"}, {"file_path": "b", "file_text": "x"}),
        (WRITE, {"path": "b", "content": "x"}, {"filename": "b", "contents": "x"}),
        (
            EDIT,
            {"path": "a.txt", "old_string": "two", "new_string": "2"},
            {"path": "a.txt", "old": "two", "new": "2"},
        ),
        (
            EDIT,
            {"path": "a.txt", "old_string": "two", "new_string": "2"},
            {"file": "a.txt", "old_str": "two", "new_str": "2"},
        ),
        (SHELL, {"command": "ls"}, {"cmd": "ls", "description": "List the files"}),
        (SHELL, {"command": "ls", "seconds": 5}, {"command": "ls", "timeout": 5}),
        (GREP, {"pattern": "x", "path": "."}, {"query": "x", "directory": "."}),
        (GLOB, {"pattern": "*.py"}, {"query": "*.py"}),
        (
            READ,
            {"path": "a.txt", "first": 2, "lines": 1},
            {"file_path": "a.txt", "offset": 2, "limit": 1},
        ),
        (LIST, {"path": "."}, {"dir": "."}),
    ],
)
def test_other_names_are_understood_and_what_runs_is_the_same(
    tool: Tool, known: dict[str, object], other: dict[str, object], context: ToolContext
) -> None:
    plain = prepare(tool, "c1", json.dumps(known), context)
    meant = prepare(tool, "c1", json.dumps(other), context)
    assert json.loads(meant.arguments) == json.loads(plain.arguments)
    assert meant.preview == plain.preview
    assert plain.understood == ()
    assert all(name in " ".join(meant.understood) for name in other.keys() - known.keys())


def test_a_name_of_the_schema_wins_and_a_second_one_is_not_guessed_away(
    context: ToolContext,
) -> None:
    both = json.dumps({"path": "b", "content": "x", "text": "y"})
    with pytest.raises(ToolError, match="text"):
        prepare(WRITE, "c1", both, context)


def test_an_error_lists_what_is_expected(context: ToolContext) -> None:
    with pytest.raises(ToolError) as told:
        prepare(EDIT, "c1", '{"path": "a.txt", "before": "x"}', context)
    assert "needed: path, old_string, new_string" in told.value.sentence
    with pytest.raises(ToolError) as told:
        prepare(GREP, "c1", "{}", context)
    assert (
        "needed: pattern; may be left out: path, glob, ignore_case, context" in told.value.sentence
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"path": "src/a.py", "old": "x"}', "edit src/a.py"),
        ('{"file_path": "src/a.py"}', "edit src/a.py"),
        ('{"path": 5}', "edit"),
        ("{", "edit"),
        ('{"path": "a\\u202eb"}', "edit a⟦U+202E⟧b"),
    ],
)
def test_a_call_that_fails_still_says_what_it_was_for(arguments: str, expected: str) -> None:
    assert subject_of(EDIT, arguments) == expected
