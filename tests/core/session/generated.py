"""Sessions made by chance, the same for the same seed: everything that can shape a prompt happens.

A small window in every mode, tools, prunes, trims, pins, recalls, compactions, handoffs, model
switches, interruptions, queued and steering messages, reopened sessions, and crashes. A crash is
what `kill -9` leaves: the transcript cut at some byte of its last turn.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from mindstone_tui.core import events
from mindstone_tui.core.paths import SessionPlaces
from tests.core.session.stage import KEY, Stage, calls, on_stage, opening, read

WORDS = tuple(
    f"{material}{thing}"
    for material in ("amber", "cedar", "copper", "granite", "linen")
    for thing in ("brook", "field", "gate", "lamp", "mill", "road")
)
WINDOW = 7_000
MODES = ("sliding_window", "sliding_window", "auto_compact", "cascade")


class Chance:
    """Everything random in one session."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, longest: int) -> str:
        """Some words, sometimes many."""
        count = self.random.randint(1, longest)
        return " ".join(self.random.choice(WORDS) for _ in range(count))

    def reply(self) -> Any:
        """One line of a script."""
        roll = self.random.random()
        if roll < 0.45:
            return {"text": self.text(150)}
        if roll < 0.55:
            return {"text": self.text(40), "thinking": self.text(10), "delay_ms": 30}
        if roll < 0.62:
            return {"text": self.text(12), "error": self.random.choice(["cut", "server", "auth"])}
        if roll < 0.65:
            return {"error": "context_length"}
        wanted = [self.call() for _ in range(self.random.choice([1, 1, 1, 2, 5]))]
        return calls(*wanted, text=self.text(10) if roll < 0.8 else "")

    def call(self) -> tuple[str, Any]:
        """One tool call, right or wrong."""
        return self.random.choice(
            [
                ("read", {"path": "long.txt"}),
                ("read", {"path": "short.txt"}),
                ("read", {"path": "missing.txt"}),
                ("list", {}),
                ("grep", {"pattern": self.random.choice(WORDS)}),
                ("recall", {"query": self.text(3)}),
                ("read_entry", {"entry": f"#{self.random.randint(0, 40)}"}),
                ("note", {"section": "decisions", "text": self.text(6)}),
                ("write", {"path": "new.txt", "text": "x"}),
                ("teleport", {}),
                ("read", '{"path": "bro'),
            ]
        )

    def command(self, turns: int) -> str:
        """One command that changes the window."""
        turn = self.random.randint(1, max(turns, 1))
        return self.random.choice(
            [
                "/pin",
                f"/pin turn {turn}",
                f"/unpin turn {turn}",
                f"/restore turn {turn}",
                f"/prune {self.random.randint(1, 3)}",
                "/prune 40%",
                f"/prune turn {turn}",
                f"/rewind turn {turn}",
                f"/policy {self.random.choice(['fifo', 'lru', 'priority', 'hybrid'])}",
                f"/tools off {self.random.choice(['grep', 'list'])}",
                f"/recall {self.text(2)}",
                "/compact",
                f"/mode {self.random.choice(MODES)}",
                "/checkpoint save",
                "/handoff write",
                "/handoff use",
                f"/notes decisions! {self.text(8)}",
            ]
        )

    def summary(self) -> dict[str, Any]:
        """What a model says when it is asked for a summary, good or bad."""
        return self.random.choice(
            [
                {"text": f"## Goal\n- {self.text(60)}"},
                {"text": ""},
                {"text": "I'm sorry, I cannot do that."},
                {"text": self.text(5), "error": self.random.choice(["cut", "server", "timeout"])},
            ]
        )


async def play(folder: Path, seed: int, steps: int = 12) -> tuple[SessionPlaces, Counter[str]]:
    """Make the session of a seed; where it is, and how often each thing happened."""
    chance = Chance(seed)
    models = _furnish(folder, chance)
    home = folder / "home"
    left, seen = steps, Counter[str]()
    while left > 0:
        overriding = chance.random.random() < 0.3
        window = chance.random.choice([WINDOW, WINDOW, WINDOW + 5_000])
        _configure(home, models[0], chance)
        chosen: dict[str, Any] = {"model": models[1]} if overriding else {}
        async with on_stage(home, context_window=window, max_rounds=4, **chosen) as stage:
            here = min(left, chance.random.randint(2, 6))
            for _ in range(here):
                await _step(stage, chance, models)
            left -= here
        seen.update(line.kind for line in read(stage.places))
        if left > 0 and chance.random.random() < 0.4:
            seen["crash"] += 1
            _crash(stage.places, chance)
    return opening(home).places.session(KEY), seen


def _furnish(folder: Path, chance: Chance) -> list[str]:
    """Files to read and two models to ask."""
    folder.mkdir()
    (folder / "long.txt").write_text("\n".join(chance.text(12) for _ in range(220)))
    (folder / "short.txt").write_text(chance.text(20))
    return [_script(folder, name, chance) for name in ("one", "two")]


def _script(folder: Path, name: str, chance: Chance) -> str:
    path = folder / f"{name}.jsonl"
    replies = [chance.reply() for _ in range(30)]
    summaries = [{"for": "summary", **chance.summary()} for _ in range(6)]
    path.write_text("\n".join(map(json.dumps, [*replies, *summaries, {"loop": True}])))
    return f"scripted/{path}"


def _configure(home: Path, model: str, chance: Chance) -> None:
    home.mkdir(exist_ok=True)
    recalls = "true" if chance.random.random() < 0.7 else "false"
    mode = chance.random.choice(MODES)
    (home / "config.toml").write_text(
        f'[models]\ndefault = "{model}"\n[context]\nmin_recent = 4\nmode = "{mode}"\n'
        f"[recall]\nauto = {recalls}\n"
    )


async def _step(stage: Stage, chance: Chance, models: list[str]) -> None:
    roll = chance.random.random()
    if roll < 0.5:
        await stage.say(chance.text(chance.random.choice([12, 12, 200])))
    elif roll < 0.6:
        await _together(stage, chance)
    elif roll < 0.7:
        await _interrupted(stage, chance)
    elif roll < 0.76:
        await stage.run(f"/model {chance.random.choice(models)}")
    else:
        await stage.run(chance.command(stage.session.services.context.transcript.last_turn))


async def _together(stage: Stage, chance: Chance) -> None:
    """Several messages at once: one is taken, the others wait, steer, or are taken back."""
    here = len(stage.heard)
    stage.session.send(chance.text(10))
    stage.session.send(chance.text(10), steer=chance.random.random() < 0.5)
    stage.session.send(chance.text(10))
    queued = await stage.until(events.MessageQueued, after=here)
    withdrawn = chance.random.random() < 0.3
    if withdrawn:
        stage.session.withdraw(queued.entry)
    stage.session.command("/policy fifo")
    await stage.until(events.CommandEnded, after=here)


async def _interrupted(stage: Stage, chance: Chance) -> None:
    """Stop a turn at its start, at its first request, or when it is over anyway."""
    here = len(stage.heard)
    moments = (events.TurnStarted, events.ModelCalled, events.TurnEnded)
    moment = (chance.random.choice(moments), events.TurnEnded)
    stage.session.send(chance.text(8))
    await stage.until(events.Event, lambda event: isinstance(event, moment), after=here)
    stage.session.interrupt()
    await stage.until(events.TurnEnded, after=here)


def _crash(places: SessionPlaces, chance: Chance) -> None:
    """Leave what a kill in the last turn could have left."""
    lines = places.transcript.read_bytes().splitlines(keepends=True)
    last = json.loads(lines[-1])["turn"]
    first = next(at for at, line in enumerate(lines) if json.loads(line)["turn"] == last)
    sure = sum(len(line) for line in lines[: first or 1])
    size = sum(len(line) for line in lines)
    with places.transcript.open("r+b") as file:
        file.truncate(chance.random.randint(sure, size))
