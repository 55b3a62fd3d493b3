"""`mindstone hook PROGRAM`: what an attached program calls at certain moments.

Imports almost nothing, because another program waits for it. It hands the moment to the resident
over its socket, prints what came back, and ends: within a second, with code 0, whatever happens.
Where no resident listens it starts one; where none can be had, a recorder of its own takes the
program's session file over after the hook has left.
"""

import json
import os
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BUDGET = 0.85
"""Seconds for everything, Python's own start not counted."""
_LONGEST_INPUT = 64 << 20
_LONGEST_PROMPT = 100_000
_LONGEST_ANSWER = 1 << 20
_STARTING = 8.0
"""Seconds that a resident may take to listen."""
_FIELDS = ("session_id", "transcript_path", "cwd", "prompt", "source")
_CONTEXT = {"SessionStart", "UserPromptSubmit", "BeforeAgent"}
"""Events whose answer the program reads."""


def main(arguments: "list[str]") -> int:
    """Tell the resident, print what it answers; never fail."""
    until = time.monotonic() + BUDGET
    try:
        program, state, home = _called_with(arguments)
        call = _call(program, sys.stdin.buffer.read(_LONGEST_INPUT))
        answer = _ask(state, call, until)
        if answer is None:
            _start(state, home, call)
            if call["event"] in _CONTEXT:
                answer = _ask_again(state, call, until)
        text = (answer or {}).get("context")
        if isinstance(text, str) and text and call["event"] in _CONTEXT:
            said = {"hookEventName": call["event"], "additionalContext": text}
            sys.stdout.write(json.dumps({"hookSpecificOutput": said}) + "\n")
            sys.stdout.flush()
    except Exception:  # whatever it is, it must not reach the other program
        return 0
    return 0


def _called_with(arguments: "list[str]") -> "tuple[str, str, str]":
    """The program, the folder where the resident says where it listens, and our home if named."""
    words = list(arguments)
    home = state = ""
    if "--home" in words:
        at = words.index("--home")
        home = words[at + 1]
        state = f"{home}/state"
        del words[at : at + 2]
    if not state:
        from mindstone_tui.core.paths import Places

        state = str(Places.resolve(os.environ).state)
        home = os.environ.get("MINDSTONE_HOME", "")
    return words[0], state, home


def _call(program: str, raw: bytes) -> "dict[str, Any]":
    """What the resident is told of the moment: no tool's result, it stands in the file."""
    said = json.loads(raw)
    found = {name: said.get(name) for name in _FIELDS}
    call = {name: value for name, value in found.items() if isinstance(value, str)}
    call["prompt"] = call.get("prompt", "")[:_LONGEST_PROMPT]
    return {**call, "program": program, "event": str(said.get("hook_event_name", ""))}


def _ask(state: str, call: "dict[str, Any]", until: float) -> "dict[str, Any] | None":
    """The resident's answer; None where nobody listens, empty where it takes too long."""
    try:
        address = json.loads(_small_file(f"{state}/serve.json"))["socket"]
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(_left(until))
        line.connect(address)
    except (OSError, ValueError, KeyError):
        return None
    with line:
        message = {"jsonrpc": "2.0", "id": 1, "method": "hook", "params": call}
        heard = b""
        try:
            line.sendall(json.dumps(message).encode() + b"\n")
            while not heard.endswith(b"\n") and len(heard) < _LONGEST_ANSWER:
                line.settimeout(_left(until))
                piece = line.recv(1 << 16)
                if not piece:
                    return None
                heard += piece
            result = json.loads(heard).get("result")
        except TimeoutError:
            return {}
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) else {}


def _ask_again(state: str, call: "dict[str, Any]", until: float) -> "dict[str, Any] | None":
    """Ask the resident that was just started, as soon as it listens."""
    while time.monotonic() < until - 0.02:
        time.sleep(0.02)
        answer = _ask(state, call, until)
        if answer is not None:
            return answer
    return None


def _small_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)


def _start(state: str, home: str, call: "dict[str, Any]") -> None:
    """Start a resident for the next hook, and a recorder for this one."""
    environ = {**os.environ, **({"MINDSTONE_HOME": home} if home else {})}
    python = [sys.executable, "-P", "-m", "mindstone_tui"]  # never a module of the project
    if _may_start(state):
        _leave_behind([*python, "serve", "--on-demand", "--json"], environ)
    if (file := call.get("transcript_path")) and call["event"] not in _CONTEXT:
        _leave_behind([*python, "watch", "--once", file], environ)


def _may_start(state: str) -> bool:
    """Whether no other hook started a resident a moment ago, which may still be on its way."""
    stamp = f"{state}/hook-started"
    try:
        if time.time() - os.stat(stamp).st_mtime < _STARTING:  # noqa: PTH116 - pathlib costs a start
            return False
    except OSError:
        os.makedirs(state, 0o700, exist_ok=True)  # noqa: PTH103 - likewise
    os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    os.utime(stamp)
    return True


def _leave_behind(command: "list[str]", environ: "dict[str, str]") -> None:
    """Run something that this process does not wait for, and that outlives it."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    try:
        os.posix_spawn(command[0], command, environ, file_actions=quiet, setsid=True)
    except (OSError, NotImplementedError):
        return
