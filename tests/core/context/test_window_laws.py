"""The laws of the window, on generated sessions.

Small by default; thousands of sessions with MINDSTONE_FAULTS=1.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import ContextSettings
from mindstone_tui.core.context import budget, build_report
from mindstone_tui.core.context.fold import merged, single, within, without
from mindstone_tui.core.context.messages import first_unpaired, head, said, shorten, tail
from mindstone_tui.core.context.plan import Prepared, make_room, rebuild
from mindstone_tui.core.context.window_view import open_fold
from mindstone_tui.core.entries import ZONES, Line, Span
from mindstone_tui.core.entries.conversation import MessageCut
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    PromptPlanned,
    Restored,
    Rewound,
)
from mindstone_tui.core.transcript import verify
from tests.core.context.generated import ACTS, SETTINGS, SLASH, Act, Player, generated
from tests.core.context.stage import MODEL, Stage, finish


class Watcher:
    """Looks at every request and holds the laws against it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.before: Prepared | None = None

    def __call__(self, prepared: Prepared) -> None:
        self.adds_up(prepared)
        self.fits_or_says_why(prepared)
        self.has_what_is_protected(prepared)
        self.extends_the_one_before(prepared)
        self.is_the_same_for_another_process(prepared)
        assert first_unpaired(prepared.request.messages) is None
        assert SLASH not in str(prepared.request.messages)
        again = finish(make_room(self.stage.window, tail=_plan(prepared).tail))
        assert [line.entry for line in again] == []
        self.before = prepared

    def adds_up(self, prepared: Prepared) -> None:
        report = build_report.report(self.stage.window, tail=_plan(prepared).tail)
        assert report.prompt.tokens == prepared.tokens
        assert sum(part.tokens for part in report.components) == prepared.tokens
        assert sum(block.tokens for block in report.blocks) == prepared.tokens
        measure = _plan(prepared).measure
        assert measure is not None
        assert sum(measure.used) == measure.tokens
        assert prepared.request.hash == report.prompt_hash

    def fits_or_says_why(self, prepared: Prepared) -> None:
        report = build_report.report(self.stage.window, tail=_plan(prepared).tail)
        assert prepared.tokens <= report.usable
        if prepared.tokens > report.marks.ceiling and not self._index_is_broken():
            may_leave = [block for block in report.blocks if not block.protected]
            assert not may_leave, "over the ceiling although something may leave"
            assert any("cannot leave" in warning for warning in report.warnings)

    def _index_is_broken(self) -> bool:
        return self.stage.index.failing or bool(self.stage.index.refused)

    def has_what_is_protected(self, prepared: Prepared) -> None:
        fold = self.stage.window.fold
        sent = str(prepared.request.messages)
        turns = {*fold.state.pins, prepared.plan.turn}
        for line in self.stage.history.read():
            assert isinstance(line, Line)
            if line.turn in turns and line.kind == "user_message" and line.seq < prepared.plan.seq:
                assert line.seq in fold.lines
        for seq in fold.lines:
            if seq not in fold.state.cut and seq not in fold.state.trimmed:
                text = str(getattr(fold.lines[seq].entry, "text", ""))
                assert text in sent

    def extends_the_one_before(self, prepared: Prepared) -> None:
        before = self.before
        if before is None or _plan(before).at != _plan(prepared).at:
            return
        if any(isinstance(line.entry, MessageCut) for line in prepared.lines):
            return
        old = [_settled(message) for message in _without_tail(before)]
        new = [_settled(message) for message in _without_tail(prepared)]
        assert new[: len(old)] == old

    def is_the_same_for_another_process(self, prepared: Prepared) -> None:
        fresh = open_fold(self.stage.history)
        fold = self.stage.window.fold
        assert fresh.state == fold.state
        assert fresh.lines == fold.lines
        tail_ = _plan(prepared).tail
        assert fresh.request(MODEL, tail=tail_).hash == prepared.request.hash


def _plan(prepared: Prepared) -> PromptPlanned:
    assert isinstance(prepared.plan.entry, PromptPlanned)
    return prepared.plan.entry


def _without_tail(prepared: Prepared) -> tuple[dict[str, object], ...]:
    messages = prepared.request.messages
    return messages[:-1] if _plan(prepared).tail else messages


def _settled(message: dict[str, object]) -> dict[str, object]:
    """A message without its reasoning, which passes with its turn like the tail does."""
    return {key: value for key, value in message.items() if key != "thinking_blocks"}


def check_history(stage: Stage) -> None:
    """What left had a receipt, left whole, and comes back only when somebody says so."""
    history = stage.history
    outside: set[int] = set()
    for line in history.read():
        assert isinstance(line, Line)
        match line.entry:
            case ContextWindowPruned() as prune:
                turns = {left.turn for left in prune.left}
                assert all(left.receipt is not None for left in prune.left)
                assert not turns & set(prune.state.pins)
                whole = {left.turn for left in prune.left if left.span.first < left.span.last}
                assert not whole & outside
                _left_whole(stage, prune, turns)
                outside |= turns
            case Restored(turns=turns_back):
                outside -= set(turns_back)
            case Rewound(to_turn=to_turn):
                outside |= set(range(to_turn + 1, line.turn + 1))
    for prepared in stage.prepared:
        assert rebuild(history, prepared.plan).hash == _plan(prepared).prompt_hash
    assert verify(stage.transcript.places).ok


def _left_whole(stage: Stage, prune: ContextWindowPruned, turns: set[int]) -> None:
    for turn in turns:
        for line in stage.history.turn(turn):
            if said(line) is not None and line.seq <= prune.state.through:
                kept = any(line.seq in span for span in prune.state.spans)
                assert not kept or line.seq == prune.state.task


NOT_ALL_MAY_LEAVE = [
    *(Act("crash", 51, 2), Act("parallel", 116, 4), Act("break_index", 64, 10)),
    Act("meanwhile", 119, 1),
    *(Act("policy", 72, 7), Act("parallel", 22, 5), Act("model", 23, 0), Act("parallel", 22, 5)),
    *(Act("parallel", 95, 0), Act("meanwhile", 119, 1), Act("task", 111, 3), Act("task", 29, 0)),
    *(Act("pin", 75, 6), Act("tools", 124, 3)),
]
"""Something cannot be indexed: the window stays above its ceiling after a prune."""


@generated
@given(acts=ACTS, chosen=SETTINGS, window=st.sampled_from([2_000, 4_000, 8_000]))
@example(
    acts=NOT_ALL_MAY_LEAVE,
    chosen=Settings(context=ContextSettings(policy="hybrid")),
    window=4_000,
)
def test_the_laws_hold_in_every_session(acts: list[Act], chosen: Settings, window: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), window=window, settings=chosen)
        player = Player(stage, Watcher(stage))
        player.play(acts)
        check_history(stage)
        assert all(refused.what and refused.remedy for refused in player.refused)
        stage.close()


@pytest.mark.thorough
@generated
@given(
    sizes=st.lists(st.integers(20, 400), min_size=20, max_size=60),
    window=st.sampled_from([4_000, 8_000]),
)
def test_a_prune_frees_what_it_must_and_not_one_exchange_more(
    sizes: list[int], window: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), window=window)
        for number, size in enumerate(sizes):
            prepared = stage.chat(words_of(size, number), words_of(size, number))
            for line in prepared.lines:
                if isinstance(line.entry, ContextWindowPruned):
                    prune, usable = line.entry, window - window // 4
                    newest = max(prune.left, key=lambda left: left.turn)
                    usual = sum(4 + 2 * size for size in sizes[: number + 1]) / (number + 1)
                    floor = max(usable * 0.5, min(usable * 0.7, usable * 0.92 - 13 * usual))
                    assert prune.tokens_before > usable * 0.92 - 1
                    assert prune.tokens_after + newest.tokens + 100 > floor
                    measured = _plan(prepared).measure
                    assert measured is not None
                    assert abs(measured.tokens - prune.tokens_after) <= 20
        stage.close()


def words_of(size: int, number: int) -> str:
    return f"{number:04}" * size


seqs = st.sets(st.integers(0, 60))


@generated
@given(one=seqs, other=seqs)
def test_runs_of_numbers_behave_like_sets(one: set[int], other: set[int]) -> None:
    def numbers(spans: tuple[Span, ...]) -> set[int]:
        return {seq for span in spans for seq in range(span.first, span.last + 1)}

    first, second = single(one), single(other)
    assert numbers(first) == one
    assert numbers(merged((*first, *second))) == one | other
    assert numbers(without(first, second)) == one - other
    assert numbers(within(first, second)) == one & other
    assert len(merged((*first, *second))) <= len(first) + len(second)


texts = st.text(
    alphabet=st.sampled_from("ab é漢字🪨👩‍👩‍👧‍👦🇩🇪🧗🏽‍♀️\u0301\u200d\n\r"), min_size=0, max_size=200
)


@generated
@given(text=texts, length=st.integers(0, 210))
def test_no_truncation_splits_a_character(text: str, length: int) -> None:
    start, end = head(text, length), tail(text, length)
    assert text.startswith(start)
    assert text.endswith(end)
    assert len(start) <= length
    assert len(end) <= length
    rest = text[len(start) :]
    if start and rest:
        assert rest[0] not in "\u0301\u200d"
        assert start[-1] != "\u200d"
    (start + end).encode()


@generated
@given(text=texts, tokens=st.integers(20, 80))
def test_a_shortened_text_keeps_its_promise(text: str, tokens: int) -> None:
    short = shorten(text, tokens, len, lambda missing: f"[{missing} left out]")
    assert short == text or len(short) <= max(tokens, 20)


@generated
@given(
    percent=st.lists(st.floats(0, 1.2), min_size=1, max_size=60),
    window=st.sampled_from([8_000, 128_000, 400_000]),
)
def test_zones_follow_fullness_and_do_not_flicker(percent: list[float], window: int) -> None:
    zones = Settings().zones
    edges = budget.edges(zones, window)
    zone = ZONES[0]
    for utilization in percent:
        before, zone = zone, budget.zone_after(zone, utilization, window, zones)
        plain = sum(utilization * 100 >= edge for edge in edges)
        level = ZONES.index(zone)
        assert level >= plain
        if level > plain:
            assert level <= ZONES.index(before)
            assert utilization * 100 >= edges[level - 1] - zones.hysteresis
