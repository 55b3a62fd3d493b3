"""Alerts of live turns: hardly any in a long ordinary session, one soon after each planted fault.

Nothing is simulated but the model, which reads its replies from a script: every turn goes through
the whole session, and alerts are read from what it wrote down. `make faults` plays 300 turns.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.window import AlertRaised
from tests.core.session.stage import Stage, calls, on_stage, script
from tests.corpora import FULL

TURNS = 300 if FULL else 8
WINDOW = 32_000
SOON = 3
"""Turns within which a fault has to be found."""
BEFORE = 5
"""Ordinary turns in front of each fault."""

NOUNS = ("harbour", "gauge", "tide", "loader", "worker", "ledger", "lantern", "bridge", "signal")
VERBS = ("opens", "closes", "reads", "writes", "counts", "sends", "drops", "keeps", "checks")


def sentence(rng: random.Random) -> str:
    """A sentence of its own, so that nothing looks like a repetition."""
    first, second = rng.sample(NOUNS, 2)
    return f"The {first} {rng.choice(VERBS)} the {second} {rng.randrange(10_000)} times a day."


def prose(rng: random.Random, least: int, most: int) -> str:
    return " ".join(sentence(rng) for _ in range(rng.randint(least, most)))


def ordinary(rng: random.Random, folder: Path, turn: int) -> tuple[str, list[dict[str, Any]]]:
    """A request and what the model does about it: talk, a look at a file, a search, a miss."""
    asked = f"{prose(rng, 1, 6)} Could you look at part {turn}?"
    name = f"part_{turn % 20}.py"
    (folder / name).write_text("\n".join(sentence(rng) for _ in range(rng.randint(5, 120))))
    done = {"text": prose(rng, 2, 30)}
    match turn % 5:
        case 0:
            return asked, [calls(("read", {"path": name})), done]
        case 1:
            words = {"pattern": rng.choice(NOUNS), "path": name}
            looks = calls(("read", {"path": name}), ("grep", words))
            return asked, [looks, calls(("glob", {"pattern": "*.py"})), done]
        case 2:
            return asked, [calls(("read", {"path": f"missing_{turn}.py"})), done]
    return asked, [done]


@contextlib.asynccontextmanager
async def playing(
    home: Path, folder: Path, turns: list[tuple[str, list[dict[str, Any]]]], **more: Any
) -> AsyncIterator[tuple[Stage, list[str]]]:
    """A session whose model has a script for these turns, and what is to be said in them."""
    replies = [reply for _, each in turns for reply in each]
    model = script(folder, *replies, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW, **more) as stage:
        yield stage, [asked for asked, _ in turns]


def raised(stage: Stage) -> list[AlertRaised]:
    return stage.entries(AlertRaised)


async def test_a_long_ordinary_session_hardly_raises_an_alert(home: Path, tmp_path: Path) -> None:
    rng = random.Random(300)
    turns = [ordinary(rng, tmp_path, number) for number in range(1, TURNS + 1)]
    async with playing(home, tmp_path, turns) as (stage, asked):
        for text in asked:
            assert (await stage.say(text)).ending == "done"
        alerts = raised(stage)
        left = [line for line in stage.lines() if line.kind == "context_window_pruned"]
    assert len(alerts) <= 2, [(each.metric, each.message) for each in alerts]
    assert left or not FULL, "a session of 300 turns outgrows its window"


LOOK = calls(("read", {"path": "huge.txt"}))
SAME = {"text": "I have looked at all of it and I would begin with the loader of the harbour. " * 3}


def planted(fault: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """The turns of a fault; `index_lag` and `protected` are planted from outside."""
    talk = [
        ("And what about the next one?", [{"text": f"It is the one in row {n}."}]) for n in "123"
    ]
    match fault:
        case "burn_rate":
            return [("Show me all of it.", [LOOK, {"text": "That is all of it."}]), *talk[1:]]
        case "loop":
            same = calls(("read", {"path": "part_1.py"}))
            return [("Find out why.", [*[same] * 6, {"text": "I do not know."}]), *talk[1:]]
        case "cut":
            cut = {"usage": {"prompt": 700, "completion": 9}}
            return [(asked, [{**reply, **cut} for reply in replies]) for asked, replies in talk]
        case "repeating":
            return [(asked, [SAME]) for asked, _ in talk]
    return talk


@contextlib.contextmanager
def stuck(stage: Stage, fault: str) -> Iterator[None]:
    """The index in somebody else's hands, where that is the fault."""
    if fault != "index_lag":
        yield
        return
    other = apsw.Connection(str(stage.places.library))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@pytest.mark.parametrize(
    "fault",
    [
        "burn_rate",
        "loop",
        "index_lag",
        "cut",
        "repeating",
        "protected",
    ],
)
async def test_a_planted_fault_is_found_within_three_turns(
    home: Path, tmp_path: Path, fault: str
) -> None:
    rng = random.Random(fault)
    (tmp_path / "huge.txt").write_text("\n".join(sentence(rng) for _ in range(900)))
    before = [ordinary(rng, tmp_path, number) for number in range(1, BEFORE + 1)]
    async with playing(home, tmp_path, [*before, *planted(fault)]) as (stage, asked):
        for text in asked[:BEFORE]:
            await stage.say(text)
        await stage.rest()
        assert raised(stage) == []
        if fault == "protected":
            await stage.say(prose(rng, 1_650, 1_650))
            await stage.run("/pin")
        with stuck(stage, fault):
            for text in asked[BEFORE : BEFORE + SOON]:
                await stage.say(text)
            await stage.idle()
        found = {each.metric: each for each in raised(stage)}
        cleared = {name for each in stage.all(events.AlertsCleared) for name in each.metrics}
        holds = stage.session.services.context.report().alerts
        health = (await stage.run("/health"))[1]
        assert all(one.message in health for one in holds)
        assert ("No alerts." in health) is not bool(holds), "the panel tells what /health does"
    assert fault in found, sorted(found)
    assert (fault in cleared) == (fault in ("burn_rate", "loop")), "over with the next turn"
    assert found[fault].remedy, "an alert says what to do"
