"""Search in files: ripgrep where there is one, else a slower search in a child that can be killed.

A pattern comes from the model, so it never runs inside this process: one regular expression can
take longer than the universe, and Python cannot stop it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec

from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.text import exact
from mindstone_tui.core.tools.base import (
    Preview,
    Tool,
    ToolContext,
    ToolResult,
    bounded,
    declare,
    decoded,
    finding,
)
from mindstone_tui.core.tools.files import Path_
from mindstone_tui.core.tools.sandbox import unconfined
from mindstone_tui.core.tools.shell import Bounds, CommandFinished, clean_environment, run

_PLAIN_SEARCH: Final = Path(__file__).with_name("plain_search.py")
_SECONDS: Final = 20.0


class GrepArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for, and where."""

    pattern: Annotated[
        str, msgspec.Meta(min_length=1, max_length=2_000, description="A regular expression.")
    ]
    path: Path_ = "."
    glob: Annotated[str, msgspec.Meta(description="Only in files like this, such as *.py")] = ""
    ignore_case: bool = False
    context: Annotated[int, msgspec.Meta(ge=0, le=10, description="Lines around each hit.")] = 0


async def _grep(arguments: GrepArguments, context: ToolContext) -> ToolResult:
    place = context.workspace.locate(arguments.path)
    with context.workspace.reading(arguments.path):  # refuses what may not be read
        finished = await run(
            unconfined(_command(arguments, place.path, context)),
            cwd=place.path if place.path.is_dir() else place.path.parent,
            environ=clean_environment(context.environ),
            bounds=Bounds(
                seconds=min(_SECONDS, context.limits.seconds),
                kept=context.limits.kept,
                tail=context.limits.shown,
                output=context.limits.kept,
            ),
            stop=context.stop,
        )
    return _told(arguments, finished, context, str(place.path))


def _command(arguments: GrepArguments, path: Path, context: ToolContext) -> tuple[str, ...]:
    target = "." if path.is_dir() else path.name
    ripgrep = shutil.which("rg", path=context.environ.get("PATH"))
    if ripgrep is None:
        asked = {
            **msgspec.to_builtins(arguments),
            "target": target,
            "left_out": _ours(path, context),
        }
        return (sys.executable, "-I", "-S", str(_PLAIN_SEARCH), json.dumps(asked))
    return (
        ripgrep,
        *("--no-config", "--line-number", "--with-filename", "--no-heading", "--color=never"),
        *("--max-columns=400", "--max-columns-preview", "--sort=path", "--max-filesize=16M"),
        *("--context", str(arguments.context)),
        *(("--ignore-case",) if arguments.ignore_case else ()),
        *(("--glob", arguments.glob) if arguments.glob else ()),
        *(word for ours in _ours(path, context) for word in ("--glob", f"!/{_literal(ours)}")),
        *("--regexp", arguments.pattern, "--", target),
    )


def _ours(path: Path, context: ToolContext) -> list[str]:
    """MindStone's own folders below a path, which are nobody's to search."""
    protected = context.workspace.protected
    return [str(ours.relative_to(path)) for ours in protected if path in ours.parents]


def _literal(path: str) -> str:
    return re.sub(r"([*?\[\]{}!\\])", r"[\1]", path)


def _told(
    arguments: GrepArguments, finished: CommandFinished, context: ToolContext, where: str
) -> ToolResult:
    pattern = exact(arguments.pattern)
    output = decoded(finished.kept)
    if finished.ending == "exited" and finished.code not in (0, 1):
        raise ToolError(f"The search failed: {output.strip()[:500]}", "Correct the pattern.")
    if finished.ending == "exited" and finished.code == 1:
        text = f"Nothing matches {pattern}."
        return ToolResult(text=text, finding=finding(text), elapsed=finished.elapsed)
    hits = sum(1 for line in output.split("\n") if line)
    text, full = bounded(output, context, size=finished.size)
    why = {"timeout": "time ran out", "flooded": "too many hits", "interrupted": "interrupted"}
    note = f"\n[… stopped: {why[finished.ending]}]" if finished.ending in why else ""
    status = finished.ending if finished.ending in ("timeout", "interrupted") else "ok"
    return ToolResult(
        text=text + note,
        status=status,
        full=full,
        finding=finding(f"{pattern}: {hits:,} lines{' and more' if note else ''}"),
        elapsed=finished.elapsed,
        origin=f"search in {where}",
    )


GREP: Final[Tool] = declare(
    "grep",
    "Search file contents with a regular expression.",
    "read",
    GrepArguments,
    _grep,
    lambda arguments, context: Preview(
        title=f"grep {exact(arguments.pattern)} in {exact(context.workspace.shown(arguments.path))}"
    ),
)
