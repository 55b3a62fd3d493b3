"""The commands and skills of a session: the user's, and those of a project that is trusted."""

import contextlib
import re
import shlex
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Final, Literal

import msgspec

from mindstone_tui.core import events, paths
from mindstone_tui.core.agent.run_tools import ask_beside, question_about
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import NotAllowed, ToolError, UnknownName
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.session.features import Command, Feature, Say, command, known_commands
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.session.tools import Project
from mindstone_tui.core.text import as_data, exact, for_terminal, fresh_nonce, one_line
from mindstone_tui.core.tools import approvals, workspace
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult, bounded, declare
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.trust import DEEPEST, Looking, Remembered, TrustFile

NAME: Final = pattern_of(r"[a-z0-9][a-z0-9_-]{0,63}")
_COMMAND: Final = pattern_of(rf"{NAME.pattern}(?::{NAME.pattern}){{0,3}}")
"""Folders around a command stand before its name: `frontend/component.md` is this."""
MOST: Final = 64
"""Commands, and skills, that are looked at in one place."""
_LARGEST: Final = 1 << 20
_HEAD: Final = pattern_of(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?\n?", re.DOTALL | re.MULTILINE)
_PIECE: Final = pattern_of(
    r"!`(?P<shell>[^`\n]+)`|(?<![\w`])@(?P<file>[\w./-]*\w)|\$(?P<argument>ARGUMENTS|[1-9])"
)

Source = Literal["user", "project"]


class PromptFile(msgspec.Struct, frozen=True, kw_only=True):
    """A command or a skill as its file says it."""

    name: str
    description: str
    body: str
    source: Source
    path: str
    hint: str = ""
    """What its arguments are, for help."""
    size: int = 0


def read_prompt(name: str, data: bytes, source: Source, path: str) -> PromptFile | None:
    """A file as a command or skill; None where its name cannot be typed."""
    text = for_terminal(data.decode("utf-8", "replace")).replace("\r\n", "\n")
    fields: dict[str, str] = {}
    if found := _HEAD.match(text):
        for line in found[1].splitlines():
            key, colon, value = line.partition(":")
            if colon and not line.startswith((" ", "\t", "#")):
                fields[key.strip().lower()] = value.strip().strip("\"'")
        text = text[found.end() :]
    known = fields.get("name", "").strip().lower().replace(" ", "-")
    known = known if NAME.fullmatch(known) and ":" not in name else name.lower()
    if not _COMMAND.fullmatch(known):
        return None
    body = text.strip("\n")
    first = next((line.strip("# ").strip() for line in body.splitlines() if line.strip()), "")
    return PromptFile(
        name=known,
        description=one_line(exact(fields.get("description") or first), 240),
        body=body,
        source=source,
        path=path,
        hint=one_line(exact(fields.get("argument-hint", "")), 60),
        size=len(data),
    )


def command_name(path: PurePath) -> str:
    """What is typed for a file below the folder with commands: `a/b.md` is `a:b`."""
    return ":".join(path.with_suffix("").parts)


def command_called(name: str, commands: dict[str, PromptFile]) -> PromptFile | None:
    """The command that is meant: the folders before its name may be left out where one has it."""
    wanted = name.lower()
    if wanted in commands:
        return commands[wanted]
    meant = [each for known, each in commands.items() if known.rpartition(":")[2] == wanted]
    return meant[0] if len(meant) == 1 else None


def own_commands(folder: Path) -> list[PromptFile]:
    """The user's commands."""
    files = _markdown(folder, DEEPEST)[:MOST]
    return _read((command_name(path.relative_to(folder)), path) for path in files)


def _markdown(folder: Path, depth: int) -> list[Path]:
    found: list[Path] = []
    for path in _listed(folder):
        if path.suffix == ".md":
            found.append(path)
        elif depth and not path.name.startswith(".") and path.is_dir():
            found += _markdown(path, depth - 1)
    return found


def own_skills(folder: Path, looking: Looking) -> list[PromptFile]:
    """The user's skills; every path that this depends on is looked at."""
    looking.at(folder.name)
    folders = _listed(folder)
    for each in folders:
        looking.at(f"{folder.name}/{each.name}/SKILL.md")
    return _read((path.name, path / "SKILL.md") for path in folders)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:MOST]
    except OSError:
        return []


def _read(files: Iterable[tuple[str, Path]]) -> list[PromptFile]:
    found = []
    for name, path in files:
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST:
                continue
            prompt = read_prompt(name, path.read_bytes(), "user", str(path))
        except OSError:
            continue
        if prompt is not None:
            found.append(prompt)
    return found


def distinct(*places: Iterable[PromptFile]) -> dict[str, PromptFile]:
    """By name; what the user has comes first, a project cannot take its place."""
    found: dict[str, PromptFile] = {}
    for place in places:
        for each in place:
            found.setdefault(each.name, each)
    return found


class PromptPiece(msgspec.Struct, frozen=True):
    """A part of a command's message: plain text, a file to quote, or a shell command to run."""

    kind: Literal["text", "file", "shell"]
    value: str


def pieces_of(prompt: PromptFile, arguments: str) -> list[PromptPiece]:
    """The message of a command, with its arguments filled in.

    What a person typed as an argument is text: it names no file to quote and no command to run.
    """
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()
    pieces: list[PromptPiece] = []
    at = 0
    used = False
    for found in _PIECE.finditer(prompt.body):
        pieces.append(PromptPiece("text", prompt.body[at : found.start()]))
        at = found.end()
        if found["shell"]:
            pieces.append(PromptPiece("shell", found["shell"].strip()))
        elif found["file"]:
            pieces.append(PromptPiece("file", found["file"]))
        else:
            used = True
            number = found["argument"]
            given = arguments if number == "ARGUMENTS" else "".join(words[int(number) - 1 :][:1])
            pieces.append(PromptPiece("text", given))
    pieces.append(PromptPiece("text", prompt.body[at:]))
    if arguments and not used:
        pieces.append(PromptPiece("text", f"\n\n{arguments}"))
    return [piece for piece in pieces if piece.value]


class SkillArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which skill."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


def skill_tool(skills: dict[str, PromptFile]) -> Tool:
    """Reads the body of a skill; `skills` may change while the tool is on offer."""

    async def run(arguments: SkillArguments, context: ToolContext) -> ToolResult:
        skill = skills.get(arguments.name.strip().lower())
        if skill is None:
            known = ", ".join(sorted(skills)) or "none"
            raise ToolError(f"There is no skill {arguments.name}.", f"Known: {known}.")
        where = Path(skill.path).parent
        text, full = bounded(f"[Files of this skill are in {where}]\n{skill.body}", context)
        # A project's words are data; the user's own skill is an instruction that they gave.
        origin = f"skill {skill.name} of the project" if skill.source == "project" else ""
        return ToolResult(text=text, full=full, finding=f"skill {skill.name} read", origin=origin)

    return declare(
        "skill",
        "Read a skill before doing what it is for.",
        "read",
        SkillArguments,
        run,
        lambda arguments, _: Preview(title=f"skill {exact(arguments.name)}"),
    )


def skills_section(skills: Sequence[PromptFile], room: int) -> str:
    """Names and descriptions for the head of the prompt, in so many characters."""
    lines = ["Skills: read one with `skill` before you do what it is for."]
    left = room - len(lines[0])
    for at, skill in enumerate(skills):
        line = f"- {skill.name}: {skill.description}"
        if len(line) > left:
            lines.append(f"- and {len(skills) - at} more: {', '.join(s.name for s in skills[at:])}")
            break
        lines.append(line)
        left -= len(line)
    return "\n".join(lines)


_MOST_QUOTED: Final = 256 * 1024


def commands_in(home: paths.Places, folder: Path) -> dict[str, PromptFile]:
    """The commands that a session in a folder would have beside the program's own."""
    project = Project(workspace.Workspace((folder,), protected=home.own), TrustFile(home.trust))
    shipped = known_commands()
    return {name: each for name, each in _commands(home, project).items() if name not in shipped}


def _commands(home: paths.Places, project: Project) -> dict[str, PromptFile]:
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
        share = self.context.share("system_prompt", self.context.target)
        room = min(self.context.settings.skills.head_chars, share * 2)  # about half of its tokens
        text = skills_section(list(self.skills.values()), room)
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
        approval = approvals.prepare(SHELL, call, written, held)
        decision = context.permissions.decide(SHELL, approval)
        by = str(decision.by)
        if decision.verdict == "ask":
            question = await question_about(context, 0, SHELL, approval, decision)
            answer = await ask_beside(context, question)
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
        result, _ = await approvals.carry_out(
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
        self.refresh()
        found = _commands(self.session.home, self.session.project)
        listed = [*((f"/{each.name}", each) for each in found.values()), *self.skills.items()]
        rows = [
            f"{name:24} {each.size:>7,} bytes  {each.source:8} {each.description}\n  {each.path}"
            for name, each in listed
        ]
        where = f"{self.session.home.commands} and {self.session.home.skills}"
        none = f"There are none. They would stand in {where}."
        yield events.CommandPrinted(text="\n".join(rows) or none)


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
