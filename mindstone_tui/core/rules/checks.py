"""Checks: what a rule forbids or wants to be asked about, held against what a call would do.

A check says no only where it sees what the rule's words name. What is hidden in a variable, or in a
script that was written before, cannot be seen: a command that could be the forbidden one is asked
about, and everything else is let be.
"""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final, Literal

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.tools.programs import RECORDS, Program, of_program, row_of, unwrapped
from mindstone_tui.core.tools.verdicts import CommandPart
from mindstone_tui.core.values import Value

Verdict = Literal["allow", "ask", "deny"]
_TARGETS: Final = {"+": "a target like `+main`", ":": "a target like `:old`"}
"""Signs before a branch that do to it what an option does."""
_SHOWN: Final = 4
"""Commands of a check that are named where it is told."""
_RUN_OPTIONS: Final = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-x", "--exec"))
_PROSE: Final = (".md", ".mdx", ".markdown", ".rst", ".adoc", ".txt")
_KEYWORDS: Final = frozenset(("if", "then", "else", "elif", "do", "while", "until", "!", "time"))
_MOST_LINES: Final = 2_000
"""Of a command that cannot be read, so many lines are looked at."""
_MOST_WORDS, _LONGEST_RUN, _MOST_FOUND = 5_000, 200, 20_000
"""Words of a part, words of a command that another may run, and commands in all that are looked at:
no work needs more, and 100 KB of words would take 10 GB. What is cut off counts as hidden."""
_COPIES: Final = frozenset(("cp", "scp", "rsync", "install", "ln"))
"""They change what is named last, and only read the rest."""
_MODE_FIRST: Final = frozenset(("sed", "chmod"))
"""A script or a mode is named before the files, unless a longer option holds it."""
_INTO: Final = ("-t", "--target-directory")
_ERASES: Final = frozenset(("rm", "rmdir", "unlink", "shred", "srm", "trash"))


class CommandForm(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of command: every part that is given must be met."""

    program: str
    action: tuple[str, ...] = ()
    """The first words that are no options, in order."""
    options: tuple[str, ...] = ()
    """One of them must be among its options; `+` is a target that begins with it."""
    without: tuple[str, ...] = ()
    """None of them may be among its options."""
    targets: tuple[str, ...] = ()
    """One of them must be what it acts on."""
    on: tuple[str, ...] = ()
    """Only while one of these branches is checked out."""
    operands: int | bool = 0
    """So many things it must name beyond its action."""
    says: tuple[str, ...] = ()
    """One of them must stand in the line, whatever its case."""

    def __str__(self) -> str:
        """As a person would write it."""
        said = f"`{' '.join((self.program, *self.action, *(['…'] * self.operands)))}`"
        if self.options:
            named = [_TARGETS.get(one, f"`{one}`") for one in self.options]
            said += f" with {_either(named)}"
        if self.without:
            said += f" without {_either([f'`{one}`' for one in self.without])}"
        if self.targets:
            said += f" to {_either(list(self.targets))}"
        if self.says:
            said += f" where the line says {_either([f'`{one}`' for one in self.says])}"
        return f"{said} while on {_either(list(self.on))}" if self.on else said


class RuleCheck(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule comes to: any of its parts that fits makes it speak."""

    verdict: Literal["ask", "deny"] = "deny"
    commands: tuple[CommandForm, ...] = ()
    paths: tuple[str, ...] = ()
    """Files and folders that may not be changed."""
    deletes: tuple[str, ...] = ()
    """Files and folders that may not be deleted."""
    outside: tuple[str, ...] = ()
    """Folders beyond which nothing may be changed."""
    adds: tuple[str, ...] = ()
    """Words that no change may add,"""
    inside: tuple[str, ...] = ()
    """to files in these folders; empty for all."""
    looks: str = ""
    """How they look in code, where that is known better than word by word."""
    tools: tuple[str, ...] = ()
    first: tuple[CommandForm, ...] = ()
    """It may be done once one of these ended well since the last change."""
    instead: str = ""
    """What is to be used in its place."""

    def __str__(self) -> str:
        """What it refuses or asks about, in plain words."""
        return self.told(_SHOWN)

    def told(self, most: int) -> str:
        """The same with so many commands by name."""
        parts = [str(one) for one in self.commands[:most]]
        more = len(self.commands) - most
        parts += [f"{more} more of the kind"] if more > 0 else []
        parts += [f"a change of {path}" for path in self.paths]
        parts += [f"the deletion of {path} or anything in it" for path in self.deletes]
        if self.outside:
            parts.append(f"a change of anything outside {_either(list(self.outside))}")
        if self.adds:
            where = f" to {_either(list(self.inside))}" if self.inside else ""
            mark = "" if self.looks else "`"  # what is known by its looks was only called so
            words = _either([f"{mark}{one}{mark}" for one in self.adds])
            parts.append(f"a change that adds {words}{where}")
        parts += [f"the tool {one}" for one in self.tools]
        said = f"{'asks before' if self.verdict == 'ask' else 'refuses'}: {'; '.join(parts)}"
        if self.first:
            named = [str(one) for one in self.first[:_SHOWN]]
            first = _either([*named, *(["the like"] if len(self.first) > _SHOWN else [])])
            said += f", unless {first} ended well since the last change"
        if self.instead:
            said += f" (use {self.instead})"
        return f"{said}. Allows everything else."


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


class SeenCommand(msgspec.Struct, frozen=True):
    """A simple command as far as its words can be seen."""

    words: tuple[str, ...]
    hidden: bool = False
    """Some of its words are only known when it runs."""


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of a tool would do, whichever agent makes it."""

    tool: str
    line: str = ""
    """The shell command, as it stands."""
    chained: bool = False
    """Each command of it runs only where the one before ended well, and no file is changed."""
    commands: tuple[SeenCommand, ...] = ()
    changes: tuple[str, ...] = ()
    """Files that would change, as paths below the folder of the work where they lie there."""
    added: str = ""
    """What a change would add to them."""
    branch: Callable[[], str] = str
    """The branch that is checked out, where that is known."""
    done: Callable[[], Sequence[SeenCommand]] = tuple
    """Commands that ended well since the last change."""


def commands_of(parts: Iterable[CommandPart]) -> tuple[tuple[SeenCommand, ...], tuple[str, ...]]:
    """The simple commands of a shell command, without what wraps them; and files they write.

    An alias that the same command sets is put out, of the shell and of git.
    """
    found: list[SeenCommand] = []
    written: list[str] = []
    aliases: dict[str, list[str]] = {}
    for part in (seen for one in parts for seen in _as_lines(one)):
        written += part.written
        words: list[str | None] = list(part.words[:_MOST_WORDS])
        aliases |= _named_anew(part.words[:_MOST_WORDS])
        left = dict(aliases)
        while words and len(found) < _MOST_FOUND:
            words = _spelt_out(words, left)
            hidden = part.hidden or len(part.words) > _MOST_WORDS
            found.append(SeenCommand(tuple(one for one in words if one is not None), hidden))
            name = (words[0] or "").rpartition("/")[2]
            # Not what the whole part does: where its output goes says nothing of its words.
            writes = False
            with contextlib.suppress(RecursionError):
                writes = any(it in ("writes", "deletes") for it, _ in of_program(name, words))
            if writes and (name, *words[1:2]) not in RECORDS:
                named = [one for one in words[1:] if one and not one.startswith("-")]
                options = [one for one in words[1:] if one and one.startswith("-")]
                bare = name in _MODE_FIRST and all(len(one) < 4 for one in options)
                if (bare or name == "git") and len(named) > 1 and None not in words:
                    del named[0]
                last = name in _COPIES and not any(_is_option(one, _INTO) for one in options)
                written += named[-1:] if last else named
            found += _run_by(name, [one for one in words if one is not None])
            words = unwrapped(name, words) if row_of(name).wraps else []
    return tuple(found), tuple(dict.fromkeys(written))


def _as_lines(part: CommandPart) -> Iterator[CommandPart]:
    """A part, and of one that cannot be read what stands in its lines.

    Bash carries out the lines before the one that breaks it.
    """
    yield part
    if not part.words:
        for line in islice(pattern_of(r"[;&|\n(){}]+").split(part.text, _MOST_LINES), _MOST_LINES):
            words = [word.strip("'\"") for word in line.split(None, _MOST_WORDS)]
            while words and words[0] in _KEYWORDS:
                words.pop(0)
            yield msgspec.structs.replace(part, text=line, words=tuple(words), written=())


def _run_by(name: str, words: Sequence[str]) -> Iterator[SeenCommand]:
    """What a program that runs others, or one that nobody knows, may run of its words.

    Wherever a command begins among them, and whatever of them is a line itself.
    """
    row = row_of(name)
    action = next((one for one in words[1:] if not one.startswith("-")), "")
    first = next((at for at, one in enumerate(words) if one in _RUN_OPTIONS), 0)
    sets_up = not {"*", action}.isdisjoint(row.sets_up)
    if first or row.opaque or row == Program() or sets_up:
        if sets_up and not first and action in row.sets_up:
            first = words.index(action)  # which is its own: `uv pip` does not run pip
        for at in range(first + 1, len(words)):
            yield SeenCommand(tuple(words[at : at + _LONGEST_RUN]), len(words) - at > _LONGEST_RUN)
            value = pattern_of(r"\A--[\w-]+=").sub("", words[at])
            for line in pattern_of(r"&&|[;&|\n]").split(value) if " " in value else ():
                with contextlib.suppress(ValueError):
                    said = shlex.split(line)
                    yield SeenCommand(tuple(said))
                    if said and row_of(said[0]).wraps:
                        yield SeenCommand(tuple(one for one in unwrapped(said[0], [*said]) if one))


def _named_anew(words: Sequence[str]) -> dict[str, list[str]]:
    """Aliases that a command sets: those of the shell by name, those of git behind `git `."""
    found: dict[str, list[str]] = {}
    for at, word in enumerate(words[1:], 1):
        name, _, value = word.removeprefix("-c").partition("=")
        with contextlib.suppress(ValueError):
            if words[0] == "alias":
                found[name] = shlex.split(value)
            elif name.startswith("alias.") and _plain(words[0]) == "git":
                value = value or "".join(words[at + 1 : at + 2])
                first = [] if value.startswith("!") else ["git"]
                found[f"git {name[6:].lower()}"] = [*first, *shlex.split(value.removeprefix("!"))]
    return found


def _spelt_out(words: list[str | None], aliases: dict[str, list[str]]) -> list[str | None]:
    """A command with the aliases that it begins with put out; each is put out once."""
    seen = [one for one in words if one is not None]
    program = _plain(seen[0]) if seen else ""
    if program.startswith(("git-", "docker-compose")):
        return [*program.split("-", 1), *words[1:]]
    action = _apart(seen)[1][:1] if program == "git" else ()
    named = {one: one for one in seen[:1]} | {f"git {one.lower()}": one for one in action}
    for key, name in named.items():
        if stands_for := aliases.pop(key, None):
            return _spelt_out([*stands_for, *words[words.index(name) + 1 :]], aliases)
    return words


def _erased(words: Sequence[str]) -> Sequence[str]:
    """The files that a command deletes."""
    name = _plain(words[0]) if words else ""
    if name == "git":
        operands = _apart(words)[1]
        return operands[1:] if operands[:1] == ("rm",) and "--cached" not in words else ()
    erases = name in _ERASES or (name == "find" and not {"-delete", "rm"}.isdisjoint(words))
    return words[1:] if erases else ()


def verdict_of(check: RuleCheck, act: Deed) -> Verdict:
    """What a check says to an act."""
    seen = [_fits(form, one, act) for form in check.commands for one in act.commands]
    seen += [_lies_in(path, check.paths) for path in act.changes]
    erased = (path for one in act.commands for path in _erased(one.words))
    seen += [_lies_in(path, check.deletes) or _may_hold(path, check.deletes) for path in erased]
    if check.deletes:  # of what is only known when it runs, nobody can say that it is not meant
        seen += [None for one in act.commands if one.hidden and _erased((*one.words, "?"))]
    if check.outside:
        seen += [not _lies_in(path, check.outside) for path in act.changes]
    # How something looks in code says nothing of a text about it.
    prose = bool(act.changes) and all(path.lower().endswith(_PROSE) for path in act.changes)
    code = check.looks if not prose else ""
    there = not check.inside or any(_lies_in(path, check.inside) for path in act.changes)
    added = pattern_of(code).search(act.added) if code and there else None
    seen += [act.tool in check.tools, added is not None]
    seen.append(there and not check.looks and _adds(check.adds, act.added))
    if not any(one is not False for one in seen):
        return "allow"
    if check.first:
        fits = [any(_fits(form, one, act) for form in check.commands) for one in act.commands]
        before = act.commands[: fits.index(True)] if act.chained and True in fits else ()
        done = (*before, *act.done())
        if any(_fits(form, one, act) for form in check.first for one in done):
            return "allow"
    return check.verdict if True in seen else "ask"


def _fits(form: CommandForm, command: SeenCommand, act: Deed) -> bool | None:
    """Whether a command is of a form; None where that cannot be seen."""
    words = command.words
    if not words or form.program not in (_plain(words[0]), words[0].rpartition("/")[2]):
        return False
    options, operands = _apart(words)
    if any(_is_option(one, form.without) for one in options):
        return False
    if form.program == "git" and form.action == ("rm",) and "--cached" in options:
        return False  # the file stays
    if operands[: len(form.action)] != form.action:
        hidden = command.hidden and form.action[: len(operands)] == operands
        return None if hidden else False
    rest = operands[len(form.action) :]
    if form.on and act.branch() not in form.on:
        return False
    met = [True]
    if form.options:
        signs = tuple(_TARGETS.keys() & form.options)
        met.append(
            any(one.startswith(signs) for one in rest)
            or any(_is_option(one, form.options) for one in options)
        )
    if form.operands:
        met.append(len(rest) >= form.operands)
    if form.says:
        met.append(any(_spelt(one).search(act.line) for one in form.says))
    if form.targets:
        sent = (one.lstrip("+").rpartition(":")[2].removeprefix("refs/heads/") for one in rest)
        named = [act.branch() if one in ("HEAD", "@") else one for one in sent]
        # Without a target of its own, a push goes to the branch that is checked out.
        goes = named if len(rest) > 1 else [*named, act.branch()]
        every = any(_is_option(one, ("--all", "--branches", "--mirror")) for one in options)
        pairs = ((one, each) for one in goes for each in form.targets if one)
        met.append(every or any(fnmatchcase(*pair) or fnmatchcase(*pair[::-1]) for pair in pairs))
    if all(met):
        return True
    return None if command.hidden else False


def _plain(program: str) -> str:
    """A program without its folder and version: /usr/bin/python3.11 is python."""
    return pattern_of(r"(?<=[a-z])\d+(?:\.\d+)*\Z").sub("", program.rpartition("/")[2])


def _apart(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Options, and what is none, without the values of options that come before the action."""
    valued = row_of(words[0].rpartition("/")[2]).valued
    options: list[str] = []
    operands: list[str] = []
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-" and " " not in word.partition("=")[0]:
            options.append(word)  # not a message that begins with a dash
            skip = operands in ([], ["compose"]) and word in valued
        else:
            operands.append(word)
    return options, tuple(operands)


def _is_option(word: str, wanted: Iterable[str]) -> bool:
    name = word.partition("=")[0]
    for one in wanted:
        if name == one:
            return True
        short = len(one) == 2 and one[0] == "-" and one[1] != "-"
        if short and not name.startswith("--") and one[1] in name[1:]:
            return True
        # Programs take a long option by any beginning of its name that is long enough.
        if one.startswith("--") and len(name) > 4 and one.startswith(name):
            return True
    return False


def _lies_in(path: str, places: Iterable[str]) -> bool:
    """Whether a path is one of these, lies in one of these folders, or fits its stars."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for place in places:
        wanted = [part for part in place.strip("/").split("/") if part]
        for at in range(len(parts) - len(wanted) + 1):
            if all(fnmatchcase(part, one) for one, part in zip(wanted, parts[at:], strict=False)):
                return True
    return False


def _may_hold(path: str, places: Iterable[str]) -> bool | None:
    """None, which is to be asked about, for a folder above one of these, or stars that may fit."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    wanted = (place.strip("/").split("/") for place in places)
    return None if any(all(map(fnmatchcase, each, parts)) for each in wanted) else False


def _spelt(words: str) -> re.Pattern[str]:
    """Words as they stand in a line, however much room is between them."""
    inside = r"\s+".join(map(re.escape, words.split()))
    inside = re.sub(r"(?<=\W)\\s\+|\\s\+(?=\W)", r"\\s*", inside)
    opens, ends = (r"\b" if one.isalnum() else "" for one in (words[0], words[-1]))
    return pattern_of(rf"{opens}{inside}{ends}", re.IGNORECASE)


def _adds(wanted: Iterable[str], text: str) -> bool:
    spelt = (rf"(?<![\w.]){re.escape(one)}(?!\w)" for one in wanted)
    return any(pattern_of(one).search(text) is not None for one in spelt)
