"""Makes the sample session that ships with the package: `python -m tests.sample.make`.

The story is written by hand in `story.txt`; what its tools return is made up here, the same in
every run. A test compares the shipped files with what this makes.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "mindstone_tui" / "core" / "interchange" / "sample"

NOUNS = [
    "reading",
    "station",
    "basin",
    "level",
    "window",
    "row",
    "batch",
    "gauge",
    "sample",
    "page",
]
VERBS = ["load", "check", "merge", "split", "count", "format", "store", "filter", "order", "close"]
ADJECTIVES = ["usable", "newest", "raw", "corrected", "rejected", "daily", "hourly", "open", "late"]
STATIONS = ["K3", "H1", "H2", "N7", "N8", "S2", "S5", "B1", "B4"]


def make() -> str:
    """The whole session as plain messages."""
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in _messages())


def _messages() -> Iterator[dict[str, Any]]:
    clock = datetime(2026, 2, 2, 9, tzinfo=UTC)
    turn = number = 0
    calls: list[tuple[str, str]] = []

    def message(role: str, content: str, **more: Any) -> dict[str, Any]:
        nonlocal number
        name = {"user": {"name": "Mara"}, "tool": {}, "assistant": {"model": "example/coder"}}[role]
        made = {"id": f"t{turn:03}-{number}", "role": role, **name, "content": content, **more}
        number += 1
        return {**made, "ts": clock.isoformat().replace("+00:00", "Z")}

    for line in (HERE / "story.txt").read_text(encoding="utf-8").splitlines():
        sign, _, rest = line.partition(" ")
        clock += timedelta(seconds=11 + len(rest) // 4)
        match sign:
            case "#":
                clock = datetime.fromisoformat(rest).replace(tzinfo=UTC)
            case ">":
                turn, number = turn + 1, 0
                clock += timedelta(seconds=95)
                yield message("user", rest)
            case "@":
                calls.append(_split_call(rest))
                name, argument = calls[-1]
                call = f"call_{turn:03}_{len(calls)}"
                wish = {"id": call, "name": name, "arguments": _arguments(name, argument)}
                yield message("assistant", _announced(name, len(calls)), tool_calls=[wish])
                clock += timedelta(seconds=2)
                yield message("tool", _result(name, argument, turn), tool_call_id=call)
            case "<":
                yield message("assistant", rest)
                calls.clear()
            case _:
                raise ValueError(f"not a line of a story: {line}")


def _split_call(text: str) -> tuple[str, str]:
    name, _, argument = text.partition(" ")
    return name, argument


def _announced(name: str, nth: int) -> str:
    if nth > 1:
        return ""
    return {"read": "Let me read it.", "grep": "I will search for it."}.get(name, "")


def _arguments(name: str, argument: str) -> dict[str, str]:
    subject, _, detail = argument.partition(" : ")
    match name:
        case "run":
            return {"command": subject}
        case "grep":
            pattern, _, folder = subject.rpartition(" ")
            return {"pattern": pattern.strip('"'), "path": folder}
        case "edit":
            return {"path": subject, "change": detail}
        case _:
            return {"path": subject}


def _result(name: str, argument: str, turn: int) -> str:
    subject, _, detail = argument.partition(" : ")
    dice = random.Random(hashlib.sha256(f"{turn} {argument}".encode()).digest())
    match name:
        case "read":
            return _file(subject, dice)
        case "edit":
            return _edited(subject, detail, dice)
        case "grep":
            return _hits(subject, dice)
        case "list":
            return "api/\nalert/\ningest/\nreport/\nstore/\nMakefile\nREADME.md\npyproject.toml"
        case _:
            return _output(subject, detail, dice)


def _file(path: str, dice: random.Random) -> str:
    match Path(path).suffix:
        case ".py":
            return _module(path, dice)
        case ".csv":
            rows = [
                f"{each},{dice.randint(-31, 31)},2026-01-{dice.randint(10, 28)}"
                for each in STATIONS
            ]
            return "station,datum_mm,surveyed\n" + "\n".join(rows)
        case ".sql":
            columns = ("station TEXT", "at TEXT", "level INTEGER", "quality TEXT")
            return "CREATE TABLE readings (\n  " + ",\n  ".join(columns) + "\n);"
        case ".md":
            points = [f"- {_sentence(dice)}" for _ in range(9)]
            return "# Harbour office\n\n" + "\n".join(points)
        case _:
            return '[tool.ruff]\nline-length = 88\n\n[tool.mypy]\nfiles = ["tidewatch"]'


def _module(path: str, dice: random.Random) -> str:
    """A module that could stand there."""
    stem = Path(path).stem
    pieces = [
        f'"""{stem.capitalize()}: {_sentence(dice)}"""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for _ in range(dice.randint(8, 14)):
        verb, noun, adjective = dice.choice(VERBS), dice.choice(NOUNS), dice.choice(ADJECTIVES)
        given = f"{noun}s: list[{noun.capitalize()}], limit: int = {dice.randint(2, 90)}"
        pieces += [
            "",
            f"def {verb}_{adjective}_{noun}s({given}) -> int:",
            f'    """{_sentence(dice)}"""',
            f"    {adjective} = [each for each in {noun}s if each.is_{adjective}]",
            f"    for each in {adjective}[:limit]:",
            f"        if each.{dice.choice(NOUNS)} > {dice.randint(10, 900)}:",
            f"            each.{dice.choice(VERBS)}(at={dice.randint(0, 59)})",
            f"    return len({adjective})",
            "",
        ]
    return "\n".join(pieces)


def _edited(path: str, detail: str, dice: random.Random) -> str:
    added, removed = dice.randint(4, 40), dice.randint(0, 18)
    context = dice.choice(VERBS)
    lines = [
        f"+    {dice.choice(VERBS)}_{dice.choice(NOUNS)}({dice.randint(1, 99)})"
        for _ in range(dice.randint(6, 16))
    ]
    lines += [
        f"-    {dice.choice(VERBS)}_{dice.choice(NOUNS)}()" for _ in range(dice.randint(0, 4))
    ]
    place = dice.randint(5, 80)
    hunk = f"@@ -{place},7 +{place},9 @@ def {context}_{dice.choice(NOUNS)}"
    return f"{path}: {detail} (+{added} -{removed})\n{hunk}\n" + "\n".join(lines)


def _hits(subject: str, dice: random.Random) -> str:
    pattern = subject.rpartition(" ")[0].strip('"')
    return "\n".join(
        f"tidewatch/{dice.choice(['ingest', 'store', 'alert', 'api'])}/{dice.choice(VERBS)}.py:"
        f"{dice.randint(3, 140)}: {dice.choice(NOUNS)} = {pattern}"
        for _ in range(dice.randint(2, 6))
    )


def _output(command: str, summary: str, dice: random.Random) -> str:
    if not command.startswith(("pytest", "make check")):
        return summary
    dots = "." * dice.randint(40, 72)
    steps = (
        ["ruff format --check .", "ruff check .", "mypy", "pytest -q"] if "make" in command else []
    )
    return "\n".join([*steps, dots, f"{summary} in {dice.randint(9, 49) / 10}s"])


def _sentence(dice: random.Random) -> str:
    verb, adjective = dice.choice(VERBS), dice.choice(ADJECTIVES)
    noun, other = dice.sample(NOUNS, 2)
    return f"{verb} every {adjective} {noun} before the next {other} arrives.".capitalize()


if __name__ == "__main__":
    (SHIPPED / "tidewatch.jsonl").write_text(make(), encoding="utf-8")
