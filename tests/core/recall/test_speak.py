"""When recall speaks: messages and histories of our own, small, with the words' own vectors."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.language.intent import intent_of
from mindstone_tui.core.paths import Places
from mindstone_tui.core.recall.candidates import AskedWords, Gathered
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.index import InMemoryIndex, RecallIndex, SearchResult
from mindstone_tui.core.recall.inject import choose, queries
from mindstone_tui.core.recall.lexicon import slips_between
from mindstone_tui.core.recall.question import read_question
from mindstone_tui.core.recall.ranking import Candidate, Hit
from mindstone_tui.core.recall.speak import (
    ABOUT_OTHERS,
    ASKS_NOTHING,
    NAMES_NOTHING,
    NOTHING_CLOSE,
    NOTHING_THERE,
    Judgement,
    judge,
    rules_that_apply,
    silence,
    specifics,
    worth_injecting,
)
from mindstone_tui.core.replay.playback import open_sample
from tests.core.recall.talk import WordModel, said
from tests.corpora import lines

SMALL_TALK = (
    "ok",
    "Thanks!",
    "yes please",
    "/context",
    "go on",
    "👍",
    "  ",
    "!ls",
    "do it",
    "tell me slowly",
    "Great, thank you so much!",
    "Let's move on to the next step.",
    "Good morning! How are you today?",
    "hello, who are you and what can you do?",
    "Are you sure?",
    "why?",
    "What do you mean?",
    "a bit shorter please",
)
INSTRUCTIONS = (
    "Write a haiku about autumn.",
    "Run the tests.",
    "Could you translate this into French?",
    "Please sort the list by date.",
    "Let's build a calculator.",
    "Add a docstring there.",
    "I'm a bit tired today.",
    "The build is green again.",
)
QUESTIONS = (
    "why does the build fail",
    "ok, but which port?",
    "東京は？",
    "When did Mira sell the boat?",
    "Thanks! And what was the name of the harbour?",
    "Please use the port that we agreed on.",
    "remind me of the address",
    "Wie heißt der Hafen?",
    "I told you the code of the gate, type it in.",
)


@pytest.mark.parametrize("message", SMALL_TALK)
def test_small_talk_and_commands_ask_for_nothing(message: str) -> None:
    assert intent_of(message) == "nothing"


@pytest.mark.parametrize("message", INSTRUCTIONS)
def test_an_instruction_or_a_remark_tells(message: str) -> None:
    assert intent_of(message) == "tells"


@pytest.mark.parametrize("message", QUESTIONS)
def test_a_question_asks_and_so_does_what_refers_to_the_past(message: str) -> None:
    assert intent_of(message) == "asks"


@given(st.text(max_size=300))
def test_any_text_has_an_intent(text: str) -> None:
    assert intent_of(text) in ("nothing", "asks", "tells")


TALK = (
    ("Mira", "Good morning, Jonas! Did you sleep well?"),
    ("Jonas", "Yes, thanks. The rain has stopped at last."),
    ("Mira", "I sold the sailing boat to a dentist from Kiel on Tuesday."),
    ("Jonas", "Wow, that was quick! What did you get for the boat?"),
    ("Mira", "Nine thousand, and he paid in cash."),
    ("Jonas", "Congratulations, Mira. You must be happy about the boat."),
    ("Mira", "I am. How is your garden?"),
    ("Jonas", "I planted forty tulips and a cherry tree behind the shed."),
    ("Mira", "Lovely! Do you play any instrument these days?"),
    ("Jonas", "I practise the cello every evening after supper."),
    ("Mira", "My brother Anton moved to Lisbon in spring."),
    ("Jonas", "Lisbon is on my list for the autumn holidays."),
)


def history(folder: Path, talk: tuple[tuple[str, str], ...] = TALK) -> RecallIndex:
    index = RecallIndex.open(folder / "index.db", WordModel())
    index.ensure(
        said(text, seq, speaker=name, role="user" if name == "Mira" else "assistant")
        for seq, (name, text) in enumerate(talk, start=1)
    )
    while index.embed_pending():
        pass
    return index


def reason(found: SearchResult) -> str:
    return silence(found.query, found.hits, found.judged)


@pytest.mark.parametrize(
    ("question", "seq"),
    [
        ("To whom did Mira say she sold the sailing boat?", 3),
        ("Which tree did Jonas plant behind the shed?", 8),
        ("What instrument does Jonas practise in the evening?", 10),
        ("Where did Anton move in spring?", 11),
        ("who sold the sailing boat on tuesday", 3),
    ],
)
def test_it_speaks_where_history_has_the_answer(tmp_path: Path, question: str, seq: int) -> None:
    found = history(tmp_path).search(question, 5)
    assert reason(found) == ""
    assert seq in [hit.passage.seq for hit in found.hits[:3]]


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of Portugal?",
        "How many litres of diesel does the generator burn?",
        "Why did the court reject the appeal?",
        "Which printer do we use for shipping labels?",
    ],
)
def test_it_keeps_silent_on_what_was_never_said(tmp_path: Path, question: str) -> None:
    assert reason(history(tmp_path).search(question, 5)) != ""


def test_it_keeps_silent_on_people_who_were_never_mentioned(tmp_path: Path) -> None:
    found = history(tmp_path).search("When did Ottilie sell the sailing boat?", 5)
    assert reason(found) == "History never mentions ottilie."


@pytest.mark.parametrize(
    "question",
    [
        "To whom did Jonas sell the sailing boat?",
        "How many tulips did Mira plant behind the shed?",
        "When does Mira practise the cello?",
    ],
)
def test_it_keeps_silent_on_what_the_other_one_did(tmp_path: Path, question: str) -> None:
    assert reason(history(tmp_path).search(question, 5)) == ABOUT_OTHERS


def test_who_asks_about_something_is_not_whom_it_is_about(tmp_path: Path) -> None:
    found = history(tmp_path).search("Which instrument does Jonas play?", 5)
    assert reason(found) == ""


def judged(
    *found: tuple[str, float],
    asked: str = "the colour of the boat",
    by: str = "user",
    role: str = "user",
    other: float | None = None,
    vectors: bool = True,
    rarity: float = 1e9,
    **gathered: Any,
) -> float:
    """How good hits with this text and evidence are, in floors: from 1 on recall speaks."""
    passages = [said(text, seq, speaker=by, role=role) for seq, (text, _) in enumerate(found)]
    hits = [
        Hit(passage=passage, score=value, parts={"meaning": value}, text=passage.text)
        for passage, (_, value) in zip(passages, found, strict=True)
    ]
    candidates = [
        Candidate(row=passage.seq, sitting=0, passage=passage, meaning=1.0, other=other)
        for passage in passages
    ]
    known = Gathered(candidates=candidates, asked=rarity, **{"passages": 2_000, **gathered})
    return judge(read_question(asked), known, hits, vectors=vectors).strength


STRONG = ("The boat is teal.", 0.65)
"""A hit that is enough by itself."""


def test_what_the_model_advises_says_less_about_me_than_what_i_said() -> None:
    advice = ("Coursera offers academic writing.", 0.7)
    mine, ours = "Have I enrolled at Coursera?", "Have you found Coursera?"
    assert judged(advice, asked=mine) >= 1
    assert judged(advice, asked=mine, by="assistant", role="assistant") < 1
    for asked in (ours, "Should I enrol at Coursera?", "What did you tell me of Coursera?"):
        assert judged(advice, asked=asked, by="assistant", role="assistant") >= 1
    sure = (advice[0], 0.95)
    assert judged(sure, asked=mine, by="assistant", role="assistant") >= 1


def test_what_was_asked_of_the_model_says_less_than_what_was_told() -> None:
    question = ("Is the boat teal?", STRONG[1])
    assert judged(question) < 1 <= judged(STRONG)
    assert judged(question, by="Mira") >= 1
    assert judged((question[0], 0.75)) >= 1


def test_one_hit_is_enough_if_it_is_strong_and_needs_company_if_it_is_not() -> None:
    middling, weak = ("The boat is teal.", 0.55), ("The boat is teal.", 0.45)
    assert judged(STRONG) >= 1
    assert judged(middling) < 1 <= judged(middling, middling, middling)
    assert judged(weak, weak, weak) < 1
    fair, poor = ("The boat is teal.", 0.4), ("The boat is teal.", 0.3)
    assert judged(middling, fair, fair) >= 1 > judged(middling, poor, poor)


def test_the_three_best_count_together_in_whatever_order_and_no_others() -> None:
    texts = [("The boat is teal.", value) for value in (0.55, 0.4, 0.4, 0.1, 0.1, 0.1)]
    assert judged(*texts) == judged(*reversed(texts)) == judged(*texts[:3])
    assert judged(*texts[:3]) > judged(*texts[:2]) >= judged(texts[0])
    others = [("The boat is red.", 0.0)] * 15
    assert judged(*others, STRONG) == judged(STRONG)
    assert judged(*others, *others, STRONG) == 0, "what stands so far down decides nothing"


def test_strength_is_told_in_floors_and_never_below_nothing() -> None:
    assert judged(("The boat is teal.", 0.575)) == pytest.approx(1.0)
    assert judged(("The boat is teal.", 0.4), vectors=False) == pytest.approx(1.0)
    assert judged(("The boat is teal.", 0.575), rarity=3.0) == pytest.approx(0.5)
    assert judged(("The boat is teal.", 0.2), unknown=("ottilie",)) == 0
    just = Hit(passage=said("The boat is teal."), score=1.0, parts={"words": 0.4}, text="")
    enough = Gathered(candidates=[], asked=1e300, passages=2_000)
    found = judge(read_question("boat"), enough, [just], vectors=False)
    assert (found.strength, found.reason) == (1.0, "")
    unknown = Gathered(candidates=[], asked=9.0, passages=2_000, unknown=("ottilie", "kiel"))
    weak = Hit(passage=said("The boat is teal."), score=0.1, parts={"words": 0.1}, text="")
    told = judge(read_question("boat"), unknown, [weak], vectors=True).reason
    assert told == "History never mentions ottilie, kiel."


@pytest.mark.parametrize(
    ("parts", "strength"),
    [
        ({"words": 0.2, "meaning": 0.2, "closeness": 0.175}, 0.575),
        ({"words": 0.575, "neighbours": 0.3}, 0.575 + 0.15),
        ({"words": 0.575, "asks": -0.1, "time": 0.2}, 0.675),
        ({"words": 0.575, "sitting": 1.0, "pin": 1.0, "kind": 1.0}, 0.575),
    ],
)
def test_what_a_text_says_counts_and_half_of_what_stands_around_it(
    parts: dict[str, float], strength: float
) -> None:
    hit = Hit(passage=said("The boat is teal."), score=1.0, parts=parts, text="The boat is teal.")
    gathered = Gathered(candidates=[], asked=1e9, passages=2_000)
    found = judge(read_question("boat"), gathered, [hit], vectors=True).strength
    assert found == pytest.approx(strength / 0.575)


def people(asked: str, *talk: tuple[str, str, float], passages: int = 500) -> tuple[str, float]:
    """Whether what was found is about whom was asked about: speaker, words and evidence of each."""
    spoken = [
        (said(text, seq, speaker=by, role="tool" if by == "shell" else "user"), value)
        for seq, (by, text, value) in enumerate(talk)
    ]
    hits = [
        Hit(passage=one, score=value, parts={"meaning": value}, text=one.text)
        for one, value in sorted(spoken, key=lambda each: -each[1])
    ]
    candidates = [
        Candidate(row=one.seq, sitting=0, passage=one, closeness=value / 1.3)
        for one, value in spoken
    ]
    gathered = Gathered(candidates=candidates, asked=1e9, passages=passages)
    found = judge(read_question(asked), gathered, hits, vectors=True)
    return found.reason, round(found.strength, 2)


MINE, ADDRESSED = "I sold the boat.", "You sold the boat."


@pytest.mark.parametrize(
    ("asked", "talk", "about_others"),
    [
        ("Did Ada sell the boat?", [("Ada", MINE, 0.8), ("Ben", "I see.", 0.1)], False),
        ("Did Ben sell the boat?", [("Ada", MINE, 0.8), ("Ben", "I see.", 0.1)], True),
        ("Did Ben sell the boat?", [("Ada", ADDRESSED, 0.8), ("Ben", "I see.", 0.1)], False),
        ("Did Ada sell the boat?", [("Ada", ADDRESSED, 0.8), ("Ben", "I see.", 0.1)], True),
        ("Did Ada sell the boat?", [("Ada", "Did you sell the boat?", 0.8), ("Ben", "I see.", 0.1)],
         True),
        ("Was the boat sold?", [("Ada", MINE, 0.8), ("Ben", "I see.", 0.1)], False),
        ("Did Ada or Ben sell the boat?", [("Ada", MINE, 0.8), ("Ben", "I see.", 0.1)], False),
        ("Did Ben sell the boat?", [("Ada", MINE, 0.8), ("Ben", MINE, 0.7)], False),
        ("Did Ben sell the boat?", [("Ada", MINE, 0.8), ("Ben", MINE, 0.6)], True),
        ("Did Ben sell the boat?",
         [("Ada", ADDRESSED, 0.8), ("Ben", "I see.", 0.1), ("Cy", "I see.", 0.1)], False),
        ("Did Ada sell the boat?",
         [("Ada", ADDRESSED, 0.8), ("Ben", "I see.", 0.1), ("Cy", "I see.", 0.1)], False),
        ("Did Ben sell the boat?",
         [("Ada", f"{MINE} {ADDRESSED}", 0.8), ("Ben", "I see.", 0.1)], False),
        ("Did Ben sell the boat?",
         [("Ada", f"{MINE} You look well today.", 0.8), ("Ben", "I see.", 0.1)], True),
        ("Did Ben sell the boat?", [("shell", "boat sold", 0.8), ("Ben", "I see.", 0.1)], False),
    ],
)  # fmt: skip
def test_what_was_found_must_be_about_whom_was_asked_about(
    asked: str, talk: list[tuple[str, str, float]], about_others: bool
) -> None:
    reason, strength = people(asked, *talk)
    assert (reason == ABOUT_OTHERS) is about_others
    assert (strength == 0) is about_others


def test_what_another_one_said_of_themselves_carries_nothing_for_whom_was_asked_about() -> None:
    both = [("Ada", MINE, 0.9), ("Ben", MINE, 0.8)]
    assert people("Did Ben sell the boat?", *both)[1] == round(0.8 / 0.575, 2)
    assert people("Did Ada sell the boat?", *both)[1] == round(0.9 / 0.575, 2)


def test_whom_the_strongest_are_about_is_asked_of_no_more_than_two_dozen() -> None:
    ours = [("Ben", MINE, 0.7)]
    theirs = [("Ada", MINE, 0.8)] * 24
    assert people("Did Ben sell the boat?", *theirs[1:], *ours)[0] == NOTHING_CLOSE
    assert people("Did Ben sell the boat?", *theirs, *ours)[0] == ABOUT_OTHERS


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ('Open `src/a.py` and "the log"', {"src/a.py", "the log"}),
        ("See ~/notes/x.md or db7.example", {"~/notes/x.md", "db7.example"}),
        ("call parseLine, LineReader and load_config", {"parseline", "linereader", "load_config"}),
        ("fix #12 and ABC-9 in v2", {"#12", "abc-9", "v2"}),
        ("nothing of that kind", set()),
        (f"{'x ' * 1_990}a_b", {"a_b"}),
        (f"{'x ' * 2_100}a_b", set()),
    ],
)
def test_a_message_names_identifiers_files_and_quotations(message: str, named: set[str]) -> None:
    assert specifics(message) == named
    assert specifics(message, ["Ada"]) == {*named, "Ada"}


@pytest.mark.parametrize(
    ("message", "applies"),
    [
        ("Push the fix to main.", True),
        ("Push it now.", False),
        ("Push the fix of the parser to the harbour of Bergen by noon.", False),
    ],
)
def test_a_rule_applies_to_what_shares_half_of_the_shorter_and_two_words(
    message: str, applies: bool
) -> None:
    text = "Never push a release to main without asking the harbour master."
    rule, remark = (
        Hit(passage=said(text), score=1.0, parts=parts, text=text)
        for parts in ({"rule": 0.14}, {"words": 0.9})
    )
    assert rules_that_apply(message, [rule, remark]) == ([rule] if applies else [])
    no_rule = Hit(passage=said("x"), score=1.0, parts={"rule": 0.1}, text="Push the fix to main.")
    assert rules_that_apply(message, [no_rule]) == []


def test_a_rule_that_holds_no_more_is_not_brought_back_alone() -> None:
    text = "Remember that our coffee machine is a Moccamaster."
    rule = Hit(passage=said(text), score=1.0, parts={"rule": 0.14}, text=text)
    for hit, brought in ((rule, [rule]), (msgspec.structs.replace(rule, superseded_by=7), [])):
        none = Judgement(strength=0.0, reason=NOTHING_CLOSE)
        found = SearchResult(query="coffee machine", hits=(hit,), judged=none, vectors=False)
        chosen = choose("coffee machine", [found], 2_000, len, most=5).injected
        assert [one.hit for one in chosen] == brought


def test_a_question_that_was_asked_before_answers_none() -> None:
    def along(text: str) -> bool:
        hit = Hit(passage=said(text), score=1.0, parts={"words": 1.0}, text=text)
        return worth_injecting("Where is the red boat?", [hit]) == [hit]

    assert not along("Where is the boat?")
    assert along("Where is the boat of Ada?")
    assert along("The boat is red.")
    assert worth_injecting("Where is it?", []) == []


def test_less_is_enough_where_only_words_can_be_compared_but_not_little() -> None:
    assert judged(("The boat is teal.", 0.45), vectors=False) >= 1
    assert judged(("The boat is teal.", 0.35), vectors=False) < 1


def test_a_question_of_few_or_common_words_needs_more() -> None:
    assert judged(STRONG, rarity=60.0) >= 1
    assert judged(STRONG, rarity=12.0) < 1


def test_a_question_that_names_a_stranger_or_asks_for_what_no_hit_has_needs_more() -> None:
    assert judged(("The boat is teal.", 0.85), unknown=("ottilie",)) < 1
    assert judged(("The boat is teal.", 1.1), unknown=("ottilie",)) >= 1
    near, far = np.array([0.9, 0.9], np.float32), np.array([0.9, 0.1], np.float32)
    halves = np.array([0.5, 0.5], np.float32)
    place = said(STRONG[0], 0).id
    assert judged(STRONG, matched=AskedWords(halves, {place: near})) >= 1
    assert judged(STRONG, matched=AskedWords(halves, {place: far})) < 1


def test_a_question_loses_by_words_that_nothing_found_comes_near_to() -> None:
    words = AskedWords(
        np.array([0.5, 0.3, 0.2], np.float32),
        {
            "e1#0": np.array([0.9, 0.1, 0.2], np.float32),
            "e2#0": np.array([0.2, 0.3, 0.8], np.float32),
        },
    )
    assert words.missing(["e1#0"]) == pytest.approx(0.5)
    assert words.missing(["e1#0", "e2#0"]) == pytest.approx(0.3)
    assert words.missing(["unknown"]) == 0


@pytest.mark.parametrize("message", SMALL_TALK)
def test_small_talk_gets_nothing(tmp_path: Path, message: str) -> None:
    assert reason(history(tmp_path).search(message, 5)) == ASKS_NOTHING


def test_an_instruction_gets_something_only_for_what_it_names(tmp_path: Path) -> None:
    index = history(
        tmp_path,
        (("Mira", "The staging host is db7.example and listens on 8443."), *TALK),
    )
    assert reason(index.search("Write a haiku about a boat.", 5)) == NAMES_NOTHING
    assert (
        reason(index.search("Restart the staging host db7.example which listens on 8443.", 5)) == ""
    )


@pytest.mark.parametrize(
    ("passages", "evidence", "speaks"),
    [
        (1, 0.32, True),
        (1, 0.25, False),
        (20, 0.48, True),
        (20, 0.38, False),
        (500, 0.65, True),
        (500, 0.5, False),
        (10_000, 0.65, True),
    ],
)
def test_the_shorter_history_is_the_less_other_languages_have_to_prove(
    passages: int, evidence: float, speaks: bool
) -> None:
    found = judged(("Das Boot ist blau.", evidence), other=0.5, passages=passages)
    assert (found >= 1) == speaks


def test_an_instruction_needs_more_than_a_question() -> None:
    host = Hit(
        passage=said("db7.example is down", 1), score=1, parts={}, text="db7.example is down"
    )
    for message, strength, speaks in (
        ("Where is db7.example?", 1.1, True),
        ("Restart db7.example.", 1.1, False),
        ("Restart db7.example.", 1.6, True),
    ):
        assert (silence(message, [host], Judgement(strength=strength)) == "") == speaks


def test_an_empty_history_says_so(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "empty.db", WordModel())
    assert reason(index.search("Where is the boat?", 5)) == NOTHING_THERE


@pytest.mark.parametrize(
    "question",
    ["¿Dónde está el barco?", "ボートはどこですか？", "где лодка?", "boat? " * 10_000, "?", "\x00"],
)
def test_odd_questions_are_answered_calmly(tmp_path: Path, question: str) -> None:
    found = history(tmp_path).search(question, 5)
    assert isinstance(reason(found), str)


def test_half_of_the_vectors_is_enough_to_answer(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "half.db", WordModel())
    index.ensure(said(text, seq, speaker=name) for seq, (name, text) in enumerate(TALK, start=1))
    index.embed_pending(limit=4)
    found = index.search("Where did Anton move in spring?", 5)
    assert found.vectors
    assert found.hits[0].passage.seq == 11


def test_words_alone_answer_and_keep_silent_too(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "words.db", None)
    index.ensure(said(text, seq, speaker=name) for seq, (name, text) in enumerate(TALK, start=1))
    assert reason(index.search("Where did Anton move in spring?", 5)) == ""
    assert reason(index.search("Why did the court reject the appeal?", 5)) == NOTHING_CLOSE


@pytest.mark.parametrize(
    ("score", "own", "along"),
    [
        (0.45, 0.0, True),
        (0.35, 0.0, False),
        (0.25, 0.12, True),
        (0.25, 0.1, True),
        (0.2, 0.1, True),
        (0.4, 0.0, True),
        (0.25, 0.07, False),
        (0.15, 0.12, False),
    ],
)
def test_hits_far_below_the_best_come_along_only_if_their_own_text_speaks_for_them(
    score: float, own: float, along: bool
) -> None:
    best, other = (
        Hit(passage=said(text, seq), score=value, parts={"words": words}, text=text)
        for seq, (text, value, words) in enumerate(
            [("Mira sold the sailing boat.", 1.0, 1.0), ("She likes boats.", score, own)]
        )
    )
    worth = worth_injecting("To whom did Mira sell the sailing boat?", [best, other])
    assert worth == ([best, other] if along else [best])


RULES = (
    ("Mira", "Never push anything to main, please."),
    ("Jonas", "I will not."),
    ("Mira", "From now on always write dates as 2026-03-01 in the reports."),
    ("Jonas", "Understood."),
    ("Mira", "The boat lies in the harbour of Bergen."),
    ("Jonas", "A nice place."),
)


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("Push the fix to main.", "Never push anything to main"),
        ("Write the dates into the reports.", "always write dates"),
        ("Paint the boat.", ""),
        ("Write a haiku about autumn.", ""),
        ("Push it.", ""),
    ],
)
def test_a_standing_instruction_comes_back_when_it_applies(
    tmp_path: Path, message: str, rule: str
) -> None:
    found = history(tmp_path, RULES).search(message, 24)
    chosen = choose(message, [found], 2_000, len, most=12)
    texts = [each.hit.text for each in chosen.injected]
    assert bool(texts) == bool(rule) == (not chosen.silent)
    assert all(rule in text for text in texts)


SILENT = {"thanks": 0.0, "go on": 0.0, "small talk": 0.05, "instruction": 0.05, "never said": 0.1}
"""What people say that history cannot answer, and the share of it that may get something."""


def test_what_history_cannot_answer_gets_next_to_nothing() -> None:
    history = open_sample(Places.resolve({"MINDSTONE_HOME": "/nonexistent"}))
    index = InMemoryIndex()
    catch_up(index, reading(history))
    brought: dict[str, list[bool]] = {}
    for case in lines("said_to_agents.tsv"):
        kind, _, message = case.partition("\t")
        answers = [index.search(query, 24) for query in queries(message, ())]
        choice = choose(message, answers, 2_000, len, most=12)
        brought.setdefault(kind, []).append(bool(choice.injected))
    assert sum(map(len, brought.values())) >= 200
    for kind, most in SILENT.items():
        assert sum(brought[kind]) <= most * len(brought[kind]), kind


@pytest.mark.parametrize("piece", ["a", "a-", "a/", "a.", "aB", "a_"])
def test_a_message_of_one_endless_word_names_what_its_beginning_names(piece: str) -> None:
    """Only a bounded beginning is looked at, so that no message can keep a turn busy."""
    assert specifics(piece * 100_000) == specifics(piece * 10_000)


def test_questions_and_small_talk_are_told_apart_in_every_language() -> None:
    """Of what the corpus asks and says in passing, in fifteen languages."""
    asked = [line.split("\t") for line in lines("languages.tsv")]
    wrong = [
        (language, question)
        for language, name, _, question in asked
        if intent_of(question) != ("nothing" if name.startswith("small") else "asks")
    ]
    assert wrong == []


def test_what_is_told_in_another_language_is_no_question() -> None:
    told = [line.split("\t") for line in lines("languages.tsv")]
    wrong = [
        (language, message)
        for language, _, message, _ in told
        if message and language != "en" and intent_of(message) != "tells"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "message",
    [
        "Kannst du mir eine Funktion schreiben, die Listen sortiert?",
        "Schreib mir ein Gedicht über das Meer.",
        "¿Puedes escribir un poema?",
        "Peux-tu corriger ce bug ?",
        "请帮我写一个函数",
        "コードを書いてください。",
        "Пожалуйста, напиши тест.",
    ],
)
def test_a_request_in_another_language_is_no_question(message: str) -> None:
    assert intent_of(message) == "tells"


@pytest.mark.parametrize(
    "message",
    [
        "Weißt du noch, welchen Port wir nehmen?",
        "Erinnere mich an den Namen der Katze.",
        "上次我们说的端口",
        "Rappelle-moi le nom du chat.",
        "Как зовут нашу кошку",
    ],
)
def test_what_refers_to_the_past_asks_in_another_language_too(message: str) -> None:
    assert intent_of(message) == "asks"


def test_less_is_enough_in_a_short_history_and_never_more_than_a_floor_in_a_long_one() -> None:
    fair = ("The boat is teal.", 0.5)
    told = [judged(fair, passages=passages) for passages in (1, 20, 150, 1_000, 2_000, 10**6)]
    assert told == sorted(told, reverse=True)
    assert told[0] == told[1] >= 1 > told[3] > told[4] == told[5]


def test_of_whom_was_asked_by_name_as_much_is_asked_in_a_short_history_as_in_a_long_one() -> None:
    two = [said("I have a teal boat.", 1, speaker="Mira"), said("I row.", 2, speaker="Ben")]
    candidates = [Candidate(row=one.seq, sitting=0, passage=one, meaning=1.0) for one in two]
    hits = [Hit(passage=two[0], score=0.5, parts={"meaning": 0.5}, text=two[0].text)]

    def strength(passages: int) -> float:
        gathered = Gathered(candidates=candidates, asked=1e9, passages=passages)
        return judge(read_question("Which boat has Mira?"), gathered, hits, vectors=True).strength

    assert strength(20) == strength(2_000)


@pytest.mark.parametrize(
    ("question", "of_the_world"),
    [
        ("What is a monad?", True),
        ("How do I undo the last commit?", True),
        ("What is the difference between a list and a tuple?", True),
        ("What is 17 times 23?", True),
        ("What does chmod do?", True),
        ("What does the program do when the disk is full?", False),
        ("Which day do we ship?", False),
        ("How did we undo the last commit?", False),
        ("What is our retry policy?", False),
        ("How many days are left?", False),
    ],
)
def test_what_anybody_could_know_needs_more(question: str, of_the_world: bool) -> None:
    assert (judged(STRONG, asked=question) < 1) == of_the_world


def test_two_questions_at_once_are_asked_one_by_one() -> None:
    asked = "Which payment provider did we choose and what commission do they take?"
    assert queries(asked, ())[:3] == (
        asked,
        "Which payment provider did we choose?",
        "what commission do they take?",
    )
    one = "When and where was the boat sold?"
    assert queries(one, ()) == (one,)


def test_a_name_that_is_misspelt_finds_its_person(tmp_path: Path) -> None:
    with closing(RecallIndex.open(tmp_path / "library.db", None)) as index:
        index.ensure([said("Ask Priya before anybody touches the invoices.", 1)])
        index.ensure([said("Hartmann Logistics was charged twice.", 2)])
        for question, seq in (
            ("Who is Pryia and what does she own?", 1),
            ("What was charged to Hartman?", 2),
        ):
            found = index.search(question)
            assert found.hits[0].passage.seq == seq
            assert "never mentions" not in found.judged.reason
        assert "ottilie" in index.search("What of the invoices is Ottilie's?").judged.reason


@pytest.mark.parametrize(
    ("one", "other", "slips"),
    [("priya", "pryia", 1), ("hartman", "hartmann", 1), ("olga", "olgha", 1), ("kim", "tom", 2)],
)
def test_slips_of_the_pen_are_counted(one: str, other: str, slips: int) -> None:
    assert slips_between(one, other, 2) == slips_between(other, one, 2) == slips
    assert slips_between(one, other, slips - 1) == slips
    assert slips_between(one, one, 2) == 0
