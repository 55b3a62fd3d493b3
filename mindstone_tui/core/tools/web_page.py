"""What a web server gives, as bytes, as wishes about robots and as text.

Apart from the tool, because the standard library's parts for this take long to load, and few
sessions fetch anything.
"""

import contextlib
import http.client
import re
import socket
import ssl
import threading
import time
import urllib.robotparser
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urlsplit

import msgspec

from mindstone_tui import __version__

AGENT: Final = "mindstone"
_PIECE: Final = 1 << 16
_HIDDEN: Final = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_BREAKING: Final = frozenset(
    {
        *("p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "figure"),
        *("ul", "ol", "li", "dl", "dt", "dd", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6"),
        *("br", "hr", "pre", "blockquote", "form"),
    }
)

_HEADERS: Final = {
    "User-Agent": f"{AGENT}/{__version__}",
    "Accept": "text/html, text/plain, application/json, */*;q=0.5",
    "Accept-Encoding": "identity",
    "Connection": "close",
}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What a server gave."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    cut: bool
    location: str = ""


def read_page(url: str, reached: socket.socket, *, most: int, until: float) -> Page:
    """What stands at a URL, asked of whoever was reached, and was judged.

    The line is cut at a moment of the monotonic clock, whatever still drips from it. Raises OSError
    or ValueError when the server cannot be read until then, or speaks no HTTP.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = http.client.HTTPConnection(host, parts.port)
    connection.sock = reached
    line = reached.dup()  # encryption takes the other one over
    alarm = threading.Timer(until - time.monotonic(), _cut, (line,))
    try:
        alarm.start()
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(reached, server_hostname=host)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers=_HEADERS)
        answer = connection.getresponse()
        body = bytearray()
        while len(body) <= most and (piece := answer.read(min(_PIECE, most + 1 - len(body)))):
            body += piece  # a body may come in millions of pieces, and each costs a hundred bytes
        if time.monotonic() >= until:
            raise TimeoutError
        return Page(
            url=url,
            status=answer.status,
            media_type=answer.headers.get_content_type() if answer.headers else "",
            charset=answer.headers.get_content_charset() or "",
            body=bytes(body[:most]),
            cut=len(body) > most,
            location=(answer.getheader("location") or "") if answer.status // 100 == 3 else "",
        )
    except http.client.HTTPException as error:
        raise NoWebServer from error
    finally:
        alarm.cancel()
        connection.close()
        line.close()


def _cut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def wishes_of(robots: Page) -> Callable[[str], bool]:
    """Whether this program may read a URL, by what its host's robots.txt says."""
    rules = urllib.robotparser.RobotFileParser()
    there = robots.status < 300 and not robots.location
    rules.parse(robots.body.decode("utf-8", "replace").splitlines() if there else [])
    return lambda url: rules.can_fetch(AGENT, url)


class NoWebServer(ValueError):
    """What answers speaks no HTTP."""


class _Text(HTMLParser):
    """The words of a page, a line for each block, links with their address."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._hidden = 0
        self._title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag in _BREAKING:
            self.pieces.append("\n# " if tag in ("h1", "h2", "h3") else "\n")
        self._title = tag == "title"

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        elif tag in _BREAKING:
            self.pieces.append("\n")
        self._title = False

    def handle_data(self, data: str) -> None:
        if self._title:
            self.pieces.append(f"{data.strip()}\n")
        elif not self._hidden:
            self.pieces.append(data)


def _well_formed(source: str) -> str:
    """A page without comments and attributes, in which every `<` begins a tag that ends at once.

    The parser of the standard library looks for the end of what never ends again and again.
    """
    pieces: list[str] = []
    at = 0
    while (start := source.find("<!--", at)) >= 0 and (end := source.find("-->", start)) >= 0:
        pieces.append(source[at:start])
        at = end + 3
    pieces.append(source[at:])
    return re.sub(_TAG, _bare, "".join(pieces))


_TAG: Final = r"<(?:(?P<name>/?[a-zA-Z][^\s/<>]*+)[^<>]*+>|[!?][^<>]*+>)?+"


def _bare(tag: re.Match[str]) -> str:
    if tag["name"]:
        return f"<{tag['name']}>"
    return "" if tag[0].endswith(">") else "&lt;"


def text_of_html(source: str) -> str:
    """What a person would read of a page."""
    parser = _Text()
    parser.feed(_well_formed(source))
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
