"""Notes: written at the moment something became clear, readable without anything around them."""

import os
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors, patterns
from mindstone_tui.core.context import digest, summary_call
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.derived import Importance, NoteTaken, StatementSuperseded, TaskDone
from mindstone_tui.core.language.intent import is_for_a_task
from mindstone_tui.core.language.lists import lists_in, pattern_beside
from mindstone_tui.core.paths import AgentPlaces, SessionPlaces

CATEGORIES: Final = ("task_progress", "decisions", "bugs", "constraints", "learnings", "misc")
KEPT_BY_PERSON: Final = frozenset({"constraints", "decisions"})
"""Where what a person wants kept is filed; from a person, it is their word and no mere note."""
IMPORTANCES: Final[tuple[Importance, ...]] = ("critical", "high", "normal")
LONGEST: Final = 1_000
"""Characters of a note; what needs more is a file."""
RENDERED: Final = 2_000
"""Tokens that notes may take in a prompt."""

_DANGLING: Final = pattern_beside(__file__, "dangling", re.IGNORECASE)
_POINTING: Final = pattern_beside(__file__, "pointing", re.IGNORECASE)


_TURN: Final = patterns.pattern_of(r"\s*\(turn \d+\)\Z")


@cache
def _other_names() -> dict[str, str]:
    """What categories are called as well."""
    found = lists_in(Path(__file__).with_suffix(".txt"))["other names"]
    return dict(line.split() for line in found)


class Note(Part):
    """A note with its place in history."""

    category: str
    text: str
    importance: Importance
    seq: int = 0
    turn: int = 0
    ts: str = ""
    by: str = "model"


def take(category: str, text: str, importance: str = "normal", *, by: str = "model") -> NoteTaken:
    """A note as an entry; raises `ToolError` when it would mean nothing to a stranger."""
    text = " ".join(text.split())
    if objection := cold_start(text):
        raise errors.ToolError(
            f"The note was not taken: {objection}.",
            "Write it so that someone without this conversation understands it.",
        )
    name = category.strip().lower().replace("-", "_").replace(" ", "_")
    filed = _other_names().get(name, name)
    if filed not in CATEGORIES:
        filed, text = "misc", f"({name or 'unnamed'}) {text}"
    chosen: Importance = next((one for one in IMPORTANCES if one == importance), "normal")
    return NoteTaken(category=filed, text=text, importance=chosen, by=by)


def cold_start(text: str) -> str:
    """Why a note cannot stand alone, or nothing when it can."""
    said = text.strip()
    if len(said.split()) < 3:
        return "it is too short to mean anything by itself"
    if len(said) > LONGEST:
        return f"it is longer than {LONGEST} characters"
    if _DANGLING.match(said) or _POINTING.search(said):
        return "it points to something that will not be there"
    return ""


def parse(text: str, *, by: str = "model") -> tuple[NoteTaken, ...]:
    """Notes from lines of the form `category | importance | text`; other lines are no notes."""
    return tuple(
        take(match["category"], match["text"], match["importance"], by=by)
        for match in (digest.NOTE.match(line.strip()) for line in text.splitlines())
        if match and not cold_start(match["text"])
    )


def derived(text: str, model: str) -> tuple[NoteTaken, ...]:
    """Notes made from history; chosen sentences that are nothing in particular are left out."""
    chosen = model == "deterministic"
    return tuple(
        msgspec.structs.replace(note, text=_TURN.sub("", note.text))
        for note in parse(text, by=model if chosen else "model")
        if not (chosen and note.category == "misc")
    )


def notes_of(lines: Iterable[Line]) -> tuple[Note, ...]:
    """The notes among these lines, oldest first; the same text again counts once, as the newer.

    One that was corrected since is none.
    """
    found: dict[str, Note] = {}
    for line in lines:
        if isinstance(entry := line.entry, NoteTaken):
            found.pop(entry.text, None)
            fields = msgspec.structs.asdict(entry)
            found[entry.text] = Note(**fields, seq=line.seq, turn=line.turn, ts=line.ts)
        elif isinstance(entry, StatementSuperseded):
            found = {text: one for text, one in found.items() if one.seq != entry.statement}
    return tuple(found.values())


def recent_notes(newest_first: Iterable[Line]) -> tuple[Note, ...]:
    """The notes of the running task, from the end of history; a finished task's are left there.

    What a person asked to keep belongs to the session, and stays, unless they said it for the task.
    """
    lines: list[Line] = []
    running = True
    for line in newest_first:
        match line.entry:
            case TaskDone():
                running = False
            case NoteTaken(by="person", category=category, text=text):
                if running or not (category == "task_progress" or is_for_a_task(text)):
                    lines.append(line)
            case entry if running or isinstance(entry, StatementSuperseded):
                lines.append(line)
    return notes_of(reversed(lines))


def render(notes: Sequence[Note], count: summary_call.Count, budget: int = RENDERED) -> str:
    """The notes that fit, the important and the new first; every line and header counted."""
    urgent = sorted(notes, key=lambda note: (IMPORTANCES.index(note.importance), -note.seq))
    chosen: list[Note] = []
    for note in urgent:
        if count(_grouped([*chosen, note], len(notes))) <= budget:
            chosen.append(note)
    return _grouped(chosen, len(notes)) if chosen else ""


def _grouped(notes: Sequence[Note], total: int) -> str:
    """Notes under their categories, in the order of the categories."""
    blocks: list[str] = []
    for category in dict.fromkeys((*CATEGORIES, *(note.category for note in notes))):
        if filed := sorted((n for n in notes if n.category == category), key=lambda note: note.seq):
            blocks.append("\n".join([f"## {category}", *map(_line, filed)]))
    if len(notes) < total:
        blocks.append(f"({total - len(notes)} more notes: /notes)")
    return "\n".join(blocks)


def _line(note: Note) -> str:
    mark = "" if note.importance == "normal" else f"**{note.importance}** "
    where = f" (turn {note.turn})" if note.turn else ""
    return f"- {mark}{note.text}{where}"


def write(places: SessionPlaces, notes: Sequence[Note]) -> None:
    """Put all notes into the session's `notes.md`, whole or not at all."""
    text = f"# Notes of {places.key}\n\n{_grouped(notes, len(notes))}\n".encode()
    if not places.notes.exists() or places.notes.read_bytes() != text:
        disk.replace_file(places.notes, text)


class LogSection(Part):
    """What a checkpoint adds to the log."""

    session: str
    version: int
    happened: tuple[str, ...]
    decisions: tuple[str, ...] = ()
    cited: tuple[str, ...] = ()
    """Memories that answers leaned on."""
    prevented: tuple[str, ...] = ()
    """Mistakes that a memory kept from happening again."""
    proposed: tuple[str, ...] = ()
    """Memories that wait for a decision."""


def log_text(section: LogSection, at: datetime) -> str:
    """The section as Markdown; empty parts are left out."""
    return _markdown(
        f"{at:%Y-%m-%d %H:%M} · checkpoint {section.version} · {section.session}",
        (
            ("What happened", section.happened),
            ("Decisions", section.decisions),
            ("Memories cited", section.cited),
            ("Mistakes prevented", section.prevented),
            ("Memories proposed", section.proposed),
        ),
    )


def write_log(places: AgentPlaces, section: LogSection, at: datetime) -> Path:
    """Add a section to the agent's log."""
    add(places.log, log_text(section, at), "# Log\n")
    return places.log


def write_journal(
    places: AgentPlaces, session: str, at: datetime, parts: Sequence[tuple[str, Sequence[str]]]
) -> Path:
    """Add what a consolidation found to the journal of its day."""
    path = places.journals / f"{at:%Y-%m-%d}.md"
    add(path, _markdown(f"{at:%H:%M} · {session}", parts), f"# Journal of {at:%Y-%m-%d}\n")
    return path


def _markdown(title: str, parts: Sequence[tuple[str, Sequence[str]]]) -> str:
    blocks = [f"\n## {title}\n"]
    for heading, items in parts:
        if items:
            lines = (" ".join(item.split()) for item in items)
            blocks.append("\n".join([f"### {heading}", *(f"- {line}" for line in lines), ""]))
    return "\n".join(blocks)


def add(path: Path, text: str, opening: str) -> None:
    """Append to a file for people, durably; what stands there is never touched."""
    disk.ensure_folder(path.parent)
    try:
        fd = disk.REAL.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            start = "" if disk.REAL.size(fd) else opening
            disk.write_all(fd, (start + text).encode())
            disk.REAL.sync(fd)
        finally:
            disk.REAL.close(fd)
    except OSError as error:
        raise disk.not_saved(path, error) from error
