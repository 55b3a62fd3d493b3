"""What was said is answered in one line with its source, asked of the guide in a live session."""

from __future__ import annotations

import asyncio
import json
import re
import time
from datetime import UTC, date, datetime
from pathlib import Path

import apsw
import pytest

from mindstone_tui.core import events
from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.interchange.import_session import import_file
from mindstone_tui.core.interchange.samples import sample_file
from mindstone_tui.core.library.agent_files import AgentFilesIndex
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.recall.answer import Wanted
from mindstone_tui.core.recall.course import answer_of_course, span_of
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.session.recall import SessionRecall
from tests.bench.bench_asked import ASKED, chat_as_messages, questions, verdict
from tests.builders import places_in, say, transcript_in
from tests.core.recall.talk import WordModel
from tests.core.session.stage import PATIENCE, Stage, on_stage, script

HELD = {
    "sample": ("02", "03", "12", "16", "27", "38", "42", "47"),
    "chat": ("06", "07", "19", "23", "25", "33", "36", "38", "44"),
}
"""Questions of the open half whose answers are held here; the bench asks all of them."""


def answers(stage: Stage) -> list[str]:
    """Everything that was answered so far."""
    return [each.text for each in stage.all(events.AnswerRecorded) if each.text]


def imported(home: Path, path: Path) -> None:
    """A history in the default session."""
    transcript = transcript_in(home)
    import_file(path, transcript, format="messages")
    transcript.close()


@pytest.fixture(params=sorted(HELD))
def history(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> str:
    """One of two histories, taken over."""
    imported(home, sample_file() if request.param == "sample" else chat_as_messages(tmp_path))
    return str(request.param)


@pytest.mark.thorough
async def test_questions_in_other_peoples_words_are_answered(history: str, home: Path) -> None:
    held = {f"{history}-{number}" for number in HELD[history]}
    asked = [one for one in questions(ASKED / "open.jsonl") if one["id"] in held]
    assert len(asked) == len(held)
    async with on_stage(home, model="local/guide") as stage:
        # How many vectors are there when a question comes would else be a matter of luck.
        recall = stage.session.services.recall
        await asyncio.to_thread(recall.keep_up)  # what waits for its vector stands in the index
        await asyncio.to_thread(recall.embed_within, PATIENCE)
        assert not recall.waiting()
        for question in asked:
            await stage.say(question["question"])
            said = answers(stage)[-1]
            assert verdict(question, said) == "right", (question["question"], said)


async def test_an_answer_stands_before_its_source_and_what_was_before_it(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("The staging port is 8765.")
        await stage.say("The staging port is 8790 now, 8765 was taken.")
        line = [each.seq for each in stage.lines() if each.kind == "user_message"][1]
        await stage.say("which port is staging on?")
        first, second = answers(stage)[-1].splitlines()
    assert first.startswith("The staging port is 8790 now")
    assert first.endswith(f"line {line})")
    assert second.startswith("Before: The staging port is 8765.")


async def test_what_was_cut_off_answers_as_such_and_is_no_source_of_its_own(
    home: Path, tmp_path: Path
) -> None:
    says = script(tmp_path, {"text": "The mooring fee is 40 euros a month.", "error": "timeout"})
    async with on_stage(home, model=says) as stage:
        await stage.say("Look it up, please.")
        line = next(each.seq for each in stage.lines() if each.kind == "assistant_partial")
    async with on_stage(home, model="local/guide") as stage:
        for _ in range(2):
            await stage.say("How much is the mooring fee?")
            said = answers(stage)[-1]
            assert said.startswith("The mooring fee is 40 euros a month. (")
            assert said.endswith(f"line {line}; interrupted)")


@pytest.mark.parametrize(
    ("said", "lasts"),
    [
        ("A gauge that does not answer is asked again ten minutes later.", False),
        ("A gauge is asked every ten minutes.", False),
        ("Timeout 8 seconds, the gauges sit on bad mobile links.", True),
    ],
)
def test_how_long_something_takes_is_not_when_it_comes_again(said: str, lasts: bool) -> None:
    assert Wanted("how long do we wait for a gauge to answer", {}, 1.0).fits(said) is lasts


async def test_what_is_only_imagined_states_nothing(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("The gate port is 4100.")
        await stage.say("If the gate port were 7777, the gate would have no other port.")
        await stage.say("Suppose the gate port was 7778.")
        await stage.say("which port does the gate have?")
    assert "4100" in answers(stage)[-1].partition("\n")[0]
    assert "777" not in answers(stage)[-1]


async def test_what_was_taken_over_later_and_said_earlier_is_not_the_newest(
    home: Path, tmp_path: Path
) -> None:
    transcript = transcript_in(home)
    say(transcript, "The gate listens on port 9090 now.", "ok.")
    old = {"id": "m1", "role": "user", "name": "Rosa", "ts": "2025-03-02T10:00:00Z"}
    chat = tmp_path / "chat.jsonl"
    chat.write_text(json.dumps(old | {"content": "The gate listens on port 8080 now."}) + "\n")
    import_file(chat, transcript, format="messages")
    transcript.close()
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("which port does the gate listen on?")
    assert "9090" in answers(stage)[-1].partition("\n")[0]


async def test_whoever_asks_waits_for_the_meaning_of_the_newest_lines(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(9):
        say(transcript, f"Rosa does review {number}.", "ok.")
    transcript.close()
    homes, model = Places.resolve({"MINDSTONE_HOME": str(home)}), WordModel()
    files = AgentFilesIndex(homes.agent("default"), model)
    recall = SessionRecall(homes, places_in(home), RecallSettings(), model, files)
    try:
        await recall.answer("who does the review?", ())
        assert recall.waiting() == 18, "by words alone, as all of them"
        recall.embed_some(4, 5.0)
        await recall.answer("who does the review?", ())
        assert recall.waiting() == 0
    finally:
        recall.close()


async def test_an_answer_is_never_its_own_source(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("My boat is called Nereid.")
        for _ in range(3):
            await stage.say("what is my boat called?")
        said = answers(stage)[-3:]
        await stage.say("what is the harbour master called?")
        await stage.say("what is the harbour master called?")
    assert len(set(said)) == 1
    assert said[0].startswith("My boat is called Nereid.")
    assert answers(stage)[-1].startswith("I found nothing")


@pytest.mark.thorough
async def test_the_questions_that_strangers_asked_first_are_answered_or_not_at_all(
    home: Path,
) -> None:
    imported(home, sample_file())
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("which port did we settle on?")
        await stage.say("What is the alarm threshold and who asked for it?")
        await stage.say("what is Mara's phone number?")
        await stage.say("which database password did we choose for Redis?")
        await stage.say("what is still open?")
        port, threshold, phone, password, left = answers(stage)[-5:]
    assert "8790" in port.partition("\n")[0]
    assert "420 mm" in threshold.partition("\n")[0]
    assert phone.startswith("I found nothing that surely answers that.")
    assert password.startswith("I found nothing that surely answers that.")
    assert "K3 heater is still broken" in left


@pytest.mark.parametrize(
    ("said", "asked", "starts"),
    [
        ("Rosa does the review.", "who does the review?", "Rosa does the review."),
        ("Backups run at 3.", "when do backups run?", "Backups run at 3."),
        (
            "The roof is leaking badly.",
            "how many roofs are leaking?",
            "I found nothing that surely",
        ),
        ("The roof is leaking.", "who paints submarines?", "I found nothing"),
    ],
)
async def test_what_was_said_is_never_denied(
    said: str, asked: str, starts: str, home: Path
) -> None:
    async with on_stage(home, model="local/guide") as stage:
        for each in (said, "Hello there.", "The parser is written in Python.", "We met Olaf."):
            await stage.say(each)
        await stage.say(asked)
    answer = answers(stage)[-1]
    assert answer.startswith(starts)
    assert "was said about that" not in answer
    assert (said in answer) == ("submarines" not in asked)


@pytest.mark.parametrize(
    ("said", "corrected"),
    [
        ("Please remember that the staging host is harbour-1.", "the staging host is harbour-2"),
        ("The staging host is harbour-1. Rosa does the review.", "the staging host is harbour-2"),
    ],
)
async def test_what_was_corrected_is_no_answer_to_what_is_so(
    said: str, corrected: str, home: Path
) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say(said)
        await stage.say("The parser is written in Python.")
        await stage.say(f"No, {corrected}, not harbour-1.")
        await stage.say("what is the staging host?")
    first = answers(stage)[-1].partition("\n")[0]
    assert corrected in first or first.startswith("I found nothing that surely answers that")


async def test_a_version_is_not_another_one_with_the_same_digits(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("Version 1.0.1 of the beacon was released on 3 May.")
        await stage.say("Version 1.2.0 of the beacon was released on 9 June.")
        await stage.say("When was version 1.1 of the beacon released?")
        await stage.say("When was version 1.0.1 of the beacon released?")
        await stage.say("When was version 1.2 of the beacon released?")
    other, asked, short = answers(stage)[-3:]
    assert "on 9 June" in short
    assert other.startswith("I found nothing")
    assert "on 3 May" in asked


async def test_of_a_message_that_was_corrected_in_part_only_what_holds_is_quoted(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("The meeting room is on floor 3. The coffee is in the kitchen.")
        await stage.say("Correction: the meeting room is on floor 5, not floor 3.")
        await stage.say("Correction: the meeting room is on floor 6, not floor 5.")
        await stage.say("where is the coffee?")
        await stage.say("on which floor is the meeting room?")
    coffee, room = answers(stage)[-2:]
    assert coffee.startswith("The coffee is in the kitchen. (")
    assert "is on floor 6" in room.partition("\n")[0]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("Which port did the staging API use before?", "9090, not 8080"),
        ("Which port did the staging API use earlier?", "9090, not 8080"),
        ("Which port did the staging API use at first?", "port 8080."),
        ("Which port does the staging API use now?", "9191, not 9090"),
    ],
)
async def test_what_was_before_is_the_last_value_that_was_replaced(
    asked: str, told: str, home: Path
) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("The staging API listens on port 8080.")
        await stage.say("Correction: the staging API listens on port 9090, not 8080.")
        await stage.say("Correction: the staging API listens on port 9191, not 9090.")
        await stage.say(asked)
    first, *others = answers(stage)[-1].splitlines()
    assert told in first
    now = [each for each in others if "port 9191" in each]
    assert [each[:5] for each in now] == ["Now: "] * ("9191" not in told)


async def test_what_nobody_has_judged_yet_is_judged_before_it_is_an_answer(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "The gas meter shows 3001. The water meter shows 4001.", "ok.")
    say(transcript, "Correction: the gas meter shows 3002, not 3001.", "ok.")
    say(transcript, "Correction: the gas meter shows 3003, not 3002.", "ok.")
    transcript.close()
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("What does the gas meter show?")
        assert "3003" in answers(stage)[-1].splitlines()[0]


async def test_who_could_not_look_does_not_say_that_there_is_nothing(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("Rosa does the review.")
        library = apsw.Connection(str(Places.resolve({"MINDSTONE_HOME": str(home)}).library))
        library.execute("begin immediate")
        await stage.say("who does the review?")
        library.execute("rollback")
        library.close()
    assert answers(stage)[-1].startswith("I could not look that up: The recall index")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("what did we do on Tuesday?", "10 February 2026: where is the key? (10 February, line 0)"),
        ("what did we do on 4 February?", "I found nothing that was said on 4 February 2026."),
        (
            "what changed since 2026-02-10?",
            "I found nothing that was said to change since 10 February 2026.",
        ),
    ],
)
def test_a_day_on_which_only_questions_were_asked_is_not_called_empty(
    asked: str, said: str
) -> None:
    question = Passage(
        id="p", session="s", entry="e", seq=0, turn=1, role="user", speaker="user",
        ts="2026-02-10T10:00:00.000Z", kind="user_message", text="where is the key?",
    )  # fmt: skip
    assert said in answer_of_course(asked, [question], date(2026, 2, 12))


async def test_what_the_guide_quotes_is_neither_done_nor_decided_once_more(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("The standup moved to 10:00.")
        await stage.say("We decided to use Memcached for the cache.")
        for asked in ("When is the standup?", "What did we decide to use for the cache?"):
            await stage.say(asked)
        assert "Memcached" in answers(stage)[-1]
        assert (await stage.run("/handoff write"))[0].ok
        letter, _, said = (await stage.run("/handoff show"))[1].partition("## Requests")
        assert "Already done" not in letter
        assert letter.count("Memcached") == 1
        assert answers(stage)[-1] in said


async def test_a_day_is_one_of_whoever_asks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = datetime.now(UTC).hour < 12
    monkeypatch.setenv("TZ", "Etc/GMT+12" if before else "Etc/GMT-14")  # it is another day there
    time.tzset()
    try:
        async with on_stage(home, model="local/guide") as stage:
            await stage.say("The harbour light is green.")
            await stage.say("What did we say of the harbour today?")
            day = datetime.now().astimezone()
            assert f"{day.day} {day:%B %Y}: The harbour light is green." in answers(stage)[-1]
            await stage.say("Is the harbour light green?")
            assert f"({day.day} {day:%B}, line 2)" in answers(stage)[-1]
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_how_a_session_began_is_told_however_long_it_is(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("Build me a birdhouse of larch.")
        await stage.say("The roof is red.")
        await stage.say("what did I ask first?")
    assert answers(stage)[-1].startswith("Build me a birdhouse of larch.")


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("what did we do on Tuesday?", date(2026, 2, 10), date(2026, 2, 10)),
        ("what happened on the 4th", date(2026, 2, 4), date(2026, 2, 4)),
        ("what happened on feb 7", date(2026, 2, 7), date(2026, 2, 7)),
        ("what did we do yesterday", date(2026, 2, 11), date(2026, 2, 11)),
        ("what did we do last week", date(2026, 2, 2), date(2026, 2, 8)),
        ("what changed since 2026-01-31?", date(2026, 1, 31), date(2026, 1, 31)),
    ],
)
def test_a_day_is_the_newest_that_fits(asked: str, first: date, last: date) -> None:
    days = [date(2026, 2, day) for day in (2, 3, 4, 9, 10)]
    assert span_of(asked, days, date(2026, 2, 12)) == (first, last)


@pytest.mark.parametrize("asked", ["what happened on 31 february", "what did we do?"])
def test_a_day_that_does_not_exist_is_none(asked: str) -> None:
    assert span_of(asked, [date(2026, 2, 2)], date(2026, 2, 12)) is None


async def test_what_the_guide_says_of_this_program_is_no_history(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("hello")
        await stage.say("how do I import sessions from Claude Code?")
        await stage.say("how do I search over all sessions?")
        await stage.say("what does anchored mean?")
    searched, meant = answers(stage)[-2:]
    assert searched.startswith("**Searching**")
    assert meant.startswith("**Anchored**")


async def test_what_is_remembered_answers_everywhere_and_a_question_never_does(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("remember that I prefer tabs")
        assert (await stage.run("/keep"))[0].ok
    elsewhere = SessionKey.parse("elsewhere")
    async with on_stage(home, key=elsewhere, model="local/guide") as stage:
        await stage.say("what do I prefer, tabs or spaces?")
        await stage.say("do I prefer tabs?")
    for said in answers(stage):
        assert re.fullmatch(r"(?:remember that )?I prefer tabs \(memory/[\w-]+\.md\)", said)


@pytest.mark.parametrize("asked", ["did we decide to use docker?", "which tests need docker?"])
def test_what_is_used_or_needed_is_a_thing_that_must_have_been_spoken_of(asked: str) -> None:
    """Else whatever else was decided would pass for an answer."""
    rarity = {"decide": 1.5, "use": 1.0, "tests": 1.5, "need": 1.0, "docker": 0.0}
    assert Wanted(asked, rarity, strength=1.5).missing > 0.5
