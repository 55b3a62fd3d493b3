"""How little is enough for recall to speak: two numbers, fitted with each set left out once.

    python -m tests.bench.fit_speak FOLDER...

Each folder is a set: pairs `NAME.messages.jsonl` and `NAME.questions.jsonl` as for
`bench_recall_quality`. The work talk of `tests/corpora/work_talk.txt` is a set, too. Every history
is asked its own questions, sixty of other histories, and general ones; a question counts as
answerable where its evidence is among the first five hits. Fitted are the share of a floor that is
enough in the shortest history and how much is added for each time that it is e times as long; the
figure that counts is that of the set which was left out.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mindstone_tui.core.language.intent import intent_of
from mindstone_tui.core.recall import thresholds as tuned
from mindstone_tui.core.recall.embedding import EmbeddedModel
from mindstone_tui.core.recall.speak import asked_of
from tests.bench.bench_recall_quality import UNRELATED, Conversation
from tests.corpora import lines

FOREIGN = 60
MOST = {"foreign": 0.04, "general": 0.05}
SHARES = [round(0.5 + 0.03 * step, 2) for step in range(18)]
STEPS = [round(0.01 * step, 2) for step in range(13)]


class Case(NamedTuple):
    """A question put to a history: what it is, how strong the best hit is, how long history is."""

    kind: str
    strength: float
    passages: int

    def speaks(self, share: float, step: float) -> bool:
        """Whether recall speaks with these two numbers."""
        longer = math.log(max(self.passages, tuned.FEW) / tuned.FEW)
        return self.strength >= min(1.0, share + step * longer)


def work_talk(folder: Path) -> list[str]:
    """Lay the work talk out as conversations; returns the general questions."""
    general: list[str] = []
    name = ""
    said: list[dict[str, object]] = []
    asked: list[dict[str, object]] = []
    for line in (*lines("work_talk.txt"), "[]"):
        if line.startswith("["):
            for kind, rows in (("messages", said), ("questions", asked)) if said else ():
                path = folder / f"{name}.{kind}.jsonl"
                path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
            name, said, asked = line[1:-1], [], []
            continue
        kind, text, *rest = line.split("\t")
        if kind in "ua":
            role = {"u": "user", "a": "assistant"}[kind]
            ts = f"2026-02-{len(said) // 2 + 1:02}T09:00:00Z"
            said.append({"id": str(len(said) + 1), "role": role, "content": text, "ts": ts})
        elif kind == "x":
            general.append(text)
        elif kind == "q":
            asked.append({"query": text, "gold": rest[0].split()})
    return general


def cases(sets: dict[str, list[Conversation]], general: Sequence[str]) -> dict[str, list[Case]]:
    """Every history asked everything."""
    chance = random.Random(7)
    every = [(one, q["query"]) for group in sets.values() for one in group for q in one.questions]
    found: dict[str, list[Case]] = {name: [] for name in sets}
    for name, group in sets.items():
        for one in group:
            others = [query for other, query in every if other is not one]
            asked = [("answer", q["query"], set(map(str, q["gold"]))) for q in one.questions]
            asked += [
                ("foreign", q, set()) for q in chance.sample(others, min(FOREIGN, len(others)))
            ]
            asked += [("general", query, set()) for query in general]
            found[name] += itertools.chain.from_iterable(_case(one, *each) for each in asked)
    return found


def _case(one: Conversation, kind: str, query: str, gold: set[str]) -> Iterable[Case]:
    if intent_of(query) != "asks":
        return
    answer = one.search(query, tuned.DEFAULT)
    first = {str(hit.passage.source_id) for hit in answer.hits[:5]}
    if kind == "answer" and first.isdisjoint(gold):
        return
    passages = len(one.index)
    yield Case(kind, answer.judged.strength * asked_of(passages), passages)


def spoken(found: Iterable[Case], kind: str, share: float, step: float) -> float:
    """The share of the cases of a kind in which recall speaks."""
    own = [case.speaks(share, step) for case in found if case.kind == kind]
    return float(np.mean(own)) if own else 0.0


def fitted(groups: Sequence[Sequence[Case]]) -> tuple[float, float]:
    """The two numbers that let it speak most where it should and not where it should not."""

    def worth(pair: tuple[float, float]) -> float:
        over = max(
            spoken(group, kind, *pair) - most for group in groups for kind, most in MOST.items()
        )
        told = [spoken(group, "answer", *pair) for group in groups]
        return float(np.mean(told)) + min(told) - 20 * max(over, 0.0)

    return max(itertools.product(SHARES, STEPS), key=worth)


def main() -> None:
    model = EmbeddedModel()
    with tempfile.TemporaryDirectory() as scratch:
        talk = Path(scratch, "work")
        talk.mkdir()
        general = [*work_talk(talk), *UNRELATED]
        sets = {
            folder.name: [
                Conversation(messages, Path(scratch), model)
                for messages in sorted(folder.glob("*.messages.jsonl"))
            ]
            for folder in (*map(Path, sys.argv[1:]), talk)
        }
        found = cases(sets, general)
    for name, own in found.items():
        pair = fitted([group for other, group in found.items() if other != name] or [own])
        told = " ".join(
            f"{kind} {100 * spoken(own, kind, *pair):.1f} %" for kind in ("answer", *MOST)
        )
        print(f"{name} left out: {pair[0]} + {pair[1]}: {told}", flush=True)
    print(f"with all of them: {fitted(list(found.values()))}")


if __name__ == "__main__":
    main()
