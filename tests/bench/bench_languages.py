"""How well recall finds in other languages than English, and across languages.

    python tests/bench/bench_languages.py [LANGUAGE …]

`tests/corpora/languages.tsv` has twenty facts and questions about them in fifteen languages. For
each language there is one history: its twenty messages, each answered with a word, among sixty
English messages to an agent. Each is asked in every language. hit@1 is the share of questions whose
fact stands first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from mindstone_tui.core.recall.embedding import Embedder, EmbedsOnce, open_embedder
from mindstone_tui.core.recall.index import InMemoryIndex
from mindstone_tui.core.recall.inject import choose, queries
from mindstone_tui.core.recall.multilingual import open_multilingual
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.store import IndexMark

CORPORA = Path(__file__).parents[1] / "corpora"
BETWEEN = 3
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Fact:
    """A line of the corpus."""

    def __init__(self, line: str) -> None:
        self.language, self.name, self.message, self.question = line.split("\t")


def corpus() -> dict[str, list[Fact]]:
    """The lines of each language."""
    text = (CORPORA / "languages.tsv").read_text(encoding="utf-8")
    facts = [Fact(line) for line in text.splitlines() if not line.startswith("#")]
    return {fact.language: [f for f in facts if f.language == fact.language] for fact in facts}


def history(facts: Sequence[Fact], embedder: Embedder, between: int = BETWEEN) -> InMemoryIndex:
    """What was said in one language, among English; two hours lie between any two matters."""
    said = (CORPORA / "said_to_agents.tsv").read_text(encoding="utf-8").splitlines()
    others = [line.split("\t")[-1] for line in said if not line.startswith("#")][::3]
    told = [fact for fact in facts if fact.message]
    index = InMemoryIndex(embedder)
    passages: list[Passage] = []
    for at, fact in enumerate(told):
        for text in others[at * between : (at + 1) * between]:
            passages += _exchange(len(passages), text, "All right.")
        passages += _exchange(len(passages), fact.message, "Noted.", fact.name)
    index.add(passages, IndexMark(len(passages), ""))
    while index.embed_pending(64):
        pass
    return index


def _exchange(at: int, text: str, answer: str, name: str = "") -> list[Passage]:
    moment = BEGIN + timedelta(hours=at)
    return [
        Passage(
            id=f"e{at + offset}#0",
            session="bench",
            seq=at + offset,
            entry=f"e{at + offset}",
            turn=at // 2,
            ts=(moment + timedelta(minutes=offset)).isoformat(),
            role=role,
            speaker=role,
            kind=f"{role}_message",
            text=words,
            source_id=name if role == "user" else "",
        )
        for offset, (role, words) in enumerate((("user", text), ("assistant", answer)))
    ]


def hit_at_1(index: InMemoryIndex, asked: Sequence[Fact]) -> float:
    """The share of questions whose fact stands first."""
    told = [fact for fact in asked if fact.message]
    first = [index.search(fact.question, 5).hits[:1] for fact in told]
    right = [
        bool(hits) and hits[0].passage.source_id == fact.name
        for hits, fact in zip(first, told, strict=True)
    ]
    return sum(right) / len(right)


def spoken(index: InMemoryIndex, message: str) -> list[str]:
    """The names of the facts that a turn would be given for a message; `-` for anything else."""
    answers = [index.search(query, 24) for query in queries(message, ())]
    chosen = choose(message, answers, 2_000, lambda text: len(text) // 4, most=12)
    return [each.hit.passage.source_id or "-" for each in chosen.injected]


def speaks(index: InMemoryIndex, asked: Sequence[Fact]) -> tuple[float, float, float]:
    """How often a question gets its fact unasked, one about nothing said anything, small talk."""
    told = [spoken(index, fact.question).count(fact.name) > 0 for fact in asked if fact.message]
    never = [bool(spoken(index, f.question)) for f in asked if f.name.startswith("never")]
    small = [bool(spoken(index, f.question)) for f in asked if f.name.startswith("small")]
    return sum(told) / len(told), sum(never) / len(never), sum(small) / len(small)


def main(chosen: Sequence[str]) -> None:
    """Print the table."""
    if open_multilingual() is None:
        print("The extra `languages` is not installed: words alone.")
    facts = {name: told for name, told in corpus().items() if not chosen or name in chosen}
    embedder = EmbedsOnce(open_embedder("minilm"))
    began = time.process_time()
    indexes = {name: history(told, embedder) for name, told in facts.items()}
    print(f"indexed in {time.process_time() - began:.0f} s of processor time")
    print("language   same  asked in  said in   its fact unasked  never said  small talk")
    hits = {
        (asked, said): hit_at_1(indexes[said], facts[asked]) for asked in facts for said in facts
    }

    def mean(pairs: list[tuple[str, str]]) -> float:
        return 100 * sum(hits[pair] for pair in pairs) / max(len(pairs), 1)

    for name in facts:
        own, never, small = speaks(indexes[name], facts[name])
        asked = mean([(name, other) for other in facts if other != name])
        said = mean([(other, name) for other in facts if other != name])
        print(
            f"{name:8} {mean([(name, name)]):6.0f} {asked:9.0f} {said:8.0f}"
            f" {100 * own:17.0f} {100 * never:12.0f} {100 * small:11.0f}"
        )
    across = mean([pair for pair in hits if pair[0] != pair[1]])
    print(f"all      {mean([(name, name) for name in facts]):6.1f} {across:9.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
