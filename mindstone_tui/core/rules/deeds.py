"""Deeds: what a call of any agent's tool would do, made from its name and its arguments."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import bounded_json, entries, patterns, transcript
from mindstone_tui.core.entries.actions import PATCHED, done, kind_of, targets_of
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned
from mindstone_tui.core.handoff.environment import git_position
from mindstone_tui.core.rules.book import Ruling, StandingRule, ruling
from mindstone_tui.core.rules.checks import Deed, SeenCommand, commands_of
from mindstone_tui.core.tools.base import Preview
from mindstone_tui.core.tools.verdicts import judge
from mindstone_tui.core.tools.workspace import Workspace

_PUT_THERE: Final = frozenset([
    "new_string", "newString", "newText", "new_text", "new_str", "content", "contents", "text",
    "file_text", "insert_text", "new_source", "code_edit", "replacement",
])  # fmt: skip
"""What an edit puts there, as programs call it."""
_LOOKED_BACK: Final = 400
"""Lines in which what was done since the last change is looked for."""
_JOINED: Final = patterns.pattern_of(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|&&|\d*[<>]&-?\d*|&>>?|\\\n")
_HIDES: Final = patterns.pattern_of(r"[|;&\n]")
"""What lets a line end well though a command in it did not."""
_LOOKS_ONLY: Final = frozenset([
    "--version", "-V", "--help", "-h", "--collect-only", "--co", "--listTests", "--list", "-list",
    "--no-run",
])  # fmt: skip
"""What makes a run of tests none."""
_WENT_WELL: Final = patterns.pattern_of(
    r"(?im)\b[1-9]\d* (?:tests? )?(?:passed|passing)\b|\btest result: ok\b|^ok\b"
    r"|^(?:all checks passed|success\b|build success)"
)
_WENT_WRONG: Final = patterns.pattern_of(
    r"(?im)\b[1-9]\d* (?:tests? )?(?:failed|failing|failures?|errors?|problems?)\b"
    r"|\b(?:failures|errors|failed)[=:] *[1-9]|^\W*(?:fail(?:ed|ure)?|error|not ok)\b"
)
_PATCH: Final = "*** Begin Patch"
_DELETED: Final = patterns.pattern_of(r"(?m)^\*\*\* Delete File: (.{1,400})$")
_PATCH_ADDS: Final = patterns.pattern_of(r"(?m)^\+(?!\+\+ )(.*)$")


def of_call(call: entries.ToolCall, folder: Path) -> Deed:
    """What a call would do; `folder` is where it would work."""
    targets = targets_of(call)
    if kind_of(call.name) == "command":
        return of_command(targets[0] if targets else "", folder, call.name)
    if kind_of(call.name) != "change":
        return Deed(tool=call.name)
    fields = bounded_json.read_arguments(call.arguments) or {}
    gone = (
        targets
        if "delete" in call.name.lower()
        else _DELETED.findall("\n".join(map(str, fields.values())))
    )
    return Deed(
        tool=call.name,
        # However a program deletes a file, it is the same to a rule.
        commands=(SeenCommand(("rm", *gone)),) if gone else (),
        changes=tuple(below(one, folder) for one in targets),
        added="\n".join(_added(fields)),
        branch=lambda: git_position(folder)[0],
    )


def of_command(line: str, folder: Path, tool: str = "shell") -> Deed:
    """What a shell command would do."""
    commands, written = commands_of(judge(line, Workspace((folder,)))) if line else ((), ())
    # A patch in a command is no file of the shell's, but programs take it out and apply it.
    patched, gone = (each.findall(line) if _PATCH in line else [] for each in (PATCHED, _DELETED))
    return Deed(
        tool=tool,
        line=line,
        chained=_chained(line, commands, written),
        commands=(*commands, *([SeenCommand(("rm", *gone))] if gone else [])),
        changes=tuple(below(one, folder) for one in (*written, *patched)),
        added="\n".join(_added({"patch": line})) if patched else "",
        branch=lambda: git_position(folder)[0],
    )


def of_preview(tool: str, preview: Preview, folder: Path) -> Deed:
    """What one of our own calls would do, as it is shown before it runs."""
    commands, written = commands_of(preview.parts)
    place = "/".join(preview.place)
    added = [one[1:] for one in preview.body.splitlines() if one.startswith("+")]
    return Deed(
        tool=tool,
        line=preview.command,
        chained=_chained(preview.command, commands, written),
        commands=commands,
        changes=(*([place] if place else []), *(below(one, folder) for one in written)),
        added="\n".join(added) if place else "",
        branch=lambda: git_position(folder)[0],
    )


def done_in(lines: Iterable[entries.Line], folder: Path) -> list[SeenCommand]:
    """Commands among these lines that ended well since a file was changed.

    Where a pipe or what follows hides how a command ended, its output has to say that it did well.
    """
    asked: dict[str, entries.ToolCall] = {}
    found: list[SeenCommand] = []
    workspace = Workspace((folder,))
    for line in lines:
        if isinstance(line.entry, AssistantMessage):
            asked |= {call.id: call for call in line.entry.calls}
        if not isinstance(line.entry, ToolReturned) or line.entry.call not in asked:
            continue
        for action in done(asked[line.entry.call], line.entry, line):
            if action.kind == "change" and action.ok:
                found.clear()
            elif action.kind == "command":
                commands, written = commands_of(judge(action.about, workspace))
                if _changes(commands, written):
                    found.clear()
                if action.ok and _went_well(action.about, line.entry.text):
                    found += [one for one in commands if _LOOKS_ONLY.isdisjoint(one.words)]
    return found


def _changes(commands: Iterable[SeenCommand], written: Iterable[str]) -> bool:
    """Whether files are changed; what git takes by their name it changes in its own way."""
    of_git = (word for one in commands if one.words[:1] == ("git",) for word in one.words)
    return bool({*written}.difference(of_git))


def _chained(line: str, commands: Sequence[SeenCommand], written: Iterable[str]) -> bool:
    looks = any(not _LOOKS_ONLY.isdisjoint(one.words) for one in commands)
    joined = not _HIDES.search(_JOINED.sub(" ", line))
    return joined and not looks and not _changes(commands, written)


def _went_well(command: str, output: str) -> bool:
    if not _HIDES.search(_JOINED.sub(" ", command)):
        return True  # its exit code was that of everything in it
    return bool(_WENT_WELL.search(output)) and not _WENT_WRONG.search(output)


def done_lately(history: transcript.History, folder: Path) -> list[SeenCommand]:
    """Commands of a session that ended well since a file was changed."""
    lines = list(history.newest(("assistant_message", "tool_returned"), _LOOKED_BACK))
    return done_in(reversed(lines), folder)


class BrokenRule(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded call that the rules would not have let through."""

    line: int
    turn: int
    call: entries.ToolCall
    said: Ruling


def broken_in(
    lines: Iterable[entries.Line], rules: list[StandingRule], folder: Path
) -> Iterator[BrokenRule]:
    """The calls of a recorded session that rules speak against, in their order."""
    before: list[entries.Line] = []
    for line in lines:
        if isinstance(line.entry, AssistantMessage):
            for call in line.entry.calls:
                deed = msgspec.structs.replace(
                    of_call(call, folder), branch=str, done=lambda: done_in(before, folder)
                )
                said = ruling(rules, deed)
                if said.rule is not None:
                    yield BrokenRule(line=line.seq, turn=line.turn, call=call, said=said)
        if isinstance(line.entry, AssistantMessage | ToolReturned):
            before.append(line)


def below(path: str, folder: Path) -> str:
    """A path as it lies below the folder of the work, where it does."""
    given = Path(path)
    inside = given.is_absolute() and given.is_relative_to(folder)
    return str(given.relative_to(folder)) if inside else path


def _added(fields: Mapping[str, object]) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, str):
            if name in _PUT_THERE:
                yield value
            elif _PATCH in value or value.startswith(("--- ", "diff ")):
                yield from _PATCH_ADDS.findall(value)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, dict):
                    yield from _added(one)
