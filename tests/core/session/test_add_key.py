"""A key or a server that is added in the app: tried at once, and kept only if it works."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mindstone_tui.core.config.load import load
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.library.model_list import NewKey, add_key
from mindstone_tui.core.paths import Places


class Tiny(BaseHTTPRequestHandler):
    """Speaks just enough like OpenAI, to those who have the key."""

    def log_message(self, *_: object) -> None:
        """Nothing is said."""

    def do_GET(self) -> None:
        self._answer(200, "application/json", json.dumps({"data": [{"id": "tiny"}]}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if self.headers["authorization"] != "Bearer good":
            self._answer(401, "application/json", '{"error": {"message": "no such key"}}')
            return
        said = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
        self._answer(200, "text/event-stream", f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n")

    def _answer(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Tiny) as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}/v1"
        found.shutdown()


async def test_a_server_is_tried_and_its_first_model_chosen(home: Path, server: str) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    new = NewKey(provider="openai", secret="good", model="", base_url=server)
    assert await add_key(places, {}, new) == "openai/tiny"
    kept = load(places, {}).settings.models
    assert (kept.base_url, kept.default) == (server, "openai/tiny")
    assert places.keys.stat().st_mode & 0o777 == 0o600
    # And once more, over what is there, as people type it.
    bare = server.removeprefix("http://").removesuffix("/v1")
    again = NewKey(provider="openai", secret="good", model="", base_url=bare)
    assert await add_key(places, {}, again) == "openai/tiny"
    assert load(places, {}).settings.models.base_url == server


async def test_what_does_not_work_is_not_kept(home: Path, server: str) -> None:
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    before = load(places, {}).settings.models
    with pytest.raises(MindstoneError, match="does not accept the key"):
        await add_key(
            places, {}, NewKey(provider="openai", secret="wrong", model="", base_url=server)
        )
    assert load(places, {}).settings.models == before
    assert "wrong" not in places.keys.read_text()
