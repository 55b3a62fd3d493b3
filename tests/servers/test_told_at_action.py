"""The real Claude Code and Codex are told at the point of action what their last session learned.

`make agents` fetches the programs; where they are not, these tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.servers import test_agents as agents
from tests.servers.test_agents import Desk, desk_for, in_order, program
from tests.servers.test_enforced import Model, as_messages, as_responses

__all__ = ["desk_for"]
ASKED = "Free the port that settings.txt names, because the proxy owns 3000, and start it."
FAILS = "test -e freed || { echo 'Error: address already in use by the proxy' >&2; exit 1; }"
STEPS = (FAILS, "touch freed", FAILS)


def said_to(desk: Desk) -> str:
    """Everything that the model was sent last."""
    return json.dumps(desk.server.calls[-1].body)


def check_what_it_was_told(desk: Desk) -> None:
    told = said_to(desk)
    assert "because the proxy owns 3000" in told
    assert "About settings.txt, " in told
    assert "touch freed" in told
    assert told.count('origin=\\"mindstone memory\\"') == 2


@agents.seen("Claude Code", "at action")
def test_claude_code_is_told_what_a_file_was_changed_for_and_what_ended_an_error(
    desk_for: Callable[[str], Desk],
) -> None:
    claude = program(f"@anthropic-ai/claude-code-linux-{agents.machine()}/claude")
    desk = desk_for("claude-code")
    desk.mindstone("attach", "claude-code", "--yes")
    written = str(desk.project / "settings.txt")
    steps = [("Bash", {"command": command}) for command in STEPS]
    write = ("Write", {"file_path": written, "content": "port = 8443\n"})
    change = {"file_path": written, "old_string": "8443", "new_string": "9443"}
    for prompt, calls in (
        (ASKED, (write, *steps)),
        ("Try another one.", (("Read", {"file_path": written}), ("Edit", change), steps[0])),
    ):
        (desk.project / "freed").unlink(missing_ok=True)
        model = Model(as_messages, *calls)
        desk.server.play(model)
        model.prompted()
        tools = (agents.HOOKS_ALONE, "--allowedTools", "Bash,Read,Edit,Write")
        desk.run(claude, "-p", prompt, *tools, **agents._for_claude(desk))
        desk.barrier(in_order(desk.folder / ".claude/projects")[-1])
    check_what_it_was_told(desk)


@agents.only_in_full
@agents.seen("Codex", "at action")
def test_codex_is_told_what_a_file_was_changed_for_and_what_ended_an_error(
    desk_for: Callable[[str], Desk],
) -> None:
    codex = agents._codex()
    desk = desk_for("codex")
    agents._set_up_codex(desk)
    desk.mindstone("attach", "codex", "--yes")
    patch = "*** Begin Patch\n*** {} File: settings.txt\n{}\n*** End Patch"
    adds = patch.format("Add", "+port = 8443")
    updates = patch.format("Update", "@@\n-port = 8443\n+port = 9443")
    for prompt, commands in (
        (ASKED, (f"apply_patch <<'EOF'\n{adds}\nEOF\n", *STEPS)),
        ("Try another one.", (f"apply_patch <<'EOF'\n{updates}\nEOF\n", FAILS)),
    ):
        (desk.project / "freed").unlink(missing_ok=True)
        model = Model(as_responses, *(("Bash", {"command": one}) for one in commands))
        desk.server.play(model)
        model.prompted()
        desk.run(*codex, prompt, STUB_KEY="fake")
        desk.barrier(in_order(desk.folder / ".codex/sessions")[-1])
    check_what_it_was_told(desk)
