"""Rules hold in the real Claude Code and Codex: refused with the person's words, again and again.

`make agents` fetches the programs; where they are not, these tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.derived import RuleFired
from mindstone_tui.core.transcript import History
from tests.loopback.formats import MESSAGES
from tests.loopback.server import Act, Call, Write
from tests.servers import test_agents as agents
from tests.servers.test_agents import Desk, desk_for, in_order, program

__all__ = ["desk_for"]
PUSH, VENDOR = "Never force push", "Never edit files under vendor/"
SUMMARY = "They worked on the parser."
"""What is left after a compaction: not a word of any rule."""
COMPACTS = ("CONTEXT CHECKPOINT", "detailed summary of the conversation")
"""How the programs ask for it."""


class Model:
    """Asks for each of these calls after every prompt, then says that it is done."""

    def __init__(self, answer: Callable[[str, tuple[str, str, Any] | None], Act], *calls: Any):
        self.answer = answer
        self.calls = calls
        self.left: list[tuple[str, Any]] = []
        self.asked = 0

    def prompted(self) -> None:
        self.left = list(self.calls)

    def __call__(self, call: Call, write: Write) -> Any:
        said = json.dumps(call.body.get("messages", call.body.get("input", []))[-2:])
        if any(words in said for words in COMPACTS):
            return self.answer(SUMMARY, None)(call, write)
        if '"tools":[{' not in call.raw.decode("utf-8", "replace") or not self.left:
            return self.answer("Done.", None)(call, write)
        name, arguments = self.left.pop(0)
        self.asked += 1
        return self.answer("", (f"call_{self.asked}", name, arguments))(call, write)


def as_messages(text: str, call: tuple[str, str, Any] | None) -> Act:
    if call is None:
        return MESSAGES.says(text)
    return MESSAGES.asks((call[0], call[1], json.dumps(call[2])))


def as_responses(text: str, call: tuple[str, str, Any] | None) -> Act:
    item: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    if call is not None:
        given = {"cmd": call[2]["command"]}
        item = {"type": "function_call", "call_id": call[0], "name": "exec_command"}
        item["arguments"] = json.dumps(given)
    return agents.responding(item)


def refusals(desk: Desk) -> list[str]:
    """What the model read in place of results, by the rule that it names, in order."""
    given: dict[str, str] = {}
    for call in desk.server.calls:
        body = call.body
        blocks = [one for one in body.get("input", []) if "output" in one]
        for message in body.get("messages", []):
            inside = message["content"]
            blocks += [one for one in inside if isinstance(one, dict) and "tool_use_id" in one]
        for one in blocks:
            given[one.get("call_id") or one["tool_use_id"]] = json.dumps(one)
    rules = (f'\\"{PUSH}\\" (your rule 1, ', f'\\"{VENDOR}\\" (your rule 2, ')
    return [words for text in given.values() for words in rules if words in text]


def fired(desk: Desk) -> list[tuple[int, str]]:
    """The rules that spoke, by the session that mirrors the program's."""
    found: list[tuple[int, str]] = []
    for own in desk.sessions():
        with History(own) as history:
            entries = [line.entry for line in history.read() if isinstance(line, Line)]
        found += [(one.number, one.verdict) for one in entries if isinstance(one, RuleFired)]
    return found


def check_that_it_compacted(desk: Desk) -> None:
    last = desk.server.calls[-1].raw.decode("utf-8", "replace")
    assert SUMMARY in last, "nothing was compacted, so nothing is proven"
    assert '"call_1"' not in last


def set_rules(desk: Desk) -> None:
    desk.mindstone("rules", "add", PUSH, "--project")
    desk.mindstone("rules", "add", VENDOR, "--project")


@agents.seen("Claude Code", "rules")
def test_claude_code_is_refused_what_the_rules_forbid_also_after_a_compaction(
    desk_for: Callable[[str], Desk],
) -> None:
    claude = program(f"@anthropic-ai/claude-code-linux-{agents.machine()}/claude")
    desk = desk_for("claude-code")
    set_rules(desk)
    desk.mindstone("attach", "claude-code", "--yes")
    vendored = desk.project / "vendor/a.c"
    vendored.parent.mkdir()
    vendored.write_text("int x;\n")
    edit = {"file_path": str(vendored), "old_string": "int", "new_string": "long"}
    model = Model(
        as_messages,
        ("Bash", {"command": "git push --force origin main"}),
        ("Read", {"file_path": str(vendored)}),
        ("Edit", edit),
        ("Bash", {"command": "ls -a > listed.txt"}),
    )
    desk.server.play(model)
    listed = desk.project / "listed.txt"
    for prompt in ("Push it.", "/compact", "Push it again."):
        model.prompted()
        listed.unlink(missing_ok=True)
        go_on = ("--continue",) if prompt != "Push it." else ()
        tools = (agents.HOOKS_ALONE, "--allowedTools", "Bash,Read,Edit")
        desk.run(claude, *go_on, "-p", prompt, *tools, **agents._for_claude(desk))
        desk.barrier(in_order(desk.folder / ".claude/projects")[-1])
        assert listed.exists() == (prompt != "/compact")
    assert len(refusals(desk)) == 4
    assert refusals(desk)[:2] == refusals(desk)[2:]
    assert fired(desk) == [(1, "deny"), (2, "deny")] * 2
    assert vendored.read_text() == "int x;\n"
    check_that_it_compacted(desk)


@agents.seen("Codex", "rules")
def test_codex_is_refused_what_the_rules_forbid_also_after_a_compaction(
    desk_for: Callable[[str], Desk],
) -> None:
    codex = agents._codex()
    desk = desk_for("codex")
    config = agents._set_up_codex(desk)
    # The stub says that each answer makes 15 tokens: the second prompt finds the window full.
    (desk.folder / ".codex/config.toml").write_text(
        f"model_auto_compact_token_limit = 50\n{config}"
    )
    set_rules(desk)
    desk.mindstone("attach", "codex", "--yes")
    patch = "*** Begin Patch\n*** Add File: vendor/a.c\n+x\n*** End Patch"
    model = Model(
        as_responses,
        ("Bash", {"command": "git push --force origin main"}),
        ("Bash", {"command": f"apply_patch <<'EOF'\n{patch}\nEOF\n"}),
        ("Bash", {"command": "ls -a > listed.txt"}),
    )
    desk.server.play(model)
    listed = desk.project / "listed.txt"
    for again in (False, True):
        model.prompted()
        listed.unlink(missing_ok=True)
        words = ("resume", "--last", "Push it again.") if again else ("Push it.",)
        desk.run(*codex, *words, STUB_KEY="fake")
        desk.barrier(in_order(desk.folder / ".codex/sessions")[-1])
        assert listed.exists()
    assert len(refusals(desk)) == 4
    assert refusals(desk)[:2] == refusals(desk)[2:]
    assert fired(desk) == [(1, "deny"), (2, "deny")] * 2
    assert not (desk.project / "vendor").exists()
    check_that_it_compacted(desk)
