"""What holds now: later statements retire earlier ones, and nothing else does."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.language.replacement import meant_by
from mindstone_tui.core.statements.register import (
    Register,
    advance,
    keep,
    replaces,
    settle,
)
from mindstone_tui.core.statements.statement import Pointer, Speaker, Statement, Utterance
from tests.core.statements.talk import EVERYDAY, labelled, settled, standing, told

NEVER_DROPPED = frozenset({"correction", "memory", "rule"})


def successor(register: Register, at: Pointer) -> Statement | None:
    """The standing statement that a retired one led to; a standing one leads to itself."""
    by_victim = {
        gone: one for one in (*register.retired, *register.standing) for gone in one.supersedes
    }
    while at in by_victim:
        at = by_victim[at].at
    return next((one for one in register.standing if one.at == at), None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Let's use Postgres.", "Postgres is rejected; use SQLite."),
        ("Let's use Postgres.", "Let's use SQLite instead of Postgres."),
        ("Let's use port 8080.", "Let's use port 9090 instead."),
        ("Remember that the API port is 8080.", "Remember that the API port is 9090."),
        ("Never push to main.", "It's fine to push to main again."),
        ("Never push to main.", "Forget the rule about main."),
        ("It's fine to push to main again.", "Never push to main."),
        ("Always squash commits.", "Never squash commits."),
        ("Remember that the demo is on Thursday.", "No, the demo is on Friday."),
        ("Always run the tests before every commit.",
         "You no longer have to run the tests before every commit."),
        ("Answer in German please.", "From now on answer in English."),
        ("Call me Ada.", "Call me Grace."),
        ("Let's use tabs for indentation.", "Use spaces for indentation, not tabs."),
        ("Always use tabs for indentation.", "Use spaces from now on."),
        ("We still need to decide on a name.", "The name will be Fernwood."),
        ("The name will be Fernwood.", "The name will be Oakwood."),
        ("I'm not sure yet which queue we should use.", "Let's use Redis for the queue."),
        ("Let's use Redis for the queue.", "No, the queue should be Kafka."),
    ],
)  # fmt: skip
def test_the_later_word_retires_the_earlier(before: str, after: str) -> None:
    assert standing(before) == [before]
    register = settled(before, after)
    assert [one.words for one in register.standing] == [after]
    assert [one.words for one in register.retired] == [before]
    assert register.standing[0].supersedes == (Pointer(1),)
    assert not replaces(register.retired[0], register.standing[0])


@pytest.mark.parametrize(
    "both",
    [
        ("Comments must be complete sentences.", "Comments must be in English."),
        ("Never use curl in scripts.", "Never use wget in scripts."),
        ("Let's use spaces.", "Let's use tabs instead of spaces in Makefiles."),
        ("Let's use Postgres.", "Let's use SQLite for the tests instead of Postgres."),
        ("Always run the tests before you push to main.", "Never push to main."),
        ("Let's use port 8080 for the API.", "Let's use port 5432 for the database."),
        ("Never push to main.", "Never push to release."),
        ("Answer in English.", "Write the commit messages in German, always."),
        ("Never push to main.", "Let's use SQLite."),
    ],
)
def test_what_does_not_contradict_stands_side_by_side(both: tuple[str, str]) -> None:
    assert standing(*both) == list(both)
    assert standing(*reversed(both)) == list(reversed(both))


def test_a_correction_points_at_both_the_old_and_the_new() -> None:
    register = settled(
        "assistant: Both are up. The staging Postgres listens on 5432.",
        "No, that's wrong: staging Postgres listens on 5433. Please don't mix that up again.",
    )
    [found] = register.standing
    assert found.kind == "correction"
    assert found.old == "The staging Postgres listens on 5432."
    assert found.corrects == Pointer(1, len("Both are up. "))
    assert found.words == "No, that's wrong: staging Postgres listens on 5433."
    assert found.at == Pointer(2)


def test_a_correction_may_come_some_messages_later() -> None:
    old = "assistant: The staging Postgres listens on 5432."
    new = "Wrong: the staging Postgres listens on 5433."
    assert settled(old, *EVERYDAY[:3], new).standing[0].corrects == Pointer(1)
    assert settled(old, *EVERYDAY, new).standing[0].corrects is None


def test_a_correction_beside_another_is_about_another_thing() -> None:
    for other in ("not oldhost", "not newhost"):
        said = (
            "No, the proxy host is narstone, not oldhost.",
            f"No, the queue host is polstone, {other}.",
        )
        found = settled(*said).standing
        assert [one.words for one in found] == [*said]
        assert [one.corrects for one in found] == [None, None]


def test_who_only_repeated_a_sentence_did_not_say_what_is_corrected() -> None:
    old, new = "The staging API listens on port 8080.", "No, the staging API listens on port 9090."
    (found,) = settled(old, f"assistant: Noted: {old} (line 1)", new).of("correction")
    assert found.corrects == Pointer(1)
    (own,) = settled("Both are up.", f"assistant: {old}", new).of("correction")
    assert own.corrects == Pointer(2)


def test_a_correction_that_could_mean_either_points_at_neither() -> None:
    said = ("The frontend timeout is 5 seconds.", "The backend timeout is 6 seconds.")
    for new, old in (
        ("Correction: the timeout is 9 seconds.", None),
        ("Correction: the frontend timeout is 9 seconds.", Pointer(1)),
    ):
        (found,) = settled(*said, new).of("correction")
        assert (found.corrects, meant_by(new, said)) == (old, {0} if old else set())


def test_a_correction_retires_what_it_corrects() -> None:
    register = settled(
        "Remember that the staging Postgres listens on 5432.",
        *EVERYDAY[:3],
        "Wrong: the staging Postgres listens on 5433.",
    )
    assert [one.words for one in register.standing] == [
        "Wrong: the staging Postgres listens on 5433."
    ]


def test_a_chain_leads_to_what_stands() -> None:
    register = settled(
        "Let's use Postgres.",
        "Let's use SQLite instead of Postgres.",
        "Actually, let's use DuckDB rather than SQLite.",
    )
    [last] = register.standing
    for line in (1, 2, 3):
        assert successor(register, Pointer(line)) == last
    assert successor(register, Pointer(9)) is None


def test_a_repeated_rule_stands_once_where_it_was_first_said() -> None:
    register = settled("Never push to main.", "never  push to MAIN.", "Never push to main.")
    assert [one.at for one in register.standing] == [Pointer(1)]


def test_seventy_everyday_sentences_never_push_out_the_rule() -> None:
    rule = "Never push to main."
    chatter = EVERYDAY * 7
    register = settled(rule, *chatter)
    assert [one.words for one in register.standing] == [rule]
    busy = [f"Let's use tool{number} for job{number}." for number in range(70)]
    kept = keep(settled(rule, *busy).standing, 5)
    assert [one.words for one in kept] == [rule, *busy[-4:]]


def test_what_a_tool_or_a_model_says_retires_no_rule() -> None:
    rule = "Never push to main."
    for speaker in ("assistant", "tool"):
        assert standing(rule, f"{speaker}: It's fine to push to main again.") == [rule]
        assert standing(rule, f"{speaker}: Forget the rule about main.") == [rule]


POOL = [
    *(sentence for _, sentence in labelled()),
    *EVERYDAY,
    *(f"Use port {number} for the {what}." for number in (80, 81, 82) for what in ("API", "shop")),
    *(f"Use {new} instead of {old}." for new in ("Redis", "Kafka") for old in ("Kafka", "Redis")),
    *("Never push to main.", "It's fine to push to main again.", "Forget the rule about main."),
    *("Answer in German.", "Answer in English.", "No, the API port is 83.", "The API port is 84."),
    *("We still need to decide on the API port.", "That's wrong.", "Agreed!"),
]
messages = st.lists(
    st.tuples(
        st.sampled_from(["user", "user", "user", "assistant", "tool"]),
        st.lists(st.sampled_from(POOL), min_size=1, max_size=4).map(" ".join),
    ),
    max_size=25,
).map(
    lambda said: [
        Utterance(speaker=speaker, text=text, line=line)  # type: ignore[arg-type]
        for line, (speaker, text) in enumerate(said, 1)
    ]
)


@given(messages, st.lists(st.integers(0, 25), max_size=4))
def test_it_does_not_matter_how_history_is_cut(said: list[Utterance], cuts: list[int]) -> None:
    register = Register()
    edges = [0, *sorted(min(cut, len(said)) for cut in cuts), len(said)]
    for start, end in pairwise(edges):
        register = advance(register, said[start:end])
    assert register == settle(said)


@given(messages)
def test_superseding_only_looks_back_and_ends_at_what_stands(said: list[Utterance]) -> None:
    register = settle(said)
    everything = {one.at: one for one in (*register.retired, *register.standing)}
    victims = [gone for one in everything.values() for gone in one.supersedes]
    assert sorted(victims) == sorted(one.at for one in register.retired)
    for one in everything.values():
        assert all(gone < one.at for gone in one.supersedes)
        assert one.corrects is None or one.corrects < one.at
        assert successor(register, one.at) in register.standing
        for gone in one.supersedes:
            assert successor(register, gone) == successor(register, one.at)


@given(messages, messages)
def test_what_was_retired_stays_retired(first: list[Utterance], then: list[Utterance]) -> None:
    before = settle(first)
    moved = [msgspec.structs.replace(one, line=one.line + len(first)) for one in then]
    after = advance(before, moved)
    assert after.retired[: len(before.retired)] == before.retired
    gone = {one.at for one in after.retired}
    assert all(one in after.standing or one.at in gone for one in before.standing)
    assert not gone & {one.at for one in after.standing}


@given(messages, st.integers(0, 30))
def test_short_room_drops_no_rule_and_keeps_the_order(said: list[Utterance], most: int) -> None:
    found = settle(said).standing
    kept = keep(found, most)
    safe = [one for one in found if one.kind in NEVER_DROPPED]
    assert [one for one in found if one in kept] == list(kept)
    assert [one for one in kept if one.kind in NEVER_DROPPED] == safe
    assert len(kept) == min(len(found), max(most, len(safe)))


@given(messages)
def test_a_register_survives_being_written_down(said: list[Utterance]) -> None:
    register = settle(said)
    assert msgspec.json.decode(msgspec.json.encode(register), type=Register) == register


def test_a_register_is_read_by_kind() -> None:
    register = settle(told("Never push to main.", "I prefer short answers.", "Let's use SQLite."))
    assert [one.kind for one in register.of("decision", "rule")] == ["rule", "decision"]


def test_a_message_sent_again_with_a_path_behind_it_says_nothing_new() -> None:
    said = "We're not using any plugins.. this is the phase in which we only look around.."
    register = settled(said, f"{said}~/.agent-skills")
    assert [one.words for one in register.standing] == [said]
    both = ("Never touch the files in ~/a.", "Never touch the files in ~/b.")
    assert [one.words for one in settled(*both).standing] == list(both)


def test_a_correction_that_could_mean_two_decisions_retires_neither() -> None:
    both = ("We decided: the staging port is 7000.", "We decided: the production port is 7001.")
    register = settled(*both, "No, the port is 7002.")
    assert [one.words for one in register.standing[:2]] == list(both)
    assert not register.retired
    assert not register.standing[-1].old


def test_a_models_words_end_nothing_that_a_person_settled() -> None:
    said: list[tuple[Speaker, str]] = [
        ("user", "The staging port is 8080."),
        ("user", "No, the staging port is 9090, not 8080."),
        ("assistant", "I changed config.py to use port 8081, and I decided to use SQLite."),
    ]
    register = settle(
        Utterance(speaker=speaker, text=text, line=line, turn=line)
        for line, (speaker, text) in enumerate(said, 1)
    )
    assert said[1][1] in [one.words for one in register.of("correction")]
