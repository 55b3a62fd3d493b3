"""What an agent wrote outside of its sessions, made findable: memories, its log, its journals.

A part of the library, a cache like every other. It is brought up to date when a file changed, and
never made when there is nothing to put into it.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import entries, errors, paths, patterns, transcript
from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.entries.conversation import SessionOpened, ToolReturned
from mindstone_tui.core.language.words import query_terms
from mindstone_tui.core.library import open_questions
from mindstone_tui.core.memory.files import parse, read_shelf, read_text
from mindstone_tui.core.recall import candidates, embedding, speak, store, thresholds
from mindstone_tui.core.recall.catch_up import news_of
from mindstone_tui.core.recall.index import Asked, InMemoryIndex, Inquiry, RecallIndex, SearchResult
from mindstone_tui.core.recall.passages import Passage, passages_of_file

LOOKED_AT: Final = 32
READ: Final = 128 * 1024
"""Bytes at the end of the log, and of each journal, that are looked at when they changed."""
JOURNALS: Final = 60
"""Days of journals."""
SURE: Final = 3.0
"""Evidence, in floors of recall, at which a memory is wholly like a question."""

Signature = tuple[tuple[str, int, int], ...]


class AgentFilesIndex(msgspec.Struct, eq=False):
    """The agent's own files, searched by words and meaning; blocks, so call it off the loop."""

    _agent: paths.AgentPlaces
    _embedder: embedding.Embedder | None
    _opening: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _index: RecallIndex | None = None
    _seen: Signature = ()

    def likeness(self, query: str, *, asked: Asked | None = None) -> dict[str, float]:
        """How much each memory file has to do with a question, from 0 to 1.

        On a small shelf no word is rare, so plain shares of the question's words count as well.
        `asked` saves embedding the question again.
        """
        if (index := self.sync()) is None:
            return {}
        memories = candidates.Filter(kinds=frozenset({"memory"}))
        found = index.search(query, LOOKED_AT, allowed=memories, asked=asked)
        floor = (thresholds.FLOOR if found.vectors else thresholds.WORDS_FLOOR) * SURE
        like = self._shared_words(query)
        for hit in found.hits:
            file = hit.passage.entry.removeprefix("memory/")
            like[file] = max(like.get(file, 0.0), min(1.0, speak.evidence(hit) / floor))
        return like

    def _shared_words(self, query: str) -> dict[str, float]:
        """Half the share of the question's words that a memory has too."""
        if not (asked := set(query_terms(query))):
            return {}
        texts = ((it.name, text) for it in _memories(self._agent) if (text := _memory_text(it)))
        return {name: len(asked & set(query_terms(text))) / len(asked) / 2 for name, text in texts}

    def search(self, inquiry: Inquiry, kinds: Collection[str]) -> SearchResult | None:
        """The best of these kinds of files; None when there are none."""
        index = self.sync() if kinds else None
        if index is None:
            return None
        allowed = candidates.Filter(kinds=frozenset(kinds))
        return msgspec.structs.replace(inquiry, allowed=allowed).of(index)

    def embed_some(self, limit: int) -> bool:
        """Make a few of the vectors that are missing; False when none is."""
        index = self.sync()
        return index is not None and index.embed_pending(limit) > 0

    def close(self) -> None:
        """Give the file back."""
        if self._index is not None:
            self._index.close()

    def news(self) -> str:
        """What is to be told of the library, once: that it was damaged."""
        return news_of(self._index)

    def sync(self) -> RecallIndex | None:
        """The index, level with the files; None while there are none."""
        with self._opening:
            if not (signature := _signature(self._agent)):
                return None
            try:
                if self._index is None:
                    self._index = RecallIndex(
                        self._agent.library, self._embedder, files_of(self._agent.agent)
                    )
                self._level(self._index, signature)
            except errors.IndexUnavailable:
                # A disk that cannot be written can still be read.
                self._index, self._seen = InMemoryIndex(self._embedder), ()
                self._level(self._index, signature)
            return self._index

    def _level(self, index: RecallIndex, signature: Signature) -> None:
        if signature != self._seen:
            passages = list(self._passages())
            index.keep_only(passages, store.IndexMark(len(passages), _digest(signature)))
            self._seen = signature

    def _passages(self) -> Iterator[Passage]:
        live = {one.file for one in read_shelf(self._agent).live}
        for path in _files(self._agent):
            written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
            if path.parent == self._agent.memory:
                if path.name not in live:
                    continue
                name, text = f"memory/{path.name}", _memory_text(path)
                yield from passages_of_file(name, text, session=self._agent.agent, ts=written)
                continue
            kind = "log" if path == self._agent.log else "journal"
            for heading, text in _sections(path):
                name = f"{path.name} § {heading}" if heading else path.name
                yield from passages_of_file(
                    name, text, session=self._agent.agent, ts=written, kind=kind
                )


def files_of(agent: str) -> str:
    """The name under which an agent's own files stand in the library; no session has such a one."""
    return f"files of {agent}"


def kinds_of_files(scope: str, *, memories: bool) -> tuple[str, ...]:
    """Which of an agent's own files belong to a scope: its log and journals span its sessions."""
    spanning = () if scope == "session" else ("log", "journal")
    return (*spanning, "memory") if memories else spanning


def _memories(agent: paths.AgentPlaces) -> Iterator[Path]:
    if agent.memory.is_dir():
        yield from sorted(agent.memory.glob("*_*.md"))


def _files(agent: paths.AgentPlaces) -> Iterator[Path]:
    yield from _memories(agent)
    if agent.log.is_file():
        yield agent.log
    if agent.journals.is_dir():
        yield from sorted(agent.journals.glob("*.md"))[-JOURNALS:]


def _signature(agent: paths.AgentPlaces) -> Signature:
    return tuple(_stamp(path) for path in _files(agent))


def _digest(signature: Signature) -> str:
    # The number changes with what is taken from a file, so that an older index is made anew.
    return hashlib.sha256(f"4 {signature!r}".encode()).hexdigest()[:32] if signature else ""


def state_of_files(agent: paths.AgentPlaces) -> str:
    """Changes when one of an agent's files does; empty where it has none."""
    return _digest(_signature(agent))


def _stamp(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return path.name, status.st_mtime_ns, status.st_size


def _memory_text(path: Path) -> str:
    """A memory's own words; nothing when the file is none."""
    try:
        memory = parse(read_text(path))
    except errors.ContinuityError:
        return ""
    return f"{memory.name}\n{memory.body}"


_TITLE: Final = patterns.pattern_of(r"\A# (?:Log|Journal of [\d-]+)$")
"""What this program writes above everything; nobody said it."""


def _sections(path: Path) -> Iterator[tuple[str, str]]:
    """What people wrote there, by heading, first what stands before all; of a long file, its end.

    What a session wrote may be taken back, corrected or refused since; it is found in that one,
    as it stands there now.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - READ))
        text = file.read().decode("utf-8", "replace")
    before, *sections = f"\n{text}".split("\n## ")
    yield "", _TITLE.sub("", before.strip())
    for section in sections:
        heading, _, body = section.partition("\n")
        if " · agent:" in heading:
            body = "\n".join(row for row in body.split("\n") if not row.startswith(("- ", "### ")))
        yield heading.strip(), body.strip()


Refer = Callable[[str], entries.Line]

_ELSEWHERE: Final = patterns.pattern_of(r"(agent:[^\s#]+)\s*#(\d+)")
_MEMORY: Final = patterns.pattern_of(r"(?:memory/)?([\w-]+\.md)")


class SourceText(msgspec.Struct, frozen=True):
    """A source's whole text and what it is."""

    text: str
    finding: str
    origin: str


class Sources(msgspec.Struct, dict=True, eq=False):
    """Everything a pointer in a prompt can lead to."""

    _home: paths.Places
    _key: paths.SessionKey
    _settings: RecallSettings
    refer: Refer
    _open_history: Callable[[], transcript.History]

    def read(self, pointer: str) -> SourceText:
        """What a pointer names; raises `NoSuchEntry`."""
        pointer = pointer.strip()
        if memory := _MEMORY.fullmatch(pointer):
            return self._memory(memory[1])
        if elsewhere := _ELSEWHERE.fullmatch(pointer):
            return self._elsewhere(elsewhere[1], int(elsewhere[2]))
        line = self.refer(pointer)
        with self._open_history() as history:
            return self._of_line(history, line, f"history #{line.seq}")

    def _memory(self, file: str) -> SourceText:
        for one in read_shelf(self._home.agent(self._key.agent)).live:
            if one.file == file:
                return SourceText(one.memory.body, f"memory: {one.memory.name}", f"memory/{file}")
        raise errors.NoSuchEntry(f"There is no memory {file} in force.", "`/memory` lists them.")

    def _elsewhere(self, session: str, seq: int) -> SourceText:
        try:
            key = paths.SessionKey.parse(session)
        except errors.SessionNameError as error:
            raise errors.NoSuchEntry(error.what, error.remedy) from error
        if key == self._key:
            return self.read(f"#{seq}")
        if not self._may_look_into(key) or not self._home.session(key).transcript.exists():
            raise errors.NoSuchEntry(
                f"{key} is not open to this session.", "`recall.scope` says where recall looks."
            )
        with transcript.History(self._home.session(key)) as history:
            return self._of_line(history, history.line(seq), f"history {key} #{seq}")

    def _of_line(self, history: transcript.History, line: entries.Line, origin: str) -> SourceText:
        open_questions.check_sent(history, line)
        finding = f"#{line.seq}, {line.kind} of turn {line.turn}"
        origin = ", ".join((origin, *transcript.standings_of(history).told(line)))
        return SourceText(_whole_text(history, line), finding, origin)

    def _may_look_into(self, key: paths.SessionKey) -> bool:
        scope = self._settings.scope
        allowed = scope == "all" or (scope == "agent" and key.agent == self._key.agent)
        return allowed and str(key) not in self._settings.exclude


def _whole_text(history: transcript.History, line: entries.Line) -> str:
    """All that an entry says; for a cut tool result, the whole output."""
    entry = history.whole(line).entry
    if isinstance(entry, ToolReturned) and entry.full:
        return history.blob(entry.full).decode("utf-8", "replace")
    if isinstance(entry, entries.Unknown):
        return line.raw.decode("utf-8", "replace")
    text = getattr(entry, "text", None)
    return text if isinstance(text, str) else line.raw.decode("utf-8", "replace")


def _no_turn(turn: int, history: transcript.History) -> errors.NoSuchEntry:
    """That a turn is not here; of a fork's, that it stayed where the fork came from."""
    opened = history.header.entry
    point = opened.forked_from if isinstance(opened, SessionOpened) else None
    newest = next(history.newest(["turn_started"], history.head.seq + 1), None)
    if point is None or newest is None or turn > newest.turn:
        return errors.NoSuchEntry(f"There is no turn {turn}.", "`/status` names the newest.")
    return errors.NoSuchEntry(
        f"Turn {turn} is not in this fork: it stayed in {point.session}.",
        f"`mindstone log -s {point.session} --turn {turn}` shows it.",
    )


def resolve_reference(pointer: str, history: transcript.History, fold: Fold) -> entries.Line:
    """The line behind an id, a number (`#42`), a call or a turn (`turn 7`)."""
    pointer = pointer.strip()
    if turn := re.fullmatch(r"(?:turn\s*|t)(\d+)", pointer):
        if not (lines := history.turn(int(turn[1]))):
            raise _no_turn(int(turn[1]), history)
        return next((line for line in lines if line.role == "user"), lines[0])
    if number := re.fullmatch(r"#?(\d+)", pointer):
        return history.line(int(number[1]))
    for line in fold.lines.values():
        if isinstance(line.entry, ToolReturned) and line.entry.call == pointer:
            return line
    return history.find(pointer)
