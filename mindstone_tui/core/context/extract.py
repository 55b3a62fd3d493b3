"""A shorter text without a model: sentences of the originals, chosen and never reworded.

This is what stands in when no model is allowed, or when what a model wrote lost something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mindstone_tui.core.context.asking import Count
from mindstone_tui.core.context.facts import (
    Facts,
    folded,
    holds,
    is_decision,
    is_error,
    is_open,
    is_rule,
    sentences,
)
from mindstone_tui.core.context.material import Passage

SECTIONS: Final = (
    "Constraints",
    "Open",
    "Decisions",
    "Problems",
    "Asked",
    "Came of it",
    "Names and numbers",
)
WORD_FOR_WORD: Final = "Word for word:"
_TITLE_LENGTH: Final = 80
_MANDATORY: Final = frozenset({"Constraints", "Open", "Names and numbers"})


def extract(
    passages: Sequence[Passage], must: Facts, target: int, count: Count, *, rules: bool = False
) -> str:
    """The sentences that count, with the turn they were said in, within about `target` tokens.

    What must survive is there even when that takes more. Rules are left to `verbatim`, unless
    they are asked for.
    """
    chosen: dict[str, list[str]] = {section: [] for section in SECTIONS}
    seen: set[str] = set()
    spent = 0
    for section, line in sorted(_candidates(passages, must), key=_urgency):
        key = folded(line)
        cost = count(line) + 1
        if section == "Constraints" and not rules:
            continue
        if key in seen or (section not in _MANDATORY and spent + cost > target):
            continue
        seen.add(key)
        spent += cost
        chosen[section].append(line)
    blocks = [
        f"{section}:\n" + "\n".join(f"- {line}" for line in lines)
        for section, lines in chosen.items()
        if lines
    ]
    return "\n".join(blocks)


def titles(passages: Sequence[Passage]) -> str:
    """One line per turn: what was asked."""
    asked: dict[int, str] = {}
    for passage in passages:
        if passage.speaker == "user" or passage.turn not in asked:
            asked[passage.turn] = first_sentence(passage.text, _TITLE_LENGTH)
    return "\n".join(f"- turn {turn}: {title}" for turn, title in asked.items())


def verbatim(must: Facts, approvals: Sequence[str], text: str) -> str:
    """Rules and permissions word for word, and the open items that a text does not hold as such."""
    haystack = folded(text)
    kept = [
        *(f"- constraint: {said}" for said in must.constraints),
        *(f"- permission: {said}" for said in approvals),
        *(f"- open: {said}" for said in must.open_items if not holds(haystack, folded(said))),
    ]
    return "\n".join([WORD_FOR_WORD, *map(_one_line, kept)]) if kept else ""


def rules_in(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules and the permissions that a text carries word for word."""
    block = text.partition(WORD_FOR_WORD)[2].splitlines()
    found = (
        tuple(line.removeprefix(label) for line in block if line.startswith(label))
        for label in ("- constraint: ", "- permission: ")
    )
    rules, permissions = found
    return rules, permissions


def _one_line(text: str) -> str:
    return " ".join(text.split())


NOTE: Final = re.compile(
    r"(?P<category>task_progress|decisions|bugs|constraints|learnings|misc)\s*\|\s*"
    r"(?P<importance>critical|high|normal)\s*\|\s*(?P<text>\S.*)"
)
"""A note on a line of its own: `category | importance | text`."""

_NOTE_OF: Final = {
    "Constraints": "constraints | critical",
    "Open": "task_progress | high",
    "Decisions": "decisions | high",
    "Problems": "bugs | high",
    "Asked": "task_progress | normal",
    "Came of it": "misc | normal",
    "Names and numbers": "misc | normal",
}


def as_notes(passages: Sequence[Passage], must: Facts, target: int, count: Count) -> str:
    """The same choice of sentences, a note a line."""
    section = ""
    notes: list[str] = []
    for line in extract(passages, must, target, count, rules=True).splitlines():
        if line.startswith("- "):
            notes.append(f"{_NOTE_OF[section]} | {line[2:]}")
        else:
            section = line.removesuffix(":")
    return "\n".join(notes)


def notes_kept(must: Facts, approvals: Sequence[str], text: str) -> str:
    """Rules, permissions and open items that notes do not hold word for word, as notes."""
    kind = {
        "constraint": "constraints | critical",
        "permission": "constraints | high",
        "open": "task_progress | high",
    }
    lines = verbatim(must, approvals, text).splitlines()[1:]
    split = (line.removeprefix("- ").split(": ", 1) for line in lines)
    return "\n".join(f"{kind[label]} | {said}" for label, said in split)


def notes_form(text: str) -> str:
    """What is wrong with the form of notes, or nothing."""
    wrong = [line for line in text.splitlines() if line.strip() and not NOTE.match(line.strip())]
    return f"not a note: {wrong[0][:80]}" if wrong else ""


def first_sentence(text: str, limit: int) -> str:
    """The beginning of a text as one line."""
    first = next(sentences(text), "")
    line = " ".join(first.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _candidates(passages: Sequence[Passage], must: Facts) -> Iterator[tuple[str, str]]:
    for passage in passages:
        where = f" (turn {passage.turn})"
        for sentence in sentences(passage.text):
            section = _section(passage, sentence)
            if section:
                yield section, " ".join(sentence.split()) + where
        if passage.speaker == "user":
            yield "Asked", first_sentence(passage.text, 200) + where
        elif passage.speaker == "tool":
            found = passage.finding or first_sentence(passage.text, 160)
            yield "Came of it", f"{passage.name or 'tool'}: {found}{where}"
        elif passage.text:
            yield "Came of it", first_sentence(passage.text, 200) + where
    names = (*must.paths, *must.identifiers, *must.numbers)
    if names:
        yield "Names and numbers", "; ".join(names)


def _section(passage: Passage, sentence: str) -> str:
    if passage.speaker == "user" and is_rule(sentence):
        return "Constraints"
    if passage.speaker != "tool" and is_open(sentence):
        return "Open"
    if passage.speaker != "tool" and is_decision(sentence):
        return "Decisions"
    return "Problems" if is_error(sentence) else ""


def _urgency(candidate: tuple[str, str]) -> int:
    section = candidate[0]
    return -1 if section in _MANDATORY else SECTIONS.index(section)
