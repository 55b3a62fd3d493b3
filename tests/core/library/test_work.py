"""Work is found again as work: what ended an error, how a program is run, who touched a file."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.cli.main import run as run_verb
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.line import IMPORTED
from mindstone_tui.core.entries.window import Rewound, WindowState
from mindstone_tui.core.interchange.samples import SAMPLE_SESSION
from mindstone_tui.core.library.profile import list_described
from mindstone_tui.core.library.search import search_everywhere
from mindstone_tui.core.library.stats import stats_of
from mindstone_tui.core.library.work import WorkDone
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.recall.acts import programs_of, signature_of
from tests.builders import transcript_in
from tests.core.session.stage import calls, on_stage, script

Step = tuple[str, dict[str, str], str]
PORT_TAKEN = "Error: listen EADDRINUSE: address already in use :::3000\nCommand exited with code 1"

NO_RULE = "make: *** No rule to make target 'ferret'.  Stop.\nCommand exited with code 2"
NO_FILE = "There is no such file."
FAILED = (NO_RULE, NO_FILE)


def worked(home: Path, session: str, asked: str, *steps: Step, channel: str = "") -> None:
    """A turn in which tools were used: name, arguments, result."""
    transcript = transcript_in(home, session)
    transcript.channel = channel or transcript.channel
    turn = transcript.head.seq + 1
    transcript.append(TurnStarted(), turn=turn)
    transcript.append(UserMessage(text=asked), turn=turn)
    for at, (name, fields, result) in enumerate(steps):
        call = ToolCall(
            id=f"{session}-{turn}-{at}", name=name, arguments=msgspec.json.encode(fields).decode()
        )
        transcript.append(AssistantMessage(text="", calls=(call,), model="m"), turn=turn)
        returned = ToolReturned(call=call.id, name=name, text=result)
        if result in FAILED:
            returned = msgspec.structs.replace(returned, status="error")
        transcript.append(returned, turn=turn)
    transcript.append(TurnEnded(ending="done"), turn=turn)
    transcript.close()


def shell(command: str, result: str = "ok") -> Step:
    return "shell", {"command": command}, result


def edit(path: str) -> Step:
    return "edit_file", {"path": path}, "changed"


@pytest.fixture
def work(home: Path) -> WorkDone:
    return WorkDone(Places.resolve({"MINDSTONE_HOME": str(home)}), Settings())


def test_what_ended_an_error_is_told_with_the_command_that_worked_again(
    home: Path, work: WorkDone
) -> None:
    worked(
        home,
        "web",
        "start the server",
        shell("npm start", PORT_TAKEN),
        ("read_file", {"path": "server.js"}, "const port = 3000"),
        shell("lsof -ti :3000 | xargs kill"),
        shell("npm start", "listening"),
    )
    (remedy,) = work.fixes("Error: listen EADDRINUSE: address already in use :::8080", 5)
    assert remedy.error.about == "npm start"
    assert [step.about for step in remedy.steps] == ["lsof -ti :3000 | xargs kill"]
    assert remedy.worked is not None
    assert remedy.worked.seq > remedy.error.seq


def test_what_the_sample_shows_was_not_done_here(home: Path, work: WorkDone) -> None:
    steps = shell("npm start", PORT_TAKEN), shell("kill 3000"), shell("npm start", "listening")
    worked(home, SAMPLE_SESSION, "start the heron", *steps)
    assert not work.fixes(PORT_TAKEN, 5)
    assert not work.how("npm", 5)
    assert not work.about("heron", 5)
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    assert stats_of(places).total.sessions == 0
    sample = SessionKey.parse(SAMPLE_SESSION)
    asked = WorkDone(places, Settings(), only=sample)
    assert asked.fixes(PORT_TAKEN, 5)
    assert asked.how("npm", 5)
    assert asked.about("heron", 5)
    assert stats_of(places, only=sample).total.sessions == 1


def test_what_was_done_after_a_rewind_ended_no_error_before_it(home: Path, work: WorkDone) -> None:
    worked(home, "web", "start it", shell("npm start", PORT_TAKEN), shell("kill 3000"))
    with contextlib.closing(transcript_in(home, "web")) as transcript:
        state = WindowState(through=transcript.head.seq)
        transcript.append(Rewound(to_turn=0, state=state))
    worked(home, "web", "paint it", edit("paint.md"), shell("npm start", "listening"))
    (remedy,) = work.fixes("Error: listen EADDRINUSE: address already in use", 5)
    assert ([step.about for step in remedy.steps], remedy.worked) == (["kill 3000"], None)


def test_of_another_program_s_remedy_every_step_says_so(home: Path, work: WorkDone) -> None:
    steps = (shell("npm start", PORT_TAKEN), shell("kill 3000"), shell("npm start", "listening"))
    worked(home, "theirs", "start it", *steps, channel=IMPORTED)
    (remedy,) = work.fixes(PORT_TAKEN, 5)
    assert remedy.worked is not None
    assert all(act.imported for act in (remedy.error, *remedy.steps, remedy.worked))


@pytest.mark.parametrize(
    ("said", "met", "same"),
    [
        (
            "error TS2551: Property 'x' does not exist",
            "a.ts(1,2): error TS2554: Property 'x' does not exist",
            False,
        ),
        (
            "error TS2551: Property 'x' does not exist",
            "a.ts(9,9): error TS2551: Property 'x' does not exist",
            True,
        ),
        ("error[E0382]: borrow of moved value", "error[E0499]: borrow of moved value", False),
        ("ORA-00942: error in table or view", "ORA-00904: error in table or view", False),
        ("ORA-00942: error in table or view", "ORA-00942: error in table or view", True),
        ("ERROR: no relation (SQLSTATE 42P01)", "ERROR: no relation (SQLSTATE 42703)", False),
        ("fetch failed: error, HTTP 404", "fetch failed: error, HTTP 500", False),
        ("fetch failed: error, HTTP 404", "fetch failed: error, status code 404", True),
        ("OSError: [Errno 13] no way", "OSError: [Errno 2] no way", False),
        ("error: http://127.0.0.1 has no X", "error: http://10.0.0.9 has no X", True),
        ("error at line 7: 12 tests failed", "error at line 9: 8 tests failed", True),
    ],
)
def test_a_code_names_the_kind_of_an_error_and_no_other_kind_is_told(
    home: Path, work: WorkDone, said: str, met: str, same: bool
) -> None:
    failed = ("run", {"command": "build"}, f"{met}\n[exit code 1]")
    worked(home, "web", "build it", failed, edit("a.ts"), shell("build"))
    assert bool(work.fixes(said, 5)) is same


def test_an_error_that_came_back_as_another_kind_is_ended(home: Path, work: WorkDone) -> None:
    first, then = (
        ("run", {"command": "get"}, f"error: HTTP {code}\n[exit code 1]") for code in (404, 500)
    )
    worked(home, "web", "get it", first, edit("url"), then)
    (remedy,) = work.fixes("error: HTTP 404", 5)
    assert [step.about for step in remedy.steps] == ["url"]


def test_of_an_error_that_was_only_spoken_of_it_is_said_what_was_looked_at(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worked(home, "web", "sqlite3.OperationalError: database is locked", shell("ls"))
    assert run_verb(["fix", "database is locked"]) == 0
    said = "".join(capsys.readouterr())
    assert "No tool printed this error" in said
    assert "mindstone search" in said


def test_an_error_that_bears_no_name_is_known_by_its_words(home: Path, work: WorkDone) -> None:
    again = (shell("make ferret", NO_RULE), shell("touch wishes"), shell("make ferret", NO_RULE))
    worked(home, "lost", "make it", *again)
    ended = (shell("make ferret", NO_RULE), edit("Makefile"), shell("make ferret"))
    worked(home, "web", "make it", *ended)
    (remedy,) = work.fixes("make: *** No rule to make target 'ferret'.  Stop.", 5)
    assert remedy.error.session == "agent:default:web"
    assert [step.about for step in remedy.steps] == ["Makefile"]
    assert remedy.error.reason


def test_the_system_s_name_of_an_error_finds_what_it_says(home: Path, work: WorkDone) -> None:
    taken = ("run", {"command": "serve"}, "bind: Address already in use\n[exit code 1]")
    freed = shell("fuser -k 3000/tcp")
    worked(home, "web", "start the server", taken, freed, shell("serve", "listening"))
    (remedy,) = work.fixes("EADDRINUSE", 5)
    assert [step.about for step in remedy.steps] == ["fuser -k 3000/tcp"]
    assert work.fixes("ECONNREFUSED", 5) == []


def test_where_an_error_came_back_what_was_tried_in_between_is_no_remedy(
    home: Path, work: WorkDone
) -> None:
    worked(
        home,
        "web",
        "start the server",
        shell("npm start", PORT_TAKEN),
        shell("touch wishes"),
        shell("npm start", PORT_TAKEN),
    )
    assert work.fixes("EADDRINUSE: address already in use", 5) == []


def test_an_error_that_several_sessions_met_is_listed_without_being_asked_for(
    home: Path, work: WorkDone
) -> None:
    for session, port in (("a", "3000"), ("b", "4000")):
        worked(home, session, "go", shell("npm start", PORT_TAKEN.replace("3000", port)))
    assert work.met_often(5) == []
    worked(home, "c", "go", shell("npm start", PORT_TAKEN))
    (often,) = work.met_often(5)
    assert (often.sessions, often.last.about) == (3, "npm start")


def test_the_invocations_that_worked_are_told_once_each(home: Path, work: WorkDone) -> None:
    worked(home, "old", "test", shell("make test"), shell("make deploy", "fatal: no such target"))
    worked(home, "new", "test", shell("make test"), shell("cd api && make lint | tail -3"))
    found = {each.last.about: each.times for each in work.how("make", 5)}
    assert found == {"cd api && make lint | tail -3": 1, "make test": 2}
    assert [each.last.about for each in work.how("tail", 5)] == ["cd api && make lint | tail -3"]
    assert work.how("cargo", 5) == []
    worked(home, "theirs", "build", shell("cargo build"), edit("lib.rs"), channel=IMPORTED)
    (theirs,), (about,) = work.how("cargo", 5), work.about("lib.rs", 5)
    assert theirs.last.imported.startswith("imported")
    assert about.imported == theirs.last.imported
    assert not any(each.last.imported for each in work.how("make", 5))


def test_who_touched_a_file_is_told_with_what_changed_beside_it(home: Path, work: WorkDone) -> None:
    worked(home, "api", "Use port 9090 for billing.", edit("src/billing.py"), edit("README.md"))
    worked(home, "web", "What is in there?", ("read_file", {"path": "src/billing.py"}, "port"))
    worked(home, "else", "Paint it blue.", edit("src/paint.py"))
    found = {each.session: each for each in work.about("billing.py", 5) if each.touched}
    assert set(found) == {"agent:default:api", "agent:default:web"}
    assert found["agent:default:api"].files == ("src/billing.py", "README.md")
    assert found["agent:default:web"].files == ()
    worked(home, "lost", "Go on.", ("edit_file", {"path": "src/billing.py"}, NO_FILE))
    told = {each.session for each in work.about("billing.py", 5) if each.touched or each.files}
    assert told == set(found), "a change that failed changed nothing"
    spoken = work.about("which port has billing", 5)
    assert spoken[0].said is not None
    assert spoken[0].session == "agent:default:api"


def test_whoever_speaks_of_one_file_does_not_speak_of_another(home: Path, work: WorkDone) -> None:
    worked(home, "one", "What is in b.txt?")
    worked(home, "two", "What is in c.txt?")
    said = {each.session[-3:]: each.said for each in work.about("b.txt", 5)}
    assert said["one"] is not None
    assert said["one"].says
    assert not [hit for name, hit in said.items() if name == "two" and hit is not None and hit.says]


def test_files_that_changed_since_are_counted_and_nothing_is_said_where_it_cannot_be_told(
    home: Path, tmp_path: Path
) -> None:
    here, older = tmp_path / "here.py", tmp_path / "older.py"
    for path, moment in ((here, 4e9), (older, 1e9)):
        path.write_text("x")
        os.utime(path, (moment, moment))
    worked(home, "known", "Bartholomew wants it", edit(str(here)), edit(str(older)))
    worked(home, "known", "Bartholomew wants that, too", edit("relative.py"))
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    hits = search_everywhere(places, Settings(), "Bartholomew", 5).hits
    assert len(hits) == 2
    assert sorted(hit.changed_since for hit in hits) == [0, 1]


async def test_what_another_program_changed_is_not_looked_for_where_its_session_went_on(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("x")
    worked(home, "main", "Bartholomew wants it", edit("README.md"), channel=IMPORTED)
    model = script(tmp_path, {"text": "Done."})
    async with on_stage(home, model=model, cwd=tmp_path) as stage:
        await stage.say("go on")
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    assert list_described(places)
    (hit,) = search_everywhere(places, Settings(), "Bartholomew", 5).hits
    assert (hit.folder, hit.changed_since) == (str(tmp_path), 0)


async def test_a_file_changed_since_only_if_it_is_not_as_the_exchange_left_it(
    home: Path, tmp_path: Path
) -> None:
    made = calls(("write", {"path": "kayak.py", "content": "paddle\n"}))
    model = script(tmp_path, made, {"text": "Done."})
    places, file = Places.resolve({"MINDSTONE_HOME": str(home)}), tmp_path / "kayak.py"

    def changed() -> int:
        (hit,) = search_everywhere(places, Settings(), "make the kayak", 1).hits
        return hit.changed_since

    async with on_stage(home, model=model, cwd=tmp_path, approve="full-auto") as stage:
        await stage.say("Please make the kayak.")
        assert changed() == 0
        await stage.say("/undo")
        await stage.say("/redo")
        os.utime(file, (4e9, 4e9))
        assert changed() == 0
    file.write_text("other\n")
    os.utime(file, (4e9, 4e9))
    assert changed() == 1


async def test_what_another_program_did_was_not_done_where_its_session_goes_on(
    home: Path, tmp_path: Path, work: WorkDone
) -> None:
    worked(home, "main", "test", shell("make test"), edit("lib.rs"), channel=IMPORTED)
    done = calls(("shell", {"command": "echo paddle"}))
    model = script(tmp_path, done, {"text": "Done."})
    async with on_stage(home, model=model, cwd=tmp_path, approve="full-auto") as stage:
        await stage.say("go on")
    (theirs,), (about,), (ours,) = work.how("make", 5), work.about("lib.rs", 5), work.how("echo", 5)
    assert (theirs.folder, about.folder, ours.folder) == ("", "", str(tmp_path))


async def test_what_was_done_in_a_rewound_turn_stays_done_and_is_marked(
    home: Path, tmp_path: Path, work: WorkDone, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kayak.py").write_text("paddle")
    done = calls(("read", {"path": "kayak.py"}), ("shell", {"command": "echo paddle"}))
    model = script(tmp_path, {"text": "Hello."}, done, {"text": "Done."})
    async with on_stage(home, model=model, cwd=tmp_path, approve="full-auto") as stage:
        await stage.say("hello")
        await stage.say("look at it")
        (about,) = [each for each in work.about("kayak.py", 5) if each.touched]
        assert (about.turn, about.rewound) == (2, 0)
        await stage.run("/rewind turn 1")
        by = next(line.seq for line in stage.lines() if line.kind == "rewound")
        (about,) = work.about("kayak.py", 5)
        assert (about.turn, about.rewound, about.said) == (2, by, None)
        (run,) = work.how("echo", 5)
        assert (run.last.about, run.last.rewound) == ("echo paddle", by)
        for verb in (["about", "kayak.py"], ["how", "echo"]):
            assert run_verb(verb) == 0
            assert f"rewound by #{by}" in capsys.readouterr().out


async def test_what_ended_an_error_in_a_rewound_turn_is_marked_and_a_copy_is_no_second_time(
    home: Path, tmp_path: Path, work: WorkDone, capsys: pytest.CaptureFixture[str]
) -> None:
    look = {"text": "", "tool_calls": [{"name": "shell", "arguments": {"command": "cat heron"}}]}
    mend = calls(
        ("write", {"path": "heron", "content": "grey\n"}), ("shell", {"command": "cat heron"})
    )
    model = script(tmp_path, look, {"text": "No."}, mend, {"text": "Done."}, {"text": "Hm."})
    async with on_stage(home, model=model, cwd=tmp_path, approve="full-auto") as stage:
        await stage.say("look")
        await stage.say("mend it")
        for name in ("a", "b", "c"):
            await stage.run(f"/fork {name}")
        (run,) = work.how("cat", 5)
        assert run.times == 1
        await stage.run("/rewind turn 1")
        by = next(line.seq for line in stage.lines() if line.kind == "rewound")
        assert work.met_often(5) == []
        assert run_verb(["fix", "cat: heron: No such file or directory"]) == 0
        told = capsys.readouterr().out
        assert f"then changed heron  rewound by #{by}" in told
        assert told.count("and it worked") == 1


@given(st.text(max_size=200))
def test_any_command_has_programs_and_any_error_a_signature_that_fits(text: str) -> None:
    assert all(name and "/" not in name for name in programs_of(text))
    assert len(signature_of(text)) <= 160
    assert signature_of(f"error: {'/' * 400_000}{text}") != ""
    assert signature_of(signature_of(text)) in ("", signature_of(text))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("src/a.ts(12,5): error TS2345: bad", "src/a.ts(99,1): error TS2345: bad", True),
        ("error TS2345: bad", "error TS2322: bad", False),
        ("E: Error at 0xdeadbeef", "E: Error at 0xcafe0001", True),
        ("FileNotFoundError: /home/ann/x.py", "FileNotFoundError: /home/bob/x.py", True),
        ("FileNotFoundError: x.py", "FileNotFoundError: y.py", False),
        ("all is well", "exit code 1", True),
    ],
)
def test_errors_are_the_same_where_only_places_and_numbers_differ(
    one: str, other: str, same: bool
) -> None:
    assert (signature_of(one) == signature_of(other)) is same
