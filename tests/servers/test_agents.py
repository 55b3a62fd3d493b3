"""The real Claude Code, Codex and others, attached, against a model server on loopback.

`make agents` fetches the programs; where they are not, these tests are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.entries import Line
from mindstone_tui.core.interchange.launcher import LAUNCHER
from mindstone_tui.core.paths import Places, SessionPlaces
from mindstone_tui.core.transcript import History, verify
from mindstone_tui.servers.resident import ask, listening
from tests.cli.program import ROOT
from tests.faults import FULL
from tests.loopback.formats import CHAT, MESSAGES
from tests.loopback.server import Act, Call, Loopback, Write, event, head, serving_apart

FETCHED = ROOT / ".counterparts" / "node_modules"
FACT = "The staging database listens on port 5433. Show me the folder."
QUESTION = "Which port does the staging database listen on?"
seen = pytest.mark.neighbour
only_in_full = pytest.mark.skipif(not FULL, reason="`make neighbours` runs it")
"""For what another program of these proves in the suite."""
HOOKS_ALONE = "--strict-mcp-config"
"""Claude Code starts no tool server with this, which takes a second."""
CALL = ("call_1", "Bash", '{"command": "echo found-it"}')


def program(path: str) -> Path:
    """One of the fetched programs."""
    found = FETCHED / path
    if not found.exists():
        pytest.skip(f"{found.name} is not there; `make agents` fetches it")
    return found


class Desk:
    """A home with one attached program in it."""

    def __init__(self, tmp_path: Path, server: Loopback, name: str) -> None:
        self.name = name
        self.folder = tmp_path
        self.project = tmp_path / "app"
        self.project.mkdir()
        self.places = Places.resolve({"MINDSTONE_HOME": str(tmp_path / "ours")})
        self.server = server
        self.environ = {
            "HOME": str(tmp_path),
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT),
            "MINDSTONE_HOME": str(tmp_path / "ours"),
        }

    def run(self, *command: str | Path, **environ: str) -> str:
        """What a program says, on whichever stream."""
        done = subprocess.run(
            list(map(str, command)),
            cwd=self.project,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        told = done.stdout + done.stderr
        assert done.returncode == 0, told
        return told

    def mindstone(self, *words: str) -> str:
        return self.run(sys.executable, "-P", "-m", "mindstone_tui", *words)

    def barrier(self, file: Path) -> None:
        """Return once the resident has taken everything that it was told of."""
        told = listening(self.places)
        assert told is not None
        said = {
            "hook_event_name": "PreCompact",
            "session_id": "nobody",
            "transcript_path": str(file),
        }
        asyncio.run(ask(told, "hook", {"program": self.name, "said": said}, 60))

    def sessions(self) -> list[SessionPlaces]:
        return sorted(self.places.sessions(), key=lambda own: own.transcript.stat().st_ctime_ns)

    def requests(self) -> str:
        return "\n".join(call.raw.decode("utf-8", "replace") for call in self.server.calls)


@pytest.fixture
def desk_for(tmp_path: Path) -> Iterator[Callable[[str], Desk]]:
    """Makes the one home of a test; its resident ends with it."""
    with serving_apart() as server:
        made: list[Desk] = []

        def make(name: str) -> Desk:
            made.append(Desk(tmp_path, server, name))
            # A hook would start it, but a busy machine may take longer than the program runs.
            made[-1].mindstone("serve", "--background", "--socket-only")
            return made[-1]

        yield make
        for each in made:
            if (told := listening(each.places)) is not None:
                os.kill(told.pid, signal.SIGKILL)


def said_by(own: SessionPlaces) -> list[tuple[str, str]]:
    """Who said what in a session of ours, in order."""
    who = {"user_message": "user", "assistant_message": "assistant", "tool_returned": "tool"}
    with History(own) as history:
        lines = [history.whole(line) for line in history.read() if isinstance(line, Line)]
    found = [(who.get(line.kind, ""), str(getattr(line.entry, "text", ""))) for line in lines]
    return [(name, text) for name, text in found if name and text]


def claude_says(file: Path) -> list[tuple[str, str]]:
    """The same from Claude Code's own file, by a reader that shares nothing with ours."""
    found: list[tuple[str, str]] = []
    for line in file.read_text().splitlines():
        record = json.loads(line)
        content = record.get("message", {}).get("content")
        if record["type"] not in ("user", "assistant") or record.get("isMeta"):
            continue
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "text" and block["text"]:
                found.append((record["type"], block["text"]))
            elif block["type"] == "tool_result":
                given = block["content"]
                text = given if isinstance(given, str) else given[0]["text"]
                found.append(("tool", text))
    return found


def codex_says(file: Path) -> list[tuple[str, str]]:
    """The same from Codex's rollout."""
    found: list[tuple[str, str]] = []
    for line in file.read_text().splitlines():
        record = json.loads(line)
        item = record["payload"]
        if record["type"] != "response_item":
            continue
        if item["type"] == "message" and item["role"] in ("user", "assistant"):
            text = item["content"][0]["text"]
            if not text.startswith("<environment_context>"):
                found.append((item["role"], text))
        elif item["type"] == "function_call_output":
            found.append(("tool", item["output"]))
    return found


def as_claude_wants(call: Call, write: Write) -> Any:
    """A tool call for the first prompt, an answer for its result and for everything else."""
    raw = call.raw.decode("utf-8", "replace")
    act: Act = MESSAGES.says("Done as you said.")
    if "Show me the folder" in raw and "found-it" not in raw and '"tools":[{' in raw:
        act = MESSAGES.asks(CALL)
    return act(call, write)


async def as_codex_wants(call: Call, write: Write) -> None:
    raw = call.raw.decode("utf-8", "replace")
    item: dict[str, Any] = {
        "type": "message",
        "id": f"msg_{len(raw)}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Done as you said.", "annotations": []}],
    }
    if "Show me the folder" in raw and "found-it" not in raw:
        item = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "exec_command",
            "arguments": '{"cmd": "echo found-it"}',
            "status": "completed",
        }
    await responding(item)(call, write)


def responding(item: dict[str, Any]) -> Act:
    """An answer of the responses API that is one item."""

    async def act(call: Call, write: Write) -> None:
        del call
        await write(_response(item))

    return act


def _response(item: dict[str, Any]) -> bytes:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": None,
        "output_tokens": 5,
        "output_tokens_details": None,
        "total_tokens": 15,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
    ]
    body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return (head + body).encode()


def check(desk: Desk, files: list[Path], read: Callable[[Path], list[tuple[str, str]]]) -> None:
    """Everything the program wrote is here, in order; nothing that it was given came back."""
    for file, own in zip(files, desk.sessions(), strict=True):
        assert verify(own).ok
        assert said_by(own) == read(file)
        assert b"mindstone recall" not in own.transcript.read_bytes()
    asked = next(text for name, text in said_by(desk.sessions()[0]) if name == "user")
    assert asked == FACT
    assert any("found-it" in text for name, text in said_by(desk.sessions()[0]) if name == "tool")
    given = re.search(r"mindstone recall.{0,800}", desk.requests(), re.DOTALL)
    assert given is not None
    assert "5433" in given[0]
    assert f"{desk.sessions()[0].key} #" in given[0]


def in_order(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)


@seen("Claude Code", "attach")
def test_claude_code_is_recorded_word_for_word_and_gets_recall(
    desk_for: Callable[[str], Desk],
) -> None:
    claude = program(f"@anthropic-ai/claude-code-linux-{machine()}/claude")
    desk = desk_for("claude-code")
    desk.server.play(as_claude_wants)
    settings = desk.folder / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}')
    desk.mindstone("attach", "claude-code", "--yes")
    files: list[Path] = []
    for prompt in (FACT, QUESTION):
        desk.run(claude, "-p", prompt, "--allowedTools", "Bash", **_for_claude(desk))
        files = in_order(desk.folder / ".claude/projects")
        desk.barrier(files[-1])
    check(desk, files, claude_says)
    desk.mindstone("attach", "claude-code", "--undo", "--yes")
    assert settings.read_text() == '{"model": "opus"}'
    assert "mindstone" not in (desk.folder / ".claude.json").read_text()


@seen("Codex", "attach")
def test_codex_is_recorded_word_for_word_and_gets_recall(desk_for: Callable[[str], Desk]) -> None:
    codex = _codex()
    desk = desk_for("codex")
    desk.server.play(as_codex_wants)
    home = desk.folder / ".codex"
    config = _set_up_codex(desk)
    desk.mindstone("attach", "codex", "--yes")
    files: list[Path] = []
    for prompt in (FACT, QUESTION):
        desk.run(*codex, prompt, STUB_KEY="fake")
        files = in_order(home / "sessions")
        desk.barrier(files[-1])
    check(desk, files, codex_says)
    desk.mindstone("attach", "codex", "--undo", "--yes")
    assert (home / "config.toml").read_text() == config
    assert not (home / "hooks.json").exists()


@seen("Claude Code", "given back")
def test_a_session_that_claude_code_lost_is_given_back_and_resumed(
    desk_for: Callable[[str], Desk],
) -> None:
    claude = program(f"@anthropic-ai/claude-code-linux-{machine()}/claude")
    desk = desk_for("claude-code")
    desk.server.play(as_claude_wants)
    desk.mindstone("attach", "claude-code", "--keep-raw", "--yes")
    desk.run(claude, "-p", FACT, HOOKS_ALONE, "--allowedTools", "Bash", **_for_claude(desk))
    (file,) = in_order(desk.folder / ".claude/projects")
    desk.barrier(file)
    written = file.read_bytes()
    file.unlink()
    told = desk.mindstone("resume", file.stem, "--give-back")
    assert f"claude --resume {file.stem}" in told
    assert file.read_bytes() == written
    desk.server.calls.clear()
    desk.run(claude, "-p", "go on", HOOKS_ALONE, "--resume", file.stem, **_for_claude(desk))
    assert FACT in desk.requests()
    assert file.read_bytes().startswith(written)


@only_in_full
@seen("Codex", "given back")
def test_a_session_that_codex_lost_is_given_back_and_resumed(
    desk_for: Callable[[str], Desk],
) -> None:
    codex = _codex()
    desk = desk_for("codex")
    desk.server.play(as_codex_wants)
    _set_up_codex(desk)
    desk.mindstone("attach", "codex", "--keep-raw", "--yes")
    desk.run(*codex, FACT, STUB_KEY="fake")
    (file,) = in_order(desk.folder / ".codex" / "sessions")
    desk.barrier(file)
    written = file.read_bytes()
    file.unlink()
    name = file.stem[-36:]
    desk.mindstone("resume", name, "--give-back")
    assert file.read_bytes() == written
    desk.server.calls.clear()
    desk.run(*codex, "resume", name, "go on", STUB_KEY="fake")
    assert FACT in desk.requests()
    assert file.read_bytes().startswith(written)


async def as_gemini_wants(call: Call, write: Write) -> None:
    part = {"text": "Done as you said."}
    told = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    answer = {"candidates": [told], "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 14}}
    streams = "streamGenerateContent" in call.path
    whole = event(answer) if streams else json.dumps(answer).encode()
    await write(head(kind="text/event-stream" if streams else "application/json") + whole)


def _gemini(desk: Desk) -> tuple[tuple[str | Path, ...], dict[str, str]]:
    found = program("@google/gemini-cli/bundle/gemini.js")
    address = desk.server.base_url.removesuffix("/v1")
    told = {
        "GOOGLE_GEMINI_BASE_URL": address,
        "GEMINI_API_KEY": "x",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return ("node", found, "-m", "gemini-2.5-flash", "-p"), told


def _qwen(desk: Desk) -> tuple[tuple[str | Path, ...], dict[str, str]]:
    told = {"OPENAI_BASE_URL": desk.server.base_url, "OPENAI_API_KEY": "x", "OPENAI_MODEL": "stub"}
    return ("node", program("@qwen-code/qwen-code/cli.js"), "--auth-type", "openai", "-p"), told


def by_others(what: str) -> pytest.MarkDecorator:
    """The two other programs that have hooks, and what their models say."""
    ways: list[tuple[str, str, Any, Act]] = [
        ("Gemini CLI", "gemini-cli", _gemini, as_gemini_wants),
        ("Qwen Code", "qwen-code", _qwen, CHAT.says("Done as you said.")),
    ]
    made = [
        pytest.param(*way, marks=seen(called, what), id=called) for called, *way in ways[not FULL :]
    ]
    return pytest.mark.parametrize(("name", "make", "act"), made)


def _prepare(desk: Desk) -> tuple[Path, str]:
    """The settings of such a program, and what they say."""
    settings = desk.folder / f".{desk.name.partition('-')[0]}/settings.json"
    settings.parent.mkdir(exist_ok=True)
    auth = {"selectedType": "gemini-api-key" if desk.name == "gemini-cli" else "openai"}
    settings.write_text(json.dumps({"security": {"auth": auth}}))
    return settings, settings.read_text()


@by_others("attach")
def test_other_programs_with_hooks_are_recorded_and_get_recall(
    desk_for: Callable[[str], Desk], name: str, make: Any, act: Act
) -> None:
    desk = desk_for(name)
    command, told = make(desk)
    desk.server.play(act)
    settings, before = _prepare(desk)
    desk.mindstone("attach", name, "--yes")
    for prompt in (FACT, QUESTION):
        desk.run(*command, prompt, **told)
        desk.barrier(in_order(settings.parent)[-1])
    assert [said_by(own)[0] for own in desk.sessions()] == [("user", FACT), ("user", QUESTION)]
    given = re.search(r"mindstone recall.{0,800}", desk.requests(), re.DOTALL)
    assert given is not None
    assert "5433" in given[0]
    desk.mindstone("attach", name, "--undo", "--yes")
    assert "mindstone" not in settings.read_text()
    if name == "gemini-cli":  # the other writes its settings anew at each start
        assert settings.read_text() == before


@seen("opencode", "attach")
def test_opencode_is_given_our_tools(desk_for: Callable[[str], Desk]) -> None:
    desk = desk_for("opencode")
    opencode = program(f"opencode-linux-{machine()}/bin/opencode")
    desk.server.play(CHAT.says("Done as you said."))
    options = {"baseURL": desk.server.base_url, "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "stub", "options": options}
    models = {"stub": {"name": "stub"}}
    settings = desk.folder / ".config/opencode/opencode.json"
    settings.parent.mkdir(parents=True)
    told: dict[str, Any] = {"$schema": "https://opencode.ai/config.json", "model": "a/b"}
    told |= {"model": "stub/stub", "provider": {"stub": {**provider, "models": models}}}
    settings.write_text(json.dumps(told))
    desk.mindstone("attach", "opencode", "--yes")
    desk.run(opencode, "run", "hello")
    assert '"mindstone_recall"' in desk.requests()
    desk.mindstone("attach", "opencode", "--undo", "--yes")
    assert settings.read_text() == json.dumps(told)


@seen("pi", "attach")
def test_pi_is_told_how_to_ask(desk_for: Callable[[str], Desk]) -> None:
    desk = desk_for("pi")
    pi = program("@mariozechner/pi-coding-agent/dist/cli.js")
    desk.server.play(CHAT.says("Done as you said."))
    model = {"id": "stub", "input": ["text"], "contextWindow": 32_000, "maxTokens": 1_000}
    model |= {"cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)}
    stub = {"baseUrl": desk.server.base_url, "apiKey": "x", "api": "openai-completions"}
    settings = desk.folder / ".pi/agent/models.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"providers": {"stub": {**stub, "models": [model]}}}))
    desk.mindstone("attach", "pi", "--yes")
    desk.run("node", pi, "-p", "hello", "--provider", "stub", "--model", "stub")
    assert "recall --scope all QUESTION" in desk.requests()
    desk.mindstone("attach", "pi", "--undo", "--yes")
    assert not (settings.parent / "AGENTS.md").exists()


@seen("Copilot CLI", "attach")
def test_copilot_cli_knows_our_tool_server(desk_for: Callable[[str], Desk]) -> None:
    desk = desk_for("copilot-cli")
    copilot = ("node", program("@github/copilot/npm-loader.js"))
    desk.mindstone("attach", "copilot-cli", "--yes")
    assert "mindstone" in desk.run(*copilot, "mcp", "list")
    desk.mindstone("attach", "copilot-cli", "--undo", "--yes")
    assert "mindstone" not in desk.run(*copilot, "mcp", "list")


class Installation(Desk):
    """The same with MindStone in an environment of its own, of which parts can be taken away."""

    def __init__(self, tmp_path: Path, server: Loopback, name: str) -> None:
        super().__init__(tmp_path, server, name)
        self.environment = tmp_path / "environment"
        venv.create(self.environment, symlinks=True)
        self.packages = next(self.environment.glob("lib/python3*/site-packages"))
        (self.packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        # With its bytecode: to compile it anew takes a second.
        package, models = ROOT / "mindstone_tui", shutil.ignore_patterns("minilm")
        shutil.copytree(package, self.packages / "mindstone_tui", ignore=models)
        self.script = self.environment / "bin" / "mindstone"
        start = "import sys\nfrom mindstone_tui.__main__ import main\nsys.exit(main())\n"
        self.script.write_text(f"#!{self.environment}/bin/python\n{start}")
        self.script.chmod(0o755)
        del self.environ["PYTHONPATH"]
        self.left: list[Callable[[Installation], None]] = []
        """What is still to be done to it."""

    def mindstone(self, *words: str) -> str:
        return self.run(self.script, *words)

    def breaking(self, act: Act, fault: Callable[[Installation], None]) -> Act:
        """An answer in the middle of which something is taken away, once."""
        left = self.left = [fault]

        async def broken(call: Call, write: Write) -> None:
            begins = b"Show me the folder" in call.raw and b'"tools":[{' in call.raw

            async def in_pieces(data: bytes) -> None:
                if left and begins:
                    half = len(data) // 2
                    await write(data[:half])
                    await asyncio.to_thread(left.pop(), self)
                    data = data[half:]
                await write(data)

            await act(call, in_pieces)

        return broken


def _uninstall(desk: Installation) -> None:
    shutil.rmtree(desk.packages / "mindstone_tui")
    desk.script.unlink()


def _fill_the_disk(desk: Installation) -> None:
    with contextlib.suppress(OSError), (desk.places.data / "fill").open("wb", 0) as out:
        while True:
            out.write(bytes(1 << 16))


def _kill_the_resident(desk: Installation) -> None:
    told = listening(desk.places)
    assert told is not None
    os.kill(told.pid, signal.SIGKILL)


GONE: dict[str, Callable[[Installation], None]] = {
    "uninstalled": _uninstall,
    "without its environment": lambda desk: shutil.rmtree(desk.environment),
    "without its home": lambda desk: shutil.rmtree(desk.places.data, ignore_errors=True),
    "on a full disk": _fill_the_disk,
    "with its resident killed": _kill_the_resident,
}
"""The suite tries each with one program, `make neighbours` with every one."""
SAID = [("user", FACT), ("tool", "found-it"), ("assistant", "Done as you said.")]


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Callable[[str], Installation]]:
    """Makes an installation on a small disk of its own, if there can be one."""
    disk = tmp_path / "ours"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    with serving_apart() as server:
        made: list[Installation] = []

        def make(name: str) -> Installation:
            made.append(Installation(tmp_path, server, name))
            made[-1].mindstone("serve", "--background", "--socket-only")
            made[-1].mindstone("attach", name, "--yes")
            return made[-1]

        yield make
        for each in made:
            if (told := listening(each.places)) is not None:
                os.kill(told.pid, signal.SIGKILL)
    if mounted:
        subprocess.run(["umount", "-l", str(disk)], check=False)


@seen("Claude Code", "hooks")
@pytest.mark.parametrize("gone", list(GONE)[:: 1 if FULL else 2])
def test_claude_code_does_not_notice_that_we_are_gone_in_mid_answer(
    installed: Callable[[str], Installation], gone: str
) -> None:
    claude = program(f"@anthropic-ai/claude-code-linux-{machine()}/claude")
    desk = installed("claude-code")
    _needs_its_disk(desk, gone)
    desk.server.play(desk.breaking(as_claude_wants, GONE[gone]))
    debug = desk.folder / "debug"
    tools = ("--allowedTools", "Bash", "--debug-file", debug)
    printed = desk.run(claude, "-p", FACT, *tools, **_for_claude(desk))
    assert printed.strip() in ("", "Done as you said.")
    told = debug.read_text()
    assert told.count(LAUNCHER) >= 4, "it called no hook, so nothing is proven"
    assert not re.findall(r"\[ERROR\].*[Hh]ook.*", told)
    assert claude_says(in_order(desk.folder / ".claude/projects")[-1]) == SAID


@seen("Codex", "hooks")
@pytest.mark.parametrize("gone", GONE if FULL else list(GONE)[1::2])
def test_codex_does_not_notice_that_we_are_gone_in_mid_answer(
    installed: Callable[[str], Installation], gone: str
) -> None:
    codex = _codex()
    desk = installed("codex")
    _needs_its_disk(desk, gone)
    _set_up_codex(desk)
    desk.mindstone("attach", "codex", "--yes")
    desk.server.play(desk.breaking(as_codex_wants, GONE[gone]))
    told = desk.run(*codex, FACT, STUB_KEY="fake")
    assert "hook: UserPromptSubmit" in told, "it called no hook, so nothing is proven"
    assert not re.findall(r"hook: \w+ Failed|mindstone|hook timeout", told)
    said = codex_says(in_order(desk.folder / ".codex/sessions")[-1])
    assert [who for who, _ in said] == [who for who, _ in SAID]
    assert all(text in found for (_, text), (_, found) in zip(SAID, said, strict=True))


@by_others("hooks")
@pytest.mark.parametrize("gone", GONE if FULL else [])
def test_other_programs_do_not_notice_that_we_are_gone_in_mid_answer(
    installed: Callable[[str], Installation], name: str, make: Any, act: Act, gone: str
) -> None:
    desk = installed(name)
    _needs_its_disk(desk, gone)
    _prepare(desk)
    desk.mindstone("attach", name, "--yes")
    desk.server.play(desk.breaking(act, GONE[gone]))
    command, told = make(desk)
    printed = desk.run(*command, FACT, **told)
    assert not desk.left, "nothing was taken away, so nothing is proven"
    assert "Done as you said." in printed
    assert not re.findall(r"(?i)hook|mindstone", printed)
    assert FACT in in_order(desk.folder / f".{name.partition('-')[0]}")[-1].read_text()


def _needs_its_disk(desk: Installation, gone: str) -> None:
    if gone == "on a full disk" and not desk.places.data.is_mount():
        pytest.skip("nothing can be mounted here")


def _for_claude(desk: Desk) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": desk.server.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "fake",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _codex() -> tuple[str | Path, ...]:
    """Codex, ready for one prompt."""
    target = {"x64": "x86_64", "arm64": "aarch64"}[machine()]
    binary = program(f"codex-program/vendor/{target}-unknown-linux-musl/bin/codex")
    asks_nothing = ("--dangerously-bypass-hook-trust", "--sandbox=danger-full-access")
    return (binary, "exec", "--skip-git-repo-check", *asks_nothing)


def _set_up_codex(desk: Desk) -> str:
    """Have Codex ask the server of the test; what its settings say."""
    config = (
        'model = "stub"\nmodel_provider = "stub"\n[model_providers.stub]\nname = "stub"\n'
        f'base_url = "{desk.server.base_url}"\nwire_api = "responses"\nenv_key = "STUB_KEY"\n'
        "request_max_retries = 0\n[analytics]\nenabled = false\n"
    )
    (desk.folder / ".codex").mkdir(exist_ok=True)
    (desk.folder / ".codex" / "config.toml").write_text(config)
    return config


def machine() -> str:
    names = {"x86_64": "x64", "aarch64": "arm64"}
    if platform.system() != "Linux" or platform.machine() not in names:
        pytest.skip("these programs are fetched for Linux only")
    return names[platform.machine()]
