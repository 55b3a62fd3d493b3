"""The certificate of a compaction: what must not be lost, and what is left of it afterwards.

What must not be lost is what a checkpoint knows: rules, corrections, decisions, the task with its
next step, what fails, open questions, files in work, commands that ended well. It is *kept* where
each of its sentences stands in one sentence of what the program goes on with: all of its telling
words, in whichever form, and a no where it says no. A file or a command is kept where it stands
there as it is. Everything else is *lost* and given back word for word, as far as there is room;
what found none is *recoverable*: its line is named, and recall finds it. No model is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.context.extract import folded, holds
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.actions import actions_of
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import CompactionCertified
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.handoff.checkpoint import Sourced, advance, fresh
from mindstone_tui.core.language.sentences import parts_of
from mindstone_tui.core.language.words import plain_words, root, stopwords
from mindstone_tui.core.text import INJECTED, as_data, fresh_nonce
from mindstone_tui.core.tokens import rough_count

_FILES: Final = 8
"""Files in work that are listed, those that were changed last."""
_NO: Final = frozenset(
    [
        "no",
        "not",
        "never",
        "none",
        "nothing",
        "without",
        "avoid",
        "cannot",
        "nor",
        "instead",
        "forbidden",
        "forbid",
        "prohibited",
        "refuse",
        "refused",
        "don",
        "dont",
        "t",
        "stop",
    ]
)
"""Words that say no; the t is what is left of "don't"."""


def precious_in(lines: Sequence[Line], rules: Sequence[Sourced] = ()) -> list[Sourced]:
    """What must not be lost of a session up to here, the most binding first and nothing twice.

    To the program that they were said to, imported words are its own person's: here they settle
    what they settled there.
    """
    said = [
        msgspec.structs.replace(line, channel="program") if is_imported(line) else line
        for line in lines
    ]
    found: dict[str, Sourced] = {}
    for one in (*rules, *_listed(said)):
        # A request often says a rule or a decision as well: each of its sentences counts once.
        for text in parts_of(one.text) if one.kind in ("task", "next step") else (one.text,):
            found.setdefault(folded(text), msgspec.structs.replace(one, text=text))
    return list(found.values())


def _listed(lines: Sequence[Line]) -> Iterator[Sourced]:
    state = advance(fresh(""), lines)
    yield from (*state.binding, *state.decided)
    asked = {line.turn: line.seq for line in lines if isinstance(line.entry, UserMessage)}
    first = next(iter(asked.values()), 0)
    task = [("task", asked.get(state.goal_turn, first), state.goal)] if state.goal else []
    task += [("task", one.seq, one.text) for one in (state.asked,) if one]
    steps = [(one.seq, one.title) for one in (state.current,) if one]
    steps += [(one.seq, one.text) for one in state.next_steps]
    changed = {one.about: one.seq for one in actions_of(lines) if one.kind == "change" and one.ok}
    for kind, seq, text in (
        *task,
        *(("next step", *one) for one in steps),
        *(("failing", one.seq, one.text) for one in state.errors),
        *(("question", one.seq, one.text) for one in state.questions),
        *(("file", changed[path], path) for path in list(changed)[-_FILES:]),
        *(("command", one.seq, one.text) for one in state.commands if one.ok),
    ):
        yield Sourced(kind=kind, seq=seq, text=" ".join(text.split()))


def shown(one: Sourced) -> str:
    """It in one line, with its pointer; a rule that was set has a number instead of a line."""
    return f"- {f'#{one.seq} {one.kind}' if one.seq >= 0 else f'rule {-one.seq}'}: {one.text}"


def certify(
    program: str, precious: Sequence[Sourced], carried: str, tokens: int
) -> tuple[CompactionCertified, list[Sourced]]:
    """Look for each in what a program goes on with; of the rest, as many are lost as fit."""
    whole = folded(carried)
    heard = [frozenset(map(root, plain_words(part))) for part in parts_of(carried)]
    kept = [one for one in precious if _stands(one, whole, heard)]
    lost: list[Sourced] = []
    left: list[Sourced] = []
    room = tokens
    for one in precious:
        if one not in kept:
            room -= rough_count(shown(one))
            (lost if room >= 0 else left).append(one)
    kept_at, left_at, lost_at = (tuple(one.seq for one in group) for group in (kept, left, lost))
    entry = CompactionCertified(program=program, kept=kept_at, recoverable=left_at, lost=lost_at)
    return entry, lost


def _stands(one: Sourced, whole: str, heard: Sequence[frozenset[str]]) -> bool:
    told = one.kind not in ("file", "command") and parts_of(one.text)
    return holds(whole, folded(one.text)) or bool(
        told and all(_is_heard(frozenset(plain_words(part)), heard) for part in told)
    )


def _is_heard(said: frozenset[str], heard: Sequence[frozenset[str]]) -> bool:
    telling = frozenset(map(root, said - stopwords() - _NO))
    denials = frozenset(map(root, _NO)) if said & _NO else frozenset()
    return bool(telling) and any(telling <= one and (not denials or one & denials) for one in heard)


def given_back(lost: Sequence[Sourced], left: Sequence[int], session: str) -> str:
    """The block that a program is given; empty where nothing was lost."""
    if not lost:
        return ""
    head = (
        "This session was compacted, and what follows does not stand in the summary. It is word "
        f"for word what was said and done before, with its line in {session}; the tool read_entry "
        "shows what stands around it."
    )
    more = f"There was no room for lines {', '.join(map(str, left))}: recall finds them."
    body = "\n".join([head, "", *map(shown, lost), *([more] if left else [])])
    return as_data(body, origin=f"{INJECTED}compaction", nonce=fresh_nonce())
