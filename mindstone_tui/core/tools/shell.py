"""Runs a command with bounded output, bounded time and a certain end.

Output is kept as head and tail while it streams, so an endless command costs no more memory than a
short one. The command has no terminal, no input and only the environment it was given. When its
time is up, when it says too much or when the person interrupts, its whole tree is gone within two
seconds.
"""

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from mindstone_tui.core import paths, signals, values
from mindstone_tui.core.config.settings import ToolSettings
from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.text import exact, for_terminal, one_line
from mindstone_tui.core.tools import base, control_files
from mindstone_tui.core.tools.process_tree import (
    ProcessTree,
    deals_with_processes,
    in_own_namespace,
)
from mindstone_tui.core.tools.sandbox import Confined, unconfined, why_refused
from mindstone_tui.core.tools.verdicts import judge

Ending = Literal["exited", "timeout", "flooded", "interrupted"]

_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_GRACE: Final = 1.5
_MOST_ERRORS: Final = 1 << 16
_LAST_WORDS: Final = 0.2
"""Seconds for output that is on its way when the supervisor is gone."""
_KEPT_VARIABLES: Final = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "VIRTUAL_ENV"}
)
_SET_VARIABLES: Final = values.shipped(__file__, "quiet_variables.json", dict[str, str])
"""Tells programs that nobody looks at a terminal."""


class CommandFinished(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended and what it printed."""

    ending: Ending
    code: int
    kept: bytes
    """The first bytes of the output, as many as are kept."""
    tail: bytes
    """The last bytes of the output."""
    size: int
    elapsed: float
    errors: bytes = b""
    """What it said on standard error, where that was asked for apart."""
    taken_off: tuple[str, ...] = ()
    """Files that it left with rights to lend, which they have no more; by path."""
    taken_back: tuple[str, ...] = ()
    """What it wrote that other programs obey, which is as it was."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may take."""

    seconds: float
    kept: int
    tail: int
    output: int


def clean_environment(environ: Mapping[str, str], passed: tuple[str, ...] = ()) -> dict[str, str]:
    """Only the variables a command needs; keys and tokens of ours are not among them."""
    return {
        **{
            name: value
            for name, value in environ.items()
            if name in _KEPT_VARIABLES or name.startswith("LC_") or name in passed
        },
        **_SET_VARIABLES,
    }


class _Output:
    """What a command prints: the start, the end, and how much there was."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.kept = bytearray()
        self.tail = bytearray()
        self.size = 0
        self.errors = bytearray()

    def add(self, chunk: bytes) -> bool:
        """Take a chunk; False when it is more than the command may say."""
        self.size += len(chunk)
        if (room := self._bounds.kept - len(self.kept)) > 0:
            self.kept += chunk[:room]
        self.tail += chunk
        if len(self.tail) > 2 * self._bounds.tail:
            del self.tail[: -self._bounds.tail]
        return self.size <= self._bounds.output


async def run(
    confined: Confined,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    bounds: Bounds,
    stop: asyncio.Event | None = None,
    progress: Callable[[bytes], None] | None = None,
    given: bytes | None = None,
    watched: tuple[Path, ...] = (),
) -> CommandFinished:
    """Run a command to one of its four endings; a cancelled call leaves no process behind.

    With something `given` on its standard input, its standard error is kept apart. In folders that
    are `watched`, nothing stays that it writes and other programs obey.
    """
    before = await asyncio.to_thread(control_files.ControlFiles, watched)
    started = time.monotonic()
    output = _Output(bounds)
    tree = ProcessTree()
    since = time.time_ns()
    with confined.prepared():
        try:
            process = await _start(confined, cwd, environ, tree, piped=given is not None)
            beside = asyncio.ensure_future(_talk(process, given or b"", output))
            try:
                ending = await _follow(process, output, bounds, stop, progress)
                if ending == "exited":
                    await asyncio.wait({beside}, timeout=_LAST_WORDS)
            finally:
                beside.cancel()
                code = await asyncio.shield(_end(process, tree))
        finally:
            tree.end()
            taken_off = await asyncio.shield(asyncio.to_thread(take_off, confined.roots, since))
            taken_back = await asyncio.shield(asyncio.to_thread(before.take_back))
    return CommandFinished(
        ending=ending,
        code=code,
        kept=bytes(output.kept),
        tail=bytes(output.tail[-bounds.tail :]),
        size=output.size,
        elapsed=time.monotonic() - started,
        errors=bytes(output.errors),
        taken_off=taken_off,
        taken_back=taken_back,
    )


async def _talk(process: asyncio.subprocess.Process, given: bytes, output: _Output) -> None:
    """Hand over what is given and take what is said on standard error, as much as is kept."""
    if process.stdin is None or process.stderr is None:
        return
    writing = asyncio.ensure_future(_hand_over(process.stdin, given))
    try:
        while chunk := await process.stderr.read(1 << 16):
            output.errors += chunk[: max(_MOST_ERRORS - len(output.errors), 0)]
    finally:
        writing.cancel()


async def _hand_over(pipe: asyncio.StreamWriter, given: bytes) -> None:
    with contextlib.suppress(OSError):  # it need not read what it is given
        pipe.write(given)
        await pipe.drain()
        pipe.close()


def supervised(confined: Confined, tree: ProcessTree | None = None) -> tuple[str, ...]:
    """The command under a supervisor, which takes the whole tree with it when it goes."""
    kept = {"landlock": confined.landlock, "filter": confined.filter_at, "local": confined.local}
    hold = json.dumps({"group": str(tree.group) if tree and tree.group else None, **kept})
    return (sys.executable, "-I", "-S", str(_SUPERVISOR), hold, *confined.command)


async def _start(
    confined: Confined, cwd: Path, environ: Mapping[str, str], tree: ProcessTree, *, piped: bool
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *supervised(confined, tree),
            stdin=asyncio.subprocess.PIPE if piped else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if piped else asyncio.subprocess.STDOUT,
            cwd=cwd,
            env={**environ, **confined.environ, **tree.environ},
            start_new_session=True,
            limit=1 << 18,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"The command cannot be started: {error}.", "Shorten or fix it.") from None


async def _follow(
    process: asyncio.subprocess.Process,
    output: _Output,
    bounds: Bounds,
    stop: asyncio.Event | None,
    progress: Callable[[bytes], None] | None,
) -> Ending:
    """Take output until the command ends or must be ended."""
    reading = asyncio.ensure_future(_drain(process, output, progress))
    stopped = asyncio.ensure_future(stop.wait()) if stop else None
    gone = asyncio.ensure_future(_supervisor_gone(process))
    tasks: set[asyncio.Future[Any]] = {reading, gone} | ({stopped} if stopped else set())
    try:
        done, _ = await asyncio.wait(
            tasks, timeout=bounds.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if done == {gone}:  # killed before its time: whoever did that may hold the output open
            done, _ = await asyncio.wait({reading}, timeout=_LAST_WORDS)
            return "flooded" if done and not await reading else "exited"
        if reading in done:
            return "exited" if await reading else "flooded"
        return "interrupted" if done else "timeout"
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _supervisor_gone(process: asyncio.subprocess.Process) -> bool:
    """Wait for the supervisor itself, whatever becomes of its output."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # no such call here, or it has ended already
        await process.wait()
        return True
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        return await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def _drain(
    process: asyncio.subprocess.Process, output: _Output, progress: Callable[[bytes], None] | None
) -> bool:
    """Read to the end and see it exit; False when the command said more than it may."""
    assert process.stdout is not None
    while chunk := await process.stdout.read(1 << 16):
        if not output.add(chunk):
            return False
        if progress:
            progress(chunk)
    await process.wait()
    return True


async def _end(process: asyncio.subprocess.Process, tree: ProcessTree) -> int:
    """See the supervisor out; it takes the whole tree with it, or the tree is ended without it."""
    if (process.returncode or 0) < 0:
        await asyncio.to_thread(tree.end)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_GRACE):
            while await process.stdout.read(1 << 16):
                pass
            return await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(tree.end)
        signals.let_go(process)
        return await process.wait()


_STATUS: Final[dict[Ending, ToolStatus]] = {
    "exited": "ok",
    "flooded": "error",
    "timeout": "timeout",
    "interrupted": "interrupted",
}


class ShellArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command line."""

    command: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000, description="For bash.")]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=3_600, description="Time limit.")] = (
        ToolSettings().shell_timeout
    )


def in_bash(command: str, context: base.ToolContext) -> Confined:
    """A command as bash is started with it, confined where the context says so."""
    workspace, line = context.workspace, ("bash", "--noprofile", "--norc", "-c", command)
    if context.sandbox is None:
        bash = paths.program("bash", context.environ.get("PATH"), *workspace.roots)
        return unconfined((bash or "/bin/bash", *line[1:]))
    return context.sandbox.confine(line, workspace, cwd=workspace.cwd, network=context.network)


async def _shell(arguments: ShellArguments, context: base.ToolContext) -> base.ToolResult:
    cwd = context.workspace.cwd
    confined = in_bash(arguments.command, context)
    free = context.sandbox is None
    if free and not deals_with_processes(judge(arguments.command, context.workspace)):
        path, roots = context.environ.get("PATH"), context.workspace.roots
        line = await asyncio.to_thread(in_own_namespace, confined.command, path, roots)
        confined = unconfined(line)
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
        watched=context.workspace.roots if context.unseen else (),
    )
    return _told(finished, context)


def _told(finished: CommandFinished, context: base.ToolContext) -> base.ToolResult:
    """The output with what the model must know about its end."""
    text, full = _joined(finished, context)
    how = {
        "exited": f"exit code {finished.code}",
        "timeout": "stopped: its time was up",
        "flooded": f"stopped: it printed more than {context.limits.output:,} bytes",
        "interrupted": "stopped: interrupted",
    }[finished.ending]
    failed = finished.ending == "exited" and finished.code != 0
    last = one_line(text.rstrip().rpartition("\n")[2], 60)
    words = f"; last: {last}" if last else ""
    confined = why_refused(text) if failed and context.sandbox else ""
    refused = f"\n[{confined}]" if confined else ""
    notes = f"{refused}{told_of(finished)}"
    return base.ToolResult(
        text=f"{text.rstrip()}\n[{how}]{notes}".lstrip("\n"),
        status="error" if failed else _STATUS[finished.ending],
        full=full,
        finding=base.finding(f"{how}, {finished.size:,} bytes{words}"),
        elapsed=finished.elapsed,
        origin="shell",
    )


def told_of(finished: CommandFinished) -> str:
    """Lines on what a command wrote and did not keep; nothing where it kept it all."""
    lines = ""
    if finished.taken_back:
        lines += (
            f"\n[taken back: {named(finished.taken_back)}. Other programs obey what is written"
            " there, so it is never written unasked: propose it with write or edit.]"
        )
    if finished.taken_off:
        lines += (
            f"\n[taken off: setuid, setgid or capabilities of {named(finished.taken_off)}. A"
            " confined command leaves none, and no device: what was one is gone.]"
        )
    if finished.code < 0:
        lines += "\n[its supervisor was killed: what the command started may still run.]"
    return lines


def named(paths: tuple[str, ...]) -> str:
    """Some paths for a line of ours: the first twenty, unusual characters named."""
    more = f" and {len(paths) - 20} more" if paths[20:] else ""
    return exact(", ".join(paths[:20])) + more


def _joined(finished: CommandFinished, context: base.ToolContext) -> tuple[str, bytes | None]:
    """Head and tail of the output, from the two ends that were kept."""
    if finished.size <= len(finished.kept):
        return base.bounded(for_terminal(base.decoded(finished.kept)), context)
    half = context.limits.shown // 2
    head, tail = (
        for_terminal(base.decoded(finished.kept[:half])),
        for_terminal(base.decoded(finished.tail)),
    )
    left_out = finished.size - half - len(finished.tail)
    note = f"[… {left_out:,} of {finished.size:,} bytes left out; {base.how_to_read_on(context)} …]"
    return f"{head}\n{note}\n{tail}", finished.kept


def preview(verb: str, command: str, context: base.ToolContext, caution: str = "") -> base.Preview:
    """A command as whoever is asked sees it, each part with what it would do."""
    parts = judge(command, context.workspace)
    return base.Preview(
        title=f"{verb} {one_line(' ⏎ '.join(exact(command).splitlines()), 80)}",
        body=exact(command),
        standing="sensitive" if any(part.steers for part in parts) else "open",
        command=command,
        parts=parts,
        caution=caution,
        git_runs=control_files.programs_set([part.words for part in parts], context.workspace.cwd),
    )


SHELL: Final[base.Tool] = base.declare(
    "shell",
    "Run a command in bash, in the workspace, without a terminal and without input.",
    "run",
    ShellArguments,
    _shell,
    lambda arguments, context: preview("run", arguments.command, context),
)


# -- what lends rights to whoever uses it, taken off when a confined command ends -----------------
#
# A setuid or setgid program, a file with capabilities and a device node outlive the command that
# made them. `seccomp.py` refuses the calls; this looks at what is there afterwards, which also
# holds where no filter could be had. Folders are left alone: a setgid one lends nothing, it only
# hands its group down, and people who share files want that.

_LENDING: Final = stat.S_ISUID | stat.S_ISGID
_CAPABILITY: Final = "security.capability"
_COARSE: Final = 50_000_000
"""Nanoseconds by which a file system's clock may lag behind the system's."""
_UNOPENED: Final = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


def take_off(roots: tuple[Path, ...], since: int) -> tuple[str, ...]:
    """Leave nothing that was made or changed since and lends rights; says what it was, by path.

    The time is in nanoseconds. A file's own comes from the system, whatever a program claims.
    """
    found = [(path, info) for path, info in _changed(roots, since - _COARSE) if _lends(path, info)]
    return tuple(
        control_files.short(Path(path), roots) for path, info in found if _made_plain(path, info)
    )


def _changed(roots: tuple[Path, ...], since: int) -> Iterator[tuple[str, os.stat_result]]:
    """Everything but folders and links that is not as old; links are not followed."""
    todo = [str(root) for root in roots]
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                elif not entry.is_symlink():
                    info = entry.stat(follow_symlinks=False)
                    if info.st_ctime_ns >= since:
                        yield entry.path, info


def _lends(path: str, info: os.stat_result) -> bool:
    return bool(info.st_mode & _LENDING) or _is_device(info) or _has_capability(path)


def _is_device(info: os.stat_result) -> bool:
    return stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode)


def _has_capability(path: str) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        return bool(os.getxattr(path, _CAPABILITY, follow_symlinks=False))
    return False


def _made_plain(path: str, info: os.stat_result) -> bool:
    """Take the bits off, or the node away; False where somebody else's hands are needed."""
    try:
        if _is_device(info):
            Path(path).unlink()
            return True
        if _has_capability(path):
            os.removexattr(path, _CAPABILITY, follow_symlinks=False)
        # Without opening it for reading, which its permissions may forbid, and without following.
        fd = os.open(path, _UNOPENED)
        try:
            mode = stat.S_IMODE(os.fstat(fd).st_mode) & ~_LENDING
            Path(f"/proc/self/fd/{fd}").chmod(mode)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True
