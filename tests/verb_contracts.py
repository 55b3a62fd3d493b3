"""Every verb's `--json` and exit code, as command lines that are run one after the other.

The fixture holds, for each command line, how it ended and the shape of what it printed: the path
and type of each field. It is only ever added to: `python -m tests.verb_contracts` appends the
lines of COMMANDS that it does not have yet and changes none of the others.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.cli.program import mindstone_here

FIXTURE: Final = Path(__file__).parent / "fixtures" / "contracts" / "verbs.json"
IMPORTS: Final = Path(__file__).parent / "fixtures" / "imports"

SCRIPT: Final = (
    {"text": "- [x] measure\n- [~] rewrite parse_block\n- [ ] release"},
    {"tool_calls": [{"name": "list", "arguments": {"path": "."}}]},
    {"text": "One file is here."},
    {"tool_calls": [{"name": "write", "arguments": {"path": "made.txt", "content": "one\n"}}]},
    {"text": "Written."},
)
"""What the model of these sessions says, reply by reply."""

COMMANDS: Final = """
task start "Speed up the parser | rule: no new files"
run --json --reports --model {model} "From now on always answer in British English."
run --json --reports --model {model} "What lies here?"
run --json --reports --model {model} --approve auto-edit "Write a file."
blame --json made.txt
blame --json nothing.txt
run -q --model {model} /context
run --json --reports --model {model} /health
run --json --reports --model {model} "/pin #3"
run --json --reports --model {model} "/undo 1"
run --json --reports --model {model} /frobnicate
run --json --reports --model {model} "One more than the script has."
task --json
checkpoint save --json
checkpoint show --json
checkpoint resume --json
handoff write --json
handoff show --json
handoff use --json
memory consolidate --json
memory --json
memory add --json "The staging port is 8790."
memory approve nothing --json
rules --json
rules add --json "Never force push"
rules check --json shell "git push -f"
rules check --json shell ls
rules why --json 1
rules report --json
rules retire --json 7
rules check --json shell
rules check --json teleport "git push -f"
health --json
health --compactions --json
context --json
context list --json
context detail --json
context --turn 1 --json
recall --json "which parser"
recall --auto --json "which parser did we measure?"
reindex --json
search --json parser
search --json zebra
fix --json
fix --json "no such file"
how --json ls
about --json made.txt
about --json " "
sessions --json
stats --json
log --json
log --redacted --json
verify --json
verify --all --json
sync --json .
sync --json ./nowhere
files --json
files --at 3 --json
files --at 99 --json
replay --turn 1 --prompt --json
replay --turn 1 --json
replay --turn 99 --json
replay --all --check --json
replay --plain --speed 0 --json
replay --what-if ceiling=80 --json
replay --what-if celing=50 --json
replay --prompt
compare --sample --json --modes cascade
import --json {imports}/claude-code.jsonl
import --json {imports}/claude-code.jsonl
import --json {imports}/codex.jsonl
import --json {imports}/missing.jsonl
import --json {imports}/README.md
watch --once {imports}/pi.jsonl --json
sessions --json --long
cost --json claude-code-5c1d7c1e-0000-4000-8000-000000000001
cost --json
cost --json nowhere
cost --what-if window=24000 --json claude-code-5c1d7c1e-0000-4000-8000-000000000001
cost --what-if windw=1 --json
resume --json main
attach claude-code --json --yes
attach claude-code --json --undo --yes
attach nothing --json
history status --json
history push --json main
models --json
models list --json
models add nothing
models remove nothing
config show --json
config path --json
config explain context.ceiling --json
config explain context.celing --json
config profiles --json
config set context.ceiling 71
config set context.ceiling hot
config set context.celing 71
doctor --json
export main -f json
export main -f md
export main -f nothing
serve --status --json
serve --stop
--help
run --json --approve sometimes hello
log --session nowhere --json
verify --session nowhere --json
recall --session nowhere --json word
context --session nowhere --json
replay --session nowhere --json --turn 1
resume --json nowhere
export nowhere
frobnicate
sessions --frobnicate
waiting --json
waiting answer 9 no
waiting maybe
run --json --reports --model {model} /waiting
tools list --json
tools add own --env KEY=secret -- no-such-program argument
tools add own -- other
tools add "two words" -- other
tools add own
tools list --json
tools test own --json
tools test nothing --json
tools import nowhere.json
tools remove own
tools remove own
"""
"""In this order, in one home that begins empty."""


class Ran(msgspec.Struct, frozen=True):
    """One command line: how it ended, and the fields of what it printed."""

    code: int
    shape: dict[str, str]


def run_all(home: Path) -> Iterator[tuple[str, Ran]]:
    """Run every command line beside this folder's own home, and say what came of each."""
    folder = home / "project"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "parser.py").write_text("def parse_block(): ...\n")
    script = home / "script.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in SCRIPT))
    for line in COMMANDS.strip().splitlines():
        words = shlex.split(line)
        given = [word.format(model=f"scripted/{script}", imports=IMPORTS) for word in words]
        done = mindstone_here(*given, cwd=folder)
        printed = done.stdout if {"--json", "json"} & set(words) else ""
        yield line, Ran(code=done.returncode, shape=_shape(printed))


def _shape(printed: str) -> dict[str, str]:
    """Each path with its type, or with all that it has where items of a list differ."""
    kinds: dict[str, set[str]] = {}
    for path, kind in _read(printed):
        kinds.setdefault(path, set()).add(kind)
    return {path: " or ".join(sorted(kinds[path])) for path in sorted(kinds)}


def _read(printed: str) -> Iterator[tuple[str, str]]:
    """The fields of what was printed; lines of JSON are told apart by what names their kind."""
    try:
        yield from _fields(json.loads(printed or "null"), "")
    except json.JSONDecodeError:
        for line in printed.splitlines():
            value = json.loads(line)
            yield from _fields(value, value.get("event") or value.get("kind") or "line")


def _fields(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _fields(inner, f"{path}.{name}")
    elif isinstance(value, list):
        yield path, "list"
        for item in value:
            yield from _fields(item, f"{path}[]")
    elif value is not None:
        kind = "number" if isinstance(value, int | float) and not isinstance(value, bool) else ""
        yield path, kind or type(value).__name__


def recorded() -> dict[str, list[Ran]]:
    """The fixture: each command line with its runs, for one may stand there twice."""
    if not FIXTURE.exists():
        return {}
    return msgspec.json.decode(FIXTURE.read_bytes(), type=dict[str, list[Ran]])


def broken(promised: Ran, ran: Ran) -> list[str]:
    """What a run no longer keeps of what was promised; new fields are welcome."""
    problems = [] if ran.code == promised.code else [f"ends with {ran.code}, not {promised.code}"]
    for path, kind in promised.shape.items():
        if (now := ran.shape.get(path)) != kind:
            problems.append(f"{path} is {now or 'gone'}, not {kind}")
    return problems


def _append() -> None:
    """Add what the fixture has not: in a home of its own, nothing of the developer's."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(MINDSTONE_HOME=f"{folder}/home", HOME=folder)
        os.environ["MINDSTONE_RECALL__BACKGROUND"] = "false"
        known, found = recorded(), dict[str, list[Ran]]()
        for line, ran in run_all(Path(folder)):
            print(ran.code, len(ran.shape), line, file=sys.stderr)
            found.setdefault(line, []).append(ran)
    rows = [f"{json.dumps(line)}: {_text(runs)}" for line, runs in (found | known).items()]
    FIXTURE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def _text(runs: list[Ran]) -> str:
    return msgspec.json.encode(runs).decode()


if __name__ == "__main__":
    _append()
