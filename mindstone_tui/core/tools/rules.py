"""Standing permissions and refusals, as a person writes them.

    shell git status          exactly this command
    shell git diff *          this command and any further words
    edit src/*                this tool below this folder
    files__search             this tool of a server, whatever its arguments

A permission for the shell covers a command line only when every simple command in it is covered.
"""

from __future__ import annotations

import shlex
from typing import Final, Literal

import msgspec

from mindstone_tui.core.errors import ConfigError
from mindstone_tui.core.tools.command_line import (
    WRAPPERS,
    NotPlain,
    has_risky_option,
    simple_commands,
)
from mindstone_tui.core.tools.tool import Preview

Verdict = Literal["allow", "ask", "refuse"]

_SUBCOMMANDS: Final = frozenset(
    {"git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "pip", "poetry", "docker", "kubectl", "gh"}
)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the approvals' settings."""

    verdict: Verdict
    tool: str
    words: tuple[str, ...] = ()
    open_ended: bool = False
    """Further words, or paths further down, are covered too."""
    network: bool = False
    """A confined command under this rule may use the network."""

    @property
    def text(self) -> str:
        """As a person writes it."""
        return " ".join([self.tool, *map(shlex.quote, self.words), *(["*"] * self.open_ended)])

    @classmethod
    def parse(cls, verdict: Verdict, text: str, *, network: bool = False) -> Rule:
        """Read a rule; raises `ConfigError` when it could never match or would match too much."""
        try:
            tool, *words = shlex.split(text)
        except ValueError:
            raise ConfigError(
                f"The rule {text!r} cannot be read.", "Write `shell git status`."
            ) from None
        open_ended = bool(words) and words[-1] == "*"
        if words and words[-1].endswith("/*"):
            open_ended, words[-1] = True, words[-1][:-2]
        elif open_ended:
            words.pop()
        if verdict == "allow" and tool == "shell":
            _check_shell(text, words, open_ended)
        return cls(
            verdict=verdict, tool=tool, words=tuple(words), open_ended=open_ended, network=network
        )

    def matches(self, words: tuple[str, ...]) -> bool:
        """Whether this rule speaks about a command, or a path as its parts."""
        if not self.open_ended:
            return not self.words or words == self.words
        return words[: len(self.words)] == self.words


def covers(
    rules: tuple[Rule, ...], verdict: Verdict, tool: str, preview: Preview
) -> tuple[Rule, ...]:
    """The rules that decide this call this way; empty when they do not."""
    about = tuple(rule for rule in rules if rule.tool == tool)
    candidates = tuple(rule for rule in about if rule.verdict == verdict)
    if not about:
        return ()
    if not preview.command:
        return tuple(rule for rule in candidates if rule.matches(preview.place))[:1]
    try:
        commands = simple_commands(preview.command)
    except NotPlain:
        # What is not understood is never allowed; it is asked about where a rule might mean it.
        stricter = tuple(rule for rule in about if rule.verdict != "allow")
        return stricter[:1] if verdict == "ask" else ()
    found = [_first(candidates, command, verdict) for command in commands]
    if verdict == "allow":
        return tuple(rule for rule in found if rule) if all(found) else ()
    return tuple(rule for rule in found if rule)


def suggested(tool: str, preview: Preview) -> Rule | None:
    """The narrowest rule that would have allowed this call, to be offered beside the question."""
    if not preview.command:
        return Rule(verdict="allow", tool=tool, words=tuple(preview.place))
    try:
        (command,) = simple_commands(preview.command)
    except (NotPlain, ValueError):
        return None
    if command[0] in WRAPPERS or has_risky_option(command):
        return None
    if command[0] in _SUBCOMMANDS and len(command) > 2 and not command[1].startswith("-"):
        return Rule(verdict="allow", tool=tool, words=command[:2], open_ended=True)
    return Rule(verdict="allow", tool=tool, words=command)


def _first(candidates: tuple[Rule, ...], command: tuple[str, ...], verdict: Verdict) -> Rule | None:
    for rule in candidates:
        if not rule.matches(command):
            continue
        if verdict == "allow" and rule.open_ended and _may_run_more(command):
            continue
        return rule
    return None


def _may_run_more(command: tuple[str, ...]) -> bool:
    return command[0] in WRAPPERS or "/" in command[0] or has_risky_option(command)


def _check_shell(text: str, words: list[str], open_ended: bool) -> None:
    if not words:
        raise ConfigError(
            f"The rule {text!r} would allow every command.", "Name the command, or use full-auto."
        )
    if open_ended and (words[0] in WRAPPERS or "/" in words[0]):
        raise ConfigError(
            f"The rule {text!r} would allow anything: {words[0]} runs other programs.",
            "Allow the exact command, without the star.",
        )
