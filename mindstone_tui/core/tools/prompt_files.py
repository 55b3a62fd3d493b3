"""Reusable prompts as files: commands that a person types, skills that the model looks up.

A command is a Markdown file; `/name` sends its body as a message, with `$ARGUMENTS`, `$1` … filled
in, `@path` followed by that file's text, and each `!`-command in backticks replaced by what it
printed, if a person or a rule allows it. A skill is a folder with a SKILL.md: its name and
description stand in the head of the prompt, its body is read when it is used. Both begin with an
optional block of `key: value` lines between two `---`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Final, Literal

import msgspec

from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import exact, for_terminal, one_line
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult, bounded, declare
from mindstone_tui.core.tools.remembered import Looking
from mindstone_tui.core.tools.trust import DEEPEST

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
