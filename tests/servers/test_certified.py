"""After a compaction a program is given what it lost, word for word, and nothing that it kept.

`make agents` fetches the real programs; where they are not, their tests are skipped. The suite
gives Claude Code the worst summary, `make neighbours` each of them every kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.derived import CompactionCertified
from mindstone_tui.core.events.narrate_entry import of_entry
from mindstone_tui.core.library.compactions import compactions
from mindstone_tui.core.paths import Places
from mindstone_tui.core.transcript import History
from tests.core.library.test_live_import import ClaudeFile
from tests.faults import FULL
from tests.loopback.server import Call, Write
from tests.servers import test_agents as agents
from tests.servers.test_agents import Desk, desk_for, in_order, program
from tests.servers.test_attached import Stage
from tests.servers.test_enforced import COMPACTS, as_messages, as_responses

__all__ = ["desk_for"]
SET = "Never force push"
RULE = "Never rename the staging port 5433."
DECISION = "We decided to use SQLite for the cache."
TASK = "Fix how src/parser.py reads tabs in quoted fields."
FAILS, BUILDS = "ls tests/tabs", "echo built"
MISSING = "ls: cannot access 'tests/tabs': No such file or directory"
NEXT = "Next, the empty fields."
SUMMARIES = {
    "good": "Rules: no force pushes, and they said not to rename staging's port (5433).\n"
    "The cache uses SQLite, as decided.\nTask: fixing how tabs in a quoted field are read by "
    f"`src/parser.py`.\n- `{FAILS}` gave exit code 2: {MISSING}\n- ran `{BUILDS}`\n"
    "- next come the empty fields",
    "mediocre": "They renamed the staging port 5433. The cache uses SQLite, as decided. "
    f"They ran {BUILDS}.",
    "useless": "The user and the assistant worked on a parser.",
}
LOST = {
    "good": [],
    "mediocre": [SET, RULE, TASK, NEXT, FAILS],
    "useless": [SET, RULE, DECISION, TASK, NEXT, FAILS, BUILDS],
}
"""Saying that the port was renamed does not keep the rule against it."""


def told(answer: str) -> ClaudeFile:
    """A session in which things were settled, done and left open."""
    now = ClaudeFile("now", "/app")
    by = {"role": "assistant", "model": "opus"}
    now.add("user", role="user", content=f"{DECISION} {RULE}")
    now.add("assistant", id="m0", content=[{"type": "text", "text": "Noted."}], **by)
    now.add("user", role="user", content=TASK)
    for at, (command, gave) in enumerate([(FAILS, f"Exit code 2\n{MISSING}"), (BUILDS, "built")]):
        call = {"type": "tool_use", "id": f"c{at}", "name": "Bash", "input": {"command": command}}
        now.add("assistant", id=f"m{at + 1}", content=[call], **by)
        result = {"type": "tool_result", "tool_use_id": f"c{at}", "content": gave}
        now.add("user", role="user", content=[{**result, "is_error": MISSING in gave}])
    now.add("assistant", id="m3", content=[{"type": "text", "text": answer}], **by)
    return now


def compact(file: Path, summary: str, preserved: tuple[str, ...] = ()) -> None:
    """What Claude Code appends when it has compacted."""
    when = (datetime.now(UTC) + timedelta(seconds=5)).isoformat().replace("+00:00", "Z")
    kept = {"preservedMessages": {"uuids": preserved}}
    border = {"type": "system", "subtype": "compact_boundary", "compactMetadata": kept}
    said: dict[str, Any] = {"type": "user", "isCompactSummary": True, "timestamp": when}
    said["message"] = {"role": "user", "content": summary}
    lines = [json.dumps(one, separators=(",", ":")) for one in (border, said)]
    file.write_text("".join([*file.read_text(), *(f"{line}\n" for line in lines)]))


def rows(given: str) -> list[str]:
    """What was given back, without its pointers."""
    return [row.partition(": ")[2] for row in given.splitlines() if row.startswith("- ")]


def certificates(places: Places) -> list[Line]:
    found: list[Line] = []
    for own in places.sessions():
        with History(own) as history:
            found += [
                line
                for line in history.read()
                if isinstance(line, Line) and isinstance(line.entry, CompactionCertified)
            ]
    return found


def check_lost(given: list[str], summary: str) -> None:
    lost = LOST[summary]
    assert len(given) == len(lost)
    assert all(words.startswith(each) for words, each in zip(given, lost, strict=True))


@pytest.mark.parametrize("summary", SUMMARIES)
async def test_the_next_prompt_is_given_what_the_summary_lost_once(
    tmp_path: Path, summary: str
) -> None:
    stage = Stage(tmp_path)
    stage.rule(SET)
    file = tmp_path / "now.jsonl"
    file.write_text("".join(told(f"Done. {NEXT}").lines).replace('": ', '":'))
    at = {"transcript_path": str(file)}
    await stage.call("Stop", **at)
    await stage.call("PreCompact", trigger="manual", **at)
    assert await stage.call("SessionStart", source="compact", **at) == ""
    compact(file, SUMMARIES[summary])
    asked = "Which staging port must we not rename?"
    given = await stage.call("UserPromptSubmit", prompt=asked, **at)
    check_lost(rows(given), summary)
    assert given.count(RULE) <= 1
    assert rows(await stage.call("UserPromptSubmit", prompt=asked, **at)) == []
    await stage.attached.close()
    (line,) = certificates(stage.home.places)
    whole, lost = len(LOST["useless"]), len(LOST[summary])
    said = f"{whole - lost} of {whole} kept" + (f", {lost} given back" if lost else "")
    assert f"Compaction: {said}" in str(of_entry(line.entry, line.channel))
    table, data = compactions(stage.home.places)
    assert f"compaction at {line.ts[11:16]}: {said}" in table
    assert [(one["program"], one["kept"], one["lost"]) for one in data] == [
        ("claude-code", whole - lost, lost)
    ]


async def test_a_program_that_goes_on_by_itself_is_given_everything_before_its_summary_is_there(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    file = tmp_path / "now.jsonl"
    file.write_text("".join(told(f"Done. {NEXT}").lines).replace('": ', '":'))
    at = {"transcript_path": str(file)}
    await stage.call("PreCompact", trigger="auto", **at)
    given = await stage.call("SessionStart", source="compact", **at)
    check_lost([SET, *rows(given)], "useless")
    assert await stage.call("SessionStart", source="compact", **at) == ""
    compact(file, SUMMARIES["mediocre"])
    assert rows(await stage.call("UserPromptSubmit", prompt="Go on, please.", **at)) == []
    await stage.attached.close()
    (line,) = certificates(stage.home.places)
    assert isinstance(line.entry, CompactionCertified)
    assert len(line.entry.lost) == len(LOST["mediocre"]) - 1


async def test_a_program_whose_file_tells_nothing_is_given_everything_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    file = tmp_path / "now.jsonl"
    file.write_text("".join(told(f"Done. {NEXT}").lines))
    await stage.call("PreCompact", trigger="manual", transcript_path=str(file))
    given = await stage.call("SessionStart", source="compact")
    assert 'origin="mindstone compaction"' in given
    check_lost([SET, *rows(given)], "useless")
    asked = "Which staging port must we not rename?"
    assert RULE not in await stage.call("UserPromptSubmit", prompt=asked)
    await stage.attached.close()
    assert certificates(stage.home.places) == []


async def test_what_a_program_kept_beside_its_summary_is_not_lost(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    file = tmp_path / "now.jsonl"
    file.write_text("".join(told(f"Done. {NEXT}").lines).replace('": ', '":'))
    at = {"transcript_path": str(file)}
    await stage.call("PreCompact", trigger="manual", **at)
    compact(file, SUMMARIES["useless"], preserved=("now-0", "now-7"))
    given = rows(await stage.call("UserPromptSubmit", prompt="Go on, please.", **at))
    assert given[0] == TASK
    assert not {RULE, DECISION, NEXT} & set(given)
    await stage.attached.close()


class Scripted:
    """Runs two commands after the task, compacts with one summary, and else says what is next."""

    def __init__(self, answer: Callable[[str, tuple[str, str, Any] | None], Any], summary: str):
        self.answer = answer
        self.summary = summary
        self.left = [FAILS, BUILDS]

    def __call__(self, call: Call, write: Write) -> Any:
        said = json.dumps(call.body.get("messages", call.body.get("input", []))[-2:])
        works = b'"tools":[{' in call.raw and TASK.encode() in call.raw
        if any(words in said for words in COMPACTS):
            return self.answer(self.summary, None)(call, write)
        if works and self.left:
            asked = (f"call_{len(self.left)}", "Bash", {"command": self.left.pop(0)})
            return self.answer("", asked)(call, write)
        return self.answer(f"Done. {NEXT}", None)(call, write)


def check_the_next_request(desk: Desk, summary: str) -> None:
    """It holds each thing that was lost once, as it was said, and of the others none again."""
    asked = desk.server.calls[-1].raw.decode()
    assert SUMMARIES[summary][:20] in asked, "nothing was compacted, so nothing is proven"
    for each in LOST["useless"]:
        assert asked.count(f": {each}") == (each in LOST[summary]), each
    for each in (SET, RULE, DECISION, TASK):
        assert asked.count(each) <= 1, each


@pytest.mark.parametrize("summary", SUMMARIES if FULL else ["useless"])
@agents.seen("Claude Code", "rules")
def test_claude_code_goes_on_with_all_that_its_summary_lost(
    desk_for: Callable[[str], Desk], summary: str
) -> None:
    claude = program(f"@anthropic-ai/claude-code-linux-{agents.machine()}/claude")
    desk = desk_for("claude-code")
    desk.mindstone("rules", "add", SET, "--project")
    desk.mindstone("attach", "claude-code", "--yes")
    desk.server.play(Scripted(as_messages, SUMMARIES[summary]))
    for prompt in (f"{DECISION} {RULE} {TASK}", "/compact", "Go on, please."):
        go_on = ("--continue",) if TASK not in prompt else ()
        words = (*go_on, "-p", prompt, agents.HOOKS_ALONE, "--allowedTools", "Bash")
        desk.run(claude, *words, **agents._for_claude(desk))
        desk.barrier(in_order(desk.folder / ".claude/projects")[-1])
    check_the_next_request(desk, summary)
    (line,) = certificates(desk.places)
    assert isinstance(line.entry, CompactionCertified)
    assert len(line.entry.lost) == len(LOST[summary])


@agents.only_in_full
@agents.seen("Codex", "rules")
def test_codex_goes_on_with_all_that_its_summary_lost(desk_for: Callable[[str], Desk]) -> None:
    codex = agents._codex()
    desk = desk_for("codex")
    config = agents._set_up_codex(desk)
    # Whatever a command gives makes the window full.
    limit = "model_auto_compact_token_limit = 30\n"
    (desk.folder / ".codex/config.toml").write_text(f"{limit}{config}")
    desk.mindstone("rules", "add", SET, "--project")
    desk.mindstone("attach", "codex", "--yes")
    desk.server.play(Scripted(as_responses, SUMMARIES["useless"]))
    desk.run(*codex, f"{DECISION} {RULE} {TASK}", STUB_KEY="fake")
    desk.barrier(in_order(desk.folder / ".codex/sessions")[-1])
    asked = desk.server.calls[-1].raw.decode()
    assert SUMMARIES["useless"] in asked, "nothing was compacted, so nothing is proven"
    for each in (f"rule 1: {SET}", f"failing: {FAILS}", f"command: {BUILDS}", RULE, DECISION, TASK):
        assert asked.count(each) == 1, each  # it carries what the person said on by itself
    lines = [line.entry for line in certificates(desk.places)]
    assert [len(one.lost) for one in lines if isinstance(one, CompactionCertified)] == [2, 3]


@agents.only_in_full
@agents.seen("Claude Code", "rules")
def test_claude_code_that_compacts_by_itself_is_given_the_whole_list_once(
    desk_for: Callable[[str], Desk],
) -> None:
    claude = program(f"@anthropic-ai/claude-code-linux-{agents.machine()}/claude")
    desk = desk_for("claude-code")
    desk.mindstone("rules", "add", SET, "--project")
    desk.mindstone("attach", "claude-code", "--yes")
    model = Scripted(as_messages, SUMMARIES["mediocre"])
    model.left = ["seq 1 6000", *model.left]
    desk.server.play(model)
    full = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "5"}
    for prompt in (f"{DECISION} {RULE} {TASK}", "Go on, please.", "And now?"):
        told = agents._for_claude(desk) | (full if prompt == "Go on, please." else {})
        go_on = ("--continue",) if TASK not in prompt else ()
        desk.run(claude, *go_on, "-p", prompt, "--allowedTools", "Bash", **told)
        desk.barrier(in_order(desk.folder / ".claude/projects")[-1])
        if prompt != f"{DECISION} {RULE} {TASK}":
            asked = desk.server.calls[-1].raw.decode()
            assert SUMMARIES["mediocre"][:20] in asked, "nothing was compacted"
            for each in (SET, RULE, DECISION, TASK, FAILS, BUILDS):
                assert asked.count(f": {each}") == 1, each
    (line,) = certificates(desk.places)
    assert isinstance(line.entry, CompactionCertified)
    assert len(line.entry.lost) == len(LOST["mediocre"]) + 1
