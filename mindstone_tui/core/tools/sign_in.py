"""Signing in to a remote tool server, as its protocol has it: OAuth, with a browser, once.

What the server gave lies in a file of the owner's alone. A session only uses and renews it; a
browser is asked for by `mindstone tools login` and by nothing else.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from mindstone_tui.core import disk, errors

_PATIENCE: Final = 300.0
"""Seconds that a person may take in the browser."""
_ALTOGETHER: Final = _PATIENCE + 60
"""Seconds for all of it, however slowly a server answers."""
_BROWSER: Final = 10.0
_LONGEST: Final = 8 * 1024 * 1024
_SEEN: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"Signed in. You can close this page.\n"
)
_HELLO: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"mindstone","version":"1"}}}'
)
_KINDS: Final = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


class TokenFile:
    """What a server gave us, kept as the protocol's library wants it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get_tokens(self) -> Any:
        """The tokens, if there are any."""
        from mcp.shared.auth import OAuthToken  # with the rest of the library: 0.3 s

        return self._get("tokens", OAuthToken)

    async def set_tokens(self, tokens: Any) -> None:
        """Keep new ones, and until when they hold, which nobody says later."""
        self.keep("tokens", tokens.model_dump(mode="json", exclude_none=True))
        self.keep(
            "until", time.time() + tokens.expires_in if tokens.expires_in is not None else None
        )

    async def get_client_info(self) -> Any:
        """What the server registered us as, if it did."""
        from mcp.shared.auth import OAuthClientInformationFull  # as above

        return self._get("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: Any) -> None:
        """Keep that."""
        self.keep("client", client_info.model_dump(mode="json", exclude_none=True))

    def known(self) -> dict[str, Any]:
        """All of it; nothing where there is none."""
        return disk.read_stored(self._path, dict[str, Any]) or {}

    def _get(self, name: str, kind: Any) -> Any:
        told = self.known().get(name)
        return None if told is None else kind.model_validate(told)

    def keep(self, name: str, value: Any) -> None:
        """Write one of them down."""
        disk.replace_file(self._path, msgspec.json.encode({**self.known(), name: value}))


def signed(name: str, url: str, path: Path) -> Any:
    """What signs requests with what is kept; None where nobody signed in at this address."""
    known = TokenFile(path).known()
    if known.get("url") != url:
        return None

    async def refuse(*address: str) -> None:
        del address
        raise errors.ToolError(wants_sign_in(name))

    from mcp.shared.auth import OAuthMetadata  # as above

    own = _provider(url, path, "http://127.0.0.1/", refuse, refuse)
    # What the library knows only in the process that signed in, and needs to renew a token.
    own.context.token_expiry_time = known.get("until")
    if known.get("server"):
        own.context.oauth_metadata = OAuthMetadata.model_validate(known["server"])
    return own


def wants_sign_in(name: str) -> str:
    """What is said of a server that lets nobody in who did not."""
    return f"it wants you to sign in, with `mindstone tools login {name}`"


async def read_bounded(reply: Any) -> None:
    """Read an answer within a bound, which the library does not keep."""
    body = bytearray()
    async for piece in reply.aiter_bytes():
        body += piece
        if len(body) > _LONGEST:
            raise errors.ToolError(f"An answer is longer than {_LONGEST:,} bytes.", "")
    reply._content = bytes(body)  # where the library would put it


def opens_stream(reply: Any, url: str) -> bool:
    """Whether an answer is the conversation itself, which has no end to be read to."""
    kind = reply.headers.get("content-type", "")
    asked = reply.is_success and str(reply.request.url) == url
    return asked and kind.startswith("text/event-stream")


async def sign_in(url: str, path: Path, show: Callable[[str], None]) -> bool:
    """Have a person sign in at the address that `show` is given; False if nobody asks for it."""
    try:
        async with asyncio.timeout(_ALTOGETHER):
            return await _sign_in(url, path, show)
    except TimeoutError:
        why = f"It came to no end within {_ALTOGETHER / 60:.0f} minutes."
        raise errors.ToolError(why, "Try again.") from None


async def _sign_in(url: str, path: Path, show: Callable[[str], None]) -> bool:
    import httpx2

    answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            said = await asyncio.wait_for(reader.readline(), _BROWSER)
        except (TimeoutError, ValueError, OSError):
            writer.close()
            return
        line = said.decode("ascii", "replace").split(" ")
        given = parse_qs(urlsplit(line[1]).query) if len(line) > 1 else {}
        writer.write(_SEEN)
        await writer.drain()
        writer.close()
        if not answered.done() and {"code", "error"} & given.keys():
            answered.set_result({key: values[0] for key, values in given.items()})

    async def ask(address: str) -> None:
        show(address)

    async def answer() -> Any:
        from mcp.shared.auth import AuthorizationCodeResult  # as above

        found = await asyncio.wait_for(answered, _PATIENCE)
        if "code" not in found:
            raise errors.ToolError(f"The server said no: {found['error'][:200]}.", "Try again.")
        fields = {key: found[key] for key in ("code", "state", "iss") if key in found}
        return AuthorizationCodeResult(**fields)

    # Whatever was kept belongs to another registration, or to another address altogether.
    await asyncio.to_thread(disk.replace_file, path, msgspec.json.encode({"url": url}))

    async def bound(reply: Any) -> None:
        if not opens_stream(reply, url):
            await read_bounded(reply)

    async with await asyncio.start_server(hear, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        own = _provider(url, path, f"http://127.0.0.1:{port}/", ask, answer)
        async with (
            httpx2.AsyncClient(
                auth=own, trust_env=False, timeout=60, event_hooks={"response": [bound]}
            ) as caller,
            caller.stream("POST", url, content=_HELLO, headers=_KINDS),
        ):
            pass
    if (about := own.context.oauth_metadata) is not None:
        TokenFile(path).keep("server", about.model_dump(mode="json", exclude_none=True))
    return await TokenFile(path).get_tokens() is not None


def _provider(
    url: str,
    path: Path,
    back: str,
    ask: Callable[[str], Awaitable[None]],
    answer: Callable[[], Awaitable[Any]],
) -> Any:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    about = OAuthClientMetadata(client_name="MindStone", redirect_uris=[back])  # type: ignore[list-item]
    return OAuthClientProvider(url, about, TokenFile(path), ask, answer)
