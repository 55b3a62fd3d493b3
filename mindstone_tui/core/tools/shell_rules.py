"""Reads a shell command the way a careful person would: only what is plain counts as understood.

A command line is understood when a real bash grammar and Python's own splitter agree that it is
simple commands joined by `&&`, `||`, `;` and `|`, with every word literal. Substitutions, escapes,
globs, assignments, redirections into files, background jobs, anything not ASCII: all of that may be
fine, and none of it is understood here, so a person is asked.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Final, Literal

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from mindstone_tui.core.errors import ConfigError
from mindstone_tui.core.tools.base import Preview

__all__ = ["WRAPPERS", "NotPlain", "simple_commands"]

WRAPPERS: Final = frozenset(
    {
        *(".", "source", "eval", "exec", "command", "builtin", "coproc", "time", "trap", "alias"),
        *("sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "rbash", "pwsh"),
        *("env", "sudo", "su", "doas", "run0", "pkexec", "runuser", "setpriv", "chroot"),
        *("unshare", "nsenter", "bwrap", "firejail", "flatpak", "systemd-run", "at", "batch"),
        *("crontab", "xargs", "parallel", "nohup", "nice", "ionice", "timeout", "stdbuf"),
        *("setsid", "script", "watch", "strace", "ltrace", "gdb", "perf", "flock", "entr"),
        *("expect", "unbuffer", "chrt", "python", "python2", "python3", "pypy", "perl", "ruby"),
        *("node", "deno", "bun", "php", "lua", "tclsh", "awk", "gawk", "mawk", "nawk", "sed"),
        *("ed", "ex", "vi", "vim", "nvim", "emacs", "less", "more", "man", "ssh", "scp", "rsync"),
        *("socat", "nc", "ncat", "telnet", "osascript", "gcc", "cc", "make", "tee", "dd"),
        *("install", "ln", "export", "set", "declare", "enable", "hash", "bind", "complete"),
        *("mapfile", "readarray", "printf", "shopt", "ulimit"),
    }
)
"""Programs that run others or change the shell: their first word says nothing about the rest."""

_RISKY_OPTIONS: Final = {
    "find": r"-(?:exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)\Z",
    "git": r"-c\Z|-c.|--config-env|--exec-path|--upload-pack|--receive-pack|--output|-O|--ext-diff"
    r"|--textconv|--open-files-in-pager|--git-dir|--work-tree|-C|--exec|-x\Z|--template|--super-prefix",
    "rg": r"--pre\b|--hostname-bin|--search-zip|-z\Z",
    "sort": r"-o|--output|--compress-program|-T|--temporary-directory",
    "tar": r"--to-command|--checkpoint|-I|--use-compress-program|--rsh-command|-F|--info-script",
    "curl": r"-o|-O|--output|-K|--config|-T|--upload|-d|--data|-F|--form",
    "fd": r"-x|-X|--exec",
    "date": r"-s|--set",
    "uniq": r"[^-]",
    "tree": r"-o\Z|--output",
    "diff": r"--to-file|--from-file|--output",
    "ls": r"--hyperlink",
    "npm": r"--script-shell|--prefix|--globalconfig|--userconfig|--node-options",
    "cargo": r"--config|\+",
    "pip": r"--index-url|-i\Z|--extra-index-url|--trusted-host|--target|--root",
    "pytest": r"-p|--rootdir|-c\Z|--confcutdir|-o\Z|--override-ini|--pdbcls",
}
_UNDERSTOOD: Final = re.compile(r"[ -~]+\Z")
_LOUD: Final = re.compile(r"[`$\\]")
_LITERAL: Final = re.compile(r"[A-Za-z0-9_./:@%+=,-]+\Z")
_HARMLESS_REDIRECT: Final = re.compile(r"(?:2>&1|[12]?> ?/dev/null|< ?/dev/null)\Z")
_JOINS: Final = frozenset({"&&", "||", ";", "|"})
_LONGEST: Final = 10_000
_MOST_PARTS: Final = 50


class NotPlain(Exception):
    """The command line is not understood; the message says what stands in the way."""


class _Piece(msgspec.Struct, frozen=True):
    """A word, a join or a redirection, in the order of the text."""

    at: int
    tokens: tuple[str, ...]


def simple_commands(text: str) -> tuple[tuple[str, ...], ...]:
    """The simple commands a command line consists of, each as its words; raises `NotPlain`."""
    if len(text) > _LONGEST or not _UNDERSTOOD.match(text):
        raise NotPlain("it is very long, has several lines, or characters outside plain ASCII")
    if found := _LOUD.search(text):
        raise NotPlain(f"{found.group()} can stand for something that is not shown")
    tree = _parser().parse(text.encode())
    if tree.root_node.has_error:
        raise NotPlain("it is not valid shell")
    reading = _Reading()
    reading.statement(tree.root_node)
    reading.check_against(text)
    if len(reading.commands) > _MOST_PARTS:
        raise NotPlain("it has too many parts to judge one by one")
    return tuple(reading.commands)


def has_risky_option(command: tuple[str, ...]) -> bool:
    """Whether an option turns a harmless program into one that writes or runs something else."""
    pattern = _RISKY_OPTIONS.get(command[0])
    return pattern is not None and any(re.match(pattern, word) for word in command[1:])


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


class _Reading:
    """What one walk over the syntax tree found."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []
        self._pieces: list[_Piece] = []

    def statement(self, node: Node) -> None:
        """Take a statement apart; any kind not named here is not understood."""
        match node.type:
            case "program" | "list" | "pipeline":
                for child in node.children:
                    self._joined(child)
            case "command":
                self._command(node)
            case "redirected_statement":
                for child in node.children:
                    self._redirected(child)
            case kind:
                raise NotPlain(f"it contains a {kind.replace('_', ' ')}")

    def check_against(self, text: str) -> None:
        """Compare with a second opinion: both must see the same words in the same order."""
        splitter = shlex.shlex(text, posix=True, punctuation_chars=";&|<>()")
        splitter.whitespace_split = True
        splitter.commenters = ""
        try:
            theirs = list(splitter)
        except ValueError:
            raise NotPlain("its quotes do not close") from None
        ours = [token for piece in sorted(self._pieces, key=_place) for token in piece.tokens]
        if ours != theirs or not self.commands:
            raise NotPlain("it can be read in more than one way")

    def _joined(self, node: Node) -> None:
        if node.is_named:
            self.statement(node)
        elif node.type in _JOINS:
            self._pieces.append(_Piece(node.start_byte, (node.type,)))
        else:
            raise NotPlain(f"{node.type!r} is not a plain join")

    def _redirected(self, node: Node) -> None:
        if node.type != "file_redirect":
            self.statement(node)
        elif _HARMLESS_REDIRECT.match(_text(node)):
            splitter = shlex.shlex(_text(node), posix=True, punctuation_chars=";&|<>()")
            splitter.whitespace_split = True
            self._pieces.append(_Piece(node.start_byte, tuple(splitter)))
        else:
            raise NotPlain("it redirects into or from a file")

    def _command(self, node: Node) -> None:
        words: list[str] = []
        for child in node.children:
            value = _word(child.children[0] if child.type == "command_name" else child)
            self._pieces.append(_Piece(child.start_byte, (value,)))
            words.append(value)
        if not words or not words[0] or "=" in words[0]:
            raise NotPlain("it does not begin with a program")
        self.commands.append(tuple(words))


def _place(piece: _Piece) -> int:
    return piece.at


def _word(node: Node) -> str:
    """A literal word as bash would pass it on."""
    text = _text(node)
    match node.type:
        case "word" | "number":
            if not _LITERAL.match(text):
                raise NotPlain(f"{text} may expand to something else")
            return text
        case "raw_string" | "string":
            return text[1:-1]
        case "concatenation":
            return "".join(_word(child) for child in node.children)
        case kind:
            raise NotPlain(f"it contains a {kind.replace('_', ' ')}")


def _text(node: Node) -> str:
    return (node.text or b"").decode()


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
