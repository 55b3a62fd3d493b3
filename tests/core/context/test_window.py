"""The working set from outside: what is sent, what leaves, and what is written before it."""

from __future__ import annotations

import errno
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import Mode
from mindstone_tui.core.context import build_report, manual
from mindstone_tui.core.context.build_report import report_at
from mindstone_tui.core.context.modes import Means, Modes
from mindstone_tui.core.context.plan import make_room, plans_of_turn, prepare, rebuild
from mindstone_tui.core.context.summaries import Summarizer
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import open_fold
from mindstone_tui.core.entries import Image, Line, ToolCall, ToolSchema
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    Thinking,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import RecallInjected
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.entries.window import (
    ContextPruneBlocked,
    ContextWindowPruned,
    PromptPlanned,
    Section,
    ToolResultsTrimmed,
    WindowRepaired,
)
from mindstone_tui.core.errors import DoesNotFit, EntryNotSaved, WindowError
from mindstone_tui.core.transcript import verify
from tests.builders import transcript_in
from tests.core.context.stage import (
    MODEL,
    FakeIndex,
    Stage,
    Unsynced,
    finish,
    kinds,
    with_context,
    words,
)


def pruned_in(stage: Stage) -> list[ContextWindowPruned]:
    return [
        line.entry
        for line in stage.history.read()
        if isinstance(line, Line) and isinstance(line.entry, ContextWindowPruned)
    ]


def test_a_request_has_the_head_then_the_window_in_order(home: Path) -> None:
    stage = Stage(home)
    stage.chat("first question", "first answer")
    stage.ask("second question")
    request = stage.plan().request
    assert [(m["role"], m["content"]) for m in request.messages] == [
        ("system", "You are a stone that remembers."),
        ("user", "first question"),
        ("assistant", "first answer"),
        ("user", "second question"),
    ]


def test_the_plan_is_on_disk_with_its_hash_before_the_request_is_handed_out(home: Path) -> None:
    stage = Stage(home)
    stage.ask("hello")
    prepared = stage.plan()
    stored = stage.history.line(prepared.plan.seq).entry
    assert isinstance(stored, PromptPlanned)
    assert stored.prompt_hash == prepared.request.hash
    assert prepared.lines[-1] == prepared.plan


def test_every_request_of_a_long_session_is_rebuilt_byte_for_byte(home: Path) -> None:
    stage = Stage(home, window=4_000)
    for number in range(30):
        stage.chat(words(40, f"q{number}"), words(60, f"a{number}"))
        stage.work(words(10), [words(120, f"r{number}"), words(50)], words(20))
    history = stage.history
    assert pruned_in(stage)
    for prepared in stage.prepared:
        assert rebuild(history, prepared.plan) == prepared.request
    assert len(plans_of_turn(history, 2)) == 3


def test_another_process_gives_the_same_prompt_hash(home: Path) -> None:
    stage = Stage(home, window=4_000)
    for number in range(40):
        stage.chat(words(40, f"q{number}"), words(60, f"a{number}"))
    probe = (
        "import sys; from tests.builders import places_in; from pathlib import Path\n"
        "from mindstone_tui.core.transcript import History\n"
        "from mindstone_tui.core.context.window_view import open_fold\n"
        "fold = open_fold(History(places_in(Path(sys.argv[1]))))\n"
        "print(fold.request(fold.model).hash)"
    )
    run = subprocess.run(
        [sys.executable, "-c", probe, str(home)], capture_output=True, text=True, check=True
    )
    stage.window.catch_up()
    assert run.stdout.strip() == stage.window.fold.request(MODEL).hash
    assert build_report.report(stage.open()) == build_report.report(stage.window)


def test_pruning_starts_at_the_ceiling_and_goes_to_the_floor_in_one_step(home: Path) -> None:
    stage = Stage(home, window=8_000)
    for number in range(140):
        stage.chat(words(30, f"q{number}"), words(50, f"a{number}"))
    room = build_report.report(stage.window).usable
    prunes = pruned_in(stage)
    assert len(prunes) > 3
    for prune in prunes:
        assert prune.tokens_before > room * 0.92
        assert prune.tokens_after <= room * 0.70
        assert prune.tokens_after + min(left.tokens for left in prune.left) + 90 > room * 0.70
        assert all(left.receipt for left in prune.left)


def test_with_a_broken_index_nothing_leaves_and_later_it_does(home: Path) -> None:
    stage = Stage(home, window=8_000)
    stage.index.failing = True
    blocked = []
    for number in range(50):
        prepared = stage.chat(words(40, f"q{number}"), words(60, f"a{number}"))
        blocked += [line.entry for line in prepared.lines if line.kind == "context_prune_blocked"]
        assert len(prepared.request.messages) == 2 + 2 * number
    assert blocked
    assert isinstance(blocked[0], ContextPruneBlocked)
    assert blocked[0].why == "index unavailable"
    stage.index.failing = False
    prepared = stage.chat("and now?", "now it works")
    assert "context_window_pruned" in kinds(prepared)
    assert len(prepared.request.messages) < 90


def test_an_exchange_that_cannot_be_indexed_stays_and_the_gap_is_marked(home: Path) -> None:
    stage = Stage(home, window=8_000)
    stage.index.refused = {3}
    while not pruned_in(stage):
        stage.chat(words(40, f"q{stage.turn}"), words(60, f"a{stage.turn}"))
    (prune,) = pruned_in(stage)
    assert 3 not in {left.turn for left in prune.left}
    assert {2, 4} <= {left.turn for left in prune.left}
    assert "turns 2, 4–" in prune.marker
    assert stage.history.turn(3)[1].seq in stage.window.fold.lines


def test_what_arrives_while_a_prune_is_decided_stays_in_the_window(home: Path) -> None:
    stage = Stage(home, window=8_000)

    def somebody_else() -> None:
        from tests.builders import transcript_in

        other = transcript_in(home)
        other.append(UserMessage(text="typed meanwhile"), turn=stage.turn)
        other.close()

    stage.index.meanwhile = somebody_else
    while not pruned_in(stage):
        prepared = stage.chat(words(40, f"q{stage.turn}"), words(60, f"a{stage.turn}"))
    assert any(m["content"] == "typed meanwhile" for m in prepared.request.messages)
    fresh = open_fold(stage.history)
    stage.window.catch_up()
    assert fresh.state == stage.window.fold.state
    assert fresh.request(MODEL) == stage.window.fold.request(MODEL)


def test_a_pin_made_while_a_prune_is_decided_is_kept(home: Path) -> None:
    stage = Stage(home, window=8_000)

    def somebody_pins() -> None:
        manual.pin(stage.window, 2)

    stage.index.meanwhile = somebody_pins
    while not pruned_in(stage):
        stage.chat(words(40, f"q{stage.turn}"), words(60, f"a{stage.turn}"))
    assert 2 not in {left.turn for left in pruned_in(stage)[0].left}
    assert open_fold(stage.history).state.pins == (2,)


def test_stale_usage_after_a_prune_does_not_prune_again(home: Path) -> None:
    stage = Stage(home, window=8_000)
    while not pruned_in(stage):
        stage.ask(words(40, f"q{stage.turn}"))
        prepared = stage.plan()
        stage.answer(words(60))
        stage.report_usage(prepared.plan.entry.raw_tokens)  # type: ignore[union-attr]
        stage.end()
    before = len(pruned_in(stage))
    for _ in range(3):
        stage.chat("short", "short")
    assert len(pruned_in(stage)) == before


def test_the_original_task_stays_when_its_exchange_leaves(home: Path) -> None:
    stage = Stage(home, window=8_000)
    stage.chat("Build a bridge of stone.", words(200))
    while len(pruned_in(stage)) < 2:
        prepared = stage.chat(words(40, f"q{stage.turn}"), words(60, f"a{stage.turn}"))
    assert prepared.request.messages[1] == {"role": "user", "content": "Build a bridge of stone."}


def test_older_tool_results_become_placeholders_that_lead_back(home: Path) -> None:
    stage = Stage(home, window=8_000)
    trimmed: list[ToolResultsTrimmed] = []
    while not trimmed:
        plans = stage.work("look", [words(300, f"r{stage.turn}")], "done")
        trimmed = [
            line.entry
            for plan in plans
            for line in plan.lines
            if isinstance(line.entry, ToolResultsTrimmed)
        ]
    result = stage.history.line(trimmed[0].results[0].result)
    shown = next(m for m in plans[-1].request.messages if m["role"] == "tool")
    assert f"read_entry #{result.seq} " in shown["content"]
    assert "found" in shown["content"]
    assert trimmed[0].tokens_after < trimmed[0].tokens_before
    whole = [m for m in plans[-1].request.messages if m["role"] == "tool"][-4:]
    assert all("Not shown" not in m["content"] for m in whole)
    assert verify(stage.transcript.places).ok


def test_a_long_tool_loop_is_kept_inside_the_window_between_its_calls(home: Path) -> None:
    stage = Stage(home, window=8_000)
    plans = stage.work("explore everything", [words(400, f"r{n}") for n in range(40)], "done")
    usable = build_report.report(stage.window).usable
    assert all(plan.tokens <= usable * 0.95 for plan in plans)
    trims = [number for number, plan in enumerate(plans) if "tool_results_trimmed" in kinds(plan)]
    assert trims
    assert all(later - earlier >= 4 for earlier, later in pairwise(trims))


def test_what_the_running_turn_read_stays_whole_while_older_exchanges_can_make_room(
    home: Path,
) -> None:
    stage = Stage(home, window=16_000)
    for number in range(6):
        stage.work(f"look at {number}", [words(900, f"old{number}")], "done")
    read = [words(800, f"new{number}") for number in range(12)]
    plans = stage.work("read all modules and compare", read, "compared")
    shown = [m["content"] for m in plans[-1].request.messages if m["role"] == "tool"]
    assert shown[-12:] == read


def test_a_running_turn_that_does_not_fit_loses_its_oldest_results_first(home: Path) -> None:
    stage = Stage(home, window=16_000)
    read = [words(900, f"new{number}") for number in range(16)]
    plans = stage.work("read all modules and compare", read, "compared")
    shown = [m["content"] for m in plans[-1].request.messages if m["role"] == "tool"]
    whole = [number for number, text in enumerate(shown) if text == read[number]]
    assert 4 <= len(whole) < 16
    assert whole == list(range(16 - len(whole), 16))
    assert all("found new" in text for text in shown[: 16 - len(whole)])
    shortened = [plan for plan in plans if "tool_results_trimmed" in kinds(plan)]
    assert shortened
    assert not any("context_prune_blocked" in kinds(plan) for plan in shortened)


@pytest.mark.thorough
def test_a_trim_frees_so_much_that_the_next_is_far_away(home: Path) -> None:
    stage = Stage(home, window=32_768)
    usable = build_report.report(stage.window).usable
    plans = [
        plan
        for number in range(120)
        for plan in stage.work(words(30), [words(700, f"r{number}")], words(120))
    ]
    trims = [
        line.entry
        for plan in plans
        for line in plan.lines
        if isinstance(line.entry, ToolResultsTrimmed)
    ]
    moves = [
        plan
        for plan in plans
        if {"tool_results_trimmed", "context_window_pruned"} & set(kinds(plan))
    ]
    assert trims
    assert all(one.tokens_before - one.tokens_after >= usable * 0.1 for one in trims)
    assert len(moves) * 12 <= len(plans)


def trims_in(stage: Stage) -> list[ToolResultsTrimmed]:
    return [
        line.entry
        for line in stage.history.read()
        if isinstance(line, Line) and isinstance(line.entry, ToolResultsTrimmed)
    ]


def share_of_results(stage: Stage) -> tuple[int, int, int]:
    """What the results take now, their share, and the mark from which they act."""
    shares = build_report.report(stage.window).components
    return next((s.tokens, s.limit, s.hard) for s in shares if s.name == "tool_results")


@pytest.mark.parametrize("mode", get_args(Mode))
def test_results_over_their_hard_mark_are_trimmed_at_once_oldest_first(
    home: Path, mode: Mode
) -> None:
    stage = Stage(home, window=32_768, settings=with_context(mode=mode))
    stage.window.room_maker = Modes(Means(summarizer=Summarizer(count=len))).make_room
    read = [words(1_200, f"r{number}") for number in range(12)]
    used, share, hard = share_of_results(stage)
    for text in read:
        if used + 1_300 > hard:
            break
        stage.work("look", [text], "done")
        assert not trims_in(stage)
        used, _, _ = share_of_results(stage)
    assert used > 3 * share
    told = build_report.report(stage.window)
    assert f"results: oldest shortened above {hard / 1000:.1f}k" in told.acting
    assert not any("Tool results" in warning for warning in told.warnings)
    stage.work("look", [words(1_200, "last")], "done")
    stage.work("and now?", [], "done")
    (trim,) = trims_in(stage)
    assert trim.trigger == "share"
    taken = [one.result for one in trim.results]
    known = [
        line.seq
        for line in stage.history.read()
        if isinstance(line, Line) and line.kind == "tool_returned"
    ]
    assert taken == known[: len(taken)]
    assert known[-1] not in taken
    assert share_of_results(stage)[0] <= share
    assert trim.tokens_before < 0.7 * told.usable  # far below the marks of the whole


def test_pinned_results_over_the_mark_do_not_cost_a_trim_with_every_turn(home: Path) -> None:
    stage = Stage(home, window=32_768)
    stage.work("keep this", [words(4_200, "big")] * 4, "done")
    manual.pin(stage.window, 1)
    used, _, hard = share_of_results(stage)
    assert used > hard
    for number in range(8):
        stage.work("look", [words(60, f"r{number}")], "done")
    assert not trims_in(stage)
    assert "results: pinned and newest stay whole" in build_report.report(stage.window).acting


def test_in_a_small_window_the_results_mark_leaves_a_way_and_says_so(home: Path) -> None:
    stage = Stage(home, window=16_384)
    _, share, hard = share_of_results(stage)
    assert hard - share >= 6_000 > 3 * share
    assert f"results shortened from {hard:,} on, at the" in build_report.report(stage.window).scaled


def test_the_panel_says_from_where_on_results_over_their_share_give_way(home: Path) -> None:
    stage = Stage(home, window=24_000)
    for number in range(4):
        stage.work("look", [words(900, f"r{number}")], "done")
    used, share, hard = share_of_results(stage)
    (acting,) = build_report.report(stage.window).acting
    mark = float(acting.partition(" above ")[2].removesuffix("k")) * 1_000
    assert mark > hard > used > share
    number = 4
    while not trims_in(stage):
        used, _, _ = share_of_results(stage)
        stage.work("look", [words(900, f"r{number}")], "done")
        number += 1
    assert abs(used + 450 - mark) < 1_000
    stage.chat(words(8_000, "much"), "noted")
    stage.work("look", [words(900, f"more{at}") for at in range(3)], "done")
    assert "results: oldest shortened once the window is full" in (
        build_report.report(stage.window).acting
    )


def test_a_call_without_its_result_is_left_out_and_history_is_untouched(home: Path) -> None:
    stage = Stage(home)
    stage.ask("do it")
    stage.plan()
    dangling = stage.answer("I will", [ToolCall(id="c1", name="read", arguments="{}")])
    stage.ask("are you still there?")
    prepared = stage.plan()
    repairs = [line.entry for line in prepared.lines if isinstance(line.entry, WindowRepaired)]
    assert repairs[0].seqs == (dangling.seq,)
    assert [m["role"] for m in prepared.request.messages] == ["system", "user", "user"]
    assert stage.history.line(dangling.seq) == dangling


def test_results_stand_behind_their_call_even_when_somebody_steered_in_between(home: Path) -> None:
    stage = Stage(home)
    stage.ask("do it")
    calls = [ToolCall(id=f"c{n}", name="read", arguments="{}") for n in (1, 2)]
    stage.answer("", calls)
    stage.result("c2", "two")
    stage.transcript.append(UserMessage(text="hurry"), turn=stage.turn)
    stage.result("c1", "one")
    roles = [(m["role"], m["content"]) for m in stage.plan().request.messages[2:]]
    assert roles == [("assistant", ""), ("tool", "one"), ("tool", "two"), ("user", "hurry")]


@pytest.mark.parametrize("arguments", ["null", "", "[1]", '{"path":', "{}"])
def test_broken_arguments_do_not_poison_the_session(home: Path, arguments: str) -> None:
    stage = Stage(home)
    stage.ask("do it")
    stage.answer("", [ToolCall(id="c", name="read", arguments=arguments)])
    stage.result("c", "that was no JSON")
    call = stage.plan().request.messages[2]["tool_calls"][0]
    assert call["function"]["arguments"] == "{}"


def test_thinking_is_sent_back_only_within_its_own_turn(home: Path) -> None:
    stage = Stage(home)
    turn = stage.ask("think")
    thought = Thinking(text="hm", signature="sig")
    call = ToolCall(id="c", name="read", arguments="{}")
    stage.transcript.append(
        AssistantMessage(text="", model=MODEL, calls=(call,), thinking=(thought,)), turn=turn
    )
    stage.result("c", "x")
    assert stage.plan().request.messages[2]["thinking_blocks"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"}
    ]
    stage.answer("done")
    stage.ask("next")
    assert "thinking_blocks" not in stage.plan().request.messages[2]


def recall(stage: Stage, text: str) -> int:
    line = stage.transcript.append(
        RecallInjected(query="q", passages=(), text=text, tokens=5), turn=stage.turn
    )
    return line.seq


def test_the_recalled_block_stands_at_the_end_of_this_turn_and_in_no_other(home: Path) -> None:
    stage = Stage(home)
    stage.ask("remember?")
    tail = recall(stage, "<recalled>stone</recalled>")
    first = stage.plan(1, tail=(tail,)).request
    stage.answer("", [ToolCall(id="c", name="read", arguments="{}")])
    stage.result("c", "x")
    second = stage.plan(2, tail=(tail,)).request
    stage.answer("yes")
    stage.ask("next")
    third = stage.plan().request
    assert first.messages[-1] == second.messages[-1]
    assert first.messages[-1]["role"] == "user"
    assert second.messages[: len(first.messages) - 1] == first.messages[:-1]
    assert third.messages[: len(second.messages) - 1] == second.messages[:-1]
    assert "recalled" not in str(third.messages)
    report = report_at(stage.history, stage.settings, stage.prepared[0].plan)
    assert report.recall_tokens > 0


def test_slash_output_and_bookkeeping_never_enter_a_prompt(home: Path) -> None:
    stage = Stage(home)
    stage.transcript.append(CommandRun(command="/context", output="SECRET TABLE"))
    stage.ask("hello")
    assert "SECRET" not in str(stage.plan().request.messages)


def test_an_interrupted_answer_is_kept_as_far_as_it_came(home: Path) -> None:
    stage = Stage(home)
    turn = stage.ask("tell me")
    stage.transcript.append(AssistantPartial(text="Once upon"), turn=turn)
    stage.ask("go on")
    assert stage.plan().request.messages[2] == {"role": "assistant", "content": "Once upon"}


def test_a_picture_is_sent_as_data_or_only_named(home: Path) -> None:
    stage = Stage(home)
    blob = stage.transcript.keep_blob(b"not really a picture")
    image = Image(sha256=blob.sha256, media_type="image/png", width=750, height=100, name="a.png")
    turn = stage.ask("look")
    stage.transcript.append(UserMessage(text="here", images=(image,)), turn=turn)
    shown = stage.plan().request.messages[-1]["content"]
    assert shown[1]["image_url"]["url"].startswith("data:image/png;base64,")
    named = stage.plan(images=False)
    assert named.request.messages[-1]["content"] == "here\n[picture a.png, 750×100]"
    history = stage.history
    assert [rebuild(history, each.plan).hash for each in stage.prepared] == [
        each.request.hash for each in stage.prepared
    ]
    assert stage.prepared[0].tokens - named.tokens in range(100, 110)


def test_setting_the_same_thing_twice_writes_nothing(home: Path) -> None:
    stage = Stage(home)
    window = stage.window
    tool = ToolSchema(name="read", description="reads", parameters={"type": "object"})
    assert window.set_tools([tool]) is not None
    head = stage.transcript.head
    assert window.set_tools([tool]) is None
    assert window.set_model(MODEL, window=8_000, label="measured") is None
    assert (
        window.set_instructions([Section(name="identity", text="You are a stone that remembers.")])
        is None
    )
    assert stage.transcript.head == head


def test_without_a_question_there_is_nothing_to_send(home: Path) -> None:
    with pytest.raises(WindowError, match="nothing to answer"):
        Stage(home).plan()


@pytest.mark.parametrize("window", [2_000, 8_000, 32_768, 128_000, 200_000, 1_000_000])
def test_every_window_size_gives_a_bounded_prompt(home: Path, window: int) -> None:
    stage = Stage(home, window=window)
    size = max(window // 40, 40)
    for number in range(50):
        prepared = stage.chat(words(size // 2, f"q{number}"), words(size, f"a{number}"))
        plan = prepared.plan.entry
        assert isinstance(plan, PromptPlanned)
        assert prepared.tokens <= (plan.window - plan.reserve) * 0.92
    assert pruned_in(stage)


@pytest.mark.parametrize("window", [2_000, 8_000, 200_000])
def test_one_message_larger_than_the_window_is_shortened_and_says_so(
    home: Path, window: int
) -> None:
    stage = Stage(home, window=window)
    stage.chat("hello", "hi")
    line = stage.transcript.head.seq + 2
    stage.ask("Please read this: " + "🪨🧗🏽‍♀️ é " * window)
    prepared = stage.plan()
    sent = prepared.request.messages[-1]["content"]
    assert prepared.tokens <= build_report.report(stage.window).usable
    assert "characters of this message are left out" in sent
    assert stage.history.line(line).id in sent
    assert sent.startswith("Please read this")
    assert "message_cut" in kinds(prepared)
    stage.answer("I read the beginning and the end.")
    told = build_report.report(stage.window)
    assert max(told.velocities) <= told.usable  # what was cut never filled it
    assert stage.chat("thanks", "welcome").tokens <= told.usable


def test_an_oversized_first_message_does_not_hold_the_window_for_ever(home: Path) -> None:
    stage = Stage(home, window=8_000)
    stage.chat("The task is this: " + words(20_000), "understood")
    changes = 0
    for number in range(40):
        prepared = stage.chat(words(40, f"q{number}"), words(60, f"a{number}"))
        changes += "context_window_pruned" in kinds(prepared)
    task = prepared.request.messages[1]["content"]
    assert task.startswith("The task is this")
    assert "left out" in task
    assert len(task) // 4 <= 600
    assert changes <= 2


def test_a_huge_unanswered_result_is_shortened_too(home: Path) -> None:
    stage = Stage(home)
    stage.ask("read it")
    stage.answer("", [ToolCall(id="c", name="read", arguments="{}")])
    stage.result("c", words(40_000))
    prepared = stage.plan()
    assert prepared.tokens <= build_report.report(stage.window).usable
    assert "characters of this result are left out" in prepared.request.messages[-1]["content"]


def test_a_huge_message_keeps_its_ends_when_it_must_give_way_again(home: Path) -> None:
    stage = Stage(home)
    stage.ask(f"The task is this: {words(100_000)} Answer in French.")
    kept = [stage.plan().request.messages[-1]["content"]]
    for number in range(3):
        call = ToolCall(id=f"c{number}", name="read", arguments="{}")
        stage.answer("", [call])
        stage.result(call.id, words(2_000, f"r{number}"))
        kept.append(stage.plan(number + 2).request.messages[1]["content"])
    assert len(set(kept)) > 1
    for text in kept:
        assert text.startswith("The task is this")
        assert text.endswith("Answer in French.")
        assert len(text) > 10_000


def test_pins_larger_than_the_window_are_refused_in_one_sentence(home: Path) -> None:
    stage = Stage(home, window=8_000)
    for number in range(6):
        stage.chat(words(400, f"q{number}"), words(500, f"a{number}"))
        manual.pin(stage.window, stage.turn)
    assert any("Pins take" in warning for warning in build_report.report(stage.window).warnings)
    stage.ask(words(300))
    stage.chat("x", words(900))
    manual.pin(stage.window, stage.turn)
    stage.ask("now?")
    with pytest.raises(DoesNotFit, match="pinned exchanges") as refused:
        stage.plan()
    assert "unpin" in refused.value.remedy
    manual.unpin(stage.window, 1)
    assert stage.plan().tokens <= build_report.report(stage.window).usable


def test_instructions_larger_than_the_window_are_refused_in_one_sentence(home: Path) -> None:
    stage = Stage(home, window=2_000, instructions=words(3_000))
    stage.ask("hello")
    with pytest.raises(DoesNotFit, match="instructions 3,"):
        stage.plan()


def test_a_window_too_small_for_the_standing_parts_costs_no_exchange(home: Path) -> None:
    stage = Stage(home, window=8_000, instructions=words(300))
    for number in range(4):
        stage.chat(f"question {number}", f"answer {number}")
    stage.ask("hello")
    with pytest.raises(DoesNotFit, match="stands in every prompt needs"):
        stage.plan(window=200)
    assert build_report.report(stage.window).outside.exchanges == 0
    assert stage.plan().tokens > 300


def test_an_unknown_window_is_assumed_and_says_so(home: Path) -> None:
    stage = Stage(home)
    stage.window.set_model("who/knows")
    stage.ask("hello")
    stage.plan()
    report = build_report.report(stage.window)
    assert (report.window.tokens, report.window.label) == (32_768, "assumed")
    assert any("assuming" in warning for warning in report.warnings)
    assert report.marks.ceiling == int(report.usable * 0.87)


def test_switching_to_a_smaller_window_makes_room_before_the_next_call(home: Path) -> None:
    stage = Stage(home, window=32_768)
    for number in range(40):
        stage.chat(words(100, f"q{number}"), words(150, f"a{number}"))
    stage.window.set_model("test/small", window=8_000, label="measured")
    prepared = stage.chat("still there?", "yes")
    assert prepared.request.model == "test/small"
    assert prepared.tokens <= 6_000 * 0.70


async def test_indexing_runs_beside_the_loop(home: Path) -> None:
    from mindstone_tui.core.context.window import LiveWindow

    stage = Stage(home, window=8_000)
    window = LiveWindow(
        stage.history,
        stage.settings,
        transcript=stage.transcript,
        indexer=stage.index,
        counters=lambda model: stage.counter,
    )
    for number in range(70):
        stage.ask(words(40, f"q{number}"))
        prepared = await prepare(window, call=1)
        stage.answer(words(60))
    assert prepared.tokens <= build_report.report(window).marks.ceiling


@pytest.mark.thorough
def test_making_room_a_second_time_changes_nothing(home: Path) -> None:
    stage = Stage(home, window=8_000, settings=with_context(policy="hybrid"))
    for number in range(80):
        stage.work(words(30, f"q{number}"), [words(90, f"r{number}")], words(40))
        finish(make_room(stage.window))
        assert finish(make_room(stage.window)) == []


class Refusing(Unsynced):
    """A disk that is full while it is told to be."""

    full = False

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(fd, data)


def test_whatever_is_written_next_saves_what_the_disk_refused_and_says_so(home: Path) -> None:
    disk = Refusing()
    transcript = transcript_in(home, disk=disk)
    window = LiveWindow(
        transcript.history(), Settings(), transcript=transcript, indexer=FakeIndex()
    )
    saved: list[int] = []
    window.on_saved = saved.append
    window.record_all([TurnStarted(), UserMessage(text="hello")], 1)
    disk.full = True
    with pytest.raises(EntryNotSaved):
        window.record(AssistantMessage(text="hi", model=MODEL), 1)
    disk.full = False
    window.set_policy("lru")
    assert saved == [1]
    assert [line.kind for line in window.fold.lines.values()] == [
        "user_message",
        "assistant_message",
    ]
    window.catch_up()
    assert window.missed() == []


def test_lines_of_ours_behind_a_line_of_another_surface_are_not_taken_for_the_others(
    home: Path,
) -> None:
    transcript = transcript_in(home)
    window = LiveWindow(
        transcript.history(), Settings(), transcript=transcript, indexer=FakeIndex()
    )
    window.record_all([TurnStarted(), UserMessage(text="hello")], 1)
    other = transcript_in(home)
    theirs = other.append(CommandRun(command="/context", output=""))
    window.record_all([TurnStarted(), UserMessage(text="and mine")], 2)
    window.catch_up()
    assert [line.seq for line in window.missed()] == [theirs.seq]
