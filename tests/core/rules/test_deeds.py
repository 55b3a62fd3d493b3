"""Deeds: what calls of other programs' tools would do, whatever these are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.rules.checks import verdict_of
from mindstone_tui.core.rules.deeds import of_call
from mindstone_tui.core.rules.grammar import compile_rule

PATCH = (
    "*** Begin Patch\n*** Update File: a.c\n*** Move to: vendor/a.c\n+console.log(1)\n*** End Patch"
)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("apply_patch", {"command": PATCH}),
        ("Bash", {"command": f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"}),
        ("mcp__my_files__write_file", {"path": "vendor/a.c", "content": "console.log(1)"}),
        ("mcp_my_files_write_file", {"path": "vendor/a.c", "content": "console.log(1)"}),
    ],
)
def test_a_change_is_seen_by_whatever_tool_it_is_made(
    tmp_path: Path, tool: str, arguments: dict[str, str]
) -> None:
    deed = of_call(ToolCall(id="", name=tool, arguments=json.dumps(arguments)), tmp_path)
    for rule in ("Never edit files under vendor/", "Never add console.log"):
        check = compile_rule(rule)
        assert check is not None
        assert verdict_of(check, deed) == "deny"
