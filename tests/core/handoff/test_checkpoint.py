"""A checkpoint resumes at the right place in another process, or is refused with its reason."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Draft, Line, ToolCall
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.entries.derived import CheckpointSaved, NoteTaken, TaskDone
from mindstone_tui.core.entries.store import FileChange, FilesChanged
from mindstone_tui.core.errors import ContinuityError, EntryNotSaved, UsageError
from mindstone_tui.core.handoff.checkpoint import (
    Checkpoint,
    advance,
    encoded,
    fitted,
    fresh,
    validate,
)
from mindstone_tui.core.handoff.checkpoint_store import (
    Saved,
    archive,
    load,
    load_proven,
    read,
    save,
    task_state,
)
from mindstone_tui.core.handoff.environment import (
    Environment,
    FileState,
    Service,
    drift,
    environment_text,
    files_touched,
    git_changes,
    git_position,
    observe,
    services_at,
)
from mindstone_tui.core.handoff.resume import (
    bootstrap,
    done,
    parse_start,
    resume_block,
    show,
    start,
)
from mindstone_tui.core.transcript import History, Transcript
from tests.builders import places_in, say, transcript_in
from tests.core.context.fake_models import words

LARGEST = 5_000

SESSION = "agent:default:main"


def lines_of(transcript: Transcript) -> list[Line]:
    with transcript.history() as history:
        return [line for line in history.read() if isinstance(line, Line)]


def work(home: Path) -> Transcript:
    """A task with two subtasks done, one under way and one planned."""
    transcript = transcript_in(home)
    transcript.append(
        start("Speed up the parser", ["p95 below 40 ms"], ["Never touch the lexer."]), turn=1
    )
    say(transcript, "Start. Always keep src/lexer.py as it is.", "We decided to use parse_block.")
    plan = (
        "- [x] measure the parser\n- [x] write parse_block\n- [~] wire it in\n- [ ] release notes"
    )
    say(transcript, "What is the plan?", plan)
    for category, text in (
        ("bugs", "parse_block fails on empty input with IndexError."),
        ("learnings", "The tokenizer caches per file, not per call."),
        ("task_progress", "p95 is at 55 ms after the first change."),
    ):
        transcript.append(NoteTaken(category=category, text=text), turn=transcript.last_turn)
    return transcript


def hash_at(transcript: Transcript) -> dict[int, str]:
    return {line.seq: line.hash for line in lines_of(transcript)}


def saved(transcript: Transcript, home: Path, **kwargs: object) -> Saved:
    draft = advance(fresh(SESSION), lines_of(transcript))
    return save(
        places_in(home),
        draft,
        environment=Environment(cwd="/work"),
        saved_at="2026-01-01T00:00:00Z",
        trigger="test",
        **kwargs,  # type: ignore[arg-type]
    )


def test_the_state_of_a_task_is_read_from_what_was_said_and_noted(home: Path) -> None:
    state = advance(fresh(SESSION), lines_of(work(home)))
    assert state.goal == "Speed up the parser"
    assert state.criteria == ("p95 below 40 ms",)
    assert [one.text for one in state.constraints] == [
        "Never touch the lexer.",
        "Always keep src/lexer.py as it is.",
    ]
    assert [(one.title, one.status) for one in state.subtasks] == [
        ("measure the parser", "done"),
        ("write parse_block", "done"),
        ("wire it in", "in_progress"),
        ("release notes", "planned"),
    ]
    assert state.current is not None
    assert state.current.title == "wire it in"
    assert [one.text for one in state.decisions] == ["We decided to use parse_block."]
    assert [one.text for one in state.issues] == [
        "parse_block fails on empty input with IndexError."
    ]
    assert state.progress[0].text == "p95 is at 55 ms after the first change."
    sourced = {one.seq for one in (*state.decisions, *state.issues, *state.progress)}
    assert sourced <= {line.seq for line in lines_of(work(home / "b"))}


def test_a_checkpoint_goes_on_from_the_one_before(home: Path) -> None:
    transcript = work(home)
    whole = lines_of(transcript)
    for cut in range(len(whole)):
        half = advance(fresh(SESSION), whole[:cut])
        assert advance(half, whole) == advance(fresh(SESSION), whole)


def test_subtasks_move_on_and_issues_are_closed(home: Path) -> None:
    transcript = work(home)
    for category, text in (
        ("task_progress", "done: wire it in"),
        ("task_progress", "doing: release notes"),
        ("bugs", "fixed: parse_block fails on empty input"),
    ):
        transcript.append(NoteTaken(category=category, text=text), turn=3)
    state = advance(fresh(SESSION), lines_of(transcript))
    assert state.current is not None
    assert (state.current.title, state.issues) == ("release notes", ())
    transcript.append(TaskDone(title="x"), turn=3)
    assert advance(state, lines_of(transcript)).goal == ""


def test_versions_count_up_and_a_draft_behind_them_is_refused(home: Path) -> None:
    transcript = work(home)
    first = saved(transcript, home)
    assert first.entry.version == 1
    draft = first.checkpoint
    second = save(
        places_in(home), draft, environment=Environment(), saved_at="later", trigger="test"
    )
    assert second.checkpoint.version == 2
    with pytest.raises(ContinuityError, match="stale"):
        save(places_in(home), draft, environment=Environment(), saved_at="late", trigger="test")
    with pytest.raises(ContinuityError, match="stale"):
        saved(
            transcript,
            home / "other",
            newest=CheckpointSaved(version=7, path="", sha256="", trigger=""),
        )


def test_a_saved_checkpoint_is_read_by_programs_and_by_people(home: Path) -> None:
    transcript = work(home)
    kept = saved(transcript, home)
    places = places_in(home)
    loaded = load(places, kept.entry, hash_at(transcript).get)
    assert loaded == kept.checkpoint
    text = places.progress.read_text()
    assert text.startswith("# Speed up the parser")
    assert "- [~] wire it in" in text
    assert "- [ ] release notes" in text
    assert "Never touch the lexer." in text
    assert 1_000 < places.checkpoint.stat().st_size < 8_000


@pytest.fixture
def kept(home: Path) -> tuple[Transcript, Saved]:
    transcript = work(home)
    return transcript, saved(transcript, home)


def refuse(home: Path, kept: tuple[Transcript, Saved], newest: CheckpointSaved | None) -> str:
    with pytest.raises(ContinuityError) as caught:
        load(places_in(home), newest, hash_at(kept[0]).get)
    assert caught.value.remedy
    return caught.value.what


def test_a_stale_checkpoint_is_refused(home: Path, kept: tuple[Transcript, Saved]) -> None:
    newer = msgspec.structs.replace(kept[1].entry, version=2)
    assert "is stale" in refuse(home, kept, newer)


def test_a_torn_checkpoint_is_refused_at_every_length(
    home: Path, kept: tuple[Transcript, Saved]
) -> None:
    path = places_in(home).checkpoint
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:size])
        assert "is torn" in refuse(home, kept, kept[1].entry)


def test_an_edited_checkpoint_is_refused(home: Path, kept: tuple[Transcript, Saved]) -> None:
    path = places_in(home).checkpoint
    whole = path.read_bytes()
    for before, after in (
        (b"wire it in", b"delete all"),
        (b'"status": "planned"', b'"status": "done"'),
        (b'"version": 1', b'"version": 9'),
        (b'"goal": ', b'"aim": "x", "goal": '),
        (b"\n  ", b"\n   "),
    ):
        path.write_bytes(whole.replace(before, after, 1))
        assert "is edited" in refuse(home, kept, kept[1].entry), before


def test_a_checkpoint_of_another_history_is_refused(
    home: Path, kept: tuple[Transcript, Saved]
) -> None:
    elsewhere = places_in(home, "agent:default:other")
    elsewhere.folder.mkdir(parents=True)
    elsewhere.checkpoint.write_bytes(places_in(home).checkpoint.read_bytes())
    with pytest.raises(ContinuityError, match="foreign"):
        load(elsewhere, None, hash_at(kept[0]).get)
    with pytest.raises(ContinuityError, match="foreign"):
        load(places_in(home), None, lambda _seq: None)
    with pytest.raises(ContinuityError, match="foreign"):
        load(places_in(home), None, lambda _seq: "0" * 64)


def test_no_checkpoint_says_how_to_get_one(home: Path) -> None:
    with pytest.raises(ContinuityError) as caught:
        load(places_in(home), None, lambda _seq: None)
    assert "/checkpoint" in caught.value.remedy


@given(st.binary(max_size=300))
def test_any_bytes_are_a_checkpoint_or_refused(data: bytes) -> None:
    with pytest.raises(ContinuityError):
        read(data)


def test_a_checkpoint_without_a_goal_is_not_saved(home: Path) -> None:
    with pytest.raises(ContinuityError, match="no goal"):
        save(
            places_in(home), fresh(SESSION), environment=Environment(), saved_at="", trigger="test"
        )
    checked = validate(Checkpoint(session=SESSION, window=0))
    assert len(checked.errors) == 4
    assert not checked.valid


class FullDisk(Disk):
    """Refuses to write a file's bytes."""

    def write(self, fd: int, data: bytes) -> int:
        return min(10, len(data))


def test_a_full_disk_leaves_the_checkpoint_before_it_whole(home: Path) -> None:
    transcript = work(home)
    kept = saved(transcript, home)
    with pytest.raises(EntryNotSaved):
        save(
            places_in(home),
            kept.checkpoint,
            environment=Environment(),
            saved_at="later",
            trigger="test",
            disk=FullDisk(),
        )
    assert load(places_in(home), kept.entry, hash_at(transcript).get) == kept.checkpoint


RESUMER = """
import os, sys
from pathlib import Path
from mindstone_tui.core.entries import Line
from mindstone_tui.core.handoff.environment import observe
from mindstone_tui.core.handoff.checkpoint_store import load
from mindstone_tui.core.handoff.resume import bootstrap
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript.reader import History

places = Places.resolve(os.environ).session(SessionKey.parse("main"))
with History(places) as history:
    hashes = {line.seq: line.hash for line in history.read() if isinstance(line, Line)}
    newest = [l.entry for l in history.read() if isinstance(l, Line)
              and l.kind == "checkpoint_saved"][-1]
result = bootstrap(
    lambda: load(places, newest, hashes.get),
    lambda files: observe(Path(sys.argv[1]), files),
    lambda text: len(text.split()),
)
print(result.resume_at)
print(result.block)
"""


def test_another_process_resumes_at_the_right_subtask(home: Path, tmp_path: Path) -> None:
    transcript = work(home)
    transcript.append(saved(transcript, home).entry, turn=3)
    transcript.close()
    run = subprocess.run(
        [sys.executable, "-c", RESUMER, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    first, block = run.stdout.split("\n", 1)
    assert first == "wire it in"
    assert "- [x] write parse_block" in block
    assert block.index("Never touch the lexer.") < block.index("Speed up the parser")


def test_the_five_steps_report_what_they_found(home: Path, tmp_path: Path) -> None:
    transcript = work(home)
    source = tmp_path / "parser.py"
    source.write_text("one")
    draft = advance(fresh(SESSION), lines_of(transcript))
    kept = save(
        places_in(home),
        draft,
        environment=observe(tmp_path, ["parser.py", "gone.py"], tools=["grep"]),
        saved_at="2026-01-01T00:00:00Z",
        trigger="test",
    )
    source.write_text("two")
    result = bootstrap(
        lambda: load(places_in(home), kept.entry, hash_at(transcript).get),
        lambda files: observe(tmp_path, files, tools=["read"]),
        words,
    )
    assert [step.name for step in result.steps] == ["orient", "load", "verify", "inject", "resume"]
    assert result.drift == (
        "parser.py has changed.",
        "These tools are no longer there: grep.",
    )
    assert "parser.py has changed." in result.block
    unasked = bootstrap(
        lambda: load(places_in(home), kept.entry, hash_at(transcript).get),
        lambda files: observe(tmp_path, files),
        words,
    )
    assert unasked.drift == ("parser.py has changed.",), "nobody knows the tools yet"


def test_the_resume_block_is_bounded_and_keeps_every_rule_and_issue(home: Path) -> None:
    transcript = transcript_in(home)
    transcript.append(start("Big", [], [f"Never break rule {n}." for n in range(30)]), turn=1)
    boxes = [f"- [x] finished {n}" for n in range(40)] + [f"- [ ] open {n}" for n in range(40)]
    say(transcript, "Plan?", "\n".join(boxes))
    for n in range(25):
        transcript.append(NoteTaken(category="decisions", text=f"Chose way {n}."), turn=1)
        transcript.append(NoteTaken(category="bugs", text=f"Bug number {n} is open."), turn=1)
    state = advance(fresh(SESSION), lines_of(transcript))
    block = resume_block(state, (), words, 100_000)
    assert block.count("- [x] finished") == 10
    assert "finished 39" in block
    assert block.count("- [ ] open") == 10
    assert block.count("Chose way") == 5
    assert block.count("Never break rule") == 30
    assert block.count("Bug number") == 25
    assert block.index("Never break rule 0") < block.index("Goal:")
    small = resume_block(state, (), words, 50)
    assert small.count("Never break rule") == 30
    assert small.count("Bug number") == 25
    assert "open 0" in small
    assert "finished" not in small
    gone = sum(block.count(each) - small.count(each) for each in ("finished", "open ", "Chose"))
    assert f"[{gone} more points of it are left out for want of room.]" in small
    assert "left out" not in block


def test_drift_names_what_changed_around_the_task() -> None:
    then = Environment(
        cwd="/a",
        branch="main",
        commit="1" * 40,
        files=(FileState(path="x", digest="1"), FileState(path="y", digest="2")),
    )
    now = Environment(cwd="/b", branch="dev", commit="2" * 40, files=(FileState(path="x"),))
    assert drift(then, now) == (
        "The working folder was /a and is /b.",
        "The branch was main and is dev.",
        "The commit was 111111111111 and is 222222222222.",
        "x is gone.",
        "y is gone.",
    )
    assert drift(then, then) == ()


def test_branch_and_commit_are_read_without_running_anything(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs/heads/main").write_text("a" * 40 + "\n")
    below = tmp_path / "src"
    below.mkdir()
    assert git_position(below) == ("main", "a" * 40)
    (git / "refs/heads/main").unlink()
    (git / "packed-refs").write_text(f"# pack-refs\n{'b' * 40} refs/heads/main\n")
    assert git_position(tmp_path) == ("main", "b" * 40)
    (git / "HEAD").write_text("c" * 40)
    assert git_position(tmp_path) == ("", "c" * 40)
    (git / "HEAD").unlink()
    (git / "HEAD").symlink_to("/etc/hostname")
    assert git_position(tmp_path) == ("", "")


def test_files_count_as_touched_when_the_tool_succeeded(home: Path) -> None:
    transcript = transcript_in(home)

    def call(number: int, name: str, arguments: str, status: str) -> None:
        calls = (ToolCall(id=f"c{number}", name=name, arguments=arguments),)
        transcript.append(AssistantMessage(text="", calls=calls), turn=number)
        transcript.append(
            ToolReturned(call=f"c{number}", name=name, text="", status=status),  # type: ignore[arg-type]
            turn=number,
        )

    transcript.append(UserMessage(text="go"), turn=1)
    call(1, "write", '{"path":"a.py"}', "ok")
    call(2, "read", '{"path":"b.py"}', "ok")
    call(3, "read", '{"path":"a.py"}', "ok")
    call(4, "edit", '{"path":"c.py"}', "refused")
    call(5, "edit", '{"path":', "ok")
    assert [(one.path, one.changed) for one in files_touched(lines_of(transcript))] == [
        ("b.py", False),
        ("a.py", True),
    ]


def test_a_file_that_a_call_may_have_changed_before_it_was_cut_short_is_touched(home: Path) -> None:
    transcript = transcript_in(home)
    transcript.append(
        FilesChanged(
            call="c1",
            name="shell",
            total=1,
            changes=(FileChange(path="a.py", after="file 644 0"),),
            recovered=True,
            root=str(home),
            manifest="",
        ),
        turn=1,
    )
    (found,) = files_touched(lines_of(transcript))
    assert (found.path, found.changed, found.unsure) == ("a.py", True, True)


def test_a_finished_task_says_what_was_done_and_keeps_its_checkpoint(home: Path) -> None:
    transcript = work(home)
    kept = saved(transcript, home)
    path = archive(places_in(home))
    assert path.read_bytes() == places_in(home).checkpoint.read_bytes()
    entry = done(kept.checkpoint, archived=path.name, trend="utilization is stable")
    assert "Finished: measure the parser; write parse_block." in entry.summary
    assert "Left: wire it in; release notes." in entry.summary
    assert entry.checkpoint == "checkpoint-000001.json"
    assert "wire it in" in show(kept.checkpoint)
    assert "No task" in show(fresh(SESSION))
    with pytest.raises(ContinuityError):
        done(fresh(SESSION), archived="")


def test_a_task_is_started_from_one_typed_line() -> None:
    entry = parse_start("Fix it | when: tests pass | rule: no new files")
    assert parse_start('"Fix it | when: tests pass | rule: no new files"') == entry
    assert (entry.title, entry.criteria, entry.constraints) == (
        "Fix it",
        ("tests pass",),
        ("no new files",),
    )
    for wrong in ("", "  | when: x", "Fix | by: tomorrow"):
        with pytest.raises(UsageError):
            parse_start(wrong)


def test_the_task_as_it_stands_goes_on_from_the_checkpoint_on_disk(home: Path) -> None:
    transcript = work(home)
    kept = saved(transcript, home)
    transcript.append(kept.entry, turn=3)
    transcript.append(NoteTaken(category="task_progress", text="done: wire it in"), turn=3)
    with transcript.history() as history:
        now = task_state(places_in(home), history)
        assert load_proven(places_in(home), history) == kept.checkpoint
    assert now.problem == ""
    assert now.newest == kept.entry
    assert now.checkpoint.current is not None
    assert now.checkpoint.current.title == "release notes"
    again = save(
        places_in(home),
        now.checkpoint,
        environment=Environment(),
        saved_at="later",
        trigger="test",
        newest=now.newest,
    )
    assert again.entry.version == 2


def test_a_refused_checkpoint_is_made_anew_from_history(home: Path) -> None:
    transcript = work(home)
    first = saved(transcript, home)
    old = places_in(home).checkpoint.read_bytes()
    transcript.append(first.entry, turn=3)
    second = save(
        places_in(home), first.checkpoint, environment=Environment(), saved_at="x", trigger="test"
    )
    transcript.append(second.entry, turn=3)
    places_in(home).checkpoint.write_bytes(old)
    with transcript.history() as history:
        with pytest.raises(ContinuityError, match="stale"):
            load_proven(places_in(home), history)
        now = task_state(places_in(home), history)
    assert "stale" in now.problem
    assert now.checkpoint.version == 2
    assert now.checkpoint.current is not None
    assert now.checkpoint.current.title == "wire it in"


def test_small_talk_makes_no_task_and_a_name_is_no_rule(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "hello, who are you?", "I am a stone. We decided that moss is a colour!")
    say(transcript, "My name is Ada", "Agreed! Perfect!")
    say(transcript, "I want a haiku about ports.", "Ships sleep, gulls complain.")
    state = advance(fresh(SESSION), lines_of(transcript))
    assert "hello" not in state.goal
    assert state.constraints == ()
    transcript.append(UserMessage(text="thanks!"), turn=4)
    assert advance(fresh(SESSION), lines_of(transcript)).asked is None, "thanks wait for nothing"


def test_the_topic_is_the_newest_request_with_its_turn(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "Fix the login of the staging server please.", "The login works now.")
    say(transcript, "thanks!", "You are welcome.")
    say(transcript, "Now port the theme selector to the new palette.", "Which palette do you mean?")
    say(transcript, "python tools/cli.py list --status ACTIVE", "Which palette do you mean?")
    state = advance(fresh(SESSION), lines_of(transcript))
    assert (state.goal_turn, state.asked) == (3, None)
    assert state.goal == "Now port the theme selector to the new palette."
    assert [one.text for one in state.next_steps] == ["Which palette do you mean?"]


def test_a_promise_or_a_wish_is_no_topic(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "Port the theme selector to the new palette.", "Done.")
    say(transcript, "I'll send you the schema of the gauges tomorrow.", "Fine.")
    say(transcript, "I prefer metric units in every chart of the report.", "Fine.")
    assert advance(fresh(SESSION), lines_of(transcript)).goal_turn == 1
    other = transcript_in(home, "agent:default:other")
    say(other, "We still have to decide which pilots get the beta.", "Fine.")
    say(other, "Draw the chart.", "Here it is.")
    assert advance(fresh(SESSION), lines_of(other)).goal == "Draw the chart."


def test_the_real_rule_stays_among_everyday_sentences_and_a_choice_is_retired(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "Never push to main. Use Postgres.", "Fine.")
    for number in range(70):
        say(transcript, f"I think chapter {number} reads well, and I like the pace.", "Good.")
    say(transcript, "Staging Postgres listens on 5432, right?", "It listens on 5432.")
    say(transcript, "No, that's wrong: staging Postgres listens on 5433.", "Noted.")
    say(transcript, "Postgres is rejected; use SQLite because it has no server.", "Fine.")
    state = advance(fresh(SESSION), lines_of(transcript))
    binding = [(one.kind, one.text) for one in state.constraints]
    assert ("rule", "Never push to main.") in binding
    assert ("correction", "No, that's wrong: staging Postgres listens on 5433.") in binding
    (decided,) = state.decisions
    assert decided.text.startswith("Postgres is rejected; use SQLite")
    saved_now = fitted(state)
    assert [one.text for one in saved_now.constraints] == [one.text for one in state.constraints]


def test_a_saved_checkpoint_is_small_and_points_at_what_it_leaves_out(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(60):
        say(
            transcript,
            f"Let's use library_{number} for the part_{number} because it is small.",
            "Fine.",
        )
    say(transcript, "Never touch the lexer.", "Understood.")
    state = advance(fresh(SESSION), lines_of(transcript))
    small = fitted(state)
    assert len(encoded(state)) > LARGEST >= len(encoded(small))
    assert [one.text for one in small.constraints] == ["Never touch the lexer."]
    assert any(one.startswith("5") and "decisions: lines" in one for one in small.left_out)


def test_commands_and_errors_are_kept_until_they_are_mended(home: Path) -> None:
    transcript = transcript_in(home)
    outputs = ("E   KeyError: 'port'\n[exit code 1]", "ok\n[exit code 0]")
    for turn, output in enumerate(outputs, 1):
        call = ToolCall(id=f"c{turn}", name="bash", arguments='{"command": "pytest -x"}')
        transcript.append(UserMessage(text="Run the tests of the parser."), turn=turn)
        transcript.append(AssistantMessage(text="", calls=(call,)), turn=turn)
        transcript.append(ToolReturned(call=f"c{turn}", name="bash", text=output), turn=turn)
        state = advance(fresh(SESSION), lines_of(transcript))
        (ran,) = state.commands
        assert (ran.text, ran.exit, ran.ok) == ("pytest -x", 2 - turn, turn == 2)
        failed = [one.text.partition(": ")[2] for one in state.errors]
        assert failed == ([output] if turn == 1 else [])


def test_a_folder_is_no_missing_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    seen = observe(tmp_path, [".", "src", "gone.py"])
    assert [one.words() for one in seen.files] == ["a folder", "a folder", "not on disk"]
    state = advance(fresh(SESSION), lines_of(work(home)))
    shown = show(msgspec.structs.replace(state, environment=seen))
    assert "window 1,  ()" not in shown
    assert "Not saved yet" in shown
    assert "- src (a folder)" in shown


def test_git_and_services_are_told_and_their_change_is_drift(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.py").write_text("x = 1\n")
    assert git_changes(tmp_path) == ("?? new.py",)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert services_at([port]) == (Service(port=port, answers=True),)
        then = Environment(services=services_at([port]))
    now = Environment(services=services_at([port]))
    assert drift(then, now) == (f"Port {port} answered and does not any more.",)
    assert "port" in environment_text(then)[0]


def test_a_branch_that_leads_out_of_its_repository_has_no_commit(tmp_path: Path) -> None:
    work, head = tmp_path / "work", tmp_path / "work" / ".git" / "HEAD"
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (tmp_path / "secret").write_text("ab" * 20)
    (work / ".git/refs/heads/out").symlink_to(tmp_path)
    (work / ".git/refs/heads/own").write_text("cd" * 20)
    (work / ".git/refs/heads/round").symlink_to("round")
    there = {"own": "cd" * 20}
    for branch in ("own", "out/secret", "../../../../secret", "round", "round/x"):
        head.write_text(f"ref: refs/heads/{branch}\n")
        assert git_position(work) == (branch, there.get(branch, ""))


def test_no_program_that_a_repository_names_is_run_for_its_changes(tmp_path: Path) -> None:
    ran, inner = tmp_path / "ran", tmp_path / "work" / "inner"
    evil = f"touch {ran}; cat"

    def git(*words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@x")
        subprocess.run(["git", *who, "-C", str(inner.parent), *words], check=True)

    for folder in (inner.parent, inner):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (inner.parent / ".gitattributes").write_text("* filter=a=b\n")
    for name in ("one.py", "inner/two.py"):
        (inner.parent / name).write_text("x = 1\n")
    git("-C", "inner", "add", "two.py")
    git("-C", "inner", "commit", "-qm", "inner")
    git("add", "one.py", "inner")
    git("commit", "-qm", "outer")
    git("config", "filter.a=b.clean", evil)
    git("config", "filter.a=b.required", "true")
    git("config", "core.fsmonitor", evil)
    git("-C", "inner", "config", "filter.inner.clean", evil)
    (inner / ".git/info/attributes").write_text("* filter=inner\n")
    (inner / "two.py").write_text("x = 2\n")
    (inner.parent / "one.py").write_text("x = 2\n")
    assert git_changes(inner.parent) == ("M one.py", "?? .gitattributes")
    assert not ran.exists()


class CountingHistory(History):
    """Counts the lines that are handed out whole."""

    handed_out = 0

    def whole(self, line: Line) -> Line:
        self.handed_out += 1
        return super().whole(line)


@pytest.mark.thorough
def test_the_state_of_an_endless_task_is_made_from_its_beginning_and_its_newest_lines(
    tmp_path: Path,
) -> None:
    transcript = transcript_in(tmp_path)
    texts = ["Move the harbour crane to quay 9.", *(f"and step {n}" for n in range(9_000))]
    transcript.append_all(
        [
            Draft(entry=UserMessage(text=text), turn=turn, channel="test")
            for turn, text in enumerate(texts, 1)
        ]
    )
    history = CountingHistory(transcript.places)
    state = task_state(transcript.places, history)
    assert history.handed_out < 8_400
    whole = [line for line in history.read() if isinstance(line, Line)]
    history.close()
    assert state.checkpoint.head.seq == transcript.head.seq
    assert state.checkpoint.goal == advance(fresh(state.checkpoint.session), whole).goal
    transcript.close()
