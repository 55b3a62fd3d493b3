"""`mindstone replay` and `mindstone compare` as people and programs call them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mindstone_tui.cli.main import run
from mindstone_tui.cli.replay import settings_for
from mindstone_tui.core.transcript import History
from tests.builders import say, transcript_in
from tests.cli.program import ROOT
from tests.core.replay.recorded import TURNS, recorded
from tests.core.session.stage import on_stage, script
from tests.strace import run_touching_nothing

SAMPLE_WINDOW = 16_384

IMPORTS = ROOT / "tests" / "fixtures" / "imports"
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def test_in_a_pipe_a_session_plays_in_lines(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(home).close()
    assert run(["replay"]) == 0
    out = capsys.readouterr().out
    assert "> Which port stands in server_port.toml?" in out
    assert "── turn 24" in out
    assert "exchanges left the window" in out
    assert "→ Request 1 to " in out
    assert "\x1b" not in out


def test_playing_can_begin_at_a_turn(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(home).close()
    assert run(["replay", "--plain", "--at", "20"]) == 0
    out = capsys.readouterr().out
    assert "── turn 20" in out
    assert "── turn 12" not in out
    assert run(["replay", "--plain", "--at", "99"]) == 1


def test_programs_hear_the_same_events(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(home).close()
    assert run(["replay", "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[0]["event"] == "session_ready"
    assert events[-1]["event"] == "session_closed"
    assert [e["turn"] for e in events if e["event"] == "turn_ended"] == list(range(1, TURNS + 1))
    reports = [e["report"] for e in events if e["event"] == "context_reported"]
    called = [e for e in events if e["event"] == "model_called"]
    assert [one["prompt_hash"] for one in reports] == [one["prompt_hash"] for one in called]


def test_an_imported_session_is_rehearsed_and_says_so(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript = transcript_in(home)
    say(transcript, "What did we decide?", "To use httpx.")
    transcript.close()
    before = transcript.places.transcript.read_bytes()
    assert run(["replay", "--plain"]) == 0
    shown = capsys.readouterr()
    assert "rehearsed" in shown.out
    assert "→ Request 1 to test" in shown.out
    assert transcript.places.transcript.read_bytes() == before


def test_what_if_prints_a_table_and_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(home).close()
    words = [
        "replay",
        "--what-if",
        "ceiling=60",
        "--what-if",
        "floor=40",
        "--what-if",
        "window=6000",
    ]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert "what if ceiling 60, floor 40, window 6000?" in out
    heads = next(line for line in out.splitlines() if "recorded" in line)
    assert heads.split() == ["recorded", "as", "set", "what", "if"]
    assert "later reference: on request" in out
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["outcomes"]] == ["recorded", "as set", "what if"]
    assert found["changed"] == {
        "context.ceiling": "60",
        "context.floor": "40",
        "context.window": "6000",
    }
    assert {"prunes", "tokens_sent", "stable_share", "cost", "found", "moments"} <= set(
        found["outcomes"][0]
    )


def test_settings_that_contradict_each_other_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(home).close()
    assert run(["replay", "--what-if", "ceiling=10"]) == 2
    assert "ceiling" in capsys.readouterr().err


@pytest.mark.thorough
def test_compare_prints_a_table_a_chart_and_json(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(home).close()
    words = ["compare", "--modes", "sliding_window,cascade", "--context-window", "6000"]
    assert run(words) == 0
    out = capsys.readouterr().out
    for measure in ("factual retention", "source traceability", "can explain why"):
        assert measure in out
    assert "█" in out
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["mode"] for one in found["modes"]] == ["sliding_window", "cascade"]
    assert set(found["modes"][0]["measures"]) == {
        "facts",
        "traceable",
        "corrections",
        "false",
        "why",
    }
    assert run(["compare", "--modes", "magic"]) == 2


def test_a_model_that_is_named_judges_on_top(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(home).close()
    replies = ['["a?", "b?", "c?"]', '["1", "2", "3"]', '["1", "2", "4"]', '["YES", "YES", "NO"]']
    script = tmp_path / "judge.jsonl"
    script.write_text(
        "".join(json.dumps({"text": reply, "for": "judge"}) + "\n" for reply in replies)
    )
    words = ["compare", "--modes", "sliding_window", "--context-window", "6000"]
    assert run([*words, "--model", f"scripted/{script}"]) == 0
    shown = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("judged"))
    assert shown.split() == ["judged", "by", "a", "model", "2", "of", "3"]


def test_the_sample_plays_offline_and_leaves_no_trace(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "--sample", "--plain"]) == 0
    out = capsys.readouterr().out
    for sign in ("left the window", "shortened in the prompt", "recalled", "→ orange"):
        assert sign in out, sign
    assert not home.exists()
    assert SAMPLE_WINDOW == 16_384


@needs_strace
@pytest.mark.parametrize(
    "words",
    [
        ["replay", "--plain"],
        ["replay", "--json", "--at", "20"],
        ["replay", "--what-if", "ceiling=80", "--json"],
        ["compare", "--modes", "auto_compact", "--context-window", "6000", "--json"],
    ],
    ids=["plain", "json", "what-if", "compare"],
)
def test_replaying_connects_to_nothing_and_writes_nothing(
    home: Path, tmp_path: Path, words: list[str]
) -> None:
    recorded(home).close()
    assert run_touching_nothing(home, tmp_path / "trace", *words).stdout


def test_the_sample_is_rehearsed_before_it_is_proven(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "--sample", "--all", "--check", "--json"]) == 0
    said = capsys.readouterr()
    proof = json.loads(said.out)
    assert proof["requests"] == proof["matched"] > 100
    assert "rehearsed" in said.err
    assert run(["import", str(IMPORTS / "messages.jsonl"), "--no-wait"]) == 0
    assert run(["replay", "messages-messages", "--all", "--check"]) == 0
    assert "nothing to check" in capsys.readouterr().out


def test_all_of_it_is_every_request_of_every_session_unless_one_is_named(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def replay(*words: str) -> tuple[int, str]:
        code = run(["replay", "--all", "--check", *words])
        return code, "".join(capsys.readouterr())

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert replay() == (0, "No sessions yet; nothing to check.\n")
    for key in ("main", "other"):
        said = ["run", "hello", "-m", script(tmp_path, {"text": "Hi."}, loop=True), "-s", key]
        assert run([*said, "-q"]) == 0
    capsys.readouterr()
    assert replay() == (0, "2 of 2 requests of 2 sessions rebuilt byte for byte\n")
    assert replay("-s", "other") == (0, "1 of 1 requests rebuilt byte for byte\n")
    rows = [json.loads(row) for row in replay("--json")[1].splitlines()]
    assert [one["session"] for one in rows] == ["agent:default:main", "agent:default:other"]
    spoilt = next(home.rglob("other/transcript.jsonl"))
    spoilt.write_bytes(spoilt.read_bytes().replace(b'"hello"', b'"hullo"'))
    code, told = replay()
    assert code == 1
    assert "1 of 2 requests of 2 sessions" in told
    assert "agent:default:other, turn 1, call 1: the hash differs." in told


def test_the_sample_keeps_its_window_whatever_window_the_settings_name(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text("[context]\nwindow = 8192\n")
    assert settings_for(sample=True).context.window == SAMPLE_WINDOW
    assert settings_for(sample=False).context.window == 8192
    named = settings_for(sample=True, flags={"context.window": 4096})
    assert named.context.window == 4096


async def test_a_session_is_asked_in_the_window_it_was_held_in(home: Path, tmp_path: Path) -> None:
    async with on_stage(
        home, model=script(tmp_path, {"text": "ok"}), context_window=9_000
    ) as stage:
        await stage.say("hello")
    with History(stage.places) as history:
        assert settings_for(history, sample=False).context.window == 9_000
        then = settings_for(history, sample=False, flags={"context.window": 5_000})
    assert then.context.window == 5_000
