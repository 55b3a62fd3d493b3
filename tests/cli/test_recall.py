"""`mindstone recall`: the best that is there, and what a turn would be given unasked."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from mindstone_tui.cli.main import run
from mindstone_tui.cli.output import Progress
from mindstone_tui.cli.recall import _index_anew
from mindstone_tui.core.config import Settings
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from tests.builders import places_in, transcript_in

TALK = (
    ("user", "The staging database listens on port 5432."),
    ("assistant", "Noted: staging uses 5432."),
    ("user", "Our release manager Priya signs off every Friday."),
    ("assistant", "I will ask Priya on Fridays."),
    ("user", "No, that's wrong: the staging database listens on port 5433."),
    ("assistant", "Corrected: staging uses 5433."),
)


@pytest.fixture
def session(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A small conversation with a correction, with its vectors."""
    del home
    path = tmp_path / "talk.jsonl"
    rows = [
        {"id": str(at), "role": role, "content": text, "ts": f"2026-01-0{at}T12:00:00Z"}
        for at, (role, text) in enumerate(TALK, start=1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert run(["import", str(path), "--from", "messages", "--session", "talk", "--json"]) == 0
    capsys.readouterr()
    return "talk"


def answers(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def texts(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["text"] for hit in hits]


def test_whatever_a_person_reads_tells_the_time_where_they_are(
    session: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "FAR-14")
    time.tzset()
    for argv in (
        ["log", "-s", session],
        ["recall", "manager", "-s", session],
        ["search", "manager"],
    ):
        assert run(argv) == 0
        told = capsys.readouterr().out
        assert "2026-01-04 02:00" in told or argv[0] == "search"
        assert "2026-01-04" in told
        assert run([*argv, "--json"]) == 0
        assert '"2026-01-03T12:00:00' in capsys.readouterr().out
    assert run(["stats", "--json"]) == 0
    days = [row["name"] for row in json.loads(capsys.readouterr().out)["days"]]
    assert days == [f"2026-01-0{at}" for at in range(2, len(TALK) + 2)]
    assert run(["stats", "--since", "2026-01-07", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["days"]] == ["2026-01-07"]
    for argv in (["recall", "manager", "-s", session], ["search", "manager"]):
        assert run([*argv, "--since", "2026-01-04"]) == 0
        assert "2026-01-04" in capsys.readouterr().out, "the day that it names is the day it takes"
    assert run(["sessions", "--since", "2026-01-07"]) == 0
    assert "2026-01-07 02:00" in capsys.readouterr().out
    assert run(["search", "manager", "--since", "0001-01-01", "--role", "user"]) == 0
    assert "2026-01-04" in capsys.readouterr().out
    for role in ([], ["--role", "user"]):
        assert run(["search", "manager", "--until", "2026-01-03", *role]) == 0
        assert "2026-01-04" not in capsys.readouterr().out
        assert run(["search", "manager", "--since", "2026-01-04", *role]) == 0
        assert "2026-01-04" in capsys.readouterr().out
    monkeypatch.undo()
    time.tzset()


def test_a_correction_is_shown_above_what_it_corrects_and_both_are_marked(
    session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    question = "which port does the staging database listen on"
    assert run(["recall", question, "-s", session, "--json"]) == 0
    (found,) = answers(capsys)
    by_text = {hit["text"]: hit for hit in found["hits"]}
    newer, older = by_text[TALK[4][1]], by_text[TALK[0][1]]
    assert texts(found["hits"]).index(TALK[4][1]) < texts(found["hits"]).index(TALK[0][1])
    assert older["entries"][0]["seq"] in newer["supersedes"]
    assert older["superseded_by"] == newer["entries"][0]["seq"]
    for words in (["recall", question, "-s", session], ["about", question]):
        assert run(words) == 0
        assert f"superseded by #{older['superseded_by']}" in capsys.readouterr().out


def test_scores_are_told_to_whoever_asks_for_them(
    session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = []
    for words in ([], ["--explain"]):
        assert run(["recall", "Who signs off releases?", "-s", session, *words]) == 0
        heads.append(capsys.readouterr().out.split()[0])
    plain, explained = heads
    assert plain.endswith(session)
    assert float(explained) > 0


def test_auto_shows_what_a_turn_would_be_given(
    session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["recall", "Who signs off releases?", "--auto", "-s", session, "--json"]) == 0
    (found,) = answers(capsys)
    assert set(found) == {"query", "injected", "silent"}
    assert found["silent"] is None
    assert found["injected"][0]["text"] == TALK[2][1]
    assert found["injected"][0]["kind"] == "user_message"


def test_auto_says_why_nothing_is_recalled(
    session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["recall", "thanks, go on", "--auto", "-s", session]) == 0
    said = capsys.readouterr().out
    assert said == (
        "Nothing is recalled. The message asks for nothing that history could answer.\n"
    )


def test_auto_answers_a_batch_line_by_line(
    session: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = ("When does Priya sign off?", "tell me slowly", "Where does Ottilie live?", "¿qué?")
    lines = "".join(f"{message}\n" for message in (*messages, "port " * 10_000))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert run(["recall", "--batch", "-", "--auto", "--json", "-s", session]) == 0
    found = answers(capsys)
    assert [each["query"] for each in found[:4]] == list(messages)
    assert [each["silent"] is None for each in found[:3]] == [True, False, False]
    assert "ottilie" in found[2]["silent"]
    assert len(found) == 5


def test_auto_looks_at_memories_and_names_their_kind(
    home: Path, session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = home / "agents" / "default" / "memory"
    memory.mkdir(parents=True)
    front = "name: deploy window\nkind: fact\ncreated: 2026-01-01"
    body = "The deploy window is Wednesday 15:00."
    (memory / "fact_deploy-window.md").write_text(f"---\n{front}\n---\n{body}\n")
    assert run(["recall", "When is the deploy window?", "--auto", "-s", session, "--json"]) == 0
    (found,) = answers(capsys)
    assert found["injected"][0]["kind"] == "memory"
    assert found["injected"][0]["file"] == "memory/fact_deploy-window.md"


def test_auto_takes_no_filter(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["recall", "x", "--auto", "--since", "2026-01-01", "-s", session]
    assert run(asked) == 2
    assert "--auto looks at everything." in capsys.readouterr().err


def test_whoever_leaves_the_bar_of_reindex_keeps_the_words(session: str, home: Path) -> None:
    class Impatient(Progress):
        def __call__(self, part: str, done: int, total: int) -> None:
            super().__call__(part, done, total)
            if part == leaves_at:
                raise KeyboardInterrupt

    each = places_in(home, f"agent:default:{session}")
    leaves_at = "vectors"
    row = _index_anew(each, Settings(), Impatient(quiet=True), wait=True)
    assert row.passages == len(TALK)
    leaves_at = "words"
    with pytest.raises(KeyboardInterrupt):
        _index_anew(each, Settings(), Impatient(quiet=True), wait=True)


def test_a_session_and_its_source_are_named_once_above_what_was_found_in_it(
    session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["search", "staging database port"]) == 0
    told = capsys.readouterr().out
    assert told.count(f"agent:default:{session}\n") == 1
    assert told.count("imported from messages, talk.jsonl") == 1
    assert told.count("  imported\n") == told.count("  turn ") > 1


def test_of_a_long_path_the_name_of_the_file_is_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"/home/somebody/{'a-long-folder/' * 6}src/billing.py"
    with contextlib.closing(transcript_in(home, "work")) as transcript:
        call = ToolCall(id="1", name="edit_file", arguments=json.dumps({"path": path}))
        for entry in (
            TurnStarted(),
            UserMessage(text="Fix it."),
            AssistantMessage(text="", calls=(call,), model="test"),
            ToolReturned(call="1", name="edit_file", text="done"),
            TurnEnded(ending="done"),
        ):
            transcript.append(entry, turn=1)
    assert run(["about", "billing.py"]) == 0
    told = capsys.readouterr().out
    assert "    changed …/" in told
    assert "/src/billing.py\n" in told


def test_a_library_of_a_newer_version_is_told_of_in_one_sentence_and_sessions_are_read(
    session: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(apsw.Connection(str(home / "library.db"))) as library:
        library.pragma("user_version", 99)
    for argv in (["search", "manager"], ["recall", "manager", "-s", session]):
        assert run(argv) == 0
        told = capsys.readouterr()
        assert "Priya" in told.out
        assert told.err.count("newer version") == 1
        assert "not built yet" not in told.err


@pytest.mark.parametrize(
    "argv", [["search", "manager"], ["recall", "manager", "-s", "talk"], ["run", "Who signs off?"]]
)
def test_a_damaged_library_is_told_of_once_and_made_anew(
    argv: list[str], session: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session == "talk"
    run(["run", "hello"])
    capsys.readouterr()
    for suffix in ("-wal", "-shm"):
        (home / f"library.db{suffix}").unlink(missing_ok=True)
    (home / "library.db").write_bytes(b"no library at all" * 900)
    assert run(argv) == 0
    (aside,) = home.glob("library.db.damaged-*")
    assert capsys.readouterr().err.count(f"kept as {aside.name}") == 1
    assert run(argv) == 0
    assert "damaged" not in capsys.readouterr().err
    run(["doctor"])
    assert f"rm {home}/library.db.damaged-*" in " ".join(capsys.readouterr().out.split())
