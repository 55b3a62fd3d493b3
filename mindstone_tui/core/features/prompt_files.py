"""The commands and skills of a session: the user's, and those of a project that is trusted."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Final, Literal

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.run_tools import question_about
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import NotAllowed, ToolError, UnknownName
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.paths import Places
from mindstone_tui.core.session.features import (
    Command,
    Feature,
    Say,
    command,
    known_commands,
)
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.session.tools import Project
from mindstone_tui.core.text import as_data, fresh_nonce
from mindstone_tui.core.tools.approvals import carry_out, prepare
from mindstone_tui.core.tools.prompt_files import (
    PromptFile,
    command_called,
    command_name,
    distinct,
    own_commands,
    own_skills,
    pieces_of,
    read_prompt,
    skill_tool,
    skills_section,
)
from mindstone_tui.core.tools.remembered import Remembered
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.trust import TrustFile
from mindstone_tui.core.tools.workspace import Workspace

_MOST_QUOTED: Final = 256 * 1024


def commands_in(home: Places, folder: Path) -> dict[str, PromptFile]:
    """The commands that a session in a folder would have beside the program's own."""
    project = Project(Workspace((folder,), protected=home.own), TrustFile(home.trust))
    shipped = known_commands()
    found = _commands(home, project)
    return {name: each for name, each in found.items() if name not in shipped}


def _commands(home: Places, project: Project) -> dict[str, PromptFile]:
    return distinct(own_commands(home.commands), _of_project(project, "command"))


def _of_project(
    project: Project, kind: Literal["command", "skill"], *, untrusted: bool = False
) -> list[PromptFile]:
    found = []
    known = project.instructions()
    for each in known.of(kind) if untrusted else known.trusted(kind):
        path = PurePath(each.path)
        inside = PurePath(*path.parts[2:])  # below `.mindstone/commands`, for example
        name = command_name(inside) if kind == "command" else path.parent.name
        prompt = read_prompt(name, each.data, "project", str(known.folder / each.path))
        if prompt is not None:
            found.append(prompt)
    return found


class PromptFilesFeature(Feature):
    """What a person may type and the model may look up, read anew when it is asked for."""

    name = "commands and skills"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self.skills: dict[str, PromptFile] = {}
        """The same mapping always: the tool looks into it."""
        self._looked = False
        skills = session.home.skills
        self._own_skills = Remembered(skills.parent, partial(own_skills, skills))

    def commands(self) -> Sequence[Command]:
        """Those with `@command`, and a command for each file."""
        found = _commands(self.session.home, self.session.project)
        return (*self.declared, *map(_typed, found.values()))

    def refused_command(self, name: str) -> UnknownName | None:
        """Why a command of the project's cannot be called yet; None when it has no such command."""
        offered = distinct(_of_project(self.session.project, "command", untrusted=True))
        if command_called(name, offered) is None:
            return None
        return UnknownName(
            f"/{name} is a command of this project, which is not trusted as it is now.",
            "`/trust` shows what it says, `/trust yes` allows it.",
        )

    async def before_turn(self) -> Sequence[str]:
        """Offer the skills that there are now."""
        if self.refresh():
            self.session.tools.add({"skill": skill_tool(self.skills)})
        return ()

    def refresh(self) -> bool:
        """Look for skills; whether there are any."""
        found = distinct(self._own_skills.get(), _of_project(self.session.project, "skill"))
        self._looked = True
        self.skills.clear()
        self.skills.update(found)
        return bool(found)

    def standing(self) -> SystemPrompt:
        """The skills for the head of the prompt, as the turn found them."""
        if not self._looked:
            self.refresh()
        if not self.skills:
            return SystemPrompt(())
        text = skills_section(list(self.skills.values()), self.context.settings.skills.head_chars)
        size = sum(each.size for each in self.skills.values())
        return SystemPrompt((Section(name="skills", text=text, source="SKILL.md", raw_size=size),))

    async def expand(
        self, prompt: PromptFile, arguments: str
    ) -> AsyncIterator[events.AnyEvent | Say]:
        """Say what a command's file says; what it asks on the way (`!`) are events."""
        pieces: list[str] = []
        async for piece in self._pieces(prompt, arguments):
            if isinstance(piece, str):
                pieces.append(piece)
            else:
                yield piece
        yield Say("".join(pieces).strip())

    async def _pieces(
        self, prompt: PromptFile, arguments: str
    ) -> AsyncIterator[events.AnyEvent | str]:
        for number, piece in enumerate(pieces_of(prompt, arguments)):
            if piece.kind == "text":
                yield piece.value
            elif piece.kind == "file":
                yield self._quoted(piece.value)
            else:
                async for event in self._shell(piece.value, f"{prompt.name}-{number}"):
                    yield event

    def _quoted(self, path: str) -> str:
        """A file of the workspace as data; what is none stays as it was written."""
        try:
            data = self.context.tool_context("").workspace.read_whole(path, _MOST_QUOTED)
        except ToolError:
            return f"@{path}"
        text = self.context.redactor.redact(data.decode("utf-8", "replace")).text
        return f"@{path}\n{as_data(text, origin=f'file {path}', nonce=fresh_nonce())}\n"

    async def _shell(self, command: str, name: str) -> AsyncIterator[events.AnyEvent | str]:
        """Run a command of a file as a call of the shell: judged, asked about, kept, recorded."""
        context = self.context
        call = f"{name}-{fresh_nonce()}"
        held = context.tool_context(call)
        written = msgspec.json.encode({"command": command}).decode()
        approval = prepare(SHELL, call, written, held)
        decision = context.permissions.decide(SHELL, approval)
        by = str(decision.by)
        if decision.verdict == "ask":
            waiting = context.questions.ask(call)
            yield await question_about(context, 0, SHELL, approval, decision)
            answer = await waiting
            yield events.ToolEnded(
                turn=0,
                call=call,
                name=SHELL.name,
                entry="",
                status="ok" if answer.allowed else "refused",
                text="",
                finding="allowed" if answer.allowed else "declined",
            )
            if not answer.allowed:
                raise NotAllowed(f"Not sent: `{command}` was declined.", "")
            context.permissions.remember(answer)
            by = "person"
        elif decision.verdict == "refuse":
            raise NotAllowed(f"Not sent: `{command}` may not run: {decision.reason}.", "")
        else:
            held = context.permissions.confine(decision, held)
        # On disk before it runs, as every call is; its output stands in the message.
        context.window.record(CommandRun(command=f"! {command}", output=f"allowed by {by}"))
        watched = await context.files.before(SHELL, approval)
        result, _ = await carry_out(
            SHELL, approval, held, redactor=context.redactor, nonce=fresh_nonce()
        )
        with contextlib.suppress(OSError):
            for event in announcements(*await context.files.after(watched)):
                yield event
        yield f"\n{result.text}\n"

    @command("skills")
    async def list_skills(self, argument: str) -> AsyncIterator[events.AnyEvent]:
        """List your own commands and the skills that the model may look up, with where they stand.

        Commands are Markdown files in commands/, skills folders with a SKILL.md in skills/, both
        beside config.toml; a trusted project's are in .mindstone or .claude.
        """
        del argument
        self.refresh()
        found = _commands(self.session.home, self.session.project)
        listed = [
            *((f"/{each.name}", each) for each in found.values()),
            *self.skills.items(),
        ]
        rows = [
            f"{name:24} {each.size:>7,} bytes  {each.source:8} {each.description}\n  {each.path}"
            for name, each in listed
        ]
        where = f"{self.session.home.commands} and {self.session.home.skills}"
        none = f"There are none. They would stand in {where}."
        yield events.CommandPrinted(command="skills", text="\n".join(rows) or none)


def _typed(prompt: PromptFile) -> Command:
    """A file as the command that a person types."""

    def handler(feature: PromptFilesFeature, argument: str) -> AsyncIterator[events.AnyEvent | Say]:
        return feature.expand(prompt, argument)

    return Command(
        name=prompt.name,
        help=prompt.description,
        handler=handler,
        usage=prompt.hint,
        details=prompt.path,
        changes_window=True,
    )
