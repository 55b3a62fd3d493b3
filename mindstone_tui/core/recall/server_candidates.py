"""Candidates from histories that are only on the server, with the evidence that ranking wants.

The server narrows millions of passages down to some hundred. What those are worth is worked out
here, by the same measures as for a session's own index, except that a word is as rare as it is in
all sessions together.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import apsw
import msgspec

from mindstone_tui.core.language.words import MOST_TERMS, indexed, words_of
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.recall import embedding, library_file, ranking, speak
from mindstone_tui.core.recall import thresholds as tuned
from mindstone_tui.core.recall.candidates import Filter, Gathered, by_chance, in_turn, usual
from mindstone_tui.core.recall.index import JUDGED, Inquiry, SearchResult, best_of
from mindstone_tui.core.recall.lexicon import LONG_HISTORY, MOST_POSTINGS, Lexicon, rarity_of
from mindstone_tui.core.recall.passages import Passage, epoch
from mindstone_tui.core.recall.question import Question, read_question
from mindstone_tui.core.shared.passage_store import FoundPassage, PassageStore, Place, SearchBounds

_AROUND: Final = 4
"""Passages on either side of a strong one that are read with it."""
_SAMPLE: Final = 256
_COUNTED: Final = 20_000
"""A word in more passages than this tells nothing; counting ends there."""
_K1: Final = 1.2
_B: Final = 0.75


class Stemmer:
    """The stems of a text, as the index of a session makes them."""

    def __init__(self) -> None:
        self._lexicon = Lexicon(apsw.Connection(":memory:"), library_file.EVERYTHING)

    def of(self, text: str) -> list[str]:
        """The stems of words that `words_of` cut."""
        return self._lexicon.stems(text)

    def of_passage(self, passage: Passage) -> list[str]:
        """What a passage is found by."""
        return self.of(indexed(passage.indexed_text))


class _ServerLexicon:
    """How rare words are on the server."""

    def __init__(self, store: PassageStore, stemmer: Stemmer) -> None:
        self._store = store
        self._stemmer = stemmer
        self._held: dict[str, int] = {}
        self.passages = store.size()

    def learn(self, words: Iterable[str]) -> list[str]:
        """Know how many passages have these words; their stems."""
        stems = list(dict.fromkeys(stem for word in words for stem in self._stemmer.of(word)))
        if missing := [stem for stem in stems if stem not in self._held]:
            self._held |= dict.fromkeys(missing, 0) | self._store.counts(missing, _COUNTED)
        return stems

    def count(self, stem: str) -> int:
        return self._held.get(stem, 0)

    def rarity(self, word: str) -> float:
        """Of its rarest form when a word has several."""
        stems = self.learn([word])
        return max((rarity_of(self.count(stem), self.passages) for stem in stems), default=0.0)

    def knows(self, word: str) -> bool:
        return any(self.count(stem) for stem in self.learn([word]))


def search_server(
    store: PassageStore, inquiry: Inquiry, skip: Collection[SessionKey] = ()
) -> SearchResult:
    """The k best hits of all sessions on the server but those to skip."""
    asked, model = inquiry.asked, inquiry.asked.embedder
    question = read_question(asked.query)
    compared = model and store.compares(model.name) and embedding.understands(model, asked.query)
    meaning = asked.encoded if compared else None
    name = model.name if model is not None else ""
    gathered = _gather(store, question, meaning, name, inquiry.allowed, skip)
    answers = [
        _answer(question, each, inquiry.k, vectors=meaning is not None)
        for each in gathered.values()
    ]
    nothing = speak.Judgement(strength=0.0, reason=speak.NOTHING_THERE)
    none = SearchResult(query=asked.query, hits=(), judged=nothing, vectors=meaning is not None)
    return best_of(none, *answers, k=inquiry.k)


def _answer(question: Question, gathered: Gathered, k: int, *, vectors: bool) -> SearchResult:
    hits = ranking.rank(question, gathered.candidates, count=max(k, JUDGED))
    judged = speak.judge(question, gathered, hits, vectors=vectors)
    return SearchResult(query=question.text, hits=tuple(hits[:k]), judged=judged, vectors=vectors)


def _gather(
    store: PassageStore,
    question: Question,
    asked: embedding.Encoded | None,
    model: str,
    allowed: Filter,
    skip: Collection[SessionKey],
) -> dict[str, Gathered]:
    """Candidates by session."""
    stemmer = Stemmer()
    lexicon = _ServerLexicon(store, stemmer)
    lexicon.learn([*question.terms, *question.names, *words_of(question.text)])
    rarest = sorted(lexicon.learn(question.terms), key=lexicon.count)[:MOST_TERMS]
    rarity = {stem: rarity_of(lexicon.count(stem), lexicon.passages) for stem in rarest}
    bounds = SearchBounds(
        without=skip, since=allowed.since, until=allowed.until, kinds=allowed.kinds
    )
    by_words = store.by_words(_that_retrieve(rarity, lexicon), bounds, tuned.FROM_WORDS_ALONE)
    numbers: Sequence[float] = asked.vector.tolist() if asked is not None else ()
    by_meaning = (
        store.by_meaning(model, numbers, bounds, tuned.FROM_MEANING) if asked is not None else []
    )
    found = _read(store, list(dict.fromkeys(in_turn(by_words, by_meaning))), allowed)
    words = _words(found, rarity, stemmer)
    meaning, near = _meaning(store, lexicon, asked, model, [place for place, _, _ in found])
    sessions: dict[str, list[ranking.Candidate]] = {}
    for place, kept, passage in found:
        sessions.setdefault(kept.key, []).append(
            ranking.Candidate(
                row=kept.place,
                sitting=kept.sitting,
                passage=passage,
                words=words[place],
                by_words=place not in meaning,
                meaning=meaning.get(place, 0.0),
                closeness=near.get(place, 0.0),
                recency=(kept.place + 1) / max(kept.passages, 1),
            )
        )
    longer = max(lexicon.passages, LONG_HISTORY)
    worth = sum(rarity_of(lexicon.count(stem), longer) for stem in rarest)
    unknown = tuple(name for name in question.names if not lexicon.knows(name))
    return {
        key: Gathered(
            candidates=candidates, passages=lexicon.passages, asked=worth, unknown=unknown
        )
        for key, candidates in sessions.items()
    }


def _that_retrieve(rarity: Mapping[str, float], lexicon: _ServerLexicon) -> dict[str, float]:
    """The rarest stems, as long as what they bring can be looked at."""
    room = MOST_POSTINGS
    chosen: dict[str, float] = {}
    for stem, rare in rarity.items():
        if (count := lexicon.count(stem)) and (count <= room or not chosen):
            chosen[stem] = rare
            room -= count
    return chosen


def _read(
    store: PassageStore, chosen: Sequence[Place], allowed: Filter
) -> list[tuple[Place, FoundPassage, Passage]]:
    """The chosen passages and, around the strongest of them, those beside."""
    wanted = dict.fromkeys(chosen)
    for session, place in chosen[: tuned.WITH_NEIGHBOURS]:
        beside = range(max(place - _AROUND, 0), place + _AROUND + 1)
        wanted |= dict.fromkeys((session, each) for each in beside)
    if not wanted:
        return []
    found = []
    for kept in store.read(list(wanted)):
        passage = msgspec.structs.replace(
            msgspec.json.decode(kept.body, type=Passage), session=kept.key
        )
        if _allows(allowed, passage):
            found.append(((kept.session, kept.place), kept, passage))
    keys = {kept.key for _, kept, _ in found}
    rewinds = {key: store.rewinds(SessionKey.parse(key)) for key in keys}
    return [
        (place, kept, passage)
        for place, kept, passage in found
        if rewinds[kept.key].of_place(passage.seq, passage.turn) is None
    ]


def _allows(allowed: Filter, passage: Passage) -> bool:
    at = epoch(passage.ts)
    return (
        (allowed.since is None or at >= allowed.since)
        and (allowed.until is None or at <= allowed.until)
        and (not allowed.kinds or passage.kind in allowed.kinds)
        and passage.kind not in allowed.without
    )


def _words(
    found: Sequence[tuple[Place, FoundPassage, Passage]],
    rarity: Mapping[str, float],
    stemmer: Stemmer,
) -> dict[Place, float]:
    """BM25 of each, divided by the rarity of all that was asked for."""
    stems = {place: stemmer.of_passage(passage) for place, _, passage in found}
    length = sum(map(len, stems.values())) / max(len(stems), 1)
    total = max(sum(rarity.values()), 1e-9)
    scores: dict[Place, float] = {}
    for place, said in stems.items():
        held = Counter(said)
        pull = _K1 * (1 - _B + _B * len(said) / max(length, 1.0))
        score = sum(
            rare * held[stem] * (_K1 + 1) / (held[stem] + pull)
            for stem, rare in rarity.items()
            if stem in held
        )
        scores[place] = score / total
    return scores


def _meaning(
    store: PassageStore,
    lexicon: _ServerLexicon,
    asked: embedding.Encoded | None,
    model: str,
    places: Sequence[Place],
) -> tuple[dict[Place, float], dict[Place, float]]:
    """Cosine and closeness of those that have a vector, each less what is usual there."""
    if asked is None or not places:
        return {}, {}
    numbers: Sequence[float] = asked.vector.tolist()
    kept = store.read_meaning(model, numbers, places)
    if not kept:
        return {}, {}
    sample = store.sample(model, numbers, _SAMPLE)
    passages = lexicon.passages
    mean = sum(cosine for cosine, _ in sample) / max(len(sample), 1)
    mean = usual(mean, tuned.USUAL_COSINE, passages)
    cosines = {place: cosine - mean for place, (cosine, _) in kept.items()}
    if not len(asked.token_vectors):
        return cosines, {}
    from mindstone_tui.core.recall.closeness import asked_tokens, closeness  # numpy: 0.1 s

    tokens = asked_tokens(asked, lexicon.rarity)
    background = closeness(tokens, [each for _, each in sample[: tuned.BACKGROUND]]).whole
    ordinary = usual(float(background.mean()), tuned.USUAL_CLOSENESS, passages)
    measured = closeness(tokens, [each for _, each in kept.values()])
    beyond = measured.whole - ordinary - by_chance(measured.tokens)
    return cosines, dict(zip(kept, beyond.tolist(), strict=True))
