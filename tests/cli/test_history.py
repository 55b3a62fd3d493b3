"""`sessions`, `log` and `verify` as a user and as a program see them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from mindstone_tui.cli.main import run
from mindstone_tui.core.entries.conversation import UserMessage
from tests.builders import places_in, say, transcript_in, use_tool

Capture = pytest.CaptureFixture[str]


def test_no_sessions_yet_is_said_kindly(capsys: Capture) -> None:
    assert run(["sessions"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "No sessions yet" in said.err
    assert run(["sessions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"sessions": []}


def test_sessions_come_newest_first_with_turns_size_and_titles(home: Path, capsys: Capture) -> None:
    for name, text in (("older", "first"), ("newer", "second")):
        transcript = transcript_in(home, f"agent:default:{name}")
        for _ in range(1 if name == "older" else 3):
            say(transcript, "question", f"{text} answer\nwith a second line")
    assert run(["sessions", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["sessions"]
    assert [item["main"] for item in listed] == ["newer", "older"]
    assert listed[0]["turns"] == 3
    assert listed[0]["entries"] == 13
    assert listed[0]["size"] == places_in(home, "agent:default:newer").transcript.stat().st_size
    assert listed[0]["role"] == "assistant"
    assert run(["sessions"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 3
    assert rows[1].endswith("question")
    assert listed[0]["text"].startswith("second answer")


def test_log_shows_only_the_kinds_and_the_turn_that_are_asked_for(
    home: Path, capsys: Capture
) -> None:
    transcript = transcript_in(home)
    for number in range(3):
        say(transcript, f"question {number}", f"answer {number}")
    assert run(["log", "--json", "-k", "user_message", "-k", "assistant_message", "-t", "2"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in shown] == ["question 1", "answer 1"]
    assert run(["log", "--kind", "user_message", "--tail", "1"]) == 0
    out = capsys.readouterr().out
    assert "question 2" in out
    assert "question 1" not in out
    assert run(["log", "--kind", "user_mesage"]) == 2
    assert "Did you mean user_message?" in capsys.readouterr().err


def test_a_session_with_a_broken_end_is_listed_as_what_it_is(home: Path, capsys: Capture) -> None:
    say(transcript_in(home), "question", "answer")
    places_in(home).transcript.write_bytes(b"garbage\n" * 20)
    run(["sessions", "--json"])
    (listed,) = json.loads(capsys.readouterr().out)["sessions"]
    assert listed["readable"] is False
    run(["sessions"])
    assert "mindstone verify -s agent:default:main" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (["/clear", "<command-name>/model</command-name>", "fix the parser"], "fix the parser"),
        (["<system-reminder>a\nb</system-reminder>\nadd a test"], "add a test"),
        (["/etc/hosts is wrong"], "/etc/hosts is wrong"),
        (["/clear"], "/clear"),
    ],
)
def test_a_title_is_what_was_asked_and_no_command(
    home: Path, capsys: Capture, said: list[str], title: str
) -> None:
    transcript = transcript_in(home)
    for each in said:
        say(transcript, each, "ok")
    assert run(["sessions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"][0]["title"] == title


def test_folders_that_no_name_leads_to_are_not_sessions(home: Path, capsys: Capture) -> None:
    say(transcript_in(home), "question", "answer")
    folder = places_in(home).folder
    for stray in ("Main", "=zzz", "%ff", "a b", "%6dain", ".hidden"):
        shutil.copytree(folder, folder.with_name(stray))
    run(["sessions", "--json"])
    assert len(json.loads(capsys.readouterr().out)["sessions"]) == 1


def test_log_shows_what_was_said_and_done_in_order(home: Path, capsys: Capture) -> None:
    use_tool(transcript_in(home), "what is in it?", "a secret", "a secret, it seems")
    assert run(["log"]) == 0
    shown = capsys.readouterr().out
    parts = ("what is in it?", "read: notes.txt, read", "it seems")
    assert sorted(parts, key=shown.index) == list(parts)


def test_log_tail_is_the_last_lines_and_json_is_the_lines_themselves(
    home: Path, capsys: Capture
) -> None:
    transcript = transcript_in(home)
    for number in range(5):
        say(transcript, f"question {number}", f"answer {number}")
    assert run(["log", "--tail", "3", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    raw = places_in(home).transcript.read_text().splitlines()
    assert lines == raw[-3:]
    assert run(["log", "--tail", "0", "--json"]) == 0
    assert capsys.readouterr().out == ""


def test_log_passes_over_damage_and_says_so(home: Path, capsys: Capture) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"rubbish\n", *lines[3:]]))
    assert run(["log"]) == 0
    said = capsys.readouterr()
    assert "Unreadable" in said.out
    assert "answer" in said.out
    assert "mindstone verify" in said.err


def test_verify_says_ok_or_names_the_line_and_exits_1(home: Path, capsys: Capture) -> None:
    transcript = transcript_in(home)
    assert run(["verify"]) == 0
    assert " 1 line, head " in capsys.readouterr().out
    say(transcript, "question", "answer")
    assert run(["verify", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict == {
        "session": "agent:default:main",
        "ok": True,
        "entries": 5,
        "head": {"seq": transcript.head.seq, "hash": transcript.head.hash},
        "problems": [],
    }
    path = transcript.places.transcript
    path.write_bytes(path.read_bytes().replace(b"question", b"Question"))
    assert run(["verify"]) == 1
    assert "line 2" in capsys.readouterr().out
    assert run(["verify", "--json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert set(problem) == {"line", "offset", "kind", "detail"}


def test_verify_prints_json_even_when_the_header_is_unreadable(home: Path, capsys: Capture) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    for content in (b"", b"\x00" * 50, b"rubbish\n" + path.read_bytes(), None):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        assert run(["verify", "--json"]) == 1
        verdict = json.loads(capsys.readouterr().out)
        assert verdict["ok"] is False
        assert verdict["problems"][0]["line"] == 0
        path.write_bytes(b"")


def test_verify_all_takes_every_session(home: Path, capsys: Capture) -> None:
    for name in ("one", "two", "three"):
        say(transcript_in(home, name), "question", "answer")
    bad = places_in(home, "two").transcript
    bad.write_bytes(bad.read_bytes()[:-3])
    assert run(["verify", "--all", "--json"]) == 1
    verdicts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {verdict["session"]: verdict["ok"] for verdict in verdicts} == {
        "agent:default:one": True,
        "agent:default:two": False,
        "agent:default:three": True,
    }


def test_verify_compares_with_an_anchor(home: Path, capsys: Capture) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    head = transcript.head
    assert run(["verify", "--anchor", f"{head.seq}:{head.hash}"]) == 0
    assert run(["verify", "--anchor", f"{head.seq + 1}:{head.hash}"]) == 1
    assert run(["verify", "--anchor", "nonsense"]) == 2
    assert "is not an anchor" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_jq_reads_exactly_the_lines_that_we_read(home: Path) -> None:
    transcript = transcript_in(home)
    use_tool(transcript, "ünï\u2028cödé \x00 \ud800 \x7f \x9b 😀", "\\u0000\n\t", "done")
    transcript.append(UserMessage(text="x" * 3_000_000), turn=2)
    path = transcript.places.transcript
    parsed = subprocess.run(["jq", "-c", "-s", ".", path], capture_output=True, check=True)
    ours = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert json.loads(parsed.stdout) == ours
    assert [item["seq"] for item in ours] == list(range(len(ours)))


def test_an_import_counts_what_it_blacked_out_and_log_shows_where(
    tmp_path: Path, capsys: Capture
) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    rows = [
        {"role": "user", "content": f"The token is\n{token} and nothing else."},
        {"role": "assistant", "content": "I will not repeat it."},
    ]
    source = tmp_path / "talk.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["import", str(source), "--session", "agent:default:taken", "--no-wait"]) == 0
    said = capsys.readouterr()
    assert "1 secret blacked out (line " in said.err + said.out
    assert run(["log", "--session", "agent:default:taken", "--redacted"]) == 0
    shown = capsys.readouterr().out
    assert "user_message  github-token:" in shown
    assert "    2: [redacted:github-token:" in shown
    assert token not in shown
    assert run(["log", "--session", "agent:default:taken", "--redacted", "--json"]) == 0
    place = json.loads(capsys.readouterr().out)
    assert (place["turn"], place["line"]) == (1, 2)
