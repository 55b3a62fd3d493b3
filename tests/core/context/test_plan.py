"""What a plan says of its request, and what is announced on the way to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.context.messages import first_unpaired
from mindstone_tui.core.context.plan import (
    make_room,
    make_room_by,
    plans_of_turn,
    prepare,
    rebuild,
)
from mindstone_tui.core.context.window_view import Target
from mindstone_tui.core.entries import Draft, Image, Sampling, ToolCall
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import RecallInjected
from mindstone_tui.core.entries.window import (
    Forked,
    PromptPlanned,
    Section,
    ShareCrossed,
    ZoneChanged,
)
from mindstone_tui.core.errors import NoSuchEntry, WindowError
from tests.core.context.stage import Quarter, Stage, finish, kinds, words


def plan_of(prepared: Any) -> PromptPlanned:
    entry = prepared.plan.entry
    assert isinstance(entry, PromptPlanned)
    return entry


def test_a_plan_says_what_is_sent_how_large_it_is_and_what_it_was_made_of(home: Path) -> None:
    stage = Stage(home, window=10_000)
    first = stage.chat(words(100), words(100))
    stage.ask(words(100))
    second = stage.plan(3)
    plan, measure = plan_of(second), plan_of(second).measure
    assert measure is not None
    assert (plan.call, plan.model, plan.window, plan.reserve) == (3, "test/plain", 10_000, 2_500)
    assert plan.window_label == "measured"
    assert plan.at < plan.spans[0].first <= plan.spans[-1].last == plan.through
    assert plan.through == second.plan.seq - 1
    assert measure.tokens == second.tokens == 343
    assert measure.utilization == 0.0457
    assert measure.used == (16, 0, 327, 0, 0, 0)
    limits = plan_of(first).measure
    assert limits is not None
    assert limits.used == tuple(share.tokens for share in limits.components)
    assert [share.name for share in limits.components][:3] == [
        *("system_prompt", "tool_definitions", "message_history")
    ]
    assert plan.raw_tokens == 327
    assert plan.correction == 1.05
    assert (plan_of(first).stable_prefix, plan.stable_prefix) == (0, first.tokens)
    assert plan.prompt_hash == second.prompt_hash == second.request.hash
    assert plan.prompt_hash != first.prompt_hash
    assert (plan.images, plan.sounds, plan.tail, plan.sampling) == (True, False, (), None)
    assert second.lines[-1] == second.plan
    assert rebuild(stage.history, second.plan) == second.request


@pytest.mark.parametrize(
    ("output", "wished", "most"),
    [(0, 0, 2_500), (100, 0, 100), (0, 90, 90), (100, 90, 90), (80, 90, 80), (9_000, 0, 2_500)],
)
def test_an_answer_is_as_long_as_all_who_limit_it_allow(
    home: Path, output: int, wished: int, most: int
) -> None:
    stage = Stage(home, window=10_000)
    stage.ask("hello")
    wish = Sampling(max_tokens=wished or None)
    prepared = finish(prepare(stage.window, Target(max_output=output), call=1, sampling=wish))
    assert (prepared.max_tokens, plan_of(prepared).max_tokens) == (most, most)
    assert prepared.sampling == wish
    assert plan_of(prepared).sampling == (wish if wished else None)


def test_secrets_in_what_is_wished_are_sent_and_not_written_down(home: Path) -> None:
    stage = Stage(home)
    stage.transcript.clean = lambda text: text.replace("secret", "•••")
    stage.ask("hello")
    wish = Sampling(stop=("a secret", "END"), output_format={"type": "secret", "n": 1})
    prepared = finish(prepare(stage.window, call=1, sampling=wish))
    assert prepared.sampling == wish
    assert plan_of(prepared).sampling == Sampling(
        stop=("a •••", "END"), output_format={"type": "•••", "n": 1}
    )


def test_each_zone_is_announced_once_as_it_is_entered_and_left(home: Path) -> None:
    stage = Stage(home, window=10_000)
    told: list[ZoneChanged] = []
    carried = []
    for number in range(30):
        prepared = stage.chat(words(100, f"q{number}"), words(100, f"a{number}"))
        told += [one.entry for one in prepared.lines if isinstance(one.entry, ZoneChanged)]
        planned = plan_of(prepared).carried
        assert planned is not None
        carried.append(planned.zone)
    assert [(one.before, one.after) for one in told] == [
        ("green", "yellow"),
        ("yellow", "orange"),
        ("orange", "red"),
    ]
    assert [one.utilization for one in told] == [0.4244, 0.6573, 0.8612]
    assert [(one.tokens, one.usable) for one in told] == [
        (3_183, 7_500),
        (4_930, 7_500),
        (6_459, 7_500),
    ]
    assert [carried.count(zone) for zone in ("green", "yellow", "orange", "red")] == [14, 8, 7, 1]


def test_a_share_is_announced_as_it_crosses_a_mark_and_recall_never_is(home: Path) -> None:
    stage = Stage(home, window=10_000)
    told: list[ShareCrossed] = []
    for number in range(25):
        stage.ask(words(100, f"q{number}"))
        recalled = stage.transcript.append(
            RecallInjected(passages=(), text=words(700, "recall"), tokens=700), turn=stage.turn
        )
        prepared = stage.plan(tail=(recalled.seq,))
        assert plan_of(prepared).tail == (recalled.seq,)
        told += [one.entry for one in prepared.lines if isinstance(one.entry, ShareCrossed)]
        stage.answer(words(100, f"a{number}"))
        stage.end()
    crossed = [(one.component, one.before, one.after) for one in told]
    assert crossed == [("message_history", "free", "soft"), ("message_history", "soft", "hard")]
    assert all(one.limit == 5_131 for one in told)
    assert 4_104 <= told[0].tokens < 5_131 <= told[1].tokens
    carried = plan_of(stage.prepared[-1]).carried
    assert carried is not None
    assert stage.window.watch.carried.shares == {"message_history": "hard"}


def test_two_shares_are_announced_in_one_plan_and_one_that_is_free_again_too(home: Path) -> None:
    stage = Stage(home, window=10_000, instructions=words(460))
    stage.ask(words(4_500))
    told = [one.entry for one in stage.plan().lines if isinstance(one.entry, ShareCrossed)]
    assert [(one.component, one.after) for one in told] == [
        ("system_prompt", "hard"),
        ("message_history", "soft"),
    ]
    stage.answer("ok")
    stage.end()
    stage.window.set_instructions([])
    stage.ask("and now?")
    told = [one.entry for one in stage.plan().lines if isinstance(one.entry, ShareCrossed)]
    assert [(one.component, one.before, one.after) for one in told] == [
        ("system_prompt", "hard", "free")
    ]
    assert stage.window.watch.carried.shares == {"message_history": "soft"}


class Loaded(Quarter):
    """A counter that must be loaded before it is asked."""

    loaded = 0

    async def ready(self) -> None:
        self.loaded += 1

    def text(self, text: str) -> int:
        assert self.loaded, "asked too soon"
        return super().text(text)


def test_a_vocabulary_is_loaded_before_anything_is_counted(home: Path) -> None:
    async def nothing(*_: object) -> list[Any]:
        return []

    for way in (prepare, make_room, make_room_by):
        stage = Stage(home / way.__name__)
        stage.counter = Loaded()
        stage.window = stage.open()
        stage.window.set_model("test/plain", window=9_000, label="measured")
        stage.ask("hello")
        if way is prepare:
            stage.plan()
        elif way is make_room:
            assert finish(make_room(stage.window)) == []
        else:
            assert finish(make_room_by(stage.window, nothing)) == []
        assert stage.counter.loaded > 0


def test_room_is_made_for_what_recall_will_still_bring(home: Path) -> None:
    stage = Stage(home, window=10_000)
    for number in range(30):
        stage.chat(words(100, f"q{number}"), words(100, f"a{number}"))
    stage.ask("and now?")
    assert finish(make_room(stage.window)) == []
    lines = finish(make_room(stage.window, expected=1_000))
    assert "context_window_pruned" in [line.kind for line in lines]


def test_the_state_is_written_down_again_after_four_thousand_lines(home: Path) -> None:
    stage = Stage(home, window=100_000)
    stage.chat("hello", "hello")
    turn = stage.ask("on")
    at = stage.window.fold.at
    missing = 4_096 - (stage.transcript.head.seq - at) - 1
    stage.transcript.append_all(
        [Draft(entry=Forked(child="x", at=1), turn=turn, channel="test") for _ in range(missing)]
    )
    assert "window_carried" not in kinds(stage.plan())
    assert kinds(stage.plan())[0] == "window_carried"
    assert "window_carried" not in kinds(stage.plan())
    assert stage.window.fold.at > at
    for line in plans_of_turn(stage.history, turn):
        assert rebuild(stage.history, line).hash == line.entry.prompt_hash  # type: ignore[union-attr]


def test_what_leaves_no_room_for_a_question_is_refused_before_anything_leaves(home: Path) -> None:
    stage = Stage(home, window=10_000)
    stage.chat("hello", "hello")
    stage.window.set_instructions([Section(name="rules", text=words(9_000))])
    stage.ask("and now?")
    with pytest.raises(WindowError):
        stage.plan()
    with pytest.raises(WindowError):
        finish(make_room(stage.window))
    assert plans_of_turn(stage.history, stage.turn) == []


def test_what_no_provider_would_take_is_not_sent(home: Path) -> None:
    stage = Stage(home)
    with pytest.raises(WindowError, match="nothing to answer yet"):
        stage.plan()
    stage.ask("look")
    stage.answer("", [ToolCall(id="c1", name="read", arguments="{}")])
    prepared = stage.plan()
    assert "window_repaired" in kinds(prepared)
    assert first_unpaired(prepared.request.messages) is None


def test_pictures_are_rebuilt_from_their_blobs_and_only_named_where_none_were_sent(
    home: Path,
) -> None:
    stage = Stage(home)
    kept = stage.transcript.keep_blob(b"\x89PNG bytes")
    picture = Image(sha256=kept.sha256, media_type="image/png", width=2, height=3)
    turn = stage.ask("hello")
    stage.transcript.append(UserMessage(text="this", images=(picture,)), turn=turn)
    sent, named = stage.plan(), stage.plan(images=False)
    assert sent.request != named.request
    for prepared in (sent, named):
        assert rebuild(stage.history, prepared.plan) == prepared.request
    assert "base64" in str(sent.request.messages)
    assert "base64" not in str(named.request.messages)
    assert [plan_of(each).images for each in (sent, named)] == [True, False]


def test_only_the_plans_of_the_conversation_count_and_nothing_else_is_one(home: Path) -> None:
    stage = Stage(home)
    stage.work("look", [words(20)], "seen")
    side = PromptPlanned(call=1, at=-1, through=1, spans=(), model="m", purpose="summary")
    stage.transcript.append(side, turn=1)
    stage.chat("on", "on")
    found = plans_of_turn(stage.history, 1)
    assert [line.seq for line in found] == [each.plan.seq for each in stage.prepared[:2]]
    assert plans_of_turn(stage.history, 9) == []
    other = stage.history.line(3)
    with pytest.raises(NoSuchEntry, match="not a planned request"):
        rebuild(stage.history, other)
