"""What one headless turn costs beside other agents: `python -m tests.bench.bench_turn [--json]`.

All ask the same model server on this machine, in turn, in one run; what counts are the ratios.
`llm` and `aider` are taken from the path or from `MINDSTONE_PEERS`, a folder in which `claude` and
`codex` are looked for as well (`llm`, `aider`, `claude`, `codex` or `*/bin/NAME` in it). Whoever is
not there is left out. Processor time is the time of the process and of all that it waited for.
"""

from __future__ import annotations

import http.server
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tests.loopback.formats import CHAT

ROOT = Path(__file__).parents[2]
ANSWER = "The staging database listens on port 5433."
QUESTION = "Which port does the staging database listen on?"
FULL = os.environ.get("MINDSTONE_BENCH") == "full"
ROUNDS = 5 if FULL else 1
PEERS = ("llm", "aider", "claude", "codex")


class Contestant(msgspec.Struct, frozen=True):
    """A program that takes one turn."""

    name: str
    command: tuple[str, ...]
    environ: dict[str, str]
    home: Path


Make = Callable[[str, tuple[str, ...], Mapping[str, str]], Contestant]


class Cost(msgspec.Struct):
    """The least that a turn took."""

    wall: float = float("inf")
    processor: float = float("inf")
    megabytes: float = float("inf")


def _as_message() -> bytes:
    """An answer in Anthropic's words, with every event that its own program waits for."""
    usage = {"input_tokens": 10, "output_tokens": 9}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "stub", "usage": usage}
    text = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": ANSWER}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    return _told(
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )


def _as_response() -> bytes:
    """The same as an item of OpenAI's responses."""
    part = {"type": "output_text", "text": ANSWER, "annotations": []}
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed"}
    usage = {"input_tokens": 10, "output_tokens": 9, "total_tokens": 19}
    done = {"id": "r", "status": "completed", "output": [], "usage": usage}
    return _told(
        {"type": "response.created", "response": {"id": "r"}},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "content": [part]},
        },
        {"type": "response.completed", "response": done},
    )


def _told(*events: dict[str, object]) -> bytes:
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events
    )


ANSWERS: dict[str, Callable[[], bytes]] = {
    "/messages": _as_message,
    "/responses": _as_response,
    "/chat/completions": lambda: CHAT.spoken(ANSWER),
}


class _Model(http.server.BaseHTTPRequestHandler):
    """Answers every request of every wire format with the same sentence, as a stream."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        body = next((told() for end, told in ANSWERS.items() if path.endswith(end)), b"{}")
        self.send_response(200)
        self.send_header("Content-Type", CHAT.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def contestants(root: str, folder: Path) -> list[Contestant]:
    """Ourselves on the guide and on three wire formats, and every peer that is there."""
    plain = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

    def made(name: str, command: tuple[str, ...], environ: Mapping[str, str]) -> Contestant:
        home = folder / name.replace("/", "-").replace(" ", "-")
        home.mkdir()
        return Contestant(name, command, {**plain, "HOME": str(home), **environ}, home)

    ours = (sys.executable, "-m", "mindstone_tui", "run", QUESTION, "--model")
    keys = {
        "PYTHONPATH": str(ROOT),
        "MINDSTONE_RECALL__BACKGROUND": "false",
        "MINDSTONE_MODELS__BASE_URL": f"{root}/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_API_KEY": "none",
    }
    found = [
        made("mindstone local/guide", (*ours, "local/guide"), keys),
        made("mindstone openai/stub", (*ours, "openai/stub"), keys),
        made(
            "mindstone anthropic/stub",
            (*ours, "anthropic/claude-stub"),
            {**keys, "ANTHROPIC_BASE_URL": root},
        ),
        made("python -c pass", (sys.executable, "-c", "pass"), {}),
    ]
    for name in PEERS:
        if (program := _program(name)) is not None:
            found.append(_peer(name, program, root, made))
    return found


def _program(name: str) -> str | None:
    given = os.environ.get("MINDSTONE_PEERS")
    for place in [Path(given)] if given else []:
        for path in (place / name, *place.glob(f"*/bin/{name}"), *place.glob(f"*/{name}")):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path.absolute())
    return shutil.which(name)


def _peer(name: str, program: str, root: str, made: Make) -> Contestant:
    match name:
        case "llm":
            own = made(name, (program, "-m", "stub", QUESTION), {"OPENAI_API_KEY": "none"})
            settings = own.home / ".config" / "io.datasette.llm"
            settings.mkdir(parents=True)
            (settings / "extra-openai-models.yaml").write_text(
                f"- model_id: stub\n  model_name: stub\n  api_base: {root}/v1\n"
            )
            return own
        case "aider":
            options = ("--model", "openai/stub", "--openai-api-base", f"{root}/v1", "--no-git")
            quiet = ("--yes", "--no-check-update", "--no-analytics", "--no-show-model-warnings")
            command = (program, *options, *quiet, "--message", QUESTION)
            return made(name, command, {"OPENAI_API_KEY": "none"})
        case "claude":
            quiet_names = ("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER")
            environ = dict.fromkeys(quiet_names, "1") | {
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "ANTHROPIC_BASE_URL": root,
                "ANTHROPIC_API_KEY": "none",
            }
            return made(name, (program, "-p", QUESTION), environ)
        case _:
            asked = (program, "exec", "--skip-git-repo-check", QUESTION)
            own = made(name, asked, {"STUB_KEY": "none"})
            own.environ["CODEX_HOME"] = str(own.home)
            (own.home / "config.toml").write_text(
                'model = "stub"\nmodel_provider = "stub"\n[model_providers.stub]\nname = "stub"\n'
                f'base_url = "{root}/v1"\nwire_api = "responses"\nenv_key = "STUB_KEY"\n'
                "request_max_retries = 0\n[analytics]\nenabled = false\n"
            )
            return own


def take_turn(one: Contestant, least: Cost) -> bool:
    """Run it once and keep what is less than before; whether it gave the answer."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with tempfile.TemporaryFile() as heard:
        child = subprocess.Popen(
            one.command,
            stdin=subprocess.DEVNULL,
            stdout=heard,
            stderr=subprocess.DEVNULL,
            env=one.environ,
            cwd=one.home,
        )
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0
        wall = time.perf_counter() - began
        heard.seek(0)
        said = heard.read().decode(errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    least.wall = min(least.wall, wall)
    least.processor = min(least.processor, max(spent, used.ru_utime + used.ru_stime))
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    least.megabytes = min(least.megabytes, used.ru_maxrss / unit)
    return ANSWER in said


def main() -> None:
    """Measure and print a table, or one JSON object."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    costs: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory() as folder:
        field = contestants(f"http://127.0.0.1:{server.server_port}", Path(folder))
        for _ in range(ROUNDS + 1):  # once more than is said: the first warms the files
            for one in list(field):
                answered = take_turn(one, costs.setdefault(one.name, Cost()))
                if not answered and one.name not in ("mindstone local/guide", "python -c pass"):
                    print(f"{one.name} gave no answer and is left out", file=sys.stderr)
                    field.remove(one)
                    costs.pop(one.name)
    server.shutdown()
    if "--json" in sys.argv:
        print(json.dumps({name: msgspec.to_builtins(cost) for name, cost in costs.items()}))
        return
    base = costs["python -c pass"]
    print(f"{'one headless turn':28} {'wall':>8} {'processor':>10} {'memory':>9}  x bare Python")
    for name, cost in sorted(costs.items(), key=lambda item: item[1].processor):
        ratio = cost.processor / max(base.processor, 1e-6)
        figures = f"{cost.wall:7.2f}s {cost.processor:9.2f}s {cost.megabytes:6.0f} MB"
        print(f"{name:28} {figures}  {ratio:5.1f}")


if __name__ == "__main__":
    main()
