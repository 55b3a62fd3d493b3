"""The only way into memory: a proposal with its source, a person's word, and a way back.

A proposal carries the whole file before and after, so that its diff is what will be written. The
decision is recorded first and applied after; applying is safe to repeat, so a crash in between
costs nothing.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec

from mindstone_tui.core import disk, entries, patterns, redaction
from mindstone_tui.core.entries import standings
from mindstone_tui.core.entries.derived import (
    BY_CORRECTION,
    MemoryDecided,
    MemoryProposed,
    StatementSuperseded,
)
from mindstone_tui.core.errors import ContinuityError, NotAllowed
from mindstone_tui.core.language.lists import lists_in
from mindstone_tui.core.language.replacement import says_more
from mindstone_tui.core.memory import files
from mindstone_tui.core.paths import AgentPlaces
from mindstone_tui.core.text import for_terminal

_FILE: Final = Path(__file__).with_name("personal.txt")
_CARD: Final = patterns.pattern_of(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")


@cache
def _personal() -> dict[str, re.Pattern[str]]:
    """What is about a person, by what to call it; a star behind a name ignores case."""
    return {
        name.rstrip("*"): re.compile(lines[0], re.IGNORECASE if name.endswith("*") else 0)
        for name, lines in lists_in(_FILE).items()
    }


def cautions(text: str, redactor: redaction.Redactor | None = None) -> tuple[str, ...]:
    """Why a person should look twice before this is remembered; empty when nothing was noticed."""
    found = [label for label, pattern in _personal().items() if pattern.search(text)]
    if any(_passes_luhn(match.group()) for match in _CARD.finditer(text)):
        found.append("a card number")
    if redactor is not None:
        secrets = {finding.kind for finding in redactor.redact(text).found}
        found += [f"a secret ({kind}), blacked out" for kind in sorted(secrets)]
    if "[redacted:" in text:
        found.append("a secret that was blacked out")
    return tuple(dict.fromkeys(found))


def _passes_luhn(written: str) -> bool:
    digits = [int(sign) for sign in written if sign.isdigit()]
    doubled = (d * 2 - 9 * (d > 4) if at % 2 else d for at, d in enumerate(reversed(digits)))
    return sum(doubled) % 10 == 0


STANDING: Final = frozenset({"USER.md", "IDENTITY.md"})


def write_index(places: AgentPlaces) -> None:
    """Bring `MEMORY.md` up to date with the files beside it."""
    if places.memory.is_dir():
        text = files.index_text(files.read_shelf(places))
        disk.replace_file(places.memory / files.INDEX, text.encode())


def credit(places: AgentPlaces, file: str, *, now: str, prevented: bool = False) -> files.Memory:
    """Count a use, or a prevented mistake; the memory's words are not touched."""
    path = path_of(places, f"memory/{file}")
    memory = files.parse(files.read_text(path))
    counted = msgspec.structs.replace(
        memory,
        hits=memory.hits + (not prevented),
        prevented=memory.prevented + prevented,
        last_applied=now,
    )
    disk.replace_file(path, files.render(counted).encode())
    return counted


def doubt(places: AgentPlaces, file: str, by: str) -> None:
    """Mark a memory as corrected by a line, or as holding again; its words are not touched."""
    path = path_of(places, f"memory/{file}")
    marked = msgspec.structs.replace(files.parse(files.read_text(path)), doubted=by)
    disk.replace_file(path, files.render(marked).encode())
    write_index(places)


def current_text(places: AgentPlaces, path: str) -> str:
    """The file as it is now; empty when there is none."""
    file = path_of(places, path)
    return files.read_text(file) if file.exists() or file.is_symlink() else ""


def path_of(places: AgentPlaces, path: str) -> Path:
    """Where a proposal may write: a file of the memory folder, or a standing file."""
    parts = PurePosixPath(path).parts
    inside = len(parts) == 2 and parts[0] == "memory" and parts[1] != files.INDEX
    name = parts[-1] if parts else ""
    if path in STANDING:
        return places.folder / path
    if inside and name.endswith(".md") and not name.startswith(".") and "\\" not in name:
        return places.memory / name
    raise ContinuityError(
        f"{path} is no place for a memory.", "Memories live in memory/<name>.md and USER.md."
    )


def same_words(one: str, other: str) -> bool:
    """Whether two texts of a memory say the same; its use and who doubts it do not count."""
    if one == other:
        return True
    try:
        return _uncounted(files.parse(one)) == _uncounted(files.parse(other))
    except ContinuityError:
        return False


def with_counts_of(text: str, current: str) -> str:
    """The text with the counts that its file has gathered meanwhile."""
    try:
        memory, counted = files.parse(text), files.parse(current)
    except ContinuityError:
        return text
    return files.render(
        msgspec.structs.replace(
            memory,
            hits=max(memory.hits, counted.hits),
            prevented=max(memory.prevented, counted.prevented),
            last_applied=max(memory.last_applied, counted.last_applied),
        )
    )


def _uncounted(memory: files.Memory) -> files.Memory:
    return msgspec.structs.replace(memory, hits=0, prevented=0, last_applied="", doubted="")


Decision = Literal["approved", "edited", "refused", "undone"]

PERSON: Final = "person"
"""The only one whose decision counts."""
LONGEST_TEXT: Final = 4_000


class ProposalDraft(entries.Part):
    """What somebody wants to be remembered."""

    kind: files.Kind
    name: str
    text: str
    file: str = ""
    """The memory that it changes; else the one of the same name, or a new one."""


class Proposal(entries.Part):
    """A proposal as it is recorded, the diff a person sees, and reasons to look twice."""

    entry: MemoryProposed
    diff: str
    cautions: tuple[str, ...] = ()


class ProposalState(entries.Part):
    """A proposal and what became of it; an empty decision is still open."""

    entry: MemoryProposed
    seq: int
    since: str = ""
    """When it was made."""
    decision: Decision | Literal[""] = ""
    after: str = ""
    """The text that was agreed to."""

    @property
    def body(self) -> str:
        """The words that it would have remembered."""
        try:
            return files.parse(self.after or self.entry.after).body
        except ContinuityError:
            return self.entry.after

    @property
    def corrects(self) -> bool:
        """Whether it was made because a person's words replace a memory."""
        return self.entry.by.startswith(BY_CORRECTION)


def propose(
    places: AgentPlaces,
    draft: ProposalDraft,
    *,
    proposal: str,
    sources: Sequence[int],
    session: str,
    by: str,
    created: str,
    why: str = "",
    redactor: redaction.Redactor | None = None,
) -> Proposal:
    """A new or changed memory, with secrets blacked out; nothing is written."""
    if not draft.text.strip() or not draft.name.strip():
        raise ContinuityError("A memory needs a name and a text.", "Say what is to be remembered.")
    if len(draft.text) > LONGEST_TEXT:
        raise ContinuityError(
            f"A memory of {len(draft.text)} characters is too long.",
            f"Say it in at most {LONGEST_TEXT}, or keep it in a file of the project.",
        )
    if draft.kind not in files.KINDS:
        raise ContinuityError(
            f"There is no kind of memory {draft.kind!r}.", f"Choose from {', '.join(files.KINDS)}."
        )
    kept = files.read_shelf(places).kept
    known = {one.file: one for one in kept} | {one.memory.name.casefold(): one for one in kept}
    earlier = known.get(draft.file or draft.name.strip().casefold())
    taken = frozenset(path.name for path in places.memory.glob("*.md"))
    file = earlier.file if earlier else files.file_name(draft.kind, draft.name, taken)
    blank = files.Memory(name="", kind=draft.kind, body="", created=created)
    before = earlier.memory if earlier else blank
    here = before.sources if before.session == session else ()
    memory = msgspec.structs.replace(
        before,
        name=" ".join(for_terminal(draft.name).split()),
        kind=draft.kind,
        body=for_terminal(draft.text).strip(),
        sources=tuple(dict.fromkeys((*here, *sources))),
        session=session,
        # What was said of the old words.
        **dict.fromkeys(("description", "invariant", "doubted"), ""),
    )
    after = files.render(memory)
    warnings = cautions(after, redactor)
    if redactor is not None:
        after = redactor.redact(after).text
    return propose_text(
        places,
        f"memory/{file}",
        after,
        proposal=proposal,
        sources=sources,
        by=by,
        why=why,
        warnings=warnings,
    )


def propose_text(
    places: AgentPlaces,
    path: str,
    after: str,
    *,
    proposal: str,
    sources: Sequence[int],
    by: str,
    why: str = "",
    warnings: Sequence[str] | None = None,
) -> Proposal:
    """A change of a whole file: a merged memory, or a line for USER.md."""
    found = tuple(warnings) if warnings is not None else cautions(after)
    entry = MemoryProposed(
        proposal=proposal,
        path=path,
        before=current_text(places, path),
        after=after,
        sources=tuple(sources),
        by=by,
        why="; ".join(filter(None, [why, f"CAUTION: holds {', '.join(found)}" if found else ""])),
    )
    return Proposal(entry=entry, diff=diff(entry), cautions=found)


def diff(entry: MemoryProposed) -> str:
    """What would change, line by line."""
    lines = difflib.unified_diff(
        entry.before.splitlines(),
        entry.after.splitlines(),
        fromfile=entry.path if entry.before else "/dev/null",
        tofile=entry.path,
        lineterm="",
    )
    return "\n".join(lines)


def decide(
    places: AgentPlaces,
    standing: ProposalState,
    decision: Decision,
    *,
    by: str,
    after: str = "",
    knowingly: bool = False,
) -> MemoryDecided:
    """A person's word as an entry; nothing is written before that entry is.

    Refused to everyone but a person; sensitive content needs a second, explicit yes.
    """
    if by != PERSON:
        raise NotAllowed(
            f"{by or 'Nobody'} may not decide about memories.",
            "Only a person can: /memory shows what is proposed.",
        )
    entry = standing.entry
    if decision in ("approved", "edited", "refused") and standing.decision:
        raise ContinuityError(
            f"The proposal {entry.proposal} was already {standing.decision}.", "Propose it again."
        )
    if decision == "refused":
        return MemoryDecided(proposal=entry.proposal, decision=decision, by=by)
    if decision == "undone":
        return _undo(places, standing, by)
    text = after if decision == "edited" else entry.after
    _check(entry.path, text)
    if not is_current(places, entry):
        raise ContinuityError(
            f"The proposal {entry.proposal} is stale: {entry.path} changed since it was made.",
            "Propose it again, against the file as it is now.",
        )
    if (found := cautions(text)) and not knowingly:
        raise ContinuityError(
            f"This would remember {', '.join(found)}.",
            f"Edit it, or confirm it as it is: /memory approve! {entry.proposal}.",
        )
    return MemoryDecided(proposal=entry.proposal, decision=decision, by=by, after=text)


def _undo(places: AgentPlaces, standing: ProposalState, by: str) -> MemoryDecided:
    entry = standing.entry
    if standing.decision not in ("approved", "edited"):
        raise ContinuityError(
            f"The proposal {entry.proposal} is not in force.",
            "Only an approved proposal can be undone.",
        )
    if not same_words(current_text(places, entry.path), standing.after):
        raise ContinuityError(
            f"{entry.path} changed since the proposal {entry.proposal} was approved.",
            "Edit the file by hand, or propose the change you want.",
        )
    return MemoryDecided(proposal=entry.proposal, decision="undone", by=by, after=entry.before)


def apply(places: AgentPlaces, entry: MemoryProposed, decided: MemoryDecided) -> bool:
    """Write what a recorded decision says; True when the file changed. Safe to repeat."""
    if decided.by != PERSON or decided.proposal != entry.proposal:
        raise NotAllowed("This decision is not for this proposal.", "Decide about it again.")
    current = current_text(places, entry.path)
    if decided.decision == "refused" or same_words(current, decided.after):
        return False
    path = path_of(places, entry.path)
    if decided.after:
        disk.replace_file(path, with_counts_of(decided.after, current).encode())
    else:
        path.unlink(missing_ok=True)
    write_index(places)
    return True


def proposals_of(lines: Iterable[entries.Line]) -> dict[str, ProposalState]:
    """Every proposal among these lines with what became of it, oldest first."""
    found: dict[str, ProposalState] = {}
    for line in lines:
        if isinstance(entry := line.entry, MemoryProposed):
            found[entry.proposal] = ProposalState(entry=entry, seq=line.seq, since=line.ts)
        elif isinstance(entry, MemoryDecided) and (known := found.get(entry.proposal)):
            # Of two people at once the first counts; what was undone is undone.
            if known.decision and entry.decision != "undone":
                continue
            found[entry.proposal] = msgspec.structs.replace(
                known, decision=entry.decision, after=entry.after
            )
    return found


def holds(
    line: entries.Line, rewinds: standings.Rewinds, decisions: frozenset[int] = frozenset()
) -> bool:
    """Whether no rewind took it back; a verdict goes with the turn in which it was made.

    One that follows from a decision about a memory stays, as the decision does.
    """
    entry = line.entry
    if isinstance(entry, StatementSuperseded) and entry.by not in decisions:
        return rewinds.of_place(line.seq, line.turn) is None
    return rewinds.of(line) is None


def waiting(
    places: AgentPlaces, found: Iterable[ProposalState], lines: Iterable[entries.Line]
) -> list[ProposalState]:
    """Those that nobody has decided about, and that can be decided: their words were not corrected
    since, and the file that they change is as they found it."""
    judged = [line.entry for line in lines if isinstance(line.entry, StatementSuperseded)]

    def can_be_decided(one: ProposalState) -> bool:
        sources = one.entry.sources
        gone = {word for each in judged if each.statement in sources for word in each.words}
        corrected = bool(gone) and not says_more(one.body, gone)
        return not corrected and is_current(places, one.entry)

    return [one for one in found if not one.decision and can_be_decided(one)]


def is_current(places: AgentPlaces, entry: MemoryProposed) -> bool:
    """Whether the file that a proposal changes says what it said when that was made."""
    return same_words(current_text(places, entry.path), entry.before)


def waiting_among(places: AgentPlaces, read: Sequence[entries.Line]) -> list[ProposalState]:
    """Those of lines, the newest first, that wait and were not rewound."""
    rewinds = standings.Rewinds(read)
    lines = [line for line in read if holds(line, rewinds)]
    return waiting(places, proposals_of(reversed(lines)).values(), lines)


def _check(path: str, text: str) -> None:
    if path not in STANDING:
        files.parse(text)
