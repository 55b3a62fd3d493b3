"""A tour of damage: every file of a home, in every state that a file can be in.

Whatever is damaged, every command ends by itself with a sentence, and what was said before is still
somewhere in the session's folder.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.builders import places_in
from tests.red import Case, Tried
from tests.red.apart import Ran, import_what, run_all, run_apart, void
from tests.red.homes import SAID, copied, files_of, furnished

Damage = Callable[[Path], None]


def _becomes(data: bytes) -> Damage:
    return lambda path: void(path.write_bytes(data))


def _changed(change: Callable[[bytes], bytes]) -> Damage:
    return lambda path: void(path.write_bytes(change(path.read_bytes())))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(target: str) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return damage


def _flipped(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([(data[at] if data else 0) ^ 4]) + data[at + 1 :]


DAMAGES: dict[str, Damage] = {
    "is gone": Path.unlink,
    "is empty": _becomes(b""),
    "is cut in half": _changed(lambda data: data[: len(data) // 2]),
    "has a flipped bit": _changed(_flipped),
    "is all zeros": _changed(lambda data: bytes(len(data))),
    "is no text": _becomes(b"\xff\xfe\x80" * 300),
    "is nested without end": _becomes(b'{"a":' * 9_000),
    "is a list without end": _becomes(b"a = " + b"[" * 9_000),
    "holds a number without end": _becomes(b"a = " + b"9" * 9_000),
    "is 8 MB of one line": _becomes(b"x" * (8 << 20)),
    "has everything twice": _changed(lambda data: data + data),
    "is a pipe": _pipe,
    "is a folder": _folder,
    "is a link to nowhere": _link("/nowhere/at/all"),
    "is a link to /dev/zero": _link("/dev/zero"),
    "may not be read": lambda path: path.chmod(0),
}


def commands(base: Path) -> list[tuple[str, ...]]:
    """What a person would try next."""
    model = f"scripted/{base / 'after.jsonl'}"
    (base / "after.jsonl").write_text('{"text":"I am here."}\n{"loop":true}\n')
    return [
        ("sessions",),
        ("log",),
        ("verify",),
        ("context",),
        ("recall", "harbour"),
        ("health",),
        ("memory",),
        ("checkpoint",),
        ("handoff", "show"),
        ("models",),
        ("config", "show"),
        ("run", "are you there?", "--model", model),
        ("search", "harbour"),
        ("replay", "--all", "--check"),
    ]


def damage(tried: Tried) -> Iterator[Case]:
    """Every file with every damage; in a small tour each file has one."""
    home = furnished(tried.base / "furnished")
    names = files_of(home)
    whole = copied(home, tried.folder("whole"))
    import_what(lambda: run_all(whole, whole.parent, commands(whole.parent)))
    kinds = itertools.cycle(DAMAGES)
    cases = [(name, kind) for name in names for kind in DAMAGES]
    if tried.small:
        cases = [(name, next(kinds)) for name in names[::5]]
    for number, (name, kind) in enumerate(tried.some(cases)):
        where = tried.folder(str(number))
        yield _tried(copied(home, where), name, kind)
        shutil.rmtree(where, ignore_errors=True)


def _tried(home: Path, name: Path, kind: str) -> Case:
    case = f"{name} {kind}"
    before = (home / name).read_bytes()
    DAMAGES[kind](home / name)
    ran = run_apart(home, home.parent, commands(home.parent))
    problems = [each.problem for each in ran if each.problem]
    problems += _lost(home, name, kind, ran, before)
    return Case(case, "; ".join(problems))


def _lost(home: Path, name: Path, kind: str, ran: list[Ran], before: bytes) -> Iterator[str]:
    """What was said and is nowhere any more; what could not be taken up again afterwards."""
    places = places_in(home)
    if home / name != places.transcript:
        kept = b"".join(_bytes(path) for path in places.folder.rglob("*"))
        if SAID.encode() not in kept:
            yield "what was said is gone"
        talked = next((each for each in ran if each.arguments[0] == "run"), None)
        if talked is not None and talked.code == 0 and b"are you there?" not in kept:
            yield "a turn was taken and is not in history"
        return
    if os.path.lexists(home / name) and not (home / name).is_file():
        return
    now = _bytes(home / name)
    if now and before.startswith(now):
        return
    if kind == "is gone" and now:
        yield "an empty history took its place"


def _bytes(path: Path) -> bytes:
    if not path.is_file() or path.is_symlink():
        return b""
    path.chmod(0o600)  # one of the damages takes the right to read it away
    return path.read_bytes()
