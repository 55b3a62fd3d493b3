"""What a project says it does not care about: `.gitignore` files, read as git reads them.

Only the project's own files count: each `.gitignore` for its folder and below, and the repository's
`info/exclude`. Nothing is run to find out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mindstone_tui.core.patterns import pattern_of

_CLASS: Final = pattern_of(r"\[(!|\^)?(\]?[^\]\\]*(?:\\.[^\]\\]*)*)\]")


class IgnoreRules:
    """The rules of one file, for paths relative to its folder; a later line wins."""

    def __init__(self, text: str) -> None:
        self._rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]
        parts = [rule.source for rule in self._rules]
        self._any = re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Whether this file ignores the path; None when it says nothing about it."""
        if not self._any.fullmatch(path):
            return None
        for rule in reversed(self._rules):
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                return not rule.negated
        return None


class _Rule:
    """One line of a file."""

    def __init__(self, source: str, *, negated: bool, folders_only: bool) -> None:
        self.source = source
        self.pattern = re.compile(source, re.DOTALL)
        self.negated = negated
        self.folders_only = folders_only


def ignored(stack: Iterable[tuple[int, IgnoreRules]], path: str, *, folder: bool) -> bool:
    """What the innermost file says that says anything; `stack` has the outermost first.

    The number beside the rules is the length of their folder's path with its slash.
    """
    found: bool | None = None
    for length, rules in stack:
        said = rules.verdict(path[length:], folder=folder)
        found = said if said is not None else found
    return bool(found)


def _rule(line: str) -> _Rule | None:
    line = re.sub(r"(?<!\\)[ \t]+\Z", "", line.rstrip("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    pattern = line[negated:]
    folders_only = pattern.endswith("/") and not pattern.endswith("\\/")
    pattern = pattern[:-1] if folders_only else pattern
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern:
        return None
    try:
        source = _translated(pattern)
        return _Rule(
            source if anchored else f"(?:.*/)?{source}", negated=negated, folders_only=folders_only
        )
    except re.error:
        return None


def _translated(pattern: str) -> str:
    """A pattern as a regular expression for a whole path."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            out.append("(?:.*/)?")
            at += 3
            continue
        if pattern[at:] == "**" and at and pattern[at - 1] == "/":
            out.append(".+")
            break
        if sign == "*":
            while at + 1 < len(pattern) and pattern[at + 1] == "*":
                at += 1
            out.append("[^/]*")
        elif sign == "?":
            out.append("[^/]")
        elif sign == "[" and (found := _CLASS.match(pattern, at)):
            body = re.sub(r"([\[&~|])", r"\\\1", found[2])
            body = f"\\{body}" if body.startswith("]") else body
            out.append(f"(?!/)[{'^' if found[1] else ''}{body}]")
            at = found.end()
            continue
        elif sign == "\\" and at + 1 < len(pattern):
            at += 1
            out.append(re.escape(pattern[at]))
        else:
            out.append(re.escape(sign))
        at += 1
    return "".join(out)
