"""A shell command taken apart, and what each part would do, in words a person can judge by.

`judge` only describes; it allows nothing. So it may guess where `shell_rules` may not: it looks
into substitutions, subshells and `bash -c`, unwraps `sudo` and `xargs`, and names what it does not
know `unknown`. The worst part decides how the whole is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.tools import programs
from mindstone_tui.core.tools.control_files import PROTECTED, plain_name, steers
from mindstone_tui.core.tools.programs import Effect, has_risky_option, row_of
from mindstone_tui.core.tools.workspace import Workspace

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["CommandPart", "Effect", "bash_parser", "judge", "worst_of"]

_LONGEST: Final = 20_000
_MOST_PARTS: Final = 100
_MOST_BARS: Final = 1_000
"""The grammar takes seconds for a broken line with ten times as many."""
_MOST_PLACES: Final = 6
_DEEPEST: Final = 6
_CONTINUED: Final = pattern_of(r"(?m)^((?:[^#\\\n]|\\[^\n])*)\\\n")
"""A line that goes on in the next; none with a comment, which ends with its line."""
_TARGETS: Final = pattern_of(r">[>|&]?[ \t]*([^\s;&|<>()]+)")
"""What a line that cannot be read may write to."""
_HERE: Final = pattern_of(r"\$(?:PWD\b|\{PWD\})")


class CommandPart(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command of a command line."""

    text: str
    verdict: Effect
    """The worst that it does."""
    reason: str
    """What it does, in a few words."""
    also: tuple[Effect, ...] = ()
    """Whatever else it does."""
    steers: bool = False
    """It may change a file that other programs obey."""
    words: tuple[str, ...] = ()
    """The words that are literal; anything that expands is left out."""
    hidden: bool = False
    """Some words were left out."""
    written: tuple[str, ...] = ()
    """Files that its output goes to."""

    @property
    def effects(self) -> frozenset[Effect]:
        """All that it does."""
        return frozenset((self.verdict, *self.also))


def worst_of(parts: tuple[CommandPart, ...]) -> Effect:
    """What decides how a command is shown."""
    return max((part.verdict for part in parts), key=programs.SEVERITY.index, default="unknown")


def judge(command: str, workspace: Workspace) -> tuple[CommandPart, ...]:
    """Each simple command of a command line, in the order of the text, with what it does."""
    if len(command) > _LONGEST or command.count("|") > _MOST_BARS:
        return (_unreadable(command, "it is too long to judge"),)
    try:
        judgement = _Judgement(workspace)
        judgement.line(command, 0)
    except RecursionError:
        return (_unreadable(command, "it is nested too deeply to judge"),)
    if len(judgement.parts) > _MOST_PARTS:
        return (_unreadable(command, f"it has more than {_MOST_PARTS} parts"),)
    return tuple(judgement.parts) or (_unreadable(command, "there is no command in it"),)


def _unreadable(text: str, why: str) -> CommandPart:
    written = tuple(_TARGETS.findall(text[:_LONGEST]))
    return CommandPart(text=text, verdict="unknown", reason=why, written=written)


class _Said(msgspec.Struct):
    """What is known about one part while it is looked at: effects with their reasons."""

    found: dict[Effect, str] = {}
    steers: bool = False
    written: list[str] = []

    def add(self, effect: Effect, reason: str) -> None:
        self.found.setdefault(effect, reason)

    def part(self, text: str, words: Sequence[str | None]) -> CommandPart:
        ranked = sorted(self.found, key=programs.SEVERITY.index, reverse=True)
        if len(ranked) > 1 and ranked[-1] == "reads":
            ranked.pop()
        more = ["other programs obey what is in that file"] if self.steers else []
        return CommandPart(
            text=text,
            verdict=ranked[0],
            reason="; ".join(dict.fromkeys([*(self.found[each] for each in ranked), *more])),
            also=tuple(ranked[1:]),
            steers=self.steers,
            words=tuple(word for word in words if word is not None),
            hidden=None in words,
            written=tuple(self.written),
        )


_ASCII: Final = bytes(range(128)) + b"x" * 128
"""Every byte outside ASCII read as a letter. The grammar's scanner looks characters up in a table
for bytes, and one from far outside of it ends the process."""


class _Judgement:
    """One walk over a command line."""

    def __init__(self, workspace: Workspace) -> None:
        self._roots = workspace.roots
        self._here = {workspace.cwd}
        self._source = b""
        self.parts: list[CommandPart] = []

    def line(self, text: str, depth: int) -> None:
        """Judge a whole line, such as the one a person sees or the one after `bash -c`."""
        text = text if "<<" in text else _CONTINUED.sub(r"\1", text)
        outer, self._source = self._source, text.encode("utf-8", "replace")
        # The grammar does not know `<>`, which may write as well.
        tree = bash_parser().parse(self._source.translate(_ASCII).replace(b"<>", b" >"))
        if depth > _DEEPEST or tree.root_node.has_error:
            self.parts.append(_unreadable(text.strip(), "it cannot be read as shell"))
        else:
            self._node(tree.root_node, depth, fed=False)
        self._source = outer

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _node(self, node: Node, depth: int, *, fed: bool, redirects: tuple[Node, ...] = ()) -> None:
        """Look at a node and below it; `fed` says that another command's output goes in."""
        if len(self.parts) > _MOST_PARTS:  # it is not judged, and the rest would only take time
            return
        match node.type:
            case "command":
                self._command(node, depth, fed=fed, redirects=redirects)
            case "redirected_statement":
                own, seen = _redirects_of(node), len(self.parts)
                for child in node.children:
                    if child not in own:
                        self._node(child, depth, fed=fed, redirects=(*redirects, *own))
                if seen == len(self.parts):  # no command, and still a file is emptied
                    self._command(node, depth, fed=fed, redirects=redirects)
                for each in own:
                    self._below(each, depth, fed=True)
            case "list" | "pipeline":
                named = [each for each in node.children if each.is_named]
                for child in named:  # a redirection after them belongs to the last command
                    into = fed or (node.type == "pipeline" and child != named[0])
                    self._node(
                        child, depth, fed=into, redirects=redirects if child == named[-1] else ()
                    )
            case "variable_assignment" | "declaration_command" | "unset_command":
                self._assignment(node, depth)
            case "function_definition":
                self.parts.append(_unreadable(self._text(node), "it defines a function"))
                self._below(node, depth, redirects=_redirects_of(node))
            case "subshell":
                before = set(self._here)
                self._below(node, depth, fed=fed, redirects=redirects)
                self._here |= before
            case _:
                self._below(node, depth, fed=fed, redirects=redirects)

    def _below(
        self, node: Node, depth: int, *, fed: bool = False, redirects: tuple[Node, ...] = ()
    ) -> None:
        for child in node.children:
            if child.is_named:
                self._node(child, depth, fed=fed, redirects=redirects)

    def _assignment(self, node: Node, depth: int) -> None:
        text = self._text(node)
        loads = programs.LOADED_VARIABLES.search(text)
        why = f"sets {loads.group(1)}, which makes programs load or run more" if loads else ""
        said = _Said(found={"unknown": why} if loads else {"reads": "sets a variable"})
        self.parts.append(said.part(text, ()))
        self._below(node, depth)

    def _command(self, node: Node, depth: int, *, fed: bool, redirects: tuple[Node, ...]) -> None:
        said = _Said(found={})
        words: list[str | None] = []
        for child in node.children:
            if child.type == "variable_assignment":
                text = self._text(child)
                if loads := programs.LOADED_VARIABLES.search(text):
                    said.add("unknown", f"sets {loads.group(1)}, which makes programs load more")
                elif not programs.PLAIN_VARIABLES.match(text):
                    name = text.partition("=")[0]
                    said.add("unknown", f"sets {name}, which may change what a program does")
            elif child.type.endswith("_redirect"):
                redirects = (*redirects, child)
            else:
                words.append(self._literal(child))
        # What stands behind the file of a redirection is another word of the command.
        behind = (
            each for one in redirects for each in one.children_by_field_name("destination")[1:]
        )
        words += map(self._literal, behind)
        outer = [self._text(each) for each in redirects if each not in node.children]
        inner_line = self._words(words, said, fed=fed, substituted=_substitutes(node))
        for redirect in redirects:
            for each in (redirect, *redirect.children):
                if each.type == "file_redirect":
                    self._redirect(each, said)
        if not said.found:
            name = words[0] if words and words[0] else "it"
            said.add("unknown", f"what {name} does is not known")
        self.parts.append(said.part(" ".join([self._text(node), *outer]), words))
        for each in node.children:
            self._below(each, depth)
        if inner_line is not None:
            self.line(inner_line, depth + 1)

    def _words(
        self, words: list[str | None], said: _Said, *, fed: bool, substituted: bool
    ) -> str | None:
        """Judge the words of one command; gives the line that a shell in it would run."""
        if not words:
            return None
        if words[0] is None:
            said.add("unknown", "which program runs is only known when it runs")
            return None
        name = words[0].rpartition("/")[2]
        row = row_of(name)
        if "/" in words[0]:
            self._paths([words[0]], said, "runs")
        if name in ("cd", "pushd"):
            named = [each for each in words[1:] if each is None or each[:1] != "-" or each == "-"]
            self._go(named[-1] if named else "~")
        if row.does == "privilege":
            said.add("privilege", f"{name} gives it more rights")
        if row.code:
            return self._interpreter(name, words, said, fed=fed, substituted=substituted)
        if name == "env" and any(word and word.startswith(("-S", "--s")) for word in words[1:]):
            said.add("unknown", "env splits a text into a command")
            return None
        if row.wraps and (inner := programs.unwrapped(name, words)):
            line = self._words(inner, said, fed=fed, substituted=substituted)
            if name in ("xargs", "parallel") and "deletes" in said.found:
                said.found["deletes"] += ", whatever it is fed"
            return line
        self._program(name, words, said)
        return None

    def _interpreter(
        self, name: str, words: list[str | None], said: _Said, *, fed: bool, substituted: bool
    ) -> str | None:
        flag, script = programs.inline_script(name, words)
        shell = row_of(name).code == "shell"
        if fed and not flag and not programs.names_a_file(words):
            said.add("pipe to shell", f"{name} runs whatever comes through the pipe")
        elif substituted and (flag or name in ("eval", "source", ".") or shell):
            said.add("pipe to shell", f"{name} runs whatever another command prints")
        elif flag and shell and script is not None:
            said.add("unknown", f"{name} runs the commands below")
            return script
        elif flag:
            said.add("unknown", f"{name} runs the code in its argument")
        elif name == "eval":
            said.add("unknown", "eval runs its words as a command")
            return " ".join(word for word in words[1:] if word)
        elif programs.names_a_file(words):
            said.add("unknown", f"{name} runs a script")
            self._paths(words[1:], said, "runs")
        else:
            said.add("unknown", f"what {name} runs is not known")
        return None

    def _program(self, name: str, words: list[str | None], said: _Said) -> None:
        for effect, reason in programs.of_program(name, words):
            said.add(effect, reason)
        plain = tuple(word for word in words if word is not None)
        if said.found.keys() <= {"reads"} and has_risky_option((name, *plain[1:])):
            said.found.pop("reads", None)
            said.add("unknown", f"an option makes {name} do more than look")
        if not row_of(name).pathless:
            verb = "records" if plain[:2] in programs.RECORDS else _verb(said)
            end = plain.index("--") if "--" in plain else len(plain)
            named = [path for at, word in enumerate(plain) for path in _paths_of(word, at > end)]
            if name == "diff":  # follows the links in a folder
                folders = [here / path for here in self._here for path in named]
                inner = (each for folder in folders for each in folder.glob("*"))
                named += [str(each) for each in inner if each.is_symlink()]
            self._paths(named[1:], said, verb)

    def _literal(self, node: Node) -> str | None:
        """A word as bash would pass it on; None when that is only known when it runs."""
        text = self._text(node)
        match node.type:
            case "word" | "number" | "test_operator":
                return None if re.search(r"[$`]", text) else re.sub(r"\\(.)", r"\1", text)
            case "raw_string":
                return text[1:-1]
            case "string":
                known = all(self._literal(each) == "." for each in node.children if _expands(each))
                return re.sub(r'\\(["\\$`])', r"\1", _HERE.sub(".", text[1:-1])) if known else None
            case "ansi_c_string" if "\\" not in text:
                return text[2:-1]
            case "command_name" | "concatenation":
                pieces = [self._literal(child) for child in node.children] or [text]
                return None if None in pieces else "".join(piece or "" for piece in pieces)
            case "simple_expansion" | "expansion" if text in ("$HOME", "${HOME}"):
                return "~"
            case "simple_expansion" | "expansion" if _HERE.fullmatch(text):
                return "." if b"PWD=" not in self._source else None
            case _:
                return None

    def _redirect(self, node: Node, said: _Said) -> None:
        sign = next((child.type for child in node.children if not child.is_named), "<")
        target = node.child_by_field_name("destination")
        path = self._literal(target) if target is not None else None
        if path == "/dev/null" or (path and path.isdigit() and sign in ("<&", ">&")):
            return
        if sign.startswith("<"):
            self._paths([path], said, "reads")
            return
        said.add("writes", f"writes to {path or 'a file that is only known when it runs'}")
        said.written += [path] if path else []
        self._paths([path], said, "writes")

    def _go(self, target: str | None) -> None:
        """Where relative paths may start from now on; a `cd` that fails changes nothing."""
        if len(self._here) > _MOST_PLACES:  # each step may double them: it may be anywhere now
            self._here.add(Path("/"))
            return
        for here in tuple(self._here):
            place = here / ("/" if target and target[0] == "~" else target or ".")  # not in here
            self._here |= {_by_letters(place), _real(place)}

    def _paths(self, paths: Sequence[str | None], said: _Said, verb: str) -> None:
        for path in paths:
            if path is None or not path:
                continue
            if verb in ("writes", "deletes") and _obeyed(path):
                said.steers = True
            places = [here / path for here in self._here]
            if programs.looks_like_a_path(path) and (
                path.startswith(("~", "file:", "FILE:"))
                or not all(map(self._inside, map(_by_letters, places)))
            ):
                said.add("outside the workspace", f"{verb} {path}, outside the workspace")
            elif verb != "runs" and not all(map(self._inside, map(_real, places))):
                said.add("outside the workspace", f"{verb} {path}, a link out of the workspace")

    def _inside(self, place: Path) -> bool:
        if str(place) in programs.HARMLESS_PLACES:
            return True
        return any(place == root or root in place.parents for root in self._roots)


@cache
def bash_parser() -> Parser:
    """The grammar of bash."""
    # Deferred: most sessions run no command that has to be parsed.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _redirects_of(node: Node) -> tuple[Node, ...]:
    return tuple(each for each in node.children if each.type.endswith("_redirect"))


def _expands(node: Node) -> bool:
    return node.is_named and node.type != "string_content"


def _substitutes(node: Node) -> bool:
    """Whether another command's output becomes part of this one's words."""
    return node.type in ("command_substitution", "process_substitution") or any(
        _substitutes(child) for child in node.children
    )


def _by_letters(place: Path) -> Path:
    """Where a path leads if there is no link on the way."""
    return Path(os.path.normpath(place))


def _real(place: Path) -> Path:
    """Where a path leads once every link on the way is followed; a word that is none stays."""
    return place if "\0" in str(place) else Path(os.path.realpath(place))


def _paths_of(word: str, operand: bool) -> Iterator[str]:
    """The paths that a word may name: itself, or what hangs on an option."""
    if operand or not word.startswith("-"):
        yield word
    elif word.startswith("--"):
        yield word.partition("=")[2]
    else:
        yield from (word[at:] for at in range(2, len(word)))


def _obeyed(path: str) -> bool:
    parts = tuple(part for part in path.split("/") if part not in ("", ".", ".."))
    return steers(parts) or any(plain_name(part) in PROTECTED for part in parts)


def _verb(said: _Said) -> str:
    for effect, verb in (("deletes", "deletes"), ("writes", "writes"), ("reads", "reads")):
        if effect in said.found:
            return verb
    return "uses"
