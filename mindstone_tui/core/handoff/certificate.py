"""The certificate of a compaction: what must not be lost, and what is left of it afterwards.

What must not be lost is what a checkpoint knows: rules, corrections, decisions, the task with its
next step, what fails, open questions, files in work, commands that ended well. It is *kept* where
each of its sentences stands in one sentence of what the program goes on with: all of its telling
words, in whichever form, and a no where it says no. A file or a command is kept where it stands
there as it is. Everything else is *lost* and given back word for word, as far as there is room;
what found none is *recoverable*: its line is named, and recall finds it. No model is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.context.extract import folded, holds
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.actions import actions_of
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import CompactionCertified
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.handoff.checkpoint import FinishedCommand, Sourced, advance, fresh
from mindstone_tui.core.language.sentences import parts_of
from mindstone_tui.core.language.words import plain_words, root, stopwords
from mindstone_tui.core.text import INJECTED, as_data, fresh_nonce
from mindstone_tui.core.tokens import rough_count

_FILES: Final = 8
"""Files in work that are listed, those that were changed last."""
_NO: Final = frozenset(map(root, (
    *("no", "not", "never", "none", "nothing", "nor", "without", "cannot", "don", "dont", "t"),
    *("avoid", "instead", "forbid", "forbidden", "prohibited", "refuse", "stop"),
)))  # fmt: skip
"""Words that say no; the t is what is left of "don't"."""


def precious_in(lines: Sequence[Line], rules: Mapping[int, str]) -> list[Sourced]:
    """What must not be lost of a session up to here, the most binding first and nothing twice.

    To the program that they were said to, imported words are its own person's: here they settle
    what they settled there. A rule that was set stands for its line by its number, below 0.
    """
    said = [
        msgspec.structs.replace(line, channel="program") if is_imported(line) else line
        for line in lines
    ]
    standing = [Sourced(kind="rule", seq=-number, text=text) for number, text in rules.items()]
    found: dict[str, Sourced] = {}
    for one in (*standing, *_listed(said)):
        # A request often says a rule or a decision as well: each of its sentences counts once.
        for text in parts_of(one.text) if one.kind in ("task", "next step") else (one.text,):
            found.setdefault(folded(text), msgspec.structs.replace(one, text=text))
    return list(found.values())


def _listed(lines: Sequence[Line]) -> Iterator[Sourced]:
    state = advance(fresh(""), lines)
    yield from (*state.binding, *state.decided)
    asked = {line.turn: line.seq for line in lines if isinstance(line.entry, UserMessage)}
    task = Sourced(text=state.goal, seq=asked.get(state.goal_turn, 0))
    now = [Sourced(text=one.title, seq=one.seq) for one in (state.current,) if one]
    done = [one for one in actions_of(lines) if one.kind == "change" and one.ok]
    groups: dict[str, Sequence[Sourced | FinishedCommand | None]] = {
        "task": (task, state.asked),
        "next step": (*now, *state.next_steps),
        "failing": state.errors,
        "question": state.questions,
        "file": [Sourced(text=one.about, seq=one.seq) for one in done[-_FILES:]],
        "command": [one for one in state.commands if one.ok],
    }
    for kind, group in groups.items():
        for each in group:
            if each is not None and each.text:
                yield Sourced(kind=kind, seq=each.seq, text=" ".join(each.text.split()))


def _shown(one: Sourced) -> str:
    return f"- {f'#{one.seq} {one.kind}' if one.seq >= 0 else f'rule {-one.seq}'}: {one.text}"


def certify(
    program: str, precious: Sequence[Sourced], carried: str, tokens: int
) -> tuple[CompactionCertified, list[Sourced]]:
    """Look for each in what a program goes on with; of the rest, as many are lost as fit."""
    whole = folded(carried)
    heard = [frozenset(map(root, plain_words(part))) for part in parts_of(carried)]
    kept, left, lost = list[int](), list[int](), list[Sourced]()
    for one in precious:
        if _stands(one, whole, heard):
            kept.append(one.seq)
        elif (cost := rough_count(_shown(one))) <= tokens:
            tokens -= cost
            lost.append(one)
        else:
            left.append(one.seq)
    pointers = tuple(one.seq for one in lost)
    return CompactionCertified(
        program=program, kept=tuple(kept), recoverable=tuple(left), lost=pointers
    ), lost


def _stands(one: Sourced, whole: str, heard: Sequence[frozenset[str]]) -> bool:
    if one.kind in ("file", "command") or holds(whole, folded(one.text)):
        return holds(whole, folded(one.text))
    for part in parts_of(one.text):
        said = frozenset(map(root, plain_words(part)))
        telling = said - frozenset(map(root, stopwords())) - _NO
        no = said & _NO
        if not telling or not any(telling <= each and (not no or each & _NO) for each in heard):
            return False
    return True


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
    body = "\n".join([head, "", *map(_shown, lost), *([more] if left else [])])
    return as_data(body, origin=f"{INJECTED}compaction", nonce=fresh_nonce())
