"""Reads a shell command the way a careful person would: only what is plain counts as understood.

A command line is understood when a real bash grammar and Python's own splitter agree that it is
simple commands joined by `&&`, `||`, `;` and `|`, with every word literal. Substitutions, escapes,
globs, assignments, redirections into files, background jobs, anything not ASCII: all of that may be
fine, and none of it is understood here, so a person is asked.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from mindstone_tui.core import errors, patterns
from mindstone_tui.core.tools.base import OTHER_NAMES, Preview
from mindstone_tui.core.tools.programs import has_risky_option, row_of, without_options
from mindstone_tui.core.tools.verdicts import CommandPart, Effect, bash_parser

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["EDITS", "NotPlain", "Rule", "Verdict", "covers", "offered", "simple_commands"]

_UNDERSTOOD: Final = patterns.pattern_of(r"[ -~]+\Z")
_LOUD: Final = patterns.pattern_of(r"[`$\\]")
_LITERAL: Final = patterns.pattern_of(r"[A-Za-z0-9_./:@%+=,-]+\Z")
_HARMLESS_REDIRECT: Final = patterns.pattern_of(r"(?:2>&1|[12]?> ?/dev/null|< ?/dev/null)\Z")
_JOINS: Final = frozenset({"&&", "||", ";", "|"})
_LONGEST: Final = 10_000
_MOST_PARTS: Final = 50
_MOST_BARS: Final = 500
"""In one line, quoted ones among them; a broken one with many more takes seconds to read."""


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
    if text.count("|") > _MOST_BARS:
        raise NotPlain("it has too many parts to judge one by one")
    if found := _LOUD.search(text):
        raise NotPlain(f"{found.group()} can stand for something that is not shown")
    tree = bash_parser().parse(text.encode())
    if tree.root_node.has_error:
        raise NotPlain("it is not valid shell")
    reading = _Reading()
    reading.statement(tree.root_node)
    reading.check_against(text)
    if len(reading.commands) > _MOST_PARTS:
        raise NotPlain("it has too many parts to judge one by one")
    return tuple(reading.commands)


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
        ours = [
            token for piece in sorted(self._pieces, key=lambda it: it.at) for token in piece.tokens
        ]
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

EDITS: Final = "edits"
"""The tool of a rule about every tool that changes files."""
_VERBATIM: Final = "--"
"""Before a whole command line that must be exactly this one."""
_EVERY: Final = ("*",)
_NEVER_OFFERED: Final[frozenset[Effect]] = frozenset({"pipe to shell", "privilege", "force-push"})
"""What does something else each time it runs: a yes to one says nothing about the next."""
_NEVER_BY_PREFIX: Final = _NEVER_OFFERED | {"outside the workspace"}


_DOES_THE_SAME: Final = {"background": "shell", "edit": "write", "write": "edit"}
"""What is forbidden to one tool is so to another that would do it as well."""
_TOOL: Final = patterns.pattern_of(r"[A-Za-z0-9_-]+\Z")
_COLON: Final = patterns.pattern_of(r"shell:\S")
_WITHOUT_WORDS: Final = frozenset({"read", "list", "glob", "grep", "recall", "read_entry"})
"""Of these a rule speaks as a whole: what it hid from one, others would still tell."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the approvals' settings."""

    verdict: Verdict
    tool: str
    words: tuple[str, ...] = ()
    """Of a command, or the parts of a path, or a host."""
    open_ended: bool = False
    """Further words, or paths further down, are covered too."""
    network: bool = False
    """A confined command under this rule may use the network."""

    @property
    def text(self) -> str:
        """As a person writes it."""
        if self.tool == "shell":
            return " ".join([self.tool, *map(shlex.quote, self.words), *(["*"] * self.open_ended)])
        path = "/".join(self.words)
        if self.open_ended:
            return f"{self.tool} {shlex.quote(path)}/*" if path else f"{self.tool} *"
        return f"{self.tool} {shlex.quote(path)}" if path else self.tool

    @classmethod
    def parse(cls, verdict: Verdict, text: str, *, network: bool = False) -> Rule:
        """Read a rule; raises `ConfigError` when it could never match or would match too much."""
        try:
            tool, *words = shlex.split(text.replace(":", " ", 1) if _COLON.match(text) else text)
        except ValueError:
            raise errors.ConfigError(
                f"The rule {text!r} cannot be read.", "Write `shell git status`."
            ) from None
        _check_tool(text, tool, words)
        open_ended = bool(words) and words[-1] == "*"
        if words and words[-1].endswith("/*"):
            open_ended, words[-1] = True, words[-1][:-2]
        elif open_ended:
            words.pop()
        if tool != "shell":
            words = [part for word in words for part in word.split("/") if part not in ("", ".")]
        elif verdict == "allow":
            _check_shell(text, words, open_ended)
        else:  # what is forbidden is so whatever follows
            open_ended = open_ended or words[:1] not in ([], [_VERBATIM])
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
    about = tuple(rule for rule in rules if _is_about(rule, tool, preview))
    candidates = tuple(rule for rule in about if rule.verdict == verdict)
    if not about:
        return ()
    if not preview.command:
        return tuple(rule for rule in candidates if rule.matches(_touched(preview)))[:1]
    verbatim = (_VERBATIM, preview.command)
    if exact := tuple(rule for rule in candidates if rule.words == verbatim):
        return exact[:1]
    # What is not understood is never allowed; it is asked about where a rule might mean it.
    stricter = tuple(rule for rule in about if rule.verdict != "allow")[:1]
    try:
        commands = simple_commands(preview.command)
    except NotPlain:
        return stricter if verdict == "ask" else ()
    if verdict == "ask" and stricter and any(map(_hides, commands)):
        return stricter
    judged = {part.words: part for part in preview.parts}
    found = [
        next((rule for rule in candidates if _covers(rule, each, judged.get(each))), None)
        for each in commands
    ]
    if verdict == "allow":
        return tuple(rule for rule in found if rule) if all(found) else ()
    return tuple(rule for rule in found if rule)


def _hides(command: tuple[str, ...]) -> bool:
    """Whether another command may stand in its words, or it goes by another name."""
    row = row_of(command[0])
    return row.wraps or row.code == "shell" or "/" in command[0]


def _is_about(rule: Rule, tool: str, preview: Preview) -> bool:
    alike = rule.verdict != "allow" and rule.tool == _DOES_THE_SAME.get(tool)
    return alike or rule.tool == tool or (rule.tool == EDITS and bool(preview.place))


def _touched(preview: Preview) -> tuple[str, ...]:
    """The path that would change, or the host that would be asked."""
    return preview.place or ((preview.host,) if preview.host else ())


def offered(tool: str, preview: Preview) -> tuple[Rule, ...]:
    """The rules that would have allowed this call, the narrowest first; none that allows more
    than more of the same, nor one that means more once it is written down and read again."""
    return tuple(rule for rule in _fitting(tool, preview) if _reads_back(rule))


def _reads_back(rule: Rule) -> bool:
    """A star that is a word of a command, or the name of a file, would be taken for any other."""
    try:
        return Rule.parse(rule.verdict, rule.text) == rule
    except errors.ConfigError:
        return False


def _fitting(tool: str, preview: Preview) -> tuple[Rule, ...]:
    if not preview.command:
        exact = Rule(verdict="allow", tool=tool, words=_touched(preview))
        edits = Rule(verdict="allow", tool=EDITS, open_ended=True)
        return (exact, edits) if preview.place else (exact,)
    try:
        commands = simple_commands(preview.command)
    except NotPlain:
        return ()
    if any(part.steers or part.effects & _NEVER_OFFERED for part in preview.parts):
        return ()
    if len(commands) > 1:
        return (Rule(verdict="allow", tool=tool, words=(_VERBATIM, preview.command)),)
    (command,) = commands
    exact = Rule(verdict="allow", tool=tool, words=command)
    prefix = _prefix(command)
    judged = next((part for part in preview.parts if part.words == command), None)
    if prefix is None or _may_run_more(command) or _beyond(judged):
        return (exact,)
    return (exact, Rule(verdict="allow", tool=tool, words=prefix, open_ended=True))


def _prefix(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """The words that say what kind of work a command is."""
    if (actions := row_of(command[0]).offer) == _EVERY:
        return command[:1]
    return command[:2] if len(command) > 1 and command[1] in actions else None


def _covers(rule: Rule, command: tuple[str, ...], part: CommandPart | None) -> bool:
    if rule.verdict != "allow":  # `git -C . push` pushes, too
        return rule.matches(command) or rule.matches(without_options(command))
    # Where nothing follows its words, it covers nothing that it does not say.
    widened = rule.open_ended and rule.words != command
    return rule.matches(command) and not (widened and (_may_run_more(command) or _beyond(part)))


def _beyond(part: CommandPart | None) -> bool:
    return part is not None and bool(part.effects & _NEVER_BY_PREFIX)


def _may_run_more(command: tuple[str, ...]) -> bool:
    """Whether more words could do another kind of work than the table knows for sure."""
    risky = "/" in command[0] or has_risky_option(command)
    return risky or row_of(command[0]).opaque or _prefix(command) is None


def _check_tool(text: str, tool: str, words: list[str]) -> None:
    ours = next((name for name, theirs in OTHER_NAMES["tools"].items() if tool in theirs), "")
    if not _TOOL.match(tool) or (ours and tool != "shell"):
        raise errors.ConfigError(
            f"The rule {text!r} names no tool, so it would never hold.",
            f"Write `{ours or 'shell'}`{'' if ours else ' and the command, such as `shell rm *`'}.",
        )
    if tool in _WITHOUT_WORDS and words not in ([], ["*"]):
        raise errors.ConfigError(
            f"The rule {text!r} would never hold: what {tool} looks at cannot be picked.",
            f"Write `{tool}` for all of it, and keep what is secret out of the folder.",
        )


def _check_shell(text: str, words: list[str], open_ended: bool) -> None:
    if not words:
        raise errors.ConfigError(
            f"The rule {text!r} would allow every command.", "Name the command, or use full-auto."
        )
    if open_ended and (row_of(words[0]).opaque or "/" in words[0]):
        raise errors.ConfigError(
            f"The rule {text!r} would allow anything: {words[0]} runs other programs.",
            "Allow the exact command, without the star.",
        )
