"""What programs may rely on: the documented fields, as fixtures that are never regenerated.

A new field may be added to what a command prints; a field in a fixture may never disappear,
change its name or its type.
"""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mindstone_tui.cli.main import run
from mindstone_tui.core import events
from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.errors import ExitCode
from mindstone_tui.core.interchange.import_session import ImportReport
from mindstone_tui.core.replay.verify_requests import Proof, Rebuilt
from mindstone_tui.core.transcript import Verdict
from tests import verb_contracts
from tests.builders import say, transcript_in

FIXTURES = Path(__file__).parent / "fixtures" / "contracts"

DOCUMENTED = {
    "context": (
        "session model window.tokens window.label reserve usable prompt.tokens prompt.label "
        "prompt.error_percent utilization zone velocity turns_until_red marks components.name "
        "components.tokens components.limit components.soft components.hard blocks.entry "
        "blocks.kind blocks.turn blocks.tokens blocks.protected blocks.why outside.exchanges "
        "outside.tokens outside.indexed prompt_hash stable_prefix_tokens"
    ),
    "recall": (
        "query hits.score hits.parts hits.text hits.tokens hits.session hits.turn hits.ts "
        "hits.entries.id hits.entries.seq hits.entries.source_id abstained vectors"
    ),
    "verify": (
        "session ok entries head.seq head.hash problems.line problems.offset problems.kind "
        "problems.detail"
    ),
    "replay": "turn call messages tools hash recorded_hash matches",
    "replay_check": "requests matched mismatched",
    "import": "session format added already_there skipped.line skipped.why",
}
"""Every field that the documentation of a command names, by command."""

TYPED: dict[str, type[msgspec.Struct]] = {
    "context": ContextReport,
    "verify": Verdict,
    "replay": Rebuilt,
    "replay_check": Proof,
    "import": ImportReport,
}


def _fixture(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_bytes())


def _has(value: Any, path: str) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_has(item, path) for item in value)
    name, _, rest = path.partition(".")
    return isinstance(value, dict) and name in value and (not rest or _has(value[name], rest))


def _missing(value: Any, pattern: Any, path: str = "") -> list[str]:
    """Fields of a fixture that a value lacks."""
    if isinstance(pattern, dict) and isinstance(value, dict):
        return [
            problem
            for key, inner in pattern.items()
            for problem in (
                _missing(value[key], inner, f"{path}.{key}") if key in value else [f"{path}.{key}"]
            )
        ]
    if isinstance(pattern, list) and isinstance(value, list) and pattern and value:
        return _missing(value[0], pattern[0], f"{path}[]")
    return []


@pytest.mark.parametrize("command", DOCUMENTED)
def test_the_fixture_of_a_command_has_every_documented_field(command: str) -> None:
    fixture = _fixture(command)
    for path in DOCUMENTED[command].split():
        assert _has(fixture, path), path


@pytest.mark.parametrize("command", TYPED)
def test_what_a_command_prints_is_read_and_written_without_loss(command: str) -> None:
    fixture = _fixture(command)
    value = msgspec.convert(fixture, TYPED[command])
    assert not _missing(json.loads(msgspec.json.encode(value)), fixture)
    assert msgspec.convert(json.loads(msgspec.json.encode(value)), TYPED[command]) == value


def test_every_event_is_a_line_that_begins_with_its_name() -> None:
    lines = (FIXTURES / "run.jsonl").read_bytes().split(b"\n")[:-1]
    kinds = {kind.__struct_config__.tag: kind for kind in typing.get_args(events.AnyEvent)}
    names = set()
    for raw in lines:
        name = json.loads(raw)["event"]
        assert raw.startswith(f'{{"event":"{name}"'.encode())
        event = msgspec.json.decode(raw, type=kinds[name])
        assert not _missing(json.loads(msgspec.json.encode(event)), json.loads(raw))
        names.add(name)
    assert {"turn_started", "text_delta", "tool_asked", "turn_ended"} <= names


@pytest.mark.parametrize("kind", typing.get_args(events.AnyEvent))
def test_no_field_of_an_event_hides_what_every_event_has(kind: type[events.Event]) -> None:
    assert not set(kind.__struct_fields__) & set(dir(events.Event))


def test_exit_codes_are_what_the_documentation_says() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "FAILED": 1,
        "WRONG_USE": 2,
        "DECLINED": 3,
        "INTERRUPTED": 130,
    }


def test_verify_prints_what_its_fixture_promises(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    path.write_bytes(path.read_bytes().replace(b"question", b"Question"))
    assert run(["verify", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert not _missing(printed, _fixture("verify"))


def test_every_verb_keeps_the_fields_and_the_exit_codes_it_promised(tmp_path: Path) -> None:
    promised = {line: list(runs) for line, runs in verb_contracts.recorded().items()}
    problems = {}
    for line, ran in verb_contracts.run_all(tmp_path):
        assert promised.get(line), f"python -m tests.verb_contracts adds: {line}"
        if broken := verb_contracts.broken(promised[line].pop(0), ran):
            problems[line] = broken
    assert not problems
    assert not any(promised.values()), "a command line was taken out"


def test_a_field_that_is_gone_and_another_exit_code_are_noticed() -> None:
    promised = verb_contracts.Ran(code=0, shape={".hits": "list", ".hits[].score": "number"})
    now = verb_contracts.Ran(code=1, shape={".hits": "list", ".hits[].score": "str"})
    assert len(verb_contracts.broken(promised, now)) == 2
    assert not verb_contracts.broken(promised, promised)
