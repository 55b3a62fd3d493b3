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
_THINKING = 0.3
"""Seconds between two requests."""
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
            taken = []
            for number in range(REQUESTS):
                await asyncio.sleep(_THINKING)  # what is done after a turn is not part of the next
                taken.append(await _ask(client, f"short question {number}"))
        resident.stop()
        await running
    print(f"gateway: prompt of {taken[-1][2]} tokens · {REQUESTS} requests · the model takes none")
    for name, times in (("wall", [one[0] for one in taken]), ("cpu ", [one[1] for one in taken])):
        worst = sorted(times)[int(len(times) * 0.95) - 1]
        print(f"  {name} median {statistics.median(times):.1f} ms · p95 {worst:.1f} ms")


async def _ask(client: httpx.AsyncClient, text: str) -> tuple[float, float, str]:
    body = {"model": "default", "messages": [{"role": "user", "content": text}]}
    begun, worked = time.perf_counter(), time.process_time()
    answer = await client.post("/v1/chat/completions", json=body)
    wall, cpu = time.perf_counter() - begun, time.process_time() - worked
    assert answer.status_code == 200, answer.text
    return wall * 1000, cpu * 1000, answer.headers["x-mindstone-context"].split(";")[0]


if __name__ == "__main__":
    asyncio.run(main())
