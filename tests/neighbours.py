"""A plug-in for pytest that prints what the programs of others were seen to do, one row a program.

`make neighbours` runs every test that is marked `neighbour(program, what)` and prints the table; a
program that is not on this machine is a row that says why.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import cast

import pytest

from mindstone_tui.core.text import shortened

FETCHED = Path(__file__).parents[1] / ".counterparts"
PROGRAMS = {
    "Claude Code": "@anthropic-ai/claude-code-linux-*",
    "Codex": "codex-program",
    "Gemini CLI": "@google/gemini-cli",
    "opencode": "opencode-linux-*",
    "Qwen Code": "@qwen-code/qwen-code",
    "llm": "llm",
    "aider": "aider-chat",
    "openai": "",
    "anthropic": "",
    "acpx": "acpx",
    "ACP TypeScript SDK": "@agentclientprotocol/sdk",
    "MCP inspector": "@modelcontextprotocol/inspector",
    "pi": "@mariozechner/pi-coding-agent",
    "Copilot CLI": "@github/copilot",
}
"""What each is fetched as; nothing for a library that is installed with the tests."""


def version_of(program: str) -> str:
    """Which one is here; empty if none is."""
    package = PROGRAMS[program]
    if not package:
        return metadata.version(program)
    for found in FETCHED.glob(f"node_modules/{package}/package.json"):
        return str(json.loads(found.read_text())["version"]).partition("-linux")[0]
    for found in FETCHED.glob(f"{package}/lib/python3*/site-packages"):
        for one in metadata.distributions(name=package, path=[str(found)]):
            return one.version
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Send what a test is about along with its report, which may come from another process."""
    item.user_properties += [("neighbour", mark.args) for mark in item.iter_markers("neighbour")]


class Table:
    """What was seen, in the order in which it came."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.why: dict[str, str] = {}
        self.shown: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one test, when it is over."""
        if report.when != "call" and report.outcome == "passed":
            return
        for name, told in report.user_properties:
            if name == "neighbour":
                program, what = map(str, cast("tuple[str, str]", told))
                self.seen[program, what][report.outcome] += 1
                if isinstance(report.longrepr, tuple):
                    self.why[program] = report.longrepr[2].removeprefix("Skipped: ")
            else:
                self.shown.append((name, str(told)))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The table, its head first."""
        kinds = list(dict.fromkeys(what for _, what in self.seen))
        yield "program", "version", *kinds, ""
        for program in PROGRAMS:
            counts = [self.seen.get((program, what), Counter()) for what in kinds]
            said = "" if any(counts) else "nothing was run"
            why = self.why.get(program, said)
            yield program, version_of(program) or "none", *map(_cell, counts), why

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print it, and below it what each client made of each fault."""
        rows = list(self.rows())
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        terminalreporter.section("neighbours")
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            terminalreporter.write_line("  ".join(cells).rstrip())
        for name, told in sorted(self.shown):
            terminalreporter.write_line(f"{name}: {shortened(told, 150)}")


def _cell(counts: Counter[str]) -> str:
    if not counts:
        return "-"
    told = {"passed": "passed", "failed": "FAILED", "skipped": "not to be had"}
    return ", ".join(f"{counts[each]} {word}" for each, word in told.items() if counts[each])


def pytest_configure(config: pytest.Config) -> None:
    """Begin an empty table."""
    config.pluginmanager.register(Table())
