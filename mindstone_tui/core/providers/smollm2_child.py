"""Runs the small language model in a process of its own.

Started as a plain script, so it imports nothing of the program. Requests are JSON lines on standard
input, answers are JSON lines on what was standard output; everything llama.cpp prints goes to
standard error. The library insists on listening somewhere: it gets a Unix socket in a private
folder that is removed before the first request. When standard input ends, so does the process.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Say = Callable[[dict[str, Any]], None]


def main() -> None:
    """Load the model, then answer one request after the other."""
    weights, window, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    say = _take_over_stdout()
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    try:
        server = _load(weights, window, threads)
    except Exception as error:  # whatever the library raises is told to the parent
        say({"error": f"the model cannot be loaded: {error}"})
        os._exit(1)
    say({"ready": True})
    while True:
        _answer(server, json.loads(asked.get()), say)


def _take_over_stdout() -> Say:
    """Keep the pipe for ourselves; whoever prints to standard output reaches the log."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        pipe.write(json.dumps(message) + "\n")
        pipe.flush()

    return say


def _listen(asked: queue.SimpleQueue[str]) -> None:
    """Pass requests on; the end of the input is the end of the process, even in mid-answer."""
    for line in sys.stdin:
        asked.put(line)
    os._exit(0)


def _load(weights: str, window: int, threads: int) -> Any:
    xllamacpp = importlib.import_module("xllamacpp")
    folder = Path(tempfile.mkdtemp(prefix="smollm2-"))
    try:
        params = xllamacpp.CommonParams()
        params.model.path = weights
        params.n_ctx = window
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.hostnames = [str(folder / "llama.sock")]
        params.offline = True
        params.ui = False
        params.warmup = False
        return xllamacpp.Server(params)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answer(server: Any, request: dict[str, Any], say: Say) -> None:
    def pass_on(chunk: dict[str, Any]) -> bool:
        say({"error": chunk["error"].get("message", "")} if "error" in chunk else {"chunk": chunk})
        return False

    try:
        server.handle_chat_completions(request, pass_on)
    except Exception as error:  # the parent decides what it means
        say({"error": str(error)})
    say({"done": True})


if __name__ == "__main__":
    main()
