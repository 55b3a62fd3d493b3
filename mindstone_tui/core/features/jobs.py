"""Commands that run in the background: the tools for them, what is written down, `/jobs`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from mindstone_tui.core.entries.derived import JobEnded, JobStarted
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.events.from_entry import job_ended
from mindstone_tui.core.session.features import Feature, WrongUse, command
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import one_line
from mindstone_tui.core.tools.base import Tool
from mindstone_tui.core.tools.jobs import Job, Jobs


class JobsFeature(Feature):
    """Commands in the background, each an entry when it begins and when it ends."""

    name = "background jobs"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        settings = self.context.settings.jobs
        self.jobs = Jobs(
            session.places.jobs,
            seconds=settings.seconds,
            output=settings.output_bytes,
            clean=self.context.transcript.clean,
            on_start=self._started,
            on_end=self._ended,
        )

    def tools(self) -> Sequence[Tool]:
        """Start one, look at it, end it."""
        return self.jobs.tools()

    def _started(self, job: Job) -> None:
        entry = JobStarted(job=job.number, command=job.command, log=str(job.log), stays=job.stays)
        self.context.window.record(entry)

    def _ended(self, job: Job) -> None:
        entry = JobEnded(
            job=job.number,
            command=job.command,
            ending=job.ending,
            code=job.code,
            elapsed=round(job.elapsed, 3),
        )
        with contextlib.suppress(MindstoneError):  # what cannot be saved is kept for later
            self.context.window.record(entry)
        self.context.tell(job_ended(entry))

    async def close(self) -> None:
        """End those that do not stay."""
        await self.jobs.close()

    @command("jobs", usage="[N | kill N]", words=("kill",))
    async def list_jobs(self, argument: str) -> AsyncIterator[AnyEvent]:
        """List commands that run in the background, show the output of one, or end it.

        They end with the session, unless you agreed to one that stays.
        """
        verb, _, number = argument.rpartition(" ")
        if not argument:
            rows = [
                f"{job.number:>3}  {job.state:32} {one_line(job.command, 80)}\n     {job.log}"
                for job in self.jobs.all.values()
            ]
            if rows:
                rows.append(
                    "/jobs N shows output, /jobs kill N ends one. /undo leaves their work alone."
                )
            yield CommandPrinted(command="jobs", text="\n".join(rows) or "Nothing runs.")
            return
        if not number.isdigit() or verb not in ("", "kill"):
            raise WrongUse(f"`{argument}` names no job.")
        job = self.jobs.get(int(number))
        if verb == "kill":
            job = await self.jobs.kill(job.number)
        text = f"{self.jobs.tail(job).rstrip()}\n[job {job.number}: {job.state}]".lstrip()
        yield CommandPrinted(command="jobs", text=text)
