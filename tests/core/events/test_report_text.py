"""The context report in words."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mindstone_tui.core.context import build_report
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.events.report_text import context_detail, context_list, headline
from tests.core.context.stage import Stage


def test_the_detail_says_what_files_have_and_what_of_them_is_sent(home: Path) -> None:
    stage = Stage(home)
    stage.window.set_instructions(
        [Section(name="identity", text="short", source="IDENTITY.md", raw_size=19_814)]
    )
    stage.chat("hello", "hi")
    detail = context_detail(build_report.report(stage.window))
    assert "19,814 → 5 characters  IDENTITY.md" in detail


def test_the_detail_says_what_takes_the_space_and_names_the_largest_results(home: Path) -> None:
    stage = Stage(home)
    stage.work("look", ["tiny", "huge " * 300], "done")
    report = build_report.report(stage.window)
    detail = context_detail(report)
    results = [block for block in report.blocks if block.role == "tool"]
    largest = max(results, key=lambda block: block.tokens)
    assert f"tool results   {sum(block.tokens for block in results):>8,}  in 2 messages" in detail
    assert f"#{largest.seq:<11} {largest.tokens:>8,}" in detail


def test_every_block_names_the_entry_that_holds_its_words(home: Path) -> None:
    stage = Stage(home, instructions="Be kind.")
    stage.chat("hello", "hi")
    report = build_report.report(stage.window)
    with stage.transcript.history() as history:
        written = {line.id for line in history.read() if isinstance(line, Line)}
    assert {block.entry for block in report.blocks} <= written
    assert all(block.preview for block in report.blocks)


def test_a_window_set_by_hand_is_not_called_measured(home: Path) -> None:
    report = build_report.report(Stage(home).window)
    by_hand = msgspec.structs.replace(
        report, window=msgspec.structs.replace(report.window, tokens=9_000, label="set")
    )
    said = "\n".join(headline(by_hand))
    assert "9,000 (set by hand)" in said
    assert "measured" not in said


def test_one_exchange_is_not_called_many(home: Path) -> None:
    stage = Stage(home, window=4_000)
    while not build_report.report(stage.window).outside.exchanges:
        stage.chat("question " * 60, "answer " * 60)
    assert "1 exchanges" not in context_list(build_report.report(stage.window))
