"""What a person corrected is told nowhere as if it still held."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.agent.memories import waiting_in
from mindstone_tui.core.config import Settings
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import (
    MemoryProposed,
    NoteTaken,
    RecalledPassage,
    RecallInjected,
    StatementSuperseded,
)
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.events import narrate
from mindstone_tui.core.features.memory import MemoryFeature
from mindstone_tui.core.features.recall import RecallFeature
from mindstone_tui.core.interchange.export.story import StorySource, overview
from mindstone_tui.core.library import open_questions
from mindstone_tui.core.library.blame import KeptFiles
from mindstone_tui.core.library.work import WorkDone
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.recall.inject import Vacancy
from mindstone_tui.core.recall.passages import passages_of
from mindstone_tui.core.session.recall import SessionRecall, may_correct
from mindstone_tui.core.transcript import History
from tests.builders import places_in, transcript_in
from tests.core.session.stage import Stage, calls, on_stage, script
from tests.core.session.test_what_counts import leave

OK = {"text": "Fine."}


async def killed(*_: object) -> tuple[events.AnyEvent, ...]:
    """What comes of the chores of a turn whose process is gone."""
    return ()


CORRECTION = "No, the deploy host is harbour-2, not harbour-1."

FILL = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod " * 24


def prompt(stage: Stage) -> str:
    """The newest request, as it was sent."""
    return str(stage.requests()[-1])


@pytest.mark.thorough
@pytest.mark.parametrize("pinned", [False, True])
async def test_no_prompt_has_a_corrected_message_without_its_correction(
    home: Path, tmp_path: Path, pinned: bool
) -> None:
    model = script(tmp_path, {"text": f"Fine. {FILL}"}, loop=True)
    async with on_stage(home, model=model, context_window=8_000) as stage:
        if pinned:
            await stage.say("Hello, help me ship it.")
        await stage.say("The deploy host is harbour-1. Please help me ship it.")
        if pinned:
            await stage.run("/pin turn 2")
        await stage.say("No, the deploy host is harbour-2, not harbour-1.")
        turn = stage.lines()[-1].turn
        for number in range(14):
            await stage.say(f"Message number {number}. {FILL}")
        assert "harbour-1" in prompt(stage)
        assert "the deploy host is harbour-2" in prompt(stage)
        _, why = await stage.run(f"/why turn {turn}")
        assert "because it corrects what is shown" in why


async def test_a_checkpoint_names_the_persons_own_line_as_corrected_and_no_quotation(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("The staging API listens on port 8080.")
        for each in ("Hello there.", "The parser is written in Python.", "We met Olaf.", "Hi."):
            await stage.say(each)
        await stage.say("Which port does the staging API listen on?")
        await stage.say("Correction: the staging API listens on port 9090, not 8080.")
        said = next(line.seq for line in stage.lines() if line.kind == "user_message")
        await stage.run("/checkpoint save")
        _, told = await stage.run("/checkpoint show")
    assert f"it corrects line {said}: The staging API listens on port 8080." in told


async def test_a_corrected_sentence_is_no_current_topic(home: Path, tmp_path: Path) -> None:
    said = "The lamp is green. The door is shut."
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        for words in (said, "Tell me a tale", "Correction: the lamp is blue, not green.", "thanks"):
            await stage.say(words)
        for corrected in (True, False):
            await stage.run("/checkpoint save")
            for told in ("/checkpoint show", "/task show"):
                text = (await stage.run(told))[1]
                assert (said in text) is not corrected
                assert "The door is shut." in text
            await stage.run("/rewind turn 2")


@pytest.mark.parametrize(
    "later", ["Change of plans: we ship on Monday.", "We no longer ship on Friday."]
)
async def test_a_decision_that_is_replaced_in_any_words_is_decided_no_more(
    home: Path, later: str
) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.run("/task start Release the importer")
        for words in ("We decided to ship on Friday.", later):
            await stage.say(words)
        await stage.run("/checkpoint save")
        _, told = await stage.run("/checkpoint show")
        assert "statement_superseded" in [line.kind for line in stage.lines()]
    assert "- We decided to ship" not in told


def test_what_is_pasted_is_not_compared_sentence_by_sentence(home: Path) -> None:
    transcript = transcript_in(home)
    short = transcript.append(UserMessage(text="The gate listens on port 8080."), turn=1)
    rows = " ".join(f"The gate {at} listens on port {at}." for at in range(400))
    long = transcript.append(UserMessage(text=rows), turn=2)
    transcript.close()
    assert [*map(may_correct, passages_of([short]))] == [True]
    assert not any(map(may_correct, passages_of([long])))


async def test_what_a_finished_task_told_is_marked_when_it_is_corrected(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.run("/task start Ship the importer")
        await stage.say("We decided: the deploy host is harbour-1.")
        await stage.run("/task done")
        await stage.say("No, the deploy host is harbour-2, not harbour-1.")
        found = await stage.session.services.recall.search("deploy host", 20, "session")
        told = [hit for hit in found.hits if hit.passage.kind == "task_done"]
        assert [hit.superseded_by for hit in told] == [None]
        gone = [one for hit in told for one in hit.corrected.values()]
        assert gone == [("Decisions: We decided: the deploy host is harbour-1.",)]


@pytest.mark.parametrize("between", ["Who is it?", "Write a tale of the sea."])
@pytest.mark.parametrize("first", ["is 7714.", "is 7714, not 7701."])
async def test_what_the_model_says_again_later_of_what_was_replaced_is_replaced_too(
    home: Path, tmp_path: Path, first: str, between: str
) -> None:
    old = "The harbour code is 7714."
    replies = ({"text": text} for text in ("Noted.", "Noted.", "A tale.", f"Well. {old}", "Yes."))
    async with on_stage(home, model=script(tmp_path, *replies)) as stage:
        first = f"The harbour code {first}"
        for words in (first, "Correction: the harbour code is 7741, not 7714.", between):
            await stage.say(words)
        await stage.say("What do you sing?")
        await stage.say("Thanks.")
        texts = {line.seq: getattr(line.entry, "text", "") for line in stage.lines()}
        told = [texts[one.statement] for one in stage.entries(StatementSuperseded)]
    assert told == [first, f"Well. {old}"]


@pytest.mark.thorough
async def test_who_chooses_another_thing_ends_what_was_chosen_before(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.say("Help me write the parser of the harbour log.")
        await stage.say("Always use tabs for indentation.")
        for number in range(30):
            await stage.say(f"Page {number}: use spaces between its words.")
        await stage.say("Use spaces from now on.")
        await stage.run("/checkpoint save")
        binding = (await stage.run("/checkpoint show"))[1]
        marks = [line for line in stage.lines() if line.kind == "statement_superseded"]
    assert "Use spaces from now on." in binding
    assert "tabs" not in binding
    assert len(marks) == 1


async def test_a_rule_of_a_task_leaves_head_list_and_handoff_by_a_line_that_says_so(
    home: Path, tmp_path: Path
) -> None:
    rules = "rule: the deploy host is harbour-1 | rule: never push to main"
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.run(f"/task start Ship | {rules}")
        await stage.say("hello")
        for said, binds in (("go", True), (CORRECTION, False), ("You may push to main.", False)):
            await stage.say(said)
            await stage.say("go")
            _, shown = await stage.run("/task show")
            await stage.run("/handoff write")
            _, letter = await stage.run("/handoff show")
            head = str(stage.requests()[-1][0]["content"])
            for told in (head, shown, letter):
                assert ("- the deploy host is harbour-1" in told) is binds
                assert "- never push to main" in told
        verdicts = stage.entries(StatementSuperseded)
        assert {one.words for one in verdicts} == {("the deploy host is harbour-1",)}
        await stage.run("/rewind turn 1")
        await stage.say("go on with it")
        assert "- the deploy host is harbour-1" in prompt(stage), "the correction was taken back"


async def test_words_that_a_person_changed_or_refused_bind_neither_here_nor_in_a_fork(
    home: Path, tmp_path: Path
) -> None:
    model, key = script(tmp_path, OK, loop=True), "agent:default:kid"
    async with on_stage(home, model=model) as stage:
        await stage.run("/task start Build the thing")
        await stage.say("Remember: always deploy with make ship.")
        await stage.say("Remember: always test with make probe.")
        await stage.say("Don't touch the migrations folder.")
        await stage.run("/keep no")
        first, second = (one.proposal for one in stage.entries(MemoryProposed))
        await stage.run(f"/memory edit {first} Always deploy with make release.")
        await stage.run(f"/memory refuse {second}")
        await stage.run("/fork kid")
        _, shown = await stage.run("/task show")
    async with on_stage(home, model=model, key=SessionKey.parse(key)) as stage:
        _, there = await stage.run("/task show")
        assert not stage.session.services.features.get(MemoryFeature).memories.waiting
        for told in (shown, there):
            assert "make release" in told
            assert [w for w in ("make ship", "make probe", "migrations") if w in told] == []


async def test_no_request_of_the_correcting_turn_tells_the_memory_and_its_note(
    home: Path, tmp_path: Path
) -> None:
    write = calls(("write", {"path": "s.txt", "content": "elm"}))
    replies = [OK, write, OK, OK]
    async with on_stage(home, model=script(tmp_path, *replies), approve="full-auto") as stage:
        await stage.say("Please remember that the build server is called oak.")
        await stage.run(f"/memory approve {stage.entries(MemoryProposed)[0].proposal}")
        before = len(stage.requests())
        await stage.say("No, the build server is called elm, not oak. Write it to a file.")
        heads = [str(request[0]["content"]) for request in stage.requests()[before:]]
        assert len(heads) == 2
        assert not [head for head in heads if "called oak" in head]
        assert len(stage.entries(MemoryProposed)) == 2, "its change is proposed once"


async def test_a_memory_that_another_session_corrects_is_no_note_of_the_first(
    home: Path, tmp_path: Path
) -> None:
    model, key = script(tmp_path, OK, loop=True), "agent:default:other"
    async with on_stage(home, model=model) as stage:
        await stage.say("Please remember that the build server is called oak.")
        await stage.run(f"/memory approve {stage.entries(MemoryProposed)[0].proposal}")
        async with on_stage(home, model=model, key=SessionKey.parse(key)) as other:
            await other.say("Hi there.")
            await other.say("No, the build server is called elm, not oak.")
            await stage.say("Go on.")
            assert "called oak" not in str(stage.requests()[-1][0]["content"])
            await other.run(f"/memory approve {other.entries(MemoryProposed)[-1].proposal}")
        await stage.say("Go on with it.")
        head = str(stage.requests()[-1][0]["content"])
        assert "called elm, not oak" in head
        assert "- the build server is called oak" not in head


async def test_a_proposal_does_not_wait_while_any_correction_of_its_words_stands(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.say("Please remember that the API port is 8765.")
        await stage.say("No, the API port is 8790, not 8765.")
        await stage.say("No, the API port is 8800, not 8765.")
        memories = stage.session.services.features.get(MemoryFeature).memories
        await stage.run("/rewind turn 1")
        assert len(memories.waiting) == 1
        await stage.run("/restore turn 3")
        assert not memories.waiting


async def test_what_stands_in_the_head_or_is_shown_tells_the_newest_correction_alone(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.run("/task start Ship the importer")
        await stage.say("We decided: the deploy host is harbour-1.")
        await stage.run("/handoff write")
        await stage.run("/checkpoint save")
        await stage.run("/checkpoint resume")
        await stage.say("No, the deploy host is harbour-2, not harbour-1.")
        await stage.say("No, the deploy host is harbour-3, not harbour-2.")
        await stage.say("go")
        _, letter = await stage.run("/handoff show")
        head = str(stage.requests()[-1][0]["content"])
        assert "what was done since is not in it" in head
        for told in (head.partition("corrected since")[2], letter.partition("Changed since")[2]):
            assert "the deploy host is harbour-3" in told
            assert "No, the deploy host is harbour-2" not in told


async def test_what_a_command_changed_is_told_with_what_became_of_its_turn(
    home: Path, tmp_path: Path
) -> None:
    made = calls(("shell", {"command": "mkdir -p sub/deep empty && echo hi > sub/deep/x.txt"}))
    model = script(tmp_path, OK, made, OK, OK, loop=True)
    async with on_stage(home, model=model, approve="full-auto") as stage:
        await stage.say("hello")
        await stage.say("make them")
        (changed,) = stage.all(events.FilesChanged)
        told = narrate.describe(changed)
        assert told.text == "1 file and 1 folder changed by shell: empty, sub/deep/x.txt"
        await stage.run("/fork kid")
        await stage.run("/rewind turn 1")
        _, why = await stage.run("/why sub/deep/x.txt")
        assert why.startswith("sub/deep/x.txt: created by shell")
        assert "(rewound by #" in why
        _, status = await stage.run("/status")
        assert "2 turns (1 rewound)" in status
    work = WorkDone(Places.resolve({"MINDSTONE_HOME": str(home)}), Settings())
    (found,) = [one for one in work.about("x.txt", 5) if one.touched]
    assert (found.turn, found.files, found.rewound > 0) == (2, ("sub/deep/x.txt",), True)
    key = SessionKey.parse("agent:default:kid")
    async with on_stage(home, model=model, key=key) as stage:
        _, why = await stage.run("/why sub/deep/x.txt")
        assert why.startswith("sub/deep/x.txt: created by shell")
        assert "of agent:default:main)" in why
        assert "You asked: “make them”" in why
        assert "rewound" not in why, "it counts in the fork"


@pytest.mark.parametrize(
    ("rest", "holds"),
    [
        ("Rosa does the review.", True),
        ("Please write the tests first.", True),
        ("Can you add a health check?", True),
        ("Never touch the lens.", True),
        ("Be brief.", True),
        ("Thanks!", False),
    ],
)
async def test_what_else_a_message_says_is_not_superseded_with_one_sentence(
    home: Path, tmp_path: Path, rest: str, holds: bool
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.say(f"The API port is 8765. {rest}")
        await stage.say("No, the API port is 8790, not 8765.")
        await stage.rest()
        (verdict,) = stage.entries(StatementSuperseded)
        assert (verdict.words, verdict.partly) == (("The API port is 8765.",), holds)


async def test_what_a_recall_judged_counts_for_notes_memories_tasks_and_forks(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = script(tmp_path, OK, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say(
            "We decided: deploy with Ansible. Please remember that the release day is Thursday."
        )
        await stage.rest()
        note = next(line for line in stage.lines() if isinstance(line.entry, NoteTaken))

        async def gather(_: object, text: str, vacancy: Vacancy) -> RecallInjected:
            by = max(one.seq for one in vacancy.said)
            passage = RecalledPassage(
                seq=note.seq, turn=1, score=1.0, tokens=5, text=text, superseded_by=by
            )
            return RecallInjected(passages=(passage,), text=text, tokens=5)

        with monkeypatch.context() as patched:
            patched.setattr(SessionRecall, "gather", gather)
            await stage.say("The release day is Friday, not Thursday.")
            await stage.rest()
        said = [verdict.statement for verdict in stage.entries(StatementSuperseded)]
        assert note.seq in said
        assert "Thursday" not in (await stage.run("/notes"))[1]
        assert "- the release day is Thursday" not in (await stage.run("/task show"))[1]
        assert not waiting_in(
            Places.resolve({"MINDSTONE_HOME": str(home)}).agent("default"), stage.places
        )
        await stage.say("when is the release day?")
        await stage.rest()
        assert len(stage.entries(StatementSuperseded)) == len(said), "judged once"
        assert "release day is Thursday (turn" not in str(stage.requests()[-1])
        await stage.run("/fork kid")
    async with on_stage(home, model=model, key=SessionKey.parse("agent:default:kid")) as stage:
        note = next(line for line in stage.lines() if isinstance(line.entry, NoteTaken))
        assert "superseded" in [one.what for one in Standings(stage.lines()).of(note)]


@pytest.mark.parametrize("more", [0, 2])
async def test_a_correction_whose_turn_was_killed_is_judged_with_the_next_that_ends_well(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    failed = [{"error": "auth"}] * (more + 1)
    async with on_stage(home, model=script(tmp_path, OK, *failed, OK, OK)) as stage:
        await stage.say("The API port is 8765.")
        with monkeypatch.context() as patched:
            patched.setattr(RecallFeature, "after_turn", killed)
            for words in ("No, the API port is 8790, not 8765.", *["well?"] * more):
                assert (await stage.say(words)).ending != "done"
                await stage.rest()
        assert not stage.entries(StatementSuperseded)
        await stage.say("go on")
        await stage.rest()
        (verdict,) = stage.entries(StatementSuperseded)
        assert verdict.words == ("The API port is 8765.",)
        told = f"#{verdict.statement} is superseded by #{verdict.by}"
        assert told in [each.detail for each in stage.all(events.WindowChanged)]
        await stage.say("thanks")
        await stage.run(f"/rewind turn {2 + more}")
        await stage.run("/handoff write")
        shown = (await stage.run("/handoff show"))[1]
        assert shown.count(f"superseded by line {verdict.by}, line {verdict.statement}]") == 2


@pytest.mark.thorough
async def test_a_compaction_right_after_a_killed_correction_knows_of_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [{"text": "Noted. " + "All of that is as it was said here. " * 30}] * 5
    short = {"for": "summary", "text": "They took notes."}
    says = script(tmp_path, *said, {"error": "auth"}, *[short] * 4)
    async with on_stage(home, model=says, context_window=5_000) as stage:
        await stage.run("/task start Deploy the API")
        for words in (
            *(f"Note {n}. " + "So it is. " * 99 for n in "1234"),
            "The API port is 8765.",
        ):
            await stage.say(words)
        with monkeypatch.context() as patched:
            patched.setattr(RecallFeature, "after_turn", killed)
            await stage.say("No, the API port is 8790, not 8765.")
            await stage.rest()
        assert not stage.entries(StatementSuperseded)
        ended, told = await stage.run("/compact")
        assert ended.ok, told
        _, letter = await stage.run("/handoff show")
        assert "superseded by line" in letter
        assert "Changed since" not in letter


async def test_a_correction_that_was_rewound_before_it_was_judged_is_judged_once_it_is_back(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, {"error": "auth"}, OK, OK)) as stage:
        await stage.say("The API port is 8765.")
        with monkeypatch.context() as patched:
            patched.setattr(RecallFeature, "after_turn", killed)
            await stage.say("No, the API port is 8790, not 8765.")
            await stage.rest()
        await stage.run("/rewind turn 1")
        await stage.say("hello")
        await stage.run("/restore turn 2")
        await stage.say("go on")
        await stage.rest()
        (verdict,) = stage.entries(StatementSuperseded)
        assert verdict.words == ("The API port is 8765.",)


TWO = "The API port is 8765. The admin is called Rosa. Never push to main."


async def test_of_a_corrected_sentence_the_rest_of_its_message_holds(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.say(TWO)
        await stage.say("No, the admin is called Maria, not Rosa.")
        await stage.rest()
        (verdict,) = stage.entries(StatementSuperseded)
        assert verdict.part == ("The admin is called Rosa.",)
        said = next(line for line in stage.lines() if line.seq == verdict.statement)
        told = f"corrected in part by #{verdict.by}: “The admin is called Rosa.”"
        assert [one.words for one in Standings(stage.lines()).of(said)] == [told]
        assert told in (await stage.run("/why turn 1"))[1]
        found = (await stage.run("/recall which port is the API on"))[1]
        assert told in found
        assert "superseded" not in found
        await stage.run("/handoff write")
        shown = (await stage.run("/handoff show"))[1]
        assert "corrected in part by line" in shown
        assert "superseded by line" not in shown
        assert "Changed since" not in shown, "it was corrected before"
        await stage.say("No, the API port is 9000, not 8765.")
        await stage.rest()
        marks = Standings(stage.lines()).of(said)
        assert [one.part for one in marks] == [verdict.part, ("The API port is 8765.",)]
        shown = (await stage.run("/handoff show"))[1]
        assert "Changed since: Of line" in shown
        assert shown.count("Changed since") == 1
        await stage.run("/rewind turn 1")
        assert not Standings(stage.lines()).of(said)


async def test_a_corrected_exchange_comes_back_with_its_correction(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, OK, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("Hello, help me ship it.")
        await stage.say("The deploy host is harbour-1.")
        await stage.say(CORRECTION)
        for number in range(9):
            await stage.say(f"go on {number}")
        assert (await stage.run("/prune turn 2"))[0].ok
        assert (await stage.run("/prune turn 3"))[0].ok
        await stage.say("and?")
        assert "harbour-1" not in prompt(stage)
        assert (await stage.run("/restore turn 2"))[0].ok
        await stage.say("and now?")
        assert CORRECTION in prompt(stage)
        await stage.run("/prune turn 3")
        await stage.say("and then?")
        assert CORRECTION in prompt(stage), "it stays as long as what it corrects"


@pytest.mark.thorough
async def test_what_left_in_part_is_not_counted_as_out(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": f"Fine. {FILL}"}, loop=True)
    async with on_stage(home, model=model, context_window=8_000) as stage:
        for number in range(1, 12):
            await stage.say(f"Message {number}. {FILL}")
        told = (await stage.run("/context"))[1]
        out = [one for one in range(1, 12) if f"Message {one}." not in prompt(stage)]
        assert out
        assert 1 not in out
        pruned = [narrate.describe(one).text for one in stage.all(events.WindowPruned)]
        assert f"Out of the window: {len(out)} exchange" in told
        assert ", and 1 in part" in told
        assert " in part" in pruned[0]


async def test_a_correction_that_holds_no_longer_is_none_of_those_that_are_handed_over(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "So."}, loop=True)) as stage:
        await stage.run("/task start Set up the harbour site")
        await stage.say("The mooring fee is 40 euros.")
        await stage.say("Correction: the mooring fee is 50 euros, not 40.")
        for said, holds in (("Go on.", True), ("The mooring fee is now 70 euros.", False)):
            await stage.say(said)
            await stage.rest()
            assert (await stage.run("/handoff write"))[0].ok
            letter = (await stage.run("/handoff show"))[1].partition("## Requests")[0]
            shown = (await stage.run("/task show"))[1]
            assert ("50 euros" in letter, "50 euros" in shown) == (holds, holds), said
        assert (await stage.run("/rewind turn 3"))[0].ok
        assert "50 euros" in (await stage.run("/task show"))[1]


async def test_a_correction_whose_answer_left_is_out_in_part_once_what_it_corrects_is_out(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "So."}, loop=True)) as stage:
        await stage.say("We begin.")
        await stage.say("The billing service listens on port 8443.")
        await stage.say("Well.")
        await stage.say("Correction: the billing service listens on port 9443, not 8443.")
        for number in range(6):
            await stage.say(f"Message {number}.")
        assert (await stage.run("/prune 4"))[0].ok
        assert "Out of the window: 2 exchanges, and 2 in part" in (await stage.run("/context"))[1]
        assert "The rest of its exchange has left." in (await stage.run("/why turn 4"))[1]
        assert "has left" not in (await stage.run("/why turn 9"))[1]
        assert (await stage.run("/rewind turn 3"))[0].ok
        assert "Out of the window: 2 exchanges, and 1 in part" in (await stage.run("/context"))[1]


async def test_the_turns_of_a_fork_are_those_that_began_in_it(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, OK, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("one")
        await stage.say("two")
        await stage.run("/fork kid")
    kid = SessionKey("default", "kid")
    async with on_stage(home, key=kid, model=model) as fork:
        await fork.say("three")
        assert "1 turn since the fork, 2 before it" in (await fork.run("/status"))[1]
    with History(places_in(home, "agent:default:kid")) as history:
        seen = overview(StorySource(history))
    assert seen.facts[0] == "1 turn since the fork, 2 before it"


async def test_another_session_does_not_let_a_corrected_proposal_wait(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, OK, loop=True)
    everywhere = Places.resolve({"MINDSTONE_HOME": str(home)})
    async with on_stage(home, model=model) as stage:
        await stage.say("Please remember that the API port is 8765.")
        assert waiting_in(everywhere.agent("default"), stage.places)
        assert open_questions.waiting_in(everywhere, stage.places)
        source = next(line.seq for line in stage.lines() if line.kind == "user_message")
        words = ("please remember that the api port is 8765.",)
        verdict = StatementSuperseded(statement=source, by=source, words=words)
    transcript = transcript_in(home)
    transcript.append(verdict)
    transcript.close()
    assert not waiting_in(everywhere.agent("default"), places_in(home))
    assert not open_questions.waiting_in(everywhere, places_in(home))


async def remembered(stage: Stage) -> str:
    """Remember a port, with the person's yes; what the proposal was called."""
    await stage.say("Please remember that the API port is 8765.")
    name = stage.entries(MemoryProposed)[-1].proposal
    await stage.run(f"/memory approve {name}")
    return name


async def test_a_corrected_memory_stays_corrected_in_a_fork_wherever_else_it_holds_again(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, OK, loop=True)
    everywhere = Places.resolve({"MINDSTONE_HOME": str(home)})
    async with on_stage(home, model=model) as stage:
        await remembered(stage)
        await stage.say("No, the API port is 8790, not 8765.")
        await stage.run("/fork kid")
        both = open_questions.WaitingRoom(everywhere).look()
        assert [one.kind for one in both] == ["memory"], "one change, proposed once"
        await stage.run("/rewind turn 1")
        await stage.say("hi")
        assert "the API port is 8765" in prompt(stage)
    kid = SessionKey("default", "kid")
    async with on_stage(home, key=kid, model=model) as fork:
        correction = next(one.seq for one in fork.lines() if "8790" in str(one.entry))
        await fork.say("hi")
        system = str([each["content"] for each in fork.requests()[-1] if each["role"] == "system"])
        assert "the API port is 8765" not in system
        told = (await fork.run("/memory"))[1]
        assert f"corrected in line {correction} of agent:default:kid" in told
        change = next(one for one in fork.entries(MemoryProposed))
        assert (await fork.run(f"/memory approve {change.proposal}"))[0].ok
        assert "corrected in" not in (await fork.run("/memory"))[1]


async def test_what_can_no_longer_be_decided_does_not_wait(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, OK, loop=True)
    everywhere = Places.resolve({"MINDSTONE_HOME": str(home)})
    async with on_stage(home, model=model) as stage:
        name = await remembered(stage)
        await stage.say("No, the API port is 8790, not 8765.")
        change = stage.entries(MemoryProposed)[-1].proposal
        assert change in (await stage.run("/memory"))[1]
        assert open_questions.waiting_in(everywhere, stage.places)
        await stage.run(f"/memory undo {name}")
        assert (await stage.run("/memory"))[1].strip() == "Nothing is remembered."
        assert not open_questions.waiting_in(everywhere, stage.places)
        assert not waiting_in(everywhere.agent("default"), stage.places)


async def test_what_was_rewound_after_a_fork_is_told_to_stand_there(
    home: Path, tmp_path: Path
) -> None:
    kept = {"path": "a.txt", "content": "alpha\n"}
    made = calls(("write", kept), ("shell", {"command": "mkdir x"}))
    (project := tmp_path / "project").mkdir()
    model = script(tmp_path, OK, made, OK, OK)
    async with on_stage(home, model=model, cwd=project, approve="full-auto") as stage:
        await stage.say("start")
        await stage.say("make file a")
        await stage.run("/fork kid")
        await stage.run("/rewind turn 1")
        await stage.rest()
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    ran = WorkDone(places, Settings()).how("mkdir", 3)
    assert [one.last.forks for one in ran] == [["agent:default:kid"]]
    (line,) = KeptFiles(places, project, {}).blame(project / "a.txt")
    (mark,) = line.standing
    assert mark.startswith("rewound by #")
    assert mark.endswith(", standing in agent:default:kid")


async def test_what_was_resumed_says_which_steps_are_done_since(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, OK, loop=True)) as stage:
        await stage.run("/task start Ship the importer")
        await stage.say("begin")
        for command in ("/todo add write parser", "/checkpoint save", "/checkpoint resume"):
            assert (await stage.run(command))[0].ok
        await stage.say("go on")
        assert "- write parser (planned)" in prompt(stage)
        assert "by now" not in prompt(stage)
        await stage.run("/todo done 1")
        await stage.say("and now?")
        assert prompt(stage).count("write parser: done by now") == 1
        await stage.say("and then?")
        assert prompt(stage).count("write parser: done by now") == 1
        await stage.run("/rewind turn 1")
        await stage.say("once more")
        assert "- write parser (planned)" in prompt(stage)
        assert "by now" not in prompt(stage)


async def test_of_many_corrections_that_were_cut_short_the_newest_is_judged_first(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Fine."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("The roof code is 5822.")
    others = [f"Correction: the code of lamp {one} is {one}1, not {one}0." for one in range(10, 20)]
    for text in (*others, "Correction: the roof code is 5823, not 5822."):
        leave(stage, text)
    async with on_stage(home, model=model) as stage:
        await stage.run("/handoff write")
        assert "[turn 1, superseded by line " in (await stage.run("/handoff show"))[1]
