"""The sample that ships is the one the story makes, and its questions have answers in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.interchange.samples import (
    SAMPLE_SESSION,
    SampleProbe,
    import_sample,
    sample_file,
    sample_probes,
)
from mindstone_tui.core.paths import SessionKey
from tests.builders import transcript_in
from tests.core.interchange.helpers import assert_sound, outline, told
from tests.sample.make import make

MESSAGES = {
    message["id"]: message
    for message in map(json.loads, sample_file().read_text(encoding="utf-8").splitlines())
}


def test_the_shipped_file_is_what_the_story_makes() -> None:
    assert sample_file().read_text(encoding="utf-8") == make()
    assert sample_file().stat().st_size < 400_000


def test_the_sample_is_long_and_whole(home: Path) -> None:
    transcript = transcript_in(home)
    report = import_sample(transcript)
    assert import_sample(transcript).added == 0
    transcript.close()
    assert report.skipped == ()
    assert report.last_turn == 110
    assert {turn for turn, kind, _ in outline(home) if kind == "user_message"} == set(range(1, 111))
    assert sum(isinstance(line.entry, ToolReturned) for line in told(home)) > 120
    assert_sound(home)
    assert str(SessionKey.parse(SAMPLE_SESSION)) == SAMPLE_SESSION


@pytest.mark.parametrize("probe", sample_probes(), ids=lambda probe: probe.question)
def test_a_question_is_answered_by_its_source(probe: SampleProbe) -> None:
    sources = [MESSAGES[source]["content"] for source in probe.sources]
    for word in probe.expects:
        assert any(word.lower() in text.lower() for text in sources)
    everything = [message["content"] for message in MESSAGES.values()]
    for word in probe.outdated:
        assert any(word.lower() in text.lower() for text in everything)


def test_corrections_come_early_and_matter_late() -> None:
    first = next(probe for probe in sample_probes() if probe.family == "correction")
    assert first.sources[0].startswith("t003")
    late = next(text for text in MESSAGES.values() if "monthly report as CSV" in text["content"])
    assert late["id"] > "t100"
