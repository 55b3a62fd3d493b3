"""History as passages: which entries can be found again, by what words, under which id.

Messages are passages as they are, long ones in pieces. A tool result is found by the call that made
it, by what it says, and, where it is too long to index whole, by the paths, identifiers and errors
in it. Bookkeeping is left out, and so are summaries and what the model itself recalled: recall
brings back originals and does not feed on itself. A handoff is found by those who ask, and never
brought back unasked. A memory is found in its file, where it ceases to exist when a person undoes
it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal

import msgspec

from mindstone_tui.core.entries import Line, conversation, derived
from mindstone_tui.core.entries.marks import Corrected
from mindstone_tui.core.entries.provenance import UNKNOWN, is_imported
from mindstone_tui.core.language.lists import pattern_beside
from mindstone_tui.core.language.words import indexed, without_line_numbers
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.recall.question import MONTHS
from mindstone_tui.core.text import own_parts
from mindstone_tui.core.text_cache import Known

Form = Literal["prose", "code"]

CHUNKING: Final = "6"
"""Counts up when passages are cut or worded differently: what is stored of a session then starts
anew."""
LONGEST_PIECE: Final = 500
"""Characters of one piece. The embedding model would read twice as much, but a piece that says one
thing is found better, and more of them fit into a prompt."""


class Passage(msgspec.Struct, frozen=True):
    """Something that can be found again."""

    id: str
    """Entry id and piece number: `01HX…#0`."""
    session: str
    seq: int
    entry: str
    turn: int
    """The exchange it belongs to."""
    ts: str
    role: str
    speaker: str
    kind: str
    text: str
    """The words themselves, exactly as they stand in history."""
    source_id: str = ""
    piece: int = 0
    pieces: int = 1
    form: Form = "prose"
    about: str = ""
    """What the piece belongs to, when its own text does not say: the call of a tool result."""
    imported: bool = False
    """Said to another program: a quotation, and nobody's instruction here."""
    superseded: int = 0
    """The line that replaces it, as was judged and written down; 0 for none."""
    corrected: str = ""
    """As JSON, the sentences that others replace, by their lines, where the rest holds."""
    rewound: int = 0
    """The line that took it back, as the index knows; 0 while it holds."""
    undone: int = 0
    """The line that took back what its turn had done to files; 0 while that stands."""
    left_alone: str = "[]"
    """As JSON, the files that were left as they were then, or done again since."""
    meaning: bool = True
    """Whether a vector is made; the far end of a long tool output is found by words alone."""

    @property
    def standing(self) -> derived.Replacement:
        """How it stands, as the library keeps it."""
        return derived.Replacement(
            superseded_by=self.superseded or None,
            corrected={} if self.superseded else self.parts_replaced,
            undone_by=self.undone or None,
            left_alone=tuple(json.loads(self.left_alone)),
            imported=UNKNOWN if self.imported else None,
            interrupted=self.kind == "assistant_partial",
        )

    @property
    def parts_replaced(self) -> Corrected:
        """What was judged of some of its sentences, and written down."""
        told = json.loads(self.corrected or "{}")
        return derived.in_force({int(by): tuple(words) for by, words in told.items()})

    @property
    def pointer(self) -> str:
        """Where to look: `#42 of turn 7`, or the file."""
        return f"#{self.seq} of turn {self.turn}" if self.seq >= 0 else self.entry

    @property
    def heading(self) -> str:
        """Who, when and about what, as it is indexed before the text."""
        return _heading(self.speaker, self.ts, self.about)

    @property
    def indexed_text(self) -> str:
        """Heading and text: what words are made from."""
        heading = self.heading
        return f"{heading}: {self.text}" if heading else self.text

    @property
    def embedded_text(self) -> str:
        """What its vector is made from: the call is told by the first piece of a tool's output."""
        return self.text if self.kind == "tool_returned" and self.piece else self.indexed_text

    @property
    def embedded_hash(self) -> int:
        """Names that text, in the eight bytes of a row number."""
        digest = hashlib.sha256(self.embedded_text.encode("utf-8", "replace")).digest()
        return int.from_bytes(digest[:8], signed=True)

    @property
    def content_hash(self) -> bytes:
        """Names the indexed text; a receipt is this hash, read back."""
        return hashlib.sha256(self.indexed_text.encode("utf-8", "replace")).digest()[:16]


def indexed_words(passage: Passage) -> str:
    """The words of a passage's indexed text; many pieces of one output share a heading."""
    text = indexed(passage.text)
    heading = passage.heading
    return " ".join(filter(None, (_heading_words(heading), text))) if heading else text


@lru_cache(64)
def _heading_words(heading: str) -> str:
    return indexed(f"{heading}:")


@lru_cache(256)
def parse_time(ts: str) -> datetime | None:
    """An ISO 8601 time in UTC, or None when it is not one."""
    try:
        moment = datetime.fromisoformat(ts)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def epoch(ts: str) -> float:
    """Seconds since 1970; 0 when the time is unknown."""
    moment = parse_time(ts)
    return moment.timestamp() if moment else 0.0


@lru_cache(256)
def spoken_date(ts: str) -> str:
    """`8 May 2023`: a date in the words that people use for it, whatever the locale."""
    moment = parse_time(ts)
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}" if moment else ""


@lru_cache(64)
def _heading(speaker: str, ts: str, about: str) -> str:
    """The pieces of one line share it."""
    head = ", ".join(filter(None, (speaker, spoken_date(ts))))
    return f"{head} · {about}" if about else head


_FENCE: Final = pattern_of(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_PARAGRAPH: Final = pattern_of(r"\n(?:[^\S\n]*+\n)++")
_PAUSES: Final = (pattern_of(r"(?<=[.!?。！？؟])\s+|(?<=[。！？])"), pattern_of(r"\s+"))
_LEAST: Final = 0.4
"""A pause this early in a piece would waste most of it."""


def pieces_of(text: str, longest: int = LONGEST_PIECE) -> list[tuple[str, Form]]:
    """The text as pieces of at most `longest` characters, each prose or code."""
    if len(text) <= longest:
        return [(text, "code" if _FENCE.fullmatch(text.strip()) else "prose")]
    return [(piece, form) for block, form in _blocks(text) for piece in _cut_block(block, longest)]


def _blocks(text: str) -> Iterator[tuple[str, Form]]:
    at = 0
    fenced = "```" in text or "~~~" in text
    for fence in _FENCE.finditer(text) if fenced else ():
        yield text[at : fence.start()], "prose"
        yield fence[0], "code"
        at = fence.end()
    yield text[at:], "prose"


def _cut_block(text: str, longest: int) -> list[str]:
    parts: list[str] = []
    start = 0
    while len(text) - start > longest:
        end = _pause(text, start, start + longest)
        parts.append(text[start:end].strip())
        start = end
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _pause(text: str, start: int, limit: int) -> int:
    """The last good place to stop before `limit`: a paragraph, a line, a sentence, a word."""
    earliest = start + int((limit - start) * _LEAST)
    newline = text.rfind("\n", earliest, limit)
    if newline >= 0:
        return _last(_PARAGRAPH, text, earliest, newline + 1) or newline + 1
    for pause in _PAUSES:
        if end := _last(pause, text, earliest, limit):
            return end
    return limit


def _last(pause: re.Pattern[str], text: str, start: int, end: int) -> int:
    """Where the last such pause ends; 0 where there is none."""
    last = 0
    for found in pause.finditer(text, start, end):
        last = found.end()
    return last


TOOL_HEAD: Final = 16
TOOL_TAIL: Final = 6
"""Pieces of a tool result that are indexed whole, from its beginning and its end."""
TOOL_VECTORS: Final = 4
"""Pieces of a tool result that get a vector; the rest is found by words."""
TOLD: Final = 2
"""Pieces for the telling words of what lies between."""
_CALL_SHOWN: Final = 200
_QUOTES: Final = ("recall", "read_entry")
"""Our own tool, whose results repeat what stands elsewhere; another program's may not."""

_TROUBLE: Final = (
    *("error", "exception", "traceback", "fail", "fatal", "panic", "warning", "denied", "refused"),
    *("not found", "cannot"),
)
"""What stands in a line that tells of an error."""
_ERROR: Final = pattern_beside(__file__, "error")
_ERRNO: Final = pattern_of(r"E[A-Z]{4}")
_LONGEST_ERROR: Final = 160
_TELLING: Final = pattern_beside(__file__, "telling")
_LEAST_ROOM: Final = 12
"""With less room than this hardly a telling word fits."""


class Chunker(msgspec.Struct, eq=False):
    """Turns lines into passages, in order; remembers the calls that results belong to."""

    _calls: dict[str, str] = {}
    _programs: int = -1
    """The last turn that a program began with no word of a person's: nobody recalls it."""

    def passages(self, line: Line) -> list[Passage]:
        """The passages of one line; none when there is nothing to find."""
        match line.entry:
            case conversation.UserMessage() as said:
                if said.note and not said.text and not said.images:
                    self._programs = line.turn
                own = [piece for part in own_parts(said.text) for piece in pieces_of(part)]
                return _make(line, own, said.name or "user", said.source_id, "")
            case conversation.AssistantMessage() as said:
                for call in said.calls:
                    self._calls[call.id] = f"{call.name} {call.arguments}"
                text = said.text if line.turn != self._programs else ""
                return _cut(line, text, said.name or "assistant", source_id=said.source_id)
            case conversation.AssistantPartial(text=text):
                return _cut(line, text, "assistant")
            case conversation.ToolCalled() as call:
                self._calls[call.call] = f"{call.name} {call.shown}"
                return []
            case conversation.ToolReturned(name=name) if name in _QUOTES and not is_imported(line):
                return []
            case conversation.ToolReturned() as result:
                return self._of_result(line, result)
            case derived.NoteTaken(category=category, text=text):
                return _cut(line, text, "note", about=category)
            case derived.HandoffReplayed(text=text):
                return _cut(line, text, "handoff")
            case derived.DelegationEnded(child=child, text=text):
                return _cut(line, text, "sub-agent", about=child)
            case derived.TaskStarted(title=title, criteria=criteria, constraints=constraints):
                return _cut(line, "\n".join((title, *criteria, *constraints)), "task")
            case derived.TaskDone(title=title, summary=summary):
                return _cut(line, f"{title}\n{summary}".strip(), "task done")
            case _:
                return []

    def _of_result(self, line: Line, result: conversation.ToolReturned) -> list[Passage]:
        call = self._calls.pop(result.call, result.name)
        outcome = "" if result.status == "ok" else f" ({result.status})"
        about = " ".join(call.split())[:_CALL_SHOWN] + outcome
        speaker = result.name or "tool"
        pieces = pieces_of(result.text)
        if len(pieces) > TOOL_HEAD + TOOL_TAIL:
            middle = [text for text, _ in pieces[TOOL_HEAD:-TOOL_TAIL]]
            told = pieces_of(telling_words("\n".join(middle)))
            pieces = [*pieces[:TOOL_HEAD], *told, *pieces[-TOOL_TAIL:]]
        if not any(text for text, _ in pieces):
            pieces = [(result.finding or call, "prose")]
        return _make(line, pieces, speaker, result.source_id, about, vectors=TOOL_VECTORS)


def passages_of(lines: Iterable[Line]) -> list[Passage]:
    """The passages of an exchange, or of several, from all its lines."""
    chunker = Chunker()
    return [passage for line in lines for passage in chunker.passages(line)]


def passages_of_file(
    name: str, text: str, *, session: str, ts: str, kind: str = "memory"
) -> list[Passage]:
    """A memory, log or journal file as passages; their ids follow its content, not its lines."""
    pieces = pieces_of(text)
    return [
        Passage(
            id=f"{name}#{piece}",
            session=session,
            seq=-1,
            entry=name,
            turn=0,
            ts=ts,
            role="system",
            speaker=kind,
            kind=kind,
            text=part,
            piece=piece,
            pieces=len(pieces),
            form=form,
            about=name,
        )
        for piece, (part, form) in enumerate(pieces)
        if part.strip()
    ]


def telling_words(text: str, longest: int = TOLD * LONGEST_PIECE) -> str:
    """Error lines, then distinct paths and identifiers: what a long output is remembered by."""
    kept: dict[str, None] = {}
    room = longest
    for word in _most_telling(text):
        if len(word) < room and word not in kept:
            kept[word] = None
            room -= len(word) + 1
            if room < _LEAST_ROOM:
                break
    return "\n".join(kept)


def _most_telling(text: str) -> Iterator[str]:
    for stretch in _stretches(text):
        for start, end in sorted(_troubled(stretch)):
            for line in stretch[start:end].splitlines():
                if _ERROR.search(line):
                    yield line.strip()[:_LONGEST_ERROR]
    for stretch in _stretches(text):
        for chunk in dict.fromkeys(without_line_numbers(stretch).split()):
            yield from _told[chunk]


def _stretches(text: str) -> Iterator[str]:
    """The text as stretches of whole lines: who has read enough need not look at the rest."""
    start = 0
    while len(text) - start > _STRETCH:
        end = text.find("\n", start + _STRETCH) + 1 or len(text)
        yield text[start:end]
        start = end
    yield text[start:]


def _told_by(chunk: str) -> tuple[str, ...]:
    """The paths and identifiers in what stands between blanks; outputs repeat each other."""
    plain = chunk.isalpha() and (chunk.islower() or chunk[1:].islower())
    return () if plain else tuple([match[0] for match in _TELLING.finditer(chunk)])


_STRETCH: Final = 4_096
_told: Final = Known(_told_by)


def _troubled(text: str) -> set[tuple[int, int]]:
    """The lines that may tell of an error; few have to be looked at closely."""
    folded = text.lower()
    if len(folded) != len(text):  # some capitals become two letters
        return {(0, len(text))}
    lines = {_line_around(text, found.start()) for found in _ERRNO.finditer(text)}
    for word in _TROUBLE:
        at = folded.find(word)
        while at >= 0:
            line = _line_around(text, at)
            lines.add(line)
            at = folded.find(word, line[1])
    return lines


def _line_around(text: str, at: int) -> tuple[int, int]:
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _cut(
    line: Line, text: str, speaker: str, *, source_id: str = "", about: str = ""
) -> list[Passage]:
    return _make(line, pieces_of(text), speaker, source_id, about) if text.strip() else []


def _make(
    line: Line,
    pieces: list[tuple[str, Form]],
    speaker: str,
    source_id: str,
    about: str,
    vectors: int | None = None,
) -> list[Passage]:
    return [
        Passage(
            id=f"{line.id}#{piece}",
            session=line.session,
            seq=line.seq,
            entry=line.id,
            turn=line.turn,
            ts=line.ts,
            role=line.role,
            speaker=speaker,
            kind=line.kind,
            text=text,
            source_id=source_id,
            piece=piece,
            pieces=len(pieces),
            form=form,
            about=about,
            imported=is_imported(line),
            meaning=vectors is None or piece < vectors,
        )
        for piece, (text, form) in enumerate(pieces)
    ]
