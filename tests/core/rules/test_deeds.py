"""Deeds: what calls of other programs' tools would do, whatever these are called."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned
from mindstone_tui.core.rules.checks import verdict_of
from mindstone_tui.core.rules.deeds import done_in, of_call, of_command
from mindstone_tui.core.rules.grammar import compile_rule
from tests.builders import line_of

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


@pytest.mark.parametrize(
    ("command", "output", "counts"),
    [
        ("pytest -q", "3 passed\n[exit code 0]", True),
        ("pytest -q", "1 failed\n[exit code 1]", False),
        ("cd sub && FLAG=1 pytest -q 2>&1 && echo done", "done\n[exit code 0]", True),
        ("pytest -q 2>&1 | tail -3", "3 passed in 0.1s\n[exit code 0]", True),
        ("pytest -q 2>&1 | tail -3", "1 failed, 2 passed in 0.1s\n[exit code 0]", False),
        ("pytest -q | grep -c '|'", "[exit code 0]", False),
        ("pytest -q; true", "1 failed\n[exit code 0]", False),
        ("pytest > /dev/null 2>&1 || echo go on", "go on\n[exit code 0]", False),
        ("pytest &", "[exit code 0]", False),
        ("cd sub\npytest -q", "2 passed\n[exit code 0]", True),
        ("pytest --version", "pytest 8.4\n[exit code 0]", False),
        ("pytest --collect-only && true", "[exit code 0]", False),
    ],
)
def test_tests_count_as_passed_only_where_their_end_is_known(
    tmp_path: Path, command: str, output: str, counts: bool
) -> None:
    check = compile_rule("Always run pytest before committing")
    assert check is not None

    def verdict(*commands: tuple[str, str]) -> str:
        calls = [ToolCall(id=str(at), name="shell", arguments=json.dumps({"command": one}))
                 for at, (one, _) in enumerate(commands)]  # fmt: skip
        told = [ToolReturned(call=str(at), name="shell", status="ok", text=text)
                for at, (_, text) in enumerate(commands)]  # fmt: skip
        lines = [line_of(AssistantMessage(text="", calls=tuple(calls))), *map(line_of, told)]
        deed = of_command("git commit -m x", tmp_path)
        return verdict_of(
            check, msgspec.structs.replace(deed, done=lambda: done_in(lines, tmp_path))
        )

    ran = (command, output)
    assert (verdict(ran) == "allow") == counts
    assert verdict(ran, ("git add -A", "[exit code 0]")) == verdict(ran)
    assert verdict(ran, ("echo x >> a.py", "[exit code 0]")) == "deny", "changed since"


@pytest.mark.thorough
@pytest.mark.parametrize("word", ["word ", "sudo ", "find . -exec "])
def test_a_command_of_thousands_of_words_takes_little_memory(tmp_path: Path, word: str) -> None:
    tracemalloc.start()
    deed = of_command(word * 3_000 + "rm -rf /", tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert deed.commands
    assert peak < 80_000_000  # what others may run of it was kept anew from every word on


def test_what_is_cut_off_a_command_of_thousands_of_words_is_asked_about(tmp_path: Path) -> None:
    check = compile_rule("Never force push")
    assert check is not None
    padding = " ".join(f"-o{at}" for at in range(6_000))
    assert verdict_of(check, of_command(f"git push {padding} --force", tmp_path)) == "ask"
    assert verdict_of(check, of_command(f"wrap git push {padding[:2_000]} -f", tmp_path)) == "ask"
    assert verdict_of(check, of_command(f"ls {padding}", tmp_path)) == "allow"
