"""Which session is meant in which folder, when nobody names one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindstone_tui.api import Home, connect
from mindstone_tui.cli.main import run
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events import Noticed
from mindstone_tui.servers.lookup import Lookup
from tests.builders import places_in, say, transcript_in
from tests.cli.terminal import OnTerminal

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, a project; no session is named in the settings."""
    monkeypatch.delenv("MINDSTONE_SESSION__DEFAULT")
    folder = tmp_path / "Ice API"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    monkeypatch.chdir(folder)
    return folder


def said_in(capsys: Capture) -> list[str]:
    """The messages of the session that is meant here."""
    capsys.readouterr()
    assert run(["log", "--json", "-k", "user_message"]) == 0
    return [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]


def test_a_project_goes_on_with_its_last_session_wherever_in_it_one_stands(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    assert run(["run", "-q", "--model", "local/guide", "first"]) == 0
    monkeypatch.chdir(repository / "src")
    assert run(["run", "-q", "--model", "local/guide", "second"]) == 0
    assert said_in(capsys) == ["first", "second"]
    assert run(["run", "-q", "-s", "other", "--model", "local/guide", "elsewhere"]) == 0
    assert said_in(capsys) == ["elsewhere"]
    monkeypatch.chdir(tmp_path)
    assert run(["log"]) == 1
    assert "agent:default:main" in capsys.readouterr().err


def test_a_folder_that_became_a_link_in_circles_hides_no_session(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(repository / "src")
    assert run(["run", "-q", "-s", "one", "--model", "local/guide", "first"]) == 0
    monkeypatch.chdir(repository)
    (repository / "src").rmdir()
    (repository / "src").symlink_to("src")
    capsys.readouterr()
    assert run(["sessions"]) == 0
    assert "one" in capsys.readouterr().out
    assert run(["blame", "src/a.py"]) == 2
    blamed = Lookup(Home()).blame
    with pytest.raises(UsageError):
        blamed(str(repository / "src" / "a.py"))


def test_two_projects_of_one_name_have_sessions_of_their_own(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    twin = tmp_path / "twins" / "ice api"
    twin.mkdir(parents=True)
    assert run(["task", "start", "One"]) == 0
    monkeypatch.chdir(twin)
    assert run(["task", "start", "Two"]) == 0
    assert run(["sessions"]) == 0
    rows = [row.split()[0] for row in capsys.readouterr().out.splitlines() if row.strip()]
    listed = [row for row in rows if row.startswith(("agent:", "~"))]
    assert listed == ["~/twins/ice", "agent:default:ice-api-2", "~/Ice", "agent:default:ice-api"]


def test_an_older_session_of_no_known_folder_keeps_its_name_and_is_not_taken_over(
    repository: Path, home: Path, capsys: Capture
) -> None:
    say(transcript_in(home), "said long ago", "indeed")
    assert run(["run", "-q", "--model", "local/guide", "new here"]) == 0
    assert said_in(capsys) == ["new here"]
    assert run(["log", "-s", "main", "--json", "-k", "user_message"]) == 0
    assert "said long ago" in capsys.readouterr().out
    assert places_in(home, "agent:default:ice-api").transcript.exists()


def test_what_another_machine_said_beside_a_session_is_not_the_one_that_goes_on_here(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path, home: Path
) -> None:
    (stick := tmp_path / "stick").mkdir()
    sync, say_here = ["sync", str(stick)], ["run", "-q", "--model", "local/guide"]
    assert run([*say_here, "together"]) == run(sync) == 0
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "elsewhere"))
    assert run(sync) == run([*say_here, "said there"]) == run(sync) == 0
    monkeypatch.setenv("MINDSTONE_HOME", str(home))
    assert run([*say_here, "said here"]) == run(sync) == 0
    assert said_in(capsys) == ["together", "said here"]
    fork = next(it.key.main for it in Home().places.sessions() if "@" in it.key.main)
    assert run([*say_here, "-s", fork, "I go on there"]) == 0
    assert said_in(capsys) == ["together", "said there", "I go on there"]


def test_a_fork_is_the_projects_last_session_and_is_titled_as_one(
    repository: Path, capsys: Capture
) -> None:
    assert run(["run", "-q", "--model", "local/guide", "where do we begin"]) == 0
    assert run(["run", "-q", "/fork side"]) == 0
    capsys.readouterr()
    assert run(["sessions", "--json"]) == 0
    listed = {one["main"]: one for one in json.loads(capsys.readouterr().out)["sessions"]}
    assert listed["side"]["title"] == "fork of ice-api: where do we begin"
    assert listed["side"]["project"] == listed["ice-api"]["project"] == str(repository)
    assert run(["run", "-q", "-s", "side", "--model", "local/guide", "and on the side"]) == 0
    assert said_in(capsys) == ["where do we begin", "and on the side"]
    assert run(["sessions", "--json"]) == 0
    listed = {one["main"]: one for one in json.loads(capsys.readouterr().out)["sessions"]}
    assert listed["side"]["title"] == "fork of ice-api: and on the side"


def test_a_fork_of_a_session_without_a_word_is_titled_by_it_alone(
    repository: Path, capsys: Capture
) -> None:
    assert run(["run", "-q", "--model", "local/guide", "begin"]) == 0
    assert run(["run", "-q", "/rewind before turn 1"]) == 0
    assert run(["run", "-q", "/fork side"]) == 0
    capsys.readouterr()
    assert run(["sessions", "--json"]) == 0
    titles = [one["title"] for one in json.loads(capsys.readouterr().out)["sessions"]]
    assert "fork of ice-api" in titles


async def test_whoever_opens_a_project_with_several_sessions_is_offered_the_others(
    repository: Path,
) -> None:
    for name in ("one", "two"):
        conversation = await connect(name, cwd=repository, model="local/guide")
        assert [each async for each in conversation.ask("hi")]
        await conversation.close()
    again = await connect(cwd=repository, model="local/guide")
    assert again.session == "agent:default:two"
    told = (each.message async for each in again.events() if isinstance(each, Noticed))
    assert await anext(told) == "This project has 1 other session: one. /sessions lists them."
    await again.close()


async def test_a_fork_that_was_opened_is_the_projects_last_before_anything_is_said_in_it(
    repository: Path,
) -> None:
    first = await connect(cwd=repository, model="local/guide")
    assert [each async for each in first.ask("hi")]
    assert [each async for each in first.ask("/fork side")]
    await first.close()
    assert Home(folder=repository).key("").main == "ice-api"
    await (await connect("side", cwd=repository)).close()
    assert Home(folder=repository).key("").main == "side"


@pytest.mark.thorough
def test_the_app_offers_the_list_where_a_project_has_several_sessions(repository: Path) -> None:
    for name, text in (("one", "first"), ("one", "said in one"), ("two", "said in two")):
        assert run(["run", "-q", "-s", name, "--model", "local/guide", text]) == 0
    terminal = OnTerminal(None)
    terminal.until(b"Sessions of ~/Ice API")
    terminal.until(b"2 sessions")
    terminal.type(b"\x1b[B\r")
    terminal.until(b"said in one")
    terminal.type(b"\x11")
    assert terminal.finish() == 0
    terminal.close()
    assert b"-s one" in terminal.seen
    named = OnTerminal(None, "-s", "two")
    named.until(b"said in two")
    named.type(b"\x11")
    assert named.finish() == 0
    named.close()
    assert b"Sessions of" not in named.seen
