"""The resident: who is let in, who is not, and that there is one of it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from mindstone_tui import api
from mindstone_tui.core.errors import UsageError
from mindstone_tui.servers.peer import Peer, PeerError
from mindstone_tui.servers.resident import (
    Listening,
    Resident,
    TokenFile,
    ask,
    listening,
    patient_protocol,
)
from tests.cli.program import ROOT, mindstone
from tests.core.session.stage import check_history
from tests.servers.residence import PATIENCE, Residence, residing

CHAT = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}


async def raw(served: Residence, text: bytes) -> bytes:
    """What a client gets that speaks HTTP by hand."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(text)
    await writer.drain()
    async with asyncio.timeout(PATIENCE):
        answer = await reader.read()
    writer.close()
    return answer


def log_of(served: Residence) -> str:
    return Path(served.told.token).with_name("serve.log").read_text()


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({"authorization": ""}, 401, "missing"),
        ({"authorization": "Bearer wrong"}, 401, "wrong"),
        ({"authorization": "", "x-api-key": "wrong"}, 401, "wrong"),
        ({"origin": "http://evil.example"}, 403, "other origins"),
        ({"origin": "null"}, 403, "other origins"),
        ({"host": "evil.example"}, 403, "host is not served"),
        ({"host": "evil.example:80"}, 403, "host is not served"),
        ({"sec-fetch-site": "cross-site"}, 403, "other sites"),
    ],
)
async def test_whoever_may_not_ask_is_refused_and_it_is_logged(
    home: Path, tmp_path: Path, headers: dict[str, str], status: int, said: str
) -> None:
    async with residing(home, tmp_path) as served, served.client(headers=headers) as client:
        for answer in (
            await client.post("/v1/chat/completions", json=CHAT),
            await client.get("/metrics"),
        ):
            assert answer.status_code == status
            assert said in answer.json()["error"]["message"]
        assert f"refused {status} /v1/chat/completions" in log_of(served)
        assert not list(served.home.places.sessions())


async def test_a_form_of_another_site_goes_nowhere(home: Path, tmp_path: Path) -> None:
    async with (
        residing(home, tmp_path) as served,
        httpx.AsyncClient(base_url=served.url) as browser,
    ):
        answer = await browser.post(
            "/v1/chat/completions",
            content=json.dumps(CHAT),
            headers={"content-type": "text/plain", "origin": "https://evil.example"},
        )
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
        preflight = await browser.options(
            "/v1/chat/completions",
            headers={"origin": "https://evil.example", "access-control-request-method": "POST"},
        )
        assert preflight.status_code == 403
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/state/serve-token",
        "/page.js/../../serve-token",
        "//etc/passwd",
        "/v1/../state/serve-token",
        "/\x00",
        "/v1/sessions/..%2f..%2f",
    ],
)
async def test_no_path_leads_to_a_file(home: Path, tmp_path: Path, path: str) -> None:
    async with residing(home, tmp_path) as served:
        request = (
            f"GET {path} HTTP/1.1\r\nhost: {served.url.removeprefix('http://')}\r\n"
            f"authorization: Bearer {served.token}\r\nconnection: close\r\n\r\n"
        )
        answer = await raw(served, request.encode())
        assert answer.split()[1] in (b"404", b"400")
        assert served.token.encode() not in answer
        assert b"root:" not in answer


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path, settings="[serve]\nbody_bytes = 100000\n") as served:
        head = (
            f"POST /v1/messages HTTP/1.1\r\nhost: {served.url.removeprefix('http://')}\r\n"
            f"authorization: Bearer {served.token}\r\n"
        )
        told = await raw(served, f"{head}content-length: 104857600\r\n\r\n".encode())
        assert told.split()[1] == b"413"
        chunk = (b"20000\r\n" + b"x" * 0x20000 + b"\r\n") * 20
        counted = await raw(served, f"{head}transfer-encoding: chunked\r\n\r\n".encode() + chunk)
        assert counted.split()[1] == b"413"
        async with served.client() as client:
            assert (await client.post("/v1/messages", content=b"{")).status_code == 400
            assert (await client.post("/v1/messages", content=b"[" * 50_000)).status_code == 400
            assert (await client.get("/health")).json()["ok"]


async def test_a_client_that_dawdles_is_let_go(home: Path, tmp_path: Path) -> None:
    async with residing(home, tmp_path, settings="[serve]\nbody_seconds = 0.2\n") as served:
        host = served.url.removeprefix("http://")
        half = f"POST /v1/messages HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {served.token}"
        assert (await raw(served, half.encode())).split()[1] == b"408"
        body = f"{half}\r\ncontent-length: 50\r\n\r\n{{".encode()
        assert (await raw(served, body)).split()[1] == b"408"
        assert (await raw(served, b"")).split()[1] == b"408"


async def test_health_is_open_and_says_nothing_and_the_figures_need_the_token(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, served.client() as client:
        async with httpx.AsyncClient(base_url=served.url) as stranger:
            health = await stranger.get("/health")
            assert set(health.json()) == {"ok", "program", "version"}
            assert (await stranger.get("/metrics")).status_code == 401
        await client.post("/v1/chat/completions", json=CHAT)
        figures = (await client.get("/metrics")).text
        assert 'mindstone_requests_total{path="/v1/chat/completions",status="200"} 1' in figures
        assert 'mindstone_refused_total{status="401"} 1' in figures


async def test_the_files_are_the_owners_alone_and_there_is_one_resident(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served:
        for path in (served.told.token, served.told.socket):
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600  # noqa: ASYNC240
        with open(served.told.token) as file:  # noqa: ASYNC230, PTH123
            assert file.read() == served.token
        with pytest.raises(UsageError, match="already"):
            await Resident(api.Home(home)).run(port=0, http=True, ready=lambda told: None)
        found = listening(served.home.places)
        assert found == served.told
        assert (await ask(served.told, "status", {}))["url"] == served.url
        assert (await ask(served.told, "sessions", {}))["sessions"] == []
        with pytest.raises(Exception, match="no method nonsense"):
            await ask(served.told, "nonsense", {})
    assert listening(served.home.places) is None
    assert "serve.sock" not in os.listdir(home / "state")  # noqa: PTH208


async def test_history_can_be_asked_over_the_socket(home: Path, tmp_path: Path) -> None:
    async with residing(home, tmp_path) as served, served.client() as client:
        await client.post("/v1/chat/completions", json=CHAT)
        found = await ask(served.told, "recall", {"query": "hello", "limit": 3}, PATIENCE)
        assert found["hits"][0]["hash"]
        assert (await ask(served.told, "search", {"query": "8443"}, PATIENCE))["hits"]


async def test_a_query_of_megabytes_is_refused(home: Path, tmp_path: Path) -> None:
    async with residing(home, tmp_path) as served:
        with pytest.raises(PeerError, match="longer than 2,000 characters"):
            await ask(served.told, "search", {"query": "a " * 1_000_000})


async def test_of_one_client_only_so_much_waits_unanswered() -> None:
    ours, theirs = socket.socketpair()
    begun, may_end = 0, asyncio.Event()

    async def slow(params: dict[str, Any]) -> bool:
        nonlocal begun
        begun += 1
        return await may_end.wait()

    reader, writer = await asyncio.open_connection(sock=ours)
    peer = Peer(reader, writer, {"slow": slow}, report_bug=lambda error: None)
    hearing = asyncio.create_task(peer.listen())
    client, asking = await asyncio.open_connection(sock=theirs)
    for _ in range(2_000):
        asking.write(b'{"jsonrpc":"2.0","id":1,"method":"slow"}\n')
    seen = -1
    while begun > seen or begun < 1_000:
        seen = begun
        for _ in range(50):
            await asyncio.sleep(0)
    assert begun == 1_000
    may_end.set()
    async with asyncio.timeout(PATIENCE):
        for _ in range(2_000):
            assert b"true" in await client.readline()
    asking.close()
    await hearing
    writer.close()


def test_a_token_that_others_could_read_is_replaced(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "token")
    token = file.read()
    assert file.read() == token
    file.path.chmod(0o644)
    assert file.read() != token


async def test_a_port_that_is_taken_is_said_so(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="is not free"):
            await Resident(api.Home(home)).run(
                port=taken.getsockname()[1], http=True, ready=lambda told: None
            )


def _until_killed(url: str, headers: dict[str, str], pid: int) -> bytes:
    """What a client hears of a turn in which the resident is killed."""
    heard = b""
    body = {**CHAT, "stream": True}
    with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
        try:
            with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                for piece in answer.iter_raw():
                    heard += piece
                    if b'"content":"and' in heard:
                        os.kill(pid, signal.SIGKILL)
        except httpx.HTTPError:
            return heard
    pytest.fail("the client was not told")


def test_it_starts_in_the_background_answers_dies_and_starts_again(
    home: Path, tmp_path: Path
) -> None:
    """Killed in a turn: the client hears of it, history is whole, a new one starts."""
    path = tmp_path / "script.jsonl"
    path.write_text(json.dumps({"text": "and so on " * 60, "delay_ms": 60_000}) + "\n")
    home.mkdir()
    (home / "config.toml").write_text(f'[models]\ndefault = "scripted/{path}"\n')
    try:
        begun = mindstone("serve", "--background", "--port", "0", "--json")
        assert begun.returncode == 0, begun.stderr
        told = json.loads(begun.stdout)
        token = Path(told["token"]).read_text()
        headers = {"authorization": f"Bearer {token}"}
        heard = _until_killed(told["url"], headers, told["pid"])
        assert heard
        path.write_text('{"text": "Back."}\n')
        assert mindstone("serve", "--status").returncode == 1
        again = json.loads(mindstone("serve", "--background", "--port", "0", "--json").stdout)
        assert again["pid"] != told["pid"]
        url = f"{again['url']}/v1/chat/completions"
        reply = httpx.post(url, json=CHAT, headers=headers, timeout=PATIENCE).json()
        assert reply["choices"][0]["message"]["content"] == "Back."
        check_history(api.Home(home).places.session(api.Home(home).key("")))
        status = mindstone("serve", "--status", "--json")
        assert json.loads(status.stdout)["running"]
    finally:
        stopped = mindstone("serve", "--stop")
    assert stopped.returncode == 0
    assert mindstone("serve", "--stop").stdout == "No server is running for this home.\n"


@pytest.mark.thorough
def test_whose_home_or_program_is_gone_ends_by_itself(tmp_path: Path) -> None:
    residents = {}
    try:
        for gone in ("home", "program"):
            program, home = tmp_path / gone / "program", tmp_path / gone / "home"
            shutil.copytree(
                ROOT / "mindstone_tui",
                program / "mindstone_tui",
                ignore=shutil.ignore_patterns("minilm"),
            )
            residents[gone] = resident = subprocess.Popen(
                [sys.executable, "-P", "-m", "mindstone_tui", "serve", "--on-demand", "--json"],
                env={"PATH": os.defpath, "PYTHONPATH": str(program), "MINDSTONE_HOME": str(home)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert resident.stdout is not None
            assert json.loads(resident.stdout.readline())["pid"] == resident.pid
            shutil.rmtree(tmp_path / gone / gone)
        for resident in residents.values():  # both wait at once for their next look
            resident.wait(PATIENCE)
        assert not (tmp_path / "home" / "home").exists()
    finally:
        for resident in residents.values():
            resident.kill()
            resident.communicate()


@pytest.mark.parametrize("then", ["gone", "made anew by another"])
async def test_whose_home_is_gone_ends_within_a_minute_of_its_clock(home: Path, then: str) -> None:
    passed = 0.0

    async def pause(seconds: float) -> None:
        nonlocal passed
        passed += seconds
        if passed == 600:  # it stays as long as its home does
            shutil.rmtree(home)
            if then != "gone":
                (home / "state").mkdir(parents=True)
                (home / "state" / "serve.lock").touch()
        await asyncio.sleep(0)

    resident = Resident(api.Home(home), pause)
    await resident.run(port=0, http=False, ready=lambda told: None)
    assert 600 <= passed < 660


def test_asking_for_two_things_at_once_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mindstone_tui", "serve", "--status", "--stop"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert "Choose one of" in done.stderr


async def test_whoever_is_told_where_it_listens_can_connect_at_once(home: Path) -> None:
    resident = Resident(api.Home(home))
    connected: list[int] = []

    def told(listening: Listening) -> None:
        port = int(listening.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as line:
            connected.append(line.getpeername()[1])
        resident.stop()

    await resident.run(port=0, http=True, ready=told)
    assert len(connected) == 1


async def test_the_page_of_a_resident_that_was_started_in_a_project_begins_with_its_session(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MINDSTONE_SESSION__DEFAULT")
    inside = tmp_path / "Ice API" / "src"
    inside.mkdir(parents=True)
    (tmp_path / "Ice API" / ".git").mkdir()
    monkeypatch.chdir(inside)
    async with residing(home, tmp_path) as served, served.client() as client:
        begun = (await client.get("/page/history", params={"session": ""})).json()
        listed = (await client.get("/page/sessions")).json()
        reply = await client.post("/v1/chat/completions", json=CHAT)
    assert (begun["session"], listed["default"]) == ("agent:default:ice-api",) * 2
    # Programs are not where the resident was started: they say where they are.
    assert reply.headers["x-mindstone-session"] == "agent:default:main"


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /health HTTP/1.1\r\nHost: x",
        b"GET /health HTTP/1.1\r\nHost: HERE\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: HERE\r\nContent-Length: 9\r\n\r\nx",
        b"POST /v1/messages HTTP/1.1\r\nHost: HERE\r\nContent-Length: 9\r\n\r\nx",
        b"",
    ],
    ids=["half a header", "silent after a request", "half a body", "no token", "nothing"],
)
async def test_silent_clients_leave_room_for_others(
    home: Path, tmp_path: Path, begun: bytes
) -> None:
    async with residing(home, tmp_path, settings="[serve]\nclients = 8\n") as served:
        port = int(served.url.rpartition(":")[2])
        sent = begun.replace(b"HERE", f"127.0.0.1:{port}".encode())
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        for _, writer in silent:
            writer.write(sent)
            await writer.drain()
        async with served.client() as client:
            reply = await client.get("/health")
        for _, writer in silent:
            writer.close()
    assert reply.status_code == 200


class Deaf(asyncio.Transport):
    """A connection whose other end takes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = asyncio.Event()
        self.closing = False

    def write(self, data: object) -> None:
        del data

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True
        self.aborted.set()


ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def deaf(
    protocol: Any, said: bytes = ASKED, others: ServerState | None = None
) -> tuple[Any, Deaf]:
    async def silence(scope: Any, receive: Any, send: Any) -> None:
        del scope, send
        while (await receive())["type"] != "http.disconnect":
            pass

    config = uvicorn.Config(silence, interface="asgi3", log_config=None)
    made = protocol(config, others or ServerState(), {})
    made.connection_made(end := Deaf())
    made.data_received(said)
    made.pause_writing()
    return made, end


async def test_who_takes_no_answer_is_let_go_when_its_time_is_up_or_others_need_the_room() -> None:
    crowded, reading, others = patient_protocol(3600, 5), patient_protocol(3600, 2), ServerState()
    made = [await deaf(crowded, others=others) for _ in range(3)]
    had_room = not made[0][1].aborted.is_set()
    made += [await deaf(patient_protocol(0.01, 4)), await deaf(patient_protocol(3600, 4))]
    made += [await deaf(reading)]
    made[5][0].resume_writing()
    made += [await deaf(reading), await deaf(crowded, others=others)]
    try:
        assert had_room
        assert (made[0][1].aborted.is_set(), made[2][1].aborted.is_set()) == (True, False)
        assert not made[5][1].aborted.is_set()
        made[4][0].shutdown()
        async with asyncio.timeout(10):
            await made[3][1].aborted.wait()
            await made[4][1].aborted.wait()
    finally:
        for each, _ in made:
            each.connection_lost(None)  # so that what answers them ends
        tasks = [task for each, _ in made for task in each.server_state.tasks]
        await asyncio.wait(tasks)


@pytest.mark.parametrize(
    ("piece", "refused"),
    [(b"1\r\n \r\n", True), (b"01;x=y\r\n \r\n", True), (b"100\r\n%s\r\n" % (b" " * 256), False)],
)
async def test_a_body_of_crumbs_is_not_taken_apart(piece: bytes, refused: bool) -> None:
    begun = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    protocol, end = await deaf(patient_protocol(3600, 2), begun + piece * 100)
    assert not end.closing
    protocol.data_received(piece * 1_000)
    assert end.closing == refused
    protocol.connection_lost(None)


@pytest.mark.thorough
async def test_a_body_of_very_many_values_is_refused_in_a_sentence(
    home: Path, tmp_path: Path
) -> None:
    bodies = (b'{"a":[' + b"{}," * 300_000 + b"1]}", b'{"a":[' + b'"",' * 900_000 + b"1]}")
    async with residing(home, tmp_path) as served, served.client() as client:
        for body in bodies:
            reply = await client.post("/v1/chat/completions", content=body)
            assert (reply.status_code, "200,000 values" in reply.text) == (400, True)
        long = {**CHAT, "messages": [{"role": "user", "content": '{"a": [1, 2], \\"' * 60_000}]}
        reply = await client.post("/v1/chat/completions", json=long)
        broken = await client.post("/v1/chat/completions", content=b'{"a":"\xff"}')
    assert (reply.status_code, broken.status_code) == (200, 400)
