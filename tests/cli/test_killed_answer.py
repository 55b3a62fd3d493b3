"""A program that is killed while an answer comes: what was shown of it is in history, once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from mindstone_tui.core.entries.conversation import AssistantPartial, TurnEnded
from mindstone_tui.core.paths import Places
from tests.cli.terminal import OnTerminal
from tests.core.session.stage import KEY, check_history, on_stage, read, script
from tests.faults import FULL

WORDS = [f"word{number:03}" for number in range(60)]
POINTS = 100 if FULL else 12
OURS = [sys.executable, "-m", "mindstone_tui"]
Shown = Callable[[Path, str, int], str]
"""What a surface had shown by the time that it was killed, after so many words."""


def started(*words: str, home: Path, **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*OURS, *words],
        env={**os.environ, "MINDSTONE_HOME": str(home), **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def on_the_command_line(home: Path, model: str, words: int) -> str:
    with started("run", "--model", model, "tell me", home=home) as process:
        assert process.stdout is not None
        seen = b""
        while len(seen.split()) < words and (piece := os.read(process.stdout.fileno(), 65_536)):
            seen += piece
        process.kill()
        return (seen + process.stdout.read()).decode()


def in_the_app(home: Path, model: str, words: int) -> str:
    terminal = OnTerminal(home.parent, "--model", model)
    try:
        terminal.until(b"script.jsonl")
        terminal.type(b"tell me\r")
        terminal.until(WORDS[words - 1].encode())
    finally:
        terminal.process.kill()
        terminal.finish()
        terminal.close()
    newest = max(map(int, re.findall(rb"word(\d{3})", terminal.seen)))
    return " ".join(WORDS[: newest + 1])


def at_the_resident(home: Path, model: str, words: int) -> str:
    with started("serve", "--port", "0", "--json", home=home) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        token = Path(told["token"]).read_text("ascii")
        asked = {"model": model, "stream": True, "messages": [{"role": "user", "content": "tell"}]}
        headers = {"authorization": f"Bearer {token}", "x-mindstone-session": str(KEY)}
        where = f"{told['url']}/v1/chat/completions"
        seen = ""
        with httpx.stream("POST", where, json=asked, headers=headers, timeout=60) as reply:
            for line in reply.iter_lines():
                if line.startswith("data: {"):
                    seen += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
                if len(seen.split()) >= words:
                    break
            process.kill()
    return seen


def in_an_editor(home: Path, model: str, words: int) -> str:
    environ = {"MINDSTONE_ACP__SESSION": str(KEY), "MINDSTONE_MODELS__DEFAULT": model}
    with started("acp", home=home, **environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = {"sessionId": str(KEY), "prompt": [{"type": "text", "text": "tell me"}]}
        for number, (method, params) in enumerate(
            (
                ("initialize", {"protocolVersion": 1}),
                ("session/new", {"cwd": str(home.parent), "mcpServers": []}),
                ("session/prompt", asked),
            )
        ):
            call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(call).encode() + b"\n")
            process.stdin.flush()
            if number < 2:
                until_answered(process.stdout, number)
        seen = ""
        for line in process.stdout:
            update = json.loads(line).get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                seen += update["content"]["text"]
            if len(seen.split()) >= words:
                break
        process.kill()
    return seen


def until_answered(lines: Iterator[bytes], number: int) -> None:
    assert any(json.loads(line).get("id") == number for line in lines)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize(
    "shown_until", [on_the_command_line, in_the_app, at_the_resident, in_an_editor]
)
async def test_words_that_were_shown_before_a_kill_are_in_history_once(
    home: Path, tmp_path: Path, shown_until: Shown, part: int
) -> None:
    points = POINTS if FULL or shown_until is on_the_command_line else 3
    model = script(tmp_path, {"text": " ".join(WORDS), "delay_ms": 4}, loop=True)
    places = Places.resolve({"MINDSTONE_HOME": str(home)}).session(KEY)
    shown = [
        shown_until(home, model, 2 + point * (len(WORDS) - 6) // points)
        for point in range(part, points, 3)
    ]
    async with on_stage(home, model=model, follow=True):
        pass
    partial = [line.entry for line in read(places) if isinstance(line.entry, AssistantPartial)]
    endings = [line.entry for line in read(places) if isinstance(line.entry, TurnEnded)]
    assert len(partial) == len(shown)
    assert [each.ending for each in endings] == ["interrupted"] * len(shown)
    for seen, kept in zip(shown, partial, strict=True):
        whole = seen[: seen.rfind(" ") + 1].strip()
        assert whole
        assert kept.text.startswith(whole)
        assert " ".join(WORDS).startswith(kept.text)
    async with on_stage(home, model=model, follow=True):
        pass
    again = [line for line in read(places) if isinstance(line.entry, AssistantPartial)]
    assert len(again) == len(partial)
    check_history(places)
