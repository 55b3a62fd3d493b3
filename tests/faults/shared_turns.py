"""Two homes, one session on a server, turn after turn: `python -m tests.faults.shared_turns`.

One home has the session open as the app does and follows it; the other takes its turns one by one,
now and then as a program of its own (`mindstone run`). In the end both transcripts are the same
bytes, and `verify` and `replay --all --check` hold on both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mindstone_tui import api
from mindstone_tui.core.events import EntryAppeared, TurnEnded
from tests.postgres import PostgresServer


def machine(folder: Path, url: str) -> api.Home:
    """A home whose sessions are on the server."""
    return api.Home(
        environ={
            **os.environ,
            "MINDSTONE_HOME": str(folder),
            "MINDSTONE_HISTORY__URL": url,
            "MINDSTONE_RECALL__BACKGROUND": "false",
        }
    )


async def ended(conversation: api.Conversation) -> None:
    """Wait for the end of the turn under way, whoever takes it."""
    async for event in conversation.events():
        if isinstance(event, TurnEnded):
            assert event.ending == "done", event
            return
        if isinstance(event, EntryAppeared) and event.kind == "turn_ended":
            return


async def converse(one: api.Home, other: api.Home, turns: int) -> list[float]:
    """Take turns in turn; how long after its end each turn of the other one was seen."""
    delays = []
    app = await api.connect(home=one, channel="tui")
    for turn in range(1, turns + 1):
        if turn % 2:
            app.send(f"Turn {turn}, from the first machine: item {turn} is in drawer {turn * 7}.")
            await ended(app)
            continue
        seen = asyncio.create_task(ended(app))
        text = f"Turn {turn}, from the second machine: remember number {turn * 13}."
        if turn % 50 == 0:
            done = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mindstone_tui", "run", "-q", text),
                env=other.environ,
                stdout=subprocess.DEVNULL,
            )
            assert await done.wait() == 0
        else:
            async with api.open_conversation(home=other) as conversation:
                async for event in conversation.ask(text):
                    assert not isinstance(event, TurnEnded) or event.ending == "done", event
        began = time.monotonic()
        await seen
        delays.append(time.monotonic() - began)
    await app.close()
    return delays


def main(turns: int) -> bool:
    """Run it, and prove what came out."""
    server = PostgresServer()
    server.start()
    folder = Path(tempfile.mkdtemp(prefix="mindstone-turns-"))
    try:
        url = server.new_database()
        homes = [machine(folder / name, url) for name in ("one", "other")]
        began = time.monotonic()
        delays = asyncio.run(converse(homes[0], homes[1], turns))
        took = time.monotonic() - began
        good = True
        for home in homes:
            for words in (["verify"], ["replay", "--all", "--check"]):
                command = [sys.executable, "-m", "mindstone_tui", *words]
                proven = subprocess.run(command, env=home.environ, capture_output=True, text=True)
                print(" ".join(words), proven.returncode, proven.stdout.strip()[-200:])
                good = good and proven.returncode == 0
        bytes_ = {home.places.session(home.key("")).transcript.read_bytes() for home in homes}
        print(f"{turns} turns, {took:.0f} s; copies differ: {len(bytes_) > 1}")
        print(f"a turn of the other was seen {max(delays):.2f} s after it ended at most")
        return good and len(bytes_) == 1
    finally:
        server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=500)
    sys.exit(0 if main(parser.parse_args().turns) else 1)
