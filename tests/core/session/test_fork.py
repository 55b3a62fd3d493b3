"""A fork begins where it is asked to, also where the window no longer reaches."""

from __future__ import annotations

import asyncio
import math
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    SessionOpened,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    UserMessage,
)
from mindstone_tui.core.entries.derived import RecallInjected, StatementSuperseded
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.entries.window import ContextWindowPruned, Forked
from mindstone_tui.core.events.report_text import context_list
from mindstone_tui.core.library.lineage import Ancestor, ask_ancestors
from mindstone_tui.core.library.read_only import Look, look_at
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.recall.candidates import Filter
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.index import Asked, InMemoryIndex, Inquiry
from mindstone_tui.core.transcript import History, list_sessions
from tests.builders import places_in, say, transcript_in
from tests.core.interchange.helpers import FIXTURES, take_over, write_lines
from tests.core.session.stage import Stage, calls, on_stage, script

LONG = [
    {"id": f"m{n}", "role": "user", "content": f"remark {n} " + "x" * 3_900} for n in range(600)
]
"""More than one write holds."""
CHILD = SessionKey.parse("agent:default:child")


@pytest.fixture(scope="module")
def remarks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The home of a session of some length, to be copied, and its model."""
    folder = tmp_path_factory.mktemp("remarks")
    model = script(folder, {"text": "And so it was noted, at some length. " * 12}, loop=True)

    async def talk() -> None:
        async with on_stage(folder / "home", model=model, context_window=6_000) as stage:
            await stage.say("remark 1: we plan the move")
            await stage.say("remark 2: The harbour gate opens with code 7714.")
            for number in range(3, 26):
                await stage.say(f"remark {number} about the north wall")
            assert stage.entries(ContextWindowPruned), "nothing left, so nothing is proven"

    asyncio.run(talk())
    return folder / "home", model


@pytest.fixture
def long_talk(home: Path, remarks: tuple[Path, str]) -> str:
    """The same session in the home of a test; its model."""
    shutil.copytree(remarks[0], home)
    return remarks[1]


def configure(home: Path, settings: str) -> None:
    """Write the user's own settings."""
    home.mkdir()
    (home / "config.toml").write_text(settings)


def asked(stage: Stage) -> list[str]:
    """Every question of a session."""
    return [entry.text for entry in stage.entries(UserMessage)]


def number_in(text: str) -> int:
    """Which remark it is."""
    return int(text.split()[1].rstrip(":"))


def said_in(stage: Stage, words: str) -> Line:
    """The one line in which a person said something."""
    heard = [one for one in stage.lines() if isinstance(one.entry, UserMessage)]
    (found,) = [one for one in heard if words in getattr(one.entry, "text", "")]
    return found


@pytest.mark.parametrize("turn", [3, 20])
async def test_any_turn_begins_another_session_with_the_window_of_its_day(
    home: Path, long_talk: str, turn: int
) -> None:
    model = long_talk
    async with on_stage(home, model=model, context_window=6_000) as stage:
        ended, said = await stage.run(f"/fork child turn {turn}")
        assert ended.ok, said
        newest = [line for line in stage.lines() if line.turn == turn][-1]
        assert stage.entries(Forked)[-1] == Forked(child=str(CHILD), at=newest.seq)
    async with on_stage(home, key=CHILD, model=model, context_window=6_000) as fork:
        opened = fork.entries(SessionOpened)[0]
        assert opened.forked_from is not None
        assert (opened.forked_from.seq, opened.forked_from.hash) == (newest.seq, newest.hash)
        numbers = [number_in(text) for text in asked(fork)]
        # The original task never leaves; behind it stand the newest exchanges of that day.
        assert numbers[0] == 1
        assert numbers[1:] == list(range(turn + 2 - len(numbers), turn + 1))
        assert (await fork.say("and on from here")).ending == "done"
        assert f"remark {turn} " in str(fork.requests()[-1])
        kept = fork.session.services.context.window.fold.state.outside.exchanges
        assert (turn == 20) is (f"{kept} earlier exchanges of this" in str(fork.requests()[-1]))
        _, told = await fork.run("/why turn 2")
        assert ("stayed in agent:default:main" in told) is (turn == 20)
        assert "copied from agent:default:main" in (await fork.run(f"/why turn {turn}"))[1]


async def test_a_title_says_nothing_that_was_corrected_since(home: Path, tmp_path: Path) -> None:
    def title() -> str:
        return list_sessions(stage.session.services.home)[0].title

    async with on_stage(home, model=script(tmp_path, {"text": "Fine."}, loop=True)) as stage:
        await stage.say("The roof code is 5822. The lift is broken.")
        await stage.say(f"Here is a list. {'tiles and slates, ' * 5_000}")
        assert title() == "The roof code is 5822. The lift is broken."
        await stage.say("Correction: the roof code is 5823, not 5822.")
        await stage.rest()
        assert title() == "The lift is broken."
        await stage.say("Correction: the lift is not broken any more.")
        await stage.rest()
        assert title().startswith("Here is a list.")
        await stage.run("/rewind turn 2")
        assert title() == "The roof code is 5822. The lift is broken."


async def test_a_fork_is_titled_as_one_until_somebody_names_it(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("the north wall is wet")
        await stage.run("/fork child")
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    titles = {each.main: each.title for each in list_sessions(places)}
    wall = "the north wall is wet"
    assert titles == {"main": wall, "child": f"fork of main: {wall}"}
    async with on_stage(home, key=CHILD, model=model) as fork:
        await fork.run("/title Another wall")
    assert {each.title for each in list_sessions(places)} == {wall, "Another wall"}


async def test_what_lies_beside_the_lines_comes_along(home: Path, tmp_path: Path) -> None:
    configure(home, "[tools]\noutput_chars = 2000\n")
    (tmp_path / "long.txt").write_text("\n".join(f"row {n} of many" for n in range(900)))
    model = script(tmp_path, calls(("grep", {"pattern": "row"})), {"text": "Read."})
    async with on_stage(home, model=model) as stage:
        await stage.say("read it")
        kept = stage.entries(ToolReturned)[0].full
        assert kept, "the result was not cut, so nothing is proven"
        await stage.run("/fork child")
    async with on_stage(home, key=CHILD, model=model) as fork:
        with History(fork.places) as history:
            assert b"row 450 " in history.blob(kept)


async def test_an_imported_turn_can_be_taken_up_again(home: Path, tmp_path: Path) -> None:
    take_over(home, FIXTURES / "messages.jsonl")
    model = script(tmp_path, {"text": "Gladly."}, loop=True)
    async with on_stage(home, model=model) as stage:
        first = asked(stage)[0]
        ended, said = await stage.run("/fork child turn 1")
        assert ended.ok, said
    async with on_stage(home, key=CHILD, model=model) as fork:
        assert asked(fork) == [first]


@pytest.mark.thorough
async def test_a_fork_in_several_writes_is_whole_or_where_one_is_refused_not_there(
    home: Path, tmp_path: Path, file_size_limit: Callable[[int], None]
) -> None:
    take_over(home, write_lines(tmp_path / "long.jsonl", LONG))
    model = script(tmp_path, {"text": "Gladly."}, loop=True)
    async with on_stage(home, model=model, context_window=4_000_000) as stage:
        child = Places.resolve({"MINDSTONE_HOME": str(home)}).session(CHILD)
        # Room for the first of the fork's writes, and not for all of them.
        file_size_limit(stage.places.transcript.stat().st_size + (1 << 15))
        ended, told = await stage.run("/fork child")
        file_size_limit(resource.RLIM_INFINITY)
        assert not ended.ok, told
        assert not child.folder.exists()
        ended, told = await stage.run("/fork child")
        assert ended.ok, told
    async with on_stage(home, key=CHILD, model=model, context_window=4_000_000) as fork:
        assert asked(fork) == [each["content"] for each in LONG]
    assert {each.name for each in child.folder.parent.iterdir()} == {"main", "child"}


async def test_a_turn_that_never_was_begins_nothing(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Yes."}, loop=True)) as stage:
        await stage.say("one")
        for turn in (0, 7):
            ended, said = await stage.run(f"/fork child turn {turn}")
            assert not ended.ok
            assert f"no turn {turn} " in said


async def test_what_left_the_window_before_the_fork_is_still_recalled_there(
    home: Path, long_talk: str
) -> None:
    model = long_talk
    async with on_stage(home, model=model, context_window=6_000) as stage:
        await stage.run("/fork child")
        await stage.say("the harbour gate opens with code 9035 now")
    async with on_stage(home, key=CHILD, model=model, context_window=6_000) as fork:
        assert not any("7714" in text for text in asked(fork)), "it was copied"
        await fork.say("which code opens the harbour gate?")
        sent = str(fork.requests()[-1])
        assert "7714" in sent
        assert "9035" not in sent, "what was said in the parent after the fork is not its past"
        ended = [line for line in fork.lines() if isinstance(line.entry, TurnEnded)]
        copied = {line.turn for line in fork.lines() if isinstance(line.entry, UserMessage)}
        assert {line.turn for line in ended} == copied


@pytest.mark.parametrize("turn", ["", " turn 20"])
async def test_a_fork_counts_what_stayed_behind_as_outside_its_window(
    home: Path, long_talk: str, turn: str
) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    model = long_talk
    async with on_stage(home, model=model, context_window=6_000) as stage:
        before = stage.session.services.context.report().outside
        await stage.run(f"/fork child{turn}")
    async with on_stage(home, key=CHILD, model=model, context_window=6_000) as fork:
        report = fork.session.services.context.report()
        newest = max(number_in(text) for text in asked(fork))
        whole = len(fork.entries(AssistantMessage))  # of the first exchange, the task stays
        assert report.outside.exchanges == newest - whole > 0
        assert turn or report.outside.tokens == before.tokens
        seen = look_at(Look(key=CHILD, places=places, environ={}))
        assert seen.outside.exchanges == report.outside.exchanges
        assert "counted with the first request" in context_list(seen)
        await fork.say("and a last remark")
        after = look_at(Look(key=CHILD, places=places, environ={}))
        assert after.outside.exchanges >= report.outside.exchanges
        assert "counted with the first request" not in context_list(after)


@pytest.mark.thorough
@pytest.mark.parametrize("leaves", [False, True])
async def test_what_a_fork_corrects_is_marked_in_what_it_inherited(
    home: Path, long_talk: str, leaves: bool
) -> None:
    model = long_talk
    async with on_stage(home, model=model, context_window=6_000) as stage:
        await stage.run("/fork child")
    async with on_stage(home, key=CHILD, model=model, context_window=6_000) as fork:
        await fork.say("Correction: the harbour gate opens with code 9035, not 7714.")
        for number in range(1, 25 if leaves else 2):
            await fork.say(f"remark {number} about the south wall")
        said = said_in(fork, "9035")
        await fork.say("which code opens the harbour gate?")
        brought = {one.seq: one for one in fork.entries(RecallInjected)[-1].passages}
        (old,) = [one for one in brought.values() if one.session != str(CHILD)]
        assert (old.superseded_by, old.superseded_here) == (said.seq, True)
        assert f"superseded by #{said.seq} of this session" in str(fork.requests()[-1])
        asked = "which code opened the harbour gate before?"
        told = (await fork.session.services.recall.answer(asked, ())).text
        assert f"line {old.seq} of {old.session})" in told
        assert "Now: Correction: the harbour gate opens with code 9035" in told
    assert not Standings(stage.lines()).of(said_in(stage, "7714")), (
        "the session it came from was told nothing"
    )


async def test_calls_keep_what_they_were_called_with(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    model = script(tmp_path, calls(("read", {"path": "a.txt"})), {"text": "Read."})
    async with on_stage(home, model=model) as stage:
        await stage.say("read it")
        await stage.run("/fork child")
    async with on_stage(home, key=CHILD, model=model) as fork:
        assert [called.shown for called in fork.entries(ToolCalled)] == ["read a.txt"]


async def test_a_fork_goes_on_with_the_task_its_list_and_its_notes(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.run("/task start Varnish the rowing boat")
        await stage.run("/todo add Sand the keel")
        await stage.run("/task done")
        await stage.run("/task start Paint the boathouse | rule: only green paint")
        await stage.run("/todo add Scrape the north wall")
        await stage.run("/notes bugs The ladder at the boathouse wobbles")
        await stage.run("/rules add Never run git push --force")
        await stage.say("begin")
        await stage.say("go on")
        await stage.run("/todo add Order more brushes")
        await stage.run("/fork child")
        await stage.run("/fork early turn 1")
        await stage.run("/task done")
    taken = (
        "Paint the boathouse",
        "only green paint",
        "Scrape the north wall",
        "ladder",
        "--force",
    )
    for key, later in ((CHILD, True), (SessionKey.parse("agent:default:early"), False)):
        async with on_stage(home, key=key, model=model) as fork:
            await fork.say("and here?")
            said = str(fork.requests()[-1])
            assert [words for words in taken if words not in said] == []
            assert ("Order more brushes" in said) is later
            assert "Sand the keel" not in said
            _, shown = await fork.run("/task show")
            assert "Scrape the north wall" in shown


async def test_a_rule_of_the_session_is_the_forks_own_from_there_on(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.run("/rules add Never run git push --force")
        await stage.say("hello")
        await stage.run("/fork child")
        await stage.run("/rules add Never run git reset --hard")
    async with on_stage(home, key=CHILD, model=model) as fork:
        await fork.say("and here")
        await fork.run("/fork third turn 1")
    third = SessionKey.parse("agent:default:third")
    async with on_stage(home, key=third, model=model) as fork:
        assert "Never run git push" in (await fork.run("/rules"))[1], "a fork of a fork"
    for _ in range(2):  # opened twice, it takes them over once
        async with on_stage(home, key=CHILD, model=model) as fork:
            _, listed = await fork.run("/rules")
            assert listed.count("Never run git push") == 1
            assert "--hard" not in listed
    async with on_stage(home, key=CHILD, model=model) as fork:
        await fork.run("/rules retire 3")
        assert "No rule is set here." in (await fork.run("/rules"))[1]
    async with on_stage(home, key=CHILD, model=model) as fork:
        assert "No rule is set here." in (await fork.run("/rules"))[1]
    async with on_stage(home, model=model) as stage:
        assert "--force" in (await stage.run("/rules"))[1]


async def test_what_was_corrected_before_a_fork_is_corrected_in_it(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("hello")
        await stage.say("The harbour gate opens with code 7714.")
        await stage.say("No, the harbour gate opens with code 9035, not 7714.")
        await stage.say("thanks")
        await stage.run("/fork child")
    async with on_stage(home, key=CHILD, model=model) as fork:
        new = said_in(fork, "9035, not").seq
        marks = Standings(fork.lines()).of(said_in(fork, "code 7714."))
        assert [(one.what, one.by) for one in marks] == [("superseded", new), ("copied", None)]
        assert f"superseded by #{new}" in (await fork.run("/why turn 2"))[1]
        await fork.run("/rewind turn 2")
        assert "superseded" not in (await fork.run("/why turn 2"))[1]


async def test_a_verdict_that_was_given_later_stands_with_its_correction_in_a_fork(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        await stage.say("Build me a tide table.")
        await stage.say("The Heron server listens on port 8765.")
        await stage.say("Port clash: 8765 is taken by the old system. Use 8790.")
        await stage.say("What about the tides?")
        for asked in ("/prune turn 2", "/prune turn 3"):
            assert (await stage.run(asked))[0].ok
        await stage.say("Is 8765 taken by the old system? Which port for the Heron server?")
        await stage.say("thanks")
        await stage.run("/fork child turn 3")
    async with on_stage(home, key=CHILD, model="local/guide") as fork:
        assert max(line.turn for line in fork.lines()) == 3
        assert Standings(fork.lines()).of(said_in(fork, "port 8765."))[0].what == "superseded"


async def test_what_is_judged_later_of_lines_before_a_fork_holds_for_what_it_inherited(
    home: Path,
) -> None:
    async with on_stage(home, model="local/guide", context_window=8_000) as stage:
        said = ("Build me a tide table.", "The Heron server is in Oslo.", "Heron went to Bergen.")
        for words in (*said, "What about the tides?"):
            await stage.say(words)
        await stage.run("/prune turn 2")
        await stage.run("/prune turn 3")
        await stage.run("/fork child")
        await stage.say("The Heron server is in Malmo now.")
        old, new, later = (said_in(stage, word).seq for word in ("Oslo", "Bergen", "Malmo"))
        for by in (new, later):
            verdict = StatementSuperseded(statement=old, by=by)
            stage.session.services.context.window.record(verdict)
    async with on_stage(home, key=CHILD, model="local/guide") as fork:
        found = await fork.session.services.recall.search(
            "Where is the Heron server?", 20, "session"
        )
        (hit,) = [one for one in found.hits if "Oslo" in one.text]
        assert (hit.inherited, hit.superseded_by) == (True, new)


def test_of_what_nobody_judged_the_past_of_a_fork_tells_what_it_knew_then(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "The deploy host is harbour-1.", "Noted.")
    new = say(transcript, "No, the deploy host is harbour-2, not harbour-1.", "Noted.")
    with History(places_in(home)) as history:
        lines = [line for line in history.read() if isinstance(line, Line)]
    by = next(line.seq for line in lines if line.turn == new and line.kind == "user_message")
    transcript.close()
    inquiry = Inquiry(Asked(None, "Which deploy host do we use?"), 10, Filter())
    for at, marks in ((lines[-1].seq, [by]), (by - 1, [None])):
        past = Ancestor(places=places_in(home), until=math.inf, at=at, copied=frozenset())
        nothing = msgspec.structs.replace(inquiry.of(InMemoryIndex()), hits=())
        told = ask_ancestors([past], inquiry, nothing)
        hits = told.hits if told else ()
        assert [one.superseded_by for one in hits if one.text.startswith("The deploy")] == marks


async def test_a_fork_has_the_note_again_whose_correction_was_rewound(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("hello")
        await stage.say("remember that my dentist is Dr Quillfeather")
        await stage.say("No, my dentist is Dr Marrowby, not Dr Quillfeather.")
        await stage.run("/rewind turn 2")
        assert "Quillfeather" in (await stage.run("/notes"))[1]
        await stage.run("/fork child")
    async with on_stage(home, key=CHILD, model=model) as fork:
        assert "Quillfeather" in (await fork.run("/notes"))[1]
        await fork.say("No, my dentist is Dr Marrowby, not Dr Quillfeather.")
        await fork.say("thanks")
        await fork.run("/fork another")
    async with on_stage(home, key=SessionKey.parse("another"), model=model) as fork:
        assert "Quillfeather" not in (await fork.run("/notes"))[1]
        await fork.run("/rewind turn 2")
        assert "Quillfeather" in (await fork.run("/notes"))[1], (
            "it had been copied with its verdict"
        )


@pytest.mark.parametrize("newest", [False, True])
async def test_a_fork_that_begins_at_a_rewound_turn_goes_on_with_it(
    home: Path, tmp_path: Path, newest: bool
) -> None:
    wrote = [calls(("write", {"path": f"{name}.txt", "content": "x\n"})) for name in "ab"]
    done = {"text": "Wrote it."}
    model = script(tmp_path, wrote[0], done, wrote[1], done, done, loop=True)
    more: dict[str, Any] = {"model": model, "cwd": tmp_path, "approve": "full-auto"}
    async with on_stage(home, **more) as stage:
        await stage.say("write a")
        await stage.say("write b")
        if not newest:
            await stage.say("well done")
        await stage.run("/rewind turn 1")
        await stage.run("/fork child turn 2")
    async with on_stage(home, key=CHILD, **more) as fork:
        await fork.say("and now?")
        asked = str(fork.requests()[-1])
        assert "write b" in asked
        assert "You do not see turn 2" not in asked


@pytest.mark.thorough
async def test_the_model_of_a_fork_hears_that_files_were_put_back(
    home: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    wrote = calls(("write", {"path": "c.txt", "content": "x\n"}))
    more_of_it = calls(("write", {"path": "d.txt", "content": "y\n"}))
    done = {"text": "Wrote it."}
    model = script(tmp_path, wrote, done, more_of_it, done, loop=True)
    more: dict[str, Any] = {"model": model, "cwd": work, "approve": "full-auto"}
    async with on_stage(home, **more) as stage:
        await stage.say("write it")
        await stage.run("/undo")
        await stage.run("/fork other")
        await stage.say("write more")
        await stage.run("/fork earlier turn 1")
        await stage.run("/rewind turn 1")
        await stage.run("/fork rewound")
    for name in ("earlier", "rewound"):
        model = script(tmp_path, {"text": "Well."}, loop=True)
        key = SessionKey.parse(name)
        async with on_stage(home, **more | {"model": model}, key=key) as fork:
            await fork.say("What is there?")
            left = "You do not see turn 2 any more; what was done to files there stays: d.txt."
            assert left in str(fork.requests()[-1]), name
    model = script(tmp_path, {"text": "Well."}, loop=True)
    async with on_stage(home, **more | {"model": model}, key=SessionKey.parse("other")) as fork:
        await fork.say("What is in c.txt?")
        await fork.say("And now?")
        told = ["took back what turn 1" in str(each[-1]["content"]) for each in fork.requests()]
        assert told == [True, False]
        ended, _ = await fork.run("/redo")
        assert not ended.ok, "a fork keeps no files of its parent"
        for asked in ("/diff turn 1", "/diff"):
            diff = (await fork.run(asked))[1]
            assert diff.startswith("Turn 1 (changes to files taken back by #")
            assert "+x" in diff
        put_back = "put back by /undo (line 16 of agent:default:main), as it was before"
        assert put_back in (await fork.run("/why c.txt"))[1]
        why = (await fork.run("/why d.txt"))[1]
        assert "no turn after this fork of agent:default:main changed" in why
        assert "These did: turn 1." in (await fork.run("/diff turn 2"))[1]


async def test_what_the_parent_restores_later_is_no_past_of_the_fork(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("The billing service listens on port 8080.")
        await stage.say("ok")
        await stage.say("No, the billing service listens on port 9090, not 8080.")
        await stage.run("/rewind turn 2")
        await stage.say("go on")
        await stage.run("/fork other")
        await stage.run("/restore turn 3")
        await stage.say("go on")
    async with on_stage(home, model=model, key=SessionKey.parse("other")) as fork:
        recall = fork.session.services.recall
        told = (await recall.answer("On which port does the billing service listen?", ())).text
        assert "8080" in told
        assert "9090" not in told


async def test_what_was_altered_is_told_as_such_and_neither_recalled_nor_handed_on_by_a_fork(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("The gate opens with code 7714.")
        written = stage.places.transcript
    whole = written.read_bytes()
    written.write_bytes(whole.replace(b"code 7714", b"code 7741"))
    async with on_stage(home, model=model) as stage:
        heard = said_in(stage, "7741")
        assert Standings(stage.lines()).told(heard) == ["not as it was written"]
        assert (await stage.run("/why turn 1"))[1].endswith("Standing: not as it was written.")
        index = InMemoryIndex()
        catch_up(index, reading(History(stage.places)))
        found = index.search("which code opens the gate?", 5)
        assert not [hit.text for hit in found.hits if "7741" in hit.text]
        ended, told = await stage.run("/fork child")
        assert not ended.ok
        assert "is not as it was written" in told
        written.write_bytes(whole + written.read_bytes()[len(whole) :])
    assert len(list_sessions(Places.resolve({"MINDSTONE_HOME": str(home)}))) == 1
