"""Continuity as verbs: what one process writes, the next one reads, or refuses with the word."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.program import mindstone, mindstone_here


def say(*replies: str, folder: Path) -> str:
    path = folder / "script.jsonl"
    path.write_text("".join(json.dumps({"text": reply}) + "\n" for reply in replies))
    return f"scripted/{path}"


def checkpoint_of(home: Path) -> Path:
    return home / "agents" / "default" / "sessions" / "main" / "checkpoint.json"


def test_a_checkpoint_of_one_process_resumes_in_another_and_a_changed_one_is_refused(
    home: Path, tmp_path: Path
) -> None:
    model = say("- [x] measure\n- [~] rewrite parse_block\n- [ ] release", folder=tmp_path)
    started = mindstone_here(
        "task", "start", "Speed up the parser | rule: no new files", cwd=tmp_path
    )
    assert started.returncode == 0, started.stderr
    ran = mindstone("run", "Begin.", "--model", model, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    shown = mindstone("checkpoint", "show", "--json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    resumed = json.loads(shown.stdout)
    assert resumed["resume_at"] == "rewrite parse_block"
    assert [step["name"] for step in resumed["steps"]] == [
        "orient",
        "load",
        "verify",
        "inject",
        "resume",
    ]
    path = checkpoint_of(home)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"rewrite parse_block", b"delete everything!!"))
    edited = mindstone_here("checkpoint", "show", cwd=tmp_path)
    assert (edited.returncode, edited.stdout) == (1, "")
    assert "edited" in edited.stderr
    path.write_bytes(whole)
    saved = mindstone_here("checkpoint", "save", cwd=tmp_path)
    assert saved.returncode == 0, saved.stderr
    path.write_bytes(whole)
    stale = mindstone_here("checkpoint", "show", cwd=tmp_path)
    assert stale.returncode == 1
    assert "stale" in stale.stderr


def test_health_and_memory_answer_programs(home: Path, tmp_path: Path) -> None:
    model = say("Fine.", folder=tmp_path)
    ran = mindstone_here(
        "run", "From now on always answer in British English.", "--model", model, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    health = json.loads(mindstone_here("health", "--json", cwd=tmp_path).stdout)
    assert set(health["turns"][0]) >= {
        "utilization",
        "eviction_rate",
        "compression_ratio",
        "burn_rate",
        "fidelity",
        "tool_bloat",
    }
    reviewed = mindstone_here("memory", "consolidate", "--json", cwd=tmp_path)
    assert reviewed.returncode == 0, reviewed.stderr
    found = json.loads(reviewed.stdout)
    assert found["finished"]
    assert "Reviewed 100%" in reviewed.stderr
    (proposal,) = found["proposals"]
    approved = mindstone_here("memory", "approve", proposal, cwd=tmp_path)
    assert approved.returncode == 0, approved.stderr
    assert list((home / "agents" / "default" / "memory").glob("preference_*.md"))


def test_recall_finds_memories_by_their_file(home: Path, tmp_path: Path) -> None:
    del home
    script = tmp_path / "replies.jsonl"
    script.write_text('{"text": "Fine."}\n{"loop": true}\n')
    mindstone_here("run", "Let us begin.", "--model", f"scripted/{script}")
    mindstone_here("memory", "add", "The deploy window is Wednesday 15:00.")
    waiting = mindstone_here("memory").stdout
    found = re.search(r"^(m\d+):", waiting, re.MULTILINE)
    assert found is not None
    assert mindstone_here("memory", "approve", found[1]).returncode == 0
    best = json.loads(mindstone_here("recall", "deploy window", "--json").stdout)["hits"][0]
    assert best["file"].startswith("memory/")
    assert best["entries"] == []
    assert "Wednesday" in best["text"]
    assert best["file"] in mindstone_here("recall", "deploy window").stdout


def test_looking_at_a_session_that_does_not_exist_does_not_begin_it(
    home: Path, tmp_path: Path
) -> None:
    for verb in ("task", "checkpoint", "handoff", "memory", "health"):
        looked = mindstone_here(verb, "-s", "tpyo", cwd=tmp_path)
        assert looked.returncode == 1, verb
        assert "There is no session agent:default:tpyo." in looked.stderr
    assert not (home / "agents").exists()


def test_a_refusal_names_commands_as_the_shell_knows_them(home: Path, tmp_path: Path) -> None:
    assert mindstone_here("memory", "add", "staging uses port 8081", cwd=tmp_path).returncode == 0
    refused = mindstone_here("checkpoint", cwd=tmp_path)
    assert refused.returncode == 1
    assert "There is no checkpoint yet. mindstone checkpoint save makes one." in refused.stderr
    unfinished = mindstone_here("memory", "approve", cwd=tmp_path)
    assert unfinished.returncode == 2
    assert "`approve` needs to know what. Usage: mindstone memory [" in unfinished.stderr


def test_an_edited_handoff_is_not_shown(home: Path, tmp_path: Path) -> None:
    model = say("Yes.", folder=tmp_path)
    assert mindstone_here("run", "Keep the old port.", "--model", model).returncode == 0
    assert mindstone_here("handoff", "write").returncode == 0
    (file,) = (checkpoint_of(home).parent / "handoffs").iterdir()
    whole = file.read_bytes()
    assert "Keep the old port." in mindstone_here("handoff", "show").stdout
    file.write_bytes(whole.replace(b"Keep the old port.", b"Drop the old port."))
    shown = mindstone_here("handoff", "show")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "edited" in shown.stderr
