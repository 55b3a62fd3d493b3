"""Looking back over history for what should last. It proposes, and writes nothing by itself.

History is read in bounded pieces from where the last review ended. After each piece the caller
records how far it came, so that an interrupted review goes on there and never begins again.
Tool results are not material: what a file or a page claims is nobody's decision. Neither is what
was imported: it was said to another program.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final, Literal

import msgspec

from mindstone_tui.core.bounded_json import read_as
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.context import extract, prompts
from mindstone_tui.core.context.summary_call import Ask, Count, ask_model, asked_about
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.language import lists, sentences
from mindstone_tui.core.language.words import tokens_of
from mindstone_tui.core.memory.files import Kind, Shelf, Shelved, render
from mindstone_tui.core.memory.notes import cold_start
from mindstone_tui.core.memory.proposals import cautions
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements import register, statement
from mindstone_tui.core.text import fresh_nonce, plural
from mindstone_tui.core.values import Value

PIECE: Final = 6_000
"""Tokens of history that are looked at together."""
BUDGET: Final = 60_000
"""Tokens of history in one run; the rest waits for the next."""
BLOATED: Final = 800
"""Tokens at which a memory file is worth shortening."""
ALIKE: Final = 0.75
"""Shared words at which two texts say the same."""
_TELLING: Final = 3
"""Words from which on a line of a memory says something by itself."""
_SHOWN: Final = 8_000
"""Characters of one message that a model gets to see."""
_LESSON: Final = lists.pattern_beside(__file__, "lesson", re.IGNORECASE)
_LEAST_LESSON: Final = 6
"""Words below which a lesson does not say what it is about."""
_ASKS: Final = lists.pattern_beside(__file__, "asks", re.IGNORECASE)
"""What a model says about memory is no finding; what a person says about it is one."""
_KIND_OF: Final[dict[statement.StatementKind, Kind]] = {
    "rule": "preference",
    "preference": "preference",
    "memory": "fact",
    "decision": "decision",
    "correction": "lesson",
}


class ReviewFinding(Part):
    """Something worth proposing, with the messages it rests on."""

    kind: Kind
    name: str
    text: str
    sources: tuple[int, ...]
    by: str = "consolidation"


class Merge(Part):
    """Memory files that say the same, or one that says the same twice."""

    files: tuple[str, ...]
    text: str
    """The first file's new text; the others become superfluous."""
    why: str


class Review(Part):
    """One piece of history, looked at."""

    through: int
    findings: tuple[ReviewFinding, ...]
    tokens: int
    """Read so far in this run."""
    share: float
    """Of the way from the start to the end of history: 1.0 is all of it."""
    left_out: int = 0
    """Findings that hold something sensitive: counted, not proposed."""
    objection: str = ""
    """Why a model's answer was not used."""
    finished: bool = False


class Reviewer(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """How a review is made."""

    count: Count
    judged: Standings
    ask: Ask | None = None
    budget: int = BUDGET
    timeout: float = ModelSettings().aside_timeout
    nonce: Callable[[], str] = fresh_nonce


async def review(
    read: Callable[[int], Iterable[Line]], since: int, head: int, shelf: Shelf, reviewer: Reviewer
) -> AsyncIterator[Review]:
    """Look at history after `since`, piece by piece, until the head or the budget is reached."""
    known = [one.memory.body for one in shelf.live]
    spent = 0
    for piece, through, tokens in _pieces(read(since + 1), reviewer):
        spent += tokens
        found, objection = await _look(piece, reviewer)
        fresh, left_out = _fresh(found, known)
        known += [finding.text for finding in fresh]
        done = through >= head
        yield Review(
            through=through,
            findings=tuple(fresh),
            tokens=spent,
            share=min(1.0, (through - since) / max(1, head - since)),
            left_out=left_out,
            objection=objection,
            finished=done,
        )
        if done or spent >= reviewer.budget:
            return


def _pieces(
    lines: Iterable[Line], reviewer: Reviewer
) -> Iterable[tuple[tuple[extract.SourceMessage, ...], int, int]]:
    """Passages in runs of about `PIECE` tokens, each with the last line it covers."""
    piece: list[Line] = []
    tokens = 0
    for line in lines:
        piece.append(line)
        tokens += sum(reviewer.count(one.text) for one in _spoken([line], reviewer.judged))
        if tokens >= PIECE:
            yield _spoken(piece, reviewer.judged), line.seq, tokens
            piece, tokens = [], 0
    if piece:
        yield _spoken(piece, reviewer.judged), piece[-1].seq, tokens


def _spoken(lines: Iterable[Line], judged: Standings) -> tuple[extract.SourceMessage, ...]:
    """What was said here and holds: what another line replaced is no memory."""
    hold = (line for line in lines if judged.replaced_by(line.seq) is None)
    heard = extract.passages_of(hold, judged)
    return tuple(one for one in heard if one.speaker != "tool" and not one.imported)


async def _look(passages: extract.Passages, reviewer: Reviewer) -> tuple[list[ReviewFinding], str]:
    plain = findings_in(passages)
    if reviewer.ask is None or not passages:
        return plain, ""
    text = "\n\n".join(
        f"[{' · '.join(filter(None, (str(one.seq), one.speaker, one.mark)))}]\n{one.text[:_SHOWN]}"
        for one in passages
    )
    prompt = prompts.load("consolidation").text
    messages = asked_about(text, prompt, origin="conversation", nonce=reviewer.nonce())
    reply = await ask_model(reviewer.ask, "consolidation", messages, within=reviewer.timeout)
    if reply.objection:
        return plain, reply.objection
    found, objection = _read_findings(reply.text, passages)
    return [*plain, *found], objection


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["decision", "lesson", "preference", "procedure"]
    name: str
    text: str
    sources: list[int]


def _read_findings(text: str, passages: extract.Passages) -> tuple[list[ReviewFinding], str]:
    """A model's findings, each checked against the messages it names; all or none by form."""
    try:
        said = read_as(text, list[_Said])
    except msgspec.DecodeError as error:
        return [], f"the answer is not in the form that was asked for: {error}"
    by_seq = {one.seq: one for one in passages}
    found = [
        ReviewFinding(
            kind=one.kind,
            name=one.name[:80],
            text=one.text[:1_000],
            sources=tuple(one.sources),
            by="consolidation, by a model",
        )
        for one in said
        if _rests_on(one, [by_seq[seq] for seq in one.sources if seq in by_seq])
    ]
    dropped = len(said) - len(found)
    return found, f"{dropped} findings do not rest on what they name" if dropped else ""


def _rests_on(said: _Said, sources: extract.Passages) -> bool:
    """Whether every name in a finding stands in the messages that it gives as its source."""
    if not sources or len(sources) != len(said.sources) or cold_start(said.text[:1_000]):
        return False
    source = extract.folded("\n".join(one.text for one in sources))
    return all(
        extract.holds(source, extract.folded(name)) for _, name in extract.names_in(said.text)
    )


def findings_in(passages: extract.Passages) -> list[ReviewFinding]:
    """What the user settled for good, corrections with what they correct, decisions and lessons.

    What was superseded later on is not found any more.
    """
    found = [
        ReviewFinding(
            kind=_KIND_OF[one.kind],
            name=_name(one.words),
            text=_with_old(one),
            sources=tuple(sorted({one.line, *([one.corrects.line] if one.corrects else [])})),
        )
        for one in extract.settled_in(passages).standing
        if one.kind in _KIND_OF
        and one.sure
        and (one.kind != "rule" or one.lasting)
        and not cold_start(one.words)
    ]
    lessons = (
        ReviewFinding(kind="lesson", name=_name(said), text=said, sources=(passage.seq,))
        for passage in passages
        if passage.speaker != "tool"
        for said in (" ".join(one.text.split()) for one in sentences.prose(passage.words))
        if bool(_LESSON.search(said))
        and not said.endswith("?")
        and len(said.split()) >= _LEAST_LESSON
        and not cold_start(said)
        and not _ASKS.search(said)
    )
    return sorted([*found, *lessons], key=lambda one: one.sources)


def _with_old(one: statement.Statement) -> str:
    old = " ".join(one.old.split())
    return f"{one.words} (It corrects: {sentences.shortened(old, 200)})" if old else one.words


def _name(sentence: str) -> str:
    return " ".join(tokens_of(sentence)[:8])[:80]


def _fresh(found: Sequence[ReviewFinding], known: Sequence[str]) -> tuple[list[ReviewFinding], int]:
    """What is neither known nor said twice nor sensitive; and how many were sensitive."""
    fresh: list[ReviewFinding] = []
    left_out = 0
    for finding in found:
        if any(say_the_same(finding.text, text) for text in (*known, *(one.text for one in fresh))):
            continue
        if cautions(finding.text):
            left_out += 1
            continue
        fresh.append(finding)
    return fresh, left_out


def alike(one: str, other: str) -> bool:
    """Whether two texts share most of their words."""
    words, others = set(extract.folded(one).split()), set(extract.folded(other).split())
    return bool(words and others) and len(words & others) / len(words | others) >= ALIKE


def say_the_same(one: str, other: str) -> bool:
    """Whether two texts are alike, and have the same of what alone would make a difference."""
    words, others = tokens_of(extract.folded(one)), tokens_of(extract.folded(other))
    differ = {*words} ^ {*others}
    return alike(" ".join(words), " ".join(others)) and not any(map(_DECIDES.search, differ))


_DECIDES: Final = pattern_of(r"\d|\A(?:no|not|never|always|none|without|only|except|\w+n['’]t)\Z")
"""Numbers, and words that turn a sentence into its opposite."""


def merges(shelf: Shelf, count: Count) -> tuple[Merge, ...]:
    """Memory files that could be one, and long ones that could be shorter; the newest words win."""
    live = sorted(shelf.live, key=lambda one: (one.memory.created, one.file), reverse=True)
    found: list[Merge] = []
    merged: set[str] = set()
    for at, one in enumerate(live):
        if one.file in merged:
            continue
        same = [
            other
            for other in live[at + 1 :]
            if other.file not in merged
            and other.memory.kind == one.memory.kind
            and alike(one.memory.body, other.memory.body)
        ]
        if same:
            merged |= {other.file for other in same}
            found.append(_merged(one, same))
        elif count(one.memory.body) > BLOATED and (shorter := _tightened(one)):
            found.append(shorter)
    return tuple(found)


def _merged(one: Shelved, same: Sequence[Shelved]) -> Merge:
    memory = msgspec.structs.replace(
        one.memory,
        sources=tuple(sorted({seq for each in (one, *same) for seq in each.memory.sources})),
        hits=sum(each.memory.hits for each in (one, *same)),
        prevented=sum(each.memory.prevented for each in (one, *same)),
        critical=any(each.memory.critical for each in (one, *same)),
        supersedes=tuple(dict.fromkeys((*one.memory.supersedes, *(o.file for o in same)))),
    )
    files = (one.file, *(each.file for each in same))
    return Merge(files=files, text=render(memory), why=f"{', '.join(files)} say the same")


def _tightened(one: Shelved) -> Merge | None:
    """A long memory without lines that a later line repeats, says as well, or has replaced."""
    lines = one.memory.body.split("\n")
    gone = _said_again(lines)
    replaced = _replaced(lines) - gone.keys()
    if not gone and not replaced:
        return None
    kept = [line for at, line in enumerate(lines) if at not in gone and at not in replaced]
    memory = msgspec.structs.replace(one.memory, body="\n".join(kept))
    again = sum(word == "repeated" for word in gone.values())
    counted = (
        (again, "repeated"),
        (len(gone) - again, "said again in other words"),
        (len(replaced), "replaced by a later line"),
    )
    told = ", ".join(f"{plural(number, 'line')} {how}" for number, how in counted if number)
    return Merge(files=(one.file,), text=render(memory), why=f"{one.file} is long: {told}")


def _said_again(lines: Sequence[str]) -> dict[int, str]:
    """The lines that a later line says as well, and whether word for word; the newest words win."""
    telling = [at for at, line in enumerate(lines) if len(line.split()) >= _TELLING]
    words = {at: frozenset(extract.folded(lines[at]).split()) for at in telling}
    found: dict[int, str] = {}
    for number, at in enumerate(telling):
        for later in telling[number + 1 :]:
            same = words[at] == words[later]
            if same or len(words[at] & words[later]) >= ALIKE * len(words[at] | words[later]):
                found[at] = "repeated" if same else "alike"
                break
    return found


def _replaced(lines: Sequence[str]) -> set[int]:
    """The lines that no longer hold since a later line was written."""
    said = [
        statement.Utterance(speaker="user", text=line.lstrip("-*# "), line=at)
        for at, line in enumerate(lines)
        if len(line.split()) >= _TELLING
    ]
    settled = register.settle(said)
    return {one.line for one in settled.retired} - {one.line for one in settled.standing}
