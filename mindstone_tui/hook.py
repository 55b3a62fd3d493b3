"""`mindstone hook PROGRAM`: what an attached program calls at certain moments.

Imports almost nothing, because another program waits for it. It hands the moment to the resident
over its socket, prints what came back, and ends: within a second, with code 0, whatever happens;
only a call that a rule may refuse waits longer where the machine is busy.
Where no resident listens it starts one; where none can be had, a recorder of its own takes the
program's session file over after the hook has left, and before a tool the rules are asked without
one. Why it could do nothing is a line in the log.
"""

import os
import sys
import time

BUDGET = 0.85
"""Seconds for everything, Python's own start not counted."""
_BEFORE_A_CALL = 3.0
"""The same for a call that a rule may refuse: it waits for a busy machine and does not slip by."""
_LONGEST_INPUT = 64 << 20
_SENT_AS_IT_IS = 256 << 10
"""Bytes of a moment that are passed on unread; of a longer one, only what is needed."""
_LONGEST_PROMPT = 100_000
_LONGEST_ANSWER = 1 << 20
_ROOM = 256 << 10
"""Bytes below which a disk counts as full."""
_STARTING = 8.0
"""Seconds that a resident may take to listen."""
_ALONE = 5.0
"""Seconds for what the rules say where no resident can be had; programs give these hooks nine."""
_FIELDS = ("hook_event_name", "session_id", "transcript_path", "cwd", "prompt", "source")
_READS = (b"SessionStart", b"UserPromptSubmit", b"BeforeAgent")
"""Events whose answer the program reads."""
_ANSWERS = (b'{"hookSpecificOutput":', b'{"decision":')
"""How what a program reads begins."""
_RESULT = b'"result":'
_NO_BRACKETS = bytes(sign for sign in range(256) if sign not in b"{}[]")
_MOST_BRACKETS = 500_000
"""More would take longer to look at than a hook has."""


def main(arguments: "list[str]") -> int:
    """Tell the resident, print what it answers; never fail."""
    before = arguments[1:2] == ["before"]
    until = time.monotonic() + (_BEFORE_A_CALL if before else BUDGET)
    program = state = ""
    try:
        program, state, home = _called_with(arguments)
        said = _said(sys.stdin.buffer.read(_LONGEST_INPUT), before=before)
        is_read = before or any(name in said for name in _READS)
        if (answer := _ask(state, program, said, until)) is None and _is_full(state):
            _note(state, f"hook {program}: the disk is full or cannot be written to")
        elif answer is None:
            _start(state, home, said, records=not is_read)
            if is_read:
                answer = _ask_again(state, program, said, until)
        if before and not answer:
            answer = _alone(home, program, said)
        if answer and answer.startswith(_ANSWERS):
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.flush()
        elif before and not answer:
            _note(state, f"hook {program}: a call was let through, nobody could check it in time")
    except Exception as error:  # whatever it is, it must not reach the other program
        _note(state, f"hook {program}: {type(error).__name__} {error}")
    return 0


def _note(state: str, said: str) -> None:
    """Leave a line in the log, where the last one does not say the same; never fail."""
    line = f" {' '.join(said.split())}\n".encode(errors="backslashreplace")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        log = os.open(f"{state}/mindstone.log", flags, 0o600)
        end = os.lseek(log, 0, os.SEEK_END)
        os.lseek(log, max(end - len(line), 0), os.SEEK_SET)
        if os.read(log, len(line)) != line:
            moment = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
            os.write(log, f"{moment} pid {os.getpid()}".encode() + line)
        os.close(log)
    except (OSError, ValueError):
        return


def _called_with(arguments: "list[str]") -> "tuple[str, str, str]":
    """The program, the folder where the resident says where it listens, and our home if named."""
    words = list(arguments)
    home, state = _option(words, "--home"), _option(words, "--state")
    home = home or os.environ.get("MINDSTONE_HOME", "")
    if home:
        state = f"{home}/state"
    elif not state:
        from mindstone_tui.core.paths import Places  # 0.1 s, and a hook has 20 ms

        state = str(Places.resolve(os.environ).state)
    return words[0], state, home


def _option(words: "list[str]", name: str) -> str:
    """The value of an option, which is taken out of the words."""
    if name not in words:
        return ""
    at = words.index(name)
    value = words[at + 1]
    del words[at : at + 2]
    return value


def _said(raw: bytes, *, before: bool) -> bytes:
    """The moment on one line; a long one without the tool's result, which stands in the file."""
    if len(raw) > _SENT_AS_IT_IS and not before:
        import json

        known = json.loads(raw)
        found = {name: known[name] for name in _FIELDS if isinstance(known.get(name), str)}
        found["prompt"] = found.get("prompt", "")[:_LONGEST_PROMPT]
        raw = json.dumps(found).encode()
    line = raw.replace(b"\r", b" ").replace(b"\n", b" ").strip()
    if not _is_one_object(line):
        raise ValueError
    return line


def _is_one_object(line: bytes) -> bool:
    """Whether its first bracket is closed by its last sign: what ends before could be followed by
    members of the request that it becomes part of."""
    strings = line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    signs = b"".join(strings[::2]).translate(None, _NO_BRACKETS)
    depth = 0
    for at, sign in enumerate(signs, 1):
        depth += 1 if sign in b"{[" else -1
        if (depth <= 0 and at < len(signs)) or at > _MOST_BRACKETS:
            return False
    return line.startswith(b"{") and line.endswith(b"}") and depth == 0 and len(strings) % 2 == 1


def _ask(state: str, program: str, said: bytes, until: float) -> "bytes | None":
    """The resident's answer; None where nobody listens, empty where it takes too long."""
    # `socket` itself, and `json`, would cost more than everything else here together.
    from _socket import AF_UNIX, SOCK_STREAM, socket

    try:
        address = _text(_small_file(f"{state}/serve.json"), b"socket")
        line = socket(AF_UNIX, SOCK_STREAM)
        line.settimeout(_left(until))
        line.connect(address)
    except (OSError, ValueError, LookupError):
        return None
    head = b'{"jsonrpc":"2.0","id":1,"method":"hook","params":{"program":"' + program.encode()
    heard = b""
    try:
        line.sendall(head + b'","said":' + said + b"}}\n")
        while not heard.endswith(b"\n") and len(heard) < _LONGEST_ANSWER:
            line.settimeout(_left(until))
            if not (piece := line.recv(1 << 16)):
                return None
            heard += piece
    except TimeoutError:
        return b""
    except OSError:
        return None
    finally:
        line.close()
    whole = heard.rstrip()
    if _RESULT not in whole:
        return b""
    return whole[whole.index(_RESULT) + len(_RESULT) : -1]


def _ask_again(state: str, program: str, said: bytes, until: float) -> "bytes | None":
    """Ask the resident that was just started, as soon as it listens."""
    while time.monotonic() < until - 0.02:
        time.sleep(0.02)
        if (answer := _ask(state, program, said, until)) is not None:
            return answer
    return None


def _alone(home: str, program: str, said: bytes) -> "bytes | None":
    """What the rules say to a call, found out without a resident; None where that fails, too."""
    from subprocess import SubprocessError, run  # 10 ms, and only where nobody listens

    command = "from mindstone_tui.servers.attached import alone; alone()"
    environ = {**os.environ, **({"MINDSTONE_HOME": home} if home else {})}
    words = [sys.executable, "-P", "-c", command, program]
    try:
        done = run(words, input=said, capture_output=True, env=environ, timeout=_ALONE, check=True)
    except (OSError, SubprocessError):
        return None
    return done.stdout


def _text(encoded: bytes, name: bytes) -> str:
    """A member of a small JSON object that is a text."""
    _, _, rest = encoded.partition(b'"' + name + b'":"')
    found, end, _ = rest.partition(b'"')
    if not end or b"\\" in found:
        import json

        return str(json.loads(encoded)[name.decode()])
    return found.decode()


def _small_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)


def _start(state: str, home: str, said: bytes, *, records: bool) -> None:
    """Start a resident for the next hook, and a recorder for this one."""
    environ = {**os.environ, **({"MINDSTONE_HOME": home} if home else {})}
    python = [sys.executable, "-P", "-m", "mindstone_tui"]  # never a module of the project
    if _may_start(state):
        _leave_behind([*python, "serve", "--on-demand", "--json"], environ)
    if records:
        import json

        if isinstance(file := json.loads(said).get("transcript_path"), str) and file:
            _leave_behind([*python, "watch", "--once", file], environ)


def _is_full(state: str) -> bool:
    """Whether the disk takes nothing from a resident, which nobody should then wait for."""
    try:
        disk = os.statvfs(state)
    except OSError:
        return False
    return bool(disk.f_flag & os.ST_RDONLY) or disk.f_bavail * disk.f_frsize < _ROOM


def _may_start(state: str) -> bool:
    """Whether no other hook started a resident a moment ago, which may still be on its way."""
    stamp = f"{state}/hook-started"
    try:
        if time.time() - os.stat(stamp).st_mtime < _STARTING:  # noqa: PTH116 - pathlib costs a start
            return False
    except FileNotFoundError:
        pass  # without its folder there is no home any more, and opening it says so
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
