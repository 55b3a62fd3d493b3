"""Compactions, our own and of attached programs: what each one lost, and the trend.

A certificate says what must not be lost, and what is left of it afterwards. What must not be lost
is what a checkpoint knows: rules, corrections, decisions, the task with its next step, what fails,
open questions, files in work, commands that ended well. It is *kept* where each of its sentences
stands in one sentence of what the program goes on with: all of its telling words, in whichever
form, and a no where it says no. A file or a command is kept where it stands there as it is.
Everything else is *lost* and given back word for word, as far as there is room; what found none is
*recoverable*: its line is named, and recall finds it. No model is asked.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.context.extract import folded, holds
from mindstone_tui.core.entries import Line, actions, conversation, derived, provenance
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.handoff.checkpoint import FinishedCommand, Sourced, advance, fresh
from mindstone_tui.core.interchange.formats import formats
from mindstone_tui.core.language.sentences import parts_of
from mindstone_tui.core.language.words import plain_words, root, stopwords
from mindstone_tui.core.library.lease import appending
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.rules.book import RuleBook
from mindstone_tui.core.text import INJECTED, as_data, fresh_nonce
from mindstone_tui.core.tokens import rough_count
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.encode import Clean

BEFORE: Final = "pre_compact"
"""What a handoff is written for when a program says that it is about to compact."""
_LOOKED_BACK: Final = 20_000
LISTED: Final = 4_000
"""Lines in which what must not be lost is looked for."""
_NEWEST: Final = 8
"""Compactions of a program whose share is shown as its trend."""


class _Announced(msgspec.Struct):
    """The newest compaction of a session, as far as it is known."""

    since: int = 0
    """The line where it was announced; 0 if there never was one."""
    ts: str = ""
    """When that was; empty once it is certified."""
    by_hand: bool = False
    precious: list[Sourced] = []
    given: list[Sourced] = []


class Compactions(msgspec.Struct, eq=False):
    """Certifies what programs write when they compact, and says what to give back."""

    _home: Places
    _clean: Clean
    _later: Callable[..., object]
    _known: dict[SessionPlaces, _Announced] = {}

    def announce(self, own: SessionPlaces, folder: Path, *, by_hand: bool) -> None:
        """List what must not be lost, while the program still compacts."""
        known = self._known[own] = _announced_in(own)
        known.by_hand = by_hand
        known.precious = self._precious(own, folder, known.since)

    def in_window(self, own: SessionPlaces) -> list[int]:
        """The lines of a session that stand in its program's window; none if it never compacted."""
        if not (known := self._of(own)).since:
            return []
        with History(own) as history:
            return [*(one.seq for one in known.given), *range(known.since, history.head.seq + 1)]

    def lost(
        self, own: SessionPlaces, folder: Path, file: Path | None, tokens: int, *, starts: bool
    ) -> str:
        """What a compaction lost, word for word and once; the certificate is written later.

        Where the summary is not in the program's file yet, a person's next prompt can wait for it.
        A program that goes on by itself (`starts`) and not by hand, or whose file tells nothing,
        is given everything.
        """
        known, when, text = self._of(own), "", ""
        program = next((one for one in formats() if own.key.main.startswith(f"{one}-")), "")
        if file and program and known.ts and (goes_on := formats()[program].goes_on):
            with contextlib.suppress(MindstoneError, OSError):
                when, text = goes_on(file)
            waits = known.by_hand
        else:
            waits = not known.ts
        is_there = bool(known.ts) and when >= known.ts
        if not is_there and (waits or known.given or not starts):
            known.ts = known.ts if starts else ""
            return ""
        precious = known.precious or self._precious(own, folder, known.since)
        entry, lost = certify(program, precious, text if is_there else "", tokens)
        new = [one for one in lost if one not in known.given]
        known.given = [*known.given, *new]
        if is_there:
            known.ts = ""
            self._later(self._write, own, entry)
        return given_back(new, entry.recoverable, str(own.key))

    def _of(self, own: SessionPlaces) -> _Announced:
        return self._known.get(own) or self._known.setdefault(own, _announced_in(own))

    def _precious(self, own: SessionPlaces, folder: Path, until: int) -> list[Sourced]:
        rules = RuleBook(self._home).binding(folder)
        with contextlib.suppress(MindstoneError, OSError), History(own) as history:
            read = history.read(max(until - LISTED, 0), until)
            lines = [history.whole(line) for line in read if isinstance(line, Line)]
            return precious_in(lines, {one.number: one.words for one in rules})
        return []

    def _write(self, own: SessionPlaces, entry: derived.CompactionCertified) -> None:
        with appending(own, self._clean) as transcript:
            if transcript is not None:
                transcript.append(entry, turn=transcript.last_turn)


def _announced_in(own: SessionPlaces) -> _Announced:
    ts = ""
    with contextlib.suppress(MindstoneError, OSError), History(own) as history:
        for line in history.newest({"handoff_written", "compaction_certified"}, _LOOKED_BACK):
            if isinstance(line.entry, derived.HandoffWritten) and line.entry.trigger == BEFORE:
                return _Announced(line.seq, "" if ts else line.ts)
            ts = ts or (line.ts if isinstance(line.entry, derived.CompactionCertified) else "")
    return _Announced()


def lines_of(home: Places, kinds: Collection[str]) -> Iterator[tuple[SessionPlaces, list[Line]]]:
    """The sessions of a home that have lines of some kinds, with these lines, oldest first."""
    for own in home.sessions():
        with contextlib.suppress(MindstoneError, OSError), History(own) as history:
            if found := list(history.newest(kinds, history.head.seq + 1)):
                yield own, found[::-1]


def firings(home: Places) -> Iterator[tuple[SessionKey, derived.RuleFired, int]]:
    """Every time a rule spoke in any session, and how many compactions had been there before."""
    for own, lines in lines_of(home, {"rule_fired", "handoff_written"}):
        after = 0
        for line in lines:
            match line.entry:
                case derived.HandoffWritten(trigger=trigger):
                    after += trigger in (BEFORE, "window")
                case derived.RuleFired():
                    yield own.key, line.entry, after


def compactions(home: Places) -> tuple[str, list[dict[str, Any]]]:
    """How much of what must not be lost each program's compactions kept, in words and as data."""
    lines = [line for _, some in lines_of(home, {"compaction_certified"}) for line in some]
    programs: dict[str, dict[str, Any]] = {}
    said = "No compaction was certified yet."
    for line in sorted(lines, key=lambda one: one.ts):
        if isinstance(one := line.entry, derived.CompactionCertified):
            row = programs.setdefault(one.program, {"program": one.program, "trend": []})
            found = {"kept": one.kept, "lost": one.lost, "recoverable": one.recoverable}
            row |= {name: row.get(name, 0) + len(each) for name, each in found.items()}
            row["trend"].append(round(len(one.kept) / max(sum(map(len, found.values())), 1), 4))
            row["compactions"] = len(row["trend"])
            said = f"{one.program}: compaction at {line.ts[11:16]}: {one.sentence}."
    head = "program         compactions   kept   given back   left to recall   kept of the newest"
    rows = [
        f"{name:16}{row['compactions']:>11}{row['kept']:>7}{row['lost']:>13}"
        f"{row['recoverable']:>17}   " + " ".join(f"{each:.0%}" for each in row["trend"][-_NEWEST:])
        for name, row in sorted(programs.items())
    ]
    return "\n".join([*([head, *rows] if rows else []), said]), list(programs.values())


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
        msgspec.structs.replace(line, channel="program") if provenance.is_imported(line) else line
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
    asked = {it.turn: it.seq for it in lines if isinstance(it.entry, conversation.UserMessage)}
    now = [Sourced(text=one.title, seq=one.seq) for one in (state.current,) if one]
    done = [one for one in actions.actions_of(lines) if one.kind == "change" and one.ok]
    groups: dict[str, Sequence[Sourced | FinishedCommand | None]] = {
        "task": (Sourced(text=state.goal, seq=asked.get(state.goal_turn, 0)), state.asked),
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
) -> tuple[derived.CompactionCertified, list[Sourced]]:
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
    return derived.CompactionCertified(
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
