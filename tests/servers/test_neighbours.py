"""The programs of others, as they are, at the gateway: each talks, and hears what goes wrong.

`make agents` fetches them; where they are not, these tests are skipped. `make neighbours` runs
every fault and prints what was seen.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import mindstone_tui
from mindstone_tui.core.entries import Line
from tests.core.session.stage import check_history
from tests.faults import FULL
from tests.loopback.server import Loopback, error, fails, says, sends, serving
from tests.servers.residence import Residence, residing
from tests.servers.test_agents import machine, program
from tests.servers.test_gateway_faults import FAULTS, SPOKE

Program = tuple[list[str], dict[str, str]]
"""A command that wants a person's words at its end, and its environment."""
PATIENCE = 240


def codex(served: Residence, folder: Path) -> Program:
    path = f"codex-program/vendor/{os.uname().machine}-unknown-linux-musl/bin/codex"
    own = folder / ".codex"
    own.mkdir(parents=True, exist_ok=True)
    (own / "config.toml").write_text(
        'model = "openai/mine"\nmodel_provider = "ours"\n[analytics]\nenabled = false\n'
        f'[model_providers.ours]\nname = "ours"\nbase_url = "{served.url}/v1"\n'
        'wire_api = "responses"\nenv_key = "TOKEN"\n'
    )
    command = [str(program(path)), "exec", "--skip-git-repo-check"]
    return command, {"CODEX_HOME": str(own), "TOKEN": served.token}


def claude(served: Residence, folder: Path) -> Program:
    del folder
    found = program(f"@anthropic-ai/claude-code-linux-{machine()}/claude")
    return [str(found), "-p"], {
        "ANTHROPIC_BASE_URL": served.url,
        "ANTHROPIC_API_KEY": served.token,
        "ANTHROPIC_MODEL": "openai/mine",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "64000",
        "CLAUDE_CODE_MAX_RETRIES": "3",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def qwen(served: Residence, folder: Path) -> Program:
    del folder
    found = program("@qwen-code/qwen-code/cli.js")
    told = {"OPENAI_BASE_URL": f"{served.url}/v1", "OPENAI_API_KEY": served.token}
    command = ["node", str(found), "--auth-type", "openai", "-p"]
    return command, {**told, "OPENAI_MODEL": "openai/mine"}


def gemini(served: Residence, folder: Path) -> Program:
    found = program("@google/gemini-cli/bundle/gemini.js")
    settings = folder / ".gemini/settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
    told = {"GOOGLE_GEMINI_BASE_URL": served.url, "GEMINI_API_KEY": served.token}
    command = ["node", str(found), "--skip-trust", "-m", "openai/mine", "-p"]
    return command, {**told, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def opencode(served: Residence, folder: Path) -> Program:
    found = program(f"opencode-linux-{machine()}/bin/opencode")
    options = {"baseURL": f"{served.url}/v1", "apiKey": served.token}
    ours = {"npm": "@ai-sdk/openai-compatible", "name": "ours", "options": options}
    provider = {"ours": {**ours, "models": {"openai/mine": {"name": "mine"}}}}
    settings = folder / ".config/opencode/opencode.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"model": "ours/openai/mine", "provider": provider}))
    return [str(found), "run"], {}


def llm(served: Residence, folder: Path) -> Program:
    """As the page on surfaces says: it names itself nowhere, so its settings do."""
    found = program("../llm/bin/llm")
    model = f"- model_id: mine\n  model_name: openai/mine\n  api_base: {served.url}/v1\n"
    named = "  api_key_name: ours\n  headers: {user-agent: llm}\n"
    (folder / "extra-openai-models.yaml").write_text(model + named)
    return [str(found), "-m", "mine", "--key", served.token], {"LLM_USER_PATH": str(folder)}


def aider(served: Residence, folder: Path) -> Program:
    del folder
    found = program("../aider-chat/bin/aider")
    asks_nobody = ("--yes-always", "--no-git", "--no-show-model-warnings", "--no-check-update")
    model = ("--model", "openai/openai/mine", "--analytics-disable", "--no-stream")
    told = {"OPENAI_API_BASE": f"{served.url}/v1", "OPENAI_API_KEY": served.token}
    return [str(found), *asks_nobody, *model, "--message"], told


NAMES = {
    claude: "Claude Code",
    codex: "Codex",
    gemini: "Gemini CLI",
    opencode: "opencode",
    qwen: "Qwen Code",
    llm: "llm",
    aider: "aider",
}


def each(*made: Callable[..., Program], what: str) -> pytest.MarkDecorator:
    params = [
        pytest.param(make, marks=pytest.mark.neighbour(NAMES[make], what), id=make.__name__)
        for make in made
    ]
    return pytest.mark.parametrize("make", params)


@pytest.fixture
async def model() -> AsyncIterator[Loopback]:
    async with serving() as server:
        yield server


def at(model: Loopback, timeout: float = 60.0) -> str:
    windows = '[models.windows]\n"openai/mine" = 64000\n'
    return f'base_url = "{model.base_url}"\nretries = 0\ntimeout = {timeout}\n{windows}'


def lines(served: Residence, session: str, *kinds: str) -> list[Any]:
    found = mindstone_tui.log(session=session, kinds=kinds, home=served.home)
    return [line.entry for line in found if isinstance(line, Line)]


def said(served: Residence) -> dict[str, list[str]]:
    """What was said in each session."""
    return {
        own.key.main: [
            entry.text for entry in lines(served, str(own.key), "user_message") if entry.text
        ]
        for own in served.home.places.sessions()
    }


async def ask(made: Program, home: Path, folder: Path, words: str, *more: str) -> str:
    """What a program prints, on whichever stream."""
    await anyio.Path(folder).mkdir(exist_ok=True)
    reads = made[0][-1] == "run"  # opencode puts marks around words that it is given as one
    run = partial(
        subprocess.run,
        [*made[0], *([] if reads else [words]), *more],
        cwd=folder,
        env={"HOME": str(home), "PATH": os.environ["PATH"], **made[1]},
        input=words if reads else "",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    done = await anyio.to_thread.run_sync(run)
    return done.stdout + done.stderr


GOES_ON = {
    claude: "--continue",
    opencode: "--continue",
    qwen: "--continue",
    gemini: "--resume",
    llm: "--continue",
    codex: "",  # has a verb for it
}
"""What makes a program go on with its last conversation; aider has only all of a folder's."""


@each(*(NAMES if FULL else [codex]), what="talk")
async def test_each_conversation_of_a_program_is_a_session_and_its_persons_words_stand_once(
    home: Path, tmp_path: Path, model: Loopback, make: Callable[..., Program]
) -> None:
    model.play(says("The port is 8443."))
    shop, bank, again, on = (
        "The shop listens on a port. Which one?",
        "And the bank, where does it listen?",
        "Something else about the bank: who owns it?",
        "Since when, by the way?",
    )
    async with residing(home, tmp_path, settings=at(model)) as served:
        made = make(served, tmp_path)
        for folder, words in (("shop", shop), ("bank", bank), ("bank", again)):
            told = await ask(made, tmp_path, tmp_path / folder, words)
            assert "8443" in told, told
        last = [again, on] if make in GOES_ON else [again]
        if make in GOES_ON:
            more = [GOES_ON[make]] if GOES_ON[make] else []
            made = made if more else ([*made[0], "resume", "--last"], made[1])
            await ask(made, tmp_path, tmp_path / "bank", on, *more)
        found = {name: words for name, words in said(served).items() if words}
        assert sorted(found.values()) == sorted([[shop], [bank], last])
        known = NAMES[make].lower().replace(" ", "-")
        assert {name.rpartition("-")[0] for name in found} == {known}
        of_bank = [call.raw for call in model.calls if b"the bank" in call.raw]
        assert of_bank
        assert not any(b"The shop listens" in raw for raw in of_bank)
        for own in served.home.places.sessions():
            check_history(own)


@each(claude, codex, what="retries")
async def test_the_real_programs_say_what_failed_and_their_words_stand_once(
    home: Path, tmp_path: Path, model: Loopback, make: Callable[..., Program]
) -> None:
    folder = tmp_path / "app"
    async with residing(home, tmp_path, settings=at(model)) as served:
        made = make(served, tmp_path)
        busy = fails("503 X", error("the cellar is flooded"))
        model.play(busy, busy, says("The port is 8443."))
        told = await ask(made, tmp_path, folder, "Which port is it?")
        assert "8443" in told, told
        model.play(fails("401 X", error("the key is from yesterday")))
        told = await ask(made, tmp_path, folder, "And now?")
        assert "the key is from yesterday" in told
        assert "assumes a context window" not in told
        found = said(served)
        assert sorted(found.values()) == [["And now?"], ["Which port is it?"]]
        assert len({name.rpartition("-")[0] for name in found}) == 1
        for own in served.home.places.sessions():
            check_history(own)


SHOWN = {
    "404": r"the server says no|issue with the selected model",
    "408": r"did not answer in time",
    "413": r"too large|too long",
    "500": r"the server says no|high demand",
    "limited": r"slow down|429 Too Many Requests",
    "no quota": r"[Qq]uota",
    "overflow": r"too long",
    "content": r"content policy",
    "nobody there": r"No server answers",
    "silence": r"did not answer in time",
    "cut": r"broke off",
}
"""What a person reads of a fault, in our words or in those that the program has for its status."""


@pytest.mark.parametrize("fault", [*FAULTS, "cut"] if FULL else [])
@each(claude, codex, what="faults")
async def test_a_real_program_shows_each_fault_and_its_persons_words_stand_once(
    home: Path,
    tmp_path: Path,
    model: Loopback,
    make: Callable[..., Program],
    fault: str,
    record_property: Callable[[str, object], None],
) -> None:
    act = FAULTS[fault].act if fault in FAULTS else sends(SPOKE)
    if fault == "limited":
        act = fails("429 X", error("slow down"), Retry_After="1")
    if act is None:
        await model.stop()
    else:
        model.play(act)
    async with residing(home, tmp_path, settings=at(model, 1.0)) as served:
        told = await ask(make(served, tmp_path), tmp_path, tmp_path / "app", "Which port?")
        wanted = SHOWN.get(fault, "the server says no")
        shown = [line for line in told.splitlines() if re.search(wanted, line)]
        assert shown, told
        record_property(f"{NAMES[make]}, {fault}", shown[-1])
        assert "assumes a context window" not in told
        (session,) = said(served)
        assert said(served)[session] == ["Which port?"]
        attempts = lines(served, session, "model_failed")
        assert 1 <= len(attempts) <= 30, "Codex asks five times, and does that six times"
        check_history(served.places(session))
