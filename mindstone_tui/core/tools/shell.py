"""The shell: one command, run as it was shown, bounded and ended with all it started."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.foreign import exact, for_terminal, one_line
from mindstone_tui.core.tools.process import Bounds, Ending, Finished, clean_environment, run
from mindstone_tui.core.tools.sandbox import unconfined
from mindstone_tui.core.tools.tool import (
    Preview,
    Tool,
    ToolContext,
    ToolResult,
    bounded,
    declare,
    decoded,
    finding,
    how_to_read_on,
)

_STATUS: Final[dict[Ending, ToolStatus]] = {
    "exited": "ok",
    "flooded": "error",
    "timeout": "timeout",
    "interrupted": "interrupted",
}


class ShellArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command line."""

    command: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000, description="For bash.")]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=3_600, description="Time limit.")] = 120.0


async def _shell(arguments: ShellArguments, context: ToolContext) -> ToolResult:
    cwd = context.workspace.cwd
    command = ("bash", "--noprofile", "--norc", "-c", arguments.command)
    confined = (
        context.sandbox.confine(command, context.workspace, cwd=cwd, network=context.network)
        if context.sandbox
        else unconfined(command)
    )
    limits = context.limits
    finished = await run(
        confined,
        cwd=cwd,
        environ=clean_environment(context.environ, context.passed),
        bounds=Bounds(
            seconds=min(arguments.seconds, limits.seconds),
            kept=limits.kept,
            tail=limits.shown // 2,
            output=limits.output,
        ),
        stop=context.stop,
        progress=context.progress,
    )
    return _told(finished, context)


def _told(finished: Finished, context: ToolContext) -> ToolResult:
    """The output with what the model must know about its end."""
    text, full = _joined(finished, context)
    how = {
        "exited": f"exit code {finished.code}",
        "timeout": "stopped: its time was up",
        "flooded": f"stopped: it printed more than {context.limits.output:,} bytes",
        "interrupted": "stopped: interrupted",
    }[finished.ending]
    failed = finished.ending == "exited" and finished.code != 0
    last = text.rstrip().rpartition("\n")[2]
    return ToolResult(
        text=f"{text.rstrip()}\n[{how}]".lstrip("\n"),
        status="error" if failed else _STATUS[finished.ending],
        full=full,
        finding=finding(f"{how}, {finished.size:,} bytes; last: {one_line(last, 60)}"),
        elapsed=finished.elapsed,
        origin="shell",
    )


def _joined(finished: Finished, context: ToolContext) -> tuple[str, bytes | None]:
    """Head and tail of the output, from the two ends that were kept."""
    if finished.size <= len(finished.kept):
        return bounded(for_terminal(decoded(finished.kept)), context)
    half = context.limits.shown // 2
    head, tail = for_terminal(decoded(finished.kept[:half])), for_terminal(decoded(finished.tail))
    left_out = finished.size - half - len(finished.tail)
    note = f"[… {left_out:,} of {finished.size:,} bytes left out; {how_to_read_on(context)} …]"
    return f"{head}\n{note}\n{tail}", finished.kept


SHELL: Final[Tool] = declare(
    "shell",
    "Run a command in bash, in the workspace, without a terminal and without input.",
    "run",
    ShellArguments,
    _shell,
    lambda arguments, _: Preview(
        title=f"run {one_line(arguments.command, 80)}",
        body=exact(arguments.command),
        command=arguments.command,
    ),
)
