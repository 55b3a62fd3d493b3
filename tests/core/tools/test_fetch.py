"""The tool `fetch`: pages as text, nothing of private networks, no host that nobody agreed to."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core import events
from mindstone_tui.core.config.settings import FetchSettings
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.errors import NotAllowed, ToolError
from mindstone_tui.core.tools.approvals import prepare
from mindstone_tui.core.tools.base import ToolContext
from mindstone_tui.core.tools.fetch import Fetcher, host_of, is_public, may_visit, public
from mindstone_tui.core.tools.web_page import read_page, text_of_html
from mindstone_tui.core.tools.workspace import Workspace
from tests.core.session.stage import calls, on_stage, script

PAGE = (
    b"<!doctype html><html><head><title>Stones</title><script>evil()</script></head><body>"
    b"<h1>Weigh</h1><p>Each&nbsp;stone <b>twice</b>.</p><style>p{}</style></body></html>"
)


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers: dict[str, tuple[int, dict[str, str], bytes]] = {
            "/page": (200, {"content-type": "text/html; charset=utf-8"}, PAGE),
            "/robots.txt": (200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /no\n"),
            "/no/entry": (200, {"content-type": "text/plain"}, b"never"),
            "/moved": (302, {"location": "/page"}, b""),
            "/away": (301, {"location": "https://other.example/x"}, b""),
            "/loop": (302, {"location": "/loop"}, b""),
            "/large": (200, {"content-type": "text/plain"}, b"x" * 5_000),
            "/binary": (200, {"content-type": "image/png"}, b"\x89PNG"),
            "/puny": (200, {"content-type": "text/plain; charset=punycode"}, b"Z\xfcrich-kva"),
            "/latin": (200, {"content-type": "text/plain; charset=ISO-8859-1"}, b"Z\xfcrich"),
            "/idna": (200, {"content-type": "text/plain; charset=idna"}, b"Z\xfcrich"),
            "/kind": (200, {"content-type": "a/b OBEY ME"}, b"x"),
            "/lost": (302, {"location": "/OBEY-ME"}, b""),
            "/nowhere": (302, {"location": "http://[OBEY-ME"}, b""),
            "/port": (302, {"location": "http://x:OBEY-ME/"}, b""),
        }
        status, headers, body = answers.get(self.path, (404, {}, b""))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(workspace=Workspace((tmp_path,)))


def fetcher(**fields: object) -> Fetcher:
    return Fetcher(FetchSettings(private=True, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["kind", "lost", "nowhere", "port"])
def test_no_word_of_a_server_is_told_as_one_of_ours(
    site: str, context: ToolContext, path: str
) -> None:
    with pytest.raises(ToolError) as refused:
        fetcher(robots=False).fetch(f"{site}/{path}", context)
    assert "OBEY" not in str(refused.value)


def test_where_another_host_is_named_it_is_fenced(site: str, context: ToolContext) -> None:
    assert fetcher(robots=False).fetch(f"{site}/away", context).origin == f"web page {site}/away"


DRIPS = {
    "headers": (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"a"),
    "a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"a"),
    "patience": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a handshake": (b"\x16\x03\x03\x3f\xff", b"\0"),
}


@pytest.mark.parametrize("what", DRIPS)
def test_a_server_that_drips_is_left_when_the_time_is_up(context: ToolContext, what: str) -> None:
    first, drop = DRIPS[what]
    scheme = "https" if what == "a handshake" else "http"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            caller, _ = server.accept()
            with caller, contextlib.suppress(OSError):
                caller.recv(1 << 16)
                caller.settimeout(0.05)
                caller.sendall(first)
                for _ in range(100):  # five seconds: then it gives up, and the test fails
                    with contextlib.suppress(TimeoutError):
                        caller.recv(1)
                    caller.sendall(drop)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"{scheme}://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(ToolError, match="it took too long"):
            fetcher(robots=False, seconds=0.5).fetch(address, context)
        thread.join()


@pytest.mark.thorough
def test_a_body_in_pieces_of_one_byte_takes_no_more_memory_than_a_body() -> None:
    ours, server = socket.socketpair()
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    sends = threading.Thread(target=server.sendall, args=(head + b"1\r\na\r\n" * 300_001,))
    with ours, server:
        sends.start()
        tracemalloc.start()
        page = read_page("http://x/", ours, most=300_000, until=time.monotonic() + 60)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        sends.join()
    assert page.cut
    assert len(page.body) == 300_000
    assert peak < 8_000_000  # a hundred bytes a piece, all at once, were 30,000,000


def test_robots_and_redirects_have_one_time_together(context: ToolContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(3):
                caller, _ = server.accept()
                with caller, contextlib.suppress(OSError):
                    caller.recv(1 << 16)
                    caller.settimeout(0.2)
                    with contextlib.suppress(TimeoutError):
                        caller.recv(1)
                    caller.sendall(
                        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"
                    )

        threading.Thread(target=serve, daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(ToolError, match="it took too long"):
            fetcher(seconds=0.5).fetch(address, context)


def test_a_page_is_read_as_text_and_kept_whole(site: str, context: ToolContext) -> None:
    result = fetcher().fetch(f"{site}/moved", context)
    assert "# Weigh\n\nEach stone twice." in result.text
    assert "evil" not in result.text
    assert f"{site}/moved → {site}/page" in result.text, "redirects are shown"
    assert hashlib.sha256(PAGE).hexdigest()[:16] in result.text
    assert result.full == PAGE
    assert result.origin, "what a page says is data"
    assert "Zürich" in fetcher().fetch(f"{site}/latin", context).text
    for path in ("/puny", "/idna"):  # Python knows them, and takes hours for some
        assert "Z�rich" in fetcher().fetch(f"{site}{path}", context).text


def test_limits_robots_and_other_hosts_are_kept(site: str, context: ToolContext) -> None:
    with pytest.raises(NotAllowed, match=r"robots\.txt"):
        fetcher().fetch(f"{site}/no/entry", context)
    assert "never" in fetcher(robots=False).fetch(f"{site}/no/entry", context).text
    told = fetcher().fetch(f"{site}/away", context)
    assert "https://other.example/x" in told.text
    assert told.full is None
    cut = fetcher(bytes=1_000, robots=False).fetch(f"{site}/large", context)
    assert "only the first 1,000 bytes" in cut.text
    for path, why in (("/binary", "no text"), ("/gone", "404"), ("/loop", "circles")):
        with pytest.raises(ToolError, match=why):
            fetcher().fetch(f"{site}{path}", context)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "64:ff9b::a00:1"]
)
def test_no_private_address_is_reached(site: str, context: ToolContext, address: str) -> None:
    named = Fetcher(FetchSettings(), find=lambda host, port: ["93.184.216.34", address])
    with pytest.raises(NotAllowed, match="public internet"):
        named.fetch("http://innocent.example/", context)
    with pytest.raises(NotAllowed):
        Fetcher(FetchSettings()).fetch(f"{site}/page", context)


SPECIAL = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32"),
    *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15"),
    *("224.0.0.0/3", "::/96", "100::/8", "64:ff9b:1::/48", "2001::/23", "2001:db8::/32"),
    *("2002::/16", "3fff::/20", "4000::/2", "fc00::/7", "fe80::/9", "ff00::/8"),
)


WRITINGS = ("{}", "::ffff:{}", "::{}", "::ffff:0:{}", "64:ff9b::{}", "2a00:1450::200:5efe:{}")


@given(st.sampled_from(SPECIAL), st.integers(min_value=0))
def test_no_special_address_is_public_in_any_writing(span: str, offset: int) -> None:
    network = ipaddress.ip_network(span)
    address = network[offset % network.num_addresses]
    ways = WRITINGS if address.version == 4 else WRITINGS[:1]
    assert [each for way in ways if is_public(each := way.format(address))] == []
    if address.version == 4:
        assert not is_public(str(ipaddress.IPv6Address(0x2002 << 112 | int(address) << 80)))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101", "::ffff:8.8.8.8"]
)
def test_ordinary_addresses_are_public(address: str) -> None:
    assert is_public(address)


def test_nothing_is_sent_to_an_address_that_is_refused_once_it_is_reached(
    context: ToolContext,
) -> None:
    class Turned(str):
        """An address that was public when it was looked up, and leads here."""

        def partition(self, sep: str) -> tuple[str, str, str]:
            return "93.184.216.34", sep, ""

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        turned = Fetcher(FetchSettings(), find=lambda host, port: [Turned("127.0.0.1")])
        with pytest.raises(NotAllowed, match=r"leads to 127\.0\.0\.1"):
            turned.fetch(f"http://x.example:{port}/", context)
        with server.accept()[0] as reached:
            assert reached.recv(100) == b""


def test_a_proxy_that_is_not_used_is_told(tmp_path: Path) -> None:
    context = ToolContext(workspace=Workspace((tmp_path,)), environ={"HTTPS_PROXY": "http://p:1"})
    with pytest.raises(ToolError) as told:
        fetcher().fetch("http://127.0.0.1:1/", context)
    assert "no proxy, although HTTPS_PROXY is set" in told.value.sentence


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost", "[::1]:8000", "192.168.0.1"])
def test_nobody_is_asked_about_an_address_that_is_refused_anyway(
    context: ToolContext, host: str
) -> None:
    written = json.dumps({"url": f"http://{host}/"})
    with pytest.raises(NotAllowed, match="public internet"):
        prepare(Fetcher(FetchSettings()).tool(), "call", written, context)
    prepare(Fetcher(FetchSettings(private=True)).tool(), "call", written, context)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://x.example/", "http://", "http://a b.example/", "gopher://x"],
)
def test_only_web_addresses_are_fetched(url: str) -> None:
    with pytest.raises(ToolError):
        host_of(url)


def test_passwords_and_patterns_of_hosts() -> None:
    with pytest.raises(NotAllowed):
        host_of("https://user:secret@example.org/")
    assert may_visit("docs.python.org", ("*.python.org",))
    assert not may_visit("python.org.evil.example", ("*.python.org", "python.org"))
    assert public(["93.184.216.34"], "x", private=False) == "93.184.216.34"
    assert text_of_html("<p>a<p>b<script>c</script>") == "a\nb"
    assert text_of_html("1<2 <!-- <b>no</b> --> <b>x</b><script>a<b</script>") == "1<2 x"
    assert text_of_html("<!doctype html><p title='a'>b<br/>c</p >") == "b\nc"
    for never_ends in ("<a ", "<a b='", "<!--", "<a =", '<a"', "<![", "<?x", "</a ", "<![x>"):
        assert text_of_html(never_ends * 20_000).count("<") in (0, 20_000)
    for quoted in ("<a b='>' ", '<a b=">" '):  # a quotation hides the end from a parser
        assert text_of_html(quoted * 20_000)


async def test_the_network_is_a_permission_of_its_own(tmp_path: Path, site: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    says = script(tmp_path, calls(("fetch", {"url": f"{site}/page"})), {"text": "read"}, loop=True)
    settings = "[fetch]\nprivate = true\n"
    (home / "config.toml").write_text(settings)
    async with on_stage(home, cwd=tmp_path, model=says, approve="auto-edit") as stage:
        await stage.say("read it")
        assert stage.all(events.ToolEnded)[-1].status == "refused"
    async with on_stage(home, cwd=tmp_path, model=says, asks=True) as stage:
        here = len(stage.heard)
        stage.session.send("read it")
        asked = await stage.until(events.ToolAsked, after=here)
        host = site.removeprefix("http://")
        assert {each.remember for each in asked.scopes} == {"", f"fetch {host}"}, "no other host"
        answer = events.Answer(allowed=True, remember=f"fetch {host}", keep="session")
        stage.session.answer(asked.call, answer)
        await stage.until(events.TurnEnded, after=here)
        await stage.say("read it again")
        assert [each.status for each in stage.all(events.ToolEnded)] == ["ok", "ok"]
        assert len(stage.all(events.ToolAsked)) == 1
    (home / "config.toml").write_text(f'{settings}[approvals]\nfetch = ["127.0.0.1:*"]\n')
    async with on_stage(home, cwd=tmp_path, model=says) as stage:
        await stage.say("read it")
        ended = stage.all(events.ToolEnded)[-1]
        assert ended.status == "ok"
        assert "Each stone twice." in ended.text
        returned = stage.entries(ToolReturned)[-1]
        assert (stage.places.blobs / returned.full).read_bytes() == PAGE
    async with on_stage(home, cwd=tmp_path, model=says, approve="read-only") as stage:
        await stage.say("read it")
        assert stage.all(events.ToolEnded)[-1].status == "refused"
