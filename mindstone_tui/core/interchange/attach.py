"""Our lines in other programs' settings: planned, shown, written, and taken out again.

A plan is made from what the files say now and changes nothing. Undoing gives back the bytes that
were there; where somebody changed a file since, only our own lines leave it.
"""

import contextlib
import difflib
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import disk, patterns
from mindstone_tui.core.config.edit import toml_value
from mindstone_tui.core.errors import InterchangeError, MindstoneError
from mindstone_tui.core.interchange import json_edit, launcher
from mindstone_tui.core.interchange.attach_targets import (
    BEFORE_A_TOOL,
    SERVER,
    TARGETS,
    AttachCommand,
    AttachTarget,
    settings_files,
)
from mindstone_tui.core.paths import Places, written_beside

_LARGEST: Final = 64 << 20


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """One file of another program, as it is and as it would be."""

    path: Path
    before: bytes | None
    """None where there is no file."""
    after: bytes | None
    """None where the file goes, because it was made for us alone."""

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after

    def diff(self, clean: Callable[[str], str] = str) -> list[str]:
        """What changes, for a person, without the secrets around it."""
        old, new = (
            (each or b"").decode("utf-8", "replace").splitlines()
            for each in (self.before, self.after)
        )
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), n=2, lineterm="")
        return [clean(line) for line in lines]


class _WrittenFile(msgspec.Struct, kw_only=True):
    """What is remembered of one file that was changed."""

    path: str
    before: bytes | None
    after: str
    """SHA-256 of what was written."""


class _Attachments(msgspec.Struct):
    """What is remembered of all of them, by program and place."""

    files: dict[str, list[_WrittenFile]] = {}


def plan_attach(
    program: AttachTarget,
    command: AttachCommand,
    environ: Mapping[str, str],
    project: Path | None = None,
    *,
    without_comments: bool = False,
) -> list[SettingsChange]:
    """What would be written; everything else in the files stays as it is, byte for byte.

    Comments, too, unless the program reads no file that has any; then they go if that is wanted.
    """
    changes: dict[Path, SettingsChange] = {}
    for part, path in settings_files(program, environ, project).items():
        real = _real(path)
        known = changes.get(real)
        before = known.before if known else _read(real)
        text = _text(real, known.after if known else before)
        with _naming(real):
            if program.strict and real.suffix == ".json":
                text = _readable(text, program, without_comments=without_comments)
            if part == "hooks":
                text = _with_hooks(text, program, command)
            elif real.suffix == ".toml":
                text = _with_toml_server(text, program, command)
            elif real.suffix in _LINES:
                text = _with_lines(real, text, program, command)
            else:
                text = _with_server(text, program, command)
        changes[real] = SettingsChange(path=real, before=before, after=text.encode())
    return list(changes.values())


def _readable(text: str, program: AttachTarget, *, without_comments: bool) -> str:
    """The text, if the program reads it, or as it would read it."""
    if without_comments:
        return json_edit.without_extras(text)
    if line := json_edit.line_with_extras(text):
        raise InterchangeError(
            f"line {line} has a comment or a trailing comma, and {program.title} reads no settings "
            "with those: nothing in that file holds, and our lines would not either",
            f"`mindstone attach {program.name} --without-comments` takes them out as well; "
            "--undo gives them back.",
        )
    return text


def plan_detach(
    places: Places, program: AttachTarget, environ: Mapping[str, str], project: Path | None = None
) -> list[SettingsChange]:
    """What undoing would write: the bytes from before, or the file of now without our lines."""
    remembered = {it.path: it for it in _stored(places).files.get(_name(program, project), [])}
    named = settings_files(program, environ, project).values()
    changes: list[SettingsChange] = []
    for path in dict.fromkeys([*map(_real, named), *map(Path, remembered)]):
        if (now := _read(path)) is None:
            continue
        written = remembered.get(str(path))
        if written is not None and hashlib.sha256(now).hexdigest() == written.after:
            after = written.before
        else:
            with _naming(path):
                text = _without_ours(path, _text(path, now), program)
            made_by_us = written is not None and written.before is None
            after = None if made_by_us and not _says_anything(text) else text.encode()
        changes.append(SettingsChange(path=path, before=now, after=after))
    return changes


def apply(places: Places, changes: Iterable[SettingsChange]) -> None:
    """Write a plan: all of its files, or none."""
    wanted = [each for each in changes if each.changes]
    for each in wanted:
        _check_unchanged(each)
    with disk.writing_beside(written_beside(places), [each.path for each in wanted]):
        _write(wanted)


def _write(wanted: Sequence[SettingsChange]) -> None:
    done: list[SettingsChange] = []
    try:
        for each in wanted:
            _put(each.path, each.after)
            done.append(each)
    except (OSError, MindstoneError) as error:
        for written in reversed(done):
            with contextlib.suppress(OSError, MindstoneError):
                _put(written.path, written.before)
        why = getattr(error.__cause__ or error, "strerror", None) or error
        raise InterchangeError(
            f"{each.path} cannot be written: {why}. Nothing was changed.",
            "Check the permissions of the file and its folder.",
        ) from error


def remember(
    places: Places, program: AttachTarget, changes: Iterable[SettingsChange], project: Path | None
) -> None:
    """Keep what the files were before, so that undoing can give it back."""
    kept = _stored(places)
    name = _name(program, project)
    known = {each.path: each for each in kept.files.get(name, [])}
    for each in changes:
        if not each.changes or each.after is None:
            continue
        earlier = known.get(str(each.path))
        digest = hashlib.sha256(each.before or b"").hexdigest()
        # Attached twice without a change in between: the oldest bytes are the ones to go back to.
        same = earlier is not None and earlier.after == digest
        if earlier is not None and same:
            before = earlier.before
        else:
            before = _theirs(
                each, program, made_by_us=earlier is not None and earlier.before is None
            )
        after = hashlib.sha256(each.after).hexdigest()
        known[str(each.path)] = _WrittenFile(path=str(each.path), before=before, after=after)
    kept.files[name] = list(known.values())
    disk.replace_file(_kept_file(places), msgspec.json.encode(kept))


def forget(places: Places, program: AttachTarget, project: Path | None) -> None:
    """Undone: nothing is kept of it any more."""
    kept = _stored(places)
    if kept.files.pop(_name(program, project), None) is not None and kept.files:
        disk.replace_file(_kept_file(places), msgspec.json.encode(kept))
    if not kept.files:
        _kept_file(places).unlink(missing_ok=True)
        launcher.remove_launcher(places)


def everything_attached(places: Places) -> list[tuple[AttachTarget, Path | None]]:
    """Each program with its project, as remembered; and each for the person, if it is forgotten."""
    names = [each.partition(" ") for each in _stored(places).files]
    known = [(TARGETS[name], Path(folder)) for name, _, folder in names if folder]
    return [*((each, None) for each in TARGETS.values()), *known]


def without_rules(places: Places) -> list[str]:
    """Programs, with their projects, without the hook by which rules hold in them."""
    found: list[str] = []
    for name, files in _stored(places).files.items():
        program = TARGETS[name.partition(" ")[0]]
        written = b"".join(_read(Path(each.path)) or b"" for each in files)
        if program.hooks and f" {program.name} before".encode() not in written:
            found.append(name)
    return found


def is_attached(places: Places) -> bool:
    """Whether any program is, wherever its settings stand."""
    return _kept_file(places).exists()


# Our lines


def _is_ours(command: object, program: AttachTarget) -> bool:
    return (
        isinstance(command, str)
        and "mindstone" in command
        and re.search(rf"\bhook'? {re.escape(program.name)}\b", command) is not None
    )


def _with_hooks(text: str, program: AttachTarget, command: AttachCommand) -> str:
    lines = {event: command.hook(program.name, event) for event in program.events}
    if _hooks_in(text, program) == {event: [line] for event, line in lines.items()}:
        return text
    text = _without_hooks(text, program)
    for event, line in lines.items():
        # A call that a rule may refuse waits for a busy machine; Codex wants the others short.
        seconds = program.timeout * (3 if event in BEFORE_A_TOOL else 1)
        hook = {"type": "command", "command": line, "timeout": seconds}
        text = json_edit.with_item(text, ("hooks", event), {"hooks": [hook]})
    return text


def _with_server(text: str, program: AttachTarget, command: AttachCommand) -> str:
    known, server = json_edit.parse(text).get(program.key), command.server(program)
    ours = known.get(SERVER) if known is not None else None
    if ours is not None:
        if json_edit.plain(ours) == server:
            return text
        text = json_edit.without(text, (program.key, SERVER))
    return json_edit.with_member(text, (program.key,), SERVER, server)


def _hooks_in(text: str, program: AttachTarget) -> dict[str, list[str]]:
    """Our hooks as they stand there, by event."""
    found: dict[str, list[str]] = {}
    for event, _, command in _own_hooks(text, program):
        found.setdefault(event, []).append(command)
    return found


def _own_hooks(text: str, program: AttachTarget) -> list[tuple[str, tuple[int, int | None], str]]:
    """Each of our hooks: its event, where it stands, and its command.

    The second number is None where the group holds nothing else.
    """
    found: list[tuple[str, tuple[int, int | None], str]] = []
    hooks = json_edit.parse(text).get("hooks")
    for member in (hooks.members if hooks is not None else None) or []:
        for at, group in enumerate(member.node.items or []):
            inside = group.get("hooks")
            calls = (inside.items if inside is not None else None) or []
            for inner, call in enumerate(calls):
                command = call.get("command")
                if command is not None and _is_ours(command.value, program):
                    alone = len(calls) == 1
                    found.append((member.key, (at, None if alone else inner), command.value))
    return found


def _without_hooks(text: str, program: AttachTarget) -> str:
    was = text
    while found := _own_hooks(text, program):
        event, (at, inner), _ = found[-1]
        if inner is not None:
            text = json_edit.without(text, ("hooks", event, at, "hooks", inner))
            continue
        text = json_edit.without(text, ("hooks", event, at))
        hooks = json_edit.parse(text).get("hooks")
        left = hooks.get(event) if hooks is not None else None
        if left is not None and left.items == []:
            text = json_edit.without(text, ("hooks", event))
    hooks = json_edit.parse(text).get("hooks")
    is_empty = text != was and hooks is not None and hooks.members == []
    return json_edit.without(text, ("hooks",)) if is_empty else text


def _theirs(change: SettingsChange, program: AttachTarget, *, made_by_us: bool) -> bytes | None:
    """A file as it was, without older lines of ours: those are nothing to go back to."""
    if change.before is None:
        return None
    text = _text(change.path, change.before)
    if (left := _without_ours(change.path, text, program)) == text:
        return change.before
    return None if made_by_us and not _says_anything(left) else left.encode()


def _without_ours(path: Path, text: str, program: AttachTarget) -> str:
    if path.suffix == ".toml":
        return _without_toml_server(text)
    if path.suffix in _LINES:
        return _LINES[path.suffix].sub("", text)
    text = _without_hooks(text, program)
    servers = json_edit.parse(text).get(program.key)
    if servers is not None and servers.get(SERVER) is not None:
        text = json_edit.without(text, (program.key, SERVER))
        left = json_edit.parse(text).get(program.key)
        if left is not None and left.members == []:
            text = json_edit.without(text, (program.key,))
    return text


_LINES: Final = {
    ".yaml": patterns.pattern_of(rf"^([ ]+){SERVER}:.*\n(?:\1[ ]+.*\n)*", re.MULTILINE),
    ".md": patterns.pattern_of(
        rf"\n?<!-- {SERVER} -->\n(?:(?!<!-- {SERVER} -->).)*?<!-- /{SERVER} -->\n", re.DOTALL
    ),
}
"""Our lines in files that are neither JSON nor TOML."""
_EXTENSIONS: Final = patterns.pattern_of(
    r"^extensions:[ \t]*\n(?=(?:[ \t]*(?:#.*)?\n)*(?:([ ]+)[^\s-]|\S|\Z))", re.MULTILINE
)


def _with_lines(path: Path, text: str, program: AttachTarget, command: AttachCommand) -> str:
    """One line of YAML, which holds JSON, in the table of extensions; or a paragraph of words."""
    left = _LINES[path.suffix].sub("", text)
    whole = left if not left or left.endswith("\n") else f"{left}\n"
    if path.suffix == ".md":
        gap = "\n" if whole else ""
        return f"{whole}{gap}<!-- {SERVER} -->\n{command.guidance()}<!-- /{SERVER} -->\n"
    found = _EXTENSIONS.search(whole)
    if found is None and re.search(r"^extensions:", whole, re.MULTILINE):
        raise InterchangeError("its `extensions` leave no place for another", "Correct it first.")
    before, after = (whole[: found.end()], whole[found.end() :]) if found else (whole, "")
    head = "" if found else "extensions:\n"
    indent = (found[1] if found else None) or "  "
    line = msgspec.json.encode(command.server(program)).decode()
    return f"{before}{head}{indent}{SERVER}: {line}\n{after}"


_TOML_TABLE: Final = patterns.pattern_of(
    rf"^\[mcp_servers\.{SERVER}(?:\.\w+)?\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE
)


def _with_toml_server(text: str, program: AttachTarget, command: AttachCommand) -> str:
    known = _toml(text).get("mcp_servers", {}).get(SERVER)
    server = command.server(program)
    if known == server:
        return text
    text = _without_toml_server(text) if known is not None else text
    lines = [f"[mcp_servers.{SERVER}]", *(f"{key} = {toml_value(server[key])}" for key in server)]
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    written = f"{text}{gap}" + "\n".join(lines) + "\n"
    if _toml(written).get("mcp_servers", {}).get(SERVER) != server:
        raise InterchangeError("its tables leave no place for another server", "Correct it first.")
    return written


def _without_toml_server(text: str) -> str:
    if (left := _TOML_TABLE.sub("", text)) != text and not _TOML_TABLE.search(left):
        left = re.sub(r"\n\n+\Z", "\n", left)
    _toml(left)
    return left


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InterchangeError(f"it is no TOML: {error}", "Correct it first.") from error


# The files


def _name(program: AttachTarget, project: Path | None) -> str:
    return f"{program.name} {project}" if project is not None else program.name


def _kept_file(places: Places) -> Path:
    return places.state / "attached.json"


def _stored(places: Places) -> _Attachments:
    return disk.read_stored(_kept_file(places), _Attachments) or _Attachments({})


def _real(path: Path) -> Path:
    """The file itself, where a link leads to it: whoever manages settings with links keeps them."""
    return Path(os.path.realpath(path))


def _read(path: Path) -> bytes | None:
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST:
            raise InterchangeError(f"{path} is no settings file.", "Nothing was changed.")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise InterchangeError(
            f"{path.parent} is a file, but a folder is needed there. Nothing was changed.",
            "Move it away first.",
        ) from error
    except OSError as error:
        raise InterchangeError(
            f"{path} cannot be read: {error.strerror}. Nothing was changed.",
            "Check its permissions.",
        ) from error


def _text(path: Path, raw: bytes | None) -> str:
    empty = "{}\n" if path.suffix == ".json" else ""
    try:
        text = (raw or b"").decode()
    except UnicodeDecodeError as error:
        raise InterchangeError(f"{path} is no text. Nothing was changed.", "Correct it.") from error
    return text if text.strip("\ufeff \t\r\n") else empty


@contextlib.contextmanager
def _naming(path: Path) -> Any:
    """Say which file it was, and that nothing was done to it."""
    try:
        yield
    except InterchangeError as error:
        what = error.what.rstrip(".")
        raise InterchangeError(
            f"{path} was left as it is: {what}. Nothing was changed.", error.remedy
        ) from error


def _says_anything(text: str) -> bool:
    return text.strip() not in ("", "{}", "extensions:")


def _check_unchanged(change: SettingsChange) -> None:
    if _read(change.path) != change.before:
        raise InterchangeError(
            f"{change.path} was changed by somebody else meanwhile. Nothing was changed.",
            "Try again.",
        )


def _put(path: Path, data: bytes | None) -> None:
    """Write a file whole or not at all, with the permissions that it had; None removes it."""
    if data is None:
        path.unlink()
        return
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else disk.FILE_MODE
    disk.replace_file(path, data)
    path.chmod(mode)
