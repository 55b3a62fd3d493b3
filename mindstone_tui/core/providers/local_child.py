"""Runs a language model in a process of its own.

Started as a plain script, so it imports nothing of the program. Requests are JSON lines on standard
input, answers are JSON lines on what was standard output; everything llama.cpp prints goes to
standard error. The library insists on listening somewhere: it gets a Unix socket in a private
folder that is removed before the first request, so nobody else can reach it. When standard input
ends, so does the process.

    {"id": 1, "body": {…}}   →   {"id": 1, "chunk": {…}} … {"id": 1, "done": true, "memory": …}
    {"stop": 1}                  ends an answer, or the reading of its prompt
"""

import importlib
import json
import os
import queue
import re
import resource
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH = 32
"""Tokens of a prompt that are read in one go: how soon a stop is heard, and how often the parent
hears that work goes on. More would not be quicker."""
KEPT_PROMPTS = 256
"""Megabytes for prompts that another request displaced, so that returning to one is quick."""

Say = Callable[[dict[str, Any]], None]


def main() -> None:
    """Load the model, then answer one request after the other."""
    weights, window, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    say = _take_over_stdout()
    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    stopped: set[int] = set()
    threading.Thread(target=_listen, args=(asked, stopped), daemon=True).start()
    try:
        server = _load(weights, window, threads)
    except Exception as error:  # whatever the library raises is told to the parent
        say({"error": f"the model cannot be loaded: {error}"})
        os._exit(1)
    say({"ready": True, "window": window})
    while True:
        _answer(server, asked.get(), stopped, say)


def _take_over_stdout() -> Say:
    """Keep the pipe for ourselves; whoever prints to standard output reaches the log."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        pipe.write(json.dumps(message) + "\n")
        pipe.flush()

    return say


def _listen(asked: queue.SimpleQueue[dict[str, Any]], stopped: set[int]) -> None:
    """Pass requests on; the end of the input is the end of the process, even in mid-answer."""
    for line in sys.stdin:
        message = json.loads(line)
        stopped.add(message["stop"]) if "stop" in message else asked.put(message)
    os._exit(0)


def _load(weights: str, window: int, threads: int) -> Any:
    library = importlib.import_module("xllamacpp")
    folder = Path(tempfile.mkdtemp(prefix="mindstone-"))
    try:
        params = library.CommonParams()
        params.model.path = weights
        params.n_ctx = window
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = BATCH
        params.cache_ram_mib = KEPT_PROMPTS
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.hostnames = [str(folder / "llama.sock")]
        params.offline = True
        params.ui = False
        params.warmup = False
        return library.Server(params)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answer(server: Any, message: dict[str, Any], stopped: set[int], say: Say) -> None:
    number, body = message["id"], message["body"]

    def pass_on(chunk: dict[str, Any]) -> bool:
        """Tell the parent; true ends the answer."""
        if "error" in chunk:
            say({"id": number, "error": chunk["error"].get("message", "")})
        else:
            say({"id": number, "chunk": chunk})
        return number in stopped

    try:
        if shape := body.pop("response_format", None):
            body["grammar"] = _grammar(shape["json_schema"]["schema"])
        if number not in stopped:
            server.handle_chat_completions(body, pass_on)
    except Exception as error:  # the parent decides what it means
        say({"id": number, "error": str(error)})
    stopped.discard(number)
    say({"id": number, "done": True, "memory": _memory()})


def _grammar(schema: dict[str, Any]) -> str:
    """The schema as a grammar that allows one way of writing each value: without blanks.

    Given as a schema, the library would leave the blanks to the model.
    """
    library = importlib.import_module("xllamacpp")
    one_way = {"whitespace_flexible": False, "key_separator": ":", "item_separator": ","}
    grammar: str = library.json_schema_to_grammar(json.dumps({**schema, "x-guidance": one_way}))
    return re.sub(r"(?m)^space ::= .*$", 'space ::= ""', grammar)


def _memory() -> int:
    """The most bytes of memory that this process has taken so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()
