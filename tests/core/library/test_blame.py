"""Which turn made a line: never a wrong one, and told to people, programs and other agents."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui import api
from mindstone_tui.core import events
from mindstone_tui.core.entries.store import FilesChanged
from mindstone_tui.core.library.blame import KeptFiles, git
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.servers.lookup import Lookup
from tests.cli.program import mindstone_here
from tests.core.library.generated_repositories import Repository, Score
from tests.core.session.stage import Stage, calls, on_stage, script

GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not on this machine")
COMMITS = int(os.environ.get("MINDSTONE_ORIGIN", "16"))
"""How many generated commits are judged; `make origin` asks for 500."""


@pytest.mark.thorough
@GIT
async def test_no_line_is_blamed_on_a_turn_that_did_not_make_it(tmp_path: Path) -> None:
    score, seed = Score(), 0
    while score.commits < COMMITS:
        score = score.plus(await Repository(tmp_path / str(seed), seed, 1 + seed % 3).play(6))
        seed += 1
    share = score.found / score.agents
    print(
        f"\n{score.commits} commits in {seed} repositories: {score.told:,} lines told, "
        f"{len(score.wrong)} wrong; {share:.1%} of {score.agents:,} lines of agents attributed; "
        f"apart from these {score.apart:,} lines in files that undo does not keep, "
        f"{score.apart_found:,} of them attributed"
    )
    assert not score.wrong, "\n".join(score.wrong[:20])
    assert share >= 0.9


async def played(tmp_path: Path, *replies: Any, said: str = "Do it.", **more: Any) -> Stage:
    """A session that takes one turn for each two replies, in the folder `work`."""
    model = script(tmp_path, *replies)
    home = tmp_path / "home"
    async with on_stage(
        home, cwd=tmp_path / "work", model=model, approve="full-auto", **more
    ) as stage:
        for _ in replies[::2]:
            assert (await stage.say(said)).ending == "done"
    return stage


def blamed(tmp_path: Path, name: str) -> list[tuple[str, str, int | None]]:
    home = Places.resolve({"MINDSTONE_HOME": str(tmp_path / "home")})
    found = KeptFiles(home, tmp_path / "work", {}).blame(tmp_path / "work" / name)
    return [(each.text, each.origin, each.turn) for each in found]


async def test_what_two_sessions_may_have_done_at_once_is_neithers(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "f").write_text("one\n")
    waits = "until test -e go; do :; done; echo slow >> f"
    model = script(tmp_path, calls(("shell", {"command": waits})), {"text": "done"})
    (tmp_path / "other").mkdir()
    quick = calls(("edit", {"path": "f", "old_string": "one\n", "new_string": "one\nquick\n"}))
    other = script(tmp_path / "other", quick, {"text": "done"})
    more: dict[str, Any] = {"cwd": work, "approve": "full-auto"}
    home = tmp_path / "home"
    async with (
        on_stage(home, model=model, key=SessionKey.parse("slow"), **more) as slow,
        on_stage(home, model=other, key=SessionKey.parse("quick"), **more) as fast,
    ):
        slow.session.send("Go.")
        await slow.until(events.ToolStarted)
        assert (await fast.say("Go.")).ending == "done"
        (work / "go").touch()
        await slow.until(events.TurnEnded)
    assert blamed(tmp_path, "f") == [
        ("one", "before", None),
        ("quick", "turn", 1),
        ("slow", "unknown", None),
    ]


async def test_states_that_were_let_go_make_what_was_there_before_unknown(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    stage = await played(
        tmp_path,
        calls(("write", {"path": "f", "content": "one\n"})),
        {"text": "done"},
        calls(("write", {"path": "f", "content": "one\ntwo\n"})),
        {"text": "done"},
    )
    assert blamed(tmp_path, "f") == [("one", "turn", 1), ("two", "turn", 2)]
    (tmp_path / "work" / "f").write_text("one\nhand\ntwo\n")
    assert blamed(tmp_path, "f")[1] == ("hand", "unknown", None)
    last = stage.entries(FilesChanged)[-1]
    store = ObjectStore(stage.places.files, limit=0)
    store.refresh()
    needed = [each.split()[-1] for each in (last.changes[0].before, last.changes[0].after)]
    store.let_go([last.manifest, *needed])
    assert blamed(tmp_path, "f") == [
        ("one", "unknown", None),
        ("hand", "unknown", None),
        ("two", "turn", 2),
    ]


async def test_what_a_command_did_to_an_ignored_file_is_not_called_before(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "out").mkdir(parents=True)
    (work / ".gitignore").write_text("out/\n")
    await played(
        tmp_path,
        calls(("shell", {"command": "echo one > out/f"})),
        {"text": "done"},
        calls(("write", {"path": "out/f", "content": "one\ntwo\n"})),
        {"text": "done"},
    )
    assert blamed(tmp_path, "out/f") == [("one", "unknown", None), ("two", "turn", 2)]


async def test_what_a_command_did_where_too_many_files_lie_is_not_called_before(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for number in range(150):
        (work / f"{number}.txt").write_text("x\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("[undo]\nfiles = 100\n")
    await played(
        tmp_path,
        calls(("shell", {"command": "echo one > f"})),
        {"text": "done"},
        calls(("write", {"path": "f", "content": "one\ntwo\n"})),
        {"text": "done"},
    )
    assert blamed(tmp_path, "f") == [("one", "unknown", None), ("two", "turn", 2)]


async def test_a_rewound_turn_made_its_lines_and_is_marked(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    write = calls(("write", {"path": "f", "content": "one\n"}))
    model = script(tmp_path, {"text": "Hello."}, write, {"text": "done"})
    more: dict[str, Any] = {"cwd": tmp_path / "work", "approve": "full-auto"}
    async with on_stage(tmp_path / "home", model=model, **more) as stage:
        await stage.say("hello")
        await stage.say("make it")
        home = Places.resolve({"MINDSTONE_HOME": str(tmp_path / "home")})
        for gone in (False, True):
            kept = KeptFiles(home, tmp_path / "work", {})
            (line,) = kept.blame(tmp_path / "work" / "f")
            assert line.turn == 2
            assert bool(line.standing) is gone
            assert all(mark.startswith("rewound by #") for mark in line.standing)
            assert kept.words(line).endswith(f"{', '.join(['', *line.standing])}: make it")
            await stage.run("/rewind turn 1")


async def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file to which a turn added a line, in a home that the verbs use."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "f.py").write_text("import os\n")
    write = ("write", {"path": "f.py", "content": "import os\nprint('hello')\n"})
    said = "Say \x1b[31mhello to everybody who reads this line, and to all the others as well."
    await played(tmp_path, calls(write), {"text": "done"}, said=said)
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "home"))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "x")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "x@x")
    return work


async def test_people_programs_and_agents_are_told_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = await hello(tmp_path, monkeypatch)
    shown = mindstone_here("blame", "f.py", cwd=work)
    *first, head, last = shown.stdout.splitlines()
    assert first == ["LINE  TEXT", "before", "   1  import os"]
    assert last == "   2  print('hello')"
    assert head.startswith("main, turn 1, 20")
    assert head.endswith("…")
    assert len(head) <= 79
    assert "\x1b" not in head
    assert "mindstone replay agent:default:main --turn 1 --prompt" in shown.stderr
    lines = json.loads(mindstone_here("blame", "f.py", "--json", cwd=work).stdout)
    assert [*lines[1]] == ["line", "text", "origin", "turn", "session", "seq", "standing"]
    assert [each["origin"] for each in lines] == ["before", "turn"]
    for words in (("f.py:2",), ("f.py", "-L", "2"), ("f.py", "--lines", "2-9")):
        title, whole, row = mindstone_here("blame", *words, cwd=work).stdout.splitlines()
        assert (title, row) == ("LINE  TEXT", last)
        assert whole.startswith(head[:-1]), "and to its end"
        assert not whole.endswith("…")
    async with on_stage(tmp_path / "home", cwd=work, model=script(tmp_path)) as stage:
        ended, said = await stage.run("/blame f.py")
        assert ended.ok
        *_, one, two = said.splitlines()
        assert one.split() == ["1-1", "before"]
        assert two.split(maxsplit=1) == ["2-2", head]
        assert not (await stage.run("/blame nothing.py"))[0].ok
    told = Lookup(api.Home(tmp_path / "home")).blame(str(work / "f.py"))
    assert [(each["lines"], each["turn"]) for each in told["runs"]] == [([1, 1], None), ([2, 2], 1)]


@GIT
async def test_a_commit_its_notes_and_the_message_of_the_next_one_name_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = await hello(tmp_path, monkeypatch)
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "nothing")
    git(work, "add", "-A")
    message = tmp_path / "message"
    message.write_text("Say hello\n")
    assert mindstone_here("blame", "--trailer", str(message), cwd=work).returncode == 0
    assert message.read_text() == "Say hello\n\nMade-in: agent:default:main turn 1\n"
    git(work, "commit", "-q", "-F", str(message))
    done = mindstone_here("blame", "--commit", "HEAD", "--notes", cwd=work)
    rows = [row.split(maxsplit=1) for row in done.stdout.splitlines()]
    assert [row[0] for row in rows[1:]] == ["f.py:1-1", "f.py:2-2"]
    assert rows[2][1].startswith("main, turn 1, 20")
    note = git(work, "notes", "--ref=mindstone", "show", "HEAD").decode()
    assert [row.split(maxsplit=1) for row in note.splitlines()] == rows[1:]
    both = mindstone_here("blame", "--commit", "HEAD~1..HEAD", "--json", cwd=work)
    assert [(each["path"], each["turn"]) for each in json.loads(both.stdout)] == [
        ("f.py", None),
        ("f.py", 1),
    ]
    (work / "f.py").write_text("import os\n\n\ndef one():\n    pass\n")
    git(work, "commit", "-qam", "one")
    (work / "f.py").write_text("import os\n\n\ndef two():\n    pass\n\n\ndef one():\n    pass\n")
    (work / "g.py").write_text("x = 1\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "two")
    diff = git(work, "show", "-U0", "--format=", "HEAD").decode()
    told = json.loads(mindstone_here("blame", "--commit", "HEAD", "--json", cwd=work).stdout)
    assert [one["text"] for one in told] == [
        row[1:] for row in diff.splitlines() if row[0] == "+" and not row.startswith("+++")
    ]
    named = mindstone_here("blame", "--commit", "HEAD", "g.py", cwd=work).stdout
    assert [row.split()[0] for row in named.splitlines()[1:]] == ["g.py:1-1"]
    assert git(work, "status", "--porcelain") == b""


@GIT
async def test_nothing_that_a_repository_names_in_its_settings_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = await hello(tmp_path, monkeypatch)
    ran, message = tmp_path / "ran", tmp_path / "message"
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "nothing")
    git(work, "add", "-A")
    git(work, "config", "trailer.evil.command", f"touch {ran}; echo")
    message.write_text("Say hello\n")
    assert mindstone_here("blame", "--trailer", str(message), cwd=work).returncode == 0
    assert "Made-in: " in message.read_text()
    assert not ran.exists()
    git(work, "commit", "-qm", "one")
    blob = git(work, "rev-parse", "HEAD:f.py").decode().strip()
    (work / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", str(tmp_path)),
        ("remote.evil.uploadpack", f"touch {ran};"),
    ):
        git(work, "config", name, value)
    assert mindstone_here("blame", "--commit", "HEAD", cwd=work).returncode
    assert not ran.exists()


def claude_row(work: Path, number: int, role: str, content: Any) -> dict[str, Any]:
    return {
        "type": role,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "5c1d7c1e-0000-4000-8000-000000000009",
        "cwd": str(work),
        "timestamp": f"2026-03-01T09:00:{number:02}.000Z",
        "message": {"role": role, "content": content},
    }


def recorded(work: Path, folder: Path, *edits: tuple[str, dict[str, str], str]) -> Path:
    """A session of Claude Code that made these calls, where that program keeps its own."""
    contents: list[tuple[str, Any]] = [("user", "Do it.")]
    for number, (name, given, said) in enumerate(edits):
        use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": said}
        contents += [("assistant", [use]), ("user", [result])]
    rows = [claude_row(work, number, *each) for number, each in enumerate(contents)]
    path = folder / ".claude" / "projects" / "work" / "5c1d7c1e.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_edits_that_another_program_recorded_count_where_they_stand_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    new, old, twice, patched = (str(work / name) for name in ("new", "old", "twice", "patched"))
    long = "something_that_nobody_writes_by_chance()\n"
    patch = f"*** Begin Patch\n*** Update File: {patched}\n@@\n a\n-b\n+{long}*** End Patch"
    path = recorded(
        work,
        tmp_path,
        ("Write", {"file_path": new, "content": "a\nb\n"}, "File created successfully at: new"),
        ("Edit", {"file_path": new, "old_string": "b\n", "new_string": "c\nd\n"}, "Updated."),
        ("Edit", {"file_path": old, "old_string": "a\n", "new_string": f"a\n{long}"}, "Updated."),
        ("Edit", {"file_path": twice, "old_string": "b\n", "new_string": long}, "Updated."),
        ("apply_patch", {"input": patch}, "Done."),
        ("Bash", {"command": f"echo e >> {new}"}, ""),
    )
    assert mindstone_here("import", str(path), cwd=work).returncode == 0
    (work / "new").write_text("a\nc\nhand\nd\ne\n")
    (work / "old").write_text(f"a\n{long}z\n")
    (work / "twice").write_text(f"{long}{long}")
    (work / "patched").write_text(f"a\n{long}")
    told = {
        name: "".join(each[1][0] for each in blamed(tmp_path, name))
        for name in ("new", "old", "twice", "patched")
    }
    assert told == {"new": "ttutu", "old": "utu", "twice": "uu", "patched": "ut"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.py"], "There is no file"),
        (["."], "is a folder."),
        (["data"], "is not text"),
        (["/etc/passwd"], "is in no workspace that this history knows."),
        (["../script.jsonl"], "is in no workspace that this history knows."),
        ([], "No file is named."),
        (["data", "--notes"], "--notes goes with --commit."),
        (["data:0"], "`0` names no lines."),
        (["--commit", "nothing"], "git says: "),
    ],
)
async def test_what_cannot_be_told_is_one_sentence(
    tmp_path: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    await played(tmp_path, calls(("write", {"path": "data", "content": "\0"})), {"text": "done"})
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "home"))
    done = mindstone_here("blame", *words, cwd=work)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
