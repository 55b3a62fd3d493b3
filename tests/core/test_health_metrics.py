"""Six metrics, alerts that last, trends: against values worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.config.settings import HealthSettings
from mindstone_tui.core.entries import Line
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.handoff.checkpoint import Checkpoint
from mindstone_tui.core.health.alerts import active
from mindstone_tui.core.health.checks import (
    check_checkpoint,
    check_disk,
    check_memory,
    check_privacy,
    disk_free,
)
from mindstone_tui.core.health.export import otlp, prometheus, write_textfile
from mindstone_tui.core.health.loops import going_in_circles, saying_the_same
from mindstone_tui.core.health.metrics import RANGES, Snapshot, TurnSample, measure
from mindstone_tui.core.health.monitor import Monitor, direction, table, trend
from mindstone_tui.core.places import Places
from tests.builders import places_in, transcript_in
from tests.core.context.asking import words

USABLE = 10_000


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
        added_tokens=2_000 if turn == 120 else 100,
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
    assert sum(one.burn_rate for one in measured) == 299 * 100 + 2_000
    assert measured[119].burn_rate == 2_000
    fidelities = [one.fidelity for one in measured if one.fidelity is not None]
    assert fidelities == [0.9] * 6 + [0.8] * 6
    assert {round(one.tool_bloat, 9) for one in measured} == {0.1}
    assert {one.protected for one in measured} == {0.05}

    one = measured[48]  # turn 49: 4,000 + 4,900 of 10,000
    assert (one.utilization, one.eviction_rate, one.compression_ratio) == (0.89, 0.0, None)
    one = measured[49]  # turn 50: pruned
    assert (one.utilization, one.eviction_rate, one.compression_ratio) == (0.40, 30.0, 6.0)
    assert len(monitor.history) == 100


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
    assert metric_alerts([turn(n, tool_tokens=200) for n in three]) == {"tool_bloat": "warning"}
    assert metric_alerts([turn(0, fidelity=0.7)]) == {"fidelity": "warning"}
    assert metric_alerts([turn(0, fidelity=0.7), turn(1, fidelity=0.8)]) == {}
    assert metric_alerts([turn(0, protected_tokens=700)]) == {"protected": "warning"}
    assert metric_alerts([turn(0, protected_tokens=950)]) == {"protected": "critical"}
    assert metric_alerts([turn(n, index_lag=2) for n in three]) == {"index_lag": "warning"}
    assert metric_alerts([turn(0, recall_failed=True)]) == {"recall": "warning"}
    assert metric_alerts([turn(0, vectors=False)]) == {"recall": "info"}
    assert metric_alerts([turn(0, disk_free=500 << 20)]) == {"disk": "warning"}
    assert metric_alerts([turn(0, disk_free=1 << 20)]) == {"disk": "critical"}
    assert metric_alerts([turn(0, disk_free=1 << 40)]) == {}
    assert metric_alerts([]) == {}


def test_compressions_count_by_the_times_they_happened_not_by_turns() -> None:
    poor = {"shortened_before": 100, "shortened_after": 90}
    samples = [turn(n, **(poor if n % 5 == 0 else {})) for n in range(11)]
    assert metric_alerts(samples) == {"compression_ratio": "warning"}


def test_growth_that_stays_enormous_is_a_runaway() -> None:
    calm = [turn(n) for n in range(10)]
    wild = [turn(10 + n, added_tokens=5_000) for n in range(3)]
    assert metric_alerts(calm + wild[:1]) == {"burn_rate": "warning"}
    assert metric_alerts(calm + wild) == {"burn_rate": "critical"}
    assert metric_alerts([*calm, turn(10, added_tokens=299)]) == {}
    assert metric_alerts([*calm, turn(10, added_tokens=499)]) == {}
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
    assert [(one.metric, one.entry().level) for one in raised] == [("utilization", "critical")]
    second.reset()
    assert second.history == ()
    assert second.alerts == ()


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
    assert "utilization is rising (+9.0%)" in found.sentence()
    assert direction([5, 4, 3, 2, 1]) == "falling"
    assert trend([]) is None


def test_health_is_shown_with_its_ranges() -> None:
    rows = {name: (value, word) for name, value, word in table(measure(turn(1, tool_tokens=200)))}
    assert rows["utilization"] == ("50.0%", "healthy")
    assert rows["tool_bloat"] == ("40.0%", "outside its range")
    assert rows["fidelity"] == ("unmeasured", "unmeasured")
    assert set(rows) == set(RANGES)


def test_repeating_calls_and_answers_are_noticed() -> None:
    assert going_in_circles(["a", "b", "b"]) == ""
    assert "same call" in going_in_circles(["a", "b", "b", "b"])
    assert "2 calls" in going_in_circles(["x", "a", "b", "a", "b", "a", "b"])
    assert "3 calls" in going_in_circles(["a", "b", "c"] * 3)
    assert going_in_circles(["a", "b", "a", "b", "a", "c"]) == ""
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


def test_a_textfile_is_replaced_whole(home: Path) -> None:
    path = home / "metrics" / "mindstone.prom"
    write_textfile(path, prometheus([("s", measure(turn(1)))]))
    assert path.read_text().startswith("# HELP")
    assert list(path.parent.iterdir()) == [path]


def test_otlp_json_has_the_shape_that_collectors_read() -> None:
    snapshots = [measure(turn(1)), measure(turn(2, fidelity=0.9))]
    body = otlp("agent:default:main", snapshots, times=[1_000, 2_000], version="1.0")
    text = json.dumps(body)
    scope = json.loads(text)["resourceMetrics"][0]["scopeMetrics"][0]
    by_name = {metric["name"]: metric["gauge"]["dataPoints"] for metric in scope["metrics"]}
    assert by_name["mindstone_context_utilization_ratio"] == [
        {"timeUnixNano": "1000", "asDouble": 0.5},
        {"timeUnixNano": "2000", "asDouble": 0.5},
    ]
    assert by_name["mindstone_recall_fidelity_ratio"] == [{"timeUnixNano": "2000", "asDouble": 0.9}]
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
    assert table(snapshot)
    assert (snapshot.measured.compression_ratio is None) == (made.shortened_before == 0)


def test_checks_name_what_is_wrong_and_what_to_do(home: Path) -> None:
    places, agent = places_in(home), Places.resolve({"MINDSTONE_HOME": str(home)}).agent("default")
    assert disk_free(home / "not" / "there") is not None
    assert [check_disk(free).status for free in (None, 1, 1 << 29, 1 << 40)] == [
        "info",
        "fail",
        "warn",
        "pass",
    ]
    transcript_in(home).close()
    assert check_privacy(places).status == "pass"
    places.transcript.chmod(0o644)
    assert check_privacy(places).status == "warn"
    agent.memory.mkdir(parents=True)
    (agent.memory / "fact_bad.md").write_text("no front matter")
    agent.user.write_text("wish\n" * 500)
    found = list(check_memory(agent, words, standing=100, ruling=100))
    assert [one.name for one in found if one.status == "warn"] == ["memory", "standing"]
    assert all(one.remedy for one in found if one.status == "warn")

    def refuse() -> Checkpoint:
        raise ContinuityError("The checkpoint is stale: x.", "Save a new one.")

    assert check_checkpoint(refuse, places).status == "info"
    places.checkpoint.write_text("{}")
    assert check_checkpoint(refuse, places).detail == "The checkpoint is stale: x."
    good = Checkpoint(session="s", version=3, saved_at="today")
    assert check_checkpoint(lambda: good, places).status == "pass"
