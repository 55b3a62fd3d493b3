"""Checkpoints on disk: JSON for programs, Markdown for people, replaced whole, refused with a word.

A version is used once. What was saved by another surface meanwhile is not overwritten, and what
was torn, edited, outdated or brought from elsewhere is not resumed from.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from mindstone_tui.core.bounded_json import read_as
from mindstone_tui.core.disk import REAL, Disk, ensure_folder, held, read_regular, replace_file
from mindstone_tui.core.entries import Line, Part, provenance, window
from mindstone_tui.core.entries.derived import CheckpointSaved
from mindstone_tui.core.entries.standings import Rewinds, not_rewound
from mindstone_tui.core.entries.store import Imported
from mindstone_tui.core.errors import ContinuityError, NoSuchEntry
from mindstone_tui.core.handoff import checkpoint as checkpoints
from mindstone_tui.core.handoff.checkpoint import Checkpoint, digest
from mindstone_tui.core.handoff.environment import Environment
from mindstone_tui.core.handoff.resume import progress_text
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.transcript import History, reader

T = TypeVar("T", checkpoints.Sourced, checkpoints.FinishedCommand)
HashAt = Callable[[int], str | None]
"""The hash of a line of this session's history; None when it has no such line."""

BACK_THERE: Final = "the program that some of it was imported from went back before that since"
_WAIT = 5.0
_REMEDY = "Save a new one with /checkpoint; history has everything that it was made from."


class Saved(Part):
    """A checkpoint that is on disk, and the entry that says so."""

    checkpoint: Checkpoint
    entry: CheckpointSaved


def save(
    places: SessionPlaces,
    draft: Checkpoint,
    *,
    environment: Environment,
    saved_at: str,
    trigger: str,
    newest: CheckpointSaved | None = None,
    disk: Disk = REAL,
) -> Saved:
    """Write the next version of a draft that was advanced from the newest one."""
    ensure_folder(places.folder, disk)
    lock = disk.open(places.folder / "checkpoint.lock", os.O_RDWR | os.O_CREAT)
    try:
        with held(lock, wait=_WAIT, busy="Another program is saving a checkpoint."):
            there = max(_version_on_disk(places), newest.version if newest else 0)
            if there > draft.version:
                raise ContinuityError(
                    f"The draft is stale: it follows version {draft.version}, "
                    f"and version {there} was saved meanwhile.",
                    "Take the newer one as the start.",
                )
            return _write(
                places,
                msgspec.structs.replace(
                    draft,
                    version=there + 1,
                    environment=environment,
                    saved_at=saved_at,
                    trigger=trigger,
                ),
                disk,
            )
    finally:
        disk.close(lock)


def _write(places: SessionPlaces, draft: Checkpoint, disk: Disk) -> Saved:
    draft = checkpoints.fitted(draft)
    checkpoint = msgspec.structs.replace(draft, sha256=digest(draft))
    checked = checkpoints.validate(checkpoint)
    if not checked.valid:
        raise ContinuityError(
            f"There is nothing to resume from yet: {'; '.join(checked.errors)}.",
            "Say what is to be done, or start a task with /task start.",
        )
    data = checkpoints.encoded(checkpoint)
    replace_file(places.progress, progress_text(checkpoint).encode(), disk)
    replace_file(places.checkpoint, data, disk)
    entry = CheckpointSaved(
        version=checkpoint.version,
        path=places.checkpoint.name,
        sha256=hashlib.sha256(data).hexdigest(),
        trigger=checkpoint.trigger,
    )
    return Saved(checkpoint=checkpoint, entry=entry)


def load(places: SessionPlaces, newest: CheckpointSaved | None, hash_at: HashAt) -> Checkpoint:
    """The checkpoint on disk, proven against history; refused as torn, edited, foreign or stale."""
    data = _bytes(places.checkpoint)
    checkpoint = read(data)
    if digest(checkpoint) != checkpoint.sha256:
        raise _refused("edited", "its content does not have the hash that it names")
    if checkpoint.session != str(places.key):
        raise _refused("foreign", f"it belongs to {checkpoint.session}")
    if hash_at(checkpoint.head.seq) != checkpoint.head.hash:
        raise _refused("foreign", f"line {checkpoint.head.seq} of this history is another one")
    if newest is not None and checkpoint.version < newest.version:
        why = f"it is version {checkpoint.version}, and {newest.version} was saved"
        raise _refused("stale", why)
    recorded = newest.sha256 if newest and newest.version == checkpoint.version else ""
    if recorded and hashlib.sha256(data).hexdigest() != recorded:
        raise _refused("edited", "its bytes are not the ones that were saved")
    if errors := checkpoints.validate(checkpoint).errors:
        raise _refused("incomplete", "; ".join(errors))
    return checkpoint


_MOST_READ: Final = 8_192
"""Lines from which a task's state is made anew; a longer one has been saved on the way."""


class TaskState(Part):
    """The task as it is now: the newest checkpoint, brought up to date with history."""

    checkpoint: Checkpoint
    newest: CheckpointSaved | None
    """What history says was saved last, as far as it was read."""
    problem: str = ""
    """Why the checkpoint on disk was not used."""


def task_state(places: SessionPlaces, history: History, *, since: int = 0) -> TaskState:
    """Advance the checkpoint on disk by what was written after it.

    Without one that may be used, the state is made anew from the lines since `since`.
    """
    try:
        known = read(_bytes(places.checkpoint))
        lines = _lines(history, known.head.seq + 1 - checkpoints.LOOKED_BACK)
        newest = _newest(line for line in lines if line.seq > known.head.seq)
        _refuse_rewound(known, lines, history)
        checkpoint = _quoting(load(places, newest, hashes(history)), history)
        return TaskState(
            checkpoint=checkpoints.advance(checkpoint, not_rewound(lines)), newest=newest
        )
    except ContinuityError as error:
        lines = _lines_since(history, since)
        newest = _newest(lines)
        state = checkpoints.advance(checkpoints.fresh(str(places.key)), not_rewound(lines))
        version = newest.version if newest else _version_on_disk(places)
        problem = error.what if places.checkpoint.exists() else ""
        state = msgspec.structs.replace(state, version=version, trigger=problem)
        return TaskState(checkpoint=state, newest=newest, problem=problem)


def load_proven(
    places: SessionPlaces, history: History, *, also_rewound: bool = False
) -> Checkpoint:
    """The checkpoint as it was saved, proven against this history; refused with its reason."""
    lines = _lines(history, read(_bytes(places.checkpoint)).head.seq + 1)
    found = load(places, _newest(lines), hashes(history))
    if not also_rewound:
        _refuse_rewound(found, lines, history)
    return _quoting(found, history)


def _refuse_rewound(checkpoint: Checkpoint, since: Sequence[Line], history: History) -> None:
    """A checkpoint holds what was said up to its head: nothing of it was rewound, or given back."""
    later = [line.entry for line in since if line.seq > checkpoint.head.seq]
    given = [turn for entry in later if isinstance(entry, window.Restored) for turn in entry.turns]
    if given and any(map(reader.rewinds_of(history).gave_back, given)):
        raise _refused("outdated", "turns that were rewound were brought back since")
    imported = any(isinstance(entry, Imported) for entry in later)
    if imported and reader.taken_back_since(history, checkpoint.head.seq):
        raise _refused("outdated", BACK_THERE)
    head = _line_at(history, checkpoint.head.seq)
    by = None if head is None else Rewinds(since).of_place(head.seq, head.turn)
    if by is not None:
        raise _refused("rewound", f"line {by} went back to before it was saved")


def _quoting(checkpoint: Checkpoint, history: History) -> Checkpoint:
    """A checkpoint in which what was imported settles nothing, whichever version saved it."""

    def marked(seq: int, text: str) -> str:
        line = _line_at(history, seq) if seq else None
        return text if line is None else provenance.quoted(line, text)

    def own(items: Iterable[checkpoints.Sourced]) -> tuple[checkpoints.Sourced, ...]:
        return tuple(one for one in items if not provenance.is_quotation(marked(one.seq, one.text)))

    def quoting(items: Iterable[T]) -> tuple[T, ...]:
        return tuple(msgspec.structs.replace(one, text=marked(one.seq, one.text)) for one in items)

    asked = checkpoint.asked
    topic = history.turn(checkpoint.goal_turn) if checkpoint.goal_turn else []
    return msgspec.structs.replace(
        checkpoint,
        goal=provenance.quoted(topic[0], checkpoint.goal) if topic else checkpoint.goal,
        constraints=own(checkpoint.constraints),
        decisions=own(checkpoint.decisions),
        questions=own(checkpoint.questions),
        commitments=own(checkpoint.commitments),
        asked=None if asked is None else quoting([asked])[0],
        next_steps=quoting(checkpoint.next_steps),
        commands=quoting(checkpoint.commands),
        errors=quoting(checkpoint.errors),
        subtasks=tuple(
            msgspec.structs.replace(one, title=marked(one.seq, one.title))
            for one in checkpoint.subtasks
        ),
    )


def _lines(history: History, first: int, last: int | None = None) -> list[Line]:
    read = history.read(max(first, 0), last)
    return [history.whole(one) for one in read if isinstance(one, Line)]


def _lines_since(history: History, first: int) -> list[Line]:
    """All of them, or of very many the oldest, which name the task, and the newest."""
    recent = len(history.offsets) - _MOST_READ
    if recent <= first + checkpoints.LOOKED_BACK:
        return _lines(history, first)
    return [*_lines(history, first, first + checkpoints.LOOKED_BACK), *_lines(history, recent)]


def _newest(lines: Iterable[Line]) -> CheckpointSaved | None:
    saved = [line.entry for line in lines if isinstance(line.entry, CheckpointSaved)]
    return saved[-1] if saved else None


def hashes(history: History) -> HashAt:
    """The hashes of a history's lines, by their numbers."""

    def hash_at(seq: int) -> str | None:
        line = _line_at(history, seq)
        return None if line is None else line.hash

    return hash_at


def _line_at(history: History, seq: int) -> Line | None:
    try:
        return history.line(seq)
    except NoSuchEntry:
        return None


def read(data: bytes) -> Checkpoint:
    """Decode a checkpoint's bytes; raises `ContinuityError` when they are none."""
    try:
        checkpoint = read_as(data, Checkpoint)
    except msgspec.ValidationError as error:
        raise _refused("edited", f"its fields are wrong ({error})") from error
    except msgspec.DecodeError as error:
        raise _refused("torn", "it is not whole") from error
    if checkpoint.format > checkpoints.FORMAT:
        raise _refused("foreign", "a newer version of this program wrote it")
    return checkpoint


def archive(places: SessionPlaces) -> Path:
    """Keep a copy of the checkpoint under its version; the task that it describes is over."""
    data = _bytes(places.checkpoint)
    path = places.folder / "archive" / f"checkpoint-{read(data).version:06d}.json"
    replace_file(path, data)
    return path


def _version_on_disk(places: SessionPlaces) -> int:
    try:
        checkpoint = read(read_regular(places.checkpoint))
    except (OSError, ContinuityError):
        return 0
    return checkpoint.version if checkpoint.session == str(places.key) else 0


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = (
            "There is no checkpoint yet" if missing else f"{path} cannot be read: {error.strerror}"
        )
        raise ContinuityError(f"{why}.", "/checkpoint save makes one.") from error


def _refused(word: str, why: str) -> ContinuityError:
    return ContinuityError(f"The checkpoint is {word}: {why}.", _REMEDY)
