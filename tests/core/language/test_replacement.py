"""What replaces what: two hundred pairs that two readers labelled alike, and laws around them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.language.replacement import (
    could_replace,
    left_of,
    meant_by,
    replaced_in,
    replaces,
    says_more,
)
from tests.corpora import lines

PAIRS = [json.loads(line) for line in lines("replaced.jsonl")]


def found(pair: dict[str, str]) -> bool:
    """As recall asks: the model corrects nobody, and nobody corrects what another one said."""
    says = pair["later_by"] != "assistant" and pair["earlier_by"] in (pair["later_by"], "assistant")
    return says and replaces(pair["later"], pair["earlier"])


def test_the_set_is_half_corrections_in_ten_domains() -> None:
    assert len(PAIRS) == 200
    assert sum(bool(pair["replaces"]) for pair in PAIRS) == 100
    assert len({pair["domain"] for pair in PAIRS}) == 10


def test_what_only_stands_beside_something_is_never_told_to_replace_it() -> None:
    assert [pair for pair in PAIRS if found(pair) and not pair["replaces"]] == []


@pytest.mark.parametrize("later", [
    "The mooring fee is now 70 euros.",
    "From now on the mooring fee is 75 euros.",
    "The mooring fee went up to 80 euros.",
    "Scrap that: the mooring fee is 40 euros again.",
])  # fmt: skip
def test_what_a_correction_said_is_replaced_like_what_it_corrected(later: str) -> None:
    corrected = "Correction: the mooring fee is 60 euros, not 50."
    assert replaces(later, corrected)
    assert replaces(later, "The mooring fee is 60 euros.")
    assert not replaces(later.replace("mooring", "harbour"), corrected)
    assert not replaces("The mooring fee is now 60 euros.", corrected)


def test_who_says_what_was_meant_once_owns_up_to_nothing() -> None:
    before = (
        "The gauges send local time, UTC+1 the whole year, never daylight saving and never UTC."
    )
    told = "Clock time with daylight saving, sadly."
    assert not replaces(f"{told} That was the bug I meant on the first day.", before)
    assert replaces(f"{told} I meant the old ones.", before)
    assert replaces(f"{told} Sorry I meant the old ones.", before)


def test_of_parallel_facts_the_later_one_replaces_none() -> None:
    pairs = [line.split("\t") for line in lines("parallel.tsv")]
    wrong = [earlier for earlier, later in pairs if replaces(later, earlier)]
    # Two places behind "in" may also be two values: the key is in one file, then in another.
    assert len(pairs) == 166
    assert wrong == ["The heating was switched off in the office."]


def test_of_what_strangers_said_nothing_is_replaced_that_still_holds() -> None:
    pairs = [line.split("\t") for line in lines("replaced_typed.tsv")]
    marked = [(kind, later) for kind, earlier, later in pairs if replaces(later, earlier)]
    assert len(pairs) == 440
    assert [later for kind, later in marked if kind != "r"] == []
    assert len(marked) >= 50


def test_some_of_what_people_correct_in_passing_is_noticed() -> None:
    assert sum(map(found, (pair for pair in PAIRS if pair["replaces"]))) >= 19


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Invoice 18 is for 450 EUR.", "Invoice 19 is for 475 EUR."),
        ("It is wonderful to have such a loving family.",
         "Turns out the girl had no other family, it broke my heart."),
        ("Being outside made me feel like writing a short story about the trails.",
         "I feel like I just can't stop writing at night!"),
        ("We were able to raise some funds with the run!",
         "We raised awareness and funds at the dinner, many local people suffer from it."),
        ("I'm happy to share my whole story and give others hope.",
         "I let them know that they are not alone by sharing my story."),
        ("Never skip check 7.", "Never skip check 8."),
        ("Kim's port is 8080.", "Lee's port is 9090."),
        ("The Bergen ingest cluster listens on port 20111.",
         "The Lagos parser cluster listens on port 20481."),
        ("The Bergen ingest cluster listens on port 20111.",
         "Correction: the Lagos parser cluster listens on port 50154 now, not on 20481."),
        ("From now on never push ingest changes to release-8.",
         "From now on never push orders changes to release-28."),
        ("The staging port is 8443.", "Actually the production port is 9443."),
        ("Yesterday 12 tests failed.", "Today 3 tests failed."),
        ("The API listens on 8080.", "What if the API listened on 9090?"),
        ("We use Postgres.", "Tom thinks we should move from Postgres to SQLite."),
        ("Use spaces.", "Use tabs instead of spaces in Makefiles."),
        ("The demo is on Thursday.", "No problem, the demo on Thursday is fine."),
        ("Telescope 4 has a focal length of 3900 mm.",
         "No, Telescope 3 has a focal length of 2600 mm, not 2400 mm."),
        ("The fan needs 5 volts.", "No, the pump needs 17 volts, not 14 volts."),
        ("The fan needs 5 volts.", "Actually the pump needs 17 volts."),
        ("The shutter motor draws 6 amps.", "No, the dome motor draws 17 amps, not 14 amps."),
        ("The database listens on port 5432.", "No, the API listens on port 8790, not 8765."),
        ("The museum closes at 18:00.", "No, the gate closes at 22:00, not 21:00."),
        ("The bath costs 900 euros.", "No, the kitchen costs 300 euros."),
        ("Bob starts at 7.", "No, Ada starts at 9, not 8."),
        ("Always use tabs for indentation.", "Use pytest from now on."),
        ("Use tabs in Makefiles.", "Use spaces from now on."),
        ("Never use tabs.", "Use spaces from now on."),
        ("Use npm.", "Just this time, use pnpm instead."),
        ("Use npm.", "Use pnpm for the docs site from now on."),
        ("Use npm and yarn.", "Use npm from now on."),
        ("Use npm.", "Also use yarn from now on."),
    ],
)  # fmt: skip
def test_what_is_about_something_else_or_only_thought_of_stands_beside_it(
    earlier: str, later: str
) -> None:
    assert not replaces(later, earlier)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The dashboard is on port 8765.", "8765 is taken on the harbour machine, use 8790."),
        ("The app listens on 127.0.0.1:8765.", "8765 is taken. Use 8790."),
        ("Standup is on Tuesday at 9.", "Standup moved to Wednesday."),
        ("The API listens on 8080.", "The API listens on 9090."),
        ("Use Postgres for the store.", "Postgres is rejected; use SQLite."),
        ("The poll timeout is 5 seconds.", "Make the poll timeout 8 seconds, not 5."),
        ("I track a goal of 24 books.", "No, that was wrong. My goal is 30 books."),
        ("Call me Ada.", "Call me Grace."),
        ("Always use tabs for indentation.", "Use spaces from now on."),
        ("Always use tabs for indentation.", "From now on spaces."),
        ("Use npm.", "Switch to pnpm."),
        ("Use unittest for all tests.", "Going forward, use pytest."),
        ("We decided to print on recycled paper.", "We no longer print on recycled paper."),
        ("We sell the blue lamp.", "We don't sell the blue lamp any more."),
        ("We decided to parse with ANTLR.", "No, we decided to parse with Lark, not ANTLR."),
        ("Always answer in German.", "Answer in English from now on."),
        ("We'll build it with Podman.", "No, we'll build it with Buildah, not Podman."),
    ],
)
def test_what_says_so_or_fills_the_same_place_anew_replaces(earlier: str, later: str) -> None:
    assert replaces(later, earlier)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_two_texts_are_compared_calmly(later: str, earlier: str) -> None:
    assert replaces(later, earlier) in (True, False)


@given(st.sampled_from(PAIRS))
def test_nothing_replaces_itself_and_a_question_replaces_nothing(pair: dict[str, str]) -> None:
    assert not replaces(pair["earlier"], pair["earlier"])
    assert not replaces(f"{pair['later'].rstrip('.!?)')}?", pair["earlier"]) or "." in pair["later"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Invoice 18 is 120 euros.", "no, it is 8790, not 8765"),
        ("The dinghy has 4 seats.", "no, it is 8790, not 8765"),
        ("Invoice 18 is 120 euros.", "No, it is 12 May, not 10 May"),
        ("The request timeout is 30 seconds.", "No, it's 12."),
    ],
)
def test_a_correction_that_names_no_thing_replaces_only_the_value_it_denies(
    earlier: str, later: str
) -> None:
    assert not replaces(later, earlier)
    assert replaces("no, it is 8790, not 8765", "The port is 8765.")


@pytest.mark.parametrize(
    ("earlier", "later", "meant"),
    [
        (
            ("The frontend timeout is 30 seconds.", "The backend timeout is 60 seconds."),
            "No, the timeout is 90 seconds.",
            set(),
        ),
        (
            ("The frontend timeout is 30 seconds.", "The backend timeout is 60 seconds."),
            "No, the backend timeout is 90 seconds.",
            {1},
        ),
        (
            ("The frontend timeout is 30 seconds.", "The backend timeout is 60 seconds."),
            "No, the timeout is 90 seconds, not 30.",
            {0},
        ),
        (
            ("Invoice 18 is 400 euros.", "Invoice 19 is 450 euros."),
            "Sorry, the invoice is 460 euros.",
            set(),
        ),
        (
            ("The staging port is 7000.", "The production port is 7001."),
            "Actually, the port is 7002.",
            set(),
        ),
        (
            ("The API port is 8765.", "Please remember that the API port is 8765."),
            "No, the API port is 8790.",
            {0, 1},
        ),
        (
            ("The app listens on 8765.", "The database listens on 8765."),
            "No, it is 8790, not 8765.",
            set(),
        ),
    ],
)
def test_of_several_things_that_could_be_meant_none_is_replaced(
    earlier: tuple[str, ...], later: str, meant: set[int]
) -> None:
    assert meant_by(later, earlier) == meant


def test_what_holds_no_more_is_quoted_as_it_was_said() -> None:
    said = "Thanks! Bob’s API listens on port 8765. The Admin is Rosa Meyer."
    gone = replaced_in("No, Bob's API listens on port 8790, not 8765.", said)
    assert gone == ("Bob’s API listens on port 8765.",)
    assert says_more(said, gone)
    assert not says_more("Bob’s API listens on port 8765.", ["bob's api listens on port 8765."])


def test_a_text_is_left_without_the_sentences_that_hold_no_more() -> None:
    said = "Use  tabs. Bob’s port is 80.  Thanks!"
    assert left_of(said, ["bob's port is 80."]) == "Use  tabs. Thanks!"
    assert left_of(said, ["Use spaces."]) == left_of(said, []) == said


def test_whatever_replaces_something_looks_as_if_it_could_and_small_talk_does_not() -> None:
    typed = [line.split("\t")[1:] for line in lines("replaced_typed.tsv")]
    every = [(one["earlier"], one["later"]) for one in PAIRS] + [(one, two) for one, two in typed]
    marked = [later for earlier, later in every if replaces(later, earlier)]
    assert [later for later in marked if not could_replace(later)] == []
    assert marked
    for said in ("Thanks, that helps!", "Perhaps the port is 9090.", "What is the port?"):
        assert not could_replace(said)


def test_a_correction_is_itself_corrected_by_what_denies_its_value() -> None:
    first = "Correction: the meeting room is on floor 5, not floor 3."
    for again in ("not floor 5", "not 5", "instead of 5"):
        assert replaces(f"Correction: the meeting room is on floor 6, {again}.", first)
    assert not replaces("Correction: the meeting room is on floor 6, not 4.", first)
    assert not replaces("Correction: the print room is on floor 6, not floor 4.", first)


@pytest.mark.parametrize("before", [
    "No, deploys are on Thursday.",
    "Deploys are on Thursday, not Tuesday.",
])  # fmt: skip
def test_what_holds_again_replaces_what_had_replaced_it(before: str) -> None:
    """Each names both values: what it says is not so, it does not state."""
    again = "Deploys are on Tuesday again, not Thursday."
    assert replaces(again, before)
    assert replaces(again.replace(" again", ""), before)
    assert not replaces(again, "Deploys are on Tuesday, not Thursday.")
    assert not replaces("Backups run on Tuesday again, not Thursday.", before)
    assert not replaces("Deploys are on Monday again, not Friday.", before)


def test_a_choice_is_gone_back_to_where_the_one_that_ended_it_is_named() -> None:
    assert replaces("Use npm again, not pnpm.", "Use pnpm from now on, not npm.")
    assert replaces("Use pnpm from now on, not npm.", "Use npm.")
    for elsewhere in ("Use npm instead of pnpm in Docker.", "Use npm again, not pnpm in Docker."):
        assert not replaces(elsewhere, "Use pnpm.")
    assert not replaces("Use npm again, not pnpm.", "Never use pnpm.")


def test_who_says_which_number_it_is_not_denies_no_other_number() -> None:
    later = "The printer is in room 12 again, not room 15."
    for same in (later, later.replace("not room", "not"), later.replace(" again", "")):
        assert not replaces(same, "The printer is in room 12.")
        assert replaces(same, "The printer is in room 15.")
        assert replaces(same, "The printer is in room 15, not room 12.")


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("We run the tests in CI.", "We no longer run the tests in Docker."),
        ("The Windows build fails.", "The Linux build no longer fails."),
        ("We decided not to ship to Norway.", "We no longer ship to Norway."),
        (
            "We print the posters on recycled paper.",
            "We no longer print on recycled paper in Oslo.",
        ),
    ],
)
def test_what_ends_elsewhere_goes_on_here(earlier: str, later: str) -> None:
    assert not replaces(later, earlier)


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("Use pnpm, not npm.", "Use npm instead of pnpm in Docker."),
        ("Use tabs, not spaces.", "Use spaces instead of tabs in Makefiles."),
    ],
)
def test_what_holds_everywhere_leaves_an_exception_of_one_place(later: str, earlier: str) -> None:
    assert not replaces(later, earlier)
