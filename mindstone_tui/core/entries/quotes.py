"""Recalled words stand in history already: a line that quotes them points there.

Of a passage that is word for word part of an earlier line of the same session, `recall_injected`
keeps where it stands (`seq`, `of`, and its place `at` in the block) and leaves out what that line
says itself: the words, its id, its time and its speaker. What the model saw is the block with the
words put back (a few signs may differ there, such as brackets that could end the block: `but`);
`digest` is the hash of it, so a source that is not what was quoted is noticed.
Passages of files and of other sessions keep their words, because those can change.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from mindstone_tui.core.entries.base import Entry
from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected
from mindstone_tui.core.entries.line import Line

LineOf = Callable[[int], Line | None]
"""The line with a number, its text whole; None where there is none that can be read."""

_ALIKE: Final = str.maketrans("‹⁅", "<[")
"""Brackets that a block shows, and those that they may stand for."""
_MOST_DIFFERENT: Final = 8


def pointing(entry: Entry, session: str, line_of: LineOf) -> Entry:
    """The same entry, ready to be written to a session: it points wherever words can be found."""
    if not isinstance(entry, RecallInjected):
        return entry
    passages: list[RecalledPassage] = []
    block, end = entry.text.translate(_ALIKE), 0
    for passage in entry.passages:
        # Behind the one before, so that no two of them stand in the same place of the block.
        start = block.find(passage.text.translate(_ALIKE), end) if passage.text else -1
        if start >= 0:
            end = start + len(passage.text)
            if passage.session == session:
                passage = _pointer(passage, (start, end), entry.text, line_of)
        passages.append(passage)
    asked = entry.asked if _words_at(entry.asked, line_of) == entry.query else None
    return msgspec.structs.replace(entry, passages=tuple(passages), asked=asked)


def quoting(line: Line, line_of: LineOf) -> Line:
    """The same line with all it quotes put back.

    Where a source cannot be read, or is not what was quoted, the line stays as it is.
    """
    entry = line.entry
    if not isinstance(entry, RecallInjected) or not entry.leans:
        return line
    passages: list[RecalledPassage] = []
    block, put_back = entry.text, 0
    for passage in entry.passages:
        source = line_of(passage.seq) if passage.of is not None else None
        words = None if source is None else _words_of(source)
        if passage.of is None:
            passages.append(passage)
        elif source is None or words is None or passage.at is None:
            return line
        else:
            start, length = passage.at
            text = words[passage.of : passage.of + length]
            block = f"{block[:start]}{_shown(text, passage)}{block[start:]}"
            put_back += 1
            passages.append(_filled(passage, source, text))
    query = entry.query if entry.asked is None else _words_at(entry.asked, line_of)
    if query is None or (put_back and digest_of(block) != entry.digest):
        return line
    made = msgspec.structs.replace(
        entry, passages=tuple(passages), text=block, query=query, asked=None, digest=""
    )
    return msgspec.structs.replace(line, entry=made)


def digest_of(block: str) -> str:
    """What proves that a block is the one that was written."""
    return hashlib.sha256(block.encode("utf-8", "surrogatepass")).hexdigest()


def _pointer(
    passage: RecalledPassage, place: tuple[int, int], block: str, line_of: LineOf
) -> RecalledPassage:
    """The passage with the place of its words; as it is if anything of it would not come back."""
    source = line_of(passage.seq)
    words = None if source is None else _words_of(source)
    of = -1 if words is None else words.find(passage.text)
    if source is None or of < 0 or _filled(passage, source, passage.text) != passage:
        return passage
    shown = block[slice(*place)]
    but = () if shown == passage.text else tuple(_different(shown, passage.text))
    if len(but) > _MOST_DIFFERENT:
        return passage
    return msgspec.structs.replace(passage, at=(place[0], len(shown)), of=of, but=but)


def _different(shown: str, text: str) -> Iterator[tuple[int, str]]:
    """The signs of a text that are shown in another form."""
    for at, (sign, own) in enumerate(zip(shown, text, strict=True)):
        if sign != own:
            yield at, sign


def _shown(text: str, passage: RecalledPassage) -> str:
    """The text as the block has it."""
    if not passage.but:
        return text
    signs = list(text)
    for at, sign in passage.but:
        signs[at : at + 1] = sign
    return "".join(signs)


def _filled(passage: RecalledPassage, source: Line, text: str) -> RecalledPassage:
    """The passage with what its source says."""
    return msgspec.structs.replace(
        passage,
        session=source.session,
        entry=source.id,
        turn=source.turn,
        ts=source.ts,
        speaker=getattr(source.entry, "name", "") or source.role,
        text=text,
        at=None,
        of=None,
        but=(),
    )


def _words_at(seq: int | None, line_of: LineOf) -> str | None:
    source = None if seq is None else line_of(seq)
    return None if source is None else _words_of(source)


def _words_of(line: Line) -> str | None:
    words = getattr(line.entry, "text", None)
    return words if isinstance(words, str) else None
