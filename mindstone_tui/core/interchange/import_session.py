"""Taking over a session of another program: streaming, told apart, re-importable.

Original ids, times and speakers are kept; one exchange becomes one turn; calls and results stay
pairs; what is damaged is skipped and named. Messages that are there already are not added again,
so an import that was cut off anywhere is completed by running it once more.

Of folders of sessions, and files that hold many, each conversation becomes a session of its own.
Its name is made from the program and the conversation's own id, so the same conversation always
arrives in the same session, wherever its file lies.
"""

import hashlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypedDict, Unpack

import msgspec

from mindstone_tui.core import errors, paths, patterns, text
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage
from mindstone_tui.core.entries.store import Imported, SessionDescribed, Skipped
from mindstone_tui.core.interchange import formats, read_bytes
from mindstone_tui.core.interchange.describe import NO_TRUST, Description, Trust
from mindstone_tui.core.interchange.formats.base import (
    Aside,
    Began,
    Broken,
    Gave,
    Marked,
    Record,
    Said,
    Stopped,
    Undid,
)
from mindstone_tui.core.interchange.formats.openhands import EVENT_FILE
from mindstone_tui.core.interchange.steps import Assembler
from mindstone_tui.core.interchange.write_entries import ImportedBefore, Index, Writer
from mindstone_tui.core.transcript import Transcript
from mindstone_tui.core.transcript.encode import Clean

MOST_SKIPPED: Final = 1_000
"""Skipped records that a report lists; more are only counted."""
_KEPT_SKIPPED: Final = 200
_CHUNK: Final = 1 << 20
_LONGEST_WHY: Final = 200
_MOST_KINDS: Final = 100
_PROGRESS_EVERY: Final = 256
_LONGEST_NAME: Final = 80

Progress = Callable[[int, int], None]
"""Called now and then with (records read, messages added)."""


class HowTakenOver(TypedDict, total=False):
    """What whoever imports may ask for."""

    clean: Clean
    progress: Progress | None
    index: Index | None
    trust: Trust


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one import; its first five fields are what `import --json` promises."""

    session: str
    """Empty where a conversation has no message, and no session was made of it."""
    format: str
    added: int
    already_there: int
    skipped: tuple[Skipped, ...] = ()
    skipped_total: int = 0
    """More than are listed when the file is badly damaged."""
    left_out: dict[str, int] = {}
    """Records that are no part of a conversation, by name."""
    path: str = ""
    title: str = ""
    described: SessionDescribed | None = None
    """What the file says of the conversation as a whole."""
    first_turn: int = 0
    last_turn: int = 0
    redacted: int = 0
    """Secrets that were blacked out on the way."""
    redacted_lines: tuple[int, ...] = ()
    """The lines of the transcript in which they stood."""


class _Tally(msgspec.Struct, eq=False):
    """What is counted on the way."""

    records: int = 0
    description: Description = msgspec.field(default_factory=Description)
    skipped: list[Skipped] = []
    skipped_total: int = 0
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    taken_back: set[str] = set()
    """Ids of messages that the program went back before."""
    put_back: list[Undid] = []
    judged: dict[str, str] = {}
    """What the file says of messages that do not simply hold, by their ids."""

    def note(self, record: Record) -> None:
        """Take in a record that says nothing."""
        match record:
            case Undid():
                self.put_back.append(record)
            case Marked(message=message, words=words):
                self.judged[message] = words
            case Broken(line=line, why=why):
                self.skipped_total += 1
                if len(self.skipped) < MOST_SKIPPED:
                    self.skipped.append(Skipped(line=line, why=text.one_line(why, _LONGEST_WHY)))
            case Aside(what=what, taken_back=message):
                self.taken_back |= {message} if message else set()
                name = text.one_line(what, 60)
                known = name in self.left_out or len(self.left_out) < _MOST_KINDS
                self.left_out[name if known else "other"] += 1

    def report(self, path: Path, name: str) -> ImportReport:
        """The same, as a report of a conversation of which nothing was taken over yet."""
        return ImportReport(
            session="",
            format=name,
            added=0,
            already_there=0,
            skipped=tuple(self.skipped),
            skipped_total=self.skipped_total,
            left_out=dict(sorted(self.left_out.items())),
            path=text.one_line(str(path), 4_096),
            title=self.description.title,
        )


def import_file(
    path: Path,
    transcript: Transcript,
    *,
    format: str = "auto",  # noqa: A002 (the option's own name)
    **how: Unpack[HowTakenOver],
) -> ImportReport:
    """Take over everything a file holds into one session.

    `clean` must be what the transcript cleans texts with, else a second import finds its own
    messages changed and adds them again.
    """
    reader = formats.format_of(path, format)
    about = {"format": reader.name, "digest": file_digest(path)}
    return import_records(reader.read(path), transcript, path=path, **about, **how)


def import_records(
    records: Iterator[Record],
    transcript: Transcript,
    *,
    format: str,  # noqa: A002 (the option's own name)
    path: Path,
    digest: str,
    clean: Clean = str,
    progress: Progress | None = None,
    index: Index | None = None,
    trust: Trust = NO_TRUST,
) -> ImportReport:
    """Take over one stream of records, and write down that it happened."""
    tally = _Tally()
    writer = Writer(transcript, clean=clean, index=index)
    assembler = Assembler(writer.wrote_apart)
    _take_all(records, assembler, writer, tally, progress)
    for step in assembler.close():
        writer.write(step)
    writer.finish()
    news = _put_back(transcript, writer, tally.put_back)
    if progress is not None:
        progress(tally.records, writer.added)
    black = writer.blackened
    described = described_by(tally.description, format, transcript.places.key.agent, path, trust)
    taken = _taken(transcript, writer, tally, path, format)
    news |= _is_news(taken, writer.known)
    if writer.added or writer.taken_before or news:
        _describe(transcript, writer, described)
        transcript.append(msgspec.structs.replace(taken, sha256=digest))
    elif writer.already_there:
        _describe(transcript, writer, described)
    return msgspec.structs.replace(
        tally.report(path, format),
        session=str(transcript.places.key),
        added=writer.added,
        already_there=writer.already_there,
        described=described,
        first_turn=writer.first_turn,
        last_turn=writer.last_turn,
        redacted=sum(black.values()),
        redacted_lines=tuple(black),
    )


def report_of_nothing(records: Iterable[Record], *, format: str, path: Path) -> ImportReport:  # noqa: A002
    """What there is to say of a conversation without a message: no session is made for it."""
    tally = _Tally()
    for record in records:
        tally.description.take(record)
        tally.note(record)
    return tally.report(path, format)


def import_so_far(
    records: Iterator[Record],
    transcript: Transcript,
    before: ImportedBefore,
    *,
    clean: Clean = str,
    settled: bool = True,
    describe: Callable[[Description], SessionDescribed] | None = None,
    source: tuple[Path, str] | None = None,
    whole: bool = True,
) -> int:
    """Take over what is new of a file that is still being written; how many messages that was.

    The exchange at its end stays open, and so do calls that have no result yet. `before` is what
    the transcript had, and is brought up to date. What was taken back or put back there since is
    written down as of the `source`, a file and its format; no less than was known of it, unless
    these are the records of the `whole` file. With `describe`, what the records say of the
    conversation as a whole is written down, too: only right for a file from its beginning.
    """
    tally = _Tally()
    writer = Writer(transcript, clean=clean, before=before)
    assembler = Assembler(writer.wrote_apart)
    _take_all(records, assembler, writer, tally, None)
    for step in assembler.so_far(settled=settled):
        writer.write(step)
    writer.pause()
    if describe is not None and (writer.added or writer.already_there):
        _describe(transcript, writer, describe(tally.description))
    _put_back(transcript, writer, tally.put_back)
    told = (frozenset(tally.taken_back), dict(tally.judged))
    if source is not None and told != before.told:
        taken = _taken(transcript, writer, tally, *source, known=None if whole else before)
        if _is_news(taken, before):
            transcript.append(msgspec.structs.replace(taken, sha256=file_digest(source[0])))
    before.told = told
    before.learn(transcript)
    return writer.added


def _taken(
    transcript: Transcript,
    writer: Writer,
    tally: _Tally,
    path: Path,
    format: str,  # noqa: A002 (the option's own name)
    known: ImportedBefore | None = None,
) -> Imported:
    """What was taken over of a file, and what it says by now of what it had said; and no less than
    was known."""
    where = text.one_line(str(path), 4_096)
    back, judged = known.said_of.get(where, ((), {})) if known else ((), {})
    said_of = _lines_of(transcript, tally.taken_back | tally.judged.keys())
    gone = {line.seq for line, it in said_of if it in tally.taken_back}
    return Imported(
        path=where,
        format=format,
        sha256="",
        added=writer.added + writer.taken_before,
        already_there=max(writer.already_there - writer.taken_before, 0),
        skipped=_kept(tally),
        redacted=sum(writer.blackened.values()),
        taken_back=tuple(sorted({*back, *gone})),
        judged=judged | {line.seq: tally.judged[it] for line, it in said_of if it in tally.judged},
    )


def _is_news(taken: Imported, before: ImportedBefore) -> bool:
    """Whether a file says otherwise than before how its messages stand."""
    return (taken.taken_back, taken.judged) != before.said_of.get(taken.path, ((), {}))


def described_by(
    description: Description, program: str, agent: str, file: Path, trust: Trust
) -> SessionDescribed:
    """What a program's file says of a conversation of an agent's as a whole."""
    return description.entry(
        program, lambda parent: str(key_of(program, parent, agent)), file, trust
    )


def _take_all(
    records: Iterator[Record],
    assembler: Assembler,
    writer: Writer,
    tally: _Tally,
    progress: Progress | None,
) -> None:
    for record in records:
        tally.description.take(record)
        _take(record, assembler, writer, tally)
        tally.records += 1
        if progress is not None and tally.records % _PROGRESS_EVERY == 0:
            progress(tally.records, writer.added)


def _take(record: Record, assembler: Assembler, writer: Writer, tally: _Tally) -> None:
    match record:
        case Said(role="user", text=said) if (own := text.without_injected(said)) != said:
            tally.left_out["recall that was given to it"] += 1
            steps = assembler.say(msgspec.structs.replace(record, text=own)) if own else iter(())
        case Said():
            steps = assembler.say(record)
        case Gave():
            steps = assembler.give(record)
        case Began():
            steps = assembler.close()
        case Stopped(ending=ending):
            assembler.stop(ending)
            return
        case _:
            tally.note(record)
            return
    for step in steps:
        writer.write(step)


def _lines_of(transcript: Transcript, messages: Collection[str]) -> list[tuple[Line, str]]:
    """Where messages of another program stand, each with its own id there; with their calls."""
    if not messages:
        return []
    found: list[tuple[Line, str]] = []
    asked: dict[tuple[int, str], str] = {}
    with transcript.history() as history:
        for line in history.read():
            if isinstance(line, Line):
                message = str(getattr(line.entry, "source_id", ""))
                if isinstance(line.entry, AssistantMessage):
                    asked |= {(line.turn, call.id): message for call in line.entry.calls}
                message = message or asked.get((line.turn, getattr(line.entry, "call", "")), "")
                found += [(line, message)] if message in messages else []
    return found


def _put_back(transcript: Transcript, writer: Writer, acts: Sequence[Undid]) -> bool:
    """Write down once what became of the files of exchanges that stand here; whether it is news."""
    new = [it for it in acts if (it.act.token, it.act.root) not in writer.known.put_back]
    known = _lines_of(transcript, {message for each in new for message in each.messages})
    turns = {message: line.turn for line, message in known}
    for each in new:
        if here := sorted({turns[it] for it in each.messages if it in turns}):
            writer.put(msgspec.structs.replace(each.act, turns=tuple(here)), each.ts)
    return writer.pause()


def _describe(transcript: Transcript, writer: Writer, described: SessionDescribed) -> None:
    """Write down what the conversation is, if that is news."""
    if described != writer.described:
        transcript.append(described)


def key_of(program: str, conversation: str, agent: str) -> paths.SessionKey:
    """The session that a conversation of a program belongs in."""
    name = re.sub(r"[^a-z0-9._-]+", "-", conversation.lower()).strip("-.")
    return paths.SessionKey(agent, f"{program}-{name[:_LONGEST_NAME] or 'session'}")


def _kept(tally: _Tally) -> tuple[Skipped, ...]:
    """The skipped records as a line of the transcript can hold them."""
    kept = tally.skipped[:_KEPT_SKIPPED]
    if more := tally.skipped_total - len(kept):
        kept.append(Skipped(line=0, why=f"and {more:,} more"))
    return tuple(kept)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with read_bytes.open_file(path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


# -- folders, and files that hold many ------------------------------------------------------------

SUFFIXES: Final = (".jsonl", ".json", ".db", ".vscdb", ".zip", ".zst")
_MARKDOWN: Final = patterns.pattern_of(r"\.aider\.chat\.history\.md|\.specstory/history/[^/]+\.md")
"""Texts that are sessions; any other text in a folder is not looked at."""
_BESIDE: Final = (
    ("ui_messages.json", "api_conversation_history.json"),
    ("base_state.json", "events"),
)
"""Files that tell more of the session that another file or folder beside them is."""
_ABOUT: Final = patterns.pattern_of(
    r"(?:\.settings|\.runtime|(?<=sessions/cli/)(?P<id>[^/.]+))\.json$"
)
"""Files about the session of the same name: of Droid, of Qwen Code, of Kiro."""
_LIST: Final = "sessions/sessions.json"
_PIECES: Final = frozenset({"message", "part"})
"""Folders that stand side by side in a store whose sessions are files of their own."""
_FOREIGN: Final = frozenset({".git", "node_modules"})
_LONGEST_LEAD: Final = 256
_LONGEST_SILENCE: Final = 10_000
"""Records without a message after which a conversation is believed to have one."""

OpenSession = Callable[[paths.SessionKey], Transcript]


def sources(path: Path) -> list[Path]:
    """The files to look at: the one that is named, or all in a folder that could be sessions."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in _below(path) if _could_be_session(each) and each.is_file())
    if not found:
        raise errors.InterchangeError(
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
    follow: Callable[[Transcript], Index] | None = None,
    *,
    agent: str = "default",
    format: str = "auto",  # noqa: A002 (the option's own name)
    **how: Unpack[HowTakenOver],
) -> Iterator[ImportReport]:
    """Take over every conversation of one file into a session of its own; a report each.

    `follow` makes what takes in the lines of one session.
    """
    reader = formats.format_of(path, format)
    about = {"format": reader.name, "digest": file_digest(path)}
    for began, found in conversations(reader.read(path), many=reader.many):
        lead, is_empty = _lead(found)
        if is_empty:
            yield report_of_nothing(lead, format=reader.name, path=path)
            continue
        records = itertools.chain(lead, found)
        transcript = open_session(key_for(reader, path, began, agent))
        try:
            if follow is not None:
                how["index"] = follow(transcript)
            yield import_records(records, transcript, path=path, **about, **how)
        finally:
            transcript.close()


def only_conversation(reader: formats.Format, path: Path) -> tuple[Began, Iterator[Record]] | None:
    """The conversation of a file that holds one; None while nobody has said anything in it."""
    began, found = next(conversations(reader.read(path), many=False), (Began(), iter(())))
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


def key_for(reader: formats.Format, path: Path, began: Began, agent: str) -> paths.SessionKey:
    """The session that a conversation belongs in."""
    return key_of(reader.name, began.id or path.stem, agent)


def conversations(
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
