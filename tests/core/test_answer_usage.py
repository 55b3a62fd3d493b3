"""What an answer took is known from its own line, and from the lines of older transcripts alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.context.watch import Watch
from mindstone_tui.core.entries import Entry, Line, Usage
from mindstone_tui.core.entries.conversation import (
    AnswerUsage,
    AssistantMessage,
    UsageReported,
    UserMessage,
    usage_in,
)
from mindstone_tui.core.entries.window import Measure, PromptPlanned
from mindstone_tui.core.events.from_entry import events_of
from mindstone_tui.core.health.metrics import cut_by_provider
from mindstone_tui.core.library.profile import profile_from
from mindstone_tui.core.replay.in_memory import InMemoryTranscript
from mindstone_tui.core.session.recover import position_in
from mindstone_tui.core.tokens import Calibration
from mindstone_tui.core.transcript import History
from tests.builders import places_in, transcript_in
from tests.core.session.stage import calls, on_stage, script

MODEL = "scripted/talk.jsonl"
USAGE = Usage(prompt=4_096, completion=7, cost=0.25)
REPORT = UsageReported(call=1, model=MODEL, usage=USAGE, position=3, elapsed=0.5)
Form = Callable[[], list[Entry]]


def now() -> list[Entry]:
    taken = AnswerUsage(call=1, usage=USAGE, position=3, elapsed=0.5)
    return [AssistantMessage(text="A stone.", model=MODEL, reported=taken)]


def formerly() -> list[Entry]:
    return [AssistantMessage(text="A stone.", model=MODEL), REPORT]


@pytest.fixture(params=[now, formerly])
def lines(request: pytest.FixtureRequest, home: Path) -> list[Line]:
    transcript = transcript_in(home)
    measure = Measure(tokens=9_000, label="estimated", utilization=0.5)
    plan = PromptPlanned(
        call=1, model=MODEL, at=-1, through=1, spans=(), measure=measure, raw_tokens=8_000
    )
    said = [UserMessage(text="What is it?"), plan, *request.param()]
    written = [transcript.append(entry, turn=1) for entry in said]
    transcript.close()
    return written


def test_both_forms_say_the_same(lines: list[Line], home: Path) -> None:
    assert [found for line in lines if (found := usage_in(line.entry))] == [REPORT]
    assert profile_from(lines).usage() == USAGE
    assert cut_by_provider(lines) == (9_000, 4_096)
    told = [event for line in lines[2:] for event in events_of(line)]
    assert [event.tag for event in told] == ["answer_recorded", "usage_reported"]
    assert told[-1] == events.UsageReported(turn=1, call=1, model=MODEL, usage=USAGE)
    with History(places_in(home)) as history:
        assert position_in(history, MODEL) == 3
    watch = Watch(Calibration(), lambda first, last: [])
    watch.start(lines[1], lines[2:])
    assert watch.carried.spent == USAGE.cost


def test_a_later_size_is_measured_from_what_was_reported(home: Path) -> None:
    transcript = transcript_in(home)
    measure = Measure(tokens=4_000, label="estimated", utilization=0.5)
    plan = PromptPlanned(call=1, model=MODEL, at=-1, through=1, spans=(), measure=measure)
    planned = transcript.append(plan, turn=1)
    for form in (now, formerly):
        watch = Watch(Calibration(), lambda first, last: [])
        watch.start(planned, [transcript.append(entry, turn=1) for entry in form()])
        assert watch.anchor is not None
        assert (watch.anchor.plan, watch.anchor.reported) == (planned.seq, 4_096)
    transcript.close()


def test_a_rehearsal_takes_no_answer_for_its_own(lines: list[Line], home: Path) -> None:
    sketch = InMemoryTranscript(places_in(home))
    copied = sketch.copy(lines[2])
    assert isinstance(copied.entry, AssistantMessage)
    assert copied.entry.text == "A stone."
    assert usage_in(copied.entry) is None


async def test_an_answer_is_one_line_and_a_fork_has_paid_for_nothing(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("hello")
    model = script(tmp_path, calls(("read", {"path": "a.txt"})), {"text": "Hello."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("what does it say?")
        await stage.run("/fork child")
    assert "usage_reported" not in [line.kind for line in stage.lines()]
    answers = stage.entries(AssistantMessage)
    assert [one.reported.call for one in answers if one.reported] == [1, 2]
    assert [one.reported.position for one in answers if one.reported] == [1, 2]
    with History(places_in(home, "agent:default:child")) as history:
        copied = [one for one in history.read() if isinstance(one, Line)]
        assert position_in(history, model) == 0
    assert [one.kind for one in copied].count("assistant_message") == 2
    assert profile_from(copied).usage() == Usage()
