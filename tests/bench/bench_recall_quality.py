"""How well recall finds: evidence recall, an ablation, and whether it speaks when it should.

    python tests/bench/bench_recall_quality.py FOLDER

FOLDER holds pairs `NAME.messages.jsonl` ({"id", "role", "name", "content", "ts"} a line) and
`NAME.questions.jsonl` ({"query", "gold": [message ids]} a line). Without a folder nothing is
measured: no conversation ships with the program.

`in 2000` is the share of the evidence that fits into 2,000 tokens, four characters each. To see
when recall speaks by itself, each conversation is also asked the questions of the others, as they
are and with the names of its own speakers put in (some of those it can answer after all), its own
questions with its two speakers exchanged, a few about nothing ever said, and what people say to
agents without asking for anything that history could answer.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

# As in the program: numpy's threads wait by spinning, which spoils every figure on busy cores.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from mindstone_tui.core.recall.embedding import EmbeddedModel
from mindstone_tui.core.recall.index import Asked, RecallIndex, SearchResult
from mindstone_tui.core.recall.inject import choose, queries
from mindstone_tui.core.recall.passages import Passage, pieces_of
from mindstone_tui.core.recall.thresholds import Weights
from tests.corpora import lines

NO_NEIGHBOURS = {"neighbour": 0.0, "second_neighbour": 0.0, "answer": 0.0, "sitting": 0.0}
NO_PERSONS = {"speaker": 0.0, "person": 0.0}
NO_CUES = {"asks": 0.0, "time": 0.0, "date": 0.0, "rule": 0.0, "correction": 0.0, "pieces": 0.0}
BARE = {**NO_NEIGHBOURS, **NO_PERSONS, **NO_CUES, "kinds": 0.0}
ABLATION = {
    "words": Weights(meaning=0, closeness=0, **BARE),
    "meaning": Weights(words=0, closeness=0, **BARE),
    "closeness": Weights(words=0, meaning=0, **BARE),
    "words + meaning": Weights(closeness=0, **BARE),
    "fusion": Weights(**BARE),
    "all without neighbours": Weights(**NO_NEIGHBOURS),
    "all without long ones": Weights(before_long=0.0, after_long=0.0),
    "all without answers": Weights(answer=0.0),
    "all without sittings": Weights(sitting=0.0),
    "all without persons": Weights(**NO_PERSONS),
    "all without cues": Weights(**NO_CUES),
    "all without pieces": Weights(pieces=0.0),
    "all without closeness": Weights(closeness=0),
    "all": Weights(),
}
HITS = 40
ROOM = 2_000
PASSAGES = 12
UNRELATED = (
    "How do I configure nginx as a reverse proxy?",
    "What is the boiling point of tungsten?",
    "What was the tax rate in the 2019 filing?",
    "Who won the chess championship in Reykjavik?",
    "How many litres of diesel does the generator burn?",
    "When did the satellite launch from Kourou?",
    "Which compiler flags fix the linker error?",
    "When is the submarine inspection due?",
    "What medication was prescribed for the horse?",
    "Why did the court reject the appeal?",
    "Who inherited the vineyard in Tuscany?",
    "When does the lease on the warehouse expire?",
    "What caused the blackout in the data centre?",
    "What is the opening bid at the auction?",
)


class Conversation:
    """One conversation, indexed, with its questions and their meaning."""

    def __init__(self, messages: Path, folder: Path, model: EmbeddedModel) -> None:
        said = _lines(messages)
        name = messages.name.removesuffix(".messages.jsonl")
        self.questions = _lines(messages.with_name(f"{name}.questions.jsonl"))
        self.speakers = list(dict.fromkeys(line["name"] for line in said if line.get("name")))
        self.index = RecallIndex.open(folder / f"{name}.db", model)
        self.index.ensure(_passages(name, said))
        while self.index.embed_pending(64):
            pass
        self._model = model
        self._asked: dict[str, Asked] = {}

    def search(self, query: str, weights: Weights) -> SearchResult:
        if query not in self._asked:
            self._asked[query] = Asked(self._model, query)
        return self.index.search(query, HITS, asked=self._asked[query], weights=weights)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _passages(session: str, said: list[dict[str, Any]]) -> list[Passage]:
    turn = 0
    passages = []
    for seq, line in enumerate(said, start=1):
        turn += line["role"] == "user"
        pieces = pieces_of(line["content"])
        passages += [
            Passage(
                id=f"{line['id']}#{piece}",
                session=session,
                seq=seq,
                entry=line["id"],
                turn=turn,
                ts=line["ts"],
                role=line["role"],
                speaker=line.get("name") or line["role"],
                kind=f"{line['role']}_message",
                text=text,
                source_id=line["id"],
                piece=piece,
                pieces=len(pieces),
                form=form,
            )
            for piece, (text, form) in enumerate(pieces)
        ]
    return passages


def scores(found: SearchResult, gold: set[str]) -> dict[str, float]:
    """What the first hits hold of the evidence."""
    ids = [hit.passage.source_id for hit in found.hits]
    kept: set[str] = set()
    left = 2_000
    for hit in found.hits:
        cost = math.ceil(len(hit.text) / 4)
        if cost <= left:
            left -= cost
            kept.add(hit.passage.source_id)
    return {
        "any@1": float(bool(gold & set(ids[:1]))),
        **{f"rec@{k}": len(gold & set(ids[:k])) / len(gold) for k in (5, 10, 20)},
        "in 2000": len(gold & kept) / len(gold),
    }


def ablation(conversations: list[Conversation]) -> dict[str, dict[str, float]]:
    """Each way of ranking, on every question."""
    table = {}
    for name, weights in ABLATION.items():
        rows = [
            scores(one.search(question["query"], weights), set(question["gold"]))
            for one in conversations
            for question in one.questions
        ]
        table[name] = {key: 100 * sum(row[key] for row in rows) / len(rows) for key in rows[0]}
        print(
            f"{name:24}" + " ".join(f"{key} {value:5.1f}" for key, value in table[name].items()),
            flush=True,
        )
    return table


def automatic(conversations: list[Conversation]) -> dict[str, float]:
    """In percent: answerable questions that get evidence, and others that get anything at all."""
    asked: dict[str, list[tuple[Conversation, str, set[str] | None]]] = {
        "answerable": [
            (one, q["query"], set(q["gold"])) for one in conversations for q in one.questions
        ],
        "foreign": [
            (one, q["query"], None)
            for one in conversations
            for other in conversations
            if one is not other
            for q in other.questions[::5]
        ],
        "renamed": [
            (one, _renamed(q["query"], other.speakers, one.speakers), None)
            for one in conversations
            for other in conversations
            if one is not other
            for q in other.questions[::5]
        ],
        "other speaker": [
            (one, _exchanged(q["query"], one.speakers), None)
            for one in conversations
            if len(one.speakers) == 2
            for q in one.questions
            if sum(name in q["query"] for name in one.speakers) == 1
        ],
        "unrelated": [(one, query, None) for one in conversations for query in UNRELATED],
    }
    for case in lines("said_to_agents.tsv"):
        kind, _, message = case.partition("\t")
        asked.setdefault(kind, []).extend((one, message, None) for one in conversations)
    shares = {
        name: 100 * float(np.mean([_brings(*each) for each in cases])) if cases else 0.0
        for name, cases in asked.items()
    }
    print("speaks: " + " ".join(f"{name} {share:.1f} %" for name, share in shares.items()))
    return shares


def _brings(conversation: Conversation, query: str, gold: set[str] | None) -> bool:
    answers = [conversation.search(each, Weights()) for each in queries(query, ())]
    choice = choose(query, answers, ROOM, lambda text: math.ceil(len(text) / 4), most=PASSAGES)
    if gold is None:
        return bool(choice.injected)
    return any(each.hit.passage.source_id in gold for each in choice.injected)


def _renamed(query: str, theirs: list[str], ours: list[str]) -> str:
    for old, new in zip(theirs, ours, strict=False):
        query = query.replace(old, new)
    return query


def _exchanged(query: str, speakers: list[str]) -> str:
    first, second = speakers
    return query.replace(first, "\0").replace(second, first).replace("\0", second)


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MINDSTONE_RECALL_DATA")
    if not folder:
        print("recall quality: no conversations given, nothing measured")
        return
    model = EmbeddedModel()
    with tempfile.TemporaryDirectory() as scratch:
        conversations = [
            Conversation(messages, Path(scratch), model)
            for messages in sorted(Path(folder).glob("*.messages.jsonl"))
        ]
        table = ablation(conversations)
        spoken = automatic(conversations)
    print(json.dumps({"bench": "recall_quality", "ablation": table, "automatic": spoken}))


if __name__ == "__main__":
    main()
