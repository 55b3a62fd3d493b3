"""How fast sessions of other programs are taken over, without vectors.

    python tests/bench/bench_import.py [FOLDER…]    files of the three programs, and these folders
    MINDSTONE_BENCH=full python …                   longer ones

The files are made: prompts, answers, calls and results in the sizes that real sessions have, where
what tools printed makes up most of the text. Rates are megabytes of file per second of processor
time of one process; beside them stands the rate of only parsing and hashing the same bytes, and
where the time went.
"""

from __future__ import annotations

import collections
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

FULL = os.environ.get("MINDSTONE_BENCH") == "full"
MEGABYTES = 24 if FULL else 4
BAR = 8.0
STAGES = (
    ("index: words", ("core/language/words.py",)),
    ("index: passages", ("recall/passages.py", "recall/catch_up.py")),
    ("index: tables", ("recall/store.py", "recall/index.py")),
    ("secrets", ("core/redaction/",)),
    ("read their file", ("interchange/formats/", "interchange/read_bytes.py")),
    ("lines and hashes", ("transcript/writer.py", "transcript/encode.py")),
    ("plan the window", ("session/import_window.py",)),
    ("profile", ("session/profile.py",)),
    ("what is new", ("interchange/",)),
)
"""Whose time it is: the innermost of these files on the stack."""


class Texts:
    """Real text in the sizes that sessions have it in."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        folder = Path(sysconfig.get_paths()["stdlib"])
        self._lines = [
            line
            for path in sorted(folder.glob("[a-m]*.py"))
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        ]

    def cut(self, size: int) -> str:
        """About so many characters of it."""
        at = self._chance.randrange(len(self._lines))
        taken: list[str] = []
        while size > 0:
            taken.append(self._lines[at % len(self._lines)])
            size -= len(taken[-1]) + 1
            at += 1
        return "\n".join(taken)

    def result(self) -> str:
        """What a tool printed: mostly little, now and then very much."""
        size = min(int(self._chance.lognormvariate(6.8, 1.6)), 60_000)
        text = self.cut(size)
        if self._chance.random() < 0.4:
            numbered = enumerate(text.splitlines(), self._chance.randrange(1, 900))
            return "\n".join(f"{number:6}→{line}" for number, line in numbered)
        return text

    def said(self) -> str:
        """A few sentences: the comments of the same files read like them."""
        return " ".join(self.cut(self._chance.randrange(60, 700)).replace("#", " ").split())

    def name(self, prefix: str) -> str:
        return f"{prefix}{self._chance.getrandbits(96):024x}"

    def some(self, most: int) -> range:
        return range(self._chance.randrange(1, most))


def _claude(texts: Texts) -> Iterator[dict[str, Any]]:
    session = "6f1d9b1e-0000-4000-8000-000000000001"
    around = {"isSidechain": False, "userType": "external", "cwd": "/home/ada/loom",
              "sessionId": session, "version": "2.1.0", "gitBranch": "main"}  # fmt: skip
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 812, "output_tokens": 311,
             "cache_read_input_tokens": 40_112, "service_tier": "standard"}  # fmt: skip
    before = None

    def line(kind: str, message: dict[str, Any], number: int, **more: Any) -> dict[str, Any]:
        nonlocal before
        uuid = texts.name("")
        record = {"parentUuid": before, **around, "type": kind, "message": message, "uuid": uuid,
                  "timestamp": _moment(number), **more}  # fmt: skip
        before = uuid
        return record

    for number in range(1 << 30):
        yield line("user", {"role": "user", "content": texts.said()}, number)
        for _ in texts.some(9):
            head = {"model": "claude-sonnet-4-5", "id": texts.name("msg_"), "type": "message",
                    "role": "assistant", "usage": usage}  # fmt: skip
            call = texts.name("toolu_")
            command = {"command": texts.cut(60), "description": "Look at the module"}
            use = {"type": "tool_use", "id": call, "name": "Bash", "input": command}
            yield line("assistant", {**head, "content": [use]}, number)
            text = texts.result()
            given = {"type": "tool_result", "tool_use_id": call, "content": text}
            shown = {"stdout": text[:30_000], "stderr": "", "interrupted": False}
            message = {"role": "user", "content": [given]}
            yield line("user", message, number, toolUseResult=shown)
        answer = {**head, "content": [{"type": "text", "text": texts.said()}]}
        yield line("assistant", answer, number)


def _codex(texts: Texts) -> Iterator[dict[str, Any]]:
    meta = {"id": "019f0000-0000-7000-8000-000000000001", "cwd": "/home/ada/loom",
            "originator": "codex_cli_rs", "cli_version": "0.133.0"}  # fmt: skip
    yield {"timestamp": _moment(0), "type": "session_meta", "payload": meta}
    for number in range(1 << 30):

        def item(kind: str, at: int = number, **payload: Any) -> dict[str, Any]:
            return {"timestamp": _moment(at), "type": kind, "payload": payload}

        asked = [{"type": "input_text", "text": texts.said()}]
        yield item("response_item", type="message", role="user", content=asked)
        for _ in texts.some(9):
            call = texts.name("call_")
            arguments = json.dumps({"cmd": texts.cut(60), "workdir": "/home/ada/loom"})
            yield item("response_item", type="reasoning", summary=[], encrypted_content=call * 20)
            yield item("response_item", type="function_call", name="exec_command",
                       arguments=arguments, call_id=call)  # fmt: skip
            output = f"Process exited with code 0\nOutput:\n{texts.result()}"
            yield item("response_item", type="function_call_output", call_id=call, output=output)
        said = texts.said()
        yield item("event_msg", type="agent_message", message=said)
        content = [{"type": "output_text", "text": said}]
        yield item("response_item", type="message", role="assistant", content=content)


def _gemini(texts: Texts) -> Iterator[dict[str, Any]]:
    yield {"sessionId": "6f1d9b1e-0000-4000-8000-000000000002", "projectHash": "ab" * 32,
           "startTime": _moment(0), "lastUpdated": _moment(0)}  # fmt: skip
    for number in range(1 << 30):
        yield {"id": texts.name("u"), "timestamp": _moment(number), "type": "user",
               "content": texts.said()}  # fmt: skip
        calls = []
        for _ in texts.some(9):
            call = texts.name("c")
            text = texts.result()
            response = {"id": call, "name": "run_shell_command", "response": {"output": text}}
            calls.append({"id": call, "name": "run_shell_command", "status": "success",
                          "args": {"command": texts.cut(60)}, "resultDisplay": text[:2_000],
                          "result": [{"functionResponse": response}],
                          "timestamp": _moment(number)})  # fmt: skip
        yield {"id": texts.name("g"), "timestamp": _moment(number), "type": "gemini",
               "content": texts.said(), "toolCalls": calls, "model": "gemini-2.5-pro",
               "tokens": {"input": 9_000, "output": 200, "cached": 0, "thoughts": 0}}  # fmt: skip


def _moment(number: int) -> str:
    return f"2026-03-{1 + number // 400 % 28:02}T{number // 20 % 20:02}:{number % 60:02}:00.000Z"


PROGRAMS: tuple[tuple[str, Callable[[Texts], Iterator[dict[str, Any]]]], ...] = (
    ("claude-code", _claude),
    ("codex", _codex),
    ("gemini-cli", _gemini),
)


def made(folder: Path, name: str, size: int) -> Path:
    """A session file of a program, at least so many bytes long."""
    path = folder / name / "session-made.jsonl"
    path.parent.mkdir()
    records = dict(PROGRAMS)[name](Texts(len(name)))
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            file.write(json.dumps(next(records), ensure_ascii=False) + "\n")
    return path.parent


def imported(source: Path, home: Path) -> tuple[float, int]:
    """Processor seconds and megabytes of `mindstone import`, the whole command."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "MINDSTONE_HOME": str(home)}
    environ |= {"MINDSTONE_RECALL__BACKGROUND": "false"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "mindstone_tui", "import", str(source), "--no-wait"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environ, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, after.ru_maxrss >> 10


def parsed_and_hashed(source: Path) -> float:
    """Processor seconds of only looking at the same bytes."""
    import hashlib

    import msgspec

    start = time.process_time()
    for path in source.rglob("*"):
        if path.is_file():
            for line in path.read_bytes().splitlines():
                hashlib.sha256(line)
                msgspec.json.decode(line)
    return time.process_time() - start


def stages(source: Path, home: Path) -> dict[str, float]:
    """Which share of an import each stage has, seen a thousand times a second."""
    os.environ["MINDSTONE_HOME"] = str(home)
    from mindstone_tui.core.config import load
    from mindstone_tui.core.interchange.import_session import sources
    from mindstone_tui.core.library.take_over import Importer
    from mindstone_tui.core.paths import Places

    places = Places.resolve(os.environ)
    seen: collections.Counter[str] = collections.Counter()

    def look(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            file = frame.f_code.co_filename
            for name, parts in STAGES:
                if any(part in file for part in parts):
                    seen[name] += 1
                    return
            frame = frame.f_back
        seen["the rest"] += 1

    importer = Importer(
        places,
        load(places, os.environ).settings,
        os.environ,
        progress=lambda part, done, total: None,
        on_busy=lambda key: None,
    )
    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    for path in sources(source):
        for _ in importer.take(path, None, "records"):
            pass
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)
    total = sum(seen.values()) or 1
    return {name: round(count / total, 3) for name, count in seen.most_common()}


def main() -> None:
    scratch = Path(tempfile.mkdtemp(prefix="mindstone-bench-", dir=os.environ.get("BENCH_DIR")))
    rows: list[dict[str, Any]] = []
    try:
        given = [(Path(name).name, Path(name)) for name in sys.argv[1:]]
        ours = [(name, made(scratch, name, MEGABYTES << 20)) for name, _ in PROGRAMS]
        for name, source in (*ours, *given):
            size = sum(path.stat().st_size for path in source.rglob("*") if path.is_file()) / 1e6
            spent, memory = imported(source, scratch / f"home-{len(rows)}")
            rows.append(
                {
                    "source": name,
                    "megabytes": round(size, 1),
                    "seconds": round(spent, 2),
                    "rate": round(size / spent, 2),
                    "times_parsing": round(spent / parsed_and_hashed(source), 1),
                    "memory": memory,
                    "stages": stages(source, scratch / f"stages-{len(rows)}"),
                }
            )
            row = rows[-1]
            sound = "ok" if row["rate"] >= BAR else "UNDER"
            print(
                f"{name:<16} {size:6.1f} MB {spent:6.2f} s {row['rate']:6.2f} MB/s (bar {BAR:.0f})"
                f" {sound:<6} {row['times_parsing']:5.1f} x parsing and hashing, {memory} MB",
                flush=True,
            )
            shares = ", ".join(f"{each} {share:.0%}" for each, share in row["stages"].items())
            print(f"{'':<16} {shares}", flush=True)
    finally:
        shutil.rmtree(scratch)
    print(json.dumps({"bench": "import", "rows": rows}))


if __name__ == "__main__":
    main()
