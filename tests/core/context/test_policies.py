"""Six policies, one meaning of score: 1 keeps, 0 leaves first."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core.config.settings import EvictionSettings
from mindstone_tui.core.context.exchanges import exchanges, names_in, references
from mindstone_tui.core.context.policies import (
    POLICIES,
    EvictionCandidate,
    marked_important,
    marked_to_stay,
    rank,
    repeated_by_newer,
    source_of,
    text_of,
    word_similarity,
)
from mindstone_tui.core.entries import Entry, ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ToolReturned,
    UserMessage,
)
from mindstone_tui.core.entries.window import ContextWindowPruned, Forked
from mindstone_tui.core.errors import UnknownName
from tests.builders import line_of
from tests.core.context.stage import Stage, with_context, words


def unit(turn: int, text: str = "", **changes: object) -> EvictionCandidate:
    given = {
        "key": turn,
        "turn": turn,
        "tokens": 100,
        "text": text or f"turn {turn}",
        "weights": {"user": 50, "assistant": 50},
        "referenced": turn,
    }
    return EvictionCandidate(**{**given, **changes})  # type: ignore[arg-type]


def order(policy: str, *candidates: EvictionCandidate, query: str = "") -> list[int]:
    return [each.candidate.key for each in rank(policy, candidates, now=30, query=query)]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_scores_between_leave_and_keep_and_shows_its_parts(policy: str) -> None:
    ranked = rank(policy, [unit(turn) for turn in range(1, 30)], now=30, query="turn 5")
    assert [each.score for each in ranked] == sorted(each.score for each in ranked)
    for each in ranked:
        assert 0 <= each.score <= 1
        assert each.parts
        assert each.score == pytest.approx(min(sum(each.parts.values()), 1), abs=0.001)
        assert each.reason


ALONE = {"user": 100}
WORTH: dict[tuple[str, str], tuple[dict[str, object], dict[str, float]]] = {
    ("fifo", "new"): ({"turn": 30}, {"recency": 1.0}),
    ("fifo", "from tomorrow"): ({"turn": 35}, {"recency": 1.0}),
    ("fifo", "ten turns old"): ({"turn": 20}, {"recency": 0.5}),
    ("fifo", "twenty turns old"): ({"turn": 10}, {"recency": 0.25}),
    ("lru", "mentioned now"): ({"referenced": 30}, {"referenced": 1.0}),
    ("lru", "mentioned five turns ago"): ({"referenced": 25}, {"referenced": 0.5}),
    ("semantic_merge", "ten turns old"): ({"turn": 20}, {"unique": 0.5, "recency": 0.25}),
    ("type_based", "said by a person"): ({"turn": 20, "weights": ALONE}, {"time_to_live": 0.8}),
    ("type_based", "two sources"): (
        {"turn": 24, "weights": {"user": 25, "assistant": 75}},
        {"time_to_live": 0.25 * 0.88 + 0.75 * 0.8},
    ),
    ("type_based", "outlived in part"): (
        {"turn": 20, "weights": {"user": 50, "tool_result": 50}},
        {"time_to_live": 0.4},
    ),
    ("type_based", "from tomorrow"): ({"turn": 35, "weights": ALONE}, {"time_to_live": 1.0}),
    ("type_based", "empty"): ({"turn": 30, "weights": {}}, {"time_to_live": 0.0}),
    ("priority", "old"): (
        {"turn": 15, "weights": ALONE},
        {"recency": 0.15, "semantic": 0.0, "source": 0.2, "reuse": 0.0, "explicit": 0.0},
    ),
    ("priority", "all that keeps"): (
        {
            "turn": 30,
            "weights": {"tool_result": 100},
            "references": 99,
            "important": True,
            "text": "granite bridge plan",
        },
        {"recency": 0.3, "semantic": 0.25, "source": 0.06, "reuse": 0.15, "explicit": 0.1},
    ),
    ("priority", "half of the question"): (
        {"turn": 30, "weights": {"assistant": 9}, "references": 2, "text": "a granite wall there"},
        {"recency": 0.3, "semantic": 0.125, "source": 0.1, "reuse": 0.06, "explicit": 0.0},
    ),
    ("hybrid", "ten turns old"): (
        {"turn": 20, "weights": ALONE, "references": 1},
        {
            "recency": 0.15,
            "priority": 0.25 * (0.3 * 0.63 + 0.2 + 0.03),
            "time_to_live": 0.16,
            "references": 0.03,
            "unique": 0.1,
        },
    ),
}
"""What one candidate is worth in turn 30, where the question is about a granite bridge."""


@pytest.mark.parametrize(("policy", "case"), WORTH)
def test_each_policy_weighs_what_its_settings_say(policy: str, case: str) -> None:
    changes, parts = WORTH[policy, case]
    (scored,) = rank(policy, [unit(**{"turn": 1, **changes})], now=30, query="granite bridge")  # type: ignore[arg-type]
    assert scored.parts == pytest.approx(parts, abs=2e-4)
    assert scored.score == pytest.approx(sum(parts.values()), abs=2e-4)


def test_without_a_question_nothing_is_compared_with_it() -> None:
    def never(one: str, other: str) -> float:
        raise AssertionError

    (scored,) = rank("priority", [unit(1)], now=30, similar=never)
    assert scored.parts["semantic"] == 0


def test_a_score_stays_between_leave_and_keep_whatever_the_weights_are() -> None:
    for weight, score in ((9.0, 1.0), (-9.0, 0.0)):
        how = EvictionSettings(priority={"recency": weight})
        assert rank("priority", [unit(30)], now=30, how=how)[0].score == score


def test_of_the_same_worth_the_older_leaves_first() -> None:
    same = [unit(9, key=4, weights={}), unit(8, key=6, weights={}), unit(9, key=2, weights={})]
    ranked = rank("type_based", same, now=30)
    assert [each.candidate.key for each in ranked] == [6, 2, 4]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("granite bridge", "the granite bridge over the river", 1.0),
        ("granite wall", "granite bridge", 0.5),
        ("granite", "wood", 0.0),
        ("red", "red", 1.0),
        ("", "granite", 0.0),
        ("of it", "of it", 0.0),
        (f"granite {'x ' * 1_500} bridge", "bridge", 0.0),
        ("bridge", f"granite {'x ' * 1_500} bridge", 0.0),
        (f"granite {'x ' * 500} bridge", "bridge", 1.0),
    ],
)
def test_texts_are_as_alike_as_the_words_that_the_shorter_shares(
    one: str, other: str, alike: float
) -> None:
    """Words of three letters and more, in as much of both as is worth comparing."""
    assert word_similarity(one, other) == alike


@pytest.mark.parametrize(
    ("older", "newer", "repeated"),
    [
        ("red green blue grey", "red green blue grey", 1.0),
        ("red green blue grey", "grey blue green red", 1.0),
        ("red green blue grey", "red", 0.5),
        ("red", "red green blue grey", 0.5),
        ("red green", "blue grey", 0.0),
        (" ", "red", 0.0),
        (f"red {'x ' * 1_500} blue", "red", 1.0),
        ("red", f"red {'x ' * 1_500} blue", 1.0),
        ("red", f"red {'x ' * 500} blue", 0.7071),
    ],
)
def test_how_much_is_repeated_is_a_matter_of_both_texts(
    older: str, newer: str, repeated: float
) -> None:
    """Whether the newer one may leave as well, or stays."""
    pair = [unit(2, newer), unit(1, older)]
    assert repeated_by_newer(pair) == pytest.approx({1: repeated, 2: 0.0}, abs=1e-4)
    found = repeated_by_newer([unit(1, older)], [(2, newer)])
    assert found == pytest.approx({1: repeated}, abs=1e-4)
    for turn in (0, 1):
        assert repeated_by_newer([unit(1, older)], [(turn, newer)]) == {1: 0.0}


def test_the_next_two_hundred_are_compared_and_of_those_that_stay_the_last() -> None:
    def repeated(distance: int) -> float:
        between = [unit(2 + number, f"word{number}") for number in range(distance - 1)]
        return repeated_by_newer([unit(1, "red"), *between, unit(999, "red")])[1]

    def stays(after: int) -> float:
        later = [(3 + number, f"word{number}") for number in range(after)]
        return repeated_by_newer([unit(1, "red")], [(2, "red"), *later])[1]

    assert [repeated(distance) for distance in (1, 200, 201)] == [1.0, 1.0, 0.0]
    assert [stays(after) for after in (0, 199, 200)] == [1.0, 1.0, 0.0]


CALL = ToolCall(id="c", name="read_file", arguments='{"path": "src/a.py"}')
READ: dict[str, tuple[Entry, str, str, tuple[bool, bool]]] = {
    "a person": (UserMessage(text="IMPORTANT: tabs"), "IMPORTANT: tabs", "user", (True, False)),
    "a person who insists": (
        UserMessage(text="DO_NOT_EVICT tabs"),
        "DO_NOT_EVICT tabs",
        "user",
        (True, True),
    ),
    "a person who means another word": (
        UserMessage(text="UNIMPORTANT xDO_NOT_EVICT"),
        "UNIMPORTANT xDO_NOT_EVICT",
        "user",
        (False, False),
    ),
    "the model": (
        AssistantMessage(text="IMPORTANT DO_NOT_EVICT", calls=(CALL,)),
        "IMPORTANT DO_NOT_EVICT read_file src/a.py",
        "assistant",
        (False, False),
    ),
    "half an answer": (AssistantPartial(text="IMPO"), "IMPO", "assistant", (False, False)),
    "a tool": (
        ToolReturned(call="c", name="x", text="DO_NOT_EVICT", status="ok"),
        "DO_NOT_EVICT",
        "tool_result",
        (False, False),
    ),
    "bookkeeping": (Forked(child="other", at=1), "", "assistant", (False, False)),
}


@pytest.mark.parametrize("case", READ)
def test_a_line_is_read_by_who_said_it(case: str) -> None:
    entry, text, source, marks = READ[case]
    line = line_of(entry)
    assert (text_of(line), source_of(line)) == (text, source)
    assert (marked_important([line]), marked_to_stay([line])) == marks


def test_fifo_lets_the_oldest_go() -> None:
    assert order("fifo", unit(3), unit(1), unit(2)) == [1, 2, 3]


def test_lru_lets_go_what_nobody_mentioned_lately() -> None:
    assert order("lru", unit(1, referenced=29), unit(2), unit(20)) == [2, 20, 1]


def test_a_new_exchange_is_not_colder_than_an_old_one() -> None:
    assert order("lru", unit(30), unit(1)) == [1, 30]


def test_priority_keeps_what_the_question_is_about_what_is_used_and_what_is_marked() -> None:
    assert order("priority", unit(1, "granite bridge plan"), unit(2), query="granite bridge") == [
        2,
        1,
    ]
    assert order("priority", unit(1, references=9), unit(2)) == [2, 1]
    assert order("priority", unit(1, important=True), unit(2)) == [2, 1]


def test_type_based_lets_old_tool_results_go_before_what_people_said() -> None:
    tool, people = {"tool_result": 100}, {"user": 100}
    assert order("type_based", unit(10, weights=people), unit(20, weights=tool)) == [20, 10]


def test_semantic_merge_keeps_the_newest_of_duplicates() -> None:
    same = "the quick stone rolls down the green hill"
    assert order(
        "semantic_merge", unit(1, "something else entirely"), unit(9, same), unit(20, same)
    ) == [
        9,
        1,
        20,
    ]


def test_hybrid_counts_repetition_against_keeping() -> None:
    same = "the quick stone rolls down the green hill"
    ranked = rank("hybrid", [unit(10, same), unit(11, same)], now=30)
    parts = {each.candidate.key: each.parts["unique"] for each in ranked}
    assert parts[10] == 0
    assert parts[11] == 0.1


def test_a_long_exchange_is_not_repeated_by_a_short_one_that_shares_its_words() -> None:
    plan = "The granite bridge needs four piers, a survey of the river bed and a new estimate."

    def repeated(newer: str) -> float:
        return repeated_by_newer([unit(1, plan), unit(2, newer)])[1]

    assert repeated("the granite bridge") < 0.85 < repeated(f"{plan} Indeed.")
    assert repeated("") == 0
    assert order("semantic_merge", unit(1), unit(9, plan), unit(20, "the granite bridge")) == [
        1,
        9,
        20,
    ]


def test_weights_half_lives_and_turns_to_live_can_be_set() -> None:
    pair = [unit(1, references=9), unit(20)]
    how = EvictionSettings(priority={"recency": 0.0, "reuse": 0.45})
    assert [each.candidate.key for each in rank("priority", pair, now=30, how=how)] == [20, 1]
    short = EvictionSettings(fifo_half_life=1.0, turns_to_live={"user": 1.0, "assistant": 1.0})
    assert rank("fifo", [unit(20)], now=30, how=short)[0].score == 0.001
    assert rank("type_based", [unit(20)], now=30, how=short)[0].score == 0


def test_a_better_similarity_can_be_passed_in() -> None:
    ranked = rank(
        "priority",
        [unit(1, "pebble"), unit(2, "cloud")],
        now=30,
        query="stone",
        similar=lambda one, other: 1.0 if "pebble" in one else 0.0,
    )
    assert ranked[0].candidate.key == 2


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="nope") as refused:
        rank("nope", [unit(1)], now=2)
    assert "semantic_merge" in refused.value.remedy


def test_names_are_paths_identifiers_and_ids_but_not_words() -> None:
    assert names_in("see src/app/main.py and load_config, then parseLine.") == {
        "src/app/main.py",
        "load_config",
        "parseLine",
    }
    assert names_in("only some plain words here, nothing more") == frozenset()


def test_a_later_message_that_names_the_same_file_refers_to_the_earlier(home: Path) -> None:
    stage = Stage(home)
    stage.chat("open src/deep/bridge.py", "done")
    stage.chat("something else", "sure")
    stage.chat("now src/deep/bridge.py again", "ok")
    fold = stage.window.fold
    stage.window.catch_up()
    found = references(fold.lines.values(), ())
    assert (found[1].last, found[1].count) == (3, 1)
    assert (found[2].last, found[2].count) == (2, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_session_lives_under_every_policy_and_can_change_it(home: Path, policy: str) -> None:
    stage = Stage(home, window=4_000, settings=with_context(policy=policy))
    for number in range(40):
        prepared = stage.work(words(20, f"q{number}"), [words(60, f"r{number}")], words(30))[-1]
    assert prepared.tokens <= 3_000 * 0.92
    stage.window.set_policy("lru")
    while True:
        prepared = stage.chat(words(60, f"x{stage.turn}"), words(60))
        prunes = [e.entry for e in prepared.lines if isinstance(e.entry, ContextWindowPruned)]
        if prunes:
            break
    assert prunes[0].policy == "lru"
    assert all("referenced" in left.parts for left in prunes[0].left)


def test_a_newer_copy_counts_although_it_may_not_leave_itself(home: Path) -> None:
    plan = "The granite bridge needs four piers and a survey of the river bed. " * 3
    stage = Stage(home, window=16_000)
    stage.chat("task", "ok")
    stage.chat("something about otters and herons in the marsh", words(60, "otter"))
    stage.chat(plan, "noted")
    stage.chat(plan, "noted")
    units = exchanges(stage.window.measure(stage.window.now()), stage.window.fold.staying)
    candidates = [unit for unit in units if unit.turn in (2, 3)]
    ranked = stage.window.rank(candidates, "semantic_merge")
    assert [scored.candidate.key for scored in ranked] == [3, 2]


def test_what_the_person_marked_does_not_leave(home: Path) -> None:
    stage = Stage(home, window=8_000, settings=with_context(min_recent=2))
    stage.chat("task", "ok")
    stage.chat("DO_NOT_EVICT: the vault opens at noon", words(30))
    gone: set[int] = set()
    while len(gone) < 8:
        prepared = stage.chat(words(60, f"q{stage.turn}"), words(120, f"a{stage.turn}"))
        pruned = [one.entry for one in prepared.lines if isinstance(one.entry, ContextWindowPruned)]
        gone |= {left.turn for entry in pruned for left in entry.left}
    assert 2 not in gone
    assert 3 in gone


def test_however_fast_a_session_grows_no_exchange_leaves_below_the_ceiling(home: Path) -> None:
    stage = Stage(home, window=64_000, settings=with_context(min_recent=2))
    usable = stage.window.now().room.usable
    before = []
    for number in range(12):
        prepared = stage.chat(words(30), words(9_000, f"a{number}"))
        before += [
            one.entry.tokens_before
            for one in prepared.lines
            if isinstance(one.entry, ContextWindowPruned)
        ]
    assert before
    assert min(before) > usable * 0.92 - 1


def test_a_limit_in_tokens_holds_in_a_huge_window(home: Path) -> None:
    stage = Stage(home, window=1_000_000, settings=with_context(max_tokens=8_000))
    for number in range(60):
        prepared = stage.chat(words(60, f"q{number}"), words(200, f"a{number}"))
        assert prepared.tokens <= 8_000
    assert stage.window.now().room.usable == 8_000
