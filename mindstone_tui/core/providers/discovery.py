"""Finds model servers on this machine, only when asked to.

Nothing but loopback addresses is ever tried, with short patience and bounded answers. Where a
server says how large the window of a loaded model really is, a session plans for that.
"""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from mindstone_tui.core import bounded_json, entries
from mindstone_tui.core.bounded_json import objects_in

PATIENCE: Final = 0.5
_WHOLE: Final = 1.5
"""Seconds that a whole answer may take, however steadily it comes."""
_LONGEST: Final = 4 << 20
_PIECE: Final = 64 << 10


class FoundModel(entries.Part):
    """A model some server offers."""

    name: str
    """As `/model` takes it."""
    window: int | None = None
    """In tokens, as loaded now; None when the server does not say."""
    loaded: bool = False


class FoundServer(entries.Part):
    """A server that answered."""

    kind: str
    """`ollama`, `lm_studio` or `openai`."""
    base_url: str
    models: tuple[FoundModel, ...] = ()


PLACES: Final = (
    ("ollama", "http://127.0.0.1:11434"),
    ("lm_studio", "http://127.0.0.1:1234"),
    ("openai", "http://127.0.0.1:8080"),
    ("openai", "http://127.0.0.1:8000"),
)
"""Where servers usually listen: Ollama, LM Studio, llama.cpp, vLLM."""


def usual_places(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Where to look: the usual places, and Ollama where the user's environment says it is."""
    told = ollama_address(environ.get("OLLAMA_HOST", ""))
    return tuple((kind, told or url) if kind == "ollama" else (kind, url) for kind, url in PLACES)


def ollama_address(host: str) -> str:
    """The address that `OLLAMA_HOST` means, read as Ollama's own programs read it; may be empty."""
    told = host.strip().strip("\"'")
    scheme, named, rest = told.partition("://")
    if not named:
        scheme, rest = "http", told
    place, _, path = rest.partition("/")
    if not place:
        return ""
    name, colon, number = place.rpartition(":")
    if not colon or place.endswith("]"):
        name, number = place, ""
    port = {"http": "80", "https": "443"}.get(scheme, "") if named else "11434"
    port = number if number.isdecimal() and int(number) < 1 << 16 else port
    # Listening everywhere is something a server does; whoever asks it asks this machine.
    name = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(name, name)
    return f"{scheme}://{name}{f':{port}' if port else ''}{f'/{path}' if path else ''}".rstrip("/")


async def discover(
    places: Iterable[tuple[str, str]] = PLACES, patience: float = PATIENCE
) -> list[FoundServer]:
    """Every server that answers now, in the order of `places`."""
    looks = [asyncio.to_thread(look_at, kind, url, patience) for kind, url in places]
    return [server for server in await asyncio.gather(*looks) if server is not None]


def look_at(kind: str, url: str, patience: float = PATIENCE) -> FoundServer | None:
    """What one address offers; None when nobody there speaks this language."""
    root = url.rstrip("/").removesuffix("/v1")
    models = _ollama(root, patience) if kind == "ollama" else _compatible(kind, root, patience)
    if models is None:
        return None
    base_url = root if kind == "ollama" else f"{root}/v1"
    return FoundServer(kind=kind, base_url=base_url, models=tuple(models))


async def loaded_window(model: str, base_url: str, patience: float = PATIENCE) -> int | None:
    """The window with which a local server really loaded a model; None when it does not say."""
    kind = model.partition("/")[0].removesuffix("_chat")
    if not is_loopback(base_url):
        return None
    found = await asyncio.to_thread(look_at, kind, base_url, patience)
    bare = model.partition("/")[2]
    return next(
        (
            each.window
            for each in (found.models if found else ())
            if each.name.partition("/")[2] in (bare, f"{bare}:latest")
        ),
        None,
    )


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own and cannot be anyone else's."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _ollama(root: str, patience: float) -> list[FoundModel] | None:
    if (listed := _get(root, "/api/tags", patience)) is None:
        return None
    windows = {
        str(each.get("name")): _whole(each.get("context_length"))
        for each in objects_in((_get(root, "/api/ps", patience) or {}).get("models"))
    }
    return [
        FoundModel(name=f"ollama/{name}", window=windows.get(name), loaded=name in windows)
        for each in objects_in(listed.get("models"))
        if (name := str(each.get("name", "")))
    ]


def _compatible(kind: str, root: str, patience: float) -> list[FoundModel] | None:
    if (listed := _get(root, "/v1/models", patience)) is None:
        return None
    detailed = _get(root, "/api/v0/models", patience) if kind == "lm_studio" else None
    loaded = {
        str(each.get("id")): _whole(each.get("loaded_context_length"))
        for each in objects_in((detailed or {}).get("data"))
        if each.get("state") == "loaded"
    }
    served = None if kind == "lm_studio" else _served_window(root, patience)
    return [
        FoundModel(
            name=f"{kind}/{name}",
            window=loaded.get(name) or _whole(each.get("max_model_len")) or served,
            loaded=name in loaded or kind == "openai",
        )
        for each in objects_in(listed.get("data"))
        if (name := str(each.get("id", "")))
    ]


def _served_window(root: str, patience: float) -> int | None:
    """llama.cpp tells the window it runs with among its properties."""
    props = _get(root, "/props", patience) or {}
    return _whole(bounded_json.mapping(props.get("default_generation_settings")).get("n_ctx"))


def _get(root: str, path: str, patience: float) -> dict[str, Any] | None:
    """A JSON object from a server on this machine; None when there is none to be had."""
    parts = urlsplit(root)
    if not is_loopback(root) or parts.scheme != "http":
        return None
    import h11  # 10 ms, and whoever asks a model there needs it, too

    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname or ""
    headers = [("host", parts.netloc), ("accept-encoding", "identity"), ("connection", "close")]
    ask = h11.Request(method="GET", target=parts.path.rstrip("/") + path, headers=headers)
    talk, body, ends = h11.Connection(h11.CLIENT), b"", time.monotonic() + max(_WHOLE, patience)
    try:
        with socket.create_connection((host, parts.port or 80), timeout=patience) as line:
            line.sendall((talk.send(ask) or b"") + (talk.send(h11.EndOfMessage()) or b""))
            while (left := ends - time.monotonic()) > 0 and len(body) <= _LONGEST:
                match talk.next_event():
                    case h11.NEED_DATA:
                        line.settimeout(min(patience, left))
                        talk.receive_data(line.recv(_PIECE))
                    case h11.Response(status_code=status) if status != 200:
                        return None
                    case h11.Data(data=data):
                        body += data
                    case h11.EndOfMessage():
                        return bounded_json.read_object(body)
    except (OSError, ValueError, h11.RemoteProtocolError):
        pass  # nobody is there, or somebody else
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
