"""What the gateway adds to a request: the time around the model's own, at a large window."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import httpx

from mindstone_tui import api
from mindstone_tui.servers.resident import Listening, Resident

REQUESTS = 200 if os.environ.get("MINDSTONE_BENCH") == "full" else 20
SETTINGS = """
[models]
default = "scripted/{script}"
[context]
window = 128000
[recall]
auto = false
background = false
"""


async def main() -> None:
    """Fill a session to about three quarters of 128K, then take short turns in it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        script = Path(folder) / "script.jsonl"
        script.write_text(json.dumps({"text": "Noted."}) + '\n{"loop": true}\n')
        (home / "config.toml").write_text(SETTINGS.format(script=script))
        ready: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
        resident = Resident(api.Home(home, {"MINDSTONE_HOME": str(home)}))
        running = asyncio.create_task(resident.run(port=0, http=True, ready=ready.set_result))
        told = await ready
        token = Path(told.token).read_text("ascii")  # noqa: ASYNC240
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=told.url, headers=headers, timeout=300) as client:
            for number in range(30):
                await _ask(client, f"{number}: " + "the quick brown fox jumps over it " * 400)
            taken = [await _ask(client, f"short question {number}") for number in range(REQUESTS)]
        resident.stop()
        await running
    context = taken[-1][1]
    times = sorted(seconds * 1000 for seconds, _ in taken)
    p95 = times[int(len(times) * 0.95) - 1]
    print(f"gateway: prompt {context} · {REQUESTS} requests")
    print(f"  median {statistics.median(times):.1f} ms · p95 {p95:.1f} ms, the model taking none")


async def _ask(client: httpx.AsyncClient, text: str) -> tuple[float, str]:
    body = {"model": "default", "messages": [{"role": "user", "content": text}]}
    begun = time.perf_counter()
    answer = await client.post("/v1/chat/completions", json=body)
    elapsed = time.perf_counter() - begun
    assert answer.status_code == 200, answer.text
    return elapsed, answer.headers["x-mindstone-context"].split(";")[0]


if __name__ == "__main__":
    asyncio.run(main())
