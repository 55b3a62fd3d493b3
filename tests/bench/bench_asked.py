"""How well the guide answers what people ask about four histories, without a model.

    python -m tests.bench.bench_asked [questions.jsonl] [--coding SESSION] [--all]

The questions are those of `tests/corpora/asked` or of a file in the same shape, asked one after the
other in a session of each history, as a person would in the app. An answer is right when its first
200 characters hold what its question accepts; dates and numbers of its source do not count. The
coding session is not kept here: without its path its questions are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import mindstone_tui
from mindstone_tui.core import events
from mindstone_tui.core.interchange.import_session import import_file
from mindstone_tui.core.interchange.samples import sample_file
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.embedding import EmbeddedModel
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.transcript import History, Transcript
from tests import corpora

ASKED = Path(corpora.__file__).parent / "asked"
SHOWN = 200
_SOURCE = re.compile(r"\((?:\d+ [A-Z][a-z]+(?: \d{4})?, )?line \d+\)?|\(\d+ [A-Z][a-z]+[ \d]*\Z")
_SILENT = re.compile(r"\A\W*(?:Nothing was said|I found nothing)")
_GLOSSARY = re.compile(r"\A(?:\*\*[\w ]+\*\*(?::| is\b)|These are the words|Hello! I am)")


def questions(path: Path) -> list[dict[str, Any]]:
    """One question a line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def chat_as_messages(folder: Path, name: str = "chat") -> Path:
    """A chat in the shape that an import reads: each message somebody's own, or the model's."""
    path = folder / f"{name}.jsonl"
    said = questions(ASKED / f"{name}.jsonl")
    path.write_text(
        "".join(
            json.dumps(
                {
                    "id": f"m{at}",
                    "role": "assistant" if one["speaker"] == "assistant" else "user",
                    "name": one["speaker"],
                    "content": one["text"],
                    "ts": one["at"] + ".000Z",
                }
            )
            + "\n"
            for at, one in enumerate(said, 1)
        )
    )
    return path


def take_over(home: Path, key: str, path: Path, shape: str, *, vectors: bool = True) -> None:
    """Import a history, with the meaning of every passage."""
    places = Places.resolve({"MINDSTONE_HOME": str(home)}).session(SessionKey.parse(key))
    transcript = Transcript(places)
    import_file(path, transcript, format=shape)
    transcript.close()
    index = RecallIndex.of(places, EmbeddedModel() if vectors else None)
    with History(places) as history:
        catch_up(index, reading(history))
    while vectors and index.embed_pending(64):
        pass
    index.close()


async def ask(home: Path, key: str, asked: Iterable[str]) -> list[str]:
    """What the guide says to each question, in one session."""
    answers = []
    async with mindstone_tui.open(key, model="local/guide", home=home, cwd=home) as talk:
        for question in asked:
            said = ""
            async for event in talk.ask(question):
                if isinstance(event, events.TextDelta):
                    said += event.text
            answers.append(said.strip())
    return answers


def verdict(question: dict[str, Any], answer: str) -> str:
    """`right`, `wrong`, `silent`; `answered` where nothing was to be said; `glossary`."""
    if _GLOSSARY.match(answer):
        return "glossary"
    silent = bool(_SILENT.match(answer))
    if not question["answerable"]:
        return "right" if silent else "answered"
    if silent:
        return "silent"
    text = _SOURCE.sub("", answer[:SHOWN]).lower()
    found = any(key.lower() in text for key in question["accept"])
    found = found and all(key.lower() in text for key in question.get("also", ()))
    stale = [key for key in question.get("not", ()) if key.lower() in text.partition("before:")[0]]
    return "right" if found and not stale else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("questions", nargs="?", type=Path, default=ASKED / "open.jsonl")
    parser.add_argument("--coding", type=Path, help="the coding session, as its program wrote it")
    parser.add_argument("--all", action="store_true", help="print every answer")
    options = parser.parse_args()
    asked = questions(options.questions)
    totals: Counter[Any] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        histories: dict[str, tuple[Path, str]] = {
            "sample": (sample_file(), "messages"),
            "chat": (chat_as_messages(home), "messages"),
            "work": (chat_as_messages(home, "work"), "messages"),
        }
        if options.coding is not None:
            histories["coding"] = (options.coding, "auto")
        for name, (path, shape) in histories.items():
            own = [one for one in asked if one["history"] == name]
            take_over(home / name, f"agent:{name}:asked", path, shape)
            said = asyncio.run(
                ask(home / name, f"agent:{name}:asked", [one["question"] for one in own])
            )
            totals += report(name, own, said, everything=options.all)
    print("all:", in_figures(totals))


def report(
    name: str, asked: Sequence[dict[str, Any]], said: Sequence[str], *, everything: bool
) -> Counter[Any]:
    """Print how one history fared; what there is to count."""
    counts: Counter[Any] = Counter()
    for question, answer in zip(asked, said, strict=True):
        found = verdict(question, answer)
        counts["of", question["answerable"]] += 1
        counts[found, question["answerable"]] += 1
        if everything:
            print(f"{found:9} {question['id']:10} {question['question']}")
            print(f"          {answer[:260]!r}")
    print(f"{name}:", in_figures(counts))
    return counts


def in_figures(counts: Counter[Any]) -> str:
    """The three figures, each with what it is of."""
    answerable, absent = counts["of", True], counts["of", False]
    right, answered = counts["right", True], counts["answered", False]
    glossary = counts["glossary", True] + counts["glossary", False]
    return (
        f"right {right}/{answerable} ({100 * right / max(answerable, 1):.0f} %), "
        f"silent {counts['silent', True]}, unanswerable answered {answered}/{absent} "
        f"({100 * answered / max(absent, 1):.0f} %), glossary {glossary}"
    )


if __name__ == "__main__":
    main()
