"""Which passages answer a question best, and why. Pure: candidates in, hits out.

Three signals are added on fixed scales, so that scores compare between questions and between
indexes: words (BM25 as a share of what the question could earn, which backs off by itself when only
common words match), meaning (cosine above the collection's mean) and closeness word by word.
Around a strong message its short neighbours gain, because an answer rarely repeats its question,
and a request is often shorter than what was said about it. Small weights follow; each part of a
score is kept under its name.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.entries.derived import Replacement, in_force
from mindstone_tui.core.entries.provenance import ImportSource
from mindstone_tui.core.language import intent, lists
from mindstone_tui.core.language.replacement import (
    asserted,
    meant_by,
    replaced_in,
    replaces,
    says_more,
)
from mindstone_tui.core.language.sentences import parts_of
from mindstone_tui.core.language.words import indexed, query_terms, root, words_of
from mindstone_tui.core.recall import thresholds as tuned
from mindstone_tui.core.recall.passages import Passage, parse_time
from mindstone_tui.core.recall.question import Question, tells_time
from mindstone_tui.core.statements.recogniser import recognise_standing_instruction
from mindstone_tui.core.text_cache import remembers
from mindstone_tui.core.values import shared

_PARTS: Final = (
    *("words", "meaning", "closeness"),
    *("neighbours", "sitting", "speaker", "person", "pieces"),
    *("date", "kind", "pin", "use", "age"),
    *("asks", "time", "correction", "rule"),
)
"""What a score is made of, in the order in which it is added up."""
UNNAMED: Final = frozenset({"user", "assistant", "tool", "system", "human", "ai"})
"""What speakers are called who have no name."""
_MODEL: Final = "assistant"
_NOTE: Final = "note"
_TASK: Final = ("task", "task done")
"""How the model is called where it has no name."""
_QUOTED: Final = 24
"""Characters of a statement from which on it is known when it is repeated."""
_READ_FOR_RULES: Final = 6_000
"""Characters of a message in which rules are looked for; a longer one is a paste."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A passage with the evidence for it."""

    row: int
    sitting: int
    passage: Passage
    words: float = 0.0
    """BM25 divided by the rarity of all that was asked for."""
    by_words: bool = False
    """Whether words are all that could be compared."""
    meaning: float = 0.0
    """Cosine, less the collection's mean."""
    closeness: float = 0.0
    """Word by word, less the collection's mean."""
    other: float | None = None
    """Cosine by the model for many languages, less its mean, where that one was asked."""
    injected: int = 0
    used: int = 0
    recency: float = 0.0
    """0 for the oldest passage of the index, 1 for the newest."""


class Hit(Replacement, kw_only=True):
    """A passage that was found, the score it got, and the parts that add up to it."""

    passage: Passage
    score: float
    parts: dict[str, float]
    text: str
    """What is shown: the passage, or the part of it that matches best."""
    imported: ImportSource | None = None
    inherited: bool = False
    """It stands in a session that the asking one was forked from."""


class _Message(msgspec.Struct):
    """A message as far as its pieces are among the candidates."""

    first: int
    """The row of its first piece, whether it is here or not."""
    last: int
    sitting: int
    short: bool
    gives_before: float
    """The share of its evidence that the messages before it may have,"""
    gives_after: float
    """and those after it."""
    best: float = 0.0
    asks: bool = False


_Weighed = tuple[float, Passage, tuple[float, ...]]
"""A score, what it was given to, and its parts in the order of `_PARTS`."""


def rank(
    question: Question,
    candidates: Sequence[Candidate],
    *,
    count: int,
    pinned_turns: Collection[int] = (),
    weights: tuned.Weights = tuned.DEFAULT,
) -> list[Hit]:
    """The best hits, one a message, best first."""
    around = _Surroundings(question, candidates, pinned_turns, weights)
    strongest = sorted(candidates, key=around.rough, reverse=True)
    weighed: list[_Weighed] = []
    for item in strongest[: max(2 * count, tuned.WEIGHED)]:
        parts = (
            *_signals(item, weights),
            *around.gains(item),
            *_cues(question, item.passage, weights),
        )
        weighed.append((sum(parts), item.passage, parts))
    if not question.of_record:
        weighed = _with_rules(weighed, count, weights.rule)
    chosen = sorted(_best_pieces(weighed), key=lambda each: (-each[0], -each[1].seq))[:count]
    hits = [_hit(passage, parts) for _, passage, parts in chosen]
    hits.sort(key=lambda hit: (-hit.score, -hit.passage.seq))
    first = _answers_first(question, arrange(hits[: tuned.ARRANGED]))
    return first + hits[tuned.ARRANGED :]


def _with_rules(weighed: Sequence[_Weighed], count: int, gain: float) -> list[_Weighed]:
    """Add what a lasting rule gains, where that could bring a message among the best.

    The closer look at a text takes a millisecond: one that cannot get there is spared it.
    """
    reached = sorted((score for score, _, _ in _best_pieces(weighed)), reverse=True)
    least = reached[count - 1] if len(reached) >= count else -math.inf
    return [
        (score + gain, passage, (*parts, gain))
        if passage.role == "user" and score + gain >= least and _is_rule(passage.text)
        else (score, passage, parts)
        for score, passage, parts in weighed
    ]


def _best_pieces(weighed: Iterable[_Weighed]) -> Collection[_Weighed]:
    """The best piece of each message."""
    best: dict[str, _Weighed] = {}
    for each in weighed:
        known = best.get(each[1].entry)
        if known is None or each[0] > known[0]:
            best[each[1].entry] = each
    return best.values()


def _hit(passage: Passage, parts: Sequence[float]) -> Hit:
    named = zip(_PARTS, parts, strict=False)  # the last one only a rule has
    kept = {name: round(value, 4) for name, value in named if abs(value) >= 5e-5}
    score = round(sum(kept.values()), 4)
    known = shared(Replacement, passage.standing)
    return Hit(passage=passage, score=score, parts=kept, text=passage.text, **known)


def arrange(hits: Sequence[Hit]) -> list[Hit]:
    """Newest statement of a changed fact first and marked; near-duplicates further down."""
    subjects = {hit.passage.id: frozenset(query_terms(hit.passage.text)) for hit in hits}
    return _spread_duplicates(_newest_first(hits), subjects)


def _answers_first(question: Question, hits: Sequence[Hit]) -> list[Hit]:
    """The same: what only asks this again below what tells of it, a quote below what it quotes."""
    asked = frozenset(map(root, question.terms))
    ordered = list(hits)
    for hit, sources in zip(hits, quoted_by(hits, question.terms), strict=True):
        for one in sources:
            if not (one.superseded_by or one.corrected):
                ordered.remove(one)
                ordered.insert(ordered.index(hit), one)
    if intent.intent_of(question.text) != "asks":
        return ordered
    met = {hit.passage.id: asked & _roots(hit.passage.text) for hit in ordered}
    again = [hit for hit in ordered if met[hit.passage.id] == asked and _only_asks(hit.passage)]
    told = [hit for hit in ordered if hit not in again]
    tells = [at for at, hit in enumerate(told, 1) if 2 * len(met[hit.passage.id]) >= len(asked)]
    until = tells[-1] if tells else 0
    return told[:until] + again + told[until:]


def _only_asks(passage: Passage) -> bool:
    short = len(passage.text) <= tuned.SHORT_QUESTION
    return passage.role == "user" and short and intent.only_asks(passage.text)


def quoted_by(hits: Sequence[Hit], asked: Collection[str]) -> list[list[Hit]]:
    """For each hit the earlier ones that it repeats whole, if it is an answer that names their
    lines or tells no more of what was asked for."""
    texts = [" ".join(hit.passage.text.casefold().split()) for hit in hits]
    wanted = frozenset(map(root, asked))
    found: list[list[Hit]] = []
    for hit, text in zip(hits, texts, strict=True):
        rest, sources = text, []
        for one, other in zip(hits, texts, strict=True) if hit.passage.role == _MODEL else ():
            earlier = one.passage.ts < hit.passage.ts
            if earlier and _QUOTED <= len(other) < len(text) and other in text:
                sources.append(one)
                rest = rest.replace(other, " ")
        named = all(f"line {one.passage.seq}" in text for one in sources)
        found.append(sources if named or wanted.isdisjoint(_roots(rest)) else [])
    return found


def _roots(text: str) -> set[str]:
    return set(map(root, indexed(text).split()))


def mark_corrected(hits: Sequence[Hit], standing: Iterable[Passage]) -> list[Hit]:
    """Mark what a later statement replaces that was no candidate, as it stands in the window."""
    marked = list(hits)
    for one in sorted((one for one in standing if one.role == "user"), key=lambda one: one.seq):
        for at in _replaced(one, hits):
            marked[at] = _marked(marked[at], one)
    return marked


def _marked(hit: Hit, new: Passage) -> Hit:
    """A hit with what a newer statement replaces of it: the whole, or some sentences."""
    if hit.inherited and not hit.superseded_here:
        hit = msgspec.structs.replace(hit, superseded_by=None, corrected={}, superseded_here=True)
    old, by = hit.passage, hit.superseded_by
    gone = replaced_in(new.text, old.text)
    more = old.speaker != _NOTE and (old.pieces > 1 or says_more(old.text, gone))
    if by is None and more:
        corrected = in_force({**hit.corrected, new.seq: gone})
        return msgspec.structs.replace(hit, corrected=corrected)
    return msgspec.structs.replace(hit, superseded_by=max(new.seq, by or 0), corrected={})


def evidence_for(item: Candidate, weights: tuned.Weights = tuned.DEFAULT) -> float:
    """What speaks for a candidate in its own text."""
    if item.other is not None:
        return weights.other_words * item.words + weights.other_meaning * item.other
    words = weights.words_alone if item.by_words else weights.words
    return words * item.words + weights.meaning * item.meaning + weights.closeness * item.closeness


def _signals(item: Candidate, weights: tuned.Weights) -> tuple[float, float, float]:
    if item.other is not None:
        return weights.other_words * item.words, weights.other_meaning * item.other, 0.0
    return (
        (weights.words_alone if item.by_words else weights.words) * item.words,
        weights.meaning * item.meaning,
        weights.closeness * item.closeness,
    )


class _Surroundings(msgspec.Struct, dict=True, eq=False):
    """What a passage gains by where it stands, who said it and what it is; its text is not read."""

    _question: Question
    _candidates: Sequence[Candidate]
    _pinned_turns: Collection[int]
    _weights: tuned.Weights
    _own: dict[int, float] = {}
    _sittings: dict[int, float] = {}
    _by_first: dict[int, _Message] = {}
    _known: dict[int, tuple[float, float, float, float, float]] = {}

    def __post_init__(self) -> None:
        for item in self._candidates:
            self._take_in(item)
        self._by_last = {each.last: each for each in self._by_first.values()}
        self._named = named_speakers(self._question, (item.passage for item in self._candidates))

    def _take_in(self, item: Candidate) -> None:
        """Let a candidate count in its sitting and in its message."""
        row, sitting, passage = item.row, item.sitting, item.passage
        own = self._own[row] = evidence_for(item, self._weights)
        if own > self._sittings.setdefault(sitting, 0.0):
            self._sittings[sitting] = own
        first = row - passage.piece
        message = self._by_first.get(first)
        if message is None:
            last = first + passage.pieces - 1
            message = _Message(first, last, sitting, *self._gives(passage))
            self._by_first[first] = message
        if own > message.best:
            message.best = own
        if row == message.last:
            message.asks = intent.only_asks(passage.text)

    def rough(self, item: Candidate) -> float:
        """A score by everything that costs little to look at."""
        return sum(self._large(item), self._own[item.row])

    def gains(self, item: Candidate) -> tuple[float, ...]:
        """All of it, from `neighbours` to `age`."""
        passage, weights = item.passage, self._weights
        return (
            *self._large(item),
            weights.date if _is_dated(self._question, passage.ts) else 0.0,
            weights.kinds * tuned.KINDS.get(passage.kind, 0.0),
            weights.pin if passage.turn in self._pinned_turns else 0.0,
            weights.use * (2 * math.log1p(item.used) - math.log1p(item.injected)),
            weights.age * item.recency,
        )

    def _large(self, item: Candidate) -> tuple[float, float, float, float, float]:
        known = self._known.get(item.row)
        if known is None:
            passage, weights = item.passage, self._weights
            known = self._known[item.row] = (
                self._from_neighbours(item) if _is_short(passage) else self._from_exchange(item),
                weights.sitting * self._sittings[item.sitting],
                weights.speaker if passage.speaker in self._named else 0.0,
                weights.person if passage.role in self._question.roles else 0.0,
                weights.pieces * math.log(passage.pieces) if passage.pieces > 1 else 0.0,
            )
        return known

    def _gives(self, passage: Passage) -> tuple[bool, float, float]:
        if _is_short(passage):
            return True, 1.0, 1.0
        if passage.role == "tool":
            return False, 0.0, 0.0
        return False, self._weights.before_long, self._weights.after_long

    def _from_neighbours(self, item: Candidate) -> float:
        """What a short message takes from the best pieces of the messages around it."""
        weights, gain = self._weights, 0.0
        before, after = self._by_last.get(item.row - 1), self._by_first.get(item.row + 1)
        if before is not None:
            share = weights.neighbour + (weights.answer if before.asks else 0.0)
            gain += _given(before, item, share, back=False)
            second = self._by_last.get(before.first - 1)
            gain += _given(second, item, weights.second_neighbour, back=False)
        if after is not None:
            gain += _given(after, item, weights.neighbour, back=True)
            second = self._by_first.get(after.last + 1)
            gain += _given(second, item, weights.second_neighbour, back=True)
        return gain

    def _from_exchange(self, item: Candidate) -> float:
        """What a long request takes from its answer, and a long answer from a short request."""
        passage, weights = item.passage, self._weights
        first = item.row - passage.piece
        if passage.role == "user":
            after = self._by_first.get(first + passage.pieces)
            return _given(after, item, weights.neighbour, back=True)
        before = self._by_last.get(first - 1) if passage.role == "assistant" else None
        if before is None or not before.short:
            return 0.0
        return _given(before, item, weights.answers, back=False)


def named_speakers(question: Question, passages: Iterable[Passage]) -> set[str]:
    """Those who speak and are called by name in the question.

    Who has no name is called `user`, and a question about user accounts does not mean them; nor do
    the words memory, task and run mean what memories, tasks and tools have said.
    """
    said = {passage.speaker for passage in passages if passage.role in ("user", "assistant")}
    return {name for name in said - UNNAMED if not question.words.isdisjoint(words_of(name))}


def _given(message: _Message | None, item: Candidate, share: float, *, back: bool) -> float:
    """What a message gives to another of its sitting, back to what it answers or onwards."""
    if message is None or message.sitting != item.sitting:
        return 0.0
    return share * (message.gives_before if back else message.gives_after) * message.best


def _is_short(passage: Passage) -> bool:
    """Whether it is a short message of a conversation; a tool's output answers nobody."""
    return passage.pieces == 1 and len(passage.text) < tuned.SHORT and passage.role != "tool"


def _is_dated(question: Question, ts: str) -> bool:
    """Whether it was said in the month and year that the question names."""
    if not (question.month or question.year):
        return False
    moment = parse_time(ts)
    return (
        moment is not None
        and question.month in (0, moment.month)
        and question.year in (0, moment.year)
    )


def _cues(
    question: Question, passage: Passage, weights: tuned.Weights
) -> tuple[float, float, float]:
    """By what a passage says; each of these reads its text."""
    text = passage.text
    questions = intent.only_asks(text)
    asks = questions and len(text) <= tuned.SHORT_QUESTION
    return (
        weights.asks if asks else 0.0,
        weights.time if question.wants_time and tells_time(text) else 0.0,
        weights.correction if not questions and intent.is_correction(text) else 0.0,
    )


@remembers(4_096)  # The closer look takes milliseconds, and history does not change.
def _is_rule(text: str) -> bool:
    if not _sounds_lasting(text):
        return False
    sentences = (part for part in parts_of(text[:_READ_FOR_RULES]) if _sounds_lasting(part))
    return any(recognise_standing_instruction(part) is not None for part in sentences)


def _sounds_lasting(text: str) -> bool:
    """One look that spares most sentences the closer one for a standing instruction."""
    lowered = f" {text.lower()} "
    return " ever " in lowered or any(words in lowered for words in lists.english("sounds lasting"))


def _newest_first(hits: Sequence[Hit]) -> list[Hit]:
    """Put a newer statement before the older ones it replaces, and mark both."""
    ordered = list(hits)
    for newer in sorted(hits, key=lambda hit: hit.passage.seq):
        session = newer.passage.session
        weaker = [hit for hit in hits if newer.score >= tuned.AS_STRONG * hit.score]
        replaced = {
            weaker[at].passage.seq for at in _replaced(newer.passage, weaker, inherited=False)
        }
        # What was written down holds, however well either fits the question.
        recorded = {
            hit.passage.seq
            for hit in hits
            if hit.passage.session == session
            and newer.passage.seq in (hit.superseded_by, *hit.corrected)
        }
        if not replaced | recorded:
            continue
        replaced |= _echoes(newer.passage, replaced | recorded, hits)
        at = _place(ordered, session, {newer.passage.seq})
        first = min(at, _place(ordered, session, replaced | recorded))
        moved, gone = ordered.pop(at), sorted(replaced | recorded)
        gone = [seq for seq in gone if seq < newer.passage.seq]
        ordered.insert(first, msgspec.structs.replace(moved, supersedes=tuple(gone)))
        ordered = [
            _marked(hit, newer.passage)
            if hit.passage.session == session and hit.passage.seq in replaced
            else hit
            for hit in ordered
        ]
    return ordered


def _echoes(new: Passage, gone: Collection[int], hits: Sequence[Hit]) -> set[int]:
    """Lines in which the model says again, word for word, what a statement replaced, before people
    said anything more of it."""
    ours = [hit.passage for hit in hits if hit.passage.session == new.session]
    gone_of = (replaced_in(new.text, it.text) for it in ours if it.seq in gone)
    old = {asserted(one) for each in gone_of for one in each}
    later = [one for one in ours if one.seq > new.seq]
    about = {root(term) for one in old for term in query_terms(one)}
    said = (
        it.seq
        for it in later
        if it.role != _MODEL and not intent.only_asks(it.text)
        if not about.isdisjoint(map(root, query_terms(it.text)))
    )
    until = min(said, default=math.inf)
    again = (it for it in later if it.role == _MODEL and it.seq < until)
    return {it.seq for it in again if not old.isdisjoint(map(asserted, parts_of(it.text)))}


def _place(hits: Sequence[Hit], session: str, seqs: Collection[int]) -> int:
    """Where the first of a session's lines is."""
    said = (hit.passage for hit in hits)
    return next(at for at, one in enumerate(said) if one.session == session and one.seq in seqs)


def _replaced(new: Passage, hits: Sequence[Hit], *, inherited: bool = True) -> set[int]:
    """Which of the hits a newer statement makes hold no more, where it tells which it means."""
    may = [
        at
        for at, hit in enumerate(hits)
        if _may_replace(new, hit.passage, inherited=inherited and hit.inherited)
    ]
    # What was replaced before is no other thing that could be meant.
    stands = [at for at in may if hits[at].passage.superseded in (0, new.seq)]
    found = {stands[at] for at in meant_by(new.text, [hits[at].passage.text for at in stands])}
    return found | {
        at for at in may if at not in stands and replaces(new.text, hits[at].passage.text)
    }


def _may_replace(new: Passage, old: Passage, *, inherited: bool) -> bool:
    """Whether the newer one was said by somebody who may say that the older one holds no more.

    Only people change facts by saying so: what they said themselves, and what the model made of it,
    unless the files that it tells of were put back since.
    """
    same = new.session == old.session and new.seq > old.seq
    if not (same or (inherited and new.session != old.session)) or "tool" in (new.role, old.role):
        return False
    if new.ts < old.ts or (new.imported and not old.imported):
        return False  # what was taken over later was said earlier, and to another program
    if new.undone and new.left_alone == "[]" and old.kind != "user_message":
        return False
    may = old.speaker in (new.speaker, _MODEL, _NOTE, *_TASK)
    return new.role == "user" and may and not intent.only_asks(new.text)


def _spread_duplicates(hits: Sequence[Hit], subjects: Mapping[str, frozenset[str]]) -> list[Hit]:
    """Of several hits that say the same, one keeps its place and the others go to the end.

    It is the best of them, or what the same speaker said last: that is how things are now.
    """
    kept: list[Hit] = []
    repeated: list[Hit] = []
    for hit in hits:
        ours = subjects[hit.passage.id]
        known = (at for at, one in enumerate(kept) if _alike(ours, subjects[one.passage.id]))
        if (twin := next(known, None)) is None:
            kept.append(hit)
        elif _says_again(hit.passage, kept[twin].passage):
            repeated.append(kept[twin])
            kept[twin] = hit
        else:
            repeated.append(hit)
    return kept + repeated


def _says_again(passage: Passage, other: Passage) -> bool:
    same = (passage.session, passage.speaker) == (other.session, other.speaker)
    return same and passage.seq > other.seq


def _alike(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    together = len(ours | theirs)
    return together > 3 and len(ours & theirs) / together >= tuned.NEAR_DUPLICATE
