"""Six metrics, alerts that last, trends: against values worked out by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.config.settings import HealthSettings, Settings
from mindstone_tui.core.context.report import (
    ContextReport,
    Marks,
    OutsideWindow,
    PromptNumbers,
    Tokens,
)
from mindstone_tui.core.doctor import CheckEnvironment
from mindstone_tui.core.doctor.home import continuity
from mindstone_tui.core.entries import Line, Span, Usage
from mindstone_tui.core.entries.conversation import ToolCalled, UsageReported
from mindstone_tui.core.entries.derived import SummaryDerived
from mindstone_tui.core.entries.window import (
    AlertRaised,
    Component,
    ContextWindowPruned,
    Left,
    Measure,
    PromptPlanned,
    ToolResultsTrimmed,
    Trimmed,
    WindowState,
)
from mindstone_tui.core.health.metrics import (
    Snapshot,
    TurnSample,
    cut_by_provider,
    looping_in,
    measure,
    otlp,
    prometheus,
    sample_of,
    saying_the_same,
    table,
)
from mindstone_tui.core.health.monitor import (
    Monitor,
    active,
    direction,
    health_data,
    health_text,
    trend,
)
from mindstone_tui.core.paths import Places, SessionKey
from tests.builders import line_of, places_in, transcript_in

USABLE = 10_000
SIX = ("fullness", "left in this turn", "shortened by", "growth", "fidelity", "tool results")


def sample(turn: int) -> TurnSample:
    """Turn `turn` of a long session: it grows by 100 tokens a turn and prunes every 50th.

    After k turns since the last prune the prompt has 4,000 + 100·k tokens. A prune lets 30
    exchanges leave. Every 10th turn a tool result of 900 tokens becomes 150. Probes run every
    25th turn: 0.9, in the second half of the session 0.8. Tool results fill a tenth of the prompt.
    """
    since = turn % 50
    prompt = 4_000 + 100 * since
    return TurnSample(
        turn=turn,
        prompt_tokens=prompt,
        usable=USABLE,
        added_tokens=5_000 if turn == 120 else 100,
        evicted=30 if turn % 50 == 0 else 0,
        shortened_before=900 if turn % 10 == 0 else 0,
        shortened_after=150 if turn % 10 == 0 else 0,
        tool_tokens=prompt // 10,
        protected_tokens=500,
        fidelity=(0.9 if turn <= 150 else 0.8) if turn % 25 == 0 else None,
        index_lag=turn % 2,
    )


def test_six_metrics_over_three_hundred_turns_match_the_values_by_hand() -> None:
    monitor = Monitor(HealthSettings())
    measured = [monitor.record(sample(turn)).snapshot.measured for turn in range(1, 301)]

    assert [round(one.utilization, 6) for one in measured] == [
        round(0.40 + 0.01 * (turn % 50), 6) for turn in range(1, 301)
    ]
    assert [one.eviction_rate for one in measured].count(30.0) == 6
    assert sum(one.eviction_rate for one in measured) == 180.0
    ratios = [one.compression_ratio for one in measured]
    assert ratios.count(6.0) == 30
    assert ratios.count(None) == 270
    assert sum(one.burn_rate for one in measured) == 299 * 100 + 5_000
    assert measured[119].burn_rate == 5_000
    fidelities = [one.fidelity for one in measured if one.fidelity is not None]
    assert fidelities == [0.9] * 6 + [0.8] * 6
    assert {round(one.tool_bloat, 9) for one in measured} == {0.1}
    assert {one.protected for one in measured} == {0.05}

    one = measured[48]  # turn 49: 4,000 + 4,900 of 10,000
    assert (one.utilization, one.eviction_rate, one.compression_ratio) == (0.89, 0.0, None)
    one = measured[49]  # turn 50: pruned
    assert (one.utilization, one.eviction_rate, one.compression_ratio) == (0.40, 30.0, 6.0)
    assert len(monitor.history) == 300


def test_a_healthy_sliding_window_raises_nothing_and_a_spike_is_said_once() -> None:
    monitor = Monitor(HealthSettings())
    raised = [
        (turn, alert.metric, alert.level)
        for turn in range(1, 301)
        for alert in monitor.record(sample(turn)).raised
    ]
    assert raised == [(120, "burn_rate", "warning")]


def series(*samples: TurnSample) -> list[Snapshot]:
    return [measure(one) for one in samples]


def level(values: list[float], **settings: float) -> str:
    made = series(
        *(
            TurnSample(turn=n, prompt_tokens=int(value * 1_000), usable=1_000, added_tokens=10)
            for n, value in enumerate(values)
        )
    )
    found = [a for a in active(made, HealthSettings(**settings)) if a.metric == "utilization"]  # type: ignore[arg-type]
    return found[0].level if found else ""


def test_a_full_window_is_an_alert_only_when_it_lasts() -> None:
    assert level([0.95, 0.95]) == ""
    assert level([0.95, 0.89, 0.95]) == ""
    assert level([0.95, 0.91, 0.95]) == "critical"
    assert level([0.90, 0.90, 0.90]) == ""
    assert level([0.95], sustained_turns=1) == "critical"


def test_a_window_that_is_kept_under_its_ceiling_is_no_alert() -> None:
    def of(share: int) -> dict[str, str]:
        return metric_alerts([turn(n, prompt_tokens=share, ceiling=0.92) for n in range(5)])

    assert of(915) == {}, "the pruner lets it come so far"
    assert of(980) == {"utilization": "critical"}


def test_the_advice_for_a_full_window_names_what_really_holds_it() -> None:
    held = "the newest messages: a lower `context.min_recent` lets them leave"
    full = [turn(n, prompt_tokens=980, ceiling=0.92, protected_by=held) for n in range(5)]
    (alert,) = active(series(*full), HealthSettings())
    assert f"Most of what may not leave is {held}." in f"{alert.message} {alert.remedy}"
    assert "/unpin" not in alert.remedy


def metric_alerts(samples: list[TurnSample]) -> dict[str, str]:
    return {one.metric: one.level for one in active(series(*samples), HealthSettings())}


def turn(number: int, **changes: object) -> TurnSample:
    plain = TurnSample(turn=number, prompt_tokens=500, usable=1_000, added_tokens=100)
    return msgspec.structs.replace(plain, **changes)


def test_each_metric_has_its_alert() -> None:
    three = range(3)
    assert metric_alerts([turn(n, evicted=6) for n in three]) == {"eviction_rate": "warning"}
    assert metric_alerts([turn(n, evicted=5) for n in three]) == {}
    for after in (60, 100, 130):  # 1.7×, none, and an expansion
        shortened = [turn(n, shortened_before=100, shortened_after=after) for n in three]
        assert metric_alerts(shortened) == {"compression_ratio": "warning"}
    full = {"prompt_tokens": 880, "tool_tokens": 300}
    assert metric_alerts([turn(n, **full) for n in three]) == {"tool_bloat": "warning"}
    below = [turn(n, **full, ceiling=0.99) for n in three]
    assert metric_alerts(below) == {"tool_bloat": "warning"}, "it does not wait for the ceiling"
    half = {"prompt_tokens": 500, "tool_tokens": 151}
    assert metric_alerts([turn(n, **half) for n in three]) == {"tool_bloat": "warning"}
    roomy = {"prompt_tokens": 490, "tool_tokens": 300}
    assert metric_alerts([turn(n, **roomy) for n in three]) == {}, "there is room"
    assert metric_alerts([turn(n, fidelity=0.7) for n in three]) == {"fidelity": "warning"}
    assert metric_alerts([turn(0, fidelity=0.7), turn(1, fidelity=0.8)]) == {}
    assert metric_alerts([turn(0, protected_tokens=700)]) == {"protected": "warning"}
    assert metric_alerts([turn(0, protected_tokens=950)]) == {"protected": "critical"}
    assert metric_alerts([turn(n, index_lag=n + 1) for n in three]) == {"index_lag": "warning"}
    assert metric_alerts([turn(n, index_lag=2) for n in three]) == {}, "it keeps up"
    assert metric_alerts([turn(0, recall_failed=True)]) == {"recall": "warning"}
    assert metric_alerts([turn(0, vectors=False)]) == {"recall": "info"}
    assert metric_alerts([turn(0, looping="shell ls")]) == {"loop": "warning"}
    assert metric_alerts([turn(0, cut=(9_000, 4_096))]) == {"cut": "critical"}
    assert metric_alerts([turn(0, disk_free=500 << 20)]) == {"disk": "warning"}
    assert metric_alerts([turn(0, disk_free=1 << 20)]) == {"disk": "critical"}
    assert metric_alerts([turn(0, disk_free=1 << 40)]) == {}
    assert metric_alerts([]) == {}


def test_compressions_count_by_the_times_they_happened_not_by_turns() -> None:
    poor = {"shortened_before": 100, "shortened_after": 90}
    samples = [turn(n, **(poor if n % 5 == 0 else {})) for n in range(11)]
    assert metric_alerts(samples) == {"compression_ratio": "warning"}


def test_growth_counts_when_it_takes_much_of_the_room() -> None:
    calm = [turn(n) for n in range(10)]
    wild = [turn(10 + n, added_tokens=5_000) for n in range(3)]
    assert metric_alerts(calm + wild[:1]) == {"burn_rate": "warning"}
    assert metric_alerts([*calm, turn(10, added_tokens=299)]) == {}
    assert metric_alerts([*calm, turn(10, added_tokens=3_999)]) == {}
    assert metric_alerts([turn(n, added_tokens=5_000) for n in range(3)]) == {}


def test_an_alert_is_said_once_again_when_worse_and_taken_back() -> None:
    monitor = Monitor(HealthSettings())
    levels = [0.5, 0.75, 0.75, 0.95, 0.95, 0.5]
    said = []
    for number, share in enumerate(levels):
        checked = monitor.record(turn(number, protected_tokens=int(share * 1_000)))
        said.append(
            [alert.level for alert in checked.raised] + [alert.metric for alert in checked.over]
        )
    assert said == [[], ["warning"], [], ["critical"], [], ["protected"]]
    assert all(alert.remedy for alert in active(series(turn(0, disk_free=1)), HealthSettings()))


def test_a_monitor_goes_on_from_what_history_remembers(home: Path) -> None:
    transcript = transcript_in(home)
    first = Monitor(HealthSettings())
    for number in (1, 2):
        entry = first.record(turn(number, prompt_tokens=950)).snapshot.measured
        transcript.append(entry, turn=number)
    with transcript.history() as history:
        lines = [line for line in history.read() if isinstance(line, Line)]
    transcript.close()
    second = Monitor(HealthSettings(), lines)
    assert [one.measured for one in second.history] == [one.measured for one in first.history]
    raised = second.record(turn(3, prompt_tokens=950)).raised
    assert [(one.metric, one.level) for one in raised] == [("utilization", "critical")]
    second.reset()
    assert second.history == ()
    assert second.alerts == ()


def test_what_was_said_of_the_newest_turn_stands_and_is_not_said_again(home: Path) -> None:
    transcript = transcript_in(home)
    checked = Monitor(HealthSettings()).record(turn(1, repeating=True))
    assert [one.metric for one in checked.raised] == ["repeating"]
    for entry in (*checked.raised, checked.snapshot.measured):
        transcript.append(entry, turn=1)
    with transcript.history() as history:
        lines = [line for line in history.read() if isinstance(line, Line)]
    transcript.close()
    after = Monitor(HealthSettings(), lines)
    assert [one.metric for one in after.alerts] == ["repeating"]
    assert "No alerts." not in health_text(after)
    assert after.record(turn(2, repeating=True)).raised == ()


def test_growth_in_a_room_that_nobody_knows_any_more_is_no_alert(home: Path) -> None:
    transcript, live = transcript_in(home), Monitor(HealthSettings())
    for number in range(1, 7):
        added = 5_000 if number == 6 else 100
        checked = live.record(turn(number, usable=200_000, added_tokens=added))
        transcript.append(checked.snapshot.measured, turn=number)
    with transcript.history() as history:
        lines = [line for line in history.read() if isinstance(line, Line)]
    transcript.close()
    assert live.alerts == Monitor(HealthSettings(), lines).alerts == ()


def test_an_alert_that_still_holds_is_shown_in_later_turns_by_whoever_reads_them(
    home: Path,
) -> None:
    def reopened() -> Monitor:
        with transcript.history() as history:
            lines = [line for line in history.read() if isinstance(line, Line)]
        return Monitor(HealthSettings(), lines)

    transcript = transcript_in(home)
    for number in range(1, 7):
        checked = reopened().record(turn(number, repeating=2 < number < 6))
        assert [one.metric for one in checked.raised] == ["repeating"] * (number == 3)
        assert checked.cleared == ("repeating",) * (number == 6)
        for entry in (checked.snapshot.measured, *checked.raised):
            transcript.append(entry, turn=number)
        text = health_text(reopened())
        assert ("No alerts." in text) == (number in (1, 2, 6))
        assert ("(said in turn 3)" in text) == (number in (4, 5))
    transcript.close()


def test_a_trend_needs_five_turns_and_looks_at_ten() -> None:
    monitor = Monitor(HealthSettings())
    for number in range(4):
        monitor.record(turn(number))
    assert monitor.trend() is None
    for number in range(4, 20):
        monitor.record(
            turn(number, prompt_tokens=500 + 10 * number, fidelity=0.8 if number == 19 else None)
        )
    found = monitor.trend()
    assert found is not None
    assert found.turns == 10
    assert found.utilization_delta == pytest.approx(0.09)
    assert (found.utilization, found.burn_rate, found.burn_rate_delta) == ("rising", "stable", 0.0)
    assert found.average_fidelity == 0.8
    assert "fullness is rising (+9.0%)" in found.sentence()
    assert direction([5, 4, 3, 2, 1]) == "falling"
    assert direction([2, 9, 9, 1, 1, 3]) == "stable", "no `falling (+1)`"
    assert trend([]) is None


def test_health_is_shown_with_its_ranges() -> None:
    rows = {name: (value, word) for name, value, word in table([measure(turn(1, tool_tokens=200))])}
    assert rows["fullness"] == ("50.0%", "healthy")
    assert rows["tool results"] == ("40.0%", "usual is at most 15%")
    assert rows["fidelity"] == ("unmeasured", "")
    assert tuple(rows) == SIX


def test_what_was_measured_in_an_earlier_turn_is_shown_with_that_turn() -> None:
    monitor = Monitor(HealthSettings())
    for number in range(1, 30):
        monitor.record(turn(number, fidelity=1.0 if number == 8 else None))
        text = health_text(monitor)
        assert ("fidelity           unmeasured" in text) == (number < 8)
        assert ("fidelity is" in text) == (8 <= number < 18), "the trend has the newest ten turns"
    assert "fidelity           100.0%           healthy, in turn 8" in text


def test_an_agent_that_repeats_itself_over_turns_is_noticed() -> None:
    long = "I will look at the file again to see what is wrong with it. " * 4
    assert saying_the_same(["first", long, long + "!", long])
    assert not saying_the_same([long, long])
    assert not saying_the_same([long, "Something else entirely is said here. " * 6, long])
    assert not saying_the_same(["ok", "ok", "ok"])


def test_prometheus_text_has_every_measured_metric_and_no_other() -> None:
    text = prometheus([('agent:default:"x"\n', measure(turn(1, tool_tokens=200)))])
    assert "# TYPE mindstone_context_utilization_ratio gauge\n" in text
    assert r'mindstone_context_utilization_ratio{session="agent:default:\"x\"\n"} 0.5' in text
    assert "mindstone_burn_tokens_per_turn{" in text
    assert "fidelity" not in text
    assert text.endswith("\n")
    for line in text.splitlines():
        assert line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0
    assert prometheus([]) == ""


def test_active_alerts_are_exported_with_their_level() -> None:
    alert = AlertRaised(level="critical", metric="utilization", message="full", value=0.95)
    text = prometheus([("s", measure(turn(1)))], [("s", alert)])
    sample = 'mindstone_alert_active{session="s",metric="utilization",level="critical"} 1'
    assert text.splitlines()[-1] == sample
    assert "# TYPE mindstone_alert_active gauge" in text


def test_otlp_json_has_the_shape_that_collectors_read() -> None:
    snapshots = [measure(turn(1)), measure(turn(2, fidelity=0.9), "1970-01-01T00:00:02+00:00")]
    body = otlp("agent:default:main", snapshots, version="1.0")
    text = json.dumps(body)
    scope = json.loads(text)["resourceMetrics"][0]["scopeMetrics"][0]
    by_name = {metric["name"]: metric["gauge"]["dataPoints"] for metric in scope["metrics"]}
    assert by_name["mindstone_context_utilization_ratio"] == [
        {"timeUnixNano": "0", "asDouble": 0.5},
        {"timeUnixNano": "2000000000", "asDouble": 0.5},
    ]
    assert by_name["mindstone_recall_fidelity_ratio"] == [
        {"timeUnixNano": "2000000000", "asDouble": 0.9}
    ]
    assert "mindstone_compression_ratio" not in by_name


@given(
    st.builds(
        TurnSample,
        turn=st.integers(0, 10**6),
        prompt_tokens=st.integers(0, 10**7),
        usable=st.integers(0, 10**7),
        added_tokens=st.integers(0, 10**7),
        evicted=st.integers(0, 10**4),
        shortened_before=st.integers(0, 10**6),
        shortened_after=st.integers(0, 10**6),
        tool_tokens=st.integers(0, 10**7),
        fidelity=st.none() | st.floats(0, 1),
    )
)
def test_any_turn_can_be_measured_and_exported(made: TurnSample) -> None:
    snapshot = measure(made)
    assert prometheus([("s", snapshot)])
    assert table([snapshot])
    assert (snapshot.measured.compression_ratio is None) == (made.shortened_before == 0)


def test_doctor_checks_what_continuity_rests_on(home: Path) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    around = CheckEnvironment(places, {}, Settings(), SessionKey("default", "main"))
    assert [check.outcome for check in continuity(around)] == ["pass"]
    agent, session = places.agent("default"), places_in(home)
    agent.memory.mkdir(parents=True)
    (agent.memory / "fact_bad.md").write_text("no front matter")
    transcript = transcript_in(home)
    monitor = Monitor(HealthSettings())
    for number in range(3):
        measured = monitor.record(turn(number, prompt_tokens=950)).snapshot.measured
        transcript.append(measured, turn=number)
    transcript.close()
    session.checkpoint.write_text("{")
    found = {check.id: check for check in continuity(around)}
    assert found["memory.file"].outcome == "warn"
    assert "torn" in found["checkpoint"].detail
    assert found["health.utilization"].outcome == "fail"
    assert all(check.remedy for check in found.values() if check.outcome != "pass")


def test_health_prints_every_metric_the_alerts_and_the_trend() -> None:
    monitor = Monitor(HealthSettings())
    assert "Nothing has been measured" in health_text(monitor)
    for number in range(6):
        monitor.record(turn(number, prompt_tokens=950, protected_tokens=350))
    text = health_text(monitor)
    for name in SIX:
        assert name in text
    assert "critical: The window has been over 90% for 3 turns; 35% of it may not leave." in text
    assert health_text(monitor, 0.17, 9_000).startswith(
        "At the end of turn 5; now 17.0% of 9,000 usable tokens are full\n"
    )
    assert "fullness is stable" in text
    data = json.loads(json.dumps(health_data(monitor)))
    assert len(data["turns"]) == 6
    assert data["alerts"][0]["metric"] == "utilization"
    assert data["trend"]["turns"] == 6


def test_a_turns_numbers_come_from_the_report_and_its_lines(home: Path) -> None:
    transcript = transcript_in(home)
    state = WindowState(through=0)
    left = Left(turn=1, span=Span(1, 2), tokens=10, score=0, reason="oldest")
    trimmed = Trimmed(result=1, placeholder="x", tokens_before=900, tokens_after=100)
    entries = (
        ContextWindowPruned(
            left=(left, left),
            state=state,
            tokens_before=1,
            tokens_after=1,
            policy="fifo",
            trigger="x",
        ),
        ToolResultsTrimmed(
            results=(trimmed,), state=state, tokens_before=1, tokens_after=1, policy="fifo"
        ),
        _summary("conversation_compaction", 1_000, 100),
        _summary("tool_result_summary", 900, 100),
    )
    lines = [transcript.append(entry, turn=1) for entry in entries]
    transcript.close()
    made = sample_of(_report(), lines)
    assert (made.evicted, made.shortened_before, made.shortened_after) == (2, 1_900, 200)
    assert (made.prompt_tokens, made.usable, made.tool_tokens) == (500, 1_000, 70)
    assert (made.added_tokens, made.protected_tokens, made.growth) == (40, 300, 40.0)


def _summary(strategy: str, before: int, after: int) -> SummaryDerived:
    return SummaryDerived(
        strategy=strategy,
        sources=(),
        text="x",
        tokens_before=before,
        tokens_after=after,
        model="m",
    )


def _report() -> ContextReport:
    marks = dict.fromkeys(Marks.__struct_fields__, 0)
    return ContextReport(
        session="s",
        model="m",
        window=Tokens(tokens=1_300, label="measured"),
        reserve=300,
        usable=1_000,
        prompt=PromptNumbers(tokens=500, label="estimated"),
        utilization=0.5,
        raw_utilization=0.4,
        zone="green",
        velocity=40.0,
        velocity_class="low",
        turns_until_red=None,
        marks=Marks(**marks),
        components=(Component(name="tool_results", tokens=70, limit=100, soft=80, hard=100),),
        blocks=(),
        outside=OutsideWindow(exchanges=0, tokens=0, indexed=True),
        prompt_hash="",
        stable_prefix_tokens=0,
        turn=7,
        protected_tokens=300,
        velocities=(10, 40),
    )


def ordinary(number: int, dice: random.Random) -> TurnSample:
    """A working day: short questions, long answers, tool results, a prune now and then."""
    added = round(dice.lognormvariate(6.2, 0.9))
    since = number % 23
    return TurnSample(
        turn=number,
        prompt_tokens=min(6_000 + 1_000 * since, 29_000),
        usable=32_000,
        added_tokens=added,
        growth=900.0,
        ceiling=0.92,
        evicted=dice.choice((4, 7, 9)) if since == 0 else 0,
        shortened_before=dice.choice((0, 0, 900)),
        shortened_after=dice.choice((150, 300)),
        tool_tokens=dice.randrange(2_000, 9_000),
        protected_tokens=2_500,
        fidelity=dice.choice((0.8, 0.9, 1.0, 0.7)) if since == 0 else None,
        index_lag=dice.choice((0, 0, 1, 2)),
    )


@pytest.mark.parametrize("seed", range(5))
def test_three_hundred_ordinary_turns_raise_hardly_anything(seed: int) -> None:
    dice = random.Random(seed)
    monitor = Monitor(HealthSettings())
    said = [
        alert.message
        for number in range(1, 301)
        for checked in [monitor.record(ordinary(number, dice))]
        for alert in (*checked.raised, *checked.over)
    ]
    assert len(said) <= 3, said


FAULTS: dict[str, tuple[str, list[dict[str, object]]]] = {
    "runaway tool output": ("burn_rate", [{"added_tokens": 14_000}]),
    "a loop": ("loop", [{"looping": "shell pytest -x"}]),
    "a stuck index": ("index_lag", [{"index_lag": n} for n in (1, 2, 3)]),
    "a provider that cuts prompts": ("cut", [{"cut": (20_000, 4_096)}]),
    "repetition": ("repeating", [{"repeating": True}]),
    "a protected share too large": ("protected", [{"protected_tokens": 25_000}]),
    "a window that cannot be emptied": ("utilization", [{"prompt_tokens": 31_900}] * 3),
}


@pytest.mark.parametrize(("metric", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found_within_three_turns(
    metric: str, fault: list[dict[str, object]]
) -> None:
    dice = random.Random(7)
    monitor = Monitor(HealthSettings())
    for number in range(1, 100):
        monitor.record(msgspec.structs.replace(ordinary(number, dice), index_lag=0))
    assert len(fault) <= 3
    raised = [
        alert
        for number, changes in enumerate(fault, 100)
        for alert in monitor.record(
            msgspec.structs.replace(ordinary(number, dice), **{"index_lag": 0, **changes})
        ).raised
    ]
    assert metric in {alert.metric for alert in raised}
    assert all(alert.remedy for alert in raised), "an alert says what to do"


def test_a_provider_that_counts_less_than_was_sent_cuts_prompts(home: Path) -> None:
    transcript = transcript_in(home)
    plan = PromptPlanned(
        call=1,
        model="m",
        at=-1,
        through=0,
        spans=(),
        measure=Measure(tokens=9_000, label="measured", utilization=0.5),
    )
    planned = transcript.append(plan, turn=1)
    for counted, found in ((4_096, (9_000, 4_096)), (8_700, None), (None, None)):
        usage = UsageReported(call=1, model="m", usage=Usage(prompt=counted))
        assert cut_by_provider([planned, transcript.append(usage, turn=1)]) == found
    transcript.close()


def test_the_same_call_again_and_again_is_a_loop() -> None:
    def called(digest: str) -> Line:
        return line_of(ToolCalled(call="c", name="shell", shown="pytest -x", digest=digest))

    assert looping_in([called("a")] * 5) == "shell pytest -x"
    assert looping_in([called(str(number)) for number in range(9)]) == ""
