"""Exchanges, what they weigh, and which of them may not leave.

An exchange is one user message and all that belongs to its turn. Protection follows from structure
alone: no model and no text decides it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import EvictionSettings
from mindstone_tui.core.context import measure, policies
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.entries import Line, Span, conversation, derived
from mindstone_tui.core.language import lists, words
from mindstone_tui.core.text_cache import remembers

CURRENT: Final = "current exchange"
PINNED: Final = "pinned"
RECENT: Final = "recent"
TASK: Final = "original task"
CORRECTS: Final = "corrects what is shown"
MARKED: Final = "marked DO_NOT_EVICT"


class Exchange(msgspec.Struct, frozen=True):
    """One turn's messages in the window."""

    turn: int
    lines: tuple[Line, ...]
    sizes: tuple[int, ...]
    protected: str = ""
    """Why it may not leave; empty when it may."""
    stays: frozenset[int] = frozenset()
    """Messages in it that stay when the rest leaves."""

    @property
    def tokens(self) -> int:
        """Its whole weight."""
        return sum(self.sizes)

    @property
    def freed(self) -> int:
        """What the window gains when it leaves."""
        return sum(
            size
            for line, size in zip(self.lines, self.sizes, strict=True)
            if line.seq not in self.stays
        )

    @property
    def span(self) -> Span:
        """From its first message to its last."""
        return Span(min(line.seq for line in self.lines), max(line.seq for line in self.lines))

    @property
    def messages(self) -> int:
        """User, assistant and tool messages in it."""
        return len(self.lines)


def exchanges(measured: measure.Measured, staying: frozenset[int] = frozenset()) -> list[Exchange]:
    """The window's exchanges, oldest first."""
    grouped: dict[int, list[tuple[Line, int]]] = {}
    for piece, size in measured.sized:
        if piece.line is not None:
            grouped.setdefault(piece.line.turn, []).append((piece.line, size))
    return [
        Exchange(
            turn,
            tuple(line for line, _ in members),
            tuple(size for _, size in members),
            stays=staying.intersection(line.seq for line, _ in members),
        )
        for turn, members in sorted(grouped.items())
    ]


def protect(
    units: Sequence[Exchange],
    fold: Fold,
    current: int,
    *,
    min_recent: int = 0,
    fixed: int = 0,
    room: int = 0,
) -> list[Exchange]:
    """Mark what may not leave: the current exchange, pins, what the person marked, and the
    recent floor.

    The recent floor is `min_recent` messages rounded out to whole exchanges, or as many exchanges
    as fit into `room` beside everything that cannot leave (`fixed`): a small window would otherwise
    prune on every turn.
    """
    reasons: dict[int, str] = {}
    held = fixed
    for unit in units:
        if unit.turn == current:
            reasons[unit.turn] = CURRENT
        elif unit.turn in fold.state.pins:
            reasons[unit.turn] = PINNED
        elif policies.marked_to_stay(unit.lines):
            reasons[unit.turn] = MARKED
        elif len(unit.stays) == unit.messages:
            reasons[unit.turn] = TASK if fold.task in unit.stays else CORRECTS
        else:
            held += unit.tokens - unit.freed
        if unit.turn in reasons:
            held += unit.tokens
    messages = sum(unit.messages for unit in units if unit.turn == current)
    for unit in reversed(units):
        if messages >= min_recent:
            break
        if unit.turn in reasons:
            continue
        held += unit.freed
        if held > room:
            break
        messages += unit.messages
        reasons[unit.turn] = RECENT
    return [msgspec.structs.replace(unit, protected=reasons.get(unit.turn, "")) for unit in units]


def why_staying(seq: int, fold: Fold) -> str:
    """Why a message stays when the rest of its exchange leaves; empty where it does not."""
    return TASK if seq == fold.task else CORRECTS if seq in fold.staying else ""


def eligible(units: Iterable[Exchange]) -> list[Exchange]:
    """Those that may leave."""
    return [unit for unit in units if not unit.protected]


_NAMELIKE: Final = lists.pattern_beside(__file__, "namelike")
_SHORTEST_NAME: Final = 4
_READ: Final = 20_000
"""Characters of one message that are looked at."""


class Referenced(msgspec.Struct):
    """How often, and when last, a turn was referred to."""

    last: int
    count: int = 0


@remembers(4_096)
def names_in(text: str) -> frozenset[str]:
    """The names a text uses."""
    found = (word.strip("./-") for word in words.tokens_of(text[:_READ]))
    return frozenset(
        word for word in found if len(word) >= _SHORTEST_NAME and _NAMELIKE.search(word)
    )


def references(messages: Iterable[Line], recalls: Iterable[Line]) -> dict[int, Referenced]:
    """For each turn in the window: who named something of it again, when last and how often."""
    found: dict[int, Referenced] = {}
    owners: dict[str, int] = {}
    owners_by_id: dict[str, int] = {}
    for line in messages:
        found.setdefault(line.turn, Referenced(line.turn))
        owners_by_id[line.id] = line.turn
        named = names_in(policies.text_of(line))
        turns = {owners[name] for name in named if name in owners}
        turns |= {owners_by_id[name] for name in named if name in owners_by_id}
        for turn in turns - {line.turn}:
            _refer(found, turn, line.turn)
        for name in named:
            owners.setdefault(name, line.turn)
    for recall in recalls:
        if isinstance(recall.entry, derived.RecallInjected):
            for passage in recall.entry.passages:
                own = passage.of is not None or passage.session == recall.session
                if own and passage.turn in found:
                    _refer(found, passage.turn, recall.turn)
    return found


def _refer(found: dict[int, Referenced], turn: int, by: int) -> None:
    known = found[turn]
    known.count += 1
    known.last = max(known.last, by)


_TEXT: Final = 4_000
"""Characters of an exchange that a policy compares."""


def candidates_of(
    fold: Fold, units: Iterable[Exchange], policy: str
) -> list[policies.EvictionCandidate]:
    """Exchanges as a policy compares them."""
    known = _references(fold, policy)
    return [_exchange(unit, known) for unit in units]


def staying_texts(
    fold: Fold, leaving: Iterable[policies.EvictionCandidate], policy: str
) -> list[tuple[int, str]]:
    """Turn and words of the exchanges in the window that are no candidates, for policies that
    look for newer copies: what repeats a candidate may itself be protected."""
    if policy not in policies.NEEDS_DUPLICATES:
        return []
    named = {candidate.key for candidate in leaving}
    texts: dict[int, str] = {}
    for line in fold.lines.values():
        if line.turn not in named:
            texts[line.turn] = f"{texts.get(line.turn, '')} {policies.text_of(line)[:_TEXT]}"[
                :_TEXT
            ]
    return sorted(texts.items())


def rank_results(
    fold: Fold,
    results: Sequence[tuple[Line, int]],
    policy: str,
    similar: policies.Similarity,
    how: EvictionSettings,
) -> list[policies.Scored]:
    """Tool results, each with its size, in the order in which they are trimmed."""
    known = _references(fold, policy)
    return policies.rank(
        policy,
        [_result(line, size, known) for line, size in results],
        now=fold.turn,
        query=question(fold),
        similar=similar,
        how=how,
    )


def read_again(lines: Iterable[Line]) -> set[int]:
    """Results that a later one repeats: of the same call, or with the same text."""
    calls: dict[str, object] = {}
    newest: dict[object, int] = {}
    repeated: set[int] = set()
    for line in lines:
        if isinstance(line.entry, conversation.AssistantMessage):
            calls |= {call.id: (call.name, call.arguments) for call in line.entry.calls}
        elif isinstance(result := line.entry, conversation.ToolReturned):
            for same in (calls.get(result.call), result.text):
                if same in newest:
                    repeated.add(newest[same])
                if same:
                    newest[same] = line.seq
    return repeated


def question(fold: Fold) -> str:
    """What the person said last."""
    for line in reversed(fold.lines.values()):
        if isinstance(line.entry, conversation.UserMessage):
            return line.entry.text
    return ""


def _references(fold: Fold, policy: str) -> Mapping[int, Referenced]:
    if policy not in policies.NEEDS_REFERENCES:
        return {}
    return references(fold.lines.values(), fold.recalls.values())


def _exchange(unit: Exchange, known: Mapping[int, Referenced]) -> policies.EvictionCandidate:
    weights: dict[str, int] = {}
    for line, size in zip(unit.lines, unit.sizes, strict=True):
        weights[policies.source_of(line)] = weights.get(policies.source_of(line), 0) + size
    seen = known.get(unit.turn, Referenced(unit.turn))
    return policies.EvictionCandidate(
        key=unit.turn,
        turn=unit.turn,
        tokens=unit.freed,
        text=" ".join(policies.text_of(line)[:_TEXT] for line in unit.lines)[:_TEXT],
        weights=weights,
        referenced=seen.last,
        references=seen.count,
        important=policies.marked_important(unit.lines),
    )


def _result(line: Line, size: int, known: Mapping[int, Referenced]) -> policies.EvictionCandidate:
    seen = known.get(line.turn, Referenced(line.turn))
    return policies.EvictionCandidate(
        key=line.seq,
        turn=line.turn,
        tokens=size,
        text=policies.text_of(line)[:_TEXT],
        weights={"tool_result": size},
        referenced=seen.last,
        references=seen.count,
    )
