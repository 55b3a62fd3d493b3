"""The programs that can be attached: where their settings are, what they offer, how they call."""

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mindstone_tui.core.errors import UnknownName, UsageError

BEFORE_A_TOOL: Final = frozenset(["PreToolUse", "BeforeTool"])
"""Events at which a call can still be refused."""
SERVER: Final = "mindstone"
"""What the tool server is called in the other program."""
_GUARD: Final = '[ -x "$0" ] && "$0" "$@" 2>/dev/null; exit 0'
"""Stands around a hook in the other program's settings, and is true there when all of ours is gone.

Whatever shell the program calls its hooks with, these words mean the same in it.
"""
_WATCHED: Final = "Its model asks our tools: it has no hooks to bring recall. It is watched."


class AttachTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A program that can be attached."""

    name: str
    title: str
    binary: str
    folder: str
    """Where its settings are, in the person's home."""
    variable: str = ""
    """What names another folder."""
    hooks: str = ""
    """The file with hooks; empty where it has none that could bring recall."""
    servers: str
    """The file with tool servers, or with guidance where it knows no such servers."""
    project: tuple[str, ...] = ()
    """Both files in a project; empty where it has none there."""
    key: str = "mcpServers"
    """What its table of tool servers is called."""
    shape: Literal["", "opencode", "copilot", "goose"] = ""
    """How it writes a tool server, if not as most do."""
    events: tuple[str, ...] = ()
    asks: bool = False
    """Whether a hook can have it ask the person, and no harm is done where nobody can be asked."""
    timeout: int = 0
    """What a hook may take before the program gives up on it, in the program's own unit."""
    note: str = _WATCHED
    """What the person still has to do, or should know."""
    strict: bool = False
    """Whether it reads no JSON that holds comments or trailing commas."""


_TABLE: Final = Path(__file__).with_suffix(".json").read_bytes()
TARGETS: Final[Mapping[str, AttachTarget]] = {
    each.name: each for each in msgspec.json.decode(_TABLE, type=list[AttachTarget])
}


def target_of(name: str) -> AttachTarget:
    """The program of that name, or of the command that starts it."""
    meant = (each for each in TARGETS.values() if name in (each.name, each.binary))
    if found := next(meant, None):
        return found
    raise UnknownName(f"{name} cannot be attached.", f"These can: {', '.join(TARGETS)}.")


def settings_files(
    program: AttachTarget, environ: Mapping[str, str], project: Path | None
) -> dict[str, Path]:
    """The files that hold a program's hooks and its tool servers; one file may be both."""
    if project is not None:
        if not program.project:
            raise UsageError(
                f"{program.title} has no settings for a project.", "Attach it without --project."
            )
        parts = ("hooks", "servers")[-len(program.project) :]
        return {part: project / file for part, file in zip(parts, program.project, strict=True)}
    home = Path(environ.get("HOME") or Path.home())
    named = environ.get(program.variable) if program.variable else ""
    folder = Path(named) if named else home / program.folder
    if program.folder.startswith(".config/") and (config := environ.get("XDG_CONFIG_HOME")):
        folder = Path(config) / program.folder.removeprefix(".config/")
    # A folder that is named holds what else lies beside the usual one.
    servers = program.servers.removeprefix("../")
    there = folder.parent if servers != program.servers and not named else folder
    found = {"hooks": folder / program.hooks} if program.hooks else {}
    return {**found, "servers": there / servers}


def is_here(program: AttachTarget, environ: Mapping[str, str]) -> bool:
    """Whether the program is on this machine: it can be called, or has settings."""
    folder = next(iter(settings_files(program, environ, None).values())).parent
    return shutil.which(program.binary, path=environ.get("PATH")) is not None or folder.is_dir()


class AttachCommand(msgspec.Struct, frozen=True):
    """How the other program calls us."""

    words: tuple[str, ...]
    """What starts `mindstone`."""
    home: str = ""
    """MINDSTONE_HOME, if it was set."""
    launcher: str = ""
    """The program of ours that is nothing but a hook, if there is one."""

    def hook(self, program: str, event: str = "") -> str:
        """The line for a shell; the launcher wants to know before which events a tool waits."""
        words = (self.launcher,) if self.launcher else (*self.words, "hook")
        before = ("before",) if event in BEFORE_A_TOOL else ()
        home = ("--home", self.home) if self.home else ()
        return shlex.join(("/bin/sh", "-c", _GUARD, *words, program, *before, *home))

    def server(self, program: AttachTarget) -> dict[str, Any]:
        """The tool server as the program's settings name it."""
        first, *more = (self.launcher,) if self.launcher else self.words
        env = {"MINDSTONE_HOME": self.home} if self.home else {}
        match program.shape:
            case "opencode":
                found: dict[str, Any] = {"type": "local", "command": [first, *more, "mcp"]}
                return {**found, "enabled": True, **({"environment": env} if env else {})}
            case "goose":
                found = {"enabled": True, "type": "stdio", "name": SERVER, "cmd": first}
                return {**found, "args": [*more, "mcp"], "envs": env, "timeout": 60}
            case shape:
                found = {"type": "local", "tools": ["*"]} if shape == "copilot" else {}
                found |= {"command": first, "args": [*more, "mcp"]}
                return {**found, "env": env} if env else found

    def guidance(self) -> str:
        """What a program reads that can be given no tools."""
        said = shlex.join(
            (*(("env", f"MINDSTONE_HOME={self.home}") if self.home else ()), *self.words)
        )
        return (
            "What was said and decided in earlier sessions, here and in other programs, can be\n"
            f"looked up: `{said} recall --scope all QUESTION` answers in their own words,\n"
            f"`{said} search WORDS` finds where something was said. Ask before you assume.\n"
        )
