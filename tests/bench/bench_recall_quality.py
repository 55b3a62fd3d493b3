"""How well recall finds: evidence recall, an ablation, and how often it speaks when it should not.

    python tests/bench/bench_recall_quality.py FOLDER

FOLDER holds pairs `NAME.messages.jsonl` ({"id", "role", "name", "content", "ts"} a line) and
`NAME.questions.jsonl` ({"query", "gold": [message ids]} a line). Without a folder nothing is
measured: no conversation ships with the program.

`in 2000` is the share of the evidence that fits into 2,000 tokens, four characters each. For the
silence curve each conversation is also asked the questions of the others, with the names of its own
speakers put in (some of those it can answer after all), and a few about nothing ever said.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mindstone_tui.core.recall.embedding import EmbeddedModel, Encoded
from mindstone_tui.core.recall.index import RecallIndex, SearchResult
from mindstone_tui.core.recall.passages import Passage, pieces_of
from mindstone_tui.core.recall.ranking import FLOOR, Weights, evidence

NO_CUES = {"speaker": 0.0, "person": 0.0, "asks": 0.0, "time": 0.0, "kinds": 0.0}
NO_NEIGHBOURS = {"neighbour": 0.0, "second_neighbour": 0.0}
ABLATION = {
    "words": Weights(meaning=0, closeness=0, **NO_CUES, **NO_NEIGHBOURS),
    "meaning": Weights(words=0, closeness=0, **NO_CUES, **NO_NEIGHBOURS),
    "closeness": Weights(words=0, meaning=0, **NO_CUES, **NO_NEIGHBOURS),
    "words + meaning": Weights(closeness=0, **NO_CUES, **NO_NEIGHBOURS),
    "fusion": Weights(**NO_CUES, **NO_NEIGHBOURS),
    "fusion + neighbours": Weights(**NO_CUES),
    "fusion + weights": Weights(**NO_NEIGHBOURS),
    "all without closeness": Weights(closeness=0),
    "all": Weights(),
}
HITS = 40
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
        self.speakers = list(dict.fromkeys(line["name"] for line in said))
        self.index = RecallIndex.open(folder / f"{name}.db", model)
        self.index.ensure(_passages(name, said))
        while self.index.embed_pending(64):
            pass
        self._asked: dict[str, Encoded | None] = {}

    def search(self, query: str, weights: Weights) -> SearchResult:
        if query not in self._asked:
            self._asked[query] = self.index.ask(query)
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


def silence(conversations: list[Conversation]) -> list[dict[str, float]]:
    """For each floor, which share of questions passes it: answerable, foreign, unrelated."""
    answerable = [_best(one, q["query"]) for one in conversations for q in one.questions]
    foreign = [
        _best(one, _renamed(question["query"], other.speakers, one.speakers))
        for one in conversations
        for other in conversations
        if one is not other
        for question in other.questions[::5]
    ]
    unrelated = [_best(one, query) for one in conversations for query in UNRELATED]
    curve = []
    for floor in (0.3, 0.4, 0.5, 0.55, FLOOR, 0.7, 0.8, 0.9, 1.0):
        passing = {
            name: 100 * float(np.mean(np.array(values) >= floor)) if values else 0.0
            for name, values in (
                ("answerable", answerable),
                ("foreign", foreign),
                ("unrelated", unrelated),
            )
        }
        curve.append({"floor": floor, **passing})
        shares = " ".join(f"{name} {share:5.1f} %" for name, share in passing.items())
        print(f"floor {floor:4.2f} speaks: {shares}{'  ← the floor' if floor == FLOOR else ''}")
    return curve


def _best(conversation: Conversation, query: str) -> float:
    hits = conversation.search(query, Weights()).hits[:5]
    return max((evidence(hit) for hit in hits), default=0.0)


def _renamed(query: str, theirs: list[str], ours: list[str]) -> str:
    for old, new in zip(theirs, ours, strict=False):
        query = query.replace(old, new)
    return query


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
        curve = silence(conversations)
    print(json.dumps({"bench": "recall_quality", "ablation": table, "silence": curve}))


if __name__ == "__main__":
    main()
