"""A web page or file as text, with the network as a permission of its own.

Only http and https, only addresses of the public internet unless the settings allow others: a name
is looked up once, every address it has is judged, the connection goes to the address that was
judged, and whom it reached is judged again before a byte is sent. Proxies are not used. Redirects
within the host are followed and shown; one to another host is told, not taken, because nobody
agreed to that host. What was read is kept whole beside the transcript.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import hashlib
import ipaddress
import socket
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from mindstone_tui.core.config.settings import FetchSettings
from mindstone_tui.core.errors import MindstoneError, NotAllowed, ToolError
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import exact, one_line
from mindstone_tui.core.tools import base, verdicts

if TYPE_CHECKING:
    from mindstone_tui.core.tools.web_page import Page  # http.client: 15 ms

_MOST_REDIRECTS: Final = 5
_MOST_ROBOTS: Final = 512 * 1024
_KIND: Final = pattern_of(r"[\w.+-]{1,60}/[\w.+-]{1,60}")
_TEXTUAL: Final = pattern_of(r"text/|application/(?:[\w.+-]*\+)?(?:json|xml|javascript|yaml|toml)")
_CHARSET: Final = pattern_of(
    r"(?i)utf-?(?:8|16|32)\w*|(?:us-)?ascii|latin-?\d|iso-?(?:8859|2022)-\w+|(?:windows-|cp)\d+|koi8-\w"
    r"|gb\w+|big5\S*|(?:shift|s)[_-]?jis|euc-\w+|mac\w+|tis-620"
)
"""What pages are written in: Python knows other ways, and for some of them takes hours."""
_GLOBAL: Final = ipaddress.ip_network("2000::/3")
_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")
"""An IPv4 address as networks without IPv4 write it (RFC 6052)."""
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy"})
Resolve = Callable[[str, int], list[str]]


class FetchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to read."""

    url: Annotated[str, msgspec.Meta(min_length=8, max_length=4_000, description="http or https.")]


def host_of(url: str) -> str:
    """The host that a URL names, or why it cannot be fetched."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ToolError(f"{one_line(url, 80)} is no address: {error}.", "Check it.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ToolError(f"{one_line(url, 80)} is no web address.", "Use http:// or https://.")
    if parts.username or parts.password:
        raise NotAllowed("An address with a password in it is not fetched.", "Leave it out.")
    if any(sign <= " " or sign == "\x7f" for sign in url):
        raise ToolError("An address cannot have spaces in it.", "Encode them as %20.")
    return f"{host}:{port}" if port else host


def may_visit(host: str, allowed: tuple[str, ...]) -> str:
    """The pattern of the settings that allows a host; empty when none does."""
    return next((each for each in allowed if fnmatch.fnmatchcase(host.lower(), each.lower())), "")


def resolve(host: str, port: int) -> list[str]:
    """Every address that a name has."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


@cache
def _special() -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    lines = Path(__file__).with_name("special_addresses.txt").read_text("utf-8").splitlines()
    return tuple(ipaddress.ip_network(line.split()[0]) for line in lines if line[:1] != "#")


def is_public(address: str) -> bool:
    """Whether an address is global unicast and stands for no other that is not."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped or found in _TRANSLATED:
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
        isatap = (
            int(found) >> 32 & 0xFCFFFFFF == 0x5EFE
        )  # a tunnel to the IPv4 address that follows
        if found not in _GLOBAL or isatap:
            return False
    return not any(found in each for each in _special())


def public(addresses: list[str], host: str, *, private: bool) -> str:
    """The address to connect to; refused when any of them is not of the public internet."""
    if not addresses:
        raise ToolError(f"{host} has no address.", "Check the name.")
    for each in addresses:
        if not private and not is_public(each):
            raise NotAllowed(
                f"{host} leads to {each}, which is not an address of the public internet.",
                "Set fetch.private to allow such addresses.",
            )
    return addresses[0]


class Fetcher:
    """Fetches for one session; robots.txt of a host is read once."""

    def __init__(self, settings: FetchSettings, *, find: Resolve = resolve) -> None:
        self._settings = settings
        self._find = find
        self._robots: dict[str, Callable[[str], bool]] = {}

    def tool(self) -> base.Tool:
        """As the model is offered it."""
        return base.declare(
            "fetch",
            "Read a web page or a text file from the internet.",
            "network",
            FetchArguments,
            self._run,
            self._preview,
        )

    def _preview(self, arguments: FetchArguments, context: base.ToolContext) -> base.Preview:
        """What a person is asked; nobody is asked about an address that is refused anyway."""
        host = host_of(arguments.url)
        name = urlsplit(arguments.url).hostname or ""
        with contextlib.suppress(ValueError):
            address = "127.0.0.1" if name == "localhost" else str(ipaddress.ip_address(name))
            public([address], name, private=self._settings.private)
        part = verdicts.CommandPart(
            text=f"fetch {exact(arguments.url)}",
            verdict="network",
            reason=f"reads from {exact(host)}",
        )
        return base.Preview(title=f"fetch {exact(arguments.url)}", host=host, parts=(part,))

    async def _run(self, arguments: FetchArguments, context: base.ToolContext) -> base.ToolResult:
        return await asyncio.to_thread(self.fetch, arguments.url, context)

    def fetch(self, url: str, context: base.ToolContext) -> base.ToolResult:
        """Read a page, through the redirects of its own host, all in the time that is set."""
        host = host_of(url)
        way = [url]
        get = partial(self._get, context=context, until=time.monotonic() + self._settings.seconds)
        while True:
            self._ask_robots(way[-1], get)
            page = get(way[-1], self._settings.bytes)
            if not page.location:
                break
            try:
                target = urljoin(way[-1], page.location)
                there = host_of(target)
            except (ValueError, MindstoneError):
                what = f"{host} leads to something that is no address."
                raise ToolError(what, "Use another address.") from None
            if there != host:
                text = f"It leads to another host: {exact(target)}. Fetch that if you need it."
                finding = f"redirects to {there}"
                return base.ToolResult(text=text, finding=finding, origin=f"web page {url}")
            way.append(target)
            if len(way) > _MOST_REDIRECTS:
                raise ToolError(f"{url} leads in circles.", "Use the final address.")
        return self._told(page, way, context)

    def _told(self, page: Page, way: list[str], context: base.ToolContext) -> base.ToolResult:
        from mindstone_tui.core.tools.web_page import text_of_html  # http.client: 15 ms

        # What the server chose, a path it leads to or a name of a kind, is no word of ours.
        if page.status >= 400:
            raise ToolError(f"{way[0]} answers {page.status}.", "Check the address.")
        if not _TEXTUAL.match(page.media_type):
            kind = page.media_type if _KIND.fullmatch(page.media_type) else "of no known kind"
            raise ToolError(
                f"{way[0]} is {kind}, {len(page.body):,} bytes, and no text.",
                "Fetch a page or a text file.",
            )
        charset = page.charset if _CHARSET.fullmatch(page.charset) else "utf-8"
        try:
            raw = page.body.decode(charset, "replace")
        except LookupError:
            raw = page.body.decode("utf-8", "replace")
        html = "html" in page.media_type or raw.lstrip()[:15].lower().startswith("<!doctype html")
        text, _ = base.bounded(text_of_html(raw) if html else raw, context)
        digest = hashlib.sha256(page.body).hexdigest()
        heading = [f"[{exact(' → '.join(way))}, {page.media_type}, sha256 {digest[:16]}]"]
        if page.cut:
            heading.append(f"[only the first {len(page.body):,} bytes were read]")
        return base.ToolResult(
            text="\n".join([*heading, text]),
            finding=f"{host_of(way[-1])}: {len(page.body):,} bytes, sha256 {digest[:12]}",
            full=page.body,
            origin=f"web page {way[0]}",
        )

    def _ask_robots(self, url: str, get: Callable[[str, int], Page]) -> None:
        from mindstone_tui.core.tools.web_page import wishes_of  # http.client: 15 ms

        if not self._settings.robots:
            return
        parts = urlsplit(url)
        root = f"{parts.scheme}://{parts.netloc}"
        if root not in self._robots:
            self._robots[root] = wishes_of(get(f"{root}/robots.txt", _MOST_ROBOTS))
        if not self._robots[root](url):
            raise NotAllowed(
                f"{parts.netloc} does not want programs to read this page (robots.txt).",
                "Read it in a browser, or set fetch.robots to false.",
            )

    def _get(self, url: str, most: int, *, context: base.ToolContext, until: float) -> Page:
        from mindstone_tui.core.tools.web_page import read_page  # http.client: 15 ms

        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        check = partial(public, host=host, private=self._settings.private)
        try:
            address = check(self._find(host, port))
            left = max(until - time.monotonic(), 0.001)
            with socket.create_connection((address, port), left) as reached:
                check([reached.getpeername()[0]])
                return read_page(url, reached, most=most, until=until)
        except (OSError, ValueError) as error:
            late = time.monotonic() >= until
            said = "" if isinstance(error, ValueError) else str(error)  # its words are the server's
            why = "it took too long" if late else one_line(said or type(error).__name__, 160)
            remedy = "Check the address."
            if unused := sorted(name for name in context.environ if name.lower() in _PROXIES):
                remedy += f" `fetch` uses no proxy, although {unused[0]} is set."
            raise ToolError(f"{host} cannot be read: {why}.", remedy) from None
