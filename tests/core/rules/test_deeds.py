"""Deeds: what calls of other programs' tools would do, whatever these are called."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.rules.checks import verdict_of
from mindstone_tui.core.rules.deeds import of_call, of_command
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


@pytest.mark.parametrize("word", ["word ", "sudo ", "find . -exec "])
def test_a_command_of_thousands_of_words_takes_little_memory(tmp_path: Path, word: str) -> None:
    tracemalloc.start()
    deed = of_command(word * 3_000 + "rm -rf /", tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert deed.commands
    assert peak < 80_000_000  # what others may run of it was kept anew from every word on
