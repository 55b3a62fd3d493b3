"""Commands that run in the background: the tools for them, what is written down, `/jobs`."""

import asyncio
import contextlib
import fcntl
import os
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from mindstone_tui.core import disk, events
from mindstone_tui.core.entries.derived import UNSEEN, JobEnded, JobStarted
from mindstone_tui.core.errors import MindstoneError, NotAllowed, ToolError
from mindstone_tui.core.events.from_entry import job_ended
from mindstone_tui.core.session.features import Feature, WrongUse, command
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import for_terminal, one_line
from mindstone_tui.core.tools import control_files, shell
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult, bounded, declare
from mindstone_tui.core.transcript.reader import unheard

_PATIENCE: Final = 3.0
"""Seconds in which stopped jobs may end when the session is closed."""
_LONGEST_LINE: Final = 1 << 16
_READ: Final = 64 * 1024
_KINDS: Final = ("job_started", "job_ended")
_LOOKED_BACK: Final = 20_000
"""Lines among which a job is looked for that a program began which is gone."""
_ELSEWHERE: Final = "runs, begun by another program"


class Job:
    """One command in the background."""

    def __init__(self, number: int, command: str, log: Path, *, stays: bool) -> None:
        self.number = number
        self.command = command
        self.log = log
        self.stays = stays
        self.started = time.monotonic()
        self.stop = asyncio.Event()
        self.ended = asyncio.Event()
        self.code = 0
        self.ending = ""
        """Empty while it runs, else `exited`, `timeout`, `flooded` or `interrupted`."""
        self.elapsed = 0.0

    @property
    def state(self) -> str:
        """How it is, in a few words."""
        if not self.ending:
            stays = ", stays when MindStone ends" if self.stays else ""
            return f"running for {time.monotonic() - self.started:.0f} s{stays}"
        how = f"exit code {self.code}" if self.ending == "exited" else self.ending
        return f"ended after {self.elapsed:.1f} s: {how}"


def _held(path: Path, flags: int) -> int:
    """Open a job's output as the one that writes it: whoever looks knows by that that it runs.

    The kernel lets go of it with the last process that has it open, however that ends.
    """
    fd = disk.REAL.open(path, os.O_WRONLY | os.O_CREAT | flags)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def _runs(path: Path) -> bool:
    """Whether some process still writes this output."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


class _Log:
    """A job's output on disk, line by line and without secrets."""

    def __init__(self, path: Path, clean: Callable[[str], str]) -> None:
        self._fd = _held(path, os.O_TRUNC)
        self._clean = clean
        self._rest = b""

    def write(self, chunk: bytes) -> None:
        whole, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            whole, newline, self._rest = whole + newline + self._rest, b"", b""
        self._put(whole + newline)

    def _put(self, data: bytes) -> None:
        if data:
            text = self._clean(data.decode("utf-8", "replace"))
            with contextlib.suppress(OSError):
                os.write(self._fd, text.encode("utf-8", "replace"))

    def close(self) -> None:
        self._put(self._rest)
        os.close(self._fd)


class BackgroundArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command line that goes on."""

    command: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000, description="For bash.")]
    stay: Annotated[bool, msgspec.Meta(description="Go on when the session is closed.")] = False


class JobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which job, and what about it."""

    id: Annotated[int, msgspec.Meta(ge=1)]
    wait: Annotated[float, msgspec.Meta(ge=0, le=600, description="Seconds to wait for it.")] = 0.0
    stop: bool = False


def _preview(arguments: BackgroundArguments, context: ToolContext) -> Preview:
    goes_on = " (goes on when MindStone ends)" if arguments.stay else ""
    caution = "It goes on when MindStone ends, until it ends itself." if arguments.stay else ""
    return shell.preview(f"background{goes_on}:", arguments.command, context, caution)


def _on_its_own(job: Job, context: ToolContext) -> subprocess.Popen[bytes]:
    # Not asyncio's way: that kills a child which is forgotten while it still runs.
    with os.fdopen(_held(job.log, os.O_APPEND), "ab") as file:
        return subprocess.Popen(
            shell.in_bash(job.command, context).command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=context.workspace.cwd,
            env=shell.clean_environment(context.environ, context.passed),
            start_new_session=True,
        )


def _end_of(process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
    """The code that a process will end with; whoever waits for it may be gone by then."""
    loop = asyncio.get_running_loop()
    code: asyncio.Future[int] = loop.create_future()

    def tell(ended: int) -> None:
        if not code.done():
            code.set_result(ended)

    def wait() -> None:
        ended = process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, ended)

    threading.Thread(target=wait, name=f"job {process.pid}", daemon=True).start()
    return code


class JobsFeature(Feature):
    """The background commands of one session, each an entry when it begins and when it ends."""

    name = "background jobs"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.all: dict[int, Job] = {}
        self._looked = False

    def start(self, command: str, context: ToolContext, *, stays: bool) -> Job:
        """Let a command run on; its start is on record before it begins."""
        if stays and (context.sandbox is not None or context.unseen):
            raise NotAllowed("A job that stays needs a person's yes.", "Leave `stay` out, or ask.")
        folder = self.session.places.jobs
        disk.ensure_folder(folder)
        taken = [int(path.stem) for path in folder.glob("*.log") if path.stem.isdecimal()]
        number = max([*taken, *self.all], default=0) + 1
        job = Job(number, command, folder / f"{number}.log", stays=stays)
        log = _Log(job.log, self.context.transcript.clean)
        self.all[number] = job
        self.context.window.record(
            JobStarted(job=number, command=command, log=str(job.log), stays=stays)
        )
        work = self._stay(job, log, context) if stays else self._run(job, log, context)
        self._tasks[number] = asyncio.create_task(work, name=f"job {number}")
        return job

    async def _run(self, job: Job, log: _Log, context: ToolContext) -> None:
        limits = self.context.settings.jobs
        finished: shell.CommandFinished | None = None
        roots = context.workspace.roots if context.unseen else ()
        before = await asyncio.to_thread(control_files.ControlFiles, roots)
        try:
            finished = await shell.run(
                shell.in_bash(job.command, context),
                cwd=context.workspace.cwd,
                environ=shell.clean_environment(context.environ, context.passed),
                bounds=shell.Bounds(
                    seconds=limits.seconds, kept=0, tail=1, output=limits.output_bytes
                ),
                stop=job.stop,
                progress=log.write,
            )
            log.write(shell.told_of(finished).encode())
            # A person may have written such files meanwhile, so nothing is taken back.
            if changed := await asyncio.to_thread(before.take_back, undo=False):
                log.write(f"\n[other programs obey these, look: {shell.named(changed)}]".encode())
        except ToolError as error:
            log.write(error.sentence.encode())
        finally:
            log.close()
            self._ended(job, finished.ending if finished else "interrupted", finished)

    async def _stay(self, job: Job, log: _Log, context: ToolContext) -> None:
        """A command that outlives us: in a session of its own, its output straight to the file."""
        process = _on_its_own(job, context)
        log.close()  # not before: somebody holds it as long as the job runs
        stopped = asyncio.ensure_future(job.stop.wait())
        gone = _end_of(process)
        try:
            either: set[asyncio.Future[Any]] = {stopped, gone}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
            job.code = await gone
            self._ended(job, "interrupted" if job.stop.is_set() else "exited", None)
        finally:
            stopped.cancel()

    def _ended(self, job: Job, ending: str, finished: shell.CommandFinished | None) -> None:
        """Write down how a job ended, and tell of it."""
        job.ending = ending
        job.code = finished.code if finished else job.code
        job.elapsed = time.monotonic() - job.started
        job.ended.set()
        entry = JobEnded(
            job=job.number,
            command=job.command,
            ending=ending,
            code=job.code,
            elapsed=round(job.elapsed, 3),
        )
        with contextlib.suppress(MindstoneError):  # what cannot be saved is kept for later
            self.context.window.record(entry)
        self.context.tell(job_ended(entry))

    def _elsewhere(self) -> list[JobStarted]:
        """Jobs of this session that another program began on this machine, and that have no end."""
        begun: dict[int, JobStarted] = {}
        here = {str(path) for path in self.session.places.jobs.glob("*.log")}
        if not here:
            return []
        with self.context.transcript.history() as history:
            for line in reversed(list(history.newest(_KINDS, _LOOKED_BACK))):
                match line.entry:
                    case JobStarted(job=number) as entry if entry.log in here:
                        begun[number] = entry
                    case JobEnded(job=number):
                        begun.pop(number, None)
        return [entry for number, entry in begun.items() if number not in self.all]

    def untold(self) -> Sequence[str]:
        """Which jobs ended since the message before that stands: an answer says that they run.

        Those of a program that was killed are over, too, and that is written down.
        """
        begun = [] if self._looked else self._elsewhere()
        self._looked = True
        for began in begun:
            if not _runs(Path(began.log)):
                ended = JobEnded(job=began.job, command=began.command, ending=UNSEEN)
                self.context.window.record(ended)
                self.context.tell(job_ended(ended))
        told = []
        with self.context.transcript.history() as history:
            for line in unheard(history, ("job_ended",)):
                if isinstance(line.entry, JobEnded):
                    told.append(f"[{job_ended(line.entry).message}]")
        return told[::-1]

    def get(self, number: int) -> Job:
        """A job by its number."""
        if number not in self.all:
            known = ", ".join(map(str, self.all)) or "none"
            raise ToolError(f"There is no job {number}.", f"Jobs of this session: {known}.")
        return self.all[number]

    async def kill(self, number: int) -> Job:
        """End a job with its whole tree."""
        job = self.get(number)
        job.stop.set()
        await asyncio.wait({asyncio.ensure_future(job.ended.wait())}, timeout=_PATIENCE)
        return job

    def tail(self, job: Job, most: int = _READ) -> str:
        """The end of a job's output."""
        try:
            with job.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - most, 0))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        cut = f"[… {size - most:,} bytes before; all of it is in {job.log} …]\n"
        return for_terminal(self.context.transcript.clean((cut if size > most else "") + text))

    async def close(self) -> None:
        """End every job that does not stay."""
        running = [self._tasks[one.number] for one in self.all.values() if not one.ending]
        for job in self.all.values():
            if not job.stays:
                job.stop.set()
        if ending := [self._tasks[one.number] for one in self.all.values() if not one.stays]:
            await asyncio.wait(ending, timeout=_PATIENCE)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def tools(self) -> Sequence[Tool]:
        """Begin one, and look at one."""
        begin = declare(
            "background",
            "Run a command in bash that goes on while you do other things; `job` looks at it.",
            "run",
            BackgroundArguments,
            self._begin,
            _preview,
        )
        look = declare(
            "job",
            "Read a background job's output, wait for its end, or stop it.",
            "read",
            JobArguments,
            self._look,
            lambda arguments, _: Preview(title=f"job {arguments.id}"),
        )
        return begin, look

    async def _begin(self, arguments: BackgroundArguments, context: ToolContext) -> ToolResult:
        job = self.start(arguments.command, context, stays=arguments.stay)
        text = f"Job {job.number} runs; its output goes to {job.log}."
        return ToolResult(text=text, finding=f"job {job.number} started")

    async def _look(self, arguments: JobArguments, context: ToolContext) -> ToolResult:
        job = self.get(arguments.id)
        if arguments.stop:
            await self.kill(job.number)
        elif arguments.wait:
            waiting = {asyncio.ensure_future(job.ended.wait())}
            if context.stop is not None:
                waiting.add(asyncio.ensure_future(context.stop.wait()))
            _, left = await asyncio.wait(
                waiting, timeout=arguments.wait, return_when=asyncio.FIRST_COMPLETED
            )
            for task in left:
                task.cancel()
        text, full = bounded(self.tail(job), context)
        return ToolResult(
            text=f"{text.rstrip()}\n[job {job.number}: {job.state}]".lstrip("\n"),
            full=full,
            finding=f"job {job.number}: {job.state}",
            origin=f"job {job.number}",
        )

    @command("jobs", usage="[N | kill N]", words=("kill",))
    async def list_jobs(self, argument: str) -> AsyncIterator[events.AnyEvent]:
        """List commands that run in the background, show the output of one, or end it.

        They end with the session, unless you agreed to one that stays.
        """
        verb, _, number = argument.rpartition(" ")
        if not argument:
            rows = [
                f"{job.number:>3}  {job.state:32} {one_line(job.command, 80)}\n     {job.log}"
                for job in self.all.values()
            ]
            rows += [
                f"{one.job:>3}  {_ELSEWHERE:32} {one_line(one.command, 80)}\n     {one.log}"
                for one in self._elsewhere()
                if _runs(Path(one.log))
            ]
            if rows:
                rows.append(
                    "/jobs N shows output, /jobs kill N ends one. /undo leaves their work alone."
                )
            yield events.CommandPrinted(text="\n".join(rows) or "Nothing runs.")
            return
        if not number.isdecimal() or verb not in ("", "kill"):
            raise WrongUse(f"`{argument}` names no job.")
        job = self.get(int(number))
        if verb == "kill":
            job = await self.kill(job.number)
        text = f"{self.tail(job).rstrip()}\n[job {job.number}: {job.state}]".lstrip()
        yield events.CommandPrinted(text=text)
