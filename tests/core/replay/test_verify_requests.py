"""Every request that was ever sent is rebuilt, byte for byte, from the transcript alone."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.replay.verify_requests import prove, rebuilt_calls
from mindstone_tui.core.transcript import History
from tests.cli.program import mindstone
from tests.core.session.generated import play
from tests.core.session.stage import KEY, check_history, on_stage, script
from tests.faults import FULL, sized
from tests.strace import run_touching_nothing

SESSIONS = sized(2, 220)
WANTED = (
    "tool_returned",
    "context_window_pruned",
    "tool_results_trimmed",
    "pinned",
    "recall_injected",
    "summary_derived",
    "handoff_replayed",
    "mode_changed",
    "model_changed",
    "message_queued",
    "assistant_partial",
    "model_failed",
    "crash",
)
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


async def test_every_request_of_generated_sessions_is_rebuilt(tmp_path: Path) -> None:
    requests = 0
    seen: Counter[str] = Counter()
    for seed in range(SESSIONS):
        try:
            places, happened = await play(tmp_path / str(seed), seed)
            found = check_history(places)
        except BaseException as error:
            error.add_note(f"this is seed {seed}")
            raise
        requests += found
        seen += happened
        shutil.rmtree(tmp_path / str(seed))
    print(f"\n{SESSIONS} sessions, {requests} requests rebuilt; {dict(seen)}")
    if FULL:
        assert all(seen[kind] for kind in WANTED), seen


async def test_a_changed_word_is_noticed(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "fine"}, loop=True)) as stage:
        for text in ("the number is 17", "the colour is green"):
            await stage.say(text)
    path = stage.places.transcript
    path.write_bytes(path.read_bytes().replace(b"number is 17", b"number is 71", 1))
    with History(stage.places) as history:
        proof = prove(history)
    assert proof.requests == 2
    assert [wrong.turn for wrong in proof.mismatched] == [1, 2]


async def test_a_turns_requests_can_be_printed_one_by_one(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    wanted = {"tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
    async with on_stage(home, model=script(tmp_path, wanted, {"text": "It says hello."})) as stage:
        await stage.say("read a.txt")
    plans = [line for line in stage.lines() if isinstance(line.entry, PromptPlanned)]
    with History(stage.places) as history:
        both = list(rebuilt_calls(history, 1))
        second = list(rebuilt_calls(history, 1, call=2))
        with pytest.raises(NoSuchEntry, match="no call 3"):
            list(rebuilt_calls(history, 1, call=3))
        with pytest.raises(NoSuchEntry, match="no turn 9"):
            list(rebuilt_calls(history, 9))
    assert [each.call for each in both] == [1, 2]
    assert [each.recorded_hash for each in both] == [_hash(line) for line in plans]
    assert second == both[1:]
    printed = mindstone("replay", "--turn", "1", "--prompt", "--json").stdout.splitlines()
    assert [json.loads(line)["matches"] for line in printed] == [True, True]
    keys = {"turn", "call", "messages", "tools", "hash", "recorded_hash", "matches"}
    assert keys <= json.loads(printed[0]).keys()


def _hash(line: Line) -> str:
    return line.entry.prompt_hash if isinstance(line.entry, PromptPlanned) else ""


@needs_strace
async def test_replay_connects_to_nothing_and_writes_nothing(tmp_path: Path) -> None:
    places, _ = await play(tmp_path / "played", seed=3, steps=sized(5, 12))
    home, trace = tmp_path / "played" / "home", tmp_path / "trace"
    done = run_touching_nothing(home, trace, "replay", str(KEY), "--all", "--check", "--json")
    proof = json.loads(done.stdout)
    assert proof["requests"] == proof["matched"] == check_history(places)
    assert proof["mismatched"] == []
