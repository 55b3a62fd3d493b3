"""A plan says what is new and names the one with the rest; whoever reads it sees all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mindstone_tui.core.context.watch import Watch
from mindstone_tui.core.entries import Draft, Line
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.replay.verify_requests import prove
from mindstone_tui.core.tokens import Calibration
from tests.builders import transcript_in
from tests.core.context.stage import Stage, words


def plans_on_disk(stage: Stage) -> list[dict[str, Any]]:
    """The plans as their lines say them."""
    lines = map(json.loads, stage.transcript.places.transcript.read_bytes().splitlines())
    return [line for line in lines if line["kind"] == "prompt_planned"]


def plans_read(stage: Stage) -> list[Line]:
    """The plans as a reader sees them."""
    lines = [line for line in stage.history.read() if isinstance(line, Line)]
    return [line for line in lines if isinstance(line.entry, PromptPlanned)]


def test_a_plan_is_read_as_it_was_made(home: Path) -> None:
    stage = Stage(home, window=32_768)
    for turn in range(6):
        stage.work(words(20), [words(50)] * 2, words(30))
        if turn == 2:
            stage.report_usage(9_000, call=3)
    first, *later = plans_on_disk(stage)
    assert first["model"]
    assert all("model" not in plan and plan["like"] == first["seq"] for plan in later)
    made = [prepared.plan.entry for prepared in stage.prepared]
    assert [line.entry for line in plans_read(stage)] == made
    backwards = [line for line in stage.history.back() if isinstance(line, Line)]
    assert [each.entry for each in backwards if each.kind == "prompt_planned"] == made[::-1]
    seq = later[-1]["seq"]
    assert stage.history.line(seq).entry == made[-1]
    proof = prove(stage.history)
    assert (proof.requests, proof.matched) == (18, 18)


def test_another_model_or_window_is_said_in_full(home: Path) -> None:
    stage = Stage(home)
    stage.chat(words(20), words(30))
    stage.chat(words(20), words(30))
    stage.ask("again")
    stage.plan(model="another/model", window=9_000)
    stage.plan(model="another/model", window=9_000)
    said = [(plan.get("model", ""), plan.get("like")) for plan in plans_on_disk(stage)]
    first, third = (plan["seq"] for plan in plans_on_disk(stage)[::2])
    assert [like for _, like in said] == [None, first, None, third]
    assert said[2][0] == "another/model"
    assert prove(stage.history).matched == 4


@pytest.mark.parametrize("window", [6_000, 100_000])
def test_what_is_carried_is_known_over_a_few_plans_at_most(home: Path, window: int) -> None:
    stage = Stage(home, window=window)
    longest = 0
    for turn in range(40):
        stage.work(words(5 + turn), [words(40)] * (turn % 3), words(70))
        newest = plans_read(stage)[-1]
        looked_at: list[int] = []

        def read(first: int, last: int, seen: list[int] = looked_at) -> list[Line]:
            seen.append(first)
            return [stage.history.line(first)]

        watch = Watch(Calibration(), read)
        watch.start(newest, ())
        assert watch.carried == stage.window.watch.carried
        longest = max(longest, len(looked_at))
    assert 2 < longest <= 10
    assert (stage.window.windows > 1) == (window < 10_000)
    assert any(plan["carried"].get("same") for plan in plans_on_disk(stage))
    grown = [len(plan["carried"]["growth"]) for plan in plans_on_disk(stage)]
    assert sum(size <= 3 for size in grown) > 0.7 * len(grown)


def test_a_plan_that_leans_on_another_line_is_no_proof(home: Path) -> None:
    stage = Stage(home)
    stage.chat(words(20), words(30))
    stage.chat(words(20), words(30))
    path = stage.transcript.places.transcript
    like = f'"like":{plans_on_disk(stage)[0]["seq"]}'.encode()
    path.write_bytes(path.read_bytes().replace(like, like[:-1] + b"1"))
    proof = prove(stage.history)
    assert [wrong.turn for wrong in proof.mismatched] == [2]


def test_a_plan_says_everything_in_a_file_that_has_no_other(home: Path) -> None:
    stage = Stage(home)
    stage.chat(words(20), words(30))
    short = stage.chat(words(20), words(30)).plan.entry
    assert isinstance(short, PromptPlanned)
    assert short.like is not None
    transcript = transcript_in(home)
    path = transcript.places.transcript
    kept = path.read_bytes()
    path.rename(path.with_name("old"))
    path.write_bytes(kept)
    path.chmod(0o600)
    line = transcript.append_all([Draft(entry=short, turn=2, channel="test")])[-1]
    assert line.entry == msgspec.structs.replace(short, like=None)
    assert json.loads(line.raw)["model"] == short.model
    transcript.close()
