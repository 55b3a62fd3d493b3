"""What memory puts into a prompt: invariants, the index, notes, and a digest each turn.

Each has a room of its own. What does not fit is named or counted, never dropped in silence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from mindstone_tui.core.config.settings import MemorySettings
from mindstone_tui.core.context.extract import first_sentence
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.entries import Part
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.memory.files import INDEX, KINDS, Shelf, Shelved, resonance
from mindstone_tui.core.memory.notes import Note
from mindstone_tui.core.memory.notes import render as render_notes
from mindstone_tui.core.text import as_data

KIND_SHARE: Final = {
    "preference": 0.25,
    "lesson": 0.20,
    "decision": 0.20,
    "procedure": 0.15,
    "fact": 0.10,
    "project": 0.05,
    "reference": 0.05,
}
"""Of the digest's room, so that one talkative kind cannot crowd out the others."""
RELEVANT: Final = 0.25
"""Likeness below which a memory is not worth a line."""
_LINE_LENGTH: Final = 320


class Rendered(Part):
    """A text for the prompt, what stands in it, and what had to be left out."""

    text: str = ""
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    warning: str = ""


def head_sections(
    shelf: Shelf, notes: Sequence[Note], settings: MemorySettings, count: Count
) -> tuple[tuple[Section, ...], tuple[str, ...]]:
    """What memory adds to the head of every prompt, and a warning for what does not fit.

    Invariants and the index hold words that a person agreed to; notes are the model's own and
    stand there as data. The same notes always give the same bytes.
    """
    ruling = invariants(shelf, settings.invariant_tokens, count)
    listed = index(shelf, settings.digest_tokens, count)
    noted = render_notes(notes, count, settings.notes_tokens)
    texts = (
        ("invariants", "Always in force:", ruling.text),
        ("memory", "Memories; read_entry reads one by its file:", listed.text),
        (
            "notes",
            "Your notes:",
            as_data(noted, origin="notes", nonce=_seal(noted)) if noted else "",
        ),
    )
    sections = tuple(
        Section(name=name, text=f"{title}\n{text}", source="memory", raw_size=len(text))
        for name, title, text in texts
        if text
    )
    return sections, tuple(filter(None, (ruling.warning, listed.warning)))


def _seal(text: str) -> str:
    """A marker that the text cannot contain, the same for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def invariants(shelf: Shelf, budget: int, count: Count) -> Rendered:
    """Every rule that is always in force; where room ends its name stands for it."""
    ruling = sorted(
        (one for one in shelf.live if one.memory.invariant),
        key=lambda one: (not one.memory.critical, one.file),
    )
    full = [f"- {' '.join(one.memory.invariant.split())}" for one in ruling]
    short = [f"- {one.memory.name} (in {one.file}, shortened for room)" for one in ruling]
    for whole in range(len(ruling), -1, -1):
        text = "\n".join([*full[:whole], *short[whole:]])
        if count(text) <= budget:
            return _ruled(ruling, text, whole)
    named = len(ruling)
    while named and count("\n".join([*short[:named], _more(len(ruling) - named)])) > budget:
        named -= 1
    text = "\n".join([*short[:named], _more(len(ruling) - named)])
    return _ruled(ruling, text, 0)


def _ruled(ruling: Sequence[Shelved], text: str, whole: int) -> Rendered:
    left_out = tuple(one.file for one in ruling[whole:])
    warning = f"{len(left_out)} invariants do not fit their room" if left_out else ""
    return Rendered(
        text=text,
        files=tuple(one.file for one in ruling[:whole]),
        left_out=left_out,
        warning=warning,
    )


def _more(number: int) -> str:
    return f"- {number} more invariants do not fit here; `/memory` lists them"


def index_text(shelf: Shelf) -> str:
    """`MEMORY.md`: every live memory on a line, by kind."""
    blocks = ["# Memory"]
    for kind in KINDS:
        filed = [one for one in shelf.live if one.memory.kind == kind]
        if filed:
            blocks.append("\n".join([f"\n## {kind}", *map(_entry, filed)]))
    return "\n".join(blocks) + "\n"


def _entry(one: Shelved) -> str:
    about = one.memory.description or first_sentence(one.memory.body, 120)
    return f"- [{one.memory.name}]({one.file}): {about}"


def index(shelf: Shelf, budget: int, count: Count) -> Rendered:
    """The index for the prompt: whole, else names alone, else as many names as fit."""
    live = shelf.live
    if not live:
        return Rendered()
    files = tuple(one.file for one in live)
    whole = index_text(shelf).strip()
    if count(whole) <= budget:
        return Rendered(text=whole, files=files)
    names = [f"- {one.memory.name} ({one.file})" for one in live]
    shown = len(names)
    while shown and count(_names(names, shown)) > budget:
        shown -= 1
    return Rendered(
        text=_names(names, shown) if shown else "",
        files=files[:shown],
        left_out=files[shown:],
        warning=f"the memory index is shortened to its room; {INDEX} has it whole",
    )


def _names(names: Sequence[str], shown: int) -> str:
    rest = len(names) - shown
    return "\n".join([*names[:shown], *([f"({rest} more in {INDEX})"] if rest else [])])


def digest(
    shelf: Shelf, likeness: Mapping[str, float], budget: int, count: Count, now: datetime
) -> Rendered:
    """The memories that bear on this turn, by resonance, each kind within its share.

    `likeness` is recall's word on each file. Room that a kind leaves over goes to the best of the
    rest.
    """
    scored = [
        (resonance(one.memory, likeness[one.file], now).total, one)
        for one in shelf.live
        if likeness.get(one.file, 0.0) >= RELEVANT
    ]
    ranked = [one for _, one in sorted(scored, key=lambda pair: (-pair[0], pair[1].file))]
    room = {kind: int(budget * share) for kind, share in KIND_SHARE.items()}
    chosen: dict[str, str] = {}
    spent = 0
    for within_share in (True, False):
        for one in ranked:
            line = _digest_line(one)
            cost = count(line) + 1
            if one.file in chosen or spent + cost > budget:
                continue
            if within_share and cost > room[one.memory.kind]:
                continue
            room[one.memory.kind] -= cost
            spent += cost
            chosen[one.file] = line
    shown = [one.file for one in ranked if one.file in chosen]
    return Rendered(
        text="\n".join(chosen[file] for file in shown),
        files=tuple(shown),
        left_out=tuple(one.file for one in ranked if one.file not in chosen),
    )


def _digest_line(one: Shelved) -> str:
    body = " ".join(one.memory.body.split())
    if len(body) > _LINE_LENGTH:
        body = body[: _LINE_LENGTH - 1] + "…"
    return f"- [{one.memory.kind}] {one.memory.name}: {body} (memory/{one.file})"
