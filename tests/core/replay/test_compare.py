"""What each way of making room still knows at the end of a long session.

The table in docs/replay.md is what `compare --sample` prints; this file, run as a program, writes
it anew: `python -m tests.core.replay.test_compare`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.cli.replay import comparison_rows, settings_for
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import Rewound, WindowState
from mindstone_tui.core.interchange.samples import sample_probes
from mindstone_tui.core.paths import Places
from mindstone_tui.core.replay.compare import (
    MODES,
    AnswerPiece,
    Comparing,
    Comparison,
    ComparisonProbe,
    Share,
    answer,
    compare,
    probes_of_sample,
    probes_of_session,
    says,
    speaks_of,
)
from mindstone_tui.core.replay.playback import open_sample
from mindstone_tui.core.replay.rehearsal import RehearsalOptions
from mindstone_tui.core.transcript import History, Transcript
from tests.builders import say, transcript_in
from tests.core.context.stage import with_context
from tests.core.replay.recorded import FAST, recorded
from tests.faults import FULL

GATE = 0.85

PAGE = Path(__file__).parents[3] / "docs" / "replay.md"
TABLE = re.compile(r"(<!-- compare --sample -->\n\n)(.*?)(<!-- end -->)", re.DOTALL)


async def compared(modes: Sequence[str] = MODES) -> Comparison:
    """The comparison as the command makes it."""
    history = open_sample(Places.resolve({"MINDSTONE_HOME": "/nonexistent"}))
    settings = {mode: settings_for(sample=True, flags={"context.mode": mode}) for mode in modes}
    probes = probes_of_sample(history, sample_probes())
    return await compare(history, settings, probes, Comparing(options=RehearsalOptions()))


def as_markdown(found: Comparison) -> str:
    rows = [["", *(one.mode for one in found.modes)], *comparison_rows(found)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row[1:-1].split("|")] for row in table.strip().splitlines()]


@pytest.fixture(scope="module")
def sample() -> Comparison:
    """Made once, and at full length alone for every mode: each takes some seconds."""
    return asyncio.run(compared(MODES if FULL else MODES[:1]))


@pytest.mark.thorough
def test_the_table_in_the_readme_is_what_the_command_prints(sample: Comparison) -> None:
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    shown = [row[: len(sample.modes) + 1] for row in cells(found[2])]
    assert shown == cells(as_markdown(sample))
    assert not FULL or found[2] == as_markdown(sample)


def test_early_corrections_leave_the_window_and_come_back(sample: Comparison) -> None:
    sliding = sample.modes[0]
    assert sliding.mode == "sliding_window"
    corrections = sliding.measures["corrections"]
    assert corrections.hits == corrections.asked == 6
    assert corrections.in_window < corrections.hits
    assert sliding.measures["traceable"].hits == sliding.measures["traceable"].asked
    assert sliding.outcome.summaries == 0
    assert sliding.outcome.exchanges_left > 20


def test_every_mode_passes_the_fidelity_gate(sample: Comparison) -> None:
    for one in sample.modes:
        kept = [one.measures[name] for name in ("facts", "traceable", "corrections", "why")]
        share = sum(each.hits for each in kept) / sum(each.asked for each in kept)
        assert share >= GATE, f"{one.mode} still knows only {share:.0%}"


def test_every_mode_is_asked_the_same_and_none_overflows(sample: Comparison) -> None:
    for one in sample.modes:
        assert [each.question for each in one.answers] == [p.question for p in sample_probes()]
        assert one.outcome.peak <= 1.0
        assert one.outcome.refused == 0
        assert one.outcome.requests == 238


def test_what_a_session_has_nothing_of_is_no_row(sample: Comparison) -> None:
    assert [name for name, _ in sample.measured] == list(sample.modes[0].measures)
    empty = {**sample.modes[0].measures, "why": Share(hits=0, asked=0)}
    short = msgspec.structs.replace(sample.modes[0], measures=empty)
    found = msgspec.structs.replace(sample, modes=(short,))
    assert "can explain why" not in {row[0] for row in comparison_rows(found)}
    assert "factual retention" in {row[0] for row in comparison_rows(found)}


async def test_a_session_of_ones_own_is_asked_about_its_rules_and_decisions(home: Path) -> None:
    with recorded(home) as history:
        probes = probes_of_session(history)
        settings = {mode: with_context(mode=mode, min_recent=4, window=6_000) for mode in MODES}
        found = await compare(history, settings, probes, Comparing(options=FAST))
    assert {"correction", "why", "fact"} >= {probe.family for probe in probes}
    assert any("8790" in expected for probe in probes for expected in probe.expects)
    assert [one.mode for one in found.modes] == list(MODES)


def test_only_what_corrects_something_counts_as_a_correction(home: Path) -> None:
    with closing(transcript_in(home)) as transcript:
        for text in (
            "The mail server is on port 2525.",
            "For this task, never touch the migrations folder.",
            "Remember that Otto owns billing.",
            "No, the mail server is on port 1025, not 2525.",
        ):
            say(transcript, text, "Understood.")
        with transcript.history() as history:
            families = {probe.question: probe.family for probe in probes_of_session(history)}
        assert list(families.values()) == ["fact", "fact", "correction"]
        state = WindowState(through=transcript.head.seq)
        transcript.append(Rewound(to_turn=3, state=state))
        with transcript.history() as history:
            assert {probe.family for probe in probes_of_session(history)} == {"fact"}


async def test_what_was_rewound_is_neither_asked_for_nor_known(home: Path) -> None:
    with recorded(home) as history:
        places = history.places
        turn = next(
            line.turn for line in history.read() if isinstance(line, Line) and b"8790" in line.raw
        )
    with closing(Transcript(places)) as transcript:
        state = WindowState(through=transcript.head.seq)
        transcript.append(Rewound(to_turn=turn - 1, state=state))
    with History(places) as history:
        probes = probes_of_session(history)
        asked = ComparisonProbe(family="fact", question="Which port is it?", expects=("8790",))
        settings = {"sliding_window": with_context(window=60_000)}
        found = await compare(history, settings, [asked], Comparing(options=FAST))
    assert not any("8790" in expected for probe in probes for expected in probe.expects)
    assert not found.modes[0].answers[0].known


async def test_a_model_that_is_given_judges_every_mode(home: Path) -> None:
    asked: list[str] = []

    async def ask(purpose: str, messages: object) -> str:
        asked.append(purpose)
        return {0: '["a?", "b?", "c?"]', 1: '["1", "2", "3"]', 2: '["1", "2", "3"]'}.get(
            (len(asked) - 1) % 4, '["YES", "YES", "NO"]'
        )

    with recorded(home) as history:
        probes = probes_of_session(history)
        settings = {"sliding_window": with_context(min_recent=4, window=6_000)}
        found = await compare(history, settings, probes, Comparing(options=FAST, judge=ask))
    judged = found.modes[0].judged
    assert judged is not None
    assert (judged.consistent, judged.judged) == (2, 3)
    assert asked == ["judge"] * 4


def test_an_outdated_statement_alone_misleads_and_beside_its_correction_does_not() -> None:
    probe = ComparisonProbe(
        family="correction",
        question="Which port does the API use?",
        expects=("8790",),
        outdated=("8765",),
        turns=frozenset({2}),
    )
    old = AnswerPiece(where="window", text="The API uses port 8765.", turn=1)
    new = AnswerPiece(where="recall", text="The API uses port 8790 now.", turn=2)
    assert answer(probe, [old], []).misled
    both = answer(probe, [old], [new])
    assert both.known
    assert both.traceable
    assert not both.misled
    assert both.where == "recall"


def test_what_a_tool_printed_does_not_count_as_having_been_said() -> None:
    noise = AnswerPiece(where="window", text="port API use 8790", turn=9, tool=True)
    assert says(noise, ("8790",))
    assert not speaks_of(noise, "Which port does the API use?")


def _write() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = as_markdown(asyncio.run(compared()))
    PAGE.write_text(TABLE.sub(lambda found: found[1] + table + found[3], text), encoding="utf-8")


if __name__ == "__main__":
    _write()
