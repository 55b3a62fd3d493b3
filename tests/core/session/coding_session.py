"""A scripted coding session: modules are read, logs searched, facts, rules and corrections said.

The same for the same number of turns. Everything planted is asked for again long after it was said,
so a session of 300 turns in a small window shows how still the window stays, and what comes back.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.derived import RecalledPassage, RecallInjected
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    PromptPlanned,
    ToolResultsTrimmed,
)
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.recall.embedding import open_embedder
from mindstone_tui.core.replay.verify_requests import SentRequest, requests_of
from mindstone_tui.core.transcript import History
from tests.core.context.stage import Unsynced
from tests.core.session.stage import calls, on_stage, read, script

MODULES = (
    "ingest", "billing", "ledger", "router", "session", "parser", "scheduler", "cache",
    "gateway", "invoice", "mailer", "metrics", "orders", "planner", "queue", "reports",
    "search", "shipping", "storage", "tenant", "tokens", "uploads", "webhooks", "workers",
)  # fmt: skip
VERBS = ("load", "merge", "check", "apply", "render", "collect", "resolve", "flush")
PLACES = ("Bergen", "Lagos", "Osaka", "Quito", "Tallinn", "Wellington", "Zagreb", "Accra")
WINDOW = 32_768


class Planted(msgspec.Struct, frozen=True):
    """Something said once, and the question that it answers much later."""

    kind: str
    """`fact`, `rule` or `correction`."""
    turn: int
    said: str
    question: str
    answer: str
    """A word that only the right passage has."""
    corrects: int = 0
    """The turn whose fact it corrects."""


class ScriptedTurn(msgspec.Struct, frozen=True):
    """What the person says, which tools the model then calls, and what it answers."""

    said: str
    rounds: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = ()
    answer: str = "Done."
    asks: Planted | None = None

    @property
    def replies(self) -> Iterator[Any]:
        """The model's part of it."""
        for wanted in self.rounds:
            yield calls(*wanted)
        yield {"text": self.answer}


class Story:
    """All turns of a session."""

    def __init__(self, turns: int, seed: int = 7) -> None:
        self.random = random.Random(seed)
        self.planted: list[Planted] = []
        self._facts: list[Planted] = []
        self._asked: set[int] = set()
        self.turns = [self._turn(number) for number in range(1, turns + 1)]

    def _turn(self, number: int) -> ScriptedTurn:
        if number % 10 == 3:
            return self._fact(number)
        if number % 20 == 8:
            return self._rule(number)
        if number % 30 == 14 and self._facts:
            return self._correction(number)
        if number % 10 == 9 and (due := self._due(number)):
            self._asked.add(due.turn)
            return ScriptedTurn(due.question, answer=self._prose(30), asks=due)
        return self._work()

    def _due(self, number: int) -> Planted | None:
        """The oldest that was planted long ago and not asked for yet."""
        replaced = {each.corrects for each in self.planted}
        return next(
            (
                each
                for each in self.planted
                if each.turn <= number - 30 and each.turn not in self._asked | replaced
            ),
            None,
        )

    def _plant(self, planted: Planted, answer: str) -> ScriptedTurn:
        self.planted.append(planted)
        return ScriptedTurn(planted.said, answer=answer)

    def _fact(self, number: int) -> ScriptedTurn:
        at = len(self._facts)  # No place is named twice: its second port would replace the first.
        module = MODULES[(at * 5 + at // len(PLACES)) % len(MODULES)]
        place = f"{PLACES[at % len(PLACES)]} {module} cluster"
        port = 20_000 + 37 * number
        fact = Planted(
            kind="fact",
            turn=number,
            said=f"For your information: the {place} listens on port {port}.",
            question=f"On which port does the {place} listen?",
            answer=str(port),
        )
        self._facts.append(fact)
        return self._plant(fact, "Understood.")

    def _rule(self, number: int) -> ScriptedTurn:
        module = MODULES[number * 3 % len(MODULES)]
        branch = f"release-{number}"
        return self._plant(
            Planted(
                kind="rule",
                turn=number,
                said=f"From now on never push {module} changes to {branch} without asking me.",
                question=f"May you push the {module} changes to {branch}?",
                answer=branch,
            ),
            "I will ask first.",
        )

    def _correction(self, number: int) -> ScriptedTurn:
        old = self._facts[len(self._facts) // 2]
        place = old.said.partition("the ")[2].partition(" listens")[0]
        port = 50_000 + 11 * number
        return self._plant(
            Planted(
                kind="correction",
                turn=number,
                said=f"Correction: the {place} listens on port {port} now, not on {old.answer}.",
                question=f"On which port does the {place} listen now?",
                answer=str(port),
                corrects=old.turn,
            ),
            "Noted, thank you.",
        )

    def _work(self) -> ScriptedTurn:
        module, other, third = self.random.sample(MODULES, 3)
        verb = self.random.choice(VERBS)
        kind = self.random.random()
        rounds: list[list[tuple[str, dict[str, Any]]]]
        if kind < 0.35:
            rounds = [[("read", {"path": f"src/{module}.py"})]]
            said = f"Look at src/{module}.py and tell me what {verb}_{module} does."
        elif kind < 0.55:
            rounds = [[("read", {"path": f"src/{name}.py"})] for name in (module, other, third)]
            said = f"Compare how {module}, {other} and {third} {verb} their rows."
        elif kind < 0.75:
            rounds = [
                [("grep", {"pattern": f"def {verb}_", "path": "src"})],
                [("read", {"path": f"src/{other}.py", "first": 1, "lines": 40})],
            ]
            said = f"Where is {verb} defined, and is {other} the right place for it?"
        elif kind < 0.9:
            rounds = [
                [("read", {"path": f"log/{module}.log"})],
                [("read", {"path": f"src/{module}.py"})],
            ]
            said = f"The tests of {module} fail; find out why from its log."
        else:
            rounds = []
            said = f"What would you change about {module} before the next release?"
        return ScriptedTurn(
            said, tuple(tuple(each) for each in rounds), self._prose(self.random.randint(40, 160))
        )

    def _prose(self, words: int) -> str:
        chosen = (
            self.random.choice((*MODULES, *VERBS, "and", "the", "rows")) for _ in range(words)
        )
        return " ".join(chosen).capitalize() + "."


class Chat(Story):
    """An ordinary chat: facts are told, files are looked at, and what left is asked for again."""

    def _turn(self, number: int) -> ScriptedTurn:
        answer = self._prose(150)
        if number % 3 == 1:
            return ScriptedTurn(self._fact(number).said, answer=answer)
        if number % 3 == 0 and number > 3:
            asked = self._facts[number // 3 - 2]
            return ScriptedTurn(asked.question, answer=answer, asks=asked)
        module = self.random.choice(MODULES)
        said = f"Look at src/{module}.py, please. What would you change?"
        return ScriptedTurn(said, ((("read", {"path": f"src/{module}.py"}),),), answer)


class Spikes(Story):
    """Facts are told between turns that read a dozen files, and all are asked for at the end."""

    def __init__(self, turns: int) -> None:
        self.told = turns // 12
        self._all = turns
        super().__init__(turns)

    def _turn(self, number: int) -> ScriptedTurn:
        asked = number - 1 - (self._all - self.told)
        if asked >= 0:
            return ScriptedTurn(self._facts[asked].question, answer="Yes.", asks=self._facts[asked])
        if number % 11 == 3 and len(self._facts) < self.told:
            return self._fact(number)
        if number % 9 == 7:
            several = self.random.sample(MODULES, 12)
            rounds = tuple((("read", {"path": f"src/{name}.py"}),) for name in several)
            return ScriptedTurn("Fix this, and keep to what we agreed.", rounds, self._prose(60))
        return self._work()


def furnish(folder: Path) -> None:
    """Write the project that the session works on."""
    chance = random.Random(11)
    for name in ("src", "log"):
        (folder / name).mkdir(parents=True)
    for module in MODULES:
        (folder / "src" / f"{module}.py").write_text(_source(module, chance))
        (folder / "log" / f"{module}.log").write_text(_log(module, chance))


def _source(module: str, chance: random.Random) -> str:
    lines = [f'"""The {module} of the service."""', "", f"LIMIT_{module.upper()} = 400", ""]
    for verb in VERBS[: chance.randint(4, 8)]:
        lines += [f"def {verb}_{module}(rows: list[dict[str, int]]) -> int:", "    total = 0"]
        for _ in range(chance.randint(4, 14)):
            field, factor = chance.choice(MODULES), chance.randint(2, 90)
            lines.append(f'    total += sum(row["{field}"] for row in rows) * {factor}')
        lines += ["    return total", "", ""]
    return "\n".join(lines)


def _log(module: str, chance: random.Random) -> str:
    lines = [f"tests/test_{module}.py::test_{verb} PASSED" for verb in VERBS] * 3
    at = chance.randint(10, 400)
    lines.insert(9, f"src/{module}.py:{at}: ValueError: {module} row {at} has no tenant")
    return "\n".join([*lines, "1 failed, 23 passed in 2.31s"]) + "\n"


class Stillness(msgspec.Struct, frozen=True):
    """How much a session's window moved."""

    requests: int
    trims: int
    prunes: int
    extending: int
    """Requests that begin with all of the one before, without its passing tail."""
    left: int
    """Exchanges that left."""
    with_vectors: int
    """Those of them whose vectors were stored by then."""
    bytes: int
    said: int
    """Bytes of the lines that are messages and tool results."""
    recalls: int
    """Turns for which something was brought back."""

    @property
    def moves(self) -> float:
        """Trims and prunes for each request."""
        return (self.trims + self.prunes) / max(self.requests, 1)

    @property
    def share(self) -> float:
        """Requests that extend the one before, of all that have one before them."""
        return self.extending / max(self.requests - 1, 1)


_SAID = frozenset(("user_message", "assistant_message", "assistant_partial", "tool_returned"))


def stillness(places: SessionPlaces) -> Stillness:
    """Measure a session from its transcript alone; every request is rebuilt."""
    lines = read(places)
    plans = [line for line in lines if _is_request(line)]
    pruned = [line.entry for line in lines if isinstance(line.entry, ContextWindowPruned)]
    left = [one for entry in pruned for one in entry.left]
    return Stillness(
        requests=len(plans),
        trims=sum(isinstance(line.entry, ToolResultsTrimmed) for line in lines),
        prunes=len(pruned),
        extending=_extending(places),
        left=len(left),
        with_vectors=sum(
            one.receipt is not None and one.receipt.vectors == "stored" for one in left
        ),
        bytes=places.transcript.stat().st_size,
        said=sum(len(line.raw) + 1 for line in lines if line.kind in _SAID),
        recalls=sum(isinstance(line.entry, RecallInjected) for line in lines),
    )


def _is_request(line: Line) -> bool:
    return isinstance(line.entry, PromptPlanned) and not line.entry.purpose


def _extending(places: SessionPlaces) -> int:
    extending = 0
    before: tuple[Any, ...] | None = None
    with History(places) as history:
        for sent in requests_of(history):
            assert isinstance(sent, SentRequest)
            plan = sent.line.entry
            if isinstance(plan, PromptPlanned) and not plan.purpose:
                assert sent.request is not None, sent.why
                messages = sent.request.messages[: -1 if plan.tail else None]
                extending += before is not None and messages[: len(before)] == before
                before = messages
    return extending


def recalled(
    places: SessionPlaces, story: Story
) -> Iterator[tuple[Planted, tuple[RecalledPassage, ...] | None]]:
    """What each question about something planted was given; None where it was still in view."""
    lines = read(places)
    with History(places) as history:
        whole = [history.whole(line) for line in lines if isinstance(line.entry, RecallInjected)]
    given = {line.turn: line.entry for line in whole if isinstance(line.entry, RecallInjected)}
    for number, turn in enumerate(story.turns, start=1):
        if turn.asks is not None:
            plan = next(line for line in lines if line.turn == number and _is_request(line))
            assert isinstance(plan.entry, PromptPlanned)
            said = next(line.seq for line in lines if line.turn == turn.asks.turn)
            if any(span.first <= said <= span.last for span in plan.entry.spans):
                yield turn.asks, None
            else:
                entry = given.get(number)
                yield turn.asks, entry.passages if entry else ()


def configure(home: Path, **sections: str) -> None:
    """Write the settings of the session."""
    home.mkdir(parents=True, exist_ok=True)
    parts = [f"[{name}]\n{body}\n" for name, body in sections.items()]
    (home / "config.toml").write_text("\n".join(parts))


async def play(
    folder: Path, story: Story, *, window: int = WINDOW, **sections: str
) -> SessionPlaces:
    """Hold the session with real tools and a real index; where it is."""
    home, project = folder / "home", folder / "project"
    furnish(project)
    configure(home, **sections)
    model = script(folder, *(reply for turn in story.turns for reply in turn.replies))
    opened = on_stage(
        home,
        disk=Unsynced(),
        model=model,
        context_window=window,
        cwd=project,
        embedder=open_embedder,
    )
    async with opened as stage:
        for turn in story.turns:
            ended = await stage.say(turn.said)
            assert ended.ending == "done", ended.why
            await stage.idle()  # else the next message would have to queue
            stage.heard.clear()
        return stage.places
