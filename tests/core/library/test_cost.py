"""What a session cost agrees with every other account of it, and causes are only recorded ones."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core import events
from mindstone_tui.core.config.load import store
from mindstone_tui.core.context.watch import Watch
from mindstone_tui.core.entries import Entry, Usage, conversation, derived, window
from mindstone_tui.core.entries.conversation import AnswerUsage, AssistantMessage
from mindstone_tui.core.library.cost import CostFold, SessionCost, cost_of
from mindstone_tui.core.library.profile import profile_of
from mindstone_tui.core.library.stats import add_up
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers.cache_rules import (
    ANTHROPIC,
    ANTHROPIC_HOUR,
    OPENAI,
    SentPrompt,
    expect,
)
from mindstone_tui.core.providers.catalogue import PriceBook, cost
from mindstone_tui.core.recall.passages import epoch
from mindstone_tui.core.tokens import Calibration
from tests.builders import line_of
from tests.cli.program import mindstone_here
from tests.core.session.stage import on_stage, script
from tests.loopback.server import serving, spoken, streams

SONNET = "claude-sonnet-4-5"
COUNTS = st.one_of(st.none(), st.integers(0, 300_000))
MONEY = st.one_of(st.none(), st.floats(0, 5))


def _answer(usage: Usage, **fields: Any) -> AssistantMessage:
    return AssistantMessage(text="", model=SONNET, reported=AnswerUsage(call=1, usage=usage))


def _fold(*steps: tuple[int, Entry, str]) -> CostFold:
    """Turns, entries, and the minute and second at which each is written."""
    fold = CostFold(PriceBook())
    for seq, (turn, entry, clock) in enumerate(steps, 1):
        line = line_of(entry, seq, turn=turn)
        fold.observe(msgspec.structs.replace(line, ts=f"2026-03-01T10:{clock}Z"))
    return fold


def _kinds(fold: CostFold) -> dict[int, list[str]]:
    return {row.turn: [each.kind for each in row.causes] for row in fold.turns()}


def _read(prompt: int, cached: int) -> AssistantMessage:
    usage = Usage(prompt=prompt, cached=cached, cache_written=prompt - cached, completion=10)
    return _answer(msgspec.structs.replace(usage, cost=0.5))


@given(
    st.lists(
        st.one_of(
            st.builds(
                _answer,
                st.builds(Usage, prompt=COUNTS, completion=COUNTS, cached=COUNTS, cost=MONEY),
            ),
            st.builds(
                conversation.UsageReported,
                call=st.just(1),
                model=st.just(SONNET),
                usage=st.builds(Usage, prompt=COUNTS, completion=COUNTS, cost=MONEY),
                purpose=st.sampled_from(["", "summary", "judge"]),
            ),
            st.builds(
                derived.DelegationEnded,
                child=st.just("c"),
                ending=st.just("done"),
                text=st.just(""),
                tokens=st.integers(0, 9),
                cost=MONEY,
            ),
        ),
        max_size=12,
    )
)
def test_its_sum_is_that_of_the_command_cost(entries: Sequence[Entry]) -> None:
    watch = Watch(Calibration(), lambda first, last: [])
    fold = CostFold(PriceBook())
    for seq, entry in enumerate(entries, 1):
        line = line_of(entry, seq, turn=seq % 4)
        watch.observe(line)
        fold.observe(line)
    rows = fold.turns()
    assert sum(row.usage.cost or 0.0 for row in rows) == pytest.approx(watch.carried.spent)
    assert any(row.unknown for row in rows) == watch.carried.cost_unknown
    delegated = sum(it.cost or 0 for row in rows for it in row.causes if it.kind == "sub agent")
    assert delegated == pytest.approx(watch.carried.delegated)


def test_a_pause_expires_the_cache_and_a_change_breaks_it_and_nothing_else_is_blamed() -> None:
    tools = window.ToolsChanged(tools=(), state=window.WindowState(through=0))
    quiet = _fold((1, _read(50_000, 0), "00:00"), (2, _read(52_000, 50_000), "04:00"))
    assert _kinds(quiet) == {1: [], 2: []}
    paused = _fold((1, _read(50_000, 0), "00:00"), (2, _read(52_000, 9_000), "07:00"))
    assert _kinds(paused)[2] == ["cache expired"]
    (cause,) = paused.turns()[1].causes
    assert cause.why == "cache expired after a pause of 7 min 00 s"
    assert cause.tokens == 41_000
    assert cause.cost == pytest.approx(41_000 * (3.75 - 0.3) / 1e6)
    changed = _fold(
        (1, _read(50_000, 0), "00:00"), (2, tools, "07:00"), (2, _read(52_000, 9_000), "07:01")
    )
    assert [each.why for each in changed.turns()[1].causes] == ["cache broken: the tools changed"]
    earlier = _fold(
        (1, _read(50_000, 0), "00:00"), (1, tools, "01:00"), (2, _read(52_000, 9_000), "02:00")
    )
    (cause,) = earlier.turns()[1].causes
    assert cause.why == "cache broken: the tools changed in turn 1", "who paid is not who caused it"
    unclear = _fold((1, _read(50_000, 0), "00:00"), (2, _read(52_000, 9_000), "01:00"))
    assert _kinds(unclear)[2] == ["cache missed"]


def test_a_result_counts_as_carried_only_while_nothing_left_the_window() -> None:
    result = conversation.ToolReturned(call="c", name="read", text="some words " * 4_000)
    trim = window.ToolResultsTrimmed(
        results=(),
        state=window.WindowState(through=0),
        tokens_before=9,
        tokens_after=1,
        policy="age",
    )
    answers = [(2, _read(50_000 + at, 50_000), "00:00") for at in range(12)]
    (kept,) = _fold((1, result, "00:00"), *answers).turns()[0].causes
    assert kept.kind == "carried"
    assert "(read)" in kept.why
    assert "for 12 requests" in kept.why
    cut = _fold((1, result, "00:00"), *answers[:9], (2, trim, "00:00"), *answers[9:])
    assert not any("carried" in kinds for kinds in _kinds(cut).values())
    short = (2, _read(20_000, 20_000), "00:00")
    lost = _fold((1, result, "00:00"), *answers[:9], short, *answers[9:])
    assert not any("carried" in kinds for kinds in _kinds(lost).values())


@given(
    st.sampled_from([ANTHROPIC, ANTHROPIC_HOUR, OPENAI]),
    *(st.integers(0, 200_000) for _ in range(3)),
    st.floats(0, 9_000),
)
def test_a_cache_reads_no_more_than_it_was_given_and_nothing_that_is_too_old(
    rules: Any, before: int, prompt: int, shared: int, pause: float
) -> None:
    now = SentPrompt(SONNET, prompt, pause, pause)
    read, verdict = expect(rules, SentPrompt(SONNET, before, 0, 0), now, shared)
    assert 0 <= read <= min(prompt, max(before, shared))
    if pause > rules.keeps:
        assert read <= shared
        assert verdict != "goes on"
    assert expect(rules, None, now, shared) == (min(shared, prompt), "first")


def test_what_is_kept_for_an_hour_costs_what_the_list_says_for_that() -> None:
    prices = PriceBook().prices(SONNET)
    usage = Usage(prompt=1_000_000, completion=0, cache_written=150_000)
    hour = msgspec.structs.replace(usage, cache_hour=100_000)
    assert prices.cache_hour == pytest.approx(6e-6)
    more = (cost(hour, prices) or 0) - (cost(usage, prices) or 0)
    assert more == pytest.approx(100_000 * (6 - 3.75) / 1e6)


def foreign_session(path: Path) -> None:
    """Two turns of Claude Code: an answer told in two lines, and one after a long pause."""
    lines: list[dict[str, Any]] = []

    def add(kind: str, clock: str, **message: Any) -> None:
        parent = lines[-1]["uuid"] if lines else None
        lines.append(
            {"type": kind, "uuid": f"u{len(lines)}", "parentUuid": parent, "sessionId": "s1"}
            | {"cwd": "/srv/app", "timestamp": f"2026-03-01T{clock}.000Z", "message": message}
        )

    def answer(clock: str, name: str, written: int, read: int, tokens: int) -> None:
        usage = {
            "input_tokens": 10,
            "output_tokens": tokens,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_1h_input_tokens": written},
        }
        content = [{"type": "text", "text": f"Said {tokens}."}]
        add("assistant", clock, id=name, model=SONNET, content=content, usage=usage)

    add("user", "10:00:00", role="user", content="Look at it.")
    answer("10:00:05", "m1", 40_000, 0, 3)
    answer("10:00:07", "m1", 40_000, 0, 300)
    add("user", "14:30:00", role="user", content="And now?")
    answer("14:30:05", "m2", 41_000, 0, 200)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")


def _imported(file: Path) -> SessionCost:
    assert mindstone_here("import", str(file)).returncode == 0
    (places,) = Places.resolve(os.environ).sessions()
    return cost_of(places, PriceBook())


def test_an_imported_session_has_its_turns_and_agrees_with_the_statistics(
    tmp_path: Path, home: Path
) -> None:
    foreign_session(file := tmp_path / "claude.jsonl")
    found = _imported(file)
    assert [(row.turn, row.requests, row.usage.completion) for row in found.turns] == [
        (1, 1, 300),
        (2, 1, 200),
    ]
    assert [each.kind for each in found.turns[1].causes] == ["cache expired"]
    assert "4 h 29 min" in found.turns[1].causes[0].why
    plain, written, said = 20 * 3e-6, 81_000 * 6e-6, 500 * 15e-6
    assert found.total.usage.cost == pytest.approx(plain + written + said)
    (places,) = Places.resolve(os.environ).sessions()
    profile = profile_of(places)
    assert profile is not None
    total = add_up([("s1", profile)]).total
    assert total.cost is None
    assert total.listed == pytest.approx(found.total.usage.cost)
    assert total.prompt == found.total.usage.prompt
    file.unlink()
    gone = cost_of(places, PriceBook())
    assert gone.days_only
    assert [(row.turn, row.ts) for row in gone.turns] == [(0, "2026-03-01")]
    assert gone.total.usage.cost == pytest.approx(found.total.usage.cost)


def test_what_another_program_took_back_was_paid_for_all_the_same(
    tmp_path: Path, home: Path
) -> None:
    foreign_session(file := tmp_path / "claude.jsonl")
    before = _imported(file)
    again = json.loads(file.read_text("utf-8").splitlines()[3])
    again |= {"uuid": "b", "parentUuid": "u2", "message": {"role": "user", "content": "Or now?"}}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(again) + "\n")
    after = _imported(file)
    assert [(row.turn, row.usage) for row in after.turns] == [
        (row.turn, row.usage) for row in before.turns
    ]
    (places,) = Places.resolve(os.environ).sessions()
    assert (profile := profile_of(places)) is not None
    assert add_up([("s1", profile)]).total.prompt == before.total.usage.prompt


def test_a_session_without_recorded_usage_is_told_in_one_sentence(
    tmp_path: Path, home: Path
) -> None:
    file = tmp_path / "messages.jsonl"
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    file.write_text("".join(json.dumps(each) + "\n" for each in said), "utf-8")
    assert mindstone_here("import", str(file)).returncode == 0
    (places,) = Places.resolve(os.environ).sessions()
    done = mindstone_here("cost", str(places.key))
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.startswith(f"mindstone: Nothing is recorded of what {places.key} took.")
    assert mindstone_here("cost", "-s", str(places.key)).stderr == done.stderr
    assert not cost_of(places, PriceBook()).days_only, "no days are known either"
    assert mindstone_here("cost", "nowhere").returncode != 0


def _grown(path: Path, turns: int) -> None:
    """A session of Claude Code that reads large files, and whose cache keeps its promises."""
    lines: list[dict[str, Any]] = []
    size, last = 20_000, 0
    for turn in range(turns):
        for kind, clock, content in (
            ("user", "00", "Look at it. " + f"word{turn} more of it and " * 600),
            ("assistant", "05", [{"type": "text", "text": f"Seen {turn}, it says enough."}]),
        ):
            row: dict[str, Any] = {"type": kind, "uuid": f"u{len(lines)}", "sessionId": "s2"}
            row |= {"parentUuid": lines[-1]["uuid"] if lines else None, "cwd": "/srv/app"}
            row["timestamp"] = f"2026-03-01T10:{turn:02}:{clock}.000Z"
            message: dict[str, Any] = {"role": kind, "content": content}
            if kind == "user":
                size += len(content) // 5
            else:
                usage = {"input_tokens": 0, "output_tokens": 20, "cache_read_input_tokens": last}
                usage["cache_creation_input_tokens"] = size - last
                message |= {"id": f"m{turn}", "model": SONNET, "usage": usage}
                last = size
            lines.append({**row, "message": message})
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")


@pytest.mark.thorough
def test_a_window_that_leaves_nothing_out_encloses_what_was_paid_and_a_small_one_sends_less(
    tmp_path: Path, home: Path
) -> None:
    _grown(file := tmp_path / "claude.jsonl", 14)
    total = _imported(file).total
    (places,) = Places.resolve(os.environ).sessions()
    done = mindstone_here("cost", str(places.key), "--what-if", "window=24000", "--json")
    told = json.loads(done.stdout)
    assert told["changed"] == {"context.window": "24000"}
    assert told["recorded"] == pytest.approx(total.usage.cost)
    assert told["prompt"] == total.usage.prompt
    whole, small = told["outcomes"]
    assert whole["prompt"] == pytest.approx(told["prompt"], rel=0.02)
    assert whole["low"] < told["recorded"] < whole["high"]
    assert whole["high"] < 1.2 * whole["low"]
    assert small["prompt"] < 0.9 * whole["prompt"]
    assert small["low"] < small["high"]
    shown = mindstone_here("cost", str(places.key), "--what-if", "mode=auto_compact,window=24000")
    assert [row.split()[:2] for row in shown.stdout.splitlines()[2:]] == [
        ["recorded", "546k"],
        ["as", "set"],
        ["what", "if"],
    ]
    assert "Assumed: the same requests at the same times" in shown.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--what-if", "ceiling=80", "--since", "2026-01-01"], "--what-if takes a whole session"),
        (["--what-if", "colour=red"], "`colour` does not affect the window."),
        (["--what-if", "mode"], "'mode' sets nothing."),
        (["--what-if", "window=24000"], "would have cost cannot be told: no request is recorded."),
    ],
)
def test_what_would_have_been_is_refused_in_one_sentence(
    tmp_path: Path, home: Path, words: list[str], said: str
) -> None:
    file = tmp_path / "messages.jsonl"
    spoken = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    file.write_text("".join(json.dumps(each) + "\n" for each in spoken), "utf-8")
    assert mindstone_here("import", str(file)).returncode == 0
    (places,) = Places.resolve(os.environ).sessions()
    done = mindstone_here("cost", str(places.key), *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_pause_is_priced_by_what_the_provider_would_forget(home: Path) -> None:
    """What was sent stands in its cache for an hour: half of the price is lost with it."""
    usage = {"prompt_tokens": 30_000, "completion_tokens": 5, "total_tokens": 30_005}
    async with serving() as server:
        store(Places.resolve(os.environ), "models.base_url", server.base_url)
        async with on_stage(home, model="openai/gpt-4.1", context_window=200_000) as stage:
            for cached in (0, 20_000):
                told = {**usage, "prompt_tokens_details": {"cached_tokens": cached}}
                server.play(streams(spoken("Read it."), usage=told))
                ended = await stage.say("one word after another " * 5_000)
                assert ended.ending == "done"
                last = stage.session.services.context.report()
                assert (last.pause is None) == (cached == 0)
            assert last.pause is not None
            kept = min(30_000, last.stable_prefix_tokens)
            assert last.pause.cost == pytest.approx(kept * (2.0 - 0.5) / 1e6)
            answers = [line for line in stage.lines() if isinstance(line.entry, AssistantMessage)]
            assert 3_500 < last.pause.ends - epoch(answers[-1].ts) <= 3_600


async def test_requests_that_were_stopped_or_broke_off_are_told_and_refused_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "home"))
    paid = {"text": "Fine.", "usage": {"prompt": 800, "completion": 4, "cost": 0.01}}
    said = "This is the answer, as far as it came."
    slow = {"text": said * 500, "delay_ms": 60_000}
    model = script(tmp_path, paid, {"error": "auth"}, {"text": said, "error": "cut"}, slow)
    async with on_stage(tmp_path / "home", model=model, cwd=tmp_path) as stage:
        for _ in range(3):
            await stage.say("Go.")
        told = cost_of(stage.places, PriceBook())
        assert (told.cut_off, told.total.requests) == (1, 1)
        here = len(stage.heard)
        stage.session.send("Go.")
        await stage.until(events.TextDelta, after=here)
        stage.session.interrupt()
        await stage.until(events.TurnEnded, after=here)
    assert cost_of(stage.places, PriceBook()).cut_off == 2
    shown = mindstone_here("cost", cwd=tmp_path)
    assert "2 requests were cut off; what that cost is unknown" in shown.stderr
    assert "2 requests cut off at unknown cost" in mindstone_here("stats", cwd=tmp_path).stdout
