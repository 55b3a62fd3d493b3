"""What a message settles, and above all what it does not."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.language.clause import read
from mindstone_tui.core.statements.cues import Cue, all_cues, cues_in
from mindstone_tui.core.statements.recogniser import (
    kind_of_sentence,
    recognise,
    recognise_standing_instruction,
    restate,
    worth_asking_about,
)
from mindstone_tui.core.statements.register import settle
from mindstone_tui.core.statements.statement import KINDS, Pointer, Utterance
from tests.core.statements.talk import EVERYDAY, found_in, labelled
from tests.corpora import lines

SETTLES = frozenset({"rule", "decision", "correction", "preference", "memory"})
LONGEST_READ = 1_000
LONGEST_WORDS = 600


@pytest.mark.parametrize("kind", KINDS)
def test_nine_of_ten_are_right_and_seven_of_ten_are_found(kind: str) -> None:
    verdicts = Counter(
        (label == kind, kind_of_sentence(sentence) == kind) for label, sentence in labelled()
    )
    hits = verdicts[True, True]
    assert hits >= 0.9 * (hits + verdicts[False, True])
    assert hits >= 0.7 * (hits + verdicts[True, False])


def test_what_strangers_said_is_taken_as_settled_where_readers_say_so_in_nine_of_ten() -> None:
    taken = right = 0
    for half in ("open", "sealed"):
        for raw in lines(f"settled/{half}.jsonl"):
            one = json.loads(raw)
            found = recognise(Utterance(speaker="user", text=one["text"], line=0))
            if any(each.sure and each.kind in SETTLES for each in found):
                taken += 1
                right += (one["first"], one["second"]) != ("none", "none")
    assert taken >= 50
    assert right >= 0.9 * taken


def test_the_labelled_set_is_large_and_mixed() -> None:
    labels = Counter(label for label, _ in labelled())
    assert labels.total() >= 150
    assert set(labels) == {*KINDS, "none"}
    assert min(labels.values()) >= 10


@pytest.mark.parametrize("cue", all_cues(), ids=lambda cue: cue.example)
def test_every_cue_is_good_for_its_example(cue: Cue) -> None:
    assert cue in list(cues_in(read(cue.example)))
    assert kind_of_sentence(cue.example) == cue.kind


def test_the_cues_of_a_kind_stand_together() -> None:
    kinds = [cue.kind for cue in all_cues()]
    assert [kind for kind, _ in groupby(kinds)] == list(dict.fromkeys(kinds))
    assert set(kinds) == set(KINDS)


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Always answer in metric.", "rule"),
        ("Never push to main.", "rule"),
        ("Always mention the source when I ask about figures.", "rule"),
        ("Please do not touch the vendored files.", "rule"),
        ("Remember that the demo is on Thursday.", "memory"),
        ("Don't forget: the demo is on Friday.", "memory"),
        ("I prefer short answers.", "preference"),
        ("Let's go with SQLite because it needs no server.", "decision"),
        ("Let's go with SQLite because nobody has to run a server for it.", "decision"),
        ("No, the staging port is 5433.", "correction"),
        ("Change of plans: we use Postgres 16 instead of Postgres 14.", "correction"),
        ("We still have to decide which queue to use.", "question"),
        ("I'll send you the schema tomorrow.", "commitment"),
    ],
)
def test_each_kind_is_recognised(sentence: str, kind: str) -> None:
    assert kind_of_sentence(sentence) == kind


@pytest.mark.parametrize(
    "sentence",
    [
        "I want a haiku about ports.",
        "Agreed!",
        "Please don't mix that up again.",
        "My name is Ada.",
        "No.",
        "No problem!",
        "Never mind.",
        "Don't worry about it.",
        "You must be tired.",
        "It always crashes on start.",
        "I want to make sure I'm on the right track.",
        "Should we use Postgres?",
        "I never said thanks, by the way.",
        *EVERYDAY,
    ],
)
def test_everyday_talk_settles_nothing(sentence: str) -> None:
    assert kind_of_sentence(sentence) is None


def test_the_correction_is_the_sentence_with_the_fact() -> None:
    [found] = found_in("That's wrong. The port is 5433. Please don't mix that up again.")
    assert (found.kind, found.words) == ("correction", "The port is 5433.")


def test_a_decision_carries_its_reason_and_what_it_turned_down() -> None:
    [found] = found_in("Let's use SQLite instead of Postgres because it needs no server.")
    assert found.kind == "decision"
    assert found.reason == "it needs no server"
    assert found.rejected == ("postgre",)
    assert found.value == ("sqlite",)


def test_what_is_meant_for_good_is_told_from_what_is_meant_for_now() -> None:
    assert all(one.lasting for one in found_in("Always answer in metric. Never push to main."))
    for text, lasting in (
        ("Let's use port 8080.", False),
        ("the config is NEVER written", True),
        ("the config is written ONLY HERE", False),
    ):
        [found] = found_in(text)
        assert found.lasting is lasting


def test_words_and_pointer_lead_back_to_the_message() -> None:
    text = "Hello there!\n\n- Never push to main.\n- Use tabs, e.g. in main.py. Thanks!\n"
    found = recognise(Utterance(speaker="user", text=text, line=7, turn=3))
    assert [one.words for one in found] == ["Never push to main.", "Use tabs, e.g. in main.py."]
    for one in found:
        assert text[one.at.start :].startswith(one.words)
        assert (one.line, one.turn) == (7, 3)


@pytest.mark.parametrize(
    "text",
    [
        "```\nNever push to main.\n```",
        "> Never push to main.",
        "| Never push to main. | x |",
        "2025-01-02 10:11:12 ERROR worker: never push to main",
        'The docs say "You must always run the tests before you push to main."',
    ],
)
def test_what_was_pasted_was_not_said(text: str) -> None:
    assert not found_in(text)


def test_only_a_person_sets_rules() -> None:
    text = "Never push to main. I prefer tabs. Remember that the port is 80. No, the port is 81."
    assert len(recognise(Utterance(speaker="user", text=text, line=1))) == 4
    assert not recognise(Utterance(speaker="assistant", text=text, line=1))
    assert not recognise(Utterance(speaker="tool", text=text, line=1))


def test_a_model_may_decide_promise_and_leave_open() -> None:
    text = (
        "We decided to keep SQLite. The name of the flag is still open. "
        "I'll add the migration as soon as you have merged it."
    )
    found = recognise(Utterance(speaker="assistant", text=text, line=1))
    assert [one.kind for one in found] == ["decision", "question", "commitment"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("No, the docs.", "correction"),
        ("No, the same.", ""),
        ("No, I meant the other port.", "correction"),
        ("No, I think the port is 81.", "correction"),
        ("No, I use tabs.", ""),
        ("No, it is tabs.", "correction"),
        ("No, it still fails.", ""),
        ("No, it fails.", ""),
        ("No, rename it.", "correction"),
        ("No, just rename it.", "correction"),
        ("No, try the other one.", ""),
        ("No, you need to look at the port.", ""),
        ("No, use tabs.", "rule"),
        ("No, never push to main.", "rule"),
        ("No, I prefer tabs.", "preference"),
        ("No, let's use Redis.", "decision"),
        ("No, remember that the port is 80.", "memory"),
        ("No, we have not decided which queue to use yet.", "question"),
        ("That's wrong. The port is 5433.", "correction"),
        ("That's wrong.\n> The port is 80.\n\nThe port is 5433.", "correction"),
        ("That's wrong. The port is 80? The port is 5433.", ""),
        ('That\'s wrong. "the port" you said. The port is 5433.', "correction"),
        ("The port is 5433.", ""),
        ("Nope. Port 5433.", ""),
        ("Nope. Port 5433. The port is 5433.", ""),
        ("Nope. Is the port 5433?", ""),
        ("Nope. The other port should be tried.", "correction"),
        ("Nope. Try the port that is 5433.", ""),
        ("Nope. It still is broken here.", ""),
        ("Nope. Let's use port 5433.", "decision"),
        ("Nope. Remember that the port is 5433.", "memory"),
        ("Wrong. Never push to main.", "rule"),
    ],
)
def test_what_is_right_is_told_after_a_no_and_what_went_wrong_is_not(text: str, kinds: str) -> None:
    assert " ".join(one.kind for one in found_in(text)) == kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Let's go with SQLite.", "decision"),
        ("If we go with SQLite we need no server.", ""),
        ("It seems we should go with SQLite.", ""),
        ("Can you always answer in metric?", "rule"),
        ("Could you please never push to main?", "rule"),
        ("Can you use Redis?", ""),
        ("The README says you must always run the tests.", ""),
        ("You must always run the tests.", "rule"),
        ("Never give up!", ""),
        ("Never give up on the tests!", "rule"),
        ("Don't do that again.", ""),
        ("Remember this.", "memory"),
        ("It is still open which queue we use, right?", "question"),
        ("Which queue do we still have to decide on?", ""),
        ("the config is NEVER written", "rule"),
        ("the config is never written", ""),
        ("Is the config NEVER written?", ""),
        ("Let's use SQLite because you must always run Postgres.", "decision"),
    ],
)
def test_what_is_thought_of_reported_or_cheered_settles_nothing(text: str, kinds: str) -> None:
    assert " ".join(one.kind for one in found_in(text)) == kinds


NEVER = "Never push to main."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"The output is:\n{NEVER}", False),
        (f"The port is 80:\n{NEVER}", True),
        (f"The output is:\nsome line\nPlease never push to main.\n{NEVER}", True),
        (f"Traceback (most recent call last)\n{NEVER}", False),
        (f"Traceback (most recent call last)\nsome line\n{NEVER}", False),
        (f"Traceback (most recent call last)\n\n{NEVER}", True),
        (f"Traceback (most recent call last)\nWe saw it.\n{NEVER}", True),
        (f"Traceback (most recent call last)\n- {NEVER}", True),
        (f"Hello.\n\nTraceback (most recent call last)\n{NEVER}", False),
        (f"Hello.\n{NEVER}", True),
        ('Never push to "main"', True),
        ("NEVER EVER PUSH TO THE MAIN BRANCH AGAIN YOU FOOL", False),
        ("NEVER PUSH TO MAIN", True),
        ("NEVER EVER PUSH TO THE MAIN BRANCH AGAIN, and do not say that I let you", True),
        (f'"{NEVER}"', False),
        (f"'{NEVER}'", False),
        (f"`{NEVER}`,", False),
        (f"“{NEVER}”", False),
        ('"Let\'s go with SQLite."', False),
        ("`Let's go with SQLite.`,", False),
        (f'"It worked." {NEVER}', True),
        (f"`git push`\n{NEVER}", True),
        ('Never order the 24" screens.', True),
        ('Never call it "main."', True),
        ('"rule": "always push to main",', False),
        ('"main" or "trunk", never push to "main"', True),
        ("`main` is where you must never push anything", True),
        (f'He wrote of it. {NEVER}"', False),
        ("never(push_to_main);", False),
        ("at never.push (main.js)", False),
        ("never push to main src/a.py:3:4", False),
        ("Never push to main; x = foo()", False),
        ("Never push to main; not even once", True),
        ("never push 123456789012345678901234567890", False),
        ("never push 1234 to main", True),
    ],
)
def test_what_a_program_printed_somebody_quoted_or_only_shouted_was_not_said(
    text: str, said: bool
) -> None:
    assert bool(found_in(text)) is said


@pytest.mark.parametrize(
    ("before", "after", "read"),
    [
        (70, 400, True),
        (100, 400, False),
        (400, 30, True),
        (400, 60, False),
        (100, 200, True),
    ],
)
def test_of_a_paste_only_the_head_and_the_end_are_read(before: int, after: int, read: bool) -> None:
    rain = "It rains in Bern. "
    assert bool(found_in(f"{rain * before}{NEVER} {rain * after}")) is read


@pytest.mark.parametrize(
    ("text", "words", "kind"),
    [
        ("Hello. IMPORTANT tabs. Bye.", "IMPORTANT tabs.", "rule"),
        (" Hi there. DO_NOT_EVICT ", "Hi there. DO_NOT_EVICT", "rule"),
        ("I like it. Never push to main. Always squash.", NEVER, "rule"),
        ("I prefer short answers.", "I prefer short answers.", "preference"),
        ("Remember that the port is 80.", "Remember that the port is 80.", "memory"),
        ("Let's use port 8080. Always squash.", "Always squash.", "rule"),
        ("It's fine to push to main again.", None, None),
        ("Don't touch the vendored files.", None, None),
        ("Let's use port 8080.", None, None),
        ("This is unIMPORTANT.", None, None),
    ],
)
def test_the_first_lasting_wish_of_a_message_stands(
    text: str, words: str | None, kind: str | None
) -> None:
    found = recognise_standing_instruction(text)
    assert (found and (found.text, found.kind)) == (words and (words, kind))


def test_what_leaves_no_doubt_is_settled_and_the_rest_is_asked_about_once_a_form() -> None:
    certain = [NEVER, "Let's use SQLite.", "I prefer tabs.", "No, the port is 8081."]
    doubtful = ["Don't touch the vendored files.", "Comments must be complete sentences."]
    register = settle(
        Utterance(speaker="user", text=text, line=at) for at, text in enumerate(certain + doubtful)
    )
    kinds = ("rule", "decision", "preference", "correction")
    assert [one.words for one in register.of(*kinds)] == certain
    assert [one.words for one in register.perhaps(*kinds)] == doubtful
    asked = worth_asking_about(doubtful[0])
    assert asked is not None
    assert (asked.text, asked.kind) == (doubtful[0], "rule")
    assert worth_asking_about(doubtful[0], {asked.form}) is None
    assert worth_asking_about(doubtful[1], {asked.form}) is not None
    assert worth_asking_about("Let's use SQLite.") is None, "it is settled already"


def test_a_correction_of_one_fact_leaves_no_doubt_and_a_longer_one_does() -> None:
    short, longer = (
        found_in(f"No, the new staging port {there}in Bern is 8081.") for there in ("", "there ")
    )
    assert [one.sure for one in (*short, *longer)] == [True, False]


def test_a_wish_at_the_end_of_an_endless_paste_does_not_stand() -> None:
    rain = "It rains in Bern. "
    assert recognise_standing_instruction(f"{rain * 1_000}{NEVER}") is not None
    assert recognise_standing_instruction(f"{rain * 2_000}{NEVER}") is None


def test_what_was_recognised_once_is_told_again_by_its_words() -> None:
    [first] = recognise(Utterance(speaker="user", text=f"Hello! {NEVER}", line=4, turn=3))
    assert restate("rule", first.words, first.at, 3) == first
    assert (first.forbids, first.permits, first.lasting) == (True, False, True)
    other = restate("memory", NEVER, Pointer(4, 7))
    assert (other.kind, other.forbids, other.lasting) == ("memory", False, False)


def test_what_was_imported_settles_nothing() -> None:
    assert not recognise(Utterance(speaker="user", text=NEVER, line=1, imported=True))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("We decided to keep SQLite.", "decision"),
        ("Did we say that we decided to keep SQLite?", ""),
        ("The name is TBD.", "question"),
        ("Is the name of the flag still open?", ""),
        ("I'll add the test later.", "commitment"),
        ("Once you merge it, I'll add the test.", "commitment"),
        ("I'll add the test.", ""),
        ("You could add the test later.", ""),
        ("No. The port is 5433.", ""),
    ],
)
def test_a_model_binds_itself_only_in_so_many_words(text: str, kinds: str) -> None:
    found = recognise(Utterance(speaker="assistant", text=text, line=1))
    assert " ".join(one.kind for one in found) == kinds


words = st.sampled_from(
    [
        *("never", "always", "only", "must", "should", "don't", "no", "not", "instead", "of"),
        *("use", "push", "remember", "prefer", "decide", "let's", "i'll", "please", "we"),
        *("the", "that", "port", "main", "is", "8080", "still", *',.?!;:-()"`'),
    ]
)
texts = st.one_of(st.text(max_size=200), st.lists(words, max_size=40).map(" ".join))


@given(texts, st.sampled_from(["user", "assistant", "tool"]))
def test_any_text_is_read_calmly_and_always_alike(text: str, speaker: str) -> None:
    utterance = Utterance(speaker=speaker, text=text, line=1)  # type: ignore[arg-type]
    found = recognise(utterance)
    assert found == recognise(utterance)
    assert list(found) == sorted(found, key=lambda one: one.at)
    assert all(text[one.at.start :].startswith(one.words.removesuffix("…")) for one in found)


@given(texts)
def test_what_stands_before_does_not_matter(text: str) -> None:
    alone = [(one.kind, one.words) for one in found_in(text)]
    later = [(one.kind, one.words) for one in found_in("Good morning to you!\n\n" + text)]
    assert alone == later


@pytest.mark.parametrize(
    "unit",
    ["word ", "never ", "no, ", "don't ", "not ", "a", "use x instead of ", "¿qué? ", "никогда ",
     "必ず", "hamwe ", "\ud800", "\x00", "((", '"', "so we ", "and then ", "remember that ", "….",
     "the port is "],
)  # fmt: skip
def test_endless_sentences_are_read_calmly(unit: str) -> None:
    for one in found_in(unit * 10_000):
        assert len(one.words) <= LONGEST_WORDS


def test_only_the_beginning_of_a_sentence_is_read() -> None:
    assert len(read("word " * 10_000).whole) <= LONGEST_READ


def test_a_long_sentence_is_carried_shortened_with_a_sign() -> None:
    [found] = found_in("Never push to main, " + "and never ever forget it, " * 100)
    assert found.kind == "rule"
    assert len(found.words) == LONGEST_WORDS
    assert found.words.endswith("…")


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("no server calls just the form", "rule"),
        ("Security: do not print the token.", "rule"),
        ("Only this module imports the driver.", "rule"),
        ("When writing migrations, follow the naming of the old ones.", "rule"),
        ("Once a step is finished, update the plan and ask for the next.", "rule"),
        ("Show the badge, without chaning any other page", "rule"),
        ("We are migrating our mailer from Sendgrid to Postmark.", "decision"),
        ("let's turn off the local models entirely", "decision"),
        ("The backend should be in Rust.", "decision"),
        ("The lookup shows that the correct column name is org_id.", "correction"),
        ("we will look at chapter 8 once the layout work is completed", "commitment"),
        ("I'll do this myself, can you list the steps?", "commitment"),
        ("When you edit the customer remeber to edit the vendor.", "memory"),
        ("I want something compact.", "preference"),
        ("Ensure the page loads correctly.", None),
        ("make sure the server is running", None),
        ("Is there a way to have two copies, one that only reads", None),
        ("These files are not what I asked for.", None),
        ("Use the debugger to find the leak.", None),
        ("It should be aware that there were pictures.", None),
    ],
)
def test_terse_orders_and_slips_of_the_pen_are_read_and_one_off_requests_are_not(
    sentence: str, kind: str | None
) -> None:
    assert kind_of_sentence(sentence) == kind


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Can you take it out of git but don't delete the folder", "rule"),
        ("Dont use the browser here, will plain pages do?", "rule"),
        ("But we dont wan't to install a framework in that app.", "decision"),
        ("Tide tables shouldn't have a limit of their own.", "rule"),
        ("When you find a gap, take a screenshot of it.", "rule"),
        ("If it is not in the log then just say so in one line.", "rule"),
        ("Stay on this branch for the rest.", "rule"),
        ("Propose a short plan before making any changes.", "rule"),
        ("I mean all the readings of May", "correction"),
        ("we can abandon the second feed", "decision"),
        ("Let's just show the first gauge", "decision"),
        ("I liked it better when it was centred.", "preference"),
    ],
)
def test_orders_are_found_in_the_forms_that_people_give_them(sentence: str, kind: str) -> None:
    assert kind_of_sentence(sentence) == kind


@pytest.mark.parametrize(
    "sentence",
    [
        "No rows returned",
        "make sure this is deployed please",
        "Use the test agent to identify failing tests and fix them.",
        "That drives me crazy.",
        "padding is fine now",
        "[12] user: Let's use Redis instead of Kafka.",
        "please don't forget to run the linter",
        "I prefer to look at it myself first.",
        "I'd rather do this later",
    ],
)
def test_what_is_over_at_once_and_what_others_said_settle_nothing(sentence: str) -> None:
    assert kind_of_sentence(sentence) is None


@pytest.mark.parametrize("around", [0, 80])
@pytest.mark.parametrize("fence", ["", "```\n"])
def test_of_a_very_long_paste_the_words_around_it_are_read(fence: str, around: int) -> None:
    rain = "It rains in Bern.\n" * around
    rule, other = "From now on always write tests first.", "From now on never push to main."
    pasted = "2026-11-01 the job said: from now on never retry this.\n" * 4_000
    text = f"{rain}{rule}\n{fence}{pasted}{fence}\n{rain}{other}"
    found = recognise(Utterance(speaker="user", text=text, line=7))
    assert [one.words for one in found if one.words in (rule, other)] == [rule, other]
    assert all(text[one.at.start :].startswith(one.words) for one in found)
    assert not [one for one in found if 2_000 < one.at.start < len(text) - 1_000]


@pytest.mark.parametrize("said", ["For this task never use npm.", "In this repo always use tabs."])
def test_where_a_rule_is_for_may_stand_before_it_without_a_comma(said: str) -> None:
    (found,) = recognise(Utterance(line=1, text=said, speaker="user", turn=1))
    assert (found.kind, found.sure, found.words) == ("rule", True, said)


def test_what_a_model_quotes_with_its_line_is_settled_there() -> None:
    def settled(text: str) -> list[tuple[int, str]]:
        found = recognise(Utterance(speaker="assistant", text=text, line=1))
        return [(one.at.start, one.words) for one in found]

    rows = [
        "The staging port is 6633. (1 March, line 26†)",
        "Also: We decided: the cache is called pool. (19 November, line 19)",
        "Before: We decided to use Redis. (line 9 of agent:default:main)",
    ]
    assert settled("\n".join(rows)) == []
    own = "We decided to keep the pool (see line 19 of pool.py) as it is."
    assert settled("\n".join([*rows, own])) == [(len("\n".join(rows)) + 1, own)]
