"""A program that is killed while an answer comes: what was shown of it is in history, once."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    TurnEnded,
)
from mindstone_tui.core.paths import Places, SessionPlaces
from tests.cli.forked import ROOT, begin
from tests.cli.program import mindstone
from tests.cli.terminal import OnTerminal
from tests.core.session.stage import KEY, check_history, on_stage, read, script
from tests.faults import FULL

WORDS = 60
POINTS = 100 if FULL else 12
Shown = Callable[[Path, str, str], str]
"""What a surface had shown by the time that it was killed, once a word was there."""


def words_of(answer: str) -> list[str]:
    return [f"{answer}-{number:03}" for number in range(WORDS)]


def started(*words: str, home: Path, **more: str) -> subprocess.Popen[bytes]:
    return begin(
        *words,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MINDSTONE_HOME": str(home), **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def on_the_command_line(home: Path, model: str, word: str) -> str:
    with started("run", "--model", model, "tell me", home=home) as process:
        assert process.stdout is not None
        seen = b""
        while word.encode() not in seen and (piece := os.read(process.stdout.fileno(), 65_536)):
            seen += piece
        process.kill()
        return (seen + process.stdout.read()).decode()


def in_the_app(home: Path, model: str, word: str) -> str:
    terminal = OnTerminal(home.parent, "--model", model)
    try:
        terminal.until(b"script.jsonl")
        terminal.type(b"tell me\r")
        terminal.until(word.encode())
    finally:
        terminal.process.kill()
        terminal.finish()
        terminal.close()
    answer, _ = word.split("-")
    newest = max(map(int, re.findall(rf"{answer}-(\d{{3}})".encode(), terminal.seen)))
    return " ".join(words_of(answer)[: newest + 1])


def at_the_resident(home: Path, model: str, word: str) -> str:
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
                if word in seen:
                    break
            process.kill()
    return seen


def in_an_editor(home: Path, model: str, word: str) -> str:
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
            if word in seen:
                break
        process.kill()
    return seen


def until_answered(lines: Iterator[bytes], number: int) -> None:
    assert any(json.loads(line).get("id") == number for line in lines)


def said_in(places: SessionPlaces) -> list[AssistantMessage | AssistantPartial]:
    """Every answer in history, whole if its last word came before the kill."""
    entries = (line.entry for line in read(places))
    return [one for one in entries if isinstance(one, AssistantMessage | AssistantPartial)]


@pytest.mark.parametrize("part", range(3 if FULL else 1))
@pytest.mark.parametrize(
    "shown_until", [on_the_command_line, in_the_app, at_the_resident, in_an_editor]
)
async def test_words_that_were_shown_before_a_kill_are_in_history_once(
    home: Path, tmp_path: Path, shown_until: Shown, part: int
) -> None:
    few = 6 if shown_until is at_the_resident else 3  # whose clients send the same once more
    points = POINTS if FULL or shown_until is on_the_command_line else few
    places = Places.resolve({"MINDSTONE_HOME": str(home)}).session(KEY)
    shown: list[str] = []
    for point in range(part, points, 3):
        words = words_of(f"answer{point:03}")
        model = script(tmp_path, {"text": " ".join(words), "delay_ms": 4}, loop=True)
        shown.append(shown_until(home, model, words[2 + point * (WORDS - 6) // points]))
    async with on_stage(home, model=model, follow=True):
        pass
    answers = said_in(places)
    endings = [line for line in read(places) if isinstance(line.entry, TurnEnded)]
    assert len(endings) == len(answers) == len(shown)
    assert any(isinstance(each, AssistantPartial) for each in answers)
    for seen, kept in zip(shown, answers, strict=True):
        assert seen.strip()
        assert kept.text.startswith(seen.strip())
        assert " ".join(words_of(seen.partition("-")[0])).startswith(kept.text)
    async with on_stage(home, model=model, follow=True):
        pass
    assert said_in(places) == answers
    check_history(places)


async def test_until_the_next_start_reading_says_that_words_are_not_in_history(
    home: Path, tmp_path: Path
) -> None:
    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        return mindstone(*words, env={"MINDSTONE_HOME": str(home)})

    def told(verb: str) -> str:
        return " ".join(ran(verb, "-s", str(KEY)).stderr.split())

    words = words_of("answer")
    model = script(tmp_path, {"text": " ".join(words), "delay_ms": 4}, loop=True)
    on_the_command_line(home, model, words[WORDS // 2])
    for verb in ("log", "export"):
        assert "of an answer in turn 1 are not in history yet" in told(verb)
    async with on_stage(home, model=model, follow=True):
        pass
    assert told("log") == ""
    assert "  interrupted" in ran("search", words[3]).stdout
    assert "  interrupted" in ran("recall", words[3], "-s", str(KEY)).stdout
