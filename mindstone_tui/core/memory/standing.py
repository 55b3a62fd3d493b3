"""What memory puts into a prompt: standing files, invariants, the index, and a digest each turn.

Each has a room of its own. What does not fit is named or counted, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from mindstone_tui.core.context.asking import Count
from mindstone_tui.core.context.extract import first_sentence
from mindstone_tui.core.entries import Part
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.memory.files import INDEX, KINDS, Shelf, Shelved, read_text
from mindstone_tui.core.memory.resonance import resonance
from mindstone_tui.core.places import AgentPlaces

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


def standing_sections(
    places: AgentPlaces, budget: int, count: Count
) -> tuple[tuple[Section, ...], tuple[str, ...]]:
    """IDENTITY.md and USER.md within their room, and a warning for each that is too fat."""
    sections: list[Section] = []
    warnings: list[str] = []
    for name, path in (("identity", places.identity), ("user", places.user)):
        if not path.exists():
            continue
        try:
            text = read_text(path).strip()
        except ContinuityError as error:
            warnings.append(error.what)
            continue
        share = budget // 2 if not sections else budget - sum(count(s.text) for s in sections)
        shown = _cut(text, share, count)
        if shown != text:
            warnings.append(
                f"{path.name} has {count(text)} tokens and room for {share}: its end is cut. "
                "Keep it thin and move the rest to memories."
            )
        if shown:
            sections.append(Section(name=name, text=shown, source=str(path), raw_size=len(text)))
    return tuple(sections), tuple(warnings)


def _cut(text: str, budget: int, count: Count) -> str:
    """The longest run of whole lines from the start that fits, with a sign where it ends."""
    if count(text) <= budget:
        return text
    lines = text.splitlines()
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if count("\n".join([*lines[:middle], "[… cut]"])) <= budget:
            low = middle
        else:
            high = middle - 1
    return "\n".join([*lines[:low], "[… cut]"]) if low else ""


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
