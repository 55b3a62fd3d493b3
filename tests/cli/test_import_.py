"""`mindstone import`: folders, conversations, the lease, and what a program hears."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mindstone_tui.cli.app_host import HomeSetup
from mindstone_tui.cli.main import run
from mindstone_tui.core.config import Settings
from mindstone_tui.core.library.lease import Lease
from mindstone_tui.core.paths import Places
from mindstone_tui.core.transcript import History
from tests.builders import places_in
from tests.cli.program import ROOT, mindstone_here

IMPORTS = ROOT / "tests" / "fixtures" / "imports"


def heard(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_conversation_of_a_folder_becomes_a_session_of_its_own(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", str(IMPORTS), "--no-wait", "--json"]) == 0
    first = heard(capsys)
    formats = {report["format"] for report in first}
    assert formats >= {"chatgpt", "claude-code", "codex", "gemini-cli", "goose", "opencode", "pi"}
    made = {report["session"] for report in first} - {""}
    assert sum(bool(report["added"]) for report in first) == len(made)
    assert all(report["session"] or report.get("refused") for report in first), "none is hidden"
    assert run(["import", str(IMPORTS), "--no-wait", "--json"]) == 0
    assert not any(report["added"] for report in heard(capsys))


def test_with_a_session_everything_goes_there_and_is_searchable(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(IMPORTS / "claude-code.jsonl")
    assert run(["import", path, "--session", "old", "--no-wait", "--json"]) == 0
    (report,) = heard(capsys)
    assert report["session"] == "agent:default:old"
    assert report["added"] == 6
    with History(places_in(home, "agent:default:old")) as history:
        newest = next(iter(history.back()))
    assert getattr(newest, "kind", "") in ("window_carried", "context_window_pruned")
    assert run(["recall", "which port", "-s", "old", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"]
    assert run(["replay", "old", "--plain"]) == 0
    assert "→ Request 1 to " in capsys.readouterr().out


def test_a_file_that_is_no_session_does_not_keep_the_others_out(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.json").write_text('{"nothing": "of ours"}')
    (folder / "b.jsonl").write_bytes((IMPORTS / "messages.jsonl").read_bytes())
    assert run(["import", str(folder), "--no-wait"]) == 0
    shown = capsys.readouterr()
    assert "1 session, 6 messages added" in shown.out
    assert "1 file without a session: a.json" in shown.err
    assert "error" not in shown.err
    (folder / "b.jsonl").unlink()
    assert run(["import", str(folder), "--no-wait"]) == 1


def test_the_folder_of_a_program_is_taken_with_all_that_lies_in_it(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "projects" / "-home-ada-server"
    agents = project / "5c1d7c1e-0000-4000-8000-000000000001" / "subagents"
    agents.mkdir(parents=True)
    shutil.copy(IMPORTS / "claude-code.jsonl", project)
    shutil.copy(IMPORTS / "claude-code-subagents" / "agent-a1b2c3d.jsonl", agents)
    (agents / "agent-a1b2c3d.meta.json").write_text('{"agentType":"Explore"}')
    snapshot = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}
    (project / "silent.jsonl").write_text(json.dumps(snapshot))
    (project / "torn.jsonl").write_bytes(b"")
    packed = project / "rollout-2026.jsonl.zst"
    packed.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(9))

    assert run(["import", str(tmp_path / "projects"), "--no-wait"]) == 0
    shown = capsys.readouterr()
    assert "2 sessions, 8 messages added" in shown.out
    assert "1 conversation without a message left out" in shown.err
    assert "2 files without a session: agent-a1b2c3d.meta.json, torn.jsonl" in shown.err
    assert "1 file not read" in shown.err
    assert "zstd -d" in shown.err
    made = {each.name for each in places_in(home).folder.parent.iterdir()}
    main = "claude-code-5c1d7c1e-0000-4000-8000-000000000001"
    assert made == {main, f"{main}-a1b2c3d"}


def test_the_storage_of_opencode_gives_sessions_and_not_their_pieces(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", str(IMPORTS / "opencode-storage"), "--no-wait"]) == 0
    shown = capsys.readouterr()
    assert "1 session, 5 messages added" in shown.out
    assert "1 file without a session: ses_0000000002.json" in shown.err


def test_a_file_without_a_message_makes_no_session(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "silent.jsonl"
    path.write_text('{"type":"summary","summary":"Nothing","leafUuid":"x"}\n')
    assert run(["import", str(path), "--no-wait"]) == 0
    assert "has no message" in capsys.readouterr().out
    assert not places_in(home).folder.parent.exists()


def test_an_import_waits_for_a_turn_that_is_being_taken(home: Path) -> None:
    own = places_in(home, "agent:default:busy")
    own.folder.mkdir(parents=True)
    lease = Lease(own)
    assert lease.try_take()
    words = ["import", str(IMPORTS / "messages.jsonl"), "--session", "busy", "--no-wait"]
    with subprocess.Popen(
        [sys.executable, "-m", "mindstone_tui", *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stderr is not None
        assert "Waiting" in program.stderr.readline()
        assert not own.transcript.exists()
        lease.give_back()
        out, _ = program.communicate(timeout=60)
    assert "6 messages added" in out


def test_the_sample_is_imported_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "--sample", "--no-wait", "--json"]) == 0
    (first,) = heard(capsys)
    assert (first["session"], first["added"]) == ("agent:sample:tidewatch", 477)
    assert run(["import", "--sample", "--no-wait", "--json"]) == 0
    (second,) = heard(capsys)
    assert (second["added"], second["already_there"]) == (0, 477)


def test_a_file_or_the_sample_but_not_both(home: Path) -> None:
    assert run(["import", "x.jsonl", "--sample"]) == 2


def test_search_says_where_to_go_on_and_when_nobody_said_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(IMPORTS / "claude-code.jsonl")
    assert run(["import", path, "--session", "old", "--json"]) == 0
    capsys.readouterr()
    assert run(["search", "which port"]) == 0
    said = capsys.readouterr()
    assert "No exact match" not in said.out
    assert "mindstone chat -s agent:default:old --at " in said.err
    assert "'/fork turn 1'" in said.err
    assert run(["search", "TCP socket number"]) == 0
    assert "No exact match for “TCP socket number”" in capsys.readouterr().out
    assert run(["search", "EADDRINUSE"]) == 0
    assert capsys.readouterr().out == "No session matches.\n"


def test_what_was_imported_can_be_looked_back_on_and_resumed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("copilot-cli.jsonl", "claude-ai.json"):
        assert run(["import", str(IMPORTS / name), "--no-wait"]) == 0
    capsys.readouterr()
    assert run(["stats", "--json", "--program", "copilot-cli"]) == 0
    (stats,) = heard(capsys)
    assert stats["total"]["turns"] == 2  # type: ignore[index]
    assert [row["name"] for row in stats["programs"]] == ["copilot-cli"]  # type: ignore[attr-defined]
    page = tmp_path / "stats.html"
    assert run(["stats", "-o", str(page)]) == 0
    assert "claude-ai" in page.read_text()
    assert run(["stats"]) == 0
    assert "2 sessions · 4 turns" in capsys.readouterr().out
    assert run(["resume", "c0000000", "--json"]) == 0
    (found,) = heard(capsys)
    assert found["command"] == ["copilot", "--resume", "c0000000-0000-4000-8000-0000000000c1"]
    assert run(["resume", "claude-ai"]) == 2
    assert "has no command" in capsys.readouterr().err


def test_without_a_path_it_lists_what_is_there_and_takes_over_only_what_is_new(
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    person = tmp_path / "person"
    for name in ("XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.chdir(tmp_path)
    assert run(["import"]) == 1
    assert "No sessions of other programs" in capsys.readouterr().err
    shutil.copytree(IMPORTS / "droid", person / ".factory" / "sessions" / "tide")
    events = person / ".copilot" / "session-state" / "x" / "events.jsonl"
    events.parent.mkdir(parents=True)
    shutil.copy(IMPORTS / "copilot-cli.jsonl", events)

    assert run(["import", "--json"]) == 0
    (listed,) = heard(capsys)
    programs = {row["program"]: row for row in listed["programs"]}  # type: ignore[attr-defined]
    assert {name: row["new"] for name, row in programs.items()} == {"droid": 1, "copilot-cli": 1}
    assert programs["droid"]["read"]
    assert run(["import"]) == 0, "nobody is there to say yes"
    assert "Nothing was imported" in capsys.readouterr().err

    assert run(["import", "--yes", "--no-wait"]) == 0
    assert "2 sessions, " in capsys.readouterr().out
    assert run(["import", "--yes", "--no-wait"]) == 0
    assert "imported before" in capsys.readouterr().err
    with events.open("a") as stream:
        stream.write('{"type":"user.message","data":{"content":"And now?"},"id":"z"}\n')
    assert run(["import", "--yes", "--no-wait", "--json"]) == 0
    (report,) = heard(capsys)
    assert (report["format"], report["added"]) == ("copilot-cli", 1)


def test_whoever_leaves_the_bar_for_vectors_keeps_what_was_imported(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mindstone_tui.cli.interchange import _make_vectors
    from mindstone_tui.cli.output import Progress
    from mindstone_tui.core.config import Settings

    class Impatient(Progress):
        def __call__(self, part: str, done: int, total: int) -> None:
            raise KeyboardInterrupt

    path = str(IMPORTS / "claude-code.jsonl")
    assert run(["import", path, "--session", "old", "--no-wait", "--json"]) == 0
    _make_vectors([places_in(home, "agent:default:old")], Settings(), Impatient())
    assert "Ctrl+C leaves the rest" in capsys.readouterr().err


@pytest.mark.thorough
async def test_the_app_takes_in_what_lies_there_in_a_process_of_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = tmp_path / "person" / ".claude" / "projects" / "x"
    kept.mkdir(parents=True)
    shutil.copy(IMPORTS / "claude-code.jsonl", kept)
    (kept / "none.jsonl").write_text("no session\n")
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    setup = HomeSetup(Places.resolve({"MINDSTONE_HOME": str(home)}), Settings())
    (found,) = await setup.elsewhere()
    assert (found.title, len(found.new)) == ("Claude Code", 2)
    told: list[tuple[int, int]] = []
    said = await setup.take_in(lambda done, total: told.append((done, total)))
    assert said.startswith("1 session, 6 messages taken in.")
    assert told == [(1, 2), (2, 2)]
    assert await setup.elsewhere() == []


def test_attach_offers_what_lies_there_already_and_says_when_it_would_be_deleted(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    person = tmp_path / "person"
    kept = person / ".claude" / "projects" / "x"
    kept.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    for number, days in enumerate((1, 50, 58)):
        file = kept / f"0000000{number}-0000-0000-0000-000000000000.jsonl"
        file.write_bytes((IMPORTS / "claude-code.jsonl").read_bytes())
        moment = time.time() - days * 86_400
        os.utime(file, (moment, moment))
    (person / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 60}')
    told = mindstone_here("attach", "claude-code", "--yes").stderr
    assert "3 session files of Claude Code lie here already" in told
    assert "after 60 days; within 7 days that meets 1 of these." in told
    assert mindstone_here("import", "--yes", "--no-wait").returncode == 0
    assert mindstone_here("attach", "claude-code", "--undo", "--yes").returncode == 0
    assert "already, " not in mindstone_here("attach", "claude-code", "--yes").stderr
