"""Folders of sessions, and files that hold many: each conversation becomes a session of its own.

The session's name is made from the program and the conversation's own id, so the same conversation
always arrives in the same session, wherever its file lies.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from mindstone_tui.core.errors import InterchangeError
from mindstone_tui.core.interchange.describe import NO_TRUST, Trust
from mindstone_tui.core.interchange.formats import Format, format_of
from mindstone_tui.core.interchange.formats.base import Began, Gave, Record, Said
from mindstone_tui.core.interchange.formats.openhands import EVENT_FILE
from mindstone_tui.core.interchange.import_session import (
    Finish,
    ImportReport,
    Progress,
    file_digest,
    import_records,
    key_of,
    report_of_nothing,
)
from mindstone_tui.core.interchange.write_entries import Index
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.transcript import Transcript
from mindstone_tui.core.transcript.encode import Clean

SUFFIXES: Final = (".jsonl", ".json", ".db", ".vscdb", ".zip", ".zst")
_MARKDOWN: Final = pattern_of(r"\.aider\.chat\.history\.md|\.specstory/history/[^/]+\.md")
"""Texts that are sessions; any other text in a folder is not looked at."""
_BESIDE: Final = (
    ("ui_messages.json", "api_conversation_history.json"),
    ("base_state.json", "events"),
)
"""Files that tell more of the session that another file or folder beside them is."""
_ABOUT: Final = pattern_of(r"(?:\.settings|\.runtime|(?<=sessions/cli/)(?P<id>[^/.]+))\.json$")
"""Files about the session of the same name: of Droid, of Qwen Code, of Kiro."""
_LIST: Final = "sessions/sessions.json"
_PIECES: Final = frozenset({"message", "part"})
"""Folders that stand side by side in a store whose sessions are files of their own."""
_FOREIGN: Final = frozenset({".git", "node_modules"})
_LONGEST_LEAD: Final = 256
_LONGEST_SILENCE: Final = 10_000
"""Records without a message after which a conversation is believed to have one."""

OpenSession = Callable[[SessionKey], Transcript]


def sources(path: Path) -> list[Path]:
    """The files to look at: the one that is named, or all in a folder that could be sessions."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in _below(path) if _could_be_session(each) and each.is_file())
    if not found:
        raise InterchangeError(
            f"There is no session file in {path}.",
            f"Files should end in {', '.join(SUFFIXES)}; of texts, only .aider.chat.history.md and "
            "those in .specstory/history are read from a folder.",
        )
    return found


def _could_be_session(path: Path) -> bool:
    if path.suffix == ".md":
        return _MARKDOWN.search(path.as_posix()) is not None
    if path.suffix not in SUFFIXES or _is_later_event(path):
        return False
    written = path.as_posix()
    about = _ABOUT.sub(r"\g<id>.jsonl", written)
    if written.endswith(_LIST) or (about != written and Path(about).is_file()):
        return False
    return not any(path.name == name and path.with_name(whole).exists() for name, whole in _BESIDE)


def _is_later_event(path: Path) -> bool:
    """Whether a file is one event of a folder of which another file stands for all."""
    found = EVENT_FILE.fullmatch(path.name) if path.parent.name == "events" else None
    return found is not None and int(found[1]) > 0


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder; not those that only hold the pieces of a session."""
    for place, folders, files in os.walk(folder):
        inside = set(folders)
        skipped = _FOREIGN | (_PIECES if inside >= _PIECES else frozenset())
        folders[:] = sorted(inside - skipped)
        yield from (Path(place, name) for name in files)


def import_each(
    path: Path,
    open_session: OpenSession,
    *,
    agent: str = "default",
    format: str = "auto",  # noqa: A002 (the option's own name)
    clean: Clean = str,
    progress: Progress | None = None,
    index: Callable[[Transcript], Index] | None = None,
    finish: Finish | None = None,
    trust: Trust = NO_TRUST,
) -> Iterator[ImportReport]:
    """Take over every conversation of one file into a session of its own; a report each."""
    reader = format_of(path, format)
    digest = file_digest(path)
    for began, found in _conversations(reader.read(path), many=reader.many):
        lead, is_empty = _lead(found)
        if is_empty:
            yield report_of_nothing(lead, format=reader.name, path=path)
            continue
        records = itertools.chain(lead, found)
        transcript = open_session(key_for(reader, path, began, agent))
        try:
            yield import_records(
                records,
                transcript,
                format=reader.name,
                path=path,
                digest=digest,
                clean=clean,
                progress=progress,
                index=index(transcript) if index else None,
                finish=finish,
                trust=trust,
            )
        finally:
            transcript.close()


def only_conversation(reader: Format, path: Path) -> tuple[Began, Iterator[Record]] | None:
    """The conversation of a file that holds one; None while nobody has said anything in it."""
    began, found = next(_conversations(reader.read(path), many=False), (Began(), iter(())))
    lead, is_empty = _lead(found)
    return None if is_empty else (began, itertools.chain(lead, found))


def _lead(records: Iterator[Record]) -> tuple[list[Record], bool]:
    """What stands before the first message, and whether there is none."""
    lead: list[Record] = []
    for record in records:
        lead.append(record)
        if isinstance(record, Said | Gave) or len(lead) >= _LONGEST_SILENCE:
            return lead, False
    return lead, True


def key_for(reader: Format, path: Path, began: Began, agent: str) -> SessionKey:
    """The session that a conversation belongs in."""
    return key_of(reader.name, began.id or path.stem, agent)


def _conversations(
    records: Iterator[Record], *, many: bool
) -> Iterator[tuple[Began, Iterator[Record]]]:
    """The stream cut where conversations begin, without holding any of it."""
    number = -1
    began = Began()

    def conversation(record: Record) -> int:
        nonlocal number, began
        if number < 0 or (many and isinstance(record, Began)):
            number += 1
            began = record if isinstance(record, Began) else Began()
        return number

    for _, group in itertools.groupby(_beginning_first(records), conversation):
        yield began, group


def _beginning_first(records: Iterator[Record]) -> Iterator[Record]:
    """The stream with what stands before its first `Began`, if nothing is said, put behind it."""
    leading: list[Record] = []
    for record in records:
        if isinstance(record, Began):
            yield record
            break
        leading.append(record)
        if isinstance(record, Said | Gave) or len(leading) > _LONGEST_LEAD:
            break
    yield from leading
    yield from records
