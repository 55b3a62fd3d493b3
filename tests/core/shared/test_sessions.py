"""Sessions on a history server, through the front door: two homes, forks, passwords, commands."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui import api
from mindstone_tui.cli.main import run as main
from mindstone_tui.core.config import load
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.errors import EntryNotSaved
from mindstone_tui.core.events import (
    Answer,
    EntryAppeared,
    MessageReturned,
    Noticed,
    NotSaved,
    SessionReady,
    ToolAsked,
    TurnEnded,
    TurnStarted,
)
from mindstone_tui.core.library.lease import SharedLease
from mindstone_tui.core.library.take_over import Importer
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import Transcript, verify
from mindstone_tui.core.transcript.directory import list_sessions
from tests.core.session.stage import calls, on_stage, script
from tests.core.shared.proxy import CuttingProxy
from tests.postgres import PostgresServer

AWAY = "postgresql://me:sehr-geheim-99@127.0.0.1:1/none"


def home_of(folder: Path, url: str, **more: str) -> api.Home:
    """A machine of its own that keeps its sessions on a server."""
    environ = {
        "MINDSTONE_HOME": str(folder),
        "MINDSTONE_HISTORY__URL": url,
        "MINDSTONE_RECALL__BACKGROUND": "false",
        **more,
    }
    return api.Home(environ=environ)


def transcript(home: api.Home, session: str = "") -> bytes:
    return home.places.session(home.key(session)).transcript.read_bytes()


async def ask(home: api.Home, text: str, session: str = "") -> list[object]:
    """One turn; everything that was announced."""
    heard: list[object] = []
    async with api.open_conversation(session, home=home) as conversation:
        async for event in conversation.ask(text):
            heard.append(event)
    return heard


async def heard_of(talk: api.Conversation, text: str) -> list[object]:
    """One turn of an open session, with all that is written after it; what was announced."""
    heard: list[object] = [event async for event in talk.ask(text)]
    await talk.settled()
    return heard


async def test_a_session_goes_on_on_another_machine(url: str, tmp_path: Path) -> None:
    here, there = home_of(tmp_path / "a", url), home_of(tmp_path / "b", url)
    for number in range(2):
        for home in (here, there):
            heard = await ask(home, f"turn {number} of {home.places.data.name}")
            assert isinstance(heard[-1], TurnEnded)
            assert heard[-1].ending == "done"
    assert api.verify(home=here).ok
    assert transcript(here) == transcript(there)
    assert (
        sum(line.kind == "turn_started" for line in api.log(home=there) if hasattr(line, "kind"))
        == 4
    )


async def test_an_open_session_shows_what_another_machine_does(url: str, tmp_path: Path) -> None:
    here, there = home_of(tmp_path / "a", url), home_of(tmp_path / "b", url)
    watching = await api.connect(home=here)
    await ask(there, "from the other machine")
    heard: list[str] = []
    try:
        async for event in watching.events():
            heard += [str(event)] if isinstance(event, EntryAppeared) else []
            if any("from the other machine" in one for one in heard):
                break
    finally:
        await watching.close()
    assert "from the other machine" in heard[-1]


async def test_a_fork_hears_what_another_machine_took_back_where_it_comes_from(
    url: str, tmp_path: Path
) -> None:
    (work := tmp_path / "work").mkdir()
    writes = calls(("write", {"path": "a.txt", "content": "x"}))
    more: dict[str, Any] = {
        "environ": {"MINDSTONE_HISTORY__URL": url},
        "cwd": work,
        "approve": "auto-edit",
        "model": script(tmp_path, writes, {"text": "So."}, loop=True),
    }
    child, here, there = SessionKey.parse("child"), tmp_path / "a", tmp_path / "b"
    async with on_stage(here, **more) as stage:
        await stage.say("write it")
        assert (await stage.run("/fork child"))[0].ok
    async with on_stage(there, **more):
        pass  # its copy is on both machines
    async with on_stage(here, **more) as stage:
        assert (await stage.run("/undo"))[0].ok
    async with on_stage(there, key=child, **more) as fork:
        await fork.run("/title the fork")  # whoever comes next hears of it
        assert "changes to files taken back by" in (await fork.run("/why turn 1"))[1]


async def test_while_the_server_is_away_no_turn_is_taken(url: str, tmp_path: Path) -> None:
    here = home_of(tmp_path / "a", url)
    await ask(here, "saved")
    before = transcript(here)
    with pytest.raises(EntryNotSaved, match="NOT SAVED") as told:
        await ask(home_of(tmp_path / "a", AWAY), "not saved")
    assert "geheim" not in told.value.sentence
    assert transcript(here) == before


@pytest.mark.parametrize("offline", ["refuse", "fork"])
async def test_a_session_without_a_copy_is_not_begun_while_the_server_is_away(
    tmp_path: Path, offline: str
) -> None:
    home = home_of(tmp_path / "a", AWAY, MINDSTONE_HISTORY__OFFLINE=offline)
    with pytest.raises(EntryNotSaved, match="NOT SAVED") as told:
        await ask(home, "hello")
    assert "no copy of the session" in told.value.sentence
    assert list_sessions(home.places) == []


async def test_a_fork_goes_on_here_and_is_put_on_the_server_later(url: str, tmp_path: Path) -> None:
    here, there = home_of(tmp_path / "a", url), home_of(tmp_path / "b", url)
    await ask(here, "before")
    before = transcript(here)
    offline = home_of(tmp_path / "a", AWAY, MINDSTONE_HISTORY__OFFLINE="fork")
    for text in ("while away", "still away"):
        heard = await ask(offline, text)
        assert any(isinstance(each, Noticed) and "fork" in each.message for each in heard)
        assert isinstance(heard[-1], TurnEnded)
    assert transcript(here) == before
    head = api.verify(home=here).head
    assert head is not None
    fork = f"main@{head.hash[:12]}"
    await ask(here, "back again", fork)
    await ask(there, "and elsewhere", fork)
    assert b"still away" in transcript(there, fork)
    assert verify(there.places.session(there.key(fork))).ok
    assert transcript(here) == before


async def test_a_fork_is_put_on_the_server_by_the_next_session_that_is_opened(
    url: str, tmp_path: Path
) -> None:
    here, there = home_of(tmp_path / "a", url), home_of(tmp_path / "b", url)
    await ask(here, "before")
    offline = home_of(tmp_path / "a", AWAY, MINDSTONE_HISTORY__OFFLINE="fork")
    await ask(offline, "while away")
    head = api.verify(home=here).head
    assert head is not None
    fork = f"main@{head.hash[:12]}"
    heard = await ask(here, "another", "elsewhere")
    greeted = [each.message for each in heard if isinstance(each, Noticed)]
    assert [fork in each for each in greeted] == [True]
    there.fetch_news(there.key(fork))
    await ask(there, "and there", fork)
    assert b"while away" in transcript(there, fork)
    heard = await ask(here, "again", "elsewhere")
    assert not any(isinstance(each, Noticed) and fork in each.message for each in heard)


async def test_an_open_session_goes_on_in_a_fork_when_its_server_goes_away(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    with CuttingProxy(server.port) as proxy:
        through = url.replace(str(server.port), str(proxy.port))
        home = home_of(tmp_path / "a", through, MINDSTONE_HISTORY__OFFLINE="fork")
        talk = await api.connect(home=home)
        await heard_of(talk, "before")
    before = transcript(home)
    main_head = verify(home.places.session(home.key(""))).head
    assert main_head is not None
    heard = await heard_of(talk, "while away")
    fork = f"main@{main_head.hash[:12]}"
    assert talk.session == f"agent:default:{fork}"
    assert [each.session for each in heard if isinstance(each, SessionReady)] == [talk.session]
    assert not any(isinstance(each, NotSaved | MessageReturned) for each in heard)
    assert isinstance(heard[-1], TurnEnded)
    assert heard[-1].ending == "done"
    await heard_of(talk, "still away")
    await talk.close()
    assert transcript(home) == before
    back = home_of(tmp_path / "a", url)
    await ask(back, "the server is back", fork)
    there = home_of(tmp_path / "b", url)
    await ask(there, "and elsewhere", fork)
    for text in (b"before", b"while away", b"still away", b"the server is back"):
        assert text in transcript(there, fork)
    assert verify(there.places.session(there.key(fork))).ok
    there.fetch_news(there.key(""))
    assert transcript(there) == before


async def test_a_turn_that_loses_its_server_ends_and_the_next_one_is_in_a_fork(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as until_it_goes:
        proxy = until_it_goes.enter_context(CuttingProxy(server.port))
        through = url.replace(str(server.port), str(proxy.port))
        home = home_of(tmp_path / "a", through, MINDSTONE_HISTORY__OFFLINE="fork")
        talk = await api.connect(home=home)
        await heard_of(talk, "before")
        heard: list[object] = []
        async for event in talk.ask("cut off"):
            heard.append(event)
            if isinstance(event, TurnStarted):
                until_it_goes.close()
    assert any(isinstance(each, NotSaved) for each in heard)
    assert isinstance(heard[-1], TurnEnded)
    assert heard[-1].ending == "failed"
    newest = verify(home.places.session(home.key(""))).head
    assert newest is not None
    heard = await heard_of(talk, "go on")
    assert isinstance(heard[-1], TurnEnded)
    assert heard[-1].ending == "done"
    assert talk.session == f"agent:default:main@{newest.hash[:12]}"
    await talk.close()
    assert verify(home.places.session(home.key(talk.session))).ok


async def test_an_approval_that_cannot_be_kept_runs_nothing_and_ends_the_turn(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.jsonl"
    call = {"name": "shell", "arguments": {"command": f"touch {tmp_path / 'ran'}"}}
    script.write_text(json.dumps({"text": "Soon.", "tool_calls": [call]}) + "\n")
    heard: list[object] = []
    with contextlib.ExitStack() as until_it_goes:
        proxy = until_it_goes.enter_context(CuttingProxy(server.port))
        home = home_of(tmp_path / "a", url.replace(str(server.port), str(proxy.port)))
        talk = await api.connect(home=home, model=f"scripted/{script}", asks=True, approve="ask")
        async for event in talk.ask("run it"):
            heard.append(event)
            if isinstance(event, ToolAsked):
                until_it_goes.close()
                talk.answer(event.call, Answer(allowed=True))
    assert any(isinstance(each, NotSaved) for each in heard)
    assert isinstance(heard[-1], TurnEnded)
    assert heard[-1].ending == "failed"
    await talk.close()
    assert not (tmp_path / "ran").exists()


def test_the_password_is_in_no_output_and_no_file(
    server: PostgresServer,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    secret = "sehr-geheim-99"
    monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / "a"))
    monkeypatch.setenv("MINDSTONE_HISTORY__URL", url.replace("postgres@", f"postgres:{secret}@"))
    assert main(["run", "-q", f"my password is {secret}"]) == 0
    for line in (["config", "show"], ["config", "explain", "history.url"], ["doctor"]):
        main(line)
        main([*line, "--json"])
    main(["history", "status"])
    main(["log", "--json"])
    monkeypatch.setenv("MINDSTONE_HISTORY__URL", AWAY)
    assert main(["run", "-q", "away"]) == 1
    assert main(["history", "push"]) == 1
    said = capfd.readouterr()
    assert "postgresql://" in said.out
    assert secret not in said.out + said.err
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


@pytest.fixture
def mindstone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """The command line in a home: exit code, and what was printed."""

    def run(home: Path, *words: str) -> tuple[int, str]:
        monkeypatch.setenv("MINDSTONE_HOME", str(home))
        code = main(list(words))
        said = capfd.readouterr()
        return code, said.out + said.err

    return run


def test_sessions_are_pushed_pulled_and_moved(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mindstone: Callable[..., tuple[int, str]],
) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    assert mindstone(one, "run", "-q", "only here", "-s", "solo")[0] == 0
    monkeypatch.setenv("MINDSTONE_HISTORY__URL", url)
    code, said = mindstone(one, "run", "-q", "more", "-s", "solo")
    assert (code, "history push" in said) == (2, True)
    assert "only here" in mindstone(one, "history", "status")[1]
    assert mindstone(one, "history", "push", "solo")[0] == 0
    assert "same" in mindstone(one, "history", "status")[1]
    code, said = mindstone(one, "history", "status", "nobody")
    assert (code, "There is no session" in said) == (1, True)
    assert mindstone(other, "history", "pull", "--all")[0] == 0
    assert mindstone(other, "run", "-q", "from the other", "-s", "solo")[0] == 0
    assert "behind" in mindstone(one, "history", "status")[1]
    assert "from the other" in mindstone(one, "log", "-s", "solo")[1]
    assert mindstone(one, "history", "move", "solo", "--to", "files")[0] == 0
    assert mindstone(one, "run", "-q", "kept in files now", "-s", "solo")[0] == 0
    assert "ahead" in mindstone(one, "history", "status")[1]
    assert mindstone(one, "history", "move", "solo", "--to", "server")[0] == 0
    assert "kept in files now" in mindstone(other, "log", "-s", "solo")[1]
    for home in (one, other):
        assert mindstone(home, "verify", "--all")[0] == 0


def test_a_damaged_session_is_neither_pushed_nor_added_to_and_the_others_are(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mindstone: Callable[..., tuple[int, str]],
) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    for name in ("bad", "good"):
        assert mindstone(one, "run", "-q", f"heron {name}", "-s", name)[0] == 0
    file = one / "agents/default/sessions/bad/transcript.jsonl"
    sound = file.read_bytes()
    file.write_bytes(sound.replace(b"heron", b"stork"))
    monkeypatch.setenv("MINDSTONE_HISTORY__URL", url)
    code, said = mindstone(one, "history", "push", "bad", "good")
    assert (code, "damaged copy of agent:default:bad" in said) == (1, True), said
    assert mindstone(other, "history", "pull", "bad")[0] != 0
    assert mindstone(other, "history", "pull", "good")[0] == 0
    file.write_bytes(sound)
    assert mindstone(one, "history", "push", "bad")[0] == 0
    file.write_bytes(sound.replace(b"heron", b"stork"))
    code, said = mindstone(one, "history", "pull", "--all")
    assert (code, "damaged copy of agent:default:bad" in said) == (1, True), said
    assert "agent:default:good  " in said


def test_nothing_of_this_is_imported_without_a_server(tmp_path: Path) -> None:
    import subprocess
    import sys

    probe = (
        "import sys; from mindstone_tui.cli.main import run as main; main(['run', '-q', 'hello']); "
        "main(['log']); main(['sessions']); "
        "print(*sorted(name for name in sys.modules if 'psycopg' in name or '.shared' in name))"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == ""


def test_an_import_waits_for_another_machines_turn_and_then_nobody_else_has_one(
    url: str, tmp_path: Path
) -> None:
    home = home_of(tmp_path / "a", url)
    settings = load(home.places, home.environ).settings
    key = home.key("imported")
    elsewhere = home_of(tmp_path / "b", url).places.session(key)
    with (
        contextlib.closing(PostgresStore(url, timeout=20)) as store,
        contextlib.closing(Transcript(elsewhere, upstream=store.another())) as transcript,
        contextlib.closing(SharedLease(elsewhere, transcript, store, 3600)) as lease,
    ):
        assert lease.try_take()
        waited: list[SessionKey] = []
        during: list[bool] = []

        def on_busy(busy: SessionKey) -> None:
            waited.append(busy)
            transcript.append(UserMessage(text="the turn that goes on"), turn=1)
            lease.give_back()

        importer = Importer(
            home.places,
            settings,
            home.environ,
            progress=lambda what, done, all_: during.append(lease.try_take()),
            on_busy=on_busy,
        )
        file = Path(__file__).parents[2] / "fixtures" / "imports" / "claude-code.jsonl"
        (report,) = importer.take(file, key, "file")
        assert lease.try_take()
    assert waited == [key]
    assert report.added
    assert during
    assert not any(during)
    kinds = [line.kind for line in api.log(session=str(key), home=home) if isinstance(line, Line)]
    assert kinds[:2] == ["session_opened", "user_message"]
    assert kinds[-1] in ("window_carried", "context_window_pruned")
